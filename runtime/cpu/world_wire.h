/* world_wire.h - stores on their way: struct wire, of the machine; world_wire.c and world_hold.c, and who sends or
 * lands. See world_wire.c. */
#ifndef DCPK_CPU_WORLD_WIRE_H
#define DCPK_CPU_WORLD_WIRE_H

#include "runtime/cpu/world_order.h"

enum word_state { WORD_FREE, WORD_FLYING, WORD_HELD };

struct word {             /* up to 4 bytes of one aligned word, on their way */
    uint64_t due, serial; /* due: a turn */
    uint8_t *at;          /* of the aligned word */
    struct backing *backing;
    struct resident *source;
    int next, previous; /* of a list of the source */
    unsigned list;
    int bucket_next, bucket_previous; /* newest first */
    unsigned thread;
    uint8_t value[4];
    uint8_t bytes; /* mask */
    uint8_t state;
    bool for_warp;  /* a fence of any thread of its warp lands it; one in the CTA's list: any thread of the CTA */
    bool multicast; /* the source's own loads do not see it */
    struct stamp stamp;
    uint64_t open;        /* of order_open, as it was made */
    bool joined, element; /* it is part of an element of several words; joined: and lands with the word before it */
    bool fenced;          /* held although a fence ordered it: lands first of all when released */
};

struct flight { /* a heap entry; stale when its word has another serial or due, or does not fly */
    uint64_t due, serial;
    int word;
};

struct wire {
    struct word *words;
    int capacity, free_first;
    struct flight *heap;
    int heap_count, heap_capacity;
    int *buckets; /* a power of two of chains, at least as many as words */
    unsigned bucket_count;
    unsigned flying, held;
    uint64_t serial;
};

/* world_wire.c */
int wire_begin(struct wire *wire);
void wire_end(struct wire *wire);
/* Sends bytes from a thread of a CTA to memory, word by word. stamp: who stores, while that is kept. False: out of
 * memory (fault filled). */
bool wire_send(struct world *world, struct resident *source, unsigned thread, struct backing *backing, uint8_t *at,
               const uint8_t *from, unsigned bytes, bool multicast, const struct stamp *stamp, struct fault *fault);
/* Whether all that the source has under way to the bytes is what they would become. */
bool wire_has_only(const struct world *world, const struct resident *source, const uint8_t *at, const uint8_t *from,
                   unsigned bytes);
void wire_overlay(const struct world *world, const struct resident *source, const uint8_t *at, uint8_t *to,
                  unsigned bytes);
void wire_land_due(struct world *world);     /* those whose turn has come */
uint64_t wire_next_due(struct world *world); /* turn; UINT64_MAX: nothing flies */
/* Land now, oldest first; held words stay, marked. Of a CTA: what is ordered before a fence of the thread; everything;
 * what touches the bytes. */
void wire_land_ordered(struct world *world, struct resident *source, unsigned thread);
void wire_land_all(struct world *world, struct resident *source);
void wire_land_bytes(struct world *world, struct resident *source, const uint8_t *at, unsigned bytes);
/* A barrier: the CTA's words (warp < 0), or the warp's. */
void wire_order(struct world *world, struct resident *source, int warp);
/* world_hold.c: holds changed for stores of device `from`. */
void wire_hold_changed(struct world *world, int from);
bool wire_is_held(const struct device *from, int to);
void wire_refresh_late(struct world *world);
void wire_launch(struct world *world, int index, uint64_t due); /* lets a word fly */
/* The latest due turn of flying words of the same CTA to the same place; 0: none. *count: grows by how many. */
uint64_t wire_alike_due(const struct wire *wire, const struct word *word, unsigned *count);
void wire_land(struct world *world, int index);

#endif
