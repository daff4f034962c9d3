/* conform_apart.c - see conform_apart.h. A worker is a fork: what it reports may point to what both had before. Only
 * workers open the device. */
#include "conform_apart.h"

#include "command.h"
#include "tool_error.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_JOBS = 16, MOST_STARTS = 48 }; /* processes of one range of forms */

enum message_kind { NAMED, NO_DEVICE, BEGINS, DONE };
struct message {
    enum message_kind kind;
    size_t index, bytes; /* of a form; of what follows: a name, an error, an outcome and its record */
};

/* ---- the worker's side ---- */
struct worker_side {
    int to;
    const struct conform_outcome *outcomes;
    struct conform_recording *recording;
};

/* Nobody listens any more: the worker ends. */
static void put_bytes(int to, const void *data, size_t bytes) {
    for (const char *at = data; bytes > 0;) {
        ssize_t done = write(to, at, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) _exit(1);
        at += done;
        bytes -= (size_t)done;
    }
}

static void put_message(int to, enum message_kind kind, size_t index, const void *data, size_t bytes) {
    struct message message = {.kind = kind, .index = index, .bytes = bytes};
    put_bytes(to, &message, sizeof message);
    put_bytes(to, data, bytes);
}

static void begins(void *self, size_t i) {
    put_message(((struct worker_side *)self)->to, BEGINS, i, NULL, 0);
}

static void done(void *self, size_t i) {
    struct worker_side *side = self;
    size_t recorded = side->recording != NULL ? side->recording->used : 0;
    struct message message = {.kind = DONE, .index = i, .bytes = sizeof *side->outcomes + recorded};
    put_bytes(side->to, &message, sizeof message);
    put_bytes(side->to, &side->outcomes[i], sizeof *side->outcomes);
    if (recorded > 0) put_bytes(side->to, side->recording->text, recorded);
    if (side->recording != NULL) side->recording->used = 0;
    if (side->outcomes[i].run == BROKE) _exit(1); /* the device may hang from now on */
}

static dcpk_status work(const struct conform_apart *apart, const struct conform_form *const *forms, size_t first,
                        size_t count, struct conform_outcome *outcomes, int to, dcpk_error *error) {
    struct conform_recording recording = {NULL, 0, 0};
    struct worker_side side = {to, outcomes, apart->record ? &recording : NULL};
    dcpk_device *device = NULL;
    dcpk_device_info info = {.size = sizeof info};
    char name[CONFORM_DEVICE_NAME];
    dcpk_status status = dcpk_device_open(&apart->device, &device, error);
    if (status == DCPK_OK) status = dcpk_device_get_info(device, &info, error);
    if (status != DCPK_OK) return status;
    snprintf(name, sizeof name, "%s (%s), compute %d.%d, driver %d", info.name, info.kind, info.major, info.minor,
             info.driver_version);
    put_message(to, NAMED, 0, name, strlen(name) + 1);
    struct conform_check check = {.device = device,
                                  .hardware = strcmp(info.kind, "cpu") != 0,
                                  .golden = apart->golden,
                                  .recording = side.recording,
                                  .begins = begins,
                                  .done = done,
                                  .self = &side};
    return conform_check_forms(&check, forms, first, count, outcomes, error);
}

static _Noreturn void be_worker(const struct conform_apart *apart, const struct conform_form *const *forms,
                                size_t first, size_t count, struct conform_outcome *outcomes, int to) {
    dcpk_error error;
    dcpk_error_init(&error);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* inputs and results of each form: not from the system anew */
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    if (work(apart, forms, first, count, outcomes, to, &error) != DCPK_OK)
        put_message(to, NO_DEVICE, 0, &error, sizeof error);
    _exit(0); /* no driver's code at exit */
}

