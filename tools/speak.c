/* speak.c - what the command says on stderr, and which exit code an error means.
 *
 * Every line begins with "dcpk: ". Control characters in texts (they may hold the user's own words or a file's bytes)
 * are shown as '?', so that a message cannot drive a terminal. No colour. */
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_clean(const char *text) {
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        fputc((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F ? '?' : c, stderr);
    }
}

static void put_message(const struct command_line *line, const char *format, va_list arguments) {
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    fputs("dcpk: ", stderr);
    if (line != NULL) fprintf(stderr, "%s: ", line->command->name);
    put_clean(text);
    fputc('\n', stderr);
}

void complain(const struct command_line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    put_message(line, format, arguments);
    va_end(arguments);
}

enum exit_code usage_error(const struct command_line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    put_message(line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "dcpk: help: dcpk%s%s --help\n", line != NULL ? " " : "", line != NULL ? line->command->name : "");
    return EXIT_USAGE;
}

void complain_error(const dcpk_error *error) {
    fputs("dcpk: ", stderr);
    put_clean(error->text);
    size_t length = strlen(error->text);
    if (length == 0 || error->text[length - 1] != '\n') fputc('\n', stderr);
    const char *advice = dcpk_status_advice(error->code);
    if (error->code == DCPK_E_TOOLCHAIN && error->template_line > 0) /* it is there, and refuses what was written */
        advice = "correct the template's lines that the message shows";
    fprintf(stderr, "dcpk: %s: %s\n", dcpk_status_name(error->code), advice);
}

enum exit_code exit_of_error(dcpk_gen *gen, const dcpk_error *error) {
    if (error->code == DCPK_E_ARG || error->code == DCPK_E_SPEC || error->code == DCPK_E_ARCH) return EXIT_USAGE;
    if (error->code == DCPK_E_TOOLCHAIN && error->sys_errno == ENOENT) return EXIT_MISSING;
    if (error->code != DCPK_E_TOOLCHAIN || gen == NULL) return EXIT_WORK;
    const char *toolchain = NULL; /* a compiler that refuses is work that failed; none at all is another matter */
    return dcpk_gen_toolchain(gen, &toolchain, NULL) == DCPK_OK ? EXIT_WORK : EXIT_MISSING;
}

void log_line(void *self, int level, const char *text) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    (void)self;
    if (level > environment_log_level() || level < 0) return;
    fprintf(stderr, "dcpk: %s: ", names[level]);
    put_clean(text);
    fputc('\n', stderr);
}

void *must(void *pointer) {
    if (pointer == NULL) {
        fputs("dcpk: out of memory\n", stderr);
        exit(EXIT_WORK);
    }
    return pointer;
}
