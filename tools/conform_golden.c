/* conform_golden.c - see conform_golden.h. */
#include "conform_golden.h"
#include "conform_rows.h"

#include "command.h"
#include "tool_error.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "dcpk conformance 1"
enum { BLOCK = 4096, LOCATORS = 12, LOCATOR_BITS = 18, REACH = 12, LETTER_BITS = 6 };

/* ---- sums of a block ---- */
struct block_sums {
    uint64_t all;
    uint32_t with[LOCATORS]; /* of the inputs whose number has the bit set */
};

static uint64_t mixed(size_t i, uint64_t result) {
    uint64_t state = result ^ (uint64_t)(i + 1) * UINT64_C(0xD6E8FEB86659FD93);
    return conform_random(&state);
}

static struct block_sums sums_of(const uint64_t *results, size_t count) {
    struct block_sums sums = {0};
    for (size_t i = 0; i < count; i++) {
        uint64_t m = mixed(i, results[i]);
        sums.all ^= m;
        for (unsigned bit = 0; bit < LOCATORS; bit++)
            if (i >> bit & 1) sums.with[bit] ^= (uint32_t)conform_low(m, LOCATOR_BITS);
    }
    return sums;
}

/* The one input of the block whose result differs, -1 where there are more. */
static long located(const struct block_sums *a, const struct block_sums *b) {
    uint32_t change = (uint32_t)conform_low(a->all ^ b->all, LOCATOR_BITS);
    long at = 0;
    for (unsigned bit = 0; bit < LOCATORS; bit++) {
        uint32_t here = a->with[bit] ^ b->with[bit];
        if (here != 0 && here != change) return -1;
        at |= (long)(here != 0) << bit;
    }
    return at;
}

/* ---- writing ---- */
static void make_room(struct conform_recording *r, size_t bytes) {
    if (r->room - r->used > bytes) return;
    r->room = r->room * 2 + bytes + 65536;
    r->text = must(realloc(r->text, r->room));
}

static void __attribute__((format(printf, 2, 3))) put(struct conform_recording *r, const char *format, ...) {
    va_list arguments;
    make_room(r, 1024);
    va_start(arguments, format);
    r->used += (size_t)vsnprintf(r->text + r->used, r->room - r->used, format, arguments);
    va_end(arguments);
}

void conform_recording_begin(struct conform_recording *r, const char *device) {
    *r = (struct conform_recording){NULL, 0, 0};
    put(r, "%s\n%.400s\n", FIRST_LINE, device);
}

/* Numbers in letters, the highest six bits first. */
static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-";

static unsigned letters_of(unsigned bits) {
    return (bits + LETTER_BITS - 1) / LETTER_BITS;
}

static void put_number(struct conform_recording *r, uint64_t value, unsigned bits) {
    char text[16];
    unsigned count = letters_of(bits);
    for (unsigned i = 0; i < count; i++)
        text[i] = letters[value >> LETTER_BITS * (count - 1 - i) & 63];
    put(r, "%.*s", (int)count, text);
}

void conform_recording_append(struct conform_recording *r, const char *text) {
    size_t length = strlen(text);
    make_room(r, length);
    memcpy(r->text + r->used, text, length + 1);
    r->used += length;
}

static int64_t step_between(uint64_t from, uint64_t to) {
    return (int64_t)(to - from);
}

void conform_recording_add(struct conform_recording *r, const struct conform_record *record) {
    put(r, "%s\t", record->name);
    put_number(r, record->identity, 64);
    put(r, "\t%zu\t%c\t", record->count, record->whole ? 'w' : 'h');
    uint64_t before = 0;
    for (size_t i = 0; i < record->count && record->whole; i++) {
        int64_t step = step_between(before, record->results[i]);
        bool near = step >= -REACH && step <= REACH;
        put(r, "%c", near ? (int)('a' + REACH + step) : '#');
        if (!near) put_number(r, record->results[i], record->bits);
        before = record->results[i];
    }
    for (size_t i = 0; i < record->count && !record->whole; i += BLOCK) {
        size_t left = record->count - i;
        struct block_sums sums = sums_of(record->results + i, left < BLOCK ? left : BLOCK);
        put_number(r, sums.all, 64);
        for (unsigned bit = 0; bit < LOCATORS; bit++)
            put_number(r, sums.with[bit], LOCATOR_BITS);
    }
    put(r, "\n");
}

