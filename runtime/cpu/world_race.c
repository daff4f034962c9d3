/* world_race.c - who wrote each word of global memory last, and what follows for an access: a data race is a fault; a
 * strong load that is not behind a strong store may still get what was there before it; a strong store that is not
 * behind another may come before it.
 *
 * Kept while stores are tracked for memory that kernels write. Two accesses of a word, one of them a write, race when
 * neither is behind the other and they are not morally strong: both strong, in scopes that hold both. Stores of what is
 * there already do not. That a load comes before a store that it races with is not seen, only the other way round:
 * other seeds turn it. */
#include "runtime/cpu/world_cells.h"

#include <string.h>

enum { MESSAGE_ALONE = -1, STALE_ONE_IN = 3, FIRST_ONE_IN = 4 };

static struct resident *resident_of(const struct warp *warp) {
    return (struct resident *)(void *)warp->cta;
}

/* ---- stamps ----------------------------------------------------------------------------------------- */
static uint32_t distance(uint64_t now, uint64_t fence) {
    if (!fence) return 0;
    return now - fence < UINT32_MAX - 2 ? (uint32_t)(now - fence) + 1 : 0;
}

static unsigned strength(enum order order, enum scope scope) {
    if (order == ORDER_WEAK) return 0;
    return order == ORDER_VOLATILE || scope == SCOPE_NONE ? SCOPE_SYS : scope;
}

struct stamp order_stamp(struct world *world, const struct warp *warp, unsigned thread, enum order order,
                         enum scope scope) {
    const struct resident *r = resident_of(warp);
    const struct warp_order *own = &r->warp_orders[warp->index];
    struct stamp stamp = {.time = ++world->order.time,
                          .grid = (uint32_t)r->launch->grid.id,
                          .cluster = r->cluster_order->uid,
                          .pc = warp->pc,
                          .thread = (uint16_t)(r->cta.rank * CTA_THREADS + thread),
                          .device = (uint8_t)r->launch->grid.device->ordinal,
                          .strong = (uint8_t)strength(order, scope)};
    if (!stamp.strong || !own->fence[SCOPE_CTA]) return stamp;
    for (enum scope s = SCOPE_CTA; s <= SCOPE_SYS; s++)
        stamp.fence[s] = distance(stamp.time, own->fence[s]);
    if (own->fence[SCOPE_GPU]) stamp.message = order_message(world, r, warp->index, true);
    bool alike = own->fence[SCOPE_GPU] == own->fence[SCOPE_CTA];
    stamp.near = alike ? stamp.message : order_message(world, r, warp->index, false);
    return stamp;
}

/* ---- who is behind whom ----------------------------------------------------------------------------- */
/* What the warp knows by its grid; an asynchronous copy, what that was when it began. */
static const struct view *base_of(const struct world *world, const struct warp *warp) {
    const struct resident *r = resident_of(warp);
    return order_base(world, r, warp->early ? NO_WARP : (int)warp->index);
}

static bool views_cover(const struct world *world, const struct warp *warp, const struct cell *cell) {
    const struct resident *r = resident_of(warp);
    const struct causality *order = &world->order;
    return order_covers(order, base_of(world, warp), cell) || order_covers(order, &r->cluster_order->view, cell) ||
           order_covers(order, &r->warp_orders[warp->index].known, cell);
}

static bool is_behind(const struct world *world, const struct warp *warp, const struct cell *cell) {
    const struct resident *r = resident_of(warp);
    const struct stamp *stamp = &cell->stamp;
    struct warp_order *own = &r->warp_orders[warp->index];
    if (!warp->early && stamp->cluster == own->behind_cluster && stamp->time <= own->behind_time) return true;
    if (stamp->cluster == r->cluster_order->uid &&
        (stamp->thread / WARP == (r->cta.rank * CTA_THREADS) / WARP + warp->index ||
         stamp->time <= r->cluster_order->synced))
        return true;
    if (cell->seen >> r->launch->grid.device->ordinal & 1) return true;
    if (!views_cover(world, warp, cell)) return false;
    if (!warp->early && !cell->seen) { /* the next is often of the same */
        own->behind_cluster = stamp->cluster;
        own->behind_time = stamp->time;
    }
    return true;
}

