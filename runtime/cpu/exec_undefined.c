/* exec_undefined.c - a read of a register that nobody has written, by lane; and a use of a register that was loaded
 * from shared bytes that nobody has written.
 *
 * Any read of a register never written counts, also one whose result is thrown away; selp reads the operand that it
 * chooses alone. Bytes from shared memory may be loaded and not used, and stored to shared memory again (they stay what
 * they are): a row may be copied whole, a vector be wider than what is asked of it. A predicate that guards an
 * operation is read by all threads that come to it; because a guard that is false hides the operation, predicates begin
 * as a mixture of both while the checker is on. */
#include <stdlib.h>
#include <runtime/cpu/bits.h>
#include <runtime/cpu/exec_memory.h>
#include <runtime/cpu/exec_undefined.h>

enum { MIXED = 0x5A3CC3A5, FIRST_PREDICATE = 2 }; /* before it: the sink, and the one that is always true */

bool undefined_begin(struct exec *x) {
    const struct undefined *u = x->code->undefined;
    if (!u || !u->count) return true;
    x->defined = calloc(u->count, sizeof *x->defined);
    for (unsigned p = FIRST_PREDICATE; x->defined && p < x->code->predicates; p++)
        x->predicates[p] = MIXED;
    return x->defined != NULL;
}

/* The lanes that stand at the operation, whatever their guard. */
static u32 all_here(const struct exec *x, u32 pc, u32 m) {
    for (unsigned i = 0; i < x->group_count; i++)
        if ((x->groups[i].mask & m) == m && (x->group_count == 1 || x->groups[i].pc == pc)) return x->groups[i].mask;
    return m;
}

static int unset(struct exec *x, u32 missing, const char *name) {
    return exec_fault(x, (u32)__builtin_ctz(missing), FAULT_LAUNCH,
                      "uninitialised register: %s is read, and the thread has not written it", name);
}

static int vague(struct exec *x, u32 lanes, const struct definition *d, const char *name) {
    u32 lane = (u32)__builtin_ctz(lanes);
    struct fault *fault = x->fault;
    exec_fault(x, lane, FAULT_LAUNCH,
               "uninitialised shared read: %s is used, which holds the bytes at shared address 0x%x", name,
               d->at[lane]);
    exec_append_name(x, d->at[lane], fault->text, sizeof fault->text);
    exec_append(fault->text, sizeof fault->text, ", and nobody has written them; it was loaded at ");
    exec_append_place(x, d->pc, fault->text, sizeof fault->text);
    return RUN_FAULT;
}

/* The lanes store to the CTA's shared memory what the register holds; its address is another matter. */
static bool stores_to_shared(const struct exec *x, const struct op *o, op_fn *run, u32 operand, u32 lanes) {
    u64 address[WARP];
    if (operand == o->a) return false;
    if (run == op_store_window) return o->space == SPACE_SHARED;
    if (run != op_store_generic) return false;
    lane_addresses(x, o, address);
    FOR_LANES(l, lanes)
    if (space_of(&address[l]) != SPACE_SHARED) return false;
    return true;
}

int op_undefined_guard(struct exec *x, const struct op *o, u32 m) {
    const struct undefined *u = x->code->undefined;
    u32 pc = (u32)(o - x->code->ops);
    op_fn *inner = u->inner[pc];
    for (const u32 *watch = u->watches + u->first[pc]; x->defined && *watch; watch++) {
        struct definition *d = &x->defined[(*watch >> 3) - 1];
        const char *name = u->names[(*watch >> 3) - 1];
        if (*watch & WATCH_WRITTEN) {
            d->lanes |= m;
            d->vague &= ~m;
            continue;
        }
        u32 kind = *watch & 6, lanes = kind == WATCH_GUARD ? all_here(x, pc, m) : m;
        if (!(lanes & ~d->lanes) && !(d->vague & m)) continue;
        if (kind >= WATCH_CHOSEN) lanes &= kind == WATCH_CHOSEN ? predicate_read(x, o->c) : ~predicate_read(x, o->c);
        if (lanes & ~d->lanes) return unset(x, lanes & ~d->lanes, name);
        lanes &= m & d->vague;
        if (lanes && !stores_to_shared(x, o, inner, u->slots[(*watch >> 3) - 1], lanes))
            return vague(x, lanes, d, name);
    }
    return inner(x, o, m);
}

/* Of an operation's watches the one of an operand. */
static struct definition *watched(const struct exec *x, const struct op *o, u32 operand) {
    const struct undefined *u = x->code->undefined;
    for (const u32 *watch = u->watches + u->first[o - x->code->ops]; x->defined && *watch; watch++)
        if (u->slots[(*watch >> 3) - 1] == operand) return &x->defined[(*watch >> 3) - 1];
    return NULL;
}

bool undefined_loaded(struct exec *x, const struct op *o, u32 lane, u32 known, u64 address) {
    for (unsigned i = 0; i < o->count; i++) {
        u32 all = bits_mask(o->bytes), here = known >> i * o->bytes & all, operand = x->code->extra[o->extra + i];
        struct definition *d = here == all || !operand ? NULL : watched(x, o, operand);
        if (here == all || !operand) continue; /* operand 0: thrown away */
        if (!d) return false;
        d->vague |= 1u << lane;
        d->pc = (u32)(o - x->code->ops);
        d->at[lane] = (u32)(address + i * o->bytes + (u32)__builtin_ctz(~here));
        bool sign = o->flags & F_SIGNED && !(here >> (o->bytes - 1) & 1); /* the bytes above are its sign */
        d->bytes[lane] = (u16)(sign ? ~here : all & ~here);
    }
    return true;
}

bool undefined_is_load(const struct exec *x, const struct op *o) {
    op_fn *run = o->run == op_undefined_guard ? x->code->undefined->inner[o - x->code->ops] : o->run;
    return run == op_load_generic || run == op_load_window;
}

u32 undefined_lanes(const struct exec *x, const struct op *o) {
    const struct undefined *u = x->code->undefined;
    u32 lanes = 0;
    if (!x->defined || o->run != op_undefined_guard) return 0;
    for (const u32 *watch = u->watches + u->first[o - x->code->ops]; *watch; watch++)
        lanes |= x->defined[(*watch >> 3) - 1].vague;
    return lanes;
}

u32 undefined_stored(const struct exec *x, const struct op *o, u32 lane) {
    u32 bytes = 0;
    for (unsigned i = 0; i < o->count; i++) {
        const struct definition *d = watched(x, o, x->code->extra[o->extra + i]);
        if (d && d->vague >> lane & 1) bytes |= (d->bytes[lane] & bits_mask(o->bytes)) << i * o->bytes;
    }
    return bytes;
}
