/* world_schedule.c - who steps next, what time it is, and when to stop because nothing will change.
 *
 * Fair: every warp that can run gets one burst a round, device by device. Adversary: random warps, random bursts,
 * devices of random speeds that pause as a whole. A round is one nanosecond of globaltimer; when for a whole window
 * nothing but polling happened, time jumps, further and further, so that bounded polls expire soon. Every loop here
 * ends: by done(), by a fault, by the no-progress rules. */
#include "runtime/cpu/world.h"

#include <string.h>

enum { FAIR_BURST = 512, WINDOW = 256, SILENT_ROUNDS = 8192 };
/* When other host threads may still launch something: real ns without progress before a verdict, and when a bounded
 * poll will end by itself. */
#define PATIENCE UINT64_C(1000000000)
#define PATIENCE_TIMED UINT64_C(60000000000)
#define WALL_MOST UINT64_C(600000000000) /* real ns of a call without a max_rounds of its own */
#define ROUNDS_MOST UINT64_C(4000000000)
#define JUMP_FIRST UINT64_C(10000)     /* ns */
#define JUMP_MOST UINT64_C(1000000000) /* ns */

void world_progressed(struct world *world) {
    world->pulse.progress = world->round;
    world->pulse.jump = 0;
}

bool warp_can_run(const struct warp *warp) {
    return warp->state == WARP_READY || (warp->state == WARP_AT_GRID_WAIT && warp->cta->grid->predecessor_done);
}

/* ---- one burst of one warp ------------------------------------------------------------------------- */
struct burst {
    unsigned budget;
    bool single; /* step by step, each with a random choice of diverged threads */
};

static enum step_result step_warp(struct world *world, struct warp *warp, struct burst burst, uint64_t *ran,
                                  uint64_t *threads, struct fault *fault) {
    if (!burst.single) return warp_run(world, warp, burst.budget, ran, threads, fault);
    enum step_result result = STEP_RAN;
    for (unsigned i = 0; i < burst.budget && result == STEP_RAN && !warp->polled && !warp->told; i++) {
        unsigned count = 0;
        if (warp->cta->copies_flying && world_chance(world, 12) && !cta_land_copies(world, warp->cta, fault))
            return STEP_FAULT;
        result = warp_step(world, warp, (uint32_t)world_random(world), &count, fault);
        *ran += count > 0;
        *threads += count;
    }
    return result;
}

static void note_flags(struct world *world, struct warp *warp, struct watch *watch) {
    watch->polled |= warp->polled;
    if (warp->read_timer) world->pulse.timer = world->round;
    if (warp->progressed) {
        watch->since = world->time;
        world_progressed(world);
    }
    warp->polled = warp->progressed = warp->read_timer = false;
}

static void fail_in(struct world *world, const struct launch *launch, struct fault *fault) {
    text_add(fault->text, sizeof fault->text, " [device %d, grid %llu]", launch->grid.device->ordinal,
             (unsigned long long)launch->grid.id);
    world_fail(world, fault);
}

struct outcome {
    bool ran, ended; /* ended: the CTA is gone */
};

static struct outcome run_warp(struct world *world, struct resident *resident, struct warp *warp, struct burst burst) {
    struct launch *launch = resident->launch;
    uint64_t ran = 0, threads = 0, left;
    if (launch->grid.device->stall_count && grid_stall_left(launch, &left)) {
        launch->stalled = left == 0;
        if (launch->stalled) return (struct outcome){.ran = false};
        if (left < burst.budget) burst.budget = (unsigned)left;
    }
    struct fault fault;
    fault.code = 0;
    fault.text[0] = 0;
    enum step_result result = step_warp(world, warp, burst, &ran, &threads, &fault);
    launch->grid.warp_steps += ran;
    world->counters.warp_instructions += ran;
    world->counters.thread_instructions += threads;
    note_flags(world, warp, &resident->watches[warp->index]);
    if (result == STEP_FAULT) {
        fail_in(world, launch, &fault);
        return (struct outcome){.ran = true};
    }
    return (struct outcome){.ran = ran > 0 || result == STEP_DONE, .ended = grid_after_step(world, resident)};
}

