/* test_cpu_bulk.c - cp.async.bulk both ways: what arrives, when, what an mbarrier or a group says about it, and the
 * faults of those who touch the bytes in between; a ring of stages between specialised warps. Results by hand. */
#include "tests/cpu_kernel.h"

#define ALONE "@!p exit; mbarrier.init.shared.b64 [bars], 1; mov.u32 w, 0x55555555; "
#define EXPECT(bytes) "mbarrier.arrive.expect_tx.shared.b64 _, [bars], " bytes "; "
#define LOAD(to, from, bytes)                                                                                          \
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [" to "], [" from "], " bytes ", [bars]; "
#define STORE(to, from, bytes) "cp.async.bulk.global.shared::cta.bulk_group [" to "], [" from "], " bytes "; "
#define WAITED WAIT("W", "bars", "0")
#define READ(at) "ld.shared.u32 u, [" at "]; " SHOW("u")
#define COMMIT "cp.async.bulk.commit_group; "
#define FENCE "fence.proxy.async; "
#define SPIN "mov.u32 x, 0; Y: add.u32 x, x, 1; setp.lt.u32 q, x, 3000; @q bra Y; "
#define WRITE(at) "st.shared.v4.b32 [" at "], {w, w, w, w}; "

static const struct outcome copies[] = {
    {ALONE EXPECT("16") LOAD("tile", "I", "16") WAITED READ("tile+12"), NULL, 0x01000003},
    {ALONE EXPECT("4096") LOAD("tile+16", "I+32", "4096") WAITED READ("tile+4108"), NULL, 0x01000407},
    {ALONE EXPECT("32768") LOAD("tile", "I", "32768") WAITED READ("tile+32764"), NULL, 0x01001FFF},
    {ALONE "mov.u32 x, 48; " EXPECT("48") LOAD("tile", "I", "x") WAITED READ("tile+44"), NULL, 0x0100000B},
    {ALONE "st.shared.u32 [tile], 0; " EXPECT("0") LOAD("tile", "I", "0") WAITED
     "ld.shared.u32 u, [tile]; add.u32 u, u, 3;" SHOW("u"),
     NULL, 3},
    {ALONE EXPECT("96") LOAD("tile", "I", "48") LOAD("tile+48", "I+1024", "48") WAITED READ("tile+48"), NULL,
     0x01000100},
    /* the bytes may be counted before they are expected */
    {ALONE LOAD("tile", "I",
                "1024") "mbarrier.expect_tx.shared.b64 [bars], 1024; mbarrier.arrive.shared.b64 _, [bars]; " WAITED
         READ("tile+1020"),
     NULL, 0x010000FF},
    /* forms: a policy, shared::cta, registers, generic addresses */
    {ALONE EXPECT("16") "createpolicy.fractional.L2::evict_first.b64 C, 1.0; "
                        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [tile], [I], "
                        "16, [bars], C; " WAITED READ("tile"),
     NULL, 0x01000000},
    {ALONE EXPECT(
         "16") "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [I+16], 16, [bars]; " WAITED
         READ("tile"),
     NULL, 0x01000004},
    {ALONE EXPECT("16") "mov.u32 x, tile; mov.u32 y, bars; cp.async.bulk.shared::cluster.global"
                        ".mbarrier::complete_tx::bytes [x+16], [I+16], 16, [y]; " WAITED READ("tile+16"),
     NULL, 0x01000004},
    {ALONE EXPECT("16") "cp.async.bulk.prefetch.L2.global [I], 4096; " LOAD("tile", "I", "16") WAITED READ("tile"),
     NULL, 0x01000000},
    /* stores */
    {ALONE WRITE("tile") FENCE STORE("O", "tile", "16") COMMIT "cp.async.bulk.wait_group 0;", NULL, 0x55555555},
    {ALONE WRITE("tile") "fence.proxy.async.shared::cta; " STORE("O", "tile", "16") COMMIT
     "cp.async.bulk.wait_group.read 0; mov.u32 w, 1; " WRITE("tile"),
     NULL, 0x55555555},
    {ALONE EXPECT("64") LOAD("tile", "I", "64") WAITED STORE("O", "tile+16", "48") COMMIT "cp.async.bulk.wait_group 0;",
     NULL, 0x01000004},
    {ALONE WRITE("tile") FENCE STORE("O", "tile", "16") COMMIT WRITE("tile+16") FENCE STORE("O+16", "tile+16", "16")
         COMMIT "cp.async.bulk.wait_group.read 1; mov.u32 w, 2; " WRITE(
             "tile") "cp.async.bulk.wait_group 0; "
                     "ld.global.u32 u, [O]; ld.global.u32 v, [O+16]; add.u32 u, u, v; " SHOW("u"),
     NULL, 0xAAAAAAAA},
    {ALONE WRITE("tile") FENCE STORE("O", "tile", "16") STORE("O+256", "tile", "16") COMMIT
     "cp.async.bulk.wait_group.read 0; ",
     NULL, 0x55555555},
    {ALONE WRITE("tile") FENCE "mov.u32 x, 16; createpolicy.fractional.L2::evict_first.b64 C, 1.0; "
                               "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [O], [tile], x, C; " COMMIT
                               "cp.async.bulk.wait_group 0; ",
     NULL, 0x55555555},
    {"@!p exit; cp.async.bulk.wait_group 0; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; mov.u32 u, "
     "9; " SHOW("u"),
     NULL, 9},
};

