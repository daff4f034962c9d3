/* conform_format.c - floating-point formats by definition: a pattern's value, and a value rounded to a pattern. */
#include "conform_rows.h"

#include <math.h>
#include <string.h>

const struct conform_format conform_f16 = {10, -24, 16, 0x7BFF, 0x7C00, 0x7FFF},
                            conform_bf16 = {7, -133, 16, 0x7F7F, 0x7F80, 0x7FFF},
                            conform_f32 = {23, -149, 32, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF},
                            conform_f64 = {52, -1074, 64, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FFFFFFFFFFFFFFF},
                            conform_tf32 = {10, -136, 19, 0x3FBFF, 0x3FC00, 0x3FFFF},
                            conform_e4m3 = {3, -9, 8, 0x7E, 0x7F, 0x7F}, conform_e5m2 = {2, -16, 8, 0x7B, 0x7C, 0x7F};

const struct conform_format *conform_format_of(const struct conform_type *type) {
    static const struct {
        const char *prefix;
        const struct conform_format *format;
    } rows[] = {{"f16", &conform_f16},   {"bf16", &conform_bf16}, {"f32", &conform_f32},  {"f64", &conform_f64},
                {"tf32", &conform_tf32}, {"e4m3", &conform_e4m3}, {"e5m2", &conform_e5m2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strncmp(type->name, rows[i].prefix, strlen(rows[i].prefix)) == 0) return rows[i].format;
    return NULL;
}

/* v * 2^by of a finite v that is not zero, both normal in the wide format: binary128, its exponent from bit 112 on. */
static conform_wide scaled(conform_wide v, int by) {
    unsigned __int128 bits;
    memcpy(&bits, &v, sizeof bits);
    bits += (unsigned __int128)(__int128)by << 112;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* units * 2^by */
static conform_wide wide_of(uint64_t units, int by) {
    if (units == 0) return 0;
    int top = 63 - __builtin_clzll(units);
    unsigned __int128 bits = (unsigned __int128)units << (112 - top) & (((unsigned __int128)1 << 112) - 1);
    bits |= (unsigned __int128)(unsigned)(16383 + top + by) << 112;
    conform_wide v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

bool conform_is_nan(const struct conform_format *format, uint64_t pattern) {
    uint64_t magnitude = conform_low(pattern, format->bits - 1);
    return format->infinity == format->nan ? magnitude == format->nan : magnitude > format->infinity;
}

conform_wide conform_value(const struct conform_format *format, uint64_t pattern) {
    uint64_t magnitude = conform_low(pattern, format->bits - 1), exponent = magnitude >> format->fraction,
             fraction = conform_low(magnitude, (unsigned)format->fraction);
    conform_wide v;
    if (conform_is_nan(format, pattern))
        v = (conform_wide)NAN;
    else if (magnitude > format->largest)
        v = (conform_wide)INFINITY;
    else if (exponent == 0)
        v = wide_of(fraction, format->least);
    else
        v = wide_of(fraction | UINT64_C(1) << format->fraction, format->least + (int)exponent - 1);
    return pattern >> (format->bits - 1) & 1 ? -v : v;
}

/* The exponent e of 2^e <= v < 2^(e+1), v a normal number of the wide format. */
static int exponent_of(conform_wide v) {
    unsigned __int128 bits;
    memcpy(&bits, &v, sizeof bits);
    return (int)(bits >> 112 & 0x7FFF) - 16383;
}

static bool goes_up(conform_wide rest, bool odd, bool negative, enum conform_rounding how) {
    switch (how) {
    case NEAREST:
        return rest > 0.5 || (rest == 0.5 && odd);
    case AWAY:
        return rest >= 0.5;
    case DOWN:
        return negative && rest > 0;
    case UP:
        return !negative && rest > 0;
    default:
        return false;
    }
}

uint64_t conform_rounded(const struct conform_format *format, conform_wide v, bool negative, enum conform_rounding how,
                         bool finite) {
    uint64_t sign = UINT64_C(1) << (format->bits - 1);
    if (v != v) return format->nan;
    if (v != 0) negative = v < 0;
    if (negative) v = -v;
    uint64_t signs = negative ? sign : 0;
    if (v == 0) return signs;
    bool past = how == TO_ZERO || how == (negative ? UP : DOWN); /* the largest stands for what is beyond it */
    uint64_t beyond = finite || past ? format->largest : format->infinity;
    if (v > (conform_wide)0x1p1000 * 0x1p30) return signs | (v - v != 0 && !finite ? format->infinity : beyond);
    int e = exponent_of(v), unit = e - format->fraction > format->least ? e - format->fraction : format->least;
    conform_wide units = scaled(v, -unit);
    uint64_t whole = (uint64_t)units; /* truncates */
    whole += goes_up(units - (conform_wide)whole, whole & 1, negative, how);
    /* whole units to a pattern: carries into the exponent come out by themselves */
    uint64_t pattern = whole + ((uint64_t)(unit - format->least) << format->fraction);
    return signs | (pattern > format->largest ? beyond : pattern);
}

/* Rounded to odd: where bits are lost, the last one kept is set. */
conform_wide conform_sum(conform_wide a, conform_wide b) {
    conform_wide s = a + b;
    unsigned __int128 bits;
    if (s - s != 0 || s == 0) return s;
    conform_wide big = (a < 0 ? -a : a) > (b < 0 ? -b : b) ? a : b, small = big == a ? b : a, rest = small - (s - big);
    memcpy(&bits, &s, sizeof bits);
    if (rest == 0 || bits & 1) return s;
    bits += (rest > 0) == (s > 0) ? (unsigned __int128)1 : ~(unsigned __int128)0;
    memcpy(&s, &bits, sizeof s);
    return s;
}

enum conform_rounding conform_rounding_of(const struct conform_form *form) {
    static const unsigned char how[] = {NEAREST, TO_ZERO, DOWN, UP, AWAY, NEAREST, TO_ZERO, DOWN, UP};
    int at = conform_which(form, "rn rz rm rp rna rni rzi rmi rpi");
    return at < 0 ? NEAREST : (enum conform_rounding)how[at];
}
