/* words.c - from the words of a command line to a spec: KERNEL key=value..., with model=NAME tp=N among them.
 *
 * The library reads keys and values; model and tp are the tools' own (spec.md's table: "not of a kernel"). */
#include "command.h"
#include "tool_error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool kernel_known(const char *name) {
    return dcpk_kernel_id_of(name) != DCPK_KERNEL_NONE;
}

enum exit_code open_gen(const char *template_path, dcpk_gen **gen) {
    dcpk_gen_options options = {.size = sizeof options, .template_path = template_path, .log = log_line};
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_gen_open(&options, gen, &error) == DCPK_OK) return EXIT_DONE;
    complain_error(&error);
    return exit_of_error(NULL, &error);
}

static enum exit_code check_folders(const struct command_line *line, const char *folders) {
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_templates_check(folders, &error) == DCPK_OK) return EXIT_DONE;
    return usage_error(line, "--templates %s: %s", folders, error.text);
}

enum exit_code open_gen_before(const struct command_line *line, const char *folders, const char *usual,
                               dcpk_gen **gen) {
    char built_in[4096] = "", *path = NULL;
    if (folders == NULL) return open_gen(usual, gen);
    enum exit_code code = check_folders(line, folders);
    if (code != EXIT_DONE) return code;
    const char *given = getenv("DCPK_TEMPLATE_PATH");
    if (usual == NULL) usual = given != NULL && given[0] != '\0' ? given : NULL;
    if (usual == NULL && dcpk_templates_path(built_in, sizeof built_in) > 0) usual = built_in;
    if (asprintf(&path, "%s:%s", folders, usual != NULL ? usual : "") < 0) path = NULL;
    code = open_gen(must(path), gen);
    free(path);
    return code;
}

static bool kernel_name_well_formed(const char *name) {
    size_t length = strlen(name);
    return length > 0 && length < sizeof((dcpk_spec *)NULL)->kernel &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

bool word_number(const char *text, uint64_t most, uint64_t *value) {
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text)) return false;
    errno = 0;
    unsigned long long read = strtoull(text, NULL, 10);
    if (errno != 0 || read > most) return false;
    *value = read;
    return true;
}

static bool read_tp(const char *text, int32_t *tp) {
    uint64_t value;
    if (!word_number(text, 4096, &value) || value == 0) return false;
    *tp = (int32_t)value;
    return true;
}

enum exit_code words_keys(const struct command_line *line, char *const *words, int count, dcpk_spec *spec,
                          struct preset *preset) {
    dcpk_error error;
    dcpk_error_init(&error);
    *preset = (struct preset){NULL, 0};
    for (int i = 0; i < count; i++) {
        const char *word = words[i];
        if (strncmp(word, "model=", 6) == 0) {
            if (preset->model != NULL)
                return usage_error(line, "model is set twice (%s, then %s)", preset->model, word + 6);
            preset->model = word + 6;
        } else if (strncmp(word, "tp=", 3) == 0) {
            if (preset->tp != 0) return usage_error(line, "tp is set twice (%d, then %s)", preset->tp, word + 3);
            if (!read_tp(word + 3, &preset->tp))
                return usage_error(line, "tp=%s: tp is a number from 1 to 4096", word + 3);
        } else if (dcpk_spec_set(spec, word, &error) != DCPK_OK) {
            complain_error(&error);
            return EXIT_USAGE;
        }
    }
    if (preset->tp != 0 && preset->model == NULL)
        return usage_error(line, "tp=%d goes with model=NAME ('dcpk ls models' names them)", preset->tp);
    if (preset->tp == 0) preset->tp = 1;
    return EXIT_DONE;
}

dcpk_status preset_shares(int32_t tp, int32_t dcp, dcpk_error *error) {
    if (tp % dcp == 0) return DCPK_OK;
    return tool_fail(error, DCPK_E_SPEC,
                     "dcp must divide tp (a DCP group is dcp consecutive ranks of the tp that share a model's heads); "
                     "tp=%d dcp=%d",
                     tp, dcp);
}

enum exit_code words_preset(const struct command_line *line, dcpk_gen *gen, const struct preset *preset,
                            dcpk_spec *spec) {
    dcpk_error error;
    dcpk_error_init(&error);
    if (preset->model == NULL) return EXIT_DONE;
    if (dcpk_gen_model(gen, preset->model, preset->tp, spec, &error) != DCPK_OK) {
        complain_error(&error);
        return error.code == DCPK_E_NOT_FOUND ? EXIT_USAGE : exit_of_error(gen, &error);
    }
    if (spec->dcp > 0 && preset_shares(preset->tp, spec->dcp, &error) != DCPK_OK)
        return usage_error(line, "%s model=%s%s", error.text, preset->model,
                           preset->tp == 1 ? " (tp is 1 unless tp=N says otherwise; dcp too, but 2 in dcpk run)" : "");
    return EXIT_DONE;
}

enum exit_code words_spec(const struct command_line *line, dcpk_gen *gen, dcpk_spec *spec) {
    return words_spec_lineinfo(line, gen, false, spec);
}

enum exit_code words_spec_lineinfo(const struct command_line *line, dcpk_gen *gen, bool lineinfo, dcpk_spec *spec) {
    if (line->word_count == 0) return usage_error(line, "which kernel? 'dcpk ls' names them");
    if (!kernel_name_well_formed(line->words[0]))
        return usage_error(line, "'%s' is no kernel's name: at most 31 of a-z, 0-9 and _ ('dcpk ls' names the kernels)",
                           line->words[0]);
    dcpk_error error;
    dcpk_error_init(&error);
    struct preset preset;
    dcpk_spec_init(spec, line->words[0]);
    enum exit_code code = words_keys(line, line->words + 1, line->word_count - 1, spec, &preset);
    if (code == EXIT_DONE && lineinfo && spec->lineinfo == 0)
        code = usage_error(line, "--lineinfo and lineinfo=0 contradict each other");
    if (lineinfo) spec->lineinfo = 1;
    if (code == EXIT_DONE) code = words_preset(line, gen, &preset, spec);
    if (code == EXIT_DONE && dcpk_spec_resolve(spec, &error) != DCPK_OK) {
        complain_error(&error);
        return exit_of_error(gen, &error);
    }
    return code;
}
