/* sweep_points.c - lists, their product, and the rules that refuse a point before anything is made.
 * May call: include/dcpk. Must not: touch a device or a compiler. */
#include <tools/json_text.h>
#include <tools/layer_phases.h>
#include <tools/numbers.h>
#include <tools/shape_list.h>
#include <tools/sweep.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const sweep_list_names[SWEEP_LISTS] = {"model", "tp", "dcp", "batch", "q", "context"};
const char *const sweep_form_names[] = {"fused", "wait", "pushed", "cycle"};
static const int32_t list_most[SWEEP_LISTS] = {0, 4096, 32, 512, 8, SWEEP_MAX_CONTEXT};

/* ---- lists --------------------------------------------------------------------------------------- */

/* "ragged" or "ragged:N" -> N; 0: it is neither. */
static int32_t read_ragged(const char *word) {
    uint64_t most = SWEEP_RAGGED;
    if (strncmp(word, "ragged", 6) != 0) return 0;
    return word[6] == '\0' || (word[6] == ':' && word_number(word + 7, SWEEP_MAX_CONTEXT, &most)) ? (int32_t)most : 0;
}

static void context_text(int32_t context, char text[32]) {
    if (context == -SWEEP_RAGGED)
        strcpy(text, "ragged");
    else
        snprintf(text, 32, "%s%d", context < 0 ? "ragged:" : "", abs(context));
}

/* Adds a text unless it is there. */
static void add_text(json_t *list, const char *text) {
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one) {
        if (strcmp(json_string_value(one), text) == 0) return;
    }
    json_array_append_new(list, json_text(text));
}

static enum exit_code add_numbers(const struct command_line *line, enum sweep_list list, const char *text, json_t *to) {
    int32_t *values = NULL;
    size_t count = 0;
    enum exit_code code = shape_numbers(line, sweep_list_names[list], text, list_most[list],
                                        list == LIST_CONTEXT ? ", or ragged, ragged:N" : "", &values, &count);
    for (size_t i = 0; i < count; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", values[i]);
        json_array_append_new(to, must(json_string(number)));
    }
    free(values);
    return code;
}

/* Words of their own (models, ragged) into list, the others, with commas between, into numbers. */
static enum exit_code sort_words(const struct command_line *line, enum sweep_list list, char *copy, json_t *to,
                                 char *numbers) {
    for (char *word = copy, *next; word != NULL; word = next) {
        char plain[32];
        next = strchr(word, ',');
        if (next != NULL) *next++ = '\0';
        int32_t ragged = list == LIST_CONTEXT ? read_ragged(word) : 0;
        if (list == LIST_MODEL && (word[0] == '\0' || strlen(word) >= sizeof((struct sweep_point *)NULL)->model))
            return usage_error(line, "--model: names with one comma between two ('dcpk ls models' has them)");
        if (ragged > 0) context_text(-ragged, plain);
        if (list == LIST_MODEL || ragged > 0)
            add_text(to, ragged > 0 ? plain : word);
        else
            sprintf(numbers + strlen(numbers), "%s%s", numbers[0] != '\0' ? "," : "", word[0] != '\0' ? word : "0");
    }
    return EXIT_DONE;
}

json_t *sweep_list_read(const struct command_line *line, enum sweep_list list, const char *text) {
    json_t *plain = must(json_array()), *words = must(json_array());
    char *copy = must(strdup(text)), *numbers = must(calloc(2 * strlen(text) + 2, 1));
    enum exit_code code = sort_words(line, list, copy, words, numbers);
    if (code == EXIT_DONE && numbers[0] != '\0') code = add_numbers(line, list, numbers, plain);
    json_array_extend(plain, words);
    json_decref(words);
    free(numbers);
    free(copy);
    if (code == EXIT_DONE) return plain;
    json_decref(plain);
    return NULL;
}

/* ---- points -------------------------------------------------------------------------------------- */

void sweep_point_text(const struct sweep_point *point, char text[POINT_TEXT]) {
    char context[32];
    context_text(point->context, context);
    snprintf(text, POINT_TEXT, "model=%s tp=%d dcp=%d batch=%d q=%d context=%s", point->model, point->tp, point->dcp,
             point->batch, point->q, context);
}

static bool same(const struct sweep_point *a, const struct sweep_point *b) {
    return strcmp(a->model, b->model) == 0 && a->tp == b->tp && a->dcp == b->dcp && a->batch == b->batch &&
           a->q == b->q && a->context == b->context;
}

static void set_member(struct sweep_point *point, enum sweep_list list, const char *word) {
    int32_t *const members[] = {NULL, &point->tp, &point->dcp, &point->batch, &point->q, &point->context};
    uint64_t value = 0;
    if (list == LIST_MODEL)
        snprintf(point->model, sizeof point->model, "%s", word);
    else if (word_number(word, SWEEP_MAX_CONTEXT, &value))
        *members[list] = (int32_t)value;
    else
        *members[list] = -read_ragged(word);
}

static void add_point(struct sweep_points *points, const struct sweep_point *point, size_t before) {
    for (size_t i = 0; i < before; i++)
        if (same(&points->at[i], point)) return;
    if (points->count == points->room) {
        points->room = points->room * 2 + 64;
        points->at = must(realloc(points->at, points->room * sizeof *points->at));
    }
    points->at[points->count++] = *point;
}

