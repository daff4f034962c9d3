/* program_check_oracle.c - big shapes on hardware against the plain judges in CUDA C++
 * (tests/templates/NAME_oracle.cu.lua), which test_oracle holds against FP64: what a host's reference takes too long
 * for. Part of `make check-gpu`.
 *
 * Prints one line a shape; exit 1 when one is out of its bound (spec.md decision 9). Last a table of mla_decode against
 * FP64 at growing lengths (tests/decode_errors.h). Options: --device KIND, --short, --errors (the table alone),
 * --keys N[,N...] (its lengths), --heads N (its heads). The table alone runs on the CPU device, too, at small lengths.
 */
#include <tests/decode_errors.h>
#include <tests/gpu_bench.h>

#include <tools/layer_judge.h>
#include <tools/numbers.h>

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 64 << 20, DISTINCT = POOL / 16, TOKEN = 576, LATENT = 512, MOST = 512 };

static struct gpu gpu;
static bool all_right = true;

static void launch(const dcpk_kernel *kernel, uint32_t entry, const dcpk_args *args) {
    dcpk_error error;
    dcpk_error_init(&error);
    gpu_must(dcpk_kernel_launch(kernel, entry, args, NULL, gpu.stream, DCPK_LAUNCH_NO_PDL, &error), &error, "launch");
}

static void read_back(void *to, uint64_t from, uint64_t bytes) {
    dcpk_error error;
    dcpk_error_init(&error);
    gpu_must(dcpk_stream_sync(gpu.device, gpu.stream, &error), &error, "run");
    gpu_must(dcpk_mem_read(gpu.device, to, from, bytes, &error), &error, "read");
}

static void say(const char *kernel, const char *shape, const char *measures, bool right) {
    printf("%-11s %-64s %s  %s\n", kernel, shape, measures, right ? "good" : "OUT OF BOUNDS");
    fflush(stdout);
    all_right = all_right && right;
}

/* ---- decode -------------------------------------------------------------------------------------- */

struct decode_shape {
    const char *keys; /* of both kernels */
    int32_t context;  /* of the longest request */
    int32_t ragged;   /* 1: request i of R has (i + 1) / R of it, the first none */
    double mean;      /* of the values of keys */
    const char *more; /* keys of mla_decode alone */
};
static const struct decode_shape decodes[] = {
    {"heads=12 batch=1 q=1 page=64", 2048, 0, 0, ""},
    {"heads=96 batch=16 q=1 page=64", 16384, 1, 0, ""},
    {"heads=128 batch=8 q=4 page=32", 4096, 1, 0, ""},
    {"heads=16 batch=64 q=1 page=16", 1000, 1, 1, "splits=7"},
    {"heads=12 batch=4 q=1 page=64", 131072, 0, 1, ""},
    {"heads=96 batch=64 q=1 page=64", 131072, 0, 0, ""},
    {"heads=128 batch=64 q=1 page=64", 131072, 1, 1, ""},
    /* the portable form, which is not the default of every device */
    {"heads=96 batch=16 q=1 page=64", 16384, 1, 0, "pv=f16"},
    {"heads=16 batch=64 q=1 page=16", 1000, 1, 1, "splits=7 pv=f16"},
    {"heads=12 batch=4 q=1 page=64", 131072, 0, 1, "pv=f16"},
};

static uint8_t *make_pool(double mean, uint64_t seed, double *square) {
    struct random random;
    uint8_t *pool = malloc(POOL);
    random_seed(&random, seed);
    *square = 0;
    for (size_t i = 0; pool && i < POOL; i++) {
        if (i < DISTINCT) {
            pool[i] = e4m3_from_double(random_normal(&random) + mean);
            *square += e4m3_to_double(pool[i]) * e4m3_to_double(pool[i]) / (double)DISTINCT;
        } else {
            pool[i] = pool[(i * 40503u + i / DISTINCT) % DISTINCT];
        }
    }
    return pool;
}

