/* cmd_run.c - dcpk run: decode steps of one layer over D ranks, compared with the FP64 reference.
 *
 * Reads options and words; layer_make.c makes the layer, layer_run.c runs it, layer_judge.c judges, run_report.c
 * prints. */
#include "case_file.h"
#include "command.h"
#include "device_choice.h"
#include "layer_expect.h"
#include "layer_judge.h"
#include "layer_make.h"
#include "layer_run.h"
#include "run_report.h"
#include "tool_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OPT_DEVICE,
    OPT_SEED,
    OPT_SCHEDULE,
    OPT_FORM,
    OPT_ORDERED,
    OPT_SHARES,
    OPT_CAPTURED,
    OPT_SAVE,
    OPT_INJECT,
    OPT_JSON,
    OPT_TEMPLATES
};
static const struct option_row options[] = {
    [OPT_DEVICE] = {"device", 'd', "cpu|cuda|auto", "where to run (default: $DCPK_DEVICE, else cpu)"},
    [OPT_SEED] = {"seed", 's', "N", "as seed=N: of the inputs and of a random schedule (schedule: $DCPK_CPU_SEED)"},
    [OPT_SCHEDULE] = {"schedule", 0, "fair|random", "CPU device: fair (default), or a seeded adversary"},
    [OPT_FORM] = {"form", 'f', "fused|wait|pushed|cycle", "how a step begins; cycle (default): the others in turn"},
    [OPT_ORDERED] = {"event-ordered", 'e', NULL,
                     "kernel by kernel over all ranks, poll=0 split=1: ranks may share a GPU"},
    [OPT_SHARES] = {"shares", 0, NULL,
                    "ranks beyond the GPUs take equal shares of the multiprocessors (green contexts)"},
    [OPT_CAPTURED] = {"captured", 0, NULL,
                      "all steps in one graph a rank (one in all: --event-ordered), launched twice"},
    [OPT_SAVE] = {"save", 0, "CASE", "write the last step as a case file, with the reference's results"},
    [OPT_INJECT] = {"inject", 0, "[=cache|qkv|gate|weight|table]", "flip one bit of an input on the device"},
    [OPT_JSON] = {"json", 0, NULL, "JSON instead of a table"},
    [OPT_TEMPLATES] = TEMPLATES_ROW,
};

enum { MAX_STEPS = 1024, MAX_CONTEXT = 1 << 20 };

struct run_plan {
    struct layer_make make;
    int32_t contexts[512];
    bool have_steps, have_seed;
    struct device_choice choice;
    enum layer_inject inject;
    enum layer_form form;
    dcpk_spec keys; /* as words said; kernel "run" */
};

/* The index of a word in a list of `count`; -1 when it is none. */
static int word_index(const char *word, const char *const *list, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(word, list[i]) == 0) return i;
    return -1;
}

static const char *const inputs[] = {"none", "cache", "qkv", "gate", "weight", "table"}; /* enum layer_inject */

static enum exit_code read_options(const struct command_line *line, struct run_plan *plan) {
    static const char *const forms[] = {"fused", "wait", "pushed", "cycle"}; /* enum layer_form */
    const char *const *values = line->values;
    if (values[OPT_SEED] != NULL && !word_number(values[OPT_SEED], INT64_MAX, &plan->make.seed))
        return usage_error(line, "--seed %s: a number from 0 to 2^63 - 1", values[OPT_SEED]);
    plan->have_seed = values[OPT_SEED] != NULL;
    if (values[OPT_SAVE] != NULL && strcmp(values[OPT_SAVE], "-") == 0)
        return usage_error(line, "--save -: stdout has the report; the case goes to a file (./- is one of that name)");
    if (values[OPT_SHARES] != NULL && values[OPT_ORDERED] != NULL)
        return usage_error(line, "--shares and --event-ordered are two ways to share a GPU: choose one");
    int form = values[OPT_FORM] == NULL ? LAYER_CYCLE : word_index(values[OPT_FORM], forms, 4);
    if (form < 0) return usage_error(line, "--form %s: fused, wait, pushed or cycle", values[OPT_FORM]);
    plan->form = (enum layer_form)form;
    if (values[OPT_INJECT] != NULL) {
        const char *input = values[OPT_INJECT][0] != '\0' ? values[OPT_INJECT] : "cache";
        int inject = word_index(input, inputs, 6);
        if (inject < 1) return usage_error(line, "--inject=%s: cache, qkv, gate, weight or table", input);
        plan->inject = (enum layer_inject)inject;
    }
    return EXIT_DONE;
}

