/* exec_wgmma_land.c - what a wgmma does when its moment comes: operands through descriptors or from registers, the
 * product, results into the accumulators of its four warps.
 *
 * Descriptors: bits 0-13 address / 16, 16-29 leading and 32-45 stride offset / 16, 49-51 base offset, 62-63 swizzle (0
 * none, 1 128 bytes, 2 64, 3 32). Layouts, in units of 16 bytes; W: units of a swizzled row.
 *   K-major: row r, unit u of its 2: 8 rows of 1 (none) or W units, stride to the next 8 rows; u: leading, swizzled 1.
 *   MN-major: k, 8 rows j:
 *     none:     k % 8, leading to the next 8 k; stride to the next j.
 *     swizzled: j % W + (k % 8) W; leading to the next W of j, stride to the next 8 k.
 * A swizzle xors the unit within its row with the row within its pattern; that row is the address's, less the base
 * offset: a pattern that begins at no multiple of its size says there where it does. */
#include <string.h>
#include <runtime/cpu/exec_wgmma.h>
#include <runtime/cpu/exec_ops.h>

enum { FIELD = 0x3FFF, ADDRESS = 0x3FFFF };

static unsigned swizzle_bits(u64 descriptor) {
    static const unsigned bits[4] = {0, 3, 2, 1};
    return bits[descriptor >> 62];
}

static u32 field(u64 descriptor, unsigned shift) {
    return (u32)(descriptor >> shift & FIELD) * UNIT;
}

u32 wgmma_unit(u64 descriptor, bool trans, unsigned rows, unsigned unit) {
    unsigned bits = swizzle_bits(descriptor), wide = bits ? 1u << bits : 1;
    u32 leading = field(descriptor, 16), stride = field(descriptor, 32), at;
    if (!trans) {
        unsigned row = unit / WGMMA_UNITS, u = unit % WGMMA_UNITS;
        at = row % 8 * wide * UNIT + row / 8 * stride + u * (bits ? UNIT : leading);
    } else {
        unsigned k = unit / (rows / 8), j = unit % (rows / 8);
        at = bits ? (j % wide + k % 8 * wide) * UNIT + j / wide * leading + k / 8 * stride
                  : k % 8 * UNIT + k / 8 * leading + j * stride;
    }
    at = (at + field(descriptor, 0)) & ADDRESS;
    u32 row = (at >> 7) - (u32)(descriptor >> 49 & 7);
    return (at ^ (row & ((1u << bits) - 1)) << 4) - SHARED_BASE;
}

/* An operand's bytes, a row of A or a column of B side by side; what nobody has written is NaN. */
static void load_units(const struct cta *cta, u64 descriptor, bool trans, unsigned rows, u8 (*raw)[WGMMA_BYTES]) {
    for (unsigned unit = 0; unit < wgmma_units(rows); unit++) {
        static const u8 nothing[UNIT] = {255, 255, 255, 255, 255, 255, 255, 255,
                                         255, 255, 255, 255, 255, 255, 255, 255};
        u32 offset = wgmma_unit(descriptor, trans, rows, unit);
        const u8 *from = proxy_known(cta, offset, UNIT) ? cta->shared + offset : nothing;
        if (!trans) {
            memcpy(raw[unit / WGMMA_UNITS] + unit % WGMMA_UNITS * UNIT, from, UNIT);
            continue;
        }
        unsigned k = unit / (rows / 8), j = unit % (rows / 8);
        for (unsigned i = 0; i < 8; i++)
            memcpy(raw[8 * j + i] + 2 * k, from + 2 * i, 2);
    }
}

static u32 *register_at(struct exec *x, const struct op *o, unsigned index) {
    return AT(x, x->code->extra[o->extra + index]);
}

