/* scenario_inputs.c - the numbers of a scenario, from its seed: weights, packed rows, queries, partial rows, LSE,
 * lengths. May call: numbers.h, reference.h (what a source weighs). Must not: touch a device. */
#include <tools/scenario_inside.h>

#include <tools/numbers.h>
#include <tools/reference.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Draws of N(0, 1) in BF16: fast, and good enough for tens of millions of weights. */
enum { TABLE = 8192 };
struct table {
    uint16_t normal[TABLE];
};

static void table_fill(struct table *table, struct random *random, double scale) {
    for (int i = 0; i < TABLE; i++) {
        table->normal[i] = bf16_from_double(scale * random_normal(random));
    }
}

static void draw(const struct table *table, struct random *random, uint16_t *to, size_t count) {
    for (size_t i = 0; i < count; i += 4) {
        uint64_t word = random_next(random);
        for (size_t k = 0; k < 4 && i + k < count; k++) {
            to[i + k] = table->normal[(word >> (16 * k)) % TABLE];
        }
    }
}

static void fill16(uint16_t *to, uint16_t value, size_t count) {
    for (size_t i = 0; i < count; i++) {
        to[i] = value;
    }
}

/* W_UK belongs to another kernel: NaN there shows who reads it. */
static void make_weights(struct scenario *s, struct rank *rank, const struct table *table, struct random *random) {
    for (int32_t h = 0; h < s->heads; h++) {
        uint16_t *head = rank->kv_b + (size_t)h * REF_HEAD_WEIGHTS;
        fill16(head, 0x7FC0, REF_HEAD_WEIGHTS / 2);
        draw(table, random, head + REF_HEAD_WEIGHTS / 2, REF_HEAD_WEIGHTS / 2);
    }
    for (int i = 0; i < REF_Q_LORA; i++) {
        rank->q_a_norm[i] = bf16_from_double(1 + 0.25 * random_normal(random));
    }
}

/* What a request is, by turns, so that small batches meet every kind over their uses. */
enum request_kind { KIND_PLAIN, KIND_EMPTY_SHARDS, KIND_PADDED };

static enum request_kind kind_of(const struct scenario *s, int32_t use, int32_t request) {
    int32_t turn = (use * 2 + request) % 5;
    if (turn == 1 && (s->options.nasty & NASTY_EMPTY_SHARDS)) {
        return KIND_EMPTY_SHARDS;
    }
    return turn == 3 && (s->options.nasty & NASTY_PADDED) ? KIND_PADDED : KIND_PLAIN;
}

/* Totals and the local lengths that follow from them with interleave 1: ceil((L - r) / D). */
static void make_lengths(struct scenario *s, int32_t index, struct random *random) {
    struct use *use = &s->use[index];
    for (int32_t i = 0; i < use->batch / s->q; i++) {
        enum request_kind kind = kind_of(s, index, i);
        int32_t total = s->dcp + (int32_t)random_below(random, 5000);
        if (kind == KIND_EMPTY_SHARDS) {
            total = 1 + (int32_t)random_below(random, (uint32_t)s->dcp);
        } else if (kind == KIND_PADDED) {
            total = i % 2 ? 0 : -7;
        }
        use->totals[i] = total;
        for (int32_t r = 0; r < s->dcp; r++) {
            int32_t length = total > r ? (total - r + s->dcp - 1) / s->dcp : 0;
            use->ranks[r].lens[i] = length > 0 || i % 2 ? length : -3;
        }
    }
}

static void make_query(struct scenario *s, int32_t index, int32_t r, struct random *random) {
    struct use *use = &s->use[index];
    bool nasty = s->options.nasty & NASTY_QUERY;
    for (int32_t row = 0; row < use->batch * s->heads; row++) {
        uint8_t *bytes = use->ranks[r].query + (size_t)row * REF_HEAD_BYTES;
        for (int i = 0; i < REF_HEAD_BYTES; i += 8) {
            uint64_t word = random_next(random);
            memcpy(bytes + i, &word, 8);
        }
        if (!nasty) {
            for (int i = 0; i < REF_HEAD_BYTES; i++) {
                bytes[i] = bytes[i] == 0xFF ? 0xFE : bytes[i];
            }
        } else if ((row + index) % 3 == 0) { /* one chunk, or every byte of the head row, would be the sentinel */
            size_t from = row % 2 ? 16 * (size_t)random_below(random, 36) : 0;
            memset(bytes + from, 0xFF, row % 2 ? 16 : REF_HEAD_BYTES);
        }
    }
}

