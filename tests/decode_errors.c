/* decode_errors.c - see decode_errors.h. May call: include/dcpk, tools/reference_layer.h, tests/fp8_chain.h. */
#include <tests/decode_errors.h>

#include <tests/fp8_chain.h>
#include <tools/numbers.h>
#include <tools/reference_layer.h>
#include <tools/tool_error.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN = 576, PAGE = 64, PAGE_BYTES = PAGE * TOKEN, DEPTH = FP8_CHAIN_DEPTH, SAMPLES = 1 << 16, BUILT = 2 };
static const char *const pv[BUILT] = {[DECODE_FP8] = "fp8", [DECODE_F16] = "f16"};

struct decode_inputs {
    struct decode_inputs_wish wish;
    size_t heads, pages;
    double scale; /* of scores */
    uint8_t *query, *cache;
    int32_t *table;
    dcpk_kernel *kernels[BUILT];
    dcpk_args args;
    /* results: rows [heads, 512] and logarithms [heads] */
    uint16_t *rows;
    float *logs;
    double *values, *rounded, *ideal, *lse, *most;
};

bool decode_error_fine(const struct decode_error *of) {
    return of->rounded < 1e-2 && of->ideal < 4e-2 && of->angle < 6e-4 && of->lse <= of->lse_allowed;
}

/* ---- inputs ---- */
/* Bytes of e4m3 of N(mean, 1), drawn from SAMPLES that are. */
static void fill(uint8_t *to, size_t rows, double mean, struct random *random) {
    uint8_t *samples[2] = {malloc(SAMPLES), malloc(SAMPLES)};
    for (size_t i = 0; samples[0] && samples[1] && i < SAMPLES; i++) {
        double x = random_normal(random);
        samples[0][i] = e4m3_from_double(x + mean);
        samples[1][i] = e4m3_from_double(x);
    }
    for (size_t row = 0; samples[0] && samples[1] && row < rows; row++)
        for (size_t i = 0; i < TOKEN; i += 4) {
            uint64_t bits = random_next(random);
            for (size_t k = 0; k < 4; k++)
                to[row * TOKEN + i + k] = samples[i >= REF_LATENT][bits >> 16 * k & (SAMPLES - 1)];
        }
    free(samples[0]), free(samples[1]);
}

static bool make_host(struct decode_inputs *in) {
    struct random random;
    size_t values = in->heads * REF_LATENT;
    in->query = malloc(in->heads * TOKEN), in->cache = malloc(in->pages * PAGE_BYTES);
    in->table = malloc(in->pages * sizeof *in->table);
    in->rows = malloc(values * sizeof *in->rows), in->logs = malloc(in->heads * sizeof *in->logs);
    in->values = malloc(values * sizeof(double)), in->rounded = malloc(values * sizeof(double));
    in->ideal = malloc(values * sizeof(double)), in->lse = malloc(in->heads * sizeof(double));
    in->most = malloc(in->heads * sizeof(double));
    if (!in->query || !in->cache || !in->table || !in->rows || !in->logs || !in->values || !in->rounded || !in->ideal ||
        !in->lse || !in->most)
        return false;
    random_seed(&random, 21);
    fill(in->query, in->heads, 0, &random);
    fill(in->cache, in->pages * PAGE, in->wish.mean, &random);
    for (size_t p = 0; p < in->pages; p++) /* the first key lies in the last page */
        in->table[p] = (int32_t)(in->pages - 1 - p);
    in->scale = (double)(float)(1.3 / 24); /* 576 products of variance 1 */
    return true;
}

static dcpk_status upload(struct decode_inputs *in, uint64_t *to, const void *bytes, size_t length, dcpk_error *error) {
    dcpk_status status = dcpk_mem_alloc(in->wish.device, length, to, error);
    return status == DCPK_OK && bytes ? dcpk_mem_write(in->wish.device, *to, bytes, length, error) : status;
}

static dcpk_status make_args(struct decode_inputs *in, dcpk_error *error) {
    dcpk_args *args = &in->args;
    *args = (dcpk_args){.size = sizeof *args,
                        .page_stride = PAGE_BYTES,
                        .max_pages = (uint32_t)in->pages,
                        .softmax_scale = (float)in->scale,
                        .output_scale = 1};
    const struct {
        uint64_t *to;
        const void *bytes;
        size_t length;
    } buffers[] = {{&args->query, in->query, in->heads * TOKEN},
                   {&args->kv_cache, in->cache, in->pages * PAGE_BYTES},
                   {&args->block_table, in->table, in->pages * sizeof *in->table},
                   {&args->lens, NULL, sizeof(int32_t)},
                   {&args->rows, NULL, in->heads * REF_LATENT * sizeof *in->rows},
                   {&args->rows_lse, NULL, in->heads * sizeof *in->logs}};
    dcpk_status status = DCPK_OK;
    for (size_t i = 0; status == DCPK_OK && i < sizeof buffers / sizeof *buffers; i++)
        status = upload(in, buffers[i].to, buffers[i].bytes, buffers[i].length, error);
    args->totals = args->lens;
    return status;
}

