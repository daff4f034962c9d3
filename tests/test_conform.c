/* test_conform.c - dcpk check device judges rightly: what a device leaves wrong, refuses, faults at or never ends is
 * said with its input, and costs no other snippet; recorded results find one changed input. Snippets of the suite's
 * own, on the CPU device. May call: include/dcpk, tools/conform*.h. */
#include "tools/conform_apart.h"
#include "tools/conform_report.h"
#include "tools/conform_rows.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static dcpk_error error;

/* ---- planted rows ---- */
static bool ref_planted(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    *out = (struct conform_out){{(uint32_t)(in->a + in->b), 0, 0, 0}};
    (void)form;
    return true;
}
static bool ref_one_wrong(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    ref_planted(form, in, out);
    out->d[0] ^= in->a == 7 && in->b == 31; /* both are edges of integers: one input at least */
    return true;
}

#define ROW(tag, body, flags, reference)                                                                               \
    { tag, "add.u32", body, "ii", 'w', flags, reference, #reference, "test" }
enum { GOOD, WRONG, UNKNOWN, FAULTS, ENDLESS, HARD, BEHIND, ROWS };
static const struct conform_row rows[ROWS] = {
    [GOOD] = ROW("good", "$i d, a, b;", EXACT, ref_planted),
    [WRONG] = ROW("wrong", "$i d, a, b;", EXACT, ref_one_wrong),
    [UNKNOWN] = ROW("unknown", "madeup.q32 d, a, b;", EXACT, ref_planted),
    [FAULTS] = ROW("faults", "mov.u64 K, 64; st.global.u32 [K], a; $i d, a, b;", EXACT, ref_planted),
    [ENDLESS] = ROW("endless", "mov.u32 k, 0; AGAIN: add.u32 k, k, 1; st.volatile.global.u32 [S], k; bra AGAIN;", EXACT,
                    ref_planted),
    [HARD] = ROW("hard", "$i d, a, b;", CPU_ONLY, ref_planted),
    [BEHIND] = ROW("behind", "$i d, a, b;", EXACT, ref_planted),
};
static struct conform_form forms[ROWS];
static const struct conform_form *chosen[ROWS];
static struct conform_outcome outcomes[ROWS];

static void setup(void) {
    dcpk_error_init(&error);
    for (int i = 0; i < ROWS; i++) {
        conform_form_make(&forms[i], &rows[i], "add.u32");
        chosen[i] = &forms[i];
    }
}

static void run(const struct conform_apart *how, const int *which, size_t count, struct conform_recording *recording) {
    char name[CONFORM_DEVICE_NAME];
    for (size_t i = 0; i < count; i++)
        chosen[i] = &forms[which[i]];
    dcpk_status status = conform_apart_run(how, chosen, count, outcomes, name, recording, &error);
    ck_assert_msg(status == DCPK_OK, "%s", error.text);
    ck_assert_msg(strstr(name, "CPU device") != NULL, "%s", name);
}

static struct conform_apart plain(void) {
    return (struct conform_apart){
        .device = {.size = sizeof(dcpk_device_options), .kind = "cpu", .pdl = -1}, .jobs = 1, .limit_s = 60};
}

START_TEST(a_wrong_result_is_said_with_its_input) {
    static const int which[] = {GOOD, WRONG, BEHIND};
    struct conform_apart how = plain();
    run(&how, which, 3, NULL);
    ck_assert(outcomes[0].run == RAN && outcomes[0].differing == 0 && outcomes[0].referred);
    ck_assert(outcomes[2].run == RAN && outcomes[2].differing == 0);
    ck_assert(!conform_outcome_bad(&outcomes[0]) && conform_outcome_bad(&outcomes[1]));
    ck_assert_uint_ge(outcomes[1].differing, 1);
    const struct conform_sample *sample = &outcomes[1].samples[0];
    ck_assert_uint_eq(sample->input.a, 7);
    ck_assert_uint_eq(sample->input.b, 31);
    ck_assert_uint_eq(sample->got.d[0], 38);
    ck_assert_uint_eq(sample->wanted.d[0], 39);
}
END_TEST

START_TEST(a_fault_a_refusal_and_a_hang_cost_one_snippet_each) {
    static const int which[] = {UNKNOWN, GOOD, FAULTS, GOOD, ENDLESS, BEHIND};
    struct conform_apart how = plain();
    how.limit_s = 1;
    how.jobs = (unsigned)_i;
    run(&how, which, 6, NULL);
    ck_assert_int_eq(outcomes[0].run, REFUSED);
    ck_assert_msg(strstr(outcomes[0].why, "madeup.q32") != NULL, "%s", outcomes[0].why);
    ck_assert_int_eq(outcomes[2].run, BROKE);
    ck_assert_msg(strstr(outcomes[2].why, "0x40") != NULL, "%s", outcomes[2].why);
    ck_assert_int_eq(outcomes[4].run, BROKE);
    ck_assert_msg(strstr(outcomes[4].why, "killed after 1 s") != NULL, "%s", outcomes[4].why);
    for (int i = 1; i < 6; i += 2)
        ck_assert_msg(outcomes[i].run == RAN && outcomes[i].differing == 0, "%d: %d %s", i, outcomes[i].run,
                      outcomes[i].why);
}
END_TEST

START_TEST(what_may_not_run_on_hardware_does_not) {
    dcpk_device_options options = {.size = sizeof options, .kind = "cpu", .pdl = -1};
    dcpk_device *device = NULL;
    ck_assert_msg(dcpk_device_open(&options, &device, &error) == DCPK_OK, "%s", error.text);
    struct conform_check check = {.device = device, .hardware = true};
    const struct conform_form *three[] = {&forms[GOOD], &forms[HARD], &forms[BEHIND]};
    ck_assert_int_eq(conform_check_forms(&check, three, 0, 3, outcomes, &error), DCPK_OK);
    ck_assert_int_eq(outcomes[0].run, RAN);
    ck_assert_int_eq(outcomes[1].run, NOT_RUN);
    ck_assert_int_eq(outcomes[2].run, RAN);
    dcpk_device_close(device);
}
END_TEST

/* The only snippets with multimem are those that never reach hardware. */
START_TEST(multicast_memory_is_only_in_snippets_that_stay_off_hardware) {
    struct conform_list list = conform_list_make();
    size_t found = 0;
    for (size_t i = 0; i < list.count; i++) {
        const struct conform_form *form = &list.forms[i];
        char *text = conform_module(&form, 1);
        bool multimem = strstr(text, "multimem") != NULL;
        ck_assert_msg(multimem == ((form->row->flags & CPU_ONLY) != 0), "%s", form->name);
        found += multimem;
        free(text);
    }
    ck_assert_uint_ge(found, 2);
    conform_list_free(&list);
}
END_TEST

/* ---- recorded results ---- */
static char path[] = "/tmp/dcpk-conform-XXXXXX";

static void save(const char *text, size_t bytes) {
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

static void open_file(void) {
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
    setup();
}

static void remove_file(void) {
    unlink(path);
}

static struct conform_record record_of(const uint64_t *results, size_t count, bool whole) {
    return (struct conform_record){.name = "some.f32",
                                   .identity = 5,
                                   .results = results,
                                   .count = count,
                                   .bits = 32,
                                   .whole = whole,
                                   .floating = true};
}

static struct conform_golden *golden_of(const struct conform_record *record) {
    struct conform_recording recording;
    struct conform_golden *golden = NULL;
    conform_recording_begin(&recording, "a device");
    conform_recording_add(&recording, record);
    save(recording.text, recording.used);
    free(recording.text);
    ck_assert_msg(conform_golden_read(path, &golden, &error) == DCPK_OK, "%s", error.text);
    ck_assert_str_eq(conform_golden_device(golden), "a device");
    ck_assert_uint_eq(conform_golden_count(golden), 1);
    return golden;
}

START_TEST(recorded_sums_find_the_one_input_that_changed) {
    enum { COUNT = 10000 };
    static uint64_t results[COUNT];
    uint64_t state = 1;
    struct conform_difference difference;
    for (size_t i = 0; i < COUNT; i++)
        results[i] = conform_random(&state) & 0xFFFFFFFF;
    struct conform_record record = record_of(results, COUNT, false);
    struct conform_golden *golden = golden_of(&record);
    ck_assert_int_eq(conform_golden_compare(golden, &record, &difference), RECORDED_SAME);
    static const size_t changed[] = {0, 1, 4095, 4096, 5000, COUNT - 1};
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) {
        results[changed[i]] ^= 1;
        ck_assert_int_eq(conform_golden_compare(golden, &record, &difference), RECORDED_OTHER);
        ck_assert_uint_eq(difference.differing, 1);
        ck_assert_uint_eq(difference.input, changed[i]);
        results[changed[i]] ^= 1;
    }
    results[10] ^= 1, results[20] ^= 1;
    ck_assert_int_eq(conform_golden_compare(golden, &record, &difference), RECORDED_OTHER);
    ck_assert_uint_eq(difference.differing, 0); /* how many is not known */
    record.identity++;
    ck_assert_int_eq(conform_golden_compare(golden, &record, &difference), OF_ANOTHER_TEXT);
    record.name = "another";
    ck_assert_int_eq(conform_golden_compare(golden, &record, &difference), NOT_RECORDED);
    conform_golden_free(golden);
}
END_TEST

START_TEST(recorded_results_of_approximations_say_by_how_much) {
    enum { COUNT = 600 };
    static uint64_t results[COUNT];
    uint64_t state = 2;
    struct conform_difference difference;
    for (size_t i = 0; i < COUNT; i++) /* near each other, and not */
        results[i] = i % 3 ? (results[i - 1] + conform_random(&state) % 20 - 10) & 0xFFFFFFFF
                           : conform_random(&state) & 0xFF7FFFFF;
    results[0] = 0, results[1] = 0xFFFFFFFF, results[2] = 0;
    struct conform_record record = record_of(results, COUNT, true);
    struct conform_golden *golden = golden_of(&record);
    ck_assert_int_eq(conform_golden_compare(golden, &record, &difference), RECORDED_SAME);
    results[300] = 0x3F800000;
    golden = (conform_golden_free(golden), golden_of(&record));
    results[300] += 3;
    results[400] ^= 1;
    ck_assert_int_eq(conform_golden_compare(golden, &record, &difference), RECORDED_OTHER);
    ck_assert_uint_eq(difference.differing, 2);
    ck_assert_uint_eq(difference.input, 300);
    ck_assert_uint_eq(difference.recorded, 0x3F800000);
    ck_assert_double_eq(difference.ulps, 3);
    conform_golden_free(golden);
}
END_TEST

/* Each snippet as recorded; with a planted change the report names the snippet and the input. */
START_TEST(a_run_is_held_against_a_recording_of_itself) {
    static const int which[] = {GOOD, BEHIND};
    struct conform_apart how = plain();
    struct conform_recording recording = {NULL, 0, 0};
    struct conform_golden *golden = NULL;
    how.record = true;
    run(&how, which, 2, &recording);
    save(recording.text, recording.used);
    free(recording.text);
    ck_assert_msg(conform_golden_read(path, &golden, &error) == DCPK_OK, "%s", error.text);
    ck_assert_uint_eq(conform_golden_count(golden), 2);
    how.record = false;
    how.golden = golden;
    run(&how, which, 2, NULL);
    for (int i = 0; i < 2; i++)
        ck_assert(outcomes[i].recorded == RECORDED_SAME && !conform_outcome_bad(&outcomes[i]));
    conform_golden_free(golden);
}
END_TEST

START_TEST(a_damaged_recording_is_refused_by_line) {
    static const struct {
        const char *text, *says;
    } damaged[] = {
        {"", "first line"},
        {"something else\n", "first line"},
        {"dcpk conformance 1\ndevice\nadd.u32\t0\n", ":3: damaged"},
        {"dcpk conformance 1\ndevice\nadd.u32\t00000000005\t2048\th\tabc", ":3: damaged"},
        {"dcpk conformance 1\ndevice\nadd.u32\t00000000005\t2048\tq\tabc\n", ":3: damaged"},
        {"dcpk conformance 1\ndevice\nadd.u32\t0000000*005\t2048\th\tabc\n", ":3: damaged"},
        {"dcpk conformance 1\ndevice\nadd.u32\t00000000005\t0\th\tabc\n", ":3: damaged"},
        {"dcpk conformance 1\ndevice\nadd.u32\t00000000005\t99999999\th\tabc\n", ":3: damaged"},
    };
    struct conform_golden *golden = NULL;
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        save(damaged[i].text, strlen(damaged[i].text));
        ck_assert_int_eq(conform_golden_read(path, &golden, &error), DCPK_E_ARG);
        ck_assert_msg(strstr(error.text, damaged[i].says) != NULL, "%zu: %s", i, error.text);
    }
    save("dcpk conformance 1\n\0\n", 21);
    ck_assert_int_eq(conform_golden_read(path, &golden, &error), DCPK_E_ARG);
    unlink(path);
    ck_assert_int_eq(conform_golden_read(path, &golden, &error), DCPK_E_NOT_FOUND);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("conform");
    TCase *tc = tcase_create("judging");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, a_wrong_result_is_said_with_its_input);
    tcase_add_loop_test(tc, a_fault_a_refusal_and_a_hang_cost_one_snippet_each, 1, 3);
    tcase_add_test(tc, what_may_not_run_on_hardware_does_not);
    tcase_add_test(tc, multicast_memory_is_only_in_snippets_that_stay_off_hardware);
    suite_add_tcase(suite, tc);
    tc = tcase_create("recorded");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, open_file, remove_file);
    tcase_add_test(tc, recorded_sums_find_the_one_input_that_changed);
    tcase_add_test(tc, recorded_results_of_approximations_say_by_how_much);
    tcase_add_test(tc, a_run_is_held_against_a_recording_of_itself);
    tcase_add_test(tc, a_damaged_recording_is_refused_by_line);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
