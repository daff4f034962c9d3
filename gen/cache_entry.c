/* cache_entry.c - images as cache entries. What comes out has passed every check of image.h; what is found damaged is
 * replaced by the next build; what a newer version wrote is left alone. */
#include "gen/cache.h"

#include "runtime/error.h"

#include <stdlib.h>
#include <string.h>

dcpk_status cache_entry_read(struct cache *cache, const char *key, dcpk_image **out, dcpk_error *error) {
    char *data = NULL;
    size_t length = 0;
    *out = NULL;
    dcpk_status status = cache_read(cache, key, CACHE_ENTRY, &data, &length, error);
    if (status != DCPK_OK) return status;
    status = dcpk_image_from_bytes(data, length, out, error);
    free(data);
    if (status == DCPK_OK && strcmp(dcpk_image_key(*out), key) != 0) {
        status = dcpk_error_set(error, DCPK_E_CACHE, "entry %s holds the image of %s", key, dcpk_image_key(*out));
        dcpk_image_free(*out);
        *out = NULL;
    }
    return status;
}

/* Somebody's entry was there first: is it good, newer, or to be replaced? good: even a good one is. */
static dcpk_status replace_theirs(struct cache *cache, const char *key, const void *bytes, size_t length, bool good,
                                  bool *cached, dcpk_error *error) {
    dcpk_image *theirs = NULL;
    dcpk_error reason;
    dcpk_error_init(&reason);
    dcpk_status status = cache_entry_read(cache, key, &theirs, &reason);
    dcpk_image_free(theirs);
    *cached = status == DCPK_OK;
    if (status == DCPK_OK && !good) return DCPK_OK;
    if (status == DCPK_E_UNTRUSTED) return dcpk_error_set(error, status, "%s", reason.text);
    if (status == DCPK_E_NOT_FOUND)
        return dcpk_error_set(error, DCPK_E_CACHE, "entry %s is in the way: %s", key, reason.text);
    notice_log(cache->notice, DCPK_LOG_INFO, "replacing entry %s%s%s", key, status == DCPK_OK ? "" : ": ", reason.text);
    status = cache_write(cache, key, CACHE_ENTRY, bytes, length, CACHE_REPLACE, NULL, error);
    *cached = *cached || status == DCPK_OK || status == DCPK_E_IO;
    return status;
}

dcpk_status cache_entry_write(struct cache *cache, const char *key, const dcpk_image *image, bool replace, bool *cached,
                              dcpk_error *error) {
    size_t length = 0;
    const void *bytes = dcpk_image_bytes(image, &length);
    bool exists = false;
    dcpk_status status = cache_write(cache, key, CACHE_ENTRY, bytes, length, CACHE_FIRST_WINS, &exists, error);
    *cached = (status == DCPK_OK || status == DCPK_E_IO) && !exists;
    if (!exists) return status;
    return replace_theirs(cache, key, bytes, length, replace, cached, error);
}
