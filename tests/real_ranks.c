/* real_ranks.c - see real_ranks.h: making the layer, rounds, comparing. May call: tools/layer_*.h, include/dcpk. */
#include <tests/real_ranks_inside.h>

#include <tools/layer_make.h>
#include <tools/tool_error.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TP = 8, RESULTS = 5 };

void ranks_blame(struct ranks_row *row, uint64_t wrong, const char *format, ...) {
    row->wrong += wrong;
    if (wrong && row->first[0] == '\0') {
        va_list list;
        va_start(list, format);
        vsnprintf(row->first, sizeof row->first, format, list);
        va_end(list);
    }
}

/* ---- the layer ----------------------------------------------------------------------------------- */

static void *copy(const void *from, size_t bytes, bool *good) {
    void *to = from ? malloc(bytes) : NULL;
    if (to) memcpy(to, from, bytes);
    *good = *good && (!from || to);
    return to;
}

/* One more step, with the inputs of step `from`. */
static bool repeat_step(struct layer_case *l, int32_t from) {
    struct layer_step *to = layer_case_step(l);
    if (!to) return false;
    const struct layer_step *step = &l->steps[from];
    size_t batch = (size_t)l->batch, requests = (size_t)layer_requests(l);
    bool good = true;
    to->totals = copy(step->totals, requests * sizeof *to->totals, &good);
    to->cos_sin = copy(step->cos_sin, batch * REF_ROPE * sizeof *to->cos_sin, &good);
    for (int32_t r = 0; r < l->dcp; r++) {
        const struct layer_rank_step *in = &step->rank[r];
        struct layer_rank_step *out = &to->rank[r];
        *out = (struct layer_rank_step){.pitch = in->pitch, .max_pages = in->max_pages};
        out->qkv = copy(in->qkv, batch * in->pitch * 2, &good);
        out->qf = copy(in->qf, batch * (size_t)l->heads * REF_HEAD_QUERY * 2, &good);
        out->block_table = copy(in->block_table, requests * (size_t)in->max_pages * 4, &good);
        out->slots = copy(in->slots, batch * 8, &good);
    }
    return good;
}

static dcpk_status make_layer(struct real_ranks *x, dcpk_error *error) {
    static const enum reference_rope ropes[] = {
        [DCPK_ROPE_NONE] = ROPE_NONE, [DCPK_ROPE_INTERLEAVED] = ROPE_INTERLEAVED, [DCPK_ROPE_HALF] = ROPE_HALF};
    const struct ranks_wish *w = &x->wish;
    const dcpk_spec *keys = w->keys;
    char why[LAYER_SENTENCE];
    struct layer_make make;
    dcpk_model_info info = {.size = sizeof info};
    layer_make_init(&make);
    dcpk_status status = dcpk_gen_model_info(w->gen, w->model, &info, error);
    if (status != DCPK_OK) return status;
    make.heads = info.heads / TP;
    make.dcp = w->ranks;
    make.q = keys->q == DCPK_UNSET ? 1 : keys->q;
    make.batch = w->context_count * make.q;
    make.page = keys->page == DCPK_UNSET ? 64 : keys->page;
    make.interleave = keys->interleave == DCPK_UNSET ? 1 : keys->interleave;
    make.cap = w->ranks > 1 ? make.batch + 1 : 0; /* a small box is read back fast */
    make.gate = info.gate;
    make.q_lora = info.q_lora;
    make.rope = ropes[info.rope];
    make.eps = info.eps;
    make.softmax_scale = info.softmax_scale;
    make.rope_theta = info.rope_theta > 0 ? info.rope_theta : make.rope_theta;
    make.contexts = w->contexts;
    make.context_count = w->context_count;
    make.steps = w->inputs;
    make.seed = w->seed;
    x->sigma = make.sigma;
    x->layer = layer_make(&make, why);
    if (!x->layer) return tool_fail(error, DCPK_E_ARG, "%s: %s", w->model, why);
    for (int32_t s = w->inputs; s < w->steps; s++)
        if (!repeat_step(x->layer, s % w->inputs))
            return tool_fail(error, DCPK_E_NOMEM, "no memory for %d steps", w->steps);
    x->judged = *x->layer;
    x->judged.step_count = w->inputs;
    return DCPK_OK;
}

