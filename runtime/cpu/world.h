/* world.h - the world half of the CPU device from within: memory, late stores, grids, streams, the scheduler.
 *
 * Included by world_*.c and driver_*.c alone; exec sees machine.h. One machine, one lock (driver_call.c holds it during
 * every cu* call; waiting calls give it up between rounds), no threads of its own: device work runs inside the caller's
 * synchronising calls. Files: world_state (options, life), world_memory (addresses), world_access (loads and stores),
 * world_wire (late stores), world_grid (CTAs on SMs), world_stream (order of work), world_schedule (who steps next),
 * world_graph (launched graphs), world_report. */
#ifndef DCPK_CPU_WORLD_H
#define DCPK_CPU_WORLD_H

#include <dcpk/cpu.h>
#include "runtime/cpu/world_order.h"
#include "runtime/cpu/world_wire.h"

enum { MAX_DEVICES = 32, HOST_MEMORY = -1, MAX_STALLS = 8, POISON = 0xCB, NO_WORD = -1 };

/* Limits of one SM, of a CTA and of a device: those of compute capability 9.0. */
enum {
    SM_THREADS = 2048,
    SM_CTAS = 32,
    SM_REGISTERS = 65536,
    SM_SHARED = 233472,
    CTA_SHARED_RESERVED = 1024,
    CTA_SHARED_DEFAULT = 49152,
    CLUSTER_CTAS = 16,
    CLUSTER_CTAS_PORTABLE = 8,
    DEVICE_GRIDS = 128,
    DEFAULT_REGISTERS = 32
};

/* CUresult values that the world half itself gives. */
enum { RESULT_NOT_READY = 600, RESULT_ILLEGAL_ADDRESS = 700, RESULT_LAUNCH_FAILED = 719 };

/* ---- memory ------------------------------------------------------------------------------------- */
/* Bytes of host memory behind device addresses. Never freed before the machine is reset: late words may still name it.
 */
struct backing {
    uint8_t *memory;
    uint64_t bytes;
    int owner; /* device, or HOST_MEMORY */
    bool live;
    unsigned pending;   /* words on their way here */
    uint8_t *written;   /* a bit a byte: somebody has written it; NULL: not kept (world_written.c) */
    uint64_t *input;    /* of 16 bytes: who reads them as an input; NULL: nobody does */
    struct cell *cells; /* of a word: who wrote it last (world_race.c); NULL: no kernel has, or nobody asks */
    uint8_t *touched;   /* with them: of 256 bytes: whether a kernel has written there */
    uint64_t *early;    /* of 16 bytes: who read them before its griddepcontrol.wait (world_early.c); NULL: nobody */
};

struct memory; /* a handle of driver_vmm.c */

struct multicast_part { /* memory of one member bound to part of a multicast object */
    struct backing *backing;
    struct memory *memory;
    uint64_t backing_offset, offset, bytes;
    int device;
};

struct multicast {
    uint64_t bytes;
    unsigned devices_expected, part_count, part_capacity;
    uint32_t devices; /* mask of those added */
    struct multicast_part *parts;
};

/* A range of device addresses. Dead ones stay, so that a use after free can be named. */
struct mapping {
    uint64_t start, bytes; /* exact: not rounded to granules */
    uint64_t granules;     /* taken of the arena, the guard left out */
    struct backing *backing;
    uint8_t *home; /* host memory of `start`; NULL for multicast */
    struct multicast *multicast;
    uint64_t multicast_offset;
    struct memory *memory;       /* that cuMemMap showed here; NULL: none */
    uint64_t serial;             /* which allocation of the machine's life, from 1 */
    uint32_t readable, writable; /* masks of devices */
    bool live, follows_peers;    /* follows_peers: access by cuCtxEnablePeerAccess */
    bool owns_backing;
    char name[128]; /* of a module's variable; else "" */
};

/* Device addresses live in one reserved region of the process; allocations take whole granules of it and leave one
 * unused behind. at[granule] names the mapping there, so a look-up is a shift and a load. */
