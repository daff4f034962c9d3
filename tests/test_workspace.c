/* test_workspace.c - the workspace of mla_decode: what its kernels will address, known before anything is built or
 * captured; the same answer every time; and a stated maximum that serves every smaller batch, although a smaller batch
 * may need more. May call: include/dcpk. */
#include <dcpk/gen.h>

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { LATENT = 512, RANDOM_SPECS = 250 };

static dcpk_error error;

static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static int32_t between(uint64_t *state, int32_t low, int32_t high) {
    return low + (int32_t)(next(state) % (uint64_t)(high - low + 1));
}

/* A resolved spec of mla_decode; its canonical text. */
static dcpk_spec random_spec(uint64_t *state, int32_t pv, char *text, size_t capacity) {
    dcpk_spec spec;
    dcpk_spec_init(&spec, "mla_decode");
    spec.pv = pv;
    spec.q = between(state, 0, 1) ? 1 : between(state, 1, 8);
    spec.dcp = 1 << between(state, 0, 4);
    int32_t most = 1024 / (spec.q * spec.dcp);
    spec.heads = between(state, 1, most < 128 ? most : 128);
    spec.batch = between(state, 1, (between(state, 0, 3) ? 32 : 512) / spec.q) * spec.q;
    if (between(state, 0, 1)) spec.sms = between(state, 8, 1024);
    if (between(state, 0, 2) == 0) spec.reserve = between(state, 0, 7);
    if (between(state, 0, 3) == 0) spec.splits = between(state, 0, 256);
    ck_assert_msg(dcpk_spec_resolve(&spec, &error) == DCPK_OK, "%s", error.text);
    dcpk_spec_format(&spec, text, capacity);
    return spec;
}

static uint64_t workspace(const dcpk_spec *spec, uint64_t *most) {
    uint64_t bytes = UINT64_MAX;
    ck_assert_msg(dcpk_spec_workspace(spec, &bytes, most, &error) == DCPK_OK, "%s", error.text);
    return bytes;
}

/* Splits as the contract plans them: clamp(n (sms - reserve) / (R * row tiles), 1, 256), by counting up; n CTAs live on
 * a multiprocessor. Up to 32 rows: one tile, n = 2; above, tiles of 64 rows, n = 1. */
static int32_t planned(const dcpk_spec *spec) {
    if (spec->splits > 0) return spec->splits;
    int32_t tiles = 0, splits = 1, rows = spec->q * spec->dcp * spec->heads, n = rows <= 32 ? 2 : 1;
    for (int32_t row = 0; row < rows; row += 64)
        tiles++;
    while (splits < 256 && (splits + 1) * tiles * (spec->batch / spec->q) <= n * (spec->sms - spec->reserve))
        splits++;
    return splits;
}

static void setup(void) {
    dcpk_error_init(&error);
}

