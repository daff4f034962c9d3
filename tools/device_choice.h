/* device_choice.h - which device a command runs layers on, and how the CPU device is set up: what --device and
 * --schedule and the environment say. */
#ifndef DCPK_TOOLS_DEVICE_CHOICE_H
#define DCPK_TOOLS_DEVICE_CHOICE_H

#include "command.h"

#include <dcpk/cpu.h>

struct device_choice {
    const char *device; /* as in dcpk_device_options.kind */
    bool for_cpu;       /* the run may come to the CPU device: its variables count */
    struct cpu_variable variables[CPU_VARIABLES];
    dcpkcpu_options cpu; /* whole after device_choice_shape */
};

/* The values of the options, NULL where not given; fallback: the device when nothing says one. seed: what --seed says,
 * seeded: whether it was given. */
enum exit_code device_choice_read(const struct command_line *line, const char *device, const char *schedule,
                                  const char *fallback, bool seeded, uint64_t seed, struct device_choice *choice);
/* Devices for dcp ranks, of this architecture ("" or NULL: the default). EXIT_USAGE when DCPK_CPU_DEVICES has too few.
 */
enum exit_code device_choice_shape(const struct command_line *line, int32_t dcp, const char *arch,
                                   struct device_choice *choice);
/* Multiprocessors to plan for where no word says so: the device's; DCPK_UNSET: as the architecture table has it. */
int32_t device_choice_sms(const struct device_choice *choice);
const char *device_choice_schedule(const struct device_choice *choice); /* "fair", "random" */
/* Nothing to run on is another exit code than work that failed. */
enum exit_code device_choice_exit(dcpk_gen *gen, const struct device_choice *choice, const dcpk_error *error);
/* The template folders of such a command: the usual ones, then the kernels that checks need. */
void device_choice_templates(char *path, size_t capacity);

#endif
