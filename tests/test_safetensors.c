/* test_safetensors.c - the tensor file format: what is read, what is refused and in which words, what is written. Files
 * to read are made by hand, files that were written are held against bytes made by hand. */
#include "tests/tensor_bytes.h"

#include <tools/safetensors.h>
#include <tools/whole_file.h>
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char why[SAFETENSORS_SENTENCE];
static struct safetensors file;
static const char data[64] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-";

static void opened(void) {
    ck_assert_msg(safetensors_open(bytes_path, &file, why), "%s", why);
}

/* The reader refuses bytes_path, and says all of `texts` (apart by '|'). */
static void refused(const char *texts) {
    why[0] = '\0';
    ck_assert_msg(!safetensors_open(bytes_path, &file, why), "not refused: wanted '%s'", texts);
    char list[256];
    snprintf(list, sizeof list, "%s", texts);
    for (char *state, *text = strtok_r(list, "|", &state); text != NULL; text = strtok_r(NULL, "|", &state)) {
        ck_assert_msg(strstr(why, text) != NULL, "no '%s' in: %s", text, why);
    }
    for (const char *c = why; *c; c++) {
        ck_assert_msg(*c >= ' ' && *c <= '~', "byte %d in: %s", *c, why);
    }
}

/* ---- reading ------------------------------------------------------------------------------------- */

START_TEST(tensors_come_with_name_type_shape_and_bytes) {
    bytes_tensors(
        "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,1,3],\"data_offsets\":[3,27]},\"__metadata__\":{\"k\":\"v \\u00e9\","
        "\"a\":\"\"},\"a\":{\"data_offsets\":[0,3],\"shape\":[3],\"dtype\":\"U8\",\"more\":[1]}}   ",
        data, 27);
    opened();
    ck_assert_uint_eq(file.count, 2);
    ck_assert_uint_eq(file.text_count, 2);
    ck_assert_str_eq(file.texts[0].key, "k");
    ck_assert_str_eq(safetensors_metadata(&file, "k"), "v \xc3\xa9");
    ck_assert_str_eq(safetensors_metadata(&file, "a"), "");
    ck_assert_ptr_null(safetensors_metadata(&file, "b"));
    const struct safetensors_tensor *b = safetensors_find(&file, "b"), *a = safetensors_find(&file, "a");
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ck_assert_ptr_null(safetensors_find(&file, "__metadata__"));
    ck_assert_ptr_null(safetensors_find(&file, "ab"));
    ck_assert_int_eq(b->dtype, SAFETENSORS_F32);
    ck_assert_uint_eq(b->dimensions, 3);
    ck_assert_uint_eq(b->shape[0] * 100 + b->shape[1] * 10 + b->shape[2], 213);
    ck_assert_uint_eq(b->bytes, 24);
    char got[25] = "";
    ck_assert(safetensors_read(&file, b, got, why)); /* from an odd place */
    ck_assert_str_eq(got, "3456789abcdefghijklmnopq");
    memset(got, 0, sizeof got);
    ck_assert(safetensors_read(&file, a, got, why));
    ck_assert_str_eq(got, "012");
    safetensors_close(&file);
}
END_TEST

START_TEST(scalars_and_empty_tensors_are_tensors) {
    bytes_tensors(
        "{\"e\":{\"dtype\":\"I64\",\"shape\":[4,0],\"data_offsets\":[4,4]},\"s\":{\"dtype\":\"I32\",\"shape\":[],"
        "\"data_offsets\":[0,4]},\"z\":{\"dtype\":\"BF16\",\"shape\":[0],\"data_offsets\":[0,0]}}",
        data, 4);
    opened();
    ck_assert_uint_eq(safetensors_find(&file, "s")->bytes, 4);
    ck_assert_uint_eq(safetensors_find(&file, "s")->dimensions, 0);
    ck_assert_uint_eq(safetensors_find(&file, "e")->bytes, 0);
    ck_assert_uint_eq(safetensors_find(&file, "z")->bytes, 0);
    safetensors_close(&file);
    bytes_tensors("{}\r\n\t ", NULL, 0);
    opened();
    ck_assert_uint_eq(file.count, 0);
    ck_assert_ptr_null(safetensors_find(&file, "a"));
    safetensors_close(&file);
}
END_TEST

