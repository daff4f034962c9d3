/* ptx_encode_mma.c - the encoder of mma.sync: shapes, types and register counts that exist. */
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/ptx.h>

static const struct {
    const char *name;
    u8 kind, least_k, most_k;
} types[] = {{"f16", N_F16, 8, 16}, {"bf16", N_BF16, 8, 16},    {"tf32", N_TF32, 4, 8},    {"s8", N_S8, 16, 32},
             {"u8", N_U8, 16, 32},  {"e4m3", N_E4M3X2, 32, 32}, {"e5m2", N_E5M2X2, 32, 32}};

static int type_index(struct text name) {
    for (int i = 0; i < (int)(sizeof types / sizeof types[0]); i++)
        if (text_is(name, types[i].name)) return i;
    return -1;
}

static int result_kind(struct text name) {
    return text_is(name, "f32") ? N_F32 : text_is(name, "f16") ? N_F16 : text_is(name, "s32") ? N_S32 : -1;
}

/* A vector of `count` registers of the letter's kind, appended to parts. */
static unsigned take_vector(struct loader *l, const struct insn *insn, unsigned index, unsigned count, char letter,
                            u32 *parts) {
    const struct operand *items = fragment(l, insn, index, count);
    for (unsigned i = 0; i < count; i++) {
        const char *want = operand_mismatch(l, insn, &items[i], letter);
        if (want || (index == 0 && items[i].kind != O_REG && items[i].kind != O_DISCARD))
            insn_fail(l, insn, "register %u of operand %u: %s is expected", i + 1, index + 1,
                      want ? want : "a register");
        parts[i] = encode_operand(l, insn, &items[i], 32, false);
    }
    return count;
}

void encode_mma(struct loader *l, const struct insn *insn, struct op *op) {
    const struct text *m = insn->modifiers;
    unsigned n = insn->modifier_count, saturates = insn_has(insn, "satfinite");
    unsigned k = 0;
    static const struct {
        const char *name;
        unsigned k;
    } shapes[] = {{"m16n8k4", 4}, {"m16n8k8", 8}, {"m16n8k16", 16}, {"m16n8k32", 32}};
    for (unsigned i = 0; n > 3 && i < 4; i++)
        if (text_is(m[3], shapes[i].name)) k = shapes[i].k;
    bool known = k && n == 10 + saturates && text_is(m[4], "row") && text_is(m[5], "col") &&
                 (!saturates || text_is(m[6], "satfinite"));
    int d = known ? result_kind(m[n - 4]) : -1, a = known ? type_index(m[n - 3]) : -1,
        b = known ? type_index(m[n - 2]) : -1;
    int c = known ? result_kind(m[n - 1]) : -1;
    known = known && d >= 0 && a >= 0 && b >= 0 && c >= 0 && k >= types[a].least_k && k <= types[a].most_k &&
            types[b].least_k == types[a].least_k && types[b].most_k == types[a].most_k;
    bool integers = known && types[a].kind <= N_S8;
    if (known && a != b && !integers && types[a].kind < N_E4M3X2) known = false;
    bool halves = known && types[a].kind == N_F16;
    bool eight = known && types[a].kind >= N_E4M3X2;
    if (known &&
        (integers ? d != N_S32 || c != N_S32
                  : d == N_S32 || c == N_S32 || saturates || ((d == N_F16 || c == N_F16) && !halves && !eight)))
        known = false;
    if (!known) insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
    if (insn->operand_count != 4) insn_fail(l, insn, "four operands are expected: d, a, b, c");
    unsigned per = types[a].kind == N_TF32                             ? 1
                   : types[a].kind == N_F16 || types[a].kind == N_BF16 ? 2
                                                                       : 4,
             groups = k / (4 * per);
    u32 parts[16];
    unsigned count = 0, results = d == N_F16 ? 2 : 4, addends = c == N_F16 ? 2 : 4;
    char d_letter = d == N_F32   ? 'f'
                    : d == N_S32 ? 'v'
                                 : 'y',
         c_letter = c == N_F32   ? 'f'
                    : c == N_S32 ? 'v'
                                 : 'y',
         letter = halves              ? 'y'
                  : integers || eight ? 'W'
                                      : 'z';
    count += take_vector(l, insn, 0, results, d_letter, parts + count);
    count += take_vector(l, insn, 1, 2 * groups, letter, parts + count);
    count += take_vector(l, insn, 2, groups, letter, parts + count);
    count += take_vector(l, insn, 3, addends, c_letter, parts + count);
    op->extra = encode_extra(l, parts, count);
    op->kind = SYNC_WARP; /* op_sync looks there: the types go elsewhere */
    op->sub = types[b].kind;
    op->order = types[a].kind;
    op->bytes = (u8)k;
    op->count = (u8)results;
    op->width = (u8)d;
    op->space = (u8)c;
}
