/* exec_mbarrier.c - mbarrier: phases, arrivals, transaction bytes, waits. What the ISA leaves undefined is a fault.
 * The object's eight bytes stay as they are: its state is in struct async. A wait that finds its phase incomplete lands
 * what is on its way there when the schedule is fair; the adversary has its own moments. */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_ops.h>

struct mbarrier *mbarrier_at(const struct cta *cta, u64 offset) {
    const struct async *a = async_of(cta);
    u32 number = a ? a->barrier_at[offset / BARRIER_BYTES] : 0;
    return number ? &a->barriers[number - 1] : NULL;
}

static u32 operand(const struct exec *x, u32 at, u32 lane) {
    return ((const u32 *)AT(x, at))[lane];
}

/* "mbarrier at shared address 0x... (name + 8)" */
static const char *name_of(const struct exec *x, u32 offset, char *text, size_t capacity) {
    text[0] = 0;
    exec_append(text, capacity, "mbarrier at shared address 0x%x", offset + SHARED_BASE);
    exec_append_name(x, offset + SHARED_BASE, text, capacity);
    return text;
}

static bool find(struct exec *x, u32 lane, enum space space, u64 address, struct place *place, struct mbarrier **b) {
    char name[240];
    if (!place_of(x, lane, space, address, BARRIER_BYTES, BARRIER_BYTES, place)) return false;
    *b = mbarrier_at(place->cta, place->offset);
    if (*b) return !x->checker || check_mbarrier(x, lane, place);
    exec_fault(x, lane, FAULT_LAUNCH, "%s%s: no mbarrier.init has come before, or an mbarrier.inval since",
               name_of(x, place->offset, name, sizeof name),
               place->cta == x->warp->cta ? "" : " of another CTA of the cluster");
    return false;
}

/* ---- life ---- */
static struct mbarrier *add(struct async *a, u32 offset) {
    if (a->barrier_count == a->barrier_capacity) {
        u32 capacity = a->barrier_capacity ? 2 * a->barrier_capacity : 16;
        struct mbarrier *grown = realloc(a->barriers, capacity * sizeof *grown);
        if (!grown) return NULL;
        a->barriers = grown;
        a->barrier_capacity = capacity;
    }
    a->barrier_at[offset / BARRIER_BYTES] = ++a->barrier_count;
    a->marks[offset / UNIT] |= MARK_BARRIER;
    return &a->barriers[a->barrier_count - 1];
}

static bool init(struct exec *x, u32 lane, enum space space, u64 address, u32 count) {
    struct cta *cta = x->warp->cta;
    struct place place;
    char name[240];
    struct async *a = async_need(x, lane, cta);
    if (!a || !place_of(x, lane, space, address, BARRIER_BYTES, BARRIER_BYTES, &place)) return false;
    const struct mbarrier *old = mbarrier_at(cta, place.offset);
    name_of(x, place.offset, name, sizeof name);
    if (old) {
        exec_fault(x, lane, FAULT_LAUNCH, "%s: it is initialised already (phase %llu, %u of %u arrivals to come)%s",
                   name, (unsigned long long)old->phase, old->pending, old->expected,
                   old->waiters ? ", and threads wait there" : "; mbarrier.inval comes first");
        return false;
    }
    if (!count || count > COUNT_MOST) {
        exec_fault(x, lane, FAULT_LAUNCH, "%s: a count of %u: 1 to %d", name, count, COUNT_MOST);
        return false;
    }
    if (!async_permit(x, lane, cta, place.offset, BARRIER_BYTES, ACCESS_WRITE)) return false;
    if (x->checker && !check_async(x, x->doing, lane, cta, place.offset, BARRIER_BYTES, ACCESS_WRITE)) return false;
    struct mbarrier *b = add(a, place.offset);
    if (!b) {
        exec_fault(x, lane, FAULT_LAUNCH, "out of host memory for an mbarrier");
        return false;
    }
    *b = (struct mbarrier){.offset = place.offset, .expected = count, .pending = count};
    x->warp->progressed = true;
    return true;
}