static void make_packed(struct scenario *s, int32_t index, int32_t r, const struct table *unit, struct random *random) {
    struct use *use = &s->use[index];
    for (int32_t row = 0; row < use->batch; row++) {
        uint16_t *at = use->ranks[r].qkv + (size_t)row * s->pitch;
        size_t gates = (size_t)s->heads * REF_VALUE;
        double scale = ldexp(1, (int)random_below(random, 21) - 10);
        draw(unit, random, at, s->pitch);
        for (int i = 0; i < REF_Q_LORA; i++) {
            at[i] = bf16_from_double(bf16_to_double(at[i]) * scale);
        }
        fill16(at + ROW_START_GATE + gates, 0xFFFF, ROW_PADDING); /* nobody's columns */
        if (kind_of(s, index, row / s->q) == KIND_PADDED) {
            fill16(at, 0x7FC0, REF_Q_LORA);
            for (size_t g = 0; g < gates; g += 1 + g % 3) {
                at[ROW_START_GATE + g] = g % 2 ? 0xFFFF : 0x7F81;
            }
        } else if (s->options.nasty & NASTY_PAYLOAD) { /* gates that saturate the sigmoid, and infinite ones */
            static const uint16_t extreme[] = {0x42C8, 0xC2C8, 0x7F80, 0xFF80, 0x8000, 0xC2F0};
            for (size_t k = 0; k < 6; k++) {
                at[ROW_START_GATE + random_below(random, (uint32_t)gates)] = extreme[k];
            }
        }
    }
}

static float *lse_at(struct scenario *s, int32_t index, int32_t source, int32_t row, int32_t head) {
    return s->use[index].ranks[source].lse + (size_t)row * (size_t)(s->dcp * s->heads) + (size_t)head;
}

/* Base-2 LSE of all sources of one row and head: a few doublings apart, then what the case bits ask for. */
static void make_lse(struct scenario *s, int32_t index, int32_t row, int32_t head, struct random *random) {
    static const uint32_t empty[] = {0x7FC00000u, 0x7F800000u, 0xFF800000u, 0xFFFFFFFFu, 0x7FFFFFFFu, 0xFFC00000u};
    static const float far_off[] = {-1.04e5f, -3.4028234e38f, 3.4028234e38f, -200.0f};
    uint32_t turn = random_below(random, 8);
    double base = 20 * random_normal(random);
    for (int32_t r = 0; r < s->dcp; r++) {
        *lse_at(s, index, r, row, head) = (float)(base + 2 * random_normal(random));
    }
    if (turn == 7 && (s->options.nasty & NASTY_ALL_EMPTY)) {
        for (int32_t r = 0; r < s->dcp; r++) {
            *lse_at(s, index, r, row, head) = f32_from_bits(empty[random_below(random, 6)]);
        }
    } else if (turn < 4 && (s->options.nasty & NASTY_LSE)) {
        int32_t victim = (int32_t)random_below(random, (uint32_t)s->dcp);
        float value = turn < 2 ? f32_from_bits(empty[random_below(random, 6)]) : far_off[random_below(random, 4)];
        *lse_at(s, index, victim, row, head) = value;
    }
}

static uint16_t *row_at(struct scenario *s, int32_t index, int32_t source, int32_t row, int32_t head) {
    return s->use[index].ranks[source].rows + ((size_t)row * (size_t)(s->dcp * s->heads) + (size_t)head) * REF_LATENT;
}

/* A payload that weighs something: -0 alone, as a pair, as the very sentinel word, over the whole row; subnormals. */
static void spoil_payload(uint16_t *row, struct random *random) {
    switch (random_below(random, 5)) {
    case 0:
        fill16(row, 0x8000, REF_LATENT);
        break;
    case 1:
        for (int l = 0; l < REF_LATENT; l += 2) {
            row[l] = 0;
            row[l + 1] = 0x8000; /* the word 0x80000000 */
        }
        break;
    case 2:
        for (int l = 0; l < REF_LATENT; l++) {
            row[l] = (uint16_t)(1 + random_below(random, 0x7F) + 0x8000 * random_below(random, 2));
        }
        break;
    default:
        for (int k = 0; k < 32; k++) {
            uint32_t l = random_below(random, REF_LATENT / 2);
            row[2 * l] = random_below(random, 2) ? 0 : 0x8000;
            row[2 * l + 1] = 0x8000;
        }
    }
}

/* A payload that weighs nothing may hold anything. */
static void garbage_payload(uint16_t *row, struct random *random) {
    static const uint16_t word[] = {0x7FC0, 0x7F80, 0xFF80, 0xFFFF, 0x7F7F, 0x8000};
    fill16(row, word[random_below(random, 6)], REF_LATENT);
    if (random_below(random, 2)) {
        row[random_below(random, REF_LATENT)] = 0x7FFF;
    }
}

static void nonfinite_payload(uint16_t *row, struct random *random) {
    static const uint16_t word[] = {0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x7F81};
    row[random_below(random, REF_LATENT)] = word[random_below(random, 5)];
}

