/* cmd_run.c - dcpk run: builds, loads and launches a whole exchange and compares it with the FP64 reference.
 *
 * Reads options and words; scenario.c does the work, run_report.c prints it. */
#include "command.h"
#include "run_report.h"
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OPT_DEVICE, OPT_SEED, OPT_SCHEDULE, OPT_USES, OPT_INJECT, OPT_JSON };
static const struct option_row options[] = {
    [OPT_DEVICE] = {"device", 'd', "KIND", "cpu, cuda or auto (default: $DCPK_DEVICE, else cpu)"},
    [OPT_SEED] = {"seed", 's', "N", "of the inputs and of a random schedule (default 1; schedule: $DCPK_CPU_SEED)"},
    [OPT_SCHEDULE] = {"schedule", 0, "NAME", "CPU device: fair (default) or random, a seeded adversary"},
    [OPT_USES] = {"uses", 'n', "N", "uses of the box by each batch (default 3)"},
    [OPT_INJECT] = {"inject", 0, "[=INPUT]",
                    "flip one bit of an input on the device: rows, query, gate, weight or qkv"},
    [OPT_JSON] = {"json", 0, NULL, "JSON instead of a table"},
};

enum { MAX_BATCHES = 32, MAX_USES = 4096 };

struct run_plan {
    int32_t batches[MAX_BATCHES];
    int32_t batch_count, uses_each;
    uint64_t seed;
    bool for_cpu; /* the run may come to the CPU device: its variables count */
    struct cpu_variable variables[CPU_VARIABLES];
    const char *device;  /* as in dcpk_device_options.kind */
    dcpkcpu_options cpu; /* schedule and seed from read_options on */
    enum scenario_inject inject;
    dcpk_spec keys; /* as words said; kernel "run" */
    int32_t order[MAX_USES];
};

static enum exit_code read_options(const struct command_line *line, struct run_plan *plan) {
    static const char *const inputs[] = {"", "rows", "query", "gate", "weight", "qkv"}; /* by enum scenario_inject */
    const char *const *values = line->values;
    uint64_t uses = 3;
    plan->seed = 1;
    if (values[OPT_SEED] != NULL && !word_number(values[OPT_SEED], INT64_MAX, &plan->seed))
        return usage_error(line, "--seed %s: a number from 0 to 2^63 - 1", values[OPT_SEED]);
    if (values[OPT_USES] != NULL && (!word_number(values[OPT_USES], MAX_USES / MAX_BATCHES, &uses) || uses == 0))
        return usage_error(line, "--uses %s: a number from 1 to %d", values[OPT_USES], MAX_USES / MAX_BATCHES);
    plan->uses_each = (int32_t)uses;
    bool seeded = plan->variables[CPU_SEED].given; /* as in any program: asks for the adversary of that seed */
    const char *schedule = values[OPT_SCHEDULE] != NULL ? values[OPT_SCHEDULE] : seeded ? "random" : "fair";
    if (strcmp(schedule, "fair") != 0 && strcmp(schedule, "random") != 0)
        return usage_error(line, "--schedule %s: fair or random", schedule);
    plan->cpu.schedule = strcmp(schedule, "random") == 0 ? DCPKCPU_RANDOM : DCPKCPU_FAIR;
    plan->cpu.seed = seeded && values[OPT_SEED] == NULL ? plan->variables[CPU_SEED].value : plan->seed;
    plan->inject = INJECT_NONE;
    if (values[OPT_INJECT] != NULL) {
        const char *input = values[OPT_INJECT][0] != '\0' ? values[OPT_INJECT] : "rows";
        for (int i = INJECT_ROWS; i <= INJECT_QKV; i++)
            if (strcmp(input, inputs[i]) == 0) plan->inject = (enum scenario_inject)i;
        if (plan->inject == INJECT_NONE)
            return usage_error(line, "--inject=%s: rows, query, gate, weight or qkv", input);
    }
    return EXIT_DONE;
}

