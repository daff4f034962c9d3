/* test_cpu_async.c - cp.async: what it copies, which wait covers which group, when the bytes land, and the faults of
 * those who touch them too early. Results by hand; what an H200 gave where the manual leaves room. */
#include "tests/cpu_snippet.h"

enum { WORDS = 4096 };
static uint32_t source[WORDS], result[WORDS];

/* Thread t has o and i, its 16 bytes of out and in, and s, its 16 bytes of tile; word n of in is 0x01000000 + n. */
static char *kernel_of(const char *body) {
    char *text = NULL;
    ck_assert_int_ge(
        asprintf(
            &text,
            PTX_HEAD
            ".global .align 16 .b32 table[8] = {10, 11, 12, 13, 14, 15, 16, 17};\n"
            ".visible .entry f(.param .u64 out, .param .u64 in, .param .u64 n, .param .u64 m) {\n"
            ".reg .b32 t, s, u, v, w, x, y, z; .reg .b64 O, I, N, A, B, C; .reg .pred p, q; .reg .b16 h;\n"
            ".shared .align 128 .b8 tile[8192]; ld.param.u64 O, [out]; ld.param.u64 I, [in]; ld.param.u64 N, [n];\n"
            "mov.u32 t, %%tid.x; shl.b32 u, t, 4; mov.u32 s, tile; add.u32 s, s, u; cvt.u64.u32 A, u;\n"
            "add.u64 O, O, A; add.u64 I, I, A; setp.eq.u32 p, t, 0; mov.u64 B, 0; mov.u32 z, 0; mov.u64 C, 0; mov.u16 "
            "h, 0;\n%s\nret; }\n",
            body),
        0);
    return text;
}

static cu_ptr in_at, out_at;

static void prepare(dcpkcpu_options options) {
    machine_with(options);
    for (uint32_t i = 0; i < WORDS; i++)
        source[i] = 0x01000000 + i;
    in_at = words(WORDS, 0);
    out_at = words(WORDS, 0xEEEEEEEE);
    OK(cpu_copy_to_device(in_at, source, sizeof source));
}

/* The result of the call that waits. */
static cu_result run(const char *body, unsigned blocks, unsigned threads, uint64_t n) {
    char *text = kernel_of(body);
    launch(function_of_text(text, "f"), blocks, threads, NULL, false, out_at, in_at, n, 0);
    cu_result status = cpu_ctx_synchronize();
    if (!status) OK(cpu_copy_to_host(result, out_at, sizeof result));
    free(text);
    return status;
}

#define SHOW "cp.async.wait_all; ld.shared.v4.b32 {u, v, w, x}, [s]; st.global.v4.b32 [O], {u, v, w, x};"
#define FILLED "mov.u32 u, 0x55555555; st.shared.v4.b32 [s], {u, u, u, u}; "

