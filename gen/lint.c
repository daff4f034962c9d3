/* lint.c - owns the rules that every kernel keeps; each breach is blamed on the template line that wrote it.
 *  1. A kernel that touches global memory executes griddepcontrol.wait, in every thread: no guard, no way past it.
 *  2. Before the wait it stores nothing, and loads only what the template marks `// const_input` (weights, tables made
 *     before any launch). Public: flashinfer#5081, flash-attention#2498.
 *  3. It waits before it lets its dependents in: else they see the signal of a kernel two before. flashinfer#3835.
 *  4. Every instruction is one of the declared .version and .target. triton#8539, openxla/xla#4970.
 *  5. .version, .target, .address_size and entries are the generator's to write: keys and launch data hold what it
 *     wrote.
 * PTX that NVRTC made of a CUDA C++ template keeps rules 1 to 4, too. There rule 2 knows no mark: comments do not
 * survive, so nothing is loaded before the wait; rule 4 judges inline assembly, by the version and target that NVRTC
 * declares; of rule 5 the head lines are NVRTC's own and not looked at, and entries may come in any order.
 * Also fills entry_info.waits. Reads text only; must not know Lua. */
#include "gen/lint.h"
#include "gen/ptx_scan.h"
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum access { NO_ACCESS, LOAD, STORE };

struct instruction_need {
    const char *head, *part;
    uint32_t ptx;
    const char *targets;
};

static const struct instruction_need needs[] = {
#define I(head, part, ptx, targets) {head, part, ptx, targets},
#include "gen/instructions.def"
#undef I
};

/* A label of the entry at hand; at: its statement. */
struct label {
    struct ptx_text name;
    size_t at;
};

struct linter {
    struct expansion *x;
    struct ptx_statement *statements; /* of the entry at hand */
    size_t count;
    struct label *labels; /* sorted by name, then place */
    size_t label_count;
    dcpk_status status;
    dcpk_error *error;
};

static void complain(struct linter *l, uint32_t line, const char *message) {
    if (l->status != DCPK_OK) return;
    l->status = dcpk_error_set(l->error, DCPK_E_LINT, "%s", "");
    expansion_blame(l->x, line, message, l->error);
}

/* NVRTC made the text. */
static bool compiled(const struct linter *l) {
    return l->x->language == EXPANSION_COMPILED;
}

/* ---- what an opcode is ---- */

static bool has_part(struct ptx_text opcode, const char *word) {
    struct ptx_text part;
    for (size_t from = 0; ptx_part(opcode, &from, &part);)
        if (ptx_text_is(part, word)) return true;
    return false;
}

/* "cp.async.bulk" begins cp.async.bulk.commit_group, and not cp.async.bulky. */
static bool begins(struct ptx_text opcode, const char *head) {
    size_t length = strlen(head);
    return opcode.length >= length && memcmp(opcode.at, head, length) == 0 &&
           (opcode.length == length || opcode.at[length] == '.');
}

/* Position of the first part that is `space`, or `space::...`; -1 without. */
static int space_at(struct ptx_text opcode, const char *space) {
    struct ptx_text part;
    size_t length = strlen(space);
    int at = 0;
    for (size_t from = 0; ptx_part(opcode, &from, &part); at++)
        if (part.length >= length && memcmp(part.at, space, length) == 0 &&
            (part.length == length || part.at[length] == ':'))
            return at;
    return -1;
}

/* Copies: destination first, then source. */
static enum access copy_access(struct ptx_text opcode) {
    int global = space_at(opcode, "global"), shared = space_at(opcode, "shared");
    if (global < 0) return NO_ACCESS; /* groups, or shared to shared */
    return shared >= 0 && global < shared ? STORE : LOAD;
}

