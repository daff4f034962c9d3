/* test_layer_faults.c - planted faults of mla_query and mla_decode (layer_faults.c, wide_faults.c, hopper_faults.c):
 * each edits a copy of the templates and must be found by a run of the whole layer, judged as every other
 * (tools/layer_judge.h), or by what must hold when a rank stops (dead_layer.h). The unedited templates pass the same.
 * May call: tests/whole.h, dead_layer.h, plant.h. */
#include <tests/dead_layer.h>
#include <tests/layer_faults.h>
#include <tests/whole.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 8, UNEDITED_SEEDS = 2, MAX_FAULTS = 200 };

enum outcome { RIGHT, WRONG, REFUSED };

/* Finders that take a random order, and what those that name a checker must say. */
static const struct {
    bool random, checked;
    const char *says;
} finders[] = {
    [BY_SCHEDULE] = {true, false, ""},
    [BY_EARLY] = {true, false, "before griddepcontrol.wait"},
    [BY_CHECKER] = {true, true, "uninitialised shared read"},
    [BY_DEATH_CHECKER] = {true, true, "uninitialised shared read"},
    [BY_LATER_NAN] = {false, false, NULL},
};

/* All tables, one after the other. */
static int fault_count(void) {
    return (int)(layer_fault_count + wide_fault_count + hopper_fault_count);
}

static const struct layer_fault *fault_at(int i) {
    size_t k = (size_t)i;
    if (k < layer_fault_count) return &layer_faults[k];
    k -= layer_fault_count;
    return k < wide_fault_count ? &wide_faults[k] : &hopper_faults[k - wide_fault_count];
}

/* Making a layer takes longer than running it: each is made once, before the tests' processes part. */
static struct whole *layers[MAX_FAULTS];

static void make_layers(void) {
    ck_assert_int_le(fault_count(), MAX_FAULTS);
    for (int i = 0; i < fault_count(); i++) {
        for (int k = 0; k < i && !layers[i]; k++) {
            layers[i] = strcmp(fault_at(k)->layer, fault_at(i)->layer) == 0 ? layers[k] : NULL;
        }
        if (!layers[i]) {
            layers[i] = calloc(1, sizeof *layers[i]);
            ck_assert_ptr_nonnull(layers[i]);
            whole_make(layers[i], NULL, fault_at(i)->layer);
        }
    }
}

static void free_layers(void) {
    for (int i = 0; i < fault_count(); i++) {
        struct whole *whole = layers[i];
        for (int k = i; k < fault_count(); k++) {
            layers[k] = layers[k] == whole ? NULL : layers[k];
        }
        if (whole) {
            whole_close(whole);
            free(whole);
        }
    }
}

static enum outcome outcome_of(struct whole *whole, dcpk_status status, const dcpk_error *error, char *what) {
    if (status != DCPK_OK) {
        snprintf(what, DEAD_SENTENCE, "%s: %s", dcpk_status_name(status), error->text);
        return status == DCPK_E_LINT || status == DCPK_E_TEMPLATE || status == DCPK_E_TOOLCHAIN ? REFUSED : WRONG;
    }
    snprintf(what, DEAD_SENTENCE, "%s", whole->judged.wrong ? whole->judged.first : "judged right");
    return whole->judged.wrong ? WRONG : RIGHT;
}

/* The engine fills the cache itself (form=pushed): once as it should, then with NaN bytes in the place of the second
 * token of request 0, on the rank that owns it. Row 0, the first token's, does not see it. */
static enum outcome later_nan(struct whole *whole, char *what) {
    size_t heads = (size_t)(whole->make.dcp * whole->make.heads), bytes = heads * REF_LATENT * 2;
    uint32_t nans[LAYER_TOKEN / 4];
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = whole_try(whole, &error);
    if (status != DCPK_OK || whole->judged.wrong) {
        return outcome_of(whole, status, &error, what);
    }
    enum outcome outcome = RIGHT;
    memset(nans, 0x7F, sizeof nans);
    for (int32_t r = 0; r < whole->make.dcp; r++) {
        int64_t slot = whole->layer->steps[0].rank[r].slots[1];
        uint16_t *rows = slot < 0 ? NULL : malloc(bytes);
        if (!rows) {
            continue;
        }
        memcpy(rows, layer_run_outcome(whole->run, 0, r)->rows, bytes);
        MUST(dcpk_mem_write(layer_run_group(whole->run)->rank[r].device, layer_run_slot(whole->run, r, slot), nans,
                            sizeof nans, &error));
        MUST(layer_run_steps(whole->run, 0, 1, &error));
        MUST(layer_run_read(whole->run, &error));
        const uint16_t *again = layer_run_outcome(whole->run, 0, r)->rows;
        ck_assert_msg((again[bytes / 2] & 0x7FFF) > 0x7F80, "row 1 sees NaN bytes and is %04x", again[bytes / 2]);
        outcome = memcmp(rows, again, bytes) != 0 ? WRONG : outcome;
        snprintf(what, DEAD_SENTENCE, "rank %d: row 0 begins with %04x, before the NaN with %04x", r, again[0],
                 rows[0]);
        free(rows);
    }
    return outcome;
}

