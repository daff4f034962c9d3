/* test_on_device.c - the runtime with real kernels on a real driver library: loading, capture, an exchange of two
 * ranks, death and re-arm. On the CPU device, or with DCPK_TEST_DEVICE=cuda on hardware (two devices if there are, else
 * one, with an event-ordered box). What needs graphs runs only where the driver has them. */
#include <dcpk/box.h>
#include <dcpk/gen.h>

#include "runtime/device.h"
#include "tests/no_multicast.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 2, HEADS = 2, BATCH = 4, ALL = RANKS * HEADS, ROW = 576, LATENT = 512, PITCH = 2368, NORM = 1536 };
#define KEYS "heads=2 dcp=2 batch=4"

static dcpk_error error;
static dcpk_gen *gen;

#define MUST(call) ck_assert_msg((call) == DCPK_OK, "%s: %s", #call, error.text)

static const char *kind(void) {
    const char *text = getenv("DCPK_TEST_DEVICE");
    return text != NULL ? text : "cpu";
}

static void setup(void) {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    dcpk_error_init(&error);
    dcpk_gen_options options = {.size = sizeof options, .cache_dir = ""};
    MUST(dcpk_gen_open(&options, &gen, &error));
}

static void teardown(void) {
    dcpk_gen_close(gen);
}

static dcpk_device *open_device(int32_t ordinal) {
    dcpk_device *device = NULL;
    dcpk_device_options options = {
        .size = sizeof options, .kind = kind(), .ordinal = ordinal, .pdl = -1, .multicast = -1};
    MUST(dcpk_device_open(&options, &device, &error));
    return device;
}

static dcpk_image *build(const char *text) {
    dcpk_spec spec;
    dcpk_image *image = NULL;
    MUST(dcpk_spec_parse(&spec, text, &error));
    MUST(dcpk_spec_resolve(&spec, &error));
    MUST(dcpk_gen_build(gen, &spec, &image, NULL, &error));
    return image;
}

static dcpk_kernel *load(dcpk_device *device, const char *text) {
    dcpk_image *image = build(text);
    dcpk_kernel *kernel = NULL;
    MUST(dcpk_kernel_load(device, image, NULL, &kernel, &error));
    dcpk_image_free(image);
    return kernel;
}

static uint64_t upload(dcpk_device *device, const void *from, uint64_t bytes) {
    uint64_t address = 0;
    MUST(dcpk_mem_alloc(device, bytes, &address, &error));
    MUST(dcpk_mem_write(device, address, from, bytes, &error));
    return address;
}

static uint16_t to_bf16(double value) { /* round to nearest even; no NaN here */
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, 4);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static double from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float single;
    memcpy(&single, &bits, 4);
    return (double)single;
}

/* ---- one kernel ---- */

struct norm {
    dcpk_device *device;
    dcpk_kernel *kernel;
    void *stream;
    dcpk_args args;
    uint16_t qkv[BATCH * PITCH], gamma[NORM], out[BATCH * NORM];
};

static void norm_open(struct norm *n) {
    memset(n, 0, sizeof *n);
    n->device = open_device(0);
    n->kernel = load(n->device, "query_norm heads=2 batch=4");
    MUST(dcpk_stream_create(n->device, &n->stream, &error));
    for (int i = 0; i < BATCH * PITCH; i++)
        n->qkv[i] = to_bf16(sin(0.37 * i) * (1 + i % 7));
    for (int i = 0; i < NORM; i++)
        n->gamma[i] = to_bf16(1 + 0.25 * cos(0.11 * i));
    n->args = (dcpk_args){.size = sizeof n->args, .pitch = PITCH, .eps = 1e-5f};
    n->args.qkv = upload(n->device, n->qkv, sizeof n->qkv);
    n->args.q_a_norm = upload(n->device, n->gamma, sizeof n->gamma);
    n->args.qc = upload(n->device, n->out, sizeof n->out);
}

static void norm_launch(struct norm *n, uint32_t flags) {
    MUST(dcpk_kernel_launch(n->kernel, 0, &n->args, NULL, n->stream, flags, &error));
}

