/* exchange.c - what the suites of the exchange share. May call: tools/scenario.h, include/dcpk, Check. */
#include <tests/exchange.h>
#include <tests/no_multicast.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void exchange_must(dcpk_status status, const dcpk_error *error, const char *call, const char *file, int line) {
    if (status != DCPK_OK) {
        ck_abort_msg("%s:%d: %s: %s: %s", file, line, call, dcpk_status_name(status), error->text);
    }
}

dcpk_gen *exchange_gen(const char *first) {
    char path[1024];
    const char *cache = getenv("DCPK_CACHE_DIR");
    snprintf(path, sizeof path, "%s%stemplates:tests/templates", first ? first : "", first ? ":" : "");
    dcpk_gen_options options = {
        .size = sizeof options, .template_path = path, .cache_dir = cache && *cache ? cache : ""};
    dcpk_error error;
    dcpk_gen *gen = NULL;
    dcpk_error_init(&error);
    MUST(dcpk_gen_open(&options, &gen, &error));
    return gen;
}

/* The keys of the text on a spec of no known kernel, which takes them all. */
static void read_keys(const char *text, dcpk_spec *spec) {
    char line[256];
    dcpk_error error;
    dcpk_error_init(&error);
    snprintf(line, sizeof line, "exchange %s", text ? text : "");
    MUST(dcpk_spec_parse(spec, line, &error));
}

void exchange_options(struct scenario_options *options, dcpkcpu_options *cpu, dcpk_gen *gen,
                      const struct exchange_case *shape, int32_t schedule, uint64_t seed) {
    dcpk_spec keys;
    read_keys(shape->keys, &keys);
    *cpu = (dcpkcpu_options){.size = sizeof *cpu,
                             .devices = shape->dcp,
                             .sms = 132,
                             .major = 9,
                             .multicast = 1,
                             .schedule = schedule,
                             .seed = seed,
                             .store_delay = 200,
                             .livelock_rounds = 200000};
    scenario_options_init(options, gen, shape->heads, shape->dcp);
    options->device = "cpu";
    options->cpu = cpu;
    options->batches = shape->batches;
    while (options->uses < 8 && shape->batches[options->uses] > 0) {
        options->uses++;
    }
    options->q = keys.q;
    options->cap = keys.cap;
    options->qh = keys.qh;
    options->sms = keys.sms;
    options->reserve = keys.reserve;
    options->publish = keys.publish;
    options->split = keys.split;
    options->gate = keys.gate;
    options->tiled_from = keys.tiled_from;
    options->parity = keys.parity;
    options->checked = keys.checked;
    options->watchdog = keys.watchdog;
    options->nasty = shape->nasty;
    options->seed = seed + 1;
    options->phased = (shape->how & HOW_PHASED) != 0;
    options->chain = (shape->how & HOW_CHAIN) != 0;
    options->sync_each = (shape->how & HOW_SYNC_EACH) != 0;
    options->pieces = (shape->how & HOW_PIECES) != 0;
    options->bound_ns = 2000000;
}

struct scenario *exchange_open(const struct scenario_options *options) {
    struct scenario *scenario = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    MUST(scenario_open(options, &scenario, &error));
    return scenario;
}

static void must_be_right(dcpk_gen *gen, const struct exchange_case *shape, int32_t schedule, uint64_t seed,
                          bool untracked) {
    struct scenario_options options;
    dcpkcpu_options cpu;
    dcpk_error error;
    dcpk_error_init(&error);
    exchange_options(&options, &cpu, gen, shape, schedule, seed);
    cpu.store_tracking = untracked ? DCPKCPU_TRACKING_OFF : DCPKCPU_TRACKING_AUTO;
    struct scenario *scenario = exchange_open(&options);
    dcpk_status status = scenario_run(scenario, &error);
    ck_assert_msg(status == DCPK_OK, "heads=%d dcp=%d %s, seed %llu: %s", shape->heads, shape->dcp,
                  shape->keys ? shape->keys : "", (unsigned long long)seed, error.text);
    ck_assert_msg(scenario_wrong(scenario) == 0, "heads=%d dcp=%d %s, seed %llu: %llu wrong, first: %s", shape->heads,
                  shape->dcp, shape->keys ? shape->keys : "", (unsigned long long)seed,
                  (unsigned long long)scenario_wrong(scenario), scenario_first_wrong(scenario));
    scenario_close(scenario);
}

void exchange_must_be_right(dcpk_gen *gen, const struct exchange_case *shape, int32_t schedule, uint64_t seed) {
    must_be_right(gen, shape, schedule, seed, seed % 5 != 0); /* stores are tracked in a fifth of the schedules */
}

void exchange_under_schedule(dcpk_gen *gen, int32_t heads, int32_t dcp, uint64_t seed) {
    static const struct {
        const char *keys;
        uint32_t how;
    } forms[] = {{"", 0},
                 {"split=1 checked=1", HOW_CHAIN},
                 {"publish=multicast qh=33 cap=6", HOW_CHAIN},
                 {"parity=arg checked=1", 0},
                 {"split=1 gate=0 parity=arg", HOW_PIECES}};
    /* A wide group pays for every row: it gets five rows in a tenth of its schedules. */
    static const int32_t batches[][4] = {{5, 2, 1, 5}, {2, 5, 2, 1}, {1, 2, 1}};
    size_t form = (size_t)(seed % (dcp > 4 ? 3 : 5));
    const int32_t *b = batches[dcp <= 4 ? seed / 5 % 2 : seed % 10 ? 2 : 0];
    struct exchange_case shape = {
        heads, dcp, {b[0], b[1], b[2], b[3]}, dcp > 1 ? forms[form].keys : "", NASTY_ALL, forms[form].how};
    bool untracked = seed / 10 % 8 != 0; /* every form and row count in ten of eighty schedules: it doubles the time */
    must_be_right(gen, &shape, DCPKCPU_RANDOM, seed, untracked);
}

void (*exchange_cpu(struct scenario *scenario, const char *name))(void) {
    void *symbol = scenario_cpu_symbol(scenario, name);
    void (*function)(void) = NULL;
    ck_assert_msg(symbol != NULL, "the CPU device has no %s", name);
    memcpy(&function, &symbol, sizeof function);
    return function;
}

int exchange_main(struct Suite *suite) {
    const char *device = getenv("DCPK_TEST_DEVICE");
    no_multicast_or_exit(device ? device : "cpu");
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
