/* test_roofline.c - the table and the picture of measured decode shapes (tests/roofline.h), and bench_decode --draw:
 * the part of the bench that needs no device. */
#include "tests/roofline.h"
#include "tests/shell.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES                                                                                                          \
    "heads,q,requests,context,us,fp8_us,bf16_us,rows,floor_us,target_us,tb_s,tflop_s,us/floor,us/target,fp8/us,"       \
    "bf16/us\n"
/* 64 x 65,536 keys of 576 bytes are 2.4159 GB: 521.56 us; 16 rows times 2,176 FLOP a key are 146.03 GFLOP. */
#define GOOD "16,1,64,65536,600,800,1000,16,521.56,555.35,4.0265,243.38,1.1504,1.0804,1.3333,1.6667\n"

static char project[4096]; /* folder */
static struct roofline table;

static bool read_text(const char *text, char *why, size_t capacity) {
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    rewind(file);
    bool right = roofline_read(file, "t.csv", &table, why, capacity);
    fclose(file);
    return right;
}

static void must_read(const char *text) {
    char why[512] = "";
    ck_assert_msg(read_text(text, why, sizeof why), "%s", why);
}

/* The picture of the table; malloc. */
static char *drawn(void) {
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    ck_assert_ptr_nonnull(file);
    roofline_draw(file, &table);
    fclose(file);
    return text;
}

static size_t count_of(const char *text, const char *what) {
    size_t count = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        count++;
    return count;
}

/* Subpaths of the at-th path of a class, from 0. */
static size_t subpaths(const char *text, const char *class, int at) {
    char begin[64];
    size_t count = 0;
    snprintf(begin, sizeof begin, "<path class=\"%s\" d=\"", class);
    for (; (text = strstr(text, begin)) != NULL && at > 0; at--)
        text++;
    ck_assert_msg(text != NULL, "too few paths of class %s", class);
    for (text += strlen(begin); *text != '"'; text++)
        count += *text == 'M';
    return count;
}

/* ---- the table ---- */
START_TEST(a_table_reads_back_as_it_was_written) {
    static const struct roofline_row rows[] = {
        {16, 1, 1, 1024, 8.03, 9.12, 11.05}, {128, 4, 64, 1048576, 70123.456, 0, 0}, {12, 8, 3, 1, 2.5, 3.25, 0}};
    char *text = NULL, why[512] = "";
    size_t length;
    FILE *file = open_memstream(&text, &length);
    roofline_put_head(file, "some machine, some day");
    fputs("# a remark\n", file);
    for (int i = 0; i < 3; i++)
        roofline_put_row(file, &rows[i]);
    fclose(file);
    ck_assert_msg(read_text(text, why, sizeof why), "%s\n%s", why, text);
    ck_assert_str_eq(table.title, "some machine, some day");
    ck_assert_uint_eq(table.count, 3);
    for (int i = 0; i < 3; i++) {
        const struct roofline_row *got = &table.rows[i], *row = &rows[i];
        ck_assert_int_eq(got->heads, row->heads);
        ck_assert_int_eq(got->q, row->q);
        ck_assert_int_eq(got->requests, row->requests);
        ck_assert_int_eq(got->context, row->context);
        ck_assert_double_eq_tol(got->us, row->us, 1e-5 * row->us);
        ck_assert_double_eq(got->us, roofline_kept(row->us));
        ck_assert_double_eq_tol(got->fp8_us, row->fp8_us, 1e-5);
        ck_assert_double_eq_tol(got->bf16_us, row->bf16_us, 1e-5);
    }
    free(text);
}
END_TEST

START_TEST(a_line_worked_out_by_hand_is_right) {
    must_read("# title\n" NAMES GOOD);
    ck_assert_uint_eq(table.count, 1);
    ck_assert_double_eq_tol(roofline_floor_us(table.rows), 2 + 64.0 * 65536 * 576 / 4.65e6, 1e-6);
    /* compute-bound: 512 rows of 1,024 keys in 64 requests: 73.0 GFLOP at 900 TFLOP/s */
    const struct roofline_row wide = {128, 4, 64, 1024, 100, 0, 0};
    ck_assert_double_eq_tol(roofline_floor_us(&wide), 64.0 * 1024 * 2176 * 512 / 900e6, 1e-6);
    ck_assert_double_eq_tol(roofline_target_us(&wide), 1.06 * 64.0 * 1024 * 2176 * 512 / 900e6 + 2.5, 1e-6);
}
END_TEST

