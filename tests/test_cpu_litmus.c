/* test_cpu_litmus.c - what the adversary lets threads see of each other's strong accesses to global memory: litmus
 * tests of the PTX memory model, between warps of a CTA, CTAs of a device and devices.
 *
 * What the model forbids is never seen; what it permits and this device models is seen under one of the seeds; what it
 * permits and this device does not model (loads are never late, and a device's threads agree on what one of them has
 * seen) is listed as such. A shape runs many times in one launch, on fresh words; threads meet before each by a relaxed
 * counter. */
#include "tests/cpu_world.h"

enum { THREADS = 4, TURNS = 24, SEEDS = 16, SEEDS_MOST = 200, STRIDE = 128, WORDS = TURNS * STRIDE / 4 };

enum place { WARPS = 1, CTAS = 2, DEVICES = 4, APART = CTAS | DEVICES, EVERYWHERE = 7 };
static const struct {
    enum place place;
    const char *scope, *name;
} places[] = {{WARPS, "cta", "warps of a CTA"}, {CTAS, "gpu", "CTAs of a device"}, {DEVICES, "sys", "devices"}};

/* X, Y: words, at 0 before; Z: one more beside X; u, v: what the thread has seen, 9 unless it writes them; $S: the
 * scope of the place. outcome: u and v of thread 0, of thread 1, ..., then X and Y in the end; '.': any. */
struct litmus {
    const char *name;
    const char *bodies[THREADS];
    const char *outcome;
    unsigned seen, not_modelled; /* masks of places: the outcome is permitted and seen; permitted and not modelled */
};

#define ST(at, value) "mov.u32 t, " value "; st.relaxed.$S.global.u32 [" at "], t; "
#define LD(to, at) "ld.relaxed.$S.global.u32 " to ", [" at "]; "
#define REL(at, value) "mov.u32 t, " value "; st.release.$S.global.u32 [" at "], t; "
#define ACQ(to, at) "ld.acquire.$S.global.u32 " to ", [" at "]; "
#define F "fence.acq_rel.$S; "
#define SC "fence.sc.$S; "

