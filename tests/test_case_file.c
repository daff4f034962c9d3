/* test_case_file.c - case files that are good: every tensor and every number arrives, and comes back out. Refusals are
 * in test_case_rules.c. */
#include "tests/case_bytes.h"
#include "tests/tensor_bytes.h"

#include <tools/case_file.h>
#include <tools/numbers.h>
#include <check.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char why[SAFETENSORS_SENTENCE], warning[SAFETENSORS_SENTENCE];
static int warnings;
static char second_path[128];
static struct model model, other;

static const struct model_shape shapes[] = {
    /* heads dcp batch q page interleave q_lora gate padding rope expected totals salt */
    {1, 2, 4, 2, 16, 1, 1536, 1, 0, "half", true, {5, 40}, 1},
    {2, 2, 3, 1, 32, 16, 0, 0, 8, "none", false, {70, 1, 0}, 2},
    {1, 1, 2, 2, 64, 1, 1536, 0, 0, "interleaved", true, {130}, 3},
    {1, 3, 8, 4, 16, 16, 0, 1, 24, "interleaved", true, {7, -3}, 4}, /* two shards are empty; a request is padding */
    {3, 4, 4, 4, 64, 64, 0, 1, 0, "none", true, {2}, 5},             /* fewer tokens than q */
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void setup(void) {
    bytes_setup();
    snprintf(second_path, sizeof second_path, "%.60s/b.safetensors", bytes_folder);
    warnings = 0;
}

static void note(void *self, const char *text) {
    ck_assert_ptr_eq(self, &warnings);
    warnings++;
    snprintf(warning, sizeof warning, "%s", text);
}

static struct layer_case *read_case(const char *path) {
    struct layer_case *layer = NULL;
    ck_assert_msg(layer_case_read(path, &layer, note, &warnings, why), "%s", why);
    ck_assert_ptr_nonnull(layer);
    return layer;
}

static void write_case(const struct layer_case *layer, int32_t step) {
    ck_assert_msg(layer_case_write(second_path, layer, step, why), "%s", why);
}

/* Where the case in memory keeps a tensor of the file. */
static const void *member(const struct layer_case *layer, const char *name) {
    const struct layer_step *step = &layer->steps[0];
    int r = 0, skip = 0;
    if (sscanf(name, "rank%d.%n", &r, &skip) == 1) name += skip;
    const struct layer_rank_step *in = &step->rank[r];
    const struct {
        const char *name;
        const void *data;
    } members[] = {{"totals", step->totals},
                   {"cos_sin", step->cos_sin},
                   {"query", step->query},
                   {"q_a_norm", layer->q_a_norm},
                   {"kv_a_norm", layer->kv_a_norm},
                   {"w_q_b", layer->rank[r].w_q_b},
                   {"kv_b", layer->rank[r].kv_b},
                   {"kv_cache", layer->rank[r].cache},
                   {"qkv", in->qkv},
                   {"qf", in->qf},
                   {"block_table", in->block_table},
                   {"slots", in->slots},
                   {"output", in->output},
                   {"rows", in->rows},
                   {"rows_lse", in->rows_lse},
                   {"kv_cache_after", in->cache_after}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (strcmp(name, members[i].name) == 0) return members[i].data;
    }
    ck_abort_msg("no member for %s", name);
}

static void holds(const struct layer_case *layer, struct model *wanted) {
    static const char *const both[] = {"output", "rows", "rows_lse", "kv_cache_after"};
    const struct model_shape *is = &wanted->is;
    for (int i = 0; i < wanted->count; i++) {
        const struct model_tensor *tensor = &wanted->tensors[i];
        const void *data = member(layer, tensor->name);
        ck_assert_msg(data != NULL, "%s is missing", tensor->name);
        ck_assert_msg(memcmp(data, tensor->data, tensor->bytes) == 0, "%s differs", tensor->name);
    }
    for (int r = 0; r < is->dcp; r++) {
        char name[32];
        for (size_t i = 0; !is->expected && i < sizeof both / sizeof *both; i++) {
            snprintf(name, sizeof name, "rank%d.%s", r, both[i]);
            ck_assert_ptr_null(member(layer, name));
        }
        snprintf(name, sizeof name, "rank%d.qkv", r);
        ck_assert_uint_eq(layer->steps[0].rank[r].pitch, model_find(wanted, name)->shape[1]);
        snprintf(name, sizeof name, "rank%d.kv_cache", r);
        ck_assert_int_eq(layer->rank[r].pages, (int)model_find(wanted, name)->shape[0]);
        snprintf(name, sizeof name, "rank%d.block_table", r);
        ck_assert_int_eq(layer->steps[0].rank[r].max_pages, (int)model_find(wanted, name)->shape[1]);
    }
    ck_assert_ptr_eq(layer->steps[0].query, is->expected ? layer->steps[0].query : NULL);
    ck_assert_int_eq(layer->step_count, 1);
    ck_assert_int_eq(layer->heads, is->heads);
    ck_assert_int_eq(layer->dcp, is->dcp);
    ck_assert_int_eq(layer->batch, is->batch);
    ck_assert_int_eq(layer->q, is->q);
    ck_assert_int_eq(layer->page, is->page);
    ck_assert_int_eq(layer->interleave, is->interleave);
    ck_assert_int_eq(layer->q_lora, is->q_lora);
    ck_assert_int_eq(layer->gate, is->gate);
    ck_assert_int_eq(layer->cap, 64);
    ck_assert(layer->eps == 1e-6 && layer->q_scale_inv == 1 && layer->k_scale_inv == 0.5);
    ck_assert(layer->softmax_scale == 0.07216878364870322);
    ck_assert_int_eq(layer->rope, strcmp(is->rope, "none") == 0   ? ROPE_NONE
                                  : strcmp(is->rope, "half") == 0 ? ROPE_HALF
                                                                  : ROPE_INTERLEAVED);
}

START_TEST(every_tensor_and_number_arrives) {
    model_make(&model, &shapes[_i]);
    model_emit(&model, NULL);
    struct layer_case *layer = read_case(bytes_path);
    holds(layer, &model);
    ck_assert_int_eq(warnings, 0);
    ck_assert_int_eq(layer->qh, 0);
    ck_assert_int_eq(layer->tiled_from, 0);
    ck_assert_ptr_null(layer->source);
    layer_case_free(layer);
    model_free(&model);
}
END_TEST

START_TEST(a_written_case_is_the_case_and_reads_back_to_the_same_bytes) {
    size_t first_size, second_size;
    model_make(&model, &shapes[_i]);
    model_set(&model, "tiled_from", "513");
    model_set(&model, "qh", "64");
    model_set(&model, "source", "engine 1.2, layer 7, Zürich");
    model_emit(&model, NULL);
    struct layer_case *layer = read_case(bytes_path);
    write_case(layer, 0);
    model_is(&model, second_path);
    struct layer_case *again = read_case(second_path);
    holds(again, &model);
    ck_assert_int_eq(again->tiled_from, 513);
    ck_assert_int_eq(again->qh, 64);
    ck_assert_str_eq(again->source, "engine 1.2, layer 7, Zürich");
    char *first = bytes_get(second_path, &first_size);
    write_case(again, 0);
    char *second = bytes_get(second_path, &second_size);
    ck_assert_uint_eq(first_size, second_size);
    ck_assert_mem_eq(first, second, first_size);
    ck_assert_int_eq(warnings, 0);
    free(first);
    free(second);
    layer_case_free(layer);
    layer_case_free(again);
    model_free(&model);
}
END_TEST

START_TEST(optional_metadata_has_its_default_and_parity_is_no_news) {
    model_make(&model, &shapes[0]);
    model_set(&model, "q_lora", NULL);
    model_set(&model, "q_scale_inv", NULL);
    model_set(&model, "k_scale_inv", NULL);
    model_set(&model, "parity", "1");
    model_emit(&model, NULL);
    struct layer_case *layer = read_case(bytes_path);
    ck_assert_int_eq(layer->q_lora, 1536);
    ck_assert(layer->q_scale_inv == 1 && layer->k_scale_inv == 1);
    ck_assert_int_eq(warnings, 0);
    layer_case_free(layer);
    model_free(&model);
}
END_TEST

START_TEST(each_expected_tensor_may_be_missing_alone) {
    model_make(&model, &shapes[0]);
    int tried = 0;
    for (int i = 0; i < model.count; i++) {
        const char *name = model.tensors[i].name;
        if (!model.tensors[i].optional) continue;
        model_emit(&model, name);
        struct layer_case *layer = read_case(bytes_path);
        ck_assert_ptr_null(member(layer, name));
        write_case(layer, 0);
        layer_case_free(layer);
        layer = read_case(second_path);
        for (int k = 0; k < model.count; k++) {
            ck_assert_msg((member(layer, model.tensors[k].name) == NULL) == (k == i), "%s without %s",
                          model.tensors[k].name, name);
        }
        layer_case_free(layer);
        tried++;
    }
    ck_assert_int_eq(tried, 9);
    ck_assert_int_eq(warnings, 0);
    model_free(&model);
}
END_TEST

START_TEST(unknown_names_are_ignored_with_one_warning) {
    const uint64_t three[] = {3};
    model_make(&model, &shapes[1]);
    model_set(&model, "colour", "red");
    model_add(&model, "rank2.qkv", "BF16", 1, three); /* of a rank that is not there */
    model_add(&model, "cos_sin", "F32", 1, three);    /* of a rotation that is not there */
    model_add(&model, "q_a_norm", "I8", 1, three);
    model_emit(&model, NULL);
    struct layer_case *layer = read_case(bytes_path);
    ck_assert_int_eq(warnings, 1);
    const char *const named[] = {"metadata 'colour'", "tensor 'rank2.qkv'", "tensor 'cos_sin'", "tensor 'q_a_norm'"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        ck_assert_msg(strstr(warning, named[i]) != NULL, "no %s in: %s", named[i], warning);
    }
    ck_assert_ptr_null(strstr(warning, "more"));
    ck_assert_ptr_null(layer->q_a_norm);
    ck_assert_ptr_null(layer->steps[0].cos_sin);
    layer_case_free(layer);
    for (int i = 0; i < 70; i++) {
        char name[40];
        snprintf(name, sizeof name, "something.else.number.%d", i);
        model_add(&model, name, "I8", 1, three);
    }
    model_emit(&model, NULL);
    layer = read_case(bytes_path);
    ck_assert_int_eq(warnings, 2);
    int listed = 0;
    for (const char *at = strstr(warning, "tensor '"); at != NULL; at = strstr(at + 1, "tensor '")) {
        listed++;
    }
    char rest[32];
    snprintf(rest, sizeof rest, " and %d more", 73 - listed);
    ck_assert_int_ge(listed, 4);
    ck_assert_str_eq(warning + strlen(warning) - strlen(rest), rest);
    layer_case_free(layer);
    ck_assert(layer_case_read(bytes_path, &layer, NULL, NULL, why)); /* nobody listens */
    layer_case_free(layer);
    model_free(&model);
}
END_TEST

/* A small case in memory, for tests of numbers. */
static struct layer_case *small(void) {
    model_make(&model, &shapes[1]);
    model_emit(&model, NULL);
    model_free(&model);
    return read_case(bytes_path);
}

START_TEST(numbers_read_back_as_the_same_double) {
    struct layer_case *layer = small();
    struct random random;
    random_seed(&random, 7);
    const double corners[] = {0.1, 1.0 / 3, 1e-6, FLT_MIN, FLT_MAX, nextafter(1, 2), nextafter(1, 0), 123456789, 1e22};
    for (int i = 0; i < 60; i++) {
        double value =
            i < 9 ? corners[i] : ldexp(0.5 + random_uniform(&random) / 2, (int)random_below(&random, 200) - 100);
        layer->eps = layer->softmax_scale = layer->q_scale_inv = value;
        layer->k_scale_inv = 1 / value < FLT_MIN ? 1 : 1 / value;
        write_case(layer, 0);
        struct layer_case *again = read_case(second_path);
        ck_assert(again->eps == value && again->softmax_scale == value && again->q_scale_inv == value);
        ck_assert(again->k_scale_inv == layer->k_scale_inv);
        layer_case_free(again);
    }
    layer->eps = 0;
    write_case(layer, 0);
    struct layer_case *again = read_case(second_path);
    ck_assert(again->eps == 0);
    layer_case_free(again);
    layer_case_free(layer);
}
END_TEST

#ifdef __GLIBC__
/* A locale whose numbers have a comma, as glibc keeps LC_NUMERIC: magic, six offsets, then ",", "", "", ",", ".",
 * "UTF-8" (the points also as 32-bit characters). */
static void speak_with_commas(void) {
    static const unsigned char bytes[50] = {
        0x14, 0x11, 0x03, 0x20, 6, 0, 0, 0,   0x20, 0, 0, 0,   0x22, 0, 0, 0, 0x23, 0, 0, 0,   0x24, 0,   0,   0,  0x28,
        0,    0,    0,    0x2C, 0, 0, 0, ',', 0,    0, 0, ',', 0,    0, 0, 0, 0,    0, 0, 'U', 'T',  'F', '-', '8'};
    char path[128];
    snprintf(path, sizeof path, "%s/comma", bytes_folder);
    ck_assert_int_eq(setenv("LOCPATH", bytes_folder, 1), 0);
    char line[160];
    snprintf(line, sizeof line, "mkdir '%s'", path);
    ck_assert_int_eq(system(line), 0);
    strcat(path, "/LC_NUMERIC");
    bytes_put(path, bytes, sizeof bytes);
    ck_assert_ptr_nonnull(setlocale(LC_NUMERIC, "comma"));
    char number[8];
    snprintf(number, sizeof number, "%.1f", 0.5);
    ck_assert_str_eq(number, "0,5");
}

START_TEST(numbers_do_not_depend_on_the_locale) {
    speak_with_commas();
    model_make(&model, &shapes[0]);
    model_emit(&model, NULL);
    struct layer_case *layer = read_case(bytes_path);
    holds(layer, &model);
    write_case(layer, 0);
    model_is(&model, second_path);
    layer_case_free(layer);
    model_set(&model, "eps", "0,1");
    model_emit(&model, NULL);
    ck_assert(!layer_case_read(bytes_path, &layer, NULL, NULL, why));
    ck_assert_ptr_nonnull(strstr(why, "'eps'"));
    char number[8];
    snprintf(number, sizeof number, "%.1f", 0.5); /* and the caller's locale is untouched */
    ck_assert_str_eq(number, "0,5");
    model_free(&model);
}
END_TEST
#endif

START_TEST(a_step_of_many_is_written_with_the_caches_as_given) {
    struct model_shape later = shapes[0];
    later.salt = 99;
    later.totals[0] = 7, later.totals[1] = 42;
    model_make(&model, &shapes[0]);
    model_make(&other, &later);
    model_emit(&other, NULL);
    struct layer_case *second = read_case(bytes_path);
    model_emit(&model, NULL);
    struct layer_case *layer = read_case(bytes_path);
    struct layer_step *step = layer_case_step(layer);
    struct layer_step swap = *step;
    *step = second->steps[0]; /* the steps change hands */
    second->steps[0] = swap;
    for (int r = 0; r < 2; r++) {
        uint8_t *cache = layer->rank[r].cache;
        layer->rank[r].cache = second->rank[r].cache;
        second->rank[r].cache = cache;
        ck_assert_int_eq(layer->rank[r].pages, second->rank[r].pages);
    }
    write_case(layer, 1);
    model_is(&other, second_path);
    ck_assert(!layer_case_write(second_path, layer, 2, why));
    ck_assert_ptr_nonnull(strstr(why, "step 2"));
    ck_assert(!layer_case_write(second_path, layer, -1, why));
    model_is(&other, second_path);
    layer_case_free(layer);
    layer_case_free(second);
    model_free(&model);
    model_free(&other);
}
END_TEST

START_TEST(an_unsaid_cap_is_written_as_the_default_of_specs) {
    struct layer_case *layer = small();
    layer->cap = 0;
    write_case(layer, 0);
    struct layer_case *again = read_case(second_path);
    ck_assert_int_eq(again->cap, 64);
    layer_case_free(again);
    layer_case_free(layer);
    struct model_shape wide = {1, 1, 80, 8, 16, 1, 0, 0, 0, "none", false, {0}, 1}; /* all padding */
    model_make(&model, &wide);
    model_emit(&model, NULL); /* cap 64 binds mailboxes alone, and dcp = 1 has none */
    layer = read_case(bytes_path);
    layer->cap = 0;
    write_case(layer, 0);
    again = read_case(second_path);
    ck_assert_int_eq(again->cap, 80);
    layer_case_free(again);
    layer_case_free(layer);
    model_free(&model);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("case_file");
    TCase *tests = tcase_create("case_file");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, bytes_teardown);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, every_tensor_and_number_arrives, 0, SHAPES);
    tcase_add_loop_test(tests, a_written_case_is_the_case_and_reads_back_to_the_same_bytes, 0, SHAPES);
    tcase_add_test(tests, optional_metadata_has_its_default_and_parity_is_no_news);
    tcase_add_test(tests, each_expected_tensor_may_be_missing_alone);
    tcase_add_test(tests, unknown_names_are_ignored_with_one_warning);
    tcase_add_test(tests, numbers_read_back_as_the_same_double);
#ifdef __GLIBC__
    tcase_add_test(tests, numbers_do_not_depend_on_the_locale);
#endif
    tcase_add_test(tests, a_step_of_many_is_written_with_the_caches_as_given);
    tcase_add_test(tests, an_unsaid_cap_is_written_as_the_default_of_specs);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
