/* test_disagree.c - when ranks run different things: the checked build names what differs and where, the unchecked one
 * ends by the bound, uses that were never closed and shapes that differ are refused. May call: tests/ranks.h,
 * include/dcpk. */
#include <tests/ranks.h>

#include <check.h>
#include <string.h>

static const char *const checked_forms[] = {"checked=1", "checked=1 split=1", "checked=1 publish=multicast"};

START_TEST(ranks_with_different_batch_are_named) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct scenario *s = ranks_open(checked_forms[_i], 0, DCPKCPU_FAIR, 0);
    MUST(scenario_launch(s, 0, &error));
    for (int32_t r = 0; r < RANKS; r++) {
        MUST(scenario_launch_rank(s, 1, r, r == DEAD ? 5 : 0, &error));
    }
    ranks_sync(s);
    for (int32_t r = 0; r < RANKS; r++) {
        dcpk_box_state state = ranks_status(s, r);
        uint32_t odd = 1u << 14 | 5 << 4 | 1, even = 1u << 14 | BATCH << 4 | 1;
        bool by_dead = state.by_rank == DEAD;
        ck_assert_int_eq(state.dead, 1);
        ck_assert_int_eq(state.mailbox, DCPK_MAILBOX_MISMATCH);
        ck_assert_int_eq(state.kernel, DCPK_KERNEL_query_wait);
        ck_assert_uint_eq((uint32_t)state.row, by_dead ? odd : even);
        ck_assert_uint_eq((uint32_t)state.word, by_dead ? even : odd);
        ck_assert(by_dead ? state.head_or_source != DEAD : state.head_or_source == DEAD);
        ck_assert_msg(strstr(state.text, "batch 5") && strstr(state.text, "batch 18"), "%s", state.text);
        if (r != DEAD) {
            ck_assert_int_eq(ranks_tiles_are_nan_or_right(s, 1, r, BATCH), 2 * HEADS);
        }
    }
    ranks_are_right_after_rearm(s);
    scenario_close(s);
}
END_TEST

/* Without checked=1 nobody compares; the bound still ends it. */
START_TEST(ranks_with_different_batch_end_by_the_bound_when_unchecked) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct scenario *s = ranks_open("", 0, DCPKCPU_FAIR, 0);
    for (int32_t r = 0; r < RANKS; r++) {
        MUST(scenario_launch_rank(s, 1, r, r == DEAD ? 5 : 0, &error));
    }
    ranks_sync(s);
    dcpk_box_state state = ranks_status(s, 0);
    ck_assert_int_eq(state.dead, 1);
    if (state.by_rank == DEAD) { /* it has all the rows it knows of, and waits for what the others do not push */
        ck_assert_int_eq(state.kernel, DCPK_KERNEL_dcp_value);
        ck_assert_int_ne(state.head_or_source, DEAD);
    } else { /* they wait for rows that it does not send */
        ck_assert_int_eq(state.mailbox, DCPK_MAILBOX_Q);
        ck_assert_int_eq(state.head_or_source / HEADS, DEAD);
        ck_assert_int_ge(state.row, 5);
    }
    ranks_are_right_after_rearm(s);
    scenario_close(s);
}
END_TEST

START_TEST(use_that_was_never_closed_is_named) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct scenario *s = ranks_open(_i ? "split=1" : "", HOW_PIECES, DCPKCPU_FAIR, 0);
    for (int32_t twice = 0; twice < 2; twice++) {
        for (int32_t r = 0; r < RANKS; r++) {
            MUST(scenario_launch_phase(s, 0, r, 0, PHASE_PUSH, DCPK_LAUNCH_NO_PDL, &error));
        }
        ranks_sync(s);
        ck_assert_int_eq(ranks_status(s, 0).dead, twice);
    }
    for (int32_t r = 0; r < RANKS; r++) {
        dcpk_box_state state = ranks_status(s, r);
        ck_assert_int_eq(state.dead, 1);
        ck_assert_int_eq(state.mailbox, DCPK_MAILBOX_USE);
        ck_assert_int_eq(state.kernel, DCPK_KERNEL_query_push);
        ck_assert_int_eq(state.row, 0);            /* next */
        ck_assert_int_eq(state.head_or_source, 0); /* current: use 0 is open */
        ck_assert_msg(strstr(state.text, "use 0 was never closed") != NULL, "%s", state.text);
    }
    ranks_are_right_after_rearm(s);
    scenario_close(s);
}
END_TEST

