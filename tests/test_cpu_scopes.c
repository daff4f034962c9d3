/* test_cpu_scopes.c - data races of global memory that hang on scopes and strength: fences order those threads alone
 * that their scope holds; a plain store stays one under the atomics that follow it. */
#include "tests/cpu_world.h"

enum { SEEDS = 24 };

/* Block 0 stores and counts on the same word, block 1 counts, or looks: what its own atomic hides, races. */
START_TEST(an_atomic_does_not_hide_the_plain_store_before_it) {
    static const char text[] =
        PTX_HEAD ".visible .entry f(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {\n"
                 ".reg .b64 A; .reg .b32 u, v; .reg .pred p;\n"
                 "ld.param.u64 A, [a]; mov.u32 u, %%tid.x; setp.ne.u32 p, u, 0; @p exit;\n"
                 "mov.u32 u, %%ctaid.x; setp.ne.u32 p, u, 0; @p bra OTHER;\n"
                 "st.global.u32 [A], 5;\natom.relaxed.gpu.global.add.u32 v, [A], 1; ret;\n"
                 "OTHER: WAIT: setp.eq.u32 p, u, 200; add.u32 u, u, 1; @!p bra WAIT;\n"
                 "%s\nret; }\n";
    static const char *const others[] = {"atom.relaxed.gpu.global.add.u32 v, [A], 2;",
                                         "ld.relaxed.gpu.global.u32 v, [A];"};
    unsigned races = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char with[2000];
        snprintf(with, sizeof with, text, others[_i]);
        machine_with(adverse(1, 2, seed));
        launch(function_of_text(with, "f"), 2, 32, NULL, false, words(192, 0), 0, 0, 0);
        if (!cpu_ctx_synchronize()) continue;
        report_says((const char *[]){"data race", "`st.global.u32 [A], 5;`", NULL});
        races++;
    }
    ck_assert_uint_ge(races, _i ? 6 : SEEDS - 4);
}
END_TEST

/* ---- scopes of fences ------------------------------------------------------------------------------- */
enum among { WARPS, CLUSTER, CTAS };

/* Thread 0 writes A, then the flag B; thread 1 waits for B, then C = A: of a block, of a cluster, of a grid. */
static cu_result tell_by_fences(enum among among, const char *writer, const char *reader, uint64_t seed,
                                uint32_t *result) {
    char text[2000];
    snprintf(text, sizeof text,
             PTX_HEAD ".visible .entry f(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)%s {\n"
                      ".reg .b64 A, B, C; .reg .b32 t, n, u, v; .reg .pred p;\n"
                      "ld.param.u64 A, [a]; ld.param.u64 B, [b]; ld.param.u64 C, [c];\n"
                      "mov.u32 t, %%tid.x; and.b32 u, t, 31; setp.ne.u32 p, u, 0; @p exit;\n"
                      "shr.u32 n, t, 5; mov.u32 t, %%ctaid.x; add.u32 n, n, t; setp.eq.u32 p, n, 1; @p bra R;\n"
                      "st.global.u32 [A], 7; %s\nst.relaxed.gpu.global.u32 [B], 1; ret;\n"
                      "R: ld.relaxed.gpu.global.u32 u, [B]; setp.eq.u32 p, u, 0; @p bra R;\n"
                      "%s\nld.global.u32 v, [A]; st.global.u32 [C], v; ret; }\n",
             among == CLUSTER ? " .explicitcluster .reqnctapercluster 2" : "", writer, reader);
    machine_with(adverse(1, 2, seed));
    cu_ptr at = words(192, 0);
    launch(function_of_text(text, "f"), among == WARPS ? 1 : 2, among == WARPS ? 64 : 32, NULL, false, at, at + 256,
           at + 512, 0);
    cu_result ends = cpu_ctx_synchronize();
    *result = ends ? 0 : word_at(at + 512);
    return ends;
}

