/* wgmma_cases.h - products of one warpgroup by wgmma: the kernel's text, its operands laid out in shared memory by the
 * manual's canonical layouts, random contents. Shared by the suites, the recorder of hardware results and the bench.
 *
 * A case is a chain: `steps` wgmma of one group over `steps` slices of K, the whole `repeats` times over the same
 * operands. The kernel f(image, registers, out, descriptors) of 128 threads copies the image to shared memory, takes 4
 * words of A and 128 of D a thread from registers, and leaves D in out, 128 words a thread. */
#ifndef DCPK_TESTS_WGMMA_CASES_H
#define DCPK_TESTS_WGMMA_CASES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { WG_THREADS = 128, WG_ROWS = 64, WG_IMAGE = 65536, WG_WORDS = 132, WG_OUT = 128, WG_STEPS = 16, WG_TEXT = 65536 };

struct wgmma_case {
    const char *types; /* D.A.B */
    unsigned columns, steps, repeats;
    unsigned swizzle_a, swizzle_b;                               /* bytes: 0 32 64 128 */
    bool registers, trans_a, trans_b, negate_a, negate_b, fresh; /* fresh: scale-d 0 at the first step */
    char contents;    /* 'f' near 1, 'p' the same and positive, 'w' of many sizes, 'z' of them most zero, 's' many
                         subnormal, 'r' any    bits */
    unsigned skew;    /* bytes by which B's swizzle pattern begins behind a multiple of 1024 */
    unsigned base;    /* its descriptor's base offset */
    unsigned leading; /* not 0: the leading offset of a swizzled K-major B, which is not used */
};

static inline unsigned wgmma_bits(const struct wgmma_case *c) { /* of an element of A and B */
    return strstr(c->types, "f16.f16.") || strstr(c->types, "bf16") || strstr(c->types, ".f16.f16") ? 16 : 8;
}

static inline unsigned wgmma_depth(const struct wgmma_case *c) {
    return 256 / wgmma_bits(c);
}

/* Registers of D. */
static inline unsigned wgmma_results(const struct wgmma_case *c) {
    return strncmp(c->types, "f16", 3) == 0 ? c->columns / 4 : c->columns / 2;
}

/* ---- layouts ---- */
struct wgmma_layout {
    unsigned swizzle, leading, stride,
        step;       /* bytes; step: from a slice of K to the next; swizzled K-major: within rows */
    unsigned bytes; /* all slices */
};

static inline unsigned wgmma_groups(unsigned n, unsigned of) {
    return (n + of - 1) / of;
}

static inline struct wgmma_layout wgmma_layout_of(unsigned rows, unsigned swizzle, bool trans, unsigned steps) {
    struct wgmma_layout l = {.swizzle = swizzle};
    if (!trans && !swizzle) { /* 8 x 16 bytes; the second half of K behind all rows */
        l.stride = 128;
        l.leading = rows * 16;
        l.step = rows * 32;
    } else if (!trans) { /* rows of a swizzle's width, as many slices in them as fit */
        l.stride = 8 * swizzle;
        l.leading = 16;
        l.step = 32;
        l.bytes = wgmma_groups(steps, swizzle / 32) * rows * swizzle;
    } else if (!swizzle) { /* 8 k x 8 elements; the next 8 k behind, then the next 8 elements */
        l.leading = 128;
        l.stride = 256;
        l.step = rows / 8 * 256;
    } else { /* 8 k of a swizzle's width; the next elements behind, then the next 8 k */
        l.leading = 8 * swizzle;
        l.stride = wgmma_groups(rows * 2, swizzle) * 8 * swizzle;
        l.step = 2 * l.stride;
    }
    if (!l.bytes) l.bytes = steps * l.step;
    return l;
}

/* Where slice s begins. */
static inline unsigned wgmma_slice(const struct wgmma_layout *l, unsigned rows, bool trans, unsigned s) {
    if (trans || !l->swizzle) return s * l->step;
    unsigned each = l->swizzle / 32;
    return s / each * rows * l->swizzle + s % each * 32;
}

