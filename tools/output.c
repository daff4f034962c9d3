/* output.c - results into files: the whole file under its name, or nothing.
 *
 * A regular file is written beside its place and renamed over it. Other things (a pipe, a device) are written
 * straight. "-" is stdout, whose errors the end of main reports. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool output_all(int fd, const char *data, size_t length) {
    while (length > 0) {
        ssize_t n = write(fd, data, length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        data += n;
        length -= (size_t)n;
    }
    return true;
}

static bool write_straight(const char *path, const void *data, size_t length) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool good = output_all(fd, data, length);
    int saved = errno;
    if (close(fd) != 0 && good) return false;
    errno = saved;
    return good;
}

static bool write_beside(const char *path, mode_t mode, const void *data, size_t length) {
    size_t room = strlen(path) + sizeof ".XXXXXX";
    char *temporary = must(malloc(room));
    snprintf(temporary, room, "%s.XXXXXX", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        free(temporary);
        return false;
    }
    bool good = output_all(fd, data, length) && fchmod(fd, mode) == 0 && fsync(fd) == 0;
    int saved = errno;
    if (close(fd) != 0 && good) good = false, saved = errno;
    if (good && rename(temporary, path) != 0) good = false, saved = errno;
    if (!good) unlink(temporary);
    free(temporary);
    errno = saved;
    return good;
}

bool output_is(const char *path, const char *other) {
    struct stat here, there;
    return strcmp(path, "-") != 0 && stat(path, &here) == 0 && stat(other, &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

bool output_inside(const char *path, const char *folder) {
    char real[PATH_MAX], around[PATH_MAX];
    if (strcmp(path, "-") == 0 || strlen(path) >= sizeof real || realpath(folder, around) == NULL) return false;
    if (realpath(path, real) == NULL) { /* a new file: its folder says */
        char *copy = must(strdup(path)), *slash = strrchr(copy, '/');
        if (slash != NULL) slash[slash == copy] = '\0';
        bool known = realpath(slash != NULL ? copy : ".", real) != NULL;
        free(copy);
        if (!known) return false;
    }
    size_t length = strlen(around);
    return strncmp(real, around, length) == 0 && (real[length] == '/' || real[length] == '\0');
}

bool output_write(const struct command_line *line, const char *path, const void *data, size_t length) {
    if (strcmp(path, "-") == 0) return fwrite(data, 1, length, stdout) == length;
    char real[PATH_MAX]; /* a link's target is replaced, not the link */
    struct stat there;
    mode_t mask = umask(0);
    umask(mask);
    mode_t mode = 0666 & ~mask;
    if (realpath(path, real) == NULL) {
        if (strlen(path) >= sizeof real) {
            errno = ENAMETOOLONG;
            goto failed;
        }
        strcpy(real, path);
    } else if (stat(real, &there) == 0) {
        mode = there.st_mode & 0777;
        if (S_ISDIR(there.st_mode)) {
            errno = EISDIR;
            goto failed;
        }
        if (!S_ISREG(there.st_mode)) {
            if (write_straight(real, data, length)) return true;
            goto failed;
        }
    }
    if (write_beside(real, mode, data, length)) return true;
failed:
    complain(line, "cannot write '%s': %s", path, strerror(errno));
    return false;
}
