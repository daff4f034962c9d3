/* layer_judge.c - see layer_judge.h. Pure functions on host memory; launches nothing. */
#include <tools/layer_judge.h>

#include <tools/layer_expect.h>
#include <tools/numbers.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOT_SLACK = 2 }; /* FP32 steps that rsqrt.approx may be off */

/* Rows of living requests, of all heads. */
static int32_t live_rows(const struct layer_case *l) {
    int32_t live = 0;
    for (int32_t i = 0; i < layer_requests(l); i++)
        live += l->steps[0].totals[i] > 0;
    return live * l->q * l->heads * l->dcp;
}

/* Rounding P to e4m3 moves a weight by up to 2^-4 of itself, 2.6% RMS. Decision 9's figures are those of rows with many
 * keys and of many rows; where a row sees few keys, or rows are few, one weight may carry the whole error. */
static bool is_small(const struct layer_case *l) {
    for (int32_t s = 0; s < l->step_count; s++)
        for (int32_t i = 0; i < layer_requests(l); i++)
            if (l->steps[s].totals[i] > 0 && l->steps[s].totals[i] - l->q < 63) return true;
    return live_rows(l) < 64;
}

/* The fewest keys that a living request has on a rank at the last step, were they spread evenly. */
static int32_t fewest_keys(const struct layer_case *l) {
    int32_t fewest = INT32_MAX;
    for (int32_t s = 0; s < l->step_count; s++)
        for (int32_t i = 0; i < layer_requests(l); i++) {
            int32_t keys = (l->steps[s].totals[i] - l->q + 1) / l->dcp;
            if (l->steps[s].totals[i] > 0 && keys < fewest) fewest = keys;
        }
    return fewest;
}

/* FP8 tensor cores keep about 13 bits of a score's terms: a weight that lies near the middle of two e4m3 numbers
 * becomes the other one, 2^-3 away at most. Few weights a row, or one that has all the mass: decision 9's figures do
 * not hold. Below 512 keys of a request on a rank, single moved weights still carry rows of one step past 1e-2: 1.07e-2
 * was seen at 350 keys, whose mean over seeds is 6.7e-3, and six chains a score instead of two do no better. Where
 * rows are few one row's moved weight is most of the error: of one row 5.2e-2 was seen in 120 steps of 96 keys, and of
 * 200 keys. */
static double rounded_bound(const struct layer_case *layer, double sigma) {
    int32_t keys = fewest_keys(layer);
    if (keys < 32 || sigma > 3) return 0x1p-4;
    double few = (keys < 512 ? 0x1p-4 : 0x1p-5) * sqrt(4.0 / fmax(live_rows(layer), 4));
    return fmax(few, sigma > 1.3 ? 3.5e-2 : keys < 128 ? 2.5e-2 : keys < 512 ? 2e-2 : 1e-2);
}

void layer_bounds_of(const struct layer_case *layer, bool scores_fp8, double sigma, struct layer_bounds *bounds) {
    bool small = is_small(layer);
    *bounds = (struct layer_bounds){.rows_rounded = scores_fp8 ? rounded_bound(layer, sigma) : 6e-3,
                                    .rows_ideal = small ? 0x1p-4 : 4e-2,
                                    .one_row = 0.125,
                                    /* P's rounding, and what 13 bits of a sum of sigma's size leave of a weight */
                                    .element = scores_fp8 ? 0x1.4p-4 + 0x1p-13 * sigma : 0x1.1p-4,
                                    /* a score near zero is a difference of terms of sigma's size */
                                    .lse_fixed = 2e-3 + (scores_fp8 ? 0x1p-11 * sigma : 0),
                                    .lse_scaled = scores_fp8 ? 0x1p-9 : 0x1p-18,
                                    .output_ideal = small ? 0x1p-4 : 4e-2,
                                    .output_cosine = small ? 0x1p-9 : 6e-4};
}

/* One pass over a run. */
struct judge {
    const struct layer_run *run;
    const struct layer_case *layer;
    const struct layer_bounds *bounds;
    struct layer_judgement *out;
    uint8_t *ideal_cache[LAYER_MAX_RANKS]; /* cache_before with every step's reference rows in it */
    size_t rows, heads;                    /* batch; D*H */
    uint64_t unequal, compared;            /* query bytes */
};

