/* build.c - the life of a kernel: spec -> direct key -> memory -> manifest -> expand -> content key -> entry -> lock ->
 * assemble -> validate -> publish. Owns the order of these steps and the report; each step is a file of its own.
 * A failure before the image exists is the build's; one after it costs a warning. */
#include "gen/state.h"

#include "gen/cache_manifest.h"
#include "gen/key.h"
#include "runtime/buffer.h"
#include "runtime/error.h"
#include "runtime/image_find.h"
#include "runtime/image_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIT_NONE = 0, HIT_MEMORY = 1, HIT_FOLDER = 2 };

struct build {
    struct dcpk_gen *gen;
    dcpk_spec spec;
    char spec_text[1024], options[128], front[GEN_FRONT];
    struct key_request request;
    struct key direct, content;
    struct expansion expansion;
    bool expanded;
    int lock;
    dcpk_image *image;
    dcpk_build_report report;
};

static bool may_begin(const struct dcpk_gen *gen, const dcpk_spec *spec, const void *out, dcpk_error *error) {
    if (gen && spec && out && spec->size >= sizeof *spec) return true;
    dcpk_error_set(error, DCPK_E_ARG, "gen, spec and out may not be NULL, spec->size not below %zu", sizeof *spec);
    return false;
}

static dcpk_status begin(struct build *b, struct dcpk_gen *gen, const dcpk_spec *spec, dcpk_error *error) {
    *b = (struct build){.gen = gen, .lock = -1, .report = {.size = sizeof b->report}};
    if (!gen || !spec || spec->size < sizeof *spec)
        return dcpk_error_set(error, DCPK_E_ARG, "gen and spec may not be NULL, spec->size not below %zu",
                              sizeof *spec);
    b->spec = *spec;
    dcpk_status status = dcpk_spec_resolve(&b->spec, error);
    if (status != DCPK_OK) return status;
    if (dcpk_spec_format(&b->spec, b->spec_text, sizeof b->spec_text) >= sizeof b->spec_text)
        return dcpk_error_set(error, DCPK_E_SPEC, "the spec's text is longer than %zu bytes", sizeof b->spec_text - 1);
    status = gen_toolchain(gen, error);
    if (status != DCPK_OK) return status;
    gen->kind->options(&b->spec, b->options, sizeof b->options);
    status = gen_front(gen, &b->spec, b->front, sizeof b->front, error);
    if (status != DCPK_OK) return status;
    b->request = (struct key_request){b->spec_text, b->spec.arch, gen->toolchain.text, b->options, b->front};
    return key_direct(&b->request, &b->direct, error);
}

static void end(struct build *b) {
    cache_unlock(&b->gen->cache, b->lock);
    if (b->expanded) expansion_free(&b->expansion);
    key_free(&b->direct);
    key_free(&b->content);
    dcpk_image_free(b->image);
}

static bool from_memory(struct build *b) {
    bool cached = false;
    b->image = memory_find(&b->gen->memory, &b->direct, &cached);
    if (b->image) {
        b->report.hit = HIT_MEMORY;
        b->report.cached = cached;
    }
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
static bool from_entry(struct build *b) {
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

static dcpk_status expand(struct build *b, dcpk_error *error) {
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

static dcpk_status assemble(struct build *b, dcpk_error *error) {
    struct toolchain_place place = {.sys = b->gen->sys,
                                    .notice = &b->gen->notice,
                                    .environment = &b->gen->environment,
                                    .cache = &b->gen->cache,
                                    .timeout_ms = b->gen->compile_timeout_ms};
    struct toolchain_output output;
    double start = system_now();
    dcpk_status status = b->gen->kind->assemble(&b->gen->toolchain, &place, &b->spec, &b->expansion, &output, error);
    b->report.compile_ms = system_now() - start;
    if (status != DCPK_OK) return status;
    status = make_image(b, &output, error);
    if (status != DCPK_OK) dcpk_error_append(error, "\n%s made it for %s", b->gen->toolchain.text, b->spec_text);
    free(output.cubin);
    return status;
}

/* From here on nothing can fail the build. */
static void publish(struct build *b) {
    struct cache *cache = &b->gen->cache;
    bool cached = false;
    dcpk_error error;
    dcpk_error_init(&error);
    if (!cache_ready(cache, true)) return;
    if (cache_entry_write(cache, b->content.hex, b->image, &cached, &error) != DCPK_OK) cache_warn(cache, &error);
    b->report.cached = cached;
}

static void remember(struct build *b) {
    dcpk_error error;
    dcpk_error_init(&error);
    if (b->report.hit != HIT_MEMORY) memory_add(&b->gen->memory, &b->direct, b->image, b->report.cached);
    if (b->expanded && b->report.cached &&
        manifest_add(&b->gen->cache, &b->direct, &b->expansion, b->content.hex, &error) != DCPK_OK) {
        if (error.code == DCPK_E_UNTRUSTED)
            cache_warn(&b->gen->cache, &error);
        else
            notice_log(&b->gen->notice, DCPK_LOG_INFO, "no manifest: %s", error.text);
    }
}

static dcpk_status compile(struct build *b, dcpk_error *error) {
    dcpk_status status = expand(b, error);
    if (status != DCPK_OK || from_entry(b)) return status;
    if (cache_ready(&b->gen->cache, true)) {
        b->lock = cache_lock(&b->gen->cache, b->content.hex, b->gen->lock_timeout_ms);
        if (from_entry(b)) /* another one has built it while we waited */
            return DCPK_OK;
    }
    status = assemble(b, error);
    if (status == DCPK_OK) publish(b);
    return status;
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

dcpk_status dcpk_gen_build(dcpk_gen *gen, const dcpk_spec *spec, dcpk_image **out, dcpk_build_report *report,
                           dcpk_error *error) {
    struct build b;
    double start = system_now();
    if (out) *out = NULL;
    if (!may_begin(gen, spec, out, error)) return DCPK_E_ARG;
    uint32_t started = gen->toolchain.started;
    dcpk_status status = begin(&b, gen, spec, error);
    if (status == DCPK_OK && !from_memory(&b) && !from_manifest(&b)) status = compile(&b, error);
    if (status == DCPK_OK && b.image) {
        remember(&b);
        fill_report(&b, started, start);
        give_report(&b.report, report);
        dcpk_image_ref(b.image);
        *out = b.image;
    }
    end(&b);
    return status;
}

dcpk_status dcpk_gen_explain(dcpk_gen *gen, const dcpk_spec *spec, dcpk_text *out, dcpk_error *error) {
    struct build b;
    if (out) *out = (dcpk_text){0};
    if (!may_begin(gen, spec, out, error)) return DCPK_E_ARG;
    dcpk_status status = begin(&b, gen, spec, error);
    if (status == DCPK_OK) status = expand(&b, error);
    if (status == DCPK_OK) {
        struct buffer text = {0};
        buffer_format(&text, "direct %s\n%s", b.direct.hex, b.direct.text);
        for (uint32_t i = 0; i < b.expansion.file_count; i++)
            buffer_format(&text, "reads: %s %s\n", b.expansion.files[i].digest, b.expansion.files[i].name);
        buffer_format(&text, "\ncontent %s\n%s", b.content.hex, b.content.text);
        *out = (dcpk_text){text.data, text.length};
        if (text.failed) {
            dcpk_text_free(out);
            status = dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the preimages");
        }
    }
    end(&b);
    return status;
}
