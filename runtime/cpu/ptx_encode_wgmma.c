/* ptx_encode_wgmma.c - encoders of wgmma: shapes, types and operands that exist; the guards of the registers it uses.
 */
#include <string.h>
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/exec_wgmma.h>
#include <runtime/cpu/ptx.h>

enum { MOST_PARTS = WGMMA_COLUMNS / 2 + 4 };

static void want_target(struct loader *l, const struct insn *insn) {
    if (!l->target_sm_90a) insn_fail(l, insn, "wgmma needs .target sm_90a");
}

/* ---- fence, commit_group, wait_group ---- */
void encode_wgmma_group(struct loader *l, const struct insn *insn, struct op *op) {
    bool wait = insn_has(insn, "wait_group");
    want_target(l, insn);
    if (insn->operand_count != (wait ? 1u : 0u))
        insn_fail(l, insn, wait ? "the number of groups that may go on is expected" : "no operand is expected");
    op->kind = SYNC_WARP;
    if (!wait) return;
    if (insn->operands[0].kind != O_INTEGER || insn->operands[0].bits > INT32_MAX)
        insn_fail(l, insn, "the number of groups that may go on is a constant from 0 on");
    op->imm = (s64)insn->operands[0].bits;
}

/* ---- mma_async ---- */
enum family { HALVES, BRAINS, EIGHTS, INTEGERS };

static const struct {
    const char *name;
    u8 kind, family;
} types[] = {{"f16", N_F16, HALVES},     {"bf16", N_BF16, BRAINS}, {"e4m3", N_E4M3X2, EIGHTS},
             {"e5m2", N_E5M2X2, EIGHTS}, {"s8", N_S8, INTEGERS},   {"u8", N_U8, INTEGERS}};

static int type_index(struct text name) {
    for (int i = 0; i < (int)(sizeof types / sizeof types[0]); i++)
        if (text_is(name, types[i].name)) return i;
    return -1;
}

/* m64nNkK: N, *k; 0: malformed. */
static unsigned columns_of(struct text shape, unsigned *k) {
    unsigned n = 0;
    u32 at = 4;
    if (shape.length < 7 || memcmp(shape.at, "m64n", 4) != 0) return 0;
    for (; at < shape.length && shape.at[at] >= '0' && shape.at[at] <= '9' && n <= WGMMA_COLUMNS; at++)
        n = 10 * n + (unsigned)(shape.at[at] - '0');
    struct text rest = {shape.at + at, shape.length - at};
    *k = text_is(rest, "k16") ? 16 : text_is(rest, "k32") ? 32 : 0;
    return n;
}

static void take_types(struct loader *l, const struct insn *insn, enum family *family, struct op *op) {
    const struct text *m = insn->modifiers; /* wgmma mma_async sync aligned SHAPE D A B {satfinite} */
    bool saturates = insn->flags & F_SATFINITE;
    unsigned k = 0, n = insn->modifier_count == 8u + saturates ? columns_of(m[4], &k) : 0;
    int a = n ? type_index(m[6]) : -1, b = n ? type_index(m[7]) : -1;
    if (a < 0 || b < 0 || (saturates && !text_is(m[8], "satfinite")))
        insn_fail(l, insn,
                  "wgmma.mma_async.sync.aligned.m64nNkK.D.A.B is expected: k16 for f16.f16 and bf16.bf16, k32 for e4m3 "
                  "and e5m2, s8 and u8; other forms are not supported");
    /* insn_fail does not come back */
    *family = types[a].family; // cppcheck-suppress negativeIndex
    // cppcheck-suppress negativeIndex
    bool paired = types[a].family == types[b].family && (*family >= EIGHTS || a == b);
    if (!paired)
        insn_fail(l, insn, "A and B do not go together: `%.*s` and `%.*s`", (int)m[6].length, m[6].at, (int)m[7].length,
                  m[7].at);
    int d = text_is(m[5], "f32") ? N_F32 : text_is(m[5], "f16") ? N_F16 : text_is(m[5], "s32") ? N_S32 : -1;
    if (*family == INTEGERS ? d != N_S32 : d != N_F32 && !(d == N_F16 && *family != BRAINS))
        insn_fail(l, insn, "D of type `%.*s` does not go with A and B", (int)m[5].length, m[5].at);
    if (saturates && *family != INTEGERS) insn_fail(l, insn, ".satfinite is for integers");
    if (k != (*family <= BRAINS ? 16 : 32)) insn_fail(l, insn, "K is %d for these types", *family <= BRAINS ? 16 : 32);
    if (n < 8 || n > WGMMA_COLUMNS || n % 8 || (*family == INTEGERS && n > 32 && n % 16))
        insn_fail(l, insn, "N is a multiple of 8 from 8 to 256%s",
                  *family == INTEGERS ? ", for integers above 32 of 16" : "");
    op->imm = n;
    op->bytes = (u8)k;
    op->order = types[a].kind;
    op->width = types[b].kind;
    op->space = (u8)d;
}

static unsigned take_vector(struct loader *l, const struct insn *insn, unsigned index, unsigned count, char letter,
                            u32 *parts) {
    const struct operand *o = &insn->operands[index];
    if (o->kind != O_VECTOR || o->count != count)
        insn_fail(l, insn, "operand %u: a vector of %u registers is expected", index + 1, count);
    for (unsigned i = 0; i < count; i++) {
        const char *want = operand_mismatch(l, insn, &o->items[i], letter);
        if (want || o->items[i].kind != O_REG)
            insn_fail(l, insn, "register %u of operand %u: %s is expected", i + 1, index + 1,
                      want ? want : "a register");
        for (unsigned k = 0; k < i && index == 0; k++)
            if (o->items[k].reg == o->items[i].reg)
                insn_fail(l, insn, "accumulators %u and %u are one register", k + 1, i + 1);
        parts[i] = encode_operand(l, insn, &o->items[i], 32, false);
    }
    return count;
}

