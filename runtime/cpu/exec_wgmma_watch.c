/* exec_wgmma_watch.c - who may touch what a wgmma under way uses: its accumulators, its fragments of A, the shared
 * bytes that it reads.
 *
 * Registers: a wgmma's have slots of their own (ptx_liveness.c), and every other operation that names one goes through
 * op_wgmma_guard. Shared bytes: writing them needs sight of the newest group that reads them. Sight is gained by a wait
 * of any warp of the warpgroup, passed on by barriers of the CTA, and by a release to all (who acquires is not
 * followed). */
#include <string.h>
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_copy.h>

static u32 *greater(u32 *to, u32 value) {
    if (value > *to) *to = value;
    return to;
}

/* ---- registers ---- */
static int refuse(struct exec *x, u32 lane, const char *what, u32 group, u32 pc) {
    exec_fault(x, lane, FAULT_LAUNCH,
               "%s of a wgmma under way: no wgmma.wait_group of this warp covers its group, number %u of %u committed; "
               "it began at ",
               what, group, x->wgmma->committed);
    exec_append_place(x, pc, x->fault->text, sizeof x->fault->text);
    return RUN_FAULT;
}

/* code->watched: for each operation, after its first word, slot << 1 | written. */
int op_wgmma_guard(struct exec *x, const struct op *o, u32 m) {
    u32 pc = (u32)(o - x->code->ops), lane = (u32)__builtin_ctz(m);
    struct wgmma_warp *w = x->wgmma;
    for (const u32 *watch = x->code->watches + x->code->watched[pc]; w && *watch; watch++) {
        struct wgmma_register *r = &w->registers[*watch >> 1];
        bool written = *watch & 1;
        if (r->d_group > w->done)
            return refuse(x, lane, written ? "write of an accumulator" : "read of an accumulator", r->d_group, r->d_pc);
        if (written && r->a_group > w->done)
            return refuse(x, lane, "write of a register with a fragment of A", r->a_group, r->a_pc);
        r->touched = w->fences + 1;
        if (written) r->written = w->fences + 1;
    }
    return x->code->inner[pc](x, o, m);
}

static bool same_shape(const struct op *a, const struct op *b) {
    return wgmma_columns(a) == wgmma_columns(b) && a->bytes == b->bytes && a->space == b->space;
}

static bool fence_missing(struct exec *x, const char *what) {
    exec_fault(x, 0, FAULT_LAUNCH,
               "%s since this warp's last wgmma.fence: between another instruction's use of a register and its use by "
               "wgmma a wgmma.fence is needed",
               what);
    return false;
}

bool wgmma_take_registers(struct exec *x, const struct op *o) {
    struct wgmma_warp *w = x->wgmma;
    u32 group = w->committed + 1, pc = (u32)(o - x->code->ops);
    for (unsigned i = 0; i < o->count + (o->imm & WGMMA_A_REGISTERS ? 4u : 0u); i++) {
        u32 operand = x->code->extra[o->extra + i];
        if (operand & OPERAND_CONST) continue;
        struct wgmma_register *r = &w->registers[operand / SLOT_BYTES];
        bool accumulator = i < o->count;
        if (accumulator ? r->touched > w->fences : r->written > w->fences)
            return fence_missing(x, accumulator ? "an accumulator has been read or written"
                                                : "a register with a fragment of A has been written");
        if (r->d_group > w->done && (!accumulator || r->d_at != i || !same_shape(o, &x->code->ops[r->d_pc])))
            return refuse(x, 0,
                          accumulator ? "use in another shape or place of an accumulator"
                                      : "use as a fragment of A of an accumulator",
                          r->d_group, r->d_pc) != RUN_FAULT;
        if (accumulator && r->a_group > w->done)
            return refuse(x, 0, "use as accumulator of a register with a fragment of A", r->a_group, r->a_pc) !=
                   RUN_FAULT;
        *(accumulator ? &r->d_group : &r->a_group) = group;
        *(accumulator ? &r->d_pc : &r->a_pc) = pc;
        if (accumulator) r->d_at = i;
    }
    return true;
}

/* ---- shared memory ---- */
static bool read_sight(struct exec *x, unsigned group, u32 offset) {
    struct cta *cta = x->warp->cta;
    const struct barriers *state = cta->exec;
    if (state->copy_words || async_of(cta)->marks[offset / UNIT] & (MARK_LOAD | MARK_BARRIER))
        for (unsigned w = 0; w < WARPGROUP; w++) { /* each warp reads what it needs */
            struct exec *y = exec_of(cta, group * WARPGROUP + w);
            y->world = x->world;
            y->fault = x->fault;
            if (!copies_permit(y, 0, y->live, offset, UNIT, ACCESS_READ)) return false;
        }
    return proxy_permit(x, 0, cta, offset, UNIT);
}

static bool read_unit(struct exec *x, unsigned group, const struct op *o, u32 offset, char operand) {
    struct cta *cta = x->warp->cta;
    struct warpgroup *g = &warpgroups_of(cta)->at[group];
    if ((u64)offset + UNIT > cta->shared_bytes) {
        exec_fault(x, 0, FAULT_ILLEGAL_ADDRESS,
                   "the descriptor of %c reaches shared address 0x%x: the shared memory is [0x%x, 0x%x)", operand,
                   offset + SHARED_BASE, SHARED_BASE, SHARED_BASE + cta->shared_bytes);
        return false;
    }
    if (!read_sight(x, group, offset) || (x->checker && !check_wgmma(x, o, group, offset))) {
        exec_append(x->fault->text, sizeof x->fault->text, "; wgmma reads it through the descriptor of %c", operand);
        return false;
    }
    g->reader[offset / UNIT] = x->wgmma->committed + 1;
    g->reader_pc[offset / UNIT] = (u32)(o - x->code->ops);
    async_of(cta)->marks[offset / UNIT] |= MARK_WGMMA;
    return true;
}

