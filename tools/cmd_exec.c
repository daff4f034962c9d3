/* cmd_exec.c - dcpk exec: one kernel of any PTX file, on either device, with numbers and files as its arguments.
 *
 * Needs the runtime alone: no generator is opened. */
#include "device_choice.h"
#include "exec_args.h"
#include "input_file.h"

#include <dcpk/module.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TEXT = 1 << 30 };
enum { OPT_ENTRY, OPT_GRID, OPT_BLOCK, OPT_SHARED, OPT_ARG, OPT_DEVICE, OPT_TIMEOUT };
static const struct option_row options[] = {
    [OPT_ENTRY] = {"entry", 'e', "NAME", "the kernel; may be left out where the file has one"},
    [OPT_GRID] = {"grid", 'g', "X[,Y,Z]", "CTAs (default 1)"},
    [OPT_BLOCK] = {"block", 'b', "X[,Y,Z]", "threads of a CTA (default 1)"},
    [OPT_SHARED] = {"shared", 's', "BYTES", "dynamic shared memory of a CTA (default 0)"},
    [OPT_ARG] = {"arg", 'a', "KIND:VALUE...", "an argument, as often as the kernel has parameters, in their order"},
    [OPT_DEVICE] = {"device", 'd', "cpu|cuda:N", "where to run (default: $DCPK_DEVICE, then cpu)"},
    [OPT_TIMEOUT] = {"timeout", 0, "SECONDS", "give up after this time (default 600)"},
};

struct job {
    const char *path;
    char *text; /* of the file */
    struct ptx_entries entries;
    const struct ptx_entry *entry;
    struct exec_args args;
    dcpk_module_launch_options launch;
    dcpk_device_words words; /* which device */
    uint64_t seconds;
    double ms; /* launch and wait */
};

/* ---- words ---- */
/* What a launch takes at most on any device. */
static const uint32_t most_grid[3] = {INT32_MAX, 65535, 65535}, most_block[3] = {1024, 1024, 64};
enum { MOST_THREADS = 1024 }; /* of a CTA, in all */

static bool read_sizes(const char *at, const uint32_t most[3], uint32_t out[3]) {
    for (unsigned i = 0; i < 3; i++) {
        char digits[16] = "";
        uint64_t value = 1;
        size_t length = strcspn(at, ",");
        if (length >= sizeof digits) return false;
        memcpy(digits, at, length);
        if ((i == 0 || *at != '\0') && (!word_number(digits, most[i], &value) || value == 0)) return false;
        out[i] = (uint32_t)value;
        at += length;
        if (*at == ',' && (i == 2 || *++at == '\0')) return false;
    }
    return true;
}

static enum exit_code read_dimensions(const struct command_line *line, struct job *job) {
    const char *grid = line->values[OPT_GRID] != NULL ? line->values[OPT_GRID] : "1";
    const char *block = line->values[OPT_BLOCK] != NULL ? line->values[OPT_BLOCK] : "1";
    uint32_t *b = job->launch.block;
    if (!read_sizes(grid, most_grid, job->launch.grid))
        return usage_error(line, "--grid %s: X, X,Y or X,Y,Z, each at least 1, at most %u,%u,%u", grid, most_grid[0],
                           most_grid[1], most_grid[2]);
    if (!read_sizes(block, most_block, b) || b[0] * b[1] * b[2] > MOST_THREADS)
        return usage_error(line,
                           "--block %s: X, X,Y or X,Y,Z, each at least 1, at most %u,%u,%u, and %d threads in all",
                           block, most_block[0], most_block[1], most_block[2], MOST_THREADS);
    return EXIT_DONE;
}

/* A byte that no text has: the parser of a driver would end there, or say something else of it. */
static enum exit_code look_at_bytes(const struct command_line *line, const struct job *job, uint64_t length) {
    unsigned row = 1;
    uint64_t begin = 0;
    for (uint64_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)job->text[i];
        if (byte == '\n') row++, begin = i + 1;
        if ((byte >= ' ' && byte != 0x7F) || (byte >= '\t' && byte <= '\r')) continue;
        complain(line,
                 "'%s', line %u, byte %llu of it (%llu of the file): 0x%02x is no character of a text: PTX is text",
                 job->path, row, (unsigned long long)(i - begin + 1), (unsigned long long)(i + 1), byte);
        return EXIT_WORK;
    }
    return EXIT_DONE;
}

