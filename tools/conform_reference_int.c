/* conform_reference_int.c - what integer instructions, bit operations and carries leave, from the manual's pseudocode.
 * Shares nothing with a device. */
#include "conform_rows.h"

#include <string.h>

typedef __int128 wide;
typedef unsigned __int128 wide_unsigned;

static bool leaves(struct conform_out *out, uint64_t d) {
    *out = (struct conform_out){{d, 0, 0, 0}};
    return true;
}

static wide number(uint64_t v, const struct conform_type *type) {
    return type->kind == 's' ? (wide)conform_signed(v, type->bits) : (wide)conform_low(v, type->bits);
}

static wide clamped(wide v, unsigned bits, bool is_signed) {
    wide most = ((wide)1 << (bits - is_signed)) - 1, least = is_signed ? -most - 1 : 0;
    return v > most ? most : v < least ? least : v;
}

static bool is(const struct conform_form *form, const char *opcode) {
    return strcmp(form->words[0], opcode) == 0;
}

bool ref_add(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    wide a = number(in->a, form->last), b = number(in->b, form->last), v = is(form, "sub") ? a - b : a + b;
    if (conform_has(form, "sat")) v = clamped(v, form->last->bits, true);
    return leaves(out, conform_low((uint64_t)v, form->last->bits));
}

/* min, max, add of two halves of a word, and .relu of words. */
bool ref_pairs(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    bool is_signed = form->last->name[0] == 's', word = form->last->kind == 's';
    unsigned bits = word ? 32 : 16;
    uint64_t d = 0;
    for (unsigned at = 0; at < 32; at += bits) {
        int64_t a = is_signed ? conform_signed(in->a >> at, bits) : (int64_t)conform_low(in->a >> at, bits),
                b = is_signed ? conform_signed(in->b >> at, bits) : (int64_t)conform_low(in->b >> at, bits);
        int64_t v = is(form, "add") ? a + b : (a < b) == is(form, "min") ? a : b;
        if (conform_has(form, "relu") && v < 0) v = 0;
        d |= conform_low((uint64_t)v, bits) << at;
    }
    return leaves(out, d);
}

/* mul, mad: .lo .hi .wide */
bool ref_mul(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const struct conform_type *type = form->last;
    unsigned bits = type->bits, result = conform_has(form, "wide") ? 2 * bits : bits;
    wide_unsigned product = (wide_unsigned)number(in->a, type) * (wide_unsigned)number(in->b, type);
    wide v = type->kind == 's' ? (wide)product : 0;
    uint64_t part = conform_has(form, "hi")
                        ? (uint64_t)(type->kind == 's' ? (wide_unsigned)(v >> bits) : product >> bits)
                        : (uint64_t)product;
    if (is(form, "mad")) {
        if (conform_has(form, "sat"))
            part = (uint64_t)clamped((wide)conform_signed(part, 32) + conform_signed(in->c, 32), 32, true);
        else
            part += in->c;
    }
    return leaves(out, conform_low(part, result));
}

bool ref_mul24(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    bool is_signed = form->last->kind == 's';
    int64_t a = is_signed ? conform_signed(in->a, 24) : (int64_t)conform_low(in->a, 24),
            b = is_signed ? conform_signed(in->b, 24) : (int64_t)conform_low(in->b, 24);
    uint64_t product = (uint64_t)a * (uint64_t)b, part = conform_has(form, "hi") ? product >> 16 : product;
    if (is(form, "mad24")) {
        if (conform_has(form, "sat"))
            part = (uint64_t)clamped((wide)conform_signed(part, 32) + conform_signed(in->c, 32), 32, true);
        else
            part += in->c;
    }
    return leaves(out, conform_low(part, 32));
}

bool ref_div(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    wide a = number(in->a, form->last), b = number(in->b, form->last);
    if (b == 0) return false; /* the manual leaves it open */
    return leaves(out, conform_low((uint64_t)(is(form, "div") ? a / b : a % b), form->last->bits));
}

bool ref_extreme(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    wide a = number(in->a, form->last), b = number(in->b, form->last);
    return leaves(out, conform_low((uint64_t)((a < b) == is(form, "min") ? a : b), form->last->bits));
}

bool ref_sign(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    wide a = number(in->a, form->last);
    return leaves(out, conform_low((uint64_t)(is(form, "neg") || a < 0 ? -a : a), form->last->bits));
}

bool ref_sad(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    wide a = number(in->a, form->last), b = number(in->b, form->last);
    return leaves(out, conform_low((uint64_t)(a < b ? b - a : a - b) + in->c, form->last->bits));
}

bool ref_logic(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint64_t v = is(form, "and")   ? in->a & in->b
                 : is(form, "or")  ? in->a | in->b
                 : is(form, "xor") ? in->a ^ in->b
                 : is(form, "not") ? ~in->a
                                   : conform_low(in->a, form->last->bits) == 0;
    return leaves(out, conform_low(v, form->last->bits));
}

