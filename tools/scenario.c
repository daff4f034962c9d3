/* scenario.c - opens, runs and closes a scenario: devices, boxes, buffers; the order of launches and waits.
 * May call: include/dcpk and the scenario's other files. Must not: know a kernel's arithmetic. */
#include <tools/scenario_inside.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { USES_AHEAD = 128 }; /* of launches before the host waits; the protocol asks for at most 256 */

void scenario_options_init(struct scenario_options *options, dcpk_gen *gen, int32_t heads, int32_t dcp) {
    *options = (struct scenario_options){.gen = gen, .heads = heads, .dcp = dcp};
    options->q = options->cap = options->qh = options->sms = options->reserve = options->publish = DCPK_UNSET;
    options->split = options->gate = options->tiled_from = options->parity = options->checked = options->watchdog =
        options->lineinfo = DCPK_UNSET;
    options->seed = 1;
}

void scenario_blame(struct scenario *s, uint64_t wrong, int32_t use, int32_t rank, const char *text) {
    s->wrong += wrong;
    if (wrong && s->first_wrong[0] == '\0') {
        char when[32] = "";
        if (use >= 0) {
            snprintf(when, sizeof when, "use %d ", use);
        }
        snprintf(s->first_wrong, sizeof s->first_wrong, "%srank %d: %s", when, rank, text);
    }
}

struct kernel_row *scenario_row(struct scenario *s, const char *kernel, int32_t batch) {
    return kernel_set_find(s->set, kernel, batch);
}

static dcpk_status open_devices(struct scenario *s, dcpk_error *error) {
    bool allowed = s->options.publish == DCPK_PUBLISH_MULTICAST && !s->options.ask_environment;
    struct rank_group_options options = {.device = s->options.device,
                                         .library = s->options.library,
                                         .cpu = s->options.cpu,
                                         .dcp = s->dcp,
                                         .multicast = allowed ? 1 : -1,
                                         .allow_unwatched = s->options.watchdog == 0,
                                         .pdl = s->options.phased ? 0 : -1};
    dcpk_status status = rank_group_open(&options, &s->group, error);
    for (int32_t r = 0; r < s->dcp; r++) {
        s->ranks[r].device = s->group.rank[r].device;
        s->ranks[r].stream = s->group.rank[r].stream;
    }
    return status;
}

static dcpk_status open_boxes(struct scenario *s, dcpk_error *error) {
    dcpk_box_shape shape = {.size = sizeof shape,
                            .dcp = s->dcp,
                            .heads = s->heads,
                            .cap = s->base.cap,
                            .qh = s->base.qh,
                            .publish = s->base.publish == DCPK_UNSET ? DCPK_PUBLISH_PEER : s->base.publish,
                            .bound_ns = s->options.bound_ns,
                            .event_ordered = s->options.phased && s->base.split == 1};
    dcpk_status status = rank_group_connect(&s->group, &shape, error);
    for (int32_t r = 0; r < s->dcp; r++) {
        s->ranks[r].box = s->group.rank[r].box;
    }
    return status;
}

/* ---- life ---------------------------------------------------------------------------------------- */

static dcpk_status add_batch(struct scenario *s, int32_t batch, dcpk_error *error) {
    for (int32_t b = 0; b < s->batch_count; b++) {
        if (s->batches[b] == batch) {
            return DCPK_OK;
        }
    }
    if (batch < 1 || batch > 512 || s->batch_count == MAX_BATCHES) {
        return tool_fail(error, DCPK_E_ARG, "a scenario has at most %d batches of 1..512 rows", MAX_BATCHES);
    }
    s->batches[s->batch_count++] = batch;
    s->greatest_batch = batch > s->greatest_batch ? batch : s->greatest_batch;
    return DCPK_OK;
}

