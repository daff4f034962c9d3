/* foreign_integers.c - cases of foreign.h about integers, bits, votes, calls and branches. All exact but for the
 * deviates. */
#include "tests/foreign.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t *words(struct foreign_case *c, unsigned count) {
    uint32_t *in = foreign_in(c, count * sizeof *in);
    for (unsigned i = 0; i < count; i++) { /* one in four is small, or small and negative */
        in[i] = foreign_word(c);
        if (i % 8 == 3) in[i] >>= 27;
        if (i % 8 == 6) in[i] = (uint32_t) - (int)(in[i] >> 27);
    }
    return in;
}

static uint32_t low_bits(unsigned count) {
    return count >= 32 ? UINT32_MAX : (1u << count) - 1;
}
static uint32_t leading_zeroes(uint32_t v) {
    return v == 0 ? 32 : (uint32_t)__builtin_clz(v);
}
static uint32_t reversed(uint32_t v) {
    uint32_t r = 0;
    for (unsigned i = 0; i < 32; i++)
        r |= (v >> i & 1) << (31 - i);
    return r;
}

/* ---- bits ---- */
static uint32_t nth_set(uint32_t mask, int base, int offset) {
    if (offset == 0) return mask >> base & 1 ? (uint32_t)base : UINT32_MAX;
    int left = abs(offset), step = offset > 0 ? 1 : -1;
    for (int at = base; at >= 0 && at < 32; at += step)
        if ((mask >> at & 1) && --left == 0) return (uint32_t)at;
    return UINT32_MAX;
}

static uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector) {
    uint32_t r = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned from = selector >> i * 4 & 7;
        r |= ((from < 4 ? a : b) >> from % 4 * 8 & 255) << i * 8;
    }
    return r;
}

static void bits_of(uint64_t l, uint32_t i, uint32_t out[10]) {
    uint32_t a = (uint32_t)l, b = (uint32_t)(l >> 32), away = i % 40 > 32 ? 32 : i % 40;
    uint32_t zeroes64 = b ? leading_zeroes(b) : 32 + leading_zeroes(a), found = a >> 31 ? ~a : a, at = b & 63;
    out[0] = (uint32_t)__builtin_popcount(a) | leading_zeroes(a) << 8 | (uint32_t)__builtin_ffs((int)a) << 16 |
             (uint32_t)__builtin_popcountll(l) << 24;
    out[1] = zeroes64 | (uint32_t)__builtin_ffsll((long long)l) << 8 | (31 - leading_zeroes(b | 1)) << 16;
    out[2] = reversed(a);
    out[3] = permuted(a, b, b);
    out[4] = (uint32_t)(l << (i & 31) >> 32) ^ (uint32_t)(l >> away);
    uint32_t sign = a >> 31 ? UINT32_MAX : 0;
    out[5] = (at > 31 ? 0 : a << at) ^ (a >> (b & 31)) ^ (at > 31 ? sign : (uint32_t)((int32_t)a >> at));
    out[6] = (a & b) | (~a & i);
    out[7] = a >> i % 20 & low_bits(i % 9 + 1);
    uint32_t length = i % 33;
    out[8] = (a >> (b & 31) & low_bits(length)) ^ (found ? 31 - leading_zeroes(found) : UINT32_MAX) << 24;
    out[9] = nth_set(a, (int)(b & 31), (int)(i % 7) - 3);
}

void foreign_case_bits(struct foreign_case *c) {
    enum { COUNT = 256 };
    uint64_t *in = foreign_in(c, COUNT * sizeof *in);
    for (unsigned i = 0; i < COUNT; i++)
        in[i] = ((uint64_t)foreign_word(c) << 32 | foreign_word(c)) >> (i % 5 == 0 ? i % 64 : 0);
    in[7] = 0;
    in[8] = UINT64_MAX;
    uint32_t *out = foreign_out(c, 10 * COUNT * sizeof *out), row[10];
    uint64_t *wide = foreign_out(c, 3 * COUNT * sizeof *wide);
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        uint64_t l = in[i];
        uint32_t a = (uint32_t)l, b = (uint32_t)(l >> 32);
        bits_of(l, i, row);
        for (unsigned k = 0; k < 10; k++)
            out[k * COUNT + i] = row[k];
        wide[i] = (uint64_t)reversed(a) << 32 | reversed(b);
        wide[COUNT + i] = (l << (i % 70 % 64)) ^ (l >> (b & 63));
        wide[2 * COUNT + i] = (uint64_t)((int64_t)l >> (a & 63));
    }
}

