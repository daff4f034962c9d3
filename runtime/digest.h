/* digest.h - the one digest of dcpk: XXH3-128, written as 32 hex digits, most significant first (what xxh128sum
 * prints). Not cryptographic: it finds damage and names things; equality is always confirmed on the bytes themselves.
 */
#ifndef DCPK_RUNTIME_DIGEST_H
#define DCPK_RUNTIME_DIGEST_H

#include "runtime/private.h"

#include <stddef.h>

enum { DIGEST_BYTES = 16, DIGEST_HEX = 33 };

/* 16 bytes, most significant first. */
void digest_bytes(const void *data, size_t length, unsigned char out[DIGEST_BYTES]);
/* 32 lower-case hex digits and a NUL. */
DCPK_PRIVATE void digest_hex(const void *data, size_t length, char out[DIGEST_HEX]);

#endif
