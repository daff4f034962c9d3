/* exec_args.c - see exec_args.h. */
#include "exec_args.h"

#include "input_file.h"
#include "tool_error.h"

#include <dcpk/cpu.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name, *form;
    unsigned bytes;
} kinds[EXEC_KINDS] = {
#define X(id, name, form, bytes, meaning) [EXEC_##id] = {name, form, bytes},
#include "exec_args.def"
#undef X
};

static const char every_kind[] = /* " u8:N u16:N ..." */
#define X(id, name, form, bytes, meaning) " " name ":" form
#include "exec_args.def"
#undef X
    ;

static bool is_buffer(enum exec_kind kind) {
    return kind >= EXEC_IN;
}

static bool is_written(enum exec_kind kind) {
    return kind > EXEC_IN;
}

/* ---- words ---- */
static bool read_integer(const char *text, unsigned bytes, uint64_t *bits) {
    bool minus = text[0] == '-';
    const char *digits = text + minus;
    bool hexadecimal = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    const char *allowed = hexadecimal ? "0123456789abcdefABCDEF" : "0123456789";
    if (hexadecimal) digits += 2;
    if (digits[0] == '\0' || strspn(digits, allowed) != strlen(digits)) return false;
    errno = 0;
    uint64_t value = strtoull(digits, NULL, hexadecimal ? 16 : 10), most = UINT64_MAX >> (64 - 8 * bytes);
    if (errno != 0 || value > (minus ? most / 2 + 1 : most)) return false;
    *bits = minus ? 0 - value : value;
    return true;
}

static bool read_float(const char *text, unsigned bytes, uint64_t *bits) {
    char *end;
    if (text[0] == '\0' || strchr(" \t\n", text[0]) != NULL) return false;
    errno = 0;
    if (bytes == 4) {
        float value = strtof(text, &end);
        if (errno == ERANGE && isinf(value)) return false;
        memcpy(bits, &value, sizeof value);
    } else {
        double value = strtod(text, &end);
        if (errno == ERANGE && isinf(value)) return false;
        memcpy(bits, &value, sizeof value);
    }
    return *end == '\0';
}

/* Two digits a byte. */
static bool read_bytes(const char *text, struct exec_arg *arg) {
    size_t digits = strlen(text);
    if (digits == 0 || digits % 2 != 0 || strspn(text, "0123456789abcdefABCDEF") != digits) return false;
    unsigned char *bytes = must(malloc(digits / 2));
    for (size_t i = 0; i < digits / 2; i++)
        bytes[i] = (unsigned char)strtoul((const char[]){text[2 * i], text[2 * i + 1], '\0'}, NULL, 16);
    arg->host = bytes;
    arg->bytes = digits / 2;
    return true;
}

static bool read_value(const char *text, struct exec_arg *arg) {
    unsigned bytes = kinds[arg->kind].bytes;
    switch (arg->kind) {
    case EXEC_F32:
    case EXEC_F64:
        return read_float(text, bytes, &arg->value);
    case EXEC_BYTES:
        return read_bytes(text, arg);
    default:
        return read_integer(text, bytes, &arg->value);
    }
}

static enum exit_code bad_word(const struct command_line *line, const struct exec_arg *arg) {
    return usage_error(line, "--arg %s: %s:%s is expected%s", arg->word, kinds[arg->kind].name, kinds[arg->kind].form,
                       is_buffer(arg->kind)      ? ""
                       : arg->kind == EXEC_BYTES ? ", two hexadecimal digits a byte"
                                                 : ", a number that fits");
}

/* room: bytes that may still be read. */
static enum exit_code read_file(const struct command_line *line, struct exec_arg *arg, uint64_t *room) {
    char why[INPUT_WHY], *bytes;
    if (!input_file_read(arg->path, *room, &bytes, &arg->bytes, why)) {
        complain(line, "--arg %s: cannot read '%s': %s", arg->word, arg->path, why);
        return EXIT_WORK;
    }
    arg->host = bytes;
    *room -= arg->bytes;
    return EXIT_DONE;
}

/* Before anything runs: a run whose result cannot be kept is for nothing. */
static enum exit_code look_at_output(const struct command_line *line, const struct exec_arg *arg) {
    struct stat there = {0};
    char *folder = must(strdup(arg->path)), *slash = strrchr(folder, '/');
    bool known = strcmp(arg->path, "-") == 0 || stat(arg->path, &there) == 0;
    if (slash != NULL) slash[slash == folder] = '\0';
    errno = 0;
    if (strcmp(arg->path, "-") != 0) {
        if (known && S_ISDIR(there.st_mode))
            errno = EISDIR;
        else if (known && !S_ISREG(there.st_mode))
            (void)access(arg->path, W_OK);
        else
            (void)access(slash != NULL ? folder : ".", W_OK | X_OK);
    }
    int why = errno;
    free(folder);
    if (why == 0) return EXIT_DONE;
    complain(line, "--arg %s: cannot write '%s': %s", arg->word, arg->path, strerror(why));
    return EXIT_WORK;
}

