/* stand_in.c - see stand_in.h. Writes the smallest ELF file that dcpk's own checks take for a cubin. */
#include "tests/stand_in.h"

#include "runtime/image_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELF_HEADER = 64, SECTION_HEADER = 64, SYMBOL = 24, CAPACITY = 65536, CODE_BYTES = 128, REGISTERS = 32 };
enum { SECTION_NAMES = 1, SYMBOL_NAMES = 2, SYMBOLS = 3, FIRST_TEXT = 4 };

struct elf {
    unsigned char bytes[CAPACITY];
    size_t length;
    struct {
        size_t name, type, offset, size, link, info, entry;
    } section[FIRST_TEXT + 2 * DCPK_IMAGE_MAX_ENTRIES];
    size_t sections;
    char names[4096];
    size_t names_length;
};

static void fail(const char *what) {
    fprintf(stderr, "stand-in image: %s\n", what);
    abort();
}

static void put(unsigned char *to, size_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> (8 * i));
}

static size_t text(char *table, size_t *length, const char *name) {
    size_t at = *length;
    strcpy(table + at, name);
    *length += strlen(name) + 1;
    return at;
}

static size_t add(struct elf *elf, const char *name, size_t type, const void *data, size_t size) {
    size_t i = elf->sections++;
    elf->section[i].name = text(elf->names, &elf->names_length, name);
    elf->section[i].type = type;
    elf->section[i].offset = elf->length;
    elf->section[i].size = size;
    if (data != NULL) memcpy(elf->bytes + elf->length, data, size);
    elf->length += (size + 15) / 16 * 16;
    return i;
}

static void add_entries(struct elf *elf, const dcpk_entry_info *entries, uint32_t count) {
    char symbol_names[2048] = "";
    size_t names_length = 1;
    unsigned char symbols[SYMBOL * (DCPK_IMAGE_MAX_ENTRIES + 1)] = {0};
    for (uint32_t i = 0; i < count; i++) {
        unsigned char *symbol = symbols + SYMBOL * (i + 1);
        put(symbol, text(symbol_names, &names_length, entries[i].name), 4);
        symbol[4] = 1 << 4 | 2; /* global function */
        put(symbol + 6, FIRST_TEXT + i, 2);
        put(symbol + 16, CODE_BYTES, 8);
    }
    add(elf, ".strtab", 3, symbol_names, names_length);
    size_t table = add(elf, ".symtab", 2, symbols, SYMBOL * (count + 1));
    elf->section[table].link = SYMBOL_NAMES;
    elf->section[table].entry = SYMBOL;
    char name[96];
    for (uint32_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, ".text.%s", entries[i].name);
        size_t code = add(elf, name, 1, NULL, CODE_BYTES);
        elf->section[code].info = (size_t)REGISTERS << 24;
    }
    for (uint32_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, ".nv.shared.%s", entries[i].name);
        add(elf, name, 8, NULL, 0);
        elf->section[elf->sections - 1].size = entries[i].static_shared + 1024; /* the system's own share */
    }
}