/* ---- packed bytes and halves ---- */
enum packed { ADD, SUBTRACT, GREATER, LESSER, APART, MEAN, ABOVE, BELOW_ONE, ADD_CUT, SUBTRACT_CUT, LEAST_RELU };
static int lane_of(enum packed how, int a, int b, int low, int high) {
    int cut;
    switch (how) {
    case ADD:
        return a + b;
    case SUBTRACT:
        return a - b;
    case GREATER:
        return a > b ? a : b;
    case LESSER:
        return a < b ? a : b;
    case APART:
        return abs(a - b);
    case MEAN:
        return (a + b + 1) >> 1;
    case ABOVE:
        return a > b ? -1 : 0;
    case BELOW_ONE:
        return a < b;
    case ADD_CUT:
        return (cut = a + b) < low ? low : cut > high ? high : cut;
    case SUBTRACT_CUT:
        return (cut = a - b) < low ? low : cut > high ? high : cut;
    default:
        return (cut = a < b ? a : b) < 0 ? 0 : cut;
    }
}
static uint32_t packed(enum packed how, uint32_t x, uint32_t y, unsigned width, bool is_signed) {
    uint32_t r = 0, mask = low_bits(width);
    int top = is_signed ? 1 << (width - 1) : 0, low = -top, high = (int)mask - top;
    for (unsigned at = 0; at < 32; at += width) {
        int a = (int)(x >> at & mask), b = (int)(y >> at & mask);
        if (is_signed) a = (a ^ top) - top, b = (b ^ top) - top;
        r |= ((uint32_t)lane_of(how, a, b, low, high) & mask) << at;
    }
    return r;
}
static uint32_t dot(uint32_t x, uint32_t y, unsigned width, unsigned first,
                    bool is_signed) { /* y's bytes from `first` */
    uint32_t sum = 0;
    for (unsigned k = 0; k < 32 / width; k++) {
        uint32_t a = x >> k * width & low_bits(width), b = y >> (first + k) * 8 & 255;
        if (is_signed) a = (uint32_t)(width == 8 ? (int8_t)a : (int16_t)a), b = (uint32_t)(int8_t)b;
        sum += a * b;
    }
    return sum;
}

static void dots_of(uint32_t x, uint32_t y, uint32_t i, uint32_t out[12]) {
    int64_t a = (int32_t)x, b = (int32_t)y, a24 = (int32_t)(x << 8) >> 8, b24 = (int32_t)(y << 8) >> 8;
    uint32_t bytes_apart = 0, apart = (uint32_t)llabs(a - b);
    for (unsigned k = 0; k < 4; k++)
        bytes_apart += (uint32_t)abs((int8_t)(x >> k * 8) - (int8_t)(y >> k * 8));
    out[0] = dot(x, y, 8, 0, true) + i;
    out[1] = dot(x, y, 8, 0, false) + i;
    out[2] = dot(x, y, 16, 0, true) + 5;
    out[3] = dot(x, y, 16, 2, false) + 9;
    out[4] = packed(ADD, x, y, 8, false) ^ packed(SUBTRACT, x, y, 16, false);
    out[5] = packed(GREATER, x, y, 8, true) ^ packed(LESSER, x, y, 16, false);
    out[6] = packed(APART, x, y, 8, false) ^ packed(MEAN, x, y, 8, false);
    out[7] = packed(ABOVE, x, y, 8, false) ^ packed(BELOW_ONE, x, y, 16, true);
    out[8] = packed(ADD_CUT, x, y, 16, true) ^ packed(SUBTRACT_CUT, x, y, 8, false);
    out[9] = (apart + i) ^ bytes_apart ^ ((x > y ? x - y : y - x) + 3);
    out[10] = (uint32_t)(a24 * b24) ^ (uint32_t)((uint64_t)(x & 0xFFFFFF) * (y & 0xFFFFFF)) ^ (uint32_t)(a * b >> 32) ^
              (uint32_t)((uint64_t)x * y >> 32) ^ (uint32_t)((a + b) >> 1) ^ (uint32_t)(((uint64_t)x + y) >> 1);
    int32_t sum = (int32_t)(x + y), most = (int32_t)(a > b ? a : b);
    out[11] = (uint32_t)(sum > 100 ? sum : 100) ^ (uint32_t)(most > (int32_t)i ? most : (int32_t)i) ^
              packed(LEAST_RELU, x, y, 16, true);
}

