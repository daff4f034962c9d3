/* exec_wgmma.h - wgmma: products of a warpgroup that run beside its threads.
 *
 * The four warps of a warpgroup meet at each wgmma.mma_async; what it does happens later, at the latest when a warp
 * waits for its group. Until then it owns its accumulators and reads its registers and shared bytes: who touches them
 * is told so. Groups are numbered from 1 in each warpgroup; all its warps count alike. Owned by exec_wgmma.c (meeting,
 * groups, waits), exec_wgmma_land.c (descriptors, operands, results), exec_wgmma_math.c (arithmetic),
 * exec_wgmma_watch.c (who may touch what). */
#ifndef DCPK_CPU_EXEC_WGMMA_H
#define DCPK_CPU_EXEC_WGMMA_H

#include <runtime/cpu/exec_async.h>

enum {
    WARPGROUP = 4,       /* warps */
    WARPGROUPS_MOST = 8, /* of a CTA */
    CTA_WARPS_MOST = 32,
    WGMMA_ROWS = 64,
    WGMMA_COLUMNS = 256, /* at most */
    WGMMA_BYTES = 32,    /* of a row of A, of a column of B */
    WGMMA_UNITS = WGMMA_BYTES / UNIT,
    WGMMA_PLACE = REGISTER_POOL + 1, /* where its warps wait for each other */
    WGMMA_PLACES
};

/* op->imm: columns, and above: */
enum wgmma_flag {
    WGMMA_NEGATE_A = 1 << 16,
    WGMMA_NEGATE_B = 1 << 17,
    WGMMA_TRANS_A = 1 << 18,
    WGMMA_TRANS_B = 1 << 19,
    WGMMA_A_REGISTERS = 1 << 20
};
/* The op of wgmma.mma_async: a, b: descriptors; c: scale-d; extra: registers of d, then of a; count: of d; bytes: K;
 * order, width, space: number_kind of A, B and D. */
static inline unsigned wgmma_columns(const struct op *o) {
    return (unsigned)o->imm & 0xFFFF;
}

struct wgmma_register { /* of a warp, by its slot */
    u64 touched,
        written; /* a wgmma.fence of at least this number must come before a wgmma accumulates in it, reads it */
    u32 d_group, a_group; /* newest that has it as accumulator, as fragment of A; 0 none */
    u32 d_pc, a_pc;
    u32 d_at; /* which accumulator */
};

struct wgmma_warp {
    u64 fences;          /* it has executed */
    u32 committed, done; /* groups; those it has waited for */
    u32 newest;          /* group of its newest wgmma, 0 none */
    u64 a, b;            /* what it waits with for the others: descriptors */
    bool scale;
    u32 pc;
    struct wgmma_register registers[];
};

struct wgmma_pending {
    const struct op *op;
    u64 a, b;
    u32 group;
    bool scale;
};

/* Sight of a group is having waited for it, or having synchronised with who had: as for cp.async. Groups end in order,
 * so that a number says it all. */
struct warpgroup {
    struct wgmma_pending *queue;
    u32 count, capacity;
    u32 seen[CTA_WARPS_MOST];  /* by each warp of the CTA: groups up to this one */
    u32 carried[WGMMA_PLACES]; /* by barriers that a warp which sees them has reached by bar.arrive */
    u32 released;              /* by everybody */
    u32 *reader, *reader_pc;   /* of a unit of shared memory: the newest group that reads it; its wgmma */
};

struct warpgroups {
    struct warpgroup at[WARPGROUPS_MOST];
};

static inline struct warpgroups *warpgroups_of(const struct cta *cta) {
    return ((struct barriers *)cta->exec)->wgmma;
}

/* ---- exec_wgmma.c ---- */
sync_fn sync_wgmma, sync_wgmma_fence, sync_wgmma_commit, sync_wgmma_wait;
void wgmma_describe(const struct exec *x, char *text, size_t capacity); /* what it waits for, if it does */
int wgmma_gone(struct exec *x);                                         /* the warp has exited; RUN_FAULT: completed */
void wgmma_free(struct cta *cta);

/* ---- exec_wgmma_land.c ---- */
/* The places of an operand's 16-byte units, as offsets in shared memory; unit: K-major: 2 a row; else 1 for each k and
 * each 8 rows. May lie outside. */
u32 wgmma_unit(u64 descriptor, bool trans, unsigned rows, unsigned unit);
static inline unsigned wgmma_units(unsigned rows) {
    return rows * WGMMA_UNITS;
}
void wgmma_land(struct cta *cta, unsigned group, u32 most); /* pending ones of groups up to most, in order */
void wgmma_land_some(struct world *world, struct cta *cta, unsigned one_in); /* the adversary's moment */

/* ---- exec_wgmma_math.c ---- */
struct wgmma_factor { /* B, ready to multiply: columns side by side */
    double value[WGMMA_BYTES][WGMMA_COLUMNS];
    s16 exponent[WGMMA_BYTES][WGMMA_COLUMNS];
};
void wgmma_factor(const struct op *o, const u8 (*raw)[WGMMA_BYTES], struct wgmma_factor *b);
/* d = a * b + d for one row; a: its bytes; d: bits of each column's number, as its type stores it. */
void wgmma_row(const struct op *o, const u8 *a, const struct wgmma_factor *b, bool scale, u32 *d);

/* ---- exec_wgmma_watch.c ---- */
op_fn op_wgmma_guard; /* stands before every operation that touches a register of a wgmma */
bool wgmma_take_registers(struct exec *x, const struct op *o); /* false: fault */
/* The shared bytes of an operand, A or B, that its warpgroup begins to read: all in sight. A row or column of which
 * nothing has been written is padding: its results are NaN. A part of one, or all, is a fault. false: fault. */
bool wgmma_read(struct exec *x, unsigned group, const struct op *o, u64 descriptor, bool trans, unsigned rows,
                char operand);
bool wgmma_permit_write(struct exec *x, u32 lane, const struct cta *cta, u32 unit, u64 offset, unsigned bytes,
                        enum access access);
void wgmma_arrive(const struct cta *cta, unsigned warp, u32 barrier);
void wgmma_open(const struct cta *cta, u32 barrier, u32 warps);
void wgmma_release(const struct cta *cta, unsigned warp);

#endif
