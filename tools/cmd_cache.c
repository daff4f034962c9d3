/* cmd_cache.c - dcpk cache: where the cache is, what is in it, whether it is sound, parts of an entry, emptying it.
 *
 * May use the dcpk_cache_* calls; never opens an entry's file itself. */
#include "command.h"
#include "json_text.h"
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
    [OPT_JSON] = {"json", 0, NULL, "path, ls, verify, clear: JSON instead of text"},
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
    if (line->values[OPT_JSON] != NULL)
        json_print(must(json_pack("{s:o}", "path", json_text(path))), stdout);
    else
        printf("%s\n", path);
    return EXIT_DONE;
}

/* ---- ls and verify ------------------------------------------------------------------------------ */
struct listing {
    struct table *table;
    bool json;                             /* spec and reason apart: a program asks for one of them */
    uint64_t entries, bad, unknown, bytes; /* unknown: of a newer version, whose they are to judge */
};

static int32_t visit(void *self, const dcpk_cache_entry *entry) {
    struct listing *listing = self;
    listing->entries++;
    listing->bytes += entry->bytes;
    bool unknown = entry->state == DCPK_E_NOT_FOUND;
    listing->unknown += unknown;
    listing->bad += entry->state != DCPK_OK && !unknown;
    table_text(listing->table, entry->key);
    table_integer(listing->table, (int64_t)entry->bytes);
    table_text(listing->table, entry->state == DCPK_OK ? "good" : unknown ? "unknown" : dcpk_status_name(entry->state));
    if (listing->json) {
        table_text(listing->table, entry->spec);
        table_text(listing->table, entry->reason);
    } else
        table_text(listing->table, entry->state == DCPK_OK ? entry->spec : entry->reason);
    return 0;
}

/* Both read every entry whole: nothing is called good that was not looked at. */
static enum exit_code list(const struct command_line *line, dcpk_gen *gen, int verify) {
    static const struct column
        text[] = {{"key", "key"}, {"bytes", "bytes"}, {"state", "state"}, {"spec_or_reason", "spec, or what is wrong"}},
        json[] = {{"key", "key"}, {"bytes", "bytes"}, {"state", "state"}, {"spec", "spec"}, {"reason", "reason"}};
    struct listing listing = {.json = line->values[OPT_JSON] != NULL};
    listing.table = listing.json ? table_new(json, 5) : table_new(text, 4);
    dcpk_error error;
    dcpk_error_init(&error);
    bool whole = dcpk_cache_visit(gen, 1, visit, &listing, &error) == DCPK_OK;
    if (listing.json)
        json_print(table_json(listing.table), stdout);
    else {
        if (listing.entries > 0) table_print(listing.table, stdout);
        printf("%llu %s, %llu bytes, %llu bad", (unsigned long long)listing.entries,
               listing.entries == 1 ? "entry" : "entries", (unsigned long long)listing.bytes,
               (unsigned long long)listing.bad);
        if (listing.unknown > 0) printf(", %llu of a newer version", (unsigned long long)listing.unknown);
        printf("\n");
    }
    table_free(listing.table);
    if (!whole)
        return work_failed(gen, &error); /* after what there is to show: the other shards are looked at all the same */
    return verify && listing.bad > 0 ? EXIT_WORK : EXIT_DONE;
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
    const char *folder = "";
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_cache_path(gen, &folder, NULL) == DCPK_OK && folder[0] != '\0' && output_inside(values[OPT_OUT], folder))
        return usage_error(line, "-o %s is in the cache, whose files are its own: choose a place outside of %s",
                           values[OPT_OUT], folder);
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
    uint64_t removed = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    bool whole = dcpk_cache_clear(gen, &removed, &error) == DCPK_OK;
    if (line->values[OPT_JSON] != NULL)
        json_print(must(json_pack("{s:I}", "removed", (json_int_t)removed)), stdout);
    else
        printf("removed %llu\n", (unsigned long long)removed);
    return whole ? EXIT_DONE : work_failed(gen, &error);
}

#define BIT(option) (1u << (option))
static const struct action {
    const char *name;
    int words; /* the action's own included; 0: it looks itself */
    unsigned options;
    enum exit_code (*run)(const struct command_line *line, dcpk_gen *gen);
} actions[] = {{"path", 1, BIT(OPT_JSON), show_path},
               {"ls", 1, BIT(OPT_JSON), show_entries},
               {"verify", 1, BIT(OPT_JSON), verify_entries},
               {"extract", 0, BIT(OPT_OUT) | BIT(OPT_PTX) | BIT(OPT_CUBIN) | BIT(OPT_IMAGE), extract},
               {"clear", 1, BIT(OPT_JSON), clear}};

static enum exit_code act(const struct command_line *line, const struct action *action) {
    if (action->words != 0 && line->word_count != action->words)
        return usage_error(line, "%s takes no words", action->name);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (line->values[i] != NULL && !(action->options & BIT(i)))
            return usage_error(line, "%s takes no --%s", action->name, options[i].name);
    dcpk_gen *gen = NULL;
    enum exit_code code = open_gen(NULL, &gen);
    if (code == EXIT_DONE) code = action->run(line, gen);
    dcpk_gen_close(gen);
    return code;
}

static enum exit_code run(const struct command_line *line) {
    for (size_t i = 0; line->word_count > 0 && i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(line->words[0], actions[i].name) == 0) return act(line, &actions[i]);
    if (line->word_count > 0)
        return usage_error(line, "no action '%s': path, ls, verify, extract or clear", line->words[0]);
    return usage_error(line, "path, ls, verify, extract or clear?");
}

const struct command command_cache = {
    .name = "cache",
    .operands = "path|ls|verify|extract KEY -o FILE|clear",
    .summary = "the cache folder: path, entries, soundness, parts of an entry, emptying",
    .help = "ls and verify read every entry whole; verify ends with 1 when one is bad. Bad entries count as misses, so "
            "they do\nno harm.\n"
            "extract takes a key or a prefix of at least 4 digits. clear leaves what this version does not know.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
