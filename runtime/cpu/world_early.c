/* world_early.c - what grids that began by a programmatic edge have read before their griddepcontrol.wait: a grid that
 * was launched before them, and so need not have ended by then, may not write it any more.
 *
 * The other order, the write first, is a race like any other (world_race.c); so the verdict does not depend on which of
 * the two the schedule chose. What no kernel writes, weights, may be read early. Kept of 16 bytes: the last such grid,
 * where it read, and a mask. */
#include "runtime/cpu/world.h"

#include <stdlib.h>

enum { EARLY_UNIT = 16, PC_MOST = UINT16_MAX };

static uint64_t offset_of(const struct backing *backing, const uint8_t *at) {
    return (uint64_t)(at - backing->memory);
}

void early_end(struct backing *backing) {
    free(backing->early);
    backing->early = NULL;
}

void early_read(struct world *world, const struct warp *warp, struct backing *backing, const uint8_t *at,
                unsigned bytes) {
    (void)world;
    if (backing->owner == HOST_MEMORY) return;
    if (!backing->early) backing->early = calloc(backing->bytes / EARLY_UNIT + 1, sizeof *backing->early);
    if (!backing->early) return;
    uint64_t pc = warp->pc < PC_MOST ? warp->pc : PC_MOST, by = warp->cta->grid->id << 32 | pc << 16;
    for (uint64_t first = offset_of(backing, at), end = first + bytes; first < end;) {
        uint64_t in = first % EARLY_UNIT, count = EARLY_UNIT - in < end - first ? EARLY_UNIT - in : end - first;
        uint64_t *unit = &backing->early[first / EARLY_UNIT], mask = ((UINT64_C(1) << count) - 1) << in;
        *unit = (*unit >> 32 == by >> 32 ? *unit : by) | mask;
        first += count;
    }
}

bool early_permit(const struct world *world, const struct backing *backing, const uint8_t *at, unsigned bytes,
                  uint32_t writer, struct fault *fault) {
    for (uint64_t i = offset_of(backing, at), end = i + bytes; i < end; i++) {
        uint64_t unit = backing->early[i / EARLY_UNIT];
        uint32_t reader = (uint32_t)(unit >> 32), pc = unit >> 16 & PC_MOST;
        if (!(unit >> i % EARLY_UNIT & 1) || reader <= writer || world->options.races_allowed) continue;
        if (world->order.grids[reader].device != world->order.grids[writer].device) continue;
        if (!fault) return false;
        uint64_t address = (uint64_t)(uintptr_t)backing->memory + i;
        const struct mapping *m = memory_at(world, address);
        fault->code = RESULT_LAUNCH_FAILED;
        fault->text[0] = 0;
        text_add(fault->text, sizeof fault->text, "data race: the byte at 0x%llx, ", (unsigned long long)address);
        if (m && m->backing == backing) memory_name(m, address, fault->text, sizeof fault->text);
        text_add(fault->text, sizeof fault->text, ", was read by ");
        order_add_access(world, reader, pc, fault->text, sizeof fault->text);
        text_add(fault->text, sizeof fault->text,
                 " before its griddepcontrol.wait; this store is of a kernel before it that has not ended");
        return false;
    }
    return true;
}
