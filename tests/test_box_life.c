/* test_box_life.c - launches with a box, its death and its new life, against the fake driver. */
#include "tests/box_pair.h"
#include "tests/stand_in.h"

#include <stdio.h>

/* ---- launches ---- */

static const char push_params[] = "query control q_box partial lse ledger tables q_multicast rank chain_waits";

static dcpk_kernel *push_kernel(int r, const char *spec) {
    dcpk_entry_info entry = stand_in_entry("dcpk_query_push", push_params);
    static const unsigned bytes[] = {8, 8, 8, 8, 8, 8, 8, 8, 4, 4};
    memcpy(fake.state->param_bytes, bytes, sizeof bytes);
    fake.state->param_count = 10;
    return fake_load_kernel(devices[r], stand_in_image(spec, &entry, 1));
}

static const char push_spec[] = "query_push heads=2 dcp=2 batch=4";
static const dcpk_args push_args = {.size = sizeof push_args, .query = 0x4000};

START_TEST(kernels_get_the_box_by_name) {
    connect_pair();
    dcpk_kernel *kernel = push_kernel(1, push_spec);
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[1], NULL, DCPK_LAUNCH_CHAIN_WAITS, &error),
                     DCPK_OK);
    const uint64_t base = dcpk_box_base(boxes[1]), *param = fake.state->last.param;
    const dcpk_box_layout *l = &boxes[1]->layout;
    const uint64_t wanted[] = {
        0x4000, base, base + l->q, base + l->partial, base + l->lse, base + l->ledger, base + l->tables, 0, 1, 1};
    for (int i = 0; i < 10; i++)
        ck_assert_uint_eq(param[i], wanted[i]);
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[1], NULL, DCPK_LAUNCH_FIRST, &error), DCPK_OK);
    ck_assert_uint_eq(param[9], 0); /* chain_waits only by promise */
    boxes[1]->opened = 0;           /* nothing ran: the fake's counter does not move */
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
}
END_TEST

START_TEST(rows_that_nobody_names_are_the_boxs_own) {
    connect_pair();
    dcpk_entry_info entry = stand_in_entry("dcpk_mine", "rows rows_lse rank");
    dcpk_kernel *kernel = fake_load_kernel(devices[0], stand_in_image("mine heads=2 dcp=2 batch=4", &entry, 1));
    fake.state->param_count = 2;
    fake.state->param_bytes[0] = fake.state->param_bytes[1] = 8;
    dcpk_args args = {.size = sizeof args};
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, boxes[0], NULL, 0, &error), DCPK_OK);
    ck_assert_uint_eq(fake.state->last.param[0], dcpk_box_base(boxes[0]) + boxes[0]->layout.rows);
    ck_assert_uint_eq(fake.state->last.param[1], dcpk_box_base(boxes[0]) + boxes[0]->layout.rows_lse);
    args.rows = 0x1000;
    args.rows_lse = 0x2004;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, boxes[0], NULL, 0, &error), DCPK_OK);
    ck_assert_uint_eq(fake.state->last.param[0], 0x1000);
    ck_assert_uint_eq(fake.state->last.param[1], 0x2004);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
}
END_TEST

START_TEST(kernel_built_for_another_shape_is_refused_by_key) {
    connect_pair();
    static const struct {
        const char *spec, *says;
    } others[] = {
        {"query_push heads=4 dcp=2 batch=4", "built for heads=4, the box has 2"},
        {"query_push heads=2 dcp=3 batch=4", "built for dcp=3, the box has 2"},
        {"query_push heads=2 dcp=2 batch=4 cap=32", "built for cap=32, the box has 64"},
        {"query_push heads=2 dcp=2 batch=4 qh=8", "built for qh=8, the box has 4"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        dcpk_kernel *kernel = push_kernel(0, others[i].spec);
        long before = fake.state->calls;
        ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[0], NULL, 0, &error), DCPK_E_MISMATCH);
        assert_text(others[i].says);
        ck_assert_int_eq(fake.state->calls, before);
        ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    }
}
END_TEST

