/* case_metadata.c - a case file's metadata, from text to numbers and back, whatever the locale; see case_inside.h. */
#include <tools/case_inside.h>

#include <float.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_WHOLE, KIND_REAL, KIND_ROPE, KIND_TEXT };
enum presence { PRESENCE_REQUIRED, PRESENCE_OPTIONAL };

static const struct key {
    const char *name;
    size_t member;
    enum kind kind;
    double low, high;
    enum presence presence;
    double otherwise;
} keys[METADATA_COUNT] = {
#define M(name, kind, low, high, presence, otherwise)                                                                  \
    {#name, offsetof(struct layer_case, name), KIND_##kind, low, high, PRESENCE_##presence, otherwise},
#include <tools/case_metadata.def>
#undef M
};
static const char *const ropes[] = {[ROPE_NONE] = "none", [ROPE_INTERLEAVED] = "interleaved", [ROPE_HALF] = "half"};
enum { ROPES = sizeof ropes / sizeof *ropes };

bool case_metadata_known(const char *name) {
    bool known = strcmp(name, "format") == 0 || strcmp(name, "parity") == 0;
    for (size_t i = 0; !known && i < METADATA_COUNT; i++) {
        known = strcmp(name, keys[i].name) == 0;
    }
    return known;
}

/* ---- numbers ----------------------------------------------------------------------------------------- */

/* Members as numbers, and back. */
static double number_of(const struct layer_case *layer, const struct key *key) {
    const char *from = (const char *)layer + key->member;
    int32_t whole;
    double real;
    if (key->kind == KIND_REAL) {
        memcpy(&real, from, sizeof real);
        return real;
    }
    memcpy(&whole, from, sizeof whole);
    return whole;
}

static void set_number(struct layer_case *layer, const struct key *key, double real) {
    char *to = (char *)layer + key->member;
    if (key->kind == KIND_REAL) {
        memcpy(to, &real, sizeof real);
    } else {
        int32_t whole = (int32_t)real;
        memcpy(to, &whole, sizeof whole);
    }
}

static size_t digits(const char *text) {
    return strspn(text, "0123456789");
}

/* Digits, no sign, no leading zero, at most 9 of them. */
static bool parse_whole(const char *text, double *value) {
    size_t count = digits(text);
    if (count == 0 || count > 9 || text[count] != '\0' || (count > 1 && text[0] == '0')) return false;
    int32_t whole = 0;
    for (size_t i = 0; i < count; i++) {
        whole = whole * 10 + (text[i] - '0');
    }
    *value = whole;
    return true;
}

/* -?digits[.digits][(e|E)[+-]digits]; too large: an infinity, which no domain has. */
static bool parse_real(const char *text, double *value) {
    const char *at = text + (text[0] == '-');
    bool good = digits(at) > 0;
    at += digits(at);
    if (good && *at == '.') {
        good = digits(at + 1) > 0;
        at += 1 + digits(at + 1);
    }
    if (good && (*at == 'e' || *at == 'E')) {
        at += at[1] == '+' || at[1] == '-' ? 2 : 1;
        good = digits(at) > 0;
        at += digits(at);
    }
    locale_t plain = good && *at == '\0' ? newlocale(LC_ALL_MASK, "C", (locale_t)0) : (locale_t)0;
    if (plain == (locale_t)0) return false;
    *value = strtod_l(text, NULL, plain);
    freelocale(plain);
    return true;
}

/* The shortest of %.15g to %.17g that reads back as the same number. */
static bool format_real(double value, char text[32]) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) return false;
    locale_t before = uselocale(plain);
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, 32, "%.*g", precision, value);
        if (strtod(text, NULL) == value) break;
    }
    uselocale(before);
    freelocale(plain);
    return true;
}

/* ---- one key ----------------------------------------------------------------------------------------- */

static bool refuse_number(const struct key *key, const char *found, char *why) {
    return safetensors_refuse(why, "metadata '%s' is '%.40s'; it must be a %snumber from %g to %g, in decimal",
                              key->name, found, key->kind == KIND_WHOLE ? "whole " : "", key->low, key->high);
}

