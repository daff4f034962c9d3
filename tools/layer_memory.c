/* layer_memory.c - device memory of a layer run: inputs uploaded, results under guard, everything read back.
 * May call: include/dcpk, layer_expect.h for rows that an engine would bring itself. Must not: launch or judge. */
#include <tools/layer_run_inside.h>

#include <tools/layer_expect.h>
#include <tools/tool_error.h>

#include <stdlib.h>
#include <string.h>

/* ---- allocating ---------------------------------------------------------------------------------- */

/* Device memory of a rank. from NULL: not written; bytes 0: no memory, address 0. */
static dcpk_status upload(struct layer_run *run, int32_t r, const void *from, uint64_t bytes, uint64_t *address,
                          dcpk_error *error) {
    struct layer_rank_run *rank = &run->rank[r];
    dcpk_device *device = run->group.rank[r].device;
    *address = 0;
    if (bytes == 0) {
        return DCPK_OK;
    }
    uint64_t *grown = realloc(rank->memory, (rank->memory_count + 1) * sizeof *grown);
    if (!grown) {
        return tool_fail(error, DCPK_E_NOMEM, "no memory for a list of buffers");
    }
    rank->memory = grown;
    dcpk_status status = dcpk_mem_alloc(device, bytes, address, error);
    if (status == DCPK_OK) {
        rank->memory[rank->memory_count++] = *address;
        status = from ? dcpk_mem_write(device, *address, from, bytes, error) : DCPK_OK;
    }
    return status;
}

static dcpk_status make_written(struct layer_run *run, int32_t r, struct written *written, uint64_t bytes,
                                dcpk_error *error) {
    written->bytes = bytes;
    dcpk_status status = upload(run, r, NULL, bytes + GUARD_BYTES, &written->address, error);
    return status == DCPK_OK ? dcpk_mem_fill32(run->group.rank[r].device, written->address, GUARD_WORD,
                                               (bytes + GUARD_BYTES) / 4, error)
                             : status;
}

static dcpk_status make_weights(struct layer_run *run, int32_t r, dcpk_error *error) {
    const struct layer_case *l = run->layer;
    struct layer_rank_run *rank = &run->rank[r];
    uint64_t heads = (uint64_t)l->heads, q_lora = (uint64_t)l->q_lora, workspace = 0;
    dcpk_spec spec;
    dcpk_status status = dcpk_image_spec(dcpk_kernel_image(rank->kernels[PHASE_DECODE]), &spec, error);
    if (status == DCPK_OK) {
        status = dcpk_spec_workspace(&spec, &workspace, NULL, error);
    }
    run->scores_fp8 = !run->group.cpu || (status == DCPK_OK && spec.pv == DCPK_PV_FP8);
    const struct {
        const void *from;
        uint64_t bytes;
        uint64_t *address;
    } inputs[] = {{l->rank[r].w_q_b, heads * REF_HEAD_QUERY * q_lora * 2, &rank->w_q_b},
                  {l->rank[r].kv_b, heads * REF_HEAD_WEIGHTS * 2, &rank->kv_b},
                  {l->q_a_norm, q_lora * 2, &rank->q_a_norm},
                  {l->kv_a_norm, REF_LATENT * 2, &rank->kv_a_norm},
                  {NULL, workspace, &rank->workspace}};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs && status == DCPK_OK; i++) {
        status = upload(run, r, inputs[i].from, inputs[i].bytes, inputs[i].address, error);
    }
    if (status == DCPK_OK && workspace > 0 && spec.pv == DCPK_PV_FP8 && spec.splits == 0)
        status = dcpk_workspace_arm(run->group.rank[r].device, rank->workspace, workspace, error);
    return status;
}

/* ---- the cache ----------------------------------------------------------------------------------- */

static size_t page_bytes(const struct layer_case *l) {
    return (size_t)l->page * LAYER_TOKEN;
}

static size_t cache_bytes(const struct layer_case *l, int32_t r) {
    return (size_t)l->rank[r].pages * page_bytes(l);
}

/* The case's cache, with the rows of steps whose engine fills the cache itself. */
static bool make_before(struct layer_run *run, int32_t r) {
    const struct layer_case *l = run->layer;
    struct layer_rank_run *rank = &run->rank[r];
    rank->cache_before = malloc(cache_bytes(l, r) + 1);
    uint8_t *kv = malloc((size_t)l->batch * LAYER_TOKEN);
    bool good = rank->cache_before && kv;
    if (good) {
        memcpy(rank->cache_before, l->rank[r].cache, cache_bytes(l, r));
    }
    for (int32_t s = 0; good && s < l->step_count; s++) {
        if (layer_form_of(run, s) == LAYER_PUSHED) {
            expect_query(l, &l->steps[s], r, NULL, kv);
            expect_insert(l, &l->steps[s], r, kv, rank->cache_before);
        }
    }
    free(kv);
    return good;
}

