/* sweep_point.c - one point, in a child: a layer made, built, run on every rank, timed or counted, judged.
 *
 * Writes its row after each stage, so that what a crash or a time limit leaves still says how far it came. May call:
 * the layer's tools, include/dcpk. Must not: touch the folder of results. */
#include <tools/layer_judge.h>
#include <tools/json_text.h>
#include <tools/layer_make.h>
#include <tools/layer_run.h>
#include <tools/sweep.h>
#include <tools/tool_error.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KERNELS = 192 }; /* of a kernel_set */

struct work {
    const struct sweep_request *request;
    const struct sweep_point *point;
    FILE *out;
    json_t *row;
    json_t *kernels[MAX_KERNELS]; /* borrowed from row, by the run's kernel rows; NULL: a check's kernel */
    dcpk_gen *gen;
    dcpk_spec keys;
    struct layer_case *layer;
    struct layer_run *run;
    double sigma;
};

json_t *sweep_point_row(const struct sweep_request *request, const struct sweep_point *point) {
    char text[POINT_TEXT];
    sweep_point_text(point, text);
    const char *context = strstr(text, "context=") + strlen("context=");
    const char *ranks = sweep_point_ordered(request, point)                ? "event-ordered"
                        : request->ranks == RANKS_SHARES && point->dcp > 1 ? "shares"
                                                                           : "a device each";
    return must(json_pack("{s:o s:o s:i s:i s:i s:i s:o s:s s:i s:s}", "point", json_text(text), "model",
                          json_text(point->model), "tp", point->tp, "dcp", point->dcp, "batch", point->batch, "q",
                          point->q, "context", point->context > 0 ? json_integer(point->context) : json_string(context),
                          "form", sweep_form_names[request->form], "steps", request->steps, "ranks", ranks));
}

/* JSON has no infinity. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static void put(struct work *w) {
    char *text = must(json_dumps(w->row, JSON_COMPACT | JSON_REAL_PRECISION(15)));
    fprintf(w->out, "%s\n", text);
    fflush(w->out);
    free(text);
}

static void stage(struct work *w, const char *name) {
    json_object_set_new(w->row, "stage", json_string(name));
    put(w);
}

static void end(struct work *w, const char *state, const char *message) {
    json_object_set_new(w->row, "state", json_string(state));
    json_object_set_new(w->row, "message", json_text(message));
}

static void fail(struct work *w, const dcpk_error *error) {
    char text[sizeof error->text + 64];
    bool rule = error->code == DCPK_E_SPEC || error->code == DCPK_E_ARCH || error->code == DCPK_E_RESIDENCY;
    snprintf(text, sizeof text, "%s: %s", dcpk_status_name(error->code), error->text);
    end(w, rule ? "refused" : "failed", rule ? error->text : text); /* a template has rules of its own */
}

/* ---- stages -------------------------------------------------------------------------------------- */

static int32_t or_else(int32_t value, int32_t unset) {
    return value == DCPK_UNSET ? unset : value;
}

static dcpk_status make(struct work *w, dcpk_error *error) {
    static const enum reference_rope ropes[] = {
        [DCPK_ROPE_NONE] = ROPE_NONE, [DCPK_ROPE_INTERLEAVED] = ROPE_INTERLEAVED, [DCPK_ROPE_HALF] = ROPE_HALF};
    int32_t contexts[512];
    char why[LAYER_SENTENCE];
    const dcpk_spec *keys = &w->keys;
    struct layer_make make;
    dcpk_model_info info = {.size = sizeof info};
    layer_make_init(&make);
    dcpk_status status = dcpk_gen_model_info(w->gen, w->point->model, &info, error);
    if (status != DCPK_OK) return status;
    make.eps = info.eps;
    make.softmax_scale = info.softmax_scale;
    make.rope_theta = info.rope_theta > 0 ? info.rope_theta : make.rope_theta;
    make.contexts = contexts;
    make.context_count = sweep_point_contexts(w->request, w->point, contexts);
    make.steps = w->request->steps;
    make.seed = w->request->seed;
    make.heads = keys->heads;
    make.dcp = keys->dcp;
    make.batch = keys->batch;
    make.q = keys->q;
    make.page = or_else(keys->page, 64);
    make.interleave = or_else(keys->interleave, 1);
    make.q_lora = or_else(keys->q_lora, REF_Q_LORA);
    make.gate = or_else(keys->gate, 1);
    make.rope = ropes[or_else(keys->rope, DCPK_ROPE_NONE)];
    make.cap = or_else(keys->cap, 0);
    make.qh = or_else(keys->qh, 0);
    make.tiled_from = or_else(keys->tiled_from, 0);
    w->sigma = make.sigma;
    w->layer = layer_make(&make, why);
    return w->layer != NULL ? DCPK_OK : tool_fail(error, DCPK_E_ARG, "%s", why);
}

