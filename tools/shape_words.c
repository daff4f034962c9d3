/* shape_words.c - lists as a command line writes them: numbers with ranges, names between commas. */
#include "shape_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ------------------------------------------------------------------------------------- */
struct range {
    uint64_t first, last, step;
};

/* "5", "1-64" or "8-64/8"; text is changed. */
static bool read_range(char *text, int32_t most, struct range *range) {
    char *slash = strchr(text, '/'), *dash = strchr(text, '-');
    range->step = 1;
    if (slash != NULL) {
        if (dash == NULL || dash > slash) return false;
        *slash = '\0';
        if (!word_number(slash + 1, (uint64_t)most, &range->step) || range->step == 0) return false;
    }
    if (dash != NULL) *dash = '\0';
    if (!word_number(text, (uint64_t)most, &range->first) || range->first == 0) return false;
    range->last = range->first;
    return dash == NULL || (word_number(dash + 1, (uint64_t)most, &range->last) && range->last >= range->first);
}

static enum exit_code bad_numbers(const struct command_line *line, const char *option, const char *text, int32_t most,
                                  const char *more) {
    return usage_error(line, "--%s %s: numbers from 1 to %d, as 1,2,16 or with ranges 1-64 and 8-64/8%s", option, text,
                       most, more);
}

enum exit_code shape_numbers(const struct command_line *line, const char *option, const char *text, int32_t most,
                             const char *more, int32_t **values, size_t *count) {
    bool *wanted = must(calloc((size_t)most + 1, sizeof *wanted)), good = true;
    char *copy = must(strdup(text));
    for (char *item = copy, *next; good && item != NULL; item = next) {
        struct range range = {0, 0, 1};
        next = strchr(item, ',');
        if (next != NULL) *next++ = '\0';
        good = read_range(item, most, &range);
        for (uint64_t n = range.first; good && n <= range.last; n += range.step)
            wanted[n] = true;
    }
    free(copy);
    *values = good ? must(calloc((size_t)most, sizeof **values)) : NULL;
    *count = 0;
    for (int32_t n = 1; good && n <= most; n++)
        if (wanted[n]) (*values)[(*count)++] = n;
    free(wanted);
    return good ? EXIT_DONE : bad_numbers(line, option, text, most, more);
}

char *shape_numbers_text(const int32_t *values, size_t count) {
    size_t room = 12 * count + 1, used = 0;
    char *text = must(calloc(room, 1));
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && values[end] == values[end - 1] + 1; end++)
            ;
        if (end - i < 3) end = i + 1;
        used += (size_t)snprintf(text + used, room - used, "%s%d", i > 0 ? "," : "", values[i]);
        if (end - i > 1) used += (size_t)snprintf(text + used, room - used, "-%d", values[end - 1]);
    }
    return text;
}

/* ---- names --------------------------------------------------------------------------------------- */
static void insert(struct shape_names *names, const char *name, int (*rank)(const char *name)) {
    size_t at = 0;
    for (; at < names->count; at++) {
        int order =
            rank(name) != rank(names->names[at]) ? rank(name) - rank(names->names[at]) : strcmp(name, names->names[at]);
        if (order == 0) return;
        if (order < 0) break;
    }
    names->names = must(realloc(names->names, (names->count + 1) * sizeof *names->names));
    memmove(&names->names[at + 1], &names->names[at], (names->count - at) * sizeof *names->names);
    names->names[at] = must(strdup(name));
    names->count++;
}

enum exit_code shape_names(const struct command_line *line, const char *option, const char *text,
                           int (*rank)(const char *name), const char *allowed, struct shape_names *names) {
    enum exit_code code = EXIT_DONE;
    char *copy = must(strdup(text));
    for (char *item = copy, *next; code == EXIT_DONE && item != NULL; item = next) {
        next = strchr(item, ',');
        if (next != NULL) *next++ = '\0';
        if (item[0] == '\0' || rank(item) < 0)
            code = usage_error(line, "--%s %s: '%s' is none of: %s", option, text, item, allowed);
        else
            insert(names, item, rank);
    }
    free(copy);
    return code;
}

void shape_names_free(struct shape_names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
    *names = (struct shape_names){NULL, 0};
}
