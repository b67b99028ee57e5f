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

/* A result of any size that is written piece by piece. Zeroed, it is standard output. */
typedef struct result_stream {
    const char *path;       /* NULL: standard output */
    char *target, *partial; /* the file that is replaced, and the one that replaces it; partial NULL: none */
    FILE *file;
} result_stream;

/* Opens a path in the way of result_file_write: a regular file is replaced by result_stream_finish. NULL: standard
   output. `path` must outlive the stream. Close it with result_stream_discard in any case. */
eitp_status result_stream_open(result_stream *stream, const char *path, eitp_error *error);

eitp_status result_stream_write(result_stream *stream, const char *data, size_t size, eitp_error *error);

/* Passes on what was written. *is_closed is 1 if standard output cannot be written, which output_finish reports. */
eitp_status result_stream_flush(result_stream *stream, int *is_closed, eitp_error *error);

/* The result is complete. */
eitp_status result_stream_finish(result_stream *stream, eitp_error *error);

/* Closes the stream; unless it was finished, the file stays as it was. */
void result_stream_discard(result_stream *stream);

EITP_END_DECLARATIONS

#endif
