/* test_cpu_wgmma_rules.c - what wgmma asks of its warpgroup: forms that are refused, registers and shared bytes that
 * nobody may touch meanwhile, fences, who must be there; and that what is allowed runs, under any seed. */
#include "tests/cpu_snippet.h"

#define HEAD ".version 8.4\n.target sm_90a\n.address_size 64\n"
enum { SEEDS = 20 };

/* A is 64 rows of 32 bytes at tile, B 8 rows at tile + 2048, K-major without swizzle: 8 x 16 bytes, the next 8 rows 128
 * bytes on, the second half of K behind all rows. t: the thread, w: its warp, s: its 16 bytes of tile; g: 4 KB of
 * global memory; bar: an mbarrier for one arrival, and full with more. */
#define SETUP                                                                                                          \
    ".shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 bar; .shared .align 8 .b64 full;\n"                     \
    ".reg .f32 d<4>, e<4>, f; .reg .b32 a<4>, h<2>, t, w, s, u, v; .reg .b64 A, B, O, G, X; .reg .pred p, q, r;\n"     \
    "ld.param.u64 O, [out]; ld.param.u64 G, [g]; mov.u32 t, %tid.x; shr.u32 w, t, 5; shl.b32 s, t, 4; mov.u32 u, "     \
    "tile;\n"                                                                                                          \
    "shr.u32 v, u, 4; cvt.u64.u32 X, v; mov.u64 A, 0x800400000; shl.b64 A, A, 0; or.b64 A, X, 0x0000000800400000;\n"   \
    "add.u64 B, X, 128; or.b64 B, B, 0x0000000800080000; add.u32 s, s, u; mov.u32 a0, 0; mov.u32 a1, 0;\n"             \
    "mov.u32 a2, 0; mov.u32 a3, 0; mov.f32 d0, 0f00000000; mov.f32 d1, d0; mov.f32 d2, d0; mov.f32 d3, d0;\n"          \
    "mov.f32 e0, d0; mov.f32 e1, d0; mov.f32 e2, d0; mov.f32 e3, d0; mov.u32 h0, 0; mov.u32 h1, 0;\n"                  \
    "setp.eq.u32 p, t, 0; @p mbarrier.init.shared.b64 [bar], 1; @p mbarrier.init.shared.b64 [full], 128;\n"
#define FILL                                                                                                           \
    "setp.lt.u32 r, t, 128; @r st.shared.v4.b32 [s], {t, t, t, t}; @r st.shared.v4.b32 [s+2048], {t, t, t, t}; "
#define READY FILL "fence.proxy.async; bar.sync 0; "
#define FENCE "wgmma.fence.sync.aligned; "
#define ON(d)                                                                                                          \
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {" d "0, " d "1, " d "2, " d "3}, A, B, 1, 1, 1, 0, 0; "
#define GO ON("d")
#define GO_REGISTERS                                                                                                   \
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d3}, {a0, a1, a2, a3}, B, 1, 1, 1, 0; "
#define GO_EIGHT "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {d0, d1, d2, d3}, A, B, 1, 1, 1; "
#define COMMIT "wgmma.commit_group.sync.aligned; "
#define WAIT(n) "wgmma.wait_group.sync.aligned " n "; "
#define DONE COMMIT WAIT("0")
#define ALL READY FENCE GO DONE
/* in clusters of two: rank is c; far: tile of CTA 0 */
#define CLUSTER                                                                                                        \
    ".reg .b32 c, far; mov.u32 c, %cluster_ctarank; mov.u32 far, tile; mapa.shared::cluster.u32 far, far, 0;"          \
    "setp.ne.u32 q, c, 0; " READY MEET
#define MEET "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; "
#define WAIT_FOR(b) "L" b ": mbarrier.try_wait.parity.shared.b64 r, [" b "], 0; @!r bra L" b "; "

static cu_ptr out_at, g_at;

static cu_result run_in(const char *body, dcpkcpu_options options, unsigned threads) {
    char *text = NULL;
    bool pair = strstr(body, "mapa") != NULL;
    ck_assert_int_ge(
        asprintf(
            &text,
            "%s.visible .entry f(.param .u64 out, .param .u64 g, .param .u64 n, .param .u64 m) %s {\n%s%s\nret; }\n",
            HEAD, pair ? ".reqnctapercluster 2" : "", SETUP, body),
        0);
    machine_with(options);
    out_at = words(4096, 0);
    g_at = words(4096, 0x3C003C00);
    launch(function_of_text(text, "f"), pair ? 2 : 1, threads, NULL, false, out_at, g_at, 0, 0);
    cu_result status = cpu_ctx_synchronize();
    free(text);
    return status;
}