/* ---- life ---------------------------------------------------------------------------------------- */

dcpk_status real_ranks_open(const struct ranks_wish *wish, struct real_ranks **out, dcpk_error *error) {
    struct real_ranks *x = calloc(1, sizeof *x);
    struct layer_run_options options;
    if (!x) return tool_fail(error, DCPK_E_NOMEM, "no memory for a check of ranks");
    *out = x;
    x->wish = *wish;
    x->first = calloc((size_t)wish->inputs * (size_t)wish->ranks * RESULTS, sizeof *x->first);
    if (!x->first) return tool_fail(error, DCPK_E_NOMEM, "no memory for a check of ranks");
    dcpk_status status = make_layer(x, error);
    if (status != DCPK_OK) return status;
    layer_run_options_init(&options, wish->gen);
    options.device = wish->device;
    options.cpu = wish->cpu;
    options.keys = wish->keys;
    options.form = LAYER_CYCLE;
    options.ask_environment = 1;
    options.bound_ns = wish->bound_ns;
    options.shares = wish->shares;
    options.page_gap = 64;
    options.inject = wish->inject == RANKS_INJECT_FIRST ? LAYER_INJECT_CACHE : LAYER_INJECT_NONE;
    options.before = rank_delays_before;
    options.before_self = &x->delays;
    status = layer_run_open(&options, x->layer, &x->run, error);
    if (status != DCPK_OK || wish->delay_ns == 0) return status;
    return rank_delays_open(&x->delays, x->run, wish->delay_ns, wish->seed, error);
}

void real_ranks_close(struct real_ranks *x) {
    if (!x) return;
    rank_delays_close(&x->delays);
    layer_run_close(x->run);
    layer_case_free(x->layer);
    for (size_t i = 0; x->first && i < (size_t)x->wish.inputs * (size_t)x->wish.ranks * RESULTS; i++)
        free(x->first[i]);
    for (int32_t r = 0; r < LAYER_MAX_RANKS; r++)
        free(x->cache[r]);
    free(x->first);
    free(x);
}

int32_t real_ranks_heads(const struct real_ranks *x) {
    return x->layer->heads;
}

/* ---- comparing ----------------------------------------------------------------------------------- */

struct result {
    const char *name;
    const void *data; /* NULL: the form has none */
    size_t bytes, row;
};

static void results_of(const struct real_ranks *x, int32_t s, int32_t r, struct result list[RESULTS]) {
    const struct layer_outcome *out = layer_run_outcome(x->run, s, r);
    size_t batch = (size_t)x->layer->batch, heads = (size_t)x->layer->heads, all = heads * (size_t)x->layer->dcp;
    const struct result each[RESULTS] = {{"q_c", out->qc, batch * REF_Q_LORA * 2, REF_Q_LORA * 2},
                                         {"query", out->query, batch * all * LAYER_TOKEN, all * LAYER_TOKEN},
                                         {"rows", out->rows, batch * all * REF_LATENT * 2, all * REF_LATENT * 2},
                                         {"rows_lse", out->rows_lse, batch * all * 4, all * 4},
                                         {"output", out->output, batch * heads * REF_VALUE * 2, heads * REF_VALUE * 2}};
    memcpy(list, each, sizeof each);
}