START_TEST(a_copy_places_its_bytes_and_zeroes_the_rest) {
    enum { F = 0x55555555 };
    static const struct {
        const char *copy;
        uint32_t want[4]; /* of thread 0 */
    } rows[] = {
        {"cp.async.cg.shared.global [s], [I], 16;", {0x01000000, 0x01000001, 0x01000002, 0x01000003}},
        {"cp.async.ca.shared::cta.global [s], [I+32], 16;", {0x01000008, 0x01000009, 0x0100000A, 0x0100000B}},
        {"cp.async.ca.shared.global [s+8], [I+24], 8;", {F, F, 0x01000006, 0x01000007}},
        {"cp.async.ca.shared.global [s+4], [I+4], 4;", {F, 0x01000001, F, F}},
        {"cp.async.cg.shared.global [s], [I], 16, 8;", {0x01000000, 0x01000001, 0, 0}},
        {"cp.async.cg.shared.global [s], [I+16], 16, 5;", {0x01000004, 0x00000005, 0, 0}},
        {"mov.u32 x, 15; cp.async.cg.shared.global [s], [I+16], 16, x;",
         {0x01000004, 0x01000005, 0x01000006, 0x00000007}},
        {"cp.async.ca.shared.global [s], [I+4], 4, 3;", {0x00000001, F, F, F}},
        {"cp.async.cg.shared.global [s], [I], 16, 16;", {0x01000000, 0x01000001, 0x01000002, 0x01000003}},
        /* without the source its address may be anything */
        {"cp.async.cg.shared.global [s], [B], 16, 0;", {0, 0, 0, 0}},
        {"cp.async.cg.shared.global [s], [B+3], 16, z;", {0, 0, 0, 0}},
        {"setp.eq.u32 q, z, 0; cp.async.ca.shared.global [s], [B], 8, q;", {0, 0, F, F}},
        {"setp.ne.u32 q, z, 0; cp.async.ca.shared.global [s], [I], 8, q;", {0x01000000, 0x01000001, F, F}},
        {"setp.ne.u32 q, z, 0; cp.async.ca.shared.global [s], [I], 8, !q;", {0, 0, F, F}},
        /* hints change nothing */
        {"cp.async.cg.shared.global.L2::128B [s], [I], 16;", {0x01000000, 0x01000001, 0x01000002, 0x01000003}},
        {"createpolicy.fractional.L2::evict_first.b64 C, 1.0; cp.async.ca.shared.global.L2::cache_hint.L2::256B [s], "
         "[I], 4, C;",
         {0x01000000, F, F, F}},
        {"cp.async.cg.shared.global.L2::64B.L2::cache_hint [s], [I], 16, 4, C;", {0x01000000, 0, 0, 0}},
        {"setp.eq.u32 q, z, 0; cp.async.cg.shared.global.L2::cache_hint [s], [I], 16, q, C;", {0, 0, 0, 0}},
        /* addresses: variables, the shared window's generic ones, guards */
        {"cp.async.cg.shared.global [tile], [table+16], 16;", {14, 15, 16, 17}},
        {"cvt.u64.u32 C, s; cvta.shared.u64 C, C; cp.async.ca.shared.global [C+4], [table], 4;", {F, 10, F, F}},
        {"setp.ne.u32 q, z, 0; @q cp.async.cg.shared.global [s], [B], 16;", {F, F, F, F}},
    };
    char body[512];
    for (int adversary = 0; adversary < 2; adversary++) {
        prepare(adversary ? adverse(1, 1, 3) : fair(1, 1));
        snprintf(body, sizeof body, FILLED "@!p exit; %s " SHOW, rows[_i].copy);
        OK(run(body, 1, 32, 0));
        for (int k = 0; k < 4; k++)
            ck_assert_msg(result[k] == rows[_i].want[k], "%s: word %d is %08x", rows[_i].copy, k, result[k]);
    }
}
END_TEST

/* ---- groups ---- */
/* Copies into bytes 0, 16 and 32 of thread 0 are in the groups 0, 1 and 3; group 2 is empty. */
#define FOUR_GROUPS                                                                                                    \
    "@!p exit; cp.async.cg.shared.global [s], [I], 16; cp.async.commit_group; cp.async.ca.shared.global [s+16], "      \
    "[I+16], 16; cp.async.commit_group; cp.async.commit_group; cp.async.ca.shared.global [s+32], [I+32], 8; "          \
    "cp.async.ca.shared.global [s+40], [I+40], 8; cp.async.commit_group; "

