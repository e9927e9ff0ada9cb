/* A stand-in for NVIDIA's libcuda.so.1: the functions that hostdoctor calls (copies.h). Codes are those of cuda.h. */
#include "copies.h"
#include <dlfcn.h>
#include <stdint.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101 };
enum { INVALID_CONTEXT = 201, PEER_ACCESS_UNSUPPORTED = 217, INVALID_HANDLE = 400, NOT_FOUND = 500 };
enum { PEER_ACCESS_ALREADY_ENABLED = 704, PEER_ACCESS_NOT_ENABLED = 705 };

/* A context is a pointer to its GPU's place in `gpus`. */
typedef char (*context)[32];

static int initialised, stuck, retained[MOST_GPUS];
static context current;

static int number_of(context of) { return (int)(of - gpus); }

/* Leave a function early: before cuInit, after an error that stays, or because the scenario has it misbehave. */
#define BEGIN(gpu)                                                                                                             \
    do {                                                                                                                       \
        int code = begin(__func__, gpu);                                                                                       \
        if (is_sticky(code))                                                                                                   \
            stuck = code;                                                                                                      \
        if (code || stuck || !initialised)                                                                                     \
            return code ? code : stuck ? stuck : NOT_INITIALIZED;                                                              \
    } while (0)

#define BEGIN_IN_CONTEXT                                                                                                       \
    BEGIN(current ? *current : "");                                                                                            \
    if (!current)                                                                                                              \
        return INVALID_CONTEXT

EXPORT int cuInit(unsigned flags) {
    load_scenario();
    int code = begin(__func__, "");
    if (code || flags)
        return code ? code : INVALID_VALUE;
    if (!gpu_count)
        return NO_DEVICE;
    initialised = 1;
    return SUCCESS;
}

EXPORT int cuDriverGetVersion(int *version) {
    *version = atoi(library_text("cuda_version", "12080"));
    return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count) {
    BEGIN("");
    *count = gpu_count;
    return SUCCESS;
}

EXPORT int cuDeviceGet(int *device, int number) {
    BEGIN("");
    *device = number;
    return number < gpu_count ? SUCCESS : INVALID_DEVICE;
}

EXPORT int cuDeviceGetPCIBusId(char *buffer, int size, int device) {
    BEGIN(gpus[device]);
    if (snprintf(buffer, (size_t)size, "%s", gpus[device]) >= size)
        return INVALID_VALUE;
    for (char *at = buffer; *at; at++) /* the driver writes capitals */
        *at = (char)(*at >= 'a' && *at <= 'f' ? *at - 'a' + 'A' : *at);
    return SUCCESS;
}

EXPORT int cuDeviceGetName(char *buffer, int size, int device) {
    BEGIN(gpus[device]);
    snprintf(buffer, (size_t)size, "%s", gpu_text(gpus[device], "name", "NVIDIA RTX A5000"));
    return SUCCESS;
}

EXPORT int cuDeviceTotalMem_v2(size_t *size, int device) {
    BEGIN(gpus[device]);
    *size = (size_t)gpu_number(gpus[device], "memory_bytes", 24LL << 30);
    return SUCCESS;
}

