/* exec_copy.c - the flight of cp.async: begin, commit to a group, wait for groups, land.
 * The source is checked when the copy begins and read when it lands: at the wait in the fair schedule, at a random
 * moment up to then under the adversary (cta_land_copies). What may touch the bytes meanwhile is exec_copy_watch.c's.
 * Without the source (src-size 0, ignore-src) its address is not looked at, as on an H200. */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/exec_copy.h>
#include <runtime/cpu/exec_memory.h>

static struct copies *copies_of(struct exec *x) {
    if (!x->copies) x->copies = calloc(1, sizeof *x->copies);
    return x->copies;
}

/* ---- landing ---- */
static void explain_late(struct exec *x, const struct copy *copy) {
    exec_append(x->fault->text, sizeof x->fault->text, "; read as the cp.async landed that began at ");
    exec_append_place(x, copy->pc, x->fault->text, sizeof x->fault->text);
}

static bool land(struct exec *x, struct copy *copy) {
    struct cta *cta = x->warp->cta;
    u8 value[16] = {0};
    x->fault_lane = copy->lane;
    if (copy->wanted && !world_load(x->world, x->warp, thread_of(x, copy->lane), copy->from, value, copy->wanted,
                                    ORDER_WEAK, SCOPE_NONE, x->fault)) {
        explain_late(x, copy);
        return false;
    }
    if (memcmp(cta->shared + copy->to, value, copy->bytes) != 0) {
        memcpy(cta->shared + copy->to, value, copy->bytes);
        x->warp->progressed = true;
    }
    copy->landed = true;
    x->copies->flying--;
    cta->copies_flying--;
    return true;
}

bool cta_land_copies(struct world *world, struct cta *cta, struct fault *fault) {
    unsigned one_in = world_chance(world, 4) ? 1 : 6;
    for (unsigned w = 0; w < cta->warp_count && cta->copies_flying; w++) {
        struct exec *x = cta->warps[w]->exec;
        if (!x->copies || !x->copies->flying) continue;
        x->world = world;
        x->fault = fault;
        for (u32 i = 0; i < x->copies->count; i++) {
            struct copy *copy = &x->copies->at[i];
            if (copy->landed || !world_chance(world, one_in)) continue;
            if (land(x, copy)) continue;
            exec_fault_complete(x, copy->pc);
            return false;
        }
    }
    return true;
}

/* ---- beginning ---- */
/* How many bytes the lane reads; -1: fault. */
static int wanted_bytes(struct exec *x, const struct op *o, u32 lane) {
    if (o->c != NO_OPERAND && predicate_read(x, o->c) >> lane & 1) return 0;
    if (o->b == NO_OPERAND) return o->bytes;
    u32 size = ((const u32 *)AT(x, o->b))[lane];
    if (size <= o->bytes) return (int)size;
    exec_fault(x, lane, FAULT_MISALIGNED, "a src-size of %u is more than the %u bytes of the cp.async", size, o->bytes);
    return -1;
}

static bool source_fits(struct exec *x, u32 lane, const struct copy *copy) {
    u8 value[16];
    if (WINDOW_OF(copy->from)) {
        exec_fault(x, lane, FAULT_ADDRESS_SPACE, "generic address 0x%llx is not in global memory: cp.async reads there",
                   (unsigned long long)copy->from);
        return false;
    }
    if (copy->from % copy->bytes) {
        exec_fault(x, lane, FAULT_MISALIGNED, "source address 0x%llx is not aligned to the %u bytes of the cp.async",
                   (unsigned long long)copy->from, copy->bytes);
        return false;
    }
    x->fault_lane = lane;
    return world_load(x->world, x->warp, thread_of(x, lane), copy->from, value, copy->wanted, ORDER_WEAK, SCOPE_NONE,
                      x->fault);
}

