/* world_place.c - room on the SMs: which CTAs of the started grids become resident, where and in what order.
 *
 * A CTA starts when one SM has its threads, registers, shared memory and a CTA slot free; the CTAs of a cluster start
 * together. Fairly, a grid begins when all CTAs of the older ones (or of higher priority) have a place; the adversary
 * also lets younger grids in, in any order of CTAs. Owns the counts of struct sm. */
#include "runtime/cpu/world.h"

#include <stdlib.h>

unsigned grid_registers(unsigned threads, unsigned registers_per_thread) {
    /* Registers belong to the SM's four partitions: a warp takes its share of one, in units of 256. */
    unsigned partition = SM_REGISTERS / 4, a_warp = (registers_per_thread * WARP + 255) / 256 * 256;
    return (threads + WARP - 1) / WARP * (partition / (partition / a_warp));
}

unsigned grid_shared(unsigned shared) {
    return (shared + CTA_SHARED_RESERVED + 127) / 128 * 128;
}

static unsigned least(unsigned a, unsigned b) {
    return a < b ? a : b;
}

unsigned grid_ctas_per_sm(unsigned threads, unsigned registers, unsigned shared) {
    unsigned ctas = least(SM_CTAS, SM_THREADS / ((threads + WARP - 1) / WARP * WARP));
    if (registers) ctas = least(ctas, SM_REGISTERS / registers);
    return least(ctas, SM_SHARED / shared);
}

static bool has_room(const struct sm *sm, const struct launch *launch) {
    return sm->ctas + 1 <= SM_CTAS && sm->threads + launch->threads <= SM_THREADS &&
           sm->registers + launch->registers <= SM_REGISTERS && sm->shared + launch->shared <= SM_SHARED;
}

static void take_room(struct sm *sm, const struct launch *launch) {
    sm->ctas++;
    sm->threads += launch->threads;
    sm->registers += launch->registers;
    sm->shared += launch->shared;
}

static void give_room(struct sm *sm, const struct launch *launch) {
    sm->ctas--;
    sm->threads -= launch->threads;
    sm->registers -= launch->registers;
    sm->shared -= launch->shared;
}

void grid_release_room(struct device *device, const struct resident *resident) {
    give_room(&device->sms[resident->sm], resident->launch);
    device->place_again = true;
}

/* SMs for one cluster into sms[], their room taken; false: there is no room, nothing taken. */
static bool find_cluster(struct device *device, const struct launch *launch, unsigned from, unsigned *sms) {
    unsigned count = (unsigned)device->world->options.sms, found = 0;
    for (bool any = true; any && found < launch->cluster_ctas;) { /* one CTA an SM, then a second one, ... */
        any = false;
        for (unsigned i = 0; i < count && found < launch->cluster_ctas; i++) {
            unsigned sm = (from + i) % count;
            if (!has_room(&device->sms[sm], launch)) continue;
            take_room(&device->sms[sm], launch);
            sms[found++] = sm;
            any = true;
        }
    }
    if (found == launch->cluster_ctas) return true;
    while (found)
        give_room(&device->sms[sms[--found]], launch);
    return false;
}

static void set_index(struct cta *cta, const struct launch *launch, unsigned cluster, unsigned member) {
    const struct grid *grid = &launch->grid;
    for (unsigned d = 0; d < 3; d++) {
        unsigned across = grid->dim[d] / grid->cluster[d];
        cta->index[d] = cluster % across * grid->cluster[d] + member % grid->cluster[d];
        cluster /= across;
        member /= grid->cluster[d];
    }
    cta->linear = cta->index[0] + grid->dim[0] * (cta->index[1] + grid->dim[1] * cta->index[2]);
}

static bool add_resident(struct device *device, struct resident *resident) {
    if (device->resident_count == device->resident_capacity) {
        unsigned capacity = device->resident_capacity ? device->resident_capacity * 2 : 64;
        struct resident **residents = realloc(device->residents, capacity * sizeof *residents);
        if (!residents) return false;
        device->residents = residents;
        device->resident_capacity = capacity;
    }
    resident->slot = device->resident_count;
    device->residents[device->resident_count++] = resident;
    return true;
}

static struct resident *make_resident(struct world *world, struct launch *launch, unsigned sm) {
    struct resident *resident = calloc(1, sizeof *resident);
    if (!resident) return NULL;
    resident->cta.grid = &launch->grid;
    resident->launch = launch;
    resident->sm = sm;

    resident->watches = calloc(launch->warps, sizeof *resident->watches);
    if (resident->watches && add_resident(launch->grid.device, resident)) {
        for (unsigned w = 0; w < launch->warps; w++)
            resident->watches[w].since = world->time;
        return resident;
    }
    free(resident->watches);
    free(resident);
    return NULL;
}