START_TEST(shapes_are_counted_against_target_and_peers) {
    table = (struct roofline){.count = 4};
    table.rows[0] = (struct roofline_row){16, 1, 64, 65536, 500, 1000, 400};   /* on target; BF16 is faster */
    table.rows[1] = (struct roofline_row){16, 1, 64, 65536, 600, 300, 700};    /* FP8 is faster */
    table.rows[2] = (struct roofline_row){16, 1, 64, 65536, 555.4, 4443.2, 0}; /* just misses the target, 555.35 */
    table.rows[3] = (struct roofline_row){16, 1, 64, 65536, 555.3, 0, 0};      /* just meets it */
    struct roofline_tally tally = roofline_count(&table);
    ck_assert_uint_eq(tally.on_target, 2);
    ck_assert_uint_eq(tally.slower_fp8, 1);
    ck_assert_uint_eq(tally.slower_bf16, 1);
    ck_assert_double_eq_tol(tally.speed, 2, 1e-9); /* of 2, 1/2 and 8 */
}
END_TEST

static const struct {
    const char *text, *why;
} wrongs[] = {
    {"", "t.csv:0: the file ends without a shape"},
    {"# only a title\n", "t.csv:1: the file ends without a shape"},
    {NAMES "# nothing\n", "t.csv:2: the file ends without a shape"},
    {GOOD, "t.csv:1: the columns' names are not heads,q,requests"},
    {"# t\nheads,q\n" GOOD, "t.csv:2: the columns' names are not heads,q,requests"},
    {NAMES GOOD "\n", "t.csv:3: column 1 (heads) is '', not a number from 0"},
    {NAMES GOOD "16,1,x,65536,600\n", "t.csv:3: column 3 (requests) is 'x', not a number from 0"},
    {NAMES "16,1,64,65536,-600,800\n", "t.csv:2: column 5 (us) is '-600', not a number from 0"},
    {NAMES "16,1,64,65536,nan,800\n", "t.csv:2: column 5 (us) is 'nan', not a number from 0"},
    {NAMES "16,1,64,65536,600,1e999,1\n", "t.csv:2: column 6 (fp8_us) is '1e999', not a number from 0"},
    {NAMES "16,1,64,65536,600\n", "t.csv:2: after column 5 (us) comes ''; a line has 16 numbers"},
    {NAMES "16;1\n", "t.csv:2: after column 1 (heads) comes ';1'"},
    {NAMES "16,1,64,65536,600,800,1000,16,521.56,555.35,4.0265,243.38,1.1504,1.0804,1.3333,1.6667,1\n",
     "t.csv:2: after column 16 (bf16/us) comes ',1'"},
    {NAMES "16.5,1,64,65536,600,800,1000,16,521.56,555.35,4.0265,243.38,1.1504,1.0804,1.3333,1.6667\n",
     "t.csv:2: heads is 16.5, not a whole number from 1"},
    {NAMES "16,0,64,65536,600,800,1000,16,521.56,555.35,4.0265,243.38,1.1504,1.0804,1.3333,1.6667\n",
     "t.csv:2: q is 0, not a whole number from 1"},
    {NAMES "16,1,64,65536,0,800,1000,16,521.56,555.35,4.0265,243.38,1.1504,1.0804,1.3333,1.6667\n",
     "t.csv:2: us is 0: a time is above 0"},
    {NAMES "16,999999999,9999999,65536,6,8,1,16,521.56,555.35,4.0265,243.38,1.1504,1.0804,1.3333,1.6667\n",
     "t.csv:2: 1e+07 requests of 1e+09 query rows: too many"},
    {NAMES "16,1,64,65536,600,800,1000,17,521.56,555.35,4.0265,243.38,1.1504,1.0804,1.3333,1.6667\n",
     "t.csv:2: rows is 17; this line's shape and times make it 16"},
    {NAMES "16,1,64,65536,600,800,1000,16,521.56,555.35,4.0265,250,1.1504,1.0804,1.3333,1.6667\n",
     "t.csv:2: tflop_s is 250; this line's shape and times make it 243.3"},
    {NAMES "16,1,64,65536,600,800,1000,16,521.56,555.35,4.0265,243.38,1.1504,1.0804,1.5,1.6667\n",
     "t.csv:2: fp8/us is 1.5; this line's shape and times make it 1.3333"},
};

