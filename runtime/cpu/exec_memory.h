/* exec_memory.h - what loads, stores and atomics share. */
#ifndef DCPK_CPU_EXEC_MEMORY_H
#define DCPK_CPU_EXEC_MEMORY_H

#include <runtime/cpu/exec.h>

void lane_addresses(const struct exec *x, const struct op *o, u64 *address);
/* Host memory of shared, local or parameter bytes; NULL with a fault when outside, misaligned, or (shared; not for
 * ACCESS_NONE) still out of the lane's sight because of a cp.async. */
u8 *window_at(struct exec *x, u32 lane, enum space space, u64 address, unsigned bytes, enum access access);
/* The space of a generic address; the window's mark is taken off. */
enum space space_of(u64 *address);
/* The space that an access states: the mark of its own window is taken off; another one's stays, and no space has such
 * an address. */
enum space in_space(enum space stated, u64 *address);

op_fn op_load_global, op_load_generic, op_load_window, op_store_global, op_store_generic, op_store_window, op_fence,
    op_prefetch;
op_fn op_atomic;
#endif
