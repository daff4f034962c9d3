/* fake_ptxas - a compiler that lies, dies and hangs, for suites of the building half.
 * Takes its orders from the file `orders` beside the name it was started by (argv[0] is "ptxas", so: beside
 * /proc/self/exe), one "word value" a line:
 *   mode   good      copy the file `cubin` to the output, exit 0
 *          half      write half of it, exit 1 with a message about PTX line 3
 *          kill      write half of it, die by SIGKILL
 *          sleep     start a child that sleeps as well, then sleep for 100 s, or until the orders are gone
 *          fds       write the open descriptors' numbers and the environment to the file `inherited`, then good
 *          slow      sleep 300 ms, then good
 *          empty     write nothing, exit 0
 *          page      write the first 4096 bytes, exit 0
 *          noisy     write a megabyte of log, exit 1
 *   build  the build string of --version;  release  its release ("12.6.77")
 * Appends one line to the file `starts` for each start: "version" or "assemble". */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[4000], mode[64] = "good", build[128] = "fake.1", release[64] = "13.0.88";

static void path_of(char *path, size_t capacity, const char *name) {
    snprintf(path, capacity, "%s/%s", folder, name);
}

static void read_orders(void) {
    char path[4096], line[256];
    path_of(path, sizeof path, "orders");
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "mode ", 5) == 0) snprintf(mode, sizeof mode, "%.60s", line + 5);
        if (strncmp(line, "build ", 6) == 0) snprintf(build, sizeof build, "%.120s", line + 6);
        if (strncmp(line, "release ", 8) == 0) snprintf(release, sizeof release, "%.60s", line + 8);
    }
    if (file) fclose(file);
}

static void count_start(const char *what) {
    char path[4096], line[32];
    path_of(path, sizeof path, "starts");
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int length = snprintf(line, sizeof line, "%s\n", what);
    if (fd < 0 || write(fd, line, (size_t)length) != length) _exit(99);
    close(fd);
}

static char *read_cubin(size_t *length) {
    char path[4096];
    path_of(path, sizeof path, "cubin");
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(1 << 24);
    if (!file || !bytes) _exit(98);
    *length = fread(bytes, 1, 1 << 24, file);
    fclose(file);
    return bytes;
}

static void write_output(const char *path, const char *bytes, size_t length) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, bytes, length) != (ssize_t)length) _exit(97);
    close(fd);
}

static int hang(void) {
    char path[4096];
    path_of(path, sizeof path, "orders");
    for (int i = fork() >= 0 ? 0 : 1000; i < 1000 && access(path, F_OK) == 0; i++)
        usleep(100000);
    return 0;
}

static void write_inherited(void) {
    char path[4096];
    path_of(path, sizeof path, "inherited");
    FILE *file = fopen(path, "w");
    int own = file ? fileno(file) : -1;
    for (int fd = 0; file && fd < 1024; fd++)
        if (fd != own && fcntl(fd, F_GETFD) >= 0) fprintf(file, "%d ", fd);
    for (char **p = environ; file && *p; p++)
        fprintf(file, "\n%s", *p);
    if (!file || fclose(file) != 0) _exit(94);
}

static int assemble(const char *input, const char *output) {
    size_t length = 0;
    char *bytes = read_cubin(&length);
    size_t keep = strcmp(mode, "empty") == 0                               ? 0
                  : strcmp(mode, "half") == 0 || strcmp(mode, "kill") == 0 ? length / 2
                  : strcmp(mode, "page") == 0 && length > 4096             ? 4096
                                                                           : length;
    if (strcmp(mode, "sleep") == 0) return hang();
    if (strcmp(mode, "fds") == 0) write_inherited();
    if (strcmp(mode, "slow") == 0) usleep(300000);
    write_output(output, bytes, keep);
    free(bytes);
    if (strcmp(mode, "kill") == 0) raise(SIGKILL);
    if (strcmp(mode, "half") == 0) {
        fprintf(stderr, "ptxas %s, line 3; error   : Planted fault\nptxas fatal   : Ptx assembly aborted\n", input);
        return 1;
    }
    for (int i = 0; strcmp(mode, "noisy") == 0 && i < 16384; i++)
        fprintf(stderr, "ptxas info    : line %06d of a log that does not end .............\n", i);
    return strcmp(mode, "noisy") == 0;
}

int main(int argc, char **argv) {
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    char *slash = length > 0 ? strrchr(folder, '/') : NULL;
    if (!slash) return 96;
    *slash = '\0';
    read_orders();
    const char *output = NULL, *input = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--version") == 0) {
            count_start("version");
            printf("ptxas: a fake\nCuda compilation tools, release %.4s, V%s\nBuild %s\n", release, release, build);
            return 0;
        }
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
            output = argv[++i];
        else if (argv[i][0] == '/')
            input = argv[i];
    }
    count_start("assemble");
    return output && input ? assemble(input, output) : 95;
}
