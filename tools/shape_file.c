/* shape_file.c - a file of shapes: one spec a line, KERNEL key=value..., model= and tp= among them, # to the line's end
 * a comment. At most 16 MiB are read. Every line that is no spec, or that a rule refuses, is named as FILE:LINE. */
#include "shape_inside.h"

#include "tool_error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\r\n";
enum { MOST_BYTES = 16 << 20 };

struct preset_words {
    const char *model;
    int32_t tp; /* 0: not given */
};

/* model= and tp= apart, everything else into the spec. */
static dcpk_status take_word(const char *word, dcpk_spec *spec, struct preset_words *preset, dcpk_error *error) {
    uint64_t tp;
    if (strncmp(word, "model=", 6) == 0) {
        if (preset->model != NULL) return tool_fail(error, DCPK_E_ARG, "model is set twice");
        preset->model = word + 6;
        return DCPK_OK;
    }
    if (strncmp(word, "tp=", 3) != 0) return dcpk_spec_set(spec, word, error);
    if (preset->tp != 0) return tool_fail(error, DCPK_E_ARG, "tp is set twice");
    if (!word_number(word + 3, 4096, &tp) || tp == 0)
        return tool_fail(error, DCPK_E_ARG, "%s: tp is a number from 1 to 4096", word);
    preset->tp = (int32_t)tp;
    return DCPK_OK;
}

static dcpk_status finish(dcpk_gen *gen, const struct preset_words *preset, dcpk_spec *spec, dcpk_error *error) {
    int32_t tp = preset->tp != 0 ? preset->tp : 1;
    if (preset->model == NULL && preset->tp != 0) return tool_fail(error, DCPK_E_ARG, "tp= goes with model=NAME");
    dcpk_status status = preset->model != NULL ? dcpk_gen_model(gen, preset->model, tp, spec, error) : DCPK_OK;
    if (status != DCPK_OK) return status;
    if (preset->model != NULL && spec->dcp > 0) status = preset_shares(tp, spec->dcp, error);
    return status == DCPK_OK ? dcpk_spec_resolve(spec, error) : status;
}

/* text is changed. NOT_FOUND for a line without words. */
static dcpk_status read_line(dcpk_gen *gen, char *text, dcpk_spec *spec, dcpk_error *error) {
    struct preset_words preset = {NULL, 0};
    char *rest = NULL, *word = strtok_r(text, blanks, &rest);
    if (word == NULL) return DCPK_E_NOT_FOUND;
    dcpk_status status = dcpk_spec_parse(spec, word, error); /* the kernel's name alone: checks it */
    while (status == DCPK_OK && (word = strtok_r(NULL, blanks, &rest)) != NULL)
        status = take_word(word, spec, &preset, error);
    return status == DCPK_OK ? finish(gen, &preset, spec, error) : status;
}

/* False after a message. */
static bool add_line(const struct command_line *line, dcpk_gen *gen, const char *path, uint32_t number, char *text,
                     size_t length, struct shape_list *list) {
    dcpk_spec spec;
    dcpk_error error;
    dcpk_error_init(&error);
    if (strlen(text) != length) {
        complain(line, "%s:%u: the line holds a NUL: this is no file of specs", path, number);
        return false;
    }
    text[strcspn(text, "#")] = '\0';
    if (text[strspn(text, blanks)] == '\0') return true;
    if (read_line(gen, text, &spec, &error) != DCPK_OK) {
        complain(line, "%s:%u: %s", path, number, error.text);
        return false;
    }
    shape_list_add(list, &spec, number);
    list->lines++;
    return true;
}

/* The whole file, a NUL behind it; NULL after a message. A device or a pipe may never end. */
static char *read_file(const struct command_line *line, const char *path, size_t *length) {
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        complain(line, "cannot read '%s': %s", path, strerror(errno));
        return NULL;
    }
    char *text = must(malloc((size_t)MOST_BYTES + 2));
    *length = fread(text, 1, (size_t)MOST_BYTES + 1, file);
    text[*length] = '\0';
    bool good = ferror(file) == 0 && *length <= MOST_BYTES;
    if (ferror(file) != 0)
        complain(line, "cannot read '%s': %s", path, strerror(errno));
    else if (!good)
        complain(line, "'%s' is longer than the %d MiB that a file of shapes may have", path, MOST_BYTES >> 20);
    fclose(file);
    if (good) return text;
    free(text);
    return NULL;
}

enum exit_code shape_file_read(const struct command_line *line, dcpk_gen *gen, const char *path,
                               struct shape_list *list) {
    size_t length = 0;
    char *text = read_file(line, path, &length);
    if (text == NULL) return EXIT_USAGE;
    bool good = true;
    uint32_t number = 1;
    for (char *at = text, *end, *next; at < text + length; at = next, number++) {
        end = memchr(at, '\n', length - (size_t)(at - text));
        if (end == NULL) end = text + length;
        next = end + 1;
        *end = '\0';
        good = add_line(line, gen, path, number, at, (size_t)(end - at), list) && good;
    }
    free(text);
    if (good && list->lines == 0) return usage_error(line, "--shapes %s: the file has no spec in it", path);
    return good ? EXIT_DONE : EXIT_USAGE;
}