/* ---- reading ---- */
struct entry {
    const char *name, *data;
    uint64_t identity;
    size_t count;
    char kind;
};
struct conform_golden {
    char *text;
    const char *device;
    struct entry *entries; /* by name */
    size_t count;
};

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static bool get_number(const char **at, unsigned bits, uint64_t *value) {
    *value = 0;
    for (unsigned i = 0; i < letters_of(bits); i++, ++*at) {
        const char *letter = **at != '\0' ? strchr(letters, **at) : NULL;
        if (letter == NULL) return false;
        *value = *value << LETTER_BITS | (uint64_t)(letter - letters);
    }
    return true;
}

/* The five fields of a line, whose tabs become ends of strings. */
static bool read_line(char *line, struct entry *entry) {
    char *fields[5], *rest = line, *end_count;
    for (int i = 0; i < 5; i++) {
        fields[i] = strsep(&rest, "\t");
        if (fields[i] == NULL) return false;
    }
    *entry = (struct entry){.name = fields[0], .data = fields[4], .kind = fields[3][0]};
    const char *identity = fields[1];
    bool sound = get_number(&identity, 64, &entry->identity) && *identity == '\0';
    entry->count = strtoull(fields[2], &end_count, 10);
    return sound && rest == NULL && *end_count == '\0' && entry->count > 0 && entry->count <= CONFORM_UPPERS &&
           (strcmp(fields[3], "h") == 0 || strcmp(fields[3], "w") == 0);
}

/* The next result of kind w. */
static bool next_result(const char **at, unsigned bits, uint64_t *value) {
    if (**at == '#') {
        ++*at;
        return get_number(at, bits, value);
    }
    if (**at < 'a' || **at > 'a' + 2 * REACH) return false;
    *value += (uint64_t)(int64_t)(*(*at)++ - 'a' - REACH);
    return true;
}

static bool next_sums(const char **at, struct block_sums *sums) {
    if (!get_number(at, 64, &sums->all)) return false;
    for (unsigned bit = 0; bit < LOCATORS; bit++) {
        uint64_t value;
        if (!get_number(at, LOCATOR_BITS, &value)) return false;
        sums->with[bit] = (uint32_t)value;
    }
    return true;
}

static dcpk_status read_entries(struct conform_golden *golden, const char *path, dcpk_error *error) {
    char *rest = golden->text, *first = strsep(&rest, "\n");
    if (strcmp(first, FIRST_LINE) != 0 || rest == NULL)
        return tool_fail(error, DCPK_E_ARG, "%s: not recorded conformance data: its first line is not '%s'", path,
                         FIRST_LINE);
    golden->device = strsep(&rest, "\n");
    for (unsigned number = 3; rest != NULL && *rest != '\0'; number++) {
        bool ended = strchr(rest, '\n') != NULL;
        char *line = strsep(&rest, "\n");
        if (golden->count % 256 == 0)
            golden->entries = must(realloc(golden->entries, (golden->count + 256) * sizeof *golden->entries));
        if (!ended || !read_line(line, &golden->entries[golden->count]))
            return tool_fail(error, DCPK_E_ARG,
                             "%s:%u: damaged: name, identity, count, kind and data with tabs between", path, number);
        golden->count++;
    }
    qsort(golden->entries, golden->count, sizeof *golden->entries, by_name);
    return DCPK_OK;
}

/* The whole file as a string; another length than `length` means a zero byte in it. */
static dcpk_status read_text(const char *path, char **text, size_t *length, dcpk_error *error) {
    enum { STEP = 1 << 20, MOST = 64 << 20 };
    FILE *file = fopen(path, "re");
    size_t room = 0, got = 1;
    if (file == NULL)
        return tool_fail(error, errno == ENOENT ? DCPK_E_NOT_FOUND : DCPK_E_IO, "%s: %s", path, strerror(errno));
    for (*length = 0; got > 0 && *length < MOST; *length += got) {
        if (room - *length < STEP + 1) *text = must(realloc(*text, room += 4 * STEP));
        got = fread(*text + *length, 1, STEP, file);
    }
    bool whole = !ferror(file) && *length < MOST;
    (*text)[*length] = '\0';
    fclose(file);
    return whole ? DCPK_OK : tool_fail(error, DCPK_E_IO, "%s: it cannot be read, or holds more than 64 MiB", path);
}

