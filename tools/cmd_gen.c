/* cmd_gen.c - dcpk gen, build, explain: what takes a spec and asks the generator once.
 *
 * May use include/dcpk/gen.h; the spec's text is read by words.c. */
#include "command.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPEC_HELP                                                                                                      \
    "KERNEL is a name of 'dcpk ls'; key=value pairs are those of 'dcpk ls keys'. model=NAME tp=N fills in the keys "   \
    "of\n"                                                                                                             \
    "a preset ('dcpk ls models') that are not given.\n"

/* A failed call on a well-formed spec. A kernel that nobody knows is a usage error. */
static enum exit_code failed(const struct command_line *line, dcpk_gen *gen, const dcpk_error *error) {
    complain_error(error);
    if (error->code == DCPK_E_NOT_FOUND && error->template_line == 0 && !kernel_known(line->words[0])) {
        complain(line, "'dcpk ls' names the kernels");
        return EXIT_USAGE;
    }
    return exit_of_error(gen, error);
}

/* The generator and the spec, with what --templates and --lineinfo say. */
static enum exit_code open_spec(const struct command_line *line, const char *templates, const char *lineinfo,
                                dcpk_gen **gen, dcpk_spec *spec) {
    enum exit_code code = open_gen_before(line, templates, NULL, gen);
    return code == EXIT_DONE ? words_spec_lineinfo(line, *gen, lineinfo != NULL, spec) : code;
}

/* ---- gen ---------------------------------------------------------------------------------------- */
enum { GEN_OUT, GEN_TEMPLATES, GEN_LINEINFO };
static const struct option_row gen_options[] = {
    [GEN_OUT] = {"output", 'o', "FILE", "write the PTX to FILE ('-': stdout)"},
    [GEN_TEMPLATES] = TEMPLATES_ROW,
    [GEN_LINEINFO] = LINEINFO_ROW,
};

static enum exit_code run_gen(const struct command_line *line) {
    dcpk_gen *gen = NULL;
    dcpk_spec spec;
    enum exit_code code = open_spec(line, line->values[GEN_TEMPLATES], line->values[GEN_LINEINFO], &gen, &spec);
    if (code == EXIT_DONE) {
        dcpk_text ptx = {NULL, 0};
        dcpk_error error;
        dcpk_error_init(&error);
        const char *path = line->values[GEN_OUT] != NULL ? line->values[GEN_OUT] : "-";
        if (dcpk_gen_expand(gen, &spec, &ptx, &error) != DCPK_OK)
            code = failed(line, gen, &error);
        else if (!output_write(line, path, ptx.data, ptx.length))
            code = EXIT_WORK;
        dcpk_text_free(&ptx);
    }
    dcpk_gen_close(gen);
    return code;
}

const struct command command_gen = {
    .name = "gen",
    .operands = "KERNEL key=value...",
    .summary = "print a kernel's PTX",
    .help = SPEC_HELP "The same spec gives the same bytes in every run, process, folder and locale.\n",
    .options = gen_options,
    .option_count = sizeof gen_options / sizeof gen_options[0],
    .run = run_gen,
};

/* ---- build -------------------------------------------------------------------------------------- */
enum { BUILD_OUT, BUILD_JSON, BUILD_TEMPLATES, BUILD_LINEINFO };
static const struct option_row build_options[] = {
    [BUILD_OUT] = {"output", 'o', "FILE", "also write the image to FILE ('-': stdout, the report then goes to stderr)"},
    [BUILD_JSON] = {"json", 0, NULL, "JSON instead of a table"},
    [BUILD_TEMPLATES] = TEMPLATES_ROW,
    [BUILD_LINEINFO] = LINEINFO_ROW,
};

static struct table *entries_table(const dcpk_image *image, dcpk_error *error) {
    static const struct column columns[] = {{"entry", "entry"},
                                            {"registers", "registers"},
                                            {"static_shared", "static shared B"},
                                            {"dynamic_shared", "dynamic shared B"},
                                            {"spill_bytes", "spills B"},
                                            {"grid", "grid"},
                                            {"block", "block"}};
    struct table *table = table_new(columns, 7);
    for (uint32_t i = 0; i < dcpk_image_entry_count(image); i++) {
        dcpk_entry_info info = {.size = sizeof info};
        char shape[64];
        if (dcpk_image_entry(image, i, &info, error) != DCPK_OK) {
            table_free(table);
            return NULL;
        }
        table_text(table, info.name);
        table_integer(table, info.registers);
        table_integer(table, info.static_shared);
        table_integer(table, info.dynamic_shared);
        table_integer(table, info.local_bytes);
        snprintf(shape, sizeof shape, "%ux%ux%u", info.grid[0], info.grid[1], info.grid[2]);
        table_text(table, shape);
        snprintf(shape, sizeof shape, "%ux%ux%u", info.block[0], info.block[1], info.block[2]);
        table_text(table, shape);
    }
    return table;
}

