/* cmd_sweep.c - dcpk sweep: layers over lists of shapes, each built, run, judged and timed, one line of JSON a point.
 *
 * Reads the command line and drives: points are run in children, rows go into a folder that a later run takes up. */
#include <tools/layer_run.h>
#include <tools/json_text.h>
#include <tools/sweep.h>
#include <tools/table.h>
#include <tools/tool_error.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OPT_MODEL, /* as enum sweep_list */
    OPT_TP,
    OPT_DCP,
    OPT_BATCH,
    OPT_Q,
    OPT_CONTEXT,
    OPT_OUTPUT,
    OPT_DEVICE,
    OPT_FORM,
    OPT_STEPS,
    OPT_SEED,
    OPT_ORDERED,
    OPT_SHARES,
    OPT_JOBS,
    OPT_TIMEOUT,
    OPT_LIMIT,
    OPT_EXTEND,
    OPT_TEMPLATES,
    OPT_JSON
};
static const struct option_row options[] = {
    [OPT_MODEL] = {"model", 'm', "MODEL,...",
                   "models ('dcpk ls models'); lists are a,b,c, numbers also ranges as in 1-8"},
    [OPT_TP] = {"tp", 't', "LIST", "tensor-parallel sizes: a rank has heads / tp (default 8)"},
    [OPT_DCP] = {"dcp", 0, "LIST", "ranks that share a KV cache (default 1)"},
    [OPT_BATCH] = {"batch", 'b', "LIST", "token rows of a launch (default 1)"},
    [OPT_Q] = {"q", 'q', "LIST", "query rows of a request (default 1)"},
    [OPT_CONTEXT] = {"context", 'c', "LIST", "tokens of every request; ragged, ragged:N: a seeded mix (default 1024)"},
    [OPT_OUTPUT] = {"output", 'o', "DIR", "folder of results; one that holds this sweep is taken up where it stands"},
    [OPT_DEVICE] = {"device", 'd', "cpu|cuda|auto", "where to run (default: $DCPK_DEVICE, else cpu)"},
    [OPT_FORM] = {"form", 'f', "fused|wait|pushed|cycle", "how a step begins; cycle (default): the others in turn"},
    [OPT_STEPS] = {"steps", 0, "N", "decode steps of a point, 1 to 64 (default 3)"},
    [OPT_SEED] = {"seed", 's', "N", "of the inputs (default 1)"},
    [OPT_ORDERED] = {"event-ordered", 'e', NULL,
                     "kernel by kernel over all ranks; on cuda the default where GPUs are few"},
    [OPT_SHARES] = {"shares", 0, NULL, "ranks beyond the GPUs take equal shares of the multiprocessors"},
    [OPT_JOBS] = {"jobs", 'j', "N", "points at a time, 1 to 16 (default 1; on cuda 1 alone)"},
    [OPT_TIMEOUT] = {"timeout", 0, "S", "seconds after which a point has failed (default 600)"},
    [OPT_LIMIT] = {"limit", 'n', "N", "run at most so many points this time"},
    [OPT_EXTEND] = {"extend", 0, NULL, "add these lists to the sweep that the folder holds"},
    [OPT_TEMPLATES] = TEMPLATES_ROW,
    [OPT_JSON] = {"json", 0, NULL, "JSON instead of a table at the end"},
};

static const char *const list_defaults[SWEEP_LISTS] = {NULL, "8", "1", "1", "1", "1024"};

struct plan {
    struct sweep_request request;
    json_t *lists; /* this run's */
    uint64_t jobs, timeout, limit;
    dcpk_gen *gen; /* for rules and presets */
    struct sweep_store store;
    struct sweep_points points;
};

static volatile sig_atomic_t interrupts;
static volatile int stop; /* of sweep_child_wait: changes with every interrupt */

static void interrupt(int signal_number) {
    (void)signal_number;
    interrupts = interrupts + 1;
    stop = (int)interrupts;
}

/* ---- the command line ---------------------------------------------------------------------------- */

static enum exit_code read_number(const struct command_line *line, int option, uint64_t low, uint64_t most,
                                  uint64_t fallback, uint64_t *value) {
    const char *text = line->values[option];
    *value = fallback;
    if (text == NULL || (word_number(text, most, value) && *value >= low)) return EXIT_DONE;
    return usage_error(line, "--%s %.80s: a number from %llu to %llu", options[option].name, text,
                       (unsigned long long)low, (unsigned long long)most);
}

