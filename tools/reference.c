/* reference.c - what the kernels compute, in FP64 with explicit rounding points.
 * May call: numbers.h, libm. Must not: share code with templates, runtime or the CPU device, or follow their order
 * of operations (the replay of the norm excepted: there the order is the promise). */
#include <tools/reference.h>

#include <tools/numbers.h>

#include <float.h>
#include <math.h>
#include <string.h>

void reference_norm(const uint16_t *x, const uint16_t *gamma, double eps, uint16_t *out, double *exact) {
    double sum = 0;
    for (int i = 0; i < REF_Q_LORA; i++) {
        sum += bf16_to_double(x[i]) * bf16_to_double(x[i]);
    }
    double root = 1.0 / sqrt(sum / REF_Q_LORA + eps);
    for (int i = 0; i < REF_Q_LORA; i++) {
        double value = bf16_to_double(x[i]) * root * bf16_to_double(gamma[i]);
        out[i] = bf16_from_double(value);
        if (exact) {
            exact[i] = value;
        }
    }
}

/* ---- the replay of the norm's FP32 order --------------------------------------------------------- */

static float bf16_to_float(uint16_t bits) {
    return f32_from_bits((uint32_t)bits << 16);
}

/* xor butterfly 16, 8, 4, 2, 1: addition commutes, so every lane ends with the bits of lane 0. */
static float butterfly(const float *lanes) {
    float value[32];
    memcpy(value, lanes, sizeof value);
    for (int shift = 16; shift >= 1; shift /= 2) {
        float next[32];
        for (int lane = 0; lane < 32; lane++) {
            next[lane] = value[lane] + value[lane ^ shift];
        }
        memcpy(value, next, sizeof value);
    }
    return value[0];
}

/* Thread t owns columns 8t..8t+7 in order; 8 warps; then a sequential sum over warps that begins at 0. */
static float total_scalar(const uint16_t *x) {
    float total = 0;
    for (int warp = 0; warp < 8; warp++) {
        float lanes[32] = {0};
        for (int lane = 0; lane < 32; lane++) {
            int thread = warp * 32 + lane;
            for (int i = 0; i < 8 && thread < 192; i++) {
                float value = bf16_to_float(x[8 * thread + i]);
                lanes[lane] = fmaf(value, value, lanes[lane]);
            }
        }
        total = total + butterfly(lanes);
    }
    return total;
}

/* Lane l owns columns 256i + 8l + k; element e = 8i + k goes to component e % 4 of four chains. */
static float total_tiled(const uint16_t *x) {
    float lanes[32];
    for (int lane = 0; lane < 32; lane++) {
        float chain[4] = {0};
        for (int e = 0; e < 48; e++) {
            float value = bf16_to_float(x[256 * (e / 8) + 8 * lane + e % 8]);
            chain[e % 4] = fmaf(value, value, chain[e % 4]);
        }
        float low = chain[0] + chain[1];
        float high = chain[2] + chain[3];
        lanes[lane] = low + high;
    }
    return butterfly(lanes);
}

float reference_norm_total(enum reference_form form, const uint16_t *x) {
    return form == FORM_SCALAR ? total_scalar(x) : total_tiled(x);
}

static uint32_t count_differences(const uint16_t *x, const uint16_t *gamma, float root, const uint16_t *got) {
    uint32_t wrong = 0;
    for (int i = 0; i < REF_Q_LORA; i++) {
        float scaled = bf16_to_float(x[i]) * root;
        float value = scaled * bf16_to_float(gamma[i]);
        uint16_t want = bf16_from_double((double)value);
        wrong += want != got[i] && !(bf16_is_nan(want) && bf16_is_nan(got[i]));
    }
    return wrong;
}

uint32_t reference_norm_replay(enum reference_form form, const uint16_t *x, const uint16_t *gamma, float eps,
                               int32_t slack, const uint16_t *got) {
    float mean = fmaf(reference_norm_total(form, x), 1.0f / 1536.0f, eps);
    float root = (float)(1.0 / sqrt((double)mean));
    if (!(root > 0x1p-120f && root < 0x1p120f)) { /* zero, infinite or NaN: no steps around it */
        return count_differences(x, gamma, root, got);
    }
    uint32_t best = UINT32_MAX;
    for (int32_t step = -slack; step <= slack && best > 0; step++) {
        uint32_t wrong = count_differences(x, gamma, f32_step(root, step), got);
        best = wrong < best ? wrong : best;
    }
    return best;
}

/* ---- query, merge, value ------------------------------------------------------------------------- */

