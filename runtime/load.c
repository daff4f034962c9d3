/* load.c - loads an image for a device's context: everything at load time, nothing at first launch (lazy loading
 * synchronises, and would wait for a kernel that polls). May allocate and call the driver; must not touch boxes. */
#include "runtime/error.h"
#include "runtime/kernel.h"

#include <stdlib.h>
#include <string.h>

enum { JIT_LOG_BYTES = 16384, PLAIN_SHARED_BYTES = 48 * 1024, PORTABLE_CLUSTER = 8 };

/* A stream's question needs some context to be current; without one this device's is lent for the moment. */
static cu_result ask_capturing(const dcpk_device *device, void *stream, int *capturing) {
    cu_result result = CALL(&device->driver, stream_is_capturing, (stream, capturing));
    if (result != DRIVER_INVALID_CONTEXT || stream == NULL) return result;
    bool pushed;
    if (dcpk_device_enter(device, &pushed, NULL) != DCPK_OK) return result;
    result = CALL(&device->driver, stream_is_capturing, (stream, capturing));
    dcpk_device_leave(device, pushed);
    return result;
}

dcpk_status dcpk_refuse_capture(const dcpk_device *device, void *stream, const char *what, dcpk_error *error) {
    int capturing = DRIVER_CAPTURE_NONE;
    cu_result result = ask_capturing(device, stream, &capturing);
    if (result == DRIVER_CAPTURE_IMPLICIT || (result == DRIVER_OK && capturing != DRIVER_CAPTURE_NONE))
        return dcpk_error_set(error, DCPK_E_CAPTURING,
                              "%s: the stream is capturing a graph: load and warm up before the capture", what);
    if (result == DRIVER_OK || stream == NULL) return DCPK_OK; /* no context is current yet: nothing captures */
    return FAILED(&device->driver, stream_is_capturing, result, error, "%s", what);
}

static dcpk_status check_arch(const dcpk_kernel *kernel, dcpk_error *error) {
    const dcpk_device_info *device = &kernel->device->info;
    dcpk_arch_info arch = {.size = sizeof arch};
    if (!dcpk_arch_find(kernel->spec.arch, &arch))
        return dcpk_error_set(error, DCPK_E_ARCH, "%s: arch %s is not in the table", kernel->text, kernel->spec.arch);
    bool fits = arch.major == device->major && (arch.exact ? arch.minor == device->minor : arch.minor <= device->minor);
    if (fits) return DCPK_OK;
    dcpk_error_set(error, DCPK_E_ARCH, "%s: built for %s, but device %d (%s) is %d.%d; use arch=", kernel->text,
                   arch.name, device->ordinal, device->name, device->major, device->minor);
    bool any = false;
    for (uint32_t i = 0; dcpk_arch_at(i, &arch); i++) {
        if (arch.major != device->major || (arch.exact ? arch.minor != device->minor : arch.minor > device->minor))
            continue;
        dcpk_error_append(error, "%s%s", any ? " or " : "", arch.name);
        any = true;
    }
    if (!any) dcpk_error_append(error, "(none of the table)");
    return DCPK_E_ARCH;
}

static dcpk_status check_permissions(const dcpk_kernel *kernel, dcpk_error *error) {
    const dcpk_spec *spec = &kernel->spec;
    const dcpk_device *device = kernel->device;
    if (spec->watchdog == 0 && spec->dcp > 1 && kernel->id != DCPK_KERNEL_NONE && !device->allow_unwatched)
        return dcpk_error_set(error, DCPK_E_SPEC,
                              "%s: watchdog=0 has no bound on polls and no abort: a missing rank hangs the device; "
                              "it is for benchmarks, ask for it with dcpk_device_options.allow_unwatched",
                              kernel->text);
    if (spec->publish != DCPK_PUBLISH_MULTICAST || spec->dcp <= 1 || device->info.multicast) return DCPK_OK;
    return dcpk_error_set(error, DCPK_E_MULTICAST, "%s: publish=multicast, but device %d (%s) %s: use publish=peer",
                          kernel->text, device->info.ordinal, device->info.name, dcpk_multicast_reason(device));
}