__attribute__((format(printf, 3, 4))) static void blame(struct judge *j, uint64_t wrong, const char *format, ...) {
    j->out->wrong += wrong;
    if (wrong && j->out->first[0] == '\0') {
        va_list list;
        va_start(list, format);
        vsnprintf(j->out->first, sizeof j->out->first, format, list);
        va_end(list);
    }
}

static double ratio(const double sums[2]) {
    return sums[0] == 0 ? 0 : sums[1] > 0 ? sqrt(sums[0] / sums[1]) : INFINITY;
}

static void add_error(double sums[2], double value, double ideal) {
    if (isfinite(value) && isfinite(ideal)) {
        sums[0] += (value - ideal) * (value - ideal);
        sums[1] += ideal * ideal;
    }
}

static void worst(double *so_far, double value) {
    if (!(value <= *so_far)) { /* a NaN stays */
        *so_far = value;
    }
}

/* ---- query_norm, q_c ----------------------------------------------------------------------------- */

static void judge_norm(struct judge *j, int32_t s, int32_t r) {
    const struct layer_case *l = j->layer;
    const struct layer_rank_step *in = &l->steps[s].rank[r];
    const struct layer_outcome *out = layer_run_outcome(j->run, s, r);
    int32_t from = l->tiled_from ? l->tiled_from : 16;
    enum reference_form form = l->batch >= from ? FORM_TILED : FORM_SCALAR;
    double sums[2] = {0, 0};
    for (size_t row = 0; out->qc && row < j->rows; row++) {
        uint16_t want[REF_Q_LORA];
        const uint16_t *x = in->qkv + row * in->pitch, *got = out->qc + row * REF_Q_LORA;
        uint32_t differ = reference_norm_replay(form, x, l->q_a_norm, (float)l->eps, ROOT_SLACK, got);
        blame(j, differ, "step %d rank %d: q_c row %zu: %u values differ from the replay of the %s form", s, r, row,
              differ, form == FORM_TILED ? "tiled" : "scalar");
        reference_norm(x, l->q_a_norm, l->eps, want, NULL);
        for (size_t i = 0; i < REF_Q_LORA; i++) {
            double steps = (double)bf16_steps(got[i], want[i]);
            worst(&j->out->norm_steps, steps);
            blame(j, steps > NORM_BOUND, "step %d rank %d: q_c row %zu column %zu: %04x is %g BF16 steps from %04x", s,
                  r, row, i, got[i], steps, want[i]);
            add_error(sums, bf16_to_double(got[i]), bf16_to_double(want[i]));
        }
    }
    worst(&j->out->norm_relative, ratio(sums));
}

/* ---- query and cache bytes ----------------------------------------------------------------------- */

uint64_t layer_compare_bytes(const uint8_t *got, const uint8_t *wanted, size_t rows, size_t *place, uint64_t *unequal,
                             double *steps, double sums[2]) {
    uint64_t wrong = 0;
    for (size_t row = 0; row < rows; row++) {
        const uint8_t *g = got + row * LAYER_TOKEN, *w = wanted + row * LAYER_TOKEN;
        double square = 0;
        for (size_t i = 0; i < LAYER_TOKEN; i++) {
            double value = e4m3_to_double(w[i]);
            square += isnan(value) ? 0 : value * value;
        }
        uint8_t floor_byte = e4m3_from_double(sqrt(square / LAYER_TOKEN) / 8);
        double floor_step = e4m3_to_double((uint8_t)(floor_byte + 1)) - e4m3_to_double(floor_byte);
        for (size_t i = 0; i < LAYER_TOKEN; i++) {
            double apart = e4m3_steps(g[i], w[i]), value = e4m3_to_double(g[i]), ideal = e4m3_to_double(w[i]);
            *unequal += apart > 0;
            add_error(sums, value, ideal);
            if (apart > 1 && fabs(value - ideal) <= floor_step) {
                continue;
            }
            *steps = fmax(*steps, apart);
            if (apart > E4M3_BOUND && wrong++ == 0) {
                *place = row * LAYER_TOKEN + i;
            }
        }
    }
    return wrong;
}

uint64_t e4m3_unequal_allowed(uint64_t compared) {
    return compared / 100 + LAYER_TOKEN / 8;
}

