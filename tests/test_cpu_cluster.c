/* test_cpu_cluster.c - clusters on the CPU device: who is where, mapa, loads, stores, atomics and arrivals in the
 * shared memory of others, barrier.cluster, multicast bulk copies; the faults. Results by hand. */
#include "tests/cpu_kernel.h"

#define MEET "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; "
/* D: out + 4 * (64 * block + thread); z: rank of the next CTA of the cluster */
#define PLACES                                                                                                         \
    "shl.b32 u, b, 6; add.u32 u, u, t; mul.wide.u32 D, u, 4; add.u64 D, D, O; mov.u32 c, %cluster_nctarank; add.u32 "  \
    "z, "                                                                                                              \
    "r, 1; rem.u32 z, z, c;\n"

static void each_schedule(const char *body, struct shape shape, void (*check)(void)) {
    for (uint64_t seed = 0; seed < 12; seed++) {
        prepare(seed ? adverse(1, 4, seed) : fair(1, 4));
        ck_assert_msg(run_shaped(body, shape, 0, 0) == 0, "%s", dcpkcpu_report());
        check();
    }
}

/* ---- ranks ---- */
static void check_ranks(void) {
    for (uint32_t b = 0; b < 8; b++) {
        ck_assert_uint_eq(result[64 * b], b % 4);
        ck_assert_uint_eq(result[64 * b + 1], 4);
        ck_assert_uint_eq(result[64 * b + 2], b / 4);
        ck_assert_uint_eq(result[64 * b + 3], 2);
        ck_assert_uint_eq(result[64 * b + 4], b % 4);
        ck_assert_uint_eq(result[64 * b + 5], (b + 1) % 4); /* getctarank of what mapa gives */
        ck_assert_uint_eq(result[64 * b + 6], b % 4);       /* of the CTA's own */
        ck_assert_uint_eq(result[64 * b + 7], 1);           /* mapa's is in the cluster's memory, not ours */
    }
}

START_TEST(ctas_know_their_place_and_addresses_tell_it) {
    each_schedule(
        PLACES
        "@!p bra END; st.global.u32 [D], r; st.global.u32 [D+4], c; mov.u32 u, %clusterid.x; st.global.u32 [D+8], u; "
        "mov.u32 u, %nclusterid.x; st.global.u32 [D+12], u; mov.u32 u, %cluster_ctaid.x; st.global.u32 [D+16], u;\n"
        "mov.u32 v, tile; mapa.shared::cluster.u32 w, v, z; getctarank.shared::cluster.u32 u, w; st.global.u32 "
        "[D+20], u; getctarank.shared::cluster.u32 u, v; st.global.u32 [D+24], u;\n"
        "cvt.u64.u32 A, v; cvta.shared.u64 A, A; mapa.u64 B, A, z; "
        "isspacep.shared::cluster q, B; isspacep.shared::cta pr, B; not.pred pr, pr; and.pred q, "
        "q, pr; isspacep.shared::cta pr, A; and.pred q, q, pr; mapa.u64 B, A, r; isspacep.shared::cta pr, B; "
        "and.pred q, q, pr; selp.u32 u, 1, 0, q; st.global.u32 [D+28], u; END:",
        (struct shape){8, 32, 4}, check_ranks);
}
END_TEST

/* ---- memory of others ---- */
static void check_neighbours(void) {
    for (uint32_t b = 0; b < 8; b++)
        for (uint32_t t = 0; t < 64; t++)
            ck_assert_uint_eq(result[64 * b + t], 1000 * (b / 4 * 4 + (b + 1) % 4) + t);
}

