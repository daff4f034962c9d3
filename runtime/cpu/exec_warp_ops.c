/* exec_warp_ops.c - operations among the threads of a warp: shuffles, votes, matches, reductions, matrices through
 * shared memory. Each gets the parts that meet; sources are gathered from all parts before anything is written. */
#include <string.h>
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_ops.h>

static void gather32(const struct exec *x, const struct part *parts, unsigned count, u32 operand_offset, u32 *out) {
    for (unsigned i = 0; i < count; i++) {
        u32 operand;
        memcpy(&operand, (const u8 *)parts[i].op + operand_offset, 4);
        const u32 *s = AT(x, operand);
        FOR_LANES(l, parts[i].lanes) out[l] = s[l];
    }
}
#define GATHER(field, out) gather32(x, parts, count, (u32)offsetof(struct op, field), out)

static void scatter32(struct exec *x, const struct part *parts, unsigned count, const u32 *values) {
    for (unsigned i = 0; i < count; i++) {
        u32 *d = AT(x, parts[i].op->d);
        FOR_LANES(l, parts[i].lanes) d[l] = values[l];
    }
}

static u32 gather_predicate(const struct exec *x, const struct part *parts, unsigned count) {
    u32 bits = 0;
    for (unsigned i = 0; i < count; i++)
        bits |= predicate_read(x, parts[i].op->c) & parts[i].lanes;
    return bits;
}

static void scatter_predicate(struct exec *x, const struct part *parts, unsigned count, u32 bits) {
    for (unsigned i = 0; i < count; i++)
        if (parts[i].op->extra != NO_OPERAND) predicate_write(x, parts[i].op->extra, bits, parts[i].lanes);
}

int sync_warp(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    (void)parts, (void)count;
    world_barrier(x->world, x->warp, false);
    if (x->copies) copies_meet(x, members);
    if (x->checker) check_meet(x, members);
    if (async_of(x->warp->cta)) proxy_sync(async_of(x->warp->cta));
    return RUN_NEXT;
}

/* All 32 lanes at one instruction: bit for bit what sync_shfl does. */
static int shfl_whole(struct exec *x, const struct op *o) {
    const u32 *a = AT(x, o->a), *b = AT(x, o->b), *c = AT(x, o->c);
    s32 from[WARP], in[WARP];
    u32 out[WARP], inside = 0, *d = AT(x, o->d);
    unsigned mode = o->sub;
    for (s32 lane = 0; lane < WARP; lane++) {
        s32 value = (s32)(b[lane] & 31), clamp = (s32)(c[lane] & 31), segment = (s32)(c[lane] >> 8 & 31);
        s32 most = (lane & segment) | (clamp & ~segment), least = lane & segment;
        s32 j = mode == 0   ? lane - value
                : mode == 1 ? lane + value
                : mode == 2 ? lane ^ value
                            : least | (value & ~segment);
        in[lane] = mode == 0 ? j >= most : j <= most;
        from[lane] = in[lane] ? j : lane;
    }
    for (u32 lane = 0; lane < WARP; lane++)
        out[lane] = a[from[lane]];
    memcpy(d, out, sizeof out);
    if (o->extra != NO_OPERAND) {
        for (u32 lane = 0; lane < WARP; lane++)
            inside |= (u32)in[lane] << lane;
        predicate_write(x, o->extra, inside, ALL_LANES);
    }
    return RUN_NEXT;
}

