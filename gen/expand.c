/* expand.c - owns the expander and the expansion: template -> Lua -> PTX (or CUDA C++) with its line map -> lint of
 * PTX. The steps are others': this file puts the text together and answers who wrote a line. */
#include "gen/expand.h"
#include "gen/cuda_text.h"
#include "gen/host.h"
#include "gen/lineinfo.h"
#include "gen/lint.h"
#include "gen/models.h"
#include "runtime/error.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct expander {
    struct sources *sources;
    locale_t locale; /* "C": numbers, order and letters of texts do not depend on the process */
};

dcpk_status expander_open(const char *path, struct expander **out, dcpk_error *error) {
    *out = NULL;
    struct expander *expander = calloc(1, sizeof *expander);
    if (expander == NULL) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for an expander");
    expander->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    dcpk_status status = expander->locale == (locale_t)0
                             ? dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the C locale")
                             : sources_open(path, &expander->sources, error);
    if (status != DCPK_OK) {
        expander_close(expander);
        return status;
    }
    *out = expander;
    return DCPK_OK;
}

void expander_close(struct expander *expander) {
    if (expander == NULL) return;
    sources_close(expander->sources);
    if (expander->locale != (locale_t)0) freelocale(expander->locale);
    free(expander);
}

const char *expander_path(const struct expander *expander) {
    return sources_path(expander->sources);
}

const char *expander_file_digest(struct expander *expander, const char *name) {
    const struct source_file *file;
    return sources_get(expander->sources, name, &file, NULL) == DCPK_OK ? file->digest : NULL;
}

/* ---- putting the text together ---- */

/* The lines above the first thing that the template wrote; they are blamed on its first line. */
static dcpk_status put_head(struct host *host, struct expansion *out, struct emitter *whole) {
    char spec[1024], line[1100];
    const struct writers first = {.stack = {{0, 1}}, .count = 1};
    const char *wrong = NULL;
    dcpk_spec_format(host->spec, spec, sizeof spec);
    const char *const heads[] = {"// dcpk: %s", "// %s", "", ".version %s", ".target %s", ".address_size 64"};
    char version[16];
    snprintf(version, sizeof version, "%u.%u", out->ptx_version / 10, out->ptx_version % 10);
    const char *const values[] = {host->spec->kernel, spec, NULL, version, out->target, NULL};
    size_t count = host->cuda ? 3 : sizeof heads / sizeof heads[0]; /* the rest is NVRTC's to write */
    for (size_t i = 0; i < count && wrong == NULL; i++) {
        const char *percent = strstr(heads[i], "%s");
        int length = percent == NULL
                         ? snprintf(line, sizeof line, "%s", heads[i])
                         : snprintf(line, sizeof line, "%.*s%s", (int)(percent - heads[i]), heads[i], values[i]);
        wrong = emitter_line(whole, line, (size_t)length, 0, &first);
    }
    return wrong == NULL ? DCPK_OK : dcpk_error_set(host->error, DCPK_E_NOMEM, "%s", wrong);
}

static dcpk_status copy_files(struct host *host, struct expansion *out) {
    out->files = calloc(host->file_count, sizeof *out->files);
    for (uint32_t i = 0; out->files != NULL && i < host->file_count; i++) {
        struct source_file *to = &out->files[i];
        const struct source_file *from = host->files[i];
        out->file_count = i + 1;
        to->name = strdup(from->name);
        to->text = malloc(from->length + 1);
        if (to->name == NULL || to->text == NULL)
            return dcpk_error_set(host->error, DCPK_E_NOMEM, "no memory for template texts");
        memcpy(to->text, from->text, from->length + 1);
        memcpy(to->digest, from->digest, sizeof to->digest);
        to->length = from->length;
    }
    return out->files != NULL ? DCPK_OK : dcpk_error_set(host->error, DCPK_E_NOMEM, "no memory for template texts");
}

/* Head and body become one text with one line map. */
static dcpk_status put_together(struct host *host, struct expansion *out) {
    struct emitter whole = {0};
    dcpk_status status = put_head(host, out, &whole);
    const char *wrong = NULL;
    if (status == DCPK_OK) status = copy_files(host, out);
    if (status == DCPK_OK && host->spec->lineinfo == 1 && !host->cuda)
        wrong = lineinfo_append(&whole, &host->out, out->files, out->file_count);
    else if (status == DCPK_OK)
        wrong = emitter_append(&whole, &host->out);
    if (wrong != NULL) status = dcpk_error_set(host->error, DCPK_E_NOMEM, "%s", wrong);
    if (status != DCPK_OK) {
        emitter_free(&whole);
        return status;
    }
    out->ptx = whole.text;
    out->ptx_length = whole.length;
    out->ptx_lines = whole.lines;
    out->origins = whole.origins;
    out->frames = whole.frames;
    out->frame_count = whole.frame_count;
    return DCPK_OK;
}

