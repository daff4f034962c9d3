/* table.c - tables as aligned text and as JSON. May call jansson and stdio; must know nothing of what cells mean. */
#include "table.h"
#include "json_text.h"
#include "command.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cell {
    char *text;
    json_t *value;
};

struct table {
    const struct column *columns;
    size_t count, used, room; /* used, room: cells */
    struct cell *cells;
};

struct table *table_new(const struct column *columns, size_t count) {
    struct table *table = must(calloc(1, sizeof *table));
    table->columns = columns;
    table->count = count;
    return table;
}

void table_free(struct table *table) {
    if (table == NULL) return;
    for (size_t i = 0; i < table->used; i++) {
        free(table->cells[i].text);
        json_decref(table->cells[i].value);
    }
    free(table->cells);
    free(table);
}

static void add(struct table *table, const char *text, json_t *value) {
    if (table->used == table->room) {
        table->room = table->room * 2 + 16;
        table->cells = must(realloc(table->cells, table->room * sizeof *table->cells));
    }
    table->cells[table->used++] = (struct cell){must(strdup(text)), must(value)};
}

void table_text(struct table *table, const char *text) {
    add(table, text, json_text(text));
}

void table_none(struct table *table) {
    add(table, "-", json_null());
}

void table_integer(struct table *table, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    add(table, text, json_integer((json_int_t)value));
}

void table_number(struct table *table, const char *format, double value) {
    char text[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, format, value);
#pragma GCC diagnostic pop
    add(table, text, isfinite(value) ? json_real(strtod(text, NULL)) : json_null());
}

static int column_is_number(const struct table *table, size_t column) {
    for (size_t i = column; i < table->used; i += table->count)
        if (json_is_string(table->cells[i].value)) return 0;
    return table->used > column;
}

static void print_cell(FILE *to, const char *text, size_t width, int right, int last) {
    int pad = (int)(width - strlen(text));
    if (right)
        fprintf(to, "%*s%s", pad, "", text);
    else
        fprintf(to, "%s%*s", text, last ? 0 : pad, "");
    fputs(last ? "\n" : "  ", to);
}

void table_print(const struct table *table, FILE *to) {
    size_t *widths = must(calloc(table->count, sizeof *widths));
    for (size_t c = 0; c < table->count; c++) {
        widths[c] = strlen(table->columns[c].title);
        for (size_t i = c; i < table->used; i += table->count)
            if (strlen(table->cells[i].text) > widths[c]) widths[c] = strlen(table->cells[i].text);
    }
    for (size_t c = 0; c < table->count; c++)
        print_cell(to, table->columns[c].title, widths[c], column_is_number(table, c), c + 1 == table->count);
    for (size_t i = 0; i < table->used; i++) {
        size_t c = i % table->count;
        print_cell(to, table->cells[i].text, widths[c], column_is_number(table, c), c + 1 == table->count);
    }
    free(widths);
}

static void print_markdown_cell(FILE *to, const char *text, int code) {
    fputs(code ? " `" : " ", to);
    for (; *text != '\0'; text++)
        fprintf(to, *text == '|' ? "\\%c" : "%c", *text);
    fputs(code ? "` |" : " |", to);
}

void table_markdown(const struct table *table, FILE *to) {
    fputc('|', to);
    for (size_t c = 0; c < table->count; c++)
        print_markdown_cell(to, table->columns[c].title, 0);
    fputs("\n|", to);
    for (size_t c = 0; c < table->count; c++)
        fputs("---|", to);
    for (size_t row = 0; row + table->count <= table->used; row += table->count) {
        fputs("\n|", to);
        for (size_t c = 0; c < table->count; c++)
            print_markdown_cell(to, table->cells[row + c].text, c == 0);
    }
    fputc('\n', to);
}

void table_plain(const struct table *table, FILE *to) {
    for (size_t row = 0; row + table->count <= table->used; row += table->count)
        for (size_t c = 0; c < table->count; c++) {
            for (const char *text = table->cells[row + c].text; *text != '\0'; text++)
                fputc(*text == '\t' || *text == '\n' ? ' ' : *text, to);
            fputc(c + 1 == table->count ? '\n' : '\t', to);
        }
}

json_t *table_json(const struct table *table) {
    json_t *rows = must(json_array());
    for (size_t i = 0; i + table->count <= table->used; i += table->count) {
        json_t *row = must(json_object());
        for (size_t c = 0; c < table->count; c++)
            json_object_set(row, table->columns[c].key, table->cells[i + c].value);
        json_array_append_new(rows, row);
    }
    return rows;
}

void json_print(json_t *value, FILE *to) {
    char *text = must(json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(15) | JSON_ENCODE_ANY));
    fprintf(to, "%s\n", text);
    free(text);
    json_decref(value);
}
