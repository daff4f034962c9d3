/* fuzz_log.c - input: a letter, then what a compiler wrote about an expansion, up to the first NUL: `p` a log about
 * PTX, `c` NVRTC's log about CUDA C++, `n` NVRTC's PTX, whose lines are led back to the template and which is then
 * linted; `l` the same with lineinfo=1. */
#include "tests/fuzz/fuzz.h"

#include "gen/lint.h"
#include "gen/nvrtc.h"
#include "gen/toolchain.h"
#include "runtime/error.h"

#include <string.h>

enum { LINES = 12 };

/* An expansion of two files and helper frames, as expander_expand leaves one: whole, owned. */
static void make(struct expansion *x, enum expansion_language language) {
    static const char text[] = "one\ntwo\nthree\n__global__ void dcpk_k(unsigned long long *to) {\n  five;\n  six;\n}\n"
                               "eight\nnine\nten\neleven\ntwelve\n";
    *x = (struct expansion){.language = language,
                            .ptx = strdup(text),
                            .ptx_length = sizeof text - 1,
                            .ptx_lines = LINES,
                            .ptx_version = 78,
                            .target = "sm_90a",
                            .entry_count = 1,
                            .files = calloc(2, sizeof *x->files),
                            .file_count = 2,
                            .origins = calloc(LINES, sizeof *x->origins),
                            .frames = calloc(2, sizeof *x->frames),
                            .frame_count = 2};
    fuzz_check(x->ptx && x->files && x->origins && x->frames);
    x->entries[0] = (dcpk_entry_info){.size = sizeof x->entries[0], .name = "dcpk_k", .param_count = 1};
    memcpy(x->entries[0].params[0].name, "to", 3);
    memcpy(x->entries[0].params[0].type, "u64", 4);
    for (uint32_t i = 0; i < 2; i++)
        x->files[i] = (struct source_file){
            .name = strdup(i ? "lib/two.lua" : "one.cu.lua"), .text = strdup("a\nb\nc\n\nend"), .length = 10};
    x->frames[1] = (struct line_frame){0, 5};
    x->frames[0] = (struct line_frame){1, 2};
    for (uint32_t i = 0; i < LINES; i++)
        x->origins[i] = (struct line_origin){
            .file = i % 2, .line = i, .frame_first = i % 3 == 2, .frame_count = i % 3 ? 1 : i % 2 * 2};
}

static void read_log(const char *log, enum expansion_language language) {
    struct expansion x;
    dcpk_error error;
    make(&x, language);
    dcpk_error_init(&error);
    dcpk_error_set(&error, DCPK_E_TOOLCHAIN, "own: the compiler says:");
    scan_log(&x, log, &error);
    fuzz_check(strlen(error.text) < sizeof error.text && strlen(error.template_file) < sizeof error.template_file);
    scan_log(&x, log, NULL);
    expansion_free(&x);
}

static void check_origins(const struct expansion *x) {
    uint32_t lines = 0;
    for (size_t i = 0; i < x->ptx_length; i++)
        lines += x->ptx[i] == '\n';
    fuzz_check(lines == x->ptx_lines && x->ptx[x->ptx_length] == '\0');
    for (uint32_t i = 0; i < x->ptx_lines; i++) {
        const struct line_origin *o = &x->origins[i];
        fuzz_check(o->file < x->file_count && o->frame_first + o->frame_count <= x->frame_count);
    }
    for (uint32_t i = 0; i < x->frame_count; i++)
        fuzz_check(x->frames[i].file < x->file_count);
}

static void read_ptx(const char *ptx, bool lineinfo) {
    struct expansion x;
    dcpk_spec spec;
    dcpk_error error;
    make(&x, EXPANSION_CUDA);
    dcpk_error_init(&error);
    fuzz_check(dcpk_spec_parse(&spec, lineinfo ? "k arch=sm_90a lineinfo=1" : "k arch=sm_90a", &error) == DCPK_OK);
    dcpk_status status = nvrtc_take_ptx(&x, &spec, ptx, &error);
    fuzz_check(status == DCPK_OK || error.text[0] != '\0');
    check_origins(&x);
    if (status == DCPK_OK && lint(&x, &error) == DCPK_OK) nvrtc_check_params(&x, &error);
    expansion_free(&x);
}

void fuzz_log(const uint8_t *bytes, size_t length) {
    if (length == 0) return;
    char *text = fuzz_text(bytes + 1, length - 1);
    if (bytes[0] == 'p') read_log(text, EXPANSION_PTX);
    if (bytes[0] == 'c') read_log(text, EXPANSION_CUDA);
    if (bytes[0] == 'n' || bytes[0] == 'l') read_ptx(text, bytes[0] == 'l');
    free(text);
}
