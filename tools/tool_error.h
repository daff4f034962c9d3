/* tool_error.h - errors and time of what the tools share below the command line. */
#ifndef TOOLS_TOOL_ERROR_H
#define TOOLS_TOOL_ERROR_H

#include <dcpk/base.h>

/* Fills the error (may be NULL) as the libraries do and returns code. */
dcpk_status tool_fail(dcpk_error *error, dcpk_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
double tool_now(void); /* seconds, monotonic */

#endif
