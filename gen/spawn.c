/* spawn.c - starts a program that does not outlive the one who waits for it. Owns what happens between the copy of this
 * process and the program's first instruction; the child shares our memory until then, so it calls the kernel and
 * nothing else.
 *
 * posix_spawn would do all of it but PR_SET_PDEATHSIG, and a fork would copy the page tables of a whole engine. The
 * child is killed when the thread that started it ends: process_run keeps it in the call that waits for the child. */
#include "gen/system.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct start {
    const struct spawn_request *request;
    int from[3]; /* log, in, out: beyond the descriptors that they become; -1: none */
    pid_t parent;
    volatile int reason; /* the child's errno */
};

static bool move(int from, int to) {
    return from < 0 || dup2(from, to) == to;
}

/* An engine's handlers must not run in the child, and what it ignores is not the compiler's to ignore. SIGXFSZ stays as
 * it is: a compiler that runs into a file size limit fails its write and says so. */
static void reset_signals(void) {
    static const int defaults[] = {SIGPIPE, SIGCHLD, SIGTERM, SIGINT};
    struct sigaction now, plain = {.sa_handler = SIG_DFL};
    for (int i = 1; i < NSIG; i++)
        if (sigaction(i, NULL, &now) == 0 && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN)
            sigaction(i, &plain, NULL);
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
        sigaction(defaults[i], &plain, NULL);
}

/* In the child, with every signal blocked. */
static _Noreturn void become(struct start *start) {
    sigset_t none;
    sigemptyset(&none);
    reset_signals();
    int nothing = open("/dev/null", O_RDONLY);
    bool good = nothing >= 0 && move(nothing, 0) && setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
                move(start->from[0], 1) && move(start->from[0], 2) && move(start->from[1], 3) &&
                move(start->from[2], 4);
    if (good) closefrom(start->from[2] >= 0 ? 5 : 3);
    if (good && getppid() == start->parent && sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execve(start->request->path, start->request->argv, start->request->envp);
    start->reason = errno;
    _exit(127);
}

/* Returns once the child has become the program, or has ended. By itself: nothing of the caller lies in registers that
 * the child might change. What a checker fears of vfork is kept: signals are blocked, and become never returns. */
__attribute__((noinline)) static pid_t run_child(struct start *start) {
    pid_t pid = vfork();         // NOLINT(clang-analyzer-security.insecureAPI.vfork)
    if (pid == 0) become(start); // NOLINT(clang-analyzer-unix.Vfork)
    return pid;
}

static int start_child(struct start *start, pid_t *pid) {
    sigset_t all, before;
    sigfillset(&all);
    int rc = pthread_sigmask(SIG_BLOCK, &all, &before);
    if (rc != 0) return rc;
    *pid = run_child(start);
    if (*pid < 0) rc = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (*pid < 0 || start->reason == 0) return rc;
    while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return start->reason;
}

int system_spawn(const struct spawn_request *request, pid_t *pid) {
    const int given[3] = {request->log, request->in, request->out};
    struct start start = {.request = request, .from = {-1, -1, -1}, .parent = getpid()};
    int rc = 0;
    for (int i = 0; i < 3 && rc == 0; i++) /* out of the way: a dup2 onto 3 must not overwrite what is to become 4 */
        if (given[i] >= 0 && (start.from[i] = fcntl(given[i], F_DUPFD_CLOEXEC, 10)) < 0) rc = errno;
    if (rc == 0) rc = start_child(&start, pid);
    for (int i = 0; i < 3; i++)
        if (start.from[i] >= 0) close(start.from[i]);
    errno = rc;
    return rc == 0 ? 0 : -1;
}
