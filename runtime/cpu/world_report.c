/* world_report.c - the no-progress report: who waits for what, where, since when, and what cannot start and why.
 *
 * Called when nothing moves any more; reads everything, changes nothing. Warps that wait for the same thing are one
 * line, and the list is capped: the text has a fixed size. */
#include "runtime/cpu/world.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_GROUPS = 10 };

struct group { /* warps of one grid in one state that look at one allocation, or wait for the same mbarrier */
    const struct launch *launch;
    const struct mapping *mapping;
    const struct resident *resident; /* of the first such warp */
    const struct warp *warp;
    enum warp_state state;
    bool polls;
    uint64_t awaits; /* the mbarrier they wait for */
    unsigned count;
};

static bool polls(const struct warp *warp, const struct watch *watch) {
    return !warp_awaits(warp) && warp->state == WARP_READY && watch->address && (watch->polled || watch->polled_before);
}

/* What a warp that can run looks at: what it polls, or else used last. 0: nothing in global memory. */
static uint64_t address_of(const struct warp *warp, const struct watch *watch) {
    if (warp_awaits(warp)) return 0;
    if (polls(warp, watch)) return watch->address;
    return warp->state == WARP_READY ? warp_touched(warp) : 0;
}

static struct group *find_group(struct group *groups, unsigned *count, const struct group *key) {
    for (unsigned i = 0; i < *count; i++)
        if (groups[i].launch == key->launch && groups[i].state == key->state && groups[i].mapping == key->mapping &&
            groups[i].polls == key->polls && groups[i].awaits == key->awaits)
            return &groups[i];
    if (*count == MOST_GROUPS) return NULL;
    groups[*count] = *key;
    return &groups[(*count)++];
}

static unsigned gather(const struct world *world, struct group *groups, unsigned *others) {
    unsigned count = 0;
    *others = 0;
    for (int d = 0; d < world->device_count; d++)
        for (unsigned i = 0; i < world->devices[d].resident_count; i++) {
            const struct resident *r = world->devices[d].residents[i];
            for (unsigned w = 0; w < r->cta.warp_count; w++) {
                const struct warp *warp = r->cta.warps[w];
                if (warp->state == WARP_DONE) continue;
                struct group key = {.launch = r->launch, .state = warp->state, .resident = r, .warp = warp};
                key.polls = polls(warp, &r->watches[w]);
                key.awaits = warp_awaits(warp);
                uint64_t address = address_of(warp, &r->watches[w]);
                if (address) key.mapping = memory_at(world, address);
                struct group *group = find_group(groups, &count, &key);
                if (group)
                    group->count++;
                else
                    ++*others;
            }
        }
    return count;
}

static void add_value(const struct mapping *mapping, uint64_t address, char *text, size_t capacity) {
    uint32_t word;
    if (!mapping || !mapping->live || !mapping->home || address - mapping->start + 4 > mapping->bytes) return;
    memcpy(&word, mapping->home + (address - mapping->start), 4);
    text_add(text, capacity, "; the word there is 0x%08x", word);
}

/* griddepcontrol.wait: what is before the grid in its stream, and is not done. */
static void add_predecessor(const struct launch *launch, char *text, size_t capacity) {
    const struct op *before = launch->op->previous;
    if (!before || before->kind != OP_KERNEL) return;
    const struct grid *grid = &before->launch->grid;
    text_add(text, capacity, "; waits for kernel " SHOWN_NAME " (grid %" PRIu64 "): %u of %u CTAs done", grid->fn->name,
             grid->id, grid->ctas_done, grid->ctas_total);
}

