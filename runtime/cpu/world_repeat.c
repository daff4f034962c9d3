/* world_repeat.c - finds warps that go round in circles: the same registers again while memory stays as it is.
 *
 * Asked once a window in which nothing changed. A warp that comes back to a state of itself, with no memory changed and
 * no timer read between, will do so for ever unless somebody else changes memory; when every warp that can run does,
 * nobody will. States are kept from one power of two of quiet windows to the next. Owns struct repeat and the states
 * in struct watch; decides nothing. */
#include "runtime/cpu/world.h"

enum { FEWEST_WINDOWS = 8, FEWEST_STEPS = 1024 };

typedef bool visit(const struct warp *warp, struct watch *watch);

static bool each_runnable(struct world *world, visit *one) {
    bool any = false;
    for (int d = 0; d < world->device_count; d++) {
        const struct device *device = &world->devices[d];
        for (unsigned i = 0; i < device->resident_count; i++) {
            struct resident *r = device->residents[i];
            for (unsigned w = 0; w < r->cta.warp_count && !r->launch->stalled; w++) {
                if (!warp_can_run(r->cta.warps[w])) continue;
                if (!one(r->cta.warps[w], &r->watches[w])) return false;
                any = true;
            }
        }
    }
    return any;
}

static bool keep(const struct warp *warp, struct watch *watch) {
    watch->state = warp_state_hash(warp, &watch->steps);
    return true;
}

static bool is_back(const struct warp *warp, struct watch *watch) {
    uint64_t steps;
    return watch->steps && warp_state_hash(warp, &steps) == watch->state && steps - watch->steps >= FEWEST_STEPS;
}

bool world_repeats(struct world *world) {
    struct repeat *repeat = &world->repeat;
    const struct pulse *pulse = &world->pulse;
    if (repeat->progress != pulse->progress || repeat->timer != pulse->timer)
        *repeat = (struct repeat){.progress = pulse->progress, .timer = pulse->timer};
    repeat->windows++;
    if (repeat->kept && repeat->windows - repeat->kept >= FEWEST_WINDOWS && each_runnable(world, is_back)) return true;
    if (repeat->windows < FEWEST_WINDOWS || (repeat->windows & (repeat->windows - 1))) return false;
    repeat->kept = repeat->windows;
    each_runnable(world, keep);
    return false;
}
