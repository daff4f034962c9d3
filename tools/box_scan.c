/* box_scan.c - see box_scan.h. */
#include <tools/box_scan.h>

#include <tools/reference.h>
#include <tools/tool_error.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t count_disarmed(const char *name, const uint32_t *words, uint64_t count, uint32_t armed,
                               struct box_scan *scan) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (words[i] != armed) {
            if (scan->first[0] == '\0') {
                snprintf(scan->first, sizeof scan->first, "%s mailbox: word %llu is %08x, armed is %08x", name,
                         (unsigned long long)i, words[i], armed);
            }
            wrong++;
        }
    }
    return wrong;
}

static void scan_bytes(const char *bytes, const dcpk_box_shape *shape, const dcpk_box_layout *layout,
                       struct box_scan *scan) {
    uint64_t cap = (uint64_t)shape->cap, slots = 2 * (uint64_t)shape->dcp * cap * (uint64_t)shape->heads;
    const uint32_t *control = (const uint32_t *)(const void *)(bytes + layout->control);
    scan->next = control[0];
    scan->current = control[1];
    scan->abort = control[2];
    const struct {
        const char *name;
        uint64_t offset, words;
        uint32_t armed;
        uint64_t *count;
    } parts[] = {{"query", layout->q, 2 * cap * (uint64_t)shape->qh * REF_HEAD_BYTES / 4, 0xFFFFFFFFu, &scan->q},
                 {"partial", layout->partial, slots * REF_LATENT / 2, 0x80000000u, &scan->partial},
                 {"LSE", layout->lse, slots, 0xFFFFFFFFu, &scan->lse},
                 {"ledger", layout->ledger, 2 * (uint64_t)shape->dcp, 0xFFFFFFFFu, &scan->ledger}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const uint32_t *words = (const uint32_t *)(const void *)(bytes + parts[i].offset);
        *parts[i].count = count_disarmed(parts[i].name, words, parts[i].words, parts[i].armed, scan);
    }
}

dcpk_status box_scan(dcpk_device *device, const dcpk_box *box, const dcpk_box_shape *shape, struct box_scan *scan,
                     dcpk_error *error) {
    dcpk_box_layout layout = {.size = sizeof layout};
    memset(scan, 0, sizeof *scan);
    dcpk_status status = dcpk_box_layout_of(shape, &layout, error);
    if (status != DCPK_OK) {
        return status;
    }
    char *bytes = malloc(layout.shared_bytes);
    status = bytes ? dcpk_mem_read(device, bytes, dcpk_box_base(box), layout.shared_bytes, error)
                   : tool_fail(error, DCPK_E_NOMEM, "no memory to read a box");
    if (bytes && status == DCPK_OK) {
        scan_bytes(bytes, shape, &layout, scan);
    }
    free(bytes);
    return status;
}
