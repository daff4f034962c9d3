/* nvrtc_lines.c - owns the reading of NVRTC's PTX: which line of CUDA C++, and so of the template, each line is of;
 * what version and target it declares; and what is left out of it (.loc, .file, debug sections: they hold folders, and
 * debug lines are made anew from the line map where lineinfo=1 asks). Must not know NVRTC. */
#include "gen/nvrtc.h"

#include "gen/emit.h"
#include "gen/lineinfo.h"
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 256 };

struct reader {
    const struct expansion *cuda; /* whose text was compiled */
    struct emitter head, body;
    bool in_body;           /* behind .address_size */
    int skip;               /* open braces of a debug section; -1: its { is still to come; 0: outside */
    const char *ahead;      /* where look_ahead stopped last */
    struct writers writers; /* of the lines that follow */
    unsigned version;       /* .version * 10 */
    char target[16];
    const char *wrong;
};

/* Whether the line begins with the words, and not with a longer one: .loc is not .local. */
static bool begins(const char *line, const char *words) {
    size_t length = strlen(words);
    return strncmp(line, words, length) == 0 && (line[length] == '\0' || strchr(" \t\r\n{", line[length]) != NULL);
}

static void add_writer(struct reader *r, uint32_t file, uint32_t line) {
    if (r->writers.count < EMIT_MAX_FRAMES) r->writers.stack[r->writers.count++] = (struct line_frame){file, line};
}

/* Line `number` of the CUDA C++: who wrote it in the template, and who called the helper. */
static void add_origin(struct reader *r, unsigned long number) {
    if (number == 0 || number > r->cuda->ptx_lines) return;
    const struct line_origin *origin = &r->cuda->origins[number - 1];
    add_writer(r, origin->file, origin->line);
    for (uint32_t i = 0; i < origin->frame_count; i++)
        add_writer(r, r->cuda->frames[origin->frame_first + i].file, r->cuda->frames[origin->frame_first + i].line);
}

/* The line's beginning: what may be scanned without a look at all that follows it. */
static void copy_line(const char *text, char line[LINE]) {
    size_t length = 0;
    for (; length < LINE - 1 && text[length] != '\0' && text[length] != '\n'; length++)
        line[length] = text[length];
    line[length] = '\0';
}

/* ".loc FILE LINE COLUMN[, function_name LABEL, inlined_at FILE LINE COLUMN]". Line 0 is nobody's: what was said before
 * holds. There is one file: nothing is included. */
static void read_loc(struct reader *r, const char *text) {
    unsigned long number = 0, outer = 0;
    char line[LINE];
    copy_line(text, line);
    const char *inlined = strstr(line, "inlined_at ");
    if (sscanf(line, ".loc %*u %lu", &number) != 1 || number == 0) return;
    r->writers.count = 0;
    add_origin(r, number);
    if (inlined && sscanf(inlined, "inlined_at %*u %lu", &outer) == 1) add_origin(r, outer);
    if (r->writers.count == 0) add_writer(r, 0, 1);
}

/* Whether a line that begins so, behind its blanks, ends the search for a function's first .loc. */
static bool stops(const char *first) {
    return *first == '\0' || (*first == '}' && first[-1] == '\n') || begins(first, ".loc");
}

/* A function's header stands before its first .loc, which says where it begins. Looks at each line once, however many
 * headers stand above it. */
static void look_ahead(struct reader *r, const char *text) {
    while (r->ahead < text || !stops(r->ahead)) {
        const char *line = r->ahead < text ? text : r->ahead, *newline = strchr(line, '\n');
        if (!newline) newline = line + strlen(line) - 1;
        r->ahead = newline + 1 + strspn(newline + 1, " \t");
    }
    if (begins(r->ahead, ".loc")) read_loc(r, r->ahead);
}

static void put(struct reader *r, const char *line, size_t length) {
    struct emitter *to = r->in_body ? &r->body : &r->head;
    if (!r->wrong) r->wrong = emitter_line(to, line, length, 0, &r->writers);
}

