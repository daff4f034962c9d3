/* exec_bulk.c - bulk copies begin here: cp.async.bulk and cp.async.bulk.tensor, their groups and waits, prefetches.
 *
 * Everything about addresses is checked as a copy begins; bytes move later (exec_bulk_land.c). A multicast is one load
 * in each CTA of its mask. Operands beyond the first address are words of code->extra (enum bulk_extra). */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/exec_bulk.h>
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_copy.h>
#include <runtime/cpu/exec_tensor.h>

static u64 address_of(const struct exec *x, const u32 *words, u32 lane) {
    if (!words[3]) return ((const u32 *)AT(x, words[0]))[lane] + words[1]; /* a 32-bit register: modulo 2^32 */
    return ((const u64 *)AT(x, words[0]))[lane] + ((u64)words[2] << 32 | words[1]);
}

static u32 word_of(const struct exec *x, u32 operand, u32 lane) {
    return ((const u32 *)AT(x, operand))[lane];
}

/* ---- boxes ---- */
/* Rows of a plain copy: large ones fairly, small ones of any size for the adversary. */
static u32 row_size(struct exec *x) {
    u32 bytes = ROW_MOST;
    while (world_adverse(x->world) && bytes > UNIT && !world_chance(x->world, 4))
        bytes /= 2;
    return bytes;
}

static bool plain_box(struct exec *x, u32 lane, u64 global, u32 bytes, struct box *box) {
    if (bytes % UNIT) {
        exec_fault(x, lane, FAULT_MISALIGNED, "a bulk copy of %u bytes: the size is a multiple of %d", bytes, UNIT);
        return false;
    }
    if (WINDOW_OF(global) || global % UNIT) {
        exec_fault(x, lane, WINDOW_OF(global) ? FAULT_ADDRESS_SPACE : FAULT_MISALIGNED,
                   WINDOW_OF(global) ? "generic address 0x%llx is not in global memory"
                                     : "global address 0x%llx is not aligned to the 16 bytes of a bulk copy",
                   (unsigned long long)global);
        return false;
    }
    *box = (struct box){.base = global, .row_bytes = row_size(x), .bytes = bytes};
    box->rows = (bytes + box->row_bytes - 1) / box->row_bytes;
    return true;
}

static bool box_of(struct exec *x, const struct op *o, u32 lane, struct box *box) {
    const u32 *extra = x->code->extra + o->extra;
    s32 at[DIMENSIONS];
    u64 global = address_of(x, extra + EXTRA_GLOBAL, lane);
    if (!o->count) return plain_box(x, lane, global, word_of(x, extra[EXTRA_BYTES], lane), box);
    for (unsigned d = 0; d < o->count; d++)
        at[d] = (s32)word_of(x, extra[EXTRA_AT + d], lane);
    note_access(x, o); /* of the map */
    return tensor_box(x, lane, global, o->count, at, box);
}

/* Whether all that the copy touches in global memory is there. */
static bool reachable(struct exec *x, u32 lane, const struct box *box, bool write) {
    x->fault_lane = lane;
    if (!box->rank) return !box->bytes || world_reach(x->world, x->warp, box->base, box->bytes, write, x->fault);
    for (u32 row = 0; row < box->rows; row++) {
        u64 from;
        u32 skip, bytes;
        box_row(box, row, &from, &skip, &bytes);
        if (bytes && !world_reach(x->world, x->warp, from, bytes, write, x->fault)) return false;
    }
    return true;
}

