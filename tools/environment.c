/* environment.c - the environment variables that the command answers for: the log's level and the CPU device.
 *
 * Checks them before anybody acts on them: a wrong one is named with its value and what it may be. The libraries read
 * and check their own. */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *variable(const char *name) {
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

int environment_log_level(void) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    const char *wanted = variable("DCPK_LOG");
    if (wanted == NULL) return DCPK_LOG_WARNING;
    for (int i = 0; i < 4; i++)
        if (strcmp(wanted, names[i]) == 0) return i;
    return -1;
}

bool environment_log_read(char why[ENVIRONMENT_WHY]) {
    if (environment_log_level() >= 0) return true;
    snprintf(why, ENVIRONMENT_WHY, "DCPK_LOG=%s: error, warning, info or debug", variable("DCPK_LOG"));
    return false;
}

enum exit_code environment_log(const struct command_line *line) {
    char why[ENVIRONMENT_WHY];
    return environment_log_read(why) ? EXIT_DONE : usage_error(line, "%s", why);
}

/* 9.0: one or two digits from 1 on, a point, one digit. */
static bool is_capability(const char *text) {
    size_t digits = strspn(text, "0123456789");
    return (digits == 1 || digits == 2) && atoi(text) >= 1 && text[digits] == '.' &&
           strspn(text + digits + 1, "0123456789") == 1 && text[digits + 2] == '\0';
}

bool environment_cpu_read(struct cpu_variable values[CPU_VARIABLES], char why[ENVIRONMENT_WHY]) {
    static const struct {
        const char *name;
        uint64_t least, most;
    } rows[CPU_VARIABLES] = {[CPU_SEED] = {"DCPK_CPU_SEED", 0, UINT64_MAX},
                             [CPU_DEVICES] = {"DCPK_CPU_DEVICES", 1, 32},
                             [CPU_SMS] = {"DCPK_CPU_SMS", 1, 1024},
                             [CPU_CHECK] = {"DCPK_CPU_CHECK", 0, 1}};
    for (size_t i = 0; i < CPU_VARIABLES; i++) {
        const char *text = variable(rows[i].name);
        values[i] = (struct cpu_variable){.given = text != NULL};
        if (text == NULL || (word_number(text, rows[i].most, &values[i].value) && values[i].value >= rows[i].least))
            continue;
        snprintf(why, ENVIRONMENT_WHY, rows[i].most == 1 ? "%s=%s: %llu or %llu" : "%s=%s: a number from %llu to %llu",
                 rows[i].name, text, (unsigned long long)rows[i].least, (unsigned long long)rows[i].most);
        return false;
    }
    const char *capability = variable("DCPK_CPU_CAPABILITY");
    if (capability == NULL || is_capability(capability)) return true;
    snprintf(why, ENVIRONMENT_WHY, "DCPK_CPU_CAPABILITY=%s: a compute capability such as 9.0", capability);
    return false;
}

enum exit_code environment_cpu(const struct command_line *line, struct cpu_variable values[CPU_VARIABLES]) {
    char why[ENVIRONMENT_WHY];
    return environment_cpu_read(values, why) ? EXIT_DONE : usage_error(line, "%s", why);
}
