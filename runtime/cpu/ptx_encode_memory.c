/* ptx_encode_memory.c - encoders of loads, stores, atomics, fences and prefetches: their many modifiers in any order.
 */
#include <string.h>
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/ptx_access.h>

static _Noreturn void unsupported(struct loader *l, const struct insn *insn) {
    insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
}

/* An address whose space op->space says. Registers of 32 bits reach what lies in windows of 32 bits. */
static void take_address(struct loader *l, const struct insn *insn, const struct operand *o, struct op *op) {
    encode_address(l, insn, o, op);
    if (o->has_reg && !(op->flags & F_WIDE_ADDRESS) && (op->space == SPACE_GENERIC || op->space == SPACE_GLOBAL))
        insn_fail(l, insn, "a %s address has 64 bits, and its register 32",
                  op->space == SPACE_GLOBAL ? "global" : "generic");
    if (o->has_reg && !(op->flags & F_WIDE_ADDRESS) && op->space == SPACE_CONST)
        insn_fail(l, insn, "constant memory is addressed with 64-bit registers here");
}

/* A number where data is expected: a float's for floats, an integer's for integers; bits also take a float of their
 * own width. */
static bool constant_fits(struct type type, const struct operand *o) {
    if (o->kind == O_INTEGER) return type.kind != REG_FLOAT;
    if (o->kind != O_F32 && o->kind != O_F64) return false;
    return type.kind == REG_FLOAT || (type.kind == REG_BITS && type.bits == (o->kind == O_F32 ? 32 : 64));
}

static bool is_half(struct text type) {
    return text_is(type, "f16") || text_is(type, "bf16") || text_is(type, "f16x2") || text_is(type, "bf16x2");
}

/* A register is as wide as the type or wider; of a float it is bits or of its width, in a vector also an integer. */
static bool register_suits(struct vreg v, struct type type, const struct access_mods *mods, bool multimem) {
    bool exact = v.bits == type.bits, pair = type.bits == 32 && is_half(mods->type);
    if (v.kind == REG_PRED || v.bits < type.bits) return false;
    if (multimem && (!exact || (pair && v.kind != REG_BITS))) return false;
    if (type.kind == REG_INT) return v.kind != REG_FLOAT;
    if (type.kind != REG_FLOAT) return true;
    if (v.kind == REG_INT) return exact && mods->count > 1;
    return !v.halves && (exact || v.kind == REG_BITS);
}

/* The data operand, scalar or vector: registers as wide as the type or wider (of floats: bits alone), all of one width.
 */
static void encode_data(struct loader *l, const struct insn *insn, const struct operand *data,
                        const struct access_mods *mods, bool load, struct op *op) {
    bool multimem = insn->form->encode == encode_store && insn->form->sub == 1;
    struct type type = type_named(mods->type);
    u32 parts[16];
    const struct operand *items = data->kind == O_VECTOR ? data->items : data;
    unsigned count = data->kind == O_VECTOR ? data->count : 1;
    if (!type.valid || type.kind == REG_PRED) insn_fail(l, insn, "unknown type of the access");
    if (!multimem && is_half(mods->type)) insn_fail(l, insn, "a half is loaded and stored as .b16, a pair as .b32");
    if (count != mods->count)
        insn_fail(l, insn, "data of %u register%s expected, not %u", mods->count, mods->count == 1 ? " is" : "s is",
                  count);
    if (type.bits / 8u * count > 32) insn_fail(l, insn, "an access of more than 32 bytes");
    if (type.bits / 8u * count > 16 && l->target < 100)
        insn_fail(l, insn, "an access of more than 16 bytes needs .target sm_100 or a newer one");
    unsigned width = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct operand *o = &items[i];
        unsigned bits = type.bits < 32 ? 16 : type.bits;
        if (o->kind == O_REG) {
            struct vreg v = l->function->vregs[o->reg];
            if (!register_suits(v, type, mods, multimem))
                insn_fail(l, insn, "register %u of the data does not suit .%.*s", i + 1, (int)mods->type.length,
                          mods->type.at);
            if (width && v.bits != width) insn_fail(l, insn, "the registers of a vector have different widths");
            width = v.bits;
        } else if (load && o->kind != O_DISCARD) {
            insn_fail(l, insn, "a load writes registers");
        } else if (!load && o->kind != O_INTEGER && o->kind != O_F32 && o->kind != O_F64) {
            insn_fail(l, insn, "a store reads registers or constants");
        } else if (!load && !constant_fits(type, o)) {
            insn_fail(l, insn, "constant %u of the data does not suit .%.*s", i + 1, (int)mods->type.length,
                      mods->type.at);
        }
        parts[i] = encode_operand(l, insn, o, bits, false);
    }
    if (!width) width = type.bits < 32 ? 32 : type.bits;
    for (unsigned i = 0; i < count; i++) /* constants beside wide registers */
        if (items[i].kind != O_REG && !load)
            parts[i] = encode_operand(l, insn, &items[i], width < 32 ? 16 : width, false);
    op->extra = encode_extra(l, parts, count);
    op->count = (u8)count;
    op->bytes = (u8)(type.bits / 8);
    op->width = (u8)(width == 8 ? 32 : width);
    op->flags |= mods->type.at[0] == 's' ? F_SIGNED : 0;
}