static void set_base(struct scenario *s) {
    const struct scenario_options *o = &s->options;
    dcpk_spec_init(&s->base, "scenario");
    if (o->arch) {
        snprintf(s->base.arch, sizeof s->base.arch, "%s", o->arch);
    }
    s->base.heads = s->heads;
    s->base.dcp = s->dcp;
    s->base.q = s->q;
    s->base.cap = o->cap;
    s->base.qh = o->qh;
    if (s->dcp > 1 && o->cap == DCPK_UNSET) s->base.cap = s->greatest_batch > 64 ? s->greatest_batch : 64;
    if (s->dcp > 1 && o->qh == DCPK_UNSET) s->base.qh = s->dcp * s->heads;
    s->base.sms = o->sms;
    s->base.reserve = o->reserve;
    s->base.publish = o->publish;
    s->base.split = o->split;
    s->base.gate = o->gate != DCPK_UNSET ? o->gate : 1;
    s->base.tiled_from = o->tiled_from != DCPK_UNSET ? o->tiled_from : 16;
    s->base.parity = o->parity;
    s->base.checked = o->checked;
    s->base.watchdog = o->watchdog;
    s->base.lineinfo = o->lineinfo;
}

static dcpk_status set_up(struct scenario *s, dcpk_error *error) {
    const struct scenario_options *o = &s->options;
    if (!o->gen || !o->batches || o->uses < 1 || o->dcp < 1 || o->dcp > MAX_RANKS || o->heads < 1) {
        return tool_fail(error, DCPK_E_ARG, "a scenario needs gen, heads, dcp 1..%d and a batch for each use",
                         MAX_RANKS);
    }
    s->dcp = o->dcp;
    s->heads = o->heads;
    s->q = o->q > 0 ? o->q : 1;
    s->eps = 1e-5f;
    s->pitch = (uint32_t)(ROW_START_GATE + s->heads * 128 + ROW_PADDING);
    s->options.pieces = o->pieces || o->phased || o->dcp == 1;
    s->use = calloc((size_t)o->uses, sizeof *s->use);
    s->set = kernel_set_new(o->gen);
    if (!s->use || !s->set) {
        return tool_fail(error, DCPK_E_NOMEM, "no memory for a scenario");
    }
    s->uses = o->uses;
    for (int32_t u = 0; u < s->uses; u++) {
        s->use[u].batch = o->batches[u];
        dcpk_status status = add_batch(s, o->batches[u], error);
        if (status != DCPK_OK || o->batches[u] % s->q != 0) {
            return status ? status : tool_fail(error, DCPK_E_ARG, "q must divide every batch");
        }
    }
    set_base(s);
    dcpk_status status = scenario_specs_check(s, error);
    if (status != DCPK_OK) {
        return status;
    }
    return scenario_inputs_make(s) ? DCPK_OK : tool_fail(error, DCPK_E_NOMEM, "no memory for a scenario's inputs");
}

dcpk_status scenario_open(const struct scenario_options *options, struct scenario **out, dcpk_error *error) {
    struct scenario *s = calloc(1, sizeof *s);
    if (!s) {
        return tool_fail(error, DCPK_E_NOMEM, "no memory for a scenario");
    }
    s->options = *options;
    for (int32_t r = 0; r < MAX_RANKS; r++) {
        s->ranks[r].index = r;
    }
    dcpk_status status = set_up(s, error);
    if (status == DCPK_OK) {
        status = open_devices(s, error);
    }
    if (status == DCPK_OK && s->dcp > 1) {
        status = open_boxes(s, error);
    }
    if (status == DCPK_OK) {
        status = scenario_plans_open(s, error);
    }
    if (status == DCPK_OK) {
        status = scenario_buffers_make(s, error);
    }
    if (status == DCPK_OK) {
        status = scenario_inject(s, error);
    }
    if (status != DCPK_OK) {
        scenario_close(s);
        return status;
    }
    *out = s;
    return DCPK_OK;
}

