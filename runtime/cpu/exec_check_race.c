/* exec_check_race.c - accesses of shared memory held against those before them, word by word: a race is two of them by
 * different threads, one a write, not both strong (atomic, volatile, relaxed or stronger), which nothing orders.
 *
 * A word keeps its last write, and the reads since; more than one of either only while they are not ordered, or touch
 * different bytes. Two unordered writes of the same value are no finding. Knows nothing of how order comes about
 * (exec_check_order.c) beyond reading clocks. */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/bits.h>
#include <runtime/cpu/exec_check_race.h>
#include <runtime/cpu/exec_undefined.h>

static inline u64 stamp_of(const struct exec *x, const struct op *o, u32 thread, enum stamp_kind kind, bool strong) {
    u64 pc = (u64)(o - x->code->ops);
    return (u64)x->checker->order->epoch[thread / WARP] << CLOCK | (pc < PC_MOST ? pc : PC_MOST) << PC |
           (u64)thread << THREAD | (u64)kind << KIND | (strong ? STRONG : 0);
}

static struct by by_lane(struct exec *x, const struct op *o, u32 lane, struct cta *cta, bool strong,
                         enum access access) {
    u32 thread = x->checker->first + thread_of(x, lane);
    return (struct by){.x = x,
                       .c = checker_of(cta),
                       .cta = cta,
                       .knows = x->checker->order->know[thread],
                       .stamp = stamp_of(x, o, thread, BY_THREAD, strong),
                       .thread = thread,
                       .lane = lane,
                       .self = 1u << lane,
                       .access = access};
}

/* ---- order ---- */
/* Whether all that the stamp says of these lanes is behind the access. *lane: one that is not. */
bool race_known(const struct by *by, u64 stamp, u32 lanes, u32 *lane) {
    u32 clock = clock_in(stamp), base = thread_in(stamp) / WARP * WARP;
    const u32 *at = by->knows->at;
    if (clock <= by->knows->floor) return true;
    *lane = 0;
    if (kind_in(stamp) != BY_THREAD) {
        u32 count = kind_in(stamp) == BY_WARP ? WARP : WARP * WARPGROUP;
        if (by->thread - base < count) return true;
        for (u32 i = 0; i < count; i++)
            if (at[base + i] >= clock) return true;
        return false;
    }
    if (by->thread - base < WARP) lanes &= ~by->self;
    FOR_LANES(l, lanes) {
        if (at[base + l] >= clock) continue;
        *lane = l;
        return false;
    }
    return true;
}

/* ---- words ---- */
bool race_found(const struct by *by, u64 stamp, u32 lane, bool written, u32 word) {
    static const char *const kinds[2][2] = {{"", "write after read"}, {"read after write", "write after write"}};
    struct exec *x = by->x;
    char name[200] = "", *text = x->fault->text;
    u32 thread = kind_in(stamp) == BY_THREAD ? thread_in(stamp) / WARP * WARP + lane : thread_in(stamp);
    u32 warps = by->cta->warp_count, rank = thread / WARP / warps, pc = (u32)(stamp >> PC) & PC_MOST;
    const struct cta *cta = x->warp->cta->cluster->ctas[rank];
    exec_append_name(x, word * 4 + SHARED_BASE, name, sizeof name);
    exec_fault(x, by->lane, FAULT_LAUNCH, "shared race, %s: %s of the 4 bytes at shared address 0x%x%s, which ",
               kinds[written][by->access >= ACCESS_WRITE],
               by->access == ACCESS_ATOMIC ? "atomic"
               : by->access == ACCESS_READ ? "read"
                                           : "write",
               word * 4 + SHARED_BASE, name);
    if (kind_in(stamp) != BY_THREAD)
        exec_append(text, sizeof x->fault->text, "%s of ", kind_in(stamp) == BY_WARP ? "the warp" : "the warpgroup");
    if (cta)
        exec_append_thread(exec_of(cta, thread / WARP % warps), thread % WARP, text, sizeof x->fault->text);
    else
        exec_append(text, sizeof x->fault->text, "a thread of CTA %u of the cluster, which has exited,", rank);
    exec_append(text, sizeof x->fault->text, " %s, and nothing orders the two; it did so at ",
                written ? (stamp & STRONG ? "wrote by an atomic or strong store" : "wrote") : "read");
    if (pc < x->code->op_count)
        exec_append_place(x, pc, text, sizeof x->fault->text);
    else
        exec_append(text, sizeof x->fault->text, "a far PTX line");
    return false;
}

