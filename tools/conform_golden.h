/* conform_golden.h - recorded results: what a device left, form by form, in one text file.
 *
 * The first line says the format, the second the device; then a line a form, tabs between: name, identity (of kernel
 * and inputs), number of inputs, kind, data. Kind "h": for each block of 4096 inputs a sum of all results and twelve of
 * those with a bit of their number set, so that one differing input is found; "w": every result, as steps from the one
 * before: a letter from a (-12) to y (12), or # and the value. Numbers are in letters of six bits, 0-9 A-Z a-z + -. */
#ifndef DCPK_TOOLS_CONFORM_GOLDEN_H
#define DCPK_TOOLS_CONFORM_GOLDEN_H

#include "conform.h"

struct conform_golden;
/* NOT_FOUND where there is no such file; ARG, naming the line, where it is damaged. */
dcpk_status conform_golden_read(const char *path, struct conform_golden **out, dcpk_error *error);
void conform_golden_free(struct conform_golden *golden);
const char *conform_golden_device(const struct conform_golden *golden);
size_t conform_golden_count(const struct conform_golden *golden);

enum conform_recorded { NOT_RECORDED, OF_ANOTHER_TEXT, RECORDED_DAMAGED, RECORDED_SAME, RECORDED_OTHER };
enum { CONFORM_RECORDED = RECORDED_OTHER + 1 };
struct conform_difference {
    size_t differing;  /* results that differ; 0: more than one, and how many is not known */
    size_t input;      /* the first, where differing is not 0 */
    uint64_t recorded; /* kind w: what was recorded there */
    double ulps;       /* kind w: the largest distance of two finite results, in units of the last place */
};
/* name: the form's, or that of another snippet. results: `count` patterns of `bits`; whole: kind w. */
struct conform_record {
    const char *name;
    uint64_t identity;
    const uint64_t *results;
    size_t count;
    unsigned bits;
    bool whole, floating;
    uint64_t *recorded; /* NULL, or room for `count`: what was recorded, of kind w */
};
enum conform_recorded conform_golden_compare(const struct conform_golden *golden, const struct conform_record *record,
                                             struct conform_difference *difference);

/* A file in the making: text grows; free it. */
struct conform_recording {
    char *text;
    size_t used, room;
};
void conform_recording_begin(struct conform_recording *recording, const char *device);
void conform_recording_add(struct conform_recording *recording, const struct conform_record *record);
void conform_recording_append(struct conform_recording *recording, const char *text);
/* Makes of it what the file `path` is to hold: the file's lines in their order, each of a name that the recording has
 * replaced, then what is new. The file itself stays as it is. As conform_golden_read; ARG where it is another device's.
 */
dcpk_status conform_recording_renew(struct conform_recording *recording, const char *path, dcpk_error *error);

/* The record of a form's results; free results. */
struct conform_record conform_record_of(const struct conform_form *form, uint64_t identity,
                                        const struct conform_out *out, size_t count);

#endif
