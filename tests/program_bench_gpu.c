/* program_bench_gpu.c - `make bench-gpu`: how long the kernels take on hardware, beside what the machine can do.
 *
 * First two anchors: read bandwidth, and a dependent node under PDL; where anchors/limits.csv of the project's
 * reference machine has them, both must agree within 5% or the other figures compare with nothing (exit 1). Then each
 * kernel for the heads of two models, at dcp=1 (one rank; decode with all heads of the group), graph replay, inputs
 * that rotate beyond the L2, beside its floor. Options: --device KIND, --short, --kernel NAME. */
#include <tests/gpu_bench.h>

#include <tools/floor.h>
#include <tools/numbers.h>

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L2_BYTES = 60 << 20, POOL = 64 << 20, TOKEN = 576 };

static struct gpu gpu;
static double read_gbs; /* as measured here */
static const char *only;
static bool all_fine = true;

/* ---- kernels ------------------------------------------------------------------------------------- */

/* A kernel of dcp=1 with so many sets of inputs that no call finds its own in the L2. */
struct timed {
    dcpk_kernel *kernel;
    dcpk_args args[64];
    int sets;
};

static void launch_timed(void *self, int i) {
    struct timed *timed = self;
    dcpk_error error;
    dcpk_error_init(&error);
    for (uint32_t e = 0; e < dcpk_image_entry_count(dcpk_kernel_image(timed->kernel)); e++) {
        gpu_must(dcpk_kernel_launch(timed->kernel, e, &timed->args[i % timed->sets], NULL, gpu.stream, 0, &error),
                 &error, "launch");
    }
}

static int sets_for(double bytes) {
    int sets = (int)ceil(4.0 * L2_BYTES / bytes);
    return sets < 1 ? 1 : sets > 64 ? 64 : sets;
}

/* keys: as floor_of's. */
static void show(const struct timed *timed, const char *shape, double us, double keys) {
    dcpk_spec spec;
    dcpk_error error;
    struct kernel_floor floor = {0};
    dcpk_error_init(&error);
    gpu_must(dcpk_image_spec(dcpk_kernel_image(timed->kernel), &spec, &error), &error, shape);
    floor_of(&spec, keys, read_gbs, &floor);
    double bound = 25 * floor.us + 20;
    printf("%-10s %-44s %10.2f us  floor %8.2f  x%6.2f  %6.2f TB/s %7.1f TFLOP/s%s\n", spec.kernel, shape, us, floor.us,
           us / floor.us, floor.bytes / us / 1e6, floor.flops / us / 1e6,
           us > bound ? "  SLOWER than 25 floors + 20 us" : "");
    fflush(stdout);
    all_fine = all_fine && us <= bound;
}

static bool wanted(const char *kernel) {
    return only == NULL || strcmp(only, kernel) == 0;
}

static void time_query(int heads, int batch, const void *pool) {
    char spec[128], shape[96];
    double weights = heads * (192.0 * 1536 + 128.0 * 512) * 2;
    struct timed t = {.sets = sets_for(weights)};
    snprintf(spec, sizeof spec, "mla_query heads=%d batch=%d", heads, batch);
    snprintf(shape, sizeof shape, "heads=%d batch=%d", heads, batch);
    t.kernel = gpu_kernel(&gpu, spec);
    uint64_t q_b = (uint64_t)heads * 192 * 1536 * 2, kv_b = (uint64_t)heads * 256 * 512 * 2;
    uint64_t w = gpu_memory(&gpu, (q_b + kv_b) * (uint64_t)t.sets, pool, POOL);
    uint32_t pitch = 2112 + (uint32_t)heads * 128;
    uint64_t rows = gpu_memory(&gpu, (uint64_t)batch * pitch * 2, pool, POOL),
             query = gpu_memory(&gpu, (uint64_t)batch * (uint64_t)heads * TOKEN, NULL, 0),
             cache = gpu_memory(&gpu, (uint64_t)(batch + 64) * TOKEN * 2, NULL, 0);
    int64_t slots[512];
    for (int i = 0; i < batch; i++) {
        slots[i] = i;
    }
    uint64_t places = gpu_memory(&gpu, sizeof slots, slots, sizeof slots);
    for (int s = 0; s < t.sets; s++) {
        uint64_t at = w + (q_b + kv_b) * (uint64_t)s;
        t.args[s] = (dcpk_args){.size = sizeof t.args[s],
                                .qkv = rows,
                                .q_a_norm = rows,
                                .kv_a_norm = rows,
                                .pitch = pitch,
                                .eps = 1e-5f,
                                .w_q_b = at,
                                .kv_b = at + q_b,
                                .query = query,
                                .slots = places,
                                .kv_cache = cache,
                                .page_stride = 64 * TOKEN,
                                .q_scale_inv = 1,
                                .k_scale_inv = 1};
    }
    show(&t, shape, gpu_time(&gpu, launch_timed, &t, 2 * t.sets), 0);
    gpu_free(&gpu, w), gpu_free(&gpu, rows), gpu_free(&gpu, query), gpu_free(&gpu, cache), gpu_free(&gpu, places);
    dcpk_kernel_free(t.kernel, NULL);
}

