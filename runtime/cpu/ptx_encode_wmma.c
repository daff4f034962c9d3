/* ptx_encode_wmma.c - encoders of wmma.load, wmma.store and wmma.mma: shapes, types and register counts that exist. */
#include <runtime/cpu/exec_wmma.h>
#include <runtime/cpu/ptx.h>

static const struct shape {
    const char *name;
    u8 m, n, k;
} shapes[] = {{"m16n16k16", 16, 16, 16},
              {"m8n32k16", 8, 32, 16},
              {"m32n8k16", 32, 8, 16},
              {"m16n16k8", 16, 16, 8},
              {"m8n8k4", 8, 8, 4}};

/* letter: of a register; k: of the shapes it goes with, 0: not a factor; sums: bits of the k of shapes whose sums may
 * have it (16, 8, 4) */
static const struct element {
    const char *name;
    u8 kind, bits;
    char letter;
    u8 k, sums;
} elements[] = {{"f16", N_F16, 16, 'y', 16, 16}, {"bf16", N_BF16, 16, 'z', 16, 0}, {"s8", N_S8, 8, 'v', 16, 0},
                {"u8", N_U8, 8, 'v', 16, 0},     {"tf32", N_TF32, 32, 'z', 8, 0},  {"f64", N_F64, 64, 'd', 4, 4},
                {"f32", N_F32, 32, 'f', 0, 24},  {"s32", N_S32, 32, 'v', 0, 16}};

static _Noreturn void unsupported(struct loader *l, const struct insn *insn) {
    insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
}

static const struct shape *shape_named(struct text name) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (text_is(name, shapes[i].name)) return &shapes[i];
    return NULL;
}

static const struct element *element_named(struct text name) {
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++)
        if (text_is(name, elements[i].name)) return &elements[i];
    return NULL;
}

/* Registers of a fragment: matrix is 'a', 'b', or 'c' for sums. */
static unsigned registers_of(const struct shape *s, const struct element *e, char matrix) {
    unsigned size = matrix == 'a' ? 1u * s->m * s->k : matrix == 'b' ? 1u * s->k * s->n : 1u * s->m * s->n;
    if (matrix != 'c' && e->kind == N_F16) return 8;
    return size * e->bits / (e->bits == 64 ? 32 * 64 : 32 * 32);
}

static bool exists(const struct shape *s, const struct element *e, char matrix) {
    return s && e && (matrix == 'c' ? (e->sums & s->k) != 0 : e->k == s->k);
}

/* The vector of operand `index`, appended to parts; returns how many. */
static unsigned take_fragment(struct loader *l, const struct insn *insn, unsigned index, unsigned want, char letter,
                              u32 *parts) {
    const struct operand *items = fragment(l, insn, index, want);
    for (unsigned i = 0; i < want; i++) {
        const char *wrong = operand_mismatch(l, insn, &items[i], letter);
        if (wrong || items[i].kind != O_REG)
            insn_fail(l, insn, "register %u of operand %u: %s is expected", i + 1, index + 1,
                      wrong ? wrong : "a register");
        parts[i] = encode_operand(l, insn, &items[i], letter == 'd' ? 64 : 32, false);
    }
    return want;
}

