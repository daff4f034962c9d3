/* case_read.c - the reading half of case_file.h. First every name, type and shape, then the data, then the rules
 * between numbers. */
#include <tools/case_inside.h>

#include <stdio.h>
#include <stdlib.h>

struct reader {
    struct safetensors file;
    struct layer_case *layer;
    bool *used;                                 /* by tensor of the file */
    int64_t sizes[LAYER_MAX_RANKS][SIZE_COUNT]; /* those that only shapes say: -1 until one says it */
    char *why;
};

/* ---- shapes ------------------------------------------------------------------------------------------ */

static void found_shape(const struct safetensors_tensor *tensor, char text[CASE_SHAPE]) {
    enum { MOST = 6 }; /* no tensor of a case has more than half of that */
    int at = snprintf(text, CASE_SHAPE, "%s [", safetensors_dtype_name(tensor->dtype));
    for (size_t i = 0; i < tensor->dimensions && i < MOST; i++) {
        at += snprintf(text + at, CASE_SHAPE - (size_t)at, "%s%llu", i > 0 ? ", " : "",
                       (unsigned long long)tensor->shape[i]);
    }
    snprintf(text + at, CASE_SHAPE - (size_t)at, "%s]", tensor->dimensions > MOST ? ", ..." : "");
}

/* A size that nothing said yet is the file's. */
static bool fits(const struct case_row *row, const struct safetensors_tensor *tensor, int64_t sizes[SIZE_COUNT]) {
    bool good = tensor->dtype == row->dtype && tensor->dimensions == case_row_dimensions(row);
    for (size_t i = 0; good && i < tensor->dimensions; i++) {
        int64_t *size = &sizes[row->size[i]];
        if (*size < 0 && tensor->shape[i] <= INT32_MAX) *size = (int64_t)tensor->shape[i];
        good = *size >= 0 && tensor->shape[i] == (uint64_t)*size;
    }
    return good;
}

static bool match(struct reader *reader, const struct case_row *row, int32_t rank) {
    char name[CASE_NAME], wanted[CASE_SHAPE], found[CASE_SHAPE];
    if (!case_row_used(row, reader->layer)) return true;
    case_row_name(row, rank, name);
    case_row_shape(row, reader->sizes[rank], wanted);
    const struct safetensors_tensor *tensor = safetensors_find(&reader->file, name);
    if (tensor == NULL) {
        return row->need == NEED_EXPECTED ||
               safetensors_refuse(reader->why, "tensor '%s' is missing; it must be %s", name, wanted);
    }
    if (!fits(row, tensor, reader->sizes[rank])) {
        found_shape(tensor, found);
        return safetensors_refuse(reader->why, "tensor '%s' is %s; it must be %s", name, found, wanted);
    }
    reader->used[tensor - reader->file.tensors] = true;
    return true;
}

/* ---- data -------------------------------------------------------------------------------------------- */

static bool load(struct reader *reader, const struct case_row *row, int32_t rank) {
    char name[CASE_NAME];
    case_row_name(row, rank, name);
    const struct safetensors_tensor *tensor = safetensors_find(&reader->file, name);
    if (tensor == NULL || !reader->used[tensor - reader->file.tensors]) return true;
    void *data = malloc(tensor->bytes > 0 ? (size_t)tensor->bytes : 1);
    if (data == NULL) {
        return safetensors_refuse(reader->why, "tensor '%s': no memory for its %llu bytes", name,
                                  (unsigned long long)tensor->bytes);
    }
    case_set_pointer(row, reader->layer, rank, data); /* the case's from here on */
    return safetensors_read(&reader->file, tensor, data, reader->why);
}

static bool each(struct reader *reader, bool (*visit)(struct reader *, const struct case_row *, int32_t)) {
    bool good = true;
    for (size_t i = 0; good && i < case_row_count; i++) {
        for (int32_t r = 0; good && r < case_row_ranks(&case_rows[i], reader->layer); r++) {
            good = visit(reader, &case_rows[i], r);
        }
    }
    return good;
}

static void begin_sizes(struct reader *reader) {
    for (int32_t r = 0; r < reader->layer->dcp; r++) {
        int64_t *sizes = reader->sizes[r];
        case_sizes(reader->layer, r, sizes);
        sizes[SIZE_PITCH] = sizes[SIZE_PAGES] = sizes[SIZE_MAX_PAGES] = -1;
    }
}

static void store_sizes(struct reader *reader) {
    for (int32_t r = 0; r < reader->layer->dcp; r++) {
        const int64_t *sizes = reader->sizes[r];
        struct layer_rank_step *in = &reader->layer->steps[0].rank[r];
        in->pitch = (size_t)sizes[SIZE_PITCH];
        in->max_pages = (int32_t)sizes[SIZE_MAX_PAGES];
        reader->layer->rank[r].pages = (int32_t)sizes[SIZE_PAGES];
    }
}

/* ---- what is left over ------------------------------------------------------------------------------- */

struct leftover {
    char text[SAFETENSORS_SENTENCE];
    size_t length, more; /* more: names that found no room */
};

static void add_leftover(struct leftover *left, const char *kind, const char *name) {
    enum { ENOUGH = SAFETENSORS_SENTENCE - 120 };
    if (left->length > ENOUGH) {
        left->more++;
        return;
    }
    left->length +=
        (size_t)snprintf(left->text + left->length, sizeof left->text - left->length, "%s%s '%.60s'",
                         left->length > 0 ? ", " : "ignored, for this case has no use for it: ", kind, name);
}

static void warn_of_leftover(const struct reader *reader, case_warn_fn *warn, void *self) {
    struct leftover left = {.length = 0};
    for (size_t i = 0; i < reader->file.text_count; i++) {
        const char *key = reader->file.texts[i].key;
        if (!case_metadata_known(key)) add_leftover(&left, "metadata", key);
    }
    for (size_t i = 0; i < reader->file.count; i++) {
        if (!reader->used[i]) add_leftover(&left, "tensor", reader->file.tensors[i].name);
    }
    if (left.length == 0 || warn == NULL) return;
    if (left.more > 0) {
        snprintf(left.text + left.length, sizeof left.text - left.length, " and %zu more", left.more);
    }
    warn(self, safetensors_printable(left.text));
}

static bool read_layer(struct reader *reader) {
    struct layer_case *layer = reader->layer;
    reader->used = calloc(reader->file.count + 1, sizeof *reader->used);
    if (reader->used == NULL || layer_case_step(layer) == NULL) return safetensors_refuse(reader->why, "out of memory");
    if (!case_metadata_read(&reader->file, layer, reader->why) || !case_check_sizes(layer, reader->why)) return false;
    begin_sizes(reader);
    if (!each(reader, match)) return false;
    store_sizes(reader);
    return each(reader, load) && case_check(layer, reader->why);
}

bool layer_case_read(const char *path, struct layer_case **out, case_warn_fn *warn, void *self,
                     char why[SAFETENSORS_SENTENCE]) {
    struct reader reader = {.why = why};
    *out = NULL;
    if (!safetensors_open(path, &reader.file, why)) return false;
    reader.layer = calloc(1, sizeof *reader.layer);
    bool good = reader.layer != NULL ? read_layer(&reader) : safetensors_refuse(why, "out of memory");
    if (good) {
        warn_of_leftover(&reader, warn, self);
        *out = reader.layer;
    } else {
        layer_case_free(reader.layer);
    }
    free(reader.used);
    safetensors_close(&reader.file);
    return good;
}
