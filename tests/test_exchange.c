/* test_exchange.c - the whole exchange on the CPU device against the FP64 reference: every shape up to 192 heads,
 * batches that change from use to use, every form of the kernels, inputs meant to hurt. Bounds: spec.md section 0,
 * decision 9. May call: tests/exchange.h. The seeded schedules are test_schedules.c's, wider shapes
 * test_exchange_wide.c's. */
#include <tests/exchange.h>

#include <tools/numbers.h>
#include <tools/reference.h>

#include <check.h>
#include <math.h>
#include <string.h>

static dcpk_gen *gen;

static void open_gen(void) {
    gen = exchange_gen(NULL);
}

static void close_gen(void) {
    dcpk_gen_close(gen);
}

/* Every pair of issue-sized shapes: six uses, four changes of batch. */
static const struct exchange_case shapes[] = {
    {1, 1, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, 0},
    {1, 2, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, 0},
    {1, 3, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, HOW_CHAIN},
    {1, 4, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, HOW_SYNC_EACH},
    {1, 8, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, HOW_CHAIN},
    {1, 16, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, 0},
    {2, 1, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, HOW_CHAIN},
    {2, 2, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, HOW_CHAIN | HOW_SYNC_EACH},
    {2, 3, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, 0},
    {2, 4, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, 0},
    {2, 8, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, 0},
    {2, 16, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, HOW_CHAIN},
    {12, 1, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, 0},
    {12, 2, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, 0},
    {12, 3, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, 0},
    {12, 4, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, 0},
    {12, 8, {1, 5, 17, 17, 1, 5}, "", NASTY_ALL, 0},
};

START_TEST(exchange_is_right_for_every_shape) {
    exchange_must_be_right(gen, &shapes[_i], DCPKCPU_FAIR, 100 + (uint64_t)_i);
}
END_TEST

/* Forms of the kernels and keys of the box, each on a shape that makes the key matter. */
static const struct exchange_case forms[] = {
    {2, 2, {2, 6, 18, 6, 2, 18}, "q=2", NASTY_ALL, 0},
    {1, 3, {4, 8, 20, 4, 20, 8}, "q=4", NASTY_ALL, 0},
    {2, 2, {1, 5, 17, 1, 17, 5}, "split=1", NASTY_ALL, 0},
    {2, 3, {1, 5, 17, 1, 17, 5}, "split=1 q=1", NASTY_ALL, HOW_CHAIN},
    {1, 9, {1, 5, 17, 1, 17, 5}, "split=1", NASTY_ALL, HOW_CHAIN | HOW_SYNC_EACH}, /* nine sources: more than one group
                                                                                      of polls */
    {1, 9, {1, 5, 17, 1, 17, 5}, "split=0", NASTY_ALL, 0},
    {2, 2, {1, 5, 17, 1, 17, 5}, "publish=multicast", NASTY_ALL, 0},
    {2, 3, {1, 5, 17, 1, 17, 5}, "publish=multicast checked=1 qh=11 cap=19", NASTY_ALL, HOW_SYNC_EACH},
    {2, 2, {1, 5, 17, 1, 17, 5}, "gate=0", NASTY_ALL, 0},
    {2, 1, {1, 5, 17, 1, 17, 5}, "gate=0", NASTY_ALL, 0},
    {2, 2, {1, 5, 17, 1, 17, 5}, "qh=7 cap=17", NASTY_ALL, HOW_SYNC_EACH},
    {3, 2, {1, 5, 17, 1, 17, 5}, "qh=64 cap=33 split=1", NASTY_ALL, HOW_CHAIN | HOW_SYNC_EACH},
    {2, 2, {1, 5, 17, 1, 17, 5}, "checked=1", NASTY_ALL, HOW_SYNC_EACH},
    {2, 3, {3, 6, 18, 3, 18, 6}, "checked=1 split=1 q=3", NASTY_ALL, HOW_CHAIN | HOW_SYNC_EACH},
    {2, 2, {1, 5, 17, 1, 17, 5}, "parity=arg", NASTY_ALL, 0},
    {2, 2, {1, 5, 17, 1, 17, 5}, "parity=arg split=1 checked=1", NASTY_ALL, HOW_CHAIN | HOW_SYNC_EACH},
    {2, 2, {1, 5, 17, 1, 17, 5}, "sms=20 reserve=3", NASTY_ALL, 0},
    {2, 2, {1, 5, 17, 1, 17, 5}, "tiled_from=1", NASTY_ALL, 0},
    {2, 2, {1, 5, 17, 1, 17, 5}, "", NASTY_ALL, HOW_PHASED},                        /* kernel by kernel, no PDL */
    {2, 3, {1, 5, 17, 1, 17, 5}, "split=1", NASTY_ALL, HOW_PHASED | HOW_SYNC_EACH}, /* the event-ordered form */
    {2, 2, {1, 5, 17, 1, 17, 5}, "", NASTY_ALL, HOW_CHAIN | HOW_PIECES}, /* launched one by one rather than as a layer
                                                                          */
    {2, 2, {1, 1, 5}, "", 0, 0},                                         /* an odd number of uses, plain inputs */
};

