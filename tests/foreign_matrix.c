/* foreign_matrix.c - cases of foreign.h that multiply matrices: tiles, wmma, mma.sync, rows of bf16, attention.
 *
 * Bounds of tensor cores: an instruction adds its products and the sum before with a cut below 2^-24 of the greatest,
 * so each of its terms may lose that much of the sum of magnitudes. */
#include "tests/foreign.h"

#include <math.h>
#include <stdlib.h>

/* want and bound of one product: terms a[i * step_a] * b[i * step_b], each as far off as `each` of the sum of
 * magnitudes. */
struct terms {
    const double *a, *b;
    size_t step_a, step_b, count;
};
static double product(struct terms t, double *magnitude) {
    double sum = 0;
    *magnitude = 0;
    for (size_t i = 0; i < t.count; i++) {
        sum += t.a[i * t.step_a] * t.b[i * t.step_b];
        *magnitude += fabs(t.a[i * t.step_a] * t.b[i * t.step_b]);
    }
    return sum;
}

void foreign_case_matmul_tiled(struct foreign_case *c) {
    enum { M = 37, N = 29, K = 45 };
    float *fa = foreign_in(c, M * K * sizeof *fa), *fb = foreign_in(c, K * N * sizeof *fb);
    double *a = foreign_fill(c, FOREIGN_F32, fa, M * K, 2), *b = foreign_fill(c, FOREIGN_F32, fb, K * N, 2), size;
    struct foreign_near out = foreign_out_near(c, FOREIGN_F32, M * N);
    foreign_u32(c, M);
    foreign_u32(c, N);
    foreign_u32(c, K);
    foreign_launch(c, 2, 3, 16, 16);
    for (size_t i = 0; i < M * N; i++) {
        out.want[i] = product((struct terms){a + i / N * K, b + i % N, 1, N, K}, &size);
        out.bound[i] = K * 0x1p-24 * size; /* a rounding a term */
    }
    free(a);
    free(b);
}

void foreign_case_gemv(struct foreign_case *c) {
    enum { ROWS = 8, COLUMNS = 520 };
    uint16_t *hw = foreign_in(c, ROWS * COLUMNS * sizeof *hw), *hx = foreign_in(c, COLUMNS * sizeof *hx);
    double *w = foreign_fill(c, FOREIGN_BF16, hw, ROWS * COLUMNS, 2),
           *x = foreign_fill(c, FOREIGN_BF16, hx, COLUMNS, 2), size;
    struct foreign_near y = foreign_out_near(c, FOREIGN_F32, ROWS);
    foreign_u32(c, COLUMNS);
    foreign_launch(c, ROWS / 2, 1, 64, 1);
    for (size_t row = 0; row < ROWS; row++) {
        y.want[row] = product((struct terms){w + row * COLUMNS, x, 1, 1, COLUMNS}, &size);
        y.bound[row] = (24 + 5) * 0x1p-24 * size; /* terms of a lane, and the warp's sum */
    }
    free(w);
    free(x);
}

void foreign_case_gemm_wmma(struct foreign_case *c) {
    enum { M = 64, N = 32, K = 48, INSTRUCTIONS = K / 8 };
    uint16_t *ha = foreign_in(c, M * K * sizeof *ha), *hb = foreign_in(c, K * N * sizeof *hb);
    float *fc = foreign_in(c, M * N * sizeof *fc);
    double *a = foreign_fill(c, FOREIGN_F16, ha, M * K, 1), *b = foreign_fill(c, FOREIGN_F16, hb, K * N, 1), size;
    double *start = foreign_fill(c, FOREIGN_F32, fc, M * N, 1);
    struct foreign_near out = foreign_out_near(c, FOREIGN_F32, M * N);
    foreign_u32(c, M);
    foreign_u32(c, N);
    foreign_u32(c, K);
    foreign_launch(c, N / 32, M / 32, 128, 1);
    for (size_t i = 0; i < M * N; i++) {
        double sum = product((struct terms){a + i / N * K, b + i % N * K, 1, 1, K}, &size);
        out.want[i] = 2 * sum + start[i];
        out.bound[i] = 2 * (K + INSTRUCTIONS) * 0x1p-24 * size + 0x1p-24 * fabs(out.want[i]);
    }
    free(a);
    free(b);
    free(start);
}