START_TEST(a_bulk_copy_moves_its_bytes) {
    expect(&copies[_i], (struct shape){1, 32, 0});
}
END_TEST

static const struct outcome faults[] = {
    /* too early */
    {ALONE EXPECT("64") LOAD("tile", "I", "64") READ("tile"), "read of shared bytes that a bulk copy", 0},
    {ALONE EXPECT("64") LOAD("tile", "I", "64") READ("tile+60"),
     "it is to complete the mbarrier at shared address 0x400 (bars + 0), 4 bytes at shared address 0x83c", 0},
    {ALONE EXPECT("64") LOAD("tile", "I", "64") WRITE("tile+48"), "write of shared bytes that a bulk copy", 0},
    {ALONE EXPECT("64") LOAD("tile", "I", "64") READ("tile"), "began it at kernel f, PTX line", 0},
    {ALONE "mbarrier.arrive.shared.b64 _, [bars]; " LOAD("tile", "I", "64") WAITED READ("tile"),
     "whose phase is not over", 0}, /* nobody expects the bytes */
    {ALONE EXPECT("32")
         LOAD("tile", "I", "64") "mov.u32 x, 0; W: add.u32 x, x, 1; setp.lt.u32 q, x, 50; @q bra W; " READ("tile+60"),
     "read of shared bytes", 0},
    {ALONE EXPECT("64") LOAD("tile", "I", "64") LOAD("tile+48", "I", "16"), "write of shared bytes that a bulk copy",
     0},
    {ALONE EXPECT("64") LOAD("tile", "I", "64") "cp.async.ca.shared.global [tile+16], [I], 4;",
     "write of shared bytes that a bulk copy", 0},
    /* what a copy has brought is brought over again, and nobody has seen it */
    {ALONE EXPECT("64") LOAD("tile", "I", "64") SPIN LOAD("tile", "I", "64"), "of shared bytes that a bulk copy", 0},
    /* a block that goes while copies use its memory */
    {ALONE EXPECT("64") LOAD("tile", "I", "64"), "nobody has waited for a bulk copy into its shared memory", 0},
    {ALONE WRITE("tile") FENCE STORE("O", "tile", "16") COMMIT, "nobody has waited for a bulk copy to read its shared",
     0},
    {ALONE WRITE("tile") FENCE STORE("O", "tile", "16") "cp.async.bulk.wait_group 0;", "nobody has waited", 0},
    {ALONE WRITE("tile") FENCE STORE("O", "tile", "16") COMMIT "cp.async.bulk.wait_group 1;", "nobody has waited", 0},
    /* proxies, and sources in use */
    {ALONE WRITE("tile") STORE("O", "tile", "16"),
     "the async proxy reads shared address 0x800 (tile + 0), which thread (0,0,0) wrote with no fence.proxy.async "
     "since",
     0},
    {ALONE WRITE("tile") FENCE WRITE("tile") STORE("O", "tile", "16"), "with no fence.proxy.async since", 0},
    {ALONE WRITE("tile") "fence.proxy.async.global; " STORE("O", "tile", "16"), "with no fence.proxy.async since", 0},
    {ALONE WRITE("tile") FENCE STORE("O", "tile", "16") COMMIT WRITE("tile"),
     "write of shared bytes that a bulk copy reads, and its thread has not waited for that", 0},
    {ALONE WRITE("tile") FENCE STORE("O", "tile", "16") COMMIT EXPECT("16") LOAD("tile", "I", "16"),
     "write of shared bytes that a bulk copy reads", 0},
    {ALONE EXPECT("64") LOAD("tile", "I", "64") STORE("O", "tile", "64"), "read of shared bytes that a bulk copy", 0},
    {ALONE WRITE("tile") FENCE STORE("O", "tile", "16") COMMIT WRITE("tile+16") FENCE STORE("O+16", "tile+16", "16")
         COMMIT "cp.async.bulk.wait_group.read 1; " WRITE("tile+16"),
     "has not waited for that", 0},
    /* addresses and sizes */
    {ALONE EXPECT("16") LOAD("tile+8", "I", "16"), "shared address 0x808 is not aligned to 16 bytes", 0},
    {ALONE EXPECT("16") LOAD("tile", "I+8", "16"), "is not aligned to the 16 bytes of a bulk copy", 0},
    {ALONE "mov.u32 x, 24; " EXPECT("24") LOAD("tile", "I", "x"),
     "a bulk copy of 24 bytes: the size is a multiple of 16", 0},
    {ALONE EXPECT("16") LOAD("tile+32768", "I", "16"), "the shared memory ends at 0x8800", 0},
    {ALONE EXPECT("32") LOAD("tile+32752", "I", "32"), "the shared memory ends at 0x8800", 0},
    {ALONE EXPECT("32") LOAD("tile", "I+131056", "32"), "reaches 16 bytes past the end of allocation", 0},
    {ALONE EXPECT("32") "mov.u64 A, 4096; " LOAD("tile", "A", "32"), "address 0x1000 is", 0},
    {ALONE WRITE("tile") FENCE "mov.u64 A, 4096; " STORE("A", "tile", "16"), "address 0x1000 is", 0},
    {ALONE EXPECT("32") LOAD("bars", "I", "16"), "the mbarrier at 0x400 (bars + 0) lives there", 0},
    {"@!p exit; " LOAD("tile", "I", "16"), "no mbarrier.init has come before", 0},
    {ALONE EXPECT("16") LOAD("tile", "I", "16") "mbarrier.inval.shared.b64 [bars];",
     "mbarrier.inval while bulk copies are to complete there", 0},
    {ALONE "cp.async.bulk.prefetch.L2.global [I+131056], 32;", "past the end of allocation", 0},
    {ALONE EXPECT("32") LOAD("tile", "I", "64") WAITED,
     "waits for the phase of parity 0: mbarrier at shared address 0x400 (bars + 0) is in phase 0, 0 of 1 arrivals to "
     "come, -32 bytes to come (more have come than were expected)",
     0},
};

