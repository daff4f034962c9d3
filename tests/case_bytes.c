/* case_bytes.c - see case_bytes.h. */
#include "tests/case_bytes.h"
#include "tests/tensor_bytes.h"

#include <tools/case_file.h>
#include <tools/numbers.h>
#include <check.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t width_of(const char *dtype) {
    static const struct {
        const char *name;
        size_t width;
    } widths[] = {{"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"BF16", 2}, {"F16", 2},
                  {"I32", 4}, {"F32", 4}, {"U32", 4},     {"I64", 8},  {"U64", 8}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        if (strcmp(dtype, widths[i].name) == 0) return widths[i].width;
    }
    ck_abort_msg("no width of %s", dtype);
}

void model_reshape(struct model_tensor *tensor, int dimensions, const uint64_t *shape) {
    tensor->dimensions = dimensions;
    tensor->bytes = width_of(tensor->dtype);
    for (int i = 0; i < dimensions; i++) {
        tensor->shape[i] = shape[i];
        tensor->bytes *= shape[i];
    }
    free(tensor->data);
    tensor->data = calloc(1, tensor->bytes + 1);
    ck_assert_ptr_nonnull(tensor->data);
}

struct model_tensor *model_add(struct model *model, const char *name, const char *dtype, int dimensions,
                               const uint64_t *shape) {
    ck_assert_int_lt(model->count, 160);
    struct model_tensor *tensor = &model->tensors[model->count++];
    memset(tensor, 0, sizeof *tensor);
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->dtype = dtype;
    model_reshape(tensor, dimensions, shape);
    return tensor;
}

static struct model_tensor *add(struct model *model, const char *dtype, int a, int b, int c, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Random bytes; b, c < 0: fewer dimensions. */
static struct model_tensor *add(struct model *model, const char *dtype, int a, int b, int c, const char *format, ...) {
    char name[32];
    uint64_t shape[] = {(uint64_t)a, (uint64_t)b, (uint64_t)c};
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    struct model_tensor *tensor = model_add(model, name, dtype, b < 0 ? 1 : c < 0 ? 2 : 3, shape);
    struct random random;
    uint64_t seed = strstr(name, "_norm") || strstr(name, "_b") ? 0 : model->is.salt;
    for (const char *letter = name; *letter; letter++) {
        seed = seed * 131 + (unsigned char)*letter;
    }
    random_seed(&random, seed);
    for (size_t i = 0; i < tensor->bytes; i += 8) {
        uint64_t eight = random_next(&random);
        memcpy((char *)tensor->data + i, &eight, tensor->bytes - i < 8 ? tensor->bytes - i : 8);
    }
    return tensor;
}

static void optional(struct model_tensor *tensor) {
    tensor->optional = true;
}

/* Tables and slots by walking over every token of every request. */
static void add_places(struct model *model, int r) {
    const struct model_shape *is = &model->is;
    int requests = is->batch / is->q, columns = 0, pages = 0;
    int locals[16];
    for (int i = 0; i < requests; i++) {
        locals[i] = 0;
        for (int position = 0; position < is->totals[i]; position++) {
            locals[i] += position / is->interleave % is->dcp == r;
        }
        int live = (locals[i] + is->page - 1) / is->page;
        columns = live > columns ? live : columns;
        pages += live;
    }
    int spare = pages > 0; /* an unused page and an unused column, unless the shard is empty */
    add(model, "U8", pages + spare, is->page, 576, "rank%d.kv_cache", r);
    if (is->expected) optional(add(model, "U8", pages + spare, is->page, 576, "rank%d.kv_cache_after", r));
    struct model_tensor *tensor = add(model, "I32", requests, columns + spare, -1, "rank%d.block_table", r);
    int32_t *table = tensor->data;
    int64_t *slots = add(model, "I64", is->batch, -1, -1, "rank%d.slots", r)->data;
    memset(table, 0xFF, tensor->bytes);
    memset(slots, 0xFF, (size_t)is->batch * 8);
    for (int i = 0; i < requests; i++) {
        int local = 0, base = i * (columns + spare);
        for (int position = 0; position < is->totals[i]; position++) {
            if (position / is->interleave % is->dcp != r) continue;
            if (local % is->page == 0) table[base + local / is->page] = pages--; /* from the last to page 1 */
            if (position >= is->totals[i] - is->q) {
                slots[i * is->q + position - (is->totals[i] - is->q)] =
                    (int64_t)table[base + local / is->page] * is->page + local % is->page;
            }
            local++;
        }
    }
}

static void add_rank(struct model *model, int r) {
    const struct model_shape *is = &model->is;
    int row = is->q_lora + 576 + (is->gate ? is->heads * 128 : 0) + is->padding, all = is->heads * is->dcp;
    if (is->expected) {
        optional(add(model, "BF16", is->batch, all, 512, "rank%d.rows", r));
        optional(add(model, "F32", is->batch, all, -1, "rank%d.rows_lse", r));
        optional(add(model, "BF16", is->batch, is->heads * 128, -1, "rank%d.output", r));
    }
    add(model, "BF16", is->batch, row, -1, "rank%d.qkv", r);
    add(model, "BF16", is->heads * 256, 512, -1, "rank%d.kv_b", r);
    if (is->q_lora) {
        add(model, "BF16", is->heads * 192, 1536, -1, "rank%d.w_q_b", r);
    } else {
        add(model, "BF16", is->batch, is->heads * 192, -1, "rank%d.qf", r);
    }
    add_places(model, r);
}

static void set_number(struct model *model, const char *key, int number) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    model_set(model, key, text);
}

