/* test_reference.c - the judge is judged: number formats against brute force, the reference against sums done by hand.
 * May call: tools/numbers.h, tools/reference.h. Must not: touch a device. */
#include <tools/numbers.h>
#include <tools/reference.h>

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The nearest of all finite codes by search, ties to the even code: slow and obviously right. */
static unsigned nearest_code(double value, unsigned count, double (*decode)(unsigned), unsigned first) {
    unsigned best = first;
    for (unsigned code = first; code < first + count; code++) {
        double here = fabs(decode(code) - value), there = fabs(decode(best) - value);
        if (here < there || (here == there && code % 2 == 0)) {
            best = code;
        }
    }
    return best;
}

static double decode_e4m3(unsigned code) {
    return e4m3_to_double((uint8_t)code);
}

START_TEST(e4m3_codes_are_those_of_the_format) {
    ck_assert_double_eq(e4m3_to_double(0x00), 0.0);
    ck_assert_double_eq(e4m3_to_double(0x01), 0x1p-9);
    ck_assert_double_eq(e4m3_to_double(0x07), 7 * 0x1p-9);
    ck_assert_double_eq(e4m3_to_double(0x08), 0x1p-6);
    ck_assert_double_eq(e4m3_to_double(0x38), 1.0);
    ck_assert_double_eq(e4m3_to_double(0x7E), 448.0);
    ck_assert_double_eq(e4m3_to_double(0xFE), -448.0);
    ck_assert(isnan(e4m3_to_double(0x7F)) && isnan(e4m3_to_double(0xFF)));
    ck_assert_uint_eq(e4m3_from_double(NAN), 0x7F);
    ck_assert_uint_eq(e4m3_from_double(-NAN), 0x7F);
    ck_assert_uint_eq(e4m3_from_double(INFINITY), 0x7E);
    ck_assert_uint_eq(e4m3_from_double(-1e300), 0xFE);
    ck_assert_uint_eq(e4m3_from_double(-0.0), 0x80);
}
END_TEST

START_TEST(e4m3_rounds_to_the_nearest_even_code) {
    struct random random;
    random_seed(&random, 7);
    for (unsigned code = 0; code < 0x7E; code++) {
        double low = decode_e4m3(code), high = decode_e4m3(code + 1), middle = (low + high) / 2;
        double values[] = {low, middle, nextafter(middle, 0), nextafter(middle, 1e9),
                           low + (high - low) * random_uniform(&random)};
        for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
            unsigned want = nearest_code(values[i], 0x7F, decode_e4m3, 0);
            ck_assert_uint_eq(e4m3_from_double(values[i]), want);
            ck_assert_uint_eq(e4m3_from_double(-values[i]), want | 0x80);
        }
    }
}
END_TEST

START_TEST(bf16_rounds_to_the_nearest_even_code) {
    for (unsigned code = 0; code < 0x7F7F; code++) {
        double low = bf16_to_double((uint16_t)code), high = bf16_to_double((uint16_t)(code + 1)),
               middle = (low + high) / 2;
        ck_assert_double_lt(low, high);
        ck_assert_uint_eq(bf16_from_double(low), code);
        ck_assert_uint_eq(bf16_from_double(-low), code | 0x8000);
        ck_assert_uint_eq(bf16_from_double(middle), code + code % 2);
        ck_assert_uint_eq(bf16_from_double(nextafter(middle, 0)), code);
        ck_assert_uint_eq(bf16_from_double(nextafter(middle, INFINITY)), code + 1);
        ck_assert_double_eq(bf16_ulp(low), high - low);
    }
}
END_TEST

