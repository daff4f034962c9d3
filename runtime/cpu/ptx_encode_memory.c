/* ptx_encode_memory.c - encoders of loads, stores, atomics, fences and prefetches: their many modifiers in any order.
 */
#include <string.h>
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/ptx.h>

struct access_mods {
    enum space space;
    enum order order;
    enum scope scope;
    unsigned count;
    struct text type, operation;
    bool policy; /* an .L2::cache_hint operand follows */
};

/* What each modifier sets; hints about caches set nothing. */
enum effect { EFFECT_NONE, EFFECT_SPACE, EFFECT_ORDER, EFFECT_SCOPE, EFFECT_COUNT, EFFECT_POLICY };
static const struct {
    const char *name;
    enum effect effect;
    u8 value;
} effects[] = {{"global", EFFECT_SPACE, SPACE_GLOBAL},
               {"shared", EFFECT_SPACE, SPACE_SHARED},
               {"shared::cta", EFFECT_SPACE, SPACE_SHARED},
               {"shared::cluster", EFFECT_SPACE, SPACE_CLUSTER},
               {"local", EFFECT_SPACE, SPACE_LOCAL},
               {"param", EFFECT_SPACE, SPACE_PARAM},
               {"param::entry", EFFECT_SPACE, SPACE_PARAM},
               {"param::func", EFFECT_SPACE, SPACE_PARAM},
               {"const", EFFECT_SPACE, SPACE_CONST},
               {"weak", EFFECT_ORDER, ORDER_WEAK},
               {"volatile", EFFECT_ORDER, ORDER_VOLATILE},
               {"relaxed", EFFECT_ORDER, ORDER_RELAXED},
               {"acquire", EFFECT_ORDER, ORDER_ACQUIRE},
               {"release", EFFECT_ORDER, ORDER_RELEASE},
               {"acq_rel", EFFECT_ORDER, ORDER_ACQ_REL},
               {"sc", EFFECT_ORDER, ORDER_SC},
               {"mmio", EFFECT_ORDER, ORDER_VOLATILE},
               {"cta", EFFECT_SCOPE, SCOPE_CTA},
               {"cluster", EFFECT_SCOPE, SCOPE_CLUSTER},
               {"gpu", EFFECT_SCOPE, SCOPE_GPU},
               {"gl", EFFECT_SCOPE, SCOPE_GPU},
               {"sys", EFFECT_SCOPE, SCOPE_SYS},
               {"v2", EFFECT_COUNT, 2},
               {"v4", EFFECT_COUNT, 4},
               {"v8", EFFECT_COUNT, 8},
               {"L2::cache_hint", EFFECT_POLICY, 0},
               {"nc", EFFECT_NONE, 0},
               {"ca", EFFECT_NONE, 0},
               {"cg", EFFECT_NONE, 0},
               {"cs", EFFECT_NONE, 0},
               {"cv", EFFECT_ORDER, ORDER_VOLATILE},
               {"lu", EFFECT_NONE, 0},
               {"wb", EFFECT_NONE, 0},
               {"wt", EFFECT_NONE, 0},
               {"noftz", EFFECT_NONE, 0},
               {"unified", EFFECT_NONE, 0},
               {"L1::evict_normal", EFFECT_NONE, 0},
               {"L1::evict_unchanged", EFFECT_NONE, 0},
               {"L1::evict_first", EFFECT_NONE, 0},
               {"L1::evict_last", EFFECT_NONE, 0},
               {"L1::no_allocate", EFFECT_NONE, 0},
               {"L2::evict_normal", EFFECT_NONE, 0},
               {"L2::evict_first", EFFECT_NONE, 0},
               {"L2::evict_last", EFFECT_NONE, 0},
               {"L2::64B", EFFECT_NONE, 0},
               {"L2::128B", EFFECT_NONE, 0},
               {"L2::256B", EFFECT_NONE, 0}};

static _Noreturn void unsupported(struct loader *l, const struct insn *insn) {
    insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
}

/* Modifiers first..count-2; the last is the type. One that is no effect is the operation of an atomic, which may appear
 * once. */
static struct access_mods read_mods(struct loader *l, const struct insn *insn, bool atomic, unsigned first) {
    struct access_mods mods = {.count = 1, .space = SPACE_GENERIC, .order = ORDER_WEAK};
    if (insn->modifier_count < first + 1) unsupported(l, insn);
    for (unsigned i = first; i + 1 < insn->modifier_count; i++) {
        struct text m = insn->modifiers[i];
        bool found = false;
        for (size_t j = 0; j < sizeof effects / sizeof effects[0] && !found; j++) {
            if (!text_is(m, effects[j].name)) continue;
            found = true;
            u8 value = effects[j].value;
            switch (effects[j].effect) {
            case EFFECT_SPACE:
                mods.space = value;
                break;
            case EFFECT_ORDER:
                mods.order = value;
                break;
            case EFFECT_SCOPE:
                mods.scope = value;
                break;
            case EFFECT_COUNT:
                mods.count = value;
                break;
            case EFFECT_POLICY:
                mods.policy = true;
                break;
            default:
                break;
            }
        }
        if (!found && atomic && !mods.operation.length)
            mods.operation = m;
        else if (!found)
            unsupported(l, insn);
    }
    mods.type = insn->modifiers[insn->modifier_count - 1];
    return mods;
}

