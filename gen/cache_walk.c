/* cache_walk.c - every entry in key order: list, verify, find by prefix, clear. Works on names that this version wrote;
 * everything else in the folder is somebody's and stays. A shard that is not to be had or not to be trusted is passed
 * over and said at the end. */
#include "gen/cache_shard.h"

#include "runtime/error.h"
#include "runtime/image_format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEX = DIGEST_HEX - 1 };

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
    if (entry.state == DCPK_E_NOT_FOUND && error.sys_errno == ENOENT) return 0;           /* gone since it was listed */
    if (entry.state == DCPK_E_NOT_FOUND && error.sys_errno != 0) entry.state = DCPK_E_IO; /* not newer: unreadable */
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

/* What a walk met and went past. */
struct trouble {
    dcpk_error first;
    uint32_t more;
};

static void add_trouble(struct trouble *trouble, const dcpk_error *error) {
    if (trouble->first.code == DCPK_OK)
        trouble->first = *error;
    else
        trouble->more++;
}

static dcpk_status tell_trouble(const struct trouble *trouble, dcpk_error *error) {
    char more[64] = "";
    if (trouble->first.code == DCPK_OK) return DCPK_OK;
    if (trouble->more > 0) snprintf(more, sizeof more, "; so it is with %u more", trouble->more);
    dcpk_error_set(error, trouble->first.code, "%s%s", trouble->first.text, more);
    if (error) error->sys_errno = trouble->first.sys_errno;
    return trouble->first.code;
}

/* False, with the trouble noted, for a shard that is passed over. shard_close after it. */
static bool enter(struct cache *cache, unsigned index, struct shard *shard, struct trouble *trouble) {
    dcpk_error error;
    dcpk_error_init(&error);
    if (shard_open(cache, index, shard, &error) == DCPK_OK) return true;
    add_trouble(trouble, &error);
    return false;
}

dcpk_status cache_visit(struct cache *cache, bool verify, int32_t (*visit)(void *, const dcpk_cache_entry *),
                        void *self, dcpk_error *error) {
    char key[DIGEST_HEX];
    dcpk_status status = cache_status(cache, error);
    if (status != DCPK_OK) return status;
    int32_t stop = 0;
    struct trouble trouble = {.first = {.size = sizeof trouble.first}};
    for (unsigned i = 0; i < CACHE_SHARDS && !stop && cache->root >= 0; i++) {
        struct shard shard;
        bool good = enter(cache, i, &shard, &trouble);
        for (size_t n = 0; good && n < shard.count && !stop; n++)
            if (file_kind_of(&shard, shard.names[n], key) == FILE_ENTRY)
                stop = visit_one(cache, &shard, shard.names[n], key, verify, visit, self);
        shard_close(cache, &shard);
    }
    return tell_trouble(&trouble, error);
}

/* The only entry of the shard whose key begins with prefix. */
static dcpk_status find_unique(struct cache *cache, const struct shard *shard, const char *prefix,
                               char found[DIGEST_HEX], dcpk_error *error) {
    char key[DIGEST_HEX];
    found[0] = '\0';
    for (size_t n = 0; n < shard->count; n++) {
        if (file_kind_of(shard, shard->names[n], key) != FILE_ENTRY || strncmp(key, prefix, strlen(prefix)) != 0)
            continue;
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
    status = shard_open(cache, (unsigned)strtoul(digits, NULL, 16), &shard, error);
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

static void clear_shard(struct cache *cache, const struct shard *shard, uint64_t *removed, struct trouble *trouble) {
    char key[DIGEST_HEX];
    for (size_t n = 0; n < shard->count; n++) {
        dcpk_error error;
        dcpk_error_init(&error);
        int gone = file_remove(cache, shard->fd, shard->names[n], file_kind_of(shard, shard->names[n], key));
        if (gone > 0) ++*removed;
        if (gone >= 0) continue;
        dcpk_error_system(&error, DCPK_E_CACHE, errno, "cannot remove %s/%s/%s", cache->path, shard->name,
                          shard->names[n]);
        add_trouble(trouble, &error);
    }
}

dcpk_status cache_clear(struct cache *cache, uint64_t *removed, dcpk_error *error) {
    dcpk_status status = cache_status(cache, error);
    *removed = 0;
    if (status != DCPK_OK) return status;
    struct trouble trouble = {.first = {.size = sizeof trouble.first}};
    for (unsigned i = 0; i < CACHE_SHARDS && cache->root >= 0; i++) {
        struct shard shard;
        if (enter(cache, i, &shard, &trouble)) clear_shard(cache, &shard, removed, &trouble);
        shard_close(cache, &shard);
    }
    return tell_trouble(&trouble, error);
}
