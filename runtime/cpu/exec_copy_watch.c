/* exec_copy_watch.c - who may touch the bytes that a cp.async writes: the copy that owns each word of shared memory,
 * and which threads see it.
 *
 * Sight is gained through: its thread's wait; bar.warp.sync with a lane that sees it; a barrier of the CTA that a warp
 * which sees it has reached; a fence, or a store or atomic that releases, by a thread that sees it (then by all: who
 * acquires is not followed). Warps that have exited count as having reached every barrier. Nothing is missed but what a
 * release hides; no kernel that synchronises is refused. */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/exec_async.h>
#include <runtime/cpu/exec_copy.h>

enum { WORD = 4, GRANULE = 16, WARP_SHIFT = 27 };
_Static_assert((int)GRANULE == (int)UNIT, "marks and words are kept by the same 16 bytes");

static struct exec *exec_at(const struct cta *cta, unsigned warp) {
    return cta->warps[warp]->exec;
}

static inline u32 owner_of(unsigned warp, u32 index) {
    return (u32)warp << WARP_SHIFT | (index + 1);
}

static inline struct copy *owned_by(const struct cta *cta, u32 owner) {
    return &exec_at(cta, owner >> WARP_SHIFT)->copies->at[(owner & ((1u << WARP_SHIFT) - 1)) - 1];
}

static bool sees(const struct copy *copy, unsigned own, unsigned warp, u32 lanes) {
    return copy->warps >> warp & 1 || (own == warp && !(lanes & ~copy->lanes));
}

/* ---- keeping ---- */
static bool map_ready(struct cta *cta) {
    struct barriers *state = cta->exec;
    if (state->copy_words) return true;
    size_t words = (cta->shared_bytes + WORD - 1) / WORD, granules = (cta->shared_bytes + GRANULE - 1) / GRANULE;
    if (!state->copy_owner) state->copy_owner = calloc(words, sizeof *state->copy_owner);
    if (state->copy_owner) state->copy_words = calloc(granules, 1);
    return state->copy_words;
}

/* Words of a copy change hands: from the old owner number to the new one (0: nobody). */
static void hand_over(struct exec *x, const struct copy *copy, u32 before, u32 now) {
    struct barriers *state = x->warp->cta->exec;
    u32 *owner = state->copy_owner + copy->to / WORD, words = copy->bytes / WORD;
    bool whole = copy->words == words;
    if (!now)
        state->copy_words[copy->to / GRANULE] =
            (u8)(state->copy_words[copy->to / GRANULE] - copy->words); /* copies are aligned: within 16 bytes */
    for (u32 i = 0; i < words; i++)
        if (whole || owner[i] == before) owner[i] = now;
}

/* The last copy takes the place of the one that ends. */
static void end_copy(struct exec *x, u32 index) {
    struct copies *copies = x->copies;
    unsigned warp = x->warp->index;
    u32 last = --copies->count;
    hand_over(x, &copies->at[index], owner_of(warp, index), 0);
    if (last != index) {
        hand_over(x, &copies->at[last], owner_of(warp, last), owner_of(warp, index));
        copies->at[index] = copies->at[last];
    }
    x->warp->cta->copies--;
}

/* The copies that own words of the new one lose them, and end with their last. */
static void take_over(struct exec *x, const struct copy *copy) {
    struct cta *cta = x->warp->cta;
    struct barriers *state = cta->exec;
    for (u32 word = copy->to / WORD; word < (copy->to + copy->bytes) / WORD; word++) {
        u32 owner = state->copy_owner[word];
        if (!owner) continue;
        struct copy *old = owned_by(cta, owner);
        state->copy_owner[word] = 0;
        state->copy_words[word / (GRANULE / WORD)]--;
        if (--old->words == 0) end_copy(exec_at(cta, owner >> WARP_SHIFT), (owner & ((1u << WARP_SHIFT) - 1)) - 1);
    }
}

