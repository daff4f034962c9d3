/* test_whole.c - the whole layer on the CPU device: every rank's queries, caches, partial rows, LSE and outputs against
 * FP64, in both forms of spec.md decision 9, over ranks, shards, interleaves, pages, query rows and forms.
 * Judges: tools/layer_judge.h. */
#include <tests/whole.h>

#include <check.h>

static const char *const layers[] = {
    /* ranks; three steps in the three forms, then more: both parities of the box in each */
    "heads=2 dcp=1 context=1,65,130 steps=3",
    "heads=2 dcp=2 context=1,65,130 steps=6",
    "heads=2 dcp=3 context=1,2,70,5 steps=6",
    "heads=2 dcp=4 context=3,1,200 steps=3",
    "heads=1 dcp=8 context=1,9,100 steps=3",
    /* empty shards: interleave 64 leaves all but rank 0 empty; requests that grow into the next rank's block */
    "heads=2 dcp=4 interleave=64 context=1,64,65,129 steps=3",
    "heads=1 dcp=8 interleave=16 page=16 context=2,17,300 steps=3",
    "heads=2 dcp=2 interleave=16 page=32 context=16,33,31 steps=3",
    /* padding between and after requests */
    "heads=2 dcp=2 context=0,40,0,1 batch=6 steps=3",
    "heads=2 dcp=2 context=0,0 steps=3",
    /* several query rows: all on one rank (interleave 64), spread (interleave 1), a request shorter than q */
    "heads=3 dcp=2 q=2 context=7,130 steps=3",
    "heads=2 dcp=4 q=4 context=2,64,67 steps=3",
    "heads=2 dcp=4 q=4 interleave=64 context=64,66,3 steps=3",
    "heads=1 dcp=2 q=8 interleave=16 page=16 context=20,5,0 steps=3",
    /* pages and pitches larger than needed */
    "heads=2 dcp=2 page=16 gap=4096 pitch=1000 context=50,1 steps=3",
    "heads=2 dcp=2 cap=100 qh=7 gap=16 context=70,1 steps=6",
    /* splits */
    "heads=2 dcp=2 splits=5 context=700,1,64 steps=3",
    "heads=20 dcp=2 splits=1 context=65,3 steps=3",
    "heads=33 dcp=1 splits=1 sigma=300 context=300 steps=1",
    "heads=12 dcp=2 q=2 nan=4 context=5,70 steps=1",
    /* scores: skewed, extreme, with a mean */
    "heads=2 dcp=2 sigma=3 context=300,20 steps=3",
    "heads=2 dcp=2 sigma=30 context=300,20 steps=3",
    "heads=2 dcp=2 mean=1 context=300,20 steps=3",
    "heads=2 dcp=2 q_scale=0.5 k_scale=2 context=65,20 steps=3",
    "heads=2 dcp=2 sigma=30 context=1,2,3 steps=3",
    "heads=2 dcp=2 sigma=300 splits=1 context=300 steps=1",
    /* eps that counts; a table as short as its tile is long */
    "heads=2 dcp=2 eps=0.5 context=5,17 steps=3",
    "heads=1 dcp=2 page=16 splits=1 context=1 steps=3",
    /* a NaN in a living request: q_a, kv_c, k_pe */
    "heads=2 dcp=2 q=2 nan=4 context=5,70 steps=3",
    "heads=2 dcp=3 nan=1600 context=5,17 steps=3",
    "heads=2 dcp=2 nan=2054 rope=half context=5,17 steps=3",
    /* forms and keys */
    "heads=2 dcp=2 publish=multicast context=1,65,130 steps=6",
    "heads=2 dcp=3 publish=multicast checked=1 q=2 context=9,65 steps=3",
    "heads=2 dcp=2 poll=0 form=fused context=1,65 steps=2",
    "heads=2 dcp=2 poll=1 form=fused chain=1 context=1,65 steps=4",
    "heads=2 dcp=2 split=1 context=1,65 steps=3",
    "heads=2 dcp=2 split=1 poll=0 phased=1 context=1,65 steps=3",
    "heads=2 dcp=2 parity=arg tiled_from=1 context=1,65 steps=3",
    "heads=2 dcp=2 rope=half theta=50000 context=1,65 steps=3",
    "heads=2 dcp=2 rope=interleaved context=1,65,0 steps=3",
    "heads=2 dcp=2 q_lora=0 gate=0 rope=half context=1,65,0 steps=3",
    "heads=17 dcp=2 batch=18 context=5 steps=3",
};
enum { LAYERS = sizeof layers / sizeof *layers };

START_TEST(layer_is_right_on_every_rank) {
    dcpk_gen *gen = exchange_gen("templates/checks");
    whole_must_be_right(gen, layers[_i]);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("whole");
    TCase *tests = tcase_create("whole");
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, layer_is_right_on_every_rank, 0, LAYERS);
    return exchange_main(suite);
}
