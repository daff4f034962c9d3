/* test_layer_fused.c - a step of the whole layer against the fake driver: mla_query in front, the library's decode, in
 * every form of both; order, edges, refusals, workspace. */
#include "tests/layer_steps.h"

#include <stddef.h>

static const struct {
    const char *keys;
    int32_t form, boxed;
    const char *functions;
} steps[] = {
    {"heads=2 dcp=2 batch=4 splits=1", DCPK_LAYER_FUSED, 1, "dcpk_mla_query dcpk_mla_decode dcpk_dcp_value"},
    {"heads=2 dcp=2 batch=4 splits=1 poll=0", DCPK_LAYER_FUSED, 1,
     "dcpk_mla_query dcpk_query_wait dcpk_mla_decode dcpk_dcp_value"},
    {"heads=2 dcp=2 batch=4 splits=3 split=1", DCPK_LAYER_FUSED, 1,
     "dcpk_mla_query dcpk_mla_decode_split dcpk_mla_decode_reduce dcpk_dcp_value_push dcpk_dcp_value_merge"},
    /* two CTAs, one multiprocessor: neither grid is resident as a whole */
    {"heads=2 dcp=2 batch=4 splits=1 sms=8 reserve=7", DCPK_LAYER_FUSED, 1,
     "dcpk_mla_query dcpk_query_wait dcpk_mla_decode dcpk_dcp_value_push dcpk_dcp_value_merge"},
    {"heads=2 batch=4 splits=1", DCPK_LAYER_FUSED, 0, "dcpk_mla_query dcpk_mla_decode dcpk_dcp_value"},
    {"heads=2 batch=4 splits=2", DCPK_LAYER_FUSED, 0,
     "dcpk_mla_query dcpk_mla_decode_split dcpk_mla_decode_reduce dcpk_dcp_value"},
    {"heads=2 dcp=2 batch=4 splits=1", DCPK_LAYER_PUSH, 1,
     "dcpk_query_push dcpk_query_wait dcpk_mla_decode dcpk_dcp_value"},
    {"heads=2 dcp=2 batch=4 splits=2", DCPK_LAYER_PUSH, 1,
     "dcpk_query_push dcpk_query_wait dcpk_mla_decode_split dcpk_mla_decode_reduce dcpk_dcp_value"},
    {"heads=2 batch=4 splits=1", DCPK_LAYER_PUSH, 0, "dcpk_mla_decode dcpk_dcp_value"},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

START_TEST(whole_layer_launches_in_order_with_pdl_inside_and_a_full_edge_before) {
    connect_pair();
    dcpk_layer *layer = layer_of_form(steps[_i].keys, steps[_i].boxed ? boxes[0] : NULL, steps[_i].form, NULL);
    assert_step(layer, steps[_i].functions);
    ck_assert_int_eq(seen.calls, 0);
    close_layer(layer);
    ck_assert_int_eq(fake.state->libraries, 0);
}
END_TEST

START_TEST(fused_kernels_get_the_keys_they_take) {
    connect_pair();
    dcpk_layer *layer = fused_of("heads=2 dcp=2 batch=4 rope=half q_lora=0 page=32 interleave=16 splits=3 gate=0 "
                                 "poll=0 tiled_from=7",
                                 boxes[0]);
    static const char *const wanted[][4] = {
        {"mla_query ", "rope=half q_lora=0 tiled_from=7", "poll=0", "interleave=16"},
        {"query_wait ", "heads=2", "cap=64", "qh=4"},
        {"mla_decode ", "page=32 interleave=16 splits=3", "cap=64", "qh=4"},
        {"dcp_value ", "gate=0", "cap=64", "qh=4"}};
    ck_assert_int_eq(maker.count, 4);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            ck_assert_msg(strstr(maker.asked[i], wanted[i][k]) != NULL, "no '%s' in %s", wanted[i][k], maker.asked[i]);
    ck_assert_ptr_null(strstr(maker.asked[2], "rope="));
    ck_assert_ptr_null(strstr(maker.asked[3], "page="));
    close_layer(layer);
}
END_TEST

START_TEST(fused_layer_takes_the_engines_decode) {
    connect_pair();
    dcpk_layer *layer = layer_of_form("heads=2 dcp=2 batch=4", boxes[0], DCPK_LAYER_FUSED, decode);
    ck_assert_int_eq(maker.count, 2);
    assert_step(layer, "dcpk_mla_query dcpk_dcp_value");
    ck_assert_int_eq(seen.calls, 1);
    ck_assert_int_eq(seen.after, 1);
    ck_assert_uint_eq(seen.flags, 0);
    close_layer(layer);
}
END_TEST

START_TEST(flags_decide_the_edge_before_a_fused_step) {
    connect_pair();
    dcpk_layer *layer = fused_of("heads=2 dcp=2 batch=4 splits=2 split=1", boxes[0]);
    ck_assert_int_eq(dcpk_layer_step(layer, &args, NULL, chains[_i].flags, &error), DCPK_OK);
    ck_assert_int_eq(fake.state->launches, 5);
    assert_launch(0, "dcpk_mla_query", chains[_i].first);
    for (long i = 1; i < 5; i++)
        ck_assert_int_eq(fake.state->launch[i].pdl, 1);
    close_layer(layer);
}
END_TEST

/* A rank alone that makes no query: the decode is first, with the edge that the flags ask for. */
START_TEST(flags_decide_the_edge_before_a_decode_that_is_first) {
    dcpk_layer *layer = layer_of_form("heads=2 batch=4 splits=2", NULL, DCPK_LAYER_PUSH, NULL);
    ck_assert_int_eq(dcpk_layer_step(layer, &args, NULL, chains[_i].flags, &error), DCPK_OK);
    ck_assert_int_eq(fake.state->launches, 3);
    assert_launch(0, "dcpk_mla_decode_split", chains[_i].first);
    assert_launch(1, "dcpk_mla_decode_reduce", 1);
    assert_launch(2, "dcpk_dcp_value", 1);
    close_layer(layer);
}
END_TEST

static const struct {
    size_t offset;
    const char *needle;
} holes[] = {
    {offsetof(dcpk_args, qkv), "(dcpk_mla_query): argument qkv is 0"},
    {offsetof(dcpk_args, qc), "(dcpk_mla_query): argument qc is 0"}, /* store_qc=1 needs where to */
    {offsetof(dcpk_args, kv_cache), "(dcpk_mla_decode_split): argument kv_cache is 0"},
    {offsetof(dcpk_args, workspace), "(dcpk_mla_decode_split): argument workspace is 0"},
    {offsetof(dcpk_args, output), "(dcpk_dcp_value_merge): argument output is 0"},
};

START_TEST(missing_argument_of_any_kernel_launches_nothing) {
    connect_pair();
    dcpk_layer *layer = fused_of("heads=2 dcp=2 batch=4 store_qc=1 splits=2 split=1", boxes[0]);
    dcpk_args whole = args, bad;
    whole.qc = 0x9000;
    bad = whole;
    memset((char *)&bad + holes[_i].offset, 0, sizeof(uint64_t));
    ck_assert_int_eq(dcpk_layer_step(layer, &bad, NULL, 0, &error), DCPK_E_ARG);
    assert_text(holes[_i].needle);
    ck_assert_int_eq(fake.state->launches, 0);
    ck_assert_msg(dcpk_layer_step(layer, &whole, NULL, 0, &error) == DCPK_OK, "%s", error.text);
    ck_assert_int_eq(fake.state->launches, 5);
    close_layer(layer);
}
END_TEST

START_TEST(dead_box_refuses_a_fused_step) {
    connect_pair();
    dcpk_layer *layer = fused_of("heads=2 dcp=2 batch=4", boxes[0]);
    die(1, DCPK_KERNEL_mla_query, 0, 0, 0, 0, 0);
    ck_assert_int_eq(dcpk_layer_step(layer, &args, NULL, 0, &error), DCPK_E_BOX_DEAD);
    ck_assert_int_eq(fake.state->launches, 0);
    close_layer(layer);
}
END_TEST

START_TEST(options_of_the_size_before_form_open_a_push_layer) {
    connect_pair();
    dcpk_layer *layer = NULL;
    dcpk_provider provider = {.size = sizeof provider, .self = &maker, .get = make};
    dcpk_layer_options options = {.size = offsetof(dcpk_layer_options, form),
                                  .provider = &provider,
                                  .base = &base,
                                  .decode = decode,
                                  .decode_self = &seen,
                                  .form = 77}; /* whatever lies behind an older caller's struct */
    memset(&maker, 0, sizeof maker);
    ck_assert_int_eq(dcpk_spec_parse(&base, "layer heads=2 dcp=2 batch=4", &error), DCPK_OK);
    ck_assert_msg(dcpk_layer_open(devices[0], boxes[0], &options, &layer, &error) == DCPK_OK, "%s", error.text);
    ck_assert_ptr_nonnull(strstr(maker.asked[0], "query_push "));
    close_layer(layer);
    options.size = sizeof options;
    ck_assert_int_eq(dcpk_layer_open(devices[0], boxes[0], &options, &layer, &error), DCPK_E_ARG);
    assert_text("form=77 is neither 0 (push: query_push) nor 1 (fused: mla_query)");
    ck_assert_ptr_null(layer);
}
END_TEST

START_TEST(what_a_fused_layer_cannot_be_is_refused_with_its_rule) {
    static const struct {
        const char *keys;
        dcpk_status code;
        const char *needle;
    } rows[] = {
        {"heads=2 dcp=2 batch=4 sms=8 reserve=7 poll=1", DCPK_E_SPEC, "must be resident as a whole"},
        {"heads=2 dcp=2 batch=4 page=16 interleave=32", DCPK_E_SPEC, "interleave must divide page"},
        /* the last kernel: those before it are given back */
        {"heads=2 dcp=2 batch=4 sms=8 reserve=7 split=0", DCPK_E_SPEC, "with split=0 a grid polls"},
        {"heads=2 dcp=2 batch=5 q=2", DCPK_E_SPEC, "q must divide batch"},
    };
    connect_pair();
    dcpk_layer *layer = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_int_eq(open_form(rows[i].keys, boxes[0], DCPK_LAYER_FUSED, NULL, &layer), rows[i].code);
        assert_text(rows[i].needle);
        ck_assert_ptr_null(layer);
        ck_assert_int_eq(fake.state->libraries, 0);
    }
    ck_assert_int_eq(open_form("heads=2 batch=4 poll=1", NULL, DCPK_LAYER_FUSED, NULL, &layer), DCPK_E_SPEC);
    assert_text("there is no box at dcp=1");
}
END_TEST

