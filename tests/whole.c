/* whole.c - see whole.h. May call: tools/layer_*.h, include/dcpk, Check. */
#include <tests/whole.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_contexts(struct whole *whole, char *list) {
    char *rest = NULL;
    whole->make.context_count = 0;
    for (char *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        ck_assert_int_lt(whole->make.context_count, 64);
        whole->contexts[whole->make.context_count++] = (int32_t)strtol(word, NULL, 10);
    }
    whole->make.contexts = whole->contexts;
}

static bool read_number(struct whole *whole, const char *name, const char *value) {
    struct layer_make *make = &whole->make;
    const struct {
        const char *name;
        double *real;
        int32_t *whole;
    } words[] = {{"sigma", &make->sigma, NULL},
                 {"mean", &make->mean, NULL},
                 {"eps", &make->eps, NULL},
                 {"softmax", &make->softmax_scale, NULL},
                 {"q_scale", &make->q_scale_inv, NULL},
                 {"k_scale", &make->k_scale_inv, NULL},
                 {"theta", &make->rope_theta, NULL},
                 {"steps", NULL, &make->steps},
                 {"pitch", NULL, &make->more_pitch},
                 {"nan", NULL, &whole->nan},
                 {"phased", NULL, &whole->options.phased},
                 {"chain", NULL, &whole->options.chain}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].name, name) == 0) {
            double number = strtod(value, NULL);
            if (words[i].real) {
                *words[i].real = number;
            } else {
                *words[i].whole = (int32_t)number;
            }
            return true;
        }
    }
    return false;
}

/* False: the word is a key. */
static bool read_word(struct whole *whole, const char *name, char *value) {
    static const char *const forms[] = {"fused", "wait", "pushed", "cycle"};
    if (strcmp(name, "context") == 0) {
        read_contexts(whole, value);
    } else if (strcmp(name, "seed") == 0) {
        whole->make.seed = strtoull(value, NULL, 10);
    } else if (strcmp(name, "gap") == 0) {
        whole->options.page_gap = strtoull(value, NULL, 10);
    } else if (strcmp(name, "random") == 0) {
        whole->cpu.seed = strtoull(value, NULL, 10);
        whole->cpu.schedule = whole->cpu.seed ? DCPKCPU_RANDOM : DCPKCPU_FAIR;
    } else if (strcmp(name, "form") == 0) {
        for (whole->options.form = 0; strcmp(forms[whole->options.form], value) != 0;) {
            ck_assert_int_lt(++whole->options.form, 4);
        }
    } else {
        return read_number(whole, name, value);
    }
    return true;
}

static void fill_make(struct whole *whole) {
    struct layer_make *make = &whole->make;
    const dcpk_spec *keys = &whole->keys;
#define OR(key, unset) (keys->key == DCPK_UNSET ? (unset) : keys->key)
    make->heads = keys->heads;
    make->dcp = OR(dcp, 1);
    make->q = OR(q, 1);
    make->batch = OR(batch, make->context_count * make->q);
    make->page = OR(page, 64);
    make->interleave = OR(interleave, 1);
    make->q_lora = OR(q_lora, REF_Q_LORA);
    make->gate = OR(gate, 1);
    make->cap = OR(cap, 0);
    make->qh = OR(qh, 0);
    make->tiled_from = OR(tiled_from, 0);
    make->rope = keys->rope == DCPK_ROPE_HALF          ? ROPE_HALF
                 : keys->rope == DCPK_ROPE_INTERLEAVED ? ROPE_INTERLEAVED
                                                       : ROPE_NONE;
#undef OR
}

/* The projection is replicated: the same value on every rank. */
static void put_nan(struct layer_case *layer, size_t column) {
    for (int32_t s = 0; s < layer->step_count; s++) {
        for (int32_t r = 0; r < layer->dcp; r++) {
            layer->steps[s].rank[r].qkv[column] = 0x7FC0;
        }
    }
}