/* ---- the parent's side ---- */
struct worker {
    pid_t pid; /* 0: none */
    int from;
    size_t first, next, end; /* its range; the form that is running or comes next */
    unsigned starts;
    bool begun, failed;
    double heard;
};
struct crew {
    const struct conform_apart *apart;
    const struct conform_form *const *forms;
    struct conform_outcome *outcomes;
    char **records; /* of each form */
    char *name;
    struct worker workers[MOST_JOBS];
    unsigned count;
    dcpk_error *error;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static dcpk_status start(struct crew *crew, struct worker *w) {
    int ends[2];
    if (pipe(ends) != 0) return tool_fail(crew->error, DCPK_E_IO, "no pipe for a process: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        for (unsigned i = 0; i < crew->count; i++)
            if (crew->workers[i].pid != 0) close(crew->workers[i].from);
        be_worker(crew->apart, crew->forms, w->next, w->end, crew->outcomes, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return tool_fail(crew->error, DCPK_E_IO, "no process for the snippets: %s", strerror(errno));
    }
    w->pid = pid;
    w->from = ends[0];
    w->starts++;
    w->begun = false;
    w->heard = now();
    return DCPK_OK;
}

static bool get_bytes(int from, void *data, size_t bytes) {
    for (char *at = data; bytes > 0;) {
        ssize_t got = read(from, at, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

static void take_done(struct crew *crew, struct worker *w, size_t index, const char *data, size_t bytes) {
    memcpy(&crew->outcomes[index], data, sizeof *crew->outcomes);
    crew->records[index] = bytes > sizeof *crew->outcomes ? must(strdup(data + sizeof *crew->outcomes)) : NULL;
    w->next = index + 1;
    w->begun = false;
}

/* One message. False: there are no more of this process. */
static bool hear(struct crew *crew, struct worker *w) {
    struct message message;
    if (!get_bytes(w->from, &message, sizeof message)) return false;
    char *data = must(malloc(message.bytes + 1));
    bool whole = get_bytes(w->from, data, message.bytes);
    data[message.bytes] = '\0';
    w->heard = now();
    if (whole && message.kind == NAMED)
        snprintf(crew->name, CONFORM_DEVICE_NAME, "%s", data);
    else if (whole && message.kind == NO_DEVICE && crew->error != NULL)
        memcpy(crew->error, data, sizeof *crew->error);
    else if (whole && message.kind == DONE)
        take_done(crew, w, message.index, data, message.bytes);
    if (whole && message.kind == BEGINS) w->begun = true;
    if (whole && message.kind == NO_DEVICE) w->failed = true;
    free(data);
    return whole;
}

/* Waits for a process that has ended, or was killed; false: it is still there after a while, stuck in a driver. */
static bool gone(pid_t pid, int *state) {
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    for (int i = 0; i < 2000; i++) {
        if (waitpid(pid, state, WNOHANG) == pid) return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* The process is gone, or is put to an end; what it was at is marked, and the next one begins behind it. */
static dcpk_status replace(struct crew *crew, struct worker *w, bool hangs) {
    int state = 0;
    if (hangs) kill(w->pid, SIGKILL);
    close(w->from);
    pid_t pid = w->pid;
    w->pid = 0;
    if (!gone(pid, &state))
        return tool_fail(crew->error, DCPK_E_DRIVER, "process %ld does not end: %s stays in the driver", (long)pid,
                         w->next < w->end ? crew->forms[w->next]->name : "the last snippet");
    if (w->failed) return DCPK_E_DRIVER;
    if (w->begun && w->next < w->end) {
        struct conform_outcome *o = &crew->outcomes[w->next++];
        o->run = BROKE;
        if (hangs)
            snprintf(o->why, sizeof o->why, "it does not end: its process was killed after %u s", crew->apart->limit_s);
        else
            snprintf(o->why, sizeof o->why, "its process ended: %s",
                     WIFSIGNALED(state) ? strsignal(WTERMSIG(state)) : "exit");
    } else if (hangs) {
        return tool_fail(crew->error, DCPK_E_DRIVER, "the device does not answer within %u s", crew->apart->limit_s);
    }
    bool more = w->next < w->end && w->starts < MOST_STARTS;
    return more ? start(crew, w) : DCPK_OK;
}

static void stop(struct crew *crew) {
    for (unsigned i = 0; i < crew->count; i++) {
        if (crew->workers[i].pid == 0) continue;
        kill(crew->workers[i].pid, SIGKILL);
        close(crew->workers[i].from);
        (void)gone(crew->workers[i].pid, &(int){0});
    }
}

/* Until no process is left. */
static dcpk_status listen_to_all(struct crew *crew) {
    for (;;) {
        struct pollfd polled[MOST_JOBS];
        struct worker *who[MOST_JOBS];
        nfds_t count = 0;
        for (unsigned i = 0; i < crew->count; i++)
            if (crew->workers[i].pid != 0) {
                who[count] = &crew->workers[i];
                polled[count++] = (struct pollfd){.fd = crew->workers[i].from, .events = POLLIN};
            }
        if (count == 0) return DCPK_OK;
        poll(polled, count, 500);
        for (nfds_t i = 0; i < count; i++) {
            bool ended = polled[i].revents != 0 && !hear(crew, who[i]);
            bool hangs = !ended && now() - who[i]->heard > (double)crew->apart->limit_s;
            dcpk_status status = ended || hangs ? replace(crew, who[i], hangs) : DCPK_OK;
            if (status != DCPK_OK) return status;
        }
    }
}

static dcpk_status run_crew(struct crew *crew, size_t count) {
    dcpk_status status = DCPK_OK;
    crew->count = crew->apart->jobs < 1 ? 1 : crew->apart->jobs > MOST_JOBS ? MOST_JOBS : crew->apart->jobs;
    for (unsigned i = 0; i < crew->count && status == DCPK_OK; i++) {
        struct worker *w = &crew->workers[i];
        w->next = count * i / crew->count;
        w->end = count * (i + 1) / crew->count;
        if (w->next < w->end) status = start(crew, w);
    }
    if (status == DCPK_OK) status = listen_to_all(crew);
    stop(crew);
    return status;
}

dcpk_status conform_apart_run(const struct conform_apart *apart, const struct conform_form *const *forms, size_t count,
                              struct conform_outcome *outcomes, char name[CONFORM_DEVICE_NAME],
                              struct conform_recording *recording, dcpk_error *error) {
    struct crew crew = {.apart = apart, .forms = forms, .outcomes = outcomes, .name = name, .error = error};
    crew.records = must(calloc(count + 1, sizeof *crew.records));
    snprintf(name, CONFORM_DEVICE_NAME, "unknown");
    for (size_t i = 0; i < count; i++)
        outcomes[i] = (struct conform_outcome){.name = forms[i]->name, .flags = forms[i]->row->flags};
    dcpk_status status = run_crew(&crew, count);
    if (recording != NULL) conform_recording_begin(recording, name);
    for (size_t i = 0; i < count; i++) {
        if (recording != NULL && crew.records[i] != NULL) conform_recording_append(recording, crew.records[i]);
        free(crew.records[i]);
    }
    free(crew.records);
    return status;
}
