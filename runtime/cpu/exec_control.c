/* exec_control.c - branches, exits, programmatic launch, and instructions that do nothing here. */
#include <runtime/cpu/exec_ops.h>

int op_branch(struct exec *x, const struct op *o, u32 m) {
    (void)x, (void)o, (void)m;
    return RUN_BRANCH;
}

/* brx.idx: imm is the first of count targets in extra. */
int op_branch_index(struct exec *x, const struct op *o, u32 m) {
    const u32 *index = AT(x, o->a);
    u32 count = x->code->extra[o->extra];
    FOR_LANES(l, m) {
        if (index[l] >= count)
            return exec_fault(x, l, FAULT_LAUNCH, "branch index %u: there are %u targets", index[l], count);
        x->targets[l] = x->code->extra[o->extra + 1 + index[l]];
    }
    return RUN_INDEX;
}

int op_exit(struct exec *x, const struct op *o, u32 m) {
    (void)x, (void)o, (void)m;
    return RUN_EXIT;
}

int op_trap(struct exec *x, const struct op *o, u32 m) {
    (void)o;
    return exec_fault(x, (unsigned)__builtin_ctz(m), FAULT_ILLEGAL_INSTRUCTION, "trap");
}

int op_nothing(struct exec *x, const struct op *o, u32 m) {
    (void)x, (void)o, (void)m;
    return RUN_NEXT;
}

/* nanosleep and its like: the others get a turn. */
int op_yield(struct exec *x, const struct op *o, u32 m) {
    (void)x, (void)o, (void)m;
    return RUN_STOP;
}

int op_grid_wait(struct exec *x, const struct op *o, u32 m) {
    (void)o, (void)m;
    if (!x->warp->cta->grid->predecessor_done) return RUN_WAIT;
    world_waited(x->world, x->warp);
    return RUN_NEXT;
}

int op_grid_launch(struct exec *x, const struct op *o, u32 m) {
    (void)o, (void)m;
    x->warp->cta->triggered = true;
    return RUN_STOP;
}

int op_activemask(struct exec *x, const struct op *o, u32 m) {
    u32 *d = AT(x, o->d);
    FOR_LANES(l, m) d[l] = m;
    return RUN_NEXT;
}
