/* test_gpu_share.c - where kernels run: on a whole device, and on shares of one (green contexts), eager and captured.
 *
 * On the CPU device, which has no shares, or with DCPK_TEST_DEVICE=cuda on hardware. A kernel writes down the
 * multiprocessor of each of its CTAs (tests/templates/whereabouts); nothing else says what a share really has. */
#include <tests/exchange.h>

#include <dcpk/gen.h>
#include <dcpk/runtime.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 256, CTAS = 8 * BATCH, SMS = 1024, SHARES = 16, NOWHERE = 0xFFFF };

static dcpk_error error;
static dcpk_gen *gen;

static bool on_gpu(void) {
    const char *device = getenv("DCPK_TEST_DEVICE");
    return device != NULL && strncmp(device, "cuda", 4) == 0;
}

static void setup(void) {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    dcpk_error_init(&error);
    gen = exchange_gen(NULL);
}

static void teardown(void) {
    dcpk_gen_close(gen);
}

struct place {
    dcpk_device *device;
    dcpk_device_info info;
    dcpk_kernel *kernel;
    void *stream;
    uint64_t to;
    bool used[SMS];
    int32_t count; /* of used */
};

static void place_open(struct place *place, int32_t index, int32_t count) {
    dcpk_device_options options = {.size = sizeof options,
                                   .kind = on_gpu() ? getenv("DCPK_TEST_DEVICE") : "cpu",
                                   .pdl = -1,
                                   .multicast = -1,
                                   .share_index = index,
                                   .share_count = count};
    dcpk_spec spec;
    dcpk_image *image = NULL;
    memset(place, 0, sizeof *place);
    MUST(dcpk_device_open(&options, &place->device, &error));
    place->info.size = sizeof place->info;
    MUST(dcpk_device_get_info(place->device, &place->info, &error));
    dcpk_spec_init(&spec, "whereabouts");
    spec.heads = spec.dcp = 1;
    spec.batch = BATCH;
    MUST(dcpk_spec_resolve(&spec, &error));
    MUST(dcpk_gen_build(gen, &spec, &image, NULL, &error));
    MUST(dcpk_stream_create(place->device, &place->stream, &error));
    MUST(dcpk_kernel_load(place->device, image, place->stream, &place->kernel, &error));
    MUST(dcpk_mem_alloc(place->device, CTAS * 4, &place->to, &error));
    MUST(dcpk_mem_fill32(place->device, place->to, NOWHERE, CTAS, &error));
    dcpk_image_free(image);
}

static void place_close(struct place *place) {
    dcpk_status status = DCPK_E_BOX_BUSY;
    for (int i = 0; i < 1000 && status == DCPK_E_BOX_BUSY;
         i++) { /* the driver drops a graph's objects in its own time */
        status = dcpk_kernel_free(place->kernel, &error);
        if (status == DCPK_E_BOX_BUSY) usleep(1000);
    }
    MUST(status);
    MUST(dcpk_mem_free(place->device, place->to, &error));
    MUST(dcpk_stream_destroy(place->device, place->stream, &error));
    dcpk_device_close(place->device);
}

static void place_launch(struct place *place) {
    void *params[] = {&place->to};
    MUST(dcpk_kernel_launch_raw(place->kernel, 0, params, place->stream, 0, &error));
}

/* Every CTA has run; adds where. Then everything is as before a launch. */
static void place_look(struct place *place) {
    static uint32_t where[CTAS];
    MUST(dcpk_stream_sync(place->device, place->stream, &error));
    MUST(dcpk_mem_read(place->device, where, place->to, sizeof where, &error));
    for (int i = 0; i < CTAS; i++) {
        ck_assert_msg(where[i] < SMS, "CTA %d never ran", i);
        place->count += !place->used[where[i]];
        place->used[where[i]] = true;
    }
    MUST(dcpk_mem_fill32(place->device, place->to, NOWHERE, CTAS, &error));
}

START_TEST(a_whole_device_has_all_its_multiprocessors) {
    struct place place;
    place_open(&place, 0, 1);
    place_launch(&place);
    place_look(&place);
    ck_assert_int_eq(place.count, place.info.sms);
    ck_assert_int_eq(place.info.device_sms, place.info.sms);
    place_close(&place);
}
END_TEST

static struct place places[SHARES];