dcpk_status conform_golden_read(const char *path, struct conform_golden **out, dcpk_error *error) {
    struct conform_golden *golden = must(calloc(1, sizeof *golden));
    size_t length = 0;
    dcpk_status status = read_text(path, &golden->text, &length, error);
    if (status == DCPK_OK && strlen(golden->text) != length)
        status = tool_fail(error, DCPK_E_ARG, "%s: not recorded conformance data: it holds a zero byte", path);
    if (status == DCPK_OK) status = read_entries(golden, path, error);
    *out = golden;
    if (status == DCPK_OK) return DCPK_OK;
    conform_golden_free(golden);
    *out = NULL;
    return status;
}

void conform_golden_free(struct conform_golden *golden) {
    if (golden == NULL) return;
    free(golden->entries);
    free(golden->text);
    free(golden);
}

const char *conform_golden_device(const struct conform_golden *golden) {
    return golden->device;
}

size_t conform_golden_count(const struct conform_golden *golden) {
    return golden->count;
}

/* ---- some lines anew ---- */
struct new_line {
    const char *line; /* with its newline */
    size_t name_length, length;
    bool placed;
};

static int by_place(const void *a, const void *b) {
    const char *first = ((const struct entry *)a)->name, *second = ((const struct entry *)b)->name;
    return first < second ? -1 : first > second;
}

static const char *behind_line(const char *at) {
    const char *end = strchr(at, '\n');
    return end != NULL ? end + 1 : at + strlen(at);
}

static struct new_line *lines_of(const struct conform_recording *r, size_t *count) {
    struct new_line *lines = NULL;
    *count = 0;
    for (const char *at = behind_line(behind_line(r->text)), *next; *at != '\0'; at = next) {
        next = behind_line(at);
        lines = must(realloc(lines, (*count + 1) * sizeof *lines));
        lines[(*count)++] = (struct new_line){at, strcspn(at, "\t"), (size_t)(next - at), false};
    }
    return lines;
}

static void append_bytes(struct conform_recording *r, const char *bytes, size_t length) {
    make_room(r, length + 1);
    memcpy(r->text + r->used, bytes, length);
    r->text[r->used += length] = '\0';
}

/* The entry as the file has it. */
static void append_entry(struct conform_recording *r, const struct entry *entry) {
    size_t from = r->used, length = (size_t)(entry->data - entry->name) + strlen(entry->data);
    append_bytes(r, entry->name, length);
    for (size_t i = from; i < r->used; i++)
        if (r->text[i] == '\0') r->text[i] = '\t';
    append_bytes(r, "\n", 1);
}

/* Old entries in their order, each as it is or as the new line of its name; then the new lines that are left. */
static struct conform_recording renewed(struct conform_golden *old, struct new_line *lines, size_t count) {
    struct conform_recording all;
    conform_recording_begin(&all, old->device);
    qsort(old->entries, old->count, sizeof *old->entries, by_place);
    for (size_t i = 0; i < old->count; i++) {
        const struct entry *entry = &old->entries[i];
        size_t name = strlen(entry->name), n = 0;
        while (n < count && (lines[n].name_length != name || memcmp(lines[n].line, entry->name, name) != 0))
            n++;
        if (n == count) append_entry(&all, entry);
        if (n < count && !lines[n].placed) append_bytes(&all, lines[n].line, lines[n].length);
        if (n < count) lines[n].placed = true;
    }
    for (size_t n = 0; n < count; n++)
        if (!lines[n].placed) append_bytes(&all, lines[n].line, lines[n].length);
    return all;
}

dcpk_status conform_recording_renew(struct conform_recording *recording, const char *path, dcpk_error *error) {
    struct conform_golden *old = NULL;
    dcpk_status status = conform_golden_read(path, &old, error);
    if (status != DCPK_OK) return status;
    const char *device = behind_line(recording->text);
    size_t length = strcspn(device, "\n"), count;
    if (old->device == NULL || strlen(old->device) != length || memcmp(old->device, device, length) != 0) {
        status = tool_fail(error, DCPK_E_ARG,
                           "%s: recorded on %s, and this device is %.*s: a file has the results of one device; name "
                           "another file",
                           path, old->device != NULL ? old->device : "nothing", (int)length, device);
    } else {
        struct new_line *lines = lines_of(recording, &count);
        struct conform_recording all = renewed(old, lines, count);
        free(lines);
        free(recording->text);
        *recording = all;
    }
    conform_golden_free(old);
    return status;
}

