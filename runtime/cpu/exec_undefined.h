/* exec_undefined.h - registers whose reads are watched: those that a path reads before it writes them, and those that
 * are loaded from shared memory, whose bytes nobody may have written. */
#ifndef DCPK_CPU_EXEC_UNDEFINED_H
#define DCPK_CPU_EXEC_UNDEFINED_H

#include <runtime/cpu/exec.h>

struct undefined {      /* of a function; see ptx_undefined.c */
    u32 count;          /* registers */
    const char **names; /* theirs */
    u32 *slots;         /* their operands */
    u32 *first;         /* of an operation: its watches, 0 none */
    const u32 *watches;
    op_fn **inner; /* of an operation: what it does */
};

enum watch { /* register number << 3, the operation writes it or reads it: */
             WATCH_WRITTEN = 1,
             WATCH_GUARD = 2,     /* as its guard, with every thread that comes */
             WATCH_CHOSEN = 4,    /* where predicate c is true */
             WATCH_NOT_CHOSEN = 6 /* where it is not */
};

struct definition {   /* of a watched register of a warp */
    u32 lanes;        /* have written it */
    u32 vague;        /* have loaded it from bytes that nobody has written */
    u32 pc, at[WARP]; /* which load; of a lane, which shared address */
    u16 bytes[WARP];  /* of a vague lane: which of the register's, a bit each */
};

op_fn op_undefined_guard;             /* stands before every operation that names a watched register */
bool undefined_begin(struct exec *x); /* the checker is on; false: out of memory */
/* A lane loads bytes of shared memory of which some have not been written; known: a bit each, from the first on.
 * false: nothing watches the register, which nothing may therefore be loaded to. */
bool undefined_loaded(struct exec *x, const struct op *o, u32 lane, u32 known, u64 address);
/* Whether it is a load, which may leave such bytes in registers. */
bool undefined_is_load(const struct exec *x, const struct op *o);
/* Lanes of which an operation names a register with such bytes. */
u32 undefined_lanes(const struct exec *x, const struct op *o);
/* Of the bytes that a lane stores those that its registers have from bytes that nobody has written. */
u32 undefined_stored(const struct exec *x, const struct op *o, u32 lane);

#endif