#define MINE "shl.b32 u, t, 2; mov.u32 v, tile; add.u32 v, v, u; mad.lo.u32 w, b, 1000, t; st.shared.u32 [v], w; "
static const char *const reads[] = {
    PLACES MINE MEET "mapa.shared::cluster.u32 v, v, z; ld.shared::cluster.u32 x, [v]; st.global.u32 [D], x; " MEET,
    PLACES MINE MEET
    "cvt.u64.u32 A, v; cvta.shared.u64 A, A; mapa.u64 A, A, z; ld.u32 x, [A]; st.global.u32 [D], x; " MEET,
    PLACES MINE MEET "cvt.u64.u32 A, v; mapa.shared::cluster.u64 A, A, z; cvta.shared::cluster.u64 A, A; "
                     "cvta.to.shared::cluster.u64 A, A; ld.shared::cluster.u32 x, [A]; st.global.u32 [D], x; " MEET,
    PLACES MINE
    "barrier.cluster.arrive.release; barrier.cluster.wait.acquire; mov.u32 y, tile; mapa.shared::cluster.u32 v, "
    "y, z; add.u32 v, v, u; ld.relaxed.cluster.shared::cluster.u32 x, [v]; st.global.u32 [D], x; " MEET,
    /* what is written there, by the CTA before */
    PLACES
    "shl.b32 u, t, 2; mov.u32 v, tile; add.u32 v, v, u; add.u32 x, r, 3; and.b32 x, x, 3; mad.lo.u32 w, b, 1000, t; "
    "mapa.shared::cluster.u32 y, v, x; st.shared::cluster.u32 [y], w; " MEET
    "ld.shared.u32 x, [v]; st.global.u32 [D], x;",
    /* the same by one's own address as a cluster's */
    PLACES MINE MEET
    "mapa.shared::cluster.u32 v, v, z; ld.shared::cluster.u32 x, [v]; mov.u32 y, tile; add.u32 y, y, u; "
    "mapa.shared::cluster.u32 w, y, r; st.shared.u32 [w+512], x; ld.shared::cluster.u32 x, [y+512]; "
    "st.global.u32 [D], x; " MEET,
};

START_TEST(shared_memory_of_others_is_read_and_written) {
    each_schedule(reads[_i], (struct shape){8, 64, 4}, check_neighbours);
}
END_TEST

static void check_sums(void) {
    ck_assert_uint_eq(result[0], 3 * 64 * 3); /* ranks 0, 1, 2 of 64 threads: 0 + 1 + 2 each */
    ck_assert_uint_eq(result[1], 3 * 64 - 1); /* the largest of the counts seen */
    ck_assert_uint_eq(result[2], 0x00000007);
}

START_TEST(atomics_in_the_shared_memory_of_another_add_up) {
    each_schedule("mov.u32 u, 0; @p st.shared.v4.u32 [tile], {u, u, u, u}; " MEET
                  "mov.u32 v, tile; mapa.shared::cluster.u32 v, v, u; mul.lo.u32 w, r, 3; "
                  "red.relaxed.cluster.shared::cluster.add.u32 [v], w; mov.u32 x, 1; "
                  "atom.shared::cluster.add.u32 y, [v+4], x; red.shared::cluster.max.u32 [v+8], y; shl.b32 x, x, r; "
                  "cvt.u64.u32 A, v; cvta.shared.u64 A, A; red.or.b32 [A+12], x;\n" MEET
                  "setp.eq.u32 q, r, 0; and.pred q, q, p; @!q exit; ld.shared.v4.u32 {u, v, w, x}, [tile]; "
                  "st.global.u32 [O], u; st.global.u32 [O+4], w; st.global.u32 [O+8], x;",
                  (struct shape){3, 64, 3}, check_sums);
}
END_TEST

/* ---- barriers ---- */
static void check_arrivals(void) {
    for (uint32_t b = 0; b < 4; b++)
        ck_assert_uint_eq(result[b], 10 * b + 10 * (b ^ 1) + 64); /* 32 arrivals a CTA of the pair count one each */
}

/* Threads of both CTAs of a pair arrive at the mbarrier of each; its owner then reads what the other wrote there. */
START_TEST(remote_arrivals_complete_a_phase) {
    each_schedule(
        "@p mbarrier.init.shared.b64 [bars], 64; @p fence.mbarrier_init.release.cluster; mov.u32 w, 0; @p "
        "st.shared.v2.u32 [tile], {w, w}; " MEET
        "xor.b32 z, r, 1; mov.u32 x, bars; mapa.shared::cluster.u32 y, x, z; mov.u32 u, tile; "
        "mapa.shared::cluster.u32 v, u, z; mul.lo.u32 w, b, 10; @p st.shared::cluster.u32 [v], w; mov.u32 w, 1; "
        "red.shared::cluster.add.u32 [v+4], w; red.shared.add.u32 [u+4], w;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [y]; mapa.shared::cluster.u32 y, x, r; "
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [y];\n"
        "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 q, [bars], 0; @!q bra W;\n"
        "@!p bra END; ld.shared.v2.u32 {u, v}, [tile]; add.u32 u, u, v; mad.lo.u32 u, b, 10, u; mul.wide.u32 A, "
        "b, 4; add.u64 O, O, A; st.global.u32 [O], u; END: " MEET,
        (struct shape){4, 32, 2}, check_arrivals);
}
END_TEST

