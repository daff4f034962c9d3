/* lua_host.c - owns the Lua state of one expansion: memory cap, instruction cap, loading, running, error capture.
 * Deterministic by construction: the C locale, no addresses, no time. What the state offers is sandbox.c's. */
#include "gen/host.h"
#include "gen/translate.h"
#include "runtime/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HOOK_EVERY = 1000, BYTES_A_STEP = 64, HOST_SECONDS = 60, MAX_LEVELS = 4 * EMIT_MAX_FRAMES };

/* The file that a chunk name ("@lib/box.lua") belongs to. Lua keeps one copy of a chunk's name: mostly the pointers
 * agree. */
static uint32_t file_of(struct host *host, const char *source) {
    for (uint32_t i = 0; i < host->file_count; i++)
        if (host->chunks[i] == source) return i;
    for (uint32_t i = 0; i < host->file_count; i++)
        if (strcmp(host->files[i]->name, source + 1) == 0) {
            host->chunks[i] = source;
            return i;
        }
    return 0;
}

void host_writers(struct host *host, struct writers *writers) {
    lua_Debug frame;
    writers->count = 0;
    for (int level = 0; level < MAX_LEVELS && writers->count < EMIT_MAX_FRAMES && lua_getstack(host->L, level, &frame);
         level++) {
        lua_getinfo(host->L, "Sl", &frame);
        if (frame.currentline <= 0 || frame.source[0] != '@') continue;
        struct line_frame here = {file_of(host, frame.source), (uint32_t)frame.currentline};
        bool again = writers->count > 0 && memcmp(&writers->stack[writers->count - 1], &here, sizeof here) == 0;
        if (!again) writers->stack[writers->count++] = here; /* scope(function() ... end) on one line is one place */
    }
    if (writers->count == 0) writers->stack[writers->count++] = (struct line_frame){0, 0};
}

/* Memory is charged as work, too: copying texts takes time and no instructions. Also notes where a cap was hit: Lua's
 * own message of this error has no line. */
static void *allocate(void *self, void *block, size_t old_size, size_t size) {
    struct host *host = self;
    size_t old = block != NULL ? old_size : 0;
    if (size == 0) {
        free(block);
        host->memory -= old;
        return NULL;
    }
    if (size > old) host->steps += size / BYTES_A_STEP;
    bool tired = host->steps > HOST_STEPS, full = size > old && host->memory + (size - old) > HOST_MEMORY;
    if (size > old && (tired || full)) {
        if (host->L != NULL && host->blamed.count == 0) host_writers(host, &host->blamed);
        host->out_of_steps = host->out_of_steps || tired;
        host->out_of_memory = host->out_of_memory || full;
        return NULL;
    }
    void *moved = realloc(block, size);
    if (moved != NULL) host->memory = host->memory - old + size;
    return moved;
}

static const char tired_message[] =
    "the expansion takes more work than 20000000 Lua instructions: is there a loop without end?";

static void count_steps(lua_State *L, lua_Debug *frame) {
    struct host *host = host_of(L);
    struct timespec used;
    (void)frame;
    host->steps += HOOK_EVERY;
    /* The last resort, for work that neither counts instructions nor takes memory, such as comparing long texts. */
    bool late = clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0 && used.tv_sec - host->started > HOST_SECONDS;
    if (host->steps <= HOST_STEPS && !late) return;
    host->out_of_steps = true;
    lua_sethook(L, count_steps, LUA_MASKCOUNT, 1);
    host_fail(L, DCPK_E_TEMPLATE, "%s", tired_message);
}

int host_fail(lua_State *L, dcpk_status status, const char *format, ...) {
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    host_of(L)->status = status;
    lua_pushstring(L, message);
    lua_error(L);
    abort(); /* lua_error does not return */
}

static void remember_file(lua_State *L, const struct source_file *file) {
    struct host *host = host_of(L);
    for (uint32_t i = 0; i < host->file_count; i++)
        if (host->files[i] == file) return;
    if (host->file_count == HOST_MAX_FILES)
        host_fail(L, DCPK_E_TEMPLATE, "more than %d template files", HOST_MAX_FILES);
    host->files[host->file_count++] = file;
}

/* Start of a line of the file; NULL past its end. */
static const char *line_at(const struct source_file *file, uint32_t line) {
    const char *at = file->text;
    for (uint32_t i = 1; i < line && at != NULL; i++)
        at = (at = strchr(at, '\n')) != NULL ? at + 1 : NULL;
    return line > 0 ? at : NULL;
}

