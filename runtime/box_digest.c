/* box_digest.c - packs and compares what ranks must agree on. Pure. Grids and sms need not agree, batch and q are
 * per use: they are not here. */
#include "runtime/box_state.h"
#include "runtime/error.h"

#include <string.h>

/* Changes with anything that two ranks must read alike and no other field says: layout, control block, protocol. */
enum { DIGEST_ABI = 1 };

enum digest_field {
#define F(name, value) FIELD_##name,
#include "runtime/digest_fields.def"
#undef F
    FIELD_COUNT
};
_Static_assert(FIELD_COUNT * 4 <= DCPK_DIGEST_BYTES, "the fields fit a digest");

static const char *const field_names[] = {
#define F(name, value) #name,
#include "runtime/digest_fields.def"
#undef F
};

static void put(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get(const uint8_t *from) {
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

void dcpk_box_digest_pack(const dcpk_box *box, uint8_t digest[DCPK_DIGEST_BYTES]) {
    memset(digest, 0, DCPK_DIGEST_BYTES);
#define F(name, value) put(digest + 4 * FIELD_##name, (value));
#include "runtime/digest_fields.def"
#undef F
}

dcpk_status dcpk_box_digest_compare(const dcpk_box *box, int32_t of, const uint8_t digest[DCPK_DIGEST_BYTES],
                                    dcpk_error *error) {
    uint8_t own[DCPK_DIGEST_BYTES];
    dcpk_box_digest_pack(box, own);
    for (int i = 0; i < FIELD_COUNT; i++) {
        uint32_t theirs = get(digest + 4 * i), wanted = i == FIELD_rank ? (uint32_t)of : get(own + 4 * i);
        if (theirs == wanted) continue;
        if (i == FIELD_rank)
            return dcpk_error_set(error, DCPK_E_MISMATCH, "the digest in place %d is that of rank %u: order by rank",
                                  of, theirs);
        if (wanted > 0xFFFF || theirs > 0xFFFF)
            return dcpk_error_set(error, DCPK_E_MISMATCH, "ranks disagree: rank %d has %s 0x%x, rank %d has 0x%x", of,
                                  field_names[i], theirs, box->rank, wanted);
        return dcpk_error_set(error, DCPK_E_MISMATCH, "ranks disagree: rank %d has %s %u, rank %d has %u", of,
                              field_names[i], theirs, box->rank, wanted);
    }
    return DCPK_OK;
}

dcpk_status dcpk_box_digest(const dcpk_box *box, uint8_t digest[DCPK_DIGEST_BYTES], dcpk_error *error) {
    if (box == NULL || digest == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_digest: %s is NULL", box ? "digest" : "box");
    dcpk_box_digest_pack(box, digest);
    return DCPK_OK;
}
