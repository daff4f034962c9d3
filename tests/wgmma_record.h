/* wgmma_record.h - the products whose results hardware has given: tests/golden/wgmma_h200.txt, a line a case: its name,
 * a hash of all results, and the results themselves, a row of D after the other, where there are at most WG_KEPT. */
#ifndef DCPK_TESTS_WGMMA_RECORD_H
#define DCPK_TESTS_WGMMA_RECORD_H

#include "tests/wgmma_cases.h"

enum { WG_KEPT = WG_ROWS * 8, WG_NAME = 96 };

#define NUMBERS(types, sort)                                                                                           \
    { types, 8, 1, 1, 0, 0, .contents = sort }
#define ALL_NUMBERS(types)                                                                                             \
    NUMBERS(types, 'f'), NUMBERS(types, 'w'), NUMBERS(types, 'z'), NUMBERS(types, 's'), NUMBERS(types, 'r')
#define CHAIN(types, sort, times)                                                                                      \
    { types, 8, 4, times, 128, 128, .contents = sort, .fresh = true }
#define LAYOUT(types, columns, steps, a, b, ...)                                                                       \
    { types, columns, steps, 1, a, b, .contents = 'f', __VA_ARGS__ }
/* A pattern that begins at `skew`, with a base offset. */
#define PATTERN(swizzle, skew, base)                                                                                   \
    { "f32.e4m3.e4m3", 8, (swizzle) / 32, 1, 128, swizzle, false, false, false, false, false, true, 'f', skew, base, 0 }

static const struct wgmma_case wgmma_recorded[] = {
    /* arithmetic */
    ALL_NUMBERS("f32.e4m3.e4m3"), ALL_NUMBERS("f32.e5m2.e5m2"), ALL_NUMBERS("f32.e4m3.e5m2"),
    ALL_NUMBERS("f32.e5m2.e4m3"), ALL_NUMBERS("f16.e4m3.e4m3"), ALL_NUMBERS("f16.e5m2.e5m2"),
    ALL_NUMBERS("f32.f16.f16"), ALL_NUMBERS("f16.f16.f16"), ALL_NUMBERS("f32.bf16.bf16"), NUMBERS("s32.s8.s8", 'r'),
    NUMBERS("s32.u8.s8", 'r'), NUMBERS("s32.u8.u8", 'r'),
    /* chains */
    CHAIN("f32.e4m3.e4m3", 'p', 1), CHAIN("f32.e4m3.e4m3", 'p', 16), CHAIN("f32.e4m3.e4m3", 'p', 500),
    CHAIN("f32.e4m3.e4m3", 'f', 500), CHAIN("f32.e5m2.e4m3", 'p', 100), CHAIN("f16.e4m3.e4m3", 'f', 20),
    CHAIN("f32.f16.f16", 'p', 500), CHAIN("f16.f16.f16", 'f', 20), CHAIN("f32.bf16.bf16", 'f', 500),
    /* layouts, fragments, signs */
    LAYOUT("f32.e4m3.e4m3", 64, 4, 128, 128, .fresh = true), LAYOUT("f32.e4m3.e4m3", 256, 2, 64, 64, .fresh = true),
    LAYOUT("f32.e4m3.e4m3", 48, 4, 32, 32, .negate_a = true), LAYOUT("f32.e4m3.e4m3", 24, 2, 0, 0, .negate_b = true),
    LAYOUT("f32.e4m3.e4m3", 16, 2, 0, 64, .registers = true), LAYOUT("f16.e4m3.e4m3", 40, 2, 0, 128, .registers = true),
    LAYOUT("f32.f16.f16", 64, 4, 128, 128, .trans_a = true, .trans_b = true),
    LAYOUT("f32.f16.f16", 136, 2, 64, 64, .trans_a = true, .trans_b = true),
    LAYOUT("f32.f16.f16", 48, 2, 32, 32, .trans_a = true, .trans_b = true),
    LAYOUT("f32.f16.f16", 24, 2, 0, 0, .trans_a = true, .trans_b = true),
    LAYOUT("f32.bf16.bf16", 72, 2, 0, 128, .registers = true, .trans_b = true),
    LAYOUT("f32.f16.f16", 128, 4, 128, 64, .negate_a = true, .negate_b = true),
    LAYOUT("s32.s8.u8", 48, 2, 64, 128, .fresh = true), LAYOUT("f32.e4m3.e4m3", 64, 4, 128, 128, .leading = 4096),
    /* patterns that begin at no multiple of 1024 (512, 256) */
    PATTERN(128, 0, 3), PATTERN(128, 128, 0), PATTERN(128, 128, 1), PATTERN(128, 384, 3), PATTERN(128, 512, 4),
    PATTERN(128, 896, 7), PATTERN(128, 384, 5), PATTERN(64, 128, 0), PATTERN(64, 128, 1), PATTERN(64, 384, 3),
    PATTERN(64, 512, 4), PATTERN(32, 128, 0), PATTERN(32, 128, 1), PATTERN(32, 256, 2)};

enum { WG_RECORDED = sizeof wgmma_recorded / sizeof wgmma_recorded[0] };

static inline void wgmma_name(const struct wgmma_case *c, char name[WG_NAME]) {
    snprintf(name, WG_NAME, "%s:n%u:%ux%u:a%u%s%s%s:b%u%s%s:%c%s:%u:%u:%u", c->types, c->columns, c->steps, c->repeats,
             c->swizzle_a, c->registers ? "r" : "", c->trans_a ? "t" : "", c->negate_a ? "-" : "", c->swizzle_b,
             c->trans_b ? "t" : "", c->negate_b ? "-" : "", c->contents, c->fresh ? "0" : "", c->skew, c->base,
             c->leading);
}

/* Results of a case, row after row, and their hash. */
static inline uint64_t wgmma_gather(const struct wgmma_case *c, const uint32_t (*out)[WG_OUT],
                                    uint32_t results[WG_ROWS * 256]) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (unsigned i = 0; i < WG_ROWS * c->columns; i++) {
        results[i] = wgmma_result(c, out, i / c->columns, i % c->columns);
        hash = (hash ^ results[i]) * 0x100000001B3u;
    }
    return hash;
}

static inline uint64_t wgmma_seed(unsigned index) {
    return 0x5EED0000 + index;
}

#endif
