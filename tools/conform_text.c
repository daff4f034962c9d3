/* conform_text.c - the PTX around the body of a form: one entry a form, 128 threads a CTA, a thread an input.
 *
 * A body finds: A B C X (64 bits of its input), a b c x (the low words), ha hb hc hx (the low halves); I, its input's
 * address, J, that of the CTA's first input; S, its slot of 64 bytes of global memory, R, the CTA's first: both hold a
 * copy of the input; t (thread), l (lane), z (block); and where the row says SHARED: T, its slot of shared memory with
 * a copy of the input (tile is the first), tile[16384], of which the slots are the first half, bars[8] of 8 bytes;
 * MAPPED: M, the address of a tensor map over the CTA's inputs. It leaves D E F G, d e f g, hd he hf hg or p q r s,
 * which are zero before. Its own: k m n o (32 bits), K L N P (64), hk hl, predicates u v.
 *
 * Tokens: $i the instruction; $t its last type; $m bits of that size; $d $e $f and $a $b $c $x by size of the first and
 * of the last type; $1 $2 $3 $4 a b c x by the first type; $w and $W: d and c of twice the size of the last type; $V $U
 * vectors of d e f g and a b c x (.v2, .v4; without: d, a) of the last type. Of matrices: $l and $k the first and the
 * second layout; $p K, L or m: the address of a warp's slots in the space; wgmma: $L the registers of D, $Z zeroes in
 * them, $H what they come to in d e f g; $O where B begins in tile, $M the other bits of its descriptor. */
#include "conform_product.h"

#include "command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *data;
    size_t used, room;
};

static void add(struct text *text, const char *piece, size_t length) {
    if (text->used + length + 1 > text->room) {
        text->room = (text->used + length + 1) * 2;
        text->data = must(realloc(text->data, text->room));
    }
    memcpy(text->data + text->used, piece, length);
    text->used += length;
    text->data[text->used] = '\0';
}

static void add_string(struct text *text, const char *piece) {
    add(text, piece, strlen(piece));
}

/* The register of a name (d e f g a b c x) that has so many bits. */
static void add_register(struct text *text, char name, unsigned bits) {
    static const char predicates[] = "dpeqfrgs";
    char word[3] = {name, '\0', '\0'};
    if (bits == 64) word[0] = (char)(name - 'a' + 'A');
    if (bits == 16) word[0] = 'h', word[1] = name;
    if (bits == 1) word[0] = strchr(predicates, name)[1];
    add_string(text, word);
}

static void add_vector(struct text *text, const char *names, unsigned count, unsigned bits) {
    if (count > 1) add_string(text, "{");
    for (unsigned i = 0; i < count; i++) {
        if (i > 0) add_string(text, ", ");
        add_register(text, names[i], bits);
    }
    if (count > 1) add_string(text, "}");
}

/* ---- matrices ---- */
/* w0, w1, ... each between two texts. */
static void add_each(struct text *text, unsigned count, const char *before, const char *behind) {
    for (unsigned i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%u", i);
        add_string(text, i == 0 && before[0] == ',' ? "" : before);
        add_string(text, name);
        add_string(text, behind);
    }
}

static void add_layout(struct text *text, const struct conform_form *form, unsigned which) {
    for (unsigned i = 1; i < form->word_count; i++)
        if ((strcmp(form->words[i], "row") == 0 || strcmp(form->words[i], "col") == 0) && which-- == 0) {
            add_string(text, form->words[i]);
            return;
        }
}

static void add_matrix_token(struct text *text, const struct conform_form *form, char token) {
    struct conform_matrix matrix;
    conform_matrix_of(form, &matrix);
    unsigned registers = conform_group_registers(&matrix);
    char number[32];
    switch (token) {
    case 'l':
    case 'k':
        add_layout(text, form, token == 'k');
        return;
    case 'p':
        add_string(text, conform_has(form, "shared")                                 ? "m"
                         : conform_has(form, "global") || conform_has(form, "store") ? "K"
                                                                                     : "L");
        return;
    case 'L':
        add_string(text, "{");
        add_each(text, registers, ", ", "");
        add_string(text, "}");
        return;
    case 'Z':
        add_each(text, registers, "mov.b32 ", ", 0; ");
        return;
    case 'H':
        for (unsigned i = 0; i < registers; i++) {
            char line[64], to = "defg"[i % 4];
            snprintf(line, sizeof line, "mad.lo.u32 %c, %c, %u, w%u; ", to, to, CONFORM_FOLD, i);
            add_string(text, line);
        }
        return;
    case 'O':
        snprintf(number, sizeof number, "%u", conform_group_b(&matrix));
        break;
    default: /* M */
        snprintf(number, sizeof number, "0x%" PRIx64, UINT64_C(8) << 32 | (uint64_t)matrix.n << 16);
        break;
    }
    add_string(text, number);
}

