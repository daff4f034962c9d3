/* machine.h - the emulated machine's state, shared by its two halves:
 *   exec half  (ptx_*.c, exec_*.c):   PTX text -> decoded functions; one step of one warp.
 *   world half (world_*.c, driver_*.c): memory, devices, streams, launches, the scheduler, the cu* symbols.
 * The exec half never schedules and never looks at streams; the world half never looks at opcodes. */
#ifndef DCPK_CPU_MACHINE_H
#define DCPK_CPU_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WARP = 32, MAX_BARRIERS = 16, CTA_THREADS = 1024, CTA_SHARED_MAX = 232448 };

/* The name of an entry or a variable in messages: templates of C++ make names of thousands of characters. */
#define SHOWN_NAME "%.127s"

/* ---- faults ------------------------------------------------------------------------------------- */
struct fault {
    int code; /* CUresult: 700 illegal address, 716 misaligned, 715 illegal instruction, 719 launch failure, ... */
    char text[3800]; /* everything dcpkcpu_report says */
};

/* ---- modules (exec half) ------------------------------------------------------------------------ */
/* From PTX lines to template lines; file NULL where unknown. */
struct line_source {
    void *self;
    unsigned (*template_line)(void *self, unsigned ptx_line, const char **file);
};

struct ptx_module; /* opaque: decoded PTX of one library */

struct ptx_param {
    const char *name;
    unsigned offset, bytes, align;
};

struct ptx_function {
    const char *name;
    struct ptx_module *module;
    unsigned param_count, param_bytes;
    struct ptx_param *params;
    unsigned static_shared; /* bytes, all .shared variables laid out */
    unsigned local_bytes;   /* a thread */
    unsigned reg_slots;     /* register slots a thread (world never needs their meaning) */
    unsigned max_threads;   /* .maxntid/.reqntid product, 0 = none stated */
    unsigned max_registers; /* .maxnreg, 0 = none stated */
    unsigned reqntid[3];    /* 0,0,0 = none stated */
    unsigned reqcluster[3]; /* .reqnctapercluster, likewise */
    bool explicit_cluster;  /* a launch must say how large the clusters are */
    void *code;             /* exec half's own */
};

/* Parses and decodes text (NUL-terminated). NULL and a message naming the instruction, PTX line and template
 * line when anything is unknown or malformed. lines may have NULL members; it must outlive the module. */
struct ptx_module *ptx_load(const char *text, const struct line_source *lines, char *message, size_t capacity);
/* Whether a text is PTX that a device of this capability runs, by its .version and .target; else the message says why.
 * A malformed head fits: ptx_load refuses it. */
enum ptx_misfit { PTX_FITS, PTX_MISFIT_VERSION, PTX_MISFIT_TARGET };
enum ptx_misfit ptx_misfit(const char *text, const struct line_source *lines, int major, int minor, char *message,
                           size_t capacity);
void ptx_free(struct ptx_module *module);
unsigned ptx_function_count(const struct ptx_module *module);
struct ptx_function *ptx_function_at(struct ptx_module *module, unsigned index);
/* Module-scope .global/.const variables, in order of declaration. The world half allocates each on every device that
 * loads the module, copies initial (NULL: zeroes) into it, then writes the pointers: at offset, so many bytes of the
 * address of variable + addend, from bit `shift` on. Their addresses reach the exec half through grid.variables. */
struct ptx_pointer {
    unsigned offset, bytes, variable, shift;
    int64_t addend;
};
struct ptx_variable {
    const char *name;
    uint64_t bytes;
    unsigned align;
    bool constant;          /* .const: kernels may not write it */
    const uint8_t *initial; /* the first initial_bytes; zeroes follow */
    uint64_t initial_bytes; /* at most bytes */
    unsigned pointer_count;
    const struct ptx_pointer *pointers;
};
unsigned ptx_variable_count(const struct ptx_module *module);
const struct ptx_variable *ptx_variable_at(const struct ptx_module *module, unsigned index);

/* ---- execution state ---------------------------------------------------------------------------- */
struct device;
struct world;

struct grid { /* owned by the world half */
    const struct ptx_function *fn;
    struct device *device;
    unsigned dim[3], block[3], cluster[3];
    bool explicit_cluster; /* the launch or the kernel says how large clusters are */
    unsigned dynamic_shared;
    unsigned registers; /* a thread, as launched; 0: not known */
    uint8_t *params;    /* fn->param_bytes */
    uint64_t id;
    uint64_t warp_steps; /* executed so far */
    /* programmatic dependent launch */
    bool predecessor_done; /* all work before this grid in its stream is complete and visible */
    unsigned ctas_total, ctas_started, ctas_done, ctas_triggered; /* triggered: launch_dependents issued or done */
    void *world_data;
    const uint64_t *variables; /* device address of each ptx_variable of fn->module on this device; may be NULL when
                                  there are none */
};

