/* spec_rules.c - owns what a spec must keep: defaults, domains and the rules between keys that need no template.
 * Every refusal states its rule. Pure: no state, no allocation. */
#include "runtime/error.h"
#include "runtime/keys.h"

#include <stdio.h>
#include <string.h>

enum { BOX_NEVER = 0, BOX_WITH_DCP = 1, BOX_ALWAYS = 2, MAX_ROWS = 1024, ROW_TILE = 16 };

struct kernel_box {
    const char *name;
    int box;
};

static const struct kernel_box kernel_boxes[] = {
#define K(name, number, box, summary) {#name, box},
#include <dcpk/kernels.def>
#undef K
};

static int box_of(const char *kernel) {
    for (size_t i = 0; i < sizeof kernel_boxes / sizeof kernel_boxes[0]; i++)
        if (strcmp(kernel_boxes[i].name, kernel) == 0) return kernel_boxes[i].box;
    return BOX_NEVER;
}

dcpk_status dcpk_kernel_name_check(const char *name, dcpk_error *error) {
    size_t length = strlen(name);
    if (length == 0)
        return dcpk_error_set(error, DCPK_E_SPEC, "a spec begins with a kernel's name of at most 31 letters [a-z0-9_]");
    if (length >= sizeof((dcpk_spec *)0)->kernel || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != length)
        return dcpk_error_set(error, DCPK_E_SPEC,
                              "'%.80s' is not a kernel's name: at most 31 letters [a-z0-9_], before any key=value",
                              name);
    return DCPK_OK;
}

dcpk_status dcpk_arch_check(const char *kernel, const char *arch, dcpk_error *error) {
    if (dcpk_arch_find(arch, NULL)) return DCPK_OK;
    dcpk_arch_info row = {.size = sizeof row};
    dcpk_error_set(error, DCPK_E_ARCH, "%s: there is no architecture '%.40s'; supported:", kernel, arch);
    for (uint32_t i = 0; dcpk_arch_at(i, &row); i++)
        dcpk_error_append(error, " %s", row.name);
    return DCPK_E_ARCH;
}

dcpk_status dcpk_key_refuse(const dcpk_spec *spec, const struct dcpk_key_row *row, dcpk_error *error) {
    char list[512];
    dcpk_error_set(error, DCPK_E_SPEC, "%s takes no key %s (it belongs to", spec->kernel, row->name);
    for (size_t i = 0; i < sizeof kernel_boxes / sizeof kernel_boxes[0]; i++)
        if (dcpk_key_taken(kernel_boxes[i].name, row)) dcpk_error_append(error, " %s", kernel_boxes[i].name);
    dcpk_key_list(spec->kernel, list, sizeof list);
    dcpk_error_append(error, "); keys: %s", list);
    return DCPK_E_SPEC;
}

/* Values that keys.def's low..high cannot say. */
static dcpk_status check_gaps(const dcpk_spec *s, dcpk_error *error) {
    if (s->page != DCPK_UNSET && s->page != 16 && s->page != 32 && s->page != 64)
        return dcpk_error_set(error, DCPK_E_SPEC, "%s: page=%d is not 16, 32 or 64", s->kernel, s->page);
    if (s->q_lora != DCPK_UNSET && s->q_lora != 0 && s->q_lora != 1536)
        return dcpk_error_set(error, DCPK_E_SPEC, "%s: q_lora=%d is neither 1536 nor 0 (qf comes in ready)", s->kernel,
                              s->q_lora);
    return DCPK_OK;
}

static dcpk_status check_domains(const dcpk_spec *s, dcpk_error *error) {
    char number[DCPK_KEY_TEXT];
    for (size_t i = 0; i < dcpk_key_row_count; i++) {
        const struct dcpk_key_row *row = &dcpk_key_rows[i];
        int32_t value = dcpk_key_get(s, row);
        if (value == DCPK_UNSET) continue;
        if (!dcpk_key_taken(s->kernel, row)) return dcpk_key_refuse(s, row, error);
        if (!dcpk_key_allows(row, value)) {
            const char *text;
            int length = (int)dcpk_key_text(row, value, number, &text);
            return dcpk_error_set(error, DCPK_E_SPEC, "%s: %s=%.*s is not allowed; %s is %s: %s", s->kernel, row->name,
                                  length, text, row->name, row->values, row->doc);
        }
    }
    return check_gaps(s, error);
}

