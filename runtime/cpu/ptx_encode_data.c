/* ptx_encode_data.c - encoders of moves, selects, comparisons and carry chains. */
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/ptx.h>

/* The operand must suit the letter; its slot or constant. */
static u32 checked(struct loader *l, const struct insn *insn, unsigned index, char letter, unsigned bits) {
    const struct operand *o = &insn->operands[index];
    const char *want = operand_mismatch(l, insn, o, letter);
    if (want) insn_fail(l, insn, "operand %u does not suit the instruction's type: %s is expected", index + 1, want);
    return encode_operand(l, insn, o, bits, false);
}

static char letter_of(struct type type, bool bits_too) {
    if (type.bits == 128) return 'q';
    if (type.kind == REG_BITS || bits_too) return type.bits == 16 ? 'B' : type.bits == 32 ? 'W' : 'L';
    if (type.kind == REG_FLOAT) return type.bits == 16 ? 'H' : type.bits == 32 ? 'f' : 'd';
    return type.bits == 16 ? 'h' : type.bits == 32 ? 'w' : 'l';
}

/* ---- mov ---- */
static void encode_pack(struct loader *l, const struct insn *insn, struct op *op, unsigned bits) {
    bool pack = insn->operands[1].kind == O_VECTOR;
    const struct operand *vector = &insn->operands[pack ? 1 : 0];
    u32 parts[16];
    if (insn->operands[0].kind == O_VECTOR && pack)
        insn_fail(l, insn, "one side of a packing mov is a single register");
    unsigned each = bits / vector->count;
    if (last_modifier(insn, 0).at[0] != 'b') insn_fail(l, insn, "a packing mov moves bits: .b16, .b32, .b64 or .b128");
    if (bits % vector->count || each < 8 || (vector->count != 1 && vector->count != 2 && vector->count != 4))
        insn_fail(l, insn, "%u bits do not divide into %u elements", bits, vector->count);
    for (unsigned i = 0; i < vector->count; i++) {
        const struct operand *o = &vector->items[i];
        if (!pack && o->kind != O_REG && o->kind != O_DISCARD)
            insn_fail(l, insn, "element %u of the vector is written and must be a register", i + 1);
        if ((o->kind == O_REG && vreg_bits(l, o) != each) ||
            (o->kind == O_SPECIAL && special_rows[o->special].bits != each))
            insn_fail(l, insn, "element %u of the vector has not %u bits", i + 1, each);
        if (o->kind == O_DISCARD && pack) insn_fail(l, insn, "`_` stands for a register that is written");
        parts[i] = encode_operand(l, insn, o, each < 32 ? 16 : each, false);
    }
    op->extra = encode_extra(l, parts, vector->count);
    op->count = (u8)vector->count;
    op->bytes = (u8)(each / 8);
    op->width = (u8)bits;
    bool halves = each == 16 && vector->count == 2, words = each == 32 && vector->count == 2;
    const char letter = bits == 16 ? 'B' : bits == 32 ? 'W' : bits == 64 ? 'L' : 'q';
    if (pack) {
        op->d = checked(l, insn, 0, letter, bits);
        op->run = halves ? op_pack_h2 : words ? op_pack_w2 : op_pack;
    } else {
        op->a = checked(l, insn, 1, letter, bits);
        op->run = halves ? op_unpack_h2 : words ? op_unpack_w2 : op_unpack;
    }
}

/* Of a special register that is a predicate: whether its word is not 0. */
void encode_mov_predicate(struct loader *l, const struct insn *insn, struct op *op) {
    const struct operand *from = &insn->operands[1];
    if (from->kind != O_SPECIAL) {
        encode_default(l, insn, op);
        return;
    }
    op->d = encode_predicate(l, insn, &insn->operands[0]);
    op->a = pin_special(l, from->special, 0, 0, 32);
    op->b = encode_constant(l, 0, 32);
    op->flags |= from->negated ? 0 : F_NOT;
    op->run = lanes_best()[L_eq_w];
}

