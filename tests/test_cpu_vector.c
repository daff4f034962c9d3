/* test_cpu_vector.c - loads and stores of every width and vector by 32 threads whose addresses lie side by side, apart,
 * in any order, on one place, or that stand aside, in global and shared memory. What is where is computed here, byte by
 * byte. */
#include "tests/cpu_snippet.h"

#include <inttypes.h>

enum { BYTES = 4096, ASIDE = -1, THREADS = 32, PARTS = 4 };

static const struct form {
    const char *type; /* of the access */
    unsigned bytes, parts;
    unsigned width; /* bits of the registers */
    bool is_signed;
} forms[] = {
    {"u8", 1, 1, 32, false},     {"s8", 1, 1, 32, true},    {"s8", 1, 1, 64, true},      {"b8", 1, 1, 16, false},
    {"v2.u8", 1, 2, 16, false},  {"v4.s8", 1, 4, 32, true}, {"u16", 2, 1, 16, false},    {"u16", 2, 1, 32, false},
    {"s16", 2, 1, 32, true},     {"u16", 2, 1, 64, false},  {"v2.b16", 2, 2, 16, false}, {"v4.u16", 2, 4, 32, false},
    {"b32", 4, 1, 32, false},    {"s32", 4, 1, 64, true},   {"v2.b32", 4, 2, 32, false}, {"v4.b32", 4, 4, 32, false},
    {"v4.u32", 4, 4, 64, false}, {"b64", 8, 1, 64, false},  {"v2.b64", 8, 2, 64, false},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

/* Where a thread's access lies, in accesses from the beginning. */
static int linear(int t) {
    return t;
}
static int shifted(int t) {
    return t + 5;
}
static int reversed(int t) {
    return 31 - t;
}
static int apart(int t) {
    return 3 * t;
}
static int mixed(int t) {
    return (t * 11 + 7) % 32;
}
static int one_aside(int t) {
    return t == 13 ? ASIDE : t;
}
static int few(int t) {
    return t % 5 == 2 ? 2 * t : ASIDE;
}
static int one(int t) {
    return t == 30 ? 9 : ASIDE;
}
static int pairs(int t) {
    return t / 2;
}
static int same(int t) {
    return 7 + 0 * t;
}
static int (*const places[])(int) = {linear, shifted, reversed, apart, mixed, one_aside, few, one, pairs, same};
enum { PLACES = sizeof places / sizeof places[0], SPREAD = 8 /* of them no two threads meet */ };

static uint8_t data[BYTES], after[BYTES];
static int32_t where[THREADS];
static uint64_t parts[THREADS][PARTS];

static void prepare(unsigned place) {
    uint64_t state = 1 + place;
    for (unsigned i = 0; i < BYTES; i++)
        data[i] = (uint8_t)next_random(&state);
    for (int t = 0; t < THREADS; t++)
        where[t] = places[place](t);
}

/* f(data, where, parts, -): the threads not aside do `access` at A with registers v0 to v3, which begin as parts and
 * end there. Shared memory is a copy of the data, and is copied back. */
static void run(const struct form *form, bool shared, bool store) {
    char text[4000], list[80] = "{v0", access[200], copy[2][400] = {"", ""};
    for (unsigned i = 1; i < form->parts; i++)
        sprintf(list + strlen(list), ", v%u", i);
    strcat(list, "}");
    const char *values = form->parts > 1 ? list : "v0", *space = shared ? "shared" : "global";
    if (store)
        sprintf(access, "st.%s.%s [A], %s;", space, form->type, values);
    else
        sprintf(access, "ld.%s.%s %s, [A];", space, form->type, values);
    for (int back = 0; shared && back < 2; back++)
        sprintf(copy[back],
                "mov.u32 n, 0; L%d: shl.b32 c, n, 7; mad.lo.u32 c, t, 4, c; cvt.u64.u32 B, c; add.u64 B, O, B; add.u32 "
                "c, c, %%s; %s add.u32 n, n, 1; setp.lt.u32 q, n, 32; @q bra L%d; bar.sync 0;\n",
                back,
                back ? "ld.shared.u32 w, [c]; st.global.u32 [B], w;" : "ld.global.u32 w, [B]; st.shared.u32 [c], w;",
                back);
    int length = snprintf(
        text, sizeof text,
        PTX_HEAD ".visible .entry f(.param .u64 a, .param .u64 b, .param .u64 c0, .param .u64 d) {\n"
                 ".reg .b64 O, W, P, A, B, V<4>; .reg .b32 t, n, c, w, base; .reg .pred p, q; .reg .b%u v<4>;\n"
                 ".shared .align 16 .b8 box[%d];\n"
                 "ld.param.u64 O, [a]; ld.param.u64 W, [b]; ld.param.u64 P, [c0]; mov.u32 t, %%tid.x; mov.u32 base, "
                 "box;\n",
        form->width, BYTES);
    for (int back = 0; back < 2; back++) {
        char *at = copy[back], *mark = strstr(at, "%s");
        if (mark) length += sprintf(text + length, "%.*sbase%s", (int)(mark - at), at, mark + 2);
        if (back) break;
        length += sprintf(text + length,
                          "mul.wide.u32 B, t, 4; add.u64 W, W, B; ld.global.u32 n, [W]; setp.ne.u32 p, n, -1;\n"
                          "mul.wide.u32 B, t, 32; add.u64 P, P, B; mul.lo.u32 n, n, %u; cvt.u64.u32 A, n;\n"
                          "%s add.u64 A, A, B;\n",
                          form->bytes * form->parts, shared ? "cvt.u64.u32 B, base;" : "mov.u64 B, O;");
        for (unsigned i = 0; i < PARTS; i++)
            length += sprintf(text + length, "ld.global.u64 V%u, [P+%u]; %s v%u, V%u;\n", i, 8 * i,
                              form->width == 64   ? "mov.u64"
                              : form->width == 32 ? "cvt.u32.u64"
                                                  : "cvt.u16.u64",
                              i, i);
        length += sprintf(text + length, "@p %s\n", access);
        for (unsigned i = 0; i < PARTS; i++)
            length += sprintf(text + length, "%s V%u, v%u; st.global.u64 [P+%u], V%u;\n",
                              form->width == 64   ? "mov.u64"
                              : form->width == 32 ? "cvt.u64.u32"
                                                  : "cvt.u64.u16",
                              i, i, 8 * i, i);
        length += sprintf(text + length, "bar.sync 0;\n");
    }
    sprintf(text + length, "ret; }\n");
    cu_ptr o, w, p;
    OK(cpu_mem_alloc(&o, sizeof data));
    OK(cpu_mem_alloc(&w, sizeof where));
    OK(cpu_mem_alloc(&p, sizeof parts));
    OK(cpu_copy_to_device(o, data, sizeof data));
    OK(cpu_copy_to_device(w, where, sizeof where));
    OK(cpu_copy_to_device(p, parts, sizeof parts));
    launch(function_of_text(text, "f"), 1, THREADS, NULL, false, o, w, p, 0);
    OK(cpu_copy_to_host(after, o, sizeof after));
    OK(cpu_copy_to_host(parts, p, sizeof parts));
    OK(cpu_mem_free(o));
    OK(cpu_mem_free(w));
    OK(cpu_mem_free(p));
}

static uint64_t low(uint64_t value, unsigned bits) {
    return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

static void check_loads(const struct form *form, bool shared) {
    uint64_t before[THREADS][PARTS], state = 99;
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < PARTS; i++)
            before[t][i] = parts[t][i] = low(next_random(&state), form->width);
    run(form, shared, false);
    for (int t = 0; t < THREADS; t++)
        for (unsigned i = 0; i < PARTS; i++) {
            uint64_t want = before[t][i];
            if (where[t] != ASIDE && i < form->parts) {
                want = 0;
                memcpy(&want, data + ((unsigned)where[t] * form->parts + i) * form->bytes, form->bytes);
                unsigned spare = 64 - 8 * form->bytes;
                if (form->is_signed) want = (uint64_t)((int64_t)(want << spare) >> spare);
                want = low(want, form->width);
            }
            ck_assert_msg(parts[t][i] == want, "ld.%s, %u bits, thread %d, part %u: %" PRIx64 ", not %" PRIx64,
                          form->type, form->width, t, i, parts[t][i], want);
        }
    ck_assert(memcmp(after, data, sizeof data) == 0);
}

static void check_stores(const struct form *form, bool shared) {
    uint8_t want[BYTES];
    uint64_t state = 77;
    memcpy(want, data, sizeof want);
    for (int t = 0; t < THREADS; t++)
        for (unsigned i = 0; i < PARTS; i++) {
            parts[t][i] = low(next_random(&state), form->width);
            if (where[t] != ASIDE && i < form->parts)
                memcpy(want + ((unsigned)where[t] * form->parts + i) * form->bytes, &parts[t][i], form->bytes);
        }
    run(form, shared, true);
    for (unsigned i = 0; i < BYTES; i++)
        ck_assert_msg(after[i] == want[i], "st.%s, %u bits, byte %u: %02x, not %02x", form->type, form->width, i,
                      after[i], want[i]);
}

/* The fair schedule in both spaces; then the adversary, who takes the paths of single threads: one order of addresses a
 * form. */
static void each_place(int form, unsigned count, void (*check)(const struct form *, bool)) {
    for (unsigned adversary = 0; adversary < 2; adversary++) {
        machine_with(adversary ? adverse(1, 1, 7) : fair(1, 1));
        for (unsigned place = 0; place < count; place++)
            for (unsigned shared = 0; shared < 2 && (!adversary || place == (unsigned)form % count); shared++) {
                prepare(place);
                check(&forms[form], shared);
            }
    }
}

START_TEST(loads_bring_each_thread_its_bytes) {
    each_place(_i, PLACES, check_loads);
}
END_TEST

START_TEST(stores_leave_each_threads_bytes_and_no_others) {
    each_place(_i, SPREAD, check_stores);
}
END_TEST

/* Of threads that store at one place one is last. */
START_TEST(of_stores_to_one_place_one_remains) {
    dcpkcpu_options options = fair(1, 1);
    options.memory_checker = DCPKCPU_CHECKER_OFF; /* such stores race */
    machine_with(options);
    for (unsigned shared = 0; shared < 2; shared++) {
        prepare(PLACES - 1);
        uint32_t found = 0;
        for (int t = 0; t < THREADS; t++)
            parts[t][0] = 1000 + (uint64_t)t;
        run(&forms[12], shared, true);
        memcpy(&found, after + 4 * 7, 4);
        ck_assert(found >= 1000 && found < 1000 + THREADS);
        memcpy(after + 4 * 7, data + 4 * 7, 4);
        ck_assert(memcmp(after, data, sizeof data) == 0);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_vector");
    TCase *tcase = tcase_create("loads and stores");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, loads_bring_each_thread_its_bytes, 0, FORMS);
    tcase_add_loop_test(tcase, stores_leave_each_threads_bytes_and_no_others, 0, FORMS);
    tcase_add_test(tcase, of_stores_to_one_place_one_remains);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
