/* ptx_head.c - what a module says of itself: .version, .target and .address_size, in that order before all else. */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/ptx.h>

enum { NEWEST = 900 }; /* 100 times the version, and behind the point */

/* Digits, a point, digits: 100 times the first and the second; 0: no version. */
static unsigned version_of(struct text t) {
    unsigned part[2] = {0, 0}, digits[2] = {0, 0}, which = 0;
    for (u32 at = 0; at < t.length; at++) {
        if (t.at[at] == '.' && !which) {
            which = 1;
            continue;
        }
        if (t.at[at] < '0' || t.at[at] > '9') return 0;
        if (++digits[which] > 4) return 0;
        part[which] = part[which] * 10 + (unsigned)(t.at[at] - '0');
    }
    return digits[0] && digits[1] ? part[0] * 100 + part[1] : 0;
}

/* Each major version's last minor one, from 1.5 on. */
static bool is_version(unsigned version) {
    static const u8 last[] = {0, 5, 3, 2, 3, 1, 5, 8, 8, 0};
    return version / 100 < sizeof last && version >= 100 && version % 100 <= last[version / 100];
}

static void parse_version(struct loader *l) {
    l->version = version_of(l->token.text);
    if (!l->version) lex_unexpected(l, "a PTX version such as 8.1");
    if (l->version > NEWEST) {
        l->misfit = PTX_MISFIT_VERSION;
        load_fail(l, l->token.line, ".version %.*s is newer than %d.%d, the newest that is read",
                  (int)l->token.text.length, l->token.text.at, NEWEST / 100, NEWEST % 100);
    }
    if (!is_version(l->version))
        load_fail(l, l->token.line, "there is no PTX %.*s", (int)l->token.text.length, l->token.text.at);
    lex_next(l);
}

/* Of a compute capability: the versions of PTX that brought its target, that with a and that with f; 0: there is none.
 */
static const struct target {
    u16 number, plain, exact, family;
} targets[] = {{10, 100, 0, 0},      {11, 100, 0, 0},      {12, 102, 0, 0},      {13, 102, 0, 0},
               {20, 200, 0, 0},      {21, 200, 0, 0},      {30, 300, 0, 0},      {32, 400, 0, 0},
               {35, 301, 0, 0},      {37, 401, 0, 0},      {50, 400, 0, 0},      {52, 401, 0, 0},
               {53, 402, 0, 0},      {60, 500, 0, 0},      {61, 500, 0, 0},      {62, 500, 0, 0},
               {70, 600, 0, 0},      {72, 601, 0, 0},      {75, 603, 0, 0},      {80, 700, 0, 0},
               {82, 602, 0, 0},      {86, 701, 0, 0},      {87, 704, 0, 0},      {88, 703, 0, 0},
               {89, 708, 0, 0},      {90, 708, 800, 0},    {100, 806, 806, 808}, {101, 806, 806, 808},
               {103, 808, 808, 808}, {110, 900, 900, 900}, {120, 807, 807, 808}, {121, 808, 808, 808}};

/* sm_90, sm_90a, sm_100f: the capability into l->target, what follows it into l->target_kind. */
static bool take_target(struct loader *l, struct text t) {
    u32 at = 3, number = 0;
    if (t.length < 5 || t.length > 8 || memcmp(t.at, "sm_", 3) != 0) return false;
    for (; at < t.length && t.at[at] >= '0' && t.at[at] <= '9'; at++)
        number = number * 10 + (u32)(t.at[at] - '0');
    char kind = at < t.length ? t.at[at++] : 0;
    if (at != t.length || (kind && kind != 'a' && kind != 'f')) return false;
    unsigned since = 0;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        if (targets[i].number == number)
            since = kind == 'a' ? targets[i].exact : kind == 'f' ? targets[i].family : targets[i].plain;
    if (!since)
        load_fail(l, l->token.line, "PTX %d.%d has no target `%.*s`", NEWEST / 100, NEWEST % 100, (int)t.length, t.at);
    if (l->version < since)
        load_fail(l, l->token.line, "PTX %u.%u has no target `%.*s`: it came with .version %u.%u", l->version / 100,
                  l->version % 100, (int)t.length, t.at, since / 100, since % 100);
    l->target = number;
    l->target_kind = kind;
    return true;
}

