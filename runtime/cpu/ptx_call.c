/* ptx_call.c - device functions (.func): where their bodies are, and calls of them.
 * A call is the body, read again at that place in a scope of its own: what it runs, the lines of its faults and how
 * threads diverge are then those of any instruction. Parameters are variables in local memory that caller and callee
 * share. A function that calls itself, and a call through a pointer, are refused. */
#include <string.h>
#include <runtime/cpu/ptx.h>

enum { MAX_ACTUALS = 64, MAX_CALLS = 4096 };

struct device_function {
    struct device_function *next;
    struct text name;
    const char *at; /* behind ".func" */
    u32 line;
    bool active; /* a call of it is being read */
};

struct actuals {
    const struct variable *at[MAX_ACTUALS];
    unsigned count;
};

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

static void move_to(struct loader *l, const char *at, u32 line) {
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

static struct device_function *function_named(const struct loader *l, struct text name) {
    for (struct device_function *f = l->callees; f; f = f->next)
        if (text_same(f->name, name)) return f;
    return NULL;
}

static void add_function(struct loader *l, const char *at, u32 line) {
    struct device_function *f = load_take(l, sizeof *f);
    f->at = at;
    f->line = line;
    move_to(l, at, line);
    pass_list(l);
    f->name = l->token.text;
    if (l->token.kind != T_NAME) load_fail(l, l->token.line, "the name of a function is expected behind .func");
    if (function_named(l, f->name))
        load_fail(l, l->token.line, "function `%.*s` has two bodies", (int)f->name.length, f->name.at);
    f->next = l->callees;
    l->callees = f;
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
            if (body) add_function(l, at + 5, begin);
            at = end;
        } else {
            at = pass(at, &line);
        }
    }
    l->at = l->source;
    l->line = 1;
}

bool function_known(const struct loader *l, struct text name) {
    return function_named(l, name) != NULL;
}

/* ---- calls ---- */
/* The variables of "(a, b)", if that is next. */
static void parse_actuals(struct loader *l, const struct insn *insn, struct actuals *actuals) {
    actuals->count = 0;
    if (!lex_punct(l, '(') || lex_punct(l, ')')) return;
    do {
        const struct symbol *s = l->token.kind == T_NAME ? symbol_find(l, l->token.text) : NULL;
        if (!s || s->kind != SYMBOL_VARIABLE || !s->variable->passed)
            insn_fail(l, insn, "`%.*s` is no .param variable of the caller: only those are passed here",
                      (int)l->token.text.length, l->token.text.at);
        if (actuals->count == MAX_ACTUALS) insn_fail(l, insn, "more than %d parameters in a call", MAX_ACTUALS);
        actuals->at[actuals->count++] = s->variable;
        lex_next(l);
    } while (lex_punct(l, ','));
    lex_expect(l, ')');
}

/* The callee's own names for them; actuals NULL: a place for each, to read the callee alone. */
static void bind(struct loader *l, const struct insn *insn, struct text callee, const struct actuals *actuals,
                 const char *what) {
    unsigned count = 0;
    if (lex_punct(l, '(') && !lex_punct(l, ')')) {
        do {
            if (!lex_dot(l, "param"))
                load_fail(l, l->token.line, "parameters of `%.*s` in registers are not supported: .param is expected",
                          (int)callee.length, callee.at);
            struct variable *v = parse_formal(l, !actuals);
            if (actuals && count < actuals->count) {
                if (actuals->at[count]->bytes != v->bytes)
                    insn_fail(l, insn, "%s %u of `%.*s` has %llu bytes, not %llu", what, count + 1, (int)callee.length,
                              callee.at, (unsigned long long)v->bytes, (unsigned long long)actuals->at[count]->bytes);
                v->offset = actuals->at[count]->offset;
            }
            symbol_add(l, v->name, SYMBOL_VARIABLE)->variable = v;
            count++;
        } while (lex_punct(l, ','));
        lex_expect(l, ')');
    }
    if (actuals && count != actuals->count)
        insn_fail(l, insn, "`%.*s` has %u %s%s, not %u", (int)callee.length, callee.at, count, what,
                  count == 1 ? "" : "s", actuals->count);
}

/* The caller's names are not the callee's: its scopes, up to the module's or to those that are hidden already. */
static void hide(struct name_scope *scope, const struct name_scope *stop, bool hidden) {
    for (; scope->outer && scope != stop; scope = scope->outer)
        scope->hidden = hidden;
}

