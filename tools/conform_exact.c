/* conform_exact.c - what a form must leave, by its reference; what of it is open is made one value. */
#include "conform_rows.h"

#include <string.h>

static size_t group_of(const struct conform_form *form) {
    unsigned flags = form->row->flags;
    if (flags & PER_CTA) return flags & CLUSTERED ? CONFORM_CLUSTER * CONFORM_THREADS : CONFORM_THREADS;
    return flags & PER_WARP ? CONFORM_WARP : 1;
}

bool conform_expected(const struct conform_form *form, const struct conform_in *in, size_t count,
                      struct conform_out *out, bool *open) {
    size_t group = group_of(form);
    memset(out, 0, count * sizeof *out);
    memset(open, 0, count * sizeof *open);
    if (form->row->reference == NULL) return false;
    for (size_t i = 0; i + group <= count; i += group) {
        bool known = form->row->reference(form, &in[i], &out[i]);
        for (size_t k = 0; k < group && !known; k++)
            open[i + k] = true;
    }
    conform_settle(form, out, open, count);
    return true;
}

static uint64_t one_nan(const struct conform_format *format, uint64_t v, unsigned bits) {
    uint64_t settled = 0;
    for (unsigned at = 0; at < bits; at += format->bits) {
        uint64_t part = conform_low(v >> at, format->bits);
        settled |= (conform_is_nan(format, part) ? format->nan : part) << at;
    }
    return settled;
}

void conform_settle(const struct conform_form *form, struct conform_out *out, const bool *open, size_t count) {
    bool nan = form->row->flags & NAN_OPEN;
    const struct conform_type *type = form->first != NULL && form->first != form->last ? form->first : form->last;
    const struct conform_format *format = nan ? conform_format_of(type) : NULL;
    for (size_t i = 0; i < count; i++) {
        if (open != NULL && open[i]) memset(&out[i], 0, sizeof out[i]);
        for (unsigned w = 0; w < 2 && format != NULL; w++)
            out[i].d[w] = one_nan(format, out[i].d[w], type->bits);
    }
}
