/* scenario_build.c - the kernels of a scenario: their specs, images (each built once, with its report), loaded forms,
 * and the launches of one use, as a layer step or phase by phase. May call: include/dcpk. Must not: look at results. */
#include <tools/scenario_inside.h>

#include <string.h>

static const char *const phase_kernel[PHASE_MERGE] = {"query_norm", "query_push", "query_wait", "copy_rows",
                                                      "dcp_value"};

/* The keys that all kernels of the plan share. */
static void base_of(const struct plan *plan, dcpk_spec *base) {
    const struct scenario *s = plan->scenario;
    *base = s->base;
    base->batch = plan->batch;
    if (s->options.sms_step) {
        base->sms -= plan->rank->index * s->options.sms_step;
    }
}

static void spec_of(const struct plan *plan, const char *kernel, dcpk_spec *spec) {
    dcpk_spec base;
    base_of(plan, &base);
    kernel_set_spec(&base, kernel, spec);
}

/* ---- loading ------------------------------------------------------------------------------------- */

static bool exists(const struct scenario *s, int phase) {
    return s->dcp > 1 || (phase != PHASE_PUSH && phase != PHASE_WAIT);
}

dcpk_status scenario_specs_check(struct scenario *s, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t b = 0; b < s->batch_count; b++) {
        struct plan plan = {.scenario = s, .rank = &s->ranks[0], .batch = s->batches[b]};
        for (int phase = 0; phase < PHASE_MERGE && status == DCPK_OK; phase++) {
            dcpk_spec spec;
            spec_of(&plan, phase_kernel[phase], &spec);
            status = exists(s, phase) ? dcpk_spec_resolve(&spec, error) : DCPK_OK;
        }
    }
    return status;
}

static dcpk_status load(struct scenario *s, struct plan *plan, int phase, dcpk_error *error) {
    dcpk_spec spec;
    if (plan->kernels[phase] || !exists(s, phase)) {
        return DCPK_OK;
    }
    spec_of(plan, phase_kernel[phase], &spec);
    dcpk_status status = dcpk_spec_resolve(&spec, error);
    return status == DCPK_OK
               ? kernel_set_load(s->set, &spec, plan->rank->device, plan->rank->stream, &plan->kernels[phase], error)
               : status;
}

dcpk_status scenario_pieces_load(struct scenario *s, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t b = 0; b < s->batch_count; b++) {
        for (int phase = 0; phase < PHASE_MERGE; phase++) {
            for (int32_t r = 0; r < s->dcp && status == DCPK_OK; r++) {
                status = load(s, &s->ranks[r].plans[b], phase, error);
            }
        }
    }
    return status;
}

static uint64_t parameter(const struct plan *plan, const char *name, const dcpk_box_layout *layout) {
    const struct rank *rank = plan->rank;
    const struct rank_use *now = plan->now;
    uint64_t base = rank->box ? dcpk_box_base(rank->box) : 0;
    const struct {
        const char *name;
        uint64_t value;
    } known[] = {{"source", now->d_rows},
                 {"source_lse", now->d_lse},
                 {"seen", now->seen.address},
                 {"rows", rank->box ? base + layout->rows : rank->d_rows},
                 {"rows_lse", rank->box ? base + layout->rows_lse : rank->d_lse},
                 {"control", base + layout->control},
                 {"q_box", base + layout->q}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) == 0) {
            return known[i].value;
        }
    }
    return 0;
}

static void box_shape(const struct scenario *s, dcpk_box_shape *shape) {
    *shape =
        (dcpk_box_shape){.size = sizeof *shape, .dcp = s->dcp, .heads = s->heads, .cap = s->base.cap, .qh = s->base.qh};
}

/* In the decode's place. */
static dcpk_status decode(void *self, const dcpk_args *args, dcpk_box *box, void *stream, uint32_t flags,
                          dcpk_error *error) {
    struct plan *plan = self;
    dcpk_box_shape shape;
    dcpk_box_layout layout = {.size = sizeof layout};
    dcpk_entry_info info = {.size = sizeof info};
    uint64_t values[DCPK_IMAGE_MAX_PARAMS];
    void *params[DCPK_IMAGE_MAX_PARAMS];
    (void)args;
    box_shape(plan->scenario, &shape);
    dcpk_status status = box ? dcpk_box_layout_of(&shape, &layout, error) : DCPK_OK;
    if (status == DCPK_OK) {
        status = dcpk_image_entry(dcpk_kernel_image(plan->kernels[PHASE_DECODE]), 0, &info, error);
    }
    for (uint32_t i = 0; status == DCPK_OK && i < info.param_count; i++) {
        values[i] = parameter(plan, info.params[i].name, &layout);
        params[i] = &values[i];
        if (values[i] == 0) {
            status = tool_fail(error, DCPK_E_ARG, "copy_rows: no value for parameter %s", info.params[i].name);
        }
    }
    return status == DCPK_OK ? dcpk_kernel_launch_raw(plan->kernels[PHASE_DECODE], 0, params, stream, flags, error)
                             : status;
}

