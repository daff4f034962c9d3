/* test_box_end.c - when a box may be armed and when it may go, against the fake driver: who is asked, what is refused,
 * and that a refusal costs nothing. */
#include "tests/box_pair.h"
#include "tests/stand_in.h"

static const dcpk_args push_args = {.size = sizeof push_args, .query = 0x4000};

static dcpk_kernel *push_kernel(int r) {
    dcpk_entry_info entry = stand_in_entry("dcpk_query_push", "query q_box");
    return fake_load_kernel(devices[r], stand_in_image("query_push heads=2 dcp=2 batch=4", &entry, 1));
}

static void destroy_now(dcpk_box **box) {
    ck_assert_msg(dcpk_box_destroy(*box, &error) == DCPK_OK, "%s", error.text);
    *box = NULL;
}

/* ---- the other ranks ---- */

START_TEST(box_is_kept_while_another_ranks_use_is_in_flight) {
    connect_pair();
    dcpk_kernel *kernel = push_kernel(1);
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[1], NULL, 0, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_box_destroy(boxes[0], &error), DCPK_E_BOX_BUSY);
    assert_text("box of rank 0: rank 1's kernels may still write here");
    ck_assert_int_eq(fake.state->memory, 2);
    put_word(dcpk_box_base(boxes[1]) + 4, 0); /* the publisher ran: current = 0 */
    destroy_now(&boxes[0]);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
}
END_TEST

START_TEST(box_is_kept_while_a_graph_captured_another_ranks_use) {
    connect_pair();
    dcpk_kernel *kernel = push_kernel(1);
    int stream;
    fake.state->capturing = DRIVER_CAPTURE_ACTIVE;
    fake.state->capture_id = 3;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[1], &stream, 0, &error), DCPK_OK);
    fake.state->capturing = 0;
    ck_assert_int_eq(dcpk_box_destroy(boxes[0], &error), DCPK_E_BOX_BUSY);
    assert_text("box of rank 0: 1 graph that captured a use of rank 1 still lives");
    fake.drop_graph();
    destroy_now(&boxes[0]);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
}
END_TEST

START_TEST(every_ranks_device_is_drained_before_any_memory_goes) {
    connect_pair();
    fake.reset();
    destroy_now(&boxes[1]);
    long drains = 0, first_free = -1, last_drain = -1;
    for (long i = 0; i < fake.state->calls; i++) {
        if (strcmp(fake.state->call[i], "cuCtxSynchronize") == 0) {
            drains++;
            last_drain = i;
        }
        if (first_free < 0 && strcmp(fake.state->call[i], "cuMemFree_v2") == 0) first_free = i;
    }
    ck_assert_int_eq(drains, 2);
    ck_assert_int_lt(last_drain, first_free);
}
END_TEST

START_TEST(boxes_of_a_quiet_group_go_in_any_order) {
    connect_pair();
    destroy_now(&boxes[_i]);
    destroy_now(&boxes[1 - _i]);
    ck_assert_int_eq(fake.state->memory, 0);
    ck_assert_int_eq(fake.state->host, 0);
}
END_TEST

START_TEST(nothing_is_launched_at_a_rank_whose_box_is_gone) {
    connect_pair();
    dcpk_kernel *kernel = push_kernel(1);
    destroy_now(&boxes[0]);
    long before = fake.state->calls;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[1], NULL, 0, &error), DCPK_E_BOX_DEAD);
    ck_assert_int_eq(fake.state->calls, before);
    assert_text("rank 0's box was destroyed: the box must be built anew on every rank");
    ck_assert_int_eq(dcpk_box_arm(boxes[1], &error), DCPK_E_BOX_DEAD);
    dcpk_box_state state = {.size = sizeof state};
    ck_assert_int_eq(dcpk_box_status(boxes[1], &state, &error), DCPK_OK);
    ck_assert_int_eq(state.dead, 1);
    ck_assert_int_eq(state.by_rank, -1);
    ck_assert_str_eq(state.text, "rank 0's box was destroyed: the box must be built anew on every rank");
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
}
END_TEST

