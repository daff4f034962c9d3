/* foreign_memory.c - cases of foreign.h about memory: copies, sorts, scans, atomics, flags between threads. All exact.
 */
#include "tests/foreign.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int *ints(struct foreign_case *c, unsigned count, int low, int high) {
    int *in = foreign_in(c, count * sizeof *in);
    for (unsigned i = 0; i < count; i++)
        in[i] = foreign_between(c, low, high);
    return in;
}

void foreign_case_async_copy(struct foreign_case *c) {
    enum { TILES = 5, BLOCKS = 2, COUNT = BLOCKS * TILES * 256 };
    float *in = foreign_in(c, COUNT * sizeof *in);
    free(foreign_fill(c, FOREIGN_F32, in, COUNT, 10));
    float *out = foreign_out(c, COUNT * sizeof *out);
    foreign_u32(c, TILES);
    foreign_launch(c, BLOCKS, 1, 64, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        const float *tile = in + i / 256 * 256;
        float pair = tile[i % 256] + tile[(i + 1) % 256];
        out[i] = pair + tile[(i + 255) % 256];
    }
}

void foreign_case_atomic_ref(struct foreign_case *c) {
    enum { BLOCKS = 4 };
    const int *in = ints(c, BLOCKS * 32, 1, 100000);
    int *out = foreign_out(c, BLOCKS * 32 * sizeof *out);
    uint32_t *tickets = foreign_out(c, 2 * sizeof *tickets);
    int *most = foreign_out(c, sizeof *most), *seen = foreign_out(c, BLOCKS * sizeof *seen);
    foreign_launch(c, BLOCKS, 1, 64, 1);
    for (unsigned i = 0; i < BLOCKS * 32; i++)
        out[i] = in[i / 32 * 32 + 31 - i % 32] * 3 + 1;
    for (unsigned b = 0; b < BLOCKS; b++) {
        tickets[1] += tickets[0]++ + 1;
        if (in[b * 32] > *most) *most = in[b * 32];
        seen[b] = 5;
    }
}

/* What the eight words of one block's shared memory become. */
static void atomics_shared(const int *in, uint32_t mine[8]) {
    memset(mine, 0, 8 * sizeof *mine);
    mine[3] = INT_MAX;
    mine[5] = UINT32_MAX;
    for (unsigned t = 0; t < 256; t++) {
        uint32_t v = (uint32_t)in[t];
        mine[0] += v;
        mine[1] -= v;
        if (in[t] > (int)mine[2]) mine[2] = v;
        if (in[t] < (int)mine[3]) mine[3] = v;
        mine[4] |= v;
        mine[5] &= v;
        mine[6] ^= v;
        mine[7] = mine[7] >= 100 ? 0 : mine[7] + 1;
    }
}

void foreign_case_atomics(struct foreign_case *c) {
    enum { BLOCKS = 2, COUNT = BLOCKS * 256 };
    void *before;
    const int *in = ints(c, COUNT, -100000, 100000);
    uint32_t *words = foreign_inout(c, 9 * sizeof *words, &before);
    words[8] = ((uint32_t *)before)[8] = 300; /* beyond 77: the first takes it to 77 */
    uint64_t *wide = foreign_out(c, 6 * sizeof *wide);
    float *floats = foreign_inout(c, 2 * sizeof *floats, &before);
    floats[1] = ((float *)before)[1] = -1e30f;
    double *doubles = foreign_inout(c, 2 * sizeof *doubles, &before);
    doubles[1] = ((double *)before)[1] = 1.0;
    uint32_t *bytes = foreign_out(c, sizeof *bytes);
    foreign_launch(c, BLOCKS, 1, 256, 1);
    int64_t least = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        int v = in[i];
        uint32_t u = (uint32_t)v, mine[8];
        if (i % 256 == 0) {
            atomics_shared(in + i, mine);
            for (unsigned j = 0; j < 8; j++)
                words[j] += mine[j];
        }
        words[8] = words[8] == 0 || words[8] > 77 ? 77 : words[8] - 1;
        wide[0] += (uint64_t)(int64_t)v << 20;
        if ((uint64_t)u << 8 > wide[1]) wide[1] = (uint64_t)u << 8;
        if ((int64_t)v * 512 < least) least = (int64_t)v * 512;
        wide[3] |= 1ull << (u & 63);
        floats[0] += (float)(u & 255);
        if ((float)v * 0.5f > floats[1]) floats[1] = (float)v * 0.5f;
        doubles[0] += (double)(u & 1023);
        doubles[1] *= u & 1 ? 2.0 : 0.5;
        unsigned shift = (i & 3) * 8;
        *bytes = (*bytes & ~(255u << shift)) | (((*bytes >> shift) + (u & 7)) & 255) << shift;
    }
    wide[2] = (uint64_t)least;
    wide[5] = 0x0123456789ABCDEF; /* and [4] the zero that lay there */
}

