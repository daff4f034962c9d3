/* driver_library.c - from an image or PTX text to kernels: loading, unloading, the variables of a module.
 *
 * Owns struct library. The blob is copied: callers may drop theirs. What does not parse is reported in the caller's
 * error log and in dcpkcpu_report. */
#include "runtime/cpu/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned template_line(void *self, unsigned ptx_line, const char **file) {
    const struct library *library = self;
    return image_find_line(&library->view, ptx_line, file);
}

struct use {
    const struct world *world;
    const struct library *library;
};

/* No kernel of the library is queued or runs, on any device; another thread may have unloaded it. */
static bool use_over(const void *what) {
    const struct use *use = what;
    if (!handle_is(use->world, use->library, HANDLE_LIBRARY)) return true;
    for (int d = 0; d < use->world->device_count; d++)
        for (const struct stream *s = use->world->devices[d].streams; s; s = s->next)
            for (const struct op *op = s->first; op; op = op->next)
                if (op->launch && op->launch->grid.fn->module == use->library->module) return false;
    return true;
}

/* ---- what the blob is ------------------------------------------------------------------------------ */
/* Whether an image's header follows a cubin that ends at p. A bare cubin may be the last thing in its memory, so the
 * page is asked for first and the bytes are compared one by one, unseen by the address sanitizer. */
__attribute__((no_sanitize("address"))) static bool header_follows(const unsigned char *p) {
    long page = sysconf(_SC_PAGESIZE);
    if (page <= 0) return false;
    uintptr_t last = (uintptr_t)(p + IMAGE_HEADER_BYTES - 1) / (uintptr_t)page * (uintptr_t)page;
    if (msync((void *)last, 1, MS_ASYNC)) return false; /* not mapped */
    static const char magic[] = IMAGE_MAGIC;
    for (unsigned i = 0; i < sizeof magic - 1; i++)
        if (p[i] != (unsigned char)magic[i]) return false;
    return true;
}

/* The blob's length is not said: a text ends at its NUL, and nothing behind that is read. */
static bool begins_with(const unsigned char *bytes, const char *magic) {
    while (*magic && *bytes == (unsigned char)*magic) {
        magic++;
        bytes++;
    }
    return !*magic;
}

/* Copies what code points to. The result of the call. */
static cu_result take_blob(struct library *library, const void *code, const char **ptx) {
    const unsigned char *bytes = code;
    if (begins_with(bytes, "\x50\xed\x55\xba")) return R_CUDA_ERROR_NO_BINARY_FOR_GPU; /* a fatbin */
    if (begins_with(bytes, "\177ELF\2\1\1")) {
        uint64_t end = image_elf_end(bytes, UINT64_MAX / 2);
        if (!end) return R_CUDA_ERROR_INVALID_IMAGE;
        const unsigned char *behind = bytes + (end + IMAGE_ALIGN - 1) / IMAGE_ALIGN * IMAGE_ALIGN;
        if (!header_follows(behind)) return R_CUDA_ERROR_NO_BINARY_FOR_GPU;
        struct image_view view;
        if (!image_find(bytes, UINT64_MAX, &view)) return R_CUDA_ERROR_INVALID_IMAGE;
        library->blob = malloc(view.total);
        if (!library->blob) return R_CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(library->blob, bytes, view.total);
        if (!image_find(library->blob, view.total, &library->view)) return R_CUDA_ERROR_INVALID_IMAGE;
        library->lines = (struct line_source){.self = library, .template_line = template_line};
        *ptx = (const char *)library->view.part[IMAGE_PTX];
        return R_CUDA_SUCCESS;
    }
    if ((bytes[0] < ' ' || bytes[0] >= 0x7f) && bytes[0] != '\n' && bytes[0] != '\t' && bytes[0] != '\r')
        return R_CUDA_ERROR_INVALID_IMAGE;
    *ptx = library->blob = strdup(code);
    return library->blob ? R_CUDA_SUCCESS : R_CUDA_ERROR_OUT_OF_MEMORY;
}

