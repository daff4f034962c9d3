/* ptx_call.c - calls of device functions.
 * A call is the body, read again at that place in a scope of its own: what it runs, the lines of its faults and how
 * threads diverge are then those of any instruction. Parameters are variables in local memory that caller and callee
 * share; registers and constants that are passed are stored into one, and results loaded from one. A function that
 * calls itself, and a call through a pointer, are refused. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <runtime/cpu/ptx_function.h>

enum { MAX_CALLS = 4096 };

/* "(a, 5, r)" of a call */
struct actuals {
    struct operand at[MAX_FORMALS];
    unsigned count;
    bool listed; /* the parentheses are there */
};

/* ---- what is passed ---- */
static void parse_actuals(struct loader *l, struct insn *insn, struct actuals *actuals) {
    actuals->listed = lex_punct(l, '(');
    if (!actuals->listed || lex_punct(l, ')')) return;
    do {
        if (actuals->count == MAX_FORMALS) insn_fail(l, insn, "more than %d parameters in a call", MAX_FORMALS);
        parse_argument(l, insn, &actuals->at[actuals->count++]);
    } while (lex_punct(l, ','));
    lex_expect(l, ')');
}

/* Bits go with everything of their size; integers with integers, floats with floats. */
static bool kinds_go(u8 a, u8 b) {
    return a == REG_BITS || b == REG_BITS || a == b;
}

/* One thing that is passed, for messages: "argument 2 of `g`". */
struct place {
    const struct insn *insn;
    struct text callee;
    const char *what;
    unsigned number;
};

