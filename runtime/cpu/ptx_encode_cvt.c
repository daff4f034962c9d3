/* ptx_encode_cvt.c - encoder of conversions, and which of them there are. */
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/ptx.h>

static const struct number {
    const char *name;
    u8 kind, bits;
    bool is_float;
} numbers[] = {{"u8", N_U8, 8, false},         {"s8", N_S8, 8, false},        {"u16", N_U16, 16, false},
               {"s16", N_S16, 16, false},      {"u32", N_U32, 32, false},     {"s32", N_S32, 32, false},
               {"u64", N_U64, 64, false},      {"s64", N_S64, 64, false},     {"f16", N_F16, 16, true},
               {"bf16", N_BF16, 16, true},     {"f32", N_F32, 32, true},      {"f64", N_F64, 64, true},
               {"tf32", N_TF32, 32, true},     {"f16x2", N_F16X2, 32, true},  {"bf16x2", N_BF16X2, 32, true},
               {"e4m3x2", N_E4M3X2, 16, true}, {"e5m2x2", N_E5M2X2, 16, true}};

static const struct number *number_named(struct text name) {
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (text_is(name, numbers[i].name)) return &numbers[i];
    return NULL;
}

enum { NONE = 1, RN = 2, RZ = 4, DOWN_UP = 8, RNA = 16, INTEGRAL = 32, ANY_ROUNDING = RN | RZ | DOWN_UP };
enum {
    BYTES = 1 << N_U8 | 1 << N_S8,
    WHOLE = BYTES | 1 << N_U16 | 1 << N_S16 | 1 << N_U32 | 1 << N_S32 | 1 << N_U64 | 1 << N_S64,
    PAIRS = 1 << N_F16X2 | 1 << N_BF16X2,
    FP8 = 1 << N_E4M3X2 | 1 << N_E5M2X2
};
#define TYPE(name) (1u << N_##name)
/* Which conversions there are, with which rounding (one of those), and which of the flags. */
static const struct conversion {
    u32 to, from, roundings, flags;
} conversions[] = {
    {WHOLE, WHOLE, NONE, F_SAT},
    {WHOLE, TYPE(F32), INTEGRAL, F_FTZ | F_SAT},
    {WHOLE, TYPE(F64) | TYPE(F16), INTEGRAL, F_SAT},
    {WHOLE, TYPE(BF16), INTEGRAL, 0},
    {TYPE(F32), WHOLE, ANY_ROUNDING, F_FTZ | F_SAT},
    {TYPE(F16) | TYPE(F64), WHOLE, ANY_ROUNDING, F_SAT},
    {TYPE(BF16), WHOLE & ~BYTES, ANY_ROUNDING, 0},
    {TYPE(F32), TYPE(F16), NONE, F_FTZ | F_SAT},
    {TYPE(F32), TYPE(BF16), NONE, F_FTZ},
    {TYPE(F64), TYPE(F16), NONE, F_SAT},
    {TYPE(F64), TYPE(BF16), NONE, 0},
    {TYPE(F64), TYPE(F32), NONE, F_FTZ | F_SAT},
    {TYPE(F32), TYPE(F64), ANY_ROUNDING, F_FTZ | F_SAT},
    {TYPE(F16), TYPE(F32), ANY_ROUNDING, F_FTZ | F_SAT},
    {TYPE(F16), TYPE(F64), ANY_ROUNDING, F_SAT},
    {TYPE(F16), TYPE(BF16), ANY_ROUNDING, 0},
    {TYPE(BF16), TYPE(F32), ANY_ROUNDING, F_FTZ},
    {TYPE(BF16), TYPE(F16) | TYPE(F64), ANY_ROUNDING, 0},
    {TYPE(F16) | TYPE(BF16) | TYPE(TF32) | PAIRS, TYPE(F32), RN | RZ, F_RELU | F_SATFINITE},
    {TYPE(TF32), TYPE(F32), RNA, F_SATFINITE},
    {TYPE(F32), TYPE(F32), NONE | INTEGRAL, F_FTZ | F_SAT},
    {TYPE(F64), TYPE(F64), NONE | INTEGRAL, F_SAT},
    {TYPE(F16), TYPE(F16), NONE | INTEGRAL, F_SAT},
    {TYPE(BF16), TYPE(BF16), NONE | INTEGRAL, 0},
    {FP8, TYPE(F32) | TYPE(F16X2), RN, F_RELU | F_SATFINITE},
    {TYPE(F16X2), FP8, RN, F_RELU},
};