static bool keep_first(struct real_ranks *x) {
    bool good = true;
    struct result list[RESULTS];
    for (int32_t s = 0; s < x->wish.inputs; s++)
        for (int32_t r = 0; r < x->wish.ranks; r++) {
            results_of(x, s, r, list);
            uint8_t **to = &x->first[(size_t)(s * x->wish.ranks + r) * RESULTS];
            for (int i = 0; i < RESULTS; i++)
                to[i] = copy(list[i].data, list[i].bytes, &good);
        }
    for (int32_t r = 0; r < x->wish.ranks; r++) {
        size_t bytes = (size_t)x->layer->rank[r].pages * (size_t)x->layer->page * LAYER_TOKEN;
        x->cache[r] = copy(layer_run_cache(x->run, r), bytes, &good);
    }
    x->have_first = good;
    return good;
}

/* The first byte that differs; `bytes` when none does. */
static size_t first_difference(const uint8_t *a, const uint8_t *b, size_t bytes) {
    size_t at = 0;
    if (memcmp(a, b, bytes) == 0) return bytes;
    while (a[at] == b[at])
        at++;
    return at;
}

static void compare_step(struct real_ranks *x, int32_t s, int32_t r, struct ranks_row *row) {
    struct result list[RESULTS];
    uint8_t *const *wanted = &x->first[(size_t)(s % x->wish.inputs * x->wish.ranks + r) * RESULTS];
    results_of(x, s, r, list);
    for (int i = 0; i < RESULTS; i++) {
        if (!list[i].data || !wanted[i]) continue;
        size_t at = first_difference(list[i].data, wanted[i], list[i].bytes);
        ranks_blame(row, at < list[i].bytes,
                    "use %lld (step %d) rank %d: %s row %zu byte %zu: not as in the first use of the same inputs",
                    (long long)(row->uses + s), s, r, list[i].name, at / list[i].row, at % list[i].row);
    }
}

static dcpk_status judge(struct real_ranks *x, struct ranks_row *row, dcpk_error *error) {
    struct layer_bounds bounds;
    struct layer_judgement judged;
    layer_bounds_of(&x->judged, layer_run_scores_fp8(x->run), x->sigma, &bounds);
    if (!layer_judge(x->run, &x->judged, &bounds, &judged))
        return tool_fail(error, DCPK_E_NOMEM, "no memory for the reference");
    ranks_blame(row, judged.wrong, "against the reference: %s", judged.first);
    row->output = judged.output_ideal > row->output ? judged.output_ideal : row->output;
    row->rows = judged.rows_rounded > row->rows ? judged.rows_rounded : row->rows;
    row->output_bound = bounds.output_ideal;
    row->rows_bound = bounds.rows_rounded;
    return DCPK_OK;
}

dcpk_status ranks_compare(struct real_ranks *x, int32_t count, struct ranks_row *row, dcpk_error *error) {
    const char *first = "";
    dcpk_status status = DCPK_OK;
    if (!x->have_first) {
        status = keep_first(x) ? judge(x, row, error) : tool_fail(error, DCPK_E_NOMEM, "no memory for results");
        if (status != DCPK_OK) return status;
    }
    for (int32_t s = 0; s < count; s++)
        for (int32_t r = 0; r < x->wish.ranks; r++)
            compare_step(x, s, r, row);
    for (int32_t r = 0; r < x->wish.ranks; r++) {
        size_t bytes = (size_t)x->layer->rank[r].pages * (size_t)x->layer->page * LAYER_TOKEN;
        size_t at = first_difference(layer_run_cache(x->run, r), x->cache[r], bytes);
        ranks_blame(row, at < bytes, "rank %d: the cache is not as after the first round, page %zu byte %zu", r,
                    at / ((size_t)x->layer->page * LAYER_TOKEN), at % ((size_t)x->layer->page * LAYER_TOKEN));
    }
    uint64_t touched = layer_run_wrong(x->run, &first);
    ranks_blame(row, touched, "%s", first);
    return DCPK_OK;
}

/* ---- rounds -------------------------------------------------------------------------------------- */

