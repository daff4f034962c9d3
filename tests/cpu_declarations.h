/* cpu_declarations.h - declarations and operands of PTX, malformed and well formed: for test_cpu_declarations, which
 * asks the CPU device's reader about them, and test_declarations, which asks the assembler. */
#ifndef TESTS_CPU_DECLARATIONS_H
#define TESTS_CPU_DECLARATIONS_H

#include "tests/refused.h"

#define HEAD ".version 8.3\n.target sm_90a\n.address_size 64\n"
#define G ".global .align 16 .b8 g[64];\n"

/* Refused, from line 5 on. */
static const struct refusal malformed[] = {
    /* types, and what stands before and behind them */
    {".global .bf16 q;\n", "5: .bf16 is a type of instructions alone: declare .b16"},
    {".entry q() { .reg .bf16x2 a; }\n", "5: .bf16x2 is a type of instructions alone: declare .b32"},
    {".entry q(.param .bf16 a) { ret; }\n", "5: .bf16 is a type of instructions alone: declare .b16"},
    {".entry q(.param .f16x2 a) { ret; }\n",
     "5: parameters are no vectors and no .f16x2: declare .align and an array of .b8"},
    {".entry q(.param .v4 .f32 a) { ret; }\n",
     "5: parameters are no vectors and no .f16x2: declare .align and an array of .b8"},
    {".entry q() { .param .f16x2 a; }\n",
     "5: parameters are no vectors and no .f16x2: declare .align and an array of .b8"},
    {".global .v4 .u64 q;\n", "5: vectors have at most 128 bits"},
    {".global .v2 .v2 .u32 q;\n", "5: a type is expected before `.v2`"},
    {".global .v8 .u16 q;\n", "5: a type is expected before `.v8`"},
    {".global .u32 .align 4 q;\n", "5: a name is expected before `.align`"},
    {".global .v2 .align 8 .u32 q;\n", "5: a type is expected before `.align`"},
    {".global .global .u32 q;\n", "5: a type is expected before `.global`"},
    {".global .u32 .ptr q;\n", "5: a name is expected before `.ptr`"},
    {".global .attribute(.foo) .u32 q;\n", "5: `.managed` or `.unified` is expected before `.foo`"},
    {".global .attribute(.unified(1)) .u32 q;\n", "5: `,` is expected before `)`"},
    {".global .attribute .u32 q;\n", "5: `(` is expected before `.u32`"},
    {".entry q(.param .u64 .ptr .align 16 .global a) { ret; }\n", "5: a name is expected before `.global`"},
    {".entry q(.param .u64 .global a) { ret; }\n", "5: a name is expected before `.global`"},
    {".entry q(.param .u64 .ptr .global .align 3 a) { ret; }\n", "5: .align 3 is not a power of two"},
    {".func q(.param .u64 .ptr a) { ret; }\n", "5: a name is expected before `.ptr`"},
    /* sizes */
    {".global .u32 q[1+1];\n", "5: `]` is expected before `+`"},
    {".global .u32 q[2.0];\n", "5: a number is expected before `2.0`"},
    {".global .u32 q[4,5];\n", "5: `]` is expected before `,`"},
    {".global .align 0 .u32 q;\n", "5: .align 0 is not a power of two"},
    {".global .align 4294967296 .u32 q;\n", "5: .align 4294967296: 0 to 4294967295"},
    {".global .align -4 .u32 q;\n", "5: a number is expected before `-`"},
    {".global .align (8) .u32 q;\n", "5: a number is expected before `(`"},
    /* a point belongs to the number before it */
    {".global .align 4.b32 q;\n", "5: malformed number: `4.b`"},
    {".global .align 04.b32 q;\n", "5: malformed number: `04.b`"},
    {".global .align 4. b32 q;\n", "5: a number is expected before `4.`"},
    {".global .align 4. .b32 q;\n", "5: a number is expected before `4.`"},
    {".entry q(.param .align 8.b8 p[8]) { ret; }\n", "5: malformed number: `8.b`"},
    {".entry q() { .shared .align 8.b8 p[8]; ret; }\n", "5: malformed number: `8.b`"},
    {".entry q() .minnctapersm 1.maxntid 32 { ret; }\n", "5: malformed number: `1.m`"},
    {".entry q() .maxntid 1,2,3.minnctapersm 1 { ret; }\n", "5: malformed number: `3.m`"},
    {".entry q() .reqntid 32.minnctapersm 1 { ret; }\n", "5: malformed number: `32.m`"},
    {".entry q() { .reg .b32 a; add.u32 a, a, 1.x; ret; }\n", "5: malformed number: `1.x`"},
    {".global .f32 q = 4.e;\n", "5: malformed number: `4.e`"},
    {".global .f32 q = 4..5;\n", "5: `;` is expected before `.5`"},
    {".global .f32 q = 4.5.b;\n", "5: `;` is expected before `.b`"},
    {".global .b32 q = 0x4.;\n", "5: `;` is expected before `.`"},
    {".global .align 4+4 .u32 q;\n", "5: a type is expected before `+`"},
    {".entry q() { .reg .align 3 .b32 r; }\n", "5: .align 3 is not a power of two"},
    {".entry q() { .reg .b32 .align 4 r; }\n", "5: a name is expected before `.align`"},
    {".entry q() { .param .align 256 .b8 a[8]; }\n",
     "5: the parameter of a function is aligned to 128 bytes at most, not 256"},
    {".entry q() { .shared .b8 s[232449]; ret; }\n",
     "5: the shared variables that `q` declares or names, calls included, have 232449 bytes, and 232448 are the most"},
    {".entry q() { { .shared .b8 s[132449]; }\n{ .shared .b8 s[132449]; } }\n",
     "6: the shared variables that `q` declares or names, calls included, have 264898 bytes, and 232448 are the most"},
    {".shared .b8 s[132449], t[132449];\n.entry q() { .reg .b32 r; mov.u32 r, s; st.shared.u32 [r], r; mov.u32 r, t; "
     "st.shared.u32 [r], r; ret; }\n",
     "6: the shared variables that `q` declares or names, calls included, have 264898 bytes, and 232448 are the most"},
    {".func f() { .shared .b8 s[232449]; ret; }\n.entry q() { call f; ret; }\n",
     "6: the shared variables that `q` declares or names, calls included, have 232449 bytes, and 232448 are the most"},
    /* ranges */
    {".entry q() { .reg .b32 p<3>; .reg .b64 p<4>; }\n", "5: `p` is declared twice in one scope"},
    {".entry q() { .reg .b32 p<3>; .reg .b32 p2; }\n", "5: `p2` is declared twice in one scope"},
    {".entry q() { .reg .b32 p<1>; .reg .b64 p0; }\n", "5: `p0` is declared twice in one scope"},
    {".entry q() { .reg .b32 p<5>; .reg .b64 p04; }\n", "5: `p04` is declared twice in one scope"},
    {".entry q() { .reg .b64 p1; .reg .b32 p<2>; }\n", "5: `p1` is declared twice in one scope"},
    {".entry q() { .reg .b32 p<3>; .shared .u32 p1; }\n", "5: `p1` is declared twice in one scope"},
    {".entry q() { .shared .u32 p1; .reg .b32 p<3>; }\n", "5: `p1` is declared twice in one scope"},
    {".entry q() { .param .b32 a<3>; .param .b32 a1; }\n", "5: `a1` is declared twice in one scope"},
    {".global .b32 a<3>, a1;\n", "5: `a1` is declared twice in one scope"},
    {".entry q() { .reg .b32 p<3>; mov.b32 p, 1; }\n", "5: `mov.b32 p, 1;`: `p` is not declared"},
    {".entry q() { .reg .b32 p<3>; mov.b32 p3, 1; }\n", "5: `mov.b32 p3, 1;`: `p3` is not declared"},
    {".entry q() { .reg .b32 p<0>; mov.b32 p0, 1; }\n", "5: `mov.b32 p0, 1;`: `p0` is not declared"},
    {".entry q() { .reg .b32 p<010>; mov.b32 p8, 1; }\n", "5: `mov.b32 p8, 1;`: `p8` is not declared"},
    {".entry q() { .reg .b32 p1<5>; mov.b32 p12, 1; }\n", "5: `mov.b32 p12, 1;`: `p12` is not declared"},
    {".entry q() { .reg .b32 p0<5>; mov.b32 p04, 1; }\n", "5: `mov.b32 p04, 1;`: `p04` is not declared"},
    {".entry q() { .reg .b64 p02; .reg .b32 p<3>; mov.b64 p02, 1; }\n",
     "5: `mov.b64 p02, 1;`: operand 1 does not suit the instruction's type: a 64-bit value is expected"},
    {".entry q() { .reg .b64 p1; { .reg .b32 p<3>; mov.b64 p1, 1; } }\n",
     "5: `mov.b64 p1, 1;`: operand 1 does not suit the instruction's type: a 64-bit value is expected"},
    {".global .b32 p1; .entry q() { .reg .b32 p<3>; .reg .b64 d; mov.u64 d, p1; }\n",
     "5: `mov.u64 d, p1;`: operand 2 does not suit the instruction's type: a 64-bit integer is expected"},
    {".global .b32 a<3>; .entry q() { .reg .b64 d; mov.u64 d, a; }\n", "5: `mov.u64 d, a;`: `a` is not declared"},
    {".global .b32 a<3>; .global .u64 q = a3;\n", "5: `a3` in an initialiser is not a global or constant variable"},
    {".entry q() { .param .b64 a<3>; .reg .b64 r; st.param.b64 [a3], r; }\n",
     "5: `st.param.b64 [a3], r;`: `a3` is not declared"},
    {".entry q() { .reg .b32 p<3+1>; }\n", "5: `>` is expected before `+`"},
    {".entry q() { .reg .b32 p<-1>; }\n", "5: a count is expected in `p<...>`"},
    {".entry q() { .reg .b32 p<>; }\n", "5: a count is expected in `p<...>`"},
    {".entry q() { .reg .b32 p<1.0>; }\n", "5: a count is expected in `p<...>`"},
    {".entry q() { .reg .b32 p<3>q<3>; }\n", "5: `;` is expected before `q`"},
    {".global .b32 a<3> = 1;\n", "5: `;` is expected before `=`"},
    {".global .b32 a<3>[4];\n", "5: `;` is expected before `[`"},
    {".global .b32 a[4]<3>;\n", "5: `;` is expected before `<`"},
    {".entry q(.param .b32 a<3>) { ret; }\n", "5: `)` is expected before `<`"},
    {".func q(.param .b32 a<3>) { ret; }\n", "5: `)` is expected before `<`"},
    /* names */
    {".global .u32 _;\n", "5: `_` cannot be declared"},
    {".global .u32 $;\n", "5: `$` cannot be declared"},
    {".global .u32 WARP_SZ;\n", "5: `WARP_SZ` cannot be declared"},
    {".global .u32 %tid;\n", "5: `%tid` is a special register"},
    {".global .u32 %laneid;\n", "5: `%laneid` is a special register"},
    {".entry _() { ret; }\n", "5: `_` cannot be declared"},
    {".entry q() { .reg .u32 %q.r; }\n", "5: `%q.r` cannot be declared"},
    {".entry q() { .reg .u32 _; }\n", "5: `_` cannot be declared"},
    {".entry q() { WARP_SZ: ret; }\n", "5: `WARP_SZ` cannot be declared"},
    {".global .u32 inlined_at;\n", "5: `inlined_at` cannot be declared"},
    {".entry q() { .reg .u32 function_name; }\n", "5: `function_name` cannot be declared"},
    {".const .attribute(.managed) .u32 q;\n", "5: `.managed` is of .global variables alone"},
    {".entry q() { .shared .attribute(.managed) .u32 s; }\n", "5: `.managed` is of .global variables alone"},
    {".entry q(.param .attribute(.managed) .u32 a) { ret; }\n", "5: `.managed` is of .global variables alone"},
    {".global .attribute(.unified(1, 2)) .u32 q;\n",
     "5: `.unified` is of modules that are linked: linking is not supported"},
    /* initialisers */
    {".global .u32 q = {1};\n", "5: a constant is expected before `{`"},
    {".global .u32 q[2] = 1;\n", "5: `{` is expected before `1`"},
    {".global .u32 q[] = {};\n", "5: `q` has an open dimension and no initialiser"},
    {".global .u32 q[2][2] = {1, 2};\n", "5: `{` is expected before `1`"},
    {".global .u32 q[2][2] = {{1, 2}, 3};\n", "5: `{` is expected before `3`"},
    {".global .u32 q[2] = {{1}, {2}};\n", "5: a constant is expected before `{`"},
    {".global .u32 q[2][3] = {{1, 2, 3, 4}};\n", "5: more initialisers than `q` has elements"},
    {".global .u32 q[2] = {1,};\n", "5: a constant is expected before `}`"},
    {".global .v2 .u32 q = 1;\n", "5: `{` is expected before `1`"},
    {".global .v2 .u32 q = {1};\n", "5: a vector of `q` has 2 elements, and 1 are given"},
    {".global .v2 .u32 q = {1, 2, 3};\n", "5: more initialisers than `q` has elements"},
    {".global .v2 .u32 q[2] = {1, 2, 3, 4};\n", "5: `{` is expected before `1`"},
    {".global .u32 q = 1.5;\n", "5: an integer constant is expected for an integer variable"},
    {".global .s32 q = 0f3F800000;\n", "5: an integer constant is expected for an integer variable"},
    {".global .f32 q = 0;\n", "5: a float constant is expected for a float variable"},
    {".global .f32 q = -0;\n", "5: a float constant is expected for a float variable"},
    {".global .f64 q = g;\n", "5: a float constant is expected for a float variable"},
    {".global .f32 q = -0f3F800000;\n", "5: `0f3F800000` takes no sign: its bits have one"},
    {".global .b32 q = + 0f3F800000;\n", "5: `0f3F800000` takes no sign: its bits have one"},
    {".entry q() { .reg .f32 x; mov.f32 x, -0f3F800000; }\n", "5: `0f3F800000` takes no sign: its bits have one"},
    {".entry q() { .reg .f32 x; add.f32 x, x, -0f3F800000; }\n", "5: `0f3F800000` takes no sign: its bits have one"},
    {".global .f16 q = 1.5;\n", "5: variables of .f16 and .f16x2 have no initialiser: declare .b16 or .b32"},
    {".global .f16x2 q = 0;\n", "5: variables of .f16 and .f16x2 have no initialiser: declare .b16 or .b32"},
    {".global .u64 q = g-4;\n", "5: `;` is expected before `-`"},
    {".global .u64 q = 4+g;\n", "5: a constant is expected before `g`"},
    {".global .u64 q = generic(g+4);\n", "5: `)` is expected before `+`"},
    {".global .b64 q = g;\n", "5: an address initialises .u64; one of its bytes, as 0xff00(g), .u8, .u32 or .u64"},
    {".global .s64 q = generic(g);\n",
     "5: an address initialises .u64; one of its bytes, as 0xff00(g), .u8, .u32 or .u64"},
    {".global .u16 q = 0xff(g);\n",
     "5: an address initialises .u64; one of its bytes, as 0xff00(g), .u8, .u32 or .u64"},
    {".global .b8 q = 0xff(g);\n", "5: an address initialises .u64; one of its bytes, as 0xff00(g), .u8, .u32 or .u64"},
    {".global .u8 q = g;\n", "5: an address initialises .u64; one of its bytes, as 0xff00(g), .u8, .u32 or .u64"},
    {".global .f32 q = 0xff(g);\n", "5: a float constant is expected for a float variable"},
    {".global .u8 q = 0x1fe(g);\n", "5: 0x1fe is no mask of one byte, such as 0xff00"},
    {".global .u8 q = 0xffff(g);\n", "5: 0xffff is no mask of one byte, such as 0xff00"},
    {".global .u8 q = 0(g);\n", "5: 0x0 is no mask of one byte, such as 0xff00"},
    {".global .u8 q = WARP_SZ(g);\n", "5: 0x20 is no mask of one byte, such as 0xff00"},
    {".global .u8 q = 0xff(g)+1;\n", "5: `;` is expected before `+`"},
    {".global .u8 q = -0xff(g);\n", "5: `;` is expected before `(`"},
    {".global .u8 q = 0xfe+1(g);\n", "5: `;` is expected before `(`"},
    {".global .u8 q = 0xff((g));\n", "5: a constant is expected before `g`"},
    {".global .u8 q = 0xff(1.0);\n", "5: an integer is expected in a constant expression, and a float is given"},
    {".entry e() { .shared .u32 s; }\n.global .u64 q = s;\n",
     "6: `s` in an initialiser is not a global or constant variable"},
    {".shared .u32 s;\n.global .u64 q = generic(s);\n",
     "6: `s` in an initialiser is not a global or constant variable"},
    {".global .u64 q = q;\n", "5: `q` in an initialiser is not a global or constant variable"},
    /* constant expressions */
    {".global .u64 q = 7%3;\n", "5: `;` is expected before `%3`"},
    {".global .u64 q = 1/0;\n", "5: division by zero in a constant expression"},
    {".global .u64 q = 1 % 0U;\n", "5: division by zero in a constant expression"},
    {".global .u64 q = 1||1/0;\n", "5: division by zero in a constant expression"},
    {".global .f64 q = 1.0/0.0;\n", "5: division by zero in a constant expression"},
    {".global .f64 q = 1.0/-0.0;\n", "5: division by zero in a constant expression"},
    {".global .f64 q = 1.0\n+1;\n", "6: an integer and a float in a constant expression: both are one of them"},
    {".global .f64 q = 2*1.0;\n", "5: an integer and a float in a constant expression: both are one of them"},
    {".global .u64 q = 1.0<<1;\n", "5: an integer and a float in a constant expression: both are one of them"},
    {".global .f64 q = 5.0 % 2.0;\n", "5: an integer is expected in a constant expression, and a float is given"},
    {".global .u64 q = 1.0&&1.0;\n", "5: an integer is expected in a constant expression, and a float is given"},
    {".global .u64 q = !1.0;\n", "5: an integer is expected in a constant expression, and a float is given"},
    {".global .u64 q = ~1.0;\n", "5: an integer is expected in a constant expression, and a float is given"},
    {".global .u64 q = 1.0?1:2;\n", "5: an integer is expected in a constant expression, and a float is given"},
    {".global .f64 q = 1?1.0:2.0;\n", "5: an integer is expected in a constant expression, and a float is given"},
    {".global .u64 q = (.s64)1.0;\n", "5: an integer is expected in a constant expression, and a float is given"},
    {".global .u64 q = g+1.0;\n", "5: an integer is expected in a constant expression, and a float is given"},
    {".global .u64 q = (.u32)1;\n", "5: `.s64` or `.u64` is expected before `.u32`"},
    {".global .f64 q = (.f64)1;\n", "5: `.s64` or `.u64` is expected before `.f64`"},
    {".global .f64 q = 1.0<2.0;\n", "5: a float constant is expected for a float variable"},
    {".global .f64 q = 0f3F800000+1.0;\n", "5: 0f and its digits are part of no expression: write 0d or decimal"},
    {".global .f64 q = 1.0+0f3F800000;\n", "5: 0f and its digits are part of no expression: write 0d or decimal"},
    {".global .f64 q = 1e400;\n", "5: float constant beyond the range of f64"},
    {".global .f64 q = 1e-310;\n", "5: float constant beyond the range of f64"},
    {".global .f64 q = 1.5.5;\n", "5: `;` is expected before `.5`"},
    {".global .f64 q = 1.5e;\n", "5: malformed number: `1.5e`"},
    {".entry q() { .reg .b64 d; ld.global.u8 d, [d+1.0]; }\n",
     "5: an integer is expected in a constant expression, and a float is given"},
    {".entry q() { .reg .f32 f; mov.f32 f, 1.0+1; }\n",
     "5: an integer and a float in a constant expression: both are one of them"},
    /* .extern */
    {".extern .global .u32 q;\n.global .u32 q;\n",
     "6: `q` is .extern before: its definition is .visible, .weak or .common"},
    {".extern .shared .b8 s[4];\n.shared .b8 s[4];\n",
     "6: `s` is .extern before: its definition is .visible, .weak or .common"},
    {".extern .global .u32 q;\n.visible .global .u64 q = 5;\n", "6: `q` is declared before, with another type or size"},
    {".extern .global .u32 q;\n.visible .global .b32 q = 5;\n", "6: `q` is declared before, with another type or size"},
    {".visible .global .u32 q[4];\n.extern .global .u32 q[5];\n",
     "6: `q` is declared before, with another type or size"},
    {".extern .global .u32 q[3][2];\n.visible .global .u32 q[6];\n",
     "6: `q` is declared before, with another type or size"},
    {".extern .global .u32 q[];\n.visible .global .u32 q = 5;\n",
     "6: `q` is declared before, with another type or size"},
    {".extern .global .v2 .u32 q;\n.visible .global .u32 q[2];\n",
     "6: `q` is declared before, with another type or size"},
    {".extern .global .u32 q[4];\n.extern .global .u32 q[];\n.visible .global .u32 q[5];\n",
     "7: `q` is declared before, with another type or size"},
    {".extern .shared .b32 s[];\n.extern .shared .b8 s[];\n", "6: `s` is declared before, with another type or size"},
    {".visible .global .u32 q;\n.extern .global .u32 q;\n.visible .global .u32 q;\n",
     "7: `q` is declared twice in one scope"},
    {".weak .global .u32 q;\n.visible .global .u32 q = 5;\n", "6: `q` is declared twice in one scope"},
    {".common .global .u32 q;\n.common .global .u32 q;\n", "6: `q` is declared twice in one scope"},
    {".extern .global .u32 q = 5;\n", "5: `q` is .extern: its initialiser is where it is defined"},
    {".extern .shared .u32 s[4][0];\n", "5: `s` has a dimension of 0"},
    /* functions that nobody calls */
    {".func q() { foo; }\n", "5: `foo;`: unknown instruction `foo`"},
    {".func q() { bra L; }\n", "5: label `L` is not defined"},
    {".func q(.param .f8 a) { ret; }\n", "5: a type is expected before `.f8`"},
    {".func q(.param .u32 a, .param .u32 a) { ret; }\n", "5: `a` is declared twice in one scope"},
    {".func q(.param .u32 _) { ret; }\n", "5: `_` cannot be declared"},
    {".func q() .maxntid 3 { ret; }\n", "5: `.maxntid` is not supported before the body of `q`"},
    {".func q() .noreturn .noreturn { exit; }\n", "5: `.noreturn` is not supported before the body of `q`"},
    {".func q() { call nobody; }\n",
     "5: `call nobody;`: function `nobody` has no body in this PTX: linking is not supported"},
    {".func q() { ret; } .global .u32 q;\n", "5: `q` is declared twice in one scope"},
    {".func g() { ret; }\n", "5: `g` is declared twice in one scope"},
    {".func q() { ret; }\n.entry q() { ret; }\n", "6: `q` is declared twice in one scope"},
    /* statements */
    {".entry q() { ; }\n", "5: an instruction is expected before `;`"},
    {".entry q() { { ret; }; }\n", "5: an instruction is expected before `;`"},
    {".entry q() { .extern .shared .b8 s[]; }\n", "5: directive `.extern` is not supported within an entry"},
    {".entry q() { .reg .b64 d; mov.u64 d, g-0; }\n", "5: `mov.u64 d, g-0;`: `;` is expected before `-`"},
    {".entry q() { .reg .b64 d; ld.global.u8 d, [d-0]; }\n", "5: `]` is expected before `-`"},
    /* a variable's name as an operand */
    {".entry q() { .reg .b64 d; add.u64 d, d, g; }\n",
     "5: `add.u64 d, d, g;`: operand 3: mov brings the address of `g` into a register"},
    {".entry q() { .reg .b64 d; cvta.to.global.u64 d, g; }\n",
     "5: `cvta.to.global.u64 d, g;`: operand 2: mov brings the address of `g` into a register"},
    {".entry q() { .reg .b64 d; atom.global.add.u64 d, [g], g; }\n",
     "5: `atom.global.add.u64 d, [g], g;`: operand 3: mov brings the address of `g` into a register"},
    {".entry q() { .shared .u32 s; bar.sync s; }\n",
     "5: `bar.sync s;`: operand 1: mov brings the address of `s` into a register"},
    {".entry q() { .shared .b8 s[8]; .reg .b64 d; .reg .b32 r; mov.b64 d, {r, s}; }\n",
     "5: `mov.b64 d, {r, s};`: operand 2: mov brings the address of `s` into a register"},
    {".entry q() { .param .b32 p; .reg .b64 d; mov.u64 d, p; }\n",
     "5: `mov.u64 d, p;`: operand 2: `p`, the parameter of a call, has no address"},
    /* what a register is declared as */
    {".entry q() { .reg .u32 r; .reg .f32 f; shr.u32 f, r, 1; }\n",
     "5: `shr.u32 f, r, 1;`: operand 1 does not suit the instruction's type: a 32-bit value is expected"},
    {".entry q() { .reg .u64 r; .reg .f64 f; shr.u64 r, f, 1; }\n",
     "5: `shr.u64 r, f, 1;`: operand 2 does not suit the instruction's type: a 64-bit value is expected"},
    {".entry q() { .reg .pred p; .reg .b32 r; .reg .f32 f; selp.u32 r, r, f, p; }\n",
     "5: `selp.u32 r, r, f, p;`: operand 3 does not suit the instruction's type: a 32-bit value is expected"},
    {".entry q() { .reg .pred p; .reg .u32 r; .reg .f32 f; selp.f32 f, f, r, p; }\n",
     "5: `selp.f32 f, f, r, p;`: operand 3 does not suit the instruction's type: a 32-bit value is expected"},
    {".entry q() { .reg .b32 r; .reg .f32 f; slct.u32.s32 r, f, r, r; }\n",
     "5: `slct.u32.s32 r, f, r, r;`: operand 2 does not suit the instruction's type: a 32-bit value is expected"},
    {".entry q() { .reg .b32 b; .reg .u32 r; add.f16x2 b, b, r; }\n",
     "5: `add.f16x2 b, b, r;`: operand 3 does not suit the instruction's type: a packed 32-bit value is expected"},
    {".entry q() { .reg .b32 b; .reg .s32 r; fma.rn.bf16x2 r, b, b, b; }\n",
     "5: `fma.rn.bf16x2 r, b, b, b;`: operand 1 does not suit the instruction's type: a packed 32-bit value is "
     "expected"},
    {".entry q() { .reg .b32 b; .reg .f16x2 h; add.bf16x2 b, b, h; }\n",
     "5: `add.bf16x2 b, b, h;`: operand 3 does not suit the instruction's type: a packed 32-bit value is expected"},
    {".entry q() { .reg .f32 f; .reg .f16x2 h; add.f32 f, f, h; }\n",
     "5: `add.f32 f, f, h;`: operand 3 does not suit the instruction's type: an f32 is expected"},
    {".entry q() { .reg .f16x2 h; ld.global.f32 h, [g]; }\n",
     "5: `ld.global.f32 h, [g];`: register 1 of the data does not suit .f32"},
    {".entry q() { .reg .f64 z; ld.global.f32 z, [g]; }\n",
     "5: `ld.global.f32 z, [g];`: register 1 of the data does not suit .f32"},
    {".entry q() { .reg .u32 r; atom.global.add.noftz.f16x2 r, [g], r; }\n",
     "5: `atom.global.add.noftz.f16x2 r, [g], r;`: operand 1 does not suit the instruction's type: a packed 32-bit "
     "value is "
     "expected"},
    {".entry q() { .reg .b32 r; .reg .f32 f; match.any.sync.b32 f, r, -1; }\n",
     "5: `match.any.sync.b32 f, r, -1;`: operand 1 does not suit the instruction's type: a 32-bit integer is expected"},
};

