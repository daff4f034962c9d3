/* exec_atomic.c - atom and red: the lanes of a warp one after the other, in place. */
#include <math.h>
#include <string.h>
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_ops.h>

typedef unsigned __int128 u128;

static float f32_of(u64 bits) {
    float v;
    u32 narrow = (u32)bits;
    memcpy(&v, &narrow, 4);
    return v;
}

static u32 f32_add(u32 a, u32 b, bool flush) {
    if (flush) { /* of global memory only */
        a = a & 0x7F800000 ? a : a & 0x80000000;
        b = b & 0x7F800000 ? b : b & 0x80000000;
    }
    float sum = f32_of(a) + f32_of(b);
    u32 bits;
    memcpy(&bits, &sum, 4);
    if (sum != sum) return 0x7FFFFFFF;
    return flush && !(bits & 0x7F800000) ? bits & 0x80000000 : bits;
}

static u32 half_op(unsigned op, enum float_format format, u32 a, u32 b) {
    double x = float_to_double(format, a & 0xFFFF), y = float_to_double(format, b & 0xFFFF);
    double r = op == ATOMIC_ADD                                          ? x + y
               : x != x                                                  ? y
               : y != y                                                  ? x
               : (op == ATOMIC_MIN) == (x < y || (x == y && signbit(x))) ? x
                                                                         : y;
    return (u32)float_from_double(format, r, ROUND_NEAREST);
}

static u32 halves_op(unsigned op, enum float_format format, u32 a, u32 b) {
    return half_op(op, format, a, b) | half_op(op, format, a >> 16, b >> 16) << 16;
}

static u64 integer_op(unsigned op, unsigned kind, u64 old, u64 b) {
    bool less = kind == N_S32 ? (s32)(u32)old < (s32)(u32)b : kind == N_S64 ? (s64)old < (s64)b : old < b;
    switch (op) {
    case ATOMIC_ADD:
        return old + b;
    case ATOMIC_MIN:
        return less ? old : b;
    case ATOMIC_MAX:
        return less ? b : old;
    case ATOMIC_AND:
        return old & b;
    case ATOMIC_OR:
        return old | b;
    case ATOMIC_XOR:
        return old ^ b;
    case ATOMIC_INC:
        return old >= b ? 0 : old + 1;
    case ATOMIC_DEC:
        return old == 0 || old > b ? b : old - 1;
    default:
        return b; /* exch */
    }
}

static u64 new_value(const struct op *o, bool global, u64 old, u64 b) {
    switch (o->kind) {
    case N_F32:
        return f32_add((u32)old, (u32)b, global);
    case N_F64: {
        double x, y;
        memcpy(&x, &old, 8);
        memcpy(&y, &b, 8);
        x += y;
        memcpy(&old, &x, 8);
        return old;
    }
    case N_F16:
        return half_op(o->sub, FMT_F16, (u32)old, (u32)b);
    case N_BF16:
        return half_op(o->sub, FMT_BF16, (u32)old, (u32)b);
    case N_F16X2:
        return halves_op(o->sub, FMT_F16, (u32)old, (u32)b);
    case N_BF16X2:
        return halves_op(o->sub, FMT_BF16, (u32)old, (u32)b);
    default:
        return integer_op(o->sub, o->kind, old, b);
    }
}

static u128 source(const struct exec *x, u32 operand, u32 lane, unsigned bytes) {
    u128 value = 0;
    unsigned stride = bytes == 16 ? 16 : bytes == 8 ? 8 : 4;
    if (operand != NO_OPERAND) memcpy(&value, (const u8 *)AT(x, operand) + lane * stride, bytes);
    return value;
}

static bool apply(struct exec *x, const struct op *o, u32 lane, void *at, bool global) {
    u128 old = 0, b = source(x, o->b, lane, o->bytes), now;
    memcpy(&old, at, o->bytes);
    if (o->sub == ATOMIC_CAS)
        now = old == b ? source(x, o->c, lane, o->bytes) : old;
    else
        now = o->bytes == 16 ? b : new_value(o, global, (u64)old, (u64)b);
    bool changed = memcmp(at, &now, o->bytes) != 0;
    memcpy(at, &now, o->bytes);
    if (o->d != NO_OPERAND) {
        unsigned stride = o->bytes == 16 ? 16 : o->bytes == 8 ? 8 : 4;
        memcpy((u8 *)AT(x, o->d) + lane * stride, &old, stride);
    }
    return changed;
}

int op_atomic(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    bool polled = false;
    lane_addresses(x, o, address);
    if (o->order >= ORDER_RELEASE && x->warp->cta->copies) copies_release(x, m);
    x->doing = o;
    if (x->checker) check_release(x, o, m);
    FOR_LANES(l, m) {
        enum space space = o->space == SPACE_GENERIC ? space_of(&address[l]) : in_space(o->space, &address[l]);
        bool global = space == SPACE_GLOBAL;
        void *at;
        if (global) {
            if (address[l] % o->bytes)
                return exec_fault(x, l, FAULT_MISALIGNED, "address 0x%llx is not aligned to the %u bytes of the atomic",
                                  (unsigned long long)address[l], o->bytes);
            x->fault_lane = l;
            note_access(x, o);
            if (x->checker && o->sub != ATOMIC_EXCH && !check_global(x, o, 1u << l, true, address[l], o->bytes))
                return RUN_FAULT;
            if (o->order == ORDER_RELEASE || o->order == ORDER_ACQ_REL)
                world_fence(x->world, x->warp, thread_of(x, l), o->order, o->scope);
            at = world_atomic(x->world, x->warp, thread_of(x, l), address[l], o->bytes, o->order, o->scope, x->fault);
        } else if (space == SPACE_SHARED || space == SPACE_CLUSTER) {
            at = window_at(x, l, space, address[l], o->bytes, ACCESS_ATOMIC);
        } else {
            return exec_fault(x, l, FAULT_ADDRESS_SPACE, "atomics work on global and shared memory only");
        }
        if (!at) return RUN_FAULT;
        note_touch(x, o, true, space, address[l]);
        if (apply(x, o, l, at, global)) {
            x->warp->progressed = true;
        } else if (global) { /* memory as it was: perhaps a loop that waits */
            x->poll_address = address[l];
            x->poll_bytes = o->bytes;
            memcpy(x->poll_value, at, o->bytes);
            x->poll_pc = (u32)(o - x->code->ops);
            x->poll_count++;
            x->poll_touch = x->touch_count;
            x->warp->polled = polled = true;
        }
    }
    if (x->checker) check_acquire(x, o, m);
    return polled ? RUN_STOP : RUN_NEXT;
}
