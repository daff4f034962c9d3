/* sizes.h - numbers in texts of the environment: plain and with a letter behind them. */
#ifndef DCPK_GEN_SIZES_H
#define DCPK_GEN_SIZES_H

#include <stdbool.h>
#include <stdint.h>

/* A whole number from 0 to max, at most 10 digits and nothing else. */
bool number_read(const char *text, int64_t max, int64_t *value);
/* Bytes, at least 1: digits, then nothing or one of K, M, G, T (small letters, too), powers of 1024. False for anything
 * else and for what passes 2^62. */
bool size_read(const char *text, uint64_t *bytes);

#endif
