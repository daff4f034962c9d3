/* ranks.h - what the suites of dead and of disagreeing ranks share: one shape, five uses of its boxes, and what must
 * hold. May call: tests/exchange.h, include/dcpk. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include <tests/exchange.h>

enum { DEAD = 1, RANKS = 3, HEADS = 2, BATCH = 18, CAP = 20, USES = 5 };
#define RANKS_BOUND_NS ((uint64_t)2000000)

extern dcpk_gen *ranks_gen;
void ranks_open_gen(void); /* fixtures */
void ranks_close_gen(void);

/* keys as on the command line; how: of enum exchange_how. */
struct scenario *ranks_open(const char *keys, uint32_t how, int32_t schedule, uint64_t seed);
dcpk_box_state ranks_status(struct scenario *s, int32_t rank);
void ranks_sync(struct scenario *s);
void ranks_use_is_right(struct scenario *s, int32_t use);
/* Every box is as armed, but for its counters after that many uses. */
void ranks_are_armed(struct scenario *s, uint32_t uses);
/* A tile is 16 rows of one head. Each is NaN as a whole, or right as a whole. Returns how many are NaN. */
int32_t ranks_tiles_are_nan_or_right(struct scenario *s, int32_t use, int32_t rank, int32_t batch);
/* Re-arms all ranks, runs uses 1 to USES - 1 again, compares them and the mailboxes. */
void ranks_are_right_after_rearm(struct scenario *s);

#endif
