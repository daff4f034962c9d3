/* layer_make.c - see layer_make.h. */
#include <tools/layer_make.h>

#include <tools/numbers.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BF16_NAN = 0x7FC0, E4M3_NAN = 0x7F, MORE_TABLE = 2 };
/* What a stream of numbers is for: streams of different places never meet. */
enum { FOR_WEIGHTS = 1, FOR_NORMS, FOR_ROWS, FOR_GATES, FOR_KEYS, FOR_PAGES, FOR_QF };

static void stream(struct random *random, uint64_t seed, uint64_t what, uint64_t a, uint64_t b) {
    random_seed(random, seed * 0x9E3779B97F4A7C15u + what * 0xD1B54A32D192ED03u + a * 0x8CB92BA72F3D8DD7u +
                            b * 0xABC98388FB8FAC03u);
}

void layer_make_init(struct layer_make *make) {
    *make = (struct layer_make){.heads = 1,
                                .dcp = 1,
                                .batch = 1,
                                .q = 1,
                                .page = 64,
                                .interleave = 1,
                                .q_lora = REF_Q_LORA,
                                .gate = 1,
                                .rope_theta = 10000,
                                .eps = 1e-5,
                                .softmax_scale = 0.07216878364870322,
                                .q_scale_inv = 1,
                                .k_scale_inv = 1,
                                .steps = 1,
                                .seed = 1,
                                .sigma = 1.3,
                                .more_pitch = 16};
}

/* One rank's part of the making. */
struct maker {
    const struct layer_make *in;
    struct layer_case *layer;
    int32_t requests;
    double query_sigma; /* of a query element before q_scale_inv */
};

static int32_t total_at(const struct layer_make *in, int32_t request, int32_t step) {
    int32_t total = in->contexts == NULL          ? 1
                    : in->context_count == 1      ? in->contexts[0]
                    : request < in->context_count ? in->contexts[request]
                                                  : 0;
    return total <= 0 ? total : total + step * in->q;
}

static uint16_t *normals(struct random *random, size_t count, double center, double sigma) {
    uint16_t *x = malloc(count * sizeof *x);
    for (size_t i = 0; x && i < count; i++) {
        x[i] = bf16_from_double(center + sigma * random_normal(random));
    }
    return x;
}

/* ---- weights ------------------------------------------------------------------------------------- */

/* sigma of the scores = softmax_scale * sqrt(576) * query_sigma: Q_B gives qf that sigma, W_UK keeps it. */
static bool make_weights(struct maker *m, int32_t r) {
    struct random random;
    struct layer_case *l = m->layer;
    size_t heads = (size_t)l->heads, qb = (size_t)REF_HEAD_QUERY * REF_Q_LORA;
    struct layer_rank *rank = &l->rank[r];
    rank->kv_b = malloc(heads * REF_HEAD_WEIGHTS * 2);
    rank->w_q_b = l->q_lora ? malloc(heads * qb * 2) : NULL;
    if (!rank->kv_b || (l->q_lora && !rank->w_q_b)) {
        return false;
    }
    for (size_t h = 0; h < heads; h++) {
        stream(&random, m->in->seed, FOR_WEIGHTS, (uint64_t)r * heads + h, 0);
        uint16_t *kv_b = rank->kv_b + h * REF_HEAD_WEIGHTS;
        for (size_t i = 0; i < REF_HEAD_WEIGHTS; i++) {
            bool uk = i < REF_HEAD_WEIGHTS / 2;
            kv_b[i] = bf16_from_double(random_normal(&random) / sqrt(uk ? REF_NOPE : REF_LATENT));
        }
        for (size_t i = 0; l->q_lora && i < qb; i++) {
            rank->w_q_b[h * qb + i] = bf16_from_double(random_normal(&random) * m->query_sigma / sqrt(REF_Q_LORA));
        }
    }
    return true;
}

static bool make_norms(struct maker *m) {
    struct random random;
    stream(&random, m->in->seed, FOR_NORMS, 0, 0);
    m->layer->kv_a_norm = normals(&random, REF_LATENT, 1, 0.1);
    m->layer->q_a_norm = m->layer->q_lora ? normals(&random, REF_Q_LORA, 1, 0.1) : NULL;
    return m->layer->kv_a_norm && (!m->layer->q_lora || m->layer->q_a_norm);
}

/* ---- cache --------------------------------------------------------------------------------------- */

static void make_key(const struct layer_make *in, int32_t request, int32_t position, uint8_t *key) {
    struct random random;
    stream(&random, in->seed, FOR_KEYS, (uint64_t)request, (uint64_t)position);
    for (int i = 0; i < LAYER_TOKEN; i++) {
        key[i] = e4m3_from_double((random_normal(&random) + (i < REF_LATENT ? in->mean : 0)) * in->k_scale_inv);
    }
}

