/* plant.c - see plant.h. May call: Check, the file system. */
#include <tests/plant.h>

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 20 };

static char folder[64];

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s: cannot be read", path);
    char *text = calloc(1, FILE_BYTES);
    ck_assert_ptr_nonnull(text);
    size_t length = fread(text, 1, FILE_BYTES - 1, file);
    ck_assert_uint_lt(length, FILE_BYTES - 1);
    fclose(file);
    return text;
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s: cannot be written", path);
}

static void path_of(char *path, size_t capacity, const char *root, const char *name) {
    ck_assert_int_lt(snprintf(path, capacity, "%s/%s", root, name), (int)capacity);
}

void plant(const struct edit *edit) {
    char from[256], to[256], lib[256];
    path_of(from, sizeof from, "templates", edit->file);
    path_of(to, sizeof to, folder, edit->file);
    path_of(lib, sizeof lib, folder, "lib");
    mkdir(lib, 0700);
    char *text = read_file(access(to, F_OK) == 0 ? to : from);
    char *at = strstr(text, edit->text);
    ck_assert_msg(strcmp(edit->text, edit->instead) != 0, "%s: \"%s\" is replaced by itself", edit->file, edit->text);
    ck_assert_msg(at != NULL, "%s: \"%s\" is no longer there: the fault must be planted elsewhere", edit->file,
                  edit->text);
    ck_assert_msg(strstr(at + 1, edit->text) == NULL, "%s: \"%s\" is there twice", edit->file, edit->text);
    size_t length = strlen(text) + strlen(edit->instead) + 1;
    char *edited = calloc(1, length);
    ck_assert_ptr_nonnull(edited);
    snprintf(edited, length, "%.*s%s%s", (int)(at - text), text, edit->instead, at + strlen(edit->text));
    write_file(to, edited);
    free(edited);
    free(text);
}

const char *plant_folder(void) {
    return folder;
}

void plant_folder_make(void) {
    strcpy(folder, "/tmp/dcpk-faults-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_below(const char *path) {
    DIR *list = opendir(path);
    for (struct dirent *entry; list && (entry = readdir(list));) {
        char name[512];
        if (entry->d_name[0] != '.') {
            snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
            if (unlink(name) != 0) {
                remove_below(name);
            }
        }
    }
    if (list) {
        closedir(list);
    }
    rmdir(path);
}

void plant_folder_remove(void) {
    remove_below(folder);
}
