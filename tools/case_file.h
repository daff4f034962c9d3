/* case_file.h - case files: one decode step of one MLA layer over D ranks, as spec.md section 8 lays it down.
 *
 * Owns what a case is called in a file: tensors (case_tensors.def), metadata (case_metadata.def), and the rules between
 * them. The file format is safetensors.h's, the case in memory layer_case.h's. What is wrong is said in one sentence
 * that names the tensor or key and the rule, not the file. */
#ifndef TOOLS_CASE_FILE_H
#define TOOLS_CASE_FILE_H

#include <tools/layer_case.h>
#include <tools/safetensors.h>

/* At most one call a file: what in it was not read, as one sentence; `text` lives as long as the call. */
typedef void case_warn_fn(void *self, const char *text);

/* The case with its one step, which layer_case_free frees; its caches are copied once, from the file. Metadata that may
 * be left out: cap is never 0 then, qh and tiled_from are. warn may be NULL. False: `why`, and *out is NULL. */
bool layer_case_read(const char *path, struct layer_case **out, case_warn_fn *warn, void *self,
                     char why[SAFETENSORS_SENTENCE]);

/* Step `step` with the caches of layer->rank, which must be those before that step. cap 0 is written as the specs'
 * default, max(64, batch); expected tensors that are NULL are left out. What layer_case_read would refuse is refused.
 * The whole file or none; the same case gives the same bytes. False: `why`. */
bool layer_case_write(const char *path, const struct layer_case *layer, int32_t step, char why[SAFETENSORS_SENTENCE]);

#endif
