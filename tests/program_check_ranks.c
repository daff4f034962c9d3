/* program_check_ranks.c - `make check-gpu GPUS=N`: the whole layer of two models on N ranks with a device each, one
 * process driving all of them, publish=peer: eager, captured, and with a rank that never launches. tests/real_ranks.h
 * says what is looked at. Run at the root of the tree.
 *
 * check_ranks [--ranks N] [--device cuda|cpu] [--uses N] [--steps N] [--delay US] [--model NAME] [--mode NAME]
 *             [--seed N] [--inject[=later]] [--shares] [--build] [context=L1,L2,...] [key=value...]
 * --shares: ranks beyond the GPUs take equal shares of their multiprocessors (green contexts): no stand-in for GPUs.
 * --build: only builds every kernel into the cache, on the CPU device. Exit: 0 all right; 1 something is not; 2 wrong
 * words, or multicast is not switched off; 3 too few GPUs, or none. */
#include <tests/no_multicast.h>
#include <tests/real_ranks.h>

#include <tools/numbers.h>
#include <tools/tool_error.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CONTEXTS = 64 };
static const char usage[] =
    "usage: check_ranks [--ranks N] [--device cuda|cpu] [--uses N] [--steps N] [--delay US] [--model NAME]\n"
    "                   [--mode eager|captured|dead] [--seed N] [--inject[=later]] [--shares] [--build] "
    "[context=L1,L2,...] "
    "[key=value...]\n";
static const char *const models[] = {"kimi-k3", "deepseek-v3"};
enum { MODELS = sizeof models / sizeof *models, MODE_EAGER = 0, MODE_CAPTURED, MODE_DEAD, MODES };
static const char *const mode_names[MODES] = {"eager", "captured", "dead rank"};

struct plan {
    struct ranks_wish wish;
    const char *model; /* NULL: all */
    int mode;          /* -1: all */
    bool build;
    long ranks, uses, steps, delay, seed; /* -1: not said */
    int32_t contexts[MOST_CONTEXTS];
    char keys[512];
    dcpk_spec spec;
    dcpkcpu_options cpu;
};

static _Noreturn void fail_words(const char *what, const char *why) {
    fprintf(stderr, "check_ranks: %s: %s\n%s", what, why, usage);
    exit(2);
}

static long number(const char *name, const char *text, long low, long high) {
    char *end, why[96];
    long value = strtol(text, &end, 10);
    snprintf(why, sizeof why, "a number from %ld to %ld", low, high);
    if (end == text || *end != '\0' || value < low || value > high) fail_words(name, why);
    return value;
}

/* ---- words --------------------------------------------------------------------------------------- */

static void read_contexts(struct plan *plan, const char *text) {
    long most = 0;
    plan->wish.context_count = 0;
    for (const char *at = text;; at++) {
        char *end;
        long length = strtol(at, &end, 10);
        if (end == at || (*end != ',' && *end != '\0') || length < 0 || length > 1 << 20 ||
            plan->wish.context_count == MOST_CONTEXTS)
            fail_words(text, "context=L1,L2,...: up to 64 lengths, 0 for padding");
        plan->contexts[plan->wish.context_count++] = (int32_t)length;
        most = length > most ? length : most;
        at = end;
        if (*at == '\0') break;
    }
    if (most == 0) fail_words(text, "context=L1,L2,...: padding alone, there would be nothing to check");
}

static void read_words(struct plan *plan, char **words) {
    static const char *const own[] = {
        "heads=", "dcp=", "batch=", "gate=", "rope=", "q_lora=", "cap=", "qh=", "publish="};
    dcpk_error error;
    dcpk_error_init(&error);
    snprintf(plan->keys, sizeof plan->keys, "layer");
    for (; *words; words++) {
        if (strncmp(*words, "context=", 8) == 0) {
            read_contexts(plan, *words + 8);
            continue;
        }
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            if (strncmp(*words, own[i], strlen(own[i])) == 0)
                fail_words(*words, "the models, --ranks, contexts and publish=peer say this key");
        size_t used = strlen(plan->keys);
        if (snprintf(plan->keys + used, sizeof plan->keys - used, " %s", *words) >= (int)(sizeof plan->keys - used))
            fail_words(*words, "too many words");
    }
    if (dcpk_spec_parse(&plan->spec, plan->keys, &error) != DCPK_OK) fail_words(plan->keys + 6, error.text);
    if (plan->spec.watchdog == 0 && (plan->mode < 0 || plan->mode == MODE_DEAD))
        fail_words("watchdog=0", "nobody would notice a dead rank: with --mode eager or captured alone");
}

