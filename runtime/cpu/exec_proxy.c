/* exec_proxy.c - generic writes that the async proxy may not have seen: fence.proxy.async, word by word.
 *
 * A word's last generic write is visible to bulk copies behind a fence.proxy.async of the thread that wrote it, or of
 * any thread once threads of the CTA have synchronised (which threads is not followed). Kept only for kernels whose
 * bulk copies read shared memory. Owns written, fenced and the clocks of struct async. */
#include <runtime/cpu/exec_async.h>
#include <runtime/cpu/exec_copy.h>

enum { THREAD_BITS = 10, WORD = 4, CLEAN = 1 /* written, and nothing to wait for; 0: never written */ };

void proxy_wrote(struct async *a, unsigned thread, u64 offset, unsigned bytes) {
    u64 stamp = ++a->clock << THREAD_BITS | thread;
    for (u64 word = offset / WORD; word <= (offset + bytes - 1) / WORD; word++)
        a->written[word] = stamp;
}

void proxy_clean(struct async *a, u64 offset, unsigned bytes) {
    for (u64 word = offset / WORD; a->written && word <= (offset + bytes - 1) / WORD; word++)
        a->written[word] = CLEAN;
}

void proxy_wrote_far(struct async *a, u64 offset, unsigned bytes) {
    for (u64 word = offset / WORD; word <= (offset + bytes - 1) / WORD; word++)
        if (!a->written[word]) a->written[word] = CLEAN;
}

int op_fence_proxy(struct exec *x, const struct op *o, u32 m) {
    struct async *a = async_of(x->warp->cta);
    (void)o;
    if (!a || !a->fenced) return RUN_NEXT;
    FOR_LANES(l, m) a->fenced[thread_of(x, l)] = a->clock;
    if (a->synced > a->cleaned) a->cleaned = a->synced;
    return RUN_NEXT;
}

bool proxy_permit(struct exec *x, u32 lane, struct cta *cta, u64 offset, unsigned bytes) {
    const struct async *a = async_of(cta);
    for (u64 word = offset / WORD; a->written && word <= (offset + bytes - 1) / WORD; word++) {
        u64 when = a->written[word] >> THREAD_BITS;
        unsigned thread = a->written[word] & ((1u << THREAD_BITS) - 1);
        if (when <= a->cleaned || when <= a->fenced[thread]) continue;
        const unsigned *b = cta->grid->block;
        char name[200] = "";
        exec_append_name(x, word * WORD + SHARED_BASE, name, sizeof name);
        exec_fault(x, lane, FAULT_LAUNCH,
                   "the async proxy reads shared address 0x%llx%s, which thread (%u,%u,%u) wrote with no "
                   "fence.proxy.async since",
                   (unsigned long long)(word * WORD + SHARED_BASE), name, thread % b[0], thread / b[0] % b[1],
                   thread / b[0] / b[1]);
        return false;
    }
    return true;
}

bool proxy_known(const struct cta *cta, u64 offset, unsigned bytes) {
    const struct async *a = async_of(cta);
    for (u64 word = offset / WORD; a->written && word <= (offset + bytes - 1) / WORD; word++)
        if (!a->written[word]) return false;
    return true;
}

bool proxy_read(struct exec *x, u32 lane, u64 offset, unsigned bytes) {
    struct cta *cta = x->warp->cta;
    return (!cta->copies || copies_permit(x, lane, 1u << lane, offset, bytes, ACCESS_READ)) &&
           (!async_of(cta) || proxy_permit(x, lane, cta, offset, bytes));
}
