/* ptx_encode_control.c - encoders of branches and of operations that threads do together. */
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/ptx.h>

static u32 checked(struct loader *l, const struct insn *insn, unsigned index, char letter, unsigned bits) {
    const char *want = operand_mismatch(l, insn, &insn->operands[index], letter);
    if (want) insn_fail(l, insn, "operand %u does not suit the instruction's type: %s is expected", index + 1, want);
    return encode_operand(l, insn, &insn->operands[index], bits, false);
}

static u32 output(struct loader *l, const struct insn *insn, char letter) {
    if (insn->operands[0].kind != O_REG && insn->operands[0].kind != O_DISCARD)
        insn_fail(l, insn, "operand 1 is written and must be a register");
    return checked(l, insn, 0, letter, letter == 'L' ? 64 : 32);
}

/* ---- branches ---- */
void encode_branch(struct loader *l, const struct insn *insn, struct op *op) {
    want_operands(l, insn, 1, 1);
    if (insn->operands[0].kind != O_LABEL) insn_fail(l, insn, "a label is expected");
    op->imm = insn->operands[0].label->position;
}

void encode_index(struct loader *l, const struct insn *insn, struct op *op) {
    want_operands(l, insn, 2, 2);
    struct label_list *targets = insn->operands[1].targets;
    if (insn->operands[1].kind != O_TARGETS) insn_fail(l, insn, "the label of a .branchtargets list is expected");
    op->a = checked(l, insn, 0, 'w', 32);
    if (!targets->encoded) {
        targets->encoded = true;
        targets->extra = encode_extra(l, &targets->count, 1);
        for (u32 i = 0; i < targets->count; i++) {
            u32 position = (u32)targets->at[i]->position;
            encode_extra(l, &position, 1);
        }
    }
    op->extra = targets->extra;
}

void encode_exit(struct loader *l, const struct insn *insn, struct op *op) {
    (void)op;
    want_operands(l, insn, 0, 0);
}

void encode_trap(struct loader *l, const struct insn *insn, struct op *op) {
    (void)op;
    want_operands(l, insn, 0, 0);
}

void encode_nothing(struct loader *l, const struct insn *insn, struct op *op) {
    (void)l, (void)insn, (void)op;
}

/* ---- barriers: see enum barrier_kind ---- */
void encode_barrier(struct loader *l, const struct insn *insn, struct op *op) {
    bool red = op->sub >= BARRIER_POPC, arrive = op->sub == BARRIER_ARRIVE;
    unsigned first = red, least = red ? 3 : arrive ? 2 : 1, most = red ? 4 : 2;
    want_operands(l, insn, least, most);
    op->kind = SYNC_BARRIER;
    op->bytes = insn->modifiers[0].length == 3 || insn_has(insn, "aligned"); /* bar is barrier.aligned */
    op->a = checked(l, insn, first, 'v', 32);
    const struct operand *barrier = &insn->operands[first], *threads = barrier + 1;
    if (barrier->kind == O_INTEGER && barrier->bits >= MAX_BARRIERS)
        insn_fail(l, insn, "a barrier is a number from 0 to %d", MAX_BARRIERS - 1);
    if (insn->operand_count == most) {
        op->b = checked(l, insn, first + 1, 'v', 32);
        if (threads->kind == O_INTEGER && threads->bits % WARP)
            insn_fail(l, insn, "the threads of a barrier are a multiple of %d", WARP);
    }
    if (!red) return;
    op->c = encode_predicate(l, insn, &insn->operands[insn->operand_count - 1]);
    op->d = op->sub == BARRIER_POPC ? output(l, insn, 'w') : encode_predicate(l, insn, &insn->operands[0]);
}

/* ---- within a warp: the member mask's operand goes to imm ---- */
static void members(struct loader *l, const struct insn *insn, unsigned index, struct op *op) {
    op->kind = SYNC_MASK;
    op->imm = checked(l, insn, index, 'v', 32);
}

void encode_warp_sync(struct loader *l, const struct insn *insn, struct op *op) {
    want_operands(l, insn, 1, 1);
    members(l, insn, 0, op);
}

