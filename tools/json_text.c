/* json_text.c - see json_text.h. Pure but for memory: none left ends the command. */
#include "json_text.h"

#include "command.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of the character at `at`, 0 when it is none: neither too long a form, nor a surrogate, nor past U+10FFFF. */
static size_t character(const unsigned char *at) {
    static const struct {
        unsigned char first, last, low, high; /* the first byte's range, the second's */
        size_t length;
    } rows[] = {{0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
                {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
                {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (*at < rows[i].first || *at > rows[i].last) continue;
        if (rows[i].length > 1 && (at[1] < rows[i].low || at[1] > rows[i].high)) return 0;
        for (size_t k = 2; k < rows[i].length; k++)
            if (at[k] < 0x80 || at[k] > 0xBF) return 0;
        return rows[i].length;
    }
    return 0;
}

json_t *json_text(const char *text) {
    static const char replacement[] = "\xEF\xBF\xBD";
    char *clean = must(malloc(3 * strlen(text) + 1)), *to = clean;
    for (const char *at = text; *at != '\0';) {
        size_t length = character((const unsigned char *)at);
        memcpy(to, length > 0 ? at : replacement, length > 0 ? length : 3);
        to += length > 0 ? length : 3;
        at += length > 0 ? length : 1;
    }
    *to = '\0';
    json_t *value = must(json_string(clean));
    free(clean);
    return value;
}
