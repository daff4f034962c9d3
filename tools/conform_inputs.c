/* conform_inputs.c - inputs of a form, the same on every machine: a letter of its row for each of a, b, c, x.
 *
 *   t  by the form's last type: i, f, d, h or b         (what is left out in a row, too)
 *   1  by its first type
 *   i  integers: each edge with each, then random ones of every length
 *   s  amounts of shifts: 0 to 70, and others
 *   p  positions and lengths of bit fields: 0 to 255, most below 70
 *   z  as i, but never zero in any of the widths
 *   f d h b  f32, f64, pairs of f16, of bf16: each edge with each, then random ones, half of them near each other
 *   F  f32: every sign and exponent with some fractions, ends and middles of the range
 *   H  every 16-bit pattern; in another order above it (first operand of every cvt from 16-bit integers)
 *   B  every 8-bit pattern, random bits above it (of every cvt from 8-bit integers)
 *   U  every upper half with the lower halves 0, 1, 7FFF, 8000, FFFF
 *   u  every upper half with one of these
 *   m  packed numbers for products: finite, most near 1
 *   w  matrices of small whole numbers
 *   .  random bits */
#include "conform_product.h"

#include <string.h>

static const uint64_t integer_edges[32] = {0,
                                           1,
                                           2,
                                           3,
                                           4,
                                           7,
                                           31,
                                           32,
                                           33,
                                           63,
                                           64,
                                           0x7F,
                                           0x80,
                                           0xFF,
                                           0x100,
                                           0x7FFF,
                                           0x8000,
                                           0xFFFF,
                                           0x10000,
                                           0x7FFFFFFF,
                                           0x80000000,
                                           0x80000001,
                                           0xFFFFFFFF,
                                           0x100000000,
                                           0x7FFFFFFFFFFFFFFF,
                                           0x8000000000000000,
                                           0x8000000000000001,
                                           0xFFFFFFFFFFFFFFFF,
                                           0xFFFFFFFFFFFFFFFE,
                                           0xFFFFFFFFFFFFFF80,
                                           0x5555555555555555,
                                           0xAAAAAAAAAAAAAAAA};
static const uint64_t single_edges[32] = {
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001,
    0xFFFFFFFF, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x7F7FFFFF,
    0xFF7FFFFF, 0x3F000000, 0xBF000000, 0x3FC00000, 0x40200000, 0x3F800001, 0x3F7FFFFF, 0x4B000001,
    0x4F000000, 0xCF000000, 0x5F000000, 0x40490FDB, 0xC2FE0000, 0x43E00000, 0x1E3CE508, 0x477FF000};
static const uint64_t double_edges[32] = {0,
                                          0x8000000000000000,
                                          0x3FF0000000000000,
                                          0xBFF0000000000000,
                                          0x7FF0000000000000,
                                          0xFFF0000000000000,
                                          0x7FF8000000000000,
                                          0x7FF0000000000001,
                                          0xFFFFFFFFFFFFFFFF,
                                          0x0000000000000001,
                                          0x8000000000000001,
                                          0x000FFFFFFFFFFFFF,
                                          0x800FFFFFFFFFFFFF,
                                          0x0010000000000000,
                                          0x8010000000000000,
                                          0x7FEFFFFFFFFFFFFF,
                                          0xFFEFFFFFFFFFFFFF,
                                          0x3FE0000000000000,
                                          0xBFE0000000000000,
                                          0x3FF8000000000000,
                                          0x4004000000000000,
                                          0x3FF0000000000001,
                                          0x3FEFFFFFFFFFFFFF,
                                          0x4330000000000001,
                                          0x41E0000000000000,
                                          0xC1E0000000000000,
                                          0x43E0000000000000,
                                          0x400921FB54442D18,
                                          0x47EFFFFFE0000000,
                                          0x3810000000000000,
                                          0x36A0000000000000,
                                          0x41F0000000000000};
static const uint16_t half_edges[32] = {0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7C01,
                                        0xFFFF, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x7BFF,
                                        0xFBFF, 0x3800, 0xB800, 0x3E00, 0x4100, 0x3C01, 0x3BFF, 0x6400,
                                        0x5F00, 0x4248, 0x2E66, 0x1400, 0x7800, 0xF800, 0x0002, 0x07FF};
static const uint16_t brain_edges[32] = {0x0000, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0x7F81,
                                         0xFFFF, 0x0001, 0x8001, 0x007F, 0x807F, 0x0080, 0x8080, 0x7F7F,
                                         0xFF7F, 0x3F00, 0xBF00, 0x3FC0, 0x4020, 0x3F81, 0x3F7F, 0x4B00,
                                         0x4F00, 0x4049, 0xC2FE, 0x43E0, 0x1E3C, 0x7E80, 0x0002, 0x00FF};

