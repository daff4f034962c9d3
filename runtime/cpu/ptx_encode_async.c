/* ptx_encode_async.c - encoders of mbarrier, mapa, getctarank, barrier.cluster, setmaxnreg and the proxy fences. */
#include <string.h>
#include <runtime/cpu/exec_async.h>
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/ptx.h>

static _Noreturn void unsupported(struct loader *l, const struct insn *insn) {
    insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
}

static u32 checked(struct loader *l, const struct insn *insn, unsigned index, char letter, unsigned bits) {
    const char *want = operand_mismatch(l, insn, &insn->operands[index], letter);
    if (want) insn_fail(l, insn, "operand %u does not suit the instruction's type: %s is expected", index + 1, want);
    return encode_operand(l, insn, &insn->operands[index], bits, false);
}

static void shared_address(struct loader *l, const struct insn *insn, unsigned index, struct op *op) {
    const struct operand *o = &insn->operands[index];
    encode_address(l, insn, o, op);
    if (o->has_reg && !(op->flags & F_WIDE_ADDRESS) && op->space == SPACE_GENERIC)
        insn_fail(l, insn, "a generic address has 64 bits, and its register 32");
    want_space(l, insn, o, SPACE_SHARED);
}

/* ---- mbarrier ---- */
static const struct word {
    const char *name;
    enum { WORD_SEM, WORD_SCOPE, WORD_SPACE, WORD_FLAG } kind;
    u32 value;
} words[] = {{"acquire", WORD_SEM, ORDER_ACQUIRE},      {"release", WORD_SEM, ORDER_RELEASE},
             {"relaxed", WORD_SEM, ORDER_RELAXED},      {"cta", WORD_SCOPE, SCOPE_CTA},
             {"cluster", WORD_SCOPE, SCOPE_CLUSTER},    {"shared", WORD_SPACE, SPACE_SHARED},
             {"shared::cta", WORD_SPACE, SPACE_SHARED}, {"shared::cluster", WORD_SPACE, SPACE_CLUSTER},
             {"expect_tx", WORD_FLAG, F_EXPECT},        {"noComplete", WORD_FLAG, F_NO_COMPLETE}};

/* The modifiers from `first` to the type: sem, scope and space into op, flags into op->flags. */
static void read_words(struct loader *l, const struct insn *insn, unsigned first, enum order sem, struct op *op) {
    bool seen[4] = {false};
    op->order = (u8)sem;
    op->scope = SCOPE_CTA;
    op->space = SPACE_GENERIC;
    if (!text_is(insn->modifiers[insn->modifier_count - 1], "b64")) unsupported(l, insn);
    for (unsigned i = first; i + 1 < insn->modifier_count; i++) {
        size_t w = 0;
        while (w < sizeof words / sizeof words[0] && !text_is(insn->modifiers[i], words[w].name))
            w++;
        if (w == sizeof words / sizeof words[0] || seen[words[w].kind]) unsupported(l, insn);
        const struct word *word = &words[w];
        seen[word->kind] = true;
        if (word->kind == WORD_FLAG) op->flags |= word->value;
        u8 *to = word->kind == WORD_SEM ? &op->order : word->kind == WORD_SCOPE ? &op->scope : &op->space;
        if (word->kind != WORD_FLAG) *to = (u8)word->value;
        if (word->kind == WORD_SEM && word->value != sem && word->value != ORDER_RELAXED) unsupported(l, insn);
    }
}

/* init: [address], count; inval: [address] */
void encode_mbarrier_life(struct loader *l, const struct insn *insn, struct op *op) {
    bool init = op->run == op_mbarrier_init;
    read_words(l, insn, 2, ORDER_RELAXED, op);
    if (op->space == SPACE_CLUSTER || op->flags) unsupported(l, insn);
    want_operands(l, insn, init ? 2 : 1, init ? 2 : 1);
    shared_address(l, insn, 0, op);
    if (init) op->b = checked(l, insn, 1, 'v', 32);
}

/* expect_tx, complete_tx: [address], bytes */
void encode_mbarrier_tx(struct loader *l, const struct insn *insn, struct op *op) {
    read_words(l, insn, 2, ORDER_RELAXED, op);
    if (op->flags) unsupported(l, insn);
    want_operands(l, insn, 2, 2);
    shared_address(l, insn, 0, op);
    op->b = checked(l, insn, 1, 'v', 32);
}

/* arrive, arrive_drop (sub 1): state or _, [address], then a count, or the bytes of expect_tx */
void encode_mbarrier_arrive(struct loader *l, const struct insn *insn, struct op *op) {
    read_words(l, insn, 2, ORDER_RELEASE, op);
    bool counted = op->flags & (F_EXPECT | F_NO_COMPLETE), wide;
    if (op->sub) op->flags |= F_DROP;
    want_operands(l, insn, counted ? 3 : 2, 3);
    const struct operand *state = &insn->operands[0];
    if (state->kind != O_REG && state->kind != O_DISCARD)
        insn_fail(l, insn, "operand 1 is written and must be a 64-bit register, or _");
    if (op->space == SPACE_CLUSTER && state->kind != O_DISCARD)
        insn_fail(l, insn, "an arrival through .shared::cluster gives no state: its first operand is _");
    if (op->flags & F_NO_COMPLETE && op->space == SPACE_CLUSTER) unsupported(l, insn);
    op->d = state->kind == O_REG ? checked(l, insn, 0, 'l', 64) : NO_OPERAND;
    shared_address(l, insn, 1, op);
    wide = op->flags & F_WIDE_ADDRESS;
    if (insn->operand_count == 3) op->b = checked(l, insn, 2, 'v', 32);
    op->flags = (op->flags & ~(u32)F_WIDE_ADDRESS) | (wide ? F_WIDE_ADDRESS : 0);
}

