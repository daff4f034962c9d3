/* program_foreign_gpu.c - the kernels of tests/foreign on the CPU device and on a GPU: each judged by the reference of
 * its row, then both compared. For tests/check_foreign_gpu; run at the root of the tree. foreign_gpu [--device
 * cuda:N|cpu] [--inputs N] [--out FILE] The table goes to FILE (and to stdout), one kernel a line. --device cpu
 * compares the CPU device's fair schedule with its adversary. Each device has a process of its own, which is given up
 * and replaced when a kernel fails or takes longer than 20 s. Exit: 0; 1 when a kernel is wrong or the devices
 * disagree; 2 wrong words; 3 the device cannot be opened. */
#include "tests/foreign.h"
#include "tests/no_multicast.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KERNEL_SECONDS = 20, OPEN_SECONDS = 60, ALL_SECONDS = 110, RESULT = 1 << 20, TEXT = 4096 };
static const char folder[] = "tests/foreign";

/* What a device's process leaves for its parent; shared memory. */
struct report {
    char text[TEXT]; /* what failed, or is wrong; empty */
    unsigned char result[RESULT];
};
struct worker {
    const char *kind;
    int ordinal;
    bool adverse;  /* the CPU device with a seed */
    pid_t process; /* 0: none */
    int from;      /* its pipe: a byte when it is ready, one a row */
    struct report *report;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the device's process ---- */
static void serve(const struct worker *w, unsigned row, uint64_t inputs, int to) {
    dcpk_device *device = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    if (w->adverse) setenv("DCPK_CPU_SEED", "5", 1);
    const dcpk_device_options wanted = {
        .size = sizeof wanted, .kind = w->kind, .ordinal = w->ordinal, .pdl = -1, .multicast = -1};
    if (dcpk_device_open(&wanted, &device, &error) != DCPK_OK) {
        snprintf(w->report->text, TEXT, "%s", error.text);
        _exit(3);
    }
    if (write(to, "r", 1) != 1) _exit(1);
    for (; row < foreign_count(); row++) {
        struct foreign_case c;
        char *text = w->report->text;
        bool run;
        foreign_make(row, inputs, &c);
        text[0] = '\0';
        dcpk_error_init(&error);
        run =
            foreign_result_bytes(&c) <= RESULT && foreign_run(&c, folder, device, w->report->result, &error) == DCPK_OK;
        if (!run)
            snprintf(text, TEXT, "%s", error.text[0] != '\0' ? error.text : "its outputs are too large");
        else
            (void)foreign_judge(&c, w->report->result, text);
        foreign_drop(&c);
        if (write(to, run ? "k" : "f", 1) != 1 || !run) _exit(1); /* a fault may leave no context to go on in */
        char go;
        if (read(to, &go, 1) != 1) _exit(1); /* the parent has taken the result */
    }
    dcpk_device_close(device);
    _exit(0);
}

/* ---- the parent ---- */
static void end(struct worker *w) {
    if (w->process == 0) return;
    kill(w->process, SIGKILL);
    waitpid(w->process, NULL, 0);
    close(w->from);
    w->process = 0;
}

/* The next byte of a worker, or 0 when none came in time, or none will come. */
static char next(struct worker *w, double seconds) {
    struct pollfd ready = {.fd = w->from, .events = POLLIN};
    char byte = 0;
    int count = seconds > 0 ? poll(&ready, 1, (int)(seconds * 1e3)) : 0;
    if (count > 0 && read(w->from, &byte, 1) == 1) return byte;
    if (w->report->text[0] == '\0')
        snprintf(w->report->text, TEXT, count == 0 ? "not done in time" : "its process ended");
    return 0;
}

static bool start(struct worker *w, unsigned row, uint64_t inputs, double deadline) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return false;
    w->report->text[0] = '\0';
    fflush(NULL);
    w->process = fork();
    if (w->process == 0) {
        close(ends[0]);
        serve(w, row, inputs, ends[1]);
    }
    close(ends[1]);
    w->from = ends[0];
    if (w->process < 0) w->process = 0;
    double left = deadline - now();
    if (w->process != 0 && next(w, left < OPEN_SECONDS ? left : OPEN_SECONDS) == 'r') return true;
    end(w);
    return false;
}

/* One row on one device: whether its result is there. Nothing of it is read before this returns. */
static bool wait_for(struct worker *w, unsigned row, uint64_t inputs, double deadline) {
    if (w->process == 0 && !start(w, row, inputs, deadline)) return false;
    double left = deadline - now();
    char byte = next(w, left < KERNEL_SECONDS ? left : KERNEL_SECONDS);
    if (byte != 'k') end(w);
    return byte == 'k';
}

static void let_go(struct worker *w) {
    if (w->process != 0 && write(w->from, "g", 1) != 1) end(w);
}

