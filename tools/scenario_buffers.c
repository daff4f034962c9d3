/* scenario_buffers.c - device memory of a scenario: inputs uploaded, outputs under guard, one bit flipped on request.
 * May call: reference.h (what a source weighs), include/dcpk. Must not: launch or judge. */
#include <tools/scenario_inside.h>

#include <tools/reference.h>

#include <stdlib.h>
#include <string.h>

/* Device memory of a rank. from NULL: not written. */
static dcpk_status upload(struct rank *rank, const void *from, uint64_t bytes, uint64_t *address, dcpk_error *error) {
    uint64_t *grown = realloc(rank->memory, (rank->memory_count + 1) * sizeof *grown);
    if (!grown) {
        return tool_fail(error, DCPK_E_NOMEM, "no memory for a list of buffers");
    }
    rank->memory = grown;
    dcpk_status status = dcpk_mem_alloc(rank->device, bytes, address, error);
    if (status == DCPK_OK) {
        rank->memory[rank->memory_count++] = *address;
        status = from ? dcpk_mem_write(rank->device, *address, from, bytes, error) : DCPK_OK;
    }
    return status;
}

static dcpk_status fill_guard(struct rank *rank, const struct written *written, dcpk_error *error) {
    return dcpk_mem_fill32(rank->device, written->address, GUARD_WORD, (written->bytes + GUARD_BYTES) / 4, error);
}

static dcpk_status make_written(struct rank *rank, struct written *written, uint64_t bytes, dcpk_error *error) {
    written->bytes = bytes;
    dcpk_status status = upload(rank, NULL, bytes + GUARD_BYTES, &written->address, error);
    return status == DCPK_OK ? fill_guard(rank, written, error) : status;
}

static dcpk_status upload_use(struct scenario *s, struct use *use, struct rank *rank, dcpk_error *error) {
    struct rank_use *here = &use->ranks[rank->index];
    uint64_t batch = (uint64_t)use->batch, heads = (uint64_t)s->heads, all = heads * (uint64_t)s->dcp;
    uint64_t requests = batch / (uint64_t)s->q;
    const struct {
        const void *from;
        uint64_t bytes;
        uint64_t *address;
    } inputs[] = {{here->qkv, batch * s->pitch * 2, &here->d_qkv},
                  {here->query, batch * heads * REF_HEAD_BYTES, &here->d_query},
                  {here->rows, batch * all * REF_LATENT * 2, &here->d_rows},
                  {here->lse, batch * all * 4, &here->d_lse},
                  {here->lens, requests * 4, &here->d_lens},
                  {use->totals, requests * 4, &here->d_totals}};
    dcpk_status status = DCPK_OK;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs && status == DCPK_OK; i++) {
        status = upload(rank, inputs[i].from, inputs[i].bytes, inputs[i].address, error);
    }
    if (status == DCPK_OK) {
        status = make_written(rank, &here->qc, batch * REF_Q_LORA * 2, error);
    }
    if (status == DCPK_OK) {
        status = make_written(rank, &here->seen, batch * all * REF_HEAD_BYTES, error);
    }
    return status == DCPK_OK ? make_written(rank, &here->result, batch * heads * REF_VALUE * 2, error) : status;
}

dcpk_status scenario_buffers_make(struct scenario *s, dcpk_error *error) {
    for (int32_t r = 0; r < s->dcp; r++) {
        struct rank *rank = &s->ranks[r];
        uint64_t heads = (uint64_t)s->heads, batch = (uint64_t)s->greatest_batch;
        dcpk_status status = upload(rank, rank->kv_b, heads * REF_HEAD_WEIGHTS * 2, &rank->d_kv_b, error);
        if (status == DCPK_OK) {
            status = upload(rank, rank->q_a_norm, REF_Q_LORA * 2, &rank->d_q_a_norm, error);
        }
        if (status == DCPK_OK && s->dcp == 1) {
            status = upload(rank, NULL, batch * heads * REF_LATENT * 2, &rank->d_rows, error);
        }
        if (status == DCPK_OK && s->dcp == 1) {
            status = upload(rank, NULL, batch * heads * 4, &rank->d_lse, error);
        }
        for (int32_t u = 0; u < s->uses && status == DCPK_OK; u++) {
            status = upload_use(s, &s->use[u], rank, error);
        }
        if (status != DCPK_OK) {
            return status;
        }
    }
    return DCPK_OK;
}

dcpk_status scenario_reset(struct scenario *s, int32_t use, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t r = 0; r < s->dcp; r++) {
        struct rank_use *here = &s->use[use].ranks[r];
        const struct written *all[] = {&here->qc, &here->seen, &here->result};
        for (int i = 0; i < 3 && status == DCPK_OK; i++) {
            status = fill_guard(&s->ranks[r], all[i], error);
        }
    }
    return status;
}

void scenario_buffers_free(struct rank *rank) {
    for (size_t i = 0; i < rank->memory_count; i++) {
        dcpk_mem_free(rank->device, rank->memory[i], NULL);
    }
    free(rank->memory);
}

/* The global head of row 0, use 0, in which rank 0's partial row weighs most: there no merge hides a flipped bit. */
static int32_t heaviest_head(const struct scenario *s) {
    const float *lse[MAX_RANKS];
    const int32_t *lens[MAX_RANKS];
    for (int32_t r = 0; r < s->dcp; r++) {
        lse[r] = s->use[0].ranks[r].lse;
        lens[r] = s->use[0].ranks[r].lens;
    }
    struct reference_value in = {
        .dcp = s->dcp, .heads = s->heads, .batch = s->use[0].batch, .q = s->q, .lse = lse, .lens = lens};
    double weights[MAX_RANKS], most = -1;
    int32_t best = 0;
    for (int32_t head = 0; head < s->dcp * s->heads; head++) {
        reference_merge_weights(&in, 0, head, weights);
        if (weights[0] > most) {
            most = weights[0];
            best = head;
        }
    }
    return best;
}

/* Row 0 of use 0 is never padding (scenario_inputs.c). bit 6 of a BF16's high byte is the top bit of its exponent. */
static bool place_of(const struct scenario *s, uint64_t *address, int *bit) {
    const struct rank *rank = &s->ranks[0];
    const struct rank_use *here = &s->use[0].ranks[0];
    *bit = 6;
    switch (s->options.inject) {
    case INJECT_ROWS:
        *address = here->d_rows + (uint64_t)heaviest_head(s) * REF_LATENT * 2 + 1;
        return true;
    case INJECT_QUERY:
        *address = here->d_query;
        *bit = 0;
        return true;
    case INJECT_GATE:
        *address = here->d_qkv + 2 * ROW_START_GATE + 1;
        *bit = 7;
        return true;
    case INJECT_WEIGHT:
        *address = rank->d_kv_b + REF_HEAD_WEIGHTS + 1;
        return true;
    case INJECT_QKV:
        *address = here->d_qkv + 1;
        return true;
    default:
        return false;
    }
}

dcpk_status scenario_inject(struct scenario *s, dcpk_error *error) {
    uint64_t address;
    int bit;
    return place_of(s, &address, &bit) ? rank_group_flip(&s->group, 0, address, bit, error) : DCPK_OK;
}
