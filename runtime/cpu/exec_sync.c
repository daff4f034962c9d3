/* exec_sync.c - threads that wait for each other: .sync operations of a warp, barriers of a CTA.
 * A thread that comes to such an operation before all members are there is parked with its pc; the operation runs once
 * for all, even when they came by different instructions of the same form. */
#include <stdio.h>
#include <string.h>
#include <runtime/cpu/exec_async.h>
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_copy.h>
#include <runtime/cpu/exec_wgmma.h>

static void park(struct exec *x, u32 pc, u32 lanes, u32 members) {
    for (unsigned i = 0; i < x->parked_count; i++)
        if (x->parked[i].pc == pc && x->parked[i].members == members) {
            x->parked[i].lanes |= lanes;
            return;
        }
    x->parked[x->parked_count++] = (struct parked){pc, lanes, members};
}

static int not_named(struct exec *x, u32 outside, u32 members) {
    return exec_fault(x, (unsigned)__builtin_ctz(outside), FAULT_LAUNCH,
                      "the member mask 0x%08x does not name the thread itself (lane %d)", members,
                      __builtin_ctz(outside));
}

int op_sync(struct exec *x, const struct op *o, u32 m) {
    u32 pc = (u32)(o - x->code->ops);
    if (o->kind == SYNC_BARRIER) {
        park(x, pc, m, 0);
        return RUN_PARK;
    }
    if (o->kind == SYNC_WARP) {
        if (x->launched != ALL_LANES)
            return exec_fault(x, (unsigned)__builtin_ctz(m), FAULT_LAUNCH,
                              "the instruction needs all 32 threads of the warp; the block gives it %d",
                              __builtin_popcount(x->launched));
        if (m == ALL_LANES) return o->sync(x, &(struct part){o, m}, 1, m);
        park(x, pc, m, ALL_LANES);
        return RUN_PARK;
    }
    const u32 *masks = AT(x, (u32)o->imm);
    u32 members = masks[__builtin_ctz(m)], alike = 0;
    if (m == ALL_LANES && members == ALL_LANES) { /* the common case first */
        u32 all = ALL_LANES;
        for (int lane = 0; lane < WARP; lane++)
            all &= masks[lane];
        if (all == ALL_LANES) return o->sync(x, &(struct part){o, m}, 1, m);
    }
    FOR_LANES(lane, m) alike |= (u32)(masks[lane] == members) << lane;
    if (alike == m) {
        if (m & ~members) return not_named(x, m & ~members, members);
        members &= x->launched; /* lanes that the block never had are not waited for */
        if (members == m) return o->sync(x, &(struct part){o, m}, 1, m);
    }
    FOR_LANES(lane, m) {
        if (!(masks[lane] >> lane & 1)) return not_named(x, 1u << lane, masks[lane]);
        park(x, pc, 1u << lane, masks[lane] & x->launched);
    }
    return RUN_PARK;
}

/* ---- meeting ---- */
static u32 operand_at(const struct exec *x, u32 operand, u32 lane) {
    return ((const u32 *)AT(x, operand))[lane];
}

static bool same_form(const struct exec *x, const struct parked *p, const struct parked *q) {
    const struct op *a = &x->code->ops[p->pc], *b = &x->code->ops[q->pc];
    if (a == b) return p->members == q->members;
    if (a->sync != b->sync || a->sub != b->sub || a->flags != b->flags || a->count != b->count ||
        a->width != b->width || p->members != q->members)
        return false;
    if (a->kind != SYNC_BARRIER) return true;
    u32 la = (u32)__builtin_ctz(p->lanes), lb = (u32)__builtin_ctz(q->lanes);
    return a->bytes == 0 &&
           operand_at(x, a->a, la) == operand_at(x, b->a, lb); /* bytes: .aligned, meets at one instruction only */
}

static int fault_at(struct exec *x, const struct parked *p, int run) {
    if (run == RUN_FAULT) exec_fault_complete(x, p->pc);
    return run;
}

static void unpark(struct exec *x, u32 lanes, bool resume) {
    unsigned kept = 0;
    for (unsigned i = 0; i < x->parked_count; i++) {
        struct parked p = x->parked[i];
        if (!(p.lanes & lanes))
            x->parked[kept++] = p;
        else if (resume)
            group_add(x, p.pc + 1, p.lanes);
    }
    x->parked_count = kept;
}

/* The memory checker: an .aligned barrier wants the whole warp, whether or not hardware lets it pass; but for threads
 * that returned early, at once. Those that did anything else after they had passed the barrier by have diverged. */
