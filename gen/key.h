/* key.h - the two keys of a build and the texts they are made of. A key is the XXH3-128 of its text; the text is stored
 * beside what the key names and compared at every hit. Not in either: paths, user, host, time, GPU, driver. */
#ifndef DCPK_GEN_KEY_H
#define DCPK_GEN_KEY_H

#include "gen/expand.h"
#include "runtime/digest.h"

/* Raised when an old entry must no longer be found. */
enum { KEY_SCHEMA = 1 };

struct key {
    char hex[DIGEST_HEX];
    char *text; /* NUL-terminated; freed by key_free */
    size_t length;
};

/* What is known before anything is expanded. */
struct key_request {
    const char *spec;      /* canonical text of the resolved spec */
    const char *arch;      /* what the compiler builds for */
    const char *toolchain; /* name, version and build */
    const char *options;   /* the exact option vector */
    const char *front;     /* what compiles the template's language to PTX, with its options; "" for PTX itself */
};

/* What the templates made of it: three digests and the .target line. lines and launch are in the key so that a hit
 * never brings an old line map or an old grid along with the right code. */
struct key_content {
    char ptx[DIGEST_HEX], launch[DIGEST_HEX], lines[DIGEST_HEX];
    const char *target;
};

dcpk_status key_direct(const struct key_request *request, struct key *key, dcpk_error *error);
dcpk_status key_of_content(const struct key_request *request, const struct key_content *content, struct key *key,
                           dcpk_error *error);
void key_free(struct key *key);
/* The id of the sources that shape PTX and launch data, as direct keys hold it. Static text. */
const char *key_generator(void);

/* The digests of an expansion, and of an image that may be one's result. */
dcpk_status key_content_of_expansion(const char *spec, const struct expansion *expansion, struct key_content *content,
                                     dcpk_error *error);
dcpk_status key_content_of_image(const char *spec, const dcpk_image *image, struct key_content *content,
                                 dcpk_error *error);

/* The line map of an expansion as image_make takes it; lines is freed by the caller. */
struct image_parts;
dcpk_status key_line_map(const struct expansion *expansion, struct image_parts *parts, dcpk_error *error);
void key_line_map_free(struct image_parts *parts);

#endif
