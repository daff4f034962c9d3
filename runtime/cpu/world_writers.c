/* world_writers.c - for the no-progress report: who could still write a word, who wrote it last.
 *
 * Could: words under way to it; grids that run or are to come, on devices that may write there, with an address of its
 * memory among their parameters and the variables of their modules, or in the first words of what those point to
 * (tables of peers). Addresses that a kernel computes otherwise are not known, so "nobody" is said as what it is.
 * Changes nothing. */
#include "runtime/cpu/world.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_WRITERS = 4, TABLE_WORDS = 64 };

struct search {
    const struct world *world;
    const struct backing *backing;
    char *text;
    size_t capacity;
    unsigned found;
};

/* Whether the mapping shows the memory, itself or as a member of a multicast object. */
static bool shows(const struct mapping *m, const struct backing *backing) {
    if (!m->multicast) return m->backing == backing;
    for (unsigned i = 0; i < m->multicast->part_count; i++)
        if (m->multicast->parts[i].backing == backing) return true;
    return false;
}

static uint64_t value_at(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* deep: looks into tables, too. */
static bool leads_there(const struct search *s, uint64_t value, bool deep) {
    const struct mapping *m = value ? memory_range(s->world, value, 1) : NULL;
    if (!m) return false;
    if (shows(m, s->backing)) return true;
    if (!deep || !m->home || m->backing->owner == HOST_MEMORY) return false;
    uint64_t offset = value - m->start, words = (m->bytes - offset) / 8;
    for (uint64_t i = 0; i < words && i < TABLE_WORDS; i++)
        if (leads_there(s, value_at(m->home + offset + 8 * i), false)) return true;
    return false;
}

/* The parameter by which the kernel has the memory, or a variable of its module; NULL: none. */
static const char *name_of_way(const struct search *s, const struct grid *grid, const char **kind) {
    *kind = "parameter";
    for (unsigned p = 0; p < grid->fn->param_count; p++) {
        const struct ptx_param *param = &grid->fn->params[p];
        for (unsigned at = 0; at + 8 <= param->bytes; at += 8)
            if (leads_there(s, value_at(grid->params + param->offset + at), true)) return param->name;
    }
    *kind = "module's variable";
    for (unsigned v = 0; grid->variables && v < ptx_variable_count(grid->fn->module); v++)
        if (leads_there(s, grid->variables[v], true)) return ptx_variable_at(grid->fn->module, v)->name;
    return NULL;
}

static bool may_write(const struct search *s, const struct device *device) {
    return s->backing->owner == HOST_MEMORY || s->backing->owner == device->ordinal ||
           device->peers >> s->backing->owner & 1 || s->world->options.multicast;
}

static void add_state(const struct search *s, const struct launch *l) {
    const struct grid *grid = &l->grid;
    unsigned waiting = 0, live = 0;
    for (unsigned i = 0; i < grid->device->resident_count; i++) {
        const struct resident *r = grid->device->residents[i];
        for (unsigned w = 0; r->launch == l && w < r->cta.warp_count; w++) {
            const struct warp *warp = r->cta.warps[w];
            if (warp->state == WARP_DONE) continue;
            live++;
            waiting += warp->state != WARP_READY || r->watches[w].polled || r->watches[w].polled_before;
        }
    }
    if (l->op->state == OP_QUEUED) {
        const char *why = l->op == l->op->stream->cursor ? stream_obstacle(l->op->stream) : "what is before it";
        text_add(s->text, s->capacity, "has not started: waits for %s", why ? why : "its turn");
    } else if (l->stalled) {
        text_add(s->text, s->capacity, "stalled by dcpkcpu_stall");
    } else {
        text_add(s->text, s->capacity, "%u of %u CTAs done, %u not started, %u of %u warps wait", grid->ctas_done,
                 grid->ctas_total, grid->ctas_total - grid->ctas_started, waiting, live);
    }
}

static void consider(struct search *s, const struct launch *l) {
    const struct grid *grid = &l->grid;
    const char *kind, *way = may_write(s, grid->device) ? name_of_way(s, grid, &kind) : NULL;
    if (!way || s->found++ >= MOST_WRITERS) return;
    text_add(s->text, s->capacity,
             "%s kernel " SHOWN_NAME " of device %d, grid %" PRIu64 ", by its %s " SHOWN_NAME " (",
             s->found > 1 ? ";" : "", grid->fn->name, grid->device->ordinal, grid->id, kind, way);
    add_state(s, l);
    text_add(s->text, s->capacity, ")");
}

static void consider_device(struct search *s, const struct device *device) {
    for (const struct launch *l = device->started; l; l = l->next)
        if (l->grid.ctas_done < l->grid.ctas_total) consider(s, l);
    for (const struct stream *stream = device->streams; stream; stream = stream->next)
        for (const struct op *op = stream->cursor; op; op = op->next)
            if (op->kind == OP_KERNEL) consider(s, op->launch);
}

static void add_words(struct search *s, const uint8_t *at) {
    const struct wire *wire = &s->world->wire;
    for (int i = 0; i < wire->capacity; i++) {
        const struct word *word = &wire->words[i];
        if (word->state == WORD_FREE || word->at != at || s->found++ >= MOST_WRITERS) continue;
        const struct grid *grid = &word->source->launch->grid;
        text_add(s->text, s->capacity, "%s a store of kernel " SHOWN_NAME " (device %d, grid %" PRIu64 ") that %s",
                 s->found > 1 ? ";" : "", grid->fn->name, grid->device->ordinal, grid->id,
                 word->state == WORD_HELD ? "is held back by dcpkcpu_hold_stores" : "is under way");
    }
}

void report_writers(const struct world *world, const struct mapping *mapping, uint64_t address, char *text,
                    size_t capacity) {
    if (!mapping || !mapping->live || !mapping->home || !mapping->backing) return;
    struct search s = {.world = world, .backing = mapping->backing, .text = text, .capacity = capacity};
    const uint8_t *at = mapping->home + (address - mapping->start);
    order_add_last(world, mapping->backing, at, text, capacity);
    text_add(text, capacity, "; could still be written by");
    add_words(&s, at - ((uintptr_t)at & 3));
    for (int d = 0; d < world->device_count; d++)
        consider_device(&s, &world->devices[d]);
    if (s.found > MOST_WRITERS) text_add(text, capacity, "; and %u more", s.found - MOST_WRITERS);
    if (!s.found)
        text_add(text, capacity,
                 " nobody: no kernel that runs or is to come has an address of that allocation among "
                 "its parameters and variables");
}
