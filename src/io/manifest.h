/*
 * manifest.json: the files of a checkpoint with their sizes and checksums. It is the last file to be written. Its last
 * member is the checksum of all bytes before that checksum, followed only by a fixed end.
 */
#ifndef EITP_MANIFEST_H
#define EITP_MANIFEST_H

#include "base/checksum.h"
#include "base/files.h"

#define EITP__MANIFEST_FILE "manifest.json"

typedef struct eitp__manifest_file {
    size_t name; /* offset in the manifest's names */
    eitp__file_sum sum;
    int is_verified; /* its content was compared with the sum */
} eitp__manifest_file;

/* A list of files. Names are relative to the checkpoint's directory; those in its subdirectories contain '/'. */
typedef struct eitp__manifest {
    int64_t step;
    int is_counted; /* 0: save_total_limit does not count the checkpoint */
    eitp__buffer names;
    eitp__manifest_file *files;
    size_t count, capacity;
} eitp__manifest;

EITP__PRIVATE void eitp__manifest_init(eitp__manifest *manifest, const eitp_host *host, int64_t step, int is_counted);
EITP__PRIVATE void eitp__manifest_release(eitp__manifest *manifest);

EITP__PRIVATE eitp_status eitp__manifest_add(eitp__manifest *manifest, const char *name, const eitp__file_sum *sum,
                                             eitp_error *error);

/*
 * Adds the files of a directory and its subdirectories that the manifest lacks; they are read and synced. Listed files
 * may still have a temporary name, ending with ".tmp". Errors are as in eitp__manifest_write.
 */
EITP__PRIVATE eitp_status eitp__manifest_add_others(eitp__manifest *manifest, const char *directory, eitp_error *error);

/*
 * Writes manifest.json for everything in a directory and its subdirectories. The files of `known` are listed with the
 * sums given there; all others are read and synced. EITP_ERROR_ARGUMENT if there is anything but files and directories,
 * or a name that is not UTF-8.
 */
EITP__PRIVATE eitp_status eitp__manifest_write(const eitp__manifest *known, const char *directory, eitp_error *error);

/* Reads manifest.json into an initialized manifest and checks it against its own checksum: EITP_ERROR_FORMAT if it is
   damaged. *exists is 0 if the file does not exist. */
EITP__PRIVATE eitp_status eitp__manifest_read(eitp__manifest *manifest, const char *directory, int *exists,
                                              eitp_error *error);

/* The files whose content is verified. Tensors are those in files "*.safetensors". */
typedef enum eitp__verified { EITP__VERIFY_TENSORS = 1, EITP__VERIFY_OTHERS = 2, EITP__VERIFY_ALL = 3 } eitp__verified;

/*
 * Compares files with the manifest: all sizes, and the content of the files in `verified` that were not compared
 * before. EITP_ERROR_FORMAT, with the name of the file, if one is missing or differs.
 */
EITP__PRIVATE eitp_status eitp__manifest_check(eitp__manifest *manifest, const char *directory, eitp__verified verified,
                                               eitp_error *error);

/* True if the manifest lists a file of this size. */
EITP__PRIVATE int eitp__manifest_has_size(const eitp__manifest *manifest, const char *name, uint64_t size);

/* Compares the sum of a file that was read for another purpose. Files that are not listed are ignored. */
EITP__PRIVATE eitp_status eitp__manifest_compare(eitp__manifest *manifest, const char *path, const char *name,
                                                 const eitp__file_sum *sum, eitp_error *error);

/* Reads a file from `offset` on and computes its sum; syncs it if `syncs`. */
EITP__PRIVATE eitp_status eitp__sum_from(const eitp_host *host, const char *path, uint64_t offset, int syncs,
                                         eitp__file_sum *sum, eitp_error *error);

#endif
