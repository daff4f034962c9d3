/* ptx_entries.h - the entries of a PTX text and their parameters, as the text declares them. */
#ifndef TOOLS_PTX_ENTRIES_H
#define TOOLS_PTX_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

struct ptx_parameter {
    char *text;     /* ".param .u64 .ptr .align 1 add_param_0": white space as one blank each */
    uint64_t bytes; /* 0: a declaration that is not understood; nothing is checked then */
};
struct ptx_entry {
    char *name;
    struct ptx_parameter *parameters;
    size_t count;
};
struct ptx_entries {
    struct ptx_entry *list; /* in the text's order */
    size_t count;
};

/* Reads no more than the heads of entries: whether the rest is PTX shows when it is loaded. */
void ptx_entries_read(const char *text, struct ptx_entries *entries);
void ptx_entries_free(struct ptx_entries *entries);
const struct ptx_entry *ptx_entries_find(const struct ptx_entries *entries, const char *name); /* NULL: none */

#endif
