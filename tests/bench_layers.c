/* bench_layers.c - see bench_ranks.h: the layer's kernels between ranks that all run at once, with weights and pages
 * that rotate beyond the L2. Random numbers of usual size; what is right is check_ranks' business, here outputs are
 * finite. May call: include/dcpk, tools/floor.h, tools/numbers.h. */
#include <tests/bench_ranks.h>

#include <dcpk/layer.h>
#include <tools/floor.h>
#include <tools/numbers.h>
#include <tools/reference_layer.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TP = 8, PAGE = 64, TOKEN = 576, LATENT = 512, Q_LORA = 1536, POOL = 4 << 20, MOST_STEPS = 32, MOST_ROWS = 64 };
enum { PAGE_BYTES = PAGE * TOKEN, WEIGHT_BYTES = 256 << 20, LEAST_KEYS = 256 << 20 };

/* A rank's memory of a session. */
static struct pools {
    uint64_t weights, weight_bytes, keys, rows, ones, zeros, partial, lse, output, query, slots, stamps, workspace;
    int32_t pages; /* of keys; the last one takes new tokens */
} pools[GROUP_MAX_RANKS];
static uint64_t workspace_bytes; /* of each rank */

struct layer {
    struct bench *b;
    dcpk_spec specs[DCPK_LAYER_MAX_SPECS];
    uint32_t count;
    dcpk_kernel *kernels[GROUP_MAX_RANKS][DCPK_LAYER_MAX_SPECS + 1]; /* the last: bench_stamp */
    dcpk_args args[GROUP_MAX_RANKS][MOST_STEPS];
    uint64_t tables[GROUP_MAX_RANKS], lens[GROUP_MAX_RANKS], totals[GROUP_MAX_RANKS];
    int32_t heads, batch, context, gate;
    int steps;
    bool whole, stamped;
};

/* ---- memory -------------------------------------------------------------------------------------- */

enum content { HALVES, BYTES }; /* BF16 of 2^-7 to 2, either sign; e4m3 of normal numbers */

static uint8_t *make_pool(enum content content) {
    struct random random;
    uint8_t *pool = bench_room(1, POOL);
    random_seed(&random, (uint64_t)content + 1);
    for (size_t i = 0; i < POOL / 2; i++) {
        uint64_t bits = random_next(&random);
        uint16_t half = (uint16_t)((bits & 0x807F) | (uint64_t)(120 + (bits >> 16) % 8) << 7);
        if (content == HALVES) memcpy(pool + 2 * i, &half, 2);
        if (content == BYTES) pool[2 * i] = (uint8_t)((bits >> 32 & 0x87) | (5 + (bits >> 40) % 4) << 3);
        if (content == BYTES) pool[2 * i + 1] = (uint8_t)((bits >> 48 & 0x87) | (5 + (bits >> 56) % 4) << 3);
    }
    return pool;
}

static void write_to(struct bench *b, int32_t r, uint64_t address, const void *from, uint64_t bytes) {
    dcpk_error error;
    dcpk_error_init(&error);
    bench_must(dcpk_mem_write(b->group.rank[r].device, address, from, bytes, &error), &error, "memory");
}

static uint64_t filled(struct bench *b, int32_t r, uint64_t bytes, const uint8_t *pool) {
    uint64_t address = bench_memory(b, r, bytes, 0);
    for (uint64_t at = 0; at < bytes; at += POOL)
        write_to(b, r, address + at, pool, bytes - at < POOL ? bytes - at : POOL);
    return address;
}

static int32_t pages_of(const struct bench *b, int32_t context) {
    return (reference_local(context, b->group.dcp, 0, 1) + PAGE - 1) / PAGE;
}