/* The data operand, scalar or vector: registers as wide as the type or wider (integers), all of one width. */
static void encode_data(struct loader *l, const struct insn *insn, const struct operand *data,
                        const struct access_mods *mods, bool load, struct op *op) {
    struct type type = type_named(mods->type);
    u32 parts[16];
    const struct operand *items = data->kind == O_VECTOR ? data->items : data;
    unsigned count = data->kind == O_VECTOR ? data->count : 1;
    if (!type.valid || type.kind == REG_PRED) insn_fail(l, insn, "unknown type of the access");
    if (count != mods->count)
        insn_fail(l, insn, "data of %u register%s expected, not %u", mods->count, mods->count == 1 ? " is" : "s is",
                  count);
    if (type.bits / 8u * count > 32) insn_fail(l, insn, "an access of more than 32 bytes");
    unsigned width = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct operand *o = &items[i];
        unsigned bits = type.bits < 32 ? 16 : type.bits;
        if (o->kind == O_REG) {
            struct vreg v = l->function->vregs[o->reg];
            bool floats =
                (v.kind == REG_FLOAT && type.kind == REG_INT) || (v.kind == REG_INT && type.kind == REG_FLOAT);
            if (v.kind == REG_PRED || v.bits < type.bits || floats ||
                (v.bits > type.bits && (type.kind == REG_FLOAT || v.kind == REG_FLOAT)))
                insn_fail(l, insn, "register %u of the data does not suit .%.*s", i + 1, (int)mods->type.length,
                          mods->type.at);
            if (width && v.bits != width) insn_fail(l, insn, "the registers of a vector have different widths");
            width = v.bits;
        } else if (load && o->kind != O_DISCARD) {
            insn_fail(l, insn, "a load writes registers");
        } else if (!load && o->kind != O_INTEGER && o->kind != O_F32 && o->kind != O_F64) {
            insn_fail(l, insn, "a store reads registers or constants");
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

/* The space that an address states by its variable, where the instruction names none. */
static void fill(struct op *op, const struct access_mods *mods) {
    op->space = (u8)mods->space;
    op->order = (u8)mods->order;
    op->scope = (u8)mods->scope;
    if (mods->order == ORDER_VOLATILE) op->scope = SCOPE_SYS;
}

static void check_space(struct loader *l, const struct insn *insn, const struct operand *address, enum space space) {
    if (address->kind != O_ADDRESS || !address->variable) return;
    enum space of = address->variable->space;
    bool fits =
        of == space || (space == SPACE_GENERIC && of == SPACE_GLOBAL) || (space == SPACE_CLUSTER && of == SPACE_SHARED);
    if (!fits)
        insn_fail(l, insn,
                  space == SPACE_GENERIC ? "`%.*s` is not at a generic address: name its space or use cvta"
                                         : "`%.*s` lies in another space",
                  (int)address->variable->name.length, address->variable->name.at);
}

/* Parameters of calls lie in local memory; an entry's do not. */
static bool is_passed(const struct operand *address) {
    return address->kind == O_ADDRESS && address->variable && address->variable->passed;
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
    struct access_mods mods = read_mods(l, insn, false, 1);
    unsigned operands = 2 + mods.policy;
    if (mods.space == SPACE_PARAM && is_passed(&insn->operands[1])) mods.space = SPACE_LOCAL;
    if (insn->operand_count != operands || mods.order == ORDER_RELEASE || mods.order == ORDER_ACQ_REL)
        insn_fail(l, insn, "a load has %u operands and no release", operands);
    fill(op, &mods);
    encode_address(l, insn, &insn->operands[1], op);
    check_space(l, insn, &insn->operands[1], mods.space);
    encode_data(l, insn, &insn->operands[0], &mods, true, op);
    op->flags |= says_input(insn) ? F_INPUT : insn_has(insn, "nc") ? F_NC : 0;
    op->run = mods.space == SPACE_GENERIC                               ? op_load_generic
              : mods.space == SPACE_GLOBAL || mods.space == SPACE_CONST ? op_load_global
                                                                        : op_load_window;
}

/* st, and multimem.st (sub 1): a store through a multicast address, always global. */
void encode_store(struct loader *l, const struct insn *insn, struct op *op) {
    bool multimem = insn->form->sub == 1;
    struct access_mods mods = read_mods(l, insn, false, multimem ? 2 : 1);
    unsigned operands = 2 + mods.policy;
    if (multimem && (mods.space == SPACE_GENERIC || mods.space == SPACE_GLOBAL))
        mods.space = SPACE_GLOBAL;
    else if (multimem)
        unsupported(l, insn);
    if (mods.space == SPACE_PARAM && is_passed(&insn->operands[0])) mods.space = SPACE_LOCAL;
    if (insn->operand_count != operands || mods.order == ORDER_ACQUIRE || mods.order == ORDER_ACQ_REL ||
        mods.space == SPACE_CONST || mods.space == SPACE_PARAM)
        insn_fail(l, insn, "a store has %u operands, no acquire, and goes to global, shared or local memory", operands);
    fill(op, &mods);
    encode_address(l, insn, &insn->operands[0], op);
    check_space(l, insn, &insn->operands[0], mods.space);
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
} atomics[] = {{"add", ATOMIC_ADD, " u32 s32 u64 s64 f32 f64 f16 bf16 f16x2 bf16x2 "},
               {"min", ATOMIC_MIN, " u32 s32 u64 s64 f16 bf16 f16x2 bf16x2 "},
               {"max", ATOMIC_MAX, " u32 s32 u64 s64 f16 bf16 f16x2 bf16x2 "},
               {"and", ATOMIC_AND, " b32 b64 "},
               {"or", ATOMIC_OR, " b32 b64 "},
               {"xor", ATOMIC_XOR, " b32 b64 "},
               {"exch", ATOMIC_EXCH, " b32 b64 b128 u32 u64 s32 s64 "},
               {"cas", ATOMIC_CAS, " b16 b32 b64 b128 u32 u64 s32 s64 "},
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
    struct access_mods mods = read_mods(l, insn, true, 1);
    bool result = insn->form->sub != 0, found = false;
    for (size_t i = 0; i < sizeof atomics / sizeof atomics[0]; i++)
        if (text_is(mods.operation, atomics[i].name) && listed(atomics[i].types, mods.type)) {
            op->sub = (u8)atomics[i].op;
            found = true;
        }
    bool exchange = op->sub == ATOMIC_EXCH || op->sub == ATOMIC_CAS;
    if (!found || mods.count != 1 || mods.space == SPACE_LOCAL || mods.space == SPACE_PARAM ||
        mods.space == SPACE_CONST || (exchange && !result))
        unsupported(l, insn);
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
    char letter = type.kind == REG_BITS  ? bit_letters[size]
                  : type.kind == REG_INT ? int_letters[size]
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
    fill(op, &mods);
    if (mods.order == ORDER_WEAK) op->order = ORDER_RELAXED;
    encode_address(l, insn, &insn->operands[result], op);
    check_space(l, insn, &insn->operands[result], mods.space);
    op->bytes = (u8)(op->width / 8);
}

/* ---- fences ---- */
void encode_fence(struct loader *l, const struct insn *insn, struct op *op) {
    op->order = text_is(insn->modifiers[0], "membar") ? ORDER_SC : ORDER_ACQ_REL;
    op->scope = SCOPE_GPU;
    if (insn->operand_count) insn_fail(l, insn, "a fence has no operands");
    for (unsigned i = 1; i < insn->modifier_count; i++) {
        struct text m = insn->modifiers[i];
        if (text_is(m, "mbarrier_init") || text_is(m, "sync_restrict::shared::cluster") ||
            text_is(m, "sync_restrict::shared::cta"))
            continue;
        bool found = false;
        for (size_t j = 0; j < sizeof effects / sizeof effects[0]; j++) {
            if (!text_is(m, effects[j].name) ||
                (effects[j].effect != EFFECT_ORDER && effects[j].effect != EFFECT_SCOPE))
                continue;
            found = true;
            *(effects[j].effect == EFFECT_ORDER ? &op->order : &op->scope) = effects[j].value;
        }
        if (!found) unsupported(l, insn);
    }
}

void encode_prefetch(struct loader *l, const struct insn *insn, struct op *op) {
    if (insn->operand_count != 1) insn_fail(l, insn, "one address is expected");
    op->space = insn_has(insn, "global") ? SPACE_GLOBAL : insn_has(insn, "local") ? SPACE_LOCAL : SPACE_GENERIC;
    encode_address(l, insn, &insn->operands[0], op);
    check_space(l, insn, &insn->operands[0], op->space);
}

/* A cache policy is any number here: accesses that carry one ignore it. */
void encode_policy(struct loader *l, const struct insn *insn, struct op *op) {
    const char *want = operand_mismatch(l, insn, &insn->operands[0], 'l');
    if (want || insn->operands[0].kind != O_REG) insn_fail(l, insn, "a 64-bit register for the policy is expected");
    op->d = encode_operand(l, insn, &insn->operands[0], 64, false);
    op->a = encode_constant(l, 0, 64);
    op->run = lanes_best()[L_mov_l];
}
