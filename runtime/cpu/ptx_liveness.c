/* ptx_liveness.c - gives each virtual register a slot: liveness over basic blocks, then a linear scan over intervals.
 * PTX declares thousands of registers; a warp keeps only as many slots as are live at once. Each thread follows its own
 * path and owns its lane of a slot, so liveness of one thread's control flow is right for diverged warps too. A
 * register's interval is one stretch of instructions that covers every place where it is live, holes included. A
 * function too large for that (MOST_WORDS, MOST_WORK) keeps every register everywhere: right, too, with more slots. */
#include <string.h>
#include <runtime/cpu/ptx.h>

/* Of one set of all blocks, in 64-bit words (16 MiB; a kernel of 20000 registers and 5000 blocks has 1.6 million), and
 * words looked at until the solution stands still. */
enum { MOST_WORDS = 2 << 20, MOST_WORK = 1 << 28 };

struct block {
    u32 first, end;
    u32 next[2];
    unsigned next_count;
    const struct label_list *targets;
};

struct liveness {
    struct loader *l;
    struct function *f;
    struct arena scratch;
    u32 *dense, *vreg_of, count, words;
    struct block *blocks;
    u32 block_count, *block_at;
    u64 *live_in, *live_out, *use, *kill, *defined, *defined_in;
    u32 *low, *high;
    u64 *kept; /* registers of wgmma */
    u64 work;
    /* visitor state */
    u32 position;
    u64 *block_use, *block_kill, *block_defined;
    bool guarded;
};

static void *take(struct liveness *v, size_t bytes) {
    void *at = arena_take(&v->scratch, bytes);
    if (!at) {
        arena_free(&v->scratch);
        load_fail(v->l, 0, "out of memory");
    }
    return at;
}

static void operand_registers(const struct operand *o, bool written, reg_visitor *visit, void *self) {
    if (o->kind == O_REG)
        visit(self, o->reg, written);
    else if (o->kind == O_ADDRESS && o->has_reg)
        visit(self, o->reg, false);
    for (unsigned i = 0; i < o->count; i++) /* of a vector; coordinates within an address */
        operand_registers(&o->items[i], written && o->kind == O_VECTOR, visit, self);
    if (o->paired) operand_registers(o->paired, written, visit, self);
}

void insn_registers(const struct insn *insn, reg_visitor *visit, void *self) {
    for (unsigned i = insn->outputs; i < insn->operand_count; i++)
        operand_registers(&insn->operands[i], false, visit, self);
    if (insn->guarded) visit(self, insn->guard, false);
    for (unsigned i = 0; i < insn->outputs; i++)
        operand_registers(&insn->operands[i], true, visit, self);
}

static void mark_kept(void *self, u32 vreg, bool written) {
    struct liveness *v = self;
    u32 id = v->dense[vreg] - 1;
    (void)written;
    if (v->f->vregs[vreg].kind != REG_PRED && v->f->vregs[vreg].bits == 32) v->kept[id >> 6] |= 1ull << (id & 63);
}

/* A wgmma uses its registers after its instruction: they share their slots with nobody, so that a slot names a register
 * (exec_wgmma_watch.c). */
static void keep_slots(struct liveness *v) {
    v->kept = take(v, v->words * sizeof(u64) + 8);
    for (u32 i = 0; i < v->f->insn_count; i++)
        if (v->f->insns[i]->form->encode == encode_wgmma) insn_registers(v->f->insns[i], mark_kept, v);
    for (u32 id = 0; id < v->count; id++)
        if (v->kept[id >> 6] >> (id & 63) & 1) {
            v->low[id] = 0;
            v->high[id] = v->f->insn_count - 1;
        }
}

static void mark_used(void *self, u32 vreg, bool written) {
    struct liveness *v = self;
    (void)written;
    if (!v->dense[vreg]) v->dense[vreg] = ++v->count;
}

/* ---- control flow ---- */
static bool ends_block(const struct insn *insn) {
    encode_fn *e = insn->form->encode;
    return e == encode_branch || e == encode_index || e == encode_exit || e == encode_trap;
}

static void mark_leader(struct liveness *v, s64 position) {
    if (position >= 0 && position < v->f->insn_count) v->block_at[position] = 1;
}