static enum exit_code read_numbers(const struct command_line *line, struct plan *plan) {
    uint64_t steps = 0;
    enum exit_code code = read_number(line, OPT_STEPS, 1, 64, 3, &steps);
    if (code == EXIT_DONE) code = read_number(line, OPT_SEED, 0, INT64_MAX, 1, &plan->request.seed);
    if (code == EXIT_DONE) code = read_number(line, OPT_JOBS, 1, 16, 1, &plan->jobs);
    if (code == EXIT_DONE) code = read_number(line, OPT_TIMEOUT, 1, 86400, 600, &plan->timeout);
    if (code == EXIT_DONE) code = read_number(line, OPT_LIMIT, 1, SWEEP_MAX_POINTS, SWEEP_MAX_POINTS, &plan->limit);
    plan->request.steps = (int32_t)steps;
    return code;
}

static enum exit_code read_form(const struct command_line *line, struct plan *plan) {
    const char *text = line->values[OPT_FORM];
    plan->request.form = LAYER_CYCLE;
    for (int32_t form = 0; text != NULL && form <= LAYER_CYCLE; form++) {
        if (strcmp(text, sweep_form_names[form]) == 0) {
            plan->request.form = form;
            return EXIT_DONE;
        }
    }
    return text == NULL ? EXIT_DONE : usage_error(line, "--form %s: fused, wait, pushed or cycle", text);
}

static enum exit_code read_lists(const struct command_line *line, struct plan *plan) {
    plan->lists = must(json_object());
    for (int list = 0; list < SWEEP_LISTS; list++) {
        const char *text = line->values[list] != NULL ? line->values[list] : list_defaults[list];
        if (text == NULL) return usage_error(line, "which models? --model LIST ('dcpk ls models' names them)");
        json_t *read = sweep_list_read(line, (enum sweep_list)list, text);
        if (read == NULL) return EXIT_USAGE;
        json_object_set_new(plan->lists, sweep_list_names[list], read);
    }
    return EXIT_DONE;
}

/* Keys that hold for every point. */
static enum exit_code read_words(const struct command_line *line, struct plan *plan) {
    static const char *const swept[] = {"model", "tp", "dcp", "batch", "q", "heads", "store_qc", "context"};
    struct sweep_request *request = &plan->request;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_spec_init(&request->keys, "sweep"); /* not of kernels.def: takes every key */
    for (int i = 0; i < line->word_count; i++) {
        size_t length = strcspn(line->words[i], "=");
        for (size_t s = 0; s < sizeof swept / sizeof *swept; s++)
            if (strlen(swept[s]) == length && strncmp(line->words[i], swept[s], length) == 0)
                return usage_error(line, "%.80s: %s", line->words[i],
                                   s == 5   ? "heads are the model's over tp"
                                   : s == 6 ? "store_qc is the form's"
                                            : "this is a list: as an option with two dashes");
        if (dcpk_spec_set(&request->keys, line->words[i], &error) != DCPK_OK) {
            complain_error(&error);
            return EXIT_USAGE;
        }
    }
    char text[512];
    dcpk_spec_format(&request->keys, text, sizeof text);
    const char *blank = strchr(text, ' ');
    snprintf(request->key_text, sizeof request->key_text, "%s", blank != NULL ? blank + 1 : "");
    return EXIT_DONE;
}

static enum exit_code read_device(const struct command_line *line, struct plan *plan) {
    struct sweep_request *request = &plan->request;
    const char *const *values = line->values;
    if (values[OPT_SHARES] != NULL && values[OPT_ORDERED] != NULL)
        return usage_error(line, "--shares and --event-ordered are two ways to share a GPU: choose one");
    request->ranks = values[OPT_SHARES] != NULL    ? RANKS_SHARES
                     : values[OPT_ORDERED] != NULL ? RANKS_ORDERED
                                                   : RANKS_AUTO;
    if (request->ranks == RANKS_ORDERED && (request->keys.poll == 1 || request->keys.split == 0))
        return usage_error(line, "--event-ordered is poll=0 split=1; leave poll and split out");
    if (request->form == LAYER_WAIT && request->keys.poll == 1)
        return usage_error(line, "--form wait is poll=0 with query_wait; poll=1 is --form fused");
    return device_choice_read(line, values[OPT_DEVICE], NULL, "cpu", values[OPT_SEED] != NULL, request->seed,
                              &request->choice);
}

/* A name that is none would be refused point by point. */
static enum exit_code check_models(const struct plan *plan) {
    dcpk_error error;
    dcpk_error_init(&error);
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(plan->lists, sweep_list_names[LIST_MODEL]), i, name) {
        dcpk_model_info info = {.size = sizeof info};
        if (dcpk_gen_model_info(plan->gen, json_string_value(name), &info, &error) == DCPK_OK) continue;
        complain_error(&error);
        return error.code == DCPK_E_NOT_FOUND ? EXIT_USAGE : exit_of_error(plan->gen, &error);
    }
    return EXIT_DONE;
}