enum { GRANULE_SHIFT = 16 };
struct arena {
    uint8_t *base;
    uint64_t granules, used;
    struct mapping **at;
    struct mapping **all; /* in order of serial */
    size_t count, capacity;
    struct mapping *foreign[64]; /* registered host memory: outside the region */
    unsigned foreign_count;
    uint64_t bytes_live, bytes_limit;
};

/* ---- grids -------------------------------------------------------------------------------------- */
struct sm {
    unsigned threads, ctas, registers, shared;
};

struct watch { /* of a warp: what it polled last (0: nothing), and since when it made no progress */
    uint64_t address, since;
    bool polled, polled_before; /* in this window; in the one before */
    uint64_t rest_until;        /* turn: the adversary lets others go first */
    uint64_t state, steps;      /* world_repeat.c: its registers once, and how many steps it had made; 0: not kept */
};

struct word_list { /* in order of issue; NO_WORD: none */
    int first, last;
};

struct resident { /* a CTA that has room on an SM; cta is first: exec's pointer is ours */
    struct cta cta;
    struct launch *launch;
    unsigned sm;
    unsigned slot; /* in device->residents */
    bool trigger_counted, ended;
    unsigned pending;        /* words on their way */
    struct word_list *lists; /* of them: a warp's each, then the CTA's ordered ones; NULL before the first word */
    struct watch *watches;   /* a warp */
    struct warp_order *warp_orders; /* likewise; NULL: nobody asks */
    struct cluster_order *cluster_order;
};

struct launch { /* a grid from its launch call to its completion; grid is first */
    struct grid grid;
    struct op *op;
    unsigned threads, warps, registers, shared; /* what a CTA takes of its SM */
    unsigned cluster_ctas;
    unsigned clusters, next_cluster;
    uint32_t *turns; /* in which clusters start; NULL: ascending */
    struct launch_order order;
    unsigned pending;
    int priority;
    bool stalled, complete;
    struct launch *next; /* of the device's started grids, oldest first */
};

struct stall {
    char entry[128]; /* "": any */
    uint64_t after;
};

struct device {
    int ordinal;
    struct world *world;
    struct sm *sms;
    struct resident **residents;
    unsigned resident_count, resident_capacity;
    unsigned resident_warps;
    struct launch *started;
    unsigned started_count;
    uint32_t peers; /* whose memory its kernels may access */
    unsigned sm_turn;
    bool place_again; /* a grid began, a CTA ended, or the adversary left some out */
    /* adversary */
    unsigned speed;
    uint64_t speed_until, pause_until;
    struct stall stalls[MAX_STALLS];
    unsigned stall_count;
    uint32_t held_to; /* mask of devices to which its stores are held; bit 31 unused, hold_host for host memory */
    bool hold_host;
    struct stream *streams; /* the first is the default stream */
    int streams_created;
    uint64_t op_serial;
    uint64_t memory_used;
    struct view order_gone; /* what its streams knew that are gone */
    struct view order_sc;   /* what the fence.sc so far of gpu scope or wider knew */
    unsigned retained;
};

/* ---- streams ------------------------------------------------------------------------------------ */
enum op_kind { OP_KERNEL, OP_COPY, OP_FILL, OP_RECORD, OP_WAIT, OP_GRAPH, OP_EMPTY };
enum op_state { OP_QUEUED, OP_STARTED, OP_DONE };

struct event {
    uint64_t recorded; /* record calls so far */
    uint64_t reached;  /* the latest of them that was reached */
    uint64_t time;     /* virtual ns of that */
    unsigned users;    /* ops and nodes that name it */
    bool destroyed, no_timing;
    int device;
    uint32_t message;  /* what its recording knew */
    struct mark *mark; /* driver_capture.c: it was last recorded in a capture; NULL: it was not */
};

/* What all launches of one executable graph share. Nodes are numbered; a node's needs come before it. */
struct graph_plan {
    unsigned users, count; /* users: the executable, its runs */
    const unsigned *needs; /* of node n: needs[need_end[n - 1]] .. needs[need_end[n] - 1] */
    const unsigned *need_end;
    uint64_t launched, finished; /* runs: the next begins when all before it have finished */
    void *owner;                 /* goes with the last user */
    void (*drop)(struct world *world, void *owner);
    struct view order; /* what its finished launches knew */
};

