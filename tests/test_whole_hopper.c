/* test_whole_hopper.c - the whole layer on the CPU device with mla_decode's form for sm_90a (pv=fp8: TMA, wgmma,
 * columns): as test_whole.c, over what that form does differently: row groups, pairs, splits that meet, the ring.
 * Judges: tools/layer_judge.h. */
#include <tests/whole.h>

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const layers[] = {
    /* rows of a CTA: 8, 16, 24, 40, 56, 64; groups: 2 x 40, 2 x 48, 2 x 64 (pairs from 16 requests), 3 x 64, 5 x 56 */
    "heads=2 dcp=1 context=1,65,130",
    "heads=16 dcp=1 splits=1 context=1,64,65,300",
    "heads=12 dcp=2 splits=2 context=129,1,63",
    "heads=10 dcp=4 splits=1 context=200,5",
    "heads=56 dcp=1 splits=3 context=200",
    "heads=32 dcp=2 splits=2 context=150,1",
    "heads=20 dcp=4 splits=1 context=200,1",
    "heads=12 dcp=8 splits=2 context=150,9",
    "heads=16 dcp=8 splits=1 context=150,0,300 batch=17",
    "heads=24 dcp=2 q=4 splits=1 context=130",
    "heads=34 dcp=1 q=8 splits=1 context=130",
    /* ranks and shards: empty ones, interleaves, requests that grow into the next rank's block */
    "heads=2 dcp=2 context=1,65,130 steps=6",
    "heads=2 dcp=3 context=1,2,70,5 steps=6",
    "heads=1 dcp=8 context=1,9,100 steps=3",
    "heads=2 dcp=4 interleave=64 context=1,64,65,129 steps=3",
    "heads=1 dcp=8 interleave=16 page=16 context=2,17,300 steps=3",
    "heads=2 dcp=2 interleave=16 page=32 context=16,33,31 steps=3",
    /* padding between and after requests */
    "heads=2 dcp=2 context=0,40,0,1 batch=6 steps=3",
    "heads=2 dcp=2 context=0,0 steps=3",
    /* several query rows: all on one rank, spread, a request shorter than q, more rows than keys */
    "heads=3 dcp=2 q=2 context=7,130 steps=3",
    "heads=2 dcp=4 q=4 context=2,64,67 steps=3",
    "heads=2 dcp=4 q=4 interleave=64 context=64,66,3 steps=3",
    "heads=1 dcp=2 q=8 interleave=16 page=16 context=20,5,0 steps=3",
    "heads=16 dcp=1 q=8 splits=2 context=70,20",
    /* pages of each size with pairs, strides, pitches */
    "heads=2 dcp=2 page=16 gap=4096 pitch=1000 context=50,1 steps=3",
    "heads=40 dcp=2 page=16 splits=2 context=150 batch=16",
    "heads=40 dcp=2 page=32 splits=1 gap=64 context=150 batch=16",
    "heads=48 dcp=2 page=64 splits=1 gap=1024 context=150 batch=16",
    "heads=2 dcp=2 cap=100 qh=7 gap=16 context=70,1 steps=6",
    /* splits of the caller's: few, more than tiles */
    "heads=4 dcp=1 splits=2 context=700,1,64",
    "heads=64 dcp=1 splits=3 context=300,64",
    "heads=2 dcp=2 splits=5 context=700,1,64 steps=3",
    "heads=2 dcp=2 splits=256 context=300,1",
    /* columns dealt out in the kernel: few and many splits of a request, several owners of a pair of rows and several
     * pairs of an owner, columns without work, one more than requests, more requests than a warp has lanes, pairs */
    "heads=4 dcp=1 splits=auto sms=8 context=700,1,64",
    "heads=16 dcp=1 splits=auto sms=132 context=1500",
    "heads=1 dcp=1 splits=auto sms=132 context=8500",
    "heads=64 dcp=1 splits=auto sms=7 context=300,64",
    "heads=56 dcp=1 splits=auto sms=3 context=150,64",
    "heads=2 dcp=2 splits=auto sms=9 context=700,1,64 steps=3",
    "heads=2 dcp=2 splits=auto sms=3 context=300,1 steps=3",
    "heads=2 dcp=1 splits=auto sms=36 "
    "context=1,65,3,0,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,300,64",
    "heads=40 dcp=2 splits=auto sms=12 page=16 context=300,64",
    "heads=40 dcp=2 splits=auto sms=40 page=16 context=700,64 batch=16",
    "heads=24 dcp=2 q=4 splits=auto sms=132 context=300,130",
    "heads=2 dcp=2 splits=auto sms=16 context=0,140,0,1 batch=6 steps=3",
    "heads=2 dcp=2 splits=auto sms=16 q=2 interleave=16 page=16 nan=4 context=5,170 steps=3",
    "heads=2 dcp=2 splits=auto sms=16 sigma=30 context=300,20 steps=3",
    "heads=16 dcp=1 splits=auto sms=20 mean=1 context=1500",
    /* few tiles: 2, 3, 4 CTAs take the rows of one, pairs and boxes among them, with as many tiles as they do it for,
     * a CTA without rows; steps that leave it (384 keys are the most) */
    "heads=64 dcp=1 splits=auto sms=132 context=1000",
    "heads=18 dcp=1 splits=auto sms=6 context=383 steps=4",
    "heads=20 dcp=2 splits=auto sms=16 context=300,0,64 steps=3",
    "heads=64 dcp=1 splits=auto sms=25 context=700,0,1,129",
    "heads=33 dcp=2 splits=auto sms=30 page=16 context=500",
    "heads=33 dcp=2 splits=auto sms=80 page=16 context=300,64 batch=16",
    "heads=48 dcp=2 splits=auto sms=36 context=500,64",
    "heads=34 dcp=1 q=8 splits=auto sms=132 context=600",
    "heads=9 dcp=2 q=2 splits=auto sms=24 interleave=16 page=16 nan=4 context=5,170 steps=3",
    /* a ring that goes round: more tiles than stages */
    "heads=4 dcp=1 splits=1 context=1000",
    "heads=64 dcp=1 splits=1 context=400",
    /* scores: skewed, extreme, with a mean; subnormal and huge scales */
    "heads=2 dcp=2 sigma=3 context=300,20 steps=3",
    "heads=2 dcp=2 sigma=30 context=300,20 steps=3",
    "heads=2 dcp=2 mean=1 context=300,20 steps=3",
    "heads=16 dcp=1 mean=1 splits=1 context=1500",
    "heads=2 dcp=2 q_scale=0.5 k_scale=2 context=65,20 steps=3",
    "heads=2 dcp=2 sigma=30 context=1,2,3 steps=3",
    "heads=2 dcp=2 sigma=300 splits=1 context=300",
    "heads=24 dcp=2 sigma=300 splits=1 context=250",
    "heads=64 dcp=1 sigma=300 context=1,64,65",
    /* a NaN in a living request: q_a, kv_c, k_pe */
    "heads=2 dcp=2 q=2 nan=4 context=5,70 steps=3",
    "heads=2 dcp=3 nan=1600 context=5,17 steps=3",
    "heads=2 dcp=2 nan=2054 rope=half context=5,17 steps=3",
    /* forms of the step around it */
    "heads=2 dcp=2 publish=multicast context=1,65,130 steps=3",
    "heads=2 dcp=2 poll=1 form=fused chain=1 context=1,65 steps=4",
    /* chained steps: a tile that the step before filled is not read before the wait */
    "heads=2 dcp=2 splits=1 form=fused chain=1 random=1 context=126 steps=4",
    "heads=9 dcp=2 splits=auto sms=6 form=wait chain=1 random=1 context=510 steps=4",
    "heads=2 dcp=2 split=1 poll=0 phased=1 context=1,65 steps=3",
    "heads=2 dcp=2 parity=arg context=1,65 steps=3",
};
enum { LAYERS = sizeof layers / sizeof *layers };

START_TEST(layer_is_right_on_every_rank) {
    dcpk_gen *gen = exchange_gen("templates/checks");
    char text[256];
    bool all_forms = strstr(layers[_i], "steps=") != NULL; /* else one step that begins with ready rows */
    snprintf(text, sizeof text, "pv=fp8 %s%s", layers[_i], all_forms ? "" : " steps=1 form=pushed");
    whole_must_be_right(gen, text);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("whole_hopper");
    TCase *tests = tcase_create("whole");
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, layer_is_right_on_every_rank, 0, LAYERS);
    return exchange_main(suite);
}