/* The narrowest scope that holds both the warp and who made the store. */
static enum scope least_scope(const struct warp *warp, const struct stamp *stamp) {
    const struct resident *r = resident_of(warp);
    if (stamp->cluster == r->cluster_order->uid)
        return stamp->thread / CTA_THREADS == r->cta.rank ? SCOPE_CTA : SCOPE_CLUSTER;
    return stamp->device == r->launch->grid.device->ordinal ? SCOPE_GPU : SCOPE_SYS;
}

static bool scopes_meet(const struct warp *warp, const struct stamp *stamp, unsigned strong) {
    enum scope least = least_scope(warp, stamp);
    return stamp->strong >= least && strong >= least;
}

void order_add_access(const struct world *world, uint32_t grid, uint32_t pc, char *text, size_t capacity) {
    const struct grid_order *g = &world->order.grids[grid];
    if (g->fn)
        ptx_append_place(g->fn, pc, text, capacity);
    else
        text_add(text, capacity, "a kernel whose module is gone");
    text_add(text, capacity, " [device %d, grid %u]", g->device, grid);
}

static void add_writer(const struct world *world, const struct stamp *stamp, char *text, size_t capacity) {
    text_add(text, capacity, "%s store of ", stamp->strong ? "the strong" : "the weak");
    order_add_access(world, stamp->grid, stamp->pc, text, capacity);
    text_add(text, capacity, ", thread %u of its CTA", stamp->thread % CTA_THREADS);
}

void order_add_last(const struct world *world, const struct backing *backing, const uint8_t *at, char *text,
                    size_t capacity) {
    if (!is_touched(backing, at) || !cell_at(backing, at)->stamp.time) return;
    text_add(text, capacity, "; last written by ");
    add_writer(world, &cell_at(backing, at)->stamp, text, capacity);
}

static void add_word(const struct world *world, const struct backing *backing, const uint8_t *at, char *text,
                     size_t capacity) {
    const struct mapping *m = memory_at(world, (uint64_t)(uintptr_t)at);
    text_add(text, capacity, "data race: the word at 0x%llx", (unsigned long long)(uintptr_t)at);
    if (!m || m->backing != backing) return;
    text_add(text, capacity, ", ");
    memory_name(m, (uint64_t)(uintptr_t)at, text, capacity);
    text_add(text, capacity, ",");
}

static bool race(const struct world *world, const struct warp *warp, const struct backing *backing, const uint8_t *at,
                 const struct cell *cell, unsigned strong, const char *does, struct fault *fault) {
    const struct stamp *stamp = &cell->stamp;
    size_t capacity = sizeof fault->text;
    if (world->options.races_allowed) return true;
    fault->code = RESULT_LAUNCH_FAILED;
    fault->text[0] = 0;
    add_word(world, backing, at, fault->text, capacity);
    text_add(fault->text, capacity, " was written by ");
    add_writer(world, stamp, fault->text, capacity);
    text_add(fault->text, capacity, "; this %s %s is not behind it by barrier, fence or completion",
             strong ? "strong" : "weak", does);
    if (strong && stamp->strong) text_add(fault->text, capacity, ", and their scopes do not hold both");
    if (warp->early || order_is_early(warp))
        text_add(fault->text, capacity, "; it comes before griddepcontrol.wait, and the kernel before this one %s",
                 world->order.grids[stamp->grid].completed ? "need not have ended" : "has not ended");
    return false;
}

/* When the store's cluster said what a release told, which was so long before it; 0: others did. */
static uint64_t said_at(const struct stamp *stamp, uint32_t back) {
    return back == (uint32_t)MESSAGE_ALONE ? 0 : stamp->time - (back - 1);
}

/* The weak store under the strong ones that the access does not race with. */
static bool race_below(const struct world *world, const struct warp *warp, const struct backing *backing,
                       const uint8_t *at, const struct cell *cell, uint8_t bytes, unsigned strong, const char *does,
                       struct fault *fault) {
    const struct weak *w = &cell->weak;
    if (!w->time || !(w->bytes & bytes)) return true;
    const struct cell below = {.stamp = {.time = w->time,
                                         .grid = w->grid,
                                         .cluster = w->cluster,
                                         .pc = w->pc,
                                         .thread = w->thread,
                                         .device = w->device}};
    return is_behind(world, warp, &below) || race(world, warp, backing, at, &below, strong, does, fault);
}

