/* layer_steps.h - what the suites about layers share: a provider of stand-ins, an engine's decode that takes notes, and
 * layers on the fake driver. Each suite has its own copy. */
#ifndef DCPK_TESTS_LAYER_STEPS_H
#define DCPK_TESTS_LAYER_STEPS_H

#include "tests/box_pair.h"
#include "tests/stand_in.h"

#include <dcpk/layer.h>
#include <stdio.h>

/* A provider that makes stand-ins and remembers what it was asked for. */
struct maker {
    char asked[8][512];
    int count, fail_at;
};

static inline dcpk_status make(void *self, const dcpk_spec *spec, dcpk_image **out, dcpk_error *error_out) {
    struct maker *maker = self;
    char *text = maker->asked[maker->count++];
    dcpk_spec_format(spec, text, sizeof maker->asked[0]);
    if (maker->count == maker->fail_at) {
        if (error_out != NULL) snprintf(error_out->text, sizeof error_out->text, "no image of %s", text);
        return DCPK_E_NOT_FOUND;
    }
    dcpk_entry_info entry[2];
    uint32_t count = 1;
    bool boxed = spec->dcp > 1;
    if (strcmp(spec->kernel, "mla_query") == 0) {
        const char *params = boxed ? "qkv slots q_box" : "qkv slots query";
        entry[0] = stand_in_entry("dcpk_mla_query", spec->store_qc == 1 ? "qkv slots qc q_box" : params);
        entry[0].resident = spec->poll == 1;
    } else if (strcmp(spec->kernel, "mla_decode") == 0 && spec->splits == 1) {
        entry[0] = stand_in_entry("dcpk_mla_decode", boxed ? "kv_cache rows rows_lse q_box" : "query kv_cache rows");
    } else if (strcmp(spec->kernel, "mla_decode") == 0 && spec->splits == 0 && spec->pv == DCPK_PV_FP8) {
        entry[0] = stand_in_entry("dcpk_mla_decode", boxed ? "kv_cache workspace q_box" : "kv_cache workspace");
        entry[0].resident = 1; /* its CTAs meet */
    } else if (strcmp(spec->kernel, "mla_decode") == 0) {
        entry[0] = stand_in_entry("dcpk_mla_decode_split", boxed ? "kv_cache workspace q_box" : "kv_cache workspace");
        entry[1] = stand_in_entry("dcpk_mla_decode_reduce", "workspace rows rows_lse");
        count = 2;
    } else if (strcmp(spec->kernel, "query_push") == 0) {
        entry[0] = stand_in_entry("dcpk_query_push", "query rank");
    } else if (strcmp(spec->kernel, "query_wait") == 0) {
        entry[0] = stand_in_entry("dcpk_query_wait", "q_box");
    } else if (spec->dcp > 1 && spec->split == 1) {
        entry[0] = stand_in_entry("dcpk_dcp_value_push", "rows q_box");
        entry[1] = stand_in_entry("dcpk_dcp_value_merge", "output chain_waits");
        count = 2;
    } else {
        entry[0] = stand_in_entry("dcpk_dcp_value", spec->dcp > 1 ? "rows output q_box" : "rows output");
    }
    *out = stand_in_image(text, entry, count);
    return DCPK_OK;
}

/* The engine's decode: notes when it was called and with which flags. */
struct decode {
    long after; /* launches made before it */
    uint32_t flags;
    int calls;
    dcpk_status answer;
};

static inline dcpk_status decode(void *self, const dcpk_args *args, dcpk_box *box, void *stream, uint32_t flags,
                                 dcpk_error *error_out) {
    struct decode *seen = self;
    (void)args, (void)box, (void)stream, (void)error_out;
    seen->after = fake.state->launches;
    seen->flags = flags;
    seen->calls++;
    return seen->answer;
}