/* The output is the FP64 norm within one BF16 step. */
static void norm_check(struct norm *n) {
    MUST(dcpk_stream_sync(n->device, n->stream, &error));
    MUST(dcpk_mem_read(n->device, n->out, n->args.qc, sizeof n->out, &error));
    for (int row = 0; row < BATCH; row++) {
        double sum = 0;
        for (int c = 0; c < NORM; c++)
            sum += pow(from_bf16(n->qkv[row * PITCH + c]), 2);
        for (int c = 0; c < NORM; c++) {
            double wanted = from_bf16(n->qkv[row * PITCH + c]) / sqrt(sum / NORM + 1e-5) * from_bf16(n->gamma[c]);
            double got = from_bf16(n->out[row * NORM + c]);
            ck_assert_msg(fabs(got - wanted) <= fabs(wanted) / 128, "row %d column %d: %g, wanted %g", row, c, got,
                          wanted);
        }
    }
    memset(n->out, 0xFF, sizeof n->out);
    MUST(dcpk_mem_write(n->device, n->args.qc, n->out, sizeof n->out, &error));
}

static void norm_close(struct norm *n) {
    MUST(dcpk_kernel_free(n->kernel, &error));
    MUST(dcpk_stream_destroy(n->device, n->stream, &error));
    MUST(dcpk_mem_free(n->device, n->args.qkv, &error));
    MUST(dcpk_mem_free(n->device, n->args.q_a_norm, &error));
    MUST(dcpk_mem_free(n->device, n->args.qc, &error));
    dcpk_device_close(n->device);
}

START_TEST(kernel_computes_the_norm_with_and_without_pdl) {
    struct norm *n = malloc(sizeof *n);
    norm_open(n);
    static const uint32_t flags[] = {0, DCPK_LAUNCH_NO_PDL, DCPK_LAUNCH_FIRST, DCPK_LAUNCH_CHAIN_WAITS};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        norm_launch(n, flags[i]);
        norm_check(n);
    }
    norm_close(n);
    free(n);
}
END_TEST

typedef cu_result begin_capture_fn(cu_stream stream, int mode);
typedef cu_result end_capture_fn(cu_stream stream, cu_graph *graph);
typedef cu_result instantiate_fn(void **executable, cu_graph graph, unsigned long long flags);
typedef cu_result graph_launch_fn(void *executable, cu_stream stream);
typedef cu_result destroy_fn(void *object);

static void *symbol(dcpk_device *device, const char *name) {
    return dcpk_device_symbol(device, name);
}
/* ISO C wants the detour through bytes. */
#define RESOLVE(pointer, device, name)                                                                                 \
    do {                                                                                                               \
        void *found = symbol(device, name);                                                                            \
        memcpy(&(pointer), &found, sizeof found);                                                                      \
    } while (0)

/* As an engine does: its context is current while it captures. */
static bool begin_capture(struct norm *n, begin_capture_fn *begin, bool *pushed) {
    MUST(dcpk_device_enter(n->device, pushed, &error));
    cu_result result = begin(n->stream, 0);
    if (result == DRIVER_OK) return true;
    ck_assert_int_eq(result, DRIVER_NOT_SUPPORTED); /* a driver that says it has no graphs */
    dcpk_device_leave(n->device, *pushed);
    return false;
}

static void end_capture(struct norm *n, end_capture_fn *end, bool pushed, cu_graph *graph) {
    ck_assert_int_eq(end(n->stream, graph), DRIVER_OK);
    dcpk_device_leave(n->device, pushed);
}

static struct graphs {
    begin_capture_fn *begin;
    end_capture_fn *end;
    instantiate_fn *instantiate;
    graph_launch_fn *launch;
    destroy_fn *destroy, *destroy_executable;
} graphs;

/* False where the driver has no graphs. */
static bool find_graphs(dcpk_device *device) {
    RESOLVE(graphs.begin, device, "cuStreamBeginCapture_v2");
    RESOLVE(graphs.end, device, "cuStreamEndCapture");
    RESOLVE(graphs.instantiate, device, "cuGraphInstantiateWithFlags");
    RESOLVE(graphs.launch, device, "cuGraphLaunch");
    RESOLVE(graphs.destroy, device, "cuGraphDestroy");
    RESOLVE(graphs.destroy_executable, device, "cuGraphExecDestroy");
    return graphs.begin != NULL && graphs.instantiate != NULL;
}

START_TEST(load_during_capture_is_refused_and_the_capture_lives_on) {
    struct norm *n = malloc(sizeof *n);
    norm_open(n);
    dcpk_image *image = build("query_norm heads=2 batch=17");
    find_graphs(n->device);
    bool pushed;
    if (graphs.begin != NULL && begin_capture(n, graphs.begin, &pushed)) {
        dcpk_kernel *kernel = NULL;
        cu_graph graph = NULL;
        ck_assert_int_eq(dcpk_kernel_load(n->device, image, n->stream, &kernel, &error), DCPK_E_CAPTURING);
        end_capture(n, graphs.end, pushed, &graph);
        if (graphs.destroy != NULL && graph != NULL) graphs.destroy(graph);
        MUST(dcpk_kernel_load(n->device, image, n->stream, &kernel, &error));
        MUST(dcpk_kernel_free(kernel, &error));
    }
    dcpk_image_free(image);
    norm_close(n);
    free(n);
}
END_TEST

