/* test_box.c - a box's layout and set-up, against the fake driver: what lies where, what is refused. */
#include "tests/box_pair.h"

/* ---- layout: numbers worked out by hand ---- */

START_TEST(layout_is_what_the_picture_says) {
    dcpk_box_shape s = {.size = sizeof s, .dcp = 2, .heads = 12, .cap = 64};
    dcpk_box_layout l = {.size = sizeof l};
    ck_assert_int_eq(dcpk_box_layout_of(&s, &l, &error), DCPK_OK);
    ck_assert_uint_eq(l.control, 0);
    ck_assert_uint_eq(l.q, 256);
    ck_assert_uint_eq(l.partial, 1769728);
    ck_assert_uint_eq(l.lse, 4915456);
    ck_assert_uint_eq(l.ledger, 4927744);
    ck_assert_uint_eq(l.shared_bytes, 4928000);
    ck_assert_uint_eq(l.tables, 4928000);
    ck_assert_uint_eq(l.rows, 4928256);
    ck_assert_uint_eq(l.rows_lse, 6501120);
    ck_assert_uint_eq(l.bytes, 6507264);
}
END_TEST

START_TEST(layout_keeps_256_bytes_with_odd_shapes_and_padded_heads) {
    dcpk_box_shape s = {.size = sizeof s, .dcp = 3, .heads = 1, .cap = 5, .qh = 5};
    dcpk_box_layout l = {.size = sizeof l};
    ck_assert_int_eq(dcpk_box_layout_of(&s, &l, &error), DCPK_OK);
    ck_assert_uint_eq(l.partial, 29184);
    ck_assert_uint_eq(l.lse, 59904);
    ck_assert_uint_eq(l.ledger, 60160);
    ck_assert_uint_eq(l.tables, 60416);
    ck_assert_uint_eq(l.rows, 60672);
    ck_assert_uint_eq(l.rows_lse, 76032);
    ck_assert_uint_eq(l.bytes, 76288);
}
END_TEST

START_TEST(layout_counts_past_two_gib) {
    dcpk_box_shape s = {.size = sizeof s, .dcp = 8, .heads = 128, .cap = 512, .qh = 4096};
    dcpk_box_layout l = {.size = sizeof l};
    ck_assert_int_eq(dcpk_box_layout_of(&s, &l, &error), DCPK_OK);
    ck_assert_uint_eq(l.partial, UINT64_C(2415919360));
    ck_assert_uint_eq(l.lse, UINT64_C(3489661184));
}
END_TEST

static struct {
    dcpk_box_shape shape;
    const char *says;
} const bad_shapes[] = {
    {{.dcp = 1, .heads = 2, .cap = 8}, "dcp is 1: one rank exchanges nothing"},
    {{.dcp = 33, .heads = 2, .cap = 8}, "dcp is 33: 2..32"},
    {{.dcp = 2, .heads = 0, .cap = 8}, "heads is 0: 1..128"},
    {{.dcp = 16, .heads = 65, .cap = 8}, "dcp * heads is 1040: at most 1024"},
    {{.dcp = 2, .heads = 2, .cap = 513}, "cap is 513: 1..512"},
    {{.dcp = 2, .heads = 2, .cap = 8, .qh = 3}, "qh is 3: 4..4096"},
    {{.dcp = 2, .heads = 2, .cap = 8, .publish = 2}, "publish is 2: 0..1"},
    {{.dcp = 2, .heads = 2, .cap = 8, .event_ordered = 2}, "event_ordered is 2: 0..1"},
};

START_TEST(shape_outside_its_domain_is_refused_by_field) {
    dcpk_box_shape s = bad_shapes[_i].shape;
    s.size = sizeof s;
    dcpk_box_layout l = {.size = sizeof l};
    ck_assert_int_eq(dcpk_box_layout_of(&s, &l, &error), DCPK_E_ARG);
    assert_text(bad_shapes[_i].says);
}
END_TEST

/* ---- set-up ---- */

