/* ptx_encode_bulk.c - encoders of cp.async.bulk, cp.async.bulk.tensor, their prefetches, groups and waits. Operands go
 * to op and code->extra as exec_bulk.h says. Modifiers are taken in the order of the ISA's grammar. */
#include <runtime/cpu/exec_bulk.h>
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/ptx.h>

struct cursor {
    struct loader *l;
    const struct insn *insn;
    unsigned at, operand; /* the next modifier, the next operand */
    u32 extra[EXTRA_COUNT];
};

static _Noreturn void unsupported(const struct cursor *c) {
    insn_fail(c->l, c->insn, "`%.*s` is not supported in this form", (int)c->insn->opcode.length, c->insn->opcode.at);
}

static bool take(struct cursor *c, const char *word) {
    if (c->at == c->insn->modifier_count || !text_is(c->insn->modifiers[c->at], word)) return false;
    c->at++;
    return true;
}

static void want(struct cursor *c, const char *word) {
    if (!take(c, word)) unsupported(c);
}

static const struct operand *next(struct cursor *c, const char *what) {
    if (c->operand == c->insn->operand_count) insn_fail(c->l, c->insn, "an operand is missing: %s", what);
    return &c->insn->operands[c->operand++];
}

static void check_space(struct cursor *c, const struct operand *o, bool shared) {
    if (!o->variable) return;
    enum space space = o->variable->space;
    if (space != (shared ? SPACE_SHARED : SPACE_GLOBAL))
        insn_fail(c->l, c->insn, "`%.*s` lies in another space", (int)o->variable->name.length, o->variable->name.at);
}

static void shared_address(struct cursor *c, struct op *op) {
    const struct operand *o = next(c, "an address in shared memory");
    check_space(c, o, true);
    if (o->count) insn_fail(c->l, c->insn, "coordinates belong to the tensor map");
    encode_address(c->l, c->insn, o, op);
}

static void address_words(struct cursor *c, const struct operand *o, unsigned first) {
    struct op op = {.flags = 0};
    encode_address(c->l, c->insn, o, &op);
    c->extra[first] = op.a;
    c->extra[first + 1] = (u32)op.imm;
    c->extra[first + 2] = (u32)((u64)op.imm >> 32);
    c->extra[first + 3] = (op.flags & F_WIDE_ADDRESS) != 0;
}

/* The address in global memory; of a tensor: the map's, with its coordinates. */
static void global_address(struct cursor *c, struct op *op) {
    const struct operand *o = next(c, op->count ? "[tensor map, {coordinates}]" : "an address in global memory");
    check_space(c, o, false);
    if (o->count != op->count)
        insn_fail(c->l, c->insn, "%u coordinate%s expected, not %u", op->count, op->count == 1 ? " is" : "s are",
                  o->count);
    address_words(c, o, EXTRA_GLOBAL);
    for (unsigned d = 0; d < op->count; d++) {
        const char *wrong = operand_mismatch(c->l, c->insn, &o->items[d], 'w');
        if (wrong) insn_fail(c->l, c->insn, "coordinate %u does not suit: %s is expected", d + 1, wrong);
        c->extra[EXTRA_AT + d] = encode_operand(c->l, c->insn, &o->items[d], 32, false);
    }
}

static u32 word(struct cursor *c, const char *what, char letter, unsigned bits) {
    const struct operand *o = next(c, what);
    const char *wrong = operand_mismatch(c->l, c->insn, o, letter);
    if (wrong || o->kind == O_DISCARD) insn_fail(c->l, c->insn, "%s: %s is expected", what, wrong ? wrong : "a value");
    return encode_operand(c->l, c->insn, o, bits, false);
}

static void size(struct cursor *c) {
    const struct operand *o = c->operand < c->insn->operand_count ? &c->insn->operands[c->operand] : NULL;
    if (o && o->kind == O_INTEGER && o->bits % UNIT)
        insn_fail(c->l, c->insn, "the size of a bulk copy is a multiple of %d", UNIT);
    c->extra[EXTRA_BYTES] = word(c, "the size", 'v', 32);
}

/* What is left: an .L2::cache_hint's policy, and no operand more. */
static void finish(struct cursor *c, struct op *op, bool policy) {
    if (c->at != c->insn->modifier_count) unsupported(c);
    if (policy) word(c, "the cache policy", 'l', 64);
    if (c->operand != c->insn->operand_count)
        insn_fail(c->l, c->insn, "%u operands are expected, not %u", c->operand, c->insn->operand_count);
    op->extra = encode_extra(c->l, c->extra, EXTRA_COUNT);
}

