/* kernel_set.h - the kernels of one run: each spec built once, loaded where it is wanted, and one row of facts a spec.
 * Uses include/dcpk only. Not thread-safe. */
#ifndef TOOLS_KERNEL_SET_H
#define TOOLS_KERNEL_SET_H

#include <dcpk/gen.h>
#include <dcpk/runtime.h>

/* One row of the table that `dcpk run` prints: a kernel of one batch. */
struct kernel_row {
    char kernel[32];
    char spec[512]; /* canonical text */
    int32_t batch;
    dcpk_build_report report; /* key, hit, ptx_lines, cubin_bytes, total_ms */
    uint32_t registers;       /* a thread, the most of its entries */
    uint32_t spilled;         /* local bytes a thread, the most of its entries */
    double run_seconds;       /* wall time of its launches in the timed pass, all ranks; < 0: not timed */
    uint64_t executed;        /* thread instructions of that pass on the CPU device, all ranks; 0 on hardware */
    uint64_t executed_warps;  /* warp instructions, likewise */
    int32_t compared;         /* 0: nothing of this kernel is compared */
    const char *measure;      /* what error and bound count: "bf16 ulp", "wrong bytes" */
    uint64_t wrong;           /* values, bytes or bits out of their bound; the run is right when all of these are 0 */
    double error, bound;      /* the worst seen, and what it may be at most: the figures compared */
    double relative;          /* relative Frobenius error against FP64 */
    double relative_bound;    /* what relative may be at most */
};

struct kernel_set;
/* gen outlives the set. NULL: out of memory. */
struct kernel_set *kernel_set_new(dcpk_gen *gen);
void kernel_set_free(struct kernel_set *set); /* its images' references; loaded kernels are the caller's */
/* The image of a resolved spec, one reference the caller's; built at the first call of its text. As
 * dcpk_provider.get, self being the set. */
dcpk_status kernel_set_get(void *set, const dcpk_spec *spec, dcpk_image **out, dcpk_error *error);
/* The same, loaded on the device. */
dcpk_status kernel_set_load(struct kernel_set *set, const dcpk_spec *spec, dcpk_device *device, void *stream,
                            dcpk_kernel **out, dcpk_error *error);
uint32_t kernel_set_count(const struct kernel_set *set);
struct kernel_row *kernel_set_at(struct kernel_set *set, uint32_t index);
/* The first row of this kernel and batch (0: any); NULL when there is none. */
struct kernel_row *kernel_set_find(struct kernel_set *set, const char *kernel, int32_t batch);

/* spec of `kernel` with the keys of base that it takes, arch included. A kernel of our own (not of kernels.def) gets
 * heads, dcp, batch, cap and qh. Not resolved. */
void kernel_set_spec(const dcpk_spec *base, const char *kernel, dcpk_spec *spec);

#endif
