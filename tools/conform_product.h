/* conform_product.h - exact sums of products on tensor cores, for references and errors. Tools' own. */
#ifndef DCPK_TOOLS_CONFORM_PRODUCT_H
#define DCPK_TOOLS_CONFORM_PRODUCT_H

#include "conform_rows.h"

struct conform_sum {
    conform_wide sum, magnitude; /* magnitude: of all addends */
};
/* The value of an element of type "e4m3", "f32", ... */
conform_wide conform_element(const char *type, uint64_t bits);
/* mma.sync: for each lane of a warp its results 0 to 3. */
void conform_product(const struct conform_form *form, const struct conform_in *in,
                     struct conform_sum results[CONFORM_WARP][4]);
/* The pattern that lane's result i has in what the lane left. */
uint64_t conform_product_bits(const struct conform_form *form, const struct conform_out *out, unsigned i);


/* conform_judge.c: counts one sum whose pattern is `bits` into the error of input i. */
void conform_note_sum(struct conform_error *error, const struct conform_format *format, size_t i, uint64_t bits,
                      struct conform_sum sum);

#endif
