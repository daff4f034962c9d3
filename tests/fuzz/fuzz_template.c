/* fuzz_template.c - input: a template's text; one that begins with "--c" is CUDA C++. It is translated, line for line,
 * and expanded in the sandbox, with our own templates' helpers to include: it ends within the caps, refused with a
 * reason or expanded to text whose every line has an origin; the same text again when it is expanded again. */
#include "tests/fuzz/fuzz.h"

#include "gen/expand.h"
#include "gen/translate.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[256];

/* A folder that holds one template, for one input: libFuzzer ends without a word. In /dev/shm where that is there. */
static void put_template(const char *name, const uint8_t *bytes, size_t length) {
    const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/dcpk-fuzz-XXXXXX", where);
    fuzz_check(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_check(fd >= 0 && write(fd, bytes, length) == (ssize_t)length && close(fd) == 0);
}

static void remove_template(void) {
    unlink(path);
    rmdir(folder);
}

static uint32_t lines_of(const char *text, size_t length) {
    uint32_t lines = 0;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines;
}

static void check_translation(const uint8_t *bytes, size_t length) {
    char *text = fuzz_text(bytes, length), *lua = NULL, name[] = "fuzz.ptx.lua";
    struct source_file file = {.name = name, .text = text, .length = length};
    size_t lua_length = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = translate(&file, &lua, &lua_length, &error);
    fuzz_check(status == DCPK_OK || (error.text[0] != '\0' && error.template_line > 0));
    fuzz_check(status != DCPK_OK || lines_of(lua, lua_length) == lines_of(text, length));
    if (status == DCPK_OK) free(lua);
    free(text);
}

static void check_expansion(const struct expansion *x) {
    fuzz_check(lines_of(x->ptx, x->ptx_length) == x->ptx_lines && strlen(x->ptx) == x->ptx_length);
    fuzz_check(x->entry_count >= 1 && x->entry_count <= DCPK_IMAGE_MAX_ENTRIES);
    for (uint32_t i = 0; i < x->ptx_lines; i++) {
        const struct line_origin *o = &x->origins[i];
        fuzz_check(o->file < x->file_count && o->frame_first + o->frame_count <= x->frame_count);
    }
}

/* expand: into *out with a fresh expander, as each build does. */
static dcpk_status expand(struct expansion *out) {
    struct expander *expander = NULL;
    dcpk_spec spec;
    dcpk_error error;
    char folders[128];
    dcpk_error_init(&error);
    snprintf(folders, sizeof folders, "%s:templates", folder);
    fuzz_check(dcpk_spec_parse(&spec, "fuzz arch=sm_90a batch=3 heads=4 dcp=2 q=1", &error) == DCPK_OK);
    fuzz_check(dcpk_spec_resolve(&spec, &error) == DCPK_OK);
    fuzz_check(expander_open(folders, &expander, &error) == DCPK_OK);
    dcpk_status status = expander_expand(expander, &spec, out, &error);
    fuzz_check(status == DCPK_OK || error.text[0] != '\0');
    expander_close(expander);
    return status;
}

/* Twice: the same text both times. */
static void expand_twice(void) {
    struct expansion first, second;
    if (expand(&first) != DCPK_OK) return;
    check_expansion(&first);
    fuzz_check(expand(&second) == DCPK_OK && second.ptx_length == first.ptx_length);
    fuzz_check(memcmp(first.ptx, second.ptx, first.ptx_length) == 0);
    expansion_free(&first);
    expansion_free(&second);
}

void fuzz_template(const uint8_t *bytes, size_t length) {
    check_translation(bytes, length);
    bool cuda = length >= 3 && memcmp(bytes, "--c", 3) == 0;
    put_template(cuda ? "fuzz.cu.lua" : "fuzz.ptx.lua", bytes, length);
    expand_twice();
    remove_template();
}
