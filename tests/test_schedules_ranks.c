/* test_schedules_ranks.c - eight and sixteen ranks, up to 16 heads in all, under 300 seeded adversaries at eight ranks
 * of one head and 100 at each wider shape (a run costs with the square of the ranks). Adversary: any warp next, bursts
 * of any length, stores to peers late and word by word, dependents as early as PDL allows. test_schedules_wide.c has
 * the wide shapes. May call: tests/exchange.h. */
#include <tests/exchange.h>

#include <check.h>

enum { SLICES = 30 };

static const int32_t shapes[][3] = {{1, 8, 300}, {2, 8, 100}, {1, 16, 100}}; /* heads, dcp, schedules */

static dcpk_gen *gen;

static void open_gen(void) {
    gen = exchange_gen(NULL);
}

static void close_gen(void) {
    dcpk_gen_close(gen);
}

/* Loop index: a shape and a part of its schedules. */
START_TEST(exchange_of_many_ranks_is_right_under_seeded_schedules) {
    const int32_t *shape = shapes[_i / SLICES];
    for (uint64_t seed = (uint64_t)(_i % SLICES); seed < (uint64_t)shape[2]; seed += SLICES) {
        exchange_under_schedule(gen, shape[0], shape[1], seed);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schedules_ranks");
    TCase *tests = tcase_create("schedules_ranks");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, open_gen, close_gen);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, exchange_of_many_ranks_is_right_under_seeded_schedules, 0,
                        SLICES * (int)(sizeof shapes / sizeof *shapes));
    return exchange_main(suite);
}
