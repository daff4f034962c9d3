/* dcpk.c - the command: finds the subcommand and runs it. See cmd_*.c for what they do.
 *
 * May use include/ and tools/. Ends with 1 when what it printed could not be written: a full disk or a closed pipe must
 * not look like success. A closed pipe is said by the code alone: `dcpk ... | head` has what it wanted. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command *const commands[] = {
#define C(name) &command_##name,
#include "commands.def"
#undef C
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *to) {
    fputs("usage: dcpk COMMAND [options] [words]\n"
          "Specialised GPU kernels for MLA decode under decode context parallelism.\n\ncommands:\n",
          to);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n  dcpk COMMAND --help   the options of a command\n"
          "  dcpk --version        the version\n\nexit codes:\n",
          to);
#define X(name, code, meaning) fprintf(to, "  %d  %s\n", code, meaning);
#include "exits.def"
#undef X
}

/* Descriptors 0 to 2 must be taken, or the first file opened becomes stdout. A closed stdout stays unwritable. */
static void hold_standard_files(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0) _exit(EXIT_WORK);
}

static const struct command *find_command(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i]->name) == 0) return commands[i];
    return NULL;
}

static enum exit_code dispatch(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 && argc == 3) { /* as dcpk COMMAND --help */
        const struct command *about = find_command(argv[2]);
        if (about == NULL) return usage_error(NULL, "no command '%s'", argv[2]);
        options_help(about);
        return EXIT_DONE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("dcpk %s\n", dcpk_version());
        return EXIT_DONE;
    }
    const struct command *command = find_command(name);
    if (command == NULL) return usage_error(NULL, "no command '%s'", name);
    struct command_line line;
    enum exit_code code;
    if (!options_read(command, argc - 1, argv + 1, &line, &code)) return code;
    code = command->any_log ? EXIT_DONE : environment_log(&line);
    return code == EXIT_DONE ? command->run(&line) : code;
}

/* stdio forgets why a buffer in the middle could not be written. self: where the last reason (errno) is kept. */
static ssize_t put_output(void *self, const char *data, size_t length) {
    int *reason = self;
    size_t done = 0;
    while (done < length) {
        ssize_t n = write(STDOUT_FILENO, data + done, length - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            *reason = errno;
            return 0;
        }
        done += (size_t)n;
    }
    return (ssize_t)length;
}

int main(int argc, char **argv) {
    static int reason; /* also at exit, when stdio writes what is left */
    hold_standard_files();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe and a file size limit are write errors, reported below */
    signal(SIGXFSZ, SIG_IGN);
    stdout = must(fopencookie(&reason, "w", (cookie_io_functions_t){.write = put_output}));
    enum exit_code code = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (reason != EPIPE)
            complain(NULL, "cannot write the output: %s", reason != 0 ? strerror(reason) : "write error");
        return code != EXIT_DONE ? (int)code : EXIT_WORK;
    }
    return (int)code;
}
