/* test_cpu_order.c - what may overtake what on the CPU device: programmatic dependent launch, late stores, multicast,
 * clusters, seeds. Every "never" is checked over seeds; every "may" must happen under one of them. */
#include "tests/cpu_world.h"

#define KERNEL(name) ".visible .entry " name "(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n"
#define LOADS                                                                                                          \
    "{ .reg .b64 %a, %b, %c, %d, %o; .reg .b32 %t, %v, %w, %x, %y, %z; .reg .pred %p;\n"                               \
    "ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c]; ld.param.u64 %d, [d];\n"
#define POLL(load, address, until) "again: " load " %v, [" address "]; setp." until ".u32 %p, %v, 0; @%p bra again;\n"

/* CTA 1 of a pair copies 16 bytes from a into both after `issuer`; CTA 0 has done `other` by then; [b + 4 rank] = word
 */
#define SHARES(name, issuer, other)                                                                                    \
    KERNEL(name)                                                                                                       \
    ".reqnctapercluster 2\n" LOADS                                                                                     \
    ".shared .align 16 .b8 tile[16]; .shared .align 8 .b64 bar; .reg .b16 %h; mov.b16 %h, 3;\n"                        \
    "mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0; mov.u32 %x, bar; mov.u32 %y, tile; mov.u32 %z, %cluster_ctarank;\n"    \
    "@%p mbarrier.init.shared.b64 [%x], 1; @%p mbarrier.arrive.expect_tx.shared.b64 _, [%x], 16;\n"                    \
    "@%p fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"         \
    "setp.ne.u32 %p, %z, 1; @%p bra other; " issuer                                                                    \
    " setp.ne.u32 %p, %t, 0; @%p bra lands; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"         \
    ".multicast::cluster [%y], [%a], 16, [%x], %h; bra lands; other: " other                                           \
    "\nlands: mbarrier.try_wait.parity.shared.b64 %p, [%x], 0; @!%p bra lands; griddepcontrol.wait;\n"                 \
    "ld.shared.u32 %v, [%y]; mad.wide.u32 %b, %z, 4, %b; st.global.u32 [%b], %v;\n"                                    \
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret; }\n"

