/* expanding.h - fixtures of the suites of gen's expanding half: a fresh template folder for each test. */
#ifndef TESTS_EXPANDING_H
#define TESTS_EXPANDING_H

#include "gen/expand.h"

extern char templates[64]; /* the folder, absolute, removed by expanding_teardown */
void expanding_setup(void);
void expanding_teardown(void);

/* Writes a file below the folder; "lib/x.lua" makes lib. put_bytes may write NULs. */
void put_template(const char *name, const char *text);
void put_bytes(const char *folder, const char *name, const void *bytes, size_t length);

/* Parses, resolves and expands "own key=value ..." with a fresh expander over `path` (NULL: the folder). */
dcpk_status try_expand(const char *path, const char *spec, struct expansion *out, dcpk_error *error);

/* Writes own.ptx.lua and returns the PTX of spec "own"; asserts success. Lives until the test's end. */
const char *ptx_of(const char *text);
/* The same with a spec text. */
const char *ptx_of_spec(const char *text, const char *spec);
/* The lines between the entry's `{` and its `}`. */
const char *body_of(const char *text);
/* Writes own.ptx.lua, asserts that it is refused with `code`, blamed on own.ptx.lua:line (0: any), and that the message
 * holds `needle`. */
void refused(const char *text, dcpk_status code, unsigned line, const char *needle);
/* The error of the last refusal, the expansion of the last success. */
extern dcpk_error why;
extern struct expansion expanded;

#define expect_text(text, wanted) ck_assert_msg(strstr((text), (wanted)) != NULL, "no '%s' in:\n%s", (wanted), (text))
#define expect_no_text(text, unwanted)                                                                                 \
    ck_assert_msg(strstr((text), (unwanted)) == NULL, "there is '%s' in:\n%s", (unwanted), (text))

/* An entry that lint has nothing against. */
#define KERNEL "kernel{grid={1}, block={32}}\n"

#endif
