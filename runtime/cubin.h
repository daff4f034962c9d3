/* cubin.h - is this a whole cubin with these kernels for this architecture, and what do they use?
 * A compiler's exit status is no proof: ptxas exits 0 on a full disk and leaves the file's first 4096 bytes. */
#ifndef DCPK_RUNTIME_CUBIN_H
#define DCPK_RUNTIME_CUBIN_H

#include <dcpk/image.h>

/* Checks that bytes are an ELF64 file of NVIDIA's machine whose every header, segment and section lies inside and ends
 * where the file ends, that it was built for `arch` ("sm_90a"), and that each of the entries (by name) is a global
 * function with code. Fills registers, static_shared and local_bytes of each entry.
 * BAD_CUBIN says what is wrong and, where it can, at which byte; ARCH for an architecture that the table lacks. */
dcpk_status cubin_check(const void *bytes, size_t length, const char *arch, dcpk_entry_info *entries,
                        uint32_t entry_count, dcpk_error *error);

#endif