void foreign_case_dot_int8(struct foreign_case *c) {
    enum { COUNT = 256 };
    const uint32_t *a = words(c, COUNT), *b = words(c, COUNT);
    uint32_t *out = foreign_out(c, 12 * COUNT * sizeof *out), row[12];
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        dots_of(a[i], b[i], i, row);
        for (unsigned k = 0; k < 12; k++)
            out[k * COUNT + i] = row[k];
    }
}

/* ---- wide integers ---- */
static void wides_of(int64_t x, int64_t y, uint64_t out[12]) {
    uint64_t u = (uint64_t)x, v = (uint64_t)y;
    __int128 product = (__int128)x * y;
    int64_t by = y == -1 ? 3 : y, least = x < y ? x : y, rest = (int64_t)(int32_t)x % ((int32_t)y | 1);
    out[0] = u * v;
    out[1] = (uint64_t)(product >> 64);
    out[2] = (uint64_t)((unsigned __int128)u * v >> 64);
    out[3] = (uint64_t)(x / by);
    out[4] = (uint64_t)(x % by);
    out[5] = u / v;
    out[6] = u % (v >> 40 | 1);
    out[7] = (uint64_t)(x / 1000003 + x % 10);
    out[8] = (uint64_t)least ^ (u > v ? u : v) ^ (uint64_t)llabs(x);
    out[9] = (uint64_t)((product + (__int128)v) >> 37);
    out[10] = (uint64_t)((int64_t)((uint32_t)u / (uint32_t)(v | 1)) * 7 + rest);
    out[11] = (uint64_t)(((unsigned __int128)u << 64 | v) / ((unsigned __int128)v << 3 | 5));
}

void foreign_case_int64(struct foreign_case *c) {
    enum { COUNT = 128 };
    int64_t *a = foreign_in(c, COUNT * sizeof *a), *b = foreign_in(c, COUNT * sizeof *b);
    uint64_t *out = foreign_out(c, 12 * COUNT * sizeof *out), row[12];
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        a[i] = (int64_t)((uint64_t)foreign_word(c) << 32 | foreign_word(c)) >> (i % 3 * 20);
        b[i] = (int64_t)((uint64_t)foreign_word(c) << 32 | foreign_word(c)) >> (i % 7 * 9);
        if (i == 9) b[i] = -1;
        wides_of(a[i], b[i] | 1, row);
        for (unsigned k = 0; k < 12; k++)
            out[k * COUNT + i] = row[k];
    }
}

/* ---- a generator of numbers ---- */
static void philox_of(uint32_t i, uint64_t seed, uint32_t v[4]) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    memcpy(v, (const uint32_t[]){i, 0, 7, 0}, 4 * sizeof *v);
    for (unsigned round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
        uint64_t p = 0xD2511F53ull * v[0], q = 0xCD9E8D57ull * v[2];
        memcpy(v,
               (const uint32_t[]){(uint32_t)(q >> 32) ^ v[1] ^ k0, (uint32_t)q, (uint32_t)(p >> 32) ^ v[3] ^ k1,
                                  (uint32_t)p},
               4 * sizeof *v);
    }
}

void foreign_case_philox(struct foreign_case *c) {
    enum { COUNT = 256 };
    uint64_t seed = (uint64_t)foreign_word(c) << 32 | foreign_word(c);
    uint32_t *out = foreign_out(c, 4 * COUNT * sizeof *out);
    struct foreign_near normal = foreign_out_near(c, FOREIGN_F32, 2 * COUNT);
    foreign_u64(c, seed);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        philox_of(i, seed, out + 4 * i);
        float u = ((float)(out[4 * i] >> 8) + 0.5f) * 0x1p-24f;
        double angle = M_PI * (double)((float)(out[4 * i + 1] >> 8) * 0x1p-23f), radius = sqrt(-2 * log((double)u));
        normal.want[2 * i] = radius * sin(angle);
        normal.want[2 * i + 1] = radius * cos(angle);
        for (unsigned k = 0; k < 2; k++) /* log 1, square root 0, sincospi 2, a product: units in the last place */
            normal.bound[2 * i + k] = 6 * 0x1p-23 * fabs(normal.want[2 * i + k]) + 1e-14;
    }
}

