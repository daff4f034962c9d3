/* reference.c - what the kernels compute, in FP64 with explicit rounding points.
 * May call: numbers.h, libm. Must not: share code with templates, runtime or the CPU device, or follow their order
 * of operations (the replay of the norm excepted: there the order is the promise). */
#include <tools/reference.h>

#include <tools/numbers.h>

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
    return top + log2(sum);
}

static void merged_latent(const struct reference_value *in, int32_t row, int32_t head, double *latent) {
    double weights[32], sum[REF_LATENT] = {0};
    reference_merge_weights(in, row, head, weights);
    for (int32_t s = 0; s < in->dcp; s++) {
        const uint16_t *part = in->rows[s] + ((size_t)row * (size_t)(in->dcp * in->heads) + (size_t)head) * REF_LATENT;
        for (int l = 0; weights[s] != 0 && l < REF_LATENT; l++) {
            sum[l] += weights[s] * bf16_to_double(part[l]);
        }
    }
    for (int l = 0; l < REF_LATENT; l++) {
        latent[l] = bf16_to_double(bf16_from_double(sum[l]));
    }
}

/* value[v] = bf(sum_l latent[l] * W_UV[l][v]); weights is the head's W_UV as it lies in kv_b: [128][512]. */
static void value_product(const double *latent, const float *weights, double *value) {
    for (int v = 0; v < REF_VALUE; v += 4) {
        double sum[4] = {0};
        for (int l = 0; l < REF_LATENT; l++) {
            for (int k = 0; k < 4; k++) {
                sum[k] += latent[l] * (double)weights[(v + k) * REF_LATENT + l];
            }
        }
        for (int k = 0; k < 4; k++) {
            value[v + k] = bf16_to_double(bf16_from_double(sum[k]));
        }
    }
}

static double finite_rms(const double *value) {
    double sum = 0;
    for (int v = 0; v < REF_VALUE; v++) {
        sum += isfinite(value[v]) ? value[v] * value[v] : 0;
    }
    return sqrt(sum / REF_VALUE);
}

static void head_output(const struct reference_value *in, int32_t row, int32_t head, const float *weights,
                        uint16_t *output, double *magnitude) {
    double latent[REF_LATENT], value[REF_VALUE];
    if (in->totals[row / in->q] <= 0) {
        for (int v = 0; v < REF_VALUE; v++) {
            output[v] = 0;
            magnitude[v] = 0;
        }
        return;
    }
    merged_latent(in, row, in->rank * in->heads + head, latent);
    value_product(latent, weights, value);
    double rms = finite_rms(value);
    for (int v = 0; v < REF_VALUE; v++) {
        double gate = 1;
        if (in->gate) {
            gate =
                1.0 / (1.0 + exp(-bf16_to_double(in->gate[(size_t)row * in->pitch + (size_t)(head * REF_VALUE + v)])));
        }
        output[v] = bf16_from_double(value[v] * gate);
        magnitude[v] = fmax(fabs(bf16_to_double(output[v])), rms * gate / 16);
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
            head_output(in, row, head, weights, output + at, magnitude + at);
        }
    }
}
