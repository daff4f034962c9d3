/* test_case_damage.c - case files whose numbers or bytes are wrong: tables, slots and totals that do not fit together,
 * cut files, changed headers; and cases in memory that must not become files. */
#include "tests/case_bytes.h"
#include "tests/tensor_bytes.h"

#include <tools/case_file.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct model model;
/*                                      heads dcp batch q page I q_lora gate padding */
static const struct model_shape plain = {1, 2, 4, 2, 16, 1, 1536, 1, 0, "half", true, {5, 40}, 1};
static const struct model_shape ready = {1, 2, 4, 2, 16, 1, 0, 0, 0, "none", false, {5, 40}, 1};

/* ---- tables and slots ------------------------------------------------------------------------------ */

/* One number of a tensor put in place of another for one reading. */
static void number_refused(const char *name, int at, int64_t value, const char *texts) {
    struct model_tensor *tensor = model_find(&model, name);
    bool wide = strcmp(tensor->dtype, "I64") == 0;
    int32_t *narrow_at = (int32_t *)tensor->data + at;
    int64_t *wide_at = (int64_t *)tensor->data + at, before = wide ? *wide_at : *narrow_at;
    if (wide) {
        *wide_at = value;
    } else {
        *narrow_at = (int32_t)value;
    }
    if (texts == NULL) {
        model_accepted(&model);
    } else {
        model_refused(&model, texts);
    }
    if (wide) {
        *wide_at = before;
    } else {
        *narrow_at = (int32_t)before;
    }
}

/* Request 0 has 5 tokens (3 on rank 0, 2 on rank 1), request 1 has 40 (20 each, two pages). Rows 0 and 1 are positions
 * 3 and 4, rows 2 and 3 are 38 and 39. Pages count down from 3: request 0 has 3, request 1 has 2 and 1. */
START_TEST(page_ids_and_slots_keep_their_rules) {
    model_make(&model, &ready);
    static const int32_t table[] = {3, -1, -1, 2, 1, -1};
    static const int64_t zero[] = {-1, 3 * 16 + 2, 16 + 3, -1}, one[] = {3 * 16 + 1, -1, -1, 16 + 3};
    ck_assert_mem_eq(model_find(&model, "rank0.block_table")->data, table, sizeof table);
    ck_assert_mem_eq(model_find(&model, "rank1.block_table")->data, table, sizeof table);
    ck_assert_mem_eq(model_find(&model, "rank0.slots")->data, zero, sizeof zero);
    ck_assert_mem_eq(model_find(&model, "rank1.slots")->data, one, sizeof one);
    number_refused("rank1.block_table", 0, 4, "rank1.block_table[0][0] is 4|the cache has 4 pages");
    number_refused("rank1.block_table", 0, -1, "rank1.block_table[0][0] is -1");
    number_refused("rank0.block_table", 4, INT32_MAX, "rank0.block_table[1][1] is 2147483647");
    number_refused("rank0.block_table", 3, INT32_MIN, "rank0.block_table[1][0] is -2147483648");
    number_refused("rank0.block_table", 1, 77, NULL); /* past the live pages: anything */
    number_refused("rank0.block_table", 5, INT32_MIN, NULL);
    number_refused("rank0.slots", 2, 64, "rank0.slots[2] is 64|-1 to 63");
    number_refused("rank0.slots", 2, -2, "rank0.slots[2] is -2");
    number_refused("rank0.slots", 2, INT64_MAX, "rank0.slots[2] is 9223372036854775807");
    number_refused("rank0.slots", 2, INT64_MIN, "rank0.slots[2]");
    number_refused("rank0.slots", 2, -1, "rank0.slots[2] is -1|position 38|at 19");
    number_refused("rank0.slots", 2, 18, "rank0.slots[2] is 18|at 19");
    number_refused("rank0.slots", 0, 3 * 16 + 1, "rank0.slots[0] is 49|so it is -1"); /* the other rank's token */
    number_refused("rank1.slots", 3, 3 * 16 + 1, "rank1.slots[3] is 49|at 19");
    /* Both requests store into one page at one place: 5 and 37 tokens end at local 2 and 18, of one page. */
    int32_t *shared = model_find(&model, "rank0.block_table")->data;
    int64_t *slots = model_find(&model, "rank0.slots")->data;
    ((int32_t *)model_find(&model, "totals")->data)[1] = 37;
    shared[4] = 3;
    slots[2] = -1, slots[3] = 3 * 16 + 2;
    int64_t *others = model_find(&model, "rank1.slots")->data;
    others[2] = 16 + 1, others[3] = -1;
    model_refused(&model, "rank0.slots: rows 1 and 3 both store at 50");
    model_free(&model);
}
END_TEST

START_TEST(totals_that_no_table_holds_are_refused_at_once) {
    model_make(&model, &ready);
    number_refused("totals", 1, INT32_MAX, "totals[1] is 2147483647|room for 96 tokens");
    number_refused("totals", 1, 97, "totals[1] is 97|room for 96");
    number_refused("totals", 0, 96, "block_table[0][1] is -1");
    number_refused("totals", 1, 66, "rank0.block_table[1][2] is -1");
    number_refused("totals", 1, 0, "rank0.slots[2] is 19|so it is -1"); /* padding stores nothing */
    number_refused("totals", 1, INT32_MIN, "rank0.slots[2] is 19|so it is -1");
    number_refused("totals", 1, 1, "rank0.slots[2]");
    int32_t *totals = model_find(&model, "totals")->data;
    memset(model_find(&model, "rank0.slots")->data, 0xFF, 32);
    memset(model_find(&model, "rank1.slots")->data, 0xFF, 32);
    totals[0] = 0, totals[1] = INT32_MIN;
    model_accepted(&model);
    model_free(&model);
}
END_TEST