START_TEST(captured_kernel_replays_and_is_held_by_its_graph) {
    struct norm *n = malloc(sizeof *n);
    norm_open(n);
    bool pushed, entered;
    MUST(dcpk_device_enter(n->device, &entered, &error)); /* graphs want a context all along */
    if (find_graphs(n->device) && begin_capture(n, graphs.begin, &pushed)) {
        cu_graph graph = NULL;
        void *executable = NULL;
        for (int i = 0; i < 3; i++)
            norm_launch(n, i == 0 ? DCPK_LAUNCH_FIRST : 0);
        end_capture(n, graphs.end, pushed, &graph);
        ck_assert_int_eq(dcpk_kernel_free(n->kernel, &error), DCPK_E_BOX_BUSY);
        ck_assert_int_eq(graphs.instantiate(&executable, graph, 0), DRIVER_OK);
        ck_assert_int_eq(graphs.destroy(graph), DRIVER_OK);
        for (int i = 0; i < 3; i++) {
            ck_assert_int_eq(graphs.launch(executable, n->stream), DRIVER_OK);
            norm_check(n);
        }
        ck_assert_int_eq(dcpk_kernel_free(n->kernel, &error), DCPK_E_BOX_BUSY);
        ck_assert_int_eq(graphs.destroy_executable(executable), DRIVER_OK);
        dcpk_status status = DCPK_E_BOX_BUSY;
        for (int i = 0; i < 1000 && status == DCPK_E_BOX_BUSY; i++) { /* the driver drops objects in its own time */
            status = dcpk_kernel_free(n->kernel, &error);
            if (status == DCPK_E_BOX_BUSY) usleep(1000);
        }
        ck_assert_msg(status == DCPK_OK, "%s", error.text);
        n->kernel = NULL;
    }
    dcpk_device_leave(n->device, entered);
    norm_close(n);
    free(n);
}
END_TEST

/* ---- an exchange ---- */

struct rank {
    dcpk_device *device;
    dcpk_box *box;
    void *stream;
    dcpk_kernel *push, *wait, *value;
    dcpk_args args;
    uint8_t query[BATCH * HEADS * ROW];
};

struct exchange {
    struct rank rank[RANKS];
    dcpk_box *boxes[RANKS];
    dcpk_box_layout layout;
    int ordered; /* phase by phase */
    int split;
};

static void rank_inputs(struct rank *rank, int r, const dcpk_box_layout *layout) {
    uint16_t rows[BATCH * ALL * LATENT], *weights = calloc(HEADS * 256 * LATENT, 2), out[BATCH * HEADS * 128] = {0};
    float lse[BATCH * ALL];
    int32_t lens[BATCH], totals[BATCH];
    for (int b = 0; b < BATCH; b++)
        for (int g = 0; g < ALL; g++) {
            lse[b * ALL + g] = (float)r; /* weights 1/3 and 2/3 */
            for (int l = 0; l < LATENT; l++)
                rows[(b * ALL + g) * LATENT + l] = to_bf16(1 + r + g + 8 * b);
        }
    for (int h = 0; h < HEADS; h++)
        for (int v = 0; v < 128; v++)
            weights[(h * 256 + 128 + v) * LATENT + (v * 3) % LATENT] = to_bf16(1);
    for (int i = 0; i < BATCH; i++) {
        lens[i] = 5;
        totals[i] = 10;
    }
    for (int i = 0; i < BATCH * HEADS * ROW; i++)
        rank->query[i] = (uint8_t)((i * 7 + r * 31) % 255);
    rank->args = (dcpk_args){.size = sizeof rank->args};
    rank->args.query = upload(rank->device, rank->query, sizeof rank->query);
    rank->args.kv_b = upload(rank->device, weights, HEADS * 256 * LATENT * 2);
    rank->args.lens = upload(rank->device, lens, sizeof lens);
    rank->args.totals = upload(rank->device, totals, sizeof totals);
    rank->args.output = upload(rank->device, out, sizeof out);
    uint64_t base = dcpk_box_base(rank->box);
    MUST(dcpk_mem_write(rank->device, base + layout->rows, rows, sizeof rows, &error));
    MUST(dcpk_mem_write(rank->device, base + layout->rows_lse, lse, sizeof lse, &error));
    free(weights);
}