/* Reading a thread that is no member gives the reader its own value: hardware leaves it undefined. */
int sync_shfl(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    u32 a[WARP], b[WARP], c[WARP], out[WARP], inside = 0;
    if (members == ALL_LANES && count == 1) return shfl_whole(x, parts[0].op);
    GATHER(a, a);
    GATHER(b, b);
    GATHER(c, c);
    unsigned mode = parts[0].op->sub;
    FOR_LANES(l, members) {
        s32 lane = (s32)l, value = (s32)(b[l] & 31), clamp = (s32)(c[l] & 31), segment = (s32)(c[l] >> 8 & 31);
        s32 most = (lane & segment) | (clamp & ~segment), least = lane & segment, from;
        bool in;
        if (mode == 0)
            from = lane - value, in = from >= most;
        else if (mode == 1)
            from = lane + value, in = from <= most;
        else if (mode == 2)
            from = lane ^ value, in = from <= most;
        else
            from = least | (value & ~segment), in = from <= most;
        if (!in) from = lane;
        out[l] = members >> from & 1 ? a[from] : a[l];
        inside |= (u32)in << l;
    }
    scatter32(x, parts, count, out);
    scatter_predicate(x, parts, count, inside);
    return RUN_NEXT;
}

int sync_vote(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    u32 yes = gather_predicate(x, parts, count);
    unsigned mode = parts[0].op->sub;
    bool result = mode == 0 ? yes == members : mode == 1 ? yes != 0 : yes == 0 || yes == members;
    for (unsigned i = 0; i < count; i++) {
        if (mode != 3) {
            predicate_write(x, parts[i].op->d, result ? ALL_LANES : 0, parts[i].lanes);
            continue;
        }
        u32 *d = AT(x, parts[i].op->d);
        FOR_LANES(l, parts[i].lanes) d[l] = yes;
    }
    return RUN_NEXT;
}

int sync_match(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    u64 a[WARP] = {0};
    u32 out[WARP] = {0}, first = (u32)__builtin_ctz(members);
    bool wide = parts[0].op->width == 64, all = true;
    for (unsigned i = 0; i < count; i++)
        FOR_LANES(l, parts[i].lanes)
    a[l] = wide ? ((const u64 *)AT(x, parts[i].op->a))[l] : ((const u32 *)AT(x, parts[i].op->a))[l];
    for (u32 l = 0; l < WARP; l++)
        for (u32 k = 0; k < WARP && members >> l & 1; k++)
            out[l] |= (u32)(members >> k & 1 && a[k] == a[l]) << k;
    if (parts[0].op->sub) {
        all = out[first] == members;
        for (u32 l = 0; l < WARP; l++)
            out[l] = all ? members : 0;
    }
    scatter32(x, parts, count, out);
    scatter_predicate(x, parts, count, all ? ALL_LANES : 0);
    return RUN_NEXT;
}

int sync_redux(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    u32 a[WARP], first = (u32)__builtin_ctz(members);
    GATHER(a, a);
    u32 r = a[first], flip = parts[0].op->flags & F_SIGNED ? 0x80000000 : 0;
    FOR_LANES(l, members & ~(1u << first)) {
        switch (parts[0].op->sub) {
        case ATOMIC_ADD:
            r += a[l];
            break;
        case ATOMIC_MIN:
            r = (r ^ flip) < (a[l] ^ flip) ? r : a[l];
            break;
        case ATOMIC_MAX:
            r = (r ^ flip) > (a[l] ^ flip) ? r : a[l];
            break;
        case ATOMIC_AND:
            r &= a[l];
            break;
        case ATOMIC_OR:
            r |= a[l];
            break;
        default:
            r ^= a[l];
            break;
        }
    }
    for (u32 l = 0; l < WARP; l++)
        a[l] = r;
    scatter32(x, parts, count, a);
    return RUN_NEXT;
}

/* The lowest member leads. */
int sync_elect(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    u32 leader[WARP];
    for (u32 l = 0; l < WARP; l++)
        leader[l] = (u32)__builtin_ctz(members);
    scatter32(x, parts, count, leader);
    scatter_predicate(x, parts, count, members & (0 - members));
    return RUN_NEXT;
}

/* ---- ldmatrix, stmatrix: lane 8 i + r names row r of matrix i; thread t holds elements 2 (t % 4), + 1 of row t / 4;
 * bytes of a cp.async must be in the sight of the whole warp ---- */
