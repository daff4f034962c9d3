/* program_wgmma_record.c - runs the products of wgmma_record.h on a driver and prints what they gave, as
 * tests/golden/wgmma_h200.txt keeps it: on a machine with an H200, some seconds,
 *   DCPK_TEST_DEVICE=cuda build/tests/wgmma_record >tests/golden/wgmma_h200.txt
 * test_cpu_wgmma then holds the CPU device against it, bit by bit. Without DCPK_TEST_DEVICE the CPU device itself runs.
 * Option: --ptx N prints the text of case N instead, for a look at what an assembler says. */
#include "runtime/device.h"
#include "tests/wgmma_record.h"

#include <stdlib.h>

static struct dcpk_driver driver;
static dcpk_error error;
static struct wgmma_data data;
static uint32_t out[WG_THREADS][WG_OUT], results[WG_ROWS * 256];
static char text[WG_TEXT];

static void fail(const char *what, cu_result result) {
    const char *why = "";
    if (driver.error_string != NULL) driver.error_string(result, &why);
    fprintf(stderr, "wgmma_record: %s: %s\n", what, why != NULL ? why : "");
    exit(1);
}

#define MUST(field, arguments)                                                                                         \
    do {                                                                                                               \
        cu_result result_ = CALL(&driver, field, arguments);                                                           \
        if (result_ != DRIVER_OK) fail(#field, result_);                                                               \
    } while (0)

static cu_ptr upload(const void *from, size_t bytes) {
    cu_ptr at = 0;
    MUST(mem_alloc, (&at, bytes));
    MUST(copy_to_device, (at, from, bytes));
    return at;
}

static void run(const struct wgmma_case *c, uint64_t seed) {
    cu_library library = NULL;
    cu_kernel kernel = NULL;
    cu_function function = NULL;
    wgmma_fill(c, seed, &data);
    wgmma_kernel(c, text);
    memset(out, 0, sizeof out);
    cu_ptr image = upload(data.image, sizeof data.image), registers = upload(data.registers, sizeof data.registers),
           to = upload(out, sizeof out), descriptors = upload(data.descriptors, sizeof data.descriptors);
    MUST(library_load, (&library, text, NULL, NULL, 0, NULL, NULL, 0));
    MUST(library_get_kernel, (&kernel, library, "f"));
    MUST(kernel_get_function, (&function, kernel));
    MUST(func_set_attribute, (function, DRIVER_FUNC_MAX_DYNAMIC_SHARED, WG_IMAGE));
    void *parameters[] = {&image, &registers, &to, &descriptors};
    cu_launch_config config = {.grid = {1, 1, 1}, .block = {WG_THREADS, 1, 1}, .shared_bytes = WG_IMAGE};
    MUST(launch, (&config, function, parameters, NULL));
    MUST(ctx_synchronize, ());
    MUST(copy_to_host, (out, to, sizeof out));
    cu_ptr all[] = {image, registers, to, descriptors};
    for (int i = 0; i < 4; i++)
        MUST(mem_free, (all[i]));
    MUST(library_unload, (library));
}

static void print(const struct wgmma_case *c) {
    char name[WG_NAME];
    unsigned count = WG_ROWS * c->columns;
    wgmma_name(c, name);
    uint64_t hash = wgmma_gather(c, (const uint32_t(*)[WG_OUT])out, results);
    printf("%s %016llx", name, (unsigned long long)hash);
    for (unsigned i = 0; i < count && count <= WG_KEPT; i++)
        printf(" %x", results[i]);
    printf("\n");
}

int main(int argc, char **argv) {
    const char *kind = getenv("DCPK_TEST_DEVICE");
    cu_context context = NULL;
    bool cpu;
    int count;
    if (argc == 3 && strcmp(argv[1], "--ptx") == 0) {
        long index = strtol(argv[2], NULL, 10);
        if (index < 0 || index >= WG_RECORDED) return 2;
        wgmma_kernel(&wgmma_recorded[index], text);
        fputs(text, stdout);
        return 0;
    }
    dcpk_error_init(&error);
    if (dcpk_driver_find(kind != NULL ? kind : "cpu", NULL, &driver, &cpu, &count, &error) != DCPK_OK) {
        fprintf(stderr, "wgmma_record: %s\n", error.text);
        return 1;
    }
    MUST(primary_retain, (&context, 0));
    MUST(ctx_set_current, (context));
    for (unsigned i = 0; i < WG_RECORDED; i++) {
        run(&wgmma_recorded[i], wgmma_seed(i));
        print(&wgmma_recorded[i]);
    }
    MUST(primary_release, (0));
    return 0;
}
