/* foreign.h - the kernels of tests/foreign (CUDA C++ of other authors' habits, as PTX of nvcc) as cases that can be
 * judged.
 *
 * A case is one launch: its inputs from a seed, and what an independent computation in C says its outputs must be,
 * exactly or within a bound an element. foreign_run launches it through the runtime's public interface on an open
 * device. */
#ifndef TESTS_FOREIGN_H
#define TESTS_FOREIGN_H

#include <dcpk/runtime.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FOREIGN_PARAMS = 8, FOREIGN_TEXT = 400 };
enum foreign_type { FOREIGN_BYTES, FOREIGN_F16, FOREIGN_BF16, FOREIGN_F32, FOREIGN_F64 };

/* One parameter: a scalar, or a buffer. An output is judged byte by byte (want) or element by element (near). */
struct foreign_param {
    uint64_t value;       /* the scalar's bits, or the address while it runs */
    size_t bytes;         /* of the buffer; 0: a scalar */
    void *before;         /* what the device's buffer holds at launch; NULL: zeroes */
    void *want;           /* FOREIGN_BYTES of an output */
    double *near, *bound; /* of the other types; a bound of 0: this value, with its sign, any NaN for a NaN */
    enum foreign_type type;
    size_t nan_from, nan_to; /* bytes of `want` that are f32 of which PTX leaves open which NaN they are */
    bool judged;             /* an output */
};

struct foreign_case {
    const char *name;
    uint64_t state; /* of the seeded numbers */
    uint32_t grid[3], block[3], shared;
    struct foreign_param params[FOREIGN_PARAMS];
    unsigned count;
};

/* The rows, in the order of tests/foreign_rows.def. */
unsigned foreign_count(void);
const char *foreign_name(unsigned row);
/* Inputs and expected outputs of a row; freed by foreign_drop. */
void foreign_make(unsigned row, uint64_t seed, struct foreign_case *c);
void foreign_drop(struct foreign_case *c);
/* The bytes of all outputs together. */
size_t foreign_result_bytes(const struct foreign_case *c);
/* folder: where NAME.ptx lies. result: foreign_result_bytes, the outputs one after the other. */
dcpk_status foreign_run(const struct foreign_case *c, const char *folder, dcpk_device *device, void *result,
                        dcpk_error *error);
/* Against the reference: true, or false and the first wrong element in `text`. */
bool foreign_judge(const struct foreign_case *c, const void *result, char text[FOREIGN_TEXT]);
/* Two devices' results: the same bytes where the case is exact, else within the stated bound of each other. *same: all
 * bytes; *most: the largest difference of an element that has a bound. */
bool foreign_agree(const struct foreign_case *c, const void *a, const void *b, bool *same, double *most,
                   char text[FOREIGN_TEXT]);

/* ---- for the cases: parameters in their order ---- */
#define ROW(name) void foreign_case_##name(struct foreign_case *c);
#include "tests/foreign_rows.def"
#undef ROW
struct foreign_near {
    double *want, *bound;
};
void *foreign_in(struct foreign_case *c, size_t bytes);                   /* returns what to fill */
void *foreign_out(struct foreign_case *c, size_t bytes);                  /* returns what is wanted; zeroes at launch */
void *foreign_inout(struct foreign_case *c, size_t bytes, void **before); /* both */
/* Of the last output: from float `from` on, `count` of them may be any NaN where a NaN is wanted. */
void foreign_any_nan(struct foreign_case *c, size_t from, size_t count);
struct foreign_near foreign_out_near(struct foreign_case *c, enum foreign_type type, size_t count);
void foreign_u32(struct foreign_case *c, uint32_t value);
void foreign_u64(struct foreign_case *c, uint64_t value);
void foreign_f32(struct foreign_case *c, float value);
void foreign_launch(struct foreign_case *c, uint32_t grid_x, uint32_t grid_y, uint32_t block_x, uint32_t block_y);
uint32_t foreign_word(struct foreign_case *c);
int foreign_between(struct foreign_case *c, int low, int high); /* both included */
double foreign_unit(struct foreign_case *c);                    /* -1 to 1, a multiple of 2^-23 */

/* ---- numbers ---- */
enum foreign_rounding { TO_NEAREST, TO_ZERO, UP, DOWN };
/* v as a number of `digits` bits, the lowest no lower than 2^lowest, none above `most` (infinite beyond, or cut). */
double foreign_round(double v, int digits, int lowest, double most, enum foreign_rounding rounding);
double foreign_f16(double v); /* to nearest */
double foreign_bf16(double v);
double foreign_f16_value(uint16_t bits);
double foreign_bf16_value(uint16_t bits);
uint16_t foreign_f16_bits(double v); /* of a value that the format has */
uint16_t foreign_bf16_bits(double v);
/* count numbers between -1 and 1 into memory of the type; returns their values (free). */
double *foreign_fill(struct foreign_case *c, enum foreign_type type, void *to, size_t count, double scale);

#endif
