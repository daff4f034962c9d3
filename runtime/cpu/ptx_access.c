/* ptx_access.c - the modifiers of ld, st, atom, red, multimem.st and fence, in any order: what each sets, whose it is,
 * which need or exclude each other. The rules are the assembler's. */
#include <runtime/cpu/ptx_access.h>

enum effect {
    EFFECT_SPACE,
    EFFECT_ORDER,
    EFFECT_SCOPE,
    EFFECT_COUNT,
    EFFECT_CACHE,
    EFFECT_POLICY,
    EFFECT_NC,
    EFFECT_MMIO,
    EFFECT_NOFTZ,
    EFFECT_L1,
    EFFECT_L2,
    EFFECT_PREFETCH,
    EFFECTS
};
enum { FRESH = 2 }; /* of EFFECT_CACHE: .cv reads memory itself; not 0: it does not go with .nc */
enum {
    LOADS = VERB_LD | VERB_LDU,
    PLAIN = LOADS | VERB_ST | VERB_MULTI,
    ATOMS = VERB_ATOM | VERB_RED,
    SCOPED = VERB_LD | VERB_ST | VERB_MULTI | ATOMS | VERB_FENCE,
    HINTED = LOADS | VERB_ST,
    ANY = PLAIN | ATOMS
};
/* What each modifier sets; hints about caches set nothing. */
static const struct row {
    const char *name;
    u8 effect, value, verbs;
} rows[] = {{"global", EFFECT_SPACE, SPACE_GLOBAL, ANY},
            {"shared", EFFECT_SPACE, SPACE_SHARED, ANY},
            {"shared::cta", EFFECT_SPACE, SPACE_SHARED, ANY},
            {"shared::cluster", EFFECT_SPACE, SPACE_CLUSTER, ANY},
            {"local", EFFECT_SPACE, SPACE_LOCAL, ANY},
            {"param", EFFECT_SPACE, SPACE_PARAM, ANY},
            {"param::entry", EFFECT_SPACE, SPACE_PARAM, LOADS},
            {"param::func", EFFECT_SPACE, SPACE_PARAM, ANY},
            {"const", EFFECT_SPACE, SPACE_CONST, ANY},
            {"weak", EFFECT_ORDER, ORDER_WEAK, VERB_LD | VERB_ST | VERB_MULTI},
            {"volatile", EFFECT_ORDER, ORDER_VOLATILE, VERB_LD | VERB_ST},
            {"relaxed", EFFECT_ORDER, ORDER_RELAXED, VERB_LD | VERB_ST | VERB_MULTI | ATOMS},
            {"acquire", EFFECT_ORDER, ORDER_ACQUIRE, VERB_LD | VERB_ATOM | VERB_FENCE},
            {"release", EFFECT_ORDER, ORDER_RELEASE, VERB_ST | VERB_MULTI | ATOMS | VERB_FENCE},
            {"acq_rel", EFFECT_ORDER, ORDER_ACQ_REL, VERB_ATOM | VERB_FENCE},
            {"sc", EFFECT_ORDER, ORDER_SC, VERB_FENCE},
            {"mmio", EFFECT_MMIO, 0, VERB_LD | VERB_ST},
            {"cta", EFFECT_SCOPE, SCOPE_CTA, SCOPED},
            {"cluster", EFFECT_SCOPE, SCOPE_CLUSTER, SCOPED},
            {"gpu", EFFECT_SCOPE, SCOPE_GPU, SCOPED},
            {"sys", EFFECT_SCOPE, SCOPE_SYS, SCOPED},
            {"v2", EFFECT_COUNT, 2, ANY},
            {"v4", EFFECT_COUNT, 4, ANY},
            {"v8", EFFECT_COUNT, 8, ANY},
            {"L2::cache_hint", EFFECT_POLICY, 0, HINTED | ATOMS},
            {"nc", EFFECT_NC, 0, LOADS},
            {"ca", EFFECT_CACHE, 0, LOADS},
            {"cg", EFFECT_CACHE, 0, LOADS | VERB_ST},
            {"cs", EFFECT_CACHE, 0, LOADS | VERB_ST},
            {"cv", EFFECT_CACHE, FRESH, LOADS},
            {"lu", EFFECT_CACHE, 1, LOADS},
            {"wb", EFFECT_CACHE, 0, VERB_ST},
            {"wt", EFFECT_CACHE, 0, VERB_ST},
            {"noftz", EFFECT_NOFTZ, 0, ATOMS},
            {"L1::evict_normal", EFFECT_L1, 0, HINTED},
            {"L1::evict_unchanged", EFFECT_L1, 0, HINTED},
            {"L1::evict_first", EFFECT_L1, 0, HINTED},
            {"L1::evict_last", EFFECT_L1, 0, HINTED},
            {"L1::no_allocate", EFFECT_L1, 0, HINTED},
            {"L2::evict_normal", EFFECT_L2, 0, HINTED},
            {"L2::evict_first", EFFECT_L2, 0, HINTED},
            {"L2::evict_last", EFFECT_L2, 0, HINTED},
            {"L2::64B", EFFECT_PREFETCH, 0, LOADS},
            {"L2::128B", EFFECT_PREFETCH, 0, LOADS},
            {"L2::256B", EFFECT_PREFETCH, 0, LOADS}};

