/* test_schedules.c - the exchange under seeded adversaries: any warp next, bursts of any length, stores to peers late
 * and word by word, dependents as early as PDL allows. Small shapes under 300 schedules each. test_schedules_wide.c has
 * the wide ones. May call: tests/exchange.h. */
#include <tests/exchange.h>

#include <check.h>
#include <stdlib.h>

enum { SCHEDULES = 300, SLICES = 10 };

/* At most 16 heads in all and 5 rows; form and keys change with the seed, so that each form meets each shape. */
static const int32_t small[][2] = {{1, 2}, {1, 3}, {1, 4}, {1, 8}, {1, 16}, {2, 2}, {2, 3}, {2, 4}, {2, 8}};
static const struct {
    const char *keys;
    uint32_t how;
} forms[] = {{"", 0},
             {"", HOW_CHAIN},
             {"split=1", HOW_CHAIN},
             {"checked=1", 0},
             {"publish=multicast", HOW_CHAIN},
             {"parity=arg split=1", 0},
             {"qh=33 cap=6", HOW_CHAIN}};

static dcpk_gen *gen;

static void open_gen(void) {
    gen = exchange_gen(NULL);
}

static void close_gen(void) {
    dcpk_gen_close(gen);
}

/* Loop index: shape and a tenth of its schedules. */
START_TEST(exchange_is_right_under_300_schedules) {
    const int32_t *pair = small[_i / SLICES];
    for (uint64_t seed = (uint64_t)(_i % SLICES); seed < SCHEDULES; seed += SLICES) {
        size_t form = (size_t)(seed / SLICES) % (sizeof forms / sizeof *forms);
        struct exchange_case shape = {pair[0], pair[1], {2, 5, 2}, forms[form].keys, NASTY_ALL, forms[form].how};
        exchange_must_be_right(gen, &shape, DCPKCPU_RANDOM, seed);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schedules");
    TCase *tests = tcase_create("schedules");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, open_gen, close_gen);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, exchange_is_right_under_300_schedules, 0, SLICES * (int)(sizeof small / sizeof *small));
    return exchange_main(suite);
}