static void add_below(struct sweep_points *points, const json_t *lists, int list, struct sweep_point *point,
                      size_t before) {
    size_t i;
    json_t *word;
    if (list == SWEEP_LISTS) {
        add_point(points, point, before);
        return;
    }
    json_array_foreach(json_object_get(lists, sweep_list_names[list]), i, word) {
        set_member(point, (enum sweep_list)list, json_string_value(word));
        add_below(points, lists, list + 1, point, before);
    }
}

bool sweep_points_fit(const struct command_line *line, size_t count, const json_t *lists) {
    double product = 1;
    for (int list = 0; list < SWEEP_LISTS; list++)
        product *= (double)json_array_size(json_object_get(lists, sweep_list_names[list]));
    if ((double)count + product <= SWEEP_MAX_POINTS) return true;
    usage_error(line, "the lists make more than %d points", SWEEP_MAX_POINTS);
    return false;
}

/* A word as sweep_list_read leaves it. */
static bool is_word(int list, const json_t *word) {
    const char *text = json_string_value(word);
    uint64_t value = 0;
    if (text == NULL) return false;
    if (list == LIST_MODEL) return text[0] != '\0' && strlen(text) < sizeof((struct sweep_point *)NULL)->model;
    if (list == LIST_CONTEXT && read_ragged(text) > 0) return true;
    return word_number(text, (uint64_t)list_most[list], &value) && value > 0;
}

/* Lists may come from sweep.json, which an editor may have had. False after a message. */
static bool are_words(const struct command_line *line, const json_t *lists) {
    size_t i;
    json_t *word;
    for (int list = 0; list < SWEEP_LISTS; list++)
        json_array_foreach(json_object_get(lists, sweep_list_names[list]), i, word) {
            if (is_word(list, word)) continue;
            complain(line, "sweep.json: element %zu of a list '%s' is none: choose another folder (-o)", i,
                     sweep_list_names[list]);
            return false;
        }
    return true;
}

bool sweep_points_add(const struct command_line *line, struct sweep_points *points, const json_t *lists) {
    struct sweep_point point = {.tp = 1};
    if (!are_words(line, lists) || !sweep_points_fit(line, points->count, lists)) return false;
    add_below(points, lists, 0, &point, points->count);
    return true;
}

void sweep_points_free(struct sweep_points *points) {
    free(points->at);
    *points = (struct sweep_points){NULL, 0, 0};
}

/* ---- rules --------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static bool refuse(char *why, size_t capacity, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(why, capacity, format, list);
    va_end(list);
    return false;
}

bool sweep_point_ordered(const struct sweep_request *request, const struct sweep_point *point) {
    if (point->dcp == 1 || request->ranks == RANKS_SHARES) return false;
    return request->ranks == RANKS_ORDERED || (request->cuda && request->devices < point->dcp);
}

bool sweep_point_keys(dcpk_gen *gen, const struct sweep_request *request, const struct sweep_point *point,
                      dcpk_spec *keys, char *why, size_t capacity) {
    dcpk_error error;
    dcpk_error_init(&error);
    *keys = request->keys;
    keys->dcp = point->dcp;
    keys->batch = point->batch;
    keys->q = point->q;
    if (dcpk_gen_model(gen, point->model, point->tp, keys, &error) != DCPK_OK)
        return refuse(why, capacity, "%s", error.text);
    if (preset_shares(point->tp, point->dcp, &error) != DCPK_OK) return refuse(why, capacity, "%s", error.text);
    if (point->batch % point->q != 0)
        return refuse(why, capacity, "q divides batch (batch = requests * q); batch=%d q=%d", point->batch, point->q);
    const struct cpu_variable *devices = &request->choice.variables[CPU_DEVICES];
    if (request->choice.for_cpu && devices->given && devices->value < (uint64_t)point->dcp)
        return refuse(why, capacity, "DCPK_CPU_DEVICES=%d: dcp=%d is that many ranks with a device each",
                      (int)devices->value, point->dcp);
    if (sweep_point_ordered(request, point)) {
        if (keys->poll == DCPK_UNSET) keys->poll = 0;
        if (keys->split == DCPK_UNSET) keys->split = 1;
    }
    if (keys->sms == DCPK_UNSET && request->ranks != RANKS_SHARES) keys->sms = request->sms;
    dcpk_spec specs[PHASE_COUNT]; /* the rules of every kernel that the form launches */
    uint32_t count = 0;
    if (layer_phase_specs(keys, request->form, specs, &count, &error) == DCPK_OK) return true;
    return refuse(why, capacity, "%s", error.text);
}

int32_t sweep_point_contexts(const struct sweep_request *request, const struct sweep_point *point,
                             int32_t contexts[512]) {
    struct random random;
    if (point->context > 0) {
        contexts[0] = point->context;
        return 1;
    }
    random_seed(&random, request->seed);
    for (int32_t i = 0; i < point->batch / point->q; i++) {
        uint32_t length = 1 + random_below(&random, (uint32_t)-point->context);
        bool padding = random_below(&random, 8) == 0 && i > 0;
        contexts[i] = padding ? 0 : (int32_t)length;
    }
    return point->batch / point->q;
}