/* The spec plans for more multiprocessors than the device has. */
START_TEST(polling_front_that_the_device_cannot_hold_names_the_spec_that_fits) {
    connect_pair();
    dcpk_layer *layer = NULL;
    fake.state->occupancy = 0;
    ck_assert_int_eq(open_form("heads=2 dcp=2 batch=4", boxes[0], DCPK_LAYER_FUSED, NULL, &layer), DCPK_E_RESIDENCY);
    assert_text("poll=0");
    assert_text("followed by query_wait");
    ck_assert_ptr_null(layer);
    ck_assert_int_eq(fake.state->libraries, 0);
}
END_TEST

START_TEST(fused_kernel_that_cannot_be_had_gives_no_layer) {
    connect_pair();
    for (int fail_at = 1; fail_at <= 4; fail_at++) {
        dcpk_layer *layer = NULL;
        dcpk_provider provider = {.size = sizeof provider, .self = &maker, .get = make};
        dcpk_layer_options options = {
            .size = sizeof options, .provider = &provider, .base = &base, .form = DCPK_LAYER_FUSED};
        ck_assert_int_eq(dcpk_spec_parse(&base, "layer heads=2 dcp=2 batch=4 poll=0", &error), DCPK_OK);
        memset(&maker, 0, sizeof maker);
        maker.fail_at = fail_at;
        ck_assert_int_eq(dcpk_layer_open(devices[0], boxes[0], &options, &layer, &error), DCPK_E_NOT_FOUND);
        ck_assert_int_eq(maker.count, fail_at);
        ck_assert_ptr_null(layer);
        ck_assert_int_eq(fake.state->libraries, 0);
    }
}
END_TEST

