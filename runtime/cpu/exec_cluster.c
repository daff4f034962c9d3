/* exec_cluster.c - shared memory of the cluster: whose bytes an address names, mapa, barrier.cluster.
 * A shared address below 2^24 is the CTA's own; those that mapa gives carry the rank + 1 above bit 24. A CTA that has
 * exited has no memory any more: a use of it is a fault. */
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_copy.h>

static u64 within(u64 address) {
    return address & ((1u << RANK_SHIFT) - 1);
}

/* The CTA that a shared address without its window's mark names; NULL: fault. */
static struct cta *cta_named(struct exec *x, u32 lane, u64 address) {
    struct cta *own = x->warp->cta;
    u64 rank = address >> RANK_SHIFT;
    if (!rank || rank - 1 == own->rank) return own;
    if (rank > own->cluster->size) {
        exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS,
                   "shared::cluster address 0x%llx: it names no CTA of the cluster of %u", (unsigned long long)address,
                   own->cluster->size);
        return NULL;
    }
    struct cta *cta = own->cluster->ctas[rank - 1];
    if (!cta)
        exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS,
                   "shared::cluster address 0x%llx: CTA %llu of the cluster, whose memory it is, has exited",
                   (unsigned long long)address, (unsigned long long)(rank - 1));
    return cta;
}

bool place_of(struct exec *x, u32 lane, enum space space, u64 address, unsigned bytes, unsigned align,
              struct place *place) {
    bool marked = WINDOW_OF(address) == WINDOW_SHARED;
    if (space == SPACE_GENERIC ? !marked : WINDOW_OF(address) && !marked) {
        exec_fault(x, lane, FAULT_ADDRESS_SPACE, "address 0x%llx is not in shared memory", (unsigned long long)address);
        return false;
    }
    if (marked) address ^= WINDOW_SHARED;
    struct cta *cta = cta_named(x, lane, address);
    if (!cta) return false;
    if (cta != x->warp->cta && space != SPACE_CLUSTER) {
        exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS,
                   "shared address 0x%llx is CTA %u's of the cluster: only .shared::cluster reaches it",
                   (unsigned long long)address, cta->rank);
        return false;
    }
    u64 at = within(address), size = cta->shared_bytes;
    if (at % align) {
        exec_fault(x, lane, FAULT_MISALIGNED, "shared address 0x%llx is not aligned to %u bytes",
                   (unsigned long long)address, align);
        return false;
    }
    if (at < SHARED_BASE || at - SHARED_BASE > size || size - (at - SHARED_BASE) < bytes) {
        exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS,
                   "%u bytes at shared address 0x%llx: the shared memory is [0x%x, 0x%llx)", bytes,
                   (unsigned long long)address, SHARED_BASE, (unsigned long long)(SHARED_BASE + size));
        return false;
    }
    *place = (struct place){cta, (u32)(at - SHARED_BASE)};
    return true;
}

/* ---- addresses ---- */
/* d, a, b: the address in CTA b that a is in its own; width: of d and a; space: generic, or the shared window's */
int op_mapa(struct exec *x, const struct op *o, u32 m) {
    const u32 *rank = AT(x, o->b);
    FOR_LANES(l, m) {
        u64 a = o->width == 64 ? ((const u64 *)AT(x, o->a))[l] : ((const u32 *)AT(x, o->a))[l];
        u64 mark = WINDOW_OF(a);
        if (o->space == SPACE_GENERIC ? mark != WINDOW_SHARED : mark != 0)
            return exec_fault(x, l, FAULT_ADDRESS_SPACE, "mapa: address 0x%llx is not in shared memory",
                              (unsigned long long)a);
        if (rank[l] >= x->warp->cta->cluster->size)
            return exec_fault(x, l, FAULT_LAUNCH, "mapa: there is no CTA %u in a cluster of %u", rank[l],
                              x->warp->cta->cluster->size);
        u64 value = mark | (u64)(rank[l] + 1) << RANK_SHIFT | within(a);
        if (o->width == 64)
            ((u64 *)AT(x, o->d))[l] = value;
        else
            ((u32 *)AT(x, o->d))[l] = (u32)value;
    }
    return RUN_NEXT;
}

