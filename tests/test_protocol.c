/* test_protocol.c - when a rank stops: everyone leaves in time, outputs are NaN or right, the status names what never
 * came, and after a re-arm under barriers the exchange is right again, whatever words come late. May call:
 * tests/ranks.h, include/dcpk. Time is the CPU device's own. */
#include <tests/ranks.h>

#include <check.h>
#include <string.h>

static uint64_t virtual_ns(struct scenario *s) {
    dcpkcpu_counters counters = {.size = sizeof counters};
    ck_assert_int_eq(EXCHANGE_CPU(s, get_counters)(&counters), 0);
    return counters.virtual_ns;
}

/* ---- what a dead rank leaves behind -------------------------------------------------------------- */

static dcpk_box_layout layout_of_boxes(void) {
    dcpk_box_shape shape = {.size = sizeof shape, .dcp = RANKS, .heads = HEADS, .cap = CAP};
    dcpk_box_layout layout = {.size = sizeof layout};
    ck_assert_int_eq(dcpk_box_layout_of(&shape, &layout, NULL), DCPK_OK);
    return layout;
}

/* The word that the record names, in the mailbox of the rank that wrote the record. */
static uint32_t named_word(struct scenario *s, const dcpk_box_state *state) {
    dcpk_box_layout layout = layout_of_boxes();
    dcpk_error error;
    uint32_t value = 0;
    uint64_t row = (uint64_t)state->row, other = (uint64_t)state->head_or_source, word = (uint64_t)state->word,
             parity = state->use & 1;
    dcpk_error_init(&error);
    uint64_t at = 0, slot = ((parity * RANKS + other) * CAP + row) * HEADS;
    if (state->mailbox == DCPK_MAILBOX_Q) {
        ck_assert_uint_lt(word, 144);
        at = layout.q + ((parity * CAP + row) * RANKS * HEADS + other) * 576 + 4 * word;
    } else if (state->mailbox == DCPK_MAILBOX_PARTIAL) {
        ck_assert_uint_lt(word, 256 * HEADS);
        at = layout.partial + (slot + word / 256) * 1024 + 4 * (word % 256);
    } else if (state->mailbox == DCPK_MAILBOX_LEDGER) {
        at = layout.ledger + (parity * RANKS + other) * 4;
    } else {
        ck_assert_int_eq(state->mailbox, DCPK_MAILBOX_LSE);
        at = layout.lse + (slot + word) * 4;
    }
    dcpk_box *box = scenario_box(s, state->by_rank);
    MUST(dcpk_mem_read(dcpk_box_device(box), &value, dcpk_box_base(box) + at, 4, &error));
    return value;
}

/* Dead, by the record of a rank that lives, which names a word that rank DEAD owes and that indeed never came. */
static void status_names_the_missing_word(struct scenario *s, int32_t rank) {
    dcpk_box_state state = ranks_status(s, rank);
    ck_assert_int_eq(state.dead, 1);
    ck_assert_msg(state.by_rank >= 0 && state.by_rank < RANKS && state.by_rank != DEAD, "by rank %d", state.by_rank);
    ck_assert_uint_ge(state.use, 1);
    ck_assert_uint_le(state.use, 2);
    ck_assert_int_ge(state.row, 0);
    ck_assert_int_lt(state.row, BATCH);
    bool waiting = state.mailbox == DCPK_MAILBOX_Q || state.mailbox == DCPK_MAILBOX_LEDGER;
    int32_t source = state.mailbox == DCPK_MAILBOX_Q ? state.head_or_source / HEADS : state.head_or_source;
    ck_assert_msg(source == DEAD, "%s", state.text);
    ck_assert_int_eq(state.kernel, waiting ? DCPK_KERNEL_query_wait : DCPK_KERNEL_dcp_value);
    uint32_t armed = state.mailbox == DCPK_MAILBOX_PARTIAL ? 0x80000000u : 0xFFFFFFFFu;
    ck_assert_msg(named_word(s, &state) == armed, "%s, but it is %08x", state.text, named_word(s, &state));
    ck_assert_msg(strstr(state.text, "rank 1's ") != NULL, "%s", state.text);
}

/* ---- a rank stops -------------------------------------------------------------------------------- */

/* Where rank DEAD stops in use 1: a kernel and how far into it, in percent of its warp instructions. whole: nothing of
 * the use can be merged by the others. */
