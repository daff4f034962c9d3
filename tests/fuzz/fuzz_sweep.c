/* fuzz_sweep.c - input: the text of a sweep's sweep.json, a NUL, and its results.jsonl. The folder is refused with a
 * message, or its points are listed and its results told as a table, as JSON and as a picture that is sound XML. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/file.h"

#include <tools/sweep.h>

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

enum { MOST_POINTS = 2000 };

static const struct command command = {.name = "fuzz"};
static const struct command_line line = {.command = &command};

/* Of one input, in /dev/shm where that is there. */
struct place {
    char folder[64], request[96], results[96];
};

static void put(const char *path, const uint8_t *bytes, size_t length) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_check(fd >= 0 && write(fd, bytes, length) == (ssize_t)length && close(fd) == 0);
}

static struct place make_place(const uint8_t *bytes, size_t length) {
    struct place place;
    const uint8_t *nul = memchr(bytes, 0, length);
    size_t head = nul != NULL ? (size_t)(nul - bytes) : length;
    const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(place.folder, sizeof place.folder, "%s/dcpk-fuzz-XXXXXX", where);
    fuzz_check(mkdtemp(place.folder) != NULL);
    snprintf(place.request, sizeof place.request, "%s/sweep.json", place.folder);
    snprintf(place.results, sizeof place.results, "%s/results.jsonl", place.folder);
    if (head > 0) put(place.request, bytes, head);
    if (nul != NULL) put(place.results, nul + 1, length - head - 1);
    return place;
}

static void remove_place(const struct place *place) {
    unlink(place->request);
    unlink(place->results);
    fuzz_check(rmdir(place->folder) == 0);
}

/* Tags are ours, and what stands between them is escaped. */
static void check_picture(const char *svg) {
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
    bool inside = false;
    for (const char *at = svg; *at != '\0'; at++) {
        bool known = *at != '&';
        for (size_t i = 0; i < sizeof names / sizeof names[0] && !known; i++)
            known = strncmp(at, names[i], strlen(names[i])) == 0;
        fuzz_check(known);
        if (*at == '<') fuzz_check(!inside && (at[1] == '/' || (at[1] >= 'a' && at[1] <= 'z')));
        if (*at == '>') fuzz_check(inside);
        if (*at == '<' || *at == '>') inside = *at == '<';
    }
    fuzz_check(!inside);
}

static void tell(const struct sweep_store *store, const struct sweep_points *points, bool cuda) {
    struct sweep_totals totals = sweep_count(store, points);
    fuzz_check(totals.right + totals.wrong + totals.failed + totals.refused + totals.left <= points->count);
    char *text = sweep_report_text(store, points, cuda), *svg = sweep_plot(store, points);
    json_t *json = sweep_report_json(store, points, cuda);
    fuzz_check(text != NULL && json != NULL);
    if (svg != NULL) check_picture(svg);
    free(text);
    free(svg);
    json_decref(json);
}

static bool list_points(const struct sweep_store *store, struct sweep_points *points) {
    size_t i;
    json_t *lists;
    json_array_foreach(json_object_get(store->sweep, "requests"), i, lists) {
        if (points->count > MOST_POINTS || !sweep_points_add(&line, points, lists)) return false;
    }
    return points->count <= MOST_POINTS;
}

void fuzz_sweep(const uint8_t *bytes, size_t length) {
    struct place place = make_place(bytes, length);
    struct sweep_store store;
    struct sweep_points points = {0};
    json_t *identity = json_pack("{s:s}", "form", "fused");
    json_t *lists = json_pack("{s:[s], s:[s], s:[s], s:[s], s:[s], s:[s]}", "model", "kimi-k3", "tp", "8", "dcp", "1",
                              "batch", "1", "q", "1", "context", "40");
    FILE *spoken = fuzz_hush();
    enum exit_code code = sweep_store_open(&line, place.folder, identity, lists, true, &store);
    bool listed = code == EXIT_DONE && list_points(&store, &points);
    for (int cuda = 0; listed && cuda < 2; cuda++)
        tell(&store, &points, cuda);
    fuzz_speak(spoken);
    fuzz_check(code == EXIT_DONE || code == EXIT_WORK || code == EXIT_USAGE);
    sweep_points_free(&points);
    sweep_store_close(&store);
    json_decref(identity);
    json_decref(lists);
    remove_place(&place);
}
