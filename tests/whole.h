/* whole.h - what the suites of the whole layer share: a layer and how it runs, as one text; run and judged.
 * Suites run from the project's folder. */
#ifndef TESTS_WHOLE_H
#define TESTS_WHOLE_H

#include <tests/exchange.h>
#include <tools/layer_judge.h>
#include <tools/layer_make.h>
#include <tools/layer_run.h>

/* Words of a text: keys of keys.def, and
 *   context=L1,L2,...  steps=N  seed=N  sigma=X  mean=X  pitch=N (more elements)  gap=N (bytes between pages)
 *   form=fused|wait|pushed|cycle  phased=1  chain=1  random=N (seed of the adversary; 0: fair)
 *   nan=N (a NaN in column N - 1 of row 0 of the packed projection, in every step)
 *   eps=X  softmax=X  q_scale=X  k_scale=X  theta=X */
struct whole {
    char text[512];
    int32_t contexts[64];
    int32_t nan;
    struct layer_make make;
    struct layer_run_options options;
    dcpk_spec keys;
    dcpkcpu_options cpu;
    struct layer_case *layer;
    struct layer_run *run;
    struct layer_bounds bounds;
    struct layer_judgement judged;
};

/* The text read, the layer made. A wrong text fails the test. */
void whole_make(struct whole *whole, dcpk_gen *gen, const char *text);
/* The layer on the CPU device, run and judged. */
void whole_run(struct whole *whole);
/* The same, where failing is an answer. Not OK: nothing was judged. */
dcpk_status whole_try(struct whole *whole, dcpk_error *error);
/* Judges what was read back last. */
void whole_judge(struct whole *whole);
/* Ends a run that may have gone wrong: what is stalled or held goes on, dead boxes are armed, then it is closed. */
void whole_end_run(struct whole *whole);
void whole_close(struct whole *whole);
/* All of it; fails the test with the first thing wrong. */
void whole_must_be_right(dcpk_gen *gen, const char *text);

#endif