static void fill(struct op *op, const struct access_mods *mods) {
    op->space = (u8)mods->space;
    op->order = (u8)(mods->space == SPACE_LOCAL ? ORDER_WEAK : mods->order); /* nobody else sees local memory */
    op->scope = (u8)mods->scope;
    if (mods->order == ORDER_VOLATILE) op->scope = SCOPE_SYS;
}

/* Where an access goes that states this space: where the variable lies whose name the address is, if the access is
 * generic. Parameters of calls lie in local memory, an entry's do not. */
static enum space space_of_access(struct loader *l, const struct insn *insn, const struct operand *address,
                                  enum space stated, bool writes) {
    const struct variable *v = address->kind == O_ADDRESS ? address->variable : NULL;
    if (!v) return stated;
    enum space of = v->passing ? SPACE_PARAM : v->space;
    if (stated != SPACE_GENERIC && of != stated && !(stated == SPACE_CLUSTER && of == SPACE_SHARED))
        insn_fail(l, insn, "`%.*s` lies in another space", (int)v->name.length, v->name.at);
    if (writes ? v->passing == PASSING_ARGUMENT : v->passing == PASSING_RESULT)
        insn_fail(l, insn,
                  writes ? "`%.*s`, an argument of the function, is only read"
                         : "`%.*s`, the result of the function, is only written",
                  (int)v->name.length, v->name.at);
    if (stated == SPACE_GENERIC) return of == SPACE_SHARED || of == SPACE_LOCAL ? of : stated;
    return v->passing ? SPACE_LOCAL : stated;
}

/* The comment behind the instruction on its line: // const_input */
static bool says_input(const struct insn *insn) {
    static const char mark[] = "const_input";
    const char *at = insn->text.at + insn->text.length;
    while (*at && *at != '\n' && !(at[0] == '/' && at[1] == '/'))
        at++;
    if (*at != '/') return false;
    at += 2 + strspn(at + 2, " ");
    return strncmp(at, mark, sizeof mark - 1) == 0 && !strchr("_abcdefghijklmnopqrstuvwxyz", at[sizeof mark - 1]);
}

void encode_load(struct loader *l, const struct insn *insn, struct op *op) {
    bool ldu = text_is(insn->modifiers[0], "ldu");
    struct access_mods mods = access_mods(l, insn, ldu ? VERB_LDU : VERB_LD, 1);
    unsigned operands = 2 + mods.policy;
    if (ldu && mods.space != SPACE_GLOBAL && mods.space != SPACE_GENERIC)
        insn_fail(l, insn, "ldu reads global memory alone");
    want_operands(l, insn, operands, operands);
    mods.space = space_of_access(l, insn, &insn->operands[1], mods.space, false);
    fill(op, &mods);
    take_address(l, insn, &insn->operands[1], op);
    encode_data(l, insn, &insn->operands[0], &mods, true, op);
    op->flags |= says_input(insn) ? F_INPUT : insn_has(insn, "nc") ? F_NC : 0;
    op->flags |= insn->unused_bytes ? F_PARTLY : 0;
    op->b = insn->unused_bytes;
    op->run = mods.space == SPACE_GENERIC                               ? op_load_generic
              : mods.space == SPACE_GLOBAL || mods.space == SPACE_CONST ? op_load_global
                                                                        : op_load_window;
}

