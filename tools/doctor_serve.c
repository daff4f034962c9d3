/* doctor_serve.c - whether --model at --tp and --dcp can be served here, batch by batch, and if not, why.
 *
 * Specs are planned for the first device that would be used; templates are expanded (their own rules are asked, too),
 * packs are looked into, nothing is built. */
#include "doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct serve {
    struct doctor *doctor;
    const struct doctor_driver *driver;
    const struct doctor_device *device; /* rank 0's, NULL: none */
    json_t *reasons;                    /* why not; each once */
    const char *arch;
};

static void refuse(struct serve *serve, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void refuse(struct serve *serve, const char *format, ...) {
    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) text = NULL;
    va_end(arguments);
    text = must(text);
    size_t i;
    json_t *said;
    bool again = false;
    json_array_foreach(serve->reasons, i, said) again = again || strcmp(json_string_value(said), text) == 0;
    if (!again) json_array_append_new(serve->reasons, must(json_string(text)));
    json_array_foreach(serve->doctor->problems, i, said) again = again || strcmp(json_string_value(said), text) == 0;
    if (!again) doctor_problem(serve->doctor, "%s", text);
    free(text);
}

/* Device number of rank r: of DCPK_DEVICE's list, or r. */
static int32_t device_of_rank(const struct doctor *doctor, int32_t r) {
    return doctor->list_count > 0 ? doctor->list[r] : r;
}

static bool enough_devices(struct serve *serve) {
    const struct doctor *doctor = serve->doctor;
    int32_t dcp = doctor->request.dcp, count = serve->driver->count;
    int32_t here = doctor->list_count > 0 ? doctor->list_count : count;
    if (here < dcp) {
        bool gpu = strcmp(serve->driver->kind, "cuda") == 0;
        refuse(
            serve, "dcp=%d is that many ranks with a device each, and there %s %d (%s%s)%s", dcp,
            here == 1 ? "is" : "are", here, serve->driver->kind, doctor->list_count > 0 ? ", DCPK_DEVICE's list" : "",
            gpu ? "; ranks on one GPU: dcpk run --shares; without GPUs: DCPK_DEVICE=cpu" : "; raise DCPK_CPU_DEVICES");
        return false;
    }
    for (int32_t r = 0; r < dcp; r++)
        if (device_of_rank(doctor, r) >= count) {
            refuse(serve, "DCPK_DEVICE names device %d, and the driver has %d", device_of_rank(doctor, r), count);
            return false;
        }
    return true;
}

static void check_peers(struct serve *serve) {
    const struct doctor *doctor = serve->doctor;
    for (int32_t r = 0; r < doctor->request.dcp; r++)
        for (int32_t k = 0; k < doctor->request.dcp; k++) {
            int32_t from = device_of_rank(doctor, r), to = device_of_rank(doctor, k);
            if (serve->driver->peer[from][to] != 1)
                refuse(serve,
                       "device %d cannot reach device %d's memory (cuDeviceCanAccessPeer), and ranks store into each "
                       "other's boxes; choose devices that can with DCPK_DEVICE=cuda:LIST",
                       from, to);
            if (serve->driver->device[from].major != serve->driver->device[to].major ||
                serve->driver->device[from].minor != serve->driver->device[to].minor)
                refuse(serve, "devices of one group are of one kind; device %d has capability %d.%d, device %d %d.%d",
                       from < to ? from : to, serve->driver->device[from < to ? from : to].major,
                       serve->driver->device[from < to ? from : to].minor, from < to ? to : from,
                       serve->driver->device[from < to ? to : from].major,
                       serve->driver->device[from < to ? to : from].minor);
        }
}

/* Ranks that are threads of one process; a process a rank has no such needs. */
static void check_one_process(struct serve *serve) {
    const struct doctor *doctor = serve->doctor;
    if (doctor->request.dcp == 1 || strcmp(serve->driver->kind, "cuda") != 0) return;
    if (doctor->connections != 32)
        doctor_note(serve->doctor, "ranks of one process are refused without CUDA_DEVICE_MAX_CONNECTIONS=32");
}

/* True when there is a device to plan for. */
static bool choose_device(struct serve *serve) {
    struct doctor *doctor = serve->doctor;
    bool gpus = strcmp(doctor->kind, "cuda") == 0 || (strcmp(doctor->kind, "auto") == 0 && doctor->cuda.found);
    serve->driver = gpus ? &doctor->cuda : &doctor->cpu;
    if (serve->driver->old) refuse(serve, "%s", serve->driver->reason);
    if (!serve->driver->found) {
        refuse(serve, "no %s device: %s", serve->driver->kind, serve->driver->reason);
        return false;
    }
    if (!enough_devices(serve)) return false;
    serve->device = &serve->driver->device[device_of_rank(doctor, 0)];
    serve->arch = serve->device->arch;
    if (serve->arch[0] == '\0') {
        refuse(serve, "no architecture of 'dcpk ls arch' runs on %s (capability %d.%d)", serve->device->name,
               serve->device->major, serve->device->minor);
        return false;
    }
    check_peers(serve);
    check_one_process(serve);
    return true;
}

static bool can_build(const struct doctor *doctor, const char *arch) {
    size_t i;
    json_t *name;
    if (!doctor->assembles) return false;
    json_array_foreach(doctor->archs, i, name) if (strcmp(json_string_value(name), arch) == 0) return true;
    return false;
}