START_TEST(box_that_is_missing_elsewhere_or_not_armed_is_refused) {
    dcpk_kernel *kernel = push_kernel(0, push_spec);
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, NULL, NULL, 0, &error), DCPK_E_ARG);
    assert_text("needs a box");
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[0], NULL, 0, &error), DCPK_E_ARG);
    assert_text("not attached to its peers yet");
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[1], NULL, 0, &error), DCPK_E_ARG);
    assert_text("the box is on device 1, the kernel on device 0");
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
}
END_TEST

START_TEST(event_ordered_box_has_no_pdl_and_no_polling_grid) {
    dcpk_box_shape s = shape;
    s.event_ordered = 1;
    dcpk_box *pair[2];
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(dcpk_box_create(devices[r], &s, r, &pair[r], &error), DCPK_OK);
    ck_assert_int_eq(dcpk_box_connect(pair, 2, &error), DCPK_OK);
    dcpk_kernel *kernel = push_kernel(0, push_spec);
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, pair[0], NULL, DCPK_LAUNCH_CHAIN_WAITS, &error),
                     DCPK_OK);
    ck_assert_uint_eq(fake.state->last.attributes, 0);
    pair[0]->opened = 0;
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_entry_info entry = stand_in_entry("dcpk_dcp_value", "rows rows_lse lens q_box");
    entry.resident = 1;
    kernel = fake_load_kernel(devices[0], stand_in_image("dcp_value heads=2 dcp=2 batch=4 split=0", &entry, 1));
    dcpk_args args = {.size = sizeof args, .lens = 0x1000};
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, pair[0], NULL, 0, &error), DCPK_E_RESIDENCY);
    assert_text("use split=1");
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(dcpk_box_destroy(pair[r], &error), DCPK_OK);
}
END_TEST

START_TEST(box_is_not_destroyed_under_uses_or_graphs) {
    connect_pair();
    dcpk_kernel *kernel = push_kernel(0, push_spec);
    int stream;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[0], &stream, 0, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_box_destroy(boxes[0], &error), DCPK_E_BOX_BUSY);
    assert_text("uses are in flight");
    put_word(dcpk_box_base(boxes[0]) + 4, 0); /* the publisher ran: current = 0 */
    fake.state->capturing = DRIVER_CAPTURE_ACTIVE;
    fake.state->capture_id = 3;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[0], &stream, 0, &error), DCPK_OK);
    fake.state->capturing = 0;
    ck_assert_int_eq(dcpk_box_destroy(boxes[0], &error), DCPK_E_BOX_BUSY);
    assert_text("1 graph that captured a use still lives");
    fake.drop_graph();
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_box_destroy(boxes[0], &error), DCPK_OK);
    boxes[0] = NULL;
}
END_TEST

/* ---- death and new life ---- */

START_TEST(dead_box_refuses_launches_without_asking_the_driver) {
    connect_pair();
    dcpk_kernel *kernel = push_kernel(1, push_spec);
    die(0, DCPK_KERNEL_query_wait, DCPK_MAILBOX_Q, 3, 2, 7, 4);
    long before = fake.state->calls;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[1], NULL, 0, &error), DCPK_E_BOX_DEAD);
    ck_assert_int_eq(fake.state->calls, before);
    assert_text("rank 1's box is dead: rank 0 query_wait: rank 1's row 3 head 2 word 7 of the query mailbox never came "
                "(use 4); re-arm it on every rank");
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
}
END_TEST