static void add_token(struct text *text, const struct conform_form *form, char token) {
    static const char by_first[] = "abcx";
    unsigned last = form->last != NULL ? form->last->bits : 32, first = form->first != NULL ? form->first->bits : 32;
    switch (token) {
    case 'i':
        add_string(text, form->instruction);
        return;
    case 't':
        add_string(text, form->last != NULL ? form->last->name : "");
        return;
    case 'q': /* bars: shared, or generic */
        add_string(text, conform_which(form, "shared shared::cta") >= 0 ? "bars" : "K");
        return;
    case 'm':
        add_string(text, last == 64 ? "b64" : last == 32 ? "b32" : "b16");
        return;
    case 'w':
        add_register(text, 'd', 2 * last);
        return;
    case 'W':
        add_register(text, 'c', 2 * last);
        return;
    case 'V':
        add_vector(text, "defg", form->vector, last);
        return;
    case 'U':
        add_vector(text, "abcx", form->vector, last);
        return;
    case 'l':
    case 'k':
    case 'p':
    case 'L':
    case 'Z':
    case 'H':
    case 'O':
    case 'M':
        add_matrix_token(text, form, token);
        return;
    default:
        break;
    }
    if (token >= '1' && token <= '4')
        add_register(text, by_first[token - '1'], first);
    else
        add_register(text, token, strchr("def", token) != NULL ? first : last);
}

static void add_body(struct text *text, const struct conform_form *form) {
    for (const char *at = form->row->body; *at != '\0';) {
        size_t plain = strcspn(at, "$");
        add(text, at, plain);
        at += plain;
        if (*at == '\0') break;
        add_token(text, form, at[1]);
        at += 2;
    }
}

static const char head[] = ".visible .entry f%u(.param .u64 in, .param .u64 out, .param .u64 slots,\n"
                           "    .param .align 64 .b8 map[128])%s .reqntid 128, 1, 1 {\n"
                           ".reg .b64 A, B, C, D, E, F, G, I, J, K, L, M, N, O, P, R, S, X;\n"
                           ".reg .b32 a, b, c, d, e, f, g, k, l, m, n, o, t, x, y, z, T;\n"
                           ".reg .b16 ha, hb, hc, hd, he, hf, hg, hk, hl, hx; .reg .pred p, q, r, s, u, v;\n"
                           "mov.u32 t, %%tid.x; mov.u32 z, %%ctaid.x; mov.u32 l, %%laneid; mad.lo.u32 k, z, 128, t;\n"
                           "ld.param.u64 I, [in]; ld.param.u64 O, [out]; ld.param.u64 S, [slots];\n"
                           "mul.wide.u32 K, z, 8192; add.u64 J, I, K; add.u64 R, S, K;\n"
                           "mul.wide.u32 K, k, 64; add.u64 I, I, K; add.u64 S, S, K; mul.wide.u32 K, k, 32;\n"
                           "add.u64 O, O, K; ld.global.v2.u64 {A, B}, [I]; ld.global.v2.u64 {C, X}, [I+16];\n"
                           "cvt.u32.u64 a, A; cvt.u32.u64 b, B; cvt.u32.u64 c, C; cvt.u32.u64 x, X;\n"
                           "cvt.u16.u64 ha, A; cvt.u16.u64 hb, B; cvt.u16.u64 hc, C; cvt.u16.u64 hx, X;\n";
static const char in_shared[] =
    "mov.u32 T, tile; mad.lo.u32 T, t, 64, T; ld.global.v2.u64 {D, E}, [I+32]; ld.global.v2.u64 {F, G}, [I+48];\n"
    "st.shared.v2.u64 [T], {A, B}; st.shared.v2.u64 [T+16], {C, X}; st.shared.v2.u64 [T+32], {D, E};\n"
    "st.shared.v2.u64 [T+48], {F, G}; bar.sync 0;\n";

