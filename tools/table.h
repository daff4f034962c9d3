/* table.h - rows and columns for people (aligned text) and for programs (JSON): the same cells in both.
 *
 * Fill a row cell by cell in column order; a full row starts the next. */
#ifndef DCPK_TOOLS_TABLE_H
#define DCPK_TOOLS_TABLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct column {
    const char *key;   /* JSON name */
    const char *title; /* heading of the text */
};

struct table;
struct table *table_new(const struct column *columns, size_t count);
void table_free(struct table *table);

void table_text(struct table *table, const char *text);
void table_none(struct table *table); /* "-", null in JSON */
void table_integer(struct table *table, int64_t value);
/* format: of the text, one double; JSON holds the value as printed, so that both say the same number. A value that is
 * not finite is null in JSON. */
void table_number(struct table *table, const char *format, double value);

/* Columns of numbers to the right, texts to the left. */
void table_print(const struct table *table, FILE *to);
/* Markdown: the first column as code, "|" in cells escaped. */
void table_markdown(const struct table *table, FILE *to);
/* A row a line, cells between tabs, without a heading: for scripts. */
void table_plain(const struct table *table, FILE *to);
/* An array of objects; the caller's reference. */
json_t *table_json(const struct table *table);
/* Prints and frees. */
void json_print(json_t *value, FILE *to);

#endif
