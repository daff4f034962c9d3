/* exec_check_race.c - accesses of shared memory held against those before them, word by word: a race is two of them by
 * different threads, one a write, not both strong (atomic, volatile, relaxed or stronger), which nothing orders.
 *
 * A word keeps its last write, and the reads since; more than one of either only while they are not ordered, or touch
 * different bytes. Two unordered writes of the same value are no finding. Knows nothing of how order comes about
 * (exec_check_order.c) beyond reading clocks. */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/bits.h>
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/exec_undefined.h>

enum { STRONG = 1 << 4, KIND = 5, THREAD = 7, PC = 21, CLOCK = 40, BYTES = 15, PC_MOST = (1 << 19) - 1 };
#define THREADS_MOST (1u << (PC - THREAD))

struct by { /* one access */
    struct exec *x;
    const struct op *op; /* its values, where it is a store by threads; NULL: they are not known */
    struct checker *c;
    struct cta *cta;
    const struct clocks *knows;
    u64 stamp; /* bytes left out */
    u32 thread;
    u32 lane;
    const u64 *address; /* of all lanes that store at once; NULL: the others' values are in memory */
    u32 lanes;
    enum access access;
};

static inline u32 thread_in(u64 stamp) {
    return (u32)(stamp >> THREAD) & (THREADS_MOST - 1);
}

static inline u32 clock_in(u64 stamp) {
    return (u32)(stamp >> CLOCK);
}

static inline unsigned kind_in(u64 stamp) {
    return (unsigned)(stamp >> KIND) & 3;
}

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
                       .access = access};
}

/* ---- order ---- */
/* Whether all that the stamp says of these lanes is behind the access. *lane: one that is not. */
static bool is_known(const struct by *by, u64 stamp, u32 lanes, u32 *lane) {
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
    if (by->thread - base < WARP) lanes &= ~(1u << by->thread % WARP);
    FOR_LANES(l, lanes) {
        if (at[base + l] >= clock) continue;
        *lane = l;
        return false;
    }
    return true;
}

static inline u32 own_lane(u64 stamp) {
    return 1u << thread_in(stamp) % WARP;
}

static inline bool clashes(const struct by *by, u64 stamp, u32 lanes, unsigned bytes, u32 *lane) {
    if (!(stamp & bytes) || clock_in(stamp) <= by->knows->floor || (stamp & by->stamp & STRONG)) return false;
    return !is_known(by, stamp, lanes, lane);
}

