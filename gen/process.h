/* process.h - run a program to its end or to a deadline, and keep what it says. */
#ifndef DCPK_GEN_PROCESS_H
#define DCPK_GEN_PROCESS_H

#include "gen/system.h"

#include <dcpk/base.h>

enum process_end { PROCESS_EXITED, PROCESS_SIGNALLED, PROCESS_TIMED_OUT, PROCESS_LOST };

struct process_result {
    enum process_end end;
    int code;  /* exit status or signal */
    char *log; /* what it wrote to stdout and stderr, NUL-terminated, the first PROCESS_LOG_BYTES of it */
    size_t log_length;
};

enum { PROCESS_LOG_BYTES = 64 * 1024 };

/* request->log is ours to fill. The whole process group is gone and reaped when this returns. TOOLCHAIN when the
 * program cannot be started; how it ended is the caller's to judge. The log is freed by the caller in every case. */
dcpk_status process_run(const struct system *sys, struct spawn_request *request, uint32_t timeout_ms,
                        struct process_result *result, dcpk_error *error);

#endif
