/* memory.c - plain device memory, copies, fills, streams: what tools and tests use in an engine's place.
 * Copies and fills run on the device's own non-blocking stream and are complete when the call returns: they never
 * wait for the legacy stream, where a polling kernel may sit. May call the driver; must not know kernels or boxes. */
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/workspace.h"

static dcpk_status missing(const char *call, const char *what, dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_ARG, "%s: %s is missing (0 or NULL)", call, what);
}

dcpk_status dcpk_device_fill32(const dcpk_device *device, uint64_t address, uint32_t value, uint64_t words,
                               dcpk_error *error) {
    cu_result result = CALL(&device->driver, fill32_async, (address, value, words, device->stream));
    if (result == DRIVER_OK) return DCPK_OK;
    return FAILED(&device->driver, fill32_async, result, error, "fill of %llu words at 0x%llx",
                  (unsigned long long)words, (unsigned long long)address);
}

dcpk_status dcpk_device_write(const dcpk_device *device, uint64_t address, const void *from, uint64_t bytes,
                              dcpk_error *error) {
    cu_result result = CALL(&device->driver, copy_to_device_async, (address, from, bytes, device->stream));
    if (result == DRIVER_OK) return DCPK_OK;
    return FAILED(&device->driver, copy_to_device_async, result, error, "copy of %llu bytes to 0x%llx",
                  (unsigned long long)bytes, (unsigned long long)address);
}

dcpk_status dcpk_device_read(const dcpk_device *device, void *to, uint64_t address, uint64_t bytes, dcpk_error *error) {
    cu_result result = CALL(&device->driver, copy_to_host_async, (to, address, bytes, device->stream));
    if (result == DRIVER_OK) return DCPK_OK;
    return FAILED(&device->driver, copy_to_host_async, result, error, "copy of %llu bytes from 0x%llx",
                  (unsigned long long)bytes, (unsigned long long)address);
}

dcpk_status dcpk_device_settle(const dcpk_device *device, dcpk_error *error) {
    cu_result result = CALL(&device->driver, stream_synchronize, (device->stream));
    if (result == DRIVER_OK) return DCPK_OK;
    return FAILED(&device->driver, stream_synchronize, result, error, "device %d", device->info.ordinal);
}

/* Ends a call that began with enter: waits for the own stream when the work was queued, then leaves. */
static dcpk_status finish(const dcpk_device *device, bool pushed, dcpk_status status, dcpk_error *error) {
    if (status == DCPK_OK) status = dcpk_device_settle(device, error);
    dcpk_device_leave(device, pushed);
    return status;
}

dcpk_status dcpk_mem_alloc(dcpk_device *device, uint64_t bytes, uint64_t *address, dcpk_error *error) {
    if (device == NULL) return missing("dcpk_mem_alloc", "device", error);
    if (address == NULL) return missing("dcpk_mem_alloc", "address", error);
    *address = 0;
    if (bytes == 0) return missing("dcpk_mem_alloc", "bytes", error);
    bool pushed;
    dcpk_status status = dcpk_device_enter(device, &pushed, error);
    if (status != DCPK_OK) return status;
    cu_ptr got = 0;
    cu_result result = CALL(&device->driver, mem_alloc, (&got, bytes));
    if (result != DRIVER_OK)
        status = FAILED(&device->driver, mem_alloc, result, error, "device %d: %llu bytes", device->info.ordinal,
                        (unsigned long long)bytes);
    else
        *address = got;
    dcpk_device_leave(device, pushed);
    return status;
}

dcpk_status dcpk_mem_free(dcpk_device *device, uint64_t address, dcpk_error *error) {
    if (device == NULL) return missing("dcpk_mem_free", "device", error);
    if (address == 0) return DCPK_OK;
    dcpk_workspace_forget(device, address, 1);
    bool pushed;
    dcpk_status status = dcpk_device_enter(device, &pushed, error);
    if (status != DCPK_OK) return status;
    cu_result result = CALL(&device->driver, mem_free, (address));
    if (result != DRIVER_OK)
        status = FAILED(&device->driver, mem_free, result, error, "address 0x%llx", (unsigned long long)address);
    dcpk_device_leave(device, pushed);
    return status;
}

