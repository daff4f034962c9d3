/* ptx.h - insides of the PTX front half: tokens, symbols, instructions before they have slots, forms.
 * Used by ptx_*.c only. Everything lives in the module's arena; errors leave through load_fail (longjmp to ptx_load).
 */
#ifndef DCPK_CPU_PTX_H
#define DCPK_CPU_PTX_H

#include <setjmp.h>
#include <runtime/cpu/exec.h>

struct text {
    const char *at;
    u32 length;
};

struct arena {
    struct arena_block *blocks;
    size_t used;
};
void *arena_take(struct arena *arena, size_t bytes); /* zeroed, 16-byte aligned; NULL when out of memory */
void arena_free(struct arena *arena);

/* ---- tokens ---- */
enum token_kind {
    T_END,
    T_NAME, /* identifier, %register, $label; in operands with its dots as in %tid.x */
    T_DOT,  /* .directive, the text without the dot */
    T_INTEGER,
    T_F32,
    T_F64, /* value in integer, or as bits */
    T_STRING,
    T_PUNCT /* one character, or two: && || == != <= >= << >> */
};
struct token {
    enum token_kind kind;
    struct text text;
    u64 bits;
    u32 line;
    char punct;
    char second;
};

/* ---- symbols ---- */
enum reg_kind { REG_BITS, REG_INT, REG_FLOAT, REG_PRED };
struct vreg {
    u8 kind, bits;
    bool halves; /* .f16x2: bits for integers and for itself, no float */
};

enum symbol_kind { SYMBOL_REGS, SYMBOL_VARIABLE, SYMBOL_LABEL, SYMBOL_TARGETS, SYMBOL_FUNCTION };
/* Whether a .param variable is one of a call: the caller's, or what a function takes or gives. It is in local memory.
 */
enum passing { PASSING_NONE, PASSING_ACTUAL, PASSING_ARGUMENT, PASSING_RESULT };
struct type {
    u8 kind, bits;
    bool valid, is_unsigned;
};
struct variable {
    struct text name, type_name;
    struct type type; /* of an element */
    enum space space;
    u64 bytes;
    unsigned align, element;
    u64 offset; /* shared, local, param: in its window; global, const: unused */
    /* shared: the one whose place it has, if that is declared there too; the next in layout; who named it last */
    const struct variable *same;
    struct variable *next_shared;
    const struct function *user;
    unsigned index;       /* global, const: index among the module's */
    bool external, array; /* external: dynamic shared memory */
    bool open;            /* the last argument of a function: an array of any size */
    enum passing passing;
    u8 linkage; /* enum linkage: LINKAGE_EXTERN until it is defined */
    const struct dimensions *size;
};
/* How many elements a variable has in each dimension; a vector's are the last. */
enum { MAX_DIMENSIONS = 15 };
struct dimensions {
    u64 at[MAX_DIMENSIONS + 1];
    unsigned count;
    bool open, vector, half; /* the first has no bound; the last is a vector; elements are .f16 or .f16x2 */
    struct type type;        /* of an element */
};
/* The bytes of an initialiser so far, and the addresses in it. */
struct filling {
    u8 *bytes;
    u64 capacity, at;
    struct ptx_pointer *pointers;
    u32 pointer_count, pointer_capacity;
};
/* Variables that are declared in a function's body: where, for which entry (NULL: the module), and their places. */
struct placed {
    const struct placed *next;
    const char *at;
    const struct function *function;
    const struct variable *variables;
};
struct label {
    struct text name;
    u32 line;
    s64 position; /* instruction, -1 until seen */
    struct label *next;
};
struct label_list { /* .branchtargets; many branches may share one */
    struct label **at;
    unsigned count;
    bool marked, encoded; /* its blocks begin; it stands in code.extra, at `extra` */
    u32 extra;
};
struct name_scope;
struct symbol {
    struct symbol *next, *scope_next;
    const struct name_scope *scope;
    struct text name;
    enum symbol_kind kind;
    bool range;             /* name<count>, of registers or variables: its name alone stands for nothing */
    u32 first, count;       /* SYMBOL_REGS: vregs; count: of a range */
    struct symbol *members; /* of a range of variables */
    struct variable *variable;
    struct label *label;
    struct label_list *targets;
};
struct name_scope {
    struct name_scope *outer;
    struct symbol *symbols;
    struct label *pending;
    u32 depth;
    bool hidden; /* of a caller, while its callee is read */
};

