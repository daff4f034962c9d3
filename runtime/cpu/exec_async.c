/* exec_async.c - who may touch shared memory that bulk copies and mbarriers use: marks on it, who sees what, ends.
 *
 * Sight is a warp's: a wait by any thread of it gives it. A barrier of the CTA passes it to the warps that it opens
 * for; a release by a warp that sees a load ends it (who acquires is not followed). Nothing is missed but what a
 * release hides; no kernel that synchronises is refused. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/exec_async.h>
#include <runtime/cpu/exec_copy.h>
#include <runtime/cpu/exec_wgmma.h>

static u32 units(const struct cta *cta, u32 bytes) {
    return (cta->shared_bytes + bytes - 1) / bytes;
}

static void drop(struct async *a) {
    for (u32 i = 0; i < a->bulk_count; i++)
        free(a->bulks[i].staged);
    free(a->marks);
    free(a->owner);
    free(a->barrier_at);
    free(a->barriers);
    free(a->bulks);
    free(a->groups);
    free(a->written);
    free(a->fenced);
    free(a);
}

static bool make(struct cta *cta) {
    struct barriers *state = cta->exec;
    struct async *a = calloc(1, sizeof *a);
    if (!a) return false;
    a->marks = calloc(units(cta, UNIT) + 1, 1);
    a->owner = calloc(units(cta, UNIT) + 1, sizeof *a->owner);
    a->barrier_at = calloc(units(cta, BARRIER_BYTES) + 1, sizeof *a->barrier_at);
    a->groups = calloc((size_t)cta->warp_count * WARP, sizeof *a->groups);
    if (!a->marks || !a->owner || !a->barrier_at || !a->groups) {
        drop(a);
        return false;
    }
    state->async = a;
    cta->copies++; /* for as long as the CTA lives: every access asks */
    return true;
}

struct async *async_need(struct exec *x, unsigned lane, struct cta *cta) {
    if (async_of(cta) || make(cta)) return async_of(cta);
    exec_fault(x, lane, FAULT_LAUNCH, "out of host memory for mbarriers and bulk copies");
    return NULL;
}

bool proxy_begin(struct cta *cta) {
    if (!async_of(cta) && !make(cta)) return false;
    struct async *a = async_of(cta);
    a->written = calloc(units(cta, 4) + 1, sizeof *a->written);
    a->fenced = calloc((size_t)cta->warp_count * WARP, sizeof *a->fenced);
    return a->written && a->fenced;
}

void async_free(struct cta *cta) {
    struct barriers *state = cta->exec;
    if (state && state->async) drop(state->async);
    if (state) state->async = NULL;
}

/* ---- marks ---- */
static bool reads(const struct async *a, u32 unit) {
    for (u32 i = 0; i < a->bulk_count; i++) {
        const struct bulk *b = &a->bulks[i];
        u32 slack = b->box.swizzle ? 8 : 0; /* a swizzle moves 16 bytes within 128 */
        if (!b->store || b->waited || b->box.offset / UNIT > unit + slack ||
            (b->box.offset + b->box.bytes) / UNIT + slack <= unit)
            continue;
        if (!b->box.swizzle) return true;
        for (u32 row = 0; row < b->box.rows; row++)
            for (u32 at = 0; at < b->box.row_bytes; at += UNIT)
                if (box_place(&b->box, row, at) / UNIT == unit) return true;
    }
    return false;
}

static void mark_unit(struct async *a, u32 index, u32 unit, bool set) {
    if (a->bulks[index].store) {
        if (set || !reads(a, unit))
            a->marks[unit] = (u8)(set ? a->marks[unit] | MARK_STORE : a->marks[unit] & ~MARK_STORE);
    } else if (set || a->owner[unit] == index + 1) {
        a->owner[unit] = set ? index + 1 : 0;
        a->marks[unit] = (u8)(set ? a->marks[unit] | MARK_LOAD : a->marks[unit] & ~MARK_LOAD);
    }
}

/* Clearing a store's marks: after its waited was set, so that it no longer counts itself. */
void async_mark(struct async *a, u32 index, bool set) {
    const struct box *box = &a->bulks[index].box;
    if (!box->swizzle) {
        for (u32 at = 0; at < box->bytes; at += UNIT)
            mark_unit(a, index, (box->offset + at) / UNIT, set);
        return;
    }
    for (u32 row = 0; row < box->rows; row++)
        for (u32 at = 0; at < box->row_bytes; at += UNIT)
            mark_unit(a, index, box_place(box, row, at) / UNIT, set);
}

