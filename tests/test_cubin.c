/* test_cubin.c - the cubin validator: resources equal to what ptxas reports, everything else refused without a crash.
 */
#include "runtime/cubin.h"
#include "tests/building.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two entries: one with shared memory, one with a stack frame. %s: a .version and a .target. */
static const char two_entries[] =
    ".version %s\n.target %s\n.address_size 64\n"
    ".visible .entry shares(.param .u64 to)\n.reqntid 128, 1, 1\n{\n"
    ".reg .b64 %%a; .reg .b32 %%r<4>;\n.shared .align 16 .b8 room[1040];\n"
    "ld.param.u64 %%a, [to];\nmov.u32 %%r0, %%tid.x;\nshl.b32 %%r1, %%r0, 3;\n"
    "mov.u32 %%r2, room;\nadd.u32 %%r2, %%r2, %%r1;\nst.shared.u32 [%%r2], %%r0;\n"
    "bar.sync 0;\nld.shared.u32 %%r3, [room+16];\nst.global.u32 [%%a], %%r3;\nret;\n}\n"
    ".visible .entry stacks(.param .u64 to, .param .u32 at)\n{\n"
    ".reg .b64 %%a, %%l, %%x; .reg .b32 %%r<3>;\n.local .align 8 .b8 frame[256];\n"
    "ld.param.u64 %%a, [to];\nld.param.u32 %%r0, [at];\nmov.u64 %%l, frame;\n"
    "mul.wide.u32 %%x, %%r0, 4;\nadd.u64 %%l, %%l, %%x;\nst.local.u32 [%%l], %%r0;\n"
    "st.local.u32 [frame+8], 3;\nld.local.u32 %%r2, [%%l+16];\nst.global.u32 [%%a], %%r2;\nret;\n}\n";

static char *make_cubin(const char *version, const char *target, const char *arch, size_t *length, char **verbose) {
    char ptx[4096];
    snprintf(ptx, sizeof ptx, two_entries, version, target);
    return real_cubin(ptx, arch, length, verbose);
}

static dcpk_status check(const void *bytes, size_t length, const char *arch, const char *entry, dcpk_entry_info *info,
                         dcpk_error *error) {
    *info = (dcpk_entry_info){.size = sizeof *info};
    snprintf(info->name, sizeof info->name, "%s", entry);
    dcpk_error_init(error);
    return cubin_check(bytes, length, arch, info, 1, error);
}

/* The number that stands before `what` (" registers") in ptxas's report on an entry; 0 when it reports none. */
static unsigned reported(const char *verbose, const char *entry, const char *what) {
    char heading[64];
    snprintf(heading, sizeof heading, "Compiling entry function '%s'", entry);
    const char *at = strstr(verbose, heading), *end = at ? strstr(at, "Compile time") : NULL;
    ck_assert_msg(at && end, "ptxas says nothing of %s: %s", entry, verbose);
    const char *found = strstr(at, what);
    if (!found || found > end) return 0;
    while (found > at && found[-1] >= '0' && found[-1] <= '9')
        found--;
    return (unsigned)strtoul(found, NULL, 10);
}

