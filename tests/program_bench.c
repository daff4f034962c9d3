/* program_bench.c - the figures of docs/measurements.md: what the command costs as a process, what expanding costs, and
 * how fast the CPU device interprets.
 *
 * Prints medians with the number of runs; asserts nothing but that each step works. Option: --runs N. */
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

/* Products of one warpgroup on the CPU device, by the multiplications of their shapes and the core's own time. */
static void bench_wgmma(const char *types) {
    static struct wgmma_data data;
    static char text[WG_TEXT];
    const struct wgmma_case c = {types, 64, 4, 100, 128, 128, .contents = 'f'};
    const size_t bytes[4] = {sizeof data.image, sizeof data.registers, WG_THREADS * WG_OUT * 4,
                             sizeof data.descriptors};
    const void *from[4] = {data.image, data.registers, data.registers, data.descriptors};
    struct dcpk_driver driver;
    bool cpu = false, good = true;
    int count = 0;
    cu_context context = NULL;
    cu_library library = NULL;
    cu_kernel kernel = NULL;
    cu_function function = NULL;
    cu_ptr at[4] = {0};
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_driver_find("cpu", NULL, &driver, &cpu, &count, &error) != DCPK_OK) fail("wgmma", error.text);
    wgmma_fill(&c, 1, &data);
    wgmma_kernel(&c, text);
    good = !driver.primary_retain(&context, 0) && !driver.ctx_set_current(context) &&
           !driver.library_load(&library, text, NULL, NULL, 0, NULL, NULL, 0) &&
           !driver.library_get_kernel(&kernel, library, "f") && !driver.kernel_get_function(&function, kernel) &&
           !driver.func_set_attribute(function, DRIVER_FUNC_MAX_DYNAMIC_SHARED, WG_IMAGE);
    for (int i = 0; i < 4 && good; i++)
        good = !driver.mem_alloc(&at[i], bytes[i]) && !driver.copy_to_device(at[i], from[i], bytes[i]);
    void *parameters[] = {&at[0], &at[1], &at[2], &at[3]};
    cu_launch_config config = {.grid = {1, 1, 1}, .block = {WG_THREADS, 1, 1}, .shared_bytes = WG_IMAGE};
    double begin = now_of_core();
    if (!good || driver.launch(&config, function, parameters, NULL) || driver.ctx_synchronize())
        fail("wgmma", "the CPU device refuses it");
    double seconds = now_of_core() - begin,
           products = (double)WG_ROWS * c.columns * wgmma_depth(&c) * c.steps * c.repeats;
    printf("wgmma: m64n64k%u %s: %.0f million multiplications a second of one core\n", wgmma_depth(&c), types,
           products / seconds * 1e-6);
    for (int i = 0; i < 4; i++)
        driver.mem_free(at[i]);
    driver.library_unload(library);
    driver.primary_release(0);
}

int main(int argc, char **argv) {
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
    bench_wgmma("f32.e4m3.e4m3");
    bench_wgmma("f32.f16.f16");
    dcpk_gen_close(gen);
    return 0;
}
