/* share.c - a share of a device: a green context with a fixed part of its multiprocessors, and the streams in it.
 * Several ranks on one device, each with multiprocessors of its own, cannot starve each other. The green context is
 * never made current (it may be current on one thread only): memory and code stay the primary context's, a stream alone
 * says where a kernel runs, captured or not. May call the driver; must not know kernels or boxes. */
#include "runtime/device.h"
#include "runtime/error.h"

#include <stdio.h>
#include <string.h>

enum { SHARES_MAX = 32 };

const char *dcpk_device_label(const dcpk_device *device, char text[DEVICE_LABEL]) {
    const dcpk_device_info *info = &device->info;
    if (info->share_count > 1)
        snprintf(text, DEVICE_LABEL, "device %d, share %d of %d", info->ordinal, info->share_index, info->share_count);
    else
        snprintf(text, DEVICE_LABEL, "device %d", info->ordinal);
    return text;
}

const char *dcpk_multicast_reason(const dcpk_device *device) {
    if (device->green != NULL) return "is a share of its device, and a device is in a multicast object once";
    return device->multicast_supported ? "was opened without multicast (DCPK_MULTICAST=1 allows it)"
                                       : "has no multicast objects";
}

/* Everything a share needs is there, or the error says what is not and which driver has it. */
static dcpk_status check_driver(const dcpk_device *device, dcpk_error *error) {
    const struct dcpk_driver *d = &device->driver;
    const struct {
        bool there;
        enum dcpk_driver_call call;
    } needed[] = {{d->device_resource != NULL, DRIVER_CALL_device_resource},
                  {d->split_sms != NULL, DRIVER_CALL_split_sms},
                  {d->resource_desc != NULL, DRIVER_CALL_resource_desc},
                  {d->green_create != NULL, DRIVER_CALL_green_create},
                  {d->green_destroy != NULL, DRIVER_CALL_green_destroy},
                  {d->green_resource != NULL, DRIVER_CALL_green_resource},
                  {d->green_stream != NULL, DRIVER_CALL_green_stream},
                  {d->stream_green != NULL, DRIVER_CALL_stream_green}};
    int version = device->info.driver_version;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!needed[i].there)
            return dcpk_error_set(
                error, DCPK_E_DRIVER,
                "device %d: shares of a device need a driver of CUDA 12.5; this one (%d.%d) has no %s: "
                "use an event_ordered box, or a newer driver",
                device->info.ordinal, version / 1000, version % 1000 / 10, dcpk_driver_symbol(needed[i].call));
    return DCPK_OK;
}

static dcpk_status check_numbers(const dcpk_device *device, int32_t index, int32_t count, dcpk_error *error) {
    if (count < 0 || count > SHARES_MAX)
        return dcpk_error_set(error, DCPK_E_ARG, "share_count is %d: 0..%d, 0 or 1 for the whole device", count,
                              SHARES_MAX);
    int32_t shares = count > 1 ? count : 1;
    if (index < 0 || index >= shares)
        return dcpk_error_set(error, DCPK_E_ARG, "share_index is %d: 0..%d", index, shares - 1);
    if (count > 1 && strcmp(device->info.kind, "cuda") != 0)
        return dcpk_error_set(error, DCPK_E_ARG,
                              "share_count is %d, but the CPU device has a device for each rank: open ordinals 0..%d "
                              "without shares (DCPK_CPU_SMS says how many multiprocessors each has)",
                              count, count - 1);
    return DCPK_OK;
}

static dcpk_status too_many(const dcpk_device *device, int32_t count, const cu_resource *all, dcpk_error *error) {
    unsigned most = 0;
    if (CALL(&device->driver, split_sms, (NULL, &most, all, NULL, 0, all->of.sm.least)) != DRIVER_OK) most = 0;
    dcpk_error_set(error, DCPK_E_ARG, "share_count is %d: device %d (%s) has %u multiprocessors", count,
                   device->info.ordinal, device->info.name, all->of.sm.sms);
    if (all->of.sm.least > 0)
        dcpk_error_append(error, ", and the driver splits off parts of %u or more, multiples of %u", all->of.sm.least,
                          all->of.sm.unit);
    if (most > 0) dcpk_error_append(error, ": at most %u shares", most);
    return DCPK_E_ARG;
}

/* The same call with the same arguments on every handle: index r of one handle's result and s of another's are apart.
 * The driver rounds what it is asked for up, so the even part is rounded down first; and multiprocessors of a part sit
 * together in their cluster, so fewer parts than the division says may be there: then smaller ones. */
