/* loader.c - see loader.h. May ask the system where the program's parts are; opens nothing. */
#include "runtime/loader.h"

#include <link.h>
#include <sys/auxv.h>

/* The first object is the program itself. Dynamic ones name their loader. */
static int look(struct dl_phdr_info *program, size_t size, void *named) {
    (void)size;
    for (ElfW(Half) i = 0; i < program->dlpi_phnum; i++)
        if (program->dlpi_phdr[i].p_type == PT_INTERP) *(bool *)named = true;
    return 1;
}

bool dcpk_loader_there(void) {
    bool named =
        getauxval(AT_BASE) != 0; /* where the kernel put the loader; 0 also where the loader itself was called */
    if (!named) dl_iterate_phdr(look, &named);
    return named;
}
