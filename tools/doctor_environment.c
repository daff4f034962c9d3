/* doctor_environment.c - the variables that are set, and whether each value is one that its reader understands.
 *
 * The names are environment.def's; the domains are this file's table. A value that is not understood is reported and
 * taken out of this process's environment. */
#include "doctor.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *meaning;
} known[] = {
#define V(name, dflt, reader, doc) {#name, doc},
#include <dcpk/environment.def>
#undef V
};
enum { KNOWN = sizeof known / sizeof known[0] };

static bool word_of(const char *list, const char *text) {
    size_t length = strlen(text);
    for (const char *at = list; *at != '\0'; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == length && strncmp(at, text, length) == 0) return true;
    return false;
}

/* "256", "64M", "2G": a number, and K, M, G or T of bytes. */
static bool size_of(const char *text) {
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits < 16 && (text[digits] == '\0' || (strchr("KMGT", text[digits]) && !text[digits + 1]));
}

/* auto, cpu or cuda, each with :LIST of device numbers. */
static bool device_of(const char *text, struct doctor *doctor) {
    static const char *const kinds[] = {"auto", "cpu", "cuda"};
    size_t length = strcspn(text, ":");
    const char *kind = NULL;
    for (size_t i = 0; i < 3; i++)
        if (strlen(kinds[i]) == length && strncmp(kinds[i], text, length) == 0) kind = kinds[i];
    if (kind == NULL) return false;
    doctor->list_count = 0;
    for (const char *at = text + length; *at != '\0';) {
        char *end;
        if (!isdigit((unsigned char)at[1]) || doctor->list_count == DOCTOR_DEVICES) return false;
        long number = strtol(at + 1, &end, 10);
        if (number > 4095 || (*end != ',' && *end != '\0')) return false;
        doctor->list[doctor->list_count++] = (int32_t)number;
        at = end;
    }
    doctor->kind = kind;
    return true;
}

/* What the value may be, when it is none of that; NULL when it is understood. */
static const char *refuse(const char *name, const char *text, struct doctor *doctor) {
    static const struct {
        const char *name, *words;
        uint64_t least, most;
        const char *allowed;
    } rows[] = {
        {"DCPK_TOOLCHAIN", "ptxas nvjitlink driver auto", 0, 0, "ptxas, nvjitlink, driver or auto"},
        {"DCPK_LOCK_TIMEOUT", NULL, 0, 86400, "a whole number of seconds, 0 to 86400"},
        {"DCPK_CACHE_TRUST_UID", NULL, 0, UINT32_MAX, "a user's number"},
        {"DCPK_JIT", "auto never force", 0, 0, "auto, never or force"},
        {"DCPK_PDL", "0 1", 0, 0, "1 or 0"},
        {"DCPK_MULTICAST", "0 1", 0, 0, "1 or 0"},
        {"DCPK_CPU_SEED", NULL, 0, UINT64_MAX, "a number"},
        {"DCPK_CPU_DEVICES", NULL, 1, 32, "a number from 1 to 32"},
        {"DCPK_CPU_SMS", NULL, 1, 1024, "a number from 1 to 1024"},
        {"DCPK_LOG", "error warning info debug", 0, 0, "error, warning, info or debug"},
        {"CUDA_LAUNCH_BLOCKING", "0 1", 0, 0, "1 or 0; anything else counts as 1"},
        {"CUDA_DEVICE_MAX_CONNECTIONS", NULL, 1, 32, "a number from 1 to 32"},
    };
    uint64_t value;
    if (strcmp(name, "DCPK_DEVICE") == 0)
        return device_of(text, doctor) ? NULL : "auto, cpu or cuda, each with :LIST of device numbers (cuda:0,2)";
    if (strcmp(name, "DCPK_CACHE_MAX") == 0) return size_of(text) ? NULL : "bytes, or a number with K, M, G or T (2G)";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(name, rows[i].name) != 0) continue;
        bool good = rows[i].words != NULL ? word_of(rows[i].words, text)
                                          : word_number(text, rows[i].most, &value) && value >= rows[i].least;
        return good ? NULL : rows[i].allowed;
    }
    return NULL;
}

static void look_at(struct doctor *doctor, json_t *list, const char *name, const char *meaning) {
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0') return;
    const char *allowed = refuse(name, text, doctor);
    json_t *row = must(json_pack("{s:s, s:s, s:s, s:b}", "name", name, "value", text, "meaning", meaning, "understood",
                                 allowed == NULL));
    json_array_append_new(list, row);
    if (strcmp(name, "CUDA_LAUNCH_BLOCKING") == 0) doctor->blocking = strcmp(text, "0") != 0;
    if (strcmp(name, "CUDA_DEVICE_MAX_CONNECTIONS") == 0 && allowed == NULL) doctor->connections = atoi(text);
    if (allowed == NULL) return;
    doctor_problem(doctor, "%s=%s is not understood: %s", name, text, allowed);
    unsetenv(name);
}

/* DCPK_ names that nobody reads: a slip of the pen is silent otherwise. */
static void look_for_slips(struct doctor *doctor) {
    for (char **at = environ; *at != NULL; at++) {
        size_t length = strcspn(*at, "=");
        bool read = strncmp(*at, "DCPK_", 5) != 0;
        for (size_t i = 0; i < KNOWN && !read; i++)
            read = strlen(known[i].name) == length && strncmp(known[i].name, *at, length) == 0;
        if (!read)
            doctor_problem(doctor, "%.*s is set, and dcpk reads no such variable ('dcpk ls env' lists them)",
                           (int)length, *at);
    }
}

void doctor_environment(struct doctor *doctor) {
    json_t *list = must(json_array());
    doctor->kind = "auto";
    for (size_t i = 0; i < KNOWN; i++)
        look_at(doctor, list, known[i].name, known[i].meaning);
    look_at(doctor, list, "CUDA_VISIBLE_DEVICES", "the driver's own: which GPUs it shows");
    look_for_slips(doctor);
    json_object_set_new(doctor->whole, "environment", list);
}
