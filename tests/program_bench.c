/* program_bench.c - the figures of docs/measurements.md: what the command costs as a process, what expanding costs, and
 * how fast the CPU device interprets.
 *
 * Prints medians with the number of runs; asserts nothing but that each step works. Option: --runs N. The device's
 * figures come twice, the second time with its memory checker: a process of its own. */
#include "runtime/device.h"
#include "tests/wgmma_cases.h"
#include "tools/scenario.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RUNS = 1000 };
static int runs = 20;
static const char *mode = ""; /* before the names of the device's figures */
static char checked_word[] = "--checked";

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of each run -> one line in ms. */
static void print_times(const char *what, double *seconds, int count) {
    qsort(seconds, (size_t)count, sizeof *seconds, ascending);
    printf("%-44s median %8.3f ms, least %8.3f ms, most %8.3f ms (%d runs)\n", what, 1e3 * seconds[count / 2],
           1e3 * seconds[0], 1e3 * seconds[count - 1], count);
    fflush(stdout);
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

static char build_folder[2048]; /* above this program's own */

static void find_build_folder(void) {
    ssize_t n = readlink("/proc/self/exe", build_folder, sizeof build_folder - 1);
    if (n <= 0) fail("where am I", strerror(errno));
    build_folder[n] = '\0';
    for (int up = 0; up < 2; up++)
        *strrchr(build_folder, '/') = '\0';
}

static double process_seconds(char *const *words) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    pid_t child;
    int status = -1;
    double begin = now();
    int result = posix_spawn(&child, words[0], &files, NULL, words, environ);
    if (result != 0) fail(words[0], strerror(result));
    waitpid(child, &status, 0);
    double seconds = now() - begin;
    posix_spawn_file_actions_destroy(&files);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail(words[0], "did not end with 0");
    return seconds;
}

static void bench_processes(void) {
    char command[4200], verb_gen[] = "gen", verb_build[] = "build", kernel[] = "dcp_value", heads[] = "heads=12",
                        dcp[] = "dcp=2", batch[] = "batch=17", version[] = "--version";
    snprintf(command, sizeof command, "%s/dcpk", build_folder);
    char *nothing[] = {command, version, NULL};
    char *gen[] = {command, verb_gen, kernel, heads, dcp, batch, NULL};
    char *build[] = {command, verb_build, kernel, heads, dcp, batch, NULL};
    double seconds[MAX_RUNS] = {0};
    process_seconds(build); /* fills the cache: what follows is warm */
    char *const *const words[] = {nothing, gen, build};
    static const char *const names[] = {"process: dcpk --version", "process: dcpk gen dcp_value",
                                        "process: dcpk build dcp_value, warm"};
    for (int w = 0; w < 3; w++) {
        for (int i = 0; i < runs; i++)
            seconds[i] = process_seconds(words[w]);
        print_times(names[w], seconds, runs);
    }
}

static void bench_expansion(dcpk_gen *gen) {
    static const char *const specs[] = {"query_norm heads=12 batch=1",
                                        "query_norm heads=12 batch=17",
                                        "query_push heads=12 dcp=2 batch=17",
                                        "query_wait heads=12 dcp=2 batch=17",
                                        "dcp_value heads=12 dcp=2 batch=1",
                                        "dcp_value heads=12 dcp=2 batch=17",
                                        "dcp_value heads=12 dcp=8 batch=64 split=1"};
    double seconds[MAX_RUNS] = {0};
    dcpk_error error;
    dcpk_error_init(&error);
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        dcpk_spec spec;
        char what[96];
        size_t length = 0;
        if (dcpk_spec_parse(&spec, specs[s], &error) != DCPK_OK || dcpk_spec_resolve(&spec, &error) != DCPK_OK)
            fail(specs[s], error.text);
        for (int i = 0; i < runs; i++) {
            dcpk_text ptx = {NULL, 0};
            double begin = now();
            if (dcpk_gen_expand(gen, &spec, &ptx, &error) != DCPK_OK) fail(specs[s], error.text);
            seconds[i] = now() - begin;
            length = ptx.length;
            dcpk_text_free(&ptx);
        }
        snprintf(what, sizeof what, "expand: %s", specs[s]);
        print_times(what, seconds, runs);
        printf("%-44s %zu bytes of PTX\n", "", length);
    }
}

