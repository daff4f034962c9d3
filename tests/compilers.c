/* compilers.c - see compilers.h. */
#include "tests/compilers.h"

#include "gen/nvrtc.h"
#include "gen/toolchain.h"
#include "tests/fake_open.h"
#include "tests/stand_in.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_compiler *fake;
struct fake_driver *driver;
static dcpk_image *image_of_tiny;

/* NVIDIA's libraries keep some of what they allocate (libnvJitLink 13.0: 39 KB of some assemblies): not our leak. */
#ifdef __SANITIZE_ADDRESS__
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libnvJitLink\nleak:libnvrtc\n";
}
#endif

void compilers_setup(void) {
    struct fake_compiler *(*state)(void);
    building_setup();
    driver = fake_load().state;
    driver->major = 9;
    void *library = dlopen(fake_driver_path(), RTLD_NOW), *found = library ? dlsym(library, "fake_compiler") : NULL;
    ck_assert_ptr_nonnull(found);
    memcpy(&state, &found, sizeof state);
    fake = state();
    memset(fake, 0, sizeof *fake);
    dcpk_entry_info entry = stand_in_entry("dcpk_tiny", "to:u64");
    image_of_tiny = stand_in_image("tiny arch=sm_90a batch=1", &entry, 1);
    fake->cubin = dcpk_image_cubin(image_of_tiny, &fake->cubin_bytes);
    setenv("DCPK_NVJITLINK", fake_driver_path(), 1);
    setenv("DCPK_NVRTC", fake_driver_path(), 1);
    setenv("DCPK_LIBCUDA", fake_driver_path(), 1);
}

void compilers_teardown(void) {
    dcpk_image_free(image_of_tiny);
    building_teardown();
}

dcpk_gen *open_with(const char *toolchain, uint32_t timeout_ms) {
    dcpk_gen *gen = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_gen_options options = {.size = sizeof options,
                                .template_path = template_folder,
                                .cache_dir = cache_folder,
                                .toolchain = toolchain,
                                .compile_timeout_ms = timeout_ms,
                                .log = building_log};
    ck_assert_msg(dcpk_gen_open(&options, &gen, &error) == DCPK_OK, "%s", error.text);
    return gen;
}

void tiny_fails(const char *toolchain, dcpk_status status, const char *text, dcpk_error *error) {
    dcpk_image *image = NULL;
    dcpk_gen *gen = open_with(toolchain, 0);
    dcpk_status got = try_tiny(gen, 1, &image, NULL, error);
    ck_assert_msg(got == status, "%s: %s", dcpk_status_name(got), error->text);
    ck_assert_msg(strstr(error->text, text) != NULL, "no '%s' in: %s", text, error->text);
    ck_assert_ptr_null(image);
    ck_assert_uint_eq(count_files(".dcpk") + count_files(".manifest") + count_temporaries(), 0);
    dcpk_gen_close(gen);
}

unsigned ptx_line_with(const char *text) {
    dcpk_spec spec;
    dcpk_text ptx;
    unsigned line = 1;
    dcpk_gen *gen = open_with("ptxas", 0);
    ck_assert_int_eq(dcpk_spec_parse(&spec, "tiny arch=sm_90a batch=1", NULL), DCPK_OK);
    ck_assert_int_eq(dcpk_gen_expand(gen, &spec, &ptx, NULL), DCPK_OK);
    const char *found = strstr(ptx.data, text);
    ck_assert_ptr_nonnull(found);
    for (const char *at = ptx.data; at < found; at++)
        line += *at == '\n';
    dcpk_text_free(&ptx);
    dcpk_gen_close(gen);
    return line;
}

static bool say(bool have, const char *library, const char *reason, const char *skipped) {
    if (!have) fprintf(stderr, "skipped: %s: no %s here (%s)\n", skipped, library, reason);
    return have;
}

bool have_nvrtc(const char *skipped) {
    struct environment environment;
    struct nvrtc nvrtc = {0};
    dcpk_error error;
    dcpk_error_init(&error);
    if (!environment_read(&environment)) return false;
    bool have = nvrtc_open(&nvrtc, &environment, &error) == DCPK_OK;
    if (have) nvrtc_close(&nvrtc);
    environment_free(&environment);
    return say(have, "NVRTC", error.text, skipped);
}

static bool have_kind(const struct toolchain_kind *kind, const char *name, const char *skipped) {
    struct environment environment;
    struct toolchain toolchain = {0};
    dcpk_error error;
    dcpk_error_init(&error);
    if (!environment_read(&environment)) return false;
    struct toolchain_place where = {.environment = &environment};
    bool have = kind->open(&toolchain, &where, &error) == DCPK_OK;
    kind->close(&toolchain);
    environment_free(&environment);
    return say(have, name, error.text, skipped);
}

bool have_nvjitlink(const char *skipped) {
    return have_kind(&toolchain_nvjitlink, "nvJitLink", skipped);
}

bool have_driver(const char *skipped) {
    return have_kind(&toolchain_driver, "driver with a device", skipped);
}
