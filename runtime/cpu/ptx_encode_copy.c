/* ptx_encode_copy.c - encoders of cp.async, of its groups and of their waits: what the assembler accepts. */
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/ptx.h>

static _Noreturn void unsupported(struct loader *l, const struct insn *insn) {
    insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
}

/* cp.async.(ca|cg).shared{::cta}.global and hints in any order. Says whether a cache policy follows. */
static bool read_hints(struct loader *l, const struct insn *insn) {
    const struct text *m = insn->modifiers;
    bool policy = false, prefetch = false;
    if (insn->modifier_count < 5 || !text_is(m[4], "global") ||
        (!text_is(m[3], "shared") && !text_is(m[3], "shared::cta")))
        unsupported(l, insn);
    for (unsigned i = 5; i < insn->modifier_count; i++) {
        bool hint = text_is(m[i], "L2::cache_hint");
        bool size = text_is(m[i], "L2::64B") || text_is(m[i], "L2::128B") || text_is(m[i], "L2::256B");
        if ((!hint && !size) || (hint && policy) || (size && prefetch)) unsupported(l, insn);
        policy |= hint;
        prefetch |= size;
    }
    return policy;
}

static void check_space(struct loader *l, const struct insn *insn, const struct operand *address, enum space space) {
    if (address->kind == O_ADDRESS && address->variable && address->variable->space != space)
        insn_fail(l, insn, "`%.*s` lies in another space: cp.async copies from global to shared memory",
                  (int)address->variable->name.length, address->variable->name.at);
}

/* The operand after the size: a predicate is ignore-src, a 32-bit integer src-size. */
static void encode_amount(struct loader *l, const struct insn *insn, const struct operand *o, struct op *op) {
    if (o->kind == O_REG && l->function->vregs[o->reg].kind == REG_PRED) {
        op->c = encode_predicate(l, insn, o);
        return;
    }
    const char *want = operand_mismatch(l, insn, o, 'v');
    if (want || o->kind == O_DISCARD)
        insn_fail(l, insn, "operand 4 is src-size, a 32-bit integer, or ignore-src, a predicate");
    if (o->kind == O_INTEGER && o->bits > op->bytes)
        insn_fail(l, insn, "src-size is at most the %u bytes of the copy", op->bytes);
    op->b = encode_operand(l, insn, o, 32, false);
}

void encode_copy(struct loader *l, const struct insn *insn, struct op *op) {
    bool policy = read_hints(l, insn), large = insn_has(insn, "cg");
    unsigned least = 3 + policy;
    if (insn->operand_count < least || insn->operand_count > least + 1)
        insn_fail(l, insn, "%u or %u operands are expected: destination, source, size, then src-size or ignore-src%s",
                  least, least + 1, policy ? ", and the cache policy" : "");
    const struct operand *size = &insn->operands[2];
    u64 bytes = size->kind == O_INTEGER ? size->bits : 0;
    if (bytes != 16 && (large || (bytes != 4 && bytes != 8)))
        insn_fail(l, insn, large ? "cp.async.cg copies 16 bytes" : "cp.async.ca copies 4, 8 or 16 bytes");
    op->bytes = (u8)bytes;
    op->count = 1;
    op->space = SPACE_SHARED;
    struct op source = {.flags = 0};
    encode_address(l, insn, &insn->operands[1], &source);
    check_space(l, insn, &insn->operands[1], SPACE_GLOBAL);
    encode_address(l, insn, &insn->operands[0], op);
    check_space(l, insn, &insn->operands[0], SPACE_SHARED);
    if (insn->operand_count == least + 1) encode_amount(l, insn, &insn->operands[3], op);
    const struct operand *last = &insn->operands[insn->operand_count - 1];
    if (policy && (last->kind != O_REG || operand_mismatch(l, insn, last, 'l')))
        insn_fail(l, insn, "the last operand is the cache policy, a 64-bit register");
    const u32 extra[] = {source.a, (u32)source.imm, (u32)((u64)source.imm >> 32), (source.flags & F_WIDE_ADDRESS) != 0};
    op->extra = encode_extra(l, extra, 4);
}

/* commit_group, wait_group N, wait_all */
void encode_copy_group(struct loader *l, const struct insn *insn, struct op *op) {
    bool counted = text_is(insn->modifiers[2], "wait_group");
    if (insn->operand_count != counted || (counted && insn->operands[0].kind != O_INTEGER))
        insn_fail(l, insn,
                  counted ? "the number of groups that may be pending, a constant, is expected"
                          : "no operand is expected");
    if (counted) op->imm = (u32)insn->operands[0].bits;
}