static void fill_tables(const struct decode_shape *shape, const dcpk_spec *spec, uint64_t pages, dcpk_args *args) {
    int32_t requests = spec->batch / spec->q, most = (shape->context + spec->page - 1) / spec->page, lens[MOST];
    int32_t *table = malloc((size_t)requests * (size_t)most * sizeof *table);
    uint64_t seed = 3;
    for (int32_t i = 0; i < requests; i++) {
        lens[i] =
            shape->ragged ? (int32_t)((int64_t)shape->context * i / (requests > 1 ? requests - 1 : 1)) : shape->context;
        for (int32_t p = 0; table && p < most; p++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            table[i * most + p] = p * spec->page < lens[i] ? (int32_t)((seed >> 33) % pages) : -1;
        }
    }
    args->max_pages = (uint32_t)most;
    args->block_table = gpu_memory(&gpu, (uint64_t)(requests * most) * 4, table, (uint64_t)(requests * most) * 4);
    args->lens = args->totals = gpu_memory(&gpu, (uint64_t)requests * 4, lens, (uint64_t)requests * 4);
    free(table);
}

struct rows {
    uint64_t rows, lse;
    uint16_t *host;
    float *logs;
};

static struct rows make_rows(uint64_t count) {
    struct rows rows = {gpu_memory(&gpu, count * LATENT * 2, NULL, 0), gpu_memory(&gpu, count * 4, NULL, 0),
                        malloc(count * LATENT * 2), malloc(count * 4)};
    dcpk_mem_fill32(gpu.device, rows.rows, 0x7FC07FC0, count * LATENT / 2, NULL);
    dcpk_mem_fill32(gpu.device, rows.lse, 0x7FC00000, count, NULL);
    return rows;
}

static double compare(const struct rows *got, const struct rows *wanted, uint64_t count, double *lse) {
    double sums[2] = {0, 0};
    *lse = 0;
    for (uint64_t i = 0; i < count * LATENT; i++) {
        double value = bf16_to_double(got->host[i]), ideal = bf16_to_double(wanted->host[i]);
        sums[0] += (value - ideal) * (value - ideal); /* a NaN stays */
        sums[1] += ideal * ideal;
    }
    for (uint64_t i = 0; i < count; i++) {
        double off = got->logs[i] == wanted->logs[i] ? 0 : fabs((double)got->logs[i] - (double)wanted->logs[i]);
        *lse = !(off <= *lse) ? off : *lse;
    }
    return sqrt(sums[0] / sums[1]);
}