bool copies_track(struct exec *x, const struct copy *copy) {
    struct copies *copies = x->copies;
    struct cta *cta = x->warp->cta;
    struct barriers *state = cta->exec;
    if (!map_ready(cta)) return false;
    if (state->copy_words[copy->to / GRANULE]) take_over(x, copy);
    if (copies->count == copies->capacity) {
        u32 capacity = copies->capacity ? 2 * copies->capacity : 64;
        struct copy *grown = realloc(copies->at, capacity * sizeof *grown);
        if (!grown) return false;
        copies->at = grown;
        copies->capacity = capacity;
    }
    u32 *owner = state->copy_owner + copy->to / WORD, number = owner_of(x->warp->index, copies->count);
    for (u32 i = 0; i < copy->words; i++)
        owner[i] = number;
    state->copy_words[copy->to / GRANULE] = (u8)(state->copy_words[copy->to / GRANULE] + copy->words);
    copies->at[copies->count++] = *copy;
    cta->copies++;
    return true;
}

/* ---- gaining sight ---- */
u32 copies_live(const struct cta *cta) {
    u32 live = 0;
    for (unsigned w = 0; w < cta->warp_count; w++)
        live |= (u32)(cta->warps[w]->state != WARP_DONE) << w;
    return live;
}

/* Lanes have gained sight: of the whole warp, of every warp? */
static void widen(struct exec *x, u32 index, u32 live) {
    struct copy *copy = &x->copies->at[index];
    if (!(x->live & ~copy->lanes)) copy->warps |= 1u << x->warp->index;
    if (!(live & ~copy->warps)) end_copy(x, index);
}

void copies_waited(struct exec *x, u32 index, u32 live) {
    struct copy *copy = &x->copies->at[index];
    copy->lanes = 1u << copy->lane;
    widen(x, index, live);
}

void copies_meet(struct exec *x, u32 members) {
    u32 live = copies_live(x->warp->cta);
    for (u32 i = x->copies ? x->copies->count : 0; i-- > 0;) {
        if (!(x->copies->at[i].lanes & members)) continue;
        x->copies->at[i].lanes |= members;
        widen(x, i, live);
    }
}

void copies_arrive(struct exec *x, u32 barrier) {
    struct cta *cta = x->warp->cta;
    unsigned warp = x->warp->index;
    async_arrive(cta, warp, barrier);
    for (unsigned w = 0; w < cta->warp_count; w++) {
        const struct copies *copies = exec_at(cta, w)->copies;
        for (u32 i = 0; copies && i < copies->count; i++) {
            struct copy *copy = &copies->at[i];
            if (copy->warps >> warp & 1 || (w == warp && copy->lanes)) copy->carried |= 1u << barrier;
        }
    }
}

void copies_open(struct cta *cta, u32 barrier, u32 warps) {
    u32 live = copies_live(cta), reached = warps | ~live;
    async_open(cta, barrier, warps);
    for (unsigned w = 0; w < cta->warp_count; w++) {
        struct exec *x = exec_at(cta, w);
        for (u32 i = x->copies ? x->copies->count : 0; i-- > 0;) {
            struct copy *copy = &x->copies->at[i];
            bool through = copy->carried >> barrier & 1 || copy->warps & warps || (copy->lanes && reached >> w & 1);
            copy->carried &= ~(1u << barrier);
            if (!through) continue;
            copy->warps |= warps;
            if (!(live & ~copy->warps)) end_copy(x, i);
        }
    }
}

void copies_release(struct exec *x, u32 m) {
    struct cta *cta = x->warp->cta;
    unsigned warp = x->warp->index;
    if (async_of(cta)) proxy_sync(async_of(cta));
    async_release(cta, warp);
    for (unsigned w = 0; w < cta->warp_count; w++) {
        struct exec *y = exec_at(cta, w);
        for (u32 i = y->copies ? y->copies->count : 0; i-- > 0;) {
            const struct copy *copy = &y->copies->at[i];
            if (copy->warps >> warp & 1 || (w == warp && copy->lanes & m)) end_copy(y, i);
        }
    }
}

