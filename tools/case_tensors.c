/* case_tensors.c - the table of a case file's tensors and what is read off it; see case_inside.h. Pure functions. */
#include <tools/case_inside.h>

#include <stdio.h>
#include <string.h>

#define STRUCT_LAYER struct layer_case
#define STRUCT_STEP struct layer_step
#define STRUCT_RANK struct layer_rank
#define STRUCT_STEP_RANK struct layer_rank_step

const struct case_row case_rows[] = {
#define T(name, member, where, dtype, first, second, third, need)                                                      \
    {#name,                                                                                                            \
     offsetof(STRUCT_##where, member),                                                                                 \
     WHERE_##where,                                                                                                    \
     SAFETENSORS_##dtype,                                                                                              \
     {SIZE_##first, SIZE_##second, SIZE_##third},                                                                      \
     NEED_##need},
#include <tools/case_tensors.def>
#undef T
};
const size_t case_row_count = sizeof case_rows / sizeof *case_rows;

static const char *const spellings[SIZE_COUNT] = {
    "",
#define S(name, spelling, value) spelling,
#include <tools/case_sizes.def>
#undef S
};

int32_t case_row_ranks(const struct case_row *row, const struct layer_case *layer) {
    return row->where == WHERE_RANK || row->where == WHERE_STEP_RANK ? layer->dcp : 1;
}

bool case_row_used(const struct case_row *row, const struct layer_case *layer) {
    switch (row->need) {
    case NEED_LORA:
        return layer->q_lora != 0;
    case NEED_READY:
        return layer->q_lora == 0;
    case NEED_ROTATED:
        return layer->rope != ROPE_NONE;
    case NEED_ALWAYS:
    case NEED_EXPECTED:
        break;
    }
    return true;
}

void case_row_name(const struct case_row *row, int32_t rank, char name[CASE_NAME]) {
    if (row->where == WHERE_RANK || row->where == WHERE_STEP_RANK) {
        snprintf(name, CASE_NAME, "rank%d.%s", rank, row->name);
    } else {
        snprintf(name, CASE_NAME, "%s", row->name);
    }
}

size_t case_row_dimensions(const struct case_row *row) {
    size_t count = 0;
    while (count < CASE_ROW_SIZES && row->size[count] != SIZE_NONE) {
        count++;
    }
    return count;
}

void case_row_shape(const struct case_row *row, const int64_t sizes[SIZE_COUNT], char text[CASE_SHAPE]) {
    int at = snprintf(text, CASE_SHAPE, "%s [", safetensors_dtype_name(row->dtype));
    for (size_t i = 0; i < case_row_dimensions(row); i++) {
        enum case_size size = row->size[i];
        const char *comma = i > 0 ? ", " : "";
        size_t room = CASE_SHAPE - (size_t)at;
        at += sizes[size] < 0 ? snprintf(text + at, room, "%s%s", comma, spellings[size])
                              : snprintf(text + at, room, "%s%s %lld", comma, spellings[size], (long long)sizes[size]);
    }
    snprintf(text + at, CASE_SHAPE - (size_t)at, "]");
}

void case_sizes(const struct layer_case *layer, int32_t r, int64_t sizes[SIZE_COUNT]) {
    const struct layer_rank *rank = &layer->rank[r];
    const struct layer_rank_step *in = &layer->steps[0].rank[r];
    sizes[SIZE_NONE] = 0;
#define S(name, spelling, value) sizes[SIZE_##name] = (value);
#include <tools/case_sizes.def>
#undef S
}

/* The struct that holds the row's pointer, as bytes. */
static const char *holder(const struct case_row *row, const struct layer_case *layer, int32_t rank) {
    switch (row->where) {
    case WHERE_STEP:
        return (const char *)&layer->steps[0];
    case WHERE_RANK:
        return (const char *)&layer->rank[rank];
    case WHERE_STEP_RANK:
        return (const char *)&layer->steps[0].rank[rank];
    case WHERE_LAYER:
        break;
    }
    return (const char *)layer;
}

void *case_pointer(const struct case_row *row, const struct layer_case *layer, int32_t rank) {
    void *data;
    memcpy(&data, holder(row, layer, rank) + row->member, sizeof data);
    return data;
}

void case_set_pointer(const struct case_row *row, struct layer_case *layer, int32_t rank, void *data) {
    memcpy((char *)holder(row, layer, rank) + row->member, &data, sizeof data);
}