struct register_range { /* of one declaration, for names in messages */
    const struct register_range *next;
    struct text name;
    u32 first, count; /* vregs */
    bool range;
};

/* ---- instructions ---- */
enum operand_kind {
    O_REG,
    O_INTEGER,
    O_F32,
    O_F64,
    O_VARIABLE, /* address of variable + value */
    O_ADDRESS,  /* [base + value]: reg, variable or neither */
    O_VECTOR,
    O_LABEL,
    O_SPECIAL,
    O_SPECIAL_VECTOR, /* its first part */
    O_DISCARD,
    O_TARGETS
};
struct operand {
    enum operand_kind kind;
    bool negated; /* !p */
    bool has_reg; /* O_ADDRESS with a register base */
    bool sum;     /* O_VARIABLE: an offset is written */
    u8 special;   /* enum special */
    u32 reg;
    u64 bits; /* O_INTEGER, O_F32, O_F64; the offset of addresses */
    struct variable *variable;
    struct label *label;
    struct label_list *targets;
    struct operand *items;
    unsigned count;
    struct operand *paired; /* p|q */
};
enum { MAX_OPERANDS = 10, MAX_MODIFIERS = 20 };
struct form;
struct insn {
    struct text opcode, text;
    struct text modifiers[MAX_MODIFIERS];
    unsigned modifier_count;
    struct operand operands[MAX_OPERANDS];
    unsigned operand_count, outputs; /* the first `outputs` operands are written */
    u32 flags, line;
    u32 guard;
    bool guarded, guard_not, accumulates; /* accumulates: outputs are read too */
    u32 unused_bytes;                     /* of what it loads: a bit each, as the pragma before it says */
    const struct form *form;
};

/* ---- loading ---- */
struct line_cache;
struct shared_list { /* in the order of declaration */
    struct variable *first, *last;
};
struct function {
    struct function *next;
    struct ptx_function public;
    struct code code;
    struct vreg *vregs;
    u32 vreg_count, vreg_capacity;
    struct insn **insns;
    u32 insn_count, insn_capacity;
    u32 *slots; /* of each vreg: byte offset, or predicate index */
    u8 *unset;  /* of each vreg: some path reads it and has not written it; NULL: not known */
    const struct register_range *ranges;
    struct pinned *pinned;
    unsigned pinned_count, pinned_capacity;
    u8 *constants;
    unsigned constant_count, constant_capacity, extra_capacity;
    u32 *constant_table; /* hash of constants */
    unsigned constant_table_size;
    u32 *pinned_table; /* hash of pinned: index + 1 */
    unsigned pinned_table_size;
    struct shared_list shared;
    u64 shared_bytes, local_bytes, param_bytes;
    u64 local_most; /* local_bytes go down behind a call */
    unsigned calls;
};
struct ptx_module {
    struct arena arena;
    struct ptx_function **functions;
    unsigned function_count;
    struct ptx_variable *variables;
    unsigned variable_count, variable_capacity;
    char *source;
};
enum { SYMBOL_BUCKETS = 1024, FUNCTION_BUCKETS = 256, FORM_MEMORY = 256 };
struct form_memory {
    struct text opcode;
    unsigned first;
};
struct loader {
    jmp_buf escape;
    struct ptx_module *module;
    const struct line_source *lines;
    char *message;
    size_t capacity;
    /* lexer */
    const char *source, *at;
    u32 line;
    struct token token;
    u32 behind; /* line of the token before it */
    /* parser */
    struct symbol *buckets[SYMBOL_BUCKETS];
    struct name_scope *scope;
    struct function *function, *functions;
    struct waiting *waiting, **waiting_end; /* entries that are read behind the module */
    struct shared_list module_shared;
    unsigned dynamic_align; /* of .extern .shared arrays, 0 none */
    struct debug *debug;
    const struct placed *placed; /* variables of bodies that have been called */
    u64 constant_bytes;          /* of .const variables so far */
    unsigned depth;
    struct form_memory memory[FORM_MEMORY];
    struct insn *insn; /* the one at hand, for messages */
    u32 unused_bytes;  /* of the one that is next, if it is a load */
    bool target_sm_90a;
    unsigned version, target; /* 100 * 8 + 1 of 8.1; 90 of sm_90 */
    char target_kind;         /* what follows it: 0, a or f */
    enum ptx_misfit misfit;   /* why the head is refused, where that has a result of its own */
    struct device_function *callees[FUNCTION_BUCKETS];
    bool alone;                /* a body is read that nobody calls there */
    struct name_scope *caller; /* of the function that is being read: hidden */
    struct label *return_to;   /* where `ret` goes in a function that is called; NULL in an entry */
};

