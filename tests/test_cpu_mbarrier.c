/* test_cpu_mbarrier.c - mbarrier: phases, counts, states, transaction bytes, waits; the faults of its wrong uses and
 * the report of a phase that never completes. Results by hand from the ISA's text. */
#include "tests/cpu_kernel.h"

#define INIT(count) "@p mbarrier.init.shared::cta.b64 [bars], " count "; bar.sync 0; "
#define ONE "@!p exit; mbarrier.init.shared.b64 [bars], "
#define TEST(state) "mbarrier.test_wait.shared.b64 q, [bars], " state "; selp.u32 u, 1, 0, q; "
#define PARITY(parity) "mbarrier.test_wait.parity.shared.b64 q, [bars], " parity "; selp.u32 v, 1, 0, q; "
#define ARRIVE "mbarrier.arrive.shared.b64 A, [bars]; "

static const struct outcome phases[] = {
    /* phase 0 is incomplete: the one before it, of parity 1, counts as complete */
    {ONE "2; " PARITY("0") SHOW("v"), NULL, 0},
    {ONE "2; " PARITY("1") SHOW("v"), NULL, 1},
    {ONE "2; " ARRIVE TEST("A") SHOW("u"), NULL, 0},
    {ONE "2; " ARRIVE "mbarrier.arrive.shared.b64 B, [bars]; " TEST("A") SHOW("u"), NULL, 1},
    {ONE "1; " ARRIVE PARITY("0") "mov.u32 x, v; " PARITY("1") "mad.lo.u32 x, x, 2, v;" SHOW("x"), NULL, 2},
    {ONE "1; " ARRIVE ARRIVE PARITY("0") "mov.u32 x, v; " PARITY("1") "mad.lo.u32 x, x, 2, v;" SHOW("x"), NULL, 1},
    /* the next phase expects what the first did */
    {ONE "2; " ARRIVE ARRIVE ARRIVE PARITY("1") SHOW("v"), NULL, 0},
    {ONE "2; " ARRIVE ARRIVE ARRIVE ARRIVE PARITY("1") SHOW("v"), NULL, 1},
    /* counts, and the state's pending count before the arrival */
    {ONE "9; mbarrier.arrive.shared.b64 A, [bars], 4; " ARRIVE "mbarrier.pending_count.b64 u, A; " SHOW("u"), NULL, 5},
    {ONE "9; mbarrier.arrive.shared.b64 _, [bars], 9; " PARITY("0") SHOW("v"), NULL, 1},
    {ONE "9; mbarrier.arrive.release.cta.shared::cta.b64 A, [bars], 9; " TEST("A") SHOW("u"), NULL, 1},
    {ONE "3; mbarrier.arrive.noComplete.release.cta.shared.b64 A, [bars], 2; " TEST("A") SHOW("u"), NULL, 0},
    {ONE "3; mbarrier.arrive.noComplete.shared.b64 A, [bars], 2; " ARRIVE TEST("A") SHOW("u"), NULL, 1},
    /* a drop: the next phase expects one fewer */
    {ONE "2; mbarrier.arrive_drop.shared.b64 A, [bars]; " ARRIVE ARRIVE PARITY("1") SHOW("v"), NULL, 1},
    {ONE "2; mbarrier.arrive_drop.release.cta.shared::cta.b64 _, [bars]; " ARRIVE PARITY("0") SHOW("v"), NULL, 1},
    /* bytes: a phase waits for them too, in any order */
    {ONE "1; mbarrier.arrive.expect_tx.shared.b64 A, [bars], 64; " TEST("A") SHOW("u"), NULL, 0},
    {ONE "1; mbarrier.arrive.expect_tx.shared.b64 _, [bars], 64; mbarrier.complete_tx.shared.b64 [bars], 60; " PARITY(
         "0") SHOW("v"),
     NULL, 0},
    {ONE "1; mbarrier.arrive.expect_tx.shared.b64 _, [bars], 64; mbarrier.complete_tx.shared.b64 [bars], 60; "
         "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bars], 4; " PARITY("0") SHOW("v"),
     NULL, 1},
    {ONE "1; mbarrier.complete_tx.shared.b64 [bars], 64; mbarrier.arrive.expect_tx.shared.b64 _, [bars], 64; " PARITY(
         "0") SHOW("v"),
     NULL, 1},
    {ONE "1; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bars], 16; " ARRIVE PARITY("0") SHOW("v"), NULL, 0},
    {ONE "1; mbarrier.expect_tx.shared.b64 [bars], 16; " ARRIVE
         "mbarrier.complete_tx.shared.b64 [bars], 16; " PARITY("0") SHOW("v"),
     NULL, 1},
    /* an arrival behind cp.async: of its own, or one of those that are expected */
    {ONE "1; cp.async.mbarrier.arrive.shared.b64 [bars]; " PARITY("0") SHOW("v"), NULL, 0},
    {ONE "1; cp.async.mbarrier.arrive.shared::cta.b64 [bars]; " ARRIVE PARITY("0") SHOW("v"), NULL, 1},
    {ONE "2; cp.async.mbarrier.arrive.noinc.shared.b64 [bars]; " ARRIVE PARITY("0") SHOW("v"), NULL, 1},
    {ONE "2; mov.u64 B, bars; cvta.shared.u64 B, B; cp.async.mbarrier.arrive.noinc.b64 [B]; " PARITY("0") SHOW("v"),
     NULL, 0},
    /* an end, and a new life; the bytes are memory again between the two */
    {ONE "1; " ARRIVE "mbarrier.inval.shared.b64 [bars]; mov.u32 u, 7; st.shared.u32 [bars], u; ld.shared.u32 w, "
         "[bars]; mbarrier.init.shared.b64 [bars], 1; " PARITY("0") "add.u32 w, w, v;" SHOW("w"),
     NULL, 7},
    /* generic addresses */
    {"@!p exit; mov.u64 B, bars; cvta.shared.u64 B, B; mbarrier.init.b64 [B+8], 1; mbarrier.arrive.b64 A, [B+8]; "
     "mbarrier.test_wait.b64 q, [B+8], A; selp.u32 u, 5, 0, q; mbarrier.inval.b64 [B+8]; " SHOW("u"),
     NULL, 5},
    /* try_wait, with a hint; orders and scopes */
    {ONE "1; " ARRIVE
         "mbarrier.try_wait.acquire.cta.shared::cta.b64 q, [bars], A, 1000; selp.u32 u, 3, 0, q; " SHOW("u"),
     NULL, 3},
    {ONE "1; " ARRIVE "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 q, [bars], 0, 1000; selp.u32 u, 3, 0, "
         "q; " SHOW("u"),
     NULL, 3},
};