static const struct litmus litmuses[] = {
    /* message passing */
    {"MP", {ST("X", "1") ST("Y", "1"), LD("u", "Y") LD("v", "X")}, "..10", EVERYWHERE, 0},
    {"MP volatile",
     {"mov.u32 t, 1; st.volatile.global.u32 [X], t; st.volatile.global.u32 [Y], t;",
      "ld.volatile.global.u32 u, [Y]; ld.volatile.global.u32 v, [X];"},
     "..10",
     EVERYWHERE,
     0},
    {"MP release, acquire", {ST("X", "1") REL("Y", "1"), ACQ("u", "Y") LD("v", "X")}, "..10", 0, 0},
    {"MP fences", {ST("X", "1") F ST("Y", "1"), LD("u", "Y") F LD("v", "X")}, "..10", 0, 0},
    {"MP fence.sc", {ST("X", "1") SC ST("Y", "1"), LD("u", "Y") SC LD("v", "X")}, "..10", 0, 0},
    {"MP writer's fence alone", {ST("X", "1") F ST("Y", "1"), LD("u", "Y") LD("v", "X")}, "..10", EVERYWHERE, 0},
    {"MP reader's fence alone", {ST("X", "1") ST("Y", "1"), LD("u", "Y") F LD("v", "X")}, "..10", EVERYWHERE, 0},
    {"MP fences too narrow",
     {"mov.u32 t, 1; st.relaxed.sys.global.u32 [X], t; fence.acq_rel.cta; st.relaxed.sys.global.u32 [Y], t;",
      "ld.relaxed.sys.global.u32 u, [Y]; fence.acq_rel.cta; ld.relaxed.sys.global.u32 v, [X];"},
     "..10",
     APART,
     0},
    {"MP fences of the device",
     {"mov.u32 t, 1; st.relaxed.sys.global.u32 [X], t; fence.acq_rel.gpu; st.relaxed.sys.global.u32 [Y], t;",
      "ld.relaxed.sys.global.u32 u, [Y]; fence.acq_rel.gpu; ld.relaxed.sys.global.u32 v, [X];"},
     "..10",
     DEVICES,
     0},
    {"MP weak data",
     {"mov.u32 t, 1; st.global.u32 [X], t; " F ST("Y", "1"),
      LD("u", "Y") F "mov.u32 v, 1; setp.eq.u32 p, u, 0; @!p ld.global.u32 v, [X];"},
     "..10",
     0,
     0},
    {"MP atomics",
     {ST("X", "1") "red.release.$S.global.add.u32 [Y], 1;", "atom.acquire.$S.global.add.u32 u, [Y], 0; " LD("v", "X")},
     "..10",
     0,
     0},
    {"MP relaxed atomics",
     {ST("X", "1") "red.relaxed.$S.global.add.u32 [Y], 1;", "atom.relaxed.$S.global.add.u32 u, [Y], 0; " LD("v", "X")},
     "..10",
     EVERYWHERE,
     0},
    {"MP through a third thread's atomic",
     {ST("X", "1") REL("Y", "1"), "atom.relaxed.$S.global.add.u32 u, [Y], 1;", ACQ("u", "Y") LD("v", "X")},
     "..1.20",
     0,
     0},
    /* nothing comes between an atomic and what it has read */
    {"a store behind what a compare that failed has read",
     {"atom.relaxed.$S.global.cas.b32 u, [X], 0, 1; " ST("X", "2"), "atom.relaxed.$S.global.cas.b32 u, [X], 5, 6;"},
     "..1.1",
     0,
     0},
    {"a store behind what an exchange has read",
     {ST("X", "1") ST("X", "2"), "mov.u32 t, 3; atom.relaxed.$S.global.exch.b32 u, [X], t;"},
     "..1.3",
     0,
     0},
    {"a store and an atomic", {ST("X", "2"), "atom.relaxed.$S.global.add.u32 u, [X], 1;"}, "..0.1", 0, 0},
    /* store buffering */
    {"SB", {ST("X", "1") LD("u", "Y"), ST("Y", "1") LD("u", "X")}, "0.0.", EVERYWHERE, 0},
    {"SB release, acquire", {REL("X", "1") ACQ("u", "Y"), REL("Y", "1") ACQ("u", "X")}, "0.0.", EVERYWHERE, 0},
    {"SB fence.acq_rel", {ST("X", "1") F LD("u", "Y"), ST("Y", "1") F LD("u", "X")}, "0.0.", EVERYWHERE, 0},
    {"SB fence.sc", {ST("X", "1") SC LD("u", "Y"), ST("Y", "1") SC LD("u", "X")}, "0.0.", 0, 0},
    {"SB membar", {ST("X", "1") "membar.sys; " LD("u", "Y"), ST("Y", "1") "membar.sys; " LD("u", "X")}, "0.0.", 0, 0},
    {"SB one fence.sc", {ST("X", "1") SC LD("u", "Y"), ST("Y", "1") F LD("u", "X")}, "0.0.", EVERYWHERE, 0},
    {"SB fence.sc too narrow",
     {ST("X", "1") "fence.sc.cta; " LD("u", "Y"), ST("Y", "1") "membar.cta; " LD("u", "X")},
     "0.0.",
     APART,
     0},
    /* load buffering */
    {"LB", {LD("u", "X") ST("Y", "1"), LD("u", "Y") ST("X", "1")}, "1.1.", 0, EVERYWHERE},
    {"LB fences", {LD("u", "X") F ST("Y", "1"), LD("u", "Y") F ST("X", "1")}, "1.1.", 0, 0},
    /* independent reads of independent writes */
    {"IRIW",
     {ST("X", "1"), ST("Y", "1"), LD("u", "X") LD("v", "Y"), LD("u", "Y") LD("v", "X")},
     "....1010",
     DEVICES,
     WARPS | CTAS},
    {"IRIW acquire",
     {ST("X", "1"), ST("Y", "1"), ACQ("u", "X") ACQ("v", "Y"), ACQ("u", "Y") ACQ("v", "X")},
     "....1010",
     DEVICES,
     WARPS | CTAS},
    {"IRIW fence.acq_rel",
     {ST("X", "1"), ST("Y", "1"), LD("u", "X") F LD("v", "Y"), LD("u", "Y") F LD("v", "X")},
     "....1010",
     DEVICES,
     WARPS | CTAS},
    {"IRIW fence.sc",
     {ST("X", "1"), ST("Y", "1"), LD("u", "X") SC LD("v", "Y"), LD("u", "Y") SC LD("v", "X")},
     "....1010",
     0,
     0},
    /* causality over three threads */
    {"WRC", {ST("X", "1"), LD("u", "X") ST("Y", "1"), LD("u", "Y") LD("v", "X")}, "..1.10", DEVICES, WARPS | CTAS},
    {"WRC fences", {ST("X", "1"), LD("u", "X") F ST("Y", "1"), LD("u", "Y") F LD("v", "X")}, "..1.10", 0, 0},
    {"WRC release, acquire", {ST("X", "1"), LD("u", "X") REL("Y", "1"), ACQ("u", "Y") LD("v", "X")}, "..1.10", 0, 0},
    {"ISA2 fences",
     {ST("X", "1") F ST("Y", "1"), LD("u", "Y") F ST("Z", "1"), LD("u", "Z") F LD("v", "X")},
     "..1.10",
     0,
     0},
    {"ISA2 one fence too few",
     {ST("X", "1") F ST("Y", "1"), LD("u", "Y") ST("Z", "1"), LD("u", "Z") F LD("v", "X")},
     "..1.10",
     EVERYWHERE,
     0},
    /* stores against stores */
    {"S", {ST("X", "2") ST("Y", "1"), LD("u", "Y") ST("X", "1")}, "..1.2.", EVERYWHERE, 0},
    {"S fences", {ST("X", "2") F ST("Y", "1"), LD("u", "Y") F ST("X", "1")}, "..1.2.", 0, 0},
    {"R", {ST("X", "1") ST("Y", "1"), ST("Y", "2") LD("u", "X")}, "..0..2", EVERYWHERE, 0},
    {"R fence.acq_rel", {ST("X", "1") F ST("Y", "1"), ST("Y", "2") F LD("u", "X")}, "..0..2", EVERYWHERE, 0},
    {"R fence.sc", {ST("X", "1") SC ST("Y", "1"), ST("Y", "2") SC LD("u", "X")}, "..0..2", 0, 0},
    {"2+2W", {ST("X", "1") ST("Y", "2"), ST("Y", "1") ST("X", "2")}, "....11", EVERYWHERE, 0},
    {"2+2W fence.acq_rel", {ST("X", "1") F ST("Y", "2"), ST("Y", "1") F ST("X", "2")}, "....11", EVERYWHERE, 0},
    {"2+2W fence.sc", {ST("X", "1") SC ST("Y", "2"), ST("Y", "1") SC ST("X", "2")}, "....11", 0, 0},
    /* one word */
    {"CoRR", {ST("X", "1"), LD("u", "X") LD("v", "X")}, "..10", 0, 0},
    {"CoRR of two stores", {ST("X", "1") ST("X", "2"), LD("u", "X") LD("v", "X")}, "..21", 0, 0},
    {"CoWW", {ST("X", "1") ST("X", "2"), ""}, "....1.", 0, 0},
    {"CoWR", {ST("X", "1") LD("u", "X"), ST("X", "2")}, "0...", 0, 0},
    {"CoWR another's store goes", {ST("X", "1") LD("u", "X"), ST("X", "2")}, "2...1.", 0, 0},
    {"CoRW", {ST("X", "1"), LD("u", "X") ST("X", "2")}, "..1.1.", 0, 0},
    {"atomics lose nothing",
     {"atom.relaxed.$S.global.add.u32 u, [X], 1;", "atom.relaxed.$S.global.add.u32 u, [X], 1;"},
     "....1.",
     0,
     0},
    /* a 64-bit element is one, a vector is several */
    {"no torn element",
     {"mov.u64 T, 0x0000000100000001; st.relaxed.$S.global.u64 [X], T;",
      "ld.relaxed.$S.global.u64 T, [X]; mov.b64 {u, v}, T;"},
     "..10",
     0,
     0},
    {"torn vector",
     {"mov.u32 t, 1; st.relaxed.$S.global.v2.u32 [X], {t, t};", "ld.relaxed.$S.global.v2.u32 {u, v}, [X];"},
     "..01",
     EVERYWHERE,
     0},
};
enum { LITMUSES = sizeof litmuses / sizeof litmuses[0], PLACES = sizeof places / sizeof places[0] };

