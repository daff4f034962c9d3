/* driver_find.c - which driver library serves a kind ("cpu", "cuda", "auto"), where it is, and that it has devices.
 * May call the loader, cuInit and cuDeviceGetCount. Must not make contexts. */
#include "runtime/device.h"
#include "runtime/error.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Cuts the last path component; false when there is none. */
static bool parent(char *path) {
    char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path) return false;
    *slash = '\0';
    return true;
}

/* The folders that may hold libdcpkcpu.so, in order: this library's own, the executable's, the one above it
 * (build/tests/x beside build/), PREFIX/lib of PREFIX/bin/x. */
static size_t folders(char (*folder)[PATH_MAX]) {
    size_t count = 0;
    Dl_info self;
    if (dladdr((const void *)hardware_name, &self) != 0 && self.dli_fname != NULL &&
        realpath(self.dli_fname, folder[count]) != NULL && parent(folder[count]))
        count++;
    ssize_t length = readlink("/proc/self/exe", folder[count], PATH_MAX - 1);
    if (length <= 0) return count;
    folder[count][length] = '\0';
    if (!parent(folder[count])) return count;
    count++;
    memcpy(folder[count], folder[count - 1], PATH_MAX);
    if (!parent(folder[count])) return count;
    count++;
    memcpy(folder[count], folder[count - 1], PATH_MAX);
    if (strlen(folder[count]) + sizeof "/lib" > PATH_MAX) return count;
    strcat(folder[count], "/lib");
    return count + 1;
}

static dcpk_status start_cpu(struct dcpk_driver *driver, int *count, dcpk_error *error) {
    char folder[4][PATH_MAX], path[PATH_MAX + sizeof cpu_name + 1];
    size_t n = folders(folder);
    for (size_t i = 0; i < n; i++) {
        if (strlen(folder[i]) + sizeof cpu_name + 1 > PATH_MAX) continue;
        snprintf(path, sizeof path, "%s/%s", folder[i], cpu_name);
        if (access(path, F_OK) == 0) return start(driver, path, count, error);
    }
    return start(driver, cpu_name, count, error);
}

static bool is_cpu(const struct dcpk_driver *driver) {
    return dlsym(driver->library, "dcpkcpu_report") != NULL;
}

dcpk_status dcpk_driver_find(const char *kind, const char *library, struct dcpk_driver *driver, bool *cpu, int *count,
                             dcpk_error *error) {
    bool automatic = strcmp(kind, "auto") == 0;
    *cpu = strcmp(kind, "cpu") == 0;
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
