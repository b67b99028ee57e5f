/* Paths and small files, through the host's file functions, with error messages. */
#ifndef COMMAND_FILES_H
#define COMMAND_FILES_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* Returns the command's host: the system's files and memory, and a log on standard error. */
eitp_host command_host(void);

/* Makes this thread call `call` each time before it opens, reads or writes a file, or waits, through a host of
   command_host. A run does so many times a second, at least to check free memory. NULL: calls nothing. */
void files_watch(void (*call)(void *user), void *user);

/* Returns the path of a system file or directory, such as /proc/cpuinfo, in a new string: below the environment's
   EITP_SYSTEM_ROOT if it exists there. See eitp_host.system_root. */
char *files_of_system(const char *path);

/* Returns a new string "directory/name". */
char *files_join(const char *directory, const char *name);

/* Returns the directory of a path in a new string; "." if the path has none. */
char *files_parent(const char *path);

/* Returns information about a path. If that fails, the path counts as missing. */
eitp_path_info files_info(const char *path);
int files_is_file(const char *directory, const char *name);

/* True if a file starts with "GGUF". */
int files_is_gguf(const char *path);

/* Fails with "cannot <action> '<path>': <text of code>"; `code` is an errno value. EITP_ERROR_ARGUMENT for a path that
   the user must correct, otherwise EITP_ERROR_IO. */
eitp_status files_fail(eitp_error *error, int code, const char *action, const char *path);

/* Reads a whole file of at most `limit` bytes. A missing one is EITP_ERROR_ARGUMENT. */
eitp_status files_read(const char *path, size_t limit, text_buffer *content, eitp_error *error);

/* Reads all of standard input, at most `limit` bytes. */
eitp_status files_read_input(size_t limit, text_buffer *content, eitp_error *error);

/* Returns standard input as one document, read piece by piece. A signal that stops the command stops it. */
eitp_text_source files_input(void);

/* Writes a file next to `path`, syncs it and renames it to `path`. Failures are EITP_ERROR_IO. */
eitp_status files_replace(const char *path, const void *data, size_t size, eitp_error *error);

/* Creates a directory and its missing parents, all or none. *created is the number created, 0 on failure. */
eitp_status files_create_directories(const char *path, int *created, eitp_error *error);

/* Removes a file or an empty directory. Ignores failures. */
void files_remove(const char *path);

EITP_END_DECLARATIONS

#endif
