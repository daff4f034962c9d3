/* doctor_machine.h - fixtures of the suites of dcpk doctor: machines that the fake driver plays.
 *
 * The fake is the command's libcuda.so.1 (LD_LIBRARY_PATH); FAKE_DRIVER says what machine it is. Its strict form ends a
 * program that does more than look. */
#ifndef TESTS_DOCTOR_MACHINE_H
#define TESTS_DOCTOR_MACHINE_H

#include "tests/shell.h"

#define SERVE "doctor --model kimi-k3 --tp 8"
/* No path to any compiler: the libraries' names lead nowhere. */
#define NO_TOOLCHAIN "DCPK_PTXAS=/nonexistent/ptxas DCPK_LIBCUDA=/nonexistent/d "

void doctor_machine_setup(void);
/* Whether the doctor's own answer says that builds have a compiler: elsewhere its codes are 3. */
bool doctor_machine_builds(void);
/* Element `index` of the list. */
const json_t *doctor_machine_at(const json_t *value, const char *list, size_t index);

#endif
