/* real_ranks.h - the whole layer of a model on N ranks, each on a device of its own, use after use with late ranks; and
 * what is left when one of them never launches. For check_ranks.
 *
 * Every result of every use is looked at: the first round (each of `steps` steps once) and the last of a mode are held
 * against the FP64 reference (tools/layer_judge.h), and all uses against the first one of their inputs, bit by bit:
 * step s has the inputs and the form of step s % inputs. Results are overwritten before each round; mailboxes, counters
 * and guards are read after each. */
#ifndef TESTS_REAL_RANKS_H
#define TESTS_REAL_RANKS_H

#include <tools/layer_judge.h>

enum ranks_inject { RANKS_INJECT_NONE, RANKS_INJECT_FIRST, RANKS_INJECT_LATER };

struct ranks_wish {
    dcpk_gen *gen; /* its folders hold templates, templates/checks, tests/templates */
    const char *device, *model;
    const dcpkcpu_options *cpu;
    const dcpk_spec *keys;   /* kernel "layer"; heads, dcp, gate, rope, q_lora are the model's */
    int32_t ranks, shares;   /* shares: 1: ranks beyond the GPUs take equal shares of one (green contexts) */
    const int32_t *contexts; /* of the requests, at the first step */
    int32_t context_count;
    int32_t inputs, steps; /* multiples of 3, the forms; steps: uses that are launched before the host waits */
    int32_t uses;          /* at least so many a mode */
    uint32_t delay_ns;     /* at most */
    uint64_t seed, bound_ns, dead_bound_ns;
    int32_t inject;       /* enum ranks_inject: a bit of rank 0's cache, before the first round or after it */
    int32_t deaths, dead; /* how many ranks die, one after the other, and the first of them */
};

struct ranks_row {
    int64_t uses;
    uint64_t wrong;             /* 0: right */
    char first[LAYER_SENTENCE]; /* the first thing wrong */
    double output, output_bound, rows, rows_bound;
    double seconds; /* launches and waits, without reading and judging */
    double slowest; /* deaths: seconds until all others had left, the longest */
};

struct real_ranks;
dcpk_status real_ranks_open(const struct ranks_wish *wish, struct real_ranks **out, dcpk_error *error);
void real_ranks_close(struct real_ranks *ranks); /* NULL is fine */
int32_t real_ranks_heads(const struct real_ranks *ranks);

/* One mode each. Not OK: something failed, the row is as far as it came; NOT_FOUND: the driver has no graphs. */
dcpk_status real_ranks_eager(struct real_ranks *ranks, struct ranks_row *row, dcpk_error *error);
dcpk_status real_ranks_captured(struct real_ranks *ranks, struct ranks_row *row, dcpk_error *error);
/* real_ranks_dead.c. Per death: a use of all ranks; one that the rank never launches: all others leave within the
 * bound, each knows that the box is dead and that this rank's words never came, its output is NaN, launches are
 * refused; all are armed anew, and the steps' results are what they were. Two ranks at least. */
dcpk_status real_ranks_dead(struct real_ranks *ranks, struct ranks_row *row, dcpk_error *error);

#endif
