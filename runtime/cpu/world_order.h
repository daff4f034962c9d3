/* world_order.h - who knows of which stores to global memory, by the PTX memory model's causality order; world_order*.c
 * and those that tell them of events. Kept under the adversary, and where store_tracking asks for it.
 *
 * A store is named by its moment (world_order.c counts them), its grid and its cluster. A view is a set of stores: all
 * of a stream's grids up to the n-th that completed, all of a grid or a cluster up to a moment. A warp knows its own
 * stores, its cluster's behind a barrier, what its grid knew as it began, what the grid before it left once it has
 * waited, and what a release has told it whose store it has read, once it acquires; both in scopes that hold the two.
 * Lanes of a warp are one. A strong store carries what its warp knew at its last release: a message. Messages are kept
 * until the machine is reset. */
#ifndef DCPK_CPU_WORLD_ORDER_H
#define DCPK_CPU_WORLD_ORDER_H

#include "runtime/cpu/machine.h"

struct known {
    uint64_t key, until;
};
struct view {
    struct known *at; /* in order of key */
    unsigned count, capacity;
    bool all; /* out of memory: everything is taken to be known */
};

struct stamp {     /* of a store */
    uint64_t time; /* 0: none, or the host */
    uint32_t grid, cluster, pc;
    uint32_t near, message;        /* for threads of its cluster; for all others */
    uint32_t fence[SCOPE_SYS + 1]; /* by scope: how long before it the last release as wide was, 0: none; + 1 */
    uint16_t thread;               /* of the cluster */
    uint8_t device, strong;        /* strong: enum scope, 0: weak */
    bool atomic;                   /* it has read what was there before: nothing comes in between */
};

struct weak { /* a weak store: what of its stamp is looked at, and a mask of the bytes that it changed */
    uint64_t time;
    uint32_t grid, cluster, pc;
    uint16_t thread;
    uint8_t device, bytes;
};

struct cell {                   /* of an aligned word */
    struct stamp stamp, before; /* before: of what was there before */
    struct weak weak;           /* the last one, where all stores since were strong: they do not race, it still does */
    uint64_t seen_time;         /* when a strong load first saw the store */
    uint32_t old, seen;         /* what was there before; mask of devices whose strong loads have seen the store */
    uint8_t bytes;              /* mask of those that the store wrote */
};

struct cluster_order { /* of the CTAs that started together */
    uint32_t uid, users;
    uint64_t synced;  /* stores of the cluster up to here are known to all of it */
    struct view view; /* what barriers have spread */
    struct view sc[]; /* what the fence.sc so far knew of the cluster; then of its CTA of each rank */
};

struct warp_order {
    uint64_t synced;                    /* stores of the warp's cluster up to here are known */
    uint64_t fence[SCOPE_SYS + 1];      /* by scope: the moment of the last release as wide */
    struct view known;                  /* beyond what the grid knows */
    struct view pending[SCOPE_SYS + 1]; /* read of releases; an acquire of that scope or wider makes it known */
    uint32_t near, message;             /* of its last release, of one of gpu scope or wider; NO_MESSAGE: to be made */
    bool waited;                        /* for the grid before its own */
    /* so as not to ask again: what it was behind last, up to when; what it has heard last, and from how far */
    uint32_t behind_cluster, heard_cluster, heard_message;
    uint64_t behind_time, heard_until;
    enum scope heard;
};

struct grid_order {                /* by grid id */
    const struct ptx_function *fn; /* NULL: unloaded */
    uint64_t timeline, completed;  /* key of the stream; as which of that, from 1; 0: not yet */
    int device;
};

struct launch_order {
    uint32_t host, before, after; /* messages: known at the launch call; at its start; behind its wait */
    struct view end;              /* what its warps knew as they ended */
    bool dependent;               /* it began by a programmatic edge */
    bool waited;                  /* one of them, at least, for the grid before */
    bool own_late;                /* its stores to its own device may be late, too */
};

enum { NO_MESSAGE = 0, NO_WARP = -1 };

struct causality {
    bool on;
    uint64_t time;
    struct view *messages;
    uint32_t message_count, message_capacity, clusters;
    struct grid_order *grids;
    uint64_t grid_capacity;
    struct view sc;      /* what the fence.sc so far of sys scope knew */
    struct view host;    /* what the host has waited for */
    char overtaken[400]; /* the last store that came, by the adversary's choice, before one that it was not behind */
};

/* world_view.c */
void view_free(struct view *view);
bool view_knows(const struct view *view, uint64_t key, uint64_t time);
void view_learn(struct view *view, uint64_t key, uint64_t until);
void view_join(struct view *view, const struct view *other);
uint64_t key_stream(int device, int stream);           /* its first completed grids */
uint64_t key_observed(int device);                     /* what its strong loads have seen */
uint64_t key_cluster(uint32_t grid, uint32_t cluster); /* cluster 0: all of the grid */

struct backing;
struct device;
struct graph_run;
struct launch;
struct mapping;
struct op;
struct resident;
struct stream;
struct word;

