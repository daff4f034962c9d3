/* real_ranks_inside.h - what the files of real_ranks share. Nobody else includes it. */
#ifndef TESTS_REAL_RANKS_INSIDE_H
#define TESTS_REAL_RANKS_INSIDE_H

#include <tests/rank_delays.h>
#include <tests/real_ranks.h>

struct real_ranks {
    struct ranks_wish wish;
    struct layer_case *layer;
    struct layer_case judged; /* the same with `inputs` steps; owns nothing */
    double sigma;
    struct layer_run *run;
    struct rank_delays delays;
    /* Results of the first round, by input and rank, and its caches; NULL before it. Results are one block each. */
    uint8_t **first;
    uint8_t *cache[LAYER_MAX_RANKS];
    bool have_first;
};

void ranks_blame(struct ranks_row *row, uint64_t wrong, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* What was read back last, steps 0 to count - 1: against the first round; the first time against the reference. */
dcpk_status ranks_compare(struct real_ranks *ranks, int32_t count, struct ranks_row *row, dcpk_error *error);

#endif
