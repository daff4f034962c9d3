/* layer_run.c - see layer_run.h: opening, running, closing, and the boxes' armed state at the end.
 * May call: include/dcpk and the run's other files. Must not: know a kernel's arithmetic. */
#include <tools/layer_run_inside.h>

#include <tools/box_scan.h>
#include <tools/tool_error.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_AHEAD = 128 }; /* of launches before the host waits; the protocol asks for at most 256 */

void layer_run_options_init(struct layer_run_options *options, dcpk_gen *gen) {
    *options = (struct layer_run_options){.gen = gen};
}

int32_t layer_form_of(const struct layer_run *run, int32_t step) {
    return run->options.form == LAYER_CYCLE ? step % LAYER_FORMS : run->options.form;
}

void layer_blame(struct layer_run *run, uint64_t wrong, const char *format, ...) {
    run->wrong += wrong;
    if (wrong && run->first_wrong[0] == '\0') {
        va_list list;
        va_start(list, format);
        vsnprintf(run->first_wrong, sizeof run->first_wrong, format, list);
        va_end(list);
    }
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* The caller's keys; the shape is the case's. */
static void set_base(struct layer_run *run) {
    const struct layer_case *l = run->layer;
    static const int32_t ropes[] = {
        [ROPE_NONE] = DCPK_ROPE_NONE, [ROPE_INTERLEAVED] = DCPK_ROPE_INTERLEAVED, [ROPE_HALF] = DCPK_ROPE_HALF};
    dcpk_spec_init(&run->base, "layer");
    if (run->options.keys) {
        run->base = *run->options.keys;
    }
    run->base.heads = l->heads;
    run->base.dcp = l->dcp;
    run->base.batch = l->batch;
    run->base.q = l->q;
    run->base.page = l->page;
    run->base.interleave = l->interleave;
    run->base.q_lora = l->q_lora;
    run->base.gate = l->gate;
    run->base.rope = ropes[l->rope];
    if (l->dcp > 1) { /* a rank alone has no mailbox that they could shape */
        run->base.cap = l->cap ? l->cap : run->base.cap;
        run->base.qh = l->qh ? l->qh : run->base.qh;
    }
    run->base.tiled_from = l->tiled_from ? l->tiled_from : run->base.tiled_from;
    layer_phase_base(&run->base);
}

/* The forms that fit a share: specs are asked for again with its multiprocessors. */
static dcpk_status follow_share(struct layer_run *run, dcpk_error *error) {
    dcpk_device_info info = {.size = sizeof info};
    dcpk_status status = dcpk_device_get_info(run->group.rank[0].device, &info, error);
    if (status != DCPK_OK || run->base.sms != DCPK_UNSET || info.share_count == 1) {
        return status;
    }
    run->base.sms = info.sms;
    return layer_specs_check(run, error);
}

static dcpk_status open_group(struct layer_run *run, dcpk_error *error) {
    const struct layer_run_options *o = &run->options;
    bool allowed = run->base.publish == DCPK_PUBLISH_MULTICAST && !o->ask_environment;
    bool ordered = o->phased && run->base.split == 1;
    struct rank_group_options options = {.device = o->device,
                                         .library = o->library,
                                         .cpu = o->cpu,
                                         .dcp = run->layer->dcp,
                                         .multicast = allowed ? 1 : -1,
                                         .allow_unwatched = run->base.watchdog == 0,
                                         .pdl = o->phased ? 0 : -1,
                                         .shared = ordered,
                                         .shares = o->shares};
    dcpk_status status = rank_group_open(&options, &run->group, error);
    if (status == DCPK_OK && o->shares) {
        status = follow_share(run, error);
    }
    if (status != DCPK_OK || run->layer->dcp == 1) {
        return status;
    }
    dcpk_box_shape shape = {.size = sizeof shape,
                            .dcp = run->layer->dcp,
                            .heads = run->layer->heads,
                            .cap = run->base.cap,
                            .qh = run->base.qh,
                            .publish = run->base.publish == DCPK_UNSET ? DCPK_PUBLISH_PEER : run->base.publish,
                            .bound_ns = o->bound_ns,
                            .event_ordered = ordered};
    return rank_group_connect(&run->group, &shape, error);
}

static dcpk_status set_up(struct layer_run *run, dcpk_error *error) {
    const struct layer_run_options *o = &run->options;
    char why[LAYER_SENTENCE];
    if (!o->gen || o->form < 0 || o->form > LAYER_CYCLE || o->page_gap % 16 != 0 || run->layer->step_count < 1) {
        return tool_fail(error, DCPK_E_ARG, "a layer run needs gen, a form, a step, and page_gap a multiple of 16");
    }
    if (o->shares && o->phased) {
        return tool_fail(error, DCPK_E_ARG, "shares and the phased form are two ways to share a GPU: choose one");
    }
    if (!layer_case_check(run->layer, why)) {
        return tool_fail(error, DCPK_E_ARG, "%s", why);
    }
    for (int32_t s = 0; s < run->layer->step_count; s++) {
        run->forms[layer_form_of(run, s)] = true;
    }
    set_base(run);
    run->set = kernel_set_new(o->gen);
    return run->set ? layer_specs_check(run, error) : tool_fail(error, DCPK_E_NOMEM, "no memory for a layer run");
}

dcpk_status layer_run_open(const struct layer_run_options *options, const struct layer_case *layer,
                           struct layer_run **out, dcpk_error *error) {
    struct layer_run *run = calloc(1, sizeof *run);
    if (!run) {
        return tool_fail(error, DCPK_E_NOMEM, "no memory for a layer run");
    }
    run->options = *options;
    run->layer = layer;
    dcpk_status status = set_up(run, error);
    if (status == DCPK_OK) {
        status = open_group(run, error);
    }
    if (status == DCPK_OK) {
        status = layer_kernels_load(run, error);
    }
    if (status == DCPK_OK) {
        status = layer_memory_make(run, error);
    }
    if (status == DCPK_OK) {
        status = layer_memory_inject(run, error);
    }
    if (status != DCPK_OK) {
        layer_run_close(run);
        return status;
    }
    *out = run;
    return DCPK_OK;
}

void layer_run_detach(struct layer_run *run) {
    layer_kernels_free(run);
    layer_memory_release(run);
    rank_group_close(&run->group);
}

void layer_run_close(struct layer_run *run) {
    if (run) {
        layer_run_detach(run);
        layer_memory_free(run);
        kernel_set_free(run->set);
        free(run);
    }
}

/* ---- running ------------------------------------------------------------------------------------- */

/* Every mailbox word armed again, the counters where the uses leave them, nobody dead. */
static dcpk_status scan_rank(struct layer_run *run, int32_t r, dcpk_error *error) {
    const struct layer_case *l = run->layer;
    dcpk_box_shape shape = {
        .size = sizeof shape, .dcp = l->dcp, .heads = l->heads, .cap = run->base.cap, .qh = run->base.qh};
    struct box_scan scan;
    dcpk_status status = box_scan(run->group.rank[r].device, run->group.rank[r].box, &shape, &scan, error);
    if (status == DCPK_OK) {
        uint32_t opened = run->rank[r].opened;
        layer_blame(run, scan.next != opened || scan.current != opened - 1 || scan.abort != 0,
                    "rank %d: control block after %u uses: next %u, current %u, abort %u", r, opened, scan.next,
                    scan.current, scan.abort);
        layer_blame(run, scan.q + scan.partial + scan.lse + scan.ledger, "rank %d: %s", r, scan.first);
    }
    return status;
}

static dcpk_status scan_all(struct layer_run *run, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t r = 0; r < run->group.dcp && run->group.dcp > 1 && status == DCPK_OK; r++) {
        status = scan_rank(run, r, error);
    }
    return status;
}

