/* identity.h - which generator and templates make images: the lines by which a pack's manifest is held against what is
 * here. Internal to gen; the public call is dcpk_gen_identity. */
#ifndef DCPK_GEN_IDENTITY_H
#define DCPK_GEN_IDENTITY_H

#include "gen/expand.h"
#include "runtime/buffer.h"

#include <stdbool.h>

/* Appends "dcpk VERSION", "generator ID", "templates DIGEST", "image-format N" lines. Reads the template folders whole:
 * every *.lua below them, the first folder that has a name wins. */
dcpk_status identity_write(struct expander *expander, struct buffer *text, dcpk_error *error);

/* Whether a pack's manifest says that it was made otherwise than this generator would make it; why then names what
 * differs: "templates 1f.., here 90..". A manifest without these lines differs. False where the identity cannot be
 * told; where there is no template at all, their line is not compared. */
bool identity_differs(struct expander *expander, const char *manifest, char *why, size_t capacity);

#endif
