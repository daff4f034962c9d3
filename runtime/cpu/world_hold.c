/* world_hold.c - stores that a test holds back: late words.
 *
 * Owns the rule which stores are held and the moment of letting go. Words that a fence had ordered land first, oldest
 * first; the others fly again under the adversary, or land at once without it. */
#include "runtime/cpu/world.h"

#include <stdlib.h>

bool wire_is_held(const struct device *from, int to) {
    return to == HOST_MEMORY ? from->hold_host : (from->held_to >> to & 1) != 0;
}

void wire_refresh_late(struct world *world) {
    bool adversary = world->options.schedule == DCPKCPU_RANDOM && world->options.store_delay > 0;
    world->late = adversary ? UINT32_MAX : 0;
    for (int d = 0; d < world->device_count; d++)
        if (world->devices[d].held_to || world->devices[d].hold_host) world->late |= UINT32_C(1) << d;
}

static bool comes_from(const struct word *word, const struct device *device) {
    return word->state != WORD_FREE && word->source->launch->grid.device == device;
}

struct release {
    uint64_t serial;
    int word;
    bool fenced;
};

static int compare_releases(const void *a, const void *b) {
    const struct release *x = a, *y = b;
    if (x->fenced != y->fenced) return x->fenced ? -1 : 1;
    return x->serial < y->serial ? -1 : x->serial > y->serial;
}

/* due: of the word before it; and its own. */
static void release_word(struct world *world, int index, uint64_t *due) {
    struct wire *wire = &world->wire;
    const struct word *word = &wire->words[index];
    if (word->fenced || world->options.schedule != DCPKCPU_RANDOM) {
        wire_land(world, index);
        return;
    }
    if (!word->joined) *due = world->turn + world_below(world, (uint32_t)world->options.store_delay + 1);
    unsigned count = 0;
    uint64_t older = wire_alike_due(wire, word, &count);
    if (older > *due) *due = older;
    wire->held--;
    wire_launch(world, index, *due);
}

static void release_words(struct world *world, const struct device *device) {
    struct wire *wire = &world->wire;
    struct release *releases = malloc(wire->held * sizeof *releases);
    if (!releases) {
        world_fail_text(world, RESULT_LAUNCH_FAILED, "out of host memory for letting go of held stores");
        return;
    }
    size_t count = 0;
    for (int i = 0; i < wire->capacity; i++) {
        const struct word *word = &wire->words[i];
        if (comes_from(word, device) && word->state == WORD_HELD && !wire_is_held(device, word->backing->owner))
            releases[count++] = (struct release){.serial = word->serial, .word = i, .fenced = word->fenced};
    }
    qsort(releases, count, sizeof *releases, compare_releases);
    uint64_t due = 0;
    for (size_t i = 0; i < count; i++)
        release_word(world, releases[i].word, &due);
    free(releases);
}

void wire_hold_changed(struct world *world, int from) {
    struct wire *wire = &world->wire;
    const struct device *device = &world->devices[from];
    for (int i = 0; i < wire->capacity; i++) {
        struct word *word = &wire->words[i];
        if (!comes_from(word, device) || word->state != WORD_FLYING || !wire_is_held(device, word->backing->owner))
            continue;
        word->state = WORD_HELD;
        wire->flying--;
        wire->held++;
    }
    if (wire->held) release_words(world, device);
    wire_refresh_late(world);
    world->dirty = true;
}