/* What the type's numbers go beyond the other's at neither end. */
static bool holds(const struct number *wide, const struct number *narrow) {
    bool wide_signed = wide->name[0] == 's', narrow_signed = narrow->name[0] == 's';
    return wide_signed == narrow_signed ? wide->bits >= narrow->bits : wide_signed && wide->bits > narrow->bits;
}

static bool converts(const struct insn *insn, const struct number *to, const struct number *from, u32 flags) {
    u32 rounding = flags & F_RINT              ? INTEGRAL
                   : flags & F_RNA             ? RNA
                   : flags & F_RZ              ? RZ
                   : flags & F_DIRECTED        ? DOWN_UP
                   : insn_has(insn, "rn") != 0 ? RN
                                               : NONE;
    unsigned said = rounding != NONE;
    for (u32 rest = flags & (F_FTZ | F_SAT | F_SATFINITE | F_RELU); rest; rest &= rest - 1)
        said++;
    if (said + 3 != insn->modifier_count) return false; /* one rounding, nothing twice */
    if (flags & F_SAT && !to->is_float && !from->is_float && holds(to, from)) return false;
    for (size_t i = 0; i < sizeof conversions / sizeof conversions[0]; i++) {
        const struct conversion *c = &conversions[i];
        if (c->to >> to->kind & c->from >> from->kind & 1 && c->roundings & rounding &&
            !(flags & (F_FTZ | F_SAT | F_SATFINITE | F_RELU) & ~c->flags))
            return true;
    }
    return false;
}

static void check_conversion(struct loader *l, const struct insn *insn, const struct number *to,
                             const struct number *from, u32 flags) {
    if (!converts(insn, to, from, flags))
        insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
}

/* Integers may sit in wider registers; floats fit exactly. Returns the register's bits. */
static unsigned convertible(struct loader *l, const struct insn *insn, unsigned index, const struct number *n) {
    const struct operand *o = &insn->operands[index];
    if (o->kind != O_REG) {
        bool number = o->kind == O_F32 || o->kind == O_F64;
        if (index == 0 || (n->is_float ? !number : number))
            insn_fail(l, insn, "operand %u of a conversion is a register", index + 1);
        if (o->kind == O_SPECIAL && special_rows[o->special].bits == 1)
            insn_fail(l, insn, "operand %u: mov brings `%s` into a predicate", index + 1,
                      special_rows[o->special].name);
        return n->bits < 32 ? 32 : n->bits;
    }
    struct vreg v = l->function->vregs[o->reg];
    bool packed = n->kind >= N_F16X2, fits = n->is_float ? v.bits == n->bits : v.bits >= n->bits && v.bits <= 64;
    if (!fits || v.kind == REG_PRED || (v.halves && n->kind != N_F16X2 && n->is_float) ||
        (v.kind == REG_FLOAT && (!n->is_float || packed || n->kind == N_TF32)) || (v.kind == REG_INT && n->is_float))
        insn_fail(l, insn, "operand %u does not suit .%s", index + 1, n->name);
    return v.bits;
}

static int plain_conversion(const struct number *to, const struct number *from, unsigned to_bits, unsigned from_bits,
                            u32 flags) {
    if (flags || to_bits != to->bits || from_bits != from->bits) return -1;
    bool to_wide = to->kind == N_U64 || to->kind == N_S64, from_wide = from->kind == N_U64 || from->kind == N_S64;
    bool to_word = to->kind == N_U32 || to->kind == N_S32, from_word = from->kind == N_U32 || from->kind == N_S32;
    bool to_half = to->kind == N_U16 || to->kind == N_S16;
    if (to_wide && from_word) return from->kind == N_U32 ? L_cvt_l_u32 : L_cvt_l_s32;
    if (to_word && (from_word || from->kind == N_U16)) return L_mov_w;
    if (to_word && from->kind == N_S16) return L_cvt_w_s16;
    if (to_wide && from_wide) return L_mov_l;
    if (to_word && from_wide) return L_cvt_w_l;
    if (to_half && from_word) return L_cvt_h_w;
    if (to->kind == N_F32 && from_word) return from->kind == N_S32 ? L_cvt_f32_s32 : L_cvt_f32_u32;
    if (to->kind == N_F32 && from->kind == N_BF16) return L_cvt_f32_bf16;
    if (to->kind == N_BF16 && from->kind == N_F32) return L_cvt_bf16_f32;
    return -1;
}