/* ---- what is allowed ---- */
static const char *const allowed[] = {
    ALL "add.f32 f, d0, d1; st.global.f32 [O], f;",
    /* one fence for a chain of one shape, in one group or several */
    READY FENCE GO GO GO COMMIT GO COMMIT WAIT("0") "st.global.f32 [O], d3;",
    /* the older group's accumulators while the newer goes on; a loop that touches none of the newer's */
    READY FENCE ON("d") COMMIT ON("e") COMMIT WAIT("1") "st.global.f32 [O], d0;" WAIT("0") "st.global.f32 [O+4], e0;",
    /* another shape, a fragment, after the wait and a fence */
    ALL FENCE GO_EIGHT DONE "mov.f32 d0, 0f3F800000; mov.u32 a0, t;" FENCE GO_REGISTERS DONE "mov.u32 a0, 0;",
    /* reading a fragment's register under way */
    READY FENCE GO_REGISTERS COMMIT "st.global.u32 [O], a0;" WAIT("0"),
    /* shared bytes: reads meanwhile; others' bytes; after the wait of this warp */
    READY FENCE GO COMMIT
    "ld.shared.u32 u, [s]; @p st.shared.u32 [tile+4096], t;" WAIT("0") "bar.sync 0; st.shared.u32 [s], t;",
    ALL "setp.lt.u32 q, t, 32; @q st.shared.u32 [s], t;",
    /* the wait of one warp of four, passed on by an mbarrier to a warp of another warpgroup */
    READY
    "setp.ge.u32 q, t, 128; @q bra OTHER;" FENCE GO DONE
    "@p mbarrier.arrive.shared.b64 X, [bar]; bra OVER; OTHER: " WAIT_FOR("bar") "st.shared.u32 [tile+64], a3; OVER:",
    /* the same by a named barrier, and by bar.arrive */
    READY "setp.ge.u32 q, t, 128; @q bra OTHER;" FENCE GO DONE
          "bar.arrive 3, 256; bra OVER; OTHER: bar.sync 3, 256; st.shared.u32 [tile+64], a3; OVER:",
    /* and to another CTA of the cluster */
    CLUSTER "@q bra OTHER;" FENCE GO DONE MEET "bra OVER; OTHER: " MEET
            "@p st.shared::cluster.u32 [far+64], t; OVER: " MEET,
    /* a copy into bytes that have been read, and into those that will be */
    ALL "bar.sync 0; cp.async.cg.shared.global [s], [G], 16; cp.async.wait_all; fence.proxy.async; bar.sync 0;" FENCE GO
        DONE,
    READY "@p mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 2048;"
          "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [G], 2048, [full];"
          "mbarrier.arrive.shared.b64 X, [full];" WAIT_FOR("full") FENCE GO DONE,
    /* an empty group; a wait for none */
    READY FENCE COMMIT GO COMMIT COMMIT WAIT("1000") WAIT("2") WAIT("0") "st.global.f32 [O], d0;",
    /* rows of A that nobody has written: the results of the others */
    "setp.lt.u32 q, t, 64; @q st.shared.v4.b32 [s], {a0, a0, a0, a0}; @q st.shared.v4.b32 [s+1024], {a0, a0, a0, a0};"
    "st.shared.v4.b32 [s+2048], {t, t, t, t}; fence.proxy.async; bar.sync 0; or.b64 A, A, 0; " FENCE GO DONE
    "st.global.f32 [O], d0;",
    /* f32 in registers without a type */
    READY FENCE "setp.eq.u32 q, w, 9; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {a0, a1, a2, a3}, A, B, !q, 1, "
                "1, 0, 0;" DONE "st.global.u32 [O], a0;",
    /* integers, halves */
    READY FENCE "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8.satfinite {a0, a1, a2, a3}, A, B, 1;"
                "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {h0, h1}, A, B, 1, 1, -1, 0, 0;" DONE
                "st.global.u32 [O], a0; st.global.u32 [O+4], h0;",
};