static bool matrix_rows(struct exec *x, const struct op *o, u8 *rows[WARP], u8 *spare, enum access access) {
    const struct cta *cta = x->warp->cta;
    u64 address[WARP];
    for (u32 l = 0; l < WARP; l++)
        rows[l] = spare; /* of matrices that are not asked for */
    lane_addresses(x, o, address);
    for (u32 l = 0; l < 8u * o->count; l++) {
        u64 at = address[l], offset = at - SHARED_BASE;
        if (o->space == SPACE_SHARED && !(offset % 16) && offset < cta->shared_bytes &&
            cta->shared_bytes - offset >= 16) {
            rows[l] = cta->shared + offset; /* the common case */
            continue;
        }
        if (WINDOW_OF(at) && space_of(&at) != SPACE_SHARED) {
            exec_fault(x, l, FAULT_ADDRESS_SPACE, "matrices are moved from and to shared memory only");
            return false;
        }
        if (o->space == SPACE_GENERIC && !WINDOW_OF(address[l])) {
            exec_fault(x, l, FAULT_ADDRESS_SPACE, "generic address 0x%llx is not in shared memory",
                       (unsigned long long)at);
            return false;
        }
        if (!(rows[l] = window_at(x, l, SPACE_SHARED, at, 16, ACCESS_NONE))) return false;
    }
    for (u32 l = 0; cta->copies && l < 8u * o->count; l++)
        if (!copies_permit(x, l, x->live, (u64)(rows[l] - cta->shared), 16, access)) return false;
    return !x->checker || check_rows(x, o, rows, 8u * o->count, access);
}

static int split_warp(struct exec *x, const struct part *parts) {
    return exec_fault(x, (unsigned)__builtin_ctz(parts[1].lanes), FAULT_LAUNCH,
                      "an .aligned operation is executed at two places of one warp");
}

int sync_ldmatrix(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    const struct op *o = parts[0].op;
    u8 *rows[WARP], spare[16] = {0};
    (void)members;
    if (count > 1) return split_warp(x, parts);
    if (!matrix_rows(x, o, rows, spare, ACCESS_READ)) return RUN_FAULT;
    for (u32 i = 0; i < o->count; i++) {
        u32 *d = AT(x, x->code->extra[o->extra + i]);
        for (u32 t = 0; t < WARP; t++) {
            u16 low, high;
            if (o->flags & F_TRANS) {
                memcpy(&low, rows[8 * i + 2 * (t % 4)] + 2 * (t / 4), 2);
                memcpy(&high, rows[8 * i + 2 * (t % 4) + 1] + 2 * (t / 4), 2);
                d[t] = (u32)high << 16 | low;
            } else {
                memcpy(&d[t], rows[8 * i + t / 4] + 4 * (t % 4), 4);
            }
        }
    }
    return RUN_NEXT;
}

int sync_stmatrix(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    const struct op *o = parts[0].op;
    u8 *rows[WARP], spare[16] = {0};
    (void)members;
    if (count > 1) return split_warp(x, parts);
    if (!matrix_rows(x, o, rows, spare, ACCESS_WRITE)) return RUN_FAULT;
    for (u32 i = 0; i < o->count; i++) {
        const u32 *s = AT(x, x->code->extra[o->extra + i]);
        for (u32 t = 0; t < WARP; t++) {
            u16 low = (u16)s[t], high = (u16)(s[t] >> 16);
            if (o->flags & F_TRANS) {
                memcpy(rows[8 * i + 2 * (t % 4)] + 2 * (t / 4), &low, 2);
                memcpy(rows[8 * i + 2 * (t % 4) + 1] + 2 * (t / 4), &high, 2);
            } else {
                memcpy(rows[8 * i + t / 4] + 4 * (t % 4), &s[t], 4);
            }
        }
    }
    x->warp->progressed = true;
    return RUN_NEXT;
}
