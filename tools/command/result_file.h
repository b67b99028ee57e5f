/* A result written to a path that the user names. */
#ifndef COMMAND_RESULT_FILE_H
#define COMMAND_RESULT_FILE_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* Returns the file that `path` leads to in a new string. Follows symbolic links at its end, also to a file that does
   not exist. NULL with `error` set if they form a loop. */
char *result_file_target(const char *path, eitp_error *error);

/*
 * Writes a result. A regular or new file is replaced atomically. For a symbolic link the target is replaced and the
 * link stays. Anything else, such as a pipe, a device, or an open descriptor such as /dev/stdout, is written to
 * directly. *is_output, if not NULL, is 1 if the result went to standard output.
 */
eitp_status result_file_write(const char *path, const void *data, size_t size, int *is_output, eitp_error *error);

/* A result of any size, written piece by piece. Standard output when zero-initialized. */
typedef struct result_stream {
    const char *path;       /* NULL: standard output */
    char *target, *partial; /* the file to replace, and the file that replaces it; partial NULL: none */
    FILE *file;
} result_stream;

/* Opens a path like result_file_write: result_stream_finish replaces a regular file. NULL: standard output. `path` must
   outlive the stream. Close it with result_stream_discard in any case. */
eitp_status result_stream_open(result_stream *stream, const char *path, eitp_error *error);

eitp_status result_stream_write(result_stream *stream, const char *data, size_t size, eitp_error *error);

/* Flushes the stream. *is_closed is 1 if standard output cannot be written, which output_finish reports. */
eitp_status result_stream_flush(result_stream *stream, int *is_closed, eitp_error *error);

/* Completes the result. */
eitp_status result_stream_finish(result_stream *stream, eitp_error *error);

/* Closes the stream. Unless it was finished, the file stays unchanged. */
void result_stream_discard(result_stream *stream);

EITP_END_DECLARATIONS

#endif