static dcpk_status make_cache(struct layer_run *run, int32_t r, dcpk_error *error) {
    const struct layer_case *l = run->layer;
    struct layer_rank_run *rank = &run->rank[r];
    rank->page_stride = page_bytes(l) + run->options.page_gap;
    uint64_t bytes = (uint64_t)l->rank[r].pages * rank->page_stride;
    uint8_t *spread = make_before(run, r) ? malloc(bytes + 1) : NULL;
    if (!spread) {
        return tool_fail(error, DCPK_E_NOMEM, "no memory for rank %d's cache", r);
    }
    memset(spread, GAP_BYTE, bytes);
    for (size_t p = 0; p < (size_t)l->rank[r].pages; p++) {
        memcpy(spread + p * rank->page_stride, rank->cache_before + p * page_bytes(l), page_bytes(l));
    }
    dcpk_status status = make_written(run, r, &rank->cache, bytes, error);
    if (status == DCPK_OK) {
        status = dcpk_mem_write(run->group.rank[r].device, rank->cache.address, spread, bytes, error);
    }
    free(spread);
    return status;
}

/* Gaps must be as they were; pages go to cache_after. */
static dcpk_status read_cache(struct layer_run *run, int32_t r, dcpk_error *error) {
    const struct layer_case *l = run->layer;
    struct layer_rank_run *rank = &run->rank[r];
    uint8_t *spread = malloc(rank->cache.bytes + 1);
    free(rank->cache_after);
    rank->cache_after = malloc(cache_bytes(l, r) + 1);
    dcpk_status status =
        spread && rank->cache_after
            ? dcpk_mem_read(run->group.rank[r].device, spread, rank->cache.address, rank->cache.bytes, error)
            : tool_fail(error, DCPK_E_NOMEM, "no memory to read rank %d's cache", r);
    for (size_t p = 0; status == DCPK_OK && spread && rank->cache_after && p < (size_t)l->rank[r].pages; p++) {
        const uint8_t *page = spread + p * rank->page_stride;
        memcpy(rank->cache_after + p * page_bytes(l), page, page_bytes(l));
        for (size_t i = page_bytes(l); i < rank->page_stride; i++) {
            if (page[i] != GAP_BYTE) {
                layer_blame(run, 1, "rank %d: the gap behind page %zu of the cache was written, byte %zu", r, p, i);
            }
        }
    }
    free(spread);
    return status;
}

/* ---- steps --------------------------------------------------------------------------------------- */

/* Rows that the engine brings itself: [batch, H, 576]. */
static dcpk_status make_ready(struct layer_run *run, int32_t s, int32_t r, dcpk_error *error) {
    const struct layer_case *l = run->layer;
    struct device_step *step = &run->rank[r].steps[s];
    size_t bytes = (size_t)l->batch * (size_t)l->heads * LAYER_TOKEN;
    uint8_t *rows = malloc(bytes);
    if (!rows) {
        return tool_fail(error, DCPK_E_NOMEM, "no memory for query rows");
    }
    expect_query(l, &l->steps[s], r, rows, NULL);
    dcpk_status status = l->dcp == 1 ? dcpk_mem_write(run->group.rank[r].device, step->seen.address, rows, bytes, error)
                                     : upload(run, r, rows, bytes, &step->ready, error);
    free(rows);
    return status;
}

static dcpk_status make_results(struct layer_run *run, int32_t s, int32_t r, dcpk_error *error) {
    const struct layer_case *l = run->layer;
    struct device_step *step = &run->rank[r].steps[s];
    uint64_t batch = (uint64_t)l->batch, all = batch * (uint64_t)(l->dcp * l->heads);
    const struct {
        struct written *to;
        uint64_t bytes;
    } results[] = {{&step->qc, batch * (uint64_t)l->q_lora * 2},
                   {&step->seen, all * LAYER_TOKEN},
                   {&step->rows, all * REF_LATENT * 2},
                   {&step->lse, all * 4},
                   {&step->output, batch * (uint64_t)l->heads * REF_VALUE * 2}};
    dcpk_status status = DCPK_OK;
    for (size_t i = 0; i < sizeof results / sizeof *results && status == DCPK_OK; i++) {
        status = make_written(run, r, results[i].to, results[i].bytes, error);
    }
    return status;
}

