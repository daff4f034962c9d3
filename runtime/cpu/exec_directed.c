/* exec_directed.c - f32 and f64 arithmetic rounded towards zero, down or up, and the carry chain of integers.
 * The processor's rounding mode is set around each instruction; volatile keeps the arithmetic inside. */
#include <fenv.h>
#include <math.h>
#include <string.h>
#include <runtime/cpu/exec_ops.h>

static int mode_of(u32 flags) {
    return flags & F_RZ ? FE_TOWARDZERO : flags & F_RM ? FE_DOWNWARD : flags & F_RP ? FE_UPWARD : FE_TONEAREST;
}

static float flushed(float v, u32 flags) {
    return (flags & F_FTZ) && fabsf(v) < 0x1p-126f ? copysignf(0, v) : v;
}

static u32 finished(float r, u32 flags) {
    u32 bits;
    r = flushed(r, flags);
    if (flags & F_SAT) r = r > 0 ? (r < 1 ? r : 1) : 0;
    memcpy(&bits, &r, 4);
    return r != r ? 0x7FFFFFFF : bits;
}

static const double no_source[WARP];

/* .ftz flushes what rounds to less than 2^-126 at 24 bits with no end of the exponents, even where f32 rounds it there.
 */
static bool tiny(double wide, u32 flags) {
    bool away = (flags & F_RP && wide > 0) || (flags & F_RM && wide < 0);
    return away ? fabs(wide) <= 0x1p-126 - 0x1p-150 : fabs(wide) < 0x1p-126;
}

/* wide: the value in double, from A, B and C, rounded in the same direction. */
#define DIRECTED_F32(name, value, wide)                                                                                \
    int directed_##name##_f32(struct exec *x, const struct op *o, u32 m) {                                             \
        const f32 *a_ = AT(x, o->a), *b_ = o->b != NO_OPERAND ? AT(x, o->b) : (const void *)no_source;                 \
        const f32 *c_ = o->c != NO_OPERAND ? AT(x, o->c) : (const void *)no_source;                                    \
        u32 *d_ = AT(x, o->d);                                                                                         \
        FOR_LANES(l, m) {                                                                                              \
            volatile float a = flushed(a_[l], o->flags), b = flushed(b_[l], o->flags), c = flushed(c_[l], o->flags),   \
                           r;                                                                                          \
            volatile double A = (double)a, B = (double)b, C = (double)c, w;                                            \
            (void)a, (void)b, (void)c, (void)A, (void)B, (void)C;                                                      \
            fesetround(mode_of(o->flags));                                                                             \
            r = value;                                                                                                 \
            w = wide;                                                                                                  \
            fesetround(FE_TONEAREST);                                                                                  \
            d_[l] = finished(r, o->flags);                                                                             \
            if ((o->flags & F_FTZ) && (d_[l] & 0x7FFFFFFF) == 0x00800000 && tiny(w, o->flags)) d_[l] &= 0x80000000;    \
        }                                                                                                              \
        return RUN_NEXT;                                                                                               \
    }
#define DIRECTED_F64(name, value)                                                                                      \
    int directed_##name##_f64(struct exec *x, const struct op *o, u32 m) {                                             \
        const f64 *a_ = AT(x, o->a), *b_ = o->b != NO_OPERAND ? AT(x, o->b) : no_source,                               \
                  *c_ = o->c != NO_OPERAND ? AT(x, o->c) : no_source;                                                  \
        f64 *d_ = AT(x, o->d);                                                                                         \
        FOR_LANES(l, m) {                                                                                              \
            volatile double a = a_[l], b = b_[l], c = c_[l], r;                                                        \
            (void)a, (void)b, (void)c;                                                                                 \
            fesetround(mode_of(o->flags));                                                                             \
            r = value;                                                                                                 \
            fesetround(FE_TONEAREST);                                                                                  \
            d_[l] = r;                                                                                                 \
        }                                                                                                              \
        return RUN_NEXT;                                                                                               \
    }

DIRECTED_F32(add, a + b, A + B)
DIRECTED_F32(sub, a - b, A - B)
DIRECTED_F32(mul, a *b, A *B)
DIRECTED_F32(div, a / b, A / B)
DIRECTED_F32(fma, fmaf(a, b, c), fma(A, B, C))
DIRECTED_F32(rcp, 1.0f / a, 1.0 / A)
DIRECTED_F32(sqrt, sqrtf(a), sqrt(A))
DIRECTED_F64(add, a + b)
DIRECTED_F64(sub, a - b)
DIRECTED_F64(mul, a *b)
DIRECTED_F64(div, a / b)
DIRECTED_F64(fma, fma(a, b, c))
DIRECTED_F64(rcp, 1.0 / a)
DIRECTED_F64(sqrt, sqrt(a))

/* add.cc addc sub.cc subc mad.cc madc: sub is enum carry_op; kind bit 0: carry in, bit 1: carry out, bit 2: signed;
 * width 32 or 64. Subtraction adds the complement: its carry is set where nothing was borrowed, and addc behind subc
 * reads it so (nvcc's division of 128-bit integers relies on it). */
int op_carry(struct exec *x, const struct op *o, u32 m) {
    bool wide = o->width == 64;
    FOR_LANES(l, m) {
        u64 a = wide ? ((const u64 *)AT(x, o->a))[l] : ((const u32 *)AT(x, o->a))[l];
        u64 b = wide ? ((const u64 *)AT(x, o->b))[l] : ((const u32 *)AT(x, o->b))[l];
        u64 in = o->kind & 1 ? x->carry >> l & 1 : 0, top = wide ? ~0ull : 0xFFFFFFFFull, r;
        bool out;
        if (o->sub == CARRY_SUB) {
            u64 borrow = o->kind & 1 ? !in : 0;
            r = (a - b - borrow) & top;
            out = a > b || (a == b && !borrow);
        } else {
            u64 c = b;
            if (o->sub != CARRY_ADD) {
                c = wide ? ((const u64 *)AT(x, o->c))[l] : ((const u32 *)AT(x, o->c))[l];
                unsigned __int128 product = (unsigned __int128)a * b;
                if (o->kind & 4)
                    product = wide ? (unsigned __int128)((__int128)(s64)a * (s64)b)
                                   : (unsigned __int128)((__int128)(s32)a * (s32)b);
                a = (u64)(o->sub == CARRY_MAD_LO ? product : product >> (wide ? 64 : 32)) & top;
            }
            unsigned __int128 sum = (unsigned __int128)a + c + in;
            r = (u64)sum & top;
            out = sum > top;
        }
        if (wide)
            ((u64 *)AT(x, o->d))[l] = r;
        else
            ((u32 *)AT(x, o->d))[l] = (u32)r;
        if (o->kind & 2) x->carry = (x->carry & ~(1u << l)) | (u32)out << l;
    }
    return RUN_NEXT;
}
