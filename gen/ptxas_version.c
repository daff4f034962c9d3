/* ptxas_version.c - which ptxas is this? Its own answer to --version, remembered in the cache under the identity of its
 * file, so that a warm build starts no process at all. A replaced file has another inode, size or time and is asked. */
#include "gen/ptxas.h"

#include "gen/key.h"
#include "gen/process.h"
#include "runtime/buffer.h"
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION_TIMEOUT_MS = 20000, FIRST_LINE = 160 };

/* The text between `before` and the end of its line or one of `stops`, "" when it is not there. */
static void find(const char *log, const char *before, const char *stops, char *out, size_t capacity) {
    const char *at = strstr(log, before);
    *out = '\0';
    if (!at) return;
    at += strlen(before);
    size_t length = strcspn(at, stops);
    for (size_t i = 0; i < length; i++)
        if (at[i] < ' ' || at[i] > '~') return;
    snprintf(out, capacity, "%.*s", (int)(length < capacity ? length : capacity - 1), at);
}

/* The first line that says something, for messages: a program that is no ptxas may answer with pages. */
static const char *first_line(const char *log, char line[FIRST_LINE]) {
    log += strspn(log, " \t\r\n");
    snprintf(line, FIRST_LINE, "%.*s", (int)strcspn(log, "\r\n"), log);
    return line;
}

static dcpk_status parse(struct toolchain *toolchain, const char *log, dcpk_error *error) {
    char line[FIRST_LINE];
    char version[32], build[160];
    find(log, ", V", "\n, ", version, sizeof version);
    find(log, "\nBuild ", "\n", build, sizeof build);
    if (!version[0] || !build[0])
        return dcpk_error_set(error, DCPK_E_TOOLCHAIN,
                              "%s --version does not answer as ptxas does (no release or no build line)%s%s",
                              toolchain->path, *first_line(log, line) ? ": " : "", line);
    snprintf(toolchain->text, sizeof toolchain->text, "ptxas %s (build %s)", version, build);
    return DCPK_OK;
}

static dcpk_status ask(struct toolchain *toolchain, const struct toolchain_place *place, dcpk_error *error) {
    char name[] = "ptxas", option[] = "--version";
    char *argv[] = {name, option, NULL};
    struct spawn_request request = {
        .path = toolchain->path, .argv = argv, .envp = toolchain->envp, .in = -1, .out = -1};
    struct process_result result;
    uint32_t timeout_ms = place->timeout_ms < VERSION_TIMEOUT_MS ? place->timeout_ms : VERSION_TIMEOUT_MS;
    char who[4200], line[FIRST_LINE];
    snprintf(who, sizeof who, "%s --version", toolchain->path);
    toolchain->started++;
    dcpk_status status = process_run(place->sys, &request, timeout_ms, &result, error);
    bool ran = status == DCPK_OK;
    if (status == DCPK_OK) status = ptxas_judge(who, who, &result, timeout_ms, error);
    if (ran && status != DCPK_OK && result.log_length > 0)
        dcpk_error_append(error, ": %s", first_line(result.log, line));
    if (status == DCPK_OK) status = parse(toolchain, result.log, error);
    toolchain->useless = ran && status != DCPK_OK && result.end != PROCESS_LOST;
    free(result.log);
    return status;
}

uint32_t ptxas_archs(struct toolchain *toolchain, const struct toolchain_place *place, const char **names,
                     uint32_t capacity) {
    char name[] = "ptxas", option[] = "--help", quoted[40];
    char *argv[] = {name, option, NULL};
    struct spawn_request request = {
        .path = toolchain->path, .argv = argv, .envp = toolchain->envp, .in = -1, .out = -1};
    struct process_result result;
    dcpk_arch_info row = {.size = sizeof row};
    uint32_t count = 0;
    toolchain->started++;
    if (process_run(place->sys, &request, VERSION_TIMEOUT_MS, &result, NULL) != DCPK_OK) result.log_length = 0;
    for (uint32_t i = 0; result.log_length > 0 && count < capacity && dcpk_arch_at(i, &row); i++) {
        snprintf(quoted, sizeof quoted, "'%s'", row.name);
        if (strstr(result.log, quoted)) names[count++] = row.name;
    }
    free(result.log);
    return count;
}

/* What makes the file that file: no path, so that the same file behind two names is one. NULL when memory is out. */
static char *identity(const struct stat *st, char hex[DIGEST_HEX]) {
    struct buffer b = {0};
    buffer_format(
        &b, "dcpk toolchain 1\nfile: device %llu inode %llu size %lld modified %lld.%09ld changed %lld.%09ld\n",
        (unsigned long long)st->st_dev, (unsigned long long)st->st_ino, (long long)st->st_size,
        (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
    if (b.failed) {
        buffer_free(&b);
        return NULL;
    }
    digest_hex(b.data, b.length, hex);
    return b.data;
}

/* The stored text is the identity, "text: ...", and a checksum of both. */
static bool recall(struct toolchain *toolchain, struct cache *cache, const char *hex, const char *wanted) {
    char *data = NULL, digest[DIGEST_HEX];
    size_t length = 0, skip = strlen(wanted);
    dcpk_error error;
    dcpk_error_init(&error);
    if (cache_read(cache, hex, CACHE_TOOLCHAIN, &data, &length, &error) != DCPK_OK) return false;
    bool good = length > skip + 6 + DIGEST_HEX && memcmp(data, wanted, skip) == 0 &&
                memcmp(data + skip, "text: ", 6) == 0 && !memchr(data, 0, length);
    if (good) {
        size_t body = length - DIGEST_HEX; /* 32 digits and a newline */
        digest_hex(data, body, digest);
        good = memcmp(data + body, digest, DIGEST_HEX - 1) == 0 && data[body - 1] == '\n' &&
               body - 1 - skip - 6 < sizeof toolchain->text;
        if (good)
            snprintf(toolchain->text, sizeof toolchain->text, "%.*s", (int)(body - 1 - skip - 6), data + skip + 6);
    }
    free(data);
    return good;
}

static void remember(const struct toolchain *toolchain, struct cache *cache, const char *hex, const char *wanted) {
    struct buffer b = {0};
    char digest[DIGEST_HEX];
    dcpk_error error;
    dcpk_error_init(&error);
    buffer_format(&b, "%stext: %s\n", wanted, toolchain->text);
    if (!b.failed) {
        digest_hex(b.data, b.length, digest);
        buffer_format(&b, "%s\n", digest);
    }
    if (!b.failed && cache_write(cache, hex, CACHE_TOOLCHAIN, b.data, b.length, CACHE_REPLACE, NULL, &error) != DCPK_OK)
        notice_log(cache->notice, DCPK_LOG_DEBUG, "the compiler's version is not remembered: %s", error.text);
    buffer_free(&b);
}

dcpk_status ptxas_identify(struct toolchain *toolchain, const struct toolchain_place *place, const struct stat *st,
                           dcpk_error *error) {
    char hex[DIGEST_HEX];
    char *wanted = identity(st, hex);
    if (!wanted) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a compiler's identity");
    dcpk_status status = DCPK_OK;
    if (!recall(toolchain, place->cache, hex, wanted)) {
        status = ask(toolchain, place, error);
        if (status == DCPK_OK && place->cache->path && !place->cache->looking)
            remember(toolchain, place->cache, hex, wanted);
    }
    free(wanted);
    return status;
}