struct stop {
    const char *entry, *keys;
    enum scenario_phase phase;
    unsigned percent;
    bool whole;
    bool late; /* what it stores is held back until the others have left */
};

static const struct stop stops[] = {
    {"dcpk_query_norm", "", PHASE_NORM, 0, true, false},
    {"dcpk_query_push", "", PHASE_PUSH, 0, true, false},
    {"dcpk_query_push", "", PHASE_PUSH, 50, true, false},
    {"dcpk_query_push", "", PHASE_PUSH, 50, true, true},
    {"dcpk_query_push", "checked=1", PHASE_PUSH, 50, true, true},
    {"dcpk_query_push", "publish=multicast", PHASE_PUSH, 40, true, true},
    {"dcpk_query_wait", "", PHASE_WAIT, 10, true, false},
    {"dcpk_query_wait", "", PHASE_WAIT, 60, true, true},
    {"dcpk_copy_rows", "", PHASE_DECODE, 50, true, false},
    {"dcpk_dcp_value", "", PHASE_VALUE, 1, true, false},
    {"dcpk_dcp_value", "", PHASE_VALUE, 12, false, false},
    {"dcpk_dcp_value", "", PHASE_VALUE, 30, false, true},
    {"dcpk_dcp_value", "", PHASE_VALUE, 60, false, false},
    {"dcpk_dcp_value", "", PHASE_VALUE, 90, false, true},
    {"dcpk_dcp_value", "checked=1 parity=arg", PHASE_VALUE, 30, false, true},
    {"dcpk_dcp_value_push", "split=1", PHASE_VALUE, 2, true, false},
    {"dcpk_dcp_value_push", "split=1", PHASE_VALUE, 60, false, true},
    {"dcpk_dcp_value_merge", "split=1", PHASE_MERGE, 10, false, false},
    {"dcpk_dcp_value_merge", "split=1", PHASE_MERGE, 70, false, true},
};

/* Warp instructions of rank DEAD's grid in a phase, as use 0 spends them; afterwards use 0 is over. */
static uint64_t measure_use_0(struct scenario *s, enum scenario_phase wanted) {
    dcpk_error error;
    uint64_t spent = 0;
    dcpk_error_init(&error);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        dcpkcpu_counters before = {.size = sizeof before}, after = {.size = sizeof after};
        EXCHANGE_CPU(s, get_counters)(&before);
        for (int32_t r = 0; r < RANKS; r++) {
            MUST(scenario_launch_phase(s, 0, r, 0, (enum scenario_phase)phase, DCPK_LAUNCH_NO_PDL, &error));
        }
        ranks_sync(s);
        EXCHANGE_CPU(s, get_counters)(&after);
        if (phase == (int)wanted) {
            spent = (after.warp_instructions - before.warp_instructions) / RANKS;
        }
    }
    return spent;
}

static void stop_rank(struct scenario *s, const struct stop *stop, uint64_t after) {
    dcpk_error error;
    dcpk_error_init(&error);
    ck_assert_int_eq(EXCHANGE_CPU(s, stall)(DEAD, stop->entry, after), 0);
    if (stop->late) {
        ck_assert_int_eq(EXCHANGE_CPU(s, hold_stores)(DEAD, -1, 1), 0);
    }
    MUST(scenario_launch(s, 1, &error));
    MUST(scenario_launch(s, 2, &error));
}

static void others_leave(struct scenario *s, const struct stop *stop) {
    dcpk_error error;
    dcpk_error_init(&error);
    uint64_t begin = virtual_ns(s);
    for (int32_t r = 0; r < RANKS; r++) {
        if (r == DEAD) {
            continue;
        }
        MUST(scenario_sync(s, r, &error));
    }
    uint64_t took = virtual_ns(s) - begin;
    ck_assert_msg(took < 4 * RANKS_BOUND_NS, "left after %llu ns", (unsigned long long)took);
    for (int32_t r = 0; r < RANKS; r++) {
        if (r == DEAD) {
            continue;
        }
        status_names_the_missing_word(s, r);
        int32_t dead = ranks_tiles_are_nan_or_right(s, 1, r, BATCH), all = HEADS * 2;
        ck_assert_int_eq(ranks_tiles_are_nan_or_right(s, 2, r, BATCH), all);
        if (stop->whole) {
            ck_assert_int_eq(dead, all);
        }
        ck_assert_int_eq(scenario_launch_rank(s, 3, r, 0, &error), DCPK_E_BOX_DEAD);
        ck_assert_msg(strstr(error.text, "never came") != NULL, "%s", error.text);
    }
}

