/* layer_launch.c - the kernels of a layer run: specs, loading, launches of a step in each form.
 * May call: include/dcpk. Must not: look at results. */
#include <tools/layer_run_inside.h>

#include <tools/tool_error.h>

#include <string.h>

/* ---- specs --------------------------------------------------------------------------------------- */

static void spec_of(const struct layer_run *run, enum layer_phase phase, dcpk_spec *spec) {
    layer_phase_spec(&run->base, phase, spec);
}

static bool phase_runs(const struct layer_run *run, int32_t form, enum layer_phase phase) {
    return layer_phase_runs(&run->base, form, phase);
}

static bool phase_used(const struct layer_run *run, enum layer_phase phase) {
    for (int32_t form = 0; form < LAYER_FORMS; form++) {
        if (run->forms[form] && phase_runs(run, form, phase)) {
            return true;
        }
    }
    return false;
}

dcpk_status layer_specs_check(struct layer_run *run, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int phase = 0; phase < PHASE_COUNT && status == DCPK_OK; phase++) {
        dcpk_spec spec;
        spec_of(run, (enum layer_phase)phase, &spec);
        if (phase_used(run, (enum layer_phase)phase)) {
            status = dcpk_spec_resolve(&spec, error);
        }
    }
    return status;
}

dcpk_status layer_kernels_load(struct layer_run *run, dcpk_error *error) {
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        dcpk_spec spec;
        if (!phase_used(run, (enum layer_phase)phase)) {
            continue;
        }
        spec_of(run, (enum layer_phase)phase, &spec);
        dcpk_status status = dcpk_spec_resolve(&spec, error);
        for (int32_t r = 0; r < run->group.dcp && status == DCPK_OK; r++) {
            const struct group_rank *rank = &run->group.rank[r];
            status = kernel_set_load(run->set, &spec, rank->device, rank->stream, &run->rank[r].kernels[phase], error);
        }
        if (status != DCPK_OK) {
            return status;
        }
    }
    return DCPK_OK;
}

void layer_kernels_free(struct layer_run *run) {
    for (int32_t r = 0; r < run->group.dcp; r++) {
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            dcpk_kernel_free(run->rank[r].kernels[phase], NULL);
            run->rank[r].kernels[phase] = NULL;
        }
    }
}

/* ---- launches ------------------------------------------------------------------------------------ */

static void fill_args(const struct layer_run *run, int32_t s, int32_t r, dcpk_args *args) {
    const struct layer_case *l = run->layer;
    const struct layer_rank_run *rank = &run->rank[r];
    const struct device_step *step = &rank->steps[s];
    *args = (dcpk_args){.size = sizeof *args,
                        .qkv = step->qkv,
                        .q_a_norm = rank->q_a_norm,
                        .qc = step->qc.address,
                        .pitch = (uint32_t)l->steps[s].rank[r].pitch,
                        .eps = (float)l->eps,
                        .query = l->dcp == 1 ? step->seen.address : step->ready,
                        .rows = step->rows.address,
                        .rows_lse = step->lse.address,
                        .lens = step->lens,
                        .totals = step->totals,
                        .kv_b = rank->kv_b,
                        .gate = l->gate ? step->qkv + 2 * layer_gate_at(l) : 0,
                        .output = step->output.address,
                        .use_parity = rank->opened & 1,
                        .kv_a_norm = rank->kv_a_norm,
                        .w_q_b = rank->w_q_b,
                        .qf = step->qf,
                        .cos_sin = step->cos_sin,
                        .slots = step->slots,
                        .kv_cache = rank->cache.address,
                        .page_stride = rank->page_stride,
                        .q_scale_inv = (float)l->q_scale_inv,
                        .k_scale_inv = (float)l->k_scale_inv,
                        .block_table = step->block_table,
                        .max_pages = (uint32_t)l->steps[s].rank[r].max_pages,
                        .softmax_scale = (float)(l->softmax_scale / (l->q_scale_inv * l->k_scale_inv)),
                        .output_scale = (float)(1 / l->k_scale_inv),
                        .workspace = rank->workspace};
}

static void *stream_of(const struct layer_run *run, int32_t r) {
    return run->one_stream ? run->one_stream : run->group.rank[r].stream;
}

/* query_copy has a parameter of its own, so its box parameters are given here, too. */
static dcpk_status launch_copy(struct layer_run *run, int32_t s, int32_t r, uint32_t flags, dcpk_error *error) {
    const struct layer_rank_run *rank = &run->rank[r];
    dcpk_box_shape shape = {.size = sizeof shape,
                            .dcp = run->layer->dcp,
                            .heads = run->layer->heads,
                            .cap = run->base.cap,
                            .qh = run->base.qh};
    dcpk_box_layout layout = {.size = sizeof layout};
    dcpk_entry_info info = {.size = sizeof info};
    dcpk_status status = dcpk_box_layout_of(&shape, &layout, error);
    if (status == DCPK_OK) {
        status = dcpk_image_entry(dcpk_kernel_image(rank->kernels[PHASE_COPY]), 0, &info, error);
    }
    uint64_t base = status == DCPK_OK ? dcpk_box_base(run->group.rank[r].box) : 0;
    const struct {
        const char *name;
        uint64_t value;
    } known[] = {{"control", base + layout.control}, {"q_box", base + layout.q}, {"seen", rank->steps[s].seen.address}};
    uint64_t values[DCPK_IMAGE_MAX_PARAMS] = {0};
    void *params[DCPK_IMAGE_MAX_PARAMS] = {NULL};
    for (uint32_t i = 0; status == DCPK_OK && i < info.param_count; i++) {
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            values[i] = strcmp(known[k].name, info.params[i].name) == 0 ? known[k].value : values[i];
        }
        params[i] = &values[i];
    }
    return status == DCPK_OK
               ? dcpk_kernel_launch_raw(rank->kernels[PHASE_COPY], 0, params, stream_of(run, r), flags, error)
               : status;
}

