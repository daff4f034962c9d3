/* ptx_constant.c - constant expressions: of initialisers, offsets and operands.
 * Integers have 64 bits and are signed or not; floats are doubles, in which ptxas knows signs, + - * / and comparisons;
 * 0f and its digits stand for 32 bits and are part of no expression. (PTX ISA, section "Constants")
 */
#include <math.h>
#include <string.h>
#include <runtime/cpu/ptx.h>

static bool is_float(struct constant c) {
    return c.kind == CONSTANT_F64 || c.kind == CONSTANT_F32;
}

static struct constant integer(u64 bits, bool is_unsigned, u32 line) {
    return (struct constant){.bits = bits, .line = line, .kind = is_unsigned ? CONSTANT_UNSIGNED : CONSTANT_SIGNED};
}

static struct constant want_integer(struct loader *l, struct constant c) {
    if (is_float(c)) load_fail(l, c.line, "an integer is expected in a constant expression, and a float is given");
    return c;
}

static struct constant want_expression(struct loader *l, struct constant c) {
    if (c.kind == CONSTANT_F32)
        load_fail(l, c.line, "0f and its digits are part of no expression: write 0d or decimal");
    return c;
}

/* ---- one operand ---- */
static struct constant unary(struct loader *l);

static bool is_sign(const struct token *t) {
    return t->kind == T_PUNCT && !t->second && strchr("+-!~", t->punct);
}

static struct constant after_sign(struct loader *l) {
    const struct token sign = l->token;
    lex_next(l);
    if (l->token.kind == T_F32)
        load_fail(l, l->token.line, "`%.*s` takes no sign: its bits have one", (int)l->token.text.length,
                  l->token.text.at);
    struct constant c = want_expression(l, unary(l));
    switch (sign.punct) {
    case '-':
        c.bits = c.kind == CONSTANT_F64 ? c.bits ^ 1ull << 63 : 0 - c.bits;
        return c;
    case '!':
        return integer(!want_integer(l, c).bits, false, sign.line);
    case '~':
        return integer(~want_integer(l, c).bits, true, sign.line);
    default:
        return c;
    }
}

/* Behind "(.": of which type, the `)`, and what it is of. */
static struct constant after_cast(struct loader *l) {
    const u32 line = l->token.line;
    bool is_unsigned = lex_dot(l, "u64");
    if (!is_unsigned && !lex_dot(l, "s64")) lex_unexpected(l, "`.s64` or `.u64`");
    lex_expect(l, ')');
    return integer(want_integer(l, unary(l)).bits, is_unsigned, line);
}

static struct constant literal(struct loader *l) {
    const struct token t = l->token;
    struct constant c = {.bits = t.bits, .line = t.line};
    if (t.kind == T_INTEGER)
        c.kind = t.bits >> 63 || t.text.at[t.text.length - 1] == 'U' ? CONSTANT_UNSIGNED : CONSTANT_SIGNED;
    else if (t.kind == T_F32 || t.kind == T_F64)
        c.kind = t.kind == T_F32 ? CONSTANT_F32 : CONSTANT_F64;
    else if (t.kind == T_NAME && text_is(t.text, "WARP_SZ"))
        c.bits = WARP;
    else
        lex_unexpected(l, "a constant");
    lex_next(l);
    return c;
}

static struct constant unary(struct loader *l) {
    struct constant c;
    if (++l->depth > 200) load_fail(l, l->token.line, "constant expression nested too deep");
    if (is_sign(&l->token)) {
        c = after_sign(l);
    } else if (!lex_punct(l, '(')) {
        c = literal(l);
    } else if (l->token.kind == T_DOT) {
        c = after_cast(l);
    } else {
        c = constant_any(l);
        lex_expect(l, ')');
    }
    l->depth--;
    return c;
}

/* ---- two operands ---- */
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

