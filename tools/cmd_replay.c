/* cmd_replay.c - dcpk replay: one step of one layer from a case file, run on every rank and compared: with the FP64
 * reference of its inputs, and with the results that the file brought along.
 *
 * Reads options and the file; layer_run.c runs, layer_judge.c and layer_replay.c compare. */
#include "case_file.h"
#include "json_text.h"
#include "command.h"
#include "device_choice.h"
#include "layer_judge.h"
#include "layer_replay.h"
#include "layer_run.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_DEVICE, OPT_SCHEDULE, OPT_SEED, OPT_ORDERED, OPT_SHARES, OPT_SIGMA, OPT_OUT, OPT_JSON };
static const struct option_row options[] = {
    [OPT_DEVICE] = {"device", 'd', "cpu|cuda|auto", "where to run (default: $DCPK_DEVICE, else cpu)"},
    [OPT_SCHEDULE] = {"schedule", 0, "fair|random", "CPU device: fair (default), or a seeded adversary"},
    [OPT_SEED] = {"seed", 's', "N", "of a random schedule (default: $DCPK_CPU_SEED, else 1)"},
    [OPT_ORDERED] = {"event-ordered", 'e', NULL,
                     "kernel by kernel over all ranks, poll=0 split=1: ranks may share a GPU"},
    [OPT_SHARES] = {"shares", 0, NULL,
                    "ranks beyond the GPUs take equal shares of the multiprocessors (green contexts)"},
    [OPT_SIGMA] =
        {"wide-scores", 0, NULL,
         "scores of FP8 tensor cores (hardware, sm_90a) spread over more than 1.3 (natural logarithm): wider bounds"},
    [OPT_OUT] = {"out", 'o', "FILE", "write what the device made as a safetensors file"},
    [OPT_JSON] = {"json", 0, NULL, "JSON instead of a table"},
};

static void warn(void *self, const char *text) {
    complain(self, "warning: %s", text);
}

struct replay_rows {
    struct replay_row rows[REPLAY_MOST_ROWS];
    int count;
};

/* "against reference" rows first, then the file's. Returns whether all are within their bounds. */
static bool fill_table(struct table *table, const struct layer_bounds *bounds, const struct layer_judgement *j,
                       const struct replay_rows *file) {
    const struct {
        const char *tensor, *measure;
        double error, bound;
    } own[] = {{"query", "e4m3 steps", j->query_steps, E4M3_BOUND},
               {"kv_cache", "e4m3 steps", j->cache_steps, E4M3_BOUND},
               {"rows (rounded)", "relative", j->rows_rounded, bounds->rows_rounded},
               {"rows (ideal)", "relative", j->rows_ideal, bounds->rows_ideal},
               {"rows_lse", "of its bound", j->lse, 1},
               {"output, of rows", "BF16 ulp", j->value_ulp, REF_VALUE_ULP},
               {"output, of inputs", "relative", j->output_ideal, bounds->output_ideal}};
    bool good = j->wrong == 0;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        table_text(table, own[i].tensor);
        table_text(table, "reference");
        table_number(table, "%.3g", own[i].error);
        table_number(table, "%.3g", own[i].bound);
        table_text(table, own[i].measure);
        table_text(table, own[i].error <= own[i].bound ? "good" : "OUT OF BOUNDS");
        good = good && own[i].error <= own[i].bound;
    }
    for (int i = 0; i < file->count; i++) {
        const struct replay_row *row = &file->rows[i];
        table_text(table, row->tensor);
        table_text(table, "file");
        table_number(table, "%.3g", row->error);
        table_number(table, "%.3g", row->bound);
        table_text(table, row->measure);
        table_text(table, row->wrong == 0 ? "good" : "OUT OF BOUNDS");
        good = good && row->wrong == 0;
    }
    return good;
}

