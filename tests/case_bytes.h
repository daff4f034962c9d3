/* case_bytes.h - case files made by hand from spec.md section 8, whole ones and broken ones, and the judgement of
 * written ones. A model is a list of metadata and tensors that a test may spoil. */
#ifndef TESTS_CASE_BYTES_H
#define TESTS_CASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_shape {
    int heads, dcp, batch, q, page, interleave, q_lora, gate, padding; /* padding: columns after the row */
    const char *rope;
    bool expected;
    int totals[16];
    uint64_t salt; /* of the random bytes of everything but weights */
};
struct model_tensor {
    char name[32];
    const char *dtype;
    int dimensions;
    uint64_t shape[4];
    void *data;
    size_t bytes;
    bool optional;
};
struct model {
    struct model_shape is;
    struct {
        char key[32], value[64];
    } texts[32];
    int text_count;
    struct model_tensor tensors[160];
    int count;
};

void model_make(struct model *model, const struct model_shape *shape);
void model_free(struct model *model);
struct model_tensor *model_find(struct model *model, const char *name); /* NULL: none */
struct model_tensor *model_add(struct model *model, const char *name, const char *dtype, int dimensions,
                               const uint64_t *shape);
void model_set(struct model *model, const char *key, const char *value); /* value NULL: taken out */
const char *model_text(const struct model *model, const char *key);
/* The tensor in another shape, zeros. */
void model_reshape(struct model_tensor *tensor, int dimensions, const uint64_t *shape);
/* Into bytes_path; without the tensor `without` (NULL: with all). */
void model_emit(const struct model *model, const char *without);
/* The file at path holds exactly the model's tensors and metadata. */
void model_is(const struct model *model, const char *path);

/* What the reader makes of bytes_path, or of the model there. `texts`: all of them (apart by '|') must be in the
 * sentence, which must be printable. */
struct layer_case;
extern char case_why[];
void case_says(const char *texts);
void case_refused(const char *texts);
struct layer_case *case_accepted(void);
void model_refused(const struct model *model, const char *texts);
void model_accepted(const struct model *model);

#endif