/* The load that had number `before` goes on as `index`. */
static void renumber(struct async *a, u32 before, u32 index) {
    const struct box *box = &a->bulks[index].box;
    for (u32 row = 0; row < box->rows; row++)
        for (u32 at = 0; at < box->row_bytes && row * box->row_bytes + at < box->bytes; at += UNIT) {
            u32 *owner = &a->owner[box_place(box, row, at) / UNIT];
            if (*owner == before + 1) *owner = index + 1;
        }
}

void async_end(struct cta *cta, u32 index) {
    struct async *a = async_of(cta);
    struct bulk *b = &a->bulks[index];
    if (!b->store) async_mark(a, index, false);
    free(b->staged);
    u32 last = --a->bulk_count;
    if (last == index) return;
    *b = a->bulks[last];
    if (!b->store) renumber(a, last, index);
}

/* ---- sight ---- */
bool async_complete(const struct async *a, const struct bulk *b) {
    if (b->landed < b->box.rows) return false;
    u32 number = a->barrier_at[b->barrier / BARRIER_BYTES];
    return !number || a->barriers[number - 1].phase > b->phase;
}

void async_waited(struct exec *x, const struct mbarrier *barrier, bool acquire) {
    struct cta *cta = x->warp->cta;
    struct async *a = async_of(cta);
    u32 live = copies_live(cta), warp = 1u << x->warp->index;
    if (acquire) proxy_sync(a);
    for (u32 i = a->bulk_count; i-- > 0;) {
        struct bulk *b = &a->bulks[i];
        if (b->store || b->barrier != barrier->offset || !async_complete(a, b)) continue;
        *(acquire ? &b->seen : &b->noticed) |= warp;
        if (!(live & ~b->seen)) async_end(cta, i);
    }
}

void async_arrive(struct cta *cta, unsigned warp, u32 barrier) {
    struct async *a = async_of(cta);
    wgmma_arrive(cta, warp, barrier);
    for (u32 i = 0; a && i < a->bulk_count; i++)
        if (a->bulks[i].seen >> warp & 1) a->bulks[i].carried |= 1u << barrier;
}

void async_open(struct cta *cta, u32 barrier, u32 warps) {
    struct async *a = async_of(cta);
    u32 live = copies_live(cta), reached = warps | ~live;
    wgmma_open(cta, barrier, warps);
    for (u32 i = a ? a->bulk_count : 0; i-- > 0;) {
        struct bulk *b = &a->bulks[i];
        bool through = b->carried >> barrier & 1 || b->seen & reached;
        b->carried &= ~(1u << barrier);
        if (!through) continue;
        b->seen |= warps;
        if (!(live & ~b->seen)) async_end(cta, i);
    }
}

void async_release(struct cta *cta, unsigned warp) {
    struct async *a = async_of(cta);
    wgmma_release(cta, warp);
    for (u32 i = a ? a->bulk_count : 0; i-- > 0;)
        if ((a->bulks[i].seen | a->bulks[i].noticed) >> warp & 1) async_end(cta, i);
}

/* ---- watching ---- */
static void append_origin(const struct exec *x, const struct bulk *b, char *text, size_t capacity) {
    const unsigned *block = x->warp->cta->grid->block;
    exec_append(text, capacity, "; thread (%u,%u,%u) of block (%u,%u,%u) began it at ", b->thread % block[0],
                b->thread / block[0] % block[1], b->thread / block[0] / block[1], b->issuer[0], b->issuer[1],
                b->issuer[2]);
    exec_append_place(x, b->pc, text, capacity);
}

int bulk_fault(struct exec *x, unsigned lane, const struct bulk *b, int code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(x->fault->text, sizeof x->fault->text, format, list);
    va_end(list);
    x->fault->code = code;
    x->fault_lane = lane;
    append_origin(x, b, x->fault->text, sizeof x->fault->text);
    return RUN_FAULT;
}

static const char *const access_names[] = {"use", "read", "write", "atomic"};

static bool refuse_load(struct exec *x, u32 lane, struct cta *cta, const struct bulk *b, u64 offset, unsigned bytes,
                        enum access access) {
    const struct async *a = async_of(cta);
    char name[200] = "", barrier[200] = "", why[700];
    exec_append_name(x, offset + SHARED_BASE, name, sizeof name);
    exec_append_name(x, b->barrier + SHARED_BASE, barrier, sizeof barrier);
    bool complete = async_complete(a, b);
    snprintf(why, sizeof why,
             complete                  ? "has written, and this warp has not waited for"
             : b->landed < b->box.rows ? "still writes; it is to complete"
                                       : "has written; it is to complete");
    bulk_fault(x, lane, b, FAULT_LAUNCH,
               "%s of shared bytes that a bulk copy %s the mbarrier at shared address 0x%x%s, %u bytes at shared "
               "address 0x%llx%s%s",
               access_names[access], why, b->barrier + SHARED_BASE, barrier, bytes,
               (unsigned long long)(offset + SHARED_BASE), name, complete ? "" : ", whose phase is not over");
    return false;
}

