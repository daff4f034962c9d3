/* test_whole_same.c - what must not change the whole layer's results: the number of ranks, the rest of the batch,
 * padding, the form of a step; and that each row sees the keys it should, counted one by one.
 * Compares runs with each other bit by bit, and with counts made here. */
#include <tests/whole.h>

#include <tools/numbers.h>

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct whole *run(const char *text) {
    struct whole *whole = calloc(1, sizeof *whole);
    dcpk_gen *gen = exchange_gen("templates/checks");
    whole_make(whole, gen, text);
    whole_run(whole);
    layer_run_detach(whole->run);
    dcpk_gen_close(gen);
    return whole;
}

static struct whole *right(const char *text) {
    struct whole *whole = run(text);
    ck_assert_msg(whole->judged.wrong == 0, "%s: %s", text, whole->judged.first);
    return whole;
}

static void end(struct whole *whole) {
    whole_close(whole);
    free(whole);
}

/* Bytes of rows [0, rows) of a step on a rank: what "the same" means below. */
static void same_rows(const struct whole *a, const struct whole *b, int32_t rows) {
    size_t count = (size_t)rows, all = (size_t)(a->make.dcp * a->make.heads), own = (size_t)a->make.heads;
    for (int32_t s = 0; s < a->make.steps; s++) {
        for (int32_t r = 0; r < a->make.dcp; r++) {
            const struct layer_outcome *x = layer_run_outcome(a->run, s, r), *y = layer_run_outcome(b->run, s, r);
            ck_assert_msg(memcmp(x->query, y->query, count * all * LAYER_TOKEN) == 0, "%s | %s: step %d: query",
                          a->text, b->text, s);
            ck_assert_msg(memcmp(x->rows, y->rows, count * all * REF_LATENT * 2) == 0, "%s | %s: step %d: rows",
                          a->text, b->text, s);
            ck_assert_msg(memcmp(x->rows_lse, y->rows_lse, count * all * 4) == 0, "%s | %s: step %d: rows_lse", a->text,
                          b->text, s);
            ck_assert_msg(memcmp(x->output, y->output, count * own * REF_VALUE * 2) == 0, "%s | %s: step %d: output",
                          a->text, b->text, s);
        }
    }
}

/* ---- DCP = N against DCP = 1 (decision 9) --------------------------------------------------------- */

static const char *const shared[] = {"context=1,65,130 steps=3 splits=2", "context=6,140 q=2 steps=3 interleave=16",
                                     "context=300 sigma=3 steps=1", "context=70,200 mean=1 steps=1 interleave=64",
                                     "context=70,3 rope=interleaved steps=1 page=16"};

static void compare_with_one(const struct whole *one, const struct whole *many) {
    size_t batch = (size_t)one->make.batch, all = (size_t)one->make.heads, own = (size_t)many->make.heads;
    double worst = 0;
    for (int32_t s = 0; s < one->make.steps; s++) {
        double sums[2] = {0, 0};
        for (int32_t r = 0; r < many->make.dcp; r++) {
            const struct layer_outcome *got = layer_run_outcome(many->run, s, r),
                                       *base = layer_run_outcome(one->run, s, 0);
            ck_assert_msg(memcmp(got->query, base->query, batch * all * LAYER_TOKEN) == 0, "%s: step %d: query",
                          many->text, s);
            for (size_t i = 0; i < batch * own * REF_VALUE; i++) {
                size_t row = i / (own * REF_VALUE), column = i % (own * REF_VALUE);
                double value = bf16_to_double(got->output[i]),
                       wanted = bf16_to_double(base->output[(row * all + (size_t)r * own) * REF_VALUE + column]);
                sums[0] += (value - wanted) * (value - wanted);
                sums[1] += wanted * wanted;
            }
        }
        worst = fmax(worst, sqrt(sums[0] / sums[1]));
    }
    ck_assert_msg(worst < 6e-3, "%s: %g from dcp=1", many->text, worst);
}

