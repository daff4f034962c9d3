/* building.c - fixtures of the suites of gen's building half. Knows dcpk's public API, gen's opening seam and nothing
 * else. */
#include "tests/building.h"

#include "gen/state.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char place[64], cache_folder[96], template_folder[96], fake_folder[96], fake_path[128];
struct log_count logged;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void make_folder(const char *path) {
    ck_assert_msg(mkdir(path, 0755) == 0 || errno == EEXIST, "mkdir %s", path);
}

/* The folder of build programs, where fake_ptxas lies. */
static void own_folder(char *folder, size_t capacity) {
    ssize_t length = readlink("/proc/self/exe", folder, capacity - 1);
    ck_assert_int_gt(length, 0);
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
}

/* A copy, so that the fake reads its orders beside itself. */
static void copy_program(const char *name, const char *to) {
    char from[4096];
    size_t length = 0;
    own_folder(from, sizeof from - 64);
    strcat(from, "/");
    strcat(from, name);
    char *bytes = get_file(from, &length);
    ck_assert_msg(bytes != NULL, "%s is not built", from);
    put_file(to, bytes, length);
    free(bytes);
    ck_assert_int_eq(chmod(to, 0755), 0);
}

void building_setup(void) {
    snprintf(place, sizeof place, "/tmp/dcpk-building-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(place));
    ck_assert_int_eq(chmod(place, 0755), 0);
    snprintf(cache_folder, sizeof cache_folder, "%s/cache", place);
    snprintf(template_folder, sizeof template_folder, "%s/templates", place);
    snprintf(fake_folder, sizeof fake_folder, "%s/fake", place);
    snprintf(fake_path, sizeof fake_path, "%s/ptxas", fake_folder);
    make_folder(template_folder);
    make_folder(fake_folder);
    ck_assert_int_eq(chmod(fake_folder, 0777), 0); /* children that gave up root count their starts here */
    copy_program("fake_ptxas", fake_path);
    put_templates("", "");
    log_reset();
}

void building_teardown(void) {
    nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void put_file(const char *path, const void *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "%s", path);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

void put_text(const char *path, const char *text) {
    put_file(path, text, strlen(text));
}

char *get_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)size + 1);
    ck_assert_ptr_nonnull(bytes);
    size_t got = fread(bytes, 1, (size_t)size, file);
    ck_assert_uint_eq(got, (size_t)size);
    fclose(file);
    bytes[size] = '\0';
    if (length) *length = (size_t)size;
    return bytes;
}

static const char *real_ptxas(void) {
    static char path[4096];
    const char *home = getenv("CUDA_HOME");
    char line[8192];
    snprintf(line, sizeof line, "PATH=\"$PATH:%s/bin:/usr/local/cuda/bin\" command -v ptxas", home ? home : "");
    FILE *pipe = popen(line, "r");
    path[0] = '\0';
    if (pipe && fgets(path, sizeof path, pipe)) path[strcspn(path, "\n")] = '\0';
    if (pipe) pclose(pipe);
    return path[0] ? path : NULL;
}

bool have_ptxas(void) {
    bool have = real_ptxas() != NULL;
    if (!have) fprintf(stderr, "no ptxas here: tests that assemble pass without doing so\n");
    return have;
}