static void judge_query(struct judge *j, int32_t s, int32_t r, const uint8_t *wanted) {
    const struct layer_outcome *out = layer_run_outcome(j->run, s, r);
    double steps = 0, sums[2] = {0, 0};
    uint64_t unequal = 0, wrong;
    size_t place = 0, all = j->rows * j->heads * LAYER_TOKEN;
    if (out->form == LAYER_PUSHED) { /* rows as they were sent, NaN made 0x7F */
        wrong = 0;
        for (size_t i = 0; i < all; i++) {
            if (out->query[i] != reference_query_byte(wanted[i])) {
                place = wrong++ == 0 ? i : place;
                steps = 255;
            }
        }
    } else {
        wrong = layer_compare_bytes(out->query, wanted, j->rows * j->heads, &place, &unequal, &steps, sums);
    }
    for (size_t i = 0; i < all; i++) {
        blame(j, out->query[i] == 0xFF,
              "step %d rank %d: query row %zu head %zu byte %zu is ff, which armed words are made of", s, r,
              i / LAYER_TOKEN / j->heads, i / LAYER_TOKEN % j->heads, i % LAYER_TOKEN);
    }
    size_t head = place / LAYER_TOKEN;
    blame(j, wrong,
          "step %d rank %d: query row %zu head %zu byte %zu: %02x instead of %02x; %llu bytes are out of bound", s, r,
          head / j->heads, head % j->heads, place % LAYER_TOKEN, out->query[place], wanted[place],
          (unsigned long long)wrong);
    if (out->form != LAYER_PUSHED) {
        j->unequal += unequal;
        j->compared += all;
    }
    worst(&j->out->query_steps, steps);
    worst(&j->out->query_relative, ratio(sums));
}

/* The tokens that the kernels inserted, then everything else byte for byte. */
static bool judge_cache(struct judge *j, int32_t r) {
    const struct layer_case *l = j->layer;
    const uint8_t *got = layer_run_cache(j->run, r);
    size_t bytes = (size_t)l->rank[r].pages * (size_t)l->page * LAYER_TOKEN;
    uint8_t *wanted = malloc(bytes + 1);
    double sums[2] = {0, 0}, steps = 0;
    uint64_t unequal = 0, inserted = 0;
    if (!wanted) {
        return false;
    }
    memcpy(wanted, j->ideal_cache[r], bytes);
    for (int32_t s = 0; s < l->step_count; s++) {
        for (int32_t row = 0; row < l->batch; row++) {
            int64_t slot = l->steps[s].rank[r].slots[row];
            size_t at = (size_t)(slot < 0 ? 0 : slot) * LAYER_TOKEN, place = 0;
            if (slot < 0 || layer_run_outcome(j->run, s, r)->form == LAYER_PUSHED) {
                continue;
            }
            uint64_t wrong = layer_compare_bytes(got + at, wanted + at, 1, &place, &unequal, &steps, sums);
            blame(j, wrong, "step %d rank %d: kv_cache slot %lld (row %d) byte %zu: %02x instead of %02x", s, r,
                  (long long)slot, row, place, got[at + place], wanted[at + place]);
            memcpy(wanted + at, got + at, LAYER_TOKEN);
            inserted++;
        }
    }
    for (size_t i = 0; i < bytes; i++) {
        blame(j, got[i] != wanted[i],
              "rank %d: kv_cache page %zu byte %zu, which no step owns, is %02x instead of %02x", r,
              i / ((size_t)l->page * LAYER_TOKEN), i % ((size_t)l->page * LAYER_TOKEN), got[i], wanted[i]);
    }
    blame(j, unequal > e4m3_unequal_allowed(inserted * LAYER_TOKEN),
          "rank %d: kv_cache: %llu of %llu bytes differ, more than one in 100", r, (unsigned long long)unequal,
          (unsigned long long)inserted * LAYER_TOKEN);
    worst(&j->out->cache_steps, steps);
    worst(&j->out->cache_relative, ratio(sums));
    free(wanted);
    return true;
}

/* ---- mla_decode ---------------------------------------------------------------------------------- */