/* Table defaults; DERIVED ones wait for derive(). */
static dcpk_status fill_defaults(dcpk_spec *s, dcpk_error *error) {
    for (size_t i = 0; i < dcpk_key_row_count; i++) {
        const struct dcpk_key_row *row = &dcpk_key_rows[i];
        if (!dcpk_key_taken(s->kernel, row) || dcpk_key_get(s, row) != DCPK_UNSET) continue;
        if (row->dflt == DCPK_KEY_REQUIRED)
            return dcpk_error_set(error, DCPK_E_SPEC, "%s: %s is required (%s: %s)", s->kernel, row->name, row->values,
                                  row->doc);
        if (row->dflt != DCPK_KEY_DERIVED) dcpk_key_put(s, row, row->dflt);
    }
    return DCPK_OK;
}

static int32_t tiles(const dcpk_spec *s) {
    return s->heads * ((s->batch + ROW_TILE - 1) / ROW_TILE);
}

/* One CTA of such a grid fills a multiprocessor, so it is resident as a whole when it has no more CTAs than those. */
static int32_t resident(const dcpk_spec *s) {
    return tiles(s) <= s->sms - s->reserve;
}

/* takes: whether the kernel takes the key; unset keys that it does not take stay unset. */
static void derive(dcpk_spec *s, int32_t dcp) {
    if (dcp > 1 && dcpk_spec_takes(s->kernel, "cap") && s->cap == DCPK_UNSET) s->cap = s->batch > 64 ? s->batch : 64;
    if (dcp > 1 && dcpk_spec_takes(s->kernel, "qh") && s->qh == DCPK_UNSET) s->qh = dcp * s->heads;
    if (dcpk_spec_takes(s->kernel, "split") && s->split == DCPK_UNSET) s->split = dcp > 1 && !resident(s);
    if (dcpk_spec_takes(s->kernel, "pv") && s->pv == DCPK_UNSET)
        s->pv = strcmp(s->arch, "sm_90a") == 0 ? DCPK_PV_FP8 : DCPK_PV_F16;
    if (dcpk_spec_takes(s->kernel, "poll") && s->poll == DCPK_UNSET) s->poll = dcp > 1 && resident(s);
}

static dcpk_status check_shape(const dcpk_spec *s, dcpk_error *error) {
    const char *k = s->kernel;
    int takes_q = dcpk_spec_takes(k, "q"), boxed = dcpk_spec_takes(k, "cap") && s->dcp > 1;
    if (takes_q && s->batch % s->q != 0)
        return dcpk_error_set(error, DCPK_E_SPEC, "%s: q must divide batch (a request has q rows); q=%d, batch=%d", k,
                              s->q, s->batch);
    if (takes_q && s->dcp * s->heads * s->q > MAX_ROWS)
        return dcpk_error_set(error, DCPK_E_SPEC, "%s: dcp * heads * q must be at most %d; %d * %d * %d = %d", k,
                              MAX_ROWS, s->dcp, s->heads, s->q, s->dcp * s->heads * s->q);
    if (boxed && s->cap < s->batch)
        return dcpk_error_set(error, DCPK_E_SPEC,
                              "%s: cap must be at least batch (a mailbox holds a launch's rows); "
                              "cap=%d, batch=%d",
                              k, s->cap, s->batch);
    if (boxed && s->qh < s->dcp * s->heads)
        return dcpk_error_set(error, DCPK_E_SPEC, "%s: qh must be at least dcp * heads = %d; qh=%d", k,
                              s->dcp * s->heads, s->qh);
    if (s->reserve >= s->sms)
        return dcpk_error_set(error, DCPK_E_SPEC, "%s: reserve must be less than sms; reserve=%d, sms=%d", k,
                              s->reserve, s->sms);
    if (dcpk_spec_takes(k, "page") && s->page % s->interleave != 0)
        return dcpk_error_set(error, DCPK_E_SPEC, "%s: interleave must divide page; interleave=%d, page=%d", k,
                              s->interleave, s->page);
    if (dcpk_kernel_id_of(k) == DCPK_KERNEL_mla_decode && s->pv == DCPK_PV_FP8 && strcmp(s->arch, "sm_90a") != 0)
        return dcpk_error_set(error, DCPK_E_SPEC,
                              "%s: pv=fp8 multiplies by wgmma, which arch=sm_90a alone has; arch=%s: use pv=f16", k,
                              s->arch);
    return DCPK_OK;
}

