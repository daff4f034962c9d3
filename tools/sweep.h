/* sweep.h - what the files of `dcpk sweep` share: what was asked for, its points, the folder of results, a point's run.
 *
 * cmd_sweep.c reads the command line and drives; sweep_points.c has lists and rules, sweep_store.c the folder,
 * sweep_child.c processes, sweep_probe.c device, toolchain and templates, sweep_point.c one point, sweep_time.c its
 * times on hardware, sweep_report.c the table, sweep_plot.c the picture. A point is a line of results.jsonl, a struct
 * sweep_point and a child process in turn. */
#ifndef TOOLS_SWEEP_H
#define TOOLS_SWEEP_H

#include <jansson.h>
#include <tools/command.h>
#include <tools/device_choice.h>

enum sweep_list { LIST_MODEL, LIST_TP, LIST_DCP, LIST_BATCH, LIST_Q, LIST_CONTEXT, SWEEP_LISTS };
extern const char *const sweep_list_names[SWEEP_LISTS];

/* How ranks share GPUs where there are fewer of them. */
enum sweep_ranks { RANKS_AUTO, RANKS_ORDERED, RANKS_SHARES };

/* What holds for all points. */
struct sweep_request {
    dcpk_spec keys; /* key=value words; kernel "sweep" */
    char key_text[512];
    int32_t form; /* enum layer_form */
    int32_t steps;
    uint64_t seed;
    enum sweep_ranks ranks;
    struct device_choice choice;
    /* of the probe: */
    bool cuda;
    int32_t sms, devices; /* sms: to plan for, DCPK_UNSET: the architecture's */
    char templates[8192]; /* folders */
};
extern const char *const sweep_form_names[]; /* by enum layer_form */

/* One point. context: of every request at the first step; negative: ragged, of 1 to -context tokens each. */
struct sweep_point {
    char model[40];
    int32_t tp, dcp, batch, q, context;
};
enum { POINT_TEXT = 160, SWEEP_MAX_CONTEXT = 1 << 20, SWEEP_RAGGED = 1024, SWEEP_MAX_POINTS = 1 << 20 };

/* ---- sweep_points.c ---- */
struct sweep_points {
    struct sweep_point *at;
    size_t count, room;
};
/* The list's elements as an array of texts, numbers first, ascending, none twice; NULL after a message. */
json_t *sweep_list_read(const struct command_line *line, enum sweep_list list, const char *text);
/* Whether the product of these lists, beside so many points, is no more than SWEEP_MAX_POINTS; false after a message.
 */
bool sweep_points_fit(const struct command_line *line, size_t count, const json_t *lists);
/* The product of six such arrays (an object, by sweep_list_names), the last fastest; points that are there already are
 * not added. False after a message: too many. */
bool sweep_points_add(const struct command_line *line, struct sweep_points *points, const json_t *lists);
void sweep_points_free(struct sweep_points *points);
/* "model=kimi-k3 tp=8 dcp=2 batch=3 q=1 context=300": what names a point. */
void sweep_point_text(const struct sweep_point *point, char text[POINT_TEXT]);
/* The layer's keys; false: `why` is the rule that refuses the point. */
bool sweep_point_keys(dcpk_gen *gen, const struct sweep_request *request, const struct sweep_point *point,
                      dcpk_spec *keys, char *why, size_t capacity);
/* Lengths of the requests at the first step; the number of them: 1 (for all) or batch / q. */
int32_t sweep_point_contexts(const struct sweep_request *request, const struct sweep_point *point,
                             int32_t contexts[512]);
/* Ranks of this point run kernel by kernel. */
bool sweep_point_ordered(const struct sweep_request *request, const struct sweep_point *point);

