/* exec_check_fast.c - the search for races where it has little to do: loads and weak stores of whole words by lanes
 * that know the same, of words whose last write is the lane's own or behind everybody, and, for stores, whose reads
 * are. What these leave in a word says no less than what exec_check_race.c would leave; all else, and every fault, is
 * its. */
#include <runtime/cpu/exec_check_race.h>

#define THREAD_AND_KIND ((u64)(THREADS_MOST - 1) << THREAD | 3u << KIND)

#define INLINE static inline __attribute__((always_inline))

struct fast {
    struct checker *c;
    u64 stamp, floor; /* of lane 0; the clock up to which all is behind each lane */
};

/* false: not this simple. Lanes that do not know the same see only words that nobody has touched, or they themselves.
 */
static bool begin(const struct by *by, struct clocks *const *know, u32 m, unsigned bytes, struct fast *f) {
    const struct clocks *first = know[__builtin_ctz(m)];
    u64 differ = 0;
    if (bytes % 4 || by->c->order->blind) return false;
    for (u32 l = 0; l < WARP; l++)
        differ |= (u64)((uintptr_t)know[l] ^ (uintptr_t)first) & (0 - (u64)(m >> l & 1));
    *f = (struct fast){by->c, by->stamp | BYTES, differ ? 0 : first->floor};
    return true;
}

/* Whether the word's newest read, of these lanes, is the lane's own. */
INLINE bool is_own(const struct cell *cell, u64 now, u32 self) {
    return cell->lanes == self && !((cell->read ^ now) & WARP_AND_KIND);
}

INLINE bool load_word(const struct fast *f, struct cell *cell, u64 now, u32 self) {
    u64 write = cell->write, read = cell->read;
    if (cell->more || (write >> CLOCK > f->floor && (write ^ now) & THREAD_AND_KIND)) return false;
    if (!((read ^ now) & (WHO | BYTES))) {
        cell->lanes |= self;
        return true;
    }
    if (read && now & ~read & STRONG) return false;
    if (read >> CLOCK > f->floor && !is_own(cell, now, self)) { /* another's, which may not be behind this one */
        if ((read & BYTES) != BYTES) return false;
        records_keep_read(f->c, cell, read, cell->lanes);
    }
    cell->read = now;
    cell->lanes = self;
    return true;
}

INLINE bool store_word(const struct fast *f, struct cell *cell, u64 now, u32 self) {
    u64 write = cell->write;
    if (cell->more | cell->crowd || (write >> CLOCK > f->floor && (write ^ now) & THREAD_AND_KIND)) return false;
    if (cell->read >> CLOCK > f->floor && !is_own(cell, now, self)) return false;
    cell->write = now;
    cell->read = 0;
    cell->lanes = 0;
    return true;
}

INLINE u32 each_lane(const struct fast *f, u32 m, const u64 *address, unsigned words, bool store) {
    u32 left = 0;
    FOR_LANES(l, m) {
        struct cell *cell = &f->c->cells[(address[l] - SHARED_BASE) / 4];
        const u64 now = f->stamp + ((u64)l << THREAD);
        const u32 self = 1u << l;
        bool good = true;
        for (unsigned w = 0; w < words && good; w++)
            good = store ? store_word(f, &cell[w], now, self) : load_word(f, &cell[w], now, self);
        left |= good ? 0 : self;
    }
    return left;
}

/* By the sizes that there are, so that the loops come apart. */
INLINE u32 by_size(const struct fast *f, u32 m, const u64 *address, unsigned bytes, bool store) {
    switch (bytes) {
    case 4:
        return each_lane(f, m, address, 1, store);
    case 8:
        return each_lane(f, m, address, 2, store);
    case 16:
        return each_lane(f, m, address, 4, store);
    default:
        return each_lane(f, m, address, bytes / 4, store);
    }
}

u32 race_fast_load(const struct by *by, struct clocks *const *know, u32 m, const u64 *address, unsigned bytes) {
    struct fast f;
    return begin(by, know, m, bytes, &f) ? by_size(&f, m, address, bytes, false) : m;
}

u32 race_fast_store(const struct by *by, struct clocks *const *know, u32 m, const u64 *address, unsigned bytes) {
    struct fast f;
    return !(by->stamp & STRONG) && begin(by, know, m, bytes, &f) ? by_size(&f, m, address, bytes, true) : m;
}