static bool refuse_store(struct exec *x, u32 lane, const struct async *a, u32 unit, u64 offset, unsigned bytes,
                         enum access access) {
    for (u32 i = 0; i < a->bulk_count; i++) {
        const struct bulk *b = &a->bulks[i];
        if (!b->store || b->waited || b->box.offset / UNIT > unit ||
            (!b->box.swizzle && (b->box.offset + b->box.bytes) / UNIT <= unit))
            continue;
        char name[200] = "";
        exec_append_name(x, offset + SHARED_BASE, name, sizeof name);
        bulk_fault(x, lane, b, FAULT_LAUNCH,
                   "%s of shared bytes that a bulk copy reads, and its thread has not waited for that: %u bytes at "
                   "shared address 0x%llx%s",
                   access_names[access], bytes, (unsigned long long)(offset + SHARED_BASE), name);
        return false;
    }
    return true;
}

static bool refuse_barrier(struct exec *x, u32 lane, const struct async *a, u64 offset, unsigned bytes,
                           enum access access) {
    for (u64 at = offset / BARRIER_BYTES; at <= (offset + bytes - 1) / BARRIER_BYTES; at++) {
        if (!a->barrier_at[at]) continue;
        char name[200] = "";
        exec_append_name(x, at * BARRIER_BYTES + SHARED_BASE, name, sizeof name);
        exec_fault(x, lane, FAULT_LAUNCH,
                   "%s of %u bytes at shared address 0x%llx: the mbarrier at 0x%llx%s lives there, mbarrier.inval ends "
                   "it",
                   access_names[access], bytes, (unsigned long long)(offset + SHARED_BASE),
                   (unsigned long long)(at * BARRIER_BYTES + SHARED_BASE), name);
        return false;
    }
    return true;
}

bool async_permit(struct exec *x, u32 lane, struct cta *cta, u64 offset, unsigned bytes, enum access access) {
    struct async *a = async_of(cta);
    u64 last = offset + bytes - 1;
    u32 before = 0, own = cta == x->warp->cta ? 1u << x->warp->index : 0;
    for (u64 unit = offset / UNIT; unit <= last / UNIT; unit++) {
        if (!a->marks[unit]) continue;
        if (a->marks[unit] & MARK_BARRIER && !refuse_barrier(x, lane, a, offset, bytes, access)) return false;
        if (a->marks[unit] & MARK_STORE && access != ACCESS_READ &&
            !refuse_store(x, lane, a, (u32)unit, offset, bytes, access))
            return false;
        if (a->marks[unit] & MARK_WGMMA && access != ACCESS_READ &&
            !wgmma_permit_write(x, lane, cta, (u32)unit, offset, bytes, access))
            return false;
        u32 owner = a->owner[unit];
        if (!owner || owner == before) continue;
        before = owner;
        const struct bulk *b = &a->bulks[owner - 1];
        if (!(b->seen & own) && !refuse_load(x, lane, cta, b, offset, bytes, access)) return false;
    }
    if (a->written && own && access >= ACCESS_WRITE) proxy_wrote(a, thread_of(x, lane), offset, bytes);
    if (a->written && !own && access >= ACCESS_WRITE) proxy_wrote_far(a, offset, bytes);
    return true;
}

/* ---- the CTA's end ---- */
/* Stores whose reads are waited for go on to the end; everything else that nobody has waited for uses shared memory
 * that is no more. */
bool async_done(struct exec *x) {
    struct cta *cta = x->warp->cta;
    struct async *a = async_of(cta);
    for (u32 i = 0; a && i < a->bulk_count; i++) {
        struct bulk *b = &a->bulks[i];
        bool done = b->store ? b->waited : (b->seen | b->noticed) != 0;
        if (!done)
            bulk_fault(x, 0, b, FAULT_LAUNCH,
                       "the block exits, and nobody has waited for a bulk copy %s its shared memory",
                       b->store ? "to read" : "into");
        if (!done || (b->store && !bulk_finish(x, cta, b, true))) {
            exec_fault_complete(x, b->pc);
            return false;
        }
    }
    if (cta->cluster->size == 1 || bulk_land_begun(x)) return true;
    exec_fault_complete(x, x->warp->pc);
    return false;
}
