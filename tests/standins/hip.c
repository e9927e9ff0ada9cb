/* A stand-in for AMD's libamdhip64.so: the functions that hostdoctor calls (copies.h). Codes are those of hip_runtime_api.h.
 *
 * As HIP does, it copies between GPUs directly whether access was granted or not, unless the hardware lacks it.
 */
#include "copies.h"

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101 };
enum { PEER_ACCESS_UNSUPPORTED = 217, INVALID_HANDLE = 400 };
enum { PEER_ACCESS_ALREADY_ENABLED = 704, PEER_ACCESS_NOT_ENABLED = 705 };
enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2, DEVICE_TO_DEVICE = 3 };
enum { HOST_PORTABLE = 1, HOST_NUMA_USER = 0x20000000 };

static int current, stuck;

#define BEGIN(gpu)                                                                                                             \
    do {                                                                                                                       \
        int code = begin(__func__, gpu);                                                                                       \
        if (is_sticky(code))                                                                                                   \
            stuck = code;                                                                                                      \
        if (code || stuck)                                                                                                     \
            return code ? code : stuck;                                                                                        \
    } while (0)

EXPORT int hipInit(unsigned flags) {
    load_scenario();
    BEGIN("");
    return flags ? INVALID_VALUE : gpu_count ? SUCCESS : NO_DEVICE;
}

EXPORT int hipRuntimeGetVersion(int *version) {
    *version = atoi(library_text("hip_version", "60241133"));
    return SUCCESS;
}

EXPORT int hipGetDeviceCount(int *count) {
    BEGIN("");
    *count = gpu_count;
    return gpu_count ? SUCCESS : NO_DEVICE;
}

EXPORT int hipSetDevice(int device) {
    BEGIN("");
    current = device;
    return device < gpu_count ? SUCCESS : INVALID_DEVICE;
}

EXPORT int hipDeviceSynchronize(void) {
    BEGIN(gpus[current]);
    return SUCCESS;
}

EXPORT int hipDeviceGetPCIBusId(char *buffer, int size, int device) {
    BEGIN(gpus[device]);
    return snprintf(buffer, (size_t)size, "%s", gpus[device]) < size ? SUCCESS : INVALID_VALUE;
}

EXPORT int hipDeviceGetName(char *buffer, int size, int device) {
    BEGIN(gpus[device]);
    snprintf(buffer, (size_t)size, "%s", gpu_text(gpus[device], "name", "AMD Radeon PRO V620"));
    return SUCCESS;
}

EXPORT int hipDeviceTotalMem(size_t *size, int device) {
    BEGIN(gpus[device]);
    *size = (size_t)gpu_number(gpus[device], "memory_bytes", 32LL << 30);
    return SUCCESS;
}

EXPORT int hipDeviceCanAccessPeer(int *can, int accessor, int owner) {
    BEGIN(gpus[accessor]);
    *can = atoi(pair_text(accessor, owner, "can_access", "1"));
    return SUCCESS;
}

EXPORT int hipDeviceEnablePeerAccess(int owner, unsigned flags) {
    BEGIN(gpus[current]);
    int code = atoi(pair_text(current, owner, "grants", "0"));
    if (code || flags)
        return code ? code : INVALID_VALUE;
    if (!atoi(pair_text(current, owner, "can_access", "1")))
        return PEER_ACCESS_UNSUPPORTED;
    return set_access(current, owner, 1) ? SUCCESS : PEER_ACCESS_ALREADY_ENABLED;
}

EXPORT int hipDeviceDisablePeerAccess(int owner) {
    BEGIN(gpus[current]);
    if (!atoi(pair_text(current, owner, "can_access", "1")))
        return PEER_ACCESS_UNSUPPORTED;
    return set_access(current, owner, 0) ? SUCCESS : PEER_ACCESS_NOT_ENABLED;
}

