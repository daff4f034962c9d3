/* exec_warp.c - CTAs and warps: their memory, what a warp waits for in words, the text of faults.
 * Owns struct exec from cta_start to cta_end. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/exec_async.h>
#include <runtime/cpu/exec_check.h>
#include <runtime/cpu/exec_copy.h>
#include <runtime/cpu/exec_wgmma.h>
#include <runtime/cpu/ptx.h>

static void set_pinned(struct exec *x) {
    for (unsigned i = 0; i < x->code->pinned_count; i++) {
        const struct pinned *p = &x->code->pinned[i];
        const u64 *variables = x->warp->cta->grid->variables;
        for (unsigned lane = 0; lane < WARP; lane++) {
            u64 value = p->special == S_VARIABLE ? (variables ? variables[p->variable] + (u64)p->addend : 0)
                                                 : special_value(x, p->special, lane);
            if (p->bits == 1) value = value ? ~0ull : 0;
            u8 *at = x->base[0] + (size_t)p->slot * SLOT_BYTES;
            if (p->bits == 64)
                ((u64 *)(void *)at)[lane] = value;
            else
                ((u32 *)(void *)at)[lane] = (u32)value;
        }
    }
}

/* ---- memory ---- */
static struct spares *spares_of(const struct cta *cta, unsigned kind) {
    return &((const struct code *)cta->grid->fn->code)->spares[kind];
}

/* Of a warp: its head; all. */
static size_t head_bytes(const struct code *code) {
    return (sizeof(struct warp) + sizeof(struct exec) + code->predicates * sizeof(u32) + SLOT_BYTES - 1) &
           ~(size_t)(SLOT_BYTES - 1);
}

static size_t warp_bytes(const struct cta *cta) {
    const struct ptx_function *fn = cta->grid->fn;
    const struct code *code = fn->code;
    return head_bytes(code) + (size_t)code->slots * SLOT_BYTES + (size_t)fn->local_bytes * WARP;
}

/* One block: struct warp, struct exec, predicates, registers, local memory. */
static struct warp *warp_new(struct cta *cta, unsigned index, unsigned threads) {
    const struct code *code = cta->grid->fn->code;
    size_t head = head_bytes(code), registers = (size_t)code->slots * SLOT_BYTES, bytes = warp_bytes(cta);
    u8 *at = spare_take(spares_of(cta, SPARE_WARP), bytes);
    if (!at) return NULL;
    memset(at, 0, bytes);
    struct warp *warp = (void *)at;
    struct exec *x = (void *)(at + sizeof *warp);
    warp->cta = cta;
    warp->index = index;
    warp->state = WARP_READY;
    warp->exec = x;
    x->predicates = (void *)(x + 1);
    x->predicates[1] = ALL_LANES;
    x->base[0] = at + head;
    x->base[1] = code->constants;
    x->local = at + head + registers;
    x->code = code;
    x->warp = warp;
    x->left = 0;
    x->launched = x->live = threads >= WARP ? ALL_LANES : (1u << threads) - 1;
    x->registers = cta->grid->registers;
    group_add(x, 0, x->live);
    set_pinned(x);
    return warp;
}

int cta_start(struct cta *cta) {
    const struct grid *g = cta->grid;
    unsigned threads = g->block[0] * g->block[1] * g->block[2];
    unsigned count = (threads + WARP - 1) / WARP;
    cta->shared_bytes = g->fn->static_shared + g->dynamic_shared;
    cta->shared = cta->shared_bytes ? spare_take(spares_of(cta, SPARE_SHARED), cta->shared_bytes) : NULL;
    if (cta->shared) memset(cta->shared, 0, cta->shared_bytes);
    cta->warps = calloc(count ? count : 1, sizeof *cta->warps);
    cta->exec = calloc(1, sizeof(struct barriers));
    if ((cta->shared_bytes && !cta->shared) || !cta->warps || !cta->exec) goto fail;
    for (cta->warp_count = 0; cta->warp_count < count; cta->warp_count++) {
        unsigned left = threads - cta->warp_count * WARP;
        if (!(cta->warps[cta->warp_count] = warp_new(cta, cta->warp_count, left))) goto fail;
    }
    cta->live_warps = count;
    if (!check_begin(cta)) goto fail;
    if (((const struct code *)g->fn->code)->async_reads && !proxy_begin(cta)) goto fail;
    return 0;
fail:
    cta_end(cta);
    return -1;
}

