/* test_spec.c - specs: texts, defaults, rules, architectures; statuses and errors. */
#include "runtime/error.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <dcpk/spec.h>

static dcpk_error why;

static dcpk_status resolve(const char *text, dcpk_spec *spec) {
    dcpk_error_init(&why);
    dcpk_status status = dcpk_spec_parse(spec, text, &why);
    return status != DCPK_OK ? status : dcpk_spec_resolve(spec, &why);
}

static const char *canonical(const char *text) {
    static char out[1024];
    dcpk_spec spec;
    dcpk_status status = resolve(text, &spec);
    ck_assert_msg(status == DCPK_OK, "%s: %s", text, why.text);
    ck_assert_uint_eq(dcpk_spec_format(&spec, out, sizeof out), strlen(out));
    return out;
}

static void refuse(const char *text, dcpk_status code, const char *needle) {
    dcpk_spec spec;
    dcpk_status status = resolve(text, &spec);
    ck_assert_msg(status == code, "'%s' gave %s", text, dcpk_status_name(status));
    ck_assert_msg(strstr(why.text, needle) != NULL, "'%s': no '%s' in: %s", text, needle, why.text);
}

START_TEST(defaults_are_those_of_the_contract) {
    ck_assert_str_eq(canonical("query_norm heads=12 batch=5"),
                     "query_norm arch=sm_90a heads=12 batch=5 sms=132 reserve=0 tiled_from=16 checked=0 lineinfo=0");
    ck_assert_str_eq(canonical("query_push heads=12 batch=5 dcp=2"),
                     "query_push arch=sm_90a heads=12 dcp=2 batch=5 q=1 cap=64 qh=24 sms=132 reserve=0 publish=peer "
                     "parity=device watchdog=1 checked=0 lineinfo=0");
    ck_assert_str_eq(
        canonical("query_wait heads=4 batch=100 dcp=4 q=4 arch=sm_100a"),
        "query_wait arch=sm_100a heads=4 dcp=4 batch=100 q=4 cap=100 qh=16 sms=148 reserve=0 parity=device "
        "watchdog=1 checked=0 lineinfo=0");
    ck_assert_str_eq(
        canonical("mla_query heads=12 batch=5 dcp=2"),
        "mla_query arch=sm_90a heads=12 dcp=2 batch=5 q=1 cap=64 qh=24 sms=132 reserve=0 publish=peer poll=1 "
        "store_qc=0 page=64 interleave=1 rope=none q_lora=1536 tiled_from=16 parity=device watchdog=1 checked=0 "
        "lineinfo=0");
    ck_assert_str_eq(canonical("mla_decode heads=12 batch=5"),
                     "mla_decode arch=sm_90a heads=12 dcp=1 batch=5 q=1 sms=132 reserve=0 page=64 interleave=1 "
                     "splits=auto pv=fp8 parity=device watchdog=1 checked=0 lineinfo=0");
    ck_assert_str_eq(canonical("dcp_value heads=12 batch=17 dcp=2"),
                     "dcp_value arch=sm_90a heads=12 dcp=2 batch=17 q=1 cap=64 qh=24 sms=132 reserve=0 split=0 gate=1 "
                     "parity=device watchdog=1 checked=0 lineinfo=0");
}
END_TEST

/* What is exact to the contract's tolerances, and the faster of that: wgmma where there is one. */
START_TEST(the_fast_form_of_mla_decode_is_the_default_where_it_runs_and_nowhere_else) {
    dcpk_arch_info arch = {.size = sizeof arch};
    char text[128];
    dcpk_spec spec;
    for (uint32_t i = 0; dcpk_arch_at(i, &arch); i++) {
        bool fast = strcmp(arch.name, "sm_90a") == 0;
        snprintf(text, sizeof text, "mla_decode heads=12 batch=5 arch=%s", arch.name);
        ck_assert_int_eq(resolve(text, &spec), DCPK_OK);
        ck_assert_msg(spec.pv == (fast ? DCPK_PV_FP8 : DCPK_PV_F16), "%s: pv=%d", text, spec.pv);
        strcat(text, " pv=f16"); /* what is said, wins */
        ck_assert_int_eq(resolve(text, &spec), DCPK_OK);
        ck_assert_int_eq(spec.pv, DCPK_PV_F16);
        snprintf(text, sizeof text, "mla_decode heads=12 batch=5 pv=fp8 arch=%s", arch.name);
        ck_assert_int_eq(resolve(text, &spec), fast ? DCPK_OK : DCPK_E_SPEC);
        ck_assert(fast || strstr(why.text, "use pv=f16") != NULL);
    }
    ck_assert_str_eq(canonical("dcp_value heads=12 batch=5"), canonical("dcp_value heads=12 batch=5 arch=sm_90a"));
}
END_TEST

