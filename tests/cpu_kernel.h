/* cpu_kernel.h - what the suites of mbarriers, bulk copies, tensor maps and clusters share: one kernel around a body.
 *
 * The body finds: t (thread), l (lane), r (CTA of the cluster), b (block); O and I, the parameters out and in; N, M,
 * the parameters n and m; bars, 16 mbarriers; tile, 32 KB at a multiple of 1024; predicates p (t = 0), q, pr, ps; words
 * u v w x y z c, 64-bit A to H, 16-bit h. Word n of `in` is 0x01000000 + n; `out` is all 0xEEEEEEEE before. */
#ifndef DCPK_TESTS_CPU_KERNEL_H
#define DCPK_TESTS_CPU_KERNEL_H

#include "tests/cpu_snippet.h"

enum { WORDS = 32768, OUT_BEFORE = 0xEEEEEEEE };
static uint32_t source[WORDS], result[WORDS];
static cu_ptr in_at, out_at;

static inline void prepare(dcpkcpu_options options) {
    machine_with(options);
    for (uint32_t i = 0; i < WORDS; i++)
        source[i] = 0x01000000 + i;
    in_at = words(WORDS, 0);
    out_at = words(WORDS, OUT_BEFORE);
    OK(cpu_copy_to_device(in_at, source, sizeof source));
}

static inline char *kernel_of(const char *body) {
    char *text = NULL;
    ck_assert_int_ge(
        asprintf(&text,
                 ".version 8.6\n.target sm_90a\n.address_size 64\n.shared .align 8 .b64 bars[16];\n"
                 ".shared .align 1024 .b8 tile[32768];\n"
                 ".visible .entry f(.param .u64 out, .param .u64 in, .param .u64 n, .param .u64 m,\n"
                 "    .param .align 64 .b8 map[128], .param .align 64 .b8 map2[128]) {\n"
                 ".reg .b32 t, l, r, b, u, v, w, x, y, z, c; .reg .b64 O, I, N, M, A, B, C, D, E, F, G, H;\n"
                 ".reg .pred p, q, pr, ps; .reg .b16 h;\n"
                 "ld.param.u64 O, [out]; ld.param.u64 I, [in]; ld.param.u64 N, [n]; ld.param.u64 M, [m];\n"
                 "mov.u32 t, %%tid.x; mov.u32 l, %%laneid; mov.u32 r, %%cluster_ctarank; mov.u32 b, %%ctaid.x;\n"
                 "setp.eq.u32 p, t, 0;\n%s\nret; }\n",
                 body),
        0);
    return text;
}

struct shape {
    unsigned blocks, threads, cluster; /* cluster 0: no attribute */
};
static cu_tensor_map maps[2];

/* The result of the call that waits; then `result` holds out. */
static inline cu_result run_shaped(const char *body, struct shape shape, uint64_t n, uint64_t m) {
    char *text = kernel_of(body);
    void *parameters[] = {&out_at, &in_at, &n, &m, &maps[0], &maps[1]};
    cu_launch_attribute attribute = {.id = DRIVER_LAUNCH_CLUSTER};
    attribute.value.cluster.x = shape.cluster;
    attribute.value.cluster.y = attribute.value.cluster.z = 1;
    cu_launch_config config = {.grid = {shape.blocks, 1, 1},
                               .block = {shape.threads, 1, 1},
                               .attributes = &attribute,
                               .attribute_count = shape.cluster != 0};
    OK(cpu_launch(&config, function_of_text(text, "f"), parameters, NULL));
    free(text);
    cu_result status = cpu_ctx_synchronize();
    if (!status) OK(cpu_copy_to_host(result, out_at, sizeof result));
    return status;
}

static inline cu_result run(const char *body, unsigned blocks, unsigned threads, uint64_t n) {
    return run_shaped(body, (struct shape){blocks, threads, 0}, n, 0);
}

/* A body, and what becomes of it: a fault whose report says this, or result[0]. */
struct outcome {
    const char *body, *says;
    uint32_t want;
};

static inline void expect(const struct outcome *row, struct shape shape) {
    for (uint64_t seed = 0; seed < 4; seed++) {
        prepare(seed ? adverse(1, 4, seed) : fair(1, 4));
        cu_result status = run_shaped(row->body, shape, 0, 0);
        if (row->says) {
            ck_assert_msg(status != 0, "no fault (seed %d): %s", (int)seed, row->body);
            says(dcpkcpu_report(), row->says);
            continue;
        }
        ck_assert_msg(status == 0, "%s: %s", row->body, dcpkcpu_report());
        ck_assert_msg(result[0] == row->want, "%s: %08x (seed %d)", row->body, result[0], (int)seed);
    }
}

/* A text that the loader refuses, saying so. */
static inline void expect_refusal(const char *body, const char *part) {
    machine_with(fair(1, 1));
    char *text = kernel_of(body);
    says(refusal(text), part);
    free(text);
}

#define SHOW(word) " st.global.u32 [O], " word "; "
/* Waits for a parity of an mbarrier; label unlike others of the body. */
#define WAIT(label, bar, parity)                                                                                       \
    label ": mbarrier.try_wait.parity.shared::cta.b64 q, [" bar "], " parity "; @!q bra " label "; "

#endif
