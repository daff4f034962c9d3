/* cpu.h - what the CPU device (libdcpkcpu.so) has beyond the driver API it implements: emulated hardware, seeds,
 * stalls and counters, for tests and tools. Resolve these with dcpk_device_symbol; the runtime never needs them.
 *
 * Everything runs inside the caller's synchronising calls (and a slice inside queries): with the same seed and
 * the same calls, the same run, to the last bit.
 *
 * Threads. Any number of host threads may call. As long as only one has called since dcpkcpu_configure, the above
 * holds, and virtual time jumps over what is nothing but polling. Once a second one has, it goes as on hardware: a call
 * that waits lets the others in between rounds, virtual time passes no faster than real time (and stands still while
 * another thread is inside a call), and no verdict of deadlock or no progress falls, nor does NOT_READY for held-back
 * work, before one second of real time without progress (60 seconds while the polls read a timer). What runs when
 * depends on the threads then. A call that waits waits for the work that was there as it began;
 * CUDA_ERROR_CONTEXT_IS_DESTROYED (709) when the machine is configured anew meanwhile.
 *
 * A wait that cannot end because only stalled warps or held stores are left (or because those that still run poll
 * without a timer, and something is stalled or held) returns CUDA_ERROR_NOT_READY (600), which is not sticky: release
 * and wait again. dcpkcpu_report says what is held and who waits. Without a stall or hold the same is a deadlock:
 * CUDA_ERROR_LAUNCH_FAILED (719), sticky until dcpkcpu_configure, as it is for work that goes on for more than
 * max_rounds. cuGetErrorString of the sticky error is the report. stall, release, hold_stores and flip_bit need an
 * initialised machine: -1 before cuInit. */
#ifndef DCPK_CPU_H
#define DCPK_CPU_H

#include <dcpk/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dcpkcpu_schedule {
    DCPKCPU_FAIR = 0,  /* round robin over warps in bursts: fastest */
    DCPKCPU_RANDOM = 1 /* seeded adversary: any warp, any burst length, uneven devices, late stores, PDL early or
                          late, cp.async landing anywhere up to its wait (fair: at the wait) */
};

/* Whether what kernels do to memory is checked for more than bounds, alignment, life and asynchronous copies: reads of
 * what nobody has written (global and shared memory, registers), shared-memory races, writes to inputs. A finding is a
 * fault like any other. */
enum dcpkcpu_checker {
    DCPKCPU_CHECKER_AUTO = 0, /* as the environment's DCPK_CPU_CHECK says, 1 or 0; unset: off */
    DCPKCPU_CHECKER_ON = 1,
    DCPKCPU_CHECKER_OFF = 2
};

/* Whether it is kept who knows of which store to global memory (docs/order-and-time.md): then data races of global
 * memory, and reads before griddepcontrol.wait of what the kernel before writes, are faults; and under the adversary
 * loads get what a store has replaced, stores within a device are late. Off, the adversary takes half to two thirds of
 * the time; on, global loads and stores take about 30 times the time in the fair schedule. */
enum dcpkcpu_tracking {
    DCPKCPU_TRACKING_AUTO = 0, /* in the adversary's schedules, not in the fair one */
    DCPKCPU_TRACKING_ON = 1,
    DCPKCPU_TRACKING_OFF = 2
};

typedef struct dcpkcpu_options {
    uint32_t size;
    int32_t devices;      /* 1..32; default 8 */
    int32_t sms;          /* a device; default 132 */
    int32_t major, minor; /* compute capability; default 9.0 */
    int32_t multicast;    /* 1: devices report multicast support; default 1 */
    int32_t schedule;     /* enum dcpkcpu_schedule */
    uint64_t seed;
    int32_t store_delay; /* adversary only: a store to another device may wait up to this many rounds, word by word;
                            default 200 */
    uint64_t livelock_rounds; /* report no progress after this many rounds in which nothing changed; default 200000.
                                 Sooner when every warp polls and none reads a timer, or repeats the same
                                 steps with the same registers */
    int32_t trace;            /* 1: log launches, starts and ends of grids to stderr */
    uint64_t max_rounds; /* a call that waits gives up after this many rounds, whatever still changes in memory; 0, the
                            default: 4e9 rounds or 10 minutes of real time */
    int32_t memory_checker; /* enum dcpkcpu_checker; default 0 */
    int32_t store_tracking; /* enum dcpkcpu_tracking; default 0 */
    int32_t races_allowed;  /* 1: what store tracking finds is no fault; default 0 */
} dcpkcpu_options;

/* Resets every device: all memory, modules and streams of a former life are gone. Call it before cuInit, or
 * between tests when nothing is in use. Environment DCPK_CPU_SEED, DCPK_CPU_DEVICES, DCPK_CPU_SMS and
 * DCPK_CPU_CAPABILITY, read at cuInit, stand in where this was never called (DCPK_CPU_CHECK: also where it leaves
 * memory_checker 0). Returns 0, or -1 for values out of range. */
DCPK_API int dcpkcpu_configure(const dcpkcpu_options *options);

/* The last fault or load error in full: kind, kernel, template file:line, PTX line and text, thread, address,
 * nearest allocation; "" when there was none. The thread's own
 * copy, until its next dcpkcpu_report. */
DCPK_API const char *dcpkcpu_report(void);

/* Stops every warp of kernels named `entry` (NULL: any kernel) on device `ordinal` once the grid has executed
 * `after` warp instructions; they hold still until dcpkcpu_release. What they stored before may still be on its way. */
DCPK_API int dcpkcpu_stall(int ordinal, const char *entry, uint64_t after);
DCPK_API int dcpkcpu_release(int ordinal);

/* Holds back all stores from device `from` to device `to` (-1: any other, and the host) until released: late words.
 * Those under way are held, too. The kernel that made them is not complete before they have landed. */
DCPK_API int dcpkcpu_hold_stores(int from, int to, int hold);

typedef struct dcpkcpu_counters {
    uint32_t size;
    uint64_t thread_instructions; /* instructions times active threads */
    uint64_t warp_instructions;
    uint64_t rounds;                            /* every resident warp had its turn */
    uint64_t virtual_ns;                        /* globaltimer */
    uint64_t launches, pdl_launches, pdl_early; /* early: grids that began before their predecessor had ended */
    uint64_t peer_stores, peer_stores_delayed, multicast_stores;
    uint64_t stores_overtaken; /* strong stores that came, by the adversary's choice, before one they race with */
} dcpkcpu_counters;
DCPK_API int dcpkcpu_get_counters(dcpkcpu_counters *counters);

/* What the memory checker is told about bytes of a device's memory. -1: not allocated, or no such mark. */
enum dcpkcpu_mark {
    DCPKCPU_MARK_PLAIN = 0,    /* takes DCPKCPU_MARK_INPUT back */
    DCPKCPU_MARK_INPUT = 1,    /* kernels may not write them */
    DCPKCPU_MARK_WRITTEN = 2,  /* they may be read, whatever they hold */
    DCPKCPU_MARK_UNWRITTEN = 3 /* as fresh from the allocator: nobody has written them */
};
DCPK_API int dcpkcpu_mark(uint64_t address, uint64_t bytes, int mark);

/* Flips bit `bit` (0..7) of the byte at a device address, as a fault in memory would. -1 when it is not allocated. */
DCPK_API int dcpkcpu_flip_bit(uint64_t address, int bit);

#ifdef __cplusplus
}
#endif
#endif
