/* no_multicast.c - see no_multicast.h. May call: the C library. */
#include <tests/no_multicast.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool no_multicast_holds(const char *device, char why[256]) {
    static const struct {
        const char *name, *value;
    } wanted[] = {{"NCCL_NVLS_ENABLE", "0"}, {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"}, {"NVSHMEM_DISABLE_NVLS", "1"}};
    why[0] = '\0';
    if (device != NULL && strncmp(device, "cpu", 3) == 0) return true;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const char *value = getenv(wanted[i].name);
        if (value != NULL && strcmp(value, wanted[i].value) == 0) continue;
        snprintf(
            why, 256,
            "%s is %s%.40s: on hardware it must be %s (no multicast here); tests/check_gpu and tests/bench_gpu set it",
            wanted[i].name, value ? "" : "not set", value ? value : "", wanted[i].value);
        return false;
    }
    const char *allowed = getenv("DCPK_MULTICAST");
    if (allowed == NULL || allowed[0] == '\0' || strcmp(allowed, "0") == 0) return true;
    snprintf(why, 256, "DCPK_MULTICAST is %.40s: on hardware it must not be (no multicast here); unset it", allowed);
    return false;
}

void no_multicast_or_exit(const char *device) {
    char why[256];
    if (no_multicast_holds(device, why)) return;
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, why);
    exit(2);
}

void device_word_or_exit(const char *device) {
    size_t kind = strcspn(device, ":"), list = strlen(device) - kind;
    bool known = (kind == 3 && strncmp(device, "cpu", 3) == 0) || (kind == 4 && strncmp(device, "cuda", 4) == 0);
    if (known && list != 1 && strspn(device + kind, ":0123456789,") == list) return;
    fprintf(stderr, "%s: --device: cuda or cpu, each with :LIST of device numbers or without (cuda:0,2), not '%s'\n",
            program_invocation_short_name, device);
    exit(2);
}
