/* test_cpu_tensor.c - tensor maps: the rules of cuTensorMapEncodeTiled, and cp.async.bulk.tensor both ways in 1 to 5
 * dimensions, with swizzles, out of bounds, strides; the faults. Where an element lands is computed here, from the
 * definition: row after row, and 16 bytes exchanged by the bits of their address that the swizzle names. */
#include "tests/cpu_kernel.h"

struct map {
    int type;
    unsigned rank;
    uint64_t offset; /* of the first element, from in (or out) */
    unsigned long long dims[5], strides[4];
    unsigned box[5], steps[5];
    int swizzle;
};

static unsigned element_of(int type) {
    return type == DRIVER_MAP_U8 ? 1 : type == DRIVER_MAP_U32 || type == DRIVER_MAP_F32 ? 4 : 2;
}

static cu_result encode(unsigned which, const struct map *m, cu_ptr base) {
    unsigned steps[5];
    for (int d = 0; d < 5; d++)
        steps[d] = m->steps[d] ? m->steps[d] : 1;
    return cpu_tensor_map(&maps[which], m->type, m->rank, (void *)(uintptr_t)(base + m->offset), m->dims, m->strides,
                          m->box, steps, 0, m->swizzle, DRIVER_PROMOTION_128, 0);
}

/* Where byte `at` of the box lies in shared memory, from its beginning (a multiple of 1024). */
static unsigned placed(unsigned at, int swizzle) {
    unsigned row = at / 128, unit = at / 16 % 8,
             pattern = swizzle == DRIVER_SWIZZLE_128  ? row % 8
                       : swizzle == DRIVER_SWIZZLE_64 ? row % 4
                       : swizzle == DRIVER_SWIZZLE_32 ? row % 2
                                                      : 0;
    return row * 128 + (unit ^ pattern) * 16 + at % 16;
}

/* Calls visit with each element of the box: its offset in the box, its address (~0: outside). */
static unsigned walk(const struct map *m, const int *at,
                     void (*visit)(unsigned box, uint64_t address, unsigned bytes)) {
    unsigned size[5] = {1, 1, 1, 1, 1}, element = element_of(m->type), count = 0, i[5];
    for (unsigned d = 0; d < m->rank; d++)
        size[d] = d && m->steps[d] ? (m->box[d] + m->steps[d] - 1) / m->steps[d] : m->box[d];
    for (i[4] = 0; i[4] < size[4]; i[4]++)
        for (i[3] = 0; i[3] < size[3]; i[3]++)
            for (i[2] = 0; i[2] < size[2]; i[2]++)
                for (i[1] = 0; i[1] < size[1]; i[1]++)
                    for (i[0] = 0; i[0] < size[0]; i[0]++, count++) {
                        uint64_t address = m->offset;
                        bool inside = true;
                        for (unsigned d = 0; d < m->rank; d++) {
                            long long c = at[d] + (long long)i[d] * (d && m->steps[d] ? m->steps[d] : 1);
                            inside = inside && c >= 0 && c < (long long)m->dims[d];
                            address += (uint64_t)(c * (long long)(d ? m->strides[d - 1] : element));
                        }
                        visit(count * element, inside ? address : ~UINT64_C(0), element);
                    }
    return count * element;
}

static unsigned char image[32768], memory[sizeof source];
static int swizzle_now;

static void place_loaded(unsigned box, uint64_t address, unsigned bytes) {
    unsigned to = placed(box, swizzle_now);
    if (address == ~UINT64_C(0))
        memset(image + to, 0, bytes);
    else
        memcpy(image + to, memory + address, bytes);
}

static void place_stored(unsigned box, uint64_t address, unsigned bytes) {
    unsigned from = placed(box, swizzle_now);
    if (address != ~UINT64_C(0)) memcpy(memory + address, image + from, bytes);
}

static const char *const coordinate_lists[] = {"", "{v}", "{v, w}", "{v, w, x}", "{v, w, x, y}", "{v, w, x, y, z}"};

