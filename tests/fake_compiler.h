/* fake_compiler.h - the compilers that are libraries, for tests (libfakecuda.so exports cuLink*, nvJitLink* and nvrtc*,
 * too): they compile nothing, but record what they are given, give back what they are told, fail and hang where told.
 * One state for the process, reached by dlsym "fake_compiler". Texts are the test's and live as long as it needs. */
#ifndef DCPK_TESTS_FAKE_COMPILER_H
#define DCPK_TESTS_FAKE_COMPILER_H

#include <stddef.h>

struct fake_compiler {
    /* settings */
    const void *cubin; /* what linking gives */
    size_t cubin_bytes;
    const char *ptx; /* what NVRTC gives */
    const char *log;
    char fail_step[48]; /* "cuLinkAddData_v2", "nvJitLinkAddData", "nvrtcCompileProgram" ... */
    int fail_with;
    int hang_ms;         /* of adding or compiling */
    unsigned version[2]; /* of nvJitLink; 0: 13.0 */
    /* what happened */
    char text[1 << 16]; /* the last text that was given, NUL-terminated */
    size_t bytes;       /* as its length was said */
    char options[1024]; /* blanks between them; of cuLink: option numbers */
    char called[64];    /* name of the entry point that made the last link or program */
    long made, destroyed;
};

struct fake_compiler *fake_compiler(void);

#endif
