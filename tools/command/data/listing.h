/* The files of a path: the file itself, or all files in a directory and its subdirectories. */
#ifndef COMMAND_DATA_LISTING_H
#define COMMAND_DATA_LISTING_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* Calls `visit` for each file, in any order. Unreadable paths are skipped; packing reports them. */
void listing_visit(const char *path, void (*visit)(void *user, const char *path, const eitp_path_info *info),
                   void *user);

EITP_END_DECLARATIONS

#endif