static enum exit_code read_all(const struct command_line *line, struct plan *plan) {
    if (line->values[OPT_OUTPUT] == NULL) return usage_error(line, "where to? -o DIR, the folder of results");
    enum exit_code code = read_numbers(line, plan);
    if (code == EXIT_DONE) code = read_form(line, plan);
    if (code == EXIT_DONE) code = read_lists(line, plan);
    if (code == EXIT_DONE) code = read_words(line, plan);
    if (code == EXIT_DONE) code = read_device(line, plan);
    if (code != EXIT_DONE) return code;
    char usual[sizeof plan->request.templates / 2];
    const char *own = line->values[OPT_TEMPLATES];
    device_choice_templates(usual, sizeof usual);
    snprintf(plan->request.templates, sizeof plan->request.templates, "%s%s%s", own != NULL ? own : "",
             own != NULL ? ":" : "", usual);
    code = open_gen_before(line, own, usual, &plan->gen);
    return code == EXIT_DONE ? check_models(plan) : code;
}

/* ---- points -------------------------------------------------------------------------------------- */

/* What must be the same in every run into a folder. */
static json_t *identity(const struct plan *plan, json_t *probe) {
    static const char *const ranks[] = {"auto", "event-ordered", "shares"};
    const struct sweep_request *r = &plan->request;
    json_object_set_new(probe, "form", json_string(sweep_form_names[r->form]));
    json_object_set_new(probe, "steps", json_integer(r->steps));
    json_object_set_new(probe, "seed", json_integer((json_int_t)r->seed));
    json_object_set_new(probe, "ranks", json_string(ranks[r->ranks]));
    json_object_set_new(probe, "keys", json_text(r->key_text));
    json_object_set_new(probe, "schedule", json_string(r->cuda ? "hardware" : device_choice_schedule(&r->choice)));
    return probe;
}

static enum exit_code open_store(const struct command_line *line, struct plan *plan) {
    enum exit_code code;
    json_t *probe = sweep_probe(line, &plan->request, &code), *lists;
    size_t i;
    if (code == EXIT_DONE && plan->request.cuda && plan->jobs > 1)
        code = usage_error(line, "--jobs %d: points would disturb each other's times on a GPU", (int)plan->jobs);
    if (code == EXIT_DONE && !sweep_points_fit(line, 0, plan->lists)) code = EXIT_USAGE; /* before there is a folder */
    if (code == EXIT_DONE)
        code = sweep_store_open(line, line->values[OPT_OUTPUT], identity(plan, probe), plan->lists,
                                line->values[OPT_EXTEND] != NULL, &plan->store);
    json_decref(probe);
    json_array_foreach(json_object_get(plan->store.sweep, "requests"), i, lists) {
        if (code == EXIT_DONE && !sweep_points_add(line, &plan->points, lists)) code = EXIT_USAGE;
    }
    return code == EXIT_DONE ? sweep_store_begin(line, &plan->store) : code;
}

/* One point in a child. */
struct task {
    const struct plan *plan;
    size_t point;
};

static int run_point(void *self, FILE *out) {
    const struct task *task = self;
    sweep_point_run(&task->plan->request, &task->plan->points.at[task->point], out);
    return EXIT_DONE;
}

/* What became of a child, as a row. */
static json_t *row_of(const struct plan *plan, const struct sweep_child *child, size_t point) {
    char how[160];
    json_t *row = sweep_child_last(child);
    if (row == NULL) row = sweep_point_row(&plan->request, &plan->points.at[point]);
    if (json_object_get(row, "state") == NULL) {
        sweep_child_end(child, how, sizeof how);
        json_object_set_new(row, "state", json_string("failed"));
        json_object_set_new(row, "message", json_text(how));
    }
    return row;
}

static void progress(const struct plan *plan, const json_t *row) {
    if (!isatty(2)) return;
    struct sweep_totals t = sweep_count(&plan->store, &plan->points);
    fprintf(stderr, "dcpk: sweep: %zu of %zu: %s: %s\n", plan->points.count - t.left, plan->points.count,
            json_string_value(json_object_get(row, "point")), json_string_value(json_object_get(row, "state")));
}

static bool keep(const struct command_line *line, struct plan *plan, json_t *row) {
    json_incref(row);
    bool good = sweep_store_add(line, &plan->store, row);
    if (good) progress(plan, row);
    json_decref(row);
    return good;
}

/* The next point that has no row and must run; those that a rule refuses get theirs on the way. */
static bool next_point(const struct command_line *line, struct plan *plan, size_t *at, bool *good) {
    for (; *at < plan->points.count && *good; ++*at) {
        char text[POINT_TEXT], why[sizeof((dcpk_error *)NULL)->text];
        const struct sweep_point *point = &plan->points.at[*at];
        dcpk_spec keys;
        sweep_point_text(point, text);
        if (sweep_store_has(&plan->store, text)) continue;
        if (sweep_point_keys(plan->gen, &plan->request, point, &keys, why, sizeof why)) return true;
        json_t *row = sweep_point_row(&plan->request, point);
        json_object_set_new(row, "state", json_string("refused"));
        json_object_set_new(row, "message", json_text(why));
        *good = keep(line, plan, row);
    }
    return false;
}

