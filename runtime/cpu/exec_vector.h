/* exec_vector.h - the data of loads and stores between a warp's registers and its lanes' bytes in host memory, and
 * where 32 addresses lie. Owned by exec_vector.c; for exec_memory.c. */
#ifndef DCPK_CPU_EXEC_VECTOR_H
#define DCPK_CPU_EXEC_VECTOR_H

#include <runtime/cpu/exec.h>

struct span { /* of the active lanes' accesses, of `each` bytes */
    u64 low, bytes;
    bool linear; /* all 32 lanes, side by side in ascending order */
};
/* false: one is misaligned, or they are too far apart for one piece of memory. */
bool span_of(const u64 *address, u32 m, unsigned each, struct span *span);

/* A load's data: of each active lane from from[lane]. Linear: from one place on. */
void registers_load(struct exec *x, const struct op *o, u32 m, const u8 *const *from);
void registers_load_linear(struct exec *x, const struct op *o, const u8 *from);
/* A store's data, lane after lane; whether memory changed. */
bool registers_store(const struct exec *x, const struct op *o, u32 m, u8 *const *to);
bool registers_store_linear(const struct exec *x, const struct op *o, u8 *to);

#endif