/* The modifiers of an instruction, by what they set: the one of each effect; at NULL: there is none. */
struct seen {
    struct text of[EFFECTS];
    u8 value[EFFECTS];
};

static const struct row *row_of(struct text m) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (text_is(m, rows[i].name)) return &rows[i];
    return NULL;
}

static bool has(const struct seen *seen, enum effect effect) {
    return seen->of[effect].at != NULL;
}

static _Noreturn void apart(struct loader *l, const struct insn *insn, struct text a, struct text b) {
    insn_fail(l, insn, "`.%.*s` does not go with `.%.*s`", (int)a.length, a.at, (int)b.length, b.at);
}

/* False: no modifier of this table. */
static bool take(struct loader *l, const struct insn *insn, enum verb verb, struct text m, struct seen *seen) {
    const struct row *row = row_of(m);
    if (!row) return false;
    struct text opcode = insn->modifiers[0];
    if (!(row->verbs & verb))
        insn_fail(l, insn, "`.%.*s` does not go with `%.*s`", (int)m.length, m.at, (int)opcode.length, opcode.at);
    if (has(seen, row->effect)) apart(l, insn, m, seen->of[row->effect]);
    seen->of[row->effect] = m;
    seen->value[row->effect] = row->value;
    return true;
}

/* Of loads and stores: an order has its scope, a scope its order; what excludes an order. */
static void check_order(struct loader *l, const struct insn *insn, const struct seen *seen) {
    struct text order = seen->of[EFFECT_ORDER];
    bool weak = !order.at || seen->value[EFFECT_ORDER] == ORDER_WEAK,
         strong = !weak && seen->value[EFFECT_ORDER] != ORDER_VOLATILE;
    if (strong && !has(seen, EFFECT_SCOPE))
        insn_fail(l, insn, "`.%.*s` needs a scope: .cta, .cluster, .gpu or .sys", (int)order.length, order.at);
    if (!strong && has(seen, EFFECT_SCOPE))
        insn_fail(l, insn, "a scope goes with .relaxed, .acquire or .release alone");
    if (has(seen, EFFECT_MMIO) &&
        (!strong || seen->value[EFFECT_ORDER] != ORDER_RELAXED || seen->value[EFFECT_SCOPE] != SCOPE_SYS))
        insn_fail(l, insn, "`.mmio` goes with .relaxed.sys alone");
    u8 space = has(seen, EFFECT_SPACE) ? seen->value[EFFECT_SPACE] : SPACE_GENERIC;
    static const enum effect never[] = {EFFECT_COUNT, EFFECT_L1, EFFECT_L2, EFFECT_PREFETCH};
    for (size_t i = 0; i < sizeof never / sizeof never[0] && has(seen, EFFECT_MMIO); i++)
        if (has(seen, never[i])) apart(l, insn, seen->of[EFFECT_MMIO], seen->of[never[i]]);
    if (has(seen, EFFECT_MMIO) && space != SPACE_GLOBAL && space != SPACE_GENERIC)
        apart(l, insn, seen->of[EFFECT_MMIO], seen->of[EFFECT_SPACE]);
    if (!weak && has(seen, EFFECT_CACHE)) apart(l, insn, order, seen->of[EFFECT_CACHE]);
    if (!weak && (space == SPACE_LOCAL || space == SPACE_CONST || space == SPACE_PARAM))
        apart(l, insn, order, seen->of[EFFECT_SPACE]);
    if (!has(seen, EFFECT_NC)) return;
    if (space != SPACE_GLOBAL) insn_fail(l, insn, "`.nc` reads .global memory alone");
    if (order.at) apart(l, insn, order, seen->of[EFFECT_NC]);
    if (has(seen, EFFECT_CACHE) && seen->value[EFFECT_CACHE])
        apart(l, insn, seen->of[EFFECT_CACHE], seen->of[EFFECT_NC]);
}