START_TEST(wait_group_covers_all_but_the_newest) {
    static const bool covered[7][3] = {{true, true, true},   {true, true, false},   {true, true, false},
                                       {true, false, false}, {false, false, false}, {false, false, false},
                                       {false, false, false}};
    static const char *const waits[7] = {"wait_group 0", "wait_group 1", "wait_group 2",         "wait_group 3",
                                         "wait_group 4", "wait_group 5", "wait_group 4294967295"};
    char body[768], part[64];
    for (unsigned slot = 0; slot < 3; slot++)
        for (int adversary = 0; adversary < 2; adversary++) {
            prepare(adversary ? adverse(1, 1, slot) : fair(1, 1));
            snprintf(body, sizeof body, FOUR_GROUPS "cp.async.%s; ld.shared.u32 u, [s+%u]; st.global.u32 [O], u;",
                     waits[_i], 16 * slot + 8);
            cu_result status = run(body, 1, 32, 0);
            ck_assert_msg(status == (covered[_i][slot] ? 0 : 719), "%s, slot %u: %d %s", waits[_i], slot, (int)status,
                          dcpkcpu_report());
            if (covered[_i][slot]) {
                ck_assert_uint_eq(result[0], 0x01000000 + 4 * slot + 2);
                continue;
            }
            snprintf(part, sizeof part, "it is in group %u of the 4 committed", slot == 2 ? 4 : slot + 1);
            says(dcpkcpu_report(), "read of shared bytes that an unfinished cp.async still writes");
            says(dcpkcpu_report(), part);
        }
}
END_TEST

#define COPY(at) "cp.async.cg.shared.global [s+" at "], [I+" at "], 16; "
#define COMMIT "cp.async.commit_group; "
#define READ(at) "ld.shared.u32 u, [s+" at "]; st.global.u32 [O], u; "
static const struct {
    const char *body;
    const char *says; /* NULL: no fault; then result[0] is want */
    uint32_t want;
} groups[] = {
    {COPY("0") "cp.async.wait_all; " READ("0"), NULL, 0x01000000},
    {COPY("0") "cp.async.wait_group 0; " READ("0"), "has neither committed nor waited for it", 0},
    {COPY("0") COMMIT COPY("512") "cp.async.wait_group 0; " READ("0"), NULL, 0x01000000},
    {COPY("0") COMMIT COPY("512") "cp.async.wait_group 0; " READ("512"), "has neither committed", 0},
    {COPY("0") COMMIT COPY("512") "cp.async.wait_all; " READ("512"), NULL, 0x01000080},
    {COPY("0") "cp.async.wait_all; " COPY("512") COMMIT "cp.async.wait_group 1; " READ("0"), NULL, 0x01000000},
    {COPY("0") "cp.async.wait_all; " COPY("512") COMMIT "cp.async.wait_group 1; " READ("512"), "group 1 of the 1", 0},
    {COMMIT COMMIT COPY("0") COMMIT "cp.async.wait_group 1; " READ("0"), "group 3 of the 3", 0},
    {COPY("0") COMMIT COMMIT "cp.async.wait_group 1; " READ("0"), NULL, 0x01000000},
    {"cp.async.wait_group 0; cp.async.wait_all; " COMMIT COPY("0") COMMIT "cp.async.wait_group 0; " READ("0"), NULL,
     0x01000000},
    /* groups are a thread's own: thread 0 commits one more, and only its copy is covered */
    {COPY("0") COMMIT "@p cp.async.commit_group; cp.async.wait_group 1; @!p exit; " READ("0"), NULL, 0x01000000},
    {COPY("0") COMMIT "@!p cp.async.commit_group; cp.async.wait_group 1; @!p exit; " READ("0"), "thread (0,0,0)", 0},
    {"@p bra W; " COPY("0") COMMIT "W: cp.async.wait_group 0; @!p exit; ld.shared.u32 u, [s+16]; ",
     "another thread's cp.async wrote", 0},
    /* waiting twice, and bytes used again */
    {COPY("0") COMMIT "cp.async.wait_group 0; cp.async.wait_group 0; st.shared.u32 [s], t; " READ("0"), NULL, 0},
    {COPY("0") COMMIT
     "cp.async.wait_group 0; cp.async.ca.shared.global [s+4], [I+32], 4; cp.async.wait_all; " READ("4"),
     NULL, 0x01000008},
    {COPY("0") COMMIT "cp.async.wait_group 0; cp.async.ca.shared.global [s+4], [I+32], 4; " READ("8"), NULL,
     0x01000002},
    {COPY("0") COMMIT "cp.async.wait_group 0; cp.async.ca.shared.global [s+4], [I+32], 4; " READ("4"), "unfinished", 0},
};

