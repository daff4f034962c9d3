/* cpu_snippet.h - what the suites of the CPU device's execution share: a PTX snippet run over an array of inputs.
 *
 * A snippet computes from A B C X (64 bits; a b c x the low words, ha hb hc the low halves) into D and E, d, hd or the
 * predicates p and q. Expected values are computed in the suites, in C. */
#ifndef DCPK_TESTS_CPU_SNIPPET_H
#define DCPK_TESTS_CPU_SNIPPET_H

#include "tests/cpu_world.h"

struct snippet_in {
    uint64_t a, b, c, x;
};
struct snippet_out {
    uint64_t d, e;
};

/* kind: what the snippet leaves: 'l' D and E, 'w' d (and e), 'h' hd, 'p' predicates p (and q) */
static inline void evaluate(const char *snippet, char kind, const struct snippet_in *in, struct snippet_out *out,
                            size_t count) {
    static const char head[] = PTX_HEAD
        ".visible .entry f(.param .u64 in, .param .u64 out, .param .u64 n, .param .u64 unused) {\n"
        ".reg .b64 A, B, C, X, D, E, F, from, to, count; .reg .b32 a, b, c, x, d, e, f, g, thread, blk;\n"
        ".reg .b16 ha, hb, hc, hd, he, hf, hg; .reg .pred p, q, r, s;\n"
        "ld.param.u64 from, [in]; ld.param.u64 to, [out]; ld.param.u64 count, [n];\n"
        "mov.u32 thread, %ntid.x; mov.u32 blk, %ctaid.x; mul.lo.u32 blk, blk, thread; mov.u32 thread, %tid.x;\n"
        "add.u32 thread, thread, blk; cvt.u64.u32 D, thread; setp.ge.u64 p, D, count; @p exit;\n"
        "shl.b64 E, D, 5; add.u64 from, from, E; shl.b64 E, D, 4; add.u64 to, to, E;\n"
        "ld.global.v2.u64 {A, B}, [from]; ld.global.v2.u64 {C, X}, [from+16];\n"
        "cvt.u32.u64 a, A; cvt.u32.u64 b, B; cvt.u32.u64 c, C; cvt.u32.u64 x, X;\n"
        "cvt.u16.u64 ha, A; cvt.u16.u64 hb, B; cvt.u16.u64 hc, C;\n"
        "mov.u64 D, 0; mov.u64 E, 0; mov.u32 d, 0; mov.u32 e, 0; setp.ne.u32 q, a, a; setp.ne.u32 r, a, a;\n";
    const char *tail = kind == 'w'   ? "cvt.u64.u32 D, d; cvt.u64.u32 E, e;\n"
                       : kind == 'h' ? "cvt.u64.u16 D, hd;\n"
                       : kind == 'p' ? "selp.u64 D, 1, 0, p; selp.u64 E, 1, 0, q;\n"
                                     : "";
    char *text = NULL;
    ck_assert_int_ge(asprintf(&text, "%s{ %s }\n%sst.global.v2.u64 [to], {D, E}; ret; }\n", head, snippet, tail), 0);
    cu_ptr from = 0, to = 0;
    OK(cpu_mem_alloc(&from, count * sizeof *in));
    OK(cpu_mem_alloc(&to, count * sizeof *out));
    OK(cpu_copy_to_device(from, in, count * sizeof *in));
    launch(function_of_text(text, "f"), (unsigned)((count + 127) / 128), 128, NULL, false, from, to, count, 0);
    OK(cpu_copy_to_host(out, to, count * sizeof *out));
    OK(cpu_mem_free(from));
    OK(cpu_mem_free(to));
    free(text);
}

static inline uint64_t next_random(uint64_t *state) {
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline float float_of_bits(uint64_t bits) {
    float v;
    uint32_t narrow = (uint32_t)bits;
    memcpy(&v, &narrow, 4);
    return v;
}

static inline uint64_t bits_of_float(float v) {
    uint32_t bits;
    memcpy(&bits, &v, 4);
    return bits;
}

static inline double double_of_bits(uint64_t bits) {
    double v;
    memcpy(&v, &bits, 8);
    return v;
}

static inline uint64_t bits_of_double(double v) {
    uint64_t bits;
    memcpy(&bits, &v, 8);
    return bits;
}

/* A kernel that must be refused at load, or fault when run; what the report then says. */
static inline const char *refusal(const char *ptx) {
    cu_library library = NULL;
    ck_assert_int_ne(cpu_library_load(&library, ptx, NULL, NULL, 0, NULL, NULL, 0), 0);
    return dcpkcpu_report();
}

static inline void says(const char *report, const char *part) {
    ck_assert_msg(strstr(report, part) != NULL, "no `%s` in: %s", part, report);
}

#endif
