/* exec_cvt.c - cvt between any two number types, lane by lane; testp and set. The frequent plain pairs are vector rows
 * instead. Floats go through double, which holds f32, f16, bf16, tf32 and FP8 exactly; 64-bit integers to floats do
 * not. */
#include <math.h>
#include <string.h>
#include <runtime/cpu/exec_ops.h>

static u64 register_read(const struct exec *x, u32 operand, u32 lane, unsigned bits) {
    return bits == 64 ? ((const u64 *)AT(x, operand))[lane] : ((const u32 *)AT(x, operand))[lane];
}

static void register_write(struct exec *x, u32 operand, u32 lane, unsigned bits, u64 value) {
    if (bits == 64)
        ((u64 *)AT(x, operand))[lane] = value;
    else
        ((u32 *)AT(x, operand))[lane] = bits == 16 ? (u16)value : bits == 8 ? (u8)value : (u32)value;
}

static bool is_float(unsigned kind) {
    return kind >= N_F16;
}

static bool is_signed(unsigned kind) {
    return kind == N_S8 || kind == N_S16 || kind == N_S32 || kind == N_S64;
}

static unsigned integer_bits(unsigned kind) {
    return 8u << (kind >> 1); /* N_U8, N_S8, N_U16, ... */
}

static enum float_format format_of(unsigned kind) {
    switch (kind) {
    case N_F16:
    case N_F16X2:
        return FMT_F16;
    case N_BF16:
    case N_BF16X2:
        return FMT_BF16;
    case N_F64:
        return FMT_F64;
    case N_TF32:
        return FMT_TF32;
    case N_E4M3X2:
        return FMT_E4M3;
    case N_E5M2X2:
        return FMT_E5M2;
    default:
        return FMT_F32;
    }
}

/* An f32 input under .ftz. */
static double flushed(double v, unsigned kind, u32 flags) {
    return (flags & F_FTZ) && kind == N_F32 && fabs(v) < 0x1p-126 ? copysign(0.0, v) : v;
}

/* ---- to integers ---- */
static u64 clamped(__int128 v, unsigned kind) {
    unsigned bits = integer_bits(kind);
    __int128 least = is_signed(kind) ? -((__int128)1 << (bits - 1)) : 0;
    __int128 most = ((__int128)1 << (bits - is_signed(kind))) - 1;
    return (u64)(v < least ? least : v > most ? most : v);
}

static u64 float_to_integer(double v, unsigned from, unsigned to, u32 flags) {
    unsigned bits = integer_bits(to);
    v = flushed(v, from, flags);
    if (v != v) return from != N_F64 && bits != 64 ? 0 : 1ull << (bits - 1);
    v = flags & F_RZ ? trunc(v) : flags & F_RM ? floor(v) : flags & F_RP ? ceil(v) : nearbyint(v);
    if (v > 0x1p65) v = 0x1p65;
    if (v < -0x1p65) v = -0x1p65;
    return clamped((__int128)v, to);
}

static u64 integer_to_integer(u64 raw, unsigned from, unsigned to, u32 flags) {
    unsigned spare = 64 - integer_bits(from);
    __int128 v = is_signed(from) ? (__int128)((s64)(raw << spare) >> spare) : (__int128)(raw << spare >> spare);
    return flags & F_SAT ? clamped(v, to) : (u64)v;
}

/* ---- to floats ---- */
static u64 saturated(u64 bits, unsigned kind, u32 flags) {
    enum float_format format = format_of(kind);
    double v = float_to_double(format, bits);
    if ((flags & F_FTZ) && kind == N_F32 && fabs(v) < 0x1p-126) bits &= 0x80000000;
    if (flags & F_SAT) bits = !(v > 0) ? 0 : v >= 1 ? float_from_double(format, 1, ROUND_NEAREST) : bits;
    if ((flags & F_RELU) && v <= 0) bits = 0;
    return bits;
}

static u64 integer_to_float(u64 raw, unsigned from, unsigned to, u32 flags) {
    unsigned spare = 64 - integer_bits(from);
    s64 v = (s64)(raw << spare) >> spare;
    bool negative = is_signed(from) && v < 0;
    u64 magnitude = negative ? 0 - (u64)v : is_signed(from) ? (u64)v : raw << spare >> spare;
    return saturated(float_pack(format_of(to), negative, magnitude, 0, false, rounding_of(flags)), to, flags);
}

static u64 double_to_float(double v, unsigned from, unsigned to, u32 flags) {
    /* ptxas ignores .ftz on the way to f16: no hardware flushes there, and .rm and .rp show it */
    if (to != N_F16) v = flushed(v, from, flags);
    if (flags & F_RINT) v = flags & F_RZ ? trunc(v) : flags & F_RM ? floor(v) : flags & F_RP ? ceil(v) : nearbyint(v);
    enum rounding rounding = flags & F_RINT ? ROUND_NEAREST : rounding_of(flags);
    u64 bits = flags & F_SATFINITE ? float_satfinite(format_of(to), v, rounding)
                                   : float_from_double(format_of(to), v, rounding);
    return saturated(bits, to, flags);
}

static unsigned fraction_bits(unsigned kind) {
    return kind == N_F16 ? 10 : kind == N_BF16 ? 7 : kind == N_F32 ? 23 : 52;
}