/* What the load of a store has learnt, once it is acquired. */
static void hear(struct world *world, const struct warp *warp, const struct stamp *stamp) {
    const struct resident *r = resident_of(warp);
    if (!stamp->strong || !stamp->fence[SCOPE_CTA]) return;
    enum scope least = least_scope(warp, stamp);
    uint32_t back = stamp->fence[least], said = least < SCOPE_GPU ? stamp->near : stamp->message;
    if (!back) return;
    struct warp_order *own = &r->warp_orders[warp->index];
    uint64_t until = said_at(stamp, back);
    if (own->heard_message == said && own->heard_cluster == stamp->cluster && own->heard == least &&
        until <= own->heard_until)
        return;
    order_learn(world, &own->pending[least], stamp, said, until);
    own->heard_message = said;
    own->heard_cluster = stamp->cluster;
    own->heard_until = until;
    own->heard = least;
}

static unsigned element_of(const struct warp *warp, unsigned bytes) {
    unsigned element = warp->element ? warp->element : WORD;
    return element < bytes ? element : bytes;
}

/* Whether the adversary may choose among what the memory model permits. */
static bool reorders(const struct world *world) {
    return world_adverse(world) && world->options.store_delay > 0;
}

/* ---- loads ------------------------------------------------------------------------------------------ */
/* The element's bytes as they were before the one store that wrote all of its words last, and what that told. */
static void turn_back(struct world *world, const struct warp *warp, const struct backing *backing, const uint8_t *at,
                      uint8_t *to, unsigned bytes) {
    uint64_t time = cell_at(backing, at)->stamp.time;
    for (const uint8_t *word = word_of(at); word < at + bytes; word += WORD)
        if (cell_at(backing, word)->stamp.time != time) return;
    for (const uint8_t *word = word_of(at); word < at + bytes; word += WORD) {
        const struct cell *cell = cell_at(backing, word);
        uint8_t old[WORD], mask = bytes_in(word, at, bytes) & cell->bytes;
        memcpy(old, &cell->old, WORD);
        for (unsigned b = 0; b < WORD; b++)
            if (mask >> b & 1) to[word + b - at] = old[b];
        hear(world, warp, &cell->before);
    }
}

/* The store changed nothing; what comes before griddepcontrol.wait must not depend on that. */
static bool is_silent(const struct warp *warp, const struct cell *cell, const uint8_t *word, uint8_t mask) {
    uint8_t old[WORD];
    memcpy(old, &cell->old, WORD);
    for (unsigned b = 0; b < WORD; b++)
        if (mask >> b & 1 && old[b] != word[b]) return false;
    return !warp->early && !order_is_early(warp);
}

static bool load_element(struct world *world, struct warp *warp, const struct mapping *m, const uint8_t *at,
                         uint8_t *to, unsigned bytes, unsigned strong, bool stale, struct fault *fault) {
    unsigned device = (unsigned)resident_of(warp)->launch->grid.device->ordinal;
    bool open = false, any = false;
    for (const uint8_t *word = word_of(at); word < at + bytes; word += WORD) {
        const struct cell *cell = cell_at(m->backing, word);
        uint8_t mask = cell->bytes & bytes_in(word, at, bytes);
        if (!cell->stamp.time || !mask) continue;
        any = true;
        if (is_behind(world, warp, cell)) continue;
        if (!(strong && scopes_meet(warp, &cell->stamp, strong)) && !is_silent(warp, cell, word, mask) &&
            !race(world, warp, m->backing, word, cell, strong, "load", fault))
            return false;
        if (!race_below(world, warp, m->backing, word, cell, mask, strong, "load", fault)) return false;
        open = strong != 0;
    }
    if (!any) return true;
    if (open && stale && world_below(world, STALE_ONE_IN) == 0) {
        turn_back(world, warp, m->backing, at, to, bytes);
        return true;
    }
    if (!strong) return true;
    for (const uint8_t *word = word_of(at); word < at + bytes; word += WORD) {
        struct cell *cell = cell_at(m->backing, word);
        if (!cell->stamp.time) continue;
        if (!cell->seen) cell->seen_time = world->order.time;
        cell->seen |= 1u << device;
        hear(world, warp, &cell->stamp);
    }
    return true;
}