START_TEST(groups_are_counted_as_the_manual_says) {
    for (int adversary = 0; adversary < 2; adversary++) {
        prepare(adversary ? adverse(1, 1, 12) : fair(1, 1)); /* seed 12: thread 1 waits before thread 0 reads */
        cu_result status = run(groups[_i].body, 1, 32, 0);
        if (groups[_i].says) {
            ck_assert_msg(status == 719, "%s: %d", groups[_i].body, (int)status);
            says(dcpkcpu_report(), groups[_i].says);
            continue;
        }
        ck_assert_msg(status == 0, "%s: %s", groups[_i].body, dcpkcpu_report());
        ck_assert_msg(result[0] == groups[_i].want, "%s: %08x", groups[_i].body, result[0]);
    }
}
END_TEST

/* ---- the moment of landing ---- */
/* Each thread writes 2, 3, 4 and 5 over its source while its copy flies. */
#define OVERWRITTEN                                                                                                    \
    "mov.u32 u, 1; st.global.v4.u32 [I], {u, u, u, u}; cp.async.cg.shared.global [s], [I], 16; "                       \
    "L: add.u32 u, u, 1; st.global.v4.u32 [I], {u, u, u, u}; setp.lt.u32 q, u, 5; @q bra L; " SHOW

START_TEST(a_fair_copy_reads_its_source_as_its_wait_comes) {
    prepare(fair(1, 1));
    OK(run(OVERWRITTEN, 1, 64, 0));
    for (int i = 0; i < 256; i++)
        ck_assert_uint_eq(result[i], 5);
}
END_TEST

START_TEST(the_adversary_lands_copies_at_any_moment_up_to_the_wait) {
    unsigned seen[6] = {0};
    for (uint64_t seed = 1; seed <= 100; seed++) {
        prepare(adverse(1, 1, seed));
        OK(run(OVERWRITTEN, 1, 64, 0));
        for (int t = 0; t < 64; t++) {
            const uint32_t *at = &result[4 * t];
            ck_assert(at[0] >= 1 && at[0] <= 5 && at[1] == at[0] && at[2] == at[0] && at[3] == at[0]);
            seen[at[0]]++;
        }
    }
    for (int value = 1; value <= 5; value++)
        ck_assert_msg(seen[value] >= 50, "%u copies of 6400 landed between stores %d and %d", seen[value], value,
                      value + 1);
}
END_TEST

