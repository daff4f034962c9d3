/* translate.c - owns the template syntax: a line whose first non-blank is `|` becomes one emit call on the same line;
 * everything else is Lua and passes untouched. Knows just enough of Lua's lexer (strings, long brackets, comments) to
 * tell a `|` line from a bar inside one of those. Must not know PTX. */
#include "gen/translate.h"
#include "runtime/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PIECES = 200 }; /* arguments of one call: Lua has at most 250 registers a function */

struct translation {
    const struct source_file *file;
    const char *at, *end; /* what is still to be read */
    uint32_t line;        /* of at */
    int level;            /* -1 outside; else `=` signs of the long bracket that at is in */
    char quote;           /* 0 outside; else the quote of the short string that at is in */
    int skips;            /* 1 behind a string's `\z`: blanks and line ends are skipped */
    char *out;
    size_t length, capacity;
    dcpk_status status;
    dcpk_error *error;
};

static void complain(struct translation *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void complain(struct translation *t, const char *format, ...) {
    char message[256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (t->status != DCPK_OK) return;
    t->status = dcpk_error_set(t->error, DCPK_E_TEMPLATE, "%s:%u: %s", t->file->name, t->line, message);
    dcpk_error_blame(t->error, t->file->name, t->line);
}

static void put(struct translation *t, const char *text, size_t length) {
    if (t->out == NULL || t->length + length + 1 > t->capacity) {
        size_t capacity = (t->length + length + 1) * 2;
        char *more = realloc(t->out, capacity);
        if (more == NULL) {
            if (t->status == DCPK_OK) t->status = dcpk_error_set(t->error, DCPK_E_NOMEM, "no memory for a template");
            return;
        }
        t->out = more;
        t->capacity = capacity;
    }
    memcpy(t->out + t->length, text, length);
    t->length += length;
}

/* One byte of PTX text inside a double-quoted Lua string. */
static void put_quoted(struct translation *t, char c) {
    char escape[8];
    unsigned char byte = (unsigned char)c;
    if (byte >= 0x20 && c != '"' && c != '\\')
        put(t, &c, 1);
    else
        put(t, escape, (size_t)snprintf(escape, sizeof escape, "\\%03u", byte));
}

/* Signs of the long bracket that opens at `at`, -1 when none does. */
static int long_bracket(const char *at, const char *end) {
    int level = 0;
    if (at == end || *at != '[') return -1;
    for (at++; at < end && *at == '='; at++)
        level++;
    return at < end && *at == '[' ? level : -1;
}

/* The end of the short string whose quote stands at `at`; line_end when it is not closed. */
static const char *string_end(const char *at, const char *line_end) {
    char quote = *at++;
    for (; at < line_end; at++) {
        if (*at == '\\' && at + 1 < line_end)
            at++;
        else if (*at == quote)
            return at + 1;
    }
    return line_end;
}

/* Behind the `]==]` that closes a long bracket whose contents begin at `at`; NULL when it is not on this line. */
static const char *long_close(const char *at, int level, const char *line_end) {
    for (; at + level + 1 < line_end; at++)
        if (*at == ']' && strspn(at + 1, "=") == (size_t)level && at[level + 1] == ']') return at + level + 2;
    return NULL;
}

/* at: behind "$(". Copies the expression in parentheses; returns what follows its ")", NULL when malformed. */
static const char *expression(struct translation *t, const char *at, const char *line_end) {
    const char *start = at;
    for (int depth = 1; at < line_end;) {
        int level = long_bracket(at, line_end);
        if (*at == '"' || *at == '\'') {
            at = string_end(at, line_end);
        } else if (level >= 0) {
            at = long_close(at + level + 2, level, line_end);
            if (at == NULL) at = line_end;
        } else if (*at == '-' && at + 1 < line_end && at[1] == '-') {
            complain(t, "a comment cannot stand inside $( )");
            return NULL;
        } else {
            depth += (*at == '(') - (*at == ')');
            if (depth == 0) break;
            at++;
        }
    }
    if (at >= line_end) {
        size_t length = (size_t)(line_end - start);
        complain(t, "$( is not closed on this line: $(%.*s", (int)(length < 60 ? length : 60), start);
        return NULL;
    }
    if (start + strspn(start, " \t") >= at) {
        complain(t, "$( ) is empty");
        return NULL;
    }
    put(t, "(", 1);
    put(t, start, (size_t)(at - start));
    put(t, ")", 1);
    return at + 1;
}

/* at: behind the bar, which itself counts as a blank before a blank: columns of the PTX are those of the template.
 * The leading `;` makes a bar inside an unfinished Lua expression a syntax error of this line. */
static void ptx_line(struct translation *t, const char *at, const char *line_end) {
    int pieces = 1;
    while (line_end > at && (line_end[-1] == ' ' || line_end[-1] == '\t' || line_end[-1] == '\r'))
        line_end--;
    put(t, ";" TRANSLATE_EMIT "(\"", sizeof(";" TRANSLATE_EMIT "(\"") - 1);
    put(t, " ", at < line_end && *at == ' ');
    while (at != NULL && at < line_end) {
        if (*at != '$' || at + 1 == line_end || at[1] != '(') {
            put_quoted(t, *at++);
            continue;
        }
        put(t, "\",", 2);
        at = expression(t, at + 2, line_end);
        put(t, ",\"", 2);
        pieces += 2;
    }
    put(t, "\")", 2);
    if (pieces > MAX_PIECES) complain(t, "more than %d $( ) on one line", MAX_PIECES / 2);
}

static int blank(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
        at++;
    return at == end;
}

/* Inside a short string at `at`. A string goes on over a line's end only behind `\` or `\z`: else it is Lua's to
 * refuse. */
static const char *in_string(struct translation *t, const char *at, const char *line_end) {
    if (t->skips && blank(at, line_end)) return line_end;
    for (t->skips = 0; at < line_end; at++) {
        if (*at == t->quote) {
            t->quote = 0;
            return at + 1;
        }
        if (*at != '\\') continue;
        if (++at < line_end && *at == 'z') t->skips = blank(at + 1, line_end);
        if (t->skips || blank(at, line_end)) return line_end;
    }
    t->quote = 0;
    return line_end;
}

static const char *in_long_bracket(struct translation *t, const char *at, const char *line_end) {
    const char *close = long_close(at, t->level, line_end);
    if (close == NULL) return line_end;
    t->level = -1;
    return close;
}

/* Follows strings and comments over one Lua line, so that the next line's state is known. */
static void lua_line(struct translation *t, const char *line_end) {
    const char *at = t->at;
    put(t, at, (size_t)(line_end - at));
    while (at < line_end) {
        if (t->level >= 0) {
            at = in_long_bracket(t, at, line_end);
        } else if (t->quote != 0) {
            at = in_string(t, at, line_end);
        } else if (*at == '"' || *at == '\'') {
            t->quote = *at++;
            if (at == line_end) t->quote = 0;
        } else if (*at == '-' && at + 1 < line_end && at[1] == '-') {
            t->level = long_bracket(at + 2, line_end);
            at = t->level < 0 ? line_end : at + 4 + t->level;
        } else {
            t->level = long_bracket(at, line_end);
            at += t->level < 0 ? 1 : t->level + 2;
        }
    }
}

dcpk_status translate(const struct source_file *file, char **lua, size_t *length, dcpk_error *error) {
    struct translation t = {
        .file = file, .at = file->text, .end = file->text + file->length, .level = -1, .error = error};
    t.line = 1;
    if (file->length >= 3 && memcmp(file->text, "\xEF\xBB\xBF", 3) == 0)
        complain(&t,
                 "the file begins with a byte order mark (EF BB BF), which is no Lua: save it as UTF-8 without one");
    for (; t.at < t.end && t.status == DCPK_OK; t.line++) {
        const char *newline = memchr(t.at, '\n', (size_t)(t.end - t.at));
        const char *line_end = newline != NULL ? newline : t.end;
        const char *first = t.at + strspn(t.at, " \t");
        if (t.level < 0 && t.quote == 0 && first < line_end && *first == '|')
            ptx_line(&t, first + 1, line_end);
        else
            lua_line(&t, line_end);
        put(&t, "\n", newline != NULL);
        t.at = line_end + (newline != NULL);
    }
    put(&t, "", 1);
    if (t.status != DCPK_OK) {
        free(t.out);
        return t.status;
    }
    *lua = t.out;
    *length = t.length - 1;
    return DCPK_OK;
}
