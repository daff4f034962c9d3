/* case_write.c - the writing half of case_file.h. Nothing is copied: tensors go from the case to the file. */
#include <tools/case_inside.h>

#include <stdlib.h>

struct gathered {
    struct safetensors_item *items;
    char (*names)[CASE_NAME];
    size_t count;
};

static bool add(struct gathered *all, const struct layer_case *layer, const struct case_row *row, int32_t rank,
                char *why) {
    int64_t sizes[SIZE_COUNT];
    char wanted[CASE_SHAPE], *name = all->names[all->count];
    struct safetensors_item *item = &all->items[all->count];
    case_sizes(layer, rank, sizes);
    case_row_name(row, rank, name);
    *item = (struct safetensors_item){.name = name,
                                      .dtype = row->dtype,
                                      .dimensions = case_row_dimensions(row),
                                      .data = case_pointer(row, layer, rank)};
    bool empty = false;
    for (size_t i = 0; i < item->dimensions; i++) {
        int64_t size = sizes[row->size[i]];
        if (size < 0 || size > INT32_MAX) {
            case_row_shape(row, sizes, wanted);
            return safetensors_refuse(why, "tensor '%s' cannot be written as %s: a size is below 0 or past 2^31", name,
                                      wanted);
        }
        empty = empty || size == 0;
        item->shape[i] = (uint64_t)size;
    }
    if (item->data == NULL && row->need == NEED_EXPECTED) return true;
    if (item->data == NULL && !empty) {
        case_row_shape(row, sizes, wanted);
        return safetensors_refuse(why, "tensor '%s' is missing; it must be %s", name, wanted);
    }
    all->count++;
    return true;
}

static bool gather(struct gathered *all, const struct layer_case *layer, char *why) {
    size_t most = case_row_count * LAYER_MAX_RANKS;
    all->items = calloc(most, sizeof *all->items);
    all->names = calloc(most, sizeof *all->names);
    if (all->items == NULL || all->names == NULL) return safetensors_refuse(why, "out of memory");
    bool good = true;
    for (size_t i = 0; good && i < case_row_count; i++) {
        for (int32_t r = 0; good && case_row_used(&case_rows[i], layer) && r < case_row_ranks(&case_rows[i], layer);
             r++) {
            good = add(all, layer, &case_rows[i], r, why);
        }
    }
    return good;
}

bool layer_case_write(const char *path, const struct layer_case *layer, int32_t step, char why[SAFETENSORS_SENTENCE]) {
    if (step < 0 || step >= layer->step_count) {
        return safetensors_refuse(why, "the case has no step %d, but %d of them", step, layer->step_count);
    }
    struct layer_case one = *layer; /* the same arrays, with the one step and every default said */
    one.steps = &layer->steps[step];
    one.step_count = 1;
    if (one.cap == 0) one.cap = one.batch > 64 ? one.batch : 64;
    struct gathered all = {.count = 0};
    struct case_texts texts;
    bool good = case_check_sizes(&one, why) && gather(&all, &one, why) && case_check(&one, why) &&
                case_metadata_write(&one, &texts, why) &&
                safetensors_write(path, texts.pair, texts.count, all.items, all.count, why);
    free(all.items);
    free(all.names);
    return good;
}