static uint32_t entries_of(const struct layer_run *run, int32_t r, enum layer_phase phase) {
    return dcpk_image_entry_count(dcpk_kernel_image(run->rank[r].kernels[phase]));
}

static dcpk_status launch(struct layer_run *run, int32_t s, int32_t r, enum layer_phase phase, uint32_t entry,
                          uint32_t flags, dcpk_error *error) {
    dcpk_args args;
    struct layer_rank_run *rank = &run->rank[r];
    if (phase == PHASE_COPY) {
        return launch_copy(run, s, r, flags, error);
    }
    fill_args(run, s, r, &args);
    dcpk_box *box = phase == PHASE_NORM ? NULL : run->group.rank[r].box;
    dcpk_status status = dcpk_kernel_launch(rank->kernels[phase], entry, &args, box, stream_of(run, r), flags, error);
    if (status == DCPK_OK && phase == PHASE_VALUE && entry + 1 == entries_of(run, r, phase)) {
        rank->opened++;
    }
    return status;
}

dcpk_status layer_launch_rank(struct layer_run *run, int32_t s, int32_t r, const char *only, dcpk_error *error) {
    uint32_t flags = (run->options.chain ? DCPK_LAUNCH_CHAIN_WAITS : 0) | DCPK_LAUNCH_FIRST;
    int32_t form = layer_form_of(run, s);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        if (!phase_runs(run, form, (enum layer_phase)phase) || (only && strcmp(only, layer_phase_kernel[phase]) != 0)) {
            continue;
        }
        for (uint32_t entry = 0; entry < entries_of(run, r, (enum layer_phase)phase); entry++) {
            bool first = (flags & DCPK_LAUNCH_FIRST) != 0;
            dcpk_status status = run->options.before ? run->options.before(run->options.before_self, s, r, first,
                                                                           stream_of(run, r), error)
                                                     : DCPK_OK;
            if (status == DCPK_OK) {
                status = launch(run, s, r, (enum layer_phase)phase, entry, flags, error);
            }
            if (status != DCPK_OK) {
                return status;
            }
            flags &= ~(uint32_t)DCPK_LAUNCH_FIRST;
        }
    }
    return DCPK_OK;
}

/* One phase's row: the spec that this phase launches. */
static struct kernel_row *row_of(const struct layer_run *run, enum layer_phase phase) {
    char text[512];
    dcpk_spec spec;
    spec_of(run, phase, &spec);
    if (dcpk_spec_resolve(&spec, NULL) != DCPK_OK) {
        return NULL;
    }
    dcpk_spec_format(&spec, text, sizeof text);
    for (uint32_t i = 0; i < kernel_set_count(run->set); i++) {
        if (strcmp(kernel_set_at(run->set, i)->spec, text) == 0) {
            return kernel_set_at(run->set, i);
        }
    }
    return NULL;
}

/* The CPU device's counters so far; zeros on hardware. */
static void count(const struct layer_run *run, dcpkcpu_counters *counters) {
    int (*get)(dcpkcpu_counters *) = NULL;
    void *symbol = rank_group_cpu_symbol(&run->group, "dcpkcpu_get_counters");
    *counters = (dcpkcpu_counters){.size = sizeof *counters};
    memcpy(&get, &symbol, sizeof get);
    if (get) {
        get(counters);
    }
}

dcpk_status layer_launch_phased(struct layer_run *run, int32_t s, bool time, dcpk_error *error) {
    int32_t form = layer_form_of(run, s);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        if (!phase_runs(run, form, (enum layer_phase)phase)) {
            continue;
        }
        dcpkcpu_counters before, after;
        count(run, &before);
        double begin = tool_now();
        for (uint32_t entry = 0; entry < entries_of(run, 0, (enum layer_phase)phase); entry++) {
            dcpk_status status = DCPK_OK;
            for (int32_t r = 0; r < run->group.dcp && status == DCPK_OK; r++) {
                status = launch(run, s, r, (enum layer_phase)phase, entry, DCPK_LAUNCH_NO_PDL, error);
            }
            if (status == DCPK_OK) {
                status = rank_group_sync(&run->group, error);
            }
            if (status != DCPK_OK) {
                return status;
            }
        }
        struct kernel_row *row = time ? row_of(run, (enum layer_phase)phase) : NULL;
        if (row) {
            row->run_seconds = tool_now() - begin;
            count(run, &after);
            row->executed = after.thread_instructions - before.thread_instructions;
            row->executed_warps = after.warp_instructions - before.warp_instructions;
        }
    }
    return DCPK_OK;
}

dcpk_status layer_launch_in_one_stream(struct layer_run *run, int32_t s, dcpk_error *error) {
    int32_t form = layer_form_of(run, s);
    dcpk_status status = DCPK_OK;
    run->one_stream = run->group.rank[0].stream;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        if (!phase_runs(run, form, (enum layer_phase)phase)) {
            continue;
        }
        for (uint32_t entry = 0; entry < entries_of(run, 0, (enum layer_phase)phase); entry++) {
            for (int32_t r = 0; r < run->group.dcp && status == DCPK_OK; r++) {
                status = launch(run, s, r, (enum layer_phase)phase, entry, DCPK_LAUNCH_NO_PDL, error);
            }
        }
    }
    run->one_stream = NULL;
    return status;
}
