/* fuzz_cubin.c - input: the bytes of a cubin, judged for every architecture that it may be of and every entry name that
 * our kernels and seeds have. */
#include "tests/fuzz/fuzz.h"

#include "runtime/cubin.h"

#include <string.h>

static const char *const names[] = {
#define K(name, number, box, summary) "dcpk_" #name,
#include <dcpk/kernels.def>
#undef K
    "dcpk_one", "dcpk_two", "dcpk_dcp_value_push", "dcpk_dcp_value_merge"};
static const char *const arches[] = {"sm_90a", "sm_100a"};

static void check(const uint8_t *bytes, size_t length, const char *arch, const char *name) {
    dcpk_entry_info entry = {.size = sizeof entry};
    dcpk_error error;
    dcpk_error_init(&error);
    if (name != NULL) strcpy(entry.name, name);
    dcpk_status status = cubin_check(bytes, length, arch, &entry, name != NULL, &error);
    fuzz_check(status == DCPK_OK || (status == DCPK_E_BAD_CUBIN && error.text[0] != '\0'));
    fuzz_check(status != DCPK_OK || name == NULL || (entry.registers > 0 && entry.registers < 256));
}

void fuzz_cubin(const uint8_t *bytes, size_t length) {
    uint8_t *exact = malloc(length > 0 ? length : 1);
    fuzz_check(exact != NULL);
    if (length > 0) memcpy(exact, bytes, length);
    for (size_t a = 0; a < sizeof arches / sizeof *arches; a++) {
        check(exact, length, arches[a], NULL);
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            check(exact, length, arches[a], names[n]);
    }
    free(exact);
}
