/* cubin.c - validates cubins and reads the resources that their kernels use.
 * Owns what dcpk knows of NVIDIA's ELF files: machine, both generations of e_flags, .nv.info attributes.
 * Every offset is checked before use; may not allocate, and never trusts a length. */
#include "runtime/cubin.h"

#include "runtime/error.h"
#include "runtime/image_find.h"

#include <stdio.h>

enum {
    MACHINE_CUDA = 190,
    TYPE_PROGBITS = 1,
    TYPE_SYMTAB = 2,
    TYPE_STRTAB = 3,
    TYPE_INFO = 0x70000000,
    SECTION_HEADER = 64,
    SYMBOL_BYTES = 24,
    SYMBOL_GLOBAL = 1,
    SYMBOL_FUNC = 2,
    INFO_REGCOUNT = 0x2f,       /* EIATTR_REGCOUNT: { symbol, registers a thread } */
    INFO_FRAME_SIZE = 0x11,     /* EIATTR_FRAME_SIZE: { symbol, bytes of the stack frame a thread } */
    INFO_MIN_STACK_SIZE = 0x12, /* EIATTR_MIN_STACK_SIZE: the frame and those of the functions it calls */
    INFO_SIZED = 4              /* format of an attribute that carries a length; all others are 4 bytes in all */
};

/* From compute capability 9.0 on, the system keeps the first 1 KiB of a CTA's shared memory, and a kernel's
 * .nv.shared section counts it; `ptxas -v` and the driver's attribute do not. */
enum { RESERVED_SHARED = 1024, RESERVED_SHARED_FROM = 90 };

/* The two generations of cubins: CUDA 12 and before, CUDA 13. */
static const struct abi {
    unsigned char os_abi, shift; /* e_flags >> shift & 0xff is the compute capability, 90 for 9.0 */
} abis[] = {{0x33, 0}, {0x41, 8}};

struct section {
    const char *name;
    uint32_t type, link, info;
    uint64_t offset, size, entry_size;
};

struct cubin {
    const unsigned char *bytes;
    uint64_t length, section_table;
    unsigned section_count;
    struct section names; /* the string table of section names */
    struct section symbols, symbol_names;
    unsigned capability; /* 90 for 9.0 */
};

/* A string table's last byte is NUL, so that every text in it ends: looked at once, not at each text. */
static bool ends(const struct cubin *cubin, const struct section *table) {
    return table->size > 0 && cubin->bytes[table->offset + table->size - 1] == 0;
}

/* table: one that ends. */
static const char *string_at(const struct cubin *cubin, const struct section *table, uint64_t offset) {
    return offset < table->size ? (const char *)cubin->bytes + table->offset + offset : NULL;
}

/* False for an index that there is none of, or a name outside the table of names. */
static bool section_at(const struct cubin *cubin, unsigned index, struct section *section) {
    if (index >= cubin->section_count) return false;
    const unsigned char *h = cubin->bytes + cubin->section_table + (uint64_t)index * SECTION_HEADER;
    section->type = image_u32(h + 4);
    section->offset = image_u64(h + 24);
    section->size = image_u64(h + 32);
    section->link = image_u32(h + 40);
    section->info = image_u32(h + 44);
    section->entry_size = image_u64(h + 56);
    section->name = string_at(cubin, &cubin->names, image_u32(h));
    return section->name != NULL;
}

static bool section_named(const struct cubin *cubin, const char *prefix, const char *name, struct section *section) {
    char wanted[128];
    int length = snprintf(wanted, sizeof wanted, "%s%s", prefix, name);
    if (length < 0 || (size_t)length >= sizeof wanted) return false;
    for (unsigned i = 1; i < cubin->section_count; i++)
        if (section_at(cubin, i, section) && strcmp(section->name, wanted) == 0) return true;
    return false;
}

static dcpk_status bad(dcpk_error *error, const char *what) {
    return dcpk_error_set(error, DCPK_E_BAD_CUBIN,
                          "%s: this is not a whole cubin; look for a full disk or a damaged toolkit", what);
}

static dcpk_status open_header(struct cubin *cubin, dcpk_error *error) {
    const unsigned char *p = cubin->bytes;
    if (cubin->length == 0) return bad(error, "the compiler's output is empty");
    if (cubin->length < 64 || memcmp(p, "\177ELF\2\1\1", 7) != 0)
        return bad(error, "the output does not begin with a 64-bit ELF header");
    if (image_u16(p + 18) != MACHINE_CUDA)
        return bad(error, "the ELF header names another machine than NVIDIA's (190)");
    uint64_t end = image_elf_end(p, cubin->length);
    if (end == 0) return bad(error, "a header, segment or section lies past the output's end");
    if (end != cubin->length) return bad(error, "bytes follow the last section");
    for (size_t i = 0; i < sizeof abis / sizeof abis[0]; i++)
        if (abis[i].os_abi == p[7]) cubin->capability = image_u32(p + 48) >> abis[i].shift & 0xff;
    if (cubin->capability == 0) return bad(error, "the ELF header names an ABI that this version does not know");
    return DCPK_OK;
}

