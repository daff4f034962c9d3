/* ptx_shared.c - the shared memory of an entry.
 * It holds what the entry and the functions that it calls declare, and those variables of the module that one of their
 * bodies names, whether or not that is ever reached: so ptxas has it. Those of the module come first. Places are given
 * when the body has been read, and encoded at once: a variable of the module has another one in each entry.
 */
#include <runtime/cpu/ptx.h>

void shared_add(struct loader *l, struct variable *v) {
    struct shared_list *list = l->function ? &l->function->shared : &l->module_shared;
    if (list->last)
        list->last->next_shared = v;
    else
        list->first = v;
    list->last = v;
}

static void add_name(struct loader *l, struct function *f, const struct variable *v) {
    struct shared_name *name = load_take(l, sizeof *name);
    *name = (struct shared_name){
        .next = f->code.shared, .name = v->name.at, .length = v->name.length, .offset = v->offset, .bytes = v->bytes};
    f->code.shared = name;
}

static void place(struct loader *l, struct function *f, struct variable *v) {
    f->shared_bytes = align_up(f->shared_bytes, v->align);
    v->offset = SHARED_BASE + f->shared_bytes;
    f->shared_bytes += v->bytes;
    add_name(l, f, v);
}

void shared_place(struct loader *l, struct function *f) {
    struct ptx_function *p = &f->public;
    const unsigned align = l->dynamic_align > 16 ? l->dynamic_align : 16;
    for (struct variable *v = l->module_shared.first; v; v = v->next_shared)
        if (v->user == f) place(l, f, v);
    for (struct variable *v = f->shared.first; v; v = v->next_shared)
        place(l, f, v);
    const u64 bytes = l->dynamic_align ? align_up(f->shared_bytes, align) : f->shared_bytes;
    if (p->name && bytes > CTA_SHARED_MAX)
        load_fail(l, l->behind,
                  "the shared variables that `" SHOWN_NAME "` declares or names, calls included, have %llu bytes, and "
                  "%d are the most",
                  p->name, (unsigned long long)bytes, CTA_SHARED_MAX);
    p->static_shared = (unsigned)bytes;
}
