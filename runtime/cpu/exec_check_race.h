/* exec_check_race.h - insides of the search for races: one access, stamps, the words of shared memory. For
 * exec_check_race.c, exec_check_fast.c and exec_check_records.c alone. */
#ifndef DCPK_CPU_EXEC_CHECK_RACE_H
#define DCPK_CPU_EXEC_CHECK_RACE_H

#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_ops.h>

enum { STRONG = 1 << 4, KIND = 5, THREAD = 7, PC = 21, CLOCK = 40, BYTES = 15, PC_MOST = (1 << 19) - 1 };
#define THREADS_MOST (1u << (PC - THREAD))

struct by { /* one access */
    struct exec *x;
    const struct op *op; /* its values, where it is a store by threads; NULL: they are not known */
    struct checker *c;
    struct cta *cta;
    const struct clocks *knows;
    u64 stamp; /* bytes left out */
    u32 thread;
    u32 lane;
    u32 self;           /* the lane's bit: what it has done itself is behind it; 0: a whole warp reads */
    const u64 *address; /* of all lanes that store at once; NULL: the others' values are in memory */
    u32 lanes;
    enum access access;
};

static inline u32 thread_in(u64 stamp) {
    return (u32)(stamp >> THREAD) & (THREADS_MOST - 1);
}

static inline u32 clock_in(u64 stamp) {
    return (u32)(stamp >> CLOCK);
}

static inline unsigned kind_in(u64 stamp) {
    return (unsigned)(stamp >> KIND) & 3;
}

#define WHO (~UINT64_C(0) << CLOCK | (u64)(THREADS_MOST / WARP - 1) << (THREAD + 5) | 3u << KIND | STRONG)

/* exec_check_race.c */
/* Whether all that the stamp says of these lanes is behind the access. *lane: one that is not. */
bool race_known(const struct by *by, u64 stamp, u32 lanes, u32 *lane);
/* A race with what a lane of the stamp's did to the word: a fault; false. */
bool race_found(const struct by *by, u64 stamp, u32 lane, bool written, u32 word);
/* Whether the store writes into the word what the other write has. */
bool race_same_value(const struct by *by, u64 stamp, u32 word, unsigned bytes);

/* exec_check_fast.c: loads and stores by the lanes, by->lane being 0: those that are left, to be looked at one by one.
 */
u32 race_fast_load(const struct by *by, struct clocks *const *know, u32 m, const u64 *address, unsigned bytes);
u32 race_fast_store(const struct by *by, struct clocks *const *know, u32 m, const u64 *address, unsigned bytes);

/* exec_check_records.c: what a word keeps beside its last write and its newest read */
void records_keep(struct checker *c, struct cell *cell, u64 stamp, u32 lanes, bool write);
void records_keep_read(struct checker *c, struct cell *cell, u64 stamp, u32 lanes);
bool records_permit(const struct by *by, const struct cell *cell, u32 word, unsigned bytes);
/* Bytes of the word are written: of the records those stay that say something of others, or that are not behind. */
void records_written(const struct by *by, struct cell *cell, unsigned bytes);
void records_clear(struct checker *c, struct cell *cell);
bool crowd_permits(const struct by *by, struct cell *cell, u32 word, unsigned bytes);
void crowd_leave(const struct by *by, struct cell *cell, unsigned bytes);    /* likewise; the others become records */
u64 record_stays(const struct by *by, u64 stamp, u32 lanes, unsigned bytes); /* of a stamp; 0: nothing */

static inline u32 own_lane(u64 stamp) {
    return 1u << thread_in(stamp) % WARP;
}

#define WARP_AND_KIND ((u64)(THREADS_MOST / WARP - 1) << (THREAD + 5) | 3u << KIND)

static inline bool clashes(const struct by *by, u64 stamp, u32 lanes, unsigned bytes, u32 *lane) {
    if (!(stamp & bytes) || clock_in(stamp) <= by->knows->floor || (stamp & by->stamp & STRONG)) return false;
    if (!((stamp ^ by->stamp) & WARP_AND_KIND) && lanes == by->self) return false; /* the thread's own */
    return !race_known(by, stamp, lanes, lane);
}

#endif
