/* exec.h - insides of the exec half: decoded operations, the state of a warp, what handlers may use.
 *
 * Registers of a warp lie in slots of 32 lanes x 32 bits (128 bytes); 64-bit registers take two slots, read as 32 x 64
 * bits, 128-bit ones four. 8- and 16-bit values sit zero-extended in 32-bit lanes. Predicates are 32-bit lane masks of
 * their own. Immediates are broadcast into a read-only bank shaped like the registers, so that every operand is a
 * vector of 32 lanes. */
#ifndef DCPK_CPU_EXEC_H
#define DCPK_CPU_EXEC_H

#include <runtime/cpu/machine.h>

typedef uint8_t __attribute__((may_alias)) u8;
typedef uint16_t __attribute__((may_alias)) u16;
typedef int16_t __attribute__((may_alias)) s16;
typedef uint32_t __attribute__((may_alias)) u32;
typedef int32_t __attribute__((may_alias)) s32;
typedef uint64_t __attribute__((may_alias)) u64;
typedef int64_t __attribute__((may_alias)) s64;
typedef float __attribute__((may_alias)) f32;
typedef double __attribute__((may_alias)) f64;

#define ALL_LANES 0xFFFFFFFFu
enum { SLOT_BYTES = 128, MAX_GROUPS = WARP, NO_GUARD = 0xFFFF };
/* Shared memory begins here in the shared window, as on hardware: address 0 is never valid. */
enum { SHARED_BASE = 1024 };
/* Generic addresses of the windows: the byte above bit 56 tells the space; global addresses have 0 there. */
#define WINDOW_SHARED 0x0100000000000000ull
#define WINDOW_LOCAL 0x0200000000000000ull
#define WINDOW_PARAM 0x0300000000000000ull
#define WINDOW_OF(address) ((address)&0xFF00000000000000ull)

/* Flags of an instruction's modifiers; an op carries them in `flags`. */
enum op_flag {
    F_FTZ = 1u << 0,
    F_SAT = 1u << 1,
    F_SATFINITE = 1u << 2,
    F_RELU = 1u << 3,
    F_NAN = 1u << 4,
    F_ABS_XOR = 1u << 5,
    F_RZ = 1u << 6,
    F_RM = 1u << 7,
    F_RP = 1u << 8,
    F_RNA = 1u << 9,
    F_RINT = 1u << 10, /* .rni .rzi .rmi .rpi */
    F_SWAP = 1u << 11,
    F_NOT = 1u << 12, /* compare: complement the result */
    F_AND = 1u << 13,
    F_OR = 1u << 14,
    F_XOR = 1u << 15,          /* compare: combine with a predicate */
    F_WIDE_ADDRESS = 1u << 16, /* address register has 64 bits */
    F_SIGNED = 1u << 17,
    F_TRANS = 1u << 18,
    F_NOT_C = 1u << 19,
    F_EXPECT = 1u << 20, /* mbarrier.arrive: .expect_tx, arrive_drop, .noComplete */
    F_DROP = 1u << 21,
    F_NO_COMPLETE = 1u << 22,
    F_NC = 1u << 23,
    F_INPUT = 1u << 24,  /* a load of what nobody writes: meanwhile; ever (// const_input) */
    F_PARTLY = 1u << 25, /* a load of bytes of which some are not used: a bit each in op.b */
    F_DIRECTED = F_RZ | F_RM | F_RP
};

enum run {
    RUN_NEXT,   /* on to the next instruction */
    RUN_STOP,   /* as RUN_NEXT, and warp_run gives the others a turn */
    RUN_BRANCH, /* the active threads go to op->imm */
    RUN_INDEX,  /* the active threads go where exec->targets says */
    RUN_EXIT,   /* the active threads are done */
    RUN_PARK,   /* the active threads wait for others (sync_arrive has taken them) */
    RUN_WAIT,   /* griddepcontrol.wait and the predecessor is not done: stay */
    RUN_FAULT   /* exec->fault is filled, exec->fault_lane set */
};

