/* fuzz_ptx.c - input: what cuLibraryLoadData of the CPU device gets: PTX text, up to its first NUL, or an image whose
 * parts lie inside it (the call has no length, so that anything else that begins as an ELF file is out of its
 * contract). It loads, with its kernels and variables there to be asked about, or is refused with a reason. */
#include "tests/fuzz/fuzz.h"

#include "runtime/cpu/driver.h"

#include <string.h>

enum { LOG_BYTES = 2000 };

static void start(void) {
    fuzz_check(cpu_init(0) == R_CUDA_SUCCESS); /* the first call alone does something */
}

/* Whether the call may have the bytes. */
static bool in_contract(const char *blob, size_t length) {
    struct image_view view;
    if (length < 4 || memcmp(blob, "\177ELF", 4) != 0) return true;
    return image_find(blob, length, &view);
}

static void ask(const struct library *library) {
    fuzz_check(library->kernel_count == ptx_function_count(library->module));
    for (unsigned k = 0; k < library->kernel_count; k++) {
        const struct ptx_function *function = library->kernels[k].code;
        fuzz_check(function->name[0] != '\0' && function->code != NULL);
        fuzz_check(function->param_bytes <= 32764 && library->kernels[k].registers > 0);
    }
    for (unsigned v = 0; v < ptx_variable_count(library->module); v++)
        fuzz_check(ptx_variable_at(library->module, v)->name[0] != '\0');
}

void fuzz_ptx(const uint8_t *bytes, size_t length) {
    char *blob = fuzz_text(bytes, length), log[LOG_BYTES] = "";
    int options[] = {DRIVER_JIT_ERROR_LOG, DRIVER_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    cu_library library = NULL;
    start();
    if (in_contract(blob, length)) {
        cu_result result = cpu_library_load(&library, blob, options, values, 2, NULL, NULL, 0);
        fuzz_check(result != R_CUDA_ERROR_INVALID_PTX || (log[0] != '\0' && strlen(log) < sizeof log));
        fuzz_check((result == R_CUDA_SUCCESS) == (library != NULL));
    }
    free(blob);
    if (library == NULL) return;
    ask(library);
    fuzz_check(cpu_library_unload(library) == R_CUDA_SUCCESS);
}