enum warp_state { WARP_READY, WARP_AT_BARRIER, WARP_AT_GRID_WAIT, WARP_DONE };

struct warp { /* created and freed by the exec half */
    struct cta *cta;
    unsigned index;        /* in its CTA */
    enum warp_state state; /* READY when any thread can step */
    bool polled;           /* set by exec at each volatile/relaxed/acquire global load; world clears it */
    bool progressed; /* set by exec at: store that changes memory, atomic that changes memory, barrier passed, exit;
                        world clears it */
    bool read_timer; /* set at each globaltimer/clock read; world clears it */
    bool told;   /* others may go on because of this warp: it fenced, opened a barrier, or (set by exec) arrived at an
                    mbarrier; world clears it */
    uint32_t pc; /* set by exec before accesses of global memory: the operation */
    uint8_t element; /* likewise: bytes that move as one, 0: not known */
    bool early;      /* likewise: an asynchronous copy moves, begun before griddepcontrol.wait */
    void *exec;      /* exec half's own: pcs, masks, registers */
    void *world_data;
};

/* CTAs that started together. Made and freed by the world half, which takes a CTA out as it ends. */
struct cluster {
    unsigned size, left;  /* left: CTAs that have not ended */
    struct cta *ctas[16]; /* by rank; NULL: it has ended */
    unsigned arrived;     /* exec's: warps that have arrived in this phase of barrier.cluster */
};

struct cta {
    struct grid *grid;
    struct cluster *cluster; /* at least the CTA itself */
    unsigned rank;           /* in it */
    unsigned index[3];
    unsigned linear;
    unsigned warp_count;
    struct warp **warps;
    uint8_t *shared; /* static + dynamic */
    unsigned shared_bytes;
    bool
        triggered; /* set by exec when any thread executes griddepcontrol.launch_dependents; the world half counts it */
    unsigned live_warps; /* set by cta_start; exec decrements it as it returns STEP_DONE (once a warp); world only reads
                            it */
    unsigned copies, copies_flying; /* set by exec: asynchronous copies and mbarriers it keeps track of, 0: none; copies
                                       whose bytes have not landed */
    unsigned landings;              /* counts what has landed, by itself */
    void *exec;                     /* barriers and such */
};

/* Creates the warps of a CTA that the world half has just placed (grid, cluster, index, linear set; rest zero). 0, or
 * -1 out of memory. */
/* It allocates and zeroes cta->shared too (shared_bytes = fn->static_shared + grid->dynamic_shared) and sets warp_count
 * and live_warps. A warp AT_BARRIER becomes READY when the barrier opens; one AT_GRID_WAIT when it is stepped after
 * predecessor_done was set. */
int cta_start(struct cta *cta);
void cta_end(struct cta *cta); /* frees what cta_start made */

enum step_result {
    STEP_RAN,     /* executed one instruction of some threads */
    STEP_BLOCKED, /* nothing could run: barrier or griddepcontrol.wait */
    STEP_DONE,    /* the warp's last thread exited */
    STEP_FAULT    /* *fault is filled */
};
/* One instruction of one warp, for one group of its threads that share a pc. pick: a random number the world half
 * draws (0 in the fair schedule) by which diverged groups are chosen: 0 means the lowest pc, with a guarantee that no
 * group starves; others choose any group. thread_count: how many threads executed. */
enum step_result warp_step(struct world *world, struct warp *warp, uint32_t pick, unsigned *thread_count,
                           struct fault *fault);
/* Runs up to `budget` instructions of the warp while it can, stopping after a polled load (so that others get a turn).
 * The fast path of the fair schedule. *ran and *threads are added to. */
enum step_result warp_run(struct world *world, struct warp *warp, unsigned budget, uint64_t *ran, uint64_t *threads,
                          struct fault *fault);

/* Lands some of the CTA's asynchronous copies, as world_chance says: the adversary calls it between steps. false:
 * *fault is filled (a source that is no longer there). */
bool cta_land_copies(struct world *world, struct cta *cta, struct fault *fault);

/* What the warp waits for, for the no-progress report: kernel, CTA, warp, template line, the instruction, address of
 * its last polled load and the value seen there. Appends to text. */
void warp_describe(const struct warp *warp, char *text, size_t capacity);
/* "kernel NAME, FILE:LINE (PTX line N: `text`)" of an operation, appended. */
void ptx_append_place(const struct ptx_function *fn, uint32_t pc, char *text, size_t capacity);

/* The global address that the warp used last, 0 when it is long ago. */
uint64_t warp_touched(const struct warp *warp);
/* The mbarrier for whose phase the warp has been waiting: its address in shared memory, 0 none. */
uint64_t warp_awaits(const struct warp *warp);
/* Of all that decides what the warp does next, but memory; *steps: instructions it has executed. */
uint64_t warp_state_hash(const struct warp *warp, uint64_t *steps);

