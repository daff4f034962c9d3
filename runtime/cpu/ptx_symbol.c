/* ptx_symbol.c - names and what they stand for: nested scopes, register ranges, labels used before they are seen.
 * Owns loader->buckets and loader->scope; called by the parser only. */
#include <ctype.h>
#include <string.h>
#include <runtime/cpu/ptx.h>

static struct symbol **bucket_of(struct loader *l, struct text name) {
    return &l->buckets[text_hash(name) % SYMBOL_BUCKETS];
}

void scope_open(struct loader *l) {
    if (++l->depth > 200) load_fail(l, l->token.line, "more than 200 nested scopes");
    struct name_scope *scope = load_take(l, sizeof *scope);
    scope->outer = l->scope;
    scope->depth = l->depth;
    l->scope = scope;
}

/* The label of this name that this very scope defines, or NULL. */
static struct label *label_here(struct loader *l, struct text name) {
    struct symbol *s = symbol_find(l, name);
    return s && s->kind == SYMBOL_LABEL && s->scope == l->scope ? s->label : NULL;
}

const struct label *scope_settle(struct loader *l) {
    struct label **at = &l->scope->pending;
    while (*at) {
        const struct label *seen = label_here(l, (*at)->name);
        if (seen) {
            (*at)->position = seen->position;
            *at = (*at)->next;
        } else {
            at = &(*at)->next;
        }
    }
    return l->scope->pending;
}

/* Labels that the scope used and did not define are looked for one scope further out, when that closes. */
void scope_close(struct loader *l) {
    struct name_scope *scope = l->scope;
    scope_settle(l);
    for (struct label *label = scope->pending, *next; label; label = next) {
        next = label->next;
        label->next = scope->outer->pending;
        scope->outer->pending = label;
    }
    for (struct symbol *s = scope->symbols; s; s = s->scope_next)
        *bucket_of(l, s->name) = s->next; /* the newest of its bucket: scopes close in order */
    l->scope = scope->outer;
    l->depth--;
}

/* To who names it: of the module's names those that are declared before in the text, wherever it has been read to. */
static bool visible(const struct symbol *s, struct text name) {
    return !s->scope->hidden && (s->scope->outer || s->name.at <= name.at);
}

/* What is declared as this very name, innermost first. */
static struct symbol *find_exact(struct loader *l, struct text name) {
    for (struct symbol *s = *bucket_of(l, name); s; s = s->next)
        if (!s->range && visible(s, name) && text_same(s->name, name)) return s;
    return NULL;
}

/* The range that a name is a member of, as %r12 is of %r<100>, and %r012; its number in it. What is before all digits
 * at the end is the range's name: %r12 is of no range %r1. */
static struct symbol *find_range(struct loader *l, struct text name, u32 *number) {
    u32 stem = name.length;
    while (stem && isdigit((unsigned char)name.at[stem - 1]))
        stem--;
    if (stem == name.length) return NULL;
    u64 value = 0;
    for (u32 i = stem; i < name.length && value <= UINT32_MAX; i++)
        value = value * 10 + (unsigned)(name.at[i] - '0');
    const struct text range = {name.at, stem};
    for (struct symbol *s = *bucket_of(l, range); s; s = s->next)
        if (s->range && visible(s, name) && value < s->count && text_same(s->name, range)) {
            *number = (u32)value;
            return s;
        }
    return NULL;
}

/* Of a name and a range that has it as a member, the inner one; in one scope the range. */
static struct symbol *find(struct loader *l, struct text name, u32 *number) {
    struct symbol *exact = find_exact(l, name), *range = find_range(l, name, number);
    if (range && (!exact || range->scope->depth >= exact->scope->depth)) return range;
    *number = 0;
    return exact;
}

struct symbol *symbol_find(struct loader *l, struct text name) {
    u32 number;
    struct symbol *s = find(l, name, &number);
    return s && s->range && s->members ? &s->members[number] : s;
}

