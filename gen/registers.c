/* registers.c - owns symbols (registers, labels, parameters, shared variables): objects that know their type and print
 * their PTX name; and the literals. Must not write anything but declarations. */
#include "gen/host.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LETTERS = 40, COMMENT_COLUMN = 40, MAX_COUNT = 65536 };

struct symbol {
    const char *kind, *type; /* static texts; type NULL for labels */
    int32_t count;           /* elements of an array, else 1 */
    bool array;
    int32_t scope; /* where it was declared; 0: it is no name of a scope */
    char name[NAME_MAX_LETTERS + 16], text[NAME_MAX_LETTERS + 16];
};

static const char metatable_key, labels_key; /* of the registry */

static const char *const types[] = {"b8",  "b16", "b32",   "b64", "u32", "s32", "u64",
                                    "s64", "f16", "f16x2", "f32", "f64", "pred"};

static const struct symbol *symbol_at(lua_State *L, int index) {
    const struct symbol *symbol = lua_touserdata(L, index);
    if (symbol == NULL || !lua_getmetatable(L, index)) return NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same ? symbol : NULL;
}

bool symbol_is(lua_State *L, int index) {
    return symbol_at(L, index) != NULL;
}

static struct symbol *new_symbol(lua_State *L, const char *kind, const char *type, const char *name, const char *text) {
    struct symbol *symbol = lua_newuserdatauv(L, sizeof *symbol, 1);
    memset(symbol, 0, sizeof *symbol);
    symbol->kind = kind;
    symbol->type = type;
    symbol->count = 1;
    snprintf(symbol->name, sizeof symbol->name, "%s", name);
    snprintf(symbol->text, sizeof symbol->text, "%s", text);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
    lua_setmetatable(L, -2);
    return symbol;
}

void symbol_push(lua_State *L, const char *kind, const char *type, const char *name, const char *text) {
    new_symbol(L, kind, type, name, text);
}

const char *symbol_text(lua_State *L, int index, size_t *length) {
    static const char advice[] = "$( ) takes integers, strings and registers";
    const struct symbol *symbol;
    switch (lua_type(L, index)) {
    case LUA_TSTRING:
        return lua_tolstring(L, index, length);
    case LUA_TNUMBER:
        if (!lua_isinteger(L, index)) {
            lua_pushvalue(L, index);
            host_fail(L, DCPK_E_TEMPLATE,
                      "a float (%s) as PTX text: use // for integers, f32(x) or f64(x) for literals",
                      lua_tostring(L, -1));
        }
        return lua_tolstring(L, index, length);
    case LUA_TUSERDATA:
        if ((symbol = symbol_at(L, index)) == NULL) break;
        if (symbol->array)
            host_fail(L, DCPK_E_TEMPLATE, "'%s' is an array of %d registers: index it, %s[0] to %s[%d]", symbol->name,
                      symbol->count, symbol->name, symbol->name, symbol->count - 1);
        if (symbol->scope != 0) scope_check(L, symbol->name, symbol->scope);
        *length = strlen(symbol->text);
        return symbol->text;
    default:
        break;
    }
    host_fail(L, DCPK_E_TEMPLATE, "a %s as PTX text: %s", luaL_typename(L, index), advice);
}

const char *check_name(lua_State *L, int index, const char *what) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const char *name = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : NULL;
    if (name == NULL) host_fail(L, DCPK_E_TEMPLATE, "%s takes a name first, not a %s", what, luaL_typename(L, index));
    size_t length = strlen(name);
    if (length == 0 || length > NAME_MAX_LETTERS || strspn(name, letters) != lua_rawlen(L, index) ||
        (name[0] >= '0' && name[0] <= '9'))
        host_fail(L, DCPK_E_TEMPLATE, "%s: '%.50s' is not a name of at most %d letters, digits and _", what, name,
                  NAME_MAX_LETTERS);
    return name;
}

