/* test_cpu_speed.c - thread-instructions a second on loops of one kind: printed, not asserted; what the loops compute
 * is asserted. */
#include "tests/cpu_world.h"

#define ENTRY                                                                                                          \
    ".visible .entry f(.param .u64 a, .param .u64 n, .param .u64 c, .param .u64 d) { .reg .b32 %r<32>; .reg .f32 "     \
    "%f<32>; .reg .b64 %A<16>; .reg .b16 %h<8>; .reg .pred %p<4>;\n"                                                   \
    "ld.param.u64 %A0, [a]; ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x; mov.u32 %r2, %r1; cvt.rn.f32.u32 %f1, %r1; "   \
    "mov.f32 %f2, 0f3F800000; mul.wide.u32 %A1, %r1, 16; add.u64 %A1, %A0, %A1;\n"                                     \
    ".shared .align 16 .b8 box[16384]; .shared .align 8 .b64 gate; mov.u32 %r20, box; shl.b32 %r21, %r1, 4; add.u32 "  \
    "%r20, %r20, %r21; mov.u32 "                                                                                       \
    "%r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0; mov.f32 %f4, 0f00000000; mov.f32 %f5, %f4;\n"         \
    "mov.f32 %f6, %f4; mov.f32 %f7, %f4; st.shared.v4.u32 [%r20], {%r10, %r10, %r10, %r10}; bar.sync 0;\nL:\n"
#define END                                                                                                            \
    "sub.u32 %r0, %r0, 1; setp.ne.u32 %p1, %r0, 0; @%p1 bra L;\ncvt.rzi.u32.f32 %r3, %f2; add.u32 %r3, %r3, %r2; "     \
    "st.global.u32 [%A1], %r3; ret; }\n"

