/* test_layer.c - a layer step against the fake driver: which kernels, in which order, with which edges between them.
 * Here the form that pushes ready query rows, with the engine's decode; test_layer_fused.c: the whole layer. */
#include "tests/layer_steps.h"

START_TEST(each_kernel_gets_the_keys_it_takes) {
    connect_pair();
    dcpk_layer *layer = layer_of("heads=2 dcp=2 batch=4 gate=0 split=1", boxes[0]);
    ck_assert_int_eq(maker.count, 3);
    ck_assert_ptr_nonnull(strstr(maker.asked[0], "query_push arch=sm_90a heads=2 dcp=2 batch=4"));
    ck_assert_ptr_null(strstr(maker.asked[0], "gate="));
    ck_assert_ptr_nonnull(strstr(maker.asked[1], "query_wait arch=sm_90a heads=2 dcp=2 batch=4"));
    ck_assert_ptr_null(strstr(maker.asked[1], "publish="));
    ck_assert_ptr_nonnull(strstr(maker.asked[2], "dcp_value arch=sm_90a heads=2 dcp=2 batch=4"));
    ck_assert_ptr_nonnull(strstr(maker.asked[2], "split=1"));
    ck_assert_ptr_nonnull(strstr(maker.asked[2], "gate=0"));
    close_layer(layer);
}
END_TEST

START_TEST(keys_left_open_follow_the_box) {
    dcpk_box_shape wide = shape;
    wide.cap = 128;
    wide.qh = 6;
    dcpk_box *pair[2];
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(dcpk_box_create(devices[r], &wide, r, &pair[r], &error), DCPK_OK);
    ck_assert_int_eq(dcpk_box_connect(pair, 2, &error), DCPK_OK);
    dcpk_layer *layer = layer_of("heads=2 dcp=2 batch=4", pair[0]);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(strstr(maker.asked[i], "cap=128"));
        ck_assert_ptr_nonnull(strstr(maker.asked[i], "qh=6"));
    }
    close_layer(layer);
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(dcpk_box_destroy(pair[r], &error), DCPK_OK);
}
END_TEST

START_TEST(step_launches_in_order_with_pdl_inside_and_a_full_edge_before) {
    connect_pair();
    dcpk_layer *layer = layer_of("heads=2 dcp=2 batch=4 split=0", boxes[0]);
    ck_assert_msg(dcpk_layer_step(layer, &args, NULL, 0, &error) == DCPK_OK, "%s", error.text);
    ck_assert_int_eq(fake.state->launches, 3);
    assert_launch(0, "dcpk_query_push", 0);
    assert_launch(1, "dcpk_query_wait", 1);
    assert_launch(2, "dcpk_dcp_value", 1);
    ck_assert_int_eq(seen.calls, 1);
    ck_assert_int_eq(seen.after, 2);
    ck_assert_uint_eq(seen.flags, 0);
    close_layer(layer);
}
END_TEST

START_TEST(split_step_has_push_then_merge) {
    connect_pair();
    dcpk_layer *layer = layer_of("heads=2 dcp=2 batch=4 split=1", boxes[0]);
    ck_assert_int_eq(dcpk_layer_step(layer, &args, NULL, 0, &error), DCPK_OK);
    ck_assert_int_eq(fake.state->launches, 4);
    assert_launch(2, "dcpk_dcp_value_push", 1);
    assert_launch(3, "dcpk_dcp_value_merge", 1);
    ck_assert_int_eq(seen.after, 2);
    close_layer(layer);
}
END_TEST

START_TEST(flags_decide_the_edge_before_the_step) {
    connect_pair();
    dcpk_layer *layer = layer_of("heads=2 dcp=2 batch=4 split=1", boxes[0]);
    ck_assert_int_eq(dcpk_layer_step(layer, &args, NULL, chains[_i].flags, &error), DCPK_OK);
    assert_launch(0, "dcpk_query_push", chains[_i].first);
    for (long i = 1; i < 4; i++)
        ck_assert_int_eq(fake.state->launch[i].pdl, 1);
    ck_assert_uint_eq(seen.flags, chains[_i].flags & (uint32_t)DCPK_LAUNCH_CHAIN_WAITS);
    close_layer(layer);
}
END_TEST