static void add_group(const struct world *world, const struct group *group, char *text, size_t capacity) {
    static const char *const doing[] = {[WARP_READY] = "running",
                                        [WARP_AT_BARRIER] = "at a barrier",
                                        [WARP_AT_GRID_WAIT] = "in griddepcontrol.wait",
                                        [WARP_DONE] = "done"};
    const struct grid *grid = &group->launch->grid;
    const struct watch *watch = &group->resident->watches[group->warp->index];
    text_add(text, capacity, "\n- device %d, grid %" PRIu64 " " SHOWN_NAME ": %u warp%s %s%s", grid->device->ordinal,
             grid->id, grid->fn->name, group->count, group->count == 1 ? "" : "s",
             group->awaits  ? "waiting at an mbarrier"
             : group->polls ? "polling"
                            : doing[group->state],
             group->launch->stalled ? ", stalled by dcpkcpu_stall" : "");
    text_add(text, capacity, ", without progress since %" PRIu64 " ns%s: ", watch->since,
             group->count == 1 ? "" : "; one of them");
    warp_describe(group->warp, text + strlen(text), capacity - strlen(text));
    if (group->state == WARP_AT_GRID_WAIT) add_predecessor(group->launch, text, capacity);
    if (!group->mapping) return;
    uint64_t address = address_of(group->warp, watch);
    text_add(text, capacity, "; %s 0x%" PRIx64 ", ", group->polls ? "polls" : "last used", address);
    memory_name(group->mapping, address, text, capacity);
    add_value(group->mapping, address, text, capacity);
    if (group->polls) report_writers(world, group->mapping, address, text, capacity);
}

static void add_launches(const struct device *device, char *text, size_t capacity) {
    for (const struct launch *l = device->started; l; l = l->next) {
        const struct grid *grid = &l->grid;
        if (grid->ctas_started < grid->ctas_total)
            text_add(text, capacity,
                     "\n- device %d, grid %" PRIu64 " " SHOWN_NAME
                     ": %u of %u CTAs could not start: no SM has %u threads, %u registers, "
                     "%u bytes of shared memory%s free",
                     device->ordinal, grid->id, grid->fn->name, grid->ctas_total - grid->ctas_started, grid->ctas_total,
                     l->threads, l->registers, l->shared, l->cluster_ctas > 1 ? " for each CTA of a cluster" : "");
        else if (grid->ctas_done == grid->ctas_total)
            text_add(text, capacity,
                     "\n- device %d, grid %" PRIu64 " " SHOWN_NAME
                     ": ended, but %u words that it stored are on their way",
                     device->ordinal, grid->id, grid->fn->name, l->pending);
    }
}

static const char *op_name(const struct op *op) {
    static const char *const names[] = {[OP_KERNEL] = "kernel ",
                                        [OP_COPY] = "copy",
                                        [OP_FILL] = "fill",
                                        [OP_RECORD] = "event record",
                                        [OP_WAIT] = "event wait",
                                        [OP_GRAPH] = "graph",
                                        [OP_EMPTY] = "end of a child graph"};
    return names[op->kind];
}

static void add_streams(const struct device *device, char *text, size_t capacity) {
    for (const struct stream *s = device->streams; s; s = s->next) {
        const char *why = stream_obstacle(s);
        if (!why) continue;
        text_add(text, capacity, "\n- device %d, stream %d: %s" SHOWN_NAME " waits for %s", device->ordinal, s->number,
                 op_name(s->cursor), s->cursor->kind == OP_KERNEL ? s->cursor->launch->grid.fn->name : "", why);
    }
}

static void add_interference(const struct world *world, char *text, size_t capacity) {
    for (int d = 0; d < world->device_count; d++) {
        const struct device *device = &world->devices[d];
        if (device->stall_count) text_add(text, capacity, "\n- device %d is stalled by dcpkcpu_stall", d);
        if (device->held_to || device->hold_host)
            text_add(text, capacity, "\n- device %d: stores are held by dcpkcpu_hold_stores", d);
    }
    if (world->wire.held) text_add(text, capacity, "\n- %u words are held back", world->wire.held);
}

void report_no_progress(const struct world *world, const char *headline, char *text, size_t capacity) {
    struct group groups[MOST_GROUPS];
    unsigned others, count = gather(world, groups, &others);
    text[0] = 0;
    text_add(text, capacity,
             "%s (virtual time %" PRIu64 " ns, round %" PRIu64 ", the last progress in round %" PRIu64 ")", headline,
             world->time, world->round, world->pulse.progress);
    for (unsigned i = 0; i < count; i++)
        add_group(world, &groups[i], text, capacity);
    if (others) text_add(text, capacity, "\n- %u more warps", others);
    for (int d = 0; d < world->device_count; d++) {
        add_launches(&world->devices[d], text, capacity);
        add_streams(&world->devices[d], text, capacity);
    }
    add_interference(world, text, capacity);
    if (world->order.overtaken[0])
        text_add(text, capacity, "\n- by the adversary's choice, which nothing forbade, %s", world->order.overtaken);
}
