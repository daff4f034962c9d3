/* test_guide.c - docs/writing-templates.md, line by line: every file of the guide is written, every command is run, and
 * what it prints is what the guide says. Times, keys, addresses and the compiler's build are not compared; with another
 * compiler than the guide's, no number is.
 *
 * In the guide, "```lua FILE" and "```c FILE" are files; in "```console" a line that begins with "$ " is a command and
 * what follows is its output. The commands meet a tree like an installed one: bin/dcpk, lib, share/dcpk/templates, and
 * a pkg-config that leads to the libraries of the build folder. */
#include "tests/shell.h"

#include <check.h>

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZE "-fsanitize=address,undefined "
#else
#define SANITIZE ""
#endif

#define COMPILER "ptxas 13.0.88 (build cuda_13.0.r13.0/compiler.36424714_0)" /* of the guide's outputs */

static char source[PATH_MAX]; /* the source tree: where the suite was started */
static bool same_compiler;

static void build_folder(char *path) {
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    ck_assert_int_gt(length, 0);
    path[length] = '\0';
    *strrchr(path, '/') = '\0';
    *strrchr(path, '/') = '\0';
}

static void setup(void) {
    char build[PATH_MAX], line[4 * PATH_MAX];
    ck_assert_ptr_nonnull(getcwd(source, sizeof source));
    build_folder(build);
    shell_setup();
    snprintf(line, sizeof line,
             "mkdir -p bin lib share/dcpk guide && ln -s '%s/dcpk' bin/dcpk && ln -s '%s/libdcpkcpu.so' lib/ && "
             "ln -s '%s/templates' share/dcpk/templates",
             build, build, source);
    ck_assert_int_eq(system(line), 0); /* NOLINT: a test of our own words */
    FILE *file = fopen("bin/pkg-config", "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file,
            "#!/bin/sh\nPATH=${PATH#*:}\nlua=$(pkg-config --variable=libdir lua5.4)\necho " SANITIZE
            "-I%s/include %s/libdcpkgen.a %s/libdcpk.a $lua/liblua5.4.a -lm -ldl -lpthread\n",
            source, build, build);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod("bin/pkg-config", 0755), 0);
    snprintf(line, sizeof line, "%s/bin:%s", shell_folder, getenv("PATH"));
    setenv("PATH", line, 1);
    ck_assert_int_eq(chdir("guide"), 0);
}

static bool have_compiler(void) {
    sh("dcpk doctor --json");
    bool have = last.code != 3;
    same_compiler = strstr(last.out, COMPILER) != NULL;
    if (!have) fprintf(stderr, "skipped: the guide to templates: nothing here assembles PTX\n");
    return have;
}

/* ---- what is not compared ---- */

static size_t hex_run(const char *at) {
    return strspn(at, "0123456789abcdef");
}

/* One line without what differs from run to run: runs of blanks become one. */
static void normalise(const char *line, char *out, size_t capacity) {
    size_t used = 0;
    char before = ' ';
    while (*line != '\0' && used + 16 < capacity) {
        const char *word = NULL;
        size_t skip = 0;
        bool starts = !isalnum((unsigned char)before) && before != '_' && before != '.';
        if (strncmp(line, "ptxas ", 6) == 0 && strchr(line, ')') != NULL) {
            word = "COMPILER";
            skip = (size_t)(strchr(line, ')') + 1 - line);
        } else if (starts && hex_run(line) == 32) {
            word = "KEY";
            skip = 32;
        } else if (starts && strncmp(line, "0x", 2) == 0 && hex_run(line + 2) >= 8) {
            word = "ADDRESS";
            skip = 2 + hex_run(line + 2);
        } else if (starts && isdigit((unsigned char)*line)) {
            size_t whole = strspn(line, "0123456789"),
                   places = line[whole] == '.' ? strspn(line + whole + 1, "0123456789") : 0;
            bool time = places == 2 && !isalnum((unsigned char)line[whole + 3]);
            bool build = before == '(' && whole >= 6; /* "generator: dcpk 0.1.0 (2814953919)" */
            if (time || build || !same_compiler) word = "N";
            skip = whole + (time ? 3 : 0);
        }
        if (word != NULL)
            used += (size_t)snprintf(out + used, capacity - used, "%s", word);
        else if (skip > 0) {
            memcpy(out + used, line, skip);
            used += skip;
        } else if (*line == ' ' || *line == '\t') {
            skip = strspn(line, " \t");
            out[used++] = ' ';
        } else {
            skip = 1;
            out[used++] = *line;
        }
        before = line[skip - 1];
        line += skip;
    }
    while (used > 0 && out[used - 1] == ' ')
        used--;
    out[used] = '\0';
}

/* ---- the guide ---- */

struct reader {
    char *at;
    unsigned line; /* of at */
};

/* The next line without its end; NULL at the text's end. */
static char *next_line(struct reader *r) {
    if (*r->at == '\0') return NULL;
    char *line = r->at, *end = strchr(line, '\n');
    ck_assert_ptr_nonnull(end);
    *end = '\0';
    r->at = end + 1;
    r->line++;
    return line;
}

static const char fence[] = "```";

