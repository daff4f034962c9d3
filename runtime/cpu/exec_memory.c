/* exec_memory.c - loads, stores and fences. Checks alignment, and bounds of shared, local and parameter memory; global memory
 * is the world's. A polled load (volatile, relaxed, acquire from global memory) ends a warp's burst. */
#include <string.h>
#include <runtime/cpu/exec_memory.h>

/* Address of each active lane, offset added. */
void lane_addresses(const struct exec *x, const struct op *o, u64 *address)
{
    if (o->flags & F_WIDE_ADDRESS) {
        const u64 *a = AT(x, o->a);
        for (int l = 0; l < WARP; l++)
            address[l] = a[l] + (u64)o->imm;
    } else {
        const u32 *a = AT(x, o->a);
        for (int l = 0; l < WARP; l++)
            address[l] = a[l] + (u64)o->imm;
    }
}

static int misaligned(struct exec *x, u32 lane, u64 address, unsigned bytes)
{
    return exec_fault(x, lane, FAULT_MISALIGNED, "address 0x%llx is not aligned to the %u bytes of the access", (unsigned long long)address, bytes);
}

static int outside(struct exec *x, u32 lane, const char *what, u64 address, unsigned bytes, u64 begin, u64 size)
{
    return exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS, "%u bytes at %s address 0x%llx: the %s memory is [0x%llx, 0x%llx)", bytes, what,
                      (unsigned long long)address, what, (unsigned long long)begin, (unsigned long long)(begin + size));
}

/* Host memory of shared, local or parameter bytes; NULL with a fault when outside. */
u8 *window_at(struct exec *x, u32 lane, enum space space, u64 address, unsigned bytes)
{
    const struct cta *cta = x->warp->cta;
    const struct ptx_function *fn = cta->grid->fn;
    u64 begin = space == SPACE_SHARED ? SHARED_BASE : 0;
    u64 size = space == SPACE_SHARED ? cta->shared_bytes : space == SPACE_LOCAL ? fn->local_bytes : fn->param_bytes;
    u8 *base = space == SPACE_SHARED ? cta->shared : space == SPACE_LOCAL ? x->local + (size_t)lane * fn->local_bytes : cta->grid->params;
    if (address % bytes) {
        misaligned(x, lane, address, bytes);
        return NULL;
    }
    if (address < begin || address - begin > size || size - (address - begin) < bytes) {
        outside(x, lane, space == SPACE_SHARED ? "shared" : space == SPACE_LOCAL ? "local" : "parameter", address, bytes, begin, size);
        return NULL;
    }
    return base + (address - begin);
}

enum space space_of(u64 *address)
{
    switch (WINDOW_OF(*address)) {
    case WINDOW_SHARED: *address ^= WINDOW_SHARED; return SPACE_SHARED;
    case WINDOW_LOCAL: *address ^= WINDOW_LOCAL; return SPACE_LOCAL;
    case WINDOW_PARAM: *address ^= WINDOW_PARAM; return SPACE_PARAM;
    default: return SPACE_GLOBAL;
    }
}

/* ---- loads ---- */
/* From each lane's bytes to the data registers. */
static void scatter(struct exec *x, const struct op *o, u32 m, const u8 *const *from)
{
    for (unsigned i = 0; i < o->count; i++) {
        u32 operand = x->code->extra[o->extra + i];
        unsigned at = i * o->bytes;
        if (o->bytes == 4 && o->width == 32) {
            u32 *d = AT(x, operand);
            FOR_LANES(l, m) memcpy(&d[l], from[l] + at, 4);
        } else if (o->bytes == 8) {
            u64 *d = AT(x, operand);
            FOR_LANES(l, m) memcpy(&d[l], from[l] + at, 8);
        } else if (o->bytes == 16) {
            u8 *d = AT(x, operand);
            FOR_LANES(l, m) memcpy(d + 16 * l, from[l] + at, 16);
        } else {
            unsigned spare = 64 - 8u * o->bytes;
            u32 *d32 = AT(x, operand);
            u64 *d64 = AT(x, operand);
            FOR_LANES(l, m)
            {
                u64 value = 0;
                memcpy(&value, from[l] + at, o->bytes);
                if (o->flags & F_SIGNED)
                    value = (u64)((s64)(value << spare) >> spare);
                if (o->width == 64)
                    d64[l] = value;
                else
                    d32[l] = o->width == 16 ? (u16)value : (u32)value;
            }
        }
    }
}

