/* conform_reference_cvt.c - what conversions leave. Shares nothing with a device. */
#include "conform_rows.h"

#include <math.h>
#include <string.h>

typedef __int128 wide;

static bool leaves(struct conform_out *out, uint64_t d) {
    *out = (struct conform_out){{d, 0, 0, 0}};
    return true;
}

/* Bits of an integer type: those in memory, for 8-bit ones lie in larger registers. */
static wide whole_of(uint64_t v, const struct conform_type *type) {
    return type->kind == 's' ? (wide)conform_signed(v, type->memory) : (wide)conform_low(v, type->memory);
}

static wide clamped(wide v, const struct conform_type *type) {
    bool is_signed = type->kind == 's';
    wide most = ((wide)1 << (type->memory - is_signed)) - 1, least = is_signed ? -most - 1 : 0;
    return v > most ? most : v < least ? least : v;
}

/* As the destination register holds it: small integers are extended to it by their sign. */
static uint64_t in_register(wide v, const struct conform_type *type) {
    return conform_low((uint64_t)whole_of((uint64_t)v, type), type->bits);
}

bool ref_cvt_whole(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    wide v = whole_of(in->a, form->last);
    if (conform_has(form, "sat")) v = clamped(v, form->first);
    return leaves(out, in_register(v, form->first));
}

static bool flushes(const struct conform_form *form, const struct conform_format *format, uint64_t bits) {
    return conform_has(form, "ftz") && format == &conform_f32 && (conform_low(bits, 31) >> 23) == 0;
}

/* The integral value next to v in the direction of the rounding. */
static conform_wide integral(conform_wide v, enum conform_rounding how) {
    conform_wide size = v < 0 ? -v : v;
    if (size >= 0x1p100) return v;
    wide whole = (wide)size;
    conform_wide rest = size - (conform_wide)whole;
    bool up = how == NEAREST ? rest > 0.5 || (rest == 0.5 && (whole & 1))
              : how == UP    ? v > 0 && rest > 0
                             : how == DOWN && v < 0 && rest > 0;
    conform_wide r = (conform_wide)(whole + up);
    return v < 0 ? -r : r;
}

/* NaN becomes 0, or the smallest signed number's pattern from f64 or to 64 bits. */
bool ref_cvt_to_whole(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const struct conform_format *from = conform_format_of(form->last);
    uint64_t bits = conform_low(in->a, from->bits);
    if (conform_is_nan(from, bits)) {
        if (form->first->memory < 32) return leaves(out, 0) && false; /* open for the small ones */
        return leaves(out,
                      form->first->memory == 64 || from == &conform_f64 ? UINT64_C(1) << (form->first->memory - 1) : 0);
    }
    conform_wide v = flushes(form, from, bits) ? 0 : integral(conform_value(from, bits), conform_rounding_of(form));
    wide whole = v > 0x1p100 ? (wide)1 << 100 : v < -0x1p100 ? -((wide)1 << 100) : (wide)v;
    return leaves(out, in_register(clamped(whole, form->first), form->first));
}

bool ref_cvt_from_whole(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    wide v = whole_of(in->a, form->last);
    return leaves(
        out, conform_rounded(conform_format_of(form->first), (conform_wide)v, false, conform_rounding_of(form), false));
}

/* .sat, .relu of a pattern that is no NaN. */
static uint64_t limited(const struct conform_form *form, const struct conform_format *to, uint64_t pattern) {
    bool negative = pattern >> (to->bits - 1) & 1;
    if (conform_has(form, "sat")) {
        if (negative) return 0;
        if (conform_value(to, pattern) > 1) return conform_rounded(to, 1, false, NEAREST, false);
    }
    return conform_has(form, "relu") && negative ? 0 : pattern;
}

static uint64_t converted(const struct conform_form *form, const struct conform_format *from,
                          const struct conform_format *to, uint64_t bits, enum conform_rounding how) {
    bits = conform_low(bits, from->bits);
    bool finite = conform_has(form, "satfinite"), negative = bits >> (from->bits - 1);
    if (conform_is_nan(from, bits)) return conform_has(form, "sat") ? 0 : to->nan;
    conform_wide v = flushes(form, from, bits) ? 0 : conform_value(from, bits);
    if (v == 0) return limited(form, to, (uint64_t)negative << (to->bits - 1));
    uint64_t pattern = conform_rounded(to, v, negative, how, finite);
    if (flushes(form, to, pattern)) pattern = (uint64_t)negative << 31;
    return limited(form, to, pattern);
}

bool ref_cvt_float(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const struct conform_format *from = conform_format_of(form->last), *to = conform_format_of(form->first);
    uint64_t bits = conform_low(in->a, from->bits);
    if (from == &conform_bf16) return leaves(out, bits << 16); /* the same number, NaN and all */
    if (from == to && !conform_is_nan(from, bits)) {           /* to an integral value */
        conform_wide v = flushes(form, from, bits) ? 0 : conform_value(from, bits);
        if (conform_which(form, "rni rzi rmi rpi") >= 0) v = integral(v, conform_rounding_of(form));
        return leaves(out, limited(form, to, conform_rounded(to, v, bits >> (from->bits - 1), NEAREST, false)));
    }
    conform_wide v = conform_value(from, bits);
    uint64_t pattern = converted(form, from, to, bits, conform_rounding_of(form));
    /* whether a result that rounding brings to the smallest normal number is flushed is open */
    bool open = conform_has(form, "ftz") && to == &conform_f32 && conform_low(pattern, 31) == 0x00800000 &&
                (v < 0 ? -v : v) < (conform_wide)0x1p-126;
    return leaves(out, pattern) && !open;
}

/* The upper 19 bits count; what is below is open, so the body clears it. */
bool ref_cvt_tf32(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    if (conform_is_nan(&conform_f32, conform_low(in->a, 32))) return leaves(out, 0) && false;
    return leaves(out, converted(form, &conform_f32, &conform_tf32, in->a, conform_rounding_of(form)) << 13);
}

/* a is the upper half, b the lower one. */
bool ref_cvt_pair(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const struct conform_format *to = conform_format_of(form->first);
    enum conform_rounding how = conform_rounding_of(form);
    return leaves(out, converted(form, &conform_f32, to, in->a, how) << to->bits |
                           converted(form, &conform_f32, to, in->b, how));
}

bool ref_cvt_unpair(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const struct conform_format *from = conform_format_of(form->last), *to = conform_format_of(form->first);
    return leaves(out, converted(form, from, to, in->a >> from->bits, NEAREST) << to->bits |
                           converted(form, from, to, in->a, NEAREST));
}
