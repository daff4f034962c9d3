/* test_dead_boxes.c - boxes that are to go or to be armed while some rank's kernels can still store into them, on the
 * CPU device. May call: tests/ranks.h, include/dcpk. */
#include <tests/ranks.h>

#include <check.h>
#include <string.h>

static dcpk_status destroy(struct scenario *s, int32_t rank, dcpk_error *error) {
    dcpk_error_init(error);
    return dcpk_box_destroy(scenario_box(s, rank), error);
}

/* Warp instructions before rank DEAD stops in its query_push: before it opens the use, and amid its stores. */
static const unsigned stops[] = {0, 50, 200};

START_TEST(memory_that_a_late_rank_stores_into_is_kept) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct scenario *s = ranks_open("", HOW_PIECES, DCPKCPU_FAIR, 0);
    uint64_t word = 0;
    ck_assert_int_eq(EXCHANGE_CPU(s, stall)(DEAD, "dcpk_query_push", stops[_i]), 0);
    MUST(scenario_launch(s, 0, &error));
    for (int32_t r = 0; r < RANKS; r++)
        if (r != DEAD) MUST(scenario_sync(s, r, &error));
    ck_assert_int_eq(ranks_status(s, 0).dead, 1);
    for (int32_t r = 0; r < RANKS; r++) {
        ck_assert_int_eq(destroy(s, r, &error), DCPK_E_BOX_BUSY);
        if (r != DEAD) ck_assert_msg(strstr(error.text, "rank 1's kernels may still write") != NULL, "%s", error.text);
        dcpk_box *box = scenario_box(s, r); /* it is all there */
        MUST(dcpk_mem_read(dcpk_box_device(box), &word, dcpk_box_base(box), 8, &error));
    }
    ck_assert_int_eq(EXCHANGE_CPU(s, release)(DEAD), 0);
    ranks_sync(s);
    ranks_are_right_after_rearm(s);
    scenario_close(s);
}
END_TEST

START_TEST(box_of_a_rank_that_is_done_is_kept_while_another_runs) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct scenario *s = ranks_open("", 0, DCPKCPU_FAIR, 0);
    MUST(scenario_launch(s, 0, &error));
    ranks_sync(s);
    MUST(scenario_launch_rank(s, 1, 2, 0, &error));
    ck_assert_int_eq(destroy(s, 0, &error), DCPK_E_BOX_BUSY);
    ck_assert_msg(strstr(error.text, "rank 2's kernels may still write here") != NULL, "%s", error.text);
    for (int32_t r = 0; r < 2; r++)
        MUST(scenario_launch_rank(s, 1, r, 0, &error));
    ranks_sync(s);
    ranks_use_is_right(s, 1); /* nobody was disturbed */
    scenario_close(s);
}
END_TEST

START_TEST(dead_box_is_not_revived_by_arming_one_rank) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct scenario *s = ranks_open("", HOW_PIECES, DCPKCPU_FAIR, 0);
    ck_assert_int_eq(EXCHANGE_CPU(s, stall)(DEAD, "dcpk_dcp_value", 200), 0);
    MUST(scenario_launch(s, 0, &error));
    for (int32_t r = 0; r < RANKS; r++)
        if (r != DEAD) MUST(scenario_sync(s, r, &error));
    for (int32_t r = 0; r < RANKS; r++)
        ck_assert_int_eq(dcpk_box_arm(scenario_box(s, r), &error), DCPK_E_BOX_DEAD);
    ck_assert_int_eq(ranks_status(s, 0).dead, 1);
    ck_assert_int_eq(EXCHANGE_CPU(s, release)(DEAD), 0);
    ranks_sync(s);
    ranks_are_right_after_rearm(s);
    scenario_close(s);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("dead_boxes");
    TCase *tests = tcase_create("dead_boxes");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, ranks_open_gen, ranks_close_gen);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, memory_that_a_late_rank_stores_into_is_kept, 0, sizeof stops / sizeof *stops);
    tcase_add_test(tests, box_of_a_rank_that_is_done_is_kept_while_another_runs);
    tcase_add_test(tests, dead_box_is_not_revived_by_arming_one_rank);
    return exchange_main(suite);
}