START_TEST(what_is_allowed_runs_under_every_seed) {
    unsigned threads = strstr(allowed[_i], "OTHER") ? 256 : 128;
    cu_result status = run_in(allowed[_i], fair(1, 1), threads);
    ck_assert_msg(status == 0, "%s: %s", allowed[_i], dcpkcpu_report());
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        status = run_in(allowed[_i], adverse_with_races(1, 1, seed), threads); /* all write [O] */
        ck_assert_msg(status == 0, "seed %d, %s: %s", (int)seed, allowed[_i], dcpkcpu_report());
    }
}
END_TEST

/* ---- what is not ---- */
static const struct {
    const char *body, *says[3];
    unsigned threads; /* 0: 128 */
} faults[] = {
    /* fences */
    {READY GO, {"the first wgmma.mma_async of a warp needs a wgmma.fence", "wgmma.mma_async"}, 0},
    {READY FENCE "mov.f32 d2, 0f3F800000;" GO DONE,
     {"an accumulator has been read or written since this warp's last wgmma.fence", "PTX line"},
     0},
    {ALL "add.f32 f, d0, d1; st.global.f32 [O], f;" GO DONE, {"an accumulator has been read or written since"}, 0},
    {READY FENCE "mov.u32 a1, t;" GO_REGISTERS DONE, {"a register with a fragment of A has been written since"}, 0},
    /* registers under way */
    {READY FENCE GO COMMIT "add.f32 f, d0, d1;" WAIT("0"),
     {"read of an accumulator of a wgmma under way", "`add.f32 f, d0, d1;`", "it began at kernel f"},
     0},
    {READY FENCE GO "st.global.f32 [O], d3;" DONE, {"read of an accumulator", "number 1 of 0 committed"}, 0},
    {READY FENCE GO COMMIT "mov.f32 d1, 0f00000000;" WAIT("0"), {"write of an accumulator of a wgmma under way"}, 0},
    {READY FENCE GO COMMIT ON("e") COMMIT WAIT("1") "st.global.f32 [O], e0;",
     {"read of an accumulator", "number 2 of 2"},
     0},
    {READY FENCE GO COMMIT "@p mov.f32 d1, 0f00000000;" WAIT("0"), {"write of an accumulator"}, 0},
    {READY FENCE GO_REGISTERS COMMIT "mov.u32 a2, 5;" WAIT("0"), {"write of a register with a fragment of A"}, 0},
    {READY FENCE GO GO_EIGHT DONE, {"use in another shape or place of an accumulator"}, 0},
    {READY FENCE GO_REGISTERS "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {a0, a1, a2, a3}, A, B, 1;" DONE,
     {"use as accumulator of a register with a fragment of A"},
     0},
    {READY FENCE "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {a0, a1, a2, a3}, A, B, 1;" GO_REGISTERS DONE,
     {"use as a fragment of A of an accumulator"},
     0},
    {READY FENCE GO COMMIT, {"exits, and has not waited for its wgmma"}, 0},
    {READY FENCE GO COMMIT WAIT("1"), {"exits, and has not waited for its wgmma"}, 0},
    /* shared bytes under way */
    {READY FENCE GO COMMIT "st.shared.u32 [tile+2048], t;" WAIT("0"),
     {"write of shared bytes that a wgmma under way reads", "(tile + 2048)", "group 1"},
     0},
    {READY FENCE GO COMMIT "@p atom.shared.add.u32 u, [tile+4], 1;" WAIT("0"),
     {"atomic of shared bytes that a wgmma"},
     0},
    {READY FENCE GO COMMIT "cp.async.cg.shared.global [s], [G], 16; cp.async.wait_all;" WAIT("0"),
     {"write of shared bytes that a wgmma under way reads", "`cp.async.cg.shared.global"},
     0},
    {READY FENCE GO COMMIT
     "@p mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 2048;"
     "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [G], 2048, [full];"
     "mbarrier.arrive.shared.b64 X, [full];" WAIT("0") WAIT_FOR("full"),
     {"write of shared bytes that a wgmma", "`@p cp.async.bulk"},
     0},
    {READY "setp.ge.u32 q, t, 128; @q bra OTHER;" FENCE GO DONE
           "@p mbarrier.arrive.relaxed.cta.shared.b64 X, [bar]; bra OVER; "
           "OTHER: " WAIT_FOR("bar") "st.shared.u32 [tile+64], t; OVER:",
     {"has read, with no barrier or release since a warp waited for it"},
     256},
    {CLUSTER "@q bra ELSE;" FENCE GO COMMIT MEET WAIT("0") "bra OVER; ELSE: " MEET
                                                           "@p st.shared::cluster.u32 [far+64], t; OVER: " MEET,
     {"write of shared bytes that a wgmma", "`@p st.shared::cluster.u32"},
     0},
    /* what it may read */
    {FILL "bar.sync 0;" FENCE GO DONE, {"with no fence.proxy.async since", "through the descriptor of A"}, 0},
    {"st.shared.v4.b32 [s], {t, t, t, t}; fence.proxy.async; bar.sync 0;" FENCE GO DONE,
     {"(tile + 2176), which nobody has written", "through the descriptor of B"},
     0},
    {"@p st.shared.v4.b32 [s+2048], {t, t, t, t}; st.shared.v4.b32 [s], {t, t, t, t}; fence.proxy.async; bar.sync "
     "0;" FENCE GO DONE,
     {"(tile + 2176), which nobody has written", "other bytes of this row or column have been written"},
     0},
    {READY "add.u64 B, B, 16000;" FENCE GO DONE, {"the descriptor of B reaches shared address 0x"}, 0},
    {READY "and.b64 A, A, 0xFFFFFFFFFFFFC000;" FENCE GO DONE, {"the descriptor of A reaches shared address 0x"}, 0},
    {READY "@p mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 2048;"
           "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [G], 2048, [full];"
           "mbarrier.arrive.shared.b64 X, [full]; bar.sync 0;" FENCE GO DONE,
     {"read of shared bytes that a bulk copy", "through the descriptor of A"},
     0},
    {READY "cp.async.cg.shared.global [s], [G], 16; cp.async.commit_group;" FENCE GO DONE,
     {"read of shared bytes that an unfinished cp.async still writes"},
     0},
    /* who must be there */
    {READY FENCE GO DONE, {"needs the four warps 0 to 3 of its warpgroup: warp 3 does not exist"}, 96},
    {READY "setp.eq.u32 q, w, 2; @q exit;" FENCE GO DONE, {"warp 2", "has exited"}, 0},
    {READY "setp.eq.u32 q, t, 70; @q exit;" FENCE GO DONE, {"exited: lanes 0x00000040"}, 0},
    {READY "setp.eq.u32 q, w, 2; @q bar.sync 5, 64;" FENCE GO DONE,
     {"of which elsewhere: warp 2", "`@q bar.sync 5, 64;`"},
     0},
    {READY FENCE "setp.eq.u32 q, w, 1; @q bra SECOND;" GO "bra OVER; SECOND: " GO "OVER:" DONE,
     {"meet with different instructions"},
     0},
    {READY FENCE "setp.eq.u32 q, w, 3; @q add.u64 B, B, 1;" GO DONE, {"meet with different descriptors"}, 0},
    {READY FENCE "setp.eq.u32 q, t, 3; @q add.u64 B, B, 1;" GO DONE,
     {"lanes 0 and 3 of the warp give different descriptors"},
     0},
    {READY FENCE "setp.lt.u32 q, t, 7; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d3}, A, B, q, 1, "
                 "1, 0, 0;" DONE,
     {"different scale-d"},
     0},
    {READY FENCE "setp.lt.u32 q, t, 32; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d3}, A, B, q, "
                 "1, 1, 0, 0;" DONE,
     {"meet with different scale-d"},
     0},
    {READY FENCE "setp.eq.u32 q, w, 0; @!q bra S; " COMMIT "S:" GO DONE, {"different numbers of committed groups"}, 0},
};

