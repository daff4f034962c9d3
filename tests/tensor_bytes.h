/* tensor_bytes.h - tensor files made and taken apart by hand, for suites that judge the code that does so. A fresh
 * folder a test; shares no code with tools/safetensors. */
#ifndef TESTS_TENSOR_BYTES_H
#define TESTS_TENSOR_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Fixtures, for each test: the folder, and a name in it. */
extern char bytes_folder[64], bytes_path[96];
void bytes_setup(void);
void bytes_teardown(void);

void bytes_put(const char *path, const void *bytes, size_t size);
void *bytes_get(const char *path, size_t *size); /* malloc; asserts that it is there */
int bytes_names(void);                           /* how many names the folder holds */
/* 8 bytes of `length`, the header's text, the data: into bytes_path. */
void bytes_file(uint64_t length, const char *header, size_t header_size, const void *data, size_t size);
/* The same with the header's own length. */
void bytes_tensors(const char *header, const void *data, size_t size);
/* One byte of bytes_path, in place. */
void bytes_poke(size_t at, char byte);

#endif
