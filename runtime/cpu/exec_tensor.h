/* exec_tensor.h - tensor maps for those that begin bulk copies. */
#ifndef DCPK_CPU_EXEC_TENSOR_H
#define DCPK_CPU_EXEC_TENSOR_H

#include <runtime/cpu/exec_async.h>

/* The box of the map at a generic address whose first element is `at`; its place in shared memory is the caller's.
 * false: fault. */
bool tensor_box(struct exec *x, u32 lane, u64 address, unsigned rank, const s32 *at, struct box *box);
bool tensor_is_map(struct exec *x, u32 lane, u64 address);

#endif
