/* shape_inside.h - what shape_list.c, shape_words.c and shape_file.c share. */
#ifndef DCPK_TOOLS_SHAPE_INSIDE_H
#define DCPK_TOOLS_SHAPE_INSIDE_H

#include <tools/shape_list.h>

/* Appends a resolved spec; what is there twice is sorted out at the end. */
void shape_list_add(struct shape_list *list, const dcpk_spec *spec, uint32_t line);

/* shape_words.c: the words of a comma list, sorted by rank (of a word; -1: unknown), no two alike. EXIT_USAGE after a
 * message for an empty or unknown word; allowed: what may stand there. names: freed with shape_names_free. */
struct shape_names {
    char **names;
    size_t count;
};
enum exit_code shape_names(const struct command_line *line, const char *option, const char *text,
                           int (*rank)(const char *name), const char *allowed, struct shape_names *names);
void shape_names_free(struct shape_names *names);
/* "1-3,8": ascending numbers in one writing. Freed by the caller. */
char *shape_numbers_text(const int32_t *values, size_t count);

/* shape_file.c: the specs of a file of lines. EXIT_USAGE after a message for every line that is none. */
enum exit_code shape_file_read(const struct command_line *line, dcpk_gen *gen, const char *path,
                               struct shape_list *list);

#endif
