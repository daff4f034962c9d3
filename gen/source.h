/* source.h - template files by path-free name, each read once. Owned memory: sources_close frees all of it. */
#ifndef DCPK_GEN_SOURCE_H
#define DCPK_GEN_SOURCE_H

#include "gen/expand.h"

struct sources; /* folders, and the files read so far */

dcpk_status sources_open(const char *path, struct sources **out, dcpk_error *error);
void sources_close(struct sources *sources);
const char *sources_path(const struct sources *sources); /* the colon list */
/* Where `name` lies, "FOLDER/NAME", for a message; `name` itself when it is nowhere. */
void sources_where(const struct sources *sources, const char *name, char *path, size_t capacity);

/* NOT_FOUND with the text, and behind it those of the folders that are not there. */
dcpk_status sources_not_found(const struct sources *sources, dcpk_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The file `name` ("lib/lamport.lua") of the first folder that has it; owned by sources. ARG for a name that leaves the
 * folders, NOT_FOUND, IO. */
dcpk_status sources_get(struct sources *sources, const char *name, const struct source_file **out, dcpk_error *error);

#endif
