/* gen.c - the calls on a dcpk_gen that are one step each: its toolchain, an expansion, the cache's walks.
 * Opening is open.c's, building build.c's. */
#include "gen/state.h"

#include "runtime/buffer.h"
#include "runtime/error.h"

#include <stdlib.h>

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
