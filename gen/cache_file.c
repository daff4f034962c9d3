/* cache_file.c - whole files in a shard: read with a check of their owner, written so that no reader ever meets half of
 * one and no crash leaves one. Owns temporaries from O_EXCL to their removal. */
#include "gen/cache.h"

#include "runtime/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_TRIES = 16, UNLINK_TRIES = 4 };

static dcpk_status read_all(const struct cache *cache, int fd, size_t length, char *data, const char *name,
                            dcpk_error *error) {
    for (size_t at = 0; at < length;) {
        ssize_t got = cache->sys->read(fd, data + at, length - at, (off_t)at);
        if (got < 0) return dcpk_error_system(error, DCPK_E_IO, errno, "cannot read %s", name);
        if (got == 0) return dcpk_error_set(error, DCPK_E_IO, "%s became shorter while it was read", name);
        at += (size_t)got;
    }
    return DCPK_OK;
}

/* Something that no version writes has a file's name. Nothing of it is used, and it is not ours to remove. */
static dcpk_status in_the_way(const struct cache *cache, const char *name, dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_UNTRUSTED,
                          "%s/%s is a link, a folder or a device where a file of the cache belongs; run: rm -r '%s/%s'",
                          cache->path, name, cache->path, name);
}

static dcpk_status read_open(const struct cache *cache, int fd, const char *name, bool used, char **data,
                             size_t *length, dcpk_error *error) {
    struct stat st;
    if (cache->sys->stat_fd(fd, &st) != 0) return dcpk_error_system(error, DCPK_E_IO, errno, "cannot look at %s", name);
    if (!S_ISREG(st.st_mode)) return in_the_way(cache, name, error);
    if (st.st_size > CACHE_FILE_MAX) return dcpk_error_set(error, DCPK_E_CACHE, "%s is no file of the cache", name);
    dcpk_status status = cache_trust(cache, &st, name, error);
    if (status != DCPK_OK) return status;
    size_t size = (size_t)st.st_size;
    char *bytes = malloc(size + 1);
    if (!bytes) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the %zu bytes of %s", size, name);
    status = read_all(cache, fd, size, bytes, name, error);
    if (status != DCPK_OK) {
        free(bytes);
        return status;
    }
    if (used) cache_used(cache, fd, &st);
    bytes[size] = '\0';
    *data = bytes;
    *length = size;
    return DCPK_OK;
}

static dcpk_status read_name(const struct cache *cache, int shard, const char *name, bool used, char **data,
                             size_t *length, dcpk_error *error) {
    char shown[CACHE_NAME + 4];
    snprintf(shown, sizeof shown, "%.2s/%s", name, name);
    int fd = cache->sys->open(shard, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0 && (errno == ELOOP || errno == ENXIO)) return in_the_way(cache, shown, error); /* a link, a socket */
    if (fd < 0) /* whatever the reason (ENOENT, ESTALE, EBUSY, EACCES): it is not to be had */
        return dcpk_error_system(error, DCPK_E_NOT_FOUND, errno, "cannot open %s", shown);
    dcpk_status status = read_open(cache, fd, shown, used, data, length, error);
    cache->sys->close(fd);
    return status;
}

dcpk_status cache_read_at(const struct cache *cache, int shard, const char *name, char **data, size_t *length,
                          dcpk_error *error) {
    return read_name(cache, shard, name, false, data, length, error);
}

dcpk_status cache_read(struct cache *cache, const char *key, const char *suffix, char **data, size_t *length,
                       dcpk_error *error) {
    char name[CACHE_NAME];
    snprintf(name, sizeof name, "%s%s", key, suffix);
    int shard = cache_shard(cache, key, false, error);
    if (shard < 0) return error && error->code == DCPK_E_UNTRUSTED ? DCPK_E_UNTRUSTED : DCPK_E_NOT_FOUND;
    dcpk_status status = read_name(cache, shard, name, true, data, length, error);
    cache->sys->close(shard);
    return status;
}

int cache_unlink(const struct cache *cache, int shard, const char *name) {
    int rc = -1;
    for (int i = 0; i < UNLINK_TRIES && rc != 0; i++) {
        rc = cache->sys->unlink(shard, name);
        if (rc != 0 && errno == ENOENT) rc = 0;
    }
    return rc;
}

/* Its lock is had, and the name still stands. One who clears the folder between its creation and its lock takes it for
 * a dead builder's and removes it, holding the lock meanwhile. Where locks do not work, they do not tell either. */
static bool is_still_ours(const struct cache *cache, int fd) {
    struct stat st;
    if (cache->sys->lock(fd, 0) != 0 && (errno == EAGAIN || errno == EACCES)) return false;
    return cache->sys->stat_fd(fd, &st) != 0 || st.st_nlink > 0;
}

/* A new file that nobody else has, name 64 random bits; -1 with errno. Its first byte is locked as long as it is open:
 * that is how others tell it from what a dead builder left. */
