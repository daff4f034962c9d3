/* exec_memory.c - loads, stores and fences. Checks alignment, and bounds of shared, local and parameter memory; global
 * memory is the world's. A polled load (volatile, relaxed, acquire from global memory) ends a warp's burst. */
#include <string.h>
#include <runtime/cpu/bits.h>
#include <runtime/cpu/exec_async.h>
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_copy.h>
#include <runtime/cpu/exec_memory.h>
#include <runtime/cpu/exec_vector.h>

/* Address of each active lane, offset added: modulo 2^32 where the register has 32 bits. */
void lane_addresses(const struct exec *x, const struct op *o, u64 *address) {
    if (o->flags & F_WIDE_ADDRESS) {
        const u64 *a = AT(x, o->a);
        for (int l = 0; l < WARP; l++)
            address[l] = a[l] + (u64)o->imm;
    } else {
        const u32 *a = AT(x, o->a), offset = (u32)o->imm;
        for (int l = 0; l < WARP; l++)
            address[l] = a[l] + offset;
    }
}

static int misaligned(struct exec *x, u32 lane, u64 address, unsigned bytes) {
    return exec_fault(x, lane, FAULT_MISALIGNED, "address 0x%llx is not aligned to the %u bytes of the access",
                      (unsigned long long)address, bytes);
}

static int outside(struct exec *x, u32 lane, const char *what, u64 address, unsigned bytes, u64 begin, u64 size) {
    u64 end = begin + size;
    return exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS,
                      "%u bytes at %s address 0x%llx: the %s memory is [0x%llx, 0x%llx)", bytes, what,
                      (unsigned long long)address, what, (unsigned long long)begin, (unsigned long long)end);
}

/* Shared memory of any CTA of the cluster. */
static u8 *cluster_at(struct exec *x, u32 lane, enum space space, u64 address, unsigned bytes, enum access access) {
    struct place place;
    if (!place_of(x, lane, space, address, bytes, bytes, &place)) return NULL;
    bool own = place.cta == x->warp->cta;
    if (place.cta->copies && access &&
        !(own ? copies_permit(x, lane, 1u << lane, place.offset, bytes, access)
              : copies_permit_remote(x, lane, place.cta, place.offset, bytes, access)))
        return NULL;
    if (x->checker && access && !check_place(x, lane, place.cta, place.offset, bytes, access)) return NULL;
    return place.cta->shared + place.offset;
}

u8 *window_at(struct exec *x, u32 lane, enum space space, u64 address, unsigned bytes, enum access access) {
    if (space == SPACE_CLUSTER || (space == SPACE_SHARED && address >> RANK_SHIFT))
        return cluster_at(x, lane, space, address, bytes, access);
    const struct cta *cta = x->warp->cta;
    const struct ptx_function *fn = cta->grid->fn;
    u64 begin = space == SPACE_SHARED ? SHARED_BASE : 0;
    u64 size = space == SPACE_SHARED ? cta->shared_bytes : space == SPACE_LOCAL ? fn->local_bytes : fn->param_bytes;
    u8 *base = space == SPACE_SHARED  ? cta->shared
               : space == SPACE_LOCAL ? x->local + (size_t)lane * fn->local_bytes
                                      : cta->grid->params;
    if (address % bytes) {
        misaligned(x, lane, address, bytes);
        return NULL;
    }
    if (address < begin || address - begin > size || size - (address - begin) < bytes) {
        outside(x, lane,
                space == SPACE_SHARED  ? "shared"
                : space == SPACE_LOCAL ? "local"
                                       : "parameter",
                address, bytes, begin, size);
        return NULL;
    }
    if (cta->copies && space == SPACE_SHARED && access &&
        !copies_permit(x, lane, 1u << lane, address - begin, bytes, access))
        return NULL;
    if (x->checker && space == SPACE_SHARED && access &&
        !check_place(x, lane, x->warp->cta, address - begin, bytes, access))
        return NULL;
    return base + (address - begin);
}