/* wmma.load.(a|b|c).sync.aligned.LAYOUT.SHAPE{.SPACE}.TYPE r, [p]{, stride}; wmma.store.d likewise (sub 1) */
void encode_wmma_memory(struct loader *l, const struct insn *insn, struct op *op) {
    const struct text *m = insn->modifiers;
    unsigned n = insn->modifier_count;
    bool store = insn->form->sub == 1, space = n == 9;
    if ((n != 8 && !space) || !text_is(m[3], "sync") || !text_is(m[4], "aligned")) unsupported(l, insn);
    char matrix = m[2].length == 1 ? m[2].at[0] : '?';
    bool known = store ? matrix == 'd' : matrix == 'a' || matrix == 'b' || matrix == 'c';
    if (matrix == 'd') matrix = 'c';
    const struct shape *s = shape_named(m[6]);
    const struct element *e = element_named(m[n - 1]);
    bool column = text_is(m[5], "col"), shared = space && (text_is(m[7], "shared") || text_is(m[7], "shared::cta")),
         global = space && text_is(m[7], "global");
    if (!known || !exists(s, e, matrix) || (!column && !text_is(m[5], "row")) || (space && !shared && !global))
        unsupported(l, insn);
    if (insn->operand_count != 2 && insn->operand_count != 3)
        insn_fail(l, insn, "a fragment, an address and the stride are expected");
    u32 parts[8];
    unsigned count = take_fragment(l, insn, store ? 1 : 0, registers_of(s, e, matrix), e->letter, parts);
    op->extra = encode_extra(l, parts, count);
    op->kind = SYNC_WARP;
    op->sub = e->kind;
    op->count = (u8)count;
    op->space = shared ? SPACE_SHARED : global ? SPACE_GLOBAL : SPACE_GENERIC;
    op->flags |= column ? F_TRANS : 0;
    op->wmma_rows = matrix == 'b' ? s->k : s->m;
    op->wmma_columns = matrix == 'a' ? s->k : s->n;
    op->wmma_store = store;
    const struct operand *address = &insn->operands[store ? 0 : 1];
    encode_address(l, insn, address, op);
    if (shared || op->space == SPACE_LOCAL) want_space(l, insn, address, SPACE_SHARED);
    if (global) want_space(l, insn, address, SPACE_GLOBAL);
    if (insn->operand_count == 3) {
        const char *wrong = operand_mismatch(l, insn, &insn->operands[2], 'w');
        if (wrong) insn_fail(l, insn, "the stride: %s is expected", wrong);
        op->b = encode_operand(l, insn, &insn->operands[2], 32, false);
    }
}

/* wmma.mma.sync.aligned.A.B.SHAPE{.rn}.D{.TA.TB}.C{.satfinite} d, a, b, c */
void encode_wmma(struct loader *l, const struct insn *insn, struct op *op) {
    const struct text *m = insn->modifiers;
    bool saturates = insn_has(insn, "satfinite");
    unsigned n = insn->modifier_count - saturates, first = n > 7 && text_is(m[7], "rn") ? 8 : 7, types = n - first;
    if (n < 9 || (types != 2 && types != 4) || !text_is(m[2], "sync") || !text_is(m[3], "aligned"))
        unsupported(l, insn);
    for (unsigned i = 4; i < 6; i++)
        if (!text_is(m[i], "row") && !text_is(m[i], "col")) unsupported(l, insn);
    const struct shape *s = shape_named(m[6]);
    const struct element *d = element_named(m[first]), *c = element_named(m[n - 1]),
                         *a = types == 4 ? element_named(m[first + 1]) : &elements[0],
                         *b = types == 4 ? element_named(m[first + 2]) : &elements[0];
    if (!exists(s, d, 'c') || !exists(s, c, 'c') || !exists(s, a, 'a') || !exists(s, b, 'b') || a != b)
        unsupported(l, insn);
    bool integers = a->kind <= N_S8, halves = a->kind == N_F16;
    if (integers != (d->kind == N_S32) || integers != (c->kind == N_S32) ||
        ((d->kind == N_F16 || c->kind == N_F16) && !halves) || (types == 2) != halves ||
        (saturates && !integers && !halves) || (first == 8 && a->kind != N_F64))
        unsupported(l, insn);
    if (insn->operand_count != 4) insn_fail(l, insn, "four operands are expected: d, a, b, c");
    u32 parts[WMMA_HEAD + 32] = {s->m, s->n, s->k, d->kind, a->kind, b->kind, c->kind};
    unsigned count = WMMA_HEAD;
    count += take_fragment(l, insn, 0, registers_of(s, d, 'c'), d->letter, parts + count);
    parts[7] = count - WMMA_HEAD;
    count += take_fragment(l, insn, 1, registers_of(s, a, 'a'), a->letter, parts + count);
    parts[8] = count - WMMA_HEAD;
    count += take_fragment(l, insn, 2, registers_of(s, b, 'b'), b->letter, parts + count);
    parts[9] = count - WMMA_HEAD;
    count += take_fragment(l, insn, 3, registers_of(s, c, 'c'), c->letter, parts + count);
    op->extra = encode_extra(l, parts, count);
    op->kind = SYNC_WARP;
}
