/* rank_delays.h - makes the ranks of a layer run late, each by itself: a kernel that does nothing for a random time,
 * from a seeded list in device memory, stands in the rank's stream before its launches. Eager or captured: a graph that
 * is launched again is late by the list's next times. */
#ifndef TESTS_RANK_DELAYS_H
#define TESTS_RANK_DELAYS_H

#include <tools/layer_run.h>

struct rank_delays {
    dcpk_device *device[LAYER_MAX_RANKS];
    dcpk_kernel *kernel[LAYER_MAX_RANKS];
    uint64_t list[LAYER_MAX_RANKS], count[LAYER_MAX_RANKS]; /* device addresses */
    uint64_t launches[LAYER_MAX_RANKS];                     /* as they were looked at last */
    uint32_t *ns[LAYER_MAX_RANKS];                          /* the lists */
    int32_t ranks;
    bool every; /* before every launch of a step; else before its first */
};

/* Delays of 0 to most_ns, uniform; rank r's by (seed, r). Not OK: close it all the same. */
dcpk_status rank_delays_open(struct rank_delays *delays, struct layer_run *run, uint32_t most_ns, uint64_t seed,
                             dcpk_error *error);
/* A layer_before; self: the delays, whose ranks may be 0 (before they are opened): no delay. */
dcpk_status rank_delays_before(void *self, int32_t step, int32_t rank, bool first, void *stream, dcpk_error *error);
/* What the devices have done of it: each rank has been late so often at least since the last look, and never less than
 * its list says; else `why` says what does not hold. Nothing may be running. */
dcpk_status rank_delays_look(struct rank_delays *delays, uint64_t launches, char why[128], dcpk_error *error);
/* Before the run is closed. */
void rank_delays_close(struct rank_delays *delays);

#endif