START_TEST(a_phase_completes_with_its_arrivals_and_bytes) {
    expect(&phases[_i], (struct shape){1, 32, 0});
}
END_TEST

static const struct outcome faults[] = {
    {"@!p exit; " ARRIVE, "mbarrier at shared address 0x400 (bars + 0): no mbarrier.init has come before", 0},
    {"@!p exit; " PARITY("0"), "no mbarrier.init has come before", 0},
    {"@!p exit; mbarrier.inval.shared.b64 [bars+8];", "(bars + 8): no mbarrier.init", 0},
    {ONE "1; mbarrier.inval.shared.b64 [bars]; " ARRIVE, "or an mbarrier.inval since", 0},
    {ONE "1; mbarrier.init.shared.b64 [bars], 1;", "it is initialised already (phase 0, 1 of 1 arrivals to come)", 0},
    {ONE "1; " PARITY("0") "mbarrier.init.shared.b64 [bars], 1;", "and threads wait there", 0},
    {ONE "1; " PARITY("0") "mbarrier.inval.shared.b64 [bars];", "mbarrier.inval while threads wait there", 0},
    {ONE "0;", "a count of 0: 1 to 1048575", 0},
    {ONE "1048576;", "a count of 1048576", 0},
    {"@!p exit; mov.u32 u, 1; mbarrier.init.shared.b64 [bars+4], u;", "is not aligned to 8 bytes", 0},
    {"@!p exit; mbarrier.init.shared.b64 [bars+40000], 1;", "the shared memory is [0x400", 0},
    {"@!p exit; mbarrier.init.b64 [I], 1;", "is not in shared memory", 0},
    /* counts */
    {ONE "2; mbarrier.arrive.shared.b64 _, [bars], 3;",
     "3 arrivals in phase 0, where 2 of 2 are to come and 0 bytes: the pending count overflows", 0},
    {ONE "2; mov.u32 u, 0; mbarrier.arrive.shared.b64 _, [bars], u;", "0 arrivals in phase 0", 0},
    {ONE "1; mbarrier.arrive.expect_tx.shared.b64 _, [bars], 16; " ARRIVE,
     "1 arrivals in phase 0, where 0 of 1 are to come and 16 bytes", 0},
    {ONE "2; mbarrier.arrive.noComplete.shared.b64 A, [bars], 2;",
     "mbarrier.arrive.noComplete with all 2 arrivals that phase 0 lacks", 0},
    {ONE "1; mbarrier.expect_tx.shared.b64 [bars], 1048575; mbarrier.expect_tx.shared.b64 [bars], 1;",
     "its transaction count overflows: 1048575 bytes and 1 more", 0},
    {ONE "1; mov.u32 u, 2000000; mbarrier.complete_tx.shared.b64 [bars], u;", "transaction count overflows", 0},
    {ONE "1; cp.async.mbarrier.arrive.noinc.shared.b64 [bars]; mbarrier.arrive.expect_tx.shared.b64 _, [bars], 4; "
         "cp.async.mbarrier.arrive.noinc.shared.b64 [bars];",
     "1 arrivals in phase 1, where 0 of 1 are to come", 0},
    {"@!p exit; cp.async.mbarrier.arrive.shared.b64 [bars];", "no mbarrier.init has come before", 0},
    /* waits */
    {ONE "1; mov.u32 u, 2; mbarrier.test_wait.parity.shared.b64 q, [bars], u;", "a phase parity of 2: 0 or 1", 0},
    {ONE "1; " ARRIVE "mov.u64 B, A; " ARRIVE ARRIVE TEST("B"), "the state is of phase 0, the barrier in phase 3", 0},
    /* its bytes are nobody's */
    {ONE "1; ld.shared.u32 u, [bars+4];",
     "read of 4 bytes at shared address 0x404: the mbarrier at 0x400 (bars + 0) lives there", 0},
    {ONE "1; mov.u32 u, 0; st.shared.u32 [bars], u;", "write of 4 bytes", 0},
    {ONE "1; mov.u32 u, 0; atom.shared.add.u32 v, [bars+4], u;", "atomic of 4 bytes", 0},
};