/* ---- values ---- */
static void value_of(const struct exec *x, const struct op *o, u32 lane, u8 *to) {
    for (unsigned i = 0; i < o->count; i++) {
        unsigned stride = o->width == 128 ? 16 : o->width == 64 ? 8 : 4;
        memcpy(to + i * o->bytes, (const u8 *)AT(x, x->code->extra[o->extra + i]) + lane * stride, o->bytes);
    }
}

/* Whether the store writes into the word what the other write has: that is in memory, or another lane stores it now. */
bool race_same_value(const struct by *by, u64 stamp, u32 word, unsigned bytes) {
    const struct op *o = by->op;
    u8 mine[32], other[32];
    if (!o) return false;
    value_of(by->x, o, by->lane, mine);
    u64 begin = by->address ? by->address[by->lane] - SHARED_BASE : 0;
    u32 lane = thread_in(stamp) % WARP, size = (u32)o->bytes * o->count;
    u64 there = by->address && by->lanes >> lane & 1 ? by->address[lane] - SHARED_BASE : UINT64_MAX;
    bool together = thread_in(stamp) / WARP == by->thread / WARP && (stamp ^ by->stamp) >> PC == 0 && lane < by->lane &&
                    there / 4 <= word && word * 4 < there + size;
    if (together) value_of(by->x, o, lane, other);
    for (u32 i = 0; i < 4; i++) {
        u64 at = (u64)word * 4 + i;
        if (!(bytes >> i & stamp >> i & 1)) continue;
        if (together && (at < there || at - there >= size)) continue;
        if (mine[at - begin] != (together ? other[at - there] : by->cta->shared[at])) return false;
    }
    return true;
}

/* ---- reads ---- */
static inline bool may_read(const struct by *by, const struct cell *cell, u32 word, unsigned bytes) {
    u32 lane;
    if (clashes(by, cell->write, own_lane(cell->write), bytes, &lane))
        return race_found(by, cell->write, lane, true, word);
    return !cell->more || records_permit(by, cell, word, bytes);
}

static inline void note_read(const struct by *by, struct cell *cell, unsigned bytes, u32 lanes) {
    u64 old = cell->read, now = by->stamp | bytes;
    u32 lane;
    if (!((old ^ now) & WHO) && (!((old ^ now) & BYTES) || cell->lanes == lanes)) {
        cell->lanes |= lanes;
        cell->read |= bytes;
        return;
    }
    if (old && (old & ~now & BYTES || now & ~old & STRONG || !race_known(by, old, cell->lanes, &lane)))
        records_keep_read(by->c, cell, old, cell->lanes);
    cell->read = now;
    cell->lanes = lanes;
}

/* ---- writes ---- */
static void note_partial(const struct by *by, struct cell *cell, unsigned bytes) {
    records_written(by, cell, bytes);
    if (cell->write) {
        u64 stays = record_stays(by, cell->write, own_lane(cell->write), bytes);
        if (stays) records_keep(by->c, cell, stays, own_lane(stays), true);
    }
    if (cell->read) cell->read = record_stays(by, cell->read, cell->lanes, bytes);
    cell->write = by->stamp | bytes;
}

