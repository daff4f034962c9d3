/* module.h - PTX or a cubin of anyone, loaded as it is and launched by the name of an entry.
 *
 * Beside kernels made from specs (image.h, runtime.h): nothing is known of the code but what the driver says, so
 * nothing is checked but that. No programmatic dependent launch, no box, no metadata. */
#ifndef DCPK_MODULE_H
#define DCPK_MODULE_H

#include <dcpk/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dcpk_module dcpk_module;

/* code: PTX text that ends with a NUL, which the driver assembles (a GPU) or reads (the CPU device), or a cubin for
 * the device; not needed after the call. DRIVER with the driver's own log where it refuses the code. The module holds a
 * reference on the device. */
DCPK_API dcpk_status dcpk_module_load(dcpk_device *device, const void *code, dcpk_module **out, dcpk_error *error);
/* Work that was launched from it must be over: synchronise first. A module whose context is lost is given up and the
 * call is OK. NULL is fine. */
DCPK_API dcpk_status dcpk_module_free(dcpk_module *module, dcpk_error *error);

typedef struct dcpk_module_launch_options {
    uint32_t size;
    const char *entry;       /* the symbol, as PTX has it */
    uint32_t grid[3];        /* CTAs; in y and z 0 counts as 1; so too below */
    uint32_t block[3];       /* threads */
    uint32_t dynamic_shared; /* bytes a CTA */
    void *const *params;     /* one pointer a parameter, to its value, in the entry's order; NULL for none */
    void *stream;            /* of dcpk_stream_create, or the caller's own; NULL: the legacy default stream */
} dcpk_module_launch_options;

/* Asynchronous, but for the first launch of an entry, which may load it. NOT_FOUND: no such entry. How many parameters
 * there are and how large they are cannot be asked of every driver: params must have what the PTX declares. */
DCPK_API dcpk_status dcpk_module_launch(const dcpk_module *module, const dcpk_module_launch_options *options,
                                        dcpk_error *error);

#ifdef __cplusplus
}
#endif
#endif