/* ---- beginning ---- */
static u32 greatest_divisor(u32 a, u32 b) {
    while (b) {
        u32 rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static u32 some_number(struct exec *x, u32 below) {
    u32 value = 0;
    for (u32 reach = 1; reach < below; reach *= 2)
        value = value << 1 | world_chance(x->world, 2);
    return value % below;
}

static struct bulk *add(struct exec *x, u32 lane, struct cta *cta, const struct op *o, const struct box *box) {
    struct async *a = async_need(x, lane, cta);
    if (!a) return NULL;
    if (a->bulk_count == a->bulk_capacity) {
        u32 capacity = a->bulk_capacity ? 2 * a->bulk_capacity : 16;
        struct bulk *grown = realloc(a->bulks, capacity * sizeof *grown);
        if (!grown) {
            exec_fault(x, lane, FAULT_LAUNCH, "out of host memory for bulk copies");
            return NULL;
        }
        a->bulks = grown;
        a->bulk_capacity = capacity;
    }
    struct bulk *b = &a->bulks[a->bulk_count++];
    const unsigned *index = x->warp->cta->index;
    *b = (struct bulk){.box = *box,
                       .pc = (u32)(o - x->code->ops),
                       .thread = thread_of(x, lane),
                       .issuer = {index[0], index[1], index[2]},
                       .rank = x->warp->cta->rank,
                       .step = 1};
    if (!world_adverse(x->world) || box->rows < 2) return b;
    b->start = some_number(x, box->rows);
    b->step = 1 + some_number(x, box->rows);
    while (greatest_divisor(b->step, box->rows) != 1)
        b->step++;
    return b;
}

/* ---- loads ---- */
/* The new load's bytes: nobody may still be using them. A load that the warp sees gives way; one that it does not see
 * is not ordered before the new one. */
static bool clear_way(struct exec *x, u32 lane, struct cta *cta, const struct box *box) {
    struct async *a = async_of(cta);
    for (u32 row = 0; row < box->rows; row++)
        for (u32 at = 0; at < box->row_bytes && row * box->row_bytes + at < box->bytes; at += UNIT) {
            u32 offset = box_place(box, row, at), owner;
            if (offset + UNIT > cta->shared_bytes) {
                exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS,
                           "the swizzled box reaches shared address 0x%x: the shared memory ends at 0x%x",
                           offset + UNIT + SHARED_BASE, SHARED_BASE + cta->shared_bytes);
                return false;
            }
            bool own = cta == x->warp->cta;
            owner = a->owner[offset / UNIT];
            if (own && owner && a->bulks[owner - 1].seen >> x->warp->index & 1) async_end(cta, owner - 1);
            if (own ? !copies_permit(x, lane, 1u << lane, offset, UNIT, ACCESS_WRITE)
                    : !async_permit(x, lane, cta, offset, UNIT, ACCESS_WRITE))
                return false;
            if (x->checker && !check_async(x, x->doing, lane, cta, offset, UNIT, ACCESS_WRITE)) return false;
        }
    return true;
}

/* One load into a CTA; offsets of destination and mbarrier in its shared memory. */
static bool load_into(struct exec *x, const struct op *o, u32 lane, struct cta *cta, struct box *box, u32 barrier) {
    struct mbarrier *b = mbarrier_at(cta, barrier);
    if (!b) {
        exec_fault(x, lane, FAULT_LAUNCH,
                   "a bulk copy is to complete the mbarrier at shared address 0x%x of CTA %u of the cluster: no "
                   "mbarrier.init has come before",
                   barrier + SHARED_BASE, cta->rank);
        return false;
    }
    if (box->offset + (u64)box->bytes > cta->shared_bytes) {
        exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS, "%u bytes at shared address 0x%x: the shared memory ends at 0x%x",
                   box->bytes, box->offset + SHARED_BASE, SHARED_BASE + cta->shared_bytes);
        return false;
    }
    if (!clear_way(x, lane, cta, box)) return false;
    if (!box->rows) return true;
    struct bulk *bulk = add(x, lane, cta, o, box);
    if (!bulk) return false;
    bulk->barrier = barrier;
    bulk->early = world_asks_early(x->world, x->warp);
    async_mark(async_of(cta), async_of(cta)->bulk_count - 1, true);
    b->flying++;
    cta->copies_flying++;
    if (x->checker) check_gate_arrive(x, 1u << lane, &b->arriving); /* who waits there is behind its beginning */
    return true;
}

static bool load_many(struct exec *x, const struct op *o, u32 lane, u32 mask, struct box *box, u32 barrier) {
    const struct cluster *cluster = x->warp->cta->cluster;
    for (u32 rank = 0; rank < 16; rank++) {
        if (!(mask >> rank & 1)) continue;
        struct cta *cta = rank < cluster->size ? cluster->ctas[rank] : NULL;
        if (!cta) {
            exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS, "the ctaMask 0x%x names CTA %u, %s", mask, rank,
                       rank < cluster->size ? "which has exited" : "which the cluster does not have");
            return false;
        }
        if (!load_into(x, o, lane, cta, box, barrier)) return false;
    }
    return true;
}

static bool begin_load(struct exec *x, const struct op *o, u32 lane, u64 to) {
    const u32 *extra = x->code->extra + o->extra;
    struct box box;
    struct place place, barrier;
    if (!box_of(x, o, lane, &box)) return false;
    if (!place_of(x, lane, o->space, to, 0, o->count ? 128 : UNIT, &place) ||
        !place_of(x, lane, o->space, address_of(x, extra + EXTRA_BARRIER, lane), BARRIER_BYTES, BARRIER_BYTES,
                  &barrier))
        return false;
    if (place.cta != barrier.cta) {
        exec_fault(x, lane, FAULT_LAUNCH, "destination and mbarrier lie in different CTAs of the cluster");
        return false;
    }
    box.offset = place.offset;
    if (!reachable(x, lane, &box, false)) return false;
    if (extra[EXTRA_MASK] == NO_OPERAND) return load_into(x, o, lane, place.cta, &box, barrier.offset);
    return load_many(x, o, lane, word_of(x, extra[EXTRA_MASK], lane) & 0xFFFF, &box, barrier.offset);
}

