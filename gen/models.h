/* models.h - templates/models.lua: the presets of known models. */
#ifndef DCPK_GEN_MODELS_H
#define DCPK_GEN_MODELS_H

#include "gen/host.h"

/* Opens host, runs models.lua, fills *out (malloc'd). */
dcpk_status models_read(struct host *host, struct model_preset **out, uint32_t *count);

#endif