/* The facts of what was built, beside the figures that come later. */
static void add_kernels(struct work *w) {
    json_t *list = json_array();
    struct kernel_set *set = layer_run_kernels(w->run);
    for (uint32_t i = 0; i < kernel_set_count(set) && i < MAX_KERNELS; i++) {
        const struct kernel_row *row = kernel_set_at(set, i);
        if (dcpk_kernel_id_of(row->kernel) == DCPK_KERNEL_NONE) continue;
        w->kernels[i] =
            json_pack("{s:s s:s s:s s:s s:i s:i s:i s:I s:f}", "kernel", row->kernel, "spec", row->spec, "key",
                      row->report.key, "cache", row->report.hit != 0 ? "hit" : "miss", "registers", (int)row->registers,
                      "spilled_bytes", (int)row->spilled, "ptx_lines", (int)row->report.ptx_lines, "cubin_bytes",
                      (json_int_t)row->report.cubin_bytes, "build_ms", row->report.total_ms);
        json_array_append_new(list, must(w->kernels[i]));
    }
    json_object_set_new(w->row, "kernels", list);
}

static dcpk_status open_run(struct work *w, dcpk_error *error) {
    struct layer_run_options wanted;
    struct device_choice choice = w->request->choice;
    const struct command_line nobody = {0};
    if (device_choice_shape(&nobody, w->point->dcp, w->keys.arch, &choice) != EXIT_DONE)
        return tool_fail(error, DCPK_E_ARG, "the CPU device has too few devices");
    layer_run_options_init(&wanted, w->gen);
    wanted.device = choice.device;
    wanted.cpu = &choice.cpu;
    wanted.keys = &w->keys;
    wanted.form = w->request->form;
    wanted.phased = sweep_point_ordered(w->request, w->point);
    wanted.shares = w->request->ranks == RANKS_SHARES && w->point->dcp > 1;
    wanted.ask_environment = 1;
    wanted.page_gap = 64;
    return layer_run_open(&wanted, w->layer, &w->run, error);
}

/* Instructions that the kernels executed in the timed pass, on the CPU device. */
static dcpk_status add_counts(struct work *w, dcpk_error *error) {
    struct kernel_set *set = layer_run_kernels(w->run);
    dcpk_status status = layer_run_time(w->run, error);
    for (uint32_t i = 0; status == DCPK_OK && i < kernel_set_count(set) && i < MAX_KERNELS; i++) {
        const struct kernel_row *row = kernel_set_at(set, i);
        if (w->kernels[i] == NULL) continue;
        json_object_set_new(w->kernels[i], "thread_instructions", json_integer((json_int_t)row->executed));
        json_object_set_new(w->kernels[i], "warp_instructions", json_integer((json_int_t)row->executed_warps));
    }
    return status;
}

/* Adds errors, bounds and verdict of one kernel; false when it is out of a bound. A NaN is. */
static bool add_verdict(json_t *to, const struct kernel_row *row) {
    bool good = row->relative <= row->relative_bound && row->error <= row->bound && row->wrong == 0;
    if (!row->compared) good = true;
    json_object_set_new(to, "verdict", json_string(!row->compared ? "not compared" : good ? "right" : "wrong"));
    if (!row->compared) return true;
    json_object_set_new(to, "measure", json_string(row->measure));
    json_object_set_new(to, "error", number(row->error));
    json_object_set_new(to, "bound", number(row->bound));
    json_object_set_new(to, "relative", number(row->relative));
    json_object_set_new(to, "relative_bound", number(row->relative_bound));
    json_object_set_new(to, "wrong", json_integer((json_int_t)row->wrong));
    return good;
}

