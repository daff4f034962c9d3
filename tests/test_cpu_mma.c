/* test_cpu_mma.c - mma.sync, ldmatrix and stmatrix against FP64 products laid out as the manual's figures say. */
#include "tests/cpu_numbers.h"
#include "tests/cpu_snippet.h"

enum { LANES = 32 };
struct shape {
    const char *instruction, *type_a, *type_b;
    int k, bits;
    char result; /* f32, half, int */
};

static double number(const char *type, uint32_t bits) {
    if (!strcmp(type, "f16")) return small_value(&F16, bits & 0xFFFF);
    if (!strcmp(type, "bf16")) return small_value(&BF16, bits & 0xFFFF);
    if (!strcmp(type, "e4m3")) return small_value(&E4M3, bits & 0xFF);
    if (!strcmp(type, "e5m2")) return small_value(&E5M2, bits & 0xFF);
    if (!strcmp(type, "s8")) return (int8_t)bits;
    if (!strcmp(type, "u8")) return (uint8_t)bits;
    return (double)float_of_bits(bits & 0xFFFFE000); /* tf32 */
}

/* A random finite pattern near 1. */
static uint32_t pattern(const char *type, uint64_t r) {
    if (!strcmp(type, "f16")) return (uint32_t)((r & 0x83FF) | (12 + (r >> 20) % 6) << 10);
    if (!strcmp(type, "bf16")) return (uint32_t)((r & 0x807F) | (123 + (r >> 20) % 8) << 7);
    if (!strcmp(type, "e4m3")) return (uint32_t)((r & 0x87) | (r >> 20) % 12 << 3);
    if (!strcmp(type, "e5m2")) return (uint32_t)((r & 0x83) | (12 + (r >> 20) % 6) << 2);
    if (type[1] == '8') return (uint32_t)(r & 0xFF);
    return (uint32_t)((r & 0x807FFFFF) | (123 + (r >> 40) % 8) << 23);
}

/* Any finite number of f16; of bf16 and tf32 those whose products f32 holds, and subnormal ones. */
static uint32_t far_pattern(const char *type, uint64_t r) {
    uint32_t field = r >> 20 & 15 ? 64 + (uint32_t)(r >> 24) % 126 : 0;
    if (!strcmp(type, "f16")) return (uint32_t)((r & 0x83FF) | (r >> 20) % 31 << 10);
    if (!strcmp(type, "bf16")) return (uint32_t)(r & 0x807F) | field << 7;
    return (uint32_t)(r >> 32 & 0x807FFFFF) | field << 23;
}

/* ---- as an H200 adds f16, bf16 and tf32: every term cut below 2^-25 of the greatest exponent, the sum cut to f32 ----
 */
static int exponent_of(double v, int least) { /* of a factor; zeros have none */
    return v == 0 ? -10000 : ilogb(v) > least ? ilogb(v) : least;
}

static float added(const struct shape *s, const double *a, const double *b, double c) {
    int least = strcmp(s->type_a, "f16") ? -126 : -14, top = exponent_of(c, -126);
    for (int k = 0; k < s->k; k++) {
        int e = exponent_of(a[k], least) + exponent_of(b[k], least);
        if (e > top) top = e;
    }
    if (top < -1000) return 0;
    int64_t sum = (int64_t)ldexp(c, 25 - top); /* the conversion cuts */
    for (int k = 0; k < s->k; k++)
        sum += (int64_t)ldexp(a[k] * b[k], 25 - top);
    double whole = ldexp((double)sum, top - 25);
    float nearest = (float)whole;
    return fabs((double)nearest) > fabs(whole) ? nextafterf(nearest, 0) : nearest;
}

static uint32_t a_bits[16][32], b_bits[32][8];
static double a_value[16][32], b_value[32][8], c_value[16][8];
static uint32_t registers[LANES][12];