/* A register by its own name, or as member of a range. */
struct symbol *symbol_reg(struct loader *l, struct text name, u32 *vreg) {
    u32 number;
    struct symbol *s = find(l, name, &number);
    if (!s || s->kind != SYMBOL_REGS) return NULL;
    *vreg = s->first + number;
    return s;
}

static _Noreturn void twice(struct loader *l, struct text name) {
    load_fail(l, line_of(l, name.at), "`%.*s` is declared twice in one scope", (int)name.length, name.at);
}

/* _ alone is a sink, $ and % alone are nothing, %tid.x has a part: none is a name that can be declared. */
static void check_name(struct loader *l, struct text name) {
    bool part = memchr(name.at, '.', name.length) != NULL;
    bool word = text_is(name, "WARP_SZ") || text_is(name, "inlined_at") || text_is(name, "function_name");
    if (part || word || (name.length == 1 && !isalpha((unsigned char)name.at[0])))
        load_fail(l, line_of(l, name.at), "`%.*s` cannot be declared", (int)name.length, name.at);
}

static struct symbol *add(struct loader *l, struct text name, enum symbol_kind kind, bool range) {
    check_name(l, name);
    if (kind == SYMBOL_FUNCTION && special_known(name))
        load_fail(l, line_of(l, name.at), "`%.*s` is a special register", (int)name.length, name.at);
    struct symbol **bucket = bucket_of(l, name);
    for (struct symbol *s = *bucket; s && s->scope == l->scope; s = s->next)
        if (s->range == range && text_same(s->name, name)) twice(l, name);
    struct symbol *symbol = load_take(l, sizeof *symbol);
    symbol->scope = l->scope;
    symbol->name = name;
    symbol->kind = kind;
    symbol->range = range;
    symbol->next = *bucket;
    symbol->scope_next = l->scope->symbols;
    *bucket = symbol;
    l->scope->symbols = symbol;
    return symbol;
}

struct symbol *symbol_add(struct loader *l, struct text name, enum symbol_kind kind) {
    struct symbol *symbol = add(l, name, kind, false);
    if (kind == SYMBOL_LABEL || kind == SYMBOL_TARGETS) return symbol; /* %p1: may stand beside %p<2> */
    u32 number;
    const struct symbol *range = find_range(l, name, &number);
    if (range && range->scope == l->scope) twice(l, name);
    return symbol;
}

/* The number behind a stem as it is written for a member: 12 of %r12; 0 where there is none, as in %r, %r01, and of
 * %r0, which ptxas does not look for, either. */
static u64 member_number(struct text name, u32 stem) {
    u64 number = 0;
    if (name.length - stem > 9 || name.at[stem] == '0') return 0;
    for (u32 i = stem; i < name.length; i++) {
        if (!isdigit((unsigned char)name.at[i])) return 0;
        number = number * 10 + (unsigned)(name.at[i] - '0');
    }
    return number;
}

struct symbol *symbol_add_range(struct loader *l, struct text name, enum symbol_kind kind, u32 count) {
    for (const struct symbol *s = l->scope->symbols; s; s = s->scope_next)
        if (!s->range && (s->kind == SYMBOL_REGS || s->kind == SYMBOL_VARIABLE) && s->name.length > name.length &&
            memcmp(s->name.at, name.at, name.length) == 0) {
            u64 number = member_number(s->name, name.length);
            if (number && number < count) twice(l, s->name);
        }
    struct symbol *symbol = add(l, name, kind, true);
    symbol->count = count;
    return symbol;
}

struct label *label_use(struct loader *l, struct text name, u32 line) {
    struct label *seen = label_here(l, name);
    if (seen) return seen;
    struct label *label = load_take(l, sizeof *label);
    label->name = name;
    label->line = line;
    label->position = -1;
    label->next = l->scope->pending;
    l->scope->pending = label;
    return label;
}

/* Uses that came before it in this scope, or in scopes within, are filled when the scope closes. */
void label_define(struct loader *l, struct text name) {
    struct symbol *s = symbol_add(l, name, SYMBOL_LABEL);
    s->label = load_take(l, sizeof *s->label);
    s->label->name = name;
    s->label->position = l->function->insn_count;
}