/* seed: of the adversary; 0: fair. */
static enum outcome run(struct whole *whole, enum finder finder, uint64_t seed, char *what) {
    static const struct dead_stop in_query = {"mla_query", "dcpk_mla_query", 0, true, false, true};
    static const struct dead_stop in_decode = {"mla_decode", "dcpk_mla_decode", 50, true, false, false};
    char folders[128];
    enum outcome outcome;
    dcpk_error error;
    dcpk_error_init(&error);
    snprintf(folders, sizeof folders, "%s:templates/checks", plant_folder());
    dcpk_gen *gen = exchange_gen(folders);
    whole->options.gen = gen;
    whole->cpu.seed = seed;
    whole->cpu.schedule = seed ? DCPKCPU_RANDOM : DCPKCPU_FAIR;
    whole->cpu.memory_checker = finders[finder].checked ? DCPKCPU_CHECKER_ON : DCPKCPU_CHECKER_AUTO;
    if (finder == BY_DEATH || finder == BY_DEATH_CHECKER) {
        outcome = dead_layer_holds(whole, finder == BY_DEATH ? &in_query : &in_decode, what) ? RIGHT : WRONG;
    } else if (finder == BY_MISSING) {
        outcome = dead_layer_polls_every_chunk(whole, what) ? RIGHT : WRONG;
    } else if (finder == BY_LATER_NAN) {
        outcome = later_nan(whole, what);
    } else {
        dcpk_status status = whole_try(whole, &error);
        outcome = outcome_of(whole, status, &error, what);
    }
    whole_end_run(whole);
    dcpk_gen_close(gen);
    return outcome;
}

START_TEST(planted_fault_is_found) {
    const struct layer_fault *fault = fault_at(_i);
    char what[DEAD_SENTENCE] = "";
    bool random = finders[fault->finder].random;
    const char *says = finders[fault->finder].says;
    enum outcome outcome = RIGHT;
    for (size_t i = 0; i < 2 && fault->edits[i].file; i++) {
        plant(&fault->edits[i]);
    }
    for (uint64_t seed = random; outcome == RIGHT && seed <= (random ? SEEDS : 0); seed++) {
        outcome = run(layers[_i], fault->finder, seed, what);
    }
    ck_assert_msg(outcome == (fault->finder == BY_BUILD ? REFUSED : WRONG), "\"%s\" %s: %s", fault->name,
                  outcome == RIGHT ? "went unnoticed" : "was found otherwise", what);
    ck_assert_msg(!says || strstr(what, says), "\"%s\" was not found as \"%s\": %s", fault->name, says, what);
}
END_TEST

/* What the faults are told apart from: every layer of the table, with nothing edited. */
START_TEST(unedited_templates_pass_the_same_layer) {
    char what[DEAD_SENTENCE] = "";
    enum finder finder = fault_at(_i)->finder == BY_BUILD ? BY_RESULT : fault_at(_i)->finder;
    bool random = finders[finder].random;
    for (int i = 0; i < _i; i++) {
        if (layers[i] == layers[_i] && (fault_at(i)->finder == BY_BUILD ? BY_RESULT : fault_at(i)->finder) == finder) {
            return;
        }
    }
    for (uint64_t seed = random; seed <= (random ? UNEDITED_SEEDS : 0); seed++) {
        ck_assert_msg(run(layers[_i], finder, seed, what) == RIGHT, "%s: %s", fault_at(_i)->layer, what);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("layer_faults");
    TCase *tests = tcase_create("layer_faults");
    tcase_set_timeout(tests, 60);
    tcase_add_unchecked_fixture(tests, make_layers, free_layers);
    tcase_add_checked_fixture(tests, plant_folder_make, plant_folder_remove);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, planted_fault_is_found, 0, fault_count());
    tcase_add_loop_test(tests, unedited_templates_pass_the_same_layer, 0, fault_count());
    return exchange_main(suite);
}