static _Noreturn void amiss(struct loader *l, const struct place *p, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static _Noreturn void amiss(struct loader *l, const struct place *p, const char *format, ...) {
    char says[200];
    va_list list;
    va_start(list, format);
    vsnprintf(says, sizeof says, format, list);
    va_end(list);
    insn_fail(l, p->insn, "%s %u of `%.*s` %s", p->what, p->number, (int)p->callee.length, p->callee.at, says);
}

static void check_variable(struct loader *l, const struct place *p, const struct variable *a,
                           const struct variable *v) {
    if (a->passing == PASSING_ARGUMENT || a->passing == PASSING_RESULT)
        amiss(l, p, "is no parameter of the caller itself: copy that into a .param variable");
    if (a->passing != PASSING_ACTUAL) amiss(l, p, "is a .param variable, a register or a constant");
    if (a->bytes != v->bytes && !v->open)
        amiss(l, p, "has %llu bytes, not %llu", (unsigned long long)v->bytes, (unsigned long long)a->bytes);
    if (a->array != v->array) amiss(l, p, v->array ? "is an array" : "is no array");
    if (!v->array && (a->type.bits != v->type.bits || !kinds_go(a->type.kind, v->type.kind)))
        amiss(l, p, "is of .%.*s, not .%.*s", (int)v->type_name.length, v->type_name.at, (int)a->type_name.length,
              a->type_name.at);
    if (a->align != v->align) amiss(l, p, "has alignment %u, not %u", v->align, a->align);
}

/* An integer for bits and integers, a float for floats; for 64 bits also an f64. */
static bool constant_goes(const struct operand *o, const struct variable *v) {
    if (o->kind == O_INTEGER) return v->type.kind != REG_FLOAT && v->type.bits <= 64;
    if (v->type.bits == 64) return o->kind == O_F64 && v->type.kind != REG_INT;
    return v->type.kind == REG_FLOAT && v->type.bits == 32;
}

static bool register_goes(const struct loader *l, const struct operand *o, const struct variable *v) {
    struct vreg r = l->function->vregs[o->reg];
    return !o->negated && r.kind != REG_PRED && !r.halves && r.bits == v->type.bits && kinds_go(r.kind, v->type.kind);
}

static void check_actual(struct loader *l, const struct place *p, const struct operand *o, const struct variable *v) {
    bool result = v->passing == PASSING_RESULT, constant = o->kind == O_INTEGER || o->kind == O_F32 || o->kind == O_F64;
    if (o->kind == O_VARIABLE && !o->sum) {
        check_variable(l, p, o->variable, v);
        return;
    }
    if (o->kind == O_DISCARD && result) return;
    if (o->kind != O_REG && (result || !constant))
        amiss(l, p, result ? "is a .param variable or a register" : "is a .param variable, a register or a constant");
    if (v->array) amiss(l, p, "is an array");
    if (constant ? !constant_goes(o, v) : !register_goes(l, o, v))
        amiss(l, p, "is of .%.*s: this %s does not suit it", (int)v->type_name.length, v->type_name.at,
              constant ? "constant" : "register");
    if (!constant && v->align != v->bytes) amiss(l, p, "has alignment %u, which no register has", v->align);
}

static void check_actuals(struct loader *l, const struct insn *insn, struct text callee, const struct actuals *actuals,
                          const struct formals *formals, const char *what) {
    struct place p = {insn, callee, what, 0};
    unsigned count = formals->count;
    bool open = count && formals->at[count - 1]->open && actuals->listed;
    if (actuals->count != count && !(open && actuals->count + 1 == count))
        insn_fail(l, insn, "`%.*s` has %u %s%s, not %u", (int)callee.length, callee.at, count, what,
                  count == 1 ? "" : "s", actuals->count);
    for (unsigned i = 0; i < actuals->count; i++) {
        const struct variable *v = formals->at[i];
        p.number = i + 1;
        check_actual(l, &p, &actuals->at[i], v);
        if (!v->array && v->type.kind == REG_INT && v->type.bits < 32)
            amiss(l, &p, "is an integer of less than 32 bits: declare .b8 or .b16");
    }
}

/* `st` or `ld` between an operand and the memory of a parameter. */
static void transfer(struct loader *l, const struct insn *insn, const struct operand *o, const struct variable *v) {
    bool result = v->passing == PASSING_RESULT, number = o->kind == O_F32 || o->kind == O_F64;
    struct variable *memory = load_take(l, sizeof *memory);
    char *opcode = load_take(l, 16);
    snprintf(opcode, 16, "%s.param.%c%u", result ? "ld" : "st", number ? 'f' : 'b', v->type.bits);
    *memory = *v;
    memory->passing = PASSING_ACTUAL;
    const struct operand address = {.kind = O_ADDRESS, .variable = memory};
    const struct insn within = {.text = insn->text, .line = insn->line}; /* the guard has been asked */
    add_transfer(l, &within, opcode, result ? o : &address, result ? &address : o);
}

/* The callee's names for what is passed; actuals NULL: a place for each, to read the callee alone. */
static void bind(struct loader *l, const struct insn *insn, const struct formals *formals,
                 const struct actuals *actuals) {
    for (unsigned i = 0; i < formals->count; i++) {
        struct variable *v = formals->at[i];
        const struct operand *o = actuals && i < actuals->count ? &actuals->at[i] : NULL;
        bool shared = o && o->kind == O_VARIABLE;
        if (shared)
            v->offset = o->variable->offset;
        else
            place_passed(l, v);
        if (o && !shared && v->passing == PASSING_ARGUMENT) transfer(l, insn, o, v);
        symbol_add(l, v->name, SYMBOL_VARIABLE)->variable = v;
    }
}

static void take_results(struct loader *l, const struct insn *insn, const struct formals *formals,
                         const struct actuals *actuals) {
    for (unsigned i = 0; i < actuals->count; i++)
        if (actuals->at[i].kind == O_REG) transfer(l, insn, &actuals->at[i], formals->at[i]);
}

/* The caller's names are not the callee's: its scopes, up to the module's or to those that are hidden already. */
static void hide(struct name_scope *scope, const struct name_scope *stop, bool hidden) {
    for (; scope->outer && scope != stop; scope = scope->outer)
        scope->hidden = hidden;
}

static void read_body(struct loader *l, const struct insn *insn, struct device_function *f,
                      const struct actuals *results, const struct actuals *arguments) {
    struct name_scope *caller = l->scope, *stop = l->caller;
    struct label *outer = l->return_to, *end = load_take(l, sizeof *end), *behind = load_take(l, sizeof *behind);
    const struct token token = l->token;
    const char *at = l->at;
    u32 line = l->line;
    u64 local = l->function->local_bytes;
    end->name = behind->name = f->name;
    if (insn->guarded) add_branch(l, insn, insn->guard, !insn->guard_not, behind);
    hide(caller, stop, true);
    l->caller = caller;
    scope_open(l);
    l->return_to = end;
    f->active = true;
    move_to(l, f->body, f->line);
    struct signature *s = parse_signature(l, f->name);
    expect_body(l, s);
    if (results) {
        check_actuals(l, insn, f->name, results, &s->results, "result");
        check_actuals(l, insn, f->name, arguments, &s->arguments, "argument");
    }
    bind(l, insn, &s->results, results);
    bind(l, insn, &s->arguments, arguments);
    parse_body(l);
    scope_close(l);
    hide(caller, stop, false);
    l->caller = stop;
    end->position = l->function->insn_count;
    if (results) take_results(l, insn, &s->results, results);
    behind->position = l->function->insn_count;
    f->active = false;
    l->return_to = outer;
    l->function->local_bytes = local;
    l->token = token;
    l->at = at;
    l->line = line;
}

/* A body that has no caller is read all the same: what is wrong in it is said, and nothing of it is kept. What it calls
 * is read in its own place, where all that it names is declared. */
void read_alone(struct loader *l, struct device_function *f) {
    struct function *alone = load_take(l, sizeof *alone);
    struct ptx_module *m = l->module;
    const u64 constants = l->constant_bytes;
    const unsigned variables = m->variable_count;
    const struct insn none = {.line = f->line, .text = f->name};
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

/* The function that a call names: what is declared in the caller under that name hides it. */
static struct device_function *called(struct loader *l, const struct insn *insn, struct text name) {
    u32 vreg;
    const struct symbol *s = symbol_find(l, name);
    struct device_function *f = function_named(l, name);
    if (symbol_reg(l, name, &vreg) || (s && (s->kind != SYMBOL_FUNCTION || !f)))
        insn_fail(l, insn, "`%.*s` is no device function here", (int)name.length, name.at);
    if (!f || !f->body)
        insn_fail(l, insn, "function `%.*s` has no body in this PTX: linking is not supported", (int)name.length,
                  name.at);
    else if (f->declared > name.at)
        insn_fail(l, insn, "function `%.*s` is not declared yet: its prototype or its body comes before calls",
                  (int)name.length, name.at);
    else if (f->active && !l->alone)
        insn_fail(l, insn, "`%.*s` calls itself: recursion is not supported", (int)name.length, name.at);
    return f;
}

void parse_call(struct loader *l, struct insn *insn) {
    struct actuals results = {.count = 0}, arguments = {.count = 0};
    lex_opcode(l);
    insn->opcode = l->token.text;
    if (!text_is(insn->opcode, "call") && !text_is(insn->opcode, "call.uni"))
        insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
    lex_next(l);
    parse_actuals(l, insn, &results);
    if (results.listed) lex_expect(l, ',');
    struct text name = l->token.text;
    if (l->token.kind != T_NAME) insn_fail(l, insn, "the name of a function is expected");
    lex_next(l);
    if (lex_punct(l, ',')) parse_actuals(l, insn, &arguments);
    if (name.at[0] == '%' || (l->token.kind == T_PUNCT && l->token.punct == ','))
        insn_fail(l, insn, "calls through pointers are not supported");
    lex_expect(l, ';');
    struct device_function *f = called(l, insn, name);
    if (++l->function->calls > MAX_CALLS)
        insn_fail(l, insn, "more than %d calls in one entry, those within functions counted each time", MAX_CALLS);
    if (!l->alone) {
        read_body(l, insn, f, &results, &arguments);
        return;
    }
    check_actuals(l, insn, name, &results, &f->signature->results, "result");
    check_actuals(l, insn, name, &arguments, &f->signature->arguments, "argument");
}