START_TEST(canonical_text_reads_back_to_itself) {
    static const char *const texts[] = {
        "dcp_value heads=12 batch=17 dcp=2 gate=0 parity=arg watchdog=0 checked=1 lineinfo=1 split=1",
        "mla_query heads=96 batch=64 rope=half q_lora=0 publish=multicast page=16 interleave=8 store_qc=1",
        "mla_decode heads=128 batch=512 splits=7 pv=fp8",
        "mla_decode heads=12 batch=5 splits=7 arch=sm_121a",
        "own heads=3 splits=auto",
        "x_1"};
    char first[1024];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(first, sizeof first, "%s", canonical(texts[i]));
        ck_assert_str_eq(canonical(first), first);
    }
}
END_TEST

START_TEST(format_follows_snprintf_for_short_buffers) {
    dcpk_spec spec;
    char small[9];
    ck_assert_int_eq(resolve("query_norm heads=12 batch=5", &spec), DCPK_OK);
    size_t wanted = dcpk_spec_format(&spec, NULL, 0);
    ck_assert_uint_eq(wanted, strlen(canonical("query_norm heads=12 batch=5")));
    ck_assert_uint_eq(dcpk_spec_format(&spec, small, sizeof small), wanted);
    ck_assert_str_eq(small, "query_no");
}
END_TEST

START_TEST(resolving_twice_changes_nothing) {
    dcpk_spec once, twice;
    ck_assert_int_eq(resolve("dcp_value heads=128 batch=64 dcp=8", &once), DCPK_OK);
    twice = once;
    ck_assert_int_eq(dcpk_spec_resolve(&twice, &why), DCPK_OK);
    ck_assert_mem_eq(&once, &twice, sizeof once);
}
END_TEST

START_TEST(a_refused_spec_is_left_as_it_was) {
    dcpk_spec spec, before;
    dcpk_error_init(&why);
    ck_assert_int_eq(dcpk_spec_parse(&spec, "dcp_value heads=12 batch=17 q=2", &why), DCPK_OK);
    before = spec;
    ck_assert_int_eq(dcpk_spec_resolve(&spec, &why), DCPK_E_SPEC);
    ck_assert_mem_eq(&before, &spec, sizeof spec);
}
END_TEST

