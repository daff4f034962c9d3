/* scenario.c - opens, runs and closes a scenario: devices, boxes, buffers; the order of launches and waits.
 * May call: include/dcpk and the scenario's other files. Must not: know a kernel's arithmetic. */
#include <tools/scenario_inside.h>

#include <dlfcn.h>
#include <stdarg.h>
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

dcpk_status scenario_fail(dcpk_error *error, dcpk_status code, const char *format, ...) {
    if (error) {
        va_list list;
        error->code = code;
        va_start(list, format);
        vsnprintf(error->text, sizeof error->text, format, list);
        va_end(list);
    }
    return code;
}

double scenario_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
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

struct scenario_kernel *scenario_row(struct scenario *s, const char *kernel, int32_t batch) {
    for (uint32_t i = 0; i < s->row_count; i++) {
        if (s->rows[i].batch == batch && strcmp(s->rows[i].kernel, kernel) == 0) {
            return &s->rows[i];
        }
    }
    return NULL;
}

/* ---- devices ------------------------------------------------------------------------------------- */

static dcpk_status open_device(const struct scenario *s, int32_t ordinal, dcpk_device **out, dcpk_error *error) {
    bool allowed = s->options.publish == DCPK_PUBLISH_MULTICAST && !s->options.ask_environment;
    dcpk_device_options options = {.size = sizeof options,
                                   .kind = s->options.device,
                                   .library = s->options.library,
                                   .ordinal = ordinal,
                                   .pdl = s->options.phased ? 0 : -1,
                                   .multicast = allowed ? 1 : -1,
                                   .allow_unwatched = s->options.watchdog == 0};
    return dcpk_device_open(&options, out, error);
}

/* The CPU device gets as many devices as there are ranks before any is in use. Its library stays loaded from here on.
 */
static dcpk_status configure_cpu(struct scenario *s, dcpk_error *error) {
    dcpk_device *device = NULL;
    dcpk_device_info info = {.size = sizeof info};
    dcpkcpu_options options = {.size = sizeof options,
                               .sms = 132,
                               .major = 9,
                               .multicast = 1,
                               .schedule = DCPKCPU_FAIR,
                               .store_delay = 200,
                               .livelock_rounds = 200000};
    int (*configure)(const dcpkcpu_options *) = NULL;
    Dl_info where;
    dcpk_status status = open_device(s, 0, &device, error);
    if (status != DCPK_OK) {
        return status;
    }
    status = dcpk_device_get_info(device, &info, error);
    s->cpu = status == DCPK_OK && strcmp(info.kind, "cpu") == 0;
    if (s->cpu) {
        void *symbol = dcpk_device_symbol(device, "dcpkcpu_configure");
        memcpy(&configure, &symbol, sizeof configure);
        if (!symbol || !dladdr(symbol, &where) || !dlopen(where.dli_fname, RTLD_NOW)) {
            status = scenario_fail(error, DCPK_E_DRIVER, "the CPU device has no dcpkcpu_configure");
        }
    }
    dcpk_device_close(device);
    if (status != DCPK_OK || !s->cpu) {
        return status;
    }
    if (s->options.cpu) {
        options = *s->options.cpu;
    }
    options.devices = options.devices > s->dcp ? options.devices : s->dcp;
    if (configure(&options) != 0) {
        return scenario_fail(error, DCPK_E_ARG, "the CPU device refuses its configuration (%d devices)",
                             options.devices);
    }
    return DCPK_OK;
}

static dcpk_status count_devices(const struct scenario *s, dcpk_error *error) {
    dcpk_device_info info = {.size = sizeof info};
    dcpk_status status = dcpk_device_get_info(s->ranks[0].device, &info, error);
    if (status == DCPK_OK && info.count < s->dcp) {
        status = scenario_fail(error, DCPK_E_ARG,
                               "dcp=%d is %d ranks with a device each, and %s offers %d%s: name more devices "
                               "(%s:0,1,...), or choose a dcp of at most %d",
                               s->dcp, s->dcp, info.kind, info.count, s->options.device ? " as asked for" : "",
                               info.kind, info.count);
    }
    return status;
}

static dcpk_status open_devices(struct scenario *s, dcpk_error *error) {
    dcpk_status status = configure_cpu(s, error);
    for (int32_t r = 0; r < s->dcp && status == DCPK_OK; r++) {
        status = open_device(s, r, &s->ranks[r].device, error);
        if (status == DCPK_OK) {
            status = dcpk_stream_create(s->ranks[r].device, &s->ranks[r].stream, error);
        }
        if (status == DCPK_OK && r == 0) {
            status = count_devices(s, error);
        }
    }
    return status;
}

