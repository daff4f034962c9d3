/* ptx_module.c - the module level of PTX: its head, what an entry says of its launches, and the list of functions and
 * variables. As strict as ptxas, which holds that the head is written once and that nothing stands between a linkage
 * and what it is of. (PTX ISA, sections "PTX Module Directives", "Performance-Tuning Directives", "Linking Directives")
 */
#include <runtime/cpu/ptx.h>

/* ---- what an entry says of its launches ---- */
u64 number_of(struct loader *l, const char *what, u64 least, u64 most) {
    struct token t = l->token;
    if (t.kind == T_NAME && text_is(t.text, "WARP_SZ")) {
        t.kind = T_INTEGER;
        t.bits = WARP;
    }
    if (t.kind != T_INTEGER) lex_unexpected(l, "a number");
    if (t.bits < least || t.bits > most)
        load_fail(l, t.line, "%s %llu: %llu to %llu", what, (unsigned long long)t.bits, (unsigned long long)least,
                  (unsigned long long)most);
    lex_next(l);
    return t.bits;
}

/* One to three numbers; those that are not there are 1. Returns their product, at most `limit`. */
static unsigned dimensions_of(struct loader *l, const char *what, unsigned out[3], unsigned limit) {
    u64 product = 1;
    for (unsigned i = 0; i < 3; i++) {
        out[i] = i == 0 || lex_punct(l, ',') ? (u32)number_of(l, what, 1, UINT32_MAX) : 1;
        product = product * out[i] < limit ? product * out[i] : limit;
    }
    return (unsigned)product;
}

struct stated {
    bool maxntid, maxclusterrank;
};

static bool parse_one(struct loader *l, struct ptx_function *p, struct stated *stated) {
    unsigned ignored[3];
    if (lex_dot(l, "reqntid")) {
        p->max_threads = dimensions_of(l, ".reqntid", p->reqntid, CTA_THREADS);
    } else if (lex_dot(l, "maxntid")) {
        p->max_threads = dimensions_of(l, ".maxntid", ignored, CTA_THREADS);
        stated->maxntid = true;
    } else if (lex_dot(l, "maxnreg")) {
        u64 most = number_of(l, ".maxnreg", 1, UINT32_MAX);
        if (most <= 255) p->max_registers = (u32)most; /* a thread has no more: no bound */
    } else if (lex_dot(l, "minnctapersm")) {
        number_of(l, ".minnctapersm", 1, UINT32_MAX);
    } else if (lex_dot(l, "maxclusterrank")) {
        number_of(l, ".maxclusterrank", 0, UINT32_MAX);
        stated->maxclusterrank = true;
    } else if (lex_dot(l, "reqnctapercluster")) {
        dimensions_of(l, ".reqnctapercluster", p->reqcluster, UINT32_MAX);
    } else if (lex_dot(l, "explicitcluster")) {
        p->explicit_cluster = true;
    } else if (lex_dot(l, "blocksareclusters")) {
        load_fail(l, l->behind, ".blocksareclusters is not supported: state grids in CTAs");
    } else if (lex_dot(l, "maxnctapersm")) {
        load_fail(l, l->behind, ".maxnctapersm went with PTX 2.1: state .minnctapersm");
    } else {
        return parse_pragma(l, PRAGMA_ENTRY);
    }
    return true;
}

void parse_performance(struct loader *l, struct ptx_function *p) {
    struct stated stated = {0};
    while (parse_one(l, p, &stated)) {
        if (stated.maxntid && p->reqntid[0]) load_fail(l, l->behind, ".maxntid and .reqntid exclude each other");
        if (stated.maxclusterrank && p->reqcluster[0])
            load_fail(l, l->behind, ".maxclusterrank and .reqnctapercluster exclude each other");
    }
}

/* ---- the list ---- */
static enum linkage parse_linkage(struct loader *l) {
    static const struct {
        const char *name;
        enum linkage linkage;
    } table[] = {
        {"visible", LINKAGE_VISIBLE}, {"weak", LINKAGE_WEAK}, {"common", LINKAGE_COMMON}, {"extern", LINKAGE_EXTERN}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (lex_dot(l, table[i].name)) return table[i].linkage;
    return LINKAGE_NONE;
}

static void parse_item(struct loader *l) {
    enum linkage linkage = parse_linkage(l);
    if (linkage == LINKAGE_NONE && parse_debug(l)) return;
    if (linkage == LINKAGE_COMMON && !lex_at_dot(l, "global")) lex_unexpected(l, "`.global`, which .common is of,");
    if (lex_dot(l, "entry"))
        parse_entry(l, linkage == LINKAGE_EXTERN);
    else if (lex_dot(l, "func"))
        parse_device_function(l, linkage);
    else if (parse_space(l, linkage))
        return;
    else if (linkage != LINKAGE_NONE)
        lex_unexpected(l, "an entry, a function or a variable");
    else if (lex_at_dot(l, "version") || lex_at_dot(l, "target") || lex_at_dot(l, "address_size"))
        load_fail(l, l->token.line, "`.%.*s` stands once, in its place at the head of a module",
                  (int)l->token.text.length, l->token.text.at);
    else if (l->token.kind == T_DOT)
        load_fail(l, l->token.line, "directive `.%.*s` is not supported", (int)shown(l).length, shown(l).at);
    else
        lex_unexpected(l, "a directive");
}

void parse_module(struct loader *l) {
    parse_head(l);
    while (l->token.kind != T_END)
        parse_item(l);
    parse_waiting(l);
    functions_check(l);
    externals_check(l);
    debug_check(l);
}
