/* identity.c - see identity.h. May read the template folders; must not expand or compile anything. */
#include "gen/identity.h"

#include "gen/key.h"
#include "gen/state.h"
#include "gen/template_list.h"
#include "runtime/error.h"
#include "runtime/image_find.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_FILES = 4096, MOST_DEPTH = 8, NAME = 128 };

struct names {
    char (*list)[NAME];
    size_t count, capacity;
    int trouble; /* an errno */
};

/* ---- the files of all folders -------------------------------------------------------------------- */
static void add_name(struct names *names, const char *name) {
    if (names->count == MOST_FILES) names->trouble = EOVERFLOW;
    if (names->trouble != 0) return;
    if (names->count == names->capacity) {
        size_t capacity = names->capacity ? 2 * names->capacity : 64;
        void *more = realloc(names->list, capacity * sizeof *names->list);
        if (!more) {
            names->trouble = ENOMEM;
            return;
        }
        names->list = more;
        names->capacity = capacity;
    }
    snprintf(names->list[names->count++], NAME, "%s", name);
}

static bool is_template(const char *name) {
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".lua") == 0;
}

/* below: "" or "lib/". Names that no template can give (hidden ones, very long ones) are passed over; a folder that is
 * not there has no files. */
static void walk(struct names *names, const char *folder, const char *below, int depth) {
    char path[4096], name[NAME];
    snprintf(path, sizeof path, "%s/%s", folder, below);
    DIR *dir = opendir(path);
    if (!dir) {
        if (errno != ENOENT && errno != ENOTDIR) names->trouble = errno;
        return;
    }
    for (const struct dirent *entry; names->trouble == 0 && (entry = readdir(dir)) != NULL;) {
        struct stat st;
        if (entry->d_name[0] == '.') continue;
        if ((size_t)snprintf(name, sizeof name, "%s%s", below, entry->d_name) >= sizeof name - 1) continue;
        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path || stat(path, &st) != 0) continue;
        if (S_ISREG(st.st_mode) && is_template(name)) add_name(names, name);
        if (!S_ISDIR(st.st_mode) || depth == MOST_DEPTH) continue;
        strcat(name, "/");
        walk(names, folder, name, depth + 1);
    }
    closedir(dir);
}

