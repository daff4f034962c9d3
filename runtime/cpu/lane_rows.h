/* lane_rows.h - the names of all rows of the lane tables, through ROW(name); include with ROW defined. No guard: read
 * often. */
#define D1(name, pattern, sig, td, ta, value) ROW(name)
#define D2(name, pattern, sig, td, ta, tb, value) ROW(name)
#define D3(name, pattern, sig, td, ta, tb, tc, value) ROW(name)
#define F1(name, pattern, sig, value) ROW(name)
#define M1(name, pattern, sig, value) ROW(name)
#define F2(name, pattern, sig, value) ROW(name)
#define FU2(name, pattern, sig, value, tiny) ROW(name)
#define F3(name, pattern, sig, value) ROW(name)
#define FU3(name, pattern, sig, value, tiny) ROW(name)
#define E1(name, pattern, sig, value) ROW(name)
#define E2(name, pattern, sig, value) ROW(name)
#define E3(name, pattern, sig, value) ROW(name)
#define C(name, type, value) ROW(name)
#define CF(name, value) ROW(name)
#define S(name, type) ROW(name)
#include <runtime/cpu/ops_int.def>
#include <runtime/cpu/ops_float.def>
#include <runtime/cpu/lane_undef.h>
