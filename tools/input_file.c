/* input_file.c - see input_file.h. */
#include "input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of(mode_t mode) {
    return S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : S_ISBLK(mode) ? "a block device" : "a device";
}

static bool refuse(char *why, int error) {
    snprintf(why, INPUT_WHY, "%s", strerror(error));
    return false;
}

/* What is there may be read. */
static bool suits(int fd, uint64_t most, uint64_t *bytes, char *why) {
    struct stat there;
    if (fstat(fd, &there) != 0) return refuse(why, errno);
    if (S_ISDIR(there.st_mode)) return refuse(why, EISDIR);
    *bytes = (uint64_t)there.st_size;
    if (!S_ISREG(there.st_mode))
        snprintf(why, INPUT_WHY, "it is %s, and only regular files are read: put its bytes into one",
                 kind_of(there.st_mode));
    else if (*bytes > most)
        snprintf(why, INPUT_WHY, "it has %llu bytes, and %llu are the most that are read here: take a smaller file",
                 (unsigned long long)*bytes, (unsigned long long)most);
    return why[0] == '\0';
}

/* As many as it had when it was opened, fewer where it has become shorter. */
static bool read_all(int fd, uint64_t bytes, char *to, uint64_t *length) {
    for (*length = 0; *length < bytes;) {
        ssize_t got = read(fd, to + *length, bytes - *length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return false;
        if (got == 0) break;
        *length += (uint64_t)got;
    }
    to[*length] = '\0';
    return true;
}

bool input_file_read(const char *path, uint64_t most, char **bytes, uint64_t *length, char why[INPUT_WHY]) {
    uint64_t size = 0;
    *bytes = NULL;
    why[0] = '\0';
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); /* a pipe nobody writes to: no waiting */
    if (fd < 0) return refuse(why, errno);
    bool good = suits(fd, most, &size, why);
    if (good && (*bytes = malloc(size + 1)) == NULL) good = refuse(why, ENOMEM);
    if (good && !read_all(fd, size, *bytes, length)) good = refuse(why, errno);
    close(fd);
    if (good) return true;
    free(*bytes);
    *bytes = NULL;
    return false;
}

uint64_t input_file_room(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 3 : UINT64_C(1) << 32;
}