static struct label_list *targets_of(const struct insn *insn) {
    for (unsigned i = 0; i < insn->operand_count; i++)
        if (insn->operands[i].kind == O_TARGETS) return insn->operands[i].targets;
    return NULL;
}

static void find_blocks(struct liveness *v) {
    const struct function *f = v->f;
    v->block_at = take(v, (f->insn_count + 1) * sizeof *v->block_at);
    mark_leader(v, 0);
    for (u32 i = 0; i < f->insn_count; i++) {
        const struct insn *insn = f->insns[i];
        if (!ends_block(insn)) continue;
        mark_leader(v, i + 1);
        struct label_list *targets = targets_of(insn);
        if (insn->form->encode == encode_branch) mark_leader(v, insn->operands[0].label->position);
        for (u32 t = 0; targets && !targets->marked && t < targets->count; t++)
            mark_leader(v, targets->at[t]->position);
        if (targets) targets->marked = true;
    }
    for (u32 i = 0; i < f->insn_count; i++)
        v->block_count += v->block_at[i];
    v->blocks = take(v, (v->block_count + 1) * sizeof *v->blocks);
    u32 b = 0;
    for (u32 i = 0; i < f->insn_count; i++) {
        if (v->block_at[i]) v->blocks[b++].first = i;
        v->block_at[i] = b - 1;
        v->blocks[b - 1].end = i + 1;
    }
    for (b = 0; b < v->block_count; b++) {
        struct block *block = &v->blocks[b];
        const struct insn *last = f->insns[block->end - 1];
        encode_fn *e = last->form->encode;
        bool falls = last->guarded || !ends_block(last);
        if (falls && block->end < f->insn_count) block->next[block->next_count++] = b + 1;
        if (e == encode_branch && last->operands[0].label->position < f->insn_count)
            block->next[block->next_count++] = v->block_at[last->operands[0].label->position];
        if (e == encode_index) block->targets = targets_of(last);
    }
}

/* ---- sets ---- */
static void collect(void *self, u32 vreg, bool written) {
    struct liveness *v = self;
    u32 id = v->dense[vreg] - 1;
    u64 bit = 1ull << (id & 63);
    if (!written) {
        if (!(v->block_kill[id >> 6] & bit)) v->block_use[id >> 6] |= bit;
    } else {
        v->block_defined[id >> 6] |= bit;
        if (!v->guarded) v->block_kill[id >> 6] |= bit;
    }
    if (v->position < v->low[id]) v->low[id] = v->position;
    if (v->position > v->high[id]) v->high[id] = v->position;
}

static bool join(u64 *to, const u64 *from, u32 words) {
    u64 changed = 0;
    for (u32 w = 0; w < words; w++) {
        changed |= from[w] & ~to[w];
        to[w] |= from[w];
    }
    return changed != 0;
}

static u32 successor(const struct liveness *v, const struct block *b, u32 i) {
    if (i < b->next_count) return b->next[i];
    i -= b->next_count;
    if (!b->targets || i >= b->targets->count) return UINT32_MAX;
    s64 position = b->targets->at[i]->position;
    return position < v->f->insn_count ? v->block_at[position] : UINT32_MAX - 1;
}

/* Counts the work of one step; false when it has been too much. */
static bool works(struct liveness *v) {
    v->work += v->words + 1;
    return v->work <= MOST_WORK;
}

/* Backward: live_in = use | (live_out & ~kill). Forward: what some path has defined; a register is not live before any
 * definition. False: given up. */