enum space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM, SPACE_CONST, SPACE_CLUSTER };

struct exec;
struct op;
typedef int op_fn(struct exec *x, const struct op *o, u32 m);

/* Threads of a warp that meet at a .sync operation; several parts when they stand at different instructions. */
struct part {
    const struct op *op;
    u32 lanes;
};
typedef int sync_fn(struct exec *x, const struct part *parts, unsigned count, u32 members);

#define NO_OPERAND 0xFFFFFFFFu
#define OPERAND_CONST 0x80000000u /* byte offset into the bank of constants, else into the registers */

struct op {
    op_fn *run;
    u32 d, a, b, c; /* operands: byte offset (| OPERAND_CONST); predicates: index << 1 | negated */
    int64_t imm;    /* address offset; branch target; what the form says */
    u32 extra;      /* first of further operands in code->extra */
    u32 flags;      /* enum op_flag */
    u16 guard;      /* predicate index, NO_GUARD none */
    u8 guard_not;
    u8 space;        /* enum space */
    u8 order, scope; /* enum order, enum scope */
    u8 bytes;        /* an element */
    u8 count;        /* elements of a vector */
    u8 kind, sub;    /* what the form says */
    u8 width;        /* bits of the data register */
    sync_fn *sync;
};

struct where {
    u32 line, text, length;
}; /* of an op: PTX line (1-based), its text in code->source */

/* Registers that are set at the start of a warp and never written: special registers, addresses of module variables. */
struct pinned {
    u32 slot;
    u8 special;
    u8 bits;
    u32 variable;
    int64_t addend;
};

struct shared_name { /* a variable in shared memory; offset: its address, SHARED_BASE and up */
    const struct shared_name *next;
    const char *name;
    u32 length;
    u64 offset, bytes;
};

struct code {
    struct op *ops;
    u32 *extra;
    u8 *constants;
    struct where *where;
    struct pinned *pinned;
    const char *source;
    const struct line_source *lines;
    const struct shared_name *shared; /* newest first */
    unsigned op_count, extra_count, constant_bytes, pinned_count, slots, predicates;
    /* SPARE_KINDS lists */
    struct spares *spares;
    bool async_reads; /* some operation reads shared memory through the async proxy */
    /* of kernels with wgmma (exec_wgmma_watch.c): of each operation the first of its watches, what it runs behind them
     */
    const u32 *watched, *watches;
    op_fn *const *inner;
    const struct undefined *undefined; /* exec_undefined.h; NULL: not known */
};

/* exec_spare.c: blocks of memory between one CTA of a function and the next; what they hold is lost. */
struct spares {
    struct spare *first;
    size_t bytes;
};
enum { SPARE_WARP, SPARE_SHARED, SPARE_CELLS, SPARE_CROWDS, SPARE_KINDS }; /* the lists of a function */
/* A block, aligned to a slot; NULL: out of memory. One of any size; NULL: there is none. */
void *spare_take(struct spares *spares, size_t bytes);
void *spare_any(struct spares *spares, size_t *bytes);
void spare_give(struct spares *spares, void *block, size_t bytes);
void spares_free(struct spares *spares);

struct group {
    u32 pc, mask;
    u64 stamp;
    bool waiting;
};
struct parked {
    u32 pc, lanes, members;
};

