/* test_layer_dead.c - when a rank stops in the middle of the whole layer: everyone leaves in time, outputs are NaN or
 * right, the status names what never came, and after a re-arm the layer is right again, whatever words come late.
 * May call: tests/dead_layer.h. */
#include <tests/dead_layer.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#define TWO "heads=2 dcp=2 form=fused splits=1 context=5,0 steps=4"
#define TALL "heads=1 dcp=2 form=fused splits=1 context=5,17,0 batch=18 steps=4"
#define THREE "heads=1 dcp=3 form=fused splits=1 context=5,17 steps=4"
#define MEET "pv=fp8 heads=2 dcp=2 form=fused splits=auto sms=6 context=140,17 steps=4"
#define PAIRS "pv=fp8 heads=40 dcp=2 form=fused splits=auto sms=12 context=140,5 steps=4"
#define FOLDED "pv=fp8 heads=40 dcp=2 form=fused splits=auto sms=12 context=140 steps=4"

static const struct {
    const char *layer;
    struct dead_stop stop;
} stops[] = {
    {TWO, {"mla_query", "dcpk_mla_query", 0, true, false, false}},
    {THREE, {"mla_query", "dcpk_mla_query", 50, true, false, false}},
    {THREE, {"mla_query", "dcpk_mla_query", 50, true, true, false}},
    {TALL, {"mla_query", "dcpk_mla_query", 60, true, false, false}},
    {TWO, {"mla_decode", "dcpk_mla_decode", 0, true, false, false}},
    {THREE, {"mla_decode", "dcpk_mla_decode", 50, true, false, false}},
    {THREE, {"dcp_value", "dcpk_dcp_value", 1, true, false, false}},
    {TALL, {"dcp_value", "dcpk_dcp_value", 12, false, false, false}},
    {THREE, {"dcp_value", "dcpk_dcp_value", 30, false, true, false}},
    {TALL, {"dcp_value", "dcpk_dcp_value", 60, false, false, false}},
    {THREE, {"dcp_value", "dcpk_dcp_value", 90, false, true, false}},
    {TWO " poll=0", {"mla_query", "dcpk_mla_query", 50, true, true, false}},
    {TWO " poll=0", {"query_wait", "dcpk_query_wait", 10, true, false, false}},
    {THREE " poll=0", {"query_wait", "dcpk_query_wait", 60, true, true, false}},
    {THREE " publish=multicast", {"mla_query", "dcpk_mla_query", 50, true, true, false}},
    {THREE " checked=1", {"mla_query", "dcpk_mla_query", 0, true, false, false}},
    {TWO " checked=1 parity=arg", {"mla_query", "dcpk_mla_query", 50, true, true, false}},
    {THREE, {"mla_query", "dcpk_mla_query", 0, true, false, true}},
    {THREE, {"mla_decode", "dcpk_mla_decode", 20, true, false, true}},
    {THREE " split=1", {"dcp_value", "dcpk_dcp_value_push", 2, true, false, false}},
    {TWO " split=1 chain=1", {"dcp_value", "dcpk_dcp_value_merge", 20, false, true, false}},
    {"heads=2 dcp=2 form=fused splits=2 context=140,17 steps=4",
     {"mla_decode", "dcpk_mla_decode_split", 40, true, false, false}},
    {"heads=2 dcp=2 form=fused splits=2 context=140,17 steps=4",
     {"mla_decode", "dcpk_mla_decode_reduce", 2, true, false, false}},
    {"heads=1 dcp=3 form=wait splits=1 context=5,17 steps=4",
     {"query_norm", "dcpk_query_norm", 50, true, false, false}},
    {"heads=2 dcp=2 q=2 form=fused splits=1 q_lora=0 gate=0 context=5,17 steps=4",
     {"mla_query", "dcpk_mla_query", 40, true, false, false}},
    {MEET, {"mla_query", "dcpk_mla_query", 50, true, false, false}},
    {MEET, {"mla_decode", "dcpk_mla_decode", 40, true, true, false}},
    {PAIRS, {"mla_decode", "dcpk_mla_decode", 30, true, false, false}},
    {FOLDED, {"mla_decode", "dcpk_mla_decode", 30, true, false, false}},
};
enum { STOPS = sizeof stops / sizeof *stops };

/* In a random order polls take most of the instructions, sometimes fewer in step 1 than in step 0: a quarter of the way
 * is one that every order gets. */
static void survive(int i, const char *more) {
    struct dead_stop stop = stops[i].stop;
    if (more[0] != 0) stop.percent /= 4;
    char text[512], what[DEAD_SENTENCE];
    struct whole *whole = calloc(1, sizeof *whole);
    ck_assert_ptr_nonnull(whole);
    dcpk_gen *gen = exchange_gen("templates/checks");
    snprintf(text, sizeof text, "%s%s", stops[i].layer, more);
    whole_make(whole, gen, text);
    bool good = dead_layer_holds(whole, &stop, what);
    ck_assert_msg(good, "%s, stopped at %u%% of %s: %s", text, stop.percent, stop.entry, what);
    whole_close(whole);
    free(whole);
    dcpk_gen_close(gen);
}

START_TEST(rank_that_stops_is_left_named_and_rejoined) {
    survive(_i, "");
}
END_TEST

START_TEST(rank_that_stops_is_left_named_and_rejoined_in_random_order) {
    char more[32];
    snprintf(more, sizeof more, " random=%d", 700 + _i);
    survive(_i, more);
}
END_TEST

START_TEST(every_chunk_of_the_query_is_polled) {
    static const char *const layers[] = {"heads=1 dcp=2 form=fused context=5,6,7,8,9,10,11,12",
                                         "heads=2 dcp=2 form=fused context=5,6,7,8,9 qh=7 cap=9"};
    char what[DEAD_SENTENCE];
    struct whole *whole = calloc(1, sizeof *whole);
    ck_assert_ptr_nonnull(whole);
    dcpk_gen *gen = exchange_gen("templates/checks");
    whole_make(whole, gen, layers[_i]);
    ck_assert_msg(dead_layer_polls_every_chunk(whole, what), "%s: %s", layers[_i], what);
    whole_close(whole);
    free(whole);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("layer_dead");
    TCase *tests = tcase_create("layer_dead");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, rank_that_stops_is_left_named_and_rejoined, 0, STOPS);
    tcase_add_loop_test(tests, rank_that_stops_is_left_named_and_rejoined_in_random_order, 0, STOPS);
    tcase_add_loop_test(tests, every_chunk_of_the_query_is_polled, 0, 2);
    return exchange_main(suite);
}