/* ---- a driver that refuses ---- */

static const int refusals[] = {DRIVER_INVALID_VALUE, DRIVER_NOT_READY};

/* A pair destroyed with the n-th driver call failing, for every n: what failed is done again and leaves nothing. */
START_TEST(destruction_that_fails_may_be_repeated) {
    long failures = 0;
    for (long n = 1;; n++) {
        long before = fake.outstanding();
        dcpk_box *pair[2];
        for (int r = 0; r < 2; r++)
            ck_assert_int_eq(dcpk_box_create(devices[r], &shape, r, &pair[r], &error), DCPK_OK);
        ck_assert_int_eq(dcpk_box_connect(pair, 2, &error), DCPK_OK);
        fake.reset();
        fake.state->fail_at = n;
        fake.state->fail_with = refusals[_i];
        bool used = false;
        for (int r = 0; r < 2; r++) {
            dcpk_status status = dcpk_box_destroy(pair[r], &error);
            if (!used && fake.state->fail_at == 0) {
                cu_context popped;
                used = true;
                if (strcmp(fake.state->call[n - 1], "cuCtxPopCurrent_v2") == 0) devices[0]->driver.ctx_pop(&popped);
            }
            if (status == DCPK_OK) continue;
            failures++;
            ck_assert(status == DCPK_E_DRIVER || status == DCPK_E_BOX_BUSY);
            ck_assert_int_eq(error.code, status);
            dcpk_box_state state = {.size = sizeof state};
            ck_assert_int_eq(dcpk_box_status(pair[r], &state, NULL), DCPK_OK);
            ck_assert_msg(dcpk_box_destroy(pair[r], &error) == DCPK_OK, "call %ld: %s", n, error.text);
        }
        ck_assert_msg(fake.outstanding() == before, "call %ld: %ld before, %ld left", n, before, fake.outstanding());
        if (!used) break;
    }
    ck_assert_int_gt(failures, 10);
}
END_TEST

static const struct {
    const char *symbol;
    int result;
    dcpk_status status;
} kept[] = {
    {"cuMemFree_v2", DRIVER_NOT_READY, DCPK_E_BOX_BUSY},
    {"cuMemFree_v2", DRIVER_INVALID_VALUE, DCPK_E_DRIVER},
    {"cuCtxSynchronize", DRIVER_NOT_READY, DCPK_E_BOX_BUSY},
    {"cuCtxSynchronize", DRIVER_CAPTURE_IMPLICIT, DCPK_E_DRIVER},
};

START_TEST(box_that_the_driver_keeps_is_kept) {
    connect_pair();
    strcpy(fake.state->fail_symbol, kept[_i].symbol);
    fake.state->fail_with = kept[_i].result;
    for (int twice = 0; twice < 2; twice++) {
        ck_assert_int_eq(dcpk_box_destroy(boxes[0], &error), kept[_i].status);
        assert_text(kept[_i].symbol);
        ck_assert_int_eq(fake.state->memory, 2);
    }
    fake.state->fail_symbol[0] = '\0';
    destroy_now(&boxes[0]);
    ck_assert_int_eq(fake.state->memory, 1);
}
END_TEST

/* No teardown: what a lost context holds is not given back. The suite still knows where it is: nobody lost it. */
static void *volatile buried[4];

START_TEST(lost_context_keeps_no_box) {
    static const char *const symbols[] = {"cuCtxGetCurrent", "cuCtxSynchronize", "cuMemFree_v2", "cuMemFreeHost"};
    connect_pair();
    for (int r = 0; r < 2; r++) {
        buried[r] = (void *)(uintptr_t)dcpk_box_base(boxes[r]);
        buried[2 + r] = boxes[r]->record.host;
    }
    strcpy(fake.state->fail_symbol, symbols[_i]);
    fake.state->fail_with = DRIVER_ILLEGAL_ADDRESS;
    destroy_now(&boxes[0]);
    destroy_now(&boxes[1]);
}
END_TEST

/* ---- arming ---- */

