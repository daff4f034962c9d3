/* shell.h - suites that start build/dcpk (beside the suite's own folder) through the shell. */
#ifndef TESTS_SHELL_H
#define TESTS_SHELL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* What the last shell line came to. Texts live until the next one. */
struct shell_outcome {
    int code; /* exit code, or 128 + signal */
    char *out, *err;
    size_t out_length;
};
extern struct shell_outcome last;
extern char shell_folder[64]; /* where lines run: a fresh folder, removed at the end */

/* Fixtures, for each test: the folder, $dcpk, and DCPK_CACHE_DIR inside the folder. */
void shell_setup(void);
void shell_teardown(void);

/* Runs a shell line; $dcpk is the command. */
void sh(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Asserts the last exit code, and on stderr a text that begins with "dcpk: " and holds `text`. */
void expect_failure(int code, const char *text);
json_t *shell_json(void);                                /* the last output, parsed */
char *shell_read_file(const char *path, size_t *length); /* NULL when there is none; malloc */
bool shell_exists(const char *path);

#define expect_code(wanted)                                                                                            \
    ck_assert_msg(last.code == (wanted), "exit code %d, wanted %d\n%s\n%s", last.code, (wanted), last.out, last.err)
#define expect_in(text, wanted) ck_assert_msg(strstr((text), (wanted)) != NULL, "no '%s' in:\n%s", (wanted), (text))

#endif
