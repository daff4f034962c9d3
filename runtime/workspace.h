/* workspace.h - memory armed by dcpk_workspace_arm (runtime.h): what a device remembers of it. Internal to the runtime.
 */
#ifndef DCPK_RUNTIME_WORKSPACE_H
#define DCPK_RUNTIME_WORKSPACE_H

#include "runtime/kernel.h"

/* ARG for a kernel whose CTAs meet in memory that is not armed. What another kernel of mla_decode uses is not armed any
 * more. Any thread; takes no lock. */
dcpk_status dcpk_workspace_check(const dcpk_kernel *kernel, const struct kernel_entry *entry, uint64_t workspace,
                                 dcpk_error *error);
/* Memory that is given back, or used otherwise. */
void dcpk_workspace_forget(dcpk_device *device, uint64_t from, uint64_t bytes);
/* With the device. */
void dcpk_workspace_end(dcpk_device *device);

#endif
