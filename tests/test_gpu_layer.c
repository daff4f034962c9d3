/* test_gpu_layer.c - the whole layer on a real driver library: eager, captured, mixed, with late producers.
 *
 * On the CPU device, or with DCPK_TEST_DEVICE=cuda on hardware; DCPK_TEST_GPUS says how many ranks have a device of
 * their own (default 1); ranks beyond that share one, event-ordered, or with DCPK_TEST_SHARES=1 each in a green context
 * of its own, where the kernels are those of any device. What needs graphs runs only where the driver has them, and
 * what the CPU device runs slowly is shorter there. DCPK_TEST_LAYERS=WORD: those layers alone that hold it. Judges:
 * tools/layer_judge.h. */
#include <tests/whole.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool on_gpu(void) {
    const char *device = getenv("DCPK_TEST_DEVICE");
    return device != NULL && strncmp(device, "cuda", 4) == 0;
}

static bool asked_for(const char *text) {
    const char *word = getenv("DCPK_TEST_LAYERS");
    return word == NULL || strstr(text, word) != NULL;
}

static int32_t gpus(void) {
    const char *count = getenv("DCPK_TEST_GPUS");
    return count != NULL ? (int32_t)strtol(count, NULL, 10) : 1;
}

static bool on_shares(void) {
    const char *shares = getenv("DCPK_TEST_SHARES");
    return shares != NULL && strcmp(shares, "1") == 0;
}

