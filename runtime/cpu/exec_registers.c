/* exec_registers.c - setmaxnreg: which warp has how many registers, and the CTA's pool of those given up.
 * Counts alone: registers here have no number. An increase waits, as at a barrier, until the pool holds enough. What a
 * warp has when it exits goes to the pool. Kept only when the launch says how many registers a thread begins with. */
#include <runtime/cpu/exec_async.h>

static struct barriers *state_of(const struct exec *x) {
    return x->warp->cta->exec;
}

/* Warps that wait and can be served, in order. */
static void serve(struct cta *cta) {
    struct barriers *state = cta->exec;
    for (unsigned w = 0; w < cta->warp_count; w++) {
        struct exec *y = exec_of(cta, w);
        if (!y->at_barrier || y->barrier != REGISTER_POOL) continue;
        u32 need = y->registers_wanted - y->registers;
        if (need > state->pool) continue;
        state->pool -= need;
        y->registers = y->registers_wanted;
        sync_resume(y);
    }
}

/* imm: the count; sub: 1 inc */
int sync_registers(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    const struct op *o = parts[0].op;
    u32 wanted = (u32)o->imm;
    (void)count;
    if (!x->registers) {
        sync_pass(x);
        return RUN_NEXT;
    }
    if (o->sub ? wanted < x->registers : wanted > x->registers)
        return exec_fault(x, (u32)__builtin_ctz(members), FAULT_LAUNCH,
                          "setmaxnreg.%s to %u: the warp has %u registers a thread", o->sub ? "inc" : "dec", wanted,
                          x->registers);
    if (o->sub) {
        x->registers_wanted = wanted;
        x->at_barrier = true;
        x->barrier = REGISTER_POOL;
    } else {
        state_of(x)->pool += x->registers - wanted;
        x->registers = wanted;
        x->warp->progressed = true;
        sync_pass(x);
    }
    serve(x->warp->cta);
    return RUN_NEXT;
}

void registers_gone(struct exec *x) {
    state_of(x)->pool += x->registers;
    x->registers = 0;
    serve(x->warp->cta);
}

void registers_describe(const struct exec *x, char *text, size_t capacity) {
    if (x->at_barrier && x->barrier == REGISTER_POOL)
        exec_append(text, capacity, "; it has %u registers a thread and wants %u: the block's warps have given up %u",
                    x->registers, x->registers_wanted, state_of(x)->pool);
}