int op_bulk_load(struct exec *x, const struct op *o, u32 m) {
    u64 to[WARP];
    lane_addresses(x, o, to);
    x->doing = o;
    FOR_LANES(l, m)
    if (!begin_load(x, o, l, to[l])) return RUN_FAULT;
    return RUN_NEXT;
}

/* ---- stores ---- */
static bool begin_store(struct exec *x, const struct op *o, u32 lane, u64 from) {
    struct cta *cta = x->warp->cta;
    struct box box;
    struct place place;
    if (!async_need(x, lane, cta) || !box_of(x, o, lane, &box)) return false;
    if (!place_of(x, lane, SPACE_SHARED, from, box.bytes, o->count ? 128 : UNIT, &place)) return false;
    box.offset = place.offset;
    if (!reachable(x, lane, &box, true)) return false;
    for (u32 row = 0; row < box.rows; row++)
        for (u32 at = 0; at < box.row_bytes && row * box.row_bytes + at < box.bytes; at += UNIT) {
            u32 offset = box_place(&box, row, at);
            if (offset + UNIT > cta->shared_bytes) {
                exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS, "the swizzled box reaches behind the end of shared memory");
                return false;
            }
            if (!proxy_read(x, lane, offset, UNIT)) return false;
            if (x->checker && !check_async(x, o, lane, cta, offset, UNIT, ACCESS_READ)) return false;
        }
    if (!box.bytes) return true;
    u8 *staged = malloc(box.bytes);
    struct bulk *b = staged ? add(x, lane, cta, o, &box) : NULL;
    if (!b) {
        free(staged);
        exec_fault(x, lane, FAULT_LAUNCH, "out of host memory for bulk copies");
        return false;
    }
    b->store = true;
    b->staged = staged;
    b->group = async_of(cta)->groups[thread_of(x, lane)];
    async_mark(async_of(cta), async_of(cta)->bulk_count - 1, true);
    cta->copies_flying++;
    return true;
}

int op_bulk_store(struct exec *x, const struct op *o, u32 m) {
    u64 from[WARP];
    lane_addresses(x, o, from);
    FOR_LANES(l, m)
    if (!begin_store(x, o, l, from[l])) return RUN_FAULT;
    return RUN_NEXT;
}

int op_bulk_commit(struct exec *x, const struct op *o, u32 m) {
    struct async *a = async_need(x, (u32)__builtin_ctz(m), x->warp->cta);
    (void)o;
    if (!a) return RUN_FAULT;
    FOR_LANES(l, m) a->groups[thread_of(x, l)]++;
    return RUN_NEXT;
}

/* imm: how many of a thread's newest groups may go on; sub: 1 waits for reads alone */
int op_bulk_wait(struct exec *x, const struct op *o, u32 m) {
    struct cta *cta = x->warp->cta;
    struct async *a = async_of(cta);
    for (u32 i = a ? a->bulk_count : 0; i-- > 0;) {
        struct bulk *b = &a->bulks[i];
        bool mine = b->store && b->thread / WARP == x->warp->index && m >> b->thread % WARP & 1;
        if (!mine || b->group + (u64)o->imm >= a->groups[b->thread]) continue;
        if (!bulk_finish(x, cta, b, !o->sub || !world_adverse(x->world))) return RUN_FAULT;
        if (!b->waited) {
            b->waited = true;
            async_mark(a, i, false);
        }
        if (b->landed == b->box.rows) async_end(cta, i);
    }
    return RUN_NEXT;
}

/* ---- prefetches: everything is checked, nothing moves ---- */
int op_bulk_prefetch(struct exec *x, const struct op *o, u32 m) {
    FOR_LANES(l, m) {
        struct box box;
        if (!box_of(x, o, l, &box) || !reachable(x, l, &box, false)) return RUN_FAULT;
    }
    return RUN_NEXT;
}

int op_prefetch_map(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    lane_addresses(x, o, address);
    note_access(x, o);
    FOR_LANES(l, m)
    if (!tensor_is_map(x, l, address[l] | (o->space == SPACE_PARAM ? WINDOW_PARAM : 0))) return RUN_FAULT;
    return RUN_NEXT;
}