/* Each has as many as it says, and none is another's. */
static void check_apart(int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        const struct place *place = &places[i];
        ck_assert_int_eq(place->info.share_count, count);
        ck_assert_int_eq(place->info.sms, places[0].info.sms);
        ck_assert_msg(place->count == place->info.sms, "share %d of %d ran on %d multiprocessors and has %d", i, count,
                      place->count, place->info.sms);
        for (int32_t j = 0; j < i; j++)
            for (int sm = 0; sm < SMS; sm++)
                ck_assert_msg(!place->used[sm] || !places[j].used[sm], "shares %d and %d of %d both ran on %d", j, i,
                              count, sm);
    }
    ck_assert_int_le(count * places[0].info.sms, places[0].info.device_sms);
    printf("%d shares of %d multiprocessors: %d each\n", count, places[0].info.device_sms, places[0].info.sms);
}

static const int32_t counts[] = {2, 3, 4, 8};

START_TEST(shares_of_a_device_run_apart) {
    int32_t count = counts[_i];
    for (int32_t i = 0; i < count; i++)
        place_open(&places[i], i, count);
    for (int t = 0; t < 20; t++) {
        for (int32_t i = 0; i < count; i++)
            place_launch(&places[i]); /* all at once */
        for (int32_t i = 0; i < count; i++)
            place_look(&places[i]);
    }
    check_apart(count);
    for (int32_t i = 0; i < count; i++)
        place_close(&places[i]);
}
END_TEST

/* ---- captured ---- */

static struct {
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*launch)(void *exec, void *stream);
    int (*exec_destroy)(void *exec);
    int (*graph_destroy)(void *graph);
    int (*stream_context)(void *stream, void **context);
    int (*push)(void *context);
    int (*pop)(void **context);
} graphs;

static void find_graphs(const dcpk_device *device) {
    static const char *const names[] = {"cuStreamBeginCapture_v2", "cuStreamEndCapture",  "cuGraphInstantiateWithFlags",
                                        "cuGraphLaunch",           "cuGraphExecDestroy",  "cuGraphDestroy",
                                        "cuStreamGetCtx",          "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"};
    void *found[sizeof names / sizeof names[0]];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found[i] = dcpk_device_symbol(device, names[i]);
        ck_assert_msg(found[i] != NULL, "this driver has no %s", names[i]);
    }
    memcpy(&graphs, found, sizeof graphs);
}

#define DRIVER(call) ck_assert_int_eq(call, 0)

/* Two launches, the second with PDL. */
static void *capture(struct place *place) {
    void *graph = NULL, *exec = NULL, *context = NULL;
    DRIVER(graphs.stream_context(place->stream, &context));
    DRIVER(graphs.push(context));
    DRIVER(graphs.begin(place->stream, 2));
    place_launch(place);
    place_launch(place);
    DRIVER(graphs.end(place->stream, &graph));
    DRIVER(graphs.instantiate(&exec, graph, 0));
    DRIVER(graphs.graph_destroy(graph));
    DRIVER(graphs.pop(&context));
    return exec;
}

/* The stream of the capture says where the nodes run. */
START_TEST(captured_kernels_run_on_the_share_of_their_capture) {
    enum { COUNT = 4 };
    void *exec[COUNT], *context;
    for (int32_t i = 0; i < COUNT; i++) {
        place_open(&places[i], i, COUNT);
        find_graphs(places[i].device);
        exec[i] = capture(&places[i]);
    }
    for (int t = 0; t < 20; t++) {
        for (int32_t i = 0; i < COUNT; i++) {
            DRIVER(graphs.stream_context(places[i].stream, &context));
            DRIVER(graphs.push(context));
            DRIVER(graphs.launch(exec[i], places[i].stream));
            DRIVER(graphs.pop(&context));
        }
        for (int32_t i = 0; i < COUNT; i++)
            place_look(&places[i]);
    }
    check_apart(COUNT);
    for (int32_t i = 0; i < COUNT; i++) {
        DRIVER(graphs.exec_destroy(exec[i]));
        place_close(&places[i]);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu share");
    TCase *tests = tcase_create("gpu share");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, a_whole_device_has_all_its_multiprocessors);
    if (on_gpu()) {
        tcase_add_loop_test(tests, shares_of_a_device_run_apart, 0, sizeof counts / sizeof counts[0]);
        tcase_add_test(tests, captured_kernels_run_on_the_share_of_their_capture);
    }
    return exchange_main(suite);
}