static dcpk_status make_step(struct layer_run *run, int32_t s, int32_t r, dcpk_error *error) {
    const struct layer_case *l = run->layer;
    const struct layer_step *from = &l->steps[s];
    const struct layer_rank_step *in = &from->rank[r];
    struct device_step *step = &run->rank[r].steps[s];
    uint64_t batch = (uint64_t)l->batch, requests = (uint64_t)layer_requests(l);
    int32_t lens[512];
    layer_lens(l, from, r, lens);
    const struct {
        const void *from;
        uint64_t bytes;
        uint64_t *address;
    } inputs[] = {{in->qkv, batch * in->pitch * 2, &step->qkv},
                  {in->qf, in->qf ? batch * (uint64_t)l->heads * REF_HEAD_QUERY * 2 : 0, &step->qf},
                  {from->cos_sin, from->cos_sin ? batch * REF_ROPE * 4 : 0, &step->cos_sin},
                  {from->totals, requests * 4, &step->totals},
                  {lens, requests * 4, &step->lens},
                  {in->block_table, requests * (uint64_t)in->max_pages * 4, &step->block_table},
                  {in->slots, batch * 8, &step->slots}};
    dcpk_status status = DCPK_OK;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs && status == DCPK_OK; i++) {
        status = upload(run, r, inputs[i].from, inputs[i].bytes, inputs[i].address, error);
    }
    if (status == DCPK_OK) {
        status = make_results(run, s, r, error);
    }
    return status == DCPK_OK && layer_form_of(run, s) == LAYER_PUSHED ? make_ready(run, s, r, error) : status;
}

dcpk_status layer_memory_make(struct layer_run *run, dcpk_error *error) {
    size_t steps = (size_t)run->layer->step_count;
    for (int32_t r = 0; r < run->group.dcp; r++) {
        struct layer_rank_run *rank = &run->rank[r];
        rank->steps = calloc(steps, sizeof *rank->steps);
        rank->outcomes = calloc(steps, sizeof *rank->outcomes);
        if (!rank->steps || !rank->outcomes) {
            return tool_fail(error, DCPK_E_NOMEM, "no memory for %zu steps", steps);
        }
        dcpk_status status = make_weights(run, r, error);
        if (status == DCPK_OK) {
            status = make_cache(run, r, error);
        }
        for (int32_t s = 0; s < run->layer->step_count && status == DCPK_OK; s++) {
            status = make_step(run, s, r, error);
        }
        if (status != DCPK_OK) {
            return status;
        }
    }
    return DCPK_OK;
}

/* Places where a flipped bit must show: bits of exponents, and a page id. */
dcpk_status layer_memory_inject(struct layer_run *run, dcpk_error *error) {
    const struct layer_rank_run *rank = &run->rank[0];
    const struct layer_case *l = run->layer;
    const struct layer_rank_step *in = &l->steps[0].rank[0];
    if (run->options.inject == LAYER_INJECT_NONE) {
        return DCPK_OK;
    }
    bool cached = run->options.inject == LAYER_INJECT_CACHE || run->options.inject == LAYER_INJECT_TABLE;
    int32_t request = layer_first_request(l, cached);
    if (request < 0) {
        return tool_fail(error, DCPK_E_ARG, "no request that a flipped bit could show in");
    }
    uint64_t row = (uint64_t)(request * l->q + l->q - 1), entry = (uint64_t)(request * in->max_pages);
    uint64_t table = rank->steps[0].block_table + entry * 4;
    uint64_t page = cached ? (uint64_t)in->block_table[entry] : 0;
    uint64_t own = l->q_lora ? rank->steps[0].qkv + row * in->pitch * 2
                             : rank->steps[0].qf + row * (uint64_t)l->heads * REF_HEAD_QUERY * 2;
    const struct {
        uint64_t address;
        int bit;
    } places[] = {[LAYER_INJECT_CACHE] = {rank->cache.address + page * rank->page_stride, 6},
                  [LAYER_INJECT_QKV] = {own + 1, 6},
                  [LAYER_INJECT_GATE] = {rank->steps[0].qkv + 2 * (row * in->pitch + layer_gate_at(l)) + 1, 7},
                  [LAYER_INJECT_WEIGHT] = {rank->kv_b + REF_HEAD_WEIGHTS + 1, 6},
                  [LAYER_INJECT_TABLE] = {table, 0}};
    return rank_group_flip(&run->group, 0, places[run->options.inject].address, places[run->options.inject].bit, error);
}

