/* program_check_all.c - the slow property run of `make check-all`: every spec that may not be refused and random ones
 * of the whole key table, each expanded and linted, some assembled.
 *
 * Promises checked for each spec: it is refused with a rule that has a text, never when spec.md says "not
 * refusable"; or it expands, to the same bytes when expanded again from its canonical text; and it assembles.
 * Options: --seed N --expand N --assemble N --jobs N, --refusals to see each. One worker process a job; each owns every
 * jobs-th spec. */
#include <dcpk/gen.h>

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct plan {
    uint64_t seed;
    long expand, assemble, jobs;
    bool show_refusals;
};

struct counts {
    long expanded, assembled, refused, wrong;
    long by_kernel[6];
    double expand_seconds, assemble_seconds;
    bool show_refusals;
};

static const char *const kernels[] = {"query_norm", "query_push", "query_wait", "mla_query", "mla_decode", "dcp_value"};
static const int heads_listed[] = {1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
static const int dcp_listed[] = {1, 2, 4, 8, 16};
static const int q_listed[] = {1, 2, 3, 4, 8};
enum { HEADS = 13, DCPS = 5, QS = 5, BATCHES = 4, KERNELS = 6 };

/* splitmix64: enough for choosing. */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
static int between(uint64_t *state, int low, int high) {
    return high > low ? low + (int)(next(state) % (uint64_t)(high - low + 1)) : low;
}

static void set(dcpk_spec *spec, const char *key, int value) {
    char text[64];
    snprintf(text, sizeof text, "%s=%d", key, value);
    if (dcpk_spec_takes(spec->kernel, key)) dcpk_spec_set(spec, text, NULL);
}
static void set_word(dcpk_spec *spec, const char *text) {
    char key[32];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(text, "="), text);
    if (dcpk_spec_takes(spec->kernel, key)) dcpk_spec_set(spec, text, NULL);
}

/* The index-th spec of section 0's "Not refusable" list; false when there are no more, spec->kernel "" for a
 * combination that is none (DH*q > 1024, q does not divide the batch, no box at dcp = 1). */
static bool listed_spec(long index, dcpk_spec *spec) {
    const char *kernel = kernels[index % KERNELS];
    long i = index / KERNELS;
    int heads = heads_listed[i % HEADS];
    int dcp = dcp_listed[(i /= HEADS) % DCPS];
    int q = q_listed[(i /= DCPS) % QS];
    i /= QS;
    if (i >= BATCHES) return false;
    const int batches[BATCHES] = {q, 16, 17, 64};
    int batch = batches[i];
    bool push_or_wait = strncmp(kernel, "query_p", 7) == 0 || strncmp(kernel, "query_w", 7) == 0;
    bool none = dcp * heads * q > 1024 || batch % q != 0 || (push_or_wait && dcp == 1);
    dcpk_spec_init(spec, none ? "" : kernel);
    if (none) return true;
    set(spec, "heads", heads);
    set(spec, "dcp", dcp);
    set(spec, "q", q);
    set(spec, "batch", batch);
    return true;
}

/* The keys of mla_query and mla_decode alone. */
static void random_attention(uint64_t *state, dcpk_spec *spec) {
    int page = 16 << between(state, 0, 2);
    if (between(state, 0, 1)) set(spec, "page", page);
    if (between(state, 0, 1)) set(spec, "interleave", between(state, 0, 9) ? 1 << between(state, 0, 4) : 48);
    if (between(state, 0, 1)) set(spec, "splits", between(state, 0, 2) ? between(state, 1, 8) : between(state, 0, 256));
    int pv = between(state, 0, 15);
    if (pv < 8) set_word(spec, pv == 0 ? "pv=fp8" : "pv=f16");
    if (between(state, 0, 1)) set_word(spec, between(state, 0, 1) ? "rope=half" : "rope=interleaved");
    if (between(state, 0, 2) == 0) set(spec, "q_lora", between(state, 0, 2) ? 0 : 1536);
    if (between(state, 0, 2) == 0) set(spec, "poll", between(state, 0, 2) == 0);
    if (between(state, 0, 2) == 0) set(spec, "store_qc", between(state, 0, 1));
}