static void note_poll(struct exec *x, const struct op *o, u32 lane, u64 address, const u8 *value, unsigned bytes)
{
    x->poll_address = address;
    x->poll_bytes = bytes < 16 ? bytes : 16;
    memcpy(x->poll_value, value, x->poll_bytes);
    x->poll_pc = (u32)(o - x->code->ops);
    x->poll_count++;
    x->warp->polled = true;
    (void)lane;
}

static bool load_global_lane(struct exec *x, const struct op *o, u32 lane, u64 address, u8 *to, unsigned bytes)
{
    if (address % bytes) {
        misaligned(x, lane, address, bytes);
        return false;
    }
    x->fault_lane = lane;
    for (unsigned at = 0; at < bytes; at += 16)
        if (!world_load(x->world, x->warp, thread_of(x, lane), address + at, to + at, bytes < 16 ? bytes : 16, o->order, o->scope, x->fault))
            return false;
    return true;
}

int op_load_global(struct exec *x, const struct op *o, u32 m)
{
    u64 address[WARP];
    u8 raw[WARP][32];
    const u8 *from[WARP];
    unsigned bytes = (unsigned)o->bytes * o->count;
    lane_addresses(x, o, address);
    FOR_LANES(l, m)
    {
        if (!load_global_lane(x, o, l, address[l], raw[l], bytes))
            return RUN_FAULT;
        from[l] = raw[l];
    }
    scatter(x, o, m, from);
    if (o->order == ORDER_WEAK)
        return RUN_NEXT;
    u32 first = (u32)__builtin_ctz(m);
    note_poll(x, o, first, address[first], raw[first], bytes);
    return RUN_STOP;
}

int op_load_generic(struct exec *x, const struct op *o, u32 m)
{
    u64 address[WARP];
    u8 raw[WARP][32];
    const u8 *from[WARP];
    unsigned bytes = (unsigned)o->bytes * o->count;
    bool polled = false;
    lane_addresses(x, o, address);
    FOR_LANES(l, m)
    {
        enum space space = space_of(&address[l]);
        if (space != SPACE_GLOBAL) {
            if (!(from[l] = window_at(x, l, space, address[l], bytes)))
                return RUN_FAULT;
            continue;
        }
        if (!load_global_lane(x, o, l, address[l], raw[l], bytes))
            return RUN_FAULT;
        from[l] = raw[l];
        if (o->order != ORDER_WEAK) {
            note_poll(x, o, l, address[l], raw[l], bytes);
            polled = true;
        }
    }
    scatter(x, o, m, from);
    return polled ? RUN_STOP : RUN_NEXT;
}

int op_load_window(struct exec *x, const struct op *o, u32 m)
{
    u64 address[WARP];
    const u8 *from[WARP];
    unsigned bytes = (unsigned)o->bytes * o->count;
    lane_addresses(x, o, address);
    FOR_LANES(l, m)
    {
        if (WINDOW_OF(address[l]))
            space_of(&address[l]);
        if (!(from[l] = window_at(x, l, o->space, address[l], bytes)))
            return RUN_FAULT;
    }
    scatter(x, o, m, from);
    return RUN_NEXT;
}

/* ---- stores ---- */
static void gather(const struct exec *x, const struct op *o, u32 m, u8 (*to)[32])
{
    for (unsigned i = 0; i < o->count; i++) {
        const u8 *s = AT(x, x->code->extra[o->extra + i]);
        unsigned at = i * o->bytes, stride = o->width == 128 ? 16 : o->width == 64 ? 8 : 4;
        if (o->bytes == 4) {
            FOR_LANES(l, m) memcpy(to[l] + at, s + l * stride, 4);
        } else if (o->bytes == 8) {
            FOR_LANES(l, m) memcpy(to[l] + at, s + l * stride, 8);
        } else {
            FOR_LANES(l, m) memcpy(to[l] + at, s + l * stride, o->bytes);
        }
    }
}