/* .version is the lowest that every need and the target allow. NVRTC builds for the spec's own architecture. */
static void set_target(struct host *host, struct expansion *out) {
    dcpk_arch_info arch = {.size = sizeof arch};
    if (host->cuda) snprintf(host->need.target, sizeof host->need.target, "%s", host->spec->arch);
    snprintf(out->target, sizeof out->target, "%s", host->need.target);
    out->ptx_version = (uint32_t)host->need.ptx;
    if (dcpk_arch_find(out->target, &arch) && (uint32_t)arch.ptx > out->ptx_version)
        out->ptx_version = (uint32_t)arch.ptx;
}

/* A kernel whose template is not there; of one of kernels.def the message lists those that are. */
static dcpk_status check_there(struct host *host, const char *name) {
    static const char *const kernels[] = {
#define K(name, number, box, summary) #name,
#include <dcpk/kernels.def>
#undef K
    };
    const struct source_file *file;
    char there[64];
    const char *kernel = host->spec->kernel;
    if (sources_get(host->sources, name, &file, NULL) != DCPK_E_NOT_FOUND) return DCPK_OK;
    if (dcpk_kernel_id_of(kernel) == DCPK_KERNEL_NONE)
        return sources_not_found(host->sources, host->error, "there is no template file %s.ptx.lua or %s.cu.lua in %s",
                                 kernel, kernel, sources_path(host->sources));
    char list[sizeof kernels / sizeof kernels[0] * 33] = "";
    size_t length = 0;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        snprintf(there, sizeof there, "%s.ptx.lua", kernels[i]);
        if (sources_get(host->sources, there, &file, NULL) != DCPK_OK) continue;
        length += (size_t)snprintf(list + length, sizeof list - length, " %s", kernels[i]);
    }
    return sources_not_found(host->sources, host->error, "%s: this version has no template for it; it has%s (in %s)",
                             kernel, length > 0 ? list : " none", sources_path(host->sources));
}

dcpk_status expander_language(struct expander *expander, const char *kernel, enum expansion_language *language,
                              char *file, dcpk_error *error) {
    char ptx[64], cuda[64];
    const struct source_file *source;
    snprintf(ptx, sizeof ptx, "%s.ptx.lua", kernel);
    snprintf(cuda, sizeof cuda, "%s.cu.lua", kernel);
    bool has_ptx = sources_get(expander->sources, ptx, &source, NULL) != DCPK_E_NOT_FOUND;
    bool has_cuda = sources_get(expander->sources, cuda, &source, NULL) != DCPK_E_NOT_FOUND;
    *language = has_cuda && !has_ptx ? EXPANSION_CUDA : EXPANSION_PTX;
    if (file != NULL) memcpy(file, *language == EXPANSION_CUDA ? cuda : ptx, sizeof ptx);
    if (!has_ptx || !has_cuda) return DCPK_OK;
    char ptx_path[1024], cuda_path[1024];
    sources_where(expander->sources, ptx, ptx_path, sizeof ptx_path);
    sources_where(expander->sources, cuda, cuda_path, sizeof cuda_path);
    return dcpk_error_set(error, DCPK_E_TEMPLATE, "%s: %s and %s are both there: a kernel has one template", kernel,
                          ptx_path, cuda_path);
}

static dcpk_status expand(struct host *host, const char *name, struct expansion *out) {
    dcpk_status status = check_there(host, name);
    if (status == DCPK_OK) status = host_open(host);
    if (status == DCPK_OK) status = host_run(host, name, NULL, NULL);
    if (status == DCPK_OK && host->entry_count == 0) {
        status = dcpk_error_set(
            host->error, DCPK_E_TEMPLATE,
            "%s:1: the template has no kernel{...}: kernel { grid = {...}, block = {...} } opens an entry", name);
        dcpk_error_blame(host->error, name, 1);
    }
    if (status != DCPK_OK) return status;
    set_target(host, out);
    out->language = host->cuda ? EXPANSION_CUDA : EXPANSION_PTX;
    out->entry_count = host->entry_count;
    memcpy(out->entries, host->entries, sizeof out->entries);
    status = put_together(host, out);
    if (status != DCPK_OK) return status;
    return host->cuda ? cuda_text_check(out, host->error) : lint(out, host->error);
}

