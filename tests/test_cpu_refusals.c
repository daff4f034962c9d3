/* test_cpu_refusals.c - malformed PTX: what the reader of the CPU device says of it, word for word: the line, the
 * instruction where it is one, and the reason. What it names on load because it lacks it is refused here, too; with a
 * line map the template's line stands behind PTX's (test_cpu_ptx.c). */
#include "runtime/cpu/machine.h"
#include "tests/cpu_refusals.h"
#include "tests/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD(target) ".version 8.1\n.target " target "\n.address_size 64\n"
#define ENTRY                                                                                                          \
    ".visible .entry f(.param .u64 a) {\n"                                                                             \
    ".reg .pred p; .reg .b16 h; .reg .b32 r, s; .reg .b64 d; .reg .f32 x, y, v<4>; .reg .f64 z;\n"

/* Whole modules. */
static const struct refusal modules[] = {
    {"", "1: `.version` is expected before the end"},
    {".target sm_90\n", "1: `.version` is expected before `.target`"},
    {"ret;\n", "1: `.version` is expected before `ret`"},
    {".version eight\n", "1: a PTX version such as 8.1 is expected before `eight`"},
    {".version 8\n", "1: a PTX version such as 8.1 is expected before `8`"},
    {".version 8.1\n.visible .entry f() { ret; }\n", "2: `.target` is expected before `.visible`"},
    {".version 8.1\n.target\n", "3: a target such as sm_90a is expected before the end"},
    {".version 8.1\n.target ninety\n", "2: a target such as sm_90a is expected before `ninety`"},
    {".version 8.1\n.target sm_9x\n", "2: a target such as sm_90a is expected before `sm_9x`"},
    {".version 8.1\n.target sm_90,\n\n", "4: a target such as sm_90a is expected before the end"},
    {".version 9.1\n", "1: .version 9.1 is newer than 9.0, the newest that is read"},
    {".version 99.0\n", "1: .version 99.0 is newer than 9.0, the newest that is read"},
    {".version 8.12345\n", "1: a PTX version such as 8.1 is expected before `8.12345`"},
    {".version 1.0\n.target sm_90\n", "2: PTX 1.0 has no target `sm_90`: it came with .version 7.8"},
    {".version 7.8\n.target sm_90a\n", "2: PTX 7.8 has no target `sm_90a`: it came with .version 8.0"},
    {".version 8.7\n.target sm_100f\n", "2: PTX 8.7 has no target `sm_100f`: it came with .version 8.8"},
    {".version 9.0\n.target sm_999\n", "2: PTX 9.0 has no target `sm_999`"},
    {".version 9.0\n.target sm_90f\n", "2: PTX 9.0 has no target `sm_90f`"},
    {".version 9.0\n.target sm_80a\n", "2: PTX 9.0 has no target `sm_80a`"},
    {".version 9.0\n.target sm_90b\n", "2: a target such as sm_90a is expected before `sm_90b`"},
    {".version 8.1\n.target sm_90\n.address_size 32\n", "3: only .address_size 64 is supported"},
    {".version 8.1\n.target sm_90\n.address_size\n", "4: a number of bits is expected before the end"},
    {".version 8.1\n.target sm_90\n.address_size 32+32\n", "3: only .address_size 64 is supported"},
    {".version 8.1\n.target sm_90\n.address_size 64.entry q() { ret; }\n", "3: malformed number: `64.e`"},
    {".version 8.1\n.target sm_90\n.address_size 64+0\n", "3: a directive is expected before `+`"},
    {".version 2.2\n.target sm_20\n.address_size 64\n", "3: .address_size came with PTX 2.3"},
    {".version 8.9\n", "1: there is no PTX 8.9"},
    {".version 8.30\n", "1: there is no PTX 8.30"},
    {".version 7.9\n", "1: there is no PTX 7.9"},
    {".version 0.5\n", "1: there is no PTX 0.5"},
    {".version 8.1;\n", "1: `.target` is expected before `;`"},
    {".version 8.1\n.version 8.1\n.target sm_90\n", "2: `.target` is expected before `.version`"},
    {".version 8.1\n.address_size 64\n.target sm_90\n", "2: `.target` is expected before `.address_size`"},
    {".visible .version 8.1\n", "1: `.version` is expected before `.visible`"},
    {".version 8.1\n.target debug\n", "2: .target names no architecture such as sm_90a"},
    {".version 8.1\n.target sm_90, texmode_unified, texmode_independent\n",
     "2: `texmode_unified` and `texmode_independent` exclude each other"},
    {".version 8.1\n.target sm_90, map_f64_to_f32\n", "2: `map_f64_to_f32` is for targets before sm_13"},
};