START_TEST(every_dtype_has_its_width) {
    static const struct {
        const char *name;
        int bits;
    } known[] = {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
                 {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
                 {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
                 {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}};
    ck_assert_int_eq(sizeof known / sizeof *known, SAFETENSORS_DTYPE_COUNT);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char header[128];
        snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"%s\",\"shape\":[2,4],\"data_offsets\":[0,%d]}}",
                 known[i].name, known[i].bits);
        bytes_tensors(header, data, (size_t)known[i].bits);
        opened();
        ck_assert_str_eq(safetensors_dtype_name(file.tensors[0].dtype), known[i].name);
        safetensors_close(&file);
    }
    bytes_tensors("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", data, 1);
    refused("'a'|whole bytes");
}
END_TEST

/* One tensor named t between two good ones. */
#define AROUND(entry)                                                                                                  \
    "{\"p\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},\"t\":" entry                                      \
    ",\"q\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[16,24]}}"

START_TEST(entries_that_break_a_rule_are_refused_by_name) {
    static const struct {
        const char *header, *says;
    } bad[] = {
        {AROUND("[]"), "'t'|object"},
        {AROUND("1"), "'t'|object"},
        {AROUND("null"), "'t'|object"},
        {AROUND("{}"), "'t'|dtype"},
        {AROUND("{\"shape\":[8],\"data_offsets\":[8,16]}"), "'t'|dtype"},
        {AROUND("{\"dtype\":1,\"shape\":[8],\"data_offsets\":[8,16]}"), "'t'|dtype"},
        {AROUND("{\"dtype\":\"u8\",\"shape\":[8],\"data_offsets\":[8,16]}"), "'t'|'u8'"},
        {AROUND("{\"dtype\":\"F33\",\"shape\":[8],\"data_offsets\":[8,16]}"), "'t'|'F33'"},
        {AROUND("{\"dtype\":\"U8\",\"data_offsets\":[8,16]}"), "'t'|shape"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":8,\"data_offsets\":[8,16]}"), "'t'|shape"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":{\"0\":8},\"data_offsets\":[8,16]}"), "'t'|shape"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[2,-4],\"data_offsets\":[8,16]}"), "'t'|shape[1]"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8.0],\"data_offsets\":[8,16]}"), "'t'|shape[0]"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[\"8\"],\"data_offsets\":[8,16]}"), "'t'|shape[0]"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8,null],\"data_offsets\":[8,16]}"), "'t'|shape[1]"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[[8]],\"data_offsets\":[8,16]}"), "'t'|shape[0]"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[8,8]}"), "'t'|2^64"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[8,8]}"), "'t'|2^64"},
        {AROUND("{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[8,8]}"), "'t'|2^64"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[9223372036854775807],\"data_offsets\":[8,16]}"), "'t'|2^64"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[9223372036854775808],\"data_offsets\":[8,16]}"),
         "9223372036854775808|byte"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8]}"), "'t'|data_offsets"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8]}"), "'t'|data_offsets"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16,24]}"), "'t'|data_offsets"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":{\"begin\":8,\"end\":16}}"), "'t'|data_offsets"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8.0,16]}"), "'t'|data_offsets"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[\"8\",16]}"), "'t'|data_offsets"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[16,8]}"), "'t'|[16, 8]"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[-8,0]}"), "'t'|[-8, 0]"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,15]}"), "'t'|[8, 15]|7 bytes|8"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,17]}"), "'t'|[8, 17]|9 bytes"},
        {AROUND("{\"dtype\":\"F64\",\"shape\":[8],\"data_offsets\":[8,16]}"), "'t'|F64 is 64"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[24,32]}"), "'t'|outside the file|24 bytes"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[9223372036854775799,9223372036854775807]}"),
         "'t'|outside the file"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[7,15]}"), "'t'|overlaps|'p'"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[9,17]}"), "bytes 8 to 9|'t'"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}"), "overlaps|'t'|'p'"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}"), "'t'|overlaps|'p'"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[7],\"data_offsets\":[8,15]}"), "bytes 15 to 16|'q'"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[8,17]}"), "'q'|overlaps|'t'"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}"), "'t'|overlaps|'p'"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"shape\":[8],\"data_offsets\":[8,16]}"), "duplicate|shape"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]},\"t\":{\"dtype\":\"U8\",\"shape\":[8],"
                "\"data_offsets\":[8,16]}"),
         "duplicate|\"t\""},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]},\"\\u0074\":{}"), "duplicate"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]},\"__metadata__\":[]"), "__metadata__"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]},\"__metadata__\":null"), "__metadata__"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]},\"__metadata__\":{\"k\":1}"), "'k'|string"},
        {AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]},\"__metadata__\":{\"k\":\"1\",\"k\":\"1\"}"),
         "duplicate"},
    };
    bytes_tensors(AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]}"), data, 24);
    opened();
    safetensors_close(&file);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bytes_tensors(bad[i].header, data, 24);
        refused(bad[i].says);
    }
    bytes_tensors(AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]}"), data, 25);
    refused("last 1 bytes");
    bytes_tensors(AROUND("{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]}"), data, 23);
    refused("'q'|outside the file|cut short");
}
END_TEST

