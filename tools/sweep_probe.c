/* sweep_probe.c - what a sweep runs on and with: device, toolchain, version and templates. In a child, so that the
 * sweep's own process never holds a device: what it forks later starts from nothing.
 * May call: include/dcpk. Must not: run a kernel. */
#include <tools/sweep.h>
#include <tools/json_text.h>

#include <dcpk/runtime.h>

#include <string.h>
#include <sys/wait.h>

struct probe {
    const struct command_line *line;
    const struct sweep_request *request;
};

static int failed(const struct probe *probe, dcpk_gen *gen, const dcpk_error *error, bool device) {
    complain_error(error);
    bool missing = device && (error->code == DCPK_E_NOT_FOUND || error->code == DCPK_E_DRIVER);
    enum exit_code code = missing ? EXIT_MISSING : exit_of_error(gen, error);
    (void)probe;
    dcpk_gen_close(gen);
    return (int)code;
}

/* "templates DIGEST" -> member "templates". */
static void add_lines(json_t *to, char *lines) {
    char *rest = NULL;
    for (char *word = strtok_r(lines, "\n", &rest); word != NULL; word = strtok_r(NULL, "\n", &rest)) {
        char *blank = strchr(word, ' ');
        if (blank == NULL) continue;
        *blank = '\0';
        json_object_set_new(to, word, json_text(blank + 1));
    }
}

static int probe_body(void *self, FILE *out) {
    const struct probe *probe = self;
    const struct device_choice *choice = &probe->request->choice;
    dcpk_device *device = NULL;
    dcpk_gen *gen = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_device_options wanted = {.size = sizeof wanted, .kind = choice->device, .pdl = -1, .multicast = -1};
    dcpk_device_info info = {.size = sizeof info};
    if (dcpk_device_open(&wanted, &device, &error) != DCPK_OK || dcpk_device_get_info(device, &info, &error) != DCPK_OK)
        return failed(probe, NULL, &error, true);
    dcpk_device_close(device);
    enum exit_code code = open_gen(probe->request->templates, &gen);
    if (code != EXIT_DONE) return (int)code;
    const char *toolchain = NULL;
    dcpk_text lines = {NULL, 0};
    if (dcpk_gen_toolchain(gen, &toolchain, &error) != DCPK_OK || dcpk_gen_identity(gen, &lines, &error) != DCPK_OK) {
        if (error.code == DCPK_E_TOOLCHAIN) {
            complain_error(&error);
            dcpk_gen_close(gen);
            return EXIT_MISSING;
        }
        return failed(probe, gen, &error, false);
    }
    json_t *made = must(json_object());
    add_lines(made, lines.data);
    json_t *found = must(json_pack("{s:{s:s s:o s:i s:i s:i} s:o s:o}", "device", "kind", info.kind, "name",
                                   json_text(info.name), "sms", info.sms, "count", info.count, "driver",
                                   info.driver_version, "toolchain", json_text(toolchain), "made_by", made));
    char *text = must(json_dumps(found, JSON_COMPACT));
    fprintf(out, "%s\n", text);
    dcpk_text_free(&lines);
    dcpk_gen_close(gen);
    return EXIT_DONE;
}

json_t *sweep_probe(const struct command_line *line, struct sweep_request *request, enum exit_code *code) {
    struct probe probe = {line, request};
    struct sweep_child child;
    volatile int stop = 0;
    *code = EXIT_WORK;
    if (!sweep_child_start(line, &child, probe_body, &probe, -1, 120)) return NULL;
    sweep_child_wait(&child, 1, &stop, 0);
    json_t *found = sweep_child_last(&child), *device = json_object_get(found, "device");
    if (device == NULL) {
        char text[128];
        sweep_child_end(&child, text, sizeof text);
        bool told = !child.timed_out && WIFEXITED(child.status) && WEXITSTATUS(child.status) != 0;
        if (told)
            *code = (enum exit_code)WEXITSTATUS(child.status);
        else
            complain(line, "looking at device and toolchain: %s", text);
    } else {
        *code = EXIT_DONE;
        request->cuda = strcmp(json_string_value(json_object_get(device, "kind")), "cuda") == 0;
        request->devices = (int32_t)json_integer_value(json_object_get(device, "count"));
        int32_t sms = (int32_t)json_integer_value(json_object_get(device, "sms"));
        request->sms = request->cuda ? sms : DCPK_UNSET;
        const struct cpu_variable *asked = &request->choice.variables[CPU_SMS];
        if (!request->cuda && asked->given) request->sms = (int32_t)asked->value;
    }
    sweep_child_free(&child);
    return found;
}