static char *body_of(const struct map *m, const int *at, unsigned bytes, bool store, char *body, size_t capacity) {
    char moves[256] = "";
    static const char names[] = "vwxyz";
    for (unsigned d = 0; d < m->rank; d++)
        snprintf(moves + strlen(moves), sizeof moves - strlen(moves), "mov.b32 %c, %d; ", names[d], at[d]);
    const char *map = "mov.u64 A, map; cvta.param.u64 A, A; prefetch.tensormap [A]; ";
    if (store) /* all of tile from in, then the box to out */
        snprintf(
            body, capacity,
            "@!p exit; mbarrier.init.shared.b64 [bars], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bars], 32768; "
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [I], 32768, [bars]; " WAIT(
                "W", "bars", "0") "%s%s cp.async.bulk.tensor.%ud.global.shared::cta.tile.bulk_group [A, %s], [tile]; "
                                  "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
            map, moves, m->rank, coordinate_lists[m->rank]);
    else /* all of tile to out */
        snprintf(body, capacity,
                 "mov.u32 u, 0x55555555; shl.b32 c, t, 4; { .reg .b32 k; mov.u32 k, tile; add.u32 c, c, k; }\n"
                 "S: st.shared.v4.b32 [c], {u, u, u, u}; add.u32 c, c, 512; setp.lt.u32 q, c, 34816; @q bra S;\n"
                 "fence.proxy.async; bar.warp.sync -1; @!p exit; mbarrier.init.shared.b64 [bars], 1; %s%s"
                 "mbarrier.arrive.expect_tx.shared.b64 _, [bars], %u; cp.async.bulk.tensor.%ud.shared::cluster.global"
                 ".tile.mbarrier::complete_tx::bytes [tile], [A, %s], [bars]; " WAIT(
                     "W", "bars",
                     "0") "cp.async.bulk.global.shared::cta.bulk_group [O], [tile], 32768; cp.async.bulk.commit_group; "
                          "cp.async.bulk.wait_group 0;",
                 map, moves, bytes, m->rank, coordinate_lists[m->rank]);
    return body;
}

static const struct shot {
    struct map map;
    int at[5];
} shots[] = {
    {{DRIVER_MAP_U32, 1, 0, {1000}, {0}, {64}, {0}, 0}, {8}},
    {{DRIVER_MAP_U32, 1, 16, {100}, {0}, {64}, {0}, 0}, {70}},  /* 34 of 64 beyond the end */
    {{DRIVER_MAP_U8, 1, 0, {1000}, {0}, {256}, {0}, 0}, {-13}}, /* 13 before the beginning */
    {{DRIVER_MAP_U16, 2, 32, {100, 20}, {208}, {32, 16}, {0}, 0}, {3, 2}},
    {{DRIVER_MAP_U16, 2, 0, {40, 20}, {128}, {64, 16}, {0}, 0}, {-7, 11}}, /* beyond all ends */
    {{DRIVER_MAP_U16, 2, 0, {40, 20}, {128}, {64, 16}, {0}, 0}, {40, 0}},  /* nothing inside */
    {{DRIVER_MAP_U16, 2, 0, {40, 20}, {128}, {64, 16}, {0}, 0}, {0, -16}},
    {{DRIVER_MAP_F32, 2, 0, {64, 30}, {256}, {8, 24}, {0}, DRIVER_SWIZZLE_32}, {5, 3}},
    {{DRIVER_MAP_BF16, 2, 0, {64, 30}, {256}, {32, 24}, {0}, DRIVER_SWIZZLE_64}, {5, 3}},
    {{DRIVER_MAP_U8, 2, 0, {576, 64}, {576}, {128, 64}, {0}, DRIVER_SWIZZLE_128}, {256, 0}},
    {{DRIVER_MAP_U8, 2, 0, {576, 64}, {576}, {128, 33}, {0}, DRIVER_SWIZZLE_128}, {500, 40}},
    {{DRIVER_MAP_U8, 2, 0, {576, 64}, {576}, {64, 16}, {0}, DRIVER_SWIZZLE_128}, {32, 4}}, /* two rows in a line */
    {{DRIVER_MAP_U8, 2, 0, {576, 64}, {576}, {16, 32}, {0}, DRIVER_SWIZZLE_64}, {32, 4}},
    /* the KV cache: latent in four columns of 128, whose stride is smaller than a token's; the rope behind it */
    {{DRIVER_MAP_U8, 3, 0, {128, 128, 4}, {576, 128}, {128, 64, 4}, {0}, DRIVER_SWIZZLE_128}, {0, 64, 0}},
    {{DRIVER_MAP_U8, 3, 0, {128, 100, 4}, {576, 128}, {128, 64, 2}, {0}, DRIVER_SWIZZLE_128}, {0, 64, 2}},
    {{DRIVER_MAP_U8, 2, 512, {64, 128}, {576}, {64, 64}, {0}, DRIVER_SWIZZLE_64}, {0, 64}},
    {{DRIVER_MAP_U32, 3, 0, {8, 9, 10}, {32, 320}, {8, 4, 5}, {0}, 0}, {0, 7, 8}},
    {{DRIVER_MAP_U16, 4, 0, {16, 5, 6, 7}, {32, 160, 960}, {8, 3, 4, 5}, {0}, 0}, {4, 1, 3, 5}},
    {{DRIVER_MAP_U16, 5, 0, {16, 5, 6, 7, 3}, {32, 160, 960, 6720}, {8, 2, 3, 4, 2}, {0}, 0}, {-4, 4, -1, 2, 1}},
    {{DRIVER_MAP_U8, 5, 0, {32, 2, 2, 2, 2}, {32, 64, 128, 256}, {32, 2, 2, 2, 2}, {0}, DRIVER_SWIZZLE_32}, {0}},
    /* every second, every third */
    {{DRIVER_MAP_U32, 2, 0, {16, 64}, {64}, {8, 20}, {5, 2}, 0}, {4, 1}},
    {{DRIVER_MAP_U32, 3, 0, {16, 30, 8}, {64, 1920}, {8, 10, 8}, {1, 3, 4}, DRIVER_SWIZZLE_32}, {4, -2, 1}},
};

