/* exec_async.h - what runs beside the threads of a CTA: mbarriers and bulk copies, and who may touch their bytes.
 *
 * A bulk load is flying until its bytes are in shared memory, complete once the phase of its mbarrier is that they
 * helped to complete, seen by a warp that has waited for that phase. Nobody else may touch the bytes; a barrier or a
 * release passes sight on as it does for cp.async (exec_copy_watch.c), and when every warp sees them the load is
 * forgotten. A bulk store reads shared memory until its thread has waited for that: meanwhile nobody may write there.
 * Copies and mbarriers belong to the CTA in whose shared memory they act. Owned by exec_async.c (who may touch what),
 * exec_mbarrier.c, exec_bulk.c (begin, groups), exec_bulk_land.c (flight), exec_proxy.c (generic writes). */
#ifndef DCPK_CPU_EXEC_ASYNC_H
#define DCPK_CPU_EXEC_ASYNC_H

#include <runtime/cpu/exec_memory.h>

enum { COUNT_MOST = (1 << 20) - 1, UNIT = 16, BARRIER_BYTES = 8, ROW_MOST = 2048, DIMENSIONS = 5 };

struct mbarrier {
    u32 offset;                     /* in shared memory */
    u32 expected, pending;          /* arrivals of a phase; those still to come in this one */
    s32 tx;                         /* bytes still to come in this phase */
    u32 flying;                     /* bulk loads on their way that complete here */
    u32 waiters;                    /* warps whose last wait here found the phase incomplete */
    u64 phase;                      /* phases completed */
    struct clocks *arriving, *over; /* the memory checker's: what arrivals of this phase, of former ones brought */
};

/* What a bulk copy moves, as rows: pieces of global memory that follow each other in shared memory. */
struct box {
    u64 base;              /* global address: of the first row, of a tensor's first element */
    u32 offset;            /* in shared memory */
    u32 row_bytes, rows;   /* row_bytes: of the last row of a plain copy perhaps less */
    u32 bytes;             /* all, in shared memory */
    u8 rank, swizzle;      /* rank 0: a plain copy; swizzle: bits of the pattern, 0 none */
    u8 element;            /* bytes */
    s32 at[DIMENSIONS];    /* the box's first element */
    u32 size[DIMENSIONS];  /* elements of the box */
    u32 step[DIMENSIONS];  /* of a coordinate from one to the next */
    u64 dim[DIMENSIONS];   /* elements of the tensor */
    u64 pitch[DIMENSIONS]; /* bytes from one to the next */
};

struct bulk {
    struct box box;
    u64 phase;          /* load: of its mbarrier, that its last bytes helped to complete */
    u32 pc, thread;     /* that began it */
    u32 issuer[3];      /* its block */
    u32 rank;           /* and that one's in the cluster */
    u32 barrier;        /* load: offset of its mbarrier */
    u32 group;          /* store: its thread's bulk group, counted from 0 */
    u32 start, step;    /* rows go in the order start, start + step, ... modulo rows */
    u32 read;           /* store: rows that have left shared memory */
    u32 landed;         /* rows that have arrived */
    u32 seen;           /* load: warps that see it */
    u32 noticed;        /* load: warps that found its phase over by a .relaxed wait: with a fence they see it */
    u32 carried;        /* load: barriers that a warp which sees it has reached by bar.arrive */
    u8 *staged;         /* store: what has been read */
    bool early;         /* load: begun before griddepcontrol.wait */
    bool store, waited; /* waited: store: its thread has waited for its reads */
};

enum mark { MARK_BARRIER = 1, MARK_LOAD = 2, MARK_STORE = 4, MARK_WGMMA = 8 };

struct async {       /* of a CTA; made with its first mbarrier or bulk copy */
    u8 *marks;       /* enum mark of 16 bytes of shared memory */
    u32 *owner;      /* of 16 bytes: the load that writes them, index + 1 */
    u32 *barrier_at; /* of 8 bytes: the mbarrier there, index + 1 */
    struct mbarrier *barriers;
    u32 barrier_count, barrier_capacity;
    struct bulk *bulks;
    u32 bulk_count, bulk_capacity;
    u32 *groups;  /* of a thread: bulk groups it has committed */
    u64 *written; /* of a word: when and by whom the generic proxy wrote it; NULL: nobody asks (exec_proxy.c) */
    u64 *fenced;  /* of a thread: when it last executed fence.proxy.async */
    u64 clock, synced, cleaned;
};

struct place { /* bytes of a CTA's shared memory */
    struct cta *cta;
    u32 offset;
};

static inline struct async *async_of(const struct cta *cta) {
    return ((struct barriers *)cta->exec)->async;
}

static inline struct exec *exec_of(const struct cta *cta, unsigned warp) {
    return cta->warps[warp]->exec;
}