/* "1,65,300": lengths at the first step, 0 for padding. */
static enum exit_code read_contexts(const struct command_line *line, const char *text, struct run_plan *plan) {
    if (plan->make.context_count > 0) return usage_error(line, "context is set twice; several are one list");
    for (const char *at = text;; at++) {
        char word[16] = "";
        size_t length = strcspn(at, ",");
        uint64_t context = 0;
        if (length < sizeof word) memcpy(word, at, length);
        if (!word_number(word, MAX_CONTEXT, &context) || plan->make.context_count == 512)
            return usage_error(line,
                               "context=%.80s: a length for all requests, or a list of up to 512 with one comma "
                               "between two: 0 (padding) to %d tokens at the first step, its own included",
                               text, MAX_CONTEXT);
        plan->contexts[plan->make.context_count++] = (int32_t)context;
        at += length;
        if (*at == '\0') return EXIT_DONE;
    }
}

static enum exit_code read_count(const struct command_line *line, const char *word, const char *name, uint64_t low,
                                 uint64_t most, uint64_t *value) {
    if (word_number(word, most, value) && *value >= low) return EXIT_DONE;
    return usage_error(line, "%s=%.80s: a number from %llu to %llu", name, word, (unsigned long long)low,
                       (unsigned long long)most);
}

static const char *const run_kernels[] = {"query_norm", "query_push", "query_wait",
                                          "mla_query",  "mla_decode", "dcp_value"};
enum { RUN_KERNELS = sizeof run_kernels / sizeof run_kernels[0] };

static bool key_taken(const char *key) {
    bool taken = strcmp(key, "arch") == 0 || strcmp(key, "model") == 0 || strcmp(key, "tp") == 0;
    for (size_t i = 0; i < RUN_KERNELS; i++)
        taken = taken || dcpk_spec_takes(run_kernels[i], key) != 0;
    return taken;
}

static enum exit_code check_key(const struct command_line *line, const char *word) {
    char key[64], list[512] = "";
    size_t length = strcspn(word, "="), used = 0;
    snprintf(key, sizeof key, "%.*s", (int)(length < sizeof key ? length : sizeof key - 1), word);
    if (word[length] == '\0') return usage_error(line, "'%.80s' is not of the form key=value", word);
    if (strcmp(key, "store_qc") == 0)
        return usage_error(line,
                           "store_qc is the form's: --form fused stores q_c, --form wait leaves it to query_norm");
    if (key_taken(key)) return EXIT_DONE;
    dcpk_key_info info = {.size = sizeof info};
    for (uint32_t i = 0; dcpk_key_at(i, &info); i++)
        if (used < sizeof list) used += (size_t)snprintf(list + used, sizeof list - used, " %s", info.name);
    return usage_error(line, "there is no key '%s'; keys: context steps seed model tp arch%s", key, list);
}

/* One word: of this command's own, or a key; keys go to list. */
static enum exit_code read_word(const struct command_line *line, char *word, struct run_plan *plan, char **keys,
                                int *count) {
    uint64_t value = 0;
    if (strncmp(word, "context=", 8) == 0) return read_contexts(line, word + 8, plan);
    if (strncmp(word, "steps=", 6) == 0) {
        if (plan->have_steps) return usage_error(line, "steps is set twice");
        plan->have_steps = true;
        enum exit_code code = read_count(line, word + 6, "steps", 1, MAX_STEPS, &value);
        plan->make.steps = (int32_t)value;
        return code;
    }
    if (strncmp(word, "seed=", 5) == 0) {
        if (plan->have_seed) return usage_error(line, "the seed is set twice");
        plan->have_seed = true;
        return read_count(line, word + 5, "seed", 0, INT64_MAX, &plan->make.seed);
    }
    keys[(*count)++] = word;
    return check_key(line, word);
}

