/* box_status.c - reads the pinned records of a box and says in the field's words what never came.
 * Must not call the driver, block or allocate: any thread may ask at any time. */
#include "runtime/box_state.h"
#include "runtime/error.h"

#include <stdio.h>
#include <string.h>

static const char *kernel_name(uint32_t number) {
    switch (number) {
#define K(name, number, box, summary)                                                                                  \
    case number:                                                                                                       \
        return #name;
#include <dcpk/kernels.def>
#undef K
    default:
        return "kernel ?";
    }
}

/* One line a mailbox; record: words 1..7 are filled. */
static void describe(const dcpk_box *box, const uint32_t *record, char *text, size_t capacity) {
    uint32_t heads = (uint32_t)box->shape.heads;
    uint32_t row = record[RECORD_ROW], other = record[RECORD_OTHER], word = record[RECORD_WORD];
    uint32_t use = record[RECORD_USE];
    bool closed = other + 1 == row; /* of DCPK_MAILBOX_USE: current + 1 == next */
    int used = snprintf(text, capacity, "rank %u %s: ", record[RECORD_RANK], kernel_name(record[RECORD_KERNEL]));
    if (used < 0 || (size_t)used >= capacity) return;
    char *to = text + used;
    size_t room = capacity - (size_t)used;
    switch (record[RECORD_MAILBOX]) {
    case DCPK_MAILBOX_Q:
        snprintf(to, room, "rank %u's row %u head %u word %u of the query mailbox never came (use %u)", other / heads,
                 row, other, word, use);
        break;
    case DCPK_MAILBOX_PARTIAL:
        snprintf(to, room, "rank %u's row %u head %u word %u of the partial mailbox never came (use %u)", other, row,
                 word / 256, word % 256, use);
        break;
    case DCPK_MAILBOX_LSE:
        snprintf(to, room, "rank %u's row %u head %u of the LSE mailbox never came (use %u)", other, row, word, use);
        break;
    case DCPK_MAILBOX_LEDGER:
        snprintf(to, room, "rank %u's word of the ledger never came (use %u)", other, use);
        break;
    case DCPK_MAILBOX_MISMATCH:
        snprintf(to, room, "rank %u runs batch %u q %u use %u, here batch %u q %u use %u (uses mod 2^18)", other,
                 word >> 4 & 1023, word & 15, word >> 14, row >> 4 & 1023, row & 15, row >> 14);
        break;
    case DCPK_MAILBOX_USE:
        if (closed)
            snprintf(to, room, "parity %u was passed, the counter says %u (use %u)", word, row & 1, use);
        else
            snprintf(to, room, "use %d was never closed: next %u, current %d", (int32_t)other, row, (int32_t)other);
        break;
    default:
        snprintf(to, room, "mailbox %u row %u head or source %u word %u (use %u)", record[RECORD_MAILBOX], row, other,
                 word, use);
    }
}

/* The record of the rank that gave up, as far as this process can read it: its own, or that of a rank connected here.
 */
static bool find_record(const dcpk_box *box, uint32_t by_rank, uint32_t *record) {
    const struct box_group *group = atomic_load_explicit(&box->group, memory_order_acquire);
    const uint32_t *host = NULL;
    if (by_rank == (uint32_t)box->rank)
        host = box->record.host;
    else if (group != NULL && by_rank < (uint32_t)group->count)
        host = group->record[by_rank].host;
    if (host == NULL) return false;
    for (int i = 0; i < 8; i++)
        record[i] = __atomic_load_n(&host[i], __ATOMIC_ACQUIRE);
    return record[RECORD_KERNEL] != DCPK_KERNEL_NONE && record[RECORD_RANK] == by_rank;
}

static void lost_text(int32_t lost, char *text, size_t capacity) {
    if (lost == 0)
        snprintf(text, capacity, "alive");
    else if (lost == BOX_LOST_REARM)
        snprintf(text, capacity, "a re-arm failed: the box must be built anew on every rank");
    else
        snprintf(text, capacity, "rank %d's box was destroyed: the box must be built anew on every rank", lost - 1);
}

static void fill(const dcpk_box *box, dcpk_box_state *state) {
    uint32_t word = __atomic_load_n(&box->record.host[0], __ATOMIC_ACQUIRE), record[8];
    int32_t lost = atomic_load_explicit(&box->lost, memory_order_relaxed);
    state->by_rank = -1;
    state->dead = word != 0 || lost != 0;
    if (word == 0) {
        lost_text(lost, state->text, sizeof state->text);
        return;
    }
    state->by_rank = (int32_t)(word - 1);
    if (!find_record(box, word - 1, record)) {
        snprintf(state->text, sizeof state->text, "rank %d gave up: the status of its own box says why",
                 state->by_rank);
        return;
    }
    state->kernel = (int32_t)record[RECORD_KERNEL];
    state->mailbox = (int32_t)record[RECORD_MAILBOX];
    state->row = (int32_t)record[RECORD_ROW];
    state->head_or_source = (int32_t)record[RECORD_OTHER];
    state->word = (int32_t)record[RECORD_WORD];
    state->use = record[RECORD_USE];
    describe(box, record, state->text, sizeof state->text);
}

dcpk_status dcpk_box_status(const dcpk_box *box, dcpk_box_state *out, dcpk_error *error) {
    if (box == NULL || out == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_status: %s is NULL", box ? "state" : "box");
    dcpk_box_state state;
    memset(&state, 0, sizeof state);
    fill(box, &state);
    state.size = out->size;
    memcpy(out, &state, out->size < sizeof state ? out->size : sizeof state);
    return DCPK_OK;
}

dcpk_status dcpk_box_dead_error(const dcpk_box *box, const char *what, dcpk_error *error) {
    dcpk_box_state state;
    memset(&state, 0, sizeof state);
    fill(box, &state);
    char then[128] = "re-arm it on every rank";
    int32_t lost = atomic_load(&box->lost);
    if (lost != 0) lost_text(lost, then, sizeof then);
    return dcpk_error_set(error, DCPK_E_BOX_DEAD, "%s: rank %d's box is dead: %s%s%s", what, box->rank, state.text,
                          state.by_rank < 0 ? "" : "; ", state.by_rank < 0 ? "" : then);
}
