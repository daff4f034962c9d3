/* bench_peers.c - see bench_ranks.h: what lies between the ranks, by kernels of tests/templates (peer_*). Every word
 * that was sent is looked at. */
#include <tests/bench_ranks.h>

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 2000, FEW_ROUNDS = 20 };

static uint64_t bound_ns(const struct bench *b) {
    return b->on_cpu ? 100000000 : 1000000000;
}

static void load_all(struct bench *b, dcpk_kernel **kernels, const char *text) {
    for (int32_t r = 0; r < b->group.dcp; r++)
        kernels[r] = bench_kernel(b, r, text);
}

static void free_all(struct bench *b, dcpk_kernel **kernels) {
    for (int32_t r = 0; r < b->group.dcp; r++)
        dcpk_kernel_free(kernels[r], NULL);
}

static void launch_raw(struct bench *b, int32_t r, const dcpk_kernel *kernel, void *const *params, uint32_t flags) {
    dcpk_error error;
    dcpk_error_init(&error);
    bench_must(dcpk_kernel_launch_raw(kernel, 0, params, b->group.rank[r].stream, flags, &error), &error, "launch");
}

static void write_to(struct bench *b, int32_t r, uint64_t address, const void *from, uint64_t bytes) {
    dcpk_error error;
    dcpk_error_init(&error);
    bench_must(dcpk_mem_write(b->group.rank[r].device, address, from, bytes, &error), &error, "memory");
}

static void read_from(struct bench *b, int32_t r, void *to, uint64_t address, uint64_t bytes) {
    dcpk_error error;
    dcpk_error_init(&error);
    bench_must(dcpk_mem_read(b->group.rank[r].device, to, address, bytes, &error), &error, "memory");
}

static void sync_all(struct bench *b) {
    dcpk_error error;
    dcpk_error_init(&error);
    bench_must(rank_group_sync(&b->group, &error), &error, "waiting");
}

/* ---- latency ------------------------------------------------------------------------------------- */

/* On every rank: 16 bytes for each of its peers, the results behind them, then where the peers' words are. */
enum { PING_RESULTS = 512, PING_THEIRS = 1024, PING_BYTES = 2048 };

struct pings {
    struct bench *b;
    dcpk_kernel *one[GROUP_MAX_RANKS], *all[GROUP_MAX_RANKS];
    uint64_t words[GROUP_MAX_RANKS];
};

static void launch_ping(struct pings *p, int32_t r, const dcpk_kernel *kernel, uint32_t first) {
    uint32_t rounds = p->b->on_cpu ? FEW_ROUNDS : ROUNDS;
    uint64_t limit = bound_ns(p->b), theirs = p->words[r] + PING_THEIRS, result = p->words[r] + PING_RESULTS;
    void *params[] = {&p->words[r], &theirs, &rounds, &first, &result, &limit};
    launch_raw(p->b, r, kernel, params, DCPK_LAUNCH_NO_PDL);
}

/* The k-th thread of rank r saw every message; ns of all rounds. */
static uint64_t result_of(struct pings *p, int32_t r, int32_t k) {
    uint32_t rounds = p->b->on_cpu ? FEW_ROUNDS : ROUNDS;
    char why[96];
    struct {
        uint64_t ns;
        uint32_t rounds, unused;
    } result;
    read_from(p->b, r, &result, p->words[r] + PING_RESULTS + (uint64_t)k * 16, sizeof result);
    snprintf(why, sizeof why, "rank %d, peer %d of its list: %u of %u messages came", r, k, result.rounds, rounds);
    if (result.rounds != rounds) bench_fail("latency", why);
    return result.ns;
}