/* Behind the three lines of a head. */
static const struct refusal directives[] = {
    {"\x01", "4: byte 0x01 is not PTX: only ASCII is"},
    {"\xc3\xa9", "4: byte 0xC3 is not PTX: only ASCII is"},
    {"/* for\never\n", "4: comment without an end"},
    {".global .b32 a = 0x;\n", "4: malformed integer constant"},
    {".global .b32 a = 09;\n", "4: malformed number: `09`"},
    {".global .b64 a = 0x1FFFFFFFFFFFFFFFF;\n", "4: integer constant beyond 64 bits"},
    {".global .f32 a = 0f3F80;\n", "4: a float constant of 8 hexadecimal digits is expected"},
    {".global .f64 a = 0d3FF0;\n", "4: a float constant of 16 hexadecimal digits is expected"},
    {".global .b32 a = 12ab;\n", "4: malformed number: `12a`"},
    {".5\n", "4: a directive is expected before `.5`"},
    {"add.u32;\n", "4: a directive is expected before `add`"},
    {".entry\n", "5: the name of an entry is expected before the end"},
    {".entry ;\n", "4: the name of an entry is expected before `;`"},
    {".entry f();\n", "4: entry `f` has no body"},
    {".entry f", "4: `{` is expected before the end"},
    {".version 8.1\n", "4: `.version` stands once, in its place at the head of a module"},
    {".entry f() { ret; }\n.target sm_90\n", "5: `.target` stands once, in its place at the head of a module"},
    {".address_size 64\n", "4: `.address_size` stands once, in its place at the head of a module"},
    {";\n", "4: a directive is expected before `;`"},
    {".entry f() { ret; };\n", "4: a directive is expected before `;`"},
    {"{ }\n", "4: a directive is expected before `{`"},
    {".visible .visible .entry f() { ret; }\n", "4: an entry, a function or a variable is expected before `.visible`"},
    {".weak .visible .global .u32 a;\n", "4: an entry, a function or a variable is expected before `.visible`"},
    {".visible .target sm_90\n", "4: an entry, a function or a variable is expected before `.target`"},
    {".visible .pragma \"nounroll\";\n", "4: an entry, a function or a variable is expected before `.pragma`"},
    {".visible ;\n", "4: an entry, a function or a variable is expected before `;`"},
    {".visible\n", "5: an entry, a function or a variable is expected before the end"},
    {".common .entry f() { ret; }\n", "4: `.global`, which .common is of, is expected before `.entry`"},
    {".common .shared .u32 a;\n", "4: `.global`, which .common is of, is expected before `.shared`"},
    {".extern .entry f() { ret; }\n", "4: entry `f` is .extern and has a body"},
    {".entry f() .reqntid 0 { ret; }\n", "4: .reqntid 0: 1 to 4294967295"},
    {".entry f() .reqntid 1, 4294967296\n{ ret; }\n", "4: .reqntid 4294967296: 1 to 4294967295"},
    {".entry f() .reqntid 1,\n{ ret; }\n", "5: a number is expected before `{`"},
    {".entry f() .reqntid 1, 1, 1, 1\n{ ret; }\n", "4: `{` is expected before `,`"},
    {".entry f() .maxntid 16+16\n{ ret; }\n", "4: `{` is expected before `+`"},
    {".entry f() .maxntid (32)\n{ ret; }\n", "4: a number is expected before `(`"},
    {".entry f() .maxntid -1\n{ ret; }\n", "4: a number is expected before `-`"},
    {".entry f() .maxnreg 0\n{ ret; }\n", "4: .maxnreg 0: 1 to 4294967295"},
    {".entry f() .minnctapersm 0\n{ ret; }\n", "4: .minnctapersm 0: 1 to 4294967295"},
    {".entry f() .maxnctapersm 2\n{ ret; }\n", "4: .maxnctapersm went with PTX 2.1: state .minnctapersm"},
    {".entry f() .maxntid 32 .reqntid 32\n{ ret; }\n", "4: .maxntid and .reqntid exclude each other"},
    {".entry f() .reqntid 32 .maxntid 32\n{ ret; }\n", "4: .maxntid and .reqntid exclude each other"},
    {".entry f() .maxclusterrank 2 .reqnctapercluster 2\n{ ret; }\n",
     "4: .maxclusterrank and .reqnctapercluster exclude each other"},
    {".entry f() .file 1 \"a.c\"\n{ ret; }\n", "4: `.file` is not supported before the body of `f`"},
    {".pragma nounroll;\n", "4: a pragma in quotes is expected before `nounroll`"},
    {".pragma ;\n", "4: a pragma in quotes is expected before `;`"},
    {".entry f() .blocksareclusters\n{ ret; }\n", "4: .blocksareclusters is not supported: state grids in CTAs"},
    {".entry f() .noreturn { ret; }\n", "4: `.noreturn` is not supported before the body of `f`"},
    {".entry f() ret;\n", "4: `{` is expected before `ret`"},
    {".entry f() { ret;\n", "5: `}` is missing at the end"},
    {".entry f(.reg .b32 a) { ret; }\n", "4: `.param` is expected before `.reg`"},
    {".entry f(.param .b32 a .param .b32 b) { ret; }\n", "4: `)` is expected before `.param`"},
    {".entry f(.param .b32 a[]) { ret; }\n", "4: parameter `a` has no size"},
    {".entry f(.param .b32 a, .param .b64 a) { ret; }\n", "4: `a` is declared twice in one scope"},
    {".entry f(.param .b8 a[40000]) { ret; }\n", "4: parameters of more than 32764 bytes"},
    {".entry f() { ret; }\n.entry f() { ret; }\n", "5: `f` is declared twice in one scope"},
    {".tex .u64 t;\n", "4: directive `.tex` is not supported"},
    {".pragma \"nounroll\"\n", "5: `;` is expected before the end"},
    {".section .debug_info {\n.b8 1\n", "4: .section without an end"},
    {".global x;\n", "4: a type is expected before `x`"},
    {".global .b31 x;\n", "4: a type is expected before `.b31`"},
    {".global .pred x;\n", "4: predicates exist in registers only"},
    {".global .b32 ,;\n", "4: a name is expected before `,`"},
    {".global .align 3 .b32 x;\n", "4: .align 3 is not a power of two"},
    {".global .align 8192 .b32 x;\n", "4: `x` is aligned to 8192 bytes: more than 4096 are not supported"},
    {".global .b32 x[2][];\n", "4: only the first dimension of `x` may be open"},
    {".global .b32 x[][];\n", "4: only the first dimension of `x` may be open"},
    {".global .b32 x[];\n", "4: `x` has an open dimension and no initialiser"},
    {".global .b32 x[-1];\n", "4: a number is expected before `-`"},
    {".global .b64 x[1099511627776];\n", "4: size 1099511627776 of `x` is out of range"},
    {".global .b32 x[1+1];\n", "4: `]` is expected before `+`"},
    {".global .b32 x[0];\n", "4: `x` has a dimension of 0"},
    {".global .b32 x = 1/0;\n", "4: division by zero in a constant expression"},
    {".global .b32 x[2;\n", "4: `]` is expected before `;`"},
    {".global .b32 x[2] = {1, 2, 3};\n", "4: more initialisers than `x` has elements"},
    {".global .b32 x[1] = {1\n;\n", "5: `}` is expected before `;`"},
    {".global .b32 x = y;\n", "4: `y` in an initialiser is not a global or constant variable"},
    {".global .b64 y;\n.global .u32 x = y;\n", "5: an address initialises 64-bit elements only"},
    {".global .f32 x = 1;\n", "4: a float constant is expected for a float variable"},
    {".global .b32 x = ;\n", "4: a constant is expected before `;`"},
    {".global .b32 x = 1.5.5;\n", "4: `;` is expected before `.5`"},
    {".global .b32 x\n.global .b32 y;\n", "5: `;` is expected before `.global`"},
    {".global .b32 x; .global .b64\nx;\n", "5: `x` is declared twice in one scope"},
    {".shared .b32 x = 1;\n", "4: only global and constant variables have initialisers"},
    {".local .b32 x;\n", "4: local variables belong to entries, with at most 512 KiB a thread"},
    {".extern .global .b32 x;\n", "4: `x` is defined in another module: linking is not supported"},
    {".extern .entry f();\n", "4: entry `f` has no body"},
    {".reg .b32 x;\n", "4: directive `.reg` is not supported"},
    {".global .attribute(.managed .b32 x;\n", "4: `)` is expected before `.b32`"},
    {".func g(.reg .b32 a) { ret; }\n.entry f() { call g; }\n",
     "4: parameters of `g` in registers are not supported: .param is expected"},
    {".func { ret; }\n", "4: the name of a function is expected behind .func"},
    {".func h();\n.func g() { call h; }\n.func h() { call g; }\n.entry f() { call g; }\n",
     "6: `call g;`: `g` calls itself: recursion is not supported"},
    {".func g() { ret; }\n.func g() { ret; }\n.entry f() { call g; }\n", "5: function `g` has two bodies"},
    {".const .b8 a[60000];\n.const .b8 b[6000];\n", "5: constant variables of more than 64 KiB"},
    {".entry f() { ret; }\n.func g(.reg .b32 a)\n{ { ret;\n}\n",
     "5: `}` is missing at the end of the function that begins here"},
    {".func g(.param .b64 a) { ret; }\n.entry f() {\ncall g; }\n", "6: `call g;`: `g` has 1 argument, not 0"},
    {".func g(.param .b64 a) { ret; }\n.entry f() {\n.param .b32 p;\ncall g, (p); }\n",
     "7: `call g, (p);`: argument 1 of `g` has 8 bytes, not 4"},
    {".func g() { frob; }\n.entry f() {\ncall g; }\n", "4: `frob;`: unknown instruction `frob`"},
    {".func g() {\nbra L; }\n.entry f() { call g; }\n", "5: label `L` is not defined"},
};