static const char kernels[] = PTX_HEAD KERNEL("first") LOADS "griddepcontrol.launch_dependents;\n" POLL(
    "ld.relaxed.sys.global.u32", "%a", "eq") "st.global.u32 [%b], 1; ret; }\n" KERNEL("second") LOADS
    "st.relaxed.sys.global.u32 [%a], 1; griddepcontrol.wait; ld.global.u32 %v, [%b];\n"
    "add.u32 %v, %v, 10; st.global.u32 [%c], %v; ret; }\n"
    /* [a] = b after c turns */
    KERNEL("slow") LOADS
    "griddepcontrol.wait; griddepcontrol.launch_dependents; cvt.u32.u64 %t, %c; cvt.u32.u64 %v, %b;\n"
    "again: sub.u32 %t, %t, 1; setp.ne.u32 %p, %t, 0; @%p bra again;\n"
    "st.global.u32 [%a], %v; ret; }\n"
    /* [b] = [a] */
    SHARES("issuer_waits", "griddepcontrol.wait;", "") SHARES("other_waits", "", "griddepcontrol.wait;")
        KERNEL("waits_copies") LOADS "griddepcontrol.wait; griddepcontrol.launch_dependents; ld.global.u32 %v, [%a]; "
                                     "st.global.u32 [%b], %v; ret; }\n" KERNEL("copies") LOADS
    "griddepcontrol.launch_dependents; ld.global.u32 %v, [%a]; st.global.u32 [%b], %v; ret; }\n" KERNEL("waits") LOADS
    "griddepcontrol.wait; griddepcontrol.launch_dependents; ret; }\n" KERNEL("goes_on") LOADS
    "griddepcontrol.launch_dependents; ret; }\n"
    /* data [a], flag [b], without and with a fence */
    KERNEL("tell") LOADS
    "st.relaxed.sys.global.u32 [%a], 7; st.relaxed.sys.global.u32 [%b], 1; ret; }\n" KERNEL("tell_fenced") LOADS
    "st.relaxed.sys.global.u32 [%a], 7; fence.acq_rel.sys; st.relaxed.sys.global.u32 [%b], 1; ret; }\n" KERNEL(
        "tell_released") LOADS "st.global.u32 [%a], 7; st.release.sys.global.u32 [%b], 1; ret; }\n"
    /* thread 32 stores the data, thread 0 the flag */
    KERNEL("tell_by_barrier") LOADS
    "mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 32; @%p st.global.u32 [%a], 7; bar.sync 0;\n"
    "setp.eq.u32 %p, %t, 0; @!%p bra out; fence.acq_rel.sys; st.relaxed.sys.global.u32 [%b], 1; out: ret; }\n"
    /* the same, but the threads meet by a word of shared memory, which orders nothing */
    KERNEL("tell_by_hearsay") LOADS ".shared .align 4 .b32 said; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;\n"
                                    "@%p st.volatile.shared.u32 [said], 0; bar.sync 0; mov.u32 %x, 9; setp.eq.u32 %p, "
                                    "%t, 32; @%p st.global.u32 [%a], 7;\n"
                                    "@%p st.volatile.shared.u32 [said], %x; setp.eq.u32 %p, %t, 0; @!%p bra out;\n"
                                    "again: ld.volatile.shared.u32 %v, [said]; setp.ne.u32 %p, %v, 9; @%p bra again;\n"
                                    "fence.acq_rel.sys; st.relaxed.sys.global.u32 [%b], 1; out: ret; }\n"
    /* [c] = data after the flag */
    KERNEL("listen")
        LOADS POLL("ld.acquire.sys.global.u32", "%b",
                   "eq") "ld.relaxed.sys.global.u32 %w, [%a]; st.global.u32 [%c], %w; ret; }\n" KERNEL("store_four")
            LOADS "mov.u32 %v, 1; st.relaxed.sys.global.v4.u32 [%a], {%v, %v, %v, %v}; ret; }\n"
    /* [b] = the four words at [a] when the first of them has come */
    KERNEL("watch_four") LOADS "again: ld.relaxed.sys.global.v4.u32 {%v, %w, %x, %y}, [%a]; or.b32 %t, %v, %w; or.b32 "
                               "%z, %x, %y; or.b32 %t, %t, %z;\n"
                               "setp.eq.u32 %p, %t, 0; @%p bra again; st.global.v4.u32 [%b], {%v, %w, %x, %y}; ret; }\n"
    /* [b] = what a thread reads of its own stores to [a]: 1, then 2 */
    KERNEL("own_words") LOADS
    "st.global.u32 [%a], 1; ld.global.u32 %v, [%a]; st.global.u32 [%b], %v; st.global.u32 [%a], 2; ld.global.u32 %v, "
    "[%a];\n"
    "st.global.u32 [%b+4], %v; atom.global.add.u32 %v, [%a], 5; st.global.u32 [%b+8], %v; ret; }\n"
    /* the CTA's ticket */
    KERNEL("ticket") LOADS "mov.u32 %t, %ctaid.x; mul.wide.u32 %o, %t, 4; add.u64 %b, %b, %o; atom.global.add.u32 %v, "
                           "[%a], 1; st.global.u32 [%b], %v; ret; }\n"
    /* every CTA of a cluster of 4 waits for the others */
    KERNEL("meet") LOADS
    "mov.u32 %t, %ctaid.x; shr.u32 %t, %t, 2; mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; mov.u32 %t, %tid.x;\n"
    "setp.ne.u32 %p, %t, 0; @%p bra again; red.relaxed.gpu.global.add.u32 [%a], 1;\n"
    "again: ld.relaxed.gpu.global.u32 %v, [%a]; setp.lt.u32 %p, %v, 4; @%p bra again; ret; }\n" KERNEL("multicast")
        LOADS
    "mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 16; add.u64 %a, %a, %o;\n"
    "mov.b32 %v, 0f40400000; multimem.st.relaxed.sys.global.v4.f32 [%a], {%v, %v, %v, %v}; ret; }\n" KERNEL("read")
        LOADS "ld.global.u32 %v, [%a]; st.global.u32 [%b], %v; ret; }\n";