void foreign_case_barrier_wait(struct foreign_case *c) {
    enum { COUNT = 256 };
    const int *in = ints(c, COUNT, -1000000, 1000000);
    int *out = foreign_out(c, COUNT * sizeof *out);
    foreign_launch(c, COUNT / 128, 1, 128, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        out[i] = in[i] * 5 + in[i / 128 * 128 + (i % 128 + 33) % 128];
        if (i % 128 >= 64) out[i] += out[i - 64]; /* what that thread left before it came here */
    }
}

static int by_key_then_place(const void *a, const void *b) {
    const int *x = a, *y = b;
    return x[0] != y[0] ? (x[0] > y[0] ? 1 : -1) : x[1] - y[1];
}

void foreign_case_bitonic_sort(struct foreign_case *c) {
    enum { BLOCKS = 2, COUNT = BLOCKS * 1024 };
    static int pairs[1024][2];
    const int *in = ints(c, COUNT, -300, 300); /* many keys twice */
    int *keys = foreign_out(c, COUNT * sizeof *keys);
    uint16_t *positions = foreign_out(c, COUNT * sizeof *positions);
    foreign_launch(c, BLOCKS, 1, 512, 1);
    for (unsigned b = 0; b < BLOCKS; b++) {
        for (int i = 0; i < 1024; i++) {
            pairs[i][0] = in[b * 1024 + (unsigned)i];
            pairs[i][1] = i;
        }
        qsort(pairs, 1024, sizeof pairs[0], by_key_then_place);
        for (unsigned i = 0; i < 1024; i++) {
            keys[b * 1024 + i] = pairs[i][0];
            positions[b * 1024 + i] = (uint16_t)pairs[i][1];
        }
    }
}

void foreign_case_cluster_sum(struct foreign_case *c) {
    enum { BLOCKS = 8, COUNT = BLOCKS * 64 };
    const int *in = ints(c, COUNT, -100000, 100000);
    int *out = foreign_out(c, COUNT * sizeof *out), *sums = foreign_out(c, BLOCKS / 4 * sizeof *sums);
    foreign_launch(c, BLOCKS, 1, 64, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned block = i / 64, next = block / 4 * 4 + (block + 1) % 4;
        out[i] = in[i] * 10 + in[next * 64 + 63 - i % 64];
        sums[block / 4] += in[i];
    }
}

void foreign_case_compact(struct foreign_case *c) {
    enum { BLOCKS = 3, COUNT = BLOCKS * 256 };
    uint32_t *in = foreign_in(c, COUNT * sizeof *in), limit = 0x60000000;
    for (unsigned i = 0; i < COUNT; i++)
        in[i] = foreign_word(c);
    uint32_t *out = foreign_out(c, COUNT * sizeof *out), *counts = foreign_out(c, BLOCKS * sizeof *counts);
    uint32_t *total = foreign_out(c, sizeof *total);
    foreign_u32(c, limit);
    foreign_launch(c, BLOCKS, 1, 256, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        if (in[i] >= limit) continue;
        out[i / 256 * 256 + counts[i / 256]++] = in[i];
        ++*total;
    }
}

void foreign_case_constants(struct foreign_case *c) {
    enum { COUNT = 128 };
    static const float coefficients[] = {1.0f, -0.5f, 0.25f, -0.125f, 0.0625f}, scales[] = {0.5f, 2.0f};
    static const int primes[] = {2, 3, 5, 7, 11, 13, 17, 19}, squares[] = {1, 4, 9, 16}, shifts[] = {-3, 7};
    static const unsigned char codes[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
    float *in = foreign_in(c, COUNT * sizeof *in);
    free(foreign_fill(c, FOREIGN_F32, in, COUNT, 2));
    float *out = foreign_out(c, COUNT * sizeof *out);
    int *whole = foreign_out(c, COUNT * sizeof *whole);
    uint64_t *count = foreign_out(c, sizeof *count);
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        float sum = 0;
        for (int j = 4; j >= 0; j--)
            sum = fmaf(sum, in[i], coefficients[j]);
        out[i] = sum * scales[i & 1];
        whole[i] = primes[i & 7] * 1000 + squares[(i & 1) * 2 + i / 2 % 2] * 100 + shifts[i & 1] +
                   squares[(i & 1) + i / 2 % 3] * codes[i & 15];
    }
    *count = 40 + 16; /* a row: 4 + 2 bytes, 2 unused, a pointer */
}