/* In an entry, from line 6 on. */
static const struct refusal statements[] = {
    {".reg .b32 ,;\n", "6: a name is expected before `,`"},
    {".reg .b32 e\n.reg .b32 c;\n", "7: `;` is expected before `.reg`"},
    {".reg .b32 e<;\n", "6: a count is expected in `e<...>`"},
    {".reg .b32 e<9999999>;\n", "6: more than 1048576 names in `e<...>`"},
    {".reg .v2 .b32 a;\n", "6: vector registers are not supported: declare scalars and use { } in the instruction"},
    {".reg .f8 a;\n", "6: a type is expected before `.f8`"},
    {".reg .b32 e; .reg .b64\ne;\n", "7: `e` is declared twice in one scope"},
    {".local .b8 a[999999];\n", "6: local variables belong to entries, with at most 512 KiB a thread"},
    {".tex .u64 t;\n", "6: directive `.tex` is not supported within an entry"},
    {".extern .b32 a;\n", "6: directive `.extern` is not supported within an entry"},
    {"{ ret;\n", "8: `}` is missing at the end"},
    {"add.u32 r, s, 1\n", "6: @ `;` is expected before `}`"},
    {"add.u32 r, s 1;\n", "6: @ `;` is expected before `1`"},
    {"add.u32 r, s,;\n", "6: a constant is expected before `;`"},
    {"add.u32 r, s;\n", "6: @ operand 3 is missing"},
    {"add.u32 r, s, 1, 2;\n", "6: @ 3 operands are expected, not 4"},
    {"add.u32 r, s, d;\n", "6: @ operand 3 does not suit the instruction's type: a 32-bit integer is expected"},
    {"add.u32 r, s, x;\n", "6: @ operand 3 does not suit the instruction's type: a 32-bit integer is expected"},
    {"add.u32 r, s, 0f3F800000;\n",
     "6: @ operand 3 does not suit the instruction's type: a 32-bit integer is expected"},
    {"add.u32 5, s, r;\n", "6: @ operand 1 is written and must be a register"},
    {"add.u32 r, s, q;\n", "6: @ `q` is not declared"},
    {"add.u32 r, s, %q;\n", "6: @ `%q` is neither a declared register nor a known special register"},
    {"add.u32 r, !s, r;\n", "6: @ operand 2 does not suit the instruction's type: a value without `!` is expected"},
    {"add.u32 r, s, {r, r};\n", "6: @ operand 3 does not suit the instruction's type: a 32-bit integer is expected"},
    {"add.u32 r, s, [r];\n", "6: @ operand 3 does not suit the instruction's type: a 32-bit integer is expected"},
    {"add.u32 r, {;\n", "6: a constant is expected before `;`"},
    {"add.f8 r, s, s;\n", "6: @ `add.f8` is not supported in this form"},
    {"add.u32.rn.sat.ftz r, s, s;\n", "6: @ `add.u32.rn.sat.ftz` is not supported in this form"},
    {"frobnicate.u32 r, s;\n", "6: @ unknown instruction `frobnicate.u32`"},
    {"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r], 32;\n",
     "6: @ unknown instruction `tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32`"},
    {"@r ret;\n", "6: @ `r` is not a declared predicate"},
    {"@!q ret;\n", "6: @ `q` is not a declared predicate"},
    {"@ ret;\n", "6: @ `ret` is not a declared predicate"},
    {"@p;\n", "6: an instruction is expected before `;`"},
    {"5;\n", "6: an instruction is expected before `5`"},
    {"!;\n", "6: an instruction is expected before `!`"},
    {"not.pred p, !;\n", "6: a constant is expected before `;`"},
    {"bra nowhere;\n", "6: label `nowhere` is not defined"},
    {"bra r;\n", "6: @ a label is expected"},
    {"bra;\n", "6: @ a label is expected"},
    {"L: ret;\nL: ret;\n", "7: `L` is declared twice in one scope"},
    {"{ M: ret; }\nbra M;\n", "7: label `M` is not defined"},
    {"t: .branchtargets 5;\nL: ret;\n", "6: a label is expected before `5`"},
    {"L: brx.idx r, L;\n", "6: `brx.idx r, L;`: `L` is a label: only bra goes to one"},
    {"c: .callprototype _ (.param .b32 a);\n", "6: calls through pointers are not supported"},
    {"add.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.rn.f32 x, x, x;\n",
     "6: @ more than 20 modifiers"},
    {"add.f32 x, x, x, x, x, x, x, x, x, x, x;\n", "6: @ more than 10 operands"},
    {"mov.b64 d, {r, r, r, r, r, r, r, r, r, r, r, r, r, r, r, r, r};\n", "6: @ a vector has at most 16 elements"},
    {"ld.global.u32 r, d;\n", "6: @ an address in [ ] is expected"},
    {"ld.global.u32 r, [d;\n", "6: `]` is expected before `;`"},
    {"ld.global.u32 r, [d+];\n", "6: a constant is expected before `]`"},
    {"ld.global.u32 r, [x];\n", "6: @ the register of an address has 64 or 32 bits"},
    {"ld.global.u32 r, [h];\n", "6: @ the register of an address has 64 or 32 bits"},
    {"ld.global.u32 r, [p];\n", "6: @ the register of an address has 64 or 32 bits"},
    {"ld.global.u32 r, [%tid.x];\n", "6: @ an address is a register, a variable or a constant, with an offset"},
    {"ld.global.u32 r, [a];\n", "6: @ `a` lies in another space"},
    {"ld.global.u32 h, [d];\n", "6: @ register 1 of the data does not suit .u32"},
    {"ld.global.v2.u32 r, [d];\n", "6: @ data of 2 registers is expected, not 1"},
    {"ld.global.v2.u32 {r, s, r}, [d];\n", "6: @ data of 2 registers is expected, not 3"},
    {"ld.global.v8.b64 {d, d, d, d, d, d, d, d}, [d];\n", "6: @ an access of more than 32 bytes"},
    {"ld.global.u32 5, [d];\n", "6: @ operand 1 is written and must be a register"},
    {"ld.global.u32 r;\n", "6: @ 2 operands are expected, not 1"},
    {"ld.release.gpu.global.u32 r, [d];\n", "6: @ `.release` does not go with `ld`"},
    {"ld.global.u24 r, [d];\n", "6: @ unknown type of the access"},
    {"st.const.u32 [d], r;\n", "6: @ a store has 2 operands and goes to global, shared or local memory"},
    {"st.param.u32 [a], r;\n", "6: @ a store has 2 operands and goes to global, shared or local memory"},
    {"st.global.u32 [d], z;\n", "6: @ register 1 of the data does not suit .u32"},
    {"st.global.u32 [d], [d];\n", "6: @ a store reads registers or constants"},
    {"atom.global.add.u32 r, [d];\n", "6: @ 3 operands are expected, not 2"},
    {"atom.global.add.u32 r, [d], x;\n",
     "6: @ operand 3 does not suit the instruction's type: a 32-bit integer is expected"},
    {"red.global.add.u32 r, [d], s;\n", "6: @ 2 operands are expected, not 3"},
    {"fence.acq_rel.sys r;\n", "6: @ a fence has no operands"},
    {"fence.often;\n", "6: @ `fence.often` is not supported in this form"},
    {"prefetch.global.L2 r, s;\n", "6: @ one address is expected"},
    {"mov.u32 r, %tid.q;\n", "6: @ `%tid.q` is neither a declared register nor a known special register"},
    {"mov.u64 d, %tid.x;\n", "6: @ operand 2 does not suit the instruction's type: a 64-bit integer is expected"},
    {"mov.b64 d, {r, h};\n", "6: @ element 2 of the vector has not 32 bits"},
    {"mov.b64 d, {r, r, r};\n", "6: @ 64 bits do not divide into 3 elements"},
    {"mov.b64 {r, s}, {s, r};\n", "6: @ one side of a packing mov is a single register"},
    {"mov.b64 d, {r, _};\n", "6: @ operand 2: `_` stands for a register that is written"},
    {"mov.u32 r, %clock64;\n", "6: @ `%clock64` has 64 bits"},
    {"add.u64 d, d, %clock64;\n",
     "6: @ operand 3 does not suit the instruction's type: a register (mov reads special registers) is expected"},
    {"mov.f32 x, 1;\n", "6: @ operand 2 does not suit the instruction's type: an f32 is expected"},
    {"cvt.s32.f32 r, x;\n", "6: @ this conversion needs a rounding: .rni .rzi .rmi .rpi"},
    {"cvt.rn.f64.f32 z, x;\n", "6: @ a widening conversion takes no rounding"},
    {"cvt.rn.e4m3x2.f32 h, x, y;\n", "6: @ conversions to FP8 need .satfinite"},
    {"cvt.u32 r, s;\n", "6: @ `cvt.u32` is not supported in this form"},
    {"cvta.to.global.u32 r, s;\n", "6: @ cvta needs .u64 with 64-bit addresses"},
    {"setp.lt.u32 p, r;\n", "6: @ 3 operands are expected, not 2"},
    {"setp.lt.u32 r, r, s;\n", "6: @ a predicate is expected"},
    {"selp.b32 r, s, s, r;\n", "6: @ operand 4 does not suit the instruction's type: a predicate is expected"},
    {"testp.odd.f32 p, x;\n", "6: @ unknown test in testp"},
    {"shfl.sync.up.b32 r, s, 1;\n", "6: @ 5 operands are expected, not 3"},
    {"elect.sync r, -1;\n", "6: @ d|p is expected"},
    {"vote.sync.any.pred p, r, 1;\n", "6: @ a predicate is expected"},
    {"bar.sync;\n", "6: @ 1 or 2 operands are expected, not 0"},
    {"bar.sync 0, 1, 2;\n", "6: @ 1 or 2 operands are expected, not 3"},
    {"setmaxnreg.inc.sync.aligned.u32 23;\n",
     "6: @ a register count is expected: a constant from 24 to 256, a multiple of 8"},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {x, x, x, x}, {r, r}, {r, r}, {x, x, x, x};\n",
     "6: @ operand 2 has 4 registers, not 2"},
    {"mma.sync.aligned.m1n1k1.row.col.f32.f16.f16.f32 {x, x, x, x}, {r}, {r, r}, {x, x, x, x};\n",
     "6: @ `mma.sync.aligned.m1n1k1.row.col.f32.f16.f16.f32` is not supported in this form"},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {x, x, x, x}, {r, r, r, r}, {r, r};\n",
     "6: @ four operands are expected: d, a, b, c"},
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r, r}, [r];\n", "6: @ operand 1 has 4 registers, not 2"},
    {"cp.async.cg.shared.global [r], [d], 8;\n", "6: @ cp.async.cg copies 16 bytes"},
    {"cp.async.ca.shared.global [r], [d], 5;\n", "6: @ cp.async.ca copies 4, 8 or 16 bytes"},
    {"cp.async.ca.shared.global [r], [d], 8, 9;\n", "6: @ src-size is at most the 8 bytes of the copy"},
    {"cp.async.ca.shared.global [r], [d];\n",
     "6: @ 3 or 4 operands are expected: destination, source, size, then src-size or ignore-src"},
    {"cp.async.wait_group;\n", "6: @ the number of groups that may be pending, a constant, is expected"},
    {"mbarrier.init.shared.b64 [r];\n", "6: @ 2 operands are expected, not 1"},
    {"mbarrier.arrive.shared.b64 r, [r];\n",
     "6: @ operand 1 does not suit the instruction's type: a 64-bit integer is expected"},
    {"mapa.u32 r, d, 1;\n", "6: @ generic addresses have 64 bits: use .u64"},
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r], [d], 8, [r];\n",
     "6: @ the size of a bulk copy is a multiple of 16"},
    {"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [r], [d, {s}], [r];\n",
     "6: @ 2 coordinates are expected, not 1"},
    {"wgmma.fence.sync.aligned;\n", "6: @ wgmma needs .target sm_90a"},
    {"call g;\n", "6: @ function `g` has no body in this PTX: linking is not supported"},
    {"call (r), g;\n", "6: @ function `g` has no body in this PTX: linking is not supported"},
    {"call.often g;\n", "6: @ `call.often` is not supported in this form"},
    {"call %q;\n", "6: @ calls through pointers are not supported"},
    {"add.u32 r, %tid.x, 1;\n",
     "6: @ operand 2 does not suit the instruction's type: a register (mov reads special registers) is expected"},
    {"st.global.v2.u8 [d], {r, h};\n", "6: @ the registers of a vector have different widths"},
    {"ld.global.u32 r, [d, {s}];\n", "6: @ coordinates go with a tensor map only"},
    {"ld.global.u32 r, [d+4, {s}];\n", "6: @ the address of a tensor map has no offset"},
    {"cp.async.ca.shared.global [a], [d], 4;\n",
     "6: @ `a` lies in another space: cp.async copies from global to shared memory"},
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r], [d], 16;\n",
     "6: @ an operand is missing: the mbarrier"},
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r], [d], x, [r];\n",
     "6: @ the size: a 32-bit integer is expected"},
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r], [d], 16, [r], d;\n",
     "6: @ 4 operands are expected, not 5"},
    {"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [r], [d, {s, x}], [r];\n",
     "6: @ coordinate 2 does not suit: a 32-bit integer is expected"},
    {"cp.async.bulk.commit_group r;\n", "6: @ no operand is expected"},
    {"cp.async.bulk.wait_group r;\n", "6: @ the number of groups that may be pending, a constant, is expected"},
    {"prefetch.tensormap;\n", "6: @ one address is expected"},
    {"mbarrier.try_wait.parity.shared.b64 p, [r], d;\n",
     "6: @ operand 3 does not suit the instruction's type: a 32-bit integer is expected"},
    {"isspacep.const p, d;\n", "6: @ isspacep.const is not supported"},
    {"shfl.sync.up.b32 r, d, 1, 0, -1;\n",
     "6: @ operand 2 does not suit the instruction's type: a 32-bit value is expected"},
    {"redux.sync.add.s32 r, d, -1;\n",
     "6: @ operand 2 does not suit the instruction's type: a 32-bit integer is expected"},
    {"barrier.cluster.arrive r;\n", "6: @ 0 operands are expected, not 1"},
    {"griddepcontrol.wait r;\n", "6: @ 0 operands are expected, not 1"},
    {"griddepcontrol.often;\n", "6: @ `griddepcontrol.often` is not supported in this form"},
    {"exit r;\n", "6: @ 0 operands are expected, not 1"},
    {"ret r;\n", "6: @ 0 operands are expected, not 1"},
    {"multimem.red.relaxed.sys.global.add.f32 [d];\n",
     "6: @ `multimem.red.relaxed.sys.global.add.f32` is not supported in this form"},
    {"set.lt.u16.u32 h, r, s;\n",
     "6: @ set gives .u32, .s32 or .f32 here, and of half-precision sources their own type"},
    {"bfi.b32 r, s;\n", "6: @ 5 operands are expected, not 2"},
    {"lop3.b32 r, s, s, s, x;\n",
     "6: @ operand 5 does not suit the instruction's type: an integer constant is expected"},
    {"fma.rn.f32 x, y;\n", "6: @ operand 3 is missing"},
    {"wmma.load.a.sync.aligned.row.m16n16k16.f16 {r}, [d], 16;\n", "6: @ operand 1 has 8 registers, not 1"},
    {"wmma.load.a.sync.aligned.row.m16n16k16.f16 [d];\n", "6: @ operand 1 is written and must be a register"},
    {"call (q), g, (p);\n", "6: @ `q` is not declared"},
    {"call g, p\n", "6: `;` is expected before `p`"},
    {"call ;\n", "6: `call`: the name of a function is expected"},
    {"nanosleep.u32 d;\n", "6: @ operand 1 does not suit the instruction's type: a 32-bit integer is expected"},
    {"fence.proxy.often;\n", "6: @ `fence.proxy.often` is not supported in this form"},
    {"fence.proxy.tensormap::generic.acquire.gpu [d], 64;\n", "6: @ the size of a tensor map is 128"},
};