static void check_decode(const struct decode_shape *shape, uint64_t query, uint64_t keys, uint64_t bytes,
                         double square) {
    char text[160], measures[160];
    dcpk_spec spec;
    dcpk_error error;
    dcpk_error_init(&error);
    snprintf(text, sizeof text, "mla_decode %s %s", shape->keys, shape->more);
    dcpk_kernel *kernel = gpu_kernel(&gpu, text);
    gpu_must(dcpk_image_spec(dcpk_kernel_image(kernel), &spec, &error), &error, text);
    snprintf(text, sizeof text, "decode_oracle dcp=1 interleave=1 %s", shape->keys);
    dcpk_kernel *oracle = gpu_kernel(&gpu, text);
    uint64_t count = (uint64_t)spec.batch * (uint64_t)spec.heads, workspace = 0;
    gpu_must(dcpk_spec_workspace(&spec, &workspace, NULL, &error), &error, "workspace");
    struct rows out[3];
    dcpk_args args = {.size = sizeof args,
                      .query = query,
                      .kv_cache = keys,
                      .page_stride = (uint64_t)spec.page * TOKEN,
                      .softmax_scale = (float)(1.3 / sqrt(TOKEN * square)),
                      .output_scale = 1,
                      .workspace = gpu_memory(&gpu, workspace + 16, NULL, 0)};
    gpu_must(dcpk_workspace_arm(gpu.device, args.workspace, workspace + 16, &error), &error, "workspace");
    fill_tables(shape, &spec, bytes / args.page_stride, &args);
    for (uint32_t k = 0; k < 3; k++) {
        out[k] = make_rows(count);
        args.rows = out[k].rows;
        args.rows_lse = out[k].lse;
        for (uint32_t e = 0; k == 0 && e < dcpk_image_entry_count(dcpk_kernel_image(kernel)); e++) {
            launch(kernel, e, &args);
        }
        if (k > 0) {
            launch(oracle, k - 1, &args);
        }
        read_back(out[k].host, out[k].rows, count * LATENT * 2);
        read_back(out[k].logs, out[k].lse, count * 4);
    }
    double lse, unused, ideal = compare(&out[0], &out[1], count, &lse),
                        rounded = compare(&out[0], &out[2], count, &unused);
    snprintf(measures, sizeof measures, "rows %.2e of 1e-2 (rounded), %.2e of 4e-2 (ideal), LSE %.1e of 2.5e-1",
             rounded, ideal, lse);
    snprintf(text, sizeof text, "%s context=%d%s mean=%g %s", shape->keys, shape->context,
             shape->ragged ? " ragged" : "", shape->mean, shape->more);
    say("mla_decode", text, measures, rounded < 1e-2 && ideal < 4e-2 && lse <= 2e-3 + 0x1p-9 * 100);
    for (int k = 0; k < 3; k++) {
        gpu_free(&gpu, out[k].rows), gpu_free(&gpu, out[k].lse), free(out[k].host), free(out[k].logs);
    }
    gpu_free(&gpu, args.workspace), gpu_free(&gpu, args.block_table), gpu_free(&gpu, args.lens);
    dcpk_kernel_free(kernel, NULL), dcpk_kernel_free(oracle, NULL);
}

/* Queries of numbers of their own: one that is a key, too, would give that key all the mass. */
static void check_decodes(bool brief) {
    uint64_t bytes = (uint64_t)(brief ? 1 : 64) * 131072 * TOKEN;
    double square, unused;
    uint8_t *queries = make_pool(0, 11, &unused);
    uint64_t query = gpu_memory(&gpu, (uint64_t)MOST * 128 * TOKEN, queries, POOL - POOL % TOKEN);
    for (int mean = 0; mean <= 1; mean++) {
        uint8_t *pool = make_pool(mean, 7, &square);
        uint64_t keys = gpu_memory(&gpu, bytes, pool, POOL - POOL % TOKEN);
        for (size_t i = 0; i < sizeof decodes / sizeof *decodes; i++) {
            if (decodes[i].mean == (double)mean && (!brief || decodes[i].context < 100000)) {
                check_decode(&decodes[i], query, keys, bytes, square);
            }
        }
        gpu_free(&gpu, keys);
        free(pool);
    }
    gpu_free(&gpu, query);
    free(queries);
}

/* ---- query --------------------------------------------------------------------------------------- */

static uint64_t normals(struct random *random, uint64_t count, double sigma) {
    uint16_t *x = malloc(count * 2);
    for (uint64_t i = 0; x && i < count; i++) {
        x[i] = bf16_from_double(sigma * random_normal(random));
    }
    uint64_t address = gpu_memory(&gpu, count * 2, x, count * 2);
    free(x);
    return address;
}

