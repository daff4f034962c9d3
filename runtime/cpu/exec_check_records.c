/* exec_check_records.c - what a word of shared memory keeps beside its last write and its newest read: records, of
 * accesses that are not ordered or touch other bytes, and crowds, where many warps read what nobody writes: a slot a
 * warp. May not know what is accessed, nor how order comes about. */
#include <stdlib.h>
#include <runtime/cpu/exec_check_race.h>

static struct record *records(const struct checker *c, u32 number) {
    return &c->records[number - 1];
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

/* Keeps a record beside the newest; it may take the place of one that it says more than. */
void records_keep(struct checker *c, struct cell *cell, u64 stamp, u32 lanes, bool write) {
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
/* Heads of SIDE crowds lie side by side, then the slots of each warp: a warp that reads words in order finds what it
 * leaves in order. The head of a crowd; its warp w has head[(w + 1) * SIDE]. */
enum { SIDE = 64 };

static struct slot *crowd_at(const struct checker *c, u32 number) {
    u32 n = number - 1;
    return c->crowds + (size_t)(n / SIDE) * SIDE * c->crowd_slots + n % SIDE;
}

static struct slot *slot_of(struct slot *head, u32 warp) {
    return head + (size_t)(warp + 1) * SIDE;
}

static u32 new_crowd(struct checker *c) {
    u32 number = c->crowd_free;
    if (number) {
        c->crowd_free = crowd_at(c, number)->next;
        return number;
    }
    if (c->crowd_count + SIDE > c->crowd_capacity && c->crowd_count % SIDE == 0) {
        u32 capacity = (2 * c->crowd_capacity + SIDE) / SIDE * SIDE;
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
void records_keep_read(struct checker *c, struct cell *cell, u64 stamp, u32 lanes) {
    u32 warp = thread_in(stamp) / WARP - c->first / WARP;
    bool plain = (stamp & BYTES) == BYTES && !(stamp & STRONG) && kind_in(stamp) != BY_GROUP;
    if (!plain || warp >= c->crowd_slots - 1) {
        records_keep(c, cell, stamp, lanes, false);
        return;
    }
    if (!cell->crowd && !(cell->crowd = new_crowd(c))) return;
    struct slot *head = crowd_at(c, cell->crowd), *slot = slot_of(head, warp);
    if (head->lanes >> warp & 1) {
        bool alike = !((slot->stamp ^ stamp) & WHO);
        if (alike) lanes |= slot->lanes;
        if (slot->lanes & ~lanes || kind_in(slot->stamp) != kind_in(stamp))
            records_keep(c, cell, slot->stamp, slot->lanes, false);
    }
    head->lanes |= 1u << warp;
    slot->stamp = stamp;
    slot->lanes = lanes;
}

bool crowd_permits(const struct by *by, struct cell *cell, u32 word, unsigned bytes) {
    struct slot *head = crowd_at(by->c, cell->crowd);
    u32 lane;
    FOR_LANES(w, head->lanes) {
        const struct slot *slot = slot_of(head, w);
        if (clashes(by, slot->stamp, slot->lanes, bytes, &lane)) return race_found(by, slot->stamp, lane, false, word);
    }
    return true;
}

/* Those that stay become records. */
void crowd_leave(const struct by *by, struct cell *cell, unsigned bytes) {
    u32 number = cell->crowd;
    const u32 warps = crowd_at(by->c, number)->lanes;
    FOR_LANES(w, warps) {
        const struct slot slot = *slot_of(crowd_at(by->c, number), w);
        const u64 stays = record_stays(by, slot.stamp, slot.lanes, bytes);
        if (stays) records_keep(by->c, cell, stays, slot.lanes, false);
    }
    end_crowd(by->c, cell);
}

bool records_permit(const struct by *by, const struct cell *cell, u32 word, unsigned bytes) {
    u32 lane;
    for (u32 i = cell->more; i; i = records(by->c, i)->next) {
        const struct record *e = records(by->c, i);
        if (!e->write && by->access == ACCESS_READ) continue;
        if (!clashes(by, e->stamp, e->lanes, bytes, &lane)) continue;
        if (e->write && by->access == ACCESS_WRITE && race_same_value(by, e->stamp, word, bytes)) continue;
        return race_found(by, e->stamp, lane, e->write, word);
    }
    return true;
}

/* ---- writes ---- */
/* A record that the write does not do away with: bytes it leaves; of a strong write, which races with none that is
 * strong, weak accesses, which do, and strong ones that are not ordered with it. */
u64 record_stays(const struct by *by, u64 stamp, u32 lanes, unsigned bytes) {
    u32 lane;
    if (by->stamp & STRONG && (!(stamp & STRONG) || !race_known(by, stamp, lanes, &lane))) return stamp;
    return stamp & BYTES & ~bytes ? stamp & ~(u64)bytes : 0;
}

void records_written(const struct by *by, struct cell *cell, unsigned bytes) {
    for (u32 *link = &cell->more; *link;) {
        struct record *e = records(by->c, *link);
        u64 stays = record_stays(by, e->stamp, e->lanes, bytes);
        e->stamp = stays;
        if (stays)
            link = &e->next;
        else
            free_record(by->c, link);
    }
}

void records_clear(struct checker *c, struct cell *cell) {
    while (cell->more)
        free_record(c, &cell->more);
}