void bench_pools_open(struct bench *b, int32_t batch, int32_t context) {
    uint8_t *halves = make_pool(HALVES), *bytes = make_pool(BYTES);
    uint64_t keys = (uint64_t)batch * (uint64_t)pages_of(b, context) * PAGE_BYTES, heads = (uint64_t)b->heads;
    uint64_t all = heads * (uint64_t)b->group.dcp;
    keys = keys < LEAST_KEYS && !b->on_cpu ? LEAST_KEYS : keys;
    for (int32_t r = 0; r < b->group.dcp; r++) {
        struct pools *p = &pools[r];
        int64_t slots[MOST_ROWS];
        p->weight_bytes = b->on_cpu ? heads * (192 * Q_LORA + 256 * LATENT) * 2 : WEIGHT_BYTES;
        p->weights = filled(b, r, p->weight_bytes, halves);
        p->pages = (int32_t)(keys / PAGE_BYTES) + 1;
        p->keys = filled(b, r, (uint64_t)p->pages * PAGE_BYTES, bytes);
        p->rows = filled(b, r, (uint64_t)MOST_ROWS * 8192 * 2, halves);
        p->ones = bench_memory(b, r, (uint64_t)MOST_ROWS * 64 * 4, 0x3F800000);
        p->zeros = bench_memory(b, r, (uint64_t)MOST_ROWS * Q_LORA * 2, 0);
        p->partial = filled(b, r, MOST_ROWS * all * LATENT * 2, halves);
        p->lse = bench_memory(b, r, MOST_ROWS * all * 4, 0);
        p->output = bench_memory(b, r, MOST_ROWS * heads * 128 * 2, 0xFFFFFFFF);
        p->query = filled(b, r, MOST_ROWS * heads * TOKEN, bytes);
        p->slots = bench_memory(b, r, sizeof slots, 0);
        p->stamps = bench_memory(b, r, 8 * 8 * MOST_STEPS, 0);
        p->workspace = 0;
        for (int i = 0; i < MOST_ROWS; i++)
            slots[i] = (int64_t)(p->pages - 1) * PAGE + i;
        write_to(b, r, p->slots, slots, sizeof slots);
    }
    workspace_bytes = 0;
    free(halves);
    free(bytes);
}

void bench_pools_close(struct bench *b) {
    for (int32_t r = 0; r < b->group.dcp; r++) {
        const struct pools *p = &pools[r];
        const uint64_t list[] = {p->weights, p->keys,  p->rows,  p->ones,   p->zeros,  p->partial,
                                 p->lse,     p->query, p->slots, p->stamps, p->output, p->workspace};
        for (size_t i = 0; i < sizeof list / sizeof *list; i++)
            bench_free(b, r, list[i]);
        memset(&pools[r], 0, sizeof pools[r]);
    }
}

/* Workspace for the decode, armed. It grows, for all ranks. */
static void need_workspace(struct bench *b, uint64_t bytes) {
    dcpk_error error;
    dcpk_error_init(&error);
    bytes += 256;
    for (int32_t r = 0; r < b->group.dcp && bytes > workspace_bytes; r++) {
        bench_free(b, r, pools[r].workspace);
        pools[r].workspace = bench_memory(b, r, bytes, 0);
    }
    workspace_bytes = bytes > workspace_bytes ? bytes : workspace_bytes;
    for (int32_t r = 0; r < b->group.dcp; r++)
        bench_must(dcpk_workspace_arm(b->group.rank[r].device, pools[r].workspace, workspace_bytes, &error), &error,
                   "workspace");
}

/* ---- the layer ----------------------------------------------------------------------------------- */

static void specs_of(dcpk_gen *gen, const char *model, int32_t ranks, int32_t batch, struct layer *l) {
    dcpk_spec base;
    dcpk_error error;
    dcpk_layer_options options = {.size = sizeof options, .base = &base, .form = DCPK_LAYER_FUSED};
    dcpk_model_info info = {.size = sizeof info};
    char text[128];
    dcpk_error_init(&error);
    bench_must(dcpk_gen_model_info(gen, model, &info, &error), &error, model);
    snprintf(text, sizeof text, "layer heads=%d dcp=%d batch=%d pv=fp8%s", info.heads / TP, ranks, batch,
             ranks > 1 ? " cap=64" : "");
    bench_must(dcpk_spec_parse(&base, text, &error), &error, text);
    bench_must(dcpk_gen_model(gen, model, TP, &base, &error), &error, model);
    bench_must(dcpk_layer_specs(&options, l->specs, DCPK_LAYER_MAX_SPECS, &l->count, &error), &error, text);
    l->heads = base.heads;
    l->gate = base.gate;
    l->batch = batch;
}