bool order_load(struct world *world, struct warp *warp, const struct mapping *m, const uint8_t *at, uint8_t *to,
                unsigned bytes, enum order order, enum scope scope, struct fault *fault) {
    const struct resident *r = resident_of(warp);
    unsigned element = element_of(warp, bytes), strong = strength(order, scope);
    bool own_words = m->backing->pending && r->pending;
    bool stale = reorders(world) && !own_words;
    if (!strong && (warp->early || order_is_early(warp))) early_read(world, warp, m->backing, at, bytes);
    for (unsigned done = 0; m->backing->cells && done < bytes; done += element)
        if (is_touched(m->backing, at + done) &&
            !load_element(world, warp, m, at + done, to + done, element, strong, stale, fault))
            return false;
    if (order == ORDER_ACQUIRE || order == ORDER_ACQ_REL) order_fence(world, warp, ORDER_ACQUIRE, scope);
    return true;
}

/* ---- stores ----------------------------------------------------------------------------------------- */
bool order_may_store(struct world *world, struct warp *warp, struct backing *backing, const uint8_t *at,
                     const uint8_t *from, unsigned bytes, const struct stamp *stamp, struct fault *fault) {
    if (backing->early && !early_permit(world, backing, at, bytes, stamp->grid, fault)) return false;
    if (!is_touched(backing, at) || (from && memcmp(at, from, bytes) == 0)) return true;
    for (const uint8_t *word = word_of(at); word < at + bytes; word += WORD) {
        const struct cell *cell = cell_at(backing, word);
        uint8_t mask = bytes_in(word, at, bytes);
        if (!cell->stamp.time || !(cell->bytes & mask) || is_behind(world, warp, cell)) continue;
        if (!(stamp->strong && scopes_meet(warp, &cell->stamp, stamp->strong)) &&
            !race(world, warp, backing, word, cell, stamp->strong, "store", fault))
            return false;
        if (!race_below(world, warp, backing, word, cell, mask, stamp->strong, "store", fault)) return false;
    }
    return true;
}

uint64_t order_open(const struct world *world, const struct warp *warp, const struct backing *backing,
                    const uint8_t *word, uint8_t bytes, const struct stamp *stamp) {
    if (!stamp->strong || !is_touched(backing, word)) return 0;
    const struct cell *cell = cell_at(backing, word);
    if (!cell->stamp.time || cell->stamp.atomic || (cell->bytes & bytes) != bytes || is_behind(world, warp, cell) ||
        !scopes_meet(warp, &cell->stamp, stamp->strong))
        return 0;
    return cell->stamp.time;
}

/* The store leaves no trace but for who still gets what was there before: that is it. */
static void go_first(struct world *world, const struct backing *backing, const uint8_t *word, const uint8_t *value,
                     uint8_t bytes, const struct stamp *stamp) {
    struct causality *order = &world->order;
    struct cell *cell = cell_at(backing, word);
    uint8_t old[WORD];
    memcpy(old, &cell->old, WORD);
    for (unsigned b = 0; b < WORD; b++)
        if (bytes >> b & 1) old[b] = value[b];
    memcpy(&cell->old, old, WORD);
    cell->before = *stamp;
    world->counters.stores_overtaken++;
    order->overtaken[0] = 0;
    add_writer(world, stamp, order->overtaken, sizeof order->overtaken);
    text_add(order->overtaken, sizeof order->overtaken, " to 0x%llx came before ", (unsigned long long)(uintptr_t)word);
    add_writer(world, &cell->stamp, order->overtaken, sizeof order->overtaken);
}