static double rows_error(const uint16_t *got, const double *wanted, size_t count, double sums[2]) {
    double own[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        double value = bf16_to_double(got[i]);
        if (!isfinite(value) != !isfinite(wanted[i])) {
            own[0] = INFINITY;
        }
        add_error(own, value, wanted[i]);
    }
    sums[0] += own[0];
    sums[1] += own[1];
    return ratio(own);
}

/* Rounding each P by at most 2^-4 of itself moves an element by no more than that of the sum of P |v| / l; then BF16.
 */
static void judge_elements(struct judge *j, int32_t s, int32_t r, size_t at, const uint16_t *got, const double *wanted,
                           const double *magnitude) {
    for (size_t i = 0; i < REF_LATENT; i++) {
        double bound = j->bounds->element * magnitude[i] + fabs(wanted[i]) / 256;
        double value = bf16_to_double(got[i]), off = fabs(value - wanted[i]);
        blame(j, isfinite(wanted[i]) && !(off <= bound),
              "step %d rank %d: rows row %zu head %zu latent %zu: %g instead of %g, bound %g", s, r, at / j->heads,
              at % j->heads, i, value, wanted[i], bound);
    }
}

static void judge_one_row(struct judge *j, int32_t s, int32_t r, size_t at, const double *rows, double lse, double most,
                          bool rounded, double sums[2]) {
    const struct layer_outcome *out = layer_run_outcome(j->run, s, r);
    size_t row = at / j->heads, head = at % j->heads;
    const uint16_t *got = out->rows + at * REF_LATENT;
    double error = rows_error(got, rows + at * REF_LATENT, REF_LATENT, sums);
    if (rounded) {
        return;
    }
    blame(j, !(error <= j->bounds->one_row),
          "step %d rank %d: rows row %zu head %zu: %g from the ideal reference, bound %g", s, r, row, head, error,
          j->bounds->one_row);
    double got_lse = (double)out->rows_lse[at];
    if (isinf(lse)) {
        bool zeros = true;
        for (size_t i = 0; i < REF_LATENT; i++) {
            zeros = zeros && got[i] == 0;
        }
        blame(j, !(isinf(got_lse) && got_lse < 0) || !zeros,
              "step %d rank %d: row %zu head %zu sees no key: rows must be 0 and LSE -inf, LSE is %g", s, r, row, head,
              got_lse);
        return;
    }
    if (isnan(lse)) { /* some score is NaN: so is the row, as compared above */
        bool number = !isnan(got_lse);
        blame(j, number, "step %d rank %d: rows_lse row %zu head %zu: %g instead of NaN", s, r, row, head, got_lse);
        return;
    }
    double bound = j->bounds->lse_fixed + j->bounds->lse_scaled * most, off = fabs(got_lse - lse);
    blame(j, !(off <= bound), "step %d rank %d: rows_lse row %zu head %zu: %g instead of %g, bound %g", s, r, row, head,
          got_lse, lse, bound);
    worst(&j->out->lse, off / bound);
}

static bool judge_decode(struct judge *j, int32_t s, int32_t r) {
    const struct layer_outcome *out = layer_run_outcome(j->run, s, r);
    size_t count = j->rows * j->heads;
    double *rows = malloc(count * REF_LATENT * sizeof *rows), *lse = malloc(count * sizeof *lse),
           *most = malloc(count * sizeof *most), *magnitude = malloc(count * REF_LATENT * sizeof *magnitude);
    bool good = rows && lse && most && magnitude;
    for (int rounded = 1; good && rounded >= 0; rounded--) {
        double sums[2] = {0, 0}, bound = rounded ? j->bounds->rows_rounded : j->bounds->rows_ideal;
        expect_decode(j->layer, &j->layer->steps[s], r, out->query, layer_run_cache(j->run, r), rounded, rows, lse,
                      most, rounded ? NULL : magnitude);
        for (size_t at = 0; at < count; at++) {
            judge_one_row(j, s, r, at, rows, lse[at], most[at], rounded, sums);
            if (!rounded) {
                judge_elements(j, s, r, at, out->rows + at * REF_LATENT, rows + at * REF_LATENT,
                               magnitude + at * REF_LATENT);
            }
        }
        double error = ratio(sums);
        blame(j, !(error < bound), "step %d rank %d: rows: %g from the %s reference, bound %g", s, r, error,
              rounded ? "rounded" : "ideal", bound);
        worst(rounded ? &j->out->rows_rounded : &j->out->rows_ideal, error);
    }
    free(rows);
    free(lse);
    free(most);
    free(magnitude);
    return good;
}

