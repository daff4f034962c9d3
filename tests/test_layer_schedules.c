/* test_layer_schedules.c - the whole layer under seeded adversaries: any warp next, bursts of any length, stores to
 * peers late and word by word, dependents as early as PDL allows; in every form, judged as every other run.
 * May call: tests/whole.h. */
#include <tests/whole.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

/* Three steps: one of each form, and both parities; with four the first form meets the other parity. */
static const char *const layers[] = {
    "heads=1 dcp=2 form=cycle splits=1 context=3,0 steps=4",
    "heads=2 dcp=2 form=cycle splits=1 context=1,66 steps=3 publish=multicast",
    "heads=1 dcp=3 form=cycle splits=2 context=5,130 steps=3 split=1",
    "heads=2 dcp=2 form=fused splits=1 context=2,9 steps=3 checked=1",
    "heads=1 dcp=4 form=cycle splits=1 interleave=16 page=16 context=17,3 steps=3 poll=0",
    "heads=2 dcp=3 form=fused splits=1 context=4 steps=3 chain=1",
    "heads=2 dcp=2 q=2 form=cycle splits=1 context=6 steps=3 split=1 checked=1 publish=multicast",
    "heads=1 dcp=4 form=fused splits=1 q_lora=0 rope=half context=2,7 steps=4 chain=1 parity=arg",
    "heads=1 dcp=2 form=fused splits=1 context=5 batch=17 steps=2 poll=1 qh=5",
    "heads=2 dcp=4 form=cycle splits=1 context=3 steps=3 poll=0 split=1 chain=1",
    "heads=33 dcp=1 splits=1 sigma=3 context=260 steps=1",
};
enum { LAYERS = sizeof layers / sizeof *layers, SEEDS = 6 };

START_TEST(layer_is_right_under_every_schedule) {
    struct whole *whole = calloc(1, sizeof *whole);
    ck_assert_ptr_nonnull(whole);
    dcpk_gen *gen = exchange_gen("templates/checks");
    whole_make(whole, gen, layers[_i]);
    whole->cpu.schedule = DCPKCPU_RANDOM;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        whole->cpu.seed = seed + 100 * (uint64_t)_i;
        snprintf(whole->text, sizeof whole->text, "%s random=%llu", layers[_i], (unsigned long long)whole->cpu.seed);
        whole_run(whole);
        ck_assert_msg(whole->judged.wrong == 0, "%s: %llu wrong: %s", whole->text,
                      (unsigned long long)whole->judged.wrong, whole->judged.first);
        layer_run_close(whole->run);
        whole->run = NULL;
    }
    whole_close(whole);
    free(whole);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("layer_schedules");
    TCase *tests = tcase_create("layer_schedules");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, layer_is_right_under_every_schedule, 0, LAYERS);
    return exchange_main(suite);
}