/* st, and multimem.st (sub 1): a store through a multicast address, always global. */
void encode_store(struct loader *l, const struct insn *insn, struct op *op) {
    bool multimem = insn->form->sub == 1;
    struct access_mods mods = access_mods(l, insn, multimem ? VERB_MULTI : VERB_ST, multimem ? 2 : 1);
    unsigned operands = 2 + mods.policy;
    if (multimem && (mods.space == SPACE_GENERIC || mods.space == SPACE_GLOBAL))
        mods.space = SPACE_GLOBAL;
    else if (multimem)
        unsupported(l, insn);
    if (insn->operand_count == operands) mods.space = space_of_access(l, insn, &insn->operands[0], mods.space, true);
    if (insn->operand_count != operands || mods.space == SPACE_CONST || mods.space == SPACE_PARAM)
        insn_fail(l, insn, "a store has %u operands and goes to global, shared or local memory", operands);
    fill(op, &mods);
    take_address(l, insn, &insn->operands[0], op);
    encode_data(l, insn, &insn->operands[1], &mods, false, op);
    op->run = mods.space == SPACE_GENERIC  ? op_store_generic
              : mods.space == SPACE_GLOBAL ? op_store_global
                                           : op_store_window;
}

/* ---- atomics ---- */
static const struct {
    const char *name;
    enum atomic_op op;
    const char *types;
} atomics[] = {{"add", ATOMIC_ADD, " u32 s32 u64 f32 f64 f16 bf16 f16x2 bf16x2 "},
               {"min", ATOMIC_MIN, " u32 s32 u64 s64 "},
               {"max", ATOMIC_MAX, " u32 s32 u64 s64 "},
               {"and", ATOMIC_AND, " b32 b64 "},
               {"or", ATOMIC_OR, " b32 b64 "},
               {"xor", ATOMIC_XOR, " b32 b64 "},
               {"exch", ATOMIC_EXCH, " b32 b64 b128 "},
               {"cas", ATOMIC_CAS, " b16 b32 b64 b128 "},
               {"inc", ATOMIC_INC, " u32 "},
               {"dec", ATOMIC_DEC, " u32 "}};

static const struct {
    const char *name;
    u8 kind, bits;
} atomic_types[] = {{"u32", N_U32, 32},   {"s32", N_S32, 32},     {"u64", N_U64, 64},       {"s64", N_S64, 64},
                    {"b32", N_U32, 32},   {"b64", N_U64, 64},     {"b16", N_U16, 16},       {"f16", N_F16, 16},
                    {"bf16", N_BF16, 16}, {"f16x2", N_F16X2, 32}, {"bf16x2", N_BF16X2, 32}, {"f32", N_F32, 32},
                    {"f64", N_F64, 64},   {"b128", N_B128, 128}};

static bool listed(const char *list, struct text word) {
    for (const char *at = list; *at; at++)
        if (at[0] == ' ' && strncmp(at + 1, word.at, word.length) == 0 && at[1 + word.length] == ' ') return true;
    return false;
}