static u32 take_descriptor(struct loader *l, const struct insn *insn, unsigned index) {
    const char *want = operand_mismatch(l, insn, &insn->operands[index], 'L');
    if (want) insn_fail(l, insn, "operand %u is a matrix descriptor: %s is expected", index + 1, want);
    return encode_operand(l, insn, &insn->operands[index], 64, false);
}

/* A constant that is `no` or `yes`. */
static bool take_choice(struct loader *l, const struct insn *insn, unsigned index, s64 no, s64 yes, const char *what) {
    const struct operand *o = &insn->operands[index];
    if (o->kind != O_INTEGER || ((s64)o->bits != no && (s64)o->bits != yes))
        insn_fail(l, insn, "operand %u, %s, is %lld or %lld", index + 1, what, (long long)no, (long long)yes);
    return (s64)o->bits == yes;
}

void encode_wgmma(struct loader *l, const struct insn *insn, struct op *op) {
    enum family family;
    u32 parts[MOST_PARTS];
    want_target(l, insn);
    take_types(l, insn, &family, op);
    bool in_registers = insn->operand_count > 1 && insn->operands[1].kind == O_VECTOR;
    unsigned choices = family == INTEGERS ? 0 : family == EIGHTS ? 2 : in_registers ? 3 : 4;
    if (insn->operand_count != 4 + choices)
        insn_fail(l, insn, "%u operands are expected: d, a, b, scale-d%s%s", 4 + choices,
                  choices ? ", imm-scale-a, imm-scale-b" : "",
                  choices == 4   ? ", imm-trans-a, imm-trans-b"
                  : choices == 3 ? ", imm-trans-b"
                                 : "");
    unsigned count = take_vector(l, insn, 0, wgmma_columns(op) / (op->space == N_F16 ? 4 : 2),
                                 op->space == N_F32   ? 'f'
                                 : op->space == N_S32 ? 'w'
                                                      : 'x',
                                 parts);
    op->count = (u8)count;
    if (in_registers) {
        count += take_vector(l, insn, 1, 4, 'x', parts + count);
        op->imm |= WGMMA_A_REGISTERS;
    } else {
        op->a = take_descriptor(l, insn, 1);
    }
    op->b = take_descriptor(l, insn, 2);
    op->c = encode_predicate(l, insn, &insn->operands[3]);
    if (choices && take_choice(l, insn, 4, 1, -1, "imm-scale-a")) op->imm |= WGMMA_NEGATE_A;
    if (choices && take_choice(l, insn, 5, 1, -1, "imm-scale-b")) op->imm |= WGMMA_NEGATE_B;
    if (choices == 4 && take_choice(l, insn, 6, 0, 1, "imm-trans-a")) op->imm |= WGMMA_TRANS_A;
    if (choices > 2 && take_choice(l, insn, 3 + choices, 0, 1, "imm-trans-b")) op->imm |= WGMMA_TRANS_B;
    op->extra = encode_extra(l, parts, count);
    op->kind = SYNC_BARRIER;
    l->function->code.async_reads = true;
}

/* ---- guards ---- */
struct watching {
    struct loader *l;
    u8 *used; /* of a slot: a wgmma's */
    u32 *watches, count, capacity;
};

static void note(void *self, u32 vreg, bool written) {
    struct watching *w = self;
    const struct function *f = w->l->function;
    if (f->vregs[vreg].kind == REG_PRED || !w->used[f->slots[vreg] / SLOT_BYTES]) return;
    if (w->count + 1 >= w->capacity)
        w->watches = load_grow(w->l, w->watches, w->count, sizeof *w->watches, &w->capacity);
    w->watches[w->count++] = f->slots[vreg] / SLOT_BYTES << 1 | written;
}

void encode_wgmma_guards(struct loader *l) {
    struct function *f = l->function;
    struct code *c = &f->code;
    struct watching w = {.l = l, .used = load_take(l, c->slots + 1)};
    bool any = false;
    for (u32 i = 0; i < f->insn_count; i++) {
        const struct op *o = &c->ops[i];
        if (o->sync != sync_wgmma) continue;
        any = true;
        for (unsigned k = 0; k < o->count + (o->imm & WGMMA_A_REGISTERS ? 4u : 0u); k++)
            if (!(c->extra[o->extra + k] & OPERAND_CONST)) w.used[c->extra[o->extra + k] / SLOT_BYTES] = 1;
    }
    if (!any) return;
    u32 *watched = load_take(l, c->op_count * sizeof *watched);
    op_fn **inner = load_take(l, c->op_count * sizeof *inner);
    for (u32 i = 0; i < f->insn_count; i++) {
        u32 before = w.count;
        if (c->ops[i].sync == sync_wgmma) continue;
        insn_registers(f->insns[i], note, &w);
        if (w.count == before) continue;
        if (w.count + 1 >= w.capacity) w.watches = load_grow(l, w.watches, w.count, sizeof *w.watches, &w.capacity);
        w.watches[w.count++] = 0; /* slot 0 is nobody's */
        watched[i] = before;
        inner[i] = c->ops[i].run;
        c->ops[i].run = op_wgmma_guard;
    }
    c->watched = watched;
    c->watches = w.watches;
    c->inner = inner;
}
