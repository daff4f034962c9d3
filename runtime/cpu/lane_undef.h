/* lane_undef.h - forgets the row macros of the lane tables. */
#undef D1
#undef D2
#undef D3
#undef F1
#undef M1
#undef F2
#undef FU2
#undef FU3
#undef F3
#undef E1
#undef E2
#undef E3
#undef C
#undef CF
#undef S
