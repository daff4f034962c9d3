/* box_state.h - what a dcpk_box holds. Internal to the runtime. */
#ifndef DCPK_RUNTIME_BOX_STATE_H
#define DCPK_RUNTIME_BOX_STATE_H

#include "runtime/device.h"
#include "runtime/hold.h"

#include <dcpk/box.h>
#include <pthread.h>

enum { BOX_MAX_RANKS = 32, BOX_RECORD_WORDS = 16, BOX_CONTROL_BYTES = 256 };

/* Offsets in the control block (box.h draws it). */
enum {
    CONTROL_NEXT = 0,
    CONTROL_CURRENT = 4,
    CONTROL_ABORT = 8,
    CONTROL_BOUND = 16,
    CONTROL_HOST = 24,
    CONTROL_RECORD = 64
};

/* Words of the record, in the control block from CONTROL_RECORD and in pinned memory alike. */
enum { RECORD_CLAIM, RECORD_RANK, RECORD_KERNEL, RECORD_MAILBOX, RECORD_ROW, RECORD_OTHER, RECORD_WORD, RECORD_USE };

#define SENTINEL_Q 0xFFFFFFFFu
#define SENTINEL_PARTIAL 0x80000000u
#define SENTINEL_LSE 0xFFFFFFFFu
#define SENTINEL_LEDGER 0xFFFFFFFFu

/* The parameters of box.def, ready to be pointed at. */
struct box_values {
#define BOX_VALUE_u64 uint64_t
#define BOX_VALUE_u32 uint32_t
#define B(type, name, doc) BOX_VALUE_##type name;
#include <dcpk/box.def>
#undef B
#undef BOX_VALUE_u64
#undef BOX_VALUE_u32
};

/* The word in pinned host memory that kernels write. host[0] != 0: dead. */
struct box_record {
    uint32_t *host;
    uint64_t address; /* as the device sees it */
};

/* Ranks of one process, made by connect: keeps every rank's record and device as long as any of them lives, so that
 * status may read the record of the rank that gave up first, and so that no rank's memory goes while another's kernels
 * may store into it. */
struct box_group {
    pthread_mutex_t lock; /* destruction, one rank at a time: guards refs and box */
    uint32_t refs;
    int32_t count;
    dcpk_box *box[BOX_MAX_RANKS]; /* NULL: destroyed */
    dcpk_device *device[BOX_MAX_RANKS];
    struct box_record record[BOX_MAX_RANKS];
};

/* publish=multicast: the multicast object that all ranks' memories are bound to, shared by their boxes. */
struct box_multicast {
    _Atomic uint32_t refs;
    dcpk_device *device; /* whose context unmaps it */
    cu_mem object;
    uint64_t address, bytes;
};

enum { BOX_LOST_REARM = -1 };

struct dcpk_box {
    dcpk_device *device;
    dcpk_box_shape shape;
    dcpk_box_layout layout;
    int32_t rank;
    uint64_t base;
    uint64_t mapped_bytes; /* publish=multicast: of the mapping; 0: plain memory */
    cu_mem memory;         /* publish=multicast: what is mapped at base */
    bool mapped;           /* publish=multicast: it is mapped */
    struct box_multicast *multicast;
    struct box_values values;
    struct box_record record;
    _Atomic(struct box_group *) group;
    struct capture_hold *hold;
    bool attached, armed;
    _Atomic int32_t lost;            /* not 0: dead for good. BOX_LOST_REARM, or r + 1: rank r's box was destroyed */
    _Atomic uint64_t opened, closed; /* uses launched eagerly since arming */
};

static inline bool dcpk_box_is_dead(const dcpk_box *box) {
    return atomic_load_explicit(&box->lost, memory_order_relaxed) != 0 ||
           __atomic_load_n(&box->record.host[0], __ATOMIC_ACQUIRE) != 0;
}
/* BOX_DEAD with what the status says. */
dcpk_status dcpk_box_dead_error(const dcpk_box *box, const char *what, dcpk_error *error);

/* box_layout.c: the shape with its defaults filled in, checked. */
dcpk_status dcpk_box_shape_resolve(const dcpk_box_shape *given, dcpk_box_shape *shape, dcpk_error *error);

/* box_digest.c: the digest, and what is wrong with rank `of`'s digest as rank `box->rank` sees it. */
void dcpk_box_digest_pack(const dcpk_box *box, uint8_t digest[DCPK_DIGEST_BYTES]);
dcpk_status dcpk_box_digest_compare(const dcpk_box *box, int32_t of, const uint8_t digest[DCPK_DIGEST_BYTES],
                                    dcpk_error *error);

/* box_group.c: one group for all ranks' boxes, false when out of memory; giving its last box's record back, and it. */
bool dcpk_box_group_make(dcpk_box *const *boxes, int32_t count);
cu_result dcpk_box_records_free(dcpk_box *box, struct box_group *group);
void dcpk_box_group_free(struct box_group *group);

/* box_destroy.c: frees memory and record, context current, and may be repeated (*call: which call failed); then the
 * rest.
 */
cu_result dcpk_box_give_back(dcpk_box *box, struct box_group *group, enum dcpk_driver_call *call);
void dcpk_box_forget(dcpk_box *box);

/* box_destroy.c: what the device's counters and abort word say. The host's word of an abort may be behind: kernels pass
 * it on when they next look. */
struct box_now {
    bool busy;      /* uses that this rank launched are running */
    uint32_t abort; /* 0, or r + 1: rank r gave up */
};
struct box_now dcpk_box_look(dcpk_box *box);

/* box_arm.c: tables to the device; refill of mailboxes, ledger, control block, record. Context is theirs to enter. */
dcpk_status dcpk_box_upload(dcpk_box *box, const uint64_t *peers, dcpk_error *error);
dcpk_status dcpk_box_fill(dcpk_box *box, dcpk_error *error);

/* box_multicast.c: memory that can be bound to a multicast object, context current; binding it, any context. */
dcpk_status dcpk_box_vmm_alloc(dcpk_box *box, dcpk_error *error);
cu_result dcpk_box_vmm_free(dcpk_box *box, enum dcpk_driver_call *call); /* may be repeated; *call: which failed */
void dcpk_box_multicast_leave(dcpk_box *box);
dcpk_status dcpk_box_multicast_join(dcpk_box *const *boxes, int32_t count, dcpk_error *error);

#endif
