/* world_host.c - the host's threads: the machine's one lock, who waits for it, and real time.
 *
 * The lock is first come, first served, so that a thread which gives it up and takes it again has let in all who
 * waited. With one host thread real time means nothing here. Once a second one has called in this life of the machine,
 * virtual time that nothing but polling would pass goes no faster than real time does, and what passes while another
 * thread is inside a call does not count. May not look at devices or streams. */
#include "runtime/cpu/world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { PAUSE_NS = 200000, SLICE_NS = 1000000 };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t turn;
    uint64_t next, serving; /* tickets */
    atomic_uint queued;     /* threads with a ticket that are not served */
    atomic_uint calling;    /* those of them that begin a call */
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_COND_INITIALIZER};

static void lock(void) {
    pthread_mutex_lock(&gate.mutex);
    uint64_t ticket = gate.next++;
    if (gate.serving != ticket) {
        atomic_fetch_add_explicit(&gate.queued, 1, memory_order_relaxed);
        while (gate.serving != ticket)
            pthread_cond_wait(&gate.turn, &gate.mutex);
        atomic_fetch_sub_explicit(&gate.queued, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&gate.mutex);
}

static void unlock(void) {
    pthread_mutex_lock(&gate.mutex);
    gate.serving++;
    if (gate.serving != gate.next) pthread_cond_broadcast(&gate.turn);
    pthread_mutex_unlock(&gate.mutex);
}

uint64_t host_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

struct world *host_enter(void) {
    static _Thread_local uint64_t last_life; /* in which this thread called, plus one */
    atomic_fetch_add_explicit(&gate.calling, 1, memory_order_relaxed);
    lock();
    atomic_fetch_sub_explicit(&gate.calling, 1, memory_order_relaxed);
    struct world *world = world_machine();
    if (last_life != world->life + 1) world->hosts.threads++;
    last_life = world->life + 1;
    if (host_shared(world)) world->hosts.mark = host_now();
    return world;
}

void host_leave(struct world *world) {
    if (host_shared(world)) world->hosts.mark = host_now();
    unlock();
}

bool host_shared(const struct world *world) {
    return world->hosts.threads > 1;
}

uint64_t host_pass(struct world *world) {
    struct hosts *hosts = &world->hosts;
    uint64_t now = host_now(), passed = now - hosts->mark;
    if (hosts->progress != world->pulse.progress) hosts->idle = 0;
    hosts->progress = world->pulse.progress;
    hosts->mark = now;
    hosts->idle += passed;
    return passed;
}

void host_between_rounds(struct world *world, uint64_t *since) {
    bool pause = world->hosts.pause, queued = atomic_load_explicit(&gate.queued, memory_order_relaxed) > 0;
    world->hosts.pause = false;
    if (!pause && !queued) return;
    bool calling = atomic_load_explicit(&gate.calling, memory_order_relaxed) > 0;
    if (!pause && !calling && host_now() - *since < SLICE_NS) return; /* others that wait for the devices, as we do */
    unlock();
    if (pause) nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    lock();
    *since = host_now();
}