static int short_of(struct exec *x, u32 here) {
    return exec_fault(
        x, (unsigned)__builtin_ctz(here), FAULT_LAUNCH,
        "divergent barrier: an .aligned one that lanes 0x%08x of the warp come to; lanes 0x%08x have exited", here,
        x->launched & ~here);
}

static int try_complete(struct exec *x, unsigned at, bool *done) {
    struct parked first = x->parked[at];
    bool barrier = x->code->ops[first.pc].kind == SYNC_BARRIER;
    u32 needed = barrier ? x->live : first.members, gone = needed & ~x->live, here = 0;
    struct part parts[WARP];
    unsigned count = 0;
    *done = false;
    if (gone)
        return fault_at(x, &first,
                        exec_fault(x, (unsigned)__builtin_ctz(first.lanes), FAULT_LAUNCH,
                                   "the member mask 0x%08x names threads that have exited: lanes 0x%08x", first.members,
                                   gone));
    for (unsigned i = 0; i < x->parked_count; i++)
        if (i == at || same_form(x, &first, &x->parked[i])) {
            parts[count++] = (struct part){&x->code->ops[x->parked[i].pc], x->parked[i].lanes};
            here |= x->parked[i].lanes;
        }
    if (here != needed) return RUN_NEXT;
    *done = true;
    if (barrier && x->checker && x->code->ops[first.pc].bytes && x->launched & ~needed & ~x->left)
        return fault_at(x, &first, short_of(x, here));
    if (barrier) return fault_at(x, &first, parts[0].op->sync(x, parts, count, here));
    int run = fault_at(x, &first, parts[0].op->sync(x, parts, count, here));
    unpark(x, here, true);
    return run;
}

int sync_settle(struct exec *x) {
    for (unsigned i = 0; i < x->parked_count && !x->at_barrier;) {
        bool done;
        if (try_complete(x, i, &done) == RUN_FAULT) return RUN_FAULT;
        i = done ? 0 : i + 1;
    }
    return RUN_NEXT;
}

int sync_missing(struct exec *x) {
    const struct parked *p = &x->parked[0];
    bool barrier = x->code->ops[p->pc].kind == SYNC_BARRIER;
    u32 missing = (barrier ? x->live : p->members) & ~p->lanes;
    char others[1200] = "";
    for (unsigned i = 1; i < x->parked_count; i++) {
        const struct where *w = &x->code->where[x->parked[i].pc];
        size_t used = strlen(others);
        snprintf(others + used, sizeof others - used, "%s lanes 0x%08x wait at PTX line %u `%.*s`", i > 1 ? "," : "",
                 x->parked[i].lanes, w->line, (int)(w->length < 100 ? w->length : 100), x->code->source + w->text);
    }
    return fault_at(x, p,
                    exec_fault(x, (unsigned)__builtin_ctz(p->lanes), FAULT_LAUNCH,
                               "%s: lanes 0x%08x wait here for lanes 0x%08x, which cannot come:%s",
                               barrier ? "divergent barrier" : "divergent .sync operation", p->lanes, missing, others));
}

/* ---- barriers of the CTA ---- */
static u32 threads_needed(const struct exec *x, const struct barrier *b) {
    return b->expected ? b->expected : x->warp->cta->live_warps * WARP;
}

static void give_result(struct exec *y, const struct barrier *b) {
    for (unsigned i = 0; i < y->parked_count; i++) {
        const struct op *o = &y->code->ops[y->parked[i].pc];
        u32 m = y->parked[i].lanes;
        if (o->sub == BARRIER_POPC) {
            u32 *d = AT(y, o->d);
            FOR_LANES(lane, m) d[lane] = b->population;
        } else if (o->sub == BARRIER_AND || o->sub == BARRIER_OR) {
            predicate_write(y, o->d, (o->sub == BARRIER_AND ? b->all : b->any) ? ALL_LANES : 0, m);
        }
    }
}

void sync_pass(struct exec *x) {
    unpark(x, ALL_LANES, true);
}

void sync_resume(struct exec *x) {
    x->at_barrier = false;
    unpark(x, ALL_LANES, true);
    if (x->warp->state == WARP_AT_BARRIER) x->warp->state = WARP_READY;
    x->warp->progressed = true;
}

