/* world_written.c - the memory checker's view of global memory: which bytes somebody has written since they were
 * allocated, and which are inputs that kernels may not write.
 *
 * Kept for memory of devices while the checker is on; memory of the host is written by the host unseen, so that it
 * counts as written. A store counts from the moment it is made, also one that is still on its way to another device.
 * Inputs: what a test has declared, what a load marked `// const_input` has read (for ever), and what a load through
 * the non-coherent path (.nc) has read, for as long as its grid runs. */
#include "runtime/cpu/world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/bits.h"

/* Of 16 bytes: the grid that reads them as an input, above a mask of the bytes. */
enum { INPUT_UNIT = 16, INPUT_MASK_BITS = 16 };
#define INPUT_FOR_EVER (UINT64_MAX >> INPUT_MASK_BITS)

bool world_checks(const struct grid *grid) {
    return grid->device->world->options.memory_checker == DCPKCPU_CHECKER_ON;
}

void written_begin(const struct world *world, struct backing *backing) {
    if (world->options.memory_checker == DCPKCPU_CHECKER_ON && backing->owner != HOST_MEMORY)
        backing->written = calloc(bits_bytes(backing->bytes), 1); /* without room for it nothing is checked */
}

void written_end(struct backing *backing) {
    free(backing->written);
    free(backing->input);
    backing->written = NULL;
    backing->input = NULL;
}

void written_put(const struct backing *backing, const uint8_t *at, uint64_t bytes, bool written) {
    if (backing->written) bits_put(backing->written, (uint64_t)(at - backing->memory), bytes, written);
}

void written_copy(const struct backing *to, const uint8_t *at, const struct backing *from, const uint8_t *source,
                  uint64_t bytes) {
    if (!to || !to->written) return;
    uint64_t first = (uint64_t)(at - to->memory);
    if (from && from->written && from != to)
        bits_copy(to->written, first, from->written, (uint64_t)(source - from->memory), bytes);
    else
        bits_put(to->written, first, bytes, true);
}

/* ---- reads ---- */
bool world_written(struct world *world, uint64_t address, uint64_t bytes, uint64_t *known) {
    const struct mapping *m = memory_range(world, address, bytes); /* none: the access itself will say so */
    *known = bytes;
    if (!m || !m->home || !m->backing->written) return true;
    uint64_t at = (uint64_t)(m->home - m->backing->memory) + (address - m->start);
    *known = bits_run(m->backing->written, at, bytes);
    return *known == bytes;
}

void world_written_bits(struct world *world, uint64_t address, uint64_t bytes, uint8_t *bits, uint64_t at) {
    const struct mapping *m = memory_at(world, address);
    if (m && m->home && m->backing->written)
        bits_copy(bits, at, m->backing->written, (uint64_t)(m->home - m->backing->memory) + (address - m->start),
                  bytes);
    else
        bits_put(bits, at, bytes, true);
}

void world_name(const struct world *world, uint64_t address, char *text, size_t capacity) {
    const struct mapping *m = memory_at(world, address);
    if (m) memory_name(m, address, text, capacity);
}

/* ---- inputs ---- */
static bool input_put(struct backing *backing, uint64_t at, uint64_t bytes, uint64_t grid) {
    if (!backing->input) backing->input = calloc(backing->bytes / INPUT_UNIT + 1, sizeof *backing->input);
    if (!backing->input) return false;
    for (uint64_t end = at + bytes; at < end;) {
        uint64_t in = at % INPUT_UNIT, count = INPUT_UNIT - in < end - at ? INPUT_UNIT - in : end - at;
        uint64_t *unit = &backing->input[at / INPUT_UNIT], mask = (uint64_t)bits_mask((unsigned)count) << in;
        uint64_t old = *unit >> INPUT_MASK_BITS;
        at += count;
        if (grid == 0)
            *unit &= ~mask;
        else if (old == grid || (old == INPUT_FOR_EVER && *unit & UINT16_MAX))
            *unit |= old == grid ? mask : 0;
        else
            *unit = grid << INPUT_MASK_BITS | mask;
    }
    return true;
}

void world_read_input(struct world *world, const struct warp *warp, uint64_t address, uint64_t bytes, bool for_ever) {
    const struct mapping *m = memory_at(world, address);
    if (!m || !m->home || !m->backing->written) return;
    uint64_t at = (uint64_t)(m->home - m->backing->memory) + (address - m->start);
    (void)input_put(m->backing, at, bytes, for_ever ? INPUT_FOR_EVER : warp->cta->grid->id);
}

static const struct launch *running(const struct world *world, uint64_t grid) {
    for (int d = 0; d < world->device_count; d++)
        for (const struct launch *l = world->devices[d].started; l; l = l->next)
            if (l->grid.id == grid) return l;
    return NULL;
}

bool written_permit(const struct world *world, const struct backing *backing, const struct mapping *mapping,
                    uint64_t address, unsigned bytes, struct fault *fault) {
    uint64_t at = (uint64_t)(mapping->home - backing->memory) + (address - mapping->start);
    for (uint64_t i = at; i < at + bytes; i++) {
        uint64_t unit = backing->input[i / INPUT_UNIT], grid = unit >> INPUT_MASK_BITS;
        if (!(unit & UINT16_MAX)) i |= INPUT_UNIT - 1; /* none of its bytes */
        if (!(unit >> i % INPUT_UNIT & 1)) continue;
        const struct launch *reader = grid == INPUT_FOR_EVER ? NULL : running(world, grid);
        if (grid != INPUT_FOR_EVER && !reader) continue;
        fault->code = RESULT_LAUNCH_FAILED;
        fault->text[0] = 0;
        text_add(fault->text, sizeof fault->text,
                 "write to a const input: %u bytes at address 0x%" PRIx64 ", which is ", bytes, address);
        memory_name(mapping, address, fault->text, sizeof fault->text);
        if (reader)
            text_add(fault->text, sizeof fault->text,
                     ": kernel " SHOWN_NAME " (grid %" PRIu64 ") reads it by ld.global.nc and runs",
                     reader->grid.fn->name, grid);
        else
            text_add(fault->text, sizeof fault->text, ": kernels may not write it");
        return false;
    }
    return true;
}

int memory_mark(struct world *world, uint64_t address, uint64_t bytes, int mark) {
    const struct mapping *m = memory_range(world, address, bytes);
    if (!m || !m->home || !bytes) return -1;
    struct backing *backing = m->backing;
    uint64_t at = (uint64_t)(m->home - backing->memory) + (address - m->start);
    if (!backing->written) return 0; /* the checker is off, or host memory */
    switch (mark) {
    case DCPKCPU_MARK_INPUT:
        return input_put(backing, at, bytes, INPUT_FOR_EVER) ? 0 : -1;
    case DCPKCPU_MARK_PLAIN:
        return input_put(backing, at, bytes, 0) ? 0 : -1;
    case DCPKCPU_MARK_WRITTEN:
    case DCPKCPU_MARK_UNWRITTEN:
        bits_put(backing->written, at, bytes, mark == DCPKCPU_MARK_WRITTEN);
        return 0;
    default:
        return -1;
    }
}