struct copies;     /* exec_copy.h */
struct wgmma_warp; /* exec_wgmma.h */
struct exec {
    u8 *base[2]; /* registers, constants */
    u32 *predicates;
    const struct code *code;
    struct warp *warp;
    struct world *world; /* valid within a step */
    struct fault *fault; /* likewise */
    u8 *local;           /* 32 x local_bytes */
    u32 launched, live;  /* lanes that began; that have not exited */
    u32 left;            /* that exited straight from where they parted from the others: an early return */
    u32 carry;           /* the condition code's carry of each lane */
    unsigned fault_lane, group_count, parked_count, debt, turn;
    u64 clock;
    bool at_barrier; /* all live threads have arrived; the CTA's barrier holds the warp */
    u32 barrier;     /* which */
    struct group groups[MAX_GROUPS];
    struct parked parked[WARP];
    u32 targets[WARP];
    struct copies *copies; /* NULL before the first cp.async */
    /* the last polled load, for reports */
    u64 poll_address;
    u8 poll_value[16];
    unsigned poll_bytes;
    u32 poll_pc;
    u64 poll_count, poll_touch; /* poll_touch: touch_count then */
    /* the last load (0) and store or atomic (1) of global or shared memory, likewise */
    struct touch {
        u64 address, count; /* count: touch_count then; 0: none */
        u32 pc, space;
    } touches[2];
    u64 touch_count;
    /* the last wait for an mbarrier's phase that was in vain, likewise */
    u64 await_touch;
    u32 await_offset, await_parity, await_pc;
    bool cluster_arrived, cluster_open; /* at barrier.cluster, and not yet waited; the phase is over */
    u32 registers, registers_wanted;    /* a thread, 0 not known; by the setmaxnreg.inc that it waits at */
    struct wgmma_warp *wgmma;           /* NULL before the first wgmma */
    struct checker *checker;            /* the memory checker's, of the CTA (exec_check.h); NULL: off */
    const struct op *doing;             /* for it: the access under way */
    struct definition *defined;         /* likewise: of its watched registers (exec_undefined.h) */
};

/* For the world: which operation accesses global memory, and what of it moves as one. */
static inline void note_access(struct exec *x, const struct op *o) {
    x->warp->pc = (u32)(o - x->code->ops);
    x->warp->element = o->bytes;
    x->warp->early = false;
}

static inline void note_touch(struct exec *x, const struct op *o, bool store, enum space space, u64 address) {
    x->touches[store] = (struct touch){address, ++x->touch_count, (u32)(o - x->code->ops), (u32)space};
}

struct barrier {
    u32 expected /* 0: all threads that live */, arrived, population;
    bool all, any;
};
struct async;      /* exec_async.h */
struct warpgroups; /* exec_wgmma.h */
struct barriers {  /* of a CTA; and of its shared memory: */
    struct barrier at[MAX_BARRIERS];
    struct async *async;      /* NULL before the first mbarrier or bulk copy */
    u32 pool;                 /* registers a thread that the warps have given up: sums of setmaxnreg */
    u32 *copy_owner;          /* a word of it: the asynchronous copy that keeps it, 0 none; NULL before the first */
    u8 *copy_words;           /* 16 bytes of it: how many words are kept */
    struct warpgroups *wgmma; /* NULL before the first wgmma */
    struct checker *checker;  /* NULL: the memory checker is off */
};

#define AT(x, operand) ((void *)((x)->base[(operand) >> 31] + ((operand)&0x7FFFFFFFu)))
#define FOR_LANES(l, mask)                                                                                             \
    for (u32 rest_ = (mask), l = 0; rest_ && (l = (u32)__builtin_ctz(rest_), 1); rest_ &= rest_ - 1)

static inline u32 predicate_read(const struct exec *x, u32 operand) {
    u32 p = x->predicates[operand >> 1];
    return operand & 1 ? ~p : p;
}

static inline void predicate_write(struct exec *x, u32 operand, u32 value, u32 m) {
    u32 *p = &x->predicates[operand >> 1];
    *p = (*p & ~m) | (value & m);
}

/* Thread number in its CTA of a lane. */
static inline unsigned thread_of(const struct exec *x, unsigned lane) {
    return x->warp->index * WARP + lane;
}

/* Fills x->fault for a lane; returns RUN_FAULT. The step adds kernel, line and thread. */
int exec_fault(struct exec *x, unsigned lane, int code, const char *format, ...) __attribute__((format(printf, 4, 5)));
enum {
    FAULT_ILLEGAL_ADDRESS = 700,
    FAULT_ILLEGAL_INSTRUCTION = 715,
    FAULT_MISALIGNED = 716,
    FAULT_ADDRESS_SPACE = 717,
    FAULT_LAUNCH = 719
};

