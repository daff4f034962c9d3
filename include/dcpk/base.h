/* base.h - status codes, the error object, the log callback, the library's version.
 *
 * Rules that hold for every header here: a call that can fail returns dcpk_status and fills the
 * caller's dcpk_error (may be NULL); nothing is kept in globals or thread-locals; nothing exits or
 * prints. Option structs begin with `uint32_t size` (set it to sizeof the struct), so that fields can
 * be appended later. Device addresses are uint64_t, streams are the driver's CUstream as void *. */
#ifndef DCPK_BASE_H
#define DCPK_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DCPK_API __attribute__((visibility("default")))
#else
#define DCPK_API
#endif

#define DCPK_VERSION_MAJOR 0
#define DCPK_VERSION_MINOR 1
#define DCPK_VERSION_PATCH 0
#define DCPK_VERSION_TEXT "0.1.0"

typedef int32_t dcpk_status;

enum dcpk_status_code {
    DCPK_OK = 0,
#define E(name, code, meaning, advice) DCPK_E_##name = code,
#include <dcpk/errors.def>
#undef E
    DCPK_STATUS_INT32 = 0x7FFFFFFF /* keeps the enum's width */
};

/* What went wrong. Owned by the caller; set size before the call (dcpk_error_init does).
 * A successful call leaves it untouched. Not shared between threads at the same time. */
typedef struct dcpk_error {
    uint32_t size;
    dcpk_status code;  /* one of dcpk_status_code */
    int32_t sys_errno; /* errno of the failed system call, else 0; TOOLCHAIN with ENOENT: the compiler is not there */
    int32_t driver_result;   /* CUresult of the failed driver call, else 0 */
    uint32_t template_line;  /* 1-based line in template_file, 0 when no template is to blame */
    char template_file[124]; /* path below the template folder, "" when no template is to blame */
    char text[3952];         /* what, where and what to do; UTF-8, NUL-terminated, may hold several lines */
} dcpk_error;

DCPK_API void dcpk_error_init(dcpk_error *error);

/* "DCPK_E_SPEC" for DCPK_E_SPEC, "DCPK_OK" for 0, "DCPK_E_?" for anything else. Static text. */
DCPK_API const char *dcpk_status_name(dcpk_status status);
/* The meaning and advice columns of errors.def. Static text. */
DCPK_API const char *dcpk_status_meaning(dcpk_status status);
DCPK_API const char *dcpk_status_advice(dcpk_status status);

/* "0.1.0". Static text. */
DCPK_API const char *dcpk_version(void);

enum dcpk_log_level { DCPK_LOG_ERROR = 0, DCPK_LOG_WARNING = 1, DCPK_LOG_INFO = 2, DCPK_LOG_DEBUG = 3 };

/* One log line without newline. Called from the thread that made the API call. */
typedef void dcpk_log_fn(void *self, int level, const char *text);

#ifdef __cplusplus
}
#endif
#endif