/* d|p, a, lane, clamp, mask; sub: 0 up, 1 down, 2 bfly, 3 idx; extra: p */
void encode_shfl(struct loader *l, const struct insn *insn, struct op *op) {
    want_operands(l, insn, 5, 5);
    op->sub = insn_has(insn, "up") ? 0 : insn_has(insn, "down") ? 1 : insn_has(insn, "bfly") ? 2 : 3;
    op->d = output(l, insn, 'W');
    if (insn->operands[0].paired) op->extra = encode_predicate(l, insn, insn->operands[0].paired);
    op->a = checked(l, insn, 1, 'W', 32);
    op->b = checked(l, insn, 2, 'w', 32);
    op->c = checked(l, insn, 3, 'w', 32);
    members(l, insn, 4, op);
}

/* sub: 0 all, 1 any, 2 uni, 3 ballot */
void encode_vote(struct loader *l, const struct insn *insn, struct op *op) {
    want_operands(l, insn, 3, 3);
    op->sub = insn_has(insn, "all") ? 0 : insn_has(insn, "any") ? 1 : insn_has(insn, "uni") ? 2 : 3;
    op->d = op->sub == 3 ? output(l, insn, 'W') : encode_predicate(l, insn, &insn->operands[0]);
    op->c = encode_predicate(l, insn, &insn->operands[1]);
    members(l, insn, 2, op);
}

/* sub: 0 any, 1 all; extra: the predicate of all */
void encode_match(struct loader *l, const struct insn *insn, struct op *op) {
    bool wide = insn_has(insn, "b64");
    want_operands(l, insn, 3, 3);
    op->sub = insn_has(insn, "all");
    op->width = wide ? 64 : 32;
    op->d = output(l, insn, 'v');
    if (insn->operands[0].paired) op->extra = encode_predicate(l, insn, insn->operands[0].paired);
    op->a = checked(l, insn, 1, wide ? 'L' : 'W', op->width);
    members(l, insn, 2, op);
}

/* sub: enum atomic_op */
void encode_redux(struct loader *l, const struct insn *insn, struct op *op) {
    static const struct {
        const char *name;
        u8 op;
    } operations[] = {{"add", ATOMIC_ADD}, {"min", ATOMIC_MIN}, {"max", ATOMIC_MAX},
                      {"and", ATOMIC_AND}, {"or", ATOMIC_OR},   {"xor", ATOMIC_XOR}};
    want_operands(l, insn, 3, 3);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        if (insn_has(insn, operations[i].name)) op->sub = operations[i].op;
    op->flags |= insn_has(insn, "s32") ? F_SIGNED : 0;
    const char letter = 'v';
    op->d = output(l, insn, letter);
    op->a = checked(l, insn, 1, letter, 32);
    members(l, insn, 2, op);
}

void encode_elect(struct loader *l, const struct insn *insn, struct op *op) {
    want_operands(l, insn, 2, 2);
    if (!insn->operands[0].paired) insn_fail(l, insn, "d|p is expected");
    op->d = output(l, insn, 'W');
    op->extra = encode_predicate(l, insn, insn->operands[0].paired);
    members(l, insn, 1, op);
}

/* ---- matrices ---- */
static void encode_matrix(struct loader *l, const struct insn *insn, bool load, struct op *op) {
    const struct operand *address = &insn->operands[load];
    u32 parts[4];
    op->count = insn_has(insn, "x4") ? 4 : insn_has(insn, "x2") ? 2 : 1;
    const unsigned count = op->count;
    const struct operand *items = fragment(l, insn, !load, count);
    for (unsigned i = 0; i < count; i++) {
        const char *want = operand_mismatch(l, insn, &items[i], 'W');
        if (want || (load && items[i].kind != O_REG && items[i].kind != O_DISCARD))
            insn_fail(l, insn, "register %u of the matrices: %s is expected", i + 1, want ? want : "a register");
        parts[i] = encode_operand(l, insn, &items[i], 32, false);
    }
    op->extra = encode_extra(l, parts, count);
    op->kind = SYNC_WARP;
    op->space = insn_has(insn, "shared") || insn_has(insn, "shared::cta") ? SPACE_SHARED : SPACE_GENERIC;
    encode_address(l, insn, address, op);
    if (op->space == SPACE_LOCAL || op->space == SPACE_SHARED) want_space(l, insn, address, SPACE_SHARED);
}

void encode_ldmatrix(struct loader *l, const struct insn *insn, struct op *op) {
    want_operands(l, insn, 2, 2);
    encode_matrix(l, insn, true, op);
}

void encode_stmatrix(struct loader *l, const struct insn *insn, struct op *op) {
    want_operands(l, insn, 2, 2);
    encode_matrix(l, insn, false, op);
}
