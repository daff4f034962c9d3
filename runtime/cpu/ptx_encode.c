/* ptx_encode.c - instructions with slots to operations: operands, constants, pinned registers; the plain encoder.
 * Families with encoders of their own are in ptx_encode_*.c. */
#include <string.h>
#include <runtime/cpu/ptx.h>

op_fn *const *lanes_best(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return lanes_avx2;
#endif
    return lanes_base;
}

unsigned vreg_bits(const struct loader *l, const struct operand *o) {
    return l->function->vregs[o->reg].bits;
}

/* ---- constants: each value once, broadcast to 32 lanes of 32 or 64 bits ---- */
static u32 *constant_slot(struct function *f, u64 value, unsigned bits) {
    u64 hash = (value ^ (u64)bits << 40) * 0x9E3779B97F4A7C15u;
    for (u32 at = (u32)(hash >> 40) & (f->constant_table_size - 1);; at = (at + 1) & (f->constant_table_size - 1)) {
        u32 entry = f->constant_table[at];
        if (!entry) return &f->constant_table[at];
        const u8 *seen = f->constants + (size_t)(entry >> 1) * SLOT_BYTES;
        u64 there = entry & 1 ? *(const u64 *)(const void *)seen : *(const u32 *)(const void *)seen;
        if (there == value && (entry & 1 ? 64u : 32u) == bits) return &f->constant_table[at];
    }
}

static void constant_rehash(struct loader *l, struct function *f) {
    u32 old_size = f->constant_table_size, *old = f->constant_table;
    f->constant_table_size = old_size ? old_size * 2 : 256;
    f->constant_table = load_take(l, f->constant_table_size * sizeof *f->constant_table);
    for (u32 i = 0; i < old_size; i++)
        if (old[i]) {
            const u8 *at = f->constants + (size_t)(old[i] >> 1) * SLOT_BYTES;
            *constant_slot(f, old[i] & 1 ? *(const u64 *)(const void *)at : *(const u32 *)(const void *)at,
                           old[i] & 1 ? 64 : 32) = old[i];
        }
}

u32 encode_constant(struct loader *l, u64 value, unsigned bits) {
    struct function *f = l->function;
    bool wide = bits == 64;
    if (!wide) value = bits == 16 ? (u16)value : (u32)value;
    if ((f->constant_count + 4) * 2 > f->constant_table_size) constant_rehash(l, f);
    u32 *entry = constant_slot(f, value, wide ? 64 : 32);
    if (!*entry) {
        if (f->constant_count + 2 > f->constant_capacity) {
            u32 capacity = f->constant_capacity ? f->constant_capacity * 2 : 64;
            u8 *fresh = load_take(l, (size_t)capacity * SLOT_BYTES);
            if (f->constant_count) memcpy(fresh, f->constants, (size_t)f->constant_count * SLOT_BYTES);
            f->constants = fresh;
            f->constant_capacity = capacity;
        }
        u8 *at = f->constants + (size_t)f->constant_count * SLOT_BYTES;
        for (unsigned lane = 0; lane < WARP; lane++)
            if (wide)
                ((u64 *)(void *)at)[lane] = value;
            else
                ((u32 *)(void *)at)[lane] = (u32)value;
        *entry = f->constant_count << 1 | wide;
        f->constant_count += wide ? 2 : 1;
    }
    return OPERAND_CONST | (*entry >> 1) * SLOT_BYTES;
}

/* ---- pinned registers: each value that stays the same for a thread, once ---- */
static u32 *pinned_slot(struct function *f, const struct pinned *wanted) {
    u64 hash = ((u64)wanted->special << 56 ^ (u64)wanted->bits << 48 ^ wanted->variable) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 29 ^ (u64)wanted->addend) * 0x9E3779B97F4A7C15u;
    for (u32 at = (u32)(hash >> 40) & (f->pinned_table_size - 1);; at = (at + 1) & (f->pinned_table_size - 1)) {
        if (!f->pinned_table[at]) return &f->pinned_table[at];
        const struct pinned *p = &f->pinned[f->pinned_table[at] - 1];
        if (p->special == wanted->special && p->variable == wanted->variable && p->addend == wanted->addend &&
            p->bits == wanted->bits)
            return &f->pinned_table[at];
    }
}

