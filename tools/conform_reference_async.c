/* conform_reference_async.c - what threads of a CTA or a cluster find behind barriers and asynchronous copies. Shares
 * nothing with a device. */
#include "conform_rows.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS = CONFORM_THREADS, BOTH = CONFORM_CLUSTER * CONFORM_THREADS };

static void leaves(struct conform_out *out, uint64_t d, uint64_t e, uint64_t f, uint64_t g) {
    *out = (struct conform_out){{d, e, f, g}};
}

/* ---- barriers ---- */
bool ref_far(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    for (unsigned t = 0; t < THREADS; t++)
        leaves(&out[t], conform_low(in[t ^ 64].b, 32), 0, 0, 0);
    return true;
}

bool ref_far_upper(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    for (unsigned t = 0; t < THREADS; t++)
        leaves(&out[t], t < 64 ? 0 : conform_low(in[t ^ 64].b, 32), 0, 0, 0);
    return true;
}

/* The second word of the far thread's input, which it copied. */
bool ref_far_copied(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    for (unsigned t = 0; t < THREADS; t++)
        leaves(&out[t], in[t ^ 64].a >> 32, 0, 0, 0);
    return true;
}

bool ref_barrier_vote(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned counts[3] = {0};
    for (unsigned t = 0; t < THREADS; t++) {
        bool v = (in[t].c & 127) == 3;
        counts[0] += (int32_t)in[t].a < (int32_t)in[t].b;
        counts[1] += v;
        counts[2] += !v;
    }
    for (unsigned i = 0; i < 3; i++)
        if (!conform_has(form, "popc")) counts[i] = conform_has(form, "and") ? counts[i] == THREADS : counts[i] > 0;
    for (unsigned t = 0; t < THREADS; t++)
        leaves(&out[t], counts[0], counts[1], counts[2], 0);
    return true;
}

bool ref_pending(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form, (void)in;
    for (unsigned t = 0; t < THREADS; t++)
        leaves(&out[t], t == 0 ? 9 - 4 : 0, 0, 0, 0); /* the state before the second arrival */
    return true;
}

/* ---- copies ---- */
/* A slot whose first bytes are those behind the input's first 16; what lies behind the source's end is zero. */
bool ref_copy(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    const char *tag = form->row->tag;
    unsigned size = tag[0] != '\0' ? (unsigned)strtoul(tag, NULL, 10) : 16, from = size;
    unsigned char bytes[32];
    if (strstr(tag, "some") != NULL) from = (unsigned)in->a & (size - 1);
    memcpy(bytes, in, sizeof bytes);
    for (unsigned i = 0; i < size; i++)
        bytes[i] = i < from ? bytes[16 + i] : 0;
    memcpy(out->d, bytes, sizeof bytes);
    return true;
}

static void record(struct conform_out *out, const struct conform_in *in) {
    leaves(out, in->a, in->b, in->c, in->x);
}

bool ref_record(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    for (unsigned t = 0; t < THREADS; t++)
        record(&out[t], &in[t]);
    return true;
}

bool ref_record_b(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    for (unsigned t = 0; t < THREADS; t++)
        leaves(&out[t], in[t].b, in[t].b, in[t].c, in[t].x);
    return true;
}

/* Rows of 64 or 128 bytes whose 16-byte units the swizzle moves: unit u of a row lies at u ^ (address / 128) within the
 * units that the pattern's width has. Without: as they are. */
bool ref_tensor(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned units = strcmp(form->row->tag, "swizzle 64") == 0 ? 4 : strcmp(form->row->tag, "swizzle 128") == 0 ? 8 : 0;
    for (unsigned t = 0; t < THREADS; t++)
        for (unsigned half = 0; half < 2; half++) {
            unsigned at = t * 64 + half * 16, from = units ? at ^ (at / 128 % units * 16) : at;
            memcpy(&out[t].d[2 * half], (const unsigned char *)in + from, 16);
        }
    return true;
}

/* ---- clusters ---- */
bool ref_peer(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    for (unsigned i = 0; i < BOTH; i++)
        leaves(&out[i], conform_low(in[i ^ THREADS].b, 32), 0, 0, 0);
    return true;
}

bool ref_peer_rank(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form, (void)in;
    for (unsigned i = 0; i < BOTH; i++)
        leaves(&out[i], 1 - i / THREADS, 0, 0, 0);
    return true;
}

bool ref_peer_load(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    for (unsigned i = 0; i < BOTH; i++)
        ref_load(form, &in[i ^ THREADS], &out[i]);
    return true;
}

/* A CTA's slots are the input's, stored over with the other's values. */
bool ref_peer_store(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    for (unsigned i = 0; i < BOTH; i++) {
        const struct conform_in *peer = &in[i ^ THREADS];
        struct conform_out stored;
        unsigned bytes = form->vector * form->last->memory / 8u;
        ref_store(form, peer, &stored);
        record(&out[i], &in[i]);
        memcpy(out[i].d, stored.d, bytes);
    }
    return true;
}

bool ref_peer_atomic(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    for (unsigned i = 0; i < BOTH; i++) {
        uint64_t a = in[i].a, b = in[i ^ THREADS].b;
        leaves(&out[i], conform_low(conform_has(form, "add") ? a + b : a | b, 32), 0, 0, 0);
    }
    return true;
}

bool ref_first_record(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    for (unsigned i = 0; i < BOTH; i++)
        record(&out[i], &in[i % THREADS]);
    return true;
}
