/* GPUs that copy: what the stand-ins for libcuda.so.1 and libamdhip64.so share.
 *
 * The memory of a GPU is memory of this process, copies are made at once, and time is a number that each queue adds to: size
 * over bandwidth, and a latency. So this proves that the calls are made right, in the right order, and that what is wrong is
 * seen; it says nothing about real GPUs, drivers or links.
 *
 *     [gpu 0000:41:00.0]
 *     to_gpu_gbs = 12.5           from_gpu_gbs, inside_gbs
 *     to_gpu_data = zeroed        from_gpu_data, inside_data: right, dropped, zeroed, partial, flipped, stale
 *     free_bytes = 1048576        of its memory
 *     [pair 0000:41:00.0 0000:81:00.0]
 *     can_access = 0              what is said when asked whether the first may access the second's memory
 *     grants = 217                the error that granting that access gives
 *     direct_gbs = 6.6            of copies from the first to the second; staged_gbs
 *     direct_us = 1.5             what each copy takes beside that; staged_us
 *     direct_data = dropped       as above; staged_data
 *     [library]
 *     right_copies = 3            so many copies between two GPUs are right before *_data begins to hold
 */
#include "scenario.h"

enum { HOST_MEMORY = -1, MOST_BLOCKS = 64 };

struct queue {
    int gpu;
    double time_s;
};

struct mark {
    int gpu, set;
    double time_s;
};

static struct block {
    char *begin;
    size_t size;
    int gpu;
} blocks[MOST_BLOCKS];

static char granted[MOST_GPUS][MOST_GPUS];

static struct block *block_of(const void *address) {
    for (int at = 0; at < MOST_BLOCKS; at++)
        if (blocks[at].begin && (const char *)address >= blocks[at].begin &&
            (const char *)address < blocks[at].begin + blocks[at].size)
            return &blocks[at];
    return NULL;
}

/* Whether that much memory of that GPU, or of the host, is at that address. */
static int holds(const void *address, size_t size, int gpu) {
    struct block *block = block_of(address);
    return block && block->gpu == gpu && (const char *)address + size <= block->begin + block->size;
}

static void *take_memory(int gpu, size_t size) {
    size_t used = 0;
    for (int at = 0; at < MOST_BLOCKS; at++)
        if (blocks[at].begin && blocks[at].gpu == gpu)
            used += blocks[at].size;
    if (gpu >= 0 && used + size > (size_t)gpu_number(gpus[gpu], "free_bytes", 24LL << 30))
        return NULL;
    for (int at = 0; at < MOST_BLOCKS; at++)
        if (!blocks[at].begin) {
            blocks[at] = (struct block){aligned_alloc(4096, (size + 4095) / 4096 * 4096), size, gpu};
            return blocks[at].begin;
        }
    return NULL;
}

static int give_memory_back(void *address, int gpu) {
    struct block *block = block_of(address);
    if (!block || block->begin != address || block->gpu != gpu)
        return 0;
    free(block->begin);
    block->begin = NULL;
    return 1;
}

static const char *pair_text(int from, int to, const char *key, const char *otherwise) {
    char section[64];
    snprintf(section, sizeof section, "pair %.25s %.25s", gpus[from], gpus[to]);
    const char *found = find(section, key);
    if (!found)
        found = find("pair", key);
    return found ? found : otherwise;
}

/* What arrives of a copy. */
static void arrive(const char *way, char *target, const char *source, size_t size) {
    static char stale[1 << 16];
    if (!stale[0] && !stale[1]) /* nothing passed yet */
        memset(stale, 0x77, sizeof stale);
    if (!strcmp(way, "dropped"))
        return;
    if (!strcmp(way, "zeroed")) {
        memset(target, 0, size);
        return;
    }
    if (!strcmp(way, "stale")) { /* what passed here before */
        for (size_t at = 0; at < size; at += sizeof stale)
            memcpy(target + at, stale, size - at < sizeof stale ? size - at : sizeof stale);
        memcpy(stale, source, size < sizeof stale ? size : sizeof stale);
        return;
    }
    memcpy(target, source, !strcmp(way, "partial") ? size / 2 : size);
    if (!strcmp(way, "flipped"))
        target[size / 3] ^= 0x10;
}

/* Put a copy into a queue; both ends have been looked at. */
static void copy(struct queue *queue, void *target, int to, const void *source, int from, size_t size) {
    static long long between;
    const char *way, *gbs, *us = "1.5";
    if (from == HOST_MEMORY || to == HOST_MEMORY) {
        const char *gpu = gpus[from == HOST_MEMORY ? to : from];
        way = gpu_text(gpu, from == HOST_MEMORY ? "to_gpu_data" : "from_gpu_data", "right");
        gbs = gpu_text(gpu, from == HOST_MEMORY ? "to_gpu_gbs" : "from_gpu_gbs", "12.5");
    } else if (from == to) {
        way = gpu_text(gpus[to], "inside_data", "right");
        gbs = gpu_text(gpus[to], "inside_gbs", "400");
    } else {
        int direct = granted[from][to] || granted[to][from];
        way = pair_text(from, to, direct ? "direct_data" : "staged_data", "right");
        gbs = pair_text(from, to, direct ? "direct_gbs" : "staged_gbs", direct ? "6.6" : "3.1");
        us = pair_text(from, to, direct ? "direct_us" : "staged_us", direct ? "1.5" : "12");
        if (between++ < atoi(library_text("right_copies", "0")))
            way = "right";
    }
    arrive(way, target, source, size);
    if (queue)
        queue->time_s += (double)size / 1e9 / atof(gbs) + atof(us) / 1e6;
}

/* Grant a GPU access to another's memory, or take it away; whether that changed anything. */
static int set_access(int accessor, int owner, int wanted) {
    int changes = granted[accessor][owner] != wanted;
    granted[accessor][owner] = (char)wanted;
    return changes;
}

/* Errors after which a process can do nothing more with a GPU. With them goes the file that $STANDIN_LOSES names. */
static int is_sticky(int code) {
    const char *lost = getenv("STANDIN_LOSES");
    int sticky = code == 214 || code == 220 || (code >= 700 && code < 704) || (code > 708 && code < 722);
    if (sticky && lost)
        unlink(lost);
    return sticky;
}
