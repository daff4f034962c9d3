/* sweep_store.c - the folder of a sweep: sweep.json (what was asked for), results.jsonl (one whole line a point).
 *
 * A killed sweep leaves at most half a line, which is cut off; every whole line counts. One process at a time. May
 * call: the file system, jansson. Must not: know what is in a row but its point. */
#include <tools/sweep.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCHEMA = 1, LOCK_TRIES = 40, LOCK_WAIT_US = 50000 };

static char *path_in(const char *folder, const char *name) {
    size_t room = strlen(folder) + strlen(name) + 2;
    char *path = must(malloc(room));
    snprintf(path, room, "%s/%s", folder, name);
    return path;
}

static enum exit_code broken(const struct command_line *line, const char *what, const char *path) {
    complain(line, "%s '%s': %s", what, path, strerror(errno));
    return EXIT_WORK;
}

/* Opens results.jsonl and takes its lock; a sweep that was killed a moment ago may still be letting go. */
static enum exit_code open_results(const struct command_line *line, struct sweep_store *store) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (mkdir(store->folder, 0777) != 0 && errno != EEXIST) return broken(line, "cannot make", store->folder);
    char *path = path_in(store->folder, "results.jsonl");
    store->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    enum exit_code code = store->fd < 0 ? broken(line, "cannot open", path) : EXIT_DONE;
    int locked = -1;
    for (int i = 0; code == EXIT_DONE && i < LOCK_TRIES; i++) {
        locked = fcntl(store->fd, F_OFD_SETLK, &whole);
        if (locked == 0 || (errno != EAGAIN && errno != EACCES)) break;
        usleep(LOCK_WAIT_US);
    }
    if (code == EXIT_DONE && locked != 0 && (errno == EAGAIN || errno == EACCES)) {
        complain(line, "another dcpk sweep writes into '%s': let it end, or choose another folder (-o)", store->folder);
        code = EXIT_WORK;
    } else if (code == EXIT_DONE && locked != 0) {
        code = broken(line, "cannot lock", path);
    }
    free(path);
    return code;
}

