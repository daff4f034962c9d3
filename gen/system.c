/* system.c - the real system calls behind struct system. Owns no state; each function is one call, restarted when a
 * signal interrupts it, and leaves the failure in errno. */
#include "gen/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int call_open(int dir, const char *path, int flags, mode_t mode) {
    return (int)TEMP_FAILURE_RETRY(openat(dir, path, flags | O_CLOEXEC, mode));
}

static int call_close(int fd) {
    return close(fd) != 0 && errno != EINTR ? -1 : 0; /* Linux has closed it even then */
}

static int call_stat_fd(int fd, struct stat *st) {
    return TEMP_FAILURE_RETRY(fstat(fd, st)) != 0 ? -1 : 0;
}

/* Of the name itself, should it be a link. */
static int call_stat_at(int dir, const char *name, struct stat *st) {
    return TEMP_FAILURE_RETRY(fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW)) != 0 ? -1 : 0;
}

static int call_touch(int fd) {
    return futimens(fd, NULL);
}

static int call_stat_path(const char *path, struct stat *st) {
    return TEMP_FAILURE_RETRY(stat(path, st)) != 0 ? -1 : 0;
}

static int call_make_folder(int dir, const char *path, mode_t mode) {
    return TEMP_FAILURE_RETRY(mkdirat(dir, path, mode)) != 0 ? -1 : 0;
}

/* readdir's names behind each other; false with errno when memory or reading fails. */
static bool gather(DIR *folder, char **names, size_t *bytes) {
    size_t capacity = 0;
    for (struct dirent *entry; (void)(errno = 0), (entry = readdir(folder)) != NULL;) {
        size_t length = strlen(entry->d_name) + 1;
        if (*bytes + length > capacity) {
            capacity = (capacity + length) * 2;
            char *more = realloc(*names, capacity);
            if (!more) return false;
            *names = more;
        }
        memcpy(*names + *bytes, entry->d_name, length);
        *bytes += length;
    }
    return errno == 0;
}

static int call_list_folder(int dir, char **names, size_t *bytes) {
    *names = NULL;
    *bytes = 0;
    int fd = (int)TEMP_FAILURE_RETRY(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        int reason = errno;
        if (fd >= 0) close(fd);
        errno = reason;
        return -1;
    }
    bool good = gather(folder, names, bytes);
    int reason = errno;
    closedir(folder);
    if (good) return 0;
    free(*names);
    *names = NULL;
    errno = reason;
    return -1;
}

static ssize_t call_read(int fd, void *to, size_t bytes, off_t offset) {
    return TEMP_FAILURE_RETRY(pread(fd, to, bytes, offset));
}

static ssize_t call_write(int fd, const void *from, size_t bytes) {
    return TEMP_FAILURE_RETRY(write(fd, from, bytes));
}

static int call_sync(int fd) {
    return (int)TEMP_FAILURE_RETRY(fsync(fd));
}

static int call_link(int dir, const char *from, const char *to) {
    return TEMP_FAILURE_RETRY(linkat(dir, from, dir, to, 0)) != 0 ? -1 : 0;
}

static int call_rename(int dir, const char *from, const char *to) {
    return TEMP_FAILURE_RETRY(renameat(dir, from, dir, to)) != 0 ? -1 : 0;
}

static int call_unlink(int dir, const char *path) {
    return TEMP_FAILURE_RETRY(unlinkat(dir, path, 0)) != 0 ? -1 : 0;
}

static int call_lock(int fd, int64_t offset) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};
    return (int)TEMP_FAILURE_RETRY(fcntl(fd, F_OFD_SETLK, &lock));
}

static int call_random_bytes(void *to, size_t bytes) {
    return TEMP_FAILURE_RETRY(getrandom(to, bytes, 0)) == (ssize_t)bytes ? 0 : -1;
}

static int call_memory_file(const char *name) {
    return memfd_create(name, MFD_CLOEXEC);
}

static int call_pipe(int ends[2]) {
    return pipe2(ends, O_CLOEXEC);
}

static ssize_t call_read_pipe(int fd, void *to, size_t bytes) {
    return TEMP_FAILURE_RETRY(read(fd, to, bytes));
}

static int call_poll(int fd, int ms) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int ready = poll(&one, 1, ms);
    return ready < 0 && errno == EINTR ? 0 : ready;
}

/* Descriptors move out of the way first: a dup2 onto 3 must not overwrite what is to become 4. */
static int arrange(posix_spawn_file_actions_t *actions, const int from[3]) {
    static const int to[3][2] = {{1, 2}, {3, -1}, {4, -1}};
    int rc = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    for (int i = 0; i < 3 && rc == 0; i++)
        for (int j = 0; j < 2 && rc == 0; j++)
            if (from[i] >= 0 && to[i][j] >= 0) rc = posix_spawn_file_actions_adddup2(actions, from[i], to[i][j]);
    if (rc == 0) rc = posix_spawn_file_actions_addclosefrom_np(actions, from[2] >= 0 ? 5 : 3);
    return rc;
}

/* Own process group, nothing blocked; an engine's ignored SIGPIPE or SIGCHLD are not the compiler's. SIGXFSZ stays as
 * it is: a compiler that runs into a file size limit fails its write and says so. A program that is killed (SIGKILL)
 * leaves its compiler to run to its end, whose bytes nobody reads: PR_SET_PDEATHSIG would have to be said between fork
 * and exec, where posix_spawn runs nothing of ours, and a fork copies the page tables of a whole engine. */
static int attributes(posix_spawnattr_t *attr) {
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGCHLD);
    sigaddset(&defaults, SIGTERM);
    sigaddset(&defaults, SIGINT);
    int rc = posix_spawnattr_setpgroup(attr, 0);
    if (rc == 0) rc = posix_spawnattr_setsigmask(attr, &none);
    if (rc == 0) rc = posix_spawnattr_setsigdefault(attr, &defaults);
    if (rc == 0)
        rc = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    return rc;
}

static int spawn_arranged(const struct spawn_request *request, const int from[3], pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0) return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc == 0) {
        rc = arrange(&actions, from);
        if (rc == 0) rc = attributes(&attr);
        if (rc == 0) rc = posix_spawn(pid, request->path, &actions, &attr, request->argv, request->envp);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static int call_spawn(const struct spawn_request *request, pid_t *pid) {
    int given[3] = {request->log, request->in, request->out}, from[3] = {-1, -1, -1};
    int rc = 0;
    for (int i = 0; i < 3 && rc == 0; i++)
        if (given[i] >= 0 && (from[i] = fcntl(given[i], F_DUPFD_CLOEXEC, 10)) < 0) rc = errno;
    if (rc == 0) rc = spawn_arranged(request, from, pid);
    for (int i = 0; i < 3; i++)
        if (from[i] >= 0) close(from[i]);
    errno = rc;
    return rc == 0 ? 0 : -1;
}

static pid_t call_wait(pid_t pid, int *status) {
    return (pid_t)TEMP_FAILURE_RETRY(waitpid(pid, status, WNOHANG));
}

static int call_kill_group(pid_t group) {
    return kill(-group, SIGKILL);
}

const struct system system_calls = {
#define S(type, name, parameters, arguments) .name = call_##name,
#include "gen/system.def"
#undef S
};

double system_now(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

uint64_t system_now_ms(void) {
    return (uint64_t)system_now();
}

int64_t system_wall_s(void) {
    return (int64_t)time(NULL);
}

void system_sleep_ms(uint32_t ms) {
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}
