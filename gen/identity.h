/* identity.h - which generator and templates made a pack. Internal to gen; the public call is dcpk_gen_identity. */
#ifndef DCPK_GEN_IDENTITY_H
#define DCPK_GEN_IDENTITY_H

#include <dcpk/gen.h>

#include <stdbool.h>

/* Whether a pack's manifest says that it was made otherwise than this generator would; why then names every line that
 * differs: "templates 1f.. (here 90..)". False where the identity cannot be told. */
bool identity_differs(dcpk_gen *gen, const char *manifest, char *why, size_t capacity);

#endif
