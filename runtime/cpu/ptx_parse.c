/* ptx_parse.c - entries and statements; and ptx_load, the life of a text in one function.
 * Reads as PTX is written; what an instruction means is ptx_form.c's and ptx_encode.c's. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/ptx.h>

/* ---- errors and memory ---- */
enum { MESSAGE_BYTES = 600 };

static _Noreturn void leave(struct loader *l, u32 line, const struct insn *insn, const char *what) {
    const char *file = NULL;
    unsigned source_line =
        l->lines && l->lines->template_line ? l->lines->template_line(l->lines->self, line, &file) : 0;
    char where[300] = "";
    if (file) snprintf(where, sizeof where, " (%s:%u)", file, source_line);
    if (l->capacity && insn)
        snprintf(l->message, l->capacity, "PTX line %u%s: `%.*s`: %s", line, where,
                 (int)(insn->text.length < 200 ? insn->text.length : 200), insn->text.at, what);
    else if (l->capacity && line)
        snprintf(l->message, l->capacity, "PTX line %u%s: %s", line, where, what);
    else if (l->capacity) /* not of any place in the text: memory has run out */
        snprintf(l->message, l->capacity, "%s", what);
    longjmp(l->escape, 1);
}

_Noreturn void load_fail(struct loader *l, u32 line, const char *format, ...) {
    char what[MESSAGE_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    leave(l, line, NULL, what);
}

_Noreturn void insn_fail(struct loader *l, const struct insn *insn, const char *format, ...) {
    char what[MESSAGE_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    leave(l, insn->line, insn, what);
}

u32 line_of(const struct loader *l, const char *at) {
    u32 line = 1;
    for (const char *c = l->source; c < at; c++)
        line += *c == '\n';
    return line;
}

void *load_take(struct loader *l, size_t bytes) {
    void *at = arena_take(&l->module->arena, bytes);
    if (!at) load_fail(l, l->token.line, "out of memory");
    return at;
}

const char *load_text(struct loader *l, struct text text) {
    char *at = load_take(l, (size_t)text.length + 1);
    memcpy(at, text.at, text.length);
    return at;
}

void *load_grow(struct loader *l, void *old, size_t count, size_t element, u32 *capacity) {
    *capacity = *capacity ? *capacity * 2 : 16;
    void *at = load_take(l, *capacity * element);
    if (count) memcpy(at, old, count * element);
    return at;
}

/* ---- statements ---- */
enum { MAX_INSTRUCTIONS = 1 << 21 };

static void split_modifiers(struct loader *l, struct insn *insn) {
    const char *at = insn->opcode.at, *end = at + insn->opcode.length;
    insn->modifier_count = 0;
    while (at < end) {
        const char *dot = memchr(at, '.', (size_t)(end - at));
        if (!dot) dot = end;
        if (insn->modifier_count == MAX_MODIFIERS) insn_fail(l, insn, "more than %d modifiers", MAX_MODIFIERS);
        insn->modifiers[insn->modifier_count++] = (struct text){at, (u32)(dot - at)}; /* the first is the root */
        at = dot + 1;
    }
}

/* The text up to the semicolon, for messages. */
static u32 text_length(const char *at) {
    const char *end = at + strcspn(at, ";\n");
    while (end > at && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    return (u32)(end - at) + (*end == ';');
}

static void add_instruction(struct loader *l, struct insn *insn) {
    struct function *f = l->function;
    if (f->insn_count == f->insn_capacity)
        f->insns = load_grow(l, f->insns, f->insn_count, sizeof *f->insns, &f->insn_capacity);
    if (f->insn_count == MAX_INSTRUCTIONS)
        insn_fail(l, insn, "more than %d instructions in one entry, called functions counted each time",
                  MAX_INSTRUCTIONS);
    f->insns[f->insn_count++] = insn;
}

/* mov.v4.u32 {a, b, c, d}, %tid: a mov of each part. */
static bool add_parts(struct loader *l, struct insn *insn) {
    const struct operand *to = &insn->operands[0], *from = &insn->operands[1];
    if (insn->operand_count != 2 || from->kind != O_SPECIAL_VECTOR || !text_is(insn->modifiers[0], "mov")) return false;
    if (insn->modifier_count != 3 || !text_is(insn->modifiers[1], "v4") || to->kind != O_VECTOR || to->count != 4)
        insn_fail(l, insn, "a special register of four parts is read with mov.v4 {a, b, c, d}");
    const struct text type = insn->modifiers[2];
    char *opcode = load_take(l, type.length + sizeof "mov.");
    memcpy(opcode, "mov.", 4);
    memcpy(opcode + 4, type.at, type.length);
    unsigned sinks = 0;
    for (unsigned i = 0; i < 4; i++) {
        const struct operand part = {.kind = O_SPECIAL, .special = (u8)(from->special + i)};
        if (to->items[i].kind == O_DISCARD)
            sinks++;
        else
            add_transfer(l, insn, opcode, &to->items[i], &part);
    }
    if (sinks == 4) insn_fail(l, insn, "a register is expected among the sinks");
    return true;
}

static void parse_instruction(struct loader *l) {
    struct function *f = l->function;
    struct insn *insn = load_take(l, sizeof *insn);
    insn->line = l->token.line;
    insn->text = (struct text){l->token.text.at, text_length(l->token.text.at)};
    insn->unused_bytes = l->unused_bytes;
    l->unused_bytes = 0;
    if (lex_punct(l, '@')) {
        insn->guarded = true;
        insn->guard_not = lex_punct(l, '!');
        if (l->token.kind != T_NAME || !symbol_reg(l, l->token.text, &insn->guard) ||
            f->vregs[insn->guard].kind != REG_PRED)
            insn_fail(l, insn, "`%.*s` is not a declared predicate", (int)shown(l).length, shown(l).at);
        lex_next(l);
    }
    if (l->token.kind != T_NAME) lex_unexpected(l, "an instruction");
    l->insn = insn;
    if (text_is(l->token.text, "call")) {
        parse_call(l, insn);
        return;
    }
    lex_opcode(l);
    insn->opcode = l->token.text;
    bool returns = l->return_to && (text_is(insn->opcode, "ret") || text_is(insn->opcode, "ret.uni"));
    if (returns) insn->opcode = (struct text){"bra", 3};
    split_modifiers(l, insn);
    lex_next(l);
    parse_operands(l, insn);
    if (returns && insn->operand_count == 0)
        insn->operands[insn->operand_count++] = (struct operand){.kind = O_LABEL, .label = l->return_to};
    if (l->token.kind == T_END) insn_fail(l, insn, "`;` is expected before the end");
    if (!lex_punct(l, ';')) insn_fail(l, insn, "`;` is expected before `%.*s`", (int)shown(l).length, shown(l).at);
    if (add_parts(l, insn)) return;
    form_choose(l, insn);
    add_instruction(l, insn);
}

/* An instruction that no text has. */
static void add_made(struct loader *l, struct insn *insn) {
    split_modifiers(l, insn);
    form_choose(l, insn);
    add_instruction(l, insn);
}

void add_branch(struct loader *l, const struct insn *insn, u32 guard, bool guard_not, struct label *to) {
    struct insn *branch = load_take(l, sizeof *branch);
    *branch = (struct insn){.opcode = {"bra", 3},
                            .text = insn->text,
                            .line = insn->line,
                            .operand_count = 1,
                            .guarded = true,
                            .guard = guard,
                            .guard_not = guard_not};
    branch->operands[0] = (struct operand){.kind = O_LABEL, .label = to};
    add_made(l, branch);
}

void add_transfer(struct loader *l, const struct insn *insn, const char *opcode, const struct operand *first,
                  const struct operand *second) {
    struct insn *transfer = load_take(l, sizeof *transfer);
    *transfer = (struct insn){.opcode = {opcode, (u32)strlen(opcode)},
                              .text = insn->text,
                              .line = insn->line,
                              .operands = {*first, *second},
                              .operand_count = 2,
                              .guard = insn->guard,
                              .guard_not = insn->guard_not,
                              .guarded = insn->guarded};
    add_made(l, transfer);
}

static void parse_branch_targets(struct loader *l, struct text name) {
    struct symbol *s = symbol_add(l, name, SYMBOL_TARGETS);
    struct label_list *list = s->targets = load_take(l, sizeof *list);
    u32 capacity = 0;
    do {
        if (l->token.kind != T_NAME) lex_unexpected(l, "a label");
        if (list->count == capacity) list->at = load_grow(l, list->at, list->count, sizeof(struct label *), &capacity);
        list->at[list->count++] = label_use(l, l->token.text, l->token.line);
        lex_next(l);
    } while (lex_punct(l, ','));
    lex_expect(l, ';');
}

bool parse_space(struct loader *l, enum linkage linkage) {
    static const struct {
        const char *name;
        enum space space;
    } spaces[] = {{"shared", SPACE_SHARED}, {"global", SPACE_GLOBAL}, {"const", SPACE_CONST}, {"local", SPACE_LOCAL}};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        if (lex_dot(l, spaces[i].name)) {
            parse_variable(l, spaces[i].space, linkage);
            return true;
        }
    return false;
}

static void parse_statement(struct loader *l);

/* Behind the opening brace. */
static void parse_block(struct loader *l) {
    while (!lex_punct(l, '}')) {
        if (l->token.kind == T_END) load_fail(l, l->token.line, "`}` is missing at the end");
        parse_statement(l);
    }
}

void parse_body(struct loader *l) {
    lex_expect(l, '{');
    parse_block(l);
    l->unused_bytes = 0;
    const struct label *missing = scope_settle(l);
    if (missing)
        load_fail(l, missing->line, "label `%.*s` is not defined", (int)missing->name.length, missing->name.at);
}

static void parse_statement(struct loader *l) {
    if (lex_punct(l, '{')) {
        scope_open(l);
        parse_block(l);
        scope_close(l);
        return;
    }
    if (l->token.kind == T_DOT) {
        if (parse_pragma(l, PRAGMA_BODY) || parse_loc(l) || parse_space(l, LINKAGE_NONE)) return;
        if (lex_dot(l, "reg")) {
            parse_registers(l);
            return;
        }
        if (lex_dot(l, "param")) {
            parse_passed(l);
            return;
        }
        load_fail(l, l->token.line, "directive `.%.*s` is not supported within an entry", (int)shown(l).length,
                  shown(l).at);
    }
    if (l->token.kind == T_NAME) {
        const char *at = l->at;
        while (*at == ' ' || *at == '\t')
            at++;
        if (*at == ':' && at[1] != ':') {
            struct text name = l->token.text;
            lex_next(l);
            lex_next(l);
            if (lex_dot(l, "branchtargets"))
                parse_branch_targets(l, name);
            else if (l->token.kind == T_DOT &&
                     (text_is(l->token.text, "callprototype") || text_is(l->token.text, "calltargets")))
                load_fail(l, l->token.line, "calls through pointers are not supported");
            else
                label_define(l, name);
            return;
        }
    }
    parse_instruction(l);
}

/* ---- functions ---- */
static void parse_parameters(struct loader *l) {
    struct ptx_function *p = &l->function->public;
    u32 capacity = 0;
    if (!lex_punct(l, '(') || lex_punct(l, ')')) return;
    do {
        if (!lex_dot(l, "param")) lex_unexpected(l, "`.param`");
        struct variable *v = parse_parameter(l);
        if (p->param_count == capacity)
            p->params = load_grow(l, p->params, p->param_count, sizeof *p->params, &capacity);
        struct ptx_param *out = &p->params[p->param_count++];
        out->name = load_text(l, v->name);
        out->offset = (unsigned)v->offset;
        out->bytes = (unsigned)v->bytes;
        out->align = v->align;
    } while (lex_punct(l, ','));
    lex_expect(l, ')');
}

void finish_function(struct loader *l, struct function *f) {
    struct ptx_function *p = &f->public;
    shared_place(l, f);
    p->local_bytes = (unsigned)((f->local_most + 15) & ~15ull);
    p->param_bytes = (unsigned)f->param_bytes;
    p->module = l->module;
    f->code.source = l->module->source;
    f->code.lines = l->lines;
    assign_slots(l, f);
    encode_function(l, f);
    p->reg_slots = f->code.slots;
    p->code = &f->code;
}

/* At its name. */
static void read_entry(struct loader *l, struct function *f, bool external) {
    lex_next(l);
    l->function = f;
    scope_open(l);
    parse_parameters(l);
    parse_performance(l, &f->public);
    if (lex_punct(l, ';')) load_fail(l, l->behind, "entry `" SHOWN_NAME "` has no body", f->public.name);
    if (external) load_fail(l, l->behind, "entry `" SHOWN_NAME "` is .extern and has a body", f->public.name);
    if (l->token.kind == T_DOT)
        load_fail(l, l->token.line, "`.%.*s` is not supported before the body of `" SHOWN_NAME "`",
                  (int)shown(l).length, shown(l).at, f->public.name);
    if (l->token.kind != T_PUNCT || l->token.punct != '{') lex_unexpected(l, "`{`");
    parse_body(l);
    scope_close(l);
    finish_function(l, f);
    l->function = NULL;
}

/* An entry that is read behind the module. */
struct waiting {
    struct waiting *next;
    struct function *function;
    const char *at; /* its name */
    u32 line;
};

void parse_entry(struct loader *l, bool external) {
    struct function *f = load_take(l, sizeof *f);
    struct text name = l->token.text;
    u32 begin = l->token.line, line = begin;
    const char *end;
    if (l->token.kind != T_NAME) lex_unexpected(l, "the name of an entry");
    f->public.name = load_text(l, name);
    symbol_add(l, name, SYMBOL_FUNCTION);
    f->next = l->functions;
    l->functions = f;
    l->module->function_count++;
    if (external || !entry_waits(l, name.at, &line, &end)) {
        read_entry(l, f, external);
        return;
    }
    struct waiting *w = load_take(l, sizeof *w);
    *w = (struct waiting){NULL, f, name.at, begin};
    *l->waiting_end = w;
    l->waiting_end = &w->next;
    move_to(l, end, line);
}

void parse_waiting(struct loader *l) {
    for (const struct waiting *w = l->waiting; w; w = w->next) {
        move_to(l, w->at, w->line);
        read_entry(l, w->function, false);
    }
}

/* ---- the module's life ---- */
/* False with the message written when the text is refused. */
static bool read_text(struct loader *l) {
    struct ptx_module *m = l->module;
    if (setjmp(l->escape)) return false;
    l->waiting_end = &l->waiting;
    lex_check_bytes(l);
    scope_open(l);
    functions_find(l);
    lex_next(l);
    parse_module(l);
    m->functions = load_take(l, m->function_count * sizeof *m->functions + 1);
    unsigned index = m->function_count;
    for (struct function *f = l->functions; f; f = f->next)
        m->functions[--index] = &f->public;
    return true;
}

struct ptx_module *ptx_load(const char *text, const struct line_source *lines, char *message, size_t capacity) {
    struct ptx_module *m = calloc(1, sizeof *m);
    struct loader *l = calloc(1, sizeof *l);
    bool read = false;
    if (m && l && (m->source = strdup(text))) {
        *l = (struct loader){.module = m,
                             .lines = lines,
                             .message = message,
                             .capacity = capacity,
                             .source = m->source,
                             .at = m->source,
                             .line = 1};
        read = read_text(l);
    } else if (capacity) {
        snprintf(message, capacity, "out of memory");
    }
    free(l);
    if (read) return m;
    ptx_free(m);
    return NULL;
}

void ptx_free(struct ptx_module *module) {
    if (!module) return;
    for (unsigned i = 0; module->functions && i < module->function_count; i++)
        for (unsigned k = 0; k < SPARE_KINDS; k++)
            spares_free(&((struct code *)module->functions[i]->code)->spares[k]);
    arena_free(&module->arena);
    free(module->source);
    free(module);
}

unsigned ptx_function_count(const struct ptx_module *module) {
    return module->function_count;
}

struct ptx_function *ptx_function_at(struct ptx_module *module, unsigned index) {
    return module->functions[index];
}

unsigned ptx_variable_count(const struct ptx_module *module) {
    return module->variable_count;
}

const struct ptx_variable *ptx_variable_at(const struct ptx_module *module, unsigned index) {
    return &module->variables[index];
}