static inline bool write_word(const struct by *by, struct cell *cell, u32 word, unsigned bytes) {
    u32 lane;
    if (clashes(by, cell->write, own_lane(cell->write), bytes, &lane) &&
        !(by->access == ACCESS_WRITE && race_same_value(by, cell->write, word, bytes)))
        return race_found(by, cell->write, lane, true, word);
    if (clashes(by, cell->read, cell->lanes, bytes, &lane)) return race_found(by, cell->read, lane, false, word);
    if (cell->more && !records_permit(by, cell, word, bytes)) return false;
    if (cell->crowd && !crowd_permits(by, cell, word, bytes)) return false;
    if (cell->crowd) crowd_leave(by, cell, bytes);
    if (bytes != BYTES || by->stamp & STRONG) {
        note_partial(by, cell, bytes);
        return true;
    }
    if (cell->more) records_clear(by->c, cell);
    cell->write = by->stamp | bytes;
    cell->read = 0;
    cell->lanes = 0;
    return true;
}

/* ---- accesses ---- */
static inline unsigned bytes_in(u64 offset, unsigned bytes) {
    return bytes >= 4 ? BYTES : bits_mask(bytes) << (offset & 3);
}

static inline bool access_words(const struct by *by, u64 offset, unsigned bytes) {
    unsigned mask = bytes_in(offset, bytes);
    struct cell *cells = by->c->cells;
    u32 word = (u32)(offset / 4), end = (u32)((offset + bytes + 3) / 4);
    for (; word < end && by->access != ACCESS_READ; word++)
        if (!write_word(by, &cells[word], word, mask)) return false;
    for (; word < end; word++) {
        if (!may_read(by, &cells[word], word, mask)) return false;
        note_read(by, &cells[word], mask, by->self);
    }
    return true;
}

/* Whether that many bytes, aligned to themselves, have been written. */
static inline bool all_known(const u8 *known, u64 offset, unsigned bytes) {
    u16 two;
    switch (bytes) {
    case 4:
        return (known[offset / 8] >> (offset & 4) & 15) == 15;
    case 8:
        return known[offset / 8] == 255;
    case 16:
        memcpy(&two, known + offset / 8, sizeof two);
        return two == UINT16_MAX;
    default:
        return bits_run(known, offset, bytes) == bytes;
    }
}

/* They have been now. */
static inline void make_known(u8 *known, u64 offset, unsigned bytes) {
    switch (bytes) {
    case 4:
        known[offset / 8] |= (u8)(15 << (offset & 4));
        break;
    case 8:
        known[offset / 8] = 255;
        break;
    case 16:
        memset(known + offset / 8, 255, 2);
        break;
    default:
        bits_put(known, offset, bytes, true);
    }
}

/* A run of whole words of eight bytes. */
static bool run_known(const u8 *known, u64 offset, unsigned bytes) {
    u64 all = UINT64_MAX, eight;
    if (offset % 8 || bytes % 64) return false;
    for (unsigned i = 0; i < bytes / 8; i += 8) {
        memcpy(&eight, known + offset / 8 + i, sizeof eight);
        all &= eight;
    }
    return all == UINT64_MAX;
}

/* The accesses of the lanes `left`, one after the other. by: lane 0's, changed. */
static bool access_lanes(struct by *by, struct clocks *const *know, u32 left, const u64 *address, unsigned bytes) {
    const u64 stamp = by->stamp;
    const u32 thread = by->thread;
    FOR_LANES(l, left) {
        by->knows = know[l];
        by->lane = l;
        by->self = 1u << l;
        by->thread = thread + l;
        by->stamp = stamp + ((u64)l << THREAD);
        if (!by->c->order->blind && !access_words(by, address[l] - SHARED_BASE, bytes)) return false;
    }
    return true;
}

/* A load of bytes some of which nobody has written: those that the kernel says it does not use do not count, and the
 * others may be loaded to registers that are watched. */