START_TEST(wrong_uses_are_faults_that_say_so) {
    struct outcome row = faults[_i];
    /* a phase may complete in passing when too little was expected: the adversary counts piece by piece */
    bool piecewise = strstr(row.says, "-32 bytes");
    for (uint64_t seed = 0; seed < 4; seed++) {
        prepare(seed && !piecewise ? adverse(1, 4, seed) : fair(1, 4));
        ck_assert_msg(run(row.body, 1, 32, 0) != 0, "no fault: %s", row.body);
        says(dcpkcpu_report(), row.says);
    }
}
END_TEST

/* ---- who sees ---- */
/* Warp 0 loads and waits; what warp 1 does then is its affair. 64 threads. */
#define BY_WARP_0                                                                                                      \
    "@p mbarrier.init.shared.b64 [bars], 1; @p mbarrier.init.shared.b64 [bars+8], 32; bar.sync 0; setp.lt.u32 pr, t, " \
    "32; @!pr bra OTHER;\n@p " EXPECT("1024") "@p " LOAD("tile", "I", "1024") WAITED
#define OTHER_READS                                                                                                    \
    " shl.b32 u, l, 2; mov.u32 v, tile; add.u32 u, u, v; ld.shared.u32 u, [u+512]; @ps st.global.u32 [O], u; "