static void check_rounds(void) {
    for (uint32_t b = 0; b < 6; b++)
        ck_assert_uint_eq(result[64 * b], 5 * 100 * (b / 3 * 3 + (b + 1) % 3) + 0 + 1 + 2 + 3 + 4);
}

/* Work between arrive and wait, diverged threads, threads that have exited, five phases. */
START_TEST(phases_of_a_cluster_follow_each_other) {
    each_schedule(
        PLACES
        "setp.ge.u32 q, t, 40; @q exit; mov.u32 w, 0; mov.u32 x, 0; mov.u32 v, tile; mapa.shared::cluster.u32 y, v, "
        "z;\n"
        "L: mad.lo.u32 u, b, 100, w; @p st.shared.u32 [v], u; setp.lt.u32 q, l, 7; @q bra A1; barrier.cluster.arrive; "
        "bra A2; A1: nanosleep.u32 10; barrier.cluster.arrive; A2: nanosleep.u32 20; barrier.cluster.wait;\n"
        "ld.shared::cluster.u32 u, [y]; add.u32 x, x, u; " MEET
        "add.u32 w, w, 1; setp.lt.u32 q, w, 5; @q bra L; @p st.global.u32 [D], x;",
        (struct shape){6, 64, 3}, check_rounds);
}
END_TEST

/* A kernel without the attribute is a cluster of one. */
static void check_alone(void) {
    for (uint32_t b = 0; b < 2; b++)
        ck_assert_uint_eq(result[64 * b], 77 + b);
}

START_TEST(a_cta_alone_is_a_cluster_of_one) {
    each_schedule(PLACES "add.u32 w, b, 77; @p st.shared.u32 [tile], w; " MEET
                         "mov.u32 u, tile; mapa.shared::cluster.u32 u, "
                         "u, z; ld.shared::cluster.u32 x, [u]; sub.u32 x, x, r; sub.u32 c, c, 1; add.u32 x, x, c; @p "
                         "st.global.u32 [D], x; " MEET,
                  (struct shape){2, 64, 0}, check_alone);
}
END_TEST

/* ---- multicast ---- */
static void check_multicast(void) {
    for (uint32_t b = 0; b < 8; b++)
        for (uint32_t t = 0; t < 64;
             t++) /* word 16 t of 4 KB: quarter t / 16 was loaded by rank t / 16 of the cluster */
            ck_assert_uint_eq(result[64 * b + t], 0x01000000 + 4096 * (b / 4) + 16 * t);
}

/* Each CTA loads a quarter of 4 KB into all four; full: 4096 bytes. The second half of `in` is the second cluster's. */
#define QUARTERS(copy)                                                                                                 \
    PLACES "@p mbarrier.init.shared.b64 [bars], 1; @p mbarrier.arrive.expect_tx.shared.b64 _, [bars], 4096; @p "       \
           "fence.mbarrier_init.release.cluster; " MEET                                                                \
           "mov.u32 u, %clusterid.x; mul.wide.u32 A, u, 16384; add.u64 I, I, A; shl.b32 u, r, 10; cvt.u64.u32 A, u; "  \
           "add.u64 I, I, A; mov.u32 v, tile; add.u32 u, u, v; mov.b16 h, 15; shl.b32 w, r, 3; mov.u32 x, 0;\n" copy   \
           "W: mbarrier.try_wait.parity.shared::cta.b64 q, [bars], 0; @!q bra W; shl.b32 w, t, 6; add.u32 w, w, v; "   \
           "ld.shared.u32 x, [w]; st.global.u32 [D], x; " MEET

START_TEST(a_multicast_lands_in_every_cta_of_its_mask) {
    each_schedule(
        QUARTERS("@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [u], "
                 "[I], 1024, [bars], h; "),
        (struct shape){8, 64, 4}, check_multicast);
}
END_TEST

