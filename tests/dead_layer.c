/* dead_layer.c - see dead_layer.h. May call: tests/whole.h, include/dcpk. */
#include <tests/dead_layer.h>

#include <tools/numbers.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDS(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            snprintf(d->what, DEAD_SENTENCE, __VA_ARGS__);                                                             \
            return false;                                                                                              \
        }                                                                                                              \
    } while (0)
#define WORKS(call) HOLDS((call) == DCPK_OK, "%s: %s: %s", #call, dcpk_status_name(d->error.code), d->error.text)
#define CPU(d, name) ((__typeof__(&dcpkcpu_##name))cpu_function(d, "dcpkcpu_" #name))

enum { HEAD_WORDS = LAYER_TOKEN / 4, ROW_WORDS = REF_LATENT / 2, TILE = 16, BOUND_NS = 2000000 };

struct dead {
    struct whole *whole;
    struct layer_run *run;
    const struct dead_stop *stop;
    int32_t ranks, heads, batch;
    dcpk_box_layout layout;
    uint64_t cap, qh;
    uint16_t *output[DEAD_STEPS][LAYER_MAX_RANKS]; /* of steps 1 and 2, as they were left */
    uint32_t *query[LAYER_MAX_RANKS];              /* query mailboxes, as they were left */
    dcpk_error error;
    char *what;
};

static void (*cpu_function(const struct dead *d, const char *name))(void) {
    void *symbol = rank_group_cpu_symbol(layer_run_group(d->run), name);
    void (*function)(void) = NULL;
    ck_assert_msg(symbol != NULL, "the CPU device has no %s", name);
    memcpy(&function, &symbol, sizeof function);
    return function;
}

static const struct group_rank *rank_of(const struct dead *d, int32_t r) {
    return &layer_run_group(d->run)->rank[r];
}

static bool open_run(struct dead *d, struct whole *whole, char *what) {
    memset(d, 0, sizeof *d);
    dcpk_error_init(&d->error);
    d->whole = whole;
    d->what = what;
    what[0] = '\0';
    d->ranks = whole->make.dcp;
    d->heads = whole->make.heads;
    d->batch = whole->make.batch;
    d->cap = whole->make.cap ? (uint64_t)whole->make.cap : 64;
    d->qh = whole->make.qh ? (uint64_t)whole->make.qh : (uint64_t)(d->ranks * d->heads);
    whole->options.bound_ns = BOUND_NS;
    WORKS(layer_run_open(&whole->options, whole->layer, &whole->run, &d->error));
    d->run = whole->run;
    dcpk_box_shape shape = {
        .size = sizeof shape, .dcp = d->ranks, .heads = d->heads, .cap = (int32_t)d->cap, .qh = (int32_t)d->qh};
    d->layout.size = sizeof d->layout;
    WORKS(dcpk_box_layout_of(&shape, &d->layout, &d->error));
    return true;
}

static void close_run(struct dead *d) {
    for (int32_t r = 0; r < LAYER_MAX_RANKS; r++) {
        for (int s = 0; s < DEAD_STEPS; s++) {
            free(d->output[s][r]);
        }
        free(d->query[r]);
    }
    whole_end_run(d->whole);
}

static bool sync_rank(struct dead *d, int32_t r) {
    WORKS(dcpk_stream_sync(rank_of(d, r)->device, rank_of(d, r)->stream, &d->error));
    return true;
}

static bool sync_all(struct dead *d) {
    for (int32_t r = 0; r < d->ranks; r++) {
        if (!sync_rank(d, r)) {
            return false;
        }
    }
    return true;
}

static bool rearm(struct dead *d) {
    dcpk_box *boxes[LAYER_MAX_RANKS];
    for (int32_t r = 0; r < d->ranks; r++) {
        boxes[r] = rank_of(d, r)->box;
    }
    WORKS(dcpk_box_rearm_all(boxes, d->ranks, NULL, &d->error));
    for (int32_t r = 0; r < d->ranks; r++) {
        dcpk_box_state state = {.size = sizeof state};
        WORKS(dcpk_box_status(boxes[r], &state, &d->error));
        HOLDS(!state.dead, "rank %d is dead after the re-arm: %s", r, state.text);
    }
    WORKS(layer_run_restart(d->run, &d->error));
    return true;
}

