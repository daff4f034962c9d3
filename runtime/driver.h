/* driver.h - an open driver library: its entry points as a table of pointers. Internal to the runtime.
 * The table is plain data of its owner; the loader itself counts how often a library is open. */
#ifndef DCPK_RUNTIME_DRIVER_H
#define DCPK_RUNTIME_DRIVER_H

#include "runtime/driver_types.h"

#include <dcpk/base.h>
#include <stdbool.h>

struct dcpk_driver {
    void *library;
#define D(field, symbol, parameters) cu_result(*field) parameters;
#include "runtime/driver.def"
#undef D
};

enum dcpk_driver_call {
#define D(field, symbol, parameters) DRIVER_CALL_##field,
#include "runtime/driver.def"
#undef D
    DRIVER_CALL_COUNT
};

enum { DRIVER_MISSING = -1 }; /* beside CUresult: the driver has no such entry point */

/* Calls driver->field, or gives DRIVER_MISSING. arguments in parentheses. */
#define CALL(driver, field, arguments) ((driver)->field != NULL ? (driver)->field arguments : DRIVER_MISSING)
/* The error of a failed CALL: "WHAT: cuName: CUDA_ERROR_NAME: text". Gives DCPK_E_DRIVER. */
#define FAILED(driver, field, result, error, ...)                                                                      \
    dcpk_driver_error((driver), (error), (result), DRIVER_CALL_##field, __VA_ARGS__)

/* NOT_FOUND with the loader's reason. The library stays mapped for the life of the process (drivers do not
 * unload well); close drops the handle. */
dcpk_status dcpk_driver_open(struct dcpk_driver *driver, const char *path, dcpk_error *error);
void dcpk_driver_close(struct dcpk_driver *driver);

/* The symbol that a row of driver.def stands for. */
const char *dcpk_driver_symbol(enum dcpk_driver_call call);

/* Whether a result says that the context is gone for good (a fault, its destruction): nothing of it runs or will ever
 * run, every further call gives the same, so its resources are given up. */
bool dcpk_driver_lost(cu_result result);

/* The status of a resource that could not be given back, after FAILED: NOT_READY is BOX_BUSY, nothing else changes. */
dcpk_status dcpk_driver_kept(cu_result result, dcpk_status status, dcpk_error *error);

dcpk_status dcpk_driver_error(const struct dcpk_driver *driver, dcpk_error *error, cu_result result,
                              enum dcpk_driver_call call, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