static const struct kind {
    const char *name, *body;
    unsigned n;
} kinds[] = {
    {"integer",
     "add.u32 %r2, %r2, 3; xor.b32 %r4, %r2, %r1; shl.b32 %r5, %r4, 2; and.b32 %r6, %r5, 255; add.u32 %r7, %r6, %r4; "
     "mad.lo.u32 %r8, %r7, %r6, %r5; min.u32 %r9, %r8, %r7;\n",
     4000},
    {"f32",
     "fma.rn.f32 %f3, %f1, %f2, %f2; mul.f32 %f4, %f3, %f1; add.f32 %f5, %f4, %f3; sub.f32 %f6, %f5, %f4; max.f32 %f7, "
     "%f6, %f5; add.u32 %r2, %r2, 1;\n",
     4000},
    {"f32 .ftz",
     "fma.rn.ftz.f32 %f3, %f1, %f2, %f2; mul.ftz.f32 %f4, %f3, %f1; add.ftz.f32 %f5, %f4, %f3; sub.ftz.f32 %f6, %f5, "
     "%f4; add.u32 %r2, %r2, 1;\n",
     4000},
    {"u64 addresses",
     "add.u64 %A2, %A1, 64; mul.wide.u32 %A3, %r2, 8; add.u64 %A4, %A2, %A3; shr.u64 %A5, %A4, 3; cvt.u32.u64 %r4, "
     "%A5; add.u32 %r2, %r2, 1;\n",
     4000},
    {"predicates",
     "setp.lt.u32 %p2, %r2, 100; selp.b32 %r4, %r2, 5, %p2; @%p2 add.u32 %r5, %r4, 1; setp.eq.f32 %p3, %f1, %f2; "
     "add.u32 %r2, %r2, 1;\n",
     4000},
    {"bf16 pairs",
     "cvt.rn.bf16x2.f32 %r4, %f1, %f2; mov.b32 {%h1, %h2}, %r4; shl.b32 %r5, %r4, 16; mov.b32 %f3, %r5; add.u32 %r2, "
     "%r2, 1;\n",
     4000},
    {"fp8 pairs", "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; cvt.rn.f16x2.e4m3x2 %r4, %h1; add.u32 %r2, %r2, 1;\n",
     1000},
    {"ex2, rcp", "ex2.approx.ftz.f32 %f3, %f1; rcp.approx.ftz.f32 %f4, %f3; add.u32 %r2, %r2, 1;\n", 1000},
    {"shared",
     "st.shared.v4.u32 [%r20], {%r2, %r1, %r2, %r1}; ld.shared.u32 %r4, [%r20]; ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, "
     "[%r20]; add.u32 %r2, %r4, 1;\n",
     2000},
    {"global",
     "ld.global.u32 %r4, [%A1]; ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%A1]; st.global.u32 [%A1+4], %r2; add.u32 %r2, "
     "%r2, 1;\n",
     2000},
    {"shuffles",
     "shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1; shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1; sub.u32 %r5, %r5, %r2; add.u32 "
     "%r2, %r2, 1; add.u32 %r2, %r2, %r5;\n",
     2000},
    {"ldmatrix", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r20]; add.u32 %r2, %r2, 1;\n", 1000},
    {"cp.async",
     "cp.async.cg.shared.global [%r20], [%A1], 16; cp.async.commit_group; cp.async.wait_group 0; ld.shared.v4.u32 "
     "{%r5, "
     "%r6, %r7, %r8}, [%r20]; bar.sync 0; add.u32 %r2, %r2, 1;\n",
     500},
    {"shared, mbarrier",
     "mov.u32 %r9, 16; setp.eq.u32 %p2, %r1, 0; setp.eq.and.u32 %p3, %r2, %r1, %p2; @%p3 mbarrier.init.shared.b64 "
     "[gate], 1; st.shared.v4.u32 [%r20], {%r2, %r1, %r2, %r1}; ld.shared.u32 %r4, [%r20]; ld.shared.v4.u32 {%r5, %r6, "
     "%r7, %r8}, [%r20]; add.u32 %r2, %r4, 1;\n",
     2000},
    {"bulk copies", /* 4 KB a block and turn */
     "setp.eq.u32 %p2, %r1, 0; setp.eq.and.u32 %p3, %r2, %r1, %p2; @%p3 mbarrier.init.shared.b64 [gate], 1; bar.sync "
     "0; "
     "sub.u32 %r9, %r2, %r1; and.b32 %r9, %r9, 1; @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [gate], 4096; @%p2 "
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%A0], 4096, [gate]; "
     "{ W: mbarrier.try_wait.parity.shared.b64 %p3, [gate], %r9; @!%p3 bra W; } ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, "
     "[%r20]; bar.sync 0; add.u32 %r2, %r2, 1;\n",
     500},
    {"mma",
     "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, %f7}, {%r10, %r11, %r12, %r13}, {%r10, "
     "%r11}, {%f4, %f5, %f6, %f7}; add.u32 %r2, %r2, 1;\n",
     1000},
};

START_TEST(loops_of_one_kind_at_speed) {
    const struct kind *k = &kinds[_i];
    char *text = NULL;
    machine_with(fair(1, 8));
    ck_assert_int_ge(asprintf(&text, "%s%s%s", PTX_HEAD ENTRY, k->body, END), 0);
    cu_ptr at = words(4 * 1024, 0);
    cu_function f = function_of_text(text, "f");
    dcpkcpu_counters before = counters_now();
    double begin = processor_seconds();
    launch(f, 8, 256, NULL, false, at, k->n, 0, 0);
    OK(cpu_ctx_synchronize());
    double seconds = processor_seconds() - begin;
    dcpkcpu_counters after = counters_now();
    printf("%-16s %8.0f M thread-instructions/s, %6.1f ns a warp instruction\n", k->name,
           (double)(after.thread_instructions - before.thread_instructions) / seconds * 1e-6,
           seconds * 1e9 / (double)(after.warp_instructions - before.warp_instructions));
    uint32_t step = !strcmp(k->name, "integer") ? 3 : 1;
    for (uint32_t t = 0; t < 256; t += 51)
        ck_assert_uint_eq(word_at(at + 16 * t), 1 + t + step * k->n);
    free(text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_speed");
    TCase *tcase = tcase_create("speed");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, loops_of_one_kind_at_speed, 0, (int)(sizeof kinds / sizeof kinds[0]));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