static const struct shape shapes[] = {{"m16n8k16.row.col.f32.bf16.bf16.f32", "bf16", "bf16", 16, 16, 'f'},
                                      {"m16n8k16.row.col.f32.f16.f16.f32", "f16", "f16", 16, 16, 'f'},
                                      {"m16n8k8.row.col.f32.bf16.bf16.f32", "bf16", "bf16", 8, 16, 'f'},
                                      {"m16n8k8.row.col.f32.f16.f16.f32", "f16", "f16", 8, 16, 'f'},
                                      {"m16n8k8.row.col.f32.tf32.tf32.f32", "tf32", "tf32", 8, 32, 'f'},
                                      {"m16n8k4.row.col.f32.tf32.tf32.f32", "tf32", "tf32", 4, 32, 'f'},
                                      {"m16n8k32.row.col.f32.e4m3.e4m3.f32", "e4m3", "e4m3", 32, 8, 'f'},
                                      {"m16n8k32.row.col.f32.e5m2.e4m3.f32", "e5m2", "e4m3", 32, 8, 'f'},
                                      {"m16n8k32.row.col.s32.s8.s8.s32", "s8", "s8", 32, 8, 'i'},
                                      {"m16n8k16.row.col.s32.u8.s8.s32", "u8", "s8", 16, 8, 'i'},
                                      {"m16n8k16.row.col.f16.f16.f16.f16", "f16", "f16", 16, 16, 'h'},
                                      {"m16n8k8.row.col.f16.f16.f16.f16", "f16", "f16", 8, 16, 'h'}};

/* Figures of the manual: element i of register r of lane. */
static void place_operands(const struct shape *s, int *na, int *nb) {
    int each = 32 / s->bits;
    *nb = s->k / (4 * each);
    *na = 2 * *nb;
    for (int lane = 0; lane < LANES; lane++) {
        int group = lane / 4, in_group = lane % 4;
        for (int r = 0; r < *na; r++) {
            int row = group + (r % 2 ? 8 : 0);
            registers[lane][r] = 0;
            for (int i = 0; i < each; i++)
                registers[lane][r] |= a_bits[row][in_group * each + i + (r / 2) * 4 * each] << i * (s->bits % 32);
        }
        for (int r = 0; r < *nb; r++) {
            registers[lane][*na + r] = 0;
            for (int i = 0; i < each; i++)
                registers[lane][*na + r] |= b_bits[in_group * each + i + r * 4 * each][group] << i * (s->bits % 32);
        }
    }
}

/* Runs the instruction: lane's registers at from + 64 lane, its 4 results to to + 16 lane. */
static void multiply(const struct shape *s, int na, int nb, uint32_t results[LANES][4]) {
    char *text = NULL, a[40] = "", b[40] = "";
    for (int i = 0; i < na; i++)
        sprintf(a + strlen(a), "%sr%d", i ? "," : "", i);
    for (int i = 0; i < nb; i++)
        sprintf(b + strlen(b), "%sr%d", i ? "," : "", na + i);
    int nc = s->result == 'h' ? 2 : 4;
    ck_assert_int_ge(
        asprintf(&text,
                 PTX_HEAD
                 ".visible .entry f(.param .u64 from, .param .u64 to, .param .u64 c, .param .u64 d) { .reg .b32 r<16>, "
                 "t, d<4>; .reg .b64 A, B, C;\n"
                 "mov.u32 t, %%tid.x; ld.param.u64 A, [from]; ld.param.u64 B, [to]; mul.wide.u32 C, t, 64; add.u64 A, "
                 "A, C; mul.wide.u32 C, t, 16; add.u64 B, B, C;\n"
                 "ld.global.v4.u32 {r0, r1, r2, r3}, [A]; ld.global.v4.u32 {r4, r5, r6, r7}, [A+16]; ld.global.v4.u32 "
                 "{r8, r9, r10, r11}, [A+32]; ld.global.v4.u32 {r12, r13, r14, r15}, [A+48];\n"
                 "mov.u32 d2, 0; mov.u32 d3, 0; mma.sync.aligned.%s {%s}, {%s}, {%s}, {%s};\nst.global.v4.u32 [B], "
                 "{d0, d1, d2, d3}; ret; }\n",
                 s->instruction, nc == 2 ? "d0,d1" : "d0,d1,d2,d3", a, b, nc == 2 ? "r12,r13" : "r12,r13,r14,r15"),
        0);
    uint32_t memory[LANES][16];
    for (int lane = 0; lane < LANES; lane++) {
        memcpy(memory[lane], registers[lane], 48);
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
            double c = c_value[row][column];
            uint32_t bits = s->result == 'f'   ? (uint32_t)bits_of_float((float)c)
                            : s->result == 'i' ? (uint32_t)(int32_t)c
                                               : small_rounded(&F16, c, c < 0, 'n');
            if (s->result != 'h')
                memory[lane][12 + i] = bits;
            else
                memory[lane][12 + i / 2] = i % 2 ? memory[lane][12 + i / 2] | bits << 16 : bits;
        }
    }
    cu_ptr from = words(512, 0), to = words(128, 0);
    OK(cpu_copy_to_device(from, memory, sizeof memory));
    launch(function_of_text(text, "f"), 1, LANES, NULL, false, from, to, 0, 0);
    OK(cpu_copy_to_host(results, to, LANES * 16));
    free(text);
}