/* The dead rank goes on, finds the abort word, leaves; its late words land after everyone has left. */
static void rank_comes_back(struct scenario *s, const struct stop *stop) {
    dcpk_error error;
    dcpk_error_init(&error);
    ck_assert_int_eq(EXCHANGE_CPU(s, release)(DEAD), 0);
    if (stop->late) {
        ck_assert_int_eq(EXCHANGE_CPU(s, hold_stores)(DEAD, -1, 0), 0);
    }
    MUST(scenario_sync(s, DEAD, &error));
    ck_assert_int_eq(ranks_status(s, DEAD).dead, 1);
    ck_assert_int_eq(ranks_tiles_are_nan_or_right(s, 2, DEAD, BATCH), HEADS * 2);
}

static void survive(const struct stop *stop, int32_t schedule, uint64_t seed) {
    struct scenario *s = ranks_open(stop->keys, HOW_PIECES, schedule, seed);
    uint64_t whole = measure_use_0(s, stop->phase);
    ranks_use_is_right(s, 0);
    stop_rank(s, stop, whole * stop->percent / 100);
    others_leave(s, stop);
    rank_comes_back(s, stop);
    ranks_are_right_after_rearm(s);
    scenario_close(s);
}

START_TEST(dead_rank_is_left_named_and_rejoined) {
    survive(&stops[_i], DCPKCPU_FAIR, 0);
}
END_TEST

START_TEST(dead_rank_is_left_named_and_rejoined_in_random_order) {
    survive(&stops[_i], DCPKCPU_RANDOM, 900 + (uint64_t)_i);
}
END_TEST

/* Ranks but 0 would wait for ten seconds: it is rank 0 whose poll expires and whose record counts. */
static void only_rank_0_loses_patience(struct scenario *s) {
    uint64_t patience = 10000 * UINT64_C(1000000);
    for (int32_t r = 1; r < RANKS; r++) {
        dcpk_box *box = scenario_box(s, r);
        ck_assert_int_eq(dcpk_mem_write(dcpk_box_device(box), dcpk_box_base(box) + 16, &patience, 8, NULL), DCPK_OK);
    }
}

START_TEST(abort_of_one_rank_reaches_all) {
    struct scenario *s = ranks_open("", HOW_PIECES, DCPKCPU_FAIR, 0);
    measure_use_0(s, PHASE_PUSH);
    only_rank_0_loses_patience(s);
    stop_rank(s, &stops[1], 0);
    others_leave(s, &stops[1]); /* within rank 0's bound, not their own */
    rank_comes_back(s, &stops[1]);
    for (int32_t r = 0; r < RANKS; r++) {
        struct box_scan scan;
        ck_assert_int_eq(ranks_status(s, r).by_rank, 0);
        ck_assert_int_eq(scenario_scan(s, r, &scan, NULL), DCPK_OK);
        ck_assert_uint_eq(scan.abort, 1); /* rank 0, and one */
    }
    ranks_are_right_after_rearm(s);
    scenario_close(s);
}
END_TEST

/* One word of all that rank DEAD owes rank 0 in use 1 (parity 1). head: of the owner, or for the query one of DEAD's.
 */
struct missing {
    enum dcpk_mailbox mailbox;
    const char *keys, *entry;
    int32_t row, head, word;
};
static const struct missing missing_words[] = {
    {DCPK_MAILBOX_Q, "", "dcpk_query_push", 7, 1, 77},
    {DCPK_MAILBOX_Q, "checked=1", "dcpk_query_push", 17, 0, 143},
    {DCPK_MAILBOX_LEDGER, "checked=1", "dcpk_query_push", 0, 0, 0},
    {DCPK_MAILBOX_LSE, "", "dcpk_dcp_value", 9, 1, 0},
    {DCPK_MAILBOX_LSE, "split=1", "dcpk_dcp_value_push", 17, 0, 0},
    {DCPK_MAILBOX_PARTIAL, "", "dcpk_dcp_value", 5, 1, 201},
    {DCPK_MAILBOX_PARTIAL, "split=1", "dcpk_dcp_value_push", 16, 0, 2},
};