/* ---- kernels ---- */
static unsigned threads_of(const struct litmus *l) {
    unsigned n = 0;
    while (n < THREADS && l->bodies[n])
        n++;
    return n;
}

static void append(char *text, size_t capacity, const char *more, const char *scope) {
    size_t used = strlen(text);
    for (; *more; more++)
        if (more[0] == '$' && more[1] == 'S') {
            used += (size_t)snprintf(text + used, capacity - used, "%s", scope);
            more++;
        } else {
            text[used++] = *more;
            text[used] = 0;
        }
    ck_assert_uint_lt(used, capacity);
}

/* Thread n = first + block + warp runs body n; what it has seen goes to out + 128 turn + 8 n. */
static void make_text(const struct litmus *l, const char *scope, char *text, size_t capacity) {
    snprintf(text, capacity,
             PTX_HEAD ".visible .entry f(.param .u64 places, .param .u64 first, .param .u64 c, .param .u64 d) {\n"
                      ".reg .b64 X, Y, Z, G, O, P, T; .reg .b32 u, v, t, n, i; .reg .pred p;\n"
                      "mov.u32 t, %%tid.x; and.b32 u, t, 31; setp.ne.u32 p, u, 0; @p exit;\n"
                      "ld.param.u64 P, [places]; ld.param.u64 T, [first]; cvt.u32.u64 n, T;\n"
                      "shr.u32 t, t, 5; add.u32 n, n, t; mov.u32 t, %%ctaid.x; add.u32 n, n, t;\n"
                      "ld.global.v2.u64 {X, Y}, [P]; ld.global.v2.u64 {G, O}, [P+16];\n"
                      "mul.wide.u32 T, n, 8; add.u64 O, O, T; mov.u32 i, 0;\n"
                      "TURN: add.u64 Z, X, 64; mov.u32 u, 9; mov.u32 v, 9;\n"
                      "red.relaxed.sys.global.add.u32 [G], 1;\n"
                      "MEET: ld.relaxed.sys.global.u32 t, [G]; setp.lt.u32 p, t, %u; @p bra MEET;\n",
             threads_of(l));
    for (unsigned n = 0; n < threads_of(l); n++) {
        char head[80];
        snprintf(head, sizeof head, "setp.ne.u32 p, n, %u; @p bra NOT%u;\n", n, n);
        append(text, capacity, head, scope);
        append(text, capacity, l->bodies[n], scope);
        snprintf(head, sizeof head, "\nNOT%u:\n", n);
        append(text, capacity, head, scope);
    }
    append(text, capacity,
           "st.global.v2.u32 [O], {u, v}; add.u64 X, X, 128; add.u64 Y, Y, 128; add.u64 G, G, 128; add.u64 O, O, 128;\n"
           "add.u32 i, i, 1; setp.lt.u32 p, i, 24; @p bra TURN; ret; }\n",
           scope);
}

