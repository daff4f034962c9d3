/* own_template.c - see own_template.h. */
#include "tests/own_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void real_compilers_setup(void) {
    compilers_setup();
    unsetenv("DCPK_NVRTC");
    unsetenv("DCPK_NVJITLINK");
}

void put_own(const char *helper, const char *lines) {
    char path[160], text[4096];
    snprintf(path, sizeof path, "%s/lib/helper.lua", template_folder);
    snprintf(text, sizeof text,
             "local function one(name)\n"
             "|  __forceinline__ int $(name)(int x)\n"
             "|  {\n"
             "|    %s\n"
             "|  }\n"
             "end\n"
             "return { functions = function() one(\"three\") end }\n",
             helper ? helper : "return 3 * x;");
    put_text(path, text);
    snprintf(path, sizeof path, "%s/own.cu.lua", template_folder);
    snprintf(text, sizeof text,
             "-- own: a test's\n"
             "local helper = include \"lib/helper\"\n"
             "helper.functions()\n"
             "kernel { grid = { spec.batch }, block = { 64 },\n"
             "         params = { { \"to\", \"u64\" }, \"pitch\", { \"shift\", \"s32\" }, \"eps\" } }\n"
             "|   asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
             "%s",
             lines);
    put_text(path, text);
}

dcpk_status try_own(dcpk_gen *gen, const char *keys, dcpk_image **image, dcpk_build_report *report, dcpk_error *error) {
    dcpk_spec spec;
    char text[96];
    *image = NULL;
    dcpk_error_init(error);
    snprintf(text, sizeof text, "own %s", keys);
    ck_assert_int_eq(dcpk_spec_parse(&spec, text, error), DCPK_OK);
    if (report) *report = (dcpk_build_report){.size = sizeof *report};
    return dcpk_gen_build(gen, &spec, image, report, error);
}

dcpk_image *build_own(dcpk_gen *gen, const char *keys, dcpk_build_report *report) {
    dcpk_image *image;
    dcpk_error error;
    ck_assert_msg(try_own(gen, keys, &image, report, &error) == DCPK_OK, "%s", error.text);
    return image;
}

void own_refused(const char *toolchain, dcpk_status status, const char *file, unsigned line, const char *text) {
    dcpk_image *image;
    dcpk_error error;
    dcpk_gen *gen = open_with(toolchain, 0);
    dcpk_status got = try_own(gen, "batch=2", &image, NULL, &error);
    ck_assert_msg(got == status, "%s: %s", dcpk_status_name(got), error.text);
    ck_assert_msg(strstr(error.text, text) != NULL, "no '%s' in: %s", text, error.text);
    if (line > 0) {
        ck_assert_msg(strcmp(error.template_file, file) == 0 && error.template_line == line, "%s:%u: %s",
                      error.template_file, error.template_line, error.text);
    }
    ck_assert_ptr_null(image);
    ck_assert_uint_eq(count_files(".dcpk") + count_files(".manifest") + count_temporaries(), 0);
    dcpk_gen_close(gen);
}

char *own_ptx(const char *keys) {
    dcpk_gen *gen = open_with("ptxas", 0);
    dcpk_spec spec;
    dcpk_text ptx;
    dcpk_error error;
    char text[96];
    dcpk_error_init(&error);
    snprintf(text, sizeof text, "own %s", keys);
    ck_assert_int_eq(dcpk_spec_parse(&spec, text, &error), DCPK_OK);
    ck_assert_msg(dcpk_gen_expand(gen, &spec, &ptx, &error) == DCPK_OK, "%s", error.text);
    dcpk_gen_close(gen);
    return ptx.data;
}