START_TEST(a_bad_table_is_refused_with_line_and_reason) {
    char why[512] = "";
    ck_assert_msg(!read_text(wrongs[_i].text, why, sizeof why), "accepted: %s", wrongs[_i].text);
    ck_assert_msg(strncmp(why, wrongs[_i].why, strlen(wrongs[_i].why)) == 0, "'%s' instead of '%s'", why,
                  wrongs[_i].why);
}
END_TEST

START_TEST(a_line_or_a_table_too_long_is_refused) {
    char why[512] = "", *text = malloc(2000000);
    strcpy(text, "# t\n");
    memset(text + 4, '#', 600);
    strcpy(text + 604, "\n" NAMES GOOD);
    ck_assert(!read_text(text, why, sizeof why));
    ck_assert_msg(strstr(why, "t.csv:2: longer than 510 bytes") == why, "%s", why);
    size_t length = (size_t)sprintf(text, NAMES);
    for (int i = 0; i < ROOFLINE_MOST + 1; i++)
        length += (size_t)sprintf(text + length, GOOD);
    ck_assert(!read_text(text, why, sizeof why));
    ck_assert_msg(strstr(why, "t.csv:1026: more than 1024 shapes") == why, "%s", why);
    free(text);
}
END_TEST

/* ---- the picture ---- */
/* Elements nest and close, attributes are quoted, text has no bare markup. Returns elements; a fault fails the test. */
static size_t check_xml(const char *text) {
    char names[16][32];
    size_t depth = 0, elements = 0;
    for (const char *at = text; *at != '\0';) {
        if (*at == '&') {
            size_t digits = at[1] == '#' ? strspn(at + 2, "0123456789") : 0;
            ck_assert_msg(digits > 0 && at[2 + digits] == ';', "a bare &: %.40s", at);
        }
        ck_assert_msg(*at != '>', "a bare >: %.40s", at);
        if (*at != '<') {
            ck_assert_msg(depth > 0 || *at == '\n', "text outside: %.40s", at);
            at++;
            continue;
        }
        bool closing = at[1] == '/';
        const char *name = at + 1 + closing;
        size_t length = strcspn(name, " />");
        ck_assert_msg(length > 0 && length < 32, "a tag without a name: %.40s", at);
        for (at = name + length; *at != '>' && *at != '/';) {
            size_t word = strspn(at, " ");
            ck_assert_msg(word == 1, "attributes are not apart: %.40s", at);
            size_t key = strcspn(at + 1, "=\"<> ");
            ck_assert_msg(key > 0 && strncmp(at + 1 + key, "=\"", 2) == 0, "an attribute without quotes: %.40s", at);
            at += key + 3;
            at += strcspn(at, "\"<&");
            ck_assert_msg(*at == '"', "markup in an attribute: %.40s", at);
            at++;
        }
        bool empty = *at == '/';
        at += empty;
        ck_assert_msg(*at == '>', "a tag that does not end: %.40s", at);
        at++;
        elements += !closing;
        if (closing) {
            ck_assert_msg(depth > 0 && strlen(names[depth - 1]) == length &&
                              strncmp(names[depth - 1], name, length) == 0,
                          "</%.*s> closes nothing", (int)length, name);
            depth--;
        } else if (!empty) {
            ck_assert_uint_lt(depth, 16);
            snprintf(names[depth++], 32, "%.*s", (int)length, name);
        }
    }
    ck_assert_uint_eq(depth, 0);
    return elements;
}

