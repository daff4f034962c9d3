/* ptx_function.c - device functions (.func) at module level: where their bodies are, what they take and give, and that
 * all declarations of one agree. Calls are ptx_call.c's.
 * (PTX ISA, "Kernel and Function Directives: .func"; "Linking Directives") */
#include <string.h>
#include <runtime/cpu/ptx_function.h>

/* ---- where the bodies are ---- */
/* Over one character, string or comment; lines are counted. */
static const char *pass(const char *at, u32 *line) {
    char c = *at;
    if (c == '\n') (*line)++;
    if (c == '/' && at[1] == '/') return at + strcspn(at, "\n");
    if (c == '"') {
        size_t length = strcspn(at + 1, "\"\n");
        return at + 1 + length + (at[1 + length] == '"');
    }
    if (c != '/' || at[1] != '*') return at + 1;
    const char *end = strstr(at + 2, "*/");
    end = end ? end + 2 : at + strlen(at);
    for (; at < end; at++)
        *line += *at == '\n';
    return end;
}

/* Behind the declaration or the body that begins at `at`; *body: it was one; *ends: it has an end. */
static const char *pass_function(const char *at, u32 *line, bool *body, bool *ends) {
    unsigned depth = 0;
    *body = *ends = false;
    while (*at && !*ends) {
        *ends = *at == ';' && depth == 0;
        depth += *at == '{';
        *body |= *at == '{';
        if (*at == '}') *ends = depth-- <= 1;
        at = pass(at, line);
    }
    return at;
}

void move_to(struct loader *l, const char *at, u32 line) {
    l->at = at;
    l->line = line;
    lex_next(l);
}

/* Over "( ... )" if it is next. */
static void pass_list(struct loader *l) {
    if (!lex_punct(l, '(')) return;
    while (!lex_punct(l, ')')) {
        if (l->token.kind == T_END) load_fail(l, l->token.line, "`)` is missing at the end");
        lex_next(l);
    }
}

static u32 bucket_of(struct text name) {
    return text_hash(name) % FUNCTION_BUCKETS;
}

struct device_function *function_named(const struct loader *l, struct text name) {
    for (struct device_function *f = l->callees[bucket_of(name)]; f; f = f->next)
        if (text_same(f->name, name)) return f;
    return NULL;
}

bool function_known(const struct loader *l, struct text name) {
    return function_named(l, name) != NULL;
}

static struct text parse_name(struct loader *l) {
    pass_list(l);
    if (l->token.kind != T_NAME) load_fail(l, l->token.line, "the name of a function is expected behind .func");
    return l->token.text;
}

static void find_function(struct loader *l, const char *at, u32 line, bool body) {
    move_to(l, at, line);
    struct text name = parse_name(l);
    struct device_function *f = function_named(l, name);
    if (!f) {
        f = load_take(l, sizeof *f);
        *f = (struct device_function){.next = l->callees[bucket_of(name)], .name = name, .declared = at};
        l->callees[bucket_of(name)] = f;
    }
    if (!body) return;
    if (f->body) load_fail(l, l->token.line, "function `%.*s` has two bodies", (int)name.length, name.at);
    f->body = at;
    f->line = line;
}

void functions_find(struct loader *l) {
    const char *at = l->source;
    u32 line = 1;
    unsigned depth = 0;
    if (!strstr(at, ".func")) return;
    while (*at) {
        depth += *at == '{';
        depth -= *at == '}' && depth > 0;
        if (depth == 0 && strncmp(at, ".func", 5) == 0 && strchr(" \t\r\n(/", at[5])) {
            bool body, ends;
            u32 begin = line;
            const char *end = pass_function(at + 5, &line, &body, &ends);
            if (body || ends) find_function(l, at + 5, begin, body);
            at = end;
        } else {
            at = pass(at, &line);
        }
    }
    l->at = l->source;
    l->line = 1;
}

bool entry_waits(const struct loader *l, const char *at, u32 *line, const char **end) {
    bool body, ends, behind = false;
    for (unsigned i = 0; i < FUNCTION_BUCKETS && !behind; i++)
        for (const struct device_function *f = l->callees[i]; f; f = f->next)
            behind |= f->body > at;
    if (!behind) return false;
    *end = pass_function(at, line, &body, &ends);
    return body && ends && memmem(at, (size_t)(*end - at), "call", 4);
}

/* ---- what they take and give ---- */
static void parse_formals(struct loader *l, struct text name, bool results, struct formals *formals) {
    if (!lex_punct(l, '(') || lex_punct(l, ')')) return;
    do {
        bool in_register = lex_dot(l, "reg");
        if (!in_register && !lex_dot(l, "param")) lex_unexpected(l, "`.param`");
        if (formals->count == MAX_FORMALS)
            load_fail(l, l->behind, "`%.*s` has more than %d parameters", (int)name.length, name.at, MAX_FORMALS);
        struct variable *v = parse_formal(l, results ? PASSING_RESULT : PASSING_ARGUMENT);
        formals->at[formals->count++] = v;
        formals->in_registers |= in_register;
        if (v->open && (results || (l->token.kind == T_PUNCT && l->token.punct == ',')))
            load_fail(l, l->behind, "`%.*s` has no size: only the last argument of a function may have none",
                      (int)v->name.length, v->name.at);
    } while (lex_punct(l, ','));
    lex_expect(l, ')');
    if (results && formals->count > 1 && !formals->in_registers)
        load_fail(l, l->behind, "`%.*s` has %u results: a function gives one", (int)name.length, name.at,
                  formals->count);
}