/* What words leave open: the standard run where they name no model and no heads. */
static enum exit_code fill_keys(const struct command_line *line, dcpk_gen *gen, struct run_plan *plan,
                                struct preset *preset) {
    static const int32_t standard_contexts[] = {1, 65, 300};
    dcpk_spec *keys = &plan->keys;
    dcpk_error error;
    dcpk_error_init(&error);
    if (keys->dcp == DCPK_UNSET) keys->dcp = 2;
    if (line->values[OPT_ORDERED] != NULL && (keys->poll == 1 || keys->split == 0))
        return usage_error(line, "--event-ordered is poll=0 split=1; leave poll and split out");
    if (plan->form == LAYER_WAIT && keys->poll == 1)
        return usage_error(line, "--form wait is poll=0 with query_wait; poll=1 is --form fused");
    if (line->values[OPT_ORDERED] != NULL && keys->dcp > 1) {
        if (keys->poll == DCPK_UNSET) keys->poll = 0;
        if (keys->split == DCPK_UNSET) keys->split = 1;
    }
    if (line->values[OPT_CAPTURED] != NULL && keys->parity == DCPK_PARITY_ARG)
        return usage_error(line,
                           "--captured launches its graph twice, and with parity=arg a graph fits one parity: leave "
                           "parity out");
    bool standard = preset->model == NULL && keys->heads == DCPK_UNSET;
    if (standard) *preset = (struct preset){"kimi-k3", 8};
    if (standard && keys->splits == DCPK_UNSET) keys->splits = 2;
    if (!plan->have_steps) plan->make.steps = 3;
    enum exit_code code = words_preset(line, gen, preset, keys);
    if (code != EXIT_DONE && standard)
        complain(line, "model=kimi-k3 tp=8 is what neither heads= nor model= means; heads=N stands for any shape");
    if (code != EXIT_DONE) return code;
    if (plan->make.context_count == 0) {
        memcpy(plan->contexts, standard_contexts, sizeof standard_contexts);
        plan->make.context_count = keys->batch == DCPK_UNSET ? 3 : 1;
        if (plan->make.context_count == 1) plan->contexts[0] = 300;
    }
    dcpk_model_info info = {.size = sizeof info};
    if (preset->model != NULL && dcpk_gen_model_info(gen, preset->model, &info, &error) == DCPK_OK) {
        plan->make.eps = info.eps;
        plan->make.softmax_scale = info.softmax_scale;
        plan->make.rope_theta = info.rope_theta > 0 ? info.rope_theta : plan->make.rope_theta;
    }
    return EXIT_DONE;
}

static int32_t or_else(int32_t value, int32_t unset) {
    return value == DCPK_UNSET ? unset : value;
}

/* The layer's sizes from the keys; where a context for each request is listed, batch follows. */
static enum exit_code fill_make(const struct command_line *line, struct run_plan *plan) {
    const dcpk_spec *keys = &plan->keys;
    struct layer_make *make = &plan->make;
    static const enum reference_rope ropes[] = {
        [DCPK_ROPE_NONE] = ROPE_NONE, [DCPK_ROPE_INTERLEAVED] = ROPE_INTERLEAVED, [DCPK_ROPE_HALF] = ROPE_HALF};
    make->contexts = plan->contexts;
    make->heads = keys->heads;
    make->dcp = keys->dcp;
    make->q = or_else(keys->q, 1);
    int64_t listed = (int64_t)make->context_count * make->q;
    make->batch = keys->batch != DCPK_UNSET ? keys->batch : listed > 512 ? 512 : (int32_t)listed;
    make->page = or_else(keys->page, 64);
    make->interleave = or_else(keys->interleave, 1);
    make->q_lora = or_else(keys->q_lora, REF_Q_LORA);
    make->gate = or_else(keys->gate, 1);
    make->rope = ropes[or_else(keys->rope, DCPK_ROPE_NONE)];
    make->cap = or_else(keys->cap, 0);
    make->qh = or_else(keys->qh, 0);
    make->tiled_from = or_else(keys->tiled_from, 0);
    if (make->context_count > 1 && listed > make->batch)
        return usage_error(line, "%d contexts of q=%d are %lld rows, but batch=%d", make->context_count, make->q,
                           (long long)listed, make->batch);
    if (plan->inject == LAYER_INJECT_GATE && make->gate == 0)
        return usage_error(line, "--inject=gate: with gate=0 no gate is read, so nothing could fail; choose gate=1 or "
                                 "another input");
    return device_choice_shape(line, make->dcp, keys->arch, &plan->choice);
}

