/* doctor_serve.c - whether --model at --tp and --dcp can be served here, batch by batch, and if not, why.
 *
 * Specs are planned for the first device that would be used; the layer says which kernels a step has, the generator
 * where each would come from. Nothing is built. */
#include "doctor.h"
#include "json_text.h"

#include <dcpk/layer.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CPU_MOST = 32 }; /* devices that DCPK_CPU_DEVICES may say */

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
    json_t *reason = json_text(text);
    json_array_foreach(serve->reasons, i, said) again = again || json_equal(said, reason);
    if (!again) json_array_append(serve->reasons, reason);
    json_array_foreach(serve->doctor->problems, i, said) again = again || json_equal(said, reason);
    if (!again) doctor_problem(serve->doctor, "%s", text);
    json_decref(reason);
    free(text);
}

/* Device number of rank r: of DCPK_DEVICE's list, or r. */
static int32_t device_of_rank(const struct doctor *doctor, int32_t r) {
    return doctor->words.count > 0 ? doctor->words.list[r] : r;
}

/* A device for each rank: of the list where DCPK_DEVICE has one, of the driver's own. */
static bool enough_devices(struct serve *serve) {
    const struct doctor *doctor = serve->doctor;
    int32_t dcp = doctor->request.dcp, count = serve->driver->count, listed = (int32_t)doctor->words.count;
    int32_t here = listed > 0 ? listed : count;
    bool gpu = strcmp(serve->driver->kind, "cuda") == 0;
    if (here < dcp) {
        const char *advice = listed > 0 ? "; name more in it"
                             : gpu      ? "; ranks on one GPU: dcpk run --shares; without GPUs: DCPK_DEVICE=cpu"
                                        : "; raise DCPK_CPU_DEVICES";
        refuse(serve, "dcp=%d is that many ranks with a device each, and there %s %d (%s%s)%s", dcp,
               here == 1 ? "is" : "are", here, serve->driver->kind, listed > 0 ? ", DCPK_DEVICE's list" : "", advice);
        return false;
    }
    for (int32_t r = 0; r < dcp; r++) {
        int32_t number = device_of_rank(doctor, r);
        if (number < count) continue;
        bool emulated = !gpu && number < CPU_MOST;
        refuse(serve, "DCPK_DEVICE names device %d, and the driver has %d (%s), 0 to %d%s", number, count,
               serve->driver->kind, count - 1, emulated ? "; DCPK_CPU_DEVICES says how many" : "");
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
    if (doctor->request.dcp == 1) return;
    if (doctor->blocking)
        refuse(serve,
               "CUDA_LAUNCH_BLOCKING is set: launches block, and ranks of one process, as in dcpk run, are "
               "refused (%s): unset it",
               dcpk_status_name(DCPK_E_BLOCKING_LAUNCH));
    if (strcmp(serve->driver->kind, "cuda") == 0 && doctor->connections != 32)
        doctor_note(serve->doctor, "ranks of one process are refused without CUDA_DEVICE_MAX_CONNECTIONS=32");
}

/* True when there is a device to plan for. */
static bool choose_device(struct serve *serve) {
    struct doctor *doctor = serve->doctor;
    bool gpus =
        strcmp(doctor->words.kind, "cuda") == 0 || (strcmp(doctor->words.kind, "auto") == 0 && doctor->cuda.found);
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

/* Why no layer answers. found: what dcpk_gen_find says; OK: it would compile. */
static void say_why(struct serve *serve, const dcpk_spec *spec, const dcpk_error *found) {
    const struct doctor *doctor = serve->doctor;
    bool never = found->code == DCPK_E_NOT_FOUND, none = found->code == DCPK_E_TOOLCHAIN && !doctor->assembles;
    char damage[sizeof found->text];
    if ((never || none) && doctor_packs_serve(doctor) && doctor_packs_damage(doctor, spec, damage, sizeof damage))
        refuse(serve, "%s, and an entry of a pack is damaged: %s: make the pack anew with 'dcpk aot'",
               never ? "DCPK_JIT=never" : "nothing here assembles PTX", damage);
    else if (never)
        refuse(serve,
               "DCPK_JIT=never, and neither a pack of DCPK_AOT_PATH nor the cache has the kernels of arch=%s: make a "
               "pack with 'dcpk aot'",
               spec->arch);
    else if (none && doctor->packs > 0 && !doctor_packs_serve(doctor))
        refuse(serve, "nothing here assembles PTX, and DCPK_JIT=force passes packs over: install a CUDA toolkit "
                      "(DCPK_TOOLCHAIN chooses), or unset DCPK_JIT");
    else if (none)
        refuse(serve, "nothing here assembles PTX, and no pack has the kernels: install a CUDA toolkit (DCPK_TOOLCHAIN "
                      "chooses), or set DCPK_AOT_PATH to a pack made with 'dcpk aot'");
    else if (found->code != DCPK_OK)
        refuse(serve, "%s", found->text);
    else
        refuse(serve, "%s does not build %s: use a newer toolkit, or a pack made with one", doctor->toolchain,
               spec->arch);
}

/* Where an image of the spec comes from: "pack", "cache", "build", or "" after a reason. */
static const char *source_of(struct serve *serve, const dcpk_spec *spec) {
    static const char *const names[] = {"build", "memory", "cache", "pack"}; /* by dcpk_build_report.hit */
    uint32_t hit = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = dcpk_gen_find(serve->doctor->gen, spec, &hit, &error);
    if (status == DCPK_OK && (hit > 0 || can_build(serve->doctor, spec->arch))) return names[hit];
    say_why(serve, spec, &error);
    return "";
}

/* The kernels of a whole step of this batch, in the order of their launches; false after a reason. */
static bool plan(struct serve *serve, int32_t batch, dcpk_spec *specs, uint32_t *count) {
    const struct doctor_request *request = &serve->doctor->request;
    dcpk_spec base;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_spec_init(&base, "layer"); /* the name of no kernel: it takes every key */
    snprintf(base.arch, sizeof base.arch, "%s", serve->arch);
    base.batch = batch;
    base.sms = serve->device->sms;
    base.dcp = request->dcp;
    base.q = request->q;
    const dcpk_layer_options options = {.size = sizeof options, .base = &base, .form = DCPK_LAYER_FUSED};
    dcpk_status status = dcpk_gen_model(serve->doctor->gen, request->model, request->tp, &base, &error);
    if (status == DCPK_OK) status = dcpk_layer_specs(&options, specs, DCPK_LAYER_MAX_SPECS, count, &error);
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

/* What was chosen for the batch. */
static void add_choices(const dcpk_spec *spec, json_t *row) {
    if (strcmp(spec->kernel, "mla_query") == 0) json_object_set_new(row, "poll", json_integer(spec->poll));
    if (strcmp(spec->kernel, "mla_decode") == 0) {
        json_object_set_new(row, "splits", spec->splits > 0 ? json_integer(spec->splits) : json_string("auto"));
        json_object_set_new(row, "pv", json_string(spec->pv == DCPK_PV_FP8 ? "fp8" : "f16"));
    }
    if (strcmp(spec->kernel, "dcp_value") == 0) json_object_set_new(row, "split", json_integer(spec->split));
}

static void add_batch(struct serve *serve, int32_t batch, json_t *batches) {
    dcpk_spec specs[DCPK_LAYER_MAX_SPECS];
    uint32_t count = 0;
    json_t *kernels = must(json_array()), *row = must(json_pack("{s:i}", "batch", batch));
    bool good = plan(serve, batch, specs, &count);
    for (uint32_t i = 0; i < count; i++) {
        add_choices(&specs[i], row);
        good = add_kernel(serve, &specs[i], kernels) && good;
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
        must(json_pack("{s:o, s:i, s:i, s:i, s:s, s:s, s:i, s:b, s:o, s:o}", "model", json_text(request->model), "tp",
                       request->tp, "dcp", request->dcp, "q", request->q, "device", serve.driver->kind, "arch",
                       serve.arch, "sms", serve.device != NULL ? serve.device->sms : 0, "servable",
                       json_array_size(serve.reasons) == 0, "reasons", serve.reasons, "batches", batches)));
}
