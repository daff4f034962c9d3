/* memcheck_run.c - the planted faults of memcheck.h as one list; their text; a run on a driver. */
#include "tests/memcheck.h"

#include <dcpk/cpu.h>
#include <stdio.h>
#include <string.h>

enum { B_BYTES = 4096, BYTES_UNSAID = 256 };

const char *const memcheck_class_names[] = {
#define M(constant, title) title,
    MEMCHECK_CLASSES(M)
#undef M
};

static const struct {
    const struct memcheck_case *cases;
    const unsigned *count;
} lists[] = {{memcheck_addresses, &memcheck_address_count},
             {memcheck_values, &memcheck_value_count},
             {memcheck_races, &memcheck_race_count},
             {memcheck_meetings, &memcheck_meeting_count},
             {memcheck_samples, &memcheck_sample_count}};
enum { LISTS = sizeof lists / sizeof lists[0] };

unsigned memcheck_count(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < LISTS; i++)
        count += *lists[i].count;
    return count;
}

const struct memcheck_case *memcheck_at(unsigned i) {
    unsigned list = 0;
    while (i >= *lists[list].count)
        i -= *lists[list++].count;
    return &lists[list].cases[i];
}

/* t: the thread; A, B: the buffers; C: 4 bytes of b a thread, D: of a; s: the shared address of box, c: 4 bytes of it a
 * thread; p: thread 0. */
void memcheck_text(const struct memcheck_case *c, char text[MEMCHECK_TEXT]) {
    int length = snprintf(text, MEMCHECK_TEXT,
                          ".version 8.3\n.target sm_90\n.address_size 64\n"
                          ".visible .entry f(.param .u64 a, .param .u64 b) {\n"
                          ".reg .b32 t, l, s, c, u, v, w, x, y, z; .reg .b64 A, B, C, D, E, G; .reg .b16 h;\n"
                          ".reg .pred p, q, r; .shared .align 1024 .b8 box[1024]; .shared .align 8 .b64 bar;\n"
                          "ld.param.u64 A, [a]; ld.param.u64 B, [b]; mov.u32 t, %%tid.x; mov.u32 l, %%laneid;\n"
                          "mul.wide.u32 E, t, 4; add.u64 C, B, E; add.u64 D, A, E; mov.u32 s, box; shl.b32 c, t, 2;\n"
                          "add.u32 c, c, s; setp.eq.u32 p, t, 0;\n%s\nret;\n}\n",
                          c->body);
    if (length >= MEMCHECK_TEXT) text[0] = 0;
}

unsigned memcheck_line(const char *text, const char *at) {
    const char *found = strstr(text, at);
    unsigned line = 1;
    for (const char *p = text; found && p < found; p++)
        line += *p == '\n';
    return found ? line : 0;
}

static cu_result load(const struct dcpk_driver *d, const struct memcheck_case *c, cu_library *library, cu_function *f) {
    char text[MEMCHECK_TEXT];
    cu_kernel kernel = NULL;
    memcheck_text(c, text);
    cu_result result = CALL(d, library_load, (library, text, NULL, NULL, 0, NULL, NULL, 0));
    if (!result) result = CALL(d, library_get_kernel, (&kernel, *library, "f"));
    return result ? result : CALL(d, kernel_get_function, (f, kernel));
}

static cu_result launch(const struct dcpk_driver *d, const struct memcheck_case *c, cu_function f, cu_ptr a, cu_ptr b) {
    void *parameters[] = {&a, &b};
    cu_launch_attribute attribute = {.id = DRIVER_LAUNCH_CLUSTER};
    attribute.value.cluster.x = c->cluster;
    attribute.value.cluster.y = attribute.value.cluster.z = 1;
    cu_launch_config config = {.grid = {c->blocks ? c->blocks : 1, 1, 1},
                               .block = {c->threads ? c->threads : 32, 1, 1},
                               .attributes = &attribute,
                               .attribute_count = c->cluster != 0};
    cu_result result = CALL(d, launch, (&config, f, parameters, NULL));
    return result ? result : CALL(d, ctx_synchronize, ());
}

cu_result memcheck_run(const struct dcpk_driver *driver, const struct memcheck_case *c, cu_ptr *a,
                       int (*mark)(uint64_t, uint64_t, int)) {
    cu_library library = NULL;
    cu_function f = NULL;
    cu_ptr b = 0;
    unsigned bytes = c->bytes ? c->bytes : BYTES_UNSAID;
    unsigned zeroed = c->buffer == MEMCHECK_UNWRITTEN ? 0 : c->buffer == MEMCHECK_HALF_WRITTEN ? bytes / 2 : bytes;
    cu_result result = load(driver, c, &library, &f);
    if (!result) result = CALL(driver, mem_alloc, (a, bytes));
    if (!result) result = CALL(driver, mem_alloc, (&b, B_BYTES));
    if (!result) result = CALL(driver, fill32, (b, 0, B_BYTES / 4));
    if (!result && zeroed) result = CALL(driver, fill32, (*a, 0, zeroed / 4));
    if (!result && c->buffer == MEMCHECK_INPUT_BUFFER && mark && mark(*a, bytes, DCPKCPU_MARK_INPUT) != 0)
        result = DRIVER_MISSING;
    if (!result && c->buffer == MEMCHECK_FREED_BUFFER) result = CALL(driver, mem_free, (*a));
    if (!result) result = launch(driver, c, f, *a, b);
    if (result) return result; /* the context is gone, and all of it with it */
    if (c->buffer != MEMCHECK_FREED_BUFFER) (void)CALL(driver, mem_free, (*a));
    (void)CALL(driver, mem_free, (b));
    (void)CALL(driver, library_unload, (library));
    return DRIVER_OK;
}
