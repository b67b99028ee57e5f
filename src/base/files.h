/* The host's file table with messages: every failure names the path, the cause and what to do. */
#ifndef EITP_FILES_H
#define EITP_FILES_H

#include "base/memory.h"
#include "base/status.h"

/* The operating system's files (POSIX). */
EITP__PRIVATE eitp_files eitp__system_files(void);

/*
 * An open file. A path that is missing, or not a regular file, is EITP_ERROR_ARGUMENT; every other failure
 * is EITP_ERROR_IO.
 */
typedef struct eitp__file {
    const eitp_host *host;
    void *handle;
    char *path;
} eitp__file;

EITP__PRIVATE eitp_status eitp__file_open(eitp__file *file, const eitp_host *host, const char *path,
                                          eitp_file_mode mode, eitp_error *error);
EITP__PRIVATE eitp_status eitp__file_close(eitp__file *file,
                                           eitp_error *error); /* harmless on a zeroed or closed file */
EITP__PRIVATE eitp_status eitp__file_size(eitp__file *file, uint64_t *size, eitp_error *error);

/* Tells that these bytes will be read soon. */
EITP__PRIVATE void eitp__file_prefetch(const eitp__file *file, uint64_t offset, size_t size);

/* All of `size` bytes, or an error; a file that ends before is EITP_ERROR_FORMAT ("ends after N bytes"). */
EITP__PRIVATE eitp_status eitp__file_read(eitp__file *file, uint64_t offset, void *data, size_t size,
                                          eitp_error *error);
/* Up to `size` bytes; *done is smaller only at the end of the file. */
EITP__PRIVATE eitp_status eitp__file_read_some(eitp__file *file, uint64_t offset, void *data, size_t size, size_t *done,
                                               eitp_error *error);
EITP__PRIVATE eitp_status eitp__file_write(eitp__file *file, uint64_t offset, const void *data, size_t size,
                                           eitp_error *error);
/* Cuts the file, or extends it with zeros. */
EITP__PRIVATE eitp_status eitp__file_resize(eitp__file *file, uint64_t size, eitp_error *error);
EITP__PRIVATE eitp_status eitp__file_sync(eitp__file *file, eitp_error *error);

/* A whole file of at most `limit` bytes into `buffer`. */
EITP__PRIVATE eitp_status eitp__read_file(const eitp_host *host, const char *path, size_t limit, eitp__buffer *buffer,
                                          eitp_error *error);

/* Writes and syncs a whole file in place: for files inside a directory that is renamed when complete. */
EITP__PRIVATE eitp_status eitp__write_file(const eitp_host *host, const char *path, const void *data, size_t size,
                                           eitp_error *error);

/* Writes beside `path`, syncs, renames over it and syncs the directory: the old content or the new one, never a part.
 */
EITP__PRIVATE eitp_status eitp__replace_file(const eitp_host *host, const char *path, const void *data, size_t size,
                                             eitp_error *error);

EITP__PRIVATE eitp_status eitp__path_info(const eitp_host *host, const char *path, eitp_path_info *info,
                                          eitp_error *error);

/* Makes a directory and its missing parents; what is there already is fine. */
EITP__PRIVATE eitp_status eitp__make_directories(const eitp_host *host, const char *path, eitp_error *error);

/* Removes a directory and everything in it; a missing one is fine. */
EITP__PRIVATE eitp_status eitp__remove_tree(const eitp_host *host, const char *path, eitp_error *error);

EITP__PRIVATE eitp_status eitp__rename_path(const eitp_host *host, const char *from, const char *to, eitp_error *error);
EITP__PRIVATE eitp_status eitp__sync_directory(const eitp_host *host, const char *path, eitp_error *error);

/* The names in a directory, sorted by bytes: `names` gets them one after the other, each with its zero byte. */
EITP__PRIVATE eitp_status eitp__list_directory(const eitp_host *host, const char *path, eitp__buffer *names,
                                               size_t *count, eitp_error *error);

/* "directory/name" in a new text, NULL when memory runs out. */
EITP__PRIVATE char *eitp__join_path(const eitp_host *host, const char *directory, const char *name);

#endif