static bool report(const struct command_line *line, const struct device_choice *choice, const char *device,
                   const struct layer_case *layer, const struct layer_bounds *bounds,
                   const struct layer_judgement *judged, const struct replay_rows *file) {
    static const struct column columns[] = {{"tensor", "tensor"}, {"against", "against"}, {"error", "error"},
                                            {"bound", "bound"},   {"measure", "of"},      {"verdict", "verdict"}};
    struct table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    bool good = fill_table(table, bounds, judged, file);
    const char *first = judged->first, *where = "against the reference";
    char text[LAYER_SENTENCE + 64], of_seed[48] = "";
    const char *schedule = device_choice_schedule(choice);
    if (strcmp(schedule, "random") == 0)
        snprintf(of_seed, sizeof of_seed, " of seed %llu", (unsigned long long)choice->cpu.seed);
    for (int i = 0; i < file->count && first[0] == '\0'; i++) {
        if (file->rows[i].wrong > 0) {
            snprintf(text, sizeof text, "%s: %s", file->rows[i].tensor, file->rows[i].first);
            first = text;
            where = "against the file";
        }
    }
    if (line->values[OPT_JSON] != NULL) {
        json_print(must(json_pack("{s:s s:s s:i s:i s:i s:b s:o s:o}", "device", device, "schedule", schedule, "dcp",
                                  layer->dcp, "heads", layer->heads, "batch", layer->batch, "ok", good, "first_wrong",
                                  json_text(first), "tensors", table_json(table))),
                   stdout);
    } else {
        table_print(table, stdout);
        printf("replay: %s device, %s schedule%s: %d heads on %d ranks, batch %d, %d of the file's own tensors: %s\n",
               device, schedule, of_seed, layer->heads, layer->dcp, layer->batch, file->count,
               good ? "good" : "OUT OF BOUNDS");
    }
    if (!good) complain(NULL, "replay: %s: %s", where, first[0] != '\0' ? first : "see the table");
    table_free(table);
    return good;
}

static enum exit_code compare(const struct command_line *line, const struct device_choice *choice,
                              struct layer_run *run, const struct layer_case *layer) {
    struct layer_bounds bounds;
    struct layer_judgement judged;
    dcpk_device_info info = {.size = sizeof info};
    char why[SAFETENSORS_SENTENCE];
    dcpk_device_get_info(layer_run_group(run)->rank[0].device, &info, NULL);
    layer_bounds_of(layer, layer_run_scores_fp8(run), line->values[OPT_SIGMA] != NULL ? 3 : 1.3, &bounds);
    struct replay_rows *file = must(calloc(1, sizeof *file));
    enum exit_code code = EXIT_WORK;
    if (!layer_judge(run, layer, &bounds, &judged)) {
        complain(line, "no memory for the reference");
    } else {
        file->count = replay_compare(run, layer, &bounds, file->rows);
        if (file->count < 0)
            complain(line, "no memory to compare with the file");
        else
            code = report(line, choice, info.kind, layer, &bounds, &judged, file) ? EXIT_DONE : EXIT_WORK;
    }
    if (line->values[OPT_OUT] != NULL && !replay_write(line->values[OPT_OUT], run, layer, why)) {
        complain(line, "--out %s: %s", line->values[OPT_OUT], why);
        code = EXIT_WORK;
    }
    free(file);
    return code;
}

static enum exit_code run_case(const struct command_line *line, dcpk_gen *gen, const struct layer_case *layer,
                               const struct device_choice *choice) {
    struct layer_run_options wanted;
    struct layer_run *run = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    layer_run_options_init(&wanted, gen);
    wanted.device = choice->device;
    wanted.cpu = &choice->cpu;
    wanted.form = LAYER_FUSED;
    dcpk_spec keys;
    dcpk_spec_init(&keys, "replay"); /* not of kernels.def: takes every key */
    if (line->values[OPT_ORDERED] != NULL && layer->dcp > 1) {
        keys.poll = 0;
        keys.split = 1;
    }
    if (line->values[OPT_SHARES] == NULL) keys.sms = device_choice_sms(choice);
    wanted.keys = &keys;
    wanted.phased = line->values[OPT_ORDERED] != NULL;
    wanted.shares = line->values[OPT_SHARES] != NULL;
    wanted.ask_environment = 1;
    enum exit_code code;
    if (layer_run_open(&wanted, layer, &run, &error) != DCPK_OK) {
        complain_error(&error);
        code = device_choice_exit(gen, choice, &error);
    } else if (layer_run_all(run, &error) != DCPK_OK) {
        complain_error(&error);
        code = EXIT_WORK;
    } else {
        code = compare(line, choice, run, layer);
    }
    layer_run_close(run);
    return code;
}