/* Whether the line is debug information. */
static bool skipped(struct reader *r, const char *line) {
    if (begins(line, ".section")) r->skip = -1;
    if (r->skip != 0) {
        if (*line == '{') r->skip = 1;
        if (*line == '}') r->skip = 0;
        return true;
    }
    return begins(line, ".file");
}

static void read_head(struct reader *r, const char *line) {
    unsigned major, minor;
    char text[LINE];
    if (!begins(line, ".version") && !begins(line, ".target")) return;
    copy_line(line, text);
    if (sscanf(text, ".version %3u.%3u", &major, &minor) == 2) r->version = major * 10 + minor;
    sscanf(text, ".target %15[a-z0-9_]", r->target);
}

/* The lines that tell what this is: as the expander's. */
static void put_title(struct reader *r, const dcpk_spec *spec) {
    char text[1024], line[1100];
    dcpk_spec_format(spec, text, sizeof text);
    int length = snprintf(line, sizeof line, "// dcpk: %s", spec->kernel);
    put(r, line, (size_t)length);
    length = snprintf(line, sizeof line, "// %s", text);
    put(r, line, (size_t)length);
}

static void read_all(struct reader *r, const char *ptx) {
    while (*ptx != '\0' && !r->wrong) {
        size_t length = strcspn(ptx, "\n");
        const char *first = ptx + strspn(ptx, " \t");
        if (!r->in_body) read_head(r, first);
        if (begins(first, ".loc"))
            read_loc(r, first);
        else if (!skipped(r, first)) {
            if (begins(first, ".visible .entry") || begins(first, ".entry") || begins(first, ".func") ||
                begins(first, ".visible .func") || begins(first, ".weak .func"))
                look_ahead(r, first);
            put(r, ptx, length);
        }
        r->in_body = r->in_body || begins(first, ".address_size");
        ptx += length + (ptx[length] == '\n');
    }
}

static dcpk_status take(struct reader *r, struct expansion *x, const dcpk_spec *spec, dcpk_error *error) {
    if (r->version == 0 || r->target[0] == '\0')
        return dcpk_error_set(error, DCPK_E_TOOLCHAIN, "%s: what NVRTC wrote has no .version or .target line",
                              spec->kernel);
    if (r->version < x->ptx_version)
        return dcpk_error_set(error, DCPK_E_TOOLCHAIN,
                              "%s: the template needs PTX %u.%u and this NVRTC writes %u.%u: use a newer one",
                              spec->kernel, x->ptx_version / 10, x->ptx_version % 10, r->version / 10, r->version % 10);
    if (!r->wrong && spec->lineinfo == 1)
        r->wrong = lineinfo_append(&r->head, &r->body, x->files, x->file_count);
    else if (!r->wrong)
        r->wrong = emitter_append(&r->head, &r->body);
    if (r->wrong) return dcpk_error_set(error, DCPK_E_NOMEM, "%s: %s", spec->kernel, r->wrong);
    free(x->ptx);
    free(x->origins);
    free(x->frames);
    x->language = EXPANSION_COMPILED;
    x->ptx = r->head.text;
    x->ptx_length = r->head.length;
    x->ptx_lines = r->head.lines;
    x->ptx_version = r->version;
    memcpy(x->target, r->target, sizeof x->target);
    x->origins = r->head.origins;
    x->frames = r->head.frames;
    x->frame_count = r->head.frame_count;
    r->head = (struct emitter){0};
    return DCPK_OK;
}

dcpk_status nvrtc_take_ptx(struct expansion *x, const dcpk_spec *spec, const char *ptx, dcpk_error *error) {
    struct reader r = {.cuda = x, .ahead = ptx, .writers = {.stack = {{0, 1}}, .count = 1}};
    put_title(&r, spec);
    read_all(&r, ptx);
    dcpk_status status = take(&r, x, spec, error);
    emitter_free(&r.head);
    emitter_free(&r.body);
    return status;
}