START_TEST(parity_argument_is_held_against_the_counter) {
    struct exchange_case shape = {HEADS, 2, {5, 5}, "parity=arg", 0, 0};
    struct scenario_options options;
    dcpkcpu_options cpu;
    dcpk_error error;
    dcpk_error_init(&error);
    exchange_options(&options, &cpu, ranks_gen, &shape, DCPKCPU_FAIR, 3);
    options.parity_skew = 1;
    struct scenario *s = exchange_open(&options);
    MUST(scenario_launch(s, 0, &error));
    MUST(scenario_sync(s, 0, &error));
    MUST(scenario_sync(s, 1, &error));
    dcpk_box_state state = ranks_status(s, 0);
    ck_assert_int_eq(state.dead, 1);
    ck_assert_int_eq(state.mailbox, DCPK_MAILBOX_USE);
    ck_assert_int_eq(state.row, 0);             /* next */
    ck_assert_int_eq(state.head_or_source, -1); /* current: use 0 is the first */
    ck_assert_int_eq(state.word, 1);            /* what was passed */
    ck_assert_msg(strstr(state.text, "parity 1 was passed, the counter says 0") != NULL, "%s", state.text);
    scenario_close(s);
}
END_TEST

struct refusal {
    const char *field;
    dcpk_box_shape odd;
};
static const struct refusal refusals[] = {
    {"cap", {.dcp = 2, .heads = 2, .cap = 32, .qh = 8}},
    {"heads", {.dcp = 2, .heads = 3, .cap = 16, .qh = 8}},
    {"qh", {.dcp = 2, .heads = 2, .cap = 16, .qh = 9}},
    {"publish", {.dcp = 2, .heads = 2, .cap = 16, .qh = 8, .publish = DCPK_PUBLISH_MULTICAST}},
};

START_TEST(ranks_with_different_shapes_are_refused_when_they_connect) {
    dcpk_error error;
    dcpk_device *devices[2];
    dcpk_box *boxes[2] = {NULL, NULL};
    const struct refusal *refusal = &refusals[_i];
    dcpk_error_init(&error);
    for (int32_t r = 0; r < 2; r++) {
        dcpk_device_options options = {.size = sizeof options, .kind = "cpu", .ordinal = r, .pdl = 1, .multicast = 1};
        dcpk_box_shape shape = {.size = sizeof shape, .dcp = 2, .heads = 2, .cap = 16, .qh = 8};
        if (r == 1) {
            shape = refusal->odd;
            shape.size = sizeof shape;
        }
        MUST(dcpk_device_open(&options, &devices[r], &error));
        MUST(dcpk_box_create(devices[r], &shape, r, &boxes[r], &error));
    }
    ck_assert_int_eq(dcpk_box_connect(boxes, 2, &error), DCPK_E_MISMATCH);
    ck_assert_msg(strstr(error.text, refusal->field) && strstr(error.text, "rank 1"), "%s", error.text);
    for (int32_t r = 0; r < 2; r++) {
        MUST(dcpk_box_destroy(boxes[r], &error));
        dcpk_device_close(devices[r]);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("disagree");
    TCase *tests = tcase_create("disagree");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, ranks_open_gen, ranks_close_gen);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, ranks_with_different_batch_are_named, 0, sizeof checked_forms / sizeof *checked_forms);
    tcase_add_test(tests, ranks_with_different_batch_end_by_the_bound_when_unchecked);
    tcase_add_loop_test(tests, use_that_was_never_closed_is_named, 0, 2);
    tcase_add_test(tests, parity_argument_is_held_against_the_counter);
    tcase_add_loop_test(tests, ranks_with_different_shapes_are_refused_when_they_connect, 0,
                        sizeof refusals / sizeof *refusals);
    return exchange_main(suite);
}