START_TEST(layer_over_n_ranks_equals_the_layer_on_one) {
    static const int32_t ranks[] = {2, 3, 4, 12};
    char text[256];
    snprintf(text, sizeof text, "heads=12 dcp=1 %s", shared[_i]);
    struct whole *one = right(text);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        snprintf(text, sizeof text, "heads=%d dcp=%d %s", 12 / ranks[i], ranks[i], shared[_i]);
        struct whole *many = right(text);
        compare_with_one(one, many);
        end(many);
    }
    end(one);
}
END_TEST

/* ---- the batch ----------------------------------------------------------------------------------- */

START_TEST(a_rows_bits_do_not_depend_on_the_batch) {
    static const char *const common = "heads=3 dcp=2 splits=3 tiled_from=1 form=fused steps=2";
    static const char *const others[] = {"context=200,5", "context=200,64,1,300", "context=200,0,0,0,9",
                                         "context=200,64,1,300,5,2,7,8,9,70,11,12,13,14,15,16,17,18,19,20"};
    char text[256];
    snprintf(text, sizeof text, "%s context=200,0", common);
    struct whole *alone = right(text);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(text, sizeof text, "%s %s", common, others[i]);
        struct whole *together = right(text);
        same_rows(alone, together, 1);
        end(together);
    }
    end(alone);
}
END_TEST

/* Graphs are captured for a padded batch: lengths 0, table -1, NaN in every byte of padding. */
START_TEST(padding_changes_no_active_row_and_is_zero_itself) {
    static const char *const common = "heads=2 dcp=2 q=2 splits=2 tiled_from=1 steps=3 context=5,70,130,2,64";
    char text[256];
    struct whole *plain = right(common);
    snprintf(text, sizeof text, "%s batch=16", common);
    struct whole *padded = right(text);
    same_rows(plain, padded, 10);
    for (int32_t s = 0; s < 3; s++) {
        for (int32_t r = 0; r < 2; r++) {
            const uint16_t *output = layer_run_outcome(padded->run, s, r)->output;
            for (size_t i = (size_t)10 * 2 * REF_VALUE; i < (size_t)16 * 2 * REF_VALUE; i++) {
                ck_assert_msg(output[i] == 0, "step %d rank %d: padding is %04x", s, r, output[i]);
            }
        }
    }
    end(plain);
    end(padded);
}
END_TEST

START_TEST(a_step_has_the_same_bits_in_every_form) {
    static const char *const forms[] = {"form=wait",
                                        "form=fused poll=0",
                                        "form=fused publish=multicast",
                                        "form=fused chain=1",
                                        "form=fused split=1",
                                        "form=fused checked=1",
                                        "form=fused parity=arg",
                                        "form=fused phased=1",
                                        "form=fused gap=64 pitch=64",
                                        "form=fused qh=9 cap=80",
                                        "form=fused random=3"};
    static const char *const common = "heads=2 dcp=2 splits=2 context=5,70,0,130 steps=3";
    char text[256];
    snprintf(text, sizeof text, "%s form=fused", common);
    struct whole *fused = right(text);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(text, sizeof text, "%s %s", common, forms[i]);
        struct whole *other = right(text);
        same_rows(fused, other, 4);
        end(other);
    }
    end(fused);
}
END_TEST

/* ---- who sees what ------------------------------------------------------------------------------- */

/* Keys of positions 0..n-1 that lie on the rank, counted one by one. */
static int32_t count_keys(int32_t n, int32_t dcp, int32_t rank, int32_t interleave) {
    int32_t count = 0;
    for (int32_t position = 0; position < n; position++) {
        count += position / interleave % dcp == rank;
    }
    return count;
}

/* With queries of zero every visible key weighs the same: LSE is the logarithm of their number. (Outputs are not judged
 * here: means of e4m3 numbers under equal weights are ties for BF16 by the dozen, and FP32 may round each either way.)
 */