static dcpk_status open_layer(struct scenario *s, struct plan *plan, dcpk_error *error) {
    dcpk_spec base;
    base_of(plan, &base);
    dcpk_layer_options options = {
        .size = sizeof options, .provider = &s->provider, .base = &base, .decode = decode, .decode_self = plan};
    dcpk_status status = load(s, plan, PHASE_NORM, error);
    if (status == DCPK_OK) {
        status = load(s, plan, PHASE_DECODE, error);
    }
    if (status == DCPK_OK) {
        status = dcpk_layer_open(plan->rank->device, plan->rank->box, &options, &plan->layer, error);
    }
    return status;
}

dcpk_status scenario_plans_open(struct scenario *s, dcpk_error *error) {
    s->provider = (dcpk_provider){.size = sizeof s->provider, .self = s->set, .get = kernel_set_get};
    for (int32_t r = 0; r < s->dcp; r++) {
        for (int32_t b = 0; b < s->batch_count; b++) {
            struct plan *plan = &s->ranks[r].plans[b];
            plan->scenario = s;
            plan->rank = &s->ranks[r];
            plan->batch = s->batches[b];
        }
    }
    if (s->options.pieces) {
        return scenario_pieces_load(s, error);
    }
    for (int32_t b = 0; b < s->batch_count; b++) {
        for (int32_t r = 0; r < s->dcp; r++) {
            dcpk_status status = open_layer(s, &s->ranks[r].plans[b], error);
            if (status != DCPK_OK) {
                return status;
            }
        }
    }
    return DCPK_OK;
}

void scenario_plans_close(struct scenario *s) {
    for (int32_t r = 0; r < s->dcp; r++) {
        for (int32_t b = 0; b < s->batch_count; b++) {
            struct plan *plan = &s->ranks[r].plans[b];
            if (plan->layer) {
                dcpk_layer_close(plan->layer, NULL);
            }
            for (int phase = 0; phase < PHASE_MERGE; phase++) {
                if (plan->kernels[phase]) {
                    dcpk_kernel_free(plan->kernels[phase], NULL);
                }
            }
        }
    }
}

struct plan *scenario_plan(struct rank *rank, int32_t batch) {
    for (int32_t b = 0; b < MAX_BATCHES; b++) {
        if (rank->plans[b].batch == batch) {
            return &rank->plans[b];
        }
    }
    return NULL;
}

/* ---- launching ----------------------------------------------------------------------------------- */

static void fill_args(const struct scenario *s, const struct rank *rank, const struct rank_use *now, dcpk_args *args) {
    *args = (dcpk_args){.size = sizeof *args,
                        .qkv = now->d_qkv,
                        .q_a_norm = rank->d_q_a_norm,
                        .qc = now->qc.address,
                        .pitch = s->pitch,
                        .eps = s->eps,
                        .query = now->d_query,
                        .rows = rank->d_rows,
                        .rows_lse = rank->d_lse,
                        .lens = now->d_lens,
                        .totals = now->d_totals,
                        .kv_b = rank->d_kv_b,
                        .gate = s->base.gate == 0 ? 0 : now->d_qkv + 2 * ROW_START_GATE,
                        .output = now->result.address};
}

static dcpk_status prepare(struct scenario *s, int32_t use, int32_t r, int32_t batch, struct plan **plan,
                           dcpk_args *args, dcpk_error *error) {
    struct rank *rank = &s->ranks[r];
    int32_t wanted = batch > 0 ? batch : s->use[use].batch;
    *plan = scenario_plan(rank, wanted);
    if (!*plan || wanted > s->use[use].batch) {
        return tool_fail(error, DCPK_E_ARG, "batch %d is none of the scenario's, or greater than that of use %d",
                         wanted, use);
    }
    (*plan)->now = &s->use[use].ranks[r];
    fill_args(s, rank, (*plan)->now, args);
    args->use_parity = (rank->opened & 1) ^ (uint32_t)(s->options.parity_skew != 0);
    return DCPK_OK;
}