/* ---- before -------------------------------------------------------------------------------------- */

/* Step 0, kernel by kernel over all ranks; *spent: warp instructions of one rank in the stop's kernel. */
static bool measure(struct dead *d, uint64_t *spent) {
    static const char *const kernels[] = {"query_norm", "mla_query",  "query_wait",
                                          "query_copy", "mla_decode", "dcp_value"};
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        dcpkcpu_counters before = {.size = sizeof before}, after = {.size = sizeof after};
        CPU(d, get_counters)(&before);
        for (int32_t r = 0; r < d->ranks; r++) {
            WORKS(layer_run_launch(d->run, 0, r, kernels[k], &d->error));
        }
        if (!sync_all(d)) {
            return false;
        }
        CPU(d, get_counters)(&after);
        if (strcmp(kernels[k], d->stop->kernel) == 0) {
            *spent = (after.warp_instructions - before.warp_instructions) / (uint64_t)d->ranks;
        }
    }
    return true;
}

static bool stop_rank(struct dead *d, uint64_t after) {
    const uint64_t patience = 10 * UINT64_C(1000000000);
    for (int32_t r = 1; d->stop->first && r < d->ranks; r++) {
        const struct group_rank *rank = rank_of(d, r);
        WORKS(dcpk_mem_write(rank->device, dcpk_box_base(rank->box) + 16, &patience, 8, &d->error));
    }
    HOLDS(CPU(d, stall)(DEAD_RANK, d->stop->entry, after) == 0, "stall");
    HOLDS(!d->stop->late || CPU(d, hold_stores)(DEAD_RANK, -1, 1) == 0, "hold_stores");
    for (int32_t s = 1; s <= 2; s++) {
        for (int32_t r = 0; r < d->ranks; r++) {
            WORKS(layer_run_launch(d->run, s, r, NULL, &d->error));
        }
    }
    return true;
}

/* ---- the others ---------------------------------------------------------------------------------- */

/* The word that the record names, in the mailbox of the rank that wrote the record. */
static bool read_named(struct dead *d, const dcpk_box_state *state, uint32_t *value) {
    uint64_t row = (uint64_t)state->row, other = (uint64_t)state->head_or_source, word = (uint64_t)state->word;
    uint64_t parity = state->use & 1, ranks = (uint64_t)d->ranks, heads = (uint64_t)d->heads;
    uint64_t slot = ((parity * ranks + other) * d->cap + row) * heads, at = 0;
    bool inside = false;
    if (state->mailbox == DCPK_MAILBOX_Q) {
        inside = word < HEAD_WORDS;
        at = d->layout.q + ((parity * d->cap + row) * d->qh + other) * LAYER_TOKEN + 4 * word;
    } else if (state->mailbox == DCPK_MAILBOX_PARTIAL) {
        inside = word < ROW_WORDS * heads;
        at = d->layout.partial + (slot + word / ROW_WORDS) * REF_LATENT * 2 + 4 * (word % ROW_WORDS);
    } else if (state->mailbox == DCPK_MAILBOX_LEDGER) {
        inside = row == 0 && word == 0;
        at = d->layout.ledger + (parity * ranks + other) * 4;
    } else if (state->mailbox == DCPK_MAILBOX_LSE) {
        inside = word < heads;
        at = d->layout.lse + (slot + word) * 4;
    }
    HOLDS(inside, "the record names no word: %s", state->text);
    const struct group_rank *by = rank_of(d, state->by_rank);
    WORKS(dcpk_mem_read(by->device, value, dcpk_box_base(by->box) + at, 4, &d->error));
    return true;
}