/* A bit of a key that rank 0 has had from the start. */
static dcpk_status inject_later(struct real_ranks *x, dcpk_error *error) {
    const struct layer_rank_step *in = &x->layer->steps[0].rank[0];
    int32_t request = layer_first_request(x->layer, true);
    if (request < 0) return tool_fail(error, DCPK_E_ARG, "no request that a flipped bit could show in");
    int64_t page = in->block_table[(size_t)request * (size_t)in->max_pages];
    return rank_group_flip(layer_run_group(x->run), 0, layer_run_slot(x->run, 0, page * x->layer->page), 6, error);
}

/* Both kinds of delay meet both parities: 0 1 1 0, and again. */
static bool delays_every(int64_t round) {
    return (round + 1) / 2 % 2 == 1;
}

typedef dcpk_status launch_round(struct real_ranks *x, bool every, void *self, dcpk_error *error);

static dcpk_status one_round(struct real_ranks *x, int64_t round, bool last, launch_round *launch, void *self,
                             struct ranks_row *row, dcpk_error *error) {
    dcpk_status status = layer_run_clear(x->run, error);
    double begin = tool_now();
    if (status == DCPK_OK) status = launch(x, delays_every(round), self, error);
    if (status == DCPK_OK) status = rank_group_sync(layer_run_group(x->run), error);
    row->seconds += tool_now() - begin;
    if (status == DCPK_OK) status = layer_run_read(x->run, error);
    if (status == DCPK_OK) status = ranks_compare(x, x->wish.steps, row, error);
    if (status == DCPK_OK && last) status = judge(x, row, error);
    row->uses += x->wish.steps;
    if (status == DCPK_OK && round == 0 && x->wish.inject == RANKS_INJECT_LATER) status = inject_later(x, error);
    return status;
}

/* Ends at the first round with anything wrong; every use had late ranks. */
static dcpk_status all_rounds(struct real_ranks *x, launch_round *launch, void *self, struct ranks_row *row,
                              dcpk_error *error) {
    int64_t rounds = (x->wish.uses + x->wish.steps - 1) / x->wish.steps;
    char why[128];
    dcpk_status status = DCPK_OK;
    for (int64_t i = 0; i < rounds && status == DCPK_OK && row->wrong == 0; i++)
        status = one_round(x, i, i == rounds - 1, launch, self, row, error);
    if (status == DCPK_OK) status = rank_delays_look(&x->delays, (uint64_t)row->uses, why, error);
    if (status == DCPK_OK) ranks_blame(row, why[0] != '\0', "%s", why);
    return status;
}

static dcpk_status launch_eager(struct real_ranks *x, bool every, void *self, dcpk_error *error) {
    (void)self;
    x->delays.every = every;
    return layer_run_steps(x->run, 0, x->wish.steps, error);
}

dcpk_status real_ranks_eager(struct real_ranks *x, struct ranks_row *row, dcpk_error *error) {
    memset(row, 0, sizeof *row);
    return all_rounds(x, launch_eager, NULL, row, error);
}

static dcpk_status launch_graph(struct real_ranks *x, bool every, void *self, dcpk_error *error) {
    struct layer_graph **graphs = self;
    (void)x;
    return layer_graph_launch(graphs[every], error);
}

dcpk_status real_ranks_captured(struct real_ranks *x, struct ranks_row *row, dcpk_error *error) {
    struct layer_graph *graphs[2] = {NULL, NULL};
    dcpk_status status = DCPK_OK;
    memset(row, 0, sizeof *row);
    for (int every = 0; every < 2 && status == DCPK_OK; every++) {
        x->delays.every = every;
        status = layer_graph_open(x->run, 0, x->wish.steps, &graphs[every], error);
    }
    if (status == DCPK_OK) status = all_rounds(x, launch_graph, graphs, row, error);
    for (int every = 0; every < 2; every++)
        layer_graph_close(graphs[every]);
    return status;
}