/* The library, with the driver's log in the error when it refuses the code. */
static dcpk_status load_library(dcpk_kernel *kernel, dcpk_error *error) {
    const struct dcpk_driver *driver = &kernel->device->driver;
    char *log = calloc(1, JIT_LOG_BYTES);
    if (log == NULL) return dcpk_error_set(error, DCPK_E_NOMEM, "%s: out of memory", kernel->text);
    int options[] = {DRIVER_JIT_ERROR_LOG, DRIVER_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)JIT_LOG_BYTES};
    size_t length;
    const void *code = dcpk_image_bytes(kernel->image, &length);
    cu_result result = CALL(driver, library_load, (&kernel->library, code, options, values, 2, NULL, NULL, 0));
    dcpk_status status = DCPK_OK;
    if (result != DRIVER_OK) {
        kernel->library = NULL;
        status = FAILED(driver, library_load, result, error, "%s", kernel->text);
        log[JIT_LOG_BYTES - 1] = '\0';
        if (log[0] != '\0') dcpk_error_append(error, "\n%s", log);
    }
    free(log);
    return status;
}

static dcpk_status set_attribute(const dcpk_kernel *kernel, const struct kernel_entry *entry, int attribute, int value,
                                 const char *what, dcpk_error *error) {
    const struct dcpk_driver *driver = &kernel->device->driver;
    cu_result result = CALL(driver, func_set_attribute, (entry->function, attribute, value));
    if (result == DRIVER_OK) return DCPK_OK;
    return FAILED(driver, func_set_attribute, result, error, "%s (%s): %s %d", kernel->text, entry->info.name, what,
                  value);
}

/* The function of one entry, loaded now. */
static dcpk_status load_function(dcpk_kernel *kernel, struct kernel_entry *entry, dcpk_error *error) {
    const struct dcpk_driver *driver = &kernel->device->driver;
    const char *name = entry->info.name;
    cu_kernel found = NULL;
    cu_result result = CALL(driver, library_get_kernel, (&found, kernel->library, name));
    if (result != DRIVER_OK) return FAILED(driver, library_get_kernel, result, error, "%s (%s)", kernel->text, name);
    result = CALL(driver, kernel_get_function, (&entry->function, found));
    if (result != DRIVER_OK) return FAILED(driver, kernel_get_function, result, error, "%s (%s)", kernel->text, name);
    result = CALL(driver, func_load, (entry->function));
    if (result != DRIVER_OK) return FAILED(driver, func_load, result, error, "%s (%s)", kernel->text, name);
    const dcpk_entry_info *info = &entry->info;
    dcpk_status status = DCPK_OK;
    if (info->dynamic_shared > 0 && info->static_shared + info->dynamic_shared > PLAIN_SHARED_BYTES)
        status = set_attribute(kernel, entry, DRIVER_FUNC_MAX_DYNAMIC_SHARED, (int)info->dynamic_shared,
                               "dynamic shared memory", error);
    if (status == DCPK_OK && info->cluster[0] * info->cluster[1] * info->cluster[2] > PORTABLE_CLUSTER)
        status = set_attribute(kernel, entry, DRIVER_FUNC_NON_PORTABLE_CLUSTER, 1, "non-portable cluster size", error);
    return status == DCPK_OK ? dcpk_kernel_fits(kernel, entry, error) : status;
}

/* A box kernel's part in a use: who opens it, who closes it. */
static void mark_uses(dcpk_kernel *kernel) {
    if (kernel->id == DCPK_KERNEL_query_push || kernel->id == DCPK_KERNEL_mla_query) kernel->entries[0].opens = true;
    if (kernel->id == DCPK_KERNEL_dcp_value) kernel->entries[kernel->entry_count - 1].closes = true;
}

static dcpk_status describe(dcpk_kernel *kernel, dcpk_error *error) {
    kernel->spec.size = (uint32_t)sizeof kernel->spec;
    dcpk_status status = dcpk_image_spec(kernel->image, &kernel->spec, error);
    if (status != DCPK_OK) return status;
    dcpk_spec_format(&kernel->spec, kernel->text, sizeof kernel->text);
    kernel->id = dcpk_kernel_id_of(kernel->spec.kernel);
    kernel->entry_count = dcpk_image_entry_count(kernel->image);
    if (kernel->id == DCPK_KERNEL_mla_decode)
        (void)dcpk_spec_workspace(&kernel->spec, &kernel->workspace, NULL, NULL); /* it was built: the spec is right */
    if (kernel->entry_count == 0 || kernel->entry_count > DCPK_IMAGE_MAX_ENTRIES)
        return dcpk_error_set(error, DCPK_E_BAD_CUBIN, "%s: %u entries: 1..%d", kernel->text, kernel->entry_count,
                              DCPK_IMAGE_MAX_ENTRIES);
    for (uint32_t i = 0; status == DCPK_OK && i < kernel->entry_count; i++) {
        struct kernel_entry *entry = &kernel->entries[i];
        entry->info.size = (uint32_t)sizeof entry->info;
        status = dcpk_image_entry(kernel->image, i, &entry->info, error);
        if (status == DCPK_OK) status = dcpk_kernel_bind(kernel, entry, error);
    }
    mark_uses(kernel);
    return status;
}

