/* cmd_ls.c - dcpk ls: what there is: kernels, keys and their domains, architectures, models, statuses, environment.
 *
 * Every list is a table of the library or of include/dcpk/ * .def; nothing is written twice. */
#include "command.h"
#include "command_lists.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_JSON, OPT_MARKDOWN, OPT_PLAIN };
static const struct option_row options[] = {
    [OPT_JSON] = {"json", 0, NULL, "JSON instead of a table"},
    [OPT_MARKDOWN] = {"markdown", 0, NULL, "tables as the README has them"},
    [OPT_PLAIN] = {"plain", 0, NULL, "for scripts: a row a line, cells between tabs, no heading"}};

static const char *const kernels[] = {
#define K(name, number, box, summary) #name,
#include <dcpk/kernels.def>
#undef K
};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

/* "yes" when this installation's templates have the kernel: the smallest spec that both halves of kernels.def take. */
static const char *has_template(dcpk_gen *gen, const char *kernel, int box) {
    dcpk_spec spec;
    dcpk_text ptx = {NULL, 0};
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_spec_init(&spec, kernel);
    dcpk_spec_set(&spec, "heads=1", NULL);
    dcpk_spec_set(&spec, "batch=1", NULL);
    if (box == 2) dcpk_spec_set(&spec, "dcp=2", NULL);
    dcpk_status status = dcpk_spec_resolve(&spec, &error);
    if (status == DCPK_OK) status = dcpk_gen_expand(gen, &spec, &ptx, &error);
    dcpk_text_free(&ptx);
    return status == DCPK_OK ? "yes" : status == DCPK_E_NOT_FOUND ? "no" : "broken";
}