START_TEST(layer_says_the_workspace_of_its_decode) {
    static const struct {
        const char *keys;
        uint64_t bytes;
    } rows[] = {
        {"heads=2 dcp=2 batch=4 splits=3", 4 * 3 * 4 * 513 * 4},
        {"heads=2 dcp=2 batch=4 q=2 splits=3", 2 * 3 * 8 * 513 * 4},
        {"heads=2 dcp=2 batch=4 splits=1", 0},
        {"heads=2 dcp=2 batch=4 sms=10 pv=f16", 4 * 5 * 4 * 513 * 4}, /* 2 * 10 / (4 requests * 1 tile) */
        {"heads=2 dcp=2 batch=4 sms=10", 10 * (8 * 1024 + 20 * 4)},   /* 10 columns of 8 rows (4, in eights) */
    };
    connect_pair();
    uint64_t bytes = 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        dcpk_layer *layer = fused_of(rows[i].keys, boxes[0]);
        ck_assert_int_eq(dcpk_layer_workspace(layer, &bytes, &error), DCPK_OK);
        ck_assert_msg(bytes == rows[i].bytes, "%s: %llu", rows[i].keys, (unsigned long long)bytes);
        close_layer(layer);
    }
    dcpk_layer *layer = layer_of("heads=2 dcp=2 batch=4", boxes[0]); /* the engine decodes */
    bytes = 1;
    ck_assert_int_eq(dcpk_layer_workspace(layer, &bytes, &error), DCPK_OK);
    ck_assert_uint_eq(bytes, 0);
    ck_assert_int_eq(dcpk_layer_workspace(layer, NULL, &error), DCPK_E_ARG);
    close_layer(layer);
    ck_assert_int_eq(dcpk_layer_workspace(NULL, &bytes, &error), DCPK_E_ARG);
}
END_TEST