enum space space_of(u64 *address) {
    switch (WINDOW_OF(*address)) {
    case WINDOW_SHARED:
        *address ^= WINDOW_SHARED;
        return *address >> RANK_SHIFT ? SPACE_CLUSTER : SPACE_SHARED;
    case WINDOW_LOCAL:
        *address ^= WINDOW_LOCAL;
        return SPACE_LOCAL;
    case WINDOW_PARAM:
        *address ^= WINDOW_PARAM;
        return SPACE_PARAM;
    default:
        return SPACE_GLOBAL;
    }
}

enum space in_space(enum space stated, u64 *address) {
    u64 mark = stated == SPACE_SHARED || stated == SPACE_CLUSTER ? WINDOW_SHARED
               : stated == SPACE_LOCAL                           ? WINDOW_LOCAL
               : stated == SPACE_PARAM                           ? WINDOW_PARAM
                                                                 : 0;
    if (WINDOW_OF(*address) == mark) *address ^= mark;
    return stated;
}

/* ---- loads ---- */
static void note_poll(struct exec *x, const struct op *o, u64 address, const u8 *value, unsigned bytes) {
    x->poll_address = address;
    x->poll_bytes = bytes < 16 ? bytes : 16;
    memcpy(x->poll_value, value, x->poll_bytes);
    x->poll_pc = (u32)(o - x->code->ops);
    x->poll_count++;
    x->poll_touch = x->touch_count;
    x->warp->polled = true;
}

static bool load_global_lane(struct exec *x, const struct op *o, u32 lane, u64 address, u8 *to, unsigned bytes) {
    if (address % bytes) {
        misaligned(x, lane, address, bytes);
        return false;
    }
    x->fault_lane = lane;
    note_access(x, o);
    for (unsigned at = 0; at < bytes; at += 16)
        if (!world_load(x->world, x->warp, thread_of(x, lane), address + at, to + at, bytes < 16 ? bytes : 16, o->order,
                        o->scope, x->fault))
            return false;
    return !x->checker || check_global(x, o, 1u << lane, true, address, bytes);
}

/* Lanes `first` and on at addresses that follow each other, or at one address: how many, as bits. */
static u32 run_of(const u64 *address, u32 left, u32 first, unsigned bytes, bool *same) {
    u32 run = 1u << first, next = first + 1;
    *same = next < WARP && (left >> next & 1) && address[next] == address[first];
    u64 stride = *same ? 0 : bytes;
    for (; next < WARP && (left >> next & 1) && address[next] == address[next - 1] + stride; next++)
        run |= 1u << next;
    return run;
}

/* The world is asked once for lanes that lie side by side; where it refuses, lane by lane, to find the one at fault. */
static bool load_run(struct exec *x, const struct op *o, u32 run, bool same, const u64 *address, u8 *to,
                     unsigned bytes) {
    u32 first = (u32)__builtin_ctz(run), count = same ? 1 : (u32)__builtin_popcount(run);
    if (count > 1 && address[first] % bytes == 0) {
        note_access(x, o);
        if (world_load(x->world, x->warp, thread_of(x, first), address[first], to, bytes * count, o->order, o->scope,
                       x->fault))
            return !x->checker || check_global(x, o, run, same, address[first], bytes);
        FOR_LANES(l, run)
        if (!load_global_lane(x, o, l, address[l], to, bytes)) return false;
    }
    return load_global_lane(x, o, first, address[first], to, bytes);
}