static void fill_words(struct scenario *s, uint64_t offset, uint32_t value, uint64_t words) {
    dcpk_box *box = scenario_box(s, 0);
    ck_assert_int_eq(dcpk_mem_fill32(dcpk_box_device(box), dcpk_box_base(box) + offset, value, words, NULL), DCPK_OK);
}

/* Everything that DEAD would send to rank 0, put there by hand, but for the one word. */
static void send_for_dead(struct scenario *s, const struct missing *missing) {
    dcpk_box_layout layout = layout_of_boxes();
    uint64_t slots = (1 * RANKS + DEAD) * (uint64_t)CAP * HEADS, row = (uint64_t)missing->row;
    uint64_t slot = slots + row * HEADS + (uint64_t)missing->head, head = DEAD * HEADS + (uint64_t)missing->head;
    bool query = missing->mailbox == DCPK_MAILBOX_Q || missing->mailbox == DCPK_MAILBOX_LEDGER;
    for (uint64_t b = 0; b < BATCH && query; b++) {
        fill_words(s, layout.q + ((CAP + b) * RANKS + DEAD) * HEADS * 576, 0x01020304, HEADS * 144);
    }
    if (query) {
        fill_words(s, layout.ledger + (RANKS + DEAD) * 4, 1u << 14 | BATCH << 4 | 1, 1);
    } else {
        fill_words(s, layout.lse + slots * 4, 0, BATCH * HEADS);
        fill_words(s, layout.partial + slots * 1024, 0x3F803F80, BATCH * HEADS * 256);
    }
    switch (missing->mailbox) {
    case DCPK_MAILBOX_Q:
        fill_words(s, layout.q + ((CAP + row) * RANKS * HEADS + head) * 576 + 4 * (uint64_t)missing->word, 0xFFFFFFFF,
                   1);
        break;
    case DCPK_MAILBOX_LEDGER:
        fill_words(s, layout.ledger + (RANKS + DEAD) * 4, 0xFFFFFFFF, 1);
        break;
    case DCPK_MAILBOX_LSE:
        fill_words(s, layout.lse + slot * 4, 0xFFFFFFFF, 1);
        break;
    default:
        fill_words(s, layout.partial + slot * 1024 + 4 * (uint64_t)missing->word, 0x80000000, 1);
    }
}

START_TEST(record_names_the_very_word) {
    const struct missing *missing = &missing_words[_i];
    struct stop stop = {missing->entry, missing->keys, PHASE_PUSH, 0, false, false};
    struct scenario *s = ranks_open(missing->keys, HOW_PIECES, DCPKCPU_FAIR, 0);
    measure_use_0(s, PHASE_PUSH);
    only_rank_0_loses_patience(s);
    send_for_dead(s, missing);
    stop_rank(s, &stop, 0);
    ck_assert_int_eq(scenario_sync(s, 0, NULL), DCPK_OK);
    dcpk_box_state state = ranks_status(s, 0);
    ck_assert_int_eq(state.dead, 1);
    ck_assert_int_eq(state.by_rank, 0);
    ck_assert_uint_eq(state.use, 1);
    ck_assert_int_eq(state.mailbox, missing->mailbox);
    ck_assert_int_eq(state.row, missing->row);
    bool query = missing->mailbox == DCPK_MAILBOX_Q, partial = missing->mailbox == DCPK_MAILBOX_PARTIAL;
    ck_assert_int_eq(state.head_or_source, query ? DEAD * HEADS + missing->head : DEAD);
    ck_assert_int_eq(state.word, query ? missing->word : partial ? missing->head * 256 + missing->word : missing->head);
    rank_comes_back(s, &stop);
    ranks_are_right_after_rearm(s);
    scenario_close(s);
}
END_TEST

/* The counters stand still under abort: a rank that never got query rows opened the use and did not close it.
 * Nothing is published, pushed or re-armed either: of use 1 the living ranks' query rows lie there, of use 2 nothing.
 */
