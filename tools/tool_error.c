/* tool_error.c - see tool_error.h. */
#include <tools/tool_error.h>

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

dcpk_status tool_fail(dcpk_error *error, dcpk_status code, const char *format, ...) {
    if (error) {
        va_list list;
        error->code = code;
        va_start(list, format);
        vsnprintf(error->text, sizeof error->text, format, list);
        va_end(list);
    }
    return code;
}

double tool_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