/* Where an image of the spec comes from: "pack", the toolchain's name, or "" after a reason. */
static const char *source_of(struct serve *serve, const dcpk_spec *spec) {
    struct doctor *doctor = serve->doctor;
    const char *jit = getenv("DCPK_JIT");
    bool never = jit != NULL && strcmp(jit, "never") == 0;
    char damage[sizeof((dcpk_error *)NULL)->text];
    if (doctor_packs_have(doctor, spec, damage, sizeof damage)) return "pack";
    if (!never && can_build(doctor, spec->arch)) return "build";
    if (damage[0] != '\0' && (never || !doctor->assembles))
        refuse(serve, "%s, and an entry of a pack is damaged: %s: make the pack anew with 'dcpk aot'",
               never ? "DCPK_JIT=never" : "nothing here assembles PTX", damage);
    else if (never)
        refuse(serve,
               "DCPK_JIT=never, and no pack of DCPK_AOT_PATH has the kernels of arch=%s: make one with 'dcpk aot'",
               spec->arch);
    else if (!doctor->assembles)
        refuse(serve, "nothing here assembles PTX, and no pack has the kernels: install a CUDA toolkit (DCPK_TOOLCHAIN "
                      "chooses), or set DCPK_AOT_PATH to a pack made with 'dcpk aot'");
    else
        refuse(serve, "%s does not build %s: use a newer toolkit, or a pack made with one", doctor->toolchain,
               spec->arch);
    return "";
}

/* The spec of a kernel in a step of this batch; false after a reason. */
static bool plan(struct serve *serve, const char *kernel, int32_t batch, dcpk_spec *spec) {
    const struct doctor_request *request = &serve->doctor->request;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_spec_init(spec, kernel);
    snprintf(spec->arch, sizeof spec->arch, "%s", serve->arch);
    spec->batch = batch;
    spec->sms = serve->device->sms;
    if (dcpk_spec_takes(kernel, "dcp")) spec->dcp = request->dcp;
    if (dcpk_spec_takes(kernel, "q")) spec->q = request->q;
    dcpk_status status = dcpk_gen_model(serve->doctor->gen, request->model, request->tp, spec, &error);
    if (status == DCPK_OK) status = dcpk_spec_resolve(spec, &error);
    dcpk_text ptx = {NULL, 0};
    if (status == DCPK_OK) status = dcpk_gen_expand(serve->doctor->gen, spec, &ptx, &error); /* the template's rules */
    dcpk_text_free(&ptx);
    if (status != DCPK_OK) refuse(serve, "%s", error.text);
    return status == DCPK_OK;
}

static bool add_kernel(struct serve *serve, const dcpk_spec *spec, json_t *kernels) {
    char text[1024];
    const char *source = source_of(serve, spec);
    dcpk_spec_format(spec, text, sizeof text);
    json_array_append_new(kernels,
                          must(json_pack("{s:s, s:s, s:s}", "kernel", spec->kernel, "from", source, "spec", text)));
    return source[0] != '\0';
}

/* The kernels of a whole step: mla_query, query_wait where it does not poll itself, mla_decode, dcp_value. */
static void add_batch(struct serve *serve, int32_t batch, json_t *batches) {
    static const char *const names[] = {"mla_query", "query_wait", "mla_decode", "dcp_value"};
    dcpk_spec spec;
    json_t *kernels = must(json_array()), *row = must(json_pack("{s:i}", "batch", batch));
    bool good = true, waits = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], "query_wait") == 0 && !waits) continue;
        if (!plan(serve, names[i], batch, &spec)) {
            good = false;
            break;
        }
        if (i == 0) {
            waits = serve->doctor->request.dcp > 1 && spec.poll != 1;
            json_object_set_new(row, "poll", json_integer(spec.poll));
        }
        if (strcmp(names[i], "mla_decode") == 0)
            json_object_set_new(row, "splits", spec.splits > 0 ? json_integer(spec.splits) : json_string("auto"));
        if (strcmp(names[i], "dcp_value") == 0) json_object_set_new(row, "split", json_integer(spec.split));
        good = add_kernel(serve, &spec, kernels) && good;
    }
    json_object_set_new(row, "servable", json_boolean(good));
    json_object_set_new(row, "kernels", kernels);
    json_array_append_new(batches, row);
}

void doctor_serve(struct doctor *doctor) {
    const struct doctor_request *request = &doctor->request;
    if (request->model == NULL) {
        json_object_set_new(doctor->whole, "serve", json_null());
        return;
    }
    struct serve serve = {.doctor = doctor, .reasons = must(json_array()), .arch = ""};
    json_t *batches = must(json_array());
    bool planned = choose_device(&serve);
    if (doctor->gen == NULL) refuse(&serve, "the generator does not open");
    for (int i = 0; planned && doctor->gen != NULL && i < request->batch_count; i++)
        add_batch(&serve, request->batches[i], batches);
    json_object_set_new(
        doctor->whole, "serve",
        must(json_pack("{s:s, s:i, s:i, s:i, s:s, s:s, s:i, s:b, s:o, s:o}", "model", request->model, "tp", request->tp,
                       "dcp", request->dcp, "q", request->q, "device", serve.driver->kind, "arch", serve.arch, "sms",
                       serve.device != NULL ? serve.device->sms : 0, "servable", json_array_size(serve.reasons) == 0,
                       "reasons", serve.reasons, "batches", batches)));
}