static bool unwritten(struct exec *x, u32 offset, const char *what, char operand) {
    exec_fault(x, 0, FAULT_LAUNCH, "read of shared address 0x%x", offset + SHARED_BASE);
    exec_append_name(x, offset + SHARED_BASE, x->fault->text, sizeof x->fault->text);
    exec_append(x->fault->text, sizeof x->fault->text,
                ", which nobody has written; wgmma reads it through the descriptor of %c, %s", operand, what);
    return false;
}

bool wgmma_read(struct exec *x, unsigned group, const struct op *o, u64 descriptor, bool trans, unsigned rows,
                char operand) {
    unsigned known[WGMMA_COLUMNS] = {0}, lines = trans ? rows / 8 : rows, of = wgmma_units(rows) / lines, some = 0;
    u32 gap[WGMMA_COLUMNS] = {0};
    for (unsigned unit = 0; unit < wgmma_units(rows); unit++) {
        unsigned line = trans ? unit % lines : unit / WGMMA_UNITS;
        u32 offset = wgmma_unit(descriptor, trans, rows, unit);
        if (!read_unit(x, group, o, offset, operand)) return false;
        if (proxy_known(x->warp->cta, offset, UNIT))
            known[line]++, some++;
        else
            gap[line] = offset;
    }
    if (!some) return unwritten(x, gap[0], "of which nothing has been written", operand);
    for (unsigned line = 0; line < lines; line++)
        if (known[line] && known[line] < of)
            return unwritten(x, gap[line], "other bytes of this row or column have been written", operand);
    return true;
}

bool wgmma_permit_write(struct exec *x, u32 lane, const struct cta *cta, u32 unit, u64 offset, unsigned bytes,
                        enum access access) {
    static const char *const names[] = {"use", "read", "write", "atomic"};
    bool over = true;
    for (unsigned i = 0; i < WARPGROUPS_MOST; i++) {
        const struct warpgroup *g = &warpgroups_of(cta)->at[i];
        if (!g->reader || g->reader[unit] <= g->released) continue;
        over = false;
        if (cta == x->warp->cta && g->reader[unit] <= g->seen[x->warp->index]) continue;
        const struct exec *reader = exec_of(cta, i * WARPGROUP);
        bool waited = false;
        for (unsigned w = 0; w < WARPGROUP; w++)
            waited |= g->reader[unit] <= g->seen[i * WARPGROUP + w];
        exec_fault(x, lane, FAULT_LAUNCH, "%s of shared bytes that a wgmma %s: %u bytes at shared address 0x%llx",
                   names[access],
                   waited ? "has read, with no barrier or release since a warp waited for it"
                          : "under way reads, which nobody has waited for",
                   bytes, (unsigned long long)(offset + SHARED_BASE));
        exec_append_name(x, offset + SHARED_BASE, x->fault->text, sizeof x->fault->text);
        exec_append(x->fault->text, sizeof x->fault->text, "; it began in warps %u to %u, group %u, at ", i * WARPGROUP,
                    i * WARPGROUP + WARPGROUP - 1, g->reader[unit]);
        exec_append_place(reader, g->reader_pc[unit], x->fault->text, sizeof x->fault->text);
        return false;
    }
    if (over) async_of(cta)->marks[unit] &= (u8)~MARK_WGMMA;
    return true;
}

/* ---- sight ---- */
void wgmma_arrive(const struct cta *cta, unsigned warp, u32 barrier) {
    for (unsigned i = 0; warpgroups_of(cta) && i < WARPGROUPS_MOST; i++) {
        struct warpgroup *g = &warpgroups_of(cta)->at[i];
        greater(&g->carried[barrier], g->seen[warp]);
    }
}

void wgmma_open(const struct cta *cta, u32 barrier, u32 warps) {
    u32 live = copies_live(cta), reached = warps | ~live;
    for (unsigned i = 0; warpgroups_of(cta) && i < WARPGROUPS_MOST; i++) {
        struct warpgroup *g = &warpgroups_of(cta)->at[i];
        u32 best = g->carried[barrier], least = UINT32_MAX;
        g->carried[barrier] = 0;
        for (unsigned w = 0; w < cta->warp_count; w++)
            if (reached >> w & 1) greater(&best, g->seen[w]);
        for (unsigned w = 0; w < cta->warp_count; w++) {
            if (warps >> w & 1) greater(&g->seen[w], best);
            if (live >> w & 1 && g->seen[w] < least) least = g->seen[w];
        }
        if (live) greater(&g->released, least);
    }
}

void wgmma_release(const struct cta *cta, unsigned warp) {
    for (unsigned i = 0; warpgroups_of(cta) && i < WARPGROUPS_MOST; i++) {
        struct warpgroup *g = &warpgroups_of(cta)->at[i];
        greater(&g->released, g->seen[warp]);
    }
}