/* Nanoseconds one way between a rank and `count` others, all of them in each round. */
static double ping(struct pings *p, int32_t from, const int32_t *to, int32_t count) {
    static const uint8_t zeros[PING_BYTES];
    uint64_t theirs[GROUP_MAX_RANKS] = {0};
    for (int32_t r = 0; r < p->b->group.dcp; r++)
        write_to(p->b, r, p->words[r], zeros, PING_BYTES);
    for (int32_t k = 0; k < count; k++) {
        uint64_t back = p->words[from] + (uint64_t)k * 16;
        theirs[k] = p->words[to[k]];
        write_to(p->b, to[k], p->words[to[k]] + PING_THEIRS, &back, sizeof back);
    }
    write_to(p->b, from, p->words[from] + PING_THEIRS, theirs, sizeof theirs);
    for (int32_t k = 0; k < count; k++) /* who answers is there when the first word comes */
        launch_ping(p, to[k], p->one[to[k]], 0);
    launch_ping(p, from, count > 1 ? p->all[from] : p->one[from], 1);
    sync_all(p->b);
    uint64_t ns = 0;
    for (int32_t k = 0; k < count; k++) {
        uint64_t took = result_of(p, from, k);
        result_of(p, to[k], 0);
        ns = took > ns ? took : ns;
    }
    return (double)ns / (p->b->on_cpu ? FEW_ROUNDS : ROUNDS) / 2;
}

/* A cell of a table: on the CPU device only that it came. */
static void print_cell(const struct bench *b, double value) {
    if (b->on_cpu)
        printf(" %8s", "came");
    else
        printf(" %8.0f", value);
}

static void print_ns(struct bench *b, const char *what, double ns) {
    bench_figure(b, "latency", what, ns, "ns one way");
    print_cell(b, ns);
}

static void ping_row(struct pings *p, int32_t from) {
    struct bench *b = p->b;
    int32_t others[GROUP_MAX_RANKS], count = 0;
    char what[64];
    printf("%6d", from);
    for (int32_t to = 0; to < b->group.dcp; to++) {
        if (to == from) {
            printf(" %8s", "-");
            continue;
        }
        others[count++] = to;
        snprintf(what, sizeof what, "16 bytes, rank %d to %d", from, to);
        print_ns(b, what, ping(p, from, &to, 1));
    }
    snprintf(what, sizeof what, "16 bytes, rank %d to all", from);
    print_ns(b, what, ping(p, from, others, count));
    printf("\n");
}

static void print_columns(const struct bench *b) {
    printf("%6s", "from");
    for (int32_t to = 0; to < b->group.dcp; to++)
        printf(" %6s%2d", "to", to);
    printf(" %8s\n", "to all");
}

void bench_latency(struct bench *b) {
    struct pings p = {.b = b};
    char text[64];
    snprintf(text, sizeof text, "peer_ping dcp=%d", b->group.dcp - 1);
    load_all(b, p.one, "peer_ping dcp=1");
    load_all(b, p.all, text);
    for (int32_t r = 0; r < b->group.dcp; r++)
        p.words[r] = bench_memory(b, r, PING_BYTES, 0);
    printf("\nlatency: 16 bytes stored into a peer's memory until a thread there has read them, ns (half of there and "
           "back, %d times; to all: a round ends when all have answered)\n",
           b->on_cpu ? FEW_ROUNDS : ROUNDS);
    print_columns(b);
    for (int32_t from = 0; from < b->group.dcp; from++)
        ping_row(&p, from);
    for (int32_t r = 0; r < b->group.dcp; r++)
        bench_free(b, r, p.words[r]);
    free_all(b, p.one);
    free_all(b, p.all);
}

/* ---- bandwidth ----------------------------------------------------------------------------------- */

/* Every rank has a landing for each source: landing[r] + source * bytes. */
struct stores {
    struct bench *b;
    dcpk_kernel *one[GROUP_MAX_RANKS], *all[GROUP_MAX_RANKS];
    uint64_t landing[GROUP_MAX_RANKS], targets[GROUP_MAX_RANKS], bytes; /* targets: u64[N - 1] */
    bool to_all;
    uint32_t tag; /* of this round of stores */
};

