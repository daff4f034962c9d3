/* test_toolchain.c - the compiler as a program that may lie, die, hang or change: no such end makes an image or an
 * entry, every failure says what, with the template's line; and a warm build starts no process. */
#include "tests/building.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A build under these orders fails with the status, leaves no image, entry or temporary, and works again afterwards. */
static void expect_failure(const char *orders, dcpk_status wanted, const char *text) {
    dcpk_image *image = NULL;
    dcpk_build_report report;
    dcpk_error error;
    give_orders(orders);
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_status status = try_tiny(gen, 1, &image, &report, &error);
    ck_assert_msg(status == wanted, "%s: %s", dcpk_status_name(status), error.text);
    ck_assert_msg(strstr(error.text, text) != NULL, "no '%s' in: %s", text, error.text);
    ck_assert_int_eq(error.code, wanted);
    ck_assert_ptr_null(image);
    ck_assert_uint_eq(count_files(".dcpk"), 0);
    ck_assert_uint_eq(count_files(".manifest"), 0);
    ck_assert_uint_eq(count_temporaries(), 0);
    give_orders("mode good\n");
    image = build_tiny(gen, 1, &report);
    ck_assert_uint_eq(report.hit, 0);
    ck_assert_uint_eq(count_files(".dcpk"), 1);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}

START_TEST(toolchain_that_fails_after_half_a_file_makes_no_image) {
    if (have_ptxas()) expect_failure("mode half\n", DCPK_E_TOOLCHAIN, "exited with status 1");
}
END_TEST

START_TEST(toolchain_that_is_killed_makes_no_image) {
    if (have_ptxas()) expect_failure("mode kill\n", DCPK_E_TOOLCHAIN, "signal 9 (SIGKILL)");
}
END_TEST

START_TEST(toolchain_that_succeeds_with_nothing_makes_no_image) {
    if (have_ptxas()) expect_failure("mode empty\n", DCPK_E_BAD_CUBIN, "empty");
}
END_TEST

START_TEST(toolchain_that_succeeds_with_one_page_makes_no_image) {
    if (have_ptxas()) expect_failure("mode page\n", DCPK_E_BAD_CUBIN, "past the output's end");
}
END_TEST

START_TEST(toolchain_that_never_stops_talking_is_cut_short) {
    if (!have_ptxas()) return;
    expect_failure("mode noisy\n", DCPK_E_TOOLCHAIN, "line 000001 of a log");
}
END_TEST

static unsigned fakes_alive(void) {
    DIR *proc = opendir("/proc");
    unsigned alive = 0;
    ck_assert_ptr_nonnull(proc);
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        char link[300], target[4096];
        snprintf(link, sizeof link, "/proc/%s/exe", entry->d_name);
        ssize_t length = readlink(link, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        alive += strcmp(target, fake_path) == 0;
    }
    closedir(proc);
    return alive;
}

START_TEST(toolchain_that_hangs_is_killed_with_its_children) {
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_gen *gen = NULL;
    if (!have_ptxas()) return;
    give_orders("mode sleep\n");
    dcpk_gen_options options = {.size = sizeof options,
                                .template_path = template_folder,
                                .cache_dir = cache_folder,
                                .ptxas = fake_path,
                                .compile_timeout_ms = 300};
    ck_assert_int_eq(dcpk_gen_open(&options, &gen, NULL), DCPK_OK);
    double start = seconds();
    ck_assert_int_eq(try_tiny(gen, 1, &image, NULL, &error), DCPK_E_TOOLCHAIN);
    ck_assert_msg(strstr(error.text, "ran for more than 0.3 s and was killed"), "%s", error.text);
    ck_assert(seconds() - start >= 0.3);
    ck_assert(seconds() - start < 5);
    for (int i = 0; i < 100 && fakes_alive() > 0; i++) /* the grandchild is reaped by init, in its own time */
        usleep(10000);
    ck_assert_uint_eq(fakes_alive(), 0);
    ck_assert_uint_eq(count_files(".dcpk") + count_temporaries(), 0);
    dcpk_gen_close(gen);
}
END_TEST

/* A program whose --version runs these lines of sh: the message holds `text`, and however often the generator is asked,
 * the program is started once. */