static void time_value(int heads, int batch, const void *pool) {
    char spec[128], shape[96];
    double weights = heads * 128.0 * 512 * 2;
    struct timed t = {.sets = sets_for(weights)};
    snprintf(spec, sizeof spec, "dcp_value heads=%d batch=%d", heads, batch);
    snprintf(shape, sizeof shape, "heads=%d batch=%d", heads, batch);
    t.kernel = gpu_kernel(&gpu, spec);
    uint64_t kv_b = (uint64_t)heads * 256 * 512 * 2, w = gpu_memory(&gpu, kv_b * (uint64_t)t.sets, pool, POOL);
    uint64_t part = (uint64_t)batch * (uint64_t)heads * 1024, rows = gpu_memory(&gpu, part, pool, POOL);
    uint64_t lse = gpu_memory(&gpu, (uint64_t)batch * (uint64_t)heads * 4, NULL, 0);
    int32_t lens[512];
    for (int i = 0; i < 512; i++) {
        lens[i] = 5;
    }
    uint64_t ones = gpu_memory(&gpu, sizeof lens, lens, sizeof lens), out = gpu_memory(&gpu, part, NULL, 0);
    dcpk_mem_fill32(gpu.device, lse, 0x3F800000, (uint64_t)batch * (uint64_t)heads, NULL);
    for (int s = 0; s < t.sets; s++) {
        t.args[s] = (dcpk_args){.size = sizeof t.args[s],
                                .rows = rows,
                                .rows_lse = lse,
                                .lens = ones,
                                .totals = ones,
                                .kv_b = w + kv_b * (uint64_t)s,
                                .gate = rows,
                                .pitch = (uint32_t)heads * 128,
                                .output = out};
    }
    show(&t, shape, gpu_time(&gpu, launch_timed, &t, 2 * t.sets), 0);
    gpu_free(&gpu, w), gpu_free(&gpu, rows), gpu_free(&gpu, lse), gpu_free(&gpu, ones), gpu_free(&gpu, out);
    dcpk_kernel_free(t.kernel, NULL);
}

static void time_norm(int heads, int batch, const void *pool) {
    char spec[128], shape[96];
    struct timed t = {.sets = 1};
    snprintf(spec, sizeof spec, "query_norm heads=%d batch=%d", heads, batch);
    snprintf(shape, sizeof shape, "batch=%d", batch);
    t.kernel = gpu_kernel(&gpu, spec);
    uint64_t rows = gpu_memory(&gpu, (uint64_t)batch * 4096 * 2, pool, POOL),
             qc = gpu_memory(&gpu, (uint64_t)batch * 1536 * 2, NULL, 0);
    t.args[0] =
        (dcpk_args){.size = sizeof t.args[0], .qkv = rows, .q_a_norm = rows, .qc = qc, .pitch = 4096, .eps = 1e-5f};
    show(&t, shape, gpu_time(&gpu, launch_timed, &t, 64), 0);
    gpu_free(&gpu, rows), gpu_free(&gpu, qc);
    dcpk_kernel_free(t.kernel, NULL);
}

/* Pages of 64, scattered over the whole pool of keys. */
static uint64_t make_table(int batch, int pages, int most, uint64_t *seed) {
    int32_t *table = malloc((size_t)batch * (size_t)pages * sizeof *table);
    for (size_t i = 0; table && i < (size_t)batch * (size_t)pages; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        table[i] = (int32_t)((*seed >> 33) % (uint64_t)most);
    }
    uint64_t size = (uint64_t)batch * (uint64_t)pages * 4, address = gpu_memory(&gpu, size, table, size);
    free(table);
    return address;
}

