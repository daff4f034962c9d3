/* layer_phases.c - see layer_phases.h. May call: include/dcpk, kernel_set_spec. Must not: load or launch. */
#include <tools/layer_phases.h>

#include <tools/kernel_set.h>

const char *const layer_phase_kernel[PHASE_COUNT] = {"query_norm", "mla_query",  "mla_query",  "query_push",
                                                     "query_wait", "query_copy", "mla_decode", "dcp_value"};

enum { LEAST_CAP = 64 };

void layer_phase_base(dcpk_spec *base) {
    if (base->dcp <= 1) {
        base->poll = base->poll == 0 ? DCPK_UNSET : base->poll;
        return;
    }
    if (base->cap == DCPK_UNSET) base->cap = base->batch > LEAST_CAP ? base->batch : LEAST_CAP;
    if (base->qh == DCPK_UNSET) base->qh = base->dcp * base->heads;
}

void layer_phase_spec(const dcpk_spec *base, enum layer_phase phase, dcpk_spec *spec) {
    kernel_set_spec(base, layer_phase_kernel[phase], spec);
    if (phase == PHASE_FUSED) {
        spec->store_qc = base->q_lora != 0; /* unset: the norm is the kernel's, too */
    }
    if (phase == PHASE_QUERY) {
        spec->poll = 0;
        spec->store_qc = 0;
    }
}

/* Whether mla_query of LAYER_FUSED leaves the waiting to query_wait. */
static bool fused_waits(const dcpk_spec *base) {
    dcpk_spec spec;
    layer_phase_spec(base, PHASE_FUSED, &spec);
    return dcpk_spec_resolve(&spec, NULL) == DCPK_OK && spec.poll == 0;
}

bool layer_phase_runs(const dcpk_spec *base, int32_t form, enum layer_phase phase) {
    bool boxed = base->dcp > 1;
    switch (phase) {
    case PHASE_NORM:
        return form == LAYER_WAIT && base->q_lora != 0;
    case PHASE_FUSED:
        return form == LAYER_FUSED;
    case PHASE_QUERY:
        return form == LAYER_WAIT;
    case PHASE_PUSH:
        return form == LAYER_PUSHED && boxed;
    case PHASE_WAIT:
        return boxed && (form != LAYER_FUSED || fused_waits(base));
    case PHASE_COPY:
        return boxed;
    default:
        return true;
    }
}

dcpk_status layer_phase_specs(const dcpk_spec *base, int32_t form, dcpk_spec specs[PHASE_COUNT], uint32_t *count,
                              dcpk_error *error) {
    dcpk_spec whole = *base;
    dcpk_status status = DCPK_OK;
    *count = 0;
    layer_phase_base(&whole);
    for (int phase = 0; phase < PHASE_COUNT && status == DCPK_OK; phase++) {
        bool used = false;
        for (int32_t one = 0; one < LAYER_CYCLE; one++)
            used = used ||
                   ((form == one || form == LAYER_CYCLE) && layer_phase_runs(&whole, one, (enum layer_phase)phase));
        if (!used) continue;
        layer_phase_spec(&whole, (enum layer_phase)phase, &specs[*count]);
        status = dcpk_spec_resolve(&specs[(*count)++], error);
    }
    return status;
}
