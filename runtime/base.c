/* base.c - owns status texts, the library's version and the filling of dcpk_error.
 * May call the C library only. Must not keep state, print or allocate. */
#include "runtime/error.h"

#include <stdio.h>
#include <string.h>

struct status_row {
    dcpk_status code;
    const char *name, *meaning, *advice;
};

static const struct status_row statuses[] = {
    {DCPK_OK, "DCPK_OK", "it worked", "nothing to do"},
#define E(name, code, meaning, advice) {DCPK_E_##name, "DCPK_E_" #name, meaning, advice},
#include <dcpk/errors.def>
#undef E
    {DCPK_STATUS_INT32, "DCPK_E_?", "not a status of this library", "compare the versions of header and library"},
};

static const struct status_row *find(dcpk_status status) {
    size_t last = sizeof statuses / sizeof statuses[0] - 1;
    for (size_t i = 0; i < last; i++)
        if (statuses[i].code == status) return &statuses[i];
    return &statuses[last];
}

const char *dcpk_status_name(dcpk_status status) {
    return find(status)->name;
}

const char *dcpk_status_meaning(dcpk_status status) {
    return find(status)->meaning;
}

const char *dcpk_status_advice(dcpk_status status) {
    return find(status)->advice;
}

const char *dcpk_version(void) {
    return DCPK_VERSION_TEXT;
}

void dcpk_error_init(dcpk_error *error) {
    if (error == NULL) return;
    memset(error, 0, sizeof *error);
    error->size = (uint32_t)sizeof *error;
}

/* A caller built against an older, smaller struct gets nothing written past its end. */
static int whole(const dcpk_error *error) {
    return error != NULL && error->size >= sizeof *error;
}

/* Ends a text that did not fit with "..." and never inside a UTF-8 sequence. */
static void cut(char *text, size_t capacity) {
    size_t at = capacity - 4;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80)
        at--;
    memcpy(text + at, "...", 4);
}

static void append(dcpk_error *error, const char *format, va_list args) {
    size_t used = strnlen(error->text, sizeof error->text - 1);
    int wanted = vsnprintf(error->text + used, sizeof error->text - used, format, args);
    if (wanted < 0)
        error->text[used] = '\0';
    else if ((size_t)wanted >= sizeof error->text - used)
        cut(error->text, sizeof error->text);
}

dcpk_status dcpk_error_setv(dcpk_error *error, dcpk_status code, const char *format, va_list args) {
    if (!whole(error)) return code;
    uint32_t size = error->size;
    memset(error, 0, sizeof *error);
    error->size = size;
    error->code = code;
    append(error, format, args);
    return code;
}

dcpk_status dcpk_error_set(dcpk_error *error, dcpk_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    dcpk_error_setv(error, code, format, args);
    va_end(args);
    return code;
}

void dcpk_error_append(dcpk_error *error, const char *format, ...) {
    if (!whole(error)) return;
    va_list args;
    va_start(args, format);
    append(error, format, args);
    va_end(args);
}

dcpk_status dcpk_error_system(dcpk_error *error, dcpk_status code, int sys_errno, const char *format, ...) {
    va_list args;
    va_start(args, format);
    dcpk_error_setv(error, code, format, args);
    va_end(args);
    if (!whole(error)) return code;
    char reason[128];
    dcpk_error_append(error, ": %s", strerror_r(sys_errno, reason, sizeof reason));
    error->sys_errno = sys_errno;
    return code;
}

void dcpk_error_blame(dcpk_error *error, const char *file, uint32_t line) {
    if (!whole(error)) return;
    error->template_line = file != NULL ? line : 0;
    snprintf(error->template_file, sizeof error->template_file, "%s", file != NULL && line != 0 ? file : "");
}