/* ---- runs ---- */
struct memory {
    cu_ptr x, y, go, out, places;
};

static struct memory make_memory(bool apart) {
    struct memory m;
    m.x = words(WORDS, 0);
    m.go = words(WORDS, 0);
    m.out = words(WORDS, 0);
    m.places = words(8, 0);
    on(apart);
    m.y = words(WORDS, 0);
    on(0);
    OK(cpu_copy_to_device(m.places, (const cu_ptr[]){m.x, m.y, m.go, m.out}, 32));
    return m;
}

static void run(const char *text, const struct litmus *l, enum place place, const struct memory *m, unsigned devices) {
    unsigned threads = threads_of(l);
    if (place != DEVICES) {
        bool warps = place == WARPS;
        launch(function_of_text(text, "f"), warps ? 1 : threads, warps ? 32 * threads : 32, NULL, false, m->places, 0,
               0, 0);
        OK(cpu_ctx_synchronize());
        return;
    }
    for (unsigned n = 0; n < threads; n++) {
        on((int)n); /* as many devices as threads */
        launch(function_of_text(text, "f"), 1, 32, NULL, false, m->places, n, 0, 0);
    }
    for (unsigned d = 0; d < devices; d++) {
        on((int)d);
        OK(cpu_ctx_synchronize());
    }
    on(0);
}

static bool matches(const struct litmus *l, const uint32_t *out, uint32_t x, uint32_t y) {
    unsigned threads = threads_of(l);
    for (unsigned i = 0; l->outcome[i]; i++) {
        uint32_t value = i < 2 * threads ? out[i] : i == 2 * threads ? x : y;
        if (l->outcome[i] != '.' && value != (uint32_t)(l->outcome[i] - '0')) return false;
    }
    return true;
}

static unsigned count(const struct litmus *l, unsigned where, uint64_t seed) {
    static uint32_t out[WORDS], x[WORDS], y[WORDS];
    char text[4096];
    enum place place = places[where].place;
    unsigned threads = threads_of(l), devices = place == DEVICES ? threads : 1, found = 0;
    machine_with(adverse((int)devices, 4, seed));
    if (devices > 1) make_peers((int)devices);
    make_text(l, places[where].scope, text, sizeof text);
    struct memory m = make_memory(devices > 1);
    run(text, l, place, &m, devices);
    OK(cpu_copy_to_host(out, m.out, sizeof out));
    OK(cpu_copy_to_host(x, m.x, sizeof x));
    OK(cpu_copy_to_host(y, m.y, sizeof y));
    for (unsigned turn = 0; turn < TURNS; turn++)
        found += matches(l, out + turn * STRIDE / 4, x[turn * STRIDE / 4], y[turn * STRIDE / 4]);
    return found;
}

START_TEST(what_is_permitted_is_seen_and_what_is_not_never) {
    const struct litmus *l = &litmuses[_i / PLACES];
    unsigned where = (unsigned)(_i % PLACES), found = 0;
    bool wanted = l->seen & places[where].place;
    for (uint64_t seed = 1; seed <= (wanted ? SEEDS_MOST : SEEDS) && !found; seed++)
        found += count(l, where, seed * 1000 + (uint64_t)_i);
    ck_assert_msg((found > 0) == wanted, "%s between %s: %s was %s", l->name, places[where].name, l->outcome,
                  found ? "seen" : "never seen");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_litmus");
    TCase *tests = tcase_create("litmus");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, what_is_permitted_is_seen_and_what_is_not_never, 0, LITMUSES * PLACES);
    return run_suite(suite);
}
