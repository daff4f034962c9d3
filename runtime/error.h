/* error.h - how the rooms fill a dcpk_error. Internal: runtime, gen and tools include it; users do not.
 * Every call returns the code, so that `return dcpk_error_set(...)` ends a function. error may be NULL. */
#ifndef DCPK_RUNTIME_ERROR_H
#define DCPK_RUNTIME_ERROR_H

#include "runtime/private.h"

#include <dcpk/base.h>

#include <stdarg.h>

/* Sets code and text (cut at a character's border when too long), clears every other field. No argument may point into
 * *error: it is cleared first. */
DCPK_PRIVATE dcpk_status dcpk_error_set(dcpk_error *error, dcpk_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
dcpk_status dcpk_error_setv(dcpk_error *error, dcpk_status code, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* The same with a system error: sys_errno is set and ": " and the system's reason follow the text. */
DCPK_PRIVATE dcpk_status dcpk_error_system(dcpk_error *error, dcpk_status code, int sys_errno, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Appends to the text of an error that is already set. */
DCPK_PRIVATE void dcpk_error_append(dcpk_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Names the template line to blame. file is a path-free name; NULL or line 0 clears both. */
DCPK_PRIVATE void dcpk_error_blame(dcpk_error *error, const char *file, uint32_t line);

#endif
