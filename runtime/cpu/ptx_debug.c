/* ptx_debug.c - directives that say where code comes from: read, checked as ptxas checks them, and without effect here.
 * What .loc says of inlined code refers to other lines of the text, and is checked when the module has been read:
 * bodies of functions are read out of the text's order. (PTX ISA, section "Debugging Directives") */
#include <ctype.h>
#include <string.h>
#include <runtime/cpu/ptx.h>

/* ---- what has been seen ---- */
enum mark_kind { MARK_FILE, MARK_LABEL, MARK_POSITION };
struct mark {
    struct mark *next;
    enum mark_kind kind;
    struct text name; /* MARK_LABEL */
    u32 numbers[3];   /* MARK_FILE, MARK_POSITION */
    const char *at;   /* the first */
};
/* .loc of inlined code: where it was inlined, and the label of its function's name. */
struct inlined {
    const struct inlined *next;
    struct mark position, label;
};
enum { MARK_BUCKETS = 1 << 14 };
struct debug {
    struct mark *buckets[MARK_BUCKETS];
    const struct inlined *inlined;
};

static struct mark **bucket_of(struct loader *l, const struct mark *m) {
    if (!l->debug) l->debug = load_take(l, sizeof *l->debug);
    u32 hash = (u32)m->kind * 31;
    for (unsigned i = 0; i < 3; i++)
        hash = (hash ^ m->numbers[i]) * 2654435761u;
    hash ^= text_hash(m->name);
    return &l->debug->buckets[(hash ^ hash >> 15) % MARK_BUCKETS];
}

static struct mark *mark_find(struct loader *l, const struct mark *wanted) {
    for (struct mark *m = *bucket_of(l, wanted); m; m = m->next)
        if (m->kind == wanted->kind && text_same(m->name, wanted->name) &&
            memcmp(m->numbers, wanted->numbers, sizeof m->numbers) == 0)
            return m;
    return NULL;
}

static void mark_add(struct loader *l, const struct mark *wanted) {
    struct mark *m = load_take(l, sizeof *m), **bucket = bucket_of(l, wanted);
    *m = *wanted;
    m->next = *bucket;
    *bucket = m;
}

/* ---- .loc and .file ---- */
static void expect_name(struct loader *l, const char *name) {
    if (l->token.kind != T_NAME || !text_is(l->token.text, name)) lex_unexpected(l, name);
    lex_next(l);
}

/* File, line, column. */
static struct mark parse_position(struct loader *l) {
    struct mark position = {.kind = MARK_POSITION, .at = l->token.text.at};
    for (unsigned i = 0; i < 3; i++)
        position.numbers[i] = (u32)number_of(l, ".loc", 0, UINT32_MAX);
    return position;
}

/* `at`: of its .loc. */
static void parse_inlined(struct loader *l, const char *at) {
    struct inlined *inlined = load_take(l, sizeof *inlined);
    expect_name(l, "function_name");
    inlined->label = (struct mark){.kind = MARK_LABEL, .at = l->token.text.at, .name = parse_identifier(l)};
    if (lex_punct(l, '+')) number_of(l, ".loc", 0, UINT64_MAX);
    lex_expect(l, ',');
    expect_name(l, "inlined_at");
    inlined->position = parse_position(l);
    inlined->position.at = at;
    inlined->next = l->debug->inlined;
    l->debug->inlined = inlined;
}

bool parse_loc(struct loader *l) {
    if (!lex_dot(l, "loc")) return false;
    struct mark position = parse_position(l), *known = mark_find(l, &position);
    if (!known)
        mark_add(l, &position);
    else if (position.at < known->at)
        known->at = position.at;
    if (lex_punct(l, ',')) parse_inlined(l, position.at);
    return true;
}

static void parse_file(struct loader *l) {
    struct mark file = {.kind = MARK_FILE, .at = l->token.text.at};
    file.numbers[0] = (u32)number_of(l, ".file", 0, UINT32_MAX);
    if (mark_find(l, &file)) load_fail(l, l->behind, ".file %u is there already", file.numbers[0]);
    mark_add(l, &file);
    if (l->token.kind != T_STRING) lex_unexpected(l, "the name of a file in quotes");
    lex_next(l);
    for (unsigned i = 0; i < 2 && lex_punct(l, ','); i++) /* when it was written, how long it is */
        number_of(l, ".file", 0, UINT64_MAX);
}

