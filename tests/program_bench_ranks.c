/* program_bench_ranks.c - `make bench-gpu GPUS=N`: what lies between N ranks with a GPU each, one process driving all
 * of them: two anchors of one GPU; latency and bandwidth of stores; node(X) for 2, 4, .. N ranks; what the layer's
 * exchange costs with the ranks; the layer's kernels and the whole step at N ranks. mla_decode with pv=fp8. Run at the
 * root of the tree. On the CPU device all of it runs once, small, is checked, and nothing is timed.
 *
 * bench_ranks [--ranks N] [--device cuda|cpu] [--short] [--csv FILE] [--inject] [--build]
 * --short: one model, context 2k alone. --build: only builds every kernel into the cache, with no device. --inject: a
 * flipped bit must be found (exit 1). Exit: 0; 1 something failed, or an anchor is not reproduced; 2 wrong words, or
 * multicast is not switched off; 3 too few GPUs, or none. */
#include <tests/bench_ranks.h>
#include <tests/gpu_bench.h>
#include <tests/no_multicast.h>

#include <tools/floor.h>
#include <tools/numbers.h>
#include <tools/tool_error.h>

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const models[] = {"kimi-k3", "deepseek-v3"};
static const int32_t heads[] = {12, 16}; /* a rank, at tp=8 */
static const int32_t batches[] = {1, 16, 64}, contexts[] = {2048, 16384, 131072};
enum { MODELS = 2, BATCHES = 3, CONTEXTS = 3, SMALL_CONTEXT = 128, GROWTH_CONTEXT = 2048, MOST_COUNTS = 7 };

static struct bench bench;
static double alone[BATCHES]; /* us of the model's mla_query and dcp_value with one rank: nothing is exchanged */

static _Noreturn void fail_words(const char *what, const char *why) {
    fprintf(stderr,
            "bench_ranks: %s: %s\nusage: bench_ranks [--ranks N] [--device cuda|cpu] [--short] [--csv FILE] [--inject] "
            "[--build]\n",
            what, why);
    exit(2);
}

/* How many ranks sessions have: 1, 2, 4, .. and N. */
static int counts_of(int32_t ranks, int32_t counts[MOST_COUNTS]) {
    int used = 0;
    for (int32_t d = 1; d < ranks; d *= 2)
        counts[used++] = d;
    counts[used++] = ranks;
    return used;
}

static int few(int all) {
    return bench.on_cpu ? 1 : all;
}

/* ---- how the exchange grows ---------------------------------------------------------------------- */

static void print_growth_head(const char *model, int32_t h) {
    printf("\n%s, %d heads a rank: mla_query and dcp_value of all ranks, us. alone: each between full edges, its wait "
           "for the "
           "peers in it; both: as nodes of a graph, PDL between the two; exchange: both less what both take with one "
           "rank; "
           "nodes: node(X) of the reference machine's two ranks for these bytes\n%6s %6s %11s %11s %10s %10s %8s %9s "
           "%7s\n",
           model, h, "ranks", "batch", "query KB", "value KB", "mla_query", "dcp_value", "both", "exchange", "nodes");
}

static void growth(int m) {
    int32_t ranks = bench.group.dcp;
    char what[96];
    for (int i = 0; i < few(BATCHES); i++) {
        struct bench_times t;
        double rows = (double)(ranks - 1) * batches[i] * heads[m], query = rows * 576, value = rows * 1028;
        bench_layer(&bench, models[m], batches[i], bench.on_cpu ? SMALL_CONTEXT : GROWTH_CONTEXT, false, &t);
        if (ranks == 1) alone[i] = t.step;
        snprintf(what, sizeof what, "%s batch=%d", models[m], batches[i]);
        bench_figure(&bench, "exchange query", what, t.query, "us");
        bench_figure(&bench, "exchange value", what, t.value, "us");
        bench_figure(&bench, "exchange both", what, t.step, "us");
        printf("%6d %6d %11.1f %11.1f", ranks, batches[i], query / 1024, value / 1024);
        if (bench.on_cpu)
            printf("  ran, outputs finite\n");
        else
            printf(" %10.2f %10.2f %8.2f %9.2f %7.2f\n", t.query, t.value, t.step, t.step - alone[i],
                   ranks > 1 ? floor_exchange_us(query) + floor_exchange_us(value) : 0);
        fflush(stdout);
    }
}

/* ---- the layer ----------------------------------------------------------------------------------- */

static void print_layer_head(const char *model, int32_t h, int32_t ranks) {
    printf("\n%s, %d heads a rank, %d ranks, pv=fp8: us of the slowest rank, all running. Kernels: each between full "
           "edges; step: "
           "all of them as nodes of a graph, PDL inside; floors in brackets\n%6s %8s %18s %18s %18s %20s %7s\n",
           model, h, ranks, "batch", "context", "mla_query", "mla_decode", "dcp_value", "step", "x floor");
}

