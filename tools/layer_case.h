/* layer_case.h - one MLA layer over D ranks in host memory: sizes, weights, caches, and the inputs of its decode steps.
 *
 * Owns the memory. A case file (spec.md section 8) is such a case with one step; `dcpk run` makes one with several.
 * Plain data: no device, no file, no arithmetic but lengths. All arrays row-major and C-contiguous. */
#ifndef TOOLS_LAYER_CASE_H
#define TOOLS_LAYER_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tools/reference_layer.h>

enum { LAYER_TOKEN = REF_LATENT + REF_ROPE, LAYER_MAX_RANKS = 32, LAYER_SENTENCE = 256 };

/* What one rank reads in one step. Any pointer may be NULL where its comment says so. */
struct layer_rank_step {
    uint16_t *qkv; /* [batch, pitch] BF16: q_a (with q_lora) | kv_c 512 | k_pe 64 | gate H*128 (with gate) | ... */
    size_t pitch;  /* elements from row to row, at least the row, a multiple of 8 */
    uint16_t *qf;  /* [batch, H*192] BF16; NULL unless q_lora = 0 */
    int32_t *block_table; /* [batch/q, max_pages] local page ids, -1 past the live pages */
    int32_t max_pages;
    int64_t *slots; /* [batch]: page * page_size + offset, -1: another rank's token, or padding */
    /* Expected results, each NULL when the case has none. */
    uint16_t *output;     /* [batch, H*128] BF16 */
    uint16_t *rows;       /* [batch, D*H, 512] BF16: partial rows of the rank's shard */
    float *rows_lse;      /* [batch, D*H], base 2 */
    uint8_t *cache_after; /* [pages, page, 576] */
};

struct layer_step {
    int32_t *totals; /* [batch/q] global lengths, the q new tokens included; <= 0: padding */
    float *cos_sin;  /* [batch, 64]: 32 cosines, then 32 sines of each row's position; NULL without rope */
    uint8_t *query;  /* [batch, D*H, 576] e4m3: expected gathered query; NULL when the case has none */
    struct layer_rank_step rank[LAYER_MAX_RANKS];
};

struct layer_rank {
    uint16_t *w_q_b; /* [H*192, 1536] BF16; NULL with q_lora = 0 */
    uint16_t *kv_b;  /* [H*256, 512] BF16: a head's 128 rows W_UK, then 128 rows W_UV */
    uint8_t *cache;  /* [pages, page, 576] e4m3: the rank's shard before the first step */
    int32_t pages;
};

struct layer_case {
    int32_t heads, dcp, batch, q; /* heads of one rank; batch = requests * q */
    int32_t cap, qh, tiled_from;  /* 0: what the kernels' specs take by default */
    int32_t page, interleave, q_lora, gate;
    enum reference_rope rope;
    double eps, softmax_scale; /* softmax_scale: of natural logarithms, before the q and k scales */
    double q_scale_inv, k_scale_inv;
    char *source;                   /* free text, or NULL */
    uint16_t *q_a_norm, *kv_a_norm; /* [1536] (NULL with q_lora = 0), [512] BF16 */
    struct layer_rank rank[LAYER_MAX_RANKS];
    struct layer_step *steps;
    int32_t step_count;
};

void layer_case_free(struct layer_case *layer); /* NULL is fine; members may be NULL */
/* Adds an empty step; NULL: out of memory. Pointers to earlier steps are void afterwards. */
struct layer_step *layer_case_step(struct layer_case *layer);

/* Elements of a packed row up to the gate, and with it. */
size_t layer_gate_at(const struct layer_case *layer);
size_t layer_row_width(const struct layer_case *layer);
int32_t layer_requests(const struct layer_case *layer);
/* lens [batch/q]: each request's tokens on the rank, from the step's totals (spec.md 3.2). */
void layer_lens(const struct layer_case *layer, const struct layer_step *step, int32_t rank, int32_t *lens);
/* Global position of token row `row` (its request's totals - q + its place in the request); negative: the row has no
 * token (padding, or a request shorter than q). */
int32_t layer_position(const struct layer_case *layer, const struct layer_step *step, int32_t row);
/* The first request that is not padding; cached: that has a token before the first step's own. -1: there is none. */
int32_t layer_first_request(const struct layer_case *layer, bool cached);
/* The rank that owns a global position, and the position's place on it (spec.md 3.1). */
int32_t layer_owner(const struct layer_case *layer, int32_t position);
int32_t layer_local(const struct layer_case *layer, int32_t position);

/* What a case must keep beyond its shapes (spec.md section 8): sizes in their domains; live page ids and slots inside
 * the cache; no slot twice in a step; each row's slot where 3.1 and the block table put its token. Requests may share
 * pages. False: `why` names the tensor and the rule. */
bool layer_case_check(const struct layer_case *layer, char why[LAYER_SENTENCE]);

#endif
