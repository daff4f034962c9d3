/* gen.c - owns dcpk_gen: opening from options and environment, and the calls that are one step each.
 * Building is build.c's. Opening touches no cache and finds no compiler. */
#include "gen/state.h"

#include "gen/templates_path.h"
#include "runtime/buffer.h"
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMPILE_TIMEOUT_MS = 120000, LOCK_TIMEOUT_MS = 60000 };

/* The options that the caller's version of the struct has; the rest is zero. */
static dcpk_status read_options(const dcpk_gen_options *from, dcpk_gen_options *to, dcpk_error *error) {
    *to = (dcpk_gen_options){0};
    if (!from) return DCPK_OK;
    if (from->size < sizeof from->size)
        return dcpk_error_set(error, DCPK_E_ARG, "options->size is %u: set it to sizeof(dcpk_gen_options)", from->size);
    memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
    return DCPK_OK;
}

/* A whole number up to max from the environment, `missing` when it is not there; false for anything else. */
static bool read_number(const char *text, int64_t max, int64_t missing, int64_t *value) {
    *value = missing;
    if (!text) return true;
    if (strlen(text) > 10 || strspn(text, "0123456789") != strlen(text)) return false;
    *value = strtoll(text, NULL, 10);
    return *value <= max;
}

static dcpk_status set_times(struct dcpk_gen *gen, const dcpk_gen_options *options, dcpk_error *error) {
    int64_t seconds = 0;
    if (!read_number(gen->environment.lock_timeout, 86400, LOCK_TIMEOUT_MS / 1000, &seconds))
        return dcpk_error_set(error, DCPK_E_ARG, "DCPK_LOCK_TIMEOUT=%s: a whole number of seconds, 0 to 86400",
                              gen->environment.lock_timeout);
    gen->lock_timeout_ms = options->lock_timeout_ms ? options->lock_timeout_ms : (uint32_t)seconds * 1000;
    gen->compile_timeout_ms = options->compile_timeout_ms ? options->compile_timeout_ms : COMPILE_TIMEOUT_MS;
    return DCPK_OK;
}

static dcpk_status set_toolchain(struct dcpk_gen *gen, const dcpk_gen_options *options, dcpk_error *error) {
    const char *name = options->toolchain           ? options->toolchain
                       : gen->environment.toolchain ? gen->environment.toolchain
                                                    : "ptxas";
    gen->kind = toolchain_kind_of(name);
    if (!gen->kind && strcmp(name, "auto") != 0)
        return dcpk_error_set(error, DCPK_E_ARG,
                              "there is no toolchain '%s' in dcpk " DCPK_VERSION_TEXT
                              ": ptxas, nvjitlink, driver, or auto for the first of these that is there",
                              name);
    if (options->ptxas && *options->ptxas && !(gen->program = strdup(options->ptxas)))
        return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a path");
    return DCPK_OK;
}

/* A relative folder is meant from where the generator was opened, wherever the program goes later. */
static void add_path(struct buffer *path, const char *folder) {
    char *here = *folder && *folder != '/' ? getcwd(NULL, 0) : NULL;
    if (here) buffer_format(path, "%s/", here);
    buffer_format(path, "%s", folder);
    free(here);
}

/* The option, $DCPK_CACHE_DIR, $XDG_CACHE_HOME/dcpk, ~/.cache/dcpk; "" for memory only. Never /tmp. */
static dcpk_status set_cache(struct dcpk_gen *gen, const dcpk_gen_options *options, dcpk_error *error) {
    const struct environment *e = &gen->environment;
    struct buffer path = {0};
    if (options->cache_dir || e->cache_dir)
        add_path(&path, options->cache_dir ? options->cache_dir : e->cache_dir);
    else if (e->xdg_cache_home && e->xdg_cache_home[0] == '/')
        buffer_format(&path, "%s/dcpk", e->xdg_cache_home);
    else if (e->home && e->home[0] == '/')
        buffer_format(&path, "%s/.cache/dcpk", e->home);
    int64_t trusted = -1;
    dcpk_status status = DCPK_OK;
    if (!read_number(e->trust_uid, UINT32_MAX, -1, &trusted))
        status = dcpk_error_set(error, DCPK_E_ARG, "DCPK_CACHE_TRUST_UID=%s: a user's number", e->trust_uid);
    else if (path.failed || !cache_init(&gen->cache, gen->sys, &gen->notice, path.data, trusted))
        status = dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a path");
    buffer_free(&path);
    return status;
}

