/* layer_run.h - a layer_case on devices: D ranks, every kernel of the layer, all steps, everything read back.
 *
 * Owns devices, boxes, kernels and device memory of the run; the case stays the caller's and must outlive it. Uses
 * include/dcpk and layer_expect.h. Judges nothing but what no kernel may touch (guards, gaps between pages) and the
 * boxes' armed state. The template folders of `gen` must hold query_copy.ptx.lua (templates/checks). One run at a time
 * on the CPU device. */
#ifndef TOOLS_LAYER_RUN_H
#define TOOLS_LAYER_RUN_H

#include <dcpk/cpu.h>
#include <tools/kernel_set.h>
#include <tools/layer_case.h>
#include <tools/layer_form.h>
#include <tools/rank_group.h>

enum layer_inject {
    LAYER_INJECT_NONE,
    LAYER_INJECT_CACHE,
    LAYER_INJECT_QKV,
    LAYER_INJECT_GATE,
    LAYER_INJECT_WEIGHT,
    LAYER_INJECT_TABLE
};

/* Called before each launch of a step, eager or captured; first: the step's first on this rank. What it launches into
 * `stream` comes before. */
typedef dcpk_status layer_before(void *self, int32_t step, int32_t rank, bool first, void *stream, dcpk_error *error);

struct layer_run_options {
    dcpk_gen *gen;
    const char *device, *library; /* as dcpk_device_options.kind and .library */
    const dcpkcpu_options *cpu;   /* as rank_group_options.cpu */
    const dcpk_spec *keys;        /* arch and all keys but the case's own shape, as far as set; NULL: defaults */
    int32_t form;                 /* enum layer_form */
    int32_t phased; /* 1: kernel by kernel over all ranks with a synchronisation between, no PDL; with split=1 the box
                       is event_ordered and ranks may share a device */
    int32_t shares; /* 1: as rank_group_options.shares; sms of the kernels is the share's where keys leave it open */
    int32_t chain;  /* 1: launches say CHAIN_WAITS */
    int32_t ask_environment; /* 1: DCPK_MULTICAST says whether publish=multicast is allowed; 0: it is */
    uint64_t bound_ns;       /* of polls; 0: the box's default */
    uint64_t page_gap;       /* bytes between pages of the cache, a multiple of 16 */
    int32_t inject;          /* enum layer_inject: one bit of that input of rank 0, step 0, flipped on the device */
    layer_before *before;    /* or NULL; not in phased runs */
    void *before_self;
};
void layer_run_options_init(struct layer_run_options *options, dcpk_gen *gen);

/* What one step left on one rank. Arrays as in layer_rank_step; the run's own. */
struct layer_outcome {
    int32_t form;     /* LAYER_FUSED, _WAIT or _PUSHED */
    uint16_t *qc;     /* [batch, 1536]; NULL when none was asked for */
    uint8_t *query;   /* [batch, D*H, 576] as the decode saw it */
    uint16_t *rows;   /* [batch, D*H, 512] */
    float *rows_lse;  /* [batch, D*H] */
    uint16_t *output; /* [batch, H*128] */
};

struct layer_run;
/* Opens devices, builds and loads every kernel, connects boxes, uploads everything. */
dcpk_status layer_run_open(const struct layer_run_options *options, const struct layer_case *layer,
                           struct layer_run **out, dcpk_error *error);
void layer_run_close(struct layer_run *run); /* NULL is fine */
/* Gives devices, boxes, kernels and device memory back; what was read back and the kernels' rows stay until
 * layer_run_close. The next run may then be opened. */
void layer_run_detach(struct layer_run *run);
/* All steps launched one after the other, ranks inside, one synchronisation at the end; everything read back. */
dcpk_status layer_run_all(struct layer_run *run, dcpk_error *error);
/* Steps first..first+count-1 captured, one graph a rank (one in all when the run is phased: ranks share a stream), and
 * the graph launched `times` times, ranks inside; one synchronisation at the end. What a step leaves is what it left
 * before. NOT_FOUND where the driver has no graphs. */
dcpk_status layer_run_graph(struct layer_run *run, int32_t first, int32_t count, int32_t times, dcpk_error *error);
/* The same in pieces: the graphs of the steps, which stay; one launch of them, ranks inside, which nothing waits for.
 * To be closed before the run, and not while they run. */
struct layer_graph;
dcpk_status layer_graph_open(struct layer_run *run, int32_t first, int32_t count, struct layer_graph **out,
                             dcpk_error *error);
dcpk_status layer_graph_launch(struct layer_graph *graph, dcpk_error *error);
void layer_graph_close(struct layer_graph *graph); /* NULL is fine */
/* Reads everything back again and looks at guards and boxes, as layer_run_all does at its end. */
dcpk_status layer_run_read(struct layer_run *run, dcpk_error *error);
/* Steps first..first+count-1 launched as layer_run_all does, without reading back. */
dcpk_status layer_run_steps(struct layer_run *run, int32_t first, int32_t count, dcpk_error *error);
/* One step on one rank, launched; nothing waits. kernel: this one of the step only (a name of kernels.def, or
 * "query_copy"); NULL: all of them. */
dcpk_status layer_run_launch(struct layer_run *run, int32_t step, int32_t rank, const char *kernel, dcpk_error *error);
/* What a step has left on one rank so far, read back; waits for nobody. */
dcpk_status layer_run_peek(struct layer_run *run, int32_t step, int32_t rank, dcpk_error *error);
/* After the boxes were armed anew: uses are counted from 0, results of all steps are as before the first, nothing is
 * wrong yet. Caches keep what was inserted. */
dcpk_status layer_run_restart(struct layer_run *run, dcpk_error *error);
/* Results of all steps are as before the first again, uses count on. Nothing may be running. */
dcpk_status layer_run_clear(struct layer_run *run, dcpk_error *error);
/* The last step of each form once more, phase by phase: fills run_seconds of the kernels' rows. After
 * layer_run_all; what was read back stays. */
dcpk_status layer_run_time(struct layer_run *run, dcpk_error *error);

const struct layer_outcome *layer_run_outcome(const struct layer_run *run, int32_t step, int32_t rank);
/* The rank's cache after the last step, [pages, page, 576] without gaps. */
const uint8_t *layer_run_cache(const struct layer_run *run, int32_t rank);
/* Device address of a slot's 576 bytes. */
uint64_t layer_run_slot(const struct layer_run *run, int32_t rank, int64_t slot);
/* What the cache of the rank must start from: the case's, with the rows of LAYER_PUSHED steps in it. */
const uint8_t *layer_run_cache_before(const struct layer_run *run, int32_t rank);
/* Words and bytes that nobody may have changed, or not re-armed, and the first of them. */
uint64_t layer_run_wrong(const struct layer_run *run, const char **first);
struct kernel_set *layer_run_kernels(const struct layer_run *run);
const struct rank_group *layer_run_group(const struct layer_run *run);
double layer_run_seconds(const struct layer_run *run); /* of layer_run_all's launches and wait */
/* Whether the decode's scores come from FP8 tensor cores: on hardware always, on the CPU device where the kernel was
 * built with pv=fp8, said or by default. For layer_bounds_of. */
bool layer_run_scores_fp8(const struct layer_run *run);

#endif