/* The same for sm_90a. */
static const struct refusal hopper[] = {
    {"wgmma.fence.sync.aligned r;\n", "6: @ no operand is expected"},
    {"wgmma.wait_group.sync.aligned;\n", "6: @ the number of groups that may go on is expected"},
    {"wgmma.wait_group.sync.aligned r;\n", "6: @ the number of groups that may go on is a constant from 0 on"},
    {"wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {v0}, d, d, p, 1, 1, 0, 0;\n",
     "6: @ N is a multiple of 8 from 8 to 256"},
    {"wgmma.mma_async.sync.aligned.m64n8k32.f32.f16.f16 {v0}, d, d, p, 1, 1, 0, 0;\n", "6: @ K is 16 for these types"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {v0}, d, d, p, 1, 1, 0, 0;\n",
     "6: @ A and B do not go together: `f16` and `bf16`"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.s32.f16.f16 {v0}, d, d, p, 1, 1, 0, 0;\n",
     "6: @ D of type `s32` does not go with A and B"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {v0, v1}, d, d, p, 1, 1, 0, 0;\n",
     "6: @ operand 1: a vector of 4 registers is expected"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {x, y, x, y}, d, d, p, 1, 1, 0, 0;\n",
     "6: @ accumulators 1 and 3 are one register"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {v0, h, v2, v3}, d, d, p, 1, 1, 0, 0;\n",
     "6: @ register 2 of operand 1: an f32 is expected"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {v0, v1, v2, v3}, r, d, p, 1, 1, 0, 0;\n",
     "6: @ operand 2 is a matrix descriptor: a 64-bit value is expected"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {v0, v1, v2, v3}, d, d;\n",
     "6: @ 8 operands are expected: d, a, b, scale-d, imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {v0, v1, v2, v3}, d, d, r, 1, 1, 0, 0;\n",
     "6: @ a predicate is expected"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {v0, v1, v2, v3}, d, d, p, 2, 1, 0, 0;\n",
     "6: @ operand 5, imm-scale-a, is 1 or -1"},
};

