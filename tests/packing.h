/* packing.h - fixtures of the suites of packs: a fresh folder to be in, images without a compiler, packs of them. */
#ifndef TESTS_PACKING_H
#define TESTS_PACKING_H

#include <dcpk/pack.h>

#include <stdbool.h>

extern char pack_folder[64]; /* the working folder of a test, removed at its end */
void packing_setup(void);    /* also: DCPK_AOT_PATH and DCPK_CACHE_TRUST_UID unset */
void packing_teardown(void);

/* query_norm heads=2 batch=N, of an entry with this many threads a CTA (so that images of one spec can differ). */
dcpk_image *packing_image(int batch, uint32_t threads);
void packing_spec(int batch, dcpk_spec *spec); /* resolved */

/* A pack of the batches of a list that ends in 0. */
void packing_write(const char *path, const int *batches);
/* A pack of one image. */
void packing_write_one(const char *path, int batch, uint32_t threads);
dcpk_status packing_find(dcpk_packs *packs, int batch, dcpk_image **image, dcpk_error *error);
/* Threads a CTA of the image that the packs have for this batch; asserts that there is one. */
uint32_t packing_threads(dcpk_packs *packs, int batch);
/* Opens a colon list and asserts success. */
dcpk_packs *packing_open(const char *path);
/* Opens it and expects this failure with this text in the message. */
void packing_refused(const char *path, dcpk_status status, const char *text);
unsigned char *packing_read(const char *path, size_t *length); /* malloc */
void packing_put(const char *path, const void *bytes, size_t length);

#define expect_text(error, wanted)                                                                                     \
    ck_assert_msg(strstr((error).text, (wanted)) != NULL, "no \"%s\" in \"%s\"", (wanted), (error).text)

#endif