/* The byte of element (row, k) of a slice that begins at `begin`, from the swizzle pattern's beginning. */
static inline unsigned wgmma_byte(const struct wgmma_layout *l, bool trans, unsigned bits, unsigned begin, unsigned row,
                                  unsigned k) {
    unsigned at, w = l->swizzle;
    if (trans) /* 16-bit elements: 8 a unit */
        at = w ? row * 2 % w + row * 2 / w * l->leading + k % 8 * w + k / 8 * l->stride
               : row % 8 * 2 + row / 8 * l->stride + k % 8 * 16 + k / 8 * l->leading;
    else
        at = row % 8 * (w ? w : 16) + row / 8 * l->stride +
             (w ? k * bits / 8 : k * bits / 8 % 16 + k * bits / 8 / 16 * l->leading);
    at += begin;
    if (w) at ^= at / 128 % (w / 16) * 16;
    return at;
}

static inline uint64_t wgmma_descriptor(const struct wgmma_layout *l, unsigned address, unsigned base) {
    uint64_t mode = l->swizzle == 128 ? 1 : l->swizzle == 64 ? 2 : l->swizzle == 32 ? 3 : 0;
    return (uint64_t)((address & 0x3FFFF) >> 4) | (uint64_t)(l->leading >> 4) << 16 | (uint64_t)(l->stride >> 4) << 32 |
           (uint64_t)base << 49 | mode << 62;
}

/* ---- contents ---- */
struct wgmma_data {
    uint8_t image[WG_IMAGE];
    uint32_t registers[WG_THREADS][WG_WORDS];                /* a thread's A, then D */
    uint64_t descriptors[2 * WG_STEPS];                      /* A, B of each step, from the image's beginning */
    uint32_t a[WG_STEPS][WG_ROWS][32], b[WG_STEPS][256][32]; /* elements' bits */
    uint32_t d[WG_ROWS][256];
};