static void pinned_rehash(struct loader *l, struct function *f) {
    f->pinned_table_size = f->pinned_table_size ? f->pinned_table_size * 2 : 64;
    f->pinned_table = load_take(l, f->pinned_table_size * sizeof *f->pinned_table);
    for (u32 i = 0; i < f->pinned_count; i++)
        *pinned_slot(f, &f->pinned[i]) = i + 1;
}

u32 pin_special(struct loader *l, unsigned special, u32 variable, s64 addend, unsigned bits) {
    struct function *f = l->function;
    const struct pinned wanted = {f->code.slots, (u8)special, (u8)bits, variable, addend};
    if ((f->pinned_count + 1) * 2 > f->pinned_table_size) pinned_rehash(l, f);
    u32 *entry = pinned_slot(f, &wanted);
    if (*entry) return f->pinned[*entry - 1].slot * SLOT_BYTES;
    if (f->pinned_count == f->pinned_capacity)
        f->pinned = load_grow(l, f->pinned, f->pinned_count, sizeof *f->pinned, &f->pinned_capacity);
    f->pinned[f->pinned_count++] = wanted;
    *entry = f->pinned_count;
    f->code.slots += bits == 64 ? 2 : 1;
    return (f->code.slots - (bits == 64 ? 2u : 1u)) * SLOT_BYTES;
}

/* ---- operands ---- */
void want_operands(struct loader *l, const struct insn *insn, unsigned least, unsigned most) {
    unsigned have = insn->operand_count;
    if (have >= least && have <= most) return;
    if (least == most) insn_fail(l, insn, "%u operand%s expected, not %u", least, least == 1 ? " is" : "s are", have);
    insn_fail(l, insn,
              most == least + 1 ? "%u or %u operands are expected, not %u" : "%u to %u operands are expected, not %u",
              least, most, have);
}

static u64 variable_offset(const struct loader *l, const struct variable *v) {
    if (!v->external) return v->same ? v->same->offset : v->offset;
    u64 align = l->dynamic_align > 16 ? l->dynamic_align : 16;
    return SHARED_BASE + ((l->function->shared_bytes + align - 1) & ~(align - 1));
}

static u64 float_literal(const struct operand *o, unsigned bits) {
    if (o->kind == O_F32 && bits == 64) {
        double d = float_to_double(FMT_F32, o->bits);
        u64 wide;
        memcpy(&wide, &d, 8);
        return wide;
    }
    if (o->kind == O_F64 && bits == 32) {
        double d;
        memcpy(&d, &o->bits, 8);
        return float_from_double(FMT_F32, d, ROUND_NEAREST);
    }
    return o->bits;
}

u32 encode_operand(struct loader *l, const struct insn *insn, const struct operand *o, unsigned bits, bool is_float) {
    (void)is_float;
    switch (o->kind) {
    case O_REG:
        return l->function->slots[o->reg];
    case O_DISCARD:
        return 0; /* the sink */
    case O_INTEGER:
        return encode_constant(l, o->bits, bits);
    case O_F32:
    case O_F64:
        return encode_constant(l, float_literal(o, bits), bits);
    case O_SPECIAL:
        if (special_rows[o->special].when == WHEN_READ)
            insn_fail(l, insn, "`%s` is read with mov", special_rows[o->special].name);
        return pin_special(l, o->special, 0, 0, bits == 16 ? 32 : bits);
    case O_VARIABLE:
        if (o->variable->space == SPACE_GLOBAL || o->variable->space == SPACE_CONST)
            return pin_special(l, S_VARIABLE, o->variable->index, (s64)o->bits, 64);
        return encode_constant(l, variable_offset(l, o->variable) + o->bits, bits);
    default:
        insn_fail(l, insn, "a register or a constant is expected");
    }
}

