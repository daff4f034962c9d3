/* test_protocol.c - when a rank stops, or ranks disagree: everyone leaves in time, outputs are NaN or right, the status
 * names what never came, and after a re-arm under barriers the exchange is right again, whatever words come late. May
 * call: tests/exchange.h, include/dcpk. Time is the CPU device's own. */
#include <tests/exchange.h>

#include <tools/numbers.h>
#include <tools/reference.h>

#include <check.h>
#include <string.h>

enum { DEAD = 1, RANKS = 3, HEADS = 2, BATCH = 18, CAP = 20, USES = 5 };
static const uint64_t bound = 2000000; /* ns */

static dcpk_gen *gen;

static void open_gen(void) {
    gen = exchange_gen(NULL);
}

static void close_gen(void) {
    dcpk_gen_close(gen);
}

static uint64_t virtual_ns(struct scenario *s) {
    dcpkcpu_counters counters = {.size = sizeof counters};
    ck_assert_int_eq(EXCHANGE_CPU(s, get_counters)(&counters), 0);
    return counters.virtual_ns;
}

static struct scenario *open_ranks(const char *keys, uint32_t how, int32_t schedule, uint64_t seed) {
    struct exchange_case shape = {HEADS, RANKS, {5, BATCH, BATCH, 5, BATCH}, keys, 0, how};
    struct scenario_options options;
    dcpkcpu_options cpu;
    exchange_options(&options, &cpu, gen, &shape, schedule, seed);
    options.cap = CAP;
    options.bound_ns = bound;
    return exchange_open(&options);
}

static dcpk_box_state status_of(struct scenario *s, int32_t rank) {
    dcpk_box_state state = {.size = sizeof state};
    ck_assert_int_eq(dcpk_box_status(scenario_box(s, rank), &state, NULL), DCPK_OK);
    return state;
}

static void use_is_right(struct scenario *s, int32_t use) {
    dcpk_error error;
    dcpk_error_init(&error);
    for (int32_t r = 0; r < RANKS; r++) {
        struct scenario_check check;
        MUST(scenario_check(s, use, r, &check, &error));
        ck_assert_msg(check.first[0] == '\0', "use %d rank %d: %s", use, r, check.first);
    }
}

static void boxes_are_armed(struct scenario *s, uint32_t uses) {
    dcpk_error error;
    dcpk_error_init(&error);
    for (int32_t r = 0; r < RANKS; r++) {
        struct scenario_scan scan;
        MUST(scenario_scan(s, r, &scan, &error));
        ck_assert_msg(scan.first[0] == '\0', "rank %d: %s", r, scan.first);
        ck_assert_uint_eq(scan.next, uses);
        ck_assert_uint_eq(scan.current, uses - 1);
        ck_assert_uint_eq(scan.abort, 0);
    }
}

static void sync_all(struct scenario *s) {
    dcpk_error error;
    dcpk_error_init(&error);
    for (int32_t r = 0; r < RANKS; r++) {
        MUST(scenario_sync(s, r, &error));
    }
}

/* ---- what a dead rank leaves behind -------------------------------------------------------------- */

