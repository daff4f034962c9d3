/* kernel_time.c - see kernel_time.h. */
#include <tools/kernel_time.h>

#include <tools/numbers.h>
#include <tools/tool_error.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { L2_BYTES = 60 << 20, POOL = 4 << 20, TOKEN = 576, LATENT = 512, MOST_SETS = 64, MOST_MEMORY = 16, SPARE = 2 };
enum content { ZEROS, HALVES, BYTES }; /* BF16 of 2^-7 to 2, either sign; e4m3 of normal numbers */

struct kernel_inputs {
    struct kernel_wish wish;
    dcpk_spec spec;
    dcpk_args args[MOST_SETS];
    int sets, calls;
    uint64_t memory[MOST_MEMORY];
    int memory_count;
    uint8_t *pool[BYTES + 1]; /* POOL bytes of each content; NULL: not wanted so far */
};

const char *kernel_alone(const dcpk_spec *spec) {
    switch (dcpk_kernel_id_of(spec->kernel)) {
    case DCPK_KERNEL_query_norm:
    case DCPK_KERNEL_mla_decode:
        return NULL;
    case DCPK_KERNEL_NONE:
        return "a check's kernel, not the library's";
    default:
        return spec->dcp > 1 ? "it is one half of an exchange: its launches cannot be repeated alone" : NULL;
    }
}

/* ---- memory -------------------------------------------------------------------------------------- */

static uint8_t *pool_of(struct kernel_inputs *in, enum content content) {
    struct random random;
    random_seed(&random, (uint64_t)content + 1);
    if (in->pool[content]) {
        return in->pool[content];
    }
    uint8_t *pool = calloc(1, POOL);
    for (size_t i = 0; pool && content != ZEROS && i < POOL / 2; i++) {
        uint64_t bits = random_next(&random);
        uint16_t half = (uint16_t)((bits & 0x807F) | (uint64_t)(120 + (bits >> 16) % 8) << 7);
        if (content == HALVES) memcpy(pool + 2 * i, &half, 2);
        for (size_t b = 2 * i; content == BYTES && b < 2 * i + 2; b++)
            pool[b] = e4m3_from_double(random_normal(&random));
    }
    return in->pool[content] = pool;
}

/* Device memory of this content; the address is 0 after a failure. */
static uint64_t fill(struct kernel_inputs *in, uint64_t size, enum content content, dcpk_status *status,
                     dcpk_error *error) {
    uint64_t address = 0;
    const uint8_t *pool = pool_of(in, content);
    if (*status == DCPK_OK && (!pool || in->memory_count == MOST_MEMORY)) {
        *status = tool_fail(error, DCPK_E_NOMEM, "no memory for a kernel's inputs");
    }
    if (*status == DCPK_OK) {
        *status = dcpk_mem_alloc(in->wish.device, size, &address, error);
    }
    if (*status != DCPK_OK) {
        return 0;
    }
    in->memory[in->memory_count++] = address;
    for (uint64_t at = 0; at < size && *status == DCPK_OK; at += POOL) {
        *status = dcpk_mem_write(in->wish.device, address + at, pool, size - at < POOL ? size - at : POOL, error);
    }
    return address;
}

static uint64_t upload(struct kernel_inputs *in, const void *bytes, uint64_t size, dcpk_status *status,
                       dcpk_error *error) {
    uint64_t address = fill(in, size, ZEROS, status, error);
    if (*status == DCPK_OK) {
        *status = dcpk_mem_write(in->wish.device, address, bytes, size, error);
    }
    return address;
}

/* So many sets of so many bytes each that no call finds its own in the L2. */
static void set_sets(struct kernel_inputs *in, double bytes) {
    int most = in->wish.most_sets > 0 && in->wish.most_sets < MOST_SETS ? in->wish.most_sets : MOST_SETS;
    double sets = ceil(4.0 * L2_BYTES / (bytes > 1 ? bytes : 1));
    in->sets = sets < 1 ? 1 : sets > most ? most : (int)sets;
}

/* ---- inputs of each kernel ----------------------------------------------------------------------- */

static uint32_t pitch_of(const dcpk_spec *spec) {
    return (uint32_t)((spec->q_lora > 0 ? spec->q_lora : 1536) + TOKEN + spec->heads * 128);
}

static dcpk_status norm_inputs(struct kernel_inputs *in, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    uint64_t batch = (uint64_t)in->spec.batch;
    uint64_t rows = fill(in, batch * 4096 * 2, HALVES, &status, error);
    uint64_t qc = fill(in, batch * 1536 * 2, ZEROS, &status, error);
    in->sets = 1;
    in->calls = 64;
    in->args[0] =
        (dcpk_args){.size = sizeof in->args[0], .qkv = rows, .q_a_norm = rows, .qc = qc, .pitch = 4096, .eps = 1e-5f};
    return status;
}