START_TEST(last_kernel_learns_of_chain_waits) {
    connect_pair();
    dcpk_layer *layer = layer_of("heads=2 dcp=2 batch=4 split=1", boxes[0]);
    for (uint32_t chain = 0; chain <= 1; chain++) {
        fake.reset();
        fake.state->param_bytes[0] = fake.state->param_bytes[1] = 4; /* second parameter of the merge: chain_waits */
        fake.state->param_count = 2;
        ck_assert_int_eq(dcpk_layer_step(layer, &args, NULL, chain ? DCPK_LAUNCH_CHAIN_WAITS : 0, &error), DCPK_OK);
        ck_assert_str_eq(fake.state->last.function, "dcpk_dcp_value_merge");
        ck_assert_uint_eq(fake.state->last.param[1], chain);
    }
    close_layer(layer);
}
END_TEST

START_TEST(one_rank_neither_pushes_nor_waits) {
    dcpk_layer *layer = layer_of("heads=2 batch=4", NULL);
    ck_assert_int_eq(maker.count, 1);
    ck_assert_int_eq(dcpk_layer_step(layer, &args, NULL, DCPK_LAUNCH_FRESH_WEIGHTS, &error), DCPK_OK);
    ck_assert_int_eq(fake.state->launches, 1);
    assert_launch(0, "dcpk_dcp_value", 1);
    ck_assert_int_eq(seen.after, 0);
    ck_assert_uint_eq(seen.flags, DCPK_LAUNCH_FIRST | DCPK_LAUNCH_FRESH_WEIGHTS); /* the decode is first here */
    close_layer(layer);
}
END_TEST

START_TEST(bad_argument_of_the_last_kernel_launches_nothing) {
    connect_pair();
    dcpk_layer *layer = layer_of("heads=2 dcp=2 batch=4 split=1", boxes[0]);
    dcpk_args bad = args;
    bad.output = 0;
    ck_assert_int_eq(dcpk_layer_step(layer, &bad, NULL, 0, &error), DCPK_E_ARG);
    ck_assert_ptr_nonnull(strstr(error.text, "(dcpk_dcp_value_merge): argument output is 0"));
    ck_assert_int_eq(fake.state->launches, 0);
    ck_assert_int_eq(seen.calls, 0);
    close_layer(layer);
}
END_TEST

START_TEST(failing_decode_ends_the_step) {
    connect_pair();
    dcpk_layer *layer = layer_of("heads=2 dcp=2 batch=4", boxes[0]);
    seen.answer = DCPK_E_DRIVER;
    ck_assert_int_eq(dcpk_layer_step(layer, &args, NULL, 0, &error), DCPK_E_DRIVER);
    ck_assert_int_eq(fake.state->launches, 2);
    close_layer(layer);
}
END_TEST

START_TEST(kernel_that_cannot_be_had_gives_no_layer) {
    connect_pair();
    for (int fail_at = 1; fail_at <= 3; fail_at++) {
        dcpk_layer *layer = NULL;
        dcpk_provider provider = {.size = sizeof provider, .self = &maker, .get = make};
        dcpk_layer_options options = {
            .size = sizeof options, .provider = &provider, .base = &base, .decode = decode, .decode_self = &seen};
        ck_assert_int_eq(dcpk_spec_parse(&base, "dcp_value heads=2 dcp=2 batch=4", &error), DCPK_OK);
        memset(&maker, 0, sizeof maker);
        maker.fail_at = fail_at;
        ck_assert_int_eq(dcpk_layer_open(devices[0], boxes[0], &options, &layer, &error), DCPK_E_NOT_FOUND);
        ck_assert_ptr_null(layer);
        ck_assert_int_eq(fake.state->libraries, 0);
    }
}
END_TEST

START_TEST(box_and_dcp_must_go_together) {
    dcpk_layer *layer = NULL;
    ck_assert_int_eq(open_layer("heads=2 dcp=2 batch=4", NULL, &layer), DCPK_E_ARG);
    ck_assert_ptr_nonnull(strstr(error.text, "needs a box"));
    ck_assert_int_eq(open_layer("heads=2 batch=4", boxes[0], &layer), DCPK_E_ARG);
    ck_assert_int_eq(open_layer("heads=2 dcp=2 batch=4", boxes[1], &layer), DCPK_E_ARG);
    ck_assert_ptr_nonnull(strstr(error.text, "the box is on device 1, the layer on device 0"));
    ck_assert_int_eq(open_layer("heads=65 dcp=16 batch=4", boxes[0], &layer), DCPK_E_SPEC);
}
END_TEST

