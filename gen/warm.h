/* warm.h - many builds on their way, shared by warm.c (the list and the results) and warm_threads.c (who builds them).
 * Internal. */
#ifndef DCPK_GEN_WARM_H
#define DCPK_GEN_WARM_H

#include "gen/state.h"

enum { WARM_JOBS_MOST = 64 };

/* A line of a worker's log. */
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

/* Builds one of the list with this generator and keeps what came of it. */
void warm_build(struct warm *warm, struct dcpk_gen *gen, uint32_t index);
/* Calls visit, in the caller's thread; nothing after it has asked to stop. */
void warm_show(struct warm *warm, uint32_t index);

/* Builds what is queued on up to `jobs` threads; results and log are the caller's thread's to take and show. What is
 * left in the queue afterwards found no thread. */
void warm_run_threads(struct warm *warm, uint32_t jobs);

#endif
