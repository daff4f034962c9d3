/* driver_find.c - which driver library serves a kind ("cpu", "cuda", "auto"), where it is, and that it has devices.
 * May call the loader, cuInit and cuDeviceGetCount. Must not make contexts. */
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/folder_of.h"
#include "runtime/loader.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char hardware_name[] = "libcuda.so.1", cpu_name[] = "libdcpkcpu.so";

static dcpk_status start(struct dcpk_driver *driver, const char *path, int *count, dcpk_error *error) {
    dcpk_status status = dcpk_driver_open(driver, path, error);
    if (status != DCPK_OK) return status;
    *count = 0;
    cu_result result = CALL(driver, init, (0));
    if (result == DRIVER_NO_DEVICE) {
        status = dcpk_error_set(error, DCPK_E_NOT_FOUND, "driver library %s: it has no device", path);
    } else if (result != DRIVER_OK) {
        status = FAILED(driver, init, result, error, "driver library %s", path);
    } else if ((result = CALL(driver, device_count, (count))) != DRIVER_OK) {
        status = FAILED(driver, device_count, result, error, "driver library %s", path);
    } else if (*count <= 0) {
        status = dcpk_error_set(error, DCPK_E_NOT_FOUND, "driver library %s: it has no device", path);
    }
    if (status != DCPK_OK) dcpk_driver_close(driver);
    return status;
}

/* Where libdcpkcpu.so may be, in order: beside this library; beside the program; above it (build/tests/x beside
 * build/); PREFIX/lib and PREFIX/lib/dcpk of PREFIX/bin/x (the second leads to a LIBDIR that is not PREFIX/lib). */
static bool find_cpu(char path[PATH_MAX]) {
    static const char *const below_program[] = {"", "/..", "/../lib", "/../lib/dcpk"};
    char folder[PATH_MAX], candidate[PATH_MAX + 64];
    if (dcpk_folder_of(hardware_name, folder)) {
        snprintf(candidate, sizeof candidate, "%s/%s", folder, cpu_name);
        if (realpath(candidate, path) != NULL) return true;
    }
    if (!dcpk_folder_of_program(folder)) return false;
    for (size_t i = 0; i < sizeof below_program / sizeof below_program[0]; i++) {
        snprintf(candidate, sizeof candidate, "%s%s/%s", folder, below_program[i], cpu_name);
        if (realpath(candidate, path) != NULL) return true;
    }
    return false;
}

static dcpk_status start_cpu(struct dcpk_driver *driver, int *count, dcpk_error *error) {
    char path[PATH_MAX];
    bool found = find_cpu(path);
    dcpk_status status = start(driver, found ? path : cpu_name, count, error);
    if (status != DCPK_OK && !found)
        dcpk_error_append(error, " (the CPU device is looked for beside libdcpk.so and the program, in the program's "
                                 "../lib, then by the loader: LD_LIBRARY_PATH, ldconfig)");
    return status;
}

static bool is_cpu(const struct dcpk_driver *driver) {
    return dlsym(driver->library, "dcpkcpu_report") != NULL;
}

dcpk_status dcpk_driver_find(const char *kind, const char *library, struct dcpk_driver *driver, bool *cpu, int *count,
                             dcpk_error *error) {
    bool automatic = strcmp(kind, "auto") == 0;
    *cpu = strcmp(kind, "cpu") == 0;
    if (!dcpk_loader_there()) return dcpk_error_set(error, DCPK_E_NOT_FOUND, "no device: %s", DCPK_NO_LOADER);
    if (library != NULL) {
        dcpk_status status = start(driver, library, count, error);
        if (status == DCPK_OK && automatic) *cpu = is_cpu(driver);
        return status;
    }
    if (*cpu) return start_cpu(driver, count, error);
    if (!automatic) return start(driver, hardware_name, count, error);
    dcpk_error first, second;
    dcpk_error_init(&first);
    dcpk_error_init(&second);
    dcpk_status status = start(driver, hardware_name, count, &first);
    if (status == DCPK_OK) return status;
    *cpu = true;
    if (start_cpu(driver, count, &second) == DCPK_OK) return DCPK_OK;
    return dcpk_error_set(error, status, "no device: %s; %s", first.text, second.text);
}
