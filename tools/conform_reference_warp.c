/* conform_reference_warp.c - what lanes of a warp leave together, what control flow and special registers leave. Shares
 * nothing with a device. */
#include "conform_rows.h"

#include <string.h>

enum { LANES = CONFORM_WARP };

static void leaves(struct conform_out *out, uint64_t d, uint64_t e, uint64_t f, uint64_t g) {
    *out = (struct conform_out){{d, e, f, g}};
}

static bool less(const struct conform_in *in) {
    return (int32_t)in->a < (int32_t)in->b;
}

/* ---- lanes ---- */
/* Groups of 32 or 8 lanes; a lane out of them keeps its own value and a false predicate. */
bool ref_shuffle(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    int width = strcmp(form->row->tag, "width 8") == 0 ? 8 : LANES;
    for (int l = 0; l < LANES; l++) {
        int first = l / width * width, last = first + width - 1, by = (int)(in[l].b & 31), from;
        bool within = true;
        switch (conform_which(form, "up down bfly idx")) {
        case 0:
            within = (from = l - by) >= first;
            break;
        case 1:
            within = (from = l + by) <= last;
            break;
        case 2:
            within = (from = l ^ by) <= last;
            break;
        default: /* of a lane number the bits within the group count */
            from = first + by % width;
        }
        leaves(&out[l], conform_low(in[within ? from : l].a, 32), within, 0, 0);
    }
    return true;
}

static uint64_t voted(const struct conform_form *form, uint32_t ballot) {
    bool all = ballot == 0xFFFFFFFF, any = ballot != 0;
    bool answers[] = {all, any, all || !any};
    int which = conform_which(form, "all any uni");
    return which < 0 ? ballot : (uint64_t)answers[which];
}

bool ref_vote(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint32_t u = 0, v = 0;
    for (unsigned l = 0; l < LANES; l++) {
        u |= (uint32_t)less(&in[l]) << l;
        v |= (uint32_t)((in[l].c & 15) == 3) << l;
    }
    for (unsigned l = 0; l < LANES; l++)
        leaves(&out[l], voted(form, u), voted(form, v), voted(form, 0xFFFFFFFF), voted(form, 0));
    return true;
}

bool ref_vote_half(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint32_t u = 0;
    (void)form;
    for (unsigned l = 0; l < 16; l++)
        u |= (uint32_t)less(&in[l]) << l;
    for (unsigned l = 0; l < LANES; l++)
        leaves(&out[l], l < 16 ? u : 0, 0, 0, 0);
    return true;
}

/* .all comes with a whole CTA: its third warp agrees. */
bool ref_match(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    bool all = conform_has(form, "all");
    for (unsigned l = 0; l < (all ? CONFORM_THREADS : LANES); l++) {
        unsigned first = l / LANES * LANES;
        uint32_t same = 0;
        for (unsigned i = 0; i < LANES; i++)
            same |= (uint32_t)((all && first == 2 * LANES) || (in[first + i].a & 3) == (in[l].a & 3)) << i;
        if (all)
            leaves(&out[l], same == 0xFFFFFFFF ? same : 0, same == 0xFFFFFFFF, 0, 0);
        else
            leaves(&out[l], same, 0, 0, 0);
    }
    return true;
}

bool ref_redux(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    int how = conform_which(form, "add min max and or xor");
    bool is_signed = form->last->kind == 's';
    uint32_t v = (uint32_t)in[0].a | (how > 2 ? (uint32_t)in[0].b : 0);
    for (unsigned l = 1; l < LANES; l++) {
        uint32_t w = (uint32_t)in[l].a | (how > 2 ? (uint32_t)in[l].b : 0);
        bool below = is_signed ? (int32_t)w < (int32_t)v : w < v;
        v = how == 0   ? v + w
            : how == 1 ? (below ? w : v)
            : how == 2 ? (below ? v : w)
            : how == 3 ? v & w
            : how == 4 ? v | w
                       : v ^ w;
    }
    for (unsigned l = 0; l < LANES; l++)
        leaves(&out[l], v, 0, 0, 0);
    return true;
}

bool ref_nothing(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)in;
    for (unsigned l = 0; l < (form->row->flags & PER_WARP ? LANES : 1); l++)
        leaves(&out[l], 0, 0, 0, 0);
    return true;
}

bool ref_one(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form, (void)in;
    for (unsigned l = 0; l < LANES; l++)
        leaves(&out[l], 1, 0, 0, 0);
    return true;
}

bool ref_neighbour(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    for (unsigned l = 0; l < LANES; l++)
        leaves(&out[l], conform_low(in[l ^ 1].b, 32), 0, 0, 0);
    return true;
}

/* ---- matrices of 8 x 8 halves ---- */
static uint16_t half_of(const struct conform_in *row, unsigned column) {
    return (uint16_t)((column < 4 ? row->a : row->b) >> column % 4 * 16);
}

