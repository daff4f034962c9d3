/* lane_forms.h - rows of the lane tables that are PTX forms, through LANE_ROW(name, pattern, sig). Internal rows have
 * an empty pattern that no opcode fits. Include with LANE_ROW defined. */
#define D1(name, pattern, sig, td, ta, value) LANE_ROW(name, pattern, sig)
#define D2(name, pattern, sig, td, ta, tb, value) LANE_ROW(name, pattern, sig)
#define D3(name, pattern, sig, td, ta, tb, tc, value) LANE_ROW(name, pattern, sig)
#define F1(name, pattern, sig, value) LANE_ROW(name, pattern, sig)
#define M1(name, pattern, sig, value) LANE_ROW(name, pattern, sig)
#define F2(name, pattern, sig, value) LANE_ROW(name, pattern, sig)
#define FU2(name, pattern, sig, value, tiny) LANE_ROW(name, pattern, sig)
#define F3(name, pattern, sig, value) LANE_ROW(name, pattern, sig)
#define FU3(name, pattern, sig, value, tiny) LANE_ROW(name, pattern, sig)
#define E1(name, pattern, sig, value) LANE_ROW(name, pattern, sig)
#define E2(name, pattern, sig, value) LANE_ROW(name, pattern, sig)
#define E3(name, pattern, sig, value) LANE_ROW(name, pattern, sig)
#define C(name, type, value)
#define CF(name, value)
#define S(name, type)
#include <runtime/cpu/ops_int.def>
#include <runtime/cpu/ops_float.def>
#include <runtime/cpu/lane_undef.h>
