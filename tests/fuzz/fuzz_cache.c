/* fuzz_cache.c - input: a letter, then bytes of a file that lies in a cache folder: `m` a manifest, `t` what is
 * remembered of a compiler; `M` and `T` the same after their heads and before their checksums, which are made right.
 * It leads to a content key or a compiler's text that is whole, or it counts as nothing. No process is started. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/file.h"

#include "gen/cache_manifest.h"
#include "gen/ptxas.h"
#include "runtime/buffer.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static int file_fd; /* of the input */

/* Every folder is the root's, which is nobody else's to write; every file is the input. */
static int open_input(int dir, const char *path, int flags, mode_t mode) {
    if (strchr(path, '.') == NULL) return system_calls.open(dir, "/", flags, mode);
    return dup(file_fd);
}

static int start_nothing(const struct spawn_request *request, pid_t *pid) {
    (void)request, (void)pid;
    errno = ENOENT;
    return -1;
}

static void find_manifest(struct cache *cache, const struct key *key) {
    static struct expander *expander; /* opened once */
    char content[DIGEST_HEX] = "";
    dcpk_error error;
    dcpk_error_init(&error);
    if (expander == NULL) fuzz_check(expander_open("templates", &expander, &error) == DCPK_OK);
    if (manifest_find(cache, key, expander, content))
        fuzz_check(strlen(content) == DIGEST_HEX - 1 && strspn(content, "0123456789abcdef") == DIGEST_HEX - 1);
}

static void recall_toolchain(struct cache *cache) {
    static const struct stat nothing;
    char program[] = "ptxas";
    struct toolchain toolchain = {.path = program};
    const struct toolchain_place place = {.sys = cache->sys, .notice = cache->notice, .cache = cache};
    dcpk_error error;
    dcpk_error_init(&error);
    if (ptxas_identify(&toolchain, &place, &nothing, &error) == DCPK_OK)
        fuzz_check(memchr(toolchain.text, '\0', sizeof toolchain.text) != NULL && toolchain.started == 0);
    else
        fuzz_check(error.text[0] != '\0');
}

/* The head that a reader asks for, the body, and the checksum of both. */
static void make_right(struct buffer *b, bool manifest, const struct key *key, const uint8_t *body, size_t length) {
    char digest[DIGEST_HEX];
    if (manifest)
        buffer_format(b, "dcpk manifest 1\npreimage %zu\n%s", key->length, key->text);
    else
        buffer_format(b, "dcpk toolchain 1\nfile: device 0 inode 0 size 0 modified 0.000000000 changed 0.000000000\n");
    buffer_bytes(b, (const char *)body, length);
    fuzz_check(!b->failed);
    digest_hex(b->data, b->length, digest);
    buffer_format(b, "%s%s\n", manifest ? "end " : "", digest);
    fuzz_check(!b->failed);
}

void fuzz_cache(const uint8_t *bytes, size_t length) {
    if (length == 0 || strchr("mMtT", bytes[0]) == NULL || bytes[0] == '\0') return;
    char text[] = "schema: 1\n";
    const struct key key = {.hex = "0123456789abcdef0123456789abcdef", .text = text, .length = sizeof text - 1};
    const struct notice notice = {0};
    struct system calls = system_calls;
    struct cache cache;
    struct buffer right = {0};
    bool manifest = bytes[0] == 'm' || bytes[0] == 'M';
    calls.open = open_input;
    calls.spawn = start_nothing;
    fuzz_check(cache_init(&cache, &calls, &notice, "/cache", 0));
    if (bytes[0] == 'M' || bytes[0] == 'T') make_right(&right, manifest, &key, bytes + 1, length - 1);
    struct fuzz_file file = right.data != NULL ? fuzz_file_make((const uint8_t *)right.data, right.length)
                                               : fuzz_file_make(bytes + 1, length - 1);
    file_fd = file.fd;
    if (manifest)
        find_manifest(&cache, &key);
    else
        recall_toolchain(&cache);
    fuzz_file_close(&file);
    buffer_free(&right);
    cache_close(&cache);
}
