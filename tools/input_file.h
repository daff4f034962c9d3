/* input_file.h - whole files into memory, for a command that takes any path.
 *
 * Regular files alone: what a pipe or a device holds has no size, and may never come. Says nothing; knows nothing of
 * what is read. */
#ifndef TOOLS_INPUT_FILE_H
#define TOOLS_INPUT_FILE_H

#include <stdbool.h>
#include <stdint.h>

enum { INPUT_WHY = 256 };
/* At most `most` bytes, with a zero byte behind them that *length does not count; free *bytes. False: *bytes is NULL
 * and why says what is wrong, and where it is not the system's own word, what to do. It never waits. */
bool input_file_read(const char *path, uint64_t most, char **bytes, uint64_t *length, char why[INPUT_WHY]);
/* A third of this machine's memory: what is read has a second copy on the CPU device. */
uint64_t input_file_room(void);

#endif