EXPORT int hipMalloc(void **address, size_t size) {
    BEGIN(gpus[current]);
    *address = take_memory(current, size);
    return *address ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int hipFree(void *address) {
    BEGIN(gpus[current]);
    return give_memory_back(address, current) ? SUCCESS : INVALID_VALUE;
}

EXPORT int hipHostMalloc(void **address, size_t size, unsigned flags) {
    BEGIN(gpus[current]);
    *address = flags == (HOST_PORTABLE | HOST_NUMA_USER) ? take_memory(HOST_MEMORY, size) : NULL;
    return *address ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int hipHostFree(void *address) {
    BEGIN(gpus[current]);
    return give_memory_back(address, HOST_MEMORY) ? SUCCESS : INVALID_VALUE;
}

EXPORT int hipMemset(void *address, int value, size_t size) {
    BEGIN(gpus[current]);
    if (!holds(address, size, current))
        return INVALID_VALUE;
    memset(address, value, size);
    return SUCCESS;
}

EXPORT int hipStreamCreateWithFlags(struct queue **stream, unsigned flags) {
    BEGIN(gpus[current]);
    *stream = calloc(1, sizeof **stream);
    (*stream)->gpu = current;
    return flags == 1 ? SUCCESS : INVALID_VALUE;
}

EXPORT int hipStreamDestroy(struct queue *stream) {
    BEGIN(gpus[stream->gpu]);
    free(stream);
    return SUCCESS;
}

EXPORT int hipStreamSynchronize(struct queue *stream) {
    BEGIN(gpus[stream->gpu]);
    return SUCCESS;
}

EXPORT int hipStreamWaitEvent(struct queue *stream, struct mark *event, unsigned flags) {
    BEGIN(gpus[stream->gpu]);
    if (!event->set)
        return INVALID_HANDLE;
    if (event->time_s > stream->time_s)
        stream->time_s = event->time_s;
    return flags ? INVALID_VALUE : SUCCESS;
}

EXPORT int hipEventCreate(struct mark **event) {
    BEGIN(gpus[current]);
    *event = calloc(1, sizeof **event);
    (*event)->gpu = current;
    return SUCCESS;
}

EXPORT int hipEventDestroy(struct mark *event) {
    BEGIN(gpus[event->gpu]);
    free(event);
    return SUCCESS;
}

EXPORT int hipEventRecord(struct mark *event, struct queue *stream) {
    BEGIN(gpus[stream->gpu]);
    if (event->gpu != stream->gpu || current != stream->gpu)
        return INVALID_HANDLE;
    event->time_s = stream->time_s;
    event->set = 1;
    return SUCCESS;
}

EXPORT int hipEventElapsedTime(float *ms, struct mark *start, struct mark *stop) {
    BEGIN(gpus[start->gpu]);
    if (start->gpu != stop->gpu || !start->set || !stop->set)
        return INVALID_HANDLE;
    *ms = (float)((stop->time_s - start->time_s) * 1e3);
    return SUCCESS;
}

static int put(struct queue *stream, void *target, int to, const void *source, int from, size_t size) {
    if (!holds(target, size, to) || !holds(source, size, from))
        return INVALID_VALUE;
    copy(stream, target, to, source, from, size);
    return SUCCESS;
}

EXPORT int hipMemcpyAsync(void *target, const void *source, size_t size, int kind, struct queue *stream) {
    BEGIN(gpus[stream->gpu]);
    if (kind == HOST_TO_DEVICE)
        return put(stream, target, stream->gpu, source, HOST_MEMORY, size);
    if (kind == DEVICE_TO_HOST)
        return put(stream, target, HOST_MEMORY, source, stream->gpu, size);
    return kind == DEVICE_TO_DEVICE ? put(stream, target, stream->gpu, source, stream->gpu, size) : INVALID_VALUE;
}

EXPORT int hipMemcpyPeerAsync(void *target, int to, const void *source, int from, size_t size, struct queue *stream) {
    BEGIN(gpus[stream->gpu]);
    if (stream->gpu != to && stream->gpu != from)
        return INVALID_HANDLE;
    granted[from][to] = (char)(atoi(pair_text(from, to, "can_access", "1")) != 0);
    return put(stream, target, to, source, from, size);
}
