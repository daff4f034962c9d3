/* exec_half.c - f16 and bf16 arithmetic and comparisons, single and packed: the rows of ops_half.def as functions. */
#include <math.h>
#include <runtime/cpu/exec_ops.h>

static double half_extreme(const struct op *o, double a, double b, bool max) {
    bool negative = (signbit(a) != 0) != (signbit(b) != 0);
    if ((o->flags & F_NAN) && (a != a || b != b)) return NAN;
    if (o->flags & F_ABS_XOR) {
        a = fabs(a);
        b = fabs(b);
    }
    double r = a != a ? b : b != b ? a : a == b ? ((signbit(a) != 0) != max ? a : b) : (a > b) == max ? a : b;
    return o->flags & F_ABS_XOR ? copysign(r, negative ? -1.0 : 1.0) : r;
}

static u32 flushed(enum float_format format, u32 bits, u32 flags) {
    return (flags & F_FTZ) && !(bits & (format == FMT_F16 ? 0x7C00 : 0x7F80)) ? bits & 0x8000 : bits;
}

static double widened(enum float_format format, u32 bits, u32 flags) {
    bits &= 0xFFFF;
    bits = flushed(format, bits, flags);
    return format == FMT_F16 ? (double)f16_to_f32((u16)bits) : (double)bf16_to_f32((u16)bits);
}

static u32 narrowed(enum float_format format, double value, u32 flags) {
    if ((flags & F_SAT) && !(value > 0)) return 0;
    if ((flags & F_SAT) && value > 1) value = 1;
    if ((flags & F_RELU) && value <= 0) /* also -0; NaN stays */
        value = 0;
    u32 bits = (u32)float_from_double(format, value, ROUND_NEAREST);
    return flushed(format, bits, flags);
}

static const u32 no_source[WARP];

/* value must not depend on sources that the form has not: they read as zero. */
#define EACH(name, suffix, format, packed, value)                                                                      \
    int name##suffix(struct exec *x, const struct op *o, u32 m) {                                                      \
        const u32 *a_ = AT(x, o->a), *b_ = o->b != NO_OPERAND ? AT(x, o->b) : no_source;                               \
        const u32 *c_ = o->c != NO_OPERAND ? AT(x, o->c) : no_source;                                                  \
        u32 *d_ = AT(x, o->d);                                                                                         \
        FOR_LANES(l, m) {                                                                                              \
            u32 out = 0;                                                                                               \
            for (unsigned shift = 0; shift <= (packed ? 16u : 0u); shift += 16) {                                      \
                double a = widened(format, a_[l] >> shift, o->flags), b = widened(format, b_[l] >> shift, o->flags);   \
                double c = widened(format, c_[l] >> shift, o->flags);                                                  \
                (void)a, (void)b, (void)c;                                                                             \
                out |= narrowed(format, value, o->flags) << shift;                                                     \
            }                                                                                                          \
            d_[l] = out;                                                                                               \
        }                                                                                                              \
        return RUN_NEXT;                                                                                               \
    }
#define HALF(name, f16_pattern, bf16_pattern, inputs, value)                                                           \
    EACH(name, _f16, FMT_F16, false, value)                                                                            \
    EACH(name, _bf16, FMT_BF16, false, value)                                                                          \
    EACH(name, _f16x2, FMT_F16, true, value) EACH(name, _bf16x2, FMT_BF16, true, value)

/* ---- comparisons: one predicate, or for pairs the low half's and the high half's ---- */
static u32 combined(const struct exec *x, const struct op *o, u32 bits) {
    if (o->flags & F_NOT) bits = ~bits;
    if (!(o->flags & (F_AND | F_OR | F_XOR))) return bits;
    u32 c = predicate_read(x, o->c);
    return o->flags & F_AND ? bits & c : o->flags & F_OR ? bits | c : bits ^ c;
}

static int compare_finish(struct exec *x, const struct op *o, u32 m, u32 low, u32 high, bool packed) {
    u32 second = packed ? combined(x, o, high) : combined(x, o, ~low), first = combined(x, o, low);
    predicate_write(x, o->d, first, m);
    if (o->extra != NO_OPERAND) predicate_write(x, o->extra, second, m);
    return RUN_NEXT;
}

#define EACH_COMPARE(name, suffix, format, packed, value)                                                              \
    int name##suffix(struct exec *x, const struct op *o, u32 m) {                                                      \
        const u32 *a_ = AT(x, o->a), *b_ = AT(x, o->b);                                                                \
        u32 bits[2] = {0, 0};                                                                                          \
        FOR_LANES(l, m)                                                                                                \
        for (unsigned h = 0; h <= (packed ? 1u : 0u); h++) {                                                           \
            double a = widened(format, a_[l] >> 16 * h, o->flags), b = widened(format, b_[l] >> 16 * h, o->flags);     \
            bits[h] |= (u32)(value) << l;                                                                              \
        }                                                                                                              \
        return compare_finish(x, o, m, bits[0], bits[1], packed);                                                      \
    }
#define HALF_COMPARE(name, value)                                                                                      \
    EACH_COMPARE(name, _f16, FMT_F16, false, value)                                                                    \
    EACH_COMPARE(name, _bf16, FMT_BF16, false, value)                                                                  \
    EACH_COMPARE(name, _f16x2, FMT_F16, true, value) EACH_COMPARE(name, _bf16x2, FMT_BF16, true, value)

#include <runtime/cpu/ops_half.def>