/* Any spec of the key table, most of them valid. */
static void random_spec(uint64_t *state, dcpk_spec *spec) {
    dcpk_spec_init(spec, kernels[between(state, 0, KERNELS - 1)]);
    int q = between(state, 0, 2) ? 1 : between(state, 1, 8);
    int dcp = between(state, 0, 1) ? dcp_listed[between(state, 0, DCPS - 1)] : between(state, 1, 32);
    int most = 1024 / (dcp * q) < 128 ? 1024 / (dcp * q) : 128;
    int heads =
        between(state, 0, 1) ? heads_listed[between(state, 0, HEADS - 1)] : between(state, 1, most > 0 ? most : 1);
    int batch = between(state, 0, 3) ? between(state, 1, 64 / q) * q : between(state, 1, 512 / q) * q;
    set(spec, "heads", heads);
    set(spec, "dcp", dcp);
    set(spec, "batch", batch);
    if (q > 1) set(spec, "q", q);
    if (between(state, 0, 3) == 0) set(spec, "cap", between(state, batch, 512));
    if (between(state, 0, 3) == 0 && dcp * heads < 4096) set(spec, "qh", between(state, dcp * heads, 4096));
    if (between(state, 0, 5) == 0) set(spec, "sms", between(state, 8, 200));
    if (between(state, 0, 5) == 0) set(spec, "reserve", between(state, 0, 7));
    if (between(state, 0, 3) == 0) set(spec, "tiled_from", between(state, 1, 513));
    if (between(state, 0, 2) == 0) set(spec, "split", between(state, 0, 1));
    if (between(state, 0, 2) == 0) set(spec, "gate", between(state, 0, 1));
    random_attention(state, spec);
    if (between(state, 0, 2) == 0) set_word(spec, "publish=multicast");
    if (between(state, 0, 2) == 0) set_word(spec, "parity=arg");
    if (between(state, 0, 3) == 0) set(spec, "watchdog", 0);
    if (between(state, 0, 2) == 0) set(spec, "checked", 1);
    if (between(state, 0, 7) == 0) set(spec, "lineinfo", 1);
    dcpk_arch_info arch = {.size = sizeof arch};
    uint32_t archs = 0;
    while (dcpk_arch_at(archs, &arch))
        archs++;
    if (between(state, 0, 1) == 0 && dcpk_arch_at((uint32_t)between(state, 0, (int)archs - 1), &arch)) {
        char text[32];
        snprintf(text, sizeof text, "arch=%s", arch.name);
        set_word(spec, text);
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wrong(struct counts *counts, const char *what, const char *spec, const char *why) {
    counts->wrong++;
    printf("check-all: %s: %s\n    %s\n", what, spec, why);
    fflush(stdout);
}

/* The canonical text leads back to the same spec and the same bytes. */
static void check_again(dcpk_gen *gen, const char *canonical, const dcpk_text *ptx, struct counts *counts) {
    dcpk_spec again;
    dcpk_text bytes = {NULL, 0};
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_spec_parse(&again, canonical, &error) != DCPK_OK || dcpk_spec_resolve(&again, &error) != DCPK_OK ||
        dcpk_gen_expand(gen, &again, &bytes, &error) != DCPK_OK)
        wrong(counts, "its canonical text is refused", canonical, error.text);
    else if (bytes.length != ptx->length || memcmp(bytes.data, ptx->data, ptx->length) != 0)
        wrong(counts, "expands to other bytes from its canonical text", canonical, "");
    dcpk_text_free(&bytes);
}

/* True when the spec was expanded. must: refusing is wrong. */
static bool check_spec(dcpk_gen *gen, dcpk_spec *spec, bool must, bool again, bool assemble, struct counts *counts) {
    char canonical[1024];
    dcpk_text ptx = {NULL, 0};
    dcpk_error error;
    dcpk_error_init(&error);
    double begin = now();
    dcpk_status status = dcpk_spec_resolve(spec, &error);
    dcpk_spec_format(spec, canonical, sizeof canonical);
    if (status == DCPK_OK) status = dcpk_gen_expand(gen, spec, &ptx, &error);
    counts->expand_seconds += now() - begin;
    if (status != DCPK_OK) {
        bool by_rule =
            (status == DCPK_E_SPEC || status == DCPK_E_ARCH) && strlen(error.text) > strlen(spec->kernel) + 4;
        counts->refused++;
        if (counts->show_refusals) printf("check-all: refused: %s\n    %s\n", canonical, error.text);
        if (must || !by_rule)
            wrong(counts, must ? "refused, but is not refusable" : "fails, but by no rule", canonical, error.text);
        return false;
    }
    counts->expanded++;
    for (int k = 0; k < KERNELS; k++)
        counts->by_kernel[k] += strcmp(kernels[k], spec->kernel) == 0;
    if (again) check_again(gen, canonical, &ptx, counts);
    dcpk_text_free(&ptx);
    if (assemble) {
        dcpk_image *image = NULL;
        begin = now();
        if (dcpk_gen_build(gen, spec, &image, NULL, &error) != DCPK_OK)
            wrong(counts, "does not assemble", canonical, error.text);
        else
            counts->assembled++;
        counts->assemble_seconds += now() - begin;
        dcpk_image_free(image);
    }
    return true;
}

static struct counts work(const struct plan *plan, long job) {
    struct counts counts = {.show_refusals = plan->show_refusals};
    dcpk_gen_options options = {.size = sizeof options, .cache_dir = ""};
    dcpk_gen *gen = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_gen_open(&options, &gen, &error) != DCPK_OK) {
        wrong(&counts, "no generator", "", error.text);
        return counts;
    }
    dcpk_spec spec;
    long expand = plan->expand / plan->jobs + (job < plan->expand % plan->jobs);
    long assemble = plan->assemble / plan->jobs + (job < plan->assemble % plan->jobs);
    for (long i = job; counts.expanded < expand && listed_spec(i, &spec); i += plan->jobs)
        if (spec.kernel[0] != '\0') check_spec(gen, &spec, true, i % 16 == 0, false, &counts);
    uint64_t state = plan->seed * 1000003u + (uint64_t)job;
    while ((counts.expanded < expand || counts.assembled < assemble) && counts.wrong < 20) {
        random_spec(&state, &spec);
        check_spec(gen, &spec, false, counts.expanded % 16 == 0, counts.assembled < assemble, &counts);
    }
    dcpk_gen_close(gen);
    return counts;
}