void foreign_case_gemm_wmma_int(struct foreign_case *c) {
    enum { K = 64 };
    int8_t *a = foreign_in(c, 16 * K), *b = foreign_in(c, K * 16);
    for (unsigned i = 0; i < 16 * K; i++) {
        a[i] = (int8_t)foreign_between(c, -128, 127);
        b[i] = (int8_t)foreign_between(c, -128, 127);
    }
    uint16_t *packed = foreign_in(c, 1024 * sizeof *packed);
    double *h = foreign_fill(c, FOREIGN_BF16, packed, 1024, 2), size;
    int *out = foreign_out(c, 512 * sizeof *out);
    struct foreign_near narrow = foreign_out_near(c, FOREIGN_F32, 512);
    foreign_launch(c, 1, 1, 32, 1);
    for (unsigned i = 0; i < 256; i++) /* stored by columns */
        for (unsigned k = 0; k < K; k++) {
            out[i] += a[i % 16 * K + k] * b[k * 16 + i / 16];
            out[256 + i] += (uint8_t)a[i % 16 * K + k] * (uint8_t)b[k * 16 + i / 16];
        }
    for (size_t i = 0; i < 512; i++) {
        size_t m = i < 256 ? 8 : 32, n = 40 - m, at = i % 256;
        narrow.want[i] = 1 + product((struct terms){h + at / n, h + 512 + at % n, m, n, 16}, &size);
        narrow.bound[i] = (16 + 2) * 0x1p-24 * (1 + size);
    }
    free(h);
}

void foreign_case_mma_tile(struct foreign_case *c) {
    uint16_t *ha = foreign_in(c, 512 * sizeof *ha), *hb = foreign_in(c, 512 * sizeof *hb);
    double *a = foreign_fill(c, FOREIGN_BF16, ha, 512, 2), *b = foreign_fill(c, FOREIGN_BF16, hb, 512, 2), size;
    struct foreign_near out = foreign_out_near(c, FOREIGN_F32, 256), half = foreign_out_near(c, FOREIGN_F16, 256);
    foreign_launch(c, 1, 1, 32, 1);
    for (size_t i = 0; i < 256; i++) {
        half.want[i] = out.want[i] = product((struct terms){a + i / 16 * 32, b + i % 16, 1, 16, 32}, &size);
        out.bound[i] = (32 + 4) * 0x1p-24 * size;
        half.bound[i] = out.bound[i] + 0x1p-11 * fabs(half.want[i]) + 0x1p-25;
    }
    free(a);
    free(b);
}

void foreign_case_attention(struct foreign_case *c) {
    enum { QUERIES = 8, KEYS = 21, WIDTH = 64 };
    uint16_t *hq = foreign_in(c, QUERIES * WIDTH * sizeof *hq), *hk = foreign_in(c, KEYS * WIDTH * sizeof *hk);
    uint16_t *hv = foreign_in(c, KEYS * WIDTH * sizeof *hv);
    double *q = foreign_fill(c, FOREIGN_F16, hq, QUERIES * WIDTH, 2),
           *k = foreign_fill(c, FOREIGN_F16, hk, KEYS * WIDTH, 2);
    double *v = foreign_fill(c, FOREIGN_F16, hv, KEYS * WIDTH, 2), size;
    struct foreign_near out = foreign_out_near(c, FOREIGN_F32, QUERIES * WIDTH);
    foreign_u32(c, KEYS);
    foreign_f32(c, 0.125f);
    foreign_launch(c, QUERIES / 4, 1, 32, 4);
    for (size_t query = 0; query < QUERIES; query++) {
        double weights[KEYS], total = 0, off = 0;
        for (size_t j = 0; j < KEYS; j++) { /* |score| < 10: no need of a maximum in FP64 */
            total += weights[j] =
                exp(product((struct terms){q + query * WIDTH, k + j * WIDTH, 1, 1, WIDTH}, &size) * 0.125);
            off = fmax(off, size * 0.125 * (7 + 2) * 0x1p-24); /* of a score: 7 roundings of its sum, 2 of its scale */
        }
        for (size_t x = 0; x < WIDTH; x++) {
            double sum = 0, magnitude = 0;
            for (size_t j = 0; j < KEYS; j++) {
                sum += weights[j] / total * v[j * WIDTH + x];
                magnitude += weights[j] / total * fabs(v[j * WIDTH + x]);
            }
            out.want[query * WIDTH + x] = sum;
            /* weights are off by a score's error twice, by 4 units of two exponentials a key and by the sums' roundings
             */
            out.bound[query * WIDTH + x] = 2 * magnitude * (2 * off + (2 * KEYS + 8) * 0x1p-24);
        }
    }
    free(q);
    free(k);
    free(v);
}
