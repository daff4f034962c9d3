/* build.h - one build on its way, shared by the files of build*.c. Internal. */
#ifndef DCPK_GEN_BUILD_H
#define DCPK_GEN_BUILD_H

#include "gen/key.h"
#include "gen/state.h"

struct build {
    struct dcpk_gen *gen;
    dcpk_spec spec; /* resolved */
    char spec_text[GEN_SPEC_TEXT], options[128], front[GEN_FRONT];
    struct key_request request; /* into this struct: set by build_request, with direct */
    struct key direct, content; /* text NULL: not made yet */
    struct expansion expansion;
    bool expanded;
    int lock;
    dcpk_image *image;
    dcpk_build_report report;
};

/* build.c: resolves the spec. build_end after it, whatever it says. */
dcpk_status build_begin(struct build *b, struct dcpk_gen *gen, const dcpk_spec *spec, dcpk_error *error);
void build_end(struct build *b);
/* Adds the image to the generator's memory, fills the report and gives both to the caller; nothing where there is no
 * image. report may be NULL. start: system_now when the call began; started: compiler processes before it. */
void build_give(struct build *b, uint32_t started, double start, dcpk_image **out, dcpk_build_report *report);

/* build_find.c: looks for the image where it may already be, in the order of the layers, without those that jit leaves
 * out. b->image is set where one has it, and the report says which; else the request is made and, where it can be
 * without a compiler that may not be started, the expansion. Not OK: why it cannot be looked for further. */
dcpk_status build_find(struct build *b, dcpk_error *error);
bool build_at_hand(struct build *b);    /* its first two: memory, packs */
bool build_from_entry(struct build *b); /* its last: the cache by content, after build_expand */

/* build_make.c: the steps that make one. request: identifies the toolchain and makes the direct key. expand: PTX and
 * the content key. */
dcpk_status build_request(struct build *b, dcpk_error *error);
dcpk_status build_expand(struct build *b, dcpk_error *error);
dcpk_status build_assemble(struct build *b, dcpk_error *error);
void build_publish(struct build *b);
/* Where the next build of the same request finds the entry. */
void build_note(struct build *b);

/* build_missed.c: NOT_FOUND: what was asked for, where it was looked for, what is nearest. why: what kept the cache
 * from being searched whole, code DCPK_OK where nothing did. */
dcpk_status build_missed(struct build *b, const dcpk_error *why, dcpk_error *error);

#endif
