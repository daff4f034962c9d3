/* layer_phases.h - which kernels the steps of a layer run launch, in each form: their specs from the keys of a layer.
 * A run loads them, dcpk aot --form check puts them into a pack. Pure: no device, no generator. */
#ifndef TOOLS_LAYER_PHASES_H
#define TOOLS_LAYER_PHASES_H

#include <dcpk/spec.h>
#include <tools/layer_form.h>

#include <stdbool.h>

/* In the order of their launches. */
enum layer_phase {
    PHASE_NORM,
    PHASE_FUSED, /* mla_query of LAYER_FUSED */
    PHASE_QUERY, /* mla_query of LAYER_WAIT */
    PHASE_PUSH,
    PHASE_WAIT,
    PHASE_COPY, /* query_copy of templates/checks: the rows as the mailbox has them */
    PHASE_DECODE,
    PHASE_VALUE,
    PHASE_COUNT
};
extern const char *const layer_phase_kernel[PHASE_COUNT];

/* base, here and below: the keys of a layer, those of its shape (heads, dcp, batch, q) among them. Completes what the
 * kernels must agree on: cap and qh of the mailboxes; a rank alone has nothing to poll. */
void layer_phase_base(dcpk_spec *base);
/* Not resolved. */
void layer_phase_spec(const dcpk_spec *base, enum layer_phase phase, dcpk_spec *spec);
/* form: enum layer_form, not LAYER_CYCLE. */
bool layer_phase_runs(const dcpk_spec *base, int32_t form, enum layer_phase phase);
/* What runs of this layer need in a form (LAYER_CYCLE: in every one): resolved, base completed. A status with the rule
 * that refuses one of them. */
dcpk_status layer_phase_specs(const dcpk_spec *base, int32_t form, dcpk_spec specs[PHASE_COUNT], uint32_t *count,
                              dcpk_error *error);

#endif