#define PS "setp.eq.u32 ps, l, 3; "
static const struct outcome sights[] = {
    {BY_WARP_0 "ret; OTHER: " PS WAIT("V", "bars", "0") OTHER_READS, NULL, 0x01000083},
    {BY_WARP_0 "bar.sync 1; ret; OTHER: " PS "bar.sync 1; " OTHER_READS, NULL, 0x01000083},
    {BY_WARP_0 "bar.arrive 1, 64; ret; OTHER: " PS "bar.sync 1, 64; " OTHER_READS, NULL, 0x01000083},
    {BY_WARP_0 "mbarrier.arrive.shared.b64 _, [bars+8]; ret; OTHER: " PS WAIT("V", "bars+8", "0") OTHER_READS, NULL,
     0x01000083},
    {"@p mbarrier.init.shared.b64 [bars], 1; bar.sync 0; " PS "setp.lt.u32 pr, t, 32; @!pr bra OTHER; @p " EXPECT(
         "1024") "@p " LOAD("tile", "I", "1024") "bar.arrive 2, 64; " WAITED
                                                 "bar.sync 1; ret; OTHER: bar.sync 2, 64; " SPIN OTHER_READS
                                                 "bar.sync 1;",
     "of shared bytes that a bulk copy", 0},
    {"@p mbarrier.init.shared.b64 [bars], 1; bar.sync 0; @p " EXPECT("1024") "@p " LOAD("tile", "I", "1024") PS
     "bar.sync 2; setp.lt.u32 pr, t, 32; @!pr bra OTHER; " WAITED "bar.sync 1; ret; OTHER: " SPIN OTHER_READS
     "bar.sync 1;",
     "of shared bytes that a bulk copy", 0},
    /* a relaxed wait orders nothing; a fence behind it does */
    {"@p mbarrier.init.shared.b64 [bars], 1; bar.warp.sync -1; @p " EXPECT("1024") "@p " LOAD("tile", "I", "1024") PS
     "W: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 q, [bars], 0; @!q bra W; " OTHER_READS,
     "and this warp has not waited for", 0},
    {"@p mbarrier.init.shared.b64 [bars], 1; bar.warp.sync -1; @p " EXPECT("1024") "@p " LOAD("tile", "I", "1024") PS
     "W: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 q, [bars], 0; @!q bra W; fence.acq_rel.cta; " OTHER_READS,
     NULL, 0x01000083},
    /* one lane waits for its warp */
    {"@p mbarrier.init.shared.b64 [bars], 1; bar.warp.sync -1; @p " EXPECT("1024") "@p " LOAD("tile", "I", "1024") PS
     "W: mbarrier.try_wait.parity.shared.b64 q, [bars], 0; @!q bra W; bar.warp.sync -1; " OTHER_READS,
     NULL, 0x01000083},
};

START_TEST(sight_is_gained_by_waits_barriers_and_releases) {
    bool one = _i >= (int)(sizeof sights / sizeof sights[0]) - 3;
    expect(&sights[_i], (struct shape){1, one ? 32 : 64, 0});
}
END_TEST