static bool is_kernel(const struct layer *l, uint32_t k, const char *name) {
    return strcmp(l->specs[k].kernel, name) == 0;
}

/* Block tables of so many steps, one after the other; pages are used once before any is used twice. */
static uint64_t make_tables(struct layer *l, int32_t r, int32_t pages, int tables) {
    size_t size = (size_t)tables * (size_t)l->batch * (size_t)pages;
    int32_t live = pools[r].pages - 1, *table = bench_room(1, size * sizeof *table),
            *order = bench_room((size_t)live + 1, sizeof *order);
    struct random random;
    random_seed(&random, (uint64_t)r + 1);
    for (int32_t i = 0; i < live; i++) { /* a shuffle that grows */
        uint32_t at = random_below(&random, (uint32_t)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (size_t i = 0; i < size; i++)
        table[i] = order[i % (size_t)live];
    uint64_t address = bench_memory(l->b, r, size * sizeof *table, 0);
    write_to(l->b, r, address, table, size * sizeof *table);
    free(table);
    free(order);
    return address;
}

static void make_args(struct layer *l, int32_t r) {
    struct bench *b = l->b;
    const struct pools *p = &pools[r];
    uint64_t heads = (uint64_t)l->heads, q_b = heads * 192 * Q_LORA * 2, set = q_b + heads * 256 * LATENT * 2;
    int32_t pages = pages_of(b, l->context), each = l->batch * pages, lens[MOST_ROWS], totals[MOST_ROWS];
    int weights = (int)(p->weight_bytes / set), tables = (p->pages - 1) / each;
    tables = tables < 1 ? 1 : tables > l->steps ? l->steps : tables;
    for (int i = 0; i < MOST_ROWS; i++) {
        totals[i] = l->context;
        lens[i] = reference_local(l->context, b->group.dcp, r, 1);
    }
    l->lens[r] = bench_memory(b, r, sizeof lens, 0);
    l->totals[r] = bench_memory(b, r, sizeof totals, 0);
    write_to(b, r, l->lens[r], lens, sizeof lens);
    write_to(b, r, l->totals[r], totals, sizeof totals);
    l->tables[r] = make_tables(l, r, pages, tables);
    for (int s = 0; s < l->steps; s++) {
        uint64_t at = p->weights + set * (uint64_t)(s % weights);
        l->args[r][s] = (dcpk_args){.size = sizeof l->args[r][s],
                                    .qkv = p->rows,
                                    .q_a_norm = p->rows,
                                    .kv_a_norm = p->rows,
                                    .qc = p->zeros,
                                    .cos_sin = p->ones,
                                    .pitch = Q_LORA + TOKEN + (uint32_t)heads * 128,
                                    .eps = 1e-5f,
                                    .w_q_b = at,
                                    .kv_b = at + q_b,
                                    .query = b->group.dcp == 1 ? p->query : 0,
                                    .slots = p->slots,
                                    .kv_cache = p->keys,
                                    .page_stride = PAGE_BYTES,
                                    .q_scale_inv = 1,
                                    .k_scale_inv = 1,
                                    .block_table = l->tables[r] + (uint64_t)(s % tables) * (uint64_t)each * 4,
                                    .max_pages = (uint32_t)pages,
                                    .lens = l->lens[r],
                                    .totals = l->totals[r],
                                    .softmax_scale = 0.04f,
                                    .output_scale = 1,
                                    .rows = p->partial,
                                    .rows_lse = p->lse,
                                    .workspace = p->workspace,
                                    .gate = l->gate ? p->rows + (Q_LORA + TOKEN) * 2 : 0,
                                    .output = p->output};
    }
}

/* The stamps' kernel stands behind the layer's. */
static void stamp(struct layer *l, int32_t r, uint32_t index) {
    dcpk_error error;
    void *params[] = {&pools[r].stamps, &index};
    dcpk_error_init(&error);
    bench_must(dcpk_kernel_launch_raw(l->kernels[r][l->count], 0, params, l->b->group.rank[r].stream,
                                      DCPK_LAUNCH_NO_PDL, &error),
               &error, "launch");
}

/* Stamps of a step: 0 begin, 1 behind the query's kernels, 2 behind the decode, 3 behind the value, 4 right after. */
static void launch_step(void *self, int32_t r, int i) {
    struct layer *l = self;
    dcpk_error error;
    uint32_t flags = DCPK_LAUNCH_FIRST, mark = (uint32_t)i * 8;
    dcpk_error_init(&error);
    if (l->stamped) stamp(l, r, mark);
    for (uint32_t k = 0; k < l->count; k++) {
        bool decode = is_kernel(l, k, "mla_decode"), value = is_kernel(l, k, "dcp_value");
        if (decode && l->stamped) stamp(l, r, mark + 1);
        if (value && l->stamped) stamp(l, r, mark + 2);
        for (uint32_t e = 0; (l->whole || !decode) && e < dcpk_image_entry_count(dcpk_kernel_image(l->kernels[r][k]));
             e++) {
            bench_must(dcpk_kernel_launch(l->kernels[r][k], e, &l->args[r][i], l->b->group.rank[r].box,
                                          l->b->group.rank[r].stream, l->stamped ? DCPK_LAUNCH_NO_PDL : flags, &error),
                       &error, l->specs[k].kernel);
            flags = 0;
        }
    }
    if (l->stamped) stamp(l, r, mark + 3);
    if (l->stamped) stamp(l, r, mark + 4);
}

/* ---- what came out ------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Mean of the middle half of the steps but the first, which waits for launches: clocks of a microsecond average out. */
static double middle(double *each, int count) {
    double sum = 0;
    int from = count / 4, to = count - count / 4;
    qsort(each, (size_t)count, sizeof *each, ascending);
    for (int i = from; i < to; i++)
        sum += each[i];
    return sum / (to - from);
}

/* us between two stamps, without what two stamps take; the slowest rank's. */
static double between(const struct layer *l, uint64_t (*stamps)[MOST_STEPS][8], int from) {
    double most = 0, each[MOST_STEPS], base[MOST_STEPS];
    for (int32_t r = 0; r < l->b->group.dcp; r++) {
        for (int s = 1; s < l->steps; s++) {
            const uint64_t *t = stamps[r][s];
            each[s - 1] = (double)(t[from + 1] - t[from]) / 1e3;
            base[s - 1] = (double)(t[4] - t[3]) / 1e3;
        }
        double us = middle(each, l->steps - 1) - middle(base, l->steps - 1);
        most = us > most ? us : most;
    }
    return most;
}

static void read_stamps(struct layer *l, struct bench_times *times) {
    struct bench *b = l->b;
    uint64_t(*stamps)[MOST_STEPS][8] = bench_room((size_t)b->group.dcp, sizeof *stamps);
    dcpk_error error;
    dcpk_error_init(&error);
    for (int32_t r = 0; r < b->group.dcp; r++)
        bench_must(dcpk_mem_read(b->group.rank[r].device, stamps[r], pools[r].stamps, (uint64_t)l->steps * 64, &error),
                   &error, "stamps");
    for (int32_t r = 0; r < b->group.dcp; r++)
        for (int s = 0; s < l->steps; s++)
            for (int i = 0; i < 4; i++)
                if (stamps[r][s][i + 1] < stamps[r][s][i] || stamps[r][s][i] == 0)
                    bench_fail("stamps", "a device's clock went back, or a stamp was not written");
    times->query = between(l, stamps, 0);
    times->decode = between(l, stamps, 1);
    times->value = between(l, stamps, 2);
    free(stamps);
}

/* NaN, so that what a launch does not write is seen. */
static void clear_output(const struct layer *l) {
    dcpk_error error;
    dcpk_error_init(&error);
    for (int32_t r = 0; r < l->b->group.dcp; r++)
        bench_must(dcpk_mem_fill32(l->b->group.rank[r].device, pools[r].output, 0xFFFFFFFF,
                                   (uint64_t)l->batch * (uint64_t)l->heads * 64, &error),
                   &error, "output");
}

static void look_at_output(const struct layer *l) {
    size_t count = (size_t)l->batch * (size_t)l->heads * 128;
    uint16_t *output = bench_room(1, count * 2);
    dcpk_error error;
    dcpk_error_init(&error);
    for (int32_t r = 0; r < l->b->group.dcp; r++) {
        bench_must(dcpk_mem_read(l->b->group.rank[r].device, output, pools[r].output, count * 2, &error), &error,
                   "output");
        for (size_t i = 0; i < count; i++)
            if ((output[i] & 0x7F80) == 0x7F80) bench_fail("output", "a value is not finite, or was not written");
    }
    free(output);
}

static void floors(const struct layer *l, struct bench_times *times) {
    double keys = (double)l->batch * reference_local(l->context, l->b->group.dcp, 0, 1);
    for (uint32_t k = 0; k < l->count; k++) {
        struct kernel_floor floor = {0};
        floor_of(&l->specs[k], keys, l->b->read_gbs > 0 ? l->b->read_gbs : FLOOR_READ_GBS, &floor);
        if (is_kernel(l, k, "mla_query")) times->query_floor = floor.us;
        if (is_kernel(l, k, "mla_decode")) times->decode_floor = floor.us;
        if (is_kernel(l, k, "dcp_value")) times->value_floor = floor.us;
    }
}

/* ---- all of it ----------------------------------------------------------------------------------- */

static void load(struct layer *l, int32_t r) {
    struct bench *b = l->b;
    dcpk_provider provider = {.size = sizeof provider};
    dcpk_error error;
    dcpk_error_init(&error);
    bench_must(dcpk_gen_provider(b->gen, &provider, &error), &error, "generator");
    bench_must(dcpk_kernel_warm(b->group.rank[r].device, &provider, l->specs, l->count, NULL, l->kernels[r], &error),
               &error, "kernels");
    l->kernels[r][l->count] = bench_kernel(b, r, "bench_stamp");
}

void bench_layer(struct bench *b, const char *model, int32_t batch, int32_t context, bool whole,
                 struct bench_times *times) {
    struct layer *l = bench_room(1, sizeof *l);
    uint64_t bytes = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    *times = (struct bench_times){0};
    specs_of(b->gen, model, b->group.dcp, batch, l);
    l->b = b;
    l->context = context;
    l->whole = whole;
    l->steps = b->on_cpu ? 2 : MOST_STEPS;
    for (uint32_t k = 0; k < l->count; k++)
        if (is_kernel(l, k, "mla_decode"))
            bench_must(dcpk_spec_workspace(&l->specs[k], &bytes, NULL, &error), &error, "workspace");
    need_workspace(b, bytes);
    for (int32_t r = 0; r < b->group.dcp; r++) {
        load(l, r);
        make_args(l, r);
    }
    clear_output(l);
    times->step = bench_time(b, BENCH_ALL, launch_step, l, l->steps, NULL);
    look_at_output(l);
    clear_output(l);
    l->stamped = true;
    bench_replay(b, launch_step, l, l->steps, 2);
    read_stamps(l, times);
    look_at_output(l);
    floors(l, times);
    for (int32_t r = 0; r < b->group.dcp; r++) {
        for (uint32_t k = 0; k <= l->count; k++)
            dcpk_kernel_free(l->kernels[r][k], NULL);
        bench_free(b, r, l->tables[r]);
        bench_free(b, r, l->lens[r]);
        bench_free(b, r, l->totals[r]);
    }
    free(l);
}

void bench_layer_build(struct bench *b, const char *model, int32_t ranks, int32_t batch) {
    struct layer *l = bench_room(1, sizeof *l);
    dcpk_error error;
    dcpk_error_init(&error);
    specs_of(b->gen, model, ranks, batch, l);
    bench_must(dcpk_gen_warm(b->gen, l->specs, l->count, 0, NULL, NULL, &error), &error, model);
    free(l);
}
