/* bits.h - arrays of bits, one a byte of memory: set, clear, look for the first that is not set. An array has four
 * bytes more than its bits need, so that a short range is one word. Used by both halves for what has been written. */
#ifndef DCPK_CPU_BITS_H
#define DCPK_CPU_BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { BITS_SPARE = 4, BITS_SHORT = 24 };

static inline uint64_t bits_bytes(uint64_t count) { /* how large the array is */
    return count / 8 + 1 + BITS_SPARE;
}

static inline uint32_t bits_mask(unsigned count) {
    return (uint32_t)((UINT64_C(1) << (count & 63)) - 1);
}

static inline void bits_short(uint8_t *bits, uint64_t at, unsigned count, bool set) {
    uint32_t word, mask = bits_mask(count) << (at & 7);
    memcpy(&word, bits + at / 8, sizeof word);
    word = set ? word | mask : word & ~mask;
    memcpy(bits + at / 8, &word, sizeof word);
}

static inline void bits_put(uint8_t *bits, uint64_t at, uint64_t count, bool set) {
    while (count) {
        unsigned piece = (unsigned)(count < BITS_SHORT ? count : 8 - (at & 7));
        uint64_t whole = at & 7 ? 0 : count / 8;
        if (count > BITS_SHORT && whole) {
            memset(bits + at / 8, set ? 0xFF : 0, whole);
            at += 8 * whole;
            count -= 8 * whole;
            continue;
        }
        bits_short(bits, at, piece, set);
        at += piece;
        count -= piece;
    }
}

/* Up to 32 of them as a word; those of a word's ones are cleared. */
static inline uint32_t bits_get(const uint8_t *bits, uint64_t at, unsigned count) {
    uint64_t word = 0;
    memcpy(&word, bits + at / 8, BITS_SPARE + 1);
    return (uint32_t)(word >> (at & 7)) & bits_mask(count);
}

static inline void bits_clear(uint8_t *bits, uint64_t at, uint32_t ones) {
    for (; ones; ones &= ones - 1) {
        uint64_t bit = at + (unsigned)__builtin_ctz(ones);
        bits[bit / 8] &= (uint8_t) ~(1u << (bit & 7));
    }
}

/* How many from `at` on are set, up to count. */
static inline uint64_t bits_run(const uint8_t *bits, uint64_t at, uint64_t count) {
    uint64_t done = 0;
    while (done < count) {
        unsigned piece = (unsigned)(count - done < BITS_SHORT ? count - done : BITS_SHORT);
        uint32_t word;
        memcpy(&word, bits + (at + done) / 8, sizeof word);
        word = ~(word >> ((at + done) & 7)) & bits_mask(piece);
        if (word) return done + (unsigned)__builtin_ctz(word);
        done += piece;
    }
    return count;
}

/* Copies count bits; the ranges do not overlap. */
static inline void bits_copy(uint8_t *to, uint64_t to_at, const uint8_t *from, uint64_t from_at, uint64_t count) {
    for (uint64_t done = 0; done < count;) {
        uint64_t set = bits_run(from, from_at + done, count - done);
        bits_put(to, to_at + done, set, true);
        done += set;
        uint64_t gap = done;
        while (gap < count && !(from[(from_at + gap) / 8] >> ((from_at + gap) & 7) & 1))
            gap++;
        bits_put(to, to_at + done, gap - done, false);
        done = gap;
    }
}

#endif
