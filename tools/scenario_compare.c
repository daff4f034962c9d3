/* scenario_compare.c - reads a use back and judges it: q_c, query bytes, output, guards, and the armed state of boxes.
 * May call: numbers.h, reference.h, include/dcpk. Must not: launch anything. */
#include <tools/scenario_inside.h>

#include <tools/numbers.h>
#include <tools/reference.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOT_SLACK = 2 }; /* FP32 steps that rsqrt.approx may be off */
static const double norm_bound = 1, value_bound = REF_VALUE_ULP;

__attribute__((format(printf, 2, 3))) static void note(struct scenario_check *check, const char *format, ...) {
    if (check->first[0] == '\0') {
        va_list list;
        va_start(list, format);
        vsnprintf(check->first, sizeof check->first, format, list);
        va_end(list);
    }
}

/* Buffer and guard of a written buffer; NULL: *status says why. */
static void *read_back(struct rank *rank, const struct written *written, dcpk_status *status, dcpk_error *error) {
    void *data = malloc(written->bytes + GUARD_BYTES);
    *status = data ? dcpk_mem_read(rank->device, data, written->address, written->bytes + GUARD_BYTES, error)
                   : tool_fail(error, DCPK_E_NOMEM, "no memory to read results back");
    if (*status != DCPK_OK) {
        free(data);
        return NULL;
    }
    return data;
}

static void check_guard(const void *data, const struct written *written, const char *what,
                        struct scenario_check *check) {
    uint32_t guard[GUARD_BYTES / 4];
    memcpy(guard, (const char *)data + written->bytes, GUARD_BYTES);
    for (int i = 0; i < GUARD_BYTES / 4; i++) {
        if (guard[i] != GUARD_WORD) {
            check->guard_wrong++;
            note(check, "%s: word %d behind its last row was overwritten with %08x", what, i, guard[i]);
        }
    }
}

/* ---- query_norm ---------------------------------------------------------------------------------- */

static void check_norm_row(const struct scenario *s, const struct use *use, const struct rank *rank, int32_t row,
                           const uint16_t *got, double *sums, struct scenario_check *check) {
    const uint16_t *x = use->ranks[rank->index].qkv + (size_t)row * s->pitch;
    uint16_t want[REF_Q_LORA];
    enum reference_form form = use->batch >= s->base.tiled_from ? FORM_TILED : FORM_SCALAR;
    uint32_t differ = reference_norm_replay(form, x, rank->q_a_norm, s->eps, ROOT_SLACK, got);
    if (differ) {
        check->norm_wrong += differ;
        note(check, "q_c row %d: %u values differ from the replay of the %s form", row, differ,
             form == FORM_TILED ? "tiled" : "scalar");
    }
    reference_norm(x, rank->q_a_norm, (double)s->eps, want, NULL);
    for (int i = 0; i < REF_Q_LORA; i++) {
        double steps = (double)bf16_steps(got[i], want[i]), value = bf16_to_double(got[i]),
               ideal = bf16_to_double(want[i]);
        check->norm_ulp = fmax(check->norm_ulp, steps);
        if (steps > norm_bound) {
            check->norm_wrong++;
            note(check, "q_c row %d column %d: %g is %g BF16 steps from %g", row, i, value, steps, ideal);
        }
        if (isfinite(value) && isfinite(ideal)) {
            sums[0] += (value - ideal) * (value - ideal);
            sums[1] += ideal * ideal;
        }
    }
}

static dcpk_status check_norm(const struct scenario *s, const struct use *use, struct rank *rank,
                              struct scenario_check *check, dcpk_error *error) {
    dcpk_status status;
    double sums[2] = {0, 0};
    uint16_t *got = read_back(rank, &use->ranks[rank->index].qc, &status, error);
    if (!got) {
        return status;
    }
    for (int32_t row = 0; row < use->batch; row++) {
        check_norm_row(s, use, rank, row, got + (size_t)row * REF_Q_LORA, sums, check);
    }
    check->norm_relative = sums[0] > 0 ? sqrt(sums[0] / sums[1]) : 0;
    check_guard(got, &use->ranks[rank->index].qc, "q_c", check);
    free(got);
    return DCPK_OK;
}

