/* exec_check_order.c - who is ordered before whom: vector clocks of the threads of a cluster, and all that joins them.
 *
 * A clock array is shared by all threads that know the same, and copied when one learns more. Publishing puts what a
 * warp's lanes know and have done into an array; learning takes an array's maximum. Threads that a CTA does not have,
 * or that have exited, are known for ever. May not know what is accessed. */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/exec_check.h>

enum { CLOCK_MOST = (1 << 24) - 2, FEW = 128 };

/* ---- arrays ---- */
static struct clocks *take(struct ordering *r) {
    struct clocks *c = r->spare;
    if (c)
        r->spare = c->next;
    else
        c = malloc(sizeof *c + r->threads * sizeof c->at[0]);
    if (!c) {
        r->blind = true;
        return NULL;
    }
    c->users = 1;
    return c;
}

static struct clocks *hold(struct clocks *c) {
    c->users++;
    return c;
}

static void drop(struct ordering *r, struct clocks *c) {
    if (!c || --c->users) return;
    c->next = r->spare;
    r->spare = c;
}

static void put(struct ordering *r, struct clocks **to, struct clocks *c) {
    struct clocks *old = *to;
    *to = hold(c);
    drop(r, old);
}

/* *to is its own from here on. */
static bool own(struct ordering *r, struct clocks **to) {
    struct clocks *old = *to;
    if (old->users == 1) return true;
    struct clocks *c = take(r);
    if (!c) return false;
    c->floor = old->floor;
    memcpy(c->at, old->at, r->threads * sizeof c->at[0]);
    drop(r, old);
    *to = c;
    return true;
}

static bool join(struct ordering *r, struct clocks **to, struct clocks *from) {
    if (!*to) {
        *to = hold(from);
        return true;
    }
    if (*to == from) return true;
    if (!own(r, to)) return false;
    u32 *at = (*to)->at;
    const u32 *other = from->at;
    for (u32 i = 0; i < r->threads; i++)
        at[i] = at[i] > other[i] ? at[i] : other[i];
    if (from->floor > (*to)->floor) (*to)->floor = from->floor;
    return true;
}

static void find_floor(const struct ordering *r, struct clocks *c) {
    u32 least = UINT32_MAX;
    for (u32 i = 0; i < r->threads; i++)
        least = c->at[i] < least ? c->at[i] : least;
    c->floor = least;
}

/* ---- the two moves ---- */
static u32 warp_of(const struct exec *x) {
    return x->checker->first / WARP + x->warp->index;
}

static void publish(struct ordering *r, u32 warp, u32 lanes, struct clocks **to) {
    struct clocks *const *know = r->know + (size_t)warp * WARP;
    const struct clocks *last = NULL;
    if (r->blind) return;
    FOR_LANES(l, lanes) {
        if (know[l] == last) continue;
        if (!join(r, to, know[l])) return;
        last = know[l];
    }
    if (!*to || !own(r, to)) return;
    FOR_LANES(l, lanes)(*to)->at[warp * WARP + l] = r->clock;
    r->epoch[warp] = ++r->clock;
    if (r->clock >= CLOCK_MOST) r->blind = true;
}

static void learn(struct ordering *r, u32 warp, u32 lanes, struct clocks *from) {
    struct clocks **know = r->know + (size_t)warp * WARP, *old = NULL, *now = NULL;
    if (r->blind || !from) return;
    FOR_LANES(l, lanes) {
        if (know[l] == from || know[l] == now) continue;
        if (!now || know[l] != old) {
            drop(r, old);
            drop(r, now);
            old = hold(know[l]);
            now = hold(old);
            if (!join(r, &now, from)) break;
        }
        put(r, &know[l], now);
    }
    drop(r, old);
    drop(r, now);
}

/* ---- life ---- */
struct ordering *order_new(u32 threads, u32 warps_of_cta, u32 threads_of_cta) {
    struct ordering *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    u32 warps = threads / WARP;
    r->threads = threads;
    r->clock = 1;
    r->know = calloc(threads, sizeof *r->know);
    r->epoch = calloc(warps, sizeof *r->epoch);
    r->offer = calloc(warps, sizeof *r->offer);
    r->asked = calloc(warps, sizeof *r->asked);
    r->gone = calloc(warps, sizeof *r->gone);
    r->came = calloc(warps, sizeof *r->came);
    struct clocks *nothing = take(r);
    if (!r->know || !r->epoch || !r->offer || !r->asked || !r->gone || !r->came || !nothing) {
        free(nothing);
        r->users = 1;
        order_leave(r);
        return NULL;
    }
    nothing->floor = 0;
    for (u32 t = 0; t < threads; t++) {
        nothing->at[t] = t % (warps_of_cta * WARP) < threads_of_cta ? 0 : UINT32_MAX;
        r->know[t] = hold(nothing);
    }
    for (u32 w = 0; w < warps; w++)
        r->epoch[w] = 1;
    drop(r, nothing);
    return r;
}

void order_drop(struct ordering *r, struct clocks **clocks) {
    drop(r, *clocks);
    *clocks = NULL;
}

void order_leave(struct ordering *r) {
    if (--r->users) return;
    struct clocks **singles[] = {&r->released, &r->cluster_gate, &r->cluster_open};
    for (u32 t = 0; r->know && t < r->threads; t++)
        drop(r, r->know[t]);
    for (u32 w = 0; r->offer && w < r->threads / WARP; w++)
        drop(r, r->offer[w]);
    for (u32 w = 0; r->gone && w < r->threads / WARP; w++)
        drop(r, r->gone[w]);
    for (size_t i = 0; i < sizeof singles / sizeof singles[0]; i++)
        drop(r, *singles[i]);
    while (r->spare) {
        struct clocks *next = r->spare->next;
        free(r->spare);
        r->spare = next;
    }
    free(r->know);
    free(r->epoch);
    free(r->offer);
    free(r->asked);
    free(r->gone);
    free(r->came);
    free(r);
}