static const struct {
    const char *spec;
    dcpk_status code;
    const char *needle;
} refusals[] = {
    {"", DCPK_E_SPEC, "begins with a kernel's name"},
    {"heads=12", DCPK_E_SPEC, "not a kernel's name"},
    {"Dcp_Value heads=12", DCPK_E_SPEC, "[a-z0-9_]"},
    {"a_name_that_is_longer_than_thirty_one", DCPK_E_SPEC, "at most 31"},
    {"dcp_value batch=5", DCPK_E_SPEC, "heads is required"},
    {"dcp_value heads=12", DCPK_E_SPEC, "batch is required"},
    {"dcp_value heads=12 heads=12 batch=1", DCPK_E_SPEC, "heads is set twice"},
    {"dcp_value arch=sm_90 arch=sm_90 heads=1 batch=1", DCPK_E_SPEC, "arch is set twice"},
    {"dcp_value hedas=12", DCPK_E_SPEC, "(nearest: heads); keys: arch heads dcp batch q cap qh sms reserve split gate"},
    {"dcp_value zzzzzzzz=12", DCPK_E_SPEC, "'zzzzzzzz'; keys: arch heads"},
    {"dcp_value page=64", DCPK_E_SPEC, "belongs to mla_query mla_decode)"},
    {"query_norm dcp=2", DCPK_E_SPEC, "query_norm takes no key dcp"},
    {"dcp_value heads", DCPK_E_SPEC, "not of the form key=value"},
    {"dcp_value heads=", DCPK_E_SPEC, "heads= is not allowed; heads is 1..128"},
    {"dcp_value heads=-1", DCPK_E_SPEC, "heads=-1 is not allowed"},
    {"dcp_value heads=+1", DCPK_E_SPEC, "heads=+1 is not allowed"},
    {"dcp_value heads=0x10", DCPK_E_SPEC, "heads=0x10 is not allowed"},
    {"dcp_value heads=1.0", DCPK_E_SPEC, "heads=1.0 is not allowed"},
    {"dcp_value heads=0", DCPK_E_SPEC, "heads=0 is not allowed"},
    {"dcp_value heads=129", DCPK_E_SPEC, "heads=129 is not allowed"},
    {"dcp_value heads=99999999999999999999", DCPK_E_SPEC, "is not allowed"},
    {"dcp_value heads=auto", DCPK_E_SPEC, "heads=auto is not allowed"},
    {"query_push publish=all", DCPK_E_SPEC, "publish is peer|multicast"},
    {"dcp_value gate=2", DCPK_E_SPEC, "gate is 0|1"},
    {"mla_decode splits=257", DCPK_E_SPEC, "splits is 0..256 or auto"},
    {"dcp_value heads=12 batch=17 q=2", DCPK_E_SPEC, "q must divide batch (a request has q rows); q=2, batch=17"},
    {"dcp_value heads=128 batch=16 dcp=16", DCPK_E_SPEC, "dcp * heads * q must be at most 1024; 16 * 128 * 1 = 2048"},
    {"dcp_value heads=64 batch=16 dcp=16 q=2", DCPK_E_SPEC, "= 2048"},
    {"dcp_value heads=12 batch=65 cap=64 dcp=2", DCPK_E_SPEC, "cap must be at least batch"},
    {"dcp_value heads=12 batch=1 dcp=2 qh=23", DCPK_E_SPEC, "qh must be at least dcp * heads = 24; qh=23"},
    {"dcp_value heads=12 batch=1 sms=4 reserve=4", DCPK_E_SPEC, "reserve must be less than sms; reserve=4, sms=4"},
    {"mla_decode heads=12 batch=1 page=48", DCPK_E_SPEC, "page=48 is not 16, 32 or 64"},
    {"mla_decode heads=12 batch=1 page=16 interleave=32", DCPK_E_SPEC,
     "interleave must divide page; interleave=32, page=16"},
    {"mla_decode heads=12 batch=1 interleave=3", DCPK_E_SPEC, "interleave must divide page"},
    {"mla_query heads=12 batch=1 q_lora=512", DCPK_E_SPEC, "q_lora=512 is neither 1536 nor 0"},
    {"query_push heads=12 batch=1", DCPK_E_SPEC, "query_push: there is no box at dcp=1"},
    {"query_wait heads=12 batch=1 dcp=1", DCPK_E_SPEC, "query_wait: there is no box at dcp=1"},
    {"mla_query heads=12 batch=1 poll=1", DCPK_E_SPEC, "so poll=1 is refused"},
    {"dcp_value heads=12 batch=1 split=1", DCPK_E_SPEC, "so split=1 is refused"},
    {"dcp_value heads=12 batch=1 checked=1", DCPK_E_SPEC, "so checked=1 is refused"},
    {"mla_decode heads=12 batch=1 checked=1", DCPK_E_SPEC, "so checked=1 is refused"},
    {"dcp_value heads=12 batch=1 cap=64", DCPK_E_SPEC,
     "there is no box at dcp=1 (one rank exchanges nothing), so cap is"},
    {"mla_decode heads=12 batch=1 dcp=1 qh=12", DCPK_E_SPEC, "so qh is refused; leave it out, or use dcp > 1"},
    {"dcp_value heads=128 batch=17 dcp=2 split=0", DCPK_E_SPEC,
     "heads * ceil(batch / 16) = 256 CTAs must be at most sms - reserve = 132"},
    {"mla_query heads=67 batch=17 dcp=2 poll=1", DCPK_E_SPEC, "= 134 CTAs must be at most sms - reserve = 132"},
    {"dcp_value heads=12 batch=1 arch=sm_89", DCPK_E_ARCH,
     "'sm_89'; supported: sm_90 sm_90a sm_100 sm_100a sm_103a sm_110a sm_120 sm_120a sm_121a"},
    {"own page=48", DCPK_E_SPEC, "page=48"},
};