START_TEST(a_box_comes_to_shared_memory_where_the_map_says) {
    const struct shot *shot = &shots[_i];
    char body[2048];
    for (uint64_t seed = 0; seed < 4; seed++) {
        prepare(seed ? adverse(1, 1, seed) : fair(1, 1));
        memcpy(memory, source, sizeof memory);
        memset(image, 0x55, sizeof image);
        swizzle_now = shot->map.swizzle;
        unsigned bytes = walk(&shot->map, shot->at, place_loaded);
        ck_assert_msg(encode(0, &shot->map, in_at) == 0, "%s", dcpkcpu_report());
        body_of(&shot->map, shot->at, bytes, false, body, sizeof body);
        ck_assert_msg(run(body, 1, 32, 0) == 0, "%s", dcpkcpu_report());
        for (unsigned i = 0; i < sizeof image; i++)
            ck_assert_msg(((unsigned char *)result)[i] == image[i], "byte %u is %02x, not %02x", i,
                          ((unsigned char *)result)[i], image[i]);
    }
}
END_TEST

START_TEST(a_box_goes_to_global_memory_where_the_map_says) {
    const struct shot *shot = &shots[_i];
    char body[2048];
    for (uint64_t seed = 0; seed < 4; seed++) {
        prepare(seed ? adverse(1, 1, seed) : fair(1, 1));
        memset(memory, 0xEE, sizeof memory);
        memcpy(image, source, sizeof image);
        swizzle_now = shot->map.swizzle;
        walk(&shot->map, shot->at, place_stored);
        ck_assert_msg(encode(0, &shot->map, out_at) == 0, "%s", dcpkcpu_report());
        body_of(&shot->map, shot->at, 0, true, body, sizeof body);
        ck_assert_msg(run(body, 1, 32, 0) == 0, "%s", dcpkcpu_report());
        ck_assert_mem_eq(result, memory, sizeof memory);
    }
}
END_TEST

/* By hand: rows of 128 bytes, so 16 bytes u of row r lie at u ^ (r % 8). */
START_TEST(a_swizzle_of_128_is_the_one_that_wgmma_reads) {
    static const struct map map = {DRIVER_MAP_U32, 2, 0, {32, 64}, {128}, {32, 16}, {0}, DRIVER_SWIZZLE_128};
    char body[2048];
    prepare(fair(1, 1));
    OK(encode(0, &map, in_at));
    static const int at[5] = {0, 8};
    OK(run(body_of(&map, at, 2048, false, body, sizeof body), 1, 32, 0));
    ck_assert_uint_eq(result[0], 0x01000000 + 8 * 32);                       /* row 0, 16 bytes 0 */
    ck_assert_uint_eq(result[32], 0x01000000 + 9 * 32 + 4);                  /* row 1, place 0: 16 bytes 1 */
    ck_assert_uint_eq(result[3 * 32 + 4 * 4], 0x01000000 + 11 * 32 + 4 * 7); /* row 3, place 4: 4 ^ 3 */
    ck_assert_uint_eq(result[15 * 32 + 31], 0x01000000 + 23 * 32 + 3);       /* row 15, place 7: 7 ^ 7, its last word */
    ck_assert_uint_eq(result[16 * 32], 0x55555555);
}
END_TEST

