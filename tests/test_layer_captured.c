/* test_layer_captured.c - the whole layer captured on the CPU device: graphs of one, two and three uses replayed
 * between eager steps, in the fair schedule and under seeded adversaries. May call: tests/whole.h. On hardware:
 * test_gpu_layer.c. Rules of captures: test_cpu_capture.c. */
#include <tests/whole.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Graphs of odd and even uses, odd and even times: whatever the parity that a graph was captured at, it runs at the
 * box's. */
static void mix(struct layer_run *run) {
    dcpk_error error;
    dcpk_error_init(&error);
    MUST(layer_run_graph(run, 0, 1, 1, &error));
    MUST(layer_run_steps(run, 1, 1, &error));
    MUST(layer_run_graph(run, 1, 2, 3, &error));
    MUST(layer_run_steps(run, 0, 2, &error));
    MUST(layer_run_graph(run, 0, 3, 2, &error));
    MUST(layer_run_graph(run, 2, 1, 3, &error));
    MUST(layer_run_read(run, &error));
}

static void must_be_right_captured(dcpk_gen *gen, const char *text) {
    dcpk_error error;
    struct whole *whole = calloc(1, sizeof *whole);
    ck_assert_ptr_nonnull(whole);
    dcpk_error_init(&error);
    whole_make(whole, gen, text);
    MUST(layer_run_open(&whole->options, whole->layer, &whole->run, &error));
    mix(whole->run);
    whole_judge(whole);
    ck_assert_msg(whole->judged.wrong == 0, "%s: %llu wrong: %s", text, (unsigned long long)whole->judged.wrong,
                  whole->judged.first);
    whole_close(whole);
    free(whole);
}

/* Three steps: one of each form where they cycle. random: under that adversary. */
static const char *const layers[] = {
    "heads=1 dcp=2 form=cycle splits=2 context=3,66 steps=3",
    "heads=2 dcp=2 form=cycle splits=1 context=5,2 steps=3 random=2",
    "heads=1 dcp=3 form=fused splits=1 split=1 context=5 steps=3 random=3",
    "heads=1 dcp=4 form=cycle splits=1 interleave=16 page=16 poll=0 context=17 steps=3 random=4",
    "heads=2 dcp=2 form=fused splits=1 q=2 checked=1 publish=multicast context=6 steps=3 random=5",
    "heads=1 dcp=2 form=fused splits=1 q_lora=0 rope=half chain=1 context=2,7 steps=3 random=6",
    "pv=fp8 heads=8 dcp=1 form=fused context=9 steps=3",
};
enum { LAYERS = sizeof layers / sizeof *layers };

START_TEST(layer_captured_between_eager_steps_is_right) {
    dcpk_gen *gen = exchange_gen("templates/checks");
    must_be_right_captured(gen, layers[_i]);
    dcpk_gen_close(gen);
}
END_TEST

/* With parity=arg the capture fixes it: a graph of two uses fits whenever the box is where it was, one of a single use
 * every other time. The kernels notice. */
START_TEST(a_graph_whose_parity_is_an_argument_is_noticed_when_it_does_not_fit) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct whole *whole = calloc(1, sizeof *whole);
    ck_assert_ptr_nonnull(whole);
    dcpk_gen *gen = exchange_gen("templates/checks");
    whole_make(whole, gen, "heads=1 dcp=2 form=fused splits=1 parity=arg context=2 steps=2");
    MUST(layer_run_open(&whole->options, whole->layer, &whole->run, &error));
    MUST(layer_run_graph(whole->run, 0, 2, 3, &error));
    MUST(layer_run_read(whole->run, &error));
    whole_judge(whole);
    ck_assert_msg(whole->judged.wrong == 0, "%s", whole->judged.first);
    MUST(layer_run_graph(whole->run, 0, 1, 2, &error));
    ck_assert_int_eq(layer_run_steps(whole->run, 0, 1, &error), DCPK_E_BOX_DEAD);
    ck_assert_msg(strstr(error.text, "parity 0 was passed, the counter says 1 (use 7)") != NULL, "%s", error.text);
    whole_end_run(whole);
    whole_close(whole);
    free(whole);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("layer_captured");
    TCase *tests = tcase_create("layer_captured");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, layer_captured_between_eager_steps_is_right, 0, LAYERS);
    tcase_add_test(tests, a_graph_whose_parity_is_an_argument_is_noticed_when_it_does_not_fit);
    return exchange_main(suite);
}
