/* exec_bulk_land.c - the flight of bulk copies: rows of a box land one by one, in an order of their own.
 *
 * A load's row goes to shared memory, then its bytes are taken off the mbarrier's count; a store's row is read first,
 * and written to global memory later. Swizzled boxes place 16 bytes at a time, by their address in shared memory. */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/exec_check.h>

_Static_assert(SHARED_BASE % 1024 == 0, "swizzles go by the address, we by the offset");

/* ---- geometry ---- */
u32 box_place(const struct box *box, u32 row, u32 at) {
    u32 offset = box->offset + row * box->row_bytes + at;
    return box->swizzle ? offset ^ (offset >> 7 & ((1u << box->swizzle) - 1)) << 4 : offset;
}

static u32 clip(u64 value, u64 most) {
    return (u32)(value < most ? value : most);
}

u32 box_row(const struct box *box, u32 row, u64 *from, u32 *skip, u32 *bytes) {
    *skip = 0;
    *bytes = box->row_bytes;
    *from = box->base;
    if (!box->rank) {
        *from += (u64)row * box->row_bytes;
        *bytes = clip(box->bytes - (u64)row * box->row_bytes, box->row_bytes);
        return *bytes;
    }
    bool inside = true;
    for (unsigned d = 1; d < box->rank; d++) {
        s64 at = (s64)box->at[d] + (s64)(row % box->size[d]) * (s64)box->step[d];
        row /= box->size[d];
        inside = inside && at >= 0 && (u64)at < box->dim[d];
        *from += (u64)at * box->pitch[d];
    }
    s64 first = box->at[0] < 0 ? 0 : box->at[0], end = (s64)box->at[0] + (s64)box->size[0];
    if (end > (s64)box->dim[0]) end = (s64)box->dim[0];
    if (!inside || end <= first) {
        *bytes = 0;
        return box->row_bytes;
    }
    *from += (u64)first * box->element;
    *skip = (u32)(first - box->at[0]) * box->element;
    *bytes = (u32)(end - first) * box->element;
    return box->row_bytes;
}

static u32 row_at(const struct bulk *b, u32 turn) {
    return (u32)((b->start + (u64)turn * b->step) % b->box.rows);
}

/* ---- rows ---- */
static void blame(struct exec *x, const struct bulk *b, const char *did) {
    char what[sizeof x->fault->text];
    memcpy(what, x->fault->text, sizeof what);
    what[sizeof what - 1] = 0;
    bulk_fault(x, 0, b, x->fault->code, "%.3000s; %s as a bulk copy landed", what, did);
}

/* Who moves its bytes: the warp of the thread that began it, in whichever CTA of the cluster that is; a CTA that ends
 * leaves none behind (bulk_land_begun). */
static struct warp *mover(struct cta *cta, const struct bulk *b) {
    struct warp *warp = cta->cluster->ctas[b->rank]->warps[b->thread / WARP];
    warp->pc = b->pc;
    warp->element = 0;
    warp->early = b->early;
    return warp;
}

static bool load_row(struct exec *x, struct cta *cta, struct bulk *b) {
    u8 row[ROW_MOST] = {0};
    u64 from;
    u32 skip, bytes, number = row_at(b, b->landed), all = box_row(&b->box, number, &from, &skip, &bytes);
    if (bytes &&
        !world_load(x->world, mover(cta, b), b->thread, from, row + skip, bytes, ORDER_WEAK, SCOPE_NONE, x->fault)) {
        blame(x, b, "read");
        return false;
    }
    for (u32 at = 0; at < all; at += UNIT) {
        u32 to = box_place(&b->box, number, at);
        memcpy(cta->shared + to, row + at, UNIT);
        proxy_clean(async_of(cta), to, UNIT);
        check_written(cta, to, UNIT);
        u32 first = skip > at ? skip - at : 0, end = skip + bytes > at ? skip + bytes - at : 0;
        if (end > UNIT) end = UNIT;
        if (first < end) check_copied(x->world, cta, to + first, from + (at + first - skip), end - first);
    }
    struct mbarrier *barrier = mbarrier_at(cta, b->barrier);
    b->landed++;
    b->phase = barrier ? barrier->phase : 0;
    cta->landings++;
    if (b->landed == b->box.rows) {
        cta->copies_flying--;
        if (barrier) barrier->flying--;
    }
    if (mbarrier_complete_tx(x, 0, cta, b->barrier, all)) return true;
    blame(x, b, "counted");
    return false;
}

