/* layer_run_inside.h - the state that the files of layer_run share. Nobody else includes it.
 * layer_run.c opens, runs, closes; layer_launch.c has specs and launches; layer_memory.c device memory. */
#ifndef TOOLS_LAYER_RUN_INSIDE_H
#define TOOLS_LAYER_RUN_INSIDE_H

#include <tools/layer_phases.h>
#include <tools/layer_run.h>

enum { LAYER_FORMS = 3, GUARD_BYTES = 2048, GUARD_WORD = 0x5EAD5EAD, GAP_BYTE = 0x7F };

/* A buffer that kernels write: guard_bytes of guard follow. */
struct written {
    uint64_t address, bytes;
};

struct device_step {
    uint64_t qkv, qf, cos_sin, totals, lens, block_table, slots, ready;
    struct written qc, seen, rows, lse, output;
};

struct layer_rank_run {
    dcpk_kernel *kernels[PHASE_COUNT];
    uint64_t w_q_b, kv_b, q_a_norm, kv_a_norm, workspace;
    struct written cache;
    uint64_t page_stride;
    uint32_t opened; /* uses of the box so far */
    struct device_step *steps;
    struct layer_outcome *outcomes;
    uint8_t *cache_before, *cache_after;
    uint64_t *memory; /* everything to free */
    size_t memory_count;
};

struct layer_run {
    struct layer_run_options options;
    const struct layer_case *layer;
    dcpk_spec base;
    struct rank_group group;
    struct kernel_set *set;
    struct layer_rank_run rank[LAYER_MAX_RANKS];
    bool forms[LAYER_FORMS]; /* which are used */
    bool scores_fp8;         /* layer_run_scores_fp8 */
    uint64_t wrong;
    char first_wrong[LAYER_SENTENCE];
    double seconds;
    void *one_stream; /* all ranks launch here while a phased run is captured; else NULL */
};

int32_t layer_form_of(const struct layer_run *run, int32_t step);
__attribute__((format(printf, 3, 4))) void layer_blame(struct layer_run *run, uint64_t wrong, const char *format, ...);

/* layer_launch.c */
dcpk_status layer_specs_check(struct layer_run *run, dcpk_error *error);
dcpk_status layer_kernels_load(struct layer_run *run, dcpk_error *error);
void layer_kernels_free(struct layer_run *run);
/* The step's launches on one rank; only: of this kernel, NULL: all. */
dcpk_status layer_launch_rank(struct layer_run *run, int32_t step, int32_t rank, const char *only, dcpk_error *error);
/* The step phase by phase over all ranks; adds to the rows' run_seconds when time is wanted. */
dcpk_status layer_launch_phased(struct layer_run *run, int32_t step, bool time, dcpk_error *error);

/* The step phase by phase, all ranks in one stream, no synchronisation between: for a capture of a phased run. */
dcpk_status layer_launch_in_one_stream(struct layer_run *run, int32_t step, dcpk_error *error);

/* layer_memory.c */
dcpk_status layer_memory_make(struct layer_run *run, dcpk_error *error);
dcpk_status layer_memory_inject(struct layer_run *run, dcpk_error *error);
dcpk_status layer_memory_read(struct layer_run *run, dcpk_error *error);
dcpk_status layer_memory_read_step(struct layer_run *run, int32_t step, int32_t rank, dcpk_error *error);
dcpk_status layer_memory_clear(struct layer_run *run, dcpk_error *error); /* results: as nobody has written them */
void layer_memory_release(struct layer_run *run);                         /* the device's */
void layer_memory_free(struct layer_run *run);                            /* the host's */

#endif
