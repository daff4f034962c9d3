/* scenario_inside.h - what the files of the scenario share: its state. Nobody else includes it.
 * scenario.c opens, runs and closes; scenario_buffers.c holds device memory; scenario_build.c makes images and
 * launches; scenario_inputs.c makes numbers; scenario_compare.c reads back and judges. */
#ifndef TOOLS_SCENARIO_INSIDE_H
#define TOOLS_SCENARIO_INSIDE_H

#include <tools/rank_group.h>
#include <tools/scenario.h>
#include <tools/tool_error.h>

enum { MAX_RANKS = 32, MAX_BATCHES = 32, ROW_START_GATE = 2112, ROW_PADDING = 16 };
enum { GUARD_BYTES = 2048, GUARD_WORD = 0x5EAD5EAD };

/* The four buffers that kernels write and a fresh use expects to hold the guard pattern. */
struct written {
    uint64_t address;
    uint64_t bytes; /* what the kernel may write; GUARD_BYTES of guard follow */
};

/* One use on one rank: host copies of its inputs, and their places on the device. */
struct rank_use {
    uint16_t *qkv, *rows;
    uint8_t *query;
    float *lse;
    int32_t *lens;
    uint16_t *output; /* read back by scenario_check, else NULL */
    uint64_t d_qkv, d_query, d_rows, d_lse, d_lens, d_totals;
    struct written qc, seen, result;
};

struct use {
    int32_t batch;
    int32_t *totals;
    struct rank_use ranks[MAX_RANKS];
};

/* What a rank launches for one batch. */
struct plan {
    struct scenario *scenario;
    struct rank *rank;
    int32_t batch;
    dcpk_kernel *kernels[PHASE_MERGE]; /* by phase; PHASE_VALUE's has two entries with split=1 */
    dcpk_layer *layer;
    const struct rank_use *now; /* the use that the layer's decode callback serves */
};

struct rank {
    int32_t index;
    dcpk_device *device; /* these three are the group's */
    void *stream;
    dcpk_box *box;
    uint16_t *kv_b, *q_a_norm;
    uint64_t d_kv_b, d_q_a_norm, d_rows, d_lse; /* d_rows, d_lse: where the decode writes with dcp = 1 */
    uint32_t opened;                            /* uses opened since the last arming */
    struct plan plans[MAX_BATCHES];
    uint64_t *memory; /* everything to free */
    size_t memory_count;
};

struct scenario {
    struct scenario_options options;
    dcpk_spec base;
    struct rank_group group;
    struct kernel_set *set;
    dcpk_provider provider; /* the set's */
    int32_t dcp, heads, q, uses, batch_count, greatest_batch;
    int32_t batches[MAX_BATCHES]; /* distinct, in order of first use */
    float eps;
    uint32_t pitch;
    struct rank ranks[MAX_RANKS];
    struct use *use;
    uint64_t wrong;
    char first_wrong[320];
    double run_seconds;
};

/* Counts `wrong` and keeps the first text of all. */
void scenario_blame(struct scenario *scenario, uint64_t wrong, int32_t use, int32_t rank, const char *text);
/* The row of the table for a kernel of a batch; NULL when there is none. */
struct kernel_row *scenario_row(struct scenario *scenario, const char *kernel, int32_t batch);

/* scenario_build.c. First: the rules of every spec that there will be, before anything is opened. */
dcpk_status scenario_specs_check(struct scenario *scenario, dcpk_error *error);
dcpk_status scenario_plans_open(struct scenario *scenario, dcpk_error *error);
void scenario_plans_close(struct scenario *scenario);
struct plan *scenario_plan(struct rank *rank, int32_t batch);
/* Loads what scenario_launch_phase needs and a layer scenario does not. */
dcpk_status scenario_pieces_load(struct scenario *scenario, dcpk_error *error);

/* scenario_buffers.c: uploads the inputs and allocates what kernels write. */
dcpk_status scenario_buffers_make(struct scenario *scenario, dcpk_error *error);
void scenario_buffers_free(struct rank *rank);
dcpk_status scenario_inject(struct scenario *scenario, dcpk_error *error);

/* scenario_inputs.c: host numbers only. false: out of memory. */
bool scenario_inputs_make(struct scenario *scenario);
void scenario_inputs_free(struct scenario *scenario);

#endif
