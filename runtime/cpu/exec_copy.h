/* exec_copy.h - asynchronous copies (cp.async) of a CTA: which are on their way, and who may touch what they write.
 *
 * A copy goes through three states. Flying: begun, its bytes not yet in shared memory. Landed: they are, and still
 * nobody may touch them. Waited: its thread has passed a wait that covers its group, and sees them; other threads see
 * them once a barrier, or a release by a thread that sees them, has come between. Until every warp sees them the copy
 * is kept, and an access by a thread that does not is a fault. Owned by exec_copy.c (flight) and exec_copy_watch.c
 * (sight). */
#ifndef DCPK_CPU_EXEC_COPY_H
#define DCPK_CPU_EXEC_COPY_H

#include <runtime/cpu/exec.h>

struct copy {
    u64 from;    /* global address */
    u32 to;      /* offset in the CTA's shared memory */
    u32 pc;      /* of the cp.async */
    u32 group;   /* its thread's, counted from 0 */
    u32 lanes;   /* of its own warp that see it; 0 until its thread has waited */
    u32 warps;   /* whose threads all see it */
    u32 carried; /* barriers that a warp which sees it has reached by bar.arrive */
    u8 lane;
    u8 bytes, wanted; /* wanted: read from the source, the rest is zero */
    u8 words;         /* of the bytes that no later copy has taken over */
    bool early;       /* begun before griddepcontrol.wait */
    bool landed, due; /* due: lands in the next pass */
};

struct copies { /* of a warp; made at its first cp.async */
    struct copy *at;
    u32 count, capacity, flying;
    u32 committed[WARP]; /* groups a thread has committed */
};

/* ---- flight ---- */
op_fn op_copy, op_copy_commit, op_copy_wait;
bool copies_exit(struct exec *x, u32 m); /* what the exiting lanes have under way lands; false: fault, completed */
void copies_free(struct cta *cta);

/* ---- sight ---- */
bool copies_track(struct exec *x, const struct copy *copy); /* false: no memory */
/* The copy's thread has waited, live: warps that have not exited. It may end the copy: go through a warp's copies from
 * the last to the first. */
void copies_waited(struct exec *x, u32 index, u32 live);
u32 copies_live(const struct cta *cta);
/* Whether the lanes of x's warp may touch shared bytes [offset, +bytes); false: fault, of `lane`. */
bool copies_permit(struct exec *x, u32 lane, u32 lanes, u64 offset, unsigned bytes, enum access access);
/* The same in another CTA of the cluster. */
bool copies_permit_remote(struct exec *x, u32 lane, struct cta *cta, u64 offset, unsigned bytes, enum access access);
/* The same for each active lane on its own at its address, all inside shared memory. */
bool copies_permit_each(struct exec *x, u32 m, const u64 *address, unsigned bytes, enum access access);
void copies_meet(struct exec *x, u32 members);             /* bar.warp.sync */
void copies_arrive(struct exec *x, u32 barrier);           /* bar.arrive: the warp goes on */
void copies_open(struct cta *cta, u32 barrier, u32 warps); /* the barrier opens for these warps */
void copies_release(struct exec *x, u32 m);                /* a fence, or a store or atomic that releases */
#endif