static void count_visible(int32_t dcp, int32_t interleave, int32_t q, const char *contexts) {
    char text[256];
    snprintf(text, sizeof text, "heads=1 dcp=%d interleave=%d q=%d context=%s sigma=0 form=fused steps=1", dcp,
             interleave, q, contexts);
    struct whole *whole = run(text);
    for (int32_t r = 0; r < dcp; r++) {
        for (int32_t row = 0; row < whole->make.batch; row++) {
            int32_t total = whole->contexts[row / q], n = total > 0 ? total - (q - 1) + row % q : 0;
            int32_t keys = count_keys(n, dcp, r, interleave);
            float lse = layer_run_outcome(whole->run, 0, r)->rows_lse[row * dcp];
            double wanted = keys > 0 ? log2(keys) : -INFINITY;
            ck_assert_msg(keys == 0 ? isinf(lse) && lse < 0 : fabs((double)lse - wanted) < 1e-4,
                          "%s: rank %d row %d: LSE %g, %d keys are visible", text, r, row, (double)lse, keys);
        }
    }
    end(whole);
}

START_TEST(each_query_row_sees_its_own_causal_prefix) {
    static const int32_t ranks[] = {1, 2, 3, 4, 8}, interleaves[] = {1, 16, 64};
    int32_t dcp = ranks[_i];
    for (size_t i = 0; i < 3; i++) {
        count_visible(dcp, interleaves[i], 1, "1,2,3,4,5,8,9,15,16,17,31,32,33,63,64,65,127,128,129,300");
        count_visible(dcp, interleaves[i], 4, "1,2,3,4,5,10,16,17,18,19,20,64,65,66,67,128,131,200");
    }
}
END_TEST

/* D = 2, I = 1, rank 1, prefixes of 8, 9, 10: 4, 4, 5 keys. */
START_TEST(local_lengths_per_query_row_are_those_of_the_global_prefix) {
    static const int32_t wanted[] = {4, 4, 5};
    for (int32_t n = 8; n <= 10; n++) {
        ck_assert_int_eq(reference_local(n, 2, 1, 1), wanted[n - 8]);
    }
    for (int32_t dcp = 1; dcp <= 8; dcp++) {
        for (int32_t interleave = 1; interleave <= 64; interleave *= 4) {
            for (int32_t n = 0; n <= 300; n++) {
                int32_t sum = 0;
                for (int32_t r = 0; r < dcp; r++) {
                    int32_t rem = n % (dcp * interleave) - r * interleave,
                            formula = n / (dcp * interleave) * interleave + (rem < 0            ? 0
                                                                             : rem > interleave ? interleave
                                                                                                : rem);
                    ck_assert_int_eq(reference_local(n, dcp, r, interleave), count_keys(n, dcp, r, interleave));
                    ck_assert_int_eq(formula, count_keys(n, dcp, r, interleave));
                    sum += formula;
                }
                ck_assert_int_eq(sum, n);
            }
        }
    }
    count_visible(2, 1, 3, "10");
}
END_TEST

/* ---- head counts --------------------------------------------------------------------------------- */

static const char *const counts[] = {"heads=1 dcp=8",  "heads=4 dcp=4",  "heads=8 dcp=2",  "heads=12 dcp=4",
                                     "heads=16 dcp=1", "heads=24 dcp=2", "heads=48 dcp=1", "heads=64 dcp=1",
                                     "heads=96 dcp=1", "heads=128 dcp=1"};

START_TEST(head_counts_that_fill_no_tile_are_right) {
    char text[128];
    snprintf(text, sizeof text, "%s context=66 steps=1 form=fused", counts[_i]);
    end(right(text));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("whole same");
    TCase *tests = tcase_create("whole same");
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, layer_over_n_ranks_equals_the_layer_on_one, 0, sizeof shared / sizeof *shared);
    tcase_add_test(tests, a_rows_bits_do_not_depend_on_the_batch);
    tcase_add_test(tests, padding_changes_no_active_row_and_is_zero_itself);
    tcase_add_test(tests, a_step_has_the_same_bits_in_every_form);
    tcase_add_loop_test(tests, each_query_row_sees_its_own_causal_prefix, 0, 5);
    tcase_add_test(tests, local_lengths_per_query_row_are_those_of_the_global_prefix);
    tcase_add_loop_test(tests, head_counts_that_fill_no_tile_are_right, 0, sizeof counts / sizeof *counts);
    return exchange_main(suite);
}
