/* pack.c - owns dcpk_packs: a list of open packs, found by spec or key, listed and verified.
 * Reads files by pread into memory of its own and hands bytes to pack_check.c; maps nothing, so that a file that
 * shrinks is an error and no signal. The environment is read in dcpk_packs_open alone. */
#include "runtime/pack_format.h"

#include "runtime/device.h"
#include "runtime/environment.h"
#include "runtime/colon_list.h"
#include "runtime/error.h"
#include "runtime/nearest.h"
#include "runtime/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pack {
    char *path;
    int fd;
    unsigned char *front; /* header, manifest, index, spec texts */
    struct pack_header header;
};

/* Constant once open: any thread may read it. */
struct dcpk_packs {
    struct pack *packs;
    uint32_t count;
};

/* ---- opening ------------------------------------------------------------------------------------- */
/* "PATH: reason", with the reason's code and errno. */
static dcpk_status of_pack(const struct pack *pack, const dcpk_error *reason, dcpk_error *error) {
    dcpk_error_set(error, reason->code, "%s: %s", pack->path, reason->text);
    if (error != NULL && error->size >= sizeof *error) error->sys_errno = reason->sys_errno;
    return reason->code;
}

/* All `bytes` from offset on; CACHE when the file ends before. */
static dcpk_status read_bytes(const struct pack *pack, void *to, size_t bytes, uint64_t offset, dcpk_error *error) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(pack->fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return dcpk_error_system(error, DCPK_E_IO, errno, "cannot read it");
        if (got == 0)
            return dcpk_error_set(error, DCPK_E_CACHE,
                                  "the pack is damaged: the file ends at byte %llu, inside of what "
                                  "its index names",
                                  (unsigned long long)(offset + done));
        done += (size_t)got;
    }
    return DCPK_OK;
}

static dcpk_status read_front(struct pack *pack, uint64_t total, dcpk_error *error) {
    unsigned char header[PACK_HEADER] = {0};
    dcpk_status status = DCPK_OK;
    if (total >= PACK_HEADER) status = read_bytes(pack, header, sizeof header, 0, error);
    if (status == DCPK_OK) status = pack_header_read(header, total, &pack->header, error);
    if (status != DCPK_OK) return status;
    pack->front = malloc((size_t)pack->header.images);
    if (pack->front == NULL)
        return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for its index of %llu bytes",
                              (unsigned long long)pack->header.images);
    memcpy(pack->front, header, sizeof header);
    status = read_bytes(pack, pack->front + PACK_HEADER, (size_t)pack->header.images - PACK_HEADER, PACK_HEADER, error);
    return status == DCPK_OK ? pack_front_check(pack->front, &pack->header, error) : status;
}

