/* test_cpu_wrap.c - addresses in 32-bit registers: register plus offset is taken modulo 2^32, as compilers count on
 * when they hoist a base below zero. Every kind of access to shared, local and the cluster's memory. */
#include "tests/cpu_kernel.h"

/* x: tile less 8192, y: bars less 8192, both far below zero; word 0 of each thread's 16 bytes of tile: its number */
#define BELOW                                                                                                          \
    "mov.u32 v, tile; shl.b32 w, t, 4; add.u32 w, v, w; st.shared.v4.b32 [w], {t, t, t, t}; sub.u32 x, v, 1048576; "   \
    "mov.u32 y, bars; sub.u32 y, y, 8192; bar.sync 0; "
#define ALONE BELOW "@!p exit; "
#define AT "[x+1048576]"
#define BAR "[y+8192]"
#define ONE_BARRIER ALONE "mbarrier.init.shared.b64 " BAR ", 1; "
#define READ(at) "ld.shared.u32 u, [" at "]; " SHOW("u")

static const struct outcome accesses[] = {
    {ALONE "ld.shared.u32 u, [x+1048592];" SHOW("u"), NULL, 1},
    {ALONE "ld.shared.v4.b32 {u, w, w, w}, [x+1048608];" SHOW("u"), NULL, 2},
    {ALONE "ld.volatile.shared.u32 u, [x+1048592];" SHOW("u"), NULL, 1},
    {ALONE "sub.u32 x, v, 3221225472; ld.shared.u32 u, [x+3221225488];" SHOW("u"), NULL, 1},
    {ALONE "add.u32 x, v, 64; ld.shared.u32 u, [x+-48];" SHOW("u"), NULL, 1},
    {ALONE "st.shared.u32 " AT ", 77;" READ("tile"), NULL, 77},
    {ALONE "atom.shared.add.u32 u, [x+1048592], 4;" READ("tile+16"), NULL, 5},
    {ALONE "red.shared.add.u32 [x+1048592], 6;" READ("tile+16"), NULL, 7},
    {ALONE "atom.shared.cas.b32 u, [x+1048592], 1, 9;" READ("tile+16"), NULL, 9},
    {ALONE "cp.async.ca.shared.global " AT ", [I+12], 4; cp.async.wait_all;" READ("tile"), NULL, 0x01000003},
    {BELOW "shl.b32 u, t, 4; add.u32 x, x, u; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {u}, " AT
           "; @!p exit;" SHOW("u"),
     NULL, 0},
    {BELOW "shl.b32 u, t, 4; add.u32 x, x, u; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {u}, " AT
           "; setp.ne.u32 q, t, 20; @q exit;" SHOW("u"),
     NULL, 5},
    {BELOW "shl.b32 u, t, 4; add.u32 x, x, u; mov.u32 u, 99; stmatrix.sync.aligned.m8n8.x1.shared.b16 " AT
           ", {u}; bar.sync 0; @!p exit;" READ("tile+16"),
     NULL, 99},
    {ONE_BARRIER "mbarrier.arrive.expect_tx.shared.b64 _, " BAR ", 16; cp.async.bulk.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes " AT ", [I+16], 16, " BAR "; " WAIT("W", "y+8192", "0") READ("tile+4"),
     NULL, 0x01000005},
    {ONE_BARRIER "mbarrier.arrive.shared.b64 A, " BAR "; mbarrier.test_wait.shared.b64 q, " BAR
                 ", A; selp.u32 u, 3, 4, q;" SHOW("u"),
     NULL, 3},
    {ONE_BARRIER "mbarrier.expect_tx.shared.b64 " BAR ", 16; mbarrier.complete_tx.shared.b64 " BAR
                 ", 16; cp.async.mbarrier.arrive.noinc.shared.b64 " BAR
                 "; " WAIT("W", "bars", "0") "mbarrier.inval.shared.b64 " BAR "; mov.u32 u, 8;" SHOW("u"),
     NULL, 8},
    {ALONE "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [x+1048577], [I], 16, [bars];",
     "shared address 0x801 is not aligned to 16 bytes", 0},
    {ALONE "st.shared.v4.b32 " AT ", {w, w, w, w}; fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group "
           "[O], [x+1048592], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
     NULL, 1},
    {ALONE
     "mapa.shared::cluster.u32 w, v, r; sub.u32 w, w, 268435456; ld.shared::cluster.u32 u, [w+268435472];" SHOW("u"),
     NULL, 1},
    {ALONE "mapa.shared::cluster.u32 w, v, r; sub.u32 w, w, 268435456; st.shared::cluster.u32 [w+268435472], 12; "
           "atom.shared::cluster.add.u32 u, [w+268435472], 1;" READ("tile+16"),
     NULL, 13},
    {".local .b8 mine[64]; " ALONE "mov.u32 w, mine; sub.u32 w, w, 64; st.local.u32 [w+80], 6; "
     "ld.local.u32 u, [mine+16];" SHOW("u"),
     NULL, 6},
    {".local .b8 mine[64]; " ALONE "st.local.u32 [mine+16], 6; mov.u32 w, mine; sub.u32 w, w, 4096; "
     "ld.local.u32 u, [w+4112];" SHOW("u"),
     NULL, 6},
    /* 64-bit registers count in 64 bits; what leaves the window is still outside */
    {ALONE "mov.u64 A, tile; sub.u64 A, A, 4096; ld.shared.u32 u, [A+4112];" SHOW("u"), NULL, 1},
    {ALONE "ld.shared.u32 u, [x];" SHOW("u"), "0xfff00800", 0},
};

START_TEST(a_32_bit_address_and_its_offset_are_added_modulo_2_to_the_32) {
    expect(&accesses[_i], (struct shape){1, 32, 0});
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_wrap");
    TCase *tcase = tcase_create("addresses");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_32_bit_address_and_its_offset_are_added_modulo_2_to_the_32, 0,
                        sizeof accesses / sizeof *accesses);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