void model_make(struct model *model, const struct model_shape *shape) {
    const struct model_shape *is = &model->is;
    memset(model, 0, sizeof *model);
    model->is = *shape;
    model_set(model, "format", "dcpk-case-1");
    set_number(model, "heads", is->heads);
    set_number(model, "dcp", is->dcp);
    set_number(model, "batch", is->batch);
    set_number(model, "q", is->q);
    set_number(model, "page", is->page);
    set_number(model, "interleave", is->interleave);
    set_number(model, "q_lora", is->q_lora);
    set_number(model, "gate", is->gate);
    model_set(model, "rope", is->rope);
    model_set(model, "cap", "64");
    model_set(model, "eps", "1e-06");
    model_set(model, "softmax_scale", "0.07216878364870322");
    model_set(model, "q_scale_inv", "1");
    model_set(model, "k_scale_inv", "0.5");
    for (int r = 0; r < is->dcp; r++) {
        add_rank(model, r);
    }
    if (is->expected) optional(add(model, "U8", is->batch, is->dcp * is->heads, 576, "query"));
    if (strcmp(is->rope, "none") != 0) add(model, "F32", is->batch, 64, -1, "cos_sin");
    add(model, "BF16", 512, -1, -1, "kv_a_norm");
    if (is->q_lora) add(model, "BF16", 1536, -1, -1, "q_a_norm");
    int32_t *totals = add(model, "I32", is->batch / is->q, -1, -1, "totals")->data;
    for (int i = 0; i < is->batch / is->q; i++) {
        totals[i] = is->totals[i];
    }
}

void model_free(struct model *model) {
    for (int i = 0; i < model->count; i++) {
        free(model->tensors[i].data);
    }
    model->count = 0;
}

struct model_tensor *model_find(struct model *model, const char *name) {
    for (int i = 0; i < model->count; i++) {
        if (strcmp(model->tensors[i].name, name) == 0) return &model->tensors[i];
    }
    return NULL;
}

const char *model_text(const struct model *model, const char *key) {
    for (int i = 0; i < model->text_count; i++) {
        if (strcmp(model->texts[i].key, key) == 0) return model->texts[i].value;
    }
    return NULL;
}

void model_set(struct model *model, const char *key, const char *value) {
    int i = 0;
    while (i < model->text_count && strcmp(model->texts[i].key, key) != 0) {
        i++;
    }
    if (value == NULL) {
        ck_assert_int_lt(i, model->text_count);
        model->texts[i] = model->texts[--model->text_count];
        return;
    }
    ck_assert_int_lt(i, 32);
    model->text_count += i == model->text_count;
    snprintf(model->texts[i].key, sizeof model->texts[i].key, "%s", key);
    snprintf(model->texts[i].value, sizeof model->texts[i].value, "%s", value);
}