static dcpk_status judge(struct work *w, dcpk_error *error) {
    struct layer_bounds bounds;
    struct layer_judgement judged;
    struct kernel_set *set = layer_run_kernels(w->run);
    layer_bounds_of(w->layer, layer_run_scores_fp8(w->run), w->sigma, &bounds);
    if (!layer_judge(w->run, w->layer, &bounds, &judged))
        return tool_fail(error, DCPK_E_NOMEM, "no memory for the reference");
    layer_judge_rows(w->run, &bounds, &judged);
    bool good = judged.wrong == 0;
    for (uint32_t i = 0; i < kernel_set_count(set) && i < MAX_KERNELS; i++)
        if (w->kernels[i] != NULL) good = add_verdict(w->kernels[i], kernel_set_at(set, i)) && good;
    bool whole = judged.output_ideal <= bounds.output_ideal && judged.output_cosine <= bounds.output_cosine;
    json_object_set_new(w->row, "layer",
                        json_pack("{s:o s:f s:o s:f s:s}", "output", number(judged.output_ideal), "output_bound",
                                  bounds.output_ideal, "cosine", number(judged.output_cosine), "cosine_bound",
                                  bounds.output_cosine, "verdict", whole ? "right" : "wrong"));
    json_object_set_new(w->row, "values_wrong", json_integer((json_int_t)judged.wrong));
    good = good && whole;
    end(w, good ? "right" : "wrong", good ? "" : judged.first[0] != '\0' ? judged.first : "a bound is exceeded");
    return DCPK_OK;
}

static dcpk_status work(struct work *w, dcpk_error *error) {
    stage(w, "making the layer");
    dcpk_status status = make(w, error);
    if (status != DCPK_OK) return status;
    stage(w, "building");
    status = open_run(w, error);
    if (status != DCPK_OK) return status;
    add_kernels(w);
    stage(w, "running");
    status = layer_run_all(w->run, error);
    if (status != DCPK_OK) return status;
    stage(w, w->request->cuda ? "timing" : "counting");
    dcpk_status timed = w->request->cuda ? sweep_time(w->run, w->layer, sweep_point_ordered(w->request, w->point),
                                                      w->row, w->kernels, error)
                                         : add_counts(w, error);
    if (timed == DCPK_OK) stage(w, "comparing with the reference");
    status = judge(w, error); /* of what was read back before: also where the timing failed */
    return status == DCPK_OK ? timed : status;
}

void sweep_point_run(const struct sweep_request *request, const struct sweep_point *point, FILE *out) {
    double begin = tool_now();
    char why[sizeof((dcpk_error *)NULL)->text];
    struct work *w = must(calloc(1, sizeof *w));
    dcpk_error error;
    dcpk_error_init(&error);
    *w = (struct work){.request = request, .point = point, .out = out, .row = sweep_point_row(request, point)};
    stage(w, "opening the generator");
    enum exit_code code = open_gen(request->templates, &w->gen);
    if (code != EXIT_DONE)
        end(w, "failed", "no generator: see the message on stderr");
    else if (!sweep_point_keys(w->gen, request, point, &w->keys, why, sizeof why))
        end(w, "refused", why);
    else if (work(w, &error) != DCPK_OK)
        fail(w, &error);
    if (strcmp(json_string_value(json_object_get(w->row, "state")), "failed") != 0) json_object_del(w->row, "stage");
    json_object_set_new(w->row, "seconds", json_real(tool_now() - begin));
    put(w);
    layer_run_close(w->run);
    layer_case_free(w->layer);
    dcpk_gen_close(w->gen);
    json_decref(w->row);
    free(w);
}