START_TEST(exchange_is_right_in_every_form) {
    exchange_must_be_right(gen, &forms[_i], DCPKCPU_FAIR, 200 + (uint64_t)_i);
}
END_TEST

/* Each kind of hurtful input by itself, so that one cannot hide behind another. */
START_TEST(exchange_is_right_for_each_nasty_input) {
    struct exchange_case shape = {2, 3, {5, 9, 5, 9, 5, 9}, "", 1u << _i, 0};
    exchange_must_be_right(gen, &shape, DCPKCPU_FAIR, 300 + (uint64_t)_i);
}
END_TEST

/* ---- made inputs --------------------------------------------------------------------------------- */

static struct scenario *run_edited(int32_t heads, int32_t dcp, int32_t batch, const char *keys, scenario_edit_fn *edit,
                                   void *self) {
    struct exchange_case shape = {heads, dcp, {batch, batch}, keys, 0, HOW_SYNC_EACH};
    struct scenario_options options;
    dcpkcpu_options cpu;
    dcpk_error error;
    dcpk_error_init(&error);
    exchange_options(&options, &cpu, gen, &shape, DCPKCPU_FAIR, 7);
    options.edit = edit;
    options.edit_self = self;
    struct scenario *scenario = exchange_open(&options);
    MUST(scenario_run(scenario, &error));
    ck_assert_msg(scenario_wrong(scenario) == 0, "%s", scenario_first_wrong(scenario));
    return scenario;
}

/* W_UV such that value v is latent v. */
static void select_latents(const struct scenario_inputs *inputs, int32_t heads) {
    for (int32_t h = 0; h < heads; h++) {
        uint16_t *w_uv = inputs->kv_b + (size_t)h * REF_HEAD_WEIGHTS + REF_VALUE * REF_LATENT;
        memset(w_uv, 0, REF_VALUE * REF_LATENT * 2);
        for (int v = 0; v < REF_VALUE; v++) {
            w_uv[v * REF_LATENT + v] = 0x3F80;
        }
    }
}

static void fill_rows(uint16_t *rows, size_t count, double value) {
    for (size_t i = 0; i < count; i++) {
        rows[i] = bf16_from_double(value);
    }
}

static void two_shards(void *self, int32_t use, int32_t rank, const struct scenario_inputs *inputs) {
    (void)self;
    (void)use;
    select_latents(inputs, 1);
    fill_rows(inputs->rows, 2 * REF_LATENT, rank == 0 ? 0 : 10);
    inputs->lse[0] = inputs->lse[1] = rank == 0 ? 1 : 3; /* log2 of Z = 2 and Z = 8 */
}

/* Softmax sums Z = [2, 8], outputs [0, 10]: 8.0 when the LSE are taken in base 2, 7.23 were they taken as natural. */
START_TEST(lse_is_base_2) {
    struct scenario *scenario = run_edited(1, 2, 1, "gate=0", two_shards, NULL);
    for (int r = 0; r < 2; r++) {
        for (int v = 0; v < REF_VALUE; v++) {
            ck_assert_double_eq(bf16_to_double(scenario_output(scenario, 1, r)[v]), 8.0);
        }
    }
    scenario_close(scenario);
}
END_TEST