static dcpk_status load(struct decode_inputs *in, int form, dcpk_error *error) {
    char text[128];
    dcpk_spec spec;
    dcpk_image *image = NULL;
    snprintf(text, sizeof text, "mla_decode pv=%s heads=%d batch=1 page=%d splits=1", pv[form], (int)in->wish.heads,
             PAGE);
    dcpk_status status = dcpk_spec_parse(&spec, text, error);
    if (status == DCPK_OK) status = dcpk_spec_resolve(&spec, error);
    if (status == DCPK_OK) status = dcpk_gen_build(in->wish.gen, &spec, &image, NULL, error);
    if (status == DCPK_OK)
        status = dcpk_kernel_load(in->wish.device, image, in->wish.stream, &in->kernels[form], error);
    dcpk_image_free(image);
    return status;
}

dcpk_status decode_inputs_open(const struct decode_inputs_wish *wish, struct decode_inputs **out, dcpk_error *error) {
    *out = NULL;
    if (wish->heads < 1 || wish->heads > 128 || wish->longest < 1)
        return tool_fail(error, DCPK_E_ARG, "%d heads, %d keys: 1 to 128 heads, 1 key or more", (int)wish->heads,
                         (int)wish->longest);
    struct decode_inputs *in = calloc(1, sizeof *in);
    if (in == NULL) return tool_fail(error, DCPK_E_NOMEM, "no memory for the inputs of mla_decode");
    in->wish = *wish;
    in->heads = (size_t)wish->heads;
    in->pages = ((size_t)wish->longest + PAGE - 1) / PAGE;
    dcpk_status status = DCPK_OK;
    if (!make_host(in)) status = tool_fail(error, DCPK_E_NOMEM, "no memory for %d keys", (int)wish->longest);
    if (status == DCPK_OK) status = make_args(in, error);
    for (int form = 0; status == DCPK_OK && form < BUILT; form++)
        status = load(in, form, error);
    if (status == DCPK_OK)
        *out = in;
    else
        decode_inputs_close(in);
    return status;
}

void decode_inputs_close(struct decode_inputs *in) {
    if (in == NULL) return;
    const uint64_t buffers[] = {in->args.query, in->args.kv_cache, in->args.block_table,
                                in->args.lens,  in->args.rows,     in->args.rows_lse};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i] != 0) dcpk_mem_free(in->wish.device, buffers[i], NULL);
    for (int form = 0; form < BUILT; form++)
        dcpk_kernel_free(in->kernels[form], NULL);
    free(in->query), free(in->cache), free(in->table), free(in->rows), free(in->logs), free(in->values);
    free(in->rounded), free(in->ideal), free(in->lse), free(in->most);
    free(in);
}

/* ---- results ---- */
static dcpk_status run(struct decode_inputs *in, int form, int32_t keys, dcpk_error *error) {
    const dcpk_kernel *kernel = in->kernels[form];
    dcpk_device *device = in->wish.device;
    size_t values = in->heads * REF_LATENT;
    dcpk_status status = dcpk_mem_write(device, in->args.lens, &keys, sizeof keys, error);
    if (status == DCPK_OK) status = dcpk_mem_fill32(device, in->args.rows, 0x7FC07FC0, values / 2, error);
    if (status == DCPK_OK) status = dcpk_mem_fill32(device, in->args.rows_lse, 0x7FC00000, in->heads, error);
    for (uint32_t e = 0; status == DCPK_OK && e < dcpk_image_entry_count(dcpk_kernel_image(kernel)); e++)
        status = dcpk_kernel_launch(kernel, e, &in->args, NULL, in->wish.stream, DCPK_LAUNCH_NO_PDL, error);
    if (status == DCPK_OK) status = dcpk_stream_sync(device, in->wish.stream, error);
    if (status == DCPK_OK) status = dcpk_mem_read(device, in->rows, in->args.rows, values * sizeof *in->rows, error);
    if (status == DCPK_OK)
        status = dcpk_mem_read(device, in->logs, in->args.rows_lse, in->heads * sizeof *in->logs, error);
    for (size_t i = 0; status == DCPK_OK && i < values; i++)
        in->values[i] = bf16_to_double(in->rows[i]);
    return status;
}

static void find_wanted(struct decode_inputs *in, int32_t keys) {
    struct reference_decode of = {.dcp = 1,
                                  .heads_all = in->wish.heads,
                                  .batch = 1,
                                  .q = 1,
                                  .interleave = 1,
                                  .page = PAGE,
                                  .query = in->query,
                                  .cache = in->cache,
                                  .page_stride = PAGE_BYTES,
                                  .block_table = in->table,
                                  .max_pages = (int32_t)in->pages,
                                  .lens = &keys,
                                  .totals = &keys,
                                  .softmax_scale = in->scale,
                                  .output_scale = 1,
                                  .most = in->most,
                                  .rounded = true};
    reference_decode(&of, in->rounded, in->lse);
    of.rounded = false;
    reference_decode(&of, in->ideal, in->lse);
}

