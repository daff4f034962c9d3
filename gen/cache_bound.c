/* cache_bound.c - how much the cache folder holds. Owns the decision what goes when something is to be written: the
 * longest unused of a group of shards, never more than one group is listed. What a file's time says decides an order
 * and nothing else: a wrong clock costs a compilation. */
#include "gen/cache_shard.h"

#include "runtime/error.h"

#include <stdlib.h>
#include <string.h>

enum { HOUR_S = 3600, DAY_S = 24 * HOUR_S };
static const uint64_t group_least = 8 << 20;

/* Shards that share one limit, a power of two: each has its own where that is 8 MiB or more. */
static unsigned group_size(uint64_t max) {
    unsigned shards = 1;
    while (shards < CACHE_SHARDS && max / CACHE_SHARDS * shards < group_least)
        shards *= 2;
    return shards;
}

/* What others may hold beside this file: an eighth stays for what writers write without a look. Removing goes a little
 * further than it must, so that it is not needed again at once. */
static uint64_t high_water(uint64_t limit, uint64_t length) {
    uint64_t most = limit - limit / 8;
    return most > length ? most - length : 0;
}

static uint64_t low_water(uint64_t limit, uint64_t length) {
    uint64_t wanted = limit - limit / 4;
    return wanted > length ? wanted - length : 0;
}

static unsigned shard_of(const char *key) {
    char digits[3] = {key[0], key[1], '\0'};
    return (unsigned)strtoul(digits, NULL, 16);
}

/* A file that counts. */
struct file {
    int64_t used; /* seconds since 1970; what lies in the future is nonsense and counts as 0 */
    uint64_t bytes;
    enum file_kind kind;
    char name[CACHE_NAME];
};

struct look {
    struct cache *cache;
    int64_t now;
    struct file *files;
    size_t count, capacity;
    uint64_t total;
};

static bool add_file(struct look *look, const struct file *file) {
    if (look->count == look->capacity) {
        size_t capacity = look->capacity ? 2 * look->capacity : 64;
        struct file *more = realloc(look->files, capacity * sizeof *more);
        if (!more) return false;
        look->files = more;
        look->capacity = capacity;
    }
    look->files[look->count++] = *file;
    look->total += file->bytes;
    return true;
}

/* A day old, either way: a builder's clock may be wrong, its lock is not. */
static void drop_stale(struct look *look, const struct shard *shard, const char *name, int64_t age) {
    if (age > -DAY_S && age < DAY_S) return;
    file_remove(look->cache, shard->fd, name, FILE_TEMPORARY);
}

