/* driver_device.c - cuInit, versions, error texts, and what a device says of itself. */
#include "runtime/cpu/driver.h"

#include <stdio.h>

enum { DRIVER_VERSION = 13000 };

cu_result cpu_init(unsigned flags) {
    struct call call;
    call_begin(&call, NEEDS_NOTHING);
    call.result = flags ? R_CUDA_ERROR_INVALID_VALUE : machine_init(call.world);
    return call_end(&call);
}

cu_result cpu_driver_version(int *version) {
    if (!version) return R_CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return R_CUDA_SUCCESS;
}

static const struct {
    int number;
    const char *name, *text;
} results[] = {
#define R(symbol, number, text) {number, #symbol, text},
#include "runtime/cpu/driver_errors.def"
#undef R
};

/* The sticky error's text is the whole report. */
cu_result cpu_error_string(cu_result result, const char **text) {
    if (!text) return R_CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    struct call call;
    call_begin(&call, NEEDS_NOTHING);
    if (call.world->faulted && result == call.world->fault.code) *text = call.world->fault.text;
    for (size_t i = 0; !*text && i < sizeof results / sizeof *results; i++)
        if (results[i].number == result) *text = results[i].text;
    call.result = *text ? R_CUDA_SUCCESS : R_CUDA_ERROR_INVALID_VALUE;
    return call_end(&call);
}

cu_result cpu_error_name(cu_result result, const char **text) {
    if (!text) return R_CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].number == result) *text = results[i].name;
    return *text ? R_CUDA_SUCCESS : R_CUDA_ERROR_INVALID_VALUE;
}

cu_result cpu_device_count(int *count) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (count)
        *count = call.world->device_count;
    else
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    return call_end(&call);
}

static bool device_exists(struct call *call, cu_device device) {
    if (device >= 0 && device < call->world->device_count) return true;
    call->result = R_CUDA_ERROR_INVALID_DEVICE;
    return false;
}

cu_result cpu_device_get(cu_device *device, int ordinal) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (!device)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (device_exists(&call, ordinal))
        *device = ordinal;
    return call_end(&call);
}

cu_result cpu_device_name(char *name, int capacity, cu_device device) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    const dcpkcpu_options *o = &call.world->options;
    if (!name || capacity < 1)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (device_exists(&call, device))
        snprintf(name, (size_t)capacity, "dcpk CPU device (compute capability %d.%d)", o->major, o->minor);
    return call_end(&call);
}

cu_result cpu_device_total_memory(size_t *bytes, cu_device device) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (!bytes)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (device_exists(&call, device))
        *bytes = call.world->arena.bytes_limit;
    return call_end(&call);
}

static bool attribute_value(const dcpkcpu_options *o, int attribute, int *value) {
    switch (attribute) {
#define A(number, what, name)                                                                                          \
    case number:                                                                                                       \
        *value = what;                                                                                                 \
        return true;
#include "runtime/cpu/driver_attributes.def"
#undef A
    default:
        return false;
    }
}

cu_result cpu_device_attribute(int *value, int attribute, cu_device device) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (!value)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (device_exists(&call, device) && !attribute_value(&call.world->options, attribute, value))
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    return call_end(&call);
}

cu_result cpu_device_can_peer(int *can, cu_device device, cu_device peer) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (!can)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (device_exists(&call, device) && device_exists(&call, peer))
        *can = device != peer;
    return call_end(&call);
}