/* A weak load where global memory is plain: all lanes at once. false: nothing is done. */
static bool load_plain(struct exec *x, const struct op *o, u32 m, const u64 *address, unsigned bytes) {
    struct span span;
    struct plain plain;
    const u8 *from[WARP];
    const bool input = x->checker && o->flags & (F_INPUT | F_NC);
    if (o->order != ORDER_WEAK || !span_of(address, m, bytes, &span) || (input && !span.linear) ||
        !world_plain(x->world, x->warp, span.low, span.bytes, false, &plain))
        return false;
    if (x->checker && plain.written && bits_run(plain.written, plain.first, span.bytes) < span.bytes) FOR_LANES(l, m)
    if (bits_run(plain.written, plain.first + (address[l] - span.low), bytes) < bytes) return false;
    if (input) world_read_input(x->world, x->warp, span.low, span.bytes, o->flags & F_INPUT);
    if (span.linear) {
        registers_load_linear(x, o, plain.at);
        return true;
    }
    for (u32 l = 0; l < WARP; l++)
        from[l] = plain.at + (m >> l & 1 ? address[l] - span.low : 0);
    registers_load(x, o, m, from);
    return true;
}

int op_load_global(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    u8 raw[WARP * 32];
    const u8 *from[WARP];
    unsigned bytes = (unsigned)o->bytes * o->count, used = 0;
    lane_addresses(x, o, address);
    if (load_plain(x, o, m, address, bytes)) {
        note_touch(x, o, false, SPACE_GLOBAL, address[__builtin_ctz(m)]);
        return RUN_NEXT;
    }
    for (u32 left = m; left;) {
        u32 first = (u32)__builtin_ctz(left);
        bool same;
        u32 run = run_of(address, left, first, bytes, &same);
        if (!load_run(x, o, run, same, address, raw + used, bytes)) return RUN_FAULT;
        FOR_LANES(l, run) {
            from[l] = raw + used;
            used += same ? 0 : bytes;
        }
        used += same ? bytes : 0;
        left &= ~run;
    }
    registers_load(x, o, m, from);
    u32 first = (u32)__builtin_ctz(m);
    note_touch(x, o, false, SPACE_GLOBAL, address[first]);
    if (o->order == ORDER_WEAK) return RUN_NEXT;
    if (x->checker) check_acquire(x, o, m);
    note_poll(x, o, address[first], from[first], bytes);
    return RUN_STOP;
}

int op_load_generic(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    u8 raw[WARP][32];
    const u8 *from[WARP];
    unsigned bytes = (unsigned)o->bytes * o->count;
    bool polled = false;
    lane_addresses(x, o, address);
    x->doing = o;
    if (x->checker) check_acquire(x, o, m);
    FOR_LANES(l, m) {
        enum space space = space_of(&address[l]);
        if (space == SPACE_GLOBAL || space == SPACE_SHARED) note_touch(x, o, false, space, address[l]);
        if (space != SPACE_GLOBAL) {
            if (!(from[l] = window_at(x, l, space, address[l], bytes, ACCESS_READ))) return RUN_FAULT;
            continue;
        }
        if (!load_global_lane(x, o, l, address[l], raw[l], bytes)) return RUN_FAULT;
        from[l] = raw[l];
        if (o->order != ORDER_WEAK) {
            note_poll(x, o, address[l], raw[l], bytes);
            polled = true;
        }
    }
    registers_load(x, o, m, from);
    return polled ? RUN_STOP : RUN_NEXT;
}

/* Whether all active addresses are aligned and within the CTA's shared memory, without a fault: the common case. */
static bool all_in_shared(const struct exec *x, const u64 *address, u32 m, unsigned bytes, struct span *span) {
    u64 size = x->warp->cta->shared_bytes;
    return span_of(address, m, bytes, span) && span->low >= SHARED_BASE && span->low - SHARED_BASE <= size &&
           span->bytes <= size - (span->low - SHARED_BASE);
}

