/* box_pair.h - two connected boxes on the fake driver: what the suites about boxes start from. Each suite has its own
 * copy. */
#ifndef DCPK_TESTS_BOX_PAIR_H
#define DCPK_TESTS_BOX_PAIR_H

#include "tests/fake_open.h"

#include "runtime/box_state.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct fake_api fake;
static dcpk_error error;
static dcpk_device *devices[2];
static dcpk_box *boxes[2];
static const dcpk_box_shape shape = {.size = sizeof shape, .dcp = 2, .heads = 2, .cap = 64};

static inline void setup(void) {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    unsetenv("CUDA_LAUNCH_BLOCKING");
    unsetenv("DCPK_MULTICAST");
    fake = fake_load();
    dcpk_error_init(&error);
    for (int r = 0; r < 2; r++) {
        devices[r] = fake_device(r);
        ck_assert_msg(dcpk_box_create(devices[r], &shape, r, &boxes[r], &error) == DCPK_OK, "%s", error.text);
    }
}

static inline void connect_pair(void) {
    ck_assert_msg(dcpk_box_connect(boxes, 2, &error) == DCPK_OK, "%s", error.text);
}

static inline void teardown(void) {
    fake.reset();
    for (int r = 0; r < 2; r++)
        if (boxes[r] != NULL) ck_assert_msg(dcpk_box_destroy(boxes[r], &error) == DCPK_OK, "%s", error.text);
    for (int r = 0; r < 2; r++) {
        dcpk_device_close(devices[r]);
        boxes[r] = NULL;
    }
    ck_assert_int_eq(fake.outstanding(), 0);
}

static inline void assert_text(const char *part) {
    ck_assert_msg(strstr(error.text, part) != NULL, "\"%s\" is not in \"%s\"", part, error.text);
}

static inline uint32_t word_at(uint64_t address) {
    uint32_t word;
    memcpy(&word, (const void *)(uintptr_t)address, sizeof word);
    return word;
}

static inline uint64_t wide_at(uint64_t address) {
    uint64_t word;
    memcpy(&word, (const void *)(uintptr_t)address, sizeof word);
    return word;
}

static inline void put_word(uint64_t address, uint32_t word) {
    memcpy((void *)(uintptr_t)address, &word, sizeof word);
}

/* What a kernel of rank r leaves behind when it gives up: its own record, then everybody's host word. */
static inline void die(int r, uint32_t kernel, uint32_t mailbox, uint32_t row, uint32_t other, uint32_t word,
                       uint32_t use) {
    const uint32_t record[] = {(uint32_t)r, kernel, mailbox, row, other, word, use};
    memcpy(boxes[r]->record.host + 1, record, sizeof record);
    for (int s = 0; s < 2; s++)
        boxes[s]->record.host[0] = (uint32_t)r + 1;
}

#endif
