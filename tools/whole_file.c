/* whole_file.c - see whole_file.h. */
#include <tools/whole_file.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_part(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

static bool write_parts(int fd, const struct file_part *parts, size_t count) {
    bool good = true;
    for (size_t i = 0; good && i < count; i++) {
        good = write_part(fd, parts[i].data, parts[i].size);
    }
    return good;
}

/* Closes in any case; errno is that of the first failure. */
static bool closed(int fd, bool good) {
    int saved = errno;
    bool shut = close(fd) == 0;
    if (!good) errno = saved;
    return good && shut;
}

static bool write_straight(const char *path, const struct file_part *parts, size_t count) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && closed(fd, write_parts(fd, parts, count));
}

/* A new file beside `path`, of the permissions that the process gives new files; its name goes to `name`. */
static int open_beside(const char *path, char *name, size_t room) {
    for (int attempt = 0; attempt < 100; attempt++) {
        snprintf(name, room, "%s.%ld-%d.tmp", path, (long)getpid(), attempt);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

static bool write_beside(const char *path, const struct stat *old, const struct file_part *parts, size_t count) {
    char name[PATH_MAX + 64];
    int fd = open_beside(path, name, sizeof name);
    if (fd < 0) return false;
    bool good = write_parts(fd, parts, count) && (old == NULL || fchmod(fd, old->st_mode & 0777) == 0);
    good = closed(fd, good && fsync(fd) == 0) && rename(name, path) == 0;
    if (!good) {
        int saved = errno;
        unlink(name);
        errno = saved;
    }
    return good;
}

bool whole_file_write(const char *path, const struct file_part *parts, size_t count) {
    char real[PATH_MAX];
    struct stat old;
    if (strlen(path) >= sizeof real) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (realpath(path, real) == NULL || stat(real, &old) != 0) {
        return write_beside(strcpy(real, path), NULL, parts, count);
    }
    if (S_ISDIR(old.st_mode)) {
        errno = EISDIR;
        return false;
    }
    return S_ISREG(old.st_mode) ? write_beside(real, &old, parts, count) : write_straight(real, parts, count);
}
