/* ptx_head.c - what a module says of itself: .version and .target, in that order before all else. */
#include <string.h>
#include <runtime/cpu/ptx.h>

/* Digits, a point, digits. */
static bool is_version(struct text t) {
    u32 at = 0, before = 0, behind = 0;
    for (; at < t.length && t.at[at] >= '0' && t.at[at] <= '9'; at++)
        before++;
    if (at < t.length && t.at[at] == '.') at++;
    for (; at < t.length && t.at[at] >= '0' && t.at[at] <= '9'; at++)
        behind++;
    return before && behind && at == t.length;
}

void parse_version(struct loader *l) {
    if (!is_version(l->token.text)) lex_unexpected(l, "a PTX version such as 8.1");
    l->has_version = true;
    lex_next(l);
}

/* sm_90, sm_90a, sm_100f; the other words say how textures, debug information and doubles are. */
static bool is_target(struct text t) {
    static const char *const others[] = {"texmode_unified", "texmode_independent", "texmode_raw", "debug",
                                         "map_f64_to_f32"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (text_is(t, others[i])) return true;
    u32 at = 3;
    if (t.length < 5 || memcmp(t.at, "sm_", 3) != 0) return false;
    while (at < t.length && t.at[at] >= '0' && t.at[at] <= '9')
        at++;
    if (at < t.length && at > 4 && (t.at[at] == 'a' || t.at[at] == 'f')) at++;
    return at == t.length;
}

void parse_target(struct loader *l) {
    do {
        if (l->token.kind != T_NAME || !is_target(l->token.text)) lex_unexpected(l, "a target such as sm_90a");
        l->target_sm_90a |= text_is(l->token.text, "sm_90a");
        lex_next(l);
    } while (lex_punct(l, ','));
    l->has_target = true;
}

/* A module says first what PTX it is, then for what. */
void check_head(struct loader *l) {
    if (l->token.kind == T_DOT && text_is(l->token.text, "version")) return;
    if (!l->has_version) lex_unexpected(l, "`.version`");
    if (l->token.kind == T_DOT && (text_is(l->token.text, "target") || text_is(l->token.text, "address_size"))) return;
    if (!l->has_target) lex_unexpected(l, "`.target`");
}