int op_mbarrier_init(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    lane_addresses(x, o, address);
    x->doing = o;
    FOR_LANES(l, m)
    if (!init(x, l, o->space, address[l], operand(x, o->b, l))) return RUN_FAULT;
    return RUN_NEXT;
}

static bool inval(struct exec *x, u32 lane, enum space space, u64 address) {
    struct place place;
    struct mbarrier *b;
    char name[240];
    if (!find(x, lane, space, address, &place, &b)) return false;
    name_of(x, place.offset, name, sizeof name);
    bool waited = b->waiters & copies_live(place.cta);
    if (waited || b->flying) {
        exec_fault(x, lane, FAULT_LAUNCH, "%s: mbarrier.inval while %s", name,
                   waited ? "threads wait there" : "bulk copies are to complete there");
        return false;
    }
    struct async *a = async_of(place.cta);
    u32 index = (u32)(b - a->barriers), last = --a->barrier_count;
    if (x->checker) order_drop(x->checker->order, &b->arriving), order_drop(x->checker->order, &b->over);
    a->barrier_at[place.offset / BARRIER_BYTES] = 0;
    if (last != index) {
        a->barriers[index] = a->barriers[last];
        a->barrier_at[a->barriers[index].offset / BARRIER_BYTES] = index + 1;
    }
    const u32 *pair = &a->barrier_at[place.offset / UNIT * (UNIT / BARRIER_BYTES)];
    if (!pair[0] && !pair[1]) a->marks[place.offset / UNIT] &= (u8)~MARK_BARRIER;
    x->warp->progressed = true;
    return true;
}

int op_mbarrier_inval(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    lane_addresses(x, o, address);
    FOR_LANES(l, m)
    if (!inval(x, l, o->space, address[l])) return RUN_FAULT;
    return RUN_NEXT;
}

/* ---- phases ---- */
static void settle(struct exec *x, struct mbarrier *b) {
    x->warp->progressed = true;
    if (b->pending || b->tx) return;
    b->phase++;
    b->pending = b->expected;
    if (x->checker) check_gate_over(x, b);
}

static bool change_tx(struct exec *x, u32 lane, struct mbarrier *b, s64 by) {
    char name[240];
    s64 now = b->tx + by;
    if (now >= -COUNT_MOST && now <= COUNT_MOST) {
        b->tx = (s32)now;
        return true;
    }
    exec_fault(x, lane, FAULT_LAUNCH, "%s: its transaction count overflows: %d bytes and %lld more, the limit is %d",
               name_of(x, b->offset, name, sizeof name), b->tx, (long long)by, COUNT_MOST);
    return false;
}

bool mbarrier_complete_tx(struct exec *x, unsigned lane, struct cta *cta, u32 offset, u32 bytes) {
    struct mbarrier *b = mbarrier_at(cta, offset);
    if (!b || !change_tx(x, lane, b, -(s64)bytes)) return false;
    settle(x, b);
    return true;
}

/* expect_tx (sub 0), complete_tx (sub 1) */
int op_mbarrier_tx(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    lane_addresses(x, o, address);
    FOR_LANES(l, m) {
        struct place place;
        struct mbarrier *b;
        if (!find(x, l, o->space, address[l], &place, &b)) return RUN_FAULT;
        s64 bytes = operand(x, o->b, l);
        if (!change_tx(x, l, b, o->sub ? -bytes : bytes)) return RUN_FAULT;
        if (o->sub) settle(x, b);
        x->warp->progressed = true;
    }
    return RUN_NEXT;
}

/* ---- arrivals ---- */
enum { STATE_BITS = 21 }; /* of a state: arrivals pending before, then the phase */

