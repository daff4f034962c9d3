/* world_wire.c - stores on their way to another device, or to other CTAs of the same: words that land one by one, late
 * and out of order.
 *
 * Owns struct wire. Kept: the order of one CTA's stores to one word, elements of more than a word, what a fence has
 * ordered (it lands them), and completion (a grid is complete when its last word has landed). Everything else lands in
 * any order, after 0 to store_delay rounds, or when a test lets go of it. May not know streams; tells world_grid.c of
 * every landing. */
#include "runtime/cpu/world.h"

#include <stdlib.h>
#include <string.h>

enum { MANY_ALIKE = 128, OWN_LONGEST = 12 /* 2^ turns */ };

static int *empty_buckets(unsigned count) {
    int *buckets = malloc(count * sizeof *buckets);
    for (unsigned i = 0; buckets && i < count; i++)
        buckets[i] = NO_WORD;
    return buckets;
}

int wire_begin(struct wire *wire) {
    *wire = (struct wire){.free_first = NO_WORD, .bucket_count = 1024};
    wire->buckets = empty_buckets(wire->bucket_count);
    return wire->buckets ? 0 : -1;
}

void wire_end(struct wire *wire) {
    for (int i = 0; i < wire->capacity; i++)
        if (wire->words[i].state != WORD_FREE) grid_word_dropped(wire->words[i].source);
    free(wire->words);
    free(wire->heap);
    free(wire->buckets);
    *wire = (struct wire){0};
}

/* ---- the pool and its chains ---------------------------------------------------------------------- */
static int *bucket_of(const struct wire *wire, const uint8_t *at) {
    uint64_t hash = ((uint64_t)(uintptr_t)at >> 2) * UINT64_C(0x9E3779B97F4A7C15);
    return &wire->buckets[(hash >> 40) & (wire->bucket_count - 1)];
}

static void enter_bucket(struct wire *wire, int index) {
    struct word *word = &wire->words[index];
    int *bucket = bucket_of(wire, word->at);
    word->bucket_previous = NO_WORD;
    word->bucket_next = *bucket;
    if (*bucket != NO_WORD) wire->words[*bucket].bucket_previous = index;
    *bucket = index;
}

/* Chains stay short. Words enter again oldest first, so that chains stay newest first. */
static void grow_buckets(struct wire *wire, int words) {
    int *buckets = empty_buckets((unsigned)words);
    if (!buckets) return; /* long chains, then */
    struct wire old = *wire;
    wire->buckets = buckets;
    wire->bucket_count = (unsigned)words;
    for (unsigned b = 0; b < old.bucket_count; b++) {
        int last = NO_WORD;
        for (int i = old.buckets[b]; i != NO_WORD; i = wire->words[i].bucket_next)
            last = i;
        for (int i = last, previous; i != NO_WORD; i = previous) {
            previous = wire->words[i].bucket_previous;
            enter_bucket(wire, i);
        }
    }
    free(old.buckets);
}

static int take_word(struct wire *wire) {
    if (wire->free_first == NO_WORD) {
        int capacity = wire->capacity ? wire->capacity * 2 : 1024;
        struct word *words = realloc(wire->words, (size_t)capacity * sizeof *words);
        if (!words) return NO_WORD;
        for (int i = wire->capacity; i < capacity; i++)
            words[i] = (struct word){.next = i + 1};
        words[capacity - 1].next = NO_WORD;
        wire->free_first = wire->capacity;
        wire->words = words;
        wire->capacity = capacity;
        if ((unsigned)capacity > wire->bucket_count) grow_buckets(wire, capacity);
    }
    int index = wire->free_first;
    wire->free_first = wire->words[index].next;
    return index;
}

static void append_to_list(struct wire *wire, int index, unsigned which) {
    struct word *word = &wire->words[index];
    struct word_list *list = &word->source->lists[which];
    word->list = which;
    word->next = NO_WORD;
    word->previous = list->last;
    if (list->last != NO_WORD)
        wire->words[list->last].next = index;
    else
        list->first = index;
    list->last = index;
}

static void leave_list(struct wire *wire, int index) {
    const struct word *word = &wire->words[index];
    struct word_list *list = &word->source->lists[word->list];
    if (word->previous != NO_WORD)
        wire->words[word->previous].next = word->next;
    else
        list->first = word->next;
    if (word->next != NO_WORD)
        wire->words[word->next].previous = word->previous;
    else
        list->last = word->previous;
}