static void read_options(struct plan *plan, int argc, char **argv) {
    static const struct option longs[] = {
        {"ranks", required_argument, NULL, 'n'},  {"device", required_argument, NULL, 'd'},
        {"uses", required_argument, NULL, 'u'},   {"steps", required_argument, NULL, 's'},
        {"delay", required_argument, NULL, 'w'},  {"model", required_argument, NULL, 'm'},
        {"mode", required_argument, NULL, 'o'},   {"seed", required_argument, NULL, 'e'},
        {"inject", optional_argument, NULL, 'i'}, {"shares", no_argument, NULL, 'h'},
        {"build", no_argument, NULL, 'b'},        {NULL, 0, NULL, 0}};
    struct ranks_wish *w = &plan->wish;
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        const char *word = optarg ? optarg : "";
        switch (c) {
        case 'n':
            plan->ranks = number("--ranks", word, 1, LAYER_MAX_RANKS);
            break;
        case 'd':
            w->device = word;
            break;
        case 'u':
            plan->uses = number("--uses", word, 1, 100000000);
            break;
        case 's':
            plan->steps = number("--steps", word, 3, 120);
            break;
        case 'w':
            plan->delay = number("--delay", word, 0, 1000000);
            break;
        case 'e':
            plan->seed = number("--seed", word, 0, INT32_MAX);
            break;
        case 'h':
            w->shares = 1;
            break;
        case 'b':
            plan->build = true;
            break;
        case 'm':
            for (int m = 0; m < MODELS; m++)
                if (strcmp(word, models[m]) == 0) plan->model = models[m];
            if (!plan->model) fail_words(word, "--model is kimi-k3 or deepseek-v3");
            break;
        case 'o':
            for (int m = 0; m < MODES; m++)
                if (strlen(word) == strcspn(mode_names[m], " ") && strncmp(word, mode_names[m], strlen(word)) == 0)
                    plan->mode = m;
            if (plan->mode < 0) fail_words(word, "--mode is eager, captured or dead");
            break;
        case 'i':
            if (word[0] != '\0' && strcmp(word, "later") != 0) fail_words(word, "--inject alone, or --inject=later");
            w->inject = word[0] != '\0' ? RANKS_INJECT_LATER : RANKS_INJECT_FIRST;
            break;
        default:
            exit(2);
        }
    }
    read_words(plan, argv + optind);
    if (plan->steps > 0 && plan->steps % 3 != 0) fail_words("--steps", "a multiple of 3, the forms of a step");
}

/* ---- the plan ------------------------------------------------------------------------------------ */

static bool on_cpu(const struct plan *plan) {
    return strncmp(plan->wish.device, "cpu", 3) == 0;
}

/* What the words leave open: a GPU does 10^4 uses in seconds, the CPU device six in as many. */
static void complete(struct plan *plan) {
    static const int32_t on_gpus[] = {1, 65, 300, 0}, on_the_cpu[] = {9, 70};
    struct ranks_wish *w = &plan->wish;
    bool cpu = on_cpu(plan) && !plan->build; /* what is built ahead is for GPUs */
    if (w->context_count == 0) {
        w->context_count = cpu ? 2 : 4;
        memcpy(plan->contexts, cpu ? on_the_cpu : on_gpus, (size_t)w->context_count * sizeof(int32_t));
    }
    w->contexts = plan->contexts;
    w->ranks = (int32_t)(plan->ranks < 0 ? 2 : plan->ranks);
    w->steps = (int32_t)(plan->steps < 0 ? (cpu ? 3 : 27) : plan->steps);
    w->inputs = 3;
    w->uses = (int32_t)(plan->uses < 0 ? (cpu ? 6 : 10000) : plan->uses);
    w->delay_ns = (uint32_t)(plan->delay < 0 ? 20 : plan->delay) * 1000;
    w->seed = (uint64_t)(plan->seed < 0 ? 1 : plan->seed);
    w->bound_ns = cpu ? 100000000 : 2000000000;
    w->dead_bound_ns = cpu ? 5000000 : 250000000;
    w->deaths = cpu ? 1 : w->ranks;
    w->keys = &plan->spec;
    plan->cpu = (dcpkcpu_options){.size = sizeof plan->cpu,
                                  .devices = w->ranks,
                                  .sms = 132,
                                  .major = 9,
                                  .schedule = DCPKCPU_FAIR,
                                  .store_delay = 200,
                                  .livelock_rounds = 200000};
    w->cpu = &plan->cpu;
    if (w->inject == RANKS_INJECT_LATER && (w->uses <= w->steps || plan->mode == MODE_DEAD))
        fail_words("--inject=later",
                   "the bit flips after the first round: there is no second one (--uses more than --steps, "
                   "--mode eager or captured)");
}