/* world_order.c: events */
void order_begin(struct world *world);
void order_end(struct world *world);
void order_enqueue(struct world *world, struct launch *launch); /* at the launch call */
void order_start(struct world *world, struct op *op);
void order_start_other(struct world *world, struct op *op); /* no kernel: all before it is complete */
void order_predecessor_done(struct world *world, const struct op *before, struct launch *launch);
void order_complete(struct world *world, struct launch *launch);
void order_forget(struct world *world, const struct ptx_function *fn); /* its module is unloaded */
uint32_t order_record(struct world *world, const struct op *op);       /* an event's message */
void order_receive(struct world *world, struct op *op, uint32_t message);
void order_known(const struct world *world, const struct op *op, struct view *view); /* joined by what lies behind it */
void order_graph_done(struct world *world, struct graph_run *run);
void order_stream_ends(struct stream *stream);
/* The host has waited for a stream's work, or, -1, all of the device's; for an event. */
void order_host_waits(const struct device *device, int stream);
void order_host_hears(struct world *world, uint32_t message);
/* A CTA and the first of its cluster (NULL: itself). false: out of memory. */
bool order_resident(struct world *world, struct resident *resident, const struct resident *first);
void order_resident_free(struct resident *resident);
void order_cta_ends(struct world *world, struct resident *resident);
void order_wait(struct world *world, struct warp *warp);
void order_fence(struct world *world, struct warp *warp, enum order order, enum scope scope);
void order_barrier(struct world *world, struct warp *warp, bool whole_cta);
/* What a warp knows by its grid alone; NO_WARP: who has not waited. The message of its strong stores behind its last
 * release; far: behind that of gpu scope or wider, which is all that those outside its cluster may hear. */
const struct view *order_base(const struct world *world, const struct resident *resident, int warp);
uint32_t order_message(struct world *world, const struct resident *resident, unsigned warp, bool far);
/* A message of two: one and `said`, a store's, whose cluster and device said it at the moment `until`; 0: the message
 * alone. */
uint32_t order_join(struct world *world, uint32_t message, const struct stamp *stamp, uint32_t said, uint64_t until);
/* The same into a view. */
void order_learn(struct world *world, struct view *view, const struct stamp *stamp, uint32_t said, uint64_t until);
bool order_covers(const struct causality *order, const struct view *view, const struct cell *cell);
/* Whether the warp has still to wait for the grid before its own. */
bool order_is_early(const struct warp *warp);

/* world_race.c: accesses; only while order.on */
/* Forgets who wrote the bytes: the host has. */
void order_clear(const struct backing *backing, const uint8_t *at, uint64_t bytes);
void cells_end(struct backing *backing);
/* A copy or fill reads, or writes, bytes of a stream's; a race is the world's fault. */
void order_transfer(struct world *world, const struct op *op, bool write);
struct stamp order_stamp(struct world *world, const struct warp *warp, unsigned thread, enum order order,
                         enum scope scope);
/* Before a store of the bytes `from`, NULL: of an atomic. false: a race, fault filled. */
bool order_may_store(struct world *world, struct warp *warp, struct backing *backing, const uint8_t *at,
                     const uint8_t *from, unsigned bytes, const struct stamp *stamp, struct fault *fault);
/* Whether the store, which may be made, comes before what is there, so that it leaves no trace: both are strong,
 * neither is behind the other, and the dice say so. */
bool order_is_first(struct world *world, struct warp *warp, const struct backing *backing, const uint8_t *at,
                    const uint8_t *from, unsigned bytes, const struct stamp *stamp);
/* The bytes, which still hold what was there before, are written. */
void order_put_all(struct backing *backing, const uint8_t *at, unsigned bytes, const struct stamp *stamp);
/* The moment of the strong store there that the stamp's, strong too, is not behind; 0: there is none. */
uint64_t order_open(const struct world *world, const struct warp *warp, const struct backing *backing,
                    const uint8_t *word, uint8_t bytes, const struct stamp *stamp);
/* A late word lands; before its bytes do. A race is the world's fault. false: it comes before what is there. */
bool order_land(struct world *world, const struct word *word);
/* to: what the load got from memory at `at`, changed where it may still get what was there before. false: a race. */
bool order_load(struct world *world, struct warp *warp, const struct mapping *m, const uint8_t *at, uint8_t *to,
                unsigned bytes, enum order order, enum scope scope, struct fault *fault);
/* An atomic is about to change the bytes. false: a race. */
bool order_atomic(struct world *world, struct warp *warp, unsigned thread, struct backing *backing, const uint8_t *at,
                  unsigned bytes, enum order order, enum scope scope, struct fault *fault);
/* "; last written by ..." of the word, appended where that is known. */
void order_add_last(const struct world *world, const struct backing *backing, const uint8_t *at, char *text,
                    size_t capacity);
/* "KERNEL, PLACE [device 0, grid 3, thread 5 of its CTA]", appended. */
void order_add_access(const struct world *world, uint32_t grid, uint32_t pc, char *text, size_t capacity);

/* world_early.c: reads by grids that have still to wait for the grid before them */
void early_read(struct world *world, const struct warp *warp, struct backing *backing, const uint8_t *at,
                unsigned bytes);
/* Whether the grid `writer` may write the bytes now; false: one that was launched behind it has read them; fault
 * (NULL: no words). */
bool early_permit(const struct world *world, const struct backing *backing, const uint8_t *at, unsigned bytes,
                  uint32_t writer, struct fault *fault);
void early_end(struct backing *backing);

#endif
