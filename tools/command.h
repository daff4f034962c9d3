/* command.h - what the subcommands of dcpk share: their table, their options, their exit codes, and how they speak.
 *
 * A subcommand is one `const struct command` in its own file, listed in commands.def. Tools know the libraries by
 * include/ alone. Results go to stdout, everything else to stderr as "dcpk: ...". */
#ifndef DCPK_TOOLS_COMMAND_H
#define DCPK_TOOLS_COMMAND_H

#include <dcpk/gen.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum exit_code {
#define X(name, code, meaning) EXIT_##name = code,
#include "exits.def"
#undef X
};

/* One row of a command's option table. argument NULL: a flag; "[=WORD]": may be left out. Completion reads it, too:
 * "a|b": these words; MODEL, ARCH: those of `dcpk ls`; FILE, DIR, CASE: paths; ",..." behind it: a list. letter 0: only
 * the long form. */
struct option_row {
    const char *name;
    char letter;
    const char *argument;
    const char *help;
};
enum { MAX_OPTIONS = 24, MAX_MANY = 128 };

struct command_line;
struct command {
    const char *name;
    const char *operands; /* "KERNEL key=value..." */
    const char *summary;  /* one line, no period */
    const char *help;     /* more lines for --help, each ended; may be "" */
    const struct option_row *options;
    size_t option_count; /* at most MAX_OPTIONS */
    enum exit_code (*run)(const struct command_line *line);
    bool any_log; /* it reports a DCPK_LOG that is none itself, and goes on */
};

/* A command line after its options are read. values[i]: of option row i: its argument, "" for a flag, NULL when not
 * given (the last one counts). words: what is left, in order. */
struct command_line {
    const struct command *command;
    const char *values[MAX_OPTIONS];
    const char *many[MAX_MANY]; /* arguments of the option whose argument ends in "...", in order: it may be repeated */
    size_t many_count;
    char **words;
    int word_count;
};

#define C(name) extern const struct command command_##name;
#include "commands.def"
#undef C

/* options.c: argv[0] is the command's name. True: run it; false: *code is the exit code (--help, or a usage error). */
bool options_read(const struct command *command, int argc, char **argv, struct command_line *line,
                  enum exit_code *code);
void options_help(const struct command *command);

/* speak.c: "dcpk: <command>: text" on stderr; the second adds where help is and returns EXIT_USAGE. */
void complain(const struct command_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum exit_code usage_error(const struct command_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints what a failed library call says, its status and advice. */
void complain_error(const dcpk_error *error);
/* The exit code that a library error means: USAGE when it refuses what was asked for (an argument, a spec, an
 * architecture), MISSING when no toolchain is there, or not the library that a template needs. gen may be NULL. */
enum exit_code exit_of_error(dcpk_gen *gen, const dcpk_error *error);
/* The log callback of the command: to stderr, at DCPK_LOG's level. */
void log_line(void *self, int level, const char *text);
/* Pointer, or the program ends with a message: tools do not go on without memory. */
void *must(void *pointer);

/* environment.c: DCPK_LOG's level (default warning), -1 when it is none; then the check of it. EXIT_DONE, or a code
 * after a message. */
int environment_log_level(void);
enum exit_code environment_log(const struct command_line *line);
/* What DCPK_CPU_SEED, DCPK_CPU_DEVICES, DCPK_CPU_SMS and DCPK_CPU_CHECK say. */
enum { CPU_SEED, CPU_DEVICES, CPU_SMS, CPU_CHECK, CPU_VARIABLES };
struct cpu_variable {
    bool given;
    uint64_t value;
};
enum exit_code environment_cpu(const struct command_line *line, struct cpu_variable values[CPU_VARIABLES]);
/* The same two without a word on stderr. False: why is "NAME=VALUE: what it may be". */
enum { ENVIRONMENT_WHY = 512 };
bool environment_log_read(char why[ENVIRONMENT_WHY]);
bool environment_cpu_read(struct cpu_variable values[CPU_VARIABLES], char why[ENVIRONMENT_WHY]);

/* output.c: writes a whole file under its name or not at all ("-": stdout). False after a message. */
bool output_write(const struct command_line *line, const char *path, const void *data, size_t length);
/* All of it into an open file; false with errno. */
bool output_all(int fd, const char *data, size_t length);
/* Whether a file to be written is the file `other`, or lies in the folder (through links, too). "-" is neither. */
bool output_is(const char *path, const char *other);
bool output_inside(const char *path, const char *folder);

/* words.c: the resolved spec that words say: KERNEL key=value..., with model= and tp= among them. Not EXIT_DONE after a
 * message; so too below. */
enum exit_code words_spec(const struct command_line *line, dcpk_gen *gen, dcpk_spec *spec);
/* The same with --lineinfo: it sets lineinfo=1, and EXIT_USAGE beside lineinfo=0. */
enum exit_code words_spec_lineinfo(const struct command_line *line, dcpk_gen *gen, bool lineinfo, dcpk_spec *spec);
/* Its pieces: key=value words into an initialised spec, model= and tp= apart; then the preset's keys where unset. */
struct preset {
    const char *model; /* NULL: none */
    int32_t tp;
};
enum exit_code words_keys(const struct command_line *line, char *const *words, int count, dcpk_spec *spec,
                          struct preset *preset);
/* SPEC where a DCP group does not fit: dcp must divide tp. */
dcpk_status preset_shares(int32_t tp, int32_t dcp, dcpk_error *error);
/* Refuses a preset whose tp the spec's dcp does not divide; an unset dcp is 1. */
enum exit_code words_preset(const struct command_line *line, dcpk_gen *gen, const struct preset *preset,
                            dcpk_spec *spec);
/* Plain decimal digits, at most `most`. */
bool word_number(const char *text, uint64_t most, uint64_t *value);
/* A generator with the command's log; template_path as in dcpk_gen_options. EXIT_DONE, or a code after a message. */
enum exit_code open_gen(const char *template_path, dcpk_gen **gen);
/* The same with the folders of --templates (a colon list; NULL: not given) before the usual ones: `usual`, as in
 * open_gen; NULL: $DCPK_TEMPLATE_PATH, else the built-in folder. EXIT_USAGE for a folder that is not there. */
enum exit_code open_gen_before(const struct command_line *line, const char *folders, const char *usual, dcpk_gen **gen);
/* Rows of option tables that several commands have. */
#define TEMPLATES_ROW                                                                                                  \
    { "templates", 0, "DIR", "template folders (colon list) that come before the usual ones" }
#define LINEINFO_ROW                                                                                                   \
    { "lineinfo", 0, NULL, "as lineinfo=1: profilers and disassemblers show template lines" }
/* True when kernels.def has the name. */
bool kernel_known(const char *name);

#endif