static bool add_kernels(struct world *world, struct library *library) {
    unsigned count = ptx_function_count(library->module);
    library->kernels = calloc(count ? count : 1, sizeof *library->kernels);
    if (!library->kernels) return false;
    library->kernel_count = count;
    for (unsigned k = 0; k < library->kernel_count; k++) {
        struct kernel *kernel = &library->kernels[k];
        kernel->library = library;
        kernel->code = ptx_function_at(library->module, k);
        kernel->registers =
            cubin_registers(library->view.part[IMAGE_CUBIN], library->view.length[IMAGE_CUBIN], kernel->code->name);
        if (!kernel->registers) kernel->registers = kernel->code->max_registers;
        kernel->registers_known = kernel->registers != 0;
        if (!kernel->registers) kernel->registers = DEFAULT_REGISTERS;
        if (handle_add(world, kernel, HANDLE_KERNEL)) return false;
        for (int d = 0; d < world->device_count; d++) {
            unsigned fixed = kernel->code->static_shared;
            kernel->functions[d] =
                (struct function){.kernel = kernel,
                                  .device = &world->devices[d],
                                  .max_dynamic_shared = fixed < CTA_SHARED_DEFAULT ? CTA_SHARED_DEFAULT - fixed : 0};
        }
    }
    return true;
}

void library_free(struct world *world, struct library *library) {
    for (unsigned k = 0; k < library->kernel_count; k++) {
        order_forget(world, library->kernels[k].code);
        handle_remove(world, &library->kernels[k]);
        for (int d = 0; d < MAX_DEVICES; d++)
            handle_remove(world, &library->kernels[k].functions[d]);
    }
    handle_remove(world, library);
    for (int d = 0; d < MAX_DEVICES; d++)
        free(library->variables[d]);
    free(library->kernels);
    if (library->module) ptx_free(library->module);
    free(library->blob);
    free(library);
}

/* ---- loading --------------------------------------------------------------------------------------- */
struct jit_log {
    char *text;
    size_t bytes;
    void **bytes_written;
};

static struct jit_log find_log(const int *options, void **values, unsigned count) {
    struct jit_log log = {0};
    for (unsigned i = 0; options && values && i < count; i++) {
        if (options[i] == DRIVER_JIT_ERROR_LOG) log.text = values[i];
        if (options[i] != DRIVER_JIT_ERROR_LOG_BYTES) continue;
        log.bytes = (size_t)(uint32_t)(uintptr_t)values[i];
        log.bytes_written = &values[i];
    }
    return log;
}

static void write_log(const struct jit_log *log, const char *message) {
    size_t length = 0;
    if (log->text && log->bytes) {
        log->text[0] = 0;
        text_add(log->text, log->bytes, "%s", message);
        length = strlen(log->text) + 1;
    }
    if (log->bytes_written) *log->bytes_written = (void *)(uintptr_t)length;
}

static void load(struct call *call, struct library *library, const void *code, const struct jit_log *log) {
    const char *ptx = NULL;
    char message[sizeof call->world->report] = "";
    call->result = take_blob(library, code, &ptx);
    if (!call->result) {
        const dcpkcpu_options *o = &call->world->options;
        enum ptx_misfit misfit = ptx_misfit(ptx, &library->lines, o->major, o->minor, message, sizeof message);
        if (!misfit) library->module = ptx_load(ptx, &library->lines, message, sizeof message);
        if (misfit)
            call->result =
                misfit == PTX_MISFIT_VERSION ? R_CUDA_ERROR_UNSUPPORTED_PTX_VERSION : R_CUDA_ERROR_NO_BINARY_FOR_GPU;
        else if (!library->module)
            call->result = R_CUDA_ERROR_INVALID_PTX;
        else if (!add_kernels(call->world, library) || handle_add(call->world, library, HANDLE_LIBRARY))
            call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
    }
    write_log(log, message);
    if (*message) memcpy(call->world->report, message, sizeof message);
}

cu_result cpu_library_load(cu_library *handle, const void *code, int *jit_options, void **jit_values,
                           unsigned jit_count, int *options, void **values, unsigned count) {
    (void)options; /* what they allow, lazy or preserved, makes no difference here */
    (void)values;
    (void)count;
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    struct library *library = handle && code ? calloc(1, sizeof *library) : NULL;
    if (!library) {
        call.result = handle && code ? R_CUDA_ERROR_OUT_OF_MEMORY : R_CUDA_ERROR_INVALID_VALUE;
        return call_end(&call);
    }
    library->serial = ++call.world->library_serial;
    struct jit_log log = find_log(jit_options, jit_values, jit_count);
    load(&call, library, code, &log);
    if (call.result)
        library_free(call.world, library);
    else
        *handle = library;
    return call_end(&call);
}