static struct {
    uint32_t kernel, mailbox, row, other, word, use;
    const char *says;
} const deaths[] = {
    {6, DCPK_MAILBOX_PARTIAL, 5, 1, 256 + 9, 8,
     "rank 0 dcp_value: rank 1's row 5 head 1 word 9 of the partial mailbox never came (use 8)"},
    {6, DCPK_MAILBOX_LSE, 5, 1, 1, 8, "rank 0 dcp_value: rank 1's row 5 head 1 of the LSE mailbox never came (use 8)"},
    {3, DCPK_MAILBOX_LEDGER, 0, 1, 0, 2, "rank 0 query_wait: rank 1's word of the ledger never came (use 2)"},
    {3, DCPK_MAILBOX_MISMATCH, 2 << 14 | 4 << 4 | 1, 1, 2 << 14 | 8 << 4 | 2, 2,
     "rank 0 query_wait: rank 1 runs batch 8 q 2 use 2, here batch 4 q 1 use 2 (uses mod 2^18)"},
    {2, DCPK_MAILBOX_USE, 1, 1, 0, 1, "rank 0 query_push: use 1 was never closed: next 1, current 1"},
    {2, DCPK_MAILBOX_USE, 2, 1, 1, 2, "rank 0 query_push: parity 1 was passed, the counter says 0 (use 2)"},
    {2, DCPK_MAILBOX_USE, 0, 0xFFFFFFFF, 1, 0, "rank 0 query_push: parity 1 was passed, the counter says 0 (use 0)"},
    {2, DCPK_MAILBOX_USE, 4, 4, 1, 4, "rank 0 query_push: use 4 was never closed: next 4, current 4"},
};

START_TEST(status_says_in_words_what_never_came) {
    connect_pair();
    die(0, deaths[_i].kernel, deaths[_i].mailbox, deaths[_i].row, deaths[_i].other, deaths[_i].word, deaths[_i].use);
    long before = fake.state->calls;
    for (int r = 0; r < 2; r++) { /* the other rank reads the record of the one that gave up */
        dcpk_box_state state = {.size = sizeof state};
        ck_assert_int_eq(dcpk_box_status(boxes[r], &state, &error), DCPK_OK);
        ck_assert_int_eq(state.dead, 1);
        ck_assert_int_eq(state.by_rank, 0);
        ck_assert_int_eq(state.kernel, (int32_t)deaths[_i].kernel);
        ck_assert_int_eq(state.mailbox, (int32_t)deaths[_i].mailbox);
        ck_assert_int_eq(state.row, (int32_t)deaths[_i].row);
        ck_assert_int_eq(state.head_or_source, (int32_t)deaths[_i].other);
        ck_assert_int_eq(state.word, (int32_t)deaths[_i].word);
        ck_assert_uint_eq(state.use, deaths[_i].use);
        ck_assert_str_eq(state.text, deaths[_i].says);
    }
    ck_assert_int_eq(fake.state->calls, before);
}
END_TEST

START_TEST(status_of_a_living_box_says_alive) {
    connect_pair();
    dcpk_box_state state = {.size = sizeof state};
    ck_assert_int_eq(dcpk_box_status(boxes[0], &state, &error), DCPK_OK);
    ck_assert_int_eq(state.dead, 0);
    ck_assert_int_eq(state.by_rank, -1);
    ck_assert_str_eq(state.text, "alive");
}
END_TEST

START_TEST(status_of_a_survivor_outlives_the_box_that_gave_up) {
    connect_pair();
    die(0, DCPK_KERNEL_query_wait, DCPK_MAILBOX_Q, 3, 2, 7, 4);
    ck_assert_int_eq(dcpk_box_destroy(boxes[0], &error), DCPK_OK);
    boxes[0] = NULL;
    dcpk_box_state state = {.size = sizeof state};
    ck_assert_int_eq(dcpk_box_status(boxes[1], &state, &error), DCPK_OK);
    ck_assert_str_eq(state.text,
                     "rank 0 query_wait: rank 1's row 3 head 2 word 7 of the query mailbox never came (use 4)");
}
END_TEST

struct log {
    char text[256];
    int fail_at, arrived;
};

static int barrier(void *self) {
    struct log *log = self;
    char line[64];
    uint64_t base = dcpk_box_base(boxes[0]);
    snprintf(line, sizeof line, "barrier(syncs %ld, q %x) ", fake_count(fake.state, "cuCtxSynchronize"),
             word_at(base + 256));
    strcat(log->text, line);
    return ++log->arrived == log->fail_at;
}