/* All points without a row, up to `jobs` at a time. False after a message. */
static bool run_points(const struct command_line *line, struct plan *plan) {
    struct sweep_child children[16] = {{0}};
    struct task tasks[16];
    size_t at = 0, running = 0, begun = 0;
    bool good = true;
    for (;;) {
        int seen = (int)interrupts;
        for (size_t j = 0; j < plan->jobs && good && seen == 0; j++) {
            if (children[j].pid != 0 || begun == plan->limit || !next_point(line, plan, &at, &good)) continue;
            tasks[j] = (struct task){plan, at++};
            good = sweep_child_start(line, &children[j], run_point, &tasks[j], plan->store.fd, (double)plan->timeout);
            if (!good) children[j].pid = 0;
            running += good;
            begun++;
        }
        if (running == 0) return good;
        for (size_t j = 0; j < plan->jobs && seen > 1; j++) /* once more: now */
            sweep_child_kill(&children[j]);
        struct sweep_child *ended = sweep_child_wait(children, plan->jobs, &stop, seen);
        if (ended == NULL) continue;
        if (seen < 2) good = keep(line, plan, row_of(plan, ended, tasks[ended - children].point)) && good;
        sweep_child_free(ended);
        running--;
    }
}

/* ---- the end ------------------------------------------------------------------------------------- */

/* NULL: nothing to write. */
static bool write_text(const struct command_line *line, const struct plan *plan, const char *name, const char *text) {
    size_t room = strlen(plan->store.folder) + strlen(name) + 2;
    char *path = must(malloc(room));
    snprintf(path, room, "%s/%s", plan->store.folder, name);
    bool good = text == NULL || output_write(line, path, text, strlen(text));
    free(path);
    return good;
}

static enum exit_code report(const struct command_line *line, const struct plan *plan) {
    char *text = sweep_report_text(&plan->store, &plan->points, plan->request.cuda);
    char *plot = sweep_plot(&plan->store, &plan->points);
    bool good = write_text(line, plan, "report.txt", text) && write_text(line, plan, "ratio.svg", plot);
    if (line->values[OPT_JSON] != NULL)
        json_print(sweep_report_json(&plan->store, &plan->points, plan->request.cuda), stdout);
    else
        fputs(text, stdout);
    free(plot);
    free(text);
    struct sweep_totals t = sweep_count(&plan->store, &plan->points);
    if (t.left > 0) complain(line, "%zu points are left: the same command goes on with them", t.left);
    if (!good) return EXIT_WORK;
    if (t.left > 0) return EXIT_PARTIAL;
    if (t.wrong + t.failed > 0) return EXIT_WORK;
    if (t.right == 0) complain(line, "every point is refused by a rule");
    return t.right == 0 ? EXIT_USAGE : EXIT_DONE;
}

static enum exit_code run(const struct command_line *line) {
    struct plan *plan = must(calloc(1, sizeof *plan));
    struct sigaction act = {.sa_handler = interrupt};
    plan->store.fd = -1;
    enum exit_code code = read_all(line, plan);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    if (code == EXIT_DONE) code = open_store(line, plan);
    if (code == EXIT_DONE && !run_points(line, plan)) code = EXIT_WORK;
    if (code == EXIT_DONE) code = report(line, plan);
    sweep_points_free(&plan->points);
    sweep_store_close(&plan->store);
    json_decref(plan->lists);
    dcpk_gen_close(plan->gen);
    free(plan);
    return code;
}

const struct command command_sweep = {
    .name = "sweep",
    .operands = "--model LIST -o DIR [key=value...]",
    .summary = "run layers over lists of shapes, compare and time each, keep every result",
    .help =
        "A point is one element of each list. Each is a layer that is made, built, run on every rank and compared with "
        "the FP64\n"
        "reference, in a process of its own: what crashes or hangs is a result, too. Points that a rule refuses are "
        "results with\n"
        "the rule. DIR/results.jsonl has one line a point, DIR/sweep.json what was asked for, DIR/report.txt the "
        "table.\n"
        "The same command again does what is missing; a line taken out of results.jsonl is done again.\n"
        "On cuda: times by graph replay, beside their floors, and DIR/ratio.svg. The CPU device has no times: "
        "correctness and\n"
        "instruction counts. The reference takes its time: about 10 us a step for each head of the group and cached "
        "token.\n"
        "An interrupt ends the sweep after the points that run, a second one at once. Ends with 1 when a point was "
        "wrong or\n"
        "failed, with 4 when points are left, with 2 when every point is refused.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
