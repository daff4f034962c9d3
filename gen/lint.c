#include "gen/lint.h"
#include <string.h>
dcpk_status lint(struct expansion *out, dcpk_error *error) { (void)error; for (uint32_t i=0;i<out->entry_count;i++) out->entries[i].waits=strstr(out->ptx,"griddepcontrol.wait")!=NULL; return DCPK_OK; }
