/* The files with the weights of a model directory. */
#ifndef EITP_WEIGHT_FILES_H
#define EITP_WEIGHT_FILES_H

#include "io/safetensors.h"

/* Opens a directory's weights. *collection is NULL if it has none. */
EITP__PRIVATE eitp_status eitp__weights_open(const eitp_host *host, const char *directory,
                                             eitp__safetensors **collection, eitp_error *error);

/* The same, with the lower planes of a checkpoint's weights attached, so that they are read exactly. */
EITP__PRIVATE eitp_status eitp__weights_open_exact(const eitp_host *host, const char *directory,
                                                   eitp__safetensors **collection, eitp_error *error);

/* Finds the file with the lower planes of a file of weights in a directory: that of the checkpoint which the directory
   is, or whose decoder or encoder it is. *lower, which the caller releases, is NULL if there is none. */
EITP__PRIVATE eitp_status eitp__weights_find_lower(const eitp_host *host, const char *directory, const char *name,
                                                   char **lower, eitp_error *error);

#endif