/* ---- the rules of maps ---- */
static const struct rule {
    struct map map;
    int result;
    const char *says;
} rules[] = {
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {576, 128}, {128, 64, 4}, {0}, DRIVER_SWIZZLE_128}, 0, NULL},
    {{DRIVER_MAP_U8, 0, 0, {128, 64, 4}, {576, 128}, {128, 64, 4}, {0}, 0}, 1, "rank 0: 1 to 5"},
    {{DRIVER_MAP_U8, 6, 0, {128, 64, 4}, {576, 128}, {128, 64, 4}, {0}, 0}, 1, "rank 6: 1 to 5"},
    {{DRIVER_MAP_U8, 3, 8, {128, 64, 4}, {576, 128}, {128, 64, 4}, {0}, 0}, 1, "is not aligned to 16 bytes"},
    {{16, 3, 0, {128, 64, 4}, {576, 128}, {128, 64, 4}, {0}, 0}, 1, "data type 16 does not exist"},
    {{11, 3, 0, {128, 64, 4}, {576, 128}, {128, 64, 4}, {0}, 0},
     801,
     "data type 11 is not supported by the CPU device"},
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {576, 128}, {128, 64, 4}, {0}, 7}, 1, "swizzle 7 does not exist"},
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {576, 128}, {128, 64, 4}, {0}, 4}, 801, "swizzle 4 is not supported"},
    {{DRIVER_MAP_U8, 3, 0, {128, 0, 4}, {576, 128}, {128, 64, 4}, {0}, 0}, 1, "globalDim[1] = 0: 1 to 2^32"},
    {{DRIVER_MAP_U8, 3, 0, {128, (1ull << 32) + 1, 4}, {576, 128}, {128, 64, 4}, {0}, 0},
     1,
     "globalDim[1] = 4294967297"},
    {{DRIVER_MAP_U8, 3, 0, {128, 1ull << 32, 4}, {576, 128}, {128, 64, 4}, {0}, 0}, 0, NULL},
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {568, 128}, {128, 64, 4}, {0}, 0},
     1,
     "globalStrides[0] = 568: a multiple of 16 bytes"},
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {576, 1ull << 40}, {128, 64, 4}, {0}, 0},
     1,
     "globalStrides[1] = 1099511627776"},
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {576, 16}, {128, 64, 4}, {0}, 0},
     0,
     NULL}, /* an outer stride smaller than the inner one */
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {576, 128}, {128, 257, 4}, {0}, 0}, 1, "boxDim[1] = 257: 1 to 256"},
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {576, 128}, {128, 64, 0}, {0}, 0}, 1, "boxDim[2] = 0"},
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {576, 128}, {120, 64, 4}, {0}, 0}, 1, "has 120 bytes: a multiple of 16"},
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {576, 128}, {144, 64, 4}, {0}, DRIVER_SWIZZLE_128},
     1,
     "has 144 bytes: at most the 128 of the swizzle"},
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {576, 128}, {128, 64, 4}, {0}, DRIVER_SWIZZLE_64},
     1,
     "has 128 bytes: at most the 64 of the swizzle"},
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {576, 128}, {48, 64, 4}, {0}, DRIVER_SWIZZLE_32},
     1,
     "has 48 bytes: at most the 32 of the swizzle"},
    {{DRIVER_MAP_U8, 3, 0, {128, 64, 4}, {576, 128}, {128, 64, 4}, {1, 9, 1}, 0}, 1, "elementStrides[1] = 9: 1 to 8"},
};

START_TEST(a_map_is_made_by_the_drivers_rules) {
    prepare(fair(1, 1));
    const struct rule *rule = &rules[_i];
    ck_assert_int_eq(encode(0, &rule->map, in_at), rule->result);
    if (rule->says) says(dcpkcpu_report(), rule->says);
}
END_TEST