static void read_row(struct cta *cta, struct bulk *b) {
    u32 number = row_at(b, b->read), from = number * b->box.row_bytes;
    for (u32 at = 0; at < b->box.row_bytes && from + at < b->box.bytes; at += UNIT)
        memcpy(b->staged + from + at, cta->shared + box_place(&b->box, number, at), UNIT);
    b->read++;
    cta->landings++;
}

static bool write_row(struct exec *x, struct cta *cta, struct bulk *b) {
    u64 to;
    u32 skip, bytes, number = row_at(b, b->landed);
    box_row(&b->box, number, &to, &skip, &bytes);
    const u8 *from = b->staged + (size_t)number * b->box.row_bytes + skip;
    for (u32 at = 0, piece; at < bytes; at += piece) {
        bool changed = false;
        piece = bytes - at < UNIT ? bytes - at : UNIT;
        if (!world_store(x->world, mover(cta, b), b->thread, to + at, from + at, piece, ORDER_WEAK, SCOPE_NONE,
                         &changed, x->fault)) {
            blame(x, b, "written");
            return false;
        }
    }
    b->landed++;
    cta->landings++;
    x->warp->progressed = true;
    if (b->landed == b->box.rows) cta->copies_flying--;
    return true;
}

/* ---- when ---- */
bool bulk_land_for(struct exec *x, struct cta *cta, u32 barrier) {
    struct async *a = async_of(cta);
    for (u32 i = 0; i < a->bulk_count; i++)
        while (!a->bulks[i].store && a->bulks[i].barrier == barrier && a->bulks[i].landed < a->bulks[i].box.rows)
            if (!load_row(x, cta, &a->bulks[i])) return false;
    return true;
}

bool bulk_finish(struct exec *x, struct cta *cta, struct bulk *b, bool all) {
    while (b->read < b->box.rows)
        read_row(cta, b);
    while (all && b->landed < b->box.rows)
        if (!write_row(x, cta, b)) return false;
    return true;
}

bool bulk_land_begun(struct exec *x) {
    const struct cta *own = x->warp->cta;
    for (u32 rank = 0; rank < own->cluster->size; rank++) {
        struct cta *cta = rank != own->rank ? own->cluster->ctas[rank] : NULL;
        struct async *a = cta ? async_of(cta) : NULL;
        for (u32 i = 0; a && i < a->bulk_count; i++)
            while (!a->bulks[i].store && a->bulks[i].rank == own->rank && a->bulks[i].landed < a->bulks[i].box.rows)
                if (!load_row(x, cta, &a->bulks[i])) return false;
    }
    return true;
}

/* One to all of its rows; a store's reads before its writes. */
static bool land_rows(struct exec *x, struct cta *cta, struct bulk *b) {
    bool all = world_chance(x->world, 4), read = b->store && b->read < b->box.rows;
    for (bool more = true; more; more = all || !world_chance(x->world, 4)) {
        if (read)
            read_row(cta, b);
        else if (!(b->store ? write_row(x, cta, b) : load_row(x, cta, b)))
            return false;
        if ((read ? b->read : b->landed) == b->box.rows) break;
    }
    return true;
}

bool bulk_land_some(struct world *world, struct cta *cta, unsigned one_in, struct fault *fault) {
    struct async *a = async_of(cta);
    for (u32 i = a ? a->bulk_count : 0; i-- > 0;) {
        struct bulk *b = &a->bulks[i];
        if (b->landed == b->box.rows || !world_chance(world, one_in)) continue;
        bool own = !memcmp(b->issuer, cta->index, sizeof b->issuer); /* not another CTA's multicast */
        struct exec *x = exec_of(cta, own ? b->thread / WARP : 0);
        x->world = world;
        x->fault = fault;
        if (land_rows(x, cta, b)) {
            if (b->store && b->waited && b->landed == b->box.rows) async_end(cta, i);
            continue;
        }
        x->fault_lane = own ? b->thread % WARP : 0;
        exec_fault_complete(x, b->pc);
        return false;
    }
    return true;
}
