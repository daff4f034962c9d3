/* replay.h - what the suites that replay fuzz inputs share: the inputs in tests/fuzz, and texts of a megabyte, made of
 * one piece again and again, which a reader must be done with soon. */
#ifndef TESTS_FUZZ_REPLAY_H
#define TESTS_FUZZ_REPLAY_H

#include <stddef.h>
#include <stdint.h>

typedef void fuzz_target(const uint8_t *bytes, size_t length);

/* Runs every file below tests/fuzz/seeds/NAME and tests/fuzz/regress/NAME; asserts that the former has some. */
void replay_files(const char *name, fuzz_target *target);

/* head, `piece` again and again, `second` (where not NULL) as often, last; a megabyte in all. A # in a piece stands for
 * its number. */
struct replay_text {
    const char *what; /* for a failure */
    const char *head, *piece, *second, *last;
    fuzz_target *target;
};
/* Runs the target on it and asserts that it took less than `seconds` of this thread's time. */
void replay_megabyte(const struct replay_text *text, double seconds);

#endif