START_TEST(headers_that_break_a_rule_are_refused) {
    static const uint64_t lengths[] = {
        3, 8, 100000000, 100000001, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char number[32];
        snprintf(number, sizeof number, "header of %llu", (unsigned long long)lengths[i]);
        bytes_file(lengths[i], "{}", 2, NULL, 0);
        refused(number);
    }
    for (size_t size = 0; size < 8; size++) {
        bytes_put(bytes_path, "\2\0\0\0\0\0\0\0", size);
        refused("bytes|8");
    }
    bytes_put(bytes_path, "\0\0\0\0\0\0\0\0", 8);
    refused("'{'");
    static const struct {
        const char *header, *says;
    } bad[] = {{" {}", "'{'"},
               {"[]", "'{'"},
               {"\"a\"", "'{'"},
               {"\xef\xbb\xbf{}", "'{'"},
               {"{", "not JSON"},
               {"{}x", "not JSON"},
               {"{}{}", "not JSON"},
               {"{\"a\":}", "not JSON"},
               {"{'a':{}}", "not JSON"},
               {"{\"a\":{\"dtype\":\"U8\",}}", "not JSON"},
               {"{\"a\xff\":{}}", "not JSON|unable to decode byte 0x"},
               {"{\"\xc0\x80\":{}}", "not JSON|unable to decode byte 0x"},
               {"{\"\xed\xa0\x80\":{}}", "not JSON|unable to decode byte 0x"},
               {"{\"\\ud800\":{}}", "not JSON"},
               {"{\"a\\u0000b\":{}}", "not JSON"},
               {"{\"a\":{\"shape\":[1e999]}}", "not JSON"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bytes_tensors(bad[i].header, NULL, 0);
        refused(bad[i].says);
    }
    bytes_file(4, "{}\0\0", 4, NULL, 0);
    refused("not JSON");
    static char deep[200000];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"a\":", 5);
    bytes_file(sizeof deep, deep, sizeof deep, NULL, 0);
    refused("not JSON");
}
END_TEST

START_TEST(names_of_the_file_do_not_reach_the_terminal_raw) {
    bytes_tensors("{\"\\u001b[2J\\u0007\xc2\x9b\":{\"dtype\":\"\\n\\r\"}}", NULL, 0);
    refused("tensor '\?[2J\?\?\?'|'\?\?'");
    static char header[100000];
    memset(header, 'n', sizeof header);
    memcpy(header, "{\"", 2);
    memcpy(header + sizeof header - 6, "\":{}}", 6);
    bytes_tensors(header, NULL, 0);
    refused("nnnn'|dtype");
}
END_TEST

START_TEST(what_is_no_regular_file_is_refused_at_once) {
    refused("No such file");
    ck_assert_int_eq(mkdir(bytes_path, 0700), 0);
    refused("not a regular file");
    ck_assert_int_eq(rmdir(bytes_path), 0);
    ck_assert_int_eq(mkfifo(bytes_path, 0600), 0);
    refused("not a regular file");
}
END_TEST

START_TEST(a_file_cut_while_open_is_an_error_not_a_crash) {
    bytes_tensors("{\"a\":{\"dtype\":\"U8\",\"shape\":[64],\"data_offsets\":[0,64]}}", data, 64);
    opened();
    char got[64];
    ck_assert_int_eq(truncate(bytes_path, 80), 0);
    ck_assert(!safetensors_read(&file, &file.tensors[0], got, why));
    ck_assert_ptr_nonnull(strstr(why, "'a'"));
    ck_assert_ptr_nonnull(strstr(why, "ends at byte 80"));
    safetensors_close(&file);
}
END_TEST

START_TEST(no_header_byte_changed_or_cut_does_harm) {
    static const char header[] =
        "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"U8\",\"shape\":[2,4],\"data_offsets\":[0,8]"
        "},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}";
    bytes_tensors(header, data, 16);
    for (size_t at = 0; at < sizeof header - 1; at++) {
        for (int to = 0; to < 256; to++) {
            bytes_poke(8 + at, (char)to);
            if (!safetensors_open(bytes_path, &file, why)) continue;
            for (size_t t = 0; t < file.count; t++) {
                char got[16];
                ck_assert_uint_le(file.tensors[t].bytes, sizeof got);
                ck_assert(safetensors_read(&file, &file.tensors[t], got, why));
            }
            safetensors_close(&file);
        }
        bytes_poke(8 + at, header[at]);
    }
    for (off_t size = (off_t)sizeof header - 1 + 8 + 16 - 1; size >= 0; size--) {
        ck_assert_int_eq(truncate(bytes_path, size), 0);
        refused("");
    }
}
END_TEST