/* Page ids of the rank for its final lengths, scattered, page 0 left out: pages[request * most + p]. */
static int32_t *scatter_pages(struct maker *m, int32_t r, int32_t *most, int32_t *pages) {
    struct layer_case *l = m->layer;
    struct random random;
    int32_t count = 0;
    *most = 1;
    for (int32_t i = 0; i < m->requests; i++) {
        int32_t length = reference_local(total_at(m->in, i, m->in->steps - 1), l->dcp, r, l->interleave);
        int32_t live = (length + l->page - 1) / l->page;
        *most = live > *most ? live : *most;
        count += live;
    }
    *pages = (count + 3) / 2 * 2; /* even: a page id with its last bit flipped is one, too */
    int32_t *ids = calloc((size_t)*pages, sizeof *ids), *table = calloc((size_t)(m->requests * *most), sizeof *table);
    stream(&random, m->in->seed, FOR_PAGES, (uint64_t)r, 0);
    for (int32_t i = 0; ids && i < *pages - 1; i++) {
        int32_t other = (int32_t)random_below(&random, (uint32_t)i + 1);
        ids[i] = ids[other];
        ids[other] = i + 1;
    }
    for (int32_t i = 0, next = 0; ids && table && i < m->requests; i++) {
        int32_t length = reference_local(total_at(m->in, i, m->in->steps - 1), l->dcp, r, l->interleave);
        for (int32_t p = 0; p < *most; p++) {
            table[i * *most + p] = p < (length + l->page - 1) / l->page ? ids[next++] : -1;
        }
    }
    free(ids);
    return table;
}

static bool make_cache(struct maker *m, int32_t r, const int32_t *pages, int32_t most) {
    struct layer_case *l = m->layer;
    size_t bytes = (size_t)l->rank[r].pages * (size_t)l->page * LAYER_TOKEN;
    uint8_t *cache = malloc(bytes);
    l->rank[r].cache = cache;
    if (!cache) {
        return false;
    }
    memset(cache, E4M3_NAN, bytes);
    for (int32_t i = 0; i < m->requests; i++) {
        for (int32_t position = 0; position < total_at(m->in, i, 0) - l->q; position++) {
            if (layer_owner(l, position) == r) {
                int32_t local = layer_local(l, position), page = pages[i * most + local / l->page];
                make_key(m->in, i, position,
                         cache + ((size_t)page * (size_t)l->page + (size_t)(local % l->page)) * LAYER_TOKEN);
            }
        }
    }
    return true;
}

/* ---- steps --------------------------------------------------------------------------------------- */

static bool make_angles(struct maker *m, struct layer_step *step) {
    struct layer_case *l = m->layer;
    if (l->rope == ROPE_NONE) {
        return true;
    }
    step->cos_sin = malloc((size_t)l->batch * REF_ROPE * sizeof *step->cos_sin);
    for (int32_t row = 0; step->cos_sin && row < l->batch; row++) {
        bool padding = step->totals[row / l->q] <= 0;
        int32_t position = layer_position(l, step, row);
        for (int i = 0; i < REF_ROPE / 2; i++) {
            double angle = (position > 0 ? position : 0) * pow(m->in->rope_theta, -2.0 * i / REF_ROPE);
            step->cos_sin[row * REF_ROPE + i] = padding ? NAN : (float)cos(angle);
            step->cos_sin[row * REF_ROPE + REF_ROPE / 2 + i] = padding ? NAN : (float)sin(angle);
        }
    }
    return step->cos_sin != NULL;
}

/* The row's q_a, kv_c and k_pe are the same on every rank (a replicated projection); the gate is the rank's own. */
static void make_row(struct maker *m, int32_t r, int32_t s, int32_t row, uint16_t *x) {
    struct random random;
    struct layer_case *l = m->layer;
    int32_t gate_at = (int32_t)layer_gate_at(l);
    stream(&random, m->in->seed, FOR_ROWS, (uint64_t)s, (uint64_t)row);
    for (int32_t i = 0; i < gate_at; i++) {
        bool latent = i >= l->q_lora && i < l->q_lora + REF_LATENT;
        x[i] = bf16_from_double(random_normal(&random) * (i < l->q_lora ? 1.5 : 1) + (latent ? m->in->mean : 0));
    }
    for (int32_t h = 0; l->gate && h < l->heads; h++) {
        stream(&random, m->in->seed, FOR_GATES + ((uint64_t)s << 8), (uint64_t)row, (uint64_t)(r * l->heads + h));
        for (int32_t i = 0; i < REF_VALUE; i++) {
            x[gate_at + h * REF_VALUE + i] = bf16_from_double(2 * random_normal(&random));
        }
    }
}

static void make_qf(struct maker *m, int32_t r, int32_t s, int32_t row, uint16_t *qf) {
    struct random random;
    for (int32_t h = 0; h < m->layer->heads; h++) {
        stream(&random, m->in->seed, FOR_QF + ((uint64_t)s << 8), (uint64_t)row, (uint64_t)(r * m->layer->heads + h));
        for (int32_t i = 0; i < REF_HEAD_QUERY; i++) {
            qf[h * REF_HEAD_QUERY + i] = bf16_from_double(m->query_sigma * random_normal(&random));
        }
    }
}

