/* case_inside.h - what the files behind case_file.h share: the tables of tensors and metadata, and the rules. */
#ifndef TOOLS_CASE_INSIDE_H
#define TOOLS_CASE_INSIDE_H

#include <tools/case_file.h>

#define CASE_FORMAT "dcpk-case-1"

/* ---- case_tensors.c ------------------------------------------------------------------------------- */

enum case_size {
    SIZE_NONE,
#define S(name, spelling, value) SIZE_##name,
#include <tools/case_sizes.def>
#undef S
    SIZE_COUNT
};
enum case_where { WHERE_LAYER, WHERE_STEP, WHERE_RANK, WHERE_STEP_RANK };
enum case_need { NEED_ALWAYS, NEED_LORA, NEED_READY, NEED_ROTATED, NEED_EXPECTED };
enum { CASE_ROW_SIZES = 3, CASE_NAME = 32, CASE_SHAPE = 160 };

struct case_row {
    const char *name;
    size_t member; /* the pointer's offset in the struct that `where` names */
    enum case_where where;
    enum safetensors_dtype dtype;
    enum case_size size[CASE_ROW_SIZES]; /* SIZE_NONE: no more */
    enum case_need need;
};
extern const struct case_row case_rows[];
extern const size_t case_row_count;

/* How often the layer has the tensor: dcp, or once. */
int32_t case_row_ranks(const struct case_row *row, const struct layer_case *layer);
/* Whether the layer has use for it; and then, whether it may be missing. */
bool case_row_used(const struct case_row *row, const struct layer_case *layer);
void case_row_name(const struct case_row *row, int32_t rank, char name[CASE_NAME]);
size_t case_row_dimensions(const struct case_row *row);
/* "BF16 [batch 4, pitch]"; sizes below 0 are not known. */
void case_row_shape(const struct case_row *row, const int64_t sizes[SIZE_COUNT], char text[CASE_SHAPE]);
/* All sizes as the layer and its only step have them. */
void case_sizes(const struct layer_case *layer, int32_t rank, int64_t sizes[SIZE_COUNT]);
/* The tensor of the layer and its only step: where its pointer is, by bytes. */
void *case_pointer(const struct case_row *row, const struct layer_case *layer, int32_t rank);
void case_set_pointer(const struct case_row *row, struct layer_case *layer, int32_t rank, void *data);

/* ---- case_metadata.c ------------------------------------------------------------------------------ */

enum {
#define M(name, kind, low, high, presence, otherwise) METADATA_##name,
#include <tools/case_metadata.def>
#undef M
    METADATA_COUNT
};
struct case_texts {
    struct safetensors_text pair[METADATA_COUNT + 1];
    size_t count;
    char number[METADATA_COUNT][32]; /* what pairs point to */
};

bool case_metadata_known(const char *key);
/* Every value in its syntax; the domains are case_check_sizes'. layer->source is a copy. */
bool case_metadata_read(const struct safetensors *file, struct layer_case *layer, char *why);
/* The pairs point into texts and layer. */
bool case_metadata_write(const struct layer_case *layer, struct case_texts *texts, char *why);
/* Each value in its own domain. */
bool case_metadata_check(const struct layer_case *layer, char *why);

/* ---- case_rules.c --------------------------------------------------------------------------------- */

/* What must hold before a shape is made of the sizes; then, with all tensors there, the rest. */
bool case_check_sizes(const struct layer_case *layer, char *why);
bool case_check(const struct layer_case *layer, char *why);

#endif