static const char *const taken[] = {
    ".global .attribute(.managed) .align 8 .u32 a; .global .align 8 .attribute(.managed, .managed) .u32 b;",
    ".global .align 4 .align 8 .u32 a, b, c[2]; .const .align 16 .u32 d; .global .v4 .u16 e; .global .v2 .b64 f;",
    ".global .u32 a[WARP_SZ], b[0x10], c[4U], d [ 4 ] [ 5 ]; .global .f16 h; .global .f16x2 i; .global .b8 "
    "j[4294967296];",
    ".global .u64 a = g, b = g+4, c = generic(g)+4, d = g+-4, e = g+(4), f = g+2*2; .global .u64 h[2] = {g, g+1};",
    ".global .u32 a[2] = {}, b[2][2] = {{1, 2}}, c[2][2] = {{1, 2}, {}}, d[][2] = {{1, 2}, {3}};",
    ".entry a(.param .u64 .ptr p, .param .u64 .ptr .global q, .param .u64 .ptr .shared .align 16 r, .param .f16 h) { "
    "ret; }",
    ".func a(.param .f16 h) .noreturn { exit; }",
    ".func b();\n.func a() { call b; }\n.global .u32 late;\n.func b() { .reg .b64 d; mov.u64 d, late; ret; }",
    ".entry q() { .reg .f32 f; .reg .f16x2 h; .reg .b32 r; .reg .pred p; shr.b32 f, f, 1; selp.b32 f, f, h, p; "
    "add.f16x2 h,"
    " h, r; add.u32 h, h, 1; prmt.b32 r, r, r, f; fns.b32 f, f, f, f; selp.f32 f, r, f, p; mov.f32 f, --1.5; mov.f32 "
    "f, +1.5; slct.f32.s32 f, f, r, r; }",
    ".entry q(.param .u64 p) { .reg .b64 d; .reg .b32 r; .shared .u32 s; .local .u32 l; mov.u64 d, g; add.u64 d, d, "
    "g+4;"
    " cvta.global.u64 d, g; cvta.param.u64 d, p; mov.u32 r, s; mov.u64 d, l; mapa.shared::cluster.u32 r, s, 1; }",
    ".entry q(.param .u32 p) { .reg .b32 p<3>; ld.param.u32 p1, [p]; } .entry r() { .reg .b32 p<3>; p: bra p; } .entry "
    "s() { .reg .b32 p<3>, p; .reg .b32 s, s<2>; .reg .b32 p3; mov.b32 p, s0; mov.b32 s, p3; mov.b32 s01, p002; }",
    ".entry q() { .reg .b32 p<3>; .shared .u32 p; mov.u32 p1, p; } .entry r() { .reg .b32 p<3>; .param .b32 p; "
    "st.param.b32 [p], p1; } .global .u32 p; .entry s() { .reg .b32 p<3>; .reg .b64 d; mov.u64 d, p; }",
    ".global .u32 p1; .func p2() { ret; } .entry q() { .reg .b32 p<3>; mov.u32 p1, p2; p1: mov.u32 p1, 3; } .entry "
    "t() { "
    ".reg .b64 p1; { .reg .b32 p<4>; mov.b32 p1, p3; } mov.b64 p1, 1; }",
    ".entry q() { .reg .b32 p<3>; { .reg .b64 p<2>; mov.b64 p1, 1; mov.b32 p2, 1; { p1: bra p1; } } { .shared .u32 p1; "
    "mov.u32 p2, p1; } }",
    ".entry q() { .reg .b64 p0; .reg .b32 p<1>; mov.b32 p0, 1; mov.b32 p00, 1; } .entry r() { .reg .b32 p<2>, p2<2>, "
    "p1_<2>; "
    ".reg .b64 p2, p20; mov.b64 p2, p20; mov.b32 p1_1, p1; } .entry s() { .reg .b32 p<WARP_SZ>, r < 0x10 >, s<3U>; "
    "mov.b32 p31, r15; mov.b32 p31, s2; }",
    ".global .b32 a<3>, a, b = 4; .const .v2 .b32 c<2>; .global .b32 d0, d<3>; .global .u64 e[2] = {a01, a2+4}; .entry "
    "q() "
    "{ .shared .b32 s<3>; .local .align 8 .b32 l<100>; .reg .b64 d; .reg .b32 r; mov.u64 d, a1; ld.global.u32 r, "
    "[a2+4]; "
    "mov.u64 d, d2; mov.u64 d, l99; ld.shared.u32 r, [s02]; }",
    ".func (.param .u32 y) f(.param .u32 x) { .reg .b32 r; ld.param.u32 r, [x]; st.param.u32 [y], r; ret; } .entry q() "
    "{ "
    ".param .b32 a<3>, b; .reg .b32 r; st.param.b32 [a01], 1; call (a0), f, (a1); ld.param.b32 r, [a0]; }",
    ".entry q(.param .align 8192 .b8 p[8], .param .u64 .ptr .align 65536 o) { .reg .align 4 .b32 a; .reg .align 4 "
    ".align 8 "
    ".pred b; .shared .align 8192 .b32 s; .local .align 8192 .b32 l; .param .align 128 .b8 c[8]; } .const .align 4096 "
    ".b32 "
    "d; .global .align WARP_SZ .b32 e; .global .align 8U .b32 f; .extern .shared .align 8192 .b8 x[];",
    ".global .u32; .const .align 4 .f32; .entry q() { .reg .b32; .shared .v2 .b32; .param .b32; .local .b8; }",
    ".global .align 0x4.b32 a; .global .align 4U.b32 b; .global .align WARP_SZ.b32 c; .global .f32 d[4] = {4., 08., "
    "4.e1, 5.E+1}; .entry q(.param .u64 .ptr.global.align 8 p) .maxntid 0x20.minnctapersm 1U.maxnreg 32 { ret; }",
    ".entry q() { .shared .b8 s[232448]; ret; } .func f() { .shared .b8 t[232449]; ret; }",
    ".func f() { .shared .b8 s[132449]; .reg .b32 r; mov.u32 r, s; st.shared.u32 [r], r; ret; } .entry q() { call f; "
    "call "
    "f; ret; }",
    ".extern .global .u32 a, b[]; .entry q() { .reg .b64 d; mov.u64 d, a; mov.u64 d, b; } .global .u64 c = b+4; "
    ".visible .global .u32 b[3] = {5}; .weak .global .align 16 .u32 a; .extern .global .u32 b[], b[3], b[0]; .common "
    ".global .u32 e; .extern .global .u32 e; .global .u32 f = 5; .extern .global .align 8 .u32 f; .extern .const .u32 "
    "h[]; "
    ".visible .const .u32 h[] = {1};",
    ".extern .shared .b8 a[]; .extern .shared .align 16 .b8 a[]; .extern .shared .b32 b[4]; .extern .shared .b32 b[4]; "
    ".visible .shared .b32 b[4]; .shared .b32 c[2]; .extern .shared .b32 c[]; .extern .shared .u32 d[0], e[][4];",
};