static dcpk_status launch_step(struct layer_run *run, int32_t s, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    if (run->options.phased) {
        return layer_launch_phased(run, s, false, error);
    }
    for (int32_t r = 0; r < run->group.dcp && status == DCPK_OK; r++) {
        status = layer_launch_rank(run, s, r, NULL, error);
    }
    return status == DCPK_OK && s % STEPS_AHEAD == STEPS_AHEAD - 1 ? rank_group_sync(&run->group, error) : status;
}

dcpk_status layer_run_steps(struct layer_run *run, int32_t first, int32_t count, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t s = first; s < first + count && status == DCPK_OK; s++) {
        status = launch_step(run, s, error);
    }
    return status;
}

dcpk_status layer_run_read(struct layer_run *run, dcpk_error *error) {
    dcpk_status status = rank_group_sync(&run->group, error);
    if (status == DCPK_OK) {
        status = layer_memory_read(run, error);
    }
    return status == DCPK_OK ? scan_all(run, error) : status;
}

dcpk_status layer_run_all(struct layer_run *run, dcpk_error *error) {
    double begin = tool_now();
    dcpk_status status = layer_run_steps(run, 0, run->layer->step_count, error);
    if (status == DCPK_OK) {
        status = rank_group_sync(&run->group, error);
    }
    run->seconds = tool_now() - begin;
    return status == DCPK_OK ? layer_run_read(run, error) : status;
}