/* Dead, by the record of a rank that lives, which names a word that the stopped rank owes and that never came. */
static bool status_names_the_word(struct dead *d, int32_t r) {
    dcpk_box_state state = {.size = sizeof state};
    uint32_t value = 0;
    WORKS(dcpk_box_status(rank_of(d, r)->box, &state, &d->error));
    if (!state.dead) {
        dcpk_status status = dcpk_stream_sync(rank_of(d, DEAD_RANK)->device, rank_of(d, DEAD_RANK)->stream, &d->error);
        HOLDS(false, "rank %d does not know that the box is dead%s", r,
              status == DCPK_OK ? ": the rank never stopped, the stop lies behind its kernel's end" : "");
    }
    bool lives = state.by_rank >= 0 && state.by_rank < d->ranks && state.by_rank != DEAD_RANK;
    HOLDS(lives && (!d->stop->first || state.by_rank == 0), "by rank %d", state.by_rank);
    HOLDS(state.use == 1 || state.use == 2, "use %u: %s", state.use, state.text);
    HOLDS(state.row >= 0 && state.row < d->batch, "row %d: %s", state.row, state.text);
    bool front = state.mailbox == DCPK_MAILBOX_Q || state.mailbox == DCPK_MAILBOX_LEDGER;
    int32_t source = state.mailbox == DCPK_MAILBOX_Q ? state.head_or_source / d->heads : state.head_or_source;
    bool polls = d->whole->options.form == LAYER_FUSED && d->whole->keys.poll != 0;
    int32_t kernel = !front ? DCPK_KERNEL_dcp_value : polls ? DCPK_KERNEL_mla_query : DCPK_KERNEL_query_wait;
    HOLDS(source == DEAD_RANK && state.kernel == kernel, "kernel %d instead of %d, rank %d: %s", state.kernel, kernel,
          source, state.text);
    HOLDS(strstr(state.text, "rank 1's ") != NULL, "the text does not name rank 1: %s", state.text);
    if (!read_named(d, &state, &value)) {
        return false;
    }
    uint32_t armed = state.mailbox == DCPK_MAILBOX_PARTIAL ? 0x80000000u : 0xFFFFFFFFu;
    HOLDS(value == armed, "%s, but it is %08x", state.text, value);
    return true;
}

/* A tile of 16 rows of one head is NaN as a whole or not at all. *dead: tiles that are. */
static bool tiles_are_whole(struct dead *d, int32_t s, int32_t r, int32_t *dead) {
    const uint16_t *output = d->output[s][r];
    *dead = 0;
    for (int32_t first = 0; first < d->batch; first += TILE) {
        for (int32_t head = 0; head < d->heads; head++) {
            int32_t nans = 0, all = 0;
            for (int32_t row = first; row < d->batch && row < first + TILE; row++) {
                for (int v = 0; v < REF_VALUE; v++, all++) {
                    nans += bf16_is_nan(output[(row * d->heads + head) * REF_VALUE + v]);
                }
            }
            HOLDS(nans == 0 || nans == all, "step %d rank %d row %d head %d: %d of %d values are NaN", s, r, first,
                  head, nans, all);
            *dead += nans != 0;
        }
    }
    return true;
}

/* Keeps the outputs of steps 1 and 2. */
static bool keep_outputs(struct dead *d, int32_t r) {
    size_t bytes = (size_t)(d->batch * d->heads) * REF_VALUE * 2;
    int32_t dead = 0, all = d->heads * ((d->batch + TILE - 1) / TILE);
    for (int32_t s = 1; s <= 2; s++) {
        WORKS(layer_run_peek(d->run, s, r, &d->error));
        d->output[s][r] = malloc(bytes);
        ck_assert_ptr_nonnull(d->output[s][r]);
        memcpy(d->output[s][r], layer_run_outcome(d->run, s, r)->output, bytes);
        if (!tiles_are_whole(d, s, r, &dead)) {
            return false;
        }
        bool all_dead = s == 2 || (d->stop->whole && r != DEAD_RANK);
        HOLDS(!all_dead || dead == all, "step %d rank %d: %d of %d tiles are NaN", s, r, dead, all);
    }
    return true;
}

static bool stops_before_the_rows(const struct dead *d) {
    return strcmp(d->stop->kernel, "mla_query") == 0 || strcmp(d->stop->kernel, "query_norm") == 0;
}

/* Step 1 was opened. Where the stopped rank had sent enough for a merge it may be closed, and step 2 opened. Keeps the
 * query mailbox of a rank that never got its rows. */