START_TEST(bf16_corners) {
    ck_assert_uint_eq(bf16_from_double(1.0), 0x3F80);
    ck_assert_uint_eq(bf16_from_double(-2.0), 0xC000);
    ck_assert_uint_eq(bf16_from_double(-0.0), 0x8000);
    ck_assert_uint_eq(bf16_from_double(0x1.FFp127), 0x7F80); /* half a step above the greatest: to even, infinity */
    ck_assert_uint_eq(bf16_from_double(0x1.FEFp127), 0x7F7F);
    ck_assert_uint_eq(bf16_from_double(1e300), 0x7F80);
    ck_assert_uint_eq(bf16_from_double(-INFINITY), 0xFF80);
    ck_assert_uint_eq(bf16_from_double(NAN), 0x7FFF);
    ck_assert_uint_eq(bf16_from_double(0x1p-134), 0); /* half of the least: to even */
    ck_assert_uint_eq(bf16_from_double(0x1.8p-134), 1);
    ck_assert(!bf16_is_nan(0x7F80) && bf16_is_nan(0x7F81) && bf16_is_nan(0xFFFF));
    ck_assert_uint_eq(bf16_steps(0x3F80, 0x3F82), 2);
    ck_assert_uint_eq(bf16_steps(0x0001, 0x8001), 2);
    ck_assert_uint_eq(bf16_steps(0x0000, 0x8000), 0);
    ck_assert_uint_eq(bf16_steps(0x7FFF, 0xFFC0), 0);
    ck_assert_uint_eq(bf16_steps(0x7FFF, 0x3F80), UINT32_MAX);
}
END_TEST

START_TEST(relative_error_is_frobenius) {
    double value[] = {3, 5, NAN}, reference[] = {3, 4, 1}, zero[] = {0, 0, 0};
    ck_assert_double_eq_tol(relative_error(value, reference, 3), 0.2, 1e-15);
    ck_assert_double_eq(relative_error(zero, zero, 3), 0);
    ck_assert(isinf(relative_error(reference, zero, 3)));
}
END_TEST

START_TEST(random_numbers_have_their_moments) {
    struct random random, again;
    random_seed(&random, 1);
    random_seed(&again, 1);
    ck_assert_uint_eq(random_next(&random), random_next(&again));
    double sum = 0, squares = 0;
    for (int i = 0; i < 100000; i++) {
        double value = random_normal(&random);
        sum += value;
        squares += value * value;
        ck_assert_uint_lt(random_below(&random, 3), 3);
    }
    ck_assert_double_eq_tol(sum / 100000, 0, 0.02);
    ck_assert_double_eq_tol(squares / 100000, 1, 0.03);
}
END_TEST

/* ---- norm ---------------------------------------------------------------------------------------- */

/* 4096^2 = 2^24 swallows single ones added to it: which ones it meets first is the order. */
START_TEST(norm_orders_are_the_stated_ones) {
    uint16_t x[REF_Q_LORA];
    for (int i = 0; i < REF_Q_LORA; i++) {
        x[i] = 0x3F80;
    }
    x[0] = bf16_from_double(4096);
    ck_assert_float_eq(reference_norm_total(FORM_SCALAR, x), 16777216.0f + 191 * 8);
    ck_assert_float_eq(reference_norm_total(FORM_TILED, x), 16777216.0f + 36 + 31 * 48);
}
END_TEST

START_TEST(norm_of_equal_values_is_gamma) {
    uint16_t x[REF_Q_LORA], gamma[REF_Q_LORA], out[REF_Q_LORA];
    double exact[REF_Q_LORA];
    for (int i = 0; i < REF_Q_LORA; i++) {
        x[i] = bf16_from_double(i % 2 ? 2 : -2);
        gamma[i] = bf16_from_double(i % 7);
    }
    reference_norm(x, gamma, 0, out, exact);
    for (int i = 0; i < REF_Q_LORA; i++) {
        ck_assert_double_eq(exact[i], i % 2 ? i % 7 : -(i % 7));
        ck_assert_double_eq(bf16_to_double(out[i]), exact[i]);
    }
    ck_assert_uint_eq(reference_norm_replay(FORM_SCALAR, x, gamma, 0, 0, out), 0);
    ck_assert_uint_eq(reference_norm_replay(FORM_TILED, x, gamma, 0, 0, out), 0);
    reference_norm(x, gamma, 12, out, exact); /* rsqrt(4 + 12) = 1/4 */
    ck_assert_double_eq(exact[1], 0.5);
}
END_TEST

