/* system.c - the real system calls behind struct system. Owns no state; each function is one call, restarted when a
 * signal interrupts it, and leaves the failure in errno. */
#include "gen/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
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

static int call_spawn(const struct spawn_request *request, pid_t *pid) {
    return system_spawn(request, pid);
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
