/* ptx_symbol.c - names and what they stand for: nested scopes, register ranges, labels used before they are seen.
 * Owns loader->buckets and loader->scope; called by the parser only. */
#include <ctype.h>
#include <string.h>
#include <runtime/cpu/ptx.h>

static struct symbol **bucket_of(struct loader *l, struct text name) {
    u32 hash = 2166136261u;
    for (u32 i = 0; i < name.length; i++)
        hash = (hash ^ (unsigned char)name.at[i]) * 16777619u;
    return &l->buckets[(hash ^ hash >> 15) % SYMBOL_BUCKETS];
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

struct symbol *symbol_find(struct loader *l, struct text name) {
    for (struct symbol *s = *bucket_of(l, name); s; s = s->next)
        if (s->kind != SYMBOL_RANGE && !s->scope->hidden && text_same(s->name, name)) return s;
    return NULL;
}

static _Noreturn void twice(struct loader *l, struct text name) {
    load_fail(l, line_of(l, name.at), "`%.*s` is declared twice in one scope", (int)name.length, name.at);
}

/* The number behind the stem of a member of a range, as in %r12; false where there is none: %r, %r01. */
static bool member_number(struct text name, u32 stem, u32 *number) {
    u32 digits = name.length - stem;
    if (name.length <= stem || digits > 9 || (digits > 1 && name.at[stem] == '0')) return false;
    *number = 0;
    for (u32 i = stem; i < name.length; i++) {
        if (!isdigit((unsigned char)name.at[i])) return false;
        *number = *number * 10 + (u32)(name.at[i] - '0');
    }
    return true;
}

/* _ alone is a sink, $ and % alone are nothing, %tid.x has a part: none is a name that can be declared. */
static void check_name(struct loader *l, struct text name) {
    bool part = memchr(name.at, '.', name.length) != NULL;
    if (part || text_is(name, "WARP_SZ") || (name.length == 1 && !isalpha((unsigned char)name.at[0])))
        load_fail(l, line_of(l, name.at), "`%.*s` cannot be declared", (int)name.length, name.at);
}

struct symbol *symbol_add(struct loader *l, struct text name, enum symbol_kind kind) {
    check_name(l, name);
    if (kind == SYMBOL_FUNCTION && special_known(name))
        load_fail(l, line_of(l, name.at), "`%.*s` is a special register", (int)name.length, name.at);
    struct symbol **bucket = bucket_of(l, name);
    for (struct symbol *s = *bucket; s && s->scope == l->scope; s = s->next)
        if ((s->kind == SYMBOL_RANGE) == (kind == SYMBOL_RANGE) && text_same(s->name, name)) twice(l, name);
    struct symbol *symbol = load_take(l, sizeof *symbol);
    symbol->scope = l->scope;
    symbol->name = name;
    symbol->kind = kind;
    symbol->next = *bucket;
    symbol->scope_next = l->scope->symbols;
    *bucket = symbol;
    l->scope->symbols = symbol;
    return symbol;
}

/* The innermost range that a name is a member of. */
static struct symbol *range_member(struct loader *l, struct text name, u32 *vreg) {
    struct symbol *s, *best = NULL;
    u32 digits = 0;
    while (digits < name.length && digits < 9 && isdigit((unsigned char)name.at[name.length - digits - 1]))
        digits++;
    for (u32 n = 1; n <= digits; n++) {
        struct text stem = {name.at, name.length - n};
        if (n > 1 && name.at[stem.length] == '0') continue; /* %r01 is not %r1 */
        u32 number = 0;
        for (u32 i = 0; i < n; i++)
            number = number * 10 + (u32)(name.at[stem.length + i] - '0');
        for (s = *bucket_of(l, stem); s; s = s->next)
            if (s->kind == SYMBOL_RANGE && !s->scope->hidden && text_same(s->name, stem) && number < s->count &&
                (!best || s->scope->depth > best->scope->depth)) {
                *vreg = s->first + number;
                best = s;
            }
    }
    return best;
}

/* A register by its own name, or as member of a range: %r12 of %r<100>. What is declared further inside hides what is
 * declared further out, be it a name or a range. */
struct symbol *symbol_reg(struct loader *l, struct text name, u32 *vreg) {
    struct symbol *s = symbol_find(l, name);
    struct symbol *member = s && s->scope == l->scope ? NULL : range_member(l, name, vreg);
    if (member && (!s || member->scope->depth > s->scope->depth)) return member;
    if (!s || s->kind != SYMBOL_REG) return NULL;
    *vreg = s->first;
    return s;
}

void symbol_check_names(struct loader *l, const struct symbol *range) {
    if (range->kind != SYMBOL_RANGE) {
        u32 vreg;
        const struct symbol *over = range_member(l, range->name, &vreg);
        if (over && over->scope == l->scope && over->count > 1) twice(l, range->name);
        return;
    }
    if (range->count < 2) return;
    u32 number, stem = range->name.length;
    for (const struct symbol *s = l->scope->symbols; s; s = s->scope_next)
        if (s->kind != SYMBOL_RANGE && s->name.length > stem && memcmp(s->name.at, range->name.at, stem) == 0 &&
            member_number(s->name, stem, &number) && number < range->count)
            twice(l, s->name);
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