START_TEST(a_malformed_module_is_refused_with_line_and_reason) {
    refused("", &modules[_i], "");
}
END_TEST

START_TEST(a_malformed_directive_is_refused_with_line_and_reason) {
    refused(HEAD("sm_90"), &directives[_i], "");
}
END_TEST

START_TEST(a_malformed_statement_is_refused_with_line_and_reason) {
    refused(HEAD("sm_90") ENTRY, &statements[_i], "}\n");
}
END_TEST

START_TEST(what_the_assembler_refuses_is_refused_with_line_and_reason) {
    refused(HEAD("sm_90") ENTRY, &combinations[_i], "}\n");
}
END_TEST

/* Names that look like members of a range and are none; scopes within; the half-way forms of the rules above. */
START_TEST(what_the_assembler_takes_is_taken) {
    static const char *const rows[] = {
        ".reg .b32 w<9>; .reg .b32 w9; .reg .b32 w1<9>; mov.u32 w01, w1; { .reg .b32 w1; mov.u32 w1, 1; }",
        "ld.acquire.gpu.global.u32 r, [d]; ld.mmio.relaxed.sys.global.u32 r, [d]; ld.weak.global.ca.u32 r, [d];",
        "ld.gpu.relaxed.global.u32 r, [d]; ld.global.nc.ca.u32 r, [d]; st.weak.wt.global.u32 [d], r;",
        "st.global.f64 [d], 0f3F800000; st.global.f32 [d], 1.5; st.global.b32 [d], 0f3F800000; st.global.b64 [d], 1.5;",
        "atom.relaxed.global.add.u32 r, [d], s; red.release.global.add.u32 [d], s; atom.add.noftz.f16x2 r, [d], s;",
        "fence.gpu; fence.acquire.cta; fence.gpu.sc; fence.mbarrier_init.release.cluster; membar.gl;",
        "bar.sync 15; bar.sync 0, 64; bar.sync r, s; setp.lo.u32 p, r, s; setp.ne.b64 p, d, d;",
        "selp.f32 x, 1.5, y, p; mov.b32 r, 0f3F800000; mov.b64 d, 1.5; ld.local.u32 r, [4]; ld.shared.u32 r, [s+4];",
    };
    char text[1024], message[1024] = "";
    snprintf(text, sizeof text, HEAD("sm_90") ENTRY "%s\nret; }\n", rows[_i]);
    struct ptx_module *module = ptx_load(text, NULL, message, sizeof message);
    ck_assert_msg(module != NULL, "%s", message);
    ptx_free(module);
}
END_TEST