int op_getctarank(struct exec *x, const struct op *o, u32 m) {
    u32 *d = AT(x, o->d);
    FOR_LANES(l, m) {
        u64 a = o->width == 64 ? ((const u64 *)AT(x, o->a))[l] : ((const u32 *)AT(x, o->a))[l];
        u64 mark = WINDOW_OF(a), rank = (a ^ mark) >> RANK_SHIFT;
        if (o->space == SPACE_GENERIC ? mark != WINDOW_SHARED : mark != 0)
            return exec_fault(x, l, FAULT_ADDRESS_SPACE, "getctarank: address 0x%llx is not in shared memory",
                              (unsigned long long)a);
        d[l] = rank ? (u32)rank - 1 : x->warp->cta->rank;
    }
    return RUN_NEXT;
}

/* ---- barrier.cluster: o->sub: enum barrier_kind, SYNC for wait, ARRIVE ---- */
static unsigned warps_left(const struct cluster *cluster) {
    unsigned left = 0;
    for (unsigned i = 0; i < cluster->size; i++)
        if (cluster->ctas[i]) left += cluster->ctas[i]->live_warps;
    return left;
}

/* Exited warps count as arrived. */
static bool all_arrived(const struct cluster *cluster) {
    return cluster->arrived >= warps_left(cluster);
}

/* The phase is over for who waits; who has arrived and not come to wait yet finds it so. */
static void open_phase(struct exec *x, struct cluster *cluster) {
    check_cluster_open(cluster);
    for (unsigned i = 0; i < cluster->size; i++) {
        struct cta *cta = cluster->ctas[i];
        if (!cta || !cta->live_warps) continue;
        world_barrier(x->world, cta->warps[0], true);
        if (async_of(cta)) proxy_sync(async_of(cta));
        if (cta->copies) copies_open(cta, CLUSTER_BARRIER, copies_live(cta));
        for (unsigned w = 0; w < cta->warp_count; w++) {
            struct exec *y = exec_of(cta, w);
            if (y->cluster_arrived) y->cluster_open = true;
            if (!y->at_barrier || y->barrier != CLUSTER_BARRIER) continue;
            y->cluster_arrived = y->cluster_open = false;
            if (y->checker) check_cluster_wait(y);
            sync_resume(y);
        }
    }
    cluster->arrived = 0;
}

int sync_cluster(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    const struct op *o = parts[0].op;
    struct cluster *cluster = x->warp->cta->cluster;
    u32 lane = (u32)__builtin_ctz(members);
    (void)count;
    if (o->sub == BARRIER_ARRIVE) {
        if (x->cluster_arrived)
            return exec_fault(x, lane, FAULT_LAUNCH,
                              "barrier.cluster.arrive: the thread has arrived before and not waited since");
        x->cluster_arrived = true;
        if (x->checker) check_cluster_arrive(x);
        cluster->arrived++;
        x->warp->progressed = true;
        sync_pass(x);
        if (all_arrived(cluster)) open_phase(x, cluster);
        return RUN_NEXT;
    }
    if (!x->cluster_arrived)
        return exec_fault(x, lane, FAULT_LAUNCH, "barrier.cluster.wait: the thread has not arrived");
    x->at_barrier = true;
    x->barrier = CLUSTER_BARRIER;
    if (!x->cluster_open) return RUN_NEXT;
    x->cluster_arrived = x->cluster_open = false;
    if (x->checker) check_cluster_wait(x);
    sync_resume(x);
    return RUN_NEXT;
}

void cluster_settle(struct exec *x, struct cluster *cluster) {
    if (x->cluster_arrived && !x->cluster_open) cluster->arrived--; /* it went without waiting: counted as exited */
    x->cluster_arrived = x->cluster_open = false;
    if (cluster->arrived && all_arrived(cluster)) open_phase(x, cluster);
}