EXPORT int cuDeviceCanAccessPeer(int *can, int accessor, int owner) {
    BEGIN(gpus[accessor]);
    *can = atoi(pair_text(accessor, owner, "can_access", "1"));
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRetain(context *made, int device) {
    BEGIN(gpus[device]);
    retained[device] = 1;
    *made = &gpus[device];
    return SUCCESS;
}

EXPORT int cuCtxSetCurrent(context of) {
    BEGIN("");
    current = of;
    return SUCCESS;
}

EXPORT int cuCtxSynchronize(void) {
    BEGIN_IN_CONTEXT;
    return SUCCESS;
}

EXPORT int cuCtxEnablePeerAccess(context of, unsigned flags) {
    BEGIN_IN_CONTEXT;
    int code = atoi(pair_text(number_of(current), number_of(of), "grants", "0"));
    if (code || flags)
        return code ? code : INVALID_VALUE;
    if (!atoi(pair_text(number_of(current), number_of(of), "can_access", "1")))
        return PEER_ACCESS_UNSUPPORTED;
    return set_access(number_of(current), number_of(of), 1) ? SUCCESS : PEER_ACCESS_ALREADY_ENABLED;
}

EXPORT int cuCtxDisablePeerAccess(context of) {
    BEGIN_IN_CONTEXT;
    return set_access(number_of(current), number_of(of), 0) ? SUCCESS : PEER_ACCESS_NOT_ENABLED;
}

EXPORT int cuMemAlloc_v2(void **address, size_t size) {
    BEGIN_IN_CONTEXT;
    *address = take_memory(number_of(current), size);
    return *address ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int cuMemFree_v2(void *address) {
    BEGIN_IN_CONTEXT;
    return give_memory_back(address, number_of(current)) ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuMemHostAlloc(void **address, size_t size, unsigned flags) {
    BEGIN_IN_CONTEXT;
    *address = flags == 1 ? take_memory(HOST_MEMORY, size) : NULL; /* portable, or other GPUs do not reach it */
    return *address ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int cuMemFreeHost(void *address) {
    BEGIN_IN_CONTEXT;
    return give_memory_back(address, HOST_MEMORY) ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuMemsetD8_v2(void *address, unsigned char value, size_t size) {
    BEGIN_IN_CONTEXT;
    if (!holds(address, size, number_of(current)))
        return INVALID_VALUE;
    memset(address, value, size);
    return SUCCESS;
}

EXPORT int cuStreamCreate(struct queue **stream, unsigned flags) {
    BEGIN_IN_CONTEXT;
    *stream = calloc(1, sizeof **stream);
    (*stream)->gpu = number_of(current);
    return flags == 1 ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuStreamDestroy_v2(struct queue *stream) {
    BEGIN(gpus[stream->gpu]);
    free(stream);
    return SUCCESS;
}

EXPORT int cuStreamSynchronize(struct queue *stream) {
    BEGIN(gpus[stream->gpu]);
    return SUCCESS;
}

EXPORT int cuStreamWaitEvent(struct queue *stream, struct mark *event, unsigned flags) {
    BEGIN(gpus[stream->gpu]);
    if (event->set && event->time_s > stream->time_s)
        stream->time_s = event->time_s;
    return flags ? INVALID_VALUE : SUCCESS;
}

EXPORT int cuEventCreate(struct mark **event, unsigned flags) {
    BEGIN_IN_CONTEXT;
    *event = calloc(1, sizeof **event);
    (*event)->gpu = number_of(current);
    return flags ? INVALID_VALUE : SUCCESS;
}

EXPORT int cuEventDestroy_v2(struct mark *event) {
    BEGIN(gpus[event->gpu]);
    free(event);
    return SUCCESS;
}

EXPORT int cuEventRecord(struct mark *event, struct queue *stream) {
    BEGIN(gpus[stream->gpu]);
    if (event->gpu != stream->gpu)
        return INVALID_HANDLE;
    event->time_s = stream->time_s;
    event->set = 1;
    return SUCCESS;
}

EXPORT int cuEventElapsedTime_v2(float *ms, struct mark *start, struct mark *stop) {
    BEGIN(gpus[start->gpu]);
    if (start->gpu != stop->gpu || !start->set || !stop->set)
        return INVALID_HANDLE;
    *ms = (float)((stop->time_s - start->time_s) * 1e3);
    return SUCCESS;
}

EXPORT int cuEventElapsedTime(float *ms, struct mark *start, struct mark *stop) {
    return cuEventElapsedTime_v2(ms, start, stop);
}

static int put(struct queue *stream, void *target, int to, const void *source, int from, size_t size) {
    if (!holds(target, size, to) || !holds(source, size, from))
        return INVALID_VALUE;
    copy(stream, target, to, source, from, size);
    return SUCCESS;
}

EXPORT int cuMemcpyHtoDAsync_v2(void *target, const void *source, size_t size, struct queue *stream) {
    BEGIN(gpus[stream->gpu]);
    return put(stream, target, stream->gpu, source, HOST_MEMORY, size);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *target, const void *source, size_t size, struct queue *stream) {
    BEGIN(gpus[stream->gpu]);
    return put(stream, target, HOST_MEMORY, source, stream->gpu, size);
}

EXPORT int cuMemcpyDtoDAsync_v2(void *target, const void *source, size_t size, struct queue *stream) {
    BEGIN(gpus[stream->gpu]);
    return put(stream, target, stream->gpu, source, stream->gpu, size);
}

EXPORT int cuMemcpyPeerAsync(void *target, context to, const void *source, context from, size_t size, struct queue *stream) {
    BEGIN(gpus[stream->gpu]);
    if (stream->gpu != number_of(to) && stream->gpu != number_of(from))
        return INVALID_HANDLE;
    return put(stream, target, number_of(to), source, number_of(from), size);
}

/* The binding asks for "cuMemAlloc" and gets cuMemAlloc_v2. "missing = cuMemAlloc" in the scenario: a driver without it. */
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    static const char *const suffixes[] = {"_v2", ""};
    char full[128];
    Dl_info self;
    (void)version, (void)flags;
    load_scenario();
    *function = NULL;
    void *library = dladdr((void *)cuInit, &self) ? dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    for (int at = 0; at < 2 && !*function && library && strcmp(name, library_text("missing", "")); at++) {
        snprintf(full, sizeof full, "%s%s", name, suffixes[at]);
        *function = dlsym(library, full);
    }
    if (status)
        *status = *function ? 0 : 1;
    return *function ? SUCCESS : NOT_FOUND;
}

EXPORT int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