static struct maker maker;
static struct decode seen;
static dcpk_spec base;
static const dcpk_args args = {.size = sizeof args,
                               .query = 0x1000,
                               .rows = 0x2000,
                               .output = 0x3000,
                               .rows_lse = 0x4000,
                               .qkv = 0x5000,
                               .slots = 0x6000,
                               .kv_cache = 0x7000,
                               .workspace = 0x8000};

static inline dcpk_status open_form(const char *keys, dcpk_box *box, int32_t form, dcpk_decode_fn *own,
                                    dcpk_layer **layer) {
    memset(&maker, 0, sizeof maker);
    memset(&seen, 0, sizeof seen);
    char text[256];
    snprintf(text, sizeof text, "layer %s", keys); /* no kernel's name: takes every key */
    ck_assert_msg(dcpk_spec_parse(&base, text, &error) == DCPK_OK, "%s", error.text);
    static dcpk_provider provider;
    provider = (dcpk_provider){.size = sizeof provider, .self = &maker, .get = make};
    dcpk_layer_options options = {.size = sizeof options,
                                  .provider = &provider,
                                  .base = &base,
                                  .decode = own,
                                  .decode_self = &seen,
                                  .form = form};
    return dcpk_layer_open(devices[0], box, &options, layer, &error);
}

static inline dcpk_status open_layer(const char *keys, dcpk_box *box, dcpk_layer **layer) {
    return open_form(keys, box, DCPK_LAYER_PUSH, decode, layer);
}

static inline dcpk_layer *layer_of_form(const char *keys, dcpk_box *box, int32_t form, dcpk_decode_fn *own) {
    dcpk_layer *layer = NULL;
    ck_assert_msg(open_form(keys, box, form, own, &layer) == DCPK_OK, "%s", error.text);
    fake.reset();
    return layer;
}

static inline dcpk_layer *fused_of(const char *keys, dcpk_box *box) {
    return layer_of_form(keys, box, DCPK_LAYER_FUSED, NULL);
}

static inline dcpk_layer *layer_of(const char *keys, dcpk_box *box) {
    dcpk_layer *layer = NULL;
    ck_assert_msg(open_layer(keys, box, &layer) == DCPK_OK, "%s", error.text);
    fake.reset();
    return layer;
}

static inline void close_layer(dcpk_layer *layer) {
    ck_assert_msg(dcpk_layer_close(layer, &error) == DCPK_OK, "%s", error.text);
    for (int r = 0; r < 2; r++)
        boxes[r]->opened = boxes[r]->closed = 0; /* nothing ran: the fake's counter does not move */
}

static inline void assert_launch(long index, const char *function, int pdl) {
    ck_assert_str_eq(fake.state->launch[index].function, function);
    ck_assert_int_eq(fake.state->launch[index].pdl, pdl);
}

/* The launches of one step in order, blanks between them; the first without PDL, the others with it. */
static inline void assert_step(dcpk_layer *layer, const char *functions) {
    ck_assert_msg(dcpk_layer_step(layer, &args, NULL, 0, &error) == DCPK_OK, "%s", error.text);
    char launched[512] = "";
    for (long i = 0; i < fake.state->launches; i++) {
        size_t used = strlen(launched);
        snprintf(launched + used, sizeof launched - used, "%s%s", i > 0 ? " " : "", fake.state->launch[i].function);
        ck_assert_int_eq(fake.state->launch[i].pdl, i > 0);
    }
    ck_assert_str_eq(launched, functions);
}

/* Launch flags and what they make of the first launch of a step. */
static struct {
    uint32_t flags;
    int first; /* its PDL attribute */
} const chains[] = {
    {0, 0},
    {DCPK_LAUNCH_CHAIN_WAITS, 1},
    {DCPK_LAUNCH_CHAIN_WAITS | DCPK_LAUNCH_FRESH_WEIGHTS, 0},
    {DCPK_LAUNCH_CHAIN_WAITS | DCPK_LAUNCH_NO_PDL, 0},
    {DCPK_LAUNCH_FRESH_WEIGHTS, 0},
};
enum { CHAINS = sizeof chains / sizeof chains[0] };

#endif