static dcpk_status set_templates(struct dcpk_gen *gen, const dcpk_gen_options *options, dcpk_error *error) {
    const char *path = options->template_path ? options->template_path : gen->environment.template_path;
    char *found = path ? strdup(path) : templates_path(gen->sys);
    if (!found) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a path");
    dcpk_status status = expander_open(found, &gen->expander, error);
    free(found);
    return status;
}

dcpk_status gen_open_with(const struct system *sys, const dcpk_gen_options *given, dcpk_gen **out, dcpk_error *error) {
    dcpk_gen_options options;
    if (!out) return dcpk_error_set(error, DCPK_E_ARG, "out may not be NULL");
    *out = NULL;
    dcpk_status status = read_options(given, &options, error);
    if (status != DCPK_OK) return status;
    struct dcpk_gen *gen = calloc(1, sizeof *gen);
    if (!gen) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a generator");
    gen->sys = sys;
    gen->notice = (struct notice){options.log, options.log_self};
    gen->cache.root = -1;
    pthread_mutex_init(&gen->provider, NULL);
    if (!environment_read(&gen->environment))
        status = dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the environment");
    if (status == DCPK_OK) status = set_times(gen, &options, error);
    if (status == DCPK_OK) status = set_toolchain(gen, &options, error);
    if (status == DCPK_OK) status = set_cache(gen, &options, error);
    if (status == DCPK_OK) status = set_templates(gen, &options, error);
    if (status == DCPK_OK)
        *out = gen;
    else
        dcpk_gen_close(gen);
    return status;
}

dcpk_status dcpk_gen_open(const dcpk_gen_options *options, dcpk_gen **out, dcpk_error *error) {
    return gen_open_with(&system_calls, options, out, error);
}

void dcpk_gen_close(dcpk_gen *gen) {
    if (!gen) return;
    if (gen->kind) gen->kind->close(&gen->toolchain);
    nvrtc_close(&gen->nvrtc);
    if (gen->expander) expander_close(gen->expander);
    memory_free(&gen->memory);
    cache_close(&gen->cache);
    environment_free(&gen->environment);
    pthread_mutex_destroy(&gen->provider);
    free(gen->program);
    free(gen);
}

void dcpk_text_free(dcpk_text *text) {
    if (!text) return;
    free(text->data);
    *text = (dcpk_text){0};
}

/* Opens one kind; closed again when that fails. */
static dcpk_status open_kind(struct dcpk_gen *gen, const struct toolchain_kind *kind, dcpk_error *reason) {
    uint32_t started = gen->toolchain.started;
    struct toolchain_place place = {.sys = gen->sys,
                                    .notice = &gen->notice,
                                    .environment = &gen->environment,
                                    .cache = &gen->cache,
                                    .program = gen->program,
                                    .timeout_ms = gen->compile_timeout_ms};
    dcpk_error_init(reason);
    dcpk_status status = kind->open(&gen->toolchain, &place, reason);
    started += gen->toolchain.started - started;
    if (status != DCPK_OK && gen->toolchain.useless) gen->toolchain_trouble = *reason;
    if (status != DCPK_OK) kind->close(&gen->toolchain);
    gen->toolchain.started = started;
    gen->toolchain_open = status == DCPK_OK;
    return status;
}

/* auto: the first that opens; else what is wrong with each. */
static dcpk_status open_first(struct dcpk_gen *gen, dcpk_error *error) {
    const struct toolchain_kind *kind;
    struct buffer why = {0};
    dcpk_error reason;
    for (unsigned i = 0; (kind = toolchain_kind_at(i)) != NULL; i++) {
        if (open_kind(gen, kind, &reason) == DCPK_OK) {
            gen->kind = kind;
            buffer_free(&why);
            return DCPK_OK;
        }
        gen->toolchain_trouble.code = DCPK_OK; /* it is one of several */
        buffer_format(&why, "\n%s: %s", kind->name, reason.text);
    }
    dcpk_error_set(error, DCPK_E_TOOLCHAIN, "nothing here assembles PTX:%s", why.data ? why.data : "");
    buffer_free(&why);
    return DCPK_E_TOOLCHAIN;
}

