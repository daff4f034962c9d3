/* expand.h - templates to text: what the expanding half (lua host, translator, lint) hands to the building half
 * (toolchain, key, cache). Owned memory: expansion_free frees all of it. */
#ifndef DCPK_GEN_EXPAND_H
#define DCPK_GEN_EXPAND_H

#include <dcpk/image.h>

/* A template file that the expansion read: path-free name ("dcp_value.ptx.lua", "lib/lamport.lua"), its bytes'
 * XXH3-128. */
struct source_file {
    char *name;
    char digest[33];
    char *text; /* the whole file, for messages that show lines */
    size_t length;
};

/* One emitted PTX line: the template line that wrote it and the helper frames above it, innermost first. */
struct line_origin {
    uint32_t file;                     /* index into files */
    uint32_t line;                     /* 1-based */
    uint32_t frame_first, frame_count; /* into frames: who called the helper that wrote the line */
};
struct line_frame {
    uint32_t file, line;
};

/* What the text of an expansion is. CUDA: CUDA C++, still to be compiled (cuda.h): ptx, ptx_length and ptx_lines are of
 * that text, ptx_version is the least that the template asks for. COMPILED: PTX that NVRTC made of it. */
enum expansion_language { EXPANSION_PTX, EXPANSION_CUDA, EXPANSION_COMPILED };

struct expansion {
    enum expansion_language language;
    char *ptx;
    size_t ptx_length;
    uint32_t ptx_lines;
    uint32_t ptx_version; /* 80 = 8.0 */
    char target[16];      /* "sm_90": the .target line */
    uint32_t entry_count;
    dcpk_entry_info entries[DCPK_IMAGE_MAX_ENTRIES]; /* registers, static_shared, local_bytes left 0: the cubin tells */
    struct source_file *files;
    uint32_t file_count;
    struct line_origin *origins; /* ptx_lines of them */
    struct line_frame *frames;
    uint32_t frame_count;
};

struct expander; /* one Lua host configuration: template folders, caps */

/* path: colon list of template folders. Reads nothing yet. */
dcpk_status expander_open(const char *path, struct expander **out, dcpk_error *error);
void expander_close(struct expander *expander);

const char *expander_path(const struct expander *expander); /* the colon list */

/* The language of the kernel's template, PTX (NAME.ptx.lua) or CUDA (NAME.cu.lua), and its file's name in *file (64
 * bytes, or NULL). A kernel without a template is PTX here: expanding says what is missing. TEMPLATE when both are
 * there.
 */
dcpk_status expander_language(struct expander *expander, const char *kernel, enum expansion_language *language,
                              char *file, dcpk_error *error);

/* Expands a resolved spec, and lints it where it is PTX. Each call uses a fresh Lua state: nothing leaks from one
 * expansion to the next. */
dcpk_status expander_expand(struct expander *expander, const dcpk_spec *spec, struct expansion *out, dcpk_error *error);
void expansion_free(struct expansion *expansion);

/* Digest of one template file by path-free name, read at most once a process per expander; NULL when it is gone. */
const char *expander_file_digest(struct expander *expander, const char *name);

/* models.lua: one preset. heads of one rank = heads / tp. */
struct model_preset {
    char name[32], source[192];
    int32_t heads, gate, rope, q_lora;
    double eps, softmax_scale, rope_theta;
};
dcpk_status expander_models(struct expander *expander, struct model_preset **out, uint32_t *count, dcpk_error *error);

/* Appends to text "FILE:LINE: message", the template line, the frames above it and the PTX line: how every message
 * about a PTX line reads (compiler errors, lint). ptx_line is 1-based. Fills error's template_file and template_line.
 */
void expansion_blame(const struct expansion *expansion, uint32_t ptx_line, const char *message, dcpk_error *error);

#endif
