/* ptxas.h - the parts of the ptxas toolchain: finding the program, asking for its version, assembling. */
#ifndef DCPK_GEN_PTXAS_H
#define DCPK_GEN_PTXAS_H

#include "gen/toolchain.h"

/* ptxas_find.c: the program's path in toolchain->path and its file in *st. */
dcpk_status ptxas_find(struct toolchain *toolchain, const struct toolchain_place *place, struct stat *st,
                       dcpk_error *error);

/* ptxas_version.c: fills toolchain->text, from the cache when this very file was asked before. */
dcpk_status ptxas_identify(struct toolchain *toolchain, const struct toolchain_place *place, const struct stat *st,
                           dcpk_error *error);
/* ptxas_version.c: the architectures of the table that its --help lists. */
uint32_t ptxas_archs(struct toolchain *toolchain, const struct toolchain_place *place, const char **names,
                     uint32_t capacity);
/* ptxas.c: how the compiler ended, in words that begin with who ("dcp_value: /usr/bin/ptxas"); OK for exit status 0.
 * text: what is said of another exit status. */
struct process_result;
dcpk_status ptxas_judge(const char *who, const char *text, const struct process_result *result, uint32_t timeout_ms,
                        dcpk_error *error);

#endif
