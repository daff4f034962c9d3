/* doctor_packs.c - the packs of DCPK_AOT_PATH, each opened for itself so that one that is broken hides no other:
 * whether it may be trusted, is whole, and what it holds. */
#include "doctor.h"
#include "json_text.h"

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

/* Entries of one pack, each read whole. */
struct look {
    struct doctor *doctor;
    const char *file;
    json_int_t bad;
};

static int32_t look_at_entry(void *self, const dcpk_pack_entry *entry) {
    struct look *look = self;
    if (entry->state == DCPK_OK) return 0;
    look->bad++;
    doctor_problem(look->doctor, "pack: %s: entry %.8s (%s) is bad: %s; 'dcpk aot' makes the pack anew", look->file,
                   entry->key, entry->spec, entry->reason);
    return 0;
}

/* One file; those that are usable go to doctor->opened. */
static void look_at_pack(struct doctor *doctor, json_t *list, const char *file) {
    dcpk_packs *packs = NULL;
    dcpk_pack_info info = {.size = sizeof info};
    struct look look = {.doctor = doctor, .file = file};
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_packs_options options = {.size = sizeof options, .path = file, .trusted_uid = -1};
    dcpk_status status = dcpk_packs_open(&options, &packs, &error);
    if (status == DCPK_OK) status = dcpk_packs_info(packs, 0, &info, &error);
    if (status == DCPK_OK) status = dcpk_packs_visit(packs, 1, look_at_entry, &look, &error);
    bool good = status == DCPK_OK;
    bool current = good && is_current(doctor, info.manifest != NULL ? info.manifest : "");
    json_array_append_new(
        list, must(json_pack("{s:o, s:b, s:b, s:b, s:o, s:I, s:I, s:I, s:o}", "path", json_text(file), "usable", good,
                             "current", current, "trusted", status != DCPK_E_UNTRUSTED, "reason",
                             json_text(good ? "" : error.text), "entries", (json_int_t)(good ? info.entries : 0), "bad",
                             look.bad, "bytes", (json_int_t)(good ? info.bytes : 0), "manifest",
                             json_text(good && info.manifest != NULL ? info.manifest : ""))));
    if (good && !current)
        doctor_note(
            doctor,
            "%s was made from other templates or by another version: it is used as it is; 'dcpk aot' makes it anew",
            file);
    if (!good) {
        doctor_problem(doctor, "pack: %s", error.text);
        dcpk_packs_close(packs);
        return;
    }
    doctor->opened = must(realloc(doctor->opened, ((size_t)doctor->packs + 1) * sizeof(struct dcpk_packs *)));
    doctor->opened[doctor->packs++] = packs;
}

void doctor_packs(struct doctor *doctor) {
    json_t *list = must(json_array());
    const char *given = getenv("DCPK_AOT_PATH");
    char *names = given != NULL ? must(strdup(given)) : NULL, *rest = NULL;
    for (char *file = names != NULL ? strtok_r(names, ":", &rest) : NULL; file != NULL;
         file = strtok_r(NULL, ":", &rest))
        look_at_pack(doctor, list, file);
    free(names);
    json_object_set_new(doctor->whole, "packs", list);
}

bool doctor_packs_serve(const struct doctor *doctor) {
    return doctor->packs > 0 && strcmp(doctor->jit, "force") != 0;
}

void doctor_packs_close(struct doctor *doctor) {
    for (int i = 0; i < doctor->packs; i++)
        dcpk_packs_close(doctor->opened[i]);
    free(doctor->opened);
}

bool doctor_packs_damage(const struct doctor *doctor, const dcpk_spec *spec, char *damage, size_t capacity) {
    for (int i = 0; i < doctor->packs; i++) {
        dcpk_image *image = NULL;
        dcpk_error error;
        dcpk_error_init(&error);
        dcpk_status status = dcpk_packs_find(doctor->opened[i], spec, &image, &error);
        dcpk_image_free(image);
        if (status == DCPK_OK || status == DCPK_E_NOT_FOUND) continue;
        snprintf(damage, capacity, "%s", error.text);
        return true;
    }
    return false;
}
