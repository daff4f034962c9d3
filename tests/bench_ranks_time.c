/* bench_ranks_time.c - see bench_ranks.h: sessions, memory, and time over all ranks at once.
 * May call: include/dcpk, tools/rank_group.h, the driver's graph and event functions by name. */
#include <tests/bench_ranks.h>

#include <stdlib.h>
#include <string.h>

enum { RELAXED = 2, MOST_AHEAD = 256 };

void bench_fail(const char *what, const char *why) {
    fflush(stdout);
    fprintf(stderr, "bench_ranks: %s: %s\n", what, why);
    exit(1);
}

void *bench_room(size_t count, size_t size) {
    void *room = calloc(count, size);
    if (!room) bench_fail("memory", "the host has none left");
    return room;
}

void bench_must(dcpk_status status, const dcpk_error *error, const char *what) {
    if (status != DCPK_OK) bench_fail(what, error->text);
}

void bench_figure(struct bench *b, const char *kind, const char *what, double value, const char *unit) {
    if (b->csv && !b->on_cpu) fprintf(b->csv, "%s,%d,\"%s\",%.5g,%s\n", kind, b->group.dcp, what, value, unit);
}

static void called(int code, const char *what) {
    char why[32];
    snprintf(why, sizeof why, "driver error %d", code);
    if (code != 0) bench_fail(what, why);
}

/* ---- sessions ------------------------------------------------------------------------------------ */

static void find_clock(struct bench *b) {
    static const char *const names[] = {"cuStreamGetCtx",          "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",
                                        "cuStreamBeginCapture_v2", "cuStreamEndCapture",  "cuGraphInstantiateWithFlags",
                                        "cuGraphLaunch",           "cuGraphExecDestroy",  "cuGraphDestroy",
                                        "cuEventCreate",           "cuEventDestroy_v2",   "cuEventRecord",
                                        "cuEventElapsedTime"};
    void *found[sizeof names / sizeof *names];
    _Static_assert(sizeof b->clock == sizeof found, "one function a name");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        found[i] = dcpk_device_symbol(b->group.rank[0].device, names[i]);
        if (!found[i]) bench_fail(names[i], "the driver has none");
    }
    memcpy(&b->clock, found, sizeof b->clock);
}

/* Calls about a stream want its context to be current. */
static void enter(const struct bench *b, int32_t r) {
    void *context = NULL;
    called(b->clock.stream_context(b->group.rank[r].stream, &context), "cuStreamGetCtx");
    called(b->clock.push(context), "cuCtxPushCurrent");
}

static void leave(const struct bench *b) {
    void *context;
    b->clock.pop(&context);
}

void bench_open(struct bench *b, int32_t ranks, int32_t heads) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct rank_group_options options = {.device = b->device, .cpu = &b->cpu, .dcp = ranks, .pdl = 1, .multicast = 0};
    dcpk_box_shape shape = {.size = sizeof shape,
                            .dcp = ranks,
                            .heads = heads,
                            .cap = 64,
                            .publish = DCPK_PUBLISH_PEER,
                            .bound_ns = b->on_cpu ? 100000000 : 2000000000};
    b->cpu.devices = ranks;
    b->heads = heads;
    bench_must(rank_group_open(&options, &b->group, &error), &error, "devices");
    find_clock(b);
    if (ranks > 1) bench_must(rank_group_connect(&b->group, &shape, &error), &error, "boxes");
    for (int32_t r = 0; r < ranks; r++) {
        enter(b, r);
        called(b->clock.event_create(&b->from[r], 0), "cuEventCreate");
        called(b->clock.event_create(&b->to[r], 0), "cuEventCreate");
        leave(b);
    }
}

void bench_close(struct bench *b) {
    for (int32_t r = 0; r < b->group.dcp; r++) {
        enter(b, r);
        b->clock.event_destroy(b->from[r]);
        b->clock.event_destroy(b->to[r]);
        leave(b);
    }
    rank_group_close(&b->group);
}

dcpk_kernel *bench_kernel(struct bench *b, int32_t r, const char *text) {
    dcpk_error error;
    dcpk_spec spec;
    dcpk_image *image = NULL;
    dcpk_kernel *kernel = NULL;
    dcpk_error_init(&error);
    bench_must(dcpk_spec_parse(&spec, text, &error), &error, text);
    bench_must(dcpk_spec_resolve(&spec, &error), &error, text);
    bench_must(dcpk_gen_build(b->gen, &spec, &image, NULL, &error), &error, text);
    if (b->group.dcp > 0)
        bench_must(dcpk_kernel_load(b->group.rank[r].device, image, b->group.rank[r].stream, &kernel, &error), &error,
                   text);
    dcpk_image_free(image);
    return kernel;
}

uint64_t bench_memory(struct bench *b, int32_t r, uint64_t bytes, uint32_t word) {
    uint64_t address = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    bytes = (bytes + 255) / 256 * 256;
    bench_must(dcpk_mem_alloc(b->group.rank[r].device, bytes, &address, &error), &error, "memory");
    bench_must(dcpk_mem_fill32(b->group.rank[r].device, address, word, bytes / 4, &error), &error, "memory");
    return address;
}

