/* ptx_extern.c - variables that a module declares more than once: as .extern, and where they are defined.
 * All declarations of one are of the same type and size, which .extern ones may leave open. A variable that stays
 * .extern is another module's; shared ones are not: open ones are dynamic shared memory, and ptxas defines the others
 * itself. (PTX ISA, section "Linking Directives")
 */
#include <runtime/cpu/ptx.h>

static bool same_size(const struct dimensions *a, const struct dimensions *b) {
    if (a->count != b->count || a->vector != b->vector) return false;
    for (unsigned i = 0; i < a->count; i++)
        if (a->at[i] != b->at[i] && !(i == 0 && (a->open || b->open))) return false;
    return true;
}

struct variable *declared_before(struct loader *l, const struct variable *v) {
    const int length = (int)v->name.length;
    const struct symbol *s = l->function ? NULL : symbol_find(l, v->name);
    if (!s || s->kind != SYMBOL_VARIABLE) return NULL;
    const struct variable *before = s->variable;
    const bool was = before->linkage == LINKAGE_EXTERN;
    if (!was && v->linkage != LINKAGE_EXTERN) return NULL; /* twice: symbol_add says so */
    if (!text_same(before->type_name, v->type_name) || !same_size(before->size, v->size))
        load_fail(l, l->behind, "`%.*s` is declared before, with another type or size", length, v->name.at);
    if (was && v->linkage == LINKAGE_NONE)
        load_fail(l, l->behind, "`%.*s` is .extern before: its definition is .visible, .weak or .common", length,
                  v->name.at);
    if (before->space != v->space)
        load_fail(l, l->behind, "`%.*s` is declared before in another state space: this is not supported", length,
                  v->name.at);
    return s->variable;
}

/* Instructions that are read already know where it is. */
static void share_again(struct loader *l, const struct variable *before, const struct variable *v) {
    if (before->external && !v->external)
        load_fail(l, l->behind, "`%.*s` is dynamic shared memory before: to state a size then is not supported",
                  (int)v->name.length, v->name.at);
    if (v->external && before->external)
        l->dynamic_align = l->dynamic_align < v->align ? v->align : l->dynamic_align;
    else if (v->align > before->align)
        load_fail(l, l->behind, "`%.*s` is aligned to %u bytes before: to state more then is not supported",
                  (int)v->name.length, v->name.at, before->align);
}

void declare_again(struct loader *l, struct variable *before, const struct variable *v, const struct filling *fill) {
    const bool was = before->linkage == LINKAGE_EXTERN;
    if (v->space == SPACE_SHARED) share_again(l, before, v);
    if (was && !v->size->open) before->size = v->size;
    if (!was || v->linkage == LINKAGE_EXTERN) return;
    before->linkage = v->linkage;
    if (v->space == SPACE_SHARED) return;
    before->size = v->size;
    before->bytes = v->bytes;
    before->align = v->align;
    define_variable(l, before, fill);
}

void externals_check(struct loader *l) {
    const struct variable *first = NULL;
    for (const struct symbol *s = l->scope->symbols; s; s = s->scope_next)
        if (s->kind == SYMBOL_VARIABLE && !s->range && s->variable->linkage == LINKAGE_EXTERN &&
            s->variable->space != SPACE_SHARED)
            first = s->variable;
    if (first)
        load_fail(l, line_of(l, first->name.at), "`%.*s` is defined in another module: linking is not supported",
                  (int)first->name.length, first->name.at);
}