static void attach_both(void) {
    uint8_t digests[2][DCPK_DIGEST_BYTES];
    uint64_t peers[] = {dcpk_box_base(boxes[0]), dcpk_box_base(boxes[1])};
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(dcpk_box_digest(boxes[r], digests[r], &error), DCPK_OK);
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(dcpk_box_attach(boxes[r], peers, digests[0], &error), DCPK_OK);
}

START_TEST(attached_box_is_armed_and_between_uses_armed_again) {
    attach_both();
    uint64_t q = dcpk_box_base(boxes[0]) + boxes[0]->layout.q;
    for (int again = 0; again < 2; again++) {
        put_word(q, 0x11111111);
        ck_assert_msg(dcpk_box_arm(boxes[0], &error) == DCPK_OK, "%s", error.text);
        ck_assert_uint_eq(word_at(q), 0xFFFFFFFF);
    }
}
END_TEST

START_TEST(dead_box_is_not_armed_by_one_rank) {
    connect_pair();
    uint64_t base = dcpk_box_base(boxes[0]);
    put_word(base + boxes[0]->layout.q, 0x11111111);
    put_word(base + 8, 2); /* rank 1 gave up; no kernel has told this rank's host yet */
    ck_assert_int_eq(dcpk_box_arm(boxes[0], &error), DCPK_E_BOX_DEAD);
    assert_text("rank 1 gave up; re-arm it on every rank");
    die(1, DCPK_KERNEL_query_wait, DCPK_MAILBOX_Q, 3, 2, 7, 4);
    ck_assert_int_eq(dcpk_box_arm(boxes[0], &error), DCPK_E_BOX_DEAD);
    assert_text("re-arm it on every rank");
    ck_assert_uint_eq(word_at(base + boxes[0]->layout.q), 0x11111111);
    ck_assert_uint_eq(boxes[0]->record.host[0], 2);
}
END_TEST

START_TEST(box_in_use_is_not_armed) {
    connect_pair();
    dcpk_kernel *kernel = push_kernel(0);
    uint64_t q = dcpk_box_base(boxes[0]) + boxes[0]->layout.q;
    put_word(q, 0x11111111);
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &push_args, boxes[0], NULL, 0, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_box_arm(boxes[0], &error), DCPK_E_BOX_BUSY);
    assert_text("uses are in flight");
    put_word(dcpk_box_base(boxes[0]) + 4, 0);
    strcpy(fake.state->fail_symbol, "cuCtxSynchronize");
    fake.state->fail_with = DRIVER_NOT_READY;
    ck_assert_int_eq(dcpk_box_arm(boxes[0], &error), DCPK_E_BOX_BUSY);
    assert_text("does not drain");
    ck_assert_uint_eq(word_at(q), 0x11111111);
    fake.state->fail_symbol[0] = '\0';
    ck_assert_int_eq(dcpk_box_arm(boxes[0], &error), DCPK_OK);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("box_end");
    TCase *tests = tcase_create("end");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, box_is_kept_while_another_ranks_use_is_in_flight);
    tcase_add_test(tests, box_is_kept_while_a_graph_captured_another_ranks_use);
    tcase_add_test(tests, every_ranks_device_is_drained_before_any_memory_goes);
    tcase_add_loop_test(tests, boxes_of_a_quiet_group_go_in_any_order, 0, 2);
    tcase_add_test(tests, nothing_is_launched_at_a_rank_whose_box_is_gone);
    tcase_add_loop_test(tests, destruction_that_fails_may_be_repeated, 0, (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_loop_test(tests, box_that_the_driver_keeps_is_kept, 0, (int)(sizeof kept / sizeof kept[0]));
    tcase_add_test(tests, attached_box_is_armed_and_between_uses_armed_again);
    tcase_add_test(tests, dead_box_is_not_armed_by_one_rank);
    tcase_add_test(tests, box_in_use_is_not_armed);
    suite_add_tcase(suite, tests);
    tests = tcase_create("lost");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_loop_test(tests, lost_context_keeps_no_box, 0, 4);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
