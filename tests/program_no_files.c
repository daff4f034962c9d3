/* no_files PROGRAM ARGUMENT...: runs the program in a world without new files. It, and whatever it starts, dies of
 * SIGSYS the moment it asks the system to create, link or rename a file or folder anywhere, whether or not that would
 * have been allowed. Exit 77 where the system has no such filter. Files without a name (memfd) are none. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#endif

enum { NO_FILTER = 77 };
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define DIE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* A call that always makes something. */
#define NEVER(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), DIE
/* An open whose flags (the low half of argument `index`) may ask for a new file. */
#define OPENS(number, index)                                                                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 4), LOAD(args[index]),                                            \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT | (O_TMPFILE & ~O_DIRECTORY), 0, 1), DIE, ALLOW

#ifdef MACHINE
static int forbid(void) {
    struct sock_filter rules[] = {LOAD(arch),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0),
                                  DIE,
                                  LOAD(nr),
#ifdef __NR_open
                                  OPENS(__NR_open, 1),
                                  NEVER(__NR_creat),
                                  NEVER(__NR_mkdir),
                                  NEVER(__NR_mknod),
                                  NEVER(__NR_link),
                                  NEVER(__NR_symlink),
                                  NEVER(__NR_rename),
#endif
#ifdef __NR_renameat
                                  NEVER(__NR_renameat),
#endif
#ifdef __NR_openat2
                                  NEVER(__NR_openat2),
#endif
                                  NEVER(__NR_mkdirat),
                                  NEVER(__NR_mknodat),
                                  NEVER(__NR_linkat),
                                  NEVER(__NR_symlinkat),
                                  NEVER(__NR_renameat2),
                                  OPENS(__NR_openat, 2),
                                  ALLOW};
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
#else
static int forbid(void) {
    errno = ENOSYS;
    return -1;
}
#endif

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: no_files PROGRAM ARGUMENT...\n");
        return 2;
    }
    if (forbid() != 0) {
        perror("no_files: no filter here");
        return NO_FILTER;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