void bench_free(struct bench *b, int32_t r, uint64_t address) {
    if (address) dcpk_mem_free(b->group.rank[r].device, address, NULL);
}

/* ---- time ---------------------------------------------------------------------------------------- */

struct graphs {
    void *exec[GROUP_MAX_RANKS]; /* NULL: the rank takes no part */
};

/* A capture that was begun is ended: a failure ends the program. */
static void capture(struct bench *b, int32_t only, bench_launch *launch, void *self, int calls, struct graphs *graphs) {
    memset(graphs, 0, sizeof *graphs);
    for (int32_t r = 0; r < b->group.dcp; r++) {
        void *graph = NULL;
        if (only != BENCH_ALL && only != r) continue;
        enter(b, r);
        called(b->clock.begin(b->group.rank[r].stream, RELAXED), "cuStreamBeginCapture");
        for (int i = 0; i < calls; i++)
            launch(self, r, i);
        called(b->clock.end(b->group.rank[r].stream, &graph), "cuStreamEndCapture");
        called(b->clock.instantiate(&graphs->exec[r], graph, 0), "cuGraphInstantiate");
        b->clock.graph_destroy(graph);
        leave(b);
    }
}

static void destroy(struct bench *b, struct graphs *graphs) {
    for (int32_t r = 0; r < b->group.dcp; r++) {
        if (!graphs->exec[r]) continue;
        enter(b, r);
        b->clock.exec_destroy(graphs->exec[r]);
        leave(b);
    }
}

static void launch_all(struct bench *b, const struct graphs *graphs) {
    for (int32_t r = 0; r < b->group.dcp; r++) {
        if (!graphs->exec[r]) continue;
        enter(b, r);
        called(b->clock.launch(graphs->exec[r], b->group.rank[r].stream), "cuGraphLaunch");
        leave(b);
    }
}

static void record_all(struct bench *b, const struct graphs *graphs, void *const *events) {
    for (int32_t r = 0; r < b->group.dcp; r++) {
        if (!graphs->exec[r]) continue;
        enter(b, r);
        called(b->clock.event_record(events[r], b->group.rank[r].stream), "cuEventRecord");
        leave(b);
    }
}

static void sync_all(struct bench *b) {
    dcpk_error error;
    dcpk_error_init(&error);
    bench_must(rank_group_sync(&b->group, &error), &error, "waiting");
    for (int32_t r = 0; r < b->group.dcp; r++) {
        dcpk_box_state state = {.size = sizeof state};
        if (b->group.rank[r].box && dcpk_box_status(b->group.rank[r].box, &state, NULL) == DCPK_OK && state.dead)
            bench_fail("a box is dead", state.text);
    }
}

/* One measure, behind one launch that is not measured: milliseconds of each rank. The slowest is returned. */
static double measure(struct bench *b, const struct graphs *graphs, int launches, double *each) {
    double most = 0;
    launch_all(b, graphs);
    record_all(b, graphs, b->from);
    for (int i = 0; i < launches; i++)
        launch_all(b, graphs);
    record_all(b, graphs, b->to);
    sync_all(b);
    for (int32_t r = 0; r < b->group.dcp; r++) {
        float ms = 0;
        if (!graphs->exec[r]) continue;
        enter(b, r);
        if (!b->on_cpu) called(b->clock.event_time(&ms, b->from[r], b->to[r]), "cuEventElapsedTime");
        leave(b);
        each[r] = (double)ms;
        most = each[r] > most ? each[r] : most;
    }
    return most;
}

struct measured {
    double most, each[GROUP_MAX_RANKS];
};

static int ascending(const void *a, const void *b) {
    double x = ((const struct measured *)a)->most, y = ((const struct measured *)b)->most;
    return (x > y) - (x < y);
}

double bench_time(struct bench *b, int32_t only, bench_launch *launch, void *self, int calls, double *each) {
    struct graphs graphs;
    struct measured all[BENCH_MEASURES] = {0};
    capture(b, only, launch, self, calls, &graphs);
    double once = measure(b, &graphs, 1, all[0].each);
    int most = MOST_AHEAD / calls > 2 ? MOST_AHEAD / calls - 1 : 1;
    int launches = once > 0.01 ? (int)(5 / once) + 1 : most;
    launches = launches > most ? most : launches;
    for (int i = 0; i < BENCH_MEASURES && !b->on_cpu; i++)
        all[i].most = measure(b, &graphs, launches, all[i].each);
    destroy(b, &graphs);
    qsort(all, BENCH_MEASURES, sizeof *all, ascending);
    const struct measured *median = &all[BENCH_MEASURES / 2];
    for (int32_t r = 0; each && r < b->group.dcp; r++)
        each[r] = 1e3 * median->each[r] / launches / calls;
    return 1e3 * median->most / launches / calls;
}

void bench_replay(struct bench *b, bench_launch *launch, void *self, int calls, int times) {
    struct graphs graphs;
    capture(b, BENCH_ALL, launch, self, calls, &graphs);
    for (int i = 0; i < times; i++)
        launch_all(b, &graphs);
    sync_all(b);
    destroy(b, &graphs);
}
