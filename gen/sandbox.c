/* sandbox.c - owns what Lua itself offers to templates: a whitelist, with its order and its texts made deterministic.
 * Nothing here can swallow an error, run without the instruction count, reach a file, or print an address. */
#include "gen/host.h"
#include "runtime/names.h"

#include <lualib.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GLOBALS = 64, LONGEST_REPEAT = 16 << 20, LONGEST_TABLE = 1 << 20 };

/* ---- texts ---- */

/* Values whose text is the same in every run. */
static void check_printable(lua_State *L, int index, const char *what) {
    int type = lua_type(L, index);
    bool plain = type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TBOOLEAN || type == LUA_TNIL;
    if (!plain && !symbol_is(L, index))
        host_fail(L, DCPK_E_TEMPLATE, "%s of a %s: its text would be an address", what, luaL_typename(L, index));
}

static int text_of(lua_State *L) {
    luaL_checkany(L, 1);
    check_printable(L, 1, "tostring");
    luaL_tolstring(L, 1, NULL);
    return 1;
}

/* string.format without %p and without values that have no text. Upvalue 1: Lua's own. */
static int format(lua_State *L) {
    int count = lua_gettop(L);
    const char *pattern = luaL_checkstring(L, 1);
    for (const char *at = strchr(pattern, '%'); at != NULL; at = strchr(at + 1, '%')) {
        at += 1 + strspn(at + 1, "-+ #0123456789.");
        if (*at == 'p') host_fail(L, DCPK_E_TEMPLATE, "string.format: %%p would print an address");
        if (*at == '\0') break;
    }
    for (int i = 2; i <= count; i++)
        check_printable(L, i, "string.format");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, count, 1);
    return 1;
}

/* string.rep with a bound of its own: Lua's own repeats an empty text 2^62 times if asked. Upvalue 1: Lua's own. */
static int repeat(lua_State *L) {
    size_t length, between = 0;
    luaL_checklstring(L, 1, &length);
    lua_Integer times = luaL_checkinteger(L, 2);
    luaL_optlstring(L, 3, "", &between);
    if (times > 0 && (uint64_t)times > LONGEST_REPEAT / (length + between + 1))
        host_fail(L, DCPK_E_TEMPLATE, "string.rep: a text of more than 16 MiB");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
    return 1;
}

/* A table with holes may report any border as its length, up to 2^63: Lua's own loops would then run for ever. */
static void check_length(lua_State *L, const char *what) {
    if (lua_istable(L, 1) && lua_rawlen(L, 1) > LONGEST_TABLE)
        host_fail(L, DCPK_E_TEMPLATE, "%s: a table of more than %d elements", what, LONGEST_TABLE);
}

/* Upvalue 1: Lua's own. */
static int insert(lua_State *L) {
    check_length(L, "table.insert");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 0);
    return 0;
}

static int remove_element(lua_State *L) {
    check_length(L, "table.remove");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
    return 1;
}

/* ---- order ---- */

struct key {
    bool is_text;
    double number;
    lua_Integer integer; /* decides between equal numbers */
    const char *text;    /* held by the table */
    size_t length;
};

static int compare_keys(const void *left, const void *right) {
    const struct key *a = left, *b = right;
    if (a->is_text != b->is_text) return a->is_text ? 1 : -1;
    if (!a->is_text) {
        if (a->number < b->number || a->number > b->number) return a->number < b->number ? -1 : 1;
        return (a->integer > b->integer) - (a->integer < b->integer);
    }
    size_t shorter = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->text, b->text, shorter);
    return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

static struct key key_at(lua_State *L, int index) {
    struct key key = {.is_text = lua_type(L, index) == LUA_TSTRING};
    if (key.is_text) {
        key.text = lua_tolstring(L, index, &key.length);
    } else if (lua_type(L, index) == LUA_TNUMBER) {
        key.number = lua_tonumber(L, index);
        key.integer = lua_isinteger(L, index) ? lua_tointeger(L, index) : 0;
    } else {
        host_fail(L, DCPK_E_TEMPLATE, "pairs: a key is a %s; only numbers and strings have an order",
                  luaL_typename(L, index));
    }
    return key;
}

/* Upvalues: the table, the list of its keys, the position in it. */
static int next_pair(lua_State *L) {
    lua_Integer at = lua_tointeger(L, lua_upvalueindex(3));
    for (;;) {
        lua_pushinteger(L, ++at);
        lua_replace(L, lua_upvalueindex(3));
        if (lua_rawgeti(L, lua_upvalueindex(2), at) == LUA_TNIL) return 1;
        lua_pushvalue(L, -1);
        if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 2;
        lua_pop(L, 2); /* removed since */
    }
}