/* One exchange, its launches only: instructions times active threads, a second. */
static void bench_interpreter(dcpk_gen *gen, int32_t heads, int32_t dcp, int32_t batch) {
    int32_t batches[3] = {batch, batch, batch};
    struct scenario_options options;
    struct scenario *scenario = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    scenario_options_init(&options, gen, heads, dcp);
    options.device = "cpu";
    options.batches = batches;
    options.uses = 3;
    options.seed = 1;
    if (scenario_open(&options, &scenario, &error) != DCPK_OK) fail("exchange", error.text);
    int (*get)(dcpkcpu_counters *);
    *(void **)&get = scenario_cpu_symbol(scenario, "dcpkcpu_get_counters");
    dcpkcpu_counters before = {.size = sizeof before}, after = {.size = sizeof after};
    if (get == NULL || get(&before) != 0 || scenario_run(scenario, &error) != DCPK_OK || get(&after) != 0)
        fail("exchange", error.text);
    if (scenario_wrong(scenario) != 0) fail("exchange", scenario_first_wrong(scenario));
    double seconds = scenario_run_seconds(scenario);
    double threads = (double)(after.thread_instructions - before.thread_instructions);
    double warps = (double)(after.warp_instructions - before.warp_instructions);
    printf("interpreter: heads=%d dcp=%d batch=%d, 3 uses: %.1f million thread instructions (%.1f active a warp "
           "instruction) in "
           "%.2f s: %.0f million a second\n",
           heads, dcp, batch, threads * 1e-6, warps > 0 ? threads / warps : 0, seconds,
           seconds > 0 ? threads / seconds * 1e-6 : 0);
    scenario_close(scenario);
}

static double now_of_core(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one kernel on the CPU device, by the core's own time ---- */
struct bench_kernel {
    const char *text;
    unsigned ctas, threads, shared_bytes;
    int buffers;
    size_t bytes[4];
    const void *from[4]; /* NULL: zeroes */
};

static double kernel_seconds(const struct bench_kernel *k) {
    struct dcpk_driver driver;
    bool cpu = false, good = true;
    int count = 0;
    cu_context context = NULL;
    cu_library library = NULL;
    cu_kernel kernel = NULL;
    cu_function function = NULL;
    cu_ptr at[4] = {0};
    void *parameters[4];
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_driver_find("cpu", NULL, &driver, &cpu, &count, &error) != DCPK_OK) fail("CPU device", error.text);
    good = !driver.primary_retain(&context, 0) && !driver.ctx_set_current(context) &&
           !driver.library_load(&library, k->text, NULL, NULL, 0, NULL, NULL, 0) &&
           !driver.library_get_kernel(&kernel, library, "f") && !driver.kernel_get_function(&function, kernel) &&
           !driver.func_set_attribute(function, DRIVER_FUNC_MAX_DYNAMIC_SHARED, (int)k->shared_bytes);
    for (int i = 0; i < k->buffers && good; i++) {
        void *zeroes = k->from[i] ? NULL : calloc(1, k->bytes[i]);
        good = !driver.mem_alloc(&at[i], k->bytes[i]) &&
               !driver.copy_to_device(at[i], k->from[i] ? k->from[i] : zeroes, k->bytes[i]);
        free(zeroes);
        parameters[i] = &at[i];
    }
    cu_launch_config config = {.grid = {k->ctas, 1, 1}, .block = {k->threads, 1, 1}, .shared_bytes = k->shared_bytes};
    double begin = now_of_core();
    if (!good || driver.launch(&config, function, parameters, NULL) || driver.ctx_synchronize())
        fail("CPU device", "refuses a kernel of the bench");
    double seconds = now_of_core() - begin;
    for (int i = 0; i < k->buffers; i++)
        driver.mem_free(at[i]);
    driver.library_unload(library);
    driver.primary_release(0);
    return seconds;
}