/* ---- query mailbox ------------------------------------------------------------------------------- */

static dcpk_status check_query(const struct scenario *s, const struct use *use, struct rank *rank,
                               struct scenario_check *check, dcpk_error *error) {
    dcpk_status status;
    uint8_t *got = read_back(rank, &use->ranks[rank->index].seen, &status, error);
    if (!got) {
        return status;
    }
    const uint8_t *at = got;
    for (int32_t row = 0; row < use->batch; row++) {
        for (int32_t head = 0; head < s->dcp * s->heads; head++, at += REF_HEAD_BYTES) {
            const uint8_t *sent =
                use->ranks[head / s->heads].query + (size_t)(row * s->heads + head % s->heads) * REF_HEAD_BYTES;
            for (int i = 0; i < REF_HEAD_BYTES; i++) {
                if (at[i] != reference_query_byte(sent[i])) {
                    check->query_wrong++;
                    note(check, "query row %d head %d byte %d: the decode saw %02x, rank %d sent %02x", row, head, i,
                         at[i], head / s->heads, sent[i]);
                }
            }
        }
    }
    check_guard(got, &use->ranks[rank->index].seen, "query copy", check);
    free(got);
    return DCPK_OK;
}

/* ---- dcp_value ----------------------------------------------------------------------------------- */

static void compare_values(const struct scenario *s, const struct use *use, const uint16_t *got, const uint16_t *want,
                           const double *magnitude, struct scenario_check *check) {
    double sums[2] = {0, 0};
    size_t width = (size_t)s->heads * REF_VALUE;
    for (size_t i = 0; i < (size_t)use->batch * width; i++) {
        int32_t row = (int32_t)(i / width);
        double error = bf16_ulp_error(got[i], want[i], magnitude[i]), value = bf16_to_double(got[i]),
               ideal = bf16_to_double(want[i]);
        if (use->totals[row / s->q] <= 0 && got[i] != 0) {
            error = INFINITY; /* padding is +0, bit by bit */
        }
        check->output_nans += bf16_is_nan(got[i]);
        check->value_ulp = fmax(check->value_ulp, error);
        if (error > value_bound) {
            check->value_wrong++;
            note(check, "output row %d head %d column %d: %g (%04x) instead of %g (%04x), off by %g of %g BF16 ulp",
                 row, (int)(i % width / REF_VALUE), (int)(i % REF_VALUE), value, got[i], ideal, want[i], error,
                 value_bound);
        }
        if (isfinite(value) && isfinite(ideal)) {
            sums[0] += (value - ideal) * (value - ideal);
            sums[1] += ideal * ideal;
        }
    }
    check->value_relative = sums[0] > 0 ? sqrt(sums[0] / sums[1]) : 0;
}

static void reference_of(const struct scenario *s, const struct use *use, const struct rank *rank, const uint16_t *got,
                         uint16_t *want, double *magnitude) {
    const uint16_t *rows[MAX_RANKS];
    const float *lse[MAX_RANKS];
    const int32_t *lens[MAX_RANKS];
    for (int32_t r = 0; r < s->dcp; r++) {
        rows[r] = use->ranks[r].rows;
        lse[r] = use->ranks[r].lse;
        lens[r] = use->ranks[r].lens;
    }
    struct reference_value in = {.dcp = s->dcp,
                                 .heads = s->heads,
                                 .batch = use->batch,
                                 .q = s->q,
                                 .rank = rank->index,
                                 .rows = rows,
                                 .lse = lse,
                                 .lens = lens,
                                 .totals = use->totals,
                                 .kv_b = rank->kv_b,
                                 .gate = s->base.gate == 0 ? NULL : use->ranks[rank->index].qkv + ROW_START_GATE,
                                 .pitch = s->pitch,
                                 .judged = got};
    reference_value(&in, want, magnitude);
}