dcpk_status expander_expand(struct expander *expander, const dcpk_spec *spec, struct expansion *out,
                            dcpk_error *error) {
    enum expansion_language language;
    char name[64];
    memset(out, 0, sizeof *out);
    if (spec == NULL || spec->size < sizeof *spec || spec->arch[0] == '\0')
        return dcpk_error_set(error, DCPK_E_ARG, "expanding needs a spec that dcpk_spec_resolve has seen");
    dcpk_status status = expander_language(expander, spec->kernel, &language, name, error);
    if (status != DCPK_OK) return status;
    struct host *host = calloc(1, sizeof *host);
    if (host == NULL) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for an expansion");
    *host = (struct host){.sources = expander->sources,
                          .spec = spec,
                          .cuda = language == EXPANSION_CUDA,
                          .need = {78, "sm_90"},
                          .error = error};
    locale_t before = uselocale(expander->locale);
    status = expand(host, name, out);
    uselocale(before);
    host_close(host);
    free(host);
    if (status != DCPK_OK) expansion_free(out);
    return status;
}

void expansion_free(struct expansion *expansion) {
    if (expansion == NULL) return;
    for (uint32_t i = 0; i < expansion->file_count; i++) {
        free(expansion->files[i].name);
        free(expansion->files[i].text);
    }
    free(expansion->files);
    free(expansion->origins);
    free(expansion->frames);
    free(expansion->ptx);
    memset(expansion, 0, sizeof *expansion);
}

dcpk_status expander_models(struct expander *expander, struct model_preset **out, uint32_t *count, dcpk_error *error) {
    struct host *host = calloc(1, sizeof *host);
    *out = NULL;
    *count = 0;
    if (host == NULL) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the presets");
    *host = (struct host){.sources = expander->sources, .error = error};
    locale_t before = uselocale(expander->locale);
    dcpk_status status = models_read(host, out, count);
    uselocale(before);
    host_close(host);
    free(host);
    return status;
}

/* ---- who wrote a line ---- */

/* Line `number` (1-based) of a text, without its line end; NULL past the end. */
static const char *line_of(const char *text, uint32_t number, int *length) {
    for (uint32_t i = 1; text != NULL && i < number; i++)
        text = (text = strchr(text, '\n')) != NULL ? text + 1 : NULL;
    if (text == NULL || number == 0) return NULL;
    size_t all = strcspn(text, "\r\n");
    *length = all > 200 ? 200 : (int)all;
    return text;
}

/* Each message begins a line of its own, whatever stands in the text already, and ends without a newline. */
static const char *separator(const dcpk_error *error) {
    size_t used = error != NULL ? strlen(error->text) : 0;
    return used > 0 && error->text[used - 1] != '\n' ? "\n" : "";
}

void expansion_blame(const struct expansion *x, uint32_t ptx_line, const char *message, dcpk_error *error) {
    int length;
    const char *language = x->language == EXPANSION_CUDA ? "CUDA C++" : "PTX";
    if (ptx_line == 0 || ptx_line > x->ptx_lines) {
        dcpk_error_append(error, "%s%s line %u: %s", separator(error), language, ptx_line, message);
        return;
    }
    const struct line_origin *origin = &x->origins[ptx_line - 1];
    const struct source_file *file = &x->files[origin->file];
    dcpk_error_append(error, "%s%s:%u: %s", separator(error), file->name, origin->line, message);
    const char *text = line_of(file->text, origin->line, &length);
    if (text != NULL) dcpk_error_append(error, "\n    %.*s", length, text);
    for (uint32_t i = 0; i < origin->frame_count; i++) {
        const struct line_frame *frame = &x->frames[origin->frame_first + i];
        dcpk_error_append(error, "\n  from %s:%u", x->files[frame->file].name, frame->line);
    }
    text = line_of(x->ptx, ptx_line, &length);
    if (text != NULL) dcpk_error_append(error, "\n  %s line %u: %.*s", language, ptx_line, length, text);
    dcpk_error_blame(error, file->name, origin->line);
}
