/* layer_replay.c - see layer_replay.h. */
#include <tools/layer_replay.h>

#include <tools/layer_expect.h>
#include <tools/numbers.h>
#include <tools/safetensors.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rows being filled. */
struct replay {
    const struct layer_run *run;
    const struct layer_case *layer;
    const struct layer_bounds *bounds;
    struct replay_row *rows;
    int count;
    size_t batch, heads; /* rows; D*H */
};

static struct replay_row *add(struct replay *p, const char *measure, double bound, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static struct replay_row *add(struct replay *p, const char *measure, double bound, const char *format, ...) {
    va_list list;
    struct replay_row *row = &p->rows[p->count++];
    memset(row, 0, sizeof *row);
    row->measure = measure;
    row->bound = bound;
    va_start(list, format);
    vsnprintf(row->tensor, sizeof row->tensor, format, list);
    va_end(list);
    return row;
}

__attribute__((format(printf, 3, 4))) static void blame(struct replay_row *row, uint64_t wrong, const char *format,
                                                        ...) {
    row->wrong += wrong;
    if (wrong && row->first[0] == '\0') {
        va_list list;
        va_start(list, format);
        vsnprintf(row->first, sizeof row->first, format, list);
        va_end(list);
    }
}

/* ---- bytes --------------------------------------------------------------------------------------- */

static void compare_query(struct replay *p) {
    const uint8_t *wanted = p->layer->steps[0].query, *got = layer_run_outcome(p->run, 0, 0)->query;
    double sums[2] = {0, 0};
    uint64_t unequal = 0;
    size_t place = 0, all = p->batch * p->heads * LAYER_TOKEN;
    if (!wanted) {
        return;
    }
    struct replay_row *row = add(p, "e4m3 steps", E4M3_BOUND, "query");
    uint64_t wrong = layer_compare_bytes(got, wanted, p->batch * p->heads, &place, &unequal, &row->error, sums);
    size_t head = place / LAYER_TOKEN;
    blame(row, wrong, "row %zu head %zu (rank %zu) byte %zu: %02x instead of %02x; %llu bytes are out of bound",
          head / p->heads, head % p->heads, head % p->heads / (size_t)p->layer->heads, place % LAYER_TOKEN, got[place],
          wanted[place], (unsigned long long)wrong);
    blame(row, unequal > e4m3_unequal_allowed(all), "%llu of %zu bytes differ, more than one in 100",
          (unsigned long long)unequal, all);
}

static void compare_cache(struct replay *p, int32_t r) {
    const struct layer_case *l = p->layer;
    const uint8_t *wanted = l->steps[0].rank[r].cache_after, *got = layer_run_cache(p->run, r);
    size_t tokens = (size_t)l->rank[r].pages * (size_t)l->page;
    double sums[2] = {0, 0};
    uint64_t unequal = 0;
    if (!wanted) {
        return;
    }
    struct replay_row *row = add(p, "e4m3 steps", E4M3_BOUND, "rank%d.kv_cache_after", r);
    for (size_t token = 0; token < tokens; token++) {
        const uint8_t *g = got + token * LAYER_TOKEN, *w = wanted + token * LAYER_TOKEN;
        bool owed = false;
        size_t place = 0;
        for (int32_t b = 0; b < l->batch; b++) {
            owed = owed || l->steps[0].rank[r].slots[b] == (int64_t)token;
        }
        uint64_t wrong = 0;
        if (memcmp(g, w, LAYER_TOKEN) != 0) {
            wrong = layer_compare_bytes(g, w, 1, &place, &unequal, &row->error, sums);
            wrong = owed ? wrong : 1;
        }
        place = owed ? place : 0;
        while (wrong && g[place] == w[place]) {
            place++;
        }
        blame(row, wrong, "page %zu slot %zu byte %zu: %02x instead of %02x%s", token / (size_t)l->page,
              token % (size_t)l->page, place, g[place], w[place],
              owed ? "" : ", and no row of this step is stored there");
    }
}

/* ---- numbers ------------------------------------------------------------------------------------- */

/* Relative Frobenius error of BF16 values, in vectors of `width`; each of them within one_row, the whole within the
 * row's bound. `unit`: heads a row has. */
static void compare_vectors(struct replay_row *row, const uint16_t *got, const uint16_t *wanted, size_t vectors,
                            size_t width, size_t heads, double one_row) {
    double sums[2] = {0, 0}, worst = 0;
    size_t worst_at = 0;
    for (size_t v = 0; v < vectors; v++) {
        double own[2] = {0, 0};
        for (size_t i = v * width; i < (v + 1) * width; i++) {
            double value = bf16_to_double(got[i]), ideal = bf16_to_double(wanted[i]);
            if (bf16_is_nan(got[i]) && bf16_is_nan(wanted[i])) {
                continue;
            }
            own[0] += isfinite(value) && isfinite(ideal) ? (value - ideal) * (value - ideal)
                      : value == ideal                   ? 0
                                                         : INFINITY;
            own[1] += isfinite(ideal) ? ideal * ideal : 0;
        }
        double error = own[0] == 0 ? 0 : own[1] > 0 ? sqrt(own[0] / own[1]) : INFINITY;
        if (error > worst) {
            worst = error;
            worst_at = v;
        }
        blame(row, error > one_row, "row %zu head %zu: relative error %g, one row's bound is %g", v / heads, v % heads,
              error, one_row);
        sums[0] += own[0];
        sums[1] += own[1];
    }
    row->error = sums[0] == 0 ? 0 : sums[1] > 0 ? sqrt(sums[0] / sums[1]) : INFINITY;
    blame(row, !(row->error < row->bound), "relative error %g of all rows; the worst is row %zu head %zu with %g",
          row->error, worst_at / heads, worst_at % heads, worst);
}

/* LSE of the reference from queries and a cache of one's choice. */
static bool reference_lse(const struct replay *p, int32_t r, const uint8_t *query, const uint8_t *cache, double *lse,
                          double *most) {
    double *rows = malloc(p->batch * p->heads * REF_LATENT * sizeof *rows);
    if (rows) {
        expect_decode(p->layer, &p->layer->steps[0], r, query, cache, false, rows, lse, most, NULL);
    }
    free(rows);
    return rows != NULL;
}

/* Query and cache bytes that are a step apart move a score by more than a decode's bound: what the reference makes of
 * that difference is added to it. Where the file has no query or cache, the device's stand for them. */
static bool compare_lse(struct replay *p, int32_t r) {
    const struct layer_rank_step *in = &p->layer->steps[0].rank[r];
    const struct layer_outcome *out = layer_run_outcome(p->run, 0, r);
    size_t count = p->batch * p->heads;
    const uint8_t *query = p->layer->steps[0].query, *cache = in->cache_after;
    struct replay_row *row = add(p, "of its bound", 1, "rank%d.rows_lse", r);
    double *theirs = malloc(count * sizeof *theirs), *ours = malloc(count * sizeof *ours),
           *most = malloc(count * sizeof *most);
    bool good =
        theirs && ours && most &&
        reference_lse(p, r, query ? query : out->query, cache ? cache : layer_run_cache(p->run, r), theirs, most) &&
        reference_lse(p, r, out->query, layer_run_cache(p->run, r), ours, most);
    for (size_t i = 0; good && i < count; i++) {
        double got = (double)out->rows_lse[i], wanted = (double)in->rows_lse[i];
        double moved = fabs(theirs[i] - ours[i]);
        moved = isfinite(moved) ? moved : 0; /* both infinite, or a NaN in the file's query: nothing to forgive */
        double bound = p->bounds->lse_fixed + (isfinite(most[i]) ? p->bounds->lse_scaled * most[i] : 0) + moved,
               off = got == wanted || (isnan(got) && isnan(wanted)) ? 0 : fabs(got - wanted);
        row->error = !(off / bound <= row->error) ? off / bound : row->error;
        blame(row, !(off <= bound), "row %zu head %zu: %g instead of %g, bound %g", i / p->heads, i % p->heads, got,
              wanted, bound);
    }
    free(theirs);
    free(ours);
    free(most);
    return good;
}

/* Device and file may each round every P their own way, and see queries that differ by e4m3 steps: twice an element's
 * bound, and as much again. */
static bool compare_elements(struct replay *p, int32_t r, struct replay_row *row) {
    const uint16_t *wanted = p->layer->steps[0].rank[r].rows;
    const struct layer_outcome *out = layer_run_outcome(p->run, 0, r);
    size_t count = p->batch * p->heads;
    double *rows = malloc(count * REF_LATENT * sizeof *rows), *lse = malloc(count * sizeof *lse),
           *magnitude = malloc(count * REF_LATENT * sizeof *magnitude);
    bool good = rows && lse && magnitude;
    if (good) {
        expect_decode(p->layer, &p->layer->steps[0], r, out->query, layer_run_cache(p->run, r), false, rows, lse, NULL,
                      magnitude);
    }
    for (size_t i = 0; good && i < count * REF_LATENT; i++) {
        double value = bf16_to_double(out->rows[i]), ideal = bf16_to_double(wanted[i]);
        double bound = 4 * p->bounds->element * magnitude[i] + fabs(ideal) / 64;
        blame(row, isfinite(ideal) && isfinite(bound) && !(fabs(value - ideal) <= bound),
              "row %zu head %zu latent %zu: %g instead of %g, bound %g", i / REF_LATENT / p->heads,
              i / REF_LATENT % p->heads, i % REF_LATENT, value, ideal, bound);
    }
    free(rows);
    free(lse);
    free(magnitude);
    return good;
}

static bool compare_rows(struct replay *p, int32_t r) {
    const struct layer_rank_step *in = &p->layer->steps[0].rank[r];
    const struct layer_outcome *out = layer_run_outcome(p->run, 0, r);
    size_t count = p->batch * p->heads;
    if (in->rows) {
        struct replay_row *row = add(p, "relative", p->bounds->rows_ideal, "rank%d.rows", r);
        compare_vectors(row, out->rows, in->rows, count, REF_LATENT, p->heads, p->bounds->one_row);
        if (!compare_elements(p, r, row)) {
            return false;
        }
    }
    return in->rows_lse == NULL || compare_lse(p, r);
}

static void compare_output(struct replay *p, int32_t r) {
    const struct layer_rank_step *in = &p->layer->steps[0].rank[r];
    size_t heads = (size_t)p->layer->heads;
    if (in->output) {
        struct replay_row *row = add(p, "relative", p->bounds->output_ideal, "rank%d.output", r);
        compare_vectors(row, layer_run_outcome(p->run, 0, r)->output, in->output, p->batch * heads, REF_VALUE, heads,
                        p->bounds->one_row);
    }
}

int replay_compare(const struct layer_run *run, const struct layer_case *layer, const struct layer_bounds *bounds,
                   struct replay_row rows[REPLAY_MOST_ROWS]) {
    struct replay p = {.run = run,
                       .layer = layer,
                       .bounds = bounds,
                       .rows = rows,
                       .batch = (size_t)layer->batch,
                       .heads = (size_t)(layer->dcp * layer->heads)};
    compare_query(&p);
    for (int32_t r = 0; r < layer->dcp; r++) {
        compare_cache(&p, r);
    }
    for (int32_t r = 0; r < layer->dcp; r++) {
        if (!compare_rows(&p, r)) {
            return -1;
        }
    }
    for (int32_t r = 0; r < layer->dcp; r++) {
        compare_output(&p, r);
    }
    return p.count;
}

/* ---- writing ------------------------------------------------------------------------------------- */

bool replay_write(const char *path, const struct layer_run *run, const struct layer_case *layer, char *why) {
    static const struct safetensors_text format[] = {{"format", "dcpk-results-1"}};
    struct safetensors_item items[REPLAY_MOST_ROWS];
    char names[REPLAY_MOST_ROWS][32];
    size_t count = 0;
    uint64_t batch = (uint64_t)layer->batch, all = (uint64_t)(layer->dcp * layer->heads);
    items[count++] = (struct safetensors_item){.name = "query",
                                               .dtype = SAFETENSORS_U8,
                                               .dimensions = 3,
                                               .shape = {batch, all, LAYER_TOKEN},
                                               .data = layer_run_outcome(run, 0, 0)->query};
    for (int32_t r = 0; r < layer->dcp; r++) {
        const struct layer_outcome *out = layer_run_outcome(run, 0, r);
        const struct safetensors_item own[] = {
            {"rows", SAFETENSORS_BF16, 3, {batch, all, REF_LATENT}, out->rows},
            {"rows_lse", SAFETENSORS_F32, 2, {batch, all}, out->rows_lse},
            {"output", SAFETENSORS_BF16, 2, {batch, (uint64_t)layer->heads * REF_VALUE}, out->output},
            {"kv_cache_after",
             SAFETENSORS_U8,
             3,
             {(uint64_t)layer->rank[r].pages, (uint64_t)layer->page, LAYER_TOKEN},
             layer_run_cache(run, r)}};
        for (size_t i = 0; i < sizeof own / sizeof *own; i++, count++) {
            items[count] = own[i];
            snprintf(names[count], sizeof names[count], "rank%d.%s", r, own[i].name);
            items[count].name = names[count];
        }
    }
    return safetensors_write(path, format, 1, items, count, why);
}