/* Matrix m has its rows at the addresses of lanes 8m to 8m+7; lane l holds (row l/4, columns 2(l%4) and one on). */
bool ref_ldmatrix(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned count = conform_has(form, "x4") ? 4 : conform_has(form, "x2") ? 2 : 1;
    bool trans = conform_has(form, "trans");
    for (unsigned l = 0; l < LANES; l++) {
        leaves(&out[l], 0, 0, 0, 0);
        for (unsigned m = 0; m < count; m++)
            for (unsigned i = 0; i < 2; i++) {
                unsigned row = l / 4, column = l % 4 * 2 + i;
                uint64_t v = half_of(&in[8 * m + (trans ? column : row)], trans ? row : column);
                out[l].d[m] |= v << 16 * i;
            }
    }
    return true;
}

bool ref_stmatrix(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned count = conform_has(form, "x4") ? 4 : conform_has(form, "x2") ? 2 : 1;
    bool trans = conform_has(form, "trans");
    uint16_t rows[LANES][8];
    for (unsigned l = 0; l < LANES; l++) {
        const uint64_t words[4] = {in[l].a, in[l].b, in[l].c, in[l].x};
        for (unsigned m = 0; m < count; m++)
            for (unsigned i = 0; i < 2; i++) {
                unsigned row = l / 4, column = l % 4 * 2 + i;
                rows[8 * m + (trans ? column : row)][trans ? row : column] = (uint16_t)(words[m] >> 16 * i);
            }
    }
    for (unsigned l = 0; l < LANES; l++) {
        leaves(&out[l], in[l].a, in[l].b, in[l].c, in[l].x);
        if (l >= 8 * count) continue;
        for (unsigned w = 0; w < 2; w++)
            out[l].d[w] = rows[l][4 * w] | (uint64_t)rows[l][4 * w + 1] << 16 | (uint64_t)rows[l][4 * w + 2] << 32 |
                          (uint64_t)rows[l][4 * w + 3] << 48;
    }
    return true;
}

/* ---- control ---- */
bool ref_branch(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    leaves(out, less(in) ? 2 : 1, conform_low(in->a, 32), 0, 0);
    return true;
}

bool ref_loop(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint32_t turns = (uint32_t)in->a & 63, e = 1;
    (void)form;
    for (uint32_t i = 0; i < turns; i++)
        e = e * 3 + i;
    leaves(out, turns, e, 0, 0);
    return true;
}

bool ref_choice(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    uint32_t k = (uint32_t)in->a % 3;
    (void)form;
    leaves(out, 10 * (k + 1), k, 0, 0);
    return true;
}

bool ref_twice(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    leaves(out, conform_low(2 * in->a, 32), 0, 0, 0);
    return true;
}

bool ref_joined(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    leaves(out, conform_low(in->a, 32) | in->b << 32, 0, 0, 0);
    return true;
}

bool ref_leave(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    if (less(in))
        leaves(out, in->a, in->b, in->c, in->x);
    else
        leaves(out, in->b, in->a, 0, 0);
    return true;
}

bool ref_word(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form;
    leaves(out, conform_low(in->a, 32), 0, 0, 0);
    return true;
}

/* ---- special registers ---- */
bool ref_true(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    (void)form, (void)in;
    leaves(out, 1, 0, 0, 0);
    return true;
}

static uint32_t special(const char *name, unsigned thread, unsigned rank, unsigned cluster) {
    unsigned lane = thread % LANES, ctas = CONFORM_FEW / CONFORM_THREADS;
    uint32_t eq = 1u << lane;
    const struct {
        const char *name;
        uint32_t value;
    } rows[] = {{"%tid.x", thread},
                {"%ntid.x", CONFORM_THREADS},
                {"%ntid.y", 1},
                {"%ntid.z", 1},
                {"%nctaid.x", ctas},
                {"%nctaid.y", 1},
                {"%nctaid.z", 1},
                {"%laneid", lane},
                {"%lanemask_eq", eq},
                {"%lanemask_le", eq | (eq - 1)},
                {"%lanemask_lt", eq - 1},
                {"%lanemask_ge", ~(eq - 1)},
                {"%lanemask_gt", ~(eq - 1) & ~eq},
                {"%cluster_ctarank", rank},
                {"%cluster_ctaid.x", rank},
                {"%cluster_nctarank", cluster},
                {"%cluster_nctaid.x", cluster},
                {"%cluster_nctaid.y", 1},
                {"%cluster_nctaid.z", 1},
                {"%nclusterid.x", ctas / cluster}};
    size_t length = strcspn(name, " ");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strlen(rows[i].name) == length && strncmp(rows[i].name, name, length) == 0) return rows[i].value;
    return 0; /* %tid.y, %ctaid.y and the like */
}

bool ref_special(const struct conform_form *form, const struct conform_in *in, struct conform_out *out) {
    unsigned cluster = form->row->flags & CLUSTERED ? CONFORM_CLUSTER : 1;
    (void)in;
    for (unsigned i = 0; i < cluster * CONFORM_THREADS; i++)
        leaves(&out[i], special(form->row->tag, i % CONFORM_THREADS, i / CONFORM_THREADS, cluster), 0, 0, 0);
    return true;
}