/* ---- who may touch the bytes ---- */
#define OTHER "xor.b32 u, t, 33; shl.b32 u, u, 4; mov.u32 v, tile; add.u32 v, v, u; " /* v: a slot of another warp */
#define NEXT "xor.b32 u, t, 1; shl.b32 u, u, 4; mov.u32 v, tile; add.u32 v, v, u; "   /* of another lane */
#define GET "ld.shared.u32 u, [v]; st.global.u32 [O], u; "
#define UNFINISHED "of shared bytes that an unfinished cp.async still writes"
#define UNSEEN "of shared bytes that another thread's cp.async wrote, with no barrier since that thread waited for it"
#define MATRIX "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {u}, [s]; "
static const struct {
    const char *body, *says[3]; /* none: no fault */
} sights[] = {
    {COPY("0") READ("0"), {"read " UNFINISHED, "4 bytes at shared address 0x400 (tile + 0)", "PTX line 10"}},
    {COPY("0") "ld.shared.u8 h, [s+15];", {"read " UNFINISHED, "1 bytes at shared address 0x40f", "thread (0,0,0)"}},
    {COPY("0") "setp.eq.u32 q, t, 37; @q st.shared.u32 [s+4], t;",
     {"write " UNFINISHED, "(tile + 596)", "thread (37,0,0) of block (0,0,0) began it at kernel f, PTX line 10"}},
    {COPY("0") "cvt.u64.u32 A, s; cvta.shared.u64 A, A; ld.v2.u32 {u, v}, [A+8];", {"read " UNFINISHED}},
    {COPY("0") "cvt.u64.u32 A, s; cvta.shared.u64 A, A; st.u16 [A+8], h;", {"write " UNFINISHED}},
    {COPY("0") "atom.shared.add.u32 u, [s], 1;", {"atomic " UNFINISHED}},
    {"@!p exit; " COPY("16") "ld.shared.v2.u64 {A, B}, [s+16];", {"read " UNFINISHED, "16 bytes"}},
    {COPY("0") COMMIT COPY("0"), {"write " UNFINISHED, "16 bytes"}},
    {COPY("0") "cp.async.ca.shared.global [s+12], [I], 4;", {"write " UNFINISHED, "4 bytes"}},
    {COPY("0") MATRIX, {"read " UNFINISHED}},
    {COPY("0") "stmatrix.sync.aligned.m8n8.x1.shared.b16 [s], {u};", {"write " UNFINISHED}},
    /* another thread: barriers do not stand in for the wait, nor the wait for a barrier */
    {COPY("0") COMMIT "bar.sync 0; " OTHER GET, {"read " UNFINISHED, "group 1 of the 1"}},
    {COPY("0") "bar.sync 0; " OTHER "st.shared.u32 [v], t;", {"write " UNFINISHED, "neither committed"}},
    {COPY("0") "cp.async.wait_all; " NEXT GET, {"read " UNSEEN, "thread (1,0,0)"}},
    {COPY("0") "cp.async.wait_all; " MATRIX, {"read " UNSEEN}},
    {"setp.lt.u32 q, t, 32; @q bra W; " COPY("0") "cp.async.wait_all; bar.arrive 1, 64; bar.sync 0; exit; W: " OTHER
                                                  "bar.sync 2, 32; bar.sync 2, 32; nanosleep.u32 9; L: "
                                                  "ld.volatile.shared.u32 u, [v]; setp.eq.u32 q, u, 0; @q bra L;",
     {"read "}},
    {"setp.lt.u32 q, t, 32; @q bra W; " COPY("0") "bar.arrive 1, 64; cp.async.wait_all; bar.sync 0; exit; W: " OTHER
                                                  "bar.sync 1, 64; " GET "bar.sync 0;",
     {"read "}}, /* it arrived before it waited */
    {"@p bra W; " COPY("0") "exit; W: nanosleep.u32 9; barrier.sync 0; ld.shared.u32 u, [s+16];",
     {"read " UNFINISHED, "thread (1,0,0)"}}, /* it left without a wait */
    /* enough */
    {COPY("0") "cp.async.wait_all; " READ("0") "st.shared.u32 [s], t; atom.shared.add.u32 u, [s], 1;", {0}},
    {COPY("0") "cp.async.wait_all; bar.sync 0; " OTHER GET, {0}},
    {COPY("0") "cp.async.wait_all; barrier.cta.red.popc.aligned.u32 w, 3, p; " OTHER GET, {0}},
    {COPY("0") "cp.async.wait_all; bar.warp.sync -1; " NEXT GET, {0}},
    {COPY("0") "cp.async.wait_all; bar.warp.sync -1; " MATRIX, {0}},
    {COPY("0") "cp.async.wait_all; bar.sync 0; " MATRIX "st.shared.u32 [s], u; bar.sync 0; " COPY("0"), {0}},
    {COPY("0") "st.shared.v4.u32 [s+1024], {t, t, t, t}; ld.shared.v4.u32 {u, v, w, x}, [s+1024]; st.shared.v4.u32 "
               "[s+2048], {u, v, w, x};",
     {0}},
    {"cp.async.ca.shared.global [s+4], [I], 4; st.shared.u32 [s], t; st.shared.v2.u32 [s+8], {t, t}; "
     "ld.shared.v2.u32 {u, v}, [s+8];",
     {0}},
    {"setp.lt.u32 q, t, 32; @q bra W; " COPY("0") "cp.async.wait_all; bar.arrive 1, 64; exit; W: " OTHER
                                                  "bar.sync 1, 64; " GET,
     {0}},
    {"setp.lt.u32 q, t, 32; @q bra W; " COPY("0") "cp.async.wait_all; exit; W: " OTHER "bar.sync 0; " GET, {0}},
    {"@p st.volatile.shared.u32 [tile+4096], z; bar.sync 0; setp.lt.u32 q, t, 32; @q bra W; " COPY(
         "0") "cp.async.wait_all; bar.warp.sync -1; fence.acq_rel.cta; setp.eq.u32 "
              "q, t, 32; @q st.volatile.shared.u32 [tile+4096], t; exit; W: " OTHER
              "L: ld.volatile.shared.u32 u, [tile+4096]; setp.eq.u32 q, u, 0; @q bra L; fence.acq_rel.cta; " GET,
     {0}},
};