/* The `;` that a `|` line begins with for Lua is none of the author's: "near ';'" becomes "before this line of PTX". */
static void name_ptx_line(lua_State *L, const struct source_file *file, const char *message) {
    static const char near[] = " near ';'";
    size_t length = strlen(message), tail = sizeof near - 1;
    unsigned line = 0;
    if (length < tail || strcmp(message + length - tail, near) != 0 ||
        sscanf(message + strlen(file->name), ":%u:", &line) != 1)
        return;
    const char *at = line_at(file, line);
    if (at == NULL || at[strspn(at, " \t")] != '|') return;
    lua_pushlstring(L, message, length - tail);
    lua_pushfstring(L, "%s before this line of PTX", lua_tostring(L, -1));
}

void host_load(lua_State *L, const char *name) {
    struct host *host = host_of(L);
    const struct source_file *file;
    char *lua = NULL, chunk[160];
    size_t length = 0;
    dcpk_error why;
    dcpk_error_init(&why);
    dcpk_status status = sources_get(host->sources, name, &file, &why);
    if (status != DCPK_OK) host_fail(L, status == DCPK_E_ARG ? DCPK_E_TEMPLATE : status, "%s", why.text);
    remember_file(L, file);
    status = translate(file, &lua, &length, &why);
    if (status != DCPK_OK) host_fail(L, status, "%s", why.text);
    snprintf(chunk, sizeof chunk, "@%s", name);
    int result = luaL_loadbufferx(L, lua, length, chunk, "t");
    free(lua);
    if (result != LUA_OK) {
        host->status = result == LUA_ERRMEM ? DCPK_E_NOMEM : DCPK_E_TEMPLATE;
        const char *message = result == LUA_ERRMEM ? NULL : lua_tostring(L, -1);
        if (message != NULL && strncmp(message, name, strlen(name)) != 0)
            lua_pushfstring(L, "%s:1: %s", name, message);
        else if (message != NULL)
            name_ptx_line(L, file, message);
        lua_error(L);
    }
    lua_pushvalue(L, -1); /* keeps the chunk's name alive and where it is: file_of compares addresses */
    luaL_ref(L, LUA_REGISTRYINDEX);
}

/* Splits a leading "NAME:LINE: " off Lua's own messages. Returns what follows; *place is set when there was one. */
static const char *split_place(struct host *host, const char *message, struct line_frame *place, bool *found) {
    *found = false;
    for (uint32_t i = 0; i < host->file_count; i++) {
        size_t length = strlen(host->files[i]->name);
        unsigned line;
        int used = 0;
        if (strncmp(message, host->files[i]->name, length) != 0 || message[length] != ':') continue;
        if (sscanf(message + length, ":%u: %n", &line, &used) != 1 || used == 0) continue;
        *place = (struct line_frame){i, line};
        *found = true;
        return message + length + (size_t)used;
    }
    return message;
}

/* Runs where the error was raised, so the stack still tells who called whom. Leaves the bare message. */
static int on_error(lua_State *L) {
    struct host *host = host_of(L);
    struct line_frame place;
    bool found;
    const char *message = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : NULL;
    if (host->out_of_memory || (host->out_of_steps && host->blamed.count > 0)) return 1;
    if (message == NULL) message = lua_pushfstring(L, "error() with a %s instead of a message", luaL_typename(L, 1));
    if (host->blamed.count == 0) host_writers(host, &host->blamed);
    message = split_place(host, message, &place, &found);
    if (found && memcmp(&host->blamed.stack[0], &place, sizeof place) != 0) {
        struct writers *blamed = &host->blamed; /* a syntax error of an included file, or error(text, 2) */
        uint32_t at = 0;
        while (at < blamed->count && memcmp(&blamed->stack[at], &place, sizeof place) != 0)
            at++;
        if (at < blamed->count) {
            blamed->count -= at;
            memmove(blamed->stack, blamed->stack + at, blamed->count * sizeof place);
        } else {
            if (blamed->stack[0].line == 0) blamed->count = 0;
            if (blamed->count == EMIT_MAX_FRAMES) blamed->count--;
            memmove(blamed->stack + 1, blamed->stack, blamed->count * sizeof place);
            blamed->stack[0] = place;
            blamed->count++;
        }
    }
    lua_pushstring(L, message);
    return 1;
}

