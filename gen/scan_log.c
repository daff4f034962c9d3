/* scan_log.c - a compiler's log, message by message, with lines of the text turned into template lines.
 * Owns what dcpk knows of the logs' forms. Knows nothing of processes.
 *   about PTX: "ptxas FILE, line N; error   : TEXT" (FILE is "application ptx input" in nvJitLink and the driver)
 *   NVRTC:     "FILE(N): error: TEXT", lines of detail, the source line, a line with ^
 *              "At end of source: error: TEXT" */
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

/* The line of CUDA C++, 0 when the log line names none; *rest: what follows "): ". */
static uint32_t cuda_line_of(const char *line, const char **rest) {
    const char *open = line[0] != ' ' ? strchr(line, '(') : NULL;
    if (!open) return 0;
    char *end;
    unsigned long number = strtoul(open + 1, &end, 10);
    if (end == open + 1 || number == 0 || number > UINT32_MAX || strncmp(end, "): ", 3) != 0) return 0;
    *rest = end + 3;
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

static void blame(const struct expansion *expansion, uint32_t line_number, const char *message, dcpk_error *error) {
    char file[sizeof error->template_file];
    uint32_t line = error->template_line;
    memcpy(file, error->template_file, sizeof file);
    expansion_blame(expansion, line_number, message, error);
    if (line != 0) { /* the first one keeps the error's own fields */
        error->template_line = line;
        memcpy(error->template_file, file, sizeof file);
    }
}

/* Copies one line; returns the rest of the log. */
static const char *next_line(const char *log, char *line, size_t capacity) {
    size_t length = strcspn(log, "\n");
    snprintf(line, capacity, "%.*s", (int)(length < capacity ? length : capacity - 1), log);
    return log + length + (log[length] == '\n');
}

static bool is_caret(const char *line) {
    size_t blanks = strspn(line, " \t");
    return line[blanks] == '^' && line[blanks + 1 + strspn(line + blanks + 1, "~ ")] == '\0';
}

/* Appends the detail of an NVRTC message to it and passes over the source line and its caret: the blame shows it. */
static const char *take_detail(const char *log, char *message, size_t capacity) {
    char line[MESSAGE], next[MESSAGE];
    while (*log == ' ') {
        const char *rest = next_line(log, line, sizeof line);
        next_line(rest, next, sizeof next);
        if (is_caret(next)) return next_line(rest, next, sizeof next);
        size_t used = strlen(message);
        snprintf(message + used, capacity - used, "\n    %s", line + strspn(line, " "));
        log = rest;
    }
    return log;
}

void scan_log(const struct expansion *expansion, const char *log, dcpk_error *error) {
    bool cuda = expansion->language == EXPANSION_CUDA;
    int messages = 0;
    while (error && *log && messages < MAX_MESSAGES) {
        char line[MESSAGE], message[2 * MESSAGE];
        const char *rest = line;
        log = next_line(log, line, sizeof line);
        if (line[strspn(line, " \t\r")] == '\0') continue;
        if (cuda && strncmp(line, "Remark: ", 8) == 0) continue; /* how to hush a warning: not by an option here */
        uint32_t number = cuda ? cuda_line_of(line, &rest) : ptx_line_of(line, &rest);
        if (cuda && strncmp(line, "At end of source: ", 18) == 0) number = expansion->ptx_lines;
        messages++;
        if (number != 0 && number <= expansion->ptx_lines) {
            tidy(rest, message, sizeof message);
            if (cuda) log = take_detail(log, message, sizeof message);
            dcpk_error_append(error, "\n");
            blame(expansion, number, message, error);
        } else
            dcpk_error_append(error, "\n%s", line);
    }
    if (error && *log) dcpk_error_append(error, "\n(more lines follow)");
}

void scan_warnings(const struct expansion *expansion, const char *kernel, const char *log,
                   const struct notice *notice) {
    dcpk_error text;
    dcpk_error_init(&text);
    if (log[strspn(log, " \t\r\n")] == '\0') return;
    dcpk_error_set(&text, DCPK_E_TOOLCHAIN, "%s: the compiler says:", kernel);
    scan_log(expansion, log, &text);
    notice_log(notice, DCPK_LOG_WARNING, "%s", text.text);
}