START_TEST(what_the_isa_leaves_undefined_is_a_fault) {
    expect(&faults[_i], (struct shape){1, 32, 0});
}
END_TEST

/* ---- many threads ---- */
/* 128 threads write, arrive and wait; then each reads what another one wrote. n rounds. */
#define ROUNDS                                                                                                         \
    INIT("128")                                                                                                        \
    "shl.b32 u, t, 2; mov.u32 v, tile; add.u32 u, u, v; mov.u32 w, 0; mov.u32 z, 0; cvt.u32.u64 x, N;\n"               \
    "L: mad.lo.u32 y, w, 1000, t; st.shared.u32 [u], y; mbarrier.arrive.shared.b64 A, [bars];\n"                       \
    "W: mbarrier.try_wait.shared.b64 q, [bars], A; @!q bra W;\n"                                                       \
    "add.u32 y, t, 77; and.b32 y, y, 127; shl.b32 y, y, 2; add.u32 y, y, v; ld.shared.u32 y, [y]; add.u32 z, z, y;\n"  \
    "mbarrier.arrive.shared.b64 A, [bars]; V: mbarrier.try_wait.shared.b64 q, [bars], A; @!q bra V;\n"                 \
    "add.u32 w, w, 1; setp.lt.u32 q, w, x; @q bra L;\n"                                                                \
    "mul.wide.u32 A, t, 4; add.u64 O, O, A; st.global.u32 [O], z;"