static const struct {
    const char *writer, *reader;
    enum among widest; /* that the fences order */
} fences[] = {
    {"fence.acq_rel.cta;", "fence.acq_rel.cta;", WARPS},
    {"membar.cta;", "membar.cta;", WARPS},
    {"fence.acq_rel.gpu;", "fence.acq_rel.cta;", WARPS},
    {"fence.acq_rel.cta;", "fence.acq_rel.gpu;", WARPS},
    {"fence.sc.cta;", "fence.sc.sys;", WARPS},
    {"fence.sc.gpu;", "fence.sc.cta;", WARPS},
    {"fence.acq_rel.cluster;", "fence.sc.cluster;", CLUSTER},
    {"fence.acq_rel.gpu;", "fence.acq_rel.cluster;", CLUSTER},
    {"fence.acq_rel.gpu;", "membar.gl;", CTAS},
    {"fence.sc.sys;", "fence.acq_rel.gpu;", CTAS},
};
enum { FENCES = sizeof fences / sizeof fences[0] };

START_TEST(a_fence_orders_those_that_its_scope_holds_and_no_others) {
    for (int among = WARPS; among <= CTAS; among++) {
        bool ordered = among <= (int)fences[_i].widest;
        unsigned races = 0;
        for (uint64_t seed = 0; seed < 10; seed++) {
            uint32_t result = 0;
            if (tell_by_fences((enum among)among, fences[_i].writer, fences[_i].reader, seed, &result)) {
                report_says((const char *[]){"data race", "`st.global.u32 [A], 7;`", "`ld.global.u32 v, [A];`", NULL});
                races++;
            } else if (ordered) {
                ck_assert_uint_eq(result, 7);
            }
        }
        ck_assert_msg(ordered ? !races : races >= 3, "%s %s: %u races of 10 among %d; %s", fences[_i].writer,
                      fences[_i].reader, races, among, dcpkcpu_report());
    }
}
END_TEST

/* What another block has released by its wide fence, a narrow one tells the own block. */
START_TEST(what_a_wide_fence_has_acquired_a_narrow_one_passes_on) {
    static const char text[] =
        PTX_HEAD ".visible .entry f(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {\n"
                 ".reg .b64 A, B, C; .reg .b32 t, u, v; .reg .pred p;\n"
                 "ld.param.u64 A, [a]; ld.param.u64 B, [b]; ld.param.u64 C, [c];\n"
                 "mov.u32 t, %tid.x; and.b32 u, t, 31; setp.ne.u32 p, u, 0; @p exit;\n"
                 "mov.u32 u, %ctaid.x; setp.ne.u32 p, u, 0; @p bra OTHER; setp.ne.u32 p, t, 0; @p exit;\n"
                 "st.global.u32 [A], 7; fence.acq_rel.gpu; red.relaxed.gpu.global.add.u32 [B], 1; ret;\n"
                 "OTHER: setp.ne.u32 p, t, 0; @p bra Q;\n"
                 "P: atom.relaxed.gpu.global.add.u32 u, [B], 0; setp.eq.u32 p, u, 0; @p bra P;\n"
                 "fence.acq_rel.gpu; fence.acq_rel.cta; st.relaxed.cta.global.u32 [B+128], 1; ret;\n"
                 "Q: ld.relaxed.cta.global.u32 u, [B+128]; setp.eq.u32 p, u, 0; @p bra Q;\n"
                 "fence.acq_rel.cta; ld.global.u32 v, [A]; st.global.u32 [C], v; ret; }\n";
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        machine_with(adverse(1, 2, seed));
        cu_ptr at = words(192, 0);
        launch(function_of_text(text, "f"), 2, 64, NULL, false, at, at + 256, at + 512, 0);
        OK(cpu_ctx_synchronize());
        ck_assert_uint_eq(word_at(at + 512), 7);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_scopes");
    TCase *tests = tcase_create("scopes");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, an_atomic_does_not_hide_the_plain_store_before_it, 0, 2);
    tcase_add_loop_test(tests, a_fence_orders_those_that_its_scope_holds_and_no_others, 0, FENCES);
    tcase_add_test(tests, what_a_wide_fence_has_acquired_a_narrow_one_passes_on);
    return run_suite(suite);
}