/* The word that the record names, in the mailbox of the rank that wrote the record. */
static uint32_t named_word(struct scenario *s, const dcpk_box_state *state) {
    dcpk_box_shape shape = {.size = sizeof shape, .dcp = RANKS, .heads = HEADS, .cap = CAP};
    dcpk_box_layout layout = {.size = sizeof layout};
    dcpk_error error;
    uint32_t value = 0;
    uint64_t row = (uint64_t)state->row, other = (uint64_t)state->head_or_source, word = (uint64_t)state->word,
             parity = state->use & 1;
    dcpk_error_init(&error);
    MUST(dcpk_box_layout_of(&shape, &layout, &error));
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
    dcpk_box_state state = status_of(s, rank);
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

/* A tile is 16 rows of one head. Each is NaN as a whole, or right as a whole. Returns how many are NaN. */
static int32_t tiles_are_nan_or_right(struct scenario *s, int32_t use, int32_t rank, int32_t batch) {
    dcpk_error error;
    struct scenario_check check;
    int32_t dead = 0;
    dcpk_error_init(&error);
    MUST(scenario_check(s, use, rank, &check, &error));
    ck_assert_msg(check.value_wrong == check.output_nans, "%s", check.first);
    const uint16_t *output = scenario_output(s, use, rank);
    for (int32_t tile = 0; tile < (batch + 15) / 16; tile++) {
        for (int32_t head = 0; head < HEADS; head++) {
            int32_t nans = 0, all = 0;
            for (int32_t row = 16 * tile; row < batch && row < 16 * tile + 16; row++) {
                for (int v = 0; v < REF_VALUE; v++, all++) {
                    nans += bf16_is_nan(output[(row * HEADS + head) * REF_VALUE + v]);
                }
            }
            ck_assert_msg(nans == 0 || nans == all, "use %d rank %d tile %d head %d: %d of %d values are NaN", use,
                          rank, tile, head, nans, all);
            dead += nans != 0;
        }
    }
    return dead;
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
        sync_all(s);
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
    ck_assert_msg(took < 4 * bound, "left after %llu ns", (unsigned long long)took);
    for (int32_t r = 0; r < RANKS; r++) {
        if (r == DEAD) {
            continue;
        }
        status_names_the_missing_word(s, r);
        int32_t dead = tiles_are_nan_or_right(s, 1, r, BATCH), all = HEADS * 2;
        ck_assert_int_eq(tiles_are_nan_or_right(s, 2, r, BATCH), all);
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
    ck_assert_int_eq(status_of(s, DEAD).dead, 1);
    ck_assert_int_eq(tiles_are_nan_or_right(s, 2, DEAD, BATCH), HEADS * 2);
}

static void uses_after_rearm_are_right(struct scenario *s) {
    dcpk_error error;
    dcpk_error_init(&error);
    MUST(scenario_rearm(s, NULL, &error));
    for (int32_t r = 0; r < RANKS; r++) {
        ck_assert_int_eq(status_of(s, r).dead, 0);
    }
    boxes_are_armed(s, 0);
    for (int32_t use = 1; use < USES; use++) {
        MUST(scenario_reset(s, use, &error));
        MUST(scenario_launch(s, use, &error));
    }
    sync_all(s);
    for (int32_t use = 1; use < USES; use++) {
        use_is_right(s, use);
    }
    boxes_are_armed(s, USES - 1);
}

static void survive(const struct stop *stop, int32_t schedule, uint64_t seed) {
    struct scenario *s = open_ranks(stop->keys, HOW_PIECES, schedule, seed);
    uint64_t whole = measure_use_0(s, stop->phase);
    use_is_right(s, 0);
    stop_rank(s, stop, whole * stop->percent / 100);
    others_leave(s, stop);
    rank_comes_back(s, stop);
    uses_after_rearm_are_right(s);
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

/* The counters stand still under abort: a rank that never got query rows opened the use and did not close it. */
START_TEST(dead_box_moves_no_counter) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct scenario *s = open_ranks("", HOW_PIECES, DCPKCPU_FAIR, 0);
    measure_use_0(s, PHASE_PUSH);
    stop_rank(s, &stops[1], 0);
    others_leave(s, &stops[1]);
    for (int32_t r = 0; r < RANKS; r += 2) {
        struct scenario_scan scan;
        MUST(scenario_scan(s, r, &scan, &error));
        ck_assert_uint_eq(scan.next, 1);
        ck_assert_uint_eq(scan.current, 1);
        ck_assert_uint_ne(scan.abort, 0);
    }
    rank_comes_back(s, &stops[1]);
    scenario_close(s);
}
END_TEST

START_TEST(rearm_without_a_rank_fails_and_refills_nothing) {
    dcpk_error error;
    struct scenario_scan before, after;
    int32_t joined[RANKS] = {1, 0, 1};
    dcpk_error_init(&error);
    struct scenario *s = open_ranks("", HOW_PIECES, DCPKCPU_FAIR, 0);
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
    struct scenario *s = open_ranks("", 0, DCPKCPU_FAIR, 0);
    MUST(scenario_launch(s, 0, &error));
    sync_all(s);
    uses_after_rearm_are_right(s);
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
    struct scenario *s = open_ranks("", 0, DCPKCPU_FAIR, 0);
    ck_assert_int_eq(dcpk_box_rearm(scenario_box(s, 0), never_arrives, &calls, &error), DCPK_E_BOX_DEAD);
    ck_assert_int_eq(calls, 1);
    ck_assert_int_eq(scenario_launch_rank(s, 0, 0, 0, &error), DCPK_E_BOX_DEAD);
    scenario_close(s);
}
END_TEST

/* ---- ranks disagree ------------------------------------------------------------------------------ */

static const char *const checked_forms[] = {"checked=1", "checked=1 split=1", "checked=1 publish=multicast"};

START_TEST(ranks_with_different_batch_are_named) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct scenario *s = open_ranks(checked_forms[_i], 0, DCPKCPU_FAIR, 0);
    MUST(scenario_launch(s, 0, &error));
    for (int32_t r = 0; r < RANKS; r++) {
        MUST(scenario_launch_rank(s, 1, r, r == DEAD ? 5 : 0, &error));
    }
    sync_all(s);
    for (int32_t r = 0; r < RANKS; r++) {
        dcpk_box_state state = status_of(s, r);
        uint32_t odd = 1u << 14 | 5 << 4 | 1, even = 1u << 14 | BATCH << 4 | 1;
        bool by_dead = state.by_rank == DEAD;
        ck_assert_int_eq(state.dead, 1);
        ck_assert_int_eq(state.mailbox, DCPK_MAILBOX_MISMATCH);
        ck_assert_int_eq(state.kernel, DCPK_KERNEL_query_wait);
        ck_assert_uint_eq((uint32_t)state.row, by_dead ? odd : even);
        ck_assert_uint_eq((uint32_t)state.word, by_dead ? even : odd);
        ck_assert(by_dead ? state.head_or_source != DEAD : state.head_or_source == DEAD);
        ck_assert_msg(strstr(state.text, "batch 5") && strstr(state.text, "batch 18"), "%s", state.text);
        if (r != DEAD) {
            ck_assert_int_eq(tiles_are_nan_or_right(s, 1, r, BATCH), 2 * HEADS);
        }
    }
    uses_after_rearm_are_right(s);
    scenario_close(s);
}
END_TEST

/* Without checked=1 nobody compares; the bound still ends it. */
START_TEST(ranks_with_different_batch_end_by_the_bound_when_unchecked) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct scenario *s = open_ranks("", 0, DCPKCPU_FAIR, 0);
    for (int32_t r = 0; r < RANKS; r++) {
        MUST(scenario_launch_rank(s, 1, r, r == DEAD ? 5 : 0, &error));
    }
    sync_all(s);
    dcpk_box_state state = status_of(s, 0);
    ck_assert_int_eq(state.dead, 1);
    if (state.by_rank == DEAD) { /* it has all the rows it knows of, and waits for what the others do not push */
        ck_assert_int_eq(state.kernel, DCPK_KERNEL_dcp_value);
        ck_assert_int_ne(state.head_or_source, DEAD);
    } else { /* they wait for rows that it does not send */
        ck_assert_int_eq(state.mailbox, DCPK_MAILBOX_Q);
        ck_assert_int_eq(state.head_or_source / HEADS, DEAD);
        ck_assert_int_ge(state.row, 5);
    }
    uses_after_rearm_are_right(s);
    scenario_close(s);
}
END_TEST

