/* ptx_form.c - finds the form of an instruction: opcode text against the patterns of the .def tables, then operand
 * types. An instruction that no row describes is refused here, by name. */
#include <stdio.h>
#include <string.h>
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/exec_wgmma.h>
#include <runtime/cpu/ptx.h>

#define SINGLE1 "H"
#define SINGLE2 "HH"
#define SINGLE3 "HHH"
#define PACKED1 "x"
#define PACKED2 "xx"
#define PACKED3 "xxx"

/* Rows of ops_*.def become forms in table order: the first whose pattern and operands fit is taken. */
static const struct form forms[] = {
#define LANE_ROW(name, pattern, sig) {pattern, sig, encode_default, L_##name, 0, NULL, NULL},
#include <runtime/cpu/lane_forms.h>
#undef LANE_ROW
#define HALF_FORM(pattern, sig, run) {pattern, sig, encode_default, -1, 0, run, NULL},
#define HALF(name, f16_pattern, bf16_pattern, inputs, value)                                                           \
    HALF_FORM(f16_pattern ".f16", "H:" SINGLE##inputs, name##_f16)                                                     \
    HALF_FORM(bf16_pattern ".bf16", "H:" SINGLE##inputs, name##_bf16)                                                  \
    HALF_FORM(f16_pattern ".f16x2", "x:" PACKED##inputs, name##_f16x2)                                                 \
    HALF_FORM(bf16_pattern ".bf16x2", "x:" PACKED##inputs, name##_bf16x2)
#define HALF_COMPARE(name, value)
#include <runtime/cpu/ops_half.def>
#undef HALF
#undef HALF_COMPARE
#define X(pattern, sig, encode, run, sub) {pattern, sig, encode, -1, sub, run, NULL},
#define XS(pattern, sig, encode, sync, sub) {pattern, sig, encode, -1, sub, op_sync, sync},
#include <runtime/cpu/ops_special.def>
#undef X
#undef XS
};

static const struct {
    const char *name;
    u32 flag;
} flag_rows[] = {{"ftz", F_FTZ},         {"sat", F_SAT},         {"satfinite", F_SATFINITE},
                 {"relu", F_RELU},       {"NaN", F_NAN},         {"xorsign", F_ABS_XOR},
                 {"rz", F_RZ},           {"rm", F_RM},           {"rp", F_RP},
                 {"rna", F_RNA},         {"rni", F_RINT},        {"rzi", F_RINT | F_RZ},
                 {"rmi", F_RINT | F_RM}, {"rpi", F_RINT | F_RP}, {"trans", F_TRANS}};

static bool same(struct text modifier, const char *name, size_t length) {
    return modifier.length == length && memcmp(modifier.at, name, length) == 0;
}

/* One of a|b|c up to the closing bracket at `end`; each may hold several modifiers: "xorsign.abs". Returns how many it
 * took, 0 none. */
static unsigned alternative(const struct insn *insn, unsigned at, const char *p, const char *end) {
    while (p < end) {
        unsigned taken = 0;
        bool fits = true;
        const char *stop = p;
        while (stop < end && *stop != '|')
            stop++;
        for (const char *part = p; part < stop;) {
            part += *part == '.';
            size_t length = strcspn(part, ".|)}");
            fits = fits && at + taken < insn->modifier_count && same(insn->modifiers[at + taken], part, length);
            taken++;
            part += length;
        }
        if (fits) return taken;
        p = stop + 1;
    }
    return 0;
}

static bool pattern_fits(const struct insn *insn, const char *p) {
    size_t length = strcspn(p, ".{(*");
    if (!same(insn->modifiers[0], p, length)) return false;
    unsigned at = 1;
    for (p += length; *p;) {
        if (*p == '*') return true;
        if (*p == '.') {
            length = strcspn(++p, ".{(*");
            if (at == insn->modifier_count || !same(insn->modifiers[at], p, length)) return false;
            at++;
            p += length;
            continue;
        }
        const char *end = strchr(p, *p == '{' ? '}' : ')');
        unsigned taken = alternative(insn, at, p + 1, end);
        if (!taken && *p == '(') return false;
        at += taken;
        p = end + 1;
    }
    return at == insn->modifier_count;
}

bool insn_has(const struct insn *insn, const char *modifier) {
    for (unsigned i = 1; i < insn->modifier_count; i++)
        if (text_is(insn->modifiers[i], modifier)) return true;
    return false;
}

/* Of their own width; of some the low half, which older PTX read. */
static bool special_fits(unsigned special, unsigned bits) {
    unsigned own = special_rows[special].bits;
    return bits == own || (bits == 16 && special <= S_nctaid_w) || (bits == 32 && special == S_gridid);
}

/* What is particular about the operands of some instructions. */
enum trait {
    TYPED = 1, /* registers and constants suit the type, where others look at their width alone */
    SINK = 2,  /* the result may be left out */
    PAIR = 4   /* there are two results, a|b */
};
static const struct {
    const char *name;
    u8 traits;
} traits[] = {{"selp", TYPED},        {"slct", TYPED},        {"shr", TYPED}, {"setp", PAIR | SINK},
              {"match", PAIR | SINK}, {"elect", PAIR | SINK}, {"shfl", PAIR}, {"mbarrier", SINK},
              {"atom", SINK},         {"lop3", SINK}};

/* match has two results with .all, and mbarrier one that may be left out with arrivals. */
static bool is_a(const struct insn *insn, enum trait trait) {
    const struct text name = insn->modifiers[0];
    if (text_is(name, "match") && !insn_has(insn, "all")) return false;
    if (text_is(name, "mbarrier") && !insn_has(insn, "arrive") && !insn_has(insn, "arrive_drop")) return false;
    for (size_t i = 0; i < sizeof traits / sizeof traits[0]; i++)
        if (text_is(name, traits[i].name)) return (traits[i].traits & trait) != 0;
    return false;
}

/* The type of the data: the last modifier, of slct that before it. */
static struct text data_type(const struct insn *insn) {
    return last_modifier(insn, text_is(insn->modifiers[0], "slct"));
}

/* Where integers and floats may stand, a float constant is no integer, and among bits has their width. */
static bool constant_amiss(const struct insn *insn, const struct operand *o, unsigned bits) {
    struct type type = type_named(data_type(insn));
    if (type.valid && type.kind == REG_FLOAT) return false;
    return (type.valid && type.kind == REG_INT) || bits != (o->kind == O_F32 ? 32u : 64u);
}

/* The registers of a vector have one kind: integers, floats or .f16x2, and bits beside them. One of them is there. */
static const char *vector_mismatch(const struct loader *l, const struct operand *o) {
    unsigned kinds = 0, sinks = 0;
    for (unsigned i = 0; i < o->count; i++) {
        const struct operand *item = &o->items[i];
        const struct vreg *v = item->kind == O_REG ? &l->function->vregs[item->reg] : NULL;
        sinks += item->kind == O_DISCARD;
        if (v && v->halves)
            kinds |= 1;
        else if (item->kind == O_INTEGER || (v && v->kind == REG_INT))
            kinds |= 2;
        else if (item->kind == O_F32 || item->kind == O_F64 || (v && v->kind == REG_FLOAT))
            kinds |= 4;
    }
    if (kinds & (kinds - 1)) return "registers of one vector are integers, floats or .f16x2, and bits beside them";
    return sinks == o->count ? "a register is expected among the sinks" : NULL;
}

/* What a row whose encoder checks the operands leaves to say of all of them: outputs are registers, `_` is one, `a|b`
 * stands where there are two results. */
static bool places_fit(const struct loader *l, const struct insn *insn, char *why, size_t capacity) {
    struct text name = insn->modifiers[0];
    bool pairs = is_a(insn, PAIR);
    for (unsigned i = 0; i < insn->operand_count; i++) {
        const struct operand *o = &insn->operands[i];
        bool written = i < insn->outputs, vector = o->kind == O_VECTOR, sink = o->kind == O_DISCARD;
        if (written && ((o->kind != O_REG && !vector && !sink) || o->negated)) {
            snprintf(why, capacity, "operand %u is written and must be a register", i + 1);
            return false;
        }
        if (written && sink && !is_a(insn, SINK)) {
            snprintf(why, capacity, "operand %u: `_` stands for no result of this instruction", i + 1);
            return false;
        }
        const char *mixed = vector ? vector_mismatch(l, o) : NULL;
        if (mixed) {
            snprintf(why, capacity, "operand %u: %s", i + 1, mixed);
            return false;
        }
        if (o->paired && o->paired->kind == O_DISCARD && (sink || text_is(name, "elect"))) {
            snprintf(why, capacity, "operand %u: a predicate is expected behind `|`", i + 1);
            return false;
        }
        for (unsigned j = 0; j < o->count && vector && !sink; j++)
            sink = o->items[j].kind == O_DISCARD;
        if (!written && sink) {
            snprintf(why, capacity, "operand %u: `_` stands for a register that is written", i + 1);
            return false;
        }
        if (o->paired && (!pairs || i)) {
            snprintf(why, capacity, "operand %u: `|` joins two results, and the instruction has one", i + 1);
            return false;
        }
    }
    return true;
}

/* An integer constant where floats are moved. */
static bool moves_floats(const struct insn *insn, char letter) {
    return is_a(insn, TYPED) && strchr("WL", letter) && type_named(data_type(insn)).kind == REG_FLOAT;
}

static bool packed_halves(const struct insn *insn, char letter) {
    static const char *const names[] = {"f16x2", "bf16x2", "u16x2", "s16x2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && letter == 'x'; i++)
        if (text_is(last_modifier(insn, 0), names[i]) || insn_has(insn, names[i])) return true;
    return false;
}

/* What a register of the right width is declared as, where a letter alone does not tell. */
static bool declared_amiss(const struct insn *insn, struct vreg v, char letter) {
    struct text type = data_type(insn);
    char class = type.at[0];
    bool typed = is_a(insn, TYPED) && strchr("WLB", letter);
    if (v.halves) return strchr("fzv", letter) || text_is(type, "bf16x2") || (typed && class == 'f');
    if (v.kind == REG_BITS) return false;
    if (letter == 'H' && text_is(type, "bf16")) return true;
    if (packed_halves(insn, letter)) return v.kind == REG_INT;
    return typed && (v.kind == REG_FLOAT ? class != 'b' && class != 'f' : class == 'f');
}

/* NULL when the operand suits the letter of a signature, else why not. */
const char *operand_mismatch(const struct loader *l, const struct insn *insn, const struct operand *o, char letter) {
    static const struct {
        char letter;
        u8 bits;
        bool integer, floating;
        const char *want;
    } letters[] = {{'h', 16, true, false, "a 16-bit integer"}, {'H', 16, false, true, "a 16-bit float or .b16"},
                   {'B', 16, true, true, "a 16-bit value"},    {'w', 32, true, false, "a 32-bit integer"},
                   {'W', 32, true, true, "a 32-bit value"},    {'x', 32, true, false, "a packed 32-bit value"},
                   {'f', 32, false, true, "an f32"},           {'l', 64, true, false, "a 64-bit integer"},
                   {'L', 64, true, true, "a 64-bit value"},    {'d', 64, false, true, "an f64"},
                   {'p', 1, false, false, "a predicate"},      {'i', 0, true, false, "an integer constant"},
                   {'q', 128, true, true, "a 128-bit value"},  {'y', 32, false, false, "a .b32 or .f16x2"},
                   {'z', 32, false, false, "a .b32"},          {'v', 32, true, false, "a 32-bit integer"}};
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        if (letters[i].letter != letter) continue;
        const char *want = letters[i].want;
        if (o->negated && letter != 'p' && o->kind != O_REG) return "a value without `!`";
        switch (o->kind) {
        case O_REG: {
            struct vreg v = l->function->vregs[o->reg];
            if (letter == 'p') return v.kind == REG_PRED ? NULL : want;
            if (o->negated) return "a value without `!`";
            if (v.bits != letters[i].bits || v.kind == REG_PRED || declared_amiss(insn, v, letter)) return want;
            return v.kind == REG_BITS || (v.kind == REG_INT ? letters[i].integer : letters[i].floating) ? NULL : want;
        }
        case O_INTEGER:
            if (letter == 'y' || letter == 'z') return NULL;
            return (letters[i].integer && !packed_halves(insn, letter) && !moves_floats(insn, letter)) || letter == 'p'
                       ? NULL
                       : want;
        case O_F32:
        case O_F64:
            if (letters[i].integer && constant_amiss(insn, o, letters[i].bits)) return want;
            return letters[i].floating && letters[i].bits >= 32 ? NULL : want;
        case O_SPECIAL:
            if (letter == 'p' && special_rows[o->special].bits != 1) return want;
            if (!text_is(insn->modifiers[0], "mov")) return "a register (mov reads special registers)";
            return (letters[i].integer || letter == 'p') && special_fits(o->special, letters[i].bits) ? NULL : want;
        case O_VARIABLE:
            return letter == 'l' || letter == 'L' ||
                           ((letter == 'w' || letter == 'W') && o->variable->space != SPACE_GLOBAL &&
                            o->variable->space != SPACE_CONST)
                       ? NULL
                       : want;
        case O_DISCARD:
            return NULL;
        default:
            return want;
        }
    }
    return "an operand";
}

/* Counts outputs; false and *why when operands do not fit. */
static bool operands_fit(const struct loader *l, struct insn *insn, const char *sig, char *why, size_t capacity) {
    insn->outputs = 0;
    if (*sig >= '0' && *sig <= '9') {
        insn->outputs = (unsigned)(*sig - '0');
        if (insn->outputs <= insn->operand_count) return places_fit(l, insn, why, capacity);
        snprintf(why, capacity, "at least %u operand%s expected, not %u", insn->outputs,
                 insn->outputs == 1 ? " is" : "s are", insn->operand_count);
        return false;
    }
    unsigned count = 0;
    for (const char *s = sig; *s; s++) {
        if (*s == ':') {
            insn->outputs = count;
            continue;
        }
        if (count == insn->operand_count) {
            snprintf(why, capacity, "operand %u is missing", count + 1);
            return false;
        }
        const char *want = operand_mismatch(l, insn, &insn->operands[count++], *s);
        if (want) {
            snprintf(why, capacity, "operand %u does not suit the instruction's type: %s is expected", count, want);
            return false;
        }
    }
    if (count != insn->operand_count) {
        snprintf(why, capacity, "%u operands are expected, not %u", count, insn->operand_count);
        return false;
    }
    return places_fit(l, insn, why, capacity);
}

/* The first form whose pattern fits this opcode text, remembered by the text. */
static unsigned first_form(struct loader *l, const struct insn *insn) {
    enum { COUNT = sizeof forms / sizeof forms[0] };
    u32 hash = insn->opcode.length;
    for (u32 i = 0; i < insn->opcode.length; i++)
        hash = hash * 31 + (unsigned char)insn->opcode.at[i];
    struct form_memory *memory = &l->memory[hash % FORM_MEMORY];
    if (memory->opcode.at && text_same(memory->opcode, insn->opcode)) return memory->first;
    unsigned first = 0;
    while (first < COUNT && !pattern_fits(insn, forms[first].pattern))
        first++;
    *memory = (struct form_memory){insn->opcode, first};
    return first;
}

static bool takes_names(const struct insn *insn) {
    const struct text root = insn->modifiers[0];
    if (text_is(root, "cvta")) return insn->modifier_count < 2 || !text_is(insn->modifiers[1], "to");
    if (text_is(root, "getctarank")) return insn_has(insn, "shared::cluster");
    return text_is(root, "mov") || text_is(root, "mapa");
}

/* A variable's name alone is an operand of few instructions: its address comes into a register first. (A sum of a name
 * and a constant is a constant to ptxas.) */
static void check_variables(struct loader *l, const struct insn *insn, const struct operand *o, unsigned number,
                            bool within) {
    for (unsigned i = 0; i < o->count; i++)
        check_variables(l, insn, &o->items[i], number, true);
    if (o->kind != O_VARIABLE) return;
    const struct text name = o->variable->name;
    bool taken = !within && number == 2 && takes_names(insn);
    if (!taken && !o->sum)
        insn_fail(l, insn, "operand %u: mov brings the address of `%.*s` into a register", number, (int)name.length,
                  name.at);
    if (taken && o->variable->passing)
        insn_fail(l, insn, "operand %u: `%.*s`, the parameter of a call, has no address", number, (int)name.length,
                  name.at);
}

void form_choose(struct loader *l, struct insn *insn) {
    enum { COUNT = sizeof forms / sizeof forms[0] };
    char why[160] = "";
    for (unsigned i = 1; i < insn->modifier_count; i++)
        for (size_t j = 0; j < sizeof flag_rows / sizeof flag_rows[0]; j++)
            if (text_is(insn->modifiers[i], flag_rows[j].name)) insn->flags |= flag_rows[j].flag;
    for (unsigned i = first_form(l, insn); i < COUNT; i++) {
        if (!pattern_fits(insn, forms[i].pattern)) continue;
        if (!operands_fit(l, insn, forms[i].sig, why, sizeof why)) continue;
        insn->form = &forms[i];
        for (unsigned k = 0; k < insn->operand_count; k++)
            check_variables(l, insn, &insn->operands[k], k + 1, false);
        if (forms[i].encode == encode_branch && (insn->operand_count != 1 || insn->operands[0].kind != O_LABEL))
            insn_fail(l, insn, "a label is expected"); /* control flow is read before anything is encoded */
        return;
    }
    if (*why) insn_fail(l, insn, "%s", why);
    bool known = false;
    for (unsigned i = 0; i < COUNT && !known; i++)
        known = same(insn->modifiers[0], forms[i].pattern, strcspn(forms[i].pattern, ".{(*"));
    insn_fail(l, insn, known ? "`%.*s` is not supported in this form" : "unknown instruction `%.*s`",
              (int)insn->opcode.length, insn->opcode.at);
}