/* Ends the program where there are fewer GPUs than ranks. */
static void count_devices(const struct plan *plan) {
    dcpk_device *device = NULL;
    dcpk_error error;
    dcpk_device_info info = {.size = sizeof info};
    dcpk_device_options options = {.size = sizeof options, .kind = plan->wish.device, .pdl = -1};
    dcpk_error_init(&error);
    if (on_cpu(plan)) return;
    if (dcpk_device_open(&options, &device, &error) != DCPK_OK ||
        dcpk_device_get_info(device, &info, &error) != DCPK_OK) {
        fprintf(stderr, "check_ranks: %s\n", error.text);
        exit(3);
    }
    dcpk_device_close(device);
    if (info.count >= plan->wish.ranks || plan->wish.shares) return;
    fprintf(
        stderr,
        "check_ranks: %d ranks with a GPU each, and there are %d here: --ranks %d (make check-gpu GPUS=%d) at most; "
        "GPUS=1 also checks ranks that share one GPU, event-ordered and on shares of its multiprocessors (--shares); "
        "--device cpu (DEVICE=cpu) has a device for each of up to 32 ranks\n",
        plan->wish.ranks, info.count, info.count, info.count);
    exit(3);
}

/* ---- the table ----------------------------------------------------------------------------------- */

static void print_head(const struct plan *plan) {
    const struct ranks_wish *w = &plan->wish;
    printf("check_ranks: %d rank%s on %s%s, publish=peer%s; rounds of %d uses (%d inputs), contexts", w->ranks,
           w->ranks == 1 ? "" : "s", w->device, w->shares ? ", on shares" : "", plan->keys + 5, w->steps, w->inputs);
    for (int32_t i = 0; i < w->context_count; i++)
        printf("%c%d", i ? ',' : ' ', w->contexts[i]);
    printf("\n  delays: 0 to %u us of a kernel before a rank's launches (seed %llu): before each step, in every other "
           "round "
           "before each kernel\n  output, rows: the largest error against the reference, beside its bound\n",
           w->delay_ns / 1000, (unsigned long long)w->seed);
    printf("%-12s %5s %5s  %-9s %6s  %7s  %9s %9s  %9s %9s  %8s %7s  %s\n", "model", "heads", "ranks", "mode", "uses",
           "delays", "output", "bound", "rows", "bound", "ms a use", "s", "verdict");
}

static void print_row(const struct plan *plan, const char *model, int32_t heads, int mode, const struct ranks_row *row,
                      const char *verdict, double seconds) {
    char delays[16], errors[48];
    snprintf(delays, sizeof delays, "0-%u us", plan->wish.delay_ns / 1000);
    if (row->output_bound > 0)
        snprintf(errors, sizeof errors, "%9.3g %9.3g  %9.3g %9.3g", row->output, row->output_bound, row->rows,
                 row->rows_bound);
    else
        snprintf(errors, sizeof errors, "%9s %9s  %9s %9s", "-", "-", "-", "-");
    printf("%-12s %5d %5d  %-9s %6lld  %7s  %s  ", model, heads, plan->wish.ranks, mode_names[mode],
           (long long)row->uses, delays, errors);
    if (row->uses > 0 && mode != MODE_DEAD)
        printf("%8.3f", 1e3 * row->seconds / (double)row->uses);
    else
        printf("%8s", "-");
    printf(" %7.1f  %s\n", seconds, verdict);
    fflush(stdout);
}

/* ---- running ------------------------------------------------------------------------------------- */