static void expect_useless(const char *lines, const char *text) {
    char path[160], script[512], counted[160];
    const char *found = NULL;
    dcpk_image *image = NULL;
    dcpk_error error, again;
    dcpk_gen *gen = NULL;
    snprintf(path, sizeof path, "%s/useless", place);
    snprintf(counted, sizeof counted, "%s/counted", place);
    snprintf(script, sizeof script, "#!/bin/sh\necho started >>'%s'\n%s\n", counted, lines);
    unlink(counted);
    put_text(path, script);
    ck_assert_int_eq(chmod(path, 0755), 0);
    put_templates("", "");
    dcpk_gen_options options = {.size = sizeof options,
                                .template_path = template_folder,
                                .cache_dir = cache_folder,
                                .ptxas = path,
                                .compile_timeout_ms = 400};
    ck_assert_int_eq(dcpk_gen_open(&options, &gen, NULL), DCPK_OK);
    ck_assert_int_eq(try_tiny(gen, 1, &image, NULL, &error), DCPK_E_TOOLCHAIN);
    ck_assert_msg(strstr(error.text, text), "no '%s' in: %s", text, error.text);
    ck_assert_msg(strstr(error.text, "useless --version"), "%s", error.text);
    dcpk_error_init(&again);
    ck_assert_int_eq(dcpk_gen_toolchain(gen, &found, &again), DCPK_E_TOOLCHAIN);
    ck_assert_str_eq(again.text, error.text);
    ck_assert_int_eq(try_tiny(gen, 2, &image, NULL, &again), DCPK_E_TOOLCHAIN);
    dcpk_gen_close(gen);
    size_t length = 0;
    char *starts = get_file(counted, &length);
    ck_assert_str_eq(starts, "started\n");
    free(starts);
}

START_TEST(toolchain_that_hangs_at_its_version_is_said_to_and_asked_once) {
    double start = seconds();
    expect_useless("sleep 100", "ran for more than 0.4 s and was killed");
    ck_assert(seconds() - start >= 0.4);
    ck_assert(seconds() - start < 5);
}
END_TEST

START_TEST(toolchain_that_dies_or_fails_at_its_version_says_how_and_is_asked_once) {
    expect_useless("kill -SEGV $$", "was killed by signal 11 (SIGSEGV)");
    expect_useless("echo no licence; exit 7", "exited with status 7: no licence");
    expect_useless("echo; echo something else; echo and more of it",
                   "does not answer as ptxas does (no release or no build line): something else");
    expect_useless("exit 0", "does not answer as ptxas does (no release or no build line)");
}
END_TEST

START_TEST(toolchain_error_names_the_template_line) {
    dcpk_image *image = NULL;
    dcpk_error error;
    if (!have_ptxas()) return;
    put_templates("", "|   add.bogus      $(address), $(address), 1;\n");
    dcpk_gen *gen = open_gen(NULL);
    ck_assert_int_eq(try_tiny(gen, 1, &image, NULL, &error), DCPK_E_TOOLCHAIN);
    ck_assert_ptr_null(image);
    ck_assert_str_eq(error.template_file, "tiny.ptx.lua");
    ck_assert_uint_eq(error.template_line, 9);
    ck_assert_msg(strstr(error.text, "tiny.ptx.lua:9:"), "%s", error.text);
    ck_assert_msg(strstr(error.text, "add.bogus      $(address)"), "no template line: %s", error.text);
    ck_assert_msg(strstr(error.text, "add.bogus      %address"), "no PTX line: %s", error.text);
    ck_assert_uint_eq(count_files(".dcpk") + count_temporaries(), 0);
    dcpk_gen_close(gen);
}
END_TEST