static bool solve(struct liveness *v) {
    u32 words = v->words;
    for (bool again = true; again;) {
        again = false;
        for (u32 b = v->block_count; b-- > 0;) {
            if (!works(v)) return false;
            u64 *out = v->live_out + (size_t)b * words, *in = v->live_in + (size_t)b * words;
            for (u32 i = 0, s; (s = successor(v, &v->blocks[b], i)) != UINT32_MAX; i++) {
                if (!works(v)) return false;
                if (s != UINT32_MAX - 1) join(out, v->live_in + (size_t)s * words, words);
            }
            const u64 *use = v->use + (size_t)b * words, *kill = v->kill + (size_t)b * words;
            for (u32 w = 0; w < words; w++) {
                u64 now = use[w] | (out[w] & ~kill[w]);
                again |= now != in[w];
                in[w] = now;
            }
        }
    }
    for (bool again = true; again;) {
        again = false;
        for (u32 b = 0; b < v->block_count; b++) {
            if (!works(v)) return false;
            u64 *defined = v->defined + (size_t)b * words;
            join(defined, v->defined_in + (size_t)b * words, words);
            for (u32 i = 0, s; (s = successor(v, &v->blocks[b], i)) != UINT32_MAX; i++) {
                if (!works(v)) return false;
                if (s != UINT32_MAX - 1) again |= join(v->defined_in + (size_t)s * words, defined, words);
            }
        }
    }
    return true;
}

static void extend(struct liveness *v, const u64 *live, const u64 *defined, u32 position) {
    for (u32 w = 0; w < v->words; w++)
        for (u64 set = live[w] & defined[w]; set; set &= set - 1) {
            u32 id = w * 64 + (u32)__builtin_ctzll(set);
            if (position < v->low[id]) v->low[id] = position;
            if (position > v->high[id]) v->high[id] = position;
        }
}

/* ---- linear scan ---- */
struct bank {
    u64 *used;
    u32 words, top;
};

static u32 bank_take(struct bank *bank, u32 size) {
    for (u32 at = 0;; at += size) { /* aligned runs of 1, 2 or 4 */
        u64 mask = ((1ull << size) - 1) << (at & 63);
        if (!(bank->used[at >> 6] & mask)) {
            bank->used[at >> 6] |= mask;
            if (at + size > bank->top) bank->top = at + size;
            return at;
        }
        if (bank->used[at >> 6] == ~0ull) at |= 64 - size; /* the last run of the word */
    }
}

static void bank_give(struct bank *bank, u32 at, u32 size) {
    bank->used[at >> 6] &= ~(((1ull << size) - 1) << (at & 63));
}

static u32 size_of(const struct vreg *r) {
    return r->bits == 128 ? 4 : r->bits == 64 ? 2 : 1;
}

/* Which bank a register lives in. Each width has its own: a lane's place in a slot depends on the width, so a slot that
 * served two widths would let diverged threads overwrite each other. */
enum { BANK_32, BANK_64, BANK_128, BANK_PREDICATE, BANKS };

static unsigned bank_of(const struct vreg *r) {
    return r->kind == REG_PRED ? BANK_PREDICATE : r->bits == 128 ? BANK_128 : r->bits == 64 ? BANK_64 : BANK_32;
}

/* Slots of the three widths one behind the other, each range at a multiple of 4 slots. */
static void place_banks(struct function *f, const struct liveness *v, const struct bank *banks) {
    u32 base[BANKS] = {0}, end = 0;
    for (unsigned b = BANK_32; b <= BANK_128; b++) {
        base[b] = end;
        end = (end + banks[b].top + 3) & ~3u;
    }
    for (u32 id = 0; id < v->count; id++) {
        u32 r = v->vreg_of[id];
        unsigned bank = bank_of(&f->vregs[r]);
        if (bank != BANK_PREDICATE) f->slots[r] = (f->slots[r] + base[bank]) * SLOT_BYTES;
    }
    f->code.slots = end;
    f->code.predicates = banks[BANK_PREDICATE].top;
}

