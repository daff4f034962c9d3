/* test_kernel_time.c - floors against figures that were worked out elsewhere; kernels launched over and over by
 * themselves, on the CPU device: inputs of the right sizes (a byte outside, or one that nobody wrote, is a fault
 * there).
 */
#include <tools/floor.h>
#include <tools/kernel_time.h>
#include <tools/layer_run.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

static dcpk_spec spec_of(const char *text) {
    dcpk_spec spec;
    dcpk_error error;
    dcpk_error_init(&error);
    ck_assert_msg(dcpk_spec_parse(&spec, text, &error) == DCPK_OK && dcpk_spec_resolve(&spec, &error) == DCPK_OK, "%s",
                  error.text);
    return spec;
}

/* docs/measurements.md; its read rate was 4534 GB/s. */
START_TEST(floors_are_those_of_the_measurements) {
    static const struct {
        const char *spec;
        double keys, us;
    } rows[] = {{"query_norm heads=12 batch=1", 0, 0.737},
                {"mla_query heads=12 batch=64", 0, 2.65 - 0.71 + 0.737},
                {"mla_query heads=16 batch=1", 0, 3.28 - 0.71 + 0.737},
                {"dcp_value heads=12 batch=1", 0, 1.08},
                {"dcp_value heads=16 batch=16", 0, 1.20},
                {"mla_decode heads=96 batch=1", 2048, 2.25},
                {"mla_decode heads=96 batch=16", 16.0 * 16384, 60.85},
                {"mla_decode heads=128 batch=64", 64.0 * 131072, 2596.07}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dcpk_spec spec = spec_of(rows[i].spec);
        struct kernel_floor floor;
        ck_assert(floor_of(&spec, rows[i].keys, 4534, &floor));
        ck_assert_msg(floor.us > rows[i].us * 0.98 && floor.us < rows[i].us * 1.02, "%s: %g us, wanted %g",
                      rows[i].spec, floor.us, rows[i].us);
    }
}
END_TEST

START_TEST(an_exchange_costs_its_node) {
    static const struct {
        double bytes, us;
    } nodes[] = {{0, 0.737},
                 {16, 1.45},
                 {4096, 1.45},
                 {65536, 1.82},
                 {(4096 + 65536) / 2.0, (1.45 + 1.82) / 2},
                 {262144, 2.4},
                 {2.5 * 1048576, (4.6 + 13.6) / 2},
                 {16777216, 50},
                 {2 * 16777216.0 - 4194304, 86.4}};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        ck_assert_double_eq_tol(floor_exchange_us(nodes[i].bytes), nodes[i].us, 1e-9);
    /* dcp=2, 16 rows of 8 heads: 73,728 bytes of query rows, and so many more than 64 KB. */
    struct kernel_floor alone, shared;
    dcpk_spec one = spec_of("mla_query heads=8 batch=16"), two = spec_of("mla_query heads=8 batch=16 dcp=2");
    ck_assert(floor_of(&one, 0, FLOOR_READ_GBS, &alone) && floor_of(&two, 0, FLOOR_READ_GBS, &shared));
    ck_assert_double_eq_tol(shared.us - alone.us, 1.82 + (2.4 - 1.82) * (73728 - 65536) / (262144 - 65536) - 0.737,
                            1e-9);
    dcpk_spec own;
    dcpk_spec_init(&own, "query_copy");
    ck_assert(!floor_of(&own, 0, FLOOR_READ_GBS, &alone));
}
END_TEST