/* Names that PTX itself gives a meaning behind %. */
static void check_special(lua_State *L, const char *name) {
    static const char *const special[] = {"tid",
                                          "ntid",
                                          "laneid",
                                          "warpid",
                                          "nwarpid",
                                          "ctaid",
                                          "nctaid",
                                          "smid",
                                          "nsmid",
                                          "gridid",
                                          "clock",
                                          "clock_hi",
                                          "clock64",
                                          "globaltimer",
                                          "globaltimer_lo",
                                          "globaltimer_hi",
                                          "lanemask_eq",
                                          "lanemask_le",
                                          "lanemask_lt",
                                          "lanemask_ge",
                                          "lanemask_gt",
                                          "clusterid",
                                          "nclusterid",
                                          "cluster_ctaid",
                                          "cluster_nctaid",
                                          "cluster_ctarank",
                                          "cluster_nctarank",
                                          "is_explicit_cluster",
                                          "total_smem_size",
                                          "aggr_smem_size",
                                          "dynamic_smem_size",
                                          "current_graph_exec"};
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        if (strcmp(special[i], name) == 0)
            host_fail(L, DCPK_E_TEMPLATE, "register '%s': PTX has a special register %%%s; use another name", name,
                      name);
}

static void check_comment(lua_State *L, int index, const char *what) {
    if (lua_type(L, index) != LUA_TSTRING)
        host_fail(L, DCPK_E_TEMPLATE, "%s: a comment is a text, not a %s", what, luaL_typename(L, index));
}

lua_Integer check_integer(lua_State *L, int index, const char *what, lua_Integer low, lua_Integer high) {
    lua_Integer value = lua_isinteger(L, index) ? lua_tointeger(L, index) : low - 1;
    if (value < low || value > high)
        host_fail(L, DCPK_E_TEMPLATE, "%s is an integer from %lld to %lld, not %s", what, (long long)low,
                  (long long)high, lua_isinteger(L, index) ? lua_tostring(L, index) : luaL_typename(L, index));
    return value;
}

/* Of a CUDA C++ template: C++17's hexadecimal form says every finite number exactly. */
static void cuda_literal(double value, bool narrow, char *text, size_t capacity) {
    static const char *const special[2][3] = {
        {"__longlong_as_double(0x7FF8000000000000LL)", "__longlong_as_double(0x7FF0000000000000LL)",
         "(-__longlong_as_double(0x7FF0000000000000LL))"},
        {"__int_as_float(0x7FC00000)", "__int_as_float(0x7F800000)", "(-__int_as_float(0x7F800000))"}};
    if (narrow) value = (double)(float)value;
    if (isnan(value) || isinf(value))
        snprintf(text, capacity, "%s", special[narrow][isnan(value) ? 0 : value > 0 ? 1 : 2]);
    else
        snprintf(text, capacity, "%s%a%s%s", signbit(value) ? "(" : "", value, narrow ? "f" : "",
                 signbit(value) ? ")" : "");
}

/* f32(1.5): the literal, by bit pattern; every NaN is the one of PTX. */
static int literal(lua_State *L, const char *type) {
    char text[64];
    double value = lua_tonumber(L, 1);
    uint64_t bits64;
    uint32_t bits32;
    float narrow = (float)value;
    memcpy(&bits64, &value, sizeof bits64);
    memcpy(&bits32, &narrow, sizeof bits32);
    if (isnan(value)) {
        bits64 = UINT64_C(0x7FF8000000000000);
        bits32 = UINT32_C(0x7FC00000);
    }
    if (host_of(L)->cuda && (strcmp(type, "f32") == 0 || strcmp(type, "f64") == 0))
        cuda_literal(value, type[1] == '3', text, sizeof text);
    else if (strcmp(type, "f32") == 0)
        snprintf(text, sizeof text, "0f%08X", (unsigned)bits32);
    else if (strcmp(type, "f64") == 0)
        snprintf(text, sizeof text, "0d%016llX", (unsigned long long)bits64);
    else
        host_fail(L, DCPK_E_TEMPLATE, "%s takes a name; literals: f32(x), f64(x), hex(n), or the integer itself", type);
    if (lua_gettop(L) != 1) host_fail(L, DCPK_E_TEMPLATE, "%s(number) takes one number", type);
    lua_pushstring(L, text);
    return 1;
}

