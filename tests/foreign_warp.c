/* foreign_warp.c - cases of foreign.h that a warp or a block computes together: votes, groups, sums, normalisation. */
#include "tests/foreign.h"

#include <math.h>
#include <stdlib.h>

static void votes_of_warp(const uint32_t v[32], uint32_t out[6][32]) {
    uint32_t ballot = 0, any = 0, all = 1, same = 1, sum = 0, parity = 0, least = UINT32_MAX, common = UINT32_MAX,
             either = 0;
    int32_t most = INT32_MIN;
    for (unsigned l = 0; l < 32; l++) {
        ballot |= (v[l] & 1) << l;
        any |= v[l] % 64 == 7;
        all &= v[l] < 1u << 20;
        same &= v[l] >> 24 == v[0] >> 24;
        sum += v[l];
        parity ^= v[l];
        if ((int32_t)v[l] > most) most = (int32_t)v[l];
        if (v[l] < least) least = v[l];
        common &= v[l] | 0xFF;
        either |= v[l] & 0xFFFF;
    }
    for (unsigned l = 0; l < 32; l++) {
        uint32_t by5 = 0, by3_reversed = 0;
        for (unsigned other = 0; other < 32; other++) {
            by5 |= (uint32_t)(v[other] % 5 == v[l] % 5) << other;
            by3_reversed |= (uint32_t)(v[other] % 3 == v[l] % 3) << (31 - other);
        }
        out[0][l] = ballot;
        out[1][l] = any | all << 1 | same << 2;
        out[2][l] = by5 ^ by3_reversed;
        out[3][l] = same ? UINT32_MAX : 0;
        out[4][l] = sum ^ parity ^ (uint32_t)most ^ least ^ common ^ either;
        out[5][l] = l < 12 ? v[(l + 5) % 12] + 12 : v[l % 16 + 3 < 16 ? l + 3 : l];
    }
}

void foreign_case_votes(struct foreign_case *c) {
    enum { COUNT = 256 };
    uint32_t *in = foreign_in(c, COUNT * sizeof *in), *out = foreign_out(c, 6 * COUNT * sizeof *out), rows[6][32];
    foreign_u32(c, COUNT);
    foreign_launch(c, 4, 1, 64, 1);
    for (unsigned i = 0; i < COUNT; i++) /* the first warps small, which all pass, or of one high byte */
        in[i] = foreign_word(c) >> (i < 32 ? 20 : i < 64 ? 9 : 0);
    for (unsigned warp = 0; warp < COUNT; warp += 32) {
        votes_of_warp(in + warp, rows);
        for (unsigned k = 0; k < 6; k++)
            for (unsigned l = 0; l < 32; l++)
                out[k * COUNT + warp + l] = rows[k][l];
    }
}

void foreign_case_groups(struct foreign_case *c) {
    enum { COUNT = 128 };
    int *in = foreign_in(c, COUNT * sizeof *in), *out = foreign_out(c, 5 * COUNT * sizeof *out);
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    for (unsigned i = 0; i < COUNT; i++)
        in[i] = foreign_between(c, -100000, 100000);
    for (unsigned i = 0; i < COUNT; i++) {
        int most = in[i], odd_before = 0, odd = 0, alike = 0, sum = 0;
        for (unsigned j = i / 8 * 8; j < i / 8 * 8 + 8; j++) {
            out[i] += in[j];
            if (in[j] > most) most = in[j];
            if (j < i) out[2 * COUNT + i] += in[j];
        }
        for (unsigned j = i / 32 * 32; j < i / 32 * 32 + 32; j++) {
            odd += in[j] & 1;
            odd_before += j < i && (in[j] & 1);
            if ((uint32_t)in[j] % 3 != (uint32_t)in[i] % 3) continue;
            alike++;
            sum += in[j] & 15;
        }
        out[COUNT + i] = most;
        out[2 * COUNT + i] += in[i / 8 * 8];
        out[3 * COUNT + i] = in[i] & 1 ? odd * 100 + odd_before : 0;
        out[4 * COUNT + i] = alike * 1000 + sum;
    }
}

void foreign_case_reduce_sum(struct foreign_case *c) {
    enum { BLOCKS = 2, THREADS = 128, COUNT = 3001 };
    float *in = foreign_in(c, COUNT * sizeof *in);
    free(foreign_fill(c, FOREIGN_F32, in, COUNT, 10));
    struct foreign_near sums = foreign_out_near(c, FOREIGN_F32, BLOCKS);
    foreign_u32(c, COUNT);
    foreign_launch(c, BLOCKS, 1, THREADS, 1);
    for (unsigned i = 0; i < COUNT; i++) { /* 12 additions a thread, 5 a warp, 5 of the warps' */
        sums.want[i / THREADS % BLOCKS] += (double)in[i];
        sums.bound[i / THREADS % BLOCKS] += 22 * 0x1p-24 * fabs((double)in[i]);
    }
}

