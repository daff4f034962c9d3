/* open.c - owns the opening and closing of a dcpk_gen: options over environment over defaults, read once. Opening maps
 * packs, but touches no cache and finds no compiler. */
#include "gen/state.h"

#include "gen/sizes.h"
#include "gen/templates_path.h"
#include "runtime/buffer.h"
#include "runtime/error.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMPILE_TIMEOUT_MS = 120000, LOCK_TIMEOUT_MS = 60000 };
static const uint64_t default_cache_max = UINT64_C(2) << 30;

/* The options that the caller's version of the struct has; the rest is zero. */
static dcpk_status read_options(const dcpk_gen_options *from, dcpk_gen_options *to, dcpk_error *error) {
    *to = (dcpk_gen_options){0};
    if (!from) return DCPK_OK;
    if (from->size < sizeof from->size)
        return dcpk_error_set(error, DCPK_E_ARG, "options->size is %u: set it to sizeof(dcpk_gen_options)", from->size);
    memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
    return DCPK_OK;
}

static dcpk_status no_memory(dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a generator's settings");
}

static dcpk_status set_times(struct dcpk_gen *gen, const dcpk_gen_options *options, dcpk_error *error) {
    const char *text = gen->environment.lock_timeout;
    int64_t seconds = LOCK_TIMEOUT_MS / 1000;
    if (text && !number_read(text, 86400, &seconds))
        return dcpk_error_set(error, DCPK_E_ARG, "DCPK_LOCK_TIMEOUT=%s: a whole number of seconds, 0 to 86400", text);
    gen->lock_timeout_ms = options->lock_timeout_ms ? options->lock_timeout_ms : (uint32_t)seconds * 1000;
    gen->compile_timeout_ms = options->compile_timeout_ms ? options->compile_timeout_ms : COMPILE_TIMEOUT_MS;
    return DCPK_OK;
}

static dcpk_status set_jit(struct dcpk_gen *gen, const dcpk_gen_options *options, dcpk_error *error) {
    static const char *const names[] = {[JIT_AUTO] = "auto", [JIT_NEVER] = "never", [JIT_FORCE] = "force"};
    const char *name = options->jit ? options->jit : gen->environment.jit;
    if (!name) return DCPK_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) {
            gen->jit = (enum jit_mode)i;
            return DCPK_OK;
        }
    return dcpk_error_set(error, DCPK_E_ARG, "%s%.100s: auto, never or force",
                          options->jit ? "the option jit is " : "DCPK_JIT=", name);
}

static dcpk_status set_toolchain(struct dcpk_gen *gen, const dcpk_gen_options *options, dcpk_error *error) {
    const char *name = options->toolchain           ? options->toolchain
                       : gen->environment.toolchain ? gen->environment.toolchain
                                                    : "ptxas";
    gen->kind = toolchain_kind_of(name);
    if (!gen->kind && strcmp(name, "auto") != 0)
        return dcpk_error_set(error, DCPK_E_ARG,
                              "%s%s%sthere is no toolchain '%s' in dcpk " DCPK_VERSION_TEXT
                              ": ptxas, nvjitlink, driver, or auto for the first of these that is there",
                              options->toolchain ? "" : "DCPK_TOOLCHAIN=", options->toolchain ? "" : name,
                              options->toolchain ? "" : ": ", name);
    if (options->ptxas && *options->ptxas && !(gen->program = strdup(options->ptxas))) return no_memory(error);
    return DCPK_OK;
}

/* A relative path is meant from where the generator was opened, wherever the program goes later. */
static void add_path(struct buffer *path, const char *folder) {
    char *here = *folder && *folder != '/' ? getcwd(NULL, 0) : NULL;
    if (here) buffer_format(path, "%s/", here);
    buffer_format(path, "%s", folder);
    free(here);
}

static dcpk_status read_trust(const struct dcpk_gen *gen, int64_t *trusted, dcpk_error *error) {
    const char *text = gen->environment.trust_uid;
    *trusted = -1;
    if (!text || number_read(text, UINT32_MAX, trusted)) return DCPK_OK;
    return dcpk_error_set(error, DCPK_E_ARG, "DCPK_CACHE_TRUST_UID=%s: a user's number", text);
}

