/* ptx_scan.h - PTX text as a sequence of statements: just enough syntax for rules about instructions. */
#ifndef DCPK_GEN_PTX_SCAN_H
#define DCPK_GEN_PTX_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptx_kind { PTX_END, PTX_ENTRY, PTX_OPEN, PTX_CLOSE, PTX_LABEL, PTX_DIRECTIVE, PTX_INSTRUCTION };

struct ptx_text {
    const char *at;
    size_t length;
};

/* Pointers into the text that is scanned. */
struct ptx_statement {
    enum ptx_kind kind;
    uint32_t line;        /* 1-based, of its first letter */
    bool guarded;         /* @%p or @!%p stands before it */
    struct ptx_text name; /* opcode with its dots; label; directive */
    struct ptx_text rest; /* operands, up to and without `;` */
};

struct ptx_scanner {
    const char *at, *end;
    uint32_t line;
};

void ptx_scan(struct ptx_scanner *scanner, const char *text, size_t length);
/* The next statement; kind PTX_END behind the last. An entry's header ends before its `{`. */
struct ptx_statement ptx_next(struct ptx_scanner *scanner);

bool ptx_text_is(struct ptx_text text, const char *word);
/* The dotted parts of an opcode: *from is 0 at first; false behind the last. */
bool ptx_part(struct ptx_text opcode, size_t *from, struct ptx_text *part);
/* The word (label, register) that begins `text` behind blanks. */
struct ptx_text ptx_word(struct ptx_text text);

#endif
