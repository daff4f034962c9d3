/* num_float.c - floating-point formats, bit by bit: packing with any rounding, widening, saturating.
 * Pure functions; everything that PTX defines to the bit goes through here unless a vector row does it. */
#include <math.h>
#include <string.h>
#include <runtime/cpu/exec.h>

struct layout {
    int fraction, bias;
    u64 infinity /* first pattern beyond the finite ones */, nan, largest, sign;
};

static const struct layout layouts[FMT_COUNT] = {
    [FMT_F16] = {10, 15, 0x7C00, 0x7FFF, 0x7BFF, 0x8000},
    [FMT_BF16] = {7, 127, 0x7F80, 0x7FFF, 0x7F7F, 0x8000},
    [FMT_F32] = {23, 127, 0x7F800000, 0x7FFFFFFF, 0x7F7FFFFF, 0x80000000},
    [FMT_F64] = {52, 1023, 0x7FF0000000000000, 0x7FFFFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF, 0x8000000000000000},
    [FMT_E4M3] = {3, 7, 0x7F, 0x7F, 0x7E, 0x80}, /* no infinities: one NaN pattern a sign */
    [FMT_E5M2] = {2, 15, 0x7C, 0x7F, 0x7B, 0x80},
    [FMT_TF32] = {10, 127, 0x7F800000 >> 13, 0x7FFFFFFF >> 13, (0x7F7FFFFF >> 13),
                  0x80000000 >> 13}, /* without its 13 low zeroes */
};

enum rounding rounding_of(u32 flags) {
    return flags & F_RZ    ? ROUND_ZERO
           : flags & F_RM  ? ROUND_DOWN
           : flags & F_RP  ? ROUND_UP
           : flags & F_RNA ? ROUND_AWAY
                           : ROUND_NEAREST;
}

static bool rounds_up(bool odd, bool negative, int half /* -1 below, 0 at, 1 above */, bool inexact,
                      enum rounding rounding) {
    switch (rounding) {
    case ROUND_NEAREST:
        return half > 0 || (half == 0 && odd);
    case ROUND_AWAY:
        return half >= 0;
    case ROUND_DOWN:
        return inexact && negative;
    case ROUND_UP:
        return inexact && !negative;
    default:
        return false;
    }
}

u64 float_pack(enum float_format format, bool negative, u64 significand, int exponent, bool sticky,
               enum rounding rounding) {
    const struct layout *f = &layouts[format];
    u64 sign = negative ? f->sign : 0;
    if (!significand && !sticky) return format == FMT_TF32 ? sign << 13 : sign;
    int top = significand ? 63 - __builtin_clzll(significand) : -1;
    int least = 1 - f->bias - f->fraction; /* exponent of the last place of subnormals */
    int place = exponent + top - f->fraction;
    if (place < least || !significand) place = least;
    int shift = place - exponent;
    u64 kept;
    int half = -1;
    bool inexact = sticky;
    if (shift <= 0) {
        kept = significand << -shift;
    } else {
        kept = shift < 64 ? significand >> shift : 0;
        u64 rest = shift < 64 ? significand & ((1ull << shift) - 1) : significand;
        inexact |= rest != 0;
        if (shift <= 64) {
            u64 middle = 1ull << (shift - 1);
            half = rest > middle || (rest == middle && sticky) ? 1 : rest == middle ? 0 : -1;
        }
    }
    kept += rounds_up(kept & 1, negative, half, inexact, rounding);
    u64 one = 1ull << f->fraction; /* the hidden bit carries into the exponent field */
    u64 bits = kept < one ? kept : ((u64)(place - least) << f->fraction) + kept;
    if (bits >= f->infinity || place - least > 2 * f->bias + 2) {
        bool away = rounding == ROUND_NEAREST || rounding == ROUND_AWAY || (rounding == ROUND_UP && !negative) ||
                    (rounding == ROUND_DOWN && negative);
        bits = away ? f->infinity : f->largest;
    }
    if (format == FMT_TF32) return (sign | bits) << 13;
    return sign | bits;
}