/* "1,5,17" */
static enum exit_code read_batches(const struct command_line *line, const char *text, struct run_plan *plan) {
    plan->batch_count = 0;
    for (const char *at = text;; at++) {
        char word[8] = "";
        size_t length = strcspn(at, ",");
        uint64_t batch = 0;
        if (length < sizeof word) memcpy(word, at, length);
        if (!word_number(word, 512, &batch) || batch == 0 || plan->batch_count == MAX_BATCHES)
            return usage_error(line, "batch=%.80s: up to %d numbers from 1 to 512, with one comma between two", text,
                               MAX_BATCHES);
        plan->batches[plan->batch_count++] = (int32_t)batch;
        at += length;
        if (*at == '\0') return EXIT_DONE;
    }
}

/* Whether one of the exchange's kernels takes the key. */
static bool key_taken(const char *key) {
    static const char *const kernels[] = {"query_norm", "query_push", "query_wait", "dcp_value"};
    bool taken = false;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        taken = taken || dcpk_spec_takes(kernels[i], key) != 0;
    return taken;
}

/* run's spec takes every key there is, so that presets fit it; of these, words may name those of its kernels. */
static enum exit_code check_key(const struct command_line *line, const char *word) {
    char key[64], list[512] = "";
    size_t length = strcspn(word, "="), used = 0;
    snprintf(key, sizeof key, "%.*s", (int)(length < sizeof key ? length : sizeof key - 1), word);
    if (word[length] == '\0') return usage_error(line, "'%.80s' is not of the form key=value", word);
    if (strcmp(key, "model") == 0 || strcmp(key, "tp") == 0 || key_taken(key)) return EXIT_DONE;
    dcpk_key_info info = {.size = sizeof info};
    bool known = false;
    for (uint32_t i = 0; dcpk_key_at(i, &info); i++) {
        known = known || strcmp(info.name, key) == 0;
        if (key_taken(info.name) && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, " %s", info.name);
    }
    if (known) return usage_error(line, "no kernel that run launches takes %s; keys: model tp arch%s", key, list);
    return usage_error(line, "there is no key '%s'; keys: model tp arch%s", key, list);
}

/* What is right by itself and cannot be together. */
static enum exit_code check_plan(const struct command_line *line, const struct run_plan *plan) {
    const struct cpu_variable *devices = &plan->variables[CPU_DEVICES];
    if (plan->inject == INJECT_QUERY && plan->keys.dcp == 1)
        return usage_error(line, "--inject=query: with dcp=1 no query rows are exchanged, so nothing could fail; "
                                 "choose dcp > 1 or another input");
    if (plan->inject == INJECT_GATE && plan->keys.gate == 0)
        return usage_error(line, "--inject=gate: with gate=0 no gate is read, so nothing could fail; choose gate=1 or "
                                 "another input");
    if (plan->for_cpu && devices->given && devices->value < (uint64_t)plan->keys.dcp)
        return usage_error(line, "DCPK_CPU_DEVICES=%d: dcp=%d is that many ranks with a device each; raise or unset it",
                           (int)devices->value, plan->keys.dcp);
    return EXIT_DONE;
}

/* All words: batch= is a list here, the rest are keys, with the default model where neither heads nor a model is given.
 */
static enum exit_code read_words(const struct command_line *line, dcpk_gen *gen, struct run_plan *plan) {
    char **keys = must(calloc((size_t)line->word_count + 1, sizeof *keys));
    int count = 0;
    struct preset preset = {NULL, 0};
    enum exit_code code = EXIT_DONE;
    for (int i = 0; i < line->word_count && code == EXIT_DONE; i++) {
        if (strncmp(line->words[i], "batch=", 6) != 0) {
            code = check_key(line, line->words[i]);
            keys[count++] = line->words[i];
        } else if (plan->batch_count > 0) {
            code = usage_error(line, "batch is set twice; several batches are one list (batch=1,5,17)");
        } else {
            code = read_batches(line, line->words[i] + 6, plan);
        }
    }
    if (code == EXIT_DONE && plan->batch_count == 0) code = read_batches(line, "1,5,17", plan);
    dcpk_spec_init(&plan->keys, "run"); /* not of kernels.def: takes every key */
    if (code == EXIT_DONE) code = words_keys(line, keys, count, &plan->keys, &preset);
    if (plan->keys.dcp == DCPK_UNSET) plan->keys.dcp = 2;
    bool standard = preset.model == NULL && plan->keys.heads == DCPK_UNSET;
    if (standard) preset = (struct preset){"kimi-k3", 8};
    if (code == EXIT_DONE) {
        code = words_preset(line, gen, &preset, &plan->keys);
        if (code != EXIT_DONE && standard)
            complain(line, "model=kimi-k3 tp=8 is what neither heads= nor model= means; heads=N stands for any shape");
    }
    if (code == EXIT_DONE) code = check_plan(line, plan);
    free(keys);
    return code;
}

