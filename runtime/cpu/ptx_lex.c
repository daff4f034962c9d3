/* ptx_lex.c - PTX text to tokens: one at a time, in loader->token.
 * Owns comments, numbers, names and line counting; knows nothing of directives or opcodes. */
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/ptx.h>

static bool is_name_start(char c) {
    return isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static bool is_name(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* In comments, too: ptxas ends at them. */
void lex_check_bytes(struct loader *l) {
    for (const char *c = l->source; *c; c++)
        if ((unsigned char)*c > 127)
            load_fail(l, line_of(l, c), "byte 0x%02X is not PTX: only ASCII is", (unsigned)(unsigned char)*c);
}

static const char *skip_spaces(const char *at) {
    while (*at == ' ' || *at == '\t')
        at++;
    return at;
}

/* The end of a line as preprocessors write it, # 5 "a.cu" 1 3 or #line 5 "a.cu", from its # on; NULL: it is none. */
static const char *line_marker(const char *at) {
    at = skip_spaces(at + 1);
    if (strncmp(at, "line", 4) == 0) at = skip_spaces(at + 4);
    if (!isdigit((unsigned char)*at)) return NULL;
    while (isdigit((unsigned char)*at))
        at++;
    const char *name = skip_spaces(at);
    if (name == at || *name != '"') return NULL;
    at = name + 1 + strcspn(name + 1, "\"\n");
    if (*at++ != '"') return NULL;
    while (skip_spaces(at) != at && isdigit((unsigned char)*skip_spaces(at)))
        at = skip_spaces(at) + 1;
    at = skip_spaces(at);
    return *at == '\n' ? at : NULL;
}

static void skip_blank(struct loader *l) {
    for (;;) {
        char c = *l->at;
        if (c == '\n') {
            l->line++;
            l->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\x1a') {
            l->at++;
        } else if (c == '#' && line_marker(l->at)) {
            l->at = line_marker(l->at);
        } else if (c == '/' && l->at[1] == '/') {
            while (*l->at && *l->at != '\n')
                l->at++;
        } else if (c == '/' && l->at[1] == '*') {
            u32 begin = l->line;
            for (l->at += 2; !(l->at[0] == '*' && l->at[1] == '/'); l->at++) {
                if (!*l->at) load_fail(l, begin, "comment without an end");
                l->line += *l->at == '\n';
            }
            l->at += 2;
        } else {
            return;
        }
    }
}

static u64 hex_bits(struct loader *l, unsigned digits) {
    u64 value = 0;
    for (unsigned i = 0; i < digits; i++, l->at++) {
        if (!isxdigit((unsigned char)*l->at))
            load_fail(l, l->line, "a float constant of %u hexadecimal digits is expected", digits);
        char c = *l->at;
        unsigned digit = (unsigned)(isdigit((unsigned char)c) ? c - '0' : (c | 32) - 'a' + 10);
        value = value << 4 | digit;
    }
    return value;
}

static bool is_exponent(const char *at) {
    if (*at != 'e' && *at != 'E') return false;
    return isdigit((unsigned char)at[1]) || ((at[1] == '-' || at[1] == '+') && isdigit((unsigned char)at[2]));
}

/* 1.5, 1., .5, with an exponent or without; 1e5. A point is the number's, whatever follows it: `4.b32` is none. */
static bool is_decimal_float(const char *at) {
    while (isdigit((unsigned char)*at))
        at++;
    return *at == '.' || is_exponent(at);
}

static u64 decimal_float(struct loader *l) {
    char *end;
    u64 bits;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* a decimal point in every locale */
    if (!plain) load_fail(l, l->line, "out of memory");
    errno = 0;
    double value = strtod_l(l->at, &end, plain);
    freelocale(plain);
    if (errno == ERANGE) load_fail(l, l->line, "float constant beyond the range of f64");
    l->at = end;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void lex_number(struct loader *l) {
    struct token *t = &l->token;
    const char *begin = l->at;
    char second = (char)(begin[0] == '0' ? begin[1] | 32 : 0);
    if (second == 'f' || second == 'd') {
        l->at += 2;
        t->kind = second == 'f' ? T_F32 : T_F64;
        t->bits = hex_bits(l, second == 'f' ? 8 : 16);
    } else if (second != 'x' && second != 'b' && is_decimal_float(begin)) {
        t->kind = T_F64;
        t->bits = decimal_float(l);
    } else {
        unsigned base = second == 'x' ? 16 : second == 'b' ? 2 : begin[0] == '0' ? 8 : 10;
        l->at += base == 16 || base == 2 ? 2 : 0;
        const char *digits = l->at;
        u64 value = 0;
        for (;; l->at++) {
            char c = *l->at;
            unsigned digit = isdigit((unsigned char)c)   ? (unsigned)(c - '0')
                             : isalpha((unsigned char)c) ? (unsigned)(c | 32) - 'a' + 10
                                                         : 99;
            if (digit >= base) break;
            if (value > (UINT64_MAX - digit) / base) load_fail(l, l->line, "integer constant beyond 64 bits");
            value = value * base + digit;
        }
        if (l->at == digits) load_fail(l, l->line, "malformed integer constant");
        if (*l->at == 'U') l->at++;
        t->kind = T_INTEGER;
        t->bits = value;
    }
    if (is_name(*l->at)) load_fail(l, l->line, "malformed number: `%.*s`", (int)(l->at + 1 - begin), begin);
}

void lex_next(struct loader *l) {
    l->behind = l->token.line;
    skip_blank(l);
    struct token *t = &l->token;
    const char *begin = l->at;
    *t = (struct token){.line = l->line, .text = {begin, 0}};
    char c = *begin;
    if (!c) {
        t->kind = T_END;
        return;
    }
    if (c == '%' && !is_name(begin[1])) { /* the operator */
        t->kind = T_PUNCT;
        t->punct = c;
        l->at++;
    } else if (is_name_start(c)) {
        t->kind = T_NAME;
        l->at++;
        while (is_name(*l->at) || (c == '%' && *l->at == '.' && is_name_start(l->at[1])))
            l->at++;
    } else if (c == '.' && is_name_start(begin[1])) {
        l->at++;
        while (is_name(*l->at))
            l->at++;
        t->kind = T_DOT;
        t->text.at++;
        t->text.length = (u32)(l->at - t->text.at);
        return;
    } else if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)begin[1]))) {
        lex_number(l);
    } else if (c == '"') {
        for (l->at++; *l->at != '"'; l->at++) {
            if (!*l->at) load_fail(l, t->line, "string without an end");
            l->line += *l->at == '\n';
        }
        l->at++;
        t->kind = T_STRING;
    } else if ((unsigned char)c >= 127 || (unsigned char)c < 32) {
        load_fail(l, l->line, "byte 0x%02X is not PTX: only ASCII is", (unsigned)(unsigned char)c);
    } else {
        t->kind = T_PUNCT;
        t->punct = c;
        l->at++;
        char d = *l->at;
        bool two = (d == c && strchr("&|=<>", c)) || (d == '=' && strchr("!<>", c));
        if (two) {
            t->second = d;
            l->at++;
        }
    }
    t->text.length = (u32)(l->at - begin);
}

