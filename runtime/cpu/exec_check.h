/* exec_check.h - the memory checker of shared memory: which bytes have been written, and whether two accesses of one
 * place by different threads are ordered.
 *
 * Order is kept exactly, as vector clocks. A thread's accesses are stamped with its warp's epoch; whoever synchronises
 * with the thread learns up to which clock its accesses lie behind it. Threads learn through barriers of the CTA and
 * the cluster, bar.warp.sync, mbarriers, and through a release that an acquire may have seen (which one is not
 * followed: a release is for all who acquire later). What asynchronous copies and wgmma do to shared memory until they
 * are waited for is watched elsewhere (exec_copy_watch.c, exec_async.c, exec_wgmma_watch.c); here they are accesses of
 * the thread that began them. Owned by exec_check.c (life, what has been written), exec_check_order.c (clocks),
 * exec_check_race.c (accesses) with exec_check_records.c. All is NULL, and nothing is called, when the checker is off.
 */
#ifndef DCPK_CPU_EXEC_CHECK_H
#define DCPK_CPU_EXEC_CHECK_H

#include <runtime/cpu/exec_wgmma.h>

struct clocks {
    struct clocks *next; /* of those that nobody uses */
    u32 users, floor;    /* floor: at most the least of all */
    u32 at[];            /* of each thread of the cluster: accesses up to this clock are known */
};

struct ordering { /* of a cluster */
    u32 users, threads, clock;
    bool blind;            /* out of memory or of clocks: nothing more is said about races */
    struct clocks **know;  /* of a thread */
    u32 *epoch;            /* of a warp: what it does is stamped with this */
    struct clocks **offer; /* of a warp: what it knew at its last fence; NULL: none */
    bool *asked;           /* of a warp: it has loaded with an order that a fence makes an acquire */
    struct clocks **gone;  /* of a warp: what its lanes that have exited brought; NULL: none has */
    bool *came;            /* of a warp: it has arrived in this phase of barrier.cluster */
    struct clocks *released, *spare;
    struct clocks *cluster_gate, *cluster_open; /* of barrier.cluster: this phase, the last one */
};

/* A stamp: clock 24 bits | pc 19 | thread of the cluster 14 | kind 2 | strong 1 | bytes of the word 4. 0: none. */
enum stamp_kind {
    BY_THREAD, /* a thread, or with lanes several */
    BY_WARP,   /* a warp at once: known as soon as what any lane did since is */
    BY_GROUP   /* likewise a warpgroup, whose first thread it names */
};

struct cell { /* of 4 bytes of shared memory */
    u64 write, read;
    u32 lanes; /* of the warp that read */
    u32 more;  /* first of further records + 1, 0 none */
    u32 crowd; /* number of the crowd that reads it, 0 none */
    u32 unused;
};
struct slot { /* of a crowd: of each warp of the CTA what it read; the first one is the crowd's head */
    u64 stamp;
    u32 lanes, next; /* head: lanes are the warps that are in, next the next free crowd */
};
struct record {
    u64 stamp;
    u32 lanes, next; /* next: + 1 */
    bool write;
};

struct checker { /* of a CTA */
    struct ordering *order;
    u32 first; /* the CTA's thread 0 among those of the cluster */
    u8 *known; /* a bit a byte of shared memory: written */
    struct cell *cells;
    struct record *records;
    u32 record_count, record_capacity, record_free; /* record_free: + 1 */
    struct slot *crowds;
    u32 crowd_count, crowd_capacity, crowd_free, crowd_slots;
    struct clocks *gates[WGMMA_PLACES]; /* of barriers: what those who have arrived brought */
    u32 came[WGMMA_PLACES];             /* which warps those are */
};

static inline struct checker *checker_of(const struct cta *cta) {
    return ((struct barriers *)cta->exec)->checker;
}

/* ---- exec_check.c ---- */
bool check_begin(struct cta *cta); /* false: out of memory */
void check_end(struct cta *cta);
void check_written(struct cta *cta, u64 offset, u64 bytes); /* shared bytes, by whatever */
/* Bytes were copied there from global memory: they are as written as their source. */
void check_copied(struct world *world, struct cta *cta, u64 offset, u64 from, u64 bytes);
/* Whether shared bytes have been written; false: fault. */
bool check_known(struct exec *x, u32 lane, const struct cta *cta, u64 offset, unsigned bytes);
/* Global bytes that lanes read side by side (same: all the same bytes): written, and noted when they are an input.
 * false: fault. */
bool check_global(struct exec *x, const struct op *o, u32 lanes, bool same, u64 address, unsigned bytes);

/* ---- exec_check_race.c: whether accesses are ordered with those before them; false: fault ---- */
/* Loads and stores, all addresses within the CTA's own shared memory. linear: of 32 lanes, side by side, ascending. */
bool check_load(struct exec *x, const struct op *o, u32 m, const u64 *address, unsigned bytes, bool linear);
bool check_store(struct exec *x, const struct op *o, u32 m, const u64 *address, unsigned bytes, bool linear);
/* One lane's access of any CTA's, by x->doing. */
bool check_place(struct exec *x, u32 lane, struct cta *cta, u64 offset, unsigned bytes, enum access access);
/* Rows of 16 bytes, in order named by lanes, that the warp reads or writes as a whole. */
bool check_rows(struct exec *x, const struct op *o, u8 *const *rows, u32 count, enum access access);
/* Bytes that an asynchronous copy of the lane writes or reads. */
bool check_async(struct exec *x, const struct op *o, u32 lane, struct cta *cta, u64 offset, unsigned bytes,
                 enum access access);
bool check_wgmma(struct exec *x, const struct op *o, unsigned group, u64 offset); /* a unit that wgmma reads */
bool check_mbarrier(struct exec *x, u32 lane, const struct place *place);         /* its init is behind the lane */

/* ---- exec_check_order.c ---- */
struct ordering *order_new(u32 threads, u32 warps_of_cta, u32 threads_of_cta);
void order_leave(struct ordering *order);
void order_drop(struct ordering *order, struct clocks **clocks);
void check_exit(struct exec *x, u32 m);
void check_meet(struct exec *x, u32 members);          /* bar.warp.sync */
void check_arrive(struct exec *x, u32 barrier, u32 m); /* at a barrier of the CTA */
/* It opens for the warps that wait there. Threads that have exited are behind it where it is everybody's, not given a
 * count, and those that had when their warp came; a warp that went past it, or arrived and went on, and exited is not.
 */
void check_open(struct cta *cta, u32 barrier, u32 warps, bool everybody);
void check_gate_arrive(struct exec *x, u32 m, struct clocks **arriving);
void check_gate_over(struct exec *x, struct mbarrier *b); /* its phase is complete */
void check_gate_wait(struct exec *x, u32 m, const struct mbarrier *b);
void check_fence(struct exec *x, u32 m);
void check_release(struct exec *x, const struct op *o, u32 m); /* a store or atomic that others may see as one */
void check_acquire(struct exec *x, const struct op *o, u32 m); /* a load or atomic, likewise */
void check_cluster_arrive(struct exec *x);
void check_cluster_open(struct cluster *cluster);
void check_cluster_wait(struct exec *x);

#endif
