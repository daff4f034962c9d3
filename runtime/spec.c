/* spec.c - owns the key table and the texts of a spec: set, parse, format, rows for help.
 * The rules between keys are spec_rules.c's. Pure: no state, no allocation. */
#include "runtime/error.h"
#include "runtime/keys.h"
#include "runtime/names.h"

#include <stdio.h>
#include <string.h>

enum { UNSET = DCPK_KEY_REQUIRED, DERIVED = DCPK_KEY_DERIVED, MAX_KEYS = 64 };

#define TEXT_OF(token) #token

const struct dcpk_key_row dcpk_key_rows[] = {
#define N(name, low, high, dflt, kernels, doc)                                                                         \
    {#name, NULL, low, high, dflt, kernels, doc, offsetof(dcpk_spec, name), #low ".." #high, TEXT_OF(dflt)},
#define C(name, words, dflt, kernels, doc)                                                                             \
    {#name, words, 0, 255, dflt, kernels, doc, offsetof(dcpk_spec, name), words, TEXT_OF(dflt)},
#include <dcpk/keys.def>
#undef N
#undef C
};
const size_t dcpk_key_row_count = sizeof dcpk_key_rows / sizeof dcpk_key_rows[0];

struct kernel_row {
    const char *name;
    int32_t number;
};

static const struct kernel_row kernels[] = {
#define K(name, number, box, summary) {#name, number},
#include <dcpk/kernels.def>
#undef K
};

/* Letters that keys.def uses for the kernels, by their number in kernels.def. */
static const char letters[] = "-npwqdv";

int32_t dcpk_kernel_id_of(const char *name) {
    for (size_t i = 0; name != NULL && i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].name, name) == 0) return kernels[i].number;
    return DCPK_KERNEL_NONE;
}

const struct dcpk_key_row *dcpk_key_row_find(const char *name, size_t length) {
    for (size_t i = 0; i < dcpk_key_row_count; i++)
        if (strlen(dcpk_key_rows[i].name) == length && memcmp(dcpk_key_rows[i].name, name, length) == 0)
            return &dcpk_key_rows[i];
    return NULL;
}

int32_t dcpk_key_get(const dcpk_spec *spec, const struct dcpk_key_row *row) {
    int32_t value;
    memcpy(&value, (const char *)spec + row->offset, sizeof value);
    return value;
}

void dcpk_key_put(dcpk_spec *spec, const struct dcpk_key_row *row, int32_t value) {
    memcpy((char *)spec + row->offset, &value, sizeof value);
}

int32_t dcpk_key_taken(const char *kernel, const struct dcpk_key_row *row) {
    int32_t number = dcpk_kernel_id_of(kernel);
    return number == DCPK_KERNEL_NONE || strchr(row->kernels, letters[number]) != NULL;
}

int32_t dcpk_spec_takes(const char *kernel, const char *key) {
    if (kernel == NULL || key == NULL) return 0;
    const struct dcpk_key_row *row = dcpk_key_row_find(key, strlen(key));
    return row != NULL ? dcpk_key_taken(kernel, row) : strcmp(key, "arch") == 0;
}

int32_t dcpk_key_is_number(const struct dcpk_key_row *row) {
    return row->words == NULL || (row->words[0] >= '0' && row->words[0] <= '9');
}

/* The word list's word number `index`; NULL past its end. */
static const char *word_at(const char *words, int32_t index, size_t *length) {
    for (;; words++) {
        *length = strcspn(words, "|");
        if (index-- == 0) return words;
        words += *length;
        if (*words == '\0') return NULL;
    }
}

/* splits is the one number with a word: 0 is written "auto". */
static int32_t has_auto(const struct dcpk_key_row *row) {
    return row->offset == offsetof(dcpk_spec, splits);
}

int32_t dcpk_key_allows(const struct dcpk_key_row *row, int32_t value) {
    size_t length;
    if (row->words != NULL) return value >= 0 && word_at(row->words, value, &length) != NULL;
    return value >= row->low && value <= row->high;
}