void exec_fault_complete(struct exec *x, u32 pc); /* puts place and thread before what exec_fault or the world wrote */
/* Words for faults, appended: a format; a place "kernel NAME, FILE:LINE (PTX line N: `text`)"; a thread; " (variable +
 * offset)" of an address in shared memory. */
void exec_append(char *text, size_t capacity, const char *format, ...) __attribute__((format(printf, 3, 4)));
void exec_append_place(const struct exec *x, u32 pc, char *text, size_t capacity);
void exec_append_thread(const struct exec *x, unsigned lane, char *text, size_t capacity);
void exec_append_name(const struct exec *x, u64 address, char *text, size_t capacity);

/* exec_sync.c: op_sync is the handler of every op with a sync function: it runs it at once when all members are here,
 * else parks the lanes. settle, after threads parked or exited, runs what has become complete; RUN_FAULT with the fault
 * completed. */
enum sync_kind {
    SYNC_MASK /* members: operand in op->imm */,
    SYNC_WARP /* all 32 lanes */,
    SYNC_BARRIER /* all live lanes */
};
op_fn op_sync;
int sync_settle(struct exec *x);
int sync_missing(struct exec *x);   /* nothing can run and nothing will: a fault */
int sync_warp_gone(struct exec *x); /* the warp is done: barriers may open */
void sync_pass(struct exec *x);     /* the warp, parked as a whole, goes on */
void sync_resume(struct exec *x);   /* likewise, and it was held at a barrier */
void group_add(struct exec *x, u32 pc, u32 mask);
void sync_describe(const struct exec *x, char *text, size_t capacity); /* who is missing at its barrier */

/* bar and barrier.cta: op->sub; a: barrier, b: threads (NO_OPERAND: all), c: predicate, d: result */
enum barrier_kind { BARRIER_SYNC, BARRIER_ARRIVE, BARRIER_POPC, BARRIER_AND, BARRIER_OR };
sync_fn sync_registers;                                                     /* exec_registers.c */
void registers_gone(struct exec *x);                                        /* the warp has exited */
void registers_describe(const struct exec *x, char *text, size_t capacity); /* what it waits for, if it does */
sync_fn sync_barrier, sync_warp, sync_shfl, sync_vote, sync_match, sync_redux, sync_elect, sync_mma, sync_ldmatrix,
    sync_stmatrix, sync_wmma, sync_wmma_memory;

/* exec_lanes.h, compiled for two instruction sets. */
enum lane_op {
#define ROW(name) L_##name,
#include <runtime/cpu/lane_rows.h>
#undef ROW
    L_COUNT
};
extern op_fn *const lanes_base[L_COUNT];
extern op_fn *const lanes_avx2[L_COUNT];

/* num_*.c: numbers. */
enum float_format { FMT_F16, FMT_BF16, FMT_F32, FMT_F64, FMT_E4M3, FMT_E5M2, FMT_TF32, FMT_COUNT };
enum rounding { ROUND_NEAREST, ROUND_ZERO, ROUND_DOWN, ROUND_UP, ROUND_AWAY };
/* significand * 2^exponent, sticky: something non-zero below. Overflow to Inf (or the largest finite, as the rounding
 * says). */
u64 float_pack(enum float_format format, bool negative, u64 significand, int exponent, bool sticky,
               enum rounding rounding);
u64 float_from_double(enum float_format format, double value,
                      enum rounding rounding); /* NaN becomes the format's canonical NaN */
double float_to_double(enum float_format format, u64 bits);
/* .satfinite: clamps to the largest finite; NaN to 0x7F in the FP8 formats. */
u64 float_satfinite(enum float_format format, double value, enum rounding rounding);
enum rounding rounding_of(u32 flags);
float f16_to_f32(u16 bits);
u16 f16_from_f32(float value);
u16 bf16_from_f32(float value);
float bf16_to_f32(u16 bits);
/* a * b + c in double with the last bit odd when inexact: rounding it again to a narrow format is right. */
double fma_odd(double a, double b, double c);
#endif