bool order_is_first(struct world *world, struct warp *warp, const struct backing *backing, const uint8_t *at,
                    const uint8_t *from, unsigned bytes, const struct stamp *stamp) {
    if (!reorders(world) || bytes > element_of(warp, bytes)) return false;
    uint64_t time = is_touched(backing, at) ? cell_at(backing, at)->stamp.time : 0;
    for (const uint8_t *word = word_of(at); time && word < at + bytes; word += WORD)
        if (order_open(world, warp, backing, word, bytes_in(word, at, bytes), stamp) != time) return false;
    if (!time || world_below(world, FIRST_ONE_IN)) return false;
    for (const uint8_t *word = word_of(at); word < at + bytes; word += WORD) {
        uint8_t value[WORD] = {0};
        for (unsigned b = 0; b < WORD; b++)
            if (bytes_in(word, at, bytes) >> b & 1) value[b] = from[word + b - at];
        go_first(world, backing, word, value, bytes_in(word, at, bytes), stamp);
    }
    return true;
}

/* Between its making and now another store has come that was not behind it: weak ones race. */
static bool land_race(const struct cell *cell, const struct word *word) {
    const struct stamp *a = &cell->stamp, *b = &word->stamp;
    if (a->time <= b->time || !(cell->bytes & word->bytes) || a->cluster == b->cluster) return false;
    bool same = true;
    for (unsigned i = 0; i < WORD; i++)
        same &= !(word->bytes >> i & 1) || word->at[i] == word->value[i];
    if (same) return false;
    unsigned least = a->device == b->device ? SCOPE_GPU : SCOPE_SYS;
    return a->strong < least || b->strong < least;
}

/* What is there came after this word was made, or was not behind it then. */
static bool may_go_first(const struct cell *cell, const struct word *word) {
    const struct stamp *a = &cell->stamp, *b = &word->stamp;
    unsigned least = a->device == b->device ? SCOPE_GPU : SCOPE_SYS;
    return !a->atomic && a->cluster != b->cluster && a->strong >= least && b->strong >= least && !word->element &&
           (cell->bytes & word->bytes) == word->bytes && (a->time > b->time || a->time == word->open);
}

static void fail_landing(struct world *world, const struct word *word, const struct cell *cell) {
    struct fault fault = {.code = RESULT_LAUNCH_FAILED};
    size_t capacity = sizeof fault.text;
    if (cell) {
        add_word(world, word->backing, word->at, fault.text, capacity);
        text_add(fault.text, capacity, " was written by ");
        add_writer(world, &word->stamp, fault.text, capacity);
        text_add(fault.text, capacity, "; it is not ordered with ");
        add_writer(world, &cell->stamp, fault.text, capacity);
    } else {
        for (unsigned b = 0; b < WORD && !fault.text[0]; b++)
            if (word->bytes >> b & 1)
                (void)early_permit(world, word->backing, word->at + b, 1, word->stamp.grid, &fault);
        text_add(fault.text, capacity, ": ");
        add_writer(world, &word->stamp, fault.text, capacity);
    }
    world_fail(world, &fault);
}

/* Whoever polls by copies sees what strong stores to the host leave. */
static bool transfer_races(const struct world *world, const struct view *view, const struct cell *cell,
                           const uint8_t *word, uint8_t bytes, bool write) {
    uint8_t old[WORD];
    memcpy(old, &cell->old, WORD);
    bool changed = false;
    for (unsigned b = 0; b < WORD; b++)
        changed |= bytes & cell->bytes & 1u << b && old[b] != word[b];
    return cell->stamp.time && changed && (write || cell->stamp.strong < SCOPE_SYS) &&
           !order_covers(&world->order, view, cell);
}

void order_transfer(struct world *world, const struct op *op, bool write) {
    const struct span *span = write ? &op->to : &op->from;
    const struct backing *backing = span->backing;
    if (!backing || !backing->cells || world->options.races_allowed) return;
    struct view view = {0};
    const uint8_t *end = span->at + op->bytes;
    order_known(world, op, &view);
    for (const uint8_t *word = word_of(span->at); word < end; word += WORD) {
        if (!is_touched(backing, word < span->at ? span->at : word)) {
            word += BLOCK - WORD - (uint64_t)(word - backing->memory) % BLOCK;
            continue;
        }
        const struct cell *cell = cell_at(backing, word);
        uint8_t bytes =
            bytes_in(word, word < span->at ? span->at : word, end - word < WORD ? (unsigned)(end - word) : WORD);
        if (!transfer_races(world, &view, cell, word, bytes, write)) continue;
        struct fault fault = {.code = RESULT_LAUNCH_FAILED};
        add_word(world, backing, word, fault.text, sizeof fault.text);
        text_add(fault.text, sizeof fault.text, " was written by ");
        add_writer(world, &cell->stamp, fault.text, sizeof fault.text);
        text_add(fault.text, sizeof fault.text, "; a %s of device %d, stream %d, %s it, and nothing orders the two",
                 op->kind == OP_FILL ? "fill" : "copy", op->stream->device->ordinal, op->stream->number,
                 write ? "overwrites" : "reads");
        world_fail(world, &fault);
        break;
    }
    view_free(&view);
}

