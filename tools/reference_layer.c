/* reference_layer.c - see reference_layer.h. FP64 accumulation; every rounding is a call of numbers.h. */
#include <tools/reference_layer.h>

#include <tools/numbers.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN = REF_LATENT + REF_ROPE };

static double bf(double value) {
    return bf16_to_double(bf16_from_double(value));
}

/* x: 64 values, rotated in place. Angles: cosines, then sines. */
static void rotate(enum reference_rope rope, const float *angles, double *x) {
    if (rope == ROPE_NONE) {
        return;
    }
    for (int i = 0; i < REF_ROPE / 2; i++) {
        int a = rope == ROPE_INTERLEAVED ? 2 * i : i, b = rope == ROPE_INTERLEAVED ? 2 * i + 1 : i + REF_ROPE / 2;
        double c = (double)angles[i], s = (double)angles[i + REF_ROPE / 2], first = x[a], second = x[b];
        x[a] = first * c - second * s;
        x[b] = second * c + first * s;
    }
}

static void head_query(const struct reference_query *in, int32_t row, int32_t head, const double *qf, uint8_t *out) {
    const uint16_t *w_uk = in->kv_b + (size_t)head * REF_HEAD_WEIGHTS;
    double latent[REF_LATENT] = {0}, pe[REF_ROPE];
    for (int p = 0; p < REF_NOPE; p++) {
        for (int l = 0; l < REF_LATENT; l++) {
            latent[l] += qf[p] * bf16_to_double(w_uk[p * REF_LATENT + l]);
        }
    }
    memcpy(pe, qf + REF_NOPE, sizeof pe);
    rotate(in->rope, in->cos_sin ? in->cos_sin + (size_t)row * REF_ROPE : NULL, pe);
    for (int i = 0; i < TOKEN; i++) {
        out[i] = e4m3_from_double((i < REF_LATENT ? latent[i] : pe[i - REF_LATENT]) * in->q_scale_inv);
    }
}

static void row_query(const struct reference_query *in, int32_t row, uint8_t *query) {
    uint16_t qc[REF_Q_LORA];
    if (in->q_lora) {
        reference_norm(in->qkv + (size_t)row * in->pitch, in->q_a_norm, in->eps, qc, NULL);
    }
    for (int32_t h = 0; h < in->heads; h++) {
        double qf[REF_HEAD_QUERY];
        for (int n = 0; n < REF_HEAD_QUERY; n++) {
            size_t column = (size_t)h * REF_HEAD_QUERY + (size_t)n;
            if (!in->q_lora) {
                qf[n] = bf16_to_double(in->qf[(size_t)row * (size_t)in->heads * REF_HEAD_QUERY + column]);
                continue;
            }
            double sum = 0;
            for (int k = 0; k < REF_Q_LORA; k++) {
                sum += bf16_to_double(qc[k]) * bf16_to_double(in->w_q_b[column * REF_Q_LORA + (size_t)k]);
            }
            qf[n] = bf(sum);
        }
        head_query(in, row, h, qf, query + ((size_t)row * (size_t)in->heads + (size_t)h) * TOKEN);
    }
}

static void row_kv(const struct reference_query *in, int32_t row, uint8_t *kv) {
    const uint16_t *x = in->qkv + (size_t)row * in->pitch + in->q_lora;
    double sum = 0, pe[REF_ROPE], value[TOKEN];
    for (int l = 0; l < REF_LATENT; l++) {
        sum += bf16_to_double(x[l]) * bf16_to_double(x[l]);
    }
    double root = 1 / sqrt(sum / REF_LATENT + in->eps);
    for (int l = 0; l < REF_LATENT; l++) {
        value[l] = bf(bf16_to_double(x[l]) * root * bf16_to_double(in->kv_a_norm[l]));
    }
    for (int i = 0; i < REF_ROPE; i++) {
        pe[i] = bf16_to_double(x[REF_LATENT + i]);
    }
    rotate(in->rope, in->cos_sin ? in->cos_sin + (size_t)row * REF_ROPE : NULL, pe);
    for (int i = 0; i < REF_ROPE; i++) {
        value[REF_LATENT + i] = bf(pe[i]);
    }
    for (int i = 0; i < TOKEN; i++) {
        kv[i] = isnan(value[i]) ? 0 : e4m3_from_double(value[i] * in->k_scale_inv);
    }
}

void reference_query(const struct reference_query *in, uint8_t *query, uint8_t *kv) {
    for (int32_t row = 0; row < in->batch; row++) {
        if (query) {
            row_query(in, row, query);
        }
        if (kv) {
            row_kv(in, row, kv + (size_t)row * TOKEN);
        }
    }
}

int32_t reference_local(int32_t n, int32_t dcp, int32_t rank, int32_t interleave) {
    int32_t count = 0;
    for (int32_t block = rank; n > 0 && (int64_t)block * interleave < n; block += dcp) {
        int32_t left = n - block * interleave;
        count += left < interleave ? left : interleave;
    }
    return count;
}

