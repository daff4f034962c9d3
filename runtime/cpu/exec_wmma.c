/* exec_wmma.c - wmma: matrices between memory and fragments, and their product.
 * Where an element of a matrix lies in the warp's registers is not said by the ISA: here lane l holds the elements
 * [l N/32, (l + 1) N/32) of the matrix in row-major order, in ascending registers; fragments with more room (f16) hold
 * them again behind that. Sums are those of mma.sync (exec_mma.c): exact products added in double in ascending k, then
 * c, rounded once. */
#include <string.h>
#include <runtime/cpu/exec_wmma.h>

enum { MOST = 32 };

static unsigned bytes_of(unsigned kind) {
    return kind == N_F64 ? 8 : kind <= N_S8 ? 1 : kind == N_F16 || kind == N_BF16 ? 2 : 4;
}

/* The bytes of element `index` of the lane's part of a fragment that lies in registers[0], [1], ... */
static u8 *element_at(struct exec *x, const u32 *registers, unsigned kind, unsigned lane, unsigned index) {
    unsigned bytes = bytes_of(kind), stride = bytes == 8 ? 8 : 4, per = stride / bytes;
    return (u8 *)AT(x, registers[index / per]) + lane * stride + index % per * bytes;
}

static double number_of(unsigned kind, const u8 *at) {
    static const enum float_format formats[] = {[N_F16] = FMT_F16, [N_BF16] = FMT_BF16, [N_F32] = FMT_F32};
    u32 word = 0;
    f64 wide;
    if (kind == N_F64) {
        memcpy(&wide, at, 8);
        return wide;
    }
    memcpy(&word, at, bytes_of(kind));
    if (kind == N_U8) return (double)word;
    if (kind == N_S8) return (double)(int8_t)word;
    if (kind == N_S32) return (double)(s32)word;
    if (kind == N_TF32) return float_to_double(FMT_F32, word & 0xFFFFE000);
    return float_to_double(formats[kind], word);
}

static void number_put(unsigned kind, double value, bool saturates, u8 *to) {
    s64 whole = kind == N_S32 ? (s64)value : 0; /* sums of 8-bit products and a 32-bit c are exact in double */
    if (saturates) whole = whole < INT32_MIN ? INT32_MIN : whole > INT32_MAX ? INT32_MAX : whole;
    u64 bits =
        kind == N_S32 ? (u32)(u64)whole : float_from_double(kind == N_F16 ? FMT_F16 : FMT_F32, value, ROUND_NEAREST);
    if (kind == N_F64) memcpy(&bits, &value, 8);
    memcpy(to, &bits, bytes_of(kind));
}

static int apart(struct exec *x, const struct part *parts) {
    return exec_fault(x, (unsigned)__builtin_ctz(parts[1].lanes), FAULT_LAUNCH,
                      "an .aligned operation is executed at two places of one warp");
}

/* ---- memory ---- */
/* Address and stride, which all threads of the warp give alike. */
static bool matrix_place(struct exec *x, const struct op *o, u64 *address, u64 *stride) {
    u64 each[WARP];
    lane_addresses(x, o, each);
    const u32 *strides = o->b != NO_OPERAND ? AT(x, o->b) : NULL;
    *address = each[0];
    *stride = strides ? strides[0] : o->flags & F_TRANS ? o->wmma_rows : o->wmma_columns;
    for (unsigned l = 1; l < WARP; l++)
        if (each[l] != *address || (strides && strides[l] != strides[0])) {
            exec_fault(x, l, FAULT_LAUNCH, "its address or stride is not that of thread 0 of the warp: wmma wants one");
            return false;
        }
    return true;
}