void foreign_case_dynamic_shared(struct foreign_case *c) {
    enum { PER = 5, THREADS = 64, BLOCKS = 2, COUNT = BLOCKS * THREADS };
    const int *in = ints(c, COUNT * PER, -100000, 100000);
    double *out = foreign_out(c, COUNT * sizeof *out);
    foreign_u32(c, PER);
    foreign_launch(c, BLOCKS, 1, THREADS, 1);
    c->shared = THREADS * 8 + THREADS * PER * 5;
    for (unsigned i = 0; i < COUNT; i++) {
        const int *values = in + i / THREADS * THREADS * PER;
        unsigned from = ((THREADS - 1 - i % THREADS) + 1) % THREADS * PER;
        for (unsigned j = 0; j < PER; j++)
            if (values[from + j] % 3 == 0) out[i] += values[from + j] * 0.25;
        out[i] += c->shared;
    }
}

void foreign_case_histogram(struct foreign_case *c) {
    enum { COUNT = 10001 };
    unsigned char *in = foreign_in(c, COUNT);
    uint32_t *bins = foreign_out(c, 256 * sizeof *bins);
    foreign_u32(c, COUNT);
    foreign_launch(c, 3, 1, 256, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        in[i] = (unsigned char)(foreign_word(c) & foreign_word(c) >> 8); /* some bins are crowded */
        bins[in[i]]++;
    }
}

void foreign_case_last_block(struct foreign_case *c) {
    enum { BLOCKS = 8, THREADS = 64, COUNT = 5003 };
    const int *in = ints(c, COUNT, -1990, 2010);
    int *part = foreign_out(c, BLOCKS * sizeof *part), *total = foreign_out(c, 3 * sizeof *total);
    foreign_u32(c, COUNT);
    foreign_launch(c, BLOCKS, 1, THREADS, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        part[i / THREADS % BLOCKS] += in[i];
        total[0] += in[i];
    }
    bool every = true;
    for (unsigned t = 0; t < THREADS; t++) {
        total[1] += part[t % BLOCKS] > 0;
        every &= in[t] > -2000;
    }
    total[2] = (in[0] > 0) + 2 * every;
}

void foreign_case_local_array(struct foreign_case *c) {
    enum { COUNT = 128, EACH = 24 };
    const int *in = ints(c, COUNT * EACH, -200, 200);
    int *out = foreign_out(c, 3 * COUNT * sizeof *out);
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        int sorted[EACH][2], stack[16], depth = 0, sum = 0, counts[32] = {0}, most = 0;
        for (int j = 0; j < EACH; j++) {
            sorted[j][0] = in[i * EACH + (unsigned)j];
            sorted[j][1] = j;
            counts[sorted[j][0] & 31]++;
        }
        qsort(sorted, EACH, sizeof sorted[0], by_key_then_place);
        for (int j = 0; j < EACH; j++) {
            if ((sorted[j][0] & 3) && depth < 16)
                stack[depth++] = sorted[j][0];
            else if (depth > 0)
                sum += stack[--depth] * (j + 1);
        }
        for (int j = 0; j < 32; j++)
            if (counts[j] > counts[most]) most = j;
        out[i] = sorted[in[i * EACH] & 15][0];
        out[COUNT + i] = sum + depth;
        out[2 * COUNT + i] = most * 100 + counts[most];
    }
}

void foreign_case_lookback(struct foreign_case *c) {
    enum { BLOCKS = 6, COUNT = BLOCKS * 128 };
    uint32_t *in = foreign_in(c, COUNT * sizeof *in);
    uint64_t *out = foreign_out(c, COUNT * sizeof *out), *prefix = foreign_out(c, BLOCKS * sizeof *prefix), sum = 0;
    uint32_t *flags = foreign_out(c, BLOCKS * sizeof *flags);
    foreign_launch(c, BLOCKS, 1, 128, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        in[i] = foreign_word(c);
        prefix[i / 128] = out[i] = sum += in[i];
        flags[i / 128] = 1;
    }
}