/* ---- dcp_value ----------------------------------------------------------------------------------- */

static bool judge_value(struct judge *j, int32_t s, int32_t r) {
    const struct layer_case *l = j->layer;
    const uint16_t *rows[LAYER_MAX_RANKS], *got = layer_run_outcome(j->run, s, r)->output;
    const float *lse[LAYER_MAX_RANKS];
    size_t width = (size_t)l->heads * REF_VALUE, count = j->rows * width;
    uint16_t *want = malloc(count * sizeof *want);
    double *magnitude = malloc(count * sizeof *magnitude), sums[2] = {0, 0};
    for (int32_t from = 0; from < l->dcp; from++) {
        rows[from] = layer_run_outcome(j->run, s, from)->rows;
        lse[from] = layer_run_outcome(j->run, s, from)->rows_lse;
    }
    bool good = want && magnitude && expect_value(l, &l->steps[s], r, rows, lse, got, want, magnitude);
    for (size_t i = 0; good && i < count; i++) {
        double ulp = bf16_ulp_error(got[i], want[i], magnitude[i]);
        bool padding = l->steps[s].totals[i / width / (size_t)l->q] <= 0;
        if (padding && got[i] != 0) {
            ulp = INFINITY; /* padding is +0, bit by bit */
        }
        blame(j, !(ulp <= REF_VALUE_ULP),
              "step %d rank %d: output row %zu head %zu column %zu: %g instead of %g, off by %g of %d BF16 ulp", s, r,
              i / width, i % width / REF_VALUE, i % REF_VALUE, bf16_to_double(got[i]), bf16_to_double(want[i]), ulp,
              REF_VALUE_ULP);
        worst(&j->out->value_ulp, ulp);
        add_error(sums, bf16_to_double(got[i]), bf16_to_double(want[i]));
    }
    worst(&j->out->value_relative, ratio(sums));
    free(want);
    free(magnitude);
    return good;
}

/* ---- the step ------------------------------------------------------------------------------------ */

/* Error over all ranks' outputs: relative Frobenius and 1 - cosine. */
static void output_error(const struct judge *j, int32_t s, const struct layer_expected *wanted, double *relative,
                         double *cosine) {
    double sums[2] = {0, 0}, xy = 0, squares = 0;
    size_t count = j->rows * (size_t)j->layer->heads * REF_VALUE;
    for (int32_t r = 0; r < j->layer->dcp; r++) {
        const uint16_t *got = layer_run_outcome(j->run, s, r)->output;
        for (size_t i = 0; i < count; i++) {
            double value = bf16_to_double(got[i]), ideal = bf16_to_double(wanted->output[r][i]);
            add_error(sums, value, ideal);
            xy += value * ideal;
            squares += value * value + ideal * ideal;
        }
    }
    *relative = ratio(sums);
    *cosine = squares > 0 ? 1 - 2 * xy / squares : 0;
}

/* Kernel by kernel, then the step as a whole: what is said first is said most precisely. */
static bool judge_step(struct judge *j, int32_t s) {
    const struct layer_step *step = &j->layer->steps[s];
    struct layer_expected wanted = {.query = malloc(j->rows * j->heads * LAYER_TOKEN)};
    bool good = wanted.query && expect_gathered(j->layer, step, wanted.query);
    for (int32_t r = 0; good && r < j->layer->dcp; r++) {
        judge_norm(j, s, r);
        judge_query(j, s, r, wanted.query);
    }
    for (int32_t r = 0; good && r < j->layer->dcp; r++) {
        good = (s > 0 || judge_cache(j, r)) && judge_decode(j, s, r);
    }
    for (int32_t r = 0; good && r < j->layer->dcp; r++) {
        good = judge_value(j, s, r);
    }
    good = good && expect_rest(j->layer, step, (const uint8_t *const *)j->ideal_cache, false, &wanted);
    if (good) {
        double relative, cosine;
        output_error(j, s, &wanted, &relative, &cosine);
        blame(j, !(relative < j->bounds->output_ideal && cosine < j->bounds->output_cosine),
              "step %d: output of all ranks: %g from the ideal reference (1 - cosine %g), bounds %g and %g", s,
              relative, cosine, j->bounds->output_ideal, j->bounds->output_cosine);
        worst(&j->out->output_ideal, relative);
        worst(&j->out->output_cosine, cosine);
    }
    expected_free(&wanted);
    return good;
}