static const struct {
    const char *spec;
    uint64_t bytes;
} known[] = {
    {"mla_decode pv=f16 heads=12 batch=1", UINT64_C(256) * 12 * 513 * 4},     /* one tile: at most 256 */
    {"mla_decode pv=f16 heads=12 dcp=8 batch=64", 0},                         /* 64 requests of 2 tiles: 132 / 128 */
    {"mla_decode pv=f16 heads=16 batch=64", UINT64_C(64) * 4 * 16 * 513 * 4}, /* 264 / 64 */
    {"mla_decode pv=f16 heads=32 batch=64", UINT64_C(64) * 4 * 32 * 513 * 4}, /* one tile still */
    {"mla_decode pv=f16 heads=33 batch=64", UINT64_C(64) * 2 * 33 * 513 * 4}, /* alone on a multiprocessor: 132 / 64 */
    {"mla_decode pv=f16 heads=65 batch=64", 0},                               /* two tiles */
    {"mla_decode pv=f16 heads=12 dcp=8 batch=4", UINT64_C(4) * 16 * 96 * 513 * 4},     /* 132 / (4 * 2) */
    {"mla_decode pv=f16 heads=12 dcp=2 batch=8 q=4", UINT64_C(2) * 33 * 96 * 513 * 4}, /* 132 / (2 * 2) */
    {"mla_decode pv=f16 heads=1 batch=1 sms=1024", UINT64_C(256) * 513 * 4},           /* at most 256 */
    {"mla_decode pv=f16 heads=1 batch=1 sms=9 reserve=7", UINT64_C(4) * 513 * 4},      /* reserved ones take no part */
    {"mla_decode pv=f16 heads=16 batch=512 splits=256", UINT64_C(512) * 256 * 16 * 513 * 4}, /* passes 2^32 */
    {"mla_decode pv=f16 heads=16 batch=512 splits=1", 0},
    /* pv=fp8: F16 rows, and LSEs of the request's rows, or of two a column; a column for every multiprocessor */
    {"mla_decode heads=16 batch=1", UINT64_C(132) * (16 * 1024 + 264 * 4)},       /* the default there */
    {"mla_decode arch=sm_90 heads=16 batch=64", UINT64_C(64) * 4 * 16 * 513 * 4}, /* and elsewhere */
    {"mla_decode arch=sm_90a pv=fp8 heads=16 batch=1", UINT64_C(132) * (16 * 1024 + 264 * 4)},
    {"mla_decode arch=sm_90a pv=fp8 heads=13 batch=1 sms=6", UINT64_C(6) * (16 * 1024 + 16 * 4)}, /* rows in eights */
    {"mla_decode arch=sm_90a pv=fp8 heads=64 batch=131", UINT64_C(132) * (64 * 1024 + 264 * 4)},
    {"mla_decode arch=sm_90a pv=fp8 heads=64 batch=132", 0}, /* nothing to share */
    {"mla_decode arch=sm_90a pv=fp8 heads=1 batch=1 sms=1024", UINT64_C(512) * (8 * 1024 + 1024 * 4)}, /* at most 512 */
    {"mla_decode arch=sm_90a pv=fp8 heads=1 batch=512 sms=1024", 0}, /* as many requests: nothing to share */
    {"mla_decode arch=sm_90a pv=fp8 heads=96 dcp=2 batch=8",
     UINT64_C(132) * (64 * 1024 + 88 * 4)}, /* 3 groups of 64: 44 columns, 5 a request, beat 33 of 4 groups of 48 */
    {"mla_decode arch=sm_90a pv=fp8 heads=96 dcp=2 batch=16",
     UINT64_C(132) * (48 * 1024 + 66 * 4)}, /* 2 a request: do not */
    {"mla_decode arch=sm_90a pv=fp8 heads=96 dcp=2 batch=22", UINT64_C(132) * (64 * 1024 + 88 * 4)}, /* 2 beat 1 */
    {"mla_decode arch=sm_90a pv=fp8 heads=64 dcp=5 batch=1", UINT64_C(130) * (64 * 1024 + 64 * 4)},  /* 26 columns */
    {"mla_decode arch=sm_90a pv=fp8 heads=128 dcp=2 batch=16",
     UINT64_C(132) * (64 * 1024 + 66 * 4)}, /* an even number stays */
    {"mla_decode arch=sm_90a pv=fp8 heads=16 batch=2 splits=3", UINT64_C(2) * 3 * 16 * 513 * 4}, /* the reducer's */
    {"mla_query heads=12 batch=5", 0},
    {"dcp_value heads=12 dcp=2 batch=5 split=1", 0},
    {"own heads=12 batch=5 splits=3", 0}, /* a template of the user's own: its business */
};

START_TEST(workspace_is_what_the_contract_says) {
    dcpk_spec spec;
    ck_assert_int_eq(dcpk_spec_parse(&spec, known[_i].spec, &error), DCPK_OK);
    ck_assert_msg(workspace(&spec, NULL) == known[_i].bytes, "%s: %llu bytes", known[_i].spec,
                  (unsigned long long)workspace(&spec, NULL));
}
END_TEST

START_TEST(refused_spec_has_no_workspace) {
    dcpk_spec spec;
    uint64_t bytes = 7, most = 7;
    ck_assert_int_eq(dcpk_spec_parse(&spec, "mla_decode heads=12 batch=5 q=2", &error), DCPK_OK);
    ck_assert_int_eq(dcpk_spec_workspace(&spec, &bytes, &most, &error), DCPK_E_SPEC);
    ck_assert_ptr_nonnull(strstr(error.text, "q must divide batch"));
    ck_assert_int_eq(dcpk_spec_workspace(NULL, &bytes, &most, &error), DCPK_E_ARG);
    ck_assert(bytes == 7 && most == 7);
}
END_TEST

/* flashinfer-ai/flashinfer#4399, vllm-project/vllm#55336: a workspace that is asked for again after the capture. */
START_TEST(workspace_is_pure_and_constant) {
    char text[1024];
    uint64_t state = 3;
    for (int i = 0; i < RANDOM_SPECS * 8; i++) {
        dcpk_spec spec = random_spec(&state, DCPK_PV_F16, text, sizeof text), before = spec, read_back;
        uint64_t most, again, bytes = workspace(&spec, &most);
        ck_assert_mem_eq(&spec, &before, sizeof spec);
        ck_assert_uint_eq(workspace(&spec, &again), bytes);
        ck_assert_uint_eq(again, most);
        ck_assert_int_eq(dcpk_spec_parse(&read_back, text, &error), DCPK_OK);
        ck_assert_uint_eq(workspace(&read_back, &again), bytes);
        ck_assert_uint_eq(again, most);
        uint64_t splits = (uint64_t)planned(&spec), rows = (uint64_t)(spec.batch * spec.dcp * spec.heads);
        ck_assert_msg(bytes == (splits > 1 ? rows * splits * (LATENT + 1) * 4 : 0), "%s: %llu bytes", text,
                      (unsigned long long)bytes);
    }
}
END_TEST

