/* sweep_child.c - work in a process of its own: a crash, a hang or a lost device ends it, not the sweep.
 * Children have a process group of their own (a terminal's interrupt is the parent's business) and die with the parent.
 * May call: POSIX. Must not: know what the work is. */
#include <tools/sweep.h>
#include <tools/tool_error.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_CHILDREN = 64, CHUNK = 65536, DYING_S = 30 };

static _Noreturn void be_child(pid_t parent, int fd, int keep_out, sweep_body *body, void *self) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_WORK);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    signal(SIGTTOU, SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    if (keep_out >= 0) close(keep_out);
    FILE *out = fdopen(fd, "w");
    if (out == NULL) _exit(EXIT_WORK);
    int code = body(self, out);
    if (fflush(out) != 0) code = EXIT_WORK;
    fflush(stderr);
    _exit(code); /* nothing of the parent's is flushed or undone twice */
}

bool sweep_child_start(const struct command_line *line, struct sweep_child *child, sweep_body *body, void *self,
                       int keep_out, double timeout_s) {
    int ends[2];
    pid_t parent = getpid();
    *child = (struct sweep_child){.fd = -1, .timeout = timeout_s};
    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        complain(line, "no pipe: %s", strerror(errno));
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        be_child(parent, ends[1], keep_out, body, self);
    }
    close(ends[1]);
    if (pid < 0) {
        complain(line, "no process: %s", strerror(errno));
        close(ends[0]);
        return false;
    }
    setpgid(pid, pid); /* whoever is first */
    child->pid = pid;
    child->deadline = tool_now() + timeout_s;
    child->fd = ends[0];
    return true;
}

void sweep_child_kill(struct sweep_child *child) {
    if (child->pid > 0) child->deadline = 0; /* sweep_child_wait does the rest */
}

/* Takes what is there; at the end of the pipe closes it. */
static void take(struct sweep_child *child) {
    child->text = must(realloc(child->text, child->used + CHUNK + 1));
    ssize_t n = read(child->fd, child->text + child->used, CHUNK);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
        close(child->fd);
        child->fd = -1;
        return;
    }
    child->used += (size_t)n;
    child->text[child->used] = '\0';
}

/* Whether it is over: read to its end and gone, or, after it was killed for its time, given up (a process that a driver
 * holds cannot die). */
static bool ended(struct sweep_child *child, double now) {
    if (child->fd < 0) {
        pid_t gone = waitpid(child->pid, &child->status, WNOHANG);
        if (gone == child->pid) {
            kill(-child->pid, SIGKILL); /* what is left of its group */
            return true;
        }
    }
    if (!child->timed_out || now < child->deadline + DYING_S) return false;
    if (child->fd >= 0) close(child->fd);
    child->fd = -1;
    return true;
}

/* Kills what is past its deadline; the seconds until something must be looked at again. */
static double look(struct sweep_child *child, double now) {
    if (now >= child->deadline && !child->timed_out) {
        child->timed_out = true;
        kill(-child->pid, SIGKILL);
        kill(child->pid, SIGKILL);
    }
    if (child->fd < 0) return 0.01;
    return child->timed_out || child->deadline - now > 1 ? 1 : child->deadline - now;
}

struct sweep_child *sweep_child_wait(struct sweep_child *children, size_t count, const volatile int *stop, int seen) {
    while (*stop == seen) {
        struct pollfd polled[MOST_CHILDREN];
        struct sweep_child *of[MOST_CHILDREN];
        nfds_t open = 0;
        size_t there = 0;
        double now = tool_now(), wait_s = 1;
        for (size_t i = 0; i < count && open < MOST_CHILDREN; i++) {
            struct sweep_child *child = &children[i];
            if (child->pid == 0) continue;
            there++;
            if (ended(child, now)) return child;
            double until = look(child, now);
            wait_s = until < wait_s ? until : wait_s;
            if (child->fd < 0) continue;
            of[open] = child;
            polled[open++] = (struct pollfd){child->fd, POLLIN, 0};
        }
        if (there == 0) return NULL;
        if (poll(polled, open, (int)(wait_s * 1e3) + 1) <= 0) continue;
        for (nfds_t i = 0; i < open; i++)
            if (polled[i].revents != 0) take(of[i]);
    }
    return NULL;
}

json_t *sweep_child_last(const struct sweep_child *child) {
    size_t end = child->used;
    while (end > 0 && child->text[end - 1] != '\n')
        end--;
    if (end == 0) return NULL;
    size_t begin = end - 1;
    while (begin > 0 && child->text[begin - 1] != '\n')
        begin--;
    return json_loadb(child->text + begin, end - begin, 0, NULL);
}

void sweep_child_end(const struct sweep_child *child, char *text, size_t capacity) {
    if (child->timed_out)
        snprintf(text, capacity, "no result after %.0f s (--timeout)", child->timeout);
    else if (WIFSIGNALED(child->status))
        snprintf(text, capacity, "the process died of signal %d (%s)", WTERMSIG(child->status),
                 strsignal(WTERMSIG(child->status)));
    else
        snprintf(text, capacity, "the process ended with %d before it had a result", WEXITSTATUS(child->status));
}

void sweep_child_free(struct sweep_child *child) {
    free(child->text);
    *child = (struct sweep_child){.fd = -1};
}
