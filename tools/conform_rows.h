/* conform_rows.h - the references that the rows of conform_*.def name, and what they share. Tools' own. */
#ifndef DCPK_TOOLS_CONFORM_ROWS_H
#define DCPK_TOOLS_CONFORM_ROWS_H

#include "conform.h"

/* ---- bits of a type ---- */
static inline uint64_t conform_low(uint64_t v, unsigned bits) {
    return bits >= 64 ? v : v & ((UINT64_C(1) << bits) - 1);
}

static inline int64_t conform_signed(uint64_t v, unsigned bits) {
    uint64_t sign = UINT64_C(1) << (bits - 1);
    return (int64_t)((conform_low(v, bits) ^ sign) - sign);
}

/* ---- floating-point formats ---- */
typedef __float128 conform_wide;
enum conform_rounding { NEAREST, TO_ZERO, DOWN, UP, AWAY }; /* in the order of "rn rz rm rp rna" */
struct conform_format {
    int fraction, least; /* bits of the fraction; exponent of the smallest subnormal */
    unsigned bits;
    uint64_t largest, infinity, nan; /* patterns; infinity == nan: the format has none */
};
extern const struct conform_format conform_f16, conform_bf16, conform_f32, conform_f64, conform_tf32, conform_e4m3,
    conform_e5m2;
const struct conform_format *conform_format_of(const struct conform_type *type);
conform_wide conform_value(const struct conform_format *format, uint64_t pattern);
bool conform_is_nan(const struct conform_format *format, uint64_t pattern);
/* The pattern of v, rounded once; an exact zero takes the sign. finite: beyond the largest stays the largest. */
uint64_t conform_rounded(const struct conform_format *format, conform_wide v, bool negative, enum conform_rounding how,
                         bool finite);
/* a + b; what does not fit into 113 bits sets the last one, so that a later rounding is right. */
conform_wide conform_sum(conform_wide a, conform_wide b);
enum conform_rounding conform_rounding_of(const struct conform_form *form);

#define REFERENCES(R)                                                                                                  \
    R(add)                                                                                                             \
    R(pairs)                                                                                                           \
    R(mul)                                                                                                             \
    R(mul24)                                                                                                           \
    R(div)                                                                                                             \
    R(extreme) R(sign) R(sad) R(logic) R(shift) R(funnel) R(lop3_96) R(lop3_more) R(bfe) R(bfi) R(brev) R(count)       \
        R(prmt) R(szext) R(bmsk) R(dot) R(carry_add) R(carry_sub) R(carry_mad) R(carry_madc) R(setp) R(set) R(selp)    \
            R(slct) R(mov) R(mov_constant) R(mov_pack) R(mov_pred) R(logic_pred) R(float) R(float_extreme)             \
                R(float_sign) R(half) R(testp) R(cvt_whole) R(cvt_to_whole) R(cvt_from_whole) R(cvt_float) R(cvt_tf32) \
                    R(cvt_pair) R(cvt_unpair) R(load) R(load_param) R(load_constant) R(load_indexed) R(store)          \
                        R(atomic) R(reduction) R(slot_word) R(space) R(stored_word) R(shuffle) R(vote) R(vote_half)    \
                            R(match) R(redux) R(nothing) R(neighbour) R(one) R(ldmatrix) R(stmatrix) R(mma) R(branch)  \
                                R(loop) R(choice) R(twice) R(leave) R(word) R(special) R(true) R(far) R(far_upper)     \
                                    R(barrier_vote) R(copy) R(pending) R(far_copied) R(record) R(record_b) R(tensor)   \
                                        R(peer) R(peer_rank) R(peer_load) R(peer_store) R(peer_atomic) R(peer_record)  \
                                            R(first_record) R(fns) R(vabsdiff4) R(set_pair) R(joined) R(wmma) R(wgmma) \
                                                R(wgmma_bytes) R(all_ones)
#define DECLARE(name) conform_reference ref_##name;
REFERENCES(DECLARE)
#undef DECLARE

#endif
