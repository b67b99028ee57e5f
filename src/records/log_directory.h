/*
 * A directory of records that several runs may share (eitp_run_config.log_dir). Each has its own folder in it, named
 * after the output directory, with a file that names its owner, and locked while the run is open.
 */
#ifndef EITP_LOG_DIRECTORY_H
#define EITP_LOG_DIRECTORY_H

#include "base/files.h"

/* The file in a folder that names its owner: {"output_dir": PATH}. */
#define EITP__OWNER_FILE "owner.json"

/* A zeroed struct has no folder. */
typedef struct eitp__log_directory {
    eitp_host host;
    char *path;  /* of the folder */
    char *owner; /* the path of its EITP__OWNER_FILE */
    int owner_is_new;
    void *lock;
    int has_lock;
} eitp__log_directory;

/*
 * Finds the folder of the run in `output_dir`, which must exist. A run that has recorded before, according to its
 * run.json, continues with its existing records, even if they are directly in `log_dir`, where earlier versions wrote
 * them, or in a folder that belonged to the output directory before that was moved. Creates nothing. Release `folder`
 * even after a failure.
 */
EITP__PRIVATE eitp_status eitp__log_directory_find(eitp__log_directory *folder, const eitp_host *host,
                                                   const char *log_dir, const char *output_dir, eitp_error *error);

/* Locks the folder, which must exist by now, and names its owner. EITP_ERROR_ARGUMENT if another run has the lock. */
EITP__PRIVATE eitp_status eitp__log_directory_take(eitp__log_directory *folder, const char *output_dir,
                                                   eitp_error *error);

/* Removes the owner file if it is new, before an empty folder is removed. */
EITP__PRIVATE void eitp__log_directory_forget(eitp__log_directory *folder);

/* Unlocks the folder and releases the memory. Harmless if zeroed. */
EITP__PRIVATE void eitp__log_directory_release(eitp__log_directory *folder);

#endif