static char *read_results(int fd, size_t *length) {
    struct stat there;
    if (fstat(fd, &there) != 0) return NULL;
    char *text = must(malloc((size_t)there.st_size + 1));
    *length = 0;
    while (*length < (size_t)there.st_size) {
        ssize_t n = pread(fd, text + *length, (size_t)there.st_size - *length, (off_t)*length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        *length += (size_t)n;
    }
    text[*length] = '\0';
    return text;
}

/* One line into rows. */
static bool keep_line(struct sweep_store *store, const char *text, size_t length) {
    json_t *row = json_loadb(text, length, 0, NULL);
    const char *point = json_string_value(json_object_get(row, "point"));
    bool good = point != NULL && json_is_string(json_object_get(row, "state"));
    if (good) json_object_set(store->rows, point, row);
    json_decref(row);
    return good;
}

/* Whole lines are kept; what follows the last of them is half a line, and goes. */
static enum exit_code read_rows(const struct command_line *line, struct sweep_store *store, size_t *kept) {
    size_t length = 0, number = 0;
    char *text = read_results(store->fd, &length);
    enum exit_code code = text != NULL ? EXIT_DONE : broken(line, "cannot read", store->folder);
    *kept = 0;
    for (char *end; code == EXIT_DONE && (end = memchr(text + *kept, '\n', length - *kept)) != NULL;) {
        number++;
        if (!keep_line(store, text + *kept, (size_t)(end - text) - *kept)) {
            complain(line, "%s/results.jsonl:%zu is no result of a sweep: remove the line, then run again",
                     store->folder, number);
            code = EXIT_WORK;
        }
        *kept = (size_t)(end - text) + 1;
    }
    free(text);
    if (code == EXIT_DONE && *kept < length && ftruncate(store->fd, (off_t)*kept) != 0)
        code = broken(line, "cannot cut the half line at the end of", store->folder);
    return code;
}

/* ---- what was asked for -------------------------------------------------------------------------- */

static void value_text(const json_t *value, char *text, size_t capacity) {
    char *dumped = value != NULL ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(text, capacity, "%s", dumped != NULL ? dumped : "nothing");
    free(dumped);
}

/* The first member that differs, as "device.sms is 132 there, 64 here". */
static bool differs(const json_t *there, json_t *here, const char *prefix, char *text, size_t capacity) {
    const char *key;
    json_t *value;
    json_object_foreach(here, key, value) {
        char name[128], a[512], b[512];
        const json_t *old = json_object_get(there, key);
        snprintf(name, sizeof name, "%s%s", prefix, key);
        if (json_equal(old, value)) continue;
        if (json_is_object(old) && json_is_object(value)) {
            char below[160];
            snprintf(below, sizeof below, "%s.", name);
            return differs(old, value, below, text, capacity);
        }
        value_text(old, a, sizeof a);
        value_text(value, b, sizeof b);
        snprintf(text, capacity, "%s is %s there, %s here", name, a, b);
        return true;
    }
    return false;
}

static enum exit_code check_lists(const struct command_line *line, struct sweep_store *store, json_t *lists,
                                  bool extend) {
    json_t *requests = json_object_get(store->sweep, "requests"), *one;
    char text[1400] = "";
    size_t i;
    json_array_foreach(requests, i, one) {
        if (json_equal(one, lists)) return EXIT_DONE;
    }
    if (extend && json_is_array(requests)) {
        json_array_append(requests, lists);
        store->changed = true;
        return EXIT_DONE;
    }
    differs(json_array_get(requests, json_array_size(requests) - 1), lists, "--", text, sizeof text);
    return usage_error(line, "'%s' holds another sweep: %s; --extend adds these points to it, -o names another folder",
                       store->folder, text);
}

static enum exit_code write_sweep(const struct command_line *line, struct sweep_store *store) {
    char *path = path_in(store->folder, "sweep.json");
    char *text = must(json_dumps(store->sweep, JSON_INDENT(2)));
    size_t length = strlen(text);
    text[length] = '\n'; /* in the NUL's place */
    bool good = output_write(line, path, text, length + 1);
    free(text);
    free(path);
    return good ? EXIT_DONE : EXIT_WORK;
}

static enum exit_code check_request(const struct command_line *line, json_t *identity, json_t *lists, bool extend,
                                    bool results, struct sweep_store *store) {
    char *path = path_in(store->folder, "sweep.json"), text[1400];
    json_error_t where;
    bool there = access(path, F_OK) == 0;
    store->sweep = there ? json_load_file(path, 0, &where) : json_copy(identity);
    enum exit_code code = EXIT_DONE;
    if (there && !json_is_object(store->sweep)) {
        complain(line, "%s is no sweep's (%s): choose another folder (-o)", path, where.text);
        code = EXIT_WORK;
    } else if (!there && results) {
        code = usage_error(line,
                           "'%s' has results.jsonl but no sweep.json that says what they are: choose another "
                           "folder (-o)",
                           store->folder);
    } else if (there && differs(store->sweep, identity, "", text, sizeof text)) {
        code = usage_error(line, "'%s' holds another sweep: %s; -o names another folder", store->folder, text);
    } else if (there) {
        code = check_lists(line, store, lists, extend);
    } else {
        json_object_set_new(store->sweep, "requests", json_pack("[O]", lists));
        store->changed = true;
    }
    free(path);
    return code;
}

/* ---- life ---------------------------------------------------------------------------------------- */

enum exit_code sweep_store_open(const struct command_line *line, const char *folder, json_t *identity, json_t *lists,
                                bool extend, struct sweep_store *store) {
    size_t kept = 0;
    *store = (struct sweep_store){.folder = must(strdup(folder)), .fd = -1, .rows = must(json_object())};
    json_object_set_new(identity, "schema", json_integer(SCHEMA));
    enum exit_code code = open_results(line, store);
    if (code == EXIT_DONE) {
        struct stat there;
        bool results = fstat(store->fd, &there) == 0 && there.st_size > 0;
        code = check_request(line, identity, lists, extend, results, store);
    }
    return code == EXIT_DONE ? read_rows(line, store, &kept) : code;
}

enum exit_code sweep_store_begin(const struct command_line *line, struct sweep_store *store) {
    enum exit_code code = store->changed ? write_sweep(line, store) : EXIT_DONE;
    store->changed = store->changed && code != EXIT_DONE;
    return code;
}

bool sweep_store_has(const struct sweep_store *store, const char *point) {
    return json_object_get(store->rows, point) != NULL;
}

bool sweep_store_add(const struct command_line *line, struct sweep_store *store, json_t *row) {
    char *text = must(json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(15)));
    size_t length = strlen(text);
    struct stat before;
    bool good = fstat(store->fd, &before) == 0;
    text[length++] = '\n'; /* in the NUL's place */
    good = good && output_all(store->fd, text, length) && fdatasync(store->fd) == 0;
    if (!good) {
        complain(line, "cannot write '%s/results.jsonl': %s", store->folder, strerror(errno));
        if (ftruncate(store->fd, before.st_size) != 0)
            complain(line, "its last line may be half: the next run cuts it");
    } else {
        json_object_set(store->rows, json_string_value(json_object_get(row, "point")), row);
    }
    json_decref(row);
    free(text);
    return good;
}

void sweep_store_close(struct sweep_store *store) {
    if (store->fd >= 0) close(store->fd);
    json_decref(store->sweep);
    json_decref(store->rows);
    free(store->folder);
    *store = (struct sweep_store){.fd = -1};
}