static void read_body(struct loader *l, const struct insn *insn, struct device_function *f,
                      const struct actuals *results, const struct actuals *arguments) {
    struct name_scope *caller = l->scope, *stop = l->caller;
    struct label *outer = l->return_to, *end = load_take(l, sizeof *end);
    const struct token token = l->token;
    const char *at = l->at;
    u32 line = l->line;
    u64 local = l->function->local_bytes;
    if (insn->guarded) add_branch(l, insn, insn->guard, !insn->guard_not, end);
    hide(caller, stop, true);
    l->caller = caller;
    scope_open(l);
    l->return_to = end;
    f->active = true;
    end->name = f->name;
    move_to(l, f->at, f->line);
    bind(l, insn, f->name, results, "result");
    lex_next(l); /* the name */
    bind(l, insn, f->name, arguments, "argument");
    lex_dot(l, "noreturn");
    if (l->token.kind != T_PUNCT || l->token.punct != '{')
        load_fail(l, l->token.line, "`.%.*s` is not supported before the body of `%.*s`", (int)shown(l).length,
                  shown(l).at, (int)f->name.length, f->name.at);
    parse_statement(l);
    const struct label *missing = l->scope->pending;
    if (missing)
        load_fail(l, missing->line, "label `%.*s` is not defined", (int)missing->name.length, missing->name.at);
    scope_close(l);
    hide(caller, stop, false);
    l->caller = stop;
    end->position = l->function->insn_count;
    f->active = false;
    l->return_to = outer;
    l->function->local_bytes = local;
    l->token = token;
    l->at = at;
    l->line = line;
}

/* A body that has no caller is read all the same: what is wrong in it is said, and nothing of it is kept. What it calls
 * is read in its own place, where all that it names is declared. */
static void read_alone(struct loader *l, struct device_function *f) {
    struct function *alone = load_take(l, sizeof *alone);
    struct ptx_module *m = l->module;
    const u64 constants = l->constant_bytes;
    const unsigned variables = m->variable_count;
    const struct insn none = {.line = f->line, .text = f->name};
    alone->shared_bytes = l->module_shared_bytes;
    alone->code.shared = l->module_shared;
    l->function = alone;
    l->alone = true;
    read_body(l, &none, f, NULL, NULL);
    finish_function(l, alone);
    l->alone = false;
    l->function = NULL;
    l->constant_bytes = constants;
    for (; m->variable_count > variables; m->variable_count--)
        m->variables[m->variable_count - 1] = (struct ptx_variable){0};
}

void parse_device_function(struct loader *l) {
    bool body, ends;
    u32 line = l->token.line;
    const char *at = pass_function(l->token.text.at, &line, &body, &ends);
    if (!ends)
        load_fail(l, l->token.line, "`%c` is missing at the end of the function that begins here", body ? '}' : ';');
    if (body) pass_list(l);
    struct device_function *f = body ? function_named(l, l->token.text) : NULL;
    if (f) {
        symbol_add(l, f->name, SYMBOL_FUNCTION);
        read_alone(l, f);
    }
    move_to(l, at, line);
}

void parse_call(struct loader *l, struct insn *insn) {
    struct actuals results, arguments = {.count = 0};
    lex_opcode(l);
    insn->opcode = l->token.text;
    if (!text_is(insn->opcode, "call") && !text_is(insn->opcode, "call.uni"))
        insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
    lex_next(l);
    parse_actuals(l, insn, &results);
    if (results.count) lex_expect(l, ',');
    struct text name = l->token.text;
    if (l->token.kind != T_NAME) insn_fail(l, insn, "the name of a function is expected");
    lex_next(l);
    if (lex_punct(l, ',')) parse_actuals(l, insn, &arguments);
    if (name.at[0] == '%' || (l->token.kind == T_PUNCT && l->token.punct == ','))
        insn_fail(l, insn, "calls through pointers are not supported");
    lex_expect(l, ';');
    struct device_function *f = function_named(l, name);
    if (!f)
        insn_fail(l, insn, "function `%.*s` has no body in this PTX: linking is not supported", (int)name.length,
                  name.at);
    else if (f->active)
        insn_fail(l, insn, "`%.*s` calls itself: recursion is not supported", (int)name.length, name.at);
    if (++l->function->calls > MAX_CALLS)
        insn_fail(l, insn, "more than %d calls in one entry, those within functions counted each time", MAX_CALLS);
    if (!l->alone) read_body(l, insn, f, &results, &arguments);
}