/* ---- the fair round -------------------------------------------------------------------------------- */
static bool run_resident(struct world *world, struct resident *resident) {
    bool ran = false;
    for (unsigned w = 0, count = resident->cta.warp_count; w < count && !world->faulted; w++) {
        struct warp *warp = resident->cta.warps[w];
        if (!warp_can_run(warp)) continue;
        struct outcome outcome = run_warp(world, resident, warp, (struct burst){.budget = FAIR_BURST});
        ran |= outcome.ran;
        if (outcome.ended) break;
    }
    return ran;
}

static bool run_fair_round(struct world *world) {
    bool ran = false;
    for (int d = 0; d < world->device_count; d++) {
        struct device *device = &world->devices[d];
        for (unsigned i = 0; i < device->resident_count && !world->faulted;) {
            struct resident *resident = device->residents[i];
            if (!resident->launch->stalled) ran |= run_resident(world, resident);
            if (i < device->resident_count && device->residents[i] == resident) i++; /* else another took its slot */
        }
    }
    world->turn++;
    return ran;
}

/* ---- the adversary's round ------------------------------------------------------------------------- */
static bool can_run(const struct resident *resident, const struct warp *warp) {
    return !resident->launch->stalled && warp_can_run(warp);
}

static unsigned count_runnable(const struct device *device) {
    unsigned count = 0;
    for (unsigned i = 0; i < device->resident_count; i++)
        for (unsigned w = 0; w < device->residents[i]->cta.warp_count; w++)
            count += can_run(device->residents[i], device->residents[i]->cta.warps[w]);
    return count;
}

static void change_speed(struct world *world, struct device *device) {
    if (world->round < device->speed_until) return;
    device->speed = 1u << world_below(world, 5);
    device->speed_until = world->round + 20 + world_below(world, 1000);
    if (world_below(world, 8) == 0) device->pause_until = world->round + world_below(world, 400);
}

static bool is_awake(const struct world *world, const struct resident *resident, unsigned w) {
    return can_run(resident, resident->cta.warps[w]) && resident->watches[w].rest_until <= world->turn;
}

/* Warps that rest are let be unless the device has no others. */
static struct warp *pick_warp(struct world *world, const struct device *device) {
    if (device->resident_count == 0) return NULL;
    for (unsigned attempt = 0; attempt < 8; attempt++) {
        const struct resident *r = device->residents[world_below(world, device->resident_count)];
        unsigned w = world_below(world, r->cta.warp_count);
        if (is_awake(world, r, w)) return r->cta.warps[w];
    }
    unsigned from = world_below(world, device->resident_count);
    struct warp *resting = NULL;
    for (unsigned i = 0; i < device->resident_count; i++) {
        const struct resident *r = device->residents[(from + i) % device->resident_count];
        for (unsigned w = 0; w < r->cta.warp_count; w++) {
            if (is_awake(world, r, w)) return r->cta.warps[w];
            if (can_run(r, r->cta.warps[w])) resting = r->cta.warps[w];
        }
    }
    return resting;
}

/* A warp, its warpgroup or its CTA falls behind the others: now and then anywhere, often where it has just told others
 * something and so lets them go on. */
static void fall_behind(struct world *world, struct resident *resident, const struct warp *warp, bool told) {
    enum { LONGEST = 14 /* 2^ turns */, GROUP = 4 };
    if (world_below(world, told ? 4 : 600)) return;
    unsigned first = warp->index, count = 1;
    switch (world_below(world, 4)) {
    case 0:
        first = 0;
        count = resident->cta.warp_count;
        break;
    case 1:
    case 2:
        first = first / GROUP * GROUP;
        count = GROUP;
        break;
    default:
        break;
    }
    uint64_t until = world->turn + (UINT64_C(1) << world_below(world, LONGEST + 1));
    for (unsigned w = first; w < first + count && w < resident->cta.warp_count; w++)
        resident->watches[w].rest_until = until;
}

static struct burst pick_burst(struct world *world) {
    switch (world_below(world, 8)) {
    case 0:
    case 1:
        return (struct burst){.budget = 1, .single = true};
    case 2:
    case 3:
        return (struct burst){.budget = 1 + world_below(world, 64), .single = true};
    default:
        return (struct burst){.budget = 1 + world_below(world, 200)};
    }
}