static enum access access_of(struct ptx_text opcode) {
    static const struct {
        const char *head;
        enum access access;
    } heads[] = {{"ld", LOAD},    {"ldu", LOAD},    {"prefetch", LOAD},  {"prefetchu", LOAD},  {"tex", LOAD},
                 {"tld4", LOAD},  {"suld", LOAD},   {"st", STORE},       {"atom", STORE},      {"red", STORE},
                 {"sust", STORE}, {"sured", STORE}, {"multimem", STORE}, {"tensormap", STORE}, {"discard", STORE}};
    if (begins(opcode, "cp") || begins(opcode, "cp.reduce")) return copy_access(opcode);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (opcode.at[0] != heads[i].head[0] || !begins(opcode, heads[i].head)) continue;
        bool elsewhere =
            space_at(opcode, "global") < 0 && (space_at(opcode, "shared") >= 0 || space_at(opcode, "local") >= 0 ||
                                               space_at(opcode, "param") >= 0 || space_at(opcode, "const") >= 0);
        return elsewhere ? NO_ACCESS : heads[i].access; /* no space named: a generic address may be global */
    }
    return NO_ACCESS;
}

/* ---- rule 4 ---- */

static bool target_serves(const char *target, const char *targets) {
    size_t length = strlen(target);
    if (*targets == '\0') return true;
    if (targets[strlen(targets) - 1] == '+') return strtol(target + 3, NULL, 10) >= strtol(targets + 3, NULL, 10);
    for (const char *at = targets; (at = strstr(at, target)) != NULL; at += length)
        if ((at == targets || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
    return false;
}

static void check_instruction(struct linter *l, const struct ptx_statement *st) {
    char message[256];
    int length = st->name.length > 60 ? 60 : (int)st->name.length;
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        const struct instruction_need *need = &needs[i];
        if (st->name.length == 0 || st->name.at[0] != need->head[0] || !begins(st->name, need->head) ||
            (need->part[0] != '\0' && !has_part(st->name, need->part)))
            continue;
        if (!target_serves(l->x->target, need->targets)) {
            snprintf(message, sizeof message, "%.*s needs target %s and the kernel declares %s: say need{target=...}",
                     length, st->name.at, need->targets, l->x->target);
            complain(l, st->line, message);
        } else if (need->ptx > l->x->ptx_version) {
            const unsigned major = need->ptx / 10, minor = need->ptx % 10;
            int used = snprintf(message, sizeof message, "%.*s needs PTX %u.%u and the kernel declares %u.%u: ", length,
                                st->name.at, major, minor, l->x->ptx_version / 10, l->x->ptx_version % 10);
            if (compiled(l))
                snprintf(message + used, sizeof message - (size_t)used, "a newer NVRTC is needed");
            else
                snprintf(message + used, sizeof message - (size_t)used, "say need{ptx=\"%u.%u\"}", major, minor);
            complain(l, st->line, message);
        }
    }
}

/* ---- rules 1 to 3 ---- */

/* Whether the line that the statement ends on, or one that it goes on over, carries the mark. */
static bool marked(const struct ptx_statement *st) {
    static const char mark[] = "// const_input";
    const char *at = st->name.at, *stop = st->rest.at + st->rest.length;
    stop += strcspn(stop, "\n");
    while ((at = memmem(at, (size_t)(stop - at), mark, sizeof mark - 1)) != NULL) {
        at += sizeof mark - 1;
        if (strchr(" \t\n:.,;", *at) != NULL) return true; /* the end of the text counts, too */
    }
    return false;
}

static int compare_names(struct ptx_text a, struct ptx_text b) {
    if (a.length != b.length) return a.length < b.length ? -1 : 1;
    return memcmp(a.at, b.at, a.length);
}

static int compare_labels(const void *left, const void *right) {
    const struct label *a = left, *b = right;
    int order = compare_names(a->name, b->name);
    return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

static void collect_labels(struct linter *l) {
    l->label_count = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->statements[i].kind == PTX_LABEL) l->labels[l->label_count++] = (struct label){l->statements[i].name, i};
    qsort(l->labels, l->label_count, sizeof *l->labels, compare_labels);
}

/* Whether a branch to the label may come out behind statement `wait`. Of labels of the same name any may be meant: the
 * last one is looked at. */
static bool leads_past(const struct linter *l, struct ptx_text label, size_t wait) {
    size_t low = 0, high = l->label_count; /* [low, high) holds the first label of a greater name, or ends at it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_names(l->labels[middle].name, label) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 || compare_names(l->labels[low - 1].name, label) != 0 || l->labels[low - 1].at > wait;
}

static void check_before(struct linter *l, const struct ptx_statement *st, size_t wait) {
    enum access access = access_of(st->name);
    if (begins(st->name, "griddepcontrol.launch_dependents"))
        complain(l, st->line, "launch_dependents before griddepcontrol.wait: a kernel waits before it triggers");
    else if (access == STORE)
        complain(l, st->line,
                 "a store or atomic before griddepcontrol.wait: the kernel before this one may still run; move it "
                 "behind the wait");
    else if (access == LOAD && compiled(l))
        complain(l, st->line,
                 "a load before griddepcontrol.wait: the kernel before this one may not have written it yet");
    else if (access == LOAD && !marked(st))
        complain(
            l, st->line,
            "a load before griddepcontrol.wait: the kernel before this one may not have written it yet (a weight, or a "
            "table made before any launch, says so: // const_input)");
    else if (begins(st->name, "bra") && leads_past(l, ptx_word(st->rest), wait))
        complain(l, st->line, "a branch that may lead past griddepcontrol.wait: wait before it branches");
    else if (begins(st->name, "brx") || begins(st->name, "call"))
        complain(l, st->line, "an indirect branch or a call before griddepcontrol.wait: it may lead past it");
    else if (begins(st->name, "ret") || begins(st->name, "exit"))
        complain(l, st->line,
                 "a thread leaves before griddepcontrol.wait: the next kernel would not wait for the one before; leave "
                 "behind the "
                 "wait");
}

static void check_without_wait(struct linter *l) {
    for (size_t i = 0; i < l->count; i++) {
        struct ptx_statement st = l->statements[i];
        if (st.kind != PTX_INSTRUCTION) continue;
        if (access_of(st.name) != NO_ACCESS)
            complain(l, st.line,
                     "the kernel touches global memory and never executes griddepcontrol.wait: every kernel waits "
                     "before its first "
                     "access (pdl.wait() of lib/pdl)");
        if (begins(st.name, "griddepcontrol.launch_dependents"))
            complain(l, st.line,
                     "launch_dependents in a kernel that never executes griddepcontrol.wait: wait first (pdl.wait() of "
                     "lib/pdl)");
        if (compiled(l) && begins(st.name, "call"))
            complain(l, st.line,
                     "a call in a kernel that never executes griddepcontrol.wait itself: what is called may touch "
                     "global memory");
    }
}

static void check_entry(struct linter *l, dcpk_entry_info *entry) {
    size_t wait = 0;
    while (wait < l->count && (l->statements[wait].kind != PTX_INSTRUCTION ||
                               !ptx_text_is(l->statements[wait].name, "griddepcontrol.wait")))
        wait++;
    entry->waits = wait < l->count;
    collect_labels(l);
    for (size_t i = 0; i < l->count; i++) {
        const struct ptx_statement st = l->statements[i];
        if (st.kind != PTX_INSTRUCTION) continue;
        if (i < wait && wait < l->count) check_before(l, &st, wait);
        if (i == wait && st.guarded)
            complain(l, st.line, "griddepcontrol.wait under a predicate: every thread waits; write it without @");
        check_instruction(l, &st);
    }
    if (wait == l->count) check_without_wait(l);
}

static size_t count_statements(const struct expansion *x) {
    struct ptx_scanner scanner;
    size_t count = 0;
    ptx_scan(&scanner, x->ptx, x->ptx_length);
    while (ptx_next(&scanner).kind != PTX_END)
        count++;
    return count;
}

/* ---- rule 5 ---- */

struct heads_seen {
    bool directive[3];
    uint32_t entries;       /* of the text */
    dcpk_entry_info *entry; /* whose statements are being collected; NULL outside one, and in a function */
    bool met[DCPK_IMAGE_MAX_ENTRIES];
};

static bool names_entry(const struct ptx_statement *st, const char *name) {
    size_t length = strlen(name);
    const char *at = length > 0 ? memmem(st->rest.at, st->rest.length, name, length) : NULL;
    return at != NULL && (at[length] == '(' || at[length] == '\n');
}

/* The entry's metadata: the next one, or in NVRTC's text any that was not met yet. NULL: it has none. */
static dcpk_entry_info *find_entry(const struct linter *l, const struct ptx_statement *st, struct heads_seen *seen) {
    for (uint32_t i = 0; i < l->x->entry_count; i++)
        if (names_entry(st, l->x->entries[i].name) && !seen->met[i] && (compiled(l) || i == seen->entries)) {
            seen->met[i] = true;
            return &l->x->entries[i];
        }
    return NULL;
}

static void check_heads(struct linter *l, const struct ptx_statement *st, struct heads_seen *seen) {
    static const struct {
        const char *name, *message;
    } heads[] = {{".version", "the .version line is the generator's: say need{ptx=...}"},
                 {".target", "the .target line is the generator's: say need{target=...}"},
                 {".address_size", "the .address_size line is the generator's"}};
    for (size_t i = 0; st->kind == PTX_DIRECTIVE && i < sizeof heads / sizeof heads[0]; i++) {
        if (!ptx_text_is(st->name, heads[i].name)) continue;
        if (seen->directive[i]) complain(l, st->line, heads[i].message);
        seen->directive[i] = true; /* the first stands above all that templates write */
    }
    if (st->kind != PTX_ENTRY) return;
    seen->entry = find_entry(l, st, seen);
    if (seen->entry == NULL) complain(l, st->line, "an entry is the generator's to write: say kernel{...}");
    seen->entries++;
}

/* Functions have rule 4 alone: whoever calls them has waited. */
static void check_function(struct linter *l) {
    for (size_t i = 0; i < l->count; i++)
        if (l->statements[i].kind == PTX_INSTRUCTION) check_instruction(l, &l->statements[i]);
}

static void check_entries(struct linter *l) {
    struct heads_seen seen = {0};
    struct ptx_scanner scanner;
    struct ptx_statement st;
    int depth = 0;
    ptx_scan(&scanner, l->x->ptx, l->x->ptx_length);
    while ((st = ptx_next(&scanner)).kind != PTX_END && l->status == DCPK_OK) {
        check_heads(l, &st, &seen);
        depth += (st.kind == PTX_OPEN) - (st.kind == PTX_CLOSE);
        if (depth > 0) l->statements[l->count++] = st;
        if (st.kind != PTX_CLOSE || depth != 0) continue;
        if (seen.entry != NULL)
            check_entry(l, seen.entry);
        else
            check_function(l);
        seen.entry = NULL;
        l->count = 0;
    }
    for (uint32_t i = 0; compiled(l) && i < l->x->entry_count && l->status == DCPK_OK; i++)
        if (!seen.met[i])
            l->status = dcpk_error_set(l->error, DCPK_E_LINT, "NVRTC's PTX has no entry %s", l->x->entries[i].name);
}

dcpk_status lint(struct expansion *x, dcpk_error *error) {
    struct linter l = {.x = x, .error = error};
    size_t count = count_statements(x) + 1;
    l.statements = malloc(count * sizeof *l.statements);
    l.labels = malloc(count * sizeof *l.labels);
    if (l.statements != NULL && l.labels != NULL)
        check_entries(&l);
    else
        l.status = dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the lint");
    free(l.statements);
    free(l.labels);
    return l.status;
}