struct graph_run { /* one launch of it */
    struct graph_plan *plan;
    struct op *op; /* OP_GRAPH, of the stream it was launched in */
    uint64_t sequence;
    unsigned left, users; /* nodes that are not done; ops that name it */
    bool begun;
    struct view order; /* what its stream knew, and the nodes that are done */
    bool done[];       /* nodes */
};

struct op {
    enum op_kind kind;
    enum op_state state;
    bool programmatic;   /* kernel: has the PDL attribute */
    uint64_t serial;     /* of its device */
    uint64_t not_before; /* round, once the adversary drew one; UINT64_MAX: only after all before it */
    bool delay_drawn;
    struct stream *stream;
    struct op *previous, *next;
    struct launch *launch;
    struct event *event;
    uint64_t generation;
    struct span { /* bytes that an op touches; backing NULL: pageable host memory */
        uint8_t *at;
        const struct backing *backing;
    } to, from;
    uint64_t bytes;
    uint8_t *staged; /* owned copy of a pageable source, or NULL */
    uint32_t value;  /* fill: width bytes of it, again and again */
    unsigned width;
    struct graph_run *run; /* a graph's launch, or one of its nodes; NULL: neither */
    unsigned node;
};

struct stream {
    struct device *device;
    int number; /* 0: default stream */
    int priority;
    bool blocking;   /* orders with the default stream */
    bool doomed;     /* destroyed by its user: goes when its work is done */
    uint64_t thread; /* of the host, whose per-thread default stream it is; 0: none's */
    struct op *first, *last;
    struct op *cursor; /* first queued op */
    struct stream *next;
    /* of its last kernel: what it knew as it began, its grid (0: none), whether it has ended and waited, its end */
    uint32_t order_before, order_grid, order_end;
    bool order_done, order_waited;
    uint64_t order_completed; /* grids */
    struct view order_view;   /* what those knew, and events told */
    struct capture *capture;  /* driver_capture.c: what it is part of; NULL: work is enqueued */
};

/* ---- the machine -------------------------------------------------------------------------------- */
struct pulse {                        /* what happened lately, for the no-progress rules */
    uint64_t window, progress, timer; /* rounds: of this window's start, of the last progress, of the last timer read */
    uint64_t jump;                    /* the last one, ns; 0 since progress */
};

struct repeat { /* world_repeat.c: since that round of progress and of timer reads, quiet windows; when states were kept
                 */
    uint64_t progress, timer, windows, kept;
};

struct hosts { /* threads of the host that have called in this life; world_host.c */
    unsigned threads;
    bool pause;              /* the call that runs the devices should let time pass before its next round */
    uint64_t mark;           /* real ns: from here on time counts as passed */
    uint64_t idle, progress; /* real ns that passed since the progress of that round */
};

struct handle {
    const void *pointer; /* NULL: empty, or removed when kind is not 0 */
    unsigned char kind;
};

struct handles { /* open addressing; driver_handles.c */
    struct handle *slots;
    size_t capacity, used; /* used: removed ones included */
};

struct reservation { /* cuMemAddressReserve */
    uint64_t start, bytes;
};

struct world {
    dcpkcpu_options options;
    bool configured, alive;
    struct handles handles;
    struct reservation *reservations;
    size_t reservation_count;
    uint64_t life; /* counts resets; contexts of another life are stale */
    struct device devices[MAX_DEVICES];
    int device_count;
    struct arena arena;
    struct wire wire;
    uint64_t random;
    uint64_t round, turn, time; /* turn: counts picks of the adversary; time: ns */
    uint64_t turns_a_round;
    struct pulse pulse;
    struct repeat repeat;
    struct hosts hosts;
    bool dirty;    /* streams may have something to start or finish */
    uint32_t late; /* mask of devices whose stores may be late */
    struct causality order;
    bool faulted;
    struct fault fault;
    char report[sizeof(((struct fault *)0)->text)];
    dcpkcpu_counters counters;
    uint64_t grid_serial, library_serial, capture_serial, thread_serial;
    bool delayed;                /* some op waits for a drawn round */
    struct capture *captures;    /* under way; driver_capture.c */
    struct user_object *dropped; /* whose owners hear of it as the call ends; driver_object.c */
};