static int pairs(lua_State *L) {
    size_t count = 0, i = 0;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1))
        count++;
    struct key *keys = lua_newuserdatauv(L, (count + 1) * sizeof *keys, 0);
    for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1))
        keys[i++] = key_at(L, -2);
    qsort(keys, count, sizeof *keys, compare_keys);
    lua_pushvalue(L, 1);
    lua_createtable(L, (int)count, 0);
    for (i = 0; i < count; i++) {
        if (keys[i].is_text)
            lua_pushlstring(L, keys[i].text, keys[i].length);
        else if (keys[i].number == (double)keys[i].integer)
            lua_pushinteger(L, keys[i].integer);
        else
            lua_pushnumber(L, keys[i].number);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, next_pair, 3);
    return 1;
}

/* Whether the value at `left` sorts before that at `right`. 2: the comparison function, or nil. */
static bool before(lua_State *L, int left, int right) {
    if (lua_isnil(L, 2)) return lua_compare(L, left, right, LUA_OPLT);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, left < 0 ? left - 1 : left);
    lua_pushvalue(L, right < 0 ? right - 2 : right);
    lua_call(L, 2, 1);
    bool result = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return result;
}

/* Merges [low, middle) and [middle, high) of table `from` into table `to`. */
static void merge(lua_State *L, int from, int to, lua_Integer low, lua_Integer middle, lua_Integer high) {
    lua_Integer left = low, right = middle;
    for (lua_Integer at = low; at < high; at++) {
        bool take_right = left == middle;
        if (left < middle && right < high) {
            lua_rawgeti(L, from, right);
            lua_rawgeti(L, from, left);
            take_right = before(L, -2, -1);
            lua_pop(L, 2);
        }
        lua_rawgeti(L, from, take_right ? right++ : left++);
        lua_rawseti(L, to, at);
    }
}

/* table.sort: stable. Lua's own picks pivots by the clock, so that equal elements could change places. */
static int sort(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    check_length(L, "table.sort");
    if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    lua_Integer count = (lua_Integer)lua_rawlen(L, 1);
    lua_createtable(L, (int)count, 0);
    int from = 1, to = 3;
    for (lua_Integer width = 1; width < count; width *= 2) {
        for (lua_Integer low = 1; low <= count; low += 2 * width) {
            lua_Integer middle = low + width < count + 1 ? low + width : count + 1;
            lua_Integer high = low + 2 * width < count + 1 ? low + 2 * width : count + 1;
            merge(L, from, to, low, middle, high);
        }
        int swap = from;
        from = to;
        to = swap;
    }
    for (lua_Integer i = 1; from != 1 && i <= count; i++) {
        lua_rawgeti(L, from, i);
        lua_rawseti(L, 1, i);
    }
    return 0;
}

/* ---- integers ---- */

static lua_Integer integer(lua_State *L, int index, const char *what) {
    if (!lua_isinteger(L, index))
        host_fail(L, DCPK_E_TEMPLATE, "%s takes integers, not a %s", what,
                  lua_type(L, index) == LUA_TNUMBER ? "float" : luaL_typename(L, index));
    return lua_tointeger(L, index);
}

static int least(lua_State *L) {
    lua_Integer value = integer(L, 1, "min");
    for (int i = lua_gettop(L); i > 1; i--)
        if (integer(L, i, "min") < value) value = lua_tointeger(L, i);
    lua_pushinteger(L, value);
    return 1;
}

static int greatest(lua_State *L) {
    lua_Integer value = integer(L, 1, "max");
    for (int i = lua_gettop(L); i > 1; i--)
        if (integer(L, i, "max") > value) value = lua_tointeger(L, i);
    lua_pushinteger(L, value);
    return 1;
}

static lua_Integer divided_up(lua_State *L, const char *what) {
    lua_Integer value = integer(L, 1, what), by = integer(L, 2, what);
    if (value < 0 || by < 1) host_fail(L, DCPK_E_TEMPLATE, "%s takes an integer >= 0 and one >= 1", what);
    return value / by + (value % by != 0);
}

static int ceil_div(lua_State *L) {
    lua_pushinteger(L, divided_up(L, "ceil_div"));
    return 1;
}

static int round_up(lua_State *L) {
    lua_pushinteger(L, divided_up(L, "round_up") * lua_tointeger(L, 2));
    return 1;
}

/* ---- the table of globals ---- */

static int compare_names(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* What Lua has and templates do not, and what they have instead; NULL for a name that is not Lua's either. */
static const char *not_here(const char *name) {
    static const struct {
        const char *names, *instead; /* names: each between blanks */
    } rows[] = {
        {" print ", "comment(\"...\") writes a line into the text; error(\"...\") says it and ends"},
        {" require dofile loadfile package ", "include(\"lib/NAME\") runs lib/NAME.lua of the template folders"},
        {" io os ", "a template reads spec and include(), and writes lines: no file, no clock"},
        {" next rawget rawset rawequal rawlen ", "pairs(), ipairs() and # go through tables"},
        {" pcall xpcall load loadstring coroutine debug collectgarbage setmetatable getmetatable utf8 ",
         "docs/templates.md lists what there is"},
    };
    char word[48];
    snprintf(word, sizeof word, " %.40s ", name);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strstr(rows[i].names, word) != NULL) return rows[i].instead;
    return NULL;
}

