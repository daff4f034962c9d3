/* building.h - fixtures of the suites of gen's building half: a fresh folder with a template folder, a cache folder and
 * a fake compiler; a log that counts warnings; cubins made by the real ptxas without any code of dcpk. */
#ifndef TESTS_BUILDING_H
#define TESTS_BUILDING_H

#include <dcpk/gen.h>

#include <stdbool.h>

struct system;

/* For each test. */
extern char place[64]; /* the folder, absolute, removed by building_teardown */
extern char cache_folder[96], template_folder[96], fake_folder[96], fake_path[128];
void building_setup(void);
void building_teardown(void);

void put_file(const char *path, const void *bytes, size_t length);
void put_text(const char *path, const char *text);
char *get_file(const char *path, size_t *length); /* NULL when there is none; malloc */

/* A real ptxas is found in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin. Tests that need it say so once and pass. */
bool have_ptxas(void);
/* NULL when ptxas refuses the text; *verbose, what it says. Both malloc. */
char *try_cubin(const char *ptx, const char *arch, size_t *length, char **verbose);
/* The cubin of a PTX text, and in *verbose (may be NULL) what ptxas -v says. malloc. Asserts success. */
char *real_cubin(const char *ptx, const char *arch, size_t *length, char **verbose);

/* The template "tiny": one entry that waits and stores spec.batch; `comment` goes into its first line, `extra` is a
 * line of PTX before its end. "tiny" includes lib/outer, which includes lib/inner. */
void put_templates(const char *comment, const char *extra);
/* The fake compiler takes the orders from now on; its good output is a real cubin of "tiny" for sm_90a. */
void give_orders(const char *orders);
/* Starts that the fake compiler has counted. */
unsigned starts_of(const char *what);

/* What a generator logged since the last reset. */
struct log_count {
    unsigned warnings, lines;
    char last_warning[4096];
    char all[32768];
};
extern struct log_count logged;
void log_reset(void);
void building_log(void *self, int level, const char *text); /* a dcpk_log_fn */

/* A generator over the folders above. ptxas: NULL for the real one. cache: NULL for cache_folder. sys: NULL for the
 * real calls. */
dcpk_gen *open_gen_with(const char *ptxas, const char *cache, const struct system *sys);
dcpk_gen *open_gen(const char *ptxas);

/* Builds "tiny batch=N" and asserts success; the image is the caller's. */
dcpk_image *build_tiny(dcpk_gen *gen, int batch, dcpk_build_report *report);
dcpk_status try_tiny(dcpk_gen *gen, int batch, dcpk_image **image, dcpk_build_report *report, dcpk_error *error);

/* Names below the cache folder, sorted, one a line. malloc. */
char *list_cache(void);
/* How many of them end in suffix; how many are temporaries. */
unsigned count_files(const char *suffix);
unsigned count_temporaries(void);
/* Path of the only file below the cache folder that ends in suffix. Static. */
const char *only_file(const char *suffix);

#endif
