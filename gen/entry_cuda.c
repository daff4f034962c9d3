/* entry_cuda.c - what kernel{} writes in a CUDA C++ template: `extern "C" __global__` with the parameters of the host's
 * metadata, so that both always agree. Must not fill the metadata: entry.c does. */
#include "gen/host.h"

#include <stdio.h>
#include <string.h>

enum { COMMENT_COLUMN = 44 };

static const char *type_of(const char *type) {
    static const struct {
        const char *name, *type;
    } rows[] = {{"u32", "unsigned"}, {"s32", "int"}, {"u64", "unsigned long long"}, {"f32", "float"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, type) == 0) return rows[i].type;
    return "void"; /* kernel{} takes no other */
}

void entry_check_cuda_name(lua_State *L, const char *name) {
    static const char *const words[] = {
#define C(word) #word,
#include "gen/cuda_words.def"
#undef C
    };
    bool upper = name[0] == '_' && name[1] >= 'A' && name[1] <= 'Z';
    if (upper || strstr(name, "__") != NULL)
        host_fail(L, DCPK_E_TEMPLATE,
                  "kernel{}: parameter %s: names with __ or with _ before a capital are the compiler's", name);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i], name) == 0)
            host_fail(L, DCPK_E_TEMPLATE, "kernel{}: parameter %s: this is a word of C++: use another name", name);
}

void entry_write_cuda(lua_State *L, const dcpk_entry_info *e, const char *const *docs, int min_ctas) {
    char line[128], bounds[32];
    uint32_t threads = e->block[0] * e->block[1] * e->block[2];
    write_format(L, "%s", "");
    int used = snprintf(bounds, sizeof bounds, "%u", threads);
    if (min_ctas > 0) snprintf(bounds + used, sizeof bounds - (size_t)used, ", %d", min_ctas);
    write_format(L, "extern \"C\" __global__ void __launch_bounds__(%s)", bounds);
    if (e->cluster[0] * e->cluster[1] * e->cluster[2] > 1)
        write_format(L, "__cluster_dims__(%u, %u, %u)", e->cluster[0], e->cluster[1], e->cluster[2]);
    write_format(L, "%s(%s", e->name, e->param_count == 0 ? ")" : "");
    for (uint32_t i = 0; i < e->param_count; i++) {
        snprintf(line, sizeof line, "    %s %s%s", type_of(e->params[i].type), e->params[i].name,
                 i + 1 < e->param_count ? "," : ")");
        if (docs[i] != NULL && docs[i][0] != '\0')
            write_format(L, "%-*s // %s", COMMENT_COLUMN, line, docs[i]);
        else
            write_format(L, "%s", line);
    }
    write_format(L, "{");
}
