/* driver.h - the cu* half of the world from within: call frames, handles, and the objects behind them.
 *
 * Every cu* function is `call_begin`, work, `call_end`: between them the machine's lock is held, but for call_run.
 * Prototypes come from the tables of entry points, so a function cannot differ from what its callers declare. */
#ifndef DCPK_CPU_DRIVER_H
#define DCPK_CPU_DRIVER_H

#include "runtime/cpu/world.h"
#include "runtime/driver_types.h"
#include "runtime/image_find.h"

/* field mem_alloc of runtime/driver.def is the C function cpu_mem_alloc, exported as cuMemAlloc_v2. */
#define D(field, symbol, parameters) DCPK_API cu_result cpu_##field parameters __asm__(symbol);
#include "runtime/driver.def"
#include "runtime/cpu/driver_extra.def"
#undef D

enum { /* CUresult */
#define R(symbol, number, text) R_##symbol = number,
#include "runtime/cpu/driver_errors.def"
#undef R
};

struct call {
    struct world *world;
    struct device *device; /* of the current context; NULL where none is needed */
    cu_result result;
};
enum call_needs { NEEDS_NOTHING, NEEDS_INIT, NEEDS_CONTEXT };

/* Locks; false (result set, call_end still due) when the machine is not initialised, in error, or no context is
 * current. */
bool call_begin(struct call *call, enum call_needs needs);
cu_result call_end(struct call *call);
/* Runs the devices until done(what); the result of that. Other threads' calls may come between: what the caller knew of
 * handles and addresses it must ask again, and nothing of the machine may be touched when the result is not 0. */
void call_run(struct call *call, run_done *done, const void *what);
cu_result machine_init(struct world *world); /* of cuInit: options from the environment where none were configured */

/* driver_context.c */
struct device *context_device(struct world *world, cu_context context); /* NULL: no context */
struct device *context_current(struct world *world);

/* driver_handles.c: which pointers are live handles of which kind. */
enum handle_kind {
    HANDLE_NONE,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_LIBRARY,
    HANDLE_KERNEL,
    HANDLE_FUNCTION,
    HANDLE_MEMORY,
    HANDLE_GRAPH,
    HANDLE_NODE,
    HANDLE_EXEC,
    HANDLE_OBJECT
};
int handle_add(struct world *world, const void *pointer, enum handle_kind kind); /* -1: out of memory */
void handle_remove(struct world *world, const void *pointer);
bool handle_is(const struct world *world, const void *pointer, enum handle_kind kind);
const void *handle_any(const struct world *world, enum handle_kind kind, size_t *from); /* iterates; NULL at the end */

struct function { /* a kernel on one device */
    struct kernel *kernel;
    struct device *device;
    unsigned max_dynamic_shared;
    bool non_portable_cluster;
};

struct kernel {
    struct library *library;
    struct ptx_function *code;
    unsigned registers;   /* a thread */
    bool registers_known; /* said by the cubin, or .maxnreg */
    struct function functions[MAX_DEVICES];
};

struct library {
    uint64_t serial;        /* of the machine's life, from 1 */
    char *blob;             /* our copy of the image, or of the PTX text */
    struct image_view view; /* of an image */
    struct line_source lines;
    struct ptx_module *module;
    struct kernel *kernels;
    unsigned kernel_count;
    uint64_t *variables[MAX_DEVICES]; /* addresses of the module's variables; NULL: not yet loaded there */
};

struct memory { /* cuMemCreate's, or a multicast object: multicast not NULL */
    struct backing *backing;
    struct multicast *multicast;
    uint64_t bytes;
    unsigned users; /* the handle itself, mappings, bindings */
    bool released;  /* the handle is no longer the caller's */
};

struct transfer { /* a copy, or a fill: from.at NULL */
    struct span to, from;
    size_t bytes;
    uint32_t value;
    unsigned width;
};
void transfer_to_op(struct op *op, const struct transfer *transfer); /* driver_copy.c */

/* driver_capture.c */
uint64_t this_thread(struct world *world); /* a number of the calling thread of the host, from 1 */
/* What stream captures forbid. False: the result is set, the captures at fault are invalid. */
bool capture_allows_unsafe(struct call *call); /* a potentially unsafe call */
bool capture_allows_legacy(struct call *call, const struct device *device);
bool capture_allows_wait(struct call *call, const struct stream *stream); /* for a stream, or a question about it */
bool capture_allows_device(struct call *call, const struct device *device);
/* What becomes of work for a stream: TAKES_NOTHING: the result is set. */
enum taking { TAKES_NOTHING, TAKES_WORK, TAKES_NODES };
enum taking capture_takes(struct call *call, struct stream *stream);
void capture_stream_goes(struct world *world, struct stream *stream); /* its user destroys it */
void captures_forget(struct world *world);                            /* of a machine that ends */
/* driver_capture_event.c */
bool capture_allows_event(struct call *call, const struct event *event);
void capture_record(struct call *call, struct stream *stream, struct event *event);
void capture_external(struct call *call, struct stream *stream, struct event *event, enum op_kind kind);
void capture_wait(struct call *call, struct stream *stream, const struct event *event);
void capture_fork(struct call *call, struct stream *stream, const struct event *event);
void mark_drop(struct event *event); /* it is no longer that of a capture */
/* driver_graph.c: nodes of a capturing stream; take over the launch */
void capture_kernel(struct call *call, struct stream *stream, struct launch *launch, const struct library *library,
                    bool programmatic);
void capture_transfer(struct call *call, struct stream *stream, const struct transfer *transfer);
void graphs_forget(struct world *world);
void executables_forget(struct world *world); /* driver_replay.c */
/* driver_object.c */
void objects_tell(struct user_object *dropped); /* their owners; without the lock */
bool object_owner_runs(void);                   /* one of them calls */
void objects_forget(struct world *world);

/* driver_library.c */
void library_free(struct world *world, struct library *library);
bool library_load_variables(struct world *world, struct library *library,
                            struct device *device); /* false: out of memory */
/* driver_cubin.c */
unsigned cubin_registers(const void *cubin, uint64_t bytes, const char *entry); /* 0: not said */
/* driver_vmm.c */
void memory_drop(struct world *world, struct memory *memory); /* one user less */
struct memory *memory_of(struct call *call, cu_mem handle);   /* NULL: result set */
struct memory *memory_add(struct call *call,
                          const struct memory *draft); /* takes over what draft holds; NULL: result set */
/* driver_stream.c */
struct stream *stream_of(struct call *call, cu_stream handle); /* NULL: result set */
/* driver_function.c */
struct function *function_of(struct call *call, cu_function handle); /* a function, or a kernel on the current device */
/* driver_state.c */
void driver_reset(struct world *world); /* after world_end: frees every object that handles name */

#endif