static dcpk_status check_value(const struct scenario *s, struct use *use, struct rank *rank,
                               struct scenario_check *check, dcpk_error *error) {
    dcpk_status status;
    struct rank_use *here = &use->ranks[rank->index];
    size_t count = (size_t)use->batch * (size_t)s->heads * REF_VALUE;
    uint16_t *want = malloc(count * sizeof *want);
    double *magnitude = malloc(count * sizeof *magnitude);
    free(here->output);
    here->output = read_back(rank, &here->result, &status, error);
    if (here->output && want && magnitude) {
        reference_of(s, use, rank, here->output, want, magnitude);
        compare_values(s, use, here->output, want, magnitude, check);
        check_guard(here->output, &here->result, "output", check);
    } else if (status == DCPK_OK) {
        status = tool_fail(error, DCPK_E_NOMEM, "no memory for the reference");
    }
    free(want);
    free(magnitude);
    return status;
}

/* ---- a use --------------------------------------------------------------------------------------- */

static void keep(struct scenario *s, const char *kernel, int32_t batch, const char *measure, double error, double bound,
                 uint64_t wrong, double relative) {
    struct kernel_row *row = scenario_row(s, kernel, batch);
    if (row) {
        row->compared = 1;
        row->measure = measure;
        row->error = fmax(row->error, error);
        row->bound = bound;
        row->wrong += wrong;
        row->relative = fmax(row->relative, relative);
    }
}

dcpk_status scenario_check(struct scenario *s, int32_t index, int32_t r, struct scenario_check *check,
                           dcpk_error *error) {
    struct scenario_check own = {0};
    struct use *use = &s->use[index];
    struct rank *rank = &s->ranks[r];
    check = check ? check : &own;
    memset(check, 0, sizeof *check);
    dcpk_status status = check_norm(s, use, rank, check, error);
    if (status == DCPK_OK && s->dcp > 1) {
        status = check_query(s, use, rank, check, error);
    }
    if (status == DCPK_OK) {
        status = check_value(s, use, rank, check, error);
    }
    if (status != DCPK_OK) {
        return status;
    }
    keep(s, "query_norm", use->batch, "BF16 steps", check->norm_ulp, norm_bound, check->norm_wrong,
         check->norm_relative);
    keep(s, "query_push", use->batch, "wrong bytes", (double)check->query_wrong, 0, check->query_wrong, 0);
    keep(s, "query_wait", use->batch, "wrong bytes", (double)check->query_wrong, 0, check->query_wrong, 0);
    keep(s, "dcp_value", use->batch, "BF16 ulp", check->value_ulp, value_bound, check->value_wrong,
         check->value_relative);
    scenario_blame(s, check->norm_wrong + check->query_wrong + check->value_wrong + check->guard_wrong, index, r,
                   check->first);
    return DCPK_OK;
}

/* ---- mailboxes ----------------------------------------------------------------------------------- */

dcpk_status scenario_scan(struct scenario *s, int32_t r, struct box_scan *scan, dcpk_error *error) {
    struct rank *rank = &s->ranks[r];
    struct box_scan own = {0};
    dcpk_box_shape shape = {
        .size = sizeof shape, .dcp = s->dcp, .heads = s->heads, .cap = s->base.cap, .qh = s->base.qh};
    scan = scan ? scan : &own;
    memset(scan, 0, sizeof *scan);
    if (!rank->box) {
        return DCPK_OK;
    }
    dcpk_status status = box_scan(rank->device, rank->box, &shape, scan, error);
    if (status == DCPK_OK) {
        scenario_blame(s, scan->q + scan->partial + scan->lse + scan->ledger, -1, r, scan->first);
    }
    return status;
}
