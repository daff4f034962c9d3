/* library.c - owns dlopen: the search for a compiler's library, and its build id.
 * Must not know what a library does. The only dlopen of gen. */
#include "gen/library.h"

#include "runtime/error.h"
#include "runtime/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static bool try_open(struct library *library, const char *folder, const char *name, char *reason, size_t capacity) {
    char path[4096];
    int length = folder ? snprintf(path, sizeof path, "%s/%s", folder, name) : snprintf(path, sizeof path, "%s", name);
    if (length < 0 || (size_t)length >= sizeof path) return false;
    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library->handle) return true;
    const char *text = dlerror();
    /* A file that is there and does not load tells more than one that is not there. */
    if (text && (reason[0] == '\0' || !strstr(text, "No such file"))) snprintf(reason, capacity, "%s", text);
    return false;
}

/* By its names: where the loader looks (the process may have it open already), then in the toolkits. */
static bool search_all(struct library *library, const struct library_search *search, const char *home, char *reason,
                       size_t capacity) {
    const char *const names[] = {search->soname, search->plain};
    char own[4096];
    snprintf(own, sizeof own, "%s/lib64", home ? home : "");
    const char *const folders[] = {NULL, home ? own : NULL, "/usr/local/cuda/lib64"};
    for (size_t f = 0; f < (search->toolkit ? 3U : 1U); f++)
        for (size_t n = 0; n < 2; n++)
            if (names[n] && (f == 0 || folders[f]) && try_open(library, folders[f], names[n], reason, capacity))
                return true;
    return false;
}

struct build_id {
    ElfW(Addr) base;
    char *hex;
    size_t capacity;
};

static void read_note(const char *at, const char *end, struct build_id *id) {
    while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof note);
        const char *name = at + sizeof note;
        size_t name_bytes = (note.n_namesz + 3U) & ~3U, text_bytes = (note.n_descsz + 3U) & ~3U;
        if ((size_t)(end - name) < name_bytes + text_bytes) return;
        const unsigned char *text = (const unsigned char *)name + name_bytes;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0)
            for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < id->capacity; i++)
                snprintf(id->hex + 2 * i, 3, "%02x", text[i]);
        at = name + name_bytes + text_bytes;
    }
}

static int find_note(struct dl_phdr_info *info, size_t size, void *self) {
    struct build_id *id = self;
    (void)size;
    if (info->dlpi_addr != id->base) return 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_NOTE) continue;
        /* The loader's own map of the file: an address, as it comes. */
        const char *at = (const char *)(uintptr_t)(info->dlpi_addr + header->p_vaddr); /* NOLINT(performance-*) */
        read_note(at, at + header->p_memsz, id);
    }
    return 1;
}

/* The text is set; the compiler is missing, and did not refuse anything. */
static dcpk_status missing(dcpk_error *error) {
    if (error && error->size >= sizeof *error) error->sys_errno = ENOENT;
    return DCPK_E_TOOLCHAIN;
}

dcpk_status library_open(struct library *library, const struct library_search *search,
                         const struct environment *environment, dcpk_error *error) {
    char reason[400] = "";
    struct link_map *map = NULL;
    *library = (struct library){0};
    if (!dcpk_loader_there()) {
        dcpk_error_set(error, DCPK_E_TOOLCHAIN, "no %s: %s", search->what, DCPK_NO_LOADER);
        return missing(error);
    }
    if (search->named) {
        if (!try_open(library, NULL, search->named, reason, sizeof reason)) {
            dcpk_error_set(error, DCPK_E_TOOLCHAIN, "%s does not open as a library; %s names it: %s", search->named,
                           search->variable, reason);
            return missing(error);
        }
    } else if (!search_all(library, search, environment->cuda_home, reason, sizeof reason)) {
        dcpk_error_set(error, DCPK_E_TOOLCHAIN,
                       "no %s: %s is %s where the system's loader looks (LD_LIBRARY_PATH, ldconfig)%s; %s or set %s to "
                       "the library (%s)",
                       search->what, search->soname, search->toolkit ? "neither" : "not",
                       search->toolkit ? " nor in $CUDA_HOME/lib64 or /usr/local/cuda/lib64" : "", search->advice,
                       search->variable, reason);
        return missing(error);
    }
    if (dlinfo(library->handle, RTLD_DI_LINKMAP, (void *)&map) == 0 && map) {
        library->path = map->l_name;
        struct build_id id = {map->l_addr, library->build, sizeof library->build};
        dl_iterate_phdr(find_note, &id);
    }
    return DCPK_OK;
}

void library_close(struct library *library) {
    if (library->handle) dlclose(library->handle);
    *library = (struct library){0};
}

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the bytes are the same. */
bool library_symbol(const struct library *library, const char *symbol, void *pointer) {
    void *found = dlsym(library->handle, symbol);
    memcpy(pointer, &found, sizeof found);
    return found != NULL;
}

dcpk_status library_lacks(const struct library *library, const struct library_search *search, const char *symbol,
                          dcpk_error *error) {
    dcpk_error_set(error, DCPK_E_TOOLCHAIN, "%s has no %s: it is another library than %s, or too old; set %s to one",
                   library->path && library->path[0] ? library->path : search->soname, symbol, search->what,
                   search->variable);
    return missing(error);
}