START_TEST(what_is_not_allowed_is_named) {
    unsigned threads = faults[_i].threads ? faults[_i].threads : 128;
    for (uint64_t seed = 0; seed < 3; seed++) {
        cu_result status = run_in(faults[_i].body, seed ? adverse(1, 1, seed) : fair(1, 1), threads);
        ck_assert_msg(status != 0, "%s: no fault", faults[_i].body);
        for (int k = 0; k < 3 && faults[_i].says[k]; k++)
            says(dcpkcpu_report(), faults[_i].says[k]);
    }
}
END_TEST

/* ---- forms ---- */
static const struct {
    const char *insn, *says;
} forms[] = {
    {"wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {d0, d1, d2, d3}, A, B, 1, 1, 1, 0, 0;",
     "multiple of 8 from 8 to 256"},
    {"wgmma.mma_async.sync.aligned.m64n264k16.f32.f16.f16 {d0, d1, d2, d3}, A, B, 1, 1, 1, 0, 0;", "from 8 to 256"},
    {"wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {d0, d1, d2, d3}, A, B, 1;", "for integers above 32 of 16"},
    {"wgmma.mma_async.sync.aligned.m64n8k32.f32.f16.f16 {d0, d1, d2, d3}, A, B, 1, 1, 1, 0, 0;", "K is 16"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.e4m3.e4m3 {d0, d1, d2, d3}, A, B, 1, 1, 1;", "K is 32"},
    {"wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {d0, d1, d2, d3}, A, B, 1, 1, 1;",
     "other forms are not supported"},
    {"wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {d0, d1, d2, d3}, A, B, t, 0, 1, 1, 1, 0, 0;",
     "not supported in this form"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {d0, d1, d2, d3}, A, B, 1, 1, 1, 0, 0;", "`f16` and `bf16`"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16 {a0, a1}, A, B, 1, 1, 1, 0, 0;", "D of type `f16`"},
    {"wgmma.mma_async.sync.aligned.m64n8k32.f32.s8.s8 {d0, d1, d2, d3}, A, B, 1;", "D of type `f32`"},
    {"wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3.satfinite {d0, d1, d2, d3}, A, B, 1, 1, 1;",
     ".satfinite is for integers"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2}, A, B, 1, 1, 1, 0, 0;", "a vector of 4 registers"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {a0, a1, a2, a3}, A, B, 1, 1, 1, 0, 0;",
     "a vector of 2 registers"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d1}, A, B, 1, 1, 1, 0, 0;",
     "accumulators 2 and 4 are one register"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d3}, {a0, a1}, B, 1, 1, 1, 0;",
     "a vector of 4 registers"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d3}, {a0, a1, a2, a3}, B, 1, 1, 1, 0, 0;",
     "7 operands are expected"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d3}, A, B, 1, 1, 1;", "8 operands are expected"},
    {"wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {d0, d1, d2, d3}, A, B, 1, 1, 1, 0, 0;",
     "6 operands are expected"},
    {"wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {d0, d1, d2, d3}, A, B, 1, 2, 1;", "imm-scale-a, is 1 or -1"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d3}, A, B, 1, 1, 1, 0, 2;",
     "imm-trans-b, is 0 or 1"},
    {"wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {d0, d1, d2, d3}, t, B, 1, 1, 1;", "matrix descriptor"},
    {"wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {d0, d1, d2, d3}, A, B, t, 1, 1;", "a predicate is expected"},
    {"wgmma.wait_group.sync.aligned -1;", "a constant from 0 on"},
    {"wgmma.wait_group.sync.aligned t;", "a constant from 0 on"},
    {"wgmma.wait_group.sync.aligned;", "is expected"},
    {"wgmma.fence.sync.aligned 0;", "no operand is expected"},
    {"wgmma.fence.sync;", "not supported in this form"},
};

