/* exec_vector.c - the data of loads and stores between registers and bytes: see exec_vector.h. Knows no spaces and no
 * checks: the places are good. */
#include <string.h>
#include <runtime/cpu/exec_vector.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define FOR_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define FOR_AVX2
#endif
#define FAR ((u64)1 << 40)

/* Whether the lanes' addresses follow each other. */
FOR_AVX2 static bool is_linear(const u64 *address, unsigned each) {
    u64 apart = 0;
    for (u32 l = 0; l < WARP; l++)
        apart |= address[l] ^ (address[0] + (u64)l * each);
    return !apart;
}

FOR_AVX2 static bool widest(const u64 *address, u32 m, unsigned each, struct span *span) {
    u64 first = address[__builtin_ctz(m)], wrong = 0, active[WARP];
    s64 low = 0, high = 0;
    for (u32 l = 0; l < WARP; l++)
        active[l] = 0 - (u64)(m >> l & 1);
    for (u32 l = 0; l < WARP; l++) {
        s64 far = (s64)((address[l] - first) & active[l]);
        low = far < low ? far : low;
        high = far > high ? far : high;
        wrong |= address[l] & active[l];
    }
    u64 size = (u64)high - (u64)low;
    *span = (struct span){first + (u64)low, size + each, false};
    return !(wrong & (each - 1)) && size <= FAR;
}

bool span_of(const u64 *address, u32 m, unsigned each, struct span *span) {
    if (m != ALL_LANES || !is_linear(address, each)) return widest(address, m, each, span);
    *span = (struct span){address[0], (u64)each * WARP, true};
    return !(address[0] & (each - 1));
}

/* ---- registers from bytes ---- */
#define LOAD_ELEMENTS(type)                                                                                            \
    {                                                                                                                  \
        type *d = AT(x, operand);                                                                                      \
        if (m == ALL_LANES)                                                                                            \
            for (u32 l = 0; l < WARP; l++)                                                                             \
                memcpy(&d[l], from[l] + at, sizeof(type));                                                             \
        else                                                                                                           \
            FOR_LANES(l, m) memcpy(&d[l], from[l] + at, sizeof(type));                                                 \
    }

void registers_load(struct exec *x, const struct op *o, u32 m, const u8 *const *from) {
    for (unsigned i = 0; i < o->count; i++) {
        u32 operand = x->code->extra[o->extra + i];
        unsigned at = i * o->bytes;
        if (o->bytes == 4 && o->width == 32) {
            LOAD_ELEMENTS(u32)
        } else if (o->bytes == 8) {
            LOAD_ELEMENTS(u64)
        } else if (o->bytes == 16) {
            LOAD_ELEMENTS(unsigned __int128)
        } else {
            unsigned spare = 64 - 8u * o->bytes;
            u32 *d32 = AT(x, operand);
            u64 *d64 = AT(x, operand);
            FOR_LANES(l, m) {
                u64 value = 0;
                memcpy(&value, from[l] + at, o->bytes);
                if (o->flags & F_SIGNED) value = (u64)((s64)(value << spare) >> spare);
                if (o->width == 64)
                    d64[l] = value;
                else
                    d32[l] = o->width == 16 ? (u16)value : (u32)value;
            }
        }
    }
}

static bool is_words(const struct op *o) {
    return o->bytes == 4 && o->width == 32;
}

FOR_AVX2 static void split2(u32 *d0, u32 *d1, const u32 *restrict s) {
    for (u32 l = 0; l < WARP; l++) {
        d0[l] = s[2 * l];
        d1[l] = s[2 * l + 1];
    }
}

FOR_AVX2 static void split4(u32 *const *to, const u32 *restrict s) {
    u32 *d0 = to[0], *d1 = to[1], *d2 = to[2], *d3 = to[3];
    for (u32 l = 0; l < WARP; l++) {
        d0[l] = s[4 * l];
        d1[l] = s[4 * l + 1];
        d2[l] = s[4 * l + 2];
        d3[l] = s[4 * l + 3];
    }
}

FOR_AVX2 static void widen(u32 *restrict d, const u16 *restrict s) {
    for (u32 l = 0; l < WARP; l++)
        d[l] = s[l];
}

