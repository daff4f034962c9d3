/* exec_spare.c - memory of CTAs that have ended, for the next ones of their function: malloc would hand large blocks
 * back to the host and take them anew with every CTA, page by page. Owned by struct code; freed with the module. */
#include <stdlib.h>
#include <runtime/cpu/exec.h>

enum { MOST = 1 << 25 }; /* bytes that a list keeps */

struct spare { /* the head of a block that nobody uses */
    struct spare *next;
    size_t bytes;
};

static struct spare *pop(struct spares *s) {
    struct spare *block = s->first;
    s->first = block->next;
    s->bytes -= block->bytes;
    return block;
}

void *spare_take(struct spares *s, size_t bytes) {
    while (s->first) {
        struct spare *block = pop(s);
        if (block->bytes == bytes) return block;
        free(block);
    }
    return aligned_alloc(SLOT_BYTES, (bytes + SLOT_BYTES - 1) & ~(size_t)(SLOT_BYTES - 1));
}

void *spare_any(struct spares *s, size_t *bytes) {
    struct spare *block = s->first ? pop(s) : NULL;
    *bytes = block ? block->bytes : 0;
    return block;
}

void spare_give(struct spares *s, void *block, size_t bytes) {
    struct spare *spare = block;
    if (!block || bytes < sizeof *spare || s->bytes + bytes > MOST) {
        free(block);
        return;
    }
    *spare = (struct spare){s->first, bytes};
    s->first = spare;
    s->bytes += bytes;
}

void spares_free(struct spares *s) {
    while (s->first)
        free(pop(s));
}
