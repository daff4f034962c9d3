/* entry.c - owns what a template says about its kernels: spec, rule, need, kernel{}, param.
 * Fills host->entries; entry registers, shared memory and stack are the cubin's to tell. */
#include "gen/host.h"
#include "runtime/keys.h"
#include "runtime/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 64, COMMENT_COLUMN = 40, MAX_SHARED = 227 * 1024 };

struct known_param {
    const char *name, *type, *doc;
};

/* The names that the runtime can fill at launch. */
static const struct known_param known_params[] = {
#define A(type, name, kernels, doc) {#name, #type, doc},
#define B(type, name, doc) {#name, #type, doc},
#define M(name, doc) {#name, "map", doc},
#include <dcpk/args.def>
#include <dcpk/box.def>
#include <dcpk/maps.def>
#undef A
#undef B
#undef M
};

/* ---- spec ---- */

/* What follows from mla_decode's keys in one place, for templates and runtime alike. */
static const struct {
    const char *key;
    int32_t (*of)(const dcpk_spec *spec);
} planned[] = {{"planned_splits", dcpk_spec_planned_splits},
               {"planned_groups", dcpk_spec_planned_groups},
               {"planned_columns", dcpk_spec_planned_columns}};

static int spec_index(lua_State *L) {
    const dcpk_spec *spec = host_of(L)->spec;
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2);
    char number[DCPK_KEY_TEXT], list[512];
    if (strcmp(key, "kernel") == 0 || strcmp(key, "arch") == 0) {
        lua_pushstring(L, key[0] == 'k' ? spec->kernel : spec->arch);
        return 1;
    }
    for (size_t i = 0; i < sizeof planned / sizeof *planned; i++)
        if (strcmp(key, planned[i].key) == 0 && dcpk_kernel_id_of(spec->kernel) == DCPK_KERNEL_mla_decode) {
            lua_pushinteger(L, planned[i].of(spec));
            return 1;
        }
    const struct dcpk_key_row *row = dcpk_key_row_find(key, strlen(key));
    int32_t taken = row != NULL && dcpk_key_taken(spec->kernel, row),
            value = taken ? dcpk_key_get(spec, row) : DCPK_UNSET;
    if (value == DCPK_UNSET) {
        dcpk_key_list(spec->kernel, list, sizeof list);
        if (taken)
            host_fail(L, DCPK_E_SPEC, "%s: the template needs %s, which the spec does not set: add %s=VALUE (%s)",
                      spec->kernel, key, key, row->values);
        host_fail(L, DCPK_E_TEMPLATE, "spec.%.40s: %s takes no such key; keys: kernel %s", key, spec->kernel, list);
    }
    if (dcpk_key_is_number(row)) {
        lua_pushinteger(L, value);
        return 1;
    }
    const char *text;
    size_t length = dcpk_key_text(row, value, number, &text);
    lua_pushlstring(L, text, length);
    return 1;
}

static int read_only(lua_State *L) {
    host_fail(L, DCPK_E_TEMPLATE, "%s is read-only", lua_tostring(L, lua_upvalueindex(1)));
}

/* rule(condition, message): the spec is refused when the condition is false or nil. */
static int rule(lua_State *L) {
    if (lua_gettop(L) != 2 || lua_type(L, 2) != LUA_TSTRING)
        host_fail(L, DCPK_E_TEMPLATE, "rule takes a condition and a message");
    if (!lua_toboolean(L, 1)) host_fail(L, DCPK_E_SPEC, "%s: %s", host_of(L)->spec->kernel, lua_tostring(L, 2));
    return 0;
}

/* Refuses fields that nobody reads: a misspelt one would be lost silently. */
void check_table_keys(lua_State *L, int index, const char *what, const char *const *allowed) {
    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        size_t i = 0;
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : luaL_typename(L, -2);
        while (allowed[i] != NULL && strcmp(allowed[i], key) != 0)
            i++;
        if (allowed[i] == NULL) host_fail(L, DCPK_E_TEMPLATE, "%s has no field '%.40s'", what, key);
        lua_pop(L, 1);
    }
}

/* ---- need ---- */

