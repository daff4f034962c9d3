/* bench_ranks.h - what bench_ranks measures between N ranks with a device each: state, time, and its three parts.
 * A failure ends the program. On the CPU device everything runs and is checked once, and nothing is timed. */
#ifndef TESTS_BENCH_RANKS_H
#define TESTS_BENCH_RANKS_H

#include <dcpk/gen.h>
#include <stdio.h>
#include <tools/rank_group.h>

/* ---- bench_ranks_time.c: the driver's graphs and events, on every rank ---------------------------- */

struct ranks_clock {
    int (*stream_context)(void *stream, void **context);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*launch)(void *exec, void *stream);
    int (*exec_destroy)(void *exec);
    int (*graph_destroy)(void *graph);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_time)(float *ms, void *from, void *to);
};

struct bench {
    dcpk_gen *gen;
    const char *device;
    dcpkcpu_options cpu;
    int32_t ranks;              /* N */
    bool on_cpu, brief, inject; /* inject: a bit of what the first store sends is flipped behind it */
    FILE *csv;                  /* or NULL */
    double read_gbs;
    /* A session: so many of the ranks, connected by boxes of this many heads. */
    struct rank_group group;
    int32_t heads;
    struct ranks_clock clock;
    void *from[GROUP_MAX_RANKS], *to[GROUP_MAX_RANKS];
};

_Noreturn void bench_fail(const char *what, const char *why);
void *bench_room(size_t count, size_t size); /* zeros; never NULL */
void bench_must(dcpk_status status, const dcpk_error *error, const char *what);
/* A row of the csv: kind,ranks,what,value,unit. */
void bench_figure(struct bench *bench, const char *kind, const char *what, double value, const char *unit);

void bench_open(struct bench *bench, int32_t ranks, int32_t heads);
void bench_close(struct bench *bench);
dcpk_kernel *bench_kernel(struct bench *bench, int32_t rank, const char *spec);
uint64_t bench_memory(struct bench *bench, int32_t rank, uint64_t bytes, uint32_t word);
void bench_free(struct bench *bench, int32_t rank, uint64_t address);

/* The i-th call on a rank, into its stream. */
typedef void bench_launch(void *self, int32_t rank, int i);
enum { BENCH_ALL = -1, BENCH_MEASURES = 5 };
/* Microseconds a call: `calls` of them in a graph on each rank (only: on this one), all ranks' graphs launched
 * together, over and over without a wait (at most 256 calls ahead); median of 5 measures of the slowest rank; each (may
 * be NULL): every rank's own in that measure. 0 on the CPU device, where the graphs are launched twice. */
double bench_time(struct bench *bench, int32_t only, bench_launch *launch, void *self, int calls, double *each);
/* The graphs launched so often, and waited for. */
void bench_replay(struct bench *bench, bench_launch *launch, void *self, int calls, int times);

/* ---- bench_peers.c ------------------------------------------------------------------------------- */

void bench_latency(struct bench *bench);
void bench_bandwidth(struct bench *bench);
/* One row: node(X) of the session's ranks. */
void bench_node(struct bench *bench);
void bench_node_head(const struct bench *bench);

/* ---- bench_layers.c ------------------------------------------------------------------------------ */

struct bench_times {
    double query, decode, value; /* us, each kernel alone between full edges */
    double step;                 /* us, with PDL inside */
    double query_floor, decode_floor, value_floor;
};
/* The layer of a model on the session's ranks; whole: with mla_decode, else what exchanges alone. */
void bench_layer(struct bench *bench, const char *model, int32_t batch, int32_t context, bool whole,
                 struct bench_times *times);
/* Memory that layers share: made before the first of a session, for shapes up to these. */
void bench_pools_open(struct bench *bench, int32_t batch, int32_t context);
void bench_pools_close(struct bench *bench);
/* Only builds the kernels. */
void bench_layer_build(struct bench *bench, const char *model, int32_t ranks, int32_t batch);

#endif