/* ---- sweep_store.c: DIR/sweep.json and DIR/results.jsonl ---- */
struct sweep_store {
    char *folder;
    int fd;        /* results.jsonl, locked, appending; -1: closed */
    json_t *sweep; /* sweep.json */
    json_t *rows;  /* point's text -> row */
    bool changed;  /* sweep.json is not yet what `sweep` is */
};
/* identity: what must be the same in every run into the folder. lists: this run's, plain. extend: new lists are added.
 * What was asked for is written by sweep_store_begin, once nothing can refuse it any more. EXIT_DONE, or a code after a
 * message. */
enum exit_code sweep_store_open(const struct command_line *line, const char *folder, json_t *identity, json_t *lists,
                                bool extend, struct sweep_store *store);
enum exit_code sweep_store_begin(const struct command_line *line, struct sweep_store *store);
bool sweep_store_has(const struct sweep_store *store, const char *point);
/* Appends one whole line and keeps the row (takes the reference). False after a message. */
bool sweep_store_add(const struct command_line *line, struct sweep_store *store, json_t *row);
void sweep_store_close(struct sweep_store *store);

/* ---- sweep_child.c: work in a process of its own ---- */
/* body writes lines to out; its value is the exit code. */
typedef int sweep_body(void *self, FILE *out);
struct sweep_child {
    pid_t pid; /* 0: free */
    int fd;    /* of what it writes; -1: at its end */
    double deadline, timeout;
    bool timed_out;
    char *text;
    size_t used;
    int status; /* of waitpid, once it has ended */
};
/* keep_out: a file that the child must not hold open, or -1. False after a message. */
bool sweep_child_start(const struct command_line *line, struct sweep_child *child, sweep_body *body, void *self,
                       int keep_out, double timeout_s);
/* Waits until one of the children has ended and was read, past its deadline by being killed; NULL where *stop is no
 * longer what was seen (children run on) or none runs. */
struct sweep_child *sweep_child_wait(struct sweep_child *children, size_t count, const volatile int *stop, int seen);
void sweep_child_kill(struct sweep_child *child); /* sweep_child_wait then has it */
/* The last whole line that it wrote, as JSON; NULL: none. */
json_t *sweep_child_last(const struct sweep_child *child);
/* How it ended, for people: "signal 11 (Segmentation fault)". */
void sweep_child_end(const struct sweep_child *child, char *text, size_t capacity);
void sweep_child_free(struct sweep_child *child);

/* ---- sweep_probe.c: in a child ---- */
/* Device, toolchain, templates as an identity; fills request's sms, devices and cuda. NULL after a message, *code says
 * with which exit code. */
json_t *sweep_probe(const struct command_line *line, struct sweep_request *request, enum exit_code *code);

/* ---- sweep_point.c: in a child ---- */
/* Runs the point; writes its row again and again as it grows. The last one has "state": right, wrong or failed. */
void sweep_point_run(const struct sweep_request *request, const struct sweep_point *point, FILE *out);
/* The members that every row of this point begins with. */
json_t *sweep_point_row(const struct sweep_request *request, const struct sweep_point *point);

/* ---- sweep_time.c ---- */
struct layer_run;
struct layer_case;
/* Times of a run whose results were read back: into the objects of `kernels`, in the order of the run's kernel rows,
 * and into row. */
dcpk_status sweep_time(struct layer_run *run, const struct layer_case *layer, bool ordered, json_t *row,
                       json_t *const *kernels, dcpk_error *error);

/* ---- sweep_report.c ---- */
/* The table of these points and what it means, as text (malloc'd) or JSON. left: points without a row. */
char *sweep_report_text(const struct sweep_store *store, const struct sweep_points *points, bool cuda);
json_t *sweep_report_json(const struct sweep_store *store, const struct sweep_points *points, bool cuda);
/* sweep_plot.c: ratio to the floor over the context, as SVG (malloc'd); NULL: nothing was timed. */
char *sweep_plot(const struct sweep_store *store, const struct sweep_points *points);
struct sweep_totals {
    size_t right, wrong, failed, refused, left;
};
struct sweep_totals sweep_count(const struct sweep_store *store, const struct sweep_points *points);

#endif
