/* test_readme.c - the README and the tables of the code agree.
 *
 * Finds the README in the source folder: this file's own path, or the working folder. */
#include <check.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char readme[1 << 16];

static void read_readme(void) {
    FILE *file = fopen("README.md", "rb");
    ck_assert_msg(file != NULL, "run this from the source folder: no README.md here");
    size_t n = fread(readme, 1, sizeof readme - 1, file);
    ck_assert_uint_lt(n, sizeof readme - 1);
    readme[n] = '\0';
    fclose(file);
}

static void expect_row(const char *row) {
    ck_assert_msg(strstr(readme, row) != NULL, "README.md lacks the row\n%s", row);
}

/* Rows that begin with "| `PREFIX": more of them than the table has are rows of things that are gone. */
static int rows_with(const char *begin) {
    int count = 0;
    for (const char *at = readme; (at = strstr(at, begin)) != NULL; at++)
        count++;
    return count;
}

START_TEST(readme_lists_every_status_and_no_other) {
    int count = 0;
#define E(name, code, meaning, advice)                                                                                 \
    expect_row("| `DCPK_E_" #name "` | " #code " | " meaning " | " advice " |\n"), count++;
#include <dcpk/errors.def>
#undef E
    ck_assert_int_eq(rows_with("\n| `DCPK_E_"), count);
}
END_TEST

START_TEST(readme_lists_every_environment_variable_and_no_other) {
    int count = 0, after = 0;
#define V(name, dflt, reader, doc) expect_row("| `" #name "` | " dflt " | " reader " | " doc " |\n"), count++;
#include <dcpk/environment.def>
#undef V
    const char *table = strstr(readme, "| variable | default |"), *end = table != NULL ? strstr(table, "\n\n") : NULL;
    ck_assert_ptr_nonnull(end);
    for (const char *at = table; (at = strstr(at, "\n| `")) != NULL && at < end; at++)
        after++;
    ck_assert_int_eq(after, count);
}
END_TEST

/* The command prints the tables; what it would put into the README is there already, byte for byte. */
START_TEST(readme_tables_of_keys_variables_and_statuses_are_printed_by_the_command) {
    char program[4096], line[9000], copy[] = "/tmp/dcpk-readme-XXXXXX";
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    ck_assert_int_gt(length, 0);
    program[length] = '\0';
    int fd = mkstemp(copy);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(line, sizeof line,
             "cp README.md %s && tools/readme_tables \"$(dirname '%s')/../dcpk\" %s && diff README.md %s >&2", copy,
             program, copy, copy);
    int rc = system(line); /* NOLINT: our own words */
    unlink(copy);
    ck_assert_msg(rc == 0, "README.md is behind the code: run tools/readme_tables build/dcpk");
}
END_TEST

static const struct reader {
    const char *name, *reader;
} documented[] = {
#define V(name, dflt, reader, doc) {#name, reader},
#include <dcpk/environment.def>
#undef V
};
enum { DOCUMENTED = sizeof documented / sizeof documented[0] };

static const char *const gen_reads[] = {
#define V(field, name, dflt, doc) #name,
#include "gen/environment.def"
#undef V
};
static const char *const runtime_reads[] = {
#define V(field, name, values, doc) name,
#include "runtime/environment.def"
#undef V
};

static void compare_reader(const char *reader, const char *const *names, size_t count) {
    size_t listed = 0;
    for (size_t i = 0; i < DOCUMENTED; i++)
        listed += strstr(documented[i].reader, reader) != NULL; /* "gen, runtime": both */
    ck_assert_msg(listed == count, "environment.def lists %zu variables of %s, which reads %zu", listed, reader, count);
    for (size_t n = 0; n < count; n++) {
        int found = 0;
        for (size_t i = 0; i < DOCUMENTED; i++)
            found |= strcmp(documented[i].name, names[n]) == 0 && strstr(documented[i].reader, reader) != NULL;
        ck_assert_msg(found, "environment.def does not list %s as read by %s", names[n], reader);
    }
}

START_TEST(the_environment_table_names_what_each_room_reads) {
    compare_reader("gen", gen_reads, sizeof gen_reads / sizeof gen_reads[0]);
    compare_reader("runtime", runtime_reads, sizeof runtime_reads / sizeof runtime_reads[0]);
}
END_TEST

/* Functions of "Life of a kernel", folders, and make targets exist. */
START_TEST(readme_names_functions_folders_and_targets_that_exist) {
    const char *life = strstr(readme, "## Life of a kernel");
    ck_assert_ptr_nonnull(life);
    const char *end = strstr(life, "\n## Folders");
    ck_assert_ptr_nonnull(end);
    int steps = 0;
    for (const char *at = strstr(life, "\n    "); at != NULL && at < end; at = strstr(at + 1, "\n    ")) {
        char name[64], command[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 5, " "), at + 5);
        snprintf(command, sizeof command, "grep -qE '^[a-z].*[ *]%s\\(' gen/*.c runtime/*.c", name);
        ck_assert_msg(system(command) == 0, "no function %s in gen/ or runtime/", name); /* NOLINT: our own words */
        steps++;
    }
    ck_assert_int_eq(steps, 8);
    for (const char *at = strstr(end, "\n| `"); at != NULL && at < strstr(end, "\n## The command");
         at = strstr(at + 1, "\n| `")) {
        char folder[64];
        snprintf(folder, sizeof folder, "%.*s", (int)strcspn(at + 4, "`"), at + 4);
        ck_assert_msg(access(folder, F_OK) == 0, "no folder %s", folder);
    }
    static const char *const targets[] = {"all", "run", "test", "check-all", "check-asan", "lint", "bench", "clean"};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        char command[64];
        snprintf(command, sizeof command, "grep -q '^%s:' Makefile", targets[i]);
        ck_assert_msg(system(command) == 0, "no make target %s", targets[i]); /* NOLINT: our own words */
        ck_assert_msg(strstr(readme, targets[i]) != NULL, "README.md does not name make %s", targets[i]);
    }
}
END_TEST