/* Upvalue 1: what the table is called; 0 for the globals. Argument 1: the table, 2: the name that it lacks. */
static int unknown_name(lua_State *L) {
    const char *names[MAX_GLOBALS] = {NULL},
               *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2);
    const char *library = lua_tostring(L, lua_upvalueindex(1));
    size_t count = 0;
    for (lua_pushnil(L); count < MAX_GLOBALS && lua_next(L, 1) != 0; lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && lua_tostring(L, -2)[0] != '_') names[count++] = lua_tostring(L, -2);
    qsort(names, count, sizeof *names, compare_names);
    const char *nearest = dcpk_name_nearest(name, names, count);
    if (library != NULL) host_fail(L, DCPK_E_TEMPLATE, "templates have no %s.%.40s", library, name);
    if (not_here(name) != NULL) host_fail(L, DCPK_E_TEMPLATE, "templates have no '%.40s': %s", name, not_here(name));
    host_fail(L, DCPK_E_TEMPLATE, "there is no global '%.40s'%s%s%s: declare it with `local` above", name,
              nearest ? " (nearest: " : "", nearest ? nearest : "", nearest ? ")" : "");
}

static int no_assignment(lua_State *L) {
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2);
    const char *library = lua_tostring(L, lua_upvalueindex(1));
    if (library != NULL) host_fail(L, DCPK_E_TEMPLATE, "%s.%.40s: %s is read-only", library, name, library);
    host_fail(L, DCPK_E_TEMPLATE, "assignment to global '%.40s': declare it with `local`; a library returns its table",
              name);
}

/* table -> a table that reads through to it and refuses everything else. library NULL: the globals. */
static void seal(lua_State *L, const char *library) {
    lua_newtable(L); /* table, metatable of what is unknown */
    lua_pushstring(L, library);
    lua_pushcclosure(L, unknown_name, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_newtable(L); /* table, proxy, its metatable */
    lua_newtable(L);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pushstring(L, library);
    lua_pushcclosure(L, no_assignment, 1);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    lua_remove(L, -2);
}

/* Copies the named fields of Lua's library on top of the stack into a new table, which replaces it. */
static void pick(lua_State *L, const char *const *names) {
    lua_newtable(L);
    for (; *names != NULL; names++) {
        lua_getfield(L, -2, *names);
        lua_setfield(L, -2, *names);
    }
    lua_remove(L, -2);
}

/* Replaces field `name` of the table on top of the stack by `wrapper`, whose upvalue 1 is what was there. */
static void wrap(lua_State *L, const char *name, lua_CFunction wrapper) {
    lua_getfield(L, -1, name);
    lua_pushcclosure(L, wrapper, 1);
    lua_setfield(L, -2, name);
}

static void open_base(lua_State *L) {
    static const char *const names[] = {"ipairs", "select", "type", "tonumber", "error", "assert", NULL};
    static const luaL_Reg own[] = {{"pairs", pairs},       {"tostring", text_of},  {"min", least}, {"max", greatest},
                                   {"ceil_div", ceil_div}, {"round_up", round_up}, {NULL, NULL}};
    luaL_requiref(L, LUA_GNAME, luaopen_base, 0);
    pick(L, names);
    luaL_setfuncs(L, own, 0);
}

static void open_library(lua_State *L, const char *name, lua_CFunction open, const char *const *names) {
    luaL_requiref(L, name, open, 0);
    pick(L, names);
    if (open == luaopen_string) {
        wrap(L, "format", format);
        wrap(L, "rep", repeat);
        lua_pushliteral(L, ""); /* ("x"):rep(3) finds the same functions */
        lua_getmetatable(L, -1);
        lua_pushvalue(L, -3);
        lua_setfield(L, -2, "__index");
        lua_pop(L, 2);
    } else if (open == luaopen_table) {
        wrap(L, "insert", insert);
        wrap(L, "remove", remove_element);
        lua_pushcfunction(L, sort);
        lua_setfield(L, -2, "sort");
    }
    seal(L, name);
    lua_setfield(L, -2, name);
}

void sandbox_open(lua_State *L) {
    static const char *const strings[] = {"format", "rep", "sub", "len", "byte", "char", "upper", "lower", NULL};
    static const char *const tables[] = {"concat", "insert", "remove", "unpack", NULL};
    static const char *const numbers[] = {"floor", "abs",  "min",  "max", "tointeger", "log",
                                          "exp",   "sqrt", "huge", "pi",  "type",      NULL};
    open_base(L);
    open_library(L, LUA_STRLIBNAME, luaopen_string, strings);
    open_library(L, LUA_TABLIBNAME, luaopen_table, tables);
    open_library(L, LUA_MATHLIBNAME, luaopen_math, numbers);
    if (host_of(L)->spec != NULL) {
        write_open(L);
        registers_open(L);
        entry_open(L);
    }
    seal(L, NULL);
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
}