START_TEST(a_malformed_form_is_refused_with_its_reason) {
    char *text = NULL;
    machine_with(fair(1, 1));
    ck_assert_int_ge(asprintf(&text, HEAD ".visible .entry f(.param .u64 out, .param .u64 g) {\n%s%s\nret; }\n", SETUP,
                              forms[_i].insn),
                     0);
    const char *report = refusal(text);
    says(report, forms[_i].says);
    says(report, "PTX line 13");
    free(text);
}
END_TEST

START_TEST(wgmma_is_for_sm_90a_alone) {
    machine_with(fair(1, 1));
    const char *report = refusal(PTX_HEAD ".visible .entry f() {\nwgmma.fence.sync.aligned; ret; }\n");
    says(report, "wgmma needs .target sm_90a");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_wgmma_rules");
    TCase *tcase = tcase_create("rules");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, what_is_allowed_runs_under_every_seed, 0, sizeof allowed / sizeof allowed[0]);
    tcase_add_loop_test(tcase, what_is_not_allowed_is_named, 0, sizeof faults / sizeof faults[0]);
    tcase_add_loop_test(tcase, a_malformed_form_is_refused_with_its_reason, 0, sizeof forms / sizeof forms[0]);
    tcase_add_test(tcase, wgmma_is_for_sm_90a_alone);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