/* Generic writes of all threads, read by one thread's store. */
#define ALL_WRITE                                                                                                      \
    "shl.b32 u, t, 4; mov.u32 v, tile; add.u32 u, u, v; mov.u32 w, t; st.shared.v4.b32 [u], {w, w, w, w}; "
#define ONE_STORES "@p " STORE("O", "tile", "1024") "@p " COMMIT "@p cp.async.bulk.wait_group 0; "
static const struct outcome proxies[] = {
    {ALL_WRITE FENCE "bar.sync 0; " ONE_STORES, NULL, 0},
    {ALL_WRITE "bar.sync 0; @p " FENCE ONE_STORES, NULL, 0},
    {ALL_WRITE "bar.sync 0; " ONE_STORES, "which thread (0,0,0) wrote with no fence.proxy.async since", 0},
    {ALL_WRITE "@p " FENCE "bar.sync 0; " ONE_STORES, "which thread (1,0,0) wrote with no fence.proxy.async since", 0},
    {ALL_WRITE FENCE "bar.sync 0; setp.eq.u32 q, t, 63; @q st.shared.b32 [tile+1020], w; bar.sync 0; " ONE_STORES,
     "(tile + 1020), which thread (63,0,0) wrote", 0},
};

START_TEST(generic_writes_need_a_proxy_fence_before_a_store_reads_them) {
    expect(&proxies[_i], (struct shape){1, 64, 0});
    if (proxies[_i].says) return;
    for (uint32_t i = 0; i < 256; i++)
        ck_assert_uint_eq(result[i], i / 4);
}
END_TEST

/* ---- the moment of landing ---- */
/* The source is written over while a copy of 256 bytes flies; all words were 1 before. */
START_TEST(the_adversary_lands_rows_at_moments_of_their_own) {
    unsigned mixed = 0, seen[6] = {0};
    for (uint64_t seed = 1; seed <= 160; seed++) {
        prepare(adverse(1, 1, seed));
        OK(run(ALONE
               "mov.u32 u, 1; mov.u32 x, 0; mov.u64 A, I;\n"
               "S: st.global.v4.u32 [A], {u, u, u, u}; add.u64 A, A, 16; add.u32 x, x, 1; setp.lt.u32 q, x, 16; @q bra "
               "S;\n" EXPECT("256")
                   LOAD("tile", "I",
                        "256") "L: add.u32 u, u, 1; mov.u32 x, 0; mov.u64 A, I; T: st.global.v4.u32 [A], {u, u, u, u}; "
                               "add.u64 A, A, 16; add.u32 x, x, 1; setp.lt.u32 q, x, 16; @q bra T; setp.lt.u32 q, u, "
                               "5; @q bra L;\n" WAITED STORE("O", "tile", "256") COMMIT "cp.async.bulk.wait_group 0;",
               1, 32, 0));
        bool alike = true;
        for (int i = 0; i < 64; i++) {
            ck_assert(result[i] >= 1 && result[i] <= 5 && result[i] == result[i / 4 * 4]);
            seen[result[i]]++;
            alike = alike && result[i] == result[0];
        }
        mixed += !alike;
    }
    for (int value = 1; value <= 5; value++)
        ck_assert_msg(seen[value] > 0, "no row landed while its source was %d", value);
    ck_assert_uint_gt(mixed, 10);
}
END_TEST

START_TEST(a_store_reads_and_writes_at_moments_of_its_own) {
    unsigned early = 0, late = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) { /* another block watches the last words of out */
        prepare(adverse_with_races(1, 2, seed));
        OK(run(
            "setp.ne.u32 q, b, 0; @q bra WATCH; @!p exit; " ALL_WRITE FENCE STORE("O", "tile", "512") COMMIT
            "mov.u32 x, 0; st.relaxed.gpu.global.u32 [O+4096], x; Y: add.u32 x, x, 1; setp.lt.u32 q, x, 100; @q bra Y; "
            "cp.async.bulk.wait_group 0; ret;\n"
            "WATCH: @!p exit; R: ld.relaxed.gpu.global.u32 u, [O+4096]; setp.eq.u32 q, u, 0xEEEEEEEE; @q bra R; "
            "ld.relaxed.gpu.global.u32 u, [O+508]; st.global.u32 [O+4100], u;",
            2, 32, 0));
        early += result[1025] == OUT_BEFORE;
        late += result[1025] != OUT_BEFORE;
        ck_assert_uint_eq(result[0], 0);
        ck_assert_uint_eq(result[1], 0);
    }
    ck_assert_uint_gt(early, 5);
    ck_assert_uint_gt(late, 5);
}
END_TEST