static bool move(struct exec *x, const struct op *o, u32 lane, u64 address, u8 *element) {
    enum space space = o->space == SPACE_GENERIC ? space_of(&address) : o->space;
    unsigned bytes = bytes_of(o->sub), thread = thread_of(x, lane);
    bool store = o->wmma_store, changed = false;
    x->fault_lane = lane;
    if (space == SPACE_GLOBAL && address % bytes) {
        exec_fault(x, lane, FAULT_MISALIGNED, "address 0x%llx is not aligned to the %u bytes of an element",
                   (unsigned long long)address, bytes);
        return false;
    }
    if (space == SPACE_GLOBAL) note_access(x, o);
    if (space == SPACE_GLOBAL && store) {
        bool done =
            world_store(x->world, x->warp, thread, address, element, bytes, ORDER_WEAK, SCOPE_NONE, &changed, x->fault);
        x->warp->progressed |= changed;
        return done;
    }
    if (space == SPACE_GLOBAL)
        return world_load(x->world, x->warp, thread, address, element, bytes, ORDER_WEAK, SCOPE_NONE, x->fault);
    u8 *at = window_at(x, lane, space, address, bytes, store ? ACCESS_WRITE : ACCESS_READ);
    if (!at) return false;
    if (store && memcmp(at, element, bytes) != 0) x->warp->progressed = true;
    memcpy(store ? at : element, store ? element : at, bytes);
    return true;
}

/* extra: the registers; sub: the type */
int sync_wmma_memory(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    const struct op *o = parts[0].op;
    const u32 *registers = x->code->extra + o->extra;
    unsigned own = (unsigned)o->wmma_rows * o->wmma_columns / WARP, bytes = bytes_of(o->sub);
    unsigned room = (unsigned)o->count * (bytes == 8 ? 8 : 4) / bytes;
    u64 address, stride;
    (void)members;
    if (count > 1) return apart(x, parts);
    if (!matrix_place(x, o, &address, &stride)) return RUN_FAULT;
    x->doing = o;
    for (unsigned l = 0; l < WARP; l++)
        for (unsigned i = 0; i < own; i++) {
            unsigned row = (l * own + i) / o->wmma_columns, column = (l * own + i) % o->wmma_columns;
            u64 at = address + (o->flags & F_TRANS ? column * stride + row : row * stride + column) * bytes;
            u8 *element = element_at(x, registers, o->sub, l, i);
            if (!move(x, o, l, at, element)) return RUN_FAULT;
            for (unsigned again = own + i; !o->wmma_store && again < room; again += own)
                memcpy(element_at(x, registers, o->sub, l, again), element, bytes);
        }
    return RUN_NEXT;
}

/* ---- product ---- */
static void gather(struct exec *x, const u32 *registers, unsigned kind, unsigned rows, unsigned columns,
                   double out[MOST][MOST]) {
    unsigned own = rows * columns / WARP;
    for (unsigned at = 0; at < rows * columns; at++)
        out[at / columns][at % columns] = number_of(kind, element_at(x, registers, kind, at / own, at % own));
}

/* extra: m, n, k; types of d, a, b, c; where the registers of a, b, c begin; then the registers. */
int sync_wmma(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    const struct op *o = parts[0].op;
    const u32 *e = x->code->extra + o->extra, *registers = e + WMMA_HEAD;
    unsigned m = e[0], n = e[1], k = e[2], kind = e[3];
    double a[MOST][MOST] = {{0}}, b[MOST][MOST] = {{0}}, c[MOST][MOST] = {{0}};
    (void)members;
    if (count > 1) return apart(x, parts);
    gather(x, registers + e[7], e[4], m, k, a);
    gather(x, registers + e[8], e[5], k, n, b);
    gather(x, registers + e[9], e[6], m, n, c);
    unsigned own = m * n / WARP;
    for (unsigned at = 0; at < m * n; at++) {
        double sum = 0;
        for (unsigned i = 0; i < k; i++)
            sum += a[at / n][i] * b[i][at % n];
        number_put(kind, sum + c[at / n][at % n], o->flags & F_SATFINITE,
                   element_at(x, registers, kind, at / own, at % own));
    }
    return RUN_NEXT;
}
