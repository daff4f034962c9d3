/* share_open.h - shares of the fake driver's devices: what the suites about shares start from. Each suite has its own
 * copy. */
#ifndef DCPK_TESTS_SHARE_OPEN_H
#define DCPK_TESTS_SHARE_OPEN_H

#include "tests/fake_open.h"
#include "tests/stand_in.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct fake_api fake;
static dcpk_error error;

#define MUST(call) ck_assert_msg((call) == DCPK_OK, "%s: %s", #call, error.text)

static inline void setup(void) {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    unsetenv("CUDA_LAUNCH_BLOCKING");
    unsetenv("DCPK_DEVICE");
    unsetenv("DCPK_MULTICAST");
    unsetenv("DCPK_PDL");
    fake = fake_load();
    dcpk_error_init(&error);
}

static inline void assert_text(const char *part) {
    ck_assert_msg(strstr(error.text, part) != NULL, "\"%s\" is not in \"%s\"", part, error.text);
}

static inline dcpk_status open_on(int32_t ordinal, int32_t index, int32_t count, dcpk_device **device) {
    dcpk_device_options options = {.size = sizeof options,
                                   .kind = "cuda",
                                   .library = fake_driver_path(),
                                   .ordinal = ordinal,
                                   .pdl = -1,
                                   .multicast = 1,
                                   .share_index = index,
                                   .share_count = count};
    return dcpk_device_open(&options, device, &error);
}

static inline dcpk_device *open_share(int32_t index, int32_t count) {
    dcpk_device *device = NULL;
    MUST(open_on(0, index, count, &device));
    return device;
}

static inline dcpk_device_info info_of(const dcpk_device *device) {
    dcpk_device_info info = {.size = sizeof info};
    MUST(dcpk_device_get_info(device, &info, &error));
    return info;
}

#endif