/* Slots 0..3 take discarded outputs; predicate 0 likewise, predicate 1 is always true. */
static void scan(struct liveness *v) {
    struct function *f = v->f;
    u32 *start_list = take(v, (f->insn_count + 1) * sizeof(u32)),
        *end_list = take(v, (f->insn_count + 1) * sizeof(u32));
    u32 *start_next = take(v, (v->count + 1) * sizeof(u32)), *end_next = take(v, (v->count + 1) * sizeof(u32));
    struct bank banks[BANKS];
    for (unsigned b = 0; b < BANKS; b++)
        banks[b] = (struct bank){take(v, (v->count / 16 + 4) * sizeof(u64)), 0, 0};
    banks[BANK_32].used[0] = 15;
    banks[BANK_32].top = 4;
    banks[BANK_PREDICATE].used[0] = 3;
    banks[BANK_PREDICATE].top = 2;
    for (u32 id = v->count; id-- > 0;) {
        start_next[id] = start_list[v->low[id]];
        start_list[v->low[id]] = id + 1;
        end_next[id] = end_list[v->high[id]];
        end_list[v->high[id]] = id + 1;
    }
    for (u32 p = 0; p < f->insn_count; p++) {
        for (u32 id = start_list[p]; id; id = start_next[id - 1]) {
            u32 r = v->vreg_of[id - 1];
            const struct vreg *reg = &f->vregs[r];
            f->slots[r] = bank_take(&banks[bank_of(reg)], bank_of(reg) == BANK_PREDICATE ? 1 : size_of(reg));
        }
        for (u32 id = end_list[p]; id;
             id = end_next[id - 1]) { /* free from the next instruction on: outputs never share with inputs */
            u32 r = v->vreg_of[id - 1];
            const struct vreg *reg = &f->vregs[r];
            bank_give(&banks[bank_of(reg)], f->slots[r], bank_of(reg) == BANK_PREDICATE ? 1 : size_of(reg));
        }
    }
    place_banks(f, v, banks);
}

static void find_uses(struct liveness *v) {
    const struct function *f = v->f;
    size_t set = (size_t)v->block_count * v->words * sizeof(u64);
    u64 **sets[] = {&v->live_in, &v->live_out, &v->use, &v->kill, &v->defined, &v->defined_in};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        *sets[i] = take(v, set + 8);
    for (u32 b = 0; b < v->block_count; b++) {
        size_t at = (size_t)b * v->words;
        v->block_use = v->use + at;
        v->block_kill = v->kill + at;
        v->block_defined = v->defined + at;
        for (v->position = v->blocks[b].first; v->position < v->blocks[b].end; v->position++) {
            v->guarded = f->insns[v->position]->guarded;
            insn_registers(f->insns[v->position], collect, v);
        }
    }
}

/* Registers that are live before anything is written: a path leads to a use that writes none of them. */
static void find_unset(struct liveness *v) {
    struct function *f = v->f;
    f->unset = load_take(v->l, f->vreg_count + 1);
    for (u32 id = 0; v->block_count && id < v->count; id++)
        f->unset[v->vreg_of[id]] = v->live_in[id >> 6] >> (id & 63) & 1;
}

/* The interval of each register. */
static void find_intervals(struct liveness *v) {
    if ((u64)v->block_count * v->words <= MOST_WORDS) {
        find_uses(v);
        if (solve(v)) {
            find_unset(v);
            for (u32 b = 0; b < v->block_count; b++) {
                size_t at = (size_t)b * v->words;
                extend(v, v->live_in + at, v->defined_in + at, v->blocks[b].first);
                extend(v, v->live_out + at, v->defined + at, v->blocks[b].end - 1);
            }
            return;
        }
    }
    for (u32 id = 0; id < v->count; id++) {
        v->low[id] = 0;
        v->high[id] = v->f->insn_count - 1;
    }
}

void assign_slots(struct loader *l, struct function *f) {
    struct liveness live = {.l = l, .f = f}, *v = &live;
    f->slots = load_take(l, (f->vreg_count + 1) * sizeof *f->slots);
    v->dense = take(v, (f->vreg_count + 1) * sizeof *v->dense);
    for (u32 i = 0; i < f->insn_count; i++)
        insn_registers(f->insns[i], mark_used, v);
    v->vreg_of = take(v, (v->count + 1) * sizeof *v->vreg_of);
    for (u32 r = 0; r < f->vreg_count; r++)
        if (v->dense[r]) v->vreg_of[v->dense[r] - 1] = r;
    v->low = take(v, (v->count + 1) * sizeof *v->low);
    v->high = take(v, (v->count + 1) * sizeof *v->high);
    memset(v->low, 0xFF, v->count * sizeof *v->low);
    v->words = (v->count + 63) / 64;
    find_blocks(v);
    find_intervals(v);
    keep_slots(v);
    scan(v);
    arena_free(&v->scratch);
}
