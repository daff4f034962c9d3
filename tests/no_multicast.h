/* no_multicast.h - on hardware nothing here starts multicast, and what other libraries of the same process would start
 * by themselves is switched off by three variables. Programs that open a GPU ask first. */
#ifndef TESTS_NO_MULTICAST_H
#define TESTS_NO_MULTICAST_H

#include <stdbool.h>

/* False: `why` names the first of NCCL_NVLS_ENABLE=0, TORCH_SYMM_MEM_DISABLE_MULTICAST=1, NVSHMEM_DISABLE_NVLS=1 that
 * the environment does not hold, or DCPK_MULTICAST where it allows publish=multicast. device: as
 * dcpk_device_options.kind; the CPU device ("cpu", "cpu:0") needs none of them. */
bool no_multicast_holds(const char *device, char why[256]);
/* The same, or the program ends: a message, exit code 2. */
void no_multicast_or_exit(const char *device);
/* "cpu" or "cuda", or one of them with :LIST, or the program ends the same way: "auto" would take either. */
void device_word_or_exit(const char *device);

#endif