/* ---- writing ------------------------------------------------------------------------------------- */

static bool write_items(const struct safetensors_item *items, size_t count) {
    return safetensors_write(bytes_path, NULL, 0, items, count, why);
}

START_TEST(a_written_file_has_exactly_these_bytes) {
    static const struct safetensors_text texts[] = {{"z", "1"}, {"a", "\"\xc3\xa9/\n"}};
    static const struct safetensors_item items[] = {{"bytes", SAFETENSORS_U8, 2, {1, 3}, data},
                                                    {"half", SAFETENSORS_BF16, 1, {1}, data + 3},
                                                    {"none", SAFETENSORS_I64, 2, {0, 5}, NULL},
                                                    {"wide", SAFETENSORS_I64, 0, {0}, data + 5},
                                                    {"more \"half\"", SAFETENSORS_F16, 1, {2}, data + 13}};
    static const char header[] = "{\"__metadata__\":{\"z\":\"1\",\"a\":\"\\\"\xc3\xa9/\\n\"},"
                                 "\"none\":{\"dtype\":\"I64\",\"shape\":[0,5],\"data_offsets\":[0,0]},"
                                 "\"wide\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                                 "\"half\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[8,10]},"
                                 "\"more \\\"half\\\"\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[10,14]},"
                                 "\"bytes\":{\"dtype\":\"U8\",\"shape\":[1,3],\"data_offsets\":[14,17]}}";
    char wanted[600];
    size_t length = sizeof header - 1, padded = (length + 7) & ~(size_t)7;
    memset(wanted, ' ', sizeof wanted);
    memset(wanted, 0, 8);
    wanted[0] = (char)(padded & 255), wanted[1] = (char)(padded >> 8);
    memcpy(wanted + 8, header, length);
    memcpy(wanted + 8 + padded,
           "56789abc"
           "34"
           "defg"
           "012",
           17);
    ck_assert_msg(safetensors_write(bytes_path, texts, 2, items, 5, why), "%s", why);
    size_t size;
    char *got = bytes_get(bytes_path, &size);
    ck_assert_uint_eq(size, 8 + padded + 17);
    ck_assert_mem_eq(got, wanted, size);
    free(got);
    opened(); /* and the reader agrees */
    ck_assert_uint_eq(file.count, 5);
    safetensors_close(&file);
}
END_TEST

START_TEST(what_cannot_be_read_back_is_not_written) {
    static const struct {
        struct safetensors_item item[2];
        const char *says;
    } bad[] = {
        {{{"a", SAFETENSORS_U8, 1, {1}, data}, {"a", SAFETENSORS_U8, 1, {1}, data}}, "'a' is given twice"},
        {{{"a", SAFETENSORS_U8, 1, {1}, data}, {"__metadata__", SAFETENSORS_U8, 1, {1}, data}}, "'__metadata__'"},
        {{{"a", SAFETENSORS_U8, 1, {1}, data}, {"b\xff", SAFETENSORS_U8, 1, {1}, data}}, "UTF-8"},
        {{{"a", SAFETENSORS_U8, 1, {1}, data}, {"b", SAFETENSORS_U8, 1, {1}, NULL}}, "'b' has no data"},
        {{{"a", SAFETENSORS_U8, 1, {1}, data}, {"b", SAFETENSORS_F4, 1, {3}, data}}, "'b'"},
        {{{"a", SAFETENSORS_U8, 1, {1}, data}, {"b", SAFETENSORS_U8, 9, {1, 1, 1, 1, 1, 1, 1, 1}, data}}, "'b'"},
        {{{"a", SAFETENSORS_U8, 1, {1}, data}, {"b", SAFETENSORS_U8, 2, {UINT64_MAX, 2}, data}}, "'b'"},
        {{{"a", SAFETENSORS_U8, 1, {1}, data}, {"b", SAFETENSORS_U8, 2, {0, UINT64_C(1) << 63}, data}}, "'b'"},
        {{{"a", SAFETENSORS_U8, 1, {1}, data}, {"b", SAFETENSORS_F64, 1, {UINT64_C(1) << 60}, data}}, "'b'"},
    };
    bytes_put(bytes_path, "old", 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(!write_items(bad[i].item, 2), "written: %s", bad[i].says);
        ck_assert_msg(strstr(why, bad[i].says) != NULL, "no '%s' in: %s", bad[i].says, why);
    }
    static const struct safetensors_text texts[] = {{"k", "1"}, {"k", "2"}}, broken[] = {{"k", "\xe9"}};
    ck_assert(!safetensors_write(bytes_path, texts, 2, NULL, 0, why));
    ck_assert_ptr_nonnull(strstr(why, "'k' is given twice"));
    ck_assert(!safetensors_write(bytes_path, broken, 1, NULL, 0, why));
    ck_assert_ptr_nonnull(strstr(why, "'k'"));
    size_t size;
    char *old = bytes_get(bytes_path, &size);
    ck_assert_uint_eq(size, 3);
    ck_assert_int_eq(bytes_names(), 1);
    free(old);
}
END_TEST