/* cache_before, and every token as the reference would insert it. */
static bool make_ideal_caches(struct judge *j) {
    const struct layer_case *l = j->layer;
    uint8_t *kv = malloc(j->rows * LAYER_TOKEN);
    bool good = kv != NULL;
    for (int32_t r = 0; good && r < l->dcp; r++) {
        size_t bytes = (size_t)l->rank[r].pages * (size_t)l->page * LAYER_TOKEN;
        j->ideal_cache[r] = malloc(bytes + 1);
        good = j->ideal_cache[r] != NULL;
        if (good) {
            memcpy(j->ideal_cache[r], layer_run_cache_before(j->run, r), bytes);
        }
        for (int32_t s = 0; good && s < l->step_count; s++) {
            expect_query(l, &l->steps[s], r, NULL, kv);
            expect_insert(l, &l->steps[s], r, kv, j->ideal_cache[r]);
        }
    }
    free(kv);
    return good;
}

bool layer_judge(const struct layer_run *run, const struct layer_case *layer, const struct layer_bounds *bounds,
                 struct layer_judgement *out) {
    struct judge j = {.run = run,
                      .layer = layer,
                      .bounds = bounds,
                      .out = out,
                      .rows = (size_t)layer->batch,
                      .heads = (size_t)(layer->dcp * layer->heads)};
    const char *first;
    memset(out, 0, sizeof *out);
    bool good = make_ideal_caches(&j);
    for (int32_t s = 0; good && s < layer->step_count; s++) {
        good = judge_step(&j, s);
    }
    out->query_unequal = j.compared ? (double)j.unequal / (double)j.compared : 0;
    blame(&j, j.unequal > e4m3_unequal_allowed(j.compared),
          "query: %llu of %llu bytes of all steps and ranks differ, more than one in 100",
          (unsigned long long)j.unequal, (unsigned long long)j.compared);
    uint64_t touched = layer_run_wrong(run, &first);
    blame(&j, touched, "%s", first);
    for (int32_t r = 0; r < layer->dcp; r++) {
        free(j.ideal_cache[r]);
    }
    return good;
}

/* ---- rows of the table --------------------------------------------------------------------------- */

static void keep(struct layer_run *run, const char *kernel, const char *measure, double error, double bound,
                 double relative, double relative_bound) {
    struct kernel_set *set = layer_run_kernels(run);
    for (uint32_t i = 0; i < kernel_set_count(set); i++) {
        struct kernel_row *row = kernel_set_at(set, i);
        if (strcmp(row->kernel, kernel) == 0) {
            row->compared = 1;
            row->measure = measure;
            row->error = error;
            row->bound = bound;
            row->relative = relative;
            row->relative_bound = relative_bound;
            row->wrong = !(error <= bound) || !(relative <= relative_bound);
        }
    }
}

void layer_judge_rows(struct layer_run *run, const struct layer_bounds *bounds, const struct layer_judgement *judged) {
    double query = fmax(judged->query_steps, judged->cache_steps),
           relative = fmax(judged->query_relative, judged->cache_relative);
    keep(run, "query_norm", "BF16 steps", judged->norm_steps, NORM_BOUND, judged->norm_relative, 6e-3);
    keep(run, "mla_query", "e4m3 steps", query, E4M3_BOUND, relative, E4M3_RELATIVE_BOUND);
    keep(run, "query_push", "e4m3 steps", query, E4M3_BOUND, relative, E4M3_RELATIVE_BOUND);
    keep(run, "query_wait", "e4m3 steps", query, E4M3_BOUND, relative, E4M3_RELATIVE_BOUND);
    keep(run, "mla_decode", "LSE bounds", judged->lse, 1, judged->rows_rounded, bounds->rows_rounded);
    keep(run, "dcp_value", "BF16 ulp", judged->value_ulp, REF_VALUE_ULP, judged->value_relative, 6e-3);
}
