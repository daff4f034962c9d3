/* cmd_check.c - dcpk check device: does a device compute what PTX defines? Snippets of PTX, one an instruction form,
 * each compared with a reference in C, with the manual's bound where it is an approximation, and with what an H200
 * left. */
#include "command.h"
#include "conform_apart.h"
#include "conform_report.h"

#include <dcpk/gen.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPT_DEVICE, OPT_RECORD, OPT_AGAINST, OPT_LIST, OPT_VERBOSE };
static const struct option_row options[] = {
    [OPT_DEVICE] = {"device", 'd', "cpu|cuda|cuda:N", "where to run (cpu)"},
    [OPT_RECORD] = {"record", 0, "FILE",
                    "also write what this device leaves; with words those lines of the file alone"},
    [OPT_AGAINST] = {"against", 0, "FILE",
                     "recorded results to compare with (golden/conformance_h200.txt, which comes with dcpk)"},
    [OPT_LIST] = {"list", 0, NULL, "print the snippets and run nothing"},
    [OPT_VERBOSE] = {"verbose", 'v', NULL, "a line for every snippet"},
};

/* The snippets that the words choose: those whose name holds any of them; all without words. */
struct chosen {
    const struct conform_form **forms;
    size_t count;
};

/* A word that chooses nothing, NULL: there is none. */
static const char *idle_word(const struct command_line *line, const struct conform_list *list) {
    for (int w = 1; w < line->word_count; w++) {
        size_t i = 0;
        while (i < list->count && strstr(list->forms[i].name, line->words[w]) == NULL)
            i++;
        if (i == list->count) return line->words[w];
    }
    return NULL;
}

static struct chosen choose(const struct command_line *line, const struct conform_list *list) {
    struct chosen chosen = {must(malloc(list->count * sizeof *chosen.forms)), 0};
    for (size_t i = 0; i < list->count; i++) {
        bool wanted = line->word_count == 1;
        for (int w = 1; w < line->word_count && !wanted; w++)
            wanted = strstr(list->forms[i].name, line->words[w]) != NULL;
        if (wanted) chosen.forms[chosen.count++] = &list->forms[i];
    }
    return chosen;
}

static void print_list(const struct chosen *chosen) {
    for (size_t i = 0; i < chosen->count; i++) {
        const struct conform_row *row = chosen->forms[i]->row;
        printf("%-100s %s%s%s\n", chosen->forms[i]->name,
               row->flags & TENSOR   ? "sums of products within a bound"
               : row->flags & APPROX ? "within a bound"
                                     : "to the bit",
               row->flags & SM_90A ? ", sm_90a" : "",
               row->flags & CPU_ONLY ? ", never on hardware: multicast memory" : "");
    }
    printf("%zu snippets\n", chosen->count);
}

/* ---- the device ---- */
static enum exit_code read_device(const struct command_line *line, dcpk_device_words *words,
                                  dcpk_device_options *wish) {
    const char *wanted = line->values[OPT_DEVICE] != NULL ? line->values[OPT_DEVICE] : "cpu";
    dcpk_error error;
    dcpk_error_init(&error);
    *words = (dcpk_device_words){.size = sizeof *words};
    if (dcpk_device_words_read(wanted, words, &error) != DCPK_OK || words->count > 1)
        return usage_error(line, "--device %s: cpu, cuda, or cuda:N for one of several", wanted);
    *wish = (dcpk_device_options){.size = sizeof *wish,
                                  .kind = words->kind,
                                  .ordinal = words->count == 1 ? words->list[0] : 0,
                                  .pdl = -1,
                                  .multicast = 0};
    struct cpu_variable variables[CPU_VARIABLES];
    return strcmp(wish->kind, "cpu") == 0 ? environment_cpu(line, variables) : EXIT_DONE;
}

/* ---- recorded results ---- */
/* The installation's: beside the built-in templates. */
static void default_golden(char *path, size_t room) {
    char folder[4096];
    static const char *const places[] = {"golden", "tests/golden"};
    dcpk_templates_path(folder, sizeof folder);
    char *slash = strrchr(folder, '/');
    if (slash != NULL) *slash = '\0';
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, room, "%.3900s/%s/conformance_h200.txt", folder, places[i]);
        FILE *file = fopen(path, "re");
        if (file == NULL) continue;
        fclose(file);
        return;
    }
    path[0] = '\0';
}

static enum exit_code read_golden(const struct command_line *line, struct conform_golden **golden, char *path,
                                  size_t room) {
    dcpk_error error;
    dcpk_error_init(&error);
    if (line->values[OPT_AGAINST] != NULL)
        snprintf(path, room, "%s", line->values[OPT_AGAINST]);
    else
        default_golden(path, room);
    if (path[0] == '\0' || conform_golden_read(path, golden, &error) == DCPK_OK) return EXIT_DONE;
    complain_error(&error);
    return EXIT_WORK;
}