/* ---- comparing ---- */
/* Patterns of a floating format in the order of their values. */
static double place_of(uint64_t pattern, unsigned bits) {
    uint64_t sign = UINT64_C(1) << (bits - 1);
    return pattern & sign ? -(double)(pattern & (sign - 1)) : (double)(pattern & (sign - 1));
}

static bool is_finite(uint64_t pattern, unsigned bits) {
    uint64_t infinity = bits == 64 ? UINT64_C(0x7FF0000000000000) : bits == 32 ? 0x7F800000 : 0x7C00;
    return (pattern & ((UINT64_C(1) << (bits - 1)) - 1)) < infinity;
}

static bool compare_whole(const struct entry *entry, const struct conform_record *record,
                          struct conform_difference *d) {
    const char *at = entry->data;
    uint64_t recorded = 0;
    for (size_t i = 0; i < record->count; i++) {
        if (!next_result(&at, record->bits, &recorded)) return false;
        recorded &= record->bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << record->bits) - 1;
        if (record->recorded != NULL) record->recorded[i] = recorded;
        if (recorded == record->results[i]) continue;
        if (d->differing++ == 0) d->input = i, d->recorded = recorded;
        if (!record->floating || !is_finite(recorded, record->bits) || !is_finite(record->results[i], record->bits))
            continue;
        double ulps = fabs(place_of(recorded, record->bits) - place_of(record->results[i], record->bits));
        if (ulps > d->ulps) d->ulps = ulps;
    }
    return *at == '\0';
}

static bool compare_sums(const struct entry *entry, const struct conform_record *record, struct conform_difference *d,
                         bool *same) {
    const char *at = entry->data;
    bool many = false;
    *same = true;
    for (size_t i = 0; i < record->count; i += BLOCK) {
        size_t left = record->count - i;
        struct block_sums sums = sums_of(record->results + i, left < BLOCK ? left : BLOCK), recorded;
        if (!next_sums(&at, &recorded)) return false;
        if (memcmp(&sums.all, &recorded.all, sizeof sums.all) == 0 &&
            memcmp(sums.with, recorded.with, sizeof sums.with) == 0)
            continue;
        long one = located(&sums, &recorded);
        if (*same && one >= 0) d->input = i + (size_t)one;
        many = many || !*same || one < 0;
        *same = false;
    }
    d->differing = *same || many ? 0 : 1;
    return *at == '\0';
}

enum conform_recorded conform_golden_compare(const struct conform_golden *golden, const struct conform_record *record,
                                             struct conform_difference *difference) {
    struct entry wanted = {.name = record->name};
    *difference = (struct conform_difference){0};
    if (golden == NULL || golden->count == 0) return NOT_RECORDED;
    const struct entry *entry = bsearch(&wanted, golden->entries, golden->count, sizeof wanted, by_name);
    if (entry == NULL) return NOT_RECORDED;
    if (entry->identity != record->identity || entry->count != record->count ||
        entry->kind != (record->whole ? 'w' : 'h'))
        return OF_ANOTHER_TEXT;
    bool same = false, sound = record->whole ? compare_whole(entry, record, difference)
                                             : compare_sums(entry, record, difference, &same);
    if (!sound) return RECORDED_DAMAGED;
    if (record->whole) same = difference->differing == 0;
    return same ? RECORDED_SAME : RECORDED_OTHER;
}

/* ---- the record of a form ---- */
struct conform_record conform_record_of(const struct conform_form *form, uint64_t identity,
                                        const struct conform_out *out, size_t count) {
    unsigned flags = form->row->flags;
    bool packed = form->last != NULL && form->last->kind == 'x';
    bool tensor = flags & TENSOR, whole = tensor || (flags & APPROX && !packed);
    unsigned each = tensor ? 4 : 1;
    uint64_t *results = must(malloc(count * each * sizeof *results));
    for (size_t i = 0; i < count; i++)
        for (unsigned w = 0; w < each; w++)
            results[i * each + w] = whole ? out[i].d[w] : conform_hash(CONFORM_HASH_START, &out[i], sizeof out[i]);
    return (struct conform_record){.name = form->name,
                                   .identity = identity,
                                   .results = results,
                                   .count = count * each,
                                   .bits = tensor               ? 32
                                           : form->last != NULL ? form->last->bits
                                                                : 32,
                                   .whole = whole,
                                   .floating = !tensor || strcmp(form->first->name, "f32") == 0};
}