static dcpk_status open_pack(struct pack *pack, int64_t trusted, dcpk_error *error) {
    struct stat st;
    dcpk_error reason;
    dcpk_error_init(&reason);
    pack->fd = open(pack->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (pack->fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return dcpk_error_system(error, DCPK_E_NOT_FOUND, errno, "there is no pack %s", pack->path);
    if (pack->fd < 0 || fstat(pack->fd, &st) != 0)
        return dcpk_error_system(error, DCPK_E_IO, errno, "cannot open the pack %s", pack->path);
    if (!S_ISREG(st.st_mode))
        return dcpk_error_set(error, DCPK_E_IO, "%s is not a regular file: a pack is a file of dcpk aot", pack->path);
    struct trust trust = {.user = geteuid(), .also = trusted, .fix = pack->path, .elsewhere = ""};
    dcpk_status status = trust_check(&trust, &st, pack->path, error);
    if (status != DCPK_OK) return status;
    status = read_front(pack, (uint64_t)st.st_size, &reason);
    return status == DCPK_OK ? DCPK_OK : of_pack(pack, &reason, error);
}

static dcpk_status no_memory(dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a list of packs");
}

static dcpk_status open_list(struct dcpk_packs *packs, const char *path, int64_t trusted, dcpk_error *error) {
    packs->packs = calloc(colon_count(path) + 1, sizeof *packs->packs);
    if (packs->packs == NULL) return no_memory(error);
    size_t length;
    for (const char *at = path, *part; (part = colon_next(&at, &length)) != NULL;) {
        struct pack *pack = &packs->packs[packs->count++];
        pack->fd = -1;
        pack->path = strndup(part, length);
        dcpk_status status = pack->path != NULL ? open_pack(pack, trusted, error) : no_memory(error);
        if (status != DCPK_OK) return status;
    }
    return DCPK_OK;
}

static dcpk_status read_options(const dcpk_packs_options *given, dcpk_packs_options *options, dcpk_error *error) {
    static const dcpk_packs_options standard = {.size = sizeof standard, .trusted_uid = -1};
    struct runtime_environment environment;
    dcpk_status status =
        dcpk_options_copy(options, sizeof *options, given != NULL ? given : &standard, "dcpk_packs_options", error);
    if (status != DCPK_OK) return status;
    if (options->size < sizeof *options) options->trusted_uid = -1; /* the caller's struct ends before it */
    runtime_environment_read(&environment);
    if (options->path == NULL) options->path = environment.aot_path != NULL ? environment.aot_path : "";
    if (options->trusted_uid == -1 && !trust_uid(environment.trust_uid, &options->trusted_uid))
        return dcpk_error_set(error, DCPK_E_ARG, "DCPK_CACHE_TRUST_UID=%s: a user's number", environment.trust_uid);
    return DCPK_OK;
}

dcpk_status dcpk_packs_open(const dcpk_packs_options *given, dcpk_packs **out, dcpk_error *error) {
    dcpk_packs_options options;
    if (out == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_packs_open: out is NULL");
    *out = NULL;
    dcpk_status status = read_options(given, &options, error);
    if (status != DCPK_OK) return status;
    struct dcpk_packs *packs = calloc(1, sizeof *packs);
    if (packs == NULL) return no_memory(error);
    status = open_list(packs, options.path, options.trusted_uid, error);
    if (status == DCPK_OK)
        *out = packs;
    else
        dcpk_packs_close(packs);
    return status;
}

void dcpk_packs_close(dcpk_packs *packs) {
    if (packs == NULL) return;
    for (uint32_t i = 0; i < packs->count; i++) {
        if (packs->packs[i].fd >= 0) close(packs->packs[i].fd);
        free(packs->packs[i].front);
        free(packs->packs[i].path);
    }
    free(packs->packs);
    free(packs);
}

/* ---- one image ----------------------------------------------------------------------------------- */
/* The image of an entry, checked whole; with padding != 0 also the zeros behind it. */
static dcpk_status read_image(const struct pack *pack, uint64_t entry, int32_t padding, dcpk_image **out,
                              dcpk_error *error) {
    struct pack_row row;
    pack_row_read(pack->front, &pack->header, entry, &row);
    size_t bytes = (size_t)row.bytes;
    if (padding) bytes += (size_t)pack_row_padding(pack->front, &pack->header, entry);
    unsigned char *data = malloc(bytes);
    if (data == NULL) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for an image of %zu bytes", bytes);
    dcpk_status status = read_bytes(pack, data, bytes, row.offset, error);
    if (status == DCPK_OK) status = pack_image_read(&row, data, out, error);
    for (size_t i = (size_t)row.bytes; status == DCPK_OK && i < bytes; i++)
        if (data[i] != 0) status = dcpk_error_set(error, DCPK_E_CACHE, "the pack is damaged: bytes behind the image");
    free(data);
    if (status == DCPK_OK) return DCPK_OK;
    dcpk_image_free(*out);
    *out = NULL;
    return status;
}

static dcpk_status give(const struct pack *pack, uint64_t entry, dcpk_image **out, dcpk_error *error) {
    struct pack_row row;
    dcpk_error reason;
    dcpk_error_init(&reason);
    dcpk_status status = read_image(pack, entry, 0, out, &reason);
    if (status == DCPK_OK) return DCPK_OK;
    pack_row_read(pack->front, &pack->header, entry, &row);
    dcpk_error_set(error, status, "%s: entry %s (%s): %s", pack->path, row.key, row.spec, reason.text);
    if (error != NULL && error->size >= sizeof *error) error->sys_errno = reason.sys_errno;
    return status;
}

static void append_searched(const struct dcpk_packs *packs, dcpk_error *error) {
    enum { NAMED = 8 };
    for (uint32_t i = 0; i < packs->count && i < NAMED; i++)
        dcpk_error_append(error, "%s%s (%llu entries)", i == 0 ? "; searched: " : ", ", packs->packs[i].path,
                          (unsigned long long)packs->packs[i].header.entries);
    if (packs->count > NAMED) dcpk_error_append(error, ", and %u more", packs->count - NAMED);
}

static dcpk_status not_found(const struct dcpk_packs *packs, const dcpk_spec *spec, const char *text,
                             dcpk_error *error) {
    if (packs->count == 0)
        return dcpk_error_set(error, DCPK_E_NOT_FOUND,
                              "no pack has %s: no packs are open (DCPK_AOT_PATH is a colon list of them)", text);
    struct nearest nearest;
    char near_by[NEAREST_TEXT];
    if (error == NULL) return DCPK_E_NOT_FOUND;
    nearest_begin(&nearest, spec);
    for (uint32_t i = 0; i < packs->count; i++)
        for (uint64_t entry = 0; entry < packs->packs[i].header.entries; entry++) {
            struct pack_row row;
            pack_row_read(packs->packs[i].front, &packs->packs[i].header, entry, &row);
            nearest_offer(&nearest, row.spec);
        }
    nearest_text(&nearest, near_by, sizeof near_by);
    dcpk_error_set(error, DCPK_E_NOT_FOUND, "no pack has %s", text);
    append_searched(packs, error);
    dcpk_error_append(error, "\n%s", near_by);
    return DCPK_E_NOT_FOUND;
}

dcpk_status dcpk_packs_find(dcpk_packs *packs, const dcpk_spec *spec, dcpk_image **out, dcpk_error *error) {
    char text[PACK_SPEC_MAX + 1];
    if (packs == NULL || spec == NULL || out == NULL || spec->size < sizeof *spec)
        return dcpk_error_set(error, DCPK_E_ARG,
                              "dcpk_packs_find: packs, spec and out may not be NULL, spec->size not below %zu",
                              sizeof *spec);
    *out = NULL;
    dcpk_spec_format(spec, text, sizeof text);
    for (uint32_t i = 0; i < packs->count; i++) {
        const struct pack *pack = &packs->packs[i];
        uint64_t entry = pack_row_find(pack->front, &pack->header, text);
        if (entry < pack->header.entries) return give(pack, entry, out, error);
    }
    return not_found(packs, spec, text, error);
}

/* The first entry whose key begins with the prefix; ARG when another key does so, too. */
static dcpk_status find_key(const struct dcpk_packs *packs, const char *prefix, const struct pack **pack,
                            uint64_t *entry, dcpk_error *error) {
    char found[DIGEST_HEX] = "";
    for (uint32_t i = 0; i < packs->count; i++)
        for (uint64_t e = 0; e < packs->packs[i].header.entries; e++) {
            struct pack_row row;
            pack_row_read(packs->packs[i].front, &packs->packs[i].header, e, &row);
            if (strncmp(row.key, prefix, strlen(prefix)) != 0 || strcmp(row.key, found) == 0) continue;
            if (found[0] != '\0')
                return dcpk_error_set(error, DCPK_E_ARG, "%s begins more than one key: %s and %s; give more digits",
                                      prefix, found, row.key);
            memcpy(found, row.key, sizeof found);
            *pack = &packs->packs[i];
            *entry = e;
        }
    if (found[0] != '\0') return DCPK_OK;
    dcpk_error_set(error, DCPK_E_NOT_FOUND, "no pack has an entry under %s", prefix);
    append_searched(packs, error);
    return DCPK_E_NOT_FOUND;
}

dcpk_status dcpk_packs_get(dcpk_packs *packs, const char *key, dcpk_image **out, dcpk_error *error) {
    const struct pack *pack = NULL;
    uint64_t entry = 0;
    if (packs == NULL || key == NULL || out == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_packs_get: packs, key and out may not be NULL");
    *out = NULL;
    size_t length = strlen(key);
    if (length < 4 || length >= DIGEST_HEX || strspn(key, "0123456789abcdef") != length)
        return dcpk_error_set(error, DCPK_E_ARG, "'%.40s' is no key: 4 to 32 lower-case hex digits", key);
    dcpk_status status = find_key(packs, key, &pack, &entry, error);
    return status == DCPK_OK ? give(pack, entry, out, error) : status;
}

static dcpk_status provide(void *self, const dcpk_spec *spec, dcpk_image **out, dcpk_error *error) {
    return dcpk_packs_find(self, spec, out, error);
}

dcpk_status dcpk_packs_provider(dcpk_packs *packs, dcpk_provider *out, dcpk_error *error) {
    if (packs == NULL || out == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_packs_provider: packs and out may not be NULL");
    *out = (dcpk_provider){.size = sizeof *out, .self = packs, .get = provide};
    return DCPK_OK;
}

/* ---- listing ------------------------------------------------------------------------------------- */
uint32_t dcpk_packs_count(const dcpk_packs *packs) {
    return packs != NULL ? packs->count : 0;
}

dcpk_status dcpk_packs_info(const dcpk_packs *packs, uint32_t index, dcpk_pack_info *info, dcpk_error *error) {
    if (packs == NULL || info == NULL || info->size < sizeof *info)
        return dcpk_error_set(error, DCPK_E_ARG,
                              "dcpk_packs_info: packs and info may not be NULL, info->size not below %zu",
                              sizeof *info);
    if (index >= packs->count)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_packs_info: there is no pack %u, but %u", index, packs->count);
    const struct pack *pack = &packs->packs[index];
    *info = (dcpk_pack_info){.size = info->size,
                             .path = pack->path,
                             .manifest = (const char *)pack->front + PACK_HEADER,
                             .entries = (uint32_t)pack->header.entries,
                             .bytes = pack->header.total};
    return DCPK_OK;
}

static int32_t visit_entry(const struct dcpk_packs *packs, uint32_t index, uint64_t entry, int32_t verify,
                           int32_t (*visit)(void *, const dcpk_pack_entry *), void *self) {
    const struct pack *pack = &packs->packs[index];
    struct pack_row row;
    dcpk_image *image = NULL;
    dcpk_error reason;
    dcpk_error_init(&reason);
    pack_row_read(pack->front, &pack->header, entry, &row);
    dcpk_pack_entry about = {
        .size = sizeof about, .pack = index, .spec = row.spec, .offset = row.offset, .bytes = row.bytes};
    memcpy(about.key, row.key, sizeof about.key);
    about.state = verify ? read_image(pack, entry, 1, &image, &reason) : DCPK_OK;
    about.reason = about.state == DCPK_OK ? "" : reason.text;
    dcpk_image_free(image);
    return visit(self, &about);
}

dcpk_status dcpk_packs_visit(dcpk_packs *packs, int32_t verify,
                             int32_t (*visit)(void *self, const dcpk_pack_entry *entry), void *self,
                             dcpk_error *error) {
    if (packs == NULL || visit == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_packs_visit: packs and visit may not be NULL");
    for (uint32_t i = 0; i < packs->count; i++)
        for (uint64_t entry = 0; entry < packs->packs[i].header.entries; entry++)
            if (visit_entry(packs, i, entry, verify, visit, self) != 0) return DCPK_OK;
    return DCPK_OK;
}
