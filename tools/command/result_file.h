/* A result written to a path that the user names. */
#ifndef COMMAND_RESULT_FILE_H
#define COMMAND_RESULT_FILE_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* The file that `path` leads to, as a new text: symbolic links at its end are followed, also one to a file that does
   not exist. NULL: they form a loop, and `error` says so. */
char *result_file_target(const char *path, eitp_error *error);

/*
 * Writes a result. A regular file, or a new one, is replaced atomically; of a symbolic link the target is replaced and
 * the link stays. Anything else, such as a pipe or a device, is written into, and so is an open descriptor such as
 * /dev/stdout. *is_output, if not NULL: the result went to standard output.
 */
eitp_status result_file_write(const char *path, const void *data, size_t size, int *is_output, eitp_error *error);

EITP_END_DECLARATIONS

#endif
