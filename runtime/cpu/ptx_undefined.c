/* ptx_undefined.c - registers that some path reads before it writes them, and those that are loaded from shared memory:
 * they are watched, each in a mask of lanes (exec_undefined.c). The first ptx_liveness.c has found; in functions too
 * large for it they are not watched. An operation's watches stand in the order of its uses, a 0 ends them. */
#include <stdio.h>
#include <string.h>
#include <runtime/cpu/exec_memory.h>
#include <runtime/cpu/exec_undefined.h>
#include <runtime/cpu/ptx.h>

/* What it loads may be shared bytes. A generic address of those comes from a variable's. */
static bool loads_shared(const struct code *c, const struct op *o) {
    return (o->run == op_load_window && o->space == SPACE_SHARED) || (o->run == op_load_generic && c->shared);
}

struct watching {
    struct loader *l;
    u32 *number; /* of a vreg, 0 none */
    u32 *watches, count, capacity;
    const struct insn *insn;
};

static void add(struct watching *w, u32 value) {
    if (w->count == w->capacity) w->watches = load_grow(w->l, w->watches, w->count, sizeof *w->watches, &w->capacity);
    w->watches[w->count++] = value;
}

static bool is(const struct insn *insn, unsigned operand, u32 vreg) {
    const struct operand *o = &insn->operands[operand];
    return operand < insn->operand_count && o->kind == O_REG && o->reg == vreg;
}

static void note(void *self, u32 vreg, bool written) {
    struct watching *w = self;
    const struct insn *insn = w->insn;
    u32 kind = 0;
    if (!w->number[vreg]) return;
    if (insn->guarded && insn->guard == vreg) kind = WATCH_GUARD;
    if (insn->form->encode == encode_selp && is(insn, 1, vreg) != is(insn, 2, vreg))
        kind = is(insn, 1, vreg) ? WATCH_CHOSEN : WATCH_NOT_CHOSEN;
    add(w, w->number[vreg] << 3 | (written ? (u32)WATCH_WRITTEN : kind));
}

static void mark(void *self, u32 vreg, bool written) {
    struct watching *w = self;
    if (written) w->number[vreg] = 1;
}

/* "%r5" */
static const char *name_of(struct loader *l, u32 vreg) {
    const struct register_range *r = l->function->ranges;
    char text[160] = "a register";
    while (r && vreg - r->first >= r->count)
        r = r->next;
    int length = r ? (int)(r->name.length < 100 ? r->name.length : 100) : 0;
    if (r && r->range)
        snprintf(text, sizeof text, "%.*s%u", length, r->name.at, vreg - r->first);
    else if (r)
        snprintf(text, sizeof text, "%.*s", length, r->name.at);
    char *name = load_take(l, strlen(text) + 1);
    memcpy(name, text, strlen(text));
    return name;
}

void encode_undefined_guards(struct loader *l) {
    struct function *f = l->function;
    struct code *c = &f->code;
    struct undefined *u = load_take(l, sizeof *u);
    struct watching w = {.l = l, .number = load_take(l, (f->vreg_count + 1) * sizeof *w.number)};
    for (u32 i = 0; i < f->insn_count; i++)
        if (loads_shared(c, &c->ops[i])) insn_registers(f->insns[i], mark, &w);
    for (u32 r = 0; r < f->vreg_count; r++)
        if (w.number[r] || (f->unset && f->unset[r])) w.number[r] = ++u->count;
    u->slots = load_take(l, (u->count + 1) * sizeof *u->slots);
    u->names = load_take(l, (u->count + 1) * sizeof *u->names);
    for (u32 r = 0; r < f->vreg_count; r++)
        if (w.number[r]) {
            u->names[w.number[r] - 1] = name_of(l, r);
            u->slots[w.number[r] - 1] = f->slots[r];
        }
    u->first = load_take(l, c->op_count * sizeof *u->first);
    u->inner = load_take(l, c->op_count * sizeof *u->inner);
    add(&w, 0);
    for (u32 i = 0; i < f->insn_count; i++) {
        const struct insn *insn = f->insns[i];
        u32 before = w.count;
        w.insn = insn;
        insn_registers(insn, note, &w);
        if (w.count == before) continue;
        add(&w, 0);
        u->first[i] = before;
        u->inner[i] = c->ops[i].run;
        c->ops[i].run = op_undefined_guard;
    }
    u->watches = w.watches;
    c->undefined = u;
}