/* Products of one warpgroup, by the multiplications of their shapes. */
static void bench_wgmma(const char *types) {
    static struct wgmma_data data;
    static char text[WG_TEXT];
    const struct wgmma_case c = {types, 64, 4, 100, 128, 128, .contents = 'f'};
    wgmma_fill(&c, 1, &data);
    wgmma_kernel(&c, text);
    const struct bench_kernel kernel = {
        text,
        1,
        WG_THREADS,
        WG_IMAGE,
        4,
        {sizeof data.image, sizeof data.registers, WG_THREADS * WG_OUT * 4, sizeof data.descriptors},
        {data.image, data.registers, data.registers, data.descriptors}};
    double seconds = kernel_seconds(&kernel),
           products = (double)WG_ROWS * c.columns * wgmma_depth(&c) * c.steps * c.repeats;
    printf("%swgmma: m64n64k%u %s: %.0f million multiplications a second of one core\n", mode, wgmma_depth(&c), types,
           products / seconds * 1e-6);
}

/* Loops of one kind of instruction, a body of `each` and three more a turn, over 8 CTAs of 256 threads. */
static const struct loop {
    const char *name, *body;
    unsigned each, products; /* products: of a warp's turn; 0: instructions are counted */
} loops[] = {
    {"integer",
     "add.u32 %r2, %r2, 3; xor.b32 %r4, %r2, %r1; shl.b32 %r5, %r4, 2; and.b32 %r6, %r5, 255; add.u32 %r7, %r6, %r4; "
     "mad.lo.u32 %r8, %r7, %r6, %r5; min.u32 %r9, %r8, %r7;",
     7, 0},
    {"f32",
     "fma.rn.f32 %f3, %f1, %f2, %f2; mul.f32 %f4, %f3, %f1; add.f32 %f5, %f4, %f3; sub.f32 %f6, %f5, %f4; max.f32 %f7, "
     "%f6, %f5;",
     5, 0},
    {"predicates, conversions, 64 bits",
     "setp.lt.u32 %p2, %r2, 100; selp.b32 %r4, %r2, 5, %p2; @%p2 add.u32 %r5, %r4, 1; cvt.rn.bf16x2.f32 %r6, %f1, %f2; "
     "mul.wide.u32 %A3, %r2, 8; add.u64 %A4, %A1, %A3; cvt.u32.u64 %r7, %A4;",
     7, 0},
    {"global loads and stores",
     "ld.global.u32 %r4, [%A2]; ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%A1]; st.global.u32 [%A2], %r4; "
     "st.global.v4.u32 "
     "[%A1], {%r5, %r6, %r7, %r8};",
     4, 0},
    {"shared loads and stores",
     "st.shared.v4.u32 [%r20], {%r5, %r6, %r7, %r8}; ld.shared.u32 %r4, [%r21]; ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, "
     "[%r20]; st.shared.u32 [%r21], %r4;",
     4, 0},
    {"mma m16n8k16 bf16",
     "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, %f7}, {%r10, %r11, %r12, %r13}, {%r10, "
     "%r11}, {%f4, %f5, %f6, %f7};",
     1, 16 * 8 * 16},
    {"mma m16n8k16 f16",
     "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r10, %r11, %r12, %r13}, {%r10, %r11}, "
     "{%f4, %f5, %f6, %f7};",
     1, 16 * 8 * 16},
    {"mma m16n8k16 f16, sums in f16",
     "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r14, %r15}, {%r10, %r11, %r12, %r13}, {%r10, %r11}, {%r14, "
     "%r15};",
     1, 16 * 8 * 16},
    {"mma m16n8k32 e4m3",
     "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f4, %f5, %f6, %f7}, {%r10, %r11, %r12, %r13}, {%r10, "
     "%r11}, {%f4, %f5, %f6, %f7};",
     1, 16 * 8 * 32},
};

