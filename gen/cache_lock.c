/* cache_lock.c - one builder a key, among processes and among generators of one process.
 * Lock files are permanent (removing one is a race) and hold no bytes: each key locks one byte far out, by an open file
 * description lock, which the kernel drops when its holder dies. The lock saves work; publishing is what is correct:
 * any trouble here means "build anyway". One more byte, of a group's first shard, is locked while room is made in the
 * group (cache_bound.c). */
#include "gen/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLEEP_MS = 1, LAST_SLEEP_MS = 25, GROUP_MS = 2000 };
static const int64_t group_byte = INT64_C(1) << 48; /* beyond every key's */

/* Digits 3 to 14 of the key, 48 bits: two keys of a shard practically never wait for each other. */
static int64_t byte_of(const char *key) {
    char digits[13] = {0};
    memcpy(digits, key + 2, 12);
    return (int64_t)strtoull(digits, NULL, 16);
}

/* 0 when locked. */
static int wait_for(const struct cache *cache, int fd, int64_t byte, uint32_t timeout_ms, const char *patience_ended) {
    uint64_t deadline = system_now_ms() + timeout_ms;
    uint32_t pause = FIRST_SLEEP_MS;
    while (cache->sys->lock(fd, byte) != 0) {
        if (errno != EAGAIN && errno != EACCES) return -1;
        if (system_now_ms() >= deadline) {
            notice_log(cache->notice, DCPK_LOG_INFO, "another process %s after %u ms", patience_ended, timeout_ms);
            return -1;
        }
        system_sleep_ms(pause);
        pause = pause * 2 < LAST_SLEEP_MS ? pause * 2 : LAST_SLEEP_MS;
    }
    return 0;
}

static int open_lock(struct cache *cache, const char *key) {
    int shard = cache_shard(cache, key, true, NULL);
    if (shard < 0) return -1;
    int fd = cache->sys->open(shard, "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    cache->sys->close(shard);
    return fd;
}

int cache_lock(struct cache *cache, const char *key, uint32_t timeout_ms) {
    int fd = open_lock(cache, key);
    if (fd < 0 ||
        wait_for(cache, fd, byte_of(key), timeout_ms, "still builds this kernel, which is built here, too,") == 0)
        return fd;
    cache->sys->close(fd);
    return -1;
}

int cache_lock_group(struct cache *cache, unsigned first, unsigned size) {
    int fd = -1;
    for (unsigned i = 0; i < size && fd < 0;
         i++) { /* of the first shard that is to be had: the same one for everybody */
        char name[3];
        snprintf(name, sizeof name, "%02x", (first + i) & 0xff);
        fd = open_lock(cache, name);
    }
    if (fd < 0 ||
        wait_for(cache, fd, group_byte, GROUP_MS, "still makes room in the cache, which is not waited for") == 0)
        return fd;
    cache->sys->close(fd);
    return -1;
}

void cache_unlock(struct cache *cache, int lock) {
    if (lock >= 0) cache->sys->close(lock);
}