static bool arrive(struct exec *x, const struct op *o, u32 lane, struct mbarrier *b) {
    char name[240];
    u32 value = o->b == NO_OPERAND ? 1 : operand(x, o->b, lane), count = o->flags & F_EXPECT ? 1 : value;
    if (!count || count > b->pending || (o->flags & F_DROP && count > b->expected)) {
        exec_fault(
            x, lane, FAULT_LAUNCH,
            "%s: %u arrivals in phase %llu, where %u of %u are to come and %d bytes: the pending count overflows",
            name_of(x, b->offset, name, sizeof name), count, (unsigned long long)b->phase, b->pending, b->expected,
            b->tx);
        return false;
    }
    if (o->flags & F_NO_COMPLETE && count == b->pending) {
        exec_fault(x, lane, FAULT_LAUNCH, "%s: mbarrier.arrive.noComplete with all %u arrivals that phase %llu lacks",
                   name_of(x, b->offset, name, sizeof name), count, (unsigned long long)b->phase);
        return false;
    }
    if (o->flags & F_EXPECT && !change_tx(x, lane, b, value)) return false;
    if (o->d != NO_OPERAND) ((u64 *)AT(x, o->d))[lane] = b->phase << STATE_BITS | b->pending;
    b->pending -= count;
    if (o->flags & F_DROP) b->expected -= count;
    settle(x, b);
    return true;
}

int op_mbarrier_arrive(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    lane_addresses(x, o, address);
    if (o->order == ORDER_RELEASE) copies_release(x, m);
    FOR_LANES(l, m) {
        struct place place;
        struct mbarrier *b;
        if (!find(x, l, o->space, address[l], &place, &b)) return RUN_FAULT;
        if (x->checker && o->order == ORDER_RELEASE) check_gate_arrive(x, 1u << l, &b->arriving);
        if (!arrive(x, o, l, b)) return RUN_FAULT;
        if (o->order == ORDER_RELEASE && o->scope >= SCOPE_CLUSTER)
            world_fence(x->world, x->warp, thread_of(x, l), ORDER_RELEASE, o->scope);
    }
    x->warp->told = true;
    return world_adverse(x->world) ? RUN_STOP : RUN_NEXT;
}

/* cp.async.mbarrier.arrive: what the thread has begun lands here and now, which is a moment that the ISA permits, so
 * the arrival comes here, too. Without noinc (sub 0) it follows on its own increment of the pending count: no change.
 */
int op_copy_mbarrier(struct exec *x, const struct op *o, u32 m) {
    static const struct op all = {.sub = 1};
    u64 address[WARP];
    lane_addresses(x, o, address);
    if (op_copy_wait(x, &all, m) != RUN_NEXT) return RUN_FAULT;
    copies_release(x, m);
    FOR_LANES(l, m) {
        struct place place;
        struct mbarrier *b;
        if (!find(x, l, o->space, address[l], &place, &b)) return RUN_FAULT;
        if (x->checker) check_gate_arrive(x, 1u << l, &b->arriving);
        if (o->sub && !arrive(x, o, l, b)) return RUN_FAULT;
    }
    x->warp->told = true;
    return world_adverse(x->world) ? RUN_STOP : RUN_NEXT;
}

/* ---- waits ---- */
/* 1: the phase is complete, 0: not yet, -1: fault. With a state (sub 0) or a parity (sub 1). */
static int test(struct exec *x, const struct op *o, u32 lane, const struct mbarrier *b, u32 *parity) {
    char name[240];
    if (o->sub) {
        *parity = operand(x, o->b, lane);
        if (*parity <= 1) return (b->phase & 1) != *parity;
        exec_fault(x, lane, FAULT_LAUNCH, "%s: a phase parity of %u: 0 or 1", name_of(x, b->offset, name, sizeof name),
                   *parity);
        return -1;
    }
    u64 phase = ((const u64 *)AT(x, o->b))[lane] >> STATE_BITS;
    *parity = phase & 1;
    if (phase == b->phase || phase + 1 == b->phase) return phase != b->phase;
    exec_fault(x, lane, FAULT_LAUNCH,
               "%s: the state is of phase %llu, the barrier in phase %llu: a wait is for its phase or the one before",
               name_of(x, b->offset, name, sizeof name), (unsigned long long)phase, (unsigned long long)b->phase);
    return -1;
}

static void note_wait(struct exec *x, const struct op *o, u32 offset, u32 parity) {
    x->await_offset = offset;
    x->await_parity = parity;
    x->await_pc = (u32)(o - x->code->ops);
    x->await_touch = ++x->touch_count;
    x->warp->polled = true;
}