static enum exit_code run(const struct command_line *line) {
    char path[8192], why[SAFETENSORS_SENTENCE];
    uint64_t seed = 1;
    struct device_choice choice;
    struct layer_case *layer = NULL;
    dcpk_gen *gen = NULL;
    memset(&choice, 0, sizeof choice);
    if (line->word_count != 1) return usage_error(line, "one case file, please");
    if (line->values[OPT_SHARES] != NULL && line->values[OPT_ORDERED] != NULL)
        return usage_error(line, "--shares and --event-ordered are two ways to share a GPU: choose one");
    if (line->values[OPT_SEED] != NULL && !word_number(line->values[OPT_SEED], INT64_MAX, &seed))
        return usage_error(line, "--seed %s: a number from 0 to 2^63 - 1", line->values[OPT_SEED]);
    if (line->values[OPT_OUT] != NULL && strcmp(line->values[OPT_OUT], "-") == 0)
        return usage_error(line, "--out -: stdout has the report; results go to a file (./- is one of that name)");
    if (line->values[OPT_OUT] != NULL && output_is(line->values[OPT_OUT], line->words[0]))
        return usage_error(line, "--out %s is the case itself; results go to a file of their own",
                           line->values[OPT_OUT]);
    enum exit_code code = device_choice_read(line, line->values[OPT_DEVICE], line->values[OPT_SCHEDULE], "cpu",
                                             line->values[OPT_SEED] != NULL, seed, &choice);
    if (code != EXIT_DONE) return code;
    if (line->values[OPT_SEED] != NULL && choice.cpu.schedule != DCPKCPU_RANDOM)
        return usage_error(line, "--seed is of a random schedule: add --schedule random");
    if (!layer_case_read(line->words[0], &layer, warn, (void *)(uintptr_t)line, why)) {
        complain(line, "%s: %s", line->words[0], why);
        return EXIT_USAGE;
    }
    code = device_choice_shape(line, layer->dcp, NULL, &choice);
    device_choice_templates(path, sizeof path);
    if (code == EXIT_DONE) code = open_gen(path, &gen);
    if (code == EXIT_DONE) code = run_case(line, gen, layer, &choice);
    dcpk_gen_close(gen);
    layer_case_free(layer);
    return code;
}

const struct command command_replay = {
    .name = "replay",
    .operands = "CASE.safetensors",
    .summary = "run a dumped step of a layer on every rank and say where it differs",
    .help =
        "CASE is one decode step of one layer over D ranks (format dcpk-case-1; 'dcpk run --save' writes one). Every "
        "kernel is\n"
        "compared with the FP64 reference of what it was given, then the results that the file brings along (query, "
        "rows,\n"
        "rows_lse, output, kv_cache_after) with the device's. Ends with 1 when anything is out of bounds, and names "
        "the "
        "first\n"
        "tensor, rank, row and head; with 2 when the file is not a case.\n"
        "Bounds are those of spec decision 9; where a request has fewer than 64 tokens or rows times heads are fewer "
        "than "
        "64,\n"
        "the ideal form's are 2^-4 and 1 - cosine 2^-9, what one weight's rounding may come to. Where FP8 tensor cores "
        "make\n"
        "the scores (on hardware, and pv=fp8, the default of sm_90a), the rounded form's is 2e-2 below 512 keys of a "
        "request on\n"
        "a rank and 2^-4 below 32. Against the file, a single\n"
        "wrong value of output can hide within its head's 1/8.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