/* ---- branches ---- */
static uint32_t switched(uint32_t v, uint32_t i) {
    for (uint32_t steps = v % 7 + 1; steps-- > 0;) {
        uint32_t which = v % 23;
        if (which == 0)
            v = v * 3 + 1;
        else if (which == 1)
            v ^= v >> 7;
        else if (which == 2)
            v += i;
        else if (which == 3)
            v = reversed(v);
        else if (which == 4)
            v -= 12345;
        else if (which == 5)
            v = v << 3 | v >> 29;
        else if (which == 6)
            v *= 2654435761u;
        else if (which == 7)
            v = ~v;
        else if (which == 8)
            v /= 3;
        else if (which == 9)
            v = (v + v % 11) ^ 0x55AA55AA;
        else if (which == 10)
            v ^= 0x55AA55AA;
        else if (which == 11)
            v = v * v + 7;
        else if (which == 12)
            v = (uint32_t)__builtin_popcount(v) << 20 | (v & 0xFFFFF);
        else if (which == 13)
            v ^= i << 16;
        else if (which == 14)
            v = v / 10 * 16 + v % 10;
        else if (which == 15)
            v += 0xDEADBEEF;
        else if (which == 16)
            v = (v & 0xFF00FF00) >> 8 | (v & 0x00FF00FF) << 8;
        else if (which == 17)
            v = v * 5 - 3;
        else if (which == 18)
            v ^= v << 13;
        else if (which == 19)
            steps = steps > 2 ? 2 : steps, v += 99;
        else
            v += 1;
    }
    return v;
}

void foreign_case_switch_table(struct foreign_case *c) {
    enum { COUNT = 512 };
    const uint32_t *in = words(c, COUNT);
    uint32_t *out = foreign_out(c, COUNT * sizeof *out);
    foreign_u32(c, COUNT);
    foreign_launch(c, 4, 1, COUNT / 4, 1);
    for (unsigned i = 0; i < COUNT; i++)
        out[i] = switched(in[i], i);
}

void foreign_case_mandelbrot(struct foreign_case *c) {
    enum { WIDTH = 32, HEIGHT = 24, MOST = 200 };
    const float step = 0.09f;
    uint16_t *steps = foreign_out(c, WIDTH * HEIGHT * sizeof *steps);
    foreign_u32(c, WIDTH);
    foreign_f32(c, step);
    foreign_u32(c, MOST);
    foreign_launch(c, 2, 3, 16, 8);
    for (unsigned at = 0; at < WIDTH * HEIGHT; at++) {
        unsigned x = at % WIDTH, y = at / WIDTH;
        double cr = -2.0 + (double)step * x, ci = -1.25 + (double)step * y, r = 0, i = 0;
        for (; steps[at] < MOST && r * r + i * i <= 4.0; steps[at]++) {
            double rr = r * r, ii = i * i, twice = (r + r) * i;
            i = twice + ci;
            r = (rr - ii) + cr;
        }
    }
}

/* ---- calls ---- */
static int64_t weighed(float x, int i) {
    int64_t sum = 0;
    for (int j = 0; j < 4; j++)
        sum += (int64_t)(((double)x * 100.0 + j) * 0.5 * (i & 15)) * 1000 + (i * j + (j & 1 ? 1 : -1));
    return sum;
}

void foreign_case_calls(struct foreign_case *c) {
    enum { COUNT = 128 };
    float *in = foreign_in(c, COUNT * sizeof *in);
    free(foreign_fill(c, FOREIGN_F32, in, COUNT, 3));
    float *out = foreign_out(c, COUNT * sizeof *out);
    int64_t *sums = foreign_out(c, COUNT * sizeof *sums);
    int *order = foreign_out(c, COUNT * sizeof *order);
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    for (int i = 0; i < COUNT; i++) {
        float x = in[i], sum = 0, power = 1;
        for (int k = 0; k <= i % 5; k++) {
            float term = power / (float)(k + 1);
            sum += term;
            power *= x;
        }
        float y = x - (float)(i & 3);
        out[i] = x > 0 ? sum : i % 3 == 0 ? -y : y;
        sums[i] = weighed(x, i);
        int b = i * 7 % COUNT;
        order[i] = i > b ? b * 65536 + i : i * 65536 + b;
    }
}
