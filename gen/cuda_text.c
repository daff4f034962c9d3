/* cuda_text.c - owns the rules of a template's CUDA C++ text. The keys hold the template files and nothing else, so the
 * text may not read files (#include, __has_include, #embed) or the clock (__TIME__ ...); the line map holds its lines,
 * so it may not renumber them (#line). A list says which directives and pragmas may stand; words are not put together
 * by ##, which could spell any of them.
 * Reads the text as the preprocessor does: lines joined by `\`, comments, strings, raw strings. Must not know Lua. */
#include "gen/cuda_text.h"

#include "runtime/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WORD = 64 };

struct reader {
    const struct expansion *x;
    const char *at;  /* the next letter, behind joined line ends */
    uint32_t line;   /* of at */
    bool line_start; /* nothing but blanks and comments since the line began, or since one ended inside a comment */
    bool directive;  /* the line is one */
    dcpk_status status;
    dcpk_error *error;
};

static void complain(struct reader *r, uint32_t line, const char *message) {
    if (r->status != DCPK_OK) return;
    r->status = dcpk_error_set(r->error, DCPK_E_TEMPLATE, "%s", "");
    expansion_blame(r->x, line, message, r->error);
}

/* A `\` at a line's end joins it with the next: neither is there for what reads on. */
static void join(struct reader *r) {
    while (r->at[0] == '\\' && r->at[1] == '\n') {
        r->at += 2;
        r->line++;
    }
}

static void advance(struct reader *r) {
    if (*r->at == '\0') return;
    r->line += *r->at == '\n';
    r->at++;
    join(r);
}

/* The letter behind the next one. */
static char second(const struct reader *r) {
    struct reader ahead = *r;
    advance(&ahead);
    return *ahead.at;
}

static bool letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

static bool digit(char c) {
    return c >= '0' && c <= '9';
}

/* ---- what is passed over ---- */

static void pass_line_comment(struct reader *r) {
    while (*r->at != '\0' && *r->at != '\n')
        advance(r);
}

static void pass_block_comment(struct reader *r) {
    advance(r);
    advance(r);
    for (; *r->at != '\0' && !(*r->at == '*' && second(r) == '/'); advance(r))
        r->line_start = r->line_start || *r->at == '\n'; /* so do compilers, whatever stands before the comment */
    advance(r);
    advance(r);
}

/* Blanks and comments of the line: a comment that goes on over line ends counts as one blank. */
static void pass_blanks(struct reader *r) {
    for (;;) {
        if (*r->at == ' ' || *r->at == '\t')
            advance(r);
        else if (*r->at == '/' && second(r) == '*')
            pass_block_comment(r);
        else if (*r->at == '/' && second(r) == '/')
            pass_line_comment(r);
        else
            return;
    }
}

/* A text or letter in quotes; one that is not closed ends with its line. */
static void pass_quoted(struct reader *r) {
    char quote = *r->at;
    advance(r);
    while (*r->at != '\0' && *r->at != '\n' && *r->at != quote) {
        if (*r->at == '\\' && second(r) != '\n') advance(r);
        advance(r);
    }
    if (*r->at == quote) advance(r);
}

/* R"mark( ... )mark": the bytes as they are, no line is joined. at: the quote. */
static void pass_raw(struct reader *r) {
    char end[MAX_WORD];
    const char *mark = r->at + 1, *stop;
    size_t length = strcspn(mark, "(\n");
    if (mark[length] != '(' || length > 16) {
        pass_quoted(r);
        return;
    }
    snprintf(end, sizeof end, ")%.*s\"", (int)length, mark);
    stop = strstr(mark + length + 1, end);
    stop = stop != NULL ? stop + strlen(end) : r->at + strlen(r->at);
    if (r->directive && memchr(r->at, '\n', (size_t)(stop - r->at)) != NULL)
        complain(r, r->line, "a raw string of a preprocessor line ends on it: compilers disagree about what follows");
    for (; r->at < stop; r->at++)
        r->line += *r->at == '\n';
    join(r);
}

/* A number with all that belongs to it: 1'000'000, 0x1p-3f, 1e+5. */
static void pass_number(struct reader *r) {
    char before = '\0';
    while (letter(*r->at) || digit(*r->at) || *r->at == '.' ||
           (*r->at == '\'' && (letter(second(r)) || digit(second(r)))) ||
           ((*r->at == '+' || *r->at == '-') && before != '\0' && strchr("eEpP", before) != NULL)) {
        before = *r->at;
        advance(r);
    }
}

/* The name at `at`, cut after MAX_WORD - 1 letters; "" when none stands there. */
static void take_word(struct reader *r, char word[MAX_WORD]) {
    size_t used = 0;
    for (; letter(*r->at) || (used > 0 && digit(*r->at)); advance(r))
        if (used + 1 < MAX_WORD) word[used++] = *r->at;
    word[used] = '\0';
}

/* ---- rules ---- */