/* Of two NaNs, ptxas leaves the right one in sums and products. */
static struct constant apply_floats(struct loader *l, const struct token *op, struct constant left,
                                    struct constant right) {
    double a, b;
    memcpy(&a, &left.bits, sizeof a);
    memcpy(&b, &right.bits, sizeof b);
    switch (op->second && strchr("<>&|", op->second) ? 0 : op->punct) { /* << >> && || are for integers */
    case '<':
        return integer(op->second ? a <= b : a < b, false, op->line);
    case '>':
        return integer(op->second ? a >= b : a > b, false, op->line);
    case '=':
        return integer(a == b, false, op->line);
    case '!':
        return integer(a != b, false, op->line);
    case '+':
        a = isnan(b) ? b + b : a + b;
        break;
    case '-':
        a -= b;
        break;
    case '*':
        a = isnan(b) ? b + b : a * b;
        break;
    case '/':
        if (b == 0) load_fail(l, op->line, "division by zero in a constant expression");
        a /= b;
        break;
    default:
        want_integer(l, left);
    }
    memcpy(&left.bits, &a, sizeof a);
    return left;
}

/* Remainders are of unsigned numbers; the most negative one by -1 stays what it is. */
static struct constant divide(struct loader *l, const struct token *op, u64 a, u64 b, bool is_unsigned) {
    if (b == 0)
        load_fail(l, op->line, "division by zero in a constant expression");
    else if (op->punct == '%')
        return integer(a % b, true, op->line);
    else if (is_unsigned)
        return integer(a / b, true, op->line);
    else
        return integer(b == UINT64_MAX ? 0 - a : (u64)((s64)a / (s64)b), false, op->line);
}

static bool is_less(u64 a, u64 b, bool is_unsigned) {
    return is_unsigned ? a < b : (s64)a < (s64)b;
}

/* Unsigned where one operand is, and a remainder always; a shift is of its left operand's type, by its right one modulo
 * 64; what is true or false is signed. */
static struct constant apply_integers(struct loader *l, const struct token *op, struct constant left,
                                      struct constant right) {
    const u64 a = left.bits, b = right.bits;
    const bool unsigned_left = left.kind == CONSTANT_UNSIGNED;
    const bool is_unsigned = unsigned_left || right.kind == CONSTANT_UNSIGNED;
    switch (op->punct) {
    case '*':
        return integer(a * b, is_unsigned, op->line);
    case '+':
        return integer(a + b, is_unsigned, op->line);
    case '-':
        return integer(a - b, is_unsigned, op->line);
    case '^':
        return integer(a ^ b, is_unsigned, op->line);
    case '/':
    case '%':
        return divide(l, op, a, b, is_unsigned);
    case '<':
        if (op->second == '<') return integer(a << (b & 63), unsigned_left, op->line);
        return integer(op->second ? !is_less(b, a, is_unsigned) : is_less(a, b, is_unsigned), false, op->line);
    case '>':
        if (op->second == '>')
            return integer(unsigned_left ? a >> (b & 63) : (u64)((s64)a >> (b & 63)), unsigned_left, op->line);
        return integer(op->second ? !is_less(a, b, is_unsigned) : is_less(b, a, is_unsigned), false, op->line);
    case '=':
        return integer(a == b, false, op->line);
    case '!':
        return integer(a != b, false, op->line);
    case '&':
        return op->second ? integer(a && b, false, op->line) : integer(a & b, is_unsigned, op->line);
    default:
        return op->second ? integer(a || b, false, op->line) : integer(a | b, is_unsigned, op->line);
    }
}

static struct constant apply(struct loader *l, const struct token *op, struct constant left, struct constant right) {
    want_expression(l, left);
    want_expression(l, right);
    if (is_float(left) != is_float(right))
        load_fail(l, op->line, "an integer and a float in a constant expression: both are one of them");
    return is_float(left) ? apply_floats(l, op, left, right) : apply_integers(l, op, left, right);
}

static struct constant binary(struct loader *l, int least) {
    struct constant left = unary(l);
    for (;;) {
        struct token op = l->token;
        int level = strength(&op);
        if (!level || level < least) return left;
        lex_next(l);
        left = apply(l, &op, left, binary(l, level + 1));
    }
}

/* Of integers; it is of the type of the one that is chosen. */
struct constant constant_any(struct loader *l) {
    struct constant c = binary(l, 1);
    if (!lex_punct(l, '?')) return c;
    want_integer(l, c);
    if (++l->depth > 200) load_fail(l, l->token.line, "constant expression nested too deep");
    struct constant yes = want_integer(l, constant_any(l));
    lex_expect(l, ':');
    struct constant no = want_integer(l, constant_any(l));
    l->depth--;
    return c.bits ? yes : no;
}

s64 constant_integer(struct loader *l) {
    return (s64)want_integer(l, constant_any(l)).bits;
}
