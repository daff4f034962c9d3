/* ptx_operand.c - the operands of one instruction: registers, constants, addresses, vectors, labels.
 * Names are resolved here, so that nested scopes need no memory of their names later. */
#include <runtime/cpu/ptx.h>

/* within: a vector, where a variable's name takes no offset */
static void parse_name(struct loader *l, struct insn *insn, struct operand *o, bool within) {
    struct token t = l->token;
    u32 vreg;
    lex_next(l);
    if (text_is(t.text, "_")) {
        o->kind = O_DISCARD;
        return;
    }
    if (text_is(t.text, "WARP_SZ")) {
        o->kind = O_INTEGER;
        o->bits = WARP;
        return;
    }
    if (symbol_reg(l, t.text, &vreg)) {
        o->kind = O_REG;
        o->reg = vreg;
        return;
    }
    int special = t.text.at[0] == '%' ? special_named(t.text) : -1;
    if (special >= 0) {
        o->kind = O_SPECIAL;
        o->special = (u8)special;
        return;
    }
    int vector = t.text.at[0] == '%' ? special_vector(t.text) : -1;
    struct symbol *s = symbol_find(l, t.text);
    if (!s && vector >= 0) {
        o->kind = O_SPECIAL_VECTOR;
        o->special = (u8)vector;
        return;
    }
    if (s && s->kind == SYMBOL_VARIABLE) {
        o->kind = O_VARIABLE;
        o->variable = s->variable;
        o->variable->user = l->function;
        o->sum = !within && lex_punct(l, '+');
        if (o->sum) o->bits = (u64)constant_integer(l);
        return;
    }
    if (s && s->kind == SYMBOL_TARGETS) {
        o->kind = O_TARGETS;
        o->targets = s->targets;
        return;
    }
    bool branches = text_is(insn->opcode, "bra") || text_is(insn->opcode, "bra.uni");
    if (s && s->kind == SYMBOL_LABEL && !branches)
        insn_fail(l, insn, "`%.*s` is a label: only bra goes to one", (int)t.text.length, t.text.at);
    if (special_foreign(t.text))
        insn_fail(l, insn, "the special register `%.*s` is not supported", (int)t.text.length, t.text.at);
    if (t.text.at[0] == '%')
        insn_fail(l, insn, "`%.*s` is neither a declared register nor a known special register", (int)t.text.length,
                  t.text.at);
    if (branches) {
        o->kind = O_LABEL;
        o->label = label_use(l, t.text, t.line);
        return;
    }
    if (function_known(l, t.text))
        insn_fail(l, insn, "the address of function `%.*s`: calls through pointers are not supported",
                  (int)t.text.length, t.text.at);
    insn_fail(l, insn, "`%.*s` is not declared", (int)t.text.length, t.text.at);
}

/* name[5]: the address of an element. It stands for a name, and for the address of ld and st. */
static void parse_index(struct loader *l, struct insn *insn, struct operand *o) {
    const struct text root = insn->modifiers[0];
    const struct variable *v = o->variable;
    const bool open = v->external || v->open; /* ptxas counts the elements of such an array as bytes */
    if (!v->array || (!v->bytes && !open))
        insn_fail(l, insn, "`%.*s` is no array with a size: an offset is written [%.*s+4]", (int)v->name.length,
                  v->name.at, (int)v->name.length, v->name.at);
    if (lex_at_name(l))
        insn_fail(l, insn, "the index of `%.*s` is a constant: add a register to the address instead",
                  (int)v->name.length, v->name.at);
    o->bits = (u64)constant_integer(l) * (open ? 1 : v->element);
    lex_expect(l, ']');
    unsigned address = text_is(root, "st") ? 0 : text_is(root, "ld") || text_is(root, "ldu") ? 1 : MAX_OPERANDS;
    if (o == &insn->operands[address]) o->kind = O_ADDRESS;
}

static void parse_operand(struct loader *l, struct insn *insn, struct operand *o, bool within);
static void parse_vector(struct loader *l, struct insn *insn, struct operand *o);