void model_emit(const struct model *model, const char *without) {
    static char header[65536];
    size_t at = 0, size = 0;
    for (int i = 0; i < model->count; i++) {
        size += model->tensors[i].bytes;
    }
    char *data = malloc(size + 1);
    ck_assert_ptr_nonnull(data);
    size = 0;
    at += (size_t)sprintf(header + at, "{\"__metadata__\":{");
    for (int i = 0; i < model->text_count; i++) {
        at += (size_t)sprintf(header + at, "%s\"%s\":\"%s\"", i ? "," : "", model->texts[i].key, model->texts[i].value);
    }
    at += (size_t)sprintf(header + at, "}");
    for (int i = 0; i < model->count; i++) {
        const struct model_tensor *tensor = &model->tensors[i];
        if (without != NULL && strcmp(tensor->name, without) == 0) continue;
        at += (size_t)sprintf(header + at, ",\n \"%s\": {\"shape\": [", tensor->name);
        for (int d = 0; d < tensor->dimensions; d++) {
            at += (size_t)sprintf(header + at, "%s%llu", d ? "," : "", (unsigned long long)tensor->shape[d]);
        }
        at += (size_t)sprintf(header + at, "], \"dtype\": \"%s\", \"data_offsets\": [%zu, %zu]}", tensor->dtype, size,
                              size + tensor->bytes);
        memcpy(data + size, tensor->data, tensor->bytes);
        size += tensor->bytes;
    }
    sprintf(header + at, "}");
    bytes_tensors(header, data, size);
    free(data);
}

void model_is(const struct model *model, const char *path) {
    size_t size;
    unsigned char *bytes = bytes_get(path, &size);
    ck_assert_uint_gt(size, 8);
    size_t base = 8 + (bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16);
    ck_assert_uint_le(base, size);
    ck_assert_uint_eq(base % 8, 0);
    json_t *header = json_loadb((const char *)bytes + 8, base - 8, 0, NULL);
    ck_assert_ptr_nonnull(header);
    json_t *metadata = json_object_get(header, "__metadata__");
    ck_assert_int_eq((int)json_object_size(metadata), model->text_count);
    for (int i = 0; i < model->text_count; i++) {
        ck_assert_str_eq(json_string_value(json_object_get(metadata, model->texts[i].key)), model->texts[i].value);
    }
    ck_assert_int_eq((int)json_object_size(header), model->count + 1);
    for (int i = 0; i < model->count; i++) {
        const struct model_tensor *tensor = &model->tensors[i];
        const json_t *entry = json_object_get(header, tensor->name), *shape = json_object_get(entry, "shape");
        ck_assert_msg(entry != NULL, "no tensor %s", tensor->name);
        ck_assert_str_eq(json_string_value(json_object_get(entry, "dtype")), tensor->dtype);
        ck_assert_int_eq((int)json_array_size(shape), tensor->dimensions);
        for (int d = 0; d < tensor->dimensions; d++) {
            ck_assert_uint_eq((uint64_t)json_integer_value(json_array_get(shape, (size_t)d)), tensor->shape[d]);
        }
        const json_t *offsets = json_object_get(entry, "data_offsets");
        size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
        ck_assert_uint_eq((size_t)json_integer_value(json_array_get(offsets, 1)), begin + tensor->bytes);
        ck_assert_uint_le(base + begin + tensor->bytes, size);
        ck_assert_uint_eq(begin % width_of(tensor->dtype), 0); /* aligned */
        ck_assert_msg(memcmp(bytes + base + begin, tensor->data, tensor->bytes) == 0, "%s differs", tensor->name);
    }
    json_decref(header);
    free(bytes);
}

/* ---- the reader's word -------------------------------------------------------------------------------- */

char case_why[SAFETENSORS_SENTENCE];

static void fail_if_called(void *self, const char *text) {
    (void)self;
    ck_abort_msg("warned of a case that is refused: %s", text);
}

void case_says(const char *texts) {
    char list[256];
    snprintf(list, sizeof list, "%s", texts);
    for (char *state, *text = strtok_r(list, "|", &state); text != NULL; text = strtok_r(NULL, "|", &state)) {
        ck_assert_msg(strstr(case_why, text) != NULL, "no '%s' in: %s", text, case_why);
    }
    ck_assert_uint_gt(strlen(case_why), 0);
    for (const char *c = case_why; *c; c++) {
        ck_assert_msg(*c >= ' ' && *c <= '~', "byte %d in: %s", *c, case_why);
    }
}

void case_refused(const char *texts) {
    struct layer_case *layer = NULL;
    case_why[0] = '\0';
    bool read = layer_case_read(bytes_path, &layer, fail_if_called, NULL, case_why);
    ck_assert_msg(!read, "read, but wanted '%s'", texts);
    ck_assert_ptr_null(layer);
    case_says(texts);
}

struct layer_case *case_accepted(void) {
    struct layer_case *layer = NULL;
    ck_assert_msg(layer_case_read(bytes_path, &layer, NULL, NULL, case_why), "%s", case_why);
    return layer;
}

void model_refused(const struct model *model, const char *texts) {
    model_emit(model, NULL);
    case_refused(texts);
}

void model_accepted(const struct model *model) {
    model_emit(model, NULL);
    layer_case_free(case_accepted());
}