u32 encode_predicate(struct loader *l, const struct insn *insn, const struct operand *o) {
    if (o->kind == O_DISCARD) return 0;
    if (o->kind == O_INTEGER) return 1u << 1 | ((o->bits == 0) != o->negated); /* predicate 1 is always true */
    if (o->kind != O_REG || l->function->vregs[o->reg].kind != REG_PRED) insn_fail(l, insn, "a predicate is expected");
    return l->function->slots[o->reg] << 1 | o->negated;
}

u32 encode_extra(struct loader *l, const u32 *operands, unsigned count) {
    struct code *c = &l->function->code;
    while (c->extra_count + count > l->function->extra_capacity)
        c->extra = load_grow(l, c->extra, c->extra_count, sizeof *c->extra, &l->function->extra_capacity);
    memcpy(c->extra + c->extra_count, operands, count * sizeof *operands);
    c->extra_count += count;
    return c->extra_count - count;
}

const struct operand *fragment(struct loader *l, const struct insn *insn, unsigned index, unsigned count) {
    const struct operand *o = &insn->operands[index];
    bool registers = false;
    if (o->kind != O_VECTOR) insn_fail(l, insn, "operand %u: registers in { } are expected", index + 1);
    if (o->count != count) insn_fail(l, insn, "operand %u has %u registers, not %u", index + 1, count, o->count);
    for (unsigned i = 0; i < count; i++)
        registers |= o->items[i].kind == O_REG;
    if (!registers) insn_fail(l, insn, "operand %u: a register is expected among the constants", index + 1);
    return o->items;
}

void want_space(struct loader *l, const struct insn *insn, const struct operand *o, enum space space) {
    const struct variable *v = o->variable;
    if (v && (v->passing || v->space != space))
        insn_fail(l, insn, "`%.*s` lies in another space", (int)v->name.length, v->name.at);
}

/* A generic access to a variable goes where that lies, in global, shared or local memory. */
static void name_space(struct loader *l, const struct insn *insn, const struct variable *v, struct op *op) {
    if (v->passing || v->space == SPACE_PARAM || v->space == SPACE_CONST)
        insn_fail(l, insn, "`%.*s` is not at a generic address: name its space or use cvta", (int)v->name.length,
                  v->name.at);
    if (v->space != SPACE_GLOBAL) op->space = (u8)v->space;
}

/* [register + offset], [variable + offset] or [offset] into op->a and op->imm; into op->space where only the variable
 * says it. */
void encode_address(struct loader *l, const struct insn *insn, const struct operand *o, struct op *op) {
    if (o->kind != O_ADDRESS) insn_fail(l, insn, "an address in [ ] is expected");
    if (o->count && insn->form->encode != encode_bulk) insn_fail(l, insn, "coordinates go with a tensor map only");
    op->imm = (s64)o->bits;
    if (o->variable && op->space == SPACE_GENERIC) name_space(l, insn, o->variable, op);
    if (o->has_reg) {
        struct vreg v = l->function->vregs[o->reg];
        if (v.kind == REG_PRED || v.kind == REG_FLOAT || (v.bits != 32 && v.bits != 64))
            insn_fail(l, insn, "the register of an address has 64 or 32 bits");
        op->a = l->function->slots[o->reg];
        op->flags |= v.bits == 64 ? F_WIDE_ADDRESS : 0;
        return;
    }
    if (!o->variable && op->space != SPACE_LOCAL)
        insn_fail(l, insn, "a constant is an address of local memory alone: a register or a variable is expected");
    if (o->variable && (o->variable->space == SPACE_GLOBAL || o->variable->space == SPACE_CONST)) {
        op->a = pin_special(l, S_VARIABLE, o->variable->index, 0, 64);
    } else {
        op->a = encode_constant(l, 0, 64);
        if (o->variable) op->imm += (s64)variable_offset(l, o->variable);
    }
    op->flags |= F_WIDE_ADDRESS;
}

