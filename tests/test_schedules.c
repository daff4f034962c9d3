/* test_schedules.c - small shapes, two to four ranks, under 300 seeded adversaries each; one rank, which has no
 * exchange, under 30. Adversary: any warp next, bursts of any length, stores to peers late and word by word, dependents
 * as early as PDL allows. test_schedules_wide.c has the wide shapes. May call: tests/exchange.h. */
#include <tests/exchange.h>

#include <check.h>

enum { SCHEDULES = 300, ALONE = 30, SLICES = 10 };

static const int32_t shapes[][2] = {{1, 1}, {2, 1}, {12, 1}, {1, 2}, {2, 2},
                                    {1, 3}, {2, 3}, {1, 4},  {2, 4}}; /* heads, dcp */

static dcpk_gen *gen;

static void open_gen(void) {
    gen = exchange_gen(NULL);
}

static void close_gen(void) {
    dcpk_gen_close(gen);
}

/* Loop index: a shape and a part of its schedules. */
START_TEST(exchange_is_right_under_300_schedules) {
    const int32_t *pair = shapes[_i / SLICES];
    for (uint64_t seed = (uint64_t)(_i % SLICES); seed < (pair[1] > 1 ? SCHEDULES : ALONE); seed += SLICES) {
        exchange_under_schedule(gen, pair[0], pair[1], seed);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schedules");
    TCase *tests = tcase_create("schedules");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, open_gen, close_gen);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, exchange_is_right_under_300_schedules, 0,
                        SLICES * (int)(sizeof shapes / sizeof *shapes));
    return exchange_main(suite);
}
