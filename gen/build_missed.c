/* build_missed.c - the message of a build that may not compile: what was asked for, where it was looked for, and what
 * is nearest to it. */
#include "gen/build.h"

#include "runtime/buffer.h"
#include "runtime/error.h"

static void describe_cache(struct build *b, const dcpk_error *why, struct buffer *text) {
    struct cache *cache = &b->gen->cache;
    dcpk_error error;
    dcpk_error_init(&error);
    if (!cache->path)
        buffer_format(text, "\n  cache: there is no folder");
    else if (cache_status(cache, &error) != DCPK_OK)
        buffer_format(text, "\n  cache %s: not searched: %s", cache->path, error.text);
    else if (!b->direct.text)
        buffer_format(text, "\n  cache %s: not searched: %s", cache->path, why->text);
    else if (b->front[0])
        buffer_format(text, "\n  cache %s: by request (its content is not known before a compiler has made PTX of CUDA C++)",
                      cache->path);
    else if (!b->content.text)
        buffer_format(text, "\n  cache %s: by request (not by content: %s)", cache->path, why->text);
    else
        buffer_format(text, "\n  cache %s: by request and by content", cache->path);
}

dcpk_status build_missed(struct build *b, const dcpk_error *why, dcpk_error *error) {
    struct buffer text = {0};
    buffer_format(&text, "no image of '%s', and no compiler may be started for it (jit never)", b->spec_text);
    if (b->content.text)
        buffer_format(&text, "\nkey: %s", b->content.hex);
    else if (b->direct.text)
        buffer_format(&text, "\nkey of the request: %s", b->direct.hex);
    buffer_format(&text, "\nsearched:");
    packs_describe(&b->gen->packs, &text);
    describe_cache(b, why, &text);
    dcpk_error_set(error, DCPK_E_NOT_FOUND, "%s", text.data ? text.data : b->spec_text);
    buffer_free(&text);
    return DCPK_E_NOT_FOUND;
}