/* ---- the table ---- */
static void line(FILE *file, const char *format, const char *name, const char *cpu, const char *gpu, const char *same,
                 double most) {
    FILE *const files[] = {stdout, file};
    for (unsigned i = 0; i < 2; i++)
        if (files[i] != NULL) fprintf(files[i], format, name, cpu, gpu, same, most);
    if (file != NULL) fflush(file); /* what was seen stays, whatever ends this process */
}

static bool compare(struct worker workers[2], unsigned row, uint64_t inputs, double deadline, FILE *file) {
    char apart[FOREIGN_TEXT] = "";
    struct foreign_case c;
    bool there[2], right[2], same = false;
    double most = 0;
    foreign_make(row, inputs, &c);
    for (unsigned i = 0; i < 2; i++) {
        there[i] = wait_for(&workers[i], row, inputs, deadline);
        right[i] = there[i] && workers[i].report->text[0] == '\0';
    }
    bool both = there[0] && there[1];
    bool good = both && foreign_agree(&c, workers[0].report->result, workers[1].report->result, &same, &most, apart);
    line(file, "| %s | %s | %s | %s | %.3g |\n", c.name,
         right[0]   ? "yes"
         : there[0] ? "**no**"
                    : "**not done**",
         right[1]   ? "yes"
         : there[1] ? "**no**"
                    : "**not done**",
         !both  ? "-"
         : same ? "yes"
         : good ? "within the bound"
                : "**no**",
         most);
    for (unsigned i = 0; i < 2; i++)
        if (!right[i]) fprintf(stderr, "foreign_gpu: %s on %s: %s\n", c.name, workers[i].kind, workers[i].report->text);
    if (both && !good) fprintf(stderr, "foreign_gpu: the devices disagree: %s\n", apart);
    for (unsigned i = 0; i < 2; i++)
        let_go(&workers[i]);
    foreign_drop(&c);
    return right[0] && right[1] && good;
}

static int run(struct worker workers[2], uint64_t inputs, FILE *file) {
    unsigned good = 0, count = foreign_count();
    double begin = now(), deadline = begin + ALL_SECONDS;
    for (unsigned i = 0; i < 2; i++)
        if (!start(&workers[i], 0, inputs, deadline)) {
            fprintf(stderr, "foreign_gpu: %s:%d: %s\n", workers[i].kind, workers[i].ordinal, workers[i].report->text);
            for (unsigned k = 0; k < 2; k++)
                end(&workers[k]);
            return 3;
        }
    char device[32];
    snprintf(device, sizeof device, workers[1].adverse ? "adversary" : "%s:%d", workers[1].kind, workers[1].ordinal);
    line(file, "| kernel | CPU device right | %3$s right | same bytes | largest difference |\n|---|---|---|---|---:|\n",
         "", "", device, "", 0);
    for (unsigned row = 0; row < count; row++)
        good += compare(workers, row, inputs, deadline, file);
    for (unsigned k = 0; k < 2; k++)
        end(&workers[k]);
    printf("foreign_gpu: inputs %llu: %u of %u kernels are right on both and agree, %.1f s\n",
           (unsigned long long)inputs, good, count, now() - begin);
    return good == count ? 0 : 1;
}

static int usage(void) {
    fprintf(stderr, "usage: foreign_gpu [--device cuda:N|cpu] [--inputs N] [--out FILE]\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *device = "cuda:0", *out = NULL;
    unsigned long inputs = 1;
    char none[] = "", *rest = none;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) return usage();
        if (!strcmp(argv[i], "--device"))
            device = argv[i + 1];
        else if (!strcmp(argv[i], "--out"))
            out = argv[i + 1];
        else if (strcmp(argv[i], "--inputs") != 0 || (inputs = strtoul(argv[i + 1], &rest, 10)) == 0 || *rest != '\0')
            return usage();
    }
    bool cpu = !strcmp(device, "cpu");
    long ordinal = !strncmp(device, "cuda:", 5) ? strtol(device + 5, &rest, 10) : 0;
    if (!cpu && strcmp(device, "cuda") != 0 &&
        (strncmp(device, "cuda:", 5) != 0 || *rest != '\0' || rest == device + 5 || ordinal < 0 || ordinal > 63))
        return usage();
    no_multicast_or_exit(device);
    struct worker workers[2] = {{.kind = "cpu"},
                                {.kind = cpu ? "cpu" : "cuda", .ordinal = (int)ordinal, .adverse = cpu}};
    struct report *reports = mmap(NULL, 2 * sizeof *reports, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FILE *file = out != NULL ? fopen(out, "w") : NULL;
    if (reports == MAP_FAILED || (out != NULL && file == NULL)) {
        fprintf(stderr, "foreign_gpu: cannot %s %s\n", out != NULL && file == NULL ? "write" : "share memory",
                out != NULL ? out : "");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    workers[0].report = &reports[0];
    workers[1].report = &reports[1];
    int code = run(workers, inputs, file);
    if (file != NULL && fclose(file) != 0) code = 1;
    return code;
}
