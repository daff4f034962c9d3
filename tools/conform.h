/* conform.h - conformance of a device: one small kernel for each PTX instruction form that counts, its inputs, what it
 * must leave, and what hardware was seen to leave (dcpk check device).
 *
 * A *form* is one opcode with modifiers and types, expanded from a row of conform_*.def. Its kernel is a frame around
 * the row's body (conform_text.c): a thread reads one conform_in, leaves one conform_out. References are written from
 * the manual in C and share nothing with a device. Files: conform_list (rows to forms), conform_inputs, conform_text,
 * conform_reference_* and conform_exact (expected results), conform_device (runs), conform_golden (recorded results),
 * conform_judge (compares), conform_cover (instruction names of a text). */
#ifndef DCPK_TOOLS_CONFORM_H
#define DCPK_TOOLS_CONFORM_H

#include <dcpk/runtime.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CONFORM_NAME = 160,
    CONFORM_THREADS = 128, /* of a CTA; inputs are a multiple of it */
    CONFORM_WARP = 32,
    CONFORM_FEW = 2048,      /* inputs of most forms */
    CONFORM_PRODUCTS = 512,  /* of products: 16 tiles of a warp, 4 of a warpgroup */
    CONFORM_HALVES = 65536,  /* every 16-bit pattern */
    CONFORM_UPPERS = 327680, /* every upper half with 5 lower halves */
    CONFORM_CLUSTER = 2,     /* CTAs of a cluster where a form is CLUSTERED */
    CONFORM_SLOT = 64,       /* bytes of a thread's slot of memory */
    CONFORM_MAP = 128        /* bytes of a tensor map */
};

/* What a thread gets, all random or chosen by the row, and what it leaves. */
struct conform_in {
    uint64_t a, b, c, x, more[4];
};
struct conform_out {
    uint64_t d[4];
};

enum conform_flag {
    EXACT = 0,      /* the manual says every bit */
    APPROX = 1,     /* within a bound: conform_bounds.def */
    TENSOR = 2,     /* sums of a tensor core: within a bound, the order of additions is open */
    PER_WARP = 4,   /* the reference wants 32 inputs at a time */
    PER_CTA = 8,    /* 128 */
    CPU_ONLY = 16,  /* never on hardware: multicast memory */
    SM_90A = 32,    /* .target sm_90a */
    CLUSTERED = 64, /* clusters of two CTAs; PER_CTA references get both: 256 inputs */
    NAN_OPEN = 128, /* the payload of a NaN result is open: any NaN is one value */
    SHARED = 256,   /* the body uses tile, bars or a slot of shared memory */
    MAPPED = 512,   /* the body uses the tensor map */
    LIMITED = 1024  /* 64 registers a thread, no fewer: for setmaxnreg */
};

enum { CONFORM_MODIFIERS = 16 };
struct conform_form;
/* One group of inputs to their results. False: what this instruction leaves for these inputs is open. */
typedef bool conform_reference(const struct conform_form *form, const struct conform_in *in, struct conform_out *out);

struct conform_row {
    const char *tag;     /* tells forms of one instruction apart; "" where there is one */
    const char *pattern; /* {x} once or not, {x|y} one or none, (x|y) one */
    const char *body;    /* see conform_text.c */
    const char *inputs;  /* a letter for each of a b c x: see conform_inputs.c */
    char out;            /* l: D E F G; w: d e f g; h: hd he hf hg; p: predicates p q r s; *: by the first type */
    unsigned flags;
    conform_reference *reference;
    const char *reference_name; /* of the row, for messages of tests */
    const char *file;
};

struct conform_type {
    const char *name;
    uint8_t bits;   /* of the register */
    uint8_t memory; /* bits in memory */
    char kind;      /* u s b: integers; f: floating; x: packed */
};

struct conform_memo { /* of conform_which: which list, what came of it */
    const char *list;
    int at;
};
enum { CONFORM_MEMOS = 16 };

