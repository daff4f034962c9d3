/* cmd_pack.c - dcpk pack: what is in packs, whether it is sound, parts of an entry.
 *
 * Needs the runtime alone: no generator is opened. */
#include "command.h"
#include "table.h"

#include <dcpk/pack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_OUT, OPT_PTX, OPT_CUBIN, OPT_IMAGE, OPT_MANIFEST, OPT_JSON };
static const struct option_row options[] = {
    [OPT_OUT] = {"output", 'o', "FILE", "extract: where to write ('-': stdout)"},
    [OPT_PTX] = {"ptx", 0, NULL, "extract: the PTX"},
    [OPT_CUBIN] = {"cubin", 0, NULL, "extract: the cubin"},
    [OPT_IMAGE] = {"image", 0, NULL, "extract: the whole image (the default)"},
    [OPT_MANIFEST] = {"manifest", 0, NULL, "ls: print the manifests instead of the entries"},
    [OPT_JSON] = {"json", 0, NULL, "ls, verify: JSON instead of text"},
};

static enum exit_code failed(const dcpk_error *error) {
    complain_error(error);
    return exit_of_error(NULL, error);
}

/* One file, not a list: the name may not hold the list's separator. */
static enum exit_code open_pack(const struct command_line *line, const char *path, dcpk_packs **packs) {
    dcpk_packs_options wanted = {.size = sizeof wanted, .path = path, .trusted_uid = -1};
    dcpk_error error;
    dcpk_error_init(&error);
    *packs = NULL;
    if (path[0] == '\0') return usage_error(line, "a pack has a name");
    if (strchr(path, ':') != NULL)
        return usage_error(line, "'%s': a pack's path may not hold ':', which separates packs in DCPK_AOT_PATH", path);
    return dcpk_packs_open(&wanted, packs, &error) == DCPK_OK ? EXIT_DONE : failed(&error);
}

/* ---- ls and verify ------------------------------------------------------------------------------- */
struct listing {
    const struct command_line *line;
    dcpk_packs *packs; /* of one file */
    const char *path;
    struct table *table;
    bool json, verify, named; /* named: several packs, so rows say of which they are */
    uint64_t entries, bad, bytes;
};

static const struct column ls_text[] = {{"pack", "pack"},
                                        {"key", "key"},
                                        {"bytes", "bytes"},
                                        {"registers", "registers"},
                                        {"shared", "shared B"},
                                        {"spill_bytes", "spills B"},
                                        {"spec", "spec, or what is wrong"}};
static const struct column verify_text[] = {{"pack", "pack"},
                                            {"key", "key"},
                                            {"bytes", "bytes"},
                                            {"state", "state"},
                                            {"spec_or_reason", "spec, or what is wrong"}};
static const struct column all_json[] = {{"pack", ""},  {"key", ""},       {"bytes", ""},  {"offset", ""},
                                         {"state", ""}, {"registers", ""}, {"shared", ""}, {"spill_bytes", ""},
                                         {"spec", ""},  {"reason", ""}};

/* The most of an image's entry points. */
struct resources {
    bool known;
    uint32_t registers, shared, spills;
};

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static struct resources resources_of(dcpk_packs *packs, const char *text) {
    struct resources most = {0};
    dcpk_spec spec;
    dcpk_image *image = NULL;
    if (dcpk_spec_parse(&spec, text, NULL) != DCPK_OK || dcpk_packs_find(packs, &spec, &image, NULL) != DCPK_OK)
        return most;
    for (uint32_t i = 0; i < dcpk_image_entry_count(image); i++) {
        dcpk_entry_info info = {.size = sizeof info};
        if (dcpk_image_entry(image, i, &info, NULL) != DCPK_OK) continue;
        most.known = true;
        most.registers = larger(most.registers, info.registers);
        most.shared = larger(most.shared, info.static_shared + info.dynamic_shared);
        most.spills = larger(most.spills, info.local_bytes);
    }
    dcpk_image_free(image);
    return most;
}

static void resource_cells(struct table *table, const struct resources *resources) {
    const uint32_t values[] = {resources->registers, resources->shared, resources->spills};
    for (size_t i = 0; i < 3; i++)
        if (resources->known)
            table_integer(table, values[i]);
        else
            table_none(table);
}