uint64_t conform_random(uint64_t *state) {
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint64_t conform_hash(uint64_t from, const void *data, size_t bytes) {
    const unsigned char *at = data;
    uint64_t word;
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        from = (from ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        from ^= from >> 32;
    }
    for (; bytes > 0; bytes--, at++)
        from = (from ^ *at) * UINT64_C(0x100000001B3);
    return from;
}

void conform_map_bytes(unsigned char bytes[CONFORM_MAP]) {
    for (unsigned i = 0; i < CONFORM_MAP; i++)
        bytes[i] = (unsigned char)(i * 37 + 1);
}

static char by_type(const struct conform_type *type) {
    if (type == NULL || (type->kind != 'f' && type->kind != 'x')) return 'i';
    if (type->kind == 'x' && (type->name[0] == 'u' || type->name[0] == 's')) return 'i';
    if (type->name[0] == 'b') return 'b';
    if (type->name[0] == 'e') return '.';
    return type->bits == 64 ? 'd' : strncmp(type->name, "f16", 3) == 0 ? 'h' : 'f';
}

static char letter_of(const struct conform_form *form, unsigned operand) {
    const char *inputs = form->row->inputs;
    char letter = operand < strlen(inputs) ? inputs[operand] : 't';
    bool small = form->last != NULL && form->last->memory <= 16 && strchr("usb", form->last->kind) != NULL;
    if (operand == 0 && small && strcmp(form->words[0], "cvt") == 0) return form->last->memory == 8 ? 'B' : 'H';
    if (letter == 't') return by_type(form->last);
    if (letter == '1') return by_type(form->first);
    return letter;
}

size_t conform_input_count(const struct conform_form *form) {
    struct conform_matrix matrix;
    bool product = form->row->flags & TENSOR || conform_matrix_of(form, &matrix);
    size_t count = form->row->flags & TENSOR ? CONFORM_PRODUCTS / 2 : product ? CONFORM_PRODUCTS : CONFORM_FEW;
    for (unsigned o = 0; o < 4; o++) {
        char letter = letter_of(form, o);
        if (letter == 'U') count = CONFORM_UPPERS;
        if ((letter == 'H' || letter == 'u') && count < CONFORM_HALVES) count = CONFORM_HALVES;
        if (letter == 'F' && count < 2 * CONFORM_FEW) count = 2 * CONFORM_FEW;
    }
    return count;
}

/* Edge numbers of operand o at input i: all pairs of a and b come up. */
static unsigned edge_of(size_t i, unsigned o) {
    static const unsigned stride[4] = {1, 0, 7, 11};
    return (unsigned)((o == 1 ? i / 32 : i * stride[o] + i / 32 * o) % 32);
}

static uint64_t pair_of(const uint16_t *edges, size_t i, unsigned o, uint64_t r, unsigned fraction) {
    if (i < 1024) {
        uint64_t low = edges[edge_of(i, o)];
        return low | (uint64_t)edges[(edge_of(i, o) * 5 + 3) % 32] << 16 | low << 32;
    }
    if (i % 2) return r;
    uint64_t near = fraction == 10 ? 0x8FFF : 0x81FF, high = fraction == 10 ? 0x3000 : 0x3E00;
    return (r & (near | near << 16 | near << 32)) | (high | high << 16 | high << 32);
}

static uint64_t float_of(size_t i, unsigned o, uint64_t r) {
    if (i < 1024) return single_edges[edge_of(i, o)];
    if (i % 2) return r & 0xFFFFFFFF;
    return (r & 0x807FFFFF) | (115 + (r >> 40) % 26) << 23;
}

static uint64_t double_of(size_t i, unsigned o, uint64_t r, uint64_t other) {
    if (i < 1024) return double_edges[edge_of(i, o)];
    if (i % 2) return r;
    return (r & 0x800FFFFFFFFFFFFF) | (1023 - 20 + other % 40) << 52;
}

static uint64_t sweep(size_t i, uint64_t r) {
    if (i < 512 * 6) { /* each sign and exponent: first, last, middle, and random fractions */
        uint64_t fraction = i % 6 == 0 ? 0 : i % 6 == 1 ? 0x7FFFFF : i % 6 == 2 ? 0x400000 : r & 0x7FFFFF;
        return (uint64_t)(i / 6) << 23 | fraction;
    }
    if (i < 512 * 7) return (r & 0x807FFFFF) | (127 - 6 + r % 13) << 23;
    return 0x3F000000 + (r & 0x00FFFFFF); /* from 0.5 to 2 */
}

static uint64_t integer_of(size_t i, unsigned o, uint64_t r, uint64_t other) {
    if (i < 1024) return integer_edges[edge_of(i, o)];
    uint64_t v = r >> other % 64;
    return other & 64 ? ~v : v;
}

static uint64_t amount(size_t i, uint64_t r) {
    return i % 16 == 15 ? r & 0xFFFFFFFF : i % 16 == 14 ? integer_edges[r % 32] & 0xFFFFFFFF : r % 71;
}

/* No zero in the lowest 16 bits, so in no width. */
static uint64_t divisor(uint64_t v) {
    return v & 0xFFFF ? v : v | 3;
}

/* Finite numbers, most near 1, for the element type of a product. */
static uint64_t factors(const struct conform_form *form, uint64_t r) {
    bool last_is_b = conform_has(form, "bf16");
    if (conform_has(form, "s8") || conform_has(form, "u8")) return r;
    if (last_is_b) return (r & 0x80FF80FF80FF80FF) | 0x3F003F003F003F00;
    if (conform_has(form, "tf32")) return (r & 0x80FFFFFF80FFFFFF) | 0x3F0000003F000000;
    if (conform_has(form, "e4m3") || conform_has(form, "e5m2")) return (r & 0x8F8F8F8F8F8F8F8F) | 0x3030303030303030;
    return (r & 0x87FF87FF87FF87FF) | 0x3800380038003800;
}

static uint64_t addends(const struct conform_form *form, uint64_t r) {
    if (form->last->kind == 's') return r;
    if (form->last->bits == 16) return (r & 0x83FF83FF83FF83FF) | 0x3C003C003C003C00;
    return (r & 0x80FFFFFF80FFFFFF) | 0x3F0000003F000000;
}

/* Elements of the matrix that lies at input i of a warp's or a warpgroup's. */
static uint64_t matrix_elements(const struct conform_matrix *m, size_t i, uint64_t r, uint64_t other) {
    uint64_t elements = 0;
    const char *type = m->group ? (i % CONFORM_THREADS < 32 ? m->a : m->b) : i % CONFORM_WARP < 16 ? m->a : m->c;
    unsigned bits = conform_matrix_bits(type);
    if (type[0] == 's' || type[0] == 'u') return r;
    for (unsigned at = 0; at < 64; at += bits)
        elements |= conform_small_whole(type, (r >> at % 32) ^ (other >> at / 2)) << at;
    return elements;
}

static uint64_t value(const struct conform_form *form, char letter, size_t i, unsigned o, uint64_t r, uint64_t other) {
    static const uint64_t lower[5] = {0, 1, 0x7FFF, 0x8000, 0xFFFF};
    switch (letter) {
    case 's':
        return amount(i, r);
    case 'p':
        return i % 8 == 7 ? r & 0xFF : r % 71;
    case 'z':
        return divisor(integer_of(i, o, r, other));
    case 'f':
        return float_of(i, o, r);
    case 'd':
        return double_of(i, o, r, other);
    case 'h':
        return pair_of(half_edges, i, o, r, 10);
    case 'b':
        return pair_of(brain_edges, i, o, r, 7);
    case 'F':
        return sweep(i, r);
    case 'H': /* another order for each operand */
        return (o == 0 ? i : i * 40503 + i / CONFORM_HALVES + o) % 65536 | (i * 24989 + 17) % 65536 << 16;
    case 'B':
        return (r & ~UINT64_C(0xFF)) | (i & 0xFF);
    case 'U': /* the order of b visits all of them, too */
        i = o == 0 ? i : (i * 77777 + 12345) % CONFORM_UPPERS;
        return (uint64_t)(i / 5) << 16 | lower[i % 5];
    case 'u':
        i = o == 0 ? i : (i * 40503 + 7) % CONFORM_HALVES;
        return (uint64_t)i << 16 | lower[i * 3 % 5];
    case 'm':
        return factors(form, r);
    case 'n': /* addends of a product */
        return addends(form, r);
    case '.':
        return r;
    default:
        return integer_of(i, o, r, other);
    }
}

void conform_inputs_fill(const struct conform_form *form, struct conform_in *in, size_t count) {
    uint64_t seed = conform_hash(CONFORM_HASH_START, form->name, strlen(form->name));
    char first = letter_of(form, 0); /* what lies behind a b c x */
    struct conform_matrix matrix = {0};
    bool group = strcmp(form->words[0], "wgmma") == 0;
    conform_matrix_of(form, &matrix);
    char behind = first == 'w' || (first == 'm' && group) ? first : first == 'm' ? 'n' : '.';
    char letters[8];
    for (unsigned o = 0; o < 8; o++)
        letters[o] = o < 4 ? letter_of(form, o) : behind;
    for (size_t i = 0; i < count; i++) {
        uint64_t v[8];
        for (unsigned o = 0; o < 8; o++) {
            uint64_t r = conform_random(&seed), other = conform_random(&seed);
            v[o] = letters[o] == 'w' ? matrix_elements(&matrix, i, r, other) : value(form, letters[o], i, o, r, other);
        }
        in[i] = (struct conform_in){v[0], v[1], v[2], v[3], {v[4], v[5], v[6], v[7]}};
    }
}
