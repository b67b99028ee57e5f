/* Files that are copies of texts: nobody may read them who may not read the texts. */
#ifndef COMMAND_DATA_PERMISSIONS_H
#define COMMAND_DATA_PERMISSIONS_H

#include "options/options.h"

#include <sys/types.h>

EITP_BEGIN_DECLARATIONS

/*
 * From now on this process creates files in the directory of `path` that only those may read who may read all texts of
 * an option. Returns what permissions_restore takes.
 */
mode_t permissions_lower(const option_set *o, option_id id, const char *path);
void permissions_restore(mode_t before);

EITP_END_DECLARATIONS

#endif
