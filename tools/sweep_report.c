/* sweep_report.c - what a sweep came to: one row a kernel and point, then what the figures mean.
 * May call: table.h, jansson. Must not: run anything; it knows rows as results.jsonl has them. */
#include <tools/sweep.h>
#include <tools/json_text.h>
#include <tools/table.h>

#include <stdlib.h>
#include <string.h>

static const struct column hardware_columns[] = {
    {"kernel", "kernel"},           {"point", "point"},          {"verdict", "verdict"},
    {"registers", "registers"},     {"error", "error"},          {"bound", "bound"},
    {"relative_error", "relative"}, {"relative_bound", "bound"}, {"us", "us"},
    {"floor_us", "floor us"},       {"ratio", "x floor"}};
static const struct column cpu_columns[] = {
    {"kernel", "kernel"},           {"point", "point"},          {"verdict", "verdict"},
    {"registers", "registers"},     {"error", "error"},          {"bound", "bound"},
    {"relative_error", "relative"}, {"relative_bound", "bound"}, {"thread_instructions", "instructions"}};

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static void add_number(struct table *table, const char *format, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (json_is_number(value))
        table_number(table, format, json_number_value(value));
    else
        table_none(table);
}

static void add_integer(struct table *table, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (json_is_integer(value))
        table_integer(table, json_integer_value(value));
    else
        table_none(table);
}

/* Whether a spec has the word, which is not ended by a NUL. */
static bool has_word(const char *spec, const char *word, size_t length) {
    for (const char *at = strchr(spec, ' '); at != NULL; at = strchr(at + 1, ' '))
        if (strncmp(at + 1, word, length) == 0 && (at[1 + length] == ' ' || at[1 + length] == '\0')) return true;
    return false;
}

/* The kernel, with poll, and with every key that tells it from another of its name at this point. */
static void name_kernel(const json_t *kernels, const json_t *kernel, char *name, size_t capacity) {
    const char *spec = text_of(kernel, "spec");
    size_t used = (size_t)snprintf(name, capacity, "%s", text_of(kernel, "kernel")), i;
    for (const char *at = strchr(spec, ' '); at != NULL && used < capacity; at = strchr(at + 1, ' ')) {
        size_t length = strcspn(at + 1, " ");
        bool shown = strncmp(at, " poll=", 6) == 0;
        const json_t *other;
        for (i = 0; i < json_array_size(kernels) && !shown; i++) {
            other = json_array_get(kernels, i);
            shown = strcmp(text_of(other, "kernel"), text_of(kernel, "kernel")) == 0 &&
                    !has_word(text_of(other, "spec"), at + 1, length);
        }
        if (shown) used += (size_t)snprintf(name + used, capacity - used, " %.*s", (int)length, at + 1);
    }
}

static void add_kernel(struct table *table, const char *point, const char *state, const json_t *kernels,
                       const json_t *kernel, bool cuda) {
    char name[256];
    const char *verdict = text_of(kernel, "verdict");
    name_kernel(kernels, kernel, name, sizeof name);
    table_text(table, name);
    table_text(table, point);
    table_text(table, verdict[0] != '\0' ? verdict : state);
    add_integer(table, kernel, "registers");
    add_number(table, "%.3g", kernel, "error");
    add_number(table, "%.3g", kernel, "bound");
    add_number(table, "%.3g", kernel, "relative");
    add_number(table, "%.3g", kernel, "relative_bound");
    if (cuda) {
        add_number(table, "%.2f", kernel, "us");
        add_number(table, "%.2f", kernel, "floor_us");
        add_number(table, "%.2f", kernel, "ratio");
    } else {
        add_integer(table, kernel, "thread_instructions");
    }
}

/* The layer as a whole; a point without one has its state here. */
static void add_layer(struct table *table, const char *point, const json_t *row, bool cuda) {
    const json_t *layer = json_object_get(row, "layer");
    table_text(table, "layer");
    table_text(table, point);
    table_text(table, text_of(row, "state"));
    table_none(table);
    add_number(table, "%.3g", layer, "cosine");
    add_number(table, "%.3g", layer, "cosine_bound");
    add_number(table, "%.3g", layer, "output");
    add_number(table, "%.3g", layer, "output_bound");
    if (cuda) {
        add_number(table, "%.2f", row, "step_us");
        table_none(table);
    }
    table_none(table);
}

static const json_t *row_of(const struct sweep_store *store, const struct sweep_point *point, char text[POINT_TEXT]) {
    sweep_point_text(point, text);
    return json_object_get(store->rows, text);
}

