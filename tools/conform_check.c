/* conform_check.c - see conform_check.h. */
#include "conform_check.h"

#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 40 }; /* forms of a module */

bool conform_outcome_bad(const struct conform_outcome *o) {
    bool exact = !(o->flags & (APPROX | TENSOR));
    if (o->run == REFUSED || o->run == BROKE || o->differing > 0 || o->recorded == RECORDED_DAMAGED) return true;
    if (o->judged && o->error.beyond > 0) return true;
    return o->run == RAN && exact && o->recorded == RECORDED_OTHER;
}

static void compare_reference(const struct conform_form *form, const struct conform_in *in, struct conform_out *out,
                              size_t count, struct conform_outcome *o) {
    struct conform_out *wanted = must(malloc(count * sizeof *wanted));
    bool *open = must(malloc(count * sizeof *open));
    o->referred = conform_expected(form, in, count, wanted, open);
    conform_settle(form, out, o->referred ? open : NULL, count);
    for (size_t i = 0; i < count && o->referred; i++) {
        if (memcmp(&out[i], &wanted[i], sizeof out[i]) == 0) continue;
        if (o->differing < CONFORM_SAMPLES)
            o->samples[o->differing] = (struct conform_sample){i, in[i], out[i], wanted[i]};
        o->differing++;
    }
    free(wanted);
    free(open);
}

/* How far what was recorded is off: results as a device would have left them. */
static void judge_recorded(const struct conform_form *form, const struct conform_in *in,
                           const struct conform_record *record, size_t count, struct conform_outcome *o) {
    struct conform_out *out = must(calloc(count, sizeof *out));
    size_t each = record->count / count;
    for (size_t i = 0; i < record->count; i++)
        out[i / each].d[i % each] = record->recorded[i];
    o->recorded_judged = conform_errors(form, in, out, count, &o->recorded_error);
    free(out);
}

static void compare(const struct conform_check *check, const struct conform_form *form, const struct conform_in *in,
                    struct conform_out *out, size_t count, struct conform_outcome *o) {
    o->count = count;
    compare_reference(form, in, out, count, o);
    if (!o->referred) o->judged = conform_errors(form, in, out, count, &o->error);
    size_t worst = o->error.worst;
    if (o->judged) o->samples[0] = (struct conform_sample){.number = worst, .input = in[worst], .got = out[worst]};
    if (check->golden == NULL && check->recording == NULL) return;
    struct conform_record record = conform_record_of(form, conform_identity(form, in, count), out, count);
    if (o->judged && record.whole) record.recorded = must(malloc(record.count * sizeof *record.recorded));
    o->recorded = conform_golden_compare(check->golden, &record, &o->difference);
    if (record.recorded != NULL && o->recorded >= RECORDED_SAME) judge_recorded(form, in, &record, count, o);
    free(record.recorded);
    if (count > 0 && record.count >= count && o->recorded == RECORDED_OTHER && o->difference.differing > 0) {
        size_t each = record.count / count, i = o->difference.input / each;
        o->changed = (struct conform_sample){.number = i, .input = in[i], .got = out[i]};
        o->changed.wanted.d[o->difference.input % each] = o->difference.recorded;
    }
    if (check->recording != NULL) conform_recording_add(check->recording, &record);
    free((void *)record.results);
}

/* One form that is loaded. False: the device is not to be used any more. */
static bool run_one(const struct conform_check *check, struct conform_device *device, const struct conform_form *form,
                    size_t which, struct conform_outcome *o) {
    dcpk_error error;
    size_t count = conform_input_count(form);
    struct conform_in *in = must(malloc(count * sizeof *in));
    struct conform_out *out = must(malloc(count * sizeof *out));
    dcpk_error_init(&error);
    conform_inputs_fill(form, in, count);
    o->run = conform_device_run(device, form, which, in, count, out, &error) == DCPK_OK ? RAN : BROKE;
    if (o->run == RAN)
        compare(check, form, in, out, count, o);
    else
        snprintf(o->why, sizeof o->why, "%.500s", error.text);
    free(in);
    free(out);
    return o->run == RAN;
}

/* Forms first to first + count - 1, one module. */
static bool run_group(const struct conform_check *check, struct conform_device *device,
                      const struct conform_form *const *forms, size_t first, size_t count,
                      struct conform_outcome *outcomes) {
    bool loaded[GROUP], good = true;
    char why[GROUP][sizeof outcomes->why];
    if (check->begins != NULL) check->begins(check->self, first);
    conform_device_load(device, &forms[first], count, loaded, why[0], sizeof why[0]);
    for (size_t i = 0; i < count && good; i++) {
        struct conform_outcome *o = &outcomes[first + i];
        if (check->begins != NULL) check->begins(check->self, first + i);
        if (loaded[i]) {
            good = run_one(check, device, forms[first + i], i, o);
        } else {
            o->run = REFUSED;
            memcpy(o->why, why[i], sizeof why[i]);
        }
        if (check->done != NULL) check->done(check->self, first + i);
    }
    conform_device_unload(device);
    return good;
}

/* Forms that one module may hold: of one target, and of hardware or not. */
static bool together(const struct conform_form *a, const struct conform_form *b) {
    return ((a->row->flags ^ b->row->flags) & (SM_90A | CPU_ONLY)) == 0;
}

dcpk_status conform_check_forms(const struct conform_check *check, const struct conform_form *const *forms,
                                size_t first, size_t count, struct conform_outcome *outcomes, dcpk_error *error) {
    struct conform_device *device = NULL;
    dcpk_status status = conform_device_open(check->device, &device, error);
    bool good = status == DCPK_OK;
    for (size_t i = first; i < count; i++)
        outcomes[i] = (struct conform_outcome){.name = forms[i]->name, .flags = forms[i]->row->flags};
    for (size_t i = first, n; i < count && good; i += n) {
        for (n = 1; i + n < count && n < GROUP && together(forms[i], forms[i + n]); n++) {
        }
        bool forbidden = check->hardware && forms[i]->row->flags & CPU_ONLY;
        for (size_t k = i; k < i + n && forbidden && check->done != NULL; k++)
            check->done(check->self, k);
        if (!forbidden) good = run_group(check, device, forms, i, n, outcomes);
    }
    conform_device_close(device);
    return status;
}