static void layer(int m, int32_t batch, int32_t context) {
    struct bench_times t;
    char what[96];
    bench_layer(&bench, models[m], batch, context, true, &t);
    double floor = t.query_floor + t.decode_floor + t.value_floor;
    const struct {
        const char *kind;
        double us;
    } figures[] = {
        {"mla_query", t.query}, {"mla_decode", t.decode}, {"dcp_value", t.value}, {"step", t.step}, {"floor", floor}};
    snprintf(what, sizeof what, "%s batch=%d context=%d", models[m], batch, context);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        bench_figure(&bench, figures[i].kind, what, figures[i].us, "us");
    printf("%6d %8d", batch, context);
    if (bench.on_cpu)
        printf("  ran, outputs finite\n");
    else
        printf(" %9.2f (%6.2f) %9.2f (%6.2f) %9.2f (%6.2f) %10.2f (%7.2f) %7.2f\n", t.query, t.query_floor, t.decode,
               t.decode_floor, t.value, t.value_floor, t.step, floor, t.step / floor);
    fflush(stdout);
}

static void layers(int m) {
    print_layer_head(models[m], heads[m], bench.group.dcp);
    for (int i = 0; i < few(BATCHES); i++)
        for (int c = 0; c < (bench.on_cpu || bench.brief ? 1 : CONTEXTS); c++)
            layer(m, batches[i], bench.on_cpu ? SMALL_CONTEXT : contexts[c]);
}

/* ---- all ----------------------------------------------------------------------------------------- */

static void model(int m) {
    int32_t counts[MOST_COUNTS], most = bench.brief ? contexts[0] : contexts[CONTEXTS - 1];
    int used = counts_of(bench.ranks, counts);
    print_growth_head(models[m], heads[m]);
    for (int i = 0; i < used; i++) {
        bool last = i == used - 1;
        bench_open(&bench, counts[i], heads[m]);
        bench_pools_open(&bench, bench.on_cpu ? 1 : batches[BATCHES - 1],
                         bench.on_cpu ? SMALL_CONTEXT
                         : last       ? most
                                      : GROWTH_CONTEXT);
        growth(m);
        if (last) layers(m);
        bench_pools_close(&bench);
        bench_close(&bench);
    }
}

static void between_ranks(void) {
    int32_t counts[MOST_COUNTS];
    int used = counts_of(bench.ranks, counts);
    bench_open(&bench, bench.ranks, heads[0]);
    bench_latency(&bench);
    bench_bandwidth(&bench);
    bench_close(&bench);
    bench_node_head(&bench);
    for (int i = 1; i < used; i++) {
        bench_open(&bench, counts[i], heads[0]);
        bench_node(&bench);
        bench_close(&bench);
    }
}