START_TEST(a_dependent_runs_beside_its_predecessor_once_that_lets_it) {
    machine_with(fair(1, 4));
    cu_stream stream = new_stream();
    cu_ptr at = words(3, 0);
    launch(function_on(0, kernels, "first"), 1, 1, stream, false, at, at + 4, 0, 0);
    launch(function_on(0, kernels, "second"), 1, 1, stream, true, at, at + 4, at + 8,
           0); /* only it ends the first one's poll */
    OK(cpu_stream_synchronize(stream));
    ck_assert_uint_eq(word_at(at + 8), 11);
    ck_assert_uint_eq(counters_now().pdl_launches, 1);
    ck_assert_uint_eq(counters_now().pdl_early, 1);
}
END_TEST

START_TEST(without_the_attribute_nothing_overtakes) {
    machine_with(fair(1, 4));
    cu_stream stream = new_stream();
    cu_ptr at = words(3, 0);
    launch(function_on(0, kernels, "first"), 1, 1, stream, false, at, at + 4, 0, 0);
    launch(function_on(0, kernels, "second"), 1, 1, stream, false, at, at + 4, at + 8, 0);
    GIVES(719, cpu_stream_synchronize(stream));
    ck_assert_ptr_nonnull(strstr(dcpkcpu_report(), "kernel second waits for what is before it"));
}
END_TEST

/* The word that `second` copies from what `slow` writes. */
static uint32_t run_pair(uint64_t seed, const char *second, bool pdl) {
    machine_with(adverse_with_races(1, 4, seed));
    cu_stream stream = new_stream();
    cu_ptr at = words(2, 0);
    launch(function_on(0, kernels, "slow"), 2, 32, stream, false, at, 5, 400, 0);
    launch(function_on(0, kernels, second), 2, 32, stream, pdl, at, at + 4, 0, 0);
    OK(cpu_stream_synchronize(stream));
    return word_at(at + 4);
}

START_TEST(wait_sees_what_the_predecessor_wrote_and_its_absence_does_not) {
    unsigned early = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        ck_assert_uint_eq(run_pair(seed, "waits_copies", true), 5);
        ck_assert_uint_eq(run_pair(seed, "copies", false), 5);
        early += run_pair(seed, "copies", true) != 5;
    }
    ck_assert_uint_gt(early, 5);
}
END_TEST

/* What a pair says of a word that the kernel before it wrote and one of its CTAs copied into both; 0: it was stopped.
 */
static uint32_t run_shared(uint64_t seed, const char *second) {
    machine_with(adverse(1, 4, seed));
    cu_stream stream = new_stream();
    cu_ptr at = words(8, 0);
    launch(function_on(0, kernels, "slow"), 1, 32, stream, false, at, 5, 400, 0);
    launch(function_on(0, kernels, second), 2, 32, stream, true, at, at + 16, 0, 0);
    if (cpu_stream_synchronize(stream) != 0) {
        ck_assert_msg(strstr(dcpkcpu_report(), "griddepcontrol.wait") != NULL, "%s %d: %s", second, (int)seed,
                      dcpkcpu_report());
        return 0;
    }
    ck_assert_uint_eq(word_at(at + 16), word_at(at + 20));
    return word_at(at + 16);
}

START_TEST(a_multicast_copy_reads_as_the_cta_that_began_it) {
    unsigned early = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        ck_assert_msg(run_shared(seed, "issuer_waits") == 5, "seed %d: %s", (int)seed, dcpkcpu_report());
        early += run_shared(seed, "other_waits") != 5;
    }
    ck_assert_uint_gt(early, 10);
}
END_TEST

static uint32_t run_chain(uint64_t seed, const char *middle) {
    machine_with(adverse_with_races(1, 4, seed));
    cu_stream stream = new_stream();
    cu_ptr at = words(2, 0);
    launch(function_on(0, kernels, "slow"), 1, 32, stream, false, at, 5, 2000, 0);
    launch(function_on(0, kernels, middle), 1, 32, stream, true, 0, 0, 0, 0);
    launch(function_on(0, kernels, "waits_copies"), 1, 32, stream, true, at, at + 4, 0, 0);
    OK(cpu_stream_synchronize(stream));
    return word_at(at + 4);
}

START_TEST(wait_reaches_over_a_kernel_only_if_that_waited_too) {
    unsigned early = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        ck_assert_uint_eq(run_chain(seed, "waits"), 5);
        early += run_chain(seed, "goes_on") != 5;
    }
    ck_assert_uint_gt(early, 3);
}
END_TEST