static double relative(const double *value, const double *wanted, size_t count) {
    double off = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        off += (value[i] - wanted[i]) * (value[i] - wanted[i]); /* a NaN stays */
        all += wanted[i] * wanted[i];
    }
    return sqrt(off / all);
}

static double angle(const double *a, const double *b, size_t count) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < count; i++)
        ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
    return 1 - ab / sqrt(aa * bb);
}

static void judge(const struct decode_inputs *in, struct decode_error *of) {
    size_t values = in->heads * REF_LATENT;
    of->rounded = relative(in->values, in->rounded, values);
    of->ideal = relative(in->values, in->ideal, values);
    of->angle = angle(in->values, in->ideal, values);
    of->lse = 0, of->lse_allowed = INFINITY;
    for (size_t h = 0; h < in->heads; h++) {
        double off = fabs((double)in->logs[h] - in->lse[h]);
        of->lse = !(off <= of->lse) ? off : of->lse;
        of->lse_allowed = fmin(of->lse_allowed, 2e-3 + 0x1p-9 * in->most[h]);
    }
}

/* ---- the chain ---- */
static const uint8_t *key_at(const struct decode_inputs *in, size_t key) {
    return in->cache + (size_t)in->table[key / PAGE] * PAGE_BYTES + key % PAGE * TOKEN;
}

/* P of one head, rounded, of all keys up to a multiple of DEPTH; returns the sum of P before rounding. */
static double find_p(const struct decode_inputs *in, size_t head, size_t keys, double *z, uint8_t *p) {
    double number[256], query[TOKEN], top = -INFINITY, sum = 0;
    for (int i = 0; i < 256; i++)
        number[i] = e4m3_to_double((uint8_t)i);
    for (size_t i = 0; i < TOKEN; i++)
        query[i] = number[in->query[head * TOKEN + i]];
    for (size_t k = 0; k < keys; k++) {
        const uint8_t *key = key_at(in, k);
        double part[4] = {0}; /* exact: their order does not matter */
        for (size_t i = 0; i < TOKEN; i++)
            part[i % 4] += query[i] * number[key[i]];
        z[k] = (part[0] + part[1] + part[2] + part[3]) * in->scale * 1.4426950408889634;
        top = fmax(top, z[k]);
    }
    memset(p + keys, 0, DEPTH);
    for (size_t k = 0; k < keys; k++) {
        double x = exp2(z[k] - ceil(top) + 8);
        sum += x;
        p[k] = e4m3_from_double(x);
    }
    return sum;
}

/* values and logs: what a kernel with one chain a latent would leave. */
static bool chain(struct decode_inputs *in, size_t keys) {
    struct fp8_parts parts;
    uint8_t tile[REF_LATENT][DEPTH], *p = malloc(in->heads * (keys + DEPTH));
    double *z = malloc(keys * sizeof *z), *sums = malloc(in->heads * sizeof *sums);
    float *d = malloc(in->heads * REF_LATENT * sizeof *d);
    bool fine = p && z && sums && d;
    fp8_parts_fill(&parts);
    for (size_t i = 0; fine && i < in->heads * REF_LATENT; i++)
        d[i] = 0;
    for (size_t h = 0; fine && h < in->heads; h++)
        sums[h] = find_p(in, h, keys, z, p + h * (keys + DEPTH));
    for (size_t first = 0; fine && first < keys; first += DEPTH) {
        for (size_t k = 0; k < DEPTH; k++)
            for (size_t l = 0; l < REF_LATENT; l++)
                tile[l][k] = first + k < keys ? key_at(in, first + k)[l] : 0;
        for (size_t h = 0; h < in->heads; h++)
            for (size_t l = 0; l < REF_LATENT; l++) {
                float *element = &d[h * REF_LATENT + l];
                *element = fp8_chain_step(&parts, *element, tile[l], p + h * (keys + DEPTH) + first);
            }
    }
    for (size_t i = 0; fine && i < in->heads * REF_LATENT; i++)
        in->values[i] = bf16_to_double(bf16_from_double((double)d[i] / sums[i / REF_LATENT]));
    for (size_t h = 0; fine && h < in->heads; h++)
        in->logs[h] = (float)in->lse[h]; /* its sums are exact */
    free(p), free(z), free(sums), free(d);
    return fine;
}

dcpk_status decode_errors_measure(struct decode_inputs *in, int32_t keys, struct decode_error errors[DECODE_FORMS],
                                  dcpk_error *error) {
    if (keys < 1 || keys > in->wish.longest)
        return tool_fail(error, DCPK_E_ARG, "%d keys; these inputs have 1 to %d", (int)keys, (int)in->wish.longest);
    find_wanted(in, keys);
    for (int form = 0; form < BUILT; form++) {
        dcpk_status status = run(in, form, keys, error);
        if (status != DCPK_OK) return status;
        judge(in, &errors[form]);
    }
    if (!chain(in, (size_t)keys)) return tool_fail(error, DCPK_E_NOMEM, "no memory for %d keys", (int)keys);
    judge(in, &errors[DECODE_CHAIN]);
    return DCPK_OK;
}