dcpk_status layer_run_launch(struct layer_run *run, int32_t step, int32_t rank, const char *kernel, dcpk_error *error) {
    return layer_launch_rank(run, step, rank, kernel, error);
}

dcpk_status layer_run_peek(struct layer_run *run, int32_t step, int32_t rank, dcpk_error *error) {
    return layer_memory_read_step(run, step, rank, error);
}

dcpk_status layer_run_restart(struct layer_run *run, dcpk_error *error) {
    for (int32_t r = 0; r < run->group.dcp; r++) {
        run->rank[r].opened = 0;
    }
    run->wrong = 0;
    run->first_wrong[0] = '\0';
    return layer_memory_clear(run, error);
}

dcpk_status layer_run_clear(struct layer_run *run, dcpk_error *error) {
    return layer_memory_clear(run, error);
}

dcpk_status layer_run_time(struct layer_run *run, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t form = 0; form < LAYER_FORMS && status == DCPK_OK; form++) {
        for (int32_t s = run->layer->step_count - 1; run->forms[form] && s >= 0; s--) {
            if (layer_form_of(run, s) == form) {
                status = layer_launch_phased(run, s, true, error);
                break;
            }
        }
    }
    return status;
}

/* ---- results ------------------------------------------------------------------------------------- */

const struct layer_outcome *layer_run_outcome(const struct layer_run *run, int32_t step, int32_t rank) {
    return &run->rank[rank].outcomes[step];
}

const uint8_t *layer_run_cache(const struct layer_run *run, int32_t rank) {
    return run->rank[rank].cache_after;
}

uint64_t layer_run_slot(const struct layer_run *run, int32_t rank, int64_t slot) {
    const struct layer_rank_run *on = &run->rank[rank];
    uint64_t page = (uint64_t)slot / (uint64_t)run->layer->page, inside = (uint64_t)slot % (uint64_t)run->layer->page;
    return on->cache.address + page * on->page_stride + inside * LAYER_TOKEN;
}

const uint8_t *layer_run_cache_before(const struct layer_run *run, int32_t rank) {
    return run->rank[rank].cache_before;
}

uint64_t layer_run_wrong(const struct layer_run *run, const char **first) {
    *first = run->first_wrong;
    return run->wrong;
}

struct kernel_set *layer_run_kernels(const struct layer_run *run) {
    return run->set;
}

const struct rank_group *layer_run_group(const struct layer_run *run) {
    return &run->group;
}

double layer_run_seconds(const struct layer_run *run) {
    return run->seconds;
}

bool layer_run_scores_fp8(const struct layer_run *run) {
    return run->scores_fp8;
}
