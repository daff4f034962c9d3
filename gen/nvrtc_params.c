/* nvrtc_params.c - compares the parameters of NVRTC's entries with the launch metadata. kernel{} writes the signature,
 * but a macro of the template can still change what it means. Reads PTX text; must not know NVRTC. */
#include "gen/nvrtc.h"

#include "gen/ptx_scan.h"
#include "runtime/error.h"

#include <stdio.h>
#include <string.h>

/* A PTX type: .u32 is {'u', 32}. */
struct kind {
    char letter; /* u, s, f, b; 0: not a plain value */
    int bits;
};

/* One parameter, ".param .u64 .ptr .align 1 NAME" without its comma; an array is not a plain value. */
static struct kind kind_of(const char *at, const char *end) {
    struct kind kind = {0, 0};
    if (memchr(at, '[', (size_t)(end - at)) != NULL) return kind;
    for (; at < end; at++) {
        if (*at != '.' || memchr("usfb", at[1], 4) == NULL || at[2] < '0' || at[2] > '9') continue;
        kind.letter = at[1];
        for (const char *digit = at + 2; digit < end && *digit >= '0' && *digit <= '9' && kind.bits < 1000; digit++)
            kind.bits = kind.bits * 10 + (*digit - '0');
        return kind;
    }
    return kind;
}

/* Signs do not matter, and bits (.b32) may be anything. */
static bool same(struct kind made, const char *type) {
    char text[16];
    int length = snprintf(text, sizeof text, ".%s", type);
    struct kind said = kind_of(text, text + length);
    return made.bits == said.bits && (made.letter == 'b' || (made.letter == 'f') == (said.letter == 'f'));
}

static dcpk_status differ(const struct expansion *x, uint32_t line, const dcpk_entry_info *entry, const char *how,
                          dcpk_error *error) {
    char message[400];
    snprintf(
        message, sizeof message,
        "NVRTC's %s %s: its parameters are those that kernel{} writes, so that launches pass what it reads; does a "
        "#define change their names or types?",
        entry->name, how);
    dcpk_error_set(error, DCPK_E_LINT, "%s", "");
    expansion_blame(x, line, message, error);
    return DCPK_E_LINT;
}

static dcpk_status check(const struct expansion *x, const struct ptx_statement *st, const dcpk_entry_info *entry,
                         dcpk_error *error) {
    const char *at = memchr(st->rest.at, '(', st->rest.length), *stop = st->rest.at + st->rest.length;
    const char *end = at != NULL ? memchr(at, ')', (size_t)(stop - at)) : NULL;
    char how[120];
    uint32_t count = 0;
    for (at = end != NULL ? at + 1 : NULL; at != NULL && memmem(at, (size_t)(end - at), ".param", 6) != NULL; count++) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *last = comma != NULL ? comma : end;
        if (count < entry->param_count && !same(kind_of(at, last), entry->params[count].type)) {
            snprintf(how, sizeof how, "takes another type than %s for %s", entry->params[count].type,
                     entry->params[count].name);
            return differ(x, st->line, entry, how, error);
        }
        at = comma != NULL ? comma + 1 : end;
    }
    if (count == entry->param_count) return DCPK_OK;
    snprintf(how, sizeof how, "takes %u parameters, not %u", count, entry->param_count);
    return differ(x, st->line, entry, how, error);
}

static bool names(const struct ptx_statement *st, const char *name) {
    size_t length = strlen(name);
    const char *at = memmem(st->rest.at, st->rest.length, name, length);
    return at != NULL && (at[length] == '(' || at[length] == '\n');
}

dcpk_status nvrtc_check_params(const struct expansion *x, dcpk_error *error) {
    struct ptx_scanner scanner;
    struct ptx_statement st;
    dcpk_status status = DCPK_OK;
    ptx_scan(&scanner, x->ptx, x->ptx_length);
    while (status == DCPK_OK && (st = ptx_next(&scanner)).kind != PTX_END)
        for (uint32_t i = 0; st.kind == PTX_ENTRY && i < x->entry_count && status == DCPK_OK; i++)
            if (names(&st, x->entries[i].name)) status = check(x, &st, &x->entries[i], error);
    return status;
}
