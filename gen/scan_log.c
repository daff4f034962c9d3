/* scan_log.c - a compiler's log, message by message, with PTX lines turned into template lines.
 * Owns what dcpk knows of the log's form: "ptxas FILE, line N; error   : TEXT". Knows nothing of processes. */
#include "gen/toolchain.h"

#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MESSAGES = 20, MESSAGE = 400 };

/* The PTX line that a log line is about, 0 when it names none; *rest: what follows "; ". */
static uint32_t ptx_line_of(const char *line, const char **rest) {
    static const char word[] = ", line ";
    const char *at = strstr(line, word);
    if (!at || strncmp(line, "ptxas ", 6) != 0) return 0;
    char *end;
    unsigned long number = strtoul(at + sizeof word - 1, &end, 10);
    if (number == 0 || number > UINT32_MAX || *end != ';') return 0;
    *rest = end + 1 + strspn(end + 1, " ");
    return (uint32_t)number;
}

/* "error   : Unknown symbol" -> "error: Unknown symbol". */
static void tidy(const char *text, char *out, size_t capacity) {
    const char *colon = strchr(text, ':');
    size_t kind = strcspn(text, " :");
    if (colon && strspn(text + kind, " ") == (size_t)(colon - text) - kind)
        snprintf(out, capacity, "%.*s:%s", (int)kind, text, colon + 1);
    else
        snprintf(out, capacity, "%s", text);
}

static void blame(const struct expansion *expansion, uint32_t ptx_line, const char *message, dcpk_error *error) {
    char file[sizeof error->template_file];
    uint32_t line = error->template_line;
    memcpy(file, error->template_file, sizeof file);
    expansion_blame(expansion, ptx_line, message, error);
    if (line != 0) { /* the first one keeps the error's own fields */
        error->template_line = line;
        memcpy(error->template_file, file, sizeof file);
    }
}

void scan_log(const struct expansion *expansion, const char *log, dcpk_error *error) {
    int messages = 0;
    while (error && *log && messages < MAX_MESSAGES) {
        char line[MESSAGE], message[MESSAGE];
        size_t length = strcspn(log, "\n");
        const char *rest = line;
        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), log);
        log += length + (log[length] == '\n');
        if (line[strspn(line, " \t\r")] == '\0') continue;
        uint32_t ptx_line = ptx_line_of(line, &rest);
        messages++;
        if (ptx_line != 0 && ptx_line <= expansion->ptx_lines) {
            tidy(rest, message, sizeof message);
            dcpk_error_append(error, "\n");
            blame(expansion, ptx_line, message, error);
        } else
            dcpk_error_append(error, "\n%s", line);
    }
    if (error && *log) dcpk_error_append(error, "\n(more lines follow)");
}
