/* doctor_environment.c - the variables that are set, and whether each value is one that its reader understands.
 *
 * The names are environment.def's; the domains are those of the readers, who are asked. A value that is not understood
 * is reported and taken out of this process's environment. */
#include "doctor.h"
#include "json_text.h"

#include <stdio.h>
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

/* ---- the variables' own readers ---- */

/* Each says what it refuses as "NAME=VALUE: what it may be"; true: nothing, or nothing more. */
static bool ask_gen(struct doctor *doctor, char *why, size_t capacity) {
    dcpk_gen *gen = NULL;
    dcpk_error error;
    (void)doctor;
    dcpk_error_init(&error);
    dcpk_gen_options options = {.size = sizeof options};
    dcpk_status status = dcpk_gen_open(&options, &gen, &error);
    dcpk_gen_close(gen);
    snprintf(why, capacity, "%s", error.text);
    return status == DCPK_OK;
}

static bool ask_runtime(struct doctor *doctor, char *why, size_t capacity) {
    dcpk_error error;
    dcpk_error_init(&error);
    doctor->words = (dcpk_device_words){.size = sizeof doctor->words, .kind = "auto"};
    dcpk_status status = dcpk_device_words_read(NULL, &doctor->words, &error);
    snprintf(why, capacity, "%s", error.text);
    return status == DCPK_OK;
}

static bool ask_command(struct doctor *doctor, char *why, size_t capacity) {
    struct cpu_variable values[CPU_VARIABLES];
    char text[ENVIRONMENT_WHY] = "";
    (void)doctor;
    bool good = environment_log_read(text) && environment_cpu_read(values, text);
    snprintf(why, capacity, "%s", text);
    return good;
}

/* Those that their readers take as they are, or the driver reads. */
static bool ask_words(struct doctor *doctor, char *why, size_t capacity) {
    static const struct {
        const char *name, *words;
        uint64_t least, most;
        const char *allowed;
    } rows[] = {
        {"DCPK_PDL", "0 1", 0, 0, "1 or 0"},
        {"DCPK_MULTICAST", "0 1", 0, 0, "1 or 0"},
        {"CUDA_LAUNCH_BLOCKING", "0 1", 0, 0, "1 or 0; anything else counts as 1"},
        {"CUDA_DEVICE_MAX_CONNECTIONS", NULL, 1, 32, "a number from 1 to 32"},
    };
    uint64_t value;
    (void)doctor;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text = getenv(rows[i].name);
        if (text == NULL || text[0] == '\0') continue;
        if (rows[i].words != NULL ? word_of(rows[i].words, text)
                                  : word_number(text, rows[i].most, &value) && value >= rows[i].least)
            continue;
        snprintf(why, capacity, "%s=%s: %s", rows[i].name, text, rows[i].allowed);
        return false;
    }
    return true;
}

/* The row of the variable that a refusal begins with, NULL: it is about something else. */
static json_t *row_of(json_t *list, const char *why) {
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row) {
        const char *name = json_string_value(json_object_get(row, "name"));
        if (strncmp(why, name, strlen(name)) == 0 && why[strlen(name)] == '=') return row;
    }
    return NULL;
}

/* Asks until nothing is refused any more: what is counts as unset. */
static void ask(struct doctor *doctor, json_t *list, bool (*reader)(struct doctor *, char *, size_t)) {
    char why[sizeof((dcpk_error *)NULL)->text];
    for (size_t i = 0; i < KNOWN && !reader(doctor, why, sizeof why); i++) {
        json_t *row = row_of(list, why);
        if (row == NULL) return;
        const char *name = json_string_value(json_object_get(row, "name")), *text = getenv(name);
        size_t skip = strlen(name) + 1 + (text != NULL ? strlen(text) : 0);
        bool whole = skip < strlen(why) && strncmp(why + skip, ": ", 2) == 0; /* not so where a text was cut */
        doctor_problem(doctor, "%s=%s is not understood: %s", name, text != NULL ? text : "",
                       whole ? why + skip + 2 : why);
        json_object_set_new(row, "understood", json_false());
        unsetenv(name);
    }
}

/* ---- the list ---- */

static void look_at(struct doctor *doctor, json_t *list, const char *name, const char *meaning) {
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0') return;
    json_t *row = must(
        json_pack("{s:s, s:o, s:s, s:b}", "name", name, "value", json_text(text), "meaning", meaning, "understood", 1));
    json_array_append_new(list, row);
    if (strcmp(name, "CUDA_LAUNCH_BLOCKING") == 0) doctor->blocking = strcmp(text, "0") != 0;
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
    for (size_t i = 0; i < KNOWN; i++)
        look_at(doctor, list, known[i].name, known[i].meaning);
    look_at(doctor, list, "CUDA_VISIBLE_DEVICES", "the driver's own: which GPUs it shows");
    ask(doctor, list, ask_command);
    ask(doctor, list, ask_gen);
    ask(doctor, list, ask_runtime);
    ask(doctor, list, ask_words);
    const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    doctor->connections = connections != NULL ? atoi(connections) : 0;
    doctor->jit = getenv("DCPK_JIT");
    if (doctor->jit == NULL || doctor->jit[0] == '\0') doctor->jit = "auto";
    look_for_slips(doctor);
    json_object_set_new(doctor->whole, "environment", list);
}