START_TEST(refusals_state_their_rule) {
    refuse(refusals[_i].spec, refusals[_i].code, refusals[_i].needle);
}
END_TEST

/* spec.md: what may not be refused, with what dcp=1 has not. */
START_TEST(no_promised_spec_is_refused) {
    static const int heads[] = {1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128}, dcps[] = {1, 2, 4, 8, 16};
    static const int qs[] = {1, 2, 3, 4, 8};
    static const char *const kernels[] = {"query_push", "query_wait", "mla_query", "mla_decode", "dcp_value"};
    dcpk_spec spec;
    char text[128];
    unsigned resolved = 0;
    for (size_t h = 0; h < 13; h++)
        for (size_t d = 0; d < 5; d++)
            for (size_t i = 0; i < 5; i++)
                for (int b = 0; b < 4; b++) {
                    int q = qs[i], batch = b == 0 ? q : b == 1 ? 16 : b == 2 ? 17 : 64;
                    if (batch % q != 0 || dcps[d] * heads[h] * q > 1024) continue;
                    for (size_t k = 0; k < 5; k++) {
                        if (k < 2 && dcps[d] == 1) continue;
                        snprintf(text, sizeof text, "%s heads=%d dcp=%d q=%d batch=%d", kernels[k], heads[h], dcps[d],
                                 q, batch);
                        ck_assert_msg(resolve(text, &spec) == DCPK_OK, "%s: %s", text, why.text);
                        resolved++;
                    }
                }
    ck_assert_uint_gt(resolved, 3000);
}
END_TEST

START_TEST(split_and_poll_follow_residency) {
    dcpk_spec spec;
    char text[160];
    for (int heads = 1; heads <= 128; heads += 3)
        for (int batch = 1; batch <= 80; batch += 5)
            for (int dcp = 1; dcp <= 4; dcp += 3) {
                int row_tiles = batch / 16 + (batch % 16 ? 1 : 0), fits = heads * row_tiles <= 100 - 20;
                snprintf(text, sizeof text, "dcp_value heads=%d batch=%d dcp=%d sms=100 reserve=20", heads, batch, dcp);
                ck_assert_int_eq(resolve(text, &spec), DCPK_OK);
                ck_assert_int_eq(spec.split, dcp > 1 && !fits);
                snprintf(text, sizeof text, "mla_query heads=%d batch=%d dcp=%d sms=100 reserve=20", heads, batch, dcp);
                ck_assert_int_eq(resolve(text, &spec), DCPK_OK);
                ck_assert_int_eq(spec.poll, dcp > 1 && fits);
            }
}
END_TEST

START_TEST(the_spec_that_fits_resolves) {
    dcpk_spec spec;
    char fits[1024];
    ck_assert_int_eq(resolve("dcp_value heads=128 batch=64 dcp=2 split=0", &spec), DCPK_E_SPEC);
    const char *at = strstr(why.text, "the spec that fits: ");
    ck_assert_ptr_nonnull(at);
    snprintf(fits, sizeof fits, "%s", at + strlen("the spec that fits: "));
    ck_assert_str_eq(canonical(fits), fits);
    ck_assert_ptr_nonnull(strstr(fits, "split=1"));
    ck_assert_int_eq(resolve("dcp_value heads=128 batch=64 split=0", &spec), DCPK_OK); /* dcp=1 polls for nobody */
}
END_TEST

