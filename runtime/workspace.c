/* workspace.c - memory in which CTAs of one launch meet (mla_decode for sm_90a, splits=auto): armed once, it is armed
 * again after every launch. A device remembers what was armed, so that a launch can refuse what was not: its sums would
 * be wrong without a word. Launches read the list while another thread arms: entries are added in front, never removed
 * before the device goes. */
#include "runtime/workspace.h"

#include "runtime/error.h"

#include <stdlib.h>

enum { WORD = 4, ALIGNMENT = 16 };
static const uint32_t ARMED = 0xFFFFFFFF;

struct armed_memory {
    uint64_t from;
    _Atomic uint64_t bytes; /* 0: given back */
    struct armed_memory *next;
};

static bool holds(const dcpk_device *device, uint64_t from, uint64_t bytes) {
    const struct armed_memory *m = atomic_load_explicit(&device->armed, memory_order_acquire);
    for (; m != NULL; m = m->next) {
        uint64_t size = atomic_load_explicit(&m->bytes, memory_order_relaxed);
        if (from >= m->from && bytes <= size && from - m->from <= size - bytes) return true;
    }
    return false;
}

static dcpk_status remember(dcpk_device *device, uint64_t from, uint64_t bytes, dcpk_error *error) {
    if (holds(device, from, bytes)) return DCPK_OK;
    struct armed_memory *m = malloc(sizeof *m);
    if (m == NULL) return dcpk_error_set(error, DCPK_E_NOMEM, "dcpk_workspace_arm: out of memory");
    m->from = from;
    atomic_init(&m->bytes, bytes);
    m->next = atomic_load_explicit(&device->armed, memory_order_relaxed);
    while (
        !atomic_compare_exchange_weak_explicit(&device->armed, &m->next, m, memory_order_release, memory_order_relaxed))
        continue;
    return DCPK_OK;
}

dcpk_status dcpk_workspace_arm(dcpk_device *device, uint64_t workspace, uint64_t bytes, dcpk_error *error) {
    if (device == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_workspace_arm: device is NULL");
    if (workspace == 0 || workspace % ALIGNMENT != 0)
        return dcpk_error_set(error, DCPK_E_ARG,
                              "dcpk_workspace_arm: workspace = 0x%llx is 0 or no multiple of %d bytes",
                              (unsigned long long)workspace, ALIGNMENT);
    if (bytes == 0 || bytes % WORD != 0)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_workspace_arm: %llu bytes: 0, or no multiple of %d",
                              (unsigned long long)bytes, WORD);
    dcpk_status status = dcpk_mem_fill32(device, workspace, ARMED, bytes / WORD, error);
    return status == DCPK_OK ? remember(device, workspace, bytes, error) : status;
}

void dcpk_workspace_forget(dcpk_device *device, uint64_t from, uint64_t bytes) {
    struct armed_memory *m = atomic_load_explicit(&device->armed, memory_order_acquire);
    for (; m != NULL; m = m->next) {
        uint64_t size = atomic_load_explicit(&m->bytes, memory_order_relaxed);
        if (size > 0 && from < m->from + size && m->from < from + bytes)
            atomic_store_explicit(&m->bytes, 0, memory_order_relaxed);
    }
}

void dcpk_workspace_end(dcpk_device *device) {
    struct armed_memory *m = atomic_load_explicit(&device->armed, memory_order_acquire);
    while (m != NULL) {
        struct armed_memory *next = m->next;
        free(m);
        m = next;
    }
}

dcpk_status dcpk_workspace_check(const dcpk_kernel *kernel, const struct kernel_entry *entry, uint64_t workspace,
                                 dcpk_error *error) {
    uint64_t bytes = kernel->workspace;
    if (kernel->id != DCPK_KERNEL_mla_decode || bytes == 0) return DCPK_OK;
    if (!entry->info.resident) { /* it leaves its sums there */
        dcpk_workspace_forget(kernel->device, workspace, bytes);
        return DCPK_OK;
    }
    if (holds(kernel->device, workspace, bytes)) return DCPK_OK;
    return dcpk_error_set(
        error, DCPK_E_ARG,
        "%s (%s): argument workspace: the %llu bytes at 0x%llx are not armed on this device (never, or "
        "not since a kernel with splits of its own used them): call dcpk_workspace_arm once, before the "
        "first launch",
        kernel->text, entry->info.name, (unsigned long long)bytes, (unsigned long long)workspace);
}
