/* program_bench_decode.c - part of `make bench-gpu`: mla_decode (pv=fp8, or the other form) beside a public kernel,
 * shape by shape.
 *
 * Reads a table of the peer's times (docs/peers_h200.csv) and measures the same shapes: graph replay, inputs that
 * rotate beyond the L2, reducer and planning included. Floor and target: tests/roofline.h. The two anchors of
 * tests/gpu_anchors.c come first. Options: --device KIND, --peers FILE, --only TEXT (rows whose
 * "heads,q,requests,context" begin so), --csv FILE (all figures, a line as soon as a shape is measured), --svg FILE
 * (the picture), --pv f16|fp8. --draw CSV -o SVG makes the picture of such a table, without a device. Exit 1 where an
 * anchor is not reproduced. */
#include <tests/gpu_bench.h>
#include <tests/roofline.h>

#include <tools/kernel_time.h>
#include <tools/numbers.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    POOL = 64 << 20,
    MOST_REQUESTS = 512,
    SHORT = 8,
    LONG = 2 /* calls of a graph, as the peers' table was taken: LONG above 500 MB of keys */
};

struct choice {
    const char *device, *peers, *only, *csv, *svg, *draw, *pv;
};

static struct gpu gpu;

/* ---- files ---- */
static FILE *must_open(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (file == NULL) {
        fprintf(stderr, "bench_decode: cannot open %s: %s\n", path, strerror(errno));
        exit(2);
    }
    return file;
}

static void must_close(FILE *file, const char *path) {
    bool fine = !ferror(file);
    if (fclose(file) != 0 || !fine) {
        fprintf(stderr, "bench_decode: %s was not written whole: %s\n", path, strerror(errno));
        exit(2);
    }
}

static void read_shapes(const struct choice *choice, struct roofline *table) {
    char line[256];
    const char *only = choice->only;
    FILE *file = must_open(choice->peers, "r");
    while (table->count < ROOFLINE_MOST && fgets(line, sizeof line, file) != NULL) {
        struct roofline_row s = {0};
        if (only != NULL && strncmp(line, only, strlen(only)) != 0) continue;
        int fields =
            sscanf(line, "%d,%d,%d,%d,%lf,%lf", &s.heads, &s.q, &s.requests, &s.context, &s.fp8_us, &s.bf16_us);
        if (fields >= 5 && s.requests <= MOST_REQUESTS) table->rows[table->count++] = s;
    }
    fclose(file);
}

static void draw(const struct roofline *table, const char *path) {
    FILE *file = must_open(path, "w");
    roofline_draw(file, table);
    must_close(file, path);
}

static int draw_table(const struct choice *choice) {
    static struct roofline table;
    char why[512];
    FILE *file = must_open(choice->draw, "r");
    bool right = roofline_read(file, choice->draw, &table, why, sizeof why);
    fclose(file);
    if (!right) {
        fprintf(stderr, "bench_decode: %s\n", why);
        return 2;
    }
    draw(&table, choice->svg);
    return 0;
}

/* ---- measures ---- */
static double measure(const struct roofline_row *shape, const char *pv) {
    char text[128];
    int32_t lens[MOST_REQUESTS];
    struct kernel_inputs *inputs;
    dcpk_error error;
    dcpk_error_init(&error);
    snprintf(text, sizeof text, "mla_decode pv=%.7s heads=%d q=%d batch=%d", pv, shape->heads, shape->q,
             shape->requests * shape->q);
    for (int r = 0; r < shape->requests; r++)
        lens[r] = shape->context;
    dcpk_kernel *kernel = gpu_kernel(&gpu, text);
    struct kernel_wish wish = {
        .device = gpu.device, .stream = gpu.stream, .kernel = kernel, .lens = lens, .totals = lens};
    gpu_must(kernel_inputs_open(&wish, &inputs, &error), &error, text);
    double us = 0;
    int least = 576.0 * shape->requests * shape->context > 5e8 ? LONG : SHORT;
    int calls = kernel_inputs_calls(inputs), rounds = (least + calls - 1) / calls;
    gpu_must(gpu_timer_bursts(&gpu.timer, kernel_inputs_launch, inputs, calls * rounds, &us, &error), &error, text);
    kernel_inputs_close(inputs);
    dcpk_kernel_free(kernel, NULL);
    return us;
}

