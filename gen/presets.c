/* presets.c - presets of models.lua put into specs. */
#include "gen/state.h"

#include "runtime/buffer.h"
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct model_preset *find(const struct model_preset *presets, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(presets[i].name, name) == 0) return &presets[i];
    return NULL;
}

static dcpk_status unknown(const struct model_preset *presets, uint32_t count, const char *name, dcpk_error *error) {
    dcpk_error_set(error, DCPK_E_NOT_FOUND, "there is no model '%.40s'; presets:", name);
    for (uint32_t i = 0; i < count; i++)
        dcpk_error_append(error, " %s", presets[i].name);
    return DCPK_E_NOT_FOUND;
}

/* Sets a key that the kernel takes and nobody has set, through the table's own checks. */
static dcpk_status fill(dcpk_spec *spec, const char *key, int32_t present, const char *value, dcpk_error *error) {
    char assignment[64];
    if (present != DCPK_UNSET || !dcpk_spec_takes(spec->kernel, key)) return DCPK_OK;
    snprintf(assignment, sizeof assignment, "%s=%s", key, value);
    return dcpk_spec_set(spec, assignment, error);
}

static dcpk_status apply(const struct model_preset *preset, int32_t tp, dcpk_spec *spec, dcpk_error *error) {
    static const char *const ropes[] = {"none", "interleaved", "half"};
    char number[16];
    if (tp < 1 || preset->heads % tp != 0)
        return dcpk_error_set(error, DCPK_E_SPEC, "model %s has %d heads: tp=%d does not divide them", preset->name,
                              preset->heads, tp);
    if (preset->rope < 0 || preset->rope > 2)
        return dcpk_error_set(error, DCPK_E_TEMPLATE, "models.lua: %s has no sane rope", preset->name);
    snprintf(number, sizeof number, "%d", preset->heads / tp);
    dcpk_status status = fill(spec, "heads", spec->heads, number, error);
    if (status == DCPK_OK) status = fill(spec, "gate", spec->gate, preset->gate ? "1" : "0", error);
    if (status == DCPK_OK) status = fill(spec, "rope", spec->rope, ropes[preset->rope], error);
    snprintf(number, sizeof number, "%d", preset->q_lora);
    if (status == DCPK_OK) status = fill(spec, "q_lora", spec->q_lora, number, error);
    return status;
}

dcpk_status dcpk_gen_model(dcpk_gen *gen, const char *model, int32_t tp, dcpk_spec *spec, dcpk_error *error) {
    struct model_preset *presets = NULL;
    uint32_t count = 0;
    if (!gen || !model || !spec || spec->size < sizeof *spec)
        return dcpk_error_set(error, DCPK_E_ARG, "gen, model and spec may not be NULL, spec->size not below %zu",
                              sizeof *spec);
    dcpk_status status = expander_models(gen->expander, &presets, &count, error);
    if (status == DCPK_OK) {
        const struct model_preset *preset = find(presets, count, model);
        status = preset ? apply(preset, tp, spec, error) : unknown(presets, count, model, error);
    }
    free(presets);
    return status;
}

dcpk_status dcpk_gen_model_info(dcpk_gen *gen, const char *model, dcpk_model_info *info, dcpk_error *error) {
    struct model_preset *presets = NULL;
    uint32_t count = 0;
    if (!gen || !model || !info || info->size < sizeof *info)
        return dcpk_error_set(error, DCPK_E_ARG, "gen, model and info may not be NULL, info->size not below %zu",
                              sizeof *info);
    dcpk_status status = expander_models(gen->expander, &presets, &count, error);
    if (status == DCPK_OK) {
        const struct model_preset *p = find(presets, count, model);
        if (p)
            *info = (dcpk_model_info){.size = info->size,
                                      .heads = p->heads,
                                      .gate = p->gate,
                                      .rope = p->rope,
                                      .q_lora = p->q_lora,
                                      .eps = p->eps,
                                      .softmax_scale = p->softmax_scale,
                                      .rope_theta = p->rope_theta};
        else
            status = unknown(presets, count, model, error);
    }
    free(presets);
    return status;
}

dcpk_status dcpk_gen_models(dcpk_gen *gen, dcpk_text *out, dcpk_error *error) {
    struct model_preset *presets = NULL;
    uint32_t count = 0;
    struct buffer text = {0};
    if (!gen || !out) return dcpk_error_set(error, DCPK_E_ARG, "gen and out may not be NULL");
    *out = (dcpk_text){0};
    dcpk_status status = expander_models(gen->expander, &presets, &count, error);
    if (status != DCPK_OK) return status;
    static const char *const ropes[] = {"none", "interleaved", "half"};
    buffer_bytes(&text, "", 0);
    for (uint32_t i = 0; i < count; i++)
        buffer_format(&text, "%s heads=%d gate=%d rope=%s q_lora=%d eps=%g softmax_scale=%.6g %s\n", presets[i].name,
                      presets[i].heads, presets[i].gate,
                      presets[i].rope >= 0 && presets[i].rope <= 2 ? ropes[presets[i].rope] : "?", presets[i].q_lora,
                      presets[i].eps, presets[i].softmax_scale, presets[i].source);
    free(presets);
    *out = (dcpk_text){text.data, text.length};
    if (!text.failed) return DCPK_OK;
    dcpk_text_free(out);
    return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the list of models");
}