START_TEST(halves_of_an_exchange_are_not_launched_alone) {
    static const struct {
        const char *spec;
        bool alone;
    } rows[] = {{"query_norm heads=2 batch=2", true},        {"mla_query heads=2 batch=2", true},
                {"mla_query heads=2 batch=2 dcp=2", false},  {"dcp_value heads=2 batch=2", true},
                {"dcp_value heads=2 batch=2 dcp=2", false},  {"mla_decode heads=2 batch=2 dcp=2", true},
                {"query_push heads=2 batch=2 dcp=2", false}, {"query_wait heads=2 batch=2 dcp=2", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dcpk_spec spec = spec_of(rows[i].spec);
        ck_assert_msg((kernel_alone(&spec) == NULL) == rows[i].alone, "%s", rows[i].spec);
    }
}
END_TEST

/* Every input set once, and the first of them again. */
static void launch_all(struct rank_group *group, dcpk_gen *gen, const char *text) {
    static const int32_t lens[] = {70, 0, 3, 1}, totals[] = {140, 0, 6, 1};
    dcpk_spec spec = spec_of(text);
    dcpk_kernel *kernel = NULL;
    struct kernel_inputs *inputs = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    struct kernel_set *set = kernel_set_new(gen);
    struct group_rank *rank = &group->rank[0];
    dcpk_status status = kernel_set_load(set, &spec, rank->device, rank->stream, &kernel, &error);
    struct kernel_wish wish = {.device = rank->device,
                               .stream = rank->stream,
                               .kernel = kernel,
                               .box = spec.dcp > 1 ? rank->box : NULL,
                               .lens = lens,
                               .totals = totals,
                               .most_sets = 2};
    if (status == DCPK_OK) status = kernel_inputs_open(&wish, &inputs, &error);
    for (int i = 0; status == DCPK_OK && i <= kernel_inputs_sets(inputs); i++)
        status = kernel_inputs_launch(inputs, i, &error);
    if (status == DCPK_OK) status = rank_group_sync(group, &error);
    ck_assert_msg(status == DCPK_OK, "%s: %s", text, error.text);
    ck_assert_int_eq(kernel_inputs_calls(inputs) % kernel_inputs_sets(inputs), 0);
    ck_assert_int_eq(kernel_inputs_sets(inputs), spec.dcp == DCPK_UNSET ? 1 : 2);
    kernel_inputs_close(inputs);
    dcpk_kernel_free(kernel, NULL);
    kernel_set_free(set);
}

START_TEST(inputs_fit_every_kernel_that_is_timed) {
    static const char *const alone[] = {"query_norm heads=2 batch=4",
                                        "query_norm heads=2 batch=20",
                                        "mla_query heads=2 batch=4",
                                        "mla_query heads=1 batch=20 page=16",
                                        "mla_query heads=2 batch=4 store_qc=1",
                                        "mla_query heads=2 batch=4 q_lora=0 rope=half",
                                        "mla_query heads=2 batch=4 rope=interleaved",
                                        "dcp_value heads=2 batch=4",
                                        "dcp_value heads=2 batch=4 gate=0",
                                        "mla_decode heads=2 batch=4", /* its workspace is armed */
                                        "mla_decode heads=20 batch=8 q=2 splits=3 page=16 pv=f16"};
    static const char *const shared[] = {"mla_decode heads=2 batch=4 dcp=2 splits=2 pv=f16",
                                         "mla_decode heads=1 batch=8 q=2 dcp=2 splits=1 page=32 interleave=16 pv=f16"};
    for (int dcp = 1; dcp <= 2; dcp++) {
        struct rank_group_options options = {.device = "cpu", .dcp = dcp, .multicast = -1, .pdl = -1};
        struct rank_group group;
        dcpk_error error;
        dcpk_gen *gen = NULL;
        dcpk_gen_options wanted = {.size = sizeof wanted, .template_path = "templates"};
        dcpk_error_init(&error);
        ck_assert_msg(dcpk_gen_open(&wanted, &gen, &error) == DCPK_OK, "%s", error.text);
        ck_assert_msg(rank_group_open(&options, &group, &error) == DCPK_OK, "%s", error.text);
        for (size_t i = 0; dcp == 1 && i < sizeof alone / sizeof *alone; i++)
            launch_all(&group, gen, alone[i]);
        for (size_t i = 0; dcp == 2 && i < sizeof shared / sizeof *shared; i++) {
            dcpk_box_shape shape = {
                .size = sizeof shape, .dcp = 2, .heads = i == 0 ? 2 : 1, .cap = 64, .qh = i == 0 ? 4 : 2};
            ck_assert_msg(rank_group_connect(&group, &shape, &error) == DCPK_OK, "%s", error.text);
            launch_all(&group, gen, shared[i]);
            for (int r = 0; r < 2; r++)
                dcpk_box_destroy(group.rank[r].box, NULL);
        }
        group.rank[0].box = group.rank[1].box = NULL;
        rank_group_close(&group);
        dcpk_gen_close(gen);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kernel_time");
    TCase *tests = tcase_create("floors and inputs");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, floors_are_those_of_the_measurements);
    tcase_add_test(tests, an_exchange_costs_its_node);
    tcase_add_test(tests, halves_of_an_exchange_are_not_launched_alone);
    tcase_add_test(tests, inputs_fit_every_kernel_that_is_timed);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
