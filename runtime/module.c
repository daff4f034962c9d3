/* module.c - foreign code: a driver library of its own, its entries launched by name.
 * May call the driver and device.h; knows no images, specs or boxes. */
#include "runtime/device.h"
#include "runtime/error.h"

#include <dcpk/module.h>
#include <stdlib.h>

enum { LOG_BYTES = 16384, PLAIN_SHARED_BYTES = 48 * 1024 };

struct dcpk_module {
    dcpk_device *device;
    cu_library library;
};

/* The driver's log in the error, where it refuses the code. */
static dcpk_status load(dcpk_module *module, const void *code, dcpk_error *error) {
    const struct dcpk_driver *driver = &module->device->driver;
    char *log = calloc(1, LOG_BYTES);
    if (log == NULL) return dcpk_error_set(error, DCPK_E_NOMEM, "dcpk_module_load: out of memory");
    int options[] = {DRIVER_JIT_ERROR_LOG, DRIVER_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)LOG_BYTES};
    cu_result result = CALL(driver, library_load, (&module->library, code, options, values, 2, NULL, NULL, 0));
    dcpk_status status = DCPK_OK;
    if (result != DRIVER_OK) {
        module->library = NULL;
        status = FAILED(driver, library_load, result, error, "device %d", module->device->info.ordinal);
        log[LOG_BYTES - 1] = '\0';
        if (log[0] != '\0') dcpk_error_append(error, "\n%s", log);
    }
    free(log);
    return status;
}

