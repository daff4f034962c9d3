/* cmd_aot.c - dcpk aot: the kernels of many shapes, built in parallel, into one pack.
 *
 * shape_list.c says which specs, the generator builds them, the runtime's pack writer lays them down. Here: the order
 * of these steps, the progress line, the manifest and the report. */
#include "command.h"
#include "json_text.h"
#include "device_choice.h"
#include "shape_list.h"
#include "table.h"
#include "tool_error.h"

#include <dcpk/pack.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OPT_MODEL,
    OPT_TP,
    OPT_DCP,
    OPT_BATCH,
    OPT_Q,
    OPT_ARCH,
    OPT_FORM,
    OPT_SHAPES,
    OPT_JOBS,
    OPT_OUT,
    OPT_TEMPLATES,
    OPT_JSON
};
static const struct option_row options[] = {
    [OPT_MODEL] = {"model", 0, "MODEL,...", "presets ('dcpk ls models'); without one, heads=N among the keys"},
    [OPT_TP] = {"tp", 0, "LIST", "tensor-parallel sizes of the models: 8 or 4,8 (default 1)"},
    [OPT_DCP] = {"dcp", 0, "LIST", "ranks of a DCP group (default 1)"},
    [OPT_BATCH] = {"batch", 0, "LIST", "token rows of a launch: 1,2,16 or 1-64 or 8-64/8"},
    [OPT_Q] = {"q", 0, "LIST", "query rows of a request (default 1)"},
    [OPT_ARCH] = {"arch", 0, "ARCH,...", "architectures ('dcpk ls arch'; default sm_90a)"},
    [OPT_FORM] = {"form", 0, "push|fused|norm|check,...", "parts of a layer, as above (default: push,fused,norm)"},
    [OPT_SHAPES] = {"shapes", 0, "FILE", "more specs, one a line: KERNEL key=value..., # begins a comment"},
    [OPT_JOBS] = {"jobs", 'j', "N", "builds at a time (default: one a CPU, at most 16)"},
    [OPT_OUT] = {"output", 'o', "FILE", "the pack to write"},
    [OPT_TEMPLATES] = TEMPLATES_ROW,
    [OPT_JSON] = {"json", 0, NULL, "the report as JSON"},
};

/* One run. Index i of built and failures is that of list.specs. */
struct work {
    const struct command_line *line;
    dcpk_gen *gen;
    struct shape_list list;
    struct built {
        dcpk_image *image; /* a reference; NULL: failed, or not tried */
        dcpk_build_report report;
        char *failure; /* NULL: none */
    } * built;
    uint32_t done, failed, compiled;
    bool progress;
    uint64_t bytes; /* of the pack */
    double started;
};

/* ---- building ------------------------------------------------------------------------------------ */
/* Columns that one line may fill without going on in the next: the terminal's but one. */
static int progress_width(void) {
    enum { UNKNOWN = 80, MOST = 1000 };
    struct winsize size = {0};
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : UNKNOWN;
    return columns > MOST ? MOST : columns > 1 ? columns - 1 : 1;
}

/* One line that is written over, cut to the terminal. */
static void show_progress(const struct work *work, const char *spec) {
    char text[1024];
    int width = progress_width();
    snprintf(text, sizeof text, "%u of %u%s%s", work->done, work->list.spec_count, spec[0] != '\0' ? "  " : "", spec);
    text[width] = '\0';
    fprintf(stderr, "\r%*s\r", width, "");
    if (spec[0] != '\0') fputs(text, stderr);
    fflush(stderr);
}

static int32_t visit(void *self, const dcpk_warm_result *result) {
    struct work *work = self;
    struct built *built = &work->built[result->index];
    built->image = result->image;
    if (result->image != NULL) {
        dcpk_image_ref(result->image);
        if (result->report != NULL) built->report = *result->report;
        work->compiled += built->report.hit == 0;
    } else {
        built->failure = must(strdup(result->reason != NULL ? result->reason->text : "it was not built"));
        work->failed++;
    }
    work->done++;
    if (work->progress) show_progress(work, work->list.specs[result->index].text);
    return 0;
}

/* Where the spec was asked for, for messages: "FILE:LINE: " or "". */
static void origin(const struct work *work, uint32_t index, char *text, size_t capacity) {
    uint32_t number = work->list.specs[index].line;
    text[0] = '\0';
    if (number > 0) snprintf(text, capacity, "%s:%u: ", work->line->values[OPT_SHAPES], number);
}

static enum exit_code tell_failures(const struct work *work, const dcpk_error *error) {
    char where[512];
    for (uint32_t i = 0; i < work->list.spec_count; i++) {
        if (work->built[i].failure == NULL) continue;
        origin(work, i, where, sizeof where);
        complain(work->line, "%s%s: %s", where, work->list.specs[i].text, work->built[i].failure);
    }
    if (work->failed == 0) complain_error(error);
    complain(work->line, "%u of %u kernels failed: no pack is written", work->failed, work->list.spec_count);
    return exit_of_error(work->gen, error) == EXIT_MISSING ? EXIT_MISSING : EXIT_WORK;
}

