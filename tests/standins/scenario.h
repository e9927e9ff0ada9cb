/* What a stand-in for a vendor's library is told to be, read from the file that $STANDIN_SCENARIO names.
 *
 *     [library]
 *     driver_version = 570.86.16
 *     nvmlInit_v2 = error 18          a function by its name: what it does instead of answering
 *     [gpu]                           of every GPU that does not say otherwise
 *     link_width = 16
 *     [gpu 0000:41:00.0]
 *     link_width = 8
 *     nvmlDeviceGetName = hang
 *     [pair 0000:41:00.0 0000:81:00.0]
 *     read = 1
 *
 * Ways to misbehave: "error N" returns N, and "error N after M" only once M calls went well; "hang" never returns; "stubborn" does not either, and ignores SIGTERM; "abort" and
 * "segv" crash; "print" writes to both outputs, through stdio and past it, and then goes on as if nothing had been.
 *
 * Each call is noted in the file that $STANDIN_LOG names, if it names one: the function, and the GPU it is about.
 */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MOST_LINES 512
#define MOST_GPUS 64

struct line {
    char section[64], key[64], value[128];
    int calls; /* that had it as their way to misbehave */
};

static struct line lines[MOST_LINES];
static int line_count;

/* A GPU's handle is a pointer to its address, "0000:41:00.0". */
static char gpus[MOST_GPUS][32];
static int gpu_count;

static void load_scenario(void) {
    char text[256], section[64] = "", key[64], value[128];
    const char *path = getenv("STANDIN_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    line_count = gpu_count = 0;
    if (!file)
        return;
    while (fgets(text, sizeof text, file) && line_count < MOST_LINES) {
        if (sscanf(text, " [%63[^]]]", section) == 1) {
            if (!strncmp(section, "gpu ", 4) && gpu_count < MOST_GPUS)
                snprintf(gpus[gpu_count++], sizeof gpus[0], "%.31s", section + 4);
        } else if (sscanf(text, " %63[^= ] = %127[^\n]", key, value) == 2 && key[0] != '#') {
            struct line *line = &lines[line_count++];
            memcpy(line->section, section, sizeof section);
            memcpy(line->key, key, sizeof key);
            memcpy(line->value, value, sizeof value);
        }
    }
    fclose(file);
}

static struct line *line_of(const char *section, const char *key) {
    for (int at = 0; at < line_count; at++)
        if (!strcmp(lines[at].section, section) && !strcmp(lines[at].key, key))
            return &lines[at];
    return NULL;
}

static const char *find(const char *section, const char *key) {
    struct line *found = line_of(section, key);
    return found ? found->value : NULL;
}

static const char *library_text(const char *key, const char *otherwise) {
    const char *found = find("library", key);
    return found ? found : otherwise;
}

/* What is said of one GPU, or of all. */
static const char *gpu_text(const char *gpu, const char *key, const char *otherwise) {
    char section[64];
    snprintf(section, sizeof section, "gpu %s", gpu);
    const char *found = find(section, key);
    if (!found)
        found = find("gpu", key);
    return found ? found : otherwise;
}

static long long gpu_number(const char *gpu, const char *key, long long otherwise) {
    const char *found = gpu_text(gpu, key, NULL);
    return found ? strtoll(found, NULL, 0) : otherwise;
}

/* What is said of an ordered pair, or of all pairs. */
static long long pair_number(const char *from, const char *to, const char *key, long long otherwise) {
    char section[64];
    snprintf(section, sizeof section, "pair %s %s", from, to);
    const char *found = find(section, key);
    if (!found)
        found = find("pair", key);
    return found ? strtoll(found, NULL, 0) : otherwise;
}

static void note(const char *function, const char *gpu) {
    char text[128];
    const char *path = getenv("STANDIN_LOG");
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (file < 0)
        return;
    int size = snprintf(text, sizeof text, "%s %s\n", function, gpu);
    if (write(file, text, (size_t)size) != size)
        abort();
    close(file);
}

/* What a call does before it answers; not 0: the error it returns instead. `gpu` is empty where none is meant. */
static int begin(const char *function, const char *gpu) {
    note(function, gpu);
    const char *way = *gpu ? gpu_text(gpu, function, NULL) : find("library", function);
    int code = 0, first = 0;
    if (!way)
        return 0;
    if (sscanf(way, "error %d after %d", &code, &first) > 0) {
        struct line *line = (struct line *)(void *)(way - offsetof(struct line, value));
        return line->calls++ < first ? 0 : code;
    }
    if (!strcmp(way, "abort"))
        abort();
    if (!strcmp(way, "segv"))
        raise(SIGSEGV);
    if (!strcmp(way, "stubborn"))
        signal(SIGTERM, SIG_IGN);
    if (!strcmp(way, "stubborn") || !strcmp(way, "hang"))
        for (;;)
            pause();
    if (!strcmp(way, "print")) {
        static const char shout[] = "a library shouts past stdio\n";
        printf("a library prints\n");
        fflush(stdout);
        fprintf(stderr, "a library complains\n");
        if (write(STDOUT_FILENO, shout, sizeof shout - 1) < 0 || write(STDERR_FILENO, shout, sizeof shout - 1) < 0)
            abort();
    }
    return 0;
}