static inline uint64_t wgmma_random(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Bits of a number of a floating type with so many bits of fraction and exponent. */
static inline uint32_t wgmma_float(unsigned fraction, unsigned exponents, char contents, uint64_t r) {
    uint32_t low = (uint32_t)r & ((1u << fraction) - 1), e = (uint32_t)(r >> 33), top = (1u << exponents) - 1;
    uint32_t sign = contents == 'p' ? 0 : (uint32_t)(r >> 63), middle = top / 2;
    if (contents == 'r') return (uint32_t)r & (uint32_t)((2ull << (fraction + exponents)) - 1);
    if (contents == 'z' && e % 4) return sign << (fraction + exponents); /* most are zero */
    if (contents == 's')
        e = e / 4 % 3; /* many subnormal */
    else if (contents == 'f' || contents == 'p')
        e = middle - 3 + e / 4 % 6;
    else
        e = exponents == 8 ? middle - 12 + e / 4 % 24 : e / 4 % top; /* 'w', 'z': wide */
    return sign << (fraction + exponents) | e << fraction | low;
}

/* of a type: contents as in struct wgmma_case */
static inline uint32_t wgmma_number(const char *type, char contents, uint64_t r) {
    if (!strncmp(type, "f16", 3)) return wgmma_float(10, 5, contents, r);
    if (!strncmp(type, "bf16", 4)) return wgmma_float(7, 8, contents, r);
    if (!strncmp(type, "e4m3", 4)) return wgmma_float(3, 4, contents, r);
    if (!strncmp(type, "e5m2", 4)) return wgmma_float(2, 5, contents, r);
    if (!strncmp(type, "s32", 3)) return (uint32_t)r;
    if (type[0] == 's' || type[0] == 'u') return (uint32_t)r & 0xFF;
    return wgmma_float(23, 8, contents == 's' ? 'z' : contents, r);
}

static inline void wgmma_fill(const struct wgmma_case *c, uint64_t seed, struct wgmma_data *data) {
    const char *a_type = strchr(c->types, '.') + 1, *b_type = strchr(a_type, '.') + 1;
    unsigned bits = wgmma_bits(c), bytes = bits / 8, depth = wgmma_depth(c);
    bool half = !strncmp(c->types, "f16", 3);
    struct wgmma_layout la = wgmma_layout_of(WG_ROWS, c->swizzle_a, c->trans_a, c->steps),
                        lb = wgmma_layout_of(c->columns, c->swizzle_b, c->trans_b, c->steps);
    struct wgmma_layout described = lb;
    if (c->leading) described.leading = c->leading;
    unsigned b_at = (la.bytes + 1023) / 1024 * 1024 + c->skew;
    memset(data, 0, sizeof *data);
    for (unsigned s = 0; s < c->steps; s++) {
        unsigned a_slice = wgmma_slice(&la, WG_ROWS, c->trans_a, s),
                 b_slice = wgmma_slice(&lb, c->columns, c->trans_b, s);
        for (unsigned row = 0; row < WG_ROWS; row++)
            for (unsigned k = 0; k < depth; k++) {
                /* fragments of A in registers are the same for each step */
                uint32_t v =
                    c->registers && s ? data->a[0][row][k] : wgmma_number(a_type, c->contents, wgmma_random(&seed));
                data->a[s][row][k] = v;
                memcpy(data->image + wgmma_byte(&la, c->trans_a, bits, a_slice, row, k), &v, bytes);
                if (c->registers && !s) {
                    unsigned at = k * bytes, t = row / 16 * 32 + row % 8 * 4 + at % 16 / 4;
                    data->registers[t][row % 16 / 8 + at / 16 * 2] |= v << at % 4 * 8;
                }
            }
        for (unsigned n = 0; n < c->columns; n++)
            for (unsigned k = 0; k < depth; k++) {
                uint32_t v = data->b[s][n][k] = wgmma_number(b_type, c->contents, wgmma_random(&seed));
                memcpy(data->image + b_at + wgmma_byte(&lb, c->trans_b, bits, b_slice, n, k), &v, bytes);
            }
        data->descriptors[2 * s] = wgmma_descriptor(&la, a_slice, 0);
        data->descriptors[2 * s + 1] = wgmma_descriptor(&described, b_at + b_slice, c->base);
    }
    for (unsigned row = 0; row < WG_ROWS; row++)
        for (unsigned n = 0; n < c->columns; n++) {
            uint32_t v = data->d[row][n] = wgmma_number(c->types, c->contents, wgmma_random(&seed));
            unsigned t = row / 16 * 32 + row % 8 * 4 + n % 8 / 2, below = row % 16 / 8;
            if (half)
                data->registers[t][4 + n / 8 * 2 + below] |= v << n % 2 * 16;
            else
                data->registers[t][4 + n / 8 * 4 + below * 2 + n % 2] = v;
        }
}

/* Element (row, n) of what a kernel left. */
static inline uint32_t wgmma_result(const struct wgmma_case *c, const uint32_t (*out)[WG_OUT], unsigned row,
                                    unsigned n) {
    unsigned t = row / 16 * 32 + row % 8 * 4 + n % 8 / 2, below = row % 16 / 8;
    if (!strncmp(c->types, "f16", 3)) return out[t][n / 8 * 2 + below] >> n % 2 * 16 & 0xFFFF;
    return out[t][n / 8 * 4 + below * 2 + n % 2];
}

/* ---- the kernel ---- */
#define WGMMA_HEAD ".version 8.4\n.target sm_90a\n.address_size 64\n"

static inline void wgmma_add(char *text, const char *format, unsigned value) {
    size_t used = strlen(text);
    snprintf(text + used, WG_TEXT - used, format, value);
}

/* One instruction: descriptors in A and B, scale-d in p. */
static inline void wgmma_instruction(const struct wgmma_case *c, char *text) {
    bool integer = c->types[0] == 's', sixteen = wgmma_bits(c) == 16;
    wgmma_add(text, "wgmma.mma_async.sync.aligned.m64n%u", c->columns);
    wgmma_add(text, "k%u.", wgmma_depth(c));
    size_t used = strlen(text);
    snprintf(text + used, WG_TEXT - used, "%s {", c->types);
    for (unsigned i = 0; i < wgmma_results(c); i++)
        wgmma_add(text, i ? ", d%u" : "d%u", i);
    strcat(text, c->registers ? "}, {a0, a1, a2, a3}, B, p" : "}, A, B, p");
    if (!integer) strcat(text, c->negate_a ? ", -1" : ", 1");
    if (!integer) strcat(text, c->negate_b ? ", -1" : ", 1");
    if (sixteen && !c->registers) strcat(text, c->trans_a ? ", 1" : ", 0");
    if (sixteen) strcat(text, c->trans_b ? ", 1" : ", 0");
    strcat(text, ";\n");
}

static inline void wgmma_kernel(const struct wgmma_case *c, char *text) {
    const char *kind = !strncmp(c->types, "f32", 3) ? ".f32" : ".b32";
    snprintf(text, WG_TEXT,
             WGMMA_HEAD
             ".extern .shared .align 1024 .b8 tile[];\n"
             ".visible .entry f(.param .u64 image, .param .u64 registers, .param .u64 out, .param .u64 "
             "descriptors) {\n"
             ".reg .b32 t, u, s, n, a<4>; .reg .b32 v<4>; .reg %s d<128>; .reg .b64 I, R, O, D, X, A, B, S, T; "
             ".reg .pred p, q;\n"
             "ld.param.u64 I, [image]; ld.param.u64 R, [registers]; ld.param.u64 O, [out]; ld.param.u64 D, "
             "[descriptors];\n"
             "mov.u32 t, %%tid.x; mov.u32 s, tile; cvt.u64.u32 T, s; and.b64 T, T, 0x3FFFF; shr.u64 T, T, 4;\n"
             "shl.b32 u, t, 4; cvt.u64.u32 X, u; add.u64 I, I, X; add.u32 s, s, u; mov.u32 n, 0;\n"
             "FILL: ld.global.v4.b32 {v0, v1, v2, v3}, [I]; st.shared.v4.b32 [s], {v0, v1, v2, v3};\n"
             "add.u64 I, I, 2048; add.u32 s, s, 2048; add.u32 n, n, 2048; setp.lt.u32 q, n, %u; @q bra FILL;\n"
             "mul.wide.u32 X, t, %u; add.u64 R, R, X; mul.wide.u32 X, t, 512; add.u64 O, O, X;\n"
             "ld.global.v4.b32 {a0, a1, a2, a3}, [R];\n",
             kind, (unsigned)WG_IMAGE, (unsigned)WG_WORDS * 4);
    for (unsigned i = 0; i < wgmma_results(c); i++) {
        wgmma_add(text, "ld.global.b32 d%u, ", i);
        wgmma_add(text, "[R+%u];\n", 16 + 4 * i);
    }
    strcat(text, "fence.proxy.async; bar.sync 0; wgmma.fence.sync.aligned; mov.u32 n, 0;\nAGAIN:\n");
    for (unsigned s = 0; s < c->steps; s++) {
        wgmma_add(text, "ld.global.u64 A, [D+%u]; ", 16 * s);
        wgmma_add(text, "ld.global.u64 B, [D+%u]; add.u64 A, A, T; add.u64 B, B, T;\n", 16 * s + 8);
        strcat(text, c->fresh && s == 0 ? "setp.ne.u32 p, n, 0;\n" : "setp.eq.u32 p, n, n;\n");
        wgmma_instruction(c, text);
    }
    wgmma_add(text, "add.u32 n, n, 1; setp.lt.u32 q, n, %u; @q bra AGAIN;\n", c->repeats);
    strcat(text, "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n");
    for (unsigned i = 0; i < wgmma_results(c); i++) {
        wgmma_add(text, "st.global.b32 [O+%u], ", 4 * i);
        wgmma_add(text, "d%u;\n", i);
    }
    strcat(text, "ret; }\n");
}

#endif
