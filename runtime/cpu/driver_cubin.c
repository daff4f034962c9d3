/* driver_cubin.c - how many registers a thread of a kernel takes, read off the cubin that stands before the PTX.
 *
 * The emulated SM has the real part's register file, so residency is that of the real kernel. Reads ELF headers only;
 * anything unexpected is 0, not said. */
#include "runtime/cpu/driver.h"

#include <string.h>

enum { SECTION_HEADER = 64, NO_BITS = 8, ATTRIBUTE_SIZED = 4, ATTRIBUTE_REGCOUNT = 0x2f, SYMBOL = 24 };

struct section {
    uint64_t offset, bytes;
    uint32_t info, link;
    const char *name;
};

static bool read_section(const unsigned char *elf, uint64_t bytes, unsigned index, struct section *section) {
    uint64_t table = image_u64(elf + 40);
    unsigned count = image_u16(elf + 60), names = image_u16(elf + 62);
    if (index >= count || names >= count || table > bytes || (uint64_t)count * SECTION_HEADER > bytes - table)
        return false;
    const unsigned char *h = elf + table + (uint64_t)index * SECTION_HEADER;
    const unsigned char *n = elf + table + (uint64_t)names * SECTION_HEADER;
    uint64_t text = image_u64(n + 24), text_bytes = image_u64(n + 32), at = image_u32(h);
    if (text > bytes || text_bytes > bytes - text || at >= text_bytes) return false;
    if (elf[text + text_bytes - 1]) return false; /* the table's last text ends, so all do */
    section->name = (const char *)elf + text + at;
    bool nothing = image_u32(h + 4) == NO_BITS; /* what its offset and size say is not in the file */
    section->offset = nothing ? 0 : image_u64(h + 24);
    section->bytes = nothing ? 0 : image_u64(h + 32);
    section->link = image_u32(h + 40);
    section->info = image_u32(h + 44);
    return section->offset <= bytes && section->bytes <= bytes - section->offset;
}

static bool find_section(const unsigned char *elf, uint64_t bytes, const char *prefix, const char *rest,
                         struct section *out) {
    size_t length = strlen(prefix);
    for (unsigned i = 0; i < image_u16(elf + 60); i++)
        if (read_section(elf, bytes, i, out) && strncmp(out->name, prefix, length) == 0 &&
            strcmp(out->name + length, rest) == 0)
            return true;
    return false;
}

static bool symbol_is(const unsigned char *elf, const struct section *symbols, const struct section *names,
                      uint32_t index, const char *entry) {
    if ((uint64_t)index >= symbols->bytes / SYMBOL) return false;
    uint32_t at = image_u32(elf + symbols->offset + (uint64_t)index * SYMBOL);
    size_t length = strlen(entry);
    return at < names->bytes && names->bytes - at > length && memcmp(elf + names->offset + at, entry, length + 1) == 0;
}

/* .nv.info: { u8 format, u8 attribute, u16 size, payload }; REGCOUNT's payload is { u32 symbol, u32 registers }. */
static unsigned from_info(const unsigned char *elf, uint64_t bytes, const char *entry) {
    struct section info, symbols, names;
    if (!find_section(elf, bytes, ".nv.info", "", &info) || !find_section(elf, bytes, ".symtab", "", &symbols) ||
        !read_section(elf, bytes, symbols.link, &names))
        return 0;
    const unsigned char *p = elf + info.offset;
    unsigned registers = 0;
    for (uint64_t at = 0; info.bytes - at >= 4;) {
        uint64_t size = p[at] == ATTRIBUTE_SIZED ? image_u16(p + at + 2) : 0;
        if (size > info.bytes - at - 4) break;
        if (p[at] == ATTRIBUTE_SIZED && p[at + 1] == ATTRIBUTE_REGCOUNT && size >= 8 &&
            symbol_is(elf, &symbols, &names, image_u32(p + at + 4), entry))
            registers = image_u32(p + at + 8);
        at += 4 + size;
    }
    return registers;
}

unsigned cubin_registers(const void *cubin, uint64_t bytes, const char *entry) {
    const unsigned char *elf = cubin;
    struct section text;
    if (!elf || !image_elf_end(elf, bytes)) return 0;
    unsigned registers = from_info(elf, bytes, entry);
    if (!registers && find_section(elf, bytes, ".text.", entry, &text)) registers = text.info >> 24;
    return registers <= 255 ? registers : 0;
}