static void open_barrier(struct exec *x, u32 id) {
    struct cta *cta = x->warp->cta;
    world_barrier(x->world, x->warp, true);
    struct barrier *b = &((struct barriers *)cta->exec)->at[id];
    u32 warps = 0;
    for (unsigned i = 0; i < cta->warp_count; i++) {
        struct exec *y = cta->warps[i]->exec;
        if (!y->at_barrier || y->barrier != id) continue;
        warps |= 1u << i;
        give_result(y, b);
        sync_resume(y);
    }
    if (async_of(cta)) proxy_sync(async_of(cta));
    if (cta->copies) copies_open(cta, id, warps);
    if (x->checker) check_open(cta, id, warps, !b->expected);
    *b = (struct barrier){0};
}

/* The warp arrives as a whole: all its live threads are parked at this barrier. */
int sync_barrier(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    const struct op *o = parts[0].op;
    struct cta *cta = x->warp->cta;
    u32 lane = (u32)__builtin_ctz(parts[0].lanes), id = operand_at(x, o->a, lane),
        expected = o->b == NO_OPERAND ? 0 : operand_at(x, o->b, lane);
    for (unsigned i = 0; i < count; i++)
        FOR_LANES(l, parts[i].lanes)
    if (operand_at(x, parts[i].op->a, l) != id || (o->b != NO_OPERAND && operand_at(x, parts[i].op->b, l) != expected))
        return exec_fault(x, l, FAULT_LAUNCH, "the threads of a warp name different barriers or counts");
    if (id >= MAX_BARRIERS)
        return exec_fault(x, lane, FAULT_LAUNCH, "barrier %u does not exist: there are 0 to %d", id, MAX_BARRIERS - 1);
    if (o->b != NO_OPERAND && (expected == 0 || expected % WARP || expected > cta->warp_count * WARP))
        return exec_fault(x, lane, FAULT_LAUNCH,
                          "barrier %u for %u threads: it must be a multiple of 32 up to the block's %u", id, expected,
                          cta->warp_count * WARP);
    struct barrier *b = &((struct barriers *)cta->exec)->at[id];
    if (b->arrived && b->expected != expected)
        return exec_fault(x, lane, FAULT_LAUNCH,
                          "barrier %u for %u threads: %u threads wait there with another count, %u (0: all)", id,
                          expected, b->arrived, b->expected);
    if (!b->arrived) *b = (struct barrier){.expected = expected, .all = true};
    b->arrived += WARP;
    if (x->checker) check_arrive(x, id, members);
    for (unsigned i = 0; i < count && o->sub >= BARRIER_POPC; i++) {
        u32 set = predicate_read(x, parts[i].op->c) & parts[i].lanes;
        b->population += (u32)__builtin_popcount(set);
        b->all = b->all && set == parts[i].lanes;
        b->any = b->any || set;
    }
    x->warp->progressed = true;
    if (o->sub == BARRIER_ARRIVE) {
        if (cta->copies) copies_arrive(x, id);
        unpark(x, members, true);
    } else {
        x->at_barrier = true;
        x->barrier = id;
    }
    if (b->arrived >= threads_needed(x, b)) open_barrier(x, id);
    return RUN_NEXT;
}

int sync_warp_gone(struct exec *x) {
    struct barriers *all = x->warp->cta->exec;
    for (u32 id = 0; id < MAX_BARRIERS; id++)
        if (all->at[id].arrived && all->at[id].arrived >= threads_needed(x, &all->at[id])) open_barrier(x, id);
    cluster_settle(x, x->warp->cta->cluster);
    registers_gone(x);
    return wgmma_gone(x);
}

/* ---- reports ---- */
/* "; warps 1, 3 have not come": of those that live, whom the barrier still waits for. */
void sync_describe(const struct exec *x, char *text, size_t capacity) {
    const struct cta *cta = x->warp->cta;
    unsigned away = 0;
    if (!x->at_barrier || x->barrier >= MAX_BARRIERS) return;
    const struct barrier *b = &((const struct barriers *)cta->exec)->at[x->barrier];
    exec_append(text, capacity, "; at barrier %u %u of %u threads have come", x->barrier, b->arrived,
                b->expected ? b->expected : cta->live_warps * WARP);
    for (unsigned w = 0; w < cta->warp_count; w++) {
        const struct exec *y = cta->warps[w]->exec;
        if (cta->warps[w]->state == WARP_DONE || (y->at_barrier && y->barrier == x->barrier)) continue;
        exec_append(text, capacity, "%s%u", away++ ? ", " : ", not here: warps ", w);
        if (y->at_barrier) exec_append(text, capacity, " (at barrier %u)", y->barrier);
    }
}
