/* host.h - one expansion's Lua state and what its C functions share. Internal to gen's expanding half.
 *
 * lua_host.c makes and runs the state, sandbox.c fills it with what Lua itself offers, registers.c, entry.c and write.c
 * with what templates are written in. All of them fail by host_fail, which never returns. */
#ifndef DCPK_GEN_HOST_H
#define DCPK_GEN_HOST_H

#include "gen/emit.h"
#include "gen/source.h"

#include <lauxlib.h>
#include <lua.h>
#include <time.h>

enum {
    HOST_MEMORY = 64 << 20,        /* bytes that an expansion's Lua may hold */
    HOST_STEPS = 20 * 1000 * 1000, /* VM instructions that an expansion may take */
    HOST_MAX_FILES = 64,
    HOST_MAX_SCOPES = 64,
    HOST_STATIC_SHARED = 48 * 1024, /* bytes of .shared variables of one entry: PTX's limit */
};

/* A need{}: the greatest so far, and which line asked for it. */
struct host_need {
    int32_t ptx;
    char target[16];
};

struct host {
    lua_State *L;
    struct sources *sources;
    const dcpk_spec *spec; /* NULL while models.lua runs */
    bool cuda;             /* the template is CUDA C++: `|` lines are, too */
    const struct source_file *files[HOST_MAX_FILES];
    const char *chunks[HOST_MAX_FILES]; /* Lua's own copies of "@name", where seen: compared by address first */
    uint32_t file_count;

    size_t memory;
    uint64_t steps;
    time_t started;                   /* of the thread's CPU clock, s */
    bool out_of_memory, out_of_steps; /* sticky: set once, the expansion has failed */

    struct emitter out;
    int level;           /* of scope(): blanks before each line / 4 */
    bool open_statement; /* before the first entry: a module-scope variable is not yet closed by its `;` */
    int scope_count;     /* open { of the current entry, its own included; 0 outside */
    int scopes[HOST_MAX_SCOPES];
    struct line_frame openers[HOST_MAX_SCOPES]; /* who wrote each { */
    int next_scope;
    uint64_t static_shared;

    dcpk_entry_info entries[DCPK_IMAGE_MAX_ENTRIES];
    uint32_t entry_count;
    struct host_need need;

    dcpk_status status;    /* what host_fail said */
    struct writers blamed; /* where the error was raised */
    dcpk_error *error;
};

/* The host of a state. */
static inline struct host *host_of(lua_State *L) {
    return *(struct host **)lua_getextraspace(L);
}

/* Raises an error with the caller's file:line, ending the expansion with `status`. */
int host_fail(lua_State *L, dcpk_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/* The Lua frames above the running C function, innermost first. */
void host_writers(struct host *host, struct writers *writers);

/* Opens a state with everything in it. host->sources, spec and error are set by the caller. */
dcpk_status host_open(struct host *host);
void host_close(struct host *host);
/* Runs a template file, then use(value, argument) where use is not NULL: inside the same protection. */
dcpk_status host_run(struct host *host, const char *name, lua_CFunction use, void *argument);
/* Loads file `name` as a function onto the stack; raises an error when it cannot. For include. */
void host_load(lua_State *L, const char *name);

/* What the rooms put into the table on top of the stack (the globals). */
void sandbox_open(lua_State *L);
void registers_open(lua_State *L);
void entry_open(lua_State *L);
void write_open(lua_State *L);

/* ---- write.c: lines ---- */
/* One PTX line at the current indentation; raises an error for bytes that PTX may not hold. */
void write_line(lua_State *L, const char *text, size_t length);
void write_format(lua_State *L, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Opens and closes a `{` scope of names, without writing. */
void scope_push(lua_State *L);
void scope_pop(lua_State *L);
/* A name of the innermost scope, whose number it returns; raises an error when the name is taken there. */
int32_t scope_declare(lua_State *L, const char *name, const char *what);
/* Raises an error unless the name, written here, is the one that was declared in this scope: PTX takes the innermost.
 */
void scope_check(lua_State *L, const char *name, int32_t scope);
/* Closes the open entry, if any. */
void entry_close(lua_State *L);

/* ---- entry_cuda.c: kernel{} of a CUDA C++ template ---- */
/* The C++ header of an entry, up to its `{`. docs: of each parameter, or NULL; min_ctas: 0 when kernel{} has none. */
void entry_write_cuda(lua_State *L, const dcpk_entry_info *entry, const char *const *docs, int min_ctas);

/* Raises an error for a name that cannot be a parameter's in C++: a word of the language would change the signature. */
void entry_check_cuda_name(lua_State *L, const char *name);

/* ---- registers.c: symbols ---- */
/* The text of a value inside $( ): integer, string or symbol, pushed as a string; raises an error for anything else. */
const char *symbol_text(lua_State *L, int index, size_t *length);
bool symbol_is(lua_State *L, int index);
/* Pushes a symbol that prints `text`. */
void symbol_push(lua_State *L, const char *kind, const char *type, const char *name, const char *text);
/* [A-Za-z_][A-Za-z0-9_]* of at most 40 letters, else an error that says what. */
const char *check_name(lua_State *L, int index, const char *what);
/* pairs-like helpers of sandbox.c */
void check_table_keys(lua_State *L, int index, const char *what, const char *const *allowed);
lua_Integer check_integer(lua_State *L, int index, const char *what, lua_Integer low, lua_Integer high);

#endif