/* Of `q`, the variable behind g: bytes in hexadecimal, as ptxas has them. */
static const struct {
    const char *text, *bytes;
} initial[] = {
    {".global .u32 q[2][2] = {{1}, {3, 4}};", "01000000030000000400000000000000"},
    {".global .u32 q[2][2] = {{}, {3, 4}};", "03000000040000000000000000000000"},
    {".global .u32 q[][2] = {{1, 2}, {3}};", "01000000020000000300000000000000"},
    {".global .v2 .u32 q[2] = {{1, 2}, {3, 4}};", "01000000020000000300000004000000"},
    {".global .v4 .f32 q[2] = {{1.0, 2.0, 3.0, 4.0}};",
     "0000803f00000040000040400000804000000000000000000000000000000000"},
    {".global .b32 q = 1.5;", "0000c03f"},
    {".global .b32 q = -1.5;", "0000c0bf"},
    {".global .b32 q[3] = {1.5, -2, - 1.0};", "0000c03ffeffffff000080bf"},
    {".global .b32 q[2] = {- -2, -+2};", "02000000feffffff"},
    {".global .f64 q = -0d3FF0000000000000;", "000000000000f0bf"},
    {".global .b16 q = 1.5;", "0000"},
    {".global .b64 q = 1.5;", "000000000000f83f"},
    {".global .b64 q = 0f3f800000;", "0000803f00000000"},
    {".global .b32 q = 0d3ff8000000000000;", "0000c03f"},
    {".global .f32 q = 0d3ff8000000000000;", "0000c03f"},
    {".global .f64 q = 0f3fc00000;", "0000c03f00000000"},
    {".global .f32 q = --1.5;", "0000c03f"},
    {".global .f32 q = 0.1;", "cdcccc3d"},
    {".global .b128 q = 1;", "01000000000000000000000000000000"},
    {".global .u8 q = 300;", "2c"},
    {".global .s8 q = -129;", "7f"},
    {".global .u16 q = 70000;", "7011"},
    {".extern .global .u32 q[2];\n.visible .global .u32 q[2] = {1, 2};\n.extern .global .u32 q[];", "0100000002000000"},
    {".extern .global .u32 q[];\n.visible .global .u32 q[2] = {1};", "0100000000000000"},
    {".extern .global .u32 q;\n.weak .global .u32 q = 7;", "07000000"},
    /* constant expressions */
    {".global .u64 q[6] = {~0>>60, -1>>60, 0xffffffffffffffff>>60, 9223372036854775808>>63, "
     "0x7fffffffffffffff-0x8000000000000000>>63, -1U>>60};",
     "0f00000000000000ffffffffffffffff0f00000000000000010000000000000001000000000000000f00000000000000"},
    {".global .u64 q[6] = {(.u64)-1>>60, (.s64)~0>>60, -(.u64)1/2, (.s64)-1U/2, (.u64)(.s64)~0>>63, (.s64)~1>>1};",
     "0f00000000000000ffffffffffffffffffffffffffffff7f00000000000000000100000000000000ffffffffffffffff"},
    {".global .u64 q[7] = {1<<64, 1<<65, 1<<-1, -1>>64, -1>>65, -1U>>65, 1<<64U};",
     "010000000000000002000000000000000000000000000080ffffffffffffffffffffffffffffffffffffffffffffff7f010000000000000"
     "0"},
    {".global .u64 q[8] = {-1<1U, -1<1, -1>1U, -1>=1U, -1<=1U, 1<2<3, 3>2>1, -1==0xffffffffffffffff};",
     "00000000000000000100000000000000010000000000000001000000000000000000000000000000010000000000000000000000000000000"
     "100000000000000"},
    {".global .u64 q[5] = {-7/2, -7/2U, -7U/2, 7/-2, 0x8000000000000000/-1};",
     "fdfffffffffffffffcffffffffffff7ffcffffffffffff7ffdffffffffffffff0000000000000000"},
    {".global .u64 q[6] = {5%-3, -7 % 3, 7 % -3, 2*3 % 4, 8 % 5 % 2, (1 % 2)*0-1>>63};",
     "050000000000000000000000000000000700000000000000020000000000000001000000000000000100000000000000"},
    {".global .u64 q[8] = {(1U<<1)*0-1>>63, (1<<1U)*0-1>>63, (1U<2)*0-1>>63, (1U&&1)*0-1>>63, (!1U)*0-1>>63, "
     "(1U|1)*0-1>>63, (1&1U)*0-1>>63, (1^1)*0-1>>63};",
     "0100000000000000ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff01000000000000000100000000000000f"
     "fffffffffffffff"},
    {".global .u64 q[6] = {(1?-1:1U)>>60, (0?1:-1U)>>60, (1U?-1:1)>>60, 1?2:3?4:5, 0?2?6:7:3?4:5, 0?2:3?4:5};",
     "ffffffffffffffff0f00000000000000ffffffffffffffff020000000000000004000000000000000400000000000000"},
    {".global .u64 q[6] = {WARP_SZ, -WARP_SZ>>1, ~WARP_SZ>>60, !WARP_SZ, 1|2^3&1, 1||0&&0};",
     "2000000000000000f0ffffffffffffff0f00000000000000000000000000000003000000000000000100000000000000"},
    {".global .u64 q[4] = {1.0<2.0, (1.0==2.0)*8, 1.5!=1.5?3:4, (.5>=0d3fe0000000000000)+1};",
     "0100000000000000000000000000000004000000000000000200000000000000"},
    {".global .f64 q[8] = {1.0+2.0, .5, 5., 1.e2, (1.0+2.0)*.5, 1.0-2.0-3.0, 1.0/3.0, -(1.0)};",
     "0000000000000840000000000000e03f00000000000014400000000000005940000000000000f83f00000000000010c0555555555555d53f0"
     "00000000000f0bf"},
    {".global .f64 q[4] = {1e308*10.0, 0.0*0d7ff0000000000000, -0.0*1.0, 00.5};",
     "000000000000f07f000000000000f8ff0000000000000080000000000000e03f"},
    {".global .f64 q[4] = {0d7ff8000000000001+0dfff8000000000002, 0d7ff8000000000001-0dfff8000000000002, "
     "0d7ff8000000000001*0dfff8000000000002, 0d7ff8000000000001/0dfff8000000000002};",
     "020000000000f8ff010000000000f87f020000000000f8ff010000000000f87f"},
    {".global .f32 q[6] = {0.1+0.2, 16777217.0, 1e-45, 3.5e38, (0f3f800000), 0d7ff4000000000001};",
     "9a99993e0000804b010000000000807f0000803f0000e07f"},
    {".global .b16 q[2] = {0d3ff0000000001234, 0.1};", "34129a99"},
    {".global .b8 q[2] = {0d3ff0000000001234, 0f3f800001};", "3401"},
    {".global .u64 q[4] = {0xff00(0x1234), 0xff(-1), 255(0x1234), 0xff0000(1?0x345678:2)};",
     "1200000000000000ff0000000000000034000000000000003400000000000000"},
    {".global .s16 q[3] = {0xff00(0x1234), 0xffU(0x1234), 0x00FF (WARP_SZ)};", "120034002000"},
    {".global .b128 q[2] = {-1, 0xff00(0x1234)};", "ffffffffffffffff000000000000000012000000000000000000000000000000"},
    {".global .u32 q[3] = {1+2*3<<1, 07+0b11+0x1F+9U, - -1};", "0e0000003200000001000000"},
};