static struct table *list_kernels(dcpk_gen *gen) {
    static const struct column columns[] = {
        {"kernel", "kernel"}, {"template", "template"}, {"box", "box"}, {"summary", "summary"}};
    static const char *const boxes[] = {"never", "dcp > 1", "always"};
    struct table *table = table_new(columns, 4);
#define K(name, number, box, summary)                                                                                  \
    table_text(table, #name), table_text(table, has_template(gen, #name, box)), table_text(table, boxes[box]),         \
        table_text(table, summary);
#include <dcpk/kernels.def>
#undef K
    return table;
}

/* "all", "all but a, b" or "a, b": whichever says it in fewer names. */
static void name_takers(const char *key, char *text, size_t capacity) {
    size_t takers = 0, length = 0;
    for (size_t i = 0; i < KERNELS; i++)
        takers += dcpk_spec_takes(kernels[i], key) != 0;
    int but = takers > KERNELS / 2;
    text[0] = '\0';
    if (takers == KERNELS) {
        snprintf(text, capacity, "all");
        return;
    }
    for (size_t i = 0; i < KERNELS; i++) {
        if ((dcpk_spec_takes(kernels[i], key) != 0) == but) continue;
        int n = snprintf(text + length, capacity - length, "%s%s", length == 0 ? (but ? "all but " : "") : ", ",
                         kernels[i]);
        length += (size_t)n < capacity - length ? (size_t)n : 0;
    }
}

static struct table *list_keys(dcpk_gen *gen) {
    static const struct column columns[] = {
        {"key", "key"}, {"values", "values"}, {"default", "default"}, {"kernels", "kernels"}, {"doc", "meaning"}};
    (void)gen;
    struct table *table = table_new(columns, 5);
    dcpk_key_info info = {.size = sizeof info};
    for (uint32_t i = 0; dcpk_key_at(i, &info); i++) {
        char takers[256];
        name_takers(info.name, takers, sizeof takers);
        table_text(table, info.name);
        table_text(table, info.values);
        table_text(table, info.dflt);
        table_text(table, takers);
        table_text(table, info.doc);
    }
    char names[512];
    size_t length = 0;
    names[0] = '\0';
    dcpk_arch_info arch = {.size = sizeof arch};
    for (uint32_t i = 0; dcpk_arch_at(i, &arch); i++)
        length += (size_t)snprintf(names + length, length < sizeof names ? sizeof names - length : 0, "%s%s",
                                   i > 0 ? "|" : "", arch.name);
    table_text(table, "arch");
    table_text(table, names);
    table_text(table, "sm_90a");
    table_text(table, "all");
    table_text(table, "architecture to assemble for ('dcpk ls arch')");
    return table;
}

static struct table *list_arch(dcpk_gen *gen) {
    static const struct column columns[] = {
        {"arch", "arch"}, {"capability", "capability"}, {"runs_on", "runs on"}, {"sms", "sms"}, {"ptx", "PTX from"}};
    (void)gen;
    struct table *table = table_new(columns, 5);
    dcpk_arch_info info = {.size = sizeof info};
    for (uint32_t i = 0; dcpk_arch_at(i, &info); i++) {
        char capability[32], ptx[32];
        snprintf(capability, sizeof capability, "%d.%d", info.major, info.minor);
        snprintf(ptx, sizeof ptx, "%d.%d", info.ptx / 10, info.ptx % 10);
        table_text(table, info.name);
        table_text(table, capability);
        table_text(table, info.exact ? "this capability alone" : "this major, from here on");
        table_integer(table, info.sms);
        table_text(table, ptx);
    }
    return table;
}

static struct table *list_errors(dcpk_gen *gen) {
    static const struct column columns[] = {
        {"status", "status"}, {"code", "code"}, {"meaning", "meaning"}, {"advice", "what to do"}};
    (void)gen;
    struct table *table = table_new(columns, 4);
#define E(name, code, meaning, advice)                                                                                 \
    table_text(table, "DCPK_E_" #name), table_integer(table, code), table_text(table, meaning),                        \
        table_text(table, advice);
#include <dcpk/errors.def>
#undef E
    return table;
}

static struct table *list_env(dcpk_gen *gen) {
    static const struct column columns[] = {
        {"variable", "variable"}, {"default", "default"}, {"reader", "read by"}, {"doc", "meaning"}};
    (void)gen;
    struct table *table = table_new(columns, 4);
#define V(name, dflt, reader, doc)                                                                                     \
    table_text(table, #name), table_text(table, dflt), table_text(table, reader), table_text(table, doc);
#include <dcpk/environment.def>
#undef V
    return table;
}

/* Letters of args.def, in the order of kernels.def, become names. */
static void name_readers(const char *letters, char *text, size_t capacity) {
    static const char order[] = "npwqdv";
    _Static_assert(sizeof order - 1 == KERNELS, "a letter for each kernel");
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < KERNELS; i++) {
        if (strchr(letters, order[i]) == NULL) continue;
        int n = snprintf(text + length, capacity - length, "%s%s", length == 0 ? "" : ", ", kernels[i]);
        length += (size_t)n < capacity - length ? (size_t)n : 0;
    }
}

static struct table *list_args(dcpk_gen *gen) {
    static const struct column columns[] = {
        {"argument", "argument"}, {"type", "type"}, {"kernels", "kernels"}, {"doc", "meaning"}};
    (void)gen;
    struct table *table = table_new(columns, 4);
    char readers[256];
#define A(type, name, letters, doc)                                                                                    \
    name_readers(letters, readers, sizeof readers);                                                                    \
    table_text(table, #name), table_text(table, #type), table_text(table, readers), table_text(table, doc);
#include <dcpk/args.def>
#undef A
    return table;
}

static struct table *list_box(dcpk_gen *gen) {
    static const struct column columns[] = {{"parameter", "parameter"}, {"type", "type"}, {"doc", "meaning"}};
    (void)gen;
    struct table *table = table_new(columns, 3);
#define B(type, name, doc) table_text(table, #name), table_text(table, #type), table_text(table, doc);
#include <dcpk/box.def>
#undef B
    return table;
}

/* Lines "name heads=.. gate=.. ... source", as the library words them. */
static struct table *list_models(dcpk_gen *gen) {
    static const struct column columns[] = {{"model", "model"}, {"settings", "settings and source"}};
    dcpk_text text = {NULL, 0};
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_gen_models(gen, &text, &error) != DCPK_OK) {
        complain_error(&error);
        return NULL;
    }
    struct table *table = table_new(columns, 2);
    char *rest = NULL;
    for (char *row = strtok_r(text.data, "\n", &rest); row != NULL; row = strtok_r(NULL, "\n", &rest)) {
        char *settings = row + strcspn(row, " \t");
        if (*settings != '\0') *settings++ = '\0';
        table_text(table, row);
        table_text(table, settings + strspn(settings, " \t"));
    }
    dcpk_text_free(&text);
    return table;
}

#define LIST_NAMES "kernels|keys|arch|models|errors|env|args|box|commands|options|exits"
static const struct list {
    const char *name;
    int by_default; /* shown by a bare ls */
    struct table *(*make)(dcpk_gen *gen);
} lists[] = {{"kernels", 1, list_kernels}, {"keys", 1, list_keys},     {"arch", 0, list_arch},
             {"models", 0, list_models},   {"errors", 0, list_errors}, {"env", 0, list_env},
             {"args", 0, list_args},       {"box", 0, list_box},       {"commands", 0, list_commands},
             {"options", 0, list_options}, {"exits", 0, list_exits}};
enum { LISTS = sizeof lists / sizeof lists[0] };

static bool wanted(const struct command_line *line, const struct list *list) {
    return line->word_count == 0 ? list->by_default : strcmp(line->words[0], list->name) == 0;
}

static void (*printer(const struct command_line *line))(const struct table *table, FILE *to) {
    return line->values[OPT_MARKDOWN] != NULL ? table_markdown
           : line->values[OPT_PLAIN] != NULL  ? table_plain
                                              : table_print;
}

static enum exit_code run(const struct command_line *line) {
    if (line->word_count > 1) return usage_error(line, "one list at a time, or none for kernels and keys");
    int forms = 0;
    for (int i = OPT_JSON; i <= OPT_PLAIN; i++)
        forms += line->values[i] != NULL;
    if (forms > 1) return usage_error(line, "--json, --markdown or --plain: one form at a time");
    bool any = false, first = true;
    for (size_t i = 0; i < LISTS; i++)
        any = any || wanted(line, &lists[i]);
    if (!any) return usage_error(line, "no list '%s': one of " LIST_NAMES, line->words[0]);
    dcpk_gen *gen = NULL;
    enum exit_code code = open_gen(NULL, &gen);
    json_t *all = must(json_object());
    for (size_t i = 0; i < LISTS && code == EXIT_DONE; i++) {
        if (!wanted(line, &lists[i])) continue;
        struct table *table = lists[i].make(gen);
        if (table == NULL) {
            code = EXIT_WORK;
        } else if (line->values[OPT_JSON] != NULL) {
            json_object_set_new(all, lists[i].name, table_json(table));
        } else {
            if (!first) putchar('\n');
            printer(line)(table, stdout);
            first = false;
        }
        table_free(table);
    }
    if (code == EXIT_DONE && line->values[OPT_JSON] != NULL) json_print(json_incref(all), stdout);
    json_decref(all);
    dcpk_gen_close(gen);
    return code;
}

const struct command command_ls = {
    .name = "ls",
    .operands = "[" LIST_NAMES "]",
    .summary = "list kernels, spec keys and their domains, architectures, model presets",
    .help =
        "Without a word: kernels and keys. template \"no\": the kernel has its number and keys, but no template yet.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