void registers_load_linear(struct exec *x, const struct op *o, const u8 *from) {
    const u32 *operands = &x->code->extra[o->extra];
    const void *at = from; /* aligned to the access */
    u32 *to[4];
    if (o->count == 1 && (is_words(o) || o->bytes == 8)) {
        memcpy(AT(x, operands[0]), from, (size_t)WARP * o->bytes);
    } else if (o->count == 2 && is_words(o)) {
        split2(AT(x, operands[0]), AT(x, operands[1]), at);
    } else if (o->count == 4 && is_words(o)) {
        for (unsigned i = 0; i < 4; i++)
            to[i] = AT(x, operands[i]);
        split4(to, at);
    } else if (o->count == 1 && o->bytes == 2 && o->width != 64 && !(o->flags & F_SIGNED)) {
        widen(AT(x, operands[0]), at);
    } else {
        const u8 *each[WARP];
        for (u32 l = 0; l < WARP; l++)
            each[l] = from + l * o->bytes * o->count;
        registers_load(x, o, ALL_LANES, each);
    }
}

/* ---- bytes from registers ---- */
static inline __attribute__((always_inline)) bool put(u8 *to, const u8 *from, unsigned bytes) {
    bool changed = memcmp(to, from, bytes) != 0;
    memcpy(to, from, bytes);
    return changed;
}

#define STORE_ELEMENTS(bytes)                                                                                          \
    FOR_LANES(l, m)                                                                                                    \
    for (unsigned i = 0; i < o->count; i++)                                                                            \
        changed |= put(to[l] + i * (bytes), source[i] + l * stride, bytes);

bool registers_store(const struct exec *x, const struct op *o, u32 m, u8 *const *to) {
    const u8 *source[32];
    unsigned stride = o->width == 128 ? 16 : o->width == 64 ? 8 : 4;
    bool changed = false;
    for (unsigned i = 0; i < o->count; i++)
        source[i] = AT(x, x->code->extra[o->extra + i]);
    switch (o->bytes) {
    case 1:
        STORE_ELEMENTS(1)
        break;
    case 2:
        STORE_ELEMENTS(2)
        break;
    case 4:
        STORE_ELEMENTS(4)
        break;
    case 8:
        STORE_ELEMENTS(8)
        break;
    default:
        STORE_ELEMENTS(16)
    }
    return changed;
}

FOR_AVX2 static u32 join1(const u32 *restrict s, u32 *restrict to) {
    u32 changed = 0;
    for (u32 l = 0; l < WARP; l++) {
        changed |= to[l] ^ s[l];
        to[l] = s[l];
    }
    return changed;
}

FOR_AVX2 static void join2(const u32 *s0, const u32 *s1, u32 *restrict to) {
    for (u32 l = 0; l < WARP; l++) {
        to[2 * l] = s0[l];
        to[2 * l + 1] = s1[l];
    }
}

FOR_AVX2 static void join4(const u32 *const *from, u32 *restrict to) {
    const u32 *s0 = from[0], *s1 = from[1], *s2 = from[2], *s3 = from[3];
    for (u32 l = 0; l < WARP; l++) {
        to[4 * l] = s0[l];
        to[4 * l + 1] = s1[l];
        to[4 * l + 2] = s2[l];
        to[4 * l + 3] = s3[l];
    }
}

FOR_AVX2 static u32 narrow(const u32 *restrict s, u16 *restrict to) {
    u32 changed = 0;
    for (u32 l = 0; l < WARP; l++) {
        changed |= (u32)to[l] ^ (u16)s[l];
        to[l] = (u16)s[l];
    }
    return changed;
}

bool registers_store_linear(const struct exec *x, const struct op *o, u8 *to) {
    const u32 *operands = &x->code->extra[o->extra], *from[4] = {NULL};
    u32 joined[4 * WARP];
    void *at = to; /* aligned to the access */
    if (is_words(o) && (o->count == 1 || o->count == 2 || o->count == 4)) {
        for (unsigned i = 0; i < o->count; i++)
            from[i] = AT(x, operands[i]);
        if (o->count == 1) return join1(from[0], at);
        if (o->count == 2)
            join2(from[0], from[1], joined);
        else
            join4(from, joined);
        return put(to, (const u8 *)joined, (unsigned)(o->count * sizeof joined[0] * WARP));
    }
    if (o->bytes == 8 && o->count == 1) return put(to, AT(x, operands[0]), 8 * WARP);
    if (o->bytes == 2 && o->count == 1 && o->width != 64) return narrow(AT(x, operands[0]), at);
    u8 *each[WARP];
    for (u32 l = 0; l < WARP; l++)
        each[l] = to + l * o->bytes * o->count;
    return registers_store(x, o, ALL_LANES, each);
}