/* A shard that cannot be looked at is not counted: the bound holds for all the others. False when memory is out. */
static bool look_at_shard(struct look *look, unsigned index) {
    struct shard shard;
    char key[DIGEST_HEX];
    dcpk_error error;
    dcpk_error_init(&error);
    bool good = true;
    if (shard_open(look->cache, index, &shard, &error) != DCPK_OK) {
        good = error.code != DCPK_E_NOMEM;
        bool told = look->cache->uncounted || atomic_load(look->cache->warned); /* of this shard, as a rule */
        int level = told ? DCPK_LOG_DEBUG : DCPK_LOG_WARNING;
        if (good) notice_log(look->cache->notice, level, "not counted in DCPK_CACHE_MAX: %s", error.text);
        look->cache->uncounted = look->cache->uncounted || good;
    }
    for (size_t i = 0; good && i < shard.count; i++) {
        struct stat st;
        const char *name = shard.names[i];
        struct file file = {.kind = file_kind_of(&shard, name, key)};
        if (file.kind == FILE_OTHER || look->cache->sys->stat_at(shard.fd, name, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        int64_t age = look->now - (int64_t)st.st_mtim.tv_sec;
        file.used = age < -HOUR_S ? 0 : (int64_t)st.st_mtim.tv_sec;
        file.bytes = (uint64_t)st.st_size;
        memcpy(file.name, name, strlen(name) + 1);
        if (file.kind == FILE_TEMPORARY)
            drop_stale(look, &shard, name, age);
        else
            good = add_file(look, &file);
    }
    shard_close(look->cache, &shard);
    return good;
}

/* Oldest first; among equals by name, so that all who look at once choose alike. */
static int compare(const void *a, const void *b) {
    const struct file *x = a, *y = b;
    if (x->used != y->used) return x->used < y->used ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* What newer versions and others wrote is neither counted nor removed: it is theirs to bound. Files of one shard still
 * lie together here. */
static void forget_unknown(struct look *look) {
    size_t kept = 0;
    int shard = -1;
    const char *current = "";
    for (size_t i = 0; i < look->count; i++) {
        struct file file = look->files[i];
        if (strncmp(current, file.name, 2) != 0) {
            if (shard >= 0) look->cache->sys->close(shard);
            shard = cache_shard(look->cache, file.name, false, NULL);
        }
        if (shard >= 0 && file_removable(look->cache, shard, file.name, file.kind))
            look->files[kept++] = file;
        else
            look->total -= file.bytes;
        current = look->files[i].name;
    }
    if (shard >= 0) look->cache->sys->close(shard);
    look->count = kept;
}

static bool remove_file(const struct look *look, const struct file *file) {
    int shard = cache_shard(look->cache, file->name, false, NULL);
    if (shard < 0) return false;
    bool gone = cache_unlink(look->cache, shard, file->name) == 0;
    look->cache->sys->close(shard);
    return gone;
}

/* Until no more than `enough` is left. */
static void remove_oldest(struct look *look, uint64_t enough) {
    size_t removed = 0;
    qsort(look->files, look->count, sizeof *look->files, compare);
    for (size_t i = 0; i < look->count && look->total > enough; i++)
        if (remove_file(look, &look->files[i])) {
            look->total -= look->files[i].bytes;
            removed++;
        }
    if (removed > 0)
        notice_log(look->cache->notice, DCPK_LOG_INFO, "removed the %zu longest unused files of %s", removed,
                   look->cache->path);
}

static dcpk_status no_room(const struct cache *cache, uint64_t length, uint64_t limit, dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_CACHE,
                          "%s has no room for %llu bytes: its part of DCPK_CACHE_MAX (%llu) is %llu bytes", cache->path,
                          (unsigned long long)length, (unsigned long long)cache->max, (unsigned long long)limit);
}

static void make_room(struct look *look, unsigned first, unsigned size, uint64_t limit, uint64_t length) {
    struct cache *cache = look->cache;
    bool good = true;
    for (unsigned i = 0; i < size && good; i++)
        good = look_at_shard(look, first + i);
    if (look->total > high_water(limit, length)) forget_unknown(look);
    if (look->total > high_water(limit, length)) remove_oldest(look, low_water(limit, length));
    free(look->files);
    cache->spare[first] = good && look->total <= high_water(limit, length) ? limit / 8 / CACHE_WRITERS : 0;
}

dcpk_status cache_make_room(struct cache *cache, const char *key, uint64_t length, int *lock, dcpk_error *error) {
    unsigned size = group_size(cache->max), first = shard_of(key) / size * size;
    uint64_t limit = cache->max / (CACHE_SHARDS / size), *spare = &cache->spare[first];
    if (length > limit) return no_room(cache, length, limit, error);
    if (length <= *spare) {
        *spare -= length;
        return DCPK_OK;
    }
    *lock = cache_lock_group(cache, first, size);
    struct look look = {.cache = cache, .now = system_wall_s()};
    make_room(&look, first, size, limit, length);
    if (look.total + length <= limit) return DCPK_OK;
    cache_unlock(cache, *lock);
    *lock = -1;
    return no_room(cache, length, limit, error);
}

void cache_used(const struct cache *cache, int fd, const struct stat *st) {
    int64_t age = system_wall_s() - (int64_t)st->st_mtim.tv_sec;
    if (cache->looking) return;
    if (age >= HOUR_S || age <= -HOUR_S) cache->sys->touch(fd); /* a file of another user keeps its time */
}