static void fill_cpu(dcpkcpu_options *cpu, const struct run_plan *plan, const struct scenario_options *scenario) {
    dcpk_arch_info arch = {.size = sizeof arch};
    const struct cpu_variable *devices = &plan->variables[CPU_DEVICES], *sms = &plan->variables[CPU_SMS];
    *cpu = (dcpkcpu_options){.size = sizeof *cpu,
                             .devices = scenario->dcp > 8 ? scenario->dcp : 8,
                             .sms = 132,
                             .major = 9,
                             .multicast = 1,
                             .schedule = plan->cpu.schedule,
                             .seed = plan->cpu.seed,
                             .store_delay = 200,
                             .livelock_rounds = 200000};
    if (scenario->arch != NULL && dcpk_arch_find(scenario->arch, &arch)) {
        cpu->major = arch.major;
        cpu->minor = arch.minor;
        cpu->sms = arch.sms;
    }
    if (devices->given) cpu->devices = (int32_t)devices->value;
    if (sms->given) cpu->sms = (int32_t)sms->value;
}

/* Uses go round the batches, so that consecutive uses of the box differ in batch. */
static void fill_scenario(struct scenario_options *scenario, struct run_plan *plan, dcpk_gen *gen) {
    const dcpk_spec *keys = &plan->keys;
    scenario_options_init(scenario, gen, keys->heads, keys->dcp);
    const struct cpu_variable *sms = &plan->variables[CPU_SMS];
    scenario->device = plan->device;
    scenario->ask_environment = 1;
    scenario->arch = keys->arch[0] != '\0' ? keys->arch : NULL;
    scenario->uses = 0;
    for (int32_t u = 0; u < plan->uses_each; u++)
        for (int32_t b = 0; b < plan->batch_count; b++)
            plan->order[scenario->uses++] = plan->batches[b];
    scenario->batches = plan->order;
    scenario->q = keys->q;
    scenario->cap = keys->cap;
    scenario->qh = keys->qh;
    scenario->sms = keys->sms;
    if (plan->for_cpu && sms->given && keys->sms == DCPK_UNSET) scenario->sms = (int32_t)sms->value;
    scenario->reserve = keys->reserve;
    scenario->publish = keys->publish;
    scenario->split = keys->split;
    scenario->gate = keys->gate;
    scenario->tiled_from = keys->tiled_from;
    scenario->parity = keys->parity;
    scenario->checked = keys->checked;
    scenario->watchdog = keys->watchdog;
    scenario->lineinfo = keys->lineinfo;
    scenario->seed = plan->seed;
    scenario->inject = (int32_t)plan->inject;
    fill_cpu(&plan->cpu, plan, scenario);
    scenario->cpu = &plan->cpu;
}

