/* shell.c - runs shell lines for suites that meet a program as its users do, and keeps what came of them.
 *
 * One run at a time, in a folder of its own with a cache of its own. */
#include "tests/shell.h"

#include <check.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

char shell_folder[64];
struct shell_outcome last;

char *shell_read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    size_t used = 0, room = 1 << 16;
    char *data = malloc(room);
    for (size_t n; data != NULL && (n = fread(data + used, 1, room - used - 1, file)) > 0;) {
        used += n;
        if (room - used >= 2) continue;
        char *more = realloc(data, room *= 2);
        if (more == NULL) free(data);
        data = more;
    }
    fclose(file);
    if (data != NULL) data[used] = '\0';
    if (length != NULL) *length = used;
    return data;
}

void sh(const char *format, ...) {
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    char whole[2300];
    snprintf(whole, sizeof whole, "{ %s\n} >out 2>err", line);
    int status = system(whole); /* NOLINT: a test of our own words */
    free(last.out);
    free(last.err);
    last.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    last.out = shell_read_file("out", &last.out_length);
    last.err = shell_read_file("err", NULL);
    ck_assert_ptr_nonnull(last.out);
    ck_assert_ptr_nonnull(last.err);
}

void expect_failure(int code, const char *text) {
    expect_code(code);
    ck_assert_msg(strncmp(last.err, "dcpk: ", 6) == 0, "stderr: %s", last.err);
    expect_in(last.err, text);
}

json_t *shell_json(void) {
    json_error_t error;
    json_t *value = json_loads(last.out, 0, &error);
    ck_assert_msg(value != NULL, "not JSON: %s:\n%s", error.text, last.out);
    return value;
}

bool shell_exists(const char *path) {
    struct stat there;
    return lstat(path, &there) == 0;
}

void shell_setup(void) {
    char self[4096], command[4200];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    ck_assert_int_gt(n, 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(command, sizeof command, "%s/dcpk", self);
    strcpy(shell_folder, "/tmp/dcpk-command-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(shell_folder));
    ck_assert_int_eq(chdir(shell_folder), 0);
    char cache[128];
    snprintf(cache, sizeof cache, "%s/cache", shell_folder);
    setenv("dcpk", command, 1);
    setenv("DCPK_CACHE_DIR", cache, 1);
}

void shell_teardown(void) {
    char line[128];
    ck_assert_int_eq(chdir("/"), 0);
    snprintf(line, sizeof line, "rm -rf '%s'", shell_folder);
    ck_assert_int_eq(system(line), 0); /* NOLINT: our own shell_folder */
}
