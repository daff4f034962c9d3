/* file.h - for targets whose readers take a file's name, or tell people what is wrong: a file that holds the input and
 * is nowhere, and quiet. */
#ifndef TESTS_FUZZ_FILE_H
#define TESTS_FUZZ_FILE_H

#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fuzz_file {
    int fd;
    char path[40];
};

static inline struct fuzz_file fuzz_file_make(const uint8_t *bytes, size_t length) {
    struct fuzz_file file = {.fd = memfd_create("input", MFD_CLOEXEC)};
    fuzz_check(file.fd >= 0 && fchmod(file.fd, 0600) == 0);
    fuzz_check(write(file.fd, bytes, length) == (ssize_t)length);
    snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.fd);
    return file;
}

static inline void fuzz_file_close(struct fuzz_file *file) {
    close(file->fd);
}

/* What tools say on stderr goes nowhere until fuzz_speak; sanitizers write past the stream and are heard. */
static inline FILE *fuzz_hush(void) {
    static FILE *nowhere;
    FILE *spoken = stderr;
    if (nowhere == NULL) nowhere = fopen("/dev/null", "we");
    fuzz_check(nowhere != NULL);
    stderr = nowhere;
    return spoken;
}

static inline void fuzz_speak(FILE *spoken) {
    stderr = spoken;
}

#endif
