/* test_case_rules.c - case files that break a rule: each is refused, in a sentence that names the tensor or key and the
 * rule. Tables, slots and damage are in test_case_damage.c. */
#include "tests/case_bytes.h"
#include "tests/tensor_bytes.h"

#include <tools/case_file.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct model model;
/*                                      heads dcp batch q page I q_lora gate padding */
static const struct model_shape plain = {1, 2, 4, 2, 16, 1, 1536, 1, 0, "half", true, {5, 40}, 1};
static const struct model_shape ready = {1, 2, 4, 2, 16, 1, 0, 0, 0, "none", false, {5, 40}, 1};

/* ---- tensors --------------------------------------------------------------------------------------- */

/* What each test goes through: a case with rotation, Q_B and every expected tensor, then one with ready queries. */
static const struct model_shape *const both[] = {&plain, &ready};

START_TEST(a_missing_tensor_is_named) {
    int needed = 0;
    model_make(&model, both[_i]);
    for (int i = 0; i < model.count; i++) {
        char texts[96];
        if (model.tensors[i].optional) continue;
        snprintf(texts, sizeof texts, "'%s' is missing|%s [", model.tensors[i].name, model.tensors[i].dtype);
        model_emit(&model, model.tensors[i].name);
        case_refused(texts);
        needed++;
    }
    ck_assert_int_eq(needed, _i == 0 ? 4 + 2 * 6 : 2 + 2 * 6);
    model_free(&model);
}
END_TEST

START_TEST(a_tensor_of_another_type_is_named) {
    static const char *const twins[][2] = {{"BF16", "F16"}, {"U8", "F8_E4M3"}, {"U8", "I8"},  {"I32", "U32"},
                                           {"I32", "F32"},  {"F32", "I32"},    {"I64", "U64"}};
    int tried = 0;
    model_make(&model, both[_i]);
    for (int i = 0; i < model.count; i++) {
        struct model_tensor *tensor = &model.tensors[i];
        const char *right = tensor->dtype;
        for (size_t k = 0; k < sizeof twins / sizeof *twins; k++) {
            char texts[96];
            if (strcmp(twins[k][0], right) != 0) continue;
            tensor->dtype = twins[k][1];
            snprintf(texts, sizeof texts, "'%s' is %s [|must be %s [", tensor->name, twins[k][1], right);
            model_refused(&model, texts);
            tried++;
        }
        tensor->dtype = right;
    }
    ck_assert_int_ge(tried, model.count);
    model_free(&model);
}
END_TEST

static bool says_its_own_size(const struct model_tensor *tensor, int dimension) {
    const char *name = strncmp(tensor->name, "rank", 4) == 0 ? tensor->name + 6 : tensor->name;
    return (strcmp(name, "qkv") == 0 && dimension == 1) || (strcmp(name, "block_table") == 0 && dimension == 1) ||
           (strcmp(name, "kv_cache") == 0 && dimension == 0);
}

START_TEST(a_tensor_of_another_shape_is_named) {
    model_make(&model, both[_i]);
    for (int i = 0; i < model.count; i++) {
        struct model_tensor *tensor = &model.tensors[i], good = *tensor;
        char texts[96];
        snprintf(texts, sizeof texts, "'%s' is %s [|must be %s [", tensor->name, tensor->dtype, tensor->dtype);
        tensor->data = NULL;
        for (int d = 0; d < good.dimensions; d++) {
            for (int more = -1; more <= 1; more += 2) {
                uint64_t shape[4];
                memcpy(shape, good.shape, sizeof shape);
                shape[d] += (uint64_t)(int64_t)more;
                if (says_its_own_size(tensor, d)) continue;
                model_reshape(tensor, good.dimensions, shape);
                model_refused(&model, texts);
            }
        }
        const uint64_t flat = good.bytes, longer[] = {good.shape[0], good.shape[1], good.shape[2], 1};
        uint64_t more[4] = {longer[0], longer[1], longer[2], longer[3]};
        more[good.dimensions] = 1;
        model_reshape(tensor, good.dimensions + 1, more);
        model_refused(&model, texts);
        model_reshape(tensor, 0, more);
        model_refused(&model, texts);
        if (strcmp(good.dtype, "U8") == 0) {
            model_reshape(tensor, 1, &flat); /* the right bytes in one row */
            model_refused(&model, texts);
        }
        free(tensor->data);
        *tensor = good;
    }
    model_accepted(&model);
    model_free(&model);
}
END_TEST

