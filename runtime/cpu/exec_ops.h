/* exec_ops.h - handlers that encoders and ops_special.def name, and the small enums they share. */
#ifndef DCPK_CPU_EXEC_OPS_H
#define DCPK_CPU_EXEC_OPS_H

#include <runtime/cpu/exec_async.h>
#include <runtime/cpu/exec_copy.h>
#include <runtime/cpu/exec_memory.h>

enum predicate_op { PREDICATE_MOV, PREDICATE_NOT, PREDICATE_AND, PREDICATE_OR, PREDICATE_XOR };
enum carry_op { CARRY_ADD, CARRY_SUB, CARRY_MAD_LO, CARRY_MAD_HI };
enum atomic_op {
    ATOMIC_ADD,
    ATOMIC_MIN,
    ATOMIC_MAX,
    ATOMIC_AND,
    ATOMIC_OR,
    ATOMIC_XOR,
    ATOMIC_EXCH,
    ATOMIC_CAS,
    ATOMIC_INC,
    ATOMIC_DEC
};
/* Types of atomics, conversions and reductions: op->kind */
enum number_kind {
    N_U8,
    N_S8,
    N_U16,
    N_S16,
    N_U32,
    N_S32,
    N_U64,
    N_S64,
    N_F16,
    N_BF16,
    N_F32,
    N_F64,
    N_TF32,
    N_F16X2,
    N_BF16X2,
    N_E4M3X2,
    N_E5M2X2,
    N_B128
};

op_fn op_branch, op_branch_index, op_exit, op_trap, op_nothing, op_yield, op_grid_wait, op_grid_launch, op_activemask;
op_fn op_pack, op_unpack, op_pack_w2, op_unpack_w2, op_pack_h2, op_unpack_h2, op_mov_q, op_predicate, op_cvta,
    op_isspacep, op_slct, op_bfi;
op_fn op_carry, op_cvt, op_cvt_pair, op_cvt_unpair, op_testp, op_set;
/* f32 and f64 with directed rounding */
op_fn directed_add_f32, directed_sub_f32, directed_mul_f32, directed_div_f32, directed_fma_f32, directed_rcp_f32,
    directed_sqrt_f32;
op_fn directed_add_f64, directed_sub_f64, directed_mul_f64, directed_div_f64, directed_fma_f64, directed_rcp_f64,
    directed_sqrt_f64;
#define HALF(name, f16_pattern, bf16_pattern, inputs, value) op_fn name##_f16, name##_bf16, name##_f16x2, name##_bf16x2;
#define HALF_COMPARE(name, value) op_fn name##_f16, name##_bf16, name##_f16x2, name##_bf16x2;
#include <runtime/cpu/ops_half.def>
#undef HALF
#undef HALF_COMPARE
#endif
