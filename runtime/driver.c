/* driver.c - opens a driver library by name and resolves driver.def; turns a CUresult into a dcpk_error.
 * May call dlopen and the driver's own error texts. Must not know devices, and keeps no state of its own. */
#include "runtime/driver.h"
#include "runtime/error.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *const symbols[] = {
#define D(field, symbol, parameters) symbol,
#include "runtime/driver.def"
#undef D
};

const char *dcpk_driver_symbol(enum dcpk_driver_call call) {
    return symbols[call];
}

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the bytes are the same. */
static void resolve(void *library, const char *symbol, void *pointer) {
    void *found = dlsym(library, symbol);
    memcpy(pointer, &found, sizeof found);
}

dcpk_status dcpk_driver_open(struct dcpk_driver *driver, const char *path, dcpk_error *error) {
    memset(driver, 0, sizeof *driver);
    driver->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (driver->library == NULL) {
        const char *reason = dlerror();
        return dcpk_error_set(error, DCPK_E_NOT_FOUND, "driver library %s: %s", path, reason ? reason : "cannot open");
    }
#define D(field, symbol, parameters) resolve(driver->library, symbol, &driver->field);
#include "runtime/driver.def"
#undef D
    return DCPK_OK;
}

void dcpk_driver_close(struct dcpk_driver *driver) {
    if (driver->library != NULL) dlclose(driver->library);
    memset(driver, 0, sizeof *driver);
}

/* Results of which cuda.h says that the process must start anew, and those of a context or driver that is no more. */
static const cu_result fatal[] = {
    4,   /* deinitialised */
    214, /* ECC */
    220, /* NVLink */
    226, /* contained */
    DRIVER_ILLEGAL_ADDRESS,
    702, /* launch timeout */
    709, /* context is destroyed */
    710, /* assert */
    714, /* hardware stack */
    715, /* illegal instruction */
    716, /* misaligned address */
    717, /* address space */
    718, /* program counter */
    DRIVER_LAUNCH_FAILED,
    721, /* tensor memory leak */
    810, /* MPS client terminated */
    911, /* external device */
};

bool dcpk_driver_lost(cu_result result) {
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
        if (fatal[i] == result) return true;
    return false;
}

dcpk_status dcpk_driver_kept(cu_result result, dcpk_status status, dcpk_error *error) {
    if (result != DRIVER_NOT_READY) return status;
    if (error != NULL && error->size >= sizeof *error) error->code = DCPK_E_BOX_BUSY;
    dcpk_error_append(error, "; the device still works: let it finish, then try again");
    return DCPK_E_BOX_BUSY;
}

dcpk_status dcpk_driver_error(const struct dcpk_driver *driver, dcpk_error *error, cu_result result,
                              enum dcpk_driver_call call, const char *format, ...) {
    va_list args;
    va_start(args, format);
    dcpk_error_setv(error, DCPK_E_DRIVER, format, args);
    va_end(args);
    const char *symbol = symbols[call];
    if (result == DRIVER_MISSING) {
        dcpk_error_append(error, ": this driver has no %s: a newer one is needed", symbol);
        return DCPK_E_DRIVER;
    }
    const char *name = NULL, *text = NULL;
    if (driver->error_name == NULL || driver->error_name(result, &name) != DRIVER_OK) name = NULL;
    if (name == NULL && result == DRIVER_STUB_LIBRARY) {
        name = "CUDA_ERROR_STUB_LIBRARY";
        text = "this libcuda is the toolkit's stub for linking, not a driver";
    }
    if (text == NULL && (driver->error_string == NULL || driver->error_string(result, &text) != DRIVER_OK)) text = NULL;
    dcpk_error_append(error, ": %s: ", symbol);
    if (name != NULL)
        dcpk_error_append(error, "%s", name);
    else
        dcpk_error_append(error, "result %d", result);
    if (text != NULL) dcpk_error_append(error, ": %s", text);
    if (error != NULL && error->size >= sizeof *error) error->driver_result = result;
    return DCPK_E_DRIVER;
}
