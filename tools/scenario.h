/* scenario.h - a whole exchange on real inputs: D ranks of one process, some uses of their boxes, everything compared.
 *
 * Owns: the devices, images, boxes, layers, buffers and seeded inputs of such a run, and the comparison of what came
 * out with the FP64 reference. Uses include/dcpk only. A use on a rank is:
 *   query_norm -> query_push -> query_wait -> copy_rows (in the decode's place) -> dcp_value
 * (dcp = 1: query_norm -> copy_rows -> dcp_value). The template folders of `gen` must hold copy_rows.ptx.lua
 * (tests/templates). One process, one scenario at a time on the CPU device. */
#ifndef TOOLS_SCENARIO_H
#define TOOLS_SCENARIO_H

#include <dcpk/box.h>
#include <dcpk/cpu.h>
#include <dcpk/gen.h>
#include <dcpk/layer.h>
#include <stdbool.h>
#include <tools/box_scan.h>
#include <tools/kernel_set.h>

/* Inputs beyond the ordinary, each switched on by its bit. */
enum scenario_nasty {
    NASTY_EMPTY_SHARDS = 1, /* lens <= 0 on some ranks while totals > 0; what the shard holds there is garbage */
    NASTY_ALL_EMPTY = 2,    /* rows that no rank has a key for */
    NASTY_LSE = 4,          /* NaN, +-Inf, 0xFFFFFFFF, +-FLT_MAX as LSE */
    NASTY_PAYLOAD = 8,      /* -0, whole sentinel words, subnormals; Inf and NaN with weight 0 */
    NASTY_NONFINITE = 16,   /* Inf and NaN with a weight: they must reach the output */
    NASTY_PADDED = 32,      /* requests with totals <= 0, NaN gates and NaN payloads */
    NASTY_QUERY = 64,       /* query bytes 0xFF, alone and by the row */
    NASTY_ALL = 127
};

/* The host inputs of one use on one rank, before they are uploaded; kv_b and q_a_norm are the rank's for all uses,
 * totals are all ranks'. Shapes as in args.def; rows and lse are what the decode's stand-in writes. */
struct scenario_inputs {
    int32_t batch;
    uint16_t *rows, *qkv, *kv_b, *q_a_norm;
    size_t pitch, first_gate; /* of qkv, in elements */
    float *lse;
    uint8_t *query;
    int32_t *lens, *totals;
};
typedef void scenario_edit_fn(void *self, int32_t use, int32_t rank, const struct scenario_inputs *inputs);

enum scenario_inject { INJECT_NONE, INJECT_ROWS, INJECT_QUERY, INJECT_GATE, INJECT_WEIGHT, INJECT_QKV };

struct scenario_options {
    dcpk_gen *gen;              /* where images come from; outlives the scenario */
    const char *device;         /* "cpu", "cuda", "auto" or NULL, as dcpk_device_options.kind */
    const char *library;        /* as dcpk_device_options.library */
    const char *arch;           /* NULL: the default of the arch table */
    const dcpkcpu_options *cpu; /* CPU device: how to configure it; devices is raised to dcp. NULL: fair */
    int32_t heads, dcp;         /* required */
    const int32_t *batches;     /* batch of each use */
    int32_t uses;
    int32_t q, cap, qh, sms, reserve, publish, split, gate, tiled_from, parity, checked, watchdog,
        lineinfo;            /* DCPK_UNSET: as for any spec. watchdog=0 is loaded: it was asked for by name */
    int32_t ask_environment; /* 1: DCPK_MULTICAST says whether publish=multicast is allowed; 0: it is */
    uint32_t nasty;          /* enum scenario_nasty */
    uint64_t seed;           /* of the inputs */
    uint64_t bound_ns;       /* of polls; 0: the box's default */
    int32_t phased; /* 1: kernel by kernel over all ranks with a synchronisation between, no PDL; with split=1 the box
                       is event_ordered */
    int32_t chain;  /* 1: launches say CHAIN_WAITS */
    int32_t sync_each; /* 1: synchronise and scan the mailboxes after every use, not only at the end */
    int32_t pieces;    /* 1: kernels are launched one by one, not as a dcpk_layer (implied by phased and by dcp = 1) */
    int32_t sms_step;  /* rank r plans for sms - r * sms_step multiprocessors: grids may differ between ranks */
    int32_t parity_skew;    /* 1: parity=arg gets the wrong parity */
    scenario_edit_fn *edit; /* called for every use and rank when the inputs are made; NULL: none */
    void *edit_self;
    int32_t inject; /* enum scenario_inject: one bit of that input of rank 0, use 0, flipped on the device */
};
/* Every key DCPK_UNSET, heads and dcp as given, everything else 0. */
void scenario_options_init(struct scenario_options *options, dcpk_gen *gen, int32_t heads, int32_t dcp);

