/* roofline.h - measured decode shapes as a table (CSV) and as one picture (SVG): TFLOP/s over FLOP per byte of keys
 * with what memory and tensor cores allow, and time over floor. For program_bench_decode.c and its suite; needs no
 * device. */
#ifndef TESTS_ROOFLINE_H
#define TESTS_ROOFLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { ROOFLINE_MOST = 1024 }; /* rows of a table */

/* One shape; times in microseconds. */
struct roofline_row {
    int heads, q, requests, context;
    double us, fp8_us, bf16_us; /* ours; the public kernels', 0: unknown */
};

struct roofline {
    char title[128]; /* the file's first comment; may be empty */
    size_t count;
    struct roofline_row rows[ROOFLINE_MOST];
};

/* roofline_row.c. Query rows of a request; bytes of all keys, read once; FLOP of both products; the least time
 * (tools/floor.h), and 1.06 of it + 2.5 us. */
double roofline_query_rows(const struct roofline_row *row);
double roofline_bytes(const struct roofline_row *row);
double roofline_flops(const struct roofline_row *row);
double roofline_floor_us(const struct roofline_row *row);
double roofline_target_us(const struct roofline_row *row);

struct roofline_tally {
    size_t on_target, slower_fp8, slower_bf16; /* shapes */
    double speed; /* geometric mean of the FP8 peer's time over ours, where it is known; 0: nowhere */
};
struct roofline_tally roofline_count(const struct roofline *table);

/* A time as a file keeps it: six digits. What is shown of a shape that has such times is the same before and after. */
double roofline_kept(double us);
/* The first two lines of a file; one line, with what follows from its shape and times. */
void roofline_put_head(FILE *to, const char *title);
void roofline_put_row(FILE *to, const struct roofline_row *row);
/* Reads what the two above wrote: lines of '#' are comments, one line names the columns. false, with "NAME:LINE: what
 * is wrong" in `why`, for anything else, for a column that does not follow from its line's shape and times, for no row.
 */
bool roofline_read(FILE *from, const char *name, struct roofline *table, char *why, size_t capacity);

/* roofline_draw.c: self-contained SVG in two panels; axes logarithmic, for light and dark pages. At least one row.
 * A circle of ours a panel and shape, titled with shape and figures; the peers' points are one path each a panel. */
void roofline_draw(FILE *to, const struct roofline *table);

#endif
