/* dcpk.h - everything a user of the runtime needs in one include; generators add <dcpk/gen.h>. */
#ifndef DCPK_DCPK_H
#define DCPK_DCPK_H
#include <dcpk/base.h>
#include <dcpk/spec.h>
#include <dcpk/image.h>
#include <dcpk/pack.h>
#include <dcpk/runtime.h>
#include <dcpk/box.h>
#include <dcpk/layer.h>
#include <dcpk/module.h>
#endif
