/* world_grid.c - a grid's life after its stream lets it begin: started, CTAs ended, complete; stalls that tests set.
 *
 * A grid is complete when all its CTAs have ended and their last late store has landed; world_stream.c hears of it.
 * Owns the counters of struct grid; may not choose CTAs or SMs (world_place.c). */
#include "runtime/cpu/world.h"

#include <stdlib.h>
#include <string.h>

void grid_free(struct launch *launch) {
    if (!launch) return;
    free(launch->grid.params);
    view_free(&launch->order.end);
    free(launch->turns);
    free(launch);
}

static void shuffle(struct world *world, struct launch *launch) {
    enum { LARGEST = 1 << 20 };
    if (launch->clusters > LARGEST) return;
    launch->turns = malloc(launch->clusters * sizeof *launch->turns);
    if (!launch->turns) return; /* ascending, then */
    for (uint32_t i = 0; i < launch->clusters; i++) {
        uint32_t j = world_below(world, i + 1);
        launch->turns[i] = launch->turns[j];
        launch->turns[j] = i;
    }
}

void grid_start(struct world *world, struct launch *launch) {
    struct device *device = launch->grid.device;
    if (world->options.schedule == DCPKCPU_RANDOM && world_below(world, 4)) shuffle(world, launch);
    struct launch **end = &device->started;
    while (*end)
        end = &(*end)->next;
    *end = launch;
    launch->next = NULL;
    device->started_count++;
    device->place_again = true;
    if (!launch->grid.predecessor_done) world->counters.pdl_early++;
    world_progressed(world);
    world_trace(world, "device %d: grid %llu " SHOWN_NAME " starts%s", device->ordinal,
                (unsigned long long)launch->grid.id, launch->grid.fn->name,
                launch->grid.predecessor_done ? "" : " before its predecessor has ended");
}

static void complete(struct world *world, struct launch *launch) {
    struct device *device = launch->grid.device;
    struct launch **link = &device->started;
    while (*link != launch)
        link = &(*link)->next;
    *link = launch->next;
    device->started_count--;
    launch->complete = true;
    order_complete(world, launch);
    world_progressed(world);
    world_trace(world, "device %d: grid %llu " SHOWN_NAME " is complete", device->ordinal,
                (unsigned long long)launch->grid.id, launch->grid.fn->name);
    stream_op_done(world, launch->op);
}

static void complete_if_so(struct world *world, struct launch *launch) {
    if (launch->grid.ctas_done == launch->grid.ctas_total && launch->pending == 0) complete(world, launch);
}

static void free_resident(struct resident *resident) {
    order_resident_free(resident);
    free(resident->watches);
    free(resident->lists);
    free(resident);
}

void grid_drop_residents(struct device *device) {
    while (device->resident_count) {
        struct resident *resident = device->residents[--device->resident_count];
        cluster_leave(&resident->cta);
        cta_end(&resident->cta);
        free_resident(resident);
    }
}

void grid_word_dropped(struct resident *source) {
    if (--source->pending == 0 && source->ended) free_resident(source);
}

static void end_cta(struct world *world, struct resident *resident) {
    struct launch *launch = resident->launch;
    struct device *device = launch->grid.device;
    device->resident_warps -= resident->cta.warp_count;
    device->residents[resident->slot] = device->residents[--device->resident_count];
    device->residents[resident->slot]->slot = resident->slot;
    grid_release_room(device, resident);
    order_cta_ends(world, resident);
    cluster_leave(&resident->cta);
    cta_end(&resident->cta);
    resident->ended = true;
    launch->grid.ctas_done++;
    world->dirty = true;
    world_progressed(world);
    if (resident->pending == 0) free_resident(resident);
    complete_if_so(world, launch);
}

bool grid_after_step(struct world *world, struct resident *resident) {
    bool ended = resident->cta.live_warps == 0;
    if (!resident->trigger_counted && (resident->cta.triggered || ended)) {
        resident->trigger_counted = true;
        resident->launch->grid.ctas_triggered++;
        world->dirty = true;
    }
    if (ended) end_cta(world, resident);
    return ended;
}

void grid_word_landed(struct world *world, struct resident *source) {
    struct launch *launch = source->launch;
    if (!source->ended) return;
    if (source->pending == 0) free_resident(source);
    complete_if_so(world, launch);
}

bool grid_stall_left(const struct launch *launch, uint64_t *left) {
    const struct device *device = launch->grid.device;
    bool found = false;
    for (unsigned i = 0; i < device->stall_count; i++) {
        const struct stall *stall = &device->stalls[i];
        if (stall->entry[0] && strcmp(stall->entry, launch->grid.fn->name) != 0) continue;
        uint64_t steps = launch->grid.warp_steps, this_left = stall->after > steps ? stall->after - steps : 0;
        if (!found || this_left < *left) *left = this_left;
        found = true;
    }
    return found;
}

void grid_unstall(struct device *device) {
    device->stall_count = 0;
    for (struct launch *l = device->started; l; l = l->next)
        l->stalled = false;
}