static enum exit_code read_word(const struct command_line *line, struct exec_arg *arg, uint64_t *room) {
    size_t kind = 0, length = strcspn(arg->word, ":");
    const char *rest = arg->word + length + 1;
    while (kind < EXEC_KINDS &&
           (strlen(kinds[kind].name) != length || strncmp(kinds[kind].name, arg->word, length) != 0))
        kind++;
    if (kind == EXEC_KINDS || arg->word[length] == '\0')
        return usage_error(line, "--arg %s: one of%s is expected", arg->word, every_kind);
    arg->kind = (enum exec_kind)kind;
    if (!is_buffer(arg->kind)) return read_value(rest, arg) ? EXIT_DONE : bad_word(line, arg);
    arg->path = rest;
    if (arg->kind == EXEC_OUT) {
        char digits[24] = "";
        size_t count = strcspn(rest, ":");
        if (rest[count] == '\0' || count >= sizeof digits) return bad_word(line, arg);
        memcpy(digits, rest, count);
        if (!word_number(digits, (uint64_t)1 << 40, &arg->bytes) || arg->bytes == 0)
            return usage_error(line, "--arg %s: a buffer has 1 to %llu bytes", arg->word, 1ull << 40);
        arg->path = rest + count + 1;
        arg->host = calloc(1, arg->bytes);
        if (arg->host == NULL) {
            complain(line, "--arg %s: no memory for %llu bytes", arg->word, (unsigned long long)arg->bytes);
            return EXIT_WORK;
        }
    }
    if (arg->path[0] == '\0') return bad_word(line, arg);
    enum exit_code code = arg->kind == EXEC_OUT ? EXIT_DONE : read_file(line, arg, room);
    return code == EXIT_DONE && is_written(arg->kind) ? look_at_output(line, arg) : code;
}

enum exit_code exec_args_read(const struct command_line *line, struct exec_args *args) {
    args->count = line->many_count;
    args->list = must(calloc(args->count + 1, sizeof *args->list));
    enum exit_code code = EXIT_DONE;
    uint64_t room = input_file_room();
    for (size_t i = 0; i < args->count && code == EXIT_DONE; i++) {
        args->list[i].word = line->many[i];
        code = read_word(line, &args->list[i], &room);
        for (size_t j = 0; j < i && code == EXIT_DONE; j++)
            if (is_written(args->list[i].kind) && is_written(args->list[j].kind) &&
                strcmp(args->list[i].path, args->list[j].path) == 0)
                code = usage_error(line, "--arg %s: '%s' is written by another argument", args->list[i].word,
                                   args->list[i].path);
    }
    return code;
}

/* ---- against the entry ---- */
static void show_entry(const struct exec_args *args, const struct ptx_entry *entry) {
    for (size_t i = 0; i < entry->count || i < args->count; i++)
        fprintf(stderr, "dcpk:   %2zu  %-60s %s\n", i + 1, i < entry->count ? entry->parameters[i].text : "(none)",
                i < args->count ? args->list[i].word : "(not given)");
}

enum exit_code exec_args_fit(const struct command_line *line, const struct exec_args *args,
                             const struct ptx_entry *entry) {
    if (args->count != entry->count) {
        complain(line, "%s has %zu parameters, and %zu arguments are given:", entry->name, entry->count, args->count);
        show_entry(args, entry);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < args->count; i++) {
        const struct exec_arg *arg = &args->list[i];
        uint64_t bytes = arg->kind == EXEC_BYTES ? arg->bytes : kinds[arg->kind].bytes;
        if (entry->parameters[i].bytes == 0 || entry->parameters[i].bytes == bytes) continue;
        complain(line, "%s: parameter %zu has %llu bytes, and --arg %s has %llu:", entry->name, i + 1,
                 (unsigned long long)entry->parameters[i].bytes, arg->word, (unsigned long long)bytes);
        show_entry(args, entry);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

/* ---- on the device ---- */
void *exec_arg_value(struct exec_arg *arg) {
    return arg->kind == EXEC_BYTES ? arg->host : &arg->value;
}

/* The CPU device's memory checker is to report writes to it; other devices have no such thing. */
static dcpk_status mark_input(const struct exec_arg *arg, const dcpk_device *device, dcpk_error *error) {
    int (*mark)(uint64_t, uint64_t, int) = NULL;
    void *symbol = dcpk_device_symbol(device, "dcpkcpu_mark");
    memcpy(&mark, &symbol, sizeof mark);
    if (mark == NULL || mark(arg->value, arg->bytes, DCPKCPU_MARK_INPUT) == 0) return DCPK_OK;
    return tool_fail(error, DCPK_E_NOMEM, "--arg %s: no memory to mark it as an input", arg->word);
}

dcpk_status exec_args_place(struct exec_args *args, dcpk_device *device, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (size_t i = 0; i < args->count && status == DCPK_OK; i++) {
        struct exec_arg *arg = &args->list[i];
        if (!is_buffer(arg->kind) || arg->bytes == 0) continue; /* no bytes: the null address */
        status = dcpk_mem_alloc(device, arg->bytes, &arg->value, error);
        if (status == DCPK_OK) status = dcpk_mem_write(device, arg->value, arg->host, arg->bytes, error);
        if (status == DCPK_OK && arg->kind == EXEC_IN) status = mark_input(arg, device, error);
    }
    return status;
}

dcpk_status exec_args_collect(struct exec_args *args, dcpk_device *device, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (size_t i = 0; i < args->count; i++) {
        struct exec_arg *arg = &args->list[i];
        if (!is_buffer(arg->kind) || arg->value == 0) continue;
        if (status == DCPK_OK && is_written(arg->kind))
            status = dcpk_mem_read(device, arg->host, arg->value, arg->bytes, error);
        (void)dcpk_mem_free(device, arg->value, NULL);
        arg->value = 0;
    }
    return status;
}

enum exit_code exec_args_write(const struct command_line *line, const struct exec_args *args) {
    for (size_t i = 0; i < args->count; i++)
        if (is_written(args->list[i].kind) &&
            !output_write(line, args->list[i].path, args->list[i].host, args->list[i].bytes))
            return EXIT_WORK;
    return EXIT_DONE;
}

void exec_args_free(struct exec_args *args) {
    for (size_t i = 0; i < args->count; i++)
        free(args->list[i].host);
    free(args->list);
}
