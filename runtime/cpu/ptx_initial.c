/* ptx_initial.c - the initialisers of global and constant variables.
 * Values lie one behind the other, whatever braces are around them: so ptxas lays them out where an inner pair of
 * braces has fewer than its dimension. What is behind the last is zero. (PTX ISA, section "Initializers") */
#include <string.h>
#include <runtime/cpu/ptx.h>

enum { MAX_INITIAL = 1 << 28 };

/* The number of the lowest bit of a byte's mask: 8 of 0xff00. */
static unsigned byte_of(struct loader *l) {
    u64 mask = l->token.kind == T_INTEGER ? l->token.bits : WARP;
    unsigned shift = 0;
    while (shift < 56 && mask >> shift != 0xff)
        shift += 8;
    if (mask != 0xffull << shift)
        load_fail(l, l->token.line, "0x%llx is no mask of one byte, such as 0xff00", (unsigned long long)mask);
    return shift;
}

/* A variable whose address is an initial value. */
static const struct variable *addressed(struct loader *l) {
    struct text name = parse_identifier(l);
    if (text_is(name, "generic") && lex_punct(l, '(')) {
        name = parse_identifier(l);
        lex_expect(l, ')');
    }
    const struct symbol *s = symbol_find(l, name);
    if (s ? s->kind == SYMBOL_FUNCTION : function_known(l, name))
        load_fail(l, l->behind, "the address of function `%.*s`: calls through pointers are not supported",
                  (int)name.length, name.at);
    const struct variable *v = s && s->kind == SYMBOL_VARIABLE ? s->variable : NULL;
    if (!v || (v->space != SPACE_GLOBAL && v->space != SPACE_CONST))
        load_fail(l, l->behind, "`%.*s` in an initialiser is not a global or constant variable", (int)name.length,
                  name.at);
    return v;
}

static _Noreturn void mismatch(struct loader *l, u32 line, struct type type) {
    const char *what = type.kind == REG_FLOAT ? "a float" : "an integer";
    load_fail(l, line, "%s constant is expected for %s variable", what, what);
}

/* Of an address: all of it, or the byte from bit `shift` on. */
static void fill_address(struct loader *l, struct filling *fill, struct type type, bool byte, unsigned shift) {
    if (type.kind == REG_FLOAT) mismatch(l, l->token.line, type);
    const struct variable *to = addressed(l);
    if (!type.is_unsigned || type.bits == 16 || (!byte && type.bits < 32))
        load_fail(l, l->behind, "an address initialises .u64; one of its bytes, as 0xff00(%.*s), .u8, .u32 or .u64",
                  (int)to->name.length, to->name.at);
    if (!byte && type.bits != 64) load_fail(l, l->behind, "an address initialises 64-bit elements only");
    s64 addend = lex_punct(l, '+') ? constant_integer(l) : 0;
    if (fill->pointer_count == fill->pointer_capacity)
        fill->pointers =
            load_grow(l, fill->pointers, fill->pointer_count, sizeof *fill->pointers, &fill->pointer_capacity);
    fill->pointers[fill->pointer_count++] = (struct ptx_pointer){
        .offset = (unsigned)fill->at, .bytes = byte ? 1 : 8, .variable = to->index, .shift = shift, .addend = addend};
}

/* Room for one more element. */
static void reserve(struct loader *l, struct filling *fill, const struct variable *v) {
    if (fill->at + v->element <= fill->capacity) return;
    if (fill->at > MAX_INITIAL) load_fail(l, l->token.line, "more than %d MiB of initialisers", MAX_INITIAL >> 20);
    u64 bigger = fill->capacity * 2 + 64;
    u8 *bytes = load_take(l, bigger);
    if (fill->capacity) memcpy(bytes, fill->bytes, fill->capacity);
    fill->bytes = bytes;
    fill->capacity = bigger;
}

/* 0f... stands for its bits wherever it is; a double goes into 32 bits as a float, into fewer with its lowest bits. */
static u64 float_bits(struct constant c, unsigned bits) {
    if (c.kind == CONSTANT_F32 || bits != 32) return c.bits;
    double wide;
    memcpy(&wide, &c.bits, 8);
    float narrow = (float)wide;
    u32 out;
    memcpy(&out, &narrow, 4);
    return out;
}

static u64 constant_bits(struct loader *l, struct type type) {
    struct constant c = constant_any(l);
    bool is_float = c.kind == CONSTANT_F32 || c.kind == CONSTANT_F64;
    if (is_float ? type.kind == REG_INT : type.kind == REG_FLOAT) mismatch(l, c.line, type);
    if (is_float && type.bits > 64) load_fail(l, c.line, "no float initialises %u bits", type.bits);
    return is_float ? float_bits(c, type.bits) : c.bits;
}

/* A mask, then in parentheses what it is of: an address or a constant. Returns the constant's byte. */
static u64 fill_byte(struct loader *l, struct filling *fill, struct type type) {
    u64 bits = 0;
    unsigned shift = byte_of(l);
    if (type.kind == REG_FLOAT) mismatch(l, l->token.line, type);
    lex_next(l);
    lex_expect(l, '(');
    if (lex_at_name(l))
        fill_address(l, fill, type, true, shift);
    else
        bits = (u64)constant_integer(l) >> shift & 0xff;
    lex_expect(l, ')');
    return bits;
}

static void fill_scalar(struct loader *l, struct filling *fill, const struct variable *v, struct type type) {
    reserve(l, fill, v);
    u64 bits = 0;
    bool number = l->token.kind == T_INTEGER || text_is(l->token.text, "WARP_SZ");
    if (number && lex_behind_is(l, '('))
        bits = fill_byte(l, fill, type);
    else if (!number && l->token.kind == T_NAME)
        fill_address(l, fill, type, false, 0);
    else
        bits = constant_bits(l, type);
    memcpy(fill->bytes + fill->at, &bits, v->element < 8 ? v->element : 8);
    fill->at += v->element;
}

/* The values from dimension `level` on. */
static u64 fill_level(struct loader *l, struct filling *fill, const struct variable *v, const struct dimensions *size,
                      unsigned level) {
    if (level == size->count) {
        fill_scalar(l, fill, v, size->type);
        return 1;
    }
    u32 line = l->token.line;
    u64 count = 0;
    lex_expect(l, '{');
    if (!lex_punct(l, '}')) {
        do {
            if (count == size->at[level])
                load_fail(l, line, "more initialisers than `%.*s` has elements", (int)v->name.length, v->name.at);
            fill_level(l, fill, v, size, level + 1);
            count++;
        } while (lex_punct(l, ','));
        lex_expect(l, '}');
    }
    if (size->vector && level == size->count - 1u && count != size->at[level])
        load_fail(l, line, "a vector of `%.*s` has %llu elements, and %llu are given", (int)v->name.length, v->name.at,
                  (unsigned long long)size->at[level], (unsigned long long)count);
    return count;
}

void parse_initial(struct loader *l, struct filling *fill, struct variable *v, const struct dimensions *size) {
    u32 line = l->token.line;
    if (size->half) load_fail(l, line, "variables of .f16 and .f16x2 have no initialiser: declare .b16 or .b32");
    u64 count = fill_level(l, fill, v, size, 0);
    if (!size->open) return;
    if (!count)
        load_fail(l, line, "`%.*s` has an open dimension and no initialiser", (int)v->name.length, v->name.at);
    else if (v->bytes > (1ull << 40) / count)
        load_fail(l, line, "size %llu of `%.*s` is out of range", (unsigned long long)count, (int)v->name.length,
                  v->name.at);
    v->bytes *= count;
}
