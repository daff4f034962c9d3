/* toolchain_reach.c - whether a compiler is new enough for our options, an architecture and the PTX of an expansion,
 * before it is asked: its own answer to what it does not know names no release that does. */
#include "gen/toolchain.h"

#include "runtime/error.h"

#include <stdio.h>
#include <string.h>

struct release {
    int major, minor; /* of CUDA */
};

static bool older(struct release is, struct release wanted) {
    return is.major < wanted.major || (is.major == wanted.major && is.minor < wanted.minor);
}

/* The first release that reads this version of the PTX ISA (version * 10); 0.0 where the table ends before. */
static struct release release_of(uint32_t ptx) {
    static const struct {
        uint32_t ptx;
        struct release first;
    } isas[] = {
#define I(ptx, major, minor) {ptx, {major, minor}},
#include "gen/ptx_isa.def"
#undef I
    };
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++)
        if (isas[i].ptx >= ptx) return isas[i].first;
    return (struct release){0, 0};
}

/* The option that a library of this name and release does not know, NULL when it knows all. */
static const char *option_missing(const char *name, struct release is, struct release *wanted) {
    static const struct {
        const char *name;
        struct release first;
        const char *option;
    } rows[] = {
#define L(name, major, minor, option) {name, {major, minor}, option},
#include "gen/compiler_least.def"
#undef L
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        *wanted = rows[i].first;
        if (strcmp(rows[i].name, name) == 0 && older(is, *wanted)) return rows[i].option;
    }
    return NULL;
}

dcpk_status toolchain_reaches(const char *compiler, const dcpk_spec *spec, uint32_t ptx_version, dcpk_error *error) {
    char name[16];
    struct release is, wanted;
    dcpk_arch_info row = {.size = sizeof row};
    if (sscanf(compiler, "%15s %d.%d", name, &is.major, &is.minor) != 3) return DCPK_OK;
    const char *option = option_missing(name, is, &wanted);
    if (option)
        return dcpk_error_set(error, DCPK_E_TOOLCHAIN,
                              "%s: %s of CUDA %d.%d or newer is needed (option %s); this is %s", spec->kernel, name,
                              wanted.major, wanted.minor, option, compiler);
    if (dcpk_arch_find(spec->arch, &row) && older(is, wanted = release_of((uint32_t)row.ptx)))
        return dcpk_error_set(
            error, DCPK_E_TOOLCHAIN, "%s: arch=%s needs a compiler of CUDA %d.%d or newer (PTX ISA %d.%d); this is %s",
            spec->kernel, spec->arch, wanted.major, wanted.minor, row.ptx / 10, row.ptx % 10, compiler);
    if (older(is, wanted = release_of(ptx_version)))
        return dcpk_error_set(error, DCPK_E_TOOLCHAIN,
                              "%s: its PTX is of ISA %u.%u, which needs a compiler of CUDA %d.%d or newer; this is %s",
                              spec->kernel, ptx_version / 10, ptx_version % 10, wanted.major, wanted.minor, compiler);
    return DCPK_OK;
}
