/* ptx_debug.c - directives that say where code comes from, and .pragma: read, and without effect here.
 * (PTX ISA, sections "Debugging Directives", "Miscellaneous Directives") */
#include <string.h>
#include <runtime/cpu/ptx.h>

bool parse_pragma(struct loader *l) {
    if (!lex_dot(l, "pragma")) return false;
    do {
        if (l->token.kind != T_STRING) lex_unexpected(l, "a pragma in quotes");
        lex_next(l);
    } while (lex_punct(l, ','));
    lex_expect(l, ';');
    return true;
}

static void expect_name(struct loader *l, const char *name) {
    if (l->token.kind != T_NAME || !text_is(l->token.text, name)) lex_unexpected(l, name);
    lex_next(l);
}

/* File, line, column. */
static void parse_position(struct loader *l) {
    for (unsigned i = 0; i < 3; i++)
        number_of(l, ".loc", 0, UINT32_MAX);
}

bool parse_loc(struct loader *l) {
    if (!lex_dot(l, "loc")) return false;
    parse_position(l);
    if (!lex_punct(l, ',')) return true;
    expect_name(l, "function_name");
    parse_identifier(l);
    if (lex_punct(l, '+')) number_of(l, ".loc", 0, UINT32_MAX);
    lex_expect(l, ',');
    expect_name(l, "inlined_at");
    parse_position(l);
    return true;
}

static void parse_file(struct loader *l) {
    number_of(l, ".file", 0, UINT32_MAX);
    if (l->token.kind != T_STRING) lex_unexpected(l, "the name of a file in quotes");
    lex_next(l);
    for (unsigned i = 0; i < 2 && lex_punct(l, ','); i++) /* when it was written, how long it is */
        number_of(l, ".file", 0, UINT64_MAX);
}

/* A number; a name, less another or with an offset; a section, with an offset. */
static void parse_datum(struct loader *l) {
    bool minus = lex_punct(l, '-'), named = l->token.kind == T_NAME || l->token.kind == T_DOT;
    if (l->token.kind != T_INTEGER && (minus || !named)) lex_unexpected(l, "a number, a name or a section");
    lex_next(l);
    if (!named) return;
    if (lex_punct(l, '-'))
        parse_identifier(l);
    else if (lex_punct(l, '+'))
        number_of(l, "an offset of", 0, UINT64_MAX);
}

static void parse_data(struct loader *l) {
    static const char *const types[] = {"b8", "b16", "b32", "b64"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (!lex_dot(l, types[i])) continue;
        do
            parse_datum(l);
        while (lex_punct(l, ','));
        return;
    }
    lex_unexpected(l, "a label, `.b8`, `.b16`, `.b32`, `.b64` or `}`");
}

static void parse_section(struct loader *l) {
    u32 line = l->behind;
    if (l->token.kind != T_DOT) lex_unexpected(l, "the name of a section");
    lex_next(l);
    lex_expect(l, '{');
    while (!lex_punct(l, '}')) {
        if (l->token.kind == T_END) load_fail(l, line, ".section without an end");
        if (l->token.kind == T_NAME) {
            lex_next(l);
            lex_expect(l, ':');
        } else {
            parse_data(l);
        }
    }
}

bool parse_debug(struct loader *l) {
    if (lex_dot(l, "file"))
        parse_file(l);
    else if (lex_dot(l, "section"))
        parse_section(l);
    else if (l->token.kind == T_PUNCT && l->token.punct == '@' && strncmp(l->at, "@DWARF", 6) == 0)
        lex_skip_line(l); /* how PTX before 2.0 had it */
    else
        return parse_pragma(l);
    return true;
}