enum { LSE_KINDS = 4, COMBINATION_HEADS = 11, COMBINATION_ROWS = 16 };

/* Row and head number a combination of {-inf, +inf, NaN, finite}^3 x {NaN, finite}^3. */
static void combination(void *self, int32_t use, int32_t rank, const struct scenario_inputs *inputs) {
    static const uint32_t kinds[] = {0xFF800000u, 0x7F800000u, 0xFFFFFFFFu};
    (void)self;
    (void)use;
    select_latents(inputs, COMBINATION_HEADS);
    for (uint32_t i = 0; i < COMBINATION_ROWS * 3 * COMBINATION_HEADS; i++) {
        uint32_t kind = (i >> (2 * rank)) % LSE_KINDS, payload_nan = (i >> (6 + rank)) & 1;
        inputs->lse[i] = kind < 3 ? f32_from_bits(kinds[kind]) : (float)(rank - 1);
        fill_rows(inputs->rows + (size_t)i * REF_LATENT, REF_LATENT, payload_nan ? (double)NAN : 1.0 + rank);
    }
}

/* What a combination must come to, worked out here again. */
static double combination_wants(uint32_t i) {
    double sum = 0, weights = 0;
    for (uint32_t rank = 0; rank < 3; rank++) {
        if ((i >> (2 * rank)) % LSE_KINDS == 3) {
            double weight = ldexp(1, (int)rank - 1);
            sum += weight * (((i >> (6 + rank)) & 1) ? NAN : 1.0 + rank);
            weights += weight;
        }
    }
    return weights > 0 ? sum / weights : 0;
}

START_TEST(merge_survives_every_mix_of_empty_nan_and_infinite_sources) {
    struct scenario *scenario = run_edited(COMBINATION_HEADS, 3, COMBINATION_ROWS, "gate=0", combination, NULL);
    uint32_t nans = 0, zeros = 0;
    for (uint32_t i = 0; i < COMBINATION_ROWS * 3 * COMBINATION_HEADS; i++) {
        uint32_t row = i / (3 * COMBINATION_HEADS), head = i % (3 * COMBINATION_HEADS),
                 owner = head / COMBINATION_HEADS;
        const uint16_t *output = scenario_output(scenario, 1, (int32_t)owner);
        double got =
            bf16_to_double(output[((size_t)row * COMBINATION_HEADS + head % COMBINATION_HEADS) * REF_VALUE + 77]);
        double want = combination_wants(i);
        nans += isnan(want) ? 1 : 0;
        zeros += want == 0;
        if (isnan(want)) {
            ck_assert_msg(isnan(got), "combination %u: %g, not NaN", i, got);
        } else {
            ck_assert_msg(fabs(got - want) <= 2 * bf16_ulp(want), "combination %u: %g, not %g", i, got, want);
            ck_assert(want != 0 || got == 0);
        }
    }
    ck_assert_uint_gt(nans, 50);
    ck_assert_uint_gt(zeros, 50);
    scenario_close(scenario);
}
END_TEST

/* Ten requests of 0..9 tokens over eight ranks: most shards hold nothing, and NaN lies where nothing is. */
static void short_requests(void *self, int32_t use, int32_t rank, const struct scenario_inputs *inputs) {
    (void)self;
    (void)use;
    for (int32_t i = 0; i < 10; i++) {
        inputs->totals[i] = i;
        inputs->lens[i] = i > rank ? (i - rank + 7) / 8 : 0;
        for (int32_t head = 0; head < 8 && inputs->lens[i] <= 0; head++) {
            fill_rows(inputs->rows + (size_t)(i * 8 + head) * REF_LATENT, REF_LATENT, NAN);
            inputs->lse[i * 8 + head] = head % 2 ? NAN : 0; /* stale, or the 0 that some kernels leave */
        }
    }
}

START_TEST(merge_of_requests_shorter_than_the_group) {
    struct scenario *scenario = run_edited(1, 8, 10, "", short_requests, NULL);
    for (int32_t r = 0; r < 8; r++) {
        for (int i = 0; i < REF_VALUE; i++) {
            ck_assert_uint_eq(scenario_output(scenario, 1, r)[i], 0); /* request 0 is padding */
            ck_assert(!bf16_is_nan(scenario_output(scenario, 1, r)[REF_VALUE + i]));
        }
    }
    scenario_close(scenario);
}
END_TEST