/* ---- late stores ------------------------------------------------------------------------------------ */
/* What device 1 reads after the flag: 7, or 0 when the data came later than the flag. */
static uint32_t pass_message(uint64_t seed, const char *teller) {
    machine_with(adverse(2, 2, seed));
    make_peers(2);
    cu_function tell = function_on(0, kernels, teller), listen = function_on(1, kernels, "listen");
    on(1);
    cu_ptr at = words(64, 0);
    launch(listen, 1, 1, NULL, false, at, at + 128, at + 200, 0);
    on(0);
    launch(tell, 1, 64, NULL, false, at, at + 128, 0, 0);
    on(1);
    OK(cpu_ctx_synchronize());
    return word_at(at + 200);
}

START_TEST(a_message_between_devices_needs_its_fence) {
    static const char *const sound[] = {"tell_fenced", "tell_released", "tell_by_barrier"};
    unsigned late = 0, hearsay = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        late += pass_message(seed, "tell") == 0;
        hearsay += pass_message(seed, "tell_by_hearsay") == 0;
        ck_assert_uint_eq(pass_message(seed, sound[seed % 3]), 7);
    }
    ck_assert_uint_gt(late, 20);
    ck_assert_uint_lt(late, 180);
    ck_assert_uint_gt(hearsay, 5);
}
END_TEST

START_TEST(words_of_one_store_come_one_by_one_in_any_order) {
    unsigned seen[16] = {0}, kinds = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        machine_with(adverse(2, 2, seed));
        make_peers(2);
        cu_function store = function_on(0, kernels, "store_four"), watch = function_on(1, kernels, "watch_four");
        on(1);
        cu_ptr at = words(8, 0);
        launch(watch, 1, 1, NULL, false, at, at + 16, 0, 0);
        on(0);
        launch(store, 1, 1, NULL, false, at, 0, 0, 0);
        on(1);
        uint32_t four[4];
        OK(cpu_copy_to_host(four, at + 16, 16));
        seen[four[0] | four[1] << 1 | four[2] << 2 | four[3] << 3]++;
    }
    ck_assert_uint_eq(seen[0], 0);
    for (unsigned i = 1; i < 16; i++)
        kinds += seen[i] > 0;
    ck_assert_uint_ge(kinds, 6);
    ck_assert_uint_gt(seen[8] + seen[4], 0); /* a later word first */
}
END_TEST

START_TEST(a_thread_sees_its_own_stores_and_the_last_one_stays) {
    for (uint64_t seed = 0; seed < 100; seed++) {
        machine_with(adverse(2, 2, seed));
        make_peers(2);
        cu_ptr near = words(3, 0);
        on(1);
        cu_ptr far = words(1, 0);
        on(0);
        launch(function_on(0, kernels, "own_words"), 1, 1, NULL, false, far, near, 0, 0);
        OK(cpu_ctx_synchronize());
        ck_assert_uint_eq(word_at(near), 1);
        ck_assert_uint_eq(word_at(near + 4), 2);
        ck_assert_uint_eq(word_at(near + 8), 2); /* what the atomic found */
        ck_assert_uint_eq(word_at(far), 7);
    }
}
END_TEST

START_TEST(a_complete_kernel_has_no_store_on_its_way) {
    unsigned delayed = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        machine_with(adverse(2, 2, seed));
        make_peers(2);
        cu_function store = function_on(0, kernels, "store_four"), copy = function_on(1, kernels, "copies");
        cu_event event = NULL;
        OK(cpu_event_create(&event, 0));
        on(1);
        cu_ptr at = words(8, 0);
        on(0);
        launch(store, 1, 1, NULL, false, at, 0, 0, 0);
        OK(cpu_event_record(event, NULL));
        on(1);
        OK(cpu_stream_wait_event(NULL, event, 0));
        launch(copy, 1, 1, NULL, false, at + 12, at + 16, 0, 0);
        ck_assert_uint_eq(word_at(at + 16), 1);
        delayed += counters_now().peer_stores_delayed > 0;
    }
    ck_assert_uint_eq(delayed, 100);
}
END_TEST

/* ---- multicast -------------------------------------------------------------------------------------- */
enum { UNIT = 1 << 21 };

