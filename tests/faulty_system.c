/* faulty_system.c - see faulty_system.h. A call that fails does nothing, but for close: Linux closes the descriptor all
 * the same. */
#include "tests/faulty_system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DESCRIPTORS = 1024, PLAYED_PID = 999999999 };

struct fault fault;
static unsigned fail_at;
static const char *fail_name, *fail_path;
static int fail_errno;
static bool of_compiler[DESCRIPTORS]; /* memory files and pipes */
static const void *played;
static size_t played_length;

void fault_nth(unsigned n, int reason) {
    fault = (struct fault){0};
    fail_at = n;
    fail_name = fail_path = NULL;
    fail_errno = reason;
}

void fault_all(const char *name, const char *path, int reason) {
    fault_nth(0, reason);
    fail_name = name;
    fail_path = path;
}

void fault_play_compiler(const void *cubin, size_t length) {
    played = cubin;
    played_length = length;
}

unsigned open_descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 128; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static bool is_for_compiler(const char *name, int fd) {
    static const char *const names[] = {"memory_file", "pipe", "read_pipe",  "poll",
                                        "spawn",       "wait", "kill_group", "stat_path"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return fd >= 0 && fd < DESCRIPTORS && of_compiler[fd];
}

/* True when this call is the one to fail; errno is set. */
static bool must_fail(const char *name, int fd, const char *path) {
    fault.calls++;
    fault.listings += strcmp(name, "list_folder") == 0;
    bool hit = fail_at ? fault.calls == fail_at
                       : fail_name && strcmp(name, fail_name) == 0 && (!fail_path || (path && strstr(path, fail_path)));
    if (!hit) return false;
    fault.failures++;
    snprintf(fault.name, sizeof fault.name, "%s", name);
    fault.compiler = is_for_compiler(name, fd);
    errno = fail_errno;
    return true;
}

#define PLAIN(type, name, parameters, arguments, fd, path)                                                             \
    static type faulty_##name parameters {                                                                             \
        return must_fail(#name, fd, path) ? (type)-1 : system_calls.name arguments;                                    \
    }
PLAIN(int, stat_fd, (int fd, struct stat *st), (fd, st), fd, NULL)
PLAIN(int, stat_at, (int dir, const char *name, struct stat *st), (dir, name, st), -1, name)
PLAIN(int, touch, (int fd), (fd), fd, NULL)
PLAIN(int, stat_path, (const char *path, struct stat *st), (path, st), -1, path)
PLAIN(int, make_folder, (int dir, const char *path, mode_t mode), (dir, path, mode), -1, path)
PLAIN(int, list_folder, (int dir, char **names, size_t *bytes), (dir, names, bytes), -1, NULL)
PLAIN(ssize_t, read, (int fd, void *to, size_t bytes, off_t offset), (fd, to, bytes, offset), fd, NULL)
PLAIN(ssize_t, write, (int fd, const void *from, size_t bytes), (fd, from, bytes), fd, NULL)
PLAIN(int, link, (int dir, const char *from, const char *to), (dir, from, to), -1, to)
PLAIN(int, rename, (int dir, const char *from, const char *to), (dir, from, to), -1, to)
PLAIN(int, unlink, (int dir, const char *path), (dir, path), -1, path)
PLAIN(int, lock, (int fd, int64_t offset), (fd, offset), -1, NULL)
PLAIN(int, random_bytes, (void *to, size_t bytes), (to, bytes), -1, NULL)
PLAIN(ssize_t, read_pipe, (int fd, void *to, size_t bytes), (fd, to, bytes), fd, NULL)
PLAIN(int, poll, (int fd, int ms), (fd, ms), fd, NULL)

static int faulty_open(int dir, const char *path, int flags, mode_t mode) {
    if (!must_fail("open", -1, path)) return system_calls.open(dir, path, flags, mode);
    int fd = flags & O_CREAT ? -2 : system_calls.open(dir, path, flags, mode);
    fault.vain = fd == -1;
    if (fd >= 0) system_calls.close(fd);
    errno = fail_errno;
    return -1;
}

static int faulty_close(int fd) {
    bool fails = must_fail("close", fd, NULL);
    if (fd >= 0 && fd < DESCRIPTORS) of_compiler[fd] = false;
    int rc = system_calls.close(fd);
    if (!fails) return rc;
    errno = fail_errno;
    return -1;
}

static int faulty_sync(int fd) {
    if (must_fail("sync", fd, NULL)) return -1;
    return played ? 0 : system_calls.sync(fd);
}

static void mark(int fd) {
    if (fd >= 0 && fd < DESCRIPTORS) of_compiler[fd] = true;
}

static int faulty_memory_file(const char *name) {
    int fd = must_fail("memory_file", -1, name) ? -1 : system_calls.memory_file(name);
    mark(fd);
    return fd;
}

static int faulty_pipe(int ends[2]) {
    if (must_fail("pipe", -1, NULL) || system_calls.pipe(ends) != 0) return -1;
    mark(ends[0]);
    mark(ends[1]);
    return 0;
}

static int play(const struct spawn_request *request, pid_t *pid) {
    static const char version[] = "ptxas: a fake\nCuda compilation tools, release 13.0, V13.0.88\nBuild fake.1\n";
    const void *bytes = request->out >= 0 ? played : version;
    size_t length = request->out >= 0 ? played_length : sizeof version - 1;
    *pid = PLAYED_PID;
    return write(request->out >= 0 ? request->out : request->log, bytes, length) == (ssize_t)length ? 0 : -1;
}

static int faulty_spawn(const struct spawn_request *request, pid_t *pid) {
    if (must_fail("spawn", -1, request->path)) return -1;
    return played ? play(request, pid) : system_calls.spawn(request, pid);
}

static pid_t faulty_wait(pid_t pid, int *status) {
    if (must_fail("wait", -1, NULL)) return -1;
    if (pid != PLAYED_PID) return system_calls.wait(pid, status);
    *status = 0;
    return pid;
}

static int faulty_kill_group(pid_t group) {
    if (must_fail("kill_group", -1, NULL)) return -1;
    return group == PLAYED_PID ? 0 : system_calls.kill_group(group);
}

const struct system faulty_system = {
#define S(type, name, parameters, arguments) .name = faulty_##name,
#include "gen/system.def"
#undef S
};