static void launch_stores(void *self, int32_t r, int i) {
    struct stores *s = self;
    uint32_t tag = s->tag + (uint32_t)r;
    (void)i;
    void *params[] = {&s->targets[r], &s->bytes, &tag};
    launch_raw(s->b, r, s->to_all ? s->all[r] : s->one[r], params, 0);
}

/* Where rank r's stores go: to its peers from `first` on, around the circle. */
static void aim(struct stores *s, int32_t r, int32_t first) {
    uint64_t list[GROUP_MAX_RANKS] = {0};
    int32_t ranks = s->b->group.dcp, count = 0;
    for (int32_t i = 0; i < ranks; i++) {
        int32_t to = (first + i) % ranks;
        if (to != r) list[count++] = s->landing[to] + (uint64_t)r * s->bytes;
    }
    write_to(s->b, r, s->targets[r], list, (uint64_t)count * 8);
}

static void flip(struct bench *b, int32_t r, uint64_t address) {
    dcpk_error error;
    dcpk_error_init(&error);
    bench_must(rank_group_flip(&b->group, r, address, 0, &error), &error, "flip");
    b->inject = false;
}

/* What `from` sent lies at `to`, the first and the last 64 KB of it. */
static void look_at(struct stores *s, int32_t from, int32_t to) {
    enum { PART = 64 << 10 };
    uint32_t(*got)[4] = bench_room(1, PART), tag = s->tag + (uint32_t)from;
    uint64_t part = s->bytes < PART ? s->bytes : PART;
    if (s->b->inject) flip(s->b, to, s->landing[to] + (uint64_t)from * s->bytes + part - 16);
    for (int end = 0; end < 2; end++) {
        uint64_t at = end ? s->bytes - part : 0;
        read_from(s->b, to, got, s->landing[to] + (uint64_t)from * s->bytes + at, part);
        for (uint64_t i = 0; i < part / 16; i++) {
            uint32_t chunk = (uint32_t)(at / 16 + i);
            if (got[i][0] != chunk || got[i][1] != tag || got[i][2] != ~chunk || got[i][3] != ~tag) {
                char why[96];
                snprintf(why, sizeof why, "chunk %u of rank %d at rank %d is %08x %08x", chunk, from, to, got[i][0],
                         got[i][1]);
                bench_fail("bandwidth", why);
            }
        }
    }
    free(got);
}

/* GB/s that rank `from` sends to each peer alone, then to all of them. */
static void send_row(struct stores *s, int32_t from) {
    struct bench *b = s->b;
    char what[64];
    printf("%6d", from);
    for (int32_t to = 0; to < b->group.dcp; to++) {
        if (to == from) {
            printf(" %8s", "-");
            continue;
        }
        aim(s, from, to);
        s->to_all = false;
        s->tag += 64;
        double us = bench_time(b, from, launch_stores, s, 4, NULL);
        look_at(s, from, to);
        snprintf(what, sizeof what, "rank %d to %d", from, to);
        bench_figure(b, "bandwidth", what, (double)s->bytes / us / 1e3, "GB/s");
        print_cell(b, (double)s->bytes / us / 1e3);
    }
    aim(s, from, from + 1);
    s->to_all = true;
    s->tag += 64;
    double us = bench_time(b, from, launch_stores, s, 4, NULL);
    double gbs = (double)s->bytes * (b->group.dcp - 1) / us / 1e3;
    for (int32_t to = 0; to < b->group.dcp; to++)
        if (to != from) look_at(s, from, to);
    snprintf(what, sizeof what, "rank %d to all", from);
    bench_figure(b, "bandwidth", what, gbs, "GB/s");
    print_cell(b, gbs);
    printf("\n");
}