static void time_decode(int heads, int batch, int context, const void *pool, uint64_t keys, uint64_t key_bytes) {
    char spec[128], shape[96];
    double bytes = (double)batch * context * TOKEN;
    struct timed t = {.sets = sets_for(bytes)};
    int pages = (context + 63) / 64, most = (int)(key_bytes / (64 * TOKEN));
    uint64_t seed = 1, tables[64], workspace_bytes = 0;
    dcpk_spec said;
    dcpk_error error;
    dcpk_error_init(&error);
    snprintf(spec, sizeof spec, "mla_decode heads=%d batch=%d", heads, batch);
    snprintf(shape, sizeof shape, "heads=%d batch=%d context=%d", heads, batch, context);
    t.kernel = gpu_kernel(&gpu, spec);
    gpu_must(dcpk_image_spec(dcpk_kernel_image(t.kernel), &said, &error), &error, spec);
    gpu_must(dcpk_spec_workspace(&said, &workspace_bytes, NULL, &error), &error, spec);
    uint64_t part = (uint64_t)batch * (uint64_t)heads, query = gpu_memory(&gpu, part * TOKEN, pool, POOL);
    uint64_t rows = gpu_memory(&gpu, part * 1024, NULL, 0), lse = gpu_memory(&gpu, part * 4, NULL, 0);
    uint64_t workspace = gpu_memory(&gpu, workspace_bytes + 16, NULL, 0);
    gpu_must(dcpk_workspace_arm(gpu.device, workspace, workspace_bytes + 16, &error), &error, spec);
    int32_t lens[512];
    for (int i = 0; i < 512; i++) {
        lens[i] = context;
    }
    uint64_t lengths = gpu_memory(&gpu, sizeof lens, lens, sizeof lens);
    for (int s = 0; s < t.sets; s++) {
        tables[s] = make_table(batch, pages, most, &seed);
        t.args[s] = (dcpk_args){.size = sizeof t.args[s],
                                .query = query,
                                .kv_cache = keys,
                                .page_stride = 64 * TOKEN,
                                .block_table = tables[s],
                                .max_pages = (uint32_t)pages,
                                .lens = lengths,
                                .totals = lengths,
                                .softmax_scale = 0.04f,
                                .output_scale = 1,
                                .rows = rows,
                                .rows_lse = lse,
                                .workspace = workspace};
    }
    show(&t, shape, gpu_time(&gpu, launch_timed, &t, t.sets), (double)batch * context);
    for (int s = 0; s < t.sets; s++) {
        gpu_free(&gpu, tables[s]);
    }
    gpu_free(&gpu, query), gpu_free(&gpu, rows), gpu_free(&gpu, lse), gpu_free(&gpu, workspace),
        gpu_free(&gpu, lengths);
    dcpk_kernel_free(t.kernel, NULL);
}

/* ---- all ----------------------------------------------------------------------------------------- */

static void kernels(bool brief, const uint16_t *halves, const uint8_t *bytes) {
    static const int heads[] = {12, 16}, batches[] = {1, 16, 64}, contexts[] = {2048, 16384, 131072};
    uint64_t key_bytes = (uint64_t)64 * 131072 * TOKEN,
             keys = wanted("mla_decode") ? gpu_memory(&gpu, key_bytes, bytes, POOL) : 0;
    for (int m = 0; m < 2; m++) {
        for (int b = 0; b < 3; b++) {
            if (wanted("query_norm") && m == 0) time_norm(heads[m], batches[b], halves);
            if (wanted("mla_query")) time_query(heads[m], batches[b], halves);
            if (wanted("dcp_value")) time_value(heads[m], batches[b], halves);
            for (int c = 0; wanted("mla_decode") && c < (brief ? 2 : 3); c++) {
                time_decode(8 * heads[m], batches[b], contexts[c], bytes, keys, key_bytes);
            }
        }
    }
}

int main(int argc, char **argv) {
    static const struct option longs[] = {{"device", required_argument, NULL, 'd'},
                                          {"short", no_argument, NULL, 's'},
                                          {"kernel", required_argument, NULL, 'k'},
                                          {NULL, 0, NULL, 0}};
    const char *device = "cuda";
    bool brief = false;
    for (int c; (c = getopt_long(argc, argv, "d:sk:", longs, NULL)) != -1;) {
        if (c == '?') {
            fprintf(stderr, "usage: bench_gpu [--device KIND] [--short] [--kernel NAME]\n");
            return 2;
        }
        device = c == 'd' ? optarg : device;
        brief = brief || c == 's';
        only = c == 'k' ? optarg : only;
    }
    int version = 0;
    struct random random;
    uint16_t *halves = malloc(POOL);
    uint8_t *bytes = malloc(POOL);
    if (!halves || !bytes) {
        free(halves);
        free(bytes);
        return 1;
    }
    random_seed(&random, 1);
    for (size_t i = 0; i < POOL / 2; i++) {
        uint64_t bits = random_next(&random);
        halves[i] = (uint16_t)((bits & 0x807F) | (uint64_t)(120 + (bits >> 16) % 8) << 7); /* 2^-7 to 2, either sign */
        bytes[2 * i] = (uint8_t)((bits >> 32 & 0x87) | (5 + (bits >> 40) % 4) << 3);
        bytes[2 * i + 1] = (uint8_t)((bits >> 48 & 0x87) | (5 + (bits >> 56) % 4) << 3);
    }
    gpu_open(&gpu, device);
    gpu.timer.calls.driver_version(&version);
    printf("bench-gpu: %s, driver API %d.%d, sm_%d%d, %d SMs\n", gpu.info.name, version / 1000, version % 1000 / 10,
           gpu.info.major, gpu.info.minor, gpu.info.sms);
    all_fine = gpu_anchors(&gpu, bytes, POOL, &read_gbs);
    kernels(brief, halves, bytes);
    gpu_close(&gpu);
    printf("bench-gpu: %s\n", all_fine ? "anchors reproduced, no kernel beyond 25 floors + 20 us" : "see above");
    free(halves);
    free(bytes);
    return all_fine ? 0 : 1;
}
