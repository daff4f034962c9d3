/* fuzz.h - the fuzz targets: each takes one input, whatever its bytes, and returns; what must not happen is a crash, a
 * sanitizer's complaint, a hang, or fuzz_check failing.
 *
 * One file a target, tests/fuzz/fuzz_NAME.c, which holds fuzz_NAME and opens with the form of its inputs. libFuzzer
 * programs are fuzz_NAME with entry.c; the suites test_fuzz_findings and test_cpu_fuzz call the same functions. A
 * target keeps nothing from one input to the next but what it opens once. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void fuzz_template(const uint8_t *bytes, size_t length);
void fuzz_spec(const uint8_t *bytes, size_t length);
void fuzz_image(const uint8_t *bytes, size_t length);
void fuzz_pack(const uint8_t *bytes, size_t length);
void fuzz_cubin(const uint8_t *bytes, size_t length);
void fuzz_log(const uint8_t *bytes, size_t length);
void fuzz_cache(const uint8_t *bytes, size_t length);
void fuzz_shapes(const uint8_t *bytes, size_t length);
void fuzz_sweep(const uint8_t *bytes, size_t length);
void fuzz_safetensors(const uint8_t *bytes, size_t length);
void fuzz_ptx(const uint8_t *bytes, size_t length);

/* A promise that the code under test broke: said and fatal, in every build. */
#define fuzz_check(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition);                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A copy that ends exactly where the input does, or in one NUL: malloc. */
static inline char *fuzz_text(const uint8_t *bytes, size_t length) {
    char *text = malloc(length + 1);
    fuzz_check(text != NULL);
    for (size_t i = 0; i < length; i++)
        text[i] = (char)bytes[i];
    text[length] = '\0';
    return text;
}

#endif
