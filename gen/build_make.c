/* build_make.c - the steps that make an image: request, expansion, compiler, publishing. A failure before the image
 * exists is the build's; one after it costs a warning. */
#include "gen/build.h"

#include "gen/cache_manifest.h"
#include "runtime/error.h"
#include "runtime/image_format.h"

#include <stdlib.h>
#include <string.h>

dcpk_status build_request(struct build *b, dcpk_error *error) {
    struct dcpk_gen *gen = b->gen;
    dcpk_status status = gen_toolchain(gen, error);
    if (status != DCPK_OK) return status;
    gen->kind->options(&b->spec, b->options, sizeof b->options);
    status = gen_front(gen, &b->spec, b->front, sizeof b->front, error);
    if (status != DCPK_OK) return status;
    b->request = (struct key_request){b->spec_text, b->spec.arch, gen->toolchain.text, b->options, b->front};
    return key_direct(&b->request, &b->direct, error);
}

dcpk_status build_expand(struct build *b, dcpk_error *error) {
    double start = system_now();
    struct key_content content;
    dcpk_status status = gen_expand(b->gen, &b->spec, &b->expansion, error);
    b->report.expand_ms = system_now() - start;
    if (status != DCPK_OK) return status;
    b->expanded = true;
    status = key_content_of_expansion(b->spec_text, &b->expansion, &content, error);
    return status == DCPK_OK ? key_of_content(&b->request, &content, &b->content, error) : status;
}

static dcpk_status make_image(struct build *b, const struct toolchain_output *output, dcpk_error *error) {
    struct image_parts parts = {.cubin = output->cubin,
                                .cubin_length = output->length,
                                .ptx = b->expansion.ptx,
                                .ptx_length = b->expansion.ptx_length,
                                .preimage = b->content.text,
                                .spec = b->spec_text,
                                .ptx_version = b->expansion.ptx_version,
                                .entry_count = b->expansion.entry_count,
                                .entries = b->expansion.entries};
    memcpy(parts.target, b->expansion.target, sizeof parts.target);
    dcpk_status status = key_line_map(&b->expansion, &parts, error);
    if (status == DCPK_OK) status = image_make(&parts, &b->image, error);
    key_line_map_free(&parts);
    return status;
}

dcpk_status build_assemble(struct build *b, dcpk_error *error) {
    struct toolchain_place place = {.sys = b->gen->sys,
                                    .notice = &b->gen->notice,
                                    .environment = &b->gen->environment,
                                    .cache = &b->gen->cache,
                                    .timeout_ms = b->gen->compile_timeout_ms};
    struct toolchain_output output;
    dcpk_status status = toolchain_reaches(b->gen->toolchain.text, &b->spec, b->expansion.ptx_version, error);
    if (status != DCPK_OK) return status;
    double start = system_now();
    status = b->gen->kind->assemble(&b->gen->toolchain, &place, &b->spec, &b->expansion, &output, error);
    b->report.compile_ms = system_now() - start;
    if (status != DCPK_OK) return status;
    status = make_image(b, &output, error);
    if (status != DCPK_OK) dcpk_error_append(error, "\n%s made it for %s", b->gen->toolchain.text, b->spec_text);
    free(output.cubin);
    return status;
}

/* From here on nothing can fail the build. */
void build_publish(struct build *b) {
    struct cache *cache = &b->gen->cache;
    bool cached = false;
    dcpk_error error;
    dcpk_error_init(&error);
    if (!cache_ready(cache, true)) return;
    bool replace = b->gen->jit == JIT_FORCE;
    if (cache_entry_write(cache, b->content.hex, b->image, replace, &cached, &error) != DCPK_OK)
        cache_warn(cache, &error);
    b->report.cached = cached;
}

/* Of many that waited for one builder, each would write what the builder has written. */
static bool is_noted(struct build *b) {
    char key[DIGEST_HEX];
    return b->report.hit == HIT_FOLDER && manifest_find(&b->gen->cache, &b->direct, b->gen->expander, key) &&
           strcmp(key, b->content.hex) == 0;
}

void build_note(struct build *b) {
    dcpk_error error;
    dcpk_error_init(&error);
    if (!b->expanded || !b->report.cached || is_noted(b)) return;
    if (manifest_add(&b->gen->cache, &b->direct, &b->expansion, b->content.hex, &error) == DCPK_OK) return;
    if (error.code == DCPK_E_UNTRUSTED)
        cache_warn(&b->gen->cache, &error);
    else
        notice_log(&b->gen->notice, DCPK_LOG_INFO, "no manifest: %s", error.text);
}