/* ---- a ring ---- */
/* Warp 0 produces n chunks of 512 words through 3 stages; warps 1 to 4 each sum a quarter of every chunk (4 words a
 * thread). full[s] = bars + 8 s (1 arrival and 2048 bytes), empty[s] = bars + 32 + 8 s (4 arrivals: a lane a warp). */
#define RING                                                                                                           \
    "@!p bra READY; mov.u32 u, 0; mov.u32 v, bars;\n"                                                                  \
    "K: mbarrier.init.shared.b64 [v], 1; mbarrier.init.shared.b64 [v+32], 4; add.u32 v, v, 8; add.u32 u, u, 1; "       \
    "setp.lt.u32 q, u, 3; @q bra K; fence.mbarrier_init.release.cluster;\nREADY: bar.sync 0;\n"                        \
    "cvt.u32.u64 c, N; mov.u32 x, 0; mov.u32 y, 0; mov.u32 z, 0; setp.ge.u32 q, t, 32; @q bra CONSUME;\n"              \
    "setmaxnreg.dec.sync.aligned.u32 40; @!p bra DONE;\n"                                                              \
    "P: shl.b32 u, x, 3; mov.u32 v, bars; add.u32 u, u, v; xor.b32 w, y, 1;\n"                                         \
    "PW: mbarrier.try_wait.parity.shared.b64 q, [u+32], w; @!q bra PW;\n"                                              \
    "mbarrier.arrive.expect_tx.shared.b64 _, [u], 2048; shl.b32 w, x, 11; mov.u32 v, tile; add.u32 w, w, v;\n"         \
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [w], [I], 2048, [u];\n"                         \
    "add.u64 I, I, 2048; add.u32 x, x, 1; setp.eq.u32 q, x, 3; @q xor.b32 y, y, 1; @q mov.u32 x, 0;\n"                 \
    "sub.u32 c, c, 1; setp.ne.u32 q, c, 0; @q bra P; DONE: ret;\n"                                                     \
    "CONSUME: setmaxnreg.inc.sync.aligned.u32 200;\n"                                                                  \
    "NEXT: shl.b32 u, x, 3; mov.u32 v, bars; add.u32 u, u, v;\n"                                                       \
    "CW: mbarrier.try_wait.parity.shared.b64 q, [u], y; @!q bra CW;\n"                                                 \
    "shl.b32 w, x, 11; mov.u32 v, tile; add.u32 w, w, v; sub.u32 v, t, 32; shl.b32 v, v, 4; add.u32 w, w, v;\n"        \
    "{ .reg .b32 k<4>; ld.shared.v4.u32 {k0, k1, k2, k3}, [w]; add.u32 z, z, k0; add.u32 z, z, k1; add.u32 z, z, k2; " \
    "add.u32 z, z, k3; }\nbar.warp.sync -1; setp.eq.u32 q, l, 0; %s\n"                                                 \
    "add.u32 x, x, 1; setp.eq.u32 q, x, 3; @q xor.b32 y, y, 1; @q mov.u32 x, 0;\n"                                     \
    "sub.u32 c, c, 1; setp.ne.u32 q, c, 0; @q bra NEXT;\n"                                                             \
    "sub.u32 v, t, 32; mul.wide.u32 A, v, 4; add.u64 O, O, A; st.global.u32 [O], z;"