/* A rank alone has no mailboxes: what needs them is refused rather than ignored. */
static dcpk_status check_alone(const dcpk_spec *s, dcpk_error *error) {
    const struct {
        const char *text;
        int asked;
    } forms[] = {{"poll=1", s->poll == 1},
                 {"split=1", s->split == 1},
                 {"checked=1", s->checked == 1},
                 {"cap", s->cap != DCPK_UNSET},
                 {"qh", s->qh != DCPK_UNSET}};
    if (box_of(s->kernel) == BOX_ALWAYS)
        return dcpk_error_set(error, DCPK_E_SPEC,
                              "%s: there is no box at dcp=1 (one rank exchanges nothing), so this "
                              "kernel exists only with dcp > 1",
                              s->kernel);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].asked)
            return dcpk_error_set(error, DCPK_E_SPEC,
                                  "%s: there is no box at dcp=1 (one rank exchanges nothing), so %s "
                                  "is refused; leave it out, or use dcp > 1",
                                  s->kernel, forms[i].text);
    return DCPK_OK;
}

static dcpk_status check_residency(const dcpk_spec *s, dcpk_error *error) {
    char text[1024];
    dcpk_spec fits = *s;
    int polls = s->poll == 1, whole = s->split == 0;
    if ((!polls && !whole) || resident(s)) return DCPK_OK;
    if (polls)
        fits.poll = 0;
    else
        fits.split = 1;
    dcpk_spec_format(&fits, text, sizeof text);
    return dcpk_error_set(
        error, DCPK_E_SPEC,
        "%s: with %s a grid polls for its own CTAs and must be resident as a whole: "
        "heads * ceil(batch / %d) = %d CTAs must be at most sms - reserve = %d; the spec that fits: %s",
        s->kernel, polls ? "poll=1" : "split=0", ROW_TILE, tiles(s), s->sms - s->reserve, text);
}

dcpk_status dcpk_spec_resolve(dcpk_spec *spec, dcpk_error *error) {
    if (spec == NULL || spec->size < sizeof *spec)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_spec_resolve: needs a spec that dcpk_spec_init has seen");
    dcpk_spec s = *spec;
    s.kernel[sizeof s.kernel - 1] = s.arch[sizeof s.arch - 1] = '\0';
    if (s.arch[0] == '\0') memcpy(s.arch, "sm_90a", sizeof "sm_90a");
    dcpk_status status = dcpk_kernel_name_check(s.kernel, error);
    if (status == DCPK_OK) status = dcpk_arch_check(s.kernel, s.arch, error);
    if (status == DCPK_OK) status = check_domains(&s, error);
    if (status == DCPK_OK && dcpk_kernel_id_of(s.kernel) != DCPK_KERNEL_NONE) {
        dcpk_arch_info arch = {.size = sizeof arch};
        dcpk_arch_find(s.arch, &arch);
        s.sms = s.sms != DCPK_UNSET ? s.sms : arch.sms;
        status = fill_defaults(&s, error);
        int32_t dcp = dcpk_spec_takes(s.kernel, "dcp") ? s.dcp : 1;
        int alone = dcp == 1 && box_of(s.kernel) != BOX_NEVER;
        if (status == DCPK_OK) derive(&s, dcp);
        if (status == DCPK_OK) status = check_shape(&s, error);
        if (status == DCPK_OK && alone) status = check_alone(&s, error);
        if (status == DCPK_OK && dcp > 1) status = check_residency(&s, error);
    }
    if (status == DCPK_OK) *spec = s;
    return status;
}
