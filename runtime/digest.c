/* digest.c - the only file that includes libxxhash (header-only). Pure: no state, no allocation. */
#include "runtime/digest.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void digest_bytes(const void *data, size_t length, unsigned char out[DIGEST_BYTES]) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, length));
    memcpy(out, canonical.digest, DIGEST_BYTES);
}

void digest_hex(const void *data, size_t length, char out[DIGEST_HEX]) {
    static const char hex[] = "0123456789abcdef";
    unsigned char bytes[DIGEST_BYTES];
    digest_bytes(data, length, bytes);
    for (int i = 0; i < DIGEST_BYTES; i++) {
        out[2 * i] = hex[bytes[i] >> 4];
        out[2 * i + 1] = hex[bytes[i] & 15];
    }
    out[DIGEST_HEX - 1] = '\0';
}