/* The memory checker: the lanes are behind whoever arrived at the phases that they found complete. */
static void learn(struct exec *x, const struct op *o, const u64 *address, u32 lanes) {
    while (lanes) {
        u32 first = (u32)__builtin_ctz(lanes), same = 0;
        struct place place;
        FOR_LANES(l, lanes) same |= (u32)(address[l] == address[first]) << l;
        const struct mbarrier *b = place_of(x, first, o->space, address[first], BARRIER_BYTES, BARRIER_BYTES, &place)
                                       ? mbarrier_at(place.cta, place.offset)
                                       : NULL;
        if (b) check_gate_wait(x, same, b);
        lanes &= ~same;
    }
}

int op_mbarrier_wait(struct exec *x, const struct op *o, u32 m) {
    u64 address[WARP];
    u32 done = 0, bit = 1u << x->warp->index;
    lane_addresses(x, o, address);
    FOR_LANES(l, m) {
        struct place place;
        struct mbarrier *b;
        u32 parity = 0;
        if (!find(x, l, o->space, address[l], &place, &b)) return RUN_FAULT;
        int over = test(x, o, l, b, &parity);
        if (over == 0 && b->flying && !world_adverse(x->world)) {
            if (!bulk_land_for(x, place.cta, place.offset)) return RUN_FAULT;
            over = test(x, o, l, b, &parity);
        }
        if (over < 0) return RUN_FAULT;
        b->waiters = over ? b->waiters & ~bit : b->waiters | bit;
        if (!over) note_wait(x, o, place.offset, parity);
        if (over) async_waited(x, b, o->order == ORDER_ACQUIRE);
        done |= (u32)over << l;
    }
    predicate_write(x, o->d, done, m);
    if (x->checker) learn(x, o, address, done);
    if (done) {
        x->await_touch = 0;
        if (o->order == ORDER_ACQUIRE) world_barrier(x->world, x->warp, true);
    }
    return done == m ? RUN_NEXT : RUN_STOP;
}

int op_mbarrier_pending(struct exec *x, const struct op *o, u32 m) {
    u32 *d = AT(x, o->d);
    const u64 *state = AT(x, o->a);
    FOR_LANES(l, m) d[l] = (u32)(state[l] & ((1u << STATE_BITS) - 1));
    return RUN_NEXT;
}

/* Who could still arrive, as far as warps go: those of the CTA that live and do not wait here. */
static void describe_others(const struct exec *x, char *text, size_t capacity) {
    const struct cta *cta = x->warp->cta;
    unsigned count = 0;
    for (unsigned w = 0; w < cta->warp_count; w++) {
        const struct exec *y = exec_of(cta, w);
        if (cta->warps[w]->state == WARP_DONE) continue;
        if (warp_awaits(cta->warps[w]) == x->await_offset + SHARED_BASE) continue;
        exec_append(text, capacity, "%s%u%s", count++ ? ", " : "; could still arrive, of its CTA: warps ", w,
                    y->at_barrier                               ? " (at a barrier)"
                    : warp_awaits(cta->warps[w])                ? " (at another mbarrier)"
                    : cta->warps[w]->state == WARP_AT_GRID_WAIT ? " (in griddepcontrol.wait)"
                                                                : "");
    }
    if (!count)
        exec_append(text, capacity, "; nobody of its CTA could still arrive%s",
                    cta->cluster && cta->cluster->left > 1 ? ", another CTA of the cluster may" : "");
}

void mbarrier_describe(const struct exec *x, char *text, size_t capacity) {
    const struct mbarrier *b = mbarrier_at(x->warp->cta, x->await_offset);
    char name[240];
    exec_append(text, capacity, "; waits for the %s: %s", x->await_parity ? "phase of parity 1" : "phase of parity 0",
                name_of(x, x->await_offset, name, sizeof name));
    if (b)
        exec_append(text, capacity, " is in phase %llu, %u of %u arrivals to come, %d bytes to come%s",
                    (unsigned long long)b->phase, b->pending, b->expected, b->tx,
                    b->tx < 0 ? " (more have come than were expected)" : "");
    exec_append(text, capacity, ", by ");
    exec_append_place(x, x->await_pc, text, capacity);
    describe_others(x, text, capacity);
}
