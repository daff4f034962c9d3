/* keys.h - the key table as data, shared by spec.c (texts) and spec_rules.c (values). Internal; gen reads it to hand
 * a spec to templates. Table order is keys.def's order. */
#ifndef DCPK_RUNTIME_KEYS_H
#define DCPK_RUNTIME_KEYS_H

#include "runtime/private.h"

#include <dcpk/spec.h>

enum { DCPK_KEY_REQUIRED = -1, DCPK_KEY_DERIVED = -2 }; /* in dcpk_key_row.dflt */
enum { DCPK_KEY_TEXT = 16 };                            /* bytes that hold any number's text */

struct dcpk_key_row {
    const char *name;
    const char *words;       /* "peer|multicast", NULL for numbers */
    int32_t low, high, dflt; /* of the stored value; a choice's high is its word list's */
    const char *kernels, *doc;
    size_t offset; /* of the int32_t in dcpk_spec */
    const char *values, *default_token;
};

extern const struct dcpk_key_row dcpk_key_rows[];
extern const size_t dcpk_key_row_count;

DCPK_PRIVATE const struct dcpk_key_row *dcpk_key_row_find(const char *name, size_t length);
DCPK_PRIVATE int32_t dcpk_key_get(const dcpk_spec *spec, const struct dcpk_key_row *row);
void dcpk_key_put(dcpk_spec *spec, const struct dcpk_key_row *row, int32_t value);

/* 1 when the kernel takes the key; a kernel that is not of kernels.def takes every key. */
DCPK_PRIVATE int32_t dcpk_key_taken(const char *kernel, const struct dcpk_key_row *row);
/* 1 when the value lies in the key's domain. */
DCPK_PRIVATE int32_t dcpk_key_allows(const struct dcpk_key_row *row, int32_t value);
/* A key whose words are all digits ("0|1") counts as a number for templates. */
DCPK_PRIVATE int32_t dcpk_key_is_number(const struct dcpk_key_row *row);
/* The text of a value as canonical texts write it; returns its length. It is not NUL-terminated where it points into
 * a word list. buffer: DCPK_KEY_TEXT bytes. */
DCPK_PRIVATE size_t dcpk_key_text(const struct dcpk_key_row *row, int32_t value, char *buffer, const char **text);
/* "arch heads dcp ...": the keys that the kernel takes. */
DCPK_PRIVATE void dcpk_key_list(const char *kernel, char *text, size_t capacity);

/* spec_plan.c: the splits of a resolved mla_decode spec: its own number, or with auto the planned one. */
DCPK_PRIVATE int32_t dcpk_spec_planned_splits(const dcpk_spec *spec);
/* Its row groups: CTAs of a request and split. */
DCPK_PRIVATE int32_t dcpk_spec_planned_groups(const dcpk_spec *spec);
/* mla_decode for sm_90a, splits=auto: columns of CTAs that the kernel deals out to the requests itself; 0: none. */
DCPK_PRIVATE int32_t dcpk_spec_planned_columns(const dcpk_spec *spec);

/* SPEC: this kernel does not take the key; the message says whose it is. */
dcpk_status dcpk_key_refuse(const dcpk_spec *spec, const struct dcpk_key_row *row, dcpk_error *error);
/* SPEC: no name, too long, or other letters than [a-z0-9_]. */
dcpk_status dcpk_kernel_name_check(const char *name, dcpk_error *error);
/* ARCH: not a row of the table; the message lists them. */
dcpk_status dcpk_arch_check(const char *kernel, const char *arch, dcpk_error *error);

#endif
