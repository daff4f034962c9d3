/* stand_in.h - images without a compiler: a real image around a hand-made ELF file that holds the named entries and no
 * code worth running. For suites about loading and launching. */
#ifndef DCPK_TESTS_STAND_IN_H
#define DCPK_TESTS_STAND_IN_H

#include <dcpk/image.h>

/* An entry of a stand-in: grid 1, block 128, cluster 1, waits, the parameters of `params` ("query q_box rank", each a
 * name of args.def or box.def, or NAME:TYPE). Change fields before making the image. */
dcpk_entry_info stand_in_entry(const char *name, const char *params);

/* spec: "dcp_value heads=2 dcp=2 batch=4", resolved here. Aborts when it cannot: a test's own fault. */
dcpk_image *stand_in_image(const char *spec, const dcpk_entry_info *entries, uint32_t count);

#endif