START_TEST(the_picture_has_every_point_is_well_formed_and_needs_nothing_else) {
    table = (struct roofline){.title = "a <title> & \"more\" \x01\xff"};
    size_t fp8 = 0, bf16 = 0;
    for (int i = 0; i < 300; i++) {
        struct roofline_row row = {1 + i % 128,           1 + i % 8,          1 + i % 64, 1 << i % 21, 2 + i * i,
                                   i % 3 ? 3 + i * i : 0, i % 5 ? 1.5 + i : 0};
        table.rows[table.count++] = row;
        fp8 += row.fp8_us > 0, bf16 += row.bf16_us > 0;
    }
    char *text = drawn();
    ck_assert_uint_lt(strlen(text), 200 * 1024);
    ck_assert_uint_gt(check_xml(text), 600);
    ck_assert_uint_eq(count_of(text, "<circle "), 2 * table.count);
    for (int panel = 0; panel < 2; panel++) {
        ck_assert_uint_eq(subpaths(text, "fp8", 2 * panel), fp8); /* between them: the legend's */
        ck_assert_uint_eq(subpaths(text, "bf16", 2 * panel), bf16);
    }
    expect_in(text, "a &#60;title&#62; &#38; &#34;more&#34;");
    static const char *const foreign[] = {"href", "<script", "<image", "url(", "@import", "nan", "inf,", "-inf"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        ck_assert_msg(strstr(text, foreign[i]) == NULL, "'%s' in the picture", foreign[i]);
    ck_assert_uint_eq(count_of(text, "http"), 1); /* the name of SVG itself */
    free(text);
}
END_TEST

/* The n-th circle, from 0. */
static void circle_at(const char *text, size_t n, double *x, double *y) {
    for (; (text = strstr(text, "<circle ")) != NULL && n > 0; n--)
        text++;
    ck_assert_ptr_nonnull(text);
    ck_assert_int_eq(sscanf(text, "<circle class=\"k%*d\" cx=\"%lf\" cy=\"%lf\"", x, y), 2);
}

START_TEST(points_lie_where_their_numbers_say) {
    /* 16 rows, keys at 4.65 TB/s exactly; 128 rows, FLOP at 900 TFLOP/s, which is the floor; twice that time */
    double read = 576.0 * 64 * 65536 / 4.65e6, multiply = 2176.0 * 128 * 64 * 65536 / 900e6;
    table = (struct roofline){.count = 3};
    table.rows[0] = (struct roofline_row){16, 1, 64, 65536, read, 0, 0};
    table.rows[1] = (struct roofline_row){128, 1, 64, 65536, multiply, 0, 0};
    table.rows[2] = (struct roofline_row){128, 1, 64, 65536, 2 * multiply, 0, 0};
    char *text = drawn();
    double x, y, from[2], to[2], dashed, floor_y, other;
    const char *slope = strstr(text, "<path class=\"roof\""), *roof = strstr(text, "<path class=\"roof\" stroke-dash");
    ck_assert_int_eq(sscanf(slope, "<path class=\"roof\" d=\"M%lf %lfL%lf %lf", &from[0], &from[1], &to[0], &to[1]), 4);
    ck_assert_int_eq(sscanf(roof, "<path class=\"roof\" stroke-dasharray=\"6 4\" d=\"M%lf %lfH", &x, &dashed), 2);
    circle_at(text, 0, &x, &y);
    ck_assert(x > from[0] && x < to[0]);
    ck_assert_double_eq_tol(y, from[1] + (to[1] - from[1]) * (x - from[0]) / (to[0] - from[0]), 0.3);
    circle_at(text, 1, &x, &y);
    ck_assert_double_eq_tol(y, dashed, 0.15);
    circle_at(text, 2, &other, &y);
    ck_assert_double_eq_tol(other, x, 1e-9);
    ck_assert_double_gt(y, dashed + 10);
    const char *second = strstr(text, "Time against the floor");
    ck_assert_int_eq(sscanf(strstr(second, "<path class=\"roof\""), "<path class=\"roof\" d=\"M72 %lfH", &floor_y), 1);
    circle_at(second, 1, &x, &y);
    ck_assert_double_eq_tol(y, floor_y, 0.15);
    circle_at(second, 0, &x, &y); /* 2 us less than the floor, 521.6 us */
    ck_assert(y > floor_y && y < floor_y + 3);
    free(text);
}
END_TEST

/* ---- the command ---- */
#define BENCH "b=$(dirname $dcpk)/tests/bench_decode && "

START_TEST(bench_decode_draws_a_table_without_a_device) {
    FILE *file = fopen("t.csv", "w");
    fputs("# here\n" NAMES GOOD GOOD, file);
    fclose(file);
    sh(BENCH "$b --draw t.csv -o t.svg && cat t.svg");
    expect_code(0);
    ck_assert_uint_eq(count_of(last.out, "<circle "), 4);
    expect_in(last.out,
              "2 shapes: 0 on target, 0 slower than the FP8 peer, 0 than the BF16 peer; geometric mean 1.33 ");
    sh(BENCH "echo 1,2 >>t.csv && $b --draw t.csv -o u.svg");
    expect_code(2);
    expect_in(last.err, "bench_decode: t.csv:5: after column 2 (q) comes ''");
    ck_assert(!shell_exists("u.svg"));
    sh(BENCH "$b --draw none.csv -o u.svg");
    expect_code(2);
    expect_in(last.err, "cannot open none.csv: No such file");
    sh(BENCH "$b --draw t.csv");
    expect_code(2);
    expect_in(last.err, "usage: bench_decode");
    sh(BENCH "head -n 3 t.csv >u.csv && $b --draw u.csv -o /dev/full");
    expect_code(2);
    expect_in(last.err, "/dev/full was not written whole");
}
END_TEST

START_TEST(the_picture_of_the_documentation_is_that_of_its_table) {
    char path[4200];
    char *csv, *svg, *text, why[512] = "";
    snprintf(path, sizeof path, "%s/docs/decode_h200.csv", project);
    ck_assert_msg((csv = shell_read_file(path, NULL)) != NULL, "no %s", path);
    snprintf(path, sizeof path, "%s/docs/decode_h200.svg", project);
    ck_assert_msg((svg = shell_read_file(path, NULL)) != NULL, "no %s", path);
    ck_assert_msg(read_text(csv, why, sizeof why), "%s", why);
    text = drawn();
    ck_assert_uint_eq(check_xml(svg), check_xml(text));
    for (const char *at = text, *end; (at = strstr(at, "<title>")) != NULL; at = end) { /* pixels may differ by a bit */
        end = strstr(at, "</title>");
        char *title = strndup(at, (size_t)(end - at));
        ck_assert_msg(strstr(svg, title) != NULL, "not in docs/decode_h200.svg: %s; draw it again: bench_decode --draw",
                      title);
        free(title);
    }
    free(csv), free(svg), free(text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("roofline");
    TCase *tc = tcase_create("roofline");
    if (getcwd(project, sizeof project) == NULL) return 1;
    tcase_add_checked_fixture(tc, shell_setup, shell_teardown);
    tcase_add_test(tc, a_table_reads_back_as_it_was_written);
    tcase_add_test(tc, a_line_worked_out_by_hand_is_right);
    tcase_add_test(tc, shapes_are_counted_against_target_and_peers);
    tcase_add_loop_test(tc, a_bad_table_is_refused_with_line_and_reason, 0, (int)(sizeof wrongs / sizeof *wrongs));
    tcase_add_test(tc, a_line_or_a_table_too_long_is_refused);
    tcase_add_test(tc, the_picture_has_every_point_is_well_formed_and_needs_nothing_else);
    tcase_add_test(tc, points_lie_where_their_numbers_say);
    tcase_add_test(tc, bench_decode_draws_a_table_without_a_device);
    tcase_add_test(tc, the_picture_of_the_documentation_is_that_of_its_table);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
