/* case_rules.c - what a case in a file must keep besides shapes; see case_inside.h. The reader and the writer hold the
 * same rules, so that what is written can be read. */
#include <tools/case_inside.h>

enum { TOTAL_MOST = 1 << 30 }; /* tokens of a request; leaves room in 32 bits for pages and blocks above it */

bool case_check_sizes(const struct layer_case *layer, char *why) {
    char sentence[LAYER_SENTENCE];
    struct layer_case sizes = *layer;
    sizes.step_count = 0;
    if (!case_metadata_check(layer, why)) return false;
    if (!layer_case_check(&sizes, sentence)) return safetensors_refuse(why, "%s", sentence);
    int32_t all = layer->dcp * layer->heads;
    if (all * layer->q > 1024) {
        return safetensors_refuse(why, "dcp * heads * q is %d; it must be at most 1024", all * layer->q);
    }
    if (layer->dcp > 1 && layer->cap < layer->batch) {
        return safetensors_refuse(why, "cap (%d) must be at least batch (%d)", layer->cap, layer->batch);
    }
    if (layer->qh != 0 && layer->qh < all) {
        return safetensors_refuse(why, "qh (%d) must be at least dcp * heads (%d)", layer->qh, all);
    }
    return true;
}

/* Every token of a request has a place in a table. Before layer_case_check, which counts a request's tokens. */
static bool check_totals(const struct layer_case *layer, char *why) {
    const struct layer_step *step = &layer->steps[0];
    int64_t room = 0;
    for (int32_t r = 0; r < layer->dcp; r++) {
        room += (int64_t)step->rank[r].max_pages * layer->page;
    }
    room = room < TOTAL_MOST ? room : TOTAL_MOST;
    for (int32_t i = 0; i < layer_requests(layer); i++) {
        if (step->totals[i] > room) {
            return safetensors_refuse(why, "totals[%d] is %d; the ranks' block tables have room for %lld tokens", i,
                                      step->totals[i], (long long)room);
        }
    }
    return true;
}

bool case_check(const struct layer_case *layer, char *why) {
    char sentence[LAYER_SENTENCE];
    if (!check_totals(layer, why)) return false;
    return layer_case_check(layer, sentence) || safetensors_refuse(why, "%s", sentence);
}