static bool load_known(struct exec *x, const struct op *o, u32 lane, const struct cta *cta, u64 offset,
                       unsigned bytes) {
    u32 known = bits_get(checker_of(cta)->known, offset, bytes) | (o->flags & F_PARTLY ? o->b : 0);
    if (known == bits_mask(bytes)) return true;
    return (cta == x->warp->cta && undefined_loaded(x, o, lane, known, offset + SHARED_BASE)) ||
           check_known(x, lane, cta, offset, bytes);
}

bool check_load(struct exec *x, const struct op *o, u32 m, const u64 *address, unsigned bytes, bool linear) {
    struct cta *cta = x->warp->cta;
    struct by by = by_lane(x, o, 0, cta, o->order != ORDER_WEAK, ACCESS_READ);
    struct clocks **know = x->checker->order->know + by.thread;
    if (o->order != ORDER_WEAK) check_acquire(x, o, m);
    const bool known = linear && run_known(by.c->known, address[0] - SHARED_BASE, bytes * WARP);
    FOR_LANES(l, known ? 0 : m) {
        u64 offset = address[l] - SHARED_BASE;
        if (!all_known(by.c->known, offset, bytes) && !load_known(x, o, l, cta, offset, bytes)) return false;
    }
    const u32 left = race_fast_load(&by, know, m, address, bytes);
    return access_lanes(&by, know, left, address, bytes);
}

bool check_store(struct exec *x, const struct op *o, u32 m, const u64 *address, unsigned bytes, bool linear) {
    struct cta *cta = x->warp->cta;
    struct by by = by_lane(x, o, 0, cta, o->order != ORDER_WEAK, ACCESS_WRITE);
    struct clocks **know = x->checker->order->know + by.thread;
    by.op = o;
    by.address = address;
    by.lanes = m;
    const u32 vague = undefined_lanes(x, o);
    if (linear) bits_put(by.c->known, address[0] - SHARED_BASE, (u64)bytes * WARP, true);
    FOR_LANES(l, linear ? vague : m) {
        u64 offset = address[l] - SHARED_BASE;
        make_known(by.c->known, offset, bytes);
        if (vague >> l & 1) bits_clear(by.c->known, offset, undefined_stored(x, o, l));
    }
    const u32 left = race_fast_store(&by, know, m, address, bytes);
    return access_lanes(&by, know, left, address, bytes);
}

/* The bytes of a read are written, or may be read all the same. */
static bool read_known(struct exec *x, const struct op *o, u32 lane, const struct cta *cta, u64 offset,
                       unsigned bytes) {
    if (all_known(checker_of(cta)->known, offset, bytes)) return true;
    return undefined_is_load(x, o) ? load_known(x, o, lane, cta, offset, bytes)
                                   : check_known(x, lane, cta, offset, bytes);
}

/* A lane's bytes are written, but for those that it had from unwritten ones. */
static void write_known(struct exec *x, const struct op *o, u32 lane, struct cta *cta, u64 offset, unsigned bytes) {
    check_written(cta, offset, bytes);
    if (undefined_lanes(x, o) >> lane & 1) bits_clear(checker_of(cta)->known, offset, undefined_stored(x, o, lane));
}

bool check_place(struct exec *x, u32 lane, struct cta *cta, u64 offset, unsigned bytes, enum access access) {
    const struct op *o = x->doing;
    bool atomic = access == ACCESS_ATOMIC;
    if (access != ACCESS_WRITE && !(atomic && o->sub == ATOMIC_EXCH) && !read_known(x, o, lane, cta, offset, bytes))
        return false;
    if (access != ACCESS_READ) write_known(x, o, lane, cta, offset, bytes);
    if (atomic || (access == ACCESS_READ && o->order != ORDER_WEAK)) check_acquire(x, o, 1u << lane);
    struct by by = by_lane(x, o, lane, cta, atomic || o->order != ORDER_WEAK, access);
    if (access == ACCESS_WRITE) by.op = o;
    if (!by.op) return by.c->order->blind || access_words(&by, offset, bytes);
    u64 address[WARP];
    address[lane] = offset + SHARED_BASE;
    by.address = address;
    return by.c->order->blind || access_words(&by, offset, bytes);
}