static dcpk_status open_boxes(struct scenario *s, dcpk_error *error) {
    dcpk_box *boxes[MAX_RANKS];
    dcpk_box_shape shape = {.size = sizeof shape,
                            .dcp = s->dcp,
                            .heads = s->heads,
                            .cap = s->base.cap,
                            .qh = s->base.qh,
                            .publish = s->base.publish == DCPK_UNSET ? DCPK_PUBLISH_PEER : s->base.publish,
                            .bound_ns = s->options.bound_ns,
                            .event_ordered = s->options.phased && s->base.split == 1};
    for (int32_t r = 0; r < s->dcp; r++) {
        dcpk_status status = dcpk_box_create(s->ranks[r].device, &shape, r, &s->ranks[r].box, error);
        if (status != DCPK_OK) {
            return status;
        }
        boxes[r] = s->ranks[r].box;
    }
    return dcpk_box_connect(boxes, s->dcp, error);
}

/* ---- life ---------------------------------------------------------------------------------------- */

static dcpk_status add_batch(struct scenario *s, int32_t batch, dcpk_error *error) {
    for (int32_t b = 0; b < s->batch_count; b++) {
        if (s->batches[b] == batch) {
            return DCPK_OK;
        }
    }
    if (batch < 1 || batch > 512 || s->batch_count == MAX_BATCHES) {
        return scenario_fail(error, DCPK_E_ARG, "a scenario has at most %d batches of 1..512 rows", MAX_BATCHES);
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
        return scenario_fail(error, DCPK_E_ARG, "a scenario needs gen, heads, dcp 1..%d and a batch for each use",
                             MAX_RANKS);
    }
    s->dcp = o->dcp;
    s->heads = o->heads;
    s->q = o->q > 0 ? o->q : 1;
    s->eps = 1e-5f;
    s->pitch = (uint32_t)(ROW_START_GATE + s->heads * 128 + ROW_PADDING);
    s->options.pieces = o->pieces || o->phased || o->dcp == 1;
    s->use = calloc((size_t)o->uses, sizeof *s->use);
    s->rows = calloc(MAX_IMAGES, sizeof *s->rows);
    if (!s->use || !s->rows) {
        return scenario_fail(error, DCPK_E_NOMEM, "no memory for a scenario");
    }
    s->uses = o->uses;
    for (int32_t u = 0; u < s->uses; u++) {
        s->use[u].batch = o->batches[u];
        dcpk_status status = add_batch(s, o->batches[u], error);
        if (status != DCPK_OK || o->batches[u] % s->q != 0) {
            return status ? status : scenario_fail(error, DCPK_E_ARG, "q must divide every batch");
        }
    }
    set_base(s);
    dcpk_status status = scenario_specs_check(s, error);
    if (status != DCPK_OK) {
        return status;
    }
    return scenario_inputs_make(s) ? DCPK_OK : scenario_fail(error, DCPK_E_NOMEM, "no memory for a scenario's inputs");
}

dcpk_status scenario_open(const struct scenario_options *options, struct scenario **out, dcpk_error *error) {
    struct scenario *s = calloc(1, sizeof *s);
    if (!s) {
        return scenario_fail(error, DCPK_E_NOMEM, "no memory for a scenario");
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
        struct rank *rank = &s->ranks[r];
        scenario_buffers_free(rank);
        dcpk_box_destroy(rank->box, NULL);
    }
    for (int32_t r = 0; r < s->dcp; r++) {
        if (s->ranks[r].stream) {
            dcpk_stream_destroy(s->ranks[r].device, s->ranks[r].stream, NULL);
        }
        if (s->ranks[r].device) {
            dcpk_device_close(s->ranks[r].device);
        }
    }
    scenario_inputs_free(s);
    free(s->use);
    free(s->rows);
    free(s);
}

/* ---- running ------------------------------------------------------------------------------------- */

dcpk_status scenario_sync(struct scenario *s, int32_t rank, dcpk_error *error) {
    return dcpk_stream_sync(s->ranks[rank].device, s->ranks[rank].stream, error);
}

static dcpk_status sync_all(struct scenario *s, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t r = 0; r < s->dcp && status == DCPK_OK; r++) {
        status = scenario_sync(s, r, error);
    }
    return status;
}

/* Every mailbox word armed again, the counters where the uses so far leave them, nobody dead. */
static dcpk_status scan_all(struct scenario *s, int32_t use, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t r = 0; r < s->dcp && s->dcp > 1 && status == DCPK_OK; r++) {
        struct scenario_scan scan;
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

dcpk_status scenario_run(struct scenario *s, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    double begin = scenario_now();
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
    s->run_seconds = scenario_now() - begin;
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
    return s->row_count;
}

const struct scenario_kernel *scenario_kernel_at(const struct scenario *s, uint32_t index) {
    return index < s->row_count ? &s->rows[index] : NULL;
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
    return s->cpu ? dcpk_device_symbol(s->ranks[0].device, name) : NULL;
}
