/* ptx_constant.c - integer constant expressions: of initialisers, offsets and operands; and floats with their signs.
 * Unsigned and signed constants are both 64 bits wide here; division and shifts to the right are signed. */
#include <string.h>
#include <runtime/cpu/ptx.h>

static s64 unary(struct loader *l) {
    struct token t = l->token;
    if (++l->depth > 200) load_fail(l, t.line, "constant expression nested too deep");
    s64 value;
    if (lex_punct(l, '-')) {
        value = (s64)(0 - (u64)unary(l));
    } else if (lex_punct(l, '+')) {
        value = unary(l);
    } else if (lex_punct(l, '!')) {
        value = !unary(l);
    } else if (lex_punct(l, '~')) {
        value = ~unary(l);
    } else if (lex_punct(l, '(')) {
        if (l->token.kind == T_DOT) { /* (.s64) and (.u64) casts */
            lex_next(l);
            lex_expect(l, ')');
            value = unary(l);
        } else {
            value = constant_integer(l);
            lex_expect(l, ')');
        }
    } else if (t.kind == T_INTEGER) {
        lex_next(l);
        value = (s64)t.bits;
    } else if (t.kind == T_NAME && text_is(t.text, "WARP_SZ")) {
        lex_next(l);
        value = WARP;
    } else {
        lex_unexpected(l, "an integer constant");
    }
    l->depth--;
    return value;
}

/* Binding strength of the binary operator at hand, 0 when it is none. */
static int strength(const struct token *t) {
    static const struct {
        char first, second;
        int strength;
    } table[] = {{'*', 0, 10},  {'/', 0, 10}, {'%', 0, 10}, {'+', 0, 9},   {'-', 0, 9},   {'<', '<', 8},
                 {'>', '>', 8}, {'<', 0, 7},  {'>', 0, 7},  {'<', '=', 7}, {'>', '=', 7}, {'=', '=', 6},
                 {'!', '=', 6}, {'&', 0, 5},  {'^', 0, 4},  {'|', 0, 3},   {'&', '&', 2}, {'|', '|', 1}};
    if (t->kind == T_PUNCT)
        for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
            if (table[i].first == t->punct && table[i].second == t->second) return table[i].strength;
    return 0;
}

static s64 apply(struct loader *l, const struct token *op, s64 a, s64 b) {
    u64 ua = (u64)a, ub = (u64)b;
    switch (op->punct) {
    case '*':
        return (s64)(ua * ub);
    case '+':
        return (s64)(ua + ub);
    case '-':
        return (s64)(ua - ub);
    case '^':
        return a ^ b;
    case '/':
    case '%':
        if (b == 0) load_fail(l, op->line, "division by zero in a constant expression");
        if (b == -1) return op->punct == '/' ? (s64)(0 - ua) : 0;
        return op->punct == '/' ? a / b : a % b;
    case '<':
        return op->second == '<' ? (s64)(ub < 64 ? ua << ub : 0) : op->second == '=' ? a <= b : a < b;
    case '>':
        return op->second == '>' ? (a >> (ub < 63 ? ub : 63)) : op->second == '=' ? a >= b : a > b;
    case '=':
        return a == b;
    case '!':
        return a != b;
    case '&':
        return op->second ? (a && b) : (a & b);
    default:
        return op->second ? (a || b) : (a | b);
    }
}

static s64 binary(struct loader *l, int least) {
    s64 left = unary(l);
    for (;;) {
        struct token op = l->token;
        int level = strength(&op);
        if (!level || level < least) return left;
        lex_next(l);
        left = apply(l, &op, left, binary(l, level + 1));
    }
}

s64 constant_integer(struct loader *l) {
    s64 value = binary(l, 1);
    if (lex_punct(l, '?')) {
        if (++l->depth > 200) load_fail(l, l->token.line, "constant expression nested too deep");
        s64 yes = constant_integer(l);
        lex_expect(l, ':');
        s64 no = constant_integer(l);
        l->depth--;
        return value ? yes : no;
    }
    return value;
}

bool constant_float(struct loader *l, struct token *out) {
    const struct token first = l->token;
    const char *at = l->at;
    const u32 line = l->line, behind = l->behind;
    bool minus = false, sign = false;
    for (; l->token.kind == T_PUNCT && !l->token.second && strchr("+-", l->token.punct); lex_next(l)) {
        minus ^= l->token.punct == '-';
        sign = true;
    }
    *out = l->token;
    if (out->kind != T_F32 && out->kind != T_F64) { /* an integer's expression begins with its signs */
        l->token = first;
        l->at = at;
        l->line = line;
        l->behind = behind;
        return false;
    }
    if (sign && out->kind == T_F32)
        load_fail(l, out->line, "`%.*s` takes no sign: its bits have one", (int)out->text.length, out->text.at);
    if (minus) out->bits ^= 1ull << 63;
    lex_next(l);
    return true;
}