static struct table *make_table(const struct sweep_store *store, const struct sweep_points *points, bool cuda) {
    const struct column *columns = cuda ? hardware_columns : cpu_columns;
    struct table *table =
        table_new(columns, cuda ? sizeof hardware_columns / sizeof *columns : sizeof cpu_columns / sizeof *columns);
    for (size_t i = 0; i < points->count; i++) {
        char point[POINT_TEXT];
        size_t k;
        json_t *kernel;
        const json_t *row = row_of(store, &points->at[i], point);
        json_t *kernels = json_object_get(row, "kernels");
        const char *state = text_of(row, "state");
        if (row == NULL || strcmp(state, "refused") == 0) continue;
        json_array_foreach(kernels, k, kernel) add_kernel(table, point, state, kernels, kernel, cuda);
        add_layer(table, point, row, cuda);
    }
    return table;
}

struct sweep_totals sweep_count(const struct sweep_store *store, const struct sweep_points *points) {
    struct sweep_totals t = {0};
    for (size_t i = 0; i < points->count; i++) {
        char point[POINT_TEXT];
        const json_t *row = row_of(store, &points->at[i], point);
        const char *state = text_of(row, "state");
        t.left += row == NULL;
        t.right += strcmp(state, "right") == 0;
        t.wrong += strcmp(state, "wrong") == 0;
        t.failed += strcmp(state, "failed") == 0;
        t.refused += strcmp(state, "refused") == 0;
    }
    return t;
}

static void say_states(FILE *to, const struct sweep_store *store, const struct sweep_points *points) {
    static const char *const states[] = {"wrong", "failed", "refused"};
    for (size_t s = 0; s < 3; s++) {
        for (size_t i = 0; i < points->count; i++) {
            char point[POINT_TEXT];
            const json_t *row = row_of(store, &points->at[i], point);
            if (strcmp(text_of(row, "state"), states[s]) != 0) continue;
            const char *stage = text_of(row, "stage");
            fprintf(to, "%s: %s: %s%s%s%s\n", states[s], point, stage[0] != '\0' ? "while " : "", stage,
                    stage[0] != '\0' ? ": " : "", text_of(row, "message"));
        }
    }
}

static const char *const hardware_meaning =
    "us: GPU time of a launch, graph replay, median of 7, inputs rotating beyond the L2; the layer's: of a step, its "
    "inputs in the L2 where they fit.\n"
    "floor: of one H200 (4.65 TB/s, a node of 0.737 us, 900 TFLOP/s), whatever GPU this is. x floor: us / floor us.\n"
    "Without us: query_push, query_wait and, with dcp > 1, mla_query and dcp_value are halves of an exchange, whose "
    "launches cannot be repeated alone.\n";
static const char *const cpu_meaning =
    "The CPU device reports correctness and instruction counts only: it has no time that means anything for a GPU.\n"
    "instructions: of threads, executed by the kernel's launches of one step on all ranks, polls included.\n";

char *sweep_report_text(const struct sweep_store *store, const struct sweep_points *points, bool cuda) {
    char *text = NULL;
    size_t size = 0;
    FILE *to = must(open_memstream(&text, &size));
    struct sweep_totals t = sweep_count(store, points);
    struct table *table = make_table(store, points, cuda);
    const json_t *device = json_object_get(store->sweep, "device");
    if (t.right + t.wrong + t.failed > 0) table_print(table, to);
    table_free(table);
    say_states(to, store, points);
    fprintf(to,
            "error, relative: the worst of all steps and ranks against FP64, beside their bounds; the layer's: 1 - "
            "cosine and relative error of the output.\n%s",
            cuda ? hardware_meaning : cpu_meaning);
    fprintf(
        to,
        "sweep: %s, %s, form %s, %d steps, seed %lld: %zu points right, %zu wrong, %zu failed, %zu refused, %zu left\n",
        text_of(device, "name"), text_of(store->sweep, "toolchain"), text_of(store->sweep, "form"),
        (int)json_integer_value(json_object_get(store->sweep, "steps")),
        (long long)json_integer_value(json_object_get(store->sweep, "seed")), t.right, t.wrong, t.failed, t.refused,
        t.left);
    fclose(to);
    return text;
}

json_t *sweep_report_json(const struct sweep_store *store, const struct sweep_points *points, bool cuda) {
    struct sweep_totals t = sweep_count(store, points);
    struct table *table = make_table(store, points, cuda);
    json_t *refused = must(json_array());
    for (size_t i = 0; i < points->count; i++) {
        char point[POINT_TEXT];
        const json_t *row = row_of(store, &points->at[i], point);
        if (strcmp(text_of(row, "state"), "refused") == 0)
            json_array_append_new(refused,
                                  json_pack("{s:o s:s}", "point", json_text(point), "rule", text_of(row, "message")));
    }
    json_t *object =
        must(json_pack("{s:O s:I s:I s:I s:I s:I s:o s:o}", "sweep", store->sweep, "right", (json_int_t)t.right,
                       "wrong", (json_int_t)t.wrong, "failed", (json_int_t)t.failed, "refused", (json_int_t)t.refused,
                       "left", (json_int_t)t.left, "rows", table_json(table), "refused_points", refused));
    table_free(table);
    return object;
}