void encode_mov(struct loader *l, const struct insn *insn, struct op *op) {
    struct type type = type_named(last_modifier(insn, 0));
    want_operands(l, insn, 2, 2);
    struct text name = last_modifier(insn, 0);
    bool half = type.bits == 16 && type.kind == REG_FLOAT, packed = text_is(name, "f16x2") || text_is(name, "bf16x2");
    if (!type.valid || insn->modifier_count != 2 || type.bits < 16 || half || packed)
        insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
    const struct operand *from = &insn->operands[1];
    if (insn->operands[0].kind == O_VECTOR || from->kind == O_VECTOR) {
        encode_pack(l, insn, op, type.bits);
        return;
    }
    char letter = letter_of(type, false);
    if (insn->operands[0].kind != O_REG) insn_fail(l, insn, "operand 1 is written and must be a register");
    op->d = checked(l, insn, 0, letter, type.bits);
    op->width = type.bits;
    if (from->kind == O_SPECIAL && special_rows[from->special].when == WHEN_READ) {
        if (special_rows[from->special].bits != type.bits || type.kind == REG_FLOAT)
            insn_fail(l, insn, "`%s` has %u bits", special_rows[from->special].name, special_rows[from->special].bits);
        op->sub = from->special;
        op->run = op_special;
        return;
    }
    op->a = checked(l, insn, 1, letter, type.bits);
    op->run = type.bits == 128 ? op_mov_q : lanes_best()[type.bits == 64 ? L_mov_l : L_mov_w];
    if (from->kind == O_SPECIAL && special_rows[from->special].bits < type.bits)
        op->run = lanes_best()[type.bits == 64 ? L_mov_l : L_mov_w]; /* pinned at the asked width */
}

/* ---- address spaces ---- */
static u64 window_mark(struct loader *l, const struct insn *insn) {
    if (insn_has(insn, "global") || insn_has(insn, "const")) return 0;
    if (insn_has(insn, "shared") || insn_has(insn, "shared::cta") || insn_has(insn, "shared::cluster"))
        return WINDOW_SHARED;
    if (insn_has(insn, "local")) return WINDOW_LOCAL;
    if (insn_has(insn, "param") || insn_has(insn, "param::entry")) return WINDOW_PARAM;
    insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
}

void encode_cvta(struct loader *l, const struct insn *insn, struct op *op) {
    want_operands(l, insn, 2, 2);
    if (!insn_has(insn, "u64")) insn_fail(l, insn, "cvta needs .u64 with 64-bit addresses");
    static const struct {
        const char *word;
        enum space space;
    } spaces[] = {{"global", SPACE_GLOBAL},      {"const", SPACE_CONST},           {"local", SPACE_LOCAL},
                  {"param", SPACE_PARAM},        {"param::entry", SPACE_PARAM},    {"shared", SPACE_SHARED},
                  {"shared::cta", SPACE_SHARED}, {"shared::cluster", SPACE_SHARED}};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        if (insn_has(insn, spaces[i].word)) want_space(l, insn, &insn->operands[1], spaces[i].space);
    op->d = checked(l, insn, 0, 'l', 64);
    op->a = checked(l, insn, 1, 'l', 64);
    op->imm = (s64)window_mark(l, insn);
    op->sub = insn_has(insn, "to");
    if (!op->imm) op->run = lanes_best()[L_mov_l];
}

void encode_isspacep(struct loader *l, const struct insn *insn, struct op *op) {
    want_operands(l, insn, 2, 2);
    op->d = encode_predicate(l, insn, &insn->operands[0]);
    const struct operand *from = &insn->operands[1];
    if (from->kind == O_REG && vreg_bits(l, from) == 32) { /* below every window: any such address will do */
        checked(l, insn, 1, 'v', 32);
        op->a = encode_constant(l, 0, 64);
    } else {
        op->a = checked(l, insn, 1, 'l', 64);
    }
    op->imm = (s64)window_mark(l, insn);
    op->sub = insn_has(insn, "shared::cluster"); /* else the CTA's own shared memory alone */
    if (insn_has(insn, "const")) insn_fail(l, insn, "isspacep.const is not supported");
}