START_TEST(a_rank_alone_has_no_mailbox_in_its_text) {
    static const char *const kernels[] = {"mla_query", "mla_decode", "dcp_value"};
    char text[128];
    for (size_t k = 0; k < 3; k++)
        for (int batch = 1; batch <= 512; batch += 73) {
            snprintf(text, sizeof text, "%s heads=12 batch=%d", kernels[k], batch);
            ck_assert_ptr_null(strstr(canonical(text), " cap="));
            ck_assert_ptr_null(strstr(canonical(text), " qh="));
            snprintf(text, sizeof text, "%s heads=12 dcp=2 batch=%d", kernels[k], batch);
            ck_assert_ptr_nonnull(strstr(canonical(text), " cap="));
            ck_assert_ptr_nonnull(strstr(canonical(text), " qh=24 "));
        }
}
END_TEST

START_TEST(a_template_of_ones_own_takes_the_keys_that_are_set) {
    dcpk_spec spec;
    ck_assert_str_eq(canonical("mine heads=3 page=32 gate=0"), "mine arch=sm_90a heads=3 page=32 gate=0");
    ck_assert_int_eq(resolve("mine", &spec), DCPK_OK);
    ck_assert_int_eq(spec.heads, DCPK_UNSET);
    ck_assert_int_eq(dcpk_spec_takes("mine", "publish"), 1);
    ck_assert_int_eq(dcpk_spec_takes("mine", "publisher"), 0);
    ck_assert_int_eq(dcpk_spec_takes("query_norm", "dcp"), 0);
    ck_assert_int_eq(dcpk_spec_takes("query_norm", "arch"), 1);
}
END_TEST

START_TEST(fields_set_by_hand_are_checked) {
    dcpk_spec spec;
    dcpk_error_init(&why);
    dcpk_spec_init(&spec, "dcp_value");
    spec.heads = 12;
    spec.batch = 1;
    spec.gate = 7;
    ck_assert_int_eq(dcpk_spec_resolve(&spec, &why), DCPK_E_SPEC);
    ck_assert_ptr_nonnull(strstr(why.text, "gate=7 is not allowed"));
    spec.gate = DCPK_UNSET;
    spec.page = 64;
    ck_assert_int_eq(dcpk_spec_resolve(&spec, &why), DCPK_E_SPEC);
    ck_assert_ptr_nonnull(strstr(why.text, "takes no key page"));
    spec.page = DCPK_UNSET;
    ck_assert_int_eq(dcpk_spec_resolve(&spec, &why), DCPK_OK);
    dcpk_spec_init(&spec, "a_name_that_is_longer_than_thirty_one");
    ck_assert_int_eq(dcpk_spec_resolve(&spec, &why), DCPK_E_SPEC);
    spec.size = 8;
    ck_assert_int_eq(dcpk_spec_resolve(&spec, &why), DCPK_E_ARG);
}
END_TEST

START_TEST(help_rows_agree_with_what_resolve_does) {
    dcpk_key_info key = {.size = sizeof key};
    dcpk_spec spec, same;
    char text[160];
    uint32_t count = 0;
    for (; dcpk_key_at(count, &key); count++) {
        ck_assert_uint_gt(strlen(key.doc), 5);
        if (strcmp(key.dflt, "required") == 0 || strcmp(key.dflt, "derived") == 0) continue;
        const char *kernel = strchr(key.kernels, 'v')   ? "dcp_value"
                             : strchr(key.kernels, 'q') ? "mla_query"
                                                        : "mla_decode";
        int dcp = strcmp(key.name, "dcp") == 0;
        snprintf(text, sizeof text, "%s heads=12 batch=8 %s=%s%s", kernel, key.name, key.dflt, dcp ? "" : " dcp=2");
        ck_assert_msg(resolve(text, &spec) == DCPK_OK, "%s: %s", text, why.text);
        snprintf(text, sizeof text, "%s heads=12 batch=8%s", kernel, dcp ? "" : " dcp=2");
        ck_assert_int_eq(resolve(text, &same), DCPK_OK);
        ck_assert_msg(memcmp(&spec, &same, sizeof spec) == 0, "%s=%s is not the default", key.name, key.dflt);
    }
    ck_assert_uint_eq(count, 24);
    ck_assert_int_eq(dcpk_key_at(0, &key), 1);
    ck_assert_str_eq(key.name, "heads");
    ck_assert_str_eq(key.values, "1..128");
    ck_assert_str_eq(key.dflt, "required");
    ck_assert_int_eq(dcpk_key_at(8, &key), 1);
    ck_assert_str_eq(key.values, "peer|multicast");
    ck_assert_str_eq(key.dflt, "peer");
}
END_TEST