#define RELEASE "@q mbarrier.arrive.shared.b64 _, [u+32];"

static void check_ring(uint32_t chunks) {
    for (uint32_t t = 0; t < 128; t++) {
        uint32_t sum = 0;
        for (uint32_t chunk = 0; chunk < chunks; chunk++)
            for (uint32_t k = 0; k < 4; k++)
                sum += 0x01000000 + 512 * chunk + 4 * t + k;
        ck_assert_uint_eq(result[t], sum);
    }
}

START_TEST(a_ring_of_three_stages_sums_right_under_any_schedule) {
    char body[4096];
    snprintf(body, sizeof body, RING, RELEASE);
    for (uint64_t seed = 0; seed < 16; seed++) {
        prepare(seed + (uint64_t)_i ? adverse(1, 2, 1000 * (uint64_t)_i + seed) : fair(1, 2));
        uint32_t chunks = 1 + (uint32_t)(7 * seed % 20);
        ck_assert_msg(run(body, 2, 160, chunks) == 0, "%s", dcpkcpu_report());
        check_ring(chunks);
    }
}
END_TEST

START_TEST(a_ring_whose_consumers_never_release_is_reported) {
    char body[4096];
    snprintf(body, sizeof body, RING, "");
    prepare(_i ? adverse(1, 2, (uint64_t)_i) : fair(1, 2));
    ck_assert_int_eq(run(body, 1, 160, 8), 719);
    says(dcpkcpu_report(), "no progress");
    says(dcpkcpu_report(), "1 warp waiting at an mbarrier");
    says(dcpkcpu_report(), "(bars + 32) is in phase 0, 4 of 4 arrivals to come, 0 bytes to come");
    says(dcpkcpu_report(), "4 warps waiting at an mbarrier");
    says(dcpkcpu_report(), "(bars + 0) is in phase 1, 1 of 1 arrivals to come, 0 bytes to come");
}
END_TEST

static const struct outcome refusals[] = {
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [I], 24, [bars];",
     "the size of a bulk copy is a multiple of 16", 0},
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [I], 16;", "an operand is missing", 0},
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [tile], 16, [bars];",
     "`tile` lies in another space", 0},
    {"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [tile], [tile], 16, [bars];",
     "is not supported in this form", 0},
    {"cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [O], [tile], 16;", "an operand is missing", 0},
    {"cp.async.bulk.wait_group u;", "a constant, is expected", 0},
    {"cp.async.bulk.commit_group 1;", "no operand is expected", 0},
    {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [O], [tile], 16;", "is not supported in this form", 0},
    {"ld.global.u32 u, [I, {u}];", "coordinates go with a tensor map only", 0},
};

START_TEST(what_is_not_there_is_refused_at_load) {
    expect_refusal(refusals[_i].body, refusals[_i].says);
}
END_TEST

#define COUNT(table) ((int)(sizeof table / sizeof table[0]))
int main(void) {
    Suite *suite = suite_create("cpu_bulk");
    TCase *tcase = tcase_create("bulk");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_bulk_copy_moves_its_bytes, 0, COUNT(copies));
    tcase_add_loop_test(tcase, wrong_uses_are_faults_that_say_so, 0, COUNT(faults));
    tcase_add_loop_test(tcase, sight_is_gained_by_waits_barriers_and_releases, 0, COUNT(sights));
    tcase_add_loop_test(tcase, generic_writes_need_a_proxy_fence_before_a_store_reads_them, 0, COUNT(proxies));
    tcase_add_test(tcase, the_adversary_lands_rows_at_moments_of_their_own);
    tcase_add_test(tcase, a_store_reads_and_writes_at_moments_of_its_own);
    tcase_add_loop_test(tcase, a_ring_of_three_stages_sums_right_under_any_schedule, 0, 6);
    tcase_add_loop_test(tcase, a_ring_whose_consumers_never_release_is_reported, 0, 4);
    tcase_add_loop_test(tcase, what_is_not_there_is_refused_at_load, 0, COUNT(refusals));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
