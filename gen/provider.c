/* provider.c - a generator as a runtime's provider of images. Any thread may call it: one call runs at a time. */
#include "gen/state.h"

#include "runtime/error.h"

static dcpk_status get(void *self, const dcpk_spec *spec, dcpk_image **out, dcpk_error *error) {
    struct dcpk_gen *gen = self;
    pthread_mutex_lock(&gen->provider);
    dcpk_status status = dcpk_gen_build(gen, spec, out, NULL, error);
    pthread_mutex_unlock(&gen->provider);
    return status;
}

static dcpk_status prepare(void *self, const dcpk_spec *specs, uint32_t count, dcpk_error *error) {
    struct dcpk_gen *gen = self;
    pthread_mutex_lock(&gen->provider);
    dcpk_status status = dcpk_gen_warm(gen, specs, count, 0, NULL, NULL, error);
    pthread_mutex_unlock(&gen->provider);
    return status;
}

dcpk_status dcpk_gen_provider(dcpk_gen *gen, dcpk_provider *out, dcpk_error *error) {
    if (!gen || !out) return dcpk_error_set(error, DCPK_E_ARG, "gen and out may not be NULL");
    *out = (dcpk_provider){.size = sizeof *out, .self = gen, .get = get, .prepare = prepare};
    return DCPK_OK;
}