struct target {
    int number;  /* 90 */
    char suffix; /* 0, 'a' or 'f' */
};

static bool parse_target(const char *text, struct target *target) {
    char *end;
    if (strncmp(text, "sm_", 3) != 0 || text[3] < '1' || text[3] > '9') return false;
    target->number = (int)strtol(text + 3, &end, 10);
    target->suffix = *end;
    if (*end != '\0') end++;
    return *end == '\0' && target->number < 1000 && strchr("af", target->suffix) != NULL;
}

/* Whether code for `target` runs on the spec's architecture. */
static bool serves(const struct target *target, const char *text, const dcpk_spec *spec) {
    dcpk_arch_info arch = {.size = sizeof arch};
    if (!dcpk_arch_find(spec->arch, &arch)) return false;
    int number = arch.major * 10 + arch.minor;
    if (target->suffix == 'a') return strcmp(text, spec->arch) == 0;
    if (target->suffix == 'f') return arch.exact && arch.major == target->number / 10 && target->number <= number;
    return target->number <= number;
}

/* The architectures that would do are named. */
static void refuse_target(lua_State *L, const struct target *target, const char *text) {
    const dcpk_spec *spec = host_of(L)->spec;
    dcpk_arch_info row = {.size = sizeof row};
    char list[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; used < sizeof list && dcpk_arch_at(i, &row); i++) {
        dcpk_spec other = *spec;
        snprintf(other.arch, sizeof other.arch, "%s", row.name);
        if (serves(target, text, &other))
            used += (size_t)snprintf(list + used, sizeof list - used, " arch=%s", row.name);
    }
    host_fail(L, DCPK_E_ARCH, "%s needs target %s, and arch=%s is not one%s%s", spec->kernel, text, spec->arch,
              used > 0 ? ": use" : ": no architecture of the table is", list);
}

static void need_target(lua_State *L, const char *text) {
    struct host *host = host_of(L);
    struct target target, before;
    if (!parse_target(text, &target))
        host_fail(L, DCPK_E_TEMPLATE, "need: '%.20s' is not a target (sm_90, sm_90a, sm_100f)", text);
    if (!serves(&target, text, host->spec)) refuse_target(L, &target, text);
    if (target.suffix != 0)
        snprintf(host->need.target, sizeof host->need.target, "%s", host->spec->arch);
    else if (parse_target(host->need.target, &before) && before.suffix == 0 && target.number > before.number)
        snprintf(host->need.target, sizeof host->need.target, "sm_%d", target.number);
    if (target.suffix == 'f' && host->need.ptx < 88) host->need.ptx = 88; /* the first with family targets */
}

/* Version * 10 of need's ptx. PTX past the table is left to the compiler's own answer, where PTX of that kind may be.
 */
static int32_t need_ptx(lua_State *L, const char *text) {
    static const struct {
        int32_t ptx, major, minor;
    } isas[] = {
#define I(ptx, major, minor) {ptx, major, minor},
#include "gen/ptx_isa.def"
#undef I
    };
    size_t major = strspn(text, "0123456789"), last = sizeof isas / sizeof isas[0] - 1;
    bool number = major > 0 && text[0] != '0' && text[major] == '.' && text[major + 1] >= '0' &&
                  text[major + 1] <= '9' && text[major + 2] == '\0';
    if (!number) host_fail(L, DCPK_E_TEMPLATE, "need: ptx is a text like \"8.0\"");
    if (major > 1)
        host_fail(L, DCPK_E_TEMPLATE,
                  "need: no toolkit has PTX %.20s: the newest that dcpk knows is %d.%d, of CUDA %d.%d", text,
                  isas[last].ptx / 10, isas[last].ptx % 10, isas[last].major, isas[last].minor);
    return (text[0] - '0') * 10 + (text[2] - '0');
}