START_TEST(use_that_was_never_closed_is_named) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct scenario *s = open_ranks(_i ? "split=1" : "", HOW_PIECES, DCPKCPU_FAIR, 0);
    for (int32_t twice = 0; twice < 2; twice++) {
        for (int32_t r = 0; r < RANKS; r++) {
            MUST(scenario_launch_phase(s, 0, r, 0, PHASE_PUSH, DCPK_LAUNCH_NO_PDL, &error));
        }
        sync_all(s);
        ck_assert_int_eq(status_of(s, 0).dead, twice);
    }
    for (int32_t r = 0; r < RANKS; r++) {
        dcpk_box_state state = status_of(s, r);
        ck_assert_int_eq(state.dead, 1);
        ck_assert_int_eq(state.mailbox, DCPK_MAILBOX_USE);
        ck_assert_int_eq(state.kernel, DCPK_KERNEL_query_push);
        ck_assert_int_eq(state.row, 0);            /* next */
        ck_assert_int_eq(state.head_or_source, 0); /* current: use 0 is open */
    }
    uses_after_rearm_are_right(s);
    scenario_close(s);
}
END_TEST

START_TEST(parity_argument_is_held_against_the_counter) {
    struct exchange_case shape = {HEADS, 2, {5, 5}, "parity=arg", 0, 0};
    struct scenario_options options;
    dcpkcpu_options cpu;
    dcpk_error error;
    dcpk_error_init(&error);
    exchange_options(&options, &cpu, gen, &shape, DCPKCPU_FAIR, 3);
    options.parity_skew = 1;
    struct scenario *s = exchange_open(&options);
    MUST(scenario_launch(s, 0, &error));
    MUST(scenario_sync(s, 0, &error));
    MUST(scenario_sync(s, 1, &error));
    dcpk_box_state state = status_of(s, 0);
    ck_assert_int_eq(state.dead, 1);
    ck_assert_int_eq(state.mailbox, DCPK_MAILBOX_USE);
    scenario_close(s);
}
END_TEST