void lex_opcode(struct loader *l) {
    for (;;) {
        if (*l->at == '.' && (is_name(l->at[1])))
            l->at++;
        else if (l->at[0] == ':' && l->at[1] == ':' && is_name(l->at[2]))
            l->at += 2;
        else
            break;
        while (is_name(*l->at))
            l->at++;
    }
    l->token.text.length = (u32)(l->at - l->token.text.at);
}

bool lex_behind_is(struct loader *l, char c) {
    const char *at = l->at;
    u32 line = l->line;
    skip_blank(l);
    bool is = *l->at == c;
    l->at = at;
    l->line = line;
    return is;
}

void lex_skip_line(struct loader *l) {
    while (*l->at && *l->at != '\n')
        l->at++;
    lex_next(l);
}

bool text_is(struct text text, const char *literal) {
    return strlen(literal) == text.length && memcmp(text.at, literal, text.length) == 0;
}

bool text_same(struct text a, struct text b) { /* a text of no bytes may be nowhere */
    return a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0);
}

u32 text_hash(struct text text) {
    u32 hash = 2166136261u;
    for (u32 i = 0; i < text.length; i++)
        hash = (hash ^ (unsigned char)text.at[i]) * 16777619u;
    return hash ^ hash >> 15;
}

bool lex_punct(struct loader *l, char c) {
    if (l->token.kind != T_PUNCT || l->token.punct != c || l->token.second) return false;
    lex_next(l);
    return true;
}

struct text shown(const struct loader *l) {
    return (struct text){l->token.text.at, l->token.text.length < 40 ? l->token.text.length : 40};
}

void lex_unexpected(struct loader *l, const char *what) {
    const struct token *t = &l->token;
    bool dot = t->kind == T_DOT; /* the text of a directive begins behind it */
    if (t->kind == T_END) load_fail(l, t->line, "%s is expected before the end", what);
    load_fail(l, t->line, "%s is expected before `%s%.*s`", what, dot ? "." : "", (int)shown(l).length, shown(l).at);
}

void lex_expect(struct loader *l, char c) {
    const char what[] = {'`', c, '`', 0};
    if (!lex_punct(l, c)) lex_unexpected(l, what);
}

bool lex_at_dot(const struct loader *l, const char *name) {
    return l->token.kind == T_DOT && text_is(l->token.text, name);
}

bool lex_at_name(const struct loader *l) {
    return l->token.kind == T_NAME && !text_is(l->token.text, "WARP_SZ");
}

bool lex_dot(struct loader *l, const char *name) {
    if (!lex_at_dot(l, name)) return false;
    lex_next(l);
    return true;
}
