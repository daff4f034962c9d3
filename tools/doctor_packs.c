/* doctor_packs.c - the packs of DCPK_AOT_PATH, each opened for itself so that one that is broken hides no other:
 * whether it may be trusted, is whole, and what it holds. */
#include "doctor.h"

#include <dcpk/pack.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether every line of the generator's identity stands in the manifest: the same version and templates made it. */
static bool is_current(struct doctor *doctor, const char *manifest) {
    dcpk_text identity = {NULL, 0};
    if (doctor->gen == NULL || dcpk_gen_identity(doctor->gen, &identity, NULL) != DCPK_OK) return true; /* unknown */
    bool current = true;
    char *rest = NULL;
    for (char *line = strtok_r(identity.data, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        const char *at = manifest;
        size_t length = strlen(line);
        while (at != NULL && (strncmp(at, line, length) != 0 || (at[length] != '\n' && at[length] != '\0')))
            at = (at = strchr(at, '\n')) != NULL ? at + 1 : NULL;
        current = current && at != NULL;
    }
    dcpk_text_free(&identity);
    return current;
}

/* One file; the list of usable ones grows in `path`. */
static void look_at_pack(struct doctor *doctor, json_t *list, const char *file, char *path, size_t capacity) {
    dcpk_packs *packs = NULL;
    dcpk_pack_info info = {.size = sizeof info};
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_packs_options options = {.size = sizeof options, .path = file, .trusted_uid = -1};
    dcpk_status status = dcpk_packs_open(&options, &packs, &error);
    if (status == DCPK_OK) status = dcpk_packs_info(packs, 0, &info, &error);
    bool good = status == DCPK_OK;
    bool current = good && is_current(doctor, info.manifest != NULL ? info.manifest : "");
    json_array_append_new(list, must(json_pack("{s:s, s:b, s:b, s:b, s:s, s:I, s:I, s:s}", "path", file, "usable", good,
                                               "current", current, "trusted", status != DCPK_E_UNTRUSTED, "reason",
                                               good ? "" : error.text, "entries", (json_int_t)(good ? info.entries : 0),
                                               "bytes", (json_int_t)(good ? info.bytes : 0), "manifest",
                                               good && info.manifest != NULL ? info.manifest : "")));
    if (good && !current)
        doctor_note(
            doctor,
            "%s was made from other templates or by another version: it is used as it is; 'dcpk aot' makes it anew",
            file);
    if (good) {
        size_t used = strlen(path);
        snprintf(path + used, capacity - used, "%s%s", used > 0 ? ":" : "", file);
        doctor->packs++;
    } else {
        doctor_problem(doctor, "pack: %s", error.text);
    }
    dcpk_packs_close(packs);
}

void doctor_packs(struct doctor *doctor) {
    json_t *list = must(json_array());
    const char *given = getenv("DCPK_AOT_PATH");
    char *names = given != NULL ? must(strdup(given)) : NULL, *rest = NULL;
    size_t capacity = given != NULL ? strlen(given) + 1 : 1;
    char *path = must(calloc(1, capacity));
    for (char *file = names != NULL ? strtok_r(names, ":", &rest) : NULL; file != NULL;
         file = strtok_r(NULL, ":", &rest))
        look_at_pack(doctor, list, file, path, capacity);
    dcpk_packs_options options = {.size = sizeof options, .path = path, .trusted_uid = -1};
    if (doctor->packs > 0 && dcpk_packs_open(&options, &doctor->opened, NULL) != DCPK_OK) doctor->opened = NULL;
    free(names);
    free(path);
    json_object_set_new(doctor->whole, "packs", list);
}

bool doctor_packs_have(const struct doctor *doctor, const dcpk_spec *spec) {
    dcpk_image *image = NULL;
    bool found = doctor->opened != NULL && dcpk_packs_find(doctor->opened, spec, &image, NULL) == DCPK_OK;
    if (found) dcpk_image_free(image);
    return found;
}