/* [base + offset], and [tensor map, {coordinates}] */
static void parse_address(struct loader *l, struct insn *insn, struct operand *o) {
    o->kind = O_ADDRESS;
    if (lex_at_name(l)) {
        struct operand base = {0};
        parse_name(l, insn, &base, false);
        if (base.kind == O_REG) {
            o->has_reg = true;
            o->reg = base.reg;
        } else if (base.kind == O_VARIABLE) {
            o->variable = base.variable;
            o->bits = base.bits;
        } else {
            insn_fail(l, insn, "an address is a register, a variable or a constant, with an offset");
        }
        if (lex_punct(l, '+')) o->bits += (u64)constant_integer(l);
    } else {
        o->bits = (u64)constant_integer(l);
    }
    if (lex_punct(l, ',')) {
        if (o->bits) insn_fail(l, insn, "the address of a tensor map has no offset");
        lex_expect(l, '{');
        parse_vector(l, insn, o);
    }
    lex_expect(l, ']');
}

/* The items, after the opening brace. */
static void parse_vector(struct loader *l, struct insn *insn, struct operand *o) {
    bool wgmma = insn->opcode.length > 5 && text_is((struct text){insn->opcode.at, 5}, "wgmma");
    unsigned most = wgmma ? 128 : 16;
    o->items = load_take(l, most * sizeof *o->items);
    do {
        if (o->count == most) insn_fail(l, insn, "a vector has at most %u elements", most);
        parse_operand(l, insn, &o->items[o->count++], true);
    } while (lex_punct(l, ','));
    lex_expect(l, '}');
}

static void parse_constant(struct loader *l, struct operand *o) {
    static const u8 kinds[] = {
        [CONSTANT_SIGNED] = O_INTEGER, [CONSTANT_UNSIGNED] = O_INTEGER, [CONSTANT_F32] = O_F32, [CONSTANT_F64] = O_F64};
    struct constant c = constant_any(l);
    o->kind = (enum operand_kind)kinds[c.kind];
    o->bits = c.bits;
}

/* `!p`; `!5` and `!WARP_SZ` are constants. */
static bool negates_name(struct loader *l) {
    if (l->token.kind != T_PUNCT || l->token.punct != '!' || l->token.second) return false;
    const struct token not = l->token;
    const char *at = l->at;
    const u32 line = l->line, behind = l->behind;
    lex_next(l);
    const bool name = lex_at_name(l);
    l->token = not ;
    l->at = at;
    l->line = line;
    l->behind = behind;
    return name;
}

static void parse_operand(struct loader *l, struct insn *insn, struct operand *o, bool within) {
    if (lex_at_name(l)) {
        parse_name(l, insn, o, within);
        if (!within && o->kind == O_VARIABLE && !o->sum && lex_punct(l, '[')) parse_index(l, insn, o);
    } else if (negates_name(l)) {
        lex_next(l);
        parse_name(l, insn, o, within);
        o->negated = true;
    } else if (!within && lex_punct(l, '[')) {
        parse_address(l, insn, o);
    } else if (!within && lex_punct(l, '{')) {
        o->kind = O_VECTOR;
        parse_vector(l, insn, o);
    } else {
        parse_constant(l, o);
    }
    if (!within && lex_punct(l, '|')) {
        o->paired = load_take(l, sizeof *o->paired);
        if (l->token.kind != T_NAME) insn_fail(l, insn, "a predicate is expected after `|`");
        parse_name(l, insn, o->paired, true);
    }
}

void parse_argument(struct loader *l, struct insn *insn, struct operand *o) {
    parse_operand(l, insn, o, true);
}

void parse_operands(struct loader *l, struct insn *insn) {
    if (l->token.kind == T_END || (l->token.kind == T_PUNCT && (l->token.punct == ';' || l->token.punct == '}')))
        return;
    do {
        if (insn->operand_count == MAX_OPERANDS) insn_fail(l, insn, "more than %d operands", MAX_OPERANDS);
        parse_operand(l, insn, &insn->operands[insn->operand_count++], false);
    } while (lex_punct(l, ','));
}
