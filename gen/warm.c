/* warm.c - many specs at once: which are to be built, what came of each, and in which order that is told. Threads are
 * warm_threads.c's, a build is build.c's. */
#include "gen/warm.h"

#include "runtime/error.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOBS_BY_ITSELF = 16 };

/* The array's stride is the caller's version of the struct. */
static const dcpk_spec *spec_at(const struct warm *warm, uint32_t index) {
    return (const void *)((const char *)warm->specs + (size_t)index * warm->specs->size);
}

/* ---- results ------------------------------------------------------------------------------------- */
static void fail_task(struct task *task, const dcpk_error *error) {
    task->status = error->code;
    task->reason = malloc(sizeof *task->reason);
    if (task->reason) *task->reason = *error;
}

void warm_show(struct warm *warm, uint32_t index) {
    static const dcpk_error forgotten = {.size = sizeof forgotten, .code = DCPK_E_NOMEM, .text = "no memory for why"};
    struct task *task = &warm->tasks[index];
    dcpk_warm_result result = {
        .size = sizeof result, .index = index, .image = task->image, .report = &task->report, .reason = NULL};
    if (task->status != DCPK_OK) result.reason = task->reason ? task->reason : &forgotten;
    if (!warm->stop && warm->visit && warm->visit(warm->self, &result) != 0) {
        pthread_mutex_lock(&warm->mutex);
        warm->stop = true;
        pthread_mutex_unlock(&warm->mutex);
    }
}

void warm_build(struct warm *warm, struct dcpk_gen *gen, uint32_t index) {
    struct task *task = &warm->tasks[index];
    dcpk_error error;
    dcpk_error_init(&error);
    task->begun = true;
    task->report = (dcpk_build_report){.size = sizeof task->report};
    task->status = dcpk_gen_build(gen, spec_at(warm, index), &task->image, &task->report, &error);
    if (task->status != DCPK_OK) fail_task(task, &error);
}

/* In the caller's thread: what no thread could be had for, and what is not worth one. */
static void run_here(struct warm *warm) {
    while (!warm->stop && warm->next < warm->queued) {
        uint32_t index = warm->queue[warm->next++];
        warm_build(warm, warm->gen, index);
        warm_show(warm, index);
    }
}

/* ---- the list ------------------------------------------------------------------------------------ */
struct named {
    const char *text;
    uint32_t index;
};

static int compare(const void *a, const void *b) {
    const struct named *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order != 0 ? order : x->index < y->index ? -1 : x->index > y->index;
}

/* Resolves every spec; those that are refused are shown at once, those that stand twice are built once. */
static bool plan(struct warm *warm) {
    struct named *names = calloc(warm->count, sizeof *names);
    if (!names) return false;
    for (uint32_t i = 0; i < warm->count; i++) {
        dcpk_error error;
        dcpk_error_init(&error);
        names[i] = (struct named){warm->tasks[i].text, i};
        if (gen_resolve(spec_at(warm, i), NULL, warm->tasks[i].text, &error) != DCPK_OK) {
            warm->tasks[i].text[0] = '\0';
            warm->tasks[i].begun = true;
            fail_task(&warm->tasks[i], &error);
        }
        warm->tasks[i].same = i;
    }
    qsort(names, warm->count, sizeof *names, compare);
    for (uint32_t i = 1; i < warm->count; i++)
        if (names[i].text[0] && strcmp(names[i].text, names[i - 1].text) == 0)
            warm->tasks[names[i].index].same = warm->tasks[names[i - 1].index].same;
    free(names);
    return true;
}

/* What needs no compiler is shown at once; the rest is queued. */
static void find_or_queue(struct warm *warm) {
    for (uint32_t i = 0; i < warm->count && !warm->stop; i++) {
        struct task *task = &warm->tasks[i];
        if (task->same != i) continue;
        if (!task->begun && !gen_at_hand(warm->gen, spec_at(warm, i), &task->image, &task->report)) {
            warm->queue[warm->queued++] = i;
            continue;
        }
        task->begun = true;
        warm_show(warm, i);
    }
}

