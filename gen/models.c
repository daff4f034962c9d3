/* models.c - owns the reading of templates/models.lua: a list of tables, checked field by field.
 * The file runs in the same sandbox as templates, without a spec. */
#include "gen/models.h"
#include "runtime/error.h"
#include "runtime/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MODELS = 256 };

struct reading {
    struct model_preset *models; /* MAX_MODELS of them */
    uint32_t count;
};

static void read_text(lua_State *L, const char *field, char *out, size_t capacity) {
    size_t length;
    if (lua_getfield(L, -1, field) != LUA_TSTRING) host_fail(L, DCPK_E_TEMPLATE, "a preset needs a text %s", field);
    const char *text = lua_tolstring(L, -1, &length);
    if (length == 0 || length >= capacity || strlen(text) != length)
        host_fail(L, DCPK_E_TEMPLATE, "%s of a preset has 1 to %d bytes: '%.40s'", field, (int)capacity - 1, text);
    memcpy(out, text, length + 1);
    lua_pop(L, 1);
}

static int32_t read_value(lua_State *L, const char *name, const char *field, int32_t low, int32_t high) {
    char what[96];
    snprintf(what, sizeof what, "%s: %s", name, field);
    lua_getfield(L, -1, field);
    int32_t value = (int32_t)check_integer(L, -1, what, low, high);
    lua_pop(L, 1);
    return value;
}

static double read_number(lua_State *L, const char *name, const char *field, double low, double high) {
    int whole;
    lua_getfield(L, -1, field);
    double value = lua_tonumberx(L, -1, &whole);
    if (!whole || lua_type(L, -1) != LUA_TNUMBER || !(value >= low && value <= high))
        host_fail(L, DCPK_E_TEMPLATE, "%s: %s is a number from %f to %f", name, field, low, high);
    lua_pop(L, 1);
    return value;
}

static int32_t read_rope(lua_State *L, const char *name) {
    const struct dcpk_key_row *row = dcpk_key_row_find("rope", 4);
    char buffer[DCPK_KEY_TEXT];
    const char *given = lua_getfield(L, -1, "rope") == LUA_TSTRING ? lua_tostring(L, -1) : "";
    lua_pop(L, 1);
    for (int32_t value = 0; dcpk_key_allows(row, value); value++) {
        const char *text;
        size_t length = dcpk_key_text(row, value, buffer, &text);
        if (strlen(given) == length && memcmp(given, text, length) == 0) return value;
    }
    host_fail(L, DCPK_E_TEMPLATE, "%s: rope is one of %s", name, row->words);
}

/* Arguments: the list, the reading. */
static int read_list(lua_State *L) {
    static const char *const fields[] = {"name",   "source", "heads",         "gate",       "rope",
                                         "q_lora", "eps",    "softmax_scale", "rope_theta", NULL};
    struct reading *reading = lua_touserdata(L, 2);
    if (!lua_istable(L, 1)) host_fail(L, DCPK_E_TEMPLATE, "models.lua returns a list of tables");
    for (lua_Integer i = 1; lua_rawgeti(L, 1, i) != LUA_TNIL; i++) {
        if (!lua_istable(L, -1) || i > MAX_MODELS)
            host_fail(L, DCPK_E_TEMPLATE, "models.lua returns at most %d tables", MAX_MODELS);
        struct model_preset *model = &reading->models[reading->count];
        check_table_keys(L, lua_gettop(L), "a preset", fields);
        read_text(L, "name", model->name, sizeof model->name);
        read_text(L, "source", model->source, sizeof model->source);
        model->heads = read_value(L, model->name, "heads", 1, 4096);
        model->gate = read_value(L, model->name, "gate", 0, 1);
        model->q_lora = read_value(L, model->name, "q_lora", 0, 1536);
        model->rope = read_rope(L, model->name);
        model->eps = read_number(L, model->name, "eps", 0, 1);
        model->softmax_scale = read_number(L, model->name, "softmax_scale", 0.001, 10);
        model->rope_theta = read_number(L, model->name, "rope_theta", 0, 1e9);
        reading->count++;
        lua_pop(L, 1);
    }
    return 0;
}

dcpk_status models_read(struct host *host, struct model_preset **out, uint32_t *count) {
    struct reading reading = {calloc(MAX_MODELS, sizeof *reading.models), 0};
    if (reading.models == NULL) return dcpk_error_set(host->error, DCPK_E_NOMEM, "no memory for the presets");
    dcpk_status status = host_open(host);
    if (status == DCPK_OK) status = host_run(host, "models.lua", read_list, &reading);
    if (status != DCPK_OK) {
        free(reading.models);
        return status;
    }
    *out = reading.models;
    *count = reading.count;
    return DCPK_OK;
}
