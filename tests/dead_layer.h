/* dead_layer.h - a rank that stops in the middle of the whole layer, and the rest of the group: what must hold, as
 * checks that say what does not. May call: tests/whole.h. Time is the CPU device's own. */
#ifndef TESTS_DEAD_LAYER_H
#define TESTS_DEAD_LAYER_H

#include <tests/whole.h>

enum { DEAD_RANK = 1, DEAD_STEPS = 4, DEAD_SENTENCE = 4608 };

/* Where rank DEAD_RANK stops in step 1: a kernel, one of its entries, and how far into it, in percent of the warp
 * instructions that the kernel took in step 0 (in random order a quarter of that). */
struct dead_stop {
    const char *kernel, *entry;
    unsigned percent;
    bool whole; /* nothing of the step can be merged by the others */
    bool late;  /* what the rank stores is held back until the others have left */
    bool first; /* ranks but 0 would wait for ten seconds: it is rank 0's bound that passes, and all must hear of it */
};

/* Step 0 is done by all, then the rank stops in step 1; step 2 is launched as well. The others leave within the bound,
 * their records name a word that the rank owes and that never came, their outputs are NaN or right tile by tile,
 * launches are refused; the rank comes back, leaves, too; all are armed anew and run all steps right.
 * whole: a layer of DEAD_STEPS steps, form fused or wait, made and not run. False: `what` says what did not hold. */
bool dead_layer_holds(struct whole *whole, const struct dead_stop *stop, char what[DEAD_SENTENCE]);

/* Rank 0 alone runs the front of step 0, all of its peers' query rows but one chunk put there by hand: the box dies
 * and names that chunk, whichever it is. dcp = 2, fused. */
bool dead_layer_polls_every_chunk(struct whole *whole, char what[DEAD_SENTENCE]);

#endif