static void send_all(struct stores *s) {
    struct bench *b = s->b;
    double each[GROUP_MAX_RANKS];
    char what[64];
    for (int32_t r = 0; r < b->group.dcp; r++)
        aim(s, r, r + 1);
    s->to_all = true;
    s->tag += 64;
    bench_time(b, BENCH_ALL, launch_stores, s, 4, each);
    printf("all ranks to all their peers at once, GB/s sent by each:");
    for (int32_t r = 0; r < b->group.dcp; r++) {
        double gbs = (double)s->bytes * (b->group.dcp - 1) / each[r] / 1e3;
        for (int32_t to = 0; to < b->group.dcp; to++)
            if (to != r) look_at(s, r, to);
        snprintf(what, sizeof what, "rank %d to all, all at once", r);
        bench_figure(b, "bandwidth", what, gbs, "GB/s");
        print_cell(b, gbs);
    }
    printf("\n");
    fflush(stdout);
}

void bench_bandwidth(struct bench *b) {
    struct stores s = {.b = b, .bytes = b->on_cpu ? 4096 : (uint64_t)16 << 20, .tag = 1000};
    char text[64];
    int sms = b->on_cpu ? 1 : 132;
    snprintf(text, sizeof text, "peer_store dcp=1 sms=%d", sms);
    load_all(b, s.one, text);
    snprintf(text, sizeof text, "peer_store dcp=%d sms=%d", b->group.dcp - 1, sms);
    load_all(b, s.all, text);
    for (int32_t r = 0; r < b->group.dcp; r++) {
        s.landing[r] = bench_memory(b, r, s.bytes * (uint64_t)b->group.dcp, 0);
        s.targets[r] = bench_memory(b, r, 256, 0);
    }
    printf("\nbandwidth: %llu KB to each peer in stores of 16 bytes, %d CTAs of 512 threads, GB/s\n",
           (unsigned long long)s.bytes >> 10, sms);
    print_columns(b);
    for (int32_t from = 0; from < b->group.dcp; from++)
        send_row(&s, from);
    send_all(&s);
    for (int32_t r = 0; r < b->group.dcp; r++)
        bench_free(b, r, s.landing[r]), bench_free(b, r, s.targets[r]);
    free_all(b, s.one);
    free_all(b, s.all);
}

/* ---- node(X) ------------------------------------------------------------------------------------- */

static const uint32_t node_bytes[] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
enum { NODE_SIZES = sizeof node_bytes / sizeof *node_bytes, NODES = 240 };

struct nodes {
    struct bench *b;
    dcpk_kernel *kernels[GROUP_MAX_RANKS];
    uint64_t boxes[GROUP_MAX_RANKS], tables[GROUP_MAX_RANKS], states[GROUP_MAX_RANKS], limit;
    uint32_t room, chunks;
    uint32_t flags;
};

static void launch_node(void *self, int32_t r, int i) {
    struct nodes *n = self;
    uint32_t rank = (uint32_t)r, parity = (uint32_t)i & 1;
    void *params[] = {&n->tables[r], &n->room, &n->chunks, &rank, &parity, &n->states[r], &n->limit};
    launch_raw(n->b, r, n->kernels[r], params, i == 0 ? DCPK_LAUNCH_NO_PDL : n->flags);
}

/* Nobody gave up, nothing wrong came, everything is armed. */
static void look_at_nodes(struct nodes *n) {
    struct bench *b = n->b;
    uint64_t bytes = (uint64_t)2 * (uint64_t)b->group.dcp * n->room * 16;
    uint32_t *words = bench_room(1, bytes), state[2];
    char why[96] = "";
    for (int32_t r = 0; r < b->group.dcp && why[0] == '\0'; r++) {
        read_from(b, r, state, n->states[r], sizeof state);
        read_from(b, r, words, n->boxes[r], bytes);
        if (state[0] || state[1])
            snprintf(why, sizeof why, "rank %d: %u threads gave up, %u chunks held something wrong", r, state[0],
                     state[1]);
        for (uint64_t i = 0; i < bytes / 4 && why[0] == '\0'; i++)
            if (words[i] != 0xFFFFFFFF)
                snprintf(why, sizeof why, "rank %d: word %llu is not armed", r, (unsigned long long)i);
    }
    free(words);
    if (why[0] != '\0') bench_fail("node(X)", why);
}

