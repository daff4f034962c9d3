/* conform_judge.c - how far approximations are off: against the exact value in long double, or the exact sum of a
 * product. Results at the ends of the range (zero, infinity, NaN, what .ftz flushes) are for the recorded data. */
#include "conform_product.h"

#include <math.h>
#include <string.h>

static const struct conform_bound bounds[] = {
#define B(prefix, suffix, measure, bound, least, most, section) {prefix, suffix, measure, bound, least, most, section},
#include "conform_bounds.def"
#undef B
};

static bool ends_so(const char *text, const char *suffix) {
    size_t length = strlen(text), tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

static const struct conform_bound *bound_of(const struct conform_form *form) {
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        if (strncmp(form->instruction, bounds[i].prefix, strlen(bounds[i].prefix)) == 0 &&
            ends_so(form->instruction, bounds[i].suffix))
            return &bounds[i];
    return NULL;
}

static long double inverse(long double a) {
    return 1 / a;
}
static long double inverse_root(long double a) {
    return 1 / sqrtl(a);
}

static long double exact_of(const struct conform_form *form, long double a, long double b) {
    static const struct {
        const char *opcode;
        long double (*function)(long double);
    } rows[] = {{"rcp", inverse}, {"sqrt", sqrtl}, {"rsqrt", inverse_root}, {"ex2", exp2l},
                {"lg2", log2l},   {"sin", sinl},   {"cos", cosl},           {"tanh", tanhl}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(form->words[0], rows[i].opcode) == 0) return rows[i].function(a);
    return a / b;
}

/* Distance of two neighbours of the format at v. */
static long double step_at(const struct conform_format *format, long double v) {
    int exponent = v == 0 ? format->least : ilogbl(v) - format->fraction;
    return ldexpl(1, exponent < format->least ? format->least : exponent);
}

static void note(struct conform_error *error, const struct conform_format *format, size_t i, long double off,
                 long double exact, long double allowed, long double unit) {
    error->judged++;
    error->exact += off <= step_at(format, exact) * 0.5L;
    error->beyond += off > allowed;
    double part = allowed > 0 ? (double)(off / allowed) : off > 0 ? HUGE_VAL : 0;
    if (part <= error->at_bound && error->judged > 1) return;
    error->at_bound = part;
    error->largest = (double)(off / unit);
    error->worst = i;
}

/* One result of an approximation; false: not one to be judged. */
static void judge_value(const struct conform_form *form, struct conform_error *error, size_t i, uint64_t a_bits,
                        uint64_t b_bits, uint64_t bits) {
    const struct conform_bound *bound = error->bound;
    const struct conform_format *format = conform_format_of(form->last);
    bool ftz = conform_has(form, "ftz"), quotient = strcmp(form->words[0], "div") == 0;
    long double a = (long double)conform_value(format, a_bits), b = (long double)conform_value(format, b_bits),
                got = (long double)conform_value(format, bits), key = quotient ? fabsl(b) : a;
    long double normal = ldexpl(1, format->least + format->fraction),
                largest = (long double)conform_value(format, format->largest);
    if (!isfinite(a) || (quotient && !isfinite(b)) || !(key > bound->least && key < bound->most)) return;
    if (ftz && (fabsl(a) < normal || (quotient && fabsl(b) < normal))) return;
    long double exact = exact_of(form, a, b), off = fabsl(got - exact);
    if (!isfinite(exact) || fabsl(exact) > largest || (fabsl(exact) < normal && (ftz || bound->measure == 'r'))) return;
    bool near = a > 0.5L && a < 2, absolute = bound->measure == 'a' || (bound->measure == 'l' && near);
    long double unit = bound->measure == 'u' ? step_at(format, exact) : absolute ? 1 : fabsl(exact);
    if (unit == 0) return;
    if (isnan(got)) off = INFINITY;
    note(error, format, i, off, exact, bound->bound * unit, unit);
}

static void judge_pairs(const struct conform_form *form, const struct conform_in *in, const struct conform_out *out,
                        size_t count, struct conform_error *error) {
    const struct conform_format *format = conform_format_of(form->last);
    for (size_t i = 0; i < count; i++)
        for (unsigned at = 0; at < form->last->bits; at += format->bits)
            judge_value(form, error, i, conform_low(in[i].a >> at, format->bits),
                        conform_low(in[i].b >> at, format->bits), conform_low(out[i].d[0] >> at, format->bits));
}

void conform_note_sum(struct conform_error *error, const struct conform_format *format, size_t i, uint64_t bits,
                      struct conform_sum sum) {
    long double got = (long double)conform_value(format, bits), off = fabsl(got - (long double)sum.sum);
    if (isnan(got)) off = INFINITY;
    if (sum.magnitude > 0)
        note(error, format, i, off, (long double)sum.sum, error->bound->bound * (long double)sum.magnitude,
             (long double)sum.magnitude);
}

static void judge_products(const struct conform_form *form, const struct conform_in *in, const struct conform_out *out,
                           size_t count, struct conform_error *error) {
    struct conform_sum results[CONFORM_WARP][4];
    bool half = strcmp(form->words[form->word_count - 4], "f16") == 0;
    for (size_t i = 0; i < count; i += CONFORM_WARP) {
        conform_product(form, &in[i], results);
        for (unsigned lane = 0; lane < CONFORM_WARP; lane++)
            for (unsigned r = 0; r < 4; r++)
                conform_note_sum(error, half ? &conform_f16 : &conform_f32, i + lane,
                                 conform_product_bits(form, &out[i + lane], r), results[lane][r]);
    }
}

static void judge_groups(const struct conform_form *form, const struct conform_in *in, const struct conform_out *out,
                         size_t count, struct conform_error *error) {
    struct conform_sum results[CONFORM_THREADS][CONFORM_GROUP_RESULTS];
    bool half = form->first == conform_type_find("f16");
    for (size_t i = 0; i < count; i += CONFORM_THREADS) {
        conform_group_product(form, &in[i], results);
        for (unsigned t = 0; t < CONFORM_THREADS; t++)
            for (unsigned r = 0; r < CONFORM_GROUP_RESULTS; r++) {
                uint64_t bits = half ? out[i + t].d[r / 2] >> 16 * (r % 2) & 0xFFFF : out[i + t].d[r];
                conform_note_sum(error, half ? &conform_f16 : &conform_f32, i + t, bits, results[t][r]);
            }
    }
}

bool conform_errors(const struct conform_form *form, const struct conform_in *in, const struct conform_out *out,
                    size_t count, struct conform_error *error) {
    *error = (struct conform_error){.bound = bound_of(form)};
    if (error->bound == NULL || !(form->row->flags & (APPROX | TENSOR))) return false;
    if (form->row->flags & APPROX)
        judge_pairs(form, in, out, count, error);
    else if (strcmp(form->words[0], "wgmma") == 0)
        judge_groups(form, in, out, count, error);
    else
        judge_products(form, in, out, count, error);
    return true;
}
