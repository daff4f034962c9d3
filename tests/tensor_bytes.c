/* tensor_bytes.c - see tensor_bytes.h. */
#include "tests/tensor_bytes.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char bytes_folder[64], bytes_path[96];

void bytes_setup(void) {
    strcpy(bytes_folder, "/tmp/tensor_bytes.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(bytes_folder));
    snprintf(bytes_path, sizeof bytes_path, "%s/a.safetensors", bytes_folder);
}

void bytes_teardown(void) {
    char line[96];
    snprintf(line, sizeof line, "rm -rf '%s'", bytes_folder);
    ck_assert_int_eq(system(line), 0);
}

void bytes_put(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

void *bytes_get(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "no file %s", path);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

int bytes_names(void) {
    DIR *folder = opendir(bytes_folder);
    ck_assert_ptr_nonnull(folder);
    int count = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(folder);
    return count;
}

void bytes_file(uint64_t length, const char *header, size_t header_size, const void *data, size_t size) {
    unsigned char little[8];
    for (int i = 0; i < 8; i++) {
        little[i] = (unsigned char)(length >> (8 * i));
    }
    remove(bytes_path); /* some file systems bring a file to disk when its bytes are replaced */
    FILE *file = fopen(bytes_path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(little, 1, 8, file), 8);
    ck_assert_uint_eq(fwrite(header, 1, header_size, file), header_size);
    ck_assert_uint_eq(size == 0 ? 0 : fwrite(data, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

void bytes_tensors(const char *header, const void *data, size_t size) {
    bytes_file(strlen(header), header, strlen(header), data, size);
}

void bytes_poke(size_t at, char byte) {
    int fd = open(bytes_path, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}
