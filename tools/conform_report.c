/* conform_report.c - see conform_report.h. */
#include "conform_report.h"

#include "table.h"

#include <string.h>

static bool approximate(const struct conform_outcome *o) {
    return o->flags & (APPROX | TENSOR);
}

static const char *unit_of(char measure) {
    return measure == 'u' ? "ulp" : measure == 'r' ? "relative" : measure == 'p' ? "of sum |a b|" : "absolute";
}

/* ---- a line a snippet ---- */
static void print_values(const char *what, const uint64_t *values, size_t count, FILE *to) {
    while (count > 1 && values[count - 1] == 0)
        count--;
    fprintf(to, "%s", what);
    for (size_t i = 0; i < count; i++)
        fprintf(to, " %llx", (unsigned long long)values[i]);
}

static void print_sample(const struct conform_sample *sample, const char *wanted, FILE *to) {
    const uint64_t values[4] = {sample->input.a, sample->input.b, sample->input.c, sample->input.x};
    fprintf(to, "    input %zu: ", sample->number);
    print_values("a b c x =", values, 4, to);
    print_values(": left", sample->got.d, 4, to);
    if (wanted != NULL) print_values(wanted, sample->wanted.d, 4, to);
    fprintf(to, "\n");
}

static void print_recorded(const struct conform_outcome *o, FILE *to) {
    const struct conform_difference *d = &o->difference;
    char distance[64] = "";
    if (d->ulps > 0) snprintf(distance, sizeof distance, ", by %.0f ulp at most", d->ulps);
    fprintf(to, "  %s: ", o->name);
    if (d->differing == 0) {
        fprintf(to, "several results are not the recorded ones\n");
        return;
    }
    fprintf(to, "%zu results are not the recorded ones%s\n", d->differing, distance);
    print_sample(&o->changed, approximate(o) ? ", recorded" : NULL, to);
}

static void print_one(const struct conform_outcome *o, size_t shown, FILE *to) {
    static const char *const recorded[] = {"no recorded data", "recorded for another text or other inputs",
                                           "recorded, but damaged", "as recorded", "not as recorded"};
    switch (o->run) {
    case NOT_RUN:
        fprintf(to, "  %s: not run\n", o->name);
        return;
    case REFUSED:
    case BROKE:
        fprintf(to, "  %s: %s: %s\n", o->name, o->run == REFUSED ? "refused" : "failed", o->why);
        return;
    default:
        break;
    }
    if (o->differing > 0) {
        fprintf(to, "  %s: %zu of %zu results are not the reference's\n", o->name, o->differing, o->count);
        for (size_t i = 0; i < o->differing && i < shown; i++)
            print_sample(&o->samples[i], ", must be", to);
    } else if (o->judged && o->error.beyond > 0) {
        fprintf(to, "  %s: %zu of %zu results are beyond %g %s, by %g at most\n", o->name, o->error.beyond,
                o->error.judged, o->error.bound->bound, unit_of(o->error.bound->measure), o->error.largest);
        print_sample(&o->samples[0], NULL, to);
    } else if (!conform_outcome_bad(o)) {
        fprintf(to, "  %s: %s, %s\n", o->name, o->referred ? "as the reference" : "within its bound",
                recorded[o->recorded]);
    }
    if (o->recorded == RECORDED_OTHER) print_recorded(o, to);
    if (o->recorded == RECORDED_DAMAGED) fprintf(to, "  %s: its recorded data is damaged\n", o->name);
}

/* ---- families of approximations ---- */
/* The largest error of the outcomes that have one bound. */
static void add_family(struct table *table, const struct conform_report *report, const struct conform_bound *bound) {
    size_t snippets = 0, judged = 0, exact = 0;
    const struct conform_outcome *worst = NULL, *recorded = NULL;
    char text[64];
    for (size_t i = 0; i < report->count; i++) {
        const struct conform_outcome *o = &report->outcomes[i];
        if (!o->judged || o->error.bound != bound) continue;
        snippets++;
        judged += o->error.judged;
        exact += o->error.exact;
        if (worst == NULL || o->error.at_bound > worst->error.at_bound) worst = o;
        if (o->recorded_judged && (recorded == NULL || o->recorded_error.at_bound > recorded->recorded_error.at_bound))
            recorded = o;
    }
    if (worst == NULL) return;
    snprintf(text, sizeof text, "%s*%s", bound->prefix, bound->suffix);
    table_text(table, text);
    table_integer(table, (int64_t)snippets);
    table_integer(table, (int64_t)judged);
    table_number(table, "%.1f %%", judged > 0 ? 100.0 * (double)exact / (double)judged : 0);
    table_number(table, "%.3g", worst->error.largest);
    if (recorded != NULL)
        table_number(table, "%.3g", recorded->recorded_error.largest);
    else
        table_none(table);
    table_number(table, "%.3g", bound->bound);
    table_text(table, unit_of(bound->measure));
    table_text(table, bound->section);
}

