/* nearest.c - see nearest.h. Pure: no state, no allocation. */
#include "runtime/nearest.h"

#include "runtime/keys.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool differs(const dcpk_spec *a, const dcpk_spec *b, const struct dcpk_key_row *row) {
    return dcpk_key_taken(a->kernel, row) && dcpk_key_get(a, row) != dcpk_key_get(b, row);
}

static void measure(const dcpk_spec *wanted, struct nearest_one *one) {
    one->keys = strcmp(wanted->arch, one->spec.arch) != 0;
    one->distance = 0;
    for (size_t i = 0; i < dcpk_key_row_count; i++) {
        const struct dcpk_key_row *row = &dcpk_key_rows[i];
        if (!differs(wanted, &one->spec, row)) continue;
        int64_t step = (int64_t)dcpk_key_get(wanted, row) - dcpk_key_get(&one->spec, row);
        one->keys++;
        one->distance += row->words != NULL ? 1 : (uint64_t)(step < 0 ? -step : step);
    }
}

/* Whether a is nearer than b; what no measure orders, the text does, so that the result does not depend on the order
 * of offers. 0: the same spec. */
static int compare(const struct nearest_one *a, const struct nearest_one *b) {
    if (a->keys != b->keys) return a->keys < b->keys ? -1 : 1;
    if (a->distance != b->distance) return a->distance < b->distance ? -1 : 1;
    char left[1024], right[1024];
    dcpk_spec_format(&a->spec, left, sizeof left);
    dcpk_spec_format(&b->spec, right, sizeof right);
    return strcmp(left, right);
}

void nearest_begin(struct nearest *nearest, const dcpk_spec *wanted) {
    memset(nearest, 0, sizeof *nearest);
    nearest->wanted = *wanted;
}

void nearest_offer(struct nearest *nearest, const char *spec) {
    struct nearest_one one;
    size_t name = strlen(nearest->wanted.kernel);
    nearest->offered++;
    if (strncmp(spec, nearest->wanted.kernel, name) != 0 || (spec[name] != ' ' && spec[name] != '\0')) return;
    if (dcpk_spec_parse(&one.spec, spec, NULL) != DCPK_OK) return; /* another version's, perhaps */
    measure(&nearest->wanted, &one);
    uint32_t at = 0;
    for (; at < nearest->count; at++) {
        int order = compare(&one, &nearest->found[at]);
        if (order == 0) return;
        if (order < 0) break;
    }
    if (at == NEAREST_MOST) return;
    if (nearest->count < NEAREST_MOST) nearest->count++;
    memmove(&nearest->found[at + 1], &nearest->found[at], (nearest->count - at - 1) * sizeof one);
    nearest->found[at] = one;
}

/* A text that is cut, never overrun. */
struct line {
    char *text;
    size_t used, capacity;
};

static void add(struct line *line, const char *format, const char *name, int length, const char *value) {
    if (line->used + 1 >= line->capacity) return;
    int n = snprintf(line->text + line->used, line->capacity - line->used, format, name, length, value);
    if (n > 0) line->used += (size_t)n;
    if (line->used >= line->capacity) line->used = line->capacity - 1;
}

/* " key=value" of spec for each key in which both differ. */
static void add_keys(struct line *line, const dcpk_spec *spec, const dcpk_spec *other) {
    if (strcmp(spec->arch, other->arch) != 0) add(line, " %s=%.*s", "arch", (int)strlen(spec->arch), spec->arch);
    for (size_t i = 0; i < dcpk_key_row_count; i++) {
        const struct dcpk_key_row *row = &dcpk_key_rows[i];
        char number[DCPK_KEY_TEXT];
        const char *text = "unset";
        if (!differs(spec, other, row)) continue;
        int32_t value = dcpk_key_get(spec, row);
        int length = value == DCPK_UNSET ? (int)strlen(text) : (int)dcpk_key_text(row, value, number, &text);
        add(line, " %s=%.*s", row->name, length, text);
    }
}

void nearest_text(const struct nearest *nearest, char *text, size_t capacity) {
    if (capacity == 0) return;
    if (nearest->count == 0) {
        if (nearest->offered == 0)
            snprintf(text, capacity, "there are no entries");
        else
            snprintf(text, capacity, "none of %u entries is of kernel %s", nearest->offered, nearest->wanted.kernel);
        return;
    }
    struct line line = {text, 0, capacity};
    int n = snprintf(text, capacity, "nearest of %u entr%s:", nearest->offered, nearest->offered == 1 ? "y" : "ies");
    line.used = n > 0 && (size_t)n < capacity ? (size_t)n : capacity - 1;
    for (uint32_t i = 0; i < nearest->count; i++) {
        const dcpk_spec *spec = &nearest->found[i].spec;
        add(&line, "\n %s%.*s", nearest->found[i].keys == 0 ? " this spec, made otherwise" : "", 0, "");
        add_keys(&line, spec, &nearest->wanted);
        if (nearest->found[i].keys > 0) add(&line, "%s%.*s", ", not", 0, "");
        add_keys(&line, &nearest->wanted, spec);
    }
}
