/* layer_specs.c - the plan of a layer (layer_plan.h) from the keys that its kernels share. Pure: no state, no driver.
 */
#include "runtime/layer_plan.h"

#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/keys.h"

#include <string.h>

/* The keys of base that this kernel takes. */
static dcpk_status spec_of(const char *kernel, const dcpk_spec *base, dcpk_spec *spec, dcpk_error *error) {
    dcpk_spec_init(spec, kernel);
    memcpy(spec->arch, base->arch, sizeof spec->arch);
    for (size_t i = 0; i < dcpk_key_row_count; i++)
        if (dcpk_key_taken(kernel, &dcpk_key_rows[i]))
            dcpk_key_put(spec, &dcpk_key_rows[i], dcpk_key_get(base, &dcpk_key_rows[i]));
    return dcpk_spec_resolve(spec, error);
}

static dcpk_status place(struct layer_plan *plan, enum layer_place where, const char *kernel, const dcpk_spec *base,
                         dcpk_error *error) {
    plan->used[where] = true;
    return spec_of(kernel, base, &plan->specs[where], error);
}

dcpk_status layer_plan_check(const dcpk_layer_options *options, const char *what, dcpk_error *error) {
    if (options->base == NULL) return dcpk_error_set(error, DCPK_E_ARG, "%s: base is missing", what);
    if (options->form == DCPK_LAYER_PUSH || options->form == DCPK_LAYER_FUSED) return DCPK_OK;
    return dcpk_error_set(error, DCPK_E_ARG, "%s: form=%d is neither %d (push: query_push) nor %d (fused: mla_query)",
                          what, options->form, DCPK_LAYER_PUSH, DCPK_LAYER_FUSED);
}

/* Who hands the query rows over, and who waits for them where the first does not. */
static dcpk_status plan_front(const dcpk_layer_options *options, struct layer_plan *plan, dcpk_error *error) {
    const dcpk_spec *base = options->base;
    bool boxed = base->dcp != DCPK_UNSET && base->dcp > 1, fused = options->form == DCPK_LAYER_FUSED;
    dcpk_status status = DCPK_OK;
    if (fused || boxed) status = place(plan, LAYER_FRONT, fused ? "mla_query" : "query_push", base, error);
    if (status != DCPK_OK || !boxed) return status;
    bool polls = fused && plan->specs[LAYER_FRONT].poll == 1;
    return polls ? DCPK_OK : place(plan, LAYER_WAIT, "query_wait", base, error);
}

dcpk_status layer_plan_make(const dcpk_layer_options *options, struct layer_plan *plan, dcpk_error *error) {
    memset(plan, 0, sizeof *plan);
    dcpk_status status = plan_front(options, plan, error);
    if (status == DCPK_OK && options->decode == NULL)
        status = place(plan, LAYER_DECODE, "mla_decode", options->base, error);
    return status == DCPK_OK ? place(plan, LAYER_VALUE, "dcp_value", options->base, error) : status;
}

/* The array's stride is the caller's version of the struct; what this library does not know of it is 0. */
static void put_spec(dcpk_spec *specs, uint32_t index, const dcpk_spec *spec, uint32_t size) {
    char *to = (char *)specs + (size_t)index * size;
    memset(to, 0, size);
    memcpy(to, spec, sizeof *spec);
    memcpy(to + offsetof(dcpk_spec, size), &size, sizeof size);
}

dcpk_status dcpk_layer_specs(const dcpk_layer_options *given, dcpk_spec *specs, uint32_t capacity, uint32_t *count,
                             dcpk_error *error) {
    dcpk_layer_options options;
    struct layer_plan plan;
    if (specs == NULL || count == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_layer_specs: specs or count is NULL");
    *count = 0;
    dcpk_status status = dcpk_options_copy(&options, sizeof options, given, "dcpk_layer_options", error);
    if (status == DCPK_OK) status = layer_plan_check(&options, "dcpk_layer_specs", error);
    if (status == DCPK_OK) status = layer_plan_make(&options, &plan, error);
    if (status != DCPK_OK) return status;
    uint32_t used = 0;
    for (int i = 0; i < LAYER_PLACES; i++)
        used += plan.used[i];
    if (used > capacity)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_layer_specs: the layer has %u kernels, capacity is %u", used,
                              capacity);
    for (int i = 0; i < LAYER_PLACES; i++)
        if (plan.used[i]) put_spec(specs, (*count)++, &plan.specs[i], options.base->size);
    return DCPK_OK;
}
