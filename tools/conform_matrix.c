/* conform_matrix.c - wmma and wgmma: what their names say, operands as conform_matrix.def lays them out, exact sums.
 * Shares nothing with a device. */
#include "conform_product.h"

#include <stdio.h>
#include <string.h>

enum { WARP_BYTES = CONFORM_WARP * CONFORM_SLOT, ADDENDS = 1024 };

unsigned conform_matrix_bits(const char *type) {
    static const struct {
        const char *type;
        unsigned bits;
    } rows[] = {{"f16", 16}, {"bf16", 16}, {"e4m3", 8}, {"e5m2", 8}, {"s8", 8}, {"u8", 8}, {"f64", 64}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(type, rows[i].type) == 0) return rows[i].bits;
    return 32;
}

/* ---- names ---- */
/* Types behind the shape: one of a load or store, D C or D A B C of wmma.mma, D A B of wgmma. */
static void take_types(struct conform_matrix *m, const char *const *types, unsigned count) {
    if (m->group)
        m->d = m->c = types[0], m->a = types[1], m->b = types[2];
    else if (count == 4)
        m->d = types[0], m->a = types[1], m->b = types[2], m->c = types[3];
    else if (count == 2)
        m->d = types[0], m->c = types[1], m->a = m->b = "f16";
}

/* A load or store names one type; its kernel in the table takes the others so. */
static void complete(struct conform_matrix *m, const char *type, bool factor) {
    if (factor)
        m->a = m->b = type, m->c = m->d = type[0] == 's' || type[0] == 'u' ? "s32"
                                          : strcmp(type, "f64") == 0       ? type
                                                                           : "f32";
    else
        m->c = m->d = type, m->a = m->b = strcmp(type, "s32") == 0   ? "s8"
                                          : strcmp(type, "f64") == 0 ? type
                                          : m->k == 8                ? "tf32"
                                                                     : "f16";
}

bool conform_matrix_of(const struct conform_form *form, struct conform_matrix *m) {
    static const char listed[] = " f16 bf16 e4m3 e5m2 s8 u8 tf32 f64 f32 s32 ";
    const char *types[4] = {"", "", "", ""};
    unsigned count = 0;
    *m = (struct conform_matrix){.a = "", .b = "", .c = "", .d = "", .group = strcmp(form->words[0], "wgmma") == 0};
    if (!m->group && strcmp(form->words[0], "wmma") != 0) return false;
    for (unsigned i = 1; i < form->word_count; i++) {
        char word[32];
        unsigned size[3];
        snprintf(word, sizeof word, " %.20s ", form->words[i]);
        if (sscanf(form->words[i], "m%un%uk%u", &size[0], &size[1], &size[2]) == 3)
            m->m = size[0], m->n = size[1], m->k = size[2];
        else if (m->m != 0 && strstr(listed, word) != NULL && count < 4)
            types[count++] = form->words[i];
    }
    if (m->m == 0) return false; /* wgmma.fence and so on */
    if (count == 1)
        complete(m, types[0], conform_has(form, "a") || conform_has(form, "b"));
    else
        take_types(m, types, count);
    return true;
}

/* ---- numbers ---- */
static const struct conform_format *format_of(const char *type) {
    static const struct {
        const char *type;
        const struct conform_format *format;
    } rows[] = {{"f16", &conform_f16}, {"bf16", &conform_bf16}, {"e4m3", &conform_e4m3}, {"e5m2", &conform_e5m2},
                {"f64", &conform_f64}, {"f32", &conform_f32},   {"tf32", &conform_f32}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(type, rows[i].type) == 0) return rows[i].format;
    return NULL;
}

uint64_t conform_small_whole(const char *type, uint64_t random) {
    const struct conform_format *f = format_of(type);
    unsigned bits = conform_matrix_bits(type), number = (unsigned)random % 4 + 1;
    if (f == NULL) return conform_low(random, bits);
    uint64_t bias = (uint64_t)(1 - f->least - f->fraction), exponent = bias + (number > 1) + (number > 3);
    return (random >> 2 & 1) << (bits - 1) | exponent << f->fraction | (uint64_t)(number == 3) << (f->fraction - 1);
}

static double number_of(const char *type, const unsigned char *at) {
    uint64_t bits = 0;
    float single;
    memcpy(&bits, at, conform_matrix_bits(type) / 8);
    if (strcmp(type, "f32") == 0 || strcmp(type, "tf32") == 0) {
        uint32_t word = (uint32_t)bits & (type[0] == 't' ? 0xFFFFE000 : 0xFFFFFFFF);
        memcpy(&single, &word, sizeof single);
        return (double)single;
    }
    const struct conform_format *format = format_of(type);
    if (format != NULL) return (double)conform_value(format, bits);
    unsigned width = conform_matrix_bits(type);
    return type[0] == 'u' ? (double)bits : (double)conform_signed(bits, width);
}