/* cp.async.mbarrier.arrive{.noinc}{.shared}: [address]; sub 1: noinc */
void encode_copy_mbarrier(struct loader *l, const struct insn *insn, struct op *op) {
    op->sub = text_is(insn->modifiers[4], "noinc");
    read_words(l, insn, 4u + op->sub, ORDER_RELEASE, op);
    bool spaced = insn->modifier_count == 6u + op->sub;
    if ((!spaced && insn->modifier_count != 5u + op->sub) || spaced != (op->space == SPACE_SHARED) || op->flags)
        unsupported(l, insn);
    want_operands(l, insn, 1, 1);
    shared_address(l, insn, 0, op);
    op->b = op->d = NO_OPERAND;
}

/* test_wait, try_wait: predicate, [address], state or (parity, sub 1) parity, and try_wait's time hint */
void encode_mbarrier_wait(struct loader *l, const struct insn *insn, struct op *op) {
    bool try = text_is(insn->modifiers[1], "try_wait"), parity = text_is(insn->modifiers[2], "parity");
    read_words(l, insn, parity ? 3 : 2, ORDER_ACQUIRE, op);
    if (op->space == SPACE_CLUSTER || op->flags) unsupported(l, insn);
    want_operands(l, insn, 3, try ? 4 : 3);
    op->sub = parity;
    op->d = encode_predicate(l, insn, &insn->operands[0]);
    shared_address(l, insn, 1, op);
    op->b = parity ? checked(l, insn, 2, 'v', 32) : checked(l, insn, 2, 'l', 64);
    if (parity && insn->operands[2].kind == O_INTEGER && insn->operands[2].bits > 1)
        insn_fail(l, insn, "the parity of a phase is 0 or 1");
    if (insn->operand_count == 4) checked(l, insn, 3, 'v', 32);
}

void encode_mbarrier_pending(struct loader *l, const struct insn *insn, struct op *op) {
    want_operands(l, insn, 2, 2);
    if (insn->operands[0].kind != O_REG) insn_fail(l, insn, "operand 1 is written and must be a register");
    op->d = checked(l, insn, 0, 'v', 32);
    op->a = checked(l, insn, 1, 'l', 64);
}

/* ---- clusters ---- */
/* mapa: d, address, rank; getctarank: d, address */
void encode_mapa(struct loader *l, const struct insn *insn, struct op *op) {
    bool mapa = op->run == op_mapa, wide = insn_has(insn, "u64");
    want_operands(l, insn, mapa ? 3 : 2, mapa ? 3 : 2);
    op->space = insn_has(insn, "shared::cluster") ? SPACE_CLUSTER : SPACE_GENERIC;
    op->width = wide ? 64 : 32;
    if (!wide && op->space == SPACE_GENERIC) insn_fail(l, insn, "generic addresses have 64 bits: use .u64");
    if (insn->operands[0].kind != O_REG) insn_fail(l, insn, "operand 1 is written and must be a register");
    op->d = checked(l, insn, 0, !mapa ? 'v' : wide ? 'l' : 'w', op->width);
    const struct operand *from = &insn->operands[1];
    if (from->kind == O_VARIABLE && (op->space == SPACE_GENERIC || from->variable->space != SPACE_SHARED))
        insn_fail(l, insn, "a variable of shared memory, with .shared::cluster, or a register is expected");
    op->a = checked(l, insn, 1, wide ? 'l' : 'w', op->width);
    if (mapa) op->b = checked(l, insn, 2, 'v', 32);
}

/* sub: BARRIER_SYNC for wait, BARRIER_ARRIVE; bytes: .aligned; a: which barrier, as CTA barriers have it */
void encode_cluster_barrier(struct loader *l, const struct insn *insn, struct op *op) {
    want_operands(l, insn, 0, 0);
    op->kind = SYNC_BARRIER;
    op->bytes = insn_has(insn, "aligned");
    op->a = encode_constant(l, CLUSTER_BARRIER, 32);
    op->order = insn_has(insn, "relaxed") ? ORDER_RELAXED : ORDER_ACQ_REL;
}

/* ---- register counts: imm; a: where it waits, as barriers have it ---- */
void encode_setmaxnreg(struct loader *l, const struct insn *insn, struct op *op) {
    u64 count = insn->operands[0].bits;
    if (insn->operand_count != 1 || insn->operands[0].kind != O_INTEGER || count < 24 || count > 256 || count % 8)
        insn_fail(l, insn, "a register count is expected: a constant from 24 to 256, a multiple of 8");
    op->kind = SYNC_BARRIER;
    op->bytes = 1;
    op->a = encode_constant(l, REGISTER_POOL, 32);
    op->imm = (s64)count;
}
