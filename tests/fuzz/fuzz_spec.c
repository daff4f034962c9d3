/* fuzz_spec.c - input: a spec's text. What parses formats, and parses to the same again; resolving refuses or
 * completes, and is idempotent; the workspace of what resolves is said. */
#include "tests/fuzz/fuzz.h"

#include <dcpk/spec.h>
#include <string.h>

enum { TEXT = 2048 };

static void format(const dcpk_spec *spec, char text[TEXT]) {
    size_t length = dcpk_spec_format(spec, text, TEXT);
    fuzz_check(length < TEXT && strlen(text) == length);
}

static void parse_again(const dcpk_spec *spec) {
    char text[TEXT];
    dcpk_spec again;
    dcpk_error error;
    dcpk_error_init(&error);
    format(spec, text);
    fuzz_check(dcpk_spec_parse(&again, text, &error) == DCPK_OK);
    fuzz_check(memcmp(spec, &again, sizeof again) == 0);
}

void fuzz_spec(const uint8_t *bytes, size_t length) {
    char *text = fuzz_text(bytes, length);
    dcpk_spec spec, twice;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = dcpk_spec_parse(&spec, text, &error);
    free(text);
    fuzz_check(status == DCPK_OK || error.text[0] != '\0');
    if (status != DCPK_OK) return;
    parse_again(&spec);
    status = dcpk_spec_resolve(&spec, &error);
    fuzz_check(status == DCPK_OK || error.text[0] != '\0');
    if (status != DCPK_OK) return;
    parse_again(&spec);
    twice = spec;
    fuzz_check(dcpk_spec_resolve(&twice, &error) == DCPK_OK && memcmp(&spec, &twice, sizeof spec) == 0);
    uint64_t now = 0, most = 0;
    fuzz_check(dcpk_spec_workspace(&spec, &now, &most, &error) == DCPK_OK && now <= most);
}