START_TEST(a_tensor_multicast_lands_in_every_cta_of_its_mask) {
    static const unsigned long long dims[] = {32, 512}, strides[] = {128};
    static const unsigned box[] = {32, 8}, steps[] = {1, 1};
    for (uint64_t seed = 0; seed < 12; seed++) {
        prepare(seed ? adverse(1, 4, seed) : fair(1, 4));
        OK(cpu_tensor_map(&maps[0], DRIVER_MAP_U32, 2, (void *)(uintptr_t)in_at, dims, strides, box, steps, 0, 0, 0,
                          0));
        ck_assert_msg(
            run_shaped(QUARTERS("mov.u32 y, %clusterid.x; shl.b32 y, y, 7; add.u32 w, w, y; mov.u64 B, map; "
                                "cvta.param.u64 B, B; @p cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                                ".mbarrier::complete_tx::bytes.multicast::cluster [u], [B, {x, w}], [bars], h; "),
                       (struct shape){8, 64, 4}, 0, 0) == 0,
            "%s", dcpkcpu_report());
        check_multicast();
    }
}
END_TEST

/* A load into another CTA, which waits for it there. */
START_TEST(a_load_into_another_cta_completes_there) {
    for (uint64_t seed = 0; seed < 12; seed++) {
        prepare(seed ? adverse(1, 4, seed) : fair(1, 4));
        ck_assert_msg(
            run_shaped(
                "@p mbarrier.init.shared.b64 [bars], 1; @p mbarrier.arrive.expect_tx.shared.b64 _, [bars], 64; " MEET
                "xor.b32 z, r, 1; mov.u32 u, tile; mapa.shared::cluster.u32 u, u, z; mov.u32 v, bars; "
                "mapa.shared::cluster.u32 v, v, z; mul.wide.u32 A, r, 64; add.u64 I, I, A; @p cp.async.bulk"
                ".shared::cluster.global.mbarrier::complete_tx::bytes [u], [I], 64, [v]; " WAIT(
                    "W", "bars", "0") "ld.shared.u32 x, [tile+60]; mul.wide.u32 A, r, 4; add.u64 O, O, A; "
                                      "st.global.u32 [O], x; " MEET,
                (struct shape){2, 32, 2}, 0, 0) == 0,
            "%s", dcpkcpu_report());
        ck_assert_uint_eq(result[0], 0x0100001F);
        ck_assert_uint_eq(result[1], 0x0100000F);
    }
}
END_TEST

/* ---- a ring that a pair shares ---- */
/* Each CTA of a pair: warp 0 loads its half of every chunk of 2 KB into both, warps 1 and 2 sum all of it, 8 words a
 * thread. full[s] = bars + 8 s: 1 arrival and both halves; empty[s] = bars + 32 + 8 s: the 2 warps of both CTAs. */
#define PAIR                                                                                                           \
    ".reg .b32 k<8>; .reg .b32 own, far, stage, empty; @!p bra READY; mov.u32 u, 0; mov.u32 v, bars;\n"                \
    "K: mbarrier.init.shared.b64 [v], 1; mbarrier.init.shared.b64 [v+32], 4; add.u32 v, v, 8; add.u32 u, u, 1; "       \
    "setp.lt.u32 q, u, 3; @q bra K; fence.mbarrier_init.release.cluster;\nREADY: " MEET                                \
    "cvt.u32.u64 c, N; mov.u32 x, 0; mov.u32 y, 0; mov.u32 z, 0; xor.b32 far, r, 1; mov.b16 h, 3; "                    \
    "mul.wide.u32 A, r, 1024; add.u64 I, I, A; setp.ge.u32 q, t, 32; @q bra CONSUME; @!p bra DONE;\n"                  \
    "P: shl.b32 u, x, 3; mov.u32 v, bars; add.u32 u, u, v; xor.b32 w, y, 1;\n"                                         \
    "PW: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 q, [u+32], w; @!q bra PW;\n"                         \
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [u], 2048; shl.b32 w, x, 11; mov.u32 v, tile; add.u32 w, w, v; "     \
    "shl.b32 v, r, 10; add.u32 w, w, v;\n"                                                                             \
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [w], [I], 1024, [u], h;\n"   \
    "add.u64 I, I, 2048; add.u32 x, x, 1; setp.eq.u32 q, x, 3; @q xor.b32 y, y, 1; @q mov.u32 x, 0; "                  \
    "sub.u32 c, c, 1; setp.ne.u32 q, c, 0; @q bra P; bra DONE;\n"                                                      \
    "CONSUME: mov.u32 v, bars; mapa.shared::cluster.u32 far, v, far; mapa.shared::cluster.u32 own, v, r;\n"            \
    "setp.eq.u32 pr, l, 1; selp.b32 empty, far, own, pr; setp.lt.u32 pr, l, 2;\n"                                      \
    "NEXT: shl.b32 u, x, 3; mov.u32 v, bars; add.u32 v, u, v;\n"                                                       \
    "CW: mbarrier.try_wait.parity.shared::cta.b64 q, [v], y; @!q bra CW;\n"                                            \
    "shl.b32 stage, x, 11; mov.u32 v, tile; add.u32 stage, stage, v; sub.u32 v, t, 32; shl.b32 v, v, 5; add.u32 "      \
    "stage, stage, v; ld.shared.v4.u32 {k0, k1, k2, k3}, [stage]; ld.shared.v4.u32 {k4, k5, k6, k7}, [stage+16];\n"    \
    "add.u32 z, z, k0; add.u32 z, z, k1; add.u32 z, z, k2; add.u32 z, z, k3; add.u32 z, z, k4; add.u32 z, z, k5; "     \
    "add.u32 z, z, k6; add.u32 z, z, k7; bar.warp.sync -1; add.u32 u, u, empty;\n"                                     \
    "@pr mbarrier.arrive.shared::cluster.b64 _, [u+32];\n"                                                             \
    "add.u32 x, x, 1; setp.eq.u32 q, x, 3; @q xor.b32 y, y, 1; @q mov.u32 x, 0; "                                      \
    "sub.u32 c, c, 1; setp.ne.u32 q, c, 0; @q bra NEXT;\n"                                                             \
    "shl.b32 u, r, 6; add.u32 u, u, t; sub.u32 u, u, 32; mul.wide.u32 A, u, 4; add.u64 O, O, A; st.global.u32 [O], "   \
    "z;\n"                                                                                                             \
    "DONE: " MEET

START_TEST(a_ring_that_a_pair_shares_sums_right_under_any_schedule) {
    for (uint64_t seed = 0; seed < 16; seed++) {
        uint32_t chunks = 1 + (uint32_t)(5 * seed % 16);
        prepare(seed + (uint64_t)_i ? adverse(1, 4, 500 * (uint64_t)_i + seed) : fair(1, 4));
        ck_assert_msg(run_shaped(PAIR, (struct shape){2, 96, 2}, chunks, 0) == 0, "%s", dcpkcpu_report());
        for (uint32_t t = 0; t < 128; t++) {
            uint32_t sum = 0;
            for (uint32_t chunk = 0; chunk < chunks; chunk++)
                for (uint32_t k = 0; k < 8; k++)
                    sum += 0x01000000 + 512 * chunk + 8 * (t % 64) + k;
            ck_assert_msg(result[t] == sum, "thread %u of CTA %u, seed %d", t % 64, t / 64, (int)seed);
        }
    }
}
END_TEST

/* ---- faults ---- */
#define REMOTE "mov.u32 v, tile; xor.b32 z, r, 1; mapa.shared::cluster.u32 v, v, z; "
#define SLOW "mov.u32 x, 0; Y: add.u32 x, x, 1; setp.lt.u32 q, x, 9000; @q bra Y; "
#define FIRST_GOES "setp.eq.u32 q, r, 0; @q exit; " SLOW REMOTE
static const struct outcome faults[] = {
    {FIRST_GOES "ld.shared::cluster.u32 u, [v];", "CTA 0 of the cluster, whose memory it is, has exited", 0},
    {FIRST_GOES "st.shared::cluster.u32 [v], v;", "has exited", 0},
    {FIRST_GOES "atom.shared::cluster.add.u32 u, [v], v;", "has exited", 0},
    {FIRST_GOES "mbarrier.arrive.shared::cluster.b64 _, [v];", "has exited", 0},
    {"setp.eq.u32 q, r, 0; @q exit; @p mbarrier.init.shared.b64 [bars], 1; " SLOW "mov.b16 h, 3; @p cp.async.bulk"
     ".shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], [I], 16, [bars], h;",
     "the ctaMask 0x3 names CTA 0, which has exited", 0},
    {"@p mbarrier.init.shared.b64 [bars], 1; " MEET "mov.b16 h, 5; @p cp.async.bulk.shared::cluster.global"
     ".mbarrier::complete_tx::bytes.multicast::cluster [tile], [I], 16, [bars], h; " SLOW MEET,
     "the ctaMask 0x5 names CTA 2, which the cluster does not have", 0},
    {REMOTE "ld.shared.u32 u, [v];", "of the cluster: only .shared::cluster reaches it", 0},
    {REMOTE "mbarrier.init.shared.b64 [v], 1;", "only .shared::cluster reaches it", 0},
    {REMOTE "ld.shared::cluster.u32 u, [v+65536];", "the shared memory is [0x400", 0},
    {REMOTE "ld.shared::cluster.u32 u, [v+1]; " MEET, "is not aligned to 4 bytes", 0},
    {"mov.u32 v, 0x7000400; ld.shared::cluster.u32 u, [v];", "it names no CTA of the cluster of 2", 0},
    {"mov.u32 v, tile; mov.u32 z, 2; mapa.shared::cluster.u32 v, v, z;", "there is no CTA 2 in a cluster of 2", 0},
    {"mapa.u64 A, I, r;", "is not in shared memory", 0},
    {REMOTE "mbarrier.arrive.shared::cluster.b64 _, [v]; " MEET,
     "of another CTA of the cluster: no mbarrier.init has come", 0},
    {"barrier.cluster.arrive; barrier.cluster.arrive; barrier.cluster.wait;", "has arrived before and not waited since",
     0},
    {"barrier.cluster.wait;", "barrier.cluster.wait: the thread has not arrived", 0},
    {"setp.eq.u32 q, r, 0; @q barrier.cluster.arrive.aligned; @q barrier.cluster.wait.aligned; @q exit; L: "
     "ld.relaxed.gpu.global.u32 u, [O]; bra L;",
     "no progress", 0},
    /* a multicast's bytes, read before they are there; another CTA's, likewise */
    {"@p mbarrier.init.shared.b64 [bars], 1; " MEET
     "mov.b16 h, 3; setp.eq.u32 q, r, 0; and.pred q, q, p; @q cp.async.bulk"
     ".shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], [I], 64, [bars], h; " MEET
     "@!q ld.shared.u32 u, [tile];",
     "of shared bytes that a bulk copy", 0},
    {"@p mbarrier.init.shared.b64 [bars], 1; " MEET "setp.eq.u32 q, r, 0; and.pred q, q, p; @q cp.async.bulk"
     ".shared::cluster.global.mbarrier::complete_tx::bytes [tile], [I], 64, [bars]; " MEET REMOTE
     "setp.eq.u32 q, r, 1; @q ld.shared::cluster.u32 u, [v]; " SLOW MEET,
     "of shared bytes that a bulk copy", 0},
    {"@p mbarrier.init.shared.b64 [bars], 1; " MEET REMOTE "@p cp.async.bulk.shared::cluster.global"
     ".mbarrier::complete_tx::bytes [v], [I], 64, [bars]; " MEET,
     "destination and mbarrier lie in different CTAs of the cluster", 0},
};

START_TEST(wrong_uses_are_faults_that_say_so) {
    expect(&faults[_i], (struct shape){2, 32, 2});
}
END_TEST

START_TEST(a_cluster_that_one_warp_does_not_reach_is_a_deadlock) {
    prepare(fair(1, 4));
    ck_assert_int_eq(run_shaped("setp.eq.u32 q, r, 0; @q bra SKIP; " MEET "SKIP: @!q exit; " WAIT("V", "bars", "0"),
                                (struct shape){2, 32, 2}, 0, 0),
                     719); /* rank 0 waits at an mbarrier that was never made */
    prepare(fair(1, 4));
    ck_assert_int_eq(run_shaped("setp.eq.u32 q, r, 0; @q mbarrier.init.shared.b64 [bars], 1; @q bra STAY; " MEET
                                "exit; STAY: " WAIT("V", "bars", "0") MEET,
                                (struct shape){2, 1, 2}, 0, 0),
                     719);
    says(dcpkcpu_report(), "1 warp at a barrier");
    says(dcpkcpu_report(), "barrier.cluster.wait.aligned");
    says(dcpkcpu_report(), "1 warp waiting at an mbarrier");
}
END_TEST

/* ---- launches ---- */
START_TEST(clusters_are_placed_as_a_whole_or_refused) {
    prepare(fair(1, 4));
    for (unsigned cluster = 1; cluster <= 8; cluster *= 2)
        OK(run_shaped("barrier.cluster.arrive; barrier.cluster.wait;", (struct shape){8, 1024, cluster}, 0, 0));
    char *text = kernel_of("");
    cu_function function = function_of_text(text, "f");
    free(text);
    static const struct {
        unsigned grid, cluster, result;
    } rows[] = {{8, 3, 1}, {16, 16, 912}, {9, 9, 912}, {8, 0, 912}};
    uint64_t n = 0;
    void *parameters[] = {&out_at, &in_at, &n, &n, &maps[0], &maps[1]};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cu_launch_attribute attribute = {.id = DRIVER_LAUNCH_CLUSTER};
        attribute.value.cluster.x = rows[i].cluster;
        attribute.value.cluster.y = attribute.value.cluster.z = 1;
        cu_launch_config config = {
            .grid = {rows[i].grid, 1, 1}, .block = {32, 1, 1}, .attributes = &attribute, .attribute_count = 1};
        GIVES((int)rows[i].result, cpu_launch(&config, function, parameters, NULL));
    }
}
END_TEST

