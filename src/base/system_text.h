/* Text files of the system, such as those of /proc. */
#ifndef EITP_SYSTEM_TEXT_H
#define EITP_SYSTEM_TEXT_H

#include "base/memory.h"
#include "base/status.h"

/* Reads a whole file through host->files, below host->system_root if it exists there. A file that cannot be read gives
   an empty text, which means unknown; only EITP_ERROR_MEMORY is an error. */
EITP__PRIVATE eitp_status eitp__read_system_text(const eitp_host *host, const char *path, eitp__buffer *text,
                                                 eitp_error *error);

/*
 * Lists a directory of the system: the one below host->system_root if that exists. *directory is the directory that
 * contains the names, or NULL if it is missing. Join the names to it, so that the files of one device are not mixed
 * with the files of another. Release it. A directory that cannot be listed gives no names; only EITP_ERROR_MEMORY is an
 * error.
 */
EITP__PRIVATE eitp_status eitp__list_system_directory(const eitp_host *host, const char *path, char **directory,
                                                      eitp__buffer *names, size_t *count, eitp_error *error);

/* Parses the number of bytes in the first line of `text`, such as "1024" or "1 kB". Returns 0 if the line contains
   anything else or the number is too large. */
EITP__PRIVATE int eitp__parse_bytes(const char *text, uint64_t *bytes);

/* Parses the amount in the line that starts with `name`, in bytes; 0 if the line is missing. */
EITP__PRIVATE uint64_t eitp__find_bytes(const char *text, const char *name);

#endif