dcpk_status dcpk_module_load(dcpk_device *device, const void *code, dcpk_module **out, dcpk_error *error) {
    if (device == NULL || code == NULL || out == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_module_load: device, code or out is NULL");
    *out = NULL;
    dcpk_module *module = calloc(1, sizeof *module);
    if (module == NULL) return dcpk_error_set(error, DCPK_E_NOMEM, "dcpk_module_load: out of memory");
    module->device = device;
    bool pushed;
    dcpk_status status = dcpk_device_enter(device, &pushed, error);
    if (status == DCPK_OK) {
        status = load(module, code, error);
        dcpk_device_leave(device, pushed);
    }
    if (status != DCPK_OK) {
        free(module);
        return status;
    }
    dcpk_device_ref(device);
    *out = module;
    return DCPK_OK;
}

dcpk_status dcpk_module_free(dcpk_module *module, dcpk_error *error) {
    if (module == NULL) return DCPK_OK;
    bool pushed;
    dcpk_error why;
    dcpk_error_init(&why);
    dcpk_status status = dcpk_device_enter(module->device, &pushed, &why);
    if (status == DCPK_OK) {
        const struct dcpk_driver *driver = &module->device->driver;
        cu_result result = CALL(driver, library_unload, (module->library));
        if (result != DRIVER_OK) {
            status = FAILED(driver, library_unload, result, &why, "device %d", module->device->info.ordinal);
            status = dcpk_driver_kept(result, status, &why);
        }
        dcpk_device_leave(module->device, pushed);
    }
    if (status != DCPK_OK && !dcpk_driver_lost(why.driver_result)) {
        dcpk_error_set(error, status, "%s", why.text);
        return status;
    }
    dcpk_device_close(module->device);
    free(module);
    return DCPK_OK;
}

/* What the device takes, behind what it refused. */
static dcpk_status with_limits(const struct dcpk_module *module, const dcpk_module_launch_options *options,
                               dcpk_status status, dcpk_error *error) {
    const struct dcpk_driver *driver = &module->device->driver;
    int bytes = 0;
    if (CALL(driver, device_attribute, (&bytes, DRIVER_ATTR_SHARED_OF_CTA, module->device->handle)) != DRIVER_OK)
        return status;
    dcpk_error_append(
        error,
        "; %u bytes of dynamic shared memory; a CTA has at most %d bytes, the kernel's own among them, and "
        "1024 threads",
        options->dynamic_shared, bytes);
    if ((uint64_t)options->grid[0] * options->grid[1] * options->grid[2] > INT32_MAX)
        dcpk_error_append(error, "; the CPU device runs at most %d CTAs a grid", INT32_MAX);
    return status;
}

static dcpk_status find(const dcpk_module *module, const dcpk_module_launch_options *options, cu_function *function,
                        dcpk_error *error) {
    const struct dcpk_driver *driver = &module->device->driver;
    cu_kernel kernel = NULL;
    cu_result result = CALL(driver, library_get_kernel, (&kernel, module->library, options->entry));
    if (result == DRIVER_NOT_FOUND)
        return dcpk_error_set(error, DCPK_E_NOT_FOUND, "the module has no entry '%s'", options->entry);
    if (result != DRIVER_OK) return FAILED(driver, library_get_kernel, result, error, "%s", options->entry);
    result = CALL(driver, kernel_get_function, (function, kernel));
    if (result != DRIVER_OK) return FAILED(driver, kernel_get_function, result, error, "%s", options->entry);
    if (options->dynamic_shared == 0) return DCPK_OK;
    result =
        CALL(driver, func_set_attribute, (*function, DRIVER_FUNC_MAX_DYNAMIC_SHARED, (int)options->dynamic_shared));
    if (result != DRIVER_OK && options->dynamic_shared > PLAIN_SHARED_BYTES)
        return with_limits(module, options, FAILED(driver, func_set_attribute, result, error, "%s", options->entry),
                           error);
    return DCPK_OK;
}

static dcpk_status launch(const dcpk_module *module, const dcpk_module_launch_options *options, dcpk_error *error) {
    const struct dcpk_driver *driver = &module->device->driver;
    cu_function function = NULL;
    dcpk_status status = dcpk_share_owns(module->device, options->stream, "dcpk_module_launch", error);
    if (status == DCPK_OK) status = find(module, options, &function, error);
    if (status != DCPK_OK) return status;
    cu_launch_config config = {.shared_bytes = options->dynamic_shared, .stream = options->stream};
    for (unsigned i = 0; i < 3; i++) {
        config.grid[i] = i > 0 && options->grid[i] == 0 ? 1 : options->grid[i];
        config.block[i] = i > 0 && options->block[i] == 0 ? 1 : options->block[i];
    }
    cu_result result = CALL(driver, launch, (&config, function, (void **)(uintptr_t)options->params, NULL));
    if (result == DRIVER_OK) return DCPK_OK;
    status = FAILED(driver, launch, result, error, "%s: %u x %u x %u CTAs of %u x %u x %u threads", options->entry,
                    config.grid[0], config.grid[1], config.grid[2], config.block[0], config.block[1], config.block[2]);
    bool shape = result == DRIVER_INVALID_VALUE || result == DRIVER_OUT_OF_RESOURCES;
    return shape ? with_limits(module, options, status, error) : status;
}

dcpk_status dcpk_module_launch(const dcpk_module *module, const dcpk_module_launch_options *options,
                               dcpk_error *error) {
    dcpk_module_launch_options own;
    if (module == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_module_launch: module is NULL");
    dcpk_status status = dcpk_options_copy(&own, sizeof own, options, "dcpk_module_launch_options", error);
    if (status != DCPK_OK) return status;
    if (own.entry == NULL || own.entry[0] == '\0' || own.grid[0] == 0 || own.block[0] == 0)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_module_launch: an entry, a grid and a block are needed");
    if (own.dynamic_shared > INT32_MAX)
        return dcpk_error_set(error, DCPK_E_ARG, "%s: %u bytes of dynamic shared memory", own.entry,
                              own.dynamic_shared);
    bool pushed;
    status = dcpk_device_enter(module->device, &pushed, error);
    if (status != DCPK_OK) return status;
    status = launch(module, &own, error);
    dcpk_device_leave(module->device, pushed);
    return status;
}
