/* loader.h - whether libraries can be opened in this program. Internal; gen asks before it opens a compiler's. */
#ifndef DCPK_RUNTIME_LOADER_H
#define DCPK_RUNTIME_LOADER_H

#include "runtime/private.h"

#include <stdbool.h>

/* False in a program that is linked statically as a whole (gcc -static): glibc's dlopen is there, but a library that it
 * opens has no usable thread-local memory and crashes at its first use. */
DCPK_PRIVATE bool dcpk_loader_there(void);

#define DCPK_NO_LOADER                                                                                                 \
    "this program is linked statically as a whole, so no library can be opened in it: link it without -static "        \
    "(libdcpk.a alone may be static)"

#endif