/* The option, $DCPK_CACHE_DIR, $XDG_CACHE_HOME/dcpk, ~/.cache/dcpk; "" for memory only. Never /tmp. */
static dcpk_status set_cache(struct dcpk_gen *gen, const dcpk_gen_options *options, dcpk_error *error) {
    const struct environment *e = &gen->environment;
    struct buffer path = {0};
    uint64_t most = default_cache_max;
    int64_t trusted;
    if (e->cache_max && !size_read(e->cache_max, &most))
        return dcpk_error_set(
            error, DCPK_E_ARG,
            "DCPK_CACHE_MAX=%s: a number of bytes, at least 1, with K, M, G or T behind it or nothing "
            "(DCPK_CACHE_DIR chooses the folder)",
            e->cache_max);
    dcpk_status status = read_trust(gen, &trusted, error);
    if (status != DCPK_OK) return status;
    if (options->cache_dir || e->cache_dir)
        add_path(&path, options->cache_dir ? options->cache_dir : e->cache_dir);
    else if (e->xdg_cache_home && e->xdg_cache_home[0] == '/')
        buffer_format(&path, "%s/dcpk", e->xdg_cache_home);
    else if (e->home && e->home[0] == '/')
        buffer_format(&path, "%s/.cache/dcpk", e->home);
    if (path.failed || !cache_init(&gen->cache, gen->sys, &gen->notice, path.data, trusted)) status = no_memory(error);
    gen->cache.max = options->cache_max ? options->cache_max : most;
    buffer_free(&path);
    return status;
}

static dcpk_status set_packs(struct dcpk_gen *gen, const dcpk_gen_options *options, dcpk_error *error) {
    const char *list = options->aot_path ? options->aot_path : gen->environment.aot_path;
    return packs_open(&gen->packs, list, gen->cache.trusted, &gen->notice, error);
}

static dcpk_status set_templates(struct dcpk_gen *gen, const dcpk_gen_options *options, dcpk_error *error) {
    const char *path = options->template_path ? options->template_path : gen->environment.template_path;
    gen->template_path = path ? strdup(path) : templates_path(gen->sys);
    return gen->template_path ? expander_open(gen->template_path, &gen->expander, error) : no_memory(error);
}

static struct dcpk_gen *new_gen(const struct system *sys, struct notice notice) {
    struct dcpk_gen *gen = calloc(1, sizeof *gen);
    if (!gen) return NULL;
    gen->sys = sys;
    gen->notice = notice;
    gen->cache.root = -1;
    pthread_mutex_init(&gen->provider, NULL);
    return gen;
}

dcpk_status gen_open_with(const struct system *sys, const dcpk_gen_options *given, dcpk_gen **out, dcpk_error *error) {
    static dcpk_status (*const steps[])(struct dcpk_gen *, const dcpk_gen_options *, dcpk_error *) = {
        set_times, set_jit, set_toolchain, set_cache, set_packs, set_templates};
    dcpk_gen_options options;
    if (!out) return dcpk_error_set(error, DCPK_E_ARG, "out may not be NULL");
    *out = NULL;
    dcpk_status status = read_options(given, &options, error);
    if (status != DCPK_OK) return status;
    struct dcpk_gen *gen = new_gen(sys, (struct notice){options.log, options.log_self});
    if (!gen) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a generator");
    if (!environment_read(&gen->environment))
        status = dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the environment");
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == DCPK_OK; i++)
        status = steps[i](gen, &options, error);
    if (status == DCPK_OK)
        *out = gen;
    else
        dcpk_gen_close(gen);
    return status;
}

dcpk_status dcpk_gen_open(const dcpk_gen_options *options, dcpk_gen **out, dcpk_error *error) {
    return gen_open_with(&system_calls, options, out, error);
}

dcpk_status gen_open_beside(struct dcpk_gen *of, struct notice notice, dcpk_gen **out, dcpk_error *error) {
    *out = NULL;
    struct dcpk_gen *gen = new_gen(of->sys, notice);
    if (!gen) return no_memory(error);
    bool good = environment_copy(&gen->environment, &of->environment);
    good = good && (!of->program || (gen->program = strdup(of->program)) != NULL);
    good = good && cache_init(&gen->cache, gen->sys, &gen->notice, of->cache.path, of->cache.trusted);
    good = good && (gen->template_path = strdup(of->template_path)) != NULL;
    gen->cache.max = of->cache.max;
    gen->cache.warned = of->cache.warned;
    gen->compile_timeout_ms = of->compile_timeout_ms;
    gen->lock_timeout_ms = of->lock_timeout_ms;
    gen->jit = of->jit;
    gen->kind = of->kind;
    if (good && of->toolchain_open && gen->kind->copy)
        good = gen->toolchain_open = gen->kind->copy(&gen->toolchain, &of->toolchain);
    dcpk_status status = good ? expander_open(gen->template_path, &gen->expander, error) : no_memory(error);
    if (status == DCPK_OK)
        *out = gen;
    else
        dcpk_gen_close(gen);
    return status;
}

void dcpk_gen_close(dcpk_gen *gen) {
    if (!gen) return;
    if (gen->kind) gen->kind->close(&gen->toolchain);
    nvrtc_close(&gen->nvrtc);
    if (gen->expander) expander_close(gen->expander);
    packs_close(&gen->packs);
    memory_free(&gen->memory);
    cache_close(&gen->cache);
    environment_free(&gen->environment);
    pthread_mutex_destroy(&gen->provider);
    free(gen->program);
    free(gen->template_path);
    free(gen);
}
