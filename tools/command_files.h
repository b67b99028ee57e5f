/* Paths and small files, through the host's table, with messages. */
#ifndef COMMAND_FILES_H
#define COMMAND_FILES_H

#include "command_text.h"

EITP_BEGIN_DECLARATIONS

/* The host of the command: the system's files and memory, the log to standard error. */
eitp_host command_host(void);

/* A new text "directory/name". */
char *files_join(const char *directory, const char *name);

/* The directory that a path is in, in a new text: "." where it names none. */
char *files_parent(const char *path);

/* What a path is; a failure to tell counts as missing. */
eitp_path_info files_info(const char *path);
int files_is_file(const char *directory, const char *name);

/* The failure of a file call: errno `code` on `action` ("read", ...) of `path`. */
eitp_status files_fail(eitp_error *error, int code, const char *action, const char *path);

/* A whole file of at most `limit` bytes. A missing one is EITP_ERROR_ARGUMENT. */
eitp_status files_read(const char *path, size_t limit, text_buffer *content, eitp_error *error);

/* All of standard input, at most `limit` bytes. */
eitp_status files_read_input(size_t limit, text_buffer *content, eitp_error *error);

/* Writes a file beside `path`, syncs it and gives it its name. Failures are EITP_ERROR_IO. */
eitp_status files_replace(const char *path, const void *data, size_t size, eitp_error *error);

/* Makes a directory and its missing parents, all or none; *made gets how many were made, and 0 on failure. */
eitp_status files_make_directories(const char *path, int *made, eitp_error *error);

/* Removes a file or an empty directory; what cannot be removed stays. */
void files_remove(const char *path);

/* Removes a directory and those it is in, `count` in all, as far as they are empty. */
void files_remove_directories(const char *path, int count);

/* Can files be written in a directory? Writes one and removes it. */
eitp_status files_check_writable(const char *directory, eitp_error *error);

EITP_END_DECLARATIONS

#endif