static int need(lua_State *L) {
    static const char *const fields[] = {"ptx", "target", NULL};
    struct host *host = host_of(L);
    if (lua_gettop(L) != 1 || !lua_istable(L, 1))
        host_fail(L, DCPK_E_TEMPLATE, "need takes a table: need{ptx=\"8.0\", target=\"sm_90\"}");
    check_table_keys(L, 1, "need{}", fields);
    if (lua_getfield(L, 1, "ptx") != LUA_TNIL) {
        const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
        int32_t version = need_ptx(L, text);
        if (version > host->need.ptx) host->need.ptx = version;
    }
    if (lua_getfield(L, 1, "target") != LUA_TNIL) {
        if (lua_type(L, -1) != LUA_TSTRING) host_fail(L, DCPK_E_TEMPLATE, "need: target is a text like \"sm_90\"");
        need_target(L, lua_tostring(L, -1));
    }
    return 0;
}

/* ---- kernel{} ---- */

/* {x, y, z} of a field; what is left out is 1. Returns false when the field is not there. */
static bool extent(lua_State *L, const char *field, const lua_Integer high[3], uint32_t out[3]) {
    char what[48];
    out[0] = out[1] = out[2] = 1;
    int type = lua_getfield(L, 1, field);
    if (type == LUA_TNIL) {
        lua_pop(L, 1);
        return false;
    }
    if (type != LUA_TTABLE || lua_rawlen(L, -1) < 1 || lua_rawlen(L, -1) > 3)
        host_fail(L, DCPK_E_TEMPLATE, "kernel{}: %s is a table of one to three integers", field);
    for (int i = 0; i < 3 && i < (int)lua_rawlen(L, -1); i++) {
        snprintf(what, sizeof what, "kernel{}: %s[%d]", field, i + 1);
        lua_rawgeti(L, -1, i + 1);
        out[i] = (uint32_t)check_integer(L, -1, what, 1, high[i]);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return true;
}

static void shape(lua_State *L, dcpk_entry_info *entry) {
    static const lua_Integer grid[3] = {0x7FFFFFFF, 65535, 65535}, block[3] = {1024, 1024, 64},
                             cluster[3] = {16, 16, 16};
    if (!extent(L, "grid", grid, entry->grid) || !extent(L, "block", block, entry->block))
        host_fail(L, DCPK_E_TEMPLATE, "kernel{} needs grid = {...} and block = {...}");
    extent(L, "cluster", cluster, entry->cluster);
    uint32_t threads = entry->block[0] * entry->block[1] * entry->block[2];
    uint32_t ctas = entry->cluster[0] * entry->cluster[1] * entry->cluster[2];
    if (threads > 1024)
        host_fail(L, DCPK_E_TEMPLATE, "kernel{}: a block of %u threads; a CTA has at most 1024", threads);
    if (ctas > 16) host_fail(L, DCPK_E_TEMPLATE, "kernel{}: a cluster of %u CTAs; it has at most 16", ctas);
    for (int i = 0; i < 3; i++)
        if (entry->grid[i] % entry->cluster[i] != 0)
            host_fail(L, DCPK_E_TEMPLATE, "kernel{}: cluster[%d] = %u does not divide grid[%d] = %u", i + 1,
                      entry->cluster[i], i + 1, entry->grid[i]);
    if (lua_getfield(L, 1, "shared") != LUA_TNIL)
        entry->dynamic_shared = (uint32_t)check_integer(L, -1, "kernel{}: shared", 0, MAX_SHARED);
    if (lua_getfield(L, 1, "resident") != LUA_TNIL && !lua_isboolean(L, -1))
        host_fail(L, DCPK_E_TEMPLATE, "kernel{}: resident is true or false");
    entry->resident = lua_toboolean(L, -1) ? 1 : 0;
    lua_pop(L, 2);
}

static const struct known_param *find_param(lua_State *L, const char *name) {
    const char *names[MAX_NAMES];
    size_t count = sizeof known_params / sizeof known_params[0];
    for (size_t i = 0; i < count; i++) {
        if (strcmp(known_params[i].name, name) == 0) return &known_params[i];
        names[i] = known_params[i].name;
    }
    const char *nearest = dcpk_name_nearest(name, names, count);
    char list[700];
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, " %s", names[i]);
    host_fail(L, DCPK_E_TEMPLATE,
              "kernel{}: no argument or box part is called '%.40s'%s%s%s; there are:%s; {name, type} declares your own",
              name, nearest ? " (nearest: " : "", nearest ? nearest : "", nearest ? ")" : "", list);
}