START_TEST(norm_replay_sees_one_wrong_bit) {
    uint16_t x[REF_Q_LORA], gamma[REF_Q_LORA], out[REF_Q_LORA];
    struct random random;
    random_seed(&random, 3);
    for (int i = 0; i < REF_Q_LORA; i++) {
        x[i] = bf16_from_double(random_normal(&random));
        gamma[i] = bf16_from_double(1 + random_normal(&random) / 4);
    }
    reference_norm(x, gamma, 1e-5, out, NULL);
    uint32_t base = reference_norm_replay(FORM_SCALAR, x, gamma, 1e-5f, 2, out);
    ck_assert_uint_le(base, 4); /* FP64 rounds a rare value to the other side */
    out[700] ^= 2;
    ck_assert_uint_eq(reference_norm_replay(FORM_SCALAR, x, gamma, 1e-5f, 2, out), base + 1);
}
END_TEST

/* ---- merge and value ----------------------------------------------------------------------------- */

enum { MOST = 4 };

/* One row, one head a rank: rank 0's head is merged from `dcp` constant rows. W_UV selects latent v for value v. */
struct merge_case {
    uint16_t rows[MOST][MOST * REF_LATENT];
    float lse[MOST][MOST];
    int32_t lens[MOST], totals;
    uint16_t kv_b[REF_HEAD_WEIGHTS], gate[REF_VALUE];
    const uint16_t *row_of[MOST];
    const float *lse_of[MOST];
    const int32_t *lens_of[MOST];
    struct reference_value in;
    uint16_t output[REF_VALUE];
    double magnitude[REF_VALUE];
};

static struct merge_case *merge_case(int32_t dcp, const float *lse, const double *payload) {
    struct merge_case *made = calloc(1, sizeof *made);
    ck_assert_ptr_nonnull(made);
    for (int32_t s = 0; s < dcp; s++) {
        for (int i = 0; i < MOST * REF_LATENT; i++) {
            made->rows[s][i] = bf16_from_double(payload[s]);
        }
        made->lse[s][0] = lse[s];
        made->lens[s] = 1;
        made->row_of[s] = made->rows[s];
        made->lse_of[s] = made->lse[s];
        made->lens_of[s] = &made->lens[s];
    }
    for (int v = 0; v < REF_VALUE; v++) {
        made->kv_b[REF_VALUE * REF_LATENT + v * REF_LATENT + v] = 0x3F80;
        made->kv_b[v] = 0x7FC0; /* W_UK is none of the value's business */
    }
    made->totals = 9;
    made->in = (struct reference_value){.dcp = dcp,
                                        .heads = 1,
                                        .batch = 1,
                                        .q = 1,
                                        .rows = made->row_of,
                                        .lse = made->lse_of,
                                        .lens = made->lens_of,
                                        .totals = &made->totals,
                                        .kv_b = made->kv_b};
    return made;
}

static double merged(struct merge_case *made) {
    reference_value(&made->in, made->output, made->magnitude);
    return bf16_to_double(made->output[5]);
}

static double merge_of(int32_t dcp, const float *lse, const double *payload) {
    struct merge_case *made = merge_case(dcp, lse, payload);
    double result = merged(made);
    free(made);
    return result;
}

/* Two shards whose softmax sums are Z = 2 and 8: in base 2 their LSE are 1 and 3. Natural logarithms would give 7.23.
 */
START_TEST(merge_lse_is_base_2) {
    double payload[] = {0, 10}, weights[MOST];
    float base2[] = {log2f(2), log2f(8)};
    struct merge_case *made = merge_case(2, base2, payload);
    ck_assert_double_eq(merged(made), 8.0);
    ck_assert_double_eq_tol(reference_merge_weights(&made->in, 0, 0, weights), log2(10), 1e-12);
    ck_assert_double_eq_tol(weights[0], 0.2, 1e-12);
    free(made);
}
END_TEST