/* ---- threads of a warp, barriers of the CTA ---- */
void check_exit(struct exec *x, u32 m) {
    struct ordering *r = x->checker->order;
    u32 warp = warp_of(x);
    publish(r, warp, m, &r->gone[warp]);
    if (r->blind || !r->gone[warp]) return;
    FOR_LANES(l, m) r->gone[warp]->at[warp * WARP + l] = UINT32_MAX;
}

/* What the threads of the warp that have exited brought goes to *to. */
static bool join_gone(struct ordering *r, u32 warp, struct clocks **to) {
    return !r->gone[warp] || join(r, to, r->gone[warp]);
}

void check_meet(struct exec *x, u32 members) {
    struct ordering *r = x->checker->order;
    u32 warp = warp_of(x);
    struct clocks *now = NULL;
    publish(r, warp, members, &now);
    if (!now) return;
    if (r->threads <= FEW) find_floor(r, now);
    FOR_LANES(l, members) put(r, &r->know[warp * WARP + l], now);
    drop(r, now);
}

void check_arrive(struct exec *x, u32 barrier, u32 m) {
    struct ordering *r = x->checker->order;
    u32 warp = warp_of(x);
    publish(r, warp, m, &x->checker->gates[barrier]);
    if (!r->blind) (void)join_gone(r, warp, &x->checker->gates[barrier]);
    x->checker->came[barrier] |= 1u << x->warp->index;
}

void check_open(struct cta *cta, u32 barrier, u32 warps, bool everybody) {
    struct checker *c = checker_of(cta);
    struct ordering *r = c->order;
    struct clocks **gate = &c->gates[barrier];
    const u32 came = c->came[barrier];
    c->came[barrier] = 0;
    if (r->blind || !*gate) return;
    for (u32 w = 0; everybody && w < cta->warp_count;
         w++) /* who has come brought it then, and may have gone on since */
        if (!(came >> w & 1) && !join_gone(r, c->first / WARP + w, gate)) return;
    if (!own(r, gate)) return;
    find_floor(r, *gate);
    for (u32 w = 0; w < cta->warp_count; w++) {
        const struct exec *y = exec_of(cta, w);
        if (warps >> w & 1) FOR_LANES(l, y->live) put(r, &r->know[c->first + w * WARP + l], *gate);
    }
    drop(r, *gate);
    *gate = NULL;
}

/* ---- mbarriers ---- */
void check_gate_arrive(struct exec *x, u32 m, struct clocks **arriving) {
    publish(x->checker->order, warp_of(x), m, arriving);
}

void check_gate_over(struct exec *x, struct mbarrier *b) {
    struct ordering *r = x->checker->order;
    if (r->blind || !b->arriving) return;
    (void)join(r, &b->over, b->arriving);
    drop(r, b->arriving);
    b->arriving = NULL;
}

void check_gate_wait(struct exec *x, u32 m, const struct mbarrier *b) {
    learn(x->checker->order, warp_of(x), m, b->over);
}

/* ---- fences, releases, acquires ---- */
void check_fence(struct exec *x, u32 m) {
    struct ordering *r = x->checker->order;
    u32 warp = warp_of(x);
    if (r->asked[warp]) learn(r, warp, m, r->released);
    r->asked[warp] = false;
    publish(r, warp, m, &r->offer[warp]);
}

void check_release(struct exec *x, const struct op *o, u32 m) {
    struct ordering *r = x->checker->order;
    u32 warp = warp_of(x);
    if (o->order == ORDER_WEAK || r->blind) return;
    if (o->order >= ORDER_RELEASE)
        publish(r, warp, m, &r->released);
    else if (r->offer[warp])
        (void)join(r, &r->released, r->offer[warp]);
}

void check_acquire(struct exec *x, const struct op *o, u32 m) {
    struct ordering *r = x->checker->order;
    u32 warp = warp_of(x);
    if (o->order == ORDER_ACQUIRE || o->order == ORDER_ACQ_REL)
        learn(r, warp, m, r->released);
    else if (o->order != ORDER_WEAK)
        r->asked[warp] = true;
}

/* ---- barrier.cluster ---- */
void check_cluster_arrive(struct exec *x) {
    struct ordering *r = x->checker->order;
    u32 warp = warp_of(x);
    publish(r, warp, x->live, &r->cluster_gate);
    if (!r->blind) (void)join_gone(r, warp, &r->cluster_gate);
    r->came[warp] = true;
}

void check_cluster_open(struct cluster *cluster) {
    const struct cta *cta = NULL;
    for (unsigned i = 0; i < cluster->size && !cta; i++)
        cta = cluster->ctas[i];
    struct checker *c = cta ? checker_of(cta) : NULL;
    if (!c || c->order->blind || !c->order->cluster_gate) return;
    struct ordering *r = c->order;
    for (u32 w = 0; w < r->threads / WARP; w++) {
        if (!r->came[w]) (void)join_gone(r, w, &r->cluster_gate);
        r->came[w] = false;
    }
    (void)join(r, &r->cluster_open, r->cluster_gate);
    if (own(r, &r->cluster_open)) find_floor(r, r->cluster_open);
    drop(r, r->cluster_gate);
    r->cluster_gate = NULL;
}

void check_cluster_wait(struct exec *x) {
    learn(x->checker->order, warp_of(x), x->live, x->checker->order->cluster_open);
}
