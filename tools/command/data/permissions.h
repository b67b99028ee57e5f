/* Permissions of files that are copies of text: only users who can read the text may read them. */
#ifndef COMMAND_DATA_PERMISSIONS_H
#define COMMAND_DATA_PERMISSIONS_H

#include "options/options.h"

#include <sys/types.h>

EITP_BEGIN_DECLARATIONS

/*
 * Makes new files of this process in the directory of `path` readable only by users who can read all text files of an
 * option. Returns a value for permissions_restore.
 */
mode_t permissions_lower(const option_set *o, option_id id, const char *path);
void permissions_restore(mode_t before);

EITP_END_DECLARATIONS

#endif