/* Of entry `q`: bytes of shared memory, as ptxas has them. */
#define THREE ".shared .align 4 .b8 sa[80000];\n.shared .align 4 .b8 sb[80000];\n.shared .align 4 .b8 sc[80000];\n"
#define USE(name) ".reg .b32 r; st.shared.u32 [" name "], 1; ret; "
static const struct {
    const char *text;
    unsigned bytes;
} shared_sizes[] = {
    {THREE ".entry q() { ret; }", 0},
    {THREE ".entry q() { " USE("sb") "}", 80000},
    {THREE ".entry p() { " USE("sb") "} .entry q() { " USE("sb") "} .entry r() { " USE("sc") "}", 80000},
    {THREE ".entry q() { .reg .b32 r; ret; mov.u32 r, sc+4; }", 80000},
    {THREE ".entry q() { .reg .b64 d; { mov.b64 d, sb; cvta.shared.u64 d, d; } ret; }", 80000},
    {THREE ".entry q() { .reg .b32 r; ld.shared.b32 r, [sa+8]; ld.shared.b32 r, sc[2]; ret; }", 160000},
    {THREE ".func f() { " USE("sb") "} .entry q() { ret; call f; }", 80000},
    {THREE ".func f() { " USE("sb") "} .func h() { call f; ret; } .entry q() { call h; call f; " USE("sb") "}", 80000},
    {THREE ".func f() { " USE("sb") "} .entry q() { " USE("sa") "} .entry r() { call f; }", 80000},
    {THREE ".entry q() { .shared .b32 sb; " USE("sb") "}", 4},
    {THREE ".shared .b32 d[5];\n.entry q() { .shared .b8 e[3]; " USE("d") "}", 23},
    {".shared .b8 a, b, s<4>;\n.entry q() { st.shared.u8 [s2], 1; ret; }", 1},
    {".func f() { .shared .b8 s[300000]; ret; } .entry q() { ret; }", 0},
    {".func f() { .shared .b8 s[3000], t[5000]; st.shared.u8 [s], 1; ret; } .entry q() { call f; call f; }", 8000},
    {".shared .b8 s[132449], t[132449];\n.entry q() { st.shared.u8 [t], 1; ret; }", 132449},
    {".shared .b8 s[20000000];\n.entry q() { ret; }", 0},
    {".entry q() { .shared .b8 s[20]; { .shared .b8 t[16]; } ret; }", 36},
    {".shared .b8 a; .shared .b32 b; .shared .b8 c; .shared .b32 d; .entry q() { st.shared.b8 [d], 1; st.shared.b8 "
     "[c], 1; st.shared.b8 [b], 1; st.shared.b8 [a], 1; ret; }",
     16},
    /* dynamic memory begins behind them, whether or not the entry names it */
    {".shared .b8 s[5], t[600];\n.extern .shared .b8 x[];\n.entry q() { st.shared.u8 [s], 1; ret; }", 16},
    {".shared .b8 s[5], t[600];\n.extern .shared .align 64 .b8 x[];\n.entry q() { st.shared.u8 [s], 1; ret; }", 64},
    {".shared .b8 t[600];\n.extern .shared .align 64 .b8 x[];\n.entry q() { st.shared.u8 [x], 1; ret; }", 0},
    /* ptxas says that it ignores .extern here */
    {".extern .shared .b8 s[6];\n.extern .shared .b8 s[];\n.extern .shared .u32 t;\n.entry q() { st.shared.u32 [s], 1; "
     "st.shared.u32 [t], 1; ret; }",
     12},
    {".extern .shared .b8 s[6];\n.extern .shared .u32 t;\n.entry q() { ret; }", 0},
};

#endif
