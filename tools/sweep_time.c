/* sweep_time.c - times of a point on hardware, beside the floors of floor.h.
 *
 * A kernel that can be launched by itself: as kernel_time.h rotates its inputs and gpu_time.h replays it, on rank 0.
 * Halves of an exchange have no time of their own. The whole step: its graph launched n and 2n times, the difference;
 * its inputs stay in the L2 where they fit. What cannot be measured is left out, with the reason. */
#include <tools/floor.h>
#include <tools/json_text.h>
#include <tools/gpu_time.h>
#include <tools/kernel_time.h>
#include <tools/layer_run.h>
#include <tools/sweep.h>
#include <tools/tool_error.h>

#include <string.h>

enum { STEP_MEASURES = 3, STEP_MOST = 32 };

/* Cached tokens that rank 0's decode reads in this step; lens: its requests'. */
static double keys_of(const struct layer_case *layer, const struct layer_step *step, int32_t lens[512]) {
    double keys = 0;
    layer_lens(layer, step, 0, lens);
    for (int32_t i = 0; i < layer_requests(layer); i++)
        keys += lens[i] > 0 ? lens[i] : 0;
    return keys;
}

static dcpk_status time_kernel(struct gpu_timer *timer, struct layer_run *run, const dcpk_spec *spec,
                               const int32_t *lens, const int32_t *totals, double *us, int *sets, dcpk_error *error) {
    const struct group_rank *rank = &layer_run_group(run)->rank[0];
    dcpk_kernel *kernel = NULL;
    struct kernel_inputs *inputs = NULL;
    dcpk_status status = kernel_set_load(layer_run_kernels(run), spec, rank->device, rank->stream, &kernel, error);
    struct kernel_wish wish = {.device = rank->device,
                               .stream = rank->stream,
                               .kernel = kernel,
                               .box = strcmp(spec->kernel, "query_norm") == 0 ? NULL : rank->box,
                               .lens = lens,
                               .totals = totals};
    if (status == DCPK_OK) status = kernel_inputs_open(&wish, &inputs, error);
    if (status == DCPK_OK) {
        *sets = kernel_inputs_sets(inputs);
        status = gpu_timer_measure(timer, kernel_inputs_launch, inputs, kernel_inputs_calls(inputs), us, error);
    }
    kernel_inputs_close(inputs);
    dcpk_kernel_free(kernel, NULL);
    return status;
}

/* Microseconds of so many launches of the steps' graph, its making included. */
static dcpk_status measure_steps(struct gpu_timer *timer, struct layer_run *run, int32_t steps, int32_t times,
                                 double *us, dcpk_error *error) {
    float ms = 0;
    if (timer->calls.event_record(timer->from, timer->stream) != 0)
        return tool_fail(error, DCPK_E_DRIVER, "cuEventRecord failed");
    dcpk_status status = layer_run_graph(run, 0, steps, times, error);
    if (status != DCPK_OK) return status;
    if (timer->calls.event_record(timer->to, timer->stream) != 0)
        return tool_fail(error, DCPK_E_DRIVER, "cuEventRecord failed");
    status = dcpk_stream_sync(timer->device, timer->stream, error);
    if (status == DCPK_OK && timer->calls.event_time(&ms, timer->from, timer->to) != 0)
        status = tool_fail(error, DCPK_E_DRIVER, "cuEventElapsedTime failed");
    *us = 1e3 * (double)ms;
    return status;
}

static dcpk_status time_step(struct gpu_timer *timer, struct layer_run *run, int32_t steps, double *us,
                             dcpk_error *error) {
    double few = 0, many = 0, best[STEP_MEASURES];
    dcpk_status status = measure_steps(timer, run, steps, 1, &few, error);
    if (status == DCPK_OK) status = measure_steps(timer, run, steps, 5, &many, error);
    double one = many > few ? (many - few) / 4 : 100;
    int32_t n = one > 5000 ? 4 : one * STEP_MOST > 20000 ? (int32_t)(20000 / one) + 1 : STEP_MOST;
    for (int i = 0; i < STEP_MEASURES && status == DCPK_OK; i++) {
        status = measure_steps(timer, run, steps, n, &few, error);
        if (status == DCPK_OK) status = measure_steps(timer, run, steps, 2 * n, &many, error);
        best[i] = (many - few) / n / steps;
        for (int j = i; j > 0 && best[j] < best[j - 1]; j--) {
            double swap = best[j];
            best[j] = best[j - 1];
            best[j - 1] = swap;
        }
    }
    if (status == DCPK_OK) *us = best[STEP_MEASURES / 2];
    return status;
}

dcpk_status sweep_time(struct layer_run *run, const struct layer_case *layer, bool ordered, json_t *row,
                       json_t *const *kernels, dcpk_error *error) {
    int32_t lens[512];
    const struct group_rank *rank = &layer_run_group(run)->rank[0];
    const struct layer_step *last = &layer->steps[layer->step_count - 1];
    struct kernel_set *set = layer_run_kernels(run);
    struct gpu_timer timer;
    double keys = keys_of(layer, last, lens), us = 0;
    dcpk_status status = gpu_timer_open(&timer, rank->device, rank->stream, error);
    for (uint32_t i = 0; status == DCPK_OK && i < kernel_set_count(set); i++) {
        dcpk_spec spec;
        struct kernel_floor floor;
        int sets = 0;
        if (kernels[i] == NULL) continue;
        status = dcpk_spec_parse(&spec, kernel_set_at(set, i)->spec, error);
        if (status != DCPK_OK || !floor_of(&spec, keys, FLOOR_READ_GBS, &floor)) continue;
        json_object_set_new(kernels[i], "floor_us", json_real(floor.us));
        const char *why = kernel_alone(&spec);
        if (why != NULL) {
            json_object_set_new(kernels[i], "no_time", json_text(why));
            continue;
        }
        status = time_kernel(&timer, run, &spec, lens, last->totals, &us, &sets, error);
        if (status != DCPK_OK) continue;
        json_object_set_new(kernels[i], "us", json_real(us));
        json_object_set_new(kernels[i], "ratio", json_real(floor.us > 0 ? us / floor.us : 0));
        json_object_set_new(kernels[i], "bytes", json_real(floor.bytes));
        json_object_set_new(kernels[i], "flops", json_real(floor.flops));
        json_object_set_new(kernels[i], "input_sets", json_integer(sets));
    }
    if (status != DCPK_OK) return status;
    status = time_step(&timer, run, layer->step_count, &us, error);
    if (status == DCPK_E_ARG ||
        status == DCPK_E_NOT_FOUND) { /* event-ordered ranks on several GPUs have no one stream */
        json_object_set_new(row, "no_step_time", json_text(error->text));
        return DCPK_OK;
    }
    if (status != DCPK_OK) return status;
    json_object_set_new(row, "step_us", json_real(us));
    json_object_set_new(row, "step_is",
                        json_string(ordered ? "all ranks' kernels in one stream, no PDL, L2 warm"
                                            : "one rank's kernels among its peers', L2 warm"));
    return DCPK_OK;
}