static bool run_jobs(const struct plan *plan, struct counts *sum) {
    bool good = true;
    int pipes[2];
    if (pipe(pipes) != 0) return false;
    for (long job = 0; job < plan->jobs; job++) {
        pid_t child = fork();
        if (child < 0) return false;
        if (child == 0) {
            struct counts counts = work(plan, job);
            _exit(write(pipes[1], &counts, sizeof counts) == (ssize_t)sizeof counts ? 0 : 1);
        }
    }
    close(pipes[1]);
    for (long job = 0; job < plan->jobs; job++) {
        struct counts counts;
        if (read(pipes[0], &counts, sizeof counts) != (ssize_t)sizeof counts) {
            good = false; /* a worker died before it could report */
            break;
        }
        sum->expanded += counts.expanded;
        sum->assembled += counts.assembled;
        sum->refused += counts.refused;
        sum->wrong += counts.wrong;
        for (int k = 0; k < KERNELS; k++)
            sum->by_kernel[k] += counts.by_kernel[k];
        sum->expand_seconds += counts.expand_seconds;
        sum->assemble_seconds += counts.assemble_seconds;
    }
    close(pipes[0]);
    for (int status; wait(&status) > 0;)
        good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return good;
}

static bool read_options(int argc, char **argv, struct plan *plan) {
    static const struct option longs[] = {
        {"seed", required_argument, NULL, 's'},     {"expand", required_argument, NULL, 'e'},
        {"assemble", required_argument, NULL, 'a'}, {"jobs", required_argument, NULL, 'j'},
        {"refusals", no_argument, NULL, 'r'},       {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "s:e:a:j:r", longs, NULL)) != -1;) {
        long value = c == '?' ? -1 : c == 'r' ? 0 : strtol(optarg, NULL, 10);
        if (value < 0 || (c == 'j' && (value < 1 || value > 256))) return false;
        if (c == 's') plan->seed = (uint64_t)value;
        if (c == 'e') plan->expand = value;
        if (c == 'a') plan->assemble = value;
        if (c == 'j') plan->jobs = value;
        if (c == 'r') plan->show_refusals = true;
    }
    return optind == argc;
}

int main(int argc, char **argv) {
    struct plan plan = {.seed = 1, .expand = 20000, .assemble = 1500, .jobs = sysconf(_SC_NPROCESSORS_ONLN)};
    if (!read_options(argc, argv, &plan)) {
        fprintf(stderr, "usage: check_all [--seed N] [--expand N] [--assemble N] [--jobs N] [--refusals]\n");
        return 2;
    }
    struct counts sum = {0};
    double begin = now();
    bool whole = run_jobs(&plan, &sum);
    for (int k = 0; k < KERNELS; k++)
        printf("  %-11s %ld specs expanded and linted\n", kernels[k], sum.by_kernel[k]);
    printf("check-all: seed %llu: %ld specs expanded and linted (%.2f ms each), %ld assembled (%.0f ms each), %ld "
           "refused by a rule, "
           "%ld wrong%s; %.0f s\n",
           (unsigned long long)plan.seed, sum.expanded,
           sum.expanded > 0 ? 1e3 * sum.expand_seconds / (double)sum.expanded : 0, sum.assembled,
           sum.assembled > 0 ? 1e3 * sum.assemble_seconds / (double)sum.assembled : 0, sum.refused, sum.wrong,
           whole ? "" : ", a worker died", now() - begin);
    return whole && sum.wrong == 0 && sum.expanded >= plan.expand && sum.assembled >= plan.assemble ? 0 : 1;
}