START_TEST(a_module_that_the_assembler_takes_is_taken) {
    static const char *const rows[] = {
        ".version 8.1\n.target sm_90\n.entry f() { ret; }\n",
        ".version 08.1\n.target sm_90, texmode_unified\n.address_size 0x40\n.weak .entry f() { ret; }\n",
        ".version 1.5\n.target sm_12, map_f64_to_f32\n.entry f() { ret; }\n",
        HEAD("sm_90") ".entry f() .maxntid WARP_SZ, 0x2 .maxntid 64 .maxnreg 256 .minnctapersm 1 .minnctapersm 2"
                      " .explicitcluster .maxclusterrank 8 .pragma \"a\", \"b\";\n{ ret; }\n",
        HEAD("sm_90") ".entry f() .explicitcluster .reqnctapercluster 2, 1 .reqntid 65536U, 2\n{ ret; }\n",
        HEAD("sm_90") ".common .global .u32 a; .weak .shared .u32 b; .visible .const .u32 c = 1; .extern .shared .b8 "
                      "d[];",
    };
    char message[1024] = "";
    struct ptx_module *module = ptx_load(rows[_i], NULL, message, sizeof message);
    ck_assert_msg(module != NULL, "%s", message);
    ptx_free(module);
}
END_TEST

START_TEST(a_malformed_statement_for_sm_90a_is_refused_with_line_and_reason) {
    refused(HEAD("sm_90a") ENTRY, &hopper[_i], "}\n");
}
END_TEST

