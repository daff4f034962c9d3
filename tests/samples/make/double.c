/* double.c - a kernel of our own, from templates/double.ptx.lua and the helpers that dcpk has built in. */
#include <dcpk/dcpk.h>
#include <dcpk/gen.h>

#include <stdio.h>

enum { NUMBERS = 100 };

static int fail(const dcpk_error *error) {
    fprintf(stderr, "double: %s\n", error->text);
    return 1;
}

int main(void) {
    dcpk_error error;
    dcpk_error_init(&error);
    char built_in[4096], folders[4200];
    dcpk_templates_path(built_in, sizeof built_in);
    snprintf(folders, sizeof folders, "templates:%s", built_in);
    dcpk_gen_options wanted = {.size = sizeof wanted, .template_path = folders};
    dcpk_gen *gen;
    dcpk_device *device;
    dcpk_kernel *kernel;
    dcpk_provider provider = {.size = sizeof provider};
    dcpk_spec spec;
    char text[64];
    snprintf(text, sizeof text, "double batch=%d", NUMBERS);
    if (dcpk_gen_open(&wanted, &gen, &error) != DCPK_OK || dcpk_gen_provider(gen, &provider, &error) != DCPK_OK ||
        dcpk_device_open(NULL, &device, &error) != DCPK_OK || dcpk_spec_parse(&spec, text, &error) != DCPK_OK ||
        dcpk_spec_resolve(&spec, &error) != DCPK_OK ||
        dcpk_kernel_warm(device, &provider, &spec, 1, NULL, &kernel, &error) != DCPK_OK)
        return fail(&error);

    float numbers[NUMBERS], doubled[NUMBERS];
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = (float)i + 0.25f;
    uint64_t from, to;
    void *params[] = {&from, &to}, *stream;
    if (dcpk_mem_alloc(device, sizeof numbers, &from, &error) != DCPK_OK ||
        dcpk_mem_alloc(device, sizeof doubled, &to, &error) != DCPK_OK ||
        dcpk_mem_write(device, from, numbers, sizeof numbers, &error) != DCPK_OK ||
        dcpk_stream_create(device, &stream, &error) != DCPK_OK ||
        dcpk_kernel_launch_raw(kernel, 0, params, stream, 0, &error) != DCPK_OK ||
        dcpk_stream_sync(device, stream, &error) != DCPK_OK ||
        dcpk_mem_read(device, doubled, to, sizeof doubled, &error) != DCPK_OK)
        return fail(&error);

    int wrong = 0;
    for (int i = 0; i < NUMBERS; i++)
        wrong += doubled[i] != 2 * numbers[i];
    printf("%d numbers doubled, %d wrong\n", NUMBERS, wrong);
    dcpk_kernel_free(kernel, NULL);
    dcpk_mem_free(device, from, NULL);
    dcpk_mem_free(device, to, NULL);
    dcpk_stream_destroy(device, stream, NULL);
    dcpk_device_close(device);
    dcpk_gen_close(gen);
    return wrong != 0;
}