/* ---- reading back -------------------------------------------------------------------------------- */

/* Malloc'd bytes of a result; its guard is looked at. NULL: *status says why. */
static void *read_written(struct layer_run *run, int32_t s, int32_t r, const struct written *written, const char *what,
                          dcpk_status *status, dcpk_error *error) {
    uint32_t guard[GUARD_BYTES / 4];
    uint8_t *data = *status == DCPK_OK ? malloc(written->bytes + GUARD_BYTES) : NULL;
    if (*status != DCPK_OK) {
        return NULL;
    }
    *status =
        data ? dcpk_mem_read(run->group.rank[r].device, data, written->address, written->bytes + GUARD_BYTES, error)
             : tool_fail(error, DCPK_E_NOMEM, "no memory to read results back");
    if (*status != DCPK_OK || !data) {
        free(data);
        return NULL;
    }
    memcpy(guard, data + written->bytes, GUARD_BYTES);
    for (size_t i = 0; i < GUARD_BYTES / 4; i++) {
        if (guard[i] != GUARD_WORD) {
            layer_blame(run, 1, "step %d rank %d: %s: word %zu behind its last row was overwritten with %08x", s, r,
                        what, i, guard[i]);
        }
    }
    return data;
}

static void outcome_free(struct layer_outcome *outcome) {
    free(outcome->qc);
    free(outcome->query);
    free(outcome->rows);
    free(outcome->rows_lse);
    free(outcome->output);
    memset(outcome, 0, sizeof *outcome);
}

dcpk_status layer_memory_read_step(struct layer_run *run, int32_t s, int32_t r, dcpk_error *error) {
    const struct device_step *step = &run->rank[r].steps[s];
    struct layer_outcome *out = &run->rank[r].outcomes[s];
    dcpk_status status = DCPK_OK;
    outcome_free(out);
    out->form = layer_form_of(run, s);
    if (run->layer->q_lora && out->form != LAYER_PUSHED) {
        out->qc = read_written(run, s, r, &step->qc, "q_c", &status, error);
    }
    out->query = read_written(run, s, r, &step->seen, "query", &status, error);
    out->rows = read_written(run, s, r, &step->rows, "rows", &status, error);
    out->rows_lse = read_written(run, s, r, &step->lse, "rows_lse", &status, error);
    out->output = read_written(run, s, r, &step->output, "output", &status, error);
    return status;
}

dcpk_status layer_memory_clear(struct layer_run *run, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t r = 0; r < run->group.dcp; r++) {
        for (int32_t s = 0; s < run->layer->step_count; s++) {
            const struct device_step *step = &run->rank[r].steps[s];
            const struct written *results[] = {&step->qc, &step->rows, &step->lse, &step->output, &step->seen};
            size_t count = run->layer->dcp > 1 ? 5 : 4; /* a rank alone may be given what is seen */
            for (size_t i = 0; i < count && status == DCPK_OK; i++) {
                status = dcpk_mem_fill32(run->group.rank[r].device, results[i]->address, GUARD_WORD,
                                         results[i]->bytes / 4, error);
            }
        }
    }
    return status;
}

dcpk_status layer_memory_read(struct layer_run *run, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t r = 0; r < run->group.dcp && status == DCPK_OK; r++) {
        status = read_cache(run, r, error);
        for (int32_t s = 0; s < run->layer->step_count && status == DCPK_OK; s++) {
            status = layer_memory_read_step(run, s, r, error);
        }
    }
    return status;
}

void layer_memory_release(struct layer_run *run) {
    for (int32_t r = 0; r < run->group.dcp; r++) {
        struct layer_rank_run *rank = &run->rank[r];
        for (size_t i = 0; i < rank->memory_count; i++) {
            dcpk_mem_free(run->group.rank[r].device, rank->memory[i], NULL);
        }
        rank->memory_count = 0;
    }
}

void layer_memory_free(struct layer_run *run) {
    for (int32_t r = 0; r < run->group.dcp; r++) {
        struct layer_rank_run *rank = &run->rank[r];
        for (int32_t s = 0; rank->outcomes && s < run->layer->step_count; s++) {
            outcome_free(&rank->outcomes[s]);
        }
        free(rank->memory);
        free(rank->steps);
        free(rank->outcomes);
        free(rank->cache_before);
        free(rank->cache_after);
    }
}