/* With words, a file that holds something keeps the lines of all other snippets. */
static bool renews(const struct command_line *line) {
    struct stat there;
    const char *path = line->values[OPT_RECORD];
    return path != NULL && strcmp(path, "-") != 0 && line->word_count > 1 && stat(path, &there) == 0 &&
           S_ISREG(there.st_mode) && there.st_size > 0;
}

/* Before anything runs: whether lines can be put into the file that is there. */
static enum exit_code look_at_record(const struct command_line *line) {
    struct conform_golden *there = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    if (!renews(line) || conform_golden_read(line->values[OPT_RECORD], &there, &error) == DCPK_OK) {
        conform_golden_free(there);
        return EXIT_DONE;
    }
    complain_error(&error);
    return EXIT_WORK;
}

static enum exit_code write_record(const struct command_line *line, struct conform_recording *recording) {
    const char *path = line->values[OPT_RECORD];
    dcpk_error error;
    dcpk_error_init(&error);
    if (renews(line) && conform_recording_renew(recording, path, &error) != DCPK_OK) {
        complain_error(&error);
        return EXIT_WORK;
    }
    return output_write(line, path, recording->text, recording->used) ? EXIT_DONE : EXIT_WORK;
}

/* ---- the run ---- */
enum { LIMIT_S = 60, MOST_JOBS = 8 };

/* Hardware: one process at a time. The CPU device: one a processor. */
static unsigned jobs_of(const dcpk_device_options *wish, size_t snippets) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN), most = (long)(snippets / 64) + 1;
    if (strcmp(wish->kind, "cpu") != 0 || processors < 1) return 1;
    processors = processors > MOST_JOBS ? MOST_JOBS : processors;
    return (unsigned)(processors < most ? processors : most);
}

static enum exit_code check(const struct command_line *line, const struct chosen *chosen,
                            const dcpk_device_options *wish) {
    char path[4096], name[CONFORM_DEVICE_NAME];
    struct conform_golden *golden = NULL;
    struct conform_recording recording = {NULL, 0, 0};
    struct conform_outcome *outcomes = must(calloc(chosen->count + 1, sizeof *outcomes));
    dcpk_error error;
    dcpk_error_init(&error);
    enum exit_code code = read_golden(line, &golden, path, sizeof path);
    if (code == EXIT_DONE) code = look_at_record(line);
    struct conform_apart how = {.device = *wish,
                                .golden = golden,
                                .record = line->values[OPT_RECORD] != NULL,
                                .jobs = jobs_of(wish, chosen->count),
                                .limit_s = LIMIT_S};
    if (code == EXIT_DONE && conform_apart_run(&how, chosen->forms, chosen->count, outcomes, name,
                                               how.record ? &recording : NULL, &error) != DCPK_OK) {
        complain_error(&error);
        code = EXIT_MISSING;
    }
    if (code == EXIT_DONE) {
        struct conform_report report = {outcomes, chosen->count, name, golden, path, line->values[OPT_VERBOSE] != NULL};
        code = conform_report_print(&report, stdout) ? EXIT_DONE : EXIT_WORK;
        if (how.record && write_record(line, &recording) != EXIT_DONE) code = EXIT_WORK;
    }
    free(recording.text);
    free(outcomes);
    conform_golden_free(golden);
    return code;
}

static enum exit_code run(const struct command_line *line) {
    if (line->word_count == 0 || strcmp(line->words[0], "device") != 0)
        return usage_error(line, "what is to be checked? 'dcpk check device'");
    bool listed = line->values[OPT_LIST] != NULL;
    if (listed && (line->values[OPT_RECORD] != NULL || line->values[OPT_AGAINST] != NULL))
        return usage_error(line, "--%s beside --list, which runs nothing: leave one out",
                           line->values[OPT_RECORD] != NULL ? "record" : "against");
    struct conform_list list = conform_list_make();
    struct chosen chosen = choose(line, &list);
    dcpk_device_words words;
    dcpk_device_options wish = {.size = sizeof wish, .kind = "cpu"};
    const char *idle = idle_word(line, &list);
    enum exit_code code = EXIT_DONE;
    if (idle != NULL)
        code = usage_error(line, "no snippet's name holds '%s': --list names them", idle);
    else if (listed)
        print_list(&chosen);
    else
        code = read_device(line, &words, &wish);
    if (code == EXIT_DONE && !listed) code = check(line, &chosen, &wish);
    free(chosen.forms);
    conform_list_free(&list);
    return code;
}

const struct command command_check = {
    .name = "check",
    .operands = "device [WORD...]",
    .summary =
        "does a device compute what PTX defines? Snippets of every instruction form, against references and an H200",
    .help =
        "With words only the snippets whose names hold one of them.\n"
        "Exit codes: 0 nothing differs; 1 a snippet differs from its reference, its bound or what was recorded, the\n"
        "device refuses it or faults, or a file cannot be read or written, or is another device's; 2 words or "
        "options that\n"
        "are no use of it; 3 there is no such device. docs/conformance.md says more.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
