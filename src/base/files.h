/* File operations through host->files. Every failure names the path, the cause and what to do. */
#ifndef EITP_FILES_H
#define EITP_FILES_H

#include "base/memory.h"
#include "base/status.h"

/* Returns the operating system's files (POSIX). */
EITP__PRIVATE eitp_files eitp__system_files(void);

/* Fails if a host lacks functions, like a zeroed one. `member` is the host's name in a struct of options, and `start`
   the function that the struct should have been started from. */
EITP__PRIVATE eitp_status eitp__check_host(const eitp_host *host, const char *member, const char *start,
                                           eitp_error *error);

/* Number of times that a call is repeated after a transient failure; see eitp_files. */
#define EITP__FILE_RETRIES 5

/* An open file. A path that does not exist or is not a regular file is EITP_ERROR_ARGUMENT, any other failure of the
   file table EITP_ERROR_IO. */
typedef struct eitp__file {
    const eitp_host *host;
    void *handle;
    char *path;
    eitp_file_mode mode;
} eitp__file;

EITP__PRIVATE eitp_status eitp__file_open(eitp__file *file, const eitp_host *host, const char *path,
                                          eitp_file_mode mode, eitp_error *error);
/* Closes a file. Harmless on a zeroed or closed file. */
EITP__PRIVATE eitp_status eitp__file_close(eitp__file *file, eitp_error *error);
EITP__PRIVATE eitp_status eitp__file_size(eitp__file *file, uint64_t *size, eitp_error *error);

/*
 * Detects that the contents of a file may have changed. A write sets the file's time before it copies the data, and two
 * writes within milliseconds leave the same time. So the contents are compared again some time after the file's time
 * has changed. Both members are accessed atomically.
 */
typedef struct eitp__file_stamp {
    uint64_t value;      /* hash of the file's size, time and identity; 0: unknown */
    uint64_t recheck_at; /* when to compare the contents again, in milliseconds of eitp__clock; 0: never */
} eitp__file_stamp;

/* Returns the stamp of a file whose contents are known. */
EITP__PRIVATE eitp__file_stamp eitp__file_stamp_of(const eitp__file *file);

/*
 * Calls compare(owner) if the contents of the file may have changed since it had this stamp, and updates the stamp if
 * they are the same. An EITP_ERROR_FORMAT from `compare` becomes EITP_ERROR_IO, since the file was valid before.
 * Several threads may call it with the same stamp.
 */
EITP__PRIVATE eitp_status eitp__file_check_stamp(const eitp__file *file, eitp__file_stamp *stamp,
                                                 eitp_status (*compare)(const void *owner, eitp_error *error),
                                                 const void *owner, eitp_error *error);

/* A hint that written data will be synced soon. */
EITP__PRIVATE void eitp__file_begin_sync(const eitp__file *file);

/* A hint that these bytes will be read soon. */
EITP__PRIVATE void eitp__file_prefetch(const eitp__file *file, uint64_t offset, size_t size);

/* Reads exactly `size` bytes; a shorter file is EITP_ERROR_FORMAT. */
EITP__PRIVATE eitp_status eitp__file_read(eitp__file *file, uint64_t offset, void *data, size_t size,
                                          eitp_error *error);
/* Reads up to `size` bytes; *done < size only at the end of the file. */
EITP__PRIVATE eitp_status eitp__file_read_some(eitp__file *file, uint64_t offset, void *data, size_t size, size_t *done,
                                               eitp_error *error);
EITP__PRIVATE eitp_status eitp__file_write(eitp__file *file, uint64_t offset, const void *data, size_t size,
                                           eitp_error *error);
/* Truncates the file or extends it with zeros. */
EITP__PRIVATE eitp_status eitp__file_resize(eitp__file *file, uint64_t size, eitp_error *error);
EITP__PRIVATE eitp_status eitp__file_sync(eitp__file *file, eitp_error *error);

/* Fails with EITP_ERROR_FORMAT if the file is a Git LFS pointer, which stands for a large file that was not fetched.
   `bytes` are the first bytes of the file. */
EITP__PRIVATE eitp_status eitp__check_lfs_pointer(const char *path, const char *bytes, size_t size, eitp_error *error);

/* Reads a whole file into `buffer`, replacing its contents. More than `limit` bytes, and a Git LFS pointer, are
   EITP_ERROR_FORMAT. */
EITP__PRIVATE eitp_status eitp__read_file(const eitp_host *host, const char *path, size_t limit, eitp__buffer *buffer,
                                          eitp_error *error);

/* Writes and syncs a whole file in place, for directories that are renamed once complete. */
EITP__PRIVATE eitp_status eitp__write_file(const eitp_host *host, const char *path, const void *data, size_t size,
                                           eitp_error *error);

