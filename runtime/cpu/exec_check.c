/* exec_check.c - life of the memory checker's state of a CTA, and what of its shared memory has been written.
 *
 * Bytes that a cp.async or a bulk load brings are as written as their source is: a row that is copied whole and never
 * used may hold anything. A load into registers is a use. */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/bits.h>
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_undefined.h>

/* ---- life ---- */
/* CTAs of a cluster share their order: the first one makes it. */
static struct ordering *order_of(const struct cta *cta, u32 threads) {
    const struct cluster *cluster = cta->cluster;
    for (unsigned i = 0; i < cluster->size; i++)
        if (cluster->ctas[i] && cluster->ctas[i] != cta && checker_of(cluster->ctas[i]))
            return checker_of(cluster->ctas[i])->order;
    return order_new(cluster->size * cta->warp_count * WARP, cta->warp_count, threads);
}

static struct spares *spares_of(const struct cta *cta) {
    return ((const struct code *)cta->grid->fn->code)->spares;
}

static size_t cells_bytes(const struct cta *cta) {
    return (cta->shared_bytes / 4 + 8) * sizeof(struct cell);
}

bool check_begin(struct cta *cta) {
    const unsigned *block = cta->grid->block;
    struct barriers *state = cta->exec;
    if (!world_checks(cta->grid)) return true;
    struct checker *c = state->checker = calloc(1, sizeof *c);
    if (!c) return false;
    c->order = order_of(cta, block[0] * block[1] * block[2]);
    if (!c->order) return false;
    c->order->users++;
    c->crowd_slots = cta->warp_count + 1;
    c->first = cta->rank * cta->warp_count * WARP;
    c->known = calloc(bits_bytes(cta->shared_bytes), 1);
    struct spares *spares = spares_of(cta);
    size_t crowds;
    c->cells = spare_take(&spares[SPARE_CELLS], cells_bytes(cta));
    if (c->cells) memset(c->cells, 0, cells_bytes(cta));
    c->crowds = spare_any(&spares[SPARE_CROWDS], &crowds);
    c->crowd_capacity = (u32)(crowds / (c->crowd_slots * sizeof *c->crowds));
    bool good = c->known && c->cells;
    for (unsigned w = 0; w < cta->warp_count; w++) {
        exec_of(cta, w)->checker = c;
        good = good && undefined_begin(exec_of(cta, w));
    }
    return good;
}

void check_end(struct cta *cta) {
    struct barriers *state = cta->exec;
    struct checker *c = state ? state->checker : NULL;
    if (!c) return;
    for (unsigned w = 0; w < cta->warp_count; w++)
        free(exec_of(cta, w)->defined);
    for (unsigned i = 0; c->order && i < WGMMA_PLACES; i++)
        order_drop(c->order, &c->gates[i]);
    for (u32 i = 0; state->async && i < state->async->barrier_count; i++) {
        order_drop(c->order, &state->async->barriers[i].arriving);
        order_drop(c->order, &state->async->barriers[i].over);
    }
    if (c->order) order_leave(c->order);
    free(c->known);
    spare_give(&spares_of(cta)[SPARE_CELLS], c->cells, cells_bytes(cta));
    free(c->records);
    spare_give(&spares_of(cta)[SPARE_CROWDS], c->crowds,
               (size_t)c->crowd_capacity * c->crowd_slots * sizeof *c->crowds);
    free(c);
    state->checker = NULL;
}

/* ---- what has been written ---- */
void check_written(struct cta *cta, u64 offset, u64 bytes) {
    struct checker *c = checker_of(cta);
    if (c) bits_put(c->known, offset, bytes, true);
}

void check_copied(struct world *world, struct cta *cta, u64 offset, u64 from, u64 bytes) {
    struct checker *c = checker_of(cta);
    if (c && bytes) world_written_bits(world, from, bytes, c->known, offset);
}

bool check_known(struct exec *x, u32 lane, const struct cta *cta, u64 offset, unsigned bytes) {
    u64 known = bits_run(checker_of(cta)->known, offset, bytes);
    if (known == bytes) return true;
    exec_fault(x, lane, FAULT_LAUNCH, "uninitialised shared read: of the %u bytes at shared address 0x%llx", bytes,
               (unsigned long long)(offset + SHARED_BASE));
    exec_append_name(x, offset + SHARED_BASE, x->fault->text, sizeof x->fault->text);
    exec_append(x->fault->text, sizeof x->fault->text, " nobody has written the one at 0x%llx",
                (unsigned long long)(offset + known + SHARED_BASE));
    return false;
}

static u32 nth_lane(u32 lanes, u64 n) {
    while (n--)
        lanes &= lanes - 1;
    return (u32)__builtin_ctz(lanes);
}

/* The bytes of a load that are used are all written: of some the kernel says that they are not. */
static bool used_written(struct world *world, const struct op *o, u64 address, u64 all, unsigned bytes, u64 *known) {
    u64 one;
    while (*known < all && (o->b >> *known % bytes & 1 || world_written(world, address + *known, 1, &one)))
        ++*known;
    return *known == all;
}

bool check_global(struct exec *x, const struct op *o, u32 lanes, bool same, u64 address, unsigned bytes) {
    u64 all = same ? bytes : (u64)bytes * (u32)__builtin_popcount(lanes), known;
    if (o->flags & (F_INPUT | F_NC)) world_read_input(x->world, x->warp, address, all, o->flags & F_INPUT);
    if (world_written(x->world, address, all, &known)) return true;
    if (o->flags & F_PARTLY && used_written(x->world, o, address, all, bytes, &known)) return true;
    u64 lane = same ? 0 : known / bytes;
    exec_fault(x, nth_lane(lanes, lane), FAULT_LAUNCH,
               "uninitialised global read: of the %u bytes at address 0x%llx nobody has written the one at 0x%llx, ",
               bytes, (unsigned long long)(address + lane * bytes), (unsigned long long)(address + known));
    world_name(x->world, address + known, x->fault->text, sizeof x->fault->text);
    return false;
}