void encode_cvt(struct loader *l, const struct insn *insn, struct op *op) {
    static const char *const known[] = {"rn",  "rz",  "rm",  "rp",  "rna",       "rni", "rzi",
                                        "rmi", "rpi", "ftz", "sat", "satfinite", "relu"};
    const struct number *from = number_named(last_modifier(insn, 0)), *to = number_named(last_modifier(insn, 1));
    bool fine = from && to && insn->modifier_count >= 3;
    for (unsigned i = 1; fine && i + 2 < insn->modifier_count; i++) {
        bool found = false;
        for (size_t j = 0; j < sizeof known / sizeof known[0]; j++)
            found |= text_is(insn->modifiers[i], known[j]);
        fine = found;
    }
    bool pair = to && from && to->kind >= N_F16X2 && from->kind == N_F32;
    bool halves = to && from &&
                  ((to->kind >= N_E4M3X2 && from->kind == N_F16X2) || (to->kind == N_F16X2 && from->kind >= N_E4M3X2));
    if (!fine || (!pair && !halves && (to->kind >= N_F16X2 || from->kind >= N_F16X2 || from->kind == N_TF32)) ||
        (to->kind == N_TF32 && from->kind != N_F32))
        insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
    if (to->kind >= N_E4M3X2 && !(op->flags & F_SATFINITE)) insn_fail(l, insn, "conversions to FP8 need .satfinite");
    want_operands(l, insn, pair ? 3 : 2, pair ? 3 : 2);
    op->kind = from->kind;
    op->sub = to->kind;
    op->width = (u8)convertible(l, insn, 0, to);
    op->bytes = (u8)convertible(l, insn, 1, from);
    op->d = encode_operand(l, insn, &insn->operands[0], to->bits, false);
    op->a = encode_operand(l, insn, &insn->operands[1], from->bits < 16 ? 16 : from->bits, false);
    if (pair || halves) check_conversion(l, insn, to, from, op->flags);
    if (pair) {
        convertible(l, insn, 2, from);
        op->b = encode_operand(l, insn, &insn->operands[2], from->bits, false);
        op->run = to->kind == N_BF16X2 && !op->flags                 ? lanes_best()[L_cvt_bf16x2_f32]
                  : to->kind == N_E4M3X2 && op->flags == F_SATFINITE ? lanes_best()[L_cvt_e4m3x2_f32]
                                                                     : op_cvt_pair;
        return;
    }
    if (halves) {
        op->run = from->kind == N_E4M3X2 && !op->flags ? lanes_best()[L_cvt_f16x2_e4m3x2] : op_cvt_unpair;
        return;
    }
    bool integral = (op->flags & F_RINT) != 0,
         rounds = integral || insn_has(insn, "rn") || (op->flags & (F_DIRECTED | F_RNA));
    bool float_to_integer = from->is_float && !to->is_float, same = from->kind == to->kind;
    bool narrows = to->is_float && (!from->is_float || to->bits < from->bits || to->kind == N_TF32 ||
                                    (to->bits == from->bits && !same));
    if ((float_to_integer && !integral) || (narrows && (!rounds || integral)))
        insn_fail(l, insn, "this conversion needs a rounding: %s",
                  float_to_integer ? ".rni .rzi .rmi .rpi" : ".rn .rz .rm .rp");
    if (from->is_float && to->is_float && !narrows && !same && rounds)
        insn_fail(l, insn, "a widening conversion takes no rounding");
    check_conversion(l, insn, to, from, op->flags);
    int lane = plain_conversion(to, from, op->width, op->bytes, op->flags);
    op->run = lane >= 0 ? lanes_best()[lane] : op_cvt;
}
