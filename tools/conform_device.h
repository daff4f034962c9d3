/* conform_device.h - runs forms on a device through the driver's own entry points. */
#ifndef DCPK_TOOLS_CONFORM_DEVICE_H
#define DCPK_TOOLS_CONFORM_DEVICE_H

#include "conform.h"

struct conform_device;
/* Takes the device's primary context. device stays the caller's. */
dcpk_status conform_device_open(dcpk_device *device, struct conform_device **out, dcpk_error *error);
void conform_device_close(struct conform_device *device);

/* Loads forms as one module; a driver that refuses it is asked form by form, and of those that it refuses loaded[i] is
 * false and why says so, `room` bytes a form one after the other. conform_device_unload before the next. */
void conform_device_load(struct conform_device *device, const struct conform_form *const *forms, size_t count,
                         bool *loaded, char *why, size_t room);
void conform_device_unload(struct conform_device *device);
/* Runs form number `which` of those loaded. */
dcpk_status conform_device_run(struct conform_device *device, const struct conform_form *form, size_t which,
                               const struct conform_in *in, size_t count, struct conform_out *out, dcpk_error *error);
/* Of a kernel of its own (struct conform_kernel): parameters are addresses of copies of the buffers; those that are
 * written come back. */
struct conform_buffer {
    void *data;
    size_t bytes;
    bool written;
};
dcpk_status conform_device_kernel(struct conform_device *device, const char *ptx, unsigned threads, unsigned shared,
                                  struct conform_buffer *buffers, size_t count, dcpk_error *error);

#endif
