/* test_schedules_wide.c - wide shapes: up to 96 heads in all under ten seeded adversaries each, above that once under
 * an adversary and once in the fair order, up to 1024 heads. May call: tests/exchange.h. */
#include <tests/exchange.h>

#include <check.h>

static dcpk_gen *gen;

static void open_gen(void) {
    gen = exchange_gen(NULL);
}

static void close_gen(void) {
    dcpk_gen_close(gen);
}

static const struct exchange_case middle[] = {
    {12, 2, {1, 5, 17}, "", NASTY_ALL, 0},
    {12, 3, {1, 5, 2}, "split=1", NASTY_ALL, HOW_CHAIN},
    {12, 4, {1, 5, 1}, "checked=1", NASTY_ALL, HOW_CHAIN},
    {12, 8, {1, 2}, "", NASTY_ALL, HOW_CHAIN},
    {2, 16, {1, 5}, "publish=multicast", NASTY_ALL, HOW_CHAIN},
};
enum { MIDDLE_SCHEDULES = 10 };

START_TEST(exchange_is_right_under_ten_schedules_up_to_96_heads) {
    exchange_must_be_right(gen, &middle[_i / MIDDLE_SCHEDULES], DCPKCPU_RANDOM, (uint64_t)(_i % MIDDLE_SCHEDULES));
}
END_TEST

static const struct exchange_case wide[] = {
    {12, 16, {5, 2}, "", NASTY_ALL, HOW_CHAIN},        {128, 1, {2, 5}, "", NASTY_ALL, 0},
    {128, 2, {5, 2}, "cap=5", NASTY_ALL, HOW_CHAIN},   {128, 3, {2, 3}, "cap=3", NASTY_ALL, 0},
    {128, 4, {2, 1}, "cap=2", NASTY_ALL, HOW_CHAIN},   {128, 8, {1, 2}, "cap=2", NASTY_ALL, 0},
    {128, 2, {17, 2}, "cap=17", NASTY_ALL, HOW_CHAIN}, /* 256 merge CTAs: split=1 by residency, in waves */
};

START_TEST(exchange_is_right_for_wide_shapes) {
    exchange_must_be_right(gen, &wide[_i], DCPKCPU_FAIR, (uint64_t)_i);
}
END_TEST

static const struct exchange_case wide_random[] = {
    {12, 16, {1, 2}, "", NASTY_ALL, HOW_CHAIN},      {128, 1, {2, 5}, "", NASTY_ALL, 0},
    {128, 2, {1, 2}, "cap=5", NASTY_ALL, HOW_CHAIN}, {128, 3, {1, 2}, "cap=3", NASTY_ALL, 0},
    {128, 4, {1, 1}, "cap=2", NASTY_ALL, HOW_CHAIN}, {128, 8, {1, 1}, "cap=1", NASTY_ALL, 0},
};

/* Seed 5, the third shape's, is one in which stores are tracked. */
START_TEST(exchange_is_right_for_wide_shapes_under_an_adversary) {
    exchange_must_be_right(gen, &wide_random[_i], DCPKCPU_RANDOM, 3 + (uint64_t)_i);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schedules_wide");
    TCase *tests = tcase_create("schedules_wide");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, open_gen, close_gen);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, exchange_is_right_under_ten_schedules_up_to_96_heads, 0,
                        MIDDLE_SCHEDULES * (int)(sizeof middle / sizeof *middle));
    tcase_add_loop_test(tests, exchange_is_right_for_wide_shapes, 0, sizeof wide / sizeof *wide);
    tcase_add_loop_test(tests, exchange_is_right_for_wide_shapes_under_an_adversary, 0,
                        sizeof wide_random / sizeof *wide_random);
    return exchange_main(suite);
}