static dcpk_status query_inputs(struct kernel_inputs *in, dcpk_error *error) {
    const dcpk_spec *spec = &in->spec;
    dcpk_status status = DCPK_OK;
    uint64_t heads = (uint64_t)spec->heads, batch = (uint64_t)spec->batch, page = (uint64_t)spec->page;
    uint64_t q_b = heads * 192 * 2 * (uint64_t)spec->q_lora, kv_b = heads * 256 * LATENT * 2;
    set_sets(in, (double)q_b + (double)kv_b / 2);
    in->calls = 2 * in->sets;
    uint64_t weights = fill(in, (q_b + kv_b) * (uint64_t)in->sets, HALVES, &status, error);
    uint64_t rows = fill(in, batch * pitch_of(spec) * 2, HALVES, &status, error);
    uint64_t qf = fill(in, batch * heads * 192 * 2, HALVES, &status, error);
    uint64_t qc = fill(in, batch * 1536 * 2, ZEROS, &status, error);
    uint64_t query = fill(in, batch * heads * TOKEN, ZEROS, &status, error);
    uint64_t cache = fill(in, (batch / page + 1) * page * TOKEN, ZEROS, &status, error);
    uint64_t angles = fill(in, batch * 64 * 4, ZEROS, &status, error);
    int64_t slots[512];
    for (int i = 0; i < 512; i++) {
        slots[i] = i;
    }
    uint64_t places = upload(in, slots, batch * 8, &status, error);
    for (int s = 0; s < in->sets; s++) {
        uint64_t at = weights + (q_b + kv_b) * (uint64_t)s;
        in->args[s] = (dcpk_args){.size = sizeof in->args[s],
                                  .qkv = rows,
                                  .q_a_norm = rows,
                                  .kv_a_norm = rows,
                                  .qc = qc,
                                  .qf = qf,
                                  .cos_sin = angles,
                                  .pitch = pitch_of(spec),
                                  .eps = 1e-5f,
                                  .w_q_b = at,
                                  .kv_b = at + q_b,
                                  .query = query,
                                  .slots = places,
                                  .kv_cache = cache,
                                  .page_stride = page * TOKEN,
                                  .q_scale_inv = 1,
                                  .k_scale_inv = 1};
    }
    return status;
}

static dcpk_status value_inputs(struct kernel_inputs *in, dcpk_error *error) {
    const dcpk_spec *spec = &in->spec;
    dcpk_status status = DCPK_OK;
    uint64_t heads = (uint64_t)spec->heads, part = (uint64_t)spec->batch * heads, kv_b = heads * 256 * LATENT * 2;
    uint64_t requests = (uint64_t)(spec->batch / spec->q);
    set_sets(in, (double)kv_b / 2);
    in->calls = 2 * in->sets;
    uint64_t weights = fill(in, kv_b * (uint64_t)in->sets, HALVES, &status, error);
    uint64_t rows = fill(in, part * LATENT * 2, HALVES, &status, error);
    uint64_t gate = fill(in, part * 128 * 2, HALVES, &status, error);
    uint64_t lse = fill(in, part * 4, ZEROS, &status, error);
    uint64_t out = fill(in, part * 128 * 2, ZEROS, &status, error);
    uint64_t lens = upload(in, in->wish.lens, requests * 4, &status, error);
    uint64_t totals = upload(in, in->wish.totals, requests * 4, &status, error);
    for (int s = 0; s < in->sets; s++) {
        in->args[s] = (dcpk_args){.size = sizeof in->args[s],
                                  .rows = rows,
                                  .rows_lse = lse,
                                  .lens = lens,
                                  .totals = totals,
                                  .kv_b = weights + kv_b * (uint64_t)s,
                                  .gate = gate,
                                  .pitch = (uint32_t)spec->heads * 128,
                                  .output = out};
    }
    return status;
}

/* Pages of all requests and all sets, each used once, scattered over the cache. Returns the tables' address, one after
 * the other. */
static uint64_t scatter(struct kernel_inputs *in, uint64_t used, uint64_t row, dcpk_status *status, dcpk_error *error) {
    uint64_t requests = (uint64_t)(in->spec.batch / in->spec.q), all = used * (uint64_t)in->sets, next = 0;
    size_t size = (size_t)in->sets * requests * row;
    int32_t *table = malloc(size * sizeof *table), *pages = calloc(all + 1, sizeof *pages);
    struct random random;
    random_seed(&random, 1);
    if (!table || !pages) {
        *status = *status == DCPK_OK ? tool_fail(error, DCPK_E_NOMEM, "no memory for block tables") : *status;
        size = 0;
    }
    for (uint64_t i = 0; size > 0 && i < all; i++) { /* a shuffle that grows */
        uint64_t at = random_next(&random) % (i + 1);
        pages[i] = pages[at];
        pages[at] = (int32_t)i;
    }
    for (size_t i = 0; i < size; i++) {
        int32_t length = in->wish.lens[i / row % requests];
        bool live = length > 0 && (int64_t)(i % row) * in->spec.page < length;
        table[i] = live ? pages[next++] : -1;
    }
    uint64_t address = size > 0 ? upload(in, table, size * sizeof *table, status, error) : 0;
    free(table);
    free(pages);
    return address;
}

