/* Opens the weight files of a model directory. */
#ifndef EITP_WEIGHT_FILES_H
#define EITP_WEIGHT_FILES_H

#include "io/safetensors.h"

/* Opens a directory's weights. *collection is NULL if it has none. */
EITP__PRIVATE eitp_status eitp__weights_open(const eitp_host *host, const char *directory,
                                             eitp__safetensors **collection, eitp_error *error);

/* Like eitp__weights_open, with the lower planes of a checkpoint's weights attached, so that they are read exactly. */
EITP__PRIVATE eitp_status eitp__weights_open_exact(const eitp_host *host, const char *directory,
                                                   eitp__safetensors **collection, eitp_error *error);

/* Finds the file with the lower planes for a weight file in a directory that is a checkpoint, or the decoder or encoder
   of one. *lower, which the caller releases, is NULL if the file does not exist. */
EITP__PRIVATE eitp_status eitp__weights_find_lower(const eitp_host *host, const char *directory, const char *name,
                                                   char **lower, eitp_error *error);

#endif
