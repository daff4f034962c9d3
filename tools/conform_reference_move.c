/* conform_reference_move.c - what comparisons, selections and moves leave. Shares nothing with a device. */
#include "conform_rows.h"

#include <string.h>

static bool leaves(struct conform_out *out, uint64_t d, uint64_t e, uint64_t f, uint64_t g) {
    *out = (struct conform_out){{d, e, f, g}};
    return true;
}

/* ---- comparisons ---- */
struct number {
    conform_wide v;
    bool nan;
};

static struct number number_of(const struct conform_form *form, const struct conform_type *type, uint64_t bits) {
    if (type->kind == 's') return (struct number){(conform_wide)conform_signed(bits, type->bits), false};
    if (type->kind != 'f' && type->kind != 'x')
        return (struct number){(conform_wide)conform_low(bits, type->bits), false};
    const struct conform_format *format = conform_format_of(type);
    bits = conform_low(bits, format->bits);
    struct number n = {0, conform_is_nan(format, bits)};
    if (!n.nan) n.v = conform_value(format, bits);
    uint64_t magnitude = conform_low(bits, format->bits - 1);
    if (conform_has(form, "ftz") && format->bits < 64 && magnitude >> format->fraction == 0) n.v = 0;
    return n;
}

/* Whether a compares with b as the form asks. */
static bool compares(const struct conform_form *form, struct number a, struct number b) {
    static const char names[] = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan";
    static const unsigned char below[] = {0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0},
                               same[] = {1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 0, 1},
                               above[] = {0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1};
    int how = conform_which(form, names);
    bool nan = a.nan || b.nan;
    if (how >= 16) return nan == (how == 17);
    if (nan) return how >= 10;
    return (a.v < b.v ? below : a.v > b.v ? above : same)[how];
}

static bool combined(const struct conform_form *form, bool result, const struct conform_in *in) {
    bool with = (int32_t)in->c > (int32_t)in->x;
    int how = conform_which(form, "and or xor");
    return how == 0 ? result && with : how == 1 ? result || with : how == 2 ? result != with : result;
}

bool ref_setp(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    bool p = compares(form, number_of(form, form->last, in->a), number_of(form, form->last, in->b)), q = !p;
    if (form->last->kind == 'x') /* one predicate a half */
        q = compares(form, number_of(form, form->last, in->a >> 16), number_of(form, form->last, in->b >> 16));
    return leaves(out, combined(form, p, in), combined(form, q, in), 0, 0);
}

bool ref_set(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    bool p = combined(form, compares(form, number_of(form, form->last, in->a), number_of(form, form->last, in->b)), in);
    const struct conform_type *to = form->first;
    uint64_t yes = to->kind != 'f'      ? conform_low(~UINT64_C(0), to->bits)
                   : to->bits == 32     ? 0x3F800000
                   : to->name[0] == 'b' ? 0x3F80
                                        : 0x3C00;
    return leaves(out, p ? yes : 0, 0, 0, 0);
}

/* A half that compares is all ones, or 1.0. */
bool ref_set_pair(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint64_t yes = form->first->kind != 'x' ? 0xFFFF : form->first->name[0] == 'b' ? 0x3F80 : 0x3C00, d = 0;
    for (unsigned at = 0; at < 32; at += 16)
        if (compares(form, number_of(form, form->last, in->a >> at), number_of(form, form->last, in->b >> at)))
            d |= yes << at;
    return leaves(out, d, 0, 0, 0);
}

bool ref_selp(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    return leaves(out, conform_low((int32_t)in->c < (int32_t)in->x ? in->a : in->b, form->last->bits), 0, 0, 0);
}

/* -0.0 counts as not negative, and so does what .ftz makes of a negative subnormal; NaN takes b. */
bool ref_slct(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    struct number c = number_of(form, form->last, conform_low(in->c, 32));
    return leaves(out, conform_low(!c.nan && c.v >= 0 ? in->a : in->b, form->first->bits), 0, 0, 0);
}

/* ---- moves ---- */
bool ref_mov(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    return leaves(out, conform_low(in->a, form->last->bits), 0, 0, 0);
}

bool ref_mov_constant(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)in;
    if (form->last->kind != 'f' && form->last->bits == 32) return leaves(out, 0xDEADBEEF, 0xFFFFFFFE, 63, 5);
    if (form->last->kind != 'f') return leaves(out, 0xDEADBEEFCAFEF00D, 0xFFFFFFFFFFFFFFFE, 4294967296, 0x7FFFFFFF);
    if (form->last->bits == 32) return leaves(out, 0x3F8CCCCD, 0x40000000, 0x3FC00000, 0x80000000);
    return leaves(out, 0x3FF199999999999A, 0x4000000000000000, 0x3FF8000000000000, 0x8000000000000000);
}

bool ref_mov_pack(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint64_t a = conform_low(in->a, 16), b = conform_low(in->b, 16), c = conform_low(in->c, 16),
             x = conform_low(in->x, 16);
    if (form->last->bits == 32) return leaves(out, a | b << 16, conform_low(in->a, 32) >> 16 | a << 16, 0, 0);
    uint64_t turned = 0;
    for (unsigned i = 0; i < 64; i += 16)
        turned |= (in->b >> i & 0xFFFF) << (48 - i);
    return leaves(out, conform_low(in->a, 32) | in->b << 32, in->a >> 32 | in->a << 32, a | b << 16 | c << 32 | x << 48,
                  turned);
}

bool ref_mov_pred(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    bool r = (int32_t)in->a < (int32_t)in->b;
    (void)form;
    return leaves(out, r, 1, 0, r);
}

bool ref_logic_pred(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    bool r = (int32_t)in->a < (int32_t)in->b, s = (int32_t)in->c < (int32_t)in->x;
    switch (form->words[0][0]) {
    case 'a':
        return leaves(out, r && s, r, 0, 0);
    case 'o':
        return leaves(out, r || s, r, 0, 0);
    case 'x':
        return leaves(out, r != s, 0, 0, 0);
    default:
        return leaves(out, !r, r, 0, 0);
    }
}
