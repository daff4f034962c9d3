/* conform_mma.c - products of a warp (mma.sync, m16n8kK): exact sums, laid out as the manual's figures say. Shares
 * nothing with a device. */
#include "conform_product.h"

#include <stdlib.h>
#include <string.h>

enum { LANES = CONFORM_WARP };

static unsigned element_bits(const char *type) {
    return strcmp(type, "tf32") == 0 ? 32 : strcmp(type, "f16") == 0 || strcmp(type, "bf16") == 0 ? 16 : 8;
}

conform_wide conform_element(const char *type, uint64_t bits) {
    if (strcmp(type, "s8") == 0) return conform_signed(bits, 8);
    if (strcmp(type, "u8") == 0) return conform_low(bits, 8);
    if (strcmp(type, "s32") == 0) return conform_signed(bits, 32);
    if (strcmp(type, "tf32") == 0) return conform_value(&conform_tf32, bits >> 13);
    const struct conform_format *format = strcmp(type, "f16") == 0    ? &conform_f16
                                          : strcmp(type, "bf16") == 0 ? &conform_bf16
                                          : strcmp(type, "f32") == 0  ? &conform_f32
                                          : strcmp(type, "e4m3") == 0 ? &conform_e4m3
                                                                      : &conform_e5m2;
    return conform_value(format, conform_low(bits, format->bits));
}

/* Word w of a thread's 16. */
static uint32_t word_of(const struct conform_in *in, unsigned w) {
    uint32_t words[16];
    memcpy(words, in, sizeof words);
    return words[w];
}

/* Element e of the operand whose registers begin at word `first` in lane `lane`. */
static conform_wide operand(const struct conform_in *in, unsigned lane, unsigned first, unsigned e, const char *type) {
    unsigned bits = element_bits(type), each = 32 / bits;
    return conform_element(type, word_of(&in[lane], first + e / each) >> e % each * (bits % 32));
}

/* Row i, column k of A: register r of lane l holds row l/4 + 8 (r & 1), columns (r/2) 4e + (l%4) e and on. */
static conform_wide a_at(const struct conform_in *in, const char *type, unsigned row, unsigned k) {
    unsigned each = 32 / element_bits(type), lane = row % 8 * 4 + k / each % 4, r = k / (4 * each) * 2 + row / 8;
    return operand(in, lane, 0, r * each + k % each, type);
}

static conform_wide b_at(const struct conform_in *in, const char *type, unsigned k, unsigned column) {
    unsigned each = 32 / element_bits(type), lane = column * 4 + k / each % 4, r = k / (4 * each);
    return operand(in, lane, 4, r * each + k % each, type);
}

static conform_wide c_at(const struct conform_in *in, const char *type, unsigned lane, unsigned i) {
    if (strcmp(type, "f16") == 0) return conform_element(type, word_of(&in[lane], 8 + i / 2) >> 16 * (i % 2));
    return conform_element(type, word_of(&in[lane], 8 + i));
}

void conform_product(const struct conform_form *form, const struct conform_in *in,
                     struct conform_sum results[CONFORM_WARP][4]) {
    unsigned words = form->word_count, depth = 0;
    const char *type_a = form->words[words - 3], *type_b = form->words[words - 2], *type_c = form->words[words - 1];
    for (unsigned i = 1; i < words; i++)
        if (strncmp(form->words[i], "m16n8k", 6) == 0) depth = (unsigned)strtoul(form->words[i] + 6, NULL, 10);
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned i = 0; i < 4; i++) {
            conform_wide sum = c_at(in, type_c, lane, i), magnitude = sum < 0 ? -sum : sum;
            for (unsigned k = 0; k < depth; k++) {
                conform_wide p =
                    a_at(in, type_a, lane / 4 + 8 * (i / 2), k) * b_at(in, type_b, k, lane % 4 * 2 + i % 2);
                sum += p;
                magnitude += p < 0 ? -p : p;
            }
            results[lane][i] = (struct conform_sum){sum, magnitude};
        }
}

uint64_t conform_product_bits(const struct conform_form *form, const struct conform_out *out, unsigned i) {
    bool half = form->word_count > 3 && strcmp(form->words[form->word_count - 4], "f16") == 0;
    return half ? out->d[i / 2] >> 16 * (i % 2) & 0xFFFF : out->d[i];
}

bool ref_mma(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    struct conform_sum results[LANES][4];
    conform_product(form, in, results);
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned i = 0; i < 4; i++) {
            int64_t v = (int64_t)results[lane][i].sum;
            if (conform_has(form, "satfinite")) v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
            out[lane].d[i] = conform_low((uint64_t)v, 32);
        }
    return true;
}
