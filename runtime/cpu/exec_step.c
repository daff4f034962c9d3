/* exec_step.c - steps a warp: picks a group of threads that share a pc, runs an instruction, splits and merges groups.
 * Diverged threads meet again because the lowest pc goes first; a group that only loops yields to the others after a
 * while. */
#include <string.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif
#include <runtime/cpu/exec_async.h>
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/exec_copy.h>

/* After this many backward branches with other groups waiting, the one that waited longest runs for a turn. */
enum { DEBT_LIMIT = 32, TURN_STEPS = 64 };

void group_add(struct exec *x, u32 pc, u32 mask) {
    if (!mask) return;
    for (unsigned i = 0; i < x->group_count; i++)
        if (x->groups[i].pc == pc && !x->groups[i].waiting) {
            x->groups[i].mask |= mask;
            return;
        }
    x->groups[x->group_count++] = (struct group){pc, mask, x->clock, false};
}

static void group_remove(struct exec *x, unsigned at) {
    x->groups[at] = x->groups[--x->group_count];
}

/* Joins group `at` to another that has come to stand at the same pc. */
static void group_merge(struct exec *x, unsigned at) {
    for (unsigned i = 0; i < x->group_count; i++)
        if (i != at && x->groups[i].pc == x->groups[at].pc && x->groups[i].waiting == x->groups[at].waiting) {
            x->groups[i].mask |= x->groups[at].mask;
            if (x->groups[i].stamp < x->groups[at].stamp) x->groups[i].stamp = x->groups[at].stamp;
            group_remove(x, at);
            return;
        }
}

/* Index of the group to run, -1 when none can. */
static int choose(struct exec *x, u32 pick) {
    int lowest = -1, oldest = -1;
    unsigned ready = 0;
    for (unsigned i = 0; i < x->group_count; i++) {
        struct group *g = &x->groups[i];
        if (g->waiting) {
            if (!x->warp->cta->grid->predecessor_done) continue;
            g->waiting = false;
        }
        ready++;
        if (lowest < 0 || g->pc < x->groups[lowest].pc) lowest = (int)i;
        if (oldest < 0 || g->stamp < x->groups[oldest].stamp) oldest = (int)i;
    }
    if (ready < 2) {
        x->debt = x->turn = 0;
        return lowest;
    }
    if (pick) {
        unsigned nth = pick % ready;
        for (unsigned i = 0; i < x->group_count; i++)
            if (!x->groups[i].waiting && nth-- == 0) return (int)i;
    }
    if (x->turn) { /* the group whose turn it is has the newest stamp */
        x->turn--;
        int newest = lowest;
        for (unsigned i = 0; i < x->group_count; i++)
            if (!x->groups[i].waiting && x->groups[i].stamp > x->groups[newest].stamp) newest = (int)i;
        return newest;
    }
    if (x->debt >= DEBT_LIMIT) {
        x->debt = 0;
        x->turn = TURN_STEPS;
        return oldest;
    }
    return lowest;
}

/* Straight there, or by jumps that all take: compilers put some between, most of all without optimisation. */
static bool is_exit(const struct exec *x, u32 pc) {
    enum { JUMPS = 16 };
    const struct op *ops = x->code->ops;
    for (int i = 0; i < JUMPS && pc + 1 < x->code->op_count && ops[pc].run == op_branch && ops[pc].guard == NO_GUARD;
         i++)
        pc = (u32)ops[pc].imm;
    return pc + 1 >= x->code->op_count || ops[pc].run == op_exit;
}

static void branch(struct exec *x, unsigned at, u32 taken, u32 target) {
    struct group *g = &x->groups[at];
    if (target <= g->pc && x->group_count > 1) {
        x->debt++;
        x->turn = 0;
    }
    if (taken == g->mask) {
        g->pc = target;
    } else {
        g->mask &= ~taken;
        g->pc++;
        if (is_exit(x, target)) x->left |= taken;
        if (is_exit(x, g->pc)) x->left |= g->mask;
        group_add(x, target, taken);
    }
    if (x->group_count > 1) group_merge(x, at);
}