struct refusal {
    const char *field;
    dcpk_box_shape odd;
};
static const struct refusal refusals[] = {
    {"cap", {.dcp = 2, .heads = 2, .cap = 32, .qh = 8}},
    {"heads", {.dcp = 2, .heads = 3, .cap = 16, .qh = 8}},
    {"qh", {.dcp = 2, .heads = 2, .cap = 16, .qh = 9}},
    {"publish", {.dcp = 2, .heads = 2, .cap = 16, .qh = 8, .publish = DCPK_PUBLISH_MULTICAST}},
};

START_TEST(ranks_with_different_shapes_are_refused_when_they_connect) {
    dcpk_error error;
    dcpk_device *devices[2];
    dcpk_box *boxes[2] = {NULL, NULL};
    const struct refusal *refusal = &refusals[_i];
    dcpk_error_init(&error);
    for (int32_t r = 0; r < 2; r++) {
        dcpk_device_options options = {.size = sizeof options, .kind = "cpu", .ordinal = r, .pdl = 1, .multicast = 1};
        dcpk_box_shape shape = {.size = sizeof shape, .dcp = 2, .heads = 2, .cap = 16, .qh = 8};
        if (r == 1) {
            shape = refusal->odd;
            shape.size = sizeof shape;
        }
        MUST(dcpk_device_open(&options, &devices[r], &error));
        MUST(dcpk_box_create(devices[r], &shape, r, &boxes[r], &error));
    }
    ck_assert_int_eq(dcpk_box_connect(boxes, 2, &error), DCPK_E_MISMATCH);
    ck_assert_msg(strstr(error.text, refusal->field) && strstr(error.text, "rank 1"), "%s", error.text);
    for (int32_t r = 0; r < 2; r++) {
        MUST(dcpk_box_destroy(boxes[r], &error));
        dcpk_device_close(devices[r]);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("protocol");
    TCase *tests = tcase_create("protocol");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, open_gen, close_gen);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, dead_rank_is_left_named_and_rejoined, 0, sizeof stops / sizeof *stops);
    tcase_add_loop_test(tests, dead_rank_is_left_named_and_rejoined_in_random_order, 0, sizeof stops / sizeof *stops);
    tcase_add_test(tests, dead_box_moves_no_counter);
    tcase_add_test(tests, rearm_without_a_rank_fails_and_refills_nothing);
    tcase_add_test(tests, rearm_of_a_living_box_between_uses_is_allowed);
    tcase_add_test(tests, rearm_of_one_rank_fails_when_the_barrier_does);
    tcase_add_loop_test(tests, ranks_with_different_batch_are_named, 0, sizeof checked_forms / sizeof *checked_forms);
    tcase_add_test(tests, ranks_with_different_batch_end_by_the_bound_when_unchecked);
    tcase_add_loop_test(tests, use_that_was_never_closed_is_named, 0, 2);
    tcase_add_test(tests, parity_argument_is_held_against_the_counter);
    tcase_add_loop_test(tests, ranks_with_different_shapes_are_refused_when_they_connect, 0,
                        sizeof refusals / sizeof *refusals);
    return exchange_main(suite);
}