static const uint8_t *key_at(const struct reference_decode *in, int32_t request, int32_t key) {
    int32_t page = in->block_table[(size_t)request * (size_t)in->max_pages + (size_t)(key / in->page)];
    return in->cache + (size_t)page * in->page_stride + (size_t)(key % in->page) * TOKEN;
}

/* The request's first `keys` keys on this rank as numbers, [keys, 576]. */
static void read_keys(const struct reference_decode *in, int32_t request, int32_t keys, float *out) {
    float value[256];
    for (int i = 0; i < 256; i++) {
        value[i] = (float)e4m3_to_double((uint8_t)i); /* exact */
    }
    for (int32_t c = 0; c < keys; c++) {
        const uint8_t *key = key_at(in, request, c);
        for (int i = 0; i < TOKEN; i++) {
            out[(size_t)c * TOKEN + (size_t)i] = value[key[i]];
        }
    }
}

/* One row: its visible keys' scores in z. */
static void attend(const struct reference_decode *in, const uint8_t *query, int32_t keys, const float *key, double *z,
                   double *row, double *magnitude, double *lse, double *most) {
    double top = -INFINITY, sum = 0, q[TOKEN];
    for (int i = 0; i < TOKEN; i++) {
        q[i] = e4m3_to_double(query[i]);
    }
    *most = 0;
    for (int32_t c = 0; c < keys; c++) {
        double dot = 0;
        for (int i = 0; i < TOKEN; i++) {
            dot += q[i] * (double)key[(size_t)c * TOKEN + (size_t)i];
        }
        z[c] = dot * in->softmax_scale * 1.4426950408889634;
        top = fmax(top, z[c]);
        *most = fmax(*most, fabs(z[c]));
    }
    double scale = in->rounded ? ceil(top) - 8 : top;
    for (int32_t c = 0; c < keys; c++) {
        double p = exp2(z[c] - scale), weight = in->rounded ? e4m3_to_double(e4m3_from_double(p)) : p;
        sum += p;
        for (int l = 0; weight != 0 && l < REF_LATENT; l++) {
            row[l] += weight * (double)key[(size_t)c * TOKEN + (size_t)l];
        }
        for (int l = 0; magnitude && l < REF_LATENT; l++) {
            magnitude[l] += fmax(p, 0x1p-13) * fabs((double)key[(size_t)c * TOKEN + (size_t)l]);
        }
    }
    for (int l = 0; l < REF_LATENT; l++) {
        row[l] = keys > 0 ? row[l] * in->output_scale / sum : 0;
        if (magnitude) {
            magnitude[l] = keys > 0 ? magnitude[l] * in->output_scale / sum : 0;
        }
    }
    *lse = keys > 0 ? log2(sum) + scale : -INFINITY;
}

/* Local keys that token row b sees. */
static int32_t visible(const struct reference_decode *in, int32_t b) {
    int32_t request = b / in->q, n = in->totals[request] - (in->q - 1) + b % in->q;
    int32_t keys = reference_local(n, in->dcp, in->rank, in->interleave);
    int32_t length = in->lens[request] > 0 ? in->lens[request] : 0;
    return keys < length ? keys : length;
}

void reference_decode(const struct reference_decode *in, double *rows, double *lse) {
    memset(rows, 0, (size_t)in->batch * (size_t)in->heads_all * REF_LATENT * sizeof *rows);
    if (in->magnitude) {
        memset(in->magnitude, 0, (size_t)in->batch * (size_t)in->heads_all * REF_LATENT * sizeof *in->magnitude);
    }
    for (int32_t first = 0; first < in->batch; first += in->q) {
        size_t longest = (size_t)visible(in, first + in->q - 1) + 1;
        double *z = malloc(longest * sizeof *z), most;
        float *key = malloc(longest * TOKEN * sizeof *key);
        if (!z || !key) {
            abort(); /* a reference without memory has no answer to give */
        }
        read_keys(in, first / in->q, (int32_t)longest - 1, key);
        for (size_t i = 0; i < (size_t)in->q * (size_t)in->heads_all; i++) {
            size_t at = (size_t)first * (size_t)in->heads_all + i;
            int32_t keys = visible(in, first + (int32_t)i / in->heads_all);
            attend(in, in->query + at * TOKEN, keys, key, z, rows + at * REF_LATENT,
                   in->magnitude ? in->magnitude + at * REF_LATENT : NULL, lse + at, &most);
            if (in->most) {
                in->most[at] = most;
            }
        }
        free(z);
        free(key);
    }
}

static int32_t e4m3_place(uint8_t bits) {
    return bits & 0x80 ? -(int32_t)(bits & 0x7F) : bits;
}

uint32_t e4m3_steps(uint8_t a, uint8_t b) {
    bool a_nan = (a & 0x7F) == 0x7F, b_nan = (b & 0x7F) == 0x7F;
    if (a_nan || b_nan) {
        return a_nan && b_nan ? 0 : 255;
    }
    int32_t apart = e4m3_place(a) - e4m3_place(b);
    return (uint32_t)(apart < 0 ? -apart : apart);
}