START_TEST(merge_skips_what_weighs_nothing) {
    float nan_bits = f32_from_bits(0xFFFFFFFFu);
    ck_assert_double_eq(merge_of(3, (float[]){5, -INFINITY, 5}, (double[]){3, NAN, 5}), 4);
    ck_assert_double_eq(merge_of(3, (float[]){5, INFINITY, 5}, (double[]){3, INFINITY, 5}), 4);
    ck_assert_double_eq(merge_of(3, (float[]){5, nan_bits, 5}, (double[]){3, 100, 5}), 4);
    ck_assert_double_eq(merge_of(2, (float[]){5, -1e5f}, (double[]){3, NAN}), 3); /* underflows to weight 0 */
    ck_assert_double_eq(merge_of(2, (float[]){3e38f, -3e38f}, (double[]){3, NAN}), 3);
    ck_assert_double_eq(merge_of(1, (float[]){-3e38f}, (double[]){3}), 3); /* very small is not empty */
    ck_assert(isnan(merge_of(2, (float[]){5, 4}, (double[]){3, NAN})));
}
END_TEST

START_TEST(merge_of_nothing_is_zero) {
    double weights[MOST];
    struct merge_case *made = merge_case(2, (float[]){-INFINITY, NAN}, (double[]){NAN, 7});
    merged(made);
    for (int v = 0; v < REF_VALUE; v++) {
        ck_assert_double_eq(bf16_to_double(made->output[v]), 0);
        ck_assert_double_eq(made->magnitude[v], 0);
    }
    ck_assert(reference_merge_weights(&made->in, 0, 0, weights) == -INFINITY);
    free(made);
}
END_TEST

START_TEST(merge_reads_lens_not_garbage) {
    struct merge_case *made = merge_case(2, (float[]){1, 9}, (double[]){3, NAN});
    made->lens[1] = 0;
    ck_assert_double_eq(merged(made), 3);
    made->lens[1] = -4;
    ck_assert_double_eq(merged(made), 3);
    free(made);
}
END_TEST

START_TEST(padding_is_plus_zero_whatever_the_gate) {
    struct merge_case *made = merge_case(2, (float[]){1, 1}, (double[]){-3, -3});
    made->totals = 0;
    made->in.gate = made->gate;
    made->in.pitch = REF_VALUE;
    memset(made->gate, 0xFF, sizeof made->gate);
    merged(made);
    for (int v = 0; v < REF_VALUE; v++) {
        ck_assert_uint_eq(made->output[v], 0);
    }
    free(made);
}
END_TEST

START_TEST(value_rounds_where_the_kernels_round) {
    /* (1 + 255/256)/2 = 1 - 1/512 is a tie between BF16 1 - 1/256 and 1: to even, 1. Times 3: 3, not 2.994. */
    struct merge_case *made = merge_case(2, (float[]){0, 0}, (double[]){1, 255.0 / 256});
    for (int v = 0; v < REF_VALUE; v++) {
        made->kv_b[REF_VALUE * REF_LATENT + v * REF_LATENT + v] = bf16_from_double(3);
        made->gate[v] = bf16_from_double(0);
    }
    ck_assert_double_eq(merged(made), 3);
    ck_assert_double_eq(made->magnitude[5], 3);
    made->in.gate = made->gate;
    made->in.pitch = REF_VALUE;
    ck_assert_double_eq(merged(made), 1.5); /* sigmoid(0) = 1/2 */
    made->gate[5] = bf16_from_double(-1000);
    ck_assert_double_eq(merged(made), 0);
    made->gate[5] = bf16_from_double(1000);
    ck_assert_double_eq(merged(made), 3);
    free(made);
}
END_TEST

/* Latent 5 is 1 and 255/256 at equal weight: an exact tie, which FP32 may leave to either side. Value 6 is 8 times the
 * difference of latents 5 and 6, so it shows which side was taken. */
