/* cache_walk.c - every entry in key order: list, verify, find by prefix, clear. Works on names that this version wrote;
 * everything else in the folder is somebody's and stays. */
#include "gen/cache.h"

#include "runtime/digest.h"
#include "runtime/error.h"
#include "runtime/image_format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEX = DIGEST_HEX - 1, SHARDS = 256 };

/* The names of one shard, sorted. */
struct shard {
    int fd;
    char name[3];
    char *bytes;
    char **names;
    size_t count;
};

static void shard_close(struct cache *cache, struct shard *shard) {
    if (shard->fd >= 0) cache->sys->close(shard->fd);
    free(shard->bytes);
    free(shard->names);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool sort_names(struct shard *shard, size_t bytes) {
    for (size_t at = 0; at < bytes; at += strlen(shard->bytes + at) + 1)
        shard->count++;
    shard->names = calloc(shard->count + 1, sizeof *shard->names);
    if (!shard->names) return false;
    size_t used = 0;
    for (size_t at = 0; at < bytes; at += strlen(shard->bytes + at) + 1)
        shard->names[used++] = shard->bytes + at;
    qsort(shard->names, used, sizeof *shard->names, compare_names);
    return true;
}

/* OK with fd -1 for a shard that is not there. */
static dcpk_status shard_open(struct cache *cache, int index, struct shard *shard, dcpk_error *error) {
    size_t bytes = 0;
    *shard = (struct shard){.fd = -1};
    snprintf(shard->name, sizeof shard->name, "%02x", index);
    dcpk_error reason;
    dcpk_error_init(&reason);
    shard->fd = cache_shard(cache, shard->name, false, &reason);
    if (shard->fd < 0 && reason.code == DCPK_E_NOT_FOUND) return DCPK_OK;
    if (shard->fd < 0) return dcpk_error_set(error, reason.code, "%s", reason.text);
    if (cache->sys->list_folder(shard->fd, &shard->bytes, &bytes) != 0)
        return dcpk_error_system(error, DCPK_E_CACHE, errno, "cannot list %s/%s", cache->path, shard->name);
    return sort_names(shard, bytes) ? DCPK_OK : dcpk_error_set(error, DCPK_E_NOMEM, "no memory to list the cache");
}

/* The key of a name that is KEY and suffix in the shard of that key. */
static bool key_of(const struct shard *shard, const char *name, const char *suffix, char key[DIGEST_HEX]) {
    if (strlen(name) != HEX + strlen(suffix) || strcmp(name + HEX, suffix) != 0 ||
        strspn(name, "0123456789abcdef") < HEX || memcmp(name, shard->name, 2) != 0)
        return false;
    memcpy(key, name, HEX);
    key[HEX] = '\0';
    return true;
}

/* Reads one entry as listing or verifying does; *image NULL when it counts as a miss, with the reason in error. */
static dcpk_status examine(struct cache *cache, const struct shard *shard, const char *name, const char *key,
                           bool verify, size_t *length, dcpk_image **image, dcpk_error *error) {
    char *data = NULL;
    *image = NULL;
    *length = 0;
    dcpk_status status = cache_read_at(cache, shard->fd, name, &data, length, error);
    if (status == DCPK_OK)
        status =
            verify ? dcpk_image_from_bytes(data, *length, image, error) : image_open_quick(data, *length, image, error);
    free(data);
    if (status == DCPK_OK && strcmp(dcpk_image_key(*image), key) != 0) {
        status = dcpk_error_set(error, DCPK_E_CACHE, "it holds the image of %s", dcpk_image_key(*image));
        dcpk_image_free(*image);
        *image = NULL;
    }
    return status;
}

/* What one call of visit gets; non-zero to stop. */
static int32_t visit_one(struct cache *cache, const struct shard *shard, const char *name, const char *key, bool verify,
                         int32_t (*visit)(void *, const dcpk_cache_entry *), void *self) {
    dcpk_cache_entry entry = {.size = sizeof entry, .spec = "", .reason = ""};
    char path[4096], spec[1024] = "";
    dcpk_image *image = NULL;
    size_t length = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    entry.state = examine(cache, shard, name, key, verify, &length, &image, &error);
    if (image) {
        const struct image_meta *meta = image_meta_of(image);
        snprintf(spec, sizeof spec, "%.*s", (int)(meta->spec_length < 1023 ? meta->spec_length : 1023), meta->spec);
    } else
        entry.reason = error.text;
    snprintf(path, sizeof path, "%s/%s/%s", cache->path, shard->name, name);
    memcpy(entry.key, key, DIGEST_HEX);
    entry.path = path;
    entry.bytes = length;
    entry.spec = spec;
    int32_t stop = visit(self, &entry);
    dcpk_image_free(image);
    return stop;
}

dcpk_status cache_visit(struct cache *cache, bool verify, int32_t (*visit)(void *, const dcpk_cache_entry *),
                        void *self, dcpk_error *error) {
    char key[DIGEST_HEX];
    dcpk_status status = cache_status(cache, error);
    int32_t stop = 0;
    for (int i = 0; i < SHARDS && status == DCPK_OK && !stop && cache->root >= 0; i++) {
        struct shard shard;
        status = shard_open(cache, i, &shard, error);
        for (size_t n = 0; n < shard.count && status == DCPK_OK && !stop; n++)
            if (key_of(&shard, shard.names[n], CACHE_ENTRY, key))
                stop = visit_one(cache, &shard, shard.names[n], key, verify, visit, self);
        shard_close(cache, &shard);
    }
    return status;
}

/* The only entry of the shard whose key begins with prefix. */
static dcpk_status find_unique(struct cache *cache, const struct shard *shard, const char *prefix,
                               char found[DIGEST_HEX], dcpk_error *error) {
    char key[DIGEST_HEX];
    found[0] = '\0';
    for (size_t n = 0; n < shard->count; n++) {
        if (!key_of(shard, shard->names[n], CACHE_ENTRY, key) || strncmp(key, prefix, strlen(prefix)) != 0) continue;
        if (found[0])
            return dcpk_error_set(error, DCPK_E_ARG, "%s begins more than one key: %s and %s; give more digits", prefix,
                                  found, key);
        memcpy(found, key, DIGEST_HEX);
    }
    if (!found[0]) return dcpk_error_set(error, DCPK_E_NOT_FOUND, "no entry under %s in %s", prefix, cache->path);
    return DCPK_OK;
}

dcpk_status cache_get(struct cache *cache, const char *prefix, dcpk_image **out, dcpk_error *error) {
    size_t length = strlen(prefix);
    char found[DIGEST_HEX], digits[3] = {0};
    if (length < 4 || length > HEX || strspn(prefix, "0123456789abcdef") != length)
        return dcpk_error_set(error, DCPK_E_ARG, "'%.40s' is no key: 4 to 32 lower-case hex digits", prefix);
    dcpk_status status = cache_status(cache, error);
    if (status != DCPK_OK) return status;
    if (cache->root < 0)
        return dcpk_error_set(error, DCPK_E_NOT_FOUND, "no entry under %s: %s%s", prefix,
                              cache->path ? "there is no folder " : "there is no cache folder",
                              cache->path ? cache->path : "");
    memcpy(digits, prefix, 2);
    struct shard shard;
    status = shard_open(cache, (int)strtol(digits, NULL, 16), &shard, error);
    if (status == DCPK_OK) status = find_unique(cache, &shard, prefix, found, error);
    shard_close(cache, &shard);
    if (status != DCPK_OK) return status;
    dcpk_error reason;
    dcpk_error_init(&reason);
    status = cache_entry_read(cache, found, out, &reason);
    if (status == DCPK_OK) return DCPK_OK;
    dcpk_error_set(error, status, "%s/%.2s/%s" CACHE_ENTRY ": %s", cache->path, found, found, reason.text);
    if (error) error->sys_errno = reason.sys_errno;
    return status;
}

/* Is the name one that this version wrote, and is what it holds not of a newer version? */
static bool may_remove(struct cache *cache, const struct shard *shard, const char *name) {
    char key[DIGEST_HEX];
    if (key_of(shard, name, CACHE_MANIFEST, key) || key_of(shard, name, CACHE_TOOLCHAIN, key)) return true;
    if (!key_of(shard, name, CACHE_ENTRY, key)) return strncmp(name, CACHE_TEMPORARY, sizeof CACHE_TEMPORARY - 1) == 0;
    size_t length = 0;
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = examine(cache, shard, name, key, false, &length, &image, &error);
    dcpk_image_free(image);
    return status != DCPK_E_NOT_FOUND;
}

dcpk_status cache_clear(struct cache *cache, uint64_t *removed, dcpk_error *error) {
    dcpk_status status = cache_status(cache, error);
    *removed = 0;
    for (int i = 0; i < SHARDS && status == DCPK_OK && cache->root >= 0; i++) {
        struct shard shard;
        status = shard_open(cache, i, &shard, error);
        for (size_t n = 0; n < shard.count && status == DCPK_OK; n++) {
            if (!may_remove(cache, &shard, shard.names[n])) continue;
            if (cache_unlink(cache, shard.fd, shard.names[n]) == 0)
                ++*removed;
            else if (errno != EISDIR) /* a folder is nobody's entry: it stays, and verify shows it */
                status = dcpk_error_system(error, DCPK_E_CACHE, errno, "cannot remove %s/%s/%s", cache->path,
                                           shard.name, shard.names[n]);
        }
        shard_close(cache, &shard);
    }
    return status;
}