START_TEST(maximum_serves_every_smaller_batch_and_is_no_larger) {
    char text[1024];
    uint64_t state = 4, fell = 0;
    for (int i = 0; i < RANDOM_SPECS; i++) {
        int32_t pv = i % 2 ? DCPK_PV_F16 : DCPK_UNSET;
        dcpk_spec spec = random_spec(&state, pv, text, sizeof text);
        uint64_t most, found = 0, rows = (uint64_t)(spec.q * spec.dcp * spec.heads);
        workspace(&spec, &most);
        for (dcpk_spec smaller = spec; smaller.batch > 0; smaller.batch -= spec.q) {
            uint64_t bytes = workspace(&smaller, NULL);
            found = bytes > found ? bytes : found;
            fell += bytes > workspace(&spec, NULL); /* the smaller batch needs more */
        }
        ck_assert_msg(found == most, "%s: a batch needs %llu, the maximum is %llu", text, (unsigned long long)found,
                      (unsigned long long)most);
        uint64_t tiles = (rows + 63) / 64, room = (rows <= 32 ? 2 : 1) * (uint64_t)(spec.sms - spec.reserve) / tiles;
        if (pv == DCPK_PV_F16 && spec.splits == 0) ck_assert_uint_le(most, 2052 * rows * room);
    }
    ck_assert_uint_gt(fell, 100); /* so it is not the largest batch that decides */
}
END_TEST

/* One place of truth: the kernels' own grid has as many splits as the workspace. */
START_TEST(kernels_have_the_splits_that_the_workspace_is_for) {
    dcpk_gen_options options = {.size = sizeof options, .template_path = "templates", .cache_dir = ""};
    dcpk_gen *gen;
    ck_assert_msg(dcpk_gen_open(&options, &gen, &error) == DCPK_OK, "%s", error.text);
    char text[1024], needle[64];
    uint64_t state = 5;
    for (int i = 0; i < RANDOM_SPECS; i++) {
        dcpk_spec spec = random_spec(&state, DCPK_PV_F16, text, sizeof text);
        dcpk_text ptx;
        ck_assert_msg(dcpk_gen_expand(gen, &spec, &ptx, &error) == DCPK_OK, "%s: %s", text, error.text);
        uint64_t bytes = workspace(&spec, NULL);
        ck_assert_msg((bytes > 0) == (strstr(ptx.data, "param_workspace") != NULL), "%s", text);
        ck_assert_msg((bytes > 0) == (strstr(ptx.data, ".entry dcpk_mla_decode_reduce(") != NULL), "%s", text);
        /* the LSEs lie behind all rows */
        snprintf(needle, sizeof needle, ", %llu;\n", (unsigned long long)(bytes / (LATENT + 1) * LATENT));
        ck_assert_msg(bytes == 0 || strstr(ptx.data, needle) != NULL, "%s: no%s in it", text, needle);
        dcpk_text_free(&ptx);
    }
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(image_grid_has_the_planned_splits) {
    dcpk_gen_options options = {.size = sizeof options, .template_path = "templates", .cache_dir = ""};
    dcpk_gen *gen;
    ck_assert_msg(dcpk_gen_open(&options, &gen, &error) == DCPK_OK, "%s", error.text);
    static const char *const specs[] = {
        "mla_decode pv=f16 heads=12 batch=1", "mla_decode pv=f16 heads=12 dcp=8 batch=4",
        "mla_decode pv=f16 heads=12 dcp=2 batch=8 q=4", "mla_decode pv=f16 heads=12 dcp=8 batch=64",
        "mla_decode pv=f16 heads=3 batch=5 splits=7"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        dcpk_spec spec;
        dcpk_image *image;
        dcpk_entry_info entry = {.size = sizeof entry};
        ck_assert_int_eq(dcpk_spec_parse(&spec, specs[i], &error), DCPK_OK);
        ck_assert_int_eq(dcpk_spec_resolve(&spec, &error), DCPK_OK);
        ck_assert_msg(dcpk_gen_build(gen, &spec, &image, NULL, &error) == DCPK_OK, "%s: %s", specs[i], error.text);
        ck_assert_int_eq(dcpk_image_entry(image, 0, &entry, &error), DCPK_OK);
        ck_assert_msg(entry.grid[1] == (uint32_t)planned(&spec), "%s: %u splits", specs[i], entry.grid[1]);
        ck_assert_uint_eq(dcpk_image_entry_count(image), entry.grid[1] > 1 ? 2 : 1);
        dcpk_image_free(image);
    }
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("workspace");
    TCase *tc = tcase_create("workspace");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_loop_test(tc, workspace_is_what_the_contract_says, 0, (int)(sizeof known / sizeof known[0]));
    tcase_add_test(tc, refused_spec_has_no_workspace);
    tcase_add_test(tc, workspace_is_pure_and_constant);
    tcase_add_test(tc, maximum_serves_every_smaller_batch_and_is_no_larger);
    tcase_add_test(tc, kernels_have_the_splits_that_the_workspace_is_for);
    tcase_add_test(tc, image_grid_has_the_planned_splits);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
