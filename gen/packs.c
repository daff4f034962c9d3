/* packs.c - see packs.h. Owns the opened packs of a generator; what a pack's bytes mean is runtime's. */
#include "gen/packs.h"

#include "gen/identity.h"
#include "runtime/colon_list.h"
#include "runtime/error.h"
#include "runtime/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dcpk_status no_memory(dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a list of packs");
}

/* path: owned by the slot from now on. */
static void open_slot(struct pack_slot *slot, char *path, int64_t trusted, const struct notice *notice) {
    dcpk_packs_options options = {.size = sizeof options, .path = path, .trusted_uid = trusted};
    dcpk_error error;
    dcpk_error_init(&error);
    slot->path = path;
    if (dcpk_packs_open(&options, &slot->packs, &error) == DCPK_OK) return;
    snprintf(slot->reason, sizeof slot->reason, "%.*s", (int)sizeof slot->reason - 1, error.text);
    notice_log(notice, DCPK_LOG_WARNING, "not using the pack %s: %s", path, slot->reason);
}

dcpk_status packs_open(struct packs *packs, const char *list, int64_t trusted, const struct notice *notice,
                       dcpk_error *error) {
    *packs = (struct packs){0};
    if (!list || !*list) return DCPK_OK;
    packs->slots = calloc(colon_count(list) + 1, sizeof *packs->slots);
    if (!packs->slots) return no_memory(error);
    size_t length;
    for (const char *at = list, *part; (part = colon_next(&at, &length)) != NULL;) {
        char *path = strndup(part, length);
        if (!path) return no_memory(error);
        open_slot(&packs->slots[packs->count++], path, trusted, notice);
    }
    return DCPK_OK;
}

void packs_close(struct packs *packs) {
    for (uint32_t i = 0; i < packs->count; i++) {
        dcpk_packs_close(packs->slots[i].packs);
        free(packs->slots[i].path);
    }
    free(packs->slots);
    *packs = (struct packs){0};
}

/* Made from other templates or by another version: used all the same, for it is what its owner put there. */
static void compare(struct pack_slot *slot, struct expander *expander, const struct notice *notice) {
    dcpk_pack_info info = {.size = sizeof info};
    char why[512];
    if (slot->compared || dcpk_packs_info(slot->packs, 0, &info, NULL) != DCPK_OK) return;
    slot->compared = true;
    if (identity_differs(expander, info.manifest, why, sizeof why))
        notice_log(notice, DCPK_LOG_WARNING,
                   "the pack %s was made otherwise than this generator would, and is used: %s", slot->path, why);
}

dcpk_image *packs_find(struct packs *packs, const dcpk_spec *spec, struct expander *expander,
                       const struct notice *notice) {
    for (uint32_t i = 0; i < packs->count; i++) {
        struct pack_slot *slot = &packs->slots[i];
        dcpk_image *image = NULL;
        dcpk_error error;
        dcpk_error_init(&error);
        if (!slot->packs) continue;
        dcpk_status status = dcpk_packs_find(slot->packs, spec, &image, NULL); /* a message of a miss costs a search */
        if (status == DCPK_OK) {
            compare(slot, expander, notice);
            return image;
        }
        if (status == DCPK_E_NOT_FOUND) continue;
        dcpk_packs_find(slot->packs, spec, &image, &error);
        dcpk_image_free(image);
        notice_log(notice, slot->warned ? DCPK_LOG_INFO : DCPK_LOG_WARNING, "not using an entry: %s", error.text);
        slot->warned = true;
    }
    return NULL;
}

static int32_t offer(void *self, const dcpk_pack_entry *entry) {
    nearest_offer(self, entry->spec);
    return 0;
}

/* Why the pack's entry of the spec is of no use; nothing where it has none. */
static void describe_damage(dcpk_packs *packs, const dcpk_spec *spec, struct buffer *text) {
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = dcpk_packs_find(packs, spec, &image, &error);
    dcpk_image_free(image);
    if (status != DCPK_OK && status != DCPK_E_NOT_FOUND) buffer_format(text, "; not used: %s", error.text);
}

void packs_describe(const struct packs *packs, const dcpk_spec *spec, struct buffer *text, struct nearest *nearest) {
    for (uint32_t i = 0; i < packs->count; i++) {
        const struct pack_slot *slot = &packs->slots[i];
        dcpk_pack_info info = {.size = sizeof info};
        if (!slot->packs)
            buffer_format(text, "\n  pack %s: not used: %s", slot->path, slot->reason);
        else if (dcpk_packs_info(slot->packs, 0, &info, NULL) == DCPK_OK)
            buffer_format(text, "\n  pack %s: %u entries", slot->path, info.entries);
        if (slot->packs) describe_damage(slot->packs, spec, text);
        if (slot->packs) dcpk_packs_visit(slot->packs, 0, offer, nearest, NULL);
    }
    if (packs->count == 0) buffer_format(text, "\n  packs: none (DCPK_AOT_PATH is a colon list of them)");
}