static dcpk_status open_tables(struct cubin *cubin, dcpk_error *error) {
    cubin->section_table = image_u64(cubin->bytes + 40);
    cubin->section_count = image_u16(cubin->bytes + 60);
    unsigned names = image_u16(cubin->bytes + 62);
    if (names == 0 || names >= cubin->section_count) return bad(error, "the table of section names is missing");
    const unsigned char *h = cubin->bytes + cubin->section_table + (uint64_t)names * SECTION_HEADER;
    if (image_u32(h + 4) != TYPE_STRTAB) return bad(error, "the table of section names is no string table");
    cubin->names.offset = image_u64(h + 24);
    cubin->names.size = image_u64(h + 32);
    if (!ends(cubin, &cubin->names)) return bad(error, "the table of section names has no end");
    struct section section;
    for (unsigned i = 1; i < cubin->section_count; i++)
        if (!section_at(cubin, i, &section)) return bad(error, "a section's name lies outside the table of names");
    if (!section_named(cubin, ".symtab", "", &cubin->symbols) || cubin->symbols.type != TYPE_SYMTAB ||
        cubin->symbols.entry_size != SYMBOL_BYTES || cubin->symbols.size % SYMBOL_BYTES != 0)
        return bad(error, "the symbol table is missing or malformed");
    if (!section_at(cubin, cubin->symbols.link, &cubin->symbol_names) || cubin->symbol_names.type != TYPE_STRTAB ||
        !ends(cubin, &cubin->symbol_names))
        return bad(error, "the symbol table's names are missing, or have no end");
    return DCPK_OK;
}

/* The last value that .nv.info gives for the symbol under the attribute; false when there is none. */
static bool info_value(const struct cubin *cubin, unsigned attribute, uint32_t symbol, uint32_t *value) {
    struct section info;
    if (!section_named(cubin, ".nv.info", "", &info) || info.type != TYPE_INFO) return false;
    bool found = false;
    const unsigned char *p = cubin->bytes + info.offset;
    for (uint64_t at = 0; info.size - at >= 4;) {
        uint64_t size = p[at] == INFO_SIZED ? image_u16(p + at + 2) : 0;
        if (size > info.size - at - 4) return false;
        if (p[at] == INFO_SIZED && p[at + 1] == attribute && size >= 8 && image_u32(p + at + 4) == symbol) {
            *value = image_u32(p + at + 8);
            found = true;
        }
        at += 4 + size;
    }
    return found;
}

static dcpk_status bad_entry(dcpk_error *error, const char *name, const char *what) {
    return dcpk_error_set(error, DCPK_E_BAD_CUBIN, "entry %s: %s: this is not the cubin that was asked for", name,
                          what);
}

static dcpk_status check_entry(const struct cubin *cubin, dcpk_entry_info *entry, dcpk_error *error) {
    uint64_t count = cubin->symbols.size / SYMBOL_BYTES;
    const unsigned char *symbol = NULL;
    uint32_t index = 0;
    for (uint64_t i = 1; i < count && !symbol; i++) {
        const unsigned char *s = cubin->bytes + cubin->symbols.offset + i * SYMBOL_BYTES;
        const char *name = string_at(cubin, &cubin->symbol_names, image_u32(s));
        if (s[4] >> 4 == SYMBOL_GLOBAL && (s[4] & 15) == SYMBOL_FUNC && name && strcmp(name, entry->name) == 0) {
            symbol = s;
            index = (uint32_t)i;
        }
    }
    if (!symbol) return bad_entry(error, entry->name, "there is no global function of this name");
    struct section text, named, shared;
    if (!section_at(cubin, image_u16(symbol + 6), &text) || !section_named(cubin, ".text.", entry->name, &named) ||
        text.offset != named.offset || text.type != TYPE_PROGBITS || named.type != TYPE_PROGBITS)
        return bad_entry(error, entry->name, "its code section is missing");
    uint64_t value = image_u64(symbol + 8), size = image_u64(symbol + 16);
    if (size == 0 || value > text.size || size > text.size - value)
        return bad_entry(error, entry->name, "it has no code inside its section");

    if (!info_value(cubin, INFO_REGCOUNT, index, &entry->registers))
        entry->registers = text.info >> 24; /* where older compilers leave it */
    if (entry->registers == 0 || entry->registers > 255)
        return bad_entry(error, entry->name, "its register count is missing");
    uint32_t frame = 0, stack = 0;
    info_value(cubin, INFO_FRAME_SIZE, index, &frame);
    info_value(cubin, INFO_MIN_STACK_SIZE, index, &stack);
    entry->local_bytes = stack > frame ? stack : frame;
    uint64_t bytes = section_named(cubin, ".nv.shared.", entry->name, &shared) ? shared.size : 0;
    if (cubin->capability >= RESERVED_SHARED_FROM) bytes = bytes > RESERVED_SHARED ? bytes - RESERVED_SHARED : 0;
    if (bytes > UINT32_MAX) return bad_entry(error, entry->name, "its shared memory has no sane size");
    entry->static_shared = (uint32_t)bytes;
    return DCPK_OK;
}

dcpk_status cubin_check(const void *bytes, size_t length, const char *arch, dcpk_entry_info *entries,
                        uint32_t entry_count, dcpk_error *error) {
    dcpk_arch_info row = {.size = sizeof row};
    if (!dcpk_arch_find(arch, &row))
        return dcpk_error_set(error, DCPK_E_ARCH, "arch %s is not in the table of architectures", arch);
    struct cubin cubin = {.bytes = bytes, .length = length};
    dcpk_status status = open_header(&cubin, error);
    if (status == DCPK_OK) status = open_tables(&cubin, error);
    if (status != DCPK_OK) return status;
    unsigned wanted = (unsigned)(row.major * 10 + row.minor);
    if (cubin.capability != wanted)
        return dcpk_error_set(error, DCPK_E_BAD_CUBIN, "the cubin is for compute capability %u.%u, not for %s",
                              cubin.capability / 10, cubin.capability % 10, arch);
    for (uint32_t i = 0; i < entry_count && status == DCPK_OK; i++)
        status = check_entry(&cubin, &entries[i], error);
    return status;
}
