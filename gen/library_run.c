/* library_run.c - a bound on calls that have none: the compiler runs on a thread of its own, and the caller waits for
 * so long and no longer. Owns that thread and the hand-over of the job. */
#include "gen/library.h"

#include "runtime/error.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { STACK_BYTES = 64 << 20 };

struct call {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct library_work work;
    bool done, left; /* the work is done; the caller has gone */
};

static void destroy(struct call *call) {
    pthread_cond_destroy(&call->ended);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

static void *run(void *self) {
    struct call *call = self;
    call->work.work(call->work.job);
    pthread_mutex_lock(&call->lock);
    call->done = true;
    bool left = call->left;
    pthread_cond_signal(&call->ended);
    pthread_mutex_unlock(&call->lock);
    if (left) {
        call->work.drop(call->work.job);
        destroy(call);
    }
    return NULL;
}

static struct call *make(const struct library_work *work) {
    pthread_condattr_t monotonic;
    struct call *call = calloc(1, sizeof *call);
    if (!call) return NULL;
    call->work = *work;
    pthread_mutex_init(&call->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&call->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return call;
}

/* The process's signals are not this thread's: handlers of an engine expect its own threads. */
static bool start(struct call *call, pthread_t *thread) {
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(thread, &attributes, run, call);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return result == 0;
}

static bool wait_for(struct call *call, uint32_t timeout_ms) {
    struct timespec end;
    int result = 0;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout_ms / 1000;
    end.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_nsec -= 1000000000;
        end.tv_sec++;
    }
    pthread_mutex_lock(&call->lock);
    while (!call->done && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&call->ended, &call->lock, &end);
    bool done = call->done;
    call->left = !done;
    pthread_mutex_unlock(&call->lock);
    return done;
}

dcpk_status library_run(const struct library_work *work, dcpk_error *error) {
    pthread_t thread;
    struct call *call = make(work);
    if (!call || !start(call, &thread)) {
        if (call) destroy(call);
        return dcpk_error_set(error, DCPK_E_NOMEM, "%s: no thread to run it on", work->who);
    }
    if (wait_for(call, work->timeout_ms)) {
        pthread_join(thread, NULL);
        destroy(call);
        return DCPK_OK;
    }
    pthread_detach(thread);
    return dcpk_error_set(error, DCPK_E_TOOLCHAIN,
                          "%s ran for more than %g s and was given up; it runs in this process, so its thread goes on "
                          "until it ends by itself",
                          work->who, work->timeout_ms / 1000.0);
}