START_TEST(sizes_that_only_shapes_say_must_agree_and_suffice) {
    model_make(&model, &plain);
    struct model_tensor *cache = model_find(&model, "rank1.kv_cache");
    struct model_tensor *after = model_find(&model, "rank1.kv_cache_after");
    uint64_t pages = cache->shape[0];
    ck_assert_uint_eq(pages, 1 + 2 + 1); /* 2 and 20 tokens, and one page to spare */
    const uint64_t more[] = {pages + 1, 16, 576};
    model_reshape(cache, 3, more);
    model_refused(&model, "'rank1.kv_cache_after' is U8 [4, 16, 576]|U8 [pages 5, page 16, kv row 576]");
    model_reshape(after, 3, more);
    model_accepted(&model);
    const uint64_t fewer[] = {pages - 1, 16, 576};
    model_reshape(cache, 3, fewer);
    model_reshape(after, 3, fewer);
    model_refused(&model, "rank1.block_table|a live page; the cache has 3 pages");
    model_reshape(cache, 3, more);
    model_reshape(after, 3, more);
    struct model_tensor *qkv = model_find(&model, "rank0.qkv");
    for (uint64_t pitch = 2112 + 128 - 8; pitch <= 2112 + 128 + 8; pitch++) {
        const uint64_t shape[] = {4, pitch};
        model_reshape(qkv, 2, shape);
        if (pitch == 2112 + 128 || pitch == 2112 + 128 + 8) {
            model_accepted(&model);
        } else {
            model_refused(&model, "rank0.qkv|2240|multiple of 8");
        }
    }
    model_free(&model);
    for (int lora = 0; lora <= 1; lora++) { /* without a gate the row ends at 2112, or 576 */
        struct model_shape shape = ready;
        shape.q_lora = lora ? 1536 : 0;
        model_make(&model, &shape);
        const uint64_t narrow[] = {4, lora ? 2112 - 8 : 576 - 8};
        model_reshape(model_find(&model, "rank1.qkv"), 2, narrow);
        model_refused(&model, lora ? "rank1.qkv|2112" : "rank1.qkv|576");
        model_free(&model);
    }
}
END_TEST

/* ---- metadata -------------------------------------------------------------------------------------- */

START_TEST(missing_metadata_is_named) {
    static const char *const needed[] = {"format",     "heads", "dcp", "batch",         "q",    "cap",
                                         "interleave", "page",  "eps", "softmax_scale", "gate", "rope"};
    model_make(&model, &ready);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        char texts[64], value[64];
        snprintf(value, sizeof value, "%s", model_text(&model, needed[i]));
        model_set(&model, needed[i], NULL);
        snprintf(texts, sizeof texts, "metadata '%s' is missing", needed[i]);
        model_refused(&model, texts);
        model_set(&model, needed[i], value);
    }
    model_accepted(&model);
    model_free(&model);
    bytes_tensors("{}", NULL, 0);
    case_refused("'format' is missing|dcpk-case-1");
}
END_TEST

static void text_refused(const char *key, const char *value) {
    char texts[64], before[64] = "";
    const char *there = model_text(&model, key);
    if (there != NULL) snprintf(before, sizeof before, "%s", there);
    model_set(&model, key, value);
    snprintf(texts, sizeof texts, "metadata '%s' is '%.20s", key, value);
    model_refused(&model, texts);
    model_set(&model, key, there != NULL ? before : NULL);
}