START_TEST(layer_captured_in_a_graph_is_not_closed_under_it) {
    connect_pair();
    dcpk_layer *layer = _i == 0 ? layer_of("heads=2 dcp=2 batch=4", boxes[0])
                                : fused_of("heads=2 dcp=2 batch=4 splits=2 poll=0", boxes[0]);
    int stream;
    fake.state->capturing = DRIVER_CAPTURE_ACTIVE;
    fake.state->capture_id = 5;
    ck_assert_int_eq(dcpk_layer_step(layer, &args, &stream, 0, &error), DCPK_OK);
    fake.state->capturing = 0;
    ck_assert_int_eq(dcpk_layer_close(layer, &error), DCPK_E_BOX_BUSY);
    ck_assert_int_eq(fake.state->libraries, 3 + _i); /* none of them is gone */
    ck_assert_int_eq(dcpk_box_destroy(boxes[0], &error), DCPK_E_BOX_BUSY);
    fake.drop_graph();
    close_layer(layer);
    ck_assert_int_eq(fake.state->libraries, 0);
}
END_TEST

START_TEST(event_ordered_box_gets_no_layer) {
    dcpk_box_shape ordered = shape;
    ordered.event_ordered = 1;
    dcpk_box *box = NULL;
    dcpk_layer *layer = NULL;
    ck_assert_int_eq(dcpk_box_create(devices[0], &ordered, 0, &box, &error), DCPK_OK);
    ck_assert_int_eq(open_layer("heads=2 dcp=2 batch=4 split=1", box, &layer), DCPK_E_ARG);
    ck_assert_ptr_nonnull(strstr(error.text, "event_ordered"));
    ck_assert_ptr_nonnull(strstr(error.text, "phase by phase"));
    ck_assert_ptr_null(layer);
    ck_assert_int_eq(dcpk_box_destroy(box, &error), DCPK_OK);
}
END_TEST

/* The n-th driver call of closing fails, for every n. _i: how many kernels the layer has, but for three. */
START_TEST(layer_that_the_driver_keeps_can_be_closed_again) {
    connect_pair();
    long failures = 0;
    for (long n = 1;; n++) {
        const char *keys = "heads=2 dcp=2 batch=4 split=1 poll=0 pv=f16"; /* no workspace to arm */
        dcpk_layer *layer = _i == 0 ? layer_of(keys, boxes[0]) : fused_of(keys, boxes[0]);
        fake.state->fail_at = n;
        fake.state->fail_with = DRIVER_NOT_READY;
        dcpk_status status = dcpk_layer_close(layer, &error);
        bool used = fake.state->fail_at == 0;
        cu_context popped;
        fake.state->fail_at = 0;
        if (used && strcmp(fake.state->call[n - 1], "cuCtxPopCurrent_v2") == 0) devices[0]->driver.ctx_pop(&popped);
        if (status != DCPK_OK) {
            failures++;
            bool begun = fake.state->libraries < 3 + _i;
            ck_assert_int_gt(fake.state->libraries, 0);
            ck_assert_int_eq(dcpk_layer_step(layer, &args, NULL, 0, &error), begun ? DCPK_E_ARG : DCPK_OK);
            close_layer(layer);
        }
        ck_assert_int_eq(fake.state->libraries, 0);
        if (!used) break;
    }
    ck_assert_int_ge(failures, 3 + _i);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("layer");
    TCase *tests = tcase_create("layer");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, each_kernel_gets_the_keys_it_takes);
    tcase_add_test(tests, keys_left_open_follow_the_box);
    tcase_add_test(tests, step_launches_in_order_with_pdl_inside_and_a_full_edge_before);
    tcase_add_test(tests, split_step_has_push_then_merge);
    tcase_add_loop_test(tests, flags_decide_the_edge_before_the_step, 0, CHAINS);
    tcase_add_test(tests, last_kernel_learns_of_chain_waits);
    tcase_add_test(tests, one_rank_neither_pushes_nor_waits);
    tcase_add_test(tests, bad_argument_of_the_last_kernel_launches_nothing);
    tcase_add_test(tests, failing_decode_ends_the_step);
    tcase_add_test(tests, kernel_that_cannot_be_had_gives_no_layer);
    tcase_add_test(tests, box_and_dcp_must_go_together);
    tcase_add_loop_test(tests, layer_captured_in_a_graph_is_not_closed_under_it, 0, 2);
    tcase_add_test(tests, event_ordered_box_gets_no_layer);
    tcase_add_loop_test(tests, layer_that_the_driver_keeps_can_be_closed_again, 0, 2);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