void debug_check(struct loader *l) {
    for (const struct inlined *i = l->debug ? l->debug->inlined : NULL; i; i = i->next) {
        const u32 *numbers = i->position.numbers;
        const struct mark *m = mark_find(l, &i->position);
        if (!m || m->at >= i->position.at)
            load_fail(l, line_of(l, i->position.at), "inlined_at %u %u %u: no .loc before it says that", numbers[0],
                      numbers[1], numbers[2]);
        if (!mark_find(l, &i->label))
            load_fail(l, line_of(l, i->label.at), "function_name `%.*s` is the label of no section",
                      (int)(i->label.name.length < 40 ? i->label.name.length : 40), i->label.name.at);
    }
}

/* ---- .section ---- */
/* Signed or unsigned, it has room in 8 or 16 bits; negative ones in 32 and 64, too. There is no -0 for ptxas. */
static void check_number(struct loader *l, bool minus, unsigned bits) {
    const u64 number = l->token.bits;
    if (minus ? number == 0 || number > 1ull << (bits - 1) || number >> 63 : bits < 32 && number >= 1ull << bits)
        load_fail(l, l->token.line, "%s%llu has no room in .b%u", minus ? "-" : "", (unsigned long long)number, bits);
}

/* .debug_str; no word that PTX has in front of a declaration. */
static bool at_section_name(const struct loader *l) {
    static const char *const words[] = {"reg",     "global", "shared", "const",  "local", "param",   "file", "section",
                                        "loc",     "pragma", "entry",  "func",   "align", "version", "ptr",  "target",
                                        "visible", "extern", "weak",   "common", "alias", "v2",      "v4"};
    if (l->token.kind != T_DOT || !isalpha((unsigned char)l->token.text.at[0])) return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (text_is(l->token.text, words[i])) return false;
    return !type_named(l->token.text).valid;
}

/* One number of a list. */
static void parse_number(struct loader *l, unsigned bits) {
    bool minus = lex_punct(l, '-');
    if (l->token.kind != T_INTEGER) lex_unexpected(l, "a number");
    check_number(l, minus, bits);
    lex_next(l);
}

/* A name, less another or with an offset; a section, with an offset. */
static void parse_reference(struct loader *l, unsigned bits) {
    if (bits < 32)
        load_fail(l, l->token.line, "the address `%.*s` has no room in .b%u", (int)shown(l).length, shown(l).at, bits);
    lex_next(l);
    if (lex_punct(l, '-'))
        parse_identifier(l);
    else if (lex_punct(l, '+'))
        number_of(l, "an offset of", 0, UINT64_MAX);
}

static void parse_list(struct loader *l, unsigned bits) {
    bool minus = l->token.kind == T_PUNCT && l->token.punct == '-';
    if (at_section_name(l) || lex_at_name(l)) {
        parse_reference(l, bits);
        return;
    }
    if (l->token.kind != T_INTEGER && !minus) lex_unexpected(l, "a number, a name or a section");
    do
        parse_number(l, bits);
    while (lex_punct(l, ','));
}

static void parse_data(struct loader *l) {
    static const char *const types[] = {"b8", "b16", "b32", "b64"};
    for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (!lex_dot(l, types[i])) continue;
        parse_list(l, 8u << i);
        return;
    }
    lex_unexpected(l, "a label, `.b8`, `.b16`, `.b32`, `.b64` or `}`");
}

static void parse_section_label(struct loader *l) {
    const struct mark label = {.kind = MARK_LABEL, .at = l->token.text.at, .name = l->token.text};
    if (text_is(label.name, "_")) lex_unexpected(l, "a label");
    lex_next(l);
    lex_expect(l, ':');
    if (mark_find(l, &label))
        load_fail(l, l->behind, "label `%.*s` is in a section already",
                  (int)(label.name.length < 40 ? label.name.length : 40), label.name.at);
    mark_add(l, &label);
}

static void parse_section(struct loader *l) {
    u32 line = l->behind;
    if (!at_section_name(l)) lex_unexpected(l, "the name of a section");
    lex_next(l);
    lex_expect(l, '{');
    while (!lex_punct(l, '}')) {
        if (l->token.kind == T_END) load_fail(l, line, ".section without an end");
        if (l->token.kind == T_NAME)
            parse_section_label(l);
        else
            parse_data(l);
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
        return parse_pragma(l, PRAGMA_MODULE);
    return true;
}
