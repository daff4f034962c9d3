/* fake_open.c - see fake_open.h. */
#include "tests/fake_open.h"

#include "tests/stand_in.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void fail(const char *what) {
    fprintf(stderr, "fake driver: %s\n", what);
    exit(99);
}

const char *fake_driver_path(void) {
    static char path[PATH_MAX + 32];
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length <= 0) fail("cannot find the program's own folder");
    path[length] = '\0';
    strcpy(strrchr(path, '/') + 1, "libfakecuda.so");
    return path;
}

static void resolve(void *library, const char *symbol, void *pointer) {
    void *found = dlsym(library, symbol);
    if (found == NULL) fail(symbol);
    memcpy(pointer, &found, sizeof found);
}

struct fake_api fake_load(void) {
    struct fake_api api;
    struct fake_driver *(*state)(void);
    void *library = dlopen(fake_driver_path(), RTLD_NOW);
    if (library == NULL) fail(dlerror());
    resolve(library, "fake_driver", &state);
    resolve(library, "fake_reset", &api.reset);
    resolve(library, "fake_drop_graph", &api.drop_graph);
    resolve(library, "fake_outstanding", &api.outstanding);
    api.state = state();
    api.reset();
    return api;
}

dcpk_device *fake_device(int32_t ordinal) {
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_device *device = NULL;
    dcpk_device_options options = {.size = sizeof options,
                                   .kind = "cuda",
                                   .library = fake_driver_path(),
                                   .ordinal = ordinal,
                                   .pdl = -1,
                                   .multicast = -1};
    if (dcpk_device_open(&options, &device, &error) != DCPK_OK) fail(error.text);
    return device;
}

long fake_count(const struct fake_driver *state, const char *name) {
    long count = 0;
    for (long i = 0; i < state->calls && i < FAKE_CALLS; i++)
        count += strcmp(state->call[i], name) == 0;
    return count;
}

dcpk_image *fake_norm_image(void) {
    dcpk_entry_info entry = stand_in_entry("dcpk_query_norm", FAKE_NORM_PARAMS);
    entry.grid[0] = 4;
    entry.block[0] = 256;
    return stand_in_image(FAKE_NORM_SPEC, &entry, 1);
}

dcpk_args fake_norm_args(void) {
    dcpk_args args;
    memset(&args, 0, sizeof args);
    args.size = (uint32_t)sizeof args;
    args.qkv = 0x10000;
    args.q_a_norm = 0x20000;
    args.qc = 0x30000;
    args.pitch = 3648;
    args.eps = 1e-5f;
    return args;
}

dcpk_kernel *fake_load_kernel(dcpk_device *device, dcpk_image *image) {
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_kernel *kernel = NULL;
    if (dcpk_kernel_load(device, image, NULL, &kernel, &error) != DCPK_OK) fail(error.text);
    dcpk_image_free(image);
    return kernel;
}
