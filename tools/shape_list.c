/* shape_list.c - see shape_list.h. Owns the product of the lists and the set of specs; lists of words are
 * shape_words.c's, the file is shape_file.c's. */
#include "shape_inside.h"

#include "kernel_set.h"
#include "layer_phases.h"
#include "tool_error.h"

#include <dcpk/layer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const shape_form_names[SHAPE_FORMS] = {
    [SHAPE_PUSH] = "push", [SHAPE_FUSED] = "fused", [SHAPE_NORM] = "norm", [SHAPE_CHECK] = "check"};

/* A name that no kernel has: such a spec takes every key; messages begin with it. */
static const char any_kernel[] = "aot";
enum { MOST_TP = 4096, MOST_DCP = 32, MOST_BATCH = 512, MOST_Q = 8, MOST_SHAPES = 1 << 20 };

struct numbers_list {
    int32_t *values;
    size_t count;
};

/* The request, read. */
struct asked {
    struct shape_names models, archs, forms;
    struct numbers_list tp, dcp, batch, q;
    dcpk_spec keys;
};

/* ---- reading the request ------------------------------------------------------------------------- */
static int rank_form(const char *name) {
    for (int i = 0; i < SHAPE_FORMS; i++)
        if (strcmp(name, shape_form_names[i]) == 0) return i;
    return -1;
}

bool shape_form_asked(const char *list, enum shape_form form) {
    const char *name = shape_form_names[form];
    for (const char *at = list; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, strlen(name)) == 0 && (at[strlen(name)] == ',' || at[strlen(name)] == '\0')) return true;
    return false;
}

static int rank_arch(const char *name) {
    dcpk_arch_info row = {.size = sizeof row};
    for (uint32_t i = 0; dcpk_arch_at(i, &row); i++)
        if (strcmp(row.name, name) == 0) return (int)i;
    return -1;
}

/* Any name: the generator knows which there are. */
static int rank_model(const char *name) {
    return name[0] != '\0' ? 0 : -1;
}

static void arch_names(char *text, size_t capacity) {
    dcpk_arch_info row = {.size = sizeof row};
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; dcpk_arch_at(i, &row) && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i > 0 ? " " : "", row.name);
}

/* What an unset arch comes to. */
static const char *default_arch(dcpk_spec *spec) {
    dcpk_spec_init(spec, any_kernel);
    return dcpk_spec_resolve(spec, NULL) == DCPK_OK ? spec->arch : "sm_90a";
}

static enum exit_code read_models(const struct command_line *line, dcpk_gen *gen, const struct shape_request *request,
                                  struct asked *asked) {
    if (request->models == NULL) return EXIT_DONE;
    enum exit_code code =
        shape_names(line, "model", request->models, rank_model, "the names of 'dcpk ls models'", &asked->models);
    for (size_t i = 0; code == EXIT_DONE && i < asked->models.count; i++) {
        dcpk_model_info info = {.size = sizeof info};
        dcpk_error error;
        dcpk_error_init(&error);
        const char *name = asked->models.names[i];
        if (dcpk_gen_model_info(gen, name, &info, &error) == DCPK_OK && strlen(name) < sizeof((struct shape *)0)->model)
            continue;
        complain_error(&error);
        code = error.code == DCPK_E_NOT_FOUND ? EXIT_USAGE : exit_of_error(gen, &error);
    }
    return code;
}

static enum exit_code read_numbers(const struct command_line *line, const struct shape_request *request,
                                   struct asked *asked) {
    const struct {
        const char *name, *text;
        int32_t most;
        struct numbers_list *list;
    } rows[] = {{"tp", request->tps, MOST_TP, &asked->tp},
                {"dcp", request->dcps, MOST_DCP, &asked->dcp},
                {"batch", request->batches, MOST_BATCH, &asked->batch},
                {"q", request->qs, MOST_Q, &asked->q}};
    enum exit_code code = EXIT_DONE;
    for (size_t i = 0; code == EXIT_DONE && i < sizeof rows / sizeof rows[0]; i++)
        code = shape_numbers(line, rows[i].name, rows[i].text != NULL ? rows[i].text : "1", rows[i].most, "",
                             &rows[i].list->values, &rows[i].list->count);
    return code;
}