void foreign_case_pipeline_stages(struct foreign_case *c) {
    enum { TILES = 5, COUNT = TILES * 128 };
    const int *in = ints(c, COUNT, -1000000, 1000000);
    int *out = foreign_out(c, COUNT * sizeof *out);
    foreign_u32(c, TILES);
    foreign_launch(c, 1, 1, 128, 1);
    for (unsigned i = 0; i < COUNT; i++)
        out[i] = in[i] * 3 + in[i / 128 * 128 + 127 - i % 128];
}

void foreign_case_scan_block(struct foreign_case *c) {
    enum { BLOCKS = 2, EACH = 1024 };
    uint32_t *in = foreign_in(c, BLOCKS * EACH * sizeof *in), *out = foreign_out(c, BLOCKS * EACH * sizeof *out),
             sum = 0;
    foreign_launch(c, BLOCKS, 1, EACH / 4, 1);
    for (unsigned i = 0; i < BLOCKS * EACH; i++) {
        in[i] = foreign_word(c);
        out[i] = sum = i % EACH == 0 ? in[i] : sum + in[i];
    }
}

void foreign_case_strings(struct foreign_case *c) {
    enum { LENGTH = 1003, THREADS = 64 };
    static const char letters[] = "   abcdeXYZqmM.,;-07 ";
    char *text = foreign_in(c, LENGTH), *swapped = foreign_out(c, LENGTH);
    int *numbers = foreign_out(c, THREADS * sizeof *numbers), *words = foreign_out(c, sizeof *words);
    foreign_u32(c, LENGTH);
    foreign_launch(c, 2, 1, THREADS / 2, 1);
    bool inside = false;
    for (unsigned i = 0; i < LENGTH; i++) {
        char v = text[i] = letters[foreign_word(c) % (sizeof letters - 1)];
        *words += v != ' ' && !inside;
        inside = v != ' ';
        bool letter = (v >= 'a' && v <= 'z') || (v >= 'A' && v <= 'Z');
        swapped[i] = (char)(letter ? v ^ 32 : v);
        if (v == '0' || v == '7') numbers[i / 16] = numbers[i / 16] * 10 + (v - '0');
    }
}

void foreign_case_topk(struct foreign_case *c) {
    enum { ROWS = 2, COLUMNS = 700 };
    float *in = foreign_in(c, ROWS * COLUMNS * sizeof *in), *values = foreign_out(c, ROWS * 8 * sizeof *values);
    int *indices = foreign_out(c, ROWS * 8 * sizeof *indices);
    foreign_u32(c, COLUMNS);
    foreign_launch(c, ROWS, 1, 256, 1);
    for (unsigned i = 0; i < ROWS * COLUMNS; i++)
        in[i] = (float)foreign_between(c, -90, 90) * 0.125f; /* the largest come more than once */
    for (unsigned row = 0; row < ROWS; row++) {
        bool taken[COLUMNS] = {false};
        for (unsigned k = 0; k < 8; k++) {
            int best = -1;
            for (int i = 0; i < COLUMNS; i++)
                if (!taken[i] && (best < 0 || in[row * COLUMNS + (unsigned)i] > in[row * COLUMNS + (unsigned)best]))
                    best = i;
            taken[best] = true;
            values[row * 8 + k] = in[row * COLUMNS + (unsigned)best];
            indices[row * 8 + k] = best;
        }
    }
}

void foreign_case_transpose(struct foreign_case *c) {
    enum { ROWS = 70, COLUMNS = 45 };
    float *in = foreign_in(c, ROWS * COLUMNS * sizeof *in), *out = foreign_out(c, ROWS * COLUMNS * sizeof *out);
    foreign_u32(c, ROWS);
    foreign_u32(c, COLUMNS);
    foreign_launch(c, 2, 3, 32, 8);
    free(foreign_fill(c, FOREIGN_F32, in, ROWS * COLUMNS, 100));
    for (unsigned y = 0; y < ROWS; y++)
        for (unsigned x = 0; x < COLUMNS; x++)
            out[x * ROWS + y] = in[y * COLUMNS + x];
}