/* The pattern of an exact sum. */
static uint64_t pattern_of(const struct conform_form *form, const char *type, double v) {
    const struct conform_format *format = format_of(type);
    if (format != NULL) return conform_rounded(format, v, false, NEAREST, false);
    int64_t whole = (int64_t)v;
    if (conform_has(form, "satfinite")) whole = whole > INT32_MAX ? INT32_MAX : whole < INT32_MIN ? INT32_MIN : whole;
    return conform_low((uint64_t)whole, 32);
}

/* ---- wmma ---- */
/* rows x columns elements in memory, by their layout, as rows. */
static void read_matrix(const unsigned char *at, const char *type, unsigned rows, unsigned columns, bool by_column,
                        double *to) {
    unsigned bytes = conform_matrix_bits(type) / 8;
    for (unsigned i = 0; i < rows; i++)
        for (unsigned j = 0; j < columns; j++)
            to[i * columns + j] = number_of(type, at + (by_column ? j * rows + i : i * columns + j) * bytes);
}

/* Which layout is by column: of A, B, C and D. */
static void layouts(const struct conform_form *form, bool by_column[4]) {
    const char *operation = form->words[1], *matrix = form->words[2];
    bool store = strcmp(operation, "store") == 0;
    by_column[0] = by_column[2] = by_column[3] = false;
    by_column[1] = true;
    if (strcmp(operation, "mma") == 0) {
        by_column[0] = strcmp(form->words[4 - 1], "aligned") == 0 && strcmp(form->words[4], "col") == 0;
        by_column[1] = strcmp(form->words[5], "col") == 0;
        return;
    }
    by_column[store ? 3 : matrix[0] - 'a'] = strcmp(form->words[5], "col") == 0;
}

bool ref_wmma(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    struct conform_matrix m;
    unsigned char memory[WARP_BYTES];
    double a[512], b[512], c[256];
    bool by_column[4];
    conform_matrix_of(form, &m);
    layouts(form, by_column);
    memcpy(memory, in, sizeof memory);
    unsigned b_bytes = m.k * m.n * conform_matrix_bits(m.b) / 8, bytes = conform_matrix_bits(m.d) / 8;
    read_matrix(memory, m.a, m.m, m.k, by_column[0], a);
    read_matrix(memory + (b_bytes > 512 ? 0 : 512), m.b, m.k, m.n, by_column[1], b);
    read_matrix(memory + ADDENDS, m.c, m.m, m.n, by_column[2], c);
    for (unsigned i = 0; i < m.m; i++)
        for (unsigned j = 0; j < m.n; j++) {
            double sum = c[i * m.n + j];
            for (unsigned k = 0; k < m.k; k++)
                sum += a[i * m.k + k] * b[k * m.n + j];
            uint64_t pattern = pattern_of(form, m.d, sum);
            memcpy(memory + ADDENDS + (by_column[3] ? j * m.m + i : i * m.n + j) * bytes, &pattern, bytes);
        }
    for (unsigned l = 0; l < CONFORM_WARP; l++)
        memcpy(&out[l], memory + ADDENDS + 32 * l, 32);
    return true;
}

/* ---- wgmma ---- */
unsigned conform_group_registers(const struct conform_matrix *m) {
    return strcmp(m->d, "f16") == 0 ? m->n / 4 : m->n / 2;
}

unsigned conform_group_b(const struct conform_matrix *m) {
    return m->n > 192 ? 0 : 2048;
}

/* rows of 32 bytes of K: 8 rows of 16 bytes together, the other half of K behind all rows. */
static void read_rows(const unsigned char *at, const char *type, unsigned rows, unsigned depth, double *to) {
    unsigned bytes = conform_matrix_bits(type) / 8;
    for (unsigned i = 0; i < rows; i++)
        for (unsigned k = 0; k < depth; k++) {
            unsigned byte = k * bytes;
            to[i * depth + k] = number_of(type, at + i % 8 * 16 + i / 8 * 128 + byte % 16 + byte / 16 * rows * 16);
        }
}

/* Fragments of A in registers a b c x: rows t/4 and 8 below, then the same of the other half of K. */
static void read_fragments(const struct conform_in *in, const char *type, unsigned depth, double *to) {
    unsigned bytes = conform_matrix_bits(type) / 8;
    for (unsigned i = 0; i < 64; i++)
        for (unsigned k = 0; k < depth; k++) {
            unsigned byte = k * bytes, t = i / 16 * 32 + i % 8 * 4 + byte % 16 / 4;
            const uint64_t words[4] = {in[t].a, in[t].b, in[t].c, in[t].x};
            uint32_t word = (uint32_t)words[i % 16 / 8 + byte / 16 * 2];
            unsigned char each[4];
            memcpy(each, &word, sizeof each);
            to[i * depth + k] = number_of(type, each + byte % 4);
        }
}

