/* private.h - marks the runtime's internal functions that gen calls. libdcpk.so exports them under a symbol version
 * that only the libdcpkgen.so of the same version binds to (tools/packaging/symbols); nobody else may call them. */
#ifndef DCPK_RUNTIME_PRIVATE_H
#define DCPK_RUNTIME_PRIVATE_H

#if defined(__GNUC__)
#define DCPK_PRIVATE __attribute__((visibility("default")))
#else
#define DCPK_PRIVATE
#endif

#endif
