/* ptx_access.h - what the modifiers of ld, st, atom, red, multimem.st and fence say, and which go together.
 * Used by ptx_access.c, which reads them, and ptx_encode_memory.c. */
#ifndef DCPK_CPU_PTX_ACCESS_H
#define DCPK_CPU_PTX_ACCESS_H

#include <runtime/cpu/ptx.h>

/* Whose modifiers; bits. */
enum verb { VERB_LD = 1, VERB_LDU = 2, VERB_ST = 4, VERB_ATOM = 8, VERB_RED = 16, VERB_MULTI = 32, VERB_FENCE = 64 };

struct access_mods {
    enum space space;
    enum order order;
    enum scope scope;
    unsigned count;
    struct text type, operation;
    bool policy; /* an .L2::cache_hint operand follows */
    bool noftz;
};

/* Modifiers first..count-2; the last is the type. One that is unknown is the operation of an atomic, which may appear
 * once. Refuses what does not go together. */
struct access_mods access_mods(struct loader *l, const struct insn *insn, enum verb verb, unsigned first);
/* The order and scope of a fence. */
void fence_mods(struct loader *l, const struct insn *insn, struct op *op);
#endif
