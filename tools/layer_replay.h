/* layer_replay.h - a layer run against the results that its case brought along, tensor by tensor and rank by rank. */
#ifndef TOOLS_LAYER_REPLAY_H
#define TOOLS_LAYER_REPLAY_H

#include <tools/layer_judge.h>

/* One expected tensor of a case, on one rank. */
struct replay_row {
    char tensor[32]; /* as in the file: "rank0.rows" */
    const char *measure;
    double error, bound;
    uint64_t wrong;             /* 0: within its bound */
    char first[LAYER_SENTENCE]; /* where the first thing wrong is, and by how much */
};
enum { REPLAY_MOST_ROWS = 1 + 4 * LAYER_MAX_RANKS };

/* Compares step 0 with what the case has of query, rank{r}.kv_cache_after, rows, rows_lse, output, in this order: that
 * of the data's way through the layer. Bounds are those of the ideal form. Returns the number of rows; -1: out of
 * memory. */
int replay_compare(const struct layer_run *run, const struct layer_case *layer, const struct layer_bounds *bounds,
                   struct replay_row rows[REPLAY_MOST_ROWS]);
/* What the device left of step 0, as a safetensors file with the names of a case's results. False: `why`. */
bool replay_write(const char *path, const struct layer_run *run, const struct layer_case *layer, char *why);

#endif