/* The element of params on top of the stack: "rows", or {"mine", "u64"}. */
static struct known_param declared_param(lua_State *L) {
    static const char *const allowed[] = {"u32", "s32", "u64", "f32", "map"};
    if (lua_type(L, -1) == LUA_TSTRING) return *find_param(L, lua_tostring(L, -1));
    if (!lua_istable(L, -1) || lua_rawlen(L, -1) != 2)
        host_fail(L, DCPK_E_TEMPLATE, "kernel{}: an element of params is a name, or {name, type}");
    lua_rawgeti(L, -1, 1);
    const char *name = check_name(L, -1, "params");
    lua_rawgeti(L, -2, 2);
    const char *type = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    lua_pop(L, 2); /* both texts are held by the table */
    if (host_of(L)->cuda) entry_check_cuda_name(L, name);
    if (strcmp(type, "map") == 0 && host_of(L)->cuda)
        host_fail(L, DCPK_E_TEMPLATE, "kernel{}: parameter %s: only PTX templates take tensor maps", name);
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        if (strcmp(type, allowed[i]) == 0) return (struct known_param){name, allowed[i], ""};
    host_fail(L, DCPK_E_TEMPLATE, "kernel{}: parameter %s is of type u32, s32, u64, f32 or map, not '%.20s'", name,
              type);
}