/* A device that may run, by its speed; NULL when every one of them pauses. */
static struct device *pick_device(struct world *world, const unsigned *runnable) {
    uint32_t total = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint32_t ticket = pass ? world_below(world, total) : 0;
        for (int d = 0; d < world->device_count; d++) {
            struct device *device = &world->devices[d];
            if (!runnable[d] || world->round < device->pause_until) continue;
            if (!pass)
                total += device->speed;
            else if (ticket < device->speed)
                return device;
            else
                ticket -= device->speed;
        }
        if (total == 0) return NULL;
    }
    return NULL;
}

/* Asynchronous copies of a CTA land now and then, whether or not it is its turn. */
static void land_copies(struct world *world, struct resident *resident) {
    struct fault fault;
    if (!resident->cta.copies_flying || !world_chance(world, 4)) return;
    fault.code = 0;
    fault.text[0] = 0;
    unsigned before = resident->cta.landings;
    if (!cta_land_copies(world, &resident->cta, &fault)) fail_in(world, resident->launch, &fault);
    if (resident->cta.landings != before) world_progressed(world);
}

static void land_somewhere(struct world *world) {
    const struct device *device = &world->devices[world_below(world, (uint32_t)world->device_count)];
    if (device->resident_count) land_copies(world, device->residents[world_below(world, device->resident_count)]);
}

static bool copies_fly(const struct device *device) {
    for (unsigned i = 0; i < device->resident_count; i++)
        if (device->residents[i]->cta.copies_flying) return true;
    return false;
}

static bool run_adverse_round(struct world *world) {
    unsigned runnable[MAX_DEVICES], picks = 0;
    bool ran = false, flying = false;
    for (int d = 0; d < world->device_count; d++) {
        runnable[d] = count_runnable(&world->devices[d]);
        picks += runnable[d];
        flying |= copies_fly(&world->devices[d]);
        change_speed(world, &world->devices[d]);
    }
    world->turns_a_round = picks ? picks : 1;
    for (unsigned p = 0; p < picks && !world->faulted; p++) {
        world->turn++;
        if (world->wire.flying) wire_land_due(world);
        if (flying) land_somewhere(world);
        struct device *device = pick_device(world, runnable);
        struct warp *warp = device ? pick_warp(world, device) : NULL;
        if (!warp) continue;
        struct resident *resident = (struct resident *)(void *)warp->cta;
        land_copies(world, resident);
        if (world->faulted) break;
        warp->told = false;
        struct outcome outcome = run_warp(world, resident, warp, pick_burst(world));
        ran |= outcome.ran;
        if (!outcome.ended && !world->faulted) fall_behind(world, resident, warp, warp->told);
    }
    return ran;
}

/* ---- no progress ----------------------------------------------------------------------------------- */
static bool anything_held_back(const struct world *world) {
    for (int d = 0; d < world->device_count; d++)
        for (const struct launch *l = world->devices[d].started; l; l = l->next)
            if (l->stalled) return true;
    return world->wire.held > 0;
}

/* Nothing can run now or later by itself. */
static bool is_stuck(const struct world *world) {
    if (world->wire.flying || world->delayed || world->dirty) return false;
    for (int d = 0; d < world->device_count; d++)
        if (count_runnable(&world->devices[d]) || grid_could_place(world, &world->devices[d])) return false;
    return true;
}

/* Every warp that can run has polled in this window. Starts the next window. */
static bool all_polled(struct world *world) {
    bool all = true;
    for (int d = 0; d < world->device_count; d++) {
        const struct device *device = &world->devices[d];
        for (unsigned i = 0; i < device->resident_count; i++)
            for (unsigned w = 0; w < device->residents[i]->cta.warp_count; w++) {
                struct watch *watch = &device->residents[i]->watches[w];
                if (!watch->polled && can_run(device->residents[i], device->residents[i]->cta.warps[w])) all = false;
                watch->polled_before = watch->polled;
                watch->polled = false;
            }
    }
    return all;
}

