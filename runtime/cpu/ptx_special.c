/* ptx_special.c - special registers: their names and values.
 * May ask the world for time and SM; sets warp->read_timer. */
#include <stdio.h>
#include <string.h>
#include <runtime/cpu/ptx.h>

const struct special_row special_rows[S_COUNT] = {
#define SPECIAL(id, name, bits, when) [S_##id] = {name, bits, when},
#include <runtime/cpu/ptx_special.def>
#undef SPECIAL
};

int special_named(struct text name) {
    for (int i = 0; i < S_COUNT; i++)
        if (text_is(name, special_rows[i].name)) return i;
    return -1;
}

int special_vector(struct text name) {
    for (int i = 0; i < S_COUNT; i++) {
        const char *row = special_rows[i].name;
        size_t length = strlen(row);
        if (length == name.length + 2 && row[length - 1] == 'x' && row[length - 2] == '.' &&
            memcmp(row, name.at, name.length) == 0)
            return i;
    }
    return -1;
}

bool special_foreign(struct text name) {
    static const char *const single[] = {"%current_graph_exec", "%reserved_smem_offset_cap", "%reserved_smem_offset_0",
                                         "%reserved_smem_offset_1"};
    static const struct {
        const char *stem, *after;
        unsigned count;
    } numbered[] = {{"%envreg", "", 32}, {"%pm", "", 8}, {"%pm", "_64", 8}};
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++)
        if (text_is(name, single[i])) return true;
    for (size_t i = 0; i < sizeof numbered / sizeof numbered[0]; i++)
        for (unsigned n = 0; n < numbered[i].count; n++) {
            char text[16];
            snprintf(text, sizeof text, "%s%u%s", numbered[i].stem, n, numbered[i].after);
            if (text_is(name, text)) return true;
        }
    return false;
}

bool special_known(struct text name) {
    return name.at[0] == '%' && (special_named(name) >= 0 || special_vector(name) >= 0 || special_foreign(name));
}

static u64 cluster_value(const struct cta *cta, unsigned special) {
    unsigned size[3], within[3], id[3], count[3];
    const struct grid *g = cta->grid;
    for (unsigned i = 0; i < 3; i++) {
        size[i] = g->cluster[i] ? g->cluster[i] : 1;
        within[i] = cta->index[i] % size[i];
        id[i] = cta->index[i] / size[i];
        count[i] = g->dim[i] / size[i];
    }
    switch (special) {
    case S_clusterid_x:
    case S_clusterid_y:
    case S_clusterid_z:
        return id[special - S_clusterid_x];
    case S_nclusterid_x:
    case S_nclusterid_y:
    case S_nclusterid_z:
        return count[special - S_nclusterid_x];
    case S_cluster_ctaid_x:
    case S_cluster_ctaid_y:
    case S_cluster_ctaid_z:
        return within[special - S_cluster_ctaid_x];
    case S_cluster_nctaid_x:
    case S_cluster_nctaid_y:
    case S_cluster_nctaid_z:
        return size[special - S_cluster_nctaid_x];
    case S_cluster_ctarank:
        return within[0] + size[0] * (within[1] + size[1] * within[2]);
    case S_cluster_nctarank:
        return (u64)size[0] * size[1] * size[2];
    default:
        return g->explicit_cluster; /* is_explicit_cluster */
    }
}

u64 special_value(const struct exec *x, unsigned special, unsigned lane) {
    const struct warp *w = x->warp;
    const struct cta *cta = w->cta;
    const struct grid *g = cta->grid;
    unsigned thread = thread_of(x, lane);
    u32 bit = 1u << lane;
    switch (special) {
    case S_tid_x:
        return thread % g->block[0];
    case S_tid_y:
        return thread / g->block[0] % g->block[1];
    case S_tid_z:
        return thread / g->block[0] / g->block[1];
    case S_ntid_x:
    case S_ntid_y:
    case S_ntid_z:
        return g->block[special - S_ntid_x];
    case S_ctaid_x:
    case S_ctaid_y:
    case S_ctaid_z:
        return cta->index[special - S_ctaid_x];
    case S_nctaid_x:
    case S_nctaid_y:
    case S_nctaid_z:
        return g->dim[special - S_nctaid_x];
    case S_tid_w:
    case S_ntid_w:
    case S_ctaid_w:
    case S_nctaid_w:
    case S_clusterid_w:
    case S_nclusterid_w:
    case S_cluster_ctaid_w:
    case S_cluster_nctaid_w:
        return 0;
    case S_laneid:
        return lane;
    case S_warpid:
        return w->index;
    case S_nwarpid:
        return 64; /* slots of an SM */
    case S_smid:
        return world_smid(w);
    case S_nsmid:
        return world_nsmid(w);
    case S_gridid:
        return g->id;
    case S_lanemask_eq:
        return bit;
    case S_lanemask_le:
        return bit | (bit - 1);
    case S_lanemask_lt:
        return bit - 1;
    case S_lanemask_ge:
        return (u32) ~(bit - 1);
    case S_lanemask_gt:
        return (u32) ~(bit | (bit - 1));
    case S_dynamic_smem_size:
        return g->dynamic_shared;
    case S_total_smem_size:
    case S_aggr_smem_size:
        return (cta->shared_bytes + 127) & ~127u; /* in units of an SM's allocation */
    case S_reserved_smem_offset_begin:
        return 0;
    case S_reserved_smem_offset_end:
        return SHARED_BASE;
    case S_clock:
        return (u32)x->clock;
    case S_clock_hi:
        return (u32)(x->clock >> 32);
    case S_clock64:
        return x->clock;
    case S_globaltimer:
        return world_time(x->world);
    case S_globaltimer_lo:
        return (u32)world_time(x->world);
    case S_globaltimer_hi:
        return (u32)(world_time(x->world) >> 32);
    default:
        return cluster_value(cta, special);
    }
}

/* mov of a clock or timer: op->sub is the special register. */
int op_special(struct exec *x, const struct op *o, u32 m) {
    u64 value = special_value(x, o->sub, 0);
    x->warp->read_timer = true;
    if (o->width == 64) {
        u64 *d = AT(x, o->d);
        FOR_LANES(lane, m) d[lane] = value;
    } else {
        u32 *d = AT(x, o->d);
        FOR_LANES(lane, m) d[lane] = (u32)value;
    }
    return RUN_STOP; /* so that time can pass */
}