/* ---- writing --------------------------------------------------------------------------------------- */

static void write_refused(const struct layer_case *layer, const char *texts) {
    ck_assert_msg(!layer_case_write(bytes_path, layer, 0, case_why), "written, but wanted '%s'", texts);
    case_says(texts);
}

START_TEST(what_would_be_refused_is_not_written) {
    size_t size, after;
    model_make(&model, &plain);
    model_emit(&model, NULL);
    struct layer_case *layer = case_accepted();
    struct layer_rank_step *in = &layer->steps[0].rank[1];
    char *old = bytes_get(bytes_path, &size);
    struct layer_case spoilt = *layer;
    spoilt.q_a_norm = NULL;
    write_refused(&spoilt, "'q_a_norm' is missing|BF16 [q_lora 1536]");
    spoilt = *layer, spoilt.rank[1].w_q_b = NULL;
    write_refused(&spoilt, "'rank1.w_q_b' is missing");
    spoilt = *layer, spoilt.rank[0].pages = -1;
    write_refused(&spoilt, "'rank0.kv_cache'|pages");
    spoilt = *layer, spoilt.rank[0].pages = 2;
    write_refused(&spoilt, "rank0.block_table");
    spoilt = *layer, spoilt.heads = 0;
    write_refused(&spoilt, "'heads' is '0'");
    spoilt = *layer, spoilt.eps = -1;
    write_refused(&spoilt, "'eps'");
    spoilt = *layer, spoilt.softmax_scale = 0.0 / (spoilt.eps * 0);
    write_refused(&spoilt, "'softmax_scale'");
    spoilt = *layer, spoilt.k_scale_inv = 0;
    write_refused(&spoilt, "'k_scale_inv'");
    spoilt = *layer, spoilt.cap = 3;
    write_refused(&spoilt, "cap (3)");
    spoilt = *layer, spoilt.rope = (enum reference_rope)3;
    write_refused(&spoilt, "rope");
    char latin[] = "Z\xfcrich";
    spoilt = *layer, spoilt.source = latin;
    write_refused(&spoilt, "'source'|UTF-8");
    in->slots[0]++;
    write_refused(layer, "rank1.slots[0]");
    in->slots[0]--;
    in->pitch++;
    write_refused(layer, "rank1.qkv");
    in->pitch--;
    float *cos_sin = layer->steps[0].cos_sin;
    layer->steps[0].cos_sin = NULL;
    write_refused(layer, "'cos_sin' is missing|F32 [batch 4, rope 64]");
    layer->steps[0].cos_sin = cos_sin;
    char *same = bytes_get(bytes_path, &after);
    ck_assert_uint_eq(size, after);
    ck_assert_mem_eq(old, same, size);
    ck_assert_int_eq(bytes_names(), 1);
    ck_assert_msg(layer_case_write(bytes_path, layer, 0, case_why), "%s", case_why);
    free(old);
    free(same);
    layer_case_free(layer);
    model_free(&model);
}
END_TEST

/* ---- damage ---------------------------------------------------------------------------------------- */

START_TEST(a_cut_file_is_refused_wherever_it_ends) {
    struct stat state;
    model_make(&model, &ready);
    model_emit(&model, NULL);
    layer_case_free(case_accepted());
    ck_assert_int_eq(stat(bytes_path, &state), 0);
    for (off_t size = state.st_size - 1; size >= 0; size -= size > 6000 ? 97 : 1) {
        ck_assert_int_eq(truncate(bytes_path, size), 0);
        case_refused("");
    }
    model_free(&model);
}
END_TEST

START_TEST(no_changed_byte_of_the_header_does_harm) {
    size_t size, good = 0, bad = 0;
    model_make(&model, &ready);
    model_emit(&model, NULL);
    unsigned char *bytes = bytes_get(bytes_path, &size);
    size_t header = bytes[0] | (size_t)bytes[1] << 8;
    static const unsigned char flips[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80};
    for (size_t at = 0; at < 8 + header; at++) {
        for (size_t i = 0; i < sizeof flips; i++) {
            struct layer_case *layer = NULL;
            bytes_poke(at, (char)(bytes[at] ^ flips[i]));
            case_why[0] = '\0';
            if (layer_case_read(bytes_path, &layer, NULL, NULL, case_why)) {
                ck_assert_int_eq(layer->steps[0].totals[1], 40); /* not read from elsewhere */
                good++;
            } else {
                case_says("");
                bad++;
            }
            layer_case_free(layer);
        }
        bytes_poke(at, (char)bytes[at]);
    }
    ck_assert_uint_gt(bad, 10 * good);
    ck_assert_uint_gt(good, 0);
    free(bytes);
    model_free(&model);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("case_damage");
    TCase *tests = tcase_create("case_damage");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, bytes_setup, bytes_teardown);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, page_ids_and_slots_keep_their_rules);
    tcase_add_test(tests, totals_that_no_table_holds_are_refused_at_once);
    tcase_add_test(tests, what_would_be_refused_is_not_written);
    tcase_add_test(tests, a_cut_file_is_refused_wherever_it_ends);
    tcase_add_test(tests, no_changed_byte_of_the_header_does_harm);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
