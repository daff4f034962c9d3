/* ptx_pragma.c - .pragma: checked as ptxas checks it, and without effect here but for "used_bytes_mask", which the
 * memory checker minds. Those that ptxas does not know have none there, either, within entries and functions; at module
 * level it refuses them. (PTX ISA, section ".pragma") */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/ptx.h>

enum argument { ARGUMENT_ANY, ARGUMENT_NUMBER, ARGUMENT_POSITIVE };
struct pragma {
    const char *name;
    unsigned version; /* that it came with */
    enum argument argument;
    bool entries; /* of entries alone */
};

static const struct pragma *pragma_named(struct text text) {
    static const struct pragma table[] = {{"used_bytes_mask", 803, ARGUMENT_NUMBER, false},
                                          {"enable_smem_spilling", 807, ARGUMENT_ANY, true},
                                          {"frequency", 900, ARGUMENT_POSITIVE, false}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        size_t length = strlen(table[i].name);
        if (text.length >= length && memcmp(text.at, table[i].name, length) == 0) return &table[i];
    }
    return NULL;
}

/* A number as in C; whether it is above 0. */
static bool is_number(struct text t, bool *positive) {
    u32 at = 0;
    *positive = false;
    while (at < t.length && isspace((unsigned char)t.at[at]))
        at++;
    bool minus = at < t.length && t.at[at] == '-';
    if (at < t.length && (t.at[at] == '-' || t.at[at] == '+')) at++;
    bool hex = at + 2 < t.length && t.at[at] == '0' && (t.at[at + 1] | 32) == 'x';
    bool octal = !hex && at < t.length && t.at[at] == '0';
    if (hex) at += 2;
    const u32 digits = at;
    for (; at < t.length; at++) {
        if (!(hex ? isxdigit((unsigned char)t.at[at]) : isdigit((unsigned char)t.at[at]))) return false;
        if (octal && t.at[at] > '7') return false;
        *positive |= !minus && t.at[at] != '0';
    }
    return at > digits;
}

/* At the string. */
static void check_pragma(struct loader *l, enum pragma_place place) {
    const u32 line = l->token.line;
    const struct text text = {l->token.text.at + 1, l->token.text.length - 2};
    const struct pragma *p = pragma_named(text);
    if (!p) {
        if (place == PRAGMA_MODULE && !text_is(text, "nounroll"))
            load_fail(l, line, "`.pragma %.*s`: unknown at module level", (int)shown(l).length, shown(l).at);
        return;
    }
    if (place != PRAGMA_BODY) load_fail(l, line, "pragma `%s` stands in bodies alone", p->name);
    if (l->version < p->version)
        load_fail(l, line, "pragma `%s` came with .version %u.%u", p->name, p->version / 100, p->version % 100);
    if (p->entries && (l->return_to || l->alone)) load_fail(l, line, "pragma `%s` is of entries alone", p->name);
    if (p->argument == ARGUMENT_ANY) return;
    bool positive;
    const u32 name = (u32)strlen(p->name) + 1;
    const struct text argument = {text.at + name, text.length > name ? text.length - name : 0};
    if (!is_number(argument, &positive) || (p->argument == ARGUMENT_POSITIVE && !positive))
        load_fail(l, line, "pragma `%s` has a number behind it%s, not `%.*s`", p->name,
                  p->argument == ARGUMENT_POSITIVE ? " from 1 on" : "",
                  (int)(argument.length < 40 ? argument.length : 40), argument.length ? argument.at : "");
    if (p->argument == ARGUMENT_NUMBER) l->unused_bytes = ~(u32)strtoull(argument.at, NULL, 0); /* a quote ends it */
}

bool parse_pragma(struct loader *l, enum pragma_place place) {
    if (!lex_dot(l, "pragma")) return false;
    do {
        if (l->token.kind != T_STRING) lex_unexpected(l, "a pragma in quotes");
        check_pragma(l, place);
        lex_next(l);
    } while (lex_punct(l, ','));
    lex_expect(l, ';');
    return true;
}