int op_load_window(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    const u8 *from[WARP];
    struct span span;
    unsigned bytes = (unsigned)o->bytes * o->count;
    lane_addresses(x, o, address);
    if (o->space == SPACE_SHARED && all_in_shared(x, address, m, bytes, &span)) {
        const u8 *shared = x->warp->cta->shared;
        note_touch(x, o, false, SPACE_SHARED, address[__builtin_ctz(m)]);
        if (x->warp->cta->copies && !copies_permit_each(x, m, address, bytes, ACCESS_READ)) return RUN_FAULT;
        if (x->checker && !check_load(x, o, m, address, bytes, span.linear)) return RUN_FAULT;
        if (span.linear) {
            registers_load_linear(x, o, shared + (span.low - SHARED_BASE));
            return RUN_NEXT;
        }
        for (u32 l = 0; l < WARP; l++)
            from[l] = shared + (m >> l & 1 ? address[l] - SHARED_BASE : 0);
        registers_load(x, o, m, from);
        return RUN_NEXT;
    }
    x->doing = o;
    FOR_LANES(l, m) {
        in_space(o->space, &address[l]);
        if (o->space == SPACE_SHARED) note_touch(x, o, false, SPACE_SHARED, address[l]);
        if (!(from[l] = window_at(x, l, o->space, address[l], bytes, ACCESS_READ))) return RUN_FAULT;
    }
    registers_load(x, o, m, from);
    return RUN_NEXT;
}

/* ---- stores ---- */
static void gather(const struct exec *x, const struct op *o, u32 m, u8 (*to)[32]) {
    for (unsigned i = 0; i < o->count; i++) {
        const u8 *s = AT(x, x->code->extra[o->extra + i]);
        unsigned at = i * o->bytes, stride = o->width == 128 ? 16 : o->width == 64 ? 8 : 4;
        if (o->bytes == 4) {
            FOR_LANES(l, m) memcpy(to[l] + at, s + l * stride, 4);
        } else if (o->bytes == 8) {
            FOR_LANES(l, m) memcpy(to[l] + at, s + l * stride, 8);
        } else {
            FOR_LANES(l, m) memcpy(to[l] + at, s + l * stride, o->bytes);
        }
    }
}

static bool store_global_lane(struct exec *x, const struct op *o, u32 lane, u64 address, const u8 *from,
                              unsigned bytes) {
    bool changed = false;
    if (address % bytes) {
        misaligned(x, lane, address, bytes);
        return false;
    }
    x->fault_lane = lane;
    note_access(x, o);
    for (unsigned at = 0; at < bytes; at += 16) {
        if (!world_store(x->world, x->warp, thread_of(x, lane), address + at, from + at, bytes < 16 ? bytes : 16,
                         o->order, o->scope, &changed, x->fault))
            return false;
        x->warp->progressed |= changed;
    }
    return true;
}

static bool store_window_lane(struct exec *x, enum space space, u32 lane, u64 address, const u8 *from, unsigned bytes) {
    if (space == SPACE_PARAM) {
        exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS, "parameters are read-only: store to parameter address 0x%llx",
                   (unsigned long long)address);
        return false;
    }
    u8 *to = window_at(x, lane, space, address, bytes, ACCESS_WRITE);
    if (!to) return false;
    if (memcmp(to, from, bytes) != 0) {
        x->warp->progressed = true;
        memcpy(to, from, bytes);
    }
    return true;
}

/* What the lanes see of asynchronous copies, those who acquire will. */
static inline void release_copies(struct exec *x, const struct op *o, u32 m) {
    if (o->order >= ORDER_RELEASE && x->warp->cta->copies) copies_release(x, m);
}

static inline void release(struct exec *x, const struct op *o, u32 m) {
    release_copies(x, o, m);
    x->doing = o;
    if (x->checker) check_release(x, o, m);
}

/* A store that releases nothing where global memory is plain. false: nothing is done. */
static bool store_plain(struct exec *x, const struct op *o, u32 m, const u64 *address, unsigned bytes) {
    struct span span;
    struct plain plain;
    u8 *to[WARP];
    if (o->order >= ORDER_ACQUIRE || !span_of(address, m, bytes, &span) ||
        !world_plain(x->world, x->warp, span.low, span.bytes, true, &plain))
        return false;
    if (span.linear) {
        if (plain.written) bits_put(plain.written, plain.first, span.bytes, true);
        x->warp->progressed |= registers_store_linear(x, o, plain.at);
        return true;
    }
    FOR_LANES(l, m) {
        u64 offset = address[l] - span.low;
        to[l] = plain.at + offset;
        if (plain.written) bits_put(plain.written, plain.first + offset, bytes, true);
    }
    x->warp->progressed |= registers_store(x, o, m, to);
    return true;
}

