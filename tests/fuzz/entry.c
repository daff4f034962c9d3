/* entry.c - what libFuzzer calls; compiled once a target, with FUZZ_TARGET its function. */
#include "tests/fuzz/fuzz.h"

#ifndef FUZZ_TARGET
#define FUZZ_TARGET fuzz_spec /* for checkers that read this file alone */
#endif

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    FUZZ_TARGET(bytes, length);
    return 0;
}