/* atom (sub 1, with a result) and red (sub 0). */
void encode_atom(struct loader *l, const struct insn *insn, struct op *op) {
    bool result = insn->form->sub != 0, found = false;
    struct access_mods mods = access_mods(l, insn, result ? VERB_ATOM : VERB_RED, 1);
    for (size_t i = 0; i < sizeof atomics / sizeof atomics[0]; i++)
        if (text_is(mods.operation, atomics[i].name) && listed(atomics[i].types, mods.type)) {
            op->sub = (u8)atomics[i].op;
            found = true;
        }
    bool exchange = op->sub == ATOMIC_EXCH || op->sub == ATOMIC_CAS;
    if (!found || mods.count != 1 || mods.space == SPACE_LOCAL || mods.space == SPACE_PARAM ||
        mods.space == SPACE_CONST || (exchange && !result))
        unsupported(l, insn);
    if (mods.noftz != is_half(mods.type))
        insn_fail(l, insn, "`.noftz` goes with f16, f16x2, bf16 and bf16x2, and they with it");
    for (size_t i = 0; i < sizeof atomic_types / sizeof atomic_types[0]; i++)
        if (text_is(mods.type, atomic_types[i].name)) {
            op->kind = atomic_types[i].kind;
            op->width = atomic_types[i].bits;
        }
    unsigned sources = op->sub == ATOMIC_CAS ? 2 : 1, operands = result + 1u + sources + mods.policy;
    if (insn->operand_count != operands)
        insn_fail(l, insn, "%u operands are expected, not %u", operands, insn->operand_count);
    struct type type = type_named(mods.type);
    static const char bit_letters[] = "BWLq", int_letters[] = "hwl", float_letters[] = "Hfd";
    unsigned size = type.bits == 16 ? 0 : type.bits == 32 ? 1 : type.bits == 64 ? 2 : 3;
    char letter = type.bits == 32 && is_half(mods.type) ? 'x'
                  : type.kind == REG_BITS               ? bit_letters[size]
                  : type.kind == REG_INT                ? int_letters[size]
                                                        : float_letters[size];
    u32 *inputs[] = {&op->b, &op->c};
    for (unsigned i = 0; i < result + 1u + sources; i++) {
        if (i == result) continue; /* the address */
        const char *want = operand_mismatch(l, insn, &insn->operands[i], letter);
        if (want || (i < result && insn->operands[i].kind != O_REG && insn->operands[i].kind != O_DISCARD))
            insn_fail(l, insn, "operand %u does not suit the instruction's type: %s is expected", i + 1,
                      want ? want : "a register");
        u32 operand = encode_operand(l, insn, &insn->operands[i], type.bits, false);
        *(i < result ? &op->d : inputs[i - result - 1]) = operand;
    }
    if (!result) op->d = NO_OPERAND;
    mods.space = space_of_access(l, insn, &insn->operands[result], mods.space, true);
    if (mods.space == SPACE_LOCAL) insn_fail(l, insn, "atomic operations on local memory are not supported");
    fill(op, &mods);
    if (mods.order == ORDER_WEAK) op->order = ORDER_RELAXED;
    take_address(l, insn, &insn->operands[result], op);
    op->bytes = (u8)(op->width / 8);
}

/* ---- fences ---- */
void encode_fence(struct loader *l, const struct insn *insn, struct op *op) {
    if (insn->operand_count) insn_fail(l, insn, "a fence has no operands");
    if (text_is(insn->modifiers[0], "membar")) {
        op->order = ORDER_SC;
        op->scope = insn_has(insn, "cta") ? SCOPE_CTA : insn_has(insn, "sys") ? SCOPE_SYS : SCOPE_GPU;
    } else {
        fence_mods(l, insn, op);
    }
}

void encode_prefetch(struct loader *l, const struct insn *insn, struct op *op) {
    if (insn->operand_count != 1) insn_fail(l, insn, "one address is expected");
    const struct operand *address = &insn->operands[0];
    enum space stated = insn_has(insn, "global") ? SPACE_GLOBAL : insn_has(insn, "local") ? SPACE_LOCAL : SPACE_GENERIC;
    if (text_is(insn->modifiers[0], "prefetchu")) want_space(l, insn, address, SPACE_GLOBAL);
    op->space = (u8)space_of_access(l, insn, address, stated, false);
    take_address(l, insn, address, op);
}

static bool is_fraction(const struct operand *o) {
    double value;
    memcpy(&value, &o->bits, 8);
    if (o->kind == O_F32) value = float_to_double(FMT_F32, o->bits);
    return value > 0 && value <= 1;
}

/* A cache policy is any number here: accesses that carry one ignore it. */
void encode_policy(struct loader *l, const struct insn *insn, struct op *op) {
    const char *want = operand_mismatch(l, insn, &insn->operands[0], 'l');
    if (want || insn->operands[0].kind != O_REG) insn_fail(l, insn, "a 64-bit register for the policy is expected");
    want_operands(l, insn, 1, 2);
    const struct operand *fraction = insn->operand_count > 1 ? &insn->operands[1] : NULL;
    if (fraction && operand_mismatch(l, insn, fraction, 'f')) insn_fail(l, insn, "the fraction is an f32");
    if (fraction && (fraction->kind == O_F32 || fraction->kind == O_F64) && !is_fraction(fraction))
        insn_fail(l, insn, "the fraction is more than 0 and at most 1");
    op->d = encode_operand(l, insn, &insn->operands[0], 64, false);
    op->a = encode_constant(l, 0, 64);
    op->run = lanes_best()[L_mov_l];
}
