/* json_text.h - JSON strings of texts that others wrote: paths, arguments, variables, messages that quote them. JSON
 * holds UTF-8 alone; such texts are any bytes. */
#ifndef DCPK_TOOLS_JSON_TEXT_H
#define DCPK_TOOLS_JSON_TEXT_H

#include <jansson.h>

/* Never NULL. A byte that begins no UTF-8 sequence becomes U+FFFD, as does every byte of one that is none. */
json_t *json_text(const char *text);

#endif