START_TEST(value_accepts_either_rounding_of_a_tie_and_nothing_else) {
    struct merge_case *made = merge_case(2, (float[]){0, 0}, (double[]){1, 1});
    uint16_t judged[REF_VALUE], *row_6 = made->kv_b + REF_VALUE * REF_LATENT + 6 * REF_LATENT;
    made->rows[1][5] = bf16_from_double(255.0 / 256);
    row_6[5] = bf16_from_double(8);
    row_6[6] = bf16_from_double(-8);
    ck_assert_double_eq(merged(made), 1);
    ck_assert_double_eq(bf16_to_double(made->output[6]), 0);
    memcpy(judged, made->output, sizeof judged);
    made->in.judged = judged;
    judged[6] = bf16_from_double(-8.0 / 256);
    merged(made);
    ck_assert_double_eq(bf16_to_double(made->output[6]), -8.0 / 256);
    judged[6] = bf16_from_double(8.0 / 256); /* the wrong side */
    merged(made);
    ck_assert_double_eq(bf16_to_double(made->output[6]), 0);
    made->rows[1][5] = bf16_from_double(254.0 / 256); /* no tie any more: exactly 255/256 */
    judged[6] = 0;
    merged(made);
    ck_assert_double_eq(bf16_to_double(made->output[6]), -8.0 / 256);
    free(made);
}
END_TEST

START_TEST(value_magnitude_has_the_rows_rms_as_floor) {
    struct merge_case *made = merge_case(1, (float[]){0}, (double[]){2});
    made->kv_b[REF_VALUE * REF_LATENT + 5 * REF_LATENT + 5] = 0;
    ck_assert_double_eq(merged(made), 0);
    ck_assert_double_eq_tol(made->magnitude[5], sqrt(4.0 * 127 / 128) / 16, 1e-12);
    free(made);
}
END_TEST

START_TEST(value_takes_the_ranks_own_head_and_its_own_gate) {
    struct merge_case *made = merge_case(2, (float[]){0, 0}, (double[]){1, 1});
    for (int s = 0; s < 2; s++) {
        for (int l = 0; l < REF_LATENT; l++) {
            made->rows[s][REF_LATENT + l] = bf16_from_double(7); /* global head 1 = head 0 of rank 1 */
        }
    }
    ck_assert_double_eq(merged(made), 1);
    made->in.rank = 1;
    ck_assert_double_eq(merged(made), 7);
    free(made);
}
END_TEST

START_TEST(query_nan_is_canonical) {
    ck_assert_uint_eq(reference_query_byte(0xFF), 0x7F);
    for (unsigned byte = 0; byte < 0xFF; byte++) {
        ck_assert_uint_eq(reference_query_byte((uint8_t)byte), byte);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("reference");
    TCase *tests = tcase_create("reference");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, e4m3_codes_are_those_of_the_format);
    tcase_add_test(tests, e4m3_rounds_to_the_nearest_even_code);
    tcase_add_test(tests, bf16_rounds_to_the_nearest_even_code);
    tcase_add_test(tests, bf16_corners);
    tcase_add_test(tests, relative_error_is_frobenius);
    tcase_add_test(tests, random_numbers_have_their_moments);
    tcase_add_test(tests, norm_orders_are_the_stated_ones);
    tcase_add_test(tests, norm_of_equal_values_is_gamma);
    tcase_add_test(tests, norm_replay_sees_one_wrong_bit);
    tcase_add_test(tests, merge_lse_is_base_2);
    tcase_add_test(tests, merge_skips_what_weighs_nothing);
    tcase_add_test(tests, merge_of_nothing_is_zero);
    tcase_add_test(tests, merge_reads_lens_not_garbage);
    tcase_add_test(tests, padding_is_plus_zero_whatever_the_gate);
    tcase_add_test(tests, value_rounds_where_the_kernels_round);
    tcase_add_test(tests, value_accepts_either_rounding_of_a_tie_and_nothing_else);
    tcase_add_test(tests, value_magnitude_has_the_rows_rms_as_floor);
    tcase_add_test(tests, value_takes_the_ranks_own_head_and_its_own_gate);
    tcase_add_test(tests, query_nan_is_canonical);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