START_TEST(threads_meet_at_an_mbarrier_round_after_round) {
    prepare(_i ? adverse(1, 1, (uint64_t)_i) : fair(1, 1));
    ck_assert_msg(run(ROUNDS, 1, 128, 9) == 0, "%s", dcpkcpu_report());
    for (uint32_t t = 0; t < 128; t++) /* the sum over rounds w of 1000 w + (t + 77) mod 128 */
        ck_assert_uint_eq(result[t], 36000 + 9 * ((t + 77) % 128));
}
END_TEST

/* Parities, half of the threads arriving, the other half waiting. */
START_TEST(arrivals_by_some_open_waits_of_others) {
    prepare(adverse(1, 1, (uint64_t)_i + 1));
    ck_assert_msg(
        run(INIT("64") "setp.lt.u32 q, t, 64; @q bra GIVE;\n"
                       "W: mbarrier.try_wait.parity.shared.b64 q, [bars], 0; @!q bra W;\n"
                       "sub.u32 u, t, 64; shl.b32 u, u, 2; mov.u32 v, tile; add.u32 u, u, v; ld.shared.u32 w, "
                       "[u]; mul.wide.u32 A, t, 4; add.u64 O, O, A; st.global.u32 [O], w; ret;\n"
                       "GIVE: shl.b32 u, t, 2; mov.u32 v, tile; add.u32 u, u, v; mul.lo.u32 w, t, 3; "
                       "st.shared.u32 [u], w; mbarrier.arrive.shared.b64 _, [bars];",
            1, 128, 0) == 0,
        "%s", dcpkcpu_report());
    for (uint32_t t = 64; t < 128; t++)
        ck_assert_uint_eq(result[t], 3 * (t - 64));
}
END_TEST

START_TEST(a_phase_that_never_completes_is_reported_with_what_it_lacks) {
    prepare(_i ? adverse(1, 1, (uint64_t)_i) : fair(1, 1));
    ck_assert_int_eq(
        run("@p mbarrier.init.shared.b64 [bars+16], 3; @p mbarrier.arrive.expect_tx.shared.b64 _, [bars+16], "
            "4096; bar.sync 0;\n" WAIT("W", "bars+16", "0"),
            1, 64, 0),
        719);
    says(dcpkcpu_report(), "no progress");
    says(dcpkcpu_report(), "2 warps waiting at an mbarrier");
    says(dcpkcpu_report(),
         "waits for the phase of parity 0: mbarrier at shared address 0x410 (bars + 16) is in phase 0, 2 "
         "of 3 arrivals to come, 4096 bytes to come, by kernel f");
}
END_TEST

START_TEST(two_mbarriers_that_wait_for_each_other_are_both_named) {
    prepare(fair(1, 1));
    ck_assert_int_eq(run("@p mbarrier.init.shared.b64 [bars], 1; @p mbarrier.init.shared.b64 [bars+8], 1; bar.sync 0;\n"
                         "setp.lt.u32 q, t, 32; @q bra A1;\n" WAIT(
                             "V", "bars", "0") "mbarrier.arrive.shared.b64 _, [bars+8]; ret;\n"
                                               "A1: " WAIT("W", "bars+8", "0") "mbarrier.arrive.shared.b64 _, [bars];",
                         1, 64, 0),
                     719);
    says(dcpkcpu_report(), "(bars + 0) is in phase 0, 1 of 1 arrivals to come, 0 bytes");
    says(dcpkcpu_report(), "(bars + 8) is in phase 0, 1 of 1 arrivals to come, 0 bytes");
}
END_TEST

/* ---- registers ---- */
/* 8 warps that begin with 128 registers a thread: the first four give some up, the others take more. */
static cu_result take_registers(unsigned give, unsigned take, dcpkcpu_options options) {
    char *text = NULL;
    prepare(options);
    ck_assert_int_ge(
        asprintf(
            &text,
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry f(.param .u64 out) .maxntid 256 "
            ".maxnreg 128 { .reg .b64 A, O; .reg .b32 t, u; .reg .pred q; ld.param.u64 O, [out]; mov.u32 t, %%tid.x; "
            "mul.wide.u32 A, t, 4; add.u64 A, A, O; setp.lt.u32 q, t, 128;\n"
            "@q bra GIVE; setmaxnreg.inc.sync.aligned.u32 %u; st.global.u32 [A], t; red.global.add.u32 [O+2048], 1; "
            "bra L;\n"
            "GIVE: nanosleep.u32 100; setmaxnreg.dec.sync.aligned.u32 %u; st.global.u32 [A], t; L: "
            "ld.relaxed.gpu.global.u32 u, [O+2048]; setp.ne.u32 q, u, 0xEEEEEF6E; @q bra L; ret; }",
            take, give),
        0);
    void *parameters[] = {&out_at};
    OK(launch_with(function_of_text(text, "f"), 1, 256, 0, NULL, false, parameters));
    free(text);
    return cpu_ctx_synchronize();
}