static void show(const struct roofline_row *row) {
    double us = row->us, target = roofline_target_us(row);
    const char *verdict = us <= target ? "on target" : us <= row->fp8_us ? "" : "SLOWER";
    printf("%3d %d %3d %6d %9.2f us %8.2f target x%5.2f  %5.2f TB/s %6.0f TFLOP/s  fp8 %8.2f x%5.2f  bf16 %8.2f x%5.2f "
           " %s\n",
           row->heads, row->q, row->requests, row->context, us, target, us / target, roofline_bytes(row) / us / 1e6,
           roofline_flops(row) / us / 1e6, row->fp8_us, row->fp8_us / us, row->bf16_us, row->bf16_us / us, verdict);
    fflush(stdout);
}

static void name_table(struct roofline *table, const char *pv) {
    char day[16];
    time_t now = time(NULL);
    strftime(day, sizeof day, "%Y-%m-%d", gmtime(&now));
    snprintf(table->title, sizeof table->title, "mla_decode pv=%.7s on one %.60s (%d multiprocessors), %s", pv,
             gpu.info.name, (int)gpu.info.sms, day);
}

static void measure_all(const struct choice *choice, bool anchored, struct roofline *table) {
    FILE *csv = choice->csv != NULL ? must_open(choice->csv, "w") : NULL;
    if (csv != NULL) {
        roofline_put_head(csv, table->title);
        fprintf(csv, "# the anchors were %sreproduced in the same run\n", anchored ? "" : "not ");
    }
    for (size_t i = 0; i < table->count; i++) {
        table->rows[i].us = roofline_kept(measure(&table->rows[i], choice->pv));
        show(&table->rows[i]);
        if (csv != NULL) {
            roofline_put_row(csv, &table->rows[i]);
            fflush(csv);
        }
    }
    if (csv != NULL) must_close(csv, choice->csv);
    if (choice->svg != NULL && table->count > 0) draw(table, choice->svg);
}

static int run(const struct choice *choice) {
    static struct roofline table;
    struct random random;
    double read_gbs;
    uint64_t *pool = malloc(POOL);
    if (pool == NULL) return 1;
    read_shapes(choice, &table);
    random_seed(&random, 1);
    for (size_t i = 0; i < POOL / sizeof *pool; i++)
        pool[i] = (random_next(&random) & 0x8787878787878787) | 0x2828282828282828; /* e4m3 of usual size */
    gpu_open(&gpu, choice->device);
    name_table(&table, choice->pv);
    printf("bench-decode: %s, %zu shapes of %s\n", gpu.info.name, table.count, choice->peers);
    bool fine = gpu_anchors(&gpu, pool, POOL, &read_gbs);
    measure_all(choice, fine, &table);
    gpu_close(&gpu);
    free(pool);
    struct roofline_tally tally = roofline_count(&table);
    printf(
        "bench-decode: %zu of %zu on target; %zu slower than the FP8 peer, %zu than the BF16 peer; geometric mean %.3f "
        "times the FP8 peer's speed\n",
        tally.on_target, table.count, tally.slower_fp8, tally.slower_bf16, tally.speed);
    return fine ? 0 : 1;
}

int main(int argc, char **argv) {
    static const struct option longs[] = {
        {"device", required_argument, NULL, 'd'}, {"peers", required_argument, NULL, 'p'},
        {"only", required_argument, NULL, 'n'},   {"csv", required_argument, NULL, 'c'},
        {"svg", required_argument, NULL, 'o'},    {"draw", required_argument, NULL, 'D'},
        {"pv", required_argument, NULL, 'v'},     {NULL, 0, NULL, 0}};
    struct choice choice = {.device = "cuda", .peers = "docs/peers_h200.csv", .pv = "fp8"};
    int c;
    while ((c = getopt_long(argc, argv, "o:", longs, NULL)) != -1 && c != '?') {
        const char **to = c == 'd'   ? &choice.device
                          : c == 'p' ? &choice.peers
                          : c == 'n' ? &choice.only
                          : c == 'c' ? &choice.csv
                          : c == 'o' ? &choice.svg
                          : c == 'v' ? &choice.pv
                                     : &choice.draw;
        *to = optarg;
    }
    if (c == '?' || optind != argc || (choice.draw != NULL && (choice.svg == NULL || choice.csv != NULL))) {
        fprintf(stderr, "usage: bench_decode [--device KIND] [--peers FILE] [--only TEXT] [--csv FILE] [--svg FILE] "
                        "[--pv f16|fp8]\n"
                        "       bench_decode --draw CSV -o SVG\n");
        return 2;
    }
    return choice.draw != NULL ? draw_table(&choice) : run(&choice);
}