/* The rules of every spec that there will be, before anything is made. */
static enum exit_code check_specs(const struct run_plan *plan) {
    dcpk_spec base = plan->keys;
    dcpk_error error;
    dcpk_error_init(&error);
    base.batch = plan->make.batch;
    for (size_t i = 0; i < RUN_KERNELS; i++) {
        dcpk_spec spec;
        if (base.dcp == 1 && (strcmp(run_kernels[i], "query_push") == 0 || strcmp(run_kernels[i], "query_wait") == 0))
            continue;
        kernel_set_spec(&base, run_kernels[i], &spec);
        if (dcpk_spec_resolve(&spec, &error) != DCPK_OK) {
            complain_error(&error);
            return exit_of_error(NULL, &error);
        }
    }
    return EXIT_DONE;
}

static enum exit_code read_words(const struct command_line *line, dcpk_gen *gen, struct run_plan *plan) {
    char **keys = must(calloc((size_t)line->word_count + 1, sizeof *keys));
    int count = 0;
    struct preset preset = {NULL, 0};
    enum exit_code code = EXIT_DONE;
    for (int i = 0; i < line->word_count && code == EXIT_DONE; i++)
        code = read_word(line, line->words[i], plan, keys, &count);
    dcpk_spec_init(&plan->keys, "run"); /* not of kernels.def: takes every key */
    if (code == EXIT_DONE) code = words_keys(line, keys, count, &plan->keys, &preset);
    if (code == EXIT_DONE) code = fill_keys(line, gen, plan, &preset);
    if (code == EXIT_DONE) code = fill_make(line, plan);
    if (code == EXIT_DONE) code = check_specs(plan);
    free(keys);
    return code;
}

/* The last step as a case: its cache as it was before the step, its results as the reference has them. */
static enum exit_code save(const struct command_line *line, struct layer_case *layer, const struct layer_run *run) {
    struct layer_step *step = &layer->steps[layer->step_count - 1];
    struct layer_expected ideal;
    const uint8_t *after[LAYER_MAX_RANKS];
    char why[SAFETENSORS_SENTENCE];
    uint8_t *kv = must(malloc((size_t)layer->batch * LAYER_TOKEN));
    for (int32_t r = 0; r < layer->dcp; r++) {
        size_t bytes = (size_t)layer->rank[r].pages * (size_t)layer->page * LAYER_TOKEN;
        memcpy(layer->rank[r].cache, layer_run_cache(run, r), bytes);
        step->rank[r].cache_after = must(malloc(bytes));
        memcpy(step->rank[r].cache_after, layer->rank[r].cache, bytes);
        expect_query(layer, step, r, NULL, kv);
        expect_insert(layer, step, r, kv, step->rank[r].cache_after);
        memset(kv, 0x7F, (size_t)layer->batch * LAYER_TOKEN); /* before the step, its tokens are not there */
        expect_insert(layer, step, r, kv, layer->rank[r].cache);
        after[r] = step->rank[r].cache_after;
    }
    free(kv);
    if (!expect_step(layer, step, after, false, &ideal)) {
        complain(line, "out of memory");
        return EXIT_WORK;
    }
    step->query = ideal.query;
    for (int32_t r = 0; r < layer->dcp; r++) {
        step->rank[r].rows = ideal.rows[r];
        step->rank[r].rows_lse = ideal.rows_lse[r];
        step->rank[r].output = ideal.output[r];
    }
    if (layer_case_write(line->values[OPT_SAVE], layer, layer->step_count - 1, why)) return EXIT_DONE;
    complain(line, "--save %s: %s", line->values[OPT_SAVE], why);
    return EXIT_WORK;
}