static void write_file(struct reader *r, const char *path) {
    FILE *file = fopen(path, "w");
    ck_assert_msg(file != NULL, "line %u: %s", r->line, path);
    for (char *line; (line = next_line(r)) != NULL && strcmp(line, fence) != 0;)
        fprintf(file, "%s\n", line);
    ck_assert_int_eq(fclose(file), 0);
}

/* cuobjdump and nvdisasm come with the toolkit's own packages and may be missing. */
static bool tool_missing(const char *command) {
    static const char *const tools[] = {"cuobjdump ", "nvdisasm "};
    char line[64];
    for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++) {
        if (strncmp(command, tools[i], strlen(tools[i])) != 0) continue;
        snprintf(line, sizeof line, "command -v %s >/dev/null", tools[i]);
        return system(line) != 0; /* NOLINT: our own words */
    }
    return false;
}

/* Compares the output, line by line, with the guide's lines up to the next command or the block's end, which stays the
 * next line of the reader. */
static void compare_output(struct reader *r, const char *command, bool skip) {
    struct reader printed = {last.out, 0};
    char wanted[1024], got[1024];
    for (;;) {
        struct reader before = *r;
        if (strncmp(r->at, "$ ", 2) == 0 || strncmp(r->at, fence, 3) == 0) break;
        char *line = next_line(r);
        ck_assert_ptr_nonnull(line);
        if (skip) continue;
        char *own = next_line(&printed);
        ck_assert_msg(own != NULL, "line %u: '%s' prints no more, wanted: %s", before.line + 1, command, line);
        normalise(line, wanted, sizeof wanted);
        normalise(own, got, sizeof got);
        ck_assert_msg(strcmp(wanted, got) == 0, "line %u, '%s':\n%s\nbut it prints:\n%s", before.line + 1, command,
                      line, own);
    }
    if (!skip) ck_assert_msg(*printed.at == '\0', "line %u: '%s' goes on: %s", r->line, command, printed.at);
}

static unsigned run_block(struct reader *r) {
    unsigned commands = 0;
    while (strncmp(r->at, "$ ", 2) == 0) {
        const char *command = next_line(r) + 2;
        bool skip = tool_missing(command);
        if (skip)
            fprintf(stderr, "skipped: a command of the guide to templates: %.*s is not here\n",
                    (int)strcspn(command, " "), command);
        else
            sh("{ %s\n} 2>&1", command);
        unlink("out");
        unlink("err");
        compare_output(r, command, skip);
        commands++;
    }
    const char *end = next_line(r);
    ck_assert_msg(end != NULL && strcmp(end, fence) == 0, "line %u: output without a command", r->line);
    return commands;
}

START_TEST(the_guide_says_what_happens) {
    char path[PATH_MAX + 64];
    unsigned commands = 0, files = 0;
    if (!have_compiler()) return;
    snprintf(path, sizeof path, "%s/docs/writing-templates.md", source);
    char *text = shell_read_file(path, NULL);
    ck_assert_ptr_nonnull(text);
    struct reader r = {text, 0};
    for (char *line; (line = next_line(&r)) != NULL;) {
        if (strncmp(line, fence, 3) != 0) continue;
        const char *file = strchr(line, ' ');
        if (strcmp(line, "```console") == 0)
            commands += run_block(&r);
        else {
            ck_assert_msg(file != NULL, "line %u: a block without a file's name", r.line);
            write_file(&r, file + 1);
            files++;
        }
    }
    ck_assert_uint_ge(commands, 25);
    ck_assert_uint_ge(files, 4);
    free(text);
}
END_TEST

/* The comparison can fail: what is left out is times, keys, addresses and builds, and nothing else. */
START_TEST(only_what_differs_from_run_to_run_is_left_out) {
    static const struct {
        const char *line, *wanted;
    } rows[] = {
        {"68e152eb4b83ab380d57866b2ee0e724  miss  141  3.21  106.91", "KEY miss 141 N N"},
        {"generator: dcpk 0.1.0 (2814953919)", "generator: dcpk 0.1.0 (N)"},
        {"toolchain: " COMPILER, "toolchain: COMPILER"},
        {"address 0x300000012000 is 2048 bytes past", "address ADDRESS is 2048 bytes past"},
        {"    .loc 1 33 0", " .loc 1 33 0"},
        {"a float (0.0009765625) as", "a float (0.0009765625) as"},
        {"own.ptx.lua:17: error: ptxas", "own.ptx.lua:17: error: ptxas"},
        {"REG:32 STACK:0", "REG:32 STACK:0"},
        {"PTX line 30: 0f3A800000", "PTX line 30: 0f3A800000"},
    };
    char out[256];
    same_compiler = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        normalise(rows[i].line, out, sizeof out);
        ck_assert_str_eq(out, rows[i].wanted);
    }
    same_compiler = false;
    normalise("REG:32 STACK:0", out, sizeof out);
    ck_assert_str_eq(out, "REG:N STACK:N");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("guide");
    TCase *tcase = tcase_create("guide");
    tcase_add_checked_fixture(tcase, setup, shell_teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, the_guide_says_what_happens);
    tcase_add_test(tcase, only_what_differs_from_run_to_run_is_left_out);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
