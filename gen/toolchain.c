/* toolchain.c - the toolchains by name and order, and what is known against a version of any of them: they share one
 * compiler. */
#include "gen/toolchain.h"

#include "runtime/error.h"

#include <stdio.h>
#include <string.h>

const struct toolchain_kind *toolchain_kind_at(unsigned index) {
    static const struct toolchain_kind *const kinds[] = {&toolchain_ptxas, &toolchain_nvjitlink, &toolchain_driver};
    return index < sizeof kinds / sizeof kinds[0] ? kinds[index] : NULL;
}

const struct toolchain_kind *toolchain_kind_of(const char *name) {
    const struct toolchain_kind *kind;
    for (unsigned i = 0; (kind = toolchain_kind_at(i)) != NULL; i++)
        if (strcmp(name, kind->name) == 0) return kind;
    return NULL;
}

void toolchain_warn_of_faults(struct toolchain *toolchain, const struct notice *notice, const char *arch) {
    static const struct {
        long first, good;
        int capability;
        const char *what;
    } faults[] = {
#define F(first, good, capability, what) {first, good, capability, what},
#include "gen/ptxas_faults.def"
#undef F
    };
    long major = 0, minor = 0, patch = 0;
    dcpk_arch_info row = {.size = sizeof row};
    if (toolchain->warned || sscanf(toolchain->text, "%*s %ld.%ld.%ld", &major, &minor, &patch) < 2 ||
        !dcpk_arch_find(arch, &row))
        return; /* the libraries tell no third number: their first release of the version stands for all */
    long version = major * 1000000 + minor * 1000 + patch;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (version >= faults[i].first && version < faults[i].good &&
            row.major * 10 + row.minor >= faults[i].capability) {
            notice_log(notice, DCPK_LOG_WARNING, "%s %s", toolchain->text, faults[i].what);
            toolchain->warned = true;
        }
}