/* A message that does not fit is cut, and still ends. */
START_TEST(a_short_buffer_holds_the_beginning_of_the_message) {
    char message[16];
    ck_assert_ptr_null(ptx_load(".target sm_90\n", NULL, message, sizeof message));
    ck_assert_str_eq(message, "PTX line 1: `.v");
    ck_assert_ptr_null(ptx_load(".target sm_90\n", NULL, NULL, 0));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_refusals");
    TCase *tcase = tcase_create("PTX");
    tcase_add_loop_test(tcase, a_malformed_module_is_refused_with_line_and_reason, 0, sizeof modules / sizeof *modules);
    tcase_add_loop_test(tcase, a_malformed_directive_is_refused_with_line_and_reason, 0,
                        sizeof directives / sizeof *directives);
    tcase_add_loop_test(tcase, a_malformed_statement_is_refused_with_line_and_reason, 0,
                        sizeof statements / sizeof *statements);
    tcase_add_loop_test(tcase, what_the_assembler_refuses_is_refused_with_line_and_reason, 0,
                        sizeof combinations / sizeof *combinations);
    tcase_add_loop_test(tcase, what_the_assembler_takes_is_taken, 0, 8);
    tcase_add_loop_test(tcase, a_module_that_the_assembler_takes_is_taken, 0, 6);
    tcase_add_loop_test(tcase, a_malformed_statement_for_sm_90a_is_refused_with_line_and_reason, 0,
                        sizeof hopper / sizeof *hopper);
    tcase_add_test(tcase, a_short_buffer_holds_the_beginning_of_the_message);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
