/* own_template.h - the CUDA C++ template "own" that suites vary, and what becomes of it. Goes with compilers.h. */
#ifndef TESTS_OWN_TEMPLATE_H
#define TESTS_OWN_TEMPLATE_H

#include "tests/compilers.h"

/* Writes own.cu.lua and the library that it includes. `lines` begin at line 7 of own.cu.lua; `helper` (NULL: one of its
 * own) is line 4 of lib/helper.lua, which own.cu.lua:3 has written by lib/helper.lua:7. */
void put_own(const char *helper, const char *lines);
#define STORE "|   ((float *)to)[threadIdx.x] = three(pitch) + shift + eps + $(spec.batch);\n"

/* compilers_setup, and then the real NVRTC and nvJitLink. */
void real_compilers_setup(void);

dcpk_status try_own(dcpk_gen *gen, const char *keys, dcpk_image **image, dcpk_build_report *report, dcpk_error *error);
dcpk_image *build_own(dcpk_gen *gen, const char *keys, dcpk_build_report *report); /* asserts success */
/* "own batch=2" is refused by `toolchain`'s build, blamed on file:line (line 0: not asked), the message holds `text`,
 * and nothing is cached. */
void own_refused(const char *toolchain, dcpk_status status, const char *file, unsigned line, const char *text);
char *own_ptx(const char *keys); /* malloc */

#endif