/* What one use on one rank came to. wrong: compared values out of their bound. */
struct scenario_check {
    uint64_t norm_wrong;  /* q_c: bits differ from the replay of the stated FP32 order */
    double norm_ulp;      /* q_c: worst distance from FP64 in BF16 steps, bound 1 */
    uint64_t query_wrong; /* query bytes as the decode sees them */
    uint64_t value_wrong; /* output elements out of bound, NaN or Inf where there is none, or the other way */
    double value_ulp;     /* output: worst error in BF16 ulp of decision 9's magnitude, bound 2 */
    uint64_t guard_wrong; /* words changed behind row B of outputs */
    uint64_t output_nans; /* NaNs in the output, wanted or not */
    double norm_relative, value_relative; /* Frobenius */
    char first[256];                      /* the first thing wrong, "" when nothing is */
};

enum scenario_phase { PHASE_NORM, PHASE_PUSH, PHASE_WAIT, PHASE_DECODE, PHASE_VALUE, PHASE_MERGE, PHASE_COUNT };

struct scenario;

/* Opens devices, builds and loads every kernel of every batch, boxes created, connected and armed, inputs uploaded. */
dcpk_status scenario_open(const struct scenario_options *options, struct scenario **out, dcpk_error *error);
void scenario_close(struct scenario *scenario); /* NULL is fine */

/* Everything: all uses launched (use by use, ranks inside), synchronised, compared, scanned. OK also when something
 * is out of bounds: scenario_wrong counts it. */
dcpk_status scenario_run(struct scenario *scenario, dcpk_error *error);
/* Runs the last use of each batch once more, phase by phase, and fills run_seconds. After scenario_run. */
dcpk_status scenario_time(struct scenario *scenario, dcpk_error *error);
uint64_t scenario_wrong(const struct scenario *scenario);          /* all that was compared and was wrong so far */
const char *scenario_first_wrong(const struct scenario *scenario); /* "" or "use 2 rank 1: ..." */
double scenario_run_seconds(const struct scenario *scenario); /* processor time of scenario_run's launches and waits */
uint32_t scenario_kernel_count(const struct scenario *scenario);
const struct kernel_row *scenario_kernel_at(const struct scenario *scenario, uint32_t index);
dcpk_device *scenario_device(struct scenario *scenario, int32_t rank);
dcpk_box *scenario_box(struct scenario *scenario, int32_t rank); /* NULL with dcp = 1 */

/* Pieces, for tests of stalls and disagreement. */
dcpk_status scenario_launch(struct scenario *scenario, int32_t use, dcpk_error *error); /* all ranks */
/* batch: 0, or another of the scenario's batches, smaller than the use's own: what a rank that disagrees would run. */
dcpk_status scenario_launch_rank(struct scenario *scenario, int32_t use, int32_t rank, int32_t batch,
                                 dcpk_error *error);
dcpk_status scenario_launch_phase(struct scenario *scenario, int32_t use, int32_t rank, int32_t batch,
                                  enum scenario_phase phase, uint32_t flags, dcpk_error *error);
dcpk_status scenario_sync(struct scenario *scenario, int32_t rank, dcpk_error *error);
/* Reads back and compares one use on one rank; adds to scenario_wrong's sum. */
dcpk_status scenario_check(struct scenario *scenario, int32_t use, int32_t rank, struct scenario_check *check,
                           dcpk_error *error);
/* The words that differ add to scenario_wrong's sum. */
dcpk_status scenario_scan(struct scenario *scenario, int32_t rank, struct box_scan *scan, dcpk_error *error);
/* The rank's output of a use, [batch, heads*128] BF16, read by the last scenario_check of that use and rank. */
const uint16_t *scenario_output(const struct scenario *scenario, int32_t use, int32_t rank);
/* Re-arms every box (joined as in dcpk_box_rearm_all) and forgets the uses launched so far. */
dcpk_status scenario_rearm(struct scenario *scenario, const int32_t *joined, dcpk_error *error);
/* Fills the outputs and the query copies of a use with their guard pattern again, so that it may be run once more. */
dcpk_status scenario_reset(struct scenario *scenario, int32_t use, dcpk_error *error);

/* A function of cpu.h by name from the CPU device in use, NULL on hardware. */
void *scenario_cpu_symbol(struct scenario *scenario, const char *name);

#endif
