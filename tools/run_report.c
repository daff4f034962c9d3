/* run_report.c - the table of `dcpk run`, its closing line, and the verdict.
 *
 * Every error in the table stands beside the bound that it is compared with, and the comparison is of these two
 * figures. May use layer_judge.h and table.h; runs nothing itself. */
#include "run_report.h"
#include "json_text.h"
#include "command.h"
#include "table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Value of key in a canonical text: its start and length, or NULL. */
static const char *value_in(const char *text, const char *key, size_t key_length, size_t *length) {
    for (const char *word = strchr(text, ' '); word != NULL; word = strchr(word, ' ')) {
        word++;
        if (strncmp(word, key, key_length) == 0 && word[key_length] == '=') {
            *length = strcspn(word + key_length + 1, " ");
            return word + key_length + 1;
        }
    }
    return NULL;
}

/* The shortest text that means the same spec: heads, dcp, batch, and the keys that differ from what they would be if
 * left out. Without the kernel's name: the table shows it. */
static void short_spec(const char *canonical, char *text, size_t capacity) {
    static const char *const named[] = {"heads", "dcp", "batch"};
    dcpk_spec base;
    char kernel[32], assignment[64], plain[1024] = "";
    snprintf(kernel, sizeof kernel, "%.*s", (int)strcspn(canonical, " "), canonical);
    dcpk_spec_init(&base, kernel);
    for (size_t i = 0; i < 3; i++) {
        size_t length;
        const char *value = value_in(canonical, named[i], strlen(named[i]), &length);
        snprintf(assignment, sizeof assignment, "%s=%.*s", named[i], value != NULL ? (int)length : 0,
                 value != NULL ? value : "");
        if (value != NULL) dcpk_spec_set(&base, assignment, NULL);
    }
    if (dcpk_spec_resolve(&base, NULL) == DCPK_OK) dcpk_spec_format(&base, plain, sizeof plain);
    size_t used = 0;
    text[0] = '\0';
    for (const char *word = strchr(canonical, ' '); word != NULL; word = strchr(word, ' ')) {
        word++;
        size_t key = strcspn(word, "="), whole = strcspn(word, " "), length = 0;
        bool show = false;
        for (size_t i = 0; i < 3; i++)
            show = show || (strlen(named[i]) == key && strncmp(word, named[i], key) == 0);
        const char *value = value_in(plain, word, key, &length);
        show = show || value == NULL || length != whole - key - 1 || strncmp(value, word + key + 1, length) != 0;
        if (show && used + whole + 2 < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%.*s", used > 0 ? " " : "", (int)whole, word);
    }
}

static const struct column columns[] = {
    {"kernel", "kernel"},        {"spec", "spec"},           {"ptx_lines", "PTX lines"},
    {"cubin_bytes", "cubin B"},  {"registers", "registers"}, {"cache", "cache"},
    {"build_ms", "build ms"},    {"run_ms", "run ms"},       {"relative_error", "relative error"},
    {"relative_bound", "bound"}, {"worst", "worst"},         {"worst_bound", "bound"},
    {"worst_unit", "of"}};

/* Adds the row; false when it is out of bounds. A NaN is. */
static bool add_row(struct table *table, const struct kernel_row *row, bool full_spec) {
    char spec[512];
    bool good = true;
    short_spec(row->spec, spec, sizeof spec);
    table_text(table, row->kernel);
    table_text(table, full_spec ? row->spec : spec);
    table_integer(table, row->report.ptx_lines);
    table_integer(table, (int64_t)row->report.cubin_bytes);
    table_integer(table, row->registers);
    table_text(table, row->report.hit != 0 ? "hit" : "miss");
    table_number(table, "%.1f", row->report.total_ms);
    table_number(table, "%.1f", row->run_seconds * 1e3);
    if (row->compared) {
        double bound = row->relative_bound;
        table_number(table, "%.3g", row->relative);
        table_number(table, "%.3g", bound);
        table_number(table, "%.3g", row->error);
        table_number(table, "%.3g", row->bound);
        table_text(table, row->measure);
        good = row->relative <= bound && row->error <= row->bound && row->wrong == 0;
    } else {
        for (int i = 0; i < 5; i++)
            table_none(table);
    }
    return good;
}

/* The step as a whole: output from the inputs alone. False when it is out of bounds. */
static bool add_layer(struct table *table, const struct run_facts *facts) {
    const struct layer_judgement *j = facts->judged;
    table_text(table, "layer");
    table_text(table, "output of all ranks, from the inputs");
    for (int i = 0; i < 6; i++)
        table_none(table);
    table_number(table, "%.3g", j->output_ideal);
    table_number(table, "%.3g", facts->bounds->output_ideal);
    table_number(table, "%.3g", j->output_cosine);
    table_number(table, "%.3g", facts->bounds->output_cosine);
    table_text(table, "1 - cosine");
    return j->output_ideal <= facts->bounds->output_ideal && j->output_cosine <= facts->bounds->output_cosine;
}

struct totals {
    uint32_t hits, misses, compilers, out;
};

/* JSON has no infinity. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static void print_json(const struct table *table, const struct run_facts *facts, const struct totals *t, bool good) {
    bool random = strcmp(facts->schedule, "random") == 0;
    json_t *object = must(json_pack(
        "{s:s s:s s:o s:I s:i s:i s:i s:i s:i s:I s:i s:b s:f s:o s:o s:o}", "device", facts->device, "schedule",
        facts->schedule, "schedule_seed", random ? json_integer((json_int_t)facts->schedule_seed) : json_null(), "seed",
        (json_int_t)facts->seed, "dcp", facts->dcp, "steps", facts->steps, "hits", t->hits, "misses", t->misses,
        "compilers_started", t->compilers, "wrong", (json_int_t)facts->judged->wrong, "kernels_out_of_bounds", t->out,
        "ok", good, "seconds", facts->seconds, "first_wrong", json_text(facts->judged->first), "rows_from_ideal",
        number(facts->judged->rows_ideal), "kernels", table_json(table)));
    json_print(object, stdout);
}

bool run_report(struct kernel_set *kernels, const struct run_facts *facts) {
    struct table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    struct totals t = {0};
    for (uint32_t i = 0; i < kernel_set_count(kernels); i++) {
        const struct kernel_row *row = kernel_set_at(kernels, i);
        t.hits += row->report.hit != 0;
        t.misses += row->report.hit == 0;
        t.compilers += row->report.compiled;
        t.out += !add_row(table, row, facts->json);
    }
    t.out += !add_layer(table, facts);
    bool good = t.out == 0 && facts->judged->wrong == 0;
    char of_seed[48] = "";
    if (strcmp(facts->schedule, "random") == 0)
        snprintf(of_seed, sizeof of_seed, " of seed %llu", (unsigned long long)facts->schedule_seed);
    if (facts->json) {
        print_json(table, facts, &t, good);
    } else {
        table_print(table, stdout);
        printf("run: %s device, %s schedule%s, inputs of seed %llu: %d steps on %d ranks; %u hits, %u misses, "
               "compilers started: %u; partial rows %.3g from the ideal reference; %llu values wrong, %u rows of the "
               "table out of bounds; %.1f s: %s\n",
               facts->device, facts->schedule, of_seed, (unsigned long long)facts->seed, facts->steps, facts->dcp,
               t.hits, t.misses, t.compilers, facts->judged->rows_ideal, (unsigned long long)facts->judged->wrong,
               t.out, facts->seconds, good ? "good" : "OUT OF BOUNDS");
    }
    if (!good)
        complain(NULL, "run: out of bounds: %s", facts->judged->wrong > 0 ? facts->judged->first : "see the table");
    table_free(table);
    return good;
}