struct signature *parse_signature(struct loader *l, struct text name) {
    struct signature *s = load_take(l, sizeof *s);
    s->name = name;
    s->line = l->token.line;
    parse_formals(l, name, true, &s->results);
    if (l->token.kind != T_NAME) lex_unexpected(l, "the name of the function");
    lex_next(l);
    parse_formals(l, name, false, &s->arguments);
    s->noreturn = lex_dot(l, "noreturn");
    if (s->noreturn && s->results.count)
        load_fail(l, l->behind, "`%.*s` is .noreturn and has a result", (int)name.length, name.at);
    return s;
}

/* ---- declarations of one function ---- */
/* NULL, or how they differ. */
static const char *formals_differ(const struct formals *a, const struct formals *b) {
    if (a->count != b->count) return "number of parameters";
    for (unsigned i = 0; i < a->count; i++) {
        const struct variable *v = a->at[i], *w = b->at[i];
        if (!text_same(v->type_name, w->type_name) || v->array != w->array || v->open != w->open ||
            v->bytes != w->bytes)
            return "type of a parameter";
        if (v->align != w->align) return "alignment of a parameter";
    }
    return a->in_registers != b->in_registers ? "kind of parameters" : NULL;
}

static void check_agreement(struct loader *l, const struct signature *first, const struct signature *again) {
    const char *what = formals_differ(&first->results, &again->results);
    if (!what) what = formals_differ(&first->arguments, &again->arguments);
    if (!what && first->noreturn != again->noreturn) what = ".noreturn";
    bool inherits =
        again->linkage == LINKAGE_NONE && (first->linkage == LINKAGE_VISIBLE || first->linkage == LINKAGE_WEAK);
    if (!what && first->linkage != again->linkage && !inherits) what = "linkage";
    if (what)
        load_fail(l, again->line, "`%.*s` is declared otherwise on line %u: the %s differs", (int)first->name.length,
                  first->name.at, first->line, what);
}

void expect_body(struct loader *l, const struct signature *s) {
    if (s->results.in_registers || s->arguments.in_registers)
        load_fail(l, s->line, "parameters of `%.*s` in registers are not supported: .param is expected",
                  (int)s->name.length, s->name.at);
    if (l->token.kind != T_DOT && (l->token.kind != T_PUNCT || l->token.punct != '{')) lex_unexpected(l, "`{`");
    if (l->token.kind == T_DOT)
        load_fail(l, l->token.line, "`.%.*s` is not supported before the body of `%.*s`", (int)shown(l).length,
                  shown(l).at, (int)s->name.length, s->name.at);
}

/* One more declaration of f. */
static void declare(struct loader *l, struct device_function *f, const struct signature *s) {
    if (f->defined) load_fail(l, s->line, "`%.*s` is declared again, behind its body", (int)s->name.length, s->name.at);
    if (f->signature) {
        check_agreement(l, f->signature, s);
    } else {
        symbol_add(l, s->name, SYMBOL_FUNCTION);
        f->signature = s;
    }
}

void parse_device_function(struct loader *l, enum linkage linkage) {
    bool body, ends;
    u32 begin = l->token.line, line = begin;
    const char *at = l->token.text.at, *end = pass_function(at, &line, &body, &ends);
    if (!ends) load_fail(l, begin, "`%c` is missing at the end of the function that begins here", body ? '}' : ';');
    struct text name = parse_name(l);
    move_to(l, at, begin);
    struct signature *s = parse_signature(l, name);
    s->linkage = linkage;
    struct device_function *f = function_named(l, name);
    if (f) {
        declare(l, f, s);
        f->defined = body;
    }
    if (f && body) {
        if (linkage == LINKAGE_EXTERN)
            load_fail(l, begin, "function `%.*s` is .extern and has a body", (int)name.length, name.at);
        expect_body(l, s);
        read_alone(l, f);
    } else if (l->token.kind != T_PUNCT || l->token.punct != ';') {
        lex_unexpected(l, "`;`");
    }
    move_to(l, end, line);
}

void functions_check(struct loader *l) {
    const struct device_function *missing = NULL; /* the first in the text */
    for (unsigned i = 0; i < FUNCTION_BUCKETS; i++)
        for (const struct device_function *f = l->callees[i]; f; f = f->next)
            if (f->signature && !f->body && f->signature->linkage != LINKAGE_EXTERN &&
                (!missing || f->declared < missing->declared))
                missing = f;
    if (missing)
        load_fail(l, missing->signature->line,
                  "function `%.*s` is declared and has no body in this PTX: linking is not supported",
                  (int)missing->name.length, missing->name.at);
}
