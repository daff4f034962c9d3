/* box.h - a rank's box: the Lamport mailboxes of one DCP group and the words that keep it honest.
 *
 * One peer-mapped allocation a rank; every part begins at a multiple of 256 bytes:
 *   control 256 B | q [2, cap, qh, 576] e4m3 | partial [2, D, cap, H, 512] BF16 | lse [2, D, cap, H] F32
 *   | ledger [2, D] u32
 * then local: tables u64[5][D] (control, q, partial, lse, ledger of every rank as mapped on this one),
 * rows [cap, D*H, 512] BF16, rows_lse [cap, D*H] F32. Armed: q words 0xFFFFFFFF, partial 0x80000000,
 * lse and ledger 0xFFFFFFFF, next 0, current 0xFFFFFFFF.
 * Control block: +0 u32 next | +4 u32 current | +8 u32 abort (0 alive, r + 1: rank r's record says why)
 *   | +16 u64 bound in ns | +24 u64 device address of the pinned host record | +64 u32[8] record:
 *   claim, rank, kernel (kernels.def), mailbox (dcpk_mailbox), row, head or source, word, use.
 * Pinned host record: u32[16], word 0 = the abort word, words 1..7 as record words 1..7.
 * What row, head or source and word of a record mean, by mailbox:
 *   q         token row, head 0..D*H-1, 32-bit word 0..143 of the head's 576 bytes
 *   partial   token row, source rank, own head * 256 + 32-bit word 0..255 of its 512 BF16
 *   lse       token row, source rank, own head
 *   ledger    0, source rank, 0: the source's word of the use never came
 *   mismatch  the word of this rank, source rank, the word that came; a word is (use mod 2^18) << 14 | B << 4 | q
 *   use       next, current, and with parity=arg the parity that was passed: current + 1 is not next when the use
 * before was never closed, else the parity is not the low bit of next
 *
 * Life: create on every rank -> connect -> arm (fill, synchronise) -> barrier of all ranks -> uses.
 * A use is: query_push (or mla_query) -> query_wait -> decode -> dcp_value; every rank runs the same
 * sequence of uses. One box a concurrent micro-batch. Not thread-safe, but dcpk_box_status is. */
#ifndef DCPK_BOX_H
#define DCPK_BOX_H

#include <dcpk/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dcpk_mailbox {
    DCPK_MAILBOX_Q = 1,
    DCPK_MAILBOX_PARTIAL = 2,
    DCPK_MAILBOX_LSE = 3,
    DCPK_MAILBOX_LEDGER = 4,
    DCPK_MAILBOX_MISMATCH = 5, /* a ledger word came and differs: word holds what came */
    DCPK_MAILBOX_USE = 6       /* a use was opened before the one before it was closed, or with the wrong parity */
};

typedef struct dcpk_box_shape {
    uint32_t size;
    int32_t dcp, heads, cap, qh; /* qh 0: dcp * heads */
    int32_t publish;             /* DCPK_PUBLISH_* */
    uint64_t bound_ns;           /* how long a poll may take; 0: 30 s */
    int32_t event_ordered; /* 1: the caller launches phase by phase with all ranks inside, each phase after events of
                              the one before: no PDL, no grid that polls for its own kind; ranks may share a device;
                              kernels are launched one by one (dcpk_layer_open refuses such a box) */
} dcpk_box_shape;

/* Byte offsets of the parts from the box's base. Pure. */
typedef struct dcpk_box_layout {
    uint32_t size;
    uint64_t control, q, partial, lse, ledger, shared_bytes; /* what peers map */
    uint64_t tables, rows, rows_lse, bytes;                  /* local parts, and all of it */
} dcpk_box_layout;
DCPK_API dcpk_status dcpk_box_layout_of(const dcpk_box_shape *shape, dcpk_box_layout *layout, dcpk_error *error);

/* This rank's memory, not yet armed. */
DCPK_API dcpk_status dcpk_box_create(dcpk_device *device, const dcpk_box_shape *shape, int32_t rank, dcpk_box **out,
                                     dcpk_error *error);
