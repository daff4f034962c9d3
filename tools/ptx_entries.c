/* ptx_entries.c - see ptx_entries.h. Knows comments, strings, `.entry NAME ( .param ... )`, and how large types are. */
#include "ptx_entries.h"

#include "command.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_name(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

/* Behind blanks and comments; *over: how many characters those were at least one of. */
static const char *skip(const char *at) {
    for (;;) {
        if (isspace((unsigned char)*at)) {
            at++;
        } else if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end != NULL ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

static const char *skip_string(const char *at) {
    at++;
    at += strcspn(at, "\"\n");
    return at + (*at == '"');
}

static char *copy(const char *from, size_t length) {
    char *text = must(malloc(length + 1));
    memcpy(text, from, length);
    text[length] = '\0';
    return text;
}

/* ---- parameters ---- */
/* Bytes of a type or vector word without its dot, 0 for any other. */
static uint64_t type_bytes(const char *word, size_t length) {
    static const struct {
        const char *name;
        uint64_t bytes;
    } types[] = {{"b8", 1},   {"u8", 1},  {"s8", 1},  {"b16", 2}, {"u16", 2},   {"s16", 2},    {"f16", 2},
                 {"bf16", 2}, {"b32", 4}, {"u32", 4}, {"s32", 4}, {"f32", 4},   {"f16x2", 4},  {"bf16x2", 4},
                 {"b64", 8},  {"u64", 8}, {"s64", 8}, {"f64", 8}, {"b128", 16}, {"texref", 8}, {"surfref", 8}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strlen(types[i].name) == length && memcmp(types[i].name, word, length) == 0) return types[i].bytes;
    return 0;
}

/* From ".param" up to the ',' or ')' at its end. */
static const char *read_parameter(const char *at, struct ptx_parameter *parameter) {
    size_t room = 64, length = 0;
    char *text = must(malloc(room));
    uint64_t bytes = 0, dimension = 1;
    bool blank = false, type = false;
    for (; *at != '\0' && *at != ',' && *at != ')' && *at != '{' && *at != ';';) {
        const char *next = skip(at);
        if (next != at) {
            blank = length > 0;
            at = next;
            continue;
        }
        size_t word = 1;
        while (is_name(at[0]) && is_name(at[word]))
            word++;
        if (length + word + 3 > room) text = must(realloc(text, room = 2 * (room + word)));
        if (blank) text[length++] = ' ';
        blank = false;
        memcpy(text + length, at, word);
        length += word;
        bool dotted = length > word && text[length - word - 1] == '.',
             inside = length > word && text[length - word - 1] == '[';
        if (dotted && !type && type_bytes(at, word) > 0) {
            bytes = type_bytes(at, word);
            type = true;
        } else if (dotted && word == 2 && at[0] == 'v') {
            dimension *= (uint64_t)(at[1] - '0');
        } else if (inside && isdigit((unsigned char)at[0])) {
            dimension *= strtoull(at, NULL, 0);
        }
        at += word;
    }
    text[length] = '\0';
    *parameter = (struct ptx_parameter){text, bytes * dimension};
    return at;
}

/* Behind ".entry". */
static const char *read_entry(const char *at, struct ptx_entry *entry) {
    at = skip(at);
    size_t length = 0;
    while (is_name(at[length]))
        length++;
    *entry = (struct ptx_entry){.name = copy(at, length)};
    at = skip(at + length);
    if (*at != '(') return at;
    at = skip(at + 1);
    while (*at == '.') {
        entry->parameters = must(realloc(entry->parameters, (entry->count + 1) * sizeof *entry->parameters));
        at = read_parameter(at, &entry->parameters[entry->count++]);
        if (*at != ',') break;
        at = skip(at + 1);
    }
    return at;
}

void ptx_entries_read(const char *text, struct ptx_entries *entries) {
    *entries = (struct ptx_entries){NULL, 0};
    for (const char *at = skip(text); *at != '\0'; at = skip(at)) {
        if (*at == '"') {
            at = skip_string(at);
        } else if (strncmp(at, ".entry", 6) == 0 && !is_name(at[6])) {
            entries->list = must(realloc(entries->list, (entries->count + 1) * sizeof *entries->list));
            at = read_entry(at + 6, &entries->list[entries->count++]);
        } else {
            at++;
        }
    }
}

void ptx_entries_free(struct ptx_entries *entries) {
    for (size_t i = 0; i < entries->count; i++) {
        for (size_t j = 0; j < entries->list[i].count; j++)
            free(entries->list[i].parameters[j].text);
        free(entries->list[i].parameters);
        free(entries->list[i].name);
    }
    free(entries->list);
}

const struct ptx_entry *ptx_entries_find(const struct ptx_entries *entries, const char *name) {
    for (size_t i = 0; i < entries->count; i++)
        if (strcmp(entries->list[i].name, name) == 0) return &entries->list[i];
    return NULL;
}