/* Hints about caches: of global memory, and of no access that says itself how it goes through them. */
static void check_hints(struct loader *l, const struct insn *insn, const struct seen *seen) {
    static const enum effect hints[] = {EFFECT_L1, EFFECT_L2, EFFECT_PREFETCH};
    bool global = !has(seen, EFFECT_SPACE) || seen->value[EFFECT_SPACE] == SPACE_GLOBAL;
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        struct text hint = seen->of[hints[i]];
        if (!hint.at) continue;
        if (!global) apart(l, insn, hint, seen->of[EFFECT_SPACE]);
        if (hints[i] != EFFECT_PREFETCH && has(seen, EFFECT_CACHE)) apart(l, insn, hint, seen->of[EFFECT_CACHE]);
        if (hints[i] != EFFECT_PREFETCH && seen->value[EFFECT_ORDER] == ORDER_VOLATILE)
            apart(l, insn, hint, seen->of[EFFECT_ORDER]);
    }
}

struct access_mods access_mods(struct loader *l, const struct insn *insn, enum verb verb, unsigned first) {
    struct access_mods mods = {.count = 1, .space = SPACE_GENERIC, .order = ORDER_WEAK};
    struct seen seen = {.value = {0}};
    for (unsigned i = first; i + 1 < insn->modifier_count; i++) {
        if (take(l, insn, verb, insn->modifiers[i], &seen)) continue;
        if (!(verb & ATOMS) || mods.operation.length)
            insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
        mods.operation = insn->modifiers[i];
    }
    if (insn->modifier_count < first + 1)
        insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
    if (verb & PLAIN) check_order(l, insn, &seen);
    if (verb & HINTED) check_hints(l, insn, &seen);
    if (has(&seen, EFFECT_SPACE)) mods.space = seen.value[EFFECT_SPACE];
    if (has(&seen, EFFECT_ORDER)) mods.order = seen.value[EFFECT_ORDER];
    if (has(&seen, EFFECT_SCOPE)) mods.scope = seen.value[EFFECT_SCOPE];
    if (has(&seen, EFFECT_COUNT)) mods.count = seen.value[EFFECT_COUNT];
    if (seen.value[EFFECT_CACHE] == FRESH && mods.order == ORDER_WEAK) mods.order = ORDER_VOLATILE; /* .cv */
    mods.policy = has(&seen, EFFECT_POLICY);
    mods.noftz = has(&seen, EFFECT_NOFTZ);
    mods.type = insn->modifiers[insn->modifier_count - 1];
    return mods;
}

void fence_mods(struct loader *l, const struct insn *insn, struct op *op) {
    struct seen seen = {.value = {0}};
    bool begins = false;
    for (unsigned i = 1; i < insn->modifier_count; i++) {
        struct text m = insn->modifiers[i];
        bool init = text_is(m, "mbarrier_init");
        begins |= init;
        if (!init && !text_is(m, "sync_restrict::shared::cluster") && !text_is(m, "sync_restrict::shared::cta") &&
            !take(l, insn, VERB_FENCE, m, &seen))
            insn_fail(l, insn, "`%.*s` is not supported in this form", (int)insn->opcode.length, insn->opcode.at);
    }
    if (!has(&seen, EFFECT_SCOPE)) insn_fail(l, insn, "a fence needs a scope: .cta, .cluster, .gpu or .sys");
    op->order = has(&seen, EFFECT_ORDER) ? seen.value[EFFECT_ORDER] : ORDER_ACQ_REL;
    op->scope = seen.value[EFFECT_SCOPE];
    if (begins && (!has(&seen, EFFECT_ORDER) || op->order != ORDER_RELEASE || op->scope != SCOPE_CLUSTER))
        insn_fail(l, insn, "`.mbarrier_init` goes with .release.cluster alone");
}