/* The keys that every spec gets; those that the lists say are not among them. */
static enum exit_code read_keys(const struct command_line *line, const struct shape_request *request,
                                struct asked *asked) {
    struct preset preset;
    dcpk_spec_init(&asked->keys, any_kernel);
    enum exit_code code = words_keys(line, request->keys, request->key_count, &asked->keys, &preset);
    if (code != EXIT_DONE) return code;
    if (preset.model != NULL) return usage_error(line, "model=%s: --model takes the list of models", preset.model);
    const struct {
        const char *name;
        bool given;
    } lists[] = {{"arch", asked->keys.arch[0] != '\0'},
                 {"dcp", asked->keys.dcp != DCPK_UNSET},
                 {"batch", asked->keys.batch != DCPK_UNSET},
                 {"q", asked->keys.q != DCPK_UNSET}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (lists[i].given) return usage_error(line, "%s=: --%s takes the list of them", lists[i].name, lists[i].name);
    if (request->models == NULL && asked->keys.heads == DCPK_UNSET)
        return usage_error(line, "how many heads? --model NAME --tp LIST, or heads=N");
    if (request->models == NULL && request->tps != NULL)
        return usage_error(line, "--tp goes with --model ('dcpk ls models' names them)");
    return EXIT_DONE;
}

static enum exit_code read_request(const struct command_line *line, dcpk_gen *gen, const struct shape_request *request,
                                   struct asked *asked) {
    char archs[512];
    dcpk_spec spec;
    arch_names(archs, sizeof archs);
    enum exit_code code = read_keys(line, request, asked);
    if (code == EXIT_DONE) code = read_models(line, gen, request, asked);
    if (code == EXIT_DONE) code = read_numbers(line, request, asked);
    if (code == EXIT_DONE)
        code = shape_names(line, "arch", request->archs != NULL ? request->archs : default_arch(&spec), rank_arch,
                           archs, &asked->archs);
    if (code == EXIT_DONE)
        code = shape_names(line, "form", request->forms != NULL ? request->forms : "push,fused,norm", rank_form,
                           "push fused norm check", &asked->forms);
    return code;
}

static void asked_free(struct asked *asked) {
    shape_names_free(&asked->models);
    shape_names_free(&asked->archs);
    shape_names_free(&asked->forms);
    free(asked->tp.values);
    free(asked->dcp.values);
    free(asked->batch.values);
    free(asked->q.values);
}

/* ---- the request in one writing ------------------------------------------------------------------ */
static void write_names(FILE *to, const char *what, const struct shape_names *names) {
    for (size_t i = 0; i < names->count; i++)
        fprintf(to, "%s%s%s", i == 0 ? what : "", i == 0 ? " " : ",", names->names[i]);
    if (names->count > 0) fputc('\n', to);
}

static void write_numbers(FILE *to, const char *what, const struct numbers_list *list) {
    char *text = shape_numbers_text(list->values, list->count);
    fprintf(to, "%s %s\n", what, text);
    free(text);
}

static char *write_asked(const struct asked *asked, bool lists, uint32_t lines) {
    char *text = NULL, keys[1024];
    size_t length = 0;
    FILE *to = must(open_memstream(&text, &length));
    if (lists) {
        write_names(to, "model", &asked->models);
        if (asked->models.count > 0) write_numbers(to, "tp", &asked->tp);
        write_numbers(to, "dcp", &asked->dcp);
        write_numbers(to, "batch", &asked->batch);
        write_numbers(to, "q", &asked->q);
        write_names(to, "arch", &asked->archs);
        write_names(to, "form", &asked->forms);
        dcpk_spec_format(&asked->keys, keys, sizeof keys);
        if (strlen(keys) > sizeof any_kernel) fprintf(to, "keys %s\n", keys + sizeof any_kernel);
    }
    if (lines > 0) fprintf(to, "shapes %u\n", lines);
    fclose(to);
    return must(text);
}

/* ---- one shape ----------------------------------------------------------------------------------- */
/* The base spec of the shape's layer; a status with the rule that refuses it. */
static dcpk_status make_base(dcpk_gen *gen, const struct asked *asked, struct shape *shape, dcpk_error *error) {
    shape->base = asked->keys;
    shape->base.dcp = shape->dcp;
    shape->base.batch = shape->batch;
    shape->base.q = shape->q;
    memcpy(shape->base.arch, shape->arch, sizeof shape->base.arch);
    if (shape->model[0] == '\0') return DCPK_OK;
    dcpk_status status = dcpk_gen_model(gen, shape->model, shape->tp, &shape->base, error);
    if (status != DCPK_OK) return status;
    return preset_shares(shape->tp, shape->dcp, error);
}

static dcpk_status make_specs(const struct shape *shape, dcpk_spec *specs, uint32_t *count, dcpk_error *error) {
    dcpk_layer_options options = {.size = sizeof options, .base = &shape->base, .form = (int32_t)shape->form};
    if (shape->form == SHAPE_CHECK) return layer_phase_specs(&shape->base, LAYER_CYCLE, specs, count, error);
    if (shape->form != SHAPE_NORM) return dcpk_layer_specs(&options, specs, DCPK_LAYER_MAX_SPECS, count, error);
    kernel_set_spec(&shape->base, "query_norm", &specs[0]);
    *count = 1;
    return dcpk_spec_resolve(&specs[0], error);
}

void shape_list_add(struct shape_list *list, const dcpk_spec *spec, uint32_t line) {
    if ((list->spec_count & (list->spec_count - 1)) == 0) /* 0, 1, 2, 4, ...: full */
        list->specs =
            must(realloc(list->specs, (size_t)(list->spec_count ? 2 * list->spec_count : 1) * sizeof *list->specs));
    size_t length = dcpk_spec_format(spec, NULL, 0) + 1;
    char *text = must(malloc(length));
    dcpk_spec_format(spec, text, length);
    list->specs[list->spec_count++] = (struct shape_spec){*spec, text, line};
}

static void add_shape(dcpk_gen *gen, const struct asked *asked, const struct shape *wanted, struct shape_list *list) {
    struct shape *shape = &list->shapes[list->shape_count++];
    _Static_assert((int)PHASE_COUNT <= (int)DCPK_LAYER_MAX_SPECS, "specs has room for either");
    dcpk_spec specs[DCPK_LAYER_MAX_SPECS];
    uint32_t count = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    *shape = *wanted;
    shape->status = make_base(gen, asked, shape, &error);
    if (shape->status == DCPK_OK) shape->status = make_specs(shape, specs, &count, &error);
    shape->reason = shape->status == DCPK_OK ? "" : must(strdup(error.text));
    list->refused += shape->status != DCPK_OK;
    for (uint32_t i = 0; shape->status == DCPK_OK && i < count; i++)
        shape_list_add(list, &specs[i], 0);
}

/* ---- the product --------------------------------------------------------------------------------- */
/* The shapes of one model, architecture and tp. */
static void add_inner(dcpk_gen *gen, const struct asked *asked, struct shape *shape, struct shape_list *list) {
    for (size_t d = 0; d < asked->dcp.count; d++)
        for (size_t q = 0; q < asked->q.count; q++)
            for (size_t b = 0; b < asked->batch.count; b++)
                for (size_t f = 0; f < asked->forms.count; f++) {
                    shape->dcp = asked->dcp.values[d];
                    shape->q = asked->q.values[q];
                    shape->batch = asked->batch.values[b];
                    shape->form = (enum shape_form)rank_form(asked->forms.names[f]);
                    add_shape(gen, asked, shape, list);
                }
}

static enum exit_code multiply(const struct command_line *line, dcpk_gen *gen, const struct asked *asked,
                               struct shape_list *list) {
    size_t models = asked->models.count > 0 ? asked->models.count : 1, count = models;
    const size_t factors[] = {asked->archs.count, asked->tp.count,    asked->dcp.count,
                              asked->q.count,     asked->batch.count, asked->forms.count};
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        count *= factors[i];
        if (count > MOST_SHAPES) return usage_error(line, "the lists ask for more than %d shapes", MOST_SHAPES);
    }
    list->shapes = must(calloc(count, sizeof *list->shapes));
    for (size_t m = 0; m < models; m++)
        for (size_t a = 0; a < asked->archs.count; a++)
            for (size_t t = 0; t < asked->tp.count; t++) {
                struct shape shape = {.tp = asked->tp.values[t]};
                if (asked->models.count > 0) snprintf(shape.model, sizeof shape.model, "%s", asked->models.names[m]);
                snprintf(shape.arch, sizeof shape.arch, "%s", asked->archs.names[a]);
                add_inner(gen, asked, &shape, list);
            }
    return EXIT_DONE;
}

