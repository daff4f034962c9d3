/* cmd_doctor.c - dcpk doctor: what is here, whether it is sound, and whether a model can be served with it.
 *
 * Owns the order of the looks and the exit code; the looks are doctor_*.c. */
#include "doctor.h"

#include "json_text.h"
#include "table.h"

#include <dcpk/pack.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_JSON, OPT_MODEL, OPT_TP, OPT_DCP, OPT_BATCH, OPT_Q };
static const struct option_row options[] = {
    [OPT_JSON] = {"json", 0, NULL, "JSON instead of text"},
    [OPT_MODEL] = {"model", 0, "MODEL", "can this preset of 'dcpk ls models' be served here?"},
    [OPT_TP] = {"tp", 0, "N", "with --model: ranks that share its heads (1)"},
    [OPT_DCP] = {"dcp", 0, "N", "with --model: ranks that share its KV cache (1)"},
    [OPT_BATCH] = {"batch", 0, "LIST", "with --model: rows of a launch, 1,4,16 (1)"},
    [OPT_Q] = {"q", 0, "N", "with --model: query rows of a request (1)"},
};

static void add(json_t *list, const char *format, va_list arguments) {
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0) text = NULL;
    json_array_append_new(list, json_text(must(text)));
    free(text);
}

void doctor_problem(struct doctor *doctor, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add(doctor->problems, format, arguments);
    va_end(arguments);
}

void doctor_note(struct doctor *doctor, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add(doctor->notes, format, arguments);
    va_end(arguments);
}

static enum exit_code read_number(const struct command_line *line, int option, int32_t most, int32_t *value) {
    const char *text = line->values[option];
    uint64_t number = 1;
    if (text != NULL && (!word_number(text, (uint64_t)most, &number) || number == 0))
        return usage_error(line, "--%s %s: a number from 1 to %d", options[option].name, text, most);
    *value = (int32_t)number;
    return EXIT_DONE;
}

static enum exit_code read_batches(const struct command_line *line, struct doctor_request *request) {
    enum { MOST = sizeof request->batches / sizeof request->batches[0] };
    const char *text = line->values[OPT_BATCH] != NULL ? line->values[OPT_BATCH] : "1";
    for (const char *at = text;; at++) {
        char word[16];
        size_t length = strcspn(at, ",");
        uint64_t number = 0;
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), at);
        if (!word_number(word, 512, &number) || number == 0 || request->batch_count == MOST)
            return usage_error(line, "--batch %s: up to %d numbers from 1 to 512 with commas between them", text, MOST);
        request->batches[request->batch_count++] = (int32_t)number;
        at += length;
        if (*at == '\0') return EXIT_DONE;
    }
}

static enum exit_code read_request(const struct command_line *line, struct doctor_request *request) {
    request->model = line->values[OPT_MODEL];
    for (int i = OPT_TP; request->model == NULL && i <= OPT_Q; i++)
        if (line->values[i] != NULL) return usage_error(line, "--%s goes with --model NAME", options[i].name);
    if (request->model != NULL && request->model[0] == '\0')
        return usage_error(line, "--model: which? 'dcpk ls models' names them");
    enum exit_code code = read_number(line, OPT_TP, 4096, &request->tp);
    if (code == EXIT_DONE) code = read_number(line, OPT_DCP, 32, &request->dcp);
    if (code == EXIT_DONE) code = read_number(line, OPT_Q, 8, &request->q);
    if (code == EXIT_DONE) code = read_batches(line, request);
    dcpk_error error;
    dcpk_error_init(&error);
    if (code == EXIT_DONE && request->model != NULL && preset_shares(request->tp, request->dcp, &error) != DCPK_OK)
        return usage_error(line, "%s", error.text);
    return code;
}

/* 3: nothing here makes or holds a kernel. 1: something is wrong, or what was asked for cannot be served. */
static enum exit_code verdict(const struct doctor *doctor) {
    if (!doctor->assembles && !doctor_packs_serve(doctor)) return EXIT_MISSING;
    return json_array_size(doctor->problems) > 0 ? EXIT_WORK : EXIT_DONE;
}

/* A preset that is not there is a word that cannot be, here as in every command. */
static enum exit_code check_model(const struct doctor *doctor) {
    dcpk_model_info info = {.size = sizeof info};
    dcpk_error error;
    dcpk_error_init(&error);
    if (doctor->request.model == NULL || doctor->gen == NULL ||
        dcpk_gen_model_info(doctor->gen, doctor->request.model, &info, &error) != DCPK_E_NOT_FOUND)
        return EXIT_DONE;
    complain_error(&error);
    return EXIT_USAGE;
}

static enum exit_code look(struct doctor *doctor) {
    doctor->whole = must(json_pack("{s:s}", "version", dcpk_version()));
    doctor->problems = must(json_array());
    doctor->notes = must(json_array());
    doctor_environment(doctor);
    doctor_devices(doctor);
    doctor_toolchains(doctor);
    enum exit_code code = check_model(doctor);
    if (code != EXIT_DONE) return code;
    doctor_packs(doctor);
    doctor_judge_toolchain(doctor);
    doctor_serve(doctor);
    code = verdict(doctor);
    json_object_set(doctor->whole, "problems", doctor->problems);
    json_object_set(doctor->whole, "notes", doctor->notes);
    json_object_set_new(doctor->whole, "exit", json_integer(code));
    if (doctor->line->values[OPT_JSON] != NULL)
        json_print(json_incref(doctor->whole), stdout);
    else
        doctor_print(doctor);
    return code;
}

static enum exit_code run(const struct command_line *line) {
    struct doctor *doctor = must(calloc(1, sizeof *doctor));
    doctor->line = line;
    enum exit_code code = line->word_count > 0 ? usage_error(line, "no words: options alone") : EXIT_DONE;
    if (code == EXIT_DONE) code = read_request(line, &doctor->request);
    if (code == EXIT_DONE) code = look(doctor);
    doctor_packs_close(doctor);
    dcpk_gen_close(doctor->gen);
    json_decref(doctor->whole);
    json_decref(doctor->problems);
    json_decref(doctor->notes);
    free(doctor);
    return code;
}

const struct command command_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "what is here (devices, toolchains, cache, packs, variables) and whether a model can be served with it",
    .help = "Looks and changes nothing. Multicast is what the driver reports; it is not tried.\n"
            "Exit codes: 0 all is well; 1 a problem is listed, or the model cannot be served; 3 there is neither a "
            "toolchain nor a pack.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
    .any_log = true,
};
