/* sizes.c - see sizes.h. Pure. */
#include "gen/sizes.h"

#include <stdlib.h>
#include <string.h>

bool number_read(const char *text, int64_t max, int64_t *value) {
    if (strlen(text) > 10 || !*text || strspn(text, "0123456789") != strlen(text)) return false;
    *value = strtoll(text, NULL, 10);
    return *value <= max;
}

bool size_read(const char *text, uint64_t *bytes) {
    static const char letters[] = "KMGT";
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 19) return false;
    uint64_t value = strtoull(text, NULL, 10), most = UINT64_C(1) << 62;
    if (text[digits]) {
        char upper = text[digits] >= 'a' && text[digits] <= 'z' ? (char)(text[digits] - 'a' + 'A') : text[digits];
        const char *letter = strchr(letters, upper);
        if (!letter || text[digits + 1]) return false;
        unsigned shift = 10 * (unsigned)(letter - letters + 1);
        if (value > most >> shift) return false;
        value <<= shift;
    }
    *bytes = value;
    return value > 0 && value <= most;
}
