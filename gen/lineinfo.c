/* lineinfo.c - owns the debug lines of lineinfo=1. File names are path-free: the PTX stays the same in every folder. So
 * does the cubin: each .file says a time and a size, or else the compilers look whether the current folder has a file
 * of that name and write its own into the cubin (a time of 0 counts as none). */
#include "gen/lineinfo.h"

#include <stdio.h>
#include <string.h>

/* Instructions begin with a small letter or a guard; declarations, labels, braces and comments do not. */
static bool instruction(const char *line, size_t length) {
    size_t first = strspn(line, " \t");
    return first < length && (line[first] == '@' || (line[first] >= 'a' && line[first] <= 'z'));
}

static bool begins(const char *line, const char *word) {
    return strncmp(line, word, strlen(word)) == 0;
}

static const char *put_files(struct emitter *whole, const struct source_file *files, uint32_t count) {
    const struct writers first = {.stack = {{0, 1}}, .count = 1};
    char line[192];
    const char *wrong = NULL;
    for (uint32_t i = 0; i < count && wrong == NULL; i++) {
        int length = snprintf(line, sizeof line, ".file %u \"%s\", 1, 1", i + 1, files[i].name);
        wrong = emitter_line(whole, line, (size_t)length, 0, &first);
    }
    return wrong;
}

const char *lineinfo_append(struct emitter *whole, const struct emitter *body, const struct source_file *files,
                            uint32_t count) {
    const struct line_origin *last = NULL;
    const char *at = body->text, *wrong = put_files(whole, files, count);
    bool inside = false; /* an entry: from its header to the } in the first column */
    char line[64];
    for (uint32_t i = 0; i < body->lines && wrong == NULL; i++) {
        const struct line_origin *origin = &body->origins[i];
        size_t length = strcspn(at, "\n");
        if (begins(at, ".visible .entry"))
            inside = true;
        else if (length == 1 && *at == '}')
            inside = false;
        if (!inside) last = NULL;
        if (inside && instruction(at, length) &&
            (last == NULL || last->file != origin->file || last->line != origin->line)) {
            int used = snprintf(line, sizeof line, "    .loc %u %u 0", origin->file + 1, origin->line);
            wrong = emitter_copy(whole, line, (size_t)used, body, i);
            last = origin;
        }
        if (wrong == NULL) wrong = emitter_copy(whole, at, length, body, i);
        at += length + 1;
    }
    return wrong;
}