/* The active lanes have left the group (exited or parked); the rest, whose guard was false, go on. */
static void leave(struct exec *x, unsigned at, u32 gone) {
    struct group *g = &x->groups[at];
    g->mask &= ~gone;
    if (!g->mask) {
        group_remove(x, at);
        return;
    }
    g->pc++;
    group_merge(x, at);
}

static void branch_indexed(struct exec *x, unsigned at, u32 m) {
    leave(x, at, m);
    FOR_LANES(lane, m) group_add(x, x->targets[lane], 1u << lane);
    if (x->group_count > 1) x->debt++;
}

static enum step_result finish_exit(struct exec *x, unsigned at, u32 m) {
    x->live &= ~m;
    if (m != x->groups[at].mask) x->left |= m;
    x->warp->progressed = true;
    if (x->copies && !copies_exit(x, m)) return STEP_FAULT;
    if (x->checker) check_exit(x, m);
    leave(x, at, m);
    if (x->parked_count && sync_settle(x) == RUN_FAULT) return STEP_FAULT;
    if (!x->live) {
        x->warp->state = WARP_DONE;
        x->warp->cta->live_warps--;
        if (!x->warp->cta->live_warps && !async_done(x)) return STEP_FAULT;
        return sync_warp_gone(x) == RUN_FAULT ? STEP_FAULT : STEP_DONE;
    }
    return STEP_RAN;
}

/* What an instruction asked of the groups. at: the group's index, m: the threads that executed it. */
static enum step_result after(struct exec *x, unsigned at, u32 m, int run, const struct op *op) {
    struct group *g = &x->groups[at];
    switch (run) {
    case RUN_STOP:
    case RUN_NEXT:
        g->pc++;
        if (x->group_count > 1) group_merge(x, at);
        return STEP_RAN;
    case RUN_BRANCH:
        branch(x, at, m, (u32)op->imm);
        return STEP_RAN;
    case RUN_INDEX:
        branch_indexed(x, at, m);
        return STEP_RAN;
    case RUN_EXIT:
        return finish_exit(x, at, m);
    case RUN_PARK:
        leave(x, at, m);
        return sync_settle(x) == RUN_FAULT ? STEP_FAULT : STEP_RAN;
    case RUN_WAIT:
        if (m != g->mask) { /* the others' guard was false: they go on */
            u32 rest = g->mask & ~m, pc = g->pc;
            g->mask = m;
            g->waiting = true;
            group_add(x, pc + 1, rest);
        } else {
            g->waiting = true;
            group_merge(x, at);
        }
        return STEP_RAN;
    default:
        exec_fault_complete(x, g->pc);
        return STEP_FAULT;
    }
}

/* No group can run: says why through the state, or faults. */
static enum step_result stuck(struct exec *x) {
    if (x->at_barrier) {
        x->warp->state = WARP_AT_BARRIER;
        return STEP_BLOCKED;
    }
    for (unsigned i = 0; i < x->group_count; i++)
        if (x->groups[i].waiting) {
            x->warp->state = WARP_AT_GRID_WAIT;
            return STEP_BLOCKED;
        }
    return sync_missing(x) == RUN_FAULT ? STEP_FAULT : STEP_BLOCKED;
}

static inline enum step_result step(struct exec *x, u32 pick, u64 *threads, int *run) {
    int at = choose(x, pick);
    if (at < 0) return stuck(x);
    struct group *g = &x->groups[at];
    const struct op *op = &x->code->ops[g->pc];
    u32 m = g->mask;
    *threads += (u32)__builtin_popcount(m);
    g->stamp = ++x->clock;
    if (op->guard != NO_GUARD) m &= op->guard_not ? ~x->predicates[op->guard] : x->predicates[op->guard];
    *run = m ? op->run(x, op, m) : RUN_NEXT;
    return after(x, (unsigned)at, m, *run, op);
}

