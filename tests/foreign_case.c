/* foreign_case.c - cases of foreign.h: their parameters, seeded numbers, narrow formats. */
#include "tests/foreign.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    void (*make)(struct foreign_case *);
} rows[] = {
#define ROW(name) {#name, foreign_case_##name},
#include "tests/foreign_rows.def"
#undef ROW
};

unsigned foreign_count(void) {
    return sizeof rows / sizeof rows[0];
}
const char *foreign_name(unsigned row) {
    return rows[row].name;
}

void foreign_make(unsigned row, uint64_t seed, struct foreign_case *c) {
    *c = (struct foreign_case){.name = rows[row].name, .state = seed * 1000003 + row};
    rows[row].make(c);
}

void foreign_drop(struct foreign_case *c) {
    for (unsigned i = 0; i < c->count; i++) {
        free(c->params[i].before);
        free(c->params[i].want);
        free(c->params[i].near);
        free(c->params[i].bound);
    }
    c->count = 0;
}

/* ---- parameters ---- */
static void *zeroes(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (memory == NULL) abort();
    return memory;
}

static struct foreign_param *param(struct foreign_case *c) {
    if (c->count == FOREIGN_PARAMS) abort();
    return &c->params[c->count++];
}

void *foreign_in(struct foreign_case *c, size_t bytes) {
    struct foreign_param *p = param(c);
    p->bytes = bytes;
    return p->before = zeroes(bytes);
}

void *foreign_out(struct foreign_case *c, size_t bytes) {
    struct foreign_param *p = param(c);
    p->bytes = bytes;
    p->judged = true;
    return p->want = zeroes(bytes);
}

void *foreign_inout(struct foreign_case *c, size_t bytes, void **before) {
    void *want = foreign_out(c, bytes);
    *before = c->params[c->count - 1].before = zeroes(bytes);
    return want;
}

void foreign_any_nan(struct foreign_case *c, size_t from, size_t count) {
    struct foreign_param *p = &c->params[c->count - 1];
    p->nan_from = from * sizeof(float);
    p->nan_to = (from + count) * sizeof(float);
}

struct foreign_near foreign_out_near(struct foreign_case *c, enum foreign_type type, size_t count) {
    static const size_t sizes[] = {[FOREIGN_F16] = 2, [FOREIGN_BF16] = 2, [FOREIGN_F32] = 4, [FOREIGN_F64] = 8};
    struct foreign_param *p = param(c);
    p->type = type;
    p->bytes = count * sizes[type];
    p->judged = true;
    p->near = zeroes(count * sizeof *p->near);
    p->bound = zeroes(count * sizeof *p->bound);
    return (struct foreign_near){p->near, p->bound};
}

void foreign_u64(struct foreign_case *c, uint64_t value) {
    param(c)->value = value;
}
void foreign_u32(struct foreign_case *c, uint32_t value) {
    foreign_u64(c, value);
}
void foreign_f32(struct foreign_case *c, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    foreign_u32(c, bits);
}

void foreign_launch(struct foreign_case *c, uint32_t grid_x, uint32_t grid_y, uint32_t block_x, uint32_t block_y) {
    memcpy(c->grid, (const uint32_t[]){grid_x, grid_y, 1}, sizeof c->grid);
    memcpy(c->block, (const uint32_t[]){block_x, block_y, 1}, sizeof c->block);
}

/* ---- seeded numbers ---- */
uint32_t foreign_word(struct foreign_case *c) {
    uint64_t z = c->state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}
int foreign_between(struct foreign_case *c, int low, int high) {
    return (int)(foreign_word(c) % (uint32_t)(high - low + 1)) + low;
}
double foreign_unit(struct foreign_case *c) {
    return (double)(int)(foreign_word(c) >> 8) * 0x1p-23 - 1.0;
}

/* ---- formats ---- */
double foreign_round(double v, int digits, int lowest, double most, enum foreign_rounding rounding) {
    if (isnan(v) || isinf(v) || v == 0) return v;
    int low = ilogb(v) - (digits - 1);
    if (low < lowest) low = lowest;
    double q = ldexp(v, -low);
    q = rounding == TO_NEAREST ? nearbyint(q) : rounding == TO_ZERO ? trunc(q) : rounding == UP ? ceil(q) : floor(q);
    double r = ldexp(q, low);
    if (fabs(r) > most) {
        bool cut = rounding == TO_ZERO || (rounding == UP && r < 0) || (rounding == DOWN && r > 0);
        r = cut ? most : (double)INFINITY;
    }
    return copysign(r, v);
}
double foreign_f16(double v) {
    return foreign_round(v, 11, -24, 65504, TO_NEAREST);
}
double foreign_bf16(double v) {
    return foreign_round(v, 8, -133, 0x1.FEp127, TO_NEAREST);
}
double foreign_f16_value(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double v = exponent == 31  ? fraction ? (double)NAN : (double)INFINITY
               : exponent == 0 ? ldexp(fraction, -24)
                               : ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 ? -v : v;
}
double foreign_bf16_value(uint16_t bits) {
    uint32_t word = (uint32_t)bits << 16;
    float v;
    memcpy(&v, &word, sizeof v);
    return (double)v;
}
uint16_t foreign_f16_bits(double v) {
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    if (isnan(v)) return 0x7FFF;
    if (isinf(v)) return sign | 0x7C00;
    if (fabs(v) < 0x1p-14) return (uint16_t)(sign | (int)(fabs(v) * 0x1p24));
    int e = ilogb(v);
    return (uint16_t)(sign | ((e + 15) << 10) | ((int)ldexp(fabs(v), 10 - e) - 1024));
}
uint16_t foreign_bf16_bits(double v) {
    float single = (float)v;
    uint32_t word;
    memcpy(&word, &single, sizeof word);
    return isnan(v) ? 0x7FFF : (uint16_t)(word >> 16);
}

double *foreign_fill(struct foreign_case *c, enum foreign_type type, void *to, size_t count, double scale) {
    double *values = zeroes(count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        double v = foreign_unit(c) * scale;
        if (type == FOREIGN_F16) ((uint16_t *)to)[i] = foreign_f16_bits(v = foreign_f16(v));
        if (type == FOREIGN_BF16) ((uint16_t *)to)[i] = foreign_bf16_bits(v = foreign_bf16(v));
        if (type == FOREIGN_F32) v = (double)(((float *)to)[i] = (float)v);
        if (type == FOREIGN_F64) ((double *)to)[i] = v;
        values[i] = v;
    }
    return values;
}