dcpk_status gen_toolchain(struct dcpk_gen *gen, dcpk_error *error) {
    dcpk_error reason;
    if (gen->toolchain_open) return DCPK_OK;
    if (gen->toolchain_trouble.code != DCPK_OK)
        return dcpk_error_set(error, gen->toolchain_trouble.code, "%s", gen->toolchain_trouble.text);
    if (!gen->kind) return open_first(gen, error);
    dcpk_status status = open_kind(gen, gen->kind, &reason);
    if (status == DCPK_OK) return DCPK_OK;
    dcpk_error_set(error, reason.code, "%s", reason.text);
    if (error && error->size >= sizeof *error) {
        error->sys_errno = reason.sys_errno;
        error->driver_result = reason.driver_result;
    }
    return status;
}

dcpk_status dcpk_gen_toolchain(dcpk_gen *gen, const char **text, dcpk_error *error) {
    if (!gen || !text) return dcpk_error_set(error, DCPK_E_ARG, "gen and text may not be NULL");
    dcpk_status status = gen_toolchain(gen, error);
    *text = status == DCPK_OK ? gen->toolchain.text : "";
    return status;
}

dcpk_status dcpk_gen_expand(dcpk_gen *gen, const dcpk_spec *spec, dcpk_text *ptx, dcpk_error *error) {
    if (!gen || !spec || !ptx || spec->size < sizeof *spec)
        return dcpk_error_set(error, DCPK_E_ARG, "gen, spec and ptx may not be NULL, spec->size not below %zu",
                              sizeof *spec);
    *ptx = (dcpk_text){0};
    dcpk_spec resolved = *spec;
    struct expansion expansion;
    dcpk_status status = dcpk_spec_resolve(&resolved, error);
    if (status == DCPK_OK) status = gen_expand(gen, &resolved, &expansion, error);
    if (status != DCPK_OK) return status;
    *ptx = (dcpk_text){expansion.ptx, expansion.ptx_length};
    expansion.ptx = NULL; /* the caller's now */
    expansion_free(&expansion);
    return DCPK_OK;
}

static dcpk_status provide(void *self, const dcpk_spec *spec, dcpk_image **out, dcpk_error *error) {
    struct dcpk_gen *gen = self;
    pthread_mutex_lock(&gen->provider);
    dcpk_status status = dcpk_gen_build(gen, spec, out, NULL, error);
    pthread_mutex_unlock(&gen->provider);
    return status;
}

dcpk_status dcpk_gen_provider(dcpk_gen *gen, dcpk_provider *out, dcpk_error *error) {
    if (!gen || !out) return dcpk_error_set(error, DCPK_E_ARG, "gen and out may not be NULL");
    *out = (dcpk_provider){.size = sizeof *out, .self = gen, .get = provide};
    return DCPK_OK;
}

dcpk_status dcpk_cache_path(dcpk_gen *gen, const char **path, dcpk_error *error) {
    if (!gen || !path) return dcpk_error_set(error, DCPK_E_ARG, "gen and path may not be NULL");
    bool usable = gen->cache.path && (cache_ready(&gen->cache, false) || gen->cache.status == DCPK_OK);
    *path = usable ? gen->cache.path : "";
    return DCPK_OK;
}

dcpk_status dcpk_cache_visit(dcpk_gen *gen, int32_t verify, int32_t (*visit)(void *self, const dcpk_cache_entry *entry),
                             void *self, dcpk_error *error) {
    if (!gen || !visit) return dcpk_error_set(error, DCPK_E_ARG, "gen and visit may not be NULL");
    return cache_visit(&gen->cache, verify != 0, visit, self, error);
}

dcpk_status dcpk_cache_get(dcpk_gen *gen, const char *key, dcpk_image **out, dcpk_error *error) {
    if (!gen || !key || !out) return dcpk_error_set(error, DCPK_E_ARG, "gen, key and out may not be NULL");
    *out = NULL;
    return cache_get(&gen->cache, key, out, error);
}

dcpk_status dcpk_cache_clear(dcpk_gen *gen, uint64_t *removed, dcpk_error *error) {
    uint64_t count = 0;
    if (!gen) return dcpk_error_set(error, DCPK_E_ARG, "gen may not be NULL");
    dcpk_status status = cache_clear(&gen->cache, &count, error);
    if (removed) *removed = count;
    return status;
}
