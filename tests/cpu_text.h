/* cpu_text.h - comments, bytes, pragmas and what says where code comes from, malformed and well formed: for
 * test_cpu_declarations, which asks the CPU device's reader about them, and test_declarations, which asks the
 * assembler. Behind the lines that cpu_declarations.h puts before its rows. */
#ifndef TESTS_CPU_TEXT_H
#define TESTS_CPU_TEXT_H

#include "tests/refused.h"

static const struct refusal malformed_text[] = {
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
    {".section .debug_x { .b8 1,\n.b8 2\n", "6: a number is expected before `.b8`"},
    {"@@ DWARF .byte 0x5\n", "5: a directive is expected before `@`"},
    {"@@foo\n", "5: a directive is expected before `@`"},
    {".file 1 \"a.c\"\n.file 1 \"b.c\"\n", "6: .file 1 is there already"},
    {".file 1 \"a.c\"\n.file 2 \"a.c\" .file 0x1 \"a.c\"\n", "6: .file 1 is there already"},
    {".file 4294967296 \"a.c\"\n", "5: .file 4294967296: 0 to 4294967295"},
    {".entry q() { .loc 1 4294967296 1\n ret; }\n", "5: .loc 4294967296: 0 to 4294967295"},
    {".section .s { info: .b8 1 }\n.entry q() { .loc 1 2 3, function_name info, inlined_at 1 1 1\n ret; }\n",
     "6: inlined_at 1 1 1: no .loc before it says that"},
    {".section .s { info: .b8 1 }\n.entry q() { .loc 1 2 3, function_name info, inlined_at 1 2 3\n ret; }\n",
     "6: inlined_at 1 2 3: no .loc before it says that"},
    {".section .s { info: .b8 1 }\n.entry q() { .loc 1 1 1\n.loc 1 2 3, function_name info, inlined_at 1 1 2\n.loc 1 1 "
     "2\n ret; }\n",
     "7: inlined_at 1 1 2: no .loc before it says that"},
    {".entry q() { .loc 1 1 1\n.loc 1 2 3, function_name info, inlined_at 1 1 1\n ret; }\n",
     "6: function_name `info` is the label of no section"},
    {".entry q() { .loc 1 1 1\n.loc 1 2 3, function_name g, inlined_at 1 1 1\n ret; }\n",
     "6: function_name `g` is the label of no section"},
    {".file 1.global .u32 x;\n", "5: malformed number: `1.g`"},
    {".entry q() { .loc 1 2 3.pragma \"x\"; ret; }\n", "5: malformed number: `3.p`"},
    {".section .s { .b8 1.b8 2 }\n", "5: malformed number: `1.b`"},
    {".section .s { .b8 256 }\n", "5: 256 has no room in .b8"},
    {".section .s { .b8 -129 }\n", "5: -129 has no room in .b8"},
    {".section .s { .b8 -0 }\n", "5: -0 has no room in .b8"},
    {".section .s { .b16 65536 }\n", "5: 65536 has no room in .b16"},
    {".section .s { .b16 -32769 }\n", "5: -32769 has no room in .b16"},
    {".section .s { .b32 -2147483649 }\n", "5: -2147483649 has no room in .b32"},
    {".section .s { .b64 -9223372036854775808 }\n", "5: -9223372036854775808 has no room in .b64"},
    {".section .s { .b8 WARP_SZ }\n", "5: a number, a name or a section is expected before `WARP_SZ`"},
    {".section .s { .b8 g }\n", "5: the address `g` has no room in .b8"},
    {".section .s { L: .b8 1 M: .b16 M-L }\n", "5: the address `M` has no room in .b16"},
    {".section .s { .b8 .s }\n", "5: the address `s` has no room in .b8"},
    {".section .s { L: .b8 1 L: .b8 2 }\n", "5: label `L` is in a section already"},
    {".section .s { L: .b8 1 }\n.section .t { L: .b8 2 }\n", "6: label `L` is in a section already"},
    {".section .s { _: .b8 1 }\n", "5: a label is expected before `_`"},
    {".section .s { .b32 1, g }\n", "5: a number is expected before `g`"},
    {".section .s { .b64 g, 1 }\n", "5: a label, `.b8`, `.b16`, `.b32`, `.b64` or `}` is expected before `,`"},
    {".section .s { .b64 g-g, 1 }\n", "5: a label, `.b8`, `.b16`, `.b32`, `.b64` or `}` is expected before `,`"},
    {".section .s { .b32 .global }\n", "5: a number, a name or a section is expected before `.global`"},
    {".section .b8 { .b32 1 }\n", "5: the name of a section is expected before `.b8`"},
    {".section ._s { .b32 1 }\n", "5: the name of a section is expected before `._s`"},
    /* pragmas */
    {".pragma \"foo\";\n", "5: `.pragma \"foo\"`: unknown at module level"},
    {".pragma \"nounroll\",\n\"foo\";\n", "6: `.pragma \"foo\"`: unknown at module level"},
    {".pragma \"nounroll \";\n", "5: `.pragma \"nounroll \"`: unknown at module level"},
    {".pragma \"\";\n", "5: `.pragma \"\"`: unknown at module level"},
    {".pragma \"used_bytes_mask 0xff\";\n", "5: pragma `used_bytes_mask` stands in bodies alone"},
    {".entry q() .pragma \"frequency 5\"; { ret; }\n", "5: pragma `frequency` stands in bodies alone"},
    {".entry q() { .pragma \"enable_smem_spilling\"; ret; }\n",
     "5: pragma `enable_smem_spilling` came with .version 8.7"},
    {".entry q() { .pragma \"frequency 5\"; ret; }\n", "5: pragma `frequency` came with .version 9.0"},
    {".entry q() { .pragma \"used_bytes_mask\"; ret; }\n",
     "5: pragma `used_bytes_mask` has a number behind it, not ``"},
    {".entry q() { .pragma \"used_bytes_mask 0xff \"; ret; }\n",
     "5: pragma `used_bytes_mask` has a number behind it, not `0xff `"},
    {".entry q() { .pragma \"used_bytes_mask 0b1\"; ret; }\n",
     "5: pragma `used_bytes_mask` has a number behind it, not `0b1`"},
    /* bytes and lines */
    {"// \303\251\n", "5: byte 0xC3 is not PTX: only ASCII is"},
    {"/* \351 */\n", "5: byte 0xE9 is not PTX: only ASCII is"},
    {".file 1 \"\303\251\"\n", "5: byte 0xC3 is not PTX: only ASCII is"},
    {"\v\n", "5: byte 0x0B is not PTX: only ASCII is"},
    {"/* /* */ */\n", "5: a directive is expected before `*`"},
    {"# 5\n", "5: a directive is expected before `#`"},
    {"#line 5\n", "5: a directive is expected before `#`"},
    {"# 5 \"a.c\" 10\n", "5: a directive is expected before `#`"},
    {"# 5 \"a.c\" // from\n", "5: a directive is expected before `#`"},
    {"# 5U \"a.c\"\n", "5: a directive is expected before `#`"},
};