static void params(lua_State *L, dcpk_entry_info *entry, const char **docs) {
    if (lua_getfield(L, 1, "params") == LUA_TNIL) {
        lua_pop(L, 1);
        return;
    }
    if (!lua_istable(L, -1)) host_fail(L, DCPK_E_TEMPLATE, "kernel{}: params is a table of names");
    lua_Unsigned count = lua_rawlen(L, -1);
    if (count > DCPK_IMAGE_MAX_PARAMS)
        host_fail(L, DCPK_E_TEMPLATE, "kernel{}: %d parameters; at most %d", (int)count, DCPK_IMAGE_MAX_PARAMS);
    for (uint32_t i = 0; i < count; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        struct known_param param = declared_param(L);
        dcpk_param_info *info = &entry->params[i];
        if (strlen(param.name) >= sizeof info->name)
            host_fail(L, DCPK_E_TEMPLATE, "kernel{}: parameter name %s is longer than 31 letters", param.name);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(entry->params[k].name, param.name) == 0)
                host_fail(L, DCPK_E_TEMPLATE, "kernel{}: parameter %s stands twice in params", param.name);
        snprintf(info->name, sizeof info->name, "%s", param.name);
        snprintf(info->type, sizeof info->type, "%s", param.type);
        docs[i] = param.doc;
        entry->param_count = i + 1;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void name_entry(lua_State *L, dcpk_entry_info *entry) {
    struct host *host = host_of(L);
    const char *name = host->spec->kernel;
    if (lua_getfield(L, 1, "name") != LUA_TNIL) name = check_name(L, -1, "kernel{}: name");
    snprintf(entry->name, sizeof entry->name, "dcpk_%s", name);
    for (uint32_t i = 0; i < host->entry_count; i++)
        if (strcmp(host->entries[i].name, entry->name) == 0)
            host_fail(L, DCPK_E_TEMPLATE, "kernel{}: the entry %s is there already: give it a name of its own",
                      entry->name);
    lua_pop(L, 1);
}

/* It bounds the registers: 65536 / (min_ctas * threads) a thread. 0: the field is not there. */
static int min_ctas(lua_State *L) {
    int value = 0;
    if (lua_getfield(L, 1, "min_ctas") != LUA_TNIL) value = (int)check_integer(L, -1, "kernel{}: min_ctas", 1, 32);
    lua_pop(L, 1);
    return value;
}

static void write_header(lua_State *L, const dcpk_entry_info *e, const char *const *docs) {
    char line[96];
    int ctas = min_ctas(L);
    if (host_of(L)->cuda) {
        entry_write_cuda(L, e, docs, ctas);
        return;
    }
    write_format(L, "%s", "");
    write_format(L, ".visible .entry %s(%s", e->name, e->param_count == 0 ? ")" : "");
    for (uint32_t i = 0; i < e->param_count; i++) {
        bool map = strcmp(e->params[i].type, "map") == 0; /* a tensor map: 128 bytes */
        snprintf(line, sizeof line, "    .param .%s param_%s%s%s", map ? "align 64 .b8" : e->params[i].type,
                 e->params[i].name, map ? "[128]" : "", i + 1 < e->param_count ? "," : "");
        if (docs[i] != NULL && docs[i][0] != '\0')
            write_format(L, "%-*s // %s", COMMENT_COLUMN, line, docs[i]);
        else
            write_format(L, "%s", line);
    }
    if (e->param_count > 0) write_format(L, ")");
    write_format(L, ".reqntid %u, %u, %u", e->block[0], e->block[1], e->block[2]);
    if (e->cluster[0] * e->cluster[1] * e->cluster[2] > 1)
        write_format(L, ".reqnctapercluster %u, %u, %u", e->cluster[0], e->cluster[1], e->cluster[2]);
    if (ctas > 0) write_format(L, ".minnctapersm %d", ctas);
    write_format(L, "{");
}

static int kernel(lua_State *L) {
    static const char *const fields[] = {"name",     "grid",     "block",  "cluster", "shared",
                                         "resident", "min_ctas", "params", NULL};
    struct host *host = host_of(L);
    const char *docs[DCPK_IMAGE_MAX_PARAMS] = {NULL};
    if (lua_gettop(L) != 1 || !lua_istable(L, 1))
        host_fail(L, DCPK_E_TEMPLATE, "kernel takes a table: kernel{grid={...}, block={...}}");
    check_table_keys(L, 1, "kernel{}", fields);
    entry_close(L);
    if (host->entry_count == DCPK_IMAGE_MAX_ENTRIES)
        host_fail(L, DCPK_E_TEMPLATE, "more than %d kernels in one template", DCPK_IMAGE_MAX_ENTRIES);
    dcpk_entry_info *entry = &host->entries[host->entry_count];
    memset(entry, 0, sizeof *entry);
    entry->size = (uint32_t)sizeof *entry;
    name_entry(L, entry);
    shape(L, entry);
    params(L, entry, docs);
    host->entry_count++;
    host->static_shared = 0;
    write_header(L, entry, docs);
    scope_push(L);
    return 0;
}

static int param_index(lua_State *L) {
    struct host *host = host_of(L);
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2);
    char text[40];
    if (host->scope_count == 0) host_fail(L, DCPK_E_TEMPLATE, "param.%.40s outside a kernel", name);
    const dcpk_entry_info *entry = &host->entries[host->entry_count - 1];
    for (uint32_t i = 0; i < entry->param_count; i++) {
        if (strcmp(entry->params[i].name, name) != 0) continue;
        const char *type = entry->params[i].type;
        snprintf(text, sizeof text, "%s%s", host->cuda ? "" : "param_", name);
        symbol_push(L, "param",
                    type[0] == 'f'   ? "f32"
                    : type[0] == 'm' ? "map"
                    : type[0] == 's' ? "s32"
                    : type[1] == '6' ? "u64"
                                     : "u32",
                    name, text);
        return 1;
    }
    char list[700] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < entry->param_count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, " %s", entry->params[i].name);
    host_fail(L, DCPK_E_TEMPLATE, "param.%.40s: this kernel{} does not declare it in params; it declares%s", name,
              used > 0 ? list : " none");
}

/* A global whose fields a C function answers. */
static void answering(lua_State *L, const char *name, lua_CFunction index) {
    lua_newuserdatauv(L, 0, 0);
    lua_newtable(L);
    lua_pushcfunction(L, index);
    lua_setfield(L, -2, "__index");
    lua_pushstring(L, name);
    lua_pushcclosure(L, read_only, 1);
    lua_setfield(L, -2, "__newindex");
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__name");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, name);
}

void entry_open(lua_State *L) {
    static const luaL_Reg functions[] = {{"rule", rule}, {"need", need}, {"kernel", kernel}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    answering(L, "spec", spec_index);
    answering(L, "param", param_index);
}
