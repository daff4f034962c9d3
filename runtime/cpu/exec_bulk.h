/* exec_bulk.h - how the operands of a bulk copy lie in code->extra. The shared address is op->a and op->imm; op->count
 * is the tensor's rank, 0 for a plain copy; addresses are register, low and high word of the offset, whether 64 bits.
 */
#ifndef DCPK_CPU_EXEC_BULK_H
#define DCPK_CPU_EXEC_BULK_H

#include <runtime/cpu/exec_async.h>

enum bulk_extra {
    EXTRA_GLOBAL = 0,  /* address: of the bytes, or of the tensor map */
    EXTRA_BARRIER = 4, /* address: of the load's mbarrier */
    EXTRA_BYTES = 8,   /* of a plain copy */
    EXTRA_MASK = 9,    /* of a multicast, else NO_OPERAND */
    EXTRA_AT = 10,     /* a tensor's coordinates */
    EXTRA_COUNT = EXTRA_AT + DIMENSIONS
};

#endif