static int32_t visit(void *self, const dcpk_pack_entry *entry) {
    struct listing *listing = self;
    struct table *table = listing->table;
    bool good = entry->state == DCPK_OK;
    struct resources resources = {0};
    if (good && (listing->json || !listing->verify)) resources = resources_of(listing->packs, entry->spec);
    listing->entries++;
    listing->bytes += entry->bytes;
    listing->bad += !good;
    if (listing->json || listing->named) table_text(table, listing->path);
    table_text(table, entry->key);
    table_integer(table, (int64_t)entry->bytes);
    if (listing->json) table_integer(table, (int64_t)entry->offset);
    if (listing->json || listing->verify) table_text(table, good ? "good" : dcpk_status_name(entry->state));
    if (listing->json || !listing->verify) resource_cells(table, &resources);
    table_text(table, good || listing->json ? entry->spec : entry->reason);
    if (listing->json) table_text(table, entry->reason);
    return 0;
}

/* A pack that cannot be opened is bad as a whole, and the next one is looked at. */
static enum exit_code list_one(struct listing *listing, const char *path) {
    dcpk_error error;
    dcpk_error_init(&error);
    listing->path = path;
    enum exit_code code = open_pack(listing->line, path, &listing->packs);
    if (code == EXIT_DONE && dcpk_packs_visit(listing->packs, 1, visit, listing, &error) != DCPK_OK)
        code = failed(&error);
    dcpk_packs_close(listing->packs);
    return code;
}

/* Both read every entry whole: nothing is called good that was not looked at. */
static enum exit_code list(const struct command_line *line, bool verify) {
    struct listing listing = {
        .line = line, .verify = verify, .json = line->values[OPT_JSON] != NULL, .named = line->word_count > 2};
    size_t unnamed = listing.named ? 0 : 1; /* the first column */
    listing.table = listing.json ? table_new(all_json, sizeof all_json / sizeof all_json[0])
                    : verify     ? table_new(verify_text + unnamed, 5 - unnamed)
                                 : table_new(ls_text + unnamed, 7 - unnamed);
    enum exit_code code = EXIT_DONE;
    for (int i = 1; i < line->word_count; i++) {
        enum exit_code one = list_one(&listing, line->words[i]);
        if (one > code) code = one;
    }
    if (listing.json)
        json_print(table_json(listing.table), stdout);
    else {
        if (listing.entries > 0) table_print(listing.table, stdout);
        printf("%llu %s, %llu bytes, %llu bad\n", (unsigned long long)listing.entries,
               listing.entries == 1 ? "entry" : "entries", (unsigned long long)listing.bytes,
               (unsigned long long)listing.bad);
    }
    table_free(listing.table);
    return code == EXIT_DONE && listing.bad > 0 ? EXIT_WORK : code;
}

static enum exit_code show_manifests(const struct command_line *line) {
    enum exit_code code = EXIT_DONE;
    for (int i = 1; code == EXIT_DONE && i < line->word_count; i++) {
        dcpk_packs *packs = NULL;
        dcpk_pack_info info = {.size = sizeof info};
        code = open_pack(line, line->words[i], &packs);
        if (code == EXIT_DONE && dcpk_packs_info(packs, 0, &info, NULL) == DCPK_OK) fputs(info.manifest, stdout);
        dcpk_packs_close(packs);
    }
    return code;
}

static enum exit_code show_entries(const struct command_line *line) {
    if (line->values[OPT_MANIFEST] == NULL) return list(line, false);
    if (line->values[OPT_JSON] != NULL) return usage_error(line, "a manifest is text: --manifest or --json");
    return show_manifests(line);
}

static enum exit_code verify_entries(const struct command_line *line) {
    return list(line, true);
}

/* ---- extract ------------------------------------------------------------------------------------- */
static bool is_key(const char *word) {
    return strlen(word) >= 4 && strspn(word, "0123456789abcdef") == strlen(word) && !kernel_known(word);
}