static int compare(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Whether a folder before `end` in the list has this one in it: its files are then among that one's, under their names
 * below it, and stand behind them. Hidden folders are not walked. */
static bool walked(const char *list, const char *end, const char *folder) {
    char other[4096];
    for (const char *at = list; at != end && (at = template_list_next(at, other, sizeof other)) != NULL && at != end;) {
        size_t length = strlen(other);
        while (length > 1 && other[length - 1] == '/')
            length--;
        if (strncmp(folder, other, length) == 0 && folder[length] == '/' && strstr(folder + length, "/.") == NULL)
            return true;
    }
    return false;
}

static dcpk_status collect(const struct expander *expander, struct names *names, dcpk_error *error) {
    const char *path = expander_path(expander);
    char folder[4096];
    for (const char *at = path; (at = template_list_next(at, folder, sizeof folder)) != NULL;)
        if (!walked(path, at, folder)) walk(names, folder, "", 0);
    if (names->count > 1) qsort(names->list, names->count, sizeof *names->list, compare);
    if (names->trouble == 0) return DCPK_OK;
    return dcpk_error_system(error, names->trouble == ENOMEM ? DCPK_E_NOMEM : DCPK_E_IO, names->trouble,
                             "cannot list the template folders %s (at most %d files)", path, MOST_FILES);
}

/* The digest of "DIGEST NAME" lines: what xxh128sum would print of every file, by name. */
static dcpk_status digest_templates(struct expander *expander, char hex[DIGEST_HEX], dcpk_error *error) {
    struct names names = {0};
    struct buffer text = {0};
    dcpk_status status = collect(expander, &names, error);
    for (size_t i = 0; status == DCPK_OK && i < names.count; i++) {
        if (i > 0 && strcmp(names.list[i - 1], names.list[i]) == 0) continue; /* in two folders: the first has it */
        const char *digest = expander_file_digest(expander, names.list[i]);
        if (digest)
            buffer_format(&text, "%s %s\n", digest, names.list[i]);
        else
            status = dcpk_error_set(error, DCPK_E_IO, "cannot read the template file %s in %s", names.list[i],
                                    expander_path(expander));
    }
    if (status == DCPK_OK && text.failed) status = dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a digest");
    if (status == DCPK_OK) digest_hex(text.data ? text.data : "", text.length, hex);
    buffer_free(&text);
    free(names.list);
    return status;
}

/* ---- lines --------------------------------------------------------------------------------------- */
dcpk_status identity_write(struct expander *expander, struct buffer *text, dcpk_error *error) {
    char templates[DIGEST_HEX];
    dcpk_status status = digest_templates(expander, templates, error);
    if (status != DCPK_OK) return status;
    buffer_format(text, "dcpk " DCPK_VERSION_TEXT "\ngenerator %s\ntemplates %s\nimage-format %d\n", key_generator(),
                  templates, IMAGE_FORMAT);
    return text->failed ? dcpk_error_set(error, DCPK_E_NOMEM, "no memory for an identity") : DCPK_OK;
}

/* The value of the line `name`, up to its newline; NULL when there is none. */
static const char *value_of(const char *manifest, const char *name, size_t name_length, size_t *length) {
    for (const char *at = manifest; at && *at != '\0';) {
        size_t line = strcspn(at, "\n");
        if (line > name_length && memcmp(at, name, name_length) == 0 && at[name_length] == ' ') {
            *length = line - name_length - 1;
            return at + name_length + 1;
        }
        at += line + (at[line] == '\n');
    }
    return NULL;
}

/* The digest of no files at all: packs serve where no templates are installed, and nothing can be said of theirs. */
static bool no_templates(const char *line) {
    char none[DIGEST_HEX], wanted[64];
    digest_hex("", 0, none);
    snprintf(wanted, sizeof wanted, "templates %s\n", none);
    return strncmp(line, wanted, strlen(wanted)) == 0;
}

bool identity_differs(struct expander *expander, const char *manifest, char *why, size_t capacity) {
    struct buffer text = {0}, reasons = {0};
    if (identity_write(expander, &text, NULL) != DCPK_OK) {
        buffer_free(&text);
        return false;
    }
    for (const char *line = text.data; *line != '\0';) {
        size_t length = strcspn(line, "\n"), name = strcspn(line, " "), had = 0, here = length - name - 1;
        const char *value = value_of(manifest, line, name, &had);
        const char *between = reasons.length > 0 ? "; " : "";
        if (no_templates(line)) {
            line += length + 1;
            continue;
        }
        if (!value)
            buffer_format(&reasons, "%sno line \"%.*s\"", between, (int)name, line);
        else if (had != here || memcmp(value, line + name + 1, here) != 0)
            buffer_format(&reasons, "%s%.*s %.*s, here %.*s", between, (int)name, line, (int)had, value, (int)here,
                          line + name + 1);
        line += length + 1;
    }
    bool differs = reasons.length > 0 && !reasons.failed;
    if (differs) snprintf(why, capacity, "%s", reasons.data);
    buffer_free(&text);
    buffer_free(&reasons);
    return differs;
}

dcpk_status dcpk_gen_identity(dcpk_gen *gen, dcpk_text *out, dcpk_error *error) {
    struct buffer text = {0};
    if (!gen || !out) return dcpk_error_set(error, DCPK_E_ARG, "gen and out may not be NULL");
    *out = (dcpk_text){0};
    dcpk_status status = identity_write(gen->expander, &text, error);
    if (status == DCPK_OK)
        *out = (dcpk_text){text.data, text.length};
    else
        buffer_free(&text);
    return status;
}
