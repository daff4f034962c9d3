/* cuda_text.h - what CUDA C++ of a template may not say: what would make the image depend on things that no key holds,
 * or lead messages astray. */
#ifndef DCPK_GEN_CUDA_TEXT_H
#define DCPK_GEN_CUDA_TEXT_H

#include "gen/expand.h"

/* Checks the text of an expansion of language CUDA. TEMPLATE, blamed on the template line, for the first breach. */
dcpk_status cuda_text_check(const struct expansion *expansion, dcpk_error *error);

#endif