static void exchange_open(struct exchange *x, int split, uint64_t bound_ns) {
    memset(x, 0, sizeof *x);
    dcpk_device *first = open_device(0);
    dcpk_device_info info = {.size = sizeof info};
    MUST(dcpk_device_get_info(first, &info, &error));
    x->ordered = info.count < RANKS;
    x->split = split || x->ordered;
    dcpk_box_shape shape = {.size = sizeof shape,
                            .dcp = RANKS,
                            .heads = HEADS,
                            .cap = 64,
                            .bound_ns = bound_ns,
                            .event_ordered = x->ordered};
    x->layout.size = sizeof x->layout;
    MUST(dcpk_box_layout_of(&shape, &x->layout, &error));
    for (int32_t r = 0; r < RANKS; r++) {
        struct rank *rank = &x->rank[r];
        rank->device = r == 0 ? first : open_device(x->ordered ? 0 : r);
        MUST(dcpk_stream_create(rank->device, &rank->stream, &error));
        MUST(dcpk_box_create(rank->device, &shape, r, &rank->box, &error));
        rank->push = load(rank->device, "query_push " KEYS);
        rank->wait = load(rank->device, "query_wait " KEYS);
        rank->value = load(rank->device, x->split ? "dcp_value " KEYS " gate=0 split=1" : "dcp_value " KEYS " gate=0");
        x->boxes[r] = rank->box;
        rank_inputs(rank, r, &x->layout);
    }
    MUST(dcpk_box_connect(x->boxes, RANKS, &error));
}

static void exchange_close(struct exchange *x) {
    for (int r = 0; r < RANKS; r++) {
        struct rank *rank = &x->rank[r];
        MUST(dcpk_kernel_free(rank->push, &error));
        MUST(dcpk_kernel_free(rank->wait, &error));
        MUST(dcpk_kernel_free(rank->value, &error));
        MUST(dcpk_box_destroy(rank->box, &error));
        MUST(dcpk_stream_destroy(rank->device, rank->stream, &error));
        uint64_t *const buffers[] = {&rank->args.query, &rank->args.kv_b, &rank->args.lens, &rank->args.totals,
                                     &rank->args.output};
        for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
            MUST(dcpk_mem_free(rank->device, *buffers[i], &error));
    }
    for (int r = 0; r < RANKS; r++)
        dcpk_device_close(x->rank[r].device);
}

static dcpk_status launch(struct rank *rank, dcpk_kernel *kernel, uint32_t entry, uint32_t flags) {
    return dcpk_kernel_launch(kernel, entry, &rank->args, rank->box, rank->stream, flags, &error);
}

static void sync_all(struct exchange *x) {
    for (int r = 0; r < RANKS; r++)
        MUST(dcpk_stream_sync(x->rank[r].device, x->rank[r].stream, &error));
}

static void push_and_wait(struct exchange *x) {
    for (int r = 0; r < RANKS; r++)
        MUST(launch(&x->rank[r], x->rank[r].push, 0, DCPK_LAUNCH_FIRST));
    if (x->ordered) sync_all(x);
    for (int r = 0; r < RANKS; r++)
        MUST(launch(&x->rank[r], x->rank[r].wait, 0, 0));
    if (x->ordered) sync_all(x);
}

static void values(struct exchange *x) {
    for (uint32_t entry = 0; entry < (x->split ? 2u : 1u); entry++) {
        for (int r = 0; r < RANKS; r++)
            MUST(launch(&x->rank[r], x->rank[r].value, entry, 0));
        if (x->ordered) sync_all(x);
    }
}

/* Every rank's mailbox holds every rank's query rows of a use. */
static void queries_are_everywhere(struct exchange *x, uint64_t use) {
    uint8_t *box = malloc(BATCH * ALL * ROW);
    for (int r = 0; r < RANKS; r++) {
        uint64_t at = dcpk_box_base(x->boxes[r]) + x->layout.q + (use & 1) * 64 * ALL * ROW;
        MUST(dcpk_mem_read(x->rank[r].device, box, at, BATCH * ALL * ROW, &error));
        for (int b = 0; b < BATCH; b++)
            for (int g = 0; g < ALL; g++) {
                const uint8_t *sent = x->rank[g / HEADS].query + (b * HEADS + g % HEADS) * ROW;
                ck_assert_msg(memcmp(box + (b * ALL + g) * ROW, sent, ROW) == 0, "rank %d row %d head %d", r, b, g);
            }
    }
    free(box);
}

