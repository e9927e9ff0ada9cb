/* A stand-in for AMD's libamd_smi.so of ROCm 7.0: the functions that hostdoctor calls.
 *
 * The Python binding wants every function of the library when it is imported; the rest of them are made from the binding
 * itself, as weak functions that support nothing (libraries.py). What this library says is in its scenario (scenario.h). It
 * proves that the calls are made right and that trouble is survived, nothing about real GPUs.
 *
 * Types and codes are those of amdsmi.h 7.0; each GPU is a socket of its own, as the real library has it.
 */
#include <stdint.h>

#include "scenario.h"

enum { SUCCESS = 0, INVALID = 1, NOT_SUPPORTED = 2, NOT_INITIALISED = 32 };

static int initialised;

#define BEGIN(gpu)                                                                                                             \
    do {                                                                                                                       \
        int code = begin(__func__, gpu);                                                                                       \
        if (code || !initialised)                                                                                              \
            return code ? code : NOT_INITIALISED;                                                                              \
    } while (0)

EXPORT int amdsmi_init(uint64_t flags) {
    (void)flags;
    load_scenario();
    int code = begin(__func__, "");
    initialised = !code;
    return code;
}

EXPORT int amdsmi_shut_down(void) {
    BEGIN("");
    initialised = 0;
    return SUCCESS;
}

/* Asked twice: without room for the number, then with room for the handles. */
EXPORT int amdsmi_get_socket_handles(uint32_t *count, char **sockets) {
    BEGIN("");
    for (int at = 0; sockets && at < gpu_count; at++)
        sockets[at] = gpus[at];
    *count = (uint32_t)gpu_count;
    return SUCCESS;
}

EXPORT int amdsmi_get_processor_handles(char *socket, uint32_t *count, char **handles) {
    BEGIN("");
    if (handles)
        handles[0] = socket;
    *count = 1;
    return SUCCESS;
}

/* Function, device, bus and domain, from the lowest bit up. */
EXPORT int amdsmi_get_gpu_device_bdf(const char *gpu, uint64_t *address) {
    unsigned domain, bus, device, function;
    BEGIN(gpu);
    if (sscanf(gpu, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
        return INVALID;
    *address = (uint64_t)domain << 16 | bus << 8 | device << 3 | function;
    return SUCCESS;
}

struct version {
    uint32_t major, minor, release;
    const char *build;
};

EXPORT int amdsmi_get_lib_version(struct version *version) {
    BEGIN("");
    *version = (struct version){26, 0, 2, "stand-in"};
    return SUCCESS;
}

struct pcie_info {
    struct {
        uint16_t max_width;
        uint32_t max_speed, interface, slot_type, max_interface;
        uint64_t reserved[9];
    } fixed;
    struct {
        uint16_t width;
        uint32_t speed, bandwidth;
        uint64_t replays, recoveries, replay_roll_overs, naks_sent, naks_received;
        uint32_t other_end_recoveries;
        uint64_t reserved[12];
    } now;
    uint64_t reserved[32];
};

EXPORT int amdsmi_get_pcie_info(const char *gpu, struct pcie_info *info) {
    BEGIN(gpu);
    memset(info, 0xff, sizeof *info); /* all ones: there is no value */
    info->fixed.slot_type = 0;
    info->fixed.max_width = (uint16_t)gpu_number(gpu, "max_width", 16);
    info->fixed.max_speed = (uint32_t)gpu_number(gpu, "max_speed", 16000);
    info->now.width = (uint16_t)gpu_number(gpu, "width", 16);
    info->now.speed = (uint32_t)gpu_number(gpu, "speed", 16000);
    info->now.replays = (uint64_t)gpu_number(gpu, "replays", -1);
    return SUCCESS;
}

EXPORT int amdsmi_get_gpu_pci_replay_counter(const char *gpu, uint64_t *count) {
    BEGIN(gpu);
    *count = (uint64_t)gpu_number(gpu, "replays_of_sysfs", 0);
    return SUCCESS;
}

EXPORT int amdsmi_get_gpu_activity(const char *gpu, uint32_t percent[16]) {
    BEGIN(gpu);
    memset(percent, 0, 16 * sizeof *percent);
    percent[0] = (uint32_t)gpu_number(gpu, "busy_percent", 0);
    return SUCCESS;
}

struct vram_info {
    uint32_t type;
    char vendor[256];
    uint64_t size_mib;
    uint32_t bits;
    uint64_t bandwidth, reserved[37];
};

EXPORT int amdsmi_get_gpu_vram_info(const char *gpu, struct vram_info *info) {
    BEGIN(gpu);
    memset(info, 0, sizeof *info);
    info->size_mib = (uint64_t)gpu_number(gpu, "memory_mib", 30704);
    return SUCCESS;
}

EXPORT int amdsmi_is_P2P_accessible(const char *from, const char *to, uint8_t *accessible) {
    BEGIN(from);
    *accessible = (uint8_t)pair_number(from, to, "accessible", 1);
    return SUCCESS;
}

EXPORT int amdsmi_topo_get_link_type(const char *from, const char *to, uint64_t *hops, uint32_t *type) {
    BEGIN(from);
    *hops = 2;
    *type = (uint32_t)pair_number(from, to, "link_type", 1);
    return SUCCESS;
}

/* What identifies a GPU must never be asked for: a test looks for this in the log. */
EXPORT int amdsmi_get_gpu_device_uuid(const char *gpu, uint32_t *size, char *buffer) {
    BEGIN(gpu);
    snprintf(buffer, *size, "0");
    return SUCCESS;
}