/* Writes "PTX line N (FILE:LINE): ..." and leaves. */
_Noreturn void load_fail(struct loader *l, u32 line, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same about an instruction, whose text it quotes. */
_Noreturn void insn_fail(struct loader *l, const struct insn *insn, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
u32 line_of(const struct loader *l, const char *at); /* of a place in the text */
void *load_take(struct loader *l, size_t bytes);
const char *load_text(struct loader *l, struct text text); /* a copy that ends with 0 */
/* An array of `count` elements that must hold one more: doubled in the arena. */
void *load_grow(struct loader *l, void *old, size_t count, size_t element, u32 *capacity);

static inline u64 align_up(u64 value, u64 align) { /* a power of two */
    return (value + align - 1) & ~(align - 1);
}

/* ptx_lex.c */
void lex_check_bytes(struct loader *l); /* of the whole text */
void lex_next(struct loader *l);
void lex_opcode(struct loader *l);            /* the token at hand, a name, grows by its .modifiers (and :: within) */
bool lex_behind_is(struct loader *l, char c); /* what is behind the token at hand */
void lex_skip_line(struct loader *l);
bool text_is(struct text text, const char *literal);
bool text_same(struct text a, struct text b);
u32 text_hash(struct text text);
bool lex_punct(struct loader *l, char c); /* consumes c if it is next */
void lex_expect(struct loader *l, char c);
struct text shown(const struct loader *l); /* the token at hand in messages: its first 40 characters */
/* "WHAT is expected before `add`": the token at hand, or the end. */
_Noreturn void lex_unexpected(struct loader *l, const char *what);
bool lex_at_dot(const struct loader *l, const char *name); /* .name is next */
bool lex_dot(struct loader *l, const char *name);          /* consumes .name if it is next */
bool lex_at_name(const struct loader *l);                  /* a name is next, and not WARP_SZ, which is a constant */

/* ptx_head.c: at the first token; what is behind it is the module's list. */
void parse_head(struct loader *l);

/* ptx_module.c */
enum linkage { LINKAGE_NONE, LINKAGE_VISIBLE, LINKAGE_WEAK, LINKAGE_COMMON, LINKAGE_EXTERN };
void parse_module(struct loader *l);
/* An integer that is no expression; else "WHAT 5: 6 to 7". */
u64 number_of(struct loader *l, const char *what, u64 least, u64 most);
void parse_performance(struct loader *l, struct ptx_function *p); /* between an entry's parameters and its body */

/* ptx_symbol.c */
void scope_open(struct loader *l);
const struct label *scope_settle(struct loader *l); /* at its end: a label that it uses and does not define, or NULL */
void scope_close(struct loader *l);
struct symbol *symbol_find(struct loader *l, struct text name);
struct symbol *symbol_add(struct loader *l, struct text name, enum symbol_kind kind);
struct symbol *symbol_add_range(struct loader *l, struct text name, enum symbol_kind kind, u32 count);
struct symbol *symbol_reg(struct loader *l, struct text name, u32 *vreg); /* NULL when there is none */
struct label *label_use(struct loader *l, struct text name, u32 line);
void label_define(struct loader *l, struct text name);

/* ptx_parse.c, for the bodies of functions. */
void parse_body(struct loader *l);                 /* from `{` to `}`, in the scope of the parameters */
void parse_entry(struct loader *l, bool external); /* after ".entry" */
void parse_waiting(struct loader *l);              /* when the module has been read */
void finish_function(struct loader *l, struct function *f);
bool parse_space(struct loader *l, enum linkage linkage); /* the variables of a state space; false: none is next */
/* `@p bra to` (or `@!p`) at the place of an instruction. */
void add_branch(struct loader *l, const struct insn *insn, u32 guard, bool guard_not, struct label *to);
/* `OPCODE first, second`, likewise. */
void add_transfer(struct loader *l, const struct insn *insn, const char *opcode, const struct operand *first,
                  const struct operand *second);

/* ptx_pragma.c: whether it was next. "used_bytes_mask" is for the instruction behind it. */
enum pragma_place { PRAGMA_MODULE, PRAGMA_ENTRY /* before its body */, PRAGMA_BODY };
bool parse_pragma(struct loader *l, enum pragma_place place);

/* ptx_debug.c: each returns whether it was next. */
bool parse_loc(struct loader *l);   /* in bodies alone */
bool parse_debug(struct loader *l); /* what stands at module level alone, and .pragma */
void debug_check(struct loader *l); /* when the module has been read */

/* ptx_function.c */
struct device_function;
void functions_find(struct loader *l);                              /* before the module is read */
void parse_device_function(struct loader *l, enum linkage linkage); /* after ".func" */
void functions_check(struct loader *l);                             /* when it has been read */
bool function_known(const struct loader *l, struct text name);
/* Whether the entry at `at` calls, and a body is behind it: what lies between is that body's to name. Then its end. */
bool entry_waits(const struct loader *l, const char *at, u32 *line, const char **end);
void move_to(struct loader *l, const char *at, u32 line); /* goes on reading at a place in the text */

/* ptx_call.c */
void parse_call(struct loader *l, struct insn *insn); /* at `call`; the guard is read */

/* ptx_constant.c: at the expression's first token; what is behind it is at hand afterwards. */
struct constant {
    u64 bits;
    u32 line;
    enum constant_kind { CONSTANT_SIGNED, CONSTANT_UNSIGNED, CONSTANT_F32, CONSTANT_F64 } kind;
};
struct constant constant_any(struct loader *l);
s64 constant_integer(struct loader *l);

/* ptx_operand.c */
void parse_operands(struct loader *l, struct insn *insn);
/* A name or a constant. */
void parse_argument(struct loader *l, struct insn *insn, struct operand *o);

/* ptx_variable.c */
struct type type_named(struct text name); /* "u32", "pred", ... */
struct text parse_identifier(struct loader *l);
void parse_registers(struct loader *l);
void parse_variable(struct loader *l, enum space space, enum linkage linkage);
struct variable *parse_parameter(struct loader *l);
void parse_passed(struct loader *l); /* .param variables of a caller, after ".param" */
struct variable *parse_formal(struct loader *l, enum passing passing); /* of a callee: neither place nor symbol */
void place_passed(struct loader *l, struct variable *v);

/* ptx_shared.c */
void shared_add(struct loader *l, struct variable *v);   /* to the function's, or to the module's */
void shared_place(struct loader *l, struct function *f); /* when its body has been read */

/* ptx_extern.c */
/* The module's variable that `v` declares once more, or NULL. */
struct variable *declared_before(struct loader *l, const struct variable *v);
void declare_again(struct loader *l, struct variable *before, const struct variable *v, const struct filling *fill);
void externals_check(struct loader *l); /* when the module has been read */
/* Into the place that it has among the module's variables. */
void define_variable(struct loader *l, const struct variable *v, const struct filling *fill); /* ptx_variable.c */

/* ptx_initial.c: behind the `=`; an open dimension gets its size. */
void parse_initial(struct loader *l, struct filling *fill, struct variable *v, const struct dimensions *size);

/* ptx_special.c: special registers. */
enum special {
#define SPECIAL(id, name, bits, when) S_##id,
#include <runtime/cpu/ptx_special.def>
#undef SPECIAL
    S_COUNT,
    S_VARIABLE /* pinned only: address of a module variable */
};
enum special_when { WHEN_START, WHEN_READ };
struct special_row {
    const char *name;
    u8 bits, when;
};
extern const struct special_row special_rows[S_COUNT];
int special_named(struct text name);    /* -1 unknown */
int special_vector(struct text name);   /* of %tid, whose parts follow each other from %tid.x on: that; -1: none */
bool special_known(struct text name);   /* any of PTX's */
bool special_foreign(struct text name); /* one that PTX has and the CPU device has not */
u64 special_value(const struct exec *x, unsigned special, unsigned lane); /* WHEN_START ones, and clocks */
op_fn op_special;

/* ptx_form.c: which form an instruction has. */
typedef void encode_fn(struct loader *l, const struct insn *insn, struct op *op);
struct form {
    const char *pattern; /* "add{.rn}{.ftz}.f32"; {} optional, () one of, * anything more */
    const char *sig;     /* outputs ':' inputs, a letter each; NULL: encode checks */
    encode_fn *encode;
    int lane; /* enum lane_op, -1 none */
    u32 sub;
    op_fn *run;
    sync_fn *sync;
};
void form_choose(struct loader *l, struct insn *insn);
bool insn_has(const struct insn *insn, const char *modifier); /* without the dot */
const char *operand_mismatch(const struct loader *l, const struct insn *insn, const struct operand *operand,
                             char letter);
static inline struct text last_modifier(const struct insn *insn, unsigned from_end) {
    return insn->modifier_count > from_end + 1 ? insn->modifiers[insn->modifier_count - 1 - from_end]
                                               : (struct text){"", 0};
}

/* ptx_liveness.c: gives every register its slot. */
void assign_slots(struct loader *l, struct function *f);
/* Calls visit for each register of the instruction. */
typedef void reg_visitor(void *self, u32 vreg, bool written);
void insn_registers(const struct insn *insn, reg_visitor *visit, void *self);

/* ptx_encode.c: operands with slots. */
void encode_function(struct loader *l, struct function *f);
encode_fn encode_default;
void want_operands(struct loader *l, const struct insn *insn, unsigned least, unsigned most);
u32 encode_operand(struct loader *l, const struct insn *insn, const struct operand *operand, unsigned bits,
                   bool is_float);
u32 encode_predicate(struct loader *l, const struct insn *insn,
                     const struct operand *operand);             /* index << 1 | negated */
u32 encode_constant(struct loader *l, u64 value, unsigned bits); /* broadcast; bits 32 or 64 */
u32 encode_extra(struct loader *l, const u32 *operands, unsigned count);
void encode_address(struct loader *l, const struct insn *insn, const struct operand *operand, struct op *op);
/* The items of a vector of `count`, a register among them. */
const struct operand *fragment(struct loader *l, const struct insn *insn, unsigned index, unsigned count);
/* The operand's variable, if it has one, is no parameter of a call and lies there. */
void want_space(struct loader *l, const struct insn *insn, const struct operand *operand, enum space space);
u32 pin_special(struct loader *l, unsigned special, u32 variable, s64 addend, unsigned bits);
unsigned vreg_bits(const struct loader *l, const struct operand *operand);
extern op_fn *const *lanes_best(void);

/* encoders of forms that are not plain: one line a family */
encode_fn encode_mov, encode_mov_predicate, encode_load, encode_load_param, encode_store, encode_atom, encode_red,
    encode_setp, encode_set, encode_selp, encode_slct, encode_cvt, encode_cvta, encode_isspacep, encode_branch,
    encode_index, encode_exit, encode_trap, encode_nothing, encode_fence, encode_barrier, encode_warp_sync, encode_shfl,
    encode_vote, encode_match, encode_redux, encode_elect, encode_activemask, encode_mma, encode_ldmatrix,
    encode_stmatrix, encode_grid_wait, encode_grid_launch, encode_prefetch, encode_multimem, encode_logic_predicate,
    encode_carry, encode_bfi, encode_policy, encode_testp, encode_copy, encode_copy_group, encode_copy_mbarrier,
    encode_mbarrier_life, encode_mbarrier_tx, encode_mbarrier_arrive, encode_mbarrier_wait, encode_mbarrier_pending,
    encode_mapa, encode_cluster_barrier, encode_setmaxnreg, encode_bulk, encode_bulk_group, encode_prefetch_map,
    encode_fence_map, encode_wgmma, encode_wgmma_group, encode_wmma, encode_wmma_memory;
void encode_wgmma_guards(struct loader *l);     /* when the function is encoded */
void encode_undefined_guards(struct loader *l); /* then this */
#endif
