/* toolchain_reach.c - whether a toolchain is new enough for an architecture and for the PTX of an expansion, before it
 * is asked: its own answer to what it does not know names no release that does. */
#include "gen/toolchain.h"

#include "runtime/error.h"

#include <stdio.h>

static const struct isa {
    uint32_t ptx; /* version * 10 */
    int major, minor;
} isas[] = {
#define I(ptx, major, minor) {ptx, major, minor},
#include "gen/ptx_isa.def"
#undef I
};
enum { ISAS = sizeof isas / sizeof isas[0] };

/* The first release that reads it; NULL where the table ends before. */
static const struct isa *release_of(uint32_t ptx) {
    for (size_t i = 0; i < ISAS; i++)
        if (isas[i].ptx >= ptx) return &isas[i];
    return NULL;
}

static bool older(int major, int minor, const struct isa *wanted) {
    return major < wanted->major || (major == wanted->major && minor < wanted->minor);
}

dcpk_status toolchain_reaches(const struct toolchain *toolchain, const dcpk_spec *spec, uint32_t ptx_version,
                              dcpk_error *error) {
    int major = 0, minor = 0;
    dcpk_arch_info row = {.size = sizeof row};
    /* "ptxas 13.0.88 (build ...)", "nvJitLink 13.0 (build ...)", "driver 13.0 (build ...)" */
    if (sscanf(toolchain->text, "%*s %d.%d", &major, &minor) != 2 || !dcpk_arch_find(spec->arch, &row)) return DCPK_OK;
    const struct isa *of_arch = release_of((uint32_t)row.ptx), *of_text = release_of(ptx_version);
    if (of_arch && older(major, minor, of_arch))
        return dcpk_error_set(
            error, DCPK_E_TOOLCHAIN, "%s: arch=%s needs a compiler of CUDA %d.%d or newer (PTX ISA %d.%d); this is %s",
            spec->kernel, spec->arch, of_arch->major, of_arch->minor, row.ptx / 10, row.ptx % 10, toolchain->text);
    if (of_text && older(major, minor, of_text))
        return dcpk_error_set(error, DCPK_E_TOOLCHAIN,
                              "%s: its PTX is of ISA %u.%u, which needs a compiler of CUDA %d.%d or newer; this is %s",
                              spec->kernel, ptx_version / 10, ptx_version % 10, of_text->major, of_text->minor,
                              toolchain->text);
    return DCPK_OK;
}