/* ---- select ---- */
void encode_selp(struct loader *l, const struct insn *insn, struct op *op) {
    encode_default(l, insn, op);
    op->run = lanes_best()[insn->form->sub == 64 ? L_selp_l : L_selp_w];
}

void encode_slct(struct loader *l, const struct insn *insn, struct op *op) {
    encode_default(l, insn, op);
    op->width = insn->form->sig[0] == 'L' ? 64 : 32;
}

void encode_bfi(struct loader *l, const struct insn *insn, struct op *op) {
    bool wide = insn_has(insn, "b64");
    unsigned bits = wide ? 64 : 32;
    want_operands(l, insn, 5, 5);
    op->d = checked(l, insn, 0, wide ? 'L' : 'W', bits);
    op->a = checked(l, insn, 1, wide ? 'L' : 'W', bits);
    op->b = checked(l, insn, 2, wide ? 'L' : 'W', bits);
    op->c = checked(l, insn, 3, 'v', 32);
    op->extra = encode_extra(l, &(u32){checked(l, insn, 4, 'v', 32)}, 1);
    op->width = (u8)bits;
}

/* ---- compare ---- */
enum primitive { EQ, NE, LT, LE, NUM };
static const struct comparison {
    const char *name;
    enum primitive integer, floating;
    u32 integer_flags, floating_flags;
    bool is_integer, is_float;
} comparisons[] = {
    {"eq", EQ, EQ, 0, 0, true, true},
    {"ne", EQ, NE, F_NOT, 0, true, true},
    {"lt", LT, LT, 0, 0, true, true},
    {"le", LT, LE, F_SWAP | F_NOT, 0, true, true},
    {"gt", LT, LT, F_SWAP, F_SWAP, true, true},
    {"ge", LT, LE, F_NOT, F_SWAP, true, true},
    {"lo", LT, LT, 0, 0, true, false},
    {"ls", LT, LT, F_SWAP | F_NOT, 0, true, false},
    {"hi", LT, LT, F_SWAP, 0, true, false},
    {"hs", LT, LT, F_NOT, 0, true, false},
    {"equ", NE, NE, 0, F_NOT, false, true},
    {"neu", EQ, EQ, 0, F_NOT, false, true},
    {"ltu", LE, LE, 0, F_SWAP | F_NOT, false, true},
    {"leu", LT, LT, 0, F_SWAP | F_NOT, false, true},
    {"gtu", LE, LE, 0, F_NOT, false, true},
    {"geu", LT, LT, 0, F_NOT, false, true},
    {"num", NUM, NUM, 0, 0, false, true},
    {"nan", NUM, NUM, 0, F_NOT, false, true},
};

static op_fn *integer_compare(enum primitive p, unsigned bits, bool is_signed) {
    if (p == EQ) return lanes_best()[bits == 64 ? L_eq_l : L_eq_w];
    if (bits == 64) return lanes_best()[is_signed ? L_lt_s64 : L_lt_u64];
    return lanes_best()[!is_signed ? L_lt_u32 : bits == 16 ? L_lt_s16 : L_lt_s32];
}

