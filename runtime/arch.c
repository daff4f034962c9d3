/* arch.c - owns the architecture table. Pure: no driver, no state. */
#include "runtime/keys.h"

#include <string.h>

struct arch_row {
    const char *name;
    int32_t major, minor, exact, sms, ptx;
};

static const struct arch_row rows[] = {
#define R(name, major, minor, exact, sms, ptx) {#name, major, minor, exact, sms, ptx},
#include "runtime/arch.def"
#undef R
};

int32_t dcpk_arch_at(uint32_t index, dcpk_arch_info *info) {
    if (index >= sizeof rows / sizeof rows[0] || info == NULL || info->size < sizeof *info) return 0;
    const struct arch_row *row = &rows[index];
    info->name = row->name;
    info->major = row->major;
    info->minor = row->minor;
    info->exact = row->exact;
    info->sms = row->sms;
    info->ptx = row->ptx;
    return 1;
}

int32_t dcpk_arch_find(const char *name, dcpk_arch_info *info) {
    dcpk_arch_info any = {.size = sizeof any};
    if (name == NULL) return 0;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0) return dcpk_arch_at(i, info != NULL ? info : &any);
    return 0;
}