static int open_temporary(const struct cache *cache, int shard, char *name, size_t capacity) {
    int fd = -1;
    errno = EEXIST;
    for (int i = 0; i < NAME_TRIES && fd < 0 && errno == EEXIST; i++) {
        uint64_t random = 0;
        if (cache->sys->random_bytes(&random, sizeof random) != 0)
            random = (system_now_ms() << 20) + (uint64_t)(uintptr_t)name + (uint64_t)i;
        snprintf(name, capacity, CACHE_TEMPORARY "%016llx", (unsigned long long)random);
        fd = cache->sys->open(shard, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
        if (fd >= 0 && !is_still_ours(cache, fd)) {
            cache->sys->close(fd);
            cache_unlink(cache, shard, name);
            errno = EEXIST;
            fd = -1;
        }
    }
    return fd;
}

static int write_all(const struct cache *cache, int fd, const char *data, size_t length) {
    for (size_t at = 0; at < length;) {
        ssize_t put = cache->sys->write(fd, data + at, length - at);
        if (put <= 0) {
            if (put == 0) errno = ENOSPC;
            return -1;
        }
        at += (size_t)put;
    }
    return cache->sys->sync(fd);
}

/* Does the name stand? Anything but a clear no counts as yes. */
static bool is_there(const struct cache *cache, int shard, const char *name) {
    struct stat st;
    return cache->sys->stat_at(shard, name, &st) == 0 || errno != ENOENT;
}

/* A network file system can lose the answer to a call that it has done: the temporary's second name says so. */
static bool has_two_names(const struct cache *cache, int shard, const char *temporary) {
    struct stat st;
    return cache->sys->stat_at(shard, temporary, &st) == 0 && st.st_nlink == 2;
}

static bool no_links_here(int reason) {
    return reason == EPERM || reason == EOPNOTSUPP || reason == ENOSYS || reason == EMLINK;
}

/* 0, or -1 with errno, EEXIST when the name stands. Where there are no hard links, a rename may lose another's equal
 * bytes of this very moment. */
static int link_first(const struct cache *cache, int shard, const char *temporary, const char *name) {
    if (cache->sys->link(shard, temporary, name) == 0) return 0;
    int reason = errno;
    if (no_links_here(reason)) {
        if (!is_there(cache, shard, name)) return cache->sys->rename(shard, temporary, name);
        reason = EEXIST;
    } else if (reason != EEXIST && has_two_names(cache, shard, temporary))
        return 0;
    errno = reason;
    return -1;
}

/* The temporary is ours alone: when it is gone after a rename that failed, the rename was done. */
static int rename_over(const struct cache *cache, int shard, const char *temporary, const char *name) {
    if (cache->sys->rename(shard, temporary, name) == 0) return 0;
    int reason = errno;
    if (reason != EXDEV && !is_there(cache, shard, temporary)) return 0;
    errno = reason;
    return -1;
}

/* Gives the temporary its name and removes it. *placed: the name holds these bytes or, first wins, somebody's. 0 when
 * the temporary is gone, too. */
static int place(const struct cache *cache, int shard, const char *temporary, const char *name,
                 enum cache_write_mode mode, bool *placed, bool *exists) {
    int rc =
        mode == CACHE_REPLACE ? rename_over(cache, shard, temporary, name) : link_first(cache, shard, temporary, name);
    int reason = errno;
    *exists = rc != 0 && mode == CACHE_FIRST_WINS && reason == EEXIST;
    *placed = rc == 0 || *exists;
    int left = cache_unlink(cache, shard, temporary);
    if (*placed) return left;
    errno = reason;
    return -1;
}

static dcpk_status not_placed(const struct cache *cache, const char *name, int reason, dcpk_error *error) {
    if (reason == EISDIR || reason == ENOTEMPTY) { /* a rename onto a folder */
        char shown[CACHE_NAME + 4];
        snprintf(shown, sizeof shown, "%.2s/%s", name, name);
        return in_the_way(cache, shown, error);
    }
    return dcpk_error_system(error, DCPK_E_CACHE, reason, "cannot publish %s/%.2s/%s", cache->path, name, name);
}

/* The temporary stays open, and so locked, until it has its name. */
static dcpk_status write_in_shard(const struct cache *cache, int shard, const char *name, const void *data,
                                  size_t length, enum cache_write_mode mode, bool *exists, dcpk_error *error) {
    char temporary[CACHE_NAME];
    int fd = open_temporary(cache, shard, temporary, sizeof temporary);
    if (fd < 0)
        return dcpk_error_system(error, DCPK_E_CACHE, errno, "cannot create a file in %s/%.2s", cache->path, name);
    bool placed = false, whole = write_all(cache, fd, data, length) == 0, tidy = false;
    int reason = errno;
    if (whole) {
        tidy = place(cache, shard, temporary, name, mode, &placed, exists) == 0;
        tidy = tidy && (*exists || cache->sys->sync(shard) == 0);
        reason = errno;
    } else
        cache_unlink(cache, shard, temporary);
    cache->sys->close(fd); /* synced: nothing is left to fail */
    if (!whole)
        return dcpk_error_system(error, DCPK_E_CACHE, reason, "cannot write %s/%.2s/%s", cache->path, name, name);
    if (!placed) return not_placed(cache, name, reason, error);
    if (!tidy) return dcpk_error_system(error, DCPK_E_IO, reason, "cannot tidy up in %s/%.2s", cache->path, name);
    return DCPK_OK;
}

dcpk_status cache_write(struct cache *cache, const char *key, const char *suffix, const void *data, size_t length,
                        enum cache_write_mode mode, bool *exists, dcpk_error *error) {
    char name[CACHE_NAME];
    bool found = false;
    snprintf(name, sizeof name, "%s%s", key, suffix);
    int lock = -1; /* the room that was made is kept until the file is in it */
    if (cache_ready(cache, true) && cache_make_room(cache, key, length, &lock, error) != DCPK_OK) return DCPK_E_CACHE;
    int shard = cache_shard(cache, key, true, error);
    dcpk_status status = DCPK_E_CACHE;
    if (shard >= 0) {
        status = write_in_shard(cache, shard, name, data, length, mode, exists ? exists : &found, error);
        cache->sys->close(shard);
    }
    cache_unlock(cache, lock);
    return status;
}