/* Nothing to run on is another exit code than work that failed. */
static enum exit_code exit_of_run(dcpk_gen *gen, const char *device, const dcpk_error *error) {
    dcpk_device *probe = NULL;
    dcpk_device_options wanted = {.size = sizeof wanted, .kind = device, .pdl = -1, .multicast = -1};
    dcpk_status status = error->code == DCPK_E_TOOLCHAIN ? DCPK_OK : dcpk_device_open(&wanted, &probe, NULL);
    dcpk_device_close(probe);
    return status == DCPK_E_NOT_FOUND || status == DCPK_E_DRIVER ? EXIT_MISSING : exit_of_error(gen, error);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum exit_code run_plan_on(const struct command_line *line, dcpk_gen *gen, struct run_plan *plan, double begin) {
    struct scenario_options scenario_options;
    struct scenario *scenario = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    fill_scenario(&scenario_options, plan, gen);
    enum exit_code code = EXIT_DONE;
    if (scenario_open(&scenario_options, &scenario, &error) != DCPK_OK) {
        complain_error(&error);
        code = exit_of_run(gen, plan->device, &error);
    } else if (scenario_run(scenario, &error) != DCPK_OK || scenario_time(scenario, &error) != DCPK_OK) {
        complain_error(&error);
        code = EXIT_WORK;
    } else {
        dcpk_device_info info = {.size = sizeof info};
        dcpk_device_get_info(scenario_device(scenario, 0), &info, NULL);
        struct run_facts facts = {.device = info.kind,
                                  .schedule = plan->cpu.schedule == DCPKCPU_RANDOM ? "random" : "fair",
                                  .seed = plan->seed,
                                  .schedule_seed = plan->cpu.seed,
                                  .dcp = scenario_options.dcp,
                                  .uses = scenario_options.uses,
                                  .seconds = now() - begin,
                                  .json = line->values[OPT_JSON] != NULL};
        code = run_report(scenario, &facts) ? EXIT_DONE : EXIT_WORK;
    }
    scenario_close(scenario);
    return code;
}

/* The template folders of a run: the usual ones, then that of the kernel in the decode's place, which lies with the
 * tests (EXE/../tests/templates in the source tree). */
static void template_folders(char *path, size_t capacity) {
    char program[2048];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash != NULL) *slash = '\0';
    const char *given = getenv("DCPK_TEMPLATE_PATH");
    if (given != NULL && given[0] != '\0')
        snprintf(path, capacity, "%s:%s/../tests/templates", given, program);
    else
        snprintf(path, capacity, "%s/../templates:%s/../tests/templates", program, program);
}

/* The device that is asked for, and what the environment says of the CPU device where it may be the one. */
static enum exit_code read_device(const struct command_line *line, struct run_plan *plan) {
    const char *from_environment = getenv("DCPK_DEVICE");
    bool named = from_environment != NULL && from_environment[0] != '\0';
    const char *option = line->values[OPT_DEVICE], *kind = option != NULL ? option : named ? from_environment : "cpu";
    plan->device = option == NULL && named ? NULL : kind; /* NULL: the library reads and names the variable */
    plan->for_cpu = strncmp(kind, "cuda", 4) != 0;
    return plan->for_cpu ? environment_cpu(line, plan->variables) : EXIT_DONE;
}

static enum exit_code run(const struct command_line *line) {
    double begin = now();
    char path[8192];
    struct run_plan *plan = must(calloc(1, sizeof *plan));
    dcpk_gen *gen = NULL;
    enum exit_code code = read_device(line, plan);
    if (code == EXIT_DONE) code = read_options(line, plan);
    template_folders(path, sizeof path);
    if (code == EXIT_DONE) code = open_gen(path, &gen);
    if (code == EXIT_DONE) code = read_words(line, gen, plan);
    if (code == EXIT_DONE) code = run_plan_on(line, gen, plan, begin);
    dcpk_gen_close(gen);
    free(plan);
    return code;
}

const struct command command_run = {
    .name = "run",
    .operands = "[key=value...]",
    .summary = "build, load and launch a whole exchange on every rank and compare it with the reference",
    .help =
        "Without words: kimi-k3 at tp 8 (12 heads a rank), dcp=2, batch=1,5,17. Keys are those of 'dcpk ls keys' that "
        "the\n"
        "exchange's kernels take; batch takes a list. A use of the box is query_norm, query_push, query_wait, "
        "copy_rows (in\n"
        "the decode's place) and dcp_value on every rank. run ms: wall time of the kernel's launches on all ranks.\n"
        "DCPK_CPU_SEED, DCPK_CPU_DEVICES and DCPK_CPU_SMS count where options and keys say nothing else.\n"
        "Ends with 1 when anything is out of bounds.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