/* .1d to .5d; 0 for a plain copy */
static u8 rank(struct cursor *c, bool tensor) {
    static const char *const names[] = {"1d", "2d", "3d", "4d", "5d"};
    for (u8 d = 0; tensor && d < DIMENSIONS; d++)
        if (take(c, names[d])) return (u8)(d + 1);
    if (tensor) unsupported(c);
    return 0;
}

/* shared.global.mbarrier::complete_tx::bytes */
static void encode_load_side(struct cursor *c, struct op *op) {
    op->run = op_bulk_load;
    op->space = take(c, "shared::cluster") ? SPACE_CLUSTER : SPACE_SHARED;
    if (op->space == SPACE_SHARED) want(c, "shared::cta");
    want(c, "global");
    if (op->count) take(c, "tile");
    want(c, "mbarrier::complete_tx::bytes");
    bool many = take(c, "multicast::cluster"), policy = take(c, "L2::cache_hint");
    if (many && op->space == SPACE_SHARED) unsupported(c);
    shared_address(c, op);
    global_address(c, op);
    if (!op->count) size(c);
    const struct operand *barrier = next(c, "the mbarrier");
    check_space(c, barrier, true);
    address_words(c, barrier, EXTRA_BARRIER);
    c->extra[EXTRA_MASK] = many ? word(c, "the ctaMask", 'h', 16) : NO_OPERAND;
    finish(c, op, policy);
}

static void encode_store_side(struct cursor *c, struct op *op) {
    op->run = op_bulk_store;
    c->l->function->code.async_reads = true;
    want(c, "shared::cta");
    if (op->count) take(c, "tile");
    want(c, "bulk_group");
    bool policy = take(c, "L2::cache_hint");
    global_address(c, op);
    shared_address(c, op);
    if (!op->count) size(c);
    finish(c, op, policy);
}

static void encode_prefetch_side(struct cursor *c, struct op *op) {
    op->run = op_bulk_prefetch;
    op->count = rank(c, take(c, "tensor"));
    want(c, "L2");
    want(c, "global");
    if (op->count) take(c, "tile");
    bool policy = take(c, "L2::cache_hint");
    global_address(c, op);
    if (!op->count) size(c);
    finish(c, op, policy);
}

/* After cp.async.bulk */
void encode_bulk(struct loader *l, const struct insn *insn, struct op *op) {
    struct cursor c = {.l = l, .insn = insn, .at = 3};
    if (take(&c, "prefetch")) {
        encode_prefetch_side(&c, op);
        return;
    }
    op->count = rank(&c, take(&c, "tensor"));
    if (take(&c, "global"))
        encode_store_side(&c, op);
    else
        encode_load_side(&c, op);
}

/* commit_group; wait_group N, with .read (sub 1) */
void encode_bulk_group(struct loader *l, const struct insn *insn, struct op *op) {
    bool wait = text_is(insn->modifiers[3], "wait_group");
    if (insn->operand_count != wait || (wait && insn->operands[0].kind != O_INTEGER))
        insn_fail(l, insn,
                  wait ? "the number of groups that may be pending, a constant, is expected"
                       : "no operand is expected");
    if (wait) op->imm = (u32)insn->operands[0].bits;
    op->sub = insn_has(insn, "read");
}

/* fence.proxy.tensormap::generic.acquire [map], 128 */
void encode_fence_map(struct loader *l, const struct insn *insn, struct op *op) {
    enum { MAP_BYTES = 128 };
    want_operands(l, insn, 2, 2);
    op->space = SPACE_GLOBAL; /* wherever it lies: nothing here depends on it */
    encode_address(l, insn, &insn->operands[0], op);
    if (insn->operands[1].kind != O_INTEGER || insn->operands[1].bits != MAP_BYTES)
        insn_fail(l, insn, "the size of a tensor map is %d", MAP_BYTES);
}

/* prefetch{.param|.const}.tensormap [map] */
void encode_prefetch_map(struct loader *l, const struct insn *insn, struct op *op) {
    if (insn->operand_count != 1) insn_fail(l, insn, "one address is expected");
    op->space = insn_has(insn, "param") ? SPACE_PARAM : insn_has(insn, "const") ? SPACE_CONST : SPACE_GENERIC;
    if (op->space != SPACE_GENERIC) want_space(l, insn, &insn->operands[0], op->space);
    encode_address(l, insn, &insn->operands[0], op);
}