char *try_cubin(const char *ptx, const char *arch, size_t *length, char **verbose) {
    char folder[] = "/tmp/dcpk-cubin-XXXXXX", line[8192], in[64], out[64], log[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(in, sizeof in, "%s/in.ptx", folder);
    snprintf(out, sizeof out, "%s/out.cubin", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    put_text(in, ptx);
    snprintf(line, sizeof line, "'%s' -v -O3 -arch %s '%s' -o '%s' >'%s' 2>&1", real_ptxas(), arch, in, out, log);
    int rc = system(line);
    *verbose = get_file(log, NULL);
    char *bytes = get_file(out, length);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (rc == 0) return bytes;
    free(bytes);
    return NULL;
}

char *real_cubin(const char *ptx, const char *arch, size_t *length, char **verbose) {
    char *text, *bytes = try_cubin(ptx, arch, length, &text);
    ck_assert_msg(bytes, "ptxas refuses the suite's own PTX: %s", text);
    if (verbose)
        *verbose = text;
    else
        free(text);
    return bytes;
}

void put_templates(const char *comment, const char *extra) {
    char path[160], text[2048];
    snprintf(path, sizeof path, "%s/lib", template_folder);
    make_folder(path);
    snprintf(path, sizeof path, "%s/lib/inner.lua", template_folder);
    put_text(path, "return { value = 1 }\n");
    snprintf(path, sizeof path, "%s/lib/outer.lua", template_folder);
    put_text(path, "local inner = include \"lib/inner\"\nreturn { value = inner.value }\n");
    snprintf(path, sizeof path, "%s/lib/unused.lua", template_folder);
    put_text(path, "return {}\n");
    snprintf(path, sizeof path, "%s/tiny.ptx.lua", template_folder);
    snprintf(text, sizeof text,
             "-- tiny: stores its batch%s\n"
             "local outer = include \"lib/outer\"\n"
             "need { ptx = \"7.8\", target = \"sm_90\" }\n"
             "kernel { grid = { spec.batch }, block = { 32 }, params = { { \"to\", \"u64\" } } }\n"
             "local address = b64 \"address\"\n"
             "|   ld.param.u64   $(address), [$(param.to)];\n"
             "|   griddepcontrol.wait;\n"
             "|   st.global.u32  [$(address)], $(spec.batch * outer.value);\n"
             "%s"
             "|   ret;\n",
             comment, extra);
    put_text(path, text);
}

/* Long enough that a page does not hold it. */
static char *good_cubin(size_t *length) {
    char *ptx = malloc(1 << 16);
    ck_assert_ptr_nonnull(ptx);
    int used = snprintf(ptx, 1 << 16,
                        ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry dcpk_tiny(.param .u64 to)\n"
                        ".reqntid 32, 1, 1\n{\n.reg .b64 %%a;\nld.param.u64 %%a, [to];\ngriddepcontrol.wait;\n");
    for (int i = 0; i < 300; i++)
        used += snprintf(ptx + used, (size_t)((1 << 16) - used), "st.volatile.global.u32 [%%a+%d], %d;\n", 4 * i, i);
    snprintf(ptx + used, (size_t)((1 << 16) - used), "ret;\n}\n");
    char *cubin = real_cubin(ptx, "sm_90a", length, NULL);
    ck_assert_uint_gt(*length, 4096);
    free(ptx);
    return cubin;
}

void give_orders(const char *orders) {
    char path[128];
    size_t length = 0;
    snprintf(path, sizeof path, "%s/cubin", fake_folder);
    if (access(path, R_OK) != 0) {
        char *cubin = good_cubin(&length);
        put_file(path, cubin, length);
        free(cubin);
    }
    snprintf(path, sizeof path, "%s/orders", fake_folder);
    put_text(path, orders);
}

unsigned starts_of(const char *what) {
    char path[128];
    unsigned count = 0;
    snprintf(path, sizeof path, "%s/starts", fake_folder);
    char *text = get_file(path, NULL);
    for (char *at = text; at && (at = strstr(at, what)) != NULL; at++)
        count++;
    free(text);
    return count;
}

void building_log(void *self, int level, const char *text) {
    (void)self;
    logged.lines++;
    size_t used = strlen(logged.all);
    snprintf(logged.all + used, sizeof logged.all - used, "%d: %s\n", level, text);
    if (level > DCPK_LOG_WARNING) return;
    logged.warnings++;
    snprintf(logged.last_warning, sizeof logged.last_warning, "%s", text);
}

void log_reset(void) {
    memset(&logged, 0, sizeof logged);
}

dcpk_gen *open_gen_with(const char *ptxas, const char *cache, const struct system *sys) {
    dcpk_gen_options options = {.size = sizeof options,
                                .template_path = template_folder,
                                .cache_dir = cache ? cache : cache_folder,
                                .ptxas = ptxas,
                                .log = building_log};
    dcpk_gen *gen = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = gen_open_with(sys ? sys : &system_calls, &options, &gen, &error);
    ck_assert_msg(status == DCPK_OK, "%s", error.text);
    return gen;
}

dcpk_gen *open_gen(const char *ptxas) {
    return open_gen_with(ptxas, NULL, NULL);
}

dcpk_status try_tiny(dcpk_gen *gen, int batch, dcpk_image **image, dcpk_build_report *report, dcpk_error *error) {
    dcpk_spec spec;
    char text[64];
    snprintf(text, sizeof text, "tiny arch=sm_90a batch=%d", batch);
    dcpk_error_init(error);
    *image = NULL;
    dcpk_status status = dcpk_spec_parse(&spec, text, error);
    ck_assert_msg(status == DCPK_OK, "%s", error->text);
    if (report) *report = (dcpk_build_report){.size = sizeof *report};
    return dcpk_gen_build(gen, &spec, image, report, error);
}

dcpk_image *build_tiny(dcpk_gen *gen, int batch, dcpk_build_report *report) {
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_status status = try_tiny(gen, batch, &image, report, &error);
    ck_assert_msg(status == DCPK_OK, "%s: %s", dcpk_status_name(status), error.text);
    ck_assert_ptr_nonnull(image);
    return image;
}

static char *listing(const char *folder) {
    char line[256];
    snprintf(line, sizeof line, "cd '%s' 2>/dev/null && find . -type f | LC_ALL=C sort", folder);
    FILE *pipe = popen(line, "r");
    ck_assert_ptr_nonnull(pipe);
    char *text = calloc(1, 1 << 20);
    ck_assert_ptr_nonnull(text);
    size_t got = fread(text, 1, (1 << 20) - 1, pipe);
    text[got] = '\0';
    pclose(pipe);
    return text;
}

char *list_cache(void) {
    return listing(cache_folder);
}

static unsigned count_lines(const char *needle, bool at_end, char *found, size_t capacity) {
    char *text = list_cache(), *save = NULL;
    unsigned count = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        size_t length = strlen(line), wanted = strlen(needle);
        bool hit =
            at_end ? length >= wanted && strcmp(line + length - wanted, needle) == 0 : strstr(line, needle) != NULL;
        if (hit && found) snprintf(found, capacity, "%s/%s", cache_folder, line + 2);
        count += hit;
    }
    free(text);
    return count;
}

unsigned count_files(const char *suffix) {
    return count_lines(suffix, true, NULL, 0);
}

unsigned count_temporaries(void) {
    return count_lines("tmp", false, NULL, 0);
}

const char *only_file(const char *suffix) {
    static char path[256];
    ck_assert_uint_eq(count_lines(suffix, true, path, sizeof path), 1);
    return path;
}