START_TEST(bytes_are_touched_only_by_those_who_see_them) {
    for (uint64_t seed = 0; seed < 6; seed++) {
        prepare(seed ? adverse(1, 1, seed) : fair(1, 1));
        cu_result status = run(sights[_i].body, 1, 64, 0);
        ck_assert_msg(status == (sights[_i].says[0] ? 719 : 0), "%s: %d %s", sights[_i].body, (int)status,
                      dcpkcpu_report());
        for (int k = 0; k < 3 && sights[_i].says[k] && !(seed && k); k++) /* which thread is first, the fair one says */
            says(dcpkcpu_report(), sights[_i].says[k]);
    }
}
END_TEST

START_TEST(what_an_exiting_thread_has_under_way_is_over_with_it) {
    for (uint64_t seed = 0; seed < 8; seed++) {
        prepare(seed ? adverse(1, 2, seed) : fair(1, 2));
        OK(run(COPY("0") "@!p exit; " COPY("4096") COMMIT "st.global.u32 [O], t;", 5, 96, 0));
        ck_assert_uint_eq(result[0], 0);
        OK(cpu_mem_free(in_at)); /* nothing reads it any more */
        OK(cpu_ctx_synchronize());
    }
}
END_TEST

/* ---- wrong addresses ---- */
START_TEST(a_wrong_copy_is_a_fault_with_its_place) {
    static const struct {
        const char *copy;
        cu_result result;
        const char *says;
    } rows[] = {
        {"cp.async.cg.shared.global [s+4], [I], 16;", 716, "0x404 is not aligned to the 16 bytes"},
        {"cp.async.ca.shared.global [s+2], [I], 4;", 716, "0x402 is not aligned to the 4 bytes"},
        {"cp.async.cg.shared.global [s], [I+4], 16;", 716, "is not aligned to the 16 bytes of the cp.async"},
        {"cp.async.ca.shared.global [s], [I+4], 8;", 716, "is not aligned to the 8 bytes of the cp.async"},
        {"cp.async.cg.shared.global [s], [I+4], 16, 4;", 716, "is not aligned to the 16 bytes of the cp.async"},
        {"add.u32 x, z, 17; cp.async.cg.shared.global [s], [I], 16, x;", 716, "src-size of 17 is more than the 16"},
        {"cp.async.cg.shared.global [s+8192], [I], 16;", 700, "the shared memory is [0x400, 0x2400)"},
        {"mov.u32 x, 0; cp.async.ca.shared.global [x], [I], 4;", 700, "shared address 0x0"},
        {"cp.async.cg.shared.global [s], [B], 16;", 700, "address 0x0"},
        {"cp.async.ca.shared.global [s], [I+16384], 4;", 700, "is 0 bytes past the end of"},
        {"cp.async.cg.shared.global [s], [I+16384], 16, 1;", 700, "past the end of"},
        {"cvt.u64.u32 C, s; cvta.shared.u64 C, C; cp.async.cg.shared.global [s], [C], 16;", 717,
         "is not in global memory"},
        {".local .align 16 .b8 own[16]; mov.u64 C, own; cvta.local.u64 C, C; cp.async.cg.shared.global [C], [I], 16;",
         717, "is not in shared memory"},
    };
    prepare(fair(1, 1));
    char body[256];
    snprintf(body, sizeof body, "@!p exit;\n%s", rows[_i].copy);
    GIVES(rows[_i].result, run(body, 1, 32, 0));
    says(dcpkcpu_report(), rows[_i].says);
    says(dcpkcpu_report(), "kernel f, PTX line 11: `cp.async");
    says(dcpkcpu_report(), "thread (0,0,0)");
}
END_TEST

