/* options.c - reads a subcommand's options from its table and prints its help from the same rows.
 *
 * May call getopt_long and speak.c. Knows nothing of any single command. */
#include "command.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_LONG = 256, HELP = FIRST_LONG + MAX_OPTIONS };

static size_t find_letter(const struct command *command, int letter) {
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].letter != 0 && command->options[i].letter == letter) return i;
    return command->option_count;
}

/* getopt's two forms of the table; returns the number of long options before the closing zero row. */
static void translate(const struct command *command, char *letters, struct option *longs) {
    size_t l = 0;
    letters[l++] = ':'; /* tells a missing argument from an unknown option */
    letters[l++] = 'h';
    size_t n = 0;
    for (; n < command->option_count; n++) {
        const struct option_row *row = &command->options[n];
        int takes = row->argument == NULL     ? no_argument
                    : row->argument[0] == '[' ? optional_argument
                                              : required_argument;
        longs[n] = (struct option){row->name, takes, NULL, FIRST_LONG + (int)n};
        if (row->letter == 0) continue;
        letters[l++] = row->letter;
        if (row->argument != NULL) letters[l++] = ':';
    }
    letters[l] = '\0';
    longs[n++] = (struct option){"help", no_argument, NULL, HELP};
    longs[n] = (struct option){NULL, 0, NULL, 0};
}

/* "KIND:VALUE...", but not the list "A,...". */
static bool may_repeat(const struct option_row *row) {
    size_t length = row->argument != NULL ? strlen(row->argument) : 0;
    return length > 4 && strcmp(row->argument + length - 3, "...") == 0 && row->argument[length - 4] != ',';
}

bool options_read(const struct command *command, int argc, char **argv, struct command_line *line,
                  enum exit_code *code) {
    char letters[2 * MAX_OPTIONS + 4];
    struct option longs[MAX_OPTIONS + 2];
    *line = (struct command_line){.command = command};
    translate(command, letters, longs);
    opterr = 0;
    optind = 0; /* a fresh scan, also when called twice */
    for (int c; (c = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        if (c == 'h' || c == HELP) {
            options_help(command);
            *code = EXIT_DONE;
            return false;
        }
        if (c == '?' || c == ':') {
            const char *what = c == '?' ? "unknown option" : "option needs an argument:";
            if (optopt > 0 && optopt < FIRST_LONG)
                *code = usage_error(line, "%s '-%c'", what, optopt);
            else if (c == '?' && optopt >= FIRST_LONG)
                *code = usage_error(line, "option takes no argument: '%s'", argv[optind - 1]);
            else
                *code = usage_error(line, "%s '%s'", what, argv[optind - 1]);
            return false;
        }
        size_t row = c >= FIRST_LONG ? (size_t)(c - FIRST_LONG) : find_letter(command, c);
        line->values[row] = optarg != NULL ? optarg : "";
        if (!may_repeat(&command->options[row])) continue;
        if (line->many_count == MAX_MANY) {
            *code = usage_error(line, "--%s more than %d times", command->options[row].name, MAX_MANY);
            return false;
        }
        line->many[line->many_count++] = optarg;
    }
    line->words = argv + optind;
    line->word_count = argc - optind;
    return true;
}

void options_help(const struct command *command) {
    printf("usage: dcpk %s%s%s%s\n%s\n", command->name, command->option_count > 0 ? " [options]" : "",
           command->operands[0] != '\0' ? " " : "", command->operands, command->summary);
    if (command->help[0] != '\0') printf("\n%s", command->help);
    printf("\noptions:\n");
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option_row *row = &command->options[i];
        char left[64], letter[8] = "    ";
        if (row->letter != 0) snprintf(letter, sizeof letter, "-%c, ", row->letter);
        const char *argument = row->argument != NULL ? row->argument : "";
        snprintf(left, sizeof left, "%s--%s%s%s", letter, row->name,
                 argument[0] != '\0' && argument[0] != '[' ? " " : "", argument);
        if (strlen(left) > 28)
            printf("  %s\n  %-28s %s\n", left, "", row->help);
        else
            printf("  %-28s %s\n", left, row->help);
    }
    printf("  %-28s %s\n", "-h, --help", "this text");
}
