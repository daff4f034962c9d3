/* exec_wmma.h - wmma: how its operations are decoded. Encoded by ptx_encode_wmma.c, run by exec_wmma.c. */
#ifndef DCPK_CPU_EXEC_WMMA_H
#define DCPK_CPU_EXEC_WMMA_H

#include <runtime/cpu/exec_ops.h>

/* Fields of op that memory operations use in their own way. */
#define wmma_rows order
#define wmma_columns scope
#define wmma_store bytes

enum { WMMA_HEAD = 10 };
#endif
