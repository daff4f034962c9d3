/* conform_list.c - the rows of conform_*.def, each expanded to its forms: every choice of its pattern. May call:
 * nothing but the tables and the references that they name. */
#include "conform_rows.h"

#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct conform_row rows[] = {
#define F(tag, pattern, body, inputs, out, flags, reference)                                                           \
    {tag, pattern, body, inputs, out, flags, reference, #reference, CONFORM_FILE},
#define CONFORM_FILE "conform_int.def"
#include "conform_int.def"
#undef CONFORM_FILE
#define CONFORM_FILE "conform_float.def"
#include "conform_float.def"
#undef CONFORM_FILE
#define CONFORM_FILE "conform_cvt.def"
#include "conform_cvt.def"
#undef CONFORM_FILE
#define CONFORM_FILE "conform_memory.def"
#include "conform_memory.def"
#undef CONFORM_FILE
#define CONFORM_FILE "conform_warp.def"
#include "conform_warp.def"
#undef CONFORM_FILE
#define CONFORM_FILE "conform_async.def"
#include "conform_async.def"
#undef CONFORM_FILE
#define CONFORM_FILE "conform_matrix.def"
#include "conform_matrix.def"
#undef CONFORM_FILE
#undef F
};

static const struct conform_type types[] = {
    {"b8", 16, 8, 'b'},     {"u8", 16, 8, 'u'},      {"s8", 16, 8, 's'},      {"b16", 16, 16, 'b'},
    {"u16", 16, 16, 'u'},   {"s16", 16, 16, 's'},    {"b32", 32, 32, 'b'},    {"u32", 32, 32, 'u'},
    {"s32", 32, 32, 's'},   {"b64", 64, 64, 'b'},    {"u64", 64, 64, 'u'},    {"s64", 64, 64, 's'},
    {"f16", 16, 16, 'f'},   {"bf16", 16, 16, 'f'},   {"f32", 32, 32, 'f'},    {"f64", 64, 64, 'f'},
    {"tf32", 32, 32, 'f'},  {"f16x2", 32, 32, 'x'},  {"bf16x2", 32, 32, 'x'}, {"u16x2", 32, 32, 'x'},
    {"s16x2", 32, 32, 'x'}, {"e4m3x2", 16, 16, 'x'}, {"e5m2x2", 16, 16, 'x'}, {"pred", 1, 0, 'p'},
};

const struct conform_type *conform_type_find(const char *name) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

static int find_word(const struct conform_form *form, const char *list) {
    int at = 0;
    for (const char *word = list; *word != '\0'; at++) {
        size_t length = strcspn(word, " ");
        for (unsigned i = 1; i < form->word_count; i++)
            if (strlen(form->words[i]) == length && strncmp(form->words[i], word, length) == 0) return at;
        word += length + (word[length] == ' ');
    }
    return -1;
}

/* References ask the same for every input. */
int conform_which(const struct conform_form *form, const char *list) {
    const struct conform_memo *known = &form->memos[(uintptr_t)list / 8 % CONFORM_MEMOS];
    if (known->list == list) return known->at;
    struct conform_memo *memo = (struct conform_memo *)(uintptr_t)known; /* forms are made without const */
    memo->at = find_word(form, list);
    memo->list = list;
    return memo->at;
}

bool conform_has(const struct conform_form *form, const char *word) {
    return conform_which(form, word) >= 0;
}

/* ---- one form ---- */
static void split_words(struct conform_form *form) {
    memcpy(form->split, form->instruction, sizeof form->split);
    char *at = form->split;
    while (at != NULL && form->word_count < CONFORM_MODIFIERS) {
        char *dot = strchr(at, '.');
        if (dot != NULL) *dot++ = '\0';
        form->words[form->word_count++] = at;
        at = dot;
    }
}

/* They point into the form: it may not move any more. */
static void read_words(struct conform_form *form) {
    split_words(form);
    form->vector = conform_has(form, "v4") ? 4 : conform_has(form, "v2") ? 2 : 1;
    for (unsigned i = 1; i < form->word_count; i++) {
        const struct conform_type *type = conform_type_find(form->words[i]);
        if (type == NULL) continue;
        if (form->first == NULL) form->first = type;
        form->last = type;
    }
    form->out = form->row->out;
    if (form->out == '+') form->out = form->last->bits == 32 ? 'l' : 'w'; /* a result of twice the width */
    if (form->out == '*') {
        unsigned bits = form->first != NULL ? form->first->bits : 32;
        form->out = (char)(bits == 64 ? 'l' : bits == 32 ? 'w' : bits == 16 ? 'h' : 'p');
    }
}

static void name_form(struct conform_form *form, const struct conform_row *row, const char *instruction) {
    *form = (struct conform_form){.row = row};
    snprintf(form->instruction, sizeof form->instruction, "%s", instruction);
    snprintf(form->name, sizeof form->name, "%.112s%s%.40s", instruction, row->tag[0] != '\0' ? " " : "", row->tag);
}

void conform_form_make(struct conform_form *form, const struct conform_row *row, const char *instruction) {
    name_form(form, row, instruction);
    read_words(form);
}

static void add_form(struct conform_list *list, const struct conform_row *row, const char *instruction) {
    if (list->count % 64 == 0) list->forms = must(realloc(list->forms, (list->count + 64) * sizeof *list->forms));
    name_form(&list->forms[list->count++], row, instruction);
}

/* Every choice of what is left of a pattern behind what is already there. */
static void expand(struct conform_list *list, const struct conform_row *row, char *name, size_t used,
                   const char *pattern) {
    size_t plain = strcspn(pattern, "{(");
    memcpy(name + used, pattern, plain);
    used += plain;
    name[used] = '\0';
    pattern += plain;
    if (*pattern == '\0') {
        add_form(list, row, name);
        return;
    }
    const char *end = strpbrk(pattern, "})");
    if (*pattern == '{') expand(list, row, name, used, end + 1);
    for (const char *at = pattern + 1; at <= end; at += strcspn(at, "|})") + 1) {
        size_t length = strcspn(at, "|})");
        memcpy(name + used, at, length);
        expand(list, row, name, used + length, end + 1);
    }
}

struct conform_list conform_list_make(void) {
    struct conform_list list = {NULL, 0};
    char name[CONFORM_NAME];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expand(&list, &rows[i], name, 0, rows[i].pattern);
    for (size_t i = 0; i < list.count; i++)
        read_words(&list.forms[i]);
    return list;
}

void conform_list_free(struct conform_list *list) {
    free(list->forms);
    *list = (struct conform_list){NULL, 0};
}
