/* layer_case.c - see layer_case.h. */
#include <tools/layer_case.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_step(struct layer_step *step) {
    free(step->totals);
    free(step->cos_sin);
    free(step->query);
    for (int r = 0; r < LAYER_MAX_RANKS; r++) {
        struct layer_rank_step *rank = &step->rank[r];
        free(rank->qkv);
        free(rank->qf);
        free(rank->block_table);
        free(rank->slots);
        free(rank->output);
        free(rank->rows);
        free(rank->rows_lse);
        free(rank->cache_after);
    }
}

void layer_case_free(struct layer_case *layer) {
    if (layer == NULL) {
        return;
    }
    for (int32_t s = 0; s < layer->step_count; s++) {
        free_step(&layer->steps[s]);
    }
    for (int r = 0; r < LAYER_MAX_RANKS; r++) {
        free(layer->rank[r].w_q_b);
        free(layer->rank[r].kv_b);
        free(layer->rank[r].cache);
    }
    free(layer->steps);
    free(layer->q_a_norm);
    free(layer->kv_a_norm);
    free(layer->source);
    free(layer);
}

struct layer_step *layer_case_step(struct layer_case *layer) {
    struct layer_step *steps = realloc(layer->steps, ((size_t)layer->step_count + 1) * sizeof *steps);
    if (steps == NULL) {
        return NULL;
    }
    layer->steps = steps;
    struct layer_step *step = &steps[layer->step_count++];
    memset(step, 0, sizeof *step);
    return step;
}

size_t layer_gate_at(const struct layer_case *layer) {
    return (size_t)layer->q_lora + LAYER_TOKEN;
}

size_t layer_row_width(const struct layer_case *layer) {
    return layer_gate_at(layer) + (layer->gate ? (size_t)layer->heads * REF_VALUE : 0);
}

int32_t layer_requests(const struct layer_case *layer) {
    return layer->batch / layer->q;
}

void layer_lens(const struct layer_case *layer, const struct layer_step *step, int32_t rank, int32_t *lens) {
    for (int32_t i = 0; i < layer_requests(layer); i++) {
        lens[i] = reference_local(step->totals[i], layer->dcp, rank, layer->interleave);
    }
}

int32_t layer_position(const struct layer_case *layer, const struct layer_step *step, int32_t row) {
    int32_t total = step->totals[row / layer->q];
    return total <= 0 ? -1 : total - layer->q + row % layer->q;
}

int32_t layer_first_request(const struct layer_case *layer, bool cached) {
    for (int32_t i = 0; i < layer_requests(layer); i++) {
        if (layer->steps[0].totals[i] > (cached ? layer->q : 0)) {
            return i;
        }
    }
    return -1;
}

int32_t layer_owner(const struct layer_case *layer, int32_t position) {
    return position / layer->interleave % layer->dcp;
}

int32_t layer_local(const struct layer_case *layer, int32_t position) {
    int32_t block = layer->interleave * layer->dcp;
    return position / block * layer->interleave + position % layer->interleave;
}