static cu_ptr map_handle(cu_mem handle, int first, int count) {
    cu_ptr address = 0;
    OK(cpu_vmm_reserve(&address, UNIT, 0, 0, 0));
    OK(cpu_vmm_map(address, UNIT, 0, handle, 0));
    for (int d = first; d < first + count; d++) {
        cu_mem_access access = {.location = {DRIVER_MEM_ON_DEVICE, d}, .flags = DRIVER_MEM_READ_WRITE};
        OK(cpu_vmm_set_access(address, UNIT, &access, 1));
    }
    return address;
}

/* Memory on each of 3 devices, mapped for itself, and all of it under the address given back. */
static cu_ptr make_multicast(cu_ptr members[3], int bound) {
    cu_multicast_properties properties = {.devices = 3, .bytes = UNIT};
    cu_mem object = 0;
    OK(cpu_multicast_create(&object, &properties));
    for (int d = 0; d < 3; d++)
        OK(cpu_multicast_add(object, d));
    for (int d = 0; d < 3; d++) {
        cu_mem_properties place = {.type = DRIVER_MEM_PINNED, .location = {DRIVER_MEM_ON_DEVICE, d}};
        cu_mem memory = 0;
        OK(cpu_vmm_create(&memory, UNIT, &place, 0));
        if (d < bound) OK(cpu_multicast_bind(object, 0, memory, 0, UNIT, 0));
        members[d] = map_handle(memory, d, 1);
        OK(cpu_vmm_release(memory));
    }
    cu_ptr all = map_handle(object, 0, 3);
    OK(cpu_vmm_release(object));
    return all;
}

START_TEST(a_multicast_store_reaches_every_member) {
    for (uint64_t seed = 0; seed < 20; seed++) {
        machine_with(adverse(3, 2, seed));
        cu_ptr members[3], all = make_multicast(members, 3);
        launch(function_on(0, kernels, "multicast"), 1, 64, NULL, false, all + 4096, 0, 0, 0);
        OK(cpu_ctx_synchronize());
        for (int d = 0; d < 3; d++) {
            ck_assert_uint_eq(word_at(members[d] + 4096), 0x40400000);
            ck_assert_uint_eq(word_at(members[d] + 4096 + 1020), 0x40400000);
            ck_assert_uint_eq(word_at(members[d] + 4096 + 1024), 0xCBCBCBCB);
        }
        ck_assert_uint_eq(counters_now().multicast_stores, 64);
        OK(cpu_vmm_unmap(all, UNIT));
        GIVES(1, cpu_vmm_unmap(all, UNIT));
        OK(cpu_vmm_free(all, UNIT));
    }
}
END_TEST

START_TEST(a_multicast_address_cannot_be_read) {
    machine_with(fair(3, 2));
    cu_ptr members[3], all = make_multicast(members, 3);
    launch(function_on(0, kernels, "read"), 1, 1, NULL, false, all, members[0], 0, 0);
    GIVES(700, cpu_ctx_synchronize());
    ck_assert_ptr_nonnull(strstr(dcpkcpu_report(), "a multicast address cannot be loaded from"));
}
END_TEST

START_TEST(a_multicast_store_where_a_member_has_no_memory_is_a_fault) {
    machine_with(fair(3, 2));
    cu_ptr members[3], all = make_multicast(members, 2);
    launch(function_on(0, kernels, "multicast"), 1, 1, NULL, false, all, 0, 0, 0);
    GIVES(700, cpu_ctx_synchronize());
    ck_assert_ptr_nonnull(strstr(dcpkcpu_report(), "no memory bound"));
}
END_TEST

START_TEST(mapped_memory_is_open_to_those_that_were_given_access) {
    machine_with(fair(2, 2));
    cu_mem_properties place = {.type = DRIVER_MEM_PINNED, .location = {DRIVER_MEM_ON_DEVICE, 1}};
    cu_mem memory = 0;
    OK(cpu_vmm_create(&memory, UNIT, &place, 0));
    cu_ptr first = map_handle(memory, 0, 2), second = map_handle(memory, 1, 1), out = words(1, 0);
    OK(cpu_fill32(second + 8, 77, 1));
    launch(function_on(0, kernels, "read"), 1, 1, NULL, false, first + 8, out, 0,
           0); /* the same bytes under another address */
    ck_assert_uint_eq(word_at(out), 77);
    launch(function_on(0, kernels, "read"), 1, 1, NULL, false, second + 8, out, 0, 0);
    GIVES(700, cpu_ctx_synchronize());
    ck_assert_ptr_nonnull(strstr(dcpkcpu_report(), "device 0 may not read"));
}
END_TEST