static bool comes_too_late(const struct world *world, const struct word *word) {
    for (unsigned b = 0; b < WORD; b++)
        if (word->bytes >> b & 1 && !early_permit(world, word->backing, word->at + b, 1, word->stamp.grid, NULL))
            return true;
    return false;
}

bool order_land(struct world *world, const struct word *word) {
    const struct cell *cell = is_touched(word->backing, word->at) ? cell_at(word->backing, word->at) : NULL;
    if (word->backing->early && comes_too_late(world, word)) fail_landing(world, word, NULL);
    if (cell && land_race(cell, word) && !world->options.races_allowed) fail_landing(world, word, cell);
    if (cell && reorders(world) && may_go_first(cell, word) && world_below(world, FIRST_ONE_IN) == 0) {
        go_first(world, word->backing, word->at, word->value, word->bytes, &word->stamp);
        return false;
    }
    cell_put(word->backing, word->at, &word->stamp, word->bytes);
    return true;
}

/* The message of a store that an atomic replaces goes on with the atomic; towards the cluster, towards all others. */
static uint32_t carry(struct world *world, uint32_t own, bool has_own, const struct stamp *last, uint32_t said,
                      uint32_t back) {
    if (back == (uint32_t)MESSAGE_ALONE && !has_own) return said;
    return order_join(world, own, last, said, said_at(last, back));
}

static void go_on(struct world *world, struct stamp *stamp, const struct stamp *last) {
    const uint32_t *back = last->fence;
    if (!last->strong || !back[SCOPE_CTA]) return;
    bool by_all = back[SCOPE_SYS] && back[SCOPE_SYS] != (uint32_t)MESSAGE_ALONE;
    uint32_t wide = back[by_all ? SCOPE_SYS : SCOPE_GPU];
    bool alike = wide == back[SCOPE_CTA] && last->near == last->message && stamp->near == stamp->message &&
                 !stamp->fence[SCOPE_CTA] == !stamp->fence[SCOPE_GPU];
    stamp->near = carry(world, stamp->near, stamp->fence[SCOPE_CTA], last, last->near, back[SCOPE_CTA]);
    if (alike)
        stamp->message = stamp->near;
    else if (wide)
        stamp->message = carry(world, stamp->message, stamp->fence[SCOPE_GPU], last, last->message, wide);
    for (enum scope s = SCOPE_CTA; s <= SCOPE_SYS; s++)
        if (!stamp->fence[s] && back[s]) stamp->fence[s] = (uint32_t)MESSAGE_ALONE;
}

bool order_atomic(struct world *world, struct warp *warp, unsigned thread, struct backing *backing, const uint8_t *at,
                  unsigned bytes, enum order order, enum scope scope, struct fault *fault) {
    struct stamp stamp = order_stamp(world, warp, thread, order == ORDER_WEAK ? ORDER_RELAXED : order,
                                     scope == SCOPE_NONE ? SCOPE_GPU : scope);
    stamp.atomic = true;
    if (!order_may_store(world, warp, backing, at, NULL, bytes, &stamp, fault)) return false;
    if (is_touched(backing, at)) {
        const struct cell *cell = cell_at(backing, at);
        if (cell->stamp.time) {
            hear(world, warp, &cell->stamp);
            go_on(world, &stamp, &cell->stamp);
        }
    }
    order_put_all(backing, at, bytes, &stamp);
    if (order == ORDER_ACQUIRE || order == ORDER_ACQ_REL) order_fence(world, warp, ORDER_ACQUIRE, scope);
    return true;
}