void scenario_close(struct scenario *s) {
    if (!s) {
        return;
    }
    scenario_plans_close(s);
    for (int32_t r = 0; r < s->dcp; r++) {
        scenario_buffers_free(&s->ranks[r]);
    }
    rank_group_close(&s->group);
    scenario_inputs_free(s);
    free(s->use);
    kernel_set_free(s->set);
    free(s);
}

/* ---- running ------------------------------------------------------------------------------------- */

dcpk_status scenario_sync(struct scenario *s, int32_t rank, dcpk_error *error) {
    return dcpk_stream_sync(s->ranks[rank].device, s->ranks[rank].stream, error);
}

static dcpk_status sync_all(const struct scenario *s, dcpk_error *error) {
    return rank_group_sync(&s->group, error);
}

/* Every mailbox word armed again, the counters where the uses so far leave them, nobody dead. */
static dcpk_status scan_all(struct scenario *s, int32_t use, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t r = 0; r < s->dcp && s->dcp > 1 && status == DCPK_OK; r++) {
        struct box_scan scan;
        uint32_t opened = s->ranks[r].opened;
        status = scenario_scan(s, r, &scan, error);
        if (status == DCPK_OK && (scan.next != opened || scan.current != opened - 1 || scan.abort != 0)) {
            char text[128];
            snprintf(text, sizeof text, "control block after %u uses: next %u, current %u, abort %u", opened, scan.next,
                     scan.current, scan.abort);
            scenario_blame(s, 1, use, r, text);
        }
    }
    return status;
}

/* Of this process: the machine may have others to serve. */
static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

dcpk_status scenario_run(struct scenario *s, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    double begin = processor_seconds();
    for (int32_t u = 0; u < s->uses && status == DCPK_OK; u++) {
        status = scenario_launch(s, u, error);
        if (status == DCPK_OK && (s->options.sync_each || u % USES_AHEAD == USES_AHEAD - 1)) {
            status = sync_all(s, error);
            if (status == DCPK_OK && s->options.sync_each) {
                status = scan_all(s, u, error);
            }
        }
    }
    if (status == DCPK_OK) {
        status = sync_all(s, error);
    }
    s->run_seconds = processor_seconds() - begin;
    for (int32_t u = 0; u < s->uses && status == DCPK_OK; u++) {
        for (int32_t r = 0; r < s->dcp && status == DCPK_OK; r++) {
            status = scenario_check(s, u, r, NULL, error);
        }
    }
    return status == DCPK_OK ? scan_all(s, s->uses - 1, error) : status;
}

dcpk_status scenario_rearm(struct scenario *s, const int32_t *joined, dcpk_error *error) {
    dcpk_box *boxes[MAX_RANKS];
    for (int32_t r = 0; r < s->dcp; r++) {
        boxes[r] = s->ranks[r].box;
    }
    dcpk_status status = dcpk_box_rearm_all(boxes, s->dcp, joined, error);
    for (int32_t r = 0; r < s->dcp && status == DCPK_OK; r++) {
        s->ranks[r].opened = 0;
    }
    return status;
}

uint64_t scenario_wrong(const struct scenario *s) {
    return s->wrong;
}

const char *scenario_first_wrong(const struct scenario *s) {
    return s->first_wrong;
}

double scenario_run_seconds(const struct scenario *s) {
    return s->run_seconds;
}

uint32_t scenario_kernel_count(const struct scenario *s) {
    return kernel_set_count(s->set);
}

const struct kernel_row *scenario_kernel_at(const struct scenario *s, uint32_t index) {
    return kernel_set_at(s->set, index);
}

dcpk_device *scenario_device(struct scenario *s, int32_t rank) {
    return s->ranks[rank].device;
}

dcpk_box *scenario_box(struct scenario *s, int32_t rank) {
    return s->ranks[rank].box;
}

const uint16_t *scenario_output(const struct scenario *s, int32_t use, int32_t rank) {
    return s->use[use].ranks[rank].output;
}

void *scenario_cpu_symbol(struct scenario *s, const char *name) {
    return rank_group_cpu_symbol(&s->group, name);
}
