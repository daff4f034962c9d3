/* ptx_initial.c - the initialisers of global and constant variables.
 * Values lie one behind the other, whatever braces are around them: so ptxas lays them out where an inner pair of
 * braces has fewer than its dimension. What is behind the last is zero. (PTX ISA, section "Initializers") */
#include <string.h>
#include <runtime/cpu/ptx.h>

enum { MAX_INITIAL = 1 << 28 };

static void fill_address(struct loader *l, struct filling *fill, const struct variable *v) {
    struct text name = parse_identifier(l);
    if (text_is(name, "generic") && lex_punct(l, '(')) {
        name = parse_identifier(l);
        lex_expect(l, ')');
    }
    struct symbol *s = symbol_find(l, name);
    if (!s || s->kind != SYMBOL_VARIABLE || (s->variable->space != SPACE_GLOBAL && s->variable->space != SPACE_CONST))
        load_fail(l, l->behind, "`%.*s` in an initialiser is not a global or constant variable", (int)name.length,
                  name.at);
    if (v->element != 8) load_fail(l, l->behind, "an address initialises 64-bit elements only");
    s64 addend = lex_punct(l, '+') ? constant_integer(l) : 0;
    if (fill->pointer_count == fill->pointer_capacity)
        fill->pointers =
            load_grow(l, fill->pointers, fill->pointer_count, sizeof *fill->pointers, &fill->pointer_capacity);
    fill->pointers[fill->pointer_count++] = (struct ptx_pointer){(unsigned)fill->at, 8, s->variable->index, addend};
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

/* 0f... stands for its bits wherever it is; a double goes into 32 bits as a float. */
static u64 float_bits(const struct token *t, unsigned bytes) {
    if (t->kind == T_F32 || bytes > 4) return t->bits;
    double d;
    memcpy(&d, &t->bits, 8);
    return bytes == 4 ? float_from_double(FMT_F32, d, ROUND_NEAREST) : 0;
}

static void fill_scalar(struct loader *l, struct filling *fill, const struct variable *v, struct type type) {
    reserve(l, fill, v);
    struct token t;
    u64 bits = 0;
    bool is_float = constant_float(l, &t);
    if (is_float && type.kind != REG_INT)
        bits = float_bits(&t, v->element);
    else if (is_float || type.kind == REG_FLOAT)
        load_fail(l, t.line, "%s constant is expected for %s variable",
                  type.kind == REG_FLOAT ? "a float" : "an integer", type.kind == REG_FLOAT ? "a float" : "an integer");
    else if (l->token.kind == T_NAME && !text_is(l->token.text, "WARP_SZ"))
        fill_address(l, fill, v);
    else
        bits = (u64)constant_integer(l);
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
    if (size->half) load_fail(l, line, "variables of .f16 have no initialiser: declare .b16");
    u64 count = fill_level(l, fill, v, size, 0);
    if (!size->open) return;
    if (!count)
        load_fail(l, line, "`%.*s` has an open dimension and no initialiser", (int)v->name.length, v->name.at);
    else if (v->bytes > (1ull << 40) / count)
        load_fail(l, line, "size %llu of `%.*s` is out of range", (unsigned long long)count, (int)v->name.length,
                  v->name.at);
    v->bytes *= count;
}
