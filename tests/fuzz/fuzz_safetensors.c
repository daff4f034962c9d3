/* fuzz_safetensors.c - input: `R`, then a tensor file's bytes; or `J`, then the JSON text of its header, up to the
 * first NUL, behind which stand pairs of 32-bit numbers (place in units of 4 bytes, value) that are written into data
 * which is otherwise 0 and as long as the header's data_offsets ask, up to a bound. The file is opened, every tensor
 * and text looked at, then read as a case; a case that is accepted can be written. */
#include "tests/fuzz/fuzz.h"

#include <tools/case_file.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_DATA = 8 << 20, MOST_READ = 1 << 20, PATH_BYTES = 64 };

static void put(int fd, off_t at, const void *bytes, size_t length) {
    fuzz_check(pwrite(fd, bytes, length, at) == (ssize_t)length);
}

/* The greatest number of the text that data of a bounded file can end at. */
static uint64_t data_bytes(const char *text) {
    uint64_t most = 0;
    for (const char *at = strstr(text, "offsets"); at != NULL; at = strstr(at + 1, "offsets")) {
        const char *comma = strchr(at, ',');
        if (comma == NULL) break;
        char *end;
        uint64_t value = strtoull(comma + 1, &end, 10);
        if (value <= MOST_DATA && value > most) most = value;
    }
    return most;
}

static void make_from_header(int fd, const uint8_t *bytes, size_t length) {
    const uint8_t *nul = memchr(bytes, 0, length);
    size_t header = nul != NULL ? (size_t)(nul - bytes) : length;
    char *text = fuzz_text(bytes, header);
    uint64_t size = header, data = data_bytes(text);
    free(text);
    put(fd, 0, &size, 8);
    put(fd, 8, bytes, header);
    fuzz_check(ftruncate(fd, (off_t)(8 + header + data)) == 0);
    for (size_t at = header + 1; data >= 4 && at + 8 <= length; at += 8) {
        uint32_t pair[2];
        memcpy(pair, bytes + at, sizeof pair);
        put(fd, (off_t)(8 + header + pair[0] % (data / 4) * 4), &pair[1], 4);
    }
}

static void look(const char *path) {
    struct safetensors file;
    char why[SAFETENSORS_SENTENCE] = "";
    if (!safetensors_open(path, &file, why)) {
        fuzz_check(why[0] != '\0' && strlen(why) < sizeof why);
        return;
    }
    for (size_t i = 0; i < file.count; i++) {
        const struct safetensors_tensor *tensor = &file.tensors[i];
        fuzz_check(safetensors_find(&file, tensor->name) == tensor);
        uint64_t bytes = 0;
        fuzz_check(safetensors_bytes(tensor->dtype, tensor->shape, tensor->dimensions, &bytes));
        fuzz_check(bytes == tensor->bytes);
        if (bytes > MOST_READ) continue;
        void *data = malloc(bytes > 0 ? (size_t)bytes : 1);
        fuzz_check(data != NULL && safetensors_read(&file, tensor, data, why));
        free(data);
    }
    for (size_t i = 0; i < file.text_count && i < 100; i++)
        fuzz_check(safetensors_metadata(&file, file.texts[i].key) != NULL);
    safetensors_close(&file);
}

static void warn(void *self, const char *text) {
    (void)self;
    fuzz_check(text[0] != '\0');
}

static void read_case(const char *path) {
    struct layer_case *layer = NULL;
    char why[SAFETENSORS_SENTENCE] = "";
    bool good = layer_case_read(path, &layer, warn, NULL, why);
    fuzz_check(good == (layer != NULL) && (good || why[0] != '\0'));
    if (!good) return;
    fuzz_check(layer_case_write("/dev/null", layer, 0, why));
    layer_case_free(layer);
}

void fuzz_safetensors(const uint8_t *bytes, size_t length) {
    if (length == 0 || (bytes[0] != 'R' && bytes[0] != 'J')) return;
    char path[PATH_BYTES];
    int fd = memfd_create("tensors", MFD_CLOEXEC);
    fuzz_check(fd >= 0);
    if (bytes[0] == 'R')
        put(fd, 0, bytes + 1, length - 1);
    else
        make_from_header(fd, bytes + 1, length - 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    look(path);
    read_case(path);
    close(fd);
}
