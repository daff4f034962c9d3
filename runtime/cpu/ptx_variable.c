/* ptx_variable.c - declarations: registers, variables of every space, parameters.
 * Lays out shared and local memory of a function and its parameters; global and constant variables go to the module's
 * list. */
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
        if (text_is(name, table[i].name)) return (struct type){table[i].kind, table[i].bits, true};
    return (struct type){0, 0, false};
}

static struct type parse_type(struct loader *l) {
    struct type type = l->token.kind == T_DOT ? type_named(l->token.text) : (struct type){0, 0, false};
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

void parse_registers(struct loader *l) {
    struct function *f = l->function;
    if (!f) load_fail(l, l->token.line, "registers at module scope are not supported: declare them in the entry");
    while (l->token.kind == T_DOT && l->token.text.length == 2 && l->token.text.at[0] == 'v')
        load_fail(l, l->token.line,
                  "vector registers are not supported: declare scalars and use { } in the instruction");
    bool halves = l->token.kind == T_DOT && text_is(l->token.text, "f16x2");
    struct type type = parse_type(l);
    if (type.bits == 8 && type.kind != REG_BITS && type.kind != REG_INT)
        load_fail(l, l->behind, "registers of this type do not exist");
    do {
        struct text name = parse_identifier(l);
        bool ranges = lex_punct(l, '<');
        struct symbol *s = symbol_add(l, name, ranges ? SYMBOL_RANGE : SYMBOL_REG);
        u64 count = 1;
        if (ranges) {
            if (l->token.kind != T_INTEGER)
                load_fail(l, l->token.line, "a count is expected in `%.*s<...>`", (int)name.length, name.at);
            count = l->token.bits;
            lex_next(l);
            lex_expect(l, '>');
        }
        if (count > 1 << 20 || f->vreg_count + count > 1 << 22)
            load_fail(l, l->behind, "more than %d registers in `%.*s`", 1 << 20, (int)name.length, name.at);
        s->first = f->vreg_count;
        s->count = (u32)count;
        symbol_check_names(l, s);
        while (f->vreg_count + count > f->vreg_capacity)
            f->vregs = load_grow(l, f->vregs, f->vreg_capacity, sizeof *f->vregs, &f->vreg_capacity);
        for (u64 i = 0; i < count; i++)
            f->vregs[f->vreg_count++] = (struct vreg){type.kind, type.bits, halves};
        struct register_range *range = load_take(l, sizeof *range);
        *range = (struct register_range){f->ranges, name, s->first, s->count, ranges};
        f->ranges = range;
    } while (lex_punct(l, ','));
    lex_expect(l, ';');
}

static u64 align_up(u64 value, u64 align) {
    return (value + align - 1) & ~(align - 1);
}

/* What stands before the name of variables and parameters. */
struct prefix {
    struct type type;
    struct text type_name;
    unsigned vector, align;
    bool half;   /* .f16: without an initialiser */
    bool formal; /* of a function: an array may have no size */
};

static unsigned parse_align(struct loader *l) {
    s64 align = constant_integer(l);
    if (align < 1 || align > 4096 || (align & (align - 1)))
        load_fail(l, l->behind, ".align %lld is not a power of two up to 4096", (long long)align);
    return (unsigned)align;
}

/* .attribute(.managed, .unified(1, 2)): nothing here depends on them. */
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
        if (lex_dot(l, "align"))
            p.align = parse_align(l);
        else if (lex_dot(l, "attribute"))
            parse_attributes(l);
        else
            break;
    if (lex_dot(l, "v2"))
        p.vector = 2;
    else if (lex_dot(l, "v4"))
        p.vector = 4;
    p.half = l->token.kind == T_DOT && text_is(l->token.text, "f16");
    bool pair = l->token.kind == T_DOT && text_is(l->token.text, "f16x2");
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
        if (n == 0 && p->formal) {
            size->open = true;
            n = 1;
        }
        if (n == 0)
            load_fail(l, l->behind, "`%.*s` has a dimension of 0", (int)v->name.length, v->name.at);
        else if (v->bytes > (1ull << 40) / n)
            load_fail(l, l->behind, "size %llu of `%.*s` is out of range", (unsigned long long)n, (int)v->name.length,
                      v->name.at);
        v->bytes *= n;
        size->at[size->count++] = n;
        lex_expect(l, ']');
    }
    if (size->vector) size->at[size->count++] = p->vector;
    return v;
}