static enum exit_code build(struct work *work, uint32_t jobs) {
    dcpk_error error;
    dcpk_error_init(&error);
    uint32_t count = work->list.spec_count;
    dcpk_spec *specs = must(calloc(count, sizeof *specs));
    work->built = must(calloc(count, sizeof *work->built));
    for (uint32_t i = 0; i < count; i++)
        specs[i] = work->list.specs[i].spec;
    dcpk_status status = dcpk_gen_warm(work->gen, specs, count, jobs, visit, work, &error);
    free(specs);
    if (work->progress) show_progress(work, "");
    return status == DCPK_OK && work->failed == 0 ? EXIT_DONE : tell_failures(work, &error);
}

/* ---- the pack ------------------------------------------------------------------------------------ */
static enum exit_code failed(const struct work *work, const dcpk_error *error) {
    complain_error(error);
    return exit_of_error(work->gen, error) == EXIT_MISSING ? EXIT_MISSING : EXIT_WORK;
}

static enum exit_code make_manifest(const struct work *work, char **manifest) {
    const char *toolchain = NULL;
    dcpk_text identity = {NULL, 0};
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = dcpk_gen_toolchain(work->gen, &toolchain, &error);
    if (status == DCPK_OK) status = dcpk_gen_identity(work->gen, &identity, &error);
    if (status != DCPK_OK) return failed(work, &error);
    if (asprintf(manifest, "%stoolchain %s\n%s", identity.data, toolchain, work->list.asked) < 0) *manifest = NULL;
    dcpk_text_free(&identity);
    must(*manifest);
    return EXIT_DONE;
}

static enum exit_code write_pack(struct work *work) {
    uint32_t count = work->list.spec_count;
    dcpk_error error;
    dcpk_error_init(&error);
    struct stat there;
    char *manifest = NULL;
    enum exit_code code = make_manifest(work, &manifest);
    if (code != EXIT_DONE) return code;
    dcpk_image **images = must(calloc(count, sizeof *images));
    for (uint32_t i = 0; i < count; i++)
        images[i] = work->built[i].image;
    const char *path = work->line->values[OPT_OUT];
    if (dcpk_pack_write(path, images, count, manifest, &error) != DCPK_OK)
        code = failed(work, &error);
    else if (stat(path, &there) == 0)
        work->bytes = (uint64_t)there.st_size;
    free(images);
    free(manifest);
    return code;
}

/* ---- the report ---------------------------------------------------------------------------------- */
static json_t *kernels_json(const struct work *work) {
    json_t *rows = must(json_array());
    for (uint32_t i = 0; i < work->list.spec_count; i++) {
        const struct built *built = &work->built[i];
        if (built->image == NULL) continue;
        json_array_append_new(rows,
                              must(json_pack("{s:s, s:s, s:b, s:I, s:f}", "spec", work->list.specs[i].text, "key",
                                             built->report.key, "compiled", built->report.hit == 0, "cubin_bytes",
                                             (json_int_t)built->report.cubin_bytes, "ms", built->report.total_ms)));
    }
    return rows;
}

static json_t *failures_json(const struct work *work) {
    json_t *rows = must(json_array());
    for (uint32_t i = 0; i < work->list.spec_count; i++)
        if (work->built[i].failure != NULL)
            json_array_append_new(rows, must(json_pack("{s:s, s:o}", "spec", work->list.specs[i].text, "reason",
                                                       json_text(work->built[i].failure))));
    return rows;
}

static json_t *skipped_json(const struct work *work) {
    json_t *rows = must(json_array());
    for (uint32_t i = 0; i < work->list.shape_count; i++) {
        const struct shape *shape = &work->list.shapes[i];
        char text[256];
        if (shape->status == DCPK_OK) continue;
        shape_text(shape, text, sizeof text);
        json_array_append_new(
            rows, must(json_pack("{s:o, s:o}", "shape", json_text(text), "reason", json_text(shape->reason))));
    }
    return rows;
}

static void report(const struct work *work, enum exit_code code) {
    double seconds = tool_now() - work->started;
    if (work->line->values[OPT_JSON] != NULL) {
        json_print(
            must(json_pack("{s:o, s:b, s:I, s:i, s:f, s:o, s:o, s:o}", "pack", json_text(work->line->values[OPT_OUT]),
                           "written", code == EXIT_DONE, "bytes", (json_int_t)work->bytes, "compiled",
                           (int)work->compiled, "seconds", seconds, "kernels", kernels_json(work), "failed",
                           failures_json(work), "skipped", skipped_json(work))),
            stdout);
        return;
    }
    if (code != EXIT_DONE) return;
    printf("%s: %u kernel%s, %llu bytes; %u compiled, %u found; ", work->line->values[OPT_OUT], work->list.spec_count,
           work->list.spec_count == 1 ? "" : "s", (unsigned long long)work->bytes, work->compiled,
           work->list.spec_count - work->compiled);
    if (work->list.shape_count > 0) printf("%u of %u shapes skipped; ", work->list.refused, work->list.shape_count);
    printf("%.1f s\n", seconds);
}

