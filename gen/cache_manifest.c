/* cache_manifest.c - one small text file a direct key:
 *
 *   dcpk manifest 1
 *   preimage BYTES
 *   <the direct key's text>
 *   record CONTENT_KEY FILES         newest first, at most MAX_RECORDS
 *   DIGEST NAME                      of every template file that the expansion read
 *   end CHECKSUM                     XXH3-128 of everything before this line
 * Written whole and renamed into place: two writers lose a record at worst, which costs one expansion. */
#include "gen/cache_manifest.h"

#include "runtime/buffer.h"
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RECORDS = 8, HEX = DIGEST_HEX - 1 };
static const char title[] = "dcpk manifest 1\n";

/* Position of the first record in a manifest of this key, NULL when it is not one. *end: past the last record. */
static const char *records_of(const char *data, size_t length, const struct key *direct, const char **end) {
    char digest[DIGEST_HEX], line[64];
    size_t tail = 4 + HEX + 1, skip = sizeof title - 1;
    if (length < skip + tail || memcmp(data, title, skip) != 0 || memchr(data, 0, length)) return NULL;
    digest_hex(data, length - tail, digest);
    snprintf(line, sizeof line, "end %s\n", digest);
    if (memcmp(data + length - tail, line, tail) != 0) return NULL;
    int header = snprintf(line, sizeof line, "preimage %zu\n", direct->length);
    const char *at = data + skip;
    *end = data + length - tail;
    if ((size_t)(*end - at) < (size_t)header + direct->length || memcmp(at, line, (size_t)header) != 0 ||
        memcmp(at + header, direct->text, direct->length) != 0)
        return NULL; /* another request with the same hash: a miss */
    return at + header + direct->length;
}

static bool is_hex(const char *text) {
    return strspn(text, "0123456789abcdef") >= HEX;
}

/* One "DIGEST NAME" line: does the file of that name have that digest now? NULL at a malformed line. */
static const char *check_file(const char *at, const char *end, struct expander *expander, bool *same) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    char name[256];
    if (!newline || newline - at < HEX + 2 || at[HEX] != ' ' || (size_t)(newline - at) - HEX - 1 >= sizeof name)
        return NULL;
    size_t length = (size_t)(newline - at) - HEX - 1;
    memcpy(name, at + HEX + 1, length);
    name[length] = '\0';
    if (*same) {
        const char *digest = expander_file_digest(expander, name);
        *same = digest && memcmp(digest, at, HEX) == 0;
    }
    return newline + 1;
}

/* One record; *same: all of its files are as they were. NULL at a malformed one. */
static const char *check_record(const char *at, const char *end, struct expander *expander, char *content, bool *same) {
    char *rest;
    *same = true;
    if (end - at < 7 + HEX + 2 || memcmp(at, "record ", 7) != 0 || !is_hex(at + 7) || at[7 + HEX] != ' ') return NULL;
    memcpy(content, at + 7, HEX);
    content[HEX] = '\0';
    unsigned long files = strtoul(at + 7 + HEX + 1, &rest, 10);
    if (*rest != '\n') return NULL;
    const char *next = rest + 1;
    for (unsigned long i = 0; i < files && next; i++)
        next = next < end ? check_file(next, end, expander, same) : NULL;
    return next;
}

bool manifest_find(struct cache *cache, const struct key *direct, struct expander *expander, char content[DIGEST_HEX]) {
    char *data = NULL;
    size_t length = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    if (cache_read(cache, direct->hex, CACHE_MANIFEST, &data, &length, &error) != DCPK_OK) return false;
    const char *end = NULL, *at = records_of(data, length, direct, &end);
    bool found = false;
    while (at && at < end && !found)
        at = check_record(at, end, expander, content, &found);
    free(data);
    return found && at;
}

static void add_record(struct buffer *b, const struct expansion *expansion, const char *content) {
    buffer_format(b, "record %s %u\n", content, expansion->file_count);
    for (uint32_t i = 0; i < expansion->file_count; i++)
        buffer_format(b, "%s %s\n", expansion->files[i].digest, expansion->files[i].name);
}

/* Keeps the records of a manifest that is there, but for the first one's equal and the oldest. */
static void keep_records(struct buffer *b, struct cache *cache, const struct key *direct, const char *first,
                         size_t first_length) {
    char *data = NULL;
    size_t length = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    if (cache_read(cache, direct->hex, CACHE_MANIFEST, &data, &length, &error) != DCPK_OK) return;
    const char *end = NULL, *at = records_of(data, length, direct, &end);
    if (!at) at = end;
    for (int kept = 1; at < end && kept < MAX_RECORDS;) {
        const char *next = memmem(at + 1, (size_t)(end - at - 1), "\nrecord ", 8);
        next = next ? next + 1 : end;
        bool equal = (size_t)(next - at) == first_length && memcmp(at, first, first_length) == 0;
        if (!equal) {
            buffer_bytes(b, at, (size_t)(next - at));
            kept++;
        }
        at = next;
    }
    free(data);
}

dcpk_status manifest_add(struct cache *cache, const struct key *direct, const struct expansion *expansion,
                         const char *content, dcpk_error *error) {
    struct buffer b = {0}, record = {0};
    char digest[DIGEST_HEX];
    buffer_format(&b, "%spreimage %zu\n%s", title, direct->length, direct->text);
    add_record(&record, expansion, content);
    if (!record.failed) {
        buffer_bytes(&b, record.data, record.length);
        keep_records(&b, cache, direct, record.data, record.length);
    }
    dcpk_status status = dcpk_error_set(NULL, DCPK_E_NOMEM, "no memory");
    if (!b.failed && !record.failed) {
        digest_hex(b.data, b.length, digest);
        buffer_format(&b, "end %s\n", digest);
    }
    if (b.failed || record.failed)
        dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a manifest");
    else
        status = cache_write(cache, direct->hex, CACHE_MANIFEST, b.data, b.length, CACHE_REPLACE, NULL, error);
    buffer_free(&b);
    buffer_free(&record);
    return status;
}
