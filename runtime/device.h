/* device.h - what a dcpk_device holds. Internal to the runtime. */
#ifndef DCPK_RUNTIME_DEVICE_H
#define DCPK_RUNTIME_DEVICE_H

#include "runtime/driver.h"

#include <dcpk/runtime.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { DEVICE_LABEL = 64 };

struct armed_memory;

/* Kernels and boxes hold references: closing the device handle first is fine. Everything but refs and armed is constant
 * after opening, so any thread may read it. */
struct dcpk_device {
    struct dcpk_driver driver;
    _Atomic uint32_t refs;
    cu_device handle;
    cu_context context; /* of a share, too: the primary context */
    cu_green green;     /* the share's; NULL: the whole device */
    int unit;           /* of a share: this many of its multiprocessors at a time can hold one cluster */
    bool retained;      /* the primary context is ours to release */
    cu_stream stream;   /* copies and fills; non-blocking: never waits for the legacy stream */
    dcpk_device_info info;
    bool pdl, allow_unwatched;
    bool multicast_wanted, multicast_supported;
    bool blocking;   /* CUDA_LAUNCH_BLOCKING at opening */
    int connections; /* CUDA_DEVICE_MAX_CONNECTIONS at opening, 0 when unset */
    dcpk_log_fn *log;
    void *log_self;
    _Atomic(struct armed_memory *) armed; /* workspace.c */
};

void dcpk_device_ref(dcpk_device *device);

/* Makes the device's context current; *pushed says whether leave has to undo it. */
dcpk_status dcpk_device_enter(const dcpk_device *device, bool *pushed, dcpk_error *error);
void dcpk_device_leave(const dcpk_device *device, bool pushed);

/* Fills and copies on the device's own stream, context current; not synchronised. */
dcpk_status dcpk_device_fill32(const dcpk_device *device, uint64_t address, uint32_t value, uint64_t words,
                               dcpk_error *error);
dcpk_status dcpk_device_write(const dcpk_device *device, uint64_t address, const void *from, uint64_t bytes,
                              dcpk_error *error);
dcpk_status dcpk_device_read(const dcpk_device *device, void *to, uint64_t address, uint64_t bytes, dcpk_error *error);
/* Waits for the device's own stream. */
dcpk_status dcpk_device_settle(const dcpk_device *device, dcpk_error *error);

/* A copy of the caller's option struct of any version: what it lacks is zero. ARG for NULL or no size. */
dcpk_status dcpk_options_copy(void *to, size_t capacity, const void *from, const char *what, dcpk_error *error);

/* share.c: makes the device one of `count` shares: green context, info.sms and the share's fields. What it made on the
 * way to a failure, dcpk_share_release gives back. Nothing for a count of 0 or 1. */
dcpk_status dcpk_share_take(dcpk_device *device, int32_t index, int32_t count, dcpk_error *error);
/* After the last stream of the share is destroyed. */
void dcpk_share_release(dcpk_device *device);
/* A non-blocking stream of the device or share, context current. */
dcpk_status dcpk_share_stream(const dcpk_device *device, cu_stream *stream, dcpk_error *error);
/* Whether both are the same part of the same device. */
bool dcpk_share_same(const dcpk_device *a, const dcpk_device *b);
/* Why publish=multicast is not allowed here: "... device 0 (NAME) REASON". */
const char *dcpk_multicast_reason(const dcpk_device *device);
/* ARG for a stream that is not the share's; nothing to ask where the device is whole. Context current. */
dcpk_status dcpk_share_owns(const dcpk_device *device, void *stream, const char *what, dcpk_error *error);
/* "device 0" or "device 0, share 1 of 4". */
const char *dcpk_device_label(const dcpk_device *device, char text[DEVICE_LABEL]);

/* driver_find.c: finds and opens the driver of a kind, cuInit included, and says how many devices it has. */
dcpk_status dcpk_driver_find(const char *kind, const char *library, struct dcpk_driver *driver, bool *cpu, int *count,
                             dcpk_error *error);

#endif