START_TEST(a_map_needs_its_alignment_and_its_arguments) {
    static const unsigned long long dims[1] = {64};
    static const unsigned one[1] = {1}, box[1] = {64};
    prepare(fair(1, 1));
    char *at = (char *)&maps[0];
    void *base = (void *)(uintptr_t)in_at;
    GIVES(1, cpu_tensor_map((cu_tensor_map *)(void *)(at + 32), 0, 1, base, dims, NULL, box, one, 0, 0, 0, 0));
    says(dcpkcpu_report(), "tensorMap is not aligned to 64 bytes");
    GIVES(1, cpu_tensor_map(NULL, 0, 1, base, dims, NULL, box, one, 0, 0, 0, 0));
    GIVES(1, cpu_tensor_map(&maps[0], 0, 1, base, NULL, NULL, box, one, 0, 0, 0, 0));
    GIVES(1, cpu_tensor_map(&maps[0], 0, 2, base, dims, NULL, box, one, 0, 0, 0, 0));
    GIVES(1, cpu_tensor_map(&maps[0], 0, 1, base, dims, NULL, box, one, 3, 0, 0, 0));
    GIVES(1, cpu_tensor_map(&maps[0], 0, 1, base, dims, NULL, box, one, 1, 0, 0, 0)); /* interleaved: rank 3 and up */
    GIVES(1, cpu_tensor_map(&maps[0], 0, 1, base, dims, NULL, box, one, 0, 0, 4, 0));
    GIVES(801, cpu_tensor_map(&maps[0], 0, 1, base, dims, NULL, box, one, 0, 0, 0, 1));
    GIVES(0, cpu_tensor_map(&maps[0], 0, 1, base, dims, NULL, box, one, 0, 0, 0, 0));
    OK(cpu_tensor_map(&maps[0], 0, 1, base, dims, NULL, box, one, 0, 0, 3, 0));
    OK(cpu_tensor_map((cu_tensor_map *)(void *)((char *)maps + 64), 0, 1, base, dims, NULL, box, one, 0, 0, 0, 0));
    OK(cpu_ctx_set_current(NULL)); /* as an H200's driver: it touches no device and wants a context all the same */
    GIVES(201, cpu_tensor_map(&maps[0], 0, 1, base, dims, NULL, box, one, 0, 0, 0, 0));
}
END_TEST

/* ---- faults ---- */
#define ALONE                                                                                                          \
    "@!p exit; mbarrier.init.shared.b64 [bars], 1; mov.u64 A, map; cvta.param.u64 A, A; mov.u32 v, 0; mov.u32 w, 0; "
#define LOAD(rank, to, map, at)                                                                                        \
    "mbarrier.arrive.expect_tx.shared.b64 _, [bars], 2048; cp.async.bulk.tensor." rank                                 \
    ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [" to "], [" map ", " at "], [bars]; "
#define W WAIT("W", "bars", "0")
static const struct outcome faults[] = {
    {ALONE LOAD("2d", "tile", "A", "{v, w}") W "ld.shared.u32 u, [tile+16]; " SHOW("u"), NULL, 0x01000004},
    {ALONE "mov.u64 B, map; " LOAD("2d", "tile", "A", "{v, w}") W
     "prefetch.param.tensormap [B]; cp.async.bulk.prefetch"
     ".tensor.2d.L2.global.tile [A, {v, w}]; ld.shared.u32 u, [tile+144]; " SHOW("u"),
     NULL, 0x01000020},
    {ALONE LOAD("2d", "tile", "A", "{v, w}") "ld.shared.u32 u, [tile+16]; ", "read of shared bytes that a bulk copy",
     0},
    {ALONE LOAD("1d", "tile", "A", "{v}") W, "the tensor map has 2 dimensions, the instruction 1", 0},
    {ALONE "mov.u64 A, map2; cvta.param.u64 A, A; " LOAD("2d", "tile", "A", "{v, w}") W, "there is no tensor map at",
     0},
    {ALONE "add.u64 A, A, 16; " LOAD("2d", "tile", "A", "{v, w}") W, "is not aligned to 64 bytes", 0},
    {ALONE "add.u64 A, A, 1024; " LOAD("2d", "tile", "A", "{v, w}") W, "a tensor map at parameter address", 0},
    {ALONE LOAD("2d", "tile", "O", "{v, w}") W, "there is no tensor map at", 0},
    {ALONE "mov.u64 A, tile; cvta.shared.u64 A, A; " LOAD("2d", "tile", "A", "{v, w}") W,
     "a tensor map lies in parameters, constant or global memory", 0},
    {ALONE LOAD("2d", "tile+16", "A", "{v, w}") W, "is not aligned to 128 bytes", 0},
    {ALONE LOAD("2d", "tile+30848", "A", "{v, w}") W, "2048 bytes at shared address 0x8080: the shared memory ends", 0},
    {ALONE "mov.u32 w, 1016; " LOAD("2d", "tile", "A", "{v, w}") W, "past the end of allocation", 0},
    {ALONE "prefetch.tensormap [O];", "there is no tensor map at", 0},
    {ALONE "st.shared.b32 [tile+2032], v; cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [A, {v, w}], [tile];",
     "wrote with no fence.proxy.async since", 0},
    {ALONE "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [A, {v, w}], [tile]; st.shared.b32 [tile+2032], v;",
     "write of shared bytes that a bulk copy reads", 0},
    {ALONE "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [A, {v, w}], [tile+64];", "aligned to 128 bytes", 0},
};