struct conform_form {
    char name[CONFORM_NAME];        /* instruction, a blank and the tag where there is one */
    char instruction[CONFORM_NAME]; /* opcode with modifiers and types */
    const struct conform_row *row;
    const char *words[CONFORM_MODIFIERS]; /* opcode and modifiers, without dots */
    unsigned word_count;
    char split[CONFORM_NAME]; /* what they point into */
    const struct conform_type *first, *last;
    unsigned vector; /* 1, 2, 4: .v2, .v4 */
    char out;
    struct conform_memo memos[CONFORM_MEMOS];
};

/* conform_list.c: every form, in an order that only additions change. */
struct conform_list {
    struct conform_form *forms;
    size_t count;
};
struct conform_list conform_list_make(void);
void conform_list_free(struct conform_list *list);
/* One form of a row, which keeps its place: it points into itself. */
void conform_form_make(struct conform_form *form, const struct conform_row *row, const char *instruction);
/* word, list: texts that stay as they are. */
bool conform_has(const struct conform_form *form, const char *word);
/* The n-th of the words that is one of list ("a b c"), or -1: which of the list's words the form has. */
int conform_which(const struct conform_form *form, const char *list);
const struct conform_type *conform_type_find(const char *name);

/* conform_inputs.c */
size_t conform_input_count(const struct conform_form *form);
void conform_inputs_fill(const struct conform_form *form, struct conform_in *in, size_t count);
uint64_t conform_random(uint64_t *state);
/* The parameter of 128 bytes where it is no tensor map. */
void conform_map_bytes(unsigned char bytes[CONFORM_MAP]);
/* FNV-1a over bytes, from a start (CONFORM_HASH_START). */
#define CONFORM_HASH_START UINT64_C(0xCBF29CE484222325)
uint64_t conform_hash(uint64_t from, const void *data, size_t bytes);

/* conform_text.c: the PTX of forms of one module: entries f0, f1, ... A malloc'ed text. */
char *conform_module(const struct conform_form *const *forms, size_t count);
/* Of the kernel's text and its inputs: what recorded results belong to. */
uint64_t conform_identity(const struct conform_form *form, const struct conform_in *in, size_t count);

/* conform_exact.c: what a form must leave. open[i] where a result is open. False: the form has no reference of that
 * kind (APPROX, TENSOR). */
bool conform_expected(const struct conform_form *form, const struct conform_in *in, size_t count,
                      struct conform_out *out, bool *open);
/* Makes one value of what is open: open results zero, NaN of NAN_OPEN forms canonical. */
void conform_settle(const struct conform_form *form, struct conform_out *out, const bool *open, size_t count);

/* conform_judge.c: errors of approximations. bound: what the manual allows, in the same unit. */
struct conform_bound {
    const char *prefix; /* of the instruction */
    const char *suffix;
    char measure; /* u: ulp of the result; r: relative; a: absolute; l: absolute near 1, else relative; p: of the
                     sum of the magnitudes of products */
    double bound, least, most; /* inputs judged */
    const char *section;
};
struct conform_error {
    const struct conform_bound *bound;
    double largest, at_bound;     /* largest: in the measure's unit; at_bound: as a part of what is allowed there */
    size_t judged, beyond, exact; /* exact: correctly rounded */
    size_t worst;                 /* index of the input */
};
bool conform_errors(const struct conform_form *form, const struct conform_in *in, const struct conform_out *out,
                    size_t count, struct conform_error *error);

/* conform_cover.c: calls back for each instruction (its opcode with modifiers) and each special register of a PTX text.
 */
typedef void conform_seen(void *self, const char *name, unsigned line);
void conform_scan(const char *ptx, conform_seen *seen, void *self);
/* The names that the forms of a list cover; it points into the list. */
struct conform_cover;
struct conform_cover *conform_cover_make(const struct conform_list *list);
void conform_cover_free(struct conform_cover *cover);
bool conform_covers(const struct conform_cover *cover, const char *name);

#endif