/* world_state.c */
struct world *world_machine(void);
void world_options_default(dcpkcpu_options *options);
int world_begin(struct world *world);                            /* makes devices; 0, or -1 out of memory */
void world_end(struct world *world);                             /* drops all work, then all memory */
void world_reset(struct world *world);                           /* after world_end: as new, in its next life */
void world_fail(struct world *world, const struct fault *fault); /* the first fault stays */
void world_fail_text(struct world *world, int code, const char *text);
uint64_t world_random(struct world *world);
uint32_t world_below(struct world *world, uint32_t bound); /* 0 .. bound - 1; bound >= 1 */
void world_trace(const struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends to a NUL-terminated text within capacity. */
void text_add(char *text, size_t capacity, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* world_memory.c */
int arena_begin(struct arena *arena);
void arena_end(struct arena *arena);
/* Readable, writable memory of `bytes` in the arena, poisoned; NULL when there is no room. owner's access, and its
 * peers'. */
struct mapping *memory_alloc(struct world *world, int owner, uint64_t bytes);
void memory_free(struct world *world, struct mapping *mapping);
/* Addresses without memory: bytes of granules, for cuMemAddressReserve. 0 when there is no room. */
uint64_t memory_reserve(struct world *world, uint64_t bytes, uint64_t alignment);
/* Lets reserved addresses show memory (or a multicast object, backing NULL). */
struct mapping *memory_map(struct world *world, uint64_t start, uint64_t bytes, struct backing *backing,
                           uint64_t offset, struct multicast *multicast);
void memory_unmap(struct world *world, struct mapping *mapping);
struct backing *backing_create(struct world *world, int owner, uint64_t bytes);
void backing_free(struct world *world, struct backing *backing);
struct mapping *memory_register(struct world *world, void *host, uint64_t bytes);
void memory_unregister(struct world *world, struct mapping *mapping);
bool memory_is_foreign(const struct world *world, const struct mapping *mapping); /* registered, not allocated */
struct mapping *memory_at(const struct world *world, uint64_t address);           /* live or dead; NULL */
/* The live mapping that holds all of [address, address + bytes), NULL. */
struct mapping *memory_range(const struct world *world, uint64_t address, uint64_t bytes);
void memory_enable_peer(struct world *world, int device, int peer, bool enable);
/* "address 0x.. is 16 bytes past the end of allocation #3 [0x.., +4096) of device 1". device -1: no access check. */
void memory_explain(const struct world *world, uint64_t address, uint64_t bytes, int device, bool write, char *text,
                    size_t capacity);
void memory_name(const struct mapping *mapping, uint64_t address, char *text, size_t capacity);

/* world_written.c: what has been written, and what may not be */
void written_begin(const struct world *world, struct backing *backing);
void written_end(struct backing *backing);
void written_put(const struct backing *backing, const uint8_t *at, uint64_t bytes, bool written);
/* Bytes were copied: they are as written as their source; from NULL: written by the host. */
void written_copy(const struct backing *to, const uint8_t *at, const struct backing *from, const uint8_t *source,
                  uint64_t bytes);
/* Whether a kernel may write the bytes, where backing->input is kept; false: fault. */
bool written_permit(const struct world *world, const struct backing *backing, const struct mapping *mapping,
                    uint64_t address, unsigned bytes, struct fault *fault);
int memory_mark(struct world *world, uint64_t address, uint64_t bytes, int mark); /* enum dcpkcpu_mark; -1 refused */

/* world_grid.c */
void grid_start(struct world *world, struct launch *launch); /* its stream lets it begin */
/* Counts triggers, ends the CTA after its last warp: then true, and resident may be gone. */
bool grid_after_step(struct world *world, struct resident *resident);
void grid_word_landed(struct world *world, struct resident *source);
void grid_word_dropped(struct resident *source); /* at a reset */
void grid_drop_residents(struct device *device);
void grid_free(struct launch *launch);
bool grid_stall_left(const struct launch *launch,
                     uint64_t *left); /* left: warp instructions until a stall; false: none */
void grid_unstall(struct device *device);

/* world_place.c */
void grid_place(struct world *world, struct device *device); /* CTAs for which there is room now */
bool grid_could_place(const struct world *world, const struct device *device);
unsigned grid_registers(unsigned threads, unsigned registers_per_thread); /* of a CTA, as allocated */
unsigned grid_shared(unsigned shared);
unsigned grid_ctas_per_sm(unsigned threads, unsigned registers, unsigned shared);
void grid_release_room(struct device *device, const struct resident *resident);
void cluster_leave(struct cta *cta); /* it ends; the last one frees the cluster */

/* world_stream.c */
struct stream *stream_create(struct device *device, int priority, bool blocking);
void stream_destroy(struct stream *stream);                     /* drops what it holds */
struct op *stream_op(struct stream *stream, enum op_kind kind); /* appended; NULL out of memory */
void streams_progress(struct world *world);                     /* starts what may start, drops what is done */
void stream_op_done(struct world *world, struct op *op);
const char *
stream_obstacle(const struct stream *stream); /* why its next op cannot start; NULL: it can, or there is none */
bool stream_idle(const struct stream *stream);
void event_leave(struct event *event); /* an op or node that names it goes */

/* What a call waits for: the work that was there as it began. Other host threads may add work, destroy the stream or
 * reset the machine meanwhile, so nothing here points to what they can free. */
struct work {
    const struct device *device;
    int stream;      /* number; -1: all */
    uint64_t serial; /* the last op waited for */
};
struct work stream_work(const struct stream *stream);
struct work device_work(const struct device *device);
bool work_done(const void *work);

/* world_graph.c */
bool graph_is_node(const struct op *op); /* not the launch of a graph */
/* NULL: out of memory. Its maker is a user of it until graph_run_leave. Nothing is launched before graph_run_launch
 * gives it the OP_GRAPH of a stream. */
struct graph_run *graph_run_make(struct graph_plan *plan);
void graph_run_add(struct graph_run *run, struct op *op, unsigned node);
void graph_run_launch(struct graph_run *run, struct op *op);
const char *graph_obstacle(const struct op *op); /* of an op with a run; NULL: none */
void graph_run_begin(struct world *world, struct graph_run *run);
void graph_node_done(struct world *world, const struct op *op);
void graph_run_leave(struct world *world, struct graph_run *run);
void graph_plan_leave(struct world *world, struct graph_plan *plan);

/* world_schedule.c */
enum run_end { RUN_DONE, RUN_FAULT, RUN_STALLED, RUN_SLICE_OVER, RUN_RESET };
typedef bool run_done(const void *what);
enum { RUN_TO_THE_END = 0 };
/* Runs every device until done(what), a fault, only stalled work, or `rounds` rounds; RUN_TO_THE_END: however many it
 * takes within options.max_rounds. Then, when there are more host threads, the lock is given up between rounds: what
 * may only be looked at under it must be looked at again; after RUN_RESET the machine is another. */
enum run_end world_run(struct world *world, run_done *done, const void *what, uint64_t rounds);
void world_progressed(struct world *world);
bool warp_can_run(const struct warp *warp);

/* world_repeat.c: at the end of a quiet window; true: every warp that can run goes round in circles. */
bool world_repeats(struct world *world);

/* world_host.c */
struct world *host_enter(void); /* a call begins: takes the lock */
void host_leave(struct world *world);
bool host_shared(const struct world *world); /* by more than one host thread */
uint64_t host_now(void);                     /* real ns */
/* Real ns since the last such call, in which no other call was under way. */
uint64_t host_pass(struct world *world);
/* Lets other host threads in where they want; *since: real ns when this call last took the lock. */
void host_between_rounds(struct world *world, uint64_t *since);

/* world_report.c: who waits for what; into text, of `capacity` bytes. */
void report_no_progress(const struct world *world, const char *headline, char *text, size_t capacity);

/* world_writers.c: "; could still be written by kernel ..." of a word, appended. */
void report_writers(const struct world *world, const struct mapping *mapping, uint64_t address, char *text,
                    size_t capacity);

#endif