/* ---- exec_async.c ---- */
/* The CTA's, made if there is none; NULL: fault, out of memory. */
struct async *async_need(struct exec *x, unsigned lane, struct cta *cta);
void async_free(struct cta *cta);
/* Whether x's lane may touch bytes of the CTA's shared memory; false: fault. */
bool async_permit(struct exec *x, u32 lane, struct cta *cta, u64 offset, unsigned bytes, enum access access);
void async_mark(struct async *a, u32 index, bool set); /* the bulk's bytes */
void async_end(struct cta *cta, u32 index);            /* forgets a bulk: the last takes its place */
bool async_complete(const struct async *a, const struct bulk *b);
/* x's warp has found a phase complete; acquire: sees what it brought, else a fence may come. */
void async_waited(struct exec *x, const struct mbarrier *b, bool acquire);
void async_arrive(struct cta *cta, unsigned warp, u32 barrier);
void async_open(struct cta *cta, u32 barrier, u32 warps);
void async_release(struct cta *cta, unsigned warp); /* a fence, or whatever else releases */
bool async_done(struct exec *x);                    /* the CTA's last warp has exited; false: fault, completed */
/* A fault about a bulk copy; what began it and where follows. */
int bulk_fault(struct exec *x, unsigned lane, const struct bulk *b, int code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- exec_mbarrier.c ---- */
op_fn op_mbarrier_init, op_mbarrier_inval, op_mbarrier_tx, op_mbarrier_arrive, op_mbarrier_wait, op_mbarrier_pending,
    op_copy_mbarrier;
struct mbarrier *mbarrier_at(const struct cta *cta, u64 offset);                                  /* NULL: none */
bool mbarrier_complete_tx(struct exec *x, unsigned lane, struct cta *cta, u32 offset, u32 bytes); /* false: fault */
void mbarrier_describe(const struct exec *x, char *text, size_t capacity);                        /* what x waits for */

/* ---- exec_bulk.c ---- */
op_fn op_bulk_load, op_bulk_store, op_bulk_prefetch, op_bulk_commit, op_bulk_wait, op_prefetch_map;

/* ---- exec_bulk_land.c ---- */
/* A row's bytes of global memory: [*from, +*bytes), which go *skip bytes behind the row's beginning. */
u32 box_row(const struct box *box, u32 row, u64 *from, u32 *skip, u32 *bytes);
u32 box_place(const struct box *box, u32 row, u32 at);            /* offset in shared memory of 16 bytes */
bool bulk_land_for(struct exec *x, struct cta *cta, u32 barrier); /* the loads of an mbarrier; false: fault */
/* Reads, or with `all` also writes, what is left of a store; false: fault. */
bool bulk_finish(struct exec *x, struct cta *cta, struct bulk *b, bool all);
/* The CTA ends: what it has begun for others of its cluster lands, while it is there to say what it may read. */
bool bulk_land_begun(struct exec *x);
bool bulk_land_some(struct world *world, struct cta *cta, unsigned one_in, struct fault *fault);

/* ---- exec_proxy.c ---- */
op_fn op_fence_proxy;
bool proxy_begin(struct cta *cta);               /* false: no memory */
static inline void proxy_sync(struct async *a) { /* threads of the CTA have synchronised */
    a->synced = a->clock;
}
void proxy_wrote(struct async *a, unsigned thread, u64 offset, unsigned bytes);
void proxy_wrote_far(struct async *a, u64 offset, unsigned bytes); /* a thread of another CTA: not followed */
void proxy_clean(struct async *a, u64 offset, unsigned bytes);     /* the async proxy wrote them */
/* Whether somebody has written all of the bytes since the CTA began. */
bool proxy_known(const struct cta *cta, u64 offset, unsigned bytes);
/* Whether the async proxy may read the bytes: all that generic writes left there is behind a fence.proxy.async. */
bool proxy_permit(struct exec *x, u32 lane, struct cta *cta, u64 offset, unsigned bytes);
/* Whether an operation of x's lane may read the CTA's own bytes through the async proxy: bulk stores, wgmma. Encoders
 * of such operations set code.async_reads, else generic writes are not watched. false: fault. */
bool proxy_read(struct exec *x, u32 lane, u64 offset, unsigned bytes);

/* ---- exec_cluster.c ---- */
/* The bytes that a shared address names; space: SPACE_SHARED, the CTA's own; SPACE_CLUSTER; SPACE_GENERIC, the CTA's
 * own by a generic address. false: fault. */
bool place_of(struct exec *x, u32 lane, enum space space, u64 address, unsigned bytes, unsigned align,
              struct place *place);
op_fn op_mapa, op_getctarank;
sync_fn sync_cluster;
enum { CLUSTER_BARRIER = MAX_BARRIERS, REGISTER_POOL, RANK_SHIFT = 24 }; /* two more places where warps wait */
void cluster_settle(struct exec *x, struct cluster *cluster);            /* a warp has exited */

#endif
