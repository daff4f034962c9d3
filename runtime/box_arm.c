/* box_arm.c - writes a box's memory: the peer tables, and the armed state of mailboxes, ledger, control block and
 * record. Everything runs on the device's own stream and is complete when a call returns. Must not order ranks: callers
 * do. */
#include "runtime/box_state.h"
#include "runtime/error.h"

#include <string.h>

enum { TABLES = 5 };

dcpk_status dcpk_box_upload(dcpk_box *box, const uint64_t *peers, dcpk_error *error) {
    const dcpk_box_layout *layout = &box->layout;
    const uint64_t part[TABLES] = {layout->control, layout->q, layout->partial, layout->lse, layout->ledger};
    uint64_t table[TABLES * BOX_MAX_RANKS];
    size_t ranks = (size_t)box->shape.dcp;
    for (size_t t = 0; t < TABLES; t++)
        for (size_t r = 0; r < ranks; r++)
            table[t * ranks + r] = peers[r] + part[t];
    return dcpk_mem_write(box->device, box->base + layout->tables, table, TABLES * ranks * sizeof table[0], error);
}

/* The armed control block. host: the record as the device sees it. */
static void control_block(const dcpk_box *box, uint8_t block[BOX_CONTROL_BYTES]) {
    const uint32_t next = 0, current = 0xFFFFFFFFu;
    memset(block, 0, BOX_CONTROL_BYTES);
    memcpy(block + CONTROL_NEXT, &next, sizeof next);
    memcpy(block + CONTROL_CURRENT, &current, sizeof current);
    memcpy(block + CONTROL_BOUND, &box->shape.bound_ns, sizeof box->shape.bound_ns);
    memcpy(block + CONTROL_HOST, &box->record.address, sizeof box->record.address);
}

static dcpk_status fill_in_context(const dcpk_box *box, const uint8_t *block, dcpk_error *error) {
    const dcpk_box_layout *layout = &box->layout;
    const struct {
        uint64_t from, to;
        uint32_t value;
    } parts[] = {
        {layout->q, layout->partial, SENTINEL_Q},
        {layout->partial, layout->lse, SENTINEL_PARTIAL},
        {layout->lse, layout->ledger, SENTINEL_LSE},
        {layout->ledger, layout->shared_bytes, SENTINEL_LEDGER},
    };
    dcpk_status status = DCPK_OK;
    for (size_t i = 0; status == DCPK_OK && i < sizeof parts / sizeof parts[0]; i++)
        status = dcpk_device_fill32(box->device, box->base + parts[i].from, parts[i].value,
                                    (parts[i].to - parts[i].from) / sizeof(uint32_t), error);
    if (status == DCPK_OK)
        status = dcpk_device_write(box->device, box->base + layout->control, block, BOX_CONTROL_BYTES, error);
    return status == DCPK_OK ? dcpk_device_settle(box->device, error) : status;
}

dcpk_status dcpk_box_fill(dcpk_box *box, dcpk_error *error) {
    uint8_t block[BOX_CONTROL_BYTES];
    bool pushed;
    box->armed = false;
    control_block(box, block);
    dcpk_status status = dcpk_device_enter(box->device, &pushed, error);
    if (status != DCPK_OK) return status;
    status = fill_in_context(box, block, error);
    dcpk_device_leave(box->device, pushed);
    if (status != DCPK_OK) return status;
    for (int i = BOX_RECORD_WORDS - 1; i >= 0; i--)
        __atomic_store_n(&box->record.host[i], 0, __ATOMIC_RELEASE);
    atomic_store(&box->opened, 0);
    atomic_store(&box->closed, 0);
    box->armed = true;
    return DCPK_OK;
}

/* A box in use is not armed under its kernels; a dead one not by one rank alone. Before the first arming there is
 * nothing to look at. */
static dcpk_status check_unused(dcpk_box *box, dcpk_error *error) {
    if (!box->armed) return DCPK_OK;
    struct box_now now = dcpk_box_look(box);
    if (now.abort != 0)
        return dcpk_error_set(error, DCPK_E_BOX_DEAD,
                              "dcpk_box_arm: rank %d's box is dead: rank %u gave up; re-arm it on every rank "
                              "(dcpk_box_rearm)",
                              box->rank, now.abort - 1);
    if (now.busy)
        return dcpk_error_set(error, DCPK_E_BOX_BUSY,
                              "dcpk_box_arm: box of rank %d: uses are in flight: synchronise every rank's streams "
                              "first",
                              box->rank);
    dcpk_error why;
    dcpk_error_init(&why);
    dcpk_status status = dcpk_device_sync(box->device, &why);
    if (status == DCPK_OK) return DCPK_OK;
    bool waits = why.driver_result == DRIVER_NOT_READY;
    return dcpk_error_set(error, waits ? DCPK_E_BOX_BUSY : status,
                          "dcpk_box_arm: box of rank %d: its device does not "
                          "drain: %s",
                          box->rank, why.text);
}

dcpk_status dcpk_box_arm(dcpk_box *box, dcpk_error *error) {
    if (box == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_arm: box is NULL");
    if (dcpk_box_is_dead(box)) return dcpk_box_dead_error(box, "dcpk_box_arm", error);
    if (!box->attached)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_arm: rank %d's box knows no peers: attach it first",
                              box->rank);
    dcpk_status status = check_unused(box, error);
    return status == DCPK_OK ? dcpk_box_fill(box, error) : status;
}
