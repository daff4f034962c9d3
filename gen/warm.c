/* warm.c - many specs at once: threads, each with a generator beside the caller's, and a caller's thread that takes
 * their results into its memory, shows them and passes their log on.
 * Owns the threads and what they share; a build is build.c's. Nothing of the caller's generator is touched by another
 * thread, but for the environment's copies and what was warned about. */
#include "gen/state.h"

#include "runtime/error.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOBS_BY_ITSELF = 16, JOBS_MOST = 64 };

struct line {
    struct line *next;
    int level;
    char text[];
};

struct task {
    char text[GEN_SPEC_TEXT]; /* of the resolved spec */
    dcpk_status status;
    dcpk_image *image;
    dcpk_build_report report;
    dcpk_error *reason; /* where status is not DCPK_OK; NULL when there was no memory for it */
    bool begun;
    uint32_t same; /* index of the first task of the same spec */
};

struct warm {
    struct dcpk_gen *gen;
    const dcpk_spec *specs;
    struct task *tasks;
    uint32_t count;
    int32_t (*visit)(void *self, const dcpk_warm_result *result);
    void *self;
    struct line *told; /* warnings that the caller has had */

    pthread_mutex_t mutex; /* of the rest */
    pthread_cond_t news;
    bool stop;
    uint32_t *queue, queued, next; /* what is to be built */
    uint32_t *ended, ended_count;  /* what is built, in order */
    uint32_t alive;                /* threads */
    struct line *lines, **last_line;
};

struct worker {
    struct warm *warm;
    struct dcpk_gen *gen;
    pthread_t thread;
};

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

static void show(struct warm *warm, uint32_t index) {
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

static void build_task(struct dcpk_gen *gen, struct warm *warm, uint32_t index) {
    struct task *task = &warm->tasks[index];
    dcpk_error error;
    dcpk_error_init(&error);
    task->begun = true;
    task->report = (dcpk_build_report){.size = sizeof task->report};
    task->status = dcpk_gen_build(gen, spec_at(warm, index), &task->image, &task->report, &error);
    if (task->status != DCPK_OK) fail_task(task, &error);
}

/* ---- the log: lines are the caller's thread's to give -------------------------------------------- */
static void keep_line(void *self, int level, const char *text) {
    struct warm *warm = self;
    struct line *line = malloc(sizeof *line + strlen(text) + 1);
    if (!line) return;
    line->next = NULL;
    line->level = level;
    strcpy(line->text, text);
    pthread_mutex_lock(&warm->mutex);
    *warm->last_line = line;
    warm->last_line = &line->next;
    pthread_cond_signal(&warm->news);
    pthread_mutex_unlock(&warm->mutex);
}

/* A warning that several generators give is given once. */
static void give_lines(struct warm *warm, struct line *line) {
    while (line) {
        struct line *next = line->next, *known = warm->told;
        while (known && (line->level > DCPK_LOG_WARNING || strcmp(known->text, line->text) != 0))
            known = known->next;
        if (!known) notice_log(&warm->gen->notice, line->level, "%s", line->text);
        if (known || line->level > DCPK_LOG_WARNING) {
            free(line);
        } else {
            line->next = warm->told;
            warm->told = line;
        }
        line = next;
    }
}

/* ---- threads ------------------------------------------------------------------------------------- */
static void *work(void *self) {
    struct worker *worker = self;
    struct warm *warm = worker->warm;
    pthread_mutex_lock(&warm->mutex);
    while (!warm->stop && warm->next < warm->queued) {
        uint32_t index = warm->queue[warm->next++];
        pthread_mutex_unlock(&warm->mutex);
        build_task(worker->gen, warm, index);
        pthread_mutex_lock(&warm->mutex);
        warm->ended[warm->ended_count++] = index;
        pthread_cond_signal(&warm->news);
    }
    warm->alive--;
    pthread_cond_signal(&warm->news);
    pthread_mutex_unlock(&warm->mutex);
    return NULL;
}

/* How many run. */
static uint32_t start(struct warm *warm, struct worker *workers, uint32_t wanted) {
    uint32_t running = 0;
    while (running < wanted) {
        struct worker *worker = &workers[running];
        *worker = (struct worker){.warm = warm};
        if (gen_open_beside(warm->gen, (struct notice){keep_line, warm}, &worker->gen, NULL) != DCPK_OK) break;
        pthread_mutex_lock(&warm->mutex);
        warm->alive++;
        pthread_mutex_unlock(&warm->mutex);
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
            pthread_mutex_lock(&warm->mutex);
            warm->alive--;
            pthread_mutex_unlock(&warm->mutex);
            dcpk_gen_close(worker->gen);
            break;
        }
        running++;
    }
    return running;
}

/* Until every thread has ended and all that they left is taken. */
static void collect(struct warm *warm) {
    uint32_t taken = 0;
    bool more = true;
    while (more) {
        pthread_mutex_lock(&warm->mutex);
        while (!warm->lines && taken == warm->ended_count && warm->alive > 0)
            pthread_cond_wait(&warm->news, &warm->mutex);
        struct line *lines = warm->lines;
        warm->lines = NULL;
        warm->last_line = &warm->lines;
        uint32_t count = warm->ended_count;
        more = warm->alive > 0;
        pthread_mutex_unlock(&warm->mutex);
        give_lines(warm, lines);
        for (; taken < count; taken++) {
            struct task *task = &warm->tasks[warm->ended[taken]];
            if (task->image) memory_add(&warm->gen->memory, task->text, task->image, task->report.cached);
            show(warm, warm->ended[taken]);
        }
    }
}

static void run_threads(struct warm *warm, uint32_t jobs) {
    struct worker workers[JOBS_MOST];
    uint32_t running = start(warm, workers, jobs < warm->queued ? jobs : warm->queued);
    collect(warm);
    for (uint32_t i = 0; i < running; i++) {
        pthread_join(workers[i].thread, NULL);
        warm->gen->toolchain.warned |= workers[i].gen->toolchain.warned;
        dcpk_gen_close(workers[i].gen);
    }
}

/* In the caller's thread: what no thread could be had for, and what is not worth one. */
static void run_here(struct warm *warm) {
    while (!warm->stop && warm->next < warm->queued) {
        uint32_t index = warm->queue[warm->next++];
        build_task(warm->gen, warm, index);
        show(warm, index);
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
        show(warm, i);
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
        show(warm, i);
    }
}

static uint32_t jobs_of(uint32_t jobs) {
    if (jobs > 0) return jobs < JOBS_MOST ? jobs : JOBS_MOST;
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
        if (wants_threads(&warm, jobs_of(jobs))) run_threads(&warm, jobs_of(jobs));
        run_here(&warm);
        show_doubles(&warm);
        status = first_failure(&warm, error);
    }
    free_warm(&warm);
    return status;
}