static bool start_cta(struct world *world, struct launch *launch, unsigned sm, unsigned cluster, unsigned member,
                      struct cluster *together) {
    struct device *device = launch->grid.device;
    struct resident *resident = make_resident(world, launch, sm);
    if (!resident) return false;
    set_index(&resident->cta, launch, cluster, member);
    resident->cta.cluster = together;
    resident->cta.rank = member;
    struct resident *first = (struct resident *)(void *)together->ctas[0];
    bool known = order_resident(world, resident, first);
    if (!known || cta_start(&resident->cta)) {
        device->resident_count--;
        order_resident_free(resident);
        free(resident->watches);
        free(resident);
        return false;
    }
    for (unsigned w = 0; w < resident->cta.warp_count; w++)
        resident->cta.warps[w]->world_data = &resident->watches[w];
    device->resident_warps += resident->cta.warp_count;
    launch->grid.ctas_started++;
    together->ctas[member] = &resident->cta;
    together->left++;
    return true;
}

void cluster_leave(struct cta *cta) {
    struct cluster *cluster = cta->cluster;
    cluster->ctas[cta->rank] = NULL;
    cta->cluster = NULL;
    if (--cluster->left == 0) free(cluster);
}

static bool place_cluster(struct world *world, struct device *device, struct launch *launch) {
    unsigned sms[CLUSTER_CTAS] = {0}, all = (unsigned)world->options.sms;
    bool adversary = world->options.schedule == DCPKCPU_RANDOM;
    if (!find_cluster(device, launch, adversary ? world_below(world, all) : device->sm_turn, sms)) return false;
    device->sm_turn = (sms[launch->cluster_ctas - 1] + 1) % all;
    unsigned cluster = launch->turns ? launch->turns[launch->next_cluster] : launch->next_cluster;
    struct cluster *together = calloc(1, sizeof *together);
    launch->next_cluster++;
    if (together) together->size = launch->cluster_ctas;
    unsigned m = 0;
    do { /* a cluster has a CTA at least */
        if (together && start_cta(world, launch, sms[m], cluster, m, together)) continue;
        if (together && !together->left) free(together);
        world_fail_text(world, RESULT_LAUNCH_FAILED, "out of host memory for a CTA's registers");
        return false;
    } while (++m < launch->cluster_ctas);
    world_progressed(world);
    world->dirty = true;
    return true;
}

static bool is_unplaced(const struct launch *launch) {
    return launch->next_cluster < launch->clusters;
}

/* Of the unplaced grids the one to place next: highest priority (the lowest number), then oldest. */
static struct launch *head_of_line(const struct device *device) {
    struct launch *head = NULL;
    for (struct launch *l = device->started; l; l = l->next)
        if (is_unplaced(l) && (!head || l->priority < head->priority)) head = l;
    return head;
}

static void place_fairly(struct world *world, struct device *device) {
    device->place_again = false;
    for (struct launch *head; (head = head_of_line(device)) != NULL;)
        while (is_unplaced(head))
            if (!place_cluster(world, device, head)) return;
}

/* Some of what could start now, of any grid; the rest later. */
static void place_adversely(struct world *world, struct device *device) {
    device->place_again = false;
    for (struct launch *l = device->started; l && !world->faulted; l = l->next) {
        if (!is_unplaced(l)) continue;
        unsigned left = l->clusters - l->next_cluster;
        unsigned count = world_below(world, 4) ? left : world_below(world, left) + 1;
        while (count && place_cluster(world, device, l))
            count--;
        if (is_unplaced(l)) device->place_again = true;
        if (is_unplaced(l) && world_below(world, 2)) return; /* as hardware does: the younger wait */
    }
}

void grid_place(struct world *world, struct device *device) {
    if (!device->place_again) return;
    if (world->options.schedule == DCPKCPU_RANDOM)
        place_adversely(world, device);
    else
        place_fairly(world, device);
}

bool grid_could_place(const struct world *world, const struct device *device) {
    bool fair = world->options.schedule != DCPKCPU_RANDOM;
    const struct launch *head = head_of_line(device);
    for (const struct launch *l = device->started; l; l = l->next) {
        if (!is_unplaced(l) || (fair && l != head)) continue;
        unsigned room = 0;
        for (int s = 0; s < world->options.sms; s++) { /* how many CTAs fit beside what is there */
            struct sm sm = device->sms[s];
            while (room < l->cluster_ctas && has_room(&sm, l)) {
                take_room(&sm, l);
                room++;
            }
        }
        if (room >= l->cluster_ctas) return true;
    }
    return false;
}
