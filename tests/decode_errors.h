/* decode_errors.h - how far mla_decode's rows are from FP64 at growing lengths, in both forms, beside rows whose values
 * are summed in one chain of FP8 products (tests/fp8_chain.h), as public kernels do. One request of one token row; one
 * CTA a row group takes all keys (splits=1), so that no sum is shorter than the context.
 *
 * On any device. Query and keys N(0,1), the 512 latents of keys with a mean; score sigma 1.3. */
#ifndef TESTS_DECODE_ERRORS_H
#define TESTS_DECODE_ERRORS_H

#include <dcpk/gen.h>
#include <dcpk/runtime.h>

#include <stdbool.h>

enum decode_form {
    DECODE_FP8,   /* mla_decode pv=fp8 */
    DECODE_F16,   /* mla_decode pv=f16 */
    DECODE_CHAIN, /* exact scores, P as both have it, one chain of FP8 products: computed on the host */
    DECODE_FORMS
};

struct decode_error {
    double rounded, ideal;   /* relative Frobenius error against P rounded to e4m3, and as it is */
    double angle;            /* 1 - cosine to the latter */
    double lse, lse_allowed; /* largest error; what decision 9 allows */
};
/* Decision 9, score sigma up to 1.3. */
bool decode_error_fine(const struct decode_error *of);

struct decode_inputs;
struct decode_inputs_wish {
    dcpk_device *device;
    void *stream;
    dcpk_gen *gen;
    int32_t heads;   /* 1 to 128 */
    int32_t longest; /* keys */
    double mean;     /* of the values */
};
/* Builds and loads both kernels. Nothing is left behind on failure. */
dcpk_status decode_inputs_open(const struct decode_inputs_wish *wish, struct decode_inputs **out, dcpk_error *error);
void decode_inputs_close(struct decode_inputs *inputs); /* NULL is fine */
/* The first so many keys, 1 to longest. */
dcpk_status decode_errors_measure(struct decode_inputs *inputs, int32_t keys, struct decode_error errors[DECODE_FORMS],
                                  dcpk_error *error);

#endif
