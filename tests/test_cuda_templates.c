/* test_cuda_templates.c - NAME.cu.lua: CUDA C++ that becomes a kernel like any other. Its text and metadata agree, its
 * errors lead to template lines whoever finds them, the rules of kernels hold, and NVRTC is part of the keys.
 * What needs the real NVRTC is skipped, and said to be, where there is none. */
#include "tests/compilers.h"
#include "tests/own_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- with no NVRTC needed ---- */

START_TEST(cuda_template_without_nvrtc_says_what_is_missing) {
    put_own(NULL, STORE);
    setenv("DCPK_NVRTC", "/nowhere/libnvrtc.so", 1);
    own_refused("nvjitlink", DCPK_E_TOOLCHAIN, "", 0,
                "/nowhere/libnvrtc.so does not open as a library; DCPK_NVRTC names it");
    setenv("DCPK_NVRTC", "libm.so.6", 1);
    own_refused("nvjitlink", DCPK_E_TOOLCHAIN, "", 0, "/libm.so.6 has no nvrtc");
    dcpk_gen *gen = open_with("nvjitlink", 0);
    dcpk_image_free(build_tiny(gen, 1, NULL)); /* a PTX template needs none */
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(kernel_with_two_templates_is_refused) {
    char path[160], text[400];
    put_own(NULL, STORE);
    snprintf(path, sizeof path, "%s/own.ptx.lua", template_folder);
    put_text(path, "kernel { grid = { 1 }, block = { 32 } }\n|   ret;\n");
    snprintf(text, sizeof text, "own: %s and %s/own.cu.lua are both there", path, template_folder);
    own_refused("nvjitlink", DCPK_E_TEMPLATE, "", 0, text);
}
END_TEST

START_TEST(cuda_text_and_options_are_what_the_metadata_says) {
    put_own(NULL, STORE "|   // $(f32(0.1)) $(f32(-2)) $(f64(1/3)) $(hex(255)) $(param.to)\n");
    fake->ptx = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry dcpk_own(\n.param .u64 a,\n"
                ".param .u32 b, .param .u32 c, .param .f32 d)\n{\n"
                "griddepcontrol.wait;\nret;\n}\n";
    dcpk_error error;
    dcpk_image *image;
    dcpk_gen *gen = open_with("nvjitlink", 0);
    ck_assert_int_eq(try_own(gen, "batch=2", &image, NULL, &error), DCPK_E_BAD_CUBIN); /* the fake's is of "tiny" */
    dcpk_gen_close(gen);
    static const char *const wanted[] = {
        "// dcpk: own\n// own arch=sm_90a batch=2\n",
        "\nextern \"C\" __global__ void __launch_bounds__(64)\ndcpk_own(\n    unsigned long long to,\n",
        "\n    unsigned pitch,",
        "\n    int shift,\n    float eps)",
        "((float *)to)[threadIdx.x] = three(pitch) + shift + eps + 2;\n",
        "    // 0x1.99999ap-4f (-0x1p+1f) 0x1.5555555555555p-2 0xFF to\n}\n",
    };
    ck_assert_int_eq(fake->made, 2); /* NVRTC's program, nvJitLink's link: whose text came last */
    gen = open_with("driver", 0);
    snprintf(fake->fail_step, sizeof fake->fail_step, "nvrtcCompileProgram");
    fake->fail_with = 6;
    ck_assert_int_eq(try_own(gen, "batch=2", &image, NULL, &error), DCPK_E_TOOLCHAIN);
    dcpk_gen_close(gen);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        ck_assert_msg(strstr(fake->text, wanted[i]), "no '%s' in:\n%s", wanted[i], fake->text);
    ck_assert_str_eq(fake->options, "--gpu-architecture=compute_90a --std=c++17 --device-as-default-execution-space "
                                    "--fmad=false --ftz=false --prec-div=true --prec-sqrt=true --no-source-include "
                                    "--generate-line-info --no-cache");
}
END_TEST

START_TEST(cuda_templates_have_no_registers_and_no_labels) {
    put_own(NULL, "local x = b32 \"x\"\n");
    own_refused("nvjitlink", DCPK_E_TEMPLATE, "own.cu.lua", 7, "registers are PTX's");
    put_own(NULL, "local x = label \"x\"\n");
    own_refused("nvjitlink", DCPK_E_TEMPLATE, "own.cu.lua", 7, "labels are PTX's");
    put_own(NULL, "|   // \xc3\xa9\n");
    own_refused("nvjitlink", DCPK_E_TEMPLATE, "own.cu.lua", 7, "byte 0xC3 in CUDA C++ text");
}
END_TEST

START_TEST(nvrtc_that_hangs_is_given_up_in_time) {
    dcpk_image *image;
    dcpk_error error;
    struct timespec begin, end;
    put_own(NULL, STORE);
    fake->hang_ms = 1000;
    dcpk_gen *gen = open_with("nvjitlink", 200);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    ck_assert_int_eq(try_own(gen, "batch=2", &image, NULL, &error), DCPK_E_TOOLCHAIN);
    clock_gettime(CLOCK_MONOTONIC, &end);
    ck_assert(end.tv_sec - begin.tv_sec <= 1);
    ck_assert_msg(strstr(error.text, "NVRTC 13.9") && strstr(error.text, "more than 0.2 s and was given up"), "%s",
                  error.text);
    dcpk_gen_close(gen);
    for (int i = 0; i < 300 && fake->destroyed == 0; i++)
        usleep(10000);
    ck_assert_int_eq(fake->destroyed, 1);
}
END_TEST

START_TEST(nvrtc_that_writes_no_ptx_makes_no_image) {
    put_own(NULL, STORE);
    fake->ptx = "";
    own_refused("nvjitlink", DCPK_E_TOOLCHAIN, "", 0, "no .version or .target line");
    fake->ptx = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry dcpk_other()\n{\nret;\n}\n";
    own_refused("nvjitlink", DCPK_E_LINT, "", 0, "an entry is the generator's to write");
    fake->ptx = ".version 9.0\n.target sm_90a\n.address_size 64\n";
    own_refused("nvjitlink", DCPK_E_LINT, "", 0, "has no entry dcpk_own");
    char path[160];
    snprintf(path, sizeof path, "%s/own.cu.lua", template_folder);
    put_text(path, "need { ptx = \"9.1\" }\nkernel { grid = { 1 }, block = { 32 } }\n");
    own_refused("nvjitlink", DCPK_E_TOOLCHAIN, "", 0, "needs PTX 9.1 and this NVRTC writes 9.0");
}
END_TEST

/* ---- with the real NVRTC ---- */

START_TEST(cuda_template_becomes_an_image_like_any_other) {
    dcpk_build_report report;
    dcpk_entry_info entry = {.size = sizeof entry};
    put_own(NULL, STORE);
    dcpk_gen *gen = open_with("ptxas", 0);
    dcpk_image *image = build_own(gen, "batch=3", &report);
    ck_assert_uint_eq(report.hit, 0);
    ck_assert_uint_eq(dcpk_image_entry_count(image), 1);
    ck_assert_int_eq(dcpk_image_entry(image, 0, &entry, NULL), DCPK_OK);
    ck_assert_str_eq(entry.name, "dcpk_own");
    ck_assert_uint_eq(entry.grid[0], 3);
    ck_assert_uint_eq(entry.block[0], 64);
    ck_assert_uint_eq(entry.waits, 1);
    ck_assert_uint_eq(entry.param_count, 4);
    static const char *const params[][2] = {{"to", "u64"}, {"pitch", "u32"}, {"shift", "s32"}, {"eps", "f32"}};
    for (size_t i = 0; i < 4; i++) {
        ck_assert_str_eq(entry.params[i].name, params[i][0]);
        ck_assert_str_eq(entry.params[i].type, params[i][1]);
    }
    const char *ptx = dcpk_image_ptx(image, NULL), *store = strstr(ptx, "st.global"), *file = NULL;
    ck_assert_msg(strncmp(ptx, "// dcpk: own\n// own arch=sm_90a batch=3\n", 39) == 0, "%s", ptx);
    ck_assert_msg(strstr(ptx, "\n\t.param .u64 dcpk_own_param_0,\n\t.param .u32 dcpk_own_param_1,\n"
                              "\t.param .u32 dcpk_own_param_2,\n\t.param .f32 dcpk_own_param_3\n)"),
                  "%s", ptx);
    ck_assert_ptr_nonnull(store);
    unsigned line = 1;
    for (const char *at = ptx; at < store; at++)
        line += *at == '\n';
    ck_assert_uint_eq(dcpk_image_template_line(image, line, &file), 7);
    ck_assert_str_eq(file, "own.cu.lua");
    ck_assert_ptr_null(strstr(ptx, ".loc"));
    ck_assert_ptr_null(strstr(ptx, ".file"));
    dcpk_image_free(image);
    dcpk_gen_close(gen);
    gen = open_with("ptxas", 0);
    image = build_own(gen, "batch=3", &report);
    ck_assert_uint_eq(report.hit, 2);
    ck_assert(report.expand_ms == 0); /* nothing was expanded and nothing compiled */
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(cuda_keys_hold_nvrtc_and_its_options) {
    dcpk_build_report first, second;
    put_own(NULL, STORE);
    dcpk_gen *gen = open_with("ptxas", 0);
    dcpk_image *image = build_own(gen, "batch=2", &first);
    const char *preimage = dcpk_image_preimage(image, NULL);
    ck_assert_msg(strstr(preimage, "\nfront: NVRTC ") && strstr(preimage, " --gpu-architecture=compute_90a "), "%s",
                  preimage);
    ck_assert_msg(strstr(preimage, "\ntoolchain: ptxas "), "%s", preimage);
    dcpk_image_free(image);
    dcpk_image_free(build_own(gen, "batch=2 arch=sm_100a", &second));
    ck_assert_str_ne(first.key, second.key);
    put_own("return x * 3;", STORE); /* other text, the same code: the content's key is the PTX's and line map's */
    dcpk_gen_close(gen);
    gen = open_with("ptxas", 0);
    dcpk_image_free(build_own(gen, "batch=2", &second));
    ck_assert(second.expand_ms > 0);
    put_own("return x << 4;", STORE);
    dcpk_gen_close(gen);
    gen = open_with("ptxas", 0);
    dcpk_image_free(build_own(gen, "batch=2", &second));
    ck_assert_uint_eq(second.hit, 0);
    ck_assert_str_ne(first.key, second.key);
    dcpk_gen_close(gen);
    gen = open_with("nvjitlink", 0); /* as an engine without a toolkit's programs would */
    image = build_own(gen, "batch=2", &second);
    ck_assert_uint_eq(second.hit, 0);
    ck_assert_uint_eq(second.compiled, 0);
    preimage = dcpk_image_preimage(image, NULL);
    ck_assert_msg(strstr(preimage, "\nfront: NVRTC ") && strstr(preimage, "\ntoolchain: nvJitLink "), "%s", preimage);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(cuda_errors_of_nvrtc_show_both_lines) {
    put_own(NULL, "for i = 1, 2 do\n|   ((int *)to)[$(i)] = nope;\nend\n");
    own_refused("ptxas", DCPK_E_TOOLCHAIN, "own.cu.lua", 8,
                "\nown.cu.lua:8: error: identifier \"nope\" is undefined\n    |   ((int *)to)[$(i)] = nope;\n"
                "  CUDA C++ line ");
    own_refused("ptxas", DCPK_E_TOOLCHAIN, "own.cu.lua", 8, ":     ((int *)to)[1] = nope;\n");
    put_own("return 3 * nope;", STORE);
    own_refused("ptxas", DCPK_E_TOOLCHAIN, "lib/helper.lua", 4,
                "\nlib/helper.lua:4: error: identifier \"nope\" is undefined\n    |    return 3 * nope;\n"
                "  from lib/helper.lua:7\n  from own.cu.lua:3\n  CUDA C++ line ");
    put_own(NULL, "|   three(1, 2);\n|   {\n");
    own_refused("ptxas", DCPK_E_TOOLCHAIN, "own.cu.lua", 7, "own.cu.lua:7: error: too many arguments in function call");
    own_refused("ptxas", DCPK_E_TOOLCHAIN, "own.cu.lua", 7, "At end of source: error: expected a \"}\"");
    put_own(NULL, "|   three(\"a\");\n|   void other(int, float); void other(float, char); other(\"a\", 1);\n");
    own_refused("ptxas", DCPK_E_TOOLCHAIN, "own.cu.lua", 7,
                "own.cu.lua:8: error: no instance of overloaded function \"other\" matches the argument list\n"
                "    argument types are: (const char [2], int)\n    |   void other");
}
END_TEST

START_TEST(cuda_errors_at_a_kernels_end_name_its_last_line) {
    char path[160];
    put_own(NULL, "|   int a = shift;\n|   three(a)\n\n-- the end\n");
    own_refused("ptxas", DCPK_E_TOOLCHAIN, "own.cu.lua", 8, "\nown.cu.lua:8: error: expected a \";\"\n");
    put_own(NULL, "|   if (shift) {\n|     three(3);\n");
    own_refused("ptxas", DCPK_E_TOOLCHAIN, "own.cu.lua", 8,
                "\nown.cu.lua:8: At end of source: error: expected a \"}\"");
    put_own(NULL, "|   three(3)\nkernel { name = \"next\", grid = { 1 }, block = { 32 } }\n");
    own_refused("ptxas", DCPK_E_TOOLCHAIN, "own.cu.lua", 7, "\nown.cu.lua:7: error: expected a \";\"\n");
    snprintf(path, sizeof path, "%s/lib/last.lua", template_folder);
    put_text(path, "return { last = function()\n|   int b = 3\nend }\n");
    put_own(NULL, "local last = include \"lib/last\"\nlast.last()\n");
    own_refused("ptxas", DCPK_E_TOOLCHAIN, "lib/last.lua", 2, "\n  from own.cu.lua:8\n");
}
END_TEST

START_TEST(cuda_errors_of_the_assemblers_show_both_lines) {
    static const char *const toolchains[] = {"ptxas", "nvjitlink"};
    put_own(NULL, "|   unsigned odd = shift;\n|   asm volatile(\"add.bogus %0, %0, 1;\" : \"+r\"(odd));\n"
                  "|   ((unsigned *)to)[0] = odd;\n");
    for (size_t i = 0; i < 2; i++) {
        own_refused(toolchains[i], DCPK_E_TOOLCHAIN, "own.cu.lua", 8,
                    "\nown.cu.lua:8: error: Unknown modifier '.bogus'\n    |   asm volatile(\"add.bogus %0, %0, 1;\"");
        own_refused(toolchains[i], DCPK_E_TOOLCHAIN, "own.cu.lua", 8, ": \tadd.bogus %r");
    }
    put_own("asm volatile(\"add.bogus %0, %0, 1;\" : \"+r\"(x)); return x;", STORE);
    own_refused("ptxas", DCPK_E_TOOLCHAIN, "lib/helper.lua", 4,
                "\n  from lib/helper.lua:7\n  from own.cu.lua:3\n"
                "  from own.cu.lua:7\n  PTX line ");
}
END_TEST

START_TEST(cuda_warnings_are_logged_with_the_template_line) {
    put_own(NULL, "|   if (shift = 3) return;\n" STORE);
    log_reset();
    dcpk_gen *gen = open_with("ptxas", 0);
    dcpk_image_free(build_own(gen, "batch=2", NULL));
    ck_assert_uint_eq(logged.warnings, 1);
    ck_assert_msg(strstr(logged.last_warning, "own.cu.lua:7: warning #187-D: use of \"=\""), "%s", logged.last_warning);
    ck_assert_ptr_null(strstr(logged.last_warning, "Remark"));
    dcpk_gen_close(gen);
}
END_TEST

/* The rules of gen/lint.c, on what NVRTC made. */
START_TEST(cuda_kernels_keep_the_rules_of_kernels) {
    char path[160];
    static const struct {
        const char *body, *text;
        unsigned line;
    } rows[] = {
        {"|   ((int *)to)[1] = 1;\n|   asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n",
         "a store or atomic before griddepcontrol.wait", 2},
        {"|   int x = ((int *)to)[1];\n|   asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
         "|   ((int *)to)[2] = x;\n",
         "a load before griddepcontrol.wait: the kernel before this one may not have written it yet", 2},
        {"|   ((int *)to)[1] = 1;\n", "touches global memory and never executes griddepcontrol.wait", 2},
        {"|   if (to != 0) asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n|   ((int *)to)[1] = 1;\n",
         "griddepcontrol.wait", 2},
        {"|   asm volatile(\"griddepcontrol.launch_dependents; griddepcontrol.wait;\" ::: \"memory\");\n",
         "launch_dependents before griddepcontrol.wait", 2},
        {"|   asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
         "|   asm volatile(\"tcgen05.fence::before_thread_sync;\");\n",
         "needs target sm_100a", 3},
        {"|   asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n|   }\n"
         "|   extern \"C\" __global__ void f() {\n",
         "an entry is the generator's to write", 4},
    };
    snprintf(path, sizeof path, "%s/own.cu.lua", template_folder);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, "kernel { grid = { 1 }, block = { 32 }, params = { { \"to\", \"u64\" } } }\n%s",
                 rows[i].body);
        put_text(path, text);
        own_refused("ptxas", DCPK_E_LINT, "own.cu.lua", rows[i].line, rows[i].text);
    }
}
END_TEST

START_TEST(cuda_ptx_is_the_same_in_every_folder_and_process) {
    put_own(NULL, "|   __shared__ float t[64];\n|   t[threadIdx.x] = eps;\n|   __syncthreads();\n" STORE
                  "|   ((float *)to)[0] += t[shift];\n");
    char *first = own_ptx("batch=2"), line[400];
    snprintf(line, sizeof line, "mkdir -p '%s/else' && cp -r '%s' '%s/else/where'", place, template_folder, place);
    ck_assert_int_eq(system(line), 0);
    ck_assert_int_eq(chdir("/"), 0);
    snprintf(template_folder, sizeof template_folder, "%s/else/where", place);
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    char *second = own_ptx("batch=2");
    ck_assert_str_eq(first, second);
    ck_assert_ptr_null(strstr(first, place));
    free(first), free(second);
}
END_TEST

START_TEST(cuda_lineinfo_shows_template_lines) {
    put_own(NULL, STORE);
    char *ptx = own_ptx("batch=2 lineinfo=1");
    ck_assert_msg(strstr(ptx, "\n.file 1 \"own.cu.lua\", 1, 1\n.file 2 \"lib/helper.lua\", 1, 1\n"), "%s", ptx);
    const char *store = strstr(ptx, "st.global"), *loc = NULL;
    for (const char *at = ptx; (at = strstr(at, ".loc ")) != NULL && at < store; at++)
        loc = at;
    ck_assert_ptr_nonnull(loc);
    ck_assert_msg(strncmp(loc, ".loc 1 7 0\n", 11) == 0, "%s", ptx);
    ck_assert_ptr_null(strstr(ptx, ".section"));
    free(ptx);
    dcpk_gen *gen = open_with("ptxas", 0);
    dcpk_image_free(build_own(gen, "batch=2 lineinfo=1", NULL));
    dcpk_gen_close(gen);
}
END_TEST

/* Only `.loc`, `.file` and `.section` are debug lines, and not what begins like them. */
static void *cubin_of(const char *toolchain, const char *text, size_t *length) {
    char line[160];
    dcpk_spec spec;
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    snprintf(line, sizeof line, "rm -rf '%s'/*", cache_folder);
    ck_assert_int_eq(system(line), 0);
    dcpk_gen *gen = open_with(toolchain, 0);
    ck_assert_int_eq(dcpk_spec_parse(&spec, text, &error), DCPK_OK);
    ck_assert_msg(dcpk_gen_build(gen, &spec, &image, NULL, &error) == DCPK_OK, "%s", error.text);
    const void *cubin = dcpk_image_cubin(image, length);
    void *copy = malloc(*length);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, cubin, *length);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
    return copy;
}

/* The compilers look for the files that .file lines name. */
START_TEST(lineinfo_cubins_are_the_same_in_every_folder) {
    static const char *const toolchains[] = {"ptxas", "nvjitlink"}, *const kernels[] = {"own", "tiny"};
    char folder[200], path[200], text[80];
    put_own(NULL, STORE);
    for (size_t i = 0; i < 4; i++) {
        size_t length, other_length;
        snprintf(text, sizeof text, "%s arch=sm_90a batch=2 lineinfo=1", kernels[i % 2]);
        ck_assert_int_eq(chdir("/"), 0);
        void *cubin = cubin_of(toolchains[i / 2], text, &length);
        snprintf(folder, sizeof folder, "rm -rf '%s/here' && mkdir '%s/here'", place, place);
        ck_assert_int_eq(system(folder), 0);
        snprintf(path, sizeof path, "%s/here/%s.%s.lua", place, kernels[i % 2], i % 2 == 0 ? "cu" : "ptx");
        put_text(path, "something else\n");
        snprintf(path, sizeof path, "%s/here", place);
        ck_assert_int_eq(chdir(path), 0);
        void *other = cubin_of(toolchains[i / 2], text, &other_length);
        ck_assert_uint_eq(length, other_length);
        ck_assert_msg(memcmp(cubin, other, length) == 0, "%s by %s differs", text, toolchains[i / 2]);
        free(cubin);
        free(other);
    }
}
END_TEST

START_TEST(cuda_kernels_may_have_arrays_of_their_own) {
    dcpk_entry_info entry = {.size = sizeof entry};
    put_own(NULL, "|   int mine[16];\n"
                  "|   for (int i = 0; i < 16; i++) mine[i] = ((int *)to)[i];\n"
                  "|   ((int *)to)[threadIdx.x] = mine[((int *)to)[40] & 15] + three(shift);\n");
    for (int lineinfo = 0; lineinfo < 2; lineinfo++) {
        dcpk_gen *gen = open_with("ptxas", 0);
        dcpk_image *image = build_own(gen, lineinfo ? "batch=2 lineinfo=1" : "batch=2", NULL);
        const char *ptx = dcpk_image_ptx(image, NULL), *file = NULL;
        ck_assert_msg(strstr(ptx, "\t.local .align ") && strstr(ptx, "st.local") && strstr(ptx, "ld.local"), "%s", ptx);
        ck_assert_int_eq(dcpk_image_entry(image, 0, &entry, NULL), DCPK_OK);
        unsigned line = 1;
        for (const char *at = ptx; at < strstr(ptx, "ld.local"); at++)
            line += *at == '\n';
        ck_assert_uint_eq(dcpk_image_template_line(image, line, &file), 9);
        ck_assert_str_eq(file, "own.cu.lua");
        dcpk_image_free(image);
        dcpk_gen_close(gen);
    }
}
END_TEST

START_TEST(cuda_literals_are_exact) {
    put_own(NULL, "|   ((float *)to)[0] = $(f32(0.1));\n|   ((float *)to)[1] = $(f32(-1/0));\n"
                  "|   ((double *)to)[2] = $(f64(1/3));\n|   ((float *)to)[6] = $(f32(0/0));\n"
                  "|   ((float *)to)[7] = $(f32(-0.0)) - $(f32(1e-40));\n");
    char *ptx = own_ptx("batch=2");
    /* 0.1f, -inf, 1/3, NaN as bits; -0 - 1e-40 (a subnormal of 71362 steps) folded */
    static const char *const wanted[] = {"1036831949", "-8388608", "4599676419421066581", "2143289344", "-2147412286"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        ck_assert_msg(strstr(ptx, wanted[i]), "no %s in:\n%s", wanted[i], ptx);
    free(ptx);
}
END_TEST

START_TEST(cuda_shapes_reach_the_ptx) {
    char path[160];
    snprintf(path, sizeof path, "%s/own.cu.lua", template_folder);
    put_text(path, "local function body()\n"
                   "|   asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
                   "  local t = shared(\"t\", 256, 16)\n"
                   "|   $(t)[threadIdx.x] = (unsigned char)rows;\n"
                   "|   __syncthreads();\n"
                   "|   ((unsigned char *)rows)[threadIdx.x] = t[255 - threadIdx.x];\n"
                   "end\n"
                   "kernel { name = \"b\", grid = { 4, 2 }, block = { 32, 8 }, cluster = { 2 }, min_ctas = 3, params = "
                   "{ \"rows\" } }\n"
                   "body()\n"
                   "kernel { name = \"a\", grid = { 4 }, block = { 256 }, params = { \"rows\" } }\n"
                   "body()\n");
    dcpk_gen *gen = open_with("ptxas", 0);
    dcpk_image *image = build_own(gen, "batch=2", NULL);
    const char *ptx = dcpk_image_ptx(image, NULL);
    ck_assert_uint_eq(dcpk_image_entry_count(image), 2);
    for (uint32_t i = 0; i < 2; i++) {
        dcpk_entry_info entry = {.size = sizeof entry};
        ck_assert_int_eq(dcpk_image_entry(image, i, &entry, NULL), DCPK_OK);
        ck_assert_str_eq(entry.name, i == 0 ? "dcpk_b" : "dcpk_a");
        ck_assert_uint_eq(entry.waits, 1);
        ck_assert_uint_eq(entry.static_shared, 256);
    }
    ck_assert_msg(strstr(ptx, ".maxntid 256") && strstr(ptx, ".minnctapersm 3"), "%s", ptx);
    ck_assert_msg(strstr(ptx, ".reqnctapercluster 2, 1, 1"), "%s", ptx);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cuda_templates");
    TCase *tc = tcase_create("fake NVRTC");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, compilers_setup, compilers_teardown);
    tcase_add_test(tc, cuda_template_without_nvrtc_says_what_is_missing);
    tcase_add_test(tc, kernel_with_two_templates_is_refused);
    tcase_add_test(tc, cuda_text_and_options_are_what_the_metadata_says);
    tcase_add_test(tc, cuda_templates_have_no_registers_and_no_labels);
    tcase_add_test(tc, nvrtc_that_hangs_is_given_up_in_time);
    tcase_add_test(tc, nvrtc_that_writes_no_ptx_makes_no_image);
    suite_add_tcase(suite, tc);
    if (have_nvrtc("most tests of test_cuda_templates") && have_nvjitlink("most tests of test_cuda_templates") &&
        have_ptxas()) {
        tc = tcase_create("NVRTC");
        tcase_set_timeout(tc, 60);
        tcase_add_checked_fixture(tc, real_compilers_setup, compilers_teardown);
        tcase_add_test(tc, cuda_template_becomes_an_image_like_any_other);
        tcase_add_test(tc, cuda_keys_hold_nvrtc_and_its_options);
        tcase_add_test(tc, cuda_errors_of_nvrtc_show_both_lines);
        tcase_add_test(tc, cuda_errors_at_a_kernels_end_name_its_last_line);
        tcase_add_test(tc, lineinfo_cubins_are_the_same_in_every_folder);
        tcase_add_test(tc, cuda_errors_of_the_assemblers_show_both_lines);
        tcase_add_test(tc, cuda_warnings_are_logged_with_the_template_line);
        tcase_add_test(tc, cuda_kernels_keep_the_rules_of_kernels);
        tcase_add_test(tc, cuda_ptx_is_the_same_in_every_folder_and_process);
        tcase_add_test(tc, cuda_lineinfo_shows_template_lines);
        tcase_add_test(tc, cuda_kernels_may_have_arrays_of_their_own);
        tcase_add_test(tc, cuda_literals_are_exact);
        tcase_add_test(tc, cuda_shapes_reach_the_ptx);
        suite_add_tcase(suite, tc);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
