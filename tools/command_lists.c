/* command_lists.c - the command about itself, for manual pages and completion: its subcommands, their options, its exit
 * codes. Tables of the code, as cmd_ls.c's. */
#include "command_lists.h"
#include "command.h"

static const struct command *const commands[] = {
#define C(name) &command_##name,
#include "commands.def"
#undef C
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

struct table *list_commands(dcpk_gen *gen) {
    static const struct column columns[] = {{"command", "command"}, {"operands", "operands"}, {"summary", "summary"}};
    (void)gen;
    struct table *table = table_new(columns, 3);
    for (size_t i = 0; i < COMMANDS; i++) {
        table_text(table, commands[i]->name);
        table_text(table, commands[i]->operands);
        table_text(table, commands[i]->summary);
    }
    return table;
}

struct table *list_options(dcpk_gen *gen) {
    static const struct column columns[] = {{"option", "option"},
                                            {"command", "command"},
                                            {"letter", "letter"},
                                            {"argument", "argument"},
                                            {"doc", "meaning"}};
    (void)gen;
    struct table *table = table_new(columns, 5);
    for (size_t i = 0; i < COMMANDS; i++) {
        for (size_t o = 0; o < commands[i]->option_count; o++) {
            const struct option_row *row = &commands[i]->options[o];
            char name[64], letter[3] = {'-', row->letter, '\0'};
            snprintf(name, sizeof name, "--%s", row->name);
            table_text(table, name);
            table_text(table, commands[i]->name);
            table_text(table, row->letter != 0 ? letter : "");
            table_text(table, row->argument != NULL ? row->argument : "");
            table_text(table, row->help);
        }
    }
    return table;
}

struct table *list_exits(dcpk_gen *gen) {
    static const struct column columns[] = {{"exit", "exit code"}, {"meaning", "meaning"}};
    (void)gen;
    struct table *table = table_new(columns, 2);
#define X(name, code, meaning) table_integer(table, code), table_text(table, meaning);
#include "exits.def"
#undef X
    return table;
}
