/* runtime.h - devices, memory and kernels: load once, launch often.
 *
 * The driver is opened by name (libcuda.so.1, or libdcpkcpu.so for the CPU device): nothing links CUDA.
 * A device uses the caller's current or primary context. Device and kernel handles are safe from any
 * thread. Loading may allocate and block; launching does neither: no malloc, lock, getenv or file. */
#ifndef DCPK_RUNTIME_H
#define DCPK_RUNTIME_H

#include <dcpk/image.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dcpk_device dcpk_device;
typedef struct dcpk_kernel dcpk_kernel;
typedef struct dcpk_box dcpk_box;

typedef struct dcpk_device_options {
    uint32_t size;
    const char *kind;    /* "cpu", "cuda", "auto" (cuda where there is one, else cpu); NULL: $DCPK_DEVICE, then auto */
    const char *library; /* the driver library; NULL: libcuda.so.1, or libdcpkcpu.so beside this library, the
                            executable, or on the loader's path */
    int32_t ordinal;     /* device number of that driver */
    int32_t pdl;         /* 1, 0: programmatic dependent launch; -1: $DCPK_PDL, then 1 */
    int32_t multicast;   /* 1, 0; -1: $DCPK_MULTICAST, then 1 on the CPU device and 0 on hardware */
    dcpk_log_fn *log;
    void *log_self;
    int32_t allow_unwatched; /* 1: images of watchdog=0 may be loaded (their polls have no bound: for benchmarks) */
    /* Several ranks on one device of hardware: this handle is share `share_index` of `share_count` (0 or 1: the whole
     * device), a green context with a fixed part of the multiprocessors, disjoint from the other indices' of the same
     * share_count. All shares have the same size, a multiple of what the driver can split off (8 on Hopper: 132 make
     * 2 x 64, 4 x 32, 8 x 16); the rest idles. Memory, code and the current context stay those of the device's primary
     * context, so shares reach each other's memory; only streams are the share's own: kernels are launched into streams
     * of dcpk_stream_create (or of the caller's own in the same green context), another one and NULL are refused.
     * dcpk_device_sync waits for all shares of the device. Destroy the streams before the handle is closed. Needs a
     * driver of CUDA 12.5; ARG on the CPU device, which has a device for each rank. */
    int32_t share_index, share_count;
} dcpk_device_options;

/* What options.kind or DCPK_DEVICE say, taken apart: of a text; NULL: of $DCPK_DEVICE, then of "auto". ARG for a text
 * that is neither, whatever devices there are. */
typedef struct dcpk_device_words {
    uint32_t size;
    char kind[8];   /* "auto", "cpu" or "cuda" */
    uint32_t count; /* 0: all devices, in the driver's order */
    int32_t list[64];
} dcpk_device_words;
DCPK_API dcpk_status dcpk_device_words_read(const char *text, dcpk_device_words *out, dcpk_error *error);

/* Reads the environment once. Opening the same ordinal twice gives two handles on one context. */
DCPK_API dcpk_status dcpk_device_open(const dcpk_device_options *options, dcpk_device **out, dcpk_error *error);
DCPK_API void dcpk_device_close(dcpk_device *device);

typedef struct dcpk_device_info {
    uint32_t size;
    char kind[8]; /* "cpu" or "cuda" */
    char name[96];
    int32_t ordinal, count; /* count: devices this driver has */
    int32_t major, minor;   /* compute capability */
    int32_t sms;            /* of the share, where the handle is one */
    int32_t driver_version; /* 13000 */
    int32_t multicast;      /* 1 when publish=multicast may be used here */
    /* 0, 1 and sms where the handle is the whole device */
    int32_t share_index, share_count, device_sms;
} dcpk_device_info;
DCPK_API dcpk_status dcpk_device_get_info(const dcpk_device *device, dcpk_device_info *info, dcpk_error *error);
/* The driver's own entry point of this name, NULL when it has none: for callers that need more than dcpk wraps. */
DCPK_API void *dcpk_device_symbol(const dcpk_device *device, const char *name);

/* Plain device memory, 256-byte aligned. Engines use their own; tools and tests use these. */
DCPK_API dcpk_status dcpk_mem_alloc(dcpk_device *device, uint64_t bytes, uint64_t *address, dcpk_error *error);
DCPK_API dcpk_status dcpk_mem_free(dcpk_device *device, uint64_t address, dcpk_error *error);
DCPK_API dcpk_status dcpk_mem_write(dcpk_device *device, uint64_t address, const void *from, uint64_t bytes,
                                    dcpk_error *error);
DCPK_API dcpk_status dcpk_mem_read(dcpk_device *device, void *to, uint64_t address, uint64_t bytes, dcpk_error *error);
/* words 32-bit words of value. */
DCPK_API dcpk_status dcpk_mem_fill32(dcpk_device *device, uint64_t address, uint32_t value, uint64_t words,
                                     dcpk_error *error);