static void add_module_variable(struct loader *l, struct variable *v, const struct filling *fill) {
    struct ptx_module *m = l->module;
    if (m->variable_count == m->variable_capacity)
        m->variables = load_grow(l, m->variables, m->variable_count, sizeof *m->variables, &m->variable_capacity);
    struct ptx_variable *out = &m->variables[m->variable_count];
    out->name = load_text(l, v->name);
    out->bytes = v->bytes;
    out->align = v->align;
    out->constant = v->space == SPACE_CONST;
    out->initial = fill->bytes;
    out->initial_bytes = fill->at;
    out->pointer_count = fill->pointer_count;
    out->pointers = fill->pointers;
    v->index = m->variable_count++;
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

static void add_shared_name(struct loader *l, const struct variable *v) {
    const struct shared_name **list = l->function ? &l->function->code.shared : &l->module_shared;
    struct shared_name *name = load_take(l, sizeof *name);
    *name = (struct shared_name){
        .next = *list, .name = v->name.at, .length = v->name.length, .offset = v->offset, .bytes = v->bytes};
    *list = name;
}

/* Shared variables of the module come first in every function, at the same place. */
static void place(struct loader *l, struct variable *v, const struct filling *fill) {
    struct function *f = l->function;
    u64 *shared = f ? &f->shared_bytes : &l->module_shared_bytes;
    switch (v->space) {
    case SPACE_SHARED:
        if (v->external) { /* dynamic: behind the static ones, wherever those end */
            l->dynamic_align = l->dynamic_align < v->align ? v->align : l->dynamic_align;
            break;
        }
        *shared = align_up(*shared, v->align);
        v->offset = SHARED_BASE + *shared;
        *shared += v->bytes;
        add_shared_name(l, v);
        if (*shared > 1 << 24) load_fail(l, l->behind, "shared variables of more than 16 MiB");
        break;
    case SPACE_LOCAL:
        place_local(l, f, v);
        break;
    case SPACE_GLOBAL:
    case SPACE_CONST:
        if (v->external)
            load_fail(l, l->behind, "`%.*s` is defined in another module: linking is not supported",
                      (int)v->name.length, v->name.at);
        if (v->space == SPACE_CONST) l->constant_bytes = align_up(l->constant_bytes, v->align) + v->bytes;
        if (l->constant_bytes > 1 << 16) load_fail(l, l->behind, "constant variables of more than 64 KiB");
        add_module_variable(l, v, fill);
        break;
    default:
        break;
    }
}

/* A parameter's name; it has a size. */
static struct variable *parse_sized(struct loader *l, const struct prefix *prefix, unsigned dimensions) {
    struct dimensions size;
    struct variable *v = parse_declarator(l, prefix, &size);
    v->array = size.count > 0;
    if (size.count > dimensions)
        load_fail(l, l->behind, "parameter `%.*s` has %u dimensions: entries and functions take one",
                  (int)v->name.length, v->name.at, size.count);
    v->open = size.open;
    if (v->open && !prefix->formal)
        load_fail(l, l->behind, "parameter `%.*s` has no size", (int)v->name.length, v->name.at);
    if (v->open) v->bytes = 0;
    return v;
}

void parse_passed(struct loader *l) {
    struct prefix prefix = parse_prefix(l, true);
    do {
        struct variable *v = parse_sized(l, &prefix, MAX_DIMENSIONS);
        v->passing = PASSING_ACTUAL;
        place_passed(l, v);
        struct symbol *s = symbol_add(l, v->name, SYMBOL_VARIABLE);
        s->variable = v;
        symbol_check_names(l, s);
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
    struct variable *v = parse_sized(l, &prefix, 1);
    if (v->align > 128)
        load_fail(l, l->behind, "the parameter of a function is aligned to 128 bytes at most, not %u", v->align);
    v->space = SPACE_LOCAL;
    v->passing = passing;
    return v;
}

/* After the space's name; to the semicolon. */
void parse_variable(struct loader *l, enum space space, bool external) {
    struct dimensions size;
    struct prefix prefix = parse_prefix(l, false);
    do {
        u32 line = l->token.line;
        struct variable *v = parse_declarator(l, &prefix, &size);
        v->space = space;
        v->external = external;
        v->array = size.count > size.vector;
        if (!l->function && special_known(v->name))
            load_fail(l, line, "`%.*s` is a special register", (int)v->name.length, v->name.at);
        struct filling fill = {0};
        if (lex_punct(l, '=')) {
            if (space != SPACE_GLOBAL && space != SPACE_CONST)
                load_fail(l, line, "only global and constant variables have initialisers");
            parse_initial(l, &fill, v, &size);
        } else if (size.open && !external) {
            load_fail(l, line, "`%.*s` has an open dimension and no initialiser", (int)v->name.length, v->name.at);
        } else if (size.open) {
            v->bytes = 0;
        }
        place(l, v, &fill);
        struct symbol *s = symbol_add(l, v->name, SYMBOL_VARIABLE);
        s->variable = v;
        symbol_check_names(l, s);
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