/* Payload words that equal, or nearly equal, the armed words of their mailbox. */
static void sentinel_payload(void *self, int32_t use, int32_t rank, const struct scenario_inputs *inputs) {
    static const uint16_t pairs[][2] = {{0, 0x8000}, {0x8000, 0}, {0x8000, 0x8000},
                                        {0, 0},      {1, 0x8001}, {0x8000, 0x0001}};
    (void)self;
    (void)use;
    for (int32_t row = 0; row < 6; row++) {
        for (int32_t head = 0; head < 4; head++) {
            uint16_t *to = inputs->rows + (size_t)(row * 4 + head) * REF_LATENT;
            for (int l = 0; l < REF_LATENT; l += 2) {
                to[l] = pairs[row][0];
                to[l + 1] = pairs[row][1];
            }
            inputs->lse[row * 4 + head] = rank == 0 && head == 3 ? f32_from_bits(0xFFFFFFFFu) : 1;
        }
    }
    memset(inputs->query, 0xFF, 6 * 2 * REF_HEAD_BYTES); /* NaN bytes only: each word would be the sentinel */
}

/* -0 becomes +0, a query of 0xFF bytes arrives as 0x7F, an LSE of 0xFFFFFFFF as empty; nothing hangs. */
START_TEST(payload_that_looks_like_a_sentinel_arrives) {
    scenario_close(run_edited(2, 2, 6, "", sentinel_payload, NULL));
}
END_TEST

/* ---- the checks themselves ----------------------------------------------------------------------- */

START_TEST(one_flipped_bit_of_an_input_is_found) {
    struct exchange_case shape = {2, 2, {5, 5}, "", 0, 0};
    struct scenario_options options;
    dcpkcpu_options cpu;
    dcpk_error error;
    dcpk_error_init(&error);
    exchange_options(&options, &cpu, gen, &shape, DCPKCPU_FAIR, 11);
    options.inject = INJECT_ROWS + _i;
    struct scenario *scenario = exchange_open(&options);
    MUST(scenario_run(scenario, &error));
    ck_assert_uint_gt(scenario_wrong(scenario), 0);
    scenario_close(scenario);
}
END_TEST

START_TEST(ranks_with_different_sms_work) {
    struct exchange_case shape = {2, 3, {5, 17, 17, 5}, "sms=40", NASTY_ALL, HOW_SYNC_EACH};
    struct scenario_options options;
    dcpkcpu_options cpu;
    dcpk_error error;
    dcpk_error_init(&error);
    exchange_options(&options, &cpu, gen, &shape, DCPKCPU_FAIR, 12);
    options.sms_step = 17; /* 40, 23 and 6: three grids of dcp_value */
    struct scenario *scenario = exchange_open(&options);
    MUST(scenario_run(scenario, &error));
    ck_assert_msg(scenario_wrong(scenario) == 0, "%s", scenario_first_wrong(scenario));
    scenario_close(scenario);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("exchange");
    TCase *tests = tcase_create("exchange");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, open_gen, close_gen);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, exchange_is_right_for_every_shape, 0, sizeof shapes / sizeof *shapes);
    tcase_add_loop_test(tests, exchange_is_right_in_every_form, 0, sizeof forms / sizeof *forms);
    tcase_add_loop_test(tests, exchange_is_right_for_each_nasty_input, 0, 7);
    tcase_add_test(tests, lse_is_base_2);
    tcase_add_test(tests, merge_survives_every_mix_of_empty_nan_and_infinite_sources);
    tcase_add_test(tests, merge_of_requests_shorter_than_the_group);
    tcase_add_test(tests, payload_that_looks_like_a_sentinel_arrives);
    tcase_add_loop_test(tests, one_flipped_bit_of_an_input_is_found, 0, INJECT_QKV - INJECT_ROWS + 1);
    tcase_add_test(tests, ranks_with_different_sms_work);
    return exchange_main(suite);
}