dcpk_status dcpk_mem_write(dcpk_device *device, uint64_t address, const void *from, uint64_t bytes, dcpk_error *error) {
    if (device == NULL) return missing("dcpk_mem_write", "device", error);
    if (bytes == 0) return DCPK_OK;
    if (address == 0 || from == NULL) return missing("dcpk_mem_write", from ? "address" : "from", error);
    bool pushed;
    dcpk_status status = dcpk_device_enter(device, &pushed, error);
    if (status != DCPK_OK) return status;
    return finish(device, pushed, dcpk_device_write(device, address, from, bytes, error), error);
}

dcpk_status dcpk_mem_read(dcpk_device *device, void *to, uint64_t address, uint64_t bytes, dcpk_error *error) {
    if (device == NULL) return missing("dcpk_mem_read", "device", error);
    if (bytes == 0) return DCPK_OK;
    if (address == 0 || to == NULL) return missing("dcpk_mem_read", to ? "address" : "to", error);
    bool pushed;
    dcpk_status status = dcpk_device_enter(device, &pushed, error);
    if (status != DCPK_OK) return status;
    return finish(device, pushed, dcpk_device_read(device, to, address, bytes, error), error);
}

dcpk_status dcpk_mem_fill32(dcpk_device *device, uint64_t address, uint32_t value, uint64_t words, dcpk_error *error) {
    if (device == NULL) return missing("dcpk_mem_fill32", "device", error);
    if (words == 0) return DCPK_OK;
    if (address == 0) return missing("dcpk_mem_fill32", "address", error);
    if (address % 4 != 0)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_mem_fill32: address 0x%llx is no multiple of 4",
                              (unsigned long long)address);
    bool pushed;
    dcpk_status status = dcpk_device_enter(device, &pushed, error);
    if (status != DCPK_OK) return status;
    return finish(device, pushed, dcpk_device_fill32(device, address, value, words, error), error);
}

dcpk_status dcpk_stream_create(dcpk_device *device, void **stream, dcpk_error *error) {
    if (device == NULL) return missing("dcpk_stream_create", "device", error);
    if (stream == NULL) return missing("dcpk_stream_create", "stream", error);
    *stream = NULL;
    bool pushed;
    dcpk_status status = dcpk_device_enter(device, &pushed, error);
    if (status != DCPK_OK) return status;
    status = dcpk_share_stream(device, stream, error);
    dcpk_device_leave(device, pushed);
    return status;
}

dcpk_status dcpk_stream_destroy(dcpk_device *device, void *stream, dcpk_error *error) {
    if (device == NULL) return missing("dcpk_stream_destroy", "device", error);
    if (stream == NULL) return DCPK_OK;
    bool pushed;
    dcpk_status status = dcpk_device_enter(device, &pushed, error);
    if (status != DCPK_OK) return status;
    cu_result result = CALL(&device->driver, stream_destroy, (stream));
    if (result != DRIVER_OK)
        status = FAILED(&device->driver, stream_destroy, result, error, "device %d", device->info.ordinal);
    dcpk_device_leave(device, pushed);
    return status;
}

dcpk_status dcpk_stream_sync(dcpk_device *device, void *stream, dcpk_error *error) {
    if (device == NULL) return missing("dcpk_stream_sync", "device", error);
    bool pushed;
    dcpk_status status = dcpk_device_enter(device, &pushed, error);
    if (status != DCPK_OK) return status;
    cu_result result = CALL(&device->driver, stream_synchronize, (stream));
    if (result != DRIVER_OK)
        status = FAILED(&device->driver, stream_synchronize, result, error, "device %d", device->info.ordinal);
    dcpk_device_leave(device, pushed);
    return status;
}

dcpk_status dcpk_device_sync(dcpk_device *device, dcpk_error *error) {
    if (device == NULL) return missing("dcpk_device_sync", "device", error);
    bool pushed;
    dcpk_status status = dcpk_device_enter(device, &pushed, error);
    if (status != DCPK_OK) return status;
    cu_result result = CALL(&device->driver, ctx_synchronize, ());
    if (result != DRIVER_OK)
        status = FAILED(&device->driver, ctx_synchronize, result, error, "device %d", device->info.ordinal);
    dcpk_device_leave(device, pushed);
    return status;
}
