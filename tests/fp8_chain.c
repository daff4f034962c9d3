/* fp8_chain.c - see fp8_chain.h. Shares no code with the CPU device, which models the same. */
#include <tests/fp8_chain.h>

#include <math.h>
#include <stdlib.h>

enum { KEPT = 13, NONE = -10000 /* the exponent of zero */ };

void fp8_parts_fill(struct fp8_parts *parts) {
    for (int bits = 0; bits < 256; bits++) {
        int field = bits >> 3 & 15, fraction = field > 0 ? 8 + bits % 8 : bits % 8;
        parts->fraction[bits] = (int16_t)(bits & 0x80 ? -fraction : fraction);
        parts->exponent[bits] = (int16_t)(fraction == 0 ? NONE : (field > 0 ? field : 1) - 7);
    }
}

/* value * 2^-below, towards zero. */
static int32_t cut(int32_t value, int below) {
    if (below > 30) return 0;
    return value < 0 ? -(-value >> below) : value >> below;
}

float fp8_chain_step(const struct fp8_parts *parts, float d, const uint8_t a[FP8_CHAIN_DEPTH],
                     const uint8_t b[FP8_CHAIN_DEPTH]) {
    int top = d != 0 ? ilogbf(d) : NONE;
    for (int k = 0; k < FP8_CHAIN_DEPTH; k++) {
        int exponent = parts->exponent[a[k]] + parts->exponent[b[k]];
        top = exponent > top ? exponent : top;
    }
    if (top <= NONE / 2) return 0;
    /* in units of 2^(top - KEPT); a product of fractions has 6 bits below its exponent */
    int32_t sum = (int32_t)truncf(ldexpf(d, KEPT - top));
    for (int k = 0; k < FP8_CHAIN_DEPTH; k++) {
        int below = top - parts->exponent[a[k]] - parts->exponent[b[k]];
        sum += cut(parts->fraction[a[k]] * parts->fraction[b[k]] * (1 << (KEPT - 6)), below);
    }
    int32_t size = abs(sum);
    int spare = size > 0 ? 31 - __builtin_clz((unsigned)size) - KEPT : 0;
    if (spare > 0) size = size >> spare << spare;
    return ldexpf((float)(sum < 0 ? -size : size), top - KEPT);
}