dcpk_status scenario_launch_phase(struct scenario *s, int32_t use, int32_t r, int32_t batch, enum scenario_phase phase,
                                  uint32_t flags, dcpk_error *error) {
    struct plan *plan;
    dcpk_args args;
    struct rank *rank = &s->ranks[r];
    dcpk_status status = prepare(s, use, r, batch, &plan, &args, error);
    int kernel = phase == PHASE_MERGE ? PHASE_VALUE : (int)phase;
    if (status != DCPK_OK || !exists(s, kernel)) {
        return status;
    }
    if (!plan->kernels[kernel]) {
        return tool_fail(error, DCPK_E_ARG, "%s is not loaded by itself: ask for pieces", phase_kernel[kernel]);
    }
    if (phase == PHASE_DECODE) {
        return decode(plan, &args, rank->box, rank->stream, flags, error);
    }
    bool two = dcpk_image_entry_count(dcpk_kernel_image(plan->kernels[kernel])) == 2;
    if (phase == PHASE_MERGE && !two) {
        return DCPK_OK;
    }
    dcpk_box *box = phase == PHASE_NORM ? NULL : rank->box;
    status = dcpk_kernel_launch(plan->kernels[kernel], phase == PHASE_MERGE, &args, box, rank->stream, flags, error);
    if (status == DCPK_OK && (phase == PHASE_MERGE || (phase == PHASE_VALUE && !two))) {
        rank->opened++;
    }
    return status;
}

static dcpk_status launch_step(struct scenario *s, int32_t use, int32_t r, int32_t batch, uint32_t flags,
                               dcpk_error *error) {
    struct plan *plan;
    dcpk_args args;
    struct rank *rank = &s->ranks[r];
    dcpk_status status = prepare(s, use, r, batch, &plan, &args, error);
    if (status == DCPK_OK) {
        status = dcpk_kernel_launch(plan->kernels[PHASE_NORM], 0, &args, NULL, rank->stream, flags | DCPK_LAUNCH_FIRST,
                                    error);
    }
    if (status == DCPK_OK) {
        status = dcpk_layer_step(plan->layer, &args, rank->stream, flags, error);
    }
    rank->opened += status == DCPK_OK;
    return status;
}

dcpk_status scenario_launch_rank(struct scenario *s, int32_t use, int32_t r, int32_t batch, dcpk_error *error) {
    uint32_t flags = s->options.chain ? DCPK_LAUNCH_CHAIN_WAITS : 0;
    if (!s->options.pieces) {
        return launch_step(s, use, r, batch, flags, error);
    }
    dcpk_status status = DCPK_OK;
    for (int phase = 0; phase < PHASE_COUNT && status == DCPK_OK; phase++) {
        uint32_t first = phase == PHASE_NORM || phase == PHASE_PUSH ? DCPK_LAUNCH_FIRST : 0;
        status = scenario_launch_phase(s, use, r, batch, (enum scenario_phase)phase, flags | first, error);
    }
    return status;
}

static dcpk_status launch_phased(struct scenario *s, int32_t use, dcpk_error *error) {
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        double begin = tool_now();
        for (int32_t r = 0; r < s->dcp; r++) {
            dcpk_status status =
                scenario_launch_phase(s, use, r, 0, (enum scenario_phase)phase, DCPK_LAUNCH_NO_PDL, error);
            if (status != DCPK_OK) {
                return status;
            }
        }
        for (int32_t r = 0; r < s->dcp; r++) {
            dcpk_status status = scenario_sync(s, r, error);
            if (status != DCPK_OK) {
                return status;
            }
        }
        int kernel = phase == PHASE_MERGE ? PHASE_VALUE : phase;
        struct kernel_row *row = scenario_row(s, phase_kernel[kernel], s->use[use].batch);
        if (row) {
            row->run_seconds = (phase == PHASE_MERGE ? row->run_seconds : 0) + tool_now() - begin;
        }
    }
    return DCPK_OK;
}

dcpk_status scenario_launch(struct scenario *s, int32_t use, dcpk_error *error) {
    if (s->options.phased) {
        return launch_phased(s, use, error);
    }
    for (int32_t r = 0; r < s->dcp; r++) {
        dcpk_status status = scenario_launch_rank(s, use, r, 0, error);
        if (status != DCPK_OK) {
            return status;
        }
    }
    return DCPK_OK;
}

dcpk_status scenario_time(struct scenario *s, dcpk_error *error) {
    dcpk_status status = scenario_pieces_load(s, error);
    for (int32_t b = 0; b < s->batch_count && status == DCPK_OK; b++) {
        for (int32_t u = s->uses - 1; u >= 0; u--) {
            if (s->use[u].batch == s->batches[b]) {
                status = launch_phased(s, u, error);
                break;
            }
        }
    }
    return status;
}