/* Frees what every rank stores into. Ranks of one process (dcpk_box_connect): BOX_BUSY, naming the rank, while any of
 * them has uses in flight, a captured graph that holds its box, or a device that does not drain; it waits for the
 * devices of all ranks, so nothing that waits for the calling thread may run on them. The first destruction ends the
 * use of the other boxes: launches into them are refused with BOX_DEAD. Ranks in other processes (dcpk_box_attach)
 * cannot be seen: every rank drains its device (dcpk_device_sync) and all meet a barrier before any of them destroys
 * its box. A call that fails leaves the box valid and may be repeated (once freeing has begun the box can do nothing
 * else). Where the context is lost (a sticky error) what was held is given up and the call is OK. NULL is fine. */
DCPK_API dcpk_status dcpk_box_destroy(dcpk_box *box, dcpk_error *error);

/* Ranks of one process: boxes[r] is rank r's, all D of them, on one or several devices. Enables peer access,
 * compares shapes (MISMATCH names the field and the rank), fills every rank's tables, arms all, synchronises. */
DCPK_API dcpk_status dcpk_box_connect(dcpk_box *const *boxes, int32_t count, dcpk_error *error);

/* Set-up pieces for ranks that live elsewhere (a process each): each rank calls them between its own barriers.
 * peers: base address of every rank's box as mapped on this rank; digests: every rank's dcpk_box_digest. */
#define DCPK_DIGEST_BYTES 64
/* Attach: addresses are multiples of 256, all apart by a box's shared bytes. Arm: the first time after attach, or
 * between uses on every rank under barriers. BOX_DEAD when the box is dead: it comes back on every rank together
 * (dcpk_box_rearm). BOX_BUSY while uses are in flight or the device does not drain. */
DCPK_API dcpk_status dcpk_box_digest(const dcpk_box *box, uint8_t digest[DCPK_DIGEST_BYTES], dcpk_error *error);
DCPK_API dcpk_status dcpk_box_attach(dcpk_box *box, const uint64_t *peers, const uint8_t *digests, dcpk_error *error);
DCPK_API dcpk_status dcpk_box_arm(dcpk_box *box, dcpk_error *error);

/* Addresses of this rank's parts, for callers that read or fill them. */
DCPK_API uint64_t dcpk_box_base(const dcpk_box *box);
DCPK_API dcpk_device *dcpk_box_device(const dcpk_box *box);
DCPK_API int32_t dcpk_box_rank(const dcpk_box *box);

typedef struct dcpk_box_state {
    uint32_t size;
    int32_t dead;    /* 1: some poll ran past its bound, or ranks disagreed */
    int32_t by_rank; /* the rank whose record this is, -1 when alive */
    int32_t kernel;  /* enum dcpk_kernel_id */
    int32_t mailbox; /* enum dcpk_mailbox */
    int32_t row, head_or_source, word;
    uint32_t use;
    char text[256]; /* "rank 1 query_wait: rank 0's row 3 head 5 word 7 of the query mailbox never came (use 4)" */
} dcpk_box_state;
/* Reads the pinned host word; never synchronises or calls the driver. Any thread. */
DCPK_API dcpk_status dcpk_box_status(const dcpk_box *box, dcpk_box_state *state, dcpk_error *error);

/* Re-arm after death (or at any time between uses): every rank, the late one too. barrier(self) must return 0
 * when all ranks have arrived, non-zero when one did not in time: then this call fails with BOX_DEAD and the box
 * must be built anew in fresh memory. Drains the device, barrier, refills, synchronises, barrier. */
DCPK_API dcpk_status dcpk_box_rearm(dcpk_box *box, int (*barrier)(void *self), void *self, dcpk_error *error);
/* The same for the ranks of one process. joined[r] = 0 says that rank r does not take part: fails with BOX_DEAD,
 * nothing is refilled. joined NULL: all. */
DCPK_API dcpk_status dcpk_box_rearm_all(dcpk_box *const *boxes, int32_t count, const int32_t *joined,
                                        dcpk_error *error);

#ifdef __cplusplus
}
#endif
#endif