static const char variables[] = ".const .align 16 .b32 constants[4] = {0x01020304, 0x85868788, 0x3F800000, 7};\n"
                                ".global .align 16 .b32 numbers[4] = {0x01020304, 0x85868788, 0x3F800000, 7};\n"
                                ".func (.param .b32 back) doubled(.param .b32 it) {\n"
                                ".reg .b32 v; ld.param.b32 v, [it]; add.u32 v, v, v; st.param.b32 [back], v; ret; }\n"
#define SAME(type, bits)                                                                                               \
    ".func (.param ." type " back) same_" type "(.param ." type " it) {\n"                                             \
    ".reg .b" bits " v; ld.param." type " v, [it]; st.param." type " [back], v; ret; }\n"
    SAME("b32", "32") SAME("b64", "64") SAME("f32", "32") SAME("f64", "64")
#undef SAME
        ".func (.param .b64 back) joined(.param .align 8 .b8 it[8]) {\n"
        ".reg .b64 v; ld.param.b64 v, [it]; st.param.b64 [back], v; ret; }\n";

static const char *zeroes(char out) {
    return out == 'l'   ? "mov.u64 D, 0; mov.u64 E, 0; mov.u64 F, 0; mov.u64 G, 0;\n"
           : out == 'h' ? "mov.u16 hd, 0; mov.u16 he, 0; mov.u16 hf, 0; mov.u16 hg, 0;\n"
           : out == 'p' ? "setp.ne.u32 p, t, t; setp.ne.u32 q, t, t; setp.ne.u32 r, t, t; setp.ne.u32 s, t, t;\n"
                        : "mov.u32 d, 0; mov.u32 e, 0; mov.u32 f, 0; mov.u32 g, 0;\n";
}

static const char *widened(char out) {
    return out == 'l'   ? ""
           : out == 'h' ? "cvt.u64.u16 D, hd; cvt.u64.u16 E, he; cvt.u64.u16 F, hf; cvt.u64.u16 G, hg;\n"
           : out == 'p' ? "selp.u64 D, 1, 0, p; selp.u64 E, 1, 0, q; selp.u64 F, 1, 0, r; selp.u64 G, 1, 0, s;\n"
                        : "cvt.u64.u32 D, d; cvt.u64.u32 E, e; cvt.u64.u32 F, f; cvt.u64.u32 G, g;\n";
}

static void add_entry(struct text *text, const struct conform_form *form, unsigned number) {
    char line[sizeof head + 64];
    unsigned flags = form->row->flags;
    snprintf(line, sizeof line, head, number,
             flags & CLUSTERED ? " .explicitcluster .reqnctapercluster 2, 1, 1"
             : flags & LIMITED ? " .maxnreg 64"
                               : "");
    add_string(text, line);
    if (flags & SHARED) add_string(text, in_shared);
    if (flags & MAPPED) add_string(text, "mov.b64 M, map; cvta.param.u64 M, M;\n");
    add_string(text, zeroes(form->out));
    add_string(text, "{ ");
    add_body(text, form);
    add_string(text, " }\n");
    add_string(text, widened(form->out));
    add_string(text, "st.global.v2.u64 [O], {D, E}; st.global.v2.u64 [O+16], {F, G}; ret; }\n");
}

char *conform_module(const struct conform_form *const *forms, size_t count) {
    struct text text = {NULL, 0, 0};
    bool shared = false, newest = false;
    for (size_t i = 0; i < count; i++) {
        shared = shared || forms[i]->row->flags & SHARED;
        newest = newest || forms[i]->row->flags & SM_90A;
    }
    add_string(&text, ".version 8.6\n.target sm_90");
    add_string(&text, newest ? "a\n.address_size 64\n" : "\n.address_size 64\n");
    add_string(&text, variables);
    if (shared) add_string(&text, ".shared .align 1024 .b8 tile[16384];\n.shared .align 8 .b64 bars[8];\n");
    for (size_t i = 0; i < count; i++)
        add_entry(&text, forms[i], (unsigned)i);
    return text.data;
}

uint64_t conform_identity(const struct conform_form *form, const struct conform_in *in, size_t count) {
    char *text = conform_module(&form, 1);
    uint64_t hash = conform_hash(CONFORM_HASH_START, text, strlen(text));
    free(text);
    return conform_hash(hash, in, count * sizeof *in);
}