static op_fn *float_compare(enum primitive p, struct text type) {
    static op_fn *const half[4][5] = {{heq_f16, hne_f16, hlt_f16, hle_f16, hnum_f16},
                                      {heq_bf16, hne_bf16, hlt_bf16, hle_bf16, hnum_bf16},
                                      {heq_f16x2, hne_f16x2, hlt_f16x2, hle_f16x2, hnum_f16x2},
                                      {heq_bf16x2, hne_bf16x2, hlt_bf16x2, hle_bf16x2, hnum_bf16x2}};
    static const char *const names[4] = {"f16", "bf16", "f16x2", "bf16x2"};
    static const enum lane_op f32_rows[] = {L_eq_f32, L_ne_f32, L_lt_f32, L_le_f32, L_num_f32};
    static const enum lane_op f64_rows[] = {L_eq_f64, L_ne_f64, L_lt_f64, L_le_f64, L_num_f64};
    for (unsigned i = 0; i < 4; i++)
        if (text_is(type, names[i])) return half[i][p];
    return lanes_best()[text_is(type, "f32") ? f32_rows[p] : f64_rows[p]];
}

/* Modifiers from index 1: comparison, {and or xor}, {ftz}; then `after` types of the destination and the type of the
 * sources. */
static op_fn *encode_compare(struct loader *l, const struct insn *insn, struct op *op, unsigned after) {
    const struct comparison *c = NULL;
    struct text name = insn->modifier_count > 1 ? insn->modifiers[1] : (struct text){"", 0},
                type_text = last_modifier(insn, 0);
    struct type type = type_named(type_text);
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++)
        if (text_is(name, comparisons[i].name)) c = &comparisons[i];
    bool packed = text_is(type_text, "f16x2") || text_is(type_text, "bf16x2"),
         is_float = packed || type.kind == REG_FLOAT;
    unsigned known = 2 + after + 1;
    if (insn->modifier_count > 2) {
        u32 combine = text_is(insn->modifiers[2], "and")   ? F_AND
                      : text_is(insn->modifiers[2], "or")  ? F_OR
                      : text_is(insn->modifiers[2], "xor") ? F_XOR
                                                           : 0;
        op->flags |= combine;
        known += combine != 0;
    }
    known += insn_has(insn, "ftz");
    bool flushes = text_is(type_text, "f32") || text_is(type_text, "f16") || text_is(type_text, "f16x2");
    if (!c || !type.valid || type.bits < 16 || type.bits > 64 || (insn_has(insn, "ftz") && !flushes) ||
        type.kind == REG_PRED || known != insn->modifier_count || !(is_float ? c->is_float : c->is_integer))
        insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
    static const char *const unsigned_alone[] = {"lo", "ls", "hi", "hs"};
    for (size_t i = 0; i < 4; i++)
        if (text_is(name, unsigned_alone[i]) && type_text.at[0] != 'u')
            insn_fail(l, insn, "`.%s` compares unsigned integers", unsigned_alone[i]);
    if (!is_float && type.kind == REG_BITS && !text_is(name, "eq") && !text_is(name, "ne"))
        insn_fail(l, insn, "bits are compared with .eq and .ne");
    bool combines = (op->flags & (F_AND | F_OR | F_XOR)) != 0;
    want_operands(l, insn, combines ? 4 : 3, combines ? 4 : 3);
    op->flags |= is_float ? c->floating_flags : c->integer_flags;
    char letter = packed ? 'x' : letter_of(type, false);
    u32 a = checked(l, insn, 1, letter, type.bits), b = checked(l, insn, 2, letter, type.bits);
    op->a = op->flags & F_SWAP ? b : a;
    op->b = op->flags & F_SWAP ? a : b;
    if (combines) op->c = encode_predicate(l, insn, &insn->operands[3]);
    return is_float ? float_compare(c->floating, type_text)
                    : integer_compare(c->integer, type.bits, type_text.at[0] == 's');
}

void encode_setp(struct loader *l, const struct insn *insn, struct op *op) {
    op->run = encode_compare(l, insn, op, 0);
    struct text type = last_modifier(insn, 0);
    if (insn->operands[0].paired && (text_is(type, "f16") || text_is(type, "bf16")))
        insn_fail(l, insn, "a comparison of .f16 or .bf16 gives one predicate");
    op->d = encode_predicate(l, insn, &insn->operands[0]);
    if (insn->operands[0].paired) op->extra = encode_predicate(l, insn, insn->operands[0].paired);
}