START_TEST(mma_is_the_product_of_the_figures) {
    const struct shape *s = &shapes[_i];
    uint64_t seed = 77 + (uint64_t)_i;
    uint32_t got[LANES][4];
    int na, nb;
    machine_with(fair(1, 1));
    bool fused = s->result == 'f' && s->bits != 8;
    for (int round = 0; round < (fused ? 24 : 8); round++) {
        uint32_t (*next)(const char *, uint64_t) = round < 8 ? pattern : far_pattern;
        for (int i = 0; i < 16; i++)
            for (int k = 0; k < s->k; k++)
                a_value[i][k] = number(s->type_a, a_bits[i][k] = next(s->type_a, next_random(&seed)));
        for (int k = 0; k < s->k; k++)
            for (int n = 0; n < 8; n++)
                b_value[k][n] = number(s->type_b, b_bits[k][n] = next(s->type_b, next_random(&seed)));
        for (int i = 0; i < 16; i++)
            for (int n = 0; n < 8; n++)
                c_value[i][n] = s->result == 'i' ? (double)(int32_t)next_random(&seed) / 64
                                                 : ldexp((double)((int)(next_random(&seed) % 512) - 256) / 32,
                                                         round < 8 ? 0 : (int)(next_random(&seed) % 120) - 60);
        if (s->result == 'i')
            for (int i = 0; i < 16; i++)
                for (int n = 0; n < 8; n++)
                    c_value[i][n] = trunc(c_value[i][n]);
        place_operands(s, &na, &nb);
        multiply(s, na, nb, got);
        for (int lane = 0; lane < LANES; lane++)
            for (int i = 0; i < 4; i++) {
                int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
                wide sum = c_value[row][column];
                double magnitude = fabs(c_value[row][column]);
                for (int k = 0; k < s->k; k++) {
                    sum += (wide)a_value[row][k] * b_value[k][column];
                    magnitude += fabs(a_value[row][k] * b_value[k][column]);
                }
                if (s->result == 'i')
                    ck_assert_int_eq((int32_t)got[lane][i], (int32_t)sum);
                else if (s->result == 'h')
                    ck_assert_int_eq((int)(got[lane][i / 2] >> 16 * (i % 2) & 0xFFFF),
                                     (int)small_rounded(&F16, sum, sum < 0, 'n'));
                else if (fused) {
                    double column_of_b[32];
                    for (int k = 0; k < s->k; k++)
                        column_of_b[k] = b_value[k][column];
                    float want = added(s, a_value[row], column_of_b, c_value[row][column]);
                    ck_assert_msg(got[lane][i] == bits_of_float(want), "%s, round %d: %a, not %a", s->instruction,
                                  round, (double)float_of_bits(got[lane][i]), (double)want);
                } else /* half an ulp of f32, and what 32 additions in double may lose */
                    ck_assert_msg(fabs((double)(float_of_bits(got[lane][i]) - sum)) <=
                                      fabs((double)sum) * 0x1p-24 + magnitude * 0x1p-48,
                                  "%s: %a, not %a", s->instruction, (double)float_of_bits(got[lane][i]), (double)sum);
            }
    }
}
END_TEST

START_TEST(mma_passes_nan_and_infinity_on) {
    const struct shape *s = &shapes[0];
    uint32_t got[LANES][4];
    machine_with(fair(1, 1));
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            a_bits[i][k] = i == 3 && k == 5 ? 0x7FC0 : i == 4 && k == 0 ? 0x7F80 : 0x3F80;
    for (int k = 0; k < 16; k++)
        for (int n = 0; n < 8; n++)
            b_bits[k][n] = n == 2 && k == 0 ? 0 : 0x3F80;
    memset(c_value, 0, sizeof c_value);
    place_operands(s, &(int){0}, &(int){0});
    multiply(s, 4, 2, got);
    ck_assert(got[3 * 4][0] == 0x7FFFFFFF);     /* row 3 */
    ck_assert(got[4 * 4][0] == 0x7F800000);     /* row 4, column 0 */
    ck_assert(got[4 * 4 + 1][0] == 0x7FFFFFFF); /* column 2: infinity times zero */
    ck_assert(float_of_bits(got[0][0]) == 16 && float_of_bits(got[1][0]) == 15);
}
END_TEST