size_t dcpk_key_text(const struct dcpk_key_row *row, int32_t value, char *buffer, const char **text) {
    size_t length;
    if (row->words != NULL && value >= 0 && (*text = word_at(row->words, value, &length)) != NULL) return length;
    *text = buffer;
    if (has_auto(row) && value == 0) return (size_t)snprintf(buffer, DCPK_KEY_TEXT, "auto");
    return (size_t)snprintf(buffer, DCPK_KEY_TEXT, "%d", (int)value);
}

/* The value that the text names, or -1. Numbers are plain decimal digits. */
static int32_t value_of(const struct dcpk_key_row *row, const char *text, size_t length) {
    if (row->words != NULL) {
        const char *word;
        size_t word_length;
        for (int32_t i = 0; (word = word_at(row->words, i, &word_length)) != NULL; i++)
            if (word_length == length && memcmp(word, text, length) == 0) return i;
        return -1;
    }
    if (has_auto(row) && length == 4 && memcmp(text, "auto", 4) == 0) return 0;
    if (length == 0 || length > 8 || strspn(text, "0123456789") < length) return -1;
    int32_t value = 0;
    for (size_t i = 0; i < length; i++)
        value = value * 10 + (text[i] - '0');
    return dcpk_key_allows(row, value) ? value : -1;
}

void dcpk_spec_init(dcpk_spec *spec, const char *kernel) {
    if (spec == NULL) return;
    memset(spec, 0, sizeof *spec);
    spec->size = (uint32_t)sizeof *spec;
    for (size_t i = 0; i < dcpk_key_row_count; i++)
        dcpk_key_put(spec, &dcpk_key_rows[i], DCPK_UNSET);
    /* A name that does not fit stays empty, never another kernel's: resolve refuses it. */
    if (kernel != NULL && strlen(kernel) < sizeof spec->kernel) memcpy(spec->kernel, kernel, strlen(kernel));
}

void dcpk_key_list(const char *kernel, char *text, size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "arch");
    for (size_t i = 0; i < dcpk_key_row_count && used < capacity; i++)
        if (dcpk_key_taken(kernel, &dcpk_key_rows[i]))
            used += (size_t)snprintf(text + used, capacity - used, " %s", dcpk_key_rows[i].name);
}

static dcpk_status unknown_key(const dcpk_spec *spec, const char *key, int length, dcpk_error *error) {
    char list[512], name[64];
    const char *names[MAX_KEYS + 1] = {"arch"};
    size_t count = 1;
    for (size_t i = 0; i < dcpk_key_row_count && count <= MAX_KEYS; i++)
        if (dcpk_key_taken(spec->kernel, &dcpk_key_rows[i])) names[count++] = dcpk_key_rows[i].name;
    snprintf(name, sizeof name, "%.*s", length, key);
    dcpk_key_list(spec->kernel, list, sizeof list);
    const char *nearest = dcpk_name_nearest(name, names, count);
    return dcpk_error_set(error, DCPK_E_SPEC, "%s: there is no key '%.*s'%s%s%s; keys: %s", spec->kernel, length, key,
                          nearest ? " (nearest: " : "", nearest ? nearest : "", nearest ? ")" : "", list);
}

static dcpk_status set_arch(dcpk_spec *spec, const char *text, dcpk_error *error) {
    if (spec->arch[0] != '\0')
        return dcpk_error_set(error, DCPK_E_SPEC, "%s: arch is set twice (%s, then %s)", spec->kernel, spec->arch,
                              text);
    dcpk_status status = dcpk_arch_check(spec->kernel, text, error);
    if (status == DCPK_OK) memcpy(spec->arch, text, strlen(text) + 1);
    return status;
}

static dcpk_status bad_value(const dcpk_spec *spec, const struct dcpk_key_row *row, const char *text,
                             dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_SPEC, "%s: %s=%s is not allowed; %s is %s%s: %s", spec->kernel, row->name, text,
                          row->name, row->values, has_auto(row) ? " or auto" : "", row->doc);
}