START_TEST(cubin_resources_are_those_that_ptxas_reports) {
    static const struct {
        const char *version, *target, *arch;
    } rows[] = {{"7.8", "sm_90", "sm_90"},   {"8.0", "sm_90a", "sm_90a"}, {"7.8", "sm_90", "sm_90a"},
                {"7.8", "sm_90", "sm_100a"}, {"7.8", "sm_90", "sm_103a"}, {"7.8", "sm_90", "sm_120a"}};
    static const char *const entries[] = {"shares", "stacks"};
    if (!have_ptxas()) return;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *verbose = NULL;
        size_t length = 0;
        char *cubin = make_cubin(rows[i].version, rows[i].target, rows[i].arch, &length, &verbose);
        for (int e = 0; e < 2; e++) {
            dcpk_entry_info info;
            dcpk_error error;
            dcpk_status status = check(cubin, length, rows[i].arch, entries[e], &info, &error);
            ck_assert_msg(status == DCPK_OK, "%s %s: %s", rows[i].arch, entries[e], error.text);
            ck_assert_uint_eq(info.registers, reported(verbose, entries[e], " registers"));
            ck_assert_uint_eq(info.static_shared, reported(verbose, entries[e], " bytes smem"));
            ck_assert_uint_eq(info.local_bytes, reported(verbose, entries[e], " bytes stack frame"));
        }
        dcpk_entry_info info;
        dcpk_error error;
        check(cubin, length, rows[i].arch, "shares", &info, &error);
        ck_assert_uint_eq(info.static_shared, 1040); /* what the PTX declares */
        check(cubin, length, rows[i].arch, "stacks", &info, &error);
        ck_assert_uint_eq(info.local_bytes, 256);
        free(verbose);
        free(cubin);
    }
}
END_TEST

START_TEST(cubin_cut_anywhere_is_refused) {
    if (!have_ptxas()) return;
    size_t length = 0;
    char *cubin = make_cubin("8.0", "sm_90a", "sm_90a", &length, NULL);
    ck_assert_uint_gt(length, 4096);
    for (size_t cut = 0; cut < length; cut++) {
        dcpk_entry_info info;
        dcpk_error error;
        char *exact = malloc(cut ? cut : 1); /* so that a read past the end shows */
        ck_assert_ptr_nonnull(exact);
        memcpy(exact, cubin, cut);
        dcpk_status status = check(exact, cut, "sm_90a", "shares", &info, &error);
        ck_assert_msg(status == DCPK_E_BAD_CUBIN, "the first %zu bytes of %zu pass: %s", cut, length, error.text);
        free(exact);
    }
    free(cubin);
}
END_TEST

START_TEST(cubin_with_bytes_behind_it_is_refused) {
    if (!have_ptxas()) return;
    size_t length = 0;
    char *cubin = make_cubin("8.0", "sm_90a", "sm_90a", &length, NULL);
    cubin[length] = '\0'; /* get_file leaves room for one byte */
    dcpk_entry_info info;
    dcpk_error error;
    ck_assert_int_eq(check(cubin, length + 1, "sm_90a", "shares", &info, &error), DCPK_E_BAD_CUBIN);
    free(cubin);
}
END_TEST

START_TEST(cubin_for_another_arch_is_refused_by_name) {
    if (!have_ptxas()) return;
    size_t length = 0;
    char *cubin = make_cubin("7.8", "sm_90", "sm_120a", &length, NULL);
    dcpk_entry_info info;
    dcpk_error error;
    ck_assert_int_eq(check(cubin, length, "sm_90a", "shares", &info, &error), DCPK_E_BAD_CUBIN);
    ck_assert_msg(strstr(error.text, "12.0") && strstr(error.text, "sm_90a"), "%s", error.text);
    ck_assert_int_eq(check(cubin, length, "sm_121a", "shares", &info, &error), DCPK_E_BAD_CUBIN);
    ck_assert_int_eq(check(cubin, length, "sm_42", "shares", &info, &error), DCPK_E_ARCH);
    free(cubin);
}
END_TEST

START_TEST(cubin_without_the_entry_is_refused_by_name) {
    if (!have_ptxas()) return;
    size_t length = 0;
    char *cubin = make_cubin("8.0", "sm_90a", "sm_90a", &length, NULL);
    dcpk_entry_info info;
    dcpk_error error;
    ck_assert_int_eq(check(cubin, length, "sm_90a", "share", &info, &error), DCPK_E_BAD_CUBIN);
    ck_assert_msg(strstr(error.text, "entry share:"), "%s", error.text);
    ck_assert_int_eq(check(cubin, length, "sm_90a", "room", &info, &error), DCPK_E_BAD_CUBIN);
    free(cubin);
}
END_TEST