/* Register r of thread t: row t / 4 + 8 (r % 2), 4 bytes from 16 (r / 2) + 4 (t % 4) on. */
static void load_registers(struct exec *x, const struct op *o, u8 (*raw)[WGMMA_BYTES]) {
    for (unsigned r = 0; r < 4; r++) {
        const u32 *s = register_at(x, o, o->count + r);
        for (unsigned t = 0; t < WARP; t++)
            memcpy(raw[t / 4 + 8 * (r % 2)] + 16 * (r / 2) + 4 * (t % 4), &s[t], 4);
    }
}

/* Accumulators of one row, 16 rows a warp. d of 32 bits: columns 8 i + 2 (t % 4) and the next in registers 4 i, 4 i +
 * 1; 8 rows below in 4 i + 2, 4 i + 3. f16: both in register 2 i; in 2 i + 1. */
static void move_row(struct exec *x, const struct op *o, unsigned row, u32 *d, bool load) {
    unsigned half = o->space == N_F16, below = row / 8, first = row % 8 * 4;
    for (unsigned i = 0; i < wgmma_columns(o) / 8; i++)
        for (unsigned t = 0; t < 4; t++) {
            u32 *pair = d + 8 * i + 2 * t;
            if (half) {
                u32 *r = register_at(x, o, 2 * i + below) + first + t;
                if (load) {
                    pair[0] = *r & 0xFFFF;
                    pair[1] = *r >> 16;
                } else {
                    *r = pair[0] | pair[1] << 16;
                }
                continue;
            }
            for (unsigned k = 0; k < 2; k++) {
                u32 *r = register_at(x, o, 4 * i + 2 * below + k) + first + t;
                *(load ? &pair[k] : r) = *(load ? r : &pair[k]);
            }
        }
}

static void land_one(struct cta *cta, unsigned group, const struct wgmma_pending *p) {
    const struct op *o = p->op;
    u8 a[WGMMA_ROWS][WGMMA_BYTES], b[WGMMA_COLUMNS][WGMMA_BYTES];
    struct wgmma_factor factor;
    load_units(cta, p->b, o->imm & WGMMA_TRANS_B, wgmma_columns(o), b);
    wgmma_factor(o, (const u8(*)[WGMMA_BYTES])b, &factor);
    if (!(o->imm & WGMMA_A_REGISTERS)) load_units(cta, p->a, o->imm & WGMMA_TRANS_A, WGMMA_ROWS, a);
    for (unsigned w = 0; w < WARPGROUP; w++) {
        struct exec *x = exec_of(cta, group * WARPGROUP + w);
        if (o->imm & WGMMA_A_REGISTERS) load_registers(x, o, a + 16 * w);
        for (unsigned row = 0; row < 16; row++) {
            u32 d[WGMMA_COLUMNS];
            move_row(x, o, row, d, true);
            wgmma_row(o, a[16 * w + row], &factor, p->scale, d);
            move_row(x, o, row, d, false);
        }
        x->warp->progressed = true;
    }
    cta->copies_flying--;
    cta->landings++;
}

static void land_first(struct cta *cta, unsigned group, u32 count) {
    struct warpgroup *g = &warpgroups_of(cta)->at[group];
    for (u32 i = 0; i < count; i++)
        land_one(cta, group, &g->queue[i]);
    g->count -= count;
    memmove(g->queue, g->queue + count, g->count * sizeof *g->queue);
}

void wgmma_land(struct cta *cta, unsigned group, u32 most) {
    const struct warpgroup *g = &warpgroups_of(cta)->at[group];
    u32 count = 0;
    while (count < g->count && g->queue[count].group <= most)
        count++;
    land_first(cta, group, count);
}

void wgmma_land_some(struct world *world, struct cta *cta, unsigned one_in) {
    for (unsigned group = 0; warpgroups_of(cta) && group < WARPGROUPS_MOST; group++) {
        const struct warpgroup *g = &warpgroups_of(cta)->at[group];
        u32 count = 0;
        while (count < g->count && world_chance(world, one_in))
            count++;
        if (count) land_first(cta, group, count);
    }
}