static void make_elf(struct elf *elf, int capability, const dcpk_entry_info *entries, uint32_t count) {
    memset(elf, 0, sizeof *elf);
    elf->length = ELF_HEADER;
    elf->sections = 1;
    elf->names_length = 1;
    size_t names = add(elf, ".shstrtab", 3, NULL, sizeof elf->names); /* filled at the end */
    add_entries(elf, entries, count);
    memcpy(elf->bytes + elf->section[names].offset, elf->names, sizeof elf->names);
    memcpy(elf->bytes, "\177ELF\2\1\1\x41", 8);
    put(elf->bytes + 16, 2, 2);
    put(elf->bytes + 18, 190, 2);
    put(elf->bytes + 20, 1, 4);
    put(elf->bytes + 40, elf->length, 8);
    put(elf->bytes + 48, (size_t)capability << 8, 4);
    put(elf->bytes + 52, ELF_HEADER, 2);
    put(elf->bytes + 58, SECTION_HEADER, 2);
    put(elf->bytes + 60, elf->sections, 2);
    put(elf->bytes + 62, SECTION_NAMES, 2);
    for (size_t i = 1; i < elf->sections; i++) {
        unsigned char *header = elf->bytes + elf->length + i * SECTION_HEADER;
        put(header, elf->section[i].name, 4);
        put(header + 4, elf->section[i].type, 4);
        put(header + 24, elf->section[i].offset, 8);
        put(header + 32, elf->section[i].size, 8);
        put(header + 40, elf->section[i].link, 4);
        put(header + 44, elf->section[i].info, 4);
        put(header + 48, 16, 8);
        put(header + 56, elf->section[i].entry, 8);
    }
    elf->length += elf->sections * SECTION_HEADER;
}

static const char *type_of(const char *name) {
    static const char *const known[][2] = {
#define A(type, name, kernels, doc) {#name, #type},
#include <dcpk/args.def>
#undef A
#define B(type, name, doc) {#name, #type},
#include <dcpk/box.def>
#undef B
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i][0], name) == 0) return known[i][1];
    fail(name);
    return NULL;
}

dcpk_entry_info stand_in_entry(const char *name, const char *params) {
    dcpk_entry_info entry;
    memset(&entry, 0, sizeof entry);
    entry.size = (uint32_t)sizeof entry;
    snprintf(entry.name, sizeof entry.name, "%s", name);
    for (int i = 0; i < 3; i++)
        entry.grid[i] = entry.block[i] = entry.cluster[i] = 1;
    entry.block[0] = 128;
    entry.waits = 1;
    char copy[512], *rest = copy;
    snprintf(copy, sizeof copy, "%s", params);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        if (word[0] == '\0') continue;
        char *colon = strchr(word, ':');
        if (colon != NULL) *colon++ = '\0';
        dcpk_param_info *param = &entry.params[entry.param_count++];
        snprintf(param->name, sizeof param->name, "%s", word);
        snprintf(param->type, sizeof param->type, "%s", colon != NULL ? colon : type_of(word));
    }
    return entry;
}

dcpk_image *stand_in_image(const char *spec_text, const dcpk_entry_info *entries, uint32_t count) {
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_spec spec;
    if (dcpk_spec_parse(&spec, spec_text, &error) != DCPK_OK || dcpk_spec_resolve(&spec, &error) != DCPK_OK)
        fail(error.text);
    dcpk_arch_info arch = {.size = sizeof arch};
    if (!dcpk_arch_find(spec.arch, &arch)) fail(spec.arch);
    struct elf *elf = malloc(sizeof *elf);
    if (elf == NULL) fail("out of memory");
    make_elf(elf, arch.major * 10 + arch.minor, entries, count);
    char canonical[1024], preimage[1200];
    dcpk_spec_format(&spec, canonical, sizeof canonical);
    snprintf(preimage, sizeof preimage, "stand-in of %s, %u threads\n", canonical, entries[0].block[0]);
    static const char ptx[] = "// nothing\n", *const files[] = {"stand_in.ptx.lua"};
    static const struct image_line lines[] = {{0, 1}};
    struct image_parts parts = {.cubin = elf->bytes,
                                .cubin_length = elf->length,
                                .ptx = ptx,
                                .ptx_length = sizeof ptx - 1,
                                .preimage = preimage,
                                .spec = canonical,
                                .ptx_version = 80,
                                .entry_count = count,
                                .entries = entries,
                                .lines = lines,
                                .line_count = 1,
                                .files = files,
                                .file_count = 1};
    snprintf(parts.target, sizeof parts.target, "%s", "sm_90");
    dcpk_image *image = NULL;
    if (image_make(&parts, &image, &error) != DCPK_OK) fail(error.text);
    free(elf);
    return image;
}