static const char *const taken_text[] = {
    ".file 1 \"a.c\", 1700000000, 12 .file 2 \"b.c\" .file 4294967295 \"a.c\", 5 .file 3U \"two\nlines\"\n"
    ".entry a() { .loc 1 1 1\n.loc 1 2 3, function_name $L, inlined_at 1 1 1\n.loc 7 0 4294967295 ret; }\n"
    ".func d();\n.func b() { .loc 1 5 5\n.loc 1 6 6, function_name M+18446744073709551615, inlined_at 1 2 3\nret; }\n"
    ".entry c() { .loc 1 8 8, function_name M, inlined_at 1 5 5\ncall d; ret; }\n"
    ".func d() { .loc 1 9 9, function_name M, inlined_at 1 8 8\nret; }\n"
    ".section .debug_x { $L: .b8 1 M: }",
    ".file 0 \"\" .file 5 \"a.c\", 1, 18446744073709551615", /* with a .loc, ptxas ends at a name without letters */
    ".section .debug_x { } .section .debug_y { L: .b8 1, -1, 0x10 .b8 2\nM: .b32 M-L .b32 .debug_x .b32 .debug_x+4 "
    ".b64 g+4 } .section .debug_y{.b8 255, -128, 0377U .b16 65535, -32768 .b32 4294967296, -2147483648 .b32 nobody "
    ".b64 18446744073709551615, -9223372036854775807 .b64 nobody-nowhere .b64 %r+18446744073709551615 g: N: .b8 - 1 }",
    ".pragma \"nounroll\"; .pragma \"nounroll\", \"nounroll\"; .entry a() .pragma \"foo\", \"\"; .maxntid 1 { "
    ".pragma \"foo\"; .pragma \"nounroll foo\", \"used_bytes_mask 0xff\"; .pragma \"used_bytes_mask\t-077\"; ret; }",
    "// \x01\x1b\x7f /* \n/* // */ /*/ */ /**/ \x1a \f\r\n# 5 \"a.c\"\n.global .u32 #7 \"b.c\" 1 3 \n "
    "q;\n#line 7 \"c\"\n#\t08\t\"\"\n",
};

#endif
