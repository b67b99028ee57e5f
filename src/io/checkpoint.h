/* Names of checkpoints, and functions to create, verify and remove them with options. */
#ifndef EITP_CHECKPOINT_H
#define EITP_CHECKPOINT_H

#include "io/pending_directory.h"
#include "io/io.h"
#include "io/manifest.h"

/* Returns the step of a name "checkpoint-<step>"; -1 for other names, leading zeros, and overflow. */
EITP__PRIVATE int64_t eitp__checkpoint_step(const char *name);

/* The head of a checkpoint's metadata. */
typedef struct eitp__checkpoint_head {
    int64_t step;
    int is_counted;   /* by save_total_limit */
    int has_manifest; /* 0: written by an earlier version */
} eitp__checkpoint_head;

/* Reads the head and checks the manifest, but not the files. Errors are as in eitp_checkpoint_verify. */
EITP__PRIVATE eitp_status eitp__checkpoint_read_head(const eitp_host *host, const char *checkpoint,
                                                     eitp__checkpoint_head *head, eitp_error *error);

/* Like eitp__checkpoint_read_head, but also reads the manifest, which the caller has initialized and releases. */
EITP__PRIVATE eitp_status eitp__checkpoint_open(const eitp_host *host, const char *checkpoint,
                                                eitp__checkpoint_head *head, eitp__manifest *manifest,
                                                eitp_error *error);

/* Verifies files of an open checkpoint (see eitp__manifest_check); without a manifest, all files that have a checksum.
   The message of EITP_ERROR_FORMAT does not include advice. */
EITP__PRIVATE eitp_status eitp__checkpoint_check(const eitp_host *host, const char *checkpoint,
                                                 const eitp__checkpoint_head *head, eitp__manifest *manifest,
                                                 eitp__verified verified, eitp_error *error);

/* Opens and checks. */
EITP__PRIVATE eitp_status eitp__checkpoint_verify(const eitp_host *host, const char *checkpoint,
                                                  eitp__verified verified, eitp__checkpoint_head *head,
                                                  eitp_error *error);

/* Like eitp_checkpoint_recover, but verifies only the content of these files. */
EITP__PRIVATE eitp_status eitp__checkpoint_recover(const eitp_host *host, const char *output_directory,
                                                   eitp__verified verified, int64_t *step, eitp_error *error);

/* Restores the names of checkpoints whose replacement was interrupted by a killed process. The caller must hold the
   directory's lock. */
EITP__PRIVATE eitp_status eitp__checkpoint_restore(const eitp_host *host, const char *output_directory,
                                                   eitp_error *error);

/* Like eitp__checkpoint_restore, for readers, which do not hold the lock. Failures are ignored. */
EITP__PRIVATE void eitp__checkpoint_try_restore(const eitp_host *host, const char *output_directory);

/* Creates the pending directory of "checkpoint-<step><suffix>". */
EITP__PRIVATE eitp_status eitp__checkpoint_begin(const eitp_host *host, const char *output_directory,
                                                 const char *suffix, int64_t step, eitp__pending_directory *pending,
                                                 eitp_error *error);

/* Adds manifest.json, makes everything durable, gives the checkpoint its name and releases the pending directory. On
   failure the pending directory is as before: commit it again, or abandon it. */
EITP__PRIVATE eitp_status eitp__checkpoint_commit(eitp__pending_directory *pending, const eitp__manifest *manifest,
                                                  eitp_error *error);

/*
 * eitp_checkpoint_create of "checkpoint-<step><suffix>". `manifest` has the step, whether the checkpoint is counted,
 * and the files whose sums `fill` knows and adds. A resume finds only checkpoints without a suffix.
 */
EITP__PRIVATE eitp_status eitp__checkpoint_create(
    const eitp_host *host, const char *output_directory, const char *suffix, const eitp__manifest *manifest,
    eitp_status (*fill)(void *user, const char *directory, eitp_error *error), void *user, eitp_error *error);

/* Restores or removes the leftovers of unfinished writes and removals. A pending directory is such a leftover too. */
EITP__PRIVATE eitp_status eitp__checkpoint_clean(const eitp_host *host, const char *output_directory,
                                                 eitp_error *error);

/* Like eitp_checkpoint_prune, but also keeps the checkpoints of the steps kept[count], and does not clean. */
EITP__PRIVATE eitp_status eitp__checkpoint_prune(const eitp_host *host, const char *output_directory, int64_t keep,
                                                 const int64_t *kept, size_t count, eitp_error *error);

/* Checkpoints in a directory, and those that eitp__checkpoint_prune would remove. */
typedef struct eitp__checkpoint_use {
    int64_t count, prunable;
    uint64_t bytes, prunable_bytes;
} eitp__checkpoint_use;

EITP__PRIVATE eitp_status eitp__checkpoint_measure(const eitp_host *host, const char *output_directory, int64_t keep,
                                                   const int64_t *kept, size_t count, eitp__checkpoint_use *use,
                                                   eitp_error *error);

#endif