static bool begin(struct exec *x, const struct op *o, u32 lane, u64 to, u64 from) {
    struct cta *cta = x->warp->cta;
    if (WINDOW_OF(to) && space_of(&to) != SPACE_SHARED) {
        exec_fault(x, lane, FAULT_ADDRESS_SPACE,
                   "generic address 0x%llx is not in shared memory: cp.async writes there", (unsigned long long)to);
        return false;
    }
    const u8 *at = window_at(x, lane, SPACE_SHARED, to, o->bytes, ACCESS_WRITE);
    int wanted = at ? wanted_bytes(x, o, lane) : -1;
    if (wanted < 0) return false;
    struct copy copy = {.from = from,
                        .to = (u32)(at - cta->shared),
                        .pc = (u32)(o - x->code->ops),
                        .group = x->copies->committed[lane],
                        .lane = (u8)lane,
                        .bytes = o->bytes,
                        .wanted = (u8)wanted,
                        .words = o->bytes / 4};
    if (copy.wanted && !source_fits(x, lane, &copy)) return false;
    if (!copies_track(x, &copy)) {
        exec_fault(x, lane, FAULT_LAUNCH, "out of host memory for the copies under way");
        return false;
    }
    x->copies->flying++;
    cta->copies_flying++;
    return !world_chance(x->world, 4) || land(x, &x->copies->at[x->copies->count - 1]);
}

/* a, imm: destination; extra: the source's register, offset (two words) and width; b: src-size, c: ignore-src. */
int op_copy(struct exec *x, const struct op *o, u32 m) {
    const u32 *extra = x->code->extra + o->extra;
    const struct op source = {
        .a = extra[0], .imm = (s64)((u64)extra[2] << 32 | extra[1]), .flags = extra[3] ? F_WIDE_ADDRESS : 0};
    u64 to[WARP], from[WARP];
    if (!copies_of(x)) return exec_fault(x, (u32)__builtin_ctz(m), FAULT_LAUNCH, "out of host memory for a cp.async");
    lane_addresses(x, o, to);
    lane_addresses(x, &source, from);
    note_touch(x, o, false, SPACE_GLOBAL, from[__builtin_ctz(m)]);
    FOR_LANES(l, m)
    if (!begin(x, o, l, to[l], from[l])) return RUN_FAULT;
    return RUN_NEXT;
}

/* ---- groups ---- */
int op_copy_commit(struct exec *x, const struct op *o, u32 m) {
    (void)o;
    struct copies *copies = copies_of(x);
    if (!copies) return exec_fault(x, (u32)__builtin_ctz(m), FAULT_LAUNCH, "out of host memory for a cp.async");
    FOR_LANES(l, m) copies->committed[l]++;
    return RUN_NEXT;
}

/* imm: how many of a thread's newest groups may go on flying; sub: 1 wait_all, uncommitted ones too */
int op_copy_wait(struct exec *x, const struct op *o, u32 m) {
    struct copies *copies = x->copies;
    for (u32 i = copies ? copies->count : 0; i-- > 0;) {
        struct copy *copy = &copies->at[i];
        if (copy->lanes || !(m >> copy->lane & 1)) continue;
        if (!o->sub && copy->group + (u64)o->imm >= copies->committed[copy->lane]) continue;
        if (!copy->landed && !land(x, copy)) return RUN_FAULT;
        copies_waited(x, i);
    }
    return RUN_NEXT;
}

bool copies_exit(struct exec *x, u32 m) {
    for (u32 i = 0; x->copies && x->copies->flying && i < x->copies->count; i++) {
        struct copy *copy = &x->copies->at[i];
        if (copy->landed || !(m >> copy->lane & 1) || land(x, copy)) continue;
        exec_fault_complete(x, copy->pc);
        return false;
    }
    return true;
}

void copies_free(struct cta *cta) {
    struct barriers *state = cta->exec;
    for (unsigned i = 0; cta->warps && i < cta->warp_count; i++) {
        struct exec *x = cta->warps[i]->exec;
        if (x->copies) free(x->copies->at);
        free(x->copies);
    }
    if (!state) return;
    free(state->copy_owner);
    free(state->copy_words);
}