static enum exit_code read_text(const struct command_line *line, struct job *job) {
    if (line->word_count != 1) return usage_error(line, "one PTX file is expected");
    job->path = line->words[0];
    char why[INPUT_WHY];
    uint64_t length;
    if (!input_file_read(job->path, MOST_TEXT, &job->text, &length, why)) {
        complain(line, "cannot read '%s': %s", job->path, why);
        return EXIT_WORK;
    }
    if (strstr(job->text, ".version") == NULL) {
        complain(line, "'%s' is no PTX: a text that begins with .version is expected", job->path);
        return EXIT_WORK;
    }
    return look_at_bytes(line, job, length);
}

static enum exit_code find_entry(const struct command_line *line, struct job *job) {
    const char *name = line->values[OPT_ENTRY];
    ptx_entries_read(job->text, &job->entries);
    if (name == NULL && job->entries.count == 1) name = job->entries.list[0].name;
    if (name != NULL) job->entry = ptx_entries_find(&job->entries, name);
    if (job->entry != NULL) return EXIT_DONE;
    if (job->entries.count == 0)
        complain(line, "'%s' has no entry", job->path);
    else if (name == NULL)
        complain(line, "--entry: '%s' has %zu entries:", job->path, job->entries.count);
    else
        complain(line, "'%s' has no entry '%s'; it has:", job->path, name);
    for (size_t i = 0; i < job->entries.count; i++)
        fprintf(stderr, "dcpk:   %s\n", job->entries.list[i].name);
    return EXIT_USAGE;
}

static enum exit_code read_device(const struct command_line *line, struct job *job) {
    struct device_choice choice;
    dcpk_error error;
    dcpk_error_init(&error);
    enum exit_code code = device_choice_read(line, line->values[OPT_DEVICE], NULL, "cpu", false, 1, &choice);
    job->words.size = sizeof job->words;
    if (code != EXIT_DONE || dcpk_device_words_read(choice.device, &job->words, &error) == DCPK_OK) return code;
    complain_error(&error);
    return EXIT_USAGE;
}

static enum exit_code read_line(const struct command_line *line, struct job *job) {
    uint64_t shared = 0;
    const char *bytes = line->values[OPT_SHARED], *seconds = line->values[OPT_TIMEOUT];
    job->seconds = 600;
    if (bytes != NULL && !word_number(bytes, INT32_MAX, &shared))
        return usage_error(line, "--shared %s: a number of bytes, at most %d; a device says what it takes", bytes,
                           INT32_MAX);
    if (seconds != NULL && (!word_number(seconds, 1000000, &job->seconds) || job->seconds == 0))
        return usage_error(line, "--timeout %s: 1 to 1000000 seconds", seconds);
    job->launch.size = sizeof job->launch;
    job->launch.dynamic_shared = (uint32_t)shared;
    enum exit_code code = read_dimensions(line, job);
    if (code == EXIT_DONE) code = read_device(line, job);
    if (code == EXIT_DONE) code = read_text(line, job);
    if (code == EXIT_DONE) code = find_entry(line, job);
    if (code == EXIT_DONE) code = exec_args_read(line, &job->args);
    if (code == EXIT_DONE) code = exec_args_fit(line, &job->args, job->entry);
    job->launch.entry = code == EXIT_DONE ? job->entry->name : NULL;
    return code;
}

/* ---- run ---- */
static void out_of_time(int signal_number) {
    static const char text[] = "dcpk: exec: the kernel is not done within --timeout: given up\n";
    (void)signal_number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(EXIT_WORK);
}

static dcpk_status launch_and_wait(struct job *job, dcpk_device *device, dcpk_module *module, dcpk_error *error) {
    void **params = must(calloc(job->args.count + 1, sizeof *params));
    for (size_t i = 0; i < job->args.count; i++)
        params[i] = exec_arg_value(&job->args.list[i]);
    struct timespec begin, end;
    dcpk_status status = dcpk_stream_create(device, &job->launch.stream, error);
    if (status == DCPK_OK) {
        job->launch.params = params;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        status = dcpk_module_launch(module, &job->launch, error);
        if (status == DCPK_OK) status = dcpk_stream_sync(device, job->launch.stream, error);
        clock_gettime(CLOCK_MONOTONIC, &end);
        job->ms = (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) * 1e-6;
        (void)dcpk_stream_destroy(device, job->launch.stream, NULL);
    }
    free(params);
    return status;
}

