/* fuzz_shapes.c - input: a file of shapes, as dcpk aot --shapes has it. It is refused with a message, or every line of
 * it is a spec that is resolved and says itself again. Asks the preset templates for models, builds nothing. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/file.h"

#include <tools/shape_list.h>

#include <stdbool.h>
#include <string.h>

static const struct command command = {.name = "fuzz"};

static dcpk_gen *generator(void) {
    static dcpk_gen *gen; /* opened once */
    dcpk_gen_options options = {.size = sizeof options, .template_path = "templates", .cache_dir = "", .jit = "never"};
    if (gen == NULL) fuzz_check(dcpk_gen_open(&options, &gen, NULL) == DCPK_OK);
    return gen;
}

static void check_list(const struct shape_list *list) {
    fuzz_check(list->spec_count > 0 && list->lines >= list->spec_count);
    for (uint32_t i = 0; i < list->spec_count; i++) {
        dcpk_spec again;
        fuzz_check(list->specs[i].line > 0);
        fuzz_check(dcpk_spec_parse(&again, list->specs[i].text, NULL) == DCPK_OK);
        fuzz_check(dcpk_spec_resolve(&again, NULL) == DCPK_OK);
        fuzz_check(memcmp(&again, &list->specs[i].spec, sizeof again) == 0);
        fuzz_check(i == 0 || strcmp(list->specs[i - 1].text, list->specs[i].text) < 0);
    }
}

void fuzz_shapes(const uint8_t *bytes, size_t length) {
    struct fuzz_file file = fuzz_file_make(bytes, length);
    struct shape_request request = {.file = file.path};
    struct shape_list list = {0};
    const struct command_line line = {.command = &command};
    FILE *spoken = fuzz_hush();
    enum exit_code code = shape_list_make(&line, generator(), &request, &list);
    fuzz_speak(spoken);
    fuzz_check(code == EXIT_DONE || code == EXIT_USAGE);
    if (code == EXIT_DONE) check_list(&list);
    shape_list_free(&list);
    fuzz_file_close(&file);
}