START_TEST(what_the_assembler_refuses_is_refused_at_load) {
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"cp.async.cg.shared.global [s], [I], 8;", "cp.async.cg copies 16 bytes"},
        {"cp.async.ca.shared.global [s], [I], 12;", "copies 4, 8 or 16 bytes"},
        {"cp.async.ca.shared.global [s], [I], u;", "copies 4, 8 or 16 bytes"},
        {"cp.async.ca.shared.global [s], [I];", "3 or 4 operands"},
        {"cp.async.cg.shared.global [s], [I], 16, 17;", "at most the 16 bytes"},
        {"cp.async.cg.shared.global [s], [I], 16, A;", "src-size, a 32-bit integer, or ignore-src, a predicate"},
        {"cp.async.cg.shared.global.L2::cache_hint [s], [I], 16;", "the cache policy"},
        {"cp.async.cg.shared.global.L2::cache_hint [s], [I], 16, u;", "the cache policy"},
        {"cp.async.cg.shared.global.L2::32B [s], [I], 16;", "is not supported in this form"},
        {"cp.async.cg.shared::cluster.global [s], [I], 16;", "is not supported in this form"},
        {"cp.async.ca.global.shared [I], [s], 16;", "is not supported in this form"},
        {"cp.async.shared.global [s], [I], 16;", "is not supported in this form"},
        {"cp.async.cg.shared.global [table], [I], 16;", "`table` lies in another space"},
        {"cp.async.cg.shared.global [s], [tile], 16;", "`tile` lies in another space"},
        {"cp.async.wait_group u;", "a constant, is expected"},
        {"cp.async.wait_all 0;", "no operand is expected"},
        {"cp.async.mbarrier.arrive.noinc.global.b64 [tile];", "is not supported in this form"},
        {"cp.async.bulk.commit_group 1;", "no operand is expected"},
    };
    machine_with(fair(1, 1));
    char *text = kernel_of(rows[_i].text);
    const char *report = refusal(text);
    says(report, rows[_i].says);
    says(report, "PTX line 10");
    free(text);
}
END_TEST

/* ---- a tile loop of two stages: each thread sums what a thread of the other warp has copied ---- */
#define STAGE(next) "and.b32 w, " next ", 1; shl.b32 w, w, 10; add.u32 w, w, s; "
#define TILE_LOOP(wait, first, second)                                                                                 \
    "cvt.u32.u64 x, N; mov.u32 y, 0; mov.u32 z, 0; cp.async.cg.shared.global [s], [I], 16; cp.async.commit_group; "    \
    "L: add.u32 u, y, 1; setp.ge.u32 q, u, x; " STAGE(                                                                 \
        "u") "add.u64 I, I, 1024; @!q cp.async.cg.shared.global [w], "                                                 \
             "[I], 16; cp.async.commit_group; cp.async.wait_group " wait "; " first                                    \
             "xor.b32 u, t, 33; shl.b32 u, u, 4; "                                                                     \
             "and.b32 w, y, 1; shl.b32 w, w, 10; add.u32 w, w, u; mov.u32 v, tile; add.u32 w, w, v; "                  \
             "ld.shared.v2.u32 {u, v}, [w]; mad.lo.u32 z, u, 3, z; add.u32 z, z, v; ld.shared.v2.u32 {u, v}, [w+8]; "  \
             "mad.lo.u32 z, u, 5, z; mad.lo.u32 z, v, 7, z; " second                                                   \
             "add.u32 y, y, 1; setp.lt.u32 q, y, x; @q bra L; "                                                        \
             "st.global.u32 [O], z;"
