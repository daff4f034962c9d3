/* conform_reference_memory.c - what loads, stores, atomics and address conversions leave. Shares nothing with a device.
 */
#include "conform_rows.h"

#include <string.h>

static bool leaves(struct conform_out *out, uint64_t d, uint64_t e) {
    *out = (struct conform_out){{d, e, 0, 0}};
    return true;
}

/* ---- loads: little endian; signed types fill their register ---- */
static bool loaded(const struct conform_form *form, const unsigned char *bytes, struct conform_out *out) {
    const struct conform_type *type = form->last;
    *out = (struct conform_out){{0, 0, 0, 0}};
    for (unsigned i = 0; i < form->vector; i++) {
        uint64_t v = 0;
        for (unsigned b = 0; b < type->memory / 8u; b++)
            v |= (uint64_t)bytes[i * type->memory / 8 + b] << 8 * b;
        out->d[i] = type->kind == 's' ? conform_low((uint64_t)conform_signed(v, type->memory), type->bits) : v;
    }
    return true;
}

bool ref_load(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    return loaded(form, (const unsigned char *)in + (strcmp(form->row->tag, "offset") == 0 ? 16 : 0), out);
}

/* The tensor map's bytes, where it is none: conform_device.c fills them so. */
bool ref_load_param(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned char bytes[CONFORM_MAP];
    (void)in;
    conform_map_bytes(bytes);
    return loaded(form, bytes + 16, out);
}

static const unsigned char constants[16] = {4, 3, 2, 1, 0x88, 0x87, 0x86, 0x85, 0, 0, 0x80, 0x3F, 7, 0, 0, 0};

bool ref_load_constant(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)in;
    return loaded(form, constants, out);
}

bool ref_load_indexed(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    return loaded(form, constants + (in->a & 3) * 4, out);
}

/* ---- stores: the first bytes of a slot replaced ---- */
bool ref_store(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const uint64_t sources[4] = {in->a, in->b, in->c, in->x};
    unsigned size = form->last->memory / 8u;
    unsigned char bytes[32];
    memcpy(bytes, in, sizeof bytes);
    for (unsigned i = 0; i < form->vector; i++)
        for (unsigned b = 0; b < size; b++)
            bytes[i * size + b] = (unsigned char)(sources[i] >> 8 * b);
    for (unsigned i = 0; i < 4; i++) {
        out->d[i] = 0;
        for (unsigned b = 0; b < 8; b++)
            out->d[i] |= (uint64_t)bytes[8 * i + b] << 8 * b;
    }
    return true;
}

bool ref_slot_word(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    return leaves(out, in->a, 0);
}

bool ref_stored_word(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    return leaves(out, in->b, 0);
}

/* p q r s: of a global slot, a shared one, a local one, a global variable */
bool ref_space(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    bool global = conform_has(form, "global"), local = conform_has(form, "local");
    (void)in;
    *out = (struct conform_out){{global, !global && !local, local, global}};
    return true;
}

/* ---- atomics ---- */
static uint64_t flushed(const struct conform_format *format, uint64_t bits) {
    return conform_low(bits, format->bits - 1) >> format->fraction == 0 ? bits & UINT64_C(1) << (format->bits - 1)
                                                                        : bits;
}

/* Sums of floats are rounded to nearest even; those of f32 in global memory flush subnormals. */
static uint64_t float_sum(const struct conform_form *form, uint64_t a, uint64_t b) {
    const struct conform_format *format = conform_format_of(form->last);
    a = conform_low(a, format->bits), b = conform_low(b, format->bits);
    bool flush = form->last->bits == 32 && form->last->kind == 'f' && !conform_has(form, "shared");
    if (flush) a = flushed(format, a), b = flushed(format, b);
    if (conform_is_nan(format, a) || conform_is_nan(format, b)) return format->nan;
    conform_wide u = conform_value(format, a), v = conform_value(format, b);
    if (u - u != 0 && v - v != 0 && u != v) return format->nan;
    bool negative = a >> (format->bits - 1) & b >> (format->bits - 1) & 1; /* of a zero */
    uint64_t sum = conform_rounded(format, conform_sum(u, v), negative, NEAREST, false);
    return flush ? flushed(format, sum) : sum;
}

static uint64_t added(const struct conform_form *form, uint64_t a, uint64_t b) {
    if (form->last->kind == 'f') return float_sum(form, a, b);
    if (form->last->kind == 'x') return float_sum(form, a, b) | float_sum(form, a >> 16, b >> 16) << 16;
    return a + b;
}

static uint64_t operated(const struct conform_form *form, uint64_t a, uint64_t b, uint64_t c) {
    static const char names[] = "add exch cas inc dec min max and or xor";
    unsigned bits = form->last->bits;
    bool less = form->last->kind == 's' ? conform_signed(a, bits) < conform_signed(b, bits) : a < b;
    switch (conform_which(form, names)) {
    case 0:
        return added(form, a, b);
    case 1:
        return b;
    case 2:
        return a == b ? c : a;
    case 3:
        return a >= b ? 0 : a + 1;
    case 4:
        return a == 0 || a > b ? b : a - 1;
    case 5:
        return less ? a : b;
    case 6:
        return less ? b : a;
    case 7:
        return a & b;
    case 8:
        return a | b;
    default:
        return a ^ b;
    }
}

bool ref_atomic(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned bits = form->last->bits;
    uint64_t a = conform_low(in->a, bits),
             after = operated(form, a, conform_low(in->b, bits), conform_low(in->c, bits));
    /* where a generic address leads to, and so whether subnormals are flushed, is the device's to know */
    return leaves(out, form->words[0][0] == 'a' ? a : 0, conform_low(after, bits));
}

/* All lanes of a warp add to the slot of the first. */
bool ref_reduction(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint64_t sum = in[0].a;
    (void)form;
    for (unsigned l = 0; l < CONFORM_WARP; l++)
        sum += in[l].b;
    for (unsigned l = 0; l < CONFORM_WARP; l++)
        leaves(&out[l], conform_low(sum, 32), 0);
    return true;
}