static void print_families(const struct conform_report *report, FILE *to) {
    static const struct column columns[] = {
        {"family", "family"},         {"snippets", "snippets"}, {"results", "results"},
        {"rounded", "rounded right"}, {"error", "error"},       {"recorded", "recorded"},
        {"allowed", "allowed"},       {"unit", "unit"},         {"manual", "PTX ISA"}};
    struct table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    bool any = false;
    for (size_t i = 0; i < report->count; i++) {
        const struct conform_outcome *o = &report->outcomes[i];
        bool first = o->judged;
        for (size_t k = 0; k < i && first; k++)
            first = !report->outcomes[k].judged || report->outcomes[k].error.bound != o->error.bound;
        if (!first) continue;
        add_family(table, report, o->error.bound);
        any = true;
    }
    if (any) {
        fprintf(to, "largest errors of what is approximate:\n");
        table_print(table, to);
    }
    table_free(table);
}

/* ---- counts ---- */
struct counts {
    size_t run, exact, exact_right, approximate, within, refused, broke, left;
    size_t recorded[CONFORM_RECORDED], recorded_exact, recorded_exact_same;
};

static struct counts count_all(const struct conform_report *report) {
    struct counts n = {0};
    for (size_t i = 0; i < report->count; i++) {
        const struct conform_outcome *o = &report->outcomes[i];
        n.refused += o->run == REFUSED;
        n.broke += o->run == BROKE;
        n.left += o->run == NOT_RUN;
        if (o->run != RAN) continue;
        n.run++;
        n.recorded[o->recorded]++;
        if (approximate(o)) {
            n.approximate++;
            n.within += o->judged && o->error.beyond == 0;
        } else {
            n.exact++;
            n.exact_right += o->differing == 0;
            n.recorded_exact += o->recorded >= RECORDED_SAME;
            n.recorded_exact_same += o->recorded == RECORDED_SAME;
        }
    }
    return n;
}

static void print_recorded_counts(const struct conform_report *report, const struct counts *n, FILE *to) {
    if (report->golden == NULL) {
        fprintf(to,
                "recorded: no recorded data for any snippet (on an H200: dcpk check device --device cuda:0 --record "
                "conformance_h200.txt)\n");
        return;
    }
    fprintf(to, "recorded: %s: %s\n", report->path, conform_golden_device(report->golden));
    fprintf(
        to,
        "  %zu of %zu snippets are as recorded to the last bit; of the %zu that the manual defines to the bit, %zu\n",
        n->recorded[RECORDED_SAME], n->recorded[RECORDED_SAME] + n->recorded[RECORDED_OTHER], n->recorded_exact,
        n->recorded_exact_same);
    if (n->recorded[NOT_RECORDED] > 0) fprintf(to, "  %zu snippets have no recorded data\n", n->recorded[NOT_RECORDED]);
    if (n->recorded[OF_ANOTHER_TEXT] > 0)
        fprintf(to, "  %zu snippets were recorded for another text or other inputs: no data for them\n",
                n->recorded[OF_ANOTHER_TEXT]);
}

bool conform_report_print(const struct conform_report *report, FILE *to) {
    struct counts n = count_all(report);
    bool good = true;
    for (size_t i = 0; i < report->count; i++) {
        bool bad = conform_outcome_bad(&report->outcomes[i]);
        if (bad || report->verbose)
            print_one(&report->outcomes[i], report->verbose ? CONFORM_SAMPLES : CONFORM_SHOWN, to);
        good = good && !bad;
    }
    fprintf(to, "device: %s\n%zu snippets, %zu run", report->device, report->count, n.run);
    if (n.refused > 0) fprintf(to, ", %zu refused", n.refused);
    if (n.broke > 0) fprintf(to, ", %zu failed", n.broke);
    if (n.left > 0) fprintf(to, ", %zu not run", n.left);
    fprintf(to, "\n  defined to the bit: %zu of %zu are bit-exact with the reference\n", n.exact_right, n.exact);
    fprintf(to, "  approximations and sums of products: %zu of %zu keep their bound\n", n.within, n.approximate);
    print_families(report, to);
    print_recorded_counts(report, &n, to);
    return good;
}