bool check_async(struct exec *x, const struct op *o, u32 lane, struct cta *cta, u64 offset, unsigned bytes,
                 enum access access) {
    struct by by = by_lane(x, o, lane, cta, false, access);
    return by.c->order->blind || access_words(&by, offset, bytes);
}

/* Each array that one of the lanes knows by, once: lanes that stand for all. */
static u32 who_know(const struct ordering *r, u32 first, u32 lanes) {
    const struct clocks *last = NULL;
    u32 few = 0;
    FOR_LANES(l, lanes) {
        if (r->know[first + l] == last) continue;
        last = r->know[first + l];
        few |= 1u << l;
    }
    return few;
}

static bool all_may_read(struct by *by, u32 first, u32 few, u64 offset, unsigned bytes) {
    by->self = 0;
    FOR_LANES(l, few) {
        by->knows = by->c->order->know[first + l];
        by->thread = first + l;
        by->lane = l;
        for (u32 word = (u32)(offset / 4); word < (offset + bytes) / 4; word++)
            if (!may_read(by, &by->c->cells[word], word, BYTES)) return false;
    }
    return true;
}

static void note_together(struct by *by, u32 first, u64 offset, unsigned bytes, enum stamp_kind kind) {
    by->stamp = (by->stamp & ~((u64)(THREADS_MOST - 1) << THREAD)) | (u64)kind << KIND | (u64)first << THREAD;
    for (u32 word = (u32)(offset / 4); word < (offset + bytes) / 4; word++)
        note_read(by, &by->c->cells[word], BYTES, ALL_LANES);
}

bool check_rows(struct exec *x, const struct op *o, u8 *const *rows, u32 count, enum access access) {
    enum { ROW = 16 };
    struct cta *cta = x->warp->cta;
    struct by by = by_lane(x, o, 0, cta, false, ACCESS_READ);
    const u64 stamp = by.stamp;
    const u32 first = by.thread, few = by.c->order->blind ? 0 : who_know(by.c->order, first, x->live);
    for (u32 l = 0; l < count; l++) {
        u64 offset = (u64)(rows[l] - cta->shared);
        if (access == ACCESS_WRITE) {
            check_written(cta, offset, ROW);
            if (!check_async(x, o, l, cta, offset, ROW, ACCESS_WRITE)) return false;
            continue;
        }
        if (!all_known(by.c->known, offset, ROW) && !check_known(x, l, cta, offset, ROW)) return false;
        if (by.c->order->blind) continue;
        by.stamp = stamp;
        if (!all_may_read(&by, first, few, offset, ROW)) return false;
        note_together(&by, first, offset, ROW, BY_WARP);
    }
    return true;
}

bool check_wgmma(struct exec *x, const struct op *o, unsigned group, u64 offset) {
    struct cta *cta = x->warp->cta;
    u32 first = x->checker->first + group * WARPGROUP * WARP;
    struct by by = by_lane(x, o, 0, cta, false, ACCESS_READ);
    if (by.c->order->blind) return true;
    for (u32 w = 0; w < WARPGROUP; w++)
        if (!all_may_read(&by, first + w * WARP, who_know(by.c->order, first + w * WARP, ALL_LANES), offset, UNIT))
            return false;
    note_together(&by, first, offset, UNIT, BY_GROUP);
    return true;
}

bool check_mbarrier(struct exec *x, u32 lane, const struct place *place) {
    struct by by = by_lane(x, x->code->ops, lane, place->cta, true, ACCESS_READ);
    for (u32 word = place->offset / 4; word < place->offset / 4 + 2 && !by.c->order->blind; word++)
        if (!may_read(&by, &by.c->cells[word], word, BYTES)) return false;
    return true;
}