/* set: a compare into the spare predicate 0, spread into a register; imm is the compare's handler, extra what a lane or
 * half gets where it holds. */
void encode_set(struct loader *l, const struct insn *insn, struct op *op) {
    static const struct {
        const char *name;
        char letter;
        u32 yes;
    } results[] = {{"u32", 'w', ~0u},     {"s32", 'w', ~0u},      {"f32", 'f', 0x3F800000},
                   {"u16", 'h', 0xFFFF},  {"s16", 'h', 0xFFFF},   {"f16", 'H', 0x3C00},
                   {"bf16", 'H', 0x3F80}, {"f16x2", 'x', 0x3C00}, {"bf16x2", 'x', 0x3F80}};
    struct text to = last_modifier(insn, 1), from = last_modifier(insn, 0);
    bool pairs = text_is(from, "f16x2") || text_is(from, "bf16x2"),
         halves = text_is(from, "f16") || text_is(from, "bf16");
    size_t i = 0, last = sizeof results / sizeof results[0] - 1;
    while (i < last && !text_is(to, results[i].name))
        i++;
    bool named = text_is(to, results[i].name);
    bool known = named && (i < 3 || ((pairs || halves) && (i < 5 || text_same(to, from))));
    if (!known || (halves && i == 2) || (pairs && (i == 2 || i == 3 || i == 4)))
        insn_fail(l, insn, "set gives .u32, .s32 or .f32 here, and of half-precision sources their own type");
    op->imm = (s64)(uintptr_t)encode_compare(l, insn, op, 1);
    op->d = checked(l, insn, 0, results[i].letter, results[i].letter == 'h' || results[i].letter == 'H' ? 16 : 32);
    op->extra = pairs ? results[i].yes & 0xFFFF : results[i].yes;
    op->sub = pairs;
    op->run = op_set;
}

void encode_testp(struct loader *l, const struct insn *insn, struct op *op) {
    static const char *const tests[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    struct text type = last_modifier(insn, 0);
    bool wide = text_is(type, "f64");
    want_operands(l, insn, 2, 2);
    if (insn->modifier_count != 3 || (!wide && !text_is(type, "f32")))
        insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
    op->sub = 255;
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (text_is(insn->modifiers[1], tests[i])) op->sub = (u8)i;
    if (op->sub == 255) insn_fail(l, insn, "unknown test in testp");
    op->d = encode_predicate(l, insn, &insn->operands[0]);
    op->a = checked(l, insn, 1, wide ? 'd' : 'f', wide ? 64 : 32);
    op->width = wide ? 64 : 32;
}

/* ---- carry ---- */
void encode_carry(struct loader *l, const struct insn *insn, struct op *op) {
    struct text type = last_modifier(insn, 0);
    bool wide = text_is(type, "u64") || text_is(type, "s64"), multiplies = op->sub >= CARRY_MAD_LO;
    unsigned inputs = multiplies ? 3 : 2, bits = wide ? 64 : 32;
    want_operands(l, insn, inputs + 1, inputs + 1);
    op->d = checked(l, insn, 0, wide ? 'l' : 'w', bits);
    op->a = checked(l, insn, 1, wide ? 'l' : 'w', bits);
    op->b = checked(l, insn, 2, wide ? 'l' : 'w', bits);
    if (multiplies) op->c = checked(l, insn, 3, wide ? 'l' : 'w', bits);
    op->width = (u8)bits;
    bool carry_in = text_is(insn->modifiers[0], "addc") || text_is(insn->modifiers[0], "subc") ||
                    text_is(insn->modifiers[0], "madc");
    op->kind = (u8)(carry_in | insn_has(insn, "cc") << 1 | (type.at[0] == 's') << 2);
}
