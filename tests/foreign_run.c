/* foreign_run.c - cases of foreign.h on a device, and the judgement of what they left. */
#include "tests/foreign.h"

#include <dcpk/module.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_text(const char *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.ptx", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    char *text = malloc((size_t)length + 1);
    bool good = text != NULL && fread(text, 1, (size_t)length, file) == (size_t)length;
    fclose(file);
    if (!good) {
        free(text);
        return NULL;
    }
    text[length] = '\0';
    return text;
}

/* ---- run ---- */
static dcpk_status place(struct foreign_case *c, dcpk_device *device, dcpk_error *error) {
    for (unsigned i = 0; i < c->count; i++) {
        struct foreign_param *p = &c->params[i];
        if (p->bytes == 0) continue;
        void *blank = p->before == NULL ? calloc(1, p->bytes) : NULL;
        dcpk_status status = dcpk_mem_alloc(device, p->bytes, &p->value, error);
        if (status == DCPK_OK)
            status = dcpk_mem_write(device, p->value, blank != NULL ? blank : p->before, p->bytes, error);
        free(blank);
        if (status != DCPK_OK) return status;
    }
    return DCPK_OK;
}

static dcpk_status collect(struct foreign_case *c, dcpk_device *device, unsigned char *result, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (unsigned i = 0; i < c->count; i++) {
        struct foreign_param *p = &c->params[i];
        if (p->bytes == 0) continue;
        if (p->judged) {
            if (status == DCPK_OK) status = dcpk_mem_read(device, result, p->value, p->bytes, error);
            result += p->bytes;
        }
        (void)dcpk_mem_free(device, p->value, NULL);
    }
    return status;
}

dcpk_status foreign_run(const struct foreign_case *made, const char *folder, dcpk_device *device, void *result,
                        dcpk_error *error) {
    struct foreign_case c = *made; /* addresses of its own */
    dcpk_module *module = NULL;
    void *stream = NULL, *params[FOREIGN_PARAMS];
    char *text = read_text(folder, c.name);
    if (text == NULL) {
        error->code = DCPK_E_IO;
        snprintf(error->text, sizeof error->text, "cannot read %s/%s.ptx", folder, c.name);
        return error->code;
    }
    for (unsigned i = 0; i < c.count; i++)
        params[i] = &c.params[i].value;
    dcpk_status status = dcpk_module_load(device, text, &module, error);
    free(text);
    if (status == DCPK_OK) status = dcpk_stream_create(device, &stream, error);
    if (status == DCPK_OK) status = place(&c, device, error);
    if (status == DCPK_OK) {
        dcpk_module_launch_options launch = {
            .size = sizeof launch, .entry = c.name, .dynamic_shared = c.shared, .params = params, .stream = stream};
        memcpy(launch.grid, c.grid, sizeof c.grid);
        memcpy(launch.block, c.block, sizeof c.block);
        status = dcpk_module_launch(module, &launch, error);
    }
    if (status == DCPK_OK) status = dcpk_stream_sync(device, stream, error);
    if (status == DCPK_OK) status = collect(&c, device, result, error);
    if (stream != NULL) (void)dcpk_stream_destroy(device, stream, NULL);
    (void)dcpk_module_free(module, NULL);
    return status;
}

/* ---- judge ---- */
size_t foreign_result_bytes(const struct foreign_case *c) {
    size_t bytes = 0;
    for (unsigned i = 0; i < c->count; i++)
        if (c->params[i].judged) bytes += c->params[i].bytes;
    return bytes;
}

static size_t element_bytes(enum foreign_type type) {
    return type == FOREIGN_F64 ? 8 : type == FOREIGN_F32 ? 4 : type == FOREIGN_BYTES ? 1 : 2;
}

