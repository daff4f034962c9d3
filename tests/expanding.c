/* expanding.c - the template folder of a test and short forms of its expansions. */
#include "tests/expanding.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char templates[64];
dcpk_error why;
struct expansion expanded;
static char body[65536];

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk) {
    (void)about, (void)kind, (void)walk;
    return remove(path);
}

void expanding_setup(void) {
    snprintf(templates, sizeof templates, "/tmp/dcpk-templates-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(templates));
    memset(&expanded, 0, sizeof expanded);
    dcpk_error_init(&why);
}

void expanding_teardown(void) {
    expansion_free(&expanded);
    nftw(templates, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void put_bytes(const char *folder, const char *name, const void *bytes, size_t length) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0755);
    }
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

void put_template(const char *name, const char *text) {
    put_bytes(templates, name, text, strlen(text));
}

dcpk_status try_expand(const char *path, const char *text, struct expansion *out, dcpk_error *error) {
    struct expander *expander;
    dcpk_spec spec;
    dcpk_error_init(error);
    dcpk_status status = dcpk_spec_parse(&spec, text, error);
    if (status == DCPK_OK) status = dcpk_spec_resolve(&spec, error);
    ck_assert_msg(status == DCPK_OK, "%s", error->text);
    ck_assert_int_eq(expander_open(path != NULL ? path : templates, &expander, error), DCPK_OK);
    status = expander_expand(expander, &spec, out, error);
    expander_close(expander);
    return status;
}

const char *ptx_of_spec(const char *text, const char *spec) {
    put_template("own.ptx.lua", text);
    expansion_free(&expanded);
    dcpk_status status = try_expand(NULL, spec, &expanded, &why);
    ck_assert_msg(status == DCPK_OK, "%s: %s", dcpk_status_name(status), why.text);
    return expanded.ptx;
}

const char *ptx_of(const char *text) {
    return ptx_of_spec(text, "own");
}

const char *body_of(const char *text) {
    const char *ptx = ptx_of(text), *start = strstr(ptx, "\n{\n"), *end = strstr(ptx, "\n}\n");
    ck_assert_ptr_nonnull(start);
    ck_assert_ptr_nonnull(end);
    size_t length = end > start + 2 ? (size_t)(end - start - 2) : 0;
    ck_assert_uint_lt(length, sizeof body);
    memcpy(body, start + 3, length);
    body[length] = '\0';
    return body;
}

void refused(const char *text, dcpk_status code, unsigned line, const char *needle) {
    struct expansion none;
    put_template("own.ptx.lua", text);
    dcpk_status status = try_expand(NULL, "own", &none, &why);
    ck_assert_msg(status == code, "%s instead of %s for:\n%s\n%s", dcpk_status_name(status), dcpk_status_name(code),
                  text, status == DCPK_OK ? none.ptx : why.text);
    ck_assert_int_eq(why.code, code);
    expect_text(why.text, needle);
    if (line == 0) return;
    ck_assert_msg(why.template_line == line, "line %u instead of %u: %s", why.template_line, line, why.text);
    ck_assert_str_eq(why.template_file, "own.ptx.lua");
}
