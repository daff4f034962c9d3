/* real_ranks_dead.c - see real_ranks.h: a rank that never launches, and the rest of its group.
 * May call: tools/layer_run.h, include/dcpk. */
#include <tests/real_ranks_inside.h>

#include <tools/numbers.h>
#include <tools/tool_error.h>

#include <stdio.h>
#include <string.h>

enum { CONTROL_BOUND = 16 }; /* box.h: the bound of polls in the control block */

static dcpk_status arm_all(struct real_ranks *x, dcpk_error *error) {
    const struct rank_group *group = layer_run_group(x->run);
    dcpk_box *boxes[LAYER_MAX_RANKS];
    for (int32_t r = 0; r < group->dcp; r++)
        boxes[r] = group->rank[r].box;
    dcpk_status status = dcpk_box_rearm_all(boxes, group->dcp, NULL, error);
    return status == DCPK_OK ? layer_run_restart(x->run, error) : status;
}

static dcpk_status set_bound(struct real_ranks *x, dcpk_error *error) {
    const struct rank_group *group = layer_run_group(x->run);
    dcpk_status status = DCPK_OK;
    for (int32_t r = 0; r < group->dcp && status == DCPK_OK; r++)
        status = dcpk_mem_write(group->rank[r].device, dcpk_box_base(group->rank[r].box) + CONTROL_BOUND,
                                &x->wish.dead_bound_ns, 8, error);
    return status;
}

/* Seconds as the polls have them: the CPU device's own. */
static double device_now(const struct rank_group *group) {
    int (*get)(dcpkcpu_counters *) = NULL;
    void *symbol = rank_group_cpu_symbol(group, "dcpkcpu_get_counters");
    dcpkcpu_counters counters = {.size = sizeof counters};
    memcpy(&get, &symbol, sizeof get);
    if (!get) return tool_now();
    get(&counters);
    return (double)counters.virtual_ns / 1e9;
}

/* Rank r lives, and had no words of `dead` in this step: all that it left is NaN. */
static dcpk_status look_at_output(struct real_ranks *x, int32_t r, int32_t dead, int32_t step, struct ranks_row *row,
                                  dcpk_error *error) {
    dcpk_status status = layer_run_peek(x->run, step, r, error);
    if (status != DCPK_OK) return status;
    const uint16_t *output = layer_run_outcome(x->run, step, r)->output;
    int64_t count = (int64_t)x->layer->batch * x->layer->heads * REF_VALUE, numbers = 0;
    for (int64_t i = 0; i < count; i++)
        numbers += !bf16_is_nan(output[i]);
    ranks_blame(row, numbers > 0, "rank %d never launched, and %lld of %lld values of rank %d's output are not NaN",
                dead, (long long)numbers, (long long)count, r);
    return DCPK_OK;
}

/* Rank r lives, `dead` never launched: what r knows. */
static void look_at(struct real_ranks *x, int32_t r, int32_t dead, struct ranks_row *row) {
    const struct rank_group *group = layer_run_group(x->run);
    dcpk_box_state state = {.size = sizeof state};
    dcpk_error error;
    char named[32];
    dcpk_error_init(&error);
    dcpk_status status = dcpk_box_status(group->rank[r].box, &state, &error);
    ranks_blame(row, status != DCPK_OK || !state.dead, "rank %d does not know that the box is dead, %d never launched",
                r, dead);
    if (status != DCPK_OK || !state.dead) return;
    bool query = state.mailbox == DCPK_MAILBOX_Q;
    int32_t source = query ? state.head_or_source / x->layer->heads : state.head_or_source;
    snprintf(named, sizeof named, "rank %d's ", dead);
    bool right = state.by_rank >= 0 && state.by_rank < group->dcp && state.by_rank != dead && source == dead &&
                 strstr(state.text, named) != NULL;
    ranks_blame(row, !right, "rank %d never launched, and rank %d says: %.150s", dead, r, state.text);
    status = layer_run_launch(x->run, 0, r, NULL, &error);
    ranks_blame(row, status != DCPK_E_BOX_DEAD, "rank %d, box dead: a launch was not refused (%s)", r,
                dcpk_status_name(status));
}

/* One use of all, one without `dead`. */
static dcpk_status die(struct real_ranks *x, int32_t dead, int32_t step, struct ranks_row *row, dcpk_error *error) {
    const struct rank_group *group = layer_run_group(x->run);
    dcpk_status status = layer_run_steps(x->run, 0, 1, error);
    if (status == DCPK_OK) status = rank_group_sync(group, error);
    double begin = device_now(group), bound = (double)x->wish.dead_bound_ns / 1e9;
    /* The CPU device's clock jumps where all wait, by a bound more than once; a GPU's is the host's here, which may be
     * late. */
    bool on_cpu = rank_group_cpu_symbol(group, "dcpkcpu_get_counters") != NULL;
    double most = on_cpu ? 4 * bound : 2 * bound + 0.5;
    for (int32_t r = 0; r < group->dcp && status == DCPK_OK; r++)
        if (r != dead) status = layer_run_launch(x->run, step, r, NULL, error);
    for (int32_t r = 0; r < group->dcp && status == DCPK_OK; r++)
        if (r != dead) status = dcpk_stream_sync(group->rank[r].device, group->rank[r].stream, error);
    double seconds = device_now(group) - begin;
    if (status != DCPK_OK) return status;
    row->uses += 2;
    row->slowest = seconds > row->slowest ? seconds : row->slowest;
    ranks_blame(row, seconds > most || seconds < 0.9 * bound,
                "rank %d never launched: the others left after %.3f s, their bound is %.3f s", dead, seconds, bound);
    for (int32_t r = 0; r < group->dcp; r++)
        if (r != dead) look_at(x, r, dead, row);
    for (int32_t r = 0; r < group->dcp && status == DCPK_OK; r++)
        if (r != dead) status = look_at_output(x, r, dead, step, row, error);
    return status;
}

dcpk_status real_ranks_dead(struct real_ranks *x, struct ranks_row *row, dcpk_error *error) {
    double begin = tool_now();
    dcpk_status status = DCPK_OK;
    memset(row, 0, sizeof *row);
    x->delays.every = false;
    for (int32_t i = 0; i < x->wish.deaths && status == DCPK_OK && row->wrong == 0; i++) {
        status = arm_all(x, error);
        if (status == DCPK_OK) status = set_bound(x, error);
        if (status == DCPK_OK) status = die(x, (x->wish.dead + i) % x->wish.ranks, 1 + i % 2, row, error);
        if (status == DCPK_OK) status = arm_all(x, error);
        if (status == DCPK_OK) status = layer_run_steps(x->run, 0, x->wish.inputs, error);
        if (status == DCPK_OK) status = layer_run_read(x->run, error);
        if (status == DCPK_OK) status = ranks_compare(x, x->wish.inputs, row, error);
        row->uses += x->wish.inputs;
    }
    row->seconds = tool_now() - begin;
    return status;
}