static bool counters_stand(struct dead *d, int32_t r) {
    uint32_t control[3];
    size_t bytes = 2 * d->cap * d->qh * LAYER_TOKEN;
    const struct group_rank *rank = rank_of(d, r);
    WORKS(dcpk_mem_read(rank->device, control, dcpk_box_base(rank->box), sizeof control, &d->error));
    bool moved = !d->stop->whole && control[0] == 2 && (control[1] == 1 || control[1] == 2);
    HOLDS(((control[0] == 1 && control[1] == 1) || moved) && control[2] != 0, "rank %d: next %u, current %u, abort %u",
          r, control[0], control[1], control[2]);
    if (stops_before_the_rows(d)) {
        d->query[r] = malloc(bytes);
        ck_assert_ptr_nonnull(d->query[r]);
        WORKS(dcpk_mem_read(rank->device, d->query[r], dcpk_box_base(rank->box) + d->layout.q, bytes, &d->error));
    }
    return true;
}

static bool others_leave(struct dead *d) {
    dcpkcpu_counters begin = {.size = sizeof begin}, end = {.size = sizeof end};
    CPU(d, get_counters)(&begin);
    for (int32_t r = 0; r < d->ranks; r++) {
        if (r != DEAD_RANK && !sync_rank(d, r)) {
            return false;
        }
    }
    CPU(d, get_counters)(&end);
    HOLDS(end.virtual_ns - begin.virtual_ns < 4 * (uint64_t)BOUND_NS, "left after %llu ns",
          (unsigned long long)(end.virtual_ns - begin.virtual_ns));
    for (int32_t r = 0; r < d->ranks; r++) {
        if (r == DEAD_RANK) {
            continue;
        }
        if (!status_names_the_word(d, r) || !keep_outputs(d, r) || !counters_stand(d, r)) {
            return false;
        }
        dcpk_status status = layer_run_launch(d->run, 3, r, NULL, &d->error);
        HOLDS(status == DCPK_E_BOX_DEAD && strstr(d->error.text, "never came"), "a launch on rank %d: %s: %s", r,
              dcpk_status_name(status), d->error.text);
    }
    return true;
}

/* ---- after --------------------------------------------------------------------------------------- */

static bool rank_comes_back(struct dead *d) {
    dcpk_box_state state = {.size = sizeof state};
    HOLDS(CPU(d, release)(DEAD_RANK) == 0, "release");
    HOLDS(!d->stop->late || CPU(d, hold_stores)(DEAD_RANK, -1, 0) == 0, "hold_stores");
    if (!sync_rank(d, DEAD_RANK)) {
        return false;
    }
    WORKS(dcpk_box_status(rank_of(d, DEAD_RANK)->box, &state, &d->error));
    HOLDS(state.dead, "the rank that was late does not know that the box is dead");
    return keep_outputs(d, DEAD_RANK);
}

/* What was not NaN is what the same step gives now that all is well. */
static bool kept_is_right(struct dead *d) {
    size_t values = (size_t)(d->batch * d->heads) * REF_VALUE;
    for (int32_t s = 1; s <= 2; s++) {
        for (int32_t r = 0; r < d->ranks; r++) {
            const uint16_t *kept = d->output[s][r], *right = layer_run_outcome(d->run, s, r)->output;
            for (size_t i = 0; i < values; i++) {
                HOLDS(bf16_is_nan(kept[i]) || kept[i] == right[i], "step %d rank %d value %zu: %04x instead of %04x", s,
                      r, i, kept[i], right[i]);
            }
        }
    }
    return true;
}

/* Of parity 0 nothing was there any more; of parity 1 the living ranks' rows of step 1 were there, or not yet where
 * some part of the rank had met the abort before it sent them: no later step published over them. */
static bool mailbox_stood(struct dead *d, int32_t r) {
    uint64_t all = (uint64_t)(d->ranks * d->heads), words = d->cap * d->qh * HEAD_WORDS;
    for (uint64_t i = 0; i < words; i++) {
        HOLDS(d->query[r][i] == 0xFFFFFFFF, "rank %d: query word %llu of parity 0 is %08x", r, (unsigned long long)i,
              d->query[r][i]);
    }
    const uint8_t *right = layer_run_outcome(d->run, 1, r)->query;
    for (uint64_t i = 0; i < (uint64_t)d->batch * all * HEAD_WORDS; i++) {
        uint64_t row = i / (all * HEAD_WORDS), head = i / HEAD_WORDS % all;
        uint32_t there = d->query[r][words + (row * d->qh + head) * HEAD_WORDS + i % HEAD_WORDS], wanted;
        memcpy(&wanted, right + 4 * i, 4);
        HOLDS(there == wanted || there == 0xFFFFFFFF, "rank %d: row %llu head %llu is not what step 1 sent: %08x", r,
              (unsigned long long)row, (unsigned long long)head, there);
    }
    return true;
}