static struct table *report_table(const dcpk_build_report *report) {
    static const struct column columns[] = {{"key", "key"},
                                            {"cache", "cache"},
                                            {"cached", "stored"},
                                            {"compilers", "compilers"},
                                            {"ptx_lines", "PTX lines"},
                                            {"cubin_bytes", "cubin B"},
                                            {"expand_ms", "expand ms"},
                                            {"compile_ms", "compile ms"},
                                            {"total_ms", "total ms"}};
    struct table *table = table_new(columns, 9);
    table_text(table, report->key);
    table_text(table, report->hit != 0 ? "hit" : "miss");
    table_text(table, report->cached != 0 ? "yes" : "no");
    table_integer(table, report->compiled);
    table_integer(table, report->ptx_lines);
    table_integer(table, (int64_t)report->cubin_bytes);
    table_number(table, "%.2f", report->expand_ms);
    table_number(table, "%.2f", report->compile_ms);
    table_number(table, "%.2f", report->total_ms);
    return table;
}

static enum exit_code print_build(const struct command_line *line, const dcpk_spec *spec, const dcpk_image *image,
                                  const dcpk_build_report *report) {
    dcpk_error error;
    dcpk_error_init(&error);
    const char *path = line->values[BUILD_OUT];
    FILE *to = path != NULL && strcmp(path, "-") == 0 ? stderr : stdout;
    struct table *entries = entries_table(image, &error);
    if (entries == NULL) {
        complain_error(&error);
        return EXIT_WORK;
    }
    struct table *head = report_table(report);
    char text[1024];
    dcpk_spec_format(spec, text, sizeof text);
    if (line->values[BUILD_JSON] != NULL) {
        json_t *rows = table_json(head), *object = json_incref(json_array_get(rows, 0));
        json_object_set_new(object, "spec", json_string(text));
        json_object_set_new(object, "entries", table_json(entries));
        json_decref(rows);
        json_print(object, to);
    } else {
        fprintf(to, "%s\n", text);
        table_print(head, to);
        table_print(entries, to);
    }
    table_free(head);
    table_free(entries);
    return EXIT_DONE;
}

static enum exit_code run_build(const struct command_line *line) {
    dcpk_gen *gen = NULL;
    dcpk_spec spec;
    enum exit_code code = open_spec(line, line->values[BUILD_TEMPLATES], line->values[BUILD_LINEINFO], &gen, &spec);
    if (code == EXIT_DONE) {
        dcpk_image *image = NULL;
        dcpk_build_report report = {.size = sizeof report};
        dcpk_error error;
        dcpk_error_init(&error);
        if (dcpk_gen_build(gen, &spec, &image, &report, &error) != DCPK_OK) code = failed(line, gen, &error);
        size_t length = 0;
        const void *bytes = code == EXIT_DONE ? dcpk_image_bytes(image, &length) : NULL;
        const char *path = line->values[BUILD_OUT];
        if (code == EXIT_DONE && path != NULL && !output_write(line, path, bytes, length)) code = EXIT_WORK;
        if (code == EXIT_DONE) code = print_build(line, &spec, image, &report);
        dcpk_image_free(image);
    }
    dcpk_gen_close(gen);
    return code;
}

const struct command command_build = {
    .name = "build",
    .operands = "KERNEL key=value...",
    .summary = "assemble a kernel into the cache; print key, hit or miss, registers, shared memory, spills, ms",
    .help = SPEC_HELP
    "The image begins with the cubin, so tools that read cubins read it; 'dcpk cache extract' takes it apart.\n",
    .options = build_options,
    .option_count = sizeof build_options / sizeof build_options[0],
    .run = run_build,
};

/* ---- explain ------------------------------------------------------------------------------------ */
enum { EXPLAIN_TEMPLATES, EXPLAIN_LINEINFO };
static const struct option_row explain_options[] = {
    [EXPLAIN_TEMPLATES] = TEMPLATES_ROW,
    [EXPLAIN_LINEINFO] = LINEINFO_ROW,
};

static enum exit_code run_explain(const struct command_line *line) {
    dcpk_gen *gen = NULL;
    dcpk_spec spec;
    enum exit_code code = open_spec(line, line->values[EXPLAIN_TEMPLATES], line->values[EXPLAIN_LINEINFO], &gen, &spec);
    if (code == EXIT_DONE) {
        dcpk_text text = {NULL, 0};
        dcpk_error error;
        dcpk_error_init(&error);
        if (dcpk_gen_explain(gen, &spec, &text, &error) != DCPK_OK)
            code = failed(line, gen, &error);
        else
            fwrite(text.data, 1, text.length, stdout);
        dcpk_text_free(&text);
    }
    dcpk_gen_close(gen);
    return code;
}

const struct command command_explain = {
    .name = "explain",
    .operands = "KERNEL key=value...",
    .summary = "print the texts that a kernel's cache keys are made of",
    .help = SPEC_HELP,
    .options = explain_options,
    .option_count = sizeof explain_options / sizeof explain_options[0],
    .run = run_explain,
};
