/* exec_copy.c - the flight of cp.async: begin, commit to a group, wait for groups, land.
 * The source is checked when the copy begins and read when it lands: at the wait in the fair schedule, at a random
 * moment up to then under the adversary (cta_land_copies). What may touch the bytes meanwhile is exec_copy_watch.c's.
 * Without the source (src-size 0, ignore-src) its address is not looked at, as on an H200. */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/exec_async.h>
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_copy.h>
#include <runtime/cpu/exec_memory.h>
#include <runtime/cpu/exec_wgmma.h>

static struct copies *copies_of(struct exec *x) {
    if (!x->copies) x->copies = calloc(1, sizeof *x->copies);
    return x->copies;
}

/* ---- sources ---- */
enum { RUN_BYTES = 512 };

/* Copies first, first + 1, ... whose sources lie side by side: how many. With `due` only those that are to land now. */
static u32 run_of(const struct copy *at, u32 first, u32 count, bool due) {
    u32 next = first + 1, bytes = at[first].bytes;
    if (at[first].wanted != at[first].bytes) return 1;
    while (next < count && bytes < RUN_BYTES && at[next].wanted == at[next].bytes && (!due || at[next].due) &&
           at[next].from == at[next - 1].from + at[next - 1].bytes)
        bytes += at[next++].bytes;
    return next - first;
}

static bool load(struct exec *x, const struct copy *copy, u8 *to, unsigned bytes) {
    x->fault_lane = copy->lane;
    x->warp->pc = copy->pc;
    x->warp->element = 0;
    x->warp->early = copy->early;
    return world_load(x->world, x->warp, thread_of(x, copy->lane), copy->from, to, bytes, ORDER_WEAK, SCOPE_NONE,
                      x->fault);
}

/* The sources of a run side by side into `to`; where the world refuses, one by one: the copy at fault, else NULL. */
static const struct copy *load_run(struct exec *x, const struct copy *first, u32 count, u8 *to) {
    unsigned bytes = count == 1 ? first->wanted : 0;
    for (u32 i = 0; count > 1 && i < count; i++)
        bytes += first[i].bytes;
    if (!bytes || load(x, first, to, bytes)) return NULL;
    for (u32 i = 0; i < count; i++)
        if (!load(x, &first[i], to, first[i].wanted)) return &first[i];
    return first;
}

/* ---- landing ---- */
static void place(struct exec *x, struct copy *copy, u8 *value) {
    struct cta *cta = x->warp->cta;
    memset(value + copy->wanted, 0, (size_t)(copy->bytes - copy->wanted));
    if (memcmp(cta->shared + copy->to, value, copy->bytes) != 0) {
        memcpy(cta->shared + copy->to, value, copy->bytes);
        x->warp->progressed = true;
    }
    copy->landed = true;
    copy->due = false;
    x->copies->flying--;
    cta->copies_flying--;
    cta->landings++;
    struct async *a = async_of(cta);
    if (a && a->written) proxy_wrote(a, thread_of(x, copy->lane), copy->to, copy->bytes);
    check_written(cta, copy->to, copy->bytes);
    check_copied(x->world, cta, copy->to, copy->from, copy->wanted);
}

/* What is due lands. The copy whose source is no longer there, x->fault filled; else NULL. */
static const struct copy *land_due(struct exec *x) {
    struct copies *copies = x->copies;
    u8 value[RUN_BYTES + 16];
    for (u32 i = 0, run; i < copies->count; i += run) {
        run = 1;
        if (!copies->at[i].due) continue;
        run = run_of(copies->at, i, copies->count, true);
        const struct copy *wrong = load_run(x, &copies->at[i], run, value);
        if (wrong) {
            exec_append(x->fault->text, sizeof x->fault->text, "; read as the cp.async landed that began at ");
            exec_append_place(x, wrong->pc, x->fault->text, sizeof x->fault->text);
            return wrong;
        }
        for (u32 k = 0, at = 0; k < run; at += copies->at[i + k].bytes, k++)
            place(x, &copies->at[i + k], value + at);
    }
    return NULL;
}

/* The same away from an instruction that could be blamed. */
static bool land_alone(struct exec *x) {
    const struct copy *wrong = land_due(x);
    if (wrong) exec_fault_complete(x, wrong->pc);
    return !wrong;
}

