/* conform_reference_float.c - what floating-point arithmetic leaves: exact values in a wide format, rounded once.
 * Shares nothing with a device. */
#include "conform_rows.h"

#include <math.h>
#include <string.h>

static bool leaves(struct conform_out *out, uint64_t d) {
    *out = (struct conform_out){{d, 0, 0, 0}};
    return true;
}

static bool is(const struct conform_form *form, const char *opcode) {
    return strcmp(form->words[0], opcode) == 0;
}

struct number {
    uint64_t bits;
    conform_wide v;
    bool negative, nan, infinite;
};

static conform_wide normal(const struct conform_format *format) { /* the smallest */
    return conform_value(format, UINT64_C(1) << format->fraction);
}

static conform_wide magnitude(conform_wide v) {
    return v < 0 ? -v : v;
}

static struct number number_of(const struct conform_form *form, const struct conform_format *format, uint64_t bits) {
    bits = conform_low(bits, format->bits);
    struct number n = {bits, conform_value(format, bits), bits >> (format->bits - 1), conform_is_nan(format, bits),
                       false};
    if (conform_has(form, "ftz") && !n.nan && magnitude(n.v) < normal(format)) {
        n.v = 0;
        n.bits = (uint64_t)n.negative << (format->bits - 1);
    }
    n.infinite = !n.nan && n.v - n.v != 0;
    return n;
}

/* ---- exact results ---- */
struct exact {
    conform_wide v;
    bool negative; /* of a zero */
    bool nan;
};

static struct exact sum_of(struct number a, struct number b, bool down) {
    if (a.nan || b.nan || (a.infinite && b.infinite && a.negative != b.negative)) return (struct exact){.nan = true};
    if (a.infinite || b.infinite) return (struct exact){a.infinite ? a.v : b.v, false, false};
    bool zeroes = a.v == 0 && b.v == 0;
    return (struct exact){conform_sum(a.v, b.v), zeroes && a.negative == b.negative ? a.negative : down, false};
}

static struct exact product_of(struct number a, struct number b) {
    bool invalid = a.nan || b.nan || (a.infinite && b.v == 0) || (b.infinite && a.v == 0);
    return (struct exact){invalid ? 0 : a.v * b.v, a.negative != b.negative, invalid};
}

static struct number as_number(struct exact e) {
    return (struct number){0, e.v, e.v == 0 ? e.negative : e.v < 0, e.nan, !e.nan && e.v - e.v != 0};
}

static struct exact quotient_of(struct number a, struct number b) {
    bool negative = a.negative != b.negative;
    if (a.nan || b.nan || (a.infinite && b.infinite) || (a.v == 0 && b.v == 0)) return (struct exact){.nan = true};
    if (a.infinite || (b.v == 0 && !b.infinite))
        return (struct exact){negative ? -(conform_wide)INFINITY : (conform_wide)INFINITY, negative, false};
    return (struct exact){b.infinite ? 0 : a.v / b.v, negative, false};
}

/* 113 bits are enough: a root is no nearer to a number with one bit more than the format, unless it is that number. */
static struct exact root_of(struct number a) {
    if (a.nan || (a.v < 0)) return (struct exact){.nan = true};
    if (a.v == 0 || a.infinite) return (struct exact){a.v, a.negative, false};
    conform_wide root = (conform_wide)sqrtl((long double)a.v);
    return (struct exact){(root + a.v / root) / 2, false, false};
}

static struct exact result_of(const struct conform_form *form, struct number a, struct number b, struct number c,
                              enum conform_rounding how) {
    struct number one = {0, 1, false, false, false}, negated = b;
    if (is(form, "add")) return sum_of(a, b, how == DOWN);
    if (is(form, "sub")) {
        negated.v = -b.v;
        negated.negative = !b.negative;
        return sum_of(a, negated, how == DOWN);
    }
    if (is(form, "mul")) return product_of(a, b);
    if (is(form, "div")) return quotient_of(a, b);
    if (is(form, "rcp")) return quotient_of(one, a);
    if (is(form, "sqrt")) return root_of(a);
    return sum_of(as_number(product_of(a, b)), c, how == DOWN); /* fma, mad */
}

