/* box_layout.c - the shape of a box and where its parts lie (box.h draws them). Pure. */
#include "runtime/box_state.h"
#include "runtime/error.h"

enum { QUERY_ROW_BYTES = 576, LATENT = 512, BF16_BYTES = 2, F32_BYTES = 4, PART_ALIGN = 256, TABLES = 5 };

static const uint64_t standard_bound_ns = 30000000000u;

static dcpk_status out_of_range(const char *field, int32_t value, int32_t low, int32_t high, dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_shape: %s is %d: %d..%d", field, value, low, high);
}

dcpk_status dcpk_box_shape_resolve(const dcpk_box_shape *given, dcpk_box_shape *shape, dcpk_error *error) {
    dcpk_status status = dcpk_options_copy(shape, sizeof *shape, given, "dcpk_box_shape", error);
    if (status != DCPK_OK) return status;
    shape->size = (uint32_t)sizeof *shape;
    if (shape->dcp == 1)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_shape: dcp is 1: one rank exchanges nothing and has no box");
    if (shape->dcp < 2 || shape->dcp > BOX_MAX_RANKS) return out_of_range("dcp", shape->dcp, 2, BOX_MAX_RANKS, error);
    if (shape->heads < 1 || shape->heads > 128) return out_of_range("heads", shape->heads, 1, 128, error);
    int32_t all = shape->dcp * shape->heads;
    if (all > 1024) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_shape: dcp * heads is %d: at most 1024", all);
    if (shape->cap < 1 || shape->cap > 512) return out_of_range("cap", shape->cap, 1, 512, error);
    if (shape->qh == 0) shape->qh = all;
    if (shape->qh < all || shape->qh > 4096) return out_of_range("qh", shape->qh, all, 4096, error);
    if (shape->publish != DCPK_PUBLISH_PEER && shape->publish != DCPK_PUBLISH_MULTICAST)
        return out_of_range("publish", shape->publish, DCPK_PUBLISH_PEER, DCPK_PUBLISH_MULTICAST, error);
    if (shape->event_ordered != 0 && shape->event_ordered != 1)
        return out_of_range("event_ordered", shape->event_ordered, 0, 1, error);
    if (shape->bound_ns == 0) shape->bound_ns = standard_bound_ns;
    return DCPK_OK;
}

static uint64_t place(uint64_t *end, uint64_t bytes) {
    uint64_t at = *end;
    *end = (at + bytes + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    return at;
}

dcpk_status dcpk_box_layout_of(const dcpk_box_shape *given, dcpk_box_layout *layout, dcpk_error *error) {
    if (layout == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_layout_of: layout is NULL");
    dcpk_box_shape shape;
    dcpk_status status = dcpk_box_shape_resolve(given, &shape, error);
    if (status != DCPK_OK) return status;
    uint64_t ranks = (uint64_t)shape.dcp, heads = (uint64_t)shape.heads, cap = (uint64_t)shape.cap;
    uint64_t end = 0, all = ranks * heads;
    layout->control = place(&end, BOX_CONTROL_BYTES);
    layout->q = place(&end, 2 * cap * (uint64_t)shape.qh * QUERY_ROW_BYTES);
    layout->partial = place(&end, 2 * ranks * cap * heads * LATENT * BF16_BYTES);
    layout->lse = place(&end, 2 * ranks * cap * heads * F32_BYTES);
    layout->ledger = place(&end, 2 * ranks * sizeof(uint32_t));
    layout->shared_bytes = end;
    layout->tables = place(&end, TABLES * ranks * sizeof(uint64_t));
    layout->rows = place(&end, cap * all * LATENT * BF16_BYTES);
    layout->rows_lse = place(&end, cap * all * F32_BYTES);
    layout->bytes = end;
    return DCPK_OK;
}