static void bench_loop(const struct loop *loop) {
    enum { CTAS = 8, THREADS = 256, TURNS = 4000, LOOP_END = 3 };
    unsigned turns = loop->products ? TURNS / 10 : loop->each == 4 ? TURNS / 2 : TURNS;
    char text[4096];
    snprintf(text, sizeof text,
             ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry f(.param .u64 a) {\n"
             ".reg .b32 %%r<32>; .reg .f32 %%f<16>; .reg .b64 %%A<8>; .reg .pred %%p<4>;\n"
             ".shared .align 16 .b8 box[%u];\n"
             "ld.param.u64 %%A0, [a]; mov.u32 %%r1, %%tid.x; mov.u32 %%r0, %u; mov.u32 %%r2, %%r1;\n"
             "mul.wide.u32 %%A1, %%r1, 16; add.u64 %%A1, %%A0, %%A1; mul.wide.u32 %%A2, %%r1, 4; add.u64 %%A2, %%A0, "
             "%%A2;\n"
             "mov.u32 %%r20, box; shl.b32 %%r21, %%r1, 4; add.u32 %%r20, %%r20, %%r21; mov.u32 %%r21, %%r20;\n"
             "cvt.rn.f32.u32 %%f1, %%r1; mov.f32 %%f2, 0f3F800000; mov.f32 %%f4, 0f00000000; mov.f32 %%f5, %%f4; "
             "mov.f32 %%f6, %%f4; mov.f32 %%f7, %%f4;\n"
             "mov.u32 %%r5, %%r1; mov.u32 %%r6, %%r1; mov.u32 %%r7, %%r1; mov.u32 %%r8, %%r1; mov.u32 %%r10, "
             "0x3C013C02; mov.u32 %%r11, 0x3C013801; mov.u32 %%r12, %%r10; mov.u32 %%r13, %%r11; mov.u32 %%r14, 0; "
             "mov.u32 %%r15, 0;\n"
             "L: %s\nsub.u32 %%r0, %%r0, 1; setp.ne.u32 %%p1, %%r0, 0; @%%p1 bra L;\nret; }\n",
             THREADS * 16u, turns, loop->body);
    const struct bench_kernel kernel = {text, CTAS, THREADS, 0, 1, {(size_t)THREADS * 16}, {NULL}};
    double seconds = kernel_seconds(&kernel), warps = CTAS * THREADS / 32.0;
    if (loop->products)
        printf("%s%s: %.0f million multiplications a second of one core\n", mode, loop->name,
               warps * turns * loop->products / seconds * 1e-6);
    else
        printf("%s%s: %.0f million thread instructions a second of one core\n", mode, loop->name,
               (double)CTAS * THREADS * turns * (loop->each + LOOP_END) / seconds * 1e-6);
    fflush(stdout);
}

static void bench_kernels(void) {
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++)
        bench_loop(&loops[i]);
    bench_wgmma("f32.e4m3.e4m3");
    bench_wgmma("f32.f16.f16");
}

/* The same with the memory checker: a process of its own, which takes the place of this one. */
static void bench_checked(void) {
    char *const words[] = {checked_word, checked_word, NULL};
    setenv("DCPK_CPU_CHECK", "1", 1);
    fflush(stdout);
    execv("/proc/self/exe", words);
    fail("the memory checker", strerror(errno));
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], checked_word) == 0) {
        mode = "memory checker: ";
        bench_kernels();
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--runs") == 0) runs = atoi(argv[2]); /* NOLINT: checked below */
    if ((argc != 1 && argc != 3) || runs < 1 || runs > MAX_RUNS) {
        fprintf(stderr, "usage: bench [--runs N] (1 to %d)\n", MAX_RUNS);
        return 2;
    }
    find_build_folder();
    char templates[5000];
    snprintf(templates, sizeof templates, "%s/../templates:%s/../tests/templates", build_folder, build_folder);
    dcpk_gen_options options = {.size = sizeof options, .template_path = templates};
    dcpk_gen *gen = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_gen_open(&options, &gen, &error) != DCPK_OK) fail("generator", error.text);
    bench_processes();
    bench_expansion(gen);
    bench_interpreter(gen, 12, 2, 1);
    bench_interpreter(gen, 12, 2, 17);
    bench_interpreter(gen, 12, 8, 5);
    dcpk_gen_close(gen);
    bench_kernels();
    bench_checked();
}