/* ---- clusters, seeds -------------------------------------------------------------------------------- */
START_TEST(the_ctas_of_a_cluster_are_resident_together) {
    for (uint64_t seed = 0; seed < 30; seed++) {
        machine_with(adverse(1, 1, seed));
        cu_ptr at = words(16, 0);
        uint64_t a = at, none = 0;
        void *parameters[] = {&a, &none, &none, &none};
        cu_launch_attribute attribute = {.id = DRIVER_LAUNCH_CLUSTER};
        attribute.value.cluster.x = 4;
        attribute.value.cluster.y = attribute.value.cluster.z = 1;
        cu_launch_config config = {
            .grid = {32, 1, 1}, .block = {256, 1, 1}, .attributes = &attribute, .attribute_count = 1};
        OK(cpu_launch(&config, function_on(0, kernels, "meet"), parameters, NULL));
        OK(cpu_ctx_synchronize());
        for (unsigned c = 0; c < 8; c++)
            ck_assert_uint_eq(word_at(at + 4 * c), 4);
    }
}
END_TEST

enum { TICKETS = 24 };

static dcpkcpu_counters draw_tickets(uint64_t seed, uint32_t order[TICKETS]) {
    machine_with(adverse(2, 2, seed));
    cu_ptr at = words(1 + TICKETS, 0);
    launch(function_on(0, kernels, "ticket"), TICKETS, 32, NULL, false, at, at + 4, 0, 0);
    OK(cpu_copy_to_host(order, at + 4, 4 * TICKETS));
    return counters_now();
}

START_TEST(a_seed_is_a_run_to_the_last_bit) {
    uint32_t first[TICKETS], again[TICKETS];
    for (uint64_t seed = 1; seed < 6; seed++) {
        dcpkcpu_counters a = draw_tickets(seed, first), b = draw_tickets(seed, again);
        ck_assert_mem_eq(&a, &b, sizeof a);
        ck_assert_mem_eq(first, again, sizeof first);
    }
}
END_TEST

START_TEST(other_seeds_are_other_interleavings) {
    uint32_t orders[10][TICKETS];
    unsigned different = 0;
    for (unsigned seed = 0; seed < 10; seed++)
        draw_tickets(seed, orders[seed]);
    for (unsigned seed = 1; seed < 10; seed++)
        different += memcmp(orders[0], orders[seed], sizeof orders[0]) != 0;
    ck_assert_uint_ge(different, 8);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_order");
    TCase *tcase = tcase_create("order");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_dependent_runs_beside_its_predecessor_once_that_lets_it);
    tcase_add_test(tcase, a_multicast_copy_reads_as_the_cta_that_began_it);
    tcase_add_test(tcase, without_the_attribute_nothing_overtakes);
    tcase_add_test(tcase, wait_sees_what_the_predecessor_wrote_and_its_absence_does_not);
    tcase_add_test(tcase, wait_reaches_over_a_kernel_only_if_that_waited_too);
    tcase_add_test(tcase, a_message_between_devices_needs_its_fence);
    tcase_add_test(tcase, words_of_one_store_come_one_by_one_in_any_order);
    tcase_add_test(tcase, a_thread_sees_its_own_stores_and_the_last_one_stays);
    tcase_add_test(tcase, a_complete_kernel_has_no_store_on_its_way);
    tcase_add_test(tcase, a_multicast_store_reaches_every_member);
    tcase_add_test(tcase, a_multicast_address_cannot_be_read);
    tcase_add_test(tcase, a_multicast_store_where_a_member_has_no_memory_is_a_fault);
    tcase_add_test(tcase, mapped_memory_is_open_to_those_that_were_given_access);
    tcase_add_test(tcase, the_ctas_of_a_cluster_are_resident_together);
    tcase_add_test(tcase, a_seed_is_a_run_to_the_last_bit);
    tcase_add_test(tcase, other_seeds_are_other_interleavings);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
