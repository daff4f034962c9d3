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

conform_reference ref_add, ref_pairs, ref_mul, ref_mul24, ref_div, ref_extreme, ref_sign, ref_sad, ref_logic, ref_shift,
    ref_funnel, ref_lop3_96, ref_lop3_more, ref_bfe, ref_bfi, ref_brev, ref_count, ref_prmt, ref_szext, ref_bmsk,
    ref_dot, ref_carry_add, ref_carry_sub, ref_carry_mad, ref_carry_madc, ref_setp, ref_set, ref_selp, ref_slct,
    ref_mov, ref_mov_constant, ref_mov_pack, ref_mov_pred, ref_logic_pred, ref_float, ref_float_extreme, ref_float_sign,
    ref_half, ref_testp, ref_cvt_whole, ref_cvt_to_whole, ref_cvt_from_whole, ref_cvt_float, ref_cvt_tf32, ref_cvt_pair,
    ref_cvt_unpair, ref_load, ref_load_param, ref_load_constant, ref_load_indexed, ref_store, ref_atomic, ref_reduction,
    ref_slot_word, ref_space, ref_stored_word, ref_shuffle, ref_vote, ref_vote_half, ref_match, ref_redux, ref_nothing,
    ref_neighbour, ref_one, ref_ldmatrix, ref_stmatrix, ref_mma, ref_branch, ref_loop, ref_choice, ref_twice, ref_leave,
    ref_word, ref_special, ref_true, ref_far, ref_far_upper, ref_barrier_vote, ref_copy, ref_pending, ref_far_copied,
    ref_record, ref_record_b, ref_tensor, ref_peer, ref_peer_rank, ref_peer_load, ref_peer_store, ref_peer_atomic,
    ref_first_record, ref_fns, ref_vabsdiff4, ref_set_pair, ref_joined, ref_wmma, ref_wgmma, ref_wgmma_bytes;

#endif