/* The host's floating-point mode may not be ours: flushing of denormals comes with some libraries. */
static unsigned mode_enter(void) {
#ifdef __SSE2__
    unsigned mode = _mm_getcsr();
    if ((mode & ~0x3Fu) != 0x1F80) _mm_setcsr(0x1F80);
    return mode;
#else
    return 0;
#endif
}

static void mode_leave(unsigned mode) {
#ifdef __SSE2__
    if ((mode & ~0x3Fu) != 0x1F80) _mm_setcsr(mode);
#else
    (void)mode;
#endif
}

static bool enter(struct exec *x, struct world *world, struct fault *fault) {
    x->world = world;
    x->fault = fault;
    if (x->warp->state == WARP_AT_GRID_WAIT && x->warp->cta->grid->predecessor_done) x->warp->state = WARP_READY;
    return x->warp->state == WARP_READY;
}

enum step_result warp_step(struct world *world, struct warp *warp, uint32_t pick, unsigned *thread_count,
                           struct fault *fault) {
    struct exec *x = warp->exec;
    u64 threads = 0;
    int run;
    if (warp->state == WARP_DONE) return STEP_DONE;
    if (!enter(x, world, fault)) return STEP_BLOCKED;
    unsigned mode = mode_enter();
    enum step_result result = step(x, pick, &threads, &run);
    mode_leave(mode);
    *thread_count = (unsigned)threads;
    return result;
}

/* The lone group runs on until something but "next" comes. */
static inline unsigned run_alone(struct exec *x, unsigned budget, u64 *threads, int *run, u32 *active) {
    struct group *g = &x->groups[0];
    const struct op *op = &x->code->ops[g->pc];
    const u32 mask = g->mask;
    unsigned count = 0;
    u32 m;
    do {
        m = mask;
        if (op->guard != NO_GUARD) {
            m &= op->guard_not ? ~x->predicates[op->guard] : x->predicates[op->guard];
            *run = m ? op->run(x, op, m) : RUN_NEXT;
        } else {
            *run = op->run(x, op, m);
        }
        count++;
        op++;
        if (*run == RUN_BRANCH && m == mask && x->group_count == 1) { /* a uniform branch */
            op = &x->code->ops[op[-1].imm];
            *run = RUN_NEXT;
        }
    } while (*run == RUN_NEXT && count < budget);
    if (*run != RUN_NEXT) op--;
    g->pc = (u32)(op - x->code->ops);
    x->clock += count;
    g->stamp = x->clock;
    *threads += (u64)count * (u32)__builtin_popcount(mask);
    *active = m;
    return count;
}

enum step_result warp_run(struct world *world, struct warp *warp, unsigned budget, uint64_t *ran, uint64_t *threads,
                          struct fault *fault) {
    struct exec *x = warp->exec;
    if (warp->state == WARP_DONE) return STEP_DONE;
    if (!enter(x, world, fault)) return STEP_BLOCKED;
    unsigned mode = mode_enter();
    enum step_result result = STEP_RAN;
    u64 count = 0, executed = 0;
    while (count < budget) {
        int run = RUN_NEXT;
        if (x->group_count == 1 && !x->groups[0].waiting) {
            u32 active;
            count += run_alone(x, budget - (unsigned)count, &executed, &run, &active);
            if (run == RUN_NEXT) break;
            result = after(x, 0, active, run, &x->code->ops[x->groups[0].pc]);
        } else {
            result = step(x, 0, &executed, &run);
            count += result == STEP_RAN || result == STEP_DONE;
        }
        if (result != STEP_RAN || run == RUN_STOP) break;
    }
    mode_leave(mode);
    *ran += count;
    *threads += executed;
    return result == STEP_BLOCKED && count ? STEP_RAN : result;
}