/* The map: 32 words by 2000 rows, of which 1024 are there, in boxes of 16 rows. */
START_TEST(wrong_uses_are_faults_that_say_so) {
    static const struct map map = {DRIVER_MAP_U32, 2, 0, {32, 2000}, {128}, {32, 16}, {0}, DRIVER_SWIZZLE_128};
    struct outcome row = faults[_i];
    for (uint64_t seed = 0; seed < 4; seed++) {
        prepare(seed ? adverse(1, 1, seed) : fair(1, 1));
        memset(&maps[1], 0x11, sizeof maps[1]);
        OK(encode(0, &map, in_at));
        cu_result status = run(row.body, 1, 32, 0);
        ck_assert_msg((status != 0) == (row.says != NULL), "%s: %s", row.body, dcpkcpu_report());
        if (row.says)
            says(dcpkcpu_report(), row.says);
        else
            ck_assert_uint_eq(result[0], row.want);
    }
}
END_TEST

/* A map in global memory, and one in constant memory that the host has filled. */
START_TEST(a_map_may_lie_in_global_memory) {
    static const struct map map = {DRIVER_MAP_U32, 2, 0, {32, 64}, {128}, {32, 16}, {0}, 0};
    prepare(fair(1, 1));
    OK(encode(0, &map, in_at));
    cu_ptr copy = words(64, 0);
    OK(cpu_copy_to_device(copy, &maps[0], sizeof maps[0]));
    OK(run(ALONE "mov.u32 w, 2; fence.proxy.tensormap::generic.acquire.gpu [N], 128; " LOAD("2d", "tile", "N", "{v, w}")
               W "ld.shared.u32 u, [tile+4]; " SHOW("u"),
           1, 32, copy));
    ck_assert_uint_eq(result[0], 0x01000041);
}
END_TEST

static const struct outcome refusals[] = {
    {"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [A, {v}], [bars];",
     "2 coordinates are expected, not 1", 0},
    {"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [A], [bars];",
     "2 coordinates are expected, not 0", 0},
    {"cp.async.bulk.tensor.6d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [A, {v}], [bars];",
     "is not supported in this form", 0},
    {"cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [tile], [A, {v, w, x}], "
     "[bars], "
     "{h};",
     "is not supported in this form", 0},
    {"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [tile], [A, {v, w, x, "
     "y, "
     "z}], [bars];",
     "is not supported in this form", 0},
    {"cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [A, {B}], [tile];", "a 32-bit integer is expected", 0},
    {"cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [A, {v}], [tile];",
     "is not supported in this form", 0},
    {"cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [A+64, {v}], [tile];", "has no offset", 0},
    {"tensormap.replace.tile.global_address.global.b1024.b64 [A], B;", "unknown instruction", 0},
};

START_TEST(what_is_not_there_is_refused_at_load) {
    expect_refusal(refusals[_i].body, refusals[_i].says);
}
END_TEST

#define COUNT(table) ((int)(sizeof table / sizeof table[0]))
int main(void) {
    Suite *suite = suite_create("cpu_tensor");
    TCase *tcase = tcase_create("tensor");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_box_comes_to_shared_memory_where_the_map_says, 0, COUNT(shots));
    tcase_add_loop_test(tcase, a_box_goes_to_global_memory_where_the_map_says, 0, COUNT(shots));
    tcase_add_test(tcase, a_swizzle_of_128_is_the_one_that_wgmma_reads);
    tcase_add_loop_test(tcase, a_map_is_made_by_the_drivers_rules, 0, COUNT(rules));
    tcase_add_test(tcase, a_map_needs_its_alignment_and_its_arguments);
    tcase_add_loop_test(tcase, wrong_uses_are_faults_that_say_so, 0, COUNT(faults));
    tcase_add_test(tcase, a_map_may_lie_in_global_memory);
    tcase_add_loop_test(tcase, what_is_not_there_is_refused_at_load, 0, COUNT(refusals));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
