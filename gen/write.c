/* write.c - owns what a template writes (PTX or CUDA C++): lines, braces, names in scopes, sections, comments, include.
 * A line is checked here (ASCII, place) so that every complaint carries the template line that wrote it. */
#include "gen/host.h"
#include "gen/translate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Of the registry. names: scope -> {name -> line that declares it}, -scope -> {name -> the outer scope that it hides},
 * name -> the scope whose register it is now; modules: include name -> value. */
static const char names_key, modules_key;

static void check_bytes(lua_State *L, const char *text, size_t length) {
    const char *language = host_of(L)->cuda ? "CUDA C++" : "PTX";
    if (length > EMIT_MAX_LINE) host_fail(L, DCPK_E_TEMPLATE, "a line of more than %d bytes", EMIT_MAX_LINE);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if ((byte >= 0x20 && byte < 0x7F) || byte == '\t') continue;
        host_fail(L, DCPK_E_TEMPLATE, "byte 0x%02X in %s text: only printable ASCII may stand there%s", byte, language,
                  byte == '\n' ? " (one call writes one line)" : "");
    }
}

static void write_raw(lua_State *L, const char *text, size_t length, int level) {
    struct host *host = host_of(L);
    struct writers writers;
    host_writers(host, &writers);
    const char *wrong = emitter_line(&host->out, text, length, level, &writers);
    if (wrong != NULL) host_fail(L, DCPK_E_TEMPLATE, "%s", wrong);
}

static bool begins(const char *text, size_t length, const char *prefix) {
    size_t wanted = strlen(prefix);
    return length >= wanted && memcmp(text, prefix, wanted) == 0;
}

/* Between entries stand comments and module-scope variables only. text: without blanks around it. */
static void check_module_line(lua_State *L, const char *text, size_t length) {
    static const char *const openers[] = {".global",         ".const",          ".shared",        ".visible .global",
                                          ".visible .const", ".extern .global", ".extern .const", ".extern .shared",
                                          ".weak .global",   ".weak .const",    ".common"};
    struct host *host = host_of(L);
    bool opens = false;
    if (length == 0 || begins(text, length, "//")) return;
    for (size_t i = 0; i < sizeof openers / sizeof openers[0]; i++)
        opens = opens || begins(text, length, openers[i]);
    if (!opens && !host->open_statement)
        host_fail(L, DCPK_E_TEMPLATE,
                  "outside a kernel only comments and module-scope variables may stand; kernel{...} opens one");
    const char *comment = strstr(text, "//");
    size_t code = comment != NULL && (size_t)(comment - text) < length ? (size_t)(comment - text) : length;
    host->open_statement = memchr(text, ';', code) == NULL;
}

/* The place of a line and the braces that are names' scopes. C++'s are not: functions and types stand before the first
 * kernel{}, and no names of ours depend on its braces. */
static void follow(lua_State *L, const char *text, size_t length) {
    struct host *host = host_of(L);
    if (host->cuda) return;
    size_t first = strspn(text, " \t");
    if (first > length) first = length;
    bool brace = length - first == 1;
    if (host->scope_count == 0)
        check_module_line(L, text + first, length - first);
    else if (brace && text[first] == '{')
        scope_push(L);
    else if (brace && text[first] == '}')
        scope_pop(L);
}

void write_line(lua_State *L, const char *text, size_t length) {
    check_bytes(L, text, length);
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    follow(L, text, length);
    write_raw(L, text, length, host_of(L)->level);
}

void write_format(lua_State *L, const char *format, ...) {
    char line[EMIT_MAX_LINE];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof line) host_fail(L, DCPK_E_TEMPLATE, "a line that is too long");
    check_bytes(L, line, (size_t)length);
    write_raw(L, line, (size_t)length, host_of(L)->level);
}

/* ---- scopes of names ---- */

void scope_push(lua_State *L) {
    struct host *host = host_of(L);
    if (host->scope_count == HOST_MAX_SCOPES)
        host_fail(L, DCPK_E_TEMPLATE, "more than %d scopes inside each other", HOST_MAX_SCOPES);
    struct writers writers;
    host_writers(host, &writers);
    host->openers[host->scope_count] = writers.stack[0];
    host->scopes[host->scope_count++] = ++host->next_scope;
}

