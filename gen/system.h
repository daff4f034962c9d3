/* system.h - the vtable through which every system call of gen's cache and toolchains goes, so that tests can make the
 * n-th one fail. Nothing else in those files may enter the kernel, but for memory and time. */
#ifndef DCPK_GEN_SYSTEM_H
#define DCPK_GEN_SYSTEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* A program to start in a process group of its own, with these three descriptors and no others: `in` as 3, `out` as 4,
 * `log` as 1 and 2, nothing as 0. */
struct spawn_request {
    const char *path;
    char *const *argv;
    char *const *envp;
    int in, out; /* -1: none */
    int log;
};

/* spawn.c. The program is killed when the calling thread ends, however that comes; wait for it in this thread. -1 with
 * errno when it cannot be started. */
int system_spawn(const struct spawn_request *request, pid_t *pid);

struct system {
#define S(type, name, parameters, arguments) type(*name) parameters;
#include "gen/system.def"
#undef S
};

/* The real ones. lock: one byte, exclusive, without waiting (EAGAIN or EACCES when another holds it). list_folder: NUL
 * after each name, freed by the caller. stat_at: of the name itself. touch: the file was used now. poll: 1 readable or
 * at its end, 0 timed out. wait: 0 while the child runs. Descriptors are close-on-exec. Interrupted calls are
 * restarted. */
extern const struct system system_calls;

uint64_t system_now_ms(void); /* monotonic */
double system_now(void);      /* the same in ms with fractions */
int64_t system_wall_s(void);  /* seconds since 1970, as right as the machine's clock */
void system_sleep_ms(uint32_t ms);

#endif