static bool read_rope(struct layer_case *layer, const char *text, char *why) {
    for (int i = 0; i < ROPES; i++) {
        if (strcmp(text, ropes[i]) == 0) {
            layer->rope = (enum reference_rope)i;
            return true;
        }
    }
    return safetensors_refuse(why, "metadata 'rope' is '%.40s'; it must be none, interleaved or half", text);
}

static bool read_key(const struct safetensors *file, const struct key *key, struct layer_case *layer, char *why) {
    const char *text = safetensors_metadata(file, key->name);
    double number = key->otherwise;
    if (text == NULL) {
        if (key->presence == PRESENCE_REQUIRED) return safetensors_refuse(why, "metadata '%s' is missing", key->name);
        if (key->kind != KIND_TEXT) set_number(layer, key, number);
        return true;
    }
    if (key->kind == KIND_ROPE) return read_rope(layer, text, why);
    if (key->kind == KIND_TEXT) {
        layer->source = strdup(text);
        return layer->source != NULL || safetensors_refuse(why, "out of memory");
    }
    bool good = key->kind == KIND_WHOLE ? parse_whole(text, &number) : parse_real(text, &number);
    if (!good || number < key->low || number > key->high) return refuse_number(key, text, why);
    set_number(layer, key, number);
    return true;
}

bool case_metadata_read(const struct safetensors *file, struct layer_case *layer, char *why) {
    const char *format = safetensors_metadata(file, "format");
    if (format == NULL || strcmp(format, CASE_FORMAT) != 0) {
        return safetensors_refuse(why, "metadata 'format' is %s%.40s%s; a case file says '%s'", format ? "'" : "",
                                  format ? format : "missing", format ? "'" : "", CASE_FORMAT);
    }
    bool good = true;
    for (size_t i = 0; good && i < METADATA_COUNT; i++) {
        good = read_key(file, &keys[i], layer, why);
    }
    return good;
}

static bool check_key(const struct layer_case *layer, const struct key *key, char *why) {
    if (key->kind == KIND_TEXT) return true;
    if (key->kind == KIND_ROPE) {
        return (unsigned)layer->rope < ROPES || safetensors_refuse(why, "rope is none of none, interleaved, half");
    }
    double number = number_of(layer, key);
    bool said = key->presence == PRESENCE_REQUIRED || number != key->otherwise;
    char text[32];
    snprintf(text, sizeof text, "%.17g", number);
    return !said || (number >= key->low && number <= key->high) || refuse_number(key, text, why);
}

bool case_metadata_check(const struct layer_case *layer, char *why) {
    bool good = true;
    for (size_t i = 0; good && i < METADATA_COUNT; i++) {
        good = check_key(layer, &keys[i], why);
    }
    return good;
}

/* ---- writing ----------------------------------------------------------------------------------------- */

/* NULL: nothing to say. */
static const char *text_of(const struct layer_case *layer, const struct key *key, char number[32]) {
    if (key->kind == KIND_TEXT) return layer->source;
    if (key->kind == KIND_ROPE) return ropes[layer->rope];
    double value = number_of(layer, key);
    if (value < key->low || value > key->high) return NULL; /* not said: the domains are checked */
    if (key->kind == KIND_WHOLE) {
        snprintf(number, 32, "%d", (int)value);
        return number;
    }
    return format_real(value, number) ? number : NULL;
}

bool case_metadata_write(const struct layer_case *layer, struct case_texts *texts, char *why) {
    texts->pair[0] = (struct safetensors_text){"format", CASE_FORMAT};
    texts->count = 1;
    for (size_t i = 0; i < METADATA_COUNT; i++) {
        const char *text = text_of(layer, &keys[i], texts->number[i]);
        if (text != NULL) {
            texts->pair[texts->count++] = (struct safetensors_text){keys[i].name, text};
        } else if (keys[i].presence == PRESENCE_REQUIRED || keys[i].kind == KIND_REAL) {
            return safetensors_refuse(why, "out of memory");
        }
    }
    return true;
}
