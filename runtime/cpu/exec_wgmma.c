/* exec_wgmma.c - wgmma: the warps of a warpgroup meet, operations queue, groups are committed and waited for.
 *
 * A warp that comes to wgmma.mma_async first is held as at a barrier until the other three stand at the same
 * instruction with the same descriptors. fence, commit_group and wait_group are each warp's own; that all four count
 * alike is looked at when they meet. */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/exec_copy.h>
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/exec_wgmma.h>

static unsigned group_of(const struct exec *x) {
    return x->warp->index / WARPGROUP;
}

static bool waits(const struct exec *x) {
    return x->at_barrier && x->barrier == WGMMA_PLACE;
}

/* ---- state ---- */
static bool ready(struct exec *x) {
    struct cta *cta = x->warp->cta;
    struct barriers *state = cta->exec;
    if (!state->wgmma) state->wgmma = calloc(1, sizeof *state->wgmma);
    if (!x->wgmma) x->wgmma = calloc(1, sizeof *x->wgmma + x->code->slots * sizeof x->wgmma->registers[0]);
    if (!state->wgmma || !x->wgmma) goto none;
    struct warpgroup *g = &state->wgmma->at[group_of(x)];
    size_t units = cta->shared_bytes / UNIT + 1;
    if (!g->reader) g->reader = calloc(units, sizeof *g->reader);
    if (!g->reader_pc) g->reader_pc = calloc(units, sizeof *g->reader_pc);
    if (g->reader && g->reader_pc) return async_need(x, 0, cta) != NULL;
none:
    exec_fault(x, 0, FAULT_LAUNCH, "out of host memory for wgmma");
    return false;
}

void wgmma_free(struct cta *cta) {
    struct barriers *state = cta->exec;
    for (unsigned i = 0; cta->warps && i < cta->warp_count; i++)
        free(((struct exec *)cta->warps[i]->exec)->wgmma);
    for (unsigned i = 0; state && state->wgmma && i < WARPGROUPS_MOST; i++) {
        free(state->wgmma->at[i].queue);
        free(state->wgmma->at[i].reader);
        free(state->wgmma->at[i].reader_pc);
    }
    if (state) free(state->wgmma);
}

static int split(struct exec *x, const struct part *parts) {
    return exec_fault(x, (u32)__builtin_ctz(parts[1].lanes), FAULT_LAUNCH,
                      "an .aligned operation is executed at two places of one warp");
}

/* ---- fence, commit, wait ---- */
int sync_wgmma_fence(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    (void)members;
    if (count > 1) return split(x, parts);
    if (!ready(x)) return RUN_FAULT;
    x->wgmma->fences++;
    return RUN_NEXT;
}

int sync_wgmma_commit(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    (void)members;
    if (count > 1) return split(x, parts);
    if (!ready(x)) return RUN_FAULT;
    x->wgmma->committed++;
    return RUN_NEXT;
}

/* imm: how many of the newest groups may go on. A wait of one warp is for the whole operation. */
int sync_wgmma_wait(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    u64 left = (u64)parts[0].op->imm;
    (void)members;
    if (count > 1) return split(x, parts);
    if (!ready(x)) return RUN_FAULT;
    struct wgmma_warp *w = x->wgmma;
    struct cta *cta = x->warp->cta;
    u32 *seen = &warpgroups_of(cta)->at[group_of(x)].seen[x->warp->index];
    if (left < w->committed && w->committed - left > w->done) w->done = w->committed - (u32)left;
    if (w->done > *seen) *seen = w->done;
    wgmma_land(cta, group_of(x), w->done);
    return RUN_NEXT;
}

/* ---- meeting ---- */
/* The warp's descriptors and scale-d: alike in all its threads. */
static bool take_arguments(struct exec *x, const struct op *o) {
    const u64 *b = AT(x, o->b), *a = o->imm & WGMMA_A_REGISTERS ? b : AT(x, o->a);
    u32 scale = predicate_read(x, o->c);
    for (u32 lane = 1; lane < WARP; lane++)
        if (a[lane] != a[0] || b[lane] != b[0]) {
            exec_fault(x, lane, FAULT_LAUNCH, "lanes 0 and %u of the warp give different descriptors of %c", lane,
                       a[lane] != a[0] ? 'A' : 'B');
            return false;
        }
    if (scale != 0 && scale != ALL_LANES) {
        exec_fault(x, (u32)__builtin_ctz(~scale), FAULT_LAUNCH,
                   "the threads of the warp give different scale-d: lanes 0x%08x true", scale);
        return false;
    }
    x->wgmma->a = a[0];
    x->wgmma->b = b[0];
    x->wgmma->scale = scale != 0;
    x->wgmma->pc = (u32)(o - x->code->ops);
    return true;
}

static int differ(struct exec *x, const struct exec *y, const char *what) {
    exec_fault(x, 0, FAULT_LAUNCH, "warps %u and %u of a warpgroup meet with different %s; warp %u waits at ",
               x->warp->index, y->warp->index, what, y->warp->index);
    exec_append_place(y, y->wgmma->pc, x->fault->text, sizeof x->fault->text);
    return RUN_FAULT;
}