bool ref_shift(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned bits = form->last->bits;
    uint32_t by = (uint32_t)in->b;
    if (by > bits) by = bits;
    wide a = number(in->a, form->last);
    return leaves(out, conform_low((uint64_t)(is(form, "shl") ? (wide)((wide_unsigned)a << by) : a >> by), bits));
}

bool ref_funnel(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint32_t a = (uint32_t)in->a, b = (uint32_t)in->b, n = (uint32_t)in->c;
    n = conform_has(form, "wrap") ? n & 31 : n > 32 ? 32 : n;
    uint64_t both = (uint64_t)b << 32 | a;
    if (conform_has(form, "r")) return leaves(out, n == 0 ? a : (uint32_t)(both >> n));
    return leaves(out, n == 0 ? b : n == 32 ? a : b << n | a >> (32 - n));
}

/* Bit i of the table is the result for a = bit 2, b = bit 1, c = bit 0 of i. */
static uint32_t by_table(uint32_t a, uint32_t b, uint32_t c, unsigned table) {
    uint32_t d = 0;
    for (unsigned i = 0; i < 32; i++)
        d |= (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
    return d;
}

bool ref_lop3_96(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    return leaves(out, by_table((uint32_t)in->a, (uint32_t)in->b, (uint32_t)in->c, 0x96));
}

bool ref_lop3_more(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint32_t a = (uint32_t)in->a, b = (uint32_t)in->b, c = (uint32_t)in->c;
    (void)form;
    *out = (struct conform_out){{by_table(a, b, c, 0xEA), by_table(a, b, c, 0x1D), 0xFFFFFFFF, 0}};
    return true;
}

bool ref_bfe(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned bits = form->last->bits, position = in->b & 0xFF, length = in->c & 0xFF;
    uint64_t a = conform_low(in->a, bits), d = 0;
    bool fill = form->last->kind == 's' && length != 0 &&
                a >> (position + length - 1 < bits - 1 ? position + length - 1 : bits - 1) & 1;
    for (unsigned i = 0; i < bits; i++) {
        bool bit = i < length && position + i < bits ? a >> (position + i) & 1 : fill;
        d |= (uint64_t)bit << i;
    }
    return leaves(out, d);
}

bool ref_bfi(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned bits = form->last->bits, position = in->c & 0xFF, length = in->x & 0xFF;
    uint64_t d = conform_low(in->b, bits);
    for (unsigned i = 0; i < length && position + i < bits; i++) {
        uint64_t at = UINT64_C(1) << (position + i);
        d = (d & ~at) | (in->a >> i & 1 ? at : 0);
    }
    return leaves(out, d);
}

bool ref_brev(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint64_t d = 0;
    for (unsigned i = 0; i < form->last->bits; i++)
        d |= (in->a >> i & 1) << (form->last->bits - 1 - i);
    return leaves(out, d);
}

/* clz, popc, bfind */
bool ref_count(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned bits = form->last->bits, ones = 0, highest = 0xFFFFFFFF;
    uint64_t a = conform_low(in->a, bits);
    if (form->last->kind == 's' && a >> (bits - 1)) a = conform_low(~a, bits); /* the highest bit unlike the sign */
    for (unsigned i = 0; i < bits; i++) {
        if (!(a >> i & 1)) continue;
        ones++;
        highest = i;
    }
    if (is(form, "popc")) return leaves(out, ones);
    if (is(form, "clz")) return leaves(out, bits - 1 - highest);
    bool shift = conform_has(form, "shiftamt") && highest != 0xFFFFFFFF;
    return leaves(out, shift ? bits - 1 - highest : highest);
}

bool ref_prmt(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    static const char modes[] = "f4e b4e rc8 ecl ecr rc16";
    static const uint16_t picks[6][4] = {/* the manual's table, bytes from high to low */
                                         {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                         {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                         {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    uint64_t bytes = (uint64_t)(uint32_t)in->b << 32 | (uint32_t)in->a, d = 0;
    int mode = conform_which(form, modes);
    uint32_t pick = mode >= 0 ? picks[mode][in->c & 3] : (uint32_t)in->c;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t byte = bytes >> (pick >> 4 * i & 7) * 8 & 0xFF;
        if (mode < 0 && pick >> 4 * i & 8) byte = byte & 0x80 ? 0xFF : 0;
        d |= byte << 8 * i;
    }
    return leaves(out, d);
}

bool ref_szext(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint32_t n = (uint32_t)in->b;
    n = conform_has(form, "wrap") ? n & 31 : n > 32 ? 32 : n;
    uint64_t d = n == 0 ? 0 : form->last->kind == 's' ? (uint64_t)conform_signed(in->a, n) : conform_low(in->a, n);
    return leaves(out, conform_low(d, 32));
}

bool ref_bmsk(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    bool wrap = conform_has(form, "wrap");
    uint64_t from = conform_low(in->a, 32), length = conform_low(in->b, 32);
    from = wrap ? from & 31 : from > 32 ? 32 : from;
    length = wrap ? length & 31 : length > 32 ? 32 : length;
    return leaves(out, conform_low(((UINT64_C(1) << length) - 1) << from, 32));
}

/* dp4a: four bytes of each; dp2a: two halves of a, two bytes of b. */
bool ref_dot(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned count = is(form, "dp4a") ? 4 : 2, size = count == 4 ? 8 : 16, skip = conform_has(form, "hi") ? 16 : 0;
    bool a_signed = form->first->kind == 's', b_signed = form->last->kind == 's';
    uint64_t sum = in->c;
    for (unsigned i = 0; i < count; i++) {
        uint64_t a = in->a >> i * size, b = in->b >> (i * 8 + skip);
        int64_t u = a_signed ? conform_signed(a, size) : (int64_t)conform_low(a, size),
                v = b_signed ? conform_signed(b, 8) : (int64_t)conform_low(b, 8);
        sum += (uint64_t)(u * v);
    }
    return leaves(out, conform_low(sum, 32));
}

/* The position of the n-th set bit from `base` on (upwards for n > 0, downwards for n < 0); base itself for n = 0 where
 * it is set; else all ones. */
bool ref_fns(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint32_t mask = (uint32_t)in->a;
    int base = (int)(in->b & 31), n = (int32_t)in->c % 9, left = n < 0 ? -n : n, step = n < 0 ? -1 : 1;
    (void)form;
    if (n == 0) return leaves(out, mask >> base & 1 ? (uint64_t)base : 0xFFFFFFFF);
    for (int at = base; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && --left == 0) return leaves(out, (uint64_t)at);
    return leaves(out, 0xFFFFFFFF);
}

bool ref_vabsdiff4(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint64_t d = 0;
    (void)form;
    for (unsigned at = 0; at < 32; at += 8) {
        uint64_t a = in->a >> at & 0xFF, b = in->b >> at & 0xFF;
        d |= (a < b ? b - a : a - b) << at;
    }
    return leaves(out, d);
}

/* ---- carries ---- */
bool ref_carry_add(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned bits = form->last->bits;
    wide_unsigned low = (wide_unsigned)conform_low(in->a, bits) + conform_low(in->b, bits);
    wide_unsigned high = (wide_unsigned)conform_low(in->c, bits) + conform_low(in->x, bits) + (low >> bits);
    uint64_t carry = conform_has(form, "cc") && is(form, "addc") ? (uint64_t)(high >> bits) : 0;
    *out = (struct conform_out){{conform_low((uint64_t)low, bits), conform_low((uint64_t)high, bits), carry, 0}};
    return true;
}

bool ref_carry_sub(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned bits = form->last->bits;
    uint64_t a = conform_low(in->a, bits), b = conform_low(in->b, bits), c = conform_low(in->c, bits),
             x = conform_low(in->x, bits);
    wide_unsigned high = (wide_unsigned)c - x - (a < b); /* 0 - 0 - borrow in the third word */
    uint64_t third = conform_has(form, "cc") && is(form, "subc") && high >> 127 ? conform_low(~UINT64_C(0), bits) : 0;
    *out = (struct conform_out){{conform_low(a - b, bits), conform_low((uint64_t)high, bits), third, 0}};
    return true;
}

/* The part of a product that .lo or .hi takes. */
static uint64_t product_part(const struct conform_form *form, const struct conform_in *in) {
    unsigned bits = form->last->bits;
    wide_unsigned product = (wide_unsigned)number(in->a, form->last) * (wide_unsigned)number(in->b, form->last);
    if (!conform_has(form, "hi")) return conform_low((uint64_t)product, bits);
    return conform_low((uint64_t)(form->last->kind == 's' ? (wide_unsigned)((wide)product >> bits) : product >> bits),
                       bits);
}

bool ref_carry_mad(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned bits = form->last->bits;
    wide_unsigned low = (wide_unsigned)product_part(form, in) + conform_low(in->c, bits);
    wide_unsigned high = (wide_unsigned)conform_low(in->x, bits) + (low >> bits);
    *out = (struct conform_out){{conform_low((uint64_t)low, bits), conform_low((uint64_t)high, bits), 0, 0}};
    return true;
}

bool ref_carry_madc(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned bits = form->last->bits;
    wide_unsigned first = (wide_unsigned)conform_low(in->b, bits) + conform_low(in->x, bits);
    wide_unsigned sum = (wide_unsigned)product_part(form, in) + conform_low(in->c, bits) + (first >> bits);
    uint64_t carry = conform_has(form, "cc") ? (uint64_t)(sum >> bits) : 0;
    *out = (struct conform_out){{conform_low((uint64_t)sum, bits), conform_low((uint64_t)first, bits), carry, 0}};
    return true;
}