/* How textures are, one of them. */
static bool take_texmode(struct loader *l, const char **texmode) {
    static const char *const modes[] = {"texmode_unified", "texmode_independent", "texmode_raw"};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (!text_is(l->token.text, modes[i])) continue;
        if (*texmode && *texmode != modes[i])
            load_fail(l, l->token.line, "`%s` and `%s` exclude each other", *texmode, modes[i]);
        *texmode = modes[i];
        return true;
    }
    return false;
}

static void parse_target(struct loader *l) {
    u32 line = l->token.line;
    const char *texmode = NULL;
    bool doubles_map = false;
    do {
        const struct text t = l->token.text;
        bool maps = text_is(t, "map_f64_to_f32");
        doubles_map |= maps;
        if (l->token.kind != T_NAME ||
            (!maps && !text_is(t, "debug") && !take_texmode(l, &texmode) && !take_target(l, t)))
            lex_unexpected(l, "a target such as sm_90a");
        l->target_sm_90a |= text_is(l->token.text, "sm_90a");
        lex_next(l);
    } while (lex_punct(l, ','));
    if (!l->target) load_fail(l, line, ".target names no architecture such as sm_90a");
    if (doubles_map && l->target >= 13) load_fail(l, line, "`map_f64_to_f32` is for targets before sm_13");
}

/* A module says first what PTX it is, then for what, then how large addresses are. */
void parse_head(struct loader *l) {
    if (!lex_dot(l, "version")) lex_unexpected(l, "`.version`");
    parse_version(l);
    if (!lex_dot(l, "target")) lex_unexpected(l, "`.target`");
    parse_target(l);
    if (!lex_dot(l, "address_size")) return;
    if (l->version < 203) load_fail(l, l->behind, ".address_size came with PTX 2.3");
    if (l->token.kind != T_INTEGER) lex_unexpected(l, "a number of bits");
    if (l->token.bits != 64) load_fail(l, l->token.line, "only .address_size 64 is supported");
    lex_next(l);
}

/* ---- before a module is loaded ---- */
/* PTX for a capability runs on it and on newer ones; with a on it alone, with f on newer ones of its family. */
static bool runs_on(const struct loader *l, unsigned capability) {
    if (l->target_kind == 'a') return l->target == capability;
    return l->target <= capability && (l->target_kind != 'f' || l->target / 10 == capability / 10);
}

static enum ptx_misfit read_head(struct loader *l, unsigned capability) {
    if (setjmp(l->escape)) return l->misfit;
    lex_next(l);
    if (!lex_dot(l, "version")) return PTX_FITS;
    parse_version(l);
    if (!lex_dot(l, "target")) return PTX_FITS;
    u32 line = l->token.line;
    parse_target(l);
    if (!l->target || runs_on(l, capability)) return PTX_FITS;
    l->misfit = PTX_MISFIT_TARGET;
    char kind[2] = {l->target_kind, 0};
    load_fail(l, line,
              "PTX for sm_%u%s runs on compute capability %u.%u%s, and this device has %u.%u: compile for sm_%u%s, or "
              "emulate another device (DCPK_CPU_CAPABILITY, or major and minor of dcpkcpu_options)",
              l->target, kind, l->target / 10, l->target % 10,
              l->target_kind == 'a'   ? " alone"
              : l->target_kind == 'f' ? " and newer ones of its family"
                                      : " and newer ones",
              capability / 10, capability % 10, capability, capability == 90 ? " or sm_90a" : "");
}

enum ptx_misfit ptx_misfit(const char *text, const struct line_source *lines, int major, int minor, char *message,
                           size_t capacity) {
    struct loader *l = calloc(1, sizeof *l);
    if (!l) return PTX_FITS; /* ptx_load says so */
    *l = (struct loader){
        .lines = lines, .message = message, .capacity = capacity, .source = text, .at = text, .line = 1};
    enum ptx_misfit misfit = read_head(l, (unsigned)(major * 10 + minor));
    if (misfit == PTX_FITS && capacity) message[0] = 0;
    free(l);
    return misfit;
}
