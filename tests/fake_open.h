/* fake_open.h - the fake driver from a suite's side: its controls, and devices on it. */
#ifndef DCPK_TESTS_FAKE_OPEN_H
#define DCPK_TESTS_FAKE_OPEN_H

#include "tests/fake_driver.h"

#include <dcpk/runtime.h>

#define FAKE_NORM_SPEC "query_norm heads=2 batch=4"
#define FAKE_NORM_PARAMS "qkv q_a_norm qc pitch eps"

struct fake_api {
    struct fake_driver *state;
    void (*reset)(void);
    void (*drop_graph)(void);
    long (*outstanding)(void);
};

/* libfakecuda.so beside the suite's program. */
const char *fake_driver_path(void);
/* Opens the library and resets it. Ends the process when it is not there. */
struct fake_api fake_load(void);
/* A device of kind "cuda" on it. Ends the process when it does not open. */
dcpk_device *fake_device(int32_t ordinal);
/* query_norm heads=2 batch=4 as a stand-in, and arguments that it takes. */
dcpk_image *fake_norm_image(void);
dcpk_args fake_norm_args(void);
/* Loads the image and drops the caller's reference. Ends the process when it does not load. */
dcpk_kernel *fake_load_kernel(dcpk_device *device, dcpk_image *image);
/* How often the record holds this name. */
long fake_count(const struct fake_driver *state, const char *name);

#endif