static unsigned float_bits(unsigned kind) {
    return kind == N_F16 || kind == N_BF16 ? 16 : kind == N_F32 ? 32 : 64;
}

/* NaN keeps its sign and upper payload where f64 takes part, and loses low bits only on the way to tf32. */
static bool nan_carried(u64 raw, unsigned from, unsigned to, u64 *out) {
    if (from == N_F32 && to == N_TF32) {
        *out = raw & 0xFFFFE000;
        return true;
    }
    if (from != N_F64 && to != N_F64) return false;
    unsigned in = fraction_bits(from), wide = fraction_bits(to), top = float_bits(to) - 1;
    u64 payload = raw & ((1ull << in) - 1), sign = raw >> (float_bits(from) - 1) & 1;
    u64 exponent = (1ull << (top - wide)) - 1;
    payload = (wide >= in ? payload << (wide - in) : payload >> (in - wide)) | 1ull << (wide - 1); /* quiet */
    *out = sign << top | exponent << wide | payload;
    return true;
}

int op_cvt(struct exec *x, const struct op *o, u32 m) {
    unsigned from = o->kind, to = o->sub;
    FOR_LANES(l, m) {
        u64 raw = register_read(x, o->a, l, o->bytes), out;
        if (is_float(from)) {
            double v = float_to_double(format_of(from), raw & (from == N_F16 || from == N_BF16 ? 0xFFFF : ~0ull));
            if (!is_float(to))
                out = float_to_integer(v, from, to, o->flags);
            else if (!(v != v && !(o->flags & (F_SAT | F_SATFINITE | F_RELU)) && nan_carried(raw, from, to, &out)))
                out = double_to_float(v, from, to, o->flags);
        } else {
            out =
                is_float(to) ? integer_to_float(raw, from, to, o->flags) : integer_to_integer(raw, from, to, o->flags);
        }
        if (!is_float(to)) { /* extended to the register as the type says */
            unsigned spare = 64 - integer_bits(to);
            out = is_signed(to) ? (u64)((s64)(out << spare) >> spare) : out << spare >> spare;
        }
        register_write(x, o->d, l, o->width, out);
    }
    return RUN_NEXT;
}

/* d = {a in the upper half, b in the lower}: from f32 to f16x2, bf16x2, e4m3x2, e5m2x2 */
int op_cvt_pair(struct exec *x, const struct op *o, u32 m) {
    const f32 *a = AT(x, o->a), *b = AT(x, o->b);
    u32 *d = AT(x, o->d);
    unsigned half = o->sub >= N_E4M3X2 ? 8 : 16;
    FOR_LANES(l, m) {
        u32 high = (u32)double_to_float((double)a[l], N_F32, o->sub, o->flags),
            low = (u32)double_to_float((double)b[l], N_F32, o->sub, o->flags);
        d[l] = high << half | low;
    }
    return RUN_NEXT;
}

/* f16x2 from or to a pair of FP8 */
int op_cvt_unpair(struct exec *x, const struct op *o, u32 m) {
    const u32 *a = AT(x, o->a);
    u32 *d = AT(x, o->d);
    unsigned in = o->kind >= N_E4M3X2 ? 8 : 16, out = o->sub >= N_E4M3X2 ? 8 : 16;
    u32 mask = (1u << in) - 1;
    FOR_LANES(l, m) {
        u32 low = (u32)double_to_float(float_to_double(format_of(o->kind), a[l] & mask), o->kind, o->sub, o->flags);
        u32 high =
            (u32)double_to_float(float_to_double(format_of(o->kind), a[l] >> in & mask), o->kind, o->sub, o->flags);
        d[l] = high << out | low;
    }
    return RUN_NEXT;
}

/* sub: finite, infinite, number, notanumber, normal, subnormal */
int op_testp(struct exec *x, const struct op *o, u32 m) {
    u32 bits = 0;
    FOR_LANES(l, m) {
        double v = o->width == 64 ? ((const f64 *)AT(x, o->a))[l] : (double)((const f32 *)AT(x, o->a))[l];
        double least = o->width == 64 ? 0x1p-1022 : 0x1p-126;
        bool tests[] = {
            isfinite(v) != 0,         isinf(v) != 0, v == v, v != v, isfinite(v) && (v == 0 || fabs(v) >= least),
            v != 0 && fabs(v) < least};
        bits |= (u32)tests[o->sub] << l;
    }
    predicate_write(x, o->d, bits, m);
    return RUN_NEXT;
}

/* A compare into predicate 0, spread: extra where it holds, else 0. sub: 1 for pairs, the high half's result behind the
 * low half's. */
int op_set(struct exec *x, const struct op *o, u32 m) {
    struct op compare = *o;
    u32 holds[2] = {0, 0}, *d = AT(x, o->d);
    compare.d = 0;
    for (unsigned half = 0; half <= o->sub; half++) {
        compare.extra = half ? 0 : NO_OPERAND; /* written last */
        ((op_fn *)(uintptr_t)o->imm)(x, &compare, m);
        holds[half] = x->predicates[0];
    }
    FOR_LANES(l, m) d[l] = (holds[0] >> l & 1 ? o->extra : 0) | (holds[1] >> l & 1 ? o->extra << 16 : 0);
    return RUN_NEXT;
}
