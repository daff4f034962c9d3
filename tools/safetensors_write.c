/* safetensors_write.c - the writing half of safetensors.h. May call jansson and whole_file. */
#include <tools/safetensors.h>

#include <tools/whole_file.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Where an item's data goes: its number, and its bytes. */
struct place {
    size_t item;
    uint64_t bytes, width;
};

static int wide_first(const void *left, const void *right) {
    const struct place *a = left, *b = right;
    if (a->width != b->width) return a->width > b->width ? -1 : 1;
    return a->item < b->item ? -1 : 1;
}

static bool place_items(const struct safetensors_item *items, size_t count, struct place *places, char *why) {
    for (size_t i = 0; i < count; i++) {
        const struct safetensors_item *item = &items[i];
        places[i].item = i;
        for (size_t d = 0; d < item->dimensions && d < SAFETENSORS_DIMENSIONS; d++) {
            if (item->shape[d] > INT64_MAX) {
                return safetensors_refuse(why, "tensor '%.80s': shape[%zu] is past 2^63", item->name, d);
            }
        }
        if (item->dimensions > SAFETENSORS_DIMENSIONS ||
            !safetensors_bytes(item->dtype, item->shape, item->dimensions, &places[i].bytes)) {
            return safetensors_refuse(why, "tensor '%.80s': its shape in %s is too long, too large or not whole bytes",
                                      item->name, safetensors_dtype_name(item->dtype));
        }
        if (item->data == NULL && places[i].bytes > 0) {
            return safetensors_refuse(why, "tensor '%.80s' has no data", item->name);
        }
        uint64_t eight[] = {8}, width = 0; /* bytes of 8 elements: whole for every dtype */
        safetensors_bytes(item->dtype, eight, 1, &width);
        places[i].width = width;
    }
    qsort(places, count, sizeof *places, wide_first);
    return true;
}

static json_t *entry_of(const struct safetensors_item *item, uint64_t begin, uint64_t end) {
    json_t *shape = json_array();
    for (size_t i = 0; i < item->dimensions; i++) {
        json_array_append_new(shape, json_integer((json_int_t)item->shape[i]));
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", safetensors_dtype_name(item->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static bool add_texts(json_t *header, const struct safetensors_text *texts, size_t count, char *why) {
    json_t *metadata = json_object();
    json_object_set_new(header, "__metadata__", metadata);
    for (size_t i = 0; i < count; i++) {
        if (json_object_get(metadata, texts[i].key) != NULL) {
            return safetensors_refuse(why, "metadata '%.80s' is given twice", texts[i].key);
        }
        if (json_object_set_new(metadata, texts[i].key, json_string(texts[i].value)) != 0) {
            return safetensors_refuse(why, "metadata '%.80s': key and value must be UTF-8", texts[i].key);
        }
    }
    return true;
}

static bool add_items(json_t *header, const struct safetensors_item *items, const struct place *places, size_t count,
                      char *why) {
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const struct safetensors_item *item = &items[places[i].item];
        if (strcmp(item->name, "__metadata__") == 0 || json_object_get(header, item->name) != NULL) {
            return safetensors_refuse(why, "tensor '%.80s' is given twice, or is a name of the format", item->name);
        }
        if (places[i].bytes > INT64_MAX - at) {
            return safetensors_refuse(why, "tensor '%.80s' ends past 2^63 bytes", item->name);
        }
        if (json_object_set_new(header, item->name, entry_of(item, at, at + places[i].bytes)) != 0) {
            return safetensors_refuse(why, "tensor '%.80s': its name must be UTF-8", item->name);
        }
        at += places[i].bytes;
    }
    return true;
}

/* Length and text, the text filled up with spaces to a multiple of 8. */
static bool write_file(const char *path, const json_t *header, const struct safetensors_item *items,
                       const struct place *places, size_t count, char *why) {
    char *text = json_dumps(header, JSON_COMPACT);
    struct file_part *parts = calloc(count + 3, sizeof *parts);
    bool good = text != NULL && parts != NULL;
    if (!good) {
        safetensors_refuse(why, "out of memory");
        goto out;
    }
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    unsigned char little[8];
    for (int i = 0; i < 8; i++) {
        little[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    }
    if (padded > SAFETENSORS_HEADER_MOST) {
        good = safetensors_refuse(why, "the header would have %zu bytes, more than readers take", padded);
        goto out;
    }
    parts[0] = (struct file_part){little, sizeof little};
    parts[1] = (struct file_part){text, length};
    parts[2] = (struct file_part){"        ", padded - length};
    for (size_t i = 0; i < count; i++) {
        parts[3 + i] = (struct file_part){items[places[i].item].data, (size_t)places[i].bytes};
    }
    good = whole_file_write(path, parts, count + 3) || safetensors_refuse(why, "cannot write it: %s", strerror(errno));
out:
    free(parts);
    free(text);
    return good;
}

bool safetensors_write(const char *path, const struct safetensors_text *texts, size_t text_count,
                       const struct safetensors_item *items, size_t count, char why[SAFETENSORS_SENTENCE]) {
    struct place *places = calloc(count + 1, sizeof *places);
    json_t *header = json_object();
    bool good = false;
    if (places == NULL || header == NULL) {
        safetensors_refuse(why, "out of memory");
    } else {
        good = (text_count == 0 || add_texts(header, texts, text_count, why)) &&
               place_items(items, count, places, why) && add_items(header, items, places, count, why) &&
               write_file(path, header, items, places, count, why);
    }
    json_decref(header);
    free(places);
    return good;
}