u64 float_from_double(enum float_format format, double value, enum rounding rounding) {
    u64 bits;
    memcpy(&bits, &value, 8);
    const struct layout *f = &layouts[format];
    bool negative = bits >> 63;
    int exponent = (int)(bits >> 52 & 0x7FF);
    u64 fraction = bits & 0xFFFFFFFFFFFFF;
    if (exponent == 0x7FF) {
        u64 special = fraction ? f->nan : f->infinity | (negative ? f->sign : 0);
        return format == FMT_TF32 ? special << 13 | (fraction ? 0x1FFF : 0) : special;
    }
    if (exponent == 0) return float_pack(format, negative, fraction, -1074, false, rounding);
    return float_pack(format, negative, fraction | 1ull << 52, exponent - 1075, false, rounding);
}

double float_to_double(enum float_format format, u64 bits) {
    if (format == FMT_F64) {
        double d;
        memcpy(&d, &bits, 8);
        return d;
    }
    if (format == FMT_F32) {
        float v;
        u32 narrow = (u32)bits;
        memcpy(&v, &narrow, 4);
        return v;
    }
    const struct layout *f = &layouts[format];
    bits >>= format == FMT_TF32 ? 13 : 0;
    u64 magnitude = bits & (f->sign - 1), fraction = magnitude & ((1ull << f->fraction) - 1),
        exponent = magnitude >> f->fraction;
    double value;
    if (magnitude > f->infinity || (magnitude == f->infinity && f->infinity == f->nan))
        value = NAN;
    else if (magnitude == f->infinity)
        value = INFINITY;
    else if (exponent == 0)
        value = ldexp((double)fraction, 1 - f->bias - f->fraction);
    else
        value = ldexp((double)(fraction | 1ull << f->fraction), (int)exponent - f->bias - f->fraction);
    return bits & f->sign ? -value : value;
}

u64 float_satfinite(enum float_format format, double value, enum rounding rounding) {
    const struct layout *f = &layouts[format];
    if (value != value) return format == FMT_TF32 ? f->nan << 13 | 0x1FFF : f->nan;
    u64 bits = float_from_double(format, value, rounding);
    unsigned low = format == FMT_TF32 ? 13 : 0;
    u64 magnitude = bits >> low & (f->sign - 1);
    return magnitude >= f->infinity ? ((bits >> low & f->sign) | f->largest) << low : bits;
}

float f16_to_f32(u16 bits) {
    u32 magnitude = bits & 0x7FFFu, sign = (u32)(bits & 0x8000) << 16, out;
    if (magnitude >= 0x7C00)
        out = sign | (magnitude > 0x7C00 ? 0x7FFFFFFF : 0x7F800000);
    else if (magnitude >= 0x0400)
        out = sign | ((magnitude << 13) + (112u << 23));
    else {
        float v = (float)magnitude * 0x1p-24f;
        return sign ? -v : v;
    }
    float v;
    memcpy(&v, &out, 4);
    return v;
}

float bf16_to_f32(u16 bits) {
    u32 wide = (u32)bits << 16;
    float v;
    memcpy(&v, &wide, 4);
    return v;
}

u16 f16_from_f32(float value) {
    return (u16)float_from_double(FMT_F16, value, ROUND_NEAREST);
}

u16 bf16_from_f32(float value) {
    return (u16)float_from_double(FMT_BF16, value, ROUND_NEAREST);
}

/* Two-sum finds what the addition lost; an even last bit then becomes odd towards it. The product must be exact in
 * double. */
double fma_odd(double a, double b, double c) {
    double p = a * b, s = p + c;
    if (!isfinite(s)) return s;
    double bb = s - p, error = (p - (s - bb)) + (c - bb);
    u64 bits;
    memcpy(&bits, &s, 8);
    if (error == 0 || (bits & 1)) return s;
    bits += (error > 0) == (s > 0) ? 1 : ~0ull;
    memcpy(&s, &bits, 8);
    return s;
}