static bool store_global_lane(struct exec *x, const struct op *o, u32 lane, u64 address, const u8 *from, unsigned bytes)
{
    bool changed = false;
    if (address % bytes) {
        misaligned(x, lane, address, bytes);
        return false;
    }
    x->fault_lane = lane;
    for (unsigned at = 0; at < bytes; at += 16) {
        if (!world_store(x->world, x->warp, thread_of(x, lane), address + at, from + at, bytes < 16 ? bytes : 16, o->order, o->scope, &changed, x->fault))
            return false;
        x->warp->progressed |= changed;
    }
    return true;
}

static bool store_window_lane(struct exec *x, enum space space, u32 lane, u64 address, const u8 *from, unsigned bytes)
{
    if (space == SPACE_PARAM) {
        exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS, "parameters are read-only: store to parameter address 0x%llx", (unsigned long long)address);
        return false;
    }
    u8 *to = window_at(x, lane, space, address, bytes);
    if (!to)
        return false;
    if (memcmp(to, from, bytes) != 0) {
        x->warp->progressed = true;
        memcpy(to, from, bytes);
    }
    return true;
}

int op_store_global(struct exec *x, const struct op *o, u32 m)
{
    u64 address[WARP];
    u8 raw[WARP][32];
    unsigned bytes = (unsigned)o->bytes * o->count;
    lane_addresses(x, o, address);
    gather(x, o, m, raw);
    FOR_LANES(l, m)
    if (!store_global_lane(x, o, l, address[l], raw[l], bytes))
        return RUN_FAULT;
    return RUN_NEXT;
}

int op_store_generic(struct exec *x, const struct op *o, u32 m)
{
    u64 address[WARP];
    u8 raw[WARP][32];
    unsigned bytes = (unsigned)o->bytes * o->count;
    lane_addresses(x, o, address);
    gather(x, o, m, raw);
    FOR_LANES(l, m)
    {
        enum space space = space_of(&address[l]);
        if (space == SPACE_GLOBAL ? !store_global_lane(x, o, l, address[l], raw[l], bytes)
                                  : !store_window_lane(x, space, l, address[l], raw[l], bytes))
            return RUN_FAULT;
    }
    return RUN_NEXT;
}

int op_store_window(struct exec *x, const struct op *o, u32 m)
{
    u64 address[WARP];
    u8 raw[WARP][32];
    unsigned bytes = (unsigned)o->bytes * o->count;
    lane_addresses(x, o, address);
    gather(x, o, m, raw);
    FOR_LANES(l, m)
    {
        if (WINDOW_OF(address[l]))
            space_of(&address[l]);
        if (!store_window_lane(x, o->space, l, address[l], raw[l], bytes))
            return RUN_FAULT;
    }
    return RUN_NEXT;
}

int op_fence(struct exec *x, const struct op *o, u32 m)
{
    FOR_LANES(l, m) world_fence(x->world, x->warp, thread_of(x, l), o->order, o->scope);
    return RUN_NEXT;
}

/* prefetch: the address must be one that a load could use; nothing moves. */
int op_prefetch(struct exec *x, const struct op *o, u32 m)
{
    u64 address[WARP];
    u8 byte;
    lane_addresses(x, o, address);
    FOR_LANES(l, m)
    {
        enum space space = o->space == SPACE_GENERIC ? space_of(&address[l]) : o->space;
        x->fault_lane = l;
        if (space == SPACE_GLOBAL || space == SPACE_CONST) {
            if (!world_load(x->world, x->warp, thread_of(x, l), address[l], &byte, 1, ORDER_WEAK, SCOPE_NONE, x->fault))
                return RUN_FAULT;
        } else if (!window_at(x, l, space, address[l], 1)) {
            return RUN_FAULT;
        }
    }
    return RUN_NEXT;
}