/* b32 "first" | b32("acc", 4) | b32("acc", 4, "purpose") | b32("acc", "purpose"); f32(1.5). Upvalue 1: the type. */
static int reg(lua_State *L) {
    const char *type = types[lua_tointeger(L, lua_upvalueindex(1))];
    char text[NAME_MAX_LETTERS + 2], declaration[NAME_MAX_LETTERS + 48];
    int top = lua_gettop(L), comment = 0;
    if (lua_type(L, 1) == LUA_TNUMBER) return literal(L, type);
    if (host_of(L)->cuda)
        host_fail(L, DCPK_E_TEMPLATE, "%s: registers are PTX's; in a CUDA C++ template declare a C++ variable", type);
    const char *name = check_name(L, 1, type);
    check_special(L, name);
    bool array = top >= 2 && lua_type(L, 2) == LUA_TNUMBER;
    if (array && name[strlen(name) - 1] >= '0' && name[strlen(name) - 1] <= '9')
        host_fail(L, DCPK_E_TEMPLATE,
                  "registers '%s': the name of several may not end in a digit: ptxas reads %%%s<n> otherwise", name,
                  name);
    int32_t count = array ? (int32_t)check_integer(L, 2, "a register count", 1, MAX_COUNT) : 1;
    if (top > 2 + array) host_fail(L, DCPK_E_TEMPLATE, "%s takes a name, a count and a comment", type);
    if (top == 2 + array) {
        comment = top;
        check_comment(L, comment, name);
    }
    int32_t scope = scope_declare(L, name, "register");
    for (int32_t i = 0; array && i < count; i++) { /* %t<2> is %t0 and %t1: ptxas takes a second %t0 without a word */
        snprintf(declaration, sizeof declaration, "%s%d", name, (int)i);
        scope_declare(L, declaration, "register");
    }
    snprintf(text, sizeof text, "%%%s", name);
    if (array)
        snprintf(declaration, sizeof declaration, "    .reg .%s %s<%d>;", type, text, (int)count);
    else
        snprintf(declaration, sizeof declaration, "    .reg .%s %s;", type, text);
    if (comment)
        write_format(L, "%-*s // %s", COMMENT_COLUMN, declaration, lua_tostring(L, comment));
    else
        write_format(L, "%s", declaration);
    struct symbol *symbol = new_symbol(L, "register", type, name, text);
    symbol->array = array;
    symbol->count = count;
    symbol->scope = scope;
    return 1;
}

/* label "spin" -> $spin_1: numbered per name, so that an edit renames few others. */
static int label(lua_State *L) {
    char text[NAME_MAX_LETTERS + 16];
    if (lua_gettop(L) != 1) host_fail(L, DCPK_E_TEMPLATE, "label takes one name");
    if (host_of(L)->cuda) host_fail(L, DCPK_E_TEMPLATE, "label: labels are PTX's; CUDA C++ has statements for that");
    const char *name = check_name(L, 1, "label");
    lua_rawgetp(L, LUA_REGISTRYINDEX, &labels_key);
    lua_getfield(L, -1, name);
    lua_Integer number = lua_tointeger(L, -1) + 1;
    lua_pushinteger(L, number);
    lua_setfield(L, -3, name);
    snprintf(text, sizeof text, "$%s_%lld", name, (long long)number);
    new_symbol(L, "label", NULL, name, text);
    return 1;
}

static int shared(lua_State *L) {
    struct host *host = host_of(L);
    if (lua_gettop(L) != 3) host_fail(L, DCPK_E_TEMPLATE, "shared takes a name, bytes and an alignment");
    const char *name = check_name(L, 1, "shared");
    lua_Integer bytes = check_integer(L, 2, "shared: bytes", 1, 1 << 20);
    lua_Integer align = check_integer(L, 3, "shared: alignment", 1, 1024);
    if ((align & (align - 1)) != 0)
        host_fail(L, DCPK_E_TEMPLATE, "shared: alignment %lld is not a power of two", (long long)align);
    int32_t scope = scope_declare(L, name, "shared variable");
    host->static_shared =
        (host->static_shared + (uint64_t)align - 1) / (uint64_t)align * (uint64_t)align + (uint64_t)bytes;
    if (host->static_shared > HOST_STATIC_SHARED)
        host_fail(L, DCPK_E_TEMPLATE,
                  "shared variables of more than %d bytes in one kernel: use kernel{shared = bytes}",
                  HOST_STATIC_SHARED);
    write_format(L,
                 host->cuda ? "    __shared__ __align__(%lld) unsigned char %s[%lld];"
                            : "    .shared .align %lld .b8 %s[%lld];",
                 (long long)align, name, (long long)bytes);
    struct symbol *symbol = new_symbol(L, "shared", "b8", name, name);
    symbol->count = (int32_t)bytes;
    symbol->scope = scope;
    return 1;
}