/* The names of the innermost scope mean again what they meant outside it. */
static void scope_end(lua_State *L) {
    struct host *host = host_of(L);
    int32_t scope = host->scopes[--host->scope_count];
    lua_rawgetp(L, LUA_REGISTRYINDEX, &names_key);
    if (lua_rawgeti(L, -1, -scope) == LUA_TTABLE) {
        for (lua_pushnil(L); lua_next(L, -2) != 0;) { /* names, name -> hidden, name, hidden */
            if (lua_tointeger(L, -1) == 0) {
                lua_pop(L, 1);
                lua_pushnil(L);
            }
            lua_pushvalue(L, -2);
            lua_insert(L, -2);
            lua_rawset(L, -5);
        }
    }
    lua_pop(L, 2);
}

void scope_pop(lua_State *L) {
    if (host_of(L)->scope_count <= 1)
        host_fail(L, DCPK_E_TEMPLATE, "this } closes nothing: the kernel's own braces are written by kernel{}");
    scope_end(L);
}

/* Pushes names[key], a table that is made when it is not there. names: on top of the stack. */
static void push_table(lua_State *L, lua_Integer key) {
    if (lua_rawgeti(L, -1, key) == LUA_TTABLE) return;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, key);
}

int32_t scope_declare(lua_State *L, const char *name, const char *what) {
    struct host *host = host_of(L);
    if (host->scope_count == 0)
        host_fail(L, DCPK_E_TEMPLATE, "%s '%s' outside a kernel: declare it behind kernel{}", what, name);
    int32_t scope = host->scopes[host->scope_count - 1];
    lua_rawgetp(L, LUA_REGISTRYINDEX, &names_key);
    push_table(L, scope);
    if (lua_getfield(L, -1, name) != LUA_TNIL)
        host_fail(L, DCPK_E_TEMPLATE,
                  "'%s' is declared twice in this { } (a %s at line %d): use another name, or scope()", name, what,
                  (int)lua_tointeger(L, -1));
    struct writers writers;
    host_writers(host, &writers);
    lua_pushinteger(L, (lua_Integer)writers.stack[0].line);
    lua_setfield(L, -3, name);
    lua_pop(L, 2);
    push_table(L, -scope);
    lua_getfield(L, -2, name);
    lua_pushinteger(L, lua_tointeger(L, -1)); /* 0: it hides nothing */
    lua_setfield(L, -3, name);
    lua_pop(L, 2);
    lua_pushinteger(L, scope);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
    return scope;
}

void scope_check(lua_State *L, const char *name, int32_t scope) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &names_key);
    lua_getfield(L, -1, name);
    lua_Integer now = lua_tointeger(L, -1);
    if (now == scope) {
        lua_pop(L, 2);
        return;
    }
    bool open = false;
    for (int i = 0; i < host_of(L)->scope_count; i++)
        open = open || host_of(L)->scopes[i] == scope;
    if (!open) host_fail(L, DCPK_E_TEMPLATE, "the { } that declares '%s' has ended", name);
    lua_rawgeti(L, -2, now);
    lua_getfield(L, -1, name);
    host_fail(L, DCPK_E_TEMPLATE, "'%s' is hidden here: an inner { } declares another '%s' at line %d; rename one",
              name, name, (int)lua_tointeger(L, -1));
}

void entry_close(lua_State *L) {
    struct host *host = host_of(L);
    if (host->scope_count > 1) {
        host->blamed = (struct writers){.stack = {host->openers[host->scope_count - 1]}, .count = 1};
        host_fail(L, DCPK_E_TEMPLATE, "this { is not closed before the kernel's end");
    }
    if (host->level > 0) host_fail(L, DCPK_E_TEMPLATE, "kernel{} inside scope()");
    if (host->scope_count == 1) { /* whoever wrote the kernel's last line is who a complaint about its } is for */
        const char *wrong = emitter_copy(&host->out, "}", 1, &host->out, host->out.lines - 1);
        if (wrong != NULL) host_fail(L, DCPK_E_TEMPLATE, "%s", wrong);
        scope_end(L);
    }
    host->open_statement = false;
}