/* ---- watching ---- */
static void explain(struct exec *x, u32 lane, const struct copy *copy, struct exec *owner, u64 offset, unsigned bytes,
                    enum access access) {
    static const char *const names[] = {"use", "read", "write", "atomic"};
    struct fault *fault = x->fault;
    u32 committed = owner->copies->committed[copy->lane];
    exec_fault(x, lane, FAULT_LAUNCH, "%s of shared bytes that %s: %u bytes at shared address 0x%llx", names[access],
               copy->lanes ? "another thread's cp.async wrote, with no barrier since that thread waited for it"
                           : "an unfinished cp.async still writes",
               bytes, (unsigned long long)(offset + SHARED_BASE));
    exec_append_name(x, offset + SHARED_BASE, fault->text, sizeof fault->text);
    exec_append(fault->text, sizeof fault->text, "; ");
    exec_append_thread(owner, copy->lane, fault->text, sizeof fault->text);
    exec_append(fault->text, sizeof fault->text, " began it at ");
    exec_append_place(owner, copy->pc, fault->text, sizeof fault->text);
    if (copy->lanes) return;
    if (copy->group == committed)
        exec_append(fault->text, sizeof fault->text, " and has neither committed nor waited for it");
    else
        exec_append(fault->text, sizeof fault->text,
                    " and has not waited for it: it is in group %u of the %u committed", copy->group + 1, committed);
}

bool copies_permit(struct exec *x, u32 lane, u32 lanes, u64 offset, unsigned bytes, enum access access) {
    const struct cta *cta = x->warp->cta;
    const struct barriers *state = cta->exec;
    u64 last = offset + bytes - 1;
    if (state->async && !async_permit(x, lane, x->warp->cta, offset, bytes, access)) return false;
    if (!state->copy_words) return true;
    if (!(state->copy_words[offset / GRANULE] | state->copy_words[last / GRANULE])) return true;
    for (u64 word = offset / WORD, before = 0; word <= last / WORD; word++) {
        u32 owner = state->copy_owner[word];
        if (!owner || owner == before) continue;
        before = owner;
        const struct copy *copy = owned_by(cta, owner);
        if (sees(copy, owner >> WARP_SHIFT, x->warp->index, lanes)) continue;
        explain(x, lane, copy, exec_at(cta, owner >> WARP_SHIFT), offset, bytes, access);
        return false;
    }
    return true;
}

/* Others see a copy that is kept by nothing that is followed here. */
bool copies_permit_remote(struct exec *x, u32 lane, struct cta *cta, u64 offset, unsigned bytes, enum access access) {
    const struct barriers *state = cta->exec;
    if (state->async && !async_permit(x, lane, cta, offset, bytes, access)) return false;
    if (!state->copy_words) return true;
    for (u64 word = offset / WORD; word <= (offset + bytes - 1) / WORD; word++) {
        u32 owner = state->copy_owner[word];
        if (!owner) continue;
        explain(x, lane, owned_by(cta, owner), exec_at(cta, owner >> WARP_SHIFT), offset, bytes, access);
        return false;
    }
    return true;
}

/* The common case: nothing is marked where the lanes go, and nobody wants to know of writes. bytes: at most 32. */
static bool all_unmarked(const struct barriers *state, u32 m, const u64 *address, unsigned bytes, enum access access) {
    const struct async *a = state->async;
    if (!a || state->copy_words || (a->written && access >= ACCESS_WRITE)) return false;
    u32 any = 0;
    FOR_LANES(l, m) {
        u64 offset = address[l] - SHARED_BASE;
        any |= (u32)a->marks[offset / GRANULE] | a->marks[(offset + bytes - 1) / GRANULE];
    }
    return !(any & ~(u32)MARK_WGMMA); /* with wgmma writes are watched: this is a read */
}

bool copies_permit_each(struct exec *x, u32 m, const u64 *address, unsigned bytes, enum access access) {
    if (all_unmarked(x->warp->cta->exec, m, address, bytes, access)) return true;
    FOR_LANES(l, m)
    if (!copies_permit(x, l, 1u << l, address[l] - SHARED_BASE, bytes, access)) return false;
    return true;
}
