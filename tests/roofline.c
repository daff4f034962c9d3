/* roofline.c - see roofline.h: the table. May call: stdio, strtod. Must not: measure. */
#include <tests/roofline.h>

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512, SHAPE = 4, GIVEN = 7, COLUMNS = 16 };

/* ---- columns: a shape, its times, and what follows ---- */
#define GIVEN_COLUMN(name)                                                                                             \
    static double get_##name(const struct roofline_row *row) {                                                         \
        return (double)row->name;                                                                                      \
    }
GIVEN_COLUMN(heads)
GIVEN_COLUMN(q)
GIVEN_COLUMN(requests)
GIVEN_COLUMN(context)
GIVEN_COLUMN(us)
GIVEN_COLUMN(fp8_us)
GIVEN_COLUMN(bf16_us)

static double tb_s(const struct roofline_row *row) {
    return roofline_bytes(row) / row->us / 1e6;
}

static double tflop_s(const struct roofline_row *row) {
    return roofline_flops(row) / row->us / 1e6;
}

static double over_floor(const struct roofline_row *row) {
    return row->us / roofline_floor_us(row);
}

static double over_target(const struct roofline_row *row) {
    return row->us / roofline_target_us(row);
}

static double fp8_over_us(const struct roofline_row *row) {
    return row->fp8_us / row->us;
}

static double bf16_over_us(const struct roofline_row *row) {
    return row->bf16_us / row->us;
}

static const struct {
    const char *name;
    double (*of)(const struct roofline_row *row);
} columns[COLUMNS] = {{"heads", get_heads},
                      {"q", get_q},
                      {"requests", get_requests},
                      {"context", get_context},
                      {"us", get_us},
                      {"fp8_us", get_fp8_us},
                      {"bf16_us", get_bf16_us},
                      {"rows", roofline_query_rows},
                      {"floor_us", roofline_floor_us},
                      {"target_us", roofline_target_us},
                      {"tb_s", tb_s},
                      {"tflop_s", tflop_s},
                      {"us/floor", over_floor},
                      {"us/target", over_target},
                      {"fp8/us", fp8_over_us},
                      {"bf16/us", bf16_over_us}};

/* ---- writing ---- */
static void name_columns(char line[LINE]) {
    int length = 0;
    for (int i = 0; i < COLUMNS; i++)
        length += snprintf(line + length, (size_t)(LINE - length), "%s%s", i > 0 ? "," : "", columns[i].name);
}

double roofline_kept(double us) {
    char text[32];
    snprintf(text, sizeof text, "%.6g", us);
    return strtod(text, NULL);
}

void roofline_put_head(FILE *to, const char *title) {
    char names[LINE];
    name_columns(names);
    fprintf(to, "# %s\n%s\n", title, names);
}

void roofline_put_row(FILE *to, const struct roofline_row *row) {
    for (int i = 0; i < COLUMNS; i++)
        fprintf(to, "%.*g%c", i < SHAPE ? 9 : i < GIVEN ? 6 : 5, columns[i].of(row), i + 1 < COLUMNS ? ',' : '\n');
}

/* ---- reading ---- */
/* Where a file is being read, and what is wrong there. */
struct reader {
    const char *name;
    int line;
    char *why;
    size_t capacity;
};

__attribute__((format(printf, 2, 3))) static bool wrong(const struct reader *reader, const char *format, ...) {
    va_list list;
    int length = snprintf(reader->why, reader->capacity, "%s:%d: ", reader->name, reader->line);
    va_start(list, format);
    if (length >= 0 && (size_t)length < reader->capacity)
        vsnprintf(reader->why + length, reader->capacity - (size_t)length, format, list);
    va_end(list);
    return false;
}

/* As many numbers as there are columns, with commas between them, nothing else. */
static bool read_numbers(const struct reader *reader, const char *text, double x[COLUMNS]) {
    for (int i = 0; i < COLUMNS; i++) {
        char *end;
        bool digits = *text >= '0' && *text <= '9';
        x[i] = strtod(text, &end);
        if (!digits || !isfinite(x[i]))
            return wrong(reader, "column %d (%s) is '%.*s', not a number from 0", i + 1, columns[i].name,
                         (int)strcspn(text, ","), text);
        if (*end != (i + 1 < COLUMNS ? ',' : '\0'))
            return wrong(reader, "after column %d (%s) comes '%.20s'; a line has %d numbers with commas between them",
                         i + 1, columns[i].name, end, COLUMNS);
        text = end + 1;
    }
    return true;
}

static bool read_row(const struct reader *reader, const char *text, struct roofline_row *row) {
    double x[COLUMNS] = {0};
    if (!read_numbers(reader, text, x)) return false;
    for (int i = 0; i < SHAPE; i++) {
        if (x[i] != floor(x[i]) || x[i] < 1 || x[i] > 1e9)
            return wrong(reader, "%s is %g, not a whole number from 1", columns[i].name, x[i]);
    }
    if (x[1] * x[2] > INT_MAX) return wrong(reader, "%g requests of %g query rows: too many", x[2], x[1]);
    if (!(x[SHAPE] > 0)) return wrong(reader, "us is %g: a time is above 0", x[SHAPE]);
    *row = (struct roofline_row){(int)x[0], (int)x[1], (int)x[2], (int)x[3], x[4], x[5], x[6]};
    for (int i = GIVEN; i < COLUMNS; i++) {
        double wanted = columns[i].of(row);
        if (!(fabs(x[i] - wanted) <= 1e-3 * wanted))
            return wrong(reader, "%s is %g; this line's shape and times make it %g", columns[i].name, x[i], wanted);
    }
    return true;
}

/* One line without its end; false: none is left, or *fine is false. */
static bool read_line(struct reader *reader, FILE *from, char line[LINE], bool *fine) {
    if (fgets(line, LINE, from) == NULL) {
        if (ferror(from)) *fine = wrong(reader, "cannot be read: %s", strerror(errno));
        return false;
    }
    reader->line++;
    size_t length = strlen(line);
    if (length == LINE - 1 && line[length - 1] != '\n') {
        *fine = wrong(reader, "longer than %d bytes", LINE - 2);
        return false;
    }
    line[strcspn(line, "\r\n")] = '\0';
    return true;
}

bool roofline_read(FILE *from, const char *name, struct roofline *table, char *why, size_t capacity) {
    struct reader reader = {name, 0, why, capacity};
    char line[LINE], names[LINE];
    bool fine = true, headed = false;
    name_columns(names);
    table->count = 0;
    table->title[0] = '\0';
    while (read_line(&reader, from, line, &fine)) {
        if (line[0] == '#') {
            const char *title = line + 1 + strspn(line + 1, " ");
            if (table->title[0] == '\0') snprintf(table->title, sizeof table->title, "%.127s", title);
        } else if (!headed) {
            if (strcmp(line, names) != 0) return wrong(&reader, "the columns' names are not %s", names);
            headed = true;
        } else {
            if (table->count == ROOFLINE_MOST) return wrong(&reader, "more than %d shapes", ROOFLINE_MOST);
            if (!read_row(&reader, line, &table->rows[table->count])) return false;
            table->count++;
        }
    }
    return fine && (table->count > 0 || wrong(&reader, "the file ends without a shape"));
}