struct group_operands {
    double a[64 * 32], b[256 * 32];
};

static void read_group(const struct conform_form *form, const struct conform_matrix *m, const struct conform_in *in,
                       struct group_operands *to) {
    unsigned char memory[CONFORM_THREADS * CONFORM_SLOT];
    memcpy(memory, in, sizeof memory);
    if (strcmp(form->row->tag, "A in registers") == 0)
        read_fragments(in, m->a, m->k, to->a);
    else
        read_rows(memory, m->a, 64, m->k, to->a);
    read_rows(memory + conform_group_b(m), m->b, m->n, m->k, to->b);
}

static double product_of(const struct group_operands *of, unsigned depth, unsigned row, unsigned column) {
    double sum = 0;
    for (unsigned k = 0; k < depth; k++)
        sum += of->a[row * depth + k] * of->b[column * depth + k];
    return sum;
}

/* Row and column of the low element of register i of thread t. */
static void place_of(const struct conform_matrix *m, unsigned t, unsigned i, unsigned *row, unsigned *column) {
    bool half = strcmp(m->d, "f16") == 0;
    *row = t / 32 * 16 + t % 32 / 4 + (half ? i % 2 : i % 4 / 2) * 8;
    *column = (half ? i / 2 : i / 4) * 8 + t % 4 * 2 + (half ? 0 : i % 2);
}

bool ref_wgmma(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    struct conform_matrix m;
    struct group_operands operands;
    bool negated = strcmp(form->row->tag, "negated") == 0;
    conform_matrix_of(form, &m);
    read_group(form, &m, in, &operands);
    for (unsigned t = 0; t < CONFORM_THREADS; t++) {
        uint32_t folded[4] = {0};
        for (unsigned i = 0; i < conform_group_registers(&m); i++) {
            unsigned row, column;
            place_of(&m, t, i, &row, &column);
            double twice = 2 * product_of(&operands, m.k, row, column);
            uint64_t word = pattern_of(form, m.d, negated ? -twice : twice);
            if (strcmp(m.d, "f16") == 0)
                word |= pattern_of(form, m.d, 2 * product_of(&operands, m.k, row, column + 1)) << 16;
            folded[i % 4] = folded[i % 4] * CONFORM_FOLD + (uint32_t)word;
        }
        out[t] = (struct conform_out){{folded[0], folded[1], folded[2], folded[3]}};
    }
    return true;
}

/* One product of bytes, 8 columns. */
bool ref_wgmma_bytes(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const struct conform_matrix m = {
        .m = 64, .n = 8, .k = 32, .a = "s8", .b = "s8", .c = "s32", .d = "s32", .group = true};
    struct group_operands operands;
    read_group(form, &m, in, &operands);
    for (unsigned t = 0; t < CONFORM_THREADS; t++)
        for (unsigned i = 0; i < 4; i++) {
            unsigned row, column;
            place_of(&m, t, i, &row, &column);
            out[t].d[i] = pattern_of(form, m.d, product_of(&operands, m.k, row, column));
        }
    return true;
}

void conform_group_product(const struct conform_form *form, const struct conform_in *in,
                           struct conform_sum results[CONFORM_THREADS][CONFORM_GROUP_RESULTS]) {
    struct conform_matrix m;
    struct group_operands operands;
    conform_matrix_of(form, &m);
    bool half = strcmp(m.d, "f16") == 0;
    read_group(form, &m, in, &operands);
    for (unsigned t = 0; t < CONFORM_THREADS; t++)
        for (unsigned i = 0; i < CONFORM_GROUP_RESULTS; i++) {
            const uint64_t words[4] = {in[t].a, in[t].b, in[t].c, in[t].x};
            uint32_t word = (uint32_t)words[half ? i / 2 : i];
            unsigned row, column;
            word = half ? ((word & 0x83FF83FF) | 0x3C003C00) >> 16 * (i % 2) : (word & 0x80FFFFFF) | 0x3F000000;
            unsigned char bytes[4];
            memcpy(bytes, &word, sizeof bytes);
            place_of(&m, t, half ? i / 2 : i, &row, &column);
            column += half ? i % 2 : 0;
            double sum = number_of(m.c, bytes), magnitude = sum < 0 ? -sum : sum;
            for (unsigned k = 0; k < m.k; k++) {
                double p = operands.a[row * m.k + k] * operands.b[column * m.k + k];
                sum += p;
                magnitude += p < 0 ? -p : p;
            }
            results[t][i] = (struct conform_sum){sum, magnitude};
        }
}