void whole_make(struct whole *whole, dcpk_gen *gen, const char *text) {
    char words[512], keys[512] = "layer", why[LAYER_SENTENCE], *rest = NULL;
    if (strstr(text, "pv=") == NULL) strcat(keys, " pv=f16"); /* the fast form has suites of its own */
    dcpk_error error;
    dcpk_error_init(&error);
    memset(whole, 0, sizeof *whole);
    snprintf(whole->text, sizeof whole->text, "%s", text);
    snprintf(words, sizeof words, "%s", text);
    layer_make_init(&whole->make);
    layer_run_options_init(&whole->options, gen);
    whole->options.form = LAYER_CYCLE;
    whole->cpu = (dcpkcpu_options){.size = sizeof whole->cpu,
                                   .sms = 132,
                                   .major = 9,
                                   .multicast = 1,
                                   .store_delay = 200,
                                   .livelock_rounds = 200000};
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char name[32];
        size_t length = strcspn(word, "=");
        ck_assert_msg(length < sizeof name && word[length] == '=', "%s: '%s'", text, word);
        snprintf(name, sizeof name, "%.*s", (int)length, word);
        if (!read_word(whole, name, word + length + 1)) {
            size_t used = strlen(keys);
            snprintf(keys + used, sizeof keys - used, " %s", word);
        }
    }
    MUST(dcpk_spec_parse(&whole->keys, keys, &error));
    fill_make(whole);
    whole->cpu.devices = whole->make.dcp;
    whole->options.device = "cpu";
    whole->options.cpu = &whole->cpu;
    whole->options.keys = &whole->keys;
    whole->options.bound_ns = 20000000;
    whole->layer = layer_make(&whole->make, why);
    ck_assert_msg(whole->layer != NULL, "%s: %s", text, why);
    if (whole->nan > 0) {
        put_nan(whole->layer, (size_t)whole->nan - 1);
    }
}

void whole_judge(struct whole *whole) {
    layer_bounds_of(whole->layer, layer_run_scores_fp8(whole->run), whole->make.sigma, &whole->bounds);
    ck_assert(layer_judge(whole->run, whole->layer, &whole->bounds, &whole->judged));
}

dcpk_status whole_try(struct whole *whole, dcpk_error *error) {
    dcpk_status status = layer_run_open(&whole->options, whole->layer, &whole->run, error);
    if (status == DCPK_OK) {
        status = layer_run_all(whole->run, error);
    }
    if (status == DCPK_OK) {
        whole_judge(whole);
    }
    return status;
}

void whole_run(struct whole *whole) {
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = whole_try(whole, &error);
    ck_assert_msg(status == DCPK_OK, "%s: %s", whole->text, error.text);
}

void whole_end_run(struct whole *whole) {
    const struct rank_group *group = whole->run ? layer_run_group(whole->run) : NULL;
    dcpk_box *boxes[GROUP_MAX_RANKS];
    for (int32_t r = 0; group && r < group->dcp; r++) {
        void *release = rank_group_cpu_symbol(group, "dcpkcpu_release"),
             *hold = rank_group_cpu_symbol(group, "dcpkcpu_hold_stores");
        __typeof__(&dcpkcpu_release) let_go;
        __typeof__(&dcpkcpu_hold_stores) hold_stores;
        memcpy(&let_go, &release, sizeof let_go);
        memcpy(&hold_stores, &hold, sizeof hold_stores);
        let_go(r);
        hold_stores(r, -1, 0);
        boxes[r] = group->rank[r].box;
    }
    if (group && group->dcp > 1) {
        dcpk_box_rearm_all(boxes, group->dcp, NULL, NULL);
    }
    layer_run_close(whole->run);
    whole->run = NULL;
}

void whole_close(struct whole *whole) {
    layer_run_close(whole->run);
    layer_case_free(whole->layer);
}

void whole_must_be_right(dcpk_gen *gen, const char *text) {
    struct whole *whole = calloc(1, sizeof *whole);
    ck_assert_ptr_nonnull(whole);
    whole_make(whole, gen, text);
    whole_run(whole);
    ck_assert_msg(whole->judged.wrong == 0, "%s: %llu wrong: %s", text, (unsigned long long)whole->judged.wrong,
                  whole->judged.first);
    whole_close(whole);
    free(whole);
}
