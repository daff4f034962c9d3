/* cache_shard.c - see cache_shard.h. Removes a file when it is told to. */
#include "gen/cache_shard.h"

#include "runtime/error.h"
#include "runtime/image_find.h"
#include "runtime/image_format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEX = DIGEST_HEX - 1, TEMPORARY_HEX = 16, HEAD = 32, TAIL = 16 };

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool sort_names(struct shard *shard, size_t bytes) {
    size_t count = 0, used = 0;
    for (size_t at = 0; at < bytes; at += strlen(shard->bytes + at) + 1)
        count++;
    shard->names = calloc(count + 1, sizeof *shard->names);
    if (!shard->names) return false;
    for (size_t at = 0; at < bytes; at += strlen(shard->bytes + at) + 1)
        shard->names[used++] = shard->bytes + at;
    qsort(shard->names, used, sizeof *shard->names, compare_names);
    shard->count = used;
    return true;
}

dcpk_status shard_open(struct cache *cache, unsigned index, struct shard *shard, dcpk_error *error) {
    size_t bytes = 0;
    *shard = (struct shard){.fd = -1};
    snprintf(shard->name, sizeof shard->name, "%02x", index & 0xff);
    dcpk_error reason;
    dcpk_error_init(&reason);
    shard->fd = cache_shard(cache, shard->name, false, &reason);
    if (shard->fd < 0 && reason.code == DCPK_E_NOT_FOUND) return DCPK_OK;
    if (shard->fd < 0) return dcpk_error_set(error, reason.code, "%s", reason.text);
    if (cache->sys->list_folder(shard->fd, &shard->bytes, &bytes) != 0)
        return dcpk_error_system(error, DCPK_E_CACHE, errno, "cannot list %s/%s", cache->path, shard->name);
    return sort_names(shard, bytes) ? DCPK_OK : dcpk_error_set(error, DCPK_E_NOMEM, "no memory to list the cache");
}

void shard_close(const struct cache *cache, struct shard *shard) {
    if (shard->fd >= 0) cache->sys->close(shard->fd);
    free(shard->bytes);
    free(shard->names);
    *shard = (struct shard){.fd = -1};
}

static bool is_temporary(const char *name) {
    size_t skip = sizeof CACHE_TEMPORARY - 1;
    return strncmp(name, CACHE_TEMPORARY, skip) == 0 && strlen(name) == skip + TEMPORARY_HEX &&
           strspn(name + skip, "0123456789abcdef") == TEMPORARY_HEX;
}

enum file_kind file_kind_of(const struct shard *shard, const char *name, char key[DIGEST_HEX]) {
    static const struct {
        const char *suffix;
        enum file_kind kind;
    } rows[] = {{CACHE_ENTRY, FILE_ENTRY}, {CACHE_MANIFEST, FILE_MANIFEST}, {CACHE_TOOLCHAIN, FILE_TOOLCHAIN}};
    key[0] = '\0';
    if (is_temporary(name)) return FILE_TEMPORARY;
    if (strspn(name, "0123456789abcdef") != HEX || memcmp(name, shard->name, 2) != 0) return FILE_OTHER;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(name + HEX, rows[i].suffix) == 0) {
            memcpy(key, name, HEX);
            key[HEX] = '\0';
            return rows[i].kind;
        }
    return FILE_OTHER;
}

/* The builder has locked the first byte; where locks do not work, it counts as dead. */
static bool is_abandoned(const struct cache *cache, int fd) {
    return cache->sys->lock(fd, 0) == 0 || (errno != EAGAIN && errno != EACCES);
}

/* An image says its format at its end; only where that is newer, the whole is looked at: damage is not newer. What
 * cannot be read may be anything. */
static bool is_known_entry(const struct cache *cache, int shard, const char *name, int fd, uint64_t bytes) {
    unsigned char tail[TAIL];
    if (bytes < TAIL) return true;
    if (cache->sys->read(fd, tail, TAIL, (off_t)(bytes - TAIL)) != TAIL) return false;
    if (memcmp(tail + 8, IMAGE_END_MAGIC, 8) != 0 || image_u32(tail) <= IMAGE_FORMAT) return true;
    char *data = NULL;
    size_t length = 0;
    dcpk_image *image = NULL;
    if (cache_read_at(cache, shard, name, &data, &length, NULL) != DCPK_OK) return false;
    dcpk_status status = image_open_quick(data, length, &image, NULL);
    dcpk_image_free(image);
    free(data);
    return status != DCPK_E_NOT_FOUND;
}

/* Texts begin with "dcpk manifest N" or "dcpk toolchain N", N being 1 until now; damage is not newer. */
static bool is_known_text(const struct cache *cache, int fd, enum file_kind kind) {
    char head[HEAD + 1] = {0};
    const char *title = kind == FILE_MANIFEST ? "dcpk manifest " : "dcpk toolchain ";
    if (cache->sys->read(fd, head, HEAD, 0) < 0) return false;
    return strncmp(head, title, strlen(title)) != 0 || strtoul(head + strlen(title), NULL, 10) <= 1;
}

/* The open file when it may be removed, a temporary's with its lock; -1 otherwise. */
static int open_removable(const struct cache *cache, int shard, const char *name, enum file_kind kind) {
    struct stat st;
    if (kind == FILE_OTHER) return -1;
    int mode = kind == FILE_TEMPORARY ? O_RDWR : O_RDONLY; /* locking wants the right to write */
    int fd = cache->sys->open(shard, name, mode | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0) return -1;
    bool good = cache->sys->stat_fd(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                (st.st_uid == cache->user || st.st_uid == 0 || (int64_t)st.st_uid == cache->trusted);
    if (good && kind == FILE_TEMPORARY)
        good = is_abandoned(cache, fd);
    else if (good && kind == FILE_ENTRY)
        good = is_known_entry(cache, shard, name, fd, (uint64_t)st.st_size);
    else if (good)
        good = is_known_text(cache, fd, kind);
    if (good) return fd;
    cache->sys->close(fd);
    return -1;
}

bool file_removable(const struct cache *cache, int shard, const char *name, enum file_kind kind) {
    int fd = open_removable(cache, shard, name, kind);
    if (fd >= 0) cache->sys->close(fd);
    return fd >= 0;
}

int file_remove(const struct cache *cache, int shard, const char *name, enum file_kind kind) {
    int fd = open_removable(cache, shard, name, kind);
    if (fd < 0) return 0;
    int rc = cache_unlink(cache, shard, name), reason = errno;
    cache->sys->close(fd);
    errno = reason;
    return rc == 0 ? 1 : -1;
}