static double node(struct nodes *n, uint32_t bytes, bool pdl) {
    uint32_t peers = n->b->group.dcp > 1 ? (uint32_t)n->b->group.dcp - 1 : 1;
    n->chunks = (bytes / 16 + peers - 1) / peers;
    n->flags = pdl ? 0 : DCPK_LAUNCH_NO_PDL;
    double us = bench_time(n->b, BENCH_ALL, launch_node, n, n->b->on_cpu ? 2 : NODES, NULL);
    look_at_nodes(n);
    return us;
}

void bench_node_head(const struct bench *b) {
    printf(
        "\nnode(X): one graph node in which each of the ranks pushes X in all to its peers, polls X and arms it again, "
        "us; with PDL / without / with PDL and the publisher's fence\n%6s",
        "ranks");
    for (int i = 0; i < (b->on_cpu ? 1 : NODE_SIZES); i++)
        printf("  %10u KB   ", node_bytes[i] >> 10);
    printf("\n");
}

static void open_nodes(struct nodes *n, struct bench *b) {
    uint32_t most = node_bytes[b->on_cpu ? 0 : NODE_SIZES - 1] / 16,
             peers = b->group.dcp > 1 ? (uint32_t)b->group.dcp - 1 : 1;
    uint64_t ranks = (uint64_t)b->group.dcp;
    n->b = b;
    n->room = (most + peers - 1) / peers;
    n->limit = bound_ns(b);
    for (int32_t r = 0; r < b->group.dcp; r++) {
        n->boxes[r] = bench_memory(b, r, 2 * ranks * n->room * 16, 0xFFFFFFFF);
        n->states[r] = bench_memory(b, r, 256, 0);
        n->tables[r] = bench_memory(b, r, 256, 0);
    }
    for (int32_t r = 0; r < b->group.dcp; r++)
        write_to(b, r, n->tables[r], n->boxes, ranks * 8);
}

void bench_node(struct bench *b) {
    struct nodes n = {0};
    double us[3][NODE_SIZES];
    char text[96], what[96];
    int sizes = b->on_cpu ? 1 : NODE_SIZES;
    open_nodes(&n, b);
    for (int fence = 0; fence < 2; fence++) {
        snprintf(text, sizeof text, "peer_exchange dcp=%d sms=%d checked=%d", b->group.dcp, b->on_cpu ? 1 : 132, fence);
        load_all(b, n.kernels, text);
        for (int i = 0; i < sizes && !fence; i++)
            us[0][i] = node(&n, node_bytes[i], true), us[1][i] = node(&n, node_bytes[i], false);
        for (int i = 0; i < sizes && fence; i++)
            us[2][i] = node(&n, node_bytes[i], true);
        free_all(b, n.kernels);
    }
    printf("%6d", b->group.dcp);
    for (int i = 0; i < sizes; i++) {
        static const char *const how[] = {"pdl=1", "pdl=0", "pdl=1 fence"};
        for (int k = 0; k < 3; k++) {
            snprintf(what, sizeof what, "push+poll+re-arm %u KB each way, %s", node_bytes[i] >> 10, how[k]);
            bench_figure(b, "node", what, us[k][i], "us a graph node");
        }
        if (b->on_cpu)
            printf("  %16s", "came");
        else
            printf("  %5.2f/%5.2f/%5.2f", us[0][i], us[1][i], us[2][i]);
    }
    printf("\n");
    fflush(stdout);
    for (int32_t r = 0; r < b->group.dcp; r++)
        bench_free(b, r, n.boxes[r]), bench_free(b, r, n.states[r]), bench_free(b, r, n.tables[r]);
}
