/* other_version CACHE TEMPLATES PTXAS MAX build BATCH... | clear | verify - what a version of the future does with a
 * cache folder: the Makefile links it with another generator id and the next image format. build prints "BATCH HIT KEY"
 * lines, clear what it removed, verify the good, the unknown and the bad entries. Exit 1 where a call fails. */
#include <dcpk/gen.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(const dcpk_error *error) {
    fprintf(stderr, "other_version: %s\n", error->text);
    return 1;
}

static int build(dcpk_gen *gen, const char *batch) {
    dcpk_spec spec;
    dcpk_image *image = NULL;
    dcpk_build_report report = {.size = sizeof report};
    dcpk_error error;
    char text[64];
    dcpk_error_init(&error);
    snprintf(text, sizeof text, "tiny arch=sm_90a batch=%.9s", batch);
    if (dcpk_spec_parse(&spec, text, &error) != DCPK_OK ||
        dcpk_gen_build(gen, &spec, &image, &report, &error) != DCPK_OK)
        return complain(&error);
    printf("%s %u %s\n", batch, report.hit, report.key);
    dcpk_image_free(image);
    return 0;
}

struct counts {
    unsigned good, unknown, bad;
};

static int32_t count(void *self, const dcpk_cache_entry *entry) {
    struct counts *counts = self;
    counts->good += entry->state == DCPK_OK;
    counts->unknown += entry->state == DCPK_E_NOT_FOUND;
    counts->bad += entry->state != DCPK_OK && entry->state != DCPK_E_NOT_FOUND;
    return 0;
}

static int act(dcpk_gen *gen, int argc, char **argv) {
    struct counts counts = {0};
    uint64_t removed = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    int failed = 0;
    if (strcmp(argv[0], "build") == 0)
        for (int i = 1; i < argc && !failed; i++)
            failed = build(gen, argv[i]);
    else if (strcmp(argv[0], "clear") == 0) {
        if (dcpk_cache_clear(gen, &removed, &error) != DCPK_OK) return complain(&error);
        printf("%llu\n", (unsigned long long)removed);
    } else {
        if (dcpk_cache_visit(gen, 1, count, &counts, &error) != DCPK_OK) return complain(&error);
        printf("%u %u %u\n", counts.good, counts.unknown, counts.bad);
    }
    return failed;
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    dcpk_gen_options options = {.size = sizeof options,
                                .cache_dir = argv[1],
                                .template_path = argv[2],
                                .ptxas = argv[3],
                                .cache_max = strtoull(argv[4], NULL, 10)};
    dcpk_gen *gen = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_gen_open(&options, &gen, &error) != DCPK_OK) return complain(&error);
    int rc = act(gen, argc - 5, argv + 5);
    dcpk_gen_close(gen);
    return rc;
}