void cta_end(struct cta *cta) {
    check_end(cta);
    copies_free(cta);
    wgmma_free(cta);
    for (unsigned i = 0; cta->warps && i < cta->warp_count; i++)
        spare_give(spares_of(cta, SPARE_WARP), cta->warps[i], warp_bytes(cta));
    free(cta->warps);
    spare_give(spares_of(cta, SPARE_SHARED), cta->shared, cta->shared_bytes);
    free(cta->exec);
    cta->warps = NULL;
    cta->shared = NULL;
    cta->exec = NULL;
    cta->warp_count = cta->live_warps = 0;
}

/* ---- words ---- */
void exec_append(char *text, size_t capacity, const char *format, ...) {
    size_t used = strlen(text);
    if (used + 1 >= capacity) return;
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, capacity - used, format, list);
    va_end(list);
}

/* "kernel NAME, FILE:LINE (PTX line N: `text`)" */
void ptx_append_place(const struct ptx_function *fn, u32 pc, char *text, size_t capacity) {
    const struct code *c = fn->code;
    const struct where *w = &c->where[pc];
    const char *file = NULL;
    unsigned line = c->lines && c->lines->template_line ? c->lines->template_line(c->lines->self, w->line, &file) : 0;
    exec_append(text, capacity, "kernel " SHOWN_NAME ", ", fn->name);
    if (file) exec_append(text, capacity, "%s:%u (", file, line);
    exec_append(text, capacity, "PTX line %u: `%.*s`%s", w->line, (int)(w->length < 240 ? w->length : 240),
                c->source + w->text, file ? ")" : "");
}

void exec_append_place(const struct exec *x, u32 pc, char *text, size_t capacity) {
    ptx_append_place(x->warp->cta->grid->fn, pc, text, capacity);
}

void exec_append_thread(const struct exec *x, unsigned lane, char *text, size_t capacity) {
    const struct cta *cta = x->warp->cta;
    const unsigned *b = cta->grid->block;
    unsigned thread = thread_of(x, lane);
    exec_append(text, capacity, "thread (%u,%u,%u) of block (%u,%u,%u)", thread % b[0], thread / b[0] % b[1],
                thread / b[0] / b[1], cta->index[0], cta->index[1], cta->index[2]);
}

int exec_fault(struct exec *x, unsigned lane, int code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(x->fault->text, sizeof x->fault->text, format, list);
    va_end(list);
    x->fault->code = code;
    x->fault_lane = lane;
    return RUN_FAULT;
}

/* Puts place and thread before the text that exec_fault or the world has left. */
void exec_fault_complete(struct exec *x, u32 pc) {
    char what[sizeof x->fault->text];
    memcpy(what, x->fault->text, sizeof what);
    what[sizeof what - 1] = 0;
    char *text = x->fault->text;
    text[0] = 0;
    exec_append_place(x, pc, text, sizeof x->fault->text);
    exec_append(text, sizeof x->fault->text, ", ");
    exec_append_thread(x, x->fault_lane, text, sizeof x->fault->text);
    exec_append(text, sizeof x->fault->text, ": %s", what);
}

/* Within the last accesses: a loop that waits makes few a turn, and has made many turns. */
static bool is_recent(const struct exec *x, u64 count) {
    enum { RECENT = 256 };
    return count && x->touch_count - count < RECENT;
}

static bool polled_lately(const struct exec *x) {
    return x->poll_bytes && is_recent(x, x->poll_touch);
}

static void append_poll(const struct exec *x, char *text, size_t capacity) {
    exec_append(text, capacity, "; last polled address 0x%llx (%llu polls), value there",
                (unsigned long long)x->poll_address, (unsigned long long)x->poll_count);
    for (unsigned i = 0; i < x->poll_bytes; i += 4) {
        u32 word = 0;
        memcpy(&word, x->poll_value + i, x->poll_bytes - i < 4 ? x->poll_bytes - i : 4);
        exec_append(text, capacity, " 0x%08x", word);
    }
    exec_append(text, capacity, ", by ");
    exec_append_place(x, x->poll_pc, text, capacity);
}

void exec_append_name(const struct exec *x, u64 address, char *text, size_t capacity) {
    const struct shared_name *name = x->code->shared;
    while (name && (address < name->offset || address - name->offset >= name->bytes))
        name = name->next;
    if (name)
        exec_append(text, capacity, " (%.*s + %llu)", (int)(name->length < 80 ? name->length : 80), name->name,
                    (unsigned long long)(address - name->offset));
}