#define BAR "bar.sync 0; "

static void expect_sums(uint32_t tiles) {
    for (uint32_t t = 0; t < 64; t++) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < tiles; k++) {
            const uint32_t *at = &source[256 * k + 4 * (t ^ 33)];
            sum += 3 * at[0] + at[1] + 5 * at[2] + 7 * at[3];
        }
        ck_assert_uint_eq(result[4 * t], sum);
    }
}

START_TEST(a_double_buffered_loop_is_right_under_200_seeds) {
    for (uint64_t seed = 0; seed <= 200; seed++) {
        uint32_t tiles = (uint32_t)(seed % 14) + 2;
        prepare(seed ? adverse(1, 1, seed) : fair(1, 1));
        ck_assert_msg(run(TILE_LOOP("1", BAR, BAR), 1, 64, tiles) == 0, "seed %d: %s", (int)seed, dcpkcpu_report());
        expect_sums(tiles);
    }
}
END_TEST

START_TEST(a_double_buffered_loop_that_lacks_something_is_caught) {
    static const struct {
        const char *body;
        unsigned least; /* of 40 schedules */
    } rows[] = {
        {TILE_LOOP("2", BAR, BAR), 40}, /* a wait that covers too little */
        {TILE_LOOP("1", "", BAR), 40},  /* no barrier after the wait */
        {TILE_LOOP("1", BAR, ""), 10},  /* none before the stage is used again: a matter of timing */
    };
    unsigned caught = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        prepare(seed ? adverse(1, 1, seed) : fair(1, 1));
        caught += run(rows[_i].body, 1, 64, 12) == 719;
    }
    ck_assert_msg(caught >= rows[_i].least, "%u of 40", caught);
}
END_TEST

/* Copies of several CTAs on two devices, their source on the other device. */
START_TEST(copies_from_a_peer_are_those_of_its_memory) {
    for (uint64_t seed = 0; seed < 5; seed++) {
        prepare(seed ? adverse(2, 2, seed) : fair(2, 2));
        make_peers(2);
        on(1);
        cu_ptr own = out_at;
        out_at = words(WORDS, 0);
        OK(run("mov.u32 u, %ctaid.x; mul.wide.u32 A, u, 1024; add.u64 I, I, A; add.u64 O, O, A; " COPY("0") SHOW, 8, 64,
               0));
        for (uint32_t i = 0; i < 2048; i++)
            ck_assert_uint_eq(result[i], 0x01000000 + i);
        out_at = own;
    }
}
END_TEST

#define COUNT(rows) ((int)(sizeof rows / sizeof rows[0]))

int main(void) {
    Suite *suite = suite_create("cpu_async");
    TCase *tcase = tcase_create("async");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_copy_places_its_bytes_and_zeroes_the_rest, 0, 21);
    tcase_add_loop_test(tcase, wait_group_covers_all_but_the_newest, 0, 7);
    tcase_add_loop_test(tcase, groups_are_counted_as_the_manual_says, 0, COUNT(groups));
    tcase_add_test(tcase, a_fair_copy_reads_its_source_as_its_wait_comes);
    tcase_add_test(tcase, the_adversary_lands_copies_at_any_moment_up_to_the_wait);
    tcase_add_loop_test(tcase, bytes_are_touched_only_by_those_who_see_them, 0, COUNT(sights));
    tcase_add_test(tcase, what_an_exiting_thread_has_under_way_is_over_with_it);
    tcase_add_loop_test(tcase, a_wrong_copy_is_a_fault_with_its_place, 0, 13);
    tcase_add_loop_test(tcase, what_the_assembler_refuses_is_refused_at_load, 0, 18);
    tcase_add_test(tcase, a_double_buffered_loop_is_right_under_200_seeds);
    tcase_add_loop_test(tcase, a_double_buffered_loop_that_lacks_something_is_caught, 0, 3);
    tcase_add_test(tcase, copies_from_a_peer_are_those_of_its_memory);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