static struct library *library_of(struct call *call, cu_library handle) {
    if (handle_is(call->world, handle, HANDLE_LIBRARY)) return handle;
    call->result = R_CUDA_ERROR_INVALID_HANDLE;
    return NULL;
}

static void unload_variables(struct world *world, const struct library *library) {
    unsigned count = ptx_variable_count(library->module);
    for (int d = 0; d < world->device_count; d++) {
        const uint64_t *addresses = library->variables[d];
        for (unsigned v = 0; addresses && v < count; v++) {
            struct mapping *mapping = memory_range(world, addresses[v], 1);
            if (mapping) memory_free(world, mapping);
        }
    }
}

/* Waits for the library's kernels: a running grid executes the module's code. */
cu_result cpu_library_unload(cu_library handle) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    struct library *library = library_of(&call, handle);
    struct use use = {.world = call.world, .library = library};
    if (library && !capture_allows_unsafe(&call)) return call_end(&call);
    if (library) call_run(&call, use_over, &use);
    if (library && !call.result && library_of(&call, handle)) {
        unload_variables(call.world, library);
        library_free(call.world, library);
    }
    return call_end(&call);
}

cu_result cpu_library_get_kernel(cu_kernel *kernel, cu_library handle, const char *name) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    struct library *library = library_of(&call, handle);
    if (!library) return call_end(&call);
    call.result = kernel && name ? R_CUDA_ERROR_NOT_FOUND : R_CUDA_ERROR_INVALID_VALUE;
    for (unsigned k = 0; kernel && name && k < library->kernel_count; k++) {
        if (strcmp(library->kernels[k].code->name, name) != 0) continue;
        *kernel = &library->kernels[k];
        call.result = R_CUDA_SUCCESS;
    }
    return call_end(&call);
}

/* ---- variables ------------------------------------------------------------------------------------- */
static void write_pointers(const struct ptx_variable *variable, uint8_t *at, const uint64_t *addresses) {
    for (unsigned p = 0; p < variable->pointer_count; p++) {
        const struct ptx_pointer *pointer = &variable->pointers[p];
        uint64_t value = (addresses[pointer->variable] + (uint64_t)pointer->addend) >> pointer->shift;
        memcpy(at + pointer->offset, &value, pointer->bytes < 8 ? pointer->bytes : 8);
    }
}

bool library_load_variables(struct world *world, struct library *library, struct device *device) {
    unsigned count = ptx_variable_count(library->module);
    if (library->variables[device->ordinal] || count == 0) return true;
    uint64_t *addresses = calloc(count, sizeof *addresses);
    if (!addresses) return false;
    for (unsigned v = 0; v < count; v++) {
        const struct ptx_variable *variable = ptx_variable_at(library->module, v);
        struct mapping *mapping = memory_alloc(world, device->ordinal, variable->bytes ? variable->bytes : 1);
        if (!mapping) {
            while (v--)
                memory_free(world, memory_at(world, addresses[v]));
            free(addresses);
            return false;
        }
        snprintf(mapping->name, sizeof mapping->name, "%s", variable->name);
        memset(mapping->home, 0, mapping->bytes);
        if (variable->initial) memcpy(mapping->home, variable->initial, variable->initial_bytes);
        written_put(mapping->backing, mapping->home, mapping->bytes, true);
        if (variable->constant) {
            mapping->writable = 0;
            mapping->follows_peers = false;
        }
        addresses[v] = mapping->start;
    }
    for (unsigned v = 0; v < count; v++)
        write_pointers(ptx_variable_at(library->module, v), memory_at(world, addresses[v])->home, addresses);
    library->variables[device->ordinal] = addresses;
    return true;
}

cu_result cpu_library_get_global(cu_ptr *address, size_t *bytes, cu_library handle, const char *name) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    struct library *library = library_of(&call, handle);
    if (!library) return call_end(&call);
    call.result = name ? R_CUDA_ERROR_NOT_FOUND : R_CUDA_ERROR_INVALID_VALUE;
    if (name && !library_load_variables(call.world, library, call.device)) call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned v = 0; call.result == R_CUDA_ERROR_NOT_FOUND && v < ptx_variable_count(library->module); v++) {
        const struct ptx_variable *variable = ptx_variable_at(library->module, v);
        if (strcmp(variable->name, name) != 0) continue;
        if (address) *address = library->variables[call.device->ordinal][v];
        if (bytes) *bytes = variable->bytes;
        call.result = R_CUDA_SUCCESS;
    }
    return call_end(&call);
}