/* Each option of a line "    dcpk NAME ..." is in the help of that command, whose table is tools/cmd_*.c. */
START_TEST(readme_shows_commands_and_options_that_exist) {
    const char *at = strstr(readme, "## The command"), *end = at != NULL ? strstr(at, "\n## Environment") : NULL;
    ck_assert_ptr_nonnull(end);
    int lines = 0;
    for (; (at = strstr(at, "\n    dcpk ")) != NULL && at < end; lines++) {
        char name[32], line[256], command[320];
        at += 10;
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(line, " "), line);
        snprintf(command, sizeof command, "grep -q '^C(%s)' tools/commands.def", name);
        ck_assert_msg(system(command) == 0, "no command %s", name); /* NOLINT: our own words */
        for (const char *option = line; (option = strstr(option, "--")) != NULL;) {
            option += 2;
            snprintf(command, sizeof command, "grep -q '{\"%.*s\", ' $(grep -l 'command_%s = ' tools/cmd_*.c)",
                     (int)strspn(option, "abcdefghijklmnopqrstuvwxyz-"), option, name);
            ck_assert_msg(system(command) == 0, "%s: %s", line, command); /* NOLINT: our own words */
        }
    }
    ck_assert_int_ge(lines, 8);
}
END_TEST

/* "| `sm_90a` | 8.0 | 12.0 |" for every row of arch.def, the release from ptx_isa.def. */
START_TEST(toolchains_lists_what_every_architecture_needs) {
    static const struct {
        const char *name;
        int ptx;
    } archs[] = {
#define R(name, major, minor, exact, sms, ptx) {#name, ptx},
#include "runtime/arch.def"
#undef R
    };
    static const struct {
        int ptx, major, minor;
    } isas[] = {
#define I(ptx, major, minor) {ptx, major, minor},
#include "gen/ptx_isa.def"
#undef I
    };
    for (size_t a = 0; a < sizeof archs / sizeof archs[0]; a++) {
        size_t i = 0;
        while (isas[i].ptx < archs[a].ptx)
            i++;
        char command[160];
        snprintf(command, sizeof command, "grep -qxF '| `%s` | %d.%d | %d.%d |' docs/toolchains.md", archs[a].name,
                 archs[a].ptx / 10, archs[a].ptx % 10, isas[i].major, isas[i].minor);
        ck_assert_msg(system(command) == 0, "docs/toolchains.md: %s", command); /* NOLINT: our own words */
    }
    char command[96];
    snprintf(command, sizeof command, "test $(grep -c '^| `sm_' docs/toolchains.md) = %zu",
             sizeof archs / sizeof archs[0]);
    ck_assert_msg(system(command) == 0, "docs/toolchains.md lists more"); /* NOLINT: our own words */
}
END_TEST

START_TEST(readme_names_every_document) {
    ck_assert_msg(system("for f in docs/*; do " /* NOLINT: our own words */
                         "grep -q \"^| .docs/. |.*[^a-z_]$(basename $f)[^a-z]\" README.md || exit 1; done") == 0,
                  "README.md's row of docs/ lacks a file that is there");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("readme");
    TCase *tests = tcase_create("readme");
    tcase_add_checked_fixture(tests, read_readme, NULL);
    tcase_add_test(tests, readme_lists_every_status_and_no_other);
    tcase_add_test(tests, readme_lists_every_environment_variable_and_no_other);
    tcase_add_test(tests, readme_tables_of_keys_variables_and_statuses_are_printed_by_the_command);
    tcase_add_test(tests, the_environment_table_names_what_each_room_reads);
    tcase_add_test(tests, readme_names_functions_folders_and_targets_that_exist);
    tcase_add_test(tests, readme_shows_commands_and_options_that_exist);
    tcase_add_test(tests, readme_names_every_document);
    tcase_add_test(tests, toolchains_lists_what_every_architecture_needs);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
