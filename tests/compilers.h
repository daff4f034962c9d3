/* compilers.h - fixtures of the suites about compilers that are libraries: the fakes' controls, generators that use
 * them, and whether the real ones are here. Goes with building.h. */
#ifndef TESTS_COMPILERS_H
#define TESTS_COMPILERS_H

#include "tests/building.h"
#include "tests/fake_compiler.h"
#include "tests/fake_driver.h"

#include <check.h>

/* The fakes of libfakecuda.so, reset, with a cubin of "tiny" that passes every check. Called by compilers_setup. */
extern struct fake_compiler *fake;
extern struct fake_driver *driver;
/* building_setup, and the environment leads to no real compiler: DCPK_NVJITLINK, DCPK_NVRTC and DCPK_LIBCUDA name the
 * fakes. */
void compilers_setup(void);
void compilers_teardown(void);

/* A generator with this toolchain over the folders of building.h. timeout_ms 0: the default. */
dcpk_gen *open_with(const char *toolchain, uint32_t timeout_ms);
/* Building "tiny" fails so, leaves nothing in the cache, and the message holds `text`. *error is the message. */
void tiny_fails(const char *toolchain, dcpk_status status, const char *text, dcpk_error *error);

/* The number of the first PTX line of "tiny batch=1" that holds `text`. */
unsigned ptx_line_with(const char *text);

/* Where the real library is searched as dcpk does. False is said once, on stderr, with what is skipped. */
bool have_nvrtc(const char *skipped);
bool have_nvjitlink(const char *skipped);
bool have_driver(const char *skipped); /* with a device */

#endif
