/* ptx_variable.c - declarations: registers, variables of every space, parameters.
 * Lays out shared and local memory of a function and its parameters; global and constant variables go to the module's
 * list. */
#include <stdio.h>
#include <string.h>
#include <runtime/cpu/ptx.h>

struct type type_named(struct text name) {
    static const struct {
        const char *name;
        u8 kind, bits;
    } table[] = {{"b8", REG_BITS, 8},      {"b16", REG_BITS, 16},  {"b32", REG_BITS, 32},   {"b64", REG_BITS, 64},
                 {"b128", REG_BITS, 128},  {"u8", REG_INT, 8},     {"u16", REG_INT, 16},    {"u32", REG_INT, 32},
                 {"u64", REG_INT, 64},     {"s8", REG_INT, 8},     {"s16", REG_INT, 16},    {"s32", REG_INT, 32},
                 {"s64", REG_INT, 64},     {"f16", REG_FLOAT, 16}, {"bf16", REG_FLOAT, 16}, {"f16x2", REG_BITS, 32},
                 {"bf16x2", REG_BITS, 32}, {"f32", REG_FLOAT, 32}, {"f64", REG_FLOAT, 64},  {"pred", REG_PRED, 1}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (text_is(name, table[i].name)) return (struct type){table[i].kind, table[i].bits, true, name.at[0] == 'u'};
    return (struct type){0};
}

static struct type parse_type(struct loader *l) {
    struct type type = l->token.kind == T_DOT ? type_named(l->token.text) : (struct type){0};
    if (!type.valid) lex_unexpected(l, "a type");
    if (text_is(l->token.text, "bf16") || text_is(l->token.text, "bf16x2"))
        load_fail(l, l->token.line, ".%.*s is a type of instructions alone: declare .b%u", (int)l->token.text.length,
                  l->token.text.at, type.bits);
    lex_next(l);
    return type;
}

struct text parse_identifier(struct loader *l) {
    struct text name = l->token.text;
    if (l->token.kind != T_NAME) lex_unexpected(l, "a name");
    lex_next(l);
    return name;
}

/* What is aligned to more than 2 GiB lies nowhere. */
static unsigned parse_align(struct loader *l) {
    u64 align = number_of(l, ".align", 0, UINT32_MAX);
    if (align == 0 || (align & (align - 1)))
        load_fail(l, l->behind, ".align %llu is not a power of two", (unsigned long long)align);
    return (unsigned)align;
}

enum { MAX_RANGE = 1 << 20 };

/* Behind the `<` of a range: how many it has. */
static u32 parse_count(struct loader *l, struct text name) {
    if (l->token.kind != T_INTEGER && !text_is(l->token.text, "WARP_SZ"))
        load_fail(l, l->token.line, "a count is expected in `%.*s<...>`", (int)name.length, name.at);
    u64 count = number_of(l, "a count of", 0, UINT64_MAX);
    if (count > MAX_RANGE)
        load_fail(l, l->behind, "more than %d names in `%.*s<...>`", MAX_RANGE, (int)name.length, name.at);
    lex_expect(l, '>');
    return (u32)count;
}

/* One name or range of a declaration. */
static void add_registers(struct loader *l, struct vreg vreg) {
    struct function *f = l->function;
    struct text name = parse_identifier(l);
    bool many = lex_punct(l, '<');
    u32 count = many ? parse_count(l, name) : 1;
    if (f->vreg_count + count > 1 << 22) load_fail(l, l->behind, "more than %d registers in one entry", 1 << 22);
    struct symbol *s = many ? symbol_add_range(l, name, SYMBOL_REGS, count) : symbol_add(l, name, SYMBOL_REGS);
    s->first = f->vreg_count;
    while (f->vreg_count + count > f->vreg_capacity)
        f->vregs = load_grow(l, f->vregs, f->vreg_capacity, sizeof *f->vregs, &f->vreg_capacity);
    for (u32 i = 0; i < count; i++)
        f->vregs[f->vreg_count++] = vreg;
    struct register_range *range = load_take(l, sizeof *range);
    *range = (struct register_range){f->ranges, name, s->first, count, many};
    f->ranges = range;
}

void parse_registers(struct loader *l) {
    if (!l->function)
        load_fail(l, l->token.line, "registers at module scope are not supported: declare them in the entry");
    while (lex_dot(l, "align"))
        parse_align(l);
    if (l->token.kind == T_DOT && l->token.text.length == 2 && l->token.text.at[0] == 'v')
        load_fail(l, l->token.line,
                  "vector registers are not supported: declare scalars and use { } in the instruction");
    bool halves = lex_at_dot(l, "f16x2");
    struct type type = parse_type(l);
    if (type.bits == 8 && type.kind != REG_BITS && type.kind != REG_INT)
        load_fail(l, l->behind, "registers of this type do not exist");
    if (lex_punct(l, ';')) return; /* of nothing */
    do
        add_registers(l, (struct vreg){type.kind, type.bits, halves});
    while (lex_punct(l, ','));
    lex_expect(l, ';');
}

/* What stands before the name of variables and parameters. */
struct prefix {
    struct type type;
    struct text type_name;
    unsigned vector, align;
    bool half; /* .f16 and .f16x2: without an initialiser */
    bool managed;
    bool external, formal; /* of .extern and of a function: the first dimension may be 0, which is open */
};

/* .attribute(.managed): nothing here depends on it. .unified is of modules that are linked. */
static void parse_attributes(struct loader *l) {
    lex_expect(l, '(');
    do {
        if (lex_dot(l, "managed")) continue;
        if (!lex_dot(l, "unified")) lex_unexpected(l, "`.managed` or `.unified`");
        lex_expect(l, '(');
        number_of(l, ".unified", 0, UINT64_MAX);
        lex_expect(l, ',');
        number_of(l, ".unified", 0, UINT64_MAX);
        lex_expect(l, ')');
        load_fail(l, l->behind, "`.unified` is of modules that are linked: linking is not supported");
    } while (lex_punct(l, ','));
    lex_expect(l, ')');
}

/* Hints about what an entry's pointer points to: .ptr, a space, .align. */
static void parse_pointed(struct loader *l) {
    static const char *const spaces[] = {"global", "shared", "const", "local"};
    if (!lex_dot(l, "ptr")) return;
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        if (lex_dot(l, spaces[i])) break;
    if (lex_dot(l, "align")) parse_align(l);
}

/* .align and attributes in any order, then .v2 or .v4, then the type. */
static struct prefix parse_prefix(struct loader *l, bool parameter) {
    struct prefix p = {.vector = 1};
    for (;;)
        if (lex_dot(l, "align")) {
            p.align = parse_align(l);
        } else if (lex_dot(l, "attribute")) {
            parse_attributes(l);
            p.managed = true;
        } else {
            break;
        }
    if (p.managed && parameter) load_fail(l, l->behind, "`.managed` is of .global variables alone");
    if (lex_dot(l, "v2"))
        p.vector = 2;
    else if (lex_dot(l, "v4"))
        p.vector = 4;
    bool pair = lex_at_dot(l, "f16x2");
    p.half = pair || lex_at_dot(l, "f16");
    p.type_name = l->token.text;
    p.type = parse_type(l);
    if (p.type.kind == REG_PRED) load_fail(l, l->behind, "predicates exist in registers only");
    if (p.type.bits * p.vector > 128) load_fail(l, l->behind, "vectors have at most 128 bits");
    if (parameter && (pair || p.vector > 1))
        load_fail(l, l->behind, "parameters are no vectors and no .f16x2: declare .align and an array of .b8");
    return p;
}

/* The name and its dimensions; a vector's elements are the last. */
static struct variable *parse_declarator(struct loader *l, const struct prefix *p, struct dimensions *size) {
    struct variable *v = load_take(l, sizeof *v);
    *size = (struct dimensions){.vector = p->vector > 1, .half = p->half, .type = p->type};
    v->name = parse_identifier(l);
    v->type = p->type;
    v->type_name = p->type_name;
    v->element = p->type.bits / 8;
    v->bytes = v->element * p->vector;
    v->align = p->align ? p->align : (unsigned)v->bytes;
    while (lex_punct(l, '[')) {
        if (size->count == MAX_DIMENSIONS)
            load_fail(l, l->behind, "more than %d dimensions are not supported", MAX_DIMENSIONS);
        if (lex_punct(l, ']')) {
            if (size->count)
                load_fail(l, l->behind, "only the first dimension of `%.*s` may be open", (int)v->name.length,
                          v->name.at);
            size->open = true;
            size->at[size->count++] = UINT64_MAX;
            continue;
        }
        u64 n = number_of(l, "a dimension of", 0, UINT64_MAX);
        bool open = n == 0 && !size->count && (p->external || p->formal);
        size->open |= open;
        if (open)
            n = 1;
        else if (n == 0)
            load_fail(l, l->behind, "`%.*s` has a dimension of 0", (int)v->name.length, v->name.at);
        else if (v->bytes > (1ull << 40) / n)
            load_fail(l, l->behind, "size %llu of `%.*s` is out of range", (unsigned long long)n, (int)v->name.length,
                      v->name.at);
        v->bytes *= n;
        size->at[size->count++] = open ? UINT64_MAX : n;
        lex_expect(l, ']');
    }
    v->array = size->count > 0;
    if (size->vector) size->at[size->count++] = p->vector;
    return v;
}

static void add_module_variable(struct loader *l, struct variable *v) {
    struct ptx_module *m = l->module;
    if (m->variable_count == m->variable_capacity)
        m->variables = load_grow(l, m->variables, m->variable_count, sizeof *m->variables, &m->variable_capacity);
    v->index = m->variable_count++;
}

enum { MOST_ALIGN = 4096 }; /* of the world's memory: a page */

void define_variable(struct loader *l, const struct variable *v, const struct filling *fill) {
    if (v->align > MOST_ALIGN)
        load_fail(l, l->behind, "`%.*s` is aligned to %u bytes: more than %d are not supported", (int)v->name.length,
                  v->name.at, v->align, MOST_ALIGN);
    if (v->space == SPACE_CONST) l->constant_bytes = align_up(l->constant_bytes, v->align) + v->bytes;
    if (l->constant_bytes > 1 << 16) load_fail(l, l->behind, "constant variables of more than 64 KiB");
    l->module->variables[v->index] = (struct ptx_variable){.name = load_text(l, v->name),
                                                           .bytes = v->bytes,
                                                           .align = v->align,
                                                           .constant = v->space == SPACE_CONST,
                                                           .initial = fill->bytes,
                                                           .initial_bytes = fill->at,
                                                           .pointer_count = fill->pointer_count,
                                                           .pointers = fill->pointers};
}

static void place_local(struct loader *l, struct function *f, struct variable *v) {
    if (f) {
        v->offset = align_up(f->local_bytes, v->align);
        f->local_bytes = v->offset + v->bytes;
        if (f->local_most < f->local_bytes) f->local_most = f->local_bytes;
    }
    if (!f || f->local_bytes > (u64)512 * 1024)
        load_fail(l, l->behind, "local variables belong to entries, with at most 512 KiB a thread");
}

static void place(struct loader *l, struct variable *v, const struct filling *fill) {
    switch (v->space) {
    case SPACE_SHARED:
        if (v->external) { /* dynamic: behind the static ones, wherever those end */
            l->dynamic_align = l->dynamic_align < v->align ? v->align : l->dynamic_align;
            break;
        }
        shared_add(l, v);
        break;
    case SPACE_LOCAL:
        place_local(l, l->function, v);
        break;
    case SPACE_GLOBAL:
    case SPACE_CONST:
        add_module_variable(l, v);
        if (v->linkage != LINKAGE_EXTERN) define_variable(l, v, fill);
        break;
    default:
        break;
    }
}

/* A parameter's name; it has a size. */
static struct variable *parse_sized(struct loader *l, const struct prefix *prefix, unsigned dimensions) {
    struct dimensions size;
    struct variable *v = parse_declarator(l, prefix, &size);
    if (size.count > dimensions)
        load_fail(l, l->behind, "parameter `%.*s` has %u dimensions: entries and functions take one",
                  (int)v->name.length, v->name.at, size.count);
    v->open = size.open;
    if (v->open && !prefix->formal)
        load_fail(l, l->behind, "parameter `%.*s` has no size", (int)v->name.length, v->name.at);
    if (v->open) v->bytes = 0;
    return v;
}

/* What a function takes or gives, or what a call passes: in local memory. */
static struct variable *parse_of_function(struct loader *l, const struct prefix *prefix, unsigned dimensions,
                                          enum passing passing) {
    struct variable *v = parse_sized(l, prefix, dimensions);
    if (v->align > 128)
        load_fail(l, l->behind, "the parameter of a function is aligned to 128 bytes at most, not %u", v->align);
    v->space = SPACE_LOCAL;
    v->passing = passing;
    return v;
}

static struct text numbered(struct loader *l, struct text stem, u32 number) {
    char digits[16];
    u32 length = (u32)snprintf(digits, sizeof digits, "%u", number);
    char *name = load_take(l, stem.length + length + 1);
    memcpy(name, stem.at, stem.length);
    memcpy(name + stem.length, digits, length);
    return (struct text){name, stem.length + length};
}

/* A body is read again wherever it is called, and its variables are there once: .shared ones in each entry, .global and
 * .const ones in the module. Where those of this declaration are, or NULL. */
static const struct variable *placed_before(struct loader *l, const struct variable *v) {
    const struct function *f = v->space == SPACE_SHARED ? l->function : NULL;
    for (const struct placed *p = l->placed; p; p = p->next)
        if (p->at == v->name.at && p->function == f) return p->variables;
    return NULL;
}

static void remember_places(struct loader *l, const struct variable *v, const struct variable *variables) {
    if (!l->caller || l->alone || v->space == SPACE_LOCAL) return;
    struct placed *placed = load_take(l, sizeof *placed);
    *placed = (struct placed){l->placed, v->name.at, v->space == SPACE_SHARED ? l->function : NULL, variables};
    l->placed = placed;
}

static void place_all(struct loader *l, const struct variable *declared, struct variable *variables, u32 count,
                      const struct filling *fill) {
    const struct variable *before = placed_before(l, declared);
    for (u32 i = 0; i < count; i++) {
        if (!before) {
            place(l, &variables[i], fill);
            continue;
        }
        variables[i].same = &before[i];
        variables[i].index = before[i].index;
    }
    if (!before) remember_places(l, declared, variables);
}

/* Behind the `<` of a range of variables. */
static void add_variables(struct loader *l, const struct variable *declared, const struct filling *fill) {
    const struct text name = declared->name;
    u32 count = parse_count(l, name);
    if (declared->linkage == LINKAGE_EXTERN)
        load_fail(l, l->behind, "the range `%.*s<%u>` of .extern variables is not supported", (int)name.length, name.at,
                  count);
    struct symbol *range = symbol_add_range(l, name, SYMBOL_VARIABLE, count);
    struct variable *variables = load_take(l, count * sizeof *variables + 1);
    range->members = load_take(l, count * sizeof *range->members + 1);
    for (u32 i = 0; i < count; i++) {
        variables[i] = *declared;
        variables[i].name = numbered(l, name, i);
        range->members[i] = (struct symbol){
            .scope = range->scope, .name = variables[i].name, .kind = SYMBOL_VARIABLE, .variable = &variables[i]};
    }
    place_all(l, declared, variables, count, fill);
}

static void add_variable(struct loader *l, struct variable *v, const struct filling *fill) {
    place_all(l, v, v, 1, fill);
    symbol_add(l, v->name, SYMBOL_VARIABLE)->variable = v;
}

void parse_passed(struct loader *l) {
    struct prefix prefix = parse_prefix(l, true);
    if (lex_punct(l, ';')) return; /* of nothing */
    do {
        struct variable *v = parse_of_function(l, &prefix, MAX_DIMENSIONS, PASSING_ACTUAL);
        if (!v->array && lex_punct(l, '<'))
            add_variables(l, v, NULL);
        else
            add_variable(l, v, NULL);
    } while (lex_punct(l, ','));
    lex_expect(l, ';');
}

void place_passed(struct loader *l, struct variable *v) {
    v->space = SPACE_LOCAL;
    place_local(l, l->function, v);
}

struct variable *parse_formal(struct loader *l, enum passing passing) {
    struct prefix prefix = parse_prefix(l, true);
    prefix.formal = true;
    return parse_of_function(l, &prefix, 1, passing);
}

/* The value behind a variable's name, or its size alone. */
static void parse_content(struct loader *l, struct variable *v, const struct dimensions *size, struct filling *fill) {
    const u32 line = l->token.line;
    const bool external = v->linkage == LINKAGE_EXTERN;
    if (lex_punct(l, '=')) {
        if (v->space != SPACE_GLOBAL && v->space != SPACE_CONST)
            load_fail(l, line, "only global and constant variables have initialisers");
        if (external)
            load_fail(l, line, "`%.*s` is .extern: its initialiser is where it is defined", (int)v->name.length,
                      v->name.at);
        parse_initial(l, fill, v, size);
    } else if (size->open && !external) {
        load_fail(l, line, "`%.*s` has an open dimension and no initialiser", (int)v->name.length, v->name.at);
    } else if (size->open) {
        v->bytes = 0;
    }
}

/* After the space's name; to the semicolon. */
void parse_variable(struct loader *l, enum space space, enum linkage linkage) {
    struct prefix prefix = parse_prefix(l, false);
    prefix.external = linkage == LINKAGE_EXTERN;
    if (prefix.managed && space != SPACE_GLOBAL) load_fail(l, l->behind, "`.managed` is of .global variables alone");
    if (lex_punct(l, ';')) return; /* of nothing */
    do {
        u32 line = l->token.line;
        struct dimensions *size = load_take(l, sizeof *size);
        struct variable *v = parse_declarator(l, &prefix, size);
        v->space = space;
        v->linkage = (u8)linkage;
        v->size = size;
        v->external = prefix.external && space == SPACE_SHARED && size->open;
        if (!l->function && special_known(v->name))
            load_fail(l, line, "`%.*s` is a special register", (int)v->name.length, v->name.at);
        struct filling fill = {0};
        if (!v->array && lex_punct(l, '<')) {
            add_variables(l, v, &fill);
            continue;
        }
        struct variable *before = declared_before(l, v);
        parse_content(l, v, size, &fill);
        if (before)
            declare_again(l, before, v, &fill);
        else
            add_variable(l, v, &fill);
    } while (lex_punct(l, ','));
    lex_expect(l, ';');
}

/* One .param of an entry, after ".param". */
struct variable *parse_parameter(struct loader *l) {
    struct function *f = l->function;
    struct prefix prefix = parse_prefix(l, true);
    parse_pointed(l);
    struct variable *v = parse_sized(l, &prefix, 1);
    v->space = SPACE_PARAM;
    f->param_bytes = align_up(f->param_bytes, v->align);
    v->offset = f->param_bytes;
    f->param_bytes += v->bytes;
    if (f->param_bytes > 32764) load_fail(l, l->behind, "parameters of more than 32764 bytes");
    symbol_add(l, v->name, SYMBOL_VARIABLE)->variable = v;
    return v;
}
