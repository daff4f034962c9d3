/* cmd_cache.c - dcpk cache: where the cache is, what is in it, whether it is sound, parts of an entry, emptying it.
 *
 * May use the dcpk_cache_* calls; never opens an entry's file itself. */
#include "command.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_OUT, OPT_PTX, OPT_CUBIN, OPT_IMAGE, OPT_JSON };
static const struct option_row options[] = {
    [OPT_OUT] = {"output", 'o', "FILE", "extract: where to write ('-': stdout)"},
    [OPT_PTX] = {"ptx", 0, NULL, "extract: the PTX"},
    [OPT_CUBIN] = {"cubin", 0, NULL, "extract: the cubin"},
    [OPT_IMAGE] = {"image", 0, NULL, "extract: the whole image (the default)"},
    [OPT_JSON] = {"json", 0, NULL, "ls, verify: JSON instead of a table"},
};

static enum exit_code work_failed(dcpk_gen *gen, const dcpk_error *error) {
    complain_error(error);
    return exit_of_error(gen, error);
}

static enum exit_code show_path(const struct command_line *line, dcpk_gen *gen) {
    const char *path = "";
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_cache_path(gen, &path, &error) != DCPK_OK) return work_failed(gen, &error);
    if (path[0] == '\0') {
        complain(line, "no cache folder: builds are kept in memory only; set DCPK_CACHE_DIR or HOME");
        return EXIT_WORK;
    }
    printf("%s\n", path);
    return EXIT_DONE;
}

/* ---- ls and verify ------------------------------------------------------------------------------ */
struct listing {
    struct table *table;
    uint64_t entries, bad, bytes;
};

static int32_t visit(void *self, const dcpk_cache_entry *entry) {
    struct listing *listing = self;
    listing->entries++;
    listing->bytes += entry->bytes;
    listing->bad += entry->state != DCPK_OK;
    table_text(listing->table, entry->key);
    table_integer(listing->table, (int64_t)entry->bytes);
    table_text(listing->table, entry->state == DCPK_OK ? "good" : dcpk_status_name(entry->state));
    table_text(listing->table, entry->state == DCPK_OK ? entry->spec : entry->reason);
    return 0;
}

static enum exit_code list(const struct command_line *line, dcpk_gen *gen, int verify) {
    static const struct column columns[] = {
        {"key", "key"}, {"bytes", "bytes"}, {"state", "state"}, {"spec_or_reason", "spec, or what is wrong"}};
    struct listing listing = {.table = table_new(columns, 4)};
    dcpk_error error;
    dcpk_error_init(&error);
    enum exit_code code = EXIT_DONE;
    if (dcpk_cache_visit(gen, verify, visit, &listing, &error) != DCPK_OK)
        code = work_failed(gen, &error);
    else if (line->values[OPT_JSON] != NULL)
        json_print(table_json(listing.table), stdout);
    else {
        if (listing.entries > 0) table_print(listing.table, stdout);
        printf("%llu entries, %llu bytes, %llu bad\n", (unsigned long long)listing.entries,
               (unsigned long long)listing.bytes, (unsigned long long)listing.bad);
    }
    table_free(listing.table);
    return code == EXIT_DONE && verify && listing.bad > 0 ? EXIT_WORK : code;
}

static enum exit_code show_entries(const struct command_line *line, dcpk_gen *gen) {
    return list(line, gen, 0);
}

static enum exit_code verify_entries(const struct command_line *line, dcpk_gen *gen) {
    return list(line, gen, 1);
}

/* ---- extract and clear -------------------------------------------------------------------------- */
static enum exit_code extract(const struct command_line *line, dcpk_gen *gen) {
    const char *const *values = line->values;
    if (line->word_count != 2)
        return usage_error(line, "extract KEY: one key, or a prefix of at least 4 digits ('dcpk cache ls' lists them)");
    if (values[OPT_OUT] == NULL) return usage_error(line, "extract writes to a file: -o FILE ('-': stdout)");
    if ((values[OPT_PTX] != NULL) + (values[OPT_CUBIN] != NULL) + (values[OPT_IMAGE] != NULL) > 1)
        return usage_error(line, "one of --ptx, --cubin, --image");
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_cache_get(gen, line->words[1], &image, &error) != DCPK_OK) return work_failed(gen, &error);
    size_t length = 0;
    const void *bytes = values[OPT_PTX] != NULL     ? dcpk_image_ptx(image, &length)
                        : values[OPT_CUBIN] != NULL ? dcpk_image_cubin(image, &length)
                                                    : dcpk_image_bytes(image, &length);
    enum exit_code code = output_write(line, values[OPT_OUT], bytes, length) ? EXIT_DONE : EXIT_WORK;
    dcpk_image_free(image);
    return code;
}

static enum exit_code clear(const struct command_line *line, dcpk_gen *gen) {
    (void)line;
    uint64_t removed = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_cache_clear(gen, &removed, &error) != DCPK_OK) return work_failed(gen, &error);
    printf("removed %llu\n", (unsigned long long)removed);
    return EXIT_DONE;
}

static const struct action {
    const char *name;
    int words; /* the action's own included; 0: it looks itself */
    enum exit_code (*run)(const struct command_line *line, dcpk_gen *gen);
} actions[] = {{"path", 1, show_path},
               {"ls", 1, show_entries},
               {"verify", 1, verify_entries},
               {"extract", 0, extract},
               {"clear", 1, clear}};

static enum exit_code run(const struct command_line *line) {
    for (size_t i = 0; line->word_count > 0 && i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(line->words[0], actions[i].name) != 0) continue;
        if (actions[i].words != 0 && line->word_count != actions[i].words)
            return usage_error(line, "%s takes no words", actions[i].name);
        dcpk_gen *gen = NULL;
        enum exit_code code = open_gen(NULL, &gen);
        if (code == EXIT_DONE) code = actions[i].run(line, gen);
        dcpk_gen_close(gen);
        return code;
    }
    if (line->word_count > 0)
        return usage_error(line, "no action '%s': path, ls, verify, extract or clear", line->words[0]);
    return usage_error(line, "path, ls, verify, extract or clear?");
}

const struct command command_cache = {
    .name = "cache",
    .operands = "path|ls|verify|extract KEY -o FILE|clear",
    .summary = "the cache folder: path, entries, soundness, parts of an entry, emptying",
    .help = "verify reads every entry whole and ends with 1 when one is bad; bad entries count as misses, so they do "
            "no harm.\n"
            "extract takes a key or a prefix of at least 4 digits. clear leaves what this version does not know.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
