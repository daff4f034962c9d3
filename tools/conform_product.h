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

/* wmma and wgmma (conform_matrix.c): D = A B + C, m x k times k x n; types of elements. */
struct conform_matrix {
    unsigned m, n, k;
    const char *a, *b, *c, *d;
    bool group; /* of a warpgroup */
};
bool conform_matrix_of(const struct conform_form *form, struct conform_matrix *matrix);
unsigned conform_matrix_bits(const char *type); /* of an element */
/* wgmma: registers of D a thread; where B begins in the CTA's bytes; the factor by which registers are folded. */
unsigned conform_group_registers(const struct conform_matrix *matrix);
unsigned conform_group_b(const struct conform_matrix *matrix);
#define CONFORM_FOLD 2654435761u
/* wgmma.m64n8: result i of thread t, and the exact sum with the sum of magnitudes. The random kind: C from a b c x. */
enum { CONFORM_GROUP_RESULTS = 4 };
void conform_group_product(const struct conform_form *form, const struct conform_in *in,
                           struct conform_sum results[CONFORM_THREADS][CONFORM_GROUP_RESULTS]);
/* The pattern of a small whole number, chosen by a few random bits; of an integer type: the bits themselves. */
uint64_t conform_small_whole(const char *type, uint64_t random);

/* conform_judge.c: counts one sum whose pattern is `bits` into the error of input i. */
void conform_note_sum(struct conform_error *error, const struct conform_format *format, size_t i, uint64_t bits,
                      struct conform_sum sum);

#endif