static bool all_is_right_again(struct dead *d) {
    if (!rearm(d)) {
        return false;
    }
    WORKS(layer_run_all(d->run, &d->error));
    whole_judge(d->whole);
    HOLDS(d->whole->judged.wrong == 0, "after the re-arm: %s", d->whole->judged.first);
    for (int32_t r = 0; r < d->ranks; r++) {
        if (d->query[r] && !mailbox_stood(d, r)) {
            return false;
        }
    }
    return kept_is_right(d);
}

bool dead_layer_holds(struct whole *whole, const struct dead_stop *stop, char what[DEAD_SENTENCE]) {
    struct dead dead;
    uint64_t spent = 0;
    bool good = open_run(&dead, whole, what);
    /* What a kernel took in step 0 has its idle polls in it, many in random order. */
    uint64_t part = whole->cpu.schedule == DCPKCPU_RANDOM ? 400 : 100;
    dead.stop = stop;
    good = good && measure(&dead, &spent) && stop_rank(&dead, spent * stop->percent / part) && others_leave(&dead) &&
           rank_comes_back(&dead) && all_is_right_again(&dead);
    close_run(&dead);
    return good;
}

/* ---- one chunk missing --------------------------------------------------------------------------- */

/* Rank 0's query mailbox, parity 0: rows of rank 1, but for chunk `missing` of its chunks. */
static bool send_by_hand(struct dead *d, uint64_t missing) {
    const struct group_rank *rank = rank_of(d, 0);
    uint64_t chunks = (uint64_t)d->heads * LAYER_TOKEN / 16, own = (uint64_t)d->heads * LAYER_TOKEN;
    uint64_t base = dcpk_box_base(rank->box) + d->layout.q;
    for (uint64_t row = 0; row < (uint64_t)d->batch; row++) {
        uint64_t at = base + row * d->qh * LAYER_TOKEN + own;
        WORKS(dcpk_mem_fill32(rank->device, at, 0x01020304, own / 4, &d->error));
        if (missing / chunks == row) {
            WORKS(dcpk_mem_fill32(rank->device, at + missing % chunks * 16, 0xFFFFFFFF, 4, &d->error));
        }
    }
    return true;
}

static bool names_chunk(struct dead *d, uint64_t missing) {
    uint64_t chunks = (uint64_t)d->heads * LAYER_TOKEN / 16, inside = missing % chunks;
    dcpk_box_state state = {.size = sizeof state};
    WORKS(dcpk_box_status(rank_of(d, 0)->box, &state, &d->error));
    HOLDS(state.dead, "chunk %llu of rank 1 was missing and nobody noticed", (unsigned long long)missing);
    HOLDS(state.mailbox == DCPK_MAILBOX_Q && state.row == (int32_t)(missing / chunks) &&
              state.head_or_source == d->heads + (int32_t)(inside / 36) && state.word == (int32_t)(inside % 36 * 4),
          "chunk %llu of rank 1 was missing: %s", (unsigned long long)missing, state.text);
    return true;
}

bool dead_layer_polls_every_chunk(struct whole *whole, char what[DEAD_SENTENCE]) {
    struct dead dead, *d = &dead;
    bool good = open_run(d, whole, what);
    uint64_t chunks = (uint64_t)(d->batch * d->heads) * LAYER_TOKEN / 16;
    for (uint64_t chunk = 0; good && chunk < chunks; chunk += 5) {
        good = (chunk == 0 || rearm(d)) && send_by_hand(d, chunk);
        if (good && layer_run_launch(d->run, 0, 0, "mla_query", &d->error) != DCPK_OK) {
            snprintf(what, DEAD_SENTENCE, "mla_query on rank 0: %s", d->error.text);
            good = false;
        }
        good = good && sync_rank(d, 0) && names_chunk(d, chunk);
    }
    close_run(d);
    return good;
}