/* PTX ISA, table of targets. */
START_TEST(architectures_are_a_table) {
    static const struct {
        const char *name;
        int major, minor, exact, ptx;
    } wanted[] = {{"sm_90", 9, 0, 0, 78},    {"sm_90a", 9, 0, 1, 80},   {"sm_100", 10, 0, 0, 86},
                  {"sm_100a", 10, 0, 1, 86}, {"sm_103a", 10, 3, 1, 88}, {"sm_110a", 11, 0, 1, 90},
                  {"sm_120", 12, 0, 0, 87},  {"sm_120a", 12, 0, 1, 87}, {"sm_121a", 12, 1, 1, 88}};
    dcpk_arch_info row = {.size = sizeof row};
    dcpk_spec spec;
    char text[64], name[16];
    for (uint32_t i = 0; i < 9; i++) {
        ck_assert_int_eq(dcpk_arch_at(i, &row), 1);
        ck_assert_str_eq(row.name, wanted[i].name);
        ck_assert_int_eq(row.major, wanted[i].major);
        ck_assert_int_eq(row.minor, wanted[i].minor);
        ck_assert_int_eq(row.exact, wanted[i].exact);
        ck_assert_int_eq(row.ptx, wanted[i].ptx);
        snprintf(text, sizeof text, "query_norm heads=1 batch=1 arch=%s", row.name);
        ck_assert_int_eq(resolve(text, &spec), DCPK_OK);
        ck_assert_int_eq(spec.sms, row.sms);
    }
    ck_assert_int_eq(dcpk_arch_at(9, &row), 0);
    ck_assert_int_eq(dcpk_arch_find("sm_90a", &row), 1);
    ck_assert_int_eq(row.sms, 132);
    /* Every other name that one could make up from a compute capability is refused, with the list. */
    for (int cc = 50; cc < 140; cc++)
        for (int suffix = 0; suffix < 3; suffix++) {
            snprintf(name, sizeof name, "sm_%d%.*s", cc, suffix > 0, suffix == 1 ? "a" : "f");
            int known = 0;
            for (size_t i = 0; i < 9; i++)
                known += strcmp(wanted[i].name, name) == 0;
            ck_assert_int_eq(dcpk_arch_find(name, NULL), known);
            snprintf(text, sizeof text, "own arch=%s", name);
            ck_assert_int_eq(resolve(text, &spec), known ? DCPK_OK : DCPK_E_ARCH);
            if (!known) ck_assert_ptr_nonnull(strstr(why.text, "supported: sm_90 sm_90a"));
        }
}
END_TEST

START_TEST(statuses_have_names_meanings_and_advice) {
    ck_assert_str_eq(dcpk_status_name(DCPK_OK), "DCPK_OK");
    ck_assert_str_eq(dcpk_status_name(-2), "DCPK_E_SPEC");
    ck_assert_str_eq(dcpk_status_name(-20), "DCPK_E_BOX_DEAD");
    ck_assert_str_eq(dcpk_status_name(-21), "DCPK_E_?");
    ck_assert_str_eq(dcpk_status_name(1), "DCPK_E_?");
    ck_assert_str_eq(dcpk_status_meaning(DCPK_E_NOMEM), "out of memory");
    ck_assert_str_eq(dcpk_status_advice(DCPK_E_SPEC), "change the key that the message names");
    for (int code = -20; code < 0; code++) {
        ck_assert_uint_gt(strlen(dcpk_status_meaning(code)), 5);
        ck_assert_uint_gt(strlen(dcpk_status_advice(code)), 5);
    }
    ck_assert_str_eq(dcpk_version(), "0.1.0");
}
END_TEST