static unsigned letter_bits(char letter) {
    switch (letter) {
    case 'h':
    case 'H':
    case 'B':
        return 16;
    case 'l':
    case 'L':
    case 'd':
        return 64;
    case 'q':
        return 128;
    default:
        return 32;
    }
}

/* Outputs to d; inputs to a, b, c in turn; constants of letter i to imm. */
void encode_default(struct loader *l, const struct insn *insn, struct op *op) {
    u32 *inputs[] = {&op->a, &op->b, &op->c};
    unsigned operand = 0, input = 0;
    bool output = true;
    for (const char *s = insn->form->sig; *s; s++) {
        if (*s == ':') {
            output = false;
            continue;
        }
        const struct operand *o = &insn->operands[operand++];
        if (*s == 'i') {
            op->imm = (s64)o->bits;
            continue;
        }
        u32 *to = output ? &op->d : inputs[input++];
        *to = *s == 'p' ? encode_predicate(l, insn, o) : encode_operand(l, insn, o, letter_bits(*s), false);
    }
    if (insn->form->lane >= 0) op->run = lanes_best()[insn->form->lane];
    if (insn->form->lane == L_lop3 && (op->imm & 0xFF) == 0x96) op->run = lanes_best()[L_lop3_xor];
    if (insn->form->lane == L_lop3 && (op->imm & 0xFF) == 0xEA) op->run = lanes_best()[L_lop3_and_or];
}

static void encode_insn(struct loader *l, const struct insn *insn, struct op *op) {
    struct function *f = l->function;
    *op = (struct op){.run = insn->form->run,
                      .sync = insn->form->sync,
                      .flags = insn->flags,
                      .guard = NO_GUARD,
                      .a = NO_OPERAND,
                      .b = NO_OPERAND,
                      .c = NO_OPERAND,
                      .extra = NO_OPERAND};
    if (insn->guarded) {
        if (f->slots[insn->guard] >= NO_GUARD) insn_fail(l, insn, "more than %d predicates are live at once", NO_GUARD);
        op->guard = (u16)f->slots[insn->guard];
        op->guard_not = insn->guard_not;
    }
    op->sub = (u8)insn->form->sub;
    insn->form->encode(l, insn, op);
    if (!op->run) insn_fail(l, insn, "not supported in this form");
}

static op_fn run_off_end;
static int run_off_end(struct exec *x, const struct op *o, u32 m) {
    (void)x, (void)o, (void)m;
    return RUN_EXIT;
}

void encode_function(struct loader *l, struct function *f) {
    struct code *c = &f->code;
    c->op_count = f->insn_count + 1;
    c->ops = load_take(l, c->op_count * sizeof *c->ops);
    c->where = load_take(l, c->op_count * sizeof *c->where);
    for (u32 i = 0; i < f->insn_count; i++) {
        const struct insn *insn = f->insns[i];
        encode_insn(l, insn, &c->ops[i]);
        c->where[i] = (struct where){insn->line, (u32)(insn->text.at - l->module->source), insn->text.length};
    }
    encode_wgmma_guards(l);
    encode_undefined_guards(l);
    c->ops[f->insn_count] = (struct op){.run = run_off_end, .guard = NO_GUARD}; /* the end is an exit */
    c->where[f->insn_count] = (struct where){l->token.line, 0, 0};
    c->spares = load_take(l, SPARE_KINDS * sizeof *c->spares);
    c->constants = f->constants;
    c->constant_bytes = f->constant_count * SLOT_BYTES;
    c->pinned = f->pinned;
    c->pinned_count = f->pinned_count;
}
