/* process.c - one child process: its log through a pipe, its deadline, its end.
 * Owns the child from spawn to reaping. May not judge what the end means, and may not wait without a bound. */
#include "gen/process.h"

#include "runtime/error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { SLICE_MS = 20, REAP_MS = 5000 };

struct child {
    const struct system *sys;
    pid_t pid;
    int log;
    bool log_open, reaped, lost;
    int status;
    struct process_result *result;
};

/* Reads once; what does not fit is read and dropped, so that the child never blocks on its log. */
static void read_log(struct child *child) {
    char chunk[4096];
    ssize_t got = child->sys->read_pipe(child->log, chunk, sizeof chunk);
    if (got <= 0) {
        child->log_open = false;
        return;
    }
    size_t room = PROCESS_LOG_BYTES - child->result->log_length;
    size_t keep = (size_t)got < room ? (size_t)got : room;
    memcpy(child->result->log + child->result->log_length, chunk, keep);
    child->result->log_length += keep;
}

static void try_reap(struct child *child) {
    pid_t got = child->sys->wait(child->pid, &child->status);
    if (got == child->pid)
        child->reaped = true;
    else if (got < 0)
        child->lost = errno == ECHILD; /* the program ignores SIGCHLD: the system has reaped it */
}

/* Until the child is gone or the deadline has passed. A grandchild may hold the log open: it is not waited for. */
static void watch(struct child *child, uint64_t deadline) {
    while (!child->reaped && !child->lost && system_now_ms() < deadline) {
        int ready = child->log_open ? child->sys->poll(child->log, SLICE_MS) : 0;
        if (ready > 0) {
            read_log(child);
            continue;
        }
        if (ready < 0) child->log_open = false; /* without a log, but not without a deadline */
        if (!child->log_open) system_sleep_ms(1);
        try_reap(child);
    }
}

/* Kills what is left of the group and reaps the child. */
static void finish(struct child *child) {
    bool ended = child->reaped || child->lost;
    uint64_t deadline = system_now_ms() + REAP_MS;
    while (!child->reaped && !child->lost && system_now_ms() < deadline) {
        try_reap(child);
        if (!child->reaped && !child->lost) {
            child->sys->kill_group(child->pid);
            system_sleep_ms(1);
        }
    }
    while (child->log_open && system_now_ms() < deadline && child->sys->poll(child->log, 0) > 0)
        read_log(child);
    if (!ended)
        child->result->end = PROCESS_TIMED_OUT;
    else if (child->lost)
        child->result->end = PROCESS_LOST;
    else if (WIFSIGNALED(child->status))
        child->result->end = PROCESS_SIGNALLED;
    else
        child->result->end = PROCESS_EXITED;
    child->result->code = WIFSIGNALED(child->status) ? WTERMSIG(child->status) : WEXITSTATUS(child->status);
}

dcpk_status process_run(const struct system *sys, struct spawn_request *request, uint32_t timeout_ms,
                        struct process_result *result, dcpk_error *error) {
    memset(result, 0, sizeof *result);
    result->log = calloc(1, PROCESS_LOG_BYTES + 1);
    if (!result->log) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a compiler's log");
    int ends[2];
    if (sys->pipe(ends) != 0)
        return dcpk_error_system(error, DCPK_E_TOOLCHAIN, errno, "no pipe for the log of %s", request->path);
    request->log = ends[1];
    struct child child = {.sys = sys, .log = ends[0], .log_open = true, .result = result};
    int rc = sys->spawn(request, &child.pid), reason = errno;
    sys->close(ends[1]);
    if (rc != 0) {
        sys->close(ends[0]);
        return dcpk_error_system(error, DCPK_E_TOOLCHAIN, reason, "cannot start %s", request->path);
    }
    watch(&child, system_now_ms() + timeout_ms);
    finish(&child);
    sys->close(ends[0]);
    return DCPK_OK;
}
