/* image_meta.c - the launch metadata of an image as text lines: writer and strict reader.
 * Owns the metadata's grammar: one "word value..." a line, in one fixed order. May not read anything but the text. */
#include "runtime/image_format.h"

#include "runtime/buffer.h"
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *image_meta_write(const char *spec, const char *target, uint32_t ptx_version, const dcpk_entry_info *entries,
                       uint32_t entry_count, bool resources, size_t *length) {
    struct buffer b = {0};
    buffer_format(&b, "spec %s\ntarget %s\nptx %u\nentries %u\n", spec, target, ptx_version, entry_count);
    for (uint32_t i = 0; i < entry_count; i++) {
        const dcpk_entry_info *e = &entries[i];
        buffer_format(&b, "entry %s\ngrid %u %u %u\nblock %u %u %u\ncluster %u %u %u\n", e->name, e->grid[0],
                      e->grid[1], e->grid[2], e->block[0], e->block[1], e->block[2], e->cluster[0], e->cluster[1],
                      e->cluster[2]);
        buffer_format(&b, "dynamic_shared %u\nwaits %u\nresident %u\n", e->dynamic_shared, e->waits, e->resident);
        if (resources)
            buffer_format(&b, "static_shared %u\nregisters %u\nlocal %u\n", e->static_shared, e->registers,
                          e->local_bytes);
        buffer_format(&b, "params %u\n", e->param_count);
        for (uint32_t p = 0; p < e->param_count; p++)
            buffer_format(&b, "param %s %s\n", e->params[p].type, e->params[p].name);
    }
    if (b.failed) {
        buffer_free(&b);
        return NULL;
    }
    *length = b.length;
    return b.data;
}

/* A place in the text; `line` counts from 1, `failed` sticks. */
struct reader {
    const char *at, *end;
    unsigned line;
    bool failed;
    const char *wanted; /* what the line that failed should have been */
};

/* The rest of a line that begins with word and a blank. */
static const char *take(struct reader *r, const char *word, size_t *length) {
    if (r->failed) return NULL;
    r->line++;
    size_t skip = strlen(word);
    const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
    r->wanted = word;
    if (!newline || (size_t)(newline - r->at) < skip + 2 || memcmp(r->at, word, skip) != 0 || r->at[skip] != ' ') {
        r->failed = true;
        return NULL;
    }
    const char *rest = r->at + skip + 1;
    *length = (size_t)(newline - rest);
    r->at = newline + 1;
    return rest;
}