static dcpk_status decode_inputs(struct kernel_inputs *in, dcpk_error *error) {
    const dcpk_spec *spec = &in->spec;
    uint64_t requests = (uint64_t)(spec->batch / spec->q), page = (uint64_t)spec->page, used = 0, row = 0, room = 0;
    double keys = 0;
    for (uint64_t i = 0; i < requests; i++) {
        uint64_t length = in->wish.lens[i] > 0 ? (uint64_t)in->wish.lens[i] : 0, pages = (length + page - 1) / page;
        keys += (double)length;
        used += pages;
        row = pages > row ? pages : row;
    }
    row += SPARE;
    set_sets(in, keys * TOKEN);
    in->calls = in->sets;
    dcpk_status status = dcpk_spec_workspace(spec, &room, NULL, error);
    uint64_t rows = (uint64_t)spec->batch * (uint64_t)spec->heads * (uint64_t)spec->dcp;
    uint64_t query = fill(in, rows * TOKEN, BYTES, &status, error);
    uint64_t out = fill(in, rows * LATENT * 2, ZEROS, &status, error), lse = fill(in, rows * 4, ZEROS, &status, error);
    uint64_t workspace = fill(in, room + 16, ZEROS, &status, error);
    if (status == DCPK_OK && room > 0) status = dcpk_workspace_arm(in->wish.device, workspace, room, error);
    uint64_t lens = upload(in, in->wish.lens, requests * 4, &status, error);
    uint64_t totals = upload(in, in->wish.totals, requests * 4, &status, error);
    uint64_t cache = fill(in, (used * (uint64_t)in->sets + 1) * page * TOKEN, BYTES, &status, error);
    uint64_t tables = scatter(in, used, row, &status, error);
    for (int s = 0; s < in->sets; s++) {
        in->args[s] = (dcpk_args){.size = sizeof in->args[s],
                                  .query = query,
                                  .kv_cache = cache,
                                  .page_stride = page * TOKEN,
                                  .block_table = tables + (uint64_t)s * requests * row * 4,
                                  .max_pages = (uint32_t)row,
                                  .lens = lens,
                                  .totals = totals,
                                  .softmax_scale = 0.04f,
                                  .output_scale = 1,
                                  .rows = out,
                                  .rows_lse = lse,
                                  .workspace = workspace};
    }
    return status;
}

/* ---- life ---------------------------------------------------------------------------------------- */

static dcpk_status inputs_of(struct kernel_inputs *in, dcpk_error *error) {
    const char *why = kernel_alone(&in->spec);
    if (why) {
        return tool_fail(error, DCPK_E_ARG, "%s: %s", in->spec.kernel, why);
    }
    switch (dcpk_kernel_id_of(in->spec.kernel)) {
    case DCPK_KERNEL_query_norm:
        return norm_inputs(in, error);
    case DCPK_KERNEL_mla_query:
        return query_inputs(in, error);
    case DCPK_KERNEL_dcp_value:
        return value_inputs(in, error);
    case DCPK_KERNEL_mla_decode:
        return decode_inputs(in, error);
    default:
        return tool_fail(error, DCPK_E_ARG, "%s: dcp=1 has no such kernel", in->spec.kernel);
    }
}

dcpk_status kernel_inputs_open(const struct kernel_wish *wish, struct kernel_inputs **out, dcpk_error *error) {
    struct kernel_inputs *in = calloc(1, sizeof *in);
    if (!in) {
        return tool_fail(error, DCPK_E_NOMEM, "no memory for a kernel's inputs");
    }
    in->wish = *wish;
    dcpk_status status = dcpk_image_spec(dcpk_kernel_image(wish->kernel), &in->spec, error);
    if (status == DCPK_OK) {
        status = inputs_of(in, error);
    }
    for (int i = ZEROS; i <= BYTES; i++) {
        free(in->pool[i]);
        in->pool[i] = NULL;
    }
    if (status != DCPK_OK) {
        kernel_inputs_close(in);
        return status;
    }
    *out = in;
    return DCPK_OK;
}

void kernel_inputs_close(struct kernel_inputs *in) {
    if (in) {
        for (int i = 0; i < in->memory_count; i++) {
            dcpk_mem_free(in->wish.device, in->memory[i], NULL);
        }
        free(in);
    }
}

dcpk_status kernel_inputs_launch(void *inputs, int i, dcpk_error *error) {
    const struct kernel_inputs *in = inputs;
    dcpk_status status = DCPK_OK;
    for (uint32_t e = 0; e < dcpk_image_entry_count(dcpk_kernel_image(in->wish.kernel)) && status == DCPK_OK; e++) {
        status =
            dcpk_kernel_launch(in->wish.kernel, e, &in->args[i % in->sets], in->wish.box, in->wish.stream, 0, error);
    }
    return status;
}

int kernel_inputs_calls(const struct kernel_inputs *in) {
    return in->calls;
}

int kernel_inputs_sets(const struct kernel_inputs *in) {
    return in->sets;
}
