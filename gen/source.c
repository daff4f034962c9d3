/* source.c - owns the template folders and the files read from them.
 * May call the file system (reads only). Must not know Lua or PTX. */
#include "gen/source.h"
#include "gen/template_list.h"
#include "runtime/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { MAX_FILE = 4 << 20, MAX_NAME = 120, MAX_PATH = 4096, NOT_A_FILE = -1 /* beside errno values */ };

struct sources {
    char *path;
    struct source_file **files;
    size_t count, capacity;
};

dcpk_status sources_open(const char *path, struct sources **out, dcpk_error *error) {
    *out = NULL;
    char first[2];
    if (path == NULL || template_list_next(path, first, sizeof first) == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "there is no template folder: the template path is empty");
    struct sources *sources = calloc(1, sizeof *sources);
    if (sources == NULL || (sources->path = strdup(path)) == NULL) {
        free(sources);
        return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the template path");
    }
    *out = sources;
    return DCPK_OK;
}

static void file_free(struct source_file *file) {
    if (file == NULL) return;
    free(file->name);
    free(file->text);
    free(file);
}

void sources_close(struct sources *sources) {
    if (sources == NULL) return;
    for (size_t i = 0; i < sources->count; i++)
        file_free(sources->files[i]);
    free(sources->files);
    free(sources->path);
    free(sources);
}

const char *sources_path(const struct sources *sources) {
    return sources->path;
}

/* Relative, of plain letters, without ".": a template names nothing outside its folders. */
static int inside(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
    size_t length = strlen(name);
    if (length == 0 || length > MAX_NAME || strspn(name, letters) != length || name[0] == '/') return 0;
    for (const char *part = name;; part++) {
        size_t end = strcspn(part, "/");
        if (end == 0 || part[0] == '.') return 0;
        part += end;
        if (*part == '\0') return 1;
    }
}

/* The whole of fd into file, NUL-terminated. Returns 0, an errno or NOT_A_FILE. */
static int read_all(int fd, struct source_file *file) {
    struct stat about;
    if (fstat(fd, &about) != 0) return errno;
    if (!S_ISREG(about.st_mode)) return S_ISDIR(about.st_mode) ? EISDIR : NOT_A_FILE;
    size_t capacity = about.st_size >= 0 && about.st_size < MAX_FILE ? (size_t)about.st_size + 1 : MAX_FILE;
    if ((file->text = malloc(capacity + 1)) == NULL) return ENOMEM;
    for (;;) {
        if (file->length == capacity) {
            if (capacity > MAX_FILE) return EFBIG;
            char *more = realloc(file->text, (capacity *= 2) + 1);
            if (more == NULL) return ENOMEM;
            file->text = more;
        }
        ssize_t got = read(fd, file->text + file->length, capacity - file->length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) break;
        file->length += (size_t)got;
    }
    file->text[file->length] = '\0';
    return file->length > MAX_FILE ? EFBIG : 0;
}

static void digest(struct source_file *file) {
    XXH128_hash_t hash = XXH3_128bits(file->text, file->length);
    snprintf(file->digest, sizeof file->digest, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

static int remember(struct sources *sources, struct source_file *file) {
    if (sources->count == sources->capacity) {
        size_t capacity = sources->capacity ? sources->capacity * 2 : 16;
        struct source_file **more = realloc(sources->files, capacity * sizeof *more);
        if (more == NULL) return ENOMEM;
        sources->files = more;
        sources->capacity = capacity;
    }
    sources->files[sources->count++] = file;
    return 0;
}

/* The descriptor of name in the first folder that has it, -1 with errno ENOENT when none has. path: what was opened. */
static int open_first(const struct sources *sources, const char *name, char *path, size_t capacity) {
    char folder[MAX_PATH];
    for (const char *at = sources->path; (at = template_list_next(at, folder, sizeof folder)) != NULL;) {
        int wanted = snprintf(path, capacity, "%s/%s", folder, name);
        if (wanted < 0 || (size_t)wanted >= capacity) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0 || (errno != ENOENT && errno != ENOTDIR)) return fd;
    }
    errno = ENOENT;
    return -1;
}

void sources_where(const struct sources *sources, const char *name, char *path, size_t capacity) {
    int fd = open_first(sources, name, path, capacity);
    if (fd >= 0)
        close(fd);
    else
        snprintf(path, capacity, "%s", name);
}

dcpk_status sources_not_found(const struct sources *sources, dcpk_error *error, const char *format, ...) {
    char folder[MAX_PATH], text[sizeof((dcpk_error *)NULL)->text];
    size_t there = 0, missing = 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dcpk_error_set(error, DCPK_E_NOT_FOUND, "%s", text);
    for (const char *at = sources->path; (at = template_list_next(at, folder, sizeof folder)) != NULL;) {
        bool here = template_folder_there(folder);
        there += here;
        if (here) continue;
        dcpk_error_append(error, "%s%s", missing++ == 0 ? "; there is no folder " : ", nor ", folder);
    }
    if (missing > 0 && there == 0)
        dcpk_error_append(error,
                          ": DCPK_TEMPLATE_PATH names the folder of the templates, share/dcpk/templates of where "
                          "dcpk is installed, to a program that is not in that tree");
    return DCPK_E_NOT_FOUND;
}

static dcpk_status not_a_file(const char *path, dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_IO, "template file %s is not a regular file", path);
}

static dcpk_status load(struct sources *sources, const char *name, struct source_file **out, dcpk_error *error) {
    char path[MAX_PATH];
    int fd = open_first(sources, name, path, sizeof path);
    if (fd < 0 && errno == ENOENT)
        return sources_not_found(sources, error, "there is no template file %s in %s", name, sources->path);
    if (fd < 0 && errno == ENXIO) return not_a_file(path, error); /* a socket */
    if (fd < 0) return dcpk_error_system(error, DCPK_E_IO, errno, "cannot open template file %s", path);
    struct source_file *file = calloc(1, sizeof *file);
    int trouble = file == NULL || (file->name = strdup(name)) == NULL ? ENOMEM : read_all(fd, file);
    close(fd);
    if (trouble == 0) digest(file);
    if (trouble == 0) trouble = remember(sources, file);
    if (trouble != 0) {
        file_free(file);
        if (trouble == NOT_A_FILE) return not_a_file(path, error);
        return dcpk_error_system(error, trouble == ENOMEM ? DCPK_E_NOMEM : DCPK_E_IO, trouble,
                                 "cannot read template file %s", path);
    }
    *out = file;
    return DCPK_OK;
}

dcpk_status sources_get(struct sources *sources, const char *name, const struct source_file **out, dcpk_error *error) {
    for (size_t i = 0; i < sources->count; i++)
        if (strcmp(sources->files[i]->name, name) == 0) {
            *out = sources->files[i];
            return DCPK_OK;
        }
    if (!inside(name))
        return dcpk_error_set(error, DCPK_E_ARG,
                              "'%.130s' is not a template file's name: a path below the template folders, of letters, "
                              "digits, _ - . and /, without '..' and not absolute",
                              name);
    struct source_file *file = NULL;
    dcpk_status status = load(sources, name, &file, error);
    *out = file;
    return status;
}
