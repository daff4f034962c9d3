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

#endif