static bool among(const char *word, const char *const *words) {
    while (*words != NULL && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

static void check_word(struct reader *r, uint32_t line, const char *word) {
    static const char *const files[] = {"__has_include", "__has_include_next", "__has_embed", NULL},
                             *const clocks[] = {"__TIME__", "__DATE__", "__TIMESTAMP__", NULL};
    char message[200];
    message[0] = '\0';
    if (among(word, files))
        snprintf(message, sizeof message,
                 "%s: CUDA C++ of a template looks at no file: its bytes would not be in the keys; `include` reads a "
                 "template library",
                 word);
    if (among(word, clocks))
        snprintf(message, sizeof message, "%s: an image does not depend on when it was built: no key holds a time",
                 word);
    if (message[0] != '\0') complain(r, line, message);
}

static void check_pragma_word(struct reader *r, uint32_t line, const char *word) {
    static const char *const harmless[] = {
        "unroll",          "nounroll",      "nv_diag_suppress", "nv_diag_default", "nv_diag_remark",
        "nv_diag_warning", "nv_diag_error", "nv_diag_once",     "nv_diagnostic",   NULL};
    char message[240];
    if (among(word, harmless)) return;
    snprintf(message, sizeof message,
             "pragma '%.40s': pragmas of a template's CUDA C++ are unroll, nounroll, nv_diag_suppress, _default, "
             "_remark, _warning, _error, _once and nv_diagnostic",
             word);
    complain(r, line, message);
}

static void check_directive(struct reader *r, uint32_t line) {
    static const char *const allowed[] = {"define",   "undef", "if",    "ifdef",   "ifndef", "elif", "elifdef",
                                          "elifndef", "else",  "endif", "warning", "error",  NULL},
                             *const files[] = {"include", "include_next", "import", "embed", NULL};
    char word[MAX_WORD], message[200];
    pass_blanks(r);
    if (*r->at == '\n' || *r->at == '\0') return; /* a # alone says nothing */
    take_word(r, word);
    if (strcmp(word, "pragma") == 0) {
        pass_blanks(r);
        take_word(r, word);
        check_pragma_word(r, line, word);
        return;
    }
    if (among(word, allowed)) return;
    if (among(word, files))
        snprintf(message, sizeof message,
                 "#%s: CUDA C++ of a template reads no file: its bytes would not be in the keys; `include` reads a "
                 "template library",
                 word);
    else if (strcmp(word, "line") == 0 || word[0] == '\0')
        snprintf(message, sizeof message, "#line: lines are the template's; messages and profilers are led there");
    else
        snprintf(message, sizeof message, "#%.40s: a template's CUDA C++ has no such directive", word);
    complain(r, line, message);
}

/* at: behind _Pragma or __pragma. */
static void check_operator(struct reader *r, uint32_t line) {
    char word[MAX_WORD];
    pass_blanks(r);
    if (*r->at == '(') advance(r);
    pass_blanks(r);
    struct reader inside = *r;
    if (*inside.at == '"') advance(&inside);
    pass_blanks(&inside);
    take_word(&inside, word);
    check_pragma_word(r, line, word);
}

static void read_word(struct reader *r) {
    static const char *const raw[] = {"R", "LR", "uR", "UR", "u8R", NULL}, *const pragma[] = {"_Pragma", "__pragma",
                                                                                              NULL};
    char word[MAX_WORD];
    uint32_t line = r->line;
    take_word(r, word);
    if (*r->at == '"' && among(word, raw))
        pass_raw(r);
    else if (among(word, pragma))
        check_operator(r, line);
    else
        check_word(r, line, word);
}

/* at: a `#`, or the `:` of a `%:`, which means the same. */
static void read_hash(struct reader *r, uint32_t line) {
    r->directive = r->directive || r->line_start;
    advance(r);
    if (*r->at == '#' || (*r->at == '%' && second(r) == ':'))
        complain(r, line, "##: a template puts words together in Lua, $(...), and not in CUDA C++");
    else if (r->line_start)
        check_directive(r, line);
}

static void read_token(struct reader *r) {
    if (*r->at == '\n') {
        advance(r);
        r->line_start = true;
        r->directive = false;
        return;
    }
    uint32_t line = r->line;
    bool digraph = *r->at == '%' && second(r) == ':';
    if (digraph) advance(r);
    if (digraph || *r->at == '#')
        read_hash(r, line);
    else if (letter(*r->at))
        read_word(r);
    else if (digit(*r->at) || (*r->at == '.' && digit(second(r))))
        pass_number(r);
    else if (*r->at == '"' || *r->at == '\'')
        pass_quoted(r);
    else
        advance(r);
    r->line_start = false;
}

dcpk_status cuda_text_check(const struct expansion *x, dcpk_error *error) {
    struct reader r = {.x = x, .at = x->ptx, .line = 1, .line_start = true, .error = error};
    join(&r);
    for (pass_blanks(&r); *r.at != '\0' && r.status == DCPK_OK; pass_blanks(&r))
        read_token(&r);
    return r.status;
}