/* What a user gets by default on sm_90a: a decode whose CTAs meet, in memory that says no sum of another launch. */
START_TEST(default_decode_is_refused_until_its_workspace_is_armed) {
    connect_pair();
    dcpk_layer *layer = fused_of("heads=2 dcp=2 batch=4", boxes[0]);
    dcpk_args ready = args;
    uint64_t bytes;
    ck_assert_int_eq(dcpk_layer_workspace(layer, &bytes, &error), DCPK_OK);
    ck_assert_uint_gt(bytes, 0);
    ck_assert_int_eq(dcpk_mem_alloc(devices[0], bytes, &ready.workspace, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_layer_step(layer, &ready, NULL, 0, &error), DCPK_E_ARG);
    assert_text("are not armed on this device (never, or not since a kernel with splits of its own used them): call "
                "dcpk_workspace_arm once, before the first launch");
    ck_assert_int_eq(fake.state->launches, 0);
    ck_assert_int_eq(dcpk_workspace_arm(devices[0], ready.workspace, bytes, &error), DCPK_OK);
    for (int step = 0; step < 2; step++)
        ck_assert_msg(dcpk_layer_step(layer, &ready, NULL, 0, &error) == DCPK_OK, "%s", error.text);
    ck_assert_int_eq(fake.state->launches, 2 * 3);
    close_layer(layer);
    ck_assert_int_eq(dcpk_mem_free(devices[0], ready.workspace, &error), DCPK_OK);
}
END_TEST

/* The portable form, the default elsewhere, adds its splits up in a kernel of its own. */
START_TEST(portable_decode_asks_for_no_arming) {
    connect_pair();
    dcpk_layer *layer = fused_of("heads=2 dcp=2 batch=4 pv=f16", boxes[0]);
    ck_assert_msg(dcpk_layer_step(layer, &args, NULL, 0, &error) == DCPK_OK, "%s", error.text);
    assert_launch(1, "dcpk_mla_decode_split", 1);
    close_layer(layer);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("layer_fused");
    TCase *tests = tcase_create("layer_fused");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, whole_layer_launches_in_order_with_pdl_inside_and_a_full_edge_before, 0, STEPS);
    tcase_add_test(tests, fused_kernels_get_the_keys_they_take);
    tcase_add_test(tests, fused_layer_takes_the_engines_decode);
    tcase_add_loop_test(tests, flags_decide_the_edge_before_a_fused_step, 0, CHAINS);
    tcase_add_loop_test(tests, flags_decide_the_edge_before_a_decode_that_is_first, 0, CHAINS);
    tcase_add_loop_test(tests, missing_argument_of_any_kernel_launches_nothing, 0,
                        (int)(sizeof holes / sizeof holes[0]));
    tcase_add_test(tests, dead_box_refuses_a_fused_step);
    tcase_add_test(tests, options_of_the_size_before_form_open_a_push_layer);
    tcase_add_test(tests, what_a_fused_layer_cannot_be_is_refused_with_its_rule);
    tcase_add_test(tests, polling_front_that_the_device_cannot_hold_names_the_spec_that_fits);
    tcase_add_test(tests, fused_kernel_that_cannot_be_had_gives_no_layer);
    tcase_add_test(tests, layer_says_the_workspace_of_its_decode);
    tcase_add_test(tests, default_decode_is_refused_until_its_workspace_is_armed);
    tcase_add_test(tests, portable_decode_asks_for_no_arming);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