/* Clusters that the kernel states itself. */
START_TEST(a_kernel_may_state_its_clusters) {
    static const struct {
        const char *directives;
        unsigned cluster; /* of the launch; 0: not said */
        int result;
        uint32_t want; /* %cluster_nctarank, and 100 where %is_explicit_cluster */
    } rows[] = {{".reqnctapercluster 2, 1, 1", 0, 0, 102},
                {".reqnctapercluster 4", 4, 0, 104},
                {".reqnctapercluster 2, 1, 1", 4, 912, 0},
                {".explicitcluster", 0, 912, 0},
                {".explicitcluster", 2, 0, 102},
                {".explicitcluster .reqnctapercluster 2", 0, 0, 102},
                {"", 2, 0, 102},
                {"", 0, 0, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = NULL;
        prepare(fair(1, 4));
        ck_assert_int_ge(asprintf(&text,
                                  PTX_HEAD
                                  ".visible .entry f(.param .u64 out) %s { .reg .b64 A; .reg .b32 u; .reg .pred p; "
                                  "ld.param.u64 A, [out]; mov.u32 u, %%cluster_nctarank; mov.pred p, "
                                  "%%is_explicit_cluster; @p add.u32 u, u, 100; st.global.u32 [A], u; "
                                  "ret; }",
                                  rows[i].directives),
                         0);
        void *parameters[] = {&out_at};
        cu_launch_attribute attribute = {.id = DRIVER_LAUNCH_CLUSTER};
        attribute.value.cluster.x = rows[i].cluster;
        attribute.value.cluster.y = attribute.value.cluster.z = 1;
        cu_launch_config config = {
            .grid = {4, 1, 1}, .block = {32, 1, 1}, .attributes = &attribute, .attribute_count = rows[i].cluster != 0};
        GIVES(rows[i].result, cpu_launch(&config, function_of_text(text, "f"), parameters, NULL));
        if (!rows[i].result) ck_assert_uint_eq(word_at(out_at), rows[i].want);
        free(text);
    }
    machine_with(fair(1, 1));
    says(refusal(PTX_HEAD ".visible .entry f() .reqnctapercluster 2 .blocksareclusters { ret; }"),
         ".blocksareclusters is not supported");
}
END_TEST

#define COUNT(table) ((int)(sizeof table / sizeof table[0]))
int main(void) {
    Suite *suite = suite_create("cpu_cluster");
    TCase *tcase = tcase_create("cluster");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, ctas_know_their_place_and_addresses_tell_it);
    tcase_add_loop_test(tcase, shared_memory_of_others_is_read_and_written, 0, COUNT(reads));
    tcase_add_test(tcase, atomics_in_the_shared_memory_of_another_add_up);
    tcase_add_test(tcase, remote_arrivals_complete_a_phase);
    tcase_add_test(tcase, phases_of_a_cluster_follow_each_other);
    tcase_add_test(tcase, a_cta_alone_is_a_cluster_of_one);
    tcase_add_test(tcase, a_multicast_lands_in_every_cta_of_its_mask);
    tcase_add_test(tcase, a_tensor_multicast_lands_in_every_cta_of_its_mask);
    tcase_add_test(tcase, a_load_into_another_cta_completes_there);
    tcase_add_loop_test(tcase, a_ring_that_a_pair_shares_sums_right_under_any_schedule, 0, 5);
    tcase_add_loop_test(tcase, wrong_uses_are_faults_that_say_so, 0, COUNT(faults));
    tcase_add_test(tcase, a_cluster_that_one_warp_does_not_reach_is_a_deadlock);
    tcase_add_test(tcase, clusters_are_placed_as_a_whole_or_refused);
    tcase_add_test(tcase, a_kernel_may_state_its_clusters);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