static void died(const struct plan *plan, double slowest, char *verdict, size_t size) {
    const struct ranks_wish *w = &plan->wish;
    char who[32] = "each rank in turn";
    if (w->deaths < w->ranks) snprintf(who, sizeof who, "rank %d", w->dead);
    snprintf(verdict, size, "right: %s never launched, named by %s%d other%s within %.3f s", who,
             w->ranks > 2 ? "all " : "the ", w->ranks - 1, w->ranks > 2 ? "s" : "", slowest);
}

/* False: not right. */
static bool check_mode(struct plan *plan, struct real_ranks *ranks, int mode) {
    static dcpk_status (*const run[MODES])(struct real_ranks *, struct ranks_row *,
                                           dcpk_error *) = {real_ranks_eager, real_ranks_captured, real_ranks_dead};
    struct ranks_row row = {0};
    char verdict[512] = "right";
    dcpk_error error;
    dcpk_error_init(&error);
    double begin = tool_now();
    if (mode == MODE_DEAD && plan->wish.ranks == 1) {
        print_row(plan, plan->wish.model, real_ranks_heads(ranks), mode, &row, "skipped: one rank alone", 0);
        return true;
    }
    dcpk_status status = run[mode](ranks, &row, &error);
    bool skipped = mode == MODE_CAPTURED && status == DCPK_E_NOT_FOUND;
    if (skipped)
        snprintf(verdict, sizeof verdict, "skipped: %.400s", error.text);
    else if (row.wrong > 0)
        snprintf(verdict, sizeof verdict, "WRONG: %s", row.first);
    else if (status != DCPK_OK)
        snprintf(verdict, sizeof verdict, "FAILED: %s: %.400s", dcpk_status_name(status), error.text);
    else if (mode == MODE_DEAD)
        died(plan, row.slowest, verdict, sizeof verdict);
    print_row(plan, plan->wish.model, real_ranks_heads(ranks), mode, &row, verdict, tool_now() - begin);
    return skipped || (status == DCPK_OK && row.wrong == 0);
}

static bool check_model(struct plan *plan, const char *model, int index) {
    struct real_ranks *ranks = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    plan->wish.model = model;
    plan->wish.dead = index == 0 ? plan->wish.ranks - 1 : 0;
    bool good = real_ranks_open(&plan->wish, &ranks, &error) == DCPK_OK;
    if (!good) printf("%-12s FAILED: %s: %s\n", model, dcpk_status_name(error.code), error.text);
    for (int mode = 0; mode < MODES && good && !plan->build; mode++)
        if (plan->mode < 0 || plan->mode == mode) good = check_mode(plan, ranks, mode) && good;
    real_ranks_close(ranks);
    return good;
}

int main(int argc, char **argv) {
    struct plan plan = {
        .wish = {.device = "cuda"}, .mode = -1, .ranks = -1, .uses = -1, .steps = -1, .delay = -1, .seed = -1};
    dcpk_gen_options options = {.size = sizeof options, .template_path = "templates:templates/checks:tests/templates"};
    dcpk_error error;
    bool good = true;
    dcpk_error_init(&error);
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was done before a time limit stays said */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    read_options(&plan, argc, argv);
    if (plan.build) plan.wish.device = "cpu";
    device_word_or_exit(plan.wish.device);
    no_multicast_or_exit(plan.wish.device);
    complete(&plan);
    count_devices(&plan);
    if (dcpk_gen_open(&options, &plan.wish.gen, &error) != DCPK_OK) {
        fprintf(stderr, "check_ranks: %s\n", error.text);
        return 1;
    }
    double begin = tool_now();
    if (!plan.build) print_head(&plan);
    for (int m = 0; m < MODELS; m++)
        if (!plan.model || plan.model == models[m]) good = check_model(&plan, models[m], m) && good;
    dcpk_gen_close(plan.wish.gen);
    printf("check_ranks: %d rank%s, %s: %s, %.0f s\n", plan.wish.ranks, plan.wish.ranks == 1 ? "" : "s",
           plan.wish.device,
           !good        ? "NOT right"
           : plan.build ? "built"
                        : "all right",
           tool_now() - begin);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "check_ranks: the table could not be written\n");
        return 1;
    }
    return good ? 0 : 1;
}