static void check_query(int32_t heads, int32_t batch, const char *rope) {
    char text[160], measures[160];
    struct random random;
    random_seed(&random, 9);
    uint64_t h = (uint64_t)heads, b = (uint64_t)batch, pitch = 2112, bytes = b * h * TOKEN;
    float *angles = malloc(b * 64 * 4);
    int64_t slots[MOST];
    for (uint64_t i = 0; i < b * 64; i++) {
        uint64_t position = i / 64 * 17;
        double angle = (double)position + (double)(i % 32);
        angles[i] = (float)(i % 64 < 32 ? cos(angle) : sin(angle));
    }
    for (int32_t i = 0; i < batch; i++) {
        slots[i] = i;
    }
    dcpk_args args = {.size = sizeof args,
                      .qkv = normals(&random, b * pitch, 1),
                      .q_a_norm = normals(&random, 1536, 1),
                      .kv_a_norm = normals(&random, 512, 1),
                      .pitch = (uint32_t)pitch,
                      .eps = 1e-5f,
                      .w_q_b = normals(&random, h * 192 * 1536, 0.02),
                      .kv_b = normals(&random, h * 256 * 512, 0.09),
                      .cos_sin = gpu_memory(&gpu, b * 256, angles, b * 256),
                      .slots = gpu_memory(&gpu, b * 8, slots, b * 8),
                      .page_stride = 64 * TOKEN,
                      .q_scale_inv = 1,
                      .k_scale_inv = 1};
    uint8_t *rows[2], *caches[2];
    for (uint32_t k = 0; k < 2; k++) {
        snprintf(text, sizeof text, "%s heads=%d batch=%d page=64 q_lora=1536 rope=%s",
                 k ? "query_oracle" : "mla_query", heads, batch, rope);
        dcpk_kernel *kernel = gpu_kernel(&gpu, text);
        args.query = gpu_memory(&gpu, bytes, NULL, 0);
        args.kv_cache = gpu_memory(&gpu, 8 * args.page_stride, NULL, 0);
        for (uint32_t e = 0; e <= k; e++) {
            launch(kernel, e, &args);
        }
        rows[k] = malloc(bytes), caches[k] = malloc(b * TOKEN);
        read_back(rows[k], args.query, bytes);
        read_back(caches[k], args.kv_cache, b * TOKEN);
        gpu_free(&gpu, args.query), gpu_free(&gpu, args.kv_cache);
        dcpk_kernel_free(kernel, NULL);
    }
    size_t place = 0;
    uint64_t unequal = 0, unequal_rows = 0;
    double steps = 0, sums[2] = {0, 0};
    uint64_t wrong = layer_compare_bytes(rows[0], rows[1], b * h, &place, &unequal, &steps, sums) +
                     layer_compare_bytes(caches[0], caches[1], b, &place, &unequal_rows, &steps, sums);
    snprintf(measures, sizeof measures,
             "%llu bytes out of bound, %.2f%% of 1%% of the query differ, %.2f%% of the rows",
             (unsigned long long)wrong, 1e2 * (double)unequal / (double)bytes,
             1e2 * (double)unequal_rows / (double)(b * TOKEN));
    snprintf(text, sizeof text, "heads=%d batch=%d rope=%s", heads, batch, rope);
    say("mla_query", text, measures,
        wrong == 0 && unequal <= e4m3_unequal_allowed(bytes) && unequal_rows <= e4m3_unequal_allowed(b * TOKEN));
    const uint64_t all[] = {args.qkv, args.q_a_norm, args.kv_a_norm, args.w_q_b, args.kv_b, args.cos_sin, args.slots};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        gpu_free(&gpu, all[i]);
    }
    free(angles), free(rows[0]), free(rows[1]), free(caches[0]), free(caches[1]);
}

/* ---- errors by length ---------------------------------------------------------------------------- */

enum { MOST_LENGTHS = 16 };
struct lengths {
    int32_t keys[MOST_LENGTHS];
    int count;
};

static bool read_lengths(const char *text, struct lengths *lengths) {
    lengths->count = 0;
    for (;;) {
        char *end;
        long keys = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : 0;
        if (keys < 1 || keys > 1 << 20 || lengths->count == MOST_LENGTHS) return false;
        lengths->keys[lengths->count++] = (int32_t)keys;
        if (*end == '\0') return true;
        if (*end != ',') return false;
        text = end + 1;
    }
}