/* What a full disk does to ptxas: it exits 0 and leaves the first page. */
START_TEST(toolchain_on_a_full_disk_makes_no_image) {
    dcpk_image *image = NULL;
    dcpk_error error;
    if (!have_ptxas()) return;
    put_templates("", "for i = 1, 40 do\n"
                      "|   st.volatile.global.u32 [$(address) + $(4 * i)], $(i);\n"
                      "end\n");
    dcpk_gen *gen = open_gen_with(NULL, "", NULL);
    const char *text = NULL;
    ck_assert_int_eq(dcpk_gen_toolchain(gen, &text, NULL), DCPK_OK);
    struct rlimit limit = {4096, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(try_tiny(gen, 1, &image, NULL, &error), DCPK_E_BAD_CUBIN);
    ck_assert_ptr_null(image);
    limit.rlim_cur = RLIM_INFINITY;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    image = build_tiny(gen, 1, NULL);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(toolchain_that_is_missing_is_named) {
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_gen *gen = open_gen("/nowhere/ptxas");
    ck_assert_int_eq(try_tiny(gen, 1, &image, NULL, &error), DCPK_E_TOOLCHAIN);
    ck_assert_msg(strstr(error.text, "/nowhere/ptxas"), "%s", error.text);
    dcpk_gen_close(gen);
    setenv("DCPK_TOOLCHAIN", "nvcc", 1);
    dcpk_gen_options options = {.size = sizeof options, .template_path = template_folder, .cache_dir = ""};
    ck_assert_int_eq(dcpk_gen_open(&options, &gen, &error), DCPK_E_ARG);
    ck_assert_msg(strstr(error.text, "'nvcc'") && strstr(error.text, "ptxas, nvjitlink, driver"), "%s", error.text);
    ck_assert_ptr_null(gen);
}
END_TEST

START_TEST(toolchain_search_finds_the_first_of_the_documented_places) {
    const char *text = NULL;
    dcpk_gen_options options = {.size = sizeof options, .template_path = template_folder, .cache_dir = ""};
    char folder[160], line[1024];
    if (!have_ptxas()) return;
    give_orders("build in.the.path\n");
    snprintf(folder, sizeof folder, "%s/home/bin", place);
    snprintf(line, sizeof line, "mkdir -p '%s' && cp '%s' '%s/ptxas' && echo 'build in.the.home' >'%s/orders'", folder,
             fake_path, folder, folder);
    ck_assert_int_eq(system(line), 0);
    snprintf(folder, sizeof folder, "%s/home", place);
    setenv("CUDA_HOME", folder, 1);
    static const char *const wanted[] = {"in.the.path", "in.the.home"};
    for (int i = 0; i < 2; i++) {
        dcpk_gen *gen = NULL;
        setenv("PATH", i == 0 ? fake_folder : "/nowhere", 1);
        ck_assert_int_eq(dcpk_gen_open(&options, &gen, NULL), DCPK_OK);
        ck_assert_int_eq(dcpk_gen_toolchain(gen, &text, NULL), DCPK_OK);
        ck_assert_msg(strstr(text, wanted[i]), "%s", text);
        dcpk_gen_close(gen);
    }
}
END_TEST

START_TEST(toolchain_starts_no_process_for_a_warm_build) {
    dcpk_build_report report;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image *image = build_tiny(gen, 1, &report);
    ck_assert_uint_eq(report.compiled, 2); /* --version and the compilation */
    dcpk_image_free(image);
    dcpk_gen_close(gen);
    for (int i = 0; i < 3; i++) {
        gen = open_gen(fake_path);
        image = build_tiny(gen, 1, &report);
        ck_assert_uint_eq(report.hit, 2);
        ck_assert_uint_eq(report.compiled, 0);
        ck_assert(report.expand_ms == 0);
        dcpk_image_free(image);
        image = build_tiny(gen, 1, &report);
        ck_assert_uint_eq(report.hit, 1);
        dcpk_image_free(image);
        dcpk_gen_close(gen);
    }
    ck_assert_uint_eq(starts_of("version"), 1);
    ck_assert_uint_eq(starts_of("assemble"), 1);
}
END_TEST

START_TEST(toolchain_of_another_build_is_a_miss) {
    dcpk_build_report report;
    char first[33], line[600];
    if (!have_ptxas()) return;
    give_orders("mode good\nbuild one\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image *image = build_tiny(gen, 1, &report);
    memcpy(first, report.key, sizeof first);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
    /* The same release of another build takes its place, as an update would. */
    give_orders("mode good\nbuild two\n");
    snprintf(line, sizeof line, "cp '%s' '%s.new' && mv '%s.new' '%s'", fake_path, fake_path, fake_path, fake_path);
    ck_assert_int_eq(system(line), 0);
    gen = open_gen(fake_path);
    image = build_tiny(gen, 1, &report);
    ck_assert_uint_eq(report.hit, 0);
    ck_assert_str_ne(report.key, first);
    ck_assert_uint_eq(count_files(".dcpk"), 2);
    ck_assert_msg(strstr(dcpk_image_preimage(image, NULL), "(build two)"), "%s", dcpk_image_preimage(image, NULL));
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}
END_TEST

/* The compiler is not asked: it would not say which release is needed. */
START_TEST(toolchain_that_is_too_old_is_told_from_its_version) {
    static const struct {
        const char *orders, *spec, *text;
    } rows[] = {
        {"mode good\nrelease 12.8.93\nbuild a\n", "tiny arch=sm_103a batch=1",
         "arch=sm_103a needs a compiler of CUDA 12.9 or newer (PTX ISA 8.8); this is ptxas 12.8.93 (build a)"},
        {"mode good\nrelease 12.9.86\nbuild b\n", "tiny arch=sm_110a batch=1",
         "arch=sm_110a needs a compiler of CUDA 13.0 or newer (PTX ISA 9.0); this is ptxas 12.9.86 (build b)"},
        {"mode good\nrelease 11.8.89\nbuild c\n", "tiny arch=sm_90a batch=1",
         "arch=sm_90a needs a compiler of CUDA 12.0 or newer (PTX ISA 8.0); this is ptxas 11.8.89 (build c)"},
        {"mode good\nrelease 11.7.99\nbuild d\n", "tiny arch=sm_90 batch=1",
         "arch=sm_90 needs a compiler of CUDA 11.8 or newer (PTX ISA 7.8)"},
        {"mode good\nrelease 12.3.107\nbuild e\n", "modern arch=sm_90a batch=1",
         "modern: its PTX is of ISA 8.4, which needs a compiler of CUDA 12.4 or newer; this is ptxas 12.3.107"}};
    char path[160];
    snprintf(path, sizeof path, "%s/modern.ptx.lua", template_folder);
    put_text(path, "need { ptx = \"8.4\", target = \"sm_90\" }\nkernel { grid = { 1 }, block = { 32 }, params = {} }\n"
                   "|   griddepcontrol.wait;\n|   ret;\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        dcpk_spec spec;
        dcpk_image *image = NULL;
        dcpk_error error;
        dcpk_error_init(&error);
        give_orders(rows[i].orders);
        dcpk_gen *gen = open_gen_with(fake_path, "", NULL);
        ck_assert_int_eq(dcpk_spec_parse(&spec, rows[i].spec, NULL), DCPK_OK);
        dcpk_status status = dcpk_gen_build(gen, &spec, &image, NULL, &error);
        ck_assert_msg(status == DCPK_E_TOOLCHAIN, "%s: %s", dcpk_status_name(status), error.text);
        ck_assert_msg(strstr(error.text, rows[i].text) != NULL, "no '%s' in: %s", rows[i].text, error.text);
        dcpk_gen_close(gen);
    }
    ck_assert_uint_eq(starts_of("assemble"), 0);
}
END_TEST

START_TEST(toolchain_that_miscompiles_for_hopper_is_warned_about_once) {
    static const struct {
        const char *orders;
        unsigned warnings;
    } rows[] = {{"mode good\nrelease 12.6.77\nbuild a\n", 1},
                {"mode good\nrelease 12.6.85\nbuild b\n", 0},
                {"mode good\nrelease 12.9.86\nbuild c\n", 0},
                {"mode good\nrelease 13.0.88\nbuild d\n", 0}};
    if (!have_ptxas()) return;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        give_orders(rows[i].orders);
        log_reset();
        dcpk_gen *gen = open_gen_with(fake_path, "", NULL);
        dcpk_image_free(build_tiny(gen, 1, NULL));
        dcpk_image_free(build_tiny(gen, 2, NULL));
        ck_assert_msg(logged.warnings == rows[i].warnings, "%s: %s", rows[i].orders, logged.all);
        ck_assert(rows[i].warnings == 0 || strstr(logged.last_warning, "12.6.77"));
        dcpk_gen_close(gen);
    }
}
END_TEST

START_TEST(toolchain_inherits_five_descriptors_and_a_plain_environment) {
    char path[160];
    if (!have_ptxas()) return;
    give_orders("mode fds\n");
    setenv("DCPK_SECRET", "1", 1);
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    ck_assert_int_ge(dup2(0, 77), 0); /* an engine's descriptor without close-on-exec */
    dcpk_gen *gen = open_gen_with(fake_path, "", NULL);
    dcpk_image_free(build_tiny(gen, 1, NULL));
    snprintf(path, sizeof path, "%s/inherited", fake_folder);
    char *text = get_file(path, NULL);
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(strncmp(text, "0 1 2 3 4 \n", 11) == 0, "%s", text);
    ck_assert_msg(!strstr(text, "DCPK_SECRET"), "%s", text);
    ck_assert_msg(strstr(text, "\nLC_ALL=C"), "%s", text);
    free(text);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(toolchain_status_that_the_program_throws_away_is_an_error) {
    dcpk_image *image = NULL;
    dcpk_error error;
    const char *text = NULL;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen_with(fake_path, "", NULL);
    ck_assert_int_eq(dcpk_gen_toolchain(gen, &text, NULL), DCPK_OK);
    signal(SIGCHLD, SIG_IGN);
    ck_assert_int_eq(try_tiny(gen, 1, &image, NULL, &error), DCPK_E_TOOLCHAIN);
    ck_assert_msg(strstr(error.text, "SIGCHLD"), "%s", error.text);
    ck_assert_ptr_null(image);
    signal(SIGCHLD, SIG_DFL);
    dcpk_image_free(build_tiny(gen, 1, NULL));
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(toolchain_options_are_fixed_and_lineinfo_is_one_of_them) {
    dcpk_text text;
    dcpk_spec spec;
    if (!have_ptxas()) return;
    dcpk_gen *gen = open_gen_with(NULL, "", NULL);
    for (int lineinfo = 0; lineinfo < 2; lineinfo++) {
        ck_assert_int_eq(
            dcpk_spec_parse(&spec, lineinfo ? "tiny arch=sm_90a batch=1 lineinfo=1" : "tiny arch=sm_90a batch=1", NULL),
            DCPK_OK);
        ck_assert_int_eq(dcpk_gen_explain(gen, &spec, &text, NULL), DCPK_OK);
        ck_assert_msg(
            strstr(text.data, lineinfo ? "\noptions: -arch sm_90a -O3 -lineinfo\n" : "\noptions: -arch sm_90a -O3\n"),
            "%s", text.data);
        ck_assert_ptr_null(strstr(text.data, "-v"));
        dcpk_text_free(&text);
        dcpk_image *image = NULL;
        dcpk_error error;
        dcpk_error_init(&error);
        ck_assert_msg(dcpk_gen_build(gen, &spec, &image, NULL, &error) == DCPK_OK, "%s", error.text);
        size_t length = 0;
        const void *cubin = dcpk_image_cubin(image, &length);
        ck_assert_int_eq(memmem(cubin, length, "tiny.ptx.lua", 12) != NULL, lineinfo);
        dcpk_image_free(image);
    }
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(toolchain_builds_each_arch_of_the_table_under_its_own_key) {
    if (!have_ptxas()) return;
    dcpk_gen *gen = open_gen(NULL);
    char keys[32][33];
    unsigned count = 0;
    for (dcpk_arch_info row = {.size = sizeof row}; dcpk_arch_at(count, &row); count++) {
        dcpk_spec spec;
        dcpk_image *image = NULL;
        dcpk_error error;
        char text[64];
        snprintf(text, sizeof text, "tiny arch=%s batch=1", row.name);
        dcpk_error_init(&error);
        ck_assert_int_eq(dcpk_spec_parse(&spec, text, &error), DCPK_OK);
        dcpk_status status = dcpk_gen_build(gen, &spec, &image, NULL, &error);
        ck_assert_msg(status == DCPK_OK, "%s: %s", text, error.text);
        memcpy(keys[count], dcpk_image_key(image), 33);
        for (unsigned i = 0; i < count; i++)
            ck_assert_str_ne(keys[i], keys[count]);
        dcpk_image_free(image);
    }
    ck_assert_uint_ge(count, 8);
    ck_assert_uint_eq(count_files(".dcpk"), count);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("toolchain");
    TCase *tcase = tcase_create("ptxas");
    tcase_set_timeout(tcase, 20);
    tcase_add_checked_fixture(tcase, building_setup, building_teardown);
    tcase_add_test(tcase, toolchain_that_fails_after_half_a_file_makes_no_image);
    tcase_add_test(tcase, toolchain_that_is_killed_makes_no_image);
    tcase_add_test(tcase, toolchain_that_succeeds_with_nothing_makes_no_image);
    tcase_add_test(tcase, toolchain_that_succeeds_with_one_page_makes_no_image);
    tcase_add_test(tcase, toolchain_that_never_stops_talking_is_cut_short);
    tcase_add_test(tcase, toolchain_that_hangs_is_killed_with_its_children);
    tcase_add_test(tcase, toolchain_that_hangs_at_its_version_is_said_to_and_asked_once);
    tcase_add_test(tcase, toolchain_that_dies_or_fails_at_its_version_says_how_and_is_asked_once);
    tcase_add_test(tcase, toolchain_error_names_the_template_line);
    tcase_add_test(tcase, toolchain_on_a_full_disk_makes_no_image);
    tcase_add_test(tcase, toolchain_that_is_missing_is_named);
    tcase_add_test(tcase, toolchain_search_finds_the_first_of_the_documented_places);
    tcase_add_test(tcase, toolchain_starts_no_process_for_a_warm_build);
    tcase_add_test(tcase, toolchain_of_another_build_is_a_miss);
    tcase_add_test(tcase, toolchain_that_is_too_old_is_told_from_its_version);
    tcase_add_test(tcase, toolchain_that_miscompiles_for_hopper_is_warned_about_once);
    tcase_add_test(tcase, toolchain_inherits_five_descriptors_and_a_plain_environment);
    tcase_add_test(tcase, toolchain_status_that_the_program_throws_away_is_an_error);
    tcase_add_test(tcase, toolchain_options_are_fixed_and_lineinfo_is_one_of_them);
    tcase_add_test(tcase, toolchain_builds_each_arch_of_the_table_under_its_own_key);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