/* A used and dead box: words of an old use in the mailboxes. */
static void spoil(void) {
    connect_pair();
    uint64_t base = dcpk_box_base(boxes[0]);
    put_word(base, 5);
    put_word(base + 4, 4);
    put_word(base + 8, 1);
    put_word(base + 64, 1);
    put_word(base + 256, 0x11111111);
    put_word(base + boxes[0]->layout.partial, 0x22222222);
    put_word(base + boxes[0]->layout.lse, 0x33333333);
    put_word(base + boxes[0]->layout.ledger, 0x44444444);
    die(0, DCPK_KERNEL_query_wait, DCPK_MAILBOX_Q, 3, 2, 7, 4);
    fake.reset();
}

START_TEST(rearm_drains_before_the_first_barrier_and_refills_between_them) {
    spoil();
    struct log log = {.fail_at = 0};
    ck_assert_int_eq(dcpk_box_rearm(boxes[0], barrier, &log, &error), DCPK_OK);
    ck_assert_str_eq(log.text, "barrier(syncs 1, q 11111111) barrier(syncs 1, q ffffffff) ");
    uint64_t base = dcpk_box_base(boxes[0]);
    ck_assert_uint_eq(word_at(base), 0);
    ck_assert_uint_eq(word_at(base + 4), 0xFFFFFFFF);
    ck_assert_uint_eq(word_at(base + 8), 0);
    ck_assert_uint_eq(word_at(base + 64), 0);
    ck_assert_uint_eq(word_at(base + boxes[0]->layout.partial), 0x80000000);
    ck_assert_uint_eq(word_at(base + boxes[0]->layout.lse), 0xFFFFFFFF);
    ck_assert_uint_eq(word_at(base + boxes[0]->layout.ledger), 0xFFFFFFFF);
    for (int i = 0; i < 16; i++)
        ck_assert_uint_eq(boxes[0]->record.host[i], 0);
    boxes[1]->record.host[0] = 0;
}
END_TEST

START_TEST(rearm_that_a_rank_does_not_join_loses_the_box_for_good) {
    for (int fail_at = 1; fail_at <= 2; fail_at++) {
        if (fail_at == 2) {
            teardown();
            setup();
        }
        spoil();
        struct log log = {.fail_at = fail_at};
        ck_assert_int_eq(dcpk_box_rearm(boxes[0], barrier, &log, &error), DCPK_E_BOX_DEAD);
        assert_text(fail_at == 1 ? "barrier 1" : "barrier 2");
        assert_text("built anew");
        ck_assert_uint_eq(word_at(dcpk_box_base(boxes[0]) + 256), fail_at == 1 ? 0x11111111 : 0xFFFFFFFF);
        log.fail_at = 0;
        ck_assert_int_eq(dcpk_box_rearm(boxes[0], barrier, &log, &error), DCPK_E_BOX_DEAD);
        ck_assert_int_eq(dcpk_box_arm(boxes[0], &error), DCPK_E_BOX_DEAD);
        dcpk_kernel *kernel = push_kernel(0, push_spec);
        ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[0], NULL, 0, &error), DCPK_E_BOX_DEAD);
        ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
        dcpk_box_state state = {.size = sizeof state};
        ck_assert_int_eq(dcpk_box_status(boxes[0], &state, &error), DCPK_OK);
        ck_assert_int_eq(state.dead, 1);
    }
}
END_TEST

START_TEST(device_that_does_not_drain_fails_the_rearm_and_keeps_the_memory) {
    spoil();
    strcpy(fake.state->fail_symbol, "cuCtxSynchronize");
    fake.state->fail_with = DRIVER_NOT_READY;
    struct log log = {.fail_at = 0};
    ck_assert_int_eq(dcpk_box_destroy(boxes[1], &error), DCPK_E_BOX_BUSY);
    assert_text("box of rank 1: its device does not drain");
    ck_assert_int_eq(dcpk_box_rearm(boxes[0], barrier, &log, &error), DCPK_E_BOX_DEAD);
    assert_text("re-arm of rank 0's box: its device does not drain");
    assert_text("cuCtxSynchronize");
    ck_assert_int_eq(log.arrived, 0); /* it never came to the first barrier */
    ck_assert_uint_eq(word_at(dcpk_box_base(boxes[0]) + 256), 0x11111111);
    fake.reset();
    ck_assert_int_eq(dcpk_box_rearm(boxes[0], barrier, &log, &error), DCPK_E_BOX_DEAD);
    assert_text("built anew");
}
END_TEST

