/* conform_cover.c - the instructions and special registers of a PTX text, by name. Knows no more of PTX than where a
 * statement begins: comments, strings, directives, labels and predicates are passed over. */
#include "conform.h"

#include "command.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAME = 160 };

struct scan {
    const char *at;
    unsigned line;
    conform_seen *seen;
    void *self;
};

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static void skip_blanks(struct scan *s) {
    for (; *s->at != '\0'; s->at++) {
        if (s->at[0] == '/' && s->at[1] == '/') {
            s->at += strcspn(s->at, "\n");
        } else if (s->at[0] == '/' && s->at[1] == '*') {
            const char *end = strstr(s->at + 2, "*/");
            for (; *s->at != '\0' && s->at != end; s->at++)
                s->line += *s->at == '\n';
            s->at += *s->at != '\0';
        }
        if (*s->at == '\0') return;
        s->line += *s->at == '\n';
        if (!isspace((unsigned char)*s->at) && *s->at != '/') return;
    }
}

/* PTX's own names; templates and compilers call their registers %name, too. */
static bool is_special(const char *name) {
    static const char names[] =
        " %tid %ntid %laneid %warpid %nwarpid %ctaid %nctaid %smid %nsmid %gridid "
        "%is_explicit_cluster %clusterid %nclusterid %cluster_ctaid %cluster_nctaid "
        "%cluster_ctarank %cluster_nctarank %lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge "
        "%lanemask_gt %clock %clock_hi %clock64 %globaltimer %globaltimer_lo %globaltimer_hi "
        "%total_smem_size %dynamic_smem_size %aggr_smem_size %reserved_smem_offset_begin "
        "%reserved_smem_offset_end %current_graph_exec ";
    char word[MOST_NAME + 3];
    if (strncmp(name, "%envreg", 7) == 0 && isdigit((unsigned char)name[7])) return true;
    snprintf(word, sizeof word, " %.*s ", (int)strcspn(name, "."), name);
    return strstr(names, word) != NULL;
}

/* Special registers in the rest of a statement, up to its end or the brace that opens a body. */
static void scan_operands(struct scan *s, bool directive) {
    unsigned depth = 0;
    bool values = false; /* of a variable: braces are its own */
    for (; *s->at != '\0'; s->at++) {
        char c = *s->at;
        s->line += c == '\n';
        if (c == '/' && (s->at[1] == '/' || s->at[1] == '*')) {
            skip_blanks(s);
            s->at--;
        } else if (c == '"') {
            s->at += strcspn(s->at + 1, "\"\n") + 1;
        } else if (c == '=') {
            values = true;
        } else if (c == '(') {
            depth++;
        } else if (c == ')') {
            depth -= depth > 0;
        } else if (c == ';') {
            return;
        } else if ((c == '{' || c == '}') && directive && depth == 0 && !values) {
            s->at--;
            return;
        } else if (c == '%' && !directive) {
            size_t length = 1;
            while (in_word(s->at[length]) || (s->at[length] == '.' && strchr("xyzw", s->at[length + 1]) != NULL))
                length++;
            char name[MOST_NAME];
            snprintf(name, sizeof name, "%.*s", (int)length, s->at);
            if (is_special(name)) s->seen(s->self, name, s->line);
            s->at += length - 1;
        }
        if (*s->at == '\0') return;
    }
}

/* Directives that end with their line. */
static bool is_of_a_line(const char *name) {
    static const char *const names[] = {".version", ".target", ".address_size", ".loc", ".file"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static void scan_statement(struct scan *s) {
    if (*s->at == '@') { /* a predicate */
        s->at++;
        while (*s->at == '!' || in_word(*s->at))
            s->at++;
        skip_blanks(s);
    }
    size_t length = 0;
    while (in_word(s->at[length]) || s->at[length] == '.' || (s->at[length] == ':' && s->at[length + 1] == ':') ||
           (s->at[length] == ':' && length > 0 && s->at[length - 1] == ':'))
        length++;
    if (s->at[length] == ':') { /* a label, with what stands behind it */
        s->at += length + 1;
        return;
    }
    bool directive = s->at[0] == '.' || length == 0;
    char name[MOST_NAME];
    snprintf(name, sizeof name, "%.*s", (int)length, s->at);
    unsigned line = s->line;
    s->at += length;
    if (is_of_a_line(name)) {
        s->at += strcspn(s->at, "\n");
        return;
    }
    if (!directive) s->seen(s->self, name, line);
    scan_operands(s, directive);
    if (*s->at != '\0') s->at++;
}

void conform_scan(const char *ptx, conform_seen *seen, void *self) {
    struct scan s = {ptx, 1, seen, self};
    for (skip_blanks(&s); *s.at != '\0'; skip_blanks(&s)) {
        if (*s.at == '{' || *s.at == '}' || *s.at == ';')
            s.at++;
        else
            scan_statement(&s);
    }
}

/* ---- what is covered ---- */
struct conform_cover {
    size_t count;
    const char *names[];
};

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct conform_cover *conform_cover_make(const struct conform_list *list) {
    struct conform_cover *cover = must(malloc(sizeof *cover + 2 * list->count * sizeof cover->names[0]));
    cover->count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *tag = list->forms[i].row->tag; /* of a special register's form: its name, with words behind it */
        cover->names[cover->count++] = list->forms[i].instruction;
        if (tag[0] == '%' && strchr(tag, ' ') == NULL) cover->names[cover->count++] = tag;
    }
    qsort(cover->names, cover->count, sizeof cover->names[0], by_text);
    return cover;
}

void conform_cover_free(struct conform_cover *cover) {
    free(cover);
}

bool conform_covers(const struct conform_cover *cover, const char *name) {
    return bsearch(&name, cover->names, cover->count, sizeof cover->names[0], by_text) != NULL;
}