static void link_word(struct wire *wire, int index) {
    struct word *word = &wire->words[index];
    enter_bucket(wire, index);
    append_to_list(wire, index, word->thread / WARP);
    word->source->pending++;
    word->source->launch->pending++;
    word->backing->pending++;
}

static void unlink_word(struct wire *wire, int index) {
    struct word *word = &wire->words[index];
    if (word->bucket_previous != NO_WORD)
        wire->words[word->bucket_previous].bucket_next = word->bucket_next;
    else
        *bucket_of(wire, word->at) = word->bucket_next;
    if (word->bucket_next != NO_WORD) wire->words[word->bucket_next].bucket_previous = word->bucket_previous;
    leave_list(wire, index);
    word->source->pending--;
    word->source->launch->pending--;
    word->backing->pending--;
    word->state = WORD_FREE;
    word->next = wire->free_first;
    wire->free_first = index;
}

/* ---- the heap of due turns ------------------------------------------------------------------------ */
static bool earlier(const struct flight *a, const struct flight *b) {
    return a->due < b->due || (a->due == b->due && a->serial < b->serial);
}

static int push_flight(struct wire *wire, struct flight flight) {
    if (wire->heap_count == wire->heap_capacity) {
        int capacity = wire->heap_capacity ? wire->heap_capacity * 2 : 1024;
        struct flight *heap = realloc(wire->heap, (size_t)capacity * sizeof *heap);
        if (!heap) return -1;
        wire->heap = heap;
        wire->heap_capacity = capacity;
    }
    int at = wire->heap_count++;
    while (at > 0 && earlier(&flight, &wire->heap[(at - 1) / 2])) {
        wire->heap[at] = wire->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    wire->heap[at] = flight;
    return 0;
}

static void pop_flight(struct wire *wire) {
    struct flight last = wire->heap[--wire->heap_count];
    int at = 0;
    for (;;) {
        int child = 2 * at + 1;
        if (child >= wire->heap_count) break;
        if (child + 1 < wire->heap_count && earlier(&wire->heap[child + 1], &wire->heap[child])) child++;
        if (!earlier(&wire->heap[child], &last)) break;
        wire->heap[at] = wire->heap[child];
        at = child;
    }
    if (wire->heap_count) wire->heap[at] = last;
}

static bool is_stale(const struct wire *wire, const struct flight *flight) {
    const struct word *word = &wire->words[flight->word];
    return word->state != WORD_FLYING || word->serial != flight->serial || word->due != flight->due;
}

uint64_t wire_next_due(struct world *world) {
    struct wire *wire = &world->wire;
    while (wire->heap_count && is_stale(wire, &wire->heap[0]))
        pop_flight(wire);
    return wire->heap_count ? wire->heap[0].due : UINT64_MAX;
}

/* ---- sending -------------------------------------------------------------------------------------- */
/* Most words hurry a little, some are as late as they may be; those to the own device are less late. */
static uint64_t draw_delay(struct world *world, bool own) {
    if (own) return world_below(world, 1u << world_below(world, OWN_LONGEST + 1));
    uint32_t longest = (uint32_t)world->options.store_delay, kind = world_below(world, 8);
    uint32_t rounds = kind == 0 ? 0 : kind == 1 ? longest : world_below(world, longest + 1);
    uint64_t turns = world->turns_a_round ? world->turns_a_round : 1;
    return rounds * turns + world_below(world, 4);
}

uint64_t wire_alike_due(const struct wire *wire, const struct word *word, unsigned *count) {
    uint64_t due = 0;
    for (int i = *bucket_of(wire, word->at); i != NO_WORD; i = wire->words[i].bucket_next) {
        const struct word *other = &wire->words[i];
        if (other->source != word->source || other->at != word->at || other->state != WORD_FLYING) continue;
        ++*count;
        if (other->due > due) due = other->due;
    }
    return due;
}

void wire_launch(struct world *world, int index, uint64_t due) {
    struct wire *wire = &world->wire;
    struct word *word = &wire->words[index];
    word->due = due;
    word->state = WORD_FLYING;
    wire->flying++;
    if (push_flight(wire, (struct flight){.due = due, .serial = word->serial, .word = index})) wire_land(world, index);
}

static bool send_word(struct world *world, const struct word *draft, bool held, uint64_t due) {
    struct wire *wire = &world->wire;
    int index = take_word(wire);
    if (index == NO_WORD) return false;
    wire->words[index] = *draft;
    wire->words[index].serial = ++wire->serial;
    link_word(wire, index);
    world->counters.peer_stores_delayed++;
    if (held) {
        wire->words[index].state = WORD_HELD;
        wire->held++;
    } else {
        wire_launch(world, index, due);
    }
    return true;
}

bool wire_has_only(const struct world *world, const struct resident *source, const uint8_t *at, const uint8_t *from,
                   unsigned bytes) {
    for (const uint8_t *base = at - ((uintptr_t)at & 3); base < at + bytes; base += 4)
        for (int i = *bucket_of(&world->wire, base); i != NO_WORD; i = world->wire.words[i].bucket_next) {
            const struct word *word = &world->wire.words[i];
            if (word->at != base || word->source != source) continue;
            for (unsigned b = 0; b < 4; b++)
                if (word->bytes >> b & 1 && base + b >= at && base + b < at + bytes &&
                    word->value[b] != from[base + b - at])
                    return false;
        }
    return true;
}

static bool make_lists(struct resident *source) {
    unsigned count = source->launch->warps + 1;
    source->lists = malloc(count * sizeof *source->lists);
    for (unsigned i = 0; source->lists && i < count; i++)
        source->lists[i] = (struct word_list){NO_WORD, NO_WORD};
    return source->lists != NULL;
}

static bool out_of_memory(struct fault *fault) {
    fault->code = RESULT_LAUNCH_FAILED;
    fault->text[0] = 0;
    text_add(fault->text, sizeof fault->text, "out of host memory for stores on their way to other devices");
    return false;
}

/* Words of one element land together, none before older ones of the same CTA to its place. */
static uint64_t draw_due(struct world *world, const struct word *draft, unsigned element) {
    uint64_t due =
        world->turn + draw_delay(world, draft->backing->owner == draft->source->launch->grid.device->ordinal);
    struct word word = *draft;
    for (unsigned done = 0; done == 0 || done < element; done += 4, word.at += 4) {
        unsigned count = 0;
        uint64_t older = wire_alike_due(&world->wire, &word, &count);
        if (count > MANY_ALIKE) wire_land_bytes(world, draft->source, word.at, 4); /* it stores again and again */
        if (older > due) due = older;
    }
    return due;
}

bool wire_send(struct world *world, struct resident *source, unsigned thread, struct backing *backing, uint8_t *at,
               const uint8_t *from, unsigned bytes, bool multicast, const struct stamp *stamp, struct fault *fault) {
    bool held = wire_is_held(source->launch->grid.device, backing->owner);
    if (!source->lists && !make_lists(source)) return out_of_memory(fault);
    if (!held && (world->options.schedule != DCPKCPU_RANDOM || world->options.store_delay == 0)) {
        if (world->order.on) order_put_all(backing, at, bytes, stamp);
        memcpy(at, from, bytes);
        return true;
    }
    unsigned element = source->cta.warps[thread / WARP]->element;
    uint64_t due = 0;
    for (unsigned done = 0; done < bytes;) {
        unsigned in_word = (unsigned)((uintptr_t)(at + done) & 3), count = 4 - in_word;
        if (count > bytes - done) count = bytes - done;
        struct word draft = {
            .at = at + done - in_word, .backing = backing, .source = source, .thread = thread, .multicast = multicast};
        if (stamp) draft.stamp = *stamp;
        memcpy(draft.value + in_word, from + done, count);
        draft.bytes = (uint8_t)(((1u << count) - 1) << in_word);
        draft.joined = element > 4 && done % element;
        draft.element = element > 4;
        if (stamp)
            draft.open = order_open(world, source->cta.warps[thread / WARP], backing, draft.at, draft.bytes, stamp);
        if (!held && !draft.joined) due = draw_due(world, &draft, element);
        if (!send_word(world, &draft, held, due)) return out_of_memory(fault);
        done += count;
    }
    return true;
}

/* ---- landing -------------------------------------------------------------------------------------- */
static void fail_landing(struct world *world, const struct word *word) {
    const struct grid *grid = &word->source->launch->grid;
    char text[512] = "";
    text_add(text, sizeof text,
             "a late store of kernel " SHOWN_NAME " (grid %llu, device %d, CTA %u, thread %u) landed in freed memory: ",
             grid->fn->name, (unsigned long long)grid->id, grid->device->ordinal, word->source->cta.linear,
             word->thread);
    memory_explain(world, (uint64_t)(uintptr_t)word->at, 4, -1, true, text, sizeof text);
    world_fail_text(world, RESULT_ILLEGAL_ADDRESS, text);
}

void wire_land(struct world *world, int index) {
    struct wire *wire = &world->wire;
    struct word *word = &wire->words[index];
    struct resident *source = word->source;
    if (word->state == WORD_FLYING)
        wire->flying--;
    else
        wire->held--;
    if (word->backing->live) {
        bool stays = !word->stamp.time || order_land(world, word);
        for (unsigned b = 0; b < 4 && stays; b++)
            if (word->bytes >> b & 1) word->at[b] = word->value[b];
    } else {
        fail_landing(world, word);
    }
    unlink_word(wire, index);
    world_progressed(world);
    grid_word_landed(world, source);
}

void wire_land_due(struct world *world) {
    while (wire_next_due(world) <= world->turn) {
        int index = world->wire.heap[0].word;
        pop_flight(&world->wire);
        wire_land(world, index);
    }
}

static void land_or_mark(struct world *world, int index) {
    if (world->wire.words[index].state == WORD_HELD)
        world->wire.words[index].fenced = true;
    else
        wire_land(world, index);
}

enum { ANY_THREAD = -1 };

/* Those of a list that a fence of the thread lands. source outlives the loop: its CTA has not ended. */
static void land_list(struct world *world, const struct word_list *list, int thread) {
    for (int i = list->first, next; i != NO_WORD; i = next) {
        const struct word *word = &world->wire.words[i];
        next = word->next;
        if (thread == ANY_THREAD || word->for_warp || word->thread == (unsigned)thread) land_or_mark(world, i);
    }
}

void wire_land_ordered(struct world *world, struct resident *source, unsigned thread) {
    land_list(world, &source->lists[source->launch->warps], ANY_THREAD);
    land_list(world, &source->lists[thread / WARP], (int)thread);
}

void wire_land_all(struct world *world, struct resident *source) {
    land_list(world, &source->lists[source->launch->warps], ANY_THREAD);
    for (unsigned w = 0; w < source->launch->warps; w++)
        land_list(world, &source->lists[w], ANY_THREAD);
}

void wire_land_bytes(struct world *world, struct resident *source, const uint8_t *at, unsigned bytes) {
    const struct wire *wire = &world->wire;
    for (const uint8_t *base = at - ((uintptr_t)at & 3); base < at + bytes; base += 4) {
        int oldest = NO_WORD; /* each turn lands one, until none is left that may */
        do {
            oldest = NO_WORD;
            for (int i = *bucket_of(wire, base); i != NO_WORD; i = wire->words[i].bucket_next)
                if (wire->words[i].at == base && wire->words[i].source == source && wire->words[i].state == WORD_FLYING)
                    oldest = i;
            if (oldest != NO_WORD) wire_land(world, oldest);
        } while (oldest != NO_WORD);
    }
}

void wire_order(struct world *world, struct resident *source, int warp) {
    struct wire *wire = &world->wire;
    if (warp >= 0) {
        for (int i = source->lists[warp].first; i != NO_WORD; i = wire->words[i].next)
            wire->words[i].for_warp = true;
        return;
    }
    for (unsigned w = 0; w < source->launch->warps; w++)
        for (int i; (i = source->lists[w].first) != NO_WORD;) {
            leave_list(wire, i);
            append_to_list(wire, i, source->launch->warps);
        }
}

void wire_overlay(const struct world *world, const struct resident *source, const uint8_t *at, uint8_t *to,
                  unsigned bytes) {
    const struct wire *wire = &world->wire;
    for (unsigned done = 0; done < bytes;) {
        unsigned in_word = (unsigned)((uintptr_t)(at + done) & 3), count = 4 - in_word, seen = 0;
        if (count > bytes - done) count = bytes - done;
        const uint8_t *base = at + done - in_word;
        for (int i = *bucket_of(wire, base); i != NO_WORD; i = wire->words[i].bucket_next) {
            const struct word *word = &wire->words[i];
            if (word->at != base || word->source != source || word->multicast) continue;
            for (unsigned b = 0; b < count; b++)
                if ((word->bytes & ~seen) >> (in_word + b) & 1) to[done + b] = word->value[in_word + b];
            seen |= word->bytes;
        }
        done += count;
    }
}
