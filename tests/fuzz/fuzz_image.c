/* fuzz_image.c - input: the bytes of a cache entry (a kernel image). The checksum is made right before they are read,
 * and so is the length that header and footer hold, unless the footer's upper half is not 0: what stands behind those
 * checks is reached. An image that is accepted answers every question, and is accepted again byte for byte. */
#include "tests/fuzz/fuzz.h"

#include "runtime/digest.h"
#include "runtime/image_find.h"
#include "runtime/image_format.h"

#include <string.h>

static void put_u64(uint8_t *to, uint64_t value) {
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

/* Places as image_find.h lays them out. */
static void make_right(uint8_t *bytes, size_t length) {
    if (length < IMAGE_FOOTER_BYTES) return;
    uint8_t *footer = bytes + length - IMAGE_FOOTER_BYTES;
    uint64_t end = image_elf_end(bytes, length), at = (end + IMAGE_ALIGN - 1) / IMAGE_ALIGN * IMAGE_ALIGN;
    if (end != 0 && at + IMAGE_HEADER_BYTES + IMAGE_FOOTER_BYTES <= length && image_u32(footer + 4) == 0) {
        put_u64(footer, length);
        put_u64(bytes + at + 16, length);
    }
    digest_bytes(bytes, length - IMAGE_FOOTER_BYTES, footer + 8);
}

static void ask(const dcpk_image *image) {
    size_t length = 0, cubin = 0;
    const char *text = dcpk_image_ptx(image, &length);
    fuzz_check(strlen(text) == length);
    text = dcpk_image_preimage(image, &length);
    fuzz_check(strlen(text) == length && strlen(dcpk_image_key(image)) == 32);
    fuzz_check(dcpk_image_cubin(image, &cubin) == dcpk_image_bytes(image, &length) && cubin < length);
    dcpk_spec spec;
    dcpk_error error;
    dcpk_error_init(&error);
    fuzz_check(dcpk_image_spec(image, &spec, &error) == DCPK_OK || error.text[0] != '\0');
    for (uint32_t i = 0; i <= dcpk_image_entry_count(image); i++) {
        dcpk_entry_info info = {.size = sizeof info};
        bool there = dcpk_image_entry(image, i, &info, &error) == DCPK_OK;
        fuzz_check(there == (i < dcpk_image_entry_count(image)));
        fuzz_check(!there || (info.param_count <= DCPK_IMAGE_MAX_PARAMS && info.registers <= 255));
    }
    for (uint32_t line = 0; line < 70; line++) {
        const char *file = NULL;
        fuzz_check((dcpk_image_template_line(image, line, &file) != 0) == (file != NULL));
        fuzz_check(file == NULL || strlen(file) < length);
    }
    dcpk_image_template_line(image, UINT32_MAX, NULL);
}

static void read_image(const uint8_t *bytes, size_t length,
                       dcpk_status (*open)(const void *, size_t, dcpk_image **, dcpk_error *)) {
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = open(bytes, length, &image, &error);
    fuzz_check((status == DCPK_OK) == (image != NULL));
    fuzz_check(status == DCPK_OK || error.text[0] != '\0');
    if (image == NULL) return;
    ask(image);
    dcpk_image *again = NULL;
    size_t size = 0;
    const void *copy = dcpk_image_bytes(image, &size);
    fuzz_check(size == length && memcmp(copy, bytes, length) == 0);
    fuzz_check(open(copy, size, &again, &error) == DCPK_OK);
    dcpk_image_free(again);
    dcpk_image_free(image);
}

void fuzz_image(const uint8_t *bytes, size_t length) {
    uint8_t *copy = malloc(length > 0 ? length : 1);
    fuzz_check(copy != NULL);
    if (length > 0) memcpy(copy, bytes, length);
    make_right(copy, length);
    read_image(copy, length, dcpk_image_from_bytes);
    read_image(copy, length, image_open_quick);
    free(copy);
}