uint8_t reference_query_byte(uint8_t byte) {
    return byte == 0xFF ? 0x7F : byte;
}

/* -infinity for everything that means "nothing here". */
static double source_lse(const struct reference_value *in, int32_t source, int32_t row, int32_t head) {
    double lse = (double)in->lse[source][(size_t)row * (size_t)(in->dcp * in->heads) + (size_t)head];
    return in->lens[source][row / in->q] > 0 && isfinite(lse) ? lse : -INFINITY;
}

double reference_merge_weights(const struct reference_value *in, int32_t row, int32_t head, double *weights) {
    double top = -INFINITY, sum = 0;
    for (int32_t s = 0; s < in->dcp; s++) {
        top = fmax(top, source_lse(in, s, row, head));
    }
    for (int32_t s = 0; s < in->dcp; s++) {
        double lse = source_lse(in, s, row, head);
        /* A weight below the least FP32 number is 0: its source is then skipped, whatever it holds. */
        weights[s] = isinf(lse) ? 0 : (double)(float)exp2(lse - top);
        sum += weights[s];
    }
    for (int32_t s = 0; s < in->dcp; s++) {
        weights[s] = sum > 0 ? weights[s] / sum : 0;
    }
    return sum > 0 ? top + log2(sum) : -INFINITY;
}

/* A latent that the FP32 merge may round either way: its exact sum lies as near to the middle of two BF16 numbers as
 * FP32 arithmetic is exact. */
struct tie {
    int latent;
    double step; /* from the rounding of the exact sum to the other one */
    double off;  /* from the middle, in ulp */
};
enum { MOST_TIES = 8 }; /* the nearest ones of a row; FP32 seldom turns one of them */

/* The merge is FP32 (spec.md 2.6): exp2 and the sum of weights to 2^-21, an add a source to 2^-24 of what was added. */
static double merge_tolerance(int32_t dcp) {
    return 0x1p-21 + dcp * 0x1p-23;
}

/* size: sum of the absolute terms. True, and tie filled but for its latent, when `exact` is a tie for FP32. */
static bool near_tie(double exact, double rounded, double size, double tolerance, struct tie *tie) {
    double ulp = bf16_ulp(exact), off = exact - rounded;
    tie->step = off < 0 ? -ulp : ulp;
    tie->off = 0.5 - fabs(off) / ulp;
    return isfinite(exact) && exact != 0 && tie->off * ulp <= tolerance * size;
}

/* Keeps the MOST_TIES nearest, nearest first. */
static int keep_tie(struct tie *ties, int count, struct tie tie) {
    int place = count < MOST_TIES ? count : MOST_TIES - 1;
    if (count == MOST_TIES && tie.off >= ties[place].off) {
        return count;
    }
    for (; place > 0 && ties[place - 1].off > tie.off; place--) {
        ties[place] = ties[place - 1];
    }
    ties[place] = tie;
    return count < MOST_TIES ? count + 1 : count;
}

static int merged_latent(const struct reference_value *in, int32_t row, int32_t head, double *latent,
                         struct tie *ties) {
    double weights[32], sum[REF_LATENT] = {0}, size[REF_LATENT] = {0};
    int count = 0;
    reference_merge_weights(in, row, head, weights);
    for (int32_t s = 0; s < in->dcp; s++) {
        const uint16_t *part = in->rows[s] + ((size_t)row * (size_t)(in->dcp * in->heads) + (size_t)head) * REF_LATENT;
        for (int l = 0; weights[s] != 0 && l < REF_LATENT; l++) {
            sum[l] += weights[s] * bf16_to_double(part[l]);
            size[l] += weights[s] * fabs(bf16_to_double(part[l]));
        }
    }
    for (int l = 0; l < REF_LATENT; l++) {
        latent[l] = bf16_to_double(bf16_from_double(sum[l]));
        struct tie tie = {.latent = l};
        if (near_tie(sum[l], latent[l], size[l], merge_tolerance(in->dcp), &tie)) {
            count = keep_tie(ties, count, tie);
        }
    }
    return count;
}

/* sum[v] = sum_l latent[l] * W_UV[l][v]; weights is the head's W_UV as it lies in kv_b: [128][512]. */
static void value_product(const double *latent, const float *weights, double *value) {
    for (int v = 0; v < REF_VALUE; v += 4) {
        double sum[4] = {0};
        for (int l = 0; l < REF_LATENT; l++) {
            for (int k = 0; k < 4; k++) {
                sum[k] += latent[l] * (double)weights[(v + k) * REF_LATENT + l];
            }
        }
        memcpy(value + v, sum, sizeof sum);
    }
}