START_TEST(faulted_device_gives_its_box_back) {
    connect_pair();
    strcpy(fake.state->fail_symbol, "cuCtxSynchronize");
    fake.state->fail_with = DRIVER_LAUNCH_FAILED;
    ck_assert_msg(dcpk_box_destroy(boxes[0], &error) == DCPK_OK, "%s", error.text);
    boxes[0] = NULL;
    ck_assert_int_eq(fake.state->memory, 1);
}
END_TEST

START_TEST(rearm_all_without_every_rank_refills_nothing) {
    spoil();
    int32_t joined[] = {1, 0};
    ck_assert_int_eq(dcpk_box_rearm_all(boxes, 2, joined, &error), DCPK_E_BOX_DEAD);
    assert_text("rank 1 did not join");
    ck_assert_uint_eq(word_at(dcpk_box_base(boxes[0]) + 256), 0x11111111);
    ck_assert_int_eq(dcpk_box_rearm_all(boxes, 2, NULL, &error), DCPK_E_BOX_DEAD);
}
END_TEST

START_TEST(rearm_all_brings_every_rank_back) {
    spoil();
    int32_t joined[] = {1, 1};
    ck_assert_int_eq(dcpk_box_rearm_all(boxes, 2, joined, &error), DCPK_OK);
    ck_assert_uint_eq(word_at(dcpk_box_base(boxes[0]) + 256), 0xFFFFFFFF);
    for (int r = 0; r < 2; r++) {
        dcpk_box_state state = {.size = sizeof state};
        ck_assert_int_eq(dcpk_box_status(boxes[r], &state, &error), DCPK_OK);
        ck_assert_int_eq(state.dead, 0);
    }
    ck_assert_str_eq(fake.state->call[1], "cuCtxPushCurrent_v2"); /* both devices drained before any fill */
    long first_fill = -1, last_drain = -1;
    for (long i = 0; i < fake.state->calls; i++) {
        if (strcmp(fake.state->call[i], "cuCtxSynchronize") == 0) last_drain = i;
        if (first_fill < 0 && strcmp(fake.state->call[i], "cuMemsetD32Async") == 0) first_fill = i;
    }
    ck_assert_int_lt(last_drain, first_fill);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("box_life");
    TCase *tests = tcase_create("launch");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, kernels_get_the_box_by_name);
    tcase_add_test(tests, rows_that_nobody_names_are_the_boxs_own);
    tcase_add_test(tests, kernel_built_for_another_shape_is_refused_by_key);
    tcase_add_test(tests, box_that_is_missing_elsewhere_or_not_armed_is_refused);
    tcase_add_test(tests, event_ordered_box_has_no_pdl_and_no_polling_grid);
    tcase_add_test(tests, box_is_not_destroyed_under_uses_or_graphs);
    suite_add_tcase(suite, tests);
    tests = tcase_create("death");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, dead_box_refuses_launches_without_asking_the_driver);
    tcase_add_loop_test(tests, status_says_in_words_what_never_came, 0, (int)(sizeof deaths / sizeof deaths[0]));
    tcase_add_test(tests, status_of_a_living_box_says_alive);
    tcase_add_test(tests, status_of_a_survivor_outlives_the_box_that_gave_up);
    tcase_add_test(tests, rearm_drains_before_the_first_barrier_and_refills_between_them);
    tcase_add_test(tests, rearm_that_a_rank_does_not_join_loses_the_box_for_good);
    tcase_add_test(tests, device_that_does_not_drain_fails_the_rearm_and_keeps_the_memory);
    tcase_add_test(tests, faulted_device_gives_its_box_back);
    tcase_add_test(tests, rearm_all_without_every_rank_refills_nothing);
    tcase_add_test(tests, rearm_all_brings_every_rank_back);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