static void show_errors(double mean, int32_t keys, const struct decode_error *e) {
    bool right = decode_error_fine(&e[DECODE_FP8]) && decode_error_fine(&e[DECODE_F16]);
    printf("| %7g | %6d |", mean, (int)keys);
    for (int form = 0; form < DECODE_FORMS; form++)
        printf(" %8.1e | %8.1e |", e[form].rounded, e[form].ideal);
    printf(" %s | %s |\n", right ? "good         " : "OUT OF BOUNDS",
           decode_error_fine(&e[DECODE_CHAIN]) ? "within" : "out   ");
    fflush(stdout);
    all_right = all_right && right;
}

static void check_errors(const struct lengths *lengths, int32_t heads) {
    dcpk_error error;
    int32_t longest = 1;
    dcpk_error_init(&error);
    for (int i = 0; i < lengths->count; i++)
        longest = lengths->keys[i] > longest ? lengths->keys[i] : longest;
    printf(
        "mla_decode heads=%d batch=1 splits=1 on %s against FP64: relative error of rows against P rounded to e4m3 "
        "(bound 1e-2) and ideal P (bound 4e-2).\n"
        "The one chain is emulated on the host: exact scores, the same P, all FP8 products of a latent summed by one "
        "chain of wgmma; a kernel with S splits has chains of 1/S of the keys.\n\n"
        "| mean(V) |   keys | pv=fp8   | ideal    | pv=f16   | ideal    | chain    | ideal    | ours          | "
        "chain  |\n"
        "|---------|--------|----------|----------|----------|----------|----------|----------|---------------|"
        "--------|\n",
        (int)heads, gpu.info.name);
    for (int mean = 0; mean <= 1; mean++) {
        struct decode_inputs *inputs;
        struct decode_error errors[DECODE_FORMS];
        const struct decode_inputs_wish wish = {gpu.device, gpu.stream, gpu.gen, heads, longest, mean};
        gpu_must(decode_inputs_open(&wish, &inputs, &error), &error, "mla_decode");
        for (int i = 0; i < lengths->count; i++) {
            gpu_must(decode_errors_measure(inputs, lengths->keys[i], errors, &error), &error, "mla_decode");
            show_errors(mean, lengths->keys[i], errors);
        }
        decode_inputs_close(inputs);
    }
}

static int usage(void) {
    fprintf(stderr,
            "usage: check_oracle [--device KIND] [--short] [--errors] [--keys N[,N...]] [--heads N]\n"
            "       keys: up to %d lengths from 1 to 1048576; heads: 1 to 128\n",
            MOST_LENGTHS);
    return 2;
}

int main(int argc, char **argv) {
    static const struct option longs[] = {
        {"device", required_argument, NULL, 'd'}, {"short", no_argument, NULL, 's'},
        {"errors", no_argument, NULL, 'e'},       {"keys", required_argument, NULL, 'k'},
        {"heads", required_argument, NULL, 'h'},  {NULL, 0, NULL, 0}};
    const char *device = "cuda";
    bool brief = false, errors = false;
    struct lengths lengths = {{1024, 4096, 16384, 65536, 131072}, 5};
    int heads = 4;
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        if (c == 'k' && !read_lengths(optarg, &lengths)) return usage();
        if (c == 'h') heads = atoi(optarg); /* NOLINT: checked below */
        if (c == '?' || heads < 1 || heads > 128) return usage();
        device = c == 'd' ? optarg : device;
        brief = brief || c == 's';
        errors = errors || c == 'e';
    }
    if (optind != argc) return usage();
    gpu_open_untimed(&gpu, device);
    if (!errors) {
        check_query(12, 64, "none");
        check_query(16, 17, "interleaved");
        check_query(128, 64, "half");
        check_decodes(brief);
    }
    if (errors || !brief) check_errors(&lengths, heads);
    gpu_close(&gpu);
    printf("check_oracle: %s\n", all_right ? "all within their bounds" : "OUT OF BOUNDS");
    return all_right ? 0 : 1;
}