static dcpk_status split(const dcpk_device *device, int32_t count, cu_resource groups[SHARES_MAX], dcpk_error *error) {
    const struct dcpk_driver *driver = &device->driver;
    char label[DEVICE_LABEL];
    cu_resource all;
    memset(&all, 0, sizeof all);
    cu_result result = CALL(driver, device_resource, (device->handle, &all, DRIVER_RESOURCE_SM));
    if (result != DRIVER_OK)
        return FAILED(driver, device_resource, result, error, "%s", dcpk_device_label(device, label));
    /* drivers before CUDA 13.0 leave unit and least 0 and still round: the loop finds the size */
    unsigned unit = all.of.sm.unit > 0 ? all.of.sm.unit : 1, least = all.of.sm.least > 0 ? all.of.sm.least : 1;
    for (unsigned part = all.of.sm.sms / (unsigned)count / unit * unit; part >= least; part -= unit) {
        unsigned made = (unsigned)count;
        result = CALL(driver, split_sms, (groups, &made, &all, NULL, 0, part));
        if (result != DRIVER_OK)
            return FAILED(driver, split_sms, result, error, "%s: %u multiprocessors", dcpk_device_label(device, label),
                          part);
        if (made >= (unsigned)count) return DCPK_OK;
    }
    return too_many(device, count, &all, error);
}

dcpk_status dcpk_share_take(dcpk_device *device, int32_t index, int32_t count, dcpk_error *error) {
    const struct dcpk_driver *driver = &device->driver;
    dcpk_status status = check_numbers(device, index, count, error);
    if (status != DCPK_OK || count <= 1) return status;
    status = check_driver(device, error);
    if (status != DCPK_OK) return status;
    device->info.share_index = index;
    device->info.share_count = count;
    cu_resource groups[SHARES_MAX], own;
    memset(groups, 0, sizeof groups);
    memset(&own, 0, sizeof own);
    status = split(device, count, groups, error);
    if (status != DCPK_OK) return status;
    char label[DEVICE_LABEL];
    cu_resource_desc desc = NULL; /* the driver's; there is no call that frees it */
    cu_result result = CALL(driver, resource_desc, (&desc, &groups[index], 1));
    if (result != DRIVER_OK)
        return FAILED(driver, resource_desc, result, error, "%s", dcpk_device_label(device, label));
    cu_green green = NULL;
    result = CALL(driver, green_create, (&green, desc, device->handle, DRIVER_GREEN_DEFAULT_STREAM));
    if (result != DRIVER_OK) return FAILED(driver, green_create, result, error, "%s", dcpk_device_label(device, label));
    device->green = green;
    result = CALL(driver, green_resource, (device->green, &own, DRIVER_RESOURCE_SM));
    if (result != DRIVER_OK)
        return FAILED(driver, green_resource, result, error, "%s", dcpk_device_label(device, label));
    device->info.sms = (int32_t)own.of.sm.sms;
    device->unit = own.of.sm.unit > 0 ? (int)own.of.sm.unit : 1;
    device->info.multicast = 0;
    return DCPK_OK;
}

void dcpk_share_release(dcpk_device *device) {
    if (device->green != NULL) (void)CALL(&device->driver, green_destroy, (device->green));
    device->green = NULL;
}

dcpk_status dcpk_share_stream(const dcpk_device *device, cu_stream *stream, dcpk_error *error) {
    const struct dcpk_driver *driver = &device->driver;
    char label[DEVICE_LABEL];
    cu_result result;
    if (device->green != NULL) {
        result = CALL(driver, green_stream, (stream, device->green, DRIVER_STREAM_NON_BLOCKING, 0));
        if (result == DRIVER_OK) return DCPK_OK;
        return FAILED(driver, green_stream, result, error, "%s", dcpk_device_label(device, label));
    }
    result = CALL(driver, stream_create, (stream, DRIVER_STREAM_NON_BLOCKING));
    if (result == DRIVER_OK) return DCPK_OK;
    return FAILED(driver, stream_create, result, error, "%s", dcpk_device_label(device, label));
}

bool dcpk_share_same(const dcpk_device *a, const dcpk_device *b) {
    return a->context == b->context && a->info.share_index == b->info.share_index &&
           a->info.share_count == b->info.share_count;
}

dcpk_status dcpk_share_owns(const dcpk_device *device, void *stream, const char *what, dcpk_error *error) {
    char label[DEVICE_LABEL];
    cu_green green = NULL;
    if (device->green == NULL) return DCPK_OK;
    if (stream != NULL) {
        cu_result result = CALL(&device->driver, stream_green, (stream, &green));
        if (result != DRIVER_OK) return FAILED(&device->driver, stream_green, result, error, "%s", what);
        if (green == device->green) return DCPK_OK;
    }
    return dcpk_error_set(error, DCPK_E_ARG,
                          "%s: loaded on %s, but the stream %s: use one of dcpk_stream_create of the same handle", what,
                          dcpk_device_label(device, label),
                          stream == NULL  ? "is NULL, which has the whole device"
                          : green == NULL ? "has the whole device"
                                          : "is that of another green context");
}
