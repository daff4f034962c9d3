/* warm_threads.c - threads that build, each with a generator beside the caller's, and a caller's thread that takes
 * their results into its memory, shows them and passes their log on. Nothing of the caller's generator is touched by
 * another thread, but for what was warned about. */
#include "gen/warm.h"

#include <stdlib.h>
#include <string.h>

struct worker {
    struct warm *warm;
    struct dcpk_gen *gen;
    pthread_t thread;
};

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
        warm_build(warm, worker->gen, index);
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
            warm_show(warm, warm->ended[taken]);
        }
    }
}

void warm_run_threads(struct warm *warm, uint32_t jobs) {
    struct worker workers[WARM_JOBS_MOST];
    uint32_t running = start(warm, workers, jobs < warm->queued ? jobs : warm->queued);
    collect(warm);
    for (uint32_t i = 0; i < running; i++) {
        pthread_join(workers[i].thread, NULL);
        warm->gen->toolchain.warned |= workers[i].gen->toolchain.warned;
        dcpk_gen_close(workers[i].gen);
    }
}
