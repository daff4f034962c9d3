/* ranks.c - see ranks.h. */
#include <tests/ranks.h>

#include <tools/numbers.h>
#include <tools/reference.h>

#include <check.h>

dcpk_gen *ranks_gen;

void ranks_open_gen(void) {
    ranks_gen = exchange_gen(NULL);
}

void ranks_close_gen(void) {
    dcpk_gen_close(ranks_gen);
}

struct scenario *ranks_open(const char *keys, uint32_t how, int32_t schedule, uint64_t seed) {
    struct exchange_case shape = {HEADS, RANKS, {5, BATCH, BATCH, 5, BATCH}, keys, 0, how};
    struct scenario_options options;
    dcpkcpu_options cpu;
    exchange_options(&options, &cpu, ranks_gen, &shape, schedule, seed);
    options.cap = CAP;
    options.bound_ns = RANKS_BOUND_NS;
    return exchange_open(&options);
}

dcpk_box_state ranks_status(struct scenario *s, int32_t rank) {
    dcpk_box_state state = {.size = sizeof state};
    ck_assert_int_eq(dcpk_box_status(scenario_box(s, rank), &state, NULL), DCPK_OK);
    return state;
}

void ranks_use_is_right(struct scenario *s, int32_t use) {
    dcpk_error error;
    dcpk_error_init(&error);
    for (int32_t r = 0; r < RANKS; r++) {
        struct scenario_check check;
        MUST(scenario_check(s, use, r, &check, &error));
        ck_assert_msg(check.first[0] == '\0', "use %d rank %d: %s", use, r, check.first);
    }
}

void ranks_are_armed(struct scenario *s, uint32_t uses) {
    dcpk_error error;
    dcpk_error_init(&error);
    for (int32_t r = 0; r < RANKS; r++) {
        struct box_scan scan;
        MUST(scenario_scan(s, r, &scan, &error));
        ck_assert_msg(scan.first[0] == '\0', "rank %d: %s", r, scan.first);
        ck_assert_uint_eq(scan.next, uses);
        ck_assert_uint_eq(scan.current, uses - 1);
        ck_assert_uint_eq(scan.abort, 0);
    }
}

void ranks_sync(struct scenario *s) {
    dcpk_error error;
    dcpk_error_init(&error);
    for (int32_t r = 0; r < RANKS; r++) {
        MUST(scenario_sync(s, r, &error));
    }
}

int32_t ranks_tiles_are_nan_or_right(struct scenario *s, int32_t use, int32_t rank, int32_t batch) {
    dcpk_error error;
    struct scenario_check check;
    int32_t dead = 0;
    dcpk_error_init(&error);
    MUST(scenario_check(s, use, rank, &check, &error));
    ck_assert_msg(check.value_wrong == check.output_nans, "%s", check.first);
    const uint16_t *output = scenario_output(s, use, rank);
    for (int32_t tile = 0; tile < (batch + 15) / 16; tile++) {
        for (int32_t head = 0; head < HEADS; head++) {
            int32_t nans = 0, all = 0;
            for (int32_t row = 16 * tile; row < batch && row < 16 * tile + 16; row++) {
                for (int v = 0; v < REF_VALUE; v++, all++) {
                    nans += bf16_is_nan(output[(row * HEADS + head) * REF_VALUE + v]);
                }
            }
            ck_assert_msg(nans == 0 || nans == all, "use %d rank %d tile %d head %d: %d of %d values are NaN", use,
                          rank, tile, head, nans, all);
            dead += nans != 0;
        }
    }
    return dead;
}

void ranks_are_right_after_rearm(struct scenario *s) {
    dcpk_error error;
    dcpk_error_init(&error);
    MUST(scenario_rearm(s, NULL, &error));
    for (int32_t r = 0; r < RANKS; r++) {
        ck_assert_int_eq(ranks_status(s, r).dead, 0);
    }
    ranks_are_armed(s, 0);
    for (int32_t use = 1; use < USES; use++) {
        MUST(scenario_reset(s, use, &error));
        MUST(scenario_launch(s, use, &error));
    }
    ranks_sync(s);
    for (int32_t use = 1; use < USES; use++) {
        ranks_use_is_right(s, use);
    }
    ranks_are_armed(s, USES - 1);
}