START_TEST(dead_box_moves_no_counter_and_no_word) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct scenario *s = ranks_open("", HOW_PIECES, DCPKCPU_FAIR, 0);
    measure_use_0(s, PHASE_PUSH);
    stop_rank(s, &stops[1], 0);
    others_leave(s, &stops[1]);
    for (int32_t r = 0; r < RANKS; r += 2) {
        struct box_scan scan;
        struct scenario_check check;
        MUST(scenario_scan(s, r, &scan, &error));
        ck_assert_uint_eq(scan.next, 1);
        ck_assert_uint_eq(scan.current, 1);
        ck_assert_uint_ne(scan.abort, 0);
        ck_assert_uint_eq(scan.q, (RANKS - 1) * HEADS * BATCH * 144);
        ck_assert_uint_eq(scan.partial + scan.lse, 0);
        MUST(scenario_check(s, 2, r, &check, &error)); /* what lies there are not the rows of use 2 */
        ck_assert_uint_gt(check.query_wrong, 2 * BATCH * HEADS * 576);
    }
    rank_comes_back(s, &stops[1]);
    scenario_close(s);
}
END_TEST

START_TEST(rearm_without_a_rank_fails_and_refills_nothing) {
    dcpk_error error;
    struct box_scan before, after;
    int32_t joined[RANKS] = {1, 0, 1};
    dcpk_error_init(&error);
    struct scenario *s = ranks_open("", HOW_PIECES, DCPKCPU_FAIR, 0);
    measure_use_0(s, PHASE_PUSH);
    stop_rank(s, &stops[9], 0);
    others_leave(s, &stops[9]);
    MUST(scenario_scan(s, 0, &before, &error));
    ck_assert_uint_gt(before.partial + before.lse + before.q, 0);
    ck_assert_int_eq(scenario_rearm(s, joined, &error), DCPK_E_BOX_DEAD);
    ck_assert_msg(strstr(error.text, "rank 1") != NULL, "%s", error.text);
    MUST(scenario_scan(s, 0, &after, &error));
    ck_assert_uint_eq(after.partial, before.partial);
    ck_assert_uint_eq(after.lse, before.lse);
    ck_assert_uint_eq(after.q, before.q);
    ck_assert_uint_eq(after.abort, before.abort);
    /* and the box stays dead: it has to be built anew */
    ck_assert_int_eq(scenario_launch_rank(s, 3, 0, 0, &error), DCPK_E_BOX_DEAD);
    ck_assert_int_eq(EXCHANGE_CPU(s, release)(DEAD), 0);
    MUST(scenario_sync(s, DEAD, &error));
    ck_assert_int_eq(scenario_rearm(s, NULL, &error), DCPK_E_BOX_DEAD);
    scenario_close(s);
}
END_TEST

START_TEST(rearm_of_a_living_box_between_uses_is_allowed) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct scenario *s = ranks_open("", 0, DCPKCPU_FAIR, 0);
    MUST(scenario_launch(s, 0, &error));
    ranks_sync(s);
    ranks_are_right_after_rearm(s);
    scenario_close(s);
}
END_TEST

static int never_arrives(void *self) {
    ++*(int *)self;
    return 1;
}

START_TEST(rearm_of_one_rank_fails_when_the_barrier_does) {
    dcpk_error error;
    int calls = 0;
    dcpk_error_init(&error);
    struct scenario *s = ranks_open("", 0, DCPKCPU_FAIR, 0);
    ck_assert_int_eq(dcpk_box_rearm(scenario_box(s, 0), never_arrives, &calls, &error), DCPK_E_BOX_DEAD);
    ck_assert_int_eq(calls, 1);
    ck_assert_int_eq(scenario_launch_rank(s, 0, 0, 0, &error), DCPK_E_BOX_DEAD);
    scenario_close(s);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("protocol");
    TCase *tests = tcase_create("protocol");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, ranks_open_gen, ranks_close_gen);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, dead_rank_is_left_named_and_rejoined, 0, sizeof stops / sizeof *stops);
    tcase_add_loop_test(tests, dead_rank_is_left_named_and_rejoined_in_random_order, 0, sizeof stops / sizeof *stops);
    tcase_add_test(tests, abort_of_one_rank_reaches_all);
    tcase_add_loop_test(tests, record_names_the_very_word, 0, sizeof missing_words / sizeof *missing_words);
    tcase_add_test(tests, dead_box_moves_no_counter_and_no_word);
    tcase_add_test(tests, rearm_without_a_rank_fails_and_refills_nothing);
    tcase_add_test(tests, rearm_of_a_living_box_between_uses_is_allowed);
    tcase_add_test(tests, rearm_of_one_rank_fails_when_the_barrier_does);
    return exchange_main(suite);
}
