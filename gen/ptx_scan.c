/* ptx_scan.c - owns the cutting of PTX text into statements. Must not know what an instruction means. */
#include "gen/ptx_scan.h"

#include <string.h>

void ptx_scan(struct ptx_scanner *s, const char *text, size_t length) {
    *s = (struct ptx_scanner){text, text + length, 1};
}

bool ptx_text_is(struct ptx_text text, const char *word) {
    return strlen(word) == text.length && memcmp(word, text.at, text.length) == 0;
}

static bool word_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '%';
}

bool ptx_part(struct ptx_text opcode, size_t *from, struct ptx_text *part) {
    if (*from > opcode.length) return false;
    const char *start = opcode.at + *from, *end = opcode.at + opcode.length;
    const char *dot = memchr(start, '.', (size_t)(end - start));
    part->at = start;
    part->length = (size_t)((dot != NULL ? dot : end) - start);
    *from += part->length + 1;
    return true;
}

struct ptx_text ptx_word(struct ptx_text text) {
    const char *end = text.at + text.length;
    while (text.at < end && strchr(" \t\r\n", *text.at) != NULL)
        text.at++;
    const char *at = text.at;
    while (at < end && word_letter(*at))
        at++;
    text.length = (size_t)(at - text.at);
    return text;
}

/* Past the comment at `at`; NULL when none stands there. */
static const char *past_comment(const char *at, const char *end) {
    if (end - at < 2 || at[0] != '/') return NULL;
    if (at[1] == '/') {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        return newline != NULL ? newline : end;
    }
    if (at[1] != '*') return NULL;
    for (at += 2; at < end; at++)
        if (at + 1 < end && at[0] == '*' && at[1] == '/') return at + 2;
    return end;
}

static void advance(struct ptx_scanner *s, const char *to) {
    for (; s->at < to; s->at++)
        s->line += *s->at == '\n';
}

static void skip_blanks(struct ptx_scanner *s) {
    const char *comment;
    while (s->at < s->end) {
        if (*s->at == ' ' || *s->at == '\n' || *s->at == ';' || *s->at == '\t' || *s->at == '\r')
            advance(s, s->at + 1);
        else if ((comment = past_comment(s->at, s->end)) != NULL)
            advance(s, comment);
        else
            return;
    }
}

static bool holds(const char *at, const char *end, const char *word) {
    return memmem(at, (size_t)(end - at), word, strlen(word)) != NULL;
}

static bool begins(const char *at, const char *end, const char *word) {
    size_t length = strlen(word);
    return (size_t)(end - at) >= length && memcmp(at, word, length) == 0;
}

/* Directives that end with their line instead of a `;`. */
static bool line_directive(struct ptx_text name) {
    static const char *const names[] = {".version", ".target", ".address_size", ".file", ".loc"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (ptx_text_is(name, names[i])) return true;
    return false;
}

/* Where the statement that begins at s->at ends: before `;`, a label's `:`, the `{` of an entry, or the line's end. */
static const char *statement_end(const struct ptx_scanner *s, bool *is_label) {
    const char *start = s->at, *at = start, *comment;
    struct ptx_text name = {start, 0};
    bool only_word = true;
    while (start + name.length < s->end && (word_letter(start[name.length]) || start[name.length] == '.'))
        name.length++;
    bool by_line = line_directive(name), function = false;
    for (*is_label = false; at < s->end; at++) {
        if ((comment = past_comment(at, s->end)) != NULL) {
            if (by_line) return at;
            at = comment - 1;
        } else if (*at == ';' || (by_line && *at == '\n')) {
            return at;
        } else if (*at == ':' && only_word) {
            *is_label = true;
            return at;
        } else if (*at == '"') {
            const char *quote = memchr(at + 1, '"', (size_t)(s->end - at - 1));
            at = quote != NULL ? quote : s->end - 1;
        } else if (*at == '.' && *start == '.') {
            function = function || begins(at, s->end, ".entry") || begins(at, s->end, ".func");
        } else if (*at == '{' && function) {
            return at;
        }
        only_word = only_word && word_letter(*at);
    }
    return at;
}

static void split(struct ptx_statement *st, const char *at, const char *end) {
    if (at < end && *at == '@') {
        st->guarded = true;
        at++;
        while (at < end && (word_letter(*at) || *at == '!'))
            at++;
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
            at++;
    }
    st->name.at = at;
    while (at < end && (word_letter(*at) || *at == '.' || *at == ':'))
        at++;
    st->name.length = (size_t)(at - st->name.at);
    st->rest = (struct ptx_text){at, (size_t)(end - at)};
}

struct ptx_statement ptx_next(struct ptx_scanner *s) {
    skip_blanks(s);
    struct ptx_statement st = {.kind = PTX_END, .line = s->line, .name = {s->at, 0}, .rest = {s->at, 0}};
    if (s->at == s->end) return st;
    if (*s->at == '{' || *s->at == '}') {
        st.kind = *s->at == '{' ? PTX_OPEN : PTX_CLOSE;
        advance(s, s->at + 1);
        return st;
    }
    bool is_label;
    const char *end = statement_end(s, &is_label);
    split(&st, s->at, end);
    if (is_label) {
        st.kind = PTX_LABEL;
        end++;
    } else if (*s->at == '.') {
        st.kind = holds(s->at, end, ".entry") ? PTX_ENTRY : PTX_DIRECTIVE;
    } else {
        st.kind = PTX_INSTRUCTION;
    }
    if (end == s->at) end++; /* a letter that begins nothing: never stand still */
    advance(s, end);
    return st;
}