dcpk_status dcpk_spec_set(dcpk_spec *spec, const char *assignment, dcpk_error *error) {
    if (spec == NULL || spec->size < sizeof *spec || assignment == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_spec_set: needs an initialised spec and a text");
    const char *equals = strchr(assignment, '=');
    if (equals == NULL)
        return dcpk_error_set(error, DCPK_E_SPEC, "%s: '%s' is not of the form key=value", spec->kernel, assignment);
    size_t length = (size_t)(equals - assignment);
    const char *text = equals + 1;
    if (length == 4 && memcmp(assignment, "arch", 4) == 0) return set_arch(spec, text, error);
    const struct dcpk_key_row *row = dcpk_key_row_find(assignment, length);
    if (row == NULL) return unknown_key(spec, assignment, (int)length, error);
    if (!dcpk_key_taken(spec->kernel, row)) return dcpk_key_refuse(spec, row, error);
    int32_t value = value_of(row, text, strlen(text));
    if (value < 0) return bad_value(spec, row, text, error);
    if (dcpk_key_get(spec, row) != DCPK_UNSET)
        return dcpk_error_set(error, DCPK_E_SPEC, "%s: %s is set twice", spec->kernel, row->name);
    dcpk_key_put(spec, row, value);
    return DCPK_OK;
}

dcpk_status dcpk_spec_parse(dcpk_spec *spec, const char *text, dcpk_error *error) {
    static const char blanks[] = " \t\r\n";
    char word[128];
    if (spec == NULL || text == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_spec_parse: needs a spec and a text");
    dcpk_spec_init(spec, NULL);
    for (int first = 1; *(text += strspn(text, blanks)) != '\0'; first = 0) {
        size_t length = strcspn(text, blanks);
        if (length >= sizeof word)
            return dcpk_error_set(error, DCPK_E_SPEC, "'%.40s...' is longer than a key and its value can be", text);
        memcpy(word, text, length);
        word[length] = '\0';
        text += length;
        if (first) dcpk_spec_init(spec, word);
        dcpk_status status = first ? dcpk_kernel_name_check(word, error) : dcpk_spec_set(spec, word, error);
        if (status != DCPK_OK) return status;
    }
    return spec->kernel[0] != '\0' ? DCPK_OK : dcpk_kernel_name_check("", error);
}

size_t dcpk_spec_format(const dcpk_spec *spec, char *text, size_t capacity) {
    char whole[1024], number[DCPK_KEY_TEXT];
    size_t used = (size_t)snprintf(whole, sizeof whole, "%s", spec->kernel);
    if (spec->arch[0] != '\0') used += (size_t)snprintf(whole + used, sizeof whole - used, " arch=%s", spec->arch);
    for (size_t i = 0; i < dcpk_key_row_count; i++) {
        const struct dcpk_key_row *row = &dcpk_key_rows[i];
        int32_t value = dcpk_key_get(spec, row);
        if (value == DCPK_UNSET || !dcpk_key_taken(spec->kernel, row)) continue;
        const char *word;
        int length = (int)dcpk_key_text(row, value, number, &word);
        used += (size_t)snprintf(whole + used, sizeof whole - used, " %s=%.*s", row->name, length, word);
    }
    if (text != NULL && capacity > 0) snprintf(text, capacity, "%s", whole);
    return used;
}

/* The default's text: choices show the word. Words are interned, because rows of help are static texts. */
static const char *default_text(const struct dcpk_key_row *row) {
    static const char *const words[] = {"0", "1", "peer", "f16", "none", "device", "auto"};
    char buffer[DCPK_KEY_TEXT];
    const char *text;
    if (row->dflt == UNSET || row->dflt == DERIVED) return row->dflt == UNSET ? "required" : "derived";
    if (row->words == NULL && !has_auto(row)) return row->default_token;
    size_t length = dcpk_key_text(row, row->dflt, buffer, &text);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0) return words[i];
    return row->default_token;
}

int32_t dcpk_key_at(uint32_t index, dcpk_key_info *info) {
    if (index >= dcpk_key_row_count || info == NULL || info->size < sizeof *info) return 0;
    const struct dcpk_key_row *row = &dcpk_key_rows[index];
    info->name = row->name;
    info->values = row->values;
    info->dflt = default_text(row);
    info->kernels = row->kernels;
    info->doc = row->doc;
    return 1;
}