int op_store_global(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    u8 raw[WARP][32];
    unsigned bytes = (unsigned)o->bytes * o->count;
    lane_addresses(x, o, address);
    release(x, o, m);
    note_touch(x, o, true, SPACE_GLOBAL, address[__builtin_ctz(m)]);
    if (store_plain(x, o, m, address, bytes)) return RUN_NEXT;
    gather(x, o, m, raw);
    FOR_LANES(l, m)
    if (!store_global_lane(x, o, l, address[l], raw[l], bytes)) return RUN_FAULT;
    return RUN_NEXT;
}

int op_store_generic(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    u8 raw[WARP][32];
    unsigned bytes = (unsigned)o->bytes * o->count;
    lane_addresses(x, o, address);
    gather(x, o, m, raw);
    release(x, o, m);
    FOR_LANES(l, m) {
        enum space space = space_of(&address[l]);
        if (space == SPACE_GLOBAL || space == SPACE_SHARED) note_touch(x, o, true, space, address[l]);
        if (space == SPACE_GLOBAL ? !store_global_lane(x, o, l, address[l], raw[l], bytes)
                                  : !store_window_lane(x, space, l, address[l], raw[l], bytes))
            return RUN_FAULT;
    }
    return RUN_NEXT;
}

int op_store_window(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    u8 raw[WARP][32], *to[WARP], *shared = x->warp->cta->shared;
    struct span span;
    unsigned bytes = (unsigned)o->bytes * o->count;
    lane_addresses(x, o, address);
    release(x, o, m);
    if (o->space == SPACE_SHARED) note_touch(x, o, true, SPACE_SHARED, address[__builtin_ctz(m)] & ~WINDOW_OF(~(u64)0));
    if (o->space == SPACE_SHARED && all_in_shared(x, address, m, bytes, &span)) {
        if (x->warp->cta->copies && !copies_permit_each(x, m, address, bytes, ACCESS_WRITE)) return RUN_FAULT;
        if (x->checker && !check_store(x, o, m, address, bytes, span.linear)) return RUN_FAULT;
        if (span.linear) {
            x->warp->progressed |= registers_store_linear(x, o, shared + (span.low - SHARED_BASE));
            return RUN_NEXT;
        }
        FOR_LANES(l, m) to[l] = shared + (address[l] - SHARED_BASE);
        x->warp->progressed |= registers_store(x, o, m, to);
        return RUN_NEXT;
    }
    gather(x, o, m, raw);
    FOR_LANES(l, m) {
        in_space(o->space, &address[l]);
        if (!store_window_lane(x, o->space, l, address[l], raw[l], bytes)) return RUN_FAULT;
    }
    return RUN_NEXT;
}

int op_fence(struct exec *x, const struct op *o, u32 m) {
    release_copies(x, o, m);
    if (x->checker) check_fence(x, m);
    FOR_LANES(l, m) world_fence(x->world, x->warp, thread_of(x, l), o->order, o->scope);
    return RUN_NEXT;
}

/* prefetch: the address must be one that a load could use; nothing moves. */
int op_prefetch(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    lane_addresses(x, o, address);
    FOR_LANES(l, m) {
        enum space space = o->space == SPACE_GENERIC ? space_of(&address[l]) : o->space;
        x->fault_lane = l;
        if (space == SPACE_GLOBAL || space == SPACE_CONST) {
            if (!world_reach(x->world, x->warp, address[l], 1, false, x->fault)) return RUN_FAULT;
        } else if (!window_at(x, l, space, address[l], 1, ACCESS_NONE)) {
            return RUN_FAULT;
        }
    }
    return RUN_NEXT;
}