/* "cuda:0,1": the first devices alone, however many there are. */
static const char *first_devices(void) {
    static char text[64];
    size_t used = (size_t)snprintf(text, sizeof text, "cuda");
    for (int32_t d = 0; d < gpus() && d < 16; d++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%c%d", d == 0 ? ':' : ',', d);
    return text;
}

/* A layer of this text, open. On hardware with fewer devices than ranks, on shares or event-ordered. late: with the
 * producers of tests/templates/late. */
static struct whole *open_layer(dcpk_gen **gen, const char *text, bool late) {
    struct whole *whole = calloc(1, sizeof *whole);
    dcpk_error error;
    dcpk_error_init(&error);
    *gen = exchange_gen(late ? "tests/templates/late:templates/checks" : "templates/checks");
    whole_make(whole, *gen, text);
    if (on_gpu()) {
        whole->options.device = getenv("DCPK_TEST_DEVICE");
        whole->options.cpu = NULL;
        whole->options.bound_ns = 1000000000; /* a second: others use the machine, too */
        if (whole->make.dcp > gpus() && on_shares()) {
            whole->options.device = first_devices();
            whole->options.shares = 1;
        } else if (whole->make.dcp > gpus()) {
            whole->options.device = "cuda:0"; /* one stream captures all of them */
            whole->options.phased = 1;
            whole->keys.split = 1;
            whole->keys.poll = whole->make.dcp > 1 ? 0 : DCPK_UNSET;
        }
    }
    if (whole->make.dcp == 1) {
        whole->keys.split = DCPK_UNSET;
    }
    MUST(layer_run_open(&whole->options, whole->layer, &whole->run, &error));
    return whole;
}

static void judge_and_close(struct whole *whole, dcpk_gen *gen) {
    layer_bounds_of(whole->layer, layer_run_scores_fp8(whole->run), whole->make.sigma, &whole->bounds);
    ck_assert(layer_judge(whole->run, whole->layer, &whole->bounds, &whole->judged));
    ck_assert_msg(whole->judged.wrong == 0, "%s: %llu wrong: %s", whole->text, (unsigned long long)whole->judged.wrong,
                  whole->judged.first);
    whole_close(whole);
    free(whole);
    dcpk_gen_close(gen);
}

/* ---- eager --------------------------------------------------------------------------------------- */

static const char *const layers[] = {
    "heads=12 dcp=1 context=1,65,300 steps=3",
    "heads=12 dcp=2 context=1,65,300 steps=6",
    "heads=2 dcp=4 q=4 interleave=64 context=64,66,3 steps=6",
    "heads=2 dcp=4 interleave=16 page=16 gap=64 context=0,17,300,0 batch=5 steps=3",
    "heads=1 dcp=8 context=1,9,100 steps=3",
    "heads=16 dcp=8 gate=0 rope=interleaved context=5,200 steps=3",
    "heads=3 dcp=2 q=2 checked=1 context=7,130 steps=6",
    "heads=2 dcp=2 q_lora=0 rope=half gate=0 context=1,65 steps=3",
    "heads=17 dcp=2 batch=18 context=5 steps=3",
    "heads=2 dcp=2 splits=5 mean=1 context=700,1,64 steps=3",
    "heads=2 dcp=2 sigma=3 context=300,20 steps=3",
    /* mla_decode's form for sm_90a: few rows, pairs of groups, pages, splits, clusters of splits */
    "pv=fp8 heads=12 dcp=1 context=1,65,300 steps=3",
    "pv=fp8 heads=12 dcp=2 context=1,65,300 steps=6",
    "pv=fp8 heads=16 dcp=8 splits=2 context=5,600 steps=3",
    "pv=fp8 heads=2 dcp=4 interleave=16 page=16 gap=64 context=0,17,300,0 batch=5 steps=3",
    "pv=fp8 heads=24 dcp=4 page=32 q=2 mean=1 context=300,700 steps=3",
    "pv=fp8 heads=16 dcp=1 context=2500 steps=3",
    "pv=fp8 heads=8 dcp=2 splits=2 mean=1 context=700,1,64 steps=3",
};
enum { LAYERS = sizeof layers / sizeof *layers };

START_TEST(layer_is_right_on_the_device) {
    if (!asked_for(layers[_i])) return;
    dcpk_error error;
    dcpk_gen *gen;
    dcpk_error_init(&error);
    struct whole *whole = open_layer(&gen, layers[_i], false);
    MUST(layer_run_all(whole->run, &error));
    judge_and_close(whole, gen);
}
END_TEST

/* ---- captured ------------------------------------------------------------------------------------ */

/* Graphs of one, two and three uses, replayed odd and even times, between eager steps: whatever the parity that a graph
 * was captured at, it runs at the box's. */
static const char *const captured[] = {"heads=12 dcp=2 context=1,65,300 steps=6 form=fused",
                                       "heads=2 dcp=4 context=9,65 steps=6 form=cycle",
                                       "heads=3 dcp=1 context=9,65 steps=6 form=cycle",
                                       "heads=2 dcp=2 q=2 checked=1 splits=2 context=9,65 steps=6 form=fused",
                                       "pv=fp8 heads=12 dcp=2 context=9,650 steps=6 form=fused",
                                       "pv=fp8 heads=64 dcp=2 splits=3 context=9,650 steps=6 form=cycle"};

START_TEST(captured_steps_of_odd_and_even_uses_mix_with_eager_ones) {
    if (!asked_for(captured[_i])) return;
    dcpk_error error;
    dcpk_gen *gen;
    dcpk_error_init(&error);
    struct whole *whole = open_layer(&gen, on_gpu() ? captured[_i] : "heads=1 dcp=2 context=9 steps=6", false);
    if (layer_run_graph(whole->run, 0, 1, 1, &error) == DCPK_E_NOT_FOUND) {
        printf("captured: skipped: %s\n", error.text);
        whole_close(whole);
        free(whole);
        dcpk_gen_close(gen);
        return;
    }
    MUST(layer_run_graph(whole->run, 1, 2, 1, &error));
    MUST(layer_run_steps(whole->run, 3, 3, &error));
    MUST(layer_run_graph(whole->run, 0, 3, on_gpu() ? 5 : 1, &error));
    MUST(layer_run_steps(whole->run, 2, 1, &error));
    MUST(layer_run_graph(whole->run, 4, 1, on_gpu() ? 333 : 3, &error));
    MUST(layer_run_graph(whole->run, 0, 6, on_gpu() ? 100 : 2, &error));
    MUST(layer_run_read(whole->run, &error));
    judge_and_close(whole, gen);
}
END_TEST

/* ---- late producers ------------------------------------------------------------------------------ */

/* Every kernel is late for the next one, in every step, and each step writes memory that was never right before. */
static const char *const late[] = {"heads=1 dcp=1 context=3 splits=2 form=fused",
                                   "heads=1 dcp=2 context=3 form=fused split=1 splits=2",
                                   "heads=1 dcp=1 context=3 form=cycle", "heads=1 dcp=2 context=3 form=cycle"};

START_TEST(no_kernel_reads_before_its_late_producer_has_written) {
    if (!asked_for(late[_i])) return;
    char text[256];
    dcpk_error error;
    dcpk_gen *gen;
    dcpk_error_init(&error);
    snprintf(text, sizeof text, "%s steps=%d", late[_i], on_gpu() ? 1000 : 3);
    struct whole *whole = open_layer(&gen, text, true);
    MUST(layer_run_all(whole->run, &error));
    judge_and_close(whole, gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu layer");
    TCase *tests = tcase_create("gpu layer");
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    tcase_set_timeout(tests, 240);
    suite_add_tcase(suite, tests);
    /* On the CPU device test_whole has the layers; there these only show that this suite works. */
    tcase_add_loop_test(tests, layer_is_right_on_the_device, 0, on_gpu() ? LAYERS : 1);
    tcase_add_loop_test(tests, captured_steps_of_odd_and_even_uses_mix_with_eager_ones, 0,
                        on_gpu() ? sizeof captured / sizeof *captured : 1);
    tcase_add_loop_test(tests, no_kernel_reads_before_its_late_producer_has_written, 0,
                        on_gpu() ? sizeof late / sizeof *late : 2);
    return exchange_main(suite);
}