static void make_row(struct scenario *s, int32_t index, int32_t row, int32_t head, struct reference_value *in,
                     struct random *random) {
    double weights[MAX_RANKS];
    make_lse(s, index, row, head, random);
    reference_merge_weights(in, row, head, weights);
    bool padded = kind_of(s, index, row / s->q) == KIND_PADDED;
    for (int32_t r = 0; r < s->dcp; r++) {
        uint16_t *to = row_at(s, index, r, row, head);
        bool nothing = weights[r] == 0;
        if (padded || (nothing && (s->options.nasty & (NASTY_PAYLOAD | NASTY_EMPTY_SHARDS | NASTY_ALL_EMPTY)))) {
            garbage_payload(to, random);
        } else if (!nothing && (s->options.nasty & NASTY_PAYLOAD) && random_below(random, 4) == 0) {
            spoil_payload(to, random);
        } else if (weights[r] > 0x1p-20 && (s->options.nasty & NASTY_NONFINITE) && random_below(random, 12) == 0) {
            nonfinite_payload(to, random);
        }
    }
}

static void make_use(struct scenario *s, int32_t index, const struct table *unit, struct random *random) {
    struct use *use = &s->use[index];
    const int32_t *lens[MAX_RANKS];
    const float *lse[MAX_RANKS];
    for (int32_t r = 0; r < s->dcp; r++) {
        lens[r] = use->ranks[r].lens;
        lse[r] = use->ranks[r].lse;
    }
    struct reference_value in = {
        .dcp = s->dcp, .heads = s->heads, .batch = use->batch, .q = s->q, .lens = lens, .lse = lse};
    make_lengths(s, index, random);
    for (int32_t r = 0; r < s->dcp; r++) {
        make_query(s, index, r, random);
        make_packed(s, index, r, unit, random);
        draw(unit, random, use->ranks[r].rows, (size_t)use->batch * (size_t)(s->dcp * s->heads) * REF_LATENT);
    }
    for (int32_t row = 0; row < use->batch; row++) {
        for (int32_t head = 0; head < s->dcp * s->heads; head++) {
            make_row(s, index, row, head, &in, random);
        }
    }
}

static bool allocate(struct scenario *s) {
    for (int32_t r = 0; r < s->dcp; r++) {
        s->ranks[r].kv_b = malloc((size_t)s->heads * REF_HEAD_WEIGHTS * 2);
        s->ranks[r].q_a_norm = malloc(REF_Q_LORA * 2);
        if (!s->ranks[r].kv_b || !s->ranks[r].q_a_norm) {
            return false;
        }
    }
    for (int32_t u = 0; u < s->uses; u++) {
        struct use *use = &s->use[u];
        size_t batch = (size_t)use->batch, requests = batch / (size_t)s->q, heads = (size_t)s->heads,
               all = heads * (size_t)s->dcp;
        use->totals = malloc(requests * 4);
        for (int32_t r = 0; r < s->dcp; r++) {
            struct rank_use *here = &use->ranks[r];
            here->qkv = malloc(batch * s->pitch * 2);
            here->query = malloc(batch * heads * REF_HEAD_BYTES);
            here->rows = malloc(batch * all * REF_LATENT * 2);
            here->lse = malloc(batch * all * 4);
            here->lens = malloc(requests * 4);
            if (!use->totals || !here->qkv || !here->query || !here->rows || !here->lse || !here->lens) {
                return false;
            }
        }
    }
    return true;
}

static void edit(struct scenario *s, int32_t index, int32_t r) {
    struct rank_use *here = &s->use[index].ranks[r];
    struct scenario_inputs inputs = {.batch = s->use[index].batch,
                                     .rows = here->rows,
                                     .qkv = here->qkv,
                                     .kv_b = s->ranks[r].kv_b,
                                     .q_a_norm = s->ranks[r].q_a_norm,
                                     .pitch = s->pitch,
                                     .first_gate = ROW_START_GATE,
                                     .lse = here->lse,
                                     .query = here->query,
                                     .lens = here->lens,
                                     .totals = s->use[index].totals};
    s->options.edit(s->options.edit_self, index, r, &inputs);
}

bool scenario_inputs_make(struct scenario *s) {
    struct random random;
    struct table *table = malloc(sizeof *table);
    random_seed(&random, s->options.seed);
    bool made = table && allocate(s);
    if (made) {
        table_fill(table, &random, 1 / sqrt(REF_LATENT));
        for (int32_t r = 0; r < s->dcp; r++) {
            make_weights(s, &s->ranks[r], table, &random);
        }
        table_fill(table, &random, 1);
        for (int32_t u = 0; u < s->uses; u++) {
            make_use(s, u, table, &random);
            for (int32_t r = 0; s->options.edit && r < s->dcp; r++) {
                edit(s, u, r);
            }
        }
    }
    free(table);
    return made;
}

void scenario_inputs_free(struct scenario *s) {
    for (int32_t r = 0; r < s->dcp; r++) {
        free(s->ranks[r].kv_b);
        free(s->ranks[r].q_a_norm);
        for (int32_t u = 0; s->use && u < s->uses; u++) {
            struct rank_use *here = &s->use[u].ranks[r];
            free(here->qkv);
            free(here->query);
            free(here->rows);
            free(here->lse);
            free(here->lens);
            free(here->output);
        }
    }
    for (int32_t u = 0; s->use && u < s->uses; u++) {
        free(s->use[u].totals);
    }
}