static cu_result unload(dcpk_kernel *kernel) {
    cu_result result = DRIVER_OK;
    if (kernel->library != NULL) result = CALL(&kernel->device->driver, library_unload, (kernel->library));
    if (result == DRIVER_OK) kernel->library = NULL;
    return result;
}

static dcpk_status unload_in_context(dcpk_kernel *kernel, dcpk_error *error) {
    bool pushed;
    dcpk_status status = dcpk_device_enter(kernel->device, &pushed, error);
    if (status != DCPK_OK) return status;
    cu_result result = unload(kernel);
    if (result != DRIVER_OK) {
        status = FAILED(&kernel->device->driver, library_unload, result, error, "%s", kernel->text);
        status = dcpk_driver_kept(result, status, error);
    }
    dcpk_device_leave(kernel->device, pushed);
    return status;
}

static void forget(dcpk_kernel *kernel) {
    dcpk_image_free(kernel->image);
    dcpk_device_close(kernel->device);
    free(kernel->hold);
    free(kernel);
}

static dcpk_status load_in_context(dcpk_kernel *kernel, dcpk_error *error) {
    bool pushed;
    dcpk_status status = dcpk_device_enter(kernel->device, &pushed, error);
    if (status != DCPK_OK) return status;
    status = load_library(kernel, error);
    for (uint32_t i = 0; status == DCPK_OK && i < kernel->entry_count; i++)
        status = load_function(kernel, &kernel->entries[i], error);
    if (status != DCPK_OK) (void)unload(kernel);
    dcpk_device_leave(kernel->device, pushed);
    return status;
}

dcpk_status dcpk_kernel_load(dcpk_device *device, dcpk_image *image, void *stream, dcpk_kernel **out,
                             dcpk_error *error) {
    if (device == NULL || image == NULL || out == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_kernel_load: device, image or out is NULL");
    *out = NULL;
    dcpk_status status = dcpk_refuse_capture(device, stream, "dcpk_kernel_load", error);
    if (status != DCPK_OK) return status;
    dcpk_kernel *kernel = calloc(1, sizeof *kernel);
    struct capture_hold *hold = calloc(1, sizeof *hold);
    if (kernel == NULL || hold == NULL) {
        free(kernel);
        free(hold);
        return dcpk_error_set(error, DCPK_E_NOMEM, "dcpk_kernel_load: out of memory");
    }
    kernel->device = device;
    kernel->image = image;
    kernel->hold = hold;
    dcpk_device_ref(device);
    dcpk_image_ref(image);
    status = describe(kernel, error);
    if (status == DCPK_OK) status = check_arch(kernel, error);
    if (status == DCPK_OK) status = check_permissions(kernel, error);
    if (status == DCPK_OK) status = load_in_context(kernel, error);
    if (status == DCPK_OK)
        *out = kernel;
    else
        forget(kernel);
    return status;
}

dcpk_status dcpk_kernel_free(dcpk_kernel *kernel, dcpk_error *error) {
    if (kernel == NULL) return DCPK_OK;
    uint32_t held = dcpk_hold_count(kernel->hold);
    if (held > 0)
        return dcpk_error_set(error, DCPK_E_BOX_BUSY,
                              "%s: %u graph%s that captured it still live%s: destroy them, then free it again",
                              kernel->text, held, held == 1 ? "" : "s", held == 1 ? "s" : "");
    dcpk_error why;
    dcpk_error_init(&why);
    dcpk_status status = unload_in_context(kernel, &why);
    if (status == DCPK_OK || dcpk_driver_lost(why.driver_result)) {
        forget(kernel);
        return DCPK_OK;
    }
    dcpk_error_set(error, status, "%s", why.text);
    if (error != NULL && error->size >= sizeof *error) error->driver_result = why.driver_result;
    return status;
}

void dcpk_kernel_drop(dcpk_kernel *kernel) {
    if (kernel == NULL) return;
    (void)unload_in_context(kernel, NULL);
    forget(kernel);
}

const dcpk_image *dcpk_kernel_image(const dcpk_kernel *kernel) {
    return kernel != NULL ? kernel->image : NULL;
}
