/* build_missed.c - the message of a build that may not compile: what was asked for, where it was looked for, and what
 * is nearest to it. Reads the cache's entries for that, for a bounded time. */
#include "gen/build.h"

#include "runtime/buffer.h"
#include "runtime/error.h"
#include "runtime/nearest.h"

enum { SEARCH_MS = 1000 };

struct search {
    struct nearest nearest;
    double deadline;
    bool cut;
};

static int32_t offer(void *self, const dcpk_cache_entry *entry) {
    struct search *search = self;
    if (entry->state == DCPK_OK) nearest_offer(&search->nearest, entry->spec);
    search->cut = system_now() > search->deadline;
    return search->cut;
}

static void describe_cache(struct build *b, const dcpk_error *why, struct buffer *text, struct search *search) {
    struct cache *cache = &b->gen->cache;
    dcpk_error error;
    dcpk_error_init(&error);
    if (!cache->path) {
        buffer_format(text, "\n  cache: there is no folder");
        return;
    }
    if (cache_status(cache, &error) != DCPK_OK)
        buffer_format(text, "\n  cache %s: not searched: %s", cache->path, error.text);
    else if (!b->direct.text)
        buffer_format(text, "\n  cache %s: not searched, for its keys hold the toolchain: %s", cache->path, why->text);
    else if (b->front[0])
        buffer_format(text, "\n  cache %s: by request (CUDA C++ has no content before a compiler has made PTX of it)",
                      cache->path);
    else if (!b->content.text)
        buffer_format(text, "\n  cache %s: by request (not by content: %s)", cache->path, why->text);
    else
        buffer_format(text, "\n  cache %s: by request and by content", cache->path);
    cache_visit(cache, false, offer, search, NULL);
}

dcpk_status build_missed(struct build *b, const dcpk_error *why, dcpk_error *error) {
    struct buffer text = {0};
    struct search search = {.deadline = system_now() + SEARCH_MS};
    char near_by[NEAREST_TEXT];
    if (!error) return DCPK_E_NOT_FOUND;
    nearest_begin(&search.nearest, &b->spec);
    buffer_format(&text, "no image of '%s', and no compiler may be started for it (jit never)", b->spec_text);
    if (b->content.text)
        buffer_format(&text, "\nkey %s", b->content.hex);
    else if (b->direct.text)
        buffer_format(&text, "\nkey of the request %s", b->direct.hex);
    buffer_format(&text, "\nsearched:");
    packs_describe(&b->gen->packs, &b->spec, &text, &search.nearest);
    describe_cache(b, why, &text, &search);
    nearest_text(&search.nearest, near_by, sizeof near_by);
    buffer_format(&text, "\n%s%s", near_by, search.cut ? " (of the cache, what could be read in a second)" : "");
    dcpk_error_set(error, DCPK_E_NOT_FOUND, "%s", text.data && !text.failed ? text.data : b->spec_text);
    buffer_free(&text);
    return DCPK_E_NOT_FOUND;
}