START_TEST(metadata_that_is_no_number_of_its_kind_is_refused) {
    static const char *const wholes[] = {"heads", "dcp",        "batch",  "q",    "cap",       "qh",
                                         "page",  "interleave", "q_lora", "gate", "tiled_from"};
    static const char *const reals[] = {"eps", "softmax_scale", "q_scale_inv", "k_scale_inv"};
    static const char *const no_whole[] = {"",
                                           " 1",
                                           "1 ",
                                           "+1",
                                           "-1",
                                           "0x1",
                                           "1.0",
                                           "1e0",
                                           "01",
                                           "one",
                                           "2147483648",
                                           "4294967297",
                                           "999999999999999999999999"};
    static const char *const no_real[] = {"",      " 1",  "1 ",  "+1",  "-1",   "0x1p-3", "nan",   "inf",
                                          "-inf",  "1,5", ".5",  "1.",  "1e",   "1e+",    "1e999", "1e-3x",
                                          "1.0.0", "--1", "1_0", "1 0", "1e39", "1d-3",   "e5",    "-0.5"};
    model_make(&model, &ready);
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        for (size_t k = 0; k < sizeof no_whole / sizeof *no_whole; k++) {
            text_refused(wholes[i], no_whole[k]);
        }
    }
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        for (size_t k = 0; k < sizeof no_real / sizeof *no_real; k++) {
            text_refused(reals[i], no_real[k]);
        }
        if (i > 0) text_refused(reals[i], "0");
        if (i > 0) text_refused(reals[i], "1e-39");
    }
    text_refused("rope", "");
    text_refused("rope", "None");
    text_refused("rope", "halfway");
    text_refused("format", "dcpk-case-2");
    text_refused("format", "dcpk-case-1 ");
    model_accepted(&model);
    model_set(&model, "eps", "0");
    model_set(&model, "softmax_scale", "12.5E-02");
    model_emit(&model, NULL);
    struct layer_case *layer = case_accepted();
    ck_assert(layer->eps == 0 && layer->softmax_scale == 0.125);
    layer_case_free(layer);
    model_free(&model);
}
END_TEST

START_TEST(sizes_outside_their_domain_are_refused) {
    static const struct {
        const char *key, *value, *says;
    } bad[] = {{"heads", "0", "'heads'|1 to 128"},
               {"heads", "129", "'heads'|1 to 128"},
               {"heads", "257", "'heads'"},
               {"heads", "999999999", "'heads'"},
               {"dcp", "0", "'dcp'|1 to 32"},
               {"dcp", "33", "'dcp'|1 to 32"},
               {"batch", "0", "'batch'|1 to 512"},
               {"batch", "513", "'batch'"},
               {"batch", "3", "q (2) must divide batch (3)"},
               {"q", "0", "'q'|1 to 8"},
               {"q", "9", "'q'"},
               {"q", "3", "q (3) must divide batch (4)"},
               {"cap", "0", "'cap'"},
               {"cap", "3", "cap (3)|batch (4)"},
               {"cap", "513", "'cap'"},
               {"qh", "1", "qh (1)|dcp * heads (2)"},
               {"qh", "0", ""},
               {"page", "24", "page is 24|16, 32 or 64"},
               {"page", "8", "'page'"},
               {"page", "128", "'page'"},
               {"interleave", "0", "'interleave'"},
               {"interleave", "3", "interleave (3) must divide page (16)"},
               {"interleave", "32", "interleave (32) must divide page (16)"},
               {"q_lora", "512", "q_lora is 512|1536 or 0"},
               {"q_lora", "1537", "'q_lora'"},
               {"gate", "2", "'gate'"},
               {"tiled_from", "514", "'tiled_from'"}};
    model_make(&model, &ready);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char before[64] = "";
        const char *there = model_text(&model, bad[i].key);
        if (there != NULL) snprintf(before, sizeof before, "%s", there);
        model_set(&model, bad[i].key, bad[i].value);
        model_refused(&model, bad[i].says);
        model_set(&model, bad[i].key, there != NULL ? before : NULL);
    }
    model_set(&model, "heads", "128");
    model_set(&model, "dcp", "8");
    model_refused(&model, "dcp * heads * q is 2048|1024");
    model_free(&model);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("case_rules");
    TCase *tests = tcase_create("case_rules");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, bytes_setup, bytes_teardown);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, a_missing_tensor_is_named, 0, 2);
    tcase_add_loop_test(tests, a_tensor_of_another_type_is_named, 0, 2);
    tcase_add_loop_test(tests, a_tensor_of_another_shape_is_named, 0, 2);
    tcase_add_test(tests, sizes_that_only_shapes_say_must_agree_and_suffice);
    tcase_add_test(tests, missing_metadata_is_named);
    tcase_add_test(tests, metadata_that_is_no_number_of_its_kind_is_refused);
    tcase_add_test(tests, sizes_outside_their_domain_are_refused);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