static void show_doubles(struct warm *warm) {
    for (uint32_t i = 0; i < warm->count && !warm->stop; i++) {
        struct task *task = &warm->tasks[i], *first = &warm->tasks[task->same];
        if (task == first || !first->begun) continue;
        task->begun = true;
        task->status = first->status;
        task->report = first->report;
        task->report.compiled = 0;
        if (first->image) {
            task->image = first->image;
            task->report.hit = HIT_MEMORY;
            dcpk_image_ref(task->image);
        } else if (first->reason)
            fail_task(task, first->reason);
        warm_show(warm, i);
    }
}

static uint32_t jobs_of(uint32_t jobs) {
    if (jobs > 0) return jobs < WARM_JOBS_MOST ? jobs : WARM_JOBS_MOST;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return cpus < 1 ? 1 : cpus < JOBS_BY_ITSELF ? (uint32_t)cpus : JOBS_BY_ITSELF;
}

/* Without a compiler there is only reading to do, and a toolchain that cannot be opened says so faster once. */
static bool wants_threads(struct warm *warm, uint32_t jobs) {
    return jobs > 1 && warm->queued > 1 && warm->gen->jit != JIT_NEVER && gen_toolchain(warm->gen, NULL) == DCPK_OK;
}

static dcpk_status first_failure(const struct warm *warm, dcpk_error *error) {
    for (uint32_t i = 0; i < warm->count; i++) {
        const struct task *task = &warm->tasks[i];
        if (!task->begun || task->status == DCPK_OK) continue;
        if (!task->reason) return dcpk_error_set(error, task->status, "no memory for why spec %u failed", i);
        dcpk_error_set(error, task->status, "%s", task->reason->text);
        if (error && error->size >= sizeof *error) {
            uint32_t size = error->size;
            *error = *task->reason;
            error->size = size;
        }
        return task->status;
    }
    return DCPK_OK;
}

static void free_warm(struct warm *warm) {
    for (uint32_t i = 0; warm->tasks && i < warm->count; i++) {
        dcpk_image_free(warm->tasks[i].image);
        free(warm->tasks[i].reason);
    }
    for (struct line *line = warm->told, *next; line; line = next) {
        next = line->next;
        free(line);
    }
    free(warm->tasks);
    free(warm->queue);
    free(warm->ended);
    pthread_cond_destroy(&warm->news);
    pthread_mutex_destroy(&warm->mutex);
}

static bool specs_fit(const dcpk_spec *specs, uint32_t count) {
    if (count == 0) return true;
    if (!specs || specs->size < sizeof *specs) return false;
    for (uint32_t i = 1; i < count; i++) {
        const dcpk_spec *spec = (const void *)((const char *)specs + (size_t)i * specs->size);
        if (spec->size != specs->size) return false;
    }
    return true;
}

dcpk_status dcpk_gen_warm(dcpk_gen *gen, const dcpk_spec *specs, uint32_t count, uint32_t jobs,
                          int32_t (*visit)(void *self, const dcpk_warm_result *result), void *self, dcpk_error *error) {
    if (!gen || !specs_fit(specs, count))
        return dcpk_error_set(error, DCPK_E_ARG,
                              "gen and specs may not be NULL, every specs[i].size the same and not below %zu",
                              sizeof *specs);
    if (count == 0) return DCPK_OK;
    struct warm warm = {.gen = gen, .specs = specs, .count = count, .visit = visit, .self = self};
    pthread_mutex_init(&warm.mutex, NULL);
    pthread_cond_init(&warm.news, NULL);
    warm.last_line = &warm.lines;
    warm.tasks = calloc(count, sizeof *warm.tasks);
    warm.queue = calloc(count, sizeof *warm.queue);
    warm.ended = calloc(count, sizeof *warm.ended);
    dcpk_status status = DCPK_OK;
    if (!warm.tasks || !warm.queue || !warm.ended || !plan(&warm)) {
        status = dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the results of %u specs", count);
    } else {
        find_or_queue(&warm);
        if (wants_threads(&warm, jobs_of(jobs))) warm_run_threads(&warm, jobs_of(jobs));
        run_here(&warm);
        show_doubles(&warm);
        status = first_failure(&warm, error);
    }
    free_warm(&warm);
    return status;
}