static double element(enum foreign_type type, const unsigned char *at) {
    uint16_t half;
    float single;
    double value;
    memcpy(&half, at, sizeof half);
    if (type == FOREIGN_F16) return foreign_f16_value(half);
    if (type == FOREIGN_BF16) return foreign_bf16_value(half);
    memcpy(&single, at, sizeof single);
    if (type == FOREIGN_F32) return (double)single;
    memcpy(&value, at, sizeof value);
    return value;
}

/* How far apart; 0 for two NaN or the same infinity, infinite where only one of them is one. */
static double distance(double a, double b, bool signs) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? 0 : (double)INFINITY;
    if (a == b) return signs && signbit(a) != signbit(b) ? (double)INFINITY : 0;
    return fabs(a - b);
}

static bool both_nan(const unsigned char *a, const unsigned char *b) {
    float x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return isnan(x) && isnan(y);
}

/* Names the first wrong byte of a buffer, with the aligned word around it. */
static bool same_bytes(const struct foreign_case *c, unsigned i, const void *got, const void *want,
                       char text[FOREIGN_TEXT]) {
    const unsigned char *g = got, *w = want;
    const struct foreign_param *p = &c->params[i];
    size_t bytes = p->bytes, at = 0;
    for (; at < bytes; at++) {
        bool open = at >= p->nan_from && at < p->nan_to && both_nan(g + at / 4 * 4, w + at / 4 * 4);
        if (g[at] != w[at] && !open) break;
    }
    if (at == bytes) return true;
    uint32_t have = 0, need = 0;
    size_t word = at / 4 * 4, part = bytes - word < 4 ? bytes - word : 4;
    memcpy(&have, g + word, part);
    memcpy(&need, w + word, part);
    snprintf(text, FOREIGN_TEXT, "%s: parameter %u, byte %zu of %zu: word %08x, wanted %08x", c->name, i, at, bytes,
             have, need);
    return false;
}

bool foreign_judge(const struct foreign_case *c, const void *result, char text[FOREIGN_TEXT]) {
    const unsigned char *got = result;
    for (unsigned i = 0; i < c->count; i++) {
        const struct foreign_param *p = &c->params[i];
        if (!p->judged) continue;
        if (p->want != NULL && !same_bytes(c, i, got, p->want, text)) return false;
        size_t size = element_bytes(p->type);
        for (size_t e = 0; p->near != NULL && e < p->bytes / size; e++) {
            double have = element(p->type, got + e * size);
            if (distance(have, p->near[e], p->bound[e] == 0) <= p->bound[e]) continue;
            snprintf(text, FOREIGN_TEXT, "%s: parameter %u, element %zu of %zu: %.17g, wanted %.17g within %.3g",
                     c->name, i, e, p->bytes / size, have, p->near[e], p->bound[e]);
            return false;
        }
        got += p->bytes;
    }
    return true;
}

bool foreign_agree(const struct foreign_case *c, const void *a, const void *b, bool *same, double *most,
                   char text[FOREIGN_TEXT]) {
    const unsigned char *x = a, *y = b;
    *same = memcmp(a, b, foreign_result_bytes(c)) == 0;
    *most = 0;
    bool good = true;
    for (unsigned i = 0; i < c->count; i++) {
        const struct foreign_param *p = &c->params[i];
        if (!p->judged) continue;
        if (p->want != NULL && good) good = same_bytes(c, i, x, y, text);
        size_t size = element_bytes(p->type);
        for (size_t e = 0; p->near != NULL && e < p->bytes / size; e++) {
            double u = element(p->type, x + e * size), v = element(p->type, y + e * size);
            double apart = distance(u, v, p->bound[e] == 0);
            if (apart > *most) *most = apart;
            if (apart <= p->bound[e] || !good) continue;
            snprintf(text, FOREIGN_TEXT,
                     "%s: parameter %u, element %zu of %zu: %.17g and %.17g, apart by more than %.3g", c->name, i, e,
                     p->bytes / size, u, v, p->bound[e]);
            good = false;
        }
        x += p->bytes;
        y += p->bytes;
    }
    return good;
}