START_TEST(long_error_texts_are_cut_at_a_character) {
    char many[8000];
    dcpk_error error;
    dcpk_error_init(&error);
    for (size_t i = 0; i < sizeof many - 1; i += 3)
        memcpy(many + i, "\xE2\x86\x92", i + 3 < sizeof many ? 3 : sizeof many - 1 - i);
    many[sizeof many - 2] = '\0';
    for (int shift = 0; shift < 3; shift++) {
        ck_assert_int_eq(dcpk_error_set(&error, DCPK_E_IO, "%.*s%s", shift, "ab", many), DCPK_E_IO);
        size_t length = strlen(error.text);
        ck_assert_uint_lt(length, sizeof error.text);
        ck_assert_uint_gt(length, sizeof error.text - 8);
        ck_assert_str_eq(error.text + length - 3, "...");
        size_t arrows = length - 3 - (size_t)(shift < 2 ? shift : 2);
        ck_assert_uint_eq(arrows % 3, 0); /* only whole arrows before the dots */
    }
    dcpk_error_append(&error, "more");
    ck_assert_uint_lt(strlen(error.text), sizeof error.text);
    ck_assert_int_eq(error.code, DCPK_E_IO);
}
END_TEST

START_TEST(an_error_struct_of_an_older_size_is_left_alone) {
    dcpk_error old;
    memset(&old, 0x5A, sizeof old);
    old.size = 16;
    dcpk_error before = old;
    ck_assert_int_eq(dcpk_error_set(&old, DCPK_E_IO, "text"), DCPK_E_IO);
    dcpk_error_append(&old, "text");
    dcpk_error_blame(&old, "file", 1);
    ck_assert_int_eq(dcpk_error_system(&old, DCPK_E_IO, 2, "text"), DCPK_E_IO);
    ck_assert_mem_eq(&old, &before, sizeof old);
    ck_assert_int_eq(dcpk_error_set(NULL, DCPK_E_IO, "text"), DCPK_E_IO);
    dcpk_error_init(&old);
    ck_assert_int_eq(dcpk_error_system(&old, DCPK_E_IO, 2, "cannot open %s", "x"), DCPK_E_IO);
    ck_assert_str_eq(old.text, "cannot open x: No such file or directory");
    ck_assert_int_eq(old.sys_errno, 2);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("spec");
    TCase *specs = tcase_create("specs"), *base = tcase_create("base");
    tcase_add_test(specs, defaults_are_those_of_the_contract);
    tcase_add_test(specs, the_fast_form_of_mla_decode_is_the_default_where_it_runs_and_nowhere_else);
    tcase_add_test(specs, canonical_text_reads_back_to_itself);
    tcase_add_test(specs, format_follows_snprintf_for_short_buffers);
    tcase_add_test(specs, resolving_twice_changes_nothing);
    tcase_add_test(specs, a_refused_spec_is_left_as_it_was);
    tcase_add_loop_test(specs, refusals_state_their_rule, 0, (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_test(specs, no_promised_spec_is_refused);
    tcase_add_test(specs, split_and_poll_follow_residency);
    tcase_add_test(specs, the_spec_that_fits_resolves);
    tcase_add_test(specs, a_rank_alone_has_no_mailbox_in_its_text);
    tcase_add_test(specs, a_template_of_ones_own_takes_the_keys_that_are_set);
    tcase_add_test(specs, fields_set_by_hand_are_checked);
    tcase_add_test(specs, help_rows_agree_with_what_resolve_does);
    tcase_add_test(specs, architectures_are_a_table);
    tcase_add_test(base, statuses_have_names_meanings_and_advice);
    tcase_add_test(base, long_error_texts_are_cut_at_a_character);
    tcase_add_test(base, an_error_struct_of_an_older_size_is_left_alone);
    suite_add_tcase(suite, specs);
    suite_add_tcase(suite, base);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