START_TEST(a_failed_write_leaves_the_old_file_and_nothing_else) {
    static char big[1 << 20];
    const struct safetensors_item item = {"a", SAFETENSORS_U8, 1, {sizeof big}, big};
    bytes_put(bytes_path, "old", 3);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {1 << 16, RLIM_INFINITY};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert(!write_items(&item, 1));
    ck_assert_ptr_nonnull(strstr(why, strerror(EFBIG)));
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    size_t size;
    char *old = bytes_get(bytes_path, &size);
    ck_assert_uint_eq(size, 3);
    ck_assert_mem_eq(old, "old", 3);
    ck_assert_int_eq(bytes_names(), 1);
    free(old);
    char nowhere[128];
    snprintf(nowhere, sizeof nowhere, "%s/no/such/file", bytes_folder);
    ck_assert(!safetensors_write(nowhere, NULL, 0, &item, 1, why));
    ck_assert_ptr_nonnull(strstr(why, strerror(ENOENT)));
    ck_assert(!safetensors_write(bytes_folder, NULL, 0, &item, 1, why));
    ck_assert_ptr_nonnull(strstr(why, strerror(EISDIR)));
}
END_TEST

START_TEST(a_link_stays_and_permissions_stay) {
    const struct file_part part = {"new", 3};
    char link_path[128];
    struct stat state;
    snprintf(link_path, sizeof link_path, "%s/link", bytes_folder);
    bytes_put(bytes_path, "old", 3);
    ck_assert_int_eq(chmod(bytes_path, 0640), 0);
    ck_assert_int_eq(symlink(bytes_path, link_path), 0);
    ck_assert(whole_file_write(link_path, &part, 1));
    ck_assert_int_eq(lstat(link_path, &state), 0);
    ck_assert(S_ISLNK(state.st_mode));
    ck_assert_int_eq(stat(bytes_path, &state), 0);
    ck_assert_int_eq(state.st_mode & 0777, 0640);
    size_t size;
    char *got = bytes_get(bytes_path, &size);
    ck_assert_mem_eq(got, "new", 3);
    free(got);
    ck_assert_int_eq(bytes_names(), 2);
    umask(027); /* a new file gets what the process gives */
    snprintf(link_path, sizeof link_path, "%s/fresh", bytes_folder);
    ck_assert(whole_file_write(link_path, &part, 1));
    ck_assert_int_eq(stat(link_path, &state), 0);
    ck_assert_int_eq(state.st_mode & 0777, 0640);
    ck_assert(whole_file_write("/dev/null", &part, 1));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("safetensors");
    TCase *tests = tcase_create("safetensors");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, bytes_setup, bytes_teardown);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, tensors_come_with_name_type_shape_and_bytes);
    tcase_add_test(tests, scalars_and_empty_tensors_are_tensors);
    tcase_add_test(tests, every_dtype_has_its_width);
    tcase_add_test(tests, entries_that_break_a_rule_are_refused_by_name);
    tcase_add_test(tests, headers_that_break_a_rule_are_refused);
    tcase_add_test(tests, names_of_the_file_do_not_reach_the_terminal_raw);
    tcase_add_test(tests, what_is_no_regular_file_is_refused_at_once);
    tcase_add_test(tests, a_file_cut_while_open_is_an_error_not_a_crash);
    tcase_add_test(tests, no_header_byte_changed_or_cut_does_harm);
    tcase_add_test(tests, a_written_file_has_exactly_these_bytes);
    tcase_add_test(tests, what_cannot_be_read_back_is_not_written);
    tcase_add_test(tests, a_failed_write_leaves_the_old_file_and_nothing_else);
    tcase_add_test(tests, a_link_stays_and_permissions_stay);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