void foreign_case_softmax(struct foreign_case *c) {
    enum { ROWS = 3, COLUMNS = 300 };
    float *in = foreign_in(c, ROWS * COLUMNS * sizeof *in);
    double *x = foreign_fill(c, FOREIGN_F32, in, ROWS * COLUMNS, 8);
    struct foreign_near out = foreign_out_near(c, FOREIGN_F32, ROWS * COLUMNS);
    foreign_u32(c, COLUMNS);
    foreign_launch(c, ROWS, 1, 128, 1);
    for (unsigned row = 0; row < ROWS; row++) {
        double most = -INFINITY, sum = 0;
        for (unsigned i = row * COLUMNS; i < (row + 1) * COLUMNS; i++)
            most = fmax(most, x[i]);
        for (unsigned i = row * COLUMNS; i < (row + 1) * COLUMNS; i++)
            sum += exp(x[i] - most);
        for (unsigned i = row * COLUMNS; i < (row + 1) * COLUMNS; i++) {
            out.want[i] = exp(x[i] - most) / sum;
            /* expf 2 units above and below, 12 additions, a quotient; the difference is rounded and exp scales that */
            out.bound[i] = (18 + 16) * 0x1p-24 * out.want[i];
        }
    }
    free(x);
}

void foreign_case_layernorm(struct foreign_case *c) {
    enum { ROWS = 8, COLUMNS = 256 };
    float *in = foreign_in(c, ROWS * COLUMNS * sizeof *in), *scale = foreign_in(c, COLUMNS * sizeof *scale);
    float *shift = foreign_in(c, COLUMNS * sizeof *shift), eps = 1e-5f;
    struct foreign_near out = foreign_out_near(c, FOREIGN_F32, ROWS * COLUMNS);
    foreign_f32(c, eps);
    foreign_launch(c, ROWS / 4, 1, 32, 4);
    free(foreign_fill(c, FOREIGN_F32, in, ROWS * COLUMNS, 3));
    free(foreign_fill(c, FOREIGN_F32, scale, COLUMNS, 2));
    free(foreign_fill(c, FOREIGN_F32, shift, COLUMNS, 1));
    for (unsigned row = 0; row < ROWS; row++) {
        double mean = 0, variance = 0;
        for (unsigned i = 0; i < COLUMNS; i++)
            mean += (double)in[row * COLUMNS + i] / COLUMNS;
        for (unsigned i = 0; i < COLUMNS; i++)
            variance += pow((double)in[row * COLUMNS + i] - mean, 2) / COLUMNS;
        for (unsigned i = 0; i < COLUMNS; i++) {
            double part = ((double)in[row * COLUMNS + i] - mean) / sqrt(variance + (double)eps) * (double)scale[i];
            out.want[row * COLUMNS + i] = part + (double)shift[i];
            /* 13 merges of a mean and a variance, each a few roundings of f32 */
            out.bound[row * COLUMNS + i] =
                40 * 0x1p-24 * (fabs(part) + fabs((double)scale[i]) + fabs((double)shift[i]));
        }
    }
}

void foreign_case_spmv(struct foreign_case *c) {
    enum { ROWS = 37, COLUMNS = 100, MOST = 300 };
    int *starts = foreign_in(c, (ROWS + 1) * sizeof *starts);
    for (unsigned row = 0; row < ROWS; row++) /* some rows are empty */
        starts[row + 1] = starts[row] + (row % 5 == 2 ? 0 : foreign_between(c, 1, MOST));
    size_t count = (size_t)starts[ROWS];
    int *columns = foreign_in(c, count * sizeof *columns);
    float *values = foreign_in(c, count * sizeof *values);
    double *x = foreign_in(c, COLUMNS * sizeof *x);
    struct foreign_near y = foreign_out_near(c, FOREIGN_F64, ROWS);
    foreign_u32(c, ROWS);
    foreign_launch(c, 10, 1, 128, 1);
    for (size_t i = 0; i < count; i++)
        columns[i] = foreign_between(c, 0, COLUMNS - 1);
    free(foreign_fill(c, FOREIGN_F32, values, count, 5));
    free(foreign_fill(c, FOREIGN_F64, x, COLUMNS, 5));
    for (unsigned row = 0; row < ROWS; row++) {
        long double sum = 0;
        for (int at = starts[row]; at < starts[row + 1]; at++) {
            sum += (long double)values[at] * x[columns[at]];
            y.bound[row] += 16 * 0x1p-53 * fabs((double)values[at] * x[columns[at]]); /* 10 of a lane, 5 of the warp */
        }
        y.want[row] = (double)sum;
    }
}

void foreign_case_stencil(struct foreign_case *c) {
    enum { WIDTH = 45, HEIGHT = 21 };
    const float weight = 0.2f;
    double *in = foreign_in(c, WIDTH * HEIGHT * sizeof *in);
    free(foreign_fill(c, FOREIGN_F64, in, WIDTH * HEIGHT, 10));
    struct foreign_near out = foreign_out_near(c, FOREIGN_F64, WIDTH * HEIGHT);
    foreign_u32(c, WIDTH);
    foreign_u32(c, HEIGHT);
    foreign_f32(c, weight);
    foreign_launch(c, 3, 3, 16, 8);
    for (unsigned y = 0; y < HEIGHT; y++)
        for (unsigned x = 0; x < WIDTH; x++) {
            double up = in[(y > 0 ? y - 1 : y) * WIDTH + x], down = in[(y + 1 < HEIGHT ? y + 1 : y) * WIDTH + x];
            double left = in[y * WIDTH + (x > 0 ? x - 1 : x)], right = in[y * WIDTH + (x + 1 < WIDTH ? x + 1 : x)];
            double own = in[y * WIDTH + x];
            out.want[y * WIDTH + x] = own + (double)weight * (up + down + left + right - 4 * own);
            out.bound[y * WIDTH + x] = 6 * 0x1p-52 * (fabs(own) * 2 + fabs(up) + fabs(down) + fabs(left) + fabs(right));
        }
}
