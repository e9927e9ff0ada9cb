/* A stand-in for NVIDIA's libnvidia-ml.so.1: the functions that hostdoctor calls, and those it must not call.
 *
 * It says what its scenario says (scenario.h). It proves that the calls are made right and that trouble is survived, nothing
 * about real GPUs. Types and codes are those of nvml.h.
 */
#include "scenario.h"

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

static int initialised;

/* Leave a function early: before nvmlInit, or because the scenario has it misbehave. */
#define BEGIN(gpu)                                                                                                             \
    do {                                                                                                                       \
        int code = begin(__func__, gpu);                                                                                       \
        if (code || !initialised)                                                                                              \
            return code ? code : UNINITIALIZED;                                                                                \
    } while (0)

static int give_text(const char *text, char *buffer, unsigned size) {
    if (strlen(text) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return SUCCESS;
}

/* "n/a" in a scenario: this GPU does not support that. */
static int give_number(const char *gpu, const char *key, long long otherwise, unsigned *number) {
    if (!strcmp(gpu_text(gpu, key, ""), "n/a"))
        return NOT_SUPPORTED;
    *number = (unsigned)gpu_number(gpu, key, otherwise);
    return SUCCESS;
}

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    load_scenario();
    int code = begin(__func__, "");
    initialised = !code;
    return code;
}

EXPORT int nvmlShutdown(void) {
    BEGIN("");
    initialised = 0;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int code) {
    (void)code;
    return "an error of the stand-in";
}

EXPORT int nvmlSystemGetDriverVersion(char *buffer, unsigned size) {
    BEGIN("");
    return give_text(library_text("driver_version", "570.86.16"), buffer, size);
}

EXPORT int nvmlSystemGetNVMLVersion(char *buffer, unsigned size) {
    BEGIN("");
    return give_text(library_text("library_version", "12.570.86.16"), buffer, size);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *number) {
    BEGIN("");
    *number = atoi(library_text("cuda_version", "12080"));
    return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *address, char **handle) {
    BEGIN(address);
    for (int at = 0; at < gpu_count; at++)
        if (!strcmp(gpus[at], address)) {
            *handle = gpus[at];
            return SUCCESS;
        }
    return NOT_FOUND;
}

EXPORT int nvmlDeviceGetName(const char *gpu, char *buffer, unsigned size) {
    BEGIN(gpu);
    return give_text(gpu_text(gpu, "name", "NVIDIA RTX A5000"), buffer, size);
}

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(const char *gpu, unsigned *count, struct process *found) {
    BEGIN(gpu);
    unsigned pid = (unsigned)gpu_number(gpu, "process", 0), room = *count;
    *count = pid ? 1 : 0;
    if (pid && (!found || !room))
        return INSUFFICIENT_SIZE;
    if (pid)
        *found = (struct process){pid, 1 << 30, 0, 0};
    return SUCCESS;
}

#define NUMBER(function, key, otherwise)                                                                                       \
    EXPORT int function(const char *gpu, unsigned *number) {                                                                   \
        BEGIN(gpu);                                                                                                            \
        return give_number(gpu, key, otherwise, number);                                                                       \
    }

NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "link_generation", 4)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "link_width", 16)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "gpu_max_generation", 4)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "max_generation", 4)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "max_width", 16)
NUMBER(nvmlDeviceGetPerformanceState, "performance_state", 0)
NUMBER(nvmlDeviceGetPcieReplayCounter, "replay_count", 0)

EXPORT int nvmlDeviceGetUtilizationRates(const char *gpu, unsigned rates[2]) {
    BEGIN(gpu);
    rates[1] = 0; /* of the memory */
    return give_number(gpu, "busy_percent", 0, &rates[0]);
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(const char *gpu, unsigned long long *reasons) {
    BEGIN(gpu);
    *reasons = (unsigned long long)gpu_number(gpu, "throttle_reasons", 1);
    return SUCCESS;
}

/* Total, free and used bytes. */
static int give_sizes(const char *gpu, const char *key, unsigned long long sizes[3]) {
    sizes[0] = (unsigned long long)gpu_number(gpu, key, 24LL << 30);
    sizes[2] = 1 << 20;
    sizes[1] = sizes[0] - sizes[2];
    return SUCCESS;
}

EXPORT int nvmlDeviceGetBAR1MemoryInfo(const char *gpu, unsigned long long sizes[3]) {
    BEGIN(gpu);
    return give_sizes(gpu, "bar1_bytes", sizes);
}

EXPORT int nvmlDeviceGetMemoryInfo(const char *gpu, unsigned long long sizes[3]) {
    BEGIN(gpu);
    return give_sizes(gpu, "memory_bytes", sizes);
}

EXPORT int nvmlDeviceGetEccMode(const char *gpu, unsigned *current, unsigned *pending) {
    BEGIN(gpu);
    *pending = 0;
    return give_number(gpu, "ecc_enabled", 1, current);
}

EXPORT int nvmlDeviceGetTotalEccErrors(const char *gpu, int type, int counter, unsigned long long *count) {
    BEGIN(gpu);
    /* Uncorrected, since the driver was loaded: the others have a number that nobody asked for. */
    *count = type == 1 && counter == 0 ? (unsigned long long)gpu_number(gpu, "ecc_uncorrected", 0) : 999;
    return SUCCESS;
}

/* "nvlinks = 2 of 4": links beyond those a GPU has are an invalid argument; without the line it has none. */
EXPORT int nvmlDeviceGetNvLinkState(const char *gpu, unsigned link, unsigned *active) {
    unsigned up = 0, all = 0;
    BEGIN(gpu);
    if (sscanf(gpu_text(gpu, "nvlinks", ""), "%u of %u", &up, &all) != 2)
        return NOT_SUPPORTED;
    *active = link < up;
    return link < all ? SUCCESS : INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetP2PStatus(const char *from, const char *to, unsigned index, unsigned *status) {
    static const char *const keys[] = {"read", "write", "nvlink"};
    BEGIN(from);
    if (index > 2)
        return INVALID_ARGUMENT;
    *status = (unsigned)pair_number(from, to, keys[index], index == 2 ? 5 : 0);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(const char *from, const char *to, unsigned *level) {
    BEGIN(from);
    *level = (unsigned)pair_number(from, to, "topology", 30);
    return SUCCESS;
}

/* What identifies a GPU must never be asked for: a test looks for these in the log. */
EXPORT int nvmlDeviceGetUUID(const char *gpu, char *buffer, unsigned size) {
    BEGIN(gpu);
    return give_text("GPU-0", buffer, size);
}

EXPORT int nvmlDeviceGetSerial(const char *gpu, char *buffer, unsigned size) {
    BEGIN(gpu);
    return give_text("0", buffer, size);
}