static dcpk_status run_on(struct job *job, dcpk_device *device, dcpk_error *error) {
    dcpk_module *module = NULL;
    dcpk_error after;
    dcpk_status status = dcpk_module_load(device, job->text, &module, error);
    if (status == DCPK_OK) status = exec_args_place(&job->args, device, error);
    if (status == DCPK_OK) status = launch_and_wait(job, device, module, error);
    dcpk_error_init(&after);
    dcpk_status collected = exec_args_collect(&job->args, device, status == DCPK_OK ? error : &after);
    (void)dcpk_module_free(module, NULL);
    return status == DCPK_OK ? collected : status;
}

static enum exit_code run_job(const struct command_line *line, struct job *job) {
    dcpk_device *device = NULL;
    dcpk_device_info info = {.size = sizeof info};
    dcpk_error error;
    dcpk_error_init(&error);
    const dcpk_device_options wanted = {.size = sizeof wanted,
                                        .kind = job->words.kind,
                                        .ordinal = job->words.count > 0 ? job->words.list[0] : 0,
                                        .pdl = -1,
                                        .multicast = -1};
    dcpk_status status = dcpk_device_open(&wanted, &device, &error);
    if (status != DCPK_OK) {
        complain_error(&error);
        return error.code == DCPK_E_ARG ? EXIT_USAGE : EXIT_MISSING;
    }
    (void)dcpk_device_get_info(device, &info, NULL);
    signal(SIGALRM, out_of_time);
    alarm((unsigned)job->seconds);
    status = run_on(job, device, &error);
    alarm(0);
    dcpk_device_close(device);
    if (status != DCPK_OK) {
        complain(line, "%s of '%s' on %s:%d (%s) failed", job->entry->name, job->path, info.kind, info.ordinal,
                 info.name);
        complain_error(&error);
        return exit_of_error(NULL, &error);
    }
    enum exit_code code = exec_args_write(line, &job->args);
    if (code != EXIT_DONE) return code;
    const uint32_t *g = job->launch.grid, *b = job->launch.block;
    bool taken = false; /* stdout is a buffer's */
    for (size_t i = 0; i < job->args.count; i++)
        taken |= job->args.list[i].path != NULL && strcmp(job->args.list[i].path, "-") == 0;
    fprintf(taken ? stderr : stdout, "%s on %s:%d (%s): %u x %u x %u CTAs of %u x %u x %u threads, %.3f ms\n",
            job->entry->name, info.kind, info.ordinal, info.name, g[0], g[1], g[2], b[0], b[1], b[2], job->ms);
    return EXIT_DONE;
}

static enum exit_code run(const struct command_line *line) {
    struct job job = {.path = NULL};
    enum exit_code code = read_line(line, &job);
    if (code == EXIT_DONE) code = run_job(line, &job);
    exec_args_free(&job.args);
    ptx_entries_free(&job.entries);
    free(job.text);
    return code;
}

#define X(id, name, form, bytes, meaning) "  " name ":" form "  " meaning "\n"
const struct command command_exec = {
    .name = "exec",
    .operands = "FILE.ptx",
    .summary = "run one kernel of a PTX file, with numbers and files as arguments",
    .help = "Arguments, one --arg a parameter of the kernel:\n"
#include "exec_args.def"
            "Files of 'out' and 'inout' are written when the kernel is done, whole or not at all; '-' is stdout. The\n"
            "driver of a GPU assembles the PTX; the CPU device interprets it. What ran, where and how long goes to\n"
            "stdout, or to stderr beside a buffer.\n"
            "Exit codes: 0 done; 1 a file cannot be read or written, or the device refuses the PTX or the launch, "
            "faults, or is\n"
            "not done in time; 2 words that cannot be read, or do not fit the kernel's parameters; 3 there is no such "
            "device.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
#undef X