/* ---- what templates call ---- */

/* The call that a `|` line becomes: texts and values by turns. */
static int ptx(lua_State *L) {
    char line[EMIT_MAX_LINE];
    size_t used = 0, length;
    int count = lua_gettop(L);
    for (int i = 1; i <= count; i++) {
        const char *text;
        if (i % 2 == 1)
            text = luaL_checklstring(L, i, &length);
        else
            text = symbol_text(L, i, &length);
        if (used + length > sizeof line) host_fail(L, DCPK_E_TEMPLATE, "a line of more than %d bytes", EMIT_MAX_LINE);
        memcpy(line + used, text, length);
        used += length;
    }
    if (used == sizeof line) host_fail(L, DCPK_E_TEMPLATE, "a line of more than %d bytes", EMIT_MAX_LINE - 1);
    line[used] = '\0';
    write_line(L, line, used);
    return 0;
}

static const char *one_text(lua_State *L, const char *what, size_t *length) {
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TSTRING) host_fail(L, DCPK_E_TEMPLATE, "%s takes one text", what);
    return lua_tolstring(L, 1, length);
}

static int emit(lua_State *L) {
    size_t length;
    const char *text = one_text(L, "emit", &length);
    write_line(L, text, length);
    return 0;
}

static int section(lua_State *L) {
    size_t length;
    const char *title = one_text(L, "section", &length);
    write_raw(L, "", 0, 0);
    write_format(L, "%s// ---- %s", host_of(L)->scope_count > 0 ? "    " : "", title);
    return 0;
}

static int comment(lua_State *L) {
    size_t length;
    const char *text = one_text(L, "comment", &length);
    write_format(L, "%s// %s", host_of(L)->scope_count > 0 ? "    " : "", text);
    return 0;
}

/* scope(fn): a { } of names around what fn writes. Returns what fn returns. */
static int scope(lua_State *L) {
    struct host *host = host_of(L);
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TFUNCTION)
        host_fail(L, DCPK_E_TEMPLATE, "scope takes one function");
    if (host->scope_count == 0) host_fail(L, DCPK_E_TEMPLATE, "scope() outside a kernel");
    write_raw(L, "    {", 5, host->level);
    scope_push(L);
    host->level++;
    int depth = host->scope_count;
    lua_call(L, 0, LUA_MULTRET);
    if (host->scope_count != depth) host_fail(L, DCPK_E_TEMPLATE, "the braces inside this scope() do not pair");
    host->level--;
    scope_pop(L);
    write_raw(L, "    }", 5, host->level);
    return lua_gettop(L);
}

/* include "lib/lamport": the file's value; the file runs once an expansion. */
static int include(lua_State *L) {
    size_t length;
    const char *name = one_text(L, "include", &length);
    luaL_checkstack(L, 8, "include");
    lua_rawgetp(L, LUA_REGISTRYINDEX, &modules_key);
    lua_pushvalue(L, 1);
    int type = lua_rawget(L, 2);
    if (type == LUA_TLIGHTUSERDATA) host_fail(L, DCPK_E_TEMPLATE, "include \"%s\" includes itself", name);
    if (type != LUA_TNIL) return 1;
    lua_pushvalue(L, 1);
    lua_pushlightuserdata(L, NULL);
    lua_rawset(L, 2);
    if (strlen(name) != length || length > 100) host_fail(L, DCPK_E_TEMPLATE, "'%.40s' is not a file's name", name);
    host_load(L, lua_pushfstring(L, "%s.lua", name));
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1)) lua_pushboolean(L, 1);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, -2);
    lua_rawset(L, 2);
    return 1;
}

void write_open(lua_State *L) {
    static const luaL_Reg functions[] = {{TRANSLATE_EMIT, ptx}, {"emit", emit},   {"section", section},
                                         {"comment", comment},  {"scope", scope}, {"include", include},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &names_key);
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &modules_key);
}