/* ---- rules --------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static bool no(char *why, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(why, LAYER_SENTENCE, format, list);
    va_end(list);
    return false;
}

static bool check_sizes(const struct layer_case *l, char *why) {
    const struct {
        const char *name;
        int32_t value, low, high;
    } sizes[] = {{"heads", l->heads, 1, 128},
                 {"dcp", l->dcp, 1, LAYER_MAX_RANKS},
                 {"batch", l->batch, 1, 512},
                 {"q", l->q, 1, 8},
                 {"page", l->page, 16, 64},
                 {"gate", l->gate, 0, 1},
                 {"interleave", l->interleave, 1, 64},
                 {"tiled_from", l->tiled_from, 0, 513}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < sizes[i].low || sizes[i].value > sizes[i].high) {
            return no(why, "%s is %d; it must be %d to %d", sizes[i].name, sizes[i].value, sizes[i].low, sizes[i].high);
        }
    }
    if (l->page & (l->page - 1)) {
        return no(why, "page is %d; it must be 16, 32 or 64", l->page);
    }
    if (l->page % l->interleave) {
        return no(why, "interleave (%d) must divide page (%d)", l->interleave, l->page);
    }
    if (l->batch % l->q) {
        return no(why, "q (%d) must divide batch (%d)", l->q, l->batch);
    }
    if (l->q_lora != 0 && l->q_lora != REF_Q_LORA) {
        return no(why, "q_lora is %d; it must be 1536 or 0", l->q_lora);
    }
    return true;
}

/* The live part of one request's table row. Requests may share pages (a common prefix). */
static bool check_table(const struct layer_case *l, int32_t r, const struct layer_rank_step *in, int32_t request,
                        int32_t length, char *why) {
    int32_t live = (length + l->page - 1) / l->page;
    if (live > in->max_pages) {
        return no(why, "rank%d.block_table: request %d has %d tokens here, %d pages of %d, but a row holds %d", r,
                  request, length, live, l->page, in->max_pages);
    }
    for (int32_t p = 0; p < live; p++) {
        int32_t page = in->block_table[(size_t)request * (size_t)in->max_pages + (size_t)p];
        if (page < 0 || page >= l->rank[r].pages) {
            return no(why, "rank%d.block_table[%d][%d] is %d, a live page; the cache has %d pages", r, request, p, page,
                      l->rank[r].pages);
        }
    }
    return true;
}

static bool check_slot(const struct layer_case *l, const struct layer_step *step, int32_t r, int32_t row, char *why) {
    const struct layer_rank_step *in = &step->rank[r];
    int32_t position = layer_position(l, step, row), request = row / l->q;
    int64_t slot = in->slots[row], wanted = -1;
    if (slot < -1 || slot >= (int64_t)l->rank[r].pages * l->page) {
        return no(why, "rank%d.slots[%d] is %lld; slots are -1 to %lld", r, row, (long long)slot,
                  (long long)l->rank[r].pages * l->page - 1);
    }
    if (position >= 0 && layer_owner(l, position) == r) {
        int32_t local = layer_local(l, position);
        int32_t page = in->block_table[(size_t)request * (size_t)in->max_pages + (size_t)(local / l->page)];
        wanted = (int64_t)page * l->page + local % l->page;
    }
    if (slot != wanted && position < 0) {
        return no(why,
                  "rank%d.slots[%d] is %lld; the row has no token (padding, or a request shorter than q), so it is -1",
                  r, row, (long long)slot);
    }
    if (slot != wanted && wanted < 0) {
        return no(why, "rank%d.slots[%d] is %lld; position %d of request %d is rank %d's, so it is -1 here", r, row,
                  (long long)slot, position, request, layer_owner(l, position));
    }
    if (slot != wanted) {
        return no(why, "rank%d.slots[%d] is %lld; the block table puts position %d of request %d at %lld", r, row,
                  (long long)slot, position, request, (long long)wanted);
    }
    return true;
}

static bool check_rank(const struct layer_case *l, const struct layer_step *step, int32_t r, char *why) {
    const struct layer_rank_step *in = &step->rank[r];
    int32_t lens[512];
    size_t width = layer_row_width(l);
    if (in->pitch < width || in->pitch % 8) {
        return no(why, "rank%d.qkv has rows of %zu; a row needs at least %zu, a multiple of 8", r, in->pitch, width);
    }
    bool good = true;
    layer_lens(l, step, r, lens);
    for (int32_t i = 0; good && i < layer_requests(l); i++) {
        good = check_table(l, r, in, i, lens[i], why);
    }
    for (int32_t row = 0; good && row < l->batch; row++) {
        good = check_slot(l, step, r, row, why);
        for (int32_t other = 0; good && in->slots[row] >= 0 && other < row; other++) {
            if (in->slots[other] == in->slots[row]) {
                good = no(why, "rank%d.slots: rows %d and %d both store at %lld", r, other, row,
                          (long long)in->slots[row]);
            }
        }
    }
    return good;
}

bool layer_case_check(const struct layer_case *layer, char why[LAYER_SENTENCE]) {
    bool good = check_sizes(layer, why);
    for (int32_t s = 0; good && s < layer->step_count; s++) {
        for (int32_t r = 0; good && r < layer->dcp; r++) {
            good = check_rank(layer, &layer->steps[s], r, why);
        }
    }
    return good;
}