static bool make_rows(struct maker *m, int32_t r, int32_t s) {
    struct layer_case *l = m->layer;
    struct layer_step *step = &l->steps[s];
    struct layer_rank_step *in = &step->rank[r];
    size_t batch = (size_t)l->batch, width = (size_t)l->heads * REF_HEAD_QUERY;
    in->pitch = (layer_row_width(l) + 7) / 8 * 8 + (size_t)m->in->more_pitch;
    in->qkv = malloc(batch * in->pitch * sizeof *in->qkv);
    in->qf = l->q_lora ? NULL : malloc(batch * width * sizeof *in->qf);
    if (!in->qkv || (!l->q_lora && !in->qf)) {
        return false;
    }
    for (size_t i = 0; i < batch * in->pitch; i++) {
        in->qkv[i] = BF16_NAN;
    }
    for (size_t i = 0; in->qf && i < batch * width; i++) {
        in->qf[i] = BF16_NAN;
    }
    for (int32_t row = 0; row < l->batch; row++) {
        if (step->totals[row / l->q] > 0) {
            make_row(m, r, s, row, in->qkv + (size_t)row * in->pitch);
            if (in->qf) {
                make_qf(m, r, s, row, in->qf + (size_t)row * width);
            }
        }
    }
    return true;
}

static bool make_tables(struct maker *m, int32_t r, int32_t s, const int32_t *pages, int32_t most) {
    struct layer_case *l = m->layer;
    struct layer_step *step = &l->steps[s];
    struct layer_rank_step *in = &step->rank[r];
    in->max_pages = most + MORE_TABLE;
    in->block_table = malloc((size_t)(m->requests * in->max_pages) * sizeof *in->block_table);
    in->slots = malloc((size_t)l->batch * sizeof *in->slots);
    if (!in->block_table || !in->slots) {
        return false;
    }
    for (int32_t i = 0; i < m->requests; i++) {
        int32_t live = (reference_local(step->totals[i], l->dcp, r, l->interleave) + l->page - 1) / l->page;
        for (int32_t p = 0; p < in->max_pages; p++) {
            in->block_table[i * in->max_pages + p] = p < live ? pages[i * most + p] : -1;
        }
    }
    for (int32_t row = 0; row < l->batch; row++) {
        int32_t position = layer_position(l, step, row), local = position < 0 ? 0 : layer_local(l, position);
        bool mine = position >= 0 && layer_owner(l, position) == r;
        in->slots[row] = mine ? (int64_t)pages[row / l->q * most + local / l->page] * l->page + local % l->page : -1;
    }
    return true;
}

static bool make_steps(struct maker *m) {
    struct layer_case *l = m->layer;
    for (int32_t s = 0; s < m->in->steps; s++) {
        struct layer_step *step = layer_case_step(l);
        if (!step || !(step->totals = calloc((size_t)m->requests, sizeof *step->totals))) {
            return false;
        }
        for (int32_t i = 0; i < m->requests; i++) {
            step->totals[i] = total_at(m->in, i, s);
        }
        if (!make_angles(m, step)) {
            return false;
        }
    }
    return true;
}

static bool make_rank(struct maker *m, int32_t r) {
    int32_t most, *pages = scatter_pages(m, r, &most, &m->layer->rank[r].pages);
    bool good = pages && make_weights(m, r) && make_cache(m, r, pages, most);
    for (int32_t s = 0; good && s < m->in->steps; s++) {
        good = make_rows(m, r, s) && make_tables(m, r, s, pages, most);
    }
    free(pages);
    return good;
}

struct layer_case *layer_make(const struct layer_make *in, char why[LAYER_SENTENCE]) {
    struct layer_case *l = calloc(1, sizeof *l);
    snprintf(why, LAYER_SENTENCE, "out of memory");
    if (!l) {
        return NULL;
    }
    *l = (struct layer_case){.heads = in->heads,
                             .dcp = in->dcp,
                             .batch = in->batch,
                             .q = in->q,
                             .cap = in->cap,
                             .qh = in->qh,
                             .tiled_from = in->tiled_from,
                             .page = in->page,
                             .interleave = in->interleave,
                             .q_lora = in->q_lora,
                             .gate = in->gate,
                             .rope = in->rope,
                             .eps = in->eps,
                             .softmax_scale = in->softmax_scale,
                             .q_scale_inv = in->q_scale_inv,
                             .k_scale_inv = in->k_scale_inv};
    struct maker m = {.in = in, .layer = l, .query_sigma = in->sigma / (in->softmax_scale * sqrt(LAYER_TOKEN))};
    bool good = layer_case_check(l, why); /* the sizes: the rest divides by them */
    m.requests = good ? layer_requests(l) : 0;
    if (good) {
        snprintf(why, LAYER_SENTENCE, "out of memory");
        good = make_norms(&m) && make_steps(&m);
    }
    for (int32_t r = 0; good && r < l->dcp; r++) {
        good = make_rank(&m, r);
    }
    if (!good || !layer_case_check(l, why)) {
        layer_case_free(l);
        return NULL;
    }
    return l;
}
