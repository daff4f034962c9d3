/* exchange.h - what the suites of the exchange share: a generator on this tree's templates, and cases as text.
 * Suites run from the project's folder (tests/run_all sees to it). */
#ifndef TESTS_EXCHANGE_H
#define TESTS_EXCHANGE_H

#include <tools/scenario.h>

/* The generator of a test: templates/ and tests/templates of this tree; `first` (may be NULL) is searched before them.
 */
dcpk_gen *exchange_gen(const char *first);

/* How uses are launched; see the fields of struct scenario_options. */
enum exchange_how { HOW_PHASED = 1, HOW_CHAIN = 2, HOW_SYNC_EACH = 4, HOW_PIECES = 8 };

/* One exchange. keys: as on the command line, "q=2 cap=20 split=1"; what is left out is unset. */
struct exchange_case {
    int32_t heads, dcp;
    const int32_t batches[8]; /* of the uses, up to the first 0 */
    const char *keys;
    uint32_t nasty;
    uint32_t how; /* of enum exchange_how */
};

/* Fills options (and *cpu, which it points to) from a case. schedule, seed: of the CPU device; the inputs' seed
 * follows. */
void exchange_options(struct scenario_options *options, dcpkcpu_options *cpu, dcpk_gen *gen,
                      const struct exchange_case *shape, int32_t schedule, uint64_t seed);
/* Opens it; a failure fails the test. */
struct scenario *exchange_open(const struct scenario_options *options);
/* Opens, runs, fails the test on anything wrong, closes. */
void exchange_must_be_right(dcpk_gen *gen, const struct exchange_case *shape, int32_t schedule, uint64_t seed);

/* One use of a schedule: the exchange of a shape under the adversary of that seed. The form of the kernels (split,
 * publish, checked, pitches, chained launches) goes by the seed, so that every form meets every shape and many
 * schedules. Uses reach past both parities and change batch. */
void exchange_under_schedule(dcpk_gen *gen, int32_t heads, int32_t dcp, uint64_t seed);

/* A function of cpu.h in the scenario's CPU device: EXCHANGE_CPU(scenario, stall)(1, NULL, 5). */
#define EXCHANGE_CPU(scenario, name) ((__typeof__(&dcpkcpu_##name))exchange_cpu(scenario, "dcpkcpu_" #name))
void (*exchange_cpu(struct scenario *scenario, const char *name))(void);

/* Runs one suite of one test case with a limit in seconds a test, and returns main's result. */
struct Suite;
int exchange_main(struct Suite *suite);

#define MUST(call) exchange_must((call), &error, #call, __FILE__, __LINE__)
void exchange_must(dcpk_status status, const dcpk_error *error, const char *call, const char *file, int line);

#endif