START_TEST(connected_boxes_hold_sentinels_tables_and_a_fresh_counter) {
    connect_pair();
    for (int r = 0; r < 2; r++) {
        const dcpk_box_layout *l = &boxes[r]->layout;
        uint64_t base = dcpk_box_base(boxes[r]);
        ck_assert_uint_eq(base % 256, 0);
        ck_assert_uint_eq(word_at(base), 0);              /* next */
        ck_assert_uint_eq(word_at(base + 4), 0xFFFFFFFF); /* current */
        ck_assert_uint_eq(word_at(base + 8), 0);          /* abort */
        ck_assert_uint_eq(wide_at(base + 16), UINT64_C(30000000000));
        ck_assert_uint_eq(wide_at(base + 24), (uintptr_t)boxes[r]->record.host);
        for (uint64_t at = 64; at < 96; at += 4)
            ck_assert_uint_eq(word_at(base + at), 0);
        for (uint64_t at = l->q; at < l->partial; at += 4)
            ck_assert_uint_eq(word_at(base + at), 0xFFFFFFFF);
        for (uint64_t at = l->partial; at < l->lse; at += 4)
            ck_assert_uint_eq(word_at(base + at), 0x80000000);
        for (uint64_t at = l->lse; at < l->ledger + 16; at += 4)
            ck_assert_uint_eq(word_at(base + at), 0xFFFFFFFF);
        uint64_t part[] = {l->control, l->q, l->partial, l->lse, l->ledger};
        for (uint64_t t = 0; t < 5; t++)
            for (uint64_t s = 0; s < 2; s++)
                ck_assert_uint_eq(wide_at(base + l->tables + 8 * (2 * t + s)), dcpk_box_base(boxes[s]) + part[t]);
    }
}
END_TEST

START_TEST(connect_enables_peer_access_both_ways_and_takes_already_enabled) {
    ck_assert_int_eq(devices[0]->driver.ctx_push(devices[0]->context), DRIVER_OK);
    ck_assert_int_eq(devices[0]->driver.ctx_enable_peer(devices[1]->context, 0), DRIVER_OK);
    cu_context popped;
    devices[0]->driver.ctx_pop(&popped);
    long before = fake_count(fake.state, "cuCtxEnablePeerAccess");
    connect_pair();
    ck_assert_int_eq(fake_count(fake.state, "cuCtxEnablePeerAccess"), before + 2);
}
END_TEST

START_TEST(devices_without_peer_access_are_refused) {
    fake.state->can_peer = 0;
    ck_assert_int_eq(dcpk_box_connect(boxes, 2, &error), DCPK_E_DRIVER);
    fake.state->can_peer = 1;
    assert_text("device 0 (rank 0) cannot reach the memory of device 1 (rank 1)");
    connect_pair(); /* a failed connect spoils nothing */
}
END_TEST

