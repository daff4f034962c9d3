/* doctor_toolchains.c - opens the generator without a word on stderr and asks it: what assembles here, where templates
 * come from, what the cache folder is and whether it may be trusted. Builds nothing, makes no folder. */
#include "doctor.h"
#include "json_text.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

static int32_t add_toolchain(void *self, const dcpk_toolchain_info *info) {
    struct doctor *doctor = self;
    json_t *archs = must(json_array());
    for (uint32_t i = 0; i < info->arch_count; i++)
        json_array_append_new(archs, must(json_string(info->archs[i])));
    bool usable = info->status == DCPK_OK, assembles = strcmp(info->name, "nvrtc") != 0;
    json_array_append_new(json_object_get(doctor->whole, "toolchains"),
                          must(json_pack("{s:s, s:b, s:b, s:o, s:o, s:o, s:o}", "name", info->name, "usable", usable,
                                         "chosen", info->chosen != 0, "version", json_text(info->text), "path",
                                         json_text(info->path), "reason", json_text(info->reason), "archs", archs)));
    if (info->chosen && assembles) {
        doctor->assembles = usable;
        doctor->archs = archs;
        snprintf(doctor->toolchain, sizeof doctor->toolchain, "%s", usable ? info->text : info->name);
        if (!usable) snprintf(doctor->trouble, sizeof doctor->trouble, "%s", info->reason);
    }
    if (usable && assembles && doctor->other[0] == '\0')
        snprintf(doctor->other, sizeof doctor->other, "%s", info->name);
    return 0;
}

/* Kernels of kernels.def that a template is there for. */
static void add_templates(struct doctor *doctor) {
    char built_in[4096] = "";
    dcpk_text models = {NULL, 0};
    dcpk_error error;
    dcpk_error_init(&error);
    const char *path = getenv("DCPK_TEMPLATE_PATH");
    dcpk_templates_path(built_in, sizeof built_in);
    bool good = dcpk_gen_models(doctor->gen, &models, &error) == DCPK_OK;
    json_object_set_new(
        doctor->whole, "templates",
        must(json_pack("{s:o, s:b, s:o}", "path", json_text(path != NULL && path[0] != '\0' ? path : built_in),
                       "usable", good, "reason", json_text(good ? "" : error.text))));
    if (!good) doctor_problem(doctor, "templates: %s", error.text);
    dcpk_text_free(&models);
}

struct count {
    json_int_t entries, bytes, bad;
};

static int32_t count_entry(void *self, const dcpk_cache_entry *entry) {
    struct count *count = self;
    count->entries++;
    count->bytes += (json_int_t)entry->bytes;
    count->bad += entry->state != DCPK_OK;
    return 0;
}

/* Whether builds could write there, or make the folder: asked of the nearest folder that is there; nothing is made. */
static void check_writable(struct doctor *doctor, const char *path) {
    char *folder = must(strdup(path)), *slash;
    struct stat there;
    struct statvfs space = {0};
    struct statfs system = {0};
    while (stat(folder, &there) != 0 && (slash = strrchr(folder, '/')) != NULL && slash != folder)
        *slash = '\0';
    if (stat(folder, &there) != 0) strcpy(folder, "/");
    const char *why = NULL;
    if (statvfs(folder, &space) == 0 && (space.f_flag & ST_RDONLY) != 0)
        why = "its file system is read-only";
    else if (statfs(folder, &system) == 0 && (system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC))
        why = "its file system is the kernel's own";
    else if (access(folder, W_OK | X_OK) != 0)
        why = strerror(errno);
    else if (space.f_blocks > 0 && space.f_bavail == 0)
        why = "its file system is full";
    if (why != NULL)
        doctor_problem(doctor,
                       "cache: %s cannot be written: %s: %s; every process builds its kernels anew; DCPK_CACHE_DIR "
                       "chooses another folder",
                       path, folder, why);
    free(folder);
}

static void add_cache(struct doctor *doctor) {
    struct count count = {0};
    const char *path = "";
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = dcpk_cache_path(doctor->gen, &path, &error);
    if (status == DCPK_OK) status = dcpk_cache_visit(doctor->gen, 0, count_entry, &count, &error);
    bool good = status == DCPK_OK;
    json_object_set_new(doctor->whole, "cache",
                        must(json_pack("{s:o, s:b, s:b, s:o, s:I, s:I, s:I}", "path", json_text(path), "usable",
                                       good && path[0] != '\0', "trusted", status != DCPK_E_UNTRUSTED, "reason",
                                       json_text(good ? "" : error.text), "entries", count.entries, "bytes",
                                       count.bytes, "bad", count.bad)));
    if (!good)
        doctor_problem(doctor, "cache: %s", error.text);
    else if (path[0] != '\0' && strcmp(doctor->jit, "never") != 0)
        check_writable(doctor, path);
    else if (path[0] == '\0')
        doctor_note(doctor, "no cache folder (no HOME): every process builds its kernels anew");
}

void doctor_toolchains(struct doctor *doctor) {
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_gen_options options = {.size = sizeof options};
    json_object_set_new(doctor->whole, "toolchains", must(json_array()));
    if (dcpk_gen_open(&options, &doctor->gen, &error) != DCPK_OK) {
        doctor_problem(doctor, "the generator does not open: %s", error.text);
        return;
    }
    if (dcpk_gen_toolchains(doctor->gen, add_toolchain, doctor, &error) != DCPK_OK)
        doctor_problem(doctor, "%s", error.text);
    add_templates(doctor);
    add_cache(doctor);
    int ours = 0, theirs = doctor->cuda.version / 1000;
    if (doctor->assembles && sscanf(doctor->toolchain, "%*s %d", &ours) == 1 && doctor->cuda.found && theirs < ours)
        doctor_note(
            doctor,
            "%s is of CUDA %d and the driver of CUDA %d: a driver need not load cubins of a later major version; "
            "install a newer driver or an older toolkit",
            doctor->toolchain, ours, theirs);
}

void doctor_judge_toolchain(struct doctor *doctor) {
    if (doctor->assembles || doctor->gen == NULL) return;
    void (*say)(struct doctor *, const char *, ...) = doctor_packs_serve(doctor) ? doctor_note : doctor_problem;
    if (doctor->other[0] != '\0')
        say(doctor, "builds use %s, which is not usable: %s; %s is: DCPK_TOOLCHAIN=%s", doctor->toolchain,
            doctor->trouble, doctor->other, doctor->other);
    else
        say(doctor, "nothing here assembles PTX: %s", doctor->trouble);
}
