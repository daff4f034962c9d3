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
    {".entry q(.param .u64 .ptr .global .align 3 a) { ret; }\n", "5: .align 3 is not a power of two up to 4096"},
    {".func q(.param .u64 .ptr a) { ret; }\n", "5: a name is expected before `.ptr`"},
    /* sizes */
    {".global .u32 q[1+1];\n", "5: `]` is expected before `+`"},
    {".global .u32 q[2.0];\n", "5: a number is expected before `2.0`"},
    {".global .u32 q[4,5];\n", "5: `]` is expected before `,`"},
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
    /* initialisers */
    {".global .u32 q = {1};\n", "5: an integer constant is expected before `{`"},
    {".global .u32 q[2] = 1;\n", "5: `{` is expected before `1`"},
    {".global .u32 q[] = {};\n", "5: `q` has an open dimension and no initialiser"},
    {".global .u32 q[2][2] = {1, 2};\n", "5: `{` is expected before `1`"},
    {".global .u32 q[2][2] = {{1, 2}, 3};\n", "5: `{` is expected before `3`"},
    {".global .u32 q[2] = {{1}, {2}};\n", "5: an integer constant is expected before `{`"},
    {".global .u32 q[2][3] = {{1, 2, 3, 4}};\n", "5: more initialisers than `q` has elements"},
    {".global .u32 q[2] = {1,};\n", "5: an integer constant is expected before `}`"},
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
    {".global .f16 q = 1.5;\n", "5: variables of .f16 have no initialiser: declare .b16"},
    {".global .u64 q = g-4;\n", "5: `;` is expected before `-`"},
    {".global .u64 q = 4+g;\n", "5: an integer constant is expected before `g`"},
    {".global .u64 q = generic(g+4);\n", "5: `)` is expected before `+`"},
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
    /* where code comes from */
    {".file 1\n", "6: the name of a file in quotes is expected before the end"},
    {".file \"a.c\"\n", "5: a number is expected before `\"a.c\"`"},
    {".file 1 \"a.c\", 5, 6, 7\n", "5: a directive is expected before `,`"},
    {".loc 1 1 1\n", "5: directive `.loc` is not supported"},
    {".entry q() { .file 1 \"a.c\"\n }\n", "5: directive `.file` is not supported within an entry"},
    {".entry q() { .loc 1 1\n ret; }\n", "6: a number is expected before `ret`"},
    {".entry q() { .loc 1 1 1, inlined_at 1 1 1\n }\n", "5: function_name is expected before `inlined_at`"},
    {".section debug_x { .b8 1 }\n", "5: the name of a section is expected before `debug_x`"},
    {".section { .b8 1 }\n", "5: the name of a section is expected before `{`"},
    {".section .debug_x { .u8 1 }\n", "5: a label, `.b8`, `.b16`, `.b32`, `.b64` or `}` is expected before `.u8`"},
    {".section .debug_x { .b8 1; }\n", "5: a label, `.b8`, `.b16`, `.b32`, `.b64` or `}` is expected before `;`"},
    {".section .debug_x { .b8 }\n", "5: a number, a name or a section is expected before `}`"},
    {".section .debug_x { .b8 \"a\" }\n", "5: a number, a name or a section is expected before `\"a\"`"},
    {".section .debug_x { .b8 1+2 }\n", "5: a label, `.b8`, `.b16`, `.b32`, `.b64` or `}` is expected before `+`"},
    {".section .debug_x { foo }\n", "5: `:` is expected before `}`"},
    {".section .debug_x { .b8 1,\n.b8 2\n", "6: a label, `.b8`, `.b16`, `.b32`, `.b64` or `}` is expected before `2`"},
    {"@@ DWARF .byte 0x5\n", "5: a directive is expected before `@`"},
    {"@@foo\n", "5: a directive is expected before `@`"},
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
    ".file 1 \"a.c\", 1700000000, 12 .file 2 \"b.c\"\n.entry a() { .loc 1 1 1\n.loc 1 2 3, function_name $L, "
    "inlined_at 1 1 1\n}",
    ".section .debug_x { } .section .debug_y { L: .b8 1, -1, 0x10 .b8 2\nM: .b32 M-L .b32 .debug_x .b32 .debug_x+4 "
    ".b64 g+4 }",
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
};

#endif