/* The other warps of the warpgroup, of which all that wait do so for the same: RUN_NEXT; *missing: who is not here. */
static int look_round(struct exec *x, u32 *missing) {
    struct cta *cta = x->warp->cta;
    unsigned first = group_of(x) * WARPGROUP;
    *missing = 0;
    for (unsigned i = first; i < first + WARPGROUP; i++) {
        const struct exec *y = i < cta->warp_count ? exec_of(cta, i) : NULL;
        if (y == x) continue;
        if (!y || y->warp->state == WARP_DONE)
            return exec_fault(x, 0, FAULT_LAUNCH, "wgmma needs the four warps %u to %u of its warpgroup: warp %u %s",
                              first, first + WARPGROUP - 1, i, y ? "has exited" : "does not exist");
        if (!waits(y)) {
            *missing |= 1u << i;
            continue;
        }
        const struct wgmma_warp *a = x->wgmma, *b = y->wgmma;
        if (a->pc != b->pc) return differ(x, y, "instructions");
        if (a->a != b->a || a->b != b->b) return differ(x, y, "descriptors");
        if (a->scale != b->scale) return differ(x, y, "scale-d");
        if (a->committed != b->committed) return differ(x, y, "numbers of committed groups");
    }
    return RUN_NEXT;
}

static bool begin(struct exec *x, const struct op *o) {
    struct cta *cta = x->warp->cta;
    unsigned group = group_of(x);
    struct warpgroup *g = &warpgroups_of(cta)->at[group];
    const struct wgmma_warp *w = x->wgmma;
    if (g->count == g->capacity) {
        u32 capacity = g->capacity ? 2 * g->capacity : 32;
        struct wgmma_pending *grown = realloc(g->queue, capacity * sizeof *grown);
        if (!grown) {
            exec_fault(x, 0, FAULT_LAUNCH, "out of host memory for wgmma");
            return false;
        }
        g->queue = grown;
        g->capacity = capacity;
    }
    bool trans_a = o->imm & WGMMA_TRANS_A, trans_b = o->imm & WGMMA_TRANS_B;
    if (!(o->imm & WGMMA_A_REGISTERS) && !wgmma_read(x, group, o, w->a, trans_a, WGMMA_ROWS, 'A')) return false;
    if (!wgmma_read(x, group, o, w->b, trans_b, wgmma_columns(o), 'B')) return false;
    g->queue[g->count++] = (struct wgmma_pending){o, w->a, w->b, w->committed + 1, w->scale};
    cta->copies_flying++;
    for (unsigned i = 0; i < WARPGROUP; i++) {
        struct exec *y = exec_of(cta, group * WARPGROUP + i);
        y->wgmma->newest = w->committed + 1;
        if (y == x)
            sync_pass(x);
        else
            sync_resume(y);
    }
    x->warp->progressed = true;
    return true;
}

int sync_wgmma(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    const struct op *o = parts[0].op;
    u32 missing;
    if (count > 1) return split(x, parts);
    if (members != ALL_LANES)
        return exec_fault(x, (u32)__builtin_ctz(members), FAULT_LAUNCH,
                          "wgmma needs all 32 threads of the warp: lanes 0x%08x are here", members);
    if (!ready(x)) return RUN_FAULT;
    if (!x->wgmma->fences)
        return exec_fault(x, 0, FAULT_LAUNCH, "the first wgmma.mma_async of a warp needs a wgmma.fence before it");
    if (!take_arguments(x, o) || look_round(x, &missing) == RUN_FAULT || !wgmma_take_registers(x, o)) return RUN_FAULT;
    if (!missing) return begin(x, o) ? RUN_NEXT : RUN_FAULT;
    x->at_barrier = true;
    x->barrier = WGMMA_PLACE;
    return RUN_NEXT;
}

/* ---- words, ends ---- */
void wgmma_describe(const struct exec *x, char *text, size_t capacity) {
    const struct cta *cta = x->warp->cta;
    unsigned first = group_of(x) * WARPGROUP;
    if (!waits(x)) return;
    exec_append(text, capacity,
                "; it waits for the other warps of its warpgroup (%u to %u), of which elsewhere:", first,
                first + WARPGROUP - 1);
    for (unsigned i = first; i < first + WARPGROUP; i++) {
        const struct exec *y = exec_of(cta, i);
        if (waits(y)) continue;
        exec_append(text, capacity, " warp %u", i);
        for (unsigned k = 0; k < y->group_count; k++) {
            exec_append(text, capacity, k ? " and " : " at ");
            exec_append_place(y, y->groups[k].pc, text, capacity);
        }
        for (unsigned k = 0; k < y->parked_count; k++) {
            exec_append(text, capacity, " waiting at ");
            exec_append_place(y, y->parked[k].pc, text, capacity);
        }
    }
}

static int blame(struct exec *x, u32 pc, const char *format, unsigned warp) {
    x->fault->text[0] = 0;
    exec_append(x->fault->text, sizeof x->fault->text, format, warp);
    x->fault->code = FAULT_LAUNCH;
    x->fault_lane = 0;
    exec_fault_complete(x, pc);
    return RUN_FAULT;
}

int wgmma_gone(struct exec *x) {
    struct cta *cta = x->warp->cta;
    unsigned first = group_of(x) * WARPGROUP;
    const struct wgmma_warp *w = x->wgmma;
    if (w && w->newest > w->done)
        return blame(x, w->pc, "warp %u exits, and has not waited for its wgmma", x->warp->index);
    for (unsigned i = first; i < first + WARPGROUP && i < cta->warp_count; i++) {
        struct exec *y = exec_of(cta, i);
        if (y == x || !waits(y)) continue;
        y->world = x->world;
        y->fault = x->fault;
        return blame(y, y->wgmma->pc, "wgmma waits for warp %u of its warpgroup, which has exited", x->warp->index);
    }
    return RUN_NEXT;
}