START_TEST(ranks_that_disagree_are_told_field_and_rank) {
    static const struct {
        dcpk_box_shape shape;
        const char *says;
    } others[] = {
        {{.dcp = 2, .heads = 2, .cap = 32}, "rank 1 has cap 32, rank 0 has 64"},
        {{.dcp = 2, .heads = 3, .cap = 64}, "rank 1 has heads 3, rank 0 has 2"},
        {{.dcp = 2, .heads = 2, .cap = 64, .qh = 6}, "rank 1 has qh 6, rank 0 has 4"},
        {{.dcp = 3, .heads = 2, .cap = 64}, "rank 1 has dcp 3, rank 0 has 2"},
        {{.dcp = 2, .heads = 2, .cap = 64, .event_ordered = 1}, "rank 1 has event_ordered 1, rank 0 has 0"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        dcpk_box_shape s = others[i].shape;
        s.size = sizeof s;
        dcpk_box *other = NULL;
        ck_assert_int_eq(dcpk_box_create(devices[1], &s, 1, &other, &error), DCPK_OK);
        dcpk_box *pair[] = {boxes[0], other};
        ck_assert_int_eq(dcpk_box_connect(pair, 2, &error), DCPK_E_MISMATCH);
        assert_text(others[i].says);
        ck_assert_int_eq(dcpk_box_destroy(other, &error), DCPK_OK);
    }
}
END_TEST

START_TEST(attach_compares_digests_and_checks_addresses) {
    uint8_t digests[2][DCPK_DIGEST_BYTES];
    uint64_t peers[] = {dcpk_box_base(boxes[0]), dcpk_box_base(boxes[1])};
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(dcpk_box_digest(boxes[r], digests[r], &error), DCPK_OK);
    ck_assert_int_eq(dcpk_box_arm(boxes[0], &error), DCPK_E_ARG);
    assert_text("attach it first");
    uint64_t crooked[] = {peers[0], peers[1] + 8};
    ck_assert_int_eq(dcpk_box_attach(boxes[0], crooked, digests[0], &error), DCPK_E_ARG);
    assert_text("peers[1]");
    uint64_t swapped[] = {peers[1], peers[0]};
    ck_assert_int_eq(dcpk_box_attach(boxes[0], swapped, digests[0], &error), DCPK_E_ARG);
    uint8_t wrong[2][DCPK_DIGEST_BYTES];
    memcpy(wrong[0], digests[1], DCPK_DIGEST_BYTES);
    memcpy(wrong[1], digests[0], DCPK_DIGEST_BYTES);
    ck_assert_int_eq(dcpk_box_attach(boxes[0], peers, wrong[0], &error), DCPK_E_MISMATCH);
    assert_text("the digest in place 0 is that of rank 1");
    memcpy(wrong, digests, sizeof wrong);
    wrong[1][0]++; /* a library of another ABI */
    ck_assert_int_eq(dcpk_box_attach(boxes[0], peers, wrong[0], &error), DCPK_E_MISMATCH);
    assert_text("rank 1 has abi 2, rank 0 has 1");
    ck_assert_int_eq(dcpk_box_attach(boxes[0], peers, digests[0], &error), DCPK_OK);
    ck_assert_int_eq(dcpk_box_attach(boxes[0], peers, digests[0], &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_box_arm(boxes[0], &error), DCPK_OK);
    ck_assert_uint_eq(wide_at(peers[0] + boxes[0]->layout.tables + 8 * 3), peers[1] + boxes[1]->layout.q);
}
END_TEST

START_TEST(two_ranks_in_one_place_are_refused) {
    uint8_t digests[2][DCPK_DIGEST_BYTES];
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(dcpk_box_digest(boxes[r], digests[r], &error), DCPK_OK);
    uint64_t own = dcpk_box_base(boxes[0]), bytes = boxes[0]->layout.shared_bytes;
    const uint64_t others[] = {own, own + bytes - 256, own - bytes + 256};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        uint64_t peers[] = {own, others[i]};
        ck_assert_int_eq(dcpk_box_attach(boxes[0], peers, digests[0], &error), DCPK_E_ARG);
        assert_text("ranks 0 and 1 need a box of");
    }
    uint64_t none[] = {own, 0}, beside[] = {own, own + bytes};
    ck_assert_int_eq(dcpk_box_attach(boxes[0], none, digests[0], &error), DCPK_E_ARG);
    assert_text("peers[1] = 0x0 is no multiple of 256 above 0");
    ck_assert_int_eq(dcpk_box_attach(boxes[0], beside, digests[0], &error), DCPK_OK);
}
END_TEST

START_TEST(connect_wants_all_ranks_in_order_once) {
    dcpk_box *swapped[] = {boxes[1], boxes[0]};
    ck_assert_int_eq(dcpk_box_connect(swapped, 2, &error), DCPK_E_ARG);
    assert_text("boxes[0] is that of rank 1");
    ck_assert_int_eq(dcpk_box_connect(boxes, 1, &error), DCPK_E_ARG);
    connect_pair();
    ck_assert_int_eq(dcpk_box_connect(boxes, 2, &error), DCPK_E_ARG);
    assert_text("has its peers already");
}
END_TEST

START_TEST(blocking_launches_are_refused_but_for_event_ordered_boxes) {
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    for (int ordered = 0; ordered <= 1; ordered++) {
        dcpk_device *late[2];
        dcpk_box *pair[2];
        dcpk_box_shape s = shape;
        s.event_ordered = ordered;
        for (int r = 0; r < 2; r++) {
            late[r] = fake_device(r);
            ck_assert_int_eq(dcpk_box_create(late[r], &s, r, &pair[r], &error), DCPK_OK);
        }
        ck_assert_int_eq(dcpk_box_connect(pair, 2, &error), ordered ? DCPK_OK : DCPK_E_BLOCKING_LAUNCH);
        for (int r = 0; r < 2; r++) {
            ck_assert_int_eq(dcpk_box_destroy(pair[r], &error), DCPK_OK);
            dcpk_device_close(late[r]);
        }
    }
}
END_TEST

START_TEST(too_few_hardware_queues_are_refused) {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
    dcpk_device *late = fake_device(1);
    dcpk_box *other = NULL;
    ck_assert_int_eq(dcpk_box_create(late, &shape, 1, &other, &error), DCPK_OK);
    dcpk_box *pair[] = {boxes[0], other};
    ck_assert_int_eq(dcpk_box_connect(pair, 2, &error), DCPK_E_ARG);
    assert_text("CUDA_DEVICE_MAX_CONNECTIONS=32");
    ck_assert_int_eq(dcpk_box_destroy(other, &error), DCPK_OK);
    dcpk_device_close(late);
}
END_TEST

/* Boxes made, connected and re-armed with the n-th driver call failing, for every n. */
START_TEST(any_failing_driver_call_of_a_box_leaves_nothing_behind) {
    long failures = 0;
    for (long n = 1;; n++) {
        long before = fake.outstanding();
        dcpk_box *pair[2] = {NULL, NULL};
        fake.reset();
        fake.state->fail_at = n;
        dcpk_status status = DCPK_OK;
        for (int r = 0; r < 2 && status == DCPK_OK; r++)
            status = dcpk_box_create(devices[r], &shape, r, &pair[r], &error);
        if (status == DCPK_OK) status = dcpk_box_connect(pair, 2, &error);
        if (status == DCPK_OK) status = dcpk_box_rearm_all(pair, 2, NULL, &error);
        bool used = fake.state->fail_at == 0;
        fake.state->fail_at = 0;
        if (status != DCPK_OK) {
            failures++;
            ck_assert_int_eq(status, DCPK_E_DRIVER);
            ck_assert_msg(strstr(error.text, ": cu") != NULL, "no call is named: %s", error.text);
        }
        cu_context popped;
        if (used && strcmp(fake.state->call[n - 1], "cuCtxPopCurrent_v2") == 0) devices[0]->driver.ctx_pop(&popped);
        for (int r = 0; r < 2; r++)
            ck_assert_int_eq(dcpk_box_destroy(pair[r], &error), DCPK_OK);
        ck_assert_msg(fake.outstanding() == before, "call %ld: %ld before, %ld left", n, before, fake.outstanding());
        if (!used) break;
    }
    ck_assert_int_gt(failures, 60);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("box");
    TCase *tests = tcase_create("layout");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, layout_is_what_the_picture_says);
    tcase_add_test(tests, layout_keeps_256_bytes_with_odd_shapes_and_padded_heads);
    tcase_add_test(tests, layout_counts_past_two_gib);
    tcase_add_loop_test(tests, shape_outside_its_domain_is_refused_by_field, 0,
                        (int)(sizeof bad_shapes / sizeof bad_shapes[0]));
    suite_add_tcase(suite, tests);
    tests = tcase_create("set-up");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, connected_boxes_hold_sentinels_tables_and_a_fresh_counter);
    tcase_add_test(tests, connect_enables_peer_access_both_ways_and_takes_already_enabled);
    tcase_add_test(tests, devices_without_peer_access_are_refused);
    tcase_add_test(tests, ranks_that_disagree_are_told_field_and_rank);
    tcase_add_test(tests, attach_compares_digests_and_checks_addresses);
    tcase_add_test(tests, two_ranks_in_one_place_are_refused);
    tcase_add_test(tests, connect_wants_all_ranks_in_order_once);
    tcase_add_test(tests, blocking_launches_are_refused_but_for_event_ordered_boxes);
    tcase_add_test(tests, too_few_hardware_queues_are_refused);
    tcase_add_test(tests, any_failing_driver_call_of_a_box_leaves_nothing_behind);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
