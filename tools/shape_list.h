/* shape_list.h - from lists (models, tp, dcp, batches, q, architectures, forms) and a file of spec lines to the specs
 * that layers of these shapes need. dcpk aot builds them, dcpk sweep runs over the shapes.
 *
 * Every combination of the lists is a shape, kept with the rule that refuses it where one does: nothing is dropped in
 * silence. Uses include/dcpk and the tools' own words; asks gen for presets alone: builds nothing. */
#ifndef DCPK_TOOLS_SHAPE_LIST_H
#define DCPK_TOOLS_SHAPE_LIST_H

#include <tools/command.h>

/* What a shape is for. The first two have the values of enum dcpk_layer_form. CHECK: all that dcpk run launches, in
 * whichever form, its own kernels among it, for which the generator needs device_choice_templates. */
enum shape_form { SHAPE_PUSH = 0, SHAPE_FUSED = 1, SHAPE_NORM = 2, SHAPE_CHECK = 3, SHAPE_FORMS };
extern const char *const shape_form_names[SHAPE_FORMS]; /* "push", "fused", "norm", "check" */
/* Whether a list of forms, as the command line has it (NULL: not given), names this one. */
bool shape_form_asked(const char *list, enum shape_form form);

/* What was asked for, as the command line says it; NULL: not given. A list of numbers is "1,2,16" or has ranges
 * "1-64" or "8-64/8" (in steps of 8); a number twice counts once. */
struct shape_request {
    const char *models; /* names of presets; NULL: keys must say heads */
    const char *tps;    /* NULL: 1 */
    const char *dcps;   /* NULL: 1 */
    const char *batches;
    const char *qs;    /* NULL: 1 */
    const char *archs; /* NULL: the library's default */
    const char *forms; /* NULL: fused,push,norm */
    char *const *keys; /* key=value words for every spec that takes the key */
    int key_count;
    const char *file; /* one spec a line: KERNEL key=value..., model= and tp= among them; # begins a comment. NULL: none
                       */
};

/* One combination. */
struct shape {
    char model[40]; /* "" without one */
    int32_t tp, dcp, batch, q;
    char arch[16];
    enum shape_form form;
    dcpk_spec base;     /* for dcpk_layer_options.base: the request's keys and the preset's, unresolved */
    dcpk_status status; /* DCPK_OK, or what refuses it */
    const char *reason; /* the rule's message; "" when OK. The list's */
};

struct shape_spec {
    dcpk_spec spec; /* resolved */
    char *text;     /* canonical */
    uint32_t line;  /* of the file that asks for it, 0: the lists do */
};

struct shape_list {
    struct shape *shapes; /* by model, arch, tp, dcp, q, batch, form (the last fastest), whatever order was given */
    uint32_t shape_count, refused;
    struct shape_spec *specs; /* no two alike, sorted by text */
    uint32_t spec_count;
    uint32_t lines; /* specs that the file has */
    char *asked;    /* the request in one writing, as lines of a pack's manifest: "batch 1-64" for 1,2,3,..,64 */
};

/* EXIT_DONE, or a code after a message: EXIT_USAGE for a list that is none, a key that is none, a line of the file that
 * a rule refuses (named with file:line), and lists of which every shape is refused. Lists may be left out where there
 * is a file: batches NULL is no shapes at all. Freed by shape_list_free. */
enum exit_code shape_list_make(const struct command_line *line, dcpk_gen *gen, const struct shape_request *request,
                               struct shape_list *list);
void shape_list_free(struct shape_list *list);
/* The refused shapes, one line each on stderr: "skipped: model=.. tp=.. ...: RULE". Shapes that differ in form alone
 * and are refused by one rule are one line. */
void shape_list_skipped(const struct command_line *line, const struct shape_list *list);
/* "model=kimi-k3 tp=8 dcp=4 batch=16 q=1 arch=sm_90a form=fused" (model and tp only where there is a model). */
void shape_text(const struct shape *shape, char *text, size_t capacity);

/* Numbers of a list, 1 to most, ascending, no two alike. more: what else the option takes, as the message adds it
 * (", or ragged"), "": nothing. EXIT_DONE, or EXIT_USAGE after a message that names the option. Freed by the caller. */
enum exit_code shape_numbers(const struct command_line *line, const char *option, const char *text, int32_t most,
                             const char *more, int32_t **values, size_t *count);

#endif