START_TEST(integer_mma_saturates_only_where_asked) {
    struct shape s = {"m16n8k32.row.col.s32.s8.s8.s32", "s8", "s8", 32, 8, 'i'};
    uint32_t got[LANES][4];
    int na, nb;
    machine_with(fair(1, 1));
    memset(a_bits, 0, sizeof a_bits);
    memset(b_bits, 0, sizeof b_bits);
    for (int k = 0; k < 32; k++)
        a_bits[0][k] = b_bits[k][0] = 127;
    c_value[0][0] = INT32_MAX;
    place_operands(&s, &na, &nb);
    multiply(&s, na, nb, got);
    ck_assert_int_eq((int32_t)got[0][0], (int32_t)(INT32_MAX + UINT32_C(32) * 127 * 127));
    s.instruction = "m16n8k32.row.col.satfinite.s32.s8.s8.s32";
    multiply(&s, na, nb, got);
    ck_assert_int_eq((int32_t)got[0][0], INT32_MAX);
}
END_TEST

/* A 16 x 16 tile of numbered halves goes to shared memory; matrices come back as the figure says. */
START_TEST(ldmatrix_and_stmatrix_place_rows_and_columns) {
    static struct snippet_in in[32];
    static struct snippet_out out[32];
    machine_with(fair(1, 1));
    for (uint32_t i = 0; i < 32; i++)
        in[i] = (struct snippet_in){i, 0, 0, 0};
#define FILL                                                                                                           \
    ".shared .align 16 .b8 tile[512]; mov.u32 f, tile; shl.b32 g, a, 4; add.u32 f, f, g; shl.b32 x, a, 3; mov.u32 c, " \
    "0; L: add.u32 b, x, c; cvt.u16.u32 hd, b; st.shared.u16 [f], hd; add.u32 f, f, 2; add.u32 c, c, 1; setp.lt.u32 "  \
    "p, c, 8; @p bra L; bar.warp.sync -1; mov.u32 f, tile; add.u32 f, f, g;\n"
    evaluate(FILL "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {d, e, b, c}, [f]; mov.b32 {hd, he}, c; mov.b32 {hf, hg}, "
                  "d; mov.b32 d, {hf, hd}; ",
             'w', in, out, 32);
    for (uint32_t lane = 0; lane < 32; lane++) /* matrix m, row r holds 64 m + 8 r + column */
        ck_assert(out[lane].d == (lane / 4 * 8 + lane % 4 * 2 + ((192 + lane / 4 * 8 + lane % 4 * 2) << 16)) &&
                  out[lane].e == ((64 + lane / 4 * 8 + lane % 4 * 2) | (65 + lane / 4 * 8 + lane % 4 * 2) << 16));
    evaluate(FILL "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {d, e}, [f];", 'w', in, out, 32);
    for (uint32_t lane = 0; lane < 32; lane++)
        ck_assert(out[lane].d == ((lane % 4 * 2 * 8 + lane / 4) | ((lane % 4 * 2 + 1) * 8 + lane / 4) << 16) &&
                  out[lane].e == out[lane].d + 64 * 0x10001);
    evaluate(FILL "mad.lo.u32 b, a, 3, 1; stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [f], {b}; bar.warp.sync -1; "
                  "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {d}, [f]; "
                  "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {e}, [f];",
             'w', in, out, 32);
    for (uint32_t lane = 0; lane < 32; lane++) {
        ck_assert(out[lane].d == 3 * lane + 1);
        /* row r, columns 2t and 2t+1 of the transpose: low halves of lanes 4c + r/2 for even rows, zero for odd */
        uint32_t row = lane / 4, column = lane % 4 * 2, low = row % 2 ? 0 : 3 * (4 * column + row / 2) + 1,
                 high = row % 2 ? 0 : 3 * (4 * (column + 1) + row / 2) + 1;
        ck_assert(out[lane].e == (low | high << 16));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_mma");
    TCase *tcase = tcase_create("mma");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, mma_is_the_product_of_the_figures, 0, (int)(sizeof shapes / sizeof shapes[0]));
    tcase_add_test(tcase, mma_passes_nan_and_infinity_on);
    tcase_add_test(tcase, integer_mma_saturates_only_where_asked);
    tcase_add_test(tcase, ldmatrix_and_stmatrix_place_rows_and_columns);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