static int compare_specs(const void *a, const void *b) {
    const struct shape_spec *left = a, *right = b;
    int order = strcmp(left->text, right->text);
    return order != 0 ? order : (left->line > right->line) - (left->line < right->line);
}

static void sort_specs(struct shape_list *list) {
    uint32_t kept = 0;
    if (list->spec_count > 1) qsort(list->specs, list->spec_count, sizeof *list->specs, compare_specs);
    for (uint32_t i = 0; i < list->spec_count; i++)
        if (kept > 0 && strcmp(list->specs[kept - 1].text, list->specs[i].text) == 0)
            free(list->specs[i].text);
        else
            list->specs[kept++] = list->specs[i];
    list->spec_count = kept;
}

static enum exit_code make_shapes(const struct command_line *line, dcpk_gen *gen, const struct shape_request *request,
                                  struct asked *asked, struct shape_list *list) {
    enum exit_code code = read_request(line, gen, request, asked);
    if (code == EXIT_DONE) code = multiply(line, gen, asked, list);
    if (code != EXIT_DONE || list->refused < list->shape_count) return code;
    shape_list_skipped(line, list);
    complain(line, "every shape that the lists ask for is refused: the lines above say by which rule");
    return EXIT_USAGE;
}

/* Without --batch nothing of the lists can be meant. */
static enum exit_code no_shapes(const struct command_line *line, const struct shape_request *request) {
    if (request->file == NULL) return usage_error(line, "which batches? --batch LIST, or --shapes FILE");
    if (request->models != NULL || request->tps != NULL || request->dcps != NULL || request->qs != NULL ||
        request->archs != NULL || request->forms != NULL || request->key_count > 0)
        return usage_error(line, "lists and keys go with --batch LIST; a file of shapes says everything itself");
    return EXIT_DONE;
}