static void build(void) {
    int32_t counts[MOST_COUNTS];
    int used = counts_of(bench.ranks, counts);
    char text[96];
    static const char *const others[] = {"peer_ping dcp=1", "peer_store dcp=1 sms=132", "bench_stamp",
                                         "bench_read sms=528", "bench_node sms=132"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        bench_kernel(&bench, 0, others[i]);
    snprintf(text, sizeof text, "peer_ping dcp=%d", bench.ranks - 1);
    bench_kernel(&bench, 0, text);
    snprintf(text, sizeof text, "peer_store dcp=%d sms=132", bench.ranks - 1);
    bench_kernel(&bench, 0, text);
    for (int i = 0; i < used; i++) {
        for (int fence = 0; fence < 2 && counts[i] > 1; fence++) {
            snprintf(text, sizeof text, "peer_exchange dcp=%d sms=132 checked=%d", counts[i], fence);
            bench_kernel(&bench, 0, text);
        }
        for (int m = 0; m < MODELS; m++)
            for (int b = 0; b < BATCHES; b++)
                bench_layer_build(&bench, models[m], counts[i], batches[b]);
    }
}

/* Contexts live as long as somebody holds them: sessions come and go. Ends the program where there are too few GPUs. */
static void hold_devices(dcpk_device **held) {
    dcpk_error error;
    dcpk_error_init(&error);
    for (int32_t r = 0; r < bench.ranks; r++) {
        dcpk_device_info info = {.size = sizeof info};
        dcpk_device_options options = {.size = sizeof options, .kind = bench.device, .ordinal = r, .pdl = 1};
        if (dcpk_device_open(&options, &held[r], &error) != DCPK_OK ||
            dcpk_device_get_info(held[r], &info, &error) != DCPK_OK) {
            fprintf(stderr, "bench_ranks: %s\n", error.text);
            exit(3);
        }
        if (info.count < bench.ranks) {
            fprintf(
                stderr,
                "bench_ranks: %d ranks with a GPU each, and there are %d here: --ranks %d (make bench-gpu GPUS=%d) at "
                "most; GPUS=1 times the kernels of one rank; --device cpu runs up to 32 ranks, without times\n",
                bench.ranks, info.count, info.count, info.count);
            exit(3);
        }
        if (r == 0)
            printf("bench_ranks: %d x %s, driver API %d.%d, sm_%d%d, %d SMs, publish=peer\n", bench.ranks, info.name,
                   info.driver_version / 1000, info.driver_version % 1000 / 10, info.major, info.minor, info.sms);
    }
}

static void begin_csv(void) {
    struct stat status;
    if (!bench.csv) return;
    if (fstat(fileno(bench.csv), &status) == 0 && S_ISREG(status.st_mode) && ftruncate(fileno(bench.csv), 0) != 0)
        bench_fail("csv", "what it held cannot be taken away");
    fprintf(bench.csv, "kind,ranks,what,value,unit\n");
}

static bool anchors(void) {
    enum { POOL_BYTES = 4 << 20 };
    struct gpu gpu;
    struct random random;
    uint64_t *pool = bench_room(1, POOL_BYTES);
    random_seed(&random, 1);
    for (size_t i = 0; i < POOL_BYTES / sizeof *pool; i++)
        pool[i] = random_next(&random);
    gpu_open(&gpu, bench.device);
    bool good = gpu_anchors(&gpu, pool, POOL_BYTES, &bench.read_gbs);
    gpu_close(&gpu);
    free(pool);
    return good;
}

static void read_options(int argc, char **argv, bool *only_build) {
    static const struct option longs[] = {{"ranks", required_argument, NULL, 'n'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"short", no_argument, NULL, 's'},
                                          {"csv", required_argument, NULL, 'c'},
                                          {"inject", no_argument, NULL, 'i'},
                                          {"build", no_argument, NULL, 'b'},
                                          {NULL, 0, NULL, 0}};
    const char *csv = NULL;
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        const char *word = optarg ? optarg : "";
        char *end = NULL;
        switch (c) {
        case 'n':
            bench.ranks = (int32_t)strtol(word, &end, 10);
            if (end == word || *end != '\0' || bench.ranks < 2 || bench.ranks > GROUP_MAX_RANKS)
                fail_words("--ranks", "a number from 2 to 32 (one rank: bench_gpu)");
            break;
        case 'd':
            bench.device = word;
            break;
        case 's':
            bench.brief = true;
            break;
        case 'c':
            csv = word;
            break;
        case 'i':
            bench.inject = true;
            break;
        case 'b':
            *only_build = true;
            break;
        default:
            exit(2);
        }
    }
    if (optind < argc) fail_words(argv[optind], "is no option");
    bench.on_cpu = strncmp(bench.device, "cpu", 3) == 0;
    if (!csv) return;
    bench.csv = fopen(csv, "a"); /* what it holds stays until the devices are there */
    if (!bench.csv) fail_words(csv, "cannot be written");
}

int main(int argc, char **argv) {
    dcpk_device *held[GROUP_MAX_RANKS] = {NULL};
    dcpk_gen_options options = {.size = sizeof options, .template_path = "templates:templates/checks:tests/templates"};
    dcpk_error error;
    bool only_build = false, good = true;
    dcpk_error_init(&error);
    bench = (struct bench){.device = "cuda",
                           .ranks = 2,
                           .cpu = {.size = sizeof bench.cpu, .sms = 132, .major = 9, .livelock_rounds = 200000}};
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was done before a time limit stays said */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    read_options(argc, argv, &only_build);
    device_word_or_exit(bench.device);
    if (!only_build) no_multicast_or_exit(bench.device);
    bench_must(dcpk_gen_open(&options, &bench.gen, &error), &error, "generator");
    double begin = tool_now();
    if (only_build) {
        build();
    } else {
        if (bench.on_cpu)
            printf("bench_ranks: %d ranks on the CPU device: everything runs once and is checked; no timings\n",
                   bench.ranks);
        else
            hold_devices(held);
        begin_csv();
        good = bench.on_cpu || anchors();
        between_ranks();
        for (int m = 0; m < (bench.brief ? 1 : MODELS); m++)
            model(m);
    }
    for (int32_t r = 0; r < bench.ranks; r++)
        if (held[r]) dcpk_device_close(held[r]);
    dcpk_gen_close(bench.gen);
    bool whole = !bench.csv || fclose(bench.csv) == 0;
    printf("bench_ranks: %s, %.0f s\n",
           only_build ? "built"
           : !whole   ? "done, but the csv is not whole: it could not be written"
           : good     ? "done"
                      : "done, but see above: an anchor is not reproduced",
           tool_now() - begin);
    if (fflush(stdout) != 0 || ferror(stdout)) bench_fail("the tables", "could not be written");
    return good && whole ? 0 : 1;
}