/* What CUDA 12 wrote: another ABI byte, the compute capability in the low byte. Everything else is laid out alike. */
START_TEST(cubin_of_the_older_generation_is_read) {
    if (!have_ptxas()) return;
    size_t length = 0;
    char *cubin = make_cubin("8.0", "sm_90a", "sm_90a", &length, NULL);
    static const unsigned char flags[] = {0x5a, 0x0d, 0x5a, 0x00};
    cubin[7] = 0x33;
    cubin[8] = 7;
    memcpy(cubin + 48, flags, sizeof flags);
    dcpk_entry_info info;
    dcpk_error error;
    dcpk_status status = check(cubin, length, "sm_90a", "shares", &info, &error);
    ck_assert_msg(status == DCPK_OK, "%s", error.text);
    ck_assert_uint_eq(info.static_shared, 1040);
    ck_assert_int_eq(check(cubin, length, "sm_100a", "shares", &info, &error), DCPK_E_BAD_CUBIN);
    free(cubin);
}
END_TEST

START_TEST(cubin_header_that_lies_is_refused) {
    if (!have_ptxas()) return;
    size_t length = 0;
    char *cubin = make_cubin("8.0", "sm_90a", "sm_90a", &length, NULL);
    static const struct {
        size_t at, bytes;
        const char *what;
    } fields[] = {{0, 1, "magic"},
                  {4, 1, "class"},
                  {5, 1, "byte order"},
                  {7, 1, "ABI"},
                  {18, 1, "machine"},
                  {32, 8, "program header offset"},
                  {40, 8, "section offset"},
                  {54, 2, "program header size"},
                  {56, 2, "program header count"},
                  {58, 2, "section header size"},
                  {60, 2, "section count"},
                  {62, 2, "index of section names"}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char *copy = malloc(length);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, cubin, length);
        memset(copy + fields[i].at, 0xff, fields[i].bytes);
        dcpk_entry_info info;
        dcpk_error error;
        dcpk_status status = check(copy, length, "sm_90a", "shares", &info, &error);
        ck_assert_msg(status == DCPK_E_BAD_CUBIN, "%s of all ones passes", fields[i].what);
        free(copy);
    }
    free(cubin);
}
END_TEST

/* No assertion but that nothing reads out of bounds (the sanitizer's word) and that refusals are refusals. */
START_TEST(cubin_of_random_damage_never_crashes) {
    if (!have_ptxas()) return;
    size_t length = 0;
    char *cubin = make_cubin("8.0", "sm_90a", "sm_90a", &length, NULL), *copy = malloc(length);
    ck_assert_ptr_nonnull(copy);
    uint64_t state = 88172645463325252u;
    unsigned refused = 0;
    for (int round = 0; round < 20000; round++) {
        memcpy(copy, cubin, length);
        for (int flips = 0; flips < 4; flips++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            size_t at = flips < 2 ? state % 64 + (state >> 32 & 1) * (length - 64) : state % length;
            copy[at] = (char)(state >> 40);
        }
        dcpk_entry_info info;
        dcpk_error error;
        dcpk_status status = check(copy, length, "sm_90a", "stacks", &info, &error);
        ck_assert(status == DCPK_OK || status == DCPK_E_BAD_CUBIN);
        refused += status != DCPK_OK;
    }
    ck_assert_uint_gt(refused, 1000);
    free(copy);
    free(cubin);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cubin");
    TCase *tcase = tcase_create("validator");
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, cubin_resources_are_those_that_ptxas_reports);
    tcase_add_test(tcase, cubin_cut_anywhere_is_refused);
    tcase_add_test(tcase, cubin_with_bytes_behind_it_is_refused);
    tcase_add_test(tcase, cubin_for_another_arch_is_refused_by_name);
    tcase_add_test(tcase, cubin_without_the_entry_is_refused_by_name);
    tcase_add_test(tcase, cubin_of_the_older_generation_is_read);
    tcase_add_test(tcase, cubin_header_that_lies_is_refused);
    tcase_add_test(tcase, cubin_of_random_damage_never_crashes);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