/* Decimal numbers without sign or leading zeros, one blank between two. */
static void take_numbers(struct reader *r, const char *word, uint32_t *values, int count) {
    size_t length = 0;
    const char *text = take(r, word, &length);
    size_t at = 0;
    for (int i = 0; i < count && !r->failed; i++) {
        size_t begin = at;
        uint64_t value = 0;
        while (at < length && text[at] >= '0' && text[at] <= '9' && at - begin < 10)
            value = value * 10 + (uint64_t)(text[at++] - '0');
        bool ends = i == count - 1 ? at == length : at < length && text[at] == ' ';
        if (at == begin || (text[begin] == '0' && at != begin + 1) || value > UINT32_MAX || !ends) r->failed = true;
        at++;
        values[i] = (uint32_t)value;
    }
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

/* One word that fits out with its NUL; out is not touched when reading has failed. */
static void copy_word(struct reader *r, const char *text, size_t length, char *out, size_t capacity) {
    for (size_t i = 0; !r->failed && i < length; i++)
        if (!is_word(text[i])) r->failed = true;
    if (r->failed || length == 0 || length >= capacity) {
        r->failed = true;
        return;
    }
    memcpy(out, text, length);
    out[length] = '\0';
}

static void take_word(struct reader *r, const char *word, char *out, size_t capacity) {
    size_t length = 0;
    const char *text = take(r, word, &length);
    copy_word(r, text, length, out, capacity);
}

static void take_param(struct reader *r, dcpk_param_info *param) {
    static const char *const types[] = {"u32", "s32", "u64", "f32", "map"};
    size_t length = 0;
    const char *text = take(r, "param", &length);
    if (r->failed || length < 5 || text[3] != ' ') {
        r->failed = true;
        return;
    }
    copy_word(r, text, 3, param->type, sizeof param->type);
    copy_word(r, text + 4, length - 4, param->name, sizeof param->name);
    bool known = false;
    for (size_t i = 0; i < sizeof types / sizeof types[0] && !r->failed; i++)
        known |= strcmp(types[i], param->type) == 0;
    r->failed = !known;
}

/* Dimensions that a launch can have. */
static bool sane(const dcpk_entry_info *e) {
    uint64_t threads = (uint64_t)e->block[0] * e->block[1];
    for (int i = 0; i < 3; i++)
        if (!e->grid[i] || !e->block[i] || !e->cluster[i] || e->block[i] > 1024 || e->cluster[i] > 16 ||
            e->grid[i] > 0x7fffffff || e->grid[i] % e->cluster[i] != 0)
            return false;
    return threads * e->block[2] <= 1024 && e->waits <= 1 && e->resident <= 1 && e->registers <= 255;
}

static void take_entry(struct reader *r, dcpk_entry_info *e) {
    e->size = (uint32_t)sizeof *e;
    take_word(r, "entry", e->name, sizeof e->name);
    take_numbers(r, "grid", e->grid, 3);
    take_numbers(r, "block", e->block, 3);
    take_numbers(r, "cluster", e->cluster, 3);
    take_numbers(r, "dynamic_shared", &e->dynamic_shared, 1);
    take_numbers(r, "waits", &e->waits, 1);
    take_numbers(r, "resident", &e->resident, 1);
    take_numbers(r, "static_shared", &e->static_shared, 1);
    take_numbers(r, "registers", &e->registers, 1);
    take_numbers(r, "local", &e->local_bytes, 1);
    if (!r->failed && !sane(e)) {
        r->wanted = "a sane launch";
        r->failed = true;
    }
    take_numbers(r, "params", &e->param_count, 1);
    if (!r->failed && e->param_count > DCPK_IMAGE_MAX_PARAMS) r->failed = true;
    for (uint32_t p = 0; p < e->param_count && !r->failed; p++)
        take_param(r, &e->params[p]);
}

/* Printable ASCII, as spec texts are. */
static void take_spec(struct reader *r, struct image_meta *meta) {
    meta->spec = take(r, "spec", &meta->spec_length);
    for (size_t i = 0; !r->failed && i < meta->spec_length; i++)
        if (meta->spec[i] < ' ' || meta->spec[i] > '~') r->failed = true;
    if (r->failed) return;
    const char *blank = memchr(meta->spec, ' ', meta->spec_length);
    copy_word(r, meta->spec, blank ? (size_t)(blank - meta->spec) : meta->spec_length, meta->kernel,
              sizeof meta->kernel);
}

dcpk_status image_meta_read(const char *text, size_t length, struct image_meta *meta, dcpk_error *error) {
    memset(meta, 0, sizeof *meta);
    struct reader r = {.at = text, .end = text + length, .wanted = "spec"};
    take_spec(&r, meta);
    take_word(&r, "target", meta->target, sizeof meta->target);
    take_numbers(&r, "ptx", &meta->ptx_version, 1);
    take_numbers(&r, "entries", &meta->entry_count, 1);
    if (!r.failed && (meta->entry_count == 0 || meta->entry_count > DCPK_IMAGE_MAX_ENTRIES)) r.failed = true;
    for (uint32_t i = 0; i < meta->entry_count && !r.failed; i++)
        take_entry(&r, &meta->entries[i]);
    if (!r.failed && r.at != r.end) {
        r.line++;
        r.wanted = "nothing more";
        r.failed = true;
    }
    if (r.failed)
        return dcpk_error_set(error, DCPK_E_CACHE, "the image's metadata is damaged: line %u should hold %s", r.line,
                              r.wanted);
    return DCPK_OK;
}
