/* replay.c - see replay.h. Suites run in the project's folder. */
#include "tests/fuzz/replay.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MEGABYTE = 1 << 20 };

static void replay_file(const char *path, fuzz_target *target) {
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s: %s", path, strerror(errno));
    static uint8_t bytes[MEGABYTE];
    size_t length = fread(bytes, 1, sizeof bytes, file);
    ck_assert_msg(feof(file), "%s is longer than a megabyte", path);
    fclose(file);
    target(bytes, length);
}

static unsigned replay_folder(const char *kind, const char *name, fuzz_target *target) {
    char path[512], folder[128];
    snprintf(folder, sizeof folder, "tests/fuzz/%s/%s", kind, name);
    DIR *list = opendir(folder);
    unsigned count = 0;
    for (struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        replay_file(path, target);
        count++;
    }
    if (list != NULL) closedir(list);
    return count;
}

void replay_files(const char *name, fuzz_target *target) {
    ck_assert_msg(replay_folder("seeds", name, target) > 0, "no inputs in tests/fuzz/seeds/%s", name);
    replay_folder("regress", name, target);
}

static char *put(char *to, const char *piece, unsigned number) {
    for (; piece != NULL && *piece != '\0'; piece++)
        if (*piece == '#')
            to += sprintf(to, "%u", number);
        else
            *to++ = *piece;
    return to;
}

void replay_megabyte(const struct replay_text *text, double seconds) {
    struct timespec before, after;
    const size_t room = 4 * MEGABYTE, full = text->second != NULL ? MEGABYTE / 2 : MEGABYTE;
    char *bytes = malloc(room), *at = bytes;
    ck_assert_ptr_nonnull(bytes);
    unsigned count = 0;
    at = put(at, text->head, 0);
    while ((size_t)(at - bytes) < full)
        at = put(at, text->piece, count++);
    for (unsigned i = 0; text->second != NULL && i < count && (size_t)(at - bytes) < room - 1024; i++)
        at = put(at, text->second, i);
    at = put(at, text->last, count);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    text->target((const uint8_t *)bytes, (size_t)(at - bytes));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    free(bytes);
    double took = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    ck_assert_msg(took < seconds, "%s: %.1f s", text->what, took);
}
