/* device_choice.c - see device_choice.h. */
#include "device_choice.h"

#include <dcpk/runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum exit_code device_choice_read(const struct command_line *line, const char *device, const char *schedule,
                                  const char *fallback, bool seeded, uint64_t seed, struct device_choice *choice) {
    const char *from_environment = getenv("DCPK_DEVICE");
    bool named = from_environment != NULL && from_environment[0] != '\0';
    const char *kind = device != NULL ? device : named ? from_environment : fallback;
    choice->device = device == NULL && named ? NULL : kind; /* NULL: the library reads and names the variable */
    choice->for_cpu = strncmp(kind, "cuda", 4) != 0;
    enum exit_code code = choice->for_cpu ? environment_cpu(line, choice->variables) : EXIT_DONE;
    if (code != EXIT_DONE) return code;
    const struct cpu_variable *asked = &choice->variables[CPU_SEED]; /* as in any program: asks for its adversary */
    const char *order = schedule != NULL ? schedule : asked->given ? "random" : "fair";
    if (strcmp(order, "fair") != 0 && strcmp(order, "random") != 0)
        return usage_error(line, "--schedule %s: fair or random", order);
    choice->cpu.schedule = strcmp(order, "random") == 0 ? DCPKCPU_RANDOM : DCPKCPU_FAIR;
    choice->cpu.seed = asked->given && !seeded ? asked->value : seed;
    return EXIT_DONE;
}

enum exit_code device_choice_shape(const struct command_line *line, int32_t dcp, const char *arch,
                                   struct device_choice *choice) {
    dcpk_arch_info row = {.size = sizeof row};
    const struct cpu_variable *devices = &choice->variables[CPU_DEVICES], *sms = &choice->variables[CPU_SMS];
    if (choice->for_cpu && devices->given && devices->value < (uint64_t)dcp)
        return usage_error(line, "DCPK_CPU_DEVICES=%d: dcp=%d is that many ranks with a device each; raise or unset it",
                           (int)devices->value, dcp);
    choice->cpu = (dcpkcpu_options){.size = sizeof choice->cpu,
                                    .devices = dcp > 8 ? dcp : 8,
                                    .sms = 132,
                                    .major = 9,
                                    .multicast = 1,
                                    .schedule = choice->cpu.schedule,
                                    .seed = choice->cpu.seed,
                                    .store_delay = 200,
                                    .livelock_rounds = 200000};
    if (arch != NULL && arch[0] != '\0' && dcpk_arch_find(arch, &row)) {
        choice->cpu.major = row.major;
        choice->cpu.minor = row.minor;
        choice->cpu.sms = row.sms;
    }
    if (devices->given) choice->cpu.devices = (int32_t)devices->value;
    if (sms->given) choice->cpu.sms = (int32_t)sms->value;
    return EXIT_DONE;
}

int32_t device_choice_sms(const struct device_choice *choice) {
    const struct cpu_variable *sms = &choice->variables[CPU_SMS];
    if (choice->for_cpu) return sms->given ? (int32_t)sms->value : DCPK_UNSET;
    dcpk_device *probe = NULL;
    dcpk_device_info info = {.size = sizeof info};
    dcpk_device_options wanted = {.size = sizeof wanted, .kind = choice->device, .pdl = -1, .multicast = -1};
    bool known =
        dcpk_device_open(&wanted, &probe, NULL) == DCPK_OK && dcpk_device_get_info(probe, &info, NULL) == DCPK_OK;
    dcpk_device_close(probe);
    return known ? info.sms : DCPK_UNSET;
}

const char *device_choice_schedule(const struct device_choice *choice) {
    return choice->cpu.schedule == DCPKCPU_RANDOM ? "random" : "fair";
}

enum exit_code device_choice_exit(dcpk_gen *gen, const struct device_choice *choice, const dcpk_error *error) {
    dcpk_device *probe = NULL;
    dcpk_device_options wanted = {.size = sizeof wanted, .kind = choice->device, .pdl = -1, .multicast = -1};
    dcpk_status status = error->code == DCPK_E_TOOLCHAIN ? DCPK_OK : dcpk_device_open(&wanted, &probe, NULL);
    dcpk_device_close(probe);
    return status == DCPK_E_NOT_FOUND || status == DCPK_E_DRIVER ? EXIT_MISSING : exit_of_error(gen, error);
}

void device_choice_templates(char *path, size_t capacity) {
    char built_in[4096];
    dcpk_templates_path(built_in, sizeof built_in);
    const char *given = getenv("DCPK_TEMPLATE_PATH");
    bool own = given != NULL && given[0] != '\0';
    snprintf(path, capacity, "%s:%s/checks", own ? given : built_in, built_in);
}