/* Arms memory that CTAs of a launch meet in: args.workspace of mla_decode with pv=fp8 and splits=auto, which is
 * what a spec for sm_90a that names neither gets (dcpk_spec_workspace says how many bytes; 0: nothing to arm). Once,
 * before the first launch that uses it; every launch leaves it armed, also one that finds its box dead. workspace: a
 * multiple of 16; any part of it may be used, by any number of such kernels, one launch at a time (a stream's launches
 * are; kernels on two streams need two workspaces). No kernel may be using it: complete when the call returns. The
 * device remembers it until the memory goes by dcpk_mem_free; where an engine gives memory back otherwise, what comes
 * to lie there next must be armed again. A launch refuses memory that is not armed; a launch of another form of
 * mla_decode there ends its being armed (graphs that replay one are the caller's to know of). Arming what needs no
 * arming does no harm. ARG, NOMEM or the driver's error. Any thread. */
DCPK_API dcpk_status dcpk_workspace_arm(dcpk_device *device, uint64_t workspace, uint64_t bytes, dcpk_error *error);

DCPK_API dcpk_status dcpk_stream_create(dcpk_device *device, void **stream, dcpk_error *error);
DCPK_API dcpk_status dcpk_stream_destroy(dcpk_device *device, void *stream, dcpk_error *error);
DCPK_API dcpk_status dcpk_stream_sync(dcpk_device *device, void *stream, dcpk_error *error);
DCPK_API dcpk_status dcpk_device_sync(dcpk_device *device, dcpk_error *error);

/* Loads every entry of the image for the device's context, now, not at first launch. CAPTURING, before any
 * other driver call, while `stream` (may be NULL) captures. ARCH when the cubin is for another device.
 * RESIDENCY when an entry's grid must be resident and the device has no room; the message names the spec
 * that fits. The kernel keeps a reference on the image. */
DCPK_API dcpk_status dcpk_kernel_load(dcpk_device *device, dcpk_image *image, void *stream, dcpk_kernel **out,
                                      dcpk_error *error);
/* The warm-up of an engine, before it captures: every spec (resolved) is asked of the provider (its prepare first,
 * where it has one) and loaded. All or nothing: after a failure, whose message names the spec, kernels holds NULLs.
 * CAPTURING, before anything is built, while `stream` (may be NULL) captures. kernels: count handles, the caller's to
 * free. specs: each specs[i].size is sizeof(dcpk_spec) as the caller was compiled, which is the array's stride; ARG
 * where they differ or are below this library's. */
DCPK_API dcpk_status dcpk_kernel_warm(dcpk_device *device, const dcpk_provider *provider, const dcpk_spec *specs,
                                      uint32_t count, void *stream, dcpk_kernel **kernels, dcpk_error *error);
/* Unloads; BOX_BUSY while a capture is known to use it, or while the driver says that its device still works. A call
 * that fails leaves the kernel valid and may be repeated. Where the context is lost (a sticky error: a fault, a context
 * that was destroyed) nothing can be given back to it: what was held is given up and the call is OK. NULL is fine. */
DCPK_API dcpk_status dcpk_kernel_free(dcpk_kernel *kernel, dcpk_error *error);
DCPK_API const dcpk_image *dcpk_kernel_image(const dcpk_kernel *kernel);

/* Launch arguments by name (args.def says shape, type and unit of each): a kernel reads those it declares. */
typedef struct dcpk_args {
    uint32_t size;
#define DCPK_ARG_u64 uint64_t
#define DCPK_ARG_u32 uint32_t
#define DCPK_ARG_s32 int32_t
#define DCPK_ARG_f32 float
#define A(type, name, kernels, doc) DCPK_ARG_##type name;
#include <dcpk/args.def>
#undef A
#undef DCPK_ARG_u64
#undef DCPK_ARG_u32
#undef DCPK_ARG_s32
#undef DCPK_ARG_f32
} dcpk_args;

enum dcpk_launch_flags {
    DCPK_LAUNCH_NO_PDL = 1,        /* a full edge before this kernel (it is a plain launch) */
    DCPK_LAUNCH_CHAIN_WAITS = 2,   /* caller's promise: every kernel since our last one executes griddepcontrol.wait */
    DCPK_LAUNCH_FRESH_WEIGHTS = 4, /* weights changed since the last full edge: no PDL here */
    DCPK_LAUNCH_FIRST = 8          /* first kernel of a layer step: PDL only with CHAIN_WAITS */
};

/* Launches entry `entry` of the kernel. box: NULL for kernels without one. BOX_DEAD when the box's host word
 * says so (read without synchronising). MULTICAST, ARG, DRIVER. Asynchronous. */
DCPK_API dcpk_status dcpk_kernel_launch(const dcpk_kernel *kernel, uint32_t entry, const dcpk_args *args, dcpk_box *box,
                                        void *stream, uint32_t flags, dcpk_error *error);

/* The same with the driver's own parameter array (one pointer a parameter, in the entry's order), for templates
 * whose parameters args.def and box.def do not name. ARG for an entry that has parameters of box.def and only names of
 * the two tables: dcpk_kernel_launch does it. An entry that has box parameters and others beside them is launched as it
 * is: nobody asks whether the box is dead (dcpk_box_status does) or held by a graph, and no use is counted. */
DCPK_API dcpk_status dcpk_kernel_launch_raw(const dcpk_kernel *kernel, uint32_t entry, void *const *params,
                                            void *stream, uint32_t flags, dcpk_error *error);

#ifdef __cplusplus
}
#endif
#endif