static enum exit_code judge(const struct command_line *line, struct layer_run *run, struct layer_case *layer,
                            const struct run_plan *plan, double begin) {
    struct layer_bounds bounds;
    struct layer_judgement judged;
    dcpk_device_info info = {.size = sizeof info};
    dcpk_device_get_info(layer_run_group(run)->rank[0].device, &info, NULL);
    layer_bounds_of(layer, layer_run_scores_fp8(run), plan->make.sigma, &bounds);
    if (!layer_judge(run, layer, &bounds, &judged)) {
        complain(line, "no memory for the reference");
        return EXIT_WORK;
    }
    layer_judge_rows(run, &bounds, &judged);
    if (line->values[OPT_SAVE] != NULL) {
        enum exit_code code = save(line, layer, run);
        if (code != EXIT_DONE) return code;
    }
    struct run_facts facts = {.device = info.kind,
                              .schedule = device_choice_schedule(&plan->choice),
                              .seed = plan->make.seed,
                              .schedule_seed = plan->choice.cpu.seed,
                              .dcp = layer->dcp,
                              .steps = layer->step_count,
                              .seconds = tool_now() - begin,
                              .json = line->values[OPT_JSON] != NULL,
                              .bounds = &bounds,
                              .judged = &judged};
    return run_report(layer_run_kernels(run), &facts) ? EXIT_DONE : EXIT_WORK;
}

/* Bytes of weights and caches on the host, for people. */
static double layer_mib(const struct layer_make *make) {
    double tokens = 0, heads = (double)make->heads * make->dcp;
    for (int32_t i = 0; i < make->batch / make->q; i++)
        tokens += make->context_count == 1 ? make->contexts[0] : i < make->context_count ? make->contexts[i] : 0;
    double rows = (double)make->batch * make->steps * heads * (576 + 1024) * make->dcp;
    return (heads * 2 * (256.0 * 512 + 192.0 * make->q_lora) + 4 * tokens * 576 + 3 * rows) / (1 << 20);
}

static enum exit_code not_made(const struct command_line *line, const struct run_plan *plan, const char *why) {
    if (strcmp(why, "out of memory") != 0) return usage_error(line, "%s", why);
    complain(line,
             "out of memory: this layer takes about %.0f MiB on the host; choose fewer or shorter contexts, a smaller "
             "batch, fewer heads or steps",
             layer_mib(&plan->make));
    return EXIT_WORK;
}

/* Whether a kernel reads what would be damaged. */
static bool can_inject(const struct run_plan *plan, const struct layer_case *layer) {
    bool cached = plan->inject == LAYER_INJECT_CACHE || plan->inject == LAYER_INJECT_TABLE;
    if (plan->inject == LAYER_INJECT_NONE) return true;
    if (plan->inject == LAYER_INJECT_QKV && plan->form == LAYER_PUSHED) return false;
    return layer_first_request(layer, cached) >= 0;
}

/* On a terminal, what is being done: a large layer takes minutes. */
static void progress(const char *what, const struct run_plan *plan) {
    double mib = layer_mib(&plan->make);
    if (isatty(2))
        fprintf(stderr, "dcpk: run: %s (%d steps, %d rows, %d heads on %d ranks, about %.0f MiB)\n", what,
                plan->make.steps, plan->make.batch, plan->make.heads, plan->make.dcp, mib);
}

static dcpk_status run_steps(const struct command_line *line, struct layer_run *run, int32_t steps, dcpk_error *error) {
    enum { LAUNCHES = 2 };
    if (line->values[OPT_CAPTURED] == NULL) return layer_run_all(run, error);
    dcpk_status status = layer_run_graph(run, 0, steps, LAUNCHES, error);
    return status == DCPK_OK ? layer_run_read(run, error) : status;
}

