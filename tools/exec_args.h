/* exec_args.h - the arguments of `dcpk exec`: words, values, buffers on the device. */
#ifndef TOOLS_EXEC_ARGS_H
#define TOOLS_EXEC_ARGS_H

#include "command.h"
#include "ptx_entries.h"

#include <dcpk/runtime.h>

enum exec_kind {
#define X(id, name, form, bytes, meaning) EXEC_##id,
#include "exec_args.def"
#undef X
    EXEC_KINDS
};

struct exec_arg {
    const char *word; /* as given */
    enum exec_kind kind;
    const char *path; /* of a buffer's file */
    uint64_t value;   /* the bits of a number; a buffer's device address */
    uint64_t bytes;   /* of the buffer, or of a value of kind BYTES */
    void *host;       /* likewise, malloc */
};
struct exec_args {
    struct exec_arg *list;
    size_t count;
};

/* Words to arguments: files are read, and those to be written are looked at. Not EXIT_DONE after a message; free in any
 * case. */
enum exit_code exec_args_read(const struct command_line *line, struct exec_args *args);
/* Whether they are what the entry takes, by number and size. */
enum exit_code exec_args_fit(const struct command_line *line, const struct exec_args *args,
                             const struct ptx_entry *entry);
/* Where the parameter's value stands, as a launch wants it. Valid as long as args. */
void *exec_arg_value(struct exec_arg *arg);
/* Buffers on the device, filled. */
dcpk_status exec_args_place(struct exec_args *args, dcpk_device *device, dcpk_error *error);
/* Back to the host, where something is to be written; then the buffers are freed. */
dcpk_status exec_args_collect(struct exec_args *args, dcpk_device *device, dcpk_error *error);
/* Writes the files. */
enum exit_code exec_args_write(const struct command_line *line, const struct exec_args *args);
void exec_args_free(struct exec_args *args);

#endif