START_TEST(registers_that_are_taken_must_be_given_up_by_others) {
    dcpkcpu_options options = _i ? adverse(1, 1, (uint64_t)_i) : fair(1, 1);
    ck_assert_int_eq(take_registers(24, 232, options), 0);
    OK(cpu_copy_to_host(result, out_at, sizeof result));
    for (uint32_t t = 0; t < 256; t++)
        ck_assert_uint_eq(result[t], t);
    ck_assert_int_eq(take_registers(40, 216, options), 0);
    ck_assert_int_eq(take_registers(40, 224, options), 719); /* 4 * 88 given up, 4 * 96 wanted */
    says(dcpkcpu_report(), "`setmaxnreg.inc.sync.aligned.u32 224;`");
    says(dcpkcpu_report(), "it has 128 registers a thread and wants 224: the block's warps have given up 64");
    ck_assert_int_eq(take_registers(136, 216, options), 719);
    says(dcpkcpu_report(), "setmaxnreg.dec to 136: the warp has 128 registers a thread");
}
END_TEST

static const struct outcome refusals[] = {
    {"mbarrier.init.shared::cluster.b64 [bars], 1;", "`mbarrier.init.shared::cluster.b64` is not supported", 0},
    {"mbarrier.arrive.shared::cluster.b64 A, [bars];", "gives no state: its first operand is _", 0},
    {"mbarrier.arrive.acquire.cta.shared.b64 A, [bars];", "is not supported in this form", 0},
    {"mbarrier.test_wait.shared.b64 q, [bars], 0, 10;", "3 operands are expected, not 4", 0},
    {"mbarrier.arrive.shared.b64 u, [bars];", "a 64-bit integer is expected", 0},
    {"mbarrier.test_wait.parity.shared.b64 q, [bars], A;", "a 32-bit integer is expected", 0},
    {"setmaxnreg.inc.sync.aligned.u32 20;", "from 24 to 256, a multiple of 8", 0},
    {"cp.async.mbarrier.arrive.noinc.shared::cluster.b64 [bars];", "is not supported in this form", 0},
    {"cp.async.mbarrier.arrive.shared.noinc.b64 [bars];", "is not supported in this form", 0},
    {"cp.async.mbarrier.arrive.release.b64 [bars];", "is not supported in this form", 0},
    {"cp.async.mbarrier.arrive.shared.b64 [bars], 1;", "1 operand is expected, not 2", 0},
};

START_TEST(what_is_not_there_is_refused_at_load) {
    expect_refusal(refusals[_i].body, refusals[_i].says);
}
END_TEST

#define COUNT(table) ((int)(sizeof table / sizeof table[0]))
int main(void) {
    Suite *suite = suite_create("cpu_mbarrier");
    TCase *tcase = tcase_create("mbarrier");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_phase_completes_with_its_arrivals_and_bytes, 0, COUNT(phases));
    tcase_add_loop_test(tcase, what_the_isa_leaves_undefined_is_a_fault, 0, COUNT(faults));
    tcase_add_loop_test(tcase, threads_meet_at_an_mbarrier_round_after_round, 0, 12);
    tcase_add_loop_test(tcase, arrivals_by_some_open_waits_of_others, 0, 12);
    tcase_add_loop_test(tcase, a_phase_that_never_completes_is_reported_with_what_it_lacks, 0, 4);
    tcase_add_test(tcase, two_mbarriers_that_wait_for_each_other_are_both_named);
    tcase_add_loop_test(tcase, registers_that_are_taken_must_be_given_up_by_others, 0, 6);
    tcase_add_loop_test(tcase, what_is_not_there_is_refused_at_load, 0, COUNT(refusals));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