static void append_shared(const struct exec *x, u64 address, char *text, size_t capacity) {
    exec_append_name(x, address, text, capacity);
    const struct cta *cta = x->warp->cta;
    u64 offset = address - SHARED_BASE;
    u32 word;
    if (offset + sizeof word > cta->shared_bytes) return;
    memcpy(&word, cta->shared + offset, sizeof word);
    exec_append(text, capacity, ", the word there is 0x%08x", word);
}

static void append_touch(const struct exec *x, unsigned store, char *text, size_t capacity) {
    const struct touch *touch = &x->touches[store];
    exec_append(text, capacity, "; last %s %s address 0x%llx", store ? "wrote" : "read",
                touch->space == SPACE_SHARED ? "shared" : "global", (unsigned long long)touch->address);
    if (touch->space == SPACE_SHARED) append_shared(x, touch->address, text, capacity);
    exec_append(text, capacity, ", by ");
    exec_append_place(x, touch->pc, text, capacity);
}

void warp_describe(const struct warp *warp, char *text, size_t capacity) {
    static const char *const states[] = {"runs", "waits at a barrier", "waits at griddepcontrol.wait", "is done"};
    const struct exec *x = warp->exec;
    const struct cta *cta = warp->cta;
    exec_append(text, capacity, "warp %u of block (%u,%u,%u) %s", warp->index, cta->index[0], cta->index[1],
                cta->index[2], states[warp->state]);
    if (warp->state == WARP_DONE) return;
    for (unsigned i = 0; i < x->group_count; i++) {
        exec_append(text, capacity, "%s threads 0x%08x at ", i ? ";" : ":", x->groups[i].mask);
        exec_append_place(x, x->groups[i].pc, text, capacity);
    }
    for (unsigned i = 0; i < x->parked_count; i++) {
        exec_append(text, capacity, "%s threads 0x%08x wait for threads 0x%08x at ", i + x->group_count ? ";" : ":",
                    x->parked[i].lanes, x->at_barrier ? 0 : x->parked[i].members & ~x->parked[i].lanes);
        exec_append_place(x, x->parked[i].pc, text, capacity);
    }
    sync_describe(x, text, capacity);
    registers_describe(x, text, capacity);
    wgmma_describe(x, text, capacity);
    if (warp->state != WARP_READY) return;
    if (is_recent(x, x->await_touch)) mbarrier_describe(x, text, capacity);
    if (polled_lately(x)) append_poll(x, text, capacity);
    for (unsigned store = 0; store < 2; store++)
        if (is_recent(x, x->touches[store].count) && !(polled_lately(x) && x->touches[store].pc == x->poll_pc))
            append_touch(x, store, text, capacity);
}

uint64_t warp_awaits(const struct warp *warp) {
    const struct exec *x = warp->exec;
    return warp->state == WARP_READY && is_recent(x, x->await_touch) ? x->await_offset + SHARED_BASE : 0;
}

uint64_t warp_touched(const struct warp *warp) {
    const struct exec *x = warp->exec;
    const struct touch *newest = NULL;
    for (const struct touch *t = x->touches; t < x->touches + 2; t++)
        if (t->space == SPACE_GLOBAL && is_recent(x, t->count) && (!newest || t->count > newest->count)) newest = t;
    return newest ? newest->address : 0;
}

static u64 mix(u64 hash, u64 value) {
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

uint64_t warp_state_hash(const struct warp *warp, uint64_t *steps) {
    const struct exec *x = warp->exec;
    const u64 *registers = AT(x, 0);
    u64 hash = mix(x->live, x->carry), sets = 0;
    for (size_t i = 0; i < (size_t)x->code->slots * SLOT_BYTES / sizeof *registers; i++)
        hash = mix(hash, registers[i]);
    for (unsigned i = 0; i < x->code->predicates; i++)
        hash = mix(hash, x->predicates[i]);
    for (unsigned i = 0; i < x->group_count; i++) /* in any order */
        sets += mix(x->groups[i].pc + (u64)x->groups[i].waiting * UINT32_MAX, x->groups[i].mask);
    for (unsigned i = 0; i < x->parked_count; i++)
        sets += mix(mix(x->parked[i].pc, x->parked[i].lanes), x->parked[i].members);
    *steps = x->clock;
    return mix(hash, sets);
}