static enum exit_code run_plan_on(const struct command_line *line, dcpk_gen *gen, struct run_plan *plan, double begin) {
    struct layer_run_options wanted;
    struct layer_run *run = NULL;
    char why[LAYER_SENTENCE];
    dcpk_error error;
    dcpk_error_init(&error);
    progress("making the layer", plan);
    struct layer_case *layer = layer_make(&plan->make, why);
    if (layer == NULL) return not_made(line, plan, why);
    if (!can_inject(plan, layer)) {
        layer_case_free(layer);
        return usage_error(line, "--inject=%s: nothing reads it here, so nothing could fail; it wants %s",
                           inputs[plan->inject],
                           plan->inject == LAYER_INJECT_QKV && plan->form == LAYER_PUSHED ? "another form than pushed"
                           : plan->inject == LAYER_INJECT_CACHE || plan->inject == LAYER_INJECT_TABLE
                               ? "a request with a context above q"
                               : "a request that is no padding");
    }
    layer_run_options_init(&wanted, gen);
    wanted.device = plan->choice.device;
    wanted.cpu = &plan->choice.cpu;
    wanted.keys = &plan->keys;
    wanted.form = (int32_t)plan->form;
    wanted.phased = line->values[OPT_ORDERED] != NULL;
    wanted.shares = line->values[OPT_SHARES] != NULL;
    wanted.ask_environment = 1;
    wanted.page_gap = 64;
    wanted.inject = (int32_t)plan->inject;
    enum exit_code code = EXIT_DONE;
    progress("building, then running", plan);
    if (layer_run_open(&wanted, layer, &run, &error) != DCPK_OK) {
        complain_error(&error);
        code = device_choice_exit(gen, &plan->choice, &error);
    } else if (run_steps(line, run, layer->step_count, &error) != DCPK_OK || layer_run_time(run, &error) != DCPK_OK) {
        complain_error(&error);
        code = EXIT_WORK;
    } else {
        progress("comparing with the reference", plan);
        code = judge(line, run, layer, plan, begin);
    }
    layer_run_close(run);
    layer_case_free(layer);
    return code;
}

static enum exit_code run(const struct command_line *line) {
    double begin = tool_now();
    char path[8192];
    struct run_plan *plan = must(calloc(1, sizeof *plan));
    dcpk_gen *gen = NULL;
    layer_make_init(&plan->make);
    enum exit_code code = read_options(line, plan);
    device_choice_templates(path, sizeof path);
    if (code == EXIT_DONE) code = open_gen_before(line, line->values[OPT_TEMPLATES], path, &gen);
    if (code == EXIT_DONE) code = read_words(line, gen, plan);
    if (code == EXIT_DONE)
        code = device_choice_read(line, line->values[OPT_DEVICE], line->values[OPT_SCHEDULE], "cpu", plan->have_seed,
                                  plan->make.seed, &plan->choice);
    if (code == EXIT_DONE) code = device_choice_shape(line, plan->make.dcp, plan->keys.arch, &plan->choice);
    if (code == EXIT_DONE && plan->keys.sms == DCPK_UNSET && line->values[OPT_SHARES] == NULL)
        plan->keys.sms = device_choice_sms(&plan->choice);
    if (code == EXIT_DONE) code = run_plan_on(line, gen, plan, begin);
    dcpk_gen_close(gen);
    free(plan);
    return code;
}

const struct command command_run = {
    .name = "run",
    .operands = "[key=value...]",
    .summary = "run decode steps of one layer on every rank and compare everything with the reference",
    .help =
        "Words: context=L or L1,L2,... (length of each request at the first step, its q new tokens included; 0 is "
        "padding),\n"
        "steps=N (each appends its tokens to the cache), seed=N, model=NAME tp=N, and the keys of 'dcpk ls keys'.\n"
        "Without words: kimi-k3 at tp 8 (12 heads a rank), dcp=2, context=1,65,300, splits=2, steps=3.\n"
        "A step is mla_query, mla_decode and dcp_value on every rank; --form says how it begins: fused (mla_query "
        "stores q_c\n"
        "and polls), wait (query_norm, mla_query, query_wait), pushed (query_push with rows made ready, query_wait).\n"
        "query_copy keeps what the decode found in the mailbox. run ms: wall time of a kernel's launches on all "
        "ranks.\n"
        "DCPK_CPU_SEED, DCPK_CPU_DEVICES and DCPK_CPU_SMS count where options and keys say nothing else.\n"
        "Bounds are those of spec decision 9, with what 'dcpk replay --help' says of small layers. Ends with 1 when "
        "anything "
        "is\n"
        "out of bounds.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