static void outputs_are_merged(struct exchange *x) {
    uint16_t out[BATCH * HEADS * 128];
    for (int r = 0; r < RANKS; r++) {
        MUST(dcpk_mem_read(x->rank[r].device, out, x->rank[r].args.output, sizeof out, &error));
        for (int i = 0; i < BATCH * HEADS * 128; i++) {
            int b = i / (HEADS * 128), g = r * HEADS + i / 128 % HEADS;
            double wanted = (1.0 * (1 + g + 8 * b) + 2.0 * (2 + g + 8 * b)) / 3, got = from_bf16(out[i]);
            ck_assert_msg(fabs(got - wanted) <= wanted / 256, "rank %d row %d head %d: %g, wanted %g", r, b, g, got,
                          wanted);
        }
        memset(out, 0xFF, sizeof out);
        MUST(dcpk_mem_write(x->rank[r].device, x->rank[r].args.output, out, sizeof out, &error));
    }
}

/* Planned for more multiprocessors than any device has; refused where the device is asked, at load, with what fits. */
START_TEST(grid_that_cannot_be_resident_is_refused_at_load) {
    static const char *const texts[] = {"mla_query heads=128 dcp=2 batch=64 poll=1 sms=1024",
                                        "dcp_value heads=128 dcp=2 batch=64 split=0 sms=1024"};
    static const char *const fits[] = {"poll=0", "split=1"};
    dcpk_device *device = open_device(0);
    for (size_t i = 0; i < 2; i++) {
        dcpk_image *image = build(texts[i]);
        dcpk_kernel *kernel = NULL;
        ck_assert_int_eq(dcpk_kernel_load(device, image, NULL, &kernel, &error), DCPK_E_RESIDENCY);
        ck_assert_ptr_null(kernel);
        ck_assert_msg(strstr(error.text, fits[i]) != NULL, "%s", error.text);
        dcpk_image_free(image);
    }
    dcpk_device_close(device);
}
END_TEST

START_TEST(two_ranks_exchange_three_uses) {
    struct exchange *x = malloc(sizeof *x);
    exchange_open(x, _i, 0);
    for (uint64_t use = 0; use < 3; use++) {
        push_and_wait(x);
        sync_all(x);
        queries_are_everywhere(x, use);
        values(x);
        sync_all(x);
        outputs_are_merged(x);
    }
    exchange_close(x);
    free(x);
}
END_TEST

START_TEST(silent_rank_ends_the_others_wait_and_rearming_revives_the_box) {
    struct exchange *x = malloc(sizeof *x);
    exchange_open(x, 0, 2000000);
    struct rank *rank = &x->rank[0];
    MUST(launch(rank, rank->push, 0, DCPK_LAUNCH_FIRST));
    MUST(launch(rank, rank->wait, 0, 0)); /* rank 1 never pushes */
    MUST(dcpk_stream_sync(rank->device, rank->stream, &error));
    for (int r = 0; r < RANKS; r++) {
        dcpk_box_state state = {.size = sizeof state};
        MUST(dcpk_box_status(x->boxes[r], &state, &error));
        if (r == 0) {
            ck_assert_int_eq(state.dead, 1);
            ck_assert_int_eq(state.by_rank, 0);
            ck_assert_int_eq(state.kernel, DCPK_KERNEL_query_wait);
            ck_assert_int_eq(state.mailbox, DCPK_MAILBOX_Q);
            ck_assert_int_ge(state.head_or_source, HEADS); /* a head of rank 1 */
            ck_assert_msg(strstr(state.text, "rank 0 query_wait: rank 1's row") != NULL, "%s", state.text);
        }
    }
    ck_assert_int_eq(launch(rank, rank->push, 0, DCPK_LAUNCH_FIRST), DCPK_E_BOX_DEAD);
    MUST(dcpk_box_rearm_all(x->boxes, RANKS, NULL, &error));
    push_and_wait(x);
    sync_all(x);
    queries_are_everywhere(x, 0);
    values(x);
    sync_all(x);
    outputs_are_merged(x);
    exchange_close(x);
    free(x);
}
END_TEST

int main(void) {
    no_multicast_or_exit(getenv("DCPK_TEST_DEVICE") ? getenv("DCPK_TEST_DEVICE") : "cpu");
    Suite *suite = suite_create("on_device");
    TCase *tests = tcase_create("on_device");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, kernel_computes_the_norm_with_and_without_pdl);
    tcase_add_test(tests, load_during_capture_is_refused_and_the_capture_lives_on);
    tcase_add_test(tests, captured_kernel_replays_and_is_held_by_its_graph);
    tcase_add_test(tests, grid_that_cannot_be_resident_is_refused_at_load);
    tcase_add_loop_test(tests, two_ranks_exchange_three_uses, 0, 2);
    tcase_add_test(tests, silent_rank_ends_the_others_wait_and_rearming_revives_the_box);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
