/* build_find.c - where an image may already be: this process, a pack, the cache by request or by content; in this
 * order, for whoever asks. Only an image whose own preimage says that it is the one asked for is taken; everything else
 * is a miss. */
#include "gen/build.h"

#include "gen/cache_manifest.h"
#include "runtime/image_find.h"

#include <string.h>

static bool from_memory(struct build *b) {
    bool cached = false;
    b->image = memory_find(&b->gen->memory, b->spec_text, &cached);
    if (b->image) {
        b->report.hit = HIT_MEMORY;
        b->report.cached = cached;
    }
    return b->image != NULL;
}

static bool from_packs(struct build *b) {
    b->image = packs_find(&b->gen->packs, &b->spec, b->gen->expander, &b->gen->notice);
    if (b->image) b->report.hit = HIT_PACK;
    return b->image != NULL;
}

/* An image that the content key's own text says is ours; anything else is a miss. */
static bool take(struct build *b, dcpk_image *image, const struct key *content) {
    size_t length = 0;
    const char *stored = dcpk_image_preimage(image, &length);
    if (length == content->length && memcmp(stored, content->text, length) == 0) {
        b->image = image;
        b->report.hit = HIT_FOLDER;
        b->report.cached = 1;
        return true;
    }
    notice_log(&b->gen->notice, DCPK_LOG_INFO, "entry %s belongs to another request: a miss", content->hex);
    dcpk_image_free(image);
    return false;
}

static void report_miss(struct build *b, const char *key, dcpk_status status, const dcpk_error *error) {
    if (status == DCPK_E_NOT_FOUND && error->sys_errno != 0) return; /* simply not there */
    if (status == DCPK_E_UNTRUSTED)
        cache_warn(&b->gen->cache, error);
    else
        notice_log(&b->gen->notice, DCPK_LOG_INFO, "entry %s is a miss: %s", key, error->text);
}

/* The direct way: no template is expanded, no process is started. */
static bool from_manifest(struct build *b) {
    char key[DIGEST_HEX];
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    if (!cache_ready(&b->gen->cache, false) || !manifest_find(&b->gen->cache, &b->direct, b->gen->expander, key))
        return false;
    dcpk_status status = cache_entry_read(&b->gen->cache, key, &image, &error);
    if (status != DCPK_OK) {
        report_miss(b, key, status, &error);
        return false;
    }
    struct key_content content;
    struct key wanted = {0};
    status = key_content_of_image(b->spec_text, image, &content, &error);
    if (status == DCPK_OK) status = key_of_content(&b->request, &content, &wanted, &error);
    if (status != DCPK_OK) {
        dcpk_image_free(image);
        return false;
    }
    bool taken = take(b, image, &wanted);
    key_free(&wanted);
    return taken;
}

/* The content way: the same PTX, line map and launch were assembled before. */
bool build_from_entry(struct build *b) {
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    if (!cache_ready(&b->gen->cache, false)) return false;
    dcpk_status status = cache_entry_read(&b->gen->cache, b->content.hex, &image, &error);
    if (status != DCPK_OK) {
        report_miss(b, b->content.hex, status, &error);
        return false;
    }
    size_t length = 0;
    const char *ptx = dcpk_image_ptx(image, &length);
    if (length != b->expansion.ptx_length || memcmp(ptx, b->expansion.ptx, length) != 0) {
        dcpk_image_free(image); /* two texts with one digest */
        return false;
    }
    return take(b, image, &b->content);
}

bool build_at_hand(struct build *b) {
    return from_memory(b) || (b->gen->jit != JIT_FORCE && from_packs(b));
}

/* Under "never" PTX from Lua may be expanded to look for its content; CUDA C++ would need a compiler to become PTX. */
dcpk_status build_find(struct build *b, dcpk_error *error) {
    enum jit_mode jit = b->gen->jit;
    if (build_at_hand(b) || (jit == JIT_NEVER && !b->gen->cache.path)) return DCPK_OK;
    dcpk_status status = build_request(b, error);
    if (status != DCPK_OK || (jit != JIT_FORCE && from_manifest(b)) || (jit == JIT_NEVER && b->front[0])) return status;
    status = build_expand(b, error);
    if (status == DCPK_OK && jit != JIT_FORCE) build_from_entry(b);
    return status;
}