static double finite_rms(const double *value) {
    double sum = 0;
    for (int v = 0; v < REF_VALUE; v++) {
        sum += isfinite(value[v]) ? value[v] * value[v] : 0;
    }
    return sqrt(sum / REF_VALUE);
}

/* The sigmoid is an FP32 number: 1 / (1 + e) with e beyond FP32 is 0, so that a gate below -88.7 shuts also what is
 * infinite (to NaN). */
static double sigmoid(double gate) {
    double e = exp(-gate);
    return e > (double)FLT_MAX ? 0 : 1 / (1 + e);
}

/* One head of one row from its unrounded sums: bf(bf(sum) * gate), and the size that bounds its error. */
static void finish(const double *sum, const double *gate, uint16_t *output, double *magnitude) {
    double value[REF_VALUE];
    for (int v = 0; v < REF_VALUE; v++) {
        value[v] = bf16_to_double(bf16_from_double(sum[v]));
    }
    double rms = finite_rms(value);
    for (int v = 0; v < REF_VALUE; v++) {
        output[v] = bf16_from_double(value[v] * gate[v]);
        magnitude[v] = fmax(fabs(bf16_to_double(output[v])), rms * gate[v] / 16);
    }
}

static bool within(const uint16_t *judged, const uint16_t *output, const double *magnitude) {
    for (int v = 0; v < REF_VALUE; v++) {
        double error = fabs(bf16_to_double(judged[v]) - bf16_to_double(output[v]));
        if (!(error <= REF_VALUE_ULP * bf16_ulp(magnitude[v]))) {
            return false;
        }
    }
    return true;
}

/* Looks for a choice of the ties' roundings under which all that is judged is within its bound; keeps the plain one if
 * none is. */
static void resolve_ties(const double *sum, const double *gate, const float *weights, const struct tie *ties, int count,
                         const uint16_t *judged, uint16_t *output, double *magnitude) {
    uint16_t other_output[REF_VALUE];
    double other_sum[REF_VALUE], other_magnitude[REF_VALUE];
    for (unsigned choice = 1; choice < 1u << count; choice++) {
        memcpy(other_sum, sum, sizeof other_sum);
        for (int t = 0; t < count; t++) {
            for (int v = 0; choice >> t & 1 && v < REF_VALUE; v++) {
                other_sum[v] += ties[t].step * (double)weights[v * REF_LATENT + ties[t].latent];
            }
        }
        finish(other_sum, gate, other_output, other_magnitude);
        if (within(judged, other_output, other_magnitude)) {
            memcpy(output, other_output, sizeof other_output);
            memcpy(magnitude, other_magnitude, sizeof other_magnitude);
            return;
        }
    }
}

static void head_output(const struct reference_value *in, int32_t row, int32_t head, const float *weights,
                        const uint16_t *judged, uint16_t *output, double *magnitude) {
    double latent[REF_LATENT], sum[REF_VALUE], gate[REF_VALUE];
    struct tie ties[MOST_TIES];
    if (in->totals[row / in->q] <= 0) {
        memset(output, 0, REF_VALUE * sizeof *output);
        memset(magnitude, 0, REF_VALUE * sizeof *magnitude);
        return;
    }
    for (int v = 0; v < REF_VALUE; v++) {
        size_t at = (size_t)row * in->pitch + (size_t)(head * REF_VALUE + v);
        gate[v] = in->gate ? sigmoid(bf16_to_double(in->gate[at])) : 1;
    }
    int count = merged_latent(in, row, in->rank * in->heads + head, latent, ties);
    value_product(latent, weights, sum);
    finish(sum, gate, output, magnitude);
    if (judged && count > 0 && !within(judged, output, magnitude)) {
        resolve_ties(sum, gate, weights, ties, count, judged, output, magnitude);
    }
}

void reference_value(const struct reference_value *in, uint16_t *output, double *magnitude) {
    float weights[REF_VALUE * REF_LATENT];
    for (int32_t head = 0; head < in->heads; head++) {
        const uint16_t *w_uv = in->kv_b + (size_t)head * REF_HEAD_WEIGHTS + REF_VALUE * REF_LATENT;
        for (size_t i = 0; i < REF_VALUE * REF_LATENT; i++) {
            weights[i] = bf16_to_float(w_uv[i]);
        }
        for (int32_t row = 0; row < in->batch; row++) {
            size_t at = ((size_t)row * (size_t)in->heads + (size_t)head) * REF_VALUE;
            const uint16_t *judged = in->judged ? in->judged + at : NULL;
            head_output(in, row, head, weights, judged, output + at, magnitude + at);
        }
    }
}
