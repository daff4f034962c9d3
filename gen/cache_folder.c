/* cache_folder.c - the cache folder and its shards: created 0700, opened once, checked for who may write to them.
 * Everything below is reached through descriptors of folders that have passed the check, never by path again. */
#include "gen/cache.h"

#include "runtime/error.h"
#include "runtime/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void notice_log(const struct notice *notice, int level, const char *format, ...) {
    if (!notice->log) return;
    char text[sizeof((dcpk_error *)0)->text + 256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    notice->log(notice->self, level, text);
}

bool cache_init(struct cache *cache, const struct system *sys, const struct notice *notice, const char *path,
                int64_t trusted) {
    *cache = (struct cache){.sys = sys, .notice = notice, .root = -1, .user = geteuid(), .trusted = trusted};
    cache->warned = &cache->own_warned;
    if (path && *path) cache->path = strdup(path);
    return cache->path || !path || !*path;
}

void cache_close(struct cache *cache) {
    if (cache->root >= 0) cache->sys->close(cache->root);
    free(cache->path);
    cache->root = -1;
    cache->path = NULL;
}

dcpk_status cache_trust(const struct cache *cache, const struct stat *st, const char *name, dcpk_error *error) {
    char path[4096];
    bool folder = S_ISDIR(st->st_mode);
    const struct trust trust = {.user = cache->user,
                                .also = cache->trusted,
                                .how = folder ? TRUST_FOLDER : TRUST_REMOVE,
                                .fix = folder ? cache->path : path,
                                .elsewhere = ", or DCPK_CACHE_DIR to another folder"};
    snprintf(path, sizeof path, "%s%s%s", cache->path, *name ? "/" : "", name);
    return trust_check(&trust, st, path, error);
}

/* Makes the folder and the missing ones above it, all 0700. What fails above shows when the last one is made. */
static int make_path(const struct cache *cache) {
    char *path = strdup(cache->path);
    if (!path) return -1;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        cache->sys->make_folder(AT_FDCWD, path, 0700);
        *slash = '/';
    }
    int rc = cache->sys->make_folder(AT_FDCWD, path, 0700) != 0 && errno != EEXIST ? -1 : 0, reason = errno;
    free(path);
    errno = reason;
    return rc;
}

/* Opens a folder and checks it; -1 with the error set. */
static int open_checked(const struct cache *cache, int dir, const char *path, int flags, const char *name,
                        dcpk_error *error) {
    int fd = cache->sys->open(dir, path, O_RDONLY | O_DIRECTORY | flags, 0);
    if (fd < 0 && *name && (errno == ELOOP || errno == ENOTDIR)) {
        dcpk_error_set(error, DCPK_E_UNTRUSTED,
                       "%s/%s is a link or a file where a folder of the cache belongs; run: rm '%s/%s'", cache->path,
                       name, cache->path, name);
        return -1;
    }
    if (fd < 0) {
        dcpk_error_system(error, errno == ENOENT ? DCPK_E_NOT_FOUND : DCPK_E_CACHE, errno, "cannot open %s%s%s",
                          cache->path, *name ? "/" : "", name);
        return -1;
    }
    struct stat st;
    dcpk_status status = cache->sys->stat_fd(fd, &st) == 0
                             ? cache_trust(cache, &st, name, error)
                             : dcpk_error_system(error, DCPK_E_CACHE, errno, "cannot look at %s", cache->path);
    if (status == DCPK_OK) return fd;
    cache->sys->close(fd);
    return -1;
}

static void open_root(struct cache *cache, bool create) {
    dcpk_error error;
    dcpk_error_init(&error);
    cache->root = open_checked(cache, AT_FDCWD, cache->path, 0, "", &error);
    if (cache->root < 0 && error.code == DCPK_E_NOT_FOUND) {
        if (!create) return; /* nothing there yet: a miss, and a later write may create it */
        if (make_path(cache) != 0)
            dcpk_error_system(&error, DCPK_E_CACHE, errno, "cannot create the cache folder %s", cache->path);
        else
            cache->root = open_checked(cache, AT_FDCWD, cache->path, 0, "", &error);
    }
    cache->opened = true;
    if (cache->root >= 0) return;
    cache->status = error.code == DCPK_E_UNTRUSTED ? error.code : DCPK_E_CACHE;
    snprintf(cache->reason, sizeof cache->reason, "%.*s", (int)sizeof cache->reason - 1, error.text);
    int level = atomic_exchange(cache->warned, true) ? DCPK_LOG_INFO : DCPK_LOG_WARNING;
    notice_log(cache->notice, level, "not using the cache folder: %s", error.text);
}

bool cache_ready(struct cache *cache, bool create) {
    if (!cache->path) return false;
    if (!cache->opened && cache->root < 0) open_root(cache, create);
    return cache->root >= 0;
}

dcpk_status cache_status(struct cache *cache, dcpk_error *error) {
    cache_ready(cache, false);
    if (cache->status == DCPK_OK) return DCPK_OK;
    return dcpk_error_set(error, cache->status, "%s", cache->reason);
}

/* -1 with the reason. */
static int open_shard(struct cache *cache, const char *name, bool create, dcpk_error *reason) {
    int fd = open_checked(cache, cache->root, name, O_NOFOLLOW, name, reason);
    if (fd >= 0 || reason->code != DCPK_E_NOT_FOUND || !create) return fd;
    if (cache->sys->make_folder(cache->root, name, 0700) == 0 || errno == EEXIST)
        return open_checked(cache, cache->root, name, O_NOFOLLOW, name, reason);
    dcpk_error_system(reason, DCPK_E_CACHE, errno, "cannot create %s/%s", cache->path, name);
    return -1;
}

/* The folder that was opened is no longer there, or not the one that the path leads to. */
static bool is_gone(bool create, const dcpk_error *reason) {
    return reason->sys_errno == ESTALE ||
           (create && reason->sys_errno == ENOENT && reason->code != DCPK_E_NOT_FOUND); /* mkdir in a removed folder */
}

int cache_shard(struct cache *cache, const char *key, bool create, dcpk_error *error) {
    char name[3] = {key[0], key[1], '\0'};
    dcpk_error reason;
    dcpk_error_init(&reason);
    if (!cache_ready(cache, create)) {
        dcpk_error_set(error, DCPK_E_NOT_FOUND, "there is no cache folder");
        return -1;
    }
    int fd = open_shard(cache, name, create, &reason);
    if (fd < 0 && is_gone(create, &reason)) {
        cache->sys->close(cache->root);
        cache->root = -1;
        cache->opened = false;
        if (cache_ready(cache, create)) fd = open_shard(cache, name, create, &reason);
    }
    if (fd < 0) {
        dcpk_error_set(error, reason.code, "%s", reason.text);
        if (error) error->sys_errno = reason.sys_errno;
    }
    return fd;
}

void cache_warn(struct cache *cache, const dcpk_error *error) {
    int level = atomic_exchange(cache->warned, true) ? DCPK_LOG_INFO : DCPK_LOG_WARNING;
    notice_log(cache->notice, level, "not cached: %s", error->text);
}