static bool timer_was_read(const struct world *world) {
    uint64_t last = world->pulse.timer > world->pulse.progress ? world->pulse.timer : world->pulse.progress;
    return world->round - last <= SILENT_ROUNDS;
}

/* RUN_SLICE_OVER: not yet, other host threads may still do something about it. */
static enum run_end stop(struct world *world, const char *headline, uint64_t patience) {
    if (host_shared(world) && world->hosts.idle < patience) {
        world->hosts.pause = true;
        return RUN_SLICE_OVER;
    }
    struct fault fault = {.code = RESULT_LAUNCH_FAILED};
    report_no_progress(world, headline, fault.text, sizeof fault.text);
    if (anything_held_back(world)) {
        memcpy(world->report, fault.text, sizeof world->report);
        world->pulse.progress = world->pulse.window = world->round; /* the next call has its own patience */
        return RUN_STALLED;
    }
    world_fail(world, &fault);
    return RUN_FAULT;
}

/* RUN_SLICE_OVER: go on. */
static enum run_end end_window(struct world *world) {
    struct pulse *pulse = &world->pulse;
    bool quiet = pulse->progress < pulse->window && world->wire.flying == 0 && !world->delayed;
    pulse->window = world->round;
    bool polled = all_polled(world);
    uint64_t passed = host_shared(world) ? host_pass(world) : 0;
    if (quiet && !polled && world_repeats(world))
        return stop(world,
                    "no progress: every warp that can run repeats the same steps on memory that nobody will change",
                    PATIENCE);
    if (!polled || !quiet) return RUN_SLICE_OVER;
    world->time += passed;
    if (!timer_was_read(world))
        return stop(world,
                    "no progress: every warp that can run polls memory that nobody will write, and none reads a timer",
                    PATIENCE);
    if (host_shared(world)) {
        world->hosts.pause = true;
        return RUN_SLICE_OVER;
    }
    pulse->jump = pulse->jump == 0 ? JUMP_FIRST : pulse->jump < JUMP_MOST / 2 ? pulse->jump * 2 : JUMP_MOST;
    world->time += pulse->jump;
    return RUN_SLICE_OVER;
}

static enum run_end end_round(struct world *world, bool ran) {
    world->round++;
    world->time++;
    if (world->faulted) return RUN_FAULT;
    if (!ran && world->wire.flying) world->turn = wire_next_due(world);
    if (world->wire.flying) wire_land_due(world);
    if (world->faulted) return RUN_FAULT;
    if (!ran && is_stuck(world)) {
        if (host_shared(world)) world->time += host_pass(world);
        return stop(world, "deadlock: no warp can run and no work can start", PATIENCE);
    }
    bool window_over = world->round - world->pulse.window >= WINDOW;
    enum run_end end = window_over ? end_window(world) : RUN_SLICE_OVER;
    if (end != RUN_SLICE_OVER || (host_shared(world) && !window_over)) return end;
    if (world->round - world->pulse.progress <= world->options.livelock_rounds) return RUN_SLICE_OVER;
    return stop(world, "no progress: nothing changed in memory for livelock_rounds rounds",
                timer_was_read(world) ? PATIENCE_TIMED : PATIENCE);
}

enum run_end world_run(struct world *world, run_done *done, const void *what, uint64_t rounds) {
    bool adversary = world->options.schedule == DCPKCPU_RANDOM;
    uint64_t life = world->life, most = world->options.max_rounds, begin = host_now(), since = begin;
    for (uint64_t n = 0;; n++) {
        streams_progress(world);
        if (world->faulted) return RUN_FAULT;
        if (done(what)) return RUN_DONE;
        if (rounds && n >= rounds) return RUN_SLICE_OVER;
        if (n >= (most ? most : ROUNDS_MOST) || (!most && n % 16 == 15 && host_now() - begin > WALL_MOST))
            return stop(world, "no end: the call has run for max_rounds rounds, or for 10 minutes, and work goes on",
                        0);
        bool ran = adversary ? run_adverse_round(world) : run_fair_round(world);
        enum run_end end = end_round(world, ran);
        if (end != RUN_SLICE_OVER) return end;
        if (rounds || !host_shared(world)) continue;
        host_between_rounds(world, &since);
        if (world->life != life) return RUN_RESET;
    }
}