bool cta_land_copies(struct world *world, struct cta *cta, struct fault *fault) {
    unsigned one_in = world_chance(world, 4) ? 1 : 6;
    for (unsigned w = 0; w < cta->warp_count && cta->copies_flying; w++) {
        struct exec *x = cta->warps[w]->exec;
        if (!x->copies || !x->copies->flying) continue;
        x->world = world;
        x->fault = fault;
        for (u32 i = 0; i < x->copies->count; i++)
            x->copies->at[i].due = !x->copies->at[i].landed && world_chance(world, one_in);
        if (!land_alone(x)) return false;
    }
    wgmma_land_some(world, cta, one_in);
    return bulk_land_some(world, cta, one_in, fault);
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

static bool source_fits(struct exec *x, const struct copy *copy) {
    if (WINDOW_OF(copy->from))
        exec_fault(x, copy->lane, FAULT_ADDRESS_SPACE,
                   "generic address 0x%llx is not in global memory: cp.async reads there",
                   (unsigned long long)copy->from);
    else if (copy->from % copy->bytes)
        exec_fault(x, copy->lane, FAULT_MISALIGNED,
                   "source address 0x%llx is not aligned to the %u bytes of the cp.async",
                   (unsigned long long)copy->from, copy->bytes);
    else
        return true;
    return false;
}

static bool fill(struct exec *x, const struct op *o, u32 lane, u64 to, u64 from, struct copy *copy) {
    if (WINDOW_OF(to) && space_of(&to) != SPACE_SHARED) {
        exec_fault(x, lane, FAULT_ADDRESS_SPACE,
                   "generic address 0x%llx is not in shared memory: cp.async writes there", (unsigned long long)to);
        return false;
    }
    const u8 *at = window_at(x, lane, SPACE_SHARED, to, o->bytes, ACCESS_NONE);
    int wanted = at ? wanted_bytes(x, o, lane) : -1;
    if (wanted < 0) return false;
    *copy = (struct copy){.from = from,
                          .to = (u32)(at - x->warp->cta->shared),
                          .pc = (u32)(o - x->code->ops),
                          .group = x->copies->committed[lane],
                          .lane = (u8)lane,
                          .early = world_asks_early(x->world, x->warp),
                          .bytes = o->bytes,
                          .wanted = (u8)wanted,
                          .words = o->bytes / 4};
    return !wanted || source_fits(x, copy);
}

static bool take_off(struct exec *x, struct copy *copy) {
    struct cta *cta = x->warp->cta;
    if (cta->copies && !copies_permit(x, copy->lane, 1u << copy->lane, copy->to, copy->bytes, ACCESS_WRITE))
        return false;
    if (x->checker && !check_async(x, &x->code->ops[copy->pc], copy->lane, cta, copy->to, copy->bytes, ACCESS_WRITE))
        return false;
    copy->due = world_chance(x->world, 4);
    if (!copies_track(x, copy)) {
        exec_fault(x, copy->lane, FAULT_LAUNCH, "out of host memory for the copies under way");
        return false;
    }
    x->copies->flying++;
    cta->copies_flying++;
    return true;
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
    struct copy fresh[WARP];
    u32 count = 0;
    u8 value[RUN_BYTES + 16];
    FOR_LANES(l, m)
    if (!fill(x, o, l, to[l], from[l], &fresh[count++])) return RUN_FAULT;
    for (u32 i = 0, run; i < count; i += run) {
        run = run_of(fresh, i, count, false);
        if (load_run(x, &fresh[i], run, value)) return RUN_FAULT;
    }
    for (u32 i = 0; i < count; i++)
        if (!take_off(x, &fresh[i])) return RUN_FAULT;
    return land_due(x) ? RUN_FAULT : RUN_NEXT;
}

/* ---- groups ---- */
int op_copy_commit(struct exec *x, const struct op *o, u32 m) {
    (void)o;
    struct copies *copies = copies_of(x);
    if (!copies) return exec_fault(x, (u32)__builtin_ctz(m), FAULT_LAUNCH, "out of host memory for a cp.async");
    FOR_LANES(l, m) copies->committed[l]++;
    return RUN_NEXT;
}

static bool covers(const struct op *o, const struct copies *copies, const struct copy *copy, u32 m) {
    return m >> copy->lane & 1 && !copy->lanes && (o->sub || copy->group + (u64)o->imm < copies->committed[copy->lane]);
}

/* imm: how many of a thread's newest groups may go on flying; sub: 1 wait_all, uncommitted ones too */
int op_copy_wait(struct exec *x, const struct op *o, u32 m) {
    struct copies *copies = x->copies;
    if (!copies) return RUN_NEXT;
    for (u32 i = 0; i < copies->count; i++)
        copies->at[i].due = !copies->at[i].landed && covers(o, copies, &copies->at[i], m);
    if (land_due(x)) return RUN_FAULT;
    u32 live = copies_live(x->warp->cta);
    for (u32 i = copies->count; i-- > 0;)
        if (covers(o, copies, &copies->at[i], m)) copies_waited(x, i, live);
    return RUN_NEXT;
}

bool copies_exit(struct exec *x, u32 m) {
    for (u32 i = 0; i < x->copies->count; i++)
        x->copies->at[i].due = !x->copies->at[i].landed && m >> x->copies->at[i].lane & 1;
    return land_alone(x);
}

void copies_free(struct cta *cta) {
    struct barriers *state = cta->exec;
    async_free(cta);
    for (unsigned i = 0; cta->warps && i < cta->warp_count; i++) {
        struct exec *x = cta->warps[i]->exec;
        if (x->copies) free(x->copies->at);
        free(x->copies);
    }
    if (!state) return;
    free(state->copy_owner);
    free(state->copy_words);
}
