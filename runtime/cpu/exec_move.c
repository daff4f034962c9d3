/* exec_move.c - moves that are not one vector copy: packing and unpacking, 128 bits, predicates, address windows. */
#include <string.h>
#include <runtime/cpu/exec_ops.h>

static unsigned stride_of(unsigned bits) {
    return bits == 128 ? 16 : bits == 64 ? 8 : 4;
}

/* mov.bN d, {a, b, ...}: count elements of bytes each. */
int op_pack(struct exec *x, const struct op *o, u32 m) {
    u8 out[WARP][16] = {{0}};
    for (unsigned i = 0; i < o->count; i++) {
        const u8 *s = AT(x, x->code->extra[o->extra + i]);
        unsigned stride = stride_of(o->bytes * 8u);
        FOR_LANES(l, m) memcpy(out[l] + i * o->bytes, s + l * stride, o->bytes);
    }
    u8 *d = AT(x, o->d);
    unsigned stride = stride_of(o->width);
    FOR_LANES(l, m) memcpy(d + l * stride, out[l], stride);
    return RUN_NEXT;
}

/* mov.bN {a, b, ...}, s */
int op_unpack(struct exec *x, const struct op *o, u32 m) {
    u8 in[WARP][16] = {{0}};
    const u8 *s = AT(x, o->a);
    unsigned stride = stride_of(o->width);
    FOR_LANES(l, m) memcpy(in[l], s + l * stride, stride);
    for (unsigned i = 0; i < o->count; i++) {
        u8 *d = AT(x, x->code->extra[o->extra + i]);
        unsigned to = stride_of(o->bytes * 8u);
        FOR_LANES(l, m) {
            u64 value = 0;
            memcpy(&value, in[l] + i * o->bytes, o->bytes);
            memcpy(d + l * to, &value, to);
        }
    }
    return RUN_NEXT;
}

/* mov.b64 {lo, hi}, s and its reverse, the common sizes */
int op_unpack_w2(struct exec *x, const struct op *o, u32 m) {
    const u64 *s = AT(x, o->a);
    u32 *low = AT(x, x->code->extra[o->extra]), *high = AT(x, x->code->extra[o->extra + 1]);
    FOR_LANES(l, m) {
        u64 value = s[l];
        low[l] = (u32)value;
        high[l] = (u32)(value >> 32);
    }
    return RUN_NEXT;
}

int op_pack_w2(struct exec *x, const struct op *o, u32 m) {
    u64 *d = AT(x, o->d);
    const u32 *low = AT(x, x->code->extra[o->extra]), *high = AT(x, x->code->extra[o->extra + 1]);
    FOR_LANES(l, m) d[l] = (u64)high[l] << 32 | low[l];
    return RUN_NEXT;
}

int op_unpack_h2(struct exec *x, const struct op *o, u32 m) {
    const u32 *s = AT(x, o->a);
    u32 *low = AT(x, x->code->extra[o->extra]), *high = AT(x, x->code->extra[o->extra + 1]);
    FOR_LANES(l, m) {
        u32 value = s[l];
        low[l] = value & 0xFFFF;
        high[l] = value >> 16;
    }
    return RUN_NEXT;
}

int op_pack_h2(struct exec *x, const struct op *o, u32 m) {
    u32 *d = AT(x, o->d);
    const u32 *low = AT(x, x->code->extra[o->extra]), *high = AT(x, x->code->extra[o->extra + 1]);
    FOR_LANES(l, m) d[l] = high[l] << 16 | (low[l] & 0xFFFF);
    return RUN_NEXT;
}

int op_mov_q(struct exec *x, const struct op *o, u32 m) {
    u8 *d = AT(x, o->d);
    const u8 *a = AT(x, o->a);
    FOR_LANES(l, m) memmove(d + 16 * l, a + 16 * l, 16);
    return RUN_NEXT;
}

/* mov, not, and, or, xor on predicates; sub: enum predicate_op */
int op_predicate(struct exec *x, const struct op *o, u32 m) {
    u32 a = predicate_read(x, o->a), b = o->sub >= PREDICATE_AND ? predicate_read(x, o->b) : 0;
    u32 values[] = {a, ~a, a & b, a | b, a ^ b};
    predicate_write(x, o->d, values[o->sub], m);
    return RUN_NEXT;
}

/* cvta: imm is the window's mark; sub: 1 from generic (.to) */
int op_cvta(struct exec *x, const struct op *o, u32 m) {
    u64 *d = AT(x, o->d);
    const u64 *a = AT(x, o->a);
    u64 mark = (u64)o->imm;
    if (o->sub) {
        FOR_LANES(l, m) d[l] = WINDOW_OF(a[l]) == mark ? a[l] ^ mark : a[l];
    } else {
        FOR_LANES(l, m) d[l] = a[l] | mark;
    }
    return RUN_NEXT;
}

int op_isspacep(struct exec *x, const struct op *o, u32 m) {
    const u64 *a = AT(x, o->a);
    u32 bits = 0;
    FOR_LANES(l, m) {
        u64 rank = (u64)o->imm == WINDOW_SHARED && !o->sub ? (a[l] ^ WINDOW_SHARED) >> RANK_SHIFT : 0;
        bits |= (u32)(WINDOW_OF(a[l]) == (u64)o->imm && (!rank || rank - 1 == x->warp->cta->rank)) << l;
    }
    predicate_write(x, o->d, bits, m);
    return RUN_NEXT;
}

/* slct: sub 1 when the sign of c is that of an f32; NaN selects b */
int op_slct(struct exec *x, const struct op *o, u32 m) {
    const u32 *c = AT(x, o->c);
    FOR_LANES(l, m) {
        u32 sign = c[l];
        if (o->sub && (o->flags & F_FTZ) && !(sign & 0x7F800000)) sign = 0;
        bool first =
            o->sub ? (sign & 0x7FFFFFFF) <= 0x7F800000 && (!(sign >> 31) || sign == 0x80000000) : !(sign >> 31);
        if (o->width == 64)
            ((u64 *)AT(x, o->d))[l] = ((const u64 *)AT(x, first ? o->a : o->b))[l];
        else
            ((u32 *)AT(x, o->d))[l] = ((const u32 *)AT(x, first ? o->a : o->b))[l];
    }
    return RUN_NEXT;
}

/* bfi d, a, b, c, length: extra holds the length. */
int op_bfi(struct exec *x, const struct op *o, u32 m) {
    const u32 *position = AT(x, o->c), *length = AT(x, x->code->extra[o->extra]);
    unsigned width = o->width;
    FOR_LANES(l, m) {
        u64 a = width == 64 ? ((const u64 *)AT(x, o->a))[l] : ((const u32 *)AT(x, o->a))[l];
        u64 b = width == 64 ? ((const u64 *)AT(x, o->b))[l] : ((const u32 *)AT(x, o->b))[l];
        u32 at = position[l],
            bits = length[l]; /* the 32-bit form sees bytes, the 64-bit one (as hardware does) whole words */
        if (width == 32) {
            at &= 0xFF;
            bits &= 0xFF;
        }
        u64 field = at >= width ? 0 : (bits >= 64 ? ~0ull : (1ull << bits) - 1) << at;
        u64 value = (b & ~field) | (at >= width ? 0 : a << at & field);
        if (width == 64)
            ((u64 *)AT(x, o->d))[l] = value;
        else
            ((u32 *)AT(x, o->d))[l] = (u32)value;
    }
    return RUN_NEXT;
}