enum exit_code shape_list_make(const struct command_line *line, dcpk_gen *gen, const struct shape_request *request,
                               struct shape_list *list) {
    struct asked asked = {0};
    *list = (struct shape_list){0};
    enum exit_code code =
        request->batches != NULL ? make_shapes(line, gen, request, &asked, list) : no_shapes(line, request);
    if (code == EXIT_DONE && request->file != NULL) code = shape_file_read(line, gen, request->file, list);
    sort_specs(list);
    if (code == EXIT_DONE) list->asked = write_asked(&asked, request->batches != NULL, list->lines);
    asked_free(&asked);
    if (code != EXIT_DONE) shape_list_free(list);
    return code;
}

void shape_list_free(struct shape_list *list) {
    for (uint32_t i = 0; i < list->shape_count; i++)
        if (list->shapes[i].status != DCPK_OK) free((void *)(uintptr_t)list->shapes[i].reason);
    for (uint32_t i = 0; i < list->spec_count; i++)
        free(list->specs[i].text);
    free(list->shapes);
    free(list->specs);
    free(list->asked);
    *list = (struct shape_list){0};
}

/* ---- telling ------------------------------------------------------------------------------------- */
static void text_with(const struct shape *shape, const char *forms, char *text, size_t capacity) {
    int used = 0;
    text[0] = '\0';
    if (shape->model[0] != '\0') used = snprintf(text, capacity, "model=%s tp=%d ", shape->model, shape->tp);
    if (used < 0 || (size_t)used >= capacity) return;
    snprintf(text + used, capacity - (size_t)used, "dcp=%d batch=%d q=%d arch=%s form=%s", shape->dcp, shape->batch,
             shape->q, shape->arch, forms);
}

void shape_text(const struct shape *shape, char *text, size_t capacity) {
    text_with(shape, shape_form_names[shape->form], text, capacity);
}

/* A rule's message without the kernel that it begins with. */
static const char *rule_of(const struct shape *shape) {
    size_t name = strspn(shape->reason, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return strncmp(shape->reason + name, ": ", 2) == 0 ? shape->reason + name + 2 : shape->reason;
}

static bool same_but_form(const struct shape *a, const struct shape *b) {
    return strcmp(a->model, b->model) == 0 && a->tp == b->tp && a->dcp == b->dcp && a->batch == b->batch &&
           a->q == b->q && strcmp(a->arch, b->arch) == 0;
}

void shape_list_skipped(const struct command_line *line, const struct shape_list *list) {
    for (uint32_t i = 0, end; i < list->shape_count; i = end) {
        const struct shape *shape = &list->shapes[i];
        char forms[64], text[256];
        end = i + 1;
        if (shape->status == DCPK_OK) continue;
        snprintf(forms, sizeof forms, "%s", shape_form_names[shape->form]);
        for (; end < list->shape_count && list->shapes[end].status != DCPK_OK &&
               same_but_form(shape, &list->shapes[end]) && strcmp(rule_of(shape), rule_of(&list->shapes[end])) == 0;
             end++) {
            strncat(forms, ",", sizeof forms - strlen(forms) - 1);
            strncat(forms, shape_form_names[list->shapes[end].form], sizeof forms - strlen(forms) - 1);
        }
        text_with(shape, forms, text, sizeof text);
        complain(line, "skipped: %s: %s", text, rule_of(shape));
    }
}