/* Replaces a file atomically: writes "<path>.tmp", syncs it, renames it to `path` and syncs the directory. */
EITP__PRIVATE eitp_status eitp__replace_file(const eitp_host *host, const char *path, const void *data, size_t size,
                                             eitp_error *error);

/* Writes the text of a buffer with eitp__write_file or, if it `replaces` the file, eitp__replace_file, and releases the
   buffer. Without a directory, `name` is the path. EITP_ERROR_MEMORY if the buffer ran out of memory. */
EITP__PRIVATE eitp_status eitp__store_text(const eitp_host *host, const char *directory, const char *name,
                                           eitp__buffer *text, int replaces, eitp_error *error);

/* True if the error is a full disk or an exceeded quota. */
EITP__PRIVATE int eitp__is_disk_full(const eitp_error *error);

/* Calls eitp_files.space; returns 0 if the space is unknown. */
EITP__PRIVATE int eitp__path_space(const eitp_host *host, const char *path, uint64_t *free_bytes,
                                   uint64_t *largest_file);

/* Waits between two attempts at an operation. */
EITP__PRIVATE void eitp__wait(const eitp_host *host, double seconds);

EITP__PRIVATE eitp_status eitp__path_info(const eitp_host *host, const char *path, eitp_path_info *info,
                                          eitp_error *error);
EITP__PRIVATE eitp_status eitp__path_is_file(const eitp_host *host, const char *path, int *is_file, eitp_error *error);

/* Creates a directory and its missing parents, and makes their names durable; succeeds if it exists. */
EITP__PRIVATE eitp_status eitp__make_directories(const eitp_host *host, const char *path, eitp_error *error);

/* Creates a directory whose parent exists and is synced by the caller; succeeds if it exists. */
EITP__PRIVATE eitp_status eitp__make_directory(const eitp_host *host, const char *path, eitp_error *error);

/* Like eitp__make_directory; sets *is_new to 1 if the directory did not exist. Also succeeds if the path exists as
   something else, which the caller must check. */
EITP__PRIVATE eitp_status eitp__make_new_directory(const eitp_host *host, const char *path, int *is_new,
                                                   eitp_error *error);

/* Adds the number of missing directories in a path, including its parents, to *missing. */
EITP__PRIVATE eitp_status eitp__count_missing(const eitp_host *host, const char *path, int *missing, eitp_error *error);

/* Removes a directory and its parents, `count` in total, as long as they are empty. Failures are ignored. */
EITP__PRIVATE void eitp__remove_directories(const eitp_host *host, const char *path, int count);

/* Removes a file, or a directory and everything in it; succeeds if it does not exist. */
EITP__PRIVATE eitp_status eitp__remove_tree(const eitp_host *host, const char *path, eitp_error *error);

/* Removes everything in a directory. */
EITP__PRIVATE eitp_status eitp__remove_entries(const eitp_host *host, const char *path, eitp_error *error);

/* Returns the size of a file, or of all files below a directory; anything that cannot be read counts as 0. */
EITP__PRIVATE uint64_t eitp__tree_bytes(const eitp_host *host, const char *path);

EITP__PRIVATE eitp_status eitp__rename_path(const eitp_host *host, const char *from, const char *to, eitp_error *error);
/* Calls eitp_files.exchange; returns 0 if it is missing or failed. */
EITP__PRIVATE int eitp__exchange_paths(const eitp_host *host, const char *a, const char *b);
EITP__PRIVATE eitp_status eitp__sync_directory(const eitp_host *host, const char *path, eitp_error *error);
/* Syncs the directory that contains `path`, where permissions allow it. */
EITP__PRIVATE eitp_status eitp__sync_parent(const eitp_host *host, const char *path, eitp_error *error);

/* Lists a directory: stores the names in `names`, sorted by bytes, each followed by a zero byte. */
EITP__PRIVATE eitp_status eitp__list_directory(const eitp_host *host, const char *path, eitp__buffer *names,
                                               size_t *count, eitp_error *error);

/* Returns the directory part of a path as a new string, "." if it has none; NULL if out of memory. */
EITP__PRIVATE char *eitp__parent_directory(const eitp_host *host, const char *path);

/* Returns the absolute path of a file or directory as a new string, or a copy of the path if that is unknown; NULL if
   out of memory. */
EITP__PRIVATE char *eitp__absolute_path(const eitp_host *host, const char *path);

/* Returns a new string "directory/name"; NULL if out of memory. Release it with eitp__release_text. */
EITP__PRIVATE char *eitp__join_path(const eitp_host *host, const char *directory, const char *name);

/* Like eitp__join_path, but running out of memory is an error. */
EITP__PRIVATE eitp_status eitp__path_in(const eitp_host *host, const char *directory, const char *name, char **path,
                                        eitp_error *error);

#endif
