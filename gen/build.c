/* build.c - the life of a kernel: spec -> memory -> packs -> direct key -> manifest -> expand -> content key -> entry
 * -> lock -> assemble -> validate -> publish. Owns what follows when nobody has it, and the report; build_find.c knows
 * the places, their order and what DCPK_JIT leaves out of it, build_make.c the steps. */
#include "gen/build.h"

#include "runtime/error.h"

#include <string.h>

dcpk_status gen_resolve(const dcpk_spec *spec, dcpk_spec *resolved, char text[GEN_SPEC_TEXT], dcpk_error *error) {
    dcpk_spec own = *spec;
    if (!resolved) resolved = &own;
    *resolved = *spec;
    dcpk_status status = dcpk_spec_resolve(resolved, error);
    if (status != DCPK_OK) return status;
    if (dcpk_spec_format(resolved, text, GEN_SPEC_TEXT) >= GEN_SPEC_TEXT)
        return dcpk_error_set(error, DCPK_E_SPEC, "the spec's text is longer than %d bytes", GEN_SPEC_TEXT - 1);
    return DCPK_OK;
}

dcpk_status build_begin(struct build *b, struct dcpk_gen *gen, const dcpk_spec *spec, dcpk_error *error) {
    *b = (struct build){.gen = gen, .lock = -1, .report = {.size = sizeof b->report}};
    if (!gen || !spec || spec->size < sizeof *spec)
        return dcpk_error_set(error, DCPK_E_ARG, "gen and spec may not be NULL, spec->size not below %zu",
                              sizeof *spec);
    return gen_resolve(spec, &b->spec, b->spec_text, error);
}

void build_end(struct build *b) {
    if (!b->gen) return;
    cache_unlock(&b->gen->cache, b->lock);
    if (b->expanded) expansion_free(&b->expansion);
    key_free(&b->direct);
    key_free(&b->content);
    dcpk_image_free(b->image);
}

/* Behind build_find: nobody has it. force: without waiting for another who compiles the same. */
static dcpk_status compile(struct build *b, bool force, dcpk_error *error) {
    if (!force && cache_ready(&b->gen->cache, true)) {
        b->lock = cache_lock(&b->gen->cache, b->content.hex, b->gen->lock_timeout_ms);
        if (build_from_entry(b)) /* another one has built it while we waited */
            return DCPK_OK;
    }
    dcpk_status status = build_assemble(b, error);
    if (status == DCPK_OK) build_publish(b);
    return status;
}

static dcpk_status live(struct build *b, dcpk_error *error) {
    dcpk_status status = build_find(b, error);
    if (status != DCPK_OK) return status;
    if (!b->image) status = compile(b, b->gen->jit == JIT_FORCE, error);
    if (status == DCPK_OK) build_note(b);
    return status;
}

/* A spec that the template refuses is refused here, too. */
static dcpk_status live_without_compiler(struct build *b, dcpk_error *error) {
    dcpk_error why;
    dcpk_error_init(&why);
    dcpk_status status = build_find(b, &why);
    if (status == DCPK_E_SPEC || status == DCPK_E_ARCH) {
        if (error) *error = why;
        return status;
    }
    if (!b->image) return build_missed(b, &why, error);
    build_note(b);
    return DCPK_OK;
}

static uint32_t lines_of(const char *text) {
    uint32_t lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void fill_report(struct build *b, uint32_t started, double start) {
    size_t length = 0;
    dcpk_image_cubin(b->image, &length);
    memcpy(b->report.key, dcpk_image_key(b->image), sizeof b->report.key);
    b->report.cubin_bytes = length;
    b->report.ptx_lines = lines_of(dcpk_image_ptx(b->image, NULL));
    b->report.compiled = b->gen->toolchain.started - started;
    b->report.total_ms = system_now() - start;
}

static void give_report(const dcpk_build_report *from, dcpk_build_report *to) {
    if (!to || to->size < sizeof to->size) return;
    uint32_t size = to->size < sizeof *from ? to->size : (uint32_t)sizeof *from;
    memcpy(to, from, size);
    to->size = size;
}

void build_give(struct build *b, uint32_t started, double start, dcpk_image **out, dcpk_build_report *report) {
    if (!b->image) return;
    if (b->report.hit != HIT_MEMORY) memory_add(&b->gen->memory, b->spec_text, b->image, b->report.cached);
    fill_report(b, started, start);
    give_report(&b->report, report);
    dcpk_image_ref(b->image);
    *out = b->image;
}

bool gen_at_hand(struct dcpk_gen *gen, const dcpk_spec *spec, dcpk_image **out, dcpk_build_report *report) {
    struct build b;
    double start = system_now();
    *out = NULL;
    *report = (dcpk_build_report){.size = sizeof *report};
    if (build_begin(&b, gen, spec, NULL) == DCPK_OK && build_at_hand(&b))
        build_give(&b, gen->toolchain.started, start, out, report);
    build_end(&b);
    return *out != NULL;
}

dcpk_status dcpk_gen_build(dcpk_gen *gen, const dcpk_spec *spec, dcpk_image **out, dcpk_build_report *report,
                           dcpk_error *error) {
    struct build b;
    double start = system_now();
    if (!out) return dcpk_error_set(error, DCPK_E_ARG, "out may not be NULL");
    *out = NULL;
    dcpk_status status = build_begin(&b, gen, spec, error);
    uint32_t started = gen ? gen->toolchain.started : 0;
    if (status == DCPK_OK) status = gen->jit == JIT_NEVER ? live_without_compiler(&b, error) : live(&b, error);
    if (status == DCPK_OK) build_give(&b, started, start, out, report);
    build_end(&b);
    return status;
}

dcpk_status dcpk_gen_find(dcpk_gen *gen, const dcpk_spec *spec, uint32_t *hit, dcpk_error *error) {
    struct build b;
    if (!hit) return dcpk_error_set(error, DCPK_E_ARG, "hit may not be NULL");
    *hit = HIT_NONE;
    dcpk_status status = build_begin(&b, gen, spec, error);
    if (status == DCPK_OK) {
        gen->cache.looking = true;
        status = build_find(&b, error);
        if (status == DCPK_OK && !b.image && gen->jit == JIT_NEVER)
            status = dcpk_error_set(error, DCPK_E_NOT_FOUND,
                                    "no pack and no cache has '%s', and no compiler may be started for it (jit never)",
                                    b.spec_text);
        if (status == DCPK_OK && !b.image)
            status = toolchain_reaches(gen->toolchain.text, &b.spec, b.expansion.ptx_version, error);
        if (b.image) *hit = b.report.hit;
        gen->cache.looking = false;
    }
    build_end(&b);
    return status;
}