static int hex(lua_State *L) {
    if (lua_gettop(L) != 1 || !lua_isinteger(L, 1) || lua_tointeger(L, 1) < 0)
        host_fail(L, DCPK_E_TEMPLATE, "hex takes one integer that is not negative");
    char text[24];
    snprintf(text, sizeof text, "0x%llX", (unsigned long long)lua_tointeger(L, 1));
    lua_pushstring(L, text);
    return 1;
}

/* ---- the objects' own behaviour ---- */

/* acc[i]: made once, so that equal indices are equal objects. */
static int element(lua_State *L, const struct symbol *array) {
    char text[sizeof array->text + 12], name[sizeof array->name + 12];
    if (!array->array) host_fail(L, DCPK_E_TEMPLATE, "'%s' is one register, not an array", array->name);
    lua_Integer index = lua_tointeger(L, 2);
    if (index < 0 || index >= array->count)
        host_fail(L, DCPK_E_TEMPLATE, "%s[%lld]: the array has 0 to %d", array->name, (long long)index,
                  array->count - 1);
    if (lua_getiuservalue(L, 1, 1) != LUA_TTABLE) {
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setiuservalue(L, 1, 1);
    }
    if (lua_rawgeti(L, -1, index) != LUA_TNIL) return 1;
    lua_pop(L, 1);
    snprintf(text, sizeof text, "%s%lld", array->text, (long long)index);
    snprintf(name, sizeof name, "%s%lld", array->name, (long long)index);
    new_symbol(L, "register", array->type, name, text)->scope = array->scope;
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, index);
    return 1;
}

static int symbol_index(lua_State *L) {
    const struct symbol *symbol = symbol_at(L, 1);
    if (lua_isinteger(L, 2)) return element(L, symbol);
    const char *field = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2);
    if (strcmp(field, "name") == 0)
        lua_pushstring(L, symbol->name);
    else if (strcmp(field, "count") == 0)
        lua_pushinteger(L, symbol->count);
    else if (strcmp(field, "kind") == 0)
        lua_pushstring(L, symbol->kind);
    else if (strcmp(field, "type") == 0)
        lua_pushstring(L, symbol->type);
    else
        host_fail(L, DCPK_E_TEMPLATE, "%s '%s' has no field '%.40s'; it has type, name, count, kind", symbol->kind,
                  symbol->name, field);
    return 1;
}

static int symbol_newindex(lua_State *L) {
    const struct symbol *symbol = symbol_at(L, 1);
    host_fail(L, DCPK_E_TEMPLATE, "%s '%s' cannot be changed", symbol->kind, symbol->name);
}

static int symbol_len(lua_State *L) {
    lua_pushinteger(L, symbol_at(L, 1)->count);
    return 1;
}

static int symbol_tostring(lua_State *L) {
    size_t length;
    const char *text = symbol_text(L, 1, &length);
    lua_pushlstring(L, text, length);
    return 1;
}

static int symbol_concat(lua_State *L) {
    size_t first, second;
    luaL_Buffer buffer;
    const char *left = symbol_text(L, 1, &first), *right = symbol_text(L, 2, &second);
    luaL_buffinit(L, &buffer);
    luaL_addlstring(&buffer, left, first);
    luaL_addlstring(&buffer, right, second);
    luaL_pushresult(&buffer);
    return 1;
}

void registers_open(lua_State *L) {
    static const luaL_Reg functions[] = {{"label", label}, {"shared", shared}, {"hex", hex}, {NULL, NULL}};
    static const luaL_Reg behaviour[] = {{"__index", symbol_index},   {"__newindex", symbol_newindex},
                                         {"__len", symbol_len},       {"__tostring", symbol_tostring},
                                         {"__concat", symbol_concat}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        lua_pushinteger(L, (lua_Integer)i);
        lua_pushcclosure(L, reg, 1);
        lua_setfield(L, -2, types[i]);
    }
    lua_newtable(L);
    luaL_setfuncs(L, behaviour, 0);
    lua_pushstring(L, "register");
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable_key);
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &labels_key);
}