/* ---- the command --------------------------------------------------------------------------------- */
/* What can be known before minutes of building: the folder is there and may be written. */
static enum exit_code check_output(const struct command_line *line) {
    const char *path = line->values[OPT_OUT];
    const char *shapes = line->values[OPT_SHAPES];
    struct stat there;
    if (path == NULL || path[0] == '\0') return usage_error(line, "the pack goes to a file: -o FILE");
    if (strcmp(path, "-") == 0)
        return usage_error(line,
                           "a pack is not written to stdout: it is made whole beside its place and renamed, so it "
                           "goes to a file: -o FILE (./- is a file of that name)");
    if (shapes != NULL && output_is(path, shapes))
        return usage_error(line, "-o %s is the file of --shapes: the pack would take its place", path);
    char *folder = must(strdup(path)), *slash = strrchr(folder, '/');
    if (slash != NULL) slash[slash == folder] = '\0';
    enum exit_code code = EXIT_DONE;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) {
        complain(line, "cannot write '%s': it is there and is not a regular file", path);
        code = EXIT_WORK;
    } else if (access(slash != NULL ? folder : ".", W_OK | X_OK) != 0) {
        complain(line, "cannot write '%s': %s", path, strerror(errno));
        code = EXIT_WORK;
    }
    free(folder);
    return code;
}

static enum exit_code read_jobs(const struct command_line *line, uint32_t *jobs) {
    uint64_t value = 0;
    const char *text = line->values[OPT_JOBS];
    if (text != NULL && (!word_number(text, 1024, &value) || value == 0))
        return usage_error(line, "-j %s: a number of builds at a time, 1 to 1024", text);
    *jobs = (uint32_t)value;
    return EXIT_DONE;
}

static void work_free(struct work *work) {
    for (uint32_t i = 0; work->built != NULL && i < work->list.spec_count; i++) {
        dcpk_image_free(work->built[i].image);
        free(work->built[i].failure);
    }
    free(work->built);
    shape_list_free(&work->list);
    dcpk_gen_close(work->gen);
}

static enum exit_code run(const struct command_line *line) {
    const char *const *values = line->values;
    const struct shape_request request = {.models = values[OPT_MODEL],
                                          .tps = values[OPT_TP],
                                          .dcps = values[OPT_DCP],
                                          .batches = values[OPT_BATCH],
                                          .qs = values[OPT_Q],
                                          .archs = values[OPT_ARCH],
                                          .forms = values[OPT_FORM],
                                          .keys = line->words,
                                          .key_count = line->word_count,
                                          .file = values[OPT_SHAPES]};
    struct work work = {.line = line, .progress = isatty(STDERR_FILENO) == 1, .started = tool_now()};
    uint32_t jobs = 0;
    char with_checks[8192], *usual = NULL;
    if (shape_form_asked(values[OPT_FORM], SHAPE_CHECK))
        device_choice_templates(usual = with_checks, sizeof with_checks);
    enum exit_code code = check_output(line);
    if (code == EXIT_DONE) code = read_jobs(line, &jobs);
    unsetenv("DCPK_AOT_PATH"); /* a pack is made of builds, not of other packs */
    if (code == EXIT_DONE) code = open_gen_before(line, values[OPT_TEMPLATES], usual, &work.gen);
    if (code == EXIT_DONE) code = shape_list_make(line, work.gen, &request, &work.list);
    if (code == EXIT_DONE) {
        shape_list_skipped(line, &work.list);
        code = build(&work, jobs);
        if (code == EXIT_DONE) code = write_pack(&work);
        report(&work, code);
    }
    work_free(&work);
    return code;
}

const struct command command_aot = {
    .name = "aot",
    .operands = "[KEY=VALUE...]",
    .summary = "build the kernels of many shapes into one pack, for DCPK_AOT_PATH and dcpk_packs_open",
    .help =
        "Every combination of the lists is a shape; the pack gets what a layer of it needs (push: query_push, "
        "query_wait; fused:\nmla_query and, where it does not poll, query_wait; both: mla_decode, dcp_value; norm: "
        "query_norm;\ncheck: all that dcpk run launches, in every form of it, so that 'DCPK_AOT_PATH=F.dcpk dcpk run' "
        "checks the pack with\nno compiler). key=value words (cap=64 publish=multicast ...) hold for every kernel that "
        "takes the key. Combinations\nthat a rule refuses are named and skipped; it is an error when nothing is left, "
        "or when a line of the file is refused.\nThe same request, templates and compiler give the same bytes.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .run = run,
};