/* ---- words ---- */
static bool race(const struct by *by, u64 stamp, u32 lane, bool written, u32 word) {
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

static struct record *records(const struct checker *c, u32 number) {
    return &c->records[number - 1];
}

/* ---- values ---- */
static void value_of(const struct exec *x, const struct op *o, u32 lane, u8 *to) {
    for (unsigned i = 0; i < o->count; i++) {
        unsigned stride = o->width == 128 ? 16 : o->width == 64 ? 8 : 4;
        memcpy(to + i * o->bytes, (const u8 *)AT(x, x->code->extra[o->extra + i]) + lane * stride, o->bytes);
    }
}

/* Whether the store writes into the word what the other write has: that is in memory, or another lane stores it now. */
static bool same_value(const struct by *by, u64 stamp, u32 word, unsigned bytes) {
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

/* ---- further records ---- */
static struct record *new_record(struct checker *c, u32 *number) {
    if (c->record_free) {
        *number = c->record_free;
        c->record_free = records(c, *number)->next;
        return records(c, *number);
    }
    if (c->record_count == c->record_capacity) {
        u32 capacity = c->record_capacity ? 2 * c->record_capacity : 256;
        struct record *grown = realloc(c->records, capacity * sizeof *grown);
        if (!grown) {
            c->order->blind = true;
            return NULL;
        }
        c->records = grown;
        c->record_capacity = capacity;
    }
    *number = ++c->record_count;
    return records(c, *number);
}

static void free_record(struct checker *c, u32 *link) {
    u32 number = *link;
    struct record *e = records(c, number);
    *link = e->next;
    e->next = c->record_free;
    c->record_free = number;
}

#define WHO (~UINT64_C(0) << CLOCK | (u64)(THREADS_MOST / WARP - 1) << (THREAD + 5) | 3u << KIND | STRONG)

/* Keeps a record beside the newest; it may take the place of one that it says more than. */
static void keep(struct checker *c, struct cell *cell, u64 stamp, u32 lanes, bool write) {
    for (u32 *link = &cell->more; *link;) {
        struct record *e = records(c, *link);
        bool alike = e->write == write && !((e->stamp ^ stamp) & WHO & ((UINT64_C(1) << CLOCK) - 1));
        if (alike && !((e->stamp ^ stamp) & WHO) && (e->lanes == lanes || !((e->stamp ^ stamp) & BYTES))) {
            e->lanes |= lanes;
            e->stamp |= stamp & BYTES;
            return;
        }
        if (alike && e->stamp <= stamp && !(e->lanes & ~lanes) && !(e->stamp & ~stamp & BYTES))
            free_record(c, link);
        else
            link = &e->next;
    }
    u32 number;
    struct record *e = new_record(c, &number);
    if (!e) return;
    *e = (struct record){stamp, lanes, cell->more, write};
    cell->more = number;
}

/* ---- crowds: many warps read what nobody writes ---- */
static struct slot *crowd_at(const struct checker *c, u32 number) {
    return c->crowds + (size_t)(number - 1) * c->crowd_slots;
}

static u32 new_crowd(struct checker *c) {
    u32 number = c->crowd_free;
    if (number) {
        c->crowd_free = crowd_at(c, number)->next;
        return number;
    }
    if (c->crowd_count == c->crowd_capacity) {
        u32 capacity = c->crowd_capacity ? 2 * c->crowd_capacity : 64;
        struct slot *grown = realloc(c->crowds, (size_t)capacity * c->crowd_slots * sizeof *grown);
        if (!grown) {
            c->order->blind = true;
            return 0;
        }
        c->crowds = grown;
        c->crowd_capacity = capacity;
    }
    number = ++c->crowd_count;
    crowd_at(c, number)->lanes = 0;
    return number;
}

static void end_crowd(struct checker *c, struct cell *cell) {
    struct slot *head = crowd_at(c, cell->crowd);
    head->lanes = 0;
    head->next = c->crowd_free;
    c->crowd_free = cell->crowd;
    cell->crowd = 0;
}

/* Keeps a read beside the newest. */
static void keep_read(struct checker *c, struct cell *cell, u64 stamp, u32 lanes) {
    u32 warp = thread_in(stamp) / WARP - c->first / WARP;
    bool plain = (stamp & BYTES) == BYTES && !(stamp & STRONG) && kind_in(stamp) != BY_GROUP;
    if (!plain || warp >= c->crowd_slots - 1) {
        keep(c, cell, stamp, lanes, false);
        return;
    }
    if (!cell->crowd && !(cell->crowd = new_crowd(c))) return;
    struct slot *head = crowd_at(c, cell->crowd), *slot = head + 1 + warp;
    if (head->lanes >> warp & 1) {
        bool alike = !((slot->stamp ^ stamp) & WHO);
        if (alike) lanes |= slot->lanes;
        if (slot->lanes & ~lanes || kind_in(slot->stamp) != kind_in(stamp))
            keep(c, cell, slot->stamp, slot->lanes, false);
    }
    head->lanes |= 1u << warp;
    slot->stamp = stamp;
    slot->lanes = lanes;
}

static bool crowd_permits(const struct by *by, struct cell *cell, u32 word, unsigned bytes) {
    const struct slot *head = crowd_at(by->c, cell->crowd);
    u32 lane;
    FOR_LANES(w, head->lanes)
    if (clashes(by, head[1 + w].stamp, head[1 + w].lanes, bytes, &lane))
        return race(by, head[1 + w].stamp, lane, false, word);
    return true;
}

/* Those that stay become records. */
static void leave_crowd(const struct by *by, struct cell *cell, unsigned bytes) {
    u32 number = cell->crowd;
    const u32 warps = crowd_at(by->c, number)->lanes;
    FOR_LANES(w, warps) {
        const struct slot slot = crowd_at(by->c, number)[1 + w];
        if (slot.stamp & BYTES & ~bytes) keep(by->c, cell, slot.stamp & ~(u64)bytes, slot.lanes, false);
    }
    end_crowd(by->c, cell);
}

static bool chain_permits(const struct by *by, const struct cell *cell, u32 word, unsigned bytes) {
    u32 lane;
    for (u32 i = cell->more; i; i = records(by->c, i)->next) {
        const struct record *e = records(by->c, i);
        if (!e->write && by->access == ACCESS_READ) continue;
        if (!clashes(by, e->stamp, e->lanes, bytes, &lane)) continue;
        if (e->write && by->access == ACCESS_WRITE && same_value(by, e->stamp, word, bytes)) continue;
        return race(by, e->stamp, lane, e->write, word);
    }
    return true;
}

/* ---- reads ---- */
static inline bool may_read(const struct by *by, const struct cell *cell, u32 word, unsigned bytes) {
    u32 lane;
    if (clashes(by, cell->write, own_lane(cell->write), bytes, &lane)) return race(by, cell->write, lane, true, word);
    return !cell->more || chain_permits(by, cell, word, bytes);
}

static inline void note_read(const struct by *by, struct cell *cell, unsigned bytes, u32 lanes) {
    u64 old = cell->read, now = by->stamp | bytes;
    u32 lane;
    if (!((old ^ now) & WHO) && (!((old ^ now) & BYTES) || cell->lanes == lanes)) {
        cell->lanes |= lanes;
        cell->read |= bytes;
        return;
    }
    if (old && (old & ~now & BYTES || !is_known(by, old, cell->lanes, &lane))) keep_read(by->c, cell, old, cell->lanes);
    cell->read = now;
    cell->lanes = lanes;
}

/* ---- writes ---- */
/* A record that the write does not do away with: bytes it leaves, or a strong access that is not ordered with it. */
static u64 what_stays(const struct by *by, u64 stamp, u32 lanes, unsigned bytes) {
    u32 lane;
    if (stamp & by->stamp & STRONG && !is_known(by, stamp, lanes, &lane)) return stamp;
    return stamp & BYTES & ~bytes ? stamp & ~(u64)bytes : 0;
}

static void note_partial(const struct by *by, struct cell *cell, unsigned bytes) {
    for (u32 *link = &cell->more; *link;) {
        struct record *e = records(by->c, *link);
        u64 stays = what_stays(by, e->stamp, e->lanes, bytes);
        e->stamp = stays;
        if (stays)
            link = &e->next;
        else
            free_record(by->c, link);
    }
    if (cell->write) {
        u64 stays = what_stays(by, cell->write, own_lane(cell->write), bytes);
        if (stays) keep(by->c, cell, stays, own_lane(stays), true);
    }
    if (cell->read) cell->read = what_stays(by, cell->read, cell->lanes, bytes);
    cell->write = by->stamp | bytes;
}

static inline bool write_word(const struct by *by, struct cell *cell, u32 word, unsigned bytes) {
    u32 lane;
    if (clashes(by, cell->write, own_lane(cell->write), bytes, &lane) &&
        !(by->access == ACCESS_WRITE && same_value(by, cell->write, word, bytes)))
        return race(by, cell->write, lane, true, word);
    if (clashes(by, cell->read, cell->lanes, bytes, &lane)) return race(by, cell->read, lane, false, word);
    if (cell->more && !chain_permits(by, cell, word, bytes)) return false;
    if (cell->crowd && !crowd_permits(by, cell, word, bytes)) return false;
    if (cell->crowd) leave_crowd(by, cell, bytes);
    if (bytes != BYTES || by->stamp & STRONG) {
        note_partial(by, cell, bytes);
        return true;
    }
    while (cell->more)
        free_record(by->c, &cell->more);
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
    for (u32 word = (u32)(offset / 4), end = (u32)((offset + bytes + 3) / 4); word < end; word++) {
        if (by->access == ACCESS_READ) {
            if (!may_read(by, &cells[word], word, mask)) return false;
            note_read(by, &cells[word], mask, 1u << by->lane);
        } else if (!write_word(by, &cells[word], word, mask)) {
            return false;
        }
    }
    return true;
}

bool check_load(struct exec *x, const struct op *o, u32 m, const u64 *address, unsigned bytes) {
    struct cta *cta = x->warp->cta;
    struct by by = by_lane(x, o, 0, cta, o->order != ORDER_WEAK, ACCESS_READ);
    struct clocks **know = x->checker->order->know + by.thread;
    const u64 stamp = by.stamp;
    const u32 thread = by.thread;
    if (o->order != ORDER_WEAK) check_acquire(x, o, m);
    FOR_LANES(l, m) {
        u64 offset = address[l] - SHARED_BASE;
        if (bits_run(by.c->known, offset, bytes) != bytes &&
            !undefined_loaded(x, o, l, bits_get(by.c->known, offset, bytes), address[l]))
            return check_known(x, l, cta, offset, bytes);
        by.knows = know[l];
        by.lane = l;
        by.thread = thread + l;
        by.stamp = stamp + ((u64)l << THREAD);
        if (!by.c->order->blind && !access_words(&by, offset, bytes)) return false;
    }
    return true;
}

bool check_store(struct exec *x, const struct op *o, u32 m, const u64 *address, unsigned bytes) {
    struct cta *cta = x->warp->cta;
    struct by by = by_lane(x, o, 0, cta, o->order != ORDER_WEAK, ACCESS_WRITE);
    struct clocks **know = x->checker->order->know + by.thread;
    const u64 stamp = by.stamp;
    const u32 thread = by.thread;
    by.op = o;
    by.address = address;
    by.lanes = m;
    const u32 vague = undefined_lanes(x, o);
    FOR_LANES(l, m) {
        u64 offset = address[l] - SHARED_BASE;
        bits_put(by.c->known, offset, bytes, true);
        if (vague >> l & 1) bits_clear(by.c->known, offset, undefined_stored(x, o, l));
        by.knows = know[l];
        by.lane = l;
        by.thread = thread + l;
        by.stamp = stamp + ((u64)l << THREAD);
        if (!by.c->order->blind && !access_words(&by, offset, bytes)) return false;
    }
    return true;
}

bool check_place(struct exec *x, u32 lane, struct cta *cta, u64 offset, unsigned bytes, enum access access) {
    const struct op *o = x->doing;
    bool atomic = access == ACCESS_ATOMIC;
    if (access != ACCESS_WRITE && !(atomic && o->sub == ATOMIC_EXCH) && !check_known(x, lane, cta, offset, bytes))
        return false;
    if (access != ACCESS_READ) check_written(cta, offset, bytes);
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

/* Each array that one of the lanes knows by, once. */
static bool all_may_read(struct by *by, u32 first, u32 lanes, u64 offset, unsigned bytes) {
    const struct clocks *last = NULL;
    FOR_LANES(l, lanes) {
        by->knows = by->c->order->know[first + l];
        by->thread = first + l;
        by->lane = l;
        if (by->knows == last) continue;
        last = by->knows;
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

bool check_row(struct exec *x, const struct op *o, u32 lane, u64 offset, enum access access) {
    enum { ROW = 16 };
    struct cta *cta = x->warp->cta;
    if (access == ACCESS_WRITE) {
        check_written(cta, offset, ROW);
        return check_async(x, o, lane, cta, offset, ROW, ACCESS_WRITE);
    }
    if (!check_known(x, lane, cta, offset, ROW)) return false;
    struct by by = by_lane(x, o, 0, cta, false, ACCESS_READ);
    u32 first = by.thread;
    if (by.c->order->blind) return true;
    if (!all_may_read(&by, first, x->live, offset, ROW)) return false;
    note_together(&by, first, offset, ROW, BY_WARP);
    return true;
}

bool check_wgmma(struct exec *x, const struct op *o, unsigned group, u64 offset) {
    struct cta *cta = x->warp->cta;
    u32 first = x->checker->first + group * WARPGROUP * WARP;
    struct by by = by_lane(x, o, 0, cta, false, ACCESS_READ);
    if (by.c->order->blind) return true;
    for (u32 w = 0; w < WARPGROUP; w++)
        if (!all_may_read(&by, first + w * WARP, ALL_LANES, offset, UNIT)) return false;
    note_together(&by, first, offset, UNIT, BY_GROUP);
    return true;
}

bool check_mbarrier(struct exec *x, u32 lane, const struct place *place) {
    struct by by = by_lane(x, x->code->ops, lane, place->cta, true, ACCESS_READ);
    for (u32 word = place->offset / 4; word < place->offset / 4 + 2 && !by.c->order->blind; word++)
        if (!may_read(&by, &by.c->cells[word], word, BYTES)) return false;
    return true;
}