/* ---- memory and time (world half, called by exec) ------------------------------------------------ */
enum access { ACCESS_NONE = 0, ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_ATOMIC = 3 };
enum order { ORDER_WEAK, ORDER_VOLATILE, ORDER_RELAXED, ORDER_ACQUIRE, ORDER_RELEASE, ORDER_ACQ_REL, ORDER_SC };
enum scope { SCOPE_NONE, SCOPE_CTA, SCOPE_CLUSTER, SCOPE_GPU, SCOPE_SYS };

/* Global memory: device addresses are host addresses in tracked allocations. Each call checks that [address,
 * address+bytes) lies in one live allocation that warp's device may access, else returns false with code and text about
 * the address only
 * ("address 0x.. is 16 bytes past the end of allocation [0x.., +4096) of device 1"); exec completes the text with
 * thread and line. Alignment is exec's to check. thread: linear thread in the CTA. */
bool world_load(struct world *world, struct warp *warp, unsigned thread, uint64_t address, void *to, unsigned bytes,
                enum order order, enum scope scope, struct fault *fault);
/* bytes 1..16; stores of more than 4 bytes may become visible word by word when they go to another device. Multicast
 * addresses are stored through to every member. *changed: whether memory changed (or will). */
bool world_store(struct world *world, struct warp *warp, unsigned thread, uint64_t address, const void *from,
                 unsigned bytes, enum order order, enum scope scope, bool *changed, struct fault *fault);
/* Whether the warp may read (write) [address, address+bytes); nothing moves. */
bool world_reach(struct world *world, struct warp *warp, uint64_t address, uint64_t bytes, bool write,
                 struct fault *fault);
/* Where weak (write: also volatile and relaxed) accesses of [address, +bytes) by the warp are but moves, which exec
 * does itself: in the fair schedule, to memory of its own device (reads: of any) with no store on its way there and,
 * for writes, with no inputs. false: through world_load, world_store. */
struct plain {
    uint8_t *at;      /* of the first byte */
    uint8_t *written; /* the memory checker's bits: exec tests and sets them, from number `first` on; NULL: not kept */
    uint64_t first;
};
bool world_plain(const struct world *world, const struct warp *warp, uint64_t address, uint64_t bytes, bool write,
                 struct plain *plain);
/* Host pointer for an atomic that exec performs in place (all pending stores to these bytes have landed). NULL = fault.
 */
void *world_atomic(struct world *world, struct warp *warp, unsigned thread, uint64_t address, unsigned bytes,
                   enum order order, enum scope scope, struct fault *fault);
/* Orders this thread's earlier stores before its later ones, as seen by others. */
void world_fence(struct world *world, struct warp *warp, unsigned thread, enum order order, enum scope scope);
/* exec calls it when a barrier of the CTA opens (bar.*, barrier.cluster; whole_cta) and when threads of one warp
 * synchronise (bar.warp.sync, an mbarrier wait that succeeds: the whole CTA, too): what the CTA (the warp) stored
 * before is from here on ordered before a later fence or release by any of its threads. Without a call only a thread's
 * own stores are. */
void world_barrier(struct world *world, struct warp *warp, bool whole_cta);
/* The memory checker (world_written.c). Whether it is on. */
bool world_checks(const struct grid *grid);
/* Whether all of [address, +bytes), reachable, have been written; *known: how many from the first on. */
bool world_written(struct world *world, uint64_t address, uint64_t bytes, uint64_t *known);
/* The same byte by byte, into bits from number `at` on. */
void world_written_bits(struct world *world, uint64_t address, uint64_t bytes, uint8_t *bits, uint64_t at);
/* The warp's grid reads the bytes as an input, which no kernel may write while it runs, or for ever. */
void world_read_input(struct world *world, const struct warp *warp, uint64_t address, uint64_t bytes, bool for_ever);
/* "offset 16 of allocation #3 [0x.., +4096) of device 1", appended. */
void world_name(const struct world *world, uint64_t address, char *text, size_t capacity);
/* The warp has passed griddepcontrol.wait. Whether it has still to, since a kernel before its own may not have ended:
 * asynchronous copies that it begins now are `early`. */
void world_waited(struct world *world, struct warp *warp);
bool world_asks_early(const struct world *world, const struct warp *warp);
/* The adversary's dice, true once in `one_in`; always false in the fair schedule, which draws nothing. */
bool world_chance(struct world *world, unsigned one_in);
bool world_adverse(const struct world *world); /* whether there is an adversary */
/* The virtual globaltimer in ns. */
uint64_t world_time(const struct world *world);
unsigned world_smid(const struct warp *warp);
unsigned world_nsmid(const struct warp *warp);

#endif