/* Rounded, then .ftz, .sat, .relu. False where the manual does not say whether a tiny result is flushed. */
static bool finished(const struct conform_form *form, const struct conform_format *format, struct exact e,
                     enum conform_rounding how, uint64_t *pattern) {
    bool sat = conform_has(form, "sat");
    uint64_t sign = UINT64_C(1) << (format->bits - 1);
    if (e.nan) {
        *pattern = sat ? 0 : format->nan;
        return true;
    }
    *pattern = conform_rounded(format, e.v, e.negative, how, false);
    if (conform_has(form, "ftz") && e.v != 0 && magnitude(e.v) < normal(format)) {
        bool rounded_up = (*pattern & (sign - 1)) == UINT64_C(1) << format->fraction;
        bool known = format == &conform_f32 && (is(form, "mul") || is(form, "fma") || is(form, "mad"));
        if (rounded_up && !known) return false;
        *pattern &= sign;
    }
    bool negative = *pattern & sign;
    if (sat && (negative || *pattern == 0)) *pattern = 0;
    if (sat && !negative && conform_value(format, *pattern) > 1)
        *pattern = conform_rounded(format, 1, false, NEAREST, false);
    if (conform_has(form, "relu") && negative) *pattern = 0;
    return true;
}

bool ref_float(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const struct conform_format *format = conform_format_of(form->last);
    enum conform_rounding how = conform_rounding_of(form);
    uint64_t pattern = 0;
    bool known = finished(form, format,
                          result_of(form, number_of(form, format, in->a), number_of(form, format, in->b),
                                    number_of(form, format, in->c), how),
                          how, &pattern);
    return leaves(out, pattern) && known;
}

/* ---- min, max, signs ---- */
static bool below(struct number a, struct number b) { /* -0 lies below +0 */
    return a.v < b.v || (a.v == 0 && b.v == 0 && a.negative && !b.negative);
}

static uint64_t extreme(const struct conform_form *form, const struct conform_format *format, struct number a,
                        struct number b) {
    uint64_t sign = UINT64_C(1) << (format->bits - 1), signs = 0;
    bool xorsign = conform_has(form, "xorsign");
    if ((a.nan && b.nan) || (conform_has(form, "NaN") && (a.nan || b.nan))) return format->nan;
    if (xorsign) {
        signs = (a.bits ^ b.bits) & sign;
        a.v = magnitude(a.v), b.v = magnitude(b.v);
        a.bits &= sign - 1, b.bits &= sign - 1;
        a.negative = b.negative = false;
    }
    bool first = a.nan ? false : b.nan ? true : below(a, b) == is(form, "min");
    return (first ? a.bits : b.bits) | signs;
}

bool ref_float_extreme(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const struct conform_format *format = conform_format_of(form->last);
    return leaves(out, extreme(form, format, number_of(form, format, in->a), number_of(form, format, in->b)));
}

bool ref_float_sign(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const struct conform_format *format = conform_format_of(form->last);
    uint64_t sign = UINT64_C(1) << (format->bits - 1);
    struct number a = number_of(form, format, in->a);
    if (is(form, "copysign")) return leaves(out, (in->a & sign) | (conform_low(in->b, format->bits) & (sign - 1)));
    return leaves(out, is(form, "abs") ? a.bits & (sign - 1) : a.bits ^ sign);
}

bool ref_testp(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const struct conform_format *format = conform_format_of(form->last);
    struct number a = number_of(form, format, in->a);
    bool small = !a.nan && magnitude(a.v) < normal(format);
    bool subnormal = small && a.v != 0; /* zeroes count as normal */
    bool answers[] = {!a.nan && !a.infinite, a.infinite, !a.nan, a.nan, !a.nan && !a.infinite && !subnormal, subnormal};
    return leaves(out, answers[conform_which(form, "finite infinite number notanumber normal subnormal")]);
}

/* ---- halves, one or two ---- */
static bool half(const struct conform_form *form, const struct conform_format *format, const uint64_t bits[3],
                 uint64_t *pattern) {
    struct number a = number_of(form, format, bits[0]), b = number_of(form, format, bits[1]),
                  c = number_of(form, format, bits[2]);
    if (is(form, "min") || is(form, "max")) {
        *pattern = extreme(form, format, a, b);
        return true;
    }
    if (is(form, "neg") || is(form, "abs")) {
        *pattern = is(form, "neg") ? a.bits ^ 0x8000 : a.bits & 0x7FFF;
        return true;
    }
    return finished(form, format, result_of(form, a, b, c, NEAREST), NEAREST, pattern);
}

bool ref_half(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const struct conform_format *format = conform_format_of(form->last);
    uint64_t d = 0;
    bool known = true;
    for (unsigned at = 0; at < form->last->bits; at += 16) {
        uint64_t bits[3] = {in->a >> at, in->b >> at, in->c >> at}, pattern = 0;
        known = half(form, format, bits, &pattern) && known;
        d |= pattern << at;
    }
    return leaves(out, d) && known;
}