/* The words behind the file: a key, or KERNEL key=value... */
static enum exit_code find(const struct command_line *line, dcpk_packs *packs, dcpk_image **image) {
    dcpk_spec spec;
    struct preset preset;
    dcpk_error error;
    dcpk_error_init(&error);
    if (line->word_count == 3 && is_key(line->words[2]))
        return dcpk_packs_get(packs, line->words[2], image, &error) == DCPK_OK ? EXIT_DONE : failed(&error);
    if (dcpk_spec_parse(&spec, line->words[2], &error) != DCPK_OK) return failed(&error);
    enum exit_code code = words_keys(line, line->words + 3, line->word_count - 3, &spec, &preset);
    if (code != EXIT_DONE) return code;
    if (preset.model != NULL)
        return usage_error(line, "model=%s: presets are the generator's; give keys", preset.model);
    if (dcpk_spec_resolve(&spec, &error) != DCPK_OK) return failed(&error);
    return dcpk_packs_find(packs, &spec, image, &error) == DCPK_OK ? EXIT_DONE : failed(&error);
}

static enum exit_code extract(const struct command_line *line) {
    const char *const *values = line->values;
    if (line->word_count < 3)
        return usage_error(line, "extract FILE KEY, or FILE KERNEL key=value... ('dcpk pack ls FILE' lists them)");
    if (values[OPT_OUT] == NULL) return usage_error(line, "extract writes to a file: -o FILE ('-': stdout)");
    if ((values[OPT_PTX] != NULL) + (values[OPT_CUBIN] != NULL) + (values[OPT_IMAGE] != NULL) > 1)
        return usage_error(line, "one of --ptx, --cubin, --image");
    if (output_is(values[OPT_OUT], line->words[1]))
        return usage_error(line, "-o %s is the pack itself: a part of it would take its place", values[OPT_OUT]);
    dcpk_packs *packs = NULL;
    dcpk_image *image = NULL;
    enum exit_code code = open_pack(line, line->words[1], &packs);
    if (code == EXIT_DONE) code = find(line, packs, &image);
    if (code == EXIT_DONE) {
        size_t length = 0;
        const void *bytes = values[OPT_PTX] != NULL     ? dcpk_image_ptx(image, &length)
                            : values[OPT_CUBIN] != NULL ? dcpk_image_cubin(image, &length)
                                                        : dcpk_image_bytes(image, &length);
        code = output_write(line, values[OPT_OUT], bytes, length) ? EXIT_DONE : EXIT_WORK;
    }
    dcpk_image_free(image);
    dcpk_packs_close(packs);
    return code;
}

#define BIT(option) (1u << (option))
static const struct action {
    const char *name;
    unsigned options;
    enum exit_code (*run)(const struct command_line *line);
} actions[] = {{"ls", BIT(OPT_JSON) | BIT(OPT_MANIFEST), show_entries},
               {"verify", BIT(OPT_JSON), verify_entries},
               {"extract", BIT(OPT_OUT) | BIT(OPT_PTX) | BIT(OPT_CUBIN) | BIT(OPT_IMAGE), extract}};

static enum exit_code act(const struct command_line *line, const struct action *action) {
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (line->values[i] != NULL && !(action->options & BIT(i)))
            return usage_error(line, "%s takes no --%s", action->name, options[i].name);
    if (line->word_count < 2) return usage_error(line, "%s which pack? %s FILE", action->name, action->name);
    return action->run(line);
}

static enum exit_code run(const struct command_line *line) {
    for (size_t i = 0; line->word_count > 0 && i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(line->words[0], actions[i].name) == 0) return act(line, &actions[i]);
    if (line->word_count > 0) return usage_error(line, "no action '%s': ls, verify or extract", line->words[0]);
    return usage_error(line, "ls, verify or extract?");
}

const struct command command_pack = {
    .name = "pack",
    .operands = "ls FILE...|verify FILE...|extract FILE KEY|KERNEL key=value... -o F",
    .summary = "ahead-of-time packs: entries, soundness, parts of an entry",
    .help =
        "ls and verify read every entry whole and end with 1 when one is bad. extract takes a key (or a prefix of at "
        "least 4\ndigits) or a spec. Packs are made by 'dcpk aot'.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