/* Line `line` of the file without its indentation. */
static void append_source(dcpk_error *error, const struct source_file *file, uint32_t line) {
    const char *at = line_at(file, line);
    if (at == NULL) return;
    at += strspn(at, " \t");
    int length = (int)strcspn(at, "\r\n");
    for (int i = 0; i < length; i++)
        if ((unsigned char)at[i] < 0x20 && at[i] != '\t') return; /* not a text: a terminal should not get it */
    if (length > 0) dcpk_error_append(error, "\n    %.*s", length > 160 ? 160 : length, at);
}

/* Of a message "... (to close '{' at line 1) near <eof>": what stands in that line. */
static void append_opener(dcpk_error *error, const struct source_file *file, const char *message) {
    const char *at = strstr(message, "(to close '"), *place = at != NULL ? strstr(at, " at line ") : NULL;
    unsigned line = 0;
    if (place == NULL || sscanf(place, " at line %u)", &line) != 1) return;
    dcpk_error_append(error, "\n  opened at %s:%u", file->name, line);
    append_source(error, file, line);
}

static dcpk_status report(struct host *host, const char *message) {
    dcpk_status status = host->status != DCPK_OK ? host->status : DCPK_E_TEMPLATE;
    const struct writers *blamed = &host->blamed;
    if (blamed->count == 0 || host->file_count == 0 || blamed->stack[0].line == 0)
        return dcpk_error_set(host->error, status, "%s", message);
    const struct source_file *file = host->files[blamed->stack[0].file];
    uint32_t line = blamed->stack[0].line;
    if (status == DCPK_E_SPEC)
        dcpk_error_set(host->error, status, "%s\n  rule at %s:%u", message, file->name, line);
    else
        dcpk_error_set(host->error, status, "%s:%u: %s", file->name, line, message);
    append_source(host->error, file, line);
    append_opener(host->error, file, message);
    for (uint32_t i = 1; i < blamed->count && i < 12; i++)
        dcpk_error_append(host->error, "\n  from %s:%u", host->files[blamed->stack[i].file]->name,
                          blamed->stack[i].line);
    dcpk_error_blame(host->error, file->name, line);
    return status;
}

/* Arguments: name, what to do with the file's value (NULL: nothing), its argument. */
static int run_file(lua_State *L) {
    lua_CFunction use = lua_tocfunction(L, 2);
    host_load(L, lua_touserdata(L, 1));
    lua_call(L, 0, 1);
    if (host_of(L)->spec != NULL) entry_close(L); /* part of the run: it can fail, too */
    if (use == NULL) return 0;
    lua_pushcfunction(L, use);
    lua_rotate(L, -2, 1);
    lua_pushvalue(L, 3);
    lua_call(L, 2, 0);
    return 0;
}

dcpk_status host_run(struct host *host, const char *name, lua_CFunction use, void *argument) {
    lua_State *L = host->L;
    lua_settop(L, 0);
    lua_pushcfunction(L, on_error);
    lua_pushcfunction(L, run_file);
    lua_pushlightuserdata(L, (void *)(uintptr_t)name); /* none of these allocates outside the protected call */
    if (use != NULL)
        lua_pushcfunction(L, use);
    else
        lua_pushnil(L);
    lua_pushlightuserdata(L, argument);
    int result = lua_pcall(L, 3, 0, 1);
    if (host->out_of_memory || host->out_of_steps) { /* sticky: whatever else was raised since */
        host->status = DCPK_E_TEMPLATE;
        return report(
            host, host->out_of_memory
                      ? "the expansion's Lua takes more than 64 MiB of memory: does a table or a text grow without end?"
                      : tired_message);
    }
    if (result == LUA_ERRMEM) host->status = DCPK_E_NOMEM;
    if (result == LUA_OK) return DCPK_OK;
    return report(host, lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error without a text");
}

static int open_rooms(lua_State *L) {
    sandbox_open(L);
    return 0;
}

dcpk_status host_open(struct host *host) {
    host->L = NULL;
    lua_State *L = lua_newstate(allocate, host);
    if (L == NULL) return dcpk_error_set(host->error, DCPK_E_NOMEM, "no memory for Lua");
    host->L = L;
    *(struct host **)lua_getextraspace(L) = host;
    struct timespec used;
    host->started = clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0 ? used.tv_sec : 0;
    lua_pushcfunction(L, open_rooms);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
        host_close(host);
        return dcpk_error_set(host->error, DCPK_E_NOMEM, "no memory for Lua's libraries");
    }
    lua_sethook(L, count_steps, LUA_MASKCOUNT, HOOK_EVERY);
    return DCPK_OK;
}

void host_close(struct host *host) {
    if (host->L != NULL) lua_close(host->L);
    host->L = NULL;
    emitter_free(&host->out);
}
